// The options of the command line. To add one, give it a place in Options and a row in the table.
#include "options.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "engines.h"
#include "names.h"

#define IN(field) .place = offsetof(Options, field)

static const char *const modes[] = {"generate", "chat"};
static const char *const minimized[] = {"past", "half", "all"};
static const char *const activations[] = {"int8", "f32"};
static const char *const quantized_types[] = {"q8", "q4", "f16", "f32"};

enum { MANY = 1 << 20 };

// Sets of jobs, for options that have an effect in these alone. A chat and --prompts have bits of their own.
enum {
    ON_GENERATE = 1 << JOB_TEXT,
    ON_PPL = 1 << JOB_PPL,
    ON_TASKS = 1 << JOB_TASKS,
    ON_CHECK = 1 << JOB_CHECK,
    ON_ATTN = 1 << JOB_ATTN,
    ON_EXPLAIN = 1 << JOB_EXPLAIN,
    ON_BENCH = 1 << JOB_BENCH,
    ON_SEARCH = 1 << JOB_SEARCH,
    ON_QUANTIZE = 1 << JOB_QUANTIZE,
    ON_NEXT = 1 << JOB_NEXT,
    ON_CHAT = 1 << N_JOBS,
    ON_PROMPTS = 2 << N_JOBS,
    ON_TEXT = ON_GENERATE | ON_CHAT,
    ON_PROMPT = ON_TEXT | ON_ATTN | ON_NEXT,
    ON_TOKENS = ON_PROMPT | ON_PPL | ON_TASKS | ON_CHECK | ON_SEARCH | ON_PROMPTS,  // what has a tokenizer
    ON_SPREAD = ON_TEXT | ON_ATTN | ON_PPL | ON_TASKS,
    ON_SESSION = (ON_TOKENS & ~ON_PROMPTS) | ON_BENCH,  // what runs the model
    ON_SEED = ON_TEXT | ON_TASKS | ON_SEARCH | ON_PROMPTS,
    ON_ALL = (2 << N_JOBS) - 1,
    ON_PLAN = ON_ALL & ~ON_QUANTIZE  // what plans a RoPE
};

