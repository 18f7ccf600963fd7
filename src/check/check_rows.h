// The rows of --check: what is known of each, when it is decided, and what its files have for one
// another. check.c has the order of rows and says which file is which.
#pragma once

#include "../measure/measure.h"

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
    // The length is past the file's own context, and no angle would be new there: only reading tells.
    bool says_nothing;
} SettingsFound;

// Judges the settings for a text of `length` positions, and prints a row for each, but for a reach
// that is not far enough. `own` is the plan of the model's own settings. Without a table it prints
// nothing.
void judge_settings(const Job *job, const RopePlan *own, int length, Table *table,
                    SettingsFound *found);

// Prints the row of a reach that is not far enough, with its verdict.
void print_reach(const SettingsFound *found, int length, const char *verdict, Table *table);

// ---- rows and a check ----

enum {
    SHORTEST = 16,        // positions that a check needs
    MOST_WINDOW = 512,    // tokens of a stretch of text
    MOST_STRETCHES = 48,  // of a text that are read, spread over all of it
    MOST_HALF = 1024,     // tokens of a stretch of a long text, and before it
    WINDOW_TIMES = 4,     // as long as whole texts may be what is read through a window,
    CALIBRATED = 3,       // which was held against whole texts at so many lengths
    CACHE_WINDOW = 256,   // tokens of a stretch, at least, for the row about the cache
    MAX_LENGTHS = 32,
    MAX_ROWS = 8 * MAX_LENGTHS,
    MOST_OTHERS = 12,    // readings that a row tells apart
    LEAST_SAMPLES = 12,  // that decide at SURE; fewer ones are judged by Student's t
    MOST_HIDDEN = 4 * MAX_LENGTHS,
};
// What a row lacks.
static const char LACKS_MEMORY[] = "more memory", LACKS_TEXT[] = "another text";
static const double SURE = 3.5;  // standard errors between a value and its limit that decide

// A sample is a mean over some neighboring tokens, which depend on each other.
typedef struct {
    int n;
    double mean, squares;  // of all samples; sum of squared differences from it
} Samples;

// OPEN: not decided. UNABLE: the model cannot do this in a short text either.
typedef enum { FAIL, OK, UNABLE, OPEN } Verdict;

typedef struct RowType RowType;

typedef struct {
    const RowType *type;
    int length;       // positions
    int units;        // stretches, texts or keys that were read
    Samples samples;  // of all units
    // One for each other reading of which the row judges the one that says most; for keys
    // found [FOUND_LONG] in texts of the length and [FOUND_SHORT] in short ones.
    Samples others[MOST_OTHERS];
    int other;                   // the one of them that the value is of
    double value, error, limit;  // error: one standard error of the value
    double seconds;              // that its units took
    Verdict verdict;
    const char *lacks;  // what it needs to be decided; NULL: time
    bool printed;
} Row;

typedef struct Likeness Likeness;        // see check_like.c
typedef struct LongReading LongReading;  // see check_long.h

enum { PLAIN_ROPE, FILES_OWN, SMALLER_BASE, LARGER_BASE, N_REFERENCES };  // plans for short texts

// A check.
//
// 1. A row's verdict follows from the model, the settings, the length and the text alone. Its units
//    are read in a fixed order, and it is decided at the first unit at which it can be. Time only
//    decides how many units are read, and how long the texts are that are read whole.
// 2. What is decided is final: no unit is read afterwards.
// 3. The verdict on the model is `no` as soon as one row fails, and `yes` when all that it needs
//    are ok. So more time turns `undecided` into yes or no, and nothing else into anything.
// 4. ids, lengths, the window and the stretches are fixed before the first row, the reference by
//    the first row.
// 5. scores[u] is NULL until stretch u is first needed, and does not change then.
// 6. per_token, per_step, deep and chunk change with every reading. They steer time and nothing that
//    is printed as a value.
typedef struct {
    const Job *job;
    Table table;
    // Time, in seconds.
    double start, budget;  // from the first token on; INFINITY: as long as it takes
    double per_token;      // at the beginning of a text, the slowest of late
    double per_step;       // of one token by itself
    double deep;           // by how much more for each token before it
    double logits;         // by how much more where its logits are asked for
    int chunk;             // tokens between two looks at the clock
    bool late;             // a reading was given up
    bool is_hopeful;       // what takes up to twice the time that is left is begun, too
    char doing[40];        // what progress is shown of
    // Texts.
    int lengths[MAX_LENGTHS], n_lengths;  // rising, to -n; the first one is a short text
    int half;                             // tokens of a scored stretch of a long text
    int before;                           // it, which the reference reads alone
    int32_t *ids;                         // (n_ids) of the text, without BOS
    size_t n_ids, n_given;  // n_given: as given; after them come the story and plain English
    bool is_strange;        // the tokenizer was not made for the text
    int window;             // tokens of a stretch, within the trained context
    int n_stretches;        // that the text has
    RopePlan references[N_REFERENCES];
    Session *reference;  // by the plan that reads short texts best
    int reference_is;    // PLAIN_ROPE or FILES_OWN
    Session *tried;      // by the job's plan, for a stretch; NULL: not opened yet
    LongReading *long_reading;
    const char *like_path;  // of another model; NULL: there is none
    Likeness *like;
    // (window / 2) -ln p of the second half of each stretch by the reference; NULL: not read yet.
    double *scores[MOST_STRETCHES];
    // Verdicts.
    Row rows[MAX_ROWS];
    int n_rows;
    SettingsFound settings;  // of -n
    bool whole;              // see CheckOptions
    double max_cache;        // likewise
} Check;

