// Tables, with tabs or drawn.
#define _DEFAULT_SOURCE
#include "table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../fast/process.h"

// How a cell stands out: in color, or by a sign where there is none.
typedef struct {
    const char *code, *sign;
} Style;
static const Style PLAIN = {"", ""}, BOLD = {"\033[1m", ""}, DIM = {"\033[2m", ""},
                   RED = {"\033[31m", "!"};
static const Style YELLOW = {"\033[33m", ""}, INVERSE = {"\033[1;7m", ""};
static const Style ON_RED = {"\033[30;41m", " ."}, ON_YELLOW = {"\033[30;43m", " +"},
                   ON_GREEN = {"\033[30;42m", " #"};

enum { MAX_ROW = 4096, NAME_WIDTH = 13, CELL_WIDTH = 6, LONG_NAME = 10 };

static bool can_move(int file) {
    const char *term = getenv("TERM");
    return isatty(file) && term && term[0] && strcmp(term, "dumb") != 0;
}

Table table_open(bool tsv) {
    const char *no_color = getenv("NO_COLOR");
    struct winsize size;
    bool eyes = !tsv && isatty(STDOUT_FILENO);
    bool known =
        ioctl(eyes ? STDOUT_FILENO : STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20;
    return (Table){.eyes = eyes,
                   .color = eyes && can_move(STDOUT_FILENO) && !(no_color && no_color[0]),
                   .moves = can_move(STDERR_FILENO),
                   .apart = !can_move(STDERR_FILENO) && !(eyes && isatty(STDERR_FILENO)),
                   .width = known ? size.ws_col : 80,
                   .start = now_seconds()};
}

static void clear_bar(Table *t) {
    if (t->bar) fprintf(stderr, "\r%*s\r", t->width - 1, "");
    t->bar = false;
}

void table_progress(Table *t, const char *name, double done) {
    double now = now_seconds();
    double left = done > 0 ? (now - t->start) * (1 - done) / done : 0;
    int cells = t->width < 75 ? 10 : 30;
    int width = t->width - 1;
    char text[120];
    char bar[31] = "";
    if (!t->moves || now - t->shown < 0.2) return;
    for (int i = 0; i < cells; i++) bar[i] = done * cells > i ? '#' : '.';
    snprintf(text, sizeof text, "%-20.20s [%s] %3.0f%%  %4.0f s left", name, bar, 100 * done, left);
    fflush(stdout);
    fprintf(stderr, "\r%-*.*s", width, width, text);
    t->shown = now;
    t->bar = true;
}

static void end_line(Table *t) {
    if (t->at > 0) putchar('\n');
    t->at = 0;
}

// Writes a cell of `width` columns (below 0: from the left), on the next line when this one has no
// room for it.
static void put_cell(Table *t, const char *text, int width, Style style) {
    int least = (int)strlen(text);
    int taken = abs(width) > least ? abs(width) : least;
    if (t->at > 0 && t->at + 1 + taken > t->width) {
        end_line(t);
        t->at = printf("  ");
    }
    if (t->at > 0) t->at += printf(" ");
    bool colored = t->color && style.code[0];
    printf("%s%*s%s", colored ? style.code : "", width, text, colored ? "\033[0m" : "");
    t->at += taken;
}

// ---- drawing ----

bool next_cell(const char **rest, const char *separator, char *cell, int capacity) {
    if (!*rest) return false;
    int length = (int)strcspn(*rest, separator);
    snprintf(cell, (size_t)capacity, "%.*s", length, *rest);
    *rest = (*rest)[length] ? *rest + length + 1 : NULL;
    return true;
}

// Breaks a long name of a column at its first `_` into two lines. Returns the width of the column.
static int split_name(char *name, const char *parts[2]) {
    char *at = strlen(name) > LONG_NAME ? strchr(name, '_') : NULL;
    parts[0] = at ? name : "";
    parts[1] = at ? at + 1 : name;
    if (at) *at = '\0';
    size_t width = strlen(parts[0]) > strlen(parts[1]) ? strlen(parts[0]) : strlen(parts[1]);
    return width > CELL_WIDTH ? (int)width : CELL_WIDTH;
}

// Cuts a number that is not whole to three or four digits, makes NaN a dash, copies all else. True
// when it is a number.
static bool shorten(const Table *t, const char *cell, char *out, int capacity) {
    char *end;
    double x = strtod(cell, &end);
    bool number = end > cell && *end == '\0';
    bool whole = cell[strcspn(cell, ".en")] == '\0';
    if (number && x != x) snprintf(out, capacity, "-");
    else if (number && !whole && !t->exact)
        snprintf(out, capacity, x < 1 && x > -1 ? "%.3g" : "%.4g", x);
    else snprintf(out, capacity, "%s", cell);
    return number;
}

// Perplexities past the trained context stand out by their ratio to the last one within it,
// accuracies by their value.
static Style style_of(const Table *t, const char *label, double value, double *within) {
    int position = atoi(label);
    if (t->shape == SHAPE_ACCURACY)
        return value < 0.25 ? ON_RED : value < 0.75 ? ON_YELLOW : ON_GREEN;
    if (position > 0 && position <= t->train_ctx) *within = value;
    double times = position > t->train_ctx && *within > 0 ? value / *within : 1;
    return times < 1.25 ? PLAIN : times < 1.5 ? YELLOW : RED;
}

// Draws line 0 or 1 of the columns' names, or (2) the cells of a row. The names are aligned as the
// cells of `row` are.
// A number of a matrix, with the sign of its style where there is no colour.
static void show_value(const Table *t, double value, Style style, char *shown, size_t size) {
    const char *format = t->shape == SHAPE_ACCURACY ? "%.2f%s" : "%#.4g%s";
    snprintf(shown, size, format, value, t->color ? "" : style.sign);
}

static void put_line(Table *t, const char *row, int line) {
    bool is_list = t->shape == SHAPE_LIST;
    char name[64], cell[MAX_ROW], shown[MAX_ROW];
    const char *names = t->names;
    const char *parts[2];
    double within = 0;
    for (int i = 0;
         next_cell(&names, "\t", name, sizeof name) && next_cell(&row, "\t", cell, sizeof cell);
         i++) {
        int width = split_name(name, parts) + (t->shape == SHAPE_PERPLEXITY);
        bool is_text = !shorten(t, cell, shown, sizeof shown) || (i == 0 && !is_list);
        Style style = is_list && strcmp(cell, "fail") == 0 ? RED : PLAIN;
        if (is_text) width = i == 0 && width < NAME_WIDTH ? -NAME_WIDTH : -width;
        if (!is_list && !is_text) {
            double value = strtod(cell, NULL);
            style = style_of(t, name, value, &within);
            show_value(t, value, style, shown, sizeof shown);
        }
        put_cell(t, line < 2 ? parts[line] : shown, width, line < 2 ? BOLD : style);
        if (is_list || i > 0 || line < 2 || strlen(cell) <= NAME_WIDTH) continue;
        end_line(t);  // below a long name of a matrix, its cells stand in their columns
        put_cell(t, "", -NAME_WIDTH, PLAIN);
    }
    end_line(t);
}

// Draws a row, below the names of its columns when they are not there yet.
static void draw_row(Table *t, const char *row) {
    char name[64];
    const char *names = t->names;
    const char *parts[2] = {"", ""};
    while (!parts[0][0] && next_cell(&names, "\t", name, sizeof name)) split_name(name, parts);
    for (int line = t->headed ? 2 : parts[0][0] ? 0 : 1; line < 3; line++) put_line(t, row, line);
    t->headed = true;
}

static void draw_line(Table *t) {
    if (t->row[0]) draw_row(t, t->row);
    t->row[0] = '\0';
}

// Collects the value of a row for a line of a matrix, and draws that line when a row of another one
// comes. The last row of a method's perplexities ends where the one before it ends, and is about
// them all.
static void draw_cell(Table *t, const char *row) {
    char cells[8][MAX_BLOCK];
    char block[MAX_BLOCK] = "";
    int n = 0;
    while (n < 8 && next_cell(&row, "\t", cells[n], sizeof cells[n])) n++;
    // Line, label and value of: [task] method LENGTH DEPTH trials correct ACCURACY, METHOD from TO
    // tokens nll PPL se.
    bool by_depth = t->shape == SHAPE_ACCURACY;
    int label = n - (by_depth ? 4 : 5);
    int line = label - (by_depth ? 1 : 2);
    int value = label + 3;
    for (int i = 0; i < line; i++) add_name(block, sizeof block, ", ", cells[i]);
    bool other_block = strcmp(block, t->block) != 0;
    if (other_block || strcmp(cells[line], t->line) != 0) draw_line(t);
    if (other_block) {
        t->headed = false;
        put_cell(t, block, -1, BOLD);
        end_line(t);
    }
    if (!t->row[0]) {
        snprintf(t->names, sizeof t->names, "%s", by_depth ? "length, depth" : "ppl below");
        snprintf(t->row, sizeof t->row, "%s", cells[line]);
    }
    const char *last = strrchr(t->names, '\t');
    snprintf(t->block, sizeof t->block, "%s", block);
    snprintf(t->line, sizeof t->line, "%s", cells[line]);
    add_name(t->names, sizeof t->names, "\t",
             last && strcmp(last + 1, cells[label]) == 0 ? "all" : cells[label]);
    add_name(t->row, sizeof t->row, "\t", cells[value]);
}

// ---- what others call ----

void table_note(Table *t, const char *key, const char *format, ...) {
    char text[MAX_ROW], both[MAX_ROW];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(both, sizeof both, "%s%s %.200s", t->at > 0 ? "| " : "", key, text);
    if (t->eyes) put_cell(t, both, 1, t->headed ? INVERSE : DIM);
    else printf("# %s%c%s\n", key, strchr(key, ' ') ? ' ' : '\t', text);
}

void table_verdict(Table *t, const char *format, ...) {
    char text[MAX_ROW];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    table_end(t);
    if (t->eyes) put_cell(t, text, -1, INVERSE);
    else printf("# %s\n", text);
    table_end(t);
}

void table_columns(Table *t, const char *columns) {
    bool rates = strstr(columns, "\taccuracy");
    t->shape = rates ? SHAPE_ACCURACY : strstr(columns, "\tppl") ? SHAPE_PERPLEXITY : SHAPE_LIST;
    snprintf(t->names, sizeof t->names, "%s", columns);
    end_line(t);
    if (!t->eyes) printf("%s\n", columns);
}

void table_row(Table *t, const char *format, ...) {
    char row[MAX_ROW];
    va_list args;
    va_start(args, format);
    vsnprintf(row, sizeof row, format, args);
    va_end(args);
    clear_bar(t);
    if (!t->eyes) printf("%s\n", row);
    else if (t->shape) draw_cell(t, row);
    else draw_row(t, row);
}

void table_remark(Table *t, const char *words) {
    char word[MAX_ROW];
    if (!t->eyes) return;
    t->at = printf("  ");  // as where a line goes on
    while (next_cell(&words, " ", word, sizeof word)) put_cell(t, word, 1, DIM);
    end_line(t);
}

void table_end(Table *t) {
    clear_bar(t);
    draw_line(t);
    end_line(t);
    fflush(stdout);
}
