// Texts that reveal the targets of heads' attention, and the statistics of their weights.
#include "head_texts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/names.h"
#include "../tasks/trial.h"

// ---- prompts with a key ----

// Finds the places of the answer in a prompt whose question begins at `end`.
static void find_spans(HeadText *t, const int32_t *answer, int n, int end) {
    for (int j = 0; j + n <= end && t->n_spans < MOST_SPANS; j++)
        if (memcmp(t->ids + j, answer, (size_t)n * sizeof *answer) == 0) t->spans[t->n_spans++] = j;
}

// Makes a prompt, and finds the tokens of its answer. If the answer is not found in the text
// literally, the text has no queries.
static bool make_key_text(HeadText *out, const Trial *t, Error *err) {
    Prompt p;
    char wanted[MAX_WANTED];
    size_t n;
    int n_prompt;
    int32_t *prompt = trial_ids(t, &n_prompt, err);
    if (!prompt) return false;
    if (!trial_prompt(t, &p, err)) {
        free(prompt);
        return false;
    }
    trial_wanted(t, 0, wanted);
    char *text = alloc_array(p.n + MAX_WANTED + 2, 1, "a prompt", err);
    if (text) snprintf(text, p.n + MAX_WANTED + 2, "%s %s", p.text, wanted);
    int32_t *all = text ? tokenizer_encode(t->tokenizer, text, strlen(text), true, &n, err) : NULL;
    free(text);
    free(p.text);
    int shared = 0;
    while (all && shared < n_prompt && shared < (int)n && all[shared] == prompt[shared]) shared++;
    free(prompt);
    if (!all) return false;
    *out = (HeadText){.kind = NUMBER_TEXT, .ids = all, .n = shared, .answer = (int)n - shared};
    find_spans(out, all + shared, out->answer, shared);
    if (out->answer < 1 || out->n_spans == 0) return true;
    out->queries[out->n_queries++] = shared - 1;
    return true;
}

// Half of the prompts have one key, the others many. The key of the question is a quarter into the
// text: at any length, many models do not find keys in the first few hundred tokens.
static bool make_key_texts(HeadTexts *texts, const Job *job, int length, Error *err) {
    Trial t = {.tokenizer = job->tokenizer, .seed = job->options->seed};
    bool ok = haystack_make(&t.haystack, NULL, length, err);
    for (int i = 0; ok && i < N_KEY_TEXTS; i++) {
        t.task = &all_tasks[i % 2];  // passkey, multikey
        t.length = length;
        ok = trial_find_pieces(&t, err);
        if (t.pieces < 0) continue;
        t.depth = DEPTH;
        trial_choose(&t, i / 2);
        HeadText *text = &texts->texts[texts->n];
        ok = ok && make_key_text(text, &t, err);
        if (!ok) break;
        if (text->n_queries > 0) texts->n++;
        else free(text->ids);
    }
    haystack_free(&t.haystack);
    return ok;
}

// ---- copies and prose ----

// Makes a text from `length` ids of the story, from `from` on, with queries in its second half.
static bool make_story_text(HeadText *out, const Job *job, const int32_t *story, int length,
                            bool is_copy, Error *err) {
    const int bos = tokenizer_bos(job->tokenizer) >= 0;
    const int page = (length - bos) / 2;
    *out = (HeadText){.kind = is_copy ? COPY_TEXT : PROSE_TEXT, .n = length};
    out->ids = alloc_array((size_t)length, sizeof *out->ids, "a text", err);
    if (!out->ids) return false;
    out->ids[0] = tokenizer_bos(job->tokenizer);
    for (int i = bos; i < length; i++) out->ids[i] = story[is_copy ? (i - bos) % page : i - bos];
    if (is_copy) out->page = page;
    for (int k = 0; k < TEXT_QUERIES; k++)
        out->queries[out->n_queries++] = length / 2 + (k + 1) * (length / 2) / TEXT_QUERIES - 1;
    return true;
}

