// The rows of --check: what is known of each, when it is decided, how long it takes; and what the
// files of --check have for one another. check.c has the table of them, and says which file is which.
#pragma once

#include "measure.h"

// ---- check_settings.c: the rows about settings ----

enum { FAILED_BYTES = 400 };

// What settings say of a length, before anything is read.
typedef struct {
    char failed[FAILED_BYTES];  // what the first row that fails says; empty: none does
    const char *row;            // its name
    bool at_any_length;         // one fails that would fail at any length
    // The positions that the settings are made for, and whether the length is past them. That alone
    // fails nothing that reading shows to hold.
    double reach;
    bool is_beyond;
    char beyond[FAILED_BYTES];  // the same in words
} SettingsFound;

// Judges the settings for a text of `length` positions, and prints a row for each, but for a reach
// that is not far enough. `own` is the plan of the model's own settings. Without a table it prints
// nothing.
void judge_settings(const Job *job, const RopePlan *own, int length, Table *table,
                    SettingsFound *found);

// Prints the row of a reach that is not far enough, with what came out.
void print_reach(const SettingsFound *found, int length, const char *verdict, Table *table);

// ---- rows and a check ----

enum {
    SHORTEST = 16,        // positions that a check needs
    MOST_WINDOW = 512,    // tokens of a stretch of text
    MOST_STRETCHES = 96,  // of a text that are read, spread over all of it
    PAGE_WINDOW = 256,    // tokens of a stretch, at least, for a row about what a context is worth
    MAX_LENGTHS = 32,
    MAX_ROWS = 8 * MAX_LENGTHS,
    MOST_ROUNDS = 5,    // turns of a row, with which all of its units are read
    MOST_OTHERS = 12,   // readings that a row tells apart
    LEAST_SAMPLES = 12  // that decide at SURE; fewer ones are judged by Student's t
};
static const double SURE = 3.5;  // standard errors between a value and its limit that decide

// A sample is a mean over some neighboring tokens, which depend on each other, or a key that was
// asked for.
typedef struct {
    int n;
    double mean, squares;  // of all samples; sum of squared differences from it
} Samples;

typedef enum {
    SHORT_PERPLEXITY,  // does the model know the text at all?
    LIKE,              // does it read short texts as well as another model?
    CONVERSION,        // does it read better with a mistake that converters make?
    SHORT_TEXTS,       // what the setting costs texts within the trained context
    OTHER_BASES,       // does the model read better with another theta?
    JUMPS,             // a short text, spread over many positions
    JUMP_KEYS,
    STEPS,          // a prompt, and the same read as generation reads
    READ_AGAIN,     // a page is
    ROUNDED_CACHE,  // what rounding of keys and values changes
    WHOLE_TEXT,
    WHOLE_KEYS,
    N_ROW_KINDS,
} RowKind;

// OPEN: not decided. BETWEEN: it lies between what jumps can pass and what they can fail.
// UNABLE: the model cannot do this in a short text either.
typedef enum { FAIL, OK, UNABLE, OPEN, BETWEEN } Verdict;

typedef struct {
    RowKind kind;
    int length;        // positions
    int units;         // stretches, texts or keys that were read
    Samples samples;   // of all units
    Samples in_short;  // keys that are found in a short text, asked when many are missed
    // for OTHER_BASES, CONVERSION and ROUNDED_CACHE: one for each other theta, mistake or part; for
    // READ_AGAIN: gains
    Samples others[MOST_OTHERS];
    int other;                   // the one of them that the value is of
    double value, error, limit;  // error: one standard error of the value
    double seconds;              // that its units took
    Verdict verdict;
    const char *lacks;  // what it needs to be decided; NULL: time
    bool replaced;      // by a row about a whole text of that length
    bool printed;
} Row;

typedef struct Likeness Likeness;  // see check_like.c

enum { PLAIN_ROPE, FILES_OWN, SMALLER_BASE, LARGER_BASE, N_REFERENCES };  // plans for short texts

