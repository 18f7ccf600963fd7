// The options of the command line, and --help. To add one, give it a place in Options and a row in
// the table.
#include "options.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "../base/names.h"

#define OF_OPTIONS(field) .place = offsetof(Options, field)

static const char *const modes[] = {"generate", "chat"};
static const char *const cache_words[] = {"list", "empty"};
static const char *const on_or_off[] = {"on", "off"};
static const char *const activations[] = {"int8", "f32"};
static const char *const quantized_types[] = {"q8", "q4", "f16", "f32"};

enum {
    MOST_COUNT = 1 << 20,
    SPREADS = ON_TEXT | ON_CHAT | ON_PPL | ON_TASKS | ON_ATTN,  // only --spread has jumps there
};

const Option option_table[] = {
    {.value = {"-t", "T", "temperature, 0 is greedy [1]", NUMBER,
               OF_OPTIONS(text.sampling.temperature), 0, 1e6},
     .is_common = true,
     .needs = SAMPLING},
    {.value = {"-p", "P", "top-p: sample from the likeliest tokens that make up P [0.9]", NUMBER,
               OF_OPTIONS(text.sampling.top_p), 0, 1},
     .needs = SAMPLING},
    {.value = {"-k", "K", "top-k: sample from the K likeliest tokens; 0: from all [0]", WHOLE,
               OF_OPTIONS(text.sampling.top_k), 0, MOST},
     .needs = SAMPLING},
    {.value = {"--min-p", "M", "sample from tokens at least M times as likely as the likeliest [0]",
               NUMBER, OF_OPTIONS(text.sampling.min_p), 0, 1},
     .needs = SAMPLING},
    {.value = {"-s", "SEED", "seed of the random numbers, 0: from the clock [0]", SEED,
               OF_OPTIONS(seed)},
     .is_common = true,
     .needs = A_SEED},
    {.value = {"-n", "N",
               "total positions, prompt included [256; tables: 4 times --train-ctx; chats and "
               "--check, or 0: the model's context]; 8k is 8,192; --check takes several: 4k,8k,32k",
               WHOLE, OF_OPTIONS(steps), 0, MOST},
     .is_common = true,
     .needs = A_LENGTH},
    {.value = {"-i", "TEXT", "prompt; in a chat the first message", TEXT, OF_OPTIONS(text.prompt)},
     .is_common = true,
     .not_with = "-f",
     .jobs = ON_CHAT,
     .needs = A_PROMPT},
    {.value = {"-f", "FILE", "file with the prompt, or a chat's first message; - is standard input",
               TEXT, OF_OPTIONS(prompt_file)},
     .is_common = true,
     .jobs = ON_CHAT | ON_TASKS | ON_PROMPTS | ON_HEADS,
     .needs = A_PROMPT},
    {.value = {"-z", "FILE", "tokenizer [NAME.tokenizer.bin or tokenizer.bin next to the model]",
               TEXT, OF_OPTIONS(tokenizer_path)},
     .idle = {"--ids", true, ON_PPL},
     .needs = A_TOKENIZER},
    {.value = {"--no-import", NULL,
               "refuse a GGUF file or a checkpoint's folder, and print the command that imports it",
               FLAG, OF_OPTIONS(no_import)}},
    {.value =
         {"-m", "MODE",
          "generate or chat; the chat format is the family's, recognized from its special tokens; "
          "also for --tasks [generate; at a terminal without -i and -f, chat if the model was "
          "taught to]",
          WORD, OF_OPTIONS(mode), 0, 1, modes},
     .is_common = true,
     .jobs = ON_TASKS | ON_PROMPTS,
     .needs = SAMPLING},
    {.value = {"-y", "TEXT", "system prompt of a chat; '': none [the template's own]", TEXT,
               OF_OPTIONS(text.system_prompt)},
     .jobs = ON_CHAT},
    {.value = {"--thinking", "MODE",
               "on or off: whether chat answers start with a thinking block (Qwen 3, 3.5) [on]", WORD,
               OF_OPTIONS(text.thinking), 0, 1, on_or_off},
     .jobs = ON_CHAT},
    {.value = {"--ignore-eos", NULL, "keep generating past an end token", FLAG,
               OF_OPTIONS(text.ignore_eos)},
     .needs = SAMPLING},
    {.value = {"--kv", "TYPE", "precision of the key-value cache: f16, f32, q8 or q4 [f16]", WORD,
               OF_OPTIONS(sessions.kv), 0, N_KV_TYPES - 1, kv_type_names},
     .is_common = true,
     .needs = RUNNING,
     .jobs = ON_EXPLAIN},
    {.value =
         {"--activations", "TYPE",
          "activations that quantized weights multiply: rounded to int8, or kept as f32 [int8]",
          WORD, OF_OPTIONS(sessions.floats), 0, 1, activations},
     .needs = RUNNING},
    {.value = {"--spread", "N",
               "spread the tokens of a text over N positions, in pieces with jumps between them",
               WHOLE, OF_OPTIONS(sessions.spread), 1, MOST},
     .needs = SPREADING},
    {.value = {"--piece", "P", "tokens in a piece of --spread [128]", WHOLE,
               OF_OPTIONS(sessions.piece), 1, MOST_COUNT},
     .idle = {"--spread", false, SPREADS},
     .needs = SPREADING},
    {.value = {"--short-heads", "LIST",
               "limit these kv heads to the last --short-window positions and the first four: "
               "LAYER.KVHEAD or LAYER, with commas; all-but:LIST is all others",
               TEXT, OF_OPTIONS(sessions.short_heads)},
     .jobs = ON_PPL | ON_TASKS | ON_ATTN | ON_HEADS | ON_NEXT},
    {.value = {"--short-window", "W", "window of --short-heads, in positions [128]", WHOLE,
               OF_OPTIONS(sessions.short_window), 1, MOST},
     .with = {"--short-heads"},
     .jobs = ON_PPL | ON_TASKS | ON_ATTN | ON_HEADS | ON_NEXT},
    {.value = {"--best-keys", "K",
               "let a query see only the K keys with the best scores; 0: all (slow, as --plain) [0]",
               WHOLE, OF_OPTIONS(sessions.best_keys), 0, MOST},
     .jobs = ON_PPL | ON_TASKS | ON_ATTN | ON_HEADS | ON_NEXT},
    {.value = {"--threads", "N", "threads [OMP_NUM_THREADS, else the fastest number]", WHOLE,
               OF_OPTIONS(sessions.threads), 1, 1024},
     .jobs = ON_QUANTIZE,
     .needs = RUNNING},
    {.value =
         {"--plain", NULL,
          "compute as the definition does (src/decoder/forward.c): slow, without rounding",
          FLAG, OF_OPTIONS(sessions.plain)},
     .needs = RUNNING},
    {.value = {.help = "RoPE; a setting that is not given comes from the model"}},
    {.value = {"--rope", "NAME",
               "method or distance map; measurements also take a list, with settings, or all "
               "(none,yarn:factor=4,8:ramp=turns)",
               TEXT, OF_OPTIONS(methods)},
     .is_common = true,
     .about_rope = true,
     .needs = PLANS},
    {.value = {"--rope-sliding", "NAME",
               "method of the sliding layers, if the model gives them separate settings",
               TEXT, OF_OPTIONS(sliding)},
     .about_rope = true,
     .needs = PLANS},
    {.value = {"--rope-config", "FILE",
               "a config.json, or its rope_scaling block, in place of the model's settings", TEXT,
               OF_OPTIONS(rope_config)},
     .is_common = true,
     .about_rope = true},
    {.value = {"--reading", "ENGINES",
               "interpret that file, or the model's settings, as these engines do "
               "(vllm,hf4@4.51); see --engines",
               TEXT, OF_OPTIONS(reading)},
     .not_with = "--engines",
     .about_rope = true,
     .needs = PLANS},
    {.is_rope = true, .jobs = ON_PROMPTS | ON_ANSWERS, .needs = PLANS},
    {.value = {.help = "Instead of generating"}},
    {.value = {"--ppl", "FILE", "perplexity by position over a text; - is standard input", TEXT,
               OF_OPTIONS(text_path)},
     .is_common = true,
     .job = JOB_PPL},
    {.value = {"--ids", NULL,
               "the FILE of --ppl, or of -f with --next, has decimal token ids instead of text", FLAG,
               OF_OPTIONS(ids)},
     .jobs = ON_PPL | ON_NEXT},
    {.value = {"--per-token", NULL, "--ppl prints every position", FLAG, OF_OPTIONS(ppl.per_token)},
     .jobs = ON_PPL},
    {.value = {"--samples", "K", "--ppl averages K segments spread evenly over the text [1]", WHOLE,
               OF_OPTIONS(ppl.samples), 1, MOST_COUNT},
     .jobs = ON_PPL},
    {.value = {"--keys", "[T,STEP,GAIN,LOSS]",
               "--ppl only counts tokens that need distant text: with the whole text before them, "
               "instead of the last T tokens (in steps of STEP), their loss falls by more than GAIN "
               "nats, to LOSS or less [512,128,2,2]",
               TEXT, OF_OPTIONS(keys.given)},
     .not_with = "--spread",
     .jobs = ON_PPL},
    {.value = {"--judge", "NAME",
               "method that chooses the tokens of --keys, with its settings (yarn:factor=8) "
               "[the model's own settings]",
               TEXT, OF_OPTIONS(keys.judge_name)},
     .with = {"--keys"},
     .about_rope = true,
     .jobs = ON_PPL},
    {.value = {"--stepwise", NULL,
               "--ppl and --next process token by token, as generation does (slow)", FLAG,
               OF_OPTIONS(sessions.stepwise)},
     .jobs = ON_PPL | ON_NEXT},
    {.value =
         {"--stale-keys", NULL,
          "with --stepwise or --check: keep keys as they were rotated when cached, a known flaw, and "
          "do not recompute the text when longrope switches lists",
          FLAG, OF_OPTIONS(sessions.stale_keys)},
     .idle = {"--stepwise", false, ON_PPL},
     .about_rope = true,
     .jobs = ON_PPL | ON_CHECK | ON_NEXT},
    {.value = {"--check", "[FILE]",
               "does the model work up to N positions? (on FILE, or the built-in story)", TEXT,
               OF_OPTIONS(check.text_path)},
     .is_common = true,
     .job = JOB_CHECK},
    {.value = {"--like", "FILE",
               "--check also requires perplexity within 5 % of the model in FILE, or of the one whose "
               "scores are in FILE.json (--save)",
               TEXT, OF_OPTIONS(check.like_path)},
     .jobs = ON_CHECK},
    {.value = {"--save", "FILE.json", "keep the scores of --check, for a later --like FILE.json",
               TEXT, OF_OPTIONS(check.save_path)},
     .jobs = ON_CHECK},
    {.value = {"--junit", "FILE",
               "write the verdicts of --check as JUnit's XML, for build servers", TEXT,
               OF_OPTIONS(check.junit_path)},
     .jobs = ON_CHECK | ON_SETTINGS},
    {.value = {"--effort", "TIMES",
               "--check uses up to this many times as much text as usual to decide a row [1]",
               NUMBER, OF_OPTIONS(check.effort), 0.25, 1000},
     .jobs = ON_CHECK},
    {.value = {"--budget", "SECONDS",
               "end --check after this time, with the rows that are undecided by then; 0: no limit "
               "[0]",
               NUMBER, OF_OPTIONS(check.budget), 0, 1e6},
     .jobs = ON_CHECK},
    {.value = {"--cost", "TIMES",
               "--check allows settings to multiply the perplexity of texts within the model's own "
               "reach by up to this [1.25]",
               NUMBER, OF_OPTIONS(check.cost), 1, 100},
     .jobs = ON_CHECK},
    {.value =
         {"--max-cache", "NATS",
          "--check also requires that --kv q8 or q4 changes the next token's distribution by no "
          "more than this, on average; 0: report only",
          NUMBER, OF_OPTIONS(check.max_cache), 0, 100},
     .jobs = ON_CHECK},
    {.value = {"--settings", NULL,
               "--check judges only the settings, without a text; needs no tokenizer",
               FLAG, OF_OPTIONS(check.settings)},
     .not_with = "--check FILE",
     .jobs = ON_CHECK | ON_SETTINGS},
    {.value = {"--passkey", NULL, "retrieval of a hidden number (passkey) by length and depth", .type = NOTHING},
     .is_common = true,
     .job = JOB_TASKS},
    {.value =
         {"--tasks", "LIST",
          "accuracy in tasks by length and depth: passkey, multikey, multivalue, variables, updates, "
          "hops, multiquery, ordinal, latent, common, copy, or all; -f: hidden in that text",
          TEXT, OF_OPTIONS(tasks.list)},
     .is_common = true,
     .job = JOB_TASKS},
    {.value = {"--trials", "K", "questions at each length and depth [10]", WHOLE,
               OF_OPTIONS(tasks.trials), 1, MOST_COUNT},
     .jobs = ON_TASKS | ON_PROMPTS},
    {.value = {"--prompts", NULL,
               "--tasks prints its prompts and the right answers as lines of JSON; needs no model",
               FLAG, OF_OPTIONS(prompts)},
     .with = {"-n"},
     .unless = "MODEL",
     .jobs = ON_TASKS | ON_PROMPTS},
    {.value =
         {"--answers", "FILE",
          "judge the answers of another program: lines of --prompts with a member `said`; - is "
          "standard input; needs no model",
          TEXT, OF_OPTIONS(answers_path)},
     .job = JOB_ANSWERS,
     .not_with = "MODEL"},
    {.value = {"--min-accuracy", "A",
               "exit with status 1 when a method's accuracy in a task at a length is below A [0]",
               NUMBER, OF_OPTIONS(tasks.min_accuracy), 0, 1},
     .jobs = ON_TASKS | ON_ANSWERS},
    {.value = {"--effective", "SHARE",
               "--tasks ends with the effective length: the longest up to which a method keeps SHARE "
               "of its score in texts of 512 to 1,024 tokens [0.85]",
               NUMBER, OF_OPTIONS(tasks.effective), 0.01, 1},
     .jobs = ON_TASKS | ON_ANSWERS},
    {.value = {"--attn", "LAYER.HEAD",
               "scores and weights that the prompt's last query gives each key, by distance", PAIR,
               OF_OPTIONS(attn.head)},
     .job = JOB_ATTN},
    {.value =
         {"--key", "[POSITION]",
          "--attn decomposes the score of one key, minus the mean key's, into the amounts of the "
          "pairs, with the key's weight if only that pair has another speed [the likeliest]",
          TEXT, OF_OPTIONS(attn.key)},
     .jobs = ON_ATTN},
    {.value =
         {"--instead", "NAME",
          "method that --key takes the other speed from, with its settings [yarn; none if the "
          "method in force is not plain RoPE]",
          TEXT, OF_OPTIONS(attn.instead_name)},
     .with = {"--key"},
     .about_rope = true,
     .jobs = ON_ATTN},
    {.value = {"--everywhere", NULL,
               "change the pair's speed in all heads of all layers: a pass for each pair (slow)", FLAG,
               OF_OPTIONS(attn.everywhere)},
     .with = {"--key"},
     .jobs = ON_ATTN},
    {.value = {"--heads", NULL,
               "which keys each head attends to: near, first or far ones, the successor of an earlier "
               "same token, a hidden number; in built-in texts, or in the prompt of -f; within the "
               "trained length, and at N with each method",
               .type = NOTHING},
     .job = JOB_HEADS},
    {.value = {"--why", NULL,
               "why the model fails at N: which heads find a hidden number, which heads and pairs lose "
               "it, and how much of it a method restores (yarn, or that of --rope)",
               .type = NOTHING},
     .job = JOB_WHY},
    {.value = {"--whole", NULL,
               "--heads and --why process texts of N positions, not short ones with a jump (slow)", FLAG,
               OF_OPTIONS(whole)},
     .jobs = ON_HEADS | ON_WHY},
    {.value = {"--next", "K",
               "log-probabilities of the K likeliest tokens after the prompt; K may be a file that "
               "lists tokens",
               TEXT, OF_OPTIONS(next)},
     .is_common = true,
     .job = JOB_NEXT},
    {.value = {"--explain", NULL, "show what the method does to every pair at length N",
               .type = NOTHING},
     .is_common = true,
     .job = JOB_EXPLAIN},
    {.value = {"--plot", NULL,
               "--explain draws the pairs on standard error, as it does for a terminal", FLAG,
               OF_OPTIONS(plot)},
     .jobs = ON_EXPLAIN},
    {.value = {"--head-dim", "D",
               "head size for --explain, --rope-json and --engines without a model; also needs "
               "--theta and --train-ctx",
               WHOLE, OF_OPTIONS(head_dim), 2, ROPE_MAX_HEAD_DIM},
     .not_with = "MODEL",
     .with = {"--theta", "--train-ctx"},
     .unless = "--rope-config",
     .needs = A_MODEL_OR_SETTINGS},
    {.value = {"--rope-json", "[FAMILY]",
               "the settings as a rope_scaling block for Hugging Face and vLLM; with FAMILY, a "
               "model_type, as the keys of its config.json",
               TEXT, OF_OPTIONS(family)},
     .is_common = true,
     .job = JOB_ROPE_JSON,
     .about_rope = true},
    {.value =
         {"--fields", NULL,
          "print the settings in --rope-config's file as JSON, named as in the model header (for "
          "the exporter)",
          .type = NOTHING},
     .job = JOB_FIELDS,
     .not_with = "MODEL",
     .with = {"--rope-config"},
     .about_rope = true},
    {.value = {"--engines", "[LIST]",
               "how nine engines interpret the model's settings, or --rope-config's "
               "(vllm:max_len=128k,hf4@4.51; all: of thirteen) [nine]",
               TEXT, OF_OPTIONS(engines)},
     .is_common = true,
     .job = JOB_ENGINES,
     .about_rope = true},
    {.value = {"--bench", NULL,
               "speed of prefill and decode, at the start and after N positions [8192]",
               .type = NOTHING},
     .is_common = true,
     .job = JOB_BENCH},
    {.value = {"--quantize", "TYPE OUT",
               "write a copy with q8, q4, f16 or f32 weights; prints the effect of rounding", WORD,
               OF_OPTIONS(quantize_type), 0, 3, quantized_types},
     .is_common = true,
     .job = JOB_QUANTIZE},
    {.value = {"--cache", "[WHAT]",
               "list the imported GGUF files and folders, with their sizes; empty: remove them [list]",
               WORD, OF_OPTIONS(cache), 0, 1, cache_words},
     .job = JOB_CACHE,
     .not_with = "MODEL"},
    {.value = {"--tsv", NULL, "print tables with tabs, as in a pipe, even at a terminal",
               FLAG, OF_OPTIONS(tsv)},
     .needs = A_TABLE},
    {.value = {"--json", NULL,
               "print the table as one object of JSON, with the reason of the exit status", FLAG,
               OF_OPTIONS(json)},
     .is_common = true,
     .not_with = "--tsv"},
    {.value = {"--help", "[TOPIC]",
               "the options used most, or a TOPIC: all, rope, or a job (check, ppl, tasks, ...); "
               "-h is --help",
               TEXT, OF_OPTIONS(help)},
     .is_common = true},
    {.value = {"--version", NULL, "print the version", FLAG, OF_OPTIONS(version)}},
};
enum { N_ROWS = sizeof option_table / sizeof option_table[0] };
const int n_option_rows = N_ROWS;
_Static_assert((int)N_ROWS <= (int)MOST_OPTIONS, "each option has a place in `given`");
_Static_assert(sizeof(KvType) == sizeof(int), "a word is put in its place as an int");

