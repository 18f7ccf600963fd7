// --ppl, and the functions that all measuring jobs share: headings, windows of a text, scores, one
// method after the other. Tables go to standard output. Functions that fail return false or NULL
// with the reason.
#pragma once

#include "../job/job.h"
#include "../tables/table.h"

// ---- the job ----

// Prints the perplexity by position of windows of job->length positions of job->ids, by each plan.
RunJob measure_perplexity;

// ---- shared by jobs ----

// The lines that every table begins with: `what` and the model, the length, how it is read.
void print_heading(const Job *job, Table *table, const char *what);

// Prints the model's steps beyond a Llama's, the bytes of its cache for a token and for job->length
// positions, and the reasons why that is less than keys and values of each head in each layer.
void note_model(Table *t, const Job *job);

// The numbers of a kind's layers, as "0-4 6-10".
void list_layers(const ConfigLayers *layers, int kind, char *list, size_t capacity);

// Notes which layers of a config are of which kind.
void note_layers(Table *t, const ConfigLayers *layers);

// The text of a token on one line, cut where it is longer; bytes that cannot be shown are as C
// spells them.
enum { MAX_SPELLED = 256 };
void spell(const char *piece, size_t n, char *out, size_t capacity);

// ---- windows of a text ----

// A window is job->length positions: BOS, if there is one, and ids of the text. Returns the number
// of these ids.
size_t window_ids(const Job *job);
// Fills window (job->length) with the i-th of n stretches that are spread evenly over the text.
void fill_window(const Job *job, int i, int n, int32_t *window);

// ---- scores: how badly a session predicts a text ----

// Tokens [from, to) of a text, 0 < from. They are read as part of a text of `length` tokens by
// then, or (0) one by one.
typedef struct {
    const int32_t *ids;
    int from, to;
    int length;
} Span;

// nll[p - from] = -ln p(ids[p]) for p in [from, to). The session first reads the ids before that it
// lacks, as part of a text of that length. False with the reason.
bool score_span(Session *s, Span span, double *nll, Error *err);

// As score_span, of a span whose id number 0 comes after all that the session has read, whatever
// that is.
bool score_behind(Session *s, Span span, double *nll, Error *err);

// ---- the cache ----

// Bytes of the cache that a token at this position reads: in each layer, of the positions that its
// window shows.
double cache_bytes_read(const Job *job, KvType kv, double positions);

// ---- methods in turn ----

// The method whose turn it is.
typedef struct {
    const Job *job;
    Table *table;  // NULL: it has none
    const RopePlan *plan;
    Session *session;  // for job->length tokens, nothing read yet
    int part;          // its number in job->plans
} Method;

// Does a method's part of the work, `whose` being the worker's own. False with the reason.
typedef bool MeasureMethod(void *whose, Method *method, Error *err);

typedef struct {
    const char *what;     // is measured, for the heading
    const char *columns;  // of the table, between tabs
    TableShape shape;
    int samples;          // windows of the text, for the heading; 0: it says nothing of them
    void (*note)(void *whose, Table *table);  // adds lines to the heading; NULL: there are none
    MeasureMethod *measure;
    void (*end)(void *whose, Table *table);  // adds lines below the rows; NULL: there are none
    void *whose;
} MethodsTable;

// Prints heading and columns, then measures each of the job's methods. Before that it tries the
// memory for each. Results are printed at once, and stay there after Ctrl-C.
bool measure_methods(const Job *job, const MethodsTable *methods, Error *err);

// Shows the share `done` of a method's work.
void show_progress(const Method *method, double done);