// A check.
//
// 1. A row's verdict follows from the model, the settings, the length and the text alone. Its units
//    are read in a fixed order, and it is decided at the first unit at which it can be. Time only
//    says how many units are read.
// 2. What is decided is final: no unit is read afterwards.
// 3. The verdict on the model is `no` as soon as one row fails, and `yes` when all that it needs
//    are ok. So more time turns `undecided` into yes or no, and nothing else into anything.
// 4. ids, lengths, the window and the stretches are fixed before the first row, the reference by
//    the first row.
// 5. scores[u] is NULL until stretch u is first needed, and does not change then.
// 6. per_token, per_step and chunk change with every reading. They steer time and nothing that is
//    printed as a value.
typedef struct {
    const Job *job;
    Table table;
    // Time, in seconds.
    double start, budget;  // from the first token on; INFINITY: as long as it takes
    double per_token;      // in a short text, the slowest of late
    double per_step;       // of one token by itself
    double deep;           // how much longer a token takes for each token of its text
    int chunk;             // tokens between two looks at the clock
    bool late;             // a reading was given up
    char doing[40];        // what progress is shown of
    // Texts.
    int lengths[MAX_LENGTHS], n_lengths;  // rising, from the window to -n
    int32_t *ids;                         // (n_ids) of the text, without BOS
    size_t n_ids;
    int window;       // tokens of a stretch, within the trained context
    int n_stretches;  // that the text has
    RopePlan references[N_REFERENCES];
    Session *reference;     // by the plan that reads short texts best
    int reference_is;       // PLAIN_ROPE or FILES_OWN
    const char *like_path;  // of another model; NULL: there is none
    Likeness *like;
    // (window / 2) -ln p of the second half of each stretch by the reference; NULL: not read yet.
    double *scores[MOST_STRETCHES];
    // Verdicts.
    Row rows[MAX_ROWS];
    int n_rows;
    SettingsFound settings;      // of -n
    bool whole;                  // see CheckOptions
    double min_page, max_cache;  // likewise
} Check;

// A kind of row.
typedef bool IsWanted(const Check *check);
typedef int MostUnits(const Check *check, const Row *row);
typedef double UnitSeconds(const Check *check, const Row *row);
typedef RopePlan PlanOfRow(const Check *check, const Row *row);
// Reads the row's next unit by a session that open_for has opened, and adds its samples. False with
// the reason, or when it was too late.
typedef bool ReadUnit(Check *check, Row *row, Session *session, Error *err);
typedef void JudgeRow(const Check *check, Row *row);
typedef bool TellsNothing(const Row *row);
typedef void DescribeRow(const Check *check, const Row *row, char *out, size_t size);
typedef struct {
    const char *name;      // as printed
    bool alone;            // its units open sessions of their own
    bool by_jumps;         // it is read so, as the verdict says
    bool asks_for_keys;    // its units are keys
    bool about_worth;      // it tells what a context is worth
    IsWanted *is_wanted;   // by an option; NULL: always
    MostUnits *most;       // units that the text has for it
    UnitSeconds *seconds;  // that its next unit should take
    PlanOfRow *plan;       // by which its units are read where it is tried; NULL: the job's
    ReadUnit *read;
    JudgeRow *judge;
    TellsNothing *tells_nothing;  // open with all units read: the model cannot be judged by it
    DescribeRow *describe;        // what it found, in words
} RowType;
extern const RowType *const row_types[N_ROW_KINDS];
static inline bool is_wanted(const Check *check, RowKind kind) {
    return !row_types[kind]->is_wanted || row_types[kind]->is_wanted(check);
}

// ---- check_rows.c: what they share ----

void add_sample(Samples *samples, double x);
double standard_error(const Samples *samples);
// OK or FAIL when a value is so many of its errors below or above its limit.
Verdict decide(double value, double error, double limit);
// Judges a row by the ratio of two perplexities, whose logarithm its samples have.
void judge_ratio(Row *row, double limit);
// Judges the row by the one of n other readings that says most against the model: it fails, or it
// is open where others pass, or its ratio is the highest one.
void judge_others(Row *row, int n, double limit);
// The limit below which a ratio passes, and the one above which it fails. What is between them is
// not decided by the row. False: the row has that one limit alone, or another kind of value.
bool has_two_limits(const Check *check, const Row *row, double *passes, double *fails);

// Seconds since the first token was read.
double spent(const Check *check);
// Whether what should take so many seconds may be begun.
bool fits(const Check *check, double seconds);
// Seconds that some tokens of a text of n should take, a stretch in its window, the reference's
// reading of the row's next stretch, which is read once for all rows, and a stretch beside that.
double seconds_for(const Check *check, double tokens, double n);
double stretch_seconds(const Check *check);
UnitSeconds reference_seconds, beside_seconds;
// Whether a text in place is read by the reference's own settings.
bool is_reference(const Check *check);
// How many units the text has for the row, at most; those of rows about stretches.
MostUnits most_units, most_stretches;
// How many of them are read up to the row's turn number `round`: twice as many as up to the one
// before it. So a row that sits on its limit does not take all of the time where another decides.
int units_up_to(const Check *check, const Row *row, int round);
// Seconds that an open row should take until it is decided, by what is known of it.
UnitSeconds seconds_to_decide;

