// Tables on standard output: drawn at a terminal, with tabs or as JSON for other programs; and a
// progress bar.
#pragma once

#include "../job/json_out.h"

enum { MAX_BLOCK = 176, MAX_CELL = 512, MAX_CELLS = 40, MAX_COLUMN_NAME = 32 };

// How rows are drawn: one line for each row, or as a matrix, to which each row adds one number. The
// kind of the matrix decides its colors.
typedef enum { LIST, PERPLEXITIES, ACCURACIES } TableKind;
typedef struct {
    TableKind kind;
    // For a matrix, the columns of a row that have the name of its line, the name of its place in
    // the line, and the number. The columns before `line` form a heading above the lines that share
    // them.
    int line, label, value;
} TableShape;
static const TableShape as_list = {LIST, 0, 0, 0};

// The value in one column of a row.
typedef struct {
    char text[MAX_CELL];  // as in a pipe; longer text is cut off
    double number;
    bool is_number;
    bool is_unknown;  // drawn as a dash, null in JSON
} Cell;

typedef struct {
    Cell cells[MAX_CELLS];
    int n;
} Cells;

// A table that is being written. It owns no memory.
typedef struct {
    TableShape shape;
    JsonOut *json;            // NULL: the table is not printed as JSON
    int train_ctx;            // a matrix of perplexities highlights the jump past it; 0: not known
    bool eyes, color, moves;  // drawn; in color; standard error can overwrite a line
    bool apart;               // standard error goes elsewhere than the table, so it shows no bar
    int width, at;            // columns of the terminal, and of the current line so far
    bool bar;                 // the bar is shown
    double start, shown;      // seconds: when the table was opened, and when the bar was last drawn
    bool exact;               // numbers are drawn with all their digits
    bool name_above;          // a name that does not fit in its column is on a line of its own
    char names[MAX_CELLS][2][MAX_COLUMN_NAME];  // of the columns, in two lines each
    int n_names;
    bool headed;  // the names have been drawn above the current line
    Cells row;    // the row that is being filled
    // The line of a matrix that is being collected, and its block of lines.
    Cells line;
    char block[MAX_BLOCK];
} Table;

// Opens a table. It is drawn if standard output is a terminal, unless `form` is given, and in color
// unless TERM=dumb or NO_COLOR is set.
Table table_open(TableForm form);

// Prints `# key<TAB>value` above or below the table, with a space in place of the tab if the key
// has several words. In a drawn table, notes follow one another on a line: dim above the table, and
// inverse below it, where the verdict is. In JSON the value is a string.
void table_note(Table *table, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Prints a note with a number, which is also a number in JSON.
void table_note_number(Table *table, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Prints a note for a value that does not exist: '-', and null in JSON.
void table_note_unknown(Table *table, const char *key);

// Ends the table with its verdict on a line of its own: `# line` for other programs. In JSON it is
// the reason for the exit status, next to its short name.
void table_verdict(Table *table, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Writes the reason for the exit status into the JSON, for tables without a verdict.
void table_reason(Table *table, const char *code, const char *words);

// Sets the names of the columns, between tabs.
void table_columns(Table *table, TableShape shape, const char *columns);

Cell words_cell(const char *words);
// A cell with a number, printed with `format`, which takes a double. Drawn tables round it.
Cell number_cell(const char *format, double number);

// Adds the next cell to the row.
void table_cell(Table *table, const Cell *cell);
void table_words(Table *table, const char *words);
void table_number(Table *table, const char *format, double number);
// Adds a number, or '-' if it is not known.
void table_number_if(Table *table, bool is_known, const char *format, double number);
void table_unknown(Table *table);

// Ends a row. Rows that belong to the same line of a matrix must follow one another.
void table_end_row(Table *table);

// Prints a remark below a row of a drawn table, for details that would make its rows too long.
void table_remark(Table *table, const char *words);

// Ends the table, or interrupts it before a message on standard error: draws the last line of a
// matrix, and clears the bar.
void table_end(Table *table);

// Shows the share `done` of the work, a few times a second, if standard error is a terminal.
void table_progress(Table *table, const char *name, double done);

// Moves the next of the cells between separators from *rest to `cell`. False at the end, when *rest
// is NULL.
bool next_cell(const char **rest, const char *separator, char *cell, int capacity);
