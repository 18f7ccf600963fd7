// Tables for tools and for eyes. A row comes as tools have it; what eyes see is made from that.
#define _DEFAULT_SOURCE
#include "table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char BOLD[] = "\033[1m", DIM[] = "\033[2m", RED[] = "\033[31m", YELLOW[] = "\033[33m";
static const char ON_RED[] = "\033[30;41m", ON_YELLOW[] = "\033[30;43m", ON_GREEN[] = "\033[30;42m";

enum { MAX_ROW = 4096, NAME_WIDTH = 13, CELL_WIDTH = 6, LONG_NAME = 10 };

static bool can_move(int file) {
    const char *term = getenv("TERM");
    return isatty(file) && term && term[0] && strcmp(term, "dumb") != 0;
}

static int terminal_width(int file) {
    struct winsize size;
    return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 ? size.ws_col : 80;
}

Table table_open(TableShape shape, int train_ctx, bool tsv) {
    const char *no_color = getenv("NO_COLOR");
    bool eyes = !tsv && isatty(STDOUT_FILENO);
    return (Table){.shape = shape,
                   .train_ctx = train_ctx,
                   .eyes = eyes,
                   .colour = eyes && can_move(STDOUT_FILENO) && !(no_color && no_color[0]),
                   .moves = can_move(STDERR_FILENO),
                   .width = terminal_width(eyes ? STDOUT_FILENO : STDERR_FILENO)};
}

// ---- the bar --------------------------------------------------------------------------------------------------------

static void clear_bar(Table *t) {
    if (t->bar) fprintf(stderr, "\r%*s\r", t->width - 1, "");
    t->bar = false;
}

void table_bar(Table *t, const char *text) {
    if (!t->moves) return;
    fflush(stdout);
    fprintf(stderr, "\r%-*.*s", t->width - 1, t->width - 1, text);
    t->bar = true;
}

// ---- lines ----------------------------------------------------------------------------------------------------------

static void end_line(Table *t) {
    if (t->at > 0) putchar('\n');
    t->at = 0;
}

// Writes one cell, `width` columns wide (below 0: from the left), `code` its colour. One for which the line has no room
// goes to the next.
static void put_cell(Table *t, const char *text, int width, const char *code) {
    int least = (int)strlen(text), taken = abs(width) > least ? abs(width) : least;
    if (t->at > 0 && t->at + 1 + taken > t->width) {
        end_line(t);
        t->at = printf("  ");
    }
    if (t->at > 0) t->at += printf(" ");
    bool coloured = t->colour && code[0];
    printf("%s%*s%s", coloured ? code : "", width, text, coloured ? "\033[0m" : "");
    t->at += taken;
}

// Three or four digits of a number that is not whole; anything else stays. True when it is a number.
static bool shorten(const char *cell, char *out, int capacity) {
    char *end;
    double x = strtod(cell, &end);
    bool number = end > cell && *end == '\0', whole = cell[strcspn(cell, ".en")] == '\0';
    if (number && x != x) snprintf(out, capacity, "-");
    else if (number && !whole) snprintf(out, capacity, x < 1 && x > -1 ? "%.3g" : "%.4g", x);
    else snprintf(out, capacity, "%s", cell);
    return number;
}

// The next of the cells between tabs, or NULL; cuts them apart.
static char *next_cell(char **rest) {
    char *cell = *rest, *tab = cell ? strchr(cell, '\t') : NULL;
    if (tab) *tab = '\0';
    *rest = tab ? tab + 1 : NULL;
    return cell;
}

// ---- a list ---------------------------------------------------------------------------------------------------------

// The two lines of a column's name: a long one is broken at its first `_`.
static int split_name(const char *name, const char *parts[2], char *out, int capacity) {
    snprintf(out, (size_t)capacity, "%.*s", capacity - 1, name);
    char *at = strlen(name) > LONG_NAME ? strchr(out, '_') : NULL;
    parts[0] = at ? out : "";
    parts[1] = at ? at + 1 : out;
    if (at) *at = '\0';
    size_t width = strlen(parts[0]) > strlen(parts[1]) ? strlen(parts[0]) : strlen(parts[1]);
    return width > CELL_WIDTH ? (int)width : CELL_WIDTH;
}

// Line 0 or 1 of the names, or, with line 2, the cells of a row, whose kinds say on which side names stand.
static void put_list(Table *t, const char *row, int line) {
    char names[256], cells[MAX_ROW], name[64], shown[MAX_ROW], *rest_names = names, *rest = cells, *at, *text;
    snprintf(names, sizeof names, "%s", t->columns);
    snprintf(cells, sizeof cells, "%s", row);
    for (int i = 0; (at = next_cell(&rest_names)) && (text = next_cell(&rest)); i++) {
        const char *parts[2];
        int width = split_name(at, parts, name, sizeof name);
        bool number = shorten(text, shown, sizeof shown);
        if (!number) width = i == 0 && width < NAME_WIDTH ? -NAME_WIDTH : -width;
        bool fails = line == 2 && strcmp(text, "fail") == 0;
        put_cell(t, line < 2 ? parts[line] : shown, width, line < 2 ? BOLD : fails ? RED : "");
    }
    end_line(t);
}

static bool has_long_name(const char *columns) {
    for (const char *at = columns; *at; at += strcspn(at, "\t"), at += *at == '\t')
        if (strcspn(at, "\t") > LONG_NAME && memchr(at, '_', strcspn(at, "\t"))) return true;
    return false;
}

