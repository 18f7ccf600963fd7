// The row of --check --like: another model reads the same stretches of text. Models with one
// tokenizer are compared token by token. With two, what each gives to the same bytes is.
#include "check_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIKE_SAMPLE = 64,  // tokens of a sample, at least
    MOST_TIMES = 4,    // as many tokens as ours may the other's stretch have
    MOST_OTHER = MOST_TIMES * MOST_WINDOW,
};

struct Likeness {
    Model model;
    RopeFile said;
    RopePlan plan;
    Options options;
    Job job;               // of this model
    Tokenizer *tokenizer;  // of its own; NULL: it is the other's
    bool same_tokens;
    Session *session;  // NULL: not opened yet
};

// A stretch by a model: tokens, where each ends in the text's bytes, and -ln p from token number
// `from` on.
typedef struct {
    int32_t ids[MOST_OTHER];
    size_t ends[MOST_OTHER];
    double nll[MOST_OTHER];
    int n, from;
} ScoredText;

// ---- opening ----

static bool has_same_tokens(const Tokenizer *a, const Tokenizer *b, int n) {
    size_t length_a, length_b;
    for (int id = 0; id < n; id++) {
        const char *piece_a = tokenizer_decode(a, -1, id, &length_a);
        const char *piece_b = tokenizer_decode(b, -1, id, &length_b);
        if (length_a != length_b || memcmp(piece_a, piece_b, length_a) != 0) return false;
    }
    return tokenizer_bos(a) == tokenizer_bos(b);
}

// Its own tokenizer, or, where none lies beside a model with as many tokens, ours: it is another
// copy of one model.
static bool find_its_tokenizer(Likeness *like, const Job *ours, const char *path, Error *err) {
    const int n = like->model.config.vocab_size;
    const bool same_size = n == ours->model->config.vocab_size;
    char room[4096];
    like->job.tokenizer = ours->tokenizer;
    like->same_tokens = same_size;
    if (same_size && !tokenizer_is_beside(path)) return true;
    const char *exporter = exporter_command(room, sizeof room);
    like->tokenizer = tokenizer_find(NULL, path, n, exporter, err);
    if (!like->tokenizer) return false;
    like->job.tokenizer = like->tokenizer;
    like->same_tokens = same_size && has_same_tokens(like->tokenizer, ours->tokenizer, n);
    return true;
}

Likeness *like_open(const Job *ours, const char *path, Error *err) {
    Likeness *like = alloc_array(1, sizeof *like, "a model", err);
    if (!like) return NULL;
    if (!open_model(path, &like->model, err)) {
        free(like);
        return NULL;
    }
    said_by_model(&like->model, &like->said);
    like->options = (Options){.model_path = path, .sessions = ours->options->sessions};
    like->job = (Job){
        .options = &like->options,
        .model = &like->model,
        .said = &like->said,
        .length = MOST_WINDOW,
        .plans = &like->plan,
        .n_plans = 1,
    };
    like->job.kinds = kinds_of_layers(&like->model, &like->said);
    if (find_its_tokenizer(like, ours, path, err) &&
        reference_plan(&like->job, false, 1, &like->plan, err))
        return like;
    like_close(like);
    return NULL;
}

void like_close(Likeness *like) {
    if (!like) return;
    session_free(like->session);
    tokenizer_free(like->tokenizer);
    model_close(&like->model);
    free(like);
}

// ---- reading ----

// Where the stretch's tokens end in bytes, which `text` gets if it is not NULL. Returns the number
// of bytes.
static size_t find_ends(const Tokenizer *tokenizer, ScoredText *s, char *text) {
    size_t at = 0;
    for (int i = 0; i < s->n; i++) {
        size_t length;
        const char *piece =
            tokenizer_decode(tokenizer, i > 0 ? s->ids[i - 1] : -1, s->ids[i], &length);
        if (text) memcpy(text + at, piece, length);
        at += length;
        s->ends[i] = at;
    }
    return at;
}

