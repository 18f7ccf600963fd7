// --short-heads: a list of kv heads that see only a window and the first tokens.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kinds/latent.h"
#include "job.h"

enum { FIRST_TOKENS = 4 };  // that all heads see: much weight rests on them (arXiv 2309.17453)

// Marks one item of the list, a kv head or a layer. False with the reason.
static bool mark_heads(const char *item, const Model *m, ShortHeads *s, uint8_t *marks, bool mean,
                 Error *err) {
    int layer, head = -1, length = 0;
    const bool has_layer = sscanf(item, "%5d%n", &layer, &length) == 1 && item[0] != '-';
    if (has_layer && item[length] == '.') {
        const char *rest = item + length + 1;
        const bool has_head = *rest >= '0' && *rest <= '9' && sscanf(rest, "%5d%n", &head, &length);
        if (!has_head || rest[length]) head = -2;
    } else if (!has_layer || item[length]) {
        head = -2;
    }
    if (head == -2)
        return fail(
            err,
            "--short-heads: '%.40s' is not a kv head (expected LAYER.KVHEAD, such as 3.1, or "
            "LAYER)",
            item);
    if (layer >= m->config.n_layers)
        return fail(err, "--short-heads: %s: the model has layers 0 to %d", item,
                    m->config.n_layers - 1);
    const int n = layer_attends(&m->layers[layer]) ? m->layers[layer].extra->shape.n_kv_heads : 0;
    if (n == 0) return fail(err, "--short-heads: %s: layer %d does not attend", item, layer);
    if (head >= n)
        return fail(err, "--short-heads: %s: layer %d has kv heads 0 to %d", item, layer, n - 1);
    for (int h = 0; h < n; h++)
        if (head < 0 || h == head) marks[layer * s->n_kv_heads + h] = mean;
    return true;
}

bool short_heads_parse(const char *list, int window, const Model *m, ShortHeads *s, Error *err) {
    static const char all_but[] = "all-but:";
    const bool is_but = strncmp(list, all_but, sizeof all_but - 1) == 0;
    const char *rest = is_but ? list + sizeof all_but - 1 : list;
    char item[40];
    *s = (ShortHeads){.n_layers = m->config.n_layers, .window = window, .sinks = FIRST_TOKENS};
    for (int l = 0; l < s->n_layers; l++) {
        const int n = m->layers[l].extra->shape.n_kv_heads;
        if (n > s->n_kv_heads) s->n_kv_heads = n;
    }
    if (has_latent_attention(m))
        return fail(err, "--short-heads: all heads of latent attention share one key, so their "
                         "windows cannot differ");
    if (s->n_kv_heads == 0) return fail(err, "--short-heads: no layer of the model attends");
    const size_t size = (size_t)s->n_layers * s->n_kv_heads;
    uint8_t *marks = alloc_array(size, 1, "short heads", err);
    if (!marks) return false;
    s->is_short = marks;
    memset(marks, is_but, size);
    while (rest) {
        const int length = (int)strcspn(rest, ",");
        snprintf(item, sizeof item, "%.*s", length, rest);
        if (!mark_heads(item, m, s, marks, !is_but, err)) return false;
        rest = rest[length] ? rest + length + 1 : NULL;
    }
    return true;
}
