// The rows of --check about length: a ladder. Texts of 256, 512, ... -n tokens end in the same
// tokens, and only these are scored; each text is read anew by the tried settings. More context
// does not hurt a model that works: a rung on which the tokens are harder than on the best shorter
// one is where it fails. A slow rise adds up, since a rung that is harder than the one before it is
// never the best. The cost of the settings is the result of a rung within the model's own reach.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_rows.h"

enum {
    MOST_SAMPLES = 64,   // texts of a rung
    MOST_FIRST = 4,      // that are read of a rung before it is judged, where it is short
    USUAL_SAMPLES = 16,  // that are read at most, at the usual effort
    SAMPLE_TOKENS = 64,  // tokens of a sample of the error
    FEW_BLOCKS = 8,      // that a text has at least
};
// A rise, and a cost, of so much is said.
static const double LEAST_CHANGE = 1.03;
// Beyond the model's own reach a cost is the price of the length, but for one that ruins short
// texts.
static const double RUINOUS = 1.5;
static const double NEAR_COST = 1.02;  // either may be said of a cost so near to its limit

// Who reads a rung's texts.
enum { BY_TRIED, BY_REFERENCE, BY_OWN_ATTENTION, N_READERS };

struct Ladder {
    RopePlan plan, own_attention;
    Session *session[N_READERS];  // for texts of
    int context[N_READERS];       // so many tokens
    // (scored_of the rung) -ln p of the last tokens of each text; NULL: not read
    double *nll[N_READERS][MAX_LENGTHS][MOST_SAMPLES];
};

// ---- rungs and texts ----

static void add_rung(Check *c, int length) {
    int i = c->n_lengths;
    for (int k = 0; k < c->n_lengths; k++)
        if (c->lengths[k] == length) return;
    if (c->n_lengths == MAX_LENGTHS) return;
    for (; i > 0 && c->lengths[i - 1] > length; i--) c->lengths[i] = c->lengths[i - 1];
    c->lengths[i] = length;
    c->n_lengths++;
}

// Doublings up to -n, and the trained length, past which models break.
void choose_rungs(Check *c) {
    const int n = c->job->length;
    const int trained = c->references[FILES_OWN].rope.train_ctx;
    const int first = n < 2 * FIRST_RUNG ? n / 2 : FIRST_RUNG;
    for (int length = first; length < n; length = length > n / 2 ? n : 2 * length)
        add_rung(c, length);
    if (trained > first && trained < n) add_rung(c, trained);
    add_rung(c, n);
}

static int rung_of(const Check *c, int length) {
    int i = 0;
    while (c->lengths[i] < length) i++;
    return i;
}

// The longest text ends where the given one does. The others end before it, as far apart as the
// scored tokens, and as far back as possible without reaching into the text before the given one,
// or within its last quarter.
static size_t spread_of_ends(const Check *c) {
    const size_t n = (size_t)c->job->length;
    const size_t quarter = c->n_given / 4;
    return c->n_given > n + quarter ? c->n_given - n : quarter;
}

int n_samples(const Check *c) {
    const size_t n = spread_of_ends(c) / (size_t)scored_of(c->job->length) + 1;
    return n < MOST_SAMPLES ? (int)n : MOST_SAMPLES;
}

void ladder_text(const Check *c, int length, int u, int32_t *text) {
    const int32_t *longest = text_with_facts(c);
    const int n = n_samples(c);
    const size_t apart = n > 1 ? spread_of_ends(c) / (size_t)(n - 1) : 0;
    take_before(c, c->n_given - apart * (size_t)spread_order(u, n), length, text);
    if (u > 0 || !longest) return;
    // The end of the longest one, after BOS in the first one's place, if there is one.
    const int from = length < c->job->length ? has_bos(c) : 0;
    memcpy(text + from, longest + c->job->length - length + from,
           (size_t)(length - from) * sizeof *text);
}

bool ladder_prepare(Check *c, Error *err) {
    c->ladder = alloc_array(1, sizeof *c->ladder, "a ladder", err);
    return c->ladder;
}

void ladder_free(Check *c) {
    Ladder *l = c->ladder;
    if (!l) return;
    for (int r = 0; r < N_READERS; r++) {
        session_free(l->session[r]);
        for (int i = 0; i < MAX_LENGTHS; i++)
            for (int u = 0; u < MOST_SAMPLES; u++) free(l->nll[r][i][u]);
    }
    free(l);
}

double whole_bytes(const Check *c, int length) {
    SessionConfig config = session_config(c->job, c->job->plans, facts_context(c, length));
    return (double)session_needs(c->job->model, &config);
}

// The same settings with the attention factor that their method gives: YaRN's 0.1 ln s + 1.
static RopeConfig with_own_attention(const RopeConfig *rope) {
    RopeConfig own = *rope;
    own.attention_factor = own.mscale = own.mscale_all_dim = 0;
    return own;
}

