// What to change where servers end texts before a scaled block reaches: max_position_embeddings.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../configs/json.h"
#include "reading.h"

// How many engines read all kinds of layers as the reference does, and take texts of a length.
static int count_serving(const Readings *readings, int length) {
    int n = 0;
    for (int i = 0; i < readings->n; i += reading_kinds(&readings->of[i])) {
        const Reading *first = &readings->of[i];
        const Reading *last = &first[reading_kinds(first) - 1];
        const bool is_same = first->verdict == VERDICT_SAME && last->verdict == VERDICT_SAME;
        n += is_same && (first->max_len == 0 || first->max_len >= length);
    }
    return n;
}

// The text of a config with another max_position_embeddings. The caller frees it; NULL where it has
// none, or there is no memory.
static char *raise_most(const char *config, int most) {
    Error err;
    Json *root = json_parse(config, strlen(config), &err);
    const Json *v = json_member(root ? family_text(root) : NULL, "max_position_embeddings");
    char *out = NULL, number[16];
    if (v && v->kind >= '0' && v->kind <= '9') {
        snprintf(number, sizeof number, "%d", most);
        const size_t before = (size_t)(v->text - config), size = strlen(config) + sizeof number;
        out = malloc(size);
        if (out) snprintf(out, size, "%.*s%s%s", (int)before, config, number, v->text + v->length);
    }
    free(root);
    return out;
}

bool engines_raise(const char *list, const char *config, int length, const Readings *now,
                   Raised *out) {
    const RopeConfig *r = &now->reference[0].rope;
    const double reach = (double)r->train_ctx * r->factor;
    const bool is_read = now->reference[0].verdict < VERDICT_REFUSED && r->method == ROPE_YARN;
    Error err;
    *out = (Raised){.engines = count_serving(now, length)};
    bool is_short = false;  // a text of this length
    for (int i = 0; i < now->n; i++)
        is_short |= now->of[i].max_len > 0 && now->of[i].max_len < length;
    if (!is_read || !is_short || !(reach <= MOST) || length > reach) return false;
    out->most = (int)reach;
    char *text = raise_most(config, out->most);
    Readings *then = text ? engines_read(list, text, length, NULL, &err) : NULL;
    if (then) out->engines_then = count_serving(then, length);
    free(text);
    free(then);
    return then && out->engines_then > out->engines;
}
