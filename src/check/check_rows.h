// The rows of --check: the state of each, when it is decided, and the functions that its files
// share. check.c has the order of rows and says which file is which.
#pragma once

#include <stdio.h>

#include "../measure/measure.h"

// ---- check_settings.c: the rows about settings ----

enum { FAILED_BYTES = 400 };

// The reach of the settings, before anything is read.
typedef struct {
    char failed[FAILED_BYTES];  // the words of the first row that fails; empty: none does
    const char *row;            // its name
    char other[FAILED_BYTES];   // differences from the file, judged by the text; empty: none
    bool at_any_length;         // one fails that would fail at any length
    // The positions that the settings are made for, and whether the length is past them. That alone
    // fails nothing that reading shows to hold.
    double reach;
    bool is_past_reach;
    char past_reach[FAILED_BYTES];  // the same in words
    // The length is past the file's own context, and no angle would be new there: only reading
    // tells.
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
    FIRST_RUNG = 256,     // tokens of the ladder's shortest text
    MOST_SCORED = 512,    // last tokens of its texts that are scored, or half of a short one
    CACHE_WINDOW = 256,   // tokens of a stretch, at least, for the row about the cache
    MAX_LENGTHS = 40,     // rungs of the ladder
    MAX_ROWS = 4 * MAX_LENGTHS,
    MOST_OTHERS = 12,    // readings that a row tells apart
    LEAST_SAMPLES = 12,  // that decide at SURE; fewer ones are judged by Student's t
};
// The reason why a row is open: it waits for its turn, or needs more memory, another text, or more
// effort.
typedef enum { NEEDS_NOTHING, NEEDS_MEMORY, NEEDS_TEXT, NEEDS_EFFORT } Needs;
static const double SURE = 3.5;  // standard errors between a value and its limit that decide

// A sample is a mean over some neighboring tokens, which depend on each other.
typedef struct {
    int n;
    double mean, squares;  // of all samples; sum of squared differences from it
} Samples;

// OPEN: not decided. UNABLE: it says nothing about the model.
typedef enum { FAIL, OK, UNABLE, OPEN } Verdict;

// A ratio of perplexities: up to the first a model is healthy, and from the second on it is broken.
// Between them either may be said; the limit is the middle.
typedef struct {
    double healthy, broken;
} Limits;

typedef struct RowType RowType;

typedef struct {
    const RowType *type;
    int length;       // positions
    int beside;       // the length that it is compared with, where there is one
    int units;        // stretches, texts or keys that were read
    Samples samples;  // of all units
    // One for each other reading of which the row judges the one that says most.
    Samples others[MOST_OTHERS];
    int other;                   // the one of them that the value is of
    double value, error, limit;  // error: one standard error of the value
    double tokens;               // that its units read
    Verdict verdict;
    Needs needs;
    bool printed;
} Row;

typedef struct Likeness Likeness;  // see check_like.c
typedef struct Saved Saved;        // see check_saved.c
typedef struct Keys Keys;          // see check_facts.h
typedef struct Ladder Ladder;      // see check_ladder.c

enum { PLAIN_ROPE, FILES_OWN, SMALLER_BASE, LARGER_BASE, N_REFERENCES };  // plans for short texts

// The conclusion about a length: a short name for programs, and the last line.
typedef struct {
    Answer answer;
    char code[40], words[1000];
    bool is_past_trained;  // texts past the trained length were read, and failed
} Conclusion;

// A check.
//
// 1. A row's verdict follows from the model, the settings, the length, the text and the effort alone.
//    Its units are read in a fixed order, and it is decided at the first unit at which it can be. The
//    effort bounds their number, in no unit of time, so that all machines say the same. A budget of
//    seconds only ends the reading, and the rows that are then open stay undecided.
// 2. A decision is final: no unit is read afterwards.
// 3. The verdict on the model is `no` as soon as one row fails, and `yes` when all that it needs
//    are ok.
// 4. ids, lengths, the window and the stretches are fixed before the first row, the reference by
//    the first row.
// 5. scores[u] is NULL until stretch u is first needed, and does not change then.
typedef struct {
    const Job *job;
    Table table;
    // Work and time.
    double effort;         // how many times as many units as usual a row may read
    double tokens;         // that were read,
    double planned;        // and that are usually enough
    double start, budget;  // seconds; INFINITY: as long as it takes
    bool late;             // a reading was given up
    char doing[40];        // the subject of the shown progress
    // Texts.
    int lengths[MAX_LENGTHS], n_lengths;  // the rungs, rising, to -n
    int32_t *ids;                         // (n_ids) without BOS: plain English, story, user's text
    size_t n_ids, n_given;                // the last n_given of them are the text to read
    bool is_strange;                      // the tokenizer was not made for the text
    int window;                           // tokens of a stretch, within the trained length
    int n_stretches;                      // that the text has
    RopePlan references[N_REFERENCES];
    Session *reference;  // by the plan that reads short texts best
    int reference_is;    // PLAIN_ROPE or FILES_OWN
    Ladder *ladder;
    Keys *keys;
    const char *like_path;  // of another model; NULL: there is none
    Likeness *like;
    Saved *saved;  // readings to compare with; NULL: there are none
    // (window / 2) -ln p of the second half of each stretch by the reference; NULL: not read yet.
    double *scores[MOST_STRETCHES];
    // Verdicts.
    Row rows[MAX_ROWS];
    int n_rows;
    SettingsFound settings;  // of -n
    double max_cache;        // see CheckOptions
    double most_cost;        // likewise
    Conclusion conclusion;
} Check;

