// rope.c: Llama inference past the trained context. Start reading here: options, then one function per thing to do.
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rope.h"
#include "src/forward/team.h"
#include "src/forward/transformer.h"
#include "src/measure/bench.h"
#include "src/measure/explain.h"
#include "src/measure/measure.h"
#include "src/model/model.h"
#include "src/model/quantize.h"
#include "src/settings.h"
#include "src/text/chat.h"
#include "src/text/sampler.h"
#include "src/text/tokenizer.h"

#define VERSION "0.1"

enum { EXIT_USAGE = 2, EXIT_INTERRUPTED = 128 + SIGINT };

// The only thing here that changes by itself: Ctrl-C ends the text, and the closing line is still printed. A second one
// ends the program.
static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

// From here on Ctrl-C is taken note of. With flags 0 instead of SA_RESTART it also ends a read that waits for the user.
static void catch_interrupt(int flags) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = flags | (int)SA_RESETHAND};
    if (!interrupted) sigaction(SIGINT, &action, NULL);
}

// Reading a mapped file that has become shorter.
static void on_bus_error(int signal_number) {
    static const char message[] = "run: a file became shorter while it was in use\n";
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0) _exit(128 + signal_number);
    _exit(EXIT_FAILURE);
}

// ---- options --------------------------------------------------------------------------------------------------------

typedef struct {
    const char *model_path;
    double temperature, top_p;
    uint64_t seed;
    int steps;  // -1: not said
    const char *prompt, *prompt_file, *tokenizer_path, *mode, *system_prompt;
    const char *methods;  // --rope, NULL: the model's own
    RopeSettings rope;    // the other rope options
    int head_dim;
    KvType kv;
    int threads;
    bool ignore_eos;
    const char *ppl_file;
    bool ids, per_token;
    int samples;
    bool passkey, explain, plot, rope_json, bench;
    int trials;
    double min_accuracy;
    const char *quantize_type, *quantize_path;
    bool help, version;
} Options;

// The options by name, with what --help says of them. A line without help goes with the one above it.
typedef struct {
    const char *name, *argument, *help;
} OptionText;

static const OptionText option_texts[] = {
    {"-t", "T", "temperature, 0 is greedy [1]"},
    {"-p", "P", "top-p: sample from the likeliest tokens that make up P [0.9]"},
    {"-s", "SEED", "seed of the random numbers, 0: from the clock [0]"},
    {"-n", "N", "positions, prompt included; 0: the model's context [256; measurements 4 times the trained context]"},
    {"-i", "TEXT", "prompt"},
    {"-f", "FILE", "prompt from a file, - for standard input"},
    {"-z", "FILE", "tokenizer [NAME.tokenizer.bin or tokenizer.bin beside the model]"},
    {"-m", "MODE", "generate or chat, with Llama 2's or Llama 3's turns as the tokenizer tells [generate]"},
    {"-y", "TEXT", "system prompt of a chat"},
    {"--ignore-eos", NULL, "keep generating past an end token"},
    {"--kv", "TYPE", "precision of the key-value cache: f16, f32 or q8 [f16]"},
    {"--threads", "N", "threads [OMP_NUM_THREADS, else the physical cores]"},
    {NULL, NULL, "Rope settings; what is not said comes from the model"},
    {"--rope", "NAME",
     "method, see below; measurements take a comma list, settings after colons (yarn:factor=4,8:ramp=turns), or all"},
    {"--factor", "S", "scale: how many times longer than trained [N / L; 1 for dynamic methods]"},
    {"--theta", "B", "base of the inverse frequencies"},
    {"--train-ctx", "L", "trained context"},
    {"--beta-fast", "R", "turns within L from which a pair is kept [32]"},
    {"--beta-slow", "R", "turns within L up to which a pair is interpolated [1]"},
    {"--ramp", "FORM", "dims (as released checkpoints and libraries) or turns (as in the paper) [dims]"},
    {"--attn-factor", "A", "factor of cos and sin, instead of the method's own"},
    {"--low-freq-factor", "F", "llama3 [1]"},
    {"--high-freq-factor", "F", "llama3 [4]"},
    {"--window", "W", "attend to the last W positions only; 0: to all"},
    {"--sinks", "K", "and to the first K positions always"},
    {NULL, NULL, "Instead of generating"},
    {"--ppl", "FILE", "perplexity by position over a text, - for standard input"},
    {"--ids", NULL, "the FILE of --ppl holds token ids as decimal numbers"},
    {"--per-token", NULL, "--ppl prints every position"},
    {"--samples", "K", "--ppl averages K windows spread evenly over the text [1]"},
    {"--passkey", NULL, "needle retrieval by length and depth"},
    {"--trials", "K", "--passkey asks K times at each length and depth [10]"},
    {"--min-accuracy", "A", "--passkey's exit status is 1 when a method's accuracy is below A [0]"},
    {"--explain", NULL, "what the method does to every pair at length N"},
    {"--plot", NULL, "--explain draws the pairs on standard error, as it does for a terminal"},
    {"--head-dim", "D", "--explain and --rope-json without a model: give --theta and --train-ctx too"},
    {"--rope-json", NULL, "the settings in force as a rope_scaling block for Hugging Face and vLLM"},
    {"--bench", NULL, "speed of prefill and decode, at the start and behind N positions [8192]"},
    {"--quantize", "TYPE OUT", "write a copy of the model with q8 or q4 weights, and print what rounding did"},
    {"--help", NULL, "this text"},
    {"--version", NULL, "the version"},
};

