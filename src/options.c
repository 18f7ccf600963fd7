// The options of the command line. To add one, give it a place in Options and a row in the table.
#include "options.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "engines.h"

#define IN(field) .place = offsetof(Options, field)

static const char *const modes[] = {"generate", "chat"};
static const char *const minimized[] = {"past", "half", "all"};
static const char *const activations[] = {"int8", "f32"};
static const char *const quantized_types[] = {"q8", "q4", "f16", "f32"};

enum { MANY = 1 << 20 };

static const Option table[] = {
    {"-t", "T", "temperature, 0 is greedy [1]", NUMBER, IN(temperature), 0, 1e6},
    {"-p", "P", "top-p: sample from the likeliest tokens that make up P [0.9]", NUMBER, IN(top_p), 0, 1},
    {"-k", "K", "top-k: sample from the K likeliest tokens; 0: from all [0]", WHOLE, IN(top_k), 0, MOST},
    {"--min-p", "M", "sample from tokens at least M times as likely as the likeliest [0]", NUMBER, IN(min_p), 0, 1},
    {"-s", "SEED", "seed of the random numbers, 0: from the clock [0]", SEED, IN(seed)},
    {"-n", "N",
     "positions, prompt included; 0: the model's context; 8k: 8 x 1,024 [256; measuring: 4 times the trained context]",
     WHOLE, IN(steps), 0, MOST},
    {"-i", "TEXT", "prompt", TEXT, IN(prompt)},
    {"-f", "FILE", "file with the prompt; - is standard input", TEXT, IN(prompt_file)},
    {"-z", "FILE", "tokenizer [NAME.tokenizer.bin or tokenizer.bin beside the model]", TEXT, IN(tokenizer_path)},
    {"-m", "MODE", "generate, or chat in the turns of the model's family, which its special tokens tell [generate]",
     WORD, IN(mode), 0, 1, modes},
    {"-y", "TEXT", "system prompt of a chat", TEXT, IN(system_prompt)},
    {"--ignore-eos", NULL, "keep generating past an end token", FLAG, IN(ignore_eos)},
    {"--kv", "TYPE", "precision of the key-value cache: f16, f32 or q8 [f16]", WORD, IN(kv), 0, N_KV_TYPES - 1,
     kv_type_names},
    {"--activations", "TYPE", "what quantized weights multiply: activations rounded to int8, or kept as f32 [int8]",
     WORD, IN(activations), 0, 1, activations},
    {"--spread", "N", "spread the tokens of a text over N positions, in pieces with jumps between them", WHOLE,
     IN(spread), 1, MOST},
    {"--piece", "P", "tokens in a piece of --spread [128], or of --check's jumps", WHOLE, IN(piece), 1, MANY},
    {"--threads", "N", "threads [OMP_NUM_THREADS, else what is fastest]", WHOLE, IN(threads), 1, 1024},
    {"--plain", NULL, "compute by the definition (src/forward/plain.c): slow, on one thread, nothing rounded", FLAG,
     IN(plain)},
    {.help = "RoPE; a setting that is not given comes from the model"},
    {"--rope", "NAME",
     "method, see below; measurements take all, or a list with settings (none,yarn:factor=4,8:ramp=turns)", TEXT,
     IN(methods), .about_rope = true},
    {"--rope-config", "FILE", "a config.json, or its rope_scaling block alone, in place of the model's settings", TEXT,
     IN(rope_config), .about_rope = true},
    {"--reading", "ENGINES",
     "read that file, or the model's own settings, as these engines do (vllm, hf4@4.51); see --engines", TEXT,
     IN(reading), .about_rope = true},
    {.type = ROPE_FIELDS},
    {.help = "Instead of generating"},
    {"--ppl", "FILE", "perplexity by position over a text; - is standard input", TEXT, IN(text_path), .job = JOB_PPL},
    {"--ids", NULL, "FILE of --ppl holds token ids, as decimal numbers", FLAG, IN(ids), .with = JOB_PPL},
    {"--per-token", NULL, "--ppl prints every position", FLAG, IN(per_token), .with = JOB_PPL},
    {"--samples", "K", "--ppl averages K windows spread evenly over the text [1]", WHOLE, IN(samples), 1, MANY,
     .with = JOB_PPL},
    {"--stepwise", NULL, "--ppl reads token by token, as generation does (slow)", FLAG, IN(stepwise), .with = JOB_PPL},
    {"--stale-keys", NULL, "leave keys as they were rotated when cached: a known flaw, with --stepwise or --check",
     FLAG, IN(stale_keys), .about_rope = true},
    {"--check", "[FILE]", "does the model hold to N positions? On a text of yours, or one that is made up", TEXT,
     IN(check_path), .job = JOB_CHECK},
    {"--budget", "SECONDS", "--check takes so long at most, and names what it left out; 0: only what all costs [60]",
     NUMBER, IN(budget), 0, 1e6, .with = JOB_CHECK},
    {"--whole", NULL, "--check passes only when it read texts of N positions whole, not by jumps alone", FLAG,
     IN(whole), .with = JOB_CHECK},
    {"--passkey", NULL, "retrieval of a hidden key by length and depth", .job = JOB_TASKS},
    {"--tasks", "LIST",
     "tasks by length and depth: passkey, multikey, multivalue, variables, copy, or all; -f: in that text", TEXT,
     IN(tasks), .job = JOB_TASKS},
    {"--trials", "K", "ask K times at each length and depth [10]", WHOLE, IN(trials), 1, MANY, .with = JOB_TASKS},
    {"--min-accuracy", "A", "exit with status 1 when a method's accuracy is below A [0]", NUMBER, IN(min_accuracy), 0,
     1, .with = JOB_TASKS},
    {"--attn", "LAYER.HEAD", "scores and weights that the prompt's last query gives each key, by distance", PAIR,
     IN(attn), .job = JOB_ATTN},
    {"--explain", NULL, "what the method does to every pair at length N", .job = JOB_EXPLAIN},
    {"--plot", NULL, "--explain draws the pairs on standard error, as it does for a terminal", FLAG, IN(plot),
     .with = JOB_EXPLAIN},
    {"--head-dim", "D",
     "head size for --explain, --rope-json and --engines without a model; give --theta and --train-ctx too", WHOLE,
     IN(head_dim), 2, ROPE_MAX_HEAD_DIM},
    {"--rope-json", NULL, "the settings in force as a rope_scaling block for Hugging Face and vLLM",
     .job = JOB_ROPE_JSON, .about_rope = true},
    {"--engines", "[LIST]",
     "how eight engines read the model's settings, or --rope-config's (vllm:max_len=128k,hf4@4.51) [all]", TEXT,
     IN(engines), .job = JOB_ENGINES, .about_rope = true},
    {"--search", "FILE", "LongRoPE's search: find the divisors of each pair for windows of N positions of this text",
     TEXT, IN(text_path), .job = JOB_SEARCH, .about_rope = true},
    {"--reads", "K", "--search reads at most K windows [400]", WHOLE, IN(reads), 1, MOST, .with = JOB_SEARCH},
    {"--seconds", "T", "--search ends after T seconds [never]", NUMBER, IN(seconds), 0.001, 1e9, .with = JOB_SEARCH},
    {"--search-windows", "K", "K windows of the text search, and as many others judge [8]", WHOLE, IN(search_windows),
     1, MANY, .with = JOB_SEARCH},
    {"--population", "P", "--search begins with P lists: linear, ntk, yarn, --rope's own, and mutants [8]", WHOLE,
     IN(population), 4, MANY, .with = JOB_SEARCH},
    {"--minimize", "PART", "--search minimizes the nll past the trained context, of the last half, or of all [past]",
     WORD, IN(minimize), 0, MINIMIZE_ALL, minimized, .with = JOB_SEARCH},
    {"--search-attention", NULL, "--search also looks for the attention factor", FLAG, IN(search_attention),
     .with = JOB_SEARCH},
    {"--search-unscaled", NULL, "--search also looks for the number of first positions that stay unscaled", FLAG,
     IN(search_unscaled), .with = JOB_SEARCH},
    {"--bench", NULL, "speed of prefill and decode, at the start and behind N positions [8192]", .job = JOB_BENCH},
    {"--quantize", "TYPE OUT", "write a copy with q8, q4, f16 or f32 weights, and print what rounding did", WORD,
     IN(quantize_type), 0, 3, quantized_types, .job = JOB_QUANTIZE},
    {"--tsv", NULL, "print tables between tabs at a terminal, too, as in a pipe", FLAG, IN(tsv)},
    {"--help", NULL, "print this text, as -h does", FLAG, IN(help)},
    {"--version", NULL, "print the version", FLAG, IN(version)},
};
enum { N_ROWS = sizeof table / sizeof table[0] };
_Static_assert(N_ROWS <= 64, "options that were said are bits");
_Static_assert(sizeof(KvType) == sizeof(int), "a word is put in its place as an int");

