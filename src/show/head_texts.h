// Texts that reveal the targets of heads' attention: prompts that hide a key and ask for it, a page
// that is repeated, prose, or the user's prompt; and statistics of all heads on them.
#pragma once

#include "../job/job.h"

enum {
    N_KEY_TEXTS = 8,  // prompts with a key, half of them with many keys
    N_COPIES = 2,     // texts of a page and its copy
    N_PROSE = 2,      // stretches of the story
    MOST_TEXTS = N_KEY_TEXTS + N_COPIES + N_PROSE,
    TEXT_QUERIES = 8,     // of copies and prose; a prompt with a key has one, the last token of the
                          // question
    MOST_SPANS = 4,       // places of the answer
    TRAINED_TEXT = 1024,  // tokens of a text within the trained length, at most
    DEPTH = 1,            // of N_DEPTHS, for hidden numbers: a quarter into the text
    FIRST_KEYS = 4,       // keys that get much weight for no reason of their own (arXiv 2309.17453)
};

typedef enum { NUMBER_TEXT, COPY_TEXT, PROSE_TEXT, OWN_TEXT, N_TEXT_KINDS } TextKind;

// A text, and the numbers of the tokens whose queries are examined.
typedef struct {
    TextKind kind;
    int32_t *ids;
    int n;
    int queries[2 * TEXT_QUERIES], n_queries;  // in rising order
    int spans[MOST_SPANS], n_spans;            // beginnings of the answer, in a prompt with a key
    int answer;                                // its number of tokens
    int page;                                  // in a copy: the distance back to the same token
} HeadText;

typedef struct {
    HeadText texts[MOST_TEXTS];
    int n, length;  // of the longest one
} HeadTexts;

// Makes the texts of one length: prompts with keys, and (`all`) copies and prose. Lengths that are
// too short for a key have none. The caller calls head_texts_free, even after an error. False with
// the reason.
bool head_texts_make(HeadTexts *texts, const Job *job, int length, bool all, Error *err);
// Takes only the user's prompt, whose last queries are examined.
bool head_texts_own(HeadTexts *texts, const Job *job, Error *err);
void head_texts_free(HeadTexts *texts);

// ---- statistics of heads ----

// A mean over queries, or over texts, with its standard error.
typedef struct {
    int n;
    double sum, squares;
} Mean;
void mean_add(Mean *mean, double x);
double mean_of(const Mean *mean);
double error_of(const Mean *mean);

// Shares of a head's weight. In prose, and in the user's prompt: on the last `near` positions, on
// the first keys, and on all others. In copies: on the token after the previous occurrence; in the
// user's prompt, on the tokens after all previous occurrences. In prompts with a key: on the
// answer. KEYS_SPREAD is the number of keys that weights spread over in prose, e to the power of
// their entropy.
typedef enum { NEAR_SHARE, FIRST_SHARE, FAR_SHARE, AFTER_SHARE, KEY_SHARE, KEYS_SPREAD, N_SHARES } Share;

typedef struct {
    int n_layers, n_heads, near;
    Mean (*of_heads)[N_SHARES];  // (n_layers, n_heads)
} Survey;

bool survey_open(Survey *survey, const Model *model, int near, Error *err);
void survey_close(Survey *survey);

// Reads the texts in a session with room for the longest, and adds up the shares of all heads.
// False with the reason.
bool survey_texts(Survey *survey, const HeadTexts *texts, Session *session, Error *err);
// Reads one text and adds its shares, in the same way.
bool survey_text(Survey *survey, const HeadText *text, Session *session, Error *err);

// The kind of a head, in words: key, induction, near, first, far, several of them joined with +. A
// kind needs at least eight queries and two standard errors; "-": none.
void name_head(const Survey *survey, int layer, int head, char *name, size_t size);
// Whether a share of a head exceeds `least` by two standard errors.
bool is_surely(const Mean *mean, double least);

static inline const Mean *share_of(const Survey *s, int layer, int head, Share share) {
    return &s->of_heads[layer * s->n_heads + head][share];
}

// ---- positions of such texts ----

// A plan in which a text of `length` tokens is part of a text of N positions: contiguous (`whole`),
// or with one jump in its middle, which moves its first half back as far as N allows.
RopePlan far_plan(const RopePlan *plan, int length, int n, bool whole);