// The plan that is checked, for n tokens in so many pieces that are spread over the row's positions.
// All keys but BOS count as a crowd.
RopePlan jumping_plan(const Check *check, const Row *row, int n, int pieces);
PlanOfRow stretch_jumps, may_jump;
// The plan by which the row's units are read where it is tried: in place, or with jumps over its
// positions.
PlanOfRow plan_of_row;
// A session for a plan, which asks for the time before each chunk. NULL with the reason.
SessionConfig timed_config(Check *check, const RopePlan *plan, int context);
Session *open_timed(Check *check, const RopePlan *plan, int context, Error *err);
// A session for the row's units. NULL with the reason when there is no memory.
Session *open_for(Check *check, const Row *row, Error *err);
// Bytes of the session that reads a text of `length` tokens whole.
double whole_bytes(const Check *check, int length);
// Tokens of a text with a key.
int key_tokens(const Check *check);

bool has_bos(const Check *check);
// Copies n tokens that begin with the text's id number `start`, behind BOS in the first one's
// place, if there is one.
void take_text(const Check *check, size_t start, int n, int32_t *text);
// The i-th of n places in an order in which each beginning is spread over the whole: 0, n/2, n/4,
// 3n/4, ... (van der Corput's, 1935).
int spread_order(int i, int n);
// The first id of the u-th of n texts of `length` tokens, which are spread over all of the text.
size_t start_of(const Check *check, int u, int n, int length);
// -ln p of the second half of stretch u, by a session for `window` tokens.
bool score_stretch(Check *check, Session *s, int u, double *nll, Error *err);
// The same by the reference, which reads each stretch once. NULL when it is too late.
const double *reference_scores(Check *check, int u, Error *err);
// A sample for each `size` of n differences between two readings, and for what is left of them; the
// same for the usual size.
void add_samples(Samples *s, const double *these, const double *those, int n, int size);
void add_differences(Samples *s, const double *these, const double *those, int n);

// Adds words behind those that are there.
void add_words(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// How a row was read, behind a comma; "": in place.
const char *how_it_was_read(const Check *check, const Row *row);
// The limit that was failed, or, where nothing is decided, both.
DescribeRow describe_limit;
// What a ratio of perplexities is of, and by what: how often it is as large. The same of texts
// within the trained context, which another reading is beside.
void describe_times(const Check *check, const Row *row, const char *what, const char *by, char *out,
                    size_t size);
void describe_beside(const Check *check, const Row *row, const char *by, char *out, size_t size);

// ---- the rows, each in its own file ----

extern const RowType short_perplexity_row, short_texts_row, jumps_row, base_row, steps_row;
extern const RowType whole_text_row, jump_keys_row, whole_keys_row, page_row, cache_row;
extern const RowType like_row, conversion_row;

// check_texts.c: whether so high a perplexity of a short text suggests that the model was wrongly
// converted.
bool is_suspicious(const Check *check, const Row *short_perplexity);

// check_worth.c: what of a cache is rounded, with the name of its row.
typedef struct {
    const char *row;
    KvType keys, values;
} CachePart;
enum { Q8_KEYS, Q8_VALUES, Q8_CACHE, Q4_KEYS, Q4_VALUES, Q4_CACHE, N_CACHE_PARTS };
extern const CachePart cache_parts[N_CACHE_PARTS];
// Whether a part of the cache is told: where the cache is not rounded, all are.
bool asks_for_part(const Check *check, int part);
// Mean and standard error of the samples of a part.
void tell_part(const Row *row, int part, double *mean, double *error);

// check_like.c: opens the other model that reads the same text, and its tokenizer. NULL with the
// reason.
Likeness *like_open(const Job *job, const char *path, Error *err);
void like_close(Likeness *like);

// ---- check_verdict.c: what a length needs to hold, and what is known of that ----

enum { MAX_NEEDS = MAX_LENGTHS + 12 };

typedef struct {
    RowKind kind;
    int length;
} Need;

// The rows that a length needs, in the order in which they are read: those about the length itself
// and short texts first. Returns their number.
int needs_of(const Check *check, int length, Need needs[MAX_NEEDS]);
// Whether the row is about what lies between, or about a whole text: it is read when nothing failed
// before.
bool is_further(const Check *check, Need need, int length);

// The row's number. -1: nothing has been read for it.
int find_row(const Check *check, RowKind kind, int length);
// What is known of a need. BETWEEN: all that the text has was read, and it is not decided.
Verdict verdict_of_need(const Check *check, Need need);
// What --check says of a length, with the same settings and text: OK, FAIL, OPEN or BETWEEN.
Verdict verdict_at(const Check *check, int length);

// The budget for what should take so many seconds more, rounded up to two digits.
double budget_for(const Check *check, double seconds);

// Says what came out for -n in a last line, and with --json as the reason of the status. Returns the
// answer.
Answer say_verdict(Check *check);
// The same where only settings were judged.
Answer say_of_settings(Check *check);