// Prints a row's line under a name. For rows that print more than one.
typedef void PrintRow(Check *check, const Row *row, const char *name);

// A kind of row: what it needs, costs, reads and judges, and what it found in words.
struct RowType {
    const char *name;  // as printed
    const char *how;   // its text was read, for words; NULL: in place
    // Whether the check asks for it at this length; NULL: always.
    bool (*is_wanted)(const Check *check, int length);
    int first;  // units that are read before the other rows have had their turn
    int units;  // that are read at most; 0: as many as the text has stretches
    int (*most)(const Check *check, const Row *row);  // in their place; NULL: these
    // Seconds that its next unit should take; NULL: none, another row has read what it needs.
    double (*seconds)(const Check *check, const Row *row);
    int usual;  // units that decide most rows
    // Reads the row's next unit and adds its samples. False with the reason, or when it was too
    // late. What lacks memory sets `lacks` and returns true.
    bool (*read)(Check *check, Row *row, Error *err);
    // NULL: by the ratio of two perplexities, of the row or the worst of its n_others.
    void (*judge)(const Check *check, Row *row);
    double limit;  // of that ratio
    int n_others;
    bool ends_unknown;  // open with all units read, it says nothing about the model
    void (*describe)(const Check *check, const Row *row, char *out, size_t size);
    void (*print)(Check *check, const Row *row, PrintRow *line);  // its lines; NULL: the usual one
    bool is_required;     // a length does not hold while it is open
    bool is_about_model;  // it fails at any length, and nothing is said to hold
    bool is_about_time;   // its units show how fast the model reads
    // Its limit is one that may not be exceeded, or (false) that is only told.
    bool (*has_limit)(const Row *row);
    void (*add_worth)(const Check *check, const Row *row, char *out, size_t size);  // to a yes
};

// Whether nothing more can be read for the row.
static inline bool is_settled(const Row *row) { return row->verdict != OPEN || row->lacks; }

// ---- check_rows.c: what rows share ----

// The row of the type at that length. NULL: nothing was read for it.
const Row *find_row(const Check *check, const RowType *type, int length);

void add_sample(Samples *samples, double x);
double standard_error(const Samples *samples);
// OK or FAIL when a value is so many of its errors below or above its limit.
Verdict decide(double value, double error, double limit);
// The standard errors that decide for so many samples.
double sure_of(int samples);
// Wald's test (1945): the share of units that a healthy model gets right, the most that a broken one does,
// and how often the verdict may be wrong.
typedef struct {
    double healthy, broken, wrong;
} ShareTest;
// OK or FAIL once the samples (1: right, 0: wrong) are so much likelier by the one share than by the other.
Verdict decide_share(const Samples *samples, const ShareTest *test);
// How many samples are right.
double n_right(const Samples *samples);
// Judges a row by the ratio of two perplexities, whose logarithm its samples have.
void judge_ratio(Row *row, double limit);

// Seconds since the first token was read.
double spent(const Check *check);
// Whether what should take so many seconds may be begun.
bool fits(const Check *check, double seconds);
// Seconds that tokens [from, to) of a text should take, the row's next stretch by the reference
// (which reads it once for all rows), and a stretch beside that.
double seconds_from_to(const Check *check, double from, double to);
double stretch_seconds(const Check *check);
// Seconds that the logits of so many tokens should take besides.
double logits_seconds(const Check *check, int tokens);
double reference_seconds(const Check *check, const Row *row);
double beside_seconds(const Check *check, const Row *row);
// Seconds that an open row should take until it is decided, by what is known of it.
double seconds_to_decide(const Check *check, const Row *row);
// When something takes longer than expected, later estimates grow as much. When it takes less, they
// shrink by half of it.
double changed_pace(double pace, double took, double expected);