// -ln p of the last tokens of text number u on a rung, which each reader reads once. NULL with the
// reason, or where the row needs memory.
static const double *read_sample(Check *c, int reader, int rung, int u, Row *row, Error *err) {
    Ladder *l = c->ladder;
    double **kept = &l->nll[reader][rung][u];
    const int n = c->lengths[rung];
    const int scored = scored_of(n);
    if (*kept) return *kept;
    if (l->context[reader] != n) {
        session_free(l->session[reader]);
        l->session[reader] = NULL;
        l->context[reader] = n;
    }
    l->plan = c->job->plans[0];
    l->own_attention = l->plan;
    l->own_attention.rope = with_own_attention(&l->plan.rope);
    const RopePlan *const plans[N_READERS] = {&l->plan, &c->references[c->reference_is],
                                              &l->own_attention};
    Session **s = &l->session[reader];
    if (!open_long(c, s, plans[reader], facts_context(c, n), row)) return NULL;
    int32_t *text = alloc_array((uint64_t)n, sizeof *text, "a text", err);
    double *nll = text ? alloc_array((uint64_t)scored, sizeof *nll, "scores", err) : NULL;
    if (text) ladder_text(c, n, u, text);
    const Span span = {text, n - scored, n, n};
    bool ok = nll && score_anew(c, *s, span, nll, err);
    if (ok && reader == BY_TRIED && u == 0 && facts_context(c, n) > n)
        ok = ask_shared_facts(c, *s, err);
    free(text);
    *kept = keep_if(ok, nll);
    return *kept;
}

void ladder_keep(Check *c, int length, int u, double *nll) {
    double **kept = &c->ladder->nll[BY_TRIED][rung_of(c, length)][u];
    free(*kept);
    *kept = nll;
}

int longest_within(const Check *c, const RopeConfig *rope) {
    const bool scales = rope_methods[rope->method].flags & ROPE_USES_FACTOR && rope->factor > 1;
    const double reach = rope->train_ctx * (scales ? rope->factor : 1);
    int longest = c->lengths[0];
    for (int i = 0; i < c->n_lengths; i++)
        if (rope->train_ctx == 0 || c->lengths[i] <= reach) longest = c->lengths[i];
    return longest;
}

const double *ladder_scores(const Check *c, int length, int u) {
    return c->ladder->nll[BY_TRIED][rung_of(c, length)][u];
}

const double *ladder_read(Check *c, int length, int u, Row *row, Error *err) {
    return read_sample(c, BY_TRIED, rung_of(c, length), u, row, err);
}

// Adds the differences of the tokens that both have scored, which are the last ones.
static void add_steps(Samples *samples, const double *these, int n_these, const double *those,
                      int n_those) {
    const int n = n_these < n_those ? n_these : n_those;
    const bool is_short = n / SAMPLE_TOKENS < FEW_BLOCKS;
    const int block = is_short ? (n + FEW_BLOCKS - 1) / FEW_BLOCKS : SAMPLE_TOKENS;
    add_differences(samples, these + n_these - n, those + n_those - n, n, block);
}

// ---- perplexity: a rung beside the best shorter one ----

// The last rung that was easier than all before it.
static int best_below(const Check *c, int rung) {
    for (int i = rung - 1; i > 0; i--) {
        const Row *row = find_row(c, &perplexity_row, c->lengths[i]);
        if (row && row->units > 0 && row->value < 1) return i;
    }
    return 0;
}

int all_samples(const Check *c, const Row *row) {
    (void)row;
    return n_samples(c);
}

// Texts that a rung has before it is judged: short ones cost little.
static int first_samples(const Check *c, int length) {
    const int n = c->job->length / (8 * length);
    const int there = n_samples(c);
    const int first = n < 1 ? 1 : n < MOST_FIRST ? n : MOST_FIRST;
    return first < there ? first : there;
}

static int rung_tokens(const Check *c, int length) {
    return first_samples(c, length) * length + length / 4;
}

static bool read_rung(Check *c, Row *row, Error *err) {
    const int rung = rung_of(c, row->length);
    const int best = row->units > 0 ? rung_of(c, row->beside) : best_below(c, rung);
    row->beside = c->lengths[best];
    const double *shorter = read_sample(c, BY_TRIED, best, row->units, row, err);
    const double *now = shorter ? read_sample(c, BY_TRIED, rung, row->units, row, err) : NULL;
    if (now)
        add_steps(&row->samples, now, scored_of(row->length), shorter, scored_of(row->beside));
    return now || row->needs;
}

// How many times as hard the same tokens may be after more context.
static void judge_rung(const Check *c, Row *row) {
    judge_ratio(row, (Limits){1.05, 1.15});
    if (row->units < first_samples(c, row->length)) row->verdict = OPEN;
}

static void describe_rung(const Check *c, const Row *row, char *out, size_t size) {
    char ratio[60];
    describe_ratio(row, ratio, sizeof ratio);
    snprintf(out, size,
             "after %d tokens the same words are %s times as hard as after %d (at most %.2f)",
             row->length, ratio, row->beside, row->limit);
    if (c->is_strange) add_words(out, size, "; the tokenizer was not made for this text");
}

