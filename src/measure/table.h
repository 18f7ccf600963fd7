// Tables on standard output: between tabs for tools, or drawn for eyes at a terminal, and the bar that shows progress.
#pragma once

#include <stdbool.h>

enum { MAX_BLOCK = 176, MAX_LINE = 2048 };

// How eyes see a table: its rows as a list, or a cell of each as a matrix.
typedef enum { SHAPE_LIST, SHAPE_PERPLEXITY, SHAPE_ACCURACY } TableShape;

// A table that is being written. It has nothing to free.
typedef struct {
    TableShape shape;         // follows from the columns
    int train_ctx;            // a matrix of perplexities marks the jump past it; 0: not known
    bool eyes, color, moves;  // drawn; in color; standard error is a terminal that can take a line back
    int width, at;            // columns of the terminal, and where the line at hand stands
    bool bar;                 // one is shown
    double start, shown;      // seconds: when the table was opened, and when the bar changed
    char names[MAX_LINE];     // of the columns, between tabs
    bool headed;              // they stand above the line at hand
    // The line of a matrix that is being collected: where it stands, and its cells between tabs.
    char block[MAX_BLOCK], line[MAX_BLOCK], row[MAX_LINE];
} Table;

// A table that is drawn if standard output is a terminal and `tsv` is false. Color is for terminals other than
// TERM=dumb, unless NO_COLOR is set (no-color.org).
Table table_open(bool tsv);

// A line `# key<TAB>value` above the table or below it, of a key of several words `# key value`; eyes see all of these
// in a row: dim above, and below, where the verdict stands, the brightest of all.
void table_note(Table *table, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));

// The names of the columns, between tabs. Eyes see perplexities and accuracies as a matrix, anything else as a list.
void table_columns(Table *table, const char *columns);

// A row, its cells between tabs with all the digits that tools want, of which eyes are shown three or four. Rows of one
// line of a matrix come one after another.
void table_row(Table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Ends the table, or the rows so far, which something on standard error will be about: the last line of a matrix is
// drawn, and the bar goes.
void table_end(Table *table);

// Shows, a few times a second and only where standard error is a terminal, that the share `done` of the work is done.
void table_progress(Table *table, const char *name, double done);

// Takes the next of the words between separators off *rest, which is NULL at the end: false there.
bool next_cell(const char **rest, const char *separator, char *cell, int capacity);
