// The jobs. A row has all facts about a job that the options, run.c and messages use. To add a job,
// write its row, its function, which the header of its room declares, and its option in
// option_table.c.
#pragma once

// The length of a job's text without -n.
typedef enum {
    NO_LENGTH,       // it has no length, and -n has no effect
    CONTEXT_LENGTH,  // the model's context
    SHORT_LENGTH,    // 256 positions
    PROMPT_LENGTH,   // the length of the prompt
    BENCH_LENGTH,    // 8,192 positions, or half of a model's learned ones
    FAR_LENGTH,      // past the trained length: four times as far, or the model's context
    TEXT_LENGTH,     // the same, but no more than the length of the text
} UsualLength;

// The needs and inputs of a job. An option may have its effect in all jobs with a certain input.
enum {
    A_TOKENIZER = 1,
    PLANS = 2,                // for the methods of --rope
    A_MODEL_OR_SETTINGS = 4,  // it is about settings, which may be given without a model
    A_PROMPT = 8,             // which must fit in the length
    LISTS = 16,               // of methods and engines
    RUNNING = 32,             // it runs the model
    SAMPLING = 64,            // it writes a text
    SPREADING = 128,          // of the tokens of its text
    A_SEED = 256,
    A_TABLE = 512,         // it prints a table
    ADVICE_REACH = 1024,   // it warns if the settings do not reach the length of the text,
    ADVICE_TUNING = 2048,  // or if they are not the settings that the model was made with
    A_LENGTH = 4096,       // derived from the default length
    ON_A_TEXT = A_TOKENIZER | PLANS | RUNNING,
    WRITING = ON_A_TEXT | SAMPLING | SPREADING | A_SEED,
};

// Kind, function, default length, needs. The first row is the job if no option asks for another.
// CHAT (-m chat), PROMPTS (--prompts) and SETTINGS (--settings) are variants of another job, chosen
// by one of its options.
#define JOB_ROWS(JOB)                                                                              \
    JOB(TEXT, generate_text, SHORT_LENGTH, WRITING | A_PROMPT)                                     \
    JOB(CHAT, generate_text, CONTEXT_LENGTH, WRITING)                                              \
    JOB(PPL, measure_perplexity, TEXT_LENGTH,                                                      \
        ON_A_TEXT | LISTS | SPREADING | A_TABLE | ADVICE_TUNING)                                   \
    JOB(TASKS, measure_tasks, FAR_LENGTH,                                                          \
        ON_A_TEXT | LISTS | SPREADING | A_SEED | A_TABLE | ADVICE_TUNING)                          \
    JOB(PROMPTS, print_prompts, FAR_LENGTH, A_TOKENIZER | A_SEED)                                  \
    JOB(ANSWERS, judge_answers, NO_LENGTH, A_TABLE)                                                \
    JOB(CHECK, check_model, CONTEXT_LENGTH, ON_A_TEXT | A_TABLE)                                   \
    JOB(SETTINGS, check_model, CONTEXT_LENGTH, PLANS | A_MODEL_OR_SETTINGS | A_TABLE)              \
    JOB(ATTN, show_attention, PROMPT_LENGTH, ON_A_TEXT | A_PROMPT | SPREADING | A_TABLE)           \
    JOB(HEADS, show_heads, FAR_LENGTH, ON_A_TEXT | LISTS | A_SEED | A_TABLE)                       \
    JOB(WHY, show_why, FAR_LENGTH, ON_A_TEXT | A_SEED | A_TABLE)                                   \
    JOB(NEXT, show_next, PROMPT_LENGTH, ON_A_TEXT | A_PROMPT | LISTS | A_TABLE | ADVICE_TUNING)    \
    JOB(EXPLAIN, explain, CONTEXT_LENGTH,                                                          \
        PLANS | A_MODEL_OR_SETTINGS | A_TABLE | ADVICE_REACH | ADVICE_TUNING)                      \
    JOB(BENCH, bench, BENCH_LENGTH, PLANS | RUNNING | A_TABLE)                                     \
    JOB(ROPE_JSON, print_block, CONTEXT_LENGTH, PLANS | A_MODEL_OR_SETTINGS)                       \
    JOB(FIELDS, print_fields, NO_LENGTH, A_MODEL_OR_SETTINGS)                                      \
    JOB(ENGINES, show_engines, CONTEXT_LENGTH, PLANS | A_MODEL_OR_SETTINGS | A_TABLE)              \
    JOB(QUANTIZE, measure_rounding, NO_LENGTH, A_TABLE)                                            \
    JOB(CACHE, show_cache, NO_LENGTH, A_TABLE)

#define JOB_KIND(kind, run, length, needs) JOB_##kind,
typedef enum { JOB_ROWS(JOB_KIND) N_JOBS } JobKind;

// Sets of jobs are bits: ON_PPL is the bit of JOB_PPL.
#define ON_JOB(kind, run, length, needs) ON_##kind = 1 << JOB_##kind,
enum { JOB_ROWS(ON_JOB) };

// The facts in a row, without its function, which is in a room above (src/job, src/measure) and is
// called by run.c.
typedef struct {
    UsualLength length;
    unsigned needs;
} JobFacts;

extern const JobFacts job_facts[N_JOBS];
