// What the files about a long text have for one another: check_facts.c hides facts in it, check_whole.c
// reads it whole, check_keys.c asks for the facts, check_window.c reads it through a window.
#pragma once

#include "../tasks/asking.h"
#include "check_rows.h"

enum {
    FACTS_A_DOUBLING = 4,  // are hidden between a length and twice as much, at most
    FACT_TOKENS = 200,     // of a fact, its question and its answer, at most
};

typedef struct {
    int fact;      // its number
    int from, to;  // its tokens in the text
} Hidden;

struct LongReading {
    int32_t *text;    // (length of -n)
    uint8_t *is_key;  // (length of -n) of each token: it belongs to a hidden fact
    Hidden hidden[MOST_HIDDEN];
    int n_hidden;
    RopePlan plan, window_plan;  // what the sessions point to
    Session *whole, *windowed;   // NULL: not opened
    Session *pairs;              // by the reference, for 2 half tokens
    Session *passkeys;           // for single keys in texts of passkey_length
    Asking *keys;
    int passkey_length;
    // (half) -ln p of each length's last stretch, read whole, and by the reference after its own last
    // tokens; NULL: not yet
    double *nll[MAX_LENGTHS], *short_nll[MAX_LENGTHS];
};

// ---- check_facts.c ----

// The words before a fact's number, and the number: five digits.
const char *fact_words(int fact);
int fact_value(int fact);
// The ids (*n) of a part of a text, without BOS, which the caller frees. NULL with the reason.
int32_t *encode_words(const Check *check, const char *text, size_t *n, Error *err);
// Lays out the text between two lengths from *n on, with facts in it. *taken ids of the check's text
// are used. False with the reason.
bool hide_between(Check *check, int low, int high, int *n, size_t *taken, Error *err);

// ---- check_whole.c ----

// Opens a session for the text, if it is not open yet. Without memory for it the row lacks that, and
// it returns NULL.
Session *open_long(Check *check, Session **session, const RopePlan *plan, int length, Row *row);
Session *whole_session(Check *check, Row *row);
// Positions after -n that sessions have for questions.
int room_for_questions(const Check *check);
// Has the session read the tokens before number `end`, as part of a text of `length`. A method that
// follows the length reads all of them anew, and so does a model that keeps states. False with the
// reason.
bool read_up_to(Check *check, Session *s, int end, int length, Error *err);
// From where a session has to read towards `end`.
int read_before(const Check *check, const Session *s, int end);
// Seconds that the reference's reading of a stretch should take, and the questions after a text.
double pair_seconds(const Check *check);
double question_seconds(const Check *check, int length);

// The number of a length in check->lengths, and whether it is longer than the first, a short text.
int length_number(const Check *check, int length);
bool is_long(const Check *check, int length);
// Adds the differences of a stretch [from, from + half) of the text between two readings, without
// its keys.
void add_stretch(const Check *check, Samples *samples, int from, const double *these,
                 const double *those);
// nll (half) of the stretch [from, from + half) of a text by the reference, after as many tokens
// before it alone. False with the reason.
bool score_pair(Check *check, const int32_t *text, int from, double *nll, Error *err);
// Judges a perplexity by the limits, which are multiplied by what the built-in story's later pages
// gain at that length, and widened by how far its logarithm may be off.
void judge_limits(const Check *check, Row *row, double off);
void describe_perplexity(const Check *check, const Row *row, char *out, size_t size);

// ---- check_keys.c ----

// Asks for the facts of a text of the row's length that the session has read, on branches of its
// cache, and for those that count in short texts, too, where many are missed. False with the reason.
bool ask_and_compare(Check *check, Session *s, Row *row, Error *err);
void judge_keys(const Check *check, Row *row);
// The share of facts that are found in short texts, by the row of keys.
double facts_in_short(const Row *keys);
void describe_keys(const Check *check, const Row *row, char *out, size_t size);