static void print_help(void) {
    printf("rope.c " VERSION ": Llama inference past the trained context\n\nusage: run model.bin [options]\n\n");
    for (size_t i = 0; i < sizeof option_texts / sizeof option_texts[0]; i++) {
        const OptionText *o = &option_texts[i];
        char left[40];
        snprintf(left, sizeof left, "%s %s", o->name ? o->name : "", o->argument ? o->argument : "");
        if (o->name) printf("  %-22s %s\n", left, o->help);
        else printf("\n%s:\n", o->help);
    }
    printf("\nMethods of --rope:\n");
    for (int i = 0; i < rope_n_methods; i++)
        printf("  %-22s %s (%s)\n", rope_methods[i].name, rope_methods[i].summary, rope_methods[i].source);
    printf("  %-22s the method with a scale that follows the length; dynamic is dynamic-ntk\n", "dynamic-NAME");
    printf("  %-22s none, with a --window of the trained context\n", "window");
}

static bool parse_seed(const char *text, uint64_t *seed, Error *err) {
    char *end;
    *seed = strtoull(text, &end, 10);
    char back[32];
    snprintf(back, sizeof back, "%llu", (unsigned long long)*seed);
    return strcmp(back, text) == 0 ||
           fail(err, "-s: '%.60s' is not a whole number from 0 to 18446744073709551615", text);
}

static bool parse_word(const char *option, const char *text, const char *const *words, int n, int *out, Error *err) {
    char all[100] = "";
    for (*out = 0; *out < n; ++*out) {
        if (strcmp(text, words[*out]) == 0) return true;
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *out ? ", " : "", words[*out]);
    }
    return fail(err, "%s: '%.60s' is not known (expected %s)", option, text, all);
}