// A rise that is no failure, where it is none of chance.
static void add_rise(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    if (row->value < LEAST_CHANGE || row->value - 2 * row->error < 1) return;
    add_words(out, size, ", %.0f %% harder after %d tokens than after %d",
              100 * (row->value - 1), row->length, row->beside);
}

const RowType perplexity_row = {
    .name = "perplexity",
    .units = USUAL_SAMPLES,
    .most = all_samples,
    .tokens = rung_tokens,
    .read = read_rung,
    .judge = judge_rung,
    .describe = describe_rung,
    .is_required = true,
    .add_remark = add_rise,
};

// ---- cost: the cost of the settings within the model's own reach ----

static bool wants_cost(const Check *c, int length) {
    return !is_reference(c) && length == longest_within(c, &c->references[c->reference_is].rope);
}

static int cost_tokens(const Check *c, int length) {
    return wants_cost(c, length) ? length : 0;
}

// The settings under test, compared with another reader on the row's next text.
static bool read_beside(Check *c, int reader, Row *row, Error *err) {
    const int rung = rung_of(c, row->length);
    const double *own = read_sample(c, reader, rung, row->units, row, err);
    const double *tried = own ? read_sample(c, BY_TRIED, rung, row->units, row, err) : NULL;
    if (tried)
        add_steps(&row->samples, tried, scored_of(row->length), own, scored_of(row->length));
    return tried || row->needs;
}

static bool read_cost(Check *c, Row *row, Error *err) {
    return read_beside(c, BY_REFERENCE, row, err);
}

static bool is_at_length(const Check *c, const Row *row) { return row->length == c->job->length; }

static void judge_cost(const Check *c, Row *row) {
    const double limit = is_at_length(c, row) ? c->most_cost : fmax(RUINOUS, c->most_cost);
    judge_ratio(row, (Limits){limit / NEAR_COST, limit * NEAR_COST});
}

static const char *whose(const Check *c) {
    return c->reference_is == PLAIN_ROPE ? "plain RoPE" : "its own settings";
}

static void describe_cost(const Check *c, const Row *row, char *out, size_t size) {
    char ratio[60];
    describe_ratio(row, ratio, sizeof ratio);
    snprintf(out, size, "texts of %d tokens are %s times as hard as with %s (at most %.2f)",
             row->length, ratio, whose(c), row->limit);
}

static void add_cost(const Check *c, const Row *row, char *out, size_t size) {
    if (row->value < LEAST_CHANGE || row->value - 2 * row->error < 1) return;
    add_words(out, size, ", %.0f %% harder than with %s", 100 * (row->value - 1), whose(c));
    if (!is_at_length(c, row)) add_words(out, size, " at %d", row->length);
}

const RowType cost_row = {
    .name = "cost",
    .is_wanted = wants_cost,
    .units = USUAL_SAMPLES,
    .most = all_samples,
    .tokens = cost_tokens,
    .read = read_cost,
    .judge = judge_cost,
    .describe = describe_cost,
    .is_required = true,
    .is_about_model = true,
    .add_remark = add_cost,
};

// ---- attention: would the method's own attention factor read better than the given one? ----

// The factors of a text of that length: the given one, and the method's.
static void attention_factors(const Check *c, int length, double *given, double *own) {
    const RopeConfig *tried = &c->job->plans->rope;
    const RopeConfig formula = with_own_attention(tried);
    RopeFreqs f;
    rope_frequencies(tried, length, &f);
    *given = f.attention_factor;
    rope_frequencies(&formula, length, &f);
    *own = f.attention_factor;
}

// A factor that is lost harms texts of all lengths alike, which no rung shows. DeepSeek's scores
// have theirs from mscale_all_dim, and are left alone.
static bool wants_attention(const Check *c, int length) {
    const RopeConfig *tried = &c->job->plans->rope;
    double given, own;
    if (model_encoding(c->job->model) || !rope_methods[tried->method].attention ||
        tried->mscale_in_scores || length != longest_within(c, tried))
        return false;
    attention_factors(c, length, &given, &own);
    return fabs(given / own - 1) > 1e-3;
}

static int attention_tokens(const Check *c, int length) {
    return wants_attention(c, length) ? 2 * length : 0;
}

static bool read_attention(Check *c, Row *row, Error *err) {
    return read_beside(c, BY_OWN_ATTENTION, row, err);
}

static void describe_factor_lost(const Check *c, const Row *row, char *out, size_t size) {
    char ratio[60];
    double given, own;
    describe_ratio(row, ratio, sizeof ratio);
    attention_factors(c, row->length, &given, &own);
    snprintf(out, size,
             "with an attention factor of %.4g, the method's own, it predicts better: with %.4g "
             "the "
             "same words are %s times as hard (at most %.2f)",
             own, given, ratio, row->limit);
}

const RowType attention_row = {
    .name = "attention-factor",
    .is_wanted = wants_attention,
    .units = USUAL_SAMPLES,
    .most = all_samples,
    .tokens = attention_tokens,
    .read = read_attention,
    .limits = {1.05, 1.10},
    .describe = describe_factor_lost,
    .is_required = true,
    .is_about_model = true,
};
