// The tiny program: a model goes on with a prompt, by the definition alone and on one thread. It
// prints what ./run --plain prints. With a Llama alone it is ./llama (make llama), of this folder
// and rope.c; with all kinds of models it is ./core (make core).
//
//     ./llama model.bin -n 1024 --rope yarn -t 0.8 -i "It was a fine morning in the spring when"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tokens/tokenizer.h"
#include "sampler.h"
#include "tiny.h"

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

// Reads the option at word *at, and leaves *at behind its value. Options that are not in the table
// are settings of RoPE.
static bool read_option(Asked *a, char **words, int *at, Error *err) {
    const char *name = words[(*at)++], *value = words[*at];
    bool is_long = strncmp(name, "--", 2) == 0;
    if (is_long && settings_is_flag(name + 2)) {
        if (value && value[0] != '-')
            return fail(err, "%s takes no value (found '%.60s')", name, value);
        return settings_read_setting(&a->settings, name + 2, "1", err);
    }
    if (!value) return fail(err, "%s needs a value", name);
    ++*at;
    for (const Setting *o = options; o < options + N_OPTIONS; o++) {
        if (strcmp(o->option, name) == 0) return setting_read(o, a, name, value, err);
    }
    if (is_long) return settings_read_setting(&a->settings, name + 2, value, err);
    return fail(err, "there is no option '%.60s'", name);
}

// A text in the making.
typedef struct {
    const Definition *by;
    Model model;
    RopePlan plan;
    Plain plain;
    Tokenizer *tokenizer;
    int32_t *prompt;  // (n_prompt) ids
    int n_prompt;
    Arena arena;    // of all arrays
    float *x;       // (dim) the last layer's result for the last token
    float *logits;  // (vocab_size) of the next one
    int32_t *read;  // (context) the tokens so far
} TinyText;

// The most positions of the text.
static int context_of(const Model *m, int asked) {
    if (asked >= 0) return asked > 0 ? asked : m->config.seq_len;
    int most = m->config.most_positions;
    return most && most < USUAL_POSITIONS ? most : USUAL_POSITIONS;
}

// Opens the model, plans its RoPE by the settings given and its own, and takes memory for the text.
static bool open_text(TinyText *t, const char *path, const Asked *a, Error *err) {
    Model *m = &t->model;
    Plain *p = &t->plain;
    if (!model_open(path, t->by->known, m, err)) return false;
    *p = (Plain){.model = m, .rope = &t->plan.rope, .context = context_of(m, a->n)};
    if (!t->by->plan(p, &a->settings, &t->plan, err)) return false;
    for (int pass = 0; pass < 2; pass++) {  // an arena first counts, then gives
        t->by->lay_out(p, &t->arena);
        t->x = arena_take(&t->arena, m->config.dim, sizeof(float));
        t->logits = arena_take(&t->arena, m->config.vocab_size, sizeof(float));
        t->read = arena_take(&t->arena, p->context, sizeof *t->read);
        if (pass == 0 && !arena_open(&t->arena, "the past", err)) return false;
    }
    return true;
}

static void close_text(TinyText *t) {
    tokenizer_free(t->tokenizer);
    free(t->prompt);
    free(t->plain.extra);
    arena_close(&t->arena);
    model_close(&t->model);
}

// Finds the model's tokenizer, and encodes the prompt.
static bool take_prompt(TinyText *t, const char *path, const char *text, Error *err) {
    size_t n;
    t->tokenizer =
        tokenizer_find(NULL, path, t->model.config.vocab_size, "python3 model_export.py", err);
    if (!t->tokenizer) return false;
    t->prompt = tokenizer_encode(t->tokenizer, text, strlen(text), true, &n, err);
    if (!t->prompt) return false;
    t->n_prompt = (int)n;
    return prompt_fits(n, t->plain.context, err);
}

// Prints and reads the prompt, then samples until a token ends the text or the context is full. The
// token that no longer fits is printed, but not read.
static bool write_text(TinyText *t, Sampler *s, Error *err) {
    const ModelConfig *m = &t->model.config;
    TextOut out = {.tokenizer = t->tokenizer, .previous = -1};
    for (int i = 0;; i++) {
        bool in_prompt = i < t->n_prompt;
        int length = in_prompt ? t->n_prompt : i + 1;  // of the text so far, for dynamic methods
        int32_t token = in_prompt ? t->prompt[i] : -1;
        if (!in_prompt) {
            t->by->logits(&t->plain, t->x, t->logits);
            if (!all_finite(t->logits, m->vocab_size))
                return fail_not_finite(m->n_layers, m->n_layers, i - 1, err);
            token = sampler_next(s, t->logits);
            if (tokenizer_ends_text(t->tokenizer, token, m->eos_ids, m->n_eos)) break;
        }
        text_out_token(&out, token);
        if (i == t->plain.context) break;
        t->read[i] = token;
        bool anew = !in_prompt && settings_changes_list(t->plain.rope, length - 1, length);
        for (int j = anew ? 0 : i; j <= i; j++) {  // the whole text by longrope's other list
            int layer = t->by->forward(&t->plain, t->read[j], j, length, t->x);
            if (layer < m->n_layers) return fail_not_finite(layer, m->n_layers, j, err);
        }
    }
    return text_out_end(err);
}

int tiny_program(int argc, char **argv, const Definition *by) {
    Asked a = {.prompt = "", .n = -1, .sampling = {.temperature = 1, .top_p = 0.9}};
    TinyText t = {.by = by};
    Sampler s = {0};
    Error err;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0) continue;
        printf("usage: %s %s\n", by->name, usage);
        return YES;
    }
    bool ok = argc > 1 || fail(&err, "a model is needed (%s %s)", by->name, usage);
    for (int i = 2; ok && i < argc;) ok = read_option(&a, argv, &i, &err);
    ok = ok && (!a.rope || settings_read(&a.settings, a.rope, &err));
    ok = ok && open_text(&t, argv[1], &a, &err);
    ok = ok && take_prompt(&t, argv[1], a.prompt, &err);
    uint64_t seed = a.seed ? a.seed : seed_from_clock();
    ok = ok && sampler_init(&s, &a.sampling, t.model.config.vocab_size, seed, &err);
    ok = ok && write_text(&t, &s, &err);
    if (!ok) fprintf(stderr, "%s: %s\n", by->name, err.text);
    sampler_free(&s);
    close_text(&t);
    return ok ? YES : TROUBLE;
}