// Sets one option. `value` is empty for options without an argument.
static bool set_option(Options *o, const char *name, const char *value, Error *err) {
    static const char *const modes[] = {"generate", "chat"};
    const struct {
        const char *name;
        const char **field;
    } texts[] = {{"-i", &o->prompt},        {"-f", &o->prompt_file}, {"-z", &o->tokenizer_path},
                 {"-y", &o->system_prompt}, {"--rope", &o->methods}, {"--ppl", &o->ppl_file}};
    const struct {
        const char *name;
        bool *field;
    } flags[] = {{"--ignore-eos", &o->ignore_eos}, {"--ids", &o->ids},         {"--per-token", &o->per_token},
                 {"--passkey", &o->passkey},       {"--explain", &o->explain}, {"--plot", &o->plot},
                 {"--rope-json", &o->rope_json},   {"--bench", &o->bench},     {"--help", &o->help},
                 {"--version", &o->version}};
    const struct {
        const char *name;
        int *field;
        long low, high;
    } counts[] = {{"-n", &o->steps, 0, 1 << 30},
                  {"--threads", &o->threads, 1, 1024},
                  {"--samples", &o->samples, 1, 1 << 20},
                  {"--trials", &o->trials, 1, 1 << 20},
                  {"--head-dim", &o->head_dim, 2, ROPE_MAX_HEAD_DIM}};
    const struct {
        const char *name;
        double *field, low, high;
    } numbers[] = {
        {"-t", &o->temperature, 0, 1e6}, {"-p", &o->top_p, 0, 1}, {"--min-accuracy", &o->min_accuracy, 0, 1}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(name, texts[i].name) == 0) return *texts[i].field = value, true;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (strcmp(name, flags[i].name) == 0) return *flags[i].field = true;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (strcmp(name, counts[i].name) == 0)
            return parse_int(name, value, counts[i].low, counts[i].high, counts[i].field, err);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(name, numbers[i].name) == 0)
            return parse_double(name, value, numbers[i].low, numbers[i].high, numbers[i].field, err);
    int word;
    if (strcmp(name, "-s") == 0) return parse_seed(value, &o->seed, err);
    if (strcmp(name, "-m") == 0) return parse_word(name, value, modes, 2, &word, err) && (o->mode = modes[word]);
    if (strcmp(name, "--kv") == 0)
        return parse_word(name, value, kv_type_names, N_KV_TYPES, &word, err) && ((o->kv = (KvType)word), true);
    bool known;
    Error reason;
    return settings_set(&o->rope, name + 2, value, &known, &reason) || fail(err, "--%s", reason.text);
}

// Reads the command line. False with the reason, which is about usage.
static bool parse_options(int argc, char **argv, Options *o, Error *err) {
    *o = (Options){.temperature = 1,
                   .top_p = 0.9,
                   .steps = -1,
                   .mode = "generate",
                   .rope = settings_nothing_said,
                   .kv = KV_F16,
                   .samples = 1,
                   .trials = 10};
    for (int i = 1; i < argc; i++) {
        char name[32];
        const char *equals = strncmp(argv[i], "--", 2) == 0 ? strchr(argv[i], '=') : NULL;
        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            if (o->model_path)
                return fail(err, "'%.100s': there is a model file already (%.100s)", argv[i], o->model_path);
            o->model_path = argv[i];
            continue;
        }
        snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - argv[i]) : 31, argv[i]);
        const OptionText *text = NULL;
        for (size_t j = 0; j < sizeof option_texts / sizeof option_texts[0]; j++)
            if (option_texts[j].name && strcmp(name, option_texts[j].name) == 0) text = &option_texts[j];
        if (!text) return fail(err, "there is no option '%.100s' (see --help)", argv[i]);
        if (equals && !text->argument) return fail(err, "%s takes no value", name);
        const char *value = equals ? equals + 1 : text->argument ? argv[++i] : "";
        if (!value) return fail(err, "%s needs a value (%s)", name, text->argument);
        if (strcmp(name, "--quantize") == 0) {
            if (!argv[i + 1]) return fail(err, "--quantize needs two values (q8 or q4, and OUT)");
            o->quantize_type = value;
            o->quantize_path = argv[++i];
        } else if (!set_option(o, name, value, err)) {
            return false;
        }
    }
    return true;
}

// The weight type of --quantize, N_WEIGHT_TYPES when there is none of that name.
static WeightType quantized_type(const char *name) {
    for (WeightType type = WEIGHT_Q8; type < N_WEIGHT_TYPES; type++)
        if (strcmp(name, weight_type_names[type]) == 0) return type;
    return N_WEIGHT_TYPES;
}

