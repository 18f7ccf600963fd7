// Tables on standard output, drawn at a terminal, with tabs or as JSON for tools, and a progress
// bar.
#pragma once

#include "../job/json_out.h"

enum { MAX_BLOCK = 176, MAX_CELL = 512, MAX_CELLS = 40, MAX_COLUMN_NAME = 32 };

// How rows are drawn: each by itself, or one number of each in a matrix, by whose kind it is colored.
typedef enum { LIST, PERPLEXITIES, ACCURACIES } TableKind;
typedef struct {
    TableKind kind;
    // Of a matrix, columns of a row: what its line is called, what its place in the line is called,
    // and the number. Those before `line` are a heading, above the lines that have them in common.
    int line, label, value;
} TableShape;
static const TableShape as_list = {LIST, 0, 0, 0};

// What is in a column of a row.
typedef struct {
    char text[MAX_CELL];  // as in a pipe; longer words are cut
    double number;
    bool is_number;
    bool is_unknown;  // a dash, and null in JSON
} Cell;

typedef struct {
    Cell cells[MAX_CELLS];
    int n;
} Cells;

// A table that is being written. It has nothing to free.
typedef struct {
    TableShape shape;
    JsonOut *json;            // NULL: it does not come as JSON
    int train_ctx;            // a matrix of perplexities marks the jump past it; 0: not known
    bool eyes, color, moves;  // drawn; in color; standard error can take a line back
    bool apart;     // standard error is not seen among the rows of the table, and shows no bar
    int width, at;  // columns of the terminal, and where the line at hand is
    bool bar;       // is shown
    double start, shown;  // seconds: when the table was opened, and when the bar changed
    bool exact;           // numbers are drawn with all of their digits
    bool name_above;      // a name that its column has no room for is on a line of its own
    char names[MAX_CELLS][2][MAX_COLUMN_NAME];  // of the columns, in two lines
    int n_names;
    bool headed;  // they are above the line at hand
    Cells row;    // the one that is handed over
    // The line of a matrix that is being collected, and the block of lines that it is in.
    Cells line;
    char block[MAX_BLOCK];
} Table;

// A table that is drawn if standard output is a terminal and `form` says nothing else, in color
// unless TERM=dumb or NO_COLOR is set.
Table table_open(TableForm form);

// Prints `# key<TAB>value` above or below the table, with a space for the tab if the key has
// several words. When drawn, notes are in a row: dim above the table, and below it, where the
// verdict is, the brightest of all. In JSON the value is a string.
void table_note(Table *table, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// The same of one number, which is a number in JSON, too.
void table_note_number(Table *table, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// The same of a value that there is none of: '-', and null in JSON.
void table_note_unknown(Table *table, const char *key);

// Ends the table with a line of its own, what it all comes to: `# line` for tools. In JSON that is
// the reason of the exit status, beside its short name.
void table_verdict(Table *table, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// The reason of the exit status where no line says it.
void table_reason(Table *table, const char *code, const char *words);

// Sets the names of the columns, between tabs.
void table_columns(Table *table, TableShape shape, const char *columns);

Cell words_cell(const char *words);
// A number by `format`, which takes a double. Drawn numbers are cut.
Cell number_cell(const char *format, double number);

// Prints the next cell of a row.
void table_cell(Table *table, const Cell *cell);
void table_words(Table *table, const char *words);
void table_number(Table *table, const char *format, double number);
// A number, or '-' where it is not known.
void table_number_if(Table *table, bool is_known, const char *format, double number);
void table_unknown(Table *table);

// Ends a row. Rows of one line of a matrix must follow one another.
void table_end_row(Table *table);

// Prints words below a row, where the table is drawn: what would make its rows too long.
void table_remark(Table *table, const char *words);

// Ends the table, or the rows before a message on standard error: draws a matrix's last line, and
// clears the bar.
void table_end(Table *table);

// Shows the share `done` of the work, a few times a second and only where standard error is a
// terminal.
void table_progress(Table *table, const char *name, double done);

// Moves the next of the words between separators from *rest to `cell`. False at the end, where
// *rest is NULL.
bool next_cell(const char **rest, const char *separator, char *cell, int capacity);
