// The tiny program: a model continues a prompt, or its perplexity and its memory are measured,
// using only the definition. Its output is that of ./run --plain. With only a Llama it is ./llama
// (make llama), of this folder and rope.c; with all kinds of models it is ./core (make core).
//
//     ./llama model.bin -n 1024 --rope yarn -t 0.8 -i "It was a fine morning in the spring when"
//     ./llama model.bin -n 2048 --rope yarn --ppl book.txt
#include "tiny.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measures.h"
#include "sampler.h"

// Positions of a text, and of a measurement in trained lengths.
enum { USUAL_POSITIONS = 256, USUAL_CONTEXTS = 4 };

typedef struct {
    const char *prompt, *rope;
    const char *ppl;      // the text of --ppl
    bool passkey;
    int trials;
    int n;  // positions, prompt included; 0: the model's context; -1: as usual
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
    {"--passkey", .type = FLAG, IN_ASKED(passkey)},
    {"--ppl", .type = TEXT, IN_ASKED(ppl)},
    {"--rope", .type = TEXT, IN_ASKED(rope)},
    {"--trials", .type = WHOLE, IN_ASKED(trials), .low = 1, .high = MOST},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };
static const char usage[] = "model.bin -n N -i TEXT -t T -p P -k K --min-p M -s SEED "
                            "--rope NAME:SETTING=VALUE --factor S --logn "
                            "--ppl FILE --passkey --trials K";

// Reads the option at word *at, and leaves *at after its value. Options that are not in the table
// are settings of RoPE.
static bool take_option(Asked *a, char **words, int *at, Error *err) {
    const char *name = words[(*at)++], *value = words[*at];
    bool is_long = strncmp(name, "--", 2) == 0;
    const Setting *row = NULL;
    for (const Setting *o = options; o < options + N_OPTIONS; o++)
        if (strcmp(o->option, name) == 0) row = o;
    if (row ? row->type == FLAG : is_long && settings_is_flag(name + 2)) {
        if (value && value[0] != '-')
            return fail(err, "%s takes no value (found '%.60s')", name, value);
        value = "1";
    } else {
        if (!value) return fail(err, "%s needs a value", name);
        ++*at;
    }
    if (row) return setting_read(row, a, name, value, err);
    if (is_long) return settings_read_setting(&a->settings, name + 2, value, err);
    return fail(err, "there is no option '%.60s'", name);
}

// The most positions of the text, or of the measurement.
static int context_of(const Model *m, const Asked *a) {
    bool is_given = a->settings.given >> SET_TRAIN_CTX & 1;
    int most = m->config.most_positions;
    int usual = USUAL_POSITIONS;
    if (a->n >= 0) return a->n > 0 ? a->n : m->config.seq_len;
    if (a->ppl || a->passkey)
        usual = USUAL_CONTEXTS * (is_given ? a->settings.rope.train_ctx : m->rope.train_ctx);
    return most && most < usual ? most : usual;
}

// Prints and reads the prompt (n_prompt ids), then samples until a token ends the text or the
// context is full. The token that no longer fits is printed, but not read.
static bool write_text(TinyText *t, const int32_t *prompt, int n_prompt, Sampler *s, Error *err) {
    const ModelConfig *m = &t->model.config;
    TextOut out = {.tokenizer = t->tokenizer, .previous = -1};
    for (int i = 0;; i++) {
        bool in_prompt = i < n_prompt;
        int length = in_prompt ? n_prompt : i + 1;  // of the text so far, for dynamic methods
        int32_t token = in_prompt ? prompt[i] : sampler_next(s, t->logits);
        if (!in_prompt && tokenizer_ends_text(t->tokenizer, token, m->eos_ids, m->n_eos)) break;
        text_out_token(&out, token);
        if (i == t->plain.context) break;
        t->tokens[i] = token;
        bool anew = !in_prompt && settings_changes_list(t->plain.rope, length - 1, length);
        for (int j = anew ? 0 : i; j <= i; j++)  // the whole text by longrope's other list
            if (!text_read(t, t->tokens[j], j, length, j == i && i + 1 >= n_prompt, err))
                return false;
    }
    return text_out_end(err);
}

// Encodes the prompt, and goes on with it.
static bool continue_prompt(TinyText *t, const Asked *a, Error *err) {
    size_t n;
    Sampler s = {0};
    int32_t *prompt = tokenizer_encode(t->tokenizer, a->prompt, strlen(a->prompt), true, &n, err);
    bool ok = prompt && prompt_fits(n, t->plain.context, err) &&
              sampler_init(&s, &a->sampling, t->model.config.vocab_size,
                           a->seed ? a->seed : seed_from_clock(), err) &&
              write_text(t, prompt, (int)n, &s, err);
    sampler_free(&s);
    free(prompt);
    return ok;
}

int tiny_program(int argc, char **argv, const Definition *by) {
    Asked a = {.prompt = "", .n = -1, .trials = 10, .sampling = {.temperature = 1, .top_p = 0.9}};
    TinyText t = {.by = by, .path = argv[1]};
    Error err;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0) continue;
        printf("usage: %s %s\n", by->name, usage);
        return YES;
    }
    bool ok = argc > 1 || fail(&err, "a model is needed (%s %s)", by->name, usage);
    for (int i = 2; ok && i < argc;) ok = take_option(&a, argv, &i, &err);
    if (ok && a.ppl && a.passkey) ok = fail(&err, "--ppl and --passkey cannot be combined");
    ok = ok && (!a.rope || settings_read(&a.settings, a.rope, &err));
    ok = ok && model_open(t.path, by->known, &t.model, &err);
    ok = ok && text_open(&t, &a.settings, context_of(&t.model, &a), &err);
    if (ok && a.ppl) ok = tiny_perplexity(&t, a.ppl, &err);
    else if (ok && a.passkey) ok = tiny_passkey(&t, a.trials, a.seed, &err);
    else ok = ok && continue_prompt(&t, &a, &err);
    if (!ok) fprintf(stderr, "%s: %s\n", by->name, err.text);
    text_close(&t);
    return ok ? YES : TROUBLE;
}