static const Option table[] = {
    {"-t", "T", "temperature, 0 is greedy [1]", NUMBER, IN(temperature), 0, 1e6, .jobs = ON_TEXT},
    {"-p", "P", "top-p: sample from the likeliest tokens that make up P [0.9]", NUMBER, IN(top_p), 0, 1,
     .jobs = ON_TEXT},
    {"-k", "K", "top-k: sample from the K likeliest tokens; 0: from all [0]", WHOLE, IN(top_k), 0, MOST,
     .jobs = ON_TEXT},
    {"--min-p", "M", "sample from tokens at least M times as likely as the likeliest [0]", NUMBER, IN(min_p), 0, 1,
     .jobs = ON_TEXT},
    {"-s", "SEED", "seed of the random numbers, 0: from the clock [0]", SEED, IN(seed), .jobs = ON_SEED},
    {"-n", "N",
     "positions, prompt included; 0: the model's context, which a chat and --check take; 8k: 8 x 1,024 [256; other "
     "measuring: 4 times the trained context]",
     WHOLE, IN(steps), 0, MOST, .jobs = ON_PLAN | ON_PROMPTS},
    {"-i", "TEXT", "prompt", TEXT, IN(prompt), .jobs = ON_PROMPT},
    {"-f", "FILE", "file with the prompt; - is standard input", TEXT, IN(prompt_file),
     .jobs = ON_GENERATE | ON_ATTN | ON_NEXT | ON_TASKS | ON_PROMPTS},
    {"-z", "FILE", "tokenizer [NAME.tokenizer.bin or tokenizer.bin beside the model]", TEXT, IN(tokenizer_path),
     .jobs = ON_TOKENS},
    {"-m", "MODE", "generate, or chat in the turns of the model's family, which its special tokens tell [generate]",
     WORD, IN(mode), 0, 1, modes, .jobs = ON_TEXT},
    {"-y", "TEXT", "system prompt of a chat", TEXT, IN(system_prompt), .jobs = ON_CHAT},
    {"--ignore-eos", NULL, "keep generating past an end token", FLAG, IN(ignore_eos), .jobs = ON_TEXT},
    {"--kv", "TYPE", "precision of the key-value cache: f16, f32 or q8 [f16]", WORD, IN(kv), 0, N_KV_TYPES - 1,
     kv_type_names, .jobs = ON_SESSION},
    {"--activations", "TYPE", "what quantized weights multiply: activations rounded to int8, or kept as f32 [int8]",
     WORD, IN(activations), 0, 1, activations, .jobs = ON_SESSION},
    {"--spread", "N", "spread the tokens of a text over N positions, in pieces with jumps between them", WHOLE,
     IN(spread), 1, MOST, .jobs = ON_SPREAD},
    {"--piece", "P", "tokens in a piece of --spread [128], or of --check's jumps", WHOLE, IN(piece), 1, MANY,
     .jobs = ON_SPREAD | ON_CHECK},
    {"--crowd", NULL, "with --spread: a key counts as often as the positions that it stands for", FLAG, IN(crowd),
     .jobs = ON_SPREAD & ~ON_TASKS},
    {"--threads", "N", "threads [OMP_NUM_THREADS, else what is fastest]", WHOLE, IN(threads), 1, 1024,
     .jobs = ON_SESSION | ON_QUANTIZE},
    {"--plain", NULL, "compute by the definition (src/core/plain.c): slow, on one thread, nothing rounded", FLAG,
     IN(plain), .jobs = ON_SESSION},
    {.help = "RoPE; a setting that is not given comes from the model"},
    {"--rope", "NAME",
     "method, see below; measurements take all, or a list with settings (none,yarn:factor=4,8:ramp=turns)", TEXT,
     IN(methods), .about_rope = true, .jobs = ON_PLAN},
    {"--rope-sliding", "NAME", "the same for the sliding layers, in a model where these turn by settings of their own",
     TEXT, IN(sliding), .about_rope = true, .jobs = ON_PLAN},
    {"--rope-config", "FILE", "a config.json, or its rope_scaling block alone, in place of the model's settings", TEXT,
     IN(rope_config), .about_rope = true},
    {"--reading", "ENGINES",
     "read that file, or the model's own settings, as these engines do (vllm, hf4@4.51); see --engines", TEXT,
     IN(reading), .about_rope = true, .jobs = ON_PLAN},
    {.type = ROPE_FIELDS, .jobs = ON_PLAN | ON_PROMPTS},
    {.help = "Instead of generating"},
    {"--ppl", "FILE", "perplexity by position over a text; - is standard input", TEXT, IN(text_path), .job = JOB_PPL},
    {"--ids", NULL, "FILE of --ppl, or of -f with --next, holds token ids, as decimal numbers", FLAG, IN(ids),
     .jobs = ON_PPL | ON_NEXT},
    {"--per-token", NULL, "--ppl prints every position", FLAG, IN(per_token), .jobs = ON_PPL},
    {"--samples", "K", "--ppl averages K windows spread evenly over the text [1]", WHOLE, IN(samples), 1, MANY,
     .jobs = ON_PPL},
    {"--stepwise", NULL, "--ppl and --next read token by token, as generation does (slow)", FLAG, IN(stepwise),
     .jobs = ON_PPL | ON_NEXT},
    {"--stale-keys", NULL, "leave keys as they were rotated when cached: a known flaw, with --stepwise or --check",
     FLAG, IN(stale_keys), .about_rope = true, .jobs = ON_PPL | ON_CHECK | ON_NEXT},
    {"--check", "[FILE]", "does the model hold to N positions? On a text of yours, or one that is made up", TEXT,
     IN(check_path), .job = JOB_CHECK},
    {"--budget", "SECONDS", "--check takes so long at most, and names what it left out; 0: only what all costs [60]",
     NUMBER, IN(budget), 0, 1e6, .jobs = ON_CHECK},
    {"--whole", NULL, "--check passes only when it read texts of N positions whole, not by jumps alone", FLAG,
     IN(whole), .jobs = ON_CHECK},
    {"--passkey", NULL, "retrieval of a hidden key by length and depth", .job = JOB_TASKS},
    {"--tasks", "LIST",
     "tasks by length and depth: passkey, multikey, multivalue, variables, copy, or all; -f: in that text", TEXT,
     IN(tasks), .job = JOB_TASKS},
    {"--trials", "K", "ask K times at each length and depth [10]", WHOLE, IN(trials), 1, MANY,
     .jobs = ON_TASKS | ON_PROMPTS},
    {"--prompts", NULL, "--tasks prints its prompts and the right answers as lines of JSON; needs no model", FLAG,
     IN(prompts), .jobs = ON_TASKS | ON_PROMPTS},
    {"--min-accuracy", "A", "exit with status 1 when a method's accuracy in a task at a length is below A [0]", NUMBER,
     IN(min_accuracy), 0, 1, .jobs = ON_TASKS},
    {"--attn", "LAYER.HEAD", "scores and weights that the prompt's last query gives each key, by distance", PAIR,
     IN(attn), .job = JOB_ATTN},
    {"--next", "K", "log-probabilities of the K likeliest tokens behind the prompt; or of those that a file K names",
     TEXT, IN(next), .job = JOB_NEXT},
    {"--explain", NULL, "what the method does to every pair at length N", .job = JOB_EXPLAIN},
    {"--plot", NULL, "--explain draws the pairs on standard error, as it does for a terminal", FLAG, IN(plot),
     .jobs = ON_EXPLAIN},
    {"--head-dim", "D",
     "head size for --explain, --rope-json and --engines without a model; give --theta and --train-ctx too", WHOLE,
     IN(head_dim), 2, ROPE_MAX_HEAD_DIM},
    {"--rope-json", NULL, "the settings in force as a rope_scaling block for Hugging Face and vLLM",
     .job = JOB_ROPE_JSON, .about_rope = true},
    {"--engines", "[LIST]",
     "how nine engines read the model's settings, or --rope-config's (vllm:max_len=128k,hf4@4.51) [all]", TEXT,
     IN(engines), .job = JOB_ENGINES, .about_rope = true},
    {"--search", "FILE", "LongRoPE's search: find the divisors of each pair for windows of N positions of this text",
     TEXT, IN(text_path), .job = JOB_SEARCH, .about_rope = true},
    {"--reads", "K", "--search reads at most K windows [400]", WHOLE, IN(reads), 1, MOST, .jobs = ON_SEARCH},
    {"--seconds", "T", "--search ends after T seconds [never]", NUMBER, IN(seconds), 0.001, 1e9, .jobs = ON_SEARCH},
    {"--search-windows", "K", "K windows of the text search, and as many others judge [8]", WHOLE, IN(search_windows),
     1, MANY, .jobs = ON_SEARCH},
    {"--population", "P", "--search begins with P lists: linear, ntk, yarn, --rope's own, and mutants [8]", WHOLE,
     IN(population), 4, MANY, .jobs = ON_SEARCH},
    {"--minimize", "PART", "--search minimizes the nll past the trained context, of the last half, or of all [past]",
     WORD, IN(minimize), 0, MINIMIZE_ALL, minimized, .jobs = ON_SEARCH},
    {"--search-attention", NULL, "--search also looks for the attention factor", FLAG, IN(search_attention),
     .jobs = ON_SEARCH},
    {"--search-unscaled", NULL, "--search also looks for the number of first positions that stay unscaled", FLAG,
     IN(search_unscaled), .jobs = ON_SEARCH},
    {"--bench", NULL, "speed of prefill and decode, at the start and behind N positions [8192]", .job = JOB_BENCH},
    {"--quantize", "TYPE OUT", "write a copy with q8, q4, f16 or f32 weights, and print what rounding did", WORD,
     IN(quantize_type), 0, 3, quantized_types, .job = JOB_QUANTIZE},
    {"--tsv", NULL, "print tables between tabs at a terminal, too, as in a pipe", FLAG, IN(tsv),
     .jobs = ON_ALL & ~ON_TEXT},
    {"--help", NULL, "print this text, as -h does", FLAG, IN(help)},
    {"--version", NULL, "print the version", FLAG, IN(version)},
};
enum { N_ROWS = sizeof table / sizeof table[0] };
_Static_assert(N_ROWS <= 64, "options that were said are bits");
_Static_assert(sizeof(KvType) == sizeof(int), "a word is put in its place as an int");