// The option of this name. Case counts for short ones only. NULL: none, and *nearest may become the one that was meant.
static const Option *find(const Option *rows, int n, const char *name, const char **nearest) {
    for (int i = 0; i < n; i++) {
        const char *known = rows[i].option;
        if (!known) continue;
        if ((known[1] == '-' ? strcasecmp(name, known) : strcmp(name, known)) == 0) return &rows[i];
        *nearest = nearer_name(name, known, *nearest);
    }
    return NULL;
}

static void print_line(const char *name, const char *argument, const char *text) {
    char left[40];
    snprintf(left, sizeof left, "%s %s", name, argument ? argument : "");
    printf("  %-22s %s\n", left, text);
}

static void print_options(const Option *rows, int n) {
    for (const Option *o = rows; o < rows + n; o++) {
        if (o->option) print_line(o->option, o->argument, o->help);
        else if (o->help) printf("\n%s:\n", o->help);
        if (o->type == ROPE_FIELDS) print_options(rope_fields, rope_n_fields);
    }
}

void options_help(void) {
    printf("usage: run model.bin [options]\n\n");
    print_options(table, N_ROWS);
    printf("\nMethods of --rope:\n");
    for (int i = 0; i < rope_n_methods; i++)
        printf("  %-22s %s (%s)\n", rope_methods[i].name, rope_methods[i].summary, rope_methods[i].source);
    print_line("dynamic-NAME", "", "the method with a scale that follows the length; dynamic is dynamic-ntk");
    print_line("window", "", "none with a --window of the trained context: the baseline");
    printf("\nDistance maps, alone or behind a method (yarn+dca):\n");
    for (int i = 0; i < rope_n_maps; i++)
        printf("  %-22s %s (%s)\n", rope_maps[i].name, rope_maps[i].summary, rope_maps[i].source);
}

