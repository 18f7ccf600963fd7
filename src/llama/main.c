// The tiny program: a prompt, and what a model answers by the definition alone, on one thread. This
// folder and rope.c are all of it (make core). It prints what ./run --plain prints.
//
//     ./core model.bin -n 1024 --rope yarn -t 0.8 -i "It was a fine morning in the spring when"
#include <stdio.h>
#include <string.h>

#include "core.h"
#include "sampler.h"

typedef struct {
    const char *prompt, *rope;
    int n;  // positions, the prompt's included
    double temperature, top_p;
    uint64_t seed;
    RopeSettings settings;  // of --rope, --factor and others like it
} Asked;

#define OF_CORE(member) .place = offsetof(Asked, member)
static const Setting options[] = {
    {"-i", .type = TEXT, OF_CORE(prompt)},
    {"-n", .type = WHOLE, OF_CORE(n), .high = MOST},
    {"-p", .type = NUMBER, OF_CORE(top_p), .high = 1},
    {"-s", .type = SEED, OF_CORE(seed)},
    {"-t", .type = NUMBER, OF_CORE(temperature), .high = 1e6},
    {"--rope", .type = TEXT, OF_CORE(rope)},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };
static const char usage[] = "model.bin -n N -i TEXT -t T -p P -s SEED "
                            "--rope NAME:SETTING=VALUE --factor S";

// Reads an option and its value. What is not in the table is a setting of RoPE, such as --factor.
static bool read_argument(Asked *a, const char *name, const char *value, Error *err) {
    if (!value) return fail(err, "%s needs a value", name);
    for (const Setting *o = options; o < options + N_OPTIONS; o++) {
        if (strcmp(o->option, name) == 0) return setting_read(o, a, name, value, err);
    }
    if (strncmp(name, "--", 2) == 0)
        return settings_read_setting(&a->settings, name + 2, value, err);
    return fail(err, "there is no option '%.60s'", name);
}

// Writes and reads the prompt, then samples until a token ends the text or the context is full.
static bool write_text(Core *r, Sampler *s, Error *err) {
    const ModelConfig *m = &r->model.config;
    TextOut out = {.tokenizer = r->tokenizer, .previous = -1};
    for (int i = 0; i <= r->config.context; i++) {
        bool in_prompt = i < r->n_prompt;
        int32_t token = in_prompt ? r->prompt[i] : 0;
        if (!in_prompt) {
            float *logits = core_logits(r, i - 1, err);
            if (!logits) return false;
            token = sampler_next(s, logits);
            if (tokenizer_ends_text(r->tokenizer, token, m->eos_ids, m->n_eos)) break;
        }
        text_out_token(&out, token);
        int length = in_prompt ? r->n_prompt : i + 1;
        if (i < r->config.context && !core_read(r, token, i, length, err)) return false;
    }
    return text_out_end(err);
}

int main(int argc, char **argv) {
    Asked a = {.prompt = "", .n = -1, .temperature = 1, .top_p = 0.9};
    Core r = {0};
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
    ok = ok && core_open(&r, argv[1], &a.settings, a.n, &err);
    ok = ok && core_take_prompt(&r, argv[1], a.prompt, &err);
    uint64_t seed = a.seed ? a.seed : seed_from_clock();
    ok = ok && sampler_init(&s, r.model.config.vocab_size, a.temperature, a.top_p, seed, &err);
    ok = ok && write_text(&r, &s, &err);
    if (!ok) fprintf(stderr, "core: %s\n", err.text);
    sampler_free(&s);
    core_close(&r);
    return ok ? YES : TROUBLE;
}