static const Options unsaid = {
    .temperature = 1,
    .top_p = 0.9,
    .steps = -1,
    .samples = 1,
    .trials = 10,
    .budget = 60,
    .reads = 400,
    .population = 8,
    .search_windows = 8,
};

// Options by number: the rows of the table, and behind them RoPE's settings.
static const Option *option_at(int i) { return i < N_ROWS ? &table[i] : &rope_fields[i - N_ROWS]; }

// The number of the option that a word names, before a `=`. Case counts for short ones only. -1: none, and *nearest
// becomes the one that was meant, or "".
static int find(const char *word, const char **nearest) {
    char name[32];
    if (strcmp(word, "-h") == 0) word = "--help";
    int length = (int)(strncmp(word, "--", 2) == 0 ? strcspn(word, "=") : strlen(word));
    snprintf(name, sizeof name, "%.*s", length, word);
    *nearest = "";
    for (int i = 0; i < N_ROWS + rope_n_fields; i++) {
        const char *known = option_at(i)->option;
        if (!known) continue;
        if ((known[1] == '-' ? strcasecmp(name, known) : strcmp(name, known)) == 0) return i;
        *nearest = nearer_name(name, known, *nearest);
    }
    return -1;
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

void options_help(const char *program) {
    const char *slash = strrchr(program, '/');
    printf("usage: %s model.bin [options]\n\n", slash ? slash + 1 : program);
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

static bool fail_no_option(const char *word, const char *nearest, Error *err) {
    char apart[40], name[3];
    const char *other;
    snprintf(name, sizeof name, "%s", word);
    bool holds_value = word[1] != '-' && word[2] && strchr("0123456789.", word[2]);  // -n20
    if (holds_value && find(name, &other) >= 0) {
        snprintf(apart, sizeof apart, "%s %.30s", name, word + 2);
        nearest = apart;
    }
    return fail_unknown(err, "there is no option", word, nearest, "see --help");
}

static bool takes(const Option *option, const char *argument) {
    return option->argument && strcmp(option->argument, argument) == 0;
}

// The word behind an option is its value, unless it is an option itself. A prompt may be any word.
static bool check_value(const Option *option, const char *next, Error *err) {
    const char *nearest;
    bool is_option = next && !takes(option, "TEXT") && find(next, &nearest) >= 0;
    if (next && !is_option) return true;
    return fail(err, "%s needs a value (%s%s%s)", option->option, option->argument,
                is_option ? ", found the option " : "", is_option ? next : "");
}

// Reads two numbers, of the option `name`.
static bool read_pair(const char *name, const char *text, int *pair, Error *err) {
    int length = 0;
    bool good = !text[strspn(text, "0123456789.")] && sscanf(text, "%7d.%7d%n", pair, pair + 1, &length) == 2;
    if (good && !text[length]) return true;
    return fail(err, "%s: '%.60s' is not two whole numbers from 0, as 3.5", name, text);
}

// Reads the option at argv[*at], and leaves *at at the last word that it took.
static bool read_option(char **argv, int *at, Options *o, Error *err) {
    const char *nearest, *word = argv[*at], *next = argv[*at + 1];
    const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    int number = find(word, &nearest);
    if (number < 0) return fail_no_option(word, nearest, err);
    const Option *option = option_at(number);
    bool is_field = number >= N_ROWS, optional = option->argument && option->argument[0] == '[';
    if (equals && !option->argument) return fail(err, "%s takes no value", option->option);
    bool is_model = !o->model_path && next && (option->job != JOB_ENGINES || access(next, F_OK) == 0);
    bool left_out = optional && !equals && (is_model || !next || (next[0] == '-' && next[1]));
    const char *value = equals ? equals + 1 : "1";
    if (!equals && option->argument && !left_out) {
        if (!check_value(option, next, err)) return false;
        value = argv[++*at];
    }
    if (option->job) o->job = option->job;
    // Windows and sinks work without RoPE.
    if (option->about_rope || (is_field && !strstr("--window --sinks", option->option))) o->about_rope = option->option;
    if (is_field) o->rope.said |= 1u << (number - N_ROWS);
    else o->said |= UINT64_C(1) << number;
    if (option->job == JOB_QUANTIZE) {
        if (!check_value(option, argv[*at + 1], err)) return false;
        o->quantize_path = argv[++*at];
    }
    if (option->type == PAIR && !left_out) return read_pair(option->option, value, o->attn, err);
    return left_out || option_read(option, is_field ? (void *)&o->rope.rope : o, option->option, value, err);
}

// Fails because of a word behind the model file that no option takes. `option` and `value` are the two words before it,
// NULL where they are not an option and its value; `skipped` is the option right before the model, or NULL.
static bool fail_surplus(const Options *o, const char *word, const char *option, const char *value, const char *skipped,
                         Error *err) {
    static const char *const lists[] = {"NAME", "LIST", "[LIST]", "ENGINES"};
    const char *nearest;
    const Option *before = option ? option_at(find(option, &nearest)) : NULL;
    if (before && takes(before, "TEXT"))
        return fail(err, "'%.60s': a text of several words stands in quotes (%s \"%.60s %.60s...\")", word, option,
                    value, word);
    for (int i = 0; before && i < 4; i++)
        if (takes(before, lists[i]))
            return fail(err, "'%.60s': a list has commas and no blanks (%s %.60s,%.60s)", word, option, value, word);
    if (skipped && option_at(find(skipped, &nearest))->argument)
        return fail(err, "'%.60s': the model file comes first (expected %.60s %s %.60s)", word, word, skipped,
                    o->model_path);
    return fail(err, "'%.60s': there is a model file already (%.60s; a prompt follows -i, a text --ppl or --check)",
                word, o->model_path);
}

bool options_parse(int argc, char **argv, Options *o, Error *err) {
    const char *option = NULL, *skipped = NULL;
    *o = unsaid;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            int first = i;
            if (!read_option(argv, &i, o, err)) return false;
            option = i > first ? argv[first] : NULL;
        } else if (o->model_path) {
            return fail_surplus(o, argv[i], option, option ? argv[i - 1] : NULL, skipped, err);
        } else {
            o->model_path = argv[i];
            skipped = argv[i - 1][0] == '-' && !option ? argv[i - 1] : NULL;
            option = NULL;
        }
    }
    return true;
}

