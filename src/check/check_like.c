// The rows of --check --like: another model reads the same text. Models with one tokenizer read
// texts of the ladder, of -n tokens, ours by the settings that are tried and the other by its own,
// and are compared token by token: how hard the tokens are, whether the likeliest one is the same,
// and how far the two distributions lie apart. With two tokenizers, the
// probabilities that each model gives to the same bytes of a short text are compared.
#include "check_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIKE_SAMPLE = 64,  // tokens of a sample, at least
    LONGEST_RATIO = 4,  // as many tokens as ours may the other's stretch have
    MOST_OTHER = LONGEST_RATIO * MOST_WINDOW,
};

struct Likeness {
    Model model;
    RopeFile rope_file;
    RopePlan plan;
    Options options;
    Job job;               // of this model
    Tokenizer *tokenizer;  // of its own; NULL: it is the other's
    bool same_tokens;
    Session *session;  // NULL: not opened yet
    RopePlan tried;
    Session *ours;  // by the tried settings, likewise
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
    rope_file_of_model(&like->model, &like->rope_file);
    like->options = (Options){.model_path = path, .sessions = ours->options->sessions};
    like->job = (Job){
        .options = &like->options,
        .model = &like->model,
        .rope_file = &like->rope_file,
        .length = ours->length,
        .plans = &like->plan,
        .n_plans = 1,
    };
    like->job.kinds = kinds_of_layers(&like->model, &like->rope_file);
    if (find_its_tokenizer(like, ours, path, err) &&
        reference_plan(&like->job, false, 1, &like->plan, err))
        return like;
    like_close(like);
    return NULL;
}

