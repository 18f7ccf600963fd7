// A text by the definition: its model, its RoPE, its memory.
#include "core.h"

#include <stdlib.h>
#include <string.h>

enum { USUAL_POSITIONS = 256 };

static bool configure(Core *r, const RopeSettings *given, int n, Error *err) {
    const Model *model = &r->model;
    const ModelConfig *m = &model->config;
    const RopeSettings none = {.said = 0};
    RopePlan *plan = &r->plan;
    if (n == 0) n = m->seq_len;
    if (n < 0) {
        bool is_shorter = model->learned && m->encoding_rows < USUAL_POSITIONS;
        n = is_shorter ? m->encoding_rows : USUAL_POSITIONS;
    }
    bool about_rope = given->name[0] || given->said & ~SAID_WITHOUT_ROPE;
    if (m->encoding != ENCODING_ROPE && about_rope)
        return fail(
            err,
            "--rope is for models with RoPE, and this one knows positions by its encoding '%s'",
            encoding_names[m->encoding]);
    bool good = settings_resolve(given, &model->rope, model_window(model), n, plan, err);
    if (good && m->sliding_rope)
        good = settings_resolve_sliding(given, &none, &model->sliding, m->sliding_window, n, plan,
                                        err);
    good = good && model_turns_by(model, &plan->rope, err);
    if (!good || !model_reaches(model, n, err)) return false;
    r->config = (SessionConfig){.rope = &plan->rope, .sliding = &plan->sliding, .context = n};
    r->plain = (Plain){.model = model, .config = &r->config};
    return true;
}

static void lay_out_core(Core *r) {
    plain_lay_out(&r->plain, &r->arena);
    r->x = arena_take(&r->arena, r->model.config.dim, sizeof(float));
    r->logits = arena_take(&r->arena, r->model.config.vocab_size, sizeof(float));
}

bool core_open(Core *r, const char *path, const RopeSettings *given, int n, Error *err) {
    *r = (Core){.arena = {0}};
    if (!model_open(path, &r->model, err)) return false;
    if (!configure(r, given, n, err)) return false;
    lay_out_core(r);
    if (!arena_open(&r->arena, "the past", err)) return false;
    lay_out_core(r);
    return true;
}

bool core_take_prompt(Core *r, const char *path, const char *text, Error *err) {
    size_t n;
    r->tokenizer =
        tokenizer_find(NULL, path, r->model.config.vocab_size, "python3 model_export.py", err);
    if (!r->tokenizer) return false;
    r->prompt = tokenizer_encode(r->tokenizer, text, strlen(text), true, &n, err);
    if (!r->prompt) return false;
    r->n_prompt = (int)n;
    if (n == 0)
        return fail(err, "the prompt is empty and the tokenizer has no BOS token to begin with");
    int context = r->config.context;
    return r->n_prompt <= context ||
           fail(err,
                "the prompt has %zu tokens, more than the %d position%s of -n, answer included", n,
                context, context == 1 ? "" : "s");
}

void core_close(Core *r) {
    tokenizer_free(r->tokenizer);
    free(r->prompt);
    arena_close(&r->arena);
    model_close(&r->model);
}

bool core_read(Core *r, int32_t token, int i, int length, Error *err) {
    int n_layers = r->model.config.n_layers;
    int layer = plain_forward(&r->plain, token, i, length, r->x);
    return layer == n_layers || fail_not_finite(layer, n_layers, i, err);
}

float *core_logits(Core *r, int i, Error *err) {
    plain_logits(&r->plain, r->x, r->logits);
    if (all_finite(r->logits, r->model.config.vocab_size)) return r->logits;
    fail_not_finite(r->model.config.n_layers, r->model.config.n_layers, i, err);
    return NULL;
}
