// The options of the command line. To add one, give it a place in Options and a row in the table.
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// What a value is, and so the type of its place: nothing (bool), const char *, int and double within the limits,
// uint64_t, which of the words (int or an enum, within the limits), and two whole numbers with a point between
// (int[2]).
typedef enum { FLAG, TEXT, COUNT, NUMBER, SEED, WORD, PAIR } ValueType;

typedef struct {
    // Without a name: a line above those that follow, in --help. An argument in brackets may be left out.
    const char *name, *argument, *help;
    ValueType type;
    size_t place;  // of the value, in Options
    double low, high;
    const char *const *words;
    const char *refusal;  // what another word is not
    Job asks_for;         // the job that this option asks for, JOB_TEXT: none
    Job goes_with;        // the job without which it has no meaning, JOB_TEXT: any; those of a job stand together
} Option;

#define PLACE(field) offsetof(Options, field)
#define IN(field) .place = PLACE(field)

static const char *const modes[] = {"generate", "chat"};
static const char *const ramps[] = {"dims", "turns"};
static const char *const minimized[] = {"past", "half", "all"};
static const char *const quantized_types[] = {"q8", "q4", "f16", "f32"};

enum { MOST = 1 << 30, MANY = 1 << 20 };

static const Option table[] = {
    {"-t", "T", "temperature, 0 is greedy [1]", NUMBER, IN(temperature), 0, 1e6},
    {"-p", "P", "top-p: sample from the likeliest tokens that make up P [0.9]", NUMBER, IN(top_p), 0, 1},
    {"-k", "K", "top-k: sample from the K likeliest tokens; 0: from all [0]", COUNT, IN(top_k), 0, MOST},
    {"--min-p", "M", "sample from tokens at least M times as likely as the likeliest [0]", NUMBER, IN(min_p), 0, 1},
    {"-s", "SEED", "seed of the random numbers, 0: from the clock [0]", SEED, IN(seed)},
    {"-n", "N", "positions, prompt included; 0: the model's context [256; measurements 4 times the trained context]",
     COUNT, IN(steps), 0, MOST},
    {"-i", "TEXT", "prompt", TEXT, IN(prompt)},
    {"-f", "FILE", "prompt from a file, - for standard input", TEXT, IN(prompt_file)},
    {"-z", "FILE", "tokenizer [NAME.tokenizer.bin or tokenizer.bin beside the model]", TEXT, IN(tokenizer_path)},
    {"-m", "MODE", "generate or chat, with the turns of the model's family, told by its special tokens [generate]",
     WORD, IN(mode), 0, 1, modes, "known (expected generate, chat)"},
    {"-y", "TEXT", "system prompt of a chat", TEXT, IN(system_prompt)},
    {"--ignore-eos", NULL, "keep generating past an end token", FLAG, IN(ignore_eos)},
    {"--kv", "TYPE", "precision of the key-value cache: f16, f32 or q8 [f16]", WORD, IN(kv), 0, N_KV_TYPES - 1,
     kv_type_names, "known (expected f16, f32, q8)"},
    {"--activations", "TYPE", "what quantized weights multiply: activations rounded to int8, or f32 [int8]", WORD,
     IN(activations), 0, N_ACTIVATIONS - 1, activations_names, "known (expected int8, f32)"},
    {"--threads", "N", "threads [OMP_NUM_THREADS, else what is fastest]", COUNT, IN(threads), 1, 1024},
    {.help = "Rope settings; what is not said comes from the model"},
    {"--rope", "NAME",
     "method, see below; measurements take a comma list, settings after colons (yarn:factor=4,8:ramp=turns), or all",
     TEXT, IN(methods)},
    {"--rope-config", "FILE", "a rope_scaling block of Hugging Face's, or a config.json, in the model's place", TEXT,
     IN(rope_config)},
    {"--factor", "S", "scale: how many times longer than trained [N / L; 1 for dynamic methods]", NUMBER,
     IN(rope.factor), 1, 1e6},
    {"--theta", "B", "base of the inverse frequencies", NUMBER, IN(rope.theta), 1 + 1e-9, 1e18},
    {"--train-ctx", "L", "trained context", COUNT, IN(rope.train_ctx), 1, MOST},
    {"--beta-fast", "R", "turns within L from which a pair is kept [32]", NUMBER, IN(rope.beta_fast), 1e-6, 1e9},
    {"--beta-slow", "R", "turns within L up to which a pair is interpolated [1]", NUMBER, IN(rope.beta_slow), 1e-6,
     1e9},
    {"--ramp", "FORM", "dims (as released checkpoints and libraries) or turns (as in the paper) [dims]", WORD,
     IN(rope.ramp), 0, 1, ramps, "a ramp (expected dims or turns)"},
    {"--attn-factor", "A", "factor of cos and sin, instead of the method's own", NUMBER, IN(rope.attention_factor),
     1e-6, 1e6},
    {"--low-freq-factor", "F", "llama3 [1]", NUMBER, IN(rope.low_freq_factor), 1e-6, 1e9},
    {"--high-freq-factor", "F", "llama3 [4]", NUMBER, IN(rope.high_freq_factor), 1e-6, 1e9},
    {"--window", "W", "attend to the last W positions only; 0: to all", COUNT, IN(rope.window), 0, MOST},
    {"--sinks", "K", "and to the first K positions always [0; streaming 4, lm-infinite 10]", COUNT, IN(rope.sinks), 0,
     MOST},
    {"--near", "W", "distances that rerope, leaky-rerope and self-extend keep [L / 2]", COUNT, IN(rope.near), 1, MOST},
    {"--k", "K", "leaky-rerope: far distances count K times less [so that N - 1 comes to L - 1]", NUMBER, IN(rope.k), 1,
     1e9},
    {"--group", "G", "self-extend: far positions in groups of G [likewise]", COUNT, IN(rope.group), 1, MOST},
    {"--chunk", "C", "dca: positions of a chunk [3 L / 4]", COUNT, IN(rope.chunk), 1, MOST},
    {"--logn", NULL, "scores of a query at p grow by ln(p + 1) / ln L past L", COUNT, IN(rope.logn), 0, 1},
    {.help = "Instead of generating"},
    {"--ppl", "FILE", "perplexity by position over a text, - for standard input", TEXT, IN(text_path),
     .asks_for = JOB_PPL},
    {"--ids", NULL, "the FILE of --ppl holds token ids as decimal numbers", FLAG, IN(ids), .goes_with = JOB_PPL},
    {"--per-token", NULL, "--ppl prints every position", FLAG, IN(per_token), .goes_with = JOB_PPL},
    {"--samples", "K", "--ppl averages K windows spread evenly over the text [1]", COUNT, IN(samples), 1, MANY,
     .goes_with = JOB_PPL},
    {"--stepwise", NULL, "--ppl reads token by token, as generation does (slow)", FLAG, IN(stepwise),
     .goes_with = JOB_PPL},
    {"--stale-keys", NULL,
     "keys stay as the step that cached them turned them: a known flaw, with --stepwise or --check", FLAG,
     IN(stale_keys)},
    {"--check", "[FILE]", "does the model hold to N positions? On a text of yours, or on one that is made up", TEXT,
     IN(check_path), .asks_for = JOB_CHECK},
    {"--budget", "SECONDS", "--check takes about so long at most, and says what it left out [60]", NUMBER, IN(budget),
     1, 1e6, .goes_with = JOB_CHECK},
    {"--passkey", NULL, "needle retrieval by length and depth", FLAG, .asks_for = JOB_TASKS},
    {"--tasks", "LIST",
     "tasks by length and depth: passkey, multikey, multivalue, variables, copy, or all; -f: in that text", TEXT,
     IN(tasks), .asks_for = JOB_TASKS},
    {"--trials", "K", "asks K times at each length and depth [10]", COUNT, IN(trials), 1, MANY, .goes_with = JOB_TASKS},
    {"--min-accuracy", "A", "exit status 1 when a method's accuracy is below A [0]", NUMBER, IN(min_accuracy), 0, 1,
     .goes_with = JOB_TASKS},
    {"--attn", "LAYER.HEAD", "what the prompt's last query thinks of each key: scores and weights by distance", PAIR,
     IN(attn), 0, MANY, .asks_for = JOB_ATTN},
    {"--explain", NULL, "what the method does to every pair at length N", FLAG, .asks_for = JOB_EXPLAIN},
    {"--plot", NULL, "--explain draws the pairs on standard error, as it does for a terminal", FLAG, IN(plot),
     .goes_with = JOB_EXPLAIN},
    {"--head-dim", "D", "--explain and --rope-json without a model: give --theta and --train-ctx too", COUNT,
     IN(head_dim), 2, ROPE_MAX_HEAD_DIM},
    {"--rope-json", NULL, "the settings in force as a rope_scaling block for Hugging Face and vLLM", FLAG,
     .asks_for = JOB_ROPE_JSON},
    {"--search", "FILE", "divisors of each pair for windows of N positions of a text (LongRoPE's search)", TEXT,
     IN(text_path), .asks_for = JOB_SEARCH},
    {"--reads", "K", "--search reads at most K windows [400]", COUNT, IN(reads), 1, MOST, .goes_with = JOB_SEARCH},
    {"--seconds", "T", "--search ends after T seconds", NUMBER, IN(seconds), 0.001, 1e9, .goes_with = JOB_SEARCH},
    {"--search-windows", "K", "windows of the text that search, and as many others that judge [8]", COUNT,
     IN(search_windows), 1, MANY, .goes_with = JOB_SEARCH},
    {"--population", "P", "--search begins with P: linear, ntk, yarn, --rope's own and mutants [8]", COUNT,
     IN(population), 4, MANY, .goes_with = JOB_SEARCH},
    {"--minimize", "PART", "--search minimizes nll past the trained context, of the last half or all [past]", WORD,
     IN(minimize), 0, MINIMIZE_ALL, minimized, "a part of a window (expected past, half, all)",
     .goes_with = JOB_SEARCH},
    {"--search-attention", NULL, "the attention factor is searched, too", FLAG, IN(search_attention),
     .goes_with = JOB_SEARCH},
    {"--search-unscaled", NULL, "how many first positions stay unscaled is searched, too", FLAG, IN(search_unscaled),
     .goes_with = JOB_SEARCH},
    {"--bench", NULL, "speed of prefill and decode, at the start and behind N positions [8192]", FLAG,
     .asks_for = JOB_BENCH},
    {"--quantize", "TYPE OUT", "write a copy of the model with q8, q4, f16 or f32 weights, and print what rounding did",
     WORD, IN(quantize_type), 0, 3, quantized_types, "a type that can be written (expected q8, q4, f16 or f32)",
     .asks_for = JOB_QUANTIZE},
    {"--tsv", NULL, "tables between tabs at a terminal, too, as in a pipe", FLAG, IN(tsv)},
    {"--help", NULL, "this text, as does -h", FLAG, IN(help)},
    {"--version", NULL, "the version", FLAG, IN(version)},
};
enum { N_OPTIONS = sizeof table / sizeof table[0] };
_Static_assert(sizeof(KvType) == sizeof(int), "a word is put in its place as an int");