// ---- a matrix -------------------------------------------------------------------------------------------------------

// What stands out: a perplexity past the trained context against the last one within, an accuracy by itself.
static const char *code_of(const Table *t, int i, double within) {
    double value = t->cells[i].value, times = value / within;
    if (t->shape == SHAPE_ACCURACY) return value < 0.25 ? ON_RED : value < 0.75 ? ON_YELLOW : ON_GREEN;
    bool past = within > 0 && atoi(t->cells[i].label) > t->train_ctx;
    return !past || times < 1.25 ? "" : times < 1.5 ? YELLOW : RED;
}

// Without colour a sign says the same.
static const char *sign_of(const Table *t, const char *code) {
    if (t->colour) return "";
    return code == RED ? "!" : code == ON_RED ? " ." : code == ON_YELLOW ? " +" : code == ON_GREEN ? " #" : "";
}

// Writes the line that was collected, below the names of its columns when they are not those above it.
static void draw_line(Table *t, bool headed) {
    char text[40];
    double within = 0;
    bool accuracy = t->shape == SHAPE_ACCURACY;
    int width = accuracy ? 6 : 7;
    if (t->n_cells == 0) return;
    if (!headed && accuracy) put_cell(t, t->group, -1, BOLD);
    end_line(t);
    if (!headed) put_cell(t, accuracy ? "length, depth" : "ppl below", -NAME_WIDTH, BOLD);
    for (int i = 0; !headed && i < t->n_cells; i++) put_cell(t, t->cells[i].label, width, BOLD);
    end_line(t);
    put_cell(t, t->name, -NAME_WIDTH, "");
    if (strlen(t->name) > NAME_WIDTH) end_line(t);  // its cells stand below it, in their columns
    if (t->at == 0) put_cell(t, "", -NAME_WIDTH, "");
    for (int i = 0; i < t->n_cells; i++) {
        if (atoi(t->cells[i].label) <= t->train_ctx && atoi(t->cells[i].label) > 0) within = t->cells[i].value;
        const char *code = code_of(t, i, within);
        snprintf(text, sizeof text - 2, accuracy ? "%.2f" : "%#.4g", t->cells[i].value);
        strcat(text, sign_of(t, code));
        put_cell(t, text, width, code);
    }
    end_line(t);
    fflush(stdout);
    t->n_cells = 0;
    t->begun++;
}

// Takes in a row as a cell of the line, which is written when a row of another line comes.
static void draw_cell(Table *t, const char *row) {
    char copy[MAX_ROW], group[sizeof t->group] = "", name[sizeof t->name], *rest = copy, *at, *c[8] = {"", "", ""};
    int n = 0;
    snprintf(copy, sizeof copy, "%s", row);
    while (n < 8 && (at = next_cell(&rest))) c[n++] = at;
    bool accuracy = t->shape == SHAPE_ACCURACY;
    int method = accuracy ? n - 6 : 0;
    if (accuracy) snprintf(group, sizeof group, "%s%s%s", method ? c[0] : "", method ? ", " : "", c[method]);
    snprintf(name, sizeof name, "%s", c[method + accuracy]);
    bool other = strcmp(group, t->group) != 0;
    if (t->n_cells == MAX_CELLS || other || strcmp(name, t->name) != 0) {
        draw_line(t, t->headed);
        t->headed = t->begun > 0 && !other;
        snprintf(t->group, sizeof t->group, "%s", group);
        snprintf(t->name, sizeof t->name, "%s", name);
    }
    // The last row of a perplexity is over all positions.
    bool all = !accuracy && t->n_cells > 0 && strcmp(c[1], "1") == 0;
    snprintf(t->cells[t->n_cells].label, sizeof t->cells->label, "%s", all ? "all" : c[2 + method]);
    t->cells[t->n_cells++].value = atof(c[method + 5]);
}

// ---- what tools see -------------------------------------------------------------------------------------------------

void table_note(Table *t, const char *key, const char *format, ...) {
    char text[MAX_ROW], both[MAX_ROW];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!t->eyes) {
        printf("# %s%c%s\n", key, strchr(key, ' ') ? ' ' : '\t', text);
        return;
    }
    snprintf(both, sizeof both, "%s%s %.200s", t->at > 0 ? "| " : "", key, text);
    put_cell(t, both, 1, DIM);
}

void table_columns(Table *t, const char *columns) {
    t->columns = columns;
    if (t->eyes) end_line(t);
    else printf("%s\n", columns);
}

void table_row(Table *t, const char *format, ...) {
    char row[MAX_ROW];
    va_list args;
    va_start(args, format);
    vsnprintf(row, sizeof row, format, args);
    va_end(args);
    clear_bar(t);
    if (!t->eyes) printf("%s\n", row);
    else if (t->shape != SHAPE_LIST) draw_cell(t, row);
    else {
        for (int line = t->begun++ > 0 ? 2 : has_long_name(t->columns) ? 0 : 1; line < 3; line++)
            put_list(t, row, line);
    }
}

void table_end(Table *t) {
    clear_bar(t);
    if (t->eyes && t->shape != SHAPE_LIST) draw_line(t, t->headed);
    if (t->eyes) end_line(t);
    t->headed = t->begun > 0;
    fflush(stdout);
}

void table_remark(Table *t, const char *format, ...) {
    va_list args;
    table_end(t);
    fprintf(stderr, "run: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}
