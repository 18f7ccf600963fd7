// Texts in which heads show what they look at: prompts that hide a key and ask for it, a page that is read twice,
// prose, or a prompt of the user's; and what all heads make of them.
#pragma once

#include "../job/job.h"

enum {
    N_KEY_TEXTS = 8,     // prompts with a key, half of them with one of many
    N_COPIES = 2,        // texts of a page and its copy
    N_PROSE = 2,         // stretches of the story
    MOST_TEXTS = N_KEY_TEXTS + N_COPIES + N_PROSE,
    TEXT_QUERIES = 8,    // of copies and prose; of a key's prompt the last token of the question
    MOST_SPANS = 4,      // places where the answer stands
    TRAINED_TEXT = 1024,   // tokens of a text that is read within the trained length, at most
    DEPTH = 1,           // of N_DEPTHS, of hidden numbers: a quarter into the text
    FIRST_KEYS = 4,      // keys on which much weight rests for no reason (arXiv 2309.17453)
};

typedef enum { NUMBER_TEXT, COPY_TEXT, PROSE_TEXT, OWN_TEXT, N_TEXT_KINDS } TextKind;

// A text, and the numbers of the tokens whose queries are looked at.
typedef struct {
    TextKind kind;
    int32_t *ids;
    int n;
    int queries[2 * TEXT_QUERIES], n_queries;  // they rise
    int spans[MOST_SPANS], n_spans;            // where the answer begins, of a key's prompt
    int answer;                                // its tokens
    int page;                                  // of a copy: how far back the same token stands
} HeadText;

typedef struct {
    HeadText texts[MOST_TEXTS];
    int n, length;  // of the longest one
} HeadTexts;

// Makes the texts of one length: prompts with keys, and (`all`) copies and prose. Lengths in which no
// key fits have none. The caller calls head_texts_free, also after an error. False with the reason.
bool head_texts_make(HeadTexts *texts, const Job *job, int length, bool all, Error *err);
// The prompt of the user's alone, whose last queries are looked at.
bool head_texts_own(HeadTexts *texts, const Job *job, Error *err);
void head_texts_free(HeadTexts *texts);

// ---- what heads look at ----

// A mean over queries, or over texts, with its standard error.
typedef struct {
    int n;
    double sum, squares;
} Mean;
void mean_add(Mean *mean, double x);
double mean_of(const Mean *mean);
double error_of(const Mean *mean);

// Shares of a head's weight: on the last `near` positions, on the first keys, on all others (those
// three: of prose, or of the user's prompt); in copies on the token after the same one, or in
// the user's prompt on all tokens after the same one; in prompts with a key, on the answer. And over
// how many keys weights spread, e to the power of their entropy, of prose.
typedef enum { NEAR_SHARE, FIRST_SHARE, FAR_SHARE, AFTER_SHARE, KEY_SHARE, KEYS_SPREAD, N_SHARES } Share;

typedef struct {
    int n_layers, n_heads, near;
    Mean (*of_heads)[N_SHARES];  // (n_layers, n_heads)
} Survey;

bool survey_open(Survey *survey, const Model *model, int near, Error *err);
void survey_close(Survey *survey);

// Reads the texts by a session with room for the longest, and adds up what all heads look at. False with
// the reason.
bool survey_texts(Survey *survey, const HeadTexts *texts, Session *session, Error *err);
// The same of one text.
bool survey_text(Survey *survey, const HeadText *text, Session *session, Error *err);

// What a head looks at, in words: key, induction, near, first, far, several of them with +. What at
// least eight queries do not show by two standard errors is not named; "-": nothing is.
void name_head(const Survey *survey, int layer, int head, char *name, size_t size);
// Whether a share of a head is more than `least`, by two standard errors.
bool is_surely(const Mean *mean, double least);

static inline const Mean *share_of(const Survey *s, int layer, int head, Share share) {
    return &s->of_heads[layer * s->n_heads + head][share];
}

// ---- where such texts stand ----

// A plan by which a text of `length` tokens is read as a part of one of N positions: whole, or with one
// jump in its middle, so that all of its first half is as far back as N is long.
RopePlan far_plan(const RopePlan *plan, int length, int n, bool whole);