// Options that contradict each other or miss one another.
static bool check_options(const Options *o, Error *err) {
    int jobs = (o->ppl_file != NULL) + o->passkey + o->explain + o->rope_json + o->bench + (o->quantize_path != NULL);
    if (jobs > 1)
        return fail(err, "--ppl, --passkey, --explain, --bench, --rope-json and --quantize exclude one another");
    if (!o->model_path && !((o->explain || o->rope_json) && o->head_dim))
        return fail(err, "no model file given (usage: run model.bin [options])");
    if (o->head_dim && o->model_path) return fail(err, "--head-dim is for --explain and --rope-json without a model");
    if (o->head_dim % 2) return fail(err, "--head-dim: '%d' is not an even number", o->head_dim);
    if (o->head_dim && (o->rope.theta == 0 || o->rope.train_ctx == 0))
        return fail(err, "--head-dim needs --theta and --train-ctx with it");
    if (o->prompt && o->prompt_file) return fail(err, "-i and -f exclude one another");
    if ((o->ids || o->per_token || o->samples != 1) && !o->ppl_file)
        return fail(err, "--ids, --per-token and --samples go with --ppl");
    if ((o->trials != 10 || o->min_accuracy != 0) && !o->passkey)
        return fail(err, "--trials and --min-accuracy go with --passkey");
    if (o->plot && !o->explain) return fail(err, "--plot goes with --explain");
    if (o->rope.beta_fast != 0 && o->rope.beta_slow != 0 && o->rope.beta_fast < o->rope.beta_slow)
        return fail(err, "--beta-fast must not be below --beta-slow");
    if (o->rope.low_freq_factor != 0 && o->rope.high_freq_factor != 0 &&
        o->rope.low_freq_factor >= o->rope.high_freq_factor)
        return fail(err, "--high-freq-factor must be above --low-freq-factor");
    if (o->methods) {  // read for good when the model is known; here for its spelling
        int n;
        RopeSettings *list = settings_parse_list(o->methods, &o->rope, true, &n, err);
        if (!list) return false;
        free(list);
        bool many = o->ppl_file || o->passkey;
        if (n > 1 && !many)
            return fail(err, "--rope: one method expected, '%.100s' are %d (lists are for --ppl and --passkey)",
                        o->methods, n);
    }
    if (o->quantize_type && quantized_type(o->quantize_type) == N_WEIGHT_TYPES)
        return fail(err, "--quantize: '%.60s' is not a type that can be written (expected q8 or q4)", o->quantize_type);
    return true;
}

// ---- loading --------------------------------------------------------------------------------------------------------

typedef struct {
    Model model;
    Tokenizer *tokenizer;
    RopePlan *plans;  // the methods to run, at least one
    int n_plans;
    int context;       // -n, resolved
    int end_of_turn;   // in a chat, -1: none
    char advice[300];  // a warning about the only method, or empty
} Program;

// The tokenizer that belongs to the model when -z says none: NAME.tokenizer.bin beside it, else tokenizer.bin beside it.
static bool open_tokenizer(const Options *o, Program *p, Error *err) {
    const char *path = o->tokenizer_path;
    char found[4096];
    if (!path) {
        const char *slash = strrchr(o->model_path, '/'), *dot = strrchr(o->model_path, '.');
        int folder = slash ? (int)(slash + 1 - o->model_path) : 0;
        int stem = dot && dot > o->model_path + folder ? (int)(dot - o->model_path) : (int)strlen(o->model_path);
        if ((size_t)stem + 32 > sizeof found) return fail(err, "%.100s...: the path is too long", o->model_path);
        snprintf(found, sizeof found, "%.*s.tokenizer.bin", stem, o->model_path);
        if (access(found, R_OK) != 0) snprintf(found, sizeof found, "%.*stokenizer.bin", folder, o->model_path);
        path = found;
    }
    p->tokenizer = tokenizer_open(path, p->model.config.vocab_size, err);
    return p->tokenizer != NULL;
}

// The method or methods of --rope, resolved for p->context positions.
static bool make_plans(const Options *o, Program *p, Error *err) {
    RopeSettings one = o->rope, *list = &one;
    const Model *model = o->model_path ? &p->model : NULL;
    RopeConfig start = {.head_dim = o->head_dim, .truncate = true};
    p->n_plans = 1;
    if (o->methods &&
        !(list = settings_parse_list(o->methods, &o->rope, model && model->rope.short_factors, &p->n_plans, err)))
        return false;
    p->plans = alloc_array((size_t)p->n_plans, sizeof *p->plans, "methods", err);
    bool ok = p->plans != NULL;
    for (int i = 0; ok && i < p->n_plans; i++)
        ok = settings_resolve(&list[i], model, start, p->context, &p->plans[i], err);
    if (ok && p->n_plans == 1) settings_advice(&list[0], &p->plans[0], p->context, p->advice, sizeof p->advice);
    if (list != &one) free(list);
    return ok;
}

