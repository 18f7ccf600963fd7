// Readings of --check in a file: --save FILE.json writes the ladder's reading of each text, and
// --like FILE.json compares a later run with it, token by token as with a model. That takes the
// same text, tokenizer, effort and length.
//
//     {"rope.c readings": 2, "effort": 1, "text": "...", "tokenizer": "...", "lengths": [
//     {"length": 4096, "texts": [[2.31, ...], ...]}, ...]}
//
// with the mean -ln p of each 64 of the tokens that are scored at the end of a text of the length.
#include "check_saved.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../configs/json.h"
#include "../job/text_io.h"
#include "check_rows.h"

enum {
    FORMAT = 2,  // since 2, the first text of a long ladder has facts in it
    BLOCK_TOKENS = 64,
    MOST_BYTES = 1 << 26,
    HASH_BYTES = 20,
};

struct Saved {
    char *text;
    Json *json;
    const Json *texts;  // of -n, a list of blocks each
    int n;
};

bool is_saved(const char *path) {
    const size_t n = path ? strlen(path) : 0;
    return n > 5 && strcmp(path + n - 5, ".json") == 0;
}

// FNV-1a (Fowler, Noll, Vo) of bytes, continued.
static uint64_t hash_more(uint64_t hash, const void *bytes, size_t n) {
    const uint8_t *b = bytes;
    for (size_t i = 0; i < n; i++) hash = (hash ^ b[i]) * 0x100000001b3u;
    return hash;
}

static const uint64_t HASH_START = 0xcbf29ce484222325u;

static void hash_text(const Check *c, char out[HASH_BYTES]) {
    const int32_t *given = c->ids + (c->n_ids - c->n_given);
    const uint64_t hash = hash_more(HASH_START, given, c->n_given * sizeof *given);
    snprintf(out, HASH_BYTES, "%016llx", (unsigned long long)hash);
}

static void hash_tokenizer(const Check *c, char out[HASH_BYTES]) {
    uint64_t hash = HASH_START;
    for (int id = 0; id < c->job->model->config.vocab_size; id++) {
        size_t n;
        const char *piece = tokenizer_decode(c->job->tokenizer, -1, id, &n);
        hash = hash_more(hash_more(hash, &n, sizeof n), piece, n);
    }
    snprintf(out, HASH_BYTES, "%016llx", (unsigned long long)hash);
}

// ---- writing ----

static double block_mean(const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return sum / n;
}

// The blocks of a text, of which the last may be shorter.
static int block_size(int scored, int at) {
    return scored - at < BLOCK_TOKENS ? scored - at : BLOCK_TOKENS;
}

bool save_readings(const Check *c, FILE *file, bool is_first) {
    const int n = c->job->length;
    const int scored = scored_of(n);
    char text[HASH_BYTES], tokenizer[HASH_BYTES];
    hash_text(c, text);
    hash_tokenizer(c, tokenizer);
    if (is_first)
        fprintf(file,
                "{\"rope.c readings\": %d, \"effort\": %.17g, \"text\": \"%s\", \"tokenizer\": "
                "\"%s\", \"lengths\": [\n",
                FORMAT, c->effort, text, tokenizer);
    fprintf(file, "%s{\"length\": %d, \"texts\": [", is_first ? "" : ",\n", n);
    for (int u = 0; u < n_samples(c) && ladder_scores(c, n, u); u++) {
        const double *nll = ladder_scores(c, n, u);
        fprintf(file, "%s[", u > 0 ? ", " : "");
        for (int at = 0; at < scored; at += BLOCK_TOKENS)
            fprintf(file, "%s%.9g", at > 0 ? ", " : "",
                    block_mean(nll + at, block_size(scored, at)));
        fprintf(file, "]");
    }
    fprintf(file, "]}");
    return !ferror(file);
}

// ---- reading ----

static bool is_same(const Json *json, const char *key, const char *wanted, const char *path,
                    Error *err) {
    if (json_is(json_member(json, key), wanted)) return true;
    return fail(err, "%s: its readings are of another %s", path, key);
}

static bool is_of_this(const Check *c, Saved *s, const char *path, Error *err) {
    char text[HASH_BYTES], tokenizer[HASH_BYTES];
    double x;
    if (!json_number(json_member(s->json, "rope.c readings"), &x) || x != FORMAT)
        return fail(err, "%s: no readings of --check (expected a file of --save)", path);
    hash_text(c, text);
    hash_tokenizer(c, tokenizer);
    if (!is_same(s->json, "tokenizer", tokenizer, path, err) ||
        !is_same(s->json, "text", text, path, err))
        return false;
    if (!json_number(json_member(s->json, "effort"), &x) || x != c->effort)
        return fail(err, "%s: its readings were made with another --effort", path);
    for (const Json *l = json_items(json_member(s->json, "lengths")); l; l = l->next)
        if (json_number(json_member(l, "length"), &x) && x == c->job->length)
            s->texts = json_member(l, "texts");
    for (const Json *t = json_items(s->texts); t; t = t->next) s->n++;
    return s->n > 0 || fail(err, "%s: it has no readings of %d positions", path, c->job->length);
}

Saved *saved_open(const Check *c, const char *path, Error *err) {
    Error why;
    size_t n;
    Saved *s = alloc_array(1, sizeof *s, "readings", err);
    if (!s) return NULL;
    s->text = read_file(path, MOST_BYTES, &n, err);
    s->json = s->text ? json_parse(s->text, n, &why) : NULL;
    if (s->text && !s->json) fail(err, "%s: %s", path, why.text);
    if (s->json && is_of_this(c, s, path, err)) return s;
    saved_close(s);
    return NULL;
}

void saved_close(Saved *s) {
    if (!s) return;
    free(s->json);
    free(s->text);
    free(s);
}

// ---- the row ----

static bool wants_saved(const Check *c, int length) {
    (void)length;
    return c->saved;
}

static int texts_saved(const Check *c, const Row *row) {
    const int there = all_samples(c, row);
    return c->saved->n < there ? c->saved->n : there;
}

static bool read_saved(Check *c, Row *row, Error *err) {
    const int scored = scored_of(row->length);
    const double *nll = ladder_read(c, row->length, row->units, row, err);
    const Json *text = json_items(c->saved->texts);
    if (!nll) return row->needs;
    for (int u = 0; u < row->units; u++) text = text->next;
    const Json *block = json_items(text);
    for (int at = 0; at < scored; at += BLOCK_TOKENS, block = block->next) {
        double before;
        if (!json_number(block, &before) || !isfinite(before))
            return fail(err, "%s: not the numbers of %d tokens", c->like_path, scored);
        add_sample(&row->samples, block_mean(nll + at, block_size(scored, at)) - before);
    }
    return true;
}

static void describe_saved(const Check *c, const Row *row, char *out, size_t size) {
    char ratio[60];
    describe_ratio(row, ratio, sizeof ratio);
    snprintf(out, size, "the same words are %s times as hard as in %.60s (at most %.2f)", ratio,
             c->like_path, row->limit);
}

const RowType saved_row = {
    .name = "like",
    .is_wanted = wants_saved,
    .units = 16,
    .most = texts_saved,
    .read = read_saved,
    .limits = {1.03, 1.07},
    .describe = describe_saved,
    .is_about_model = true,
    .is_required = true,
};
