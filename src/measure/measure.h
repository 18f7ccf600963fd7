// What the jobs that measure share: headings, windows of a text, methods in turn. Tables go to
// standard output. What fails returns false or NULL with the reason.
#pragma once

#include "../job/job.h"
#include "table.h"

// The lines that every table begins with: `what` and the model, the length, how it is read.
void print_heading(const Job *job, Table *table, const char *what);

// The text of a token on one line, cut where it is longer; bytes that cannot be shown stand as C
// spells them.
enum { MAX_SPELLED = 256 };
void spell(const char *piece, size_t n, char *out, size_t capacity);

// ---- windows of a text ----

// A window is job->length positions: BOS, if there is one, and ids of the text. Returns the number
// of these ids.
size_t window_ids(const Job *job);
// Fills window (job->length) with the i-th of n stretches that are spread evenly over the text.
void fill_window(const Job *job, int i, int n, int32_t *window);

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
    int samples;          // windows of the text, for the heading; 0: it says nothing of them
    MeasureMethod *measure;
    void *whose;
} MethodsTable;

// Prints heading and columns, then measures each of the job's methods. Before that it tries the
// memory for each. What was measured is seen at once, and Ctrl-C leaves it there.
bool measure_methods(const Job *job, const MethodsTable *methods, Error *err);

// Shows the share `done` of a method's work.
void show_progress(const Method *method, double done);
