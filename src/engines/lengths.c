// The reach of texts: the engines that end one before its end, and the change of the config for it.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../configs/json.h"
#include "reading.h"

// ---- engines that end a text ----

// Whether an engine ends texts before `length`, by its limit or by its table of cosines.
static bool ends_before(const Reading *r, int length) {
    const bool is_limited = r->max_len > 0 && r->max_len < length;
    return r->verdict < VERDICT_REFUSED && (is_limited || (r->n_rows && r->n_rows < length));
}

int readings_end_texts(Readings *readings, int length) {
    int n = 0;
    for (int i = 0; i < readings->n; i++) {
        Reading *r = &readings->of[i];
        char told[sizeof r->note], words[160];
        if (!ends_before(r, length)) continue;
        n += i == 0 || strcmp(r->engine, r[-1].engine) != 0;
        if (r->max_len > 0 && r->max_len < length)
            snprintf(words, sizeof words, "ends at %d%s%s", r->max_len, r->ends[0] ? ": " : "",
                     r->ends);
        else
            snprintf(words, sizeof words, "its table has %d rows: IndexError past them", r->n_rows);
        snprintf(told, sizeof told, "%s", r->note);
        snprintf(r->note, sizeof r->note, "%s", words);
        if (told[0]) add_name(r->note, sizeof r->note, "; ", told);
        if (r->verdict == VERDICT_SAME || r->verdict == VERDICT_AS_REFERENCE)
            r->verdict = VERDICT_TOO_LONG;
    }
    return n;
}

// ---- the change ----

// Whether an engine reads all kinds of layers as the reference does, and takes texts of a length.
static bool serves(const Reading *first, int length) {
    const Reading *last = &first[reading_kinds(first) - 1];
    const bool is_same = first->verdict == VERDICT_SAME && last->verdict == VERDICT_SAME;
    return is_same && !ends_before(first, length);
}

// The block of the full layers in a text model's config; NULL: none.
static const Json *block_in(const Json *text) {
    const Json *scaling = json_member(text, "rope_scaling");
    const Json *parameters = json_member(text, "rope_parameters");
    const Json *full = json_member(parameters, kind_keys[KIND_FULL]);
    if (json_is_object(scaling) && json_members(scaling)) return scaling;
    if (json_is_object(full)) return full;
    return json_is_object(parameters) && json_members(parameters) ? parameters : NULL;
}

// The text of a config with another max_position_embeddings, and with L in its block if there is
// none. The caller frees it; NULL if the config has no such number, or without memory.
static char *raise_most(const char *config, int most, int *original) {
    Error err;
    Json *root = json_parse(config, strlen(config), &err);
    const Json *text = root ? family_text(root) : NULL, *block = block_in(text);
    const Json *v = json_member(text, "max_position_embeddings");
    const char *key = "original_max_position_embeddings";
    char *out = NULL, added[80] = "", number[16];
    const bool is_there = json_member(block, key) || json_member(text, key);
    if (!block || is_there) *original = 0;
    if (*original) snprintf(added, sizeof added, "\"%s\": %d, ", key, *original);
    if (v && v->kind >= '0' && v->kind <= '9') {
        snprintf(number, sizeof number, "%d", most);
        // The insertions, in the order of the text: the number in place of one, L after a brace.
        const bool is_first = !block || v->text < block->text;
        const size_t at = (size_t)(v->text - config), after = at + v->length;
        const size_t brace = block ? (size_t)(block->text - config) + 1 : 0;
        const size_t size = strlen(config) + sizeof number + sizeof added;
        out = malloc(size);
        if (out && (is_first || !*original))
            snprintf(out, size, "%.*s%s%.*s%s%s", (int)at, config, number,
                     *original ? (int)(brace - after) : 0, config + after, added,
                     config + (*original ? brace : after));
        else if (out)
            snprintf(out, size, "%.*s%s%.*s%s%s", (int)brace, config, added, (int)(at - brace),
                     config + brace, number, config + after);
    }
    free(root);
    return out;
}

// Whether every kind of layers rotates as before, in a text of a length.
static bool same_frequencies(const Readings *a, const Readings *b, int length) {
    for (int k = 0; k < reading_kinds(a->reference); k++) {
        const Reading *x = &a->reference[k], *y = &b->reference[k];
        RopeFreqs f, g;
        if (x->verdict >= VERDICT_REFUSED || y->verdict >= VERDICT_REFUSED) return false;
        if (x->has_rope != y->has_rope) return false;
        if (!x->has_rope) continue;
        rope_frequencies(&x->rope, length, &f);
        rope_frequencies(&y->rope, length, &g);
        if (f.n_pairs != g.n_pairs || fabs(f.attention_factor / g.attention_factor - 1) > 1e-5)
            return false;
        for (int i = 0; i < f.n_pairs; i++)
            if (fabs(f.inv_freq[i] - g.inv_freq[i]) > 1e-5 * fabs(g.inv_freq[i])) return false;
    }
    return true;
}

bool engines_raise(const char *list, const char *config, int length, const Readings *now,
                   Raised *out) {
    const RopeConfig *r = &now->reference[0].rope;
    const double reach = (double)r->train_ctx * r->factor;
    const bool is_read = now->reference[0].verdict < VERDICT_REFUSED && r->factor > 1 &&
                         (r->method == ROPE_YARN || r->method == ROPE_LINEAR);
    Error err;
    *out = (Raised){0};
    bool is_short = false;  // a text of this length
    for (int i = 0; i < now->n; i++) {
        const Reading *one = &now->of[i];
        is_short |= ends_before(one, length) || (one->verdict == VERDICT_REFUSED && one->served);
    }
    if (!is_read || !is_short || !(reach <= MOST) || length > reach) return false;
    out->most = (int)reach;
    out->original = r->method == ROPE_YARN ? r->train_ctx : 0;
    char *text = raise_most(config, out->most, &out->original);
    Readings *then = text ? engines_read(list, text, length, NULL, &err) : NULL;
    bool gains = false;
    if (then && same_frequencies(now, then, length)) {
        for (int i = 0; i < then->n && i < now->n; i += reading_kinds(&then->of[i])) {
            const bool does = serves(&then->of[i], length);
            gains = gains || (does && !serves(&now->of[i], length));
            out->n += does;
            if (does) continue;
            out->n_behind++;
            add_name(out->behind, sizeof out->behind, ", ", then->of[i].engine);
        }
    }
    free(text);
    free(then);
    return gains;
}