static void print_advice(const Program *p) {
    if (p->advice[0]) fprintf(stderr, "run: warning: %s\n", p->advice);
}

static void close_program(Program *p) {
    tokenizer_free(p->tokenizer);
    free(p->plans);
    model_close(&p->model);
}

// ---- text in and out ------------------------------------------------------------------------------------------------

// Writes decoded tokens to standard output, whole characters at a time.
typedef struct {
    const Tokenizer *tokenizer;
    Utf8Stream stream;
    int previous;  // the token before, -1: none
} TextOut;

static void write_token(TextOut *out, int token) {
    size_t n;
    const char *piece = tokenizer_decode(out->tokenizer, out->previous, token, &n);
    out->previous = token;
    // As in llama2.c, a single byte that cannot be shown (a bell, a backspace, half a character) is left out.
    unsigned char first = n == 1 ? (unsigned char)piece[0] : 'a';
    if (first < 128 && !isprint(first) && !isspace(first)) return;
    char stack[256], *text = n + 4 <= sizeof stack ? stack : malloc(n + 4);
    if (!text) return;
    fwrite(text, 1, utf8_push(&out->stream, piece, n, text), stdout);
    fflush(stdout);
    if (text != stack) free(text);
}

// BOS and the ids of a text, in memory that the caller frees.
static int32_t *encode_prompt(const Tokenizer *tokenizer, const char *text, size_t length, int *n, Error *err) {
    size_t n_text;
    int32_t *ids = tokenizer_encode(tokenizer, text, length, &n_text, err);
    int32_t *all = ids ? alloc_array(n_text + 1, sizeof *all, "the prompt", err) : NULL;
    if (all) {
        int bos = tokenizer_bos(tokenizer), with_bos = bos >= 0;
        all[0] = bos;
        memcpy(all + with_bos, ids, n_text * sizeof *ids);
        if (n_text > 1 << 30)
            fail(err, "the prompt has %zu tokens, more than can be counted", n_text), free(all), all = NULL;
        *n = (int)n_text + with_bos;
    }
    free(ids);
    return all;
}

// Reads token ids, decimal numbers between spaces, commas or newlines.
static int32_t *parse_ids(const char *path, const char *text, size_t length, size_t *n, Error *err) {
    int32_t *ids = alloc_array(length / 2 + 1, sizeof *ids, "token ids", err);
    const char *end = text + length;
    *n = 0;
    for (const char *p = text; ids && p < end;) {
        if (isspace((unsigned char)*p) || *p == ',') {
            p++;
            continue;
        }
        long id = 0;
        const char *start = p;
        while (p < end && isdigit((unsigned char)*p) && id < 1 << 30) id = id * 10 + (*p++ - '0');
        if (p == start || (p < end && !isspace((unsigned char)*p) && *p != ',') || id >= 1 << 30) {
            fail(err, "%s: byte %zu: '%.20s' is not a token id", path, (size_t)(start - text), start);
            free(ids);
            return NULL;
        }
        ids[(*n)++] = (int32_t)id;
    }
    return ids;
}

// ---- generation -----------------------------------------------------------------------------------------------------

// Tokens and seconds of both phases, for the closing line.
typedef struct {
    long prefill_tokens, decode_tokens;
    double prefill_seconds, decode_seconds;
} Speed;

static void print_speed(const Speed *s) {
    fprintf(stderr, "run: prefill %ld tokens, %.2f tokens/s; decode %ld tokens, %.2f tokens/s\n", s->prefill_tokens,
            s->prefill_seconds > 0 ? (double)s->prefill_tokens / s->prefill_seconds : 0, s->decode_tokens,
            s->decode_seconds > 0 ? (double)s->decode_tokens / s->decode_seconds : 0);
}

// Reads a prompt, at its own full length. Ctrl-C ends it after the chunk at hand.
static bool read_prompt(Session *session, const int32_t *ids, int n, Speed *speed, Error *err) {
    double start = now_seconds();
    int length = session_position(session) + n;
    bool ok = true;
    catch_interrupt(SA_RESTART);
    for (int done = 0, count; ok && done < n && !interrupted; done += count) {
        count = n - done < PREFILL_CHUNK ? n - done : PREFILL_CHUNK;
        ok = session_read(session, ids + done, count, length, done + count == n, err);
        speed->prefill_tokens += count;
    }
    speed->prefill_seconds += now_seconds() - start;
    return ok;
}