// ---- checking ----

static bool check_one_job(const Options *o, Error *err) {
    for (int i = 0; i < N_ROWS; i++)
        if (o->said >> i & 1 && table[i].job && table[i].job != (int)o->job)
            return fail(err, "--ppl, --passkey (or --tasks), --check, --attn, --explain, --search, --bench, "
                             "--quantize, --rope-json and --engines exclude one another");
    return true;
}

// ---- what has no effect ----

// The option that asks for the job at hand; NULL: none does, and text is generated.
static const char *asked_by(const Options *o) {
    if (o->job == JOB_TASKS && o->prompts) return "--prompts";
    for (int i = 0; i < N_ROWS; i++)
        if (o->said >> i & 1 && table[i].job) return table[i].option;
    return o->mode == MODE_CHAT ? "-m chat" : NULL;
}

static void warn_idle(const Option *option, const char *how, const char *what) {
    fprintf(stderr, "run: warning: %s has no effect %s %s\n", option->option, how, what);
}

// Warns that an option has no effect in the job at hand. Where nothing asked for one, names those that it needs.
static void warn_of_job(const Options *o, const Option *option) {
    char jobs[200] = "";
    int n = option->jobs & ON_CHAT ? 1 : 0;
    if (n > 0) add_name(jobs, sizeof jobs, " or ", "-m chat");
    for (int i = 0; i < N_ROWS; i++) {
        if (!table[i].job || !(option->jobs >> table[i].job & 1)) continue;
        add_name(jobs, sizeof jobs, " or ", table[i].option);
        n++;
    }
    if (asked_by(o)) warn_idle(option, "with", asked_by(o));
    else warn_idle(option, n > 4 ? "on" : "without", n > 4 ? "a text" : jobs);
}

