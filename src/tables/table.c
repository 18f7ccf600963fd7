// Prints tables with tabs, or draws them.
#define _DEFAULT_SOURCE
#include "table.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../fast/process.h"

// How a cell is highlighted: with a color, or with a sign if the table has no color.
typedef struct {
    const char *code, *sign;
} Style;
static const Style PLAIN = {"", ""}, BOLD = {"\033[1m", ""}, DIM = {"\033[2m", ""},
                   RED = {"\033[31m", "!"};
static const Style YELLOW = {"\033[33m", ""}, INVERSE = {"\033[1;7m", ""};
static const Style ON_RED = {"\033[30;41m", " ."}, ON_YELLOW = {"\033[30;43m", " +"},
                   ON_GREEN = {"\033[30;42m", " #"};

enum { MAX_WORDS = 4096, NAME_WIDTH = 13, CELL_WIDTH = 6, LONG_NAME = 10 };

static bool can_move(int file) {
    const char *term = getenv("TERM");
    return isatty(file) && term && term[0] && strcmp(term, "dumb") != 0;
}

Table table_open(TableForm form) {
    const char *no_color = getenv("NO_COLOR");
    struct winsize size;
    bool eyes = !form.tsv && !form.json && isatty(STDOUT_FILENO);
    bool known =
        ioctl(eyes ? STDOUT_FILENO : STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20;
    return (Table){.json = form.json,
                   .eyes = eyes,
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

// Writes a cell of `width` columns (negative: left-aligned), on the next line if this one has no
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

// ---- names and cells ----

bool next_cell(const char **rest, const char *separator, char *cell, int capacity) {
    if (!*rest) return false;
    int length = (int)strcspn(*rest, separator);
    snprintf(cell, (size_t)capacity, "%.*s", length, *rest);
    *rest = (*rest)[length] ? *rest + length + 1 : NULL;
    return true;
}

// Adds the name of a column. A long one is broken at its first `_` into two lines.
static void add_column(Table *t, const char *name) {
    if (t->n_names == MAX_CELLS) return;
    char(*lines)[MAX_COLUMN_NAME] = t->names[t->n_names++];
    size_t first = strlen(name) > LONG_NAME ? strcspn(name, "_") : 0;
    bool is_broken = first > 0 && name[first];
    snprintf(lines[0], sizeof lines[0], "%.*s", is_broken ? (int)first : 0, name);
    snprintf(lines[1], sizeof lines[1], "%s", name + (is_broken ? first + 1 : 0));
}

Cell words_cell(const char *words) {
    Cell cell = {.is_number = false};
    snprintf(cell.text, sizeof cell.text, "%s", words);
    return cell;
}

Cell number_cell(const char *format, double number) {
    Cell cell = {.is_number = true, .number = number};
    snprintf(cell.text, sizeof cell.text, format, number);
    return cell;
}

static void add_cell(Cells *row, const Cell *cell) {
    if (row->n < MAX_CELLS) row->cells[row->n++] = *cell;
}

// ---- drawing ----

// Draws a row, after the names of its columns if they have not been drawn yet.
static void draw_row(Table *t, const Cells *row) {
    struct {
        char text[MAX_CELL];
        int width;  // below 0: the text begins at the left
        Style style;
    } drawn[MAX_CELLS];
    const TableKind kind = t->shape.kind;
    const int n = row->n < t->n_names ? row->n : t->n_names;
    double within = 0;  // the last perplexity up to the trained length
    for (int i = 0; i < n; i++) {
        const Cell *cell = &row->cells[i];
        const char(*name)[MAX_COLUMN_NAME] = t->names[i];
        int width = strcmp(name[1], "verdict") == 0 ? (int)strlen("too long") : CELL_WIDTH;
        if ((int)strlen(name[0]) > width) width = (int)strlen(name[0]);
        if ((int)strlen(name[1]) > width) width = (int)strlen(name[1]);
        width += kind == PERPLEXITIES;
        if (!cell->is_number) width = i == 0 && width < NAME_WIDTH ? -NAME_WIDTH : -width;

        const double x = cell->number;
        const bool is_whole = cell->text[strcspn(cell->text, ".en")] == '\0';
        const char *format = t->exact || is_whole ? NULL : fabs(x) < 1 ? "%.3g" : "%.4g";
        Style style = PLAIN;
        if (cell->is_number && kind == ACCURACIES) {
            style = x < 0.25 ? ON_RED : x < 0.75 ? ON_YELLOW : ON_GREEN;
            format = "%.2f";
        } else if (cell->is_number && kind == PERPLEXITIES) {
            // Past the trained length, by their ratio to the last one within it.
            const int position = atoi(name[1]);
            if (position > 0 && position <= t->train_ctx) within = x;
            const double times = position > t->train_ctx && within > 0 ? x / within : 1;
            style = times < 1.25 ? PLAIN : times < 1.5 ? YELLOW : RED;
            format = "%#.4g";
        } else if (kind == LIST && strcmp(cell->text, "fail") == 0) {
            style = RED;
        }
        const size_t size = sizeof drawn[i].text;
        char *text = drawn[i].text;
        if (cell->is_number && kind == LIST && x != x) snprintf(text, size, "-");
        else if (cell->is_number && format) snprintf(text, size, format, x);
        else snprintf(text, size, "%s", cell->text);
        if (kind != LIST && !t->color) strncat(text, style.sign, size - strlen(text) - 1);
        drawn[i].width = width;
        drawn[i].style = style;
    }

    // Lines 0 and 1 have the names of the columns, line 2 the cells.
    bool in_two = false;
    for (int i = 0; i < t->n_names; i++) in_two = in_two || t->names[i][0][0];
    for (int line = t->headed ? 2 : in_two ? 0 : 1; line <= 2; line++) {
        for (int i = 0; i < n; i++) {
            if (line < 2) put_cell(t, t->names[i][line], drawn[i].width, BOLD);
            else put_cell(t, drawn[i].text, drawn[i].width, drawn[i].style);
            const bool is_long = strlen(row->cells[i].text) > NAME_WIDTH;
            const bool is_above = is_long && (kind != LIST || t->name_above);
            if (line < 2 || i > 0 || !is_above) continue;
            end_line(t);  // below a long name, its cells are in their columns
            put_cell(t, "", -NAME_WIDTH, PLAIN);
        }
        end_line(t);
    }
    t->headed = true;
}

static void draw_line(Table *t) {
    if (t->line.n > 0) draw_row(t, &t->line);
    t->line.n = 0;
}

// Collects the value of a row for a line of a matrix, and draws that line when a row of the next
// line comes. The last row of a method's perplexities has the same end as the row before it, and is
// the total.
static void draw_cell(Table *t) {
    const Cell *cells = t->row.cells;
    char block[MAX_BLOCK] = "";
    const Cell *line = &cells[t->shape.line], *label = &cells[t->shape.label];
    for (int i = 0; i < t->shape.line; i++) add_name(block, sizeof block, ", ", cells[i].text);
    bool other_block = strcmp(block, t->block) != 0;
    if (other_block || strcmp(line->text, t->line.cells->text) != 0) draw_line(t);
    if (other_block) {
        t->headed = false;
        put_cell(t, block, -1, BOLD);
        end_line(t);
    }
    snprintf(t->block, sizeof t->block, "%s", block);
    if (t->line.n == 0) {
        t->n_names = 0;
        add_column(t, t->shape.kind == ACCURACIES ? "length, depth" : "ppl below");
        Cell first = words_cell(line->text);
        add_cell(&t->line, &first);
    }
    bool again = strcmp(t->names[t->n_names - 1][1], label->text) == 0;
    add_column(t, again ? "all" : label->text);
    add_cell(&t->line, &cells[t->shape.value]);
}

// ---- the functions of table.h ----

static void put_note(Table *t, const char *key, const char *value, JsonType type) {
    char both[MAX_WORDS];
    snprintf(both, sizeof both, "%s%s %.200s", t->at > 0 ? "| " : "", key, value);
    if (t->json) json_put_member(t->json, key, value, type);
    else if (t->eyes) put_cell(t, both, 1, t->headed ? INVERSE : DIM);
    else printf("# %s%c%s\n", key, strchr(key, ' ') ? ' ' : '\t', value);
}

void table_note(Table *t, const char *key, const char *format, ...) {
    char text[MAX_WORDS];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put_note(t, key, text, JSON_STRING);
}

void table_note_number(Table *t, const char *key, const char *format, ...) {
    char text[MAX_CELL];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put_note(t, key, text, JSON_NUMBER);
}

void table_note_unknown(Table *t, const char *key) { put_note(t, key, "-", JSON_NULL); }

void table_reason(Table *t, const char *code, const char *words) {
    if (t->json) json_reason(t->json, code, words);
}

void table_verdict(Table *t, const char *code, const char *format, ...) {
    char text[MAX_WORDS];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    table_end(t);
    if (t->json) table_reason(t, code, text);
    else if (t->eyes) put_cell(t, text, -1, INVERSE);
    else printf("# %s\n", text);
    table_end(t);
}

void table_columns(Table *t, TableShape shape, const char *columns) {
    char name[2 * MAX_COLUMN_NAME];
    t->shape = shape;
    t->n_names = 0;
    end_line(t);
    if (t->json) json_begin_rows(t->json);
    else if (!t->eyes) printf("%s\n", columns);
    while (next_cell(&columns, "\t", name, sizeof name)) add_column(t, name);
}

// Writes a cell as a member of the row's JSON object, named after its column.
static void write_json_cell(Table *t, const Cell *cell) {
    const JsonType type = cell->is_unknown  ? JSON_NULL
                          : cell->is_number ? JSON_NUMBER
                                            : JSON_STRING;
    char name[2 * MAX_COLUMN_NAME];
    int column = t->row.n;
    if (column >= t->n_names) return;
    const char *first = t->names[column][0];
    snprintf(name, sizeof name, "%s%s%s", first, first[0] ? "_" : "", t->names[column][1]);
    json_put_cell(t->json, name, cell->text, type);
}

void table_cell(Table *t, const Cell *cell) {
    if (t->json) write_json_cell(t, cell);
    else if (!t->eyes) printf("%s%s", t->row.n > 0 ? "\t" : "", cell->text);
    add_cell(&t->row, cell);
}

void table_words(Table *t, const char *words) {
    const Cell cell = words_cell(words);
    table_cell(t, &cell);
}

void table_number(Table *t, const char *format, double number) {
    table_number_if(t, true, format, number);
}

void table_unknown(Table *t) {
    const Cell cell = {.text = "-", .is_unknown = true};
    table_cell(t, &cell);
}

void table_number_if(Table *t, bool is_known, const char *format, double number) {
    if (!is_known) {
        table_unknown(t);
        return;
    }
    const Cell cell = number_cell(format, number);
    table_cell(t, &cell);
}

void table_end_row(Table *t) {
    clear_bar(t);
    if (t->json) json_end_row(t->json);
    else if (!t->eyes) printf("\n");
    else if (t->shape.kind != LIST) draw_cell(t);
    else draw_row(t, &t->row);
    t->row.n = 0;
}

void table_remark(Table *t, const char *words) {
    char word[MAX_CELL];
    if (!t->eyes) return;
    end_line(t);
    t->at = printf("  ");  // indented like the continuation of a line
    while (next_cell(&words, " ", word, sizeof word)) put_cell(t, word, 1, DIM);
    end_line(t);
}

void table_end(Table *t) {
    clear_bar(t);
    draw_line(t);
    end_line(t);
    fflush(stdout);
}