// Prints a row's line under a name. For rows that print more than one.
typedef void PrintRow(Check *check, const Row *row, const char *name);

// A kind of row: its needs, its reading, its judgment, and its words for the result.
struct RowType {
    const char *name;  // as printed
    // Whether the check asks for it at this length; NULL: always.
    bool (*is_wanted)(const Check *check, int length);
    int units;  // that are read at most, times the effort; 0: as many as the text has stretches
    int (*most)(const Check *check, const Row *row);  // that there are; NULL: any number
    int (*tokens)(const Check *check, int length);    // of the units that decide most rows
    // Reads the row's next unit and adds its samples. False with the reason, or when it was too
    // late. A unit that needs more memory sets `needs` and returns true.
    bool (*read)(Check *check, Row *row, Error *err);
    // NULL: by the ratio of two perplexities, of the row or the worst of its n_others.
    void (*judge)(const Check *check, Row *row);
    Limits limits;  // of that ratio
    int n_others;
    bool ends_unknown;  // open with all units read, it says nothing about the model
    // In words, the failure.
    void (*describe)(const Check *check, const Row *row, char *out, size_t size);
    void (*print)(Check *check, const Row *row, PrintRow *line);  // its lines; NULL: the usual one
    bool is_share;        // its value is a share that is to be above the limit
    bool is_required;     // a length does not hold while it is open
    bool is_about_model;  // it fails at any length, and nothing is said to hold
    // Its limit is one that may not be exceeded, or (false) that is only told.
    bool (*has_limit)(const Row *row);
    void (*add_remark)(const Check *check, const Row *row, char *out, size_t size);  // to a yes
};

// Whether nothing more can be read for the row.
static inline bool is_finished(const Row *row) { return row->verdict != OPEN || row->needs; }

// ---- check_rows.c: shared by all rows ----

// The row of the type at that length. NULL: nothing was read for it.
const Row *find_row(const Check *check, const RowType *type, int length);

void add_sample(Samples *samples, double x);
double standard_error(const Samples *samples);
// OK or FAIL when a value is so many of its errors below or above its limit.
Verdict decide(double value, double error, double limit);
// The standard errors that decide for so many samples.
double sure_of(int samples);
// Wald's test (1945): the share of units that a healthy model gets right, the most that a broken
// one does, and how often the verdict may be wrong.
typedef struct {
    double healthy, broken, wrong;
} ShareTest;
// The test's sum: ln of how much likelier a healthy model is to have such samples (1: right, 0:
// wrong).
double evidence(const Samples *samples, const ShareTest *test);
// OK or FAIL once the samples, with the evidence before them, are so much likelier by the one share
// than by the other.
Verdict decide_share(const Samples *samples, double before, const ShareTest *test);
// How many samples are right.
double n_right(const Samples *samples);
// Judges a row by the ratio of two perplexities, whose logarithm its samples have. A ratio that is
// surely below `broken` or above `healthy` counts as the nearer of the two.
void judge_ratio(Row *row, Limits limits);

// Seconds since the check began.
double spent(const Check *check);

// By a row's type: the units that it may read, and its verdict.
int most_units(const Check *check, const Row *row);
void judge_row(const Check *check, Row *row);
// Whether a text in place is read by the reference's own settings.
bool is_reference(const Check *check);

// The plan that is checked for a stretch, its pieces spread over the row's positions where these
// are more.
RopePlan spread_plan(const Check *check, const Row *row);
// A session for a plan, which is given up when the budget ends. NULL with the reason.
SessionConfig timed_config(Check *check, const RopePlan *plan, int context);
Session *open_timed(Check *check, const RopePlan *plan, int context, Error *err);
// Opens it if it is not open. Without memory for it the row needs that, and it returns NULL.
Session *open_long(Check *check, Session **session, const RopePlan *plan, int length, Row *row);
// Whether the angles of a text follow its length.
bool follows_length(const Check *check);