const Options options_default = {
    .steps = -1,
    .mode = MODE_DEFAULT,
    .text = {.sampling = {.temperature = 1, .top_p = 0.9}},
    .sessions = {.short_window = 128},
    .ppl = {.samples = 1},
    .keys = {.trim = 512, .step = 128, .gain = 2, .loss = 2},
    .tasks = {.trials = 10, .effective = 0.85},
    .check = {.effort = 1, .cost = 1.25, .max_cache = -1},
};

#define FACTS(kind, run, length, needs)                                                            \
    [JOB_##kind] = {(length), (needs) | ((length) == NO_LENGTH ? 0 : A_LENGTH)},
const JobFacts job_facts[N_JOBS] = {JOB_ROWS(FACTS)};

unsigned option_jobs(const Option *option) {
    unsigned jobs = option->jobs;
    for (int k = 0; k < N_JOBS; k++) {
        bool anywhere = !option->jobs && !option->needs;
        if (anywhere || job_facts[k].needs & option->needs) jobs |= 1u << k;
    }
    return jobs;
}

const Setting *option_value(int number) {
    return number < N_ROWS ? &option_table[number].value : &rope_settings[number - N_ROWS];
}

// Case matters in names of one letter (-n, -N); longer names may be typed in any case.
static bool is_name(const char *word, const char *known) {
    bool is_long = known[1] == '-';
    return (is_long ? strcasecmp(word, known) : strcmp(word, known)) == 0;
}

int option_find(const char *word, const char **nearest) {
    char name[32];
    if (strcmp(word, "-h") == 0) word = "--help";
    bool is_letter = strlen(word) == 3 && word[0] == '-' && word[1] == '-';
    bool is_long = strncmp(word, "--", 2) == 0;
    size_t length = is_long ? strcspn(word, "=") : strlen(word);
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    *nearest = "";
    for (int i = 0; i < N_ROWS + N_ROPE_SETTINGS; i++) {
        const char *known = option_value(i)->option, *older = option_value(i)->older;
        if (!known) continue;
        if (is_name(name, known) || (older && is_name(name, older))) return i;
        *nearest = nearer_name(name, known, *nearest);
    }
    for (int i = 0; i < N_ROWS; i++) {  // -N and --n for -n
        const char *known = option_table[i].value.option;
        bool is_short = known && !known[2];
        if (is_short && strcasecmp(is_letter ? name + 1 : name, known) == 0) *nearest = known;
    }
    if (strcasecmp(name, "--h") == 0 || strcmp(name, "-H") == 0) *nearest = "-h";
    return -1;
}