// Makes an option what it is when it is not given.
static void unsay(Options *o, const Option *option) {
    static const size_t sizes[] = {
        [FLAG] = sizeof(bool),         [WHOLE] = sizeof(int),     [NUMBER] = sizeof(double), [WORD] = sizeof(int),
        [TEXT] = sizeof(const char *), [SEED] = sizeof(uint64_t), [PAIR] = sizeof(int[2]),
    };
    memcpy((char *)o + option->place, (const char *)&unsaid + option->place, sizes[option->type]);
}

// An option that has an effect together with another one only, or only without it.
static void check_pair(Options *o, const char *name, bool idle, const char *how, const char *other) {
    const char *nearest;
    int number = find(name, &nearest);
    const Option *option = option_at(number);
    if (!(o->said >> number & 1) || !idle) return;
    warn_idle(option, how, other);
    unsay(o, option);
}

static unsigned bit_of_job(const Options *o) {
    if (o->job == JOB_TASKS && o->prompts) return ON_PROMPTS;
    return o->job == JOB_TEXT && o->mode == MODE_CHAT ? ON_CHAT : 1u << o->job;
}

// Warns of each option that has no effect, and makes sure that it has none.
static void drop_idle(Options *o) {
    unsigned job = bit_of_job(o);
    check_pair(o, "--piece", !o->spread && job & ON_SPREAD, "without", "--spread");
    check_pair(o, "--crowd", !o->spread && job & ON_SPREAD & ~ON_TASKS, "without", "--spread");
    check_pair(o, "--stale-keys", !o->stepwise && job & ON_PPL, "without", "--stepwise");
    check_pair(o, "-z", o->ids && job & ON_PPL, "with", "--ids");
    for (int i = 0; i < N_ROWS; i++) {
        const Option *option = &table[i];
        bool is_idle = option->jobs && !(option->jobs & job);
        if (is_idle && option->type != ROPE_FIELDS && o->said >> i & 1) {
            warn_of_job(o, option);
            unsay(o, option);
        }
        for (int k = 0; k < rope_n_fields && is_idle && option->type == ROPE_FIELDS; k++)
            if (o->rope.said >> k & 1) warn_of_job(o, &rope_fields[k]);
    }
}

