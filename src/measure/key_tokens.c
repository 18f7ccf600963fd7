// Which tokens of a text are key tokens, by the rule of LongPPL (arXiv 2410.23771, section 3.2, and its
// authors' longppl.py): with T = trim and S = step, tokens [a + T, a + T + S) are read once within the
// whole text and once within ids [a, a + T + S) alone, for a = 0, S, 2 S, ... So in the trimmed text
// each has T to T + S - 1 tokens before it. One thing differs: where texts begin with BOS, so does
// each trimmed one, in place of its first token. Without it models that lean on BOS (Gemma) read
// nothing well, and all tokens would be key.
#include "key_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "measure.h"

bool keys_fit(const KeyOptions *o, int n, Error *err) {
    return o->trim < n ||
           fail(err,
                "--keys %d: no token of %d positions has more than %d before it (a larger -n, or a "
                "smaller --keys, expected)",
                o->trim, n, o->trim);
}

static Session *open_reader(const Job *job, const KeyJudge *judge, int context, Error *err) {
    SessionConfig config = session_config(job, &judge->plan, context);
    config.short_heads.is_short = NULL;  // whatever the methods see, the judge sees all
    config.best_keys = 0;
    if (config.kv != KV_F32) config.kv = KV_F16;
    return session_new(job->model, &config, err);
}

bool judge_open(KeyJudge *judge, const Job *job, int n, Error *err) {
    const KeyOptions *o = &job->options->keys;
    *judge = (KeyJudge){.o = o, .n = n, .bos = tokenizer_bos(job->tokenizer)};
    if (!keys_fit(o, n, err)) return false;
    if (!(o->judge_name ? plan_for_job(job, &o->judge, &job->rope_file->rope, &judge->plan, err)
                        : reference_plan(job, false, 1, &judge->plan, err)))
        return fail(err, "--judge: %s", err->text);
    judge->plan.stale_keys = false;
    const int piece = o->step < n - o->trim ? o->trim + o->step : n;
    judge->piece = alloc_array((uint64_t)piece, sizeof *judge->piece, "a trimmed text", err);
    judge->whole = judge->piece ? open_reader(job, judge, n, err) : NULL;
    judge->trimmed = judge->whole ? open_reader(job, judge, piece, err) : NULL;
    return judge->trimmed;
}

void judge_close(KeyJudge *judge) {
    session_free(judge->whole);
    session_free(judge->trimmed);
    free(judge->piece);
}

// The first piece is read whole already.
bool judge_read(KeyJudge *judge, const int32_t *window, double *whole, double *trimmed,
                Error *err) {
    const int trim = judge->o->trim;
    const int n = judge->n;
    session_rewind(judge->whole, 0);
    if (!score_span(judge->whole, (Span){window, trim, n, n}, whole + trim, err)) return false;
    for (int from = trim, to; from < n; from = to) {
        to = n - from > judge->o->step ? from + judge->o->step : n;
        const int start = from - trim;
        const int length = to - start;
        if (start == 0) {
            memcpy(trimmed + from, whole + from, (size_t)(to - from) * sizeof *whole);
            continue;
        }
        memcpy(judge->piece, window + start, (size_t)length * sizeof *window);
        if (judge->bos >= 0) judge->piece[0] = judge->bos;
        session_rewind(judge->trimmed, 0);
        const Span span = {judge->piece, trim, length, length};
        if (!score_span(judge->trimmed, span, trimmed + from, err)) return false;
    }
    return true;
}

bool is_key_token(const KeyOptions *o, double whole, double trimmed) {
    return trimmed - whole > o->gain && whole < o->loss;
}
