// The tiny program: a model goes on with a prompt, by the definition alone and on one thread. This
// folder and rope.c are all of a Llama (make core). It prints what ./run --plain prints.
//
//     ./core model.bin -n 1024 --rope yarn -t 0.8 -i "It was a fine morning in the spring when"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tokens/tokenizer.h"
#include "kind.h"
#include "sampler.h"

enum { USUAL_POSITIONS = 256 };

typedef struct {
    const char *prompt, *rope;
    int n;  // positions, prompt included; 0: the model's context; -1: USUAL_POSITIONS
    Sampling sampling;
    uint64_t seed;          // 0: from the clock
    RopeSettings settings;  // of --rope, --factor and the like
} Asked;

#define IN_ASKED(member) .place = offsetof(Asked, member)
static const Setting options[] = {
    {"-i", .type = TEXT, IN_ASKED(prompt)},
    {"-k", .type = WHOLE, IN_ASKED(sampling.top_k), .high = MOST},
    {"-n", .type = WHOLE, IN_ASKED(n), .high = MOST},
    {"-p", .type = NUMBER, IN_ASKED(sampling.top_p), .high = 1},
    {"-s", .type = SEED, IN_ASKED(seed)},
    {"-t", .type = NUMBER, IN_ASKED(sampling.temperature), .high = 1e6},
    {"--min-p", .type = NUMBER, IN_ASKED(sampling.min_p), .high = 1},
    {"--rope", .type = TEXT, IN_ASKED(rope)},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };
static const char usage[] = "model.bin -n N -i TEXT -t T -p P -k K --min-p M -s SEED "
                            "--rope NAME:SETTING=VALUE --factor S";

// Reads an option and its value. Options that are not in the table are settings of RoPE.
static bool read_argument(Asked *a, const char *name, const char *value, Error *err) {
    if (!value) return fail(err, "%s needs a value", name);
    for (const Setting *o = options; o < options + N_OPTIONS; o++) {
        if (strcmp(o->option, name) == 0) return setting_read(o, a, name, value, err);
    }
    if (strncmp(name, "--", 2) == 0)
        return settings_read_setting(&a->settings, name + 2, value, err);
    return fail(err, "there is no option '%.60s'", name);
}

// A text in the making.
typedef struct {
    Model model;
    RopePlan plan;
    Plain plain;
    Tokenizer *tokenizer;
    int32_t *prompt;  // (n_prompt) ids
    int n_prompt;
    Arena arena;    // of all arrays
    float *x;       // (dim) what the last layer made of the last token
    float *logits;  // (vocab_size) of the next one
} Core;

// The most positions of the text.
static int context_of(const Model *m, int asked) {
    if (asked >= 0) return asked > 0 ? asked : m->config.seq_len;
    int least = USUAL_POSITIONS;
    EACH_KIND_THAT (reach, k) {
        int reach = (*k)->reach(m);
        if (reach && reach < least) least = reach;
    }
    return least;
}

// Opens the model, settles its plan from the settings given and its own, and takes memory for the
// text.
static bool open_core(Core *core, const char *path, const Asked *a, Error *err) {
    Model *m = &core->model;
    Plain *p = &core->plain;
    if (!model_open(path, m, err)) return false;
    *p = (Plain){.model = m, .rope = &core->plan.rope, .context = context_of(m, a->n)};
    p->extra = alloc_array(1, kinds.plain_bytes, "the past", err);
    if (!p->extra) return false;
    if (!settings_resolve(&a->settings, &m->rope, 0, p->context, &core->plan, err)) return false;
    EACH_KIND_THAT (settle, k)
        if (!(*k)->settle(p, &a->settings, &core->plan, err)) return false;

    for (int pass = 0; pass < 2; pass++) {  // an arena first counts, then gives
        plain_lay_out(p, &core->arena);
        core->x = arena_take(&core->arena, m->config.dim, sizeof(float));
        core->logits = arena_take(&core->arena, m->config.vocab_size, sizeof(float));
        if (pass == 0 && !arena_open(&core->arena, "the past", err)) return false;
    }
    return true;
}

static void close_core(Core *core) {
    tokenizer_free(core->tokenizer);
    free(core->prompt);
    free(core->plain.extra);
    arena_close(&core->arena);
    model_close(&core->model);
}

// Finds the model's tokenizer, and makes tokens of the prompt.
static bool take_prompt(Core *core, const char *path, const char *text, Error *err) {
    size_t n;
    core->tokenizer =
        tokenizer_find(NULL, path, core->model.config.vocab_size, "python3 model_export.py", err);
    if (!core->tokenizer) return false;
    core->prompt = tokenizer_encode(core->tokenizer, text, strlen(text), true, &n, err);
    if (!core->prompt) return false;
    core->n_prompt = (int)n;
    return prompt_fits(n, core->plain.context, err);
}

// Prints and reads the prompt, then samples until a token ends the text or the context is full. The
// token that no longer fits is printed, but not read.
static bool write_text(Core *core, Sampler *s, Error *err) {
    const ModelConfig *m = &core->model.config;
    TextOut out = {.tokenizer = core->tokenizer, .previous = -1};
    for (int i = 0;; i++) {
        bool in_prompt = i < core->n_prompt;
        int length = in_prompt ? core->n_prompt : i + 1;  // of the text so far, for dynamic methods
        int32_t token = in_prompt ? core->prompt[i] : -1;
        if (!in_prompt) {
            plain_logits(&core->plain, core->x, core->logits);
            if (!all_finite(core->logits, m->vocab_size))
                return fail_not_finite(m->n_layers, m->n_layers, i - 1, err);
            token = sampler_next(s, core->logits);
            if (tokenizer_ends_text(core->tokenizer, token, m->eos_ids, m->n_eos)) break;
        }
        text_out_token(&out, token);
        if (i == core->plain.context) break;
        int layer = plain_forward(&core->plain, token, i, length, core->x);
        if (layer < m->n_layers) return fail_not_finite(layer, m->n_layers, i, err);
    }
    return text_out_end(err);
}

int main(int argc, char **argv) {
    Asked a = {.prompt = "", .n = -1, .sampling = {.temperature = 1, .top_p = 0.9}};
    Core core = {.arena = {0}};
    Sampler s = {0};
    Error err;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0) continue;
        printf("usage: core %s\n", usage);
        return YES;
    }
    bool ok = argc > 1 || fail(&err, "a model is needed (core %s)", usage);
    for (int i = 2; ok && i < argc; i += 2) ok = read_argument(&a, argv[i], argv[i + 1], &err);
    ok = ok && (!a.rope || settings_read(&a.settings, a.rope, &err));
    ok = ok && open_core(&core, argv[1], &a, &err);
    ok = ok && take_prompt(&core, argv[1], a.prompt, &err);
    uint64_t seed = a.seed ? a.seed : seed_from_clock();
    ok = ok && sampler_init(&s, &a.sampling, core.model.config.vocab_size, seed, &err);
    ok = ok && write_text(&core, &s, &err);
    if (!ok) fprintf(stderr, "core: %s\n", err.text);
    sampler_free(&s);
    close_core(&core);
    return ok ? YES : TROUBLE;
}