// Leaves the last `most` tokens, of which `scored` are scored, if there are so many.
static void keep_last(ScoredText *s, int most, int scored) {
    const int left_out = s->n > most ? s->n - most : 0;
    s->n -= left_out;
    memmove(s->ids, s->ids + left_out, (size_t)s->n * sizeof *s->ids);
    memmove(s->ends, s->ends + left_out, (size_t)s->n * sizeof *s->ends);
    s->from = s->n - scored > 1 ? s->n - scored : 1;
}

// The bytes of our stretch in the other model's own tokens. None where it spells other bytes.
static bool take_its_tokens(const Likeness *like, const char *text, size_t bytes,
                            ScoredText *theirs, Error *err) {
    size_t n;
    int32_t *ids = tokenizer_encode(like->job.tokenizer, text, bytes, true, &n, err);
    if (!ids) return false;
    theirs->n = n <= MOST_OTHER ? (int)n : 0;
    memcpy(theirs->ids, ids, (size_t)theirs->n * sizeof *ids);
    free(ids);
    if (find_ends(like->job.tokenizer, theirs, NULL) != bytes) theirs->n = 0;
    return true;
}

// A sample for every so many of our tokens, and up to where a token of theirs ends, too: the
// difference for each of our tokens.
static void add_by_bytes(Samples *samples, const ScoredText *ours, const ScoredText *theirs) {
    int j = theirs->from;
    int count = -1;  // of our tokens since both began together; -1: they have not yet
    double sum = 0;
    for (int i = ours->from; i < ours->n; i++) {
        if (count >= 0) {
            sum += ours->nll[i - ours->from];
            count++;
        }
        while (j < theirs->n && theirs->ends[j] <= ours->ends[i]) {
            if (count >= 0) sum -= theirs->nll[j - theirs->from];
            j++;
        }
        bool is_common = j > theirs->from && theirs->ends[j - 1] == ours->ends[i];
        if (!is_common || (count >= 0 && count < LIKE_SAMPLE)) continue;
        if (count > 0) add_sample(samples, sum / count);
        count = 0;
        sum = 0;
    }
}

// A stretch beside the other model's reading of it.
static bool read_like(Check *c, Row *row, Error *err) {
    Likeness *like = c->like;
    const double *scores = reference_scores(c, row->units, err);
    if (!scores) return false;
    ScoredText ours = {.n = c->window, .from = c->window / 2};
    const int train_ctx = like->plan.rope.train_ctx;
    int most = like->same_tokens ? c->window : MOST_TIMES * c->window;
    if (train_ctx > 0 && train_ctx < most) most = train_ctx;
    char *text = alloc_array(MOST_WINDOW, MAX_PIECE, "a text", err);
    if (!text) return false;
    take_text(c, start_of(c, row->units), c->window, ours.ids);
    memcpy(ours.nll, scores, (size_t)(ours.n - ours.from) * sizeof *scores);
    const size_t bytes = find_ends(c->job->tokenizer, &ours, text);
    ScoredText theirs = ours;
    bool ok = like->same_tokens || take_its_tokens(like, text, bytes, &theirs, err);
    free(text);
    keep_last(&theirs, most, like->same_tokens ? ours.n - ours.from : theirs.n * 3 / 4);
    if (!ok || theirs.n < 2) return ok;
    SessionConfig config = timed_config(c, &like->plan, most);
    config.sliding = &like->plan.sliding;
    if (!like->session) like->session = session_new(&like->model, &config, err);
    if (!like->session) return false;
    const Span span = {theirs.ids, theirs.from, theirs.n, theirs.n};
    ok = score_anew(c, like->session, span, theirs.nll, err);
    if (ok) add_by_bytes(&row->samples, &ours, &theirs);
    return ok;
}

static bool wants_like(const Check *c, int length) {
    (void)length;
    return c->like;
}

static void describe_like(const Check *c, const Row *row, char *out, size_t size) {
    char ratio[60];
    describe_ratio(row, ratio, sizeof ratio);
    snprintf(out, size, "the perplexity of short texts is %s times that by %.60s (at most %.2f)",
             ratio, c->like_path, row->limit);
}

const RowType like_row = {
    .name = "like",
    .is_wanted = wants_like,
    .read = read_like,
    .limits = {1.04, 1.06},
    .describe = describe_like,
    .is_about_model = true,
    .is_required = true,
};