static bool make_story_texts(HeadTexts *texts, const Job *job, int length, Error *err) {
    size_t n;
    int32_t *story = story_ids(job->tokenizer, &n, err);
    bool ok = story;
    for (int i = 0; ok && i < N_COPIES + N_PROSE; i++) {
        const bool is_copy = i < N_COPIES;
        const int needed = is_copy ? length / 2 + 1 : length;
        const size_t from = n * (size_t)(i + 1) / (N_COPIES + N_PROSE + 1);
        if ((size_t)needed > n) continue;  // the story is too short for this text
        const size_t first = from + (size_t)needed <= n ? from : n - (size_t)needed;
        ok = make_story_text(&texts->texts[texts->n++], job, story + first, length, is_copy, err);
    }
    free(story);
    return ok;
}

bool head_texts_make(HeadTexts *texts, const Job *job, int length, bool all, Error *err) {
    *texts = (HeadTexts){.n = 0};
    const bool ok = make_key_texts(texts, job, length, err) &&
                    (!all || length < 4 * TEXT_QUERIES || make_story_texts(texts, job, length, err));
    for (int i = 0; i < texts->n; i++)
        if (texts->texts[i].n > texts->length) texts->length = texts->texts[i].n;
    return ok && (texts->n > 0 ||
                  fail(err, "%d positions are too few for a text that shows the keys of a head",
                       length));
}

bool head_texts_own(HeadTexts *texts, const Job *job, Error *err) {
    const int n = (int)job->n_ids;
    HeadText *t = &texts->texts[0];
    *texts = (HeadTexts){.n = 1, .length = n};
    *t = (HeadText){.kind = OWN_TEXT, .n = n};
    t->ids = alloc_array((size_t)n, sizeof *t->ids, "a text", err);
    if (!t->ids) return false;
    memcpy(t->ids, job->ids, (size_t)n * sizeof *t->ids);
    for (int i = n > 2 * TEXT_QUERIES ? n - 2 * TEXT_QUERIES : 0; i < n; i++)
        t->queries[t->n_queries++] = i;
    return true;
}

void head_texts_free(HeadTexts *texts) {
    for (int i = 0; i < MOST_TEXTS; i++) free(texts->texts[i].ids);
    *texts = (HeadTexts){.n = 0};
}

RopePlan far_plan(const RopePlan *plan, int length, int n, bool whole) {
    RopePlan far = *plan;
    far.spread = whole ? 0 : n;
    far.piece = (length + 1) / 2;
    return far;
}

// ---- means ----

void mean_add(Mean *m, double x) {
    m->n++;
    m->sum += x;
    m->squares += x * x;
}

double mean_of(const Mean *m) { return m->n ? m->sum / m->n : NAN; }

double error_of(const Mean *m) {
    if (m->n < 2) return NAN;
    const double variance = (m->squares - m->sum * m->sum / m->n) / (m->n - 1);
    return sqrt(fmax(variance, 0) / m->n);
}

// ---- the survey ----

bool survey_open(Survey *s, const Model *model, int near, Error *err) {
    *s = (Survey){.n_layers = model->config.n_layers, .near = near};
    for (int l = 0; l < s->n_layers; l++) {
        const int n = model->layers[l].extra->shape.n_heads;
        if (n > s->n_heads) s->n_heads = n;
    }
    s->of_heads =
        alloc_array((size_t)s->n_layers * s->n_heads, sizeof *s->of_heads, "heads", err);
    return s->of_heads;
}

void survey_close(Survey *s) { free(s->of_heads); }

// Whether token j of a text is one that a head of this kind would look for from query i.
static bool is_sought(const HeadText *t, int i, int j) {
    if (t->kind == COPY_TEXT) return j == i - t->page + 1;
    if (t->kind == OWN_TEXT) return j > 0 && j <= i && t->ids[j - 1] == t->ids[i];
    for (int k = 0; k < t->n_spans; k++)
        if (j >= t->spans[k] && j < t->spans[k] + t->answer) return true;
    return false;
}

// Computes the shares of a head's weights for the query of token i. Its scores (i + 1) become
// weights.
static void shares_of(const Survey *s, const HeadText *t, const Session *session, float *scores,
                      double sink, int i, double *shares) {
    double max = sink, total, entropy = 0;
    const int here = session_place(session, i);
    for (int j = 0; j <= i; j++) max = fmax(max, scores[j]);
    total = exp(sink - max);
    for (int j = 0; j <= i; j++) total += exp(scores[j] - max);
    for (int k = 0; k < N_SHARES; k++) shares[k] = 0;
    for (int j = 0; j <= i; j++) {
        const double weight = exp(scores[j] - max) / total;
        const bool is_near = here - session_place(session, j) < s->near;
        shares[is_near ? NEAR_SHARE : j < FIRST_KEYS ? FIRST_SHARE : FAR_SHARE] += weight;
        if (weight > 0) entropy -= weight * log(weight);
        if (t->kind != PROSE_TEXT && is_sought(t, i, j))
            shares[t->kind == NUMBER_TEXT ? KEY_SHARE : AFTER_SHARE] += weight;
    }
    shares[KEYS_SPREAD] = exp(entropy);
}