static bool is_end(const Program *p, int token) {
    for (int i = 0; i < p->model.config.n_eos; i++)
        if (token == p->model.config.eos_ids[i]) return true;
    return tokenizer_is_end(p->tokenizer, token) || token == tokenizer_bos(p->tokenizer) || token == p->end_of_turn;
}

// Samples and shows tokens until an end token, the end of the context, Ctrl-C or nobody who reads them. *last is the token that
// was sampled last and, when it ended the text, has not been read.
static bool answer(const Program *p, Session *session, Sampler *sampler, TextOut *out, bool ignore_eos, Speed *speed,
                   int *last, Error *err) {
    while (!interrupted && !ferror(stdout)) {
        float *logits = session_logits(session, 0, 1, err);
        if (!logits) return false;
        int32_t next = sampler_next(sampler, logits);
        *last = next;
        if (is_end(p, next) && !ignore_eos) return true;
        write_token(out, next);
        int position = session_position(session);
        if (position >= p->context) return true;
        double start = now_seconds();
        if (!session_read(session, &next, 1, position + 1, 1, err)) return false;
        speed->decode_seconds += now_seconds() - start;
        speed->decode_tokens++;
    }
    return true;
}

// What is left of an unfinished character is dropped with the stream.
static void end_text(void) {
    putchar('\n');
    fflush(stdout);
}

static bool generate(const Options *o, const Program *p, Session *session, Sampler *sampler, Error *err) {
    size_t length = o->prompt ? strlen(o->prompt) : 0;
    char *file = o->prompt_file ? read_file(o->prompt_file, &length, err) : NULL;
    if (o->prompt_file && !file) return false;
    int n = 0, last;
    int32_t *ids = encode_prompt(p->tokenizer, file ? file : o->prompt ? o->prompt : "", length, &n, err);
    free(file);
    bool ok = ids != NULL;
    if (ok && n == 0) ok = fail(err, "the prompt is empty and the tokenizer has no BOS token to begin with");
    if (ok && n > p->context)
        ok = fail(err, "the prompt has %d tokens, and -n %d is all that it and the answer may have", n, p->context);
    TextOut out = {.tokenizer = p->tokenizer, .stream = {.drop_bad = true}, .previous = -1};
    Speed speed = {0};
    ok = ok && read_prompt(session, ids, n, &speed, err);
    for (int i = 0; ok && !interrupted && i < n; i++) write_token(&out, ids[i]);
    ok = ok && answer(p, session, sampler, &out, o->ignore_eos, &speed, &last, err);
    if (ok) end_text(), print_speed(&speed);
    free(ids);
    return ok;
}

// The next line of standard input without its newline, or NULL at the end or on Ctrl-C. The label is for people at a terminal.
static char *ask_line(const char *label) {
    char *line = NULL;
    size_t capacity = 0;
    if (isatty(STDIN_FILENO)) fprintf(stderr, "%s", label);
    catch_interrupt(0);
    ssize_t n = getline(&line, &capacity, stdin);
    if (n < 0) {
        free(line);
        return NULL;
    }
    if (n > 0 && line[n - 1] == '\n') line[n - 1] = '\0';
    return line;
}

// Reads one turn of the user; *full when it does not fit in what is left of the context. `before` is the token that ended
// the last answer, -1: none.
static bool read_turn(const Program *p, Session *session, bool first, const char *system_prompt, const char *user,
                      int before, Speed *speed, bool *full, Error *err) {
    int n;
    int32_t *ids = chat_turn(p->tokenizer, first, system_prompt, user, before, &n, err);
    if (!ids) return false;
    *full = n > p->context - session_position(session);
    bool ok = *full || read_prompt(session, ids, n, speed, err);
    free(ids);
    return ok;
}