// Reads the option at argv[*at], and leaves *at at the last word that it took.
static bool read_option(char **argv, int *at, Options *o, Error *err) {
    char name[32];
    const char *word = argv[*at], *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - word) : (int)sizeof name - 1, word);
    if (strcmp(name, "-h") == 0) snprintf(name, sizeof name, "--help");
    const char *nearest = "";
    const Option *row = find(table, N_ROWS, name, &nearest);
    const Option *field = row ? NULL : find(rope_fields, rope_n_fields, name, &nearest), *option = row ? row : field;
    if (!option) return fail_unknown(err, "there is no option", word, nearest, "see --help");
    if (equals && !option->argument) return fail(err, "%s takes no value", name);
    const char *next = argv[*at + 1];
    bool optional = option->argument && option->argument[0] == '[';
    bool is_model = !o->model_path && next && (option->job != JOB_ENGINES || access(next, F_OK) == 0);
    bool left_out = optional && !equals && (is_model || !next || (next[0] == '-' && next[1]));
    const char *value = equals ? equals + 1 : option->argument && !left_out ? argv[++*at] : "1";
    if (!value) return fail(err, "%s needs a value (%s)", name, option->argument);
    if (option->job) o->job = option->job;
    // Windows and sinks work without RoPE.
    if (option->about_rope || (field && !strstr("--window --sinks", field->option))) o->about_rope = option->option;
    if (field) o->rope.said |= 1u << (field - rope_fields);
    else o->said |= UINT64_C(1) << (row - table);
    if (option->job == JOB_QUANTIZE) {
        if (!argv[*at + 1]) return fail(err, "--quantize needs two values (q8, q4, f16 or f32, and OUT)");
        o->quantize_path = argv[++*at];
    }
    return left_out || option_read(option, field ? (void *)&o->rope.rope : o, name, value, err);
}