// By a row's type: the units that it may read, the seconds that its next one should take, and its verdict.
int most_units(const Check *check, const Row *row);
double unit_seconds(const Check *check, const Row *row);
void judge_row(const Check *check, Row *row);
// Whether a text in place is read by the reference's own settings.
bool is_reference(const Check *check);

// The plan that is checked for a stretch, its pieces spread over the row's positions where these are
// more.
RopePlan spread_plan(const Check *check, const Row *row);
// A session for a plan, which asks for the time before each chunk. NULL with the reason.
SessionConfig timed_config(Check *check, const RopePlan *plan, int context);
Session *open_timed(Check *check, const RopePlan *plan, int context, Error *err);

bool has_bos(const Check *check);
// Copies n tokens that begin with the text's id number `start`, after BOS in the first one's place,
// if there is one.
void take_text(const Check *check, size_t start, int n, int32_t *text);
// The first id of stretch number u, which are spread over all of the text.
size_t start_of(const Check *check, int u);
// -ln p of the second half of stretch u, by a session for `window` tokens.
bool score_stretch(Check *check, Session *s, int u, double *nll, Error *err);
// The same by the reference, which reads each stretch once. NULL when it is too late.
const double *reference_scores(Check *check, int u, Error *err);
// Adds to s the mean of each `size` of the n differences these[i] - those[i], in order, and the
// mean of the fewer that are left at the end.
void add_differences(Samples *s, const double *these, const double *those, int n, int size);

// Adds words to those that are there.
void add_words(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Writes a ratio with its error: 1.02 +- 0.01, or as a range where the error is large.
void describe_ratio(const Row *row, char *out, size_t size);

// ---- the rows, each in its own file ----

// check_short.c
extern const RowType short_perplexity_row, short_texts_row, base_row, steps_row;
// Whether so high a perplexity of a short text suggests that the model was wrongly converted.
bool is_suspicious(const Check *check, const Row *short_perplexity);
extern const RowType cache_row;       // check_cache.c
extern const RowType conversion_row;  // check_conversion.c
// Whether a mistake is why the model knows next to nothing of a short text, as the row says.
bool mistake_tells(const Check *check, const Row *conversion);

// check_like.c
extern const RowType like_row;
// Opens the other model that reads the same text, and its tokenizer. NULL with the reason.
Likeness *like_open(const Job *job, const char *path, Error *err);
void like_close(Likeness *like);

extern const RowType keys_row, passkeys_row, first_keys_row;              // check_keys.c
extern const RowType key_words_row;                                       // check_key_words.c
extern const RowType window_row, window_perplexity_row, window_keys_row;  // check_window.c

// check_whole.c
extern const RowType perplexity_row;
// Lays the text out for all lengths, with keys in it. False with the reason.
bool long_prepare(Check *check, Error *err);
void long_free(Check *check);
// Bytes of the session that reads a text of `length` tokens whole.
double whole_bytes(const Check *check, int length);
// Seconds that it takes to read and judge a text of that length whole, from what has been read of it
// on; and through a window, with what calibrates it.
double whole_seconds(const Check *check, int length);
double window_seconds(const Check *check, int length);  // check_window.c
// Reads towards a length, and judges nothing yet. False with the reason.
bool long_advance(Check *check, int length, Error *err);
// Whether each length is read anew, since the method follows it.
bool follows_length(const Check *check);

// ---- check_start.c: what a check begins with ----

// Chooses the lengths, lays out the text, and measures how fast the model reads. False with the reason.
bool check_prepare(Check *check, Error *err);
// Measures how fast the model reads: one token, to have the weights in memory, another one, then
// pieces that double. check->late: the budget ended meanwhile.
bool measure_speed(Check *check, Error *err);

// ---- check_verdict.c: the last line ----

// What is known of a length: OK when all that it needs is.
Verdict verdict_at(const Check *check, int length);
// The budget for what should take so many seconds more, rounded up to two digits.
double budget_for(const Check *check, double seconds);
// Says what came out for -n in a last line, and with --json as the reason of the status. Returns the
// answer.
Answer say_verdict(Check *check);
// The same where only settings were judged.
Answer say_of_settings(Check *check);