// Short names in their own case, long ones in any; or NULL, and *nearest is one that was perhaps meant, or "".
static const Option *find(const char *name, const char **nearest) {
    *nearest = "";
    if (strcmp(name, "-h") == 0) name = "--help";
    for (int i = 0; i < N_OPTIONS; i++) {
        const char *known = table[i].name;
        if (known && (known[1] == '-' ? strcasecmp(name, known) : strcmp(name, known)) == 0) return &table[i];
        if (known) *nearest = nearer_name(name, known, *nearest);
    }
    return NULL;
}

static void print_line(const char *name, const char *argument, const char *text) {
    char left[40];
    snprintf(left, sizeof left, "%s %s", name, argument ? argument : "");
    printf("  %-22s %s\n", left, text);
}

void options_help(void) {
    printf("usage: run model.bin [options]\n\n");
    for (int i = 0; i < N_OPTIONS; i++) {
        if (table[i].name) print_line(table[i].name, table[i].argument, table[i].help);
        else printf("\n%s:\n", table[i].help);
    }
    printf("\nMethods of --rope:\n");
    for (int i = 0; i < rope_n_methods; i++)
        printf("  %-22s %s (%s)\n", rope_methods[i].name, rope_methods[i].summary, rope_methods[i].source);
    print_line("dynamic-NAME", "", "the method with a scale that follows the length; dynamic is dynamic-ntk");
    print_line("window", "", "none, with a --window of the trained context");
    printf("\nDistance maps, alone or behind a method (yarn+dca):\n");
    for (int i = 0; i < rope_n_maps; i++)
        printf("  %-22s %s (%s)\n", rope_maps[i].name, rope_maps[i].summary, rope_maps[i].source);
}

