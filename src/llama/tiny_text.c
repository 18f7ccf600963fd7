// A text: its memory, its tokenizer, and one token after the other.
#include "tiny_text.h"

#include <stdlib.h>

bool text_open(TinyText *t, const RopeSettings *given, int context, Error *err) {
    Model *m = &t->model;
    Plain *p = &t->plain;
    *p = (Plain){.model = m, .rope = &t->plan.rope, .context = context};
    if (!t->by->plan(p, given, &t->plan, err)) return false;
    for (int pass = 0; pass < 2; pass++) {  // an arena first counts, then gives
        t->by->lay_out(p, &t->arena);
        t->x = arena_take(&t->arena, m->config.dim, sizeof(float));
        t->logits = arena_take(&t->arena, m->config.vocab_size, sizeof(float));
        t->tokens = arena_take(&t->arena, p->context + 1L, sizeof *t->tokens);
        if (pass == 0 && !arena_open(&t->arena, "the past", err)) return false;
    }
    t->tokenizer = tokenizer_beside(t->path, m->config.vocab_size, "python3 model_export.py", err);
    return t->tokenizer;
}

void text_close(TinyText *t) {
    tokenizer_free(t->tokenizer);
    free(t->plain.extra);
    arena_close(&t->arena);
    model_close(&t->model);
}

bool text_read(TinyText *t, int32_t token, int i, int length, bool wants_logits, Error *err) {
    int n_layers = t->model.config.n_layers;
    int layer = t->by->forward(&t->plain, token, i, length, t->x);
    if (layer < n_layers) return fail_not_finite(layer, n_layers, i, err);
    if (!wants_logits) return true;
    t->by->logits(&t->plain, t->x, t->logits);
    return all_finite(t->logits, t->model.config.vocab_size) ||
           fail_not_finite(n_layers, n_layers, i, err);
}