// ---- what goes together ----

bool options_say_block(const Options *o) {
    bool said = o->methods || o->sliding;
    for (int i = 0; i < rope_n_fields; i++) said = said || (rope_fields[i].key && o->rope.said >> i & 1);
    return said && (o->methods || o->sliding || o->model_path);
}

bool job_takes_lists(Job job) { return job == JOB_PPL || job == JOB_TASKS || job == JOB_NEXT; }

static bool check_engines(const Options *o, Error *err) {
    Reading readings[MOST_READINGS];
    if (o->engines && !engines_list(o->engines, readings, err)) return fail(err, "--engines: %s", err->text);
    int n = o->reading ? engines_list(o->reading, readings, err) : 1;
    if (n == 0) return fail(err, "--reading: %s", err->text);
    if (o->reading && o->job == JOB_ENGINES) return fail(err, "--reading and --engines exclude one another");
    if (n > 1 && !job_takes_lists(o->job))
        return fail(err,
                    "--reading: one engine expected, '%.100s' are %d (lists are for --ppl, --passkey, --tasks and "
                    "--next)",
                    o->reading, n);
    return !(o->rope_config && options_say_block(o) && (o->reading || o->job == JOB_ENGINES)) ||
           fail(err, "engines read --rope-config's file as it stands (found --rope or a setting besides)");
}

// Without a model there may be prompts, if their length is said.
static bool check_prompts(const Options *o, Error *err) {
    if (o->job != JOB_TASKS || !o->prompts)
        return fail(err, "no model file given (expected model.bin [options]; see --help)");
    return o->steps > 0 || fail(err, "--prompts without a model needs -n (expected the longest text, in tokens)");
}

bool options_check(Options *o, Error *err) {
    const RopeConfig *r = &o->rope.rope;
    bool without_model = o->job == JOB_EXPLAIN || o->job == JOB_ROPE_JSON || o->job == JOB_ENGINES;
    if (!check_one_job(o, err)) return false;
    if (!o->model_path && !(without_model && (o->head_dim || o->rope_config)) && !check_prompts(o, err)) return false;
    if (o->head_dim && o->model_path)
        return fail(err, "--head-dim is for --explain, --rope-json and --engines without a model");
    if (o->head_dim % 2) return fail(err, "--head-dim: '%d' is not an even number", o->head_dim);
    if (o->head_dim && !o->rope_config && (r->theta == 0 || r->train_ctx == 0))
        return fail(err, "--head-dim needs --theta and --train-ctx with it");
    if (!check_engines(o, err)) return false;
    drop_idle(o);
    return !o->prompt || !o->prompt_file || fail(err, "-i and -f exclude one another");
}