static bool read_seed(const char *name, const char *text, uint64_t *seed, Error *err) {
    char back[32];
    *seed = strtoull(text, NULL, 10);
    snprintf(back, sizeof back, "%llu", (unsigned long long)*seed);
    return strcmp(back, text) == 0 ||
           fail(err, "%s: '%.60s' is not a whole number from 0 to 18446744073709551615", name, text);
}

static bool read_pair(const Option *option, int *place, const char *name, const char *value, Error *err) {
    char first[16];
    size_t length = strcspn(value, ".");
    if (value[length] != '.' || length >= sizeof first)
        return fail(err, "%s: '%.60s' is not %s (two whole numbers from 0, as 3.5)", name, value, option->argument);
    snprintf(first, sizeof first, "%.*s", (int)length, value);
    return parse_int(name, first, 0, (long)option->high, place, err) &&
           parse_int(name, value + length + 1, 0, (long)option->high, place + 1, err);
}

// Reads a value and puts it in its place. `name` is what the reason calls the option.
static bool set(const Option *option, void *place, const char *name, const char *value, Error *err) {
    switch (option->type) {
    case TEXT: *(const char **)place = value; return true;
    case COUNT: return parse_int(name, value, (long)option->low, (long)option->high, place, err);
    case NUMBER: return parse_double(name, value, option->low, option->high, place, err);
    case SEED: return read_seed(name, value, place, err);
    case WORD:
        for (int i = 0; i <= option->high; i++) {
            *(int *)place = i;
            if (strcasecmp(value, option->words[i]) == 0) return true;
        }
        return fail(err, "%s: '%.60s' is not %s", name, value, option->refusal);
    case PAIR: return read_pair(option, place, name, value, err);
    default:
        if (!option->asks_for) *(bool *)place = true;
        return true;
    }
}