bool options_parse(int argc, char **argv, Options *o, Error *err) {
    *o = (Options){.temperature = 1, .top_p = 0.9, .steps = -1, .samples = 1, .trials = 10, .budget = 60};
    o->reads = 400;
    o->population = o->search_windows = 8;
    bool ok = true;
    for (int i = 1; ok && i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] != '\0') ok = read_option(argv, &i, o, err);
        else if (!o->model_path) o->model_path = argv[i];
        else ok = fail(err, "'%.100s': there is a model file already (%.100s)", argv[i], o->model_path);
    }
    return ok;
}

// Checks that there is one job, and that the options go with it.
static bool check_company(const Options *o, Error *err) {
    char jobs[100] = "";
    for (int i = 0; i < N_ROWS; i++) {
        const Option *said = &table[i];
        if (!(o->said >> i & 1)) continue;
        if (said->job && said->job != (int)o->job)
            return fail(err, "--ppl, --passkey (or --tasks), --check, --attn, --explain, --search, --bench, "
                             "--quantize, --rope-json and --engines exclude one another");
        if (!said->with || said->with == (int)o->job) continue;
        for (int k = 0; k < N_ROWS; k++)
            if (table[k].job == said->with) add_name(jobs, sizeof jobs, " or ", table[k].option);
        return fail(err, "%s goes with %s", said->option, jobs);
    }
    return true;
}

bool options_say_block(const Options *o) {
    bool said = o->methods;
    for (int i = 0; i < rope_n_fields; i++) said = said || (rope_fields[i].key && o->rope.said >> i & 1);
    return said && (o->methods || o->model_path);
}

static bool check_engines(const Options *o, Error *err) {
    Reading readings[MOST_READINGS];
    if (o->engines && !engines_list(o->engines, readings, err)) return fail(err, "--engines: %s", err->text);
    int n = o->reading ? engines_list(o->reading, readings, err) : 1;
    if (n == 0) return fail(err, "--reading: %s", err->text);
    if (o->reading && o->job == JOB_ENGINES) return fail(err, "--reading and --engines exclude one another");
    if (n > 1 && o->job != JOB_PPL && o->job != JOB_TASKS)
        return fail(err, "--reading: one engine expected, '%.100s' are %d (lists are for --ppl, --passkey and --tasks)",
                    o->reading, n);
    return !(o->rope_config && options_say_block(o) && (o->reading || o->job == JOB_ENGINES)) ||
           fail(err, "engines read --rope-config's file as it stands (found --rope or a setting besides)");
}

bool options_check(const Options *o, Error *err) {
    const RopeConfig *r = &o->rope.rope;
    bool without_model = o->job == JOB_EXPLAIN || o->job == JOB_ROPE_JSON || o->job == JOB_ENGINES;
    if (!check_company(o, err)) return false;
    if (!o->model_path && !(without_model && (o->head_dim || o->rope_config)))
        return fail(err, "no model file given (usage: run model.bin [options])");
    if (o->head_dim && o->model_path)
        return fail(err, "--head-dim is for --explain, --rope-json and --engines without a model");
    if (o->head_dim % 2) return fail(err, "--head-dim: '%d' is not an even number", o->head_dim);
    if (o->head_dim && !o->rope_config && (r->theta == 0 || r->train_ctx == 0))
        return fail(err, "--head-dim needs --theta and --train-ctx with it");
    if (o->prompt && o->prompt_file) return fail(err, "-i and -f exclude one another");
    if (!check_engines(o, err)) return false;
    if (o->stale_keys && !o->stepwise && o->job != JOB_CHECK)
        return fail(err, "--stale-keys goes with --stepwise, or with --check");
    if (o->spread && o->job != JOB_TEXT && o->job != JOB_PPL && o->job != JOB_TASKS && o->job != JOB_ATTN)
        return fail(err, "--spread goes with text, --ppl, --passkey (or --tasks) and --attn (--check jumps to -n)");
    if (o->piece && !o->spread && o->job != JOB_CHECK) return fail(err, "--piece goes with --spread, or with --check");
    return true;
}