void like_close(Likeness *like) {
    if (!like) return;
    session_free(like->session);
    session_free(like->ours);
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
    int most = like->same_tokens ? c->window : LONGEST_RATIO * c->window;
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

static bool wants_bytes(const Check *c, int length) {
    (void)length;
    return c->like && !c->like->same_tokens;
}

static void describe_bytes(const Check *c, const Row *row, char *out, size_t size) {
    char ratio[60];
    describe_ratio(row, ratio, sizeof ratio);
    snprintf(out, size, "the perplexity of short texts is %s times that by %.60s (at most %.2f)",
             ratio, c->like_path, row->limit);
}

const RowType like_bytes_row = {
    .name = "like",
    .is_wanted = wants_bytes,
    .read = read_like,
    .limits = {1.04, 1.06},
    .describe = describe_bytes,
    .is_about_model = true,
    .is_required = true,
};

// ---- with the same tokens: texts of the ladder ----

enum { GUESSES, DIVERGENCES };  // of a row's others: first guesses that differ, nats

// The longest rung within the other model's own reach, by which it can be held to be right.
static bool wants_like(const Check *c, int length) {
    return c->like && c->like->same_tokens && length == longest_within(c, &c->like->plan.rope);
}

static int like_tokens(const Check *c, int length) {
    return wants_like(c, length) ? 2 * length : 0;
}

// The two models' predictions after one token: -ln p of the next token by each, whether their
// likeliest tokens differ, and the Kullback-Leibler divergence of ours from theirs, in nats.
typedef struct {
    double ours, theirs, differs, divergence;
} Beside;

static double log_sum(const float *logits, int n) {
    const float most = logits[likeliest(logits, n)];
    double sum = 0;
    for (int i = 0; i < n; i++) sum += exp((double)(logits[i] - most));
    return log(sum) + (double)most;
}

static Beside compare_logits(const float *ours, const float *theirs, int n, int next) {
    const double of_ours = log_sum(ours, n);
    const double of_theirs = log_sum(theirs, n);
    Beside found = {of_ours - (double)ours[next], of_theirs - (double)theirs[next],
                    likeliest(ours, n) != likeliest(theirs, n), 0};
    for (int i = 0; i < n; i++) {
        const double p = (double)theirs[i] - of_theirs;
        found.divergence += exp(p) * (p - ((double)ours[i] - of_ours));
    }
    return found;
}

// Both models read a text (n) up to its last `scored` tokens, and these in steps, so that the
// logits of both are there at once.
static bool compare_text(Check *c, const int32_t *text, int n, int scored, Beside *found,
                         Error *err) {
    Session *sessions[] = {c->like->ours, c->like->session};
    const int vocab = c->job->model->config.vocab_size;
    const int begin = n - scored - 1;
    for (int i = 0; i < 2; i++) {
        session_rewind(sessions[i], 0);
        c->tokens += n;
        if (!session_read(sessions[i], text, begin, n, 0, err)) return false;
    }
    for (int at = begin, count; at < n - 1; at += count) {
        count = n - 1 - at < LOGIT_ROWS ? n - 1 - at : LOGIT_ROWS;
        for (int i = 0; i < 2; i++)
            if (!session_read(sessions[i], text + at, count, n, count, err)) return false;
        for (int i = 0; i < count; i++) {
            const float *ours = session_logits(sessions[0], i, 1, err);
            const float *theirs = ours ? session_logits(sessions[1], i, 1, err) : NULL;
            if (!theirs) return false;
            found[at - begin + i] = compare_logits(ours, theirs, vocab, text[at + i + 1]);
        }
    }
    return true;
}

// A text of the ladder by both. Ours need not be read again for its rung.
static bool read_both(Check *c, Row *row, Error *err) {
    enum { BLOCK = 64 };
    Likeness *like = c->like;
    const int n = row->length;
    const int scored = scored_of(n);
    like->tried = c->job->plans[0];
    if (!open_long(c, &like->ours, &like->tried, n, row)) return true;
    if (!like->session) {
        SessionConfig config = timed_config(c, &like->plan, n);
        Error memory;
        config.sliding = &like->plan.sliding;
        like->session = session_new(&like->model, &config, &memory);
        if (!like->session) row->needs = NEEDS_MEMORY;
        if (!like->session) return true;
    }
    int32_t *text = alloc_array((uint64_t)n, sizeof *text, "a text", err);
    Beside *found = alloc_array((uint64_t)scored, sizeof *found, "scores", err);
    double *nll = alloc_array((uint64_t)scored, sizeof *nll, "scores", err);
    bool ok = text && found && nll;
    if (ok) ladder_text(c, n, row->units, text);
    ok = ok && compare_text(c, text, n, scored, found, err);
    for (int at = 0; ok && at < scored; at += BLOCK) {
        const int to = at + BLOCK < scored ? at + BLOCK : scored;
        Beside sum = {0};
        for (int i = at; i < to; i++) {
            sum.ours += found[i].ours - found[i].theirs;
            sum.differs += found[i].differs;
            sum.divergence += found[i].divergence;
            nll[i] = found[i].ours;
        }
        add_sample(&row->samples, sum.ours / (to - at));
        add_sample(&row->others[GUESSES], sum.differs / (to - at));
        add_sample(&row->others[DIVERGENCES], sum.divergence / (to - at));
    }
    if (ok) ladder_keep(c, n, row->units, nll);
    else free(nll);
    free(text);
    free(found);
    return ok;
}

static void describe_like(const Check *c, const Row *row, char *out, size_t size) {
    char ratio[60];
    describe_ratio(row, ratio, sizeof ratio);
    snprintf(out, size,
             "the same words are %s times as hard as for %.60s (at most %.2f); its first guess "
             "differs at %.1f %% of them, by %.2g nats",
             ratio, c->like_path, row->limit, 100 * row->others[GUESSES].mean,
             row->others[DIVERGENCES].mean);
}

// Then the numbers without a limit: the share of first guesses that differ, and the divergence.
static void print_like(Check *c, const Row *row, PrintRow *line) {
    static const char *const names[] = {[GUESSES] = "like-guesses", [DIVERGENCES] = "like-nats"};
    line(c, row, row->type->name);
    for (int i = 0; i < 2 && row->units > 0; i++) {
        Row one = *row;
        one.value = row->others[i].mean;
        one.error = standard_error(&row->others[i]);
        one.limit = INFINITY;
        line(c, &one, names[i]);
    }
}

static bool like_has_limit(const Row *row) { return isfinite(row->limit); }

static void add_like(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    add_words(out, size, "; first guesses differ at %.1f %%, by %.2g nats",
              100 * row->others[GUESSES].mean, row->others[DIVERGENCES].mean);
}

const RowType like_row = {
    .name = "like",
    .is_wanted = wants_like,
    .units = 16,
    .most = all_samples,
    .tokens = like_tokens,
    .read = read_both,
    .limits = {1.03, 1.07},
    .describe = describe_like,
    .print = print_like,
    .has_limit = like_has_limit,
    .is_about_model = true,
    .is_required = true,
    .add_remark = add_like,
};