static bool chat(const Options *o, Program *p, Session *session, Sampler *sampler, Error *err) {
    Speed speed = {0};
    int last = -1;
    bool ok = true, full = false;
    p->end_of_turn = chat_end_of_turn(p->tokenizer);
    char *typed = o->system_prompt ? NULL : ask_line("Enter system prompt (optional): ");
    const char *system_prompt = o->system_prompt ? o->system_prompt : typed ? typed : "";
    for (int turn = 0; ok && !full && !interrupted; turn++) {
        char *line = turn == 0 && o->prompt ? NULL : ask_line("User: ");
        const char *user = turn == 0 && o->prompt ? o->prompt : line;
        if (!user) break;
        ok = read_turn(p, session, turn == 0, system_prompt, user, last, &speed, &full, err);
        free(line);
        if (!ok || full || interrupted) break;
        printf("Assistant: ");
        TextOut out = {.tokenizer = p->tokenizer, .stream = {.drop_bad = true}, .previous = -1};
        ok = answer(p, session, sampler, &out, o->ignore_eos, &speed, &last, err);
        end_text();
        full = session_position(session) >= p->context;
        if (!is_end(p, last)) last = -1;
    }
    free(typed);
    if (full) fprintf(stderr, "run: the context of %d positions is full: give -n more for a longer chat\n", p->context);
    if (ok) print_speed(&speed);
    return ok;
}

static bool run_text(const Options *o, Program *p, Error *err) {
    const RopePlan *plan = &p->plans[0];
    uint64_t seed = o->seed ? o->seed : (uint64_t)time(NULL);
    Sampler sampler = {0};
    Session *session = open_session(&p->model, plan, o->kv, p->context, true, err);
    if (!session) return false;
    fprintf(stderr, "run: rope %s, factor %.6g, trained on %d; seed %llu\n", plan->name, plan->rope.factor,
            plan->rope.train_ctx, (unsigned long long)seed);
    print_advice(p);
    bool ok = sampler_init(&sampler, p->model.config.vocab_size, o->temperature, o->top_p, seed, err);
    ok = ok &&
         (strcmp(o->mode, "chat") == 0 ? chat(o, p, session, &sampler, err) : generate(o, p, session, &sampler, err));
    sampler_free(&sampler);
    session_free(session);
    return ok;
}

// ---- measurements ---------------------------------------------------------------------------------------------------

// The length of a measurement that -n does not give: enough to see what happens past the trained context.
static int measured_length(const Program *p) {
    int train_ctx = p->model.rope.train_ctx, seq_len = p->model.config.seq_len;
    int four_times = train_ctx <= (1 << 28) ? 4 * train_ctx : train_ctx;
    return four_times > seq_len ? four_times : seq_len;
}

// The `#` lines of a measurement.
static void describe_measurement(const Options *o, const Program *p, const char *what, char *heading, size_t capacity) {
    snprintf(heading, capacity, "# %s\t%.200s\n# length\t%d\n# train_ctx\t%d\n# kv\t%s\n", what, o->model_path,
             p->context, p->plans[0].rope.train_ctx, kv_type_names[o->kv]);
    if (o->ppl_file)
        snprintf(heading + strlen(heading), capacity - strlen(heading), "# text\t%.200s\n# samples\t%d\n", o->ppl_file,
                 o->samples);
}

static bool run_perplexity(const Options *o, Program *p, Error *err) {
    size_t length, n = 0;
    char *text = read_file(o->ppl_file, &length, err);
    if (!text || (!o->ids && !open_tokenizer(o, p, err))) {
        free(text);
        return false;
    }
    int32_t *ids =
        o->ids ? parse_ids(o->ppl_file, text, length, &n, err) : tokenizer_encode(p->tokenizer, text, length, &n, err);
    free(text);
    int bos = ids && !o->ids ? tokenizer_bos(p->tokenizer) : -1;
    if (o->steps < 0 && n + (bos >= 0) < (size_t)p->context) p->context = (int)n + (bos >= 0);
    bool ok = ids && make_plans(o, p, err);
    for (size_t i = 0; ok && i < n; i++)
        if (ids[i] >= p->model.config.vocab_size)
            ok = fail(err, "%s: token %d is not in the model's vocabulary of %d", o->ppl_file, (int)ids[i],
                      p->model.config.vocab_size);
    if (ok) {
        char heading[600];
        Measurement m = {&p->model, p->tokenizer, p->plans, p->n_plans, o->kv, p->context, heading};
        describe_measurement(o, p, "perplexity", heading, sizeof heading);
        ok = measure_perplexity(&m, ids, n, bos, o->samples, o->per_token, err);
    }
    free(ids);
    return ok;
}