bool has_bos(const Check *check);
// Copies n tokens that begin with the given text's id number `start`, after BOS in the first one's
// place, if there is one.
void take_text(const Check *check, size_t start, int n, int32_t *text);
// Copies n tokens, BOS among them, that end before id number `end` of the given text. Where the
// text is too short, the story, or plain English, comes before it.
void take_before(const Check *check, size_t end, int n, int32_t *text);
// The tokens that are scored of a text of the ladder of that length: its last ones.
int scored_of(int length);
// The i-th of n places in an order in which each beginning is spread over the whole: 0, n/2, n/4,
// 3n/4, ... (van der Corput's, 1935).
int spread_order(int i, int n);
// The first id of stretch number u, which are spread over all of the text.
size_t start_of(const Check *check, int u);
// nll of the span, whose tokens are counted, by a session that begins anew. False with the reason.
bool score_anew(Check *check, Session *s, Span span, double *nll, Error *err);
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
extern const RowType short_perplexity_row, base_row, steps_row;
// Whether so high a perplexity of a short text suggests that the model was wrongly converted.
bool is_suspicious(const Check *check, const Row *short_perplexity);
extern const RowType cache_row;       // check_cache.c
extern const RowType conversion_row;  // check_conversion.c
// Whether a mistake is why the model knows next to nothing of a short text, as the row says.
bool mistake_tells(const Check *check, const Row *conversion);

// check_like.c
extern const RowType like_row, like_bytes_row;
// Opens the other model that reads the same text, and its tokenizer. NULL with the reason.
Likeness *like_open(const Job *job, const char *path, Error *err);
void like_close(Likeness *like);

// check_ladder.c
extern const RowType perplexity_row, cost_row, attention_row;
// The lengths of the rungs, and where texts end. False with the reason.
void choose_rungs(Check *check);
bool ladder_prepare(Check *check, Error *err);
void ladder_free(Check *check);
// Bytes of the session that reads a text of `length` tokens.
double whole_bytes(const Check *check, int length);
// Copies text number u of the ladder of that length, and how many such texts there are.
void ladder_text(const Check *check, int length, int u, int32_t *text);
int n_samples(const Check *check);
int all_samples(const Check *check, const Row *row);
// The scores of the same text by the tried settings, or NULL: not read. The second function reads
// it: NULL with the reason, or if the row needs memory.
const double *ladder_scores(const Check *check, int length, int u);
const double *ladder_read(Check *check, int length, int u, Row *row, Error *err);
// Takes over nll (scored_of the length) of text number u, read by the tried settings.
void ladder_keep(Check *check, int length, int u, double *nll);
// The longest rung within the reach of settings.
int longest_within(const Check *check, const RopeConfig *rope);

// check_facts.c
extern const RowType facts_row;
bool keys_prepare(Check *check, Error *err);
void keys_free(Check *check);
// The ladder's first text of -n (its ids, BOS among them), of which the shorter ones are the end,
// where facts are hidden in it; NULL: they are not.
const int32_t *text_with_facts(const Check *check);
// The positions of a session for a text of that length, with those of questions about its facts.
int facts_context(const Check *check, int length);
// Asks for the facts of that text, once, after the session has read it. False with the reason.
bool ask_shared_facts(Check *check, Session *s, Error *err);

// check_keys.c
extern const RowType passkeys_row, first_passkeys_row;
// Whether nothing is found in the first tokens of a text of that length.
bool misses_first_tokens(const Check *check, int length);

// ---- check_start.c: the beginning of a check ----

// Chooses the lengths and lays out the text. False with the reason.
bool check_prepare(Check *check, Error *err);

// ---- check_saved.c: readings in a file ----

extern const RowType saved_row;
// Opens one. NULL with the reason, also where it is of another text, tokenizer, effort or length.
Saved *saved_open(const Check *check, const char *path, Error *err);
void saved_close(Saved *saved);
// Adds the readings of a length to a file that is begun with the first one. False with the reason.
bool save_readings(const Check *check, FILE *file, bool is_first);

// ---- check_junit.c: a report for build servers ----

// Writes the conclusions (n) as a file of JUnit: a no is a failure, and undecided is skipped.
// False with the reason.
bool write_junit(const char *path, const char *model, const Check *check,
                 const Conclusion *conclusions, const int *lengths, int n, Error *err);

// ---- check_verdict.c: the last line ----

// The state of a length: OK when all rows that it needs are.
Verdict verdict_at(const Check *check, int length);
// Whether a length below one that fails may be said to hold.
bool may_hold_shorter(const Check *check);
// Puts the conclusion about -n into check->conclusion. Returns the answer.
Answer say_verdict(Check *check);
// The same where only settings were judged.
Answer say_of_settings(Check *check);