static void add_name(char *list, size_t capacity, const char *between, const char *name) {
    snprintf(list + strlen(list), capacity - strlen(list), "%s%s", list[0] ? between : "", name);
}

bool options_set_rope(RopeSettings *settings, const char *key, const char *value, Error *err) {
    char names[200] = "";
    for (int i = 0; i < N_OPTIONS; i++) {
        if (table[i].place < PLACE(rope) || table[i].place >= PLACE(rope) + sizeof *settings) continue;
        const char *name = table[i].name + 2;  // without the dashes
        void *place = (char *)settings + (table[i].place - PLACE(rope));
        if (strcmp(key, name) == 0) return set(&table[i], place, name, value, err);
        add_name(names, sizeof names, ", ", name);
    }
    return fail(err, "there is no setting '%s' (%s)", key, names);
}

// Reads the option at argv[*at], and leaves *at at the last word that it took.
static bool read_option(char **argv, int *at, Options *o, Error *err) {
    char name[32];
    const char *word = argv[*at], *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - word) : (int)sizeof name - 1, word);
    const char *nearest;
    const Option *option = find(name, &nearest);
    if (!option) return fail_unknown(err, "there is no option", word, nearest, "see --help");
    if (equals && !option->argument) return fail(err, "%s takes no value", name);
    const char *next = argv[*at + 1];
    bool optional = option->argument && option->argument[0] == '[';
    bool left_out = optional && !equals && (!o->model_path || !next || (next[0] == '-' && next[1]));
    const char *value = equals ? equals + 1 : option->argument && !left_out ? argv[++*at] : "1";
    if (!value) return fail(err, "%s needs a value (%s)", name, option->argument);
    if (option->asks_for) o->job = option->asks_for;
    o->jobs |= 1u << option->asks_for;
    o->company |= 1u << option->goes_with;
    if (option->asks_for == JOB_QUANTIZE) {
        if (!argv[*at + 1]) return fail(err, "--quantize needs two values (q8, q4, f16 or f32, and OUT)");
        o->quantize_path = argv[++*at];
    }
    return left_out || set(option, (char *)o + option->place, name, value, err);
}