static bool run_bench(const Options *o, const Program *p, Error *err) {
    char heading[600];
    describe_measurement(o, p, "bench", heading, sizeof heading);
    return bench(&p->model, &p->plans[0], o->kv, p->context, heading, err);
}

static bool run_passkey(const Options *o, Program *p, bool *passed, Error *err) {
    if (!open_tokenizer(o, p, err) || !make_plans(o, p, err)) return false;
    char heading[600];
    Measurement m = {&p->model, p->tokenizer, p->plans, p->n_plans, o->kv, p->context, heading};
    double worst;
    describe_measurement(o, p, "passkey", heading, sizeof heading);
    if (!measure_passkey(&m, o->trials, o->seed, &worst, err)) return false;
    *passed = worst >= o->min_accuracy;
    if (!*passed)
        fprintf(stderr, "run: the worst method's accuracy is %.3f, below --min-accuracy %g\n", worst, o->min_accuracy);
    return true;
}

// ---- main -----------------------------------------------------------------------------------------------------------

static int context_of(const Options *o, const Program *p) {
    if (o->steps > 0) return o->steps;
    if (!o->model_path) return o->rope.train_ctx;
    if (o->steps == 0) return p->model.config.seq_len;
    if (o->ppl_file || o->passkey) return measured_length(p);
    if (o->explain || o->rope_json) return p->model.config.seq_len;
    if (o->bench) return BENCH_DEPTH;
    return 256;
}

static bool run_quantize(const Options *o, const Program *p, Error *err) {
    QuantizeError errors[N_TENSOR_CLASSES];
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    if (!model_quantize(&p->model, quantized_type(o->quantize_type), o->quantize_path, &interrupted, errors, err))
        return false;
    printf("# errors as shares of the mean absolute weight of the class\ntensors\tworst\tmean\n");
    for (int i = 0; i < N_TENSOR_CLASSES; i++)
        if (errors[i].mean > 0) printf("%s\t%.6f\t%.6f\n", errors[i].name, errors[i].worst, errors[i].mean);
    return true;
}

static bool run_job(const Options *o, Program *p, bool *passed, Error *err) {
    if (o->model_path && !model_open(o->model_path, &p->model, err)) return false;
    p->context = context_of(o, p);
    if (o->quantize_path) return run_quantize(o, p, err);
    if (o->ppl_file) return run_perplexity(o, p, err);
    if (o->passkey) return run_passkey(o, p, passed, err);
    if (!make_plans(o, p, err)) return false;
    if (o->rope_json) return explain_json(&p->plans[0], err);
    if (o->bench) return run_bench(o, p, err);
    if (o->explain) {
        print_advice(p);
        explain_pairs(&p->plans[0], p->context);
        if (o->plot || isatty(STDERR_FILENO)) explain_plot(&p->plans[0], p->context, stderr);
        return true;
    }
    return open_tokenizer(o, p, err) && run_text(o, p, err);
}

// Ends the program with what was written to standard output, or the reason why it was not.
static int finish(bool ok, Error *err) {
    if (ok && (fflush(stdout) || ferror(stdout))) ok = fail(err, "cannot write to standard output");
    if (!ok) fprintf(stderr, "run: %s\n", err->text);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    Options options;
    Error err;
    bool understood = parse_options(argc, argv, &options, &err);
    if (understood && options.help) return print_help(), finish(true, &err);
    if (understood && options.version) return printf("rope.c " VERSION "\n"), finish(true, &err);
    if (!understood || !check_options(&options, &err)) return finish(false, &err), EXIT_USAGE;
    if (options.threads || !getenv("OMP_NUM_THREADS"))
        set_thread_count(options.threads ? options.threads : physical_cores());
    signal(SIGBUS, on_bus_error);
    signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of writing like others
    Program program = {.end_of_turn = -1};
    bool passed = true, ok = run_job(&options, &program, &passed, &err);
    int status = finish(ok, &err);
    close_program(&program);
    if (interrupted) return EXIT_INTERRUPTED;
    return passed ? status : EXIT_FAILURE;
}