// Adds the numbers of one head in a text: for each query, or for a prompt with a key, their mean.
static void add_shares(Mean *of_head, TextKind kind, const double *shares) {
    const bool is_prose = kind == PROSE_TEXT || kind == OWN_TEXT;
    for (int k = 0; k < N_SHARES; k++) {
        const bool counts = k == KEY_SHARE     ? kind == NUMBER_TEXT
                            : k == AFTER_SHARE ? kind == COPY_TEXT || kind == OWN_TEXT
                                               : is_prose;
        if (counts) mean_add(&of_head[k], shares[k]);
    }
}

bool survey_text(Survey *s, const HeadText *t, Session *session, Error *err) {
    const Model *m = session->model;
    const int n_heads = s->n_layers * s->n_heads;
    float *scores = alloc_array((size_t)n_heads * (size_t)t->n, sizeof *scores, "scores", err);
    double(*sums)[N_SHARES] = alloc_array((size_t)n_heads, sizeof *sums, "shares", err);
    bool ok = scores && sums;
    if (ok) memset(sums, 0, (size_t)n_heads * sizeof *sums);
    session_begin(session, t->n);
    session->config.watch = (Watch){
        .layer = ALL_LAYERS, .scores = scores, .stride = t->n, .n_heads = s->n_heads};
    for (int k = 0, at = 0; ok && k < t->n_queries; k++) {
        const int i = t->queries[k];
        ok = session_read(session, t->ids + at, i + 1 - at, t->n, 1, err);
        at = i + 1;
        for (int h = 0; ok && h < n_heads; h++) {
            const Layer *layer = &m->layers[h / s->n_heads];
            const float *sinks = layer->extra->attention.sinks;
            const int head = h % s->n_heads;
            double shares[N_SHARES];
            if (!layer_attends(layer) || head >= layer->extra->shape.n_heads) continue;
            shares_of(s, t, session, scores + (int64_t)h * t->n, sinks ? sinks[head] : -INFINITY, i,
                      shares);
            for (int j = 0; j < N_SHARES; j++) sums[h][j] += shares[j] / t->n_queries;
            if (t->kind != NUMBER_TEXT) add_shares(s->of_heads[h], t->kind, shares);
        }
    }
    for (int h = 0; ok && h < n_heads && t->kind == NUMBER_TEXT; h++)
        add_shares(s->of_heads[h], NUMBER_TEXT, sums[h]);
    session->config.watch = (Watch){.scores = NULL};
    free(scores);
    free(sums);
    return ok;
}

bool survey_texts(Survey *s, const HeadTexts *texts, Session *session, Error *err) {
    bool ok = true;
    for (int i = 0; ok && i < texts->n; i++) ok = survey_text(s, &texts->texts[i], session, err);
    return ok;
}

// ---- kinds of heads ----

enum { ENOUGH = 8 };  // the fewest queries, or texts, that decide the kind of a head

bool is_surely(const Mean *m, double least) {
    return m->n >= ENOUGH && mean_of(m) - 2 * error_of(m) > least;
}

void name_head(const Survey *s, int layer, int head, char *name, size_t size) {
    static const struct {
        Share share;
        double least;
        const char *name;
    } kinds[] = {{KEY_SHARE, 0.1, "key"},
                 {AFTER_SHARE, 0.2, "induction"},
                 {NEAR_SHARE, 0.5, "near"},
                 {FIRST_SHARE, 0.5, "first"},
                 {FAR_SHARE, 0.5, "far"}};
    *name = '\0';
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        if (is_surely(share_of(s, layer, head, kinds[k].share), kinds[k].least))
            add_name(name, size, "+", kinds[k].name);
    if (!*name) snprintf(name, size, "-");
}