bool options_parse(int argc, char **argv, Options *o, Error *err) {
    *o = (Options){.temperature = 1, .top_p = 0.9, .steps = -1, .samples = 1, .trials = 10, .budget = 60};
    o->reads = 400;
    o->population = o->search_windows = 8;
    o->rope = settings_nothing_said;
    bool ok = true;
    for (int i = 1; ok && i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] != '\0') ok = read_option(argv, &i, o, err);
        else if (!o->model_path) o->model_path = argv[i];
        else ok = fail(err, "'%.100s': there is a model file already (%.100s)", argv[i], o->model_path);
    }
    return ok;
}

// An option that was said without its job is refused along with all that go with this job.
static bool check_company(const Options *o, Error *err) {
    Job job = JOB_TEXT + 1;
    while (job < N_JOBS && !((o->company & ~o->jobs) >> job & 1)) job++;
    char names[200] = "", jobs[100] = "";
    for (int i = 0; i < N_OPTIONS; i++) {
        bool last = i == N_OPTIONS - 1 || table[i + 1].goes_with != job;
        if (table[i].goes_with == job) add_name(names, sizeof names, last ? " and " : ", ", table[i].name);
        if (table[i].asks_for == job && job < N_JOBS) add_name(jobs, sizeof jobs, " or ", table[i].name);
    }
    return job == N_JOBS || fail(err, "%s %s with %s", names, strchr(names, ' ') ? "go" : "goes", jobs);
}

bool options_check(const Options *o, Error *err) {
    const RopeSettings *r = &o->rope;
    bool without_model = o->job == JOB_EXPLAIN || o->job == JOB_ROPE_JSON;
    if (o->jobs & ~(1u << JOB_TEXT | 1u << o->job))
        return fail(
            err,
            "--ppl, --passkey (or --tasks), --check, --attn, --explain, --search, --bench, --rope-json and --quantize "
            "exclude one another");
    if (!o->model_path && !(without_model && (o->head_dim || o->rope_config)))
        return fail(err, "no model file given (usage: run model.bin [options])");
    if (o->head_dim && o->model_path) return fail(err, "--head-dim is for --explain and --rope-json without a model");
    if (o->head_dim % 2) return fail(err, "--head-dim: '%d' is not an even number", o->head_dim);
    if (o->head_dim && !o->rope_config && (r->theta == 0 || r->train_ctx == 0))
        return fail(err, "--head-dim needs --theta and --train-ctx with it");
    if (o->prompt && o->prompt_file) return fail(err, "-i and -f exclude one another");
    if (!check_company(o, err)) return false;
    if (o->stale_keys && !o->stepwise && o->job != JOB_CHECK)
        return fail(err, "--stale-keys goes with --stepwise, or with --check");
    if (r->beta_fast != 0 && r->beta_slow != 0 && r->beta_fast < r->beta_slow)
        return fail(err, "--beta-fast must not be below --beta-slow");
    if (r->low_freq_factor != 0 && r->high_freq_factor != 0 && r->low_freq_factor >= r->high_freq_factor)
        return fail(err, "--high-freq-factor must be above --low-freq-factor");
    return true;
}

bool options_fit_encoding(const Options *o, const char *encoding, Error *err) {
    const uint8_t *said = (const uint8_t *)&o->rope, *unsaid = (const uint8_t *)&settings_nothing_said;
    const char *name = o->methods                ? "--rope"
                       : o->rope_config          ? "--rope-config"
                       : o->stale_keys           ? "--stale-keys"
                       : o->job == JOB_SEARCH    ? "--search"
                       : o->job == JOB_ROPE_JSON ? "--rope-json"
                                                 : NULL;
    for (int i = 0; !name && i < N_OPTIONS; i++) {
        const size_t at = table[i].place - PLACE(rope), size = table[i].type == NUMBER ? sizeof(double) : sizeof(int);
        const bool of_any = at == offsetof(RopeSettings, window) || at == offsetof(RopeSettings, sinks);
        if (table[i].place < PLACE(rope) || at >= sizeof o->rope || of_any) continue;
        if (memcmp(said + at, unsaid + at, size) != 0) name = table[i].name;
    }
    return strcmp(encoding, "rope") == 0 || !name ||
           fail(err, "%s is for models with RoPE, and %s knows positions by its encoding '%s'", name, o->model_path,
                encoding);
}
