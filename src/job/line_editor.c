// The line editor: reads keys one by one, keeps the text and shows it. While it reads, the terminal
// passes every key on and brackets pasted text (ESC[?2004h, xterm's bracketed paste).
#define _DEFAULT_SOURCE
#include "line_editor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "../fast/process.h"
#include "../tokens/unicode.h"

enum {
    LOOK_ROUND = 200,  // ms without a key before the terminal's size and state are checked
    TAB_STOPS = 8,
    MOST_PAST = 1000,  // earlier lines that are kept
};

// Keys with Ctrl are letters without their upper bits.
enum { LETTER_BITS = 31, ESCAPE = 27, DELETE = 127 };

static const char paste_begins[] = "\033[200~";
static const char paste_ends[] = "\033[201~";

// The cursor's place, in rows and columns from the beginning of the label.
typedef struct {
    int row, column;
} Place;

struct LineEditor {
    FILE *screen;
    struct termios usual;  // the terminal's state outside line_editor_read
    bool is_raw;
    int columns;  // of the terminal
    const char *label;
    char *text;  // (length) the text so far; a NUL is added when it is returned
    size_t length, capacity, cursor;
    Place at;       // of the cursor, on the screen
    bool is_stale;  // the screen shows less than the text after the cursor
    char keys[4096];
    size_t next_key, n_keys;  // keys that are read but not processed yet
    char part[32];            // an escape sequence or a character that is not complete yet
    size_t n_part;
    bool in_paste, after_return;  // the last key may be the first of a CR and an LF
    char *past[MOST_PAST];        // (n_past) earlier lines
    int n_past, shown;            // shown: the number of the line that is being edited; n_past:
                                  // none of these
    char *draft;                  // the text before an earlier line was shown
};

// ---- the terminal ----

// The signal that ends the program while a line is read; 0: none. The terminal is restored first.
static volatile sig_atomic_t fatal_signal;

static void on_fatal(int number) { fatal_signal = number; }

static void catch_fatal(bool catches) {
    static const int numbers[] = {SIGHUP, SIGQUIT};
    for (int i = 0; i < 2; i++) {
        struct sigaction action = {.sa_handler = catches ? on_fatal : SIG_DFL};
        struct sigaction before;
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

static void measure_screen(LineEditor *e) {
    struct winsize size = {0};
    bool known = ioctl(fileno(e->screen), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    e->columns = known ? size.ws_col : 80;
}

static void begin_raw(LineEditor *e) {
    struct termios raw;
    if (tcgetattr(STDIN_FILENO, &raw) != 0) return;
    if (!e->is_raw) e->usual = raw;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR | IXON | ISTRIP);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    e->is_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
    fputs("\033[?2004h", e->screen);
}

static void end_raw(LineEditor *e) {
    if (!e->is_raw) return;
    fputs("\033[?2004l", e->screen);
    fflush(e->screen);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &e->usual);
    e->is_raw = false;
}

// ---- showing the text ----

// The columns that a character takes: 2 for East Asian characters and emoji.
static int width_of(uint32_t code) {
    static const uint32_t wide[][2] = {
        {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xA960, 0xA97F},
        {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
        {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF},
        {0x20000, 0x3FFFD},
    };
    // Marks that are written over the letter before them, in the most widespread of such scripts.
    static const uint32_t none[][2] = {
        {0x300, 0x36F},   {0x483, 0x489},   {0x591, 0x5BD},   {0x610, 0x61A},   {0x64B, 0x65F},
        {0x93A, 0x93A},   {0x93C, 0x93C},   {0x941, 0x948},   {0x94D, 0x94D},   {0xE31, 0xE31},
        {0xE34, 0xE3A},   {0xE47, 0xE4E},   {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F},
        {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF},
    };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (code >= none[i][0] && code <= none[i][1]) return 0;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (code >= wide[i][0] && code <= wide[i][1]) return 2;
    return 1;
}

// The place after a character of `width` columns. A full row ends.
static Place after(const LineEditor *e, Place at, int width) {
    if (at.column + width > e->columns) at = (Place){at.row + 1, 0};
    at.column += width;
    if (at.column >= e->columns) at = (Place){at.row + 1, 0};
    return at;
}

// Writes `bytes` at a place, and returns the place after them. At the end of a row it makes the
// cursor go to the next row, because terminals would wait for the next character.
static Place show(LineEditor *e, bool writes, Place at, const char *bytes, size_t n, int width) {
    Place next = after(e, at, width);
    if (!writes) return next;
    fwrite(bytes, 1, n, e->screen);
    if (width > 0 && next.column == 0) fputs(" \r", e->screen);
    return next;
}

// Shows the characters of a text (writes) or only counts their columns, and returns the place after
// them. Control characters are shown as ^X, and invalid bytes as ?.
static Place show_text(LineEditor *e, bool writes, Place at, const char *text, size_t length) {
    for (size_t i = 0, n; i < length; i += n) {
        uint32_t code = utf8_decode(text + i, length - i, &n);
        if (code == '\n') {
            if (writes) fputs("\r\n", e->screen);
            at = (Place){at.row + 1, 0};
        } else if (code == '\t') {
            for (int spaces = TAB_STOPS - at.column % TAB_STOPS; spaces > 0; spaces--)
                at = show(e, writes, at, " ", 1, 1);
        } else if (code < ' ' || code == DELETE) {
            at = show(e, writes, at, "^", 1, 1);
            at = show(e, writes, at, &(char){(char)(code ^ 64)}, 1, 1);
        } else if ((code >= 0x80 && code < 0xA0) || (code == REPLACEMENT && n == 1)) {
            at = show(e, writes, at, "?", 1, 1);
        } else {
            at = show(e, writes, at, text + i, n, width_of(code));
        }
    }
    return at;
}

static Place place_of(LineEditor *e, size_t cursor) {
    Place at = show_text(e, false, (Place){0, 0}, e->label, strlen(e->label));
    return show_text(e, false, at, e->text, cursor);
}

// Moves the cursor on the screen from one place to another.
static void move_to(LineEditor *e, Place from, Place to) {
    if (to.row < from.row) fprintf(e->screen, "\033[%dA", from.row - to.row);
    if (to.row > from.row) fprintf(e->screen, "\033[%dB", to.row - from.row);
    fputc('\r', e->screen);
    if (to.column > 0) fprintf(e->screen, "\033[%dC", to.column);
}

// Shows the text after the cursor again, and clears the rest.
static void show_rest(LineEditor *e) {
    Place end = show_text(e, true, e->at, e->text + e->cursor, e->length - e->cursor);
    fputs("\033[J", e->screen);
    if (e->length > e->cursor) move_to(e, end, e->at);
    e->is_stale = false;
}

static void show_all(LineEditor *e) {
    e->at = show_text(e, true, (Place){0, 0}, e->label, strlen(e->label));
    e->at = show_text(e, true, e->at, e->text, e->cursor);
    show_rest(e);
}

// Shows the line again, after the size of the terminal changed or another program used it.
static void show_anew(LineEditor *e) {
    e->at = place_of(e, e->cursor);
    move_to(e, e->at, (Place){0, 0});
    show_all(e);
    fflush(e->screen);
}

// ---- editing the text ----

static void insert(LineEditor *e, const char *bytes, size_t n) {
    Error err;
    if (!grow(&e->text, &e->capacity, e->length + n + 1, 1, "a line", &err)) return;
    memmove(e->text + e->cursor + n, e->text + e->cursor, e->length - e->cursor);
    memcpy(e->text + e->cursor, bytes, n);
    e->length += n;
    e->cursor += n;
    e->at = show_text(e, true, e->at, bytes, n);
    e->is_stale = e->cursor < e->length;
}

static void go_to(LineEditor *e, size_t cursor) {
    if (e->is_stale) show_rest(e);
    Place to = place_of(e, cursor);
    move_to(e, e->at, to);
    e->at = to;
    e->cursor = cursor;
}

// Deletes the text between two places, one of which is the cursor.
static void take_out(LineEditor *e, size_t from, size_t to) {
    if (from == to) return;
    go_to(e, from);
    memmove(e->text + from, e->text + to, e->length - to);
    e->length -= to - from;
    show_rest(e);
}

static bool is_inside(char byte) { return ((unsigned char)byte & 0xC0) == 0x80; }

// The beginning of the character before the cursor, and the end of the character at it.
static size_t left_of(const LineEditor *e) {
    size_t at = e->cursor;
    while (at > 0 && is_inside(e->text[--at])) continue;
    return at;
}

static size_t right_of(const LineEditor *e) {
    size_t at = e->cursor < e->length ? e->cursor + 1 : e->length;
    while (at < e->length && is_inside(e->text[at])) at++;
    return at;
}

static size_t word_before(const LineEditor *e) {
    size_t at = e->cursor;
    while (at > 0 && strchr(" \t\n", e->text[at - 1])) at--;
    while (at > 0 && !strchr(" \t\n", e->text[at - 1])) at--;
    return at;
}

// A copy of the text; NULL: there is no memory.
static char *copy_text(const LineEditor *e) { return strndup(e->length ? e->text : "", e->length); }

// Shows an earlier line in place of the typed text, which is kept: n_past shows it again.
static void show_past(LineEditor *e, int which) {
    if (which < 0 || which > e->n_past || which == e->shown) return;
    if (e->shown == e->n_past) {
        free(e->draft);
        e->draft = copy_text(e);
    }
    e->shown = which;
    const char *line = which < e->n_past ? e->past[which] : e->draft;
    e->is_stale = false;
    go_to(e, 0);
    e->length = 0;
    fputs("\033[J", e->screen);
    if (line) insert(e, line, strlen(line));
}

static void remember(LineEditor *e) {
    char *line = copy_text(e);
    if (!line) return;
    if (e->n_past == MOST_PAST) {
        free(e->past[0]);
        memmove(e->past, e->past + 1, --e->n_past * sizeof *e->past);
    }
    e->past[e->n_past++] = line;
}

// ---- keys ----

// Executes an escape sequence: "[D", "OD" (arrows), "[3~" (Delete), "\r" (Alt-Enter). Others have
// no effect.
static void take_sequence(LineEditor *e, const char *sequence) {
    const char last = sequence[strlen(sequence) - 1];
    const bool is_plain = strlen(sequence) == 2;
    if (last == '\r' || last == '\n') insert(e, "\n", 1);
    else if (strcmp(sequence, paste_begins + 1) == 0) e->in_paste = true;
    else if (strcmp(sequence, "[3~") == 0) take_out(e, e->cursor, right_of(e));
    else if (strcmp(sequence, "[1~") == 0 || (is_plain && last == 'H')) go_to(e, 0);
    else if (strcmp(sequence, "[4~") == 0 || (is_plain && last == 'F')) go_to(e, e->length);
    else if (is_plain && last == 'D') go_to(e, left_of(e));
    else if (is_plain && last == 'C') go_to(e, right_of(e));
    else if (is_plain && last == 'A') show_past(e, e->shown - 1);
    else if (is_plain && last == 'B') show_past(e, e->shown + 1);
}

// Processes a byte of an escape sequence, whose first byte is in `part`.
static void take_in_sequence(LineEditor *e, char byte) {
    const bool is_first = e->n_part == 1;
    if (e->n_part < sizeof e->part - 1) e->part[e->n_part++] = byte;
    const bool goes_on = is_first ? byte == '[' || byte == 'O' : byte >= ' ' && byte < '@';
    if (goes_on && e->n_part < sizeof e->part - 1) return;
    e->part[e->n_part] = '\0';
    e->n_part = 0;
    take_sequence(e, e->part + 1);
}

// Processes a byte of a text. A character is inserted when it is complete; invalid bytes one by
// one.
static void take_letter(LineEditor *e, char byte) {
    const unsigned char first = (unsigned char)(e->n_part ? e->part[0] : byte);
    const size_t whole = first < 0xC2   ? 1
                         : first < 0xE0 ? 2
                         : first < 0xF0 ? 3
                         : first < 0xF5 ? 4
                                        : 1;
    const size_t n = e->n_part;
    if (n > 0 && !is_inside(byte)) {
        e->n_part = 0;
        insert(e, e->part, n);
        take_letter(e, byte);
        return;
    }
    e->part[e->n_part++] = byte;
    if (e->n_part < whole) return;
    e->n_part = 0;
    insert(e, e->part, n + 1);
}

// Processes a byte of pasted text, whose lines may end as on any system.
static void take_pasted(LineEditor *e, char byte) {
    const size_t n = e->n_part;
    const bool is_escape = n > 0 && e->part[0] == ESCAPE;
    if (is_escape && byte == paste_ends[n]) {
        e->part[e->n_part++] = byte;
        if (e->n_part < sizeof paste_ends - 1) return;
        e->n_part = 0;
        e->in_paste = false;
        return;
    }
    if (is_escape || (n > 0 && byte == ESCAPE)) {  // the bytes that were kept are text
        e->n_part = 0;
        insert(e, e->part, n);
    }
    if (byte == ESCAPE) e->part[e->n_part++] = byte;
    else if (byte == '\r' || (byte == '\n' && !e->after_return)) take_letter(e, '\n');
    else if (byte && byte != '\n') take_letter(e, byte);
    e->after_return = byte == '\r';
}

// Processes a key. False if it ends the line; *end is then the reason.
static bool take_key(LineEditor *e, char key, LineEnd *end) {
    const bool was_return = e->after_return;
    e->after_return = false;
    if (e->n_part > 0 && e->part[0] == ESCAPE) {
        take_in_sequence(e, key);
        return true;
    }
    if (e->n_part > 0 && !is_inside(key)) {  // invalid bytes
        size_t n = e->n_part;
        e->n_part = 0;
        insert(e, e->part, n);
    }
    switch (key) {
    case '\n':
        if (was_return) return true;  // fall through
    case '\r':
        e->after_return = key == '\r';
        *end = LINE_TYPED;
        return false;
    case 'C' & LETTER_BITS: *end = e->length > 0 ? LINE_DROPPED : LINE_STOP; return false;
    case '\0':  // left in the input by a Ctrl-D that was typed during an answer
    case 'D' & LETTER_BITS:
        if (e->length == 0) {
            *end = LINE_END;
            return false;
        }
        take_out(e, e->cursor, right_of(e));
        return true;
    case ESCAPE: e->part[e->n_part++] = key; return true;
    case 'H' & LETTER_BITS:
    case DELETE: take_out(e, left_of(e), e->cursor); return true;
    case 'W' & LETTER_BITS: take_out(e, word_before(e), e->cursor); return true;
    case 'U' & LETTER_BITS: take_out(e, 0, e->cursor); return true;
    case 'K' & LETTER_BITS: take_out(e, e->cursor, e->length); return true;
    case 'A' & LETTER_BITS: go_to(e, 0); return true;
    case 'E' & LETTER_BITS: go_to(e, e->length); return true;
    case 'B' & LETTER_BITS: go_to(e, left_of(e)); return true;
    case 'F' & LETTER_BITS: go_to(e, right_of(e)); return true;
    case 'P' & LETTER_BITS: show_past(e, e->shown - 1); return true;
    case 'N' & LETTER_BITS: show_past(e, e->shown + 1); return true;
    case 'L' & LETTER_BITS:
        fputs("\033[H\033[2J", e->screen);
        show_all(e);
        return true;
    default:
        if ((unsigned char)key >= ' ' || key == '\t') take_letter(e, key);
        return true;
    }
}

// Acts for Ctrl-Z and Ctrl-\ as the terminal would, with the terminal's own state.
static bool take_signal_key(LineEditor *e, char key) {
    if (e->in_paste || (key != ('Z' & LETTER_BITS) && key != ('\\' & LETTER_BITS))) return false;
    end_raw(e);
    if (key == ('\\' & LETTER_BITS)) catch_fatal(false);
    kill(0, key == ('Z' & LETTER_BITS) ? SIGTSTP : SIGQUIT);
    begin_raw(e);
    show_anew(e);
    return true;
}

// Waits for keys. False: the terminal is gone, or a signal ended the wait.
static bool wait_for_keys(LineEditor *e) {
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    fflush(e->screen);
    while (!interrupted && !fatal_signal) {
        int ready = poll(&keys, 1, LOOK_ROUND);
        if (ready > 0) {
            ssize_t n = read(STDIN_FILENO, e->keys, sizeof e->keys);
            if (n < 0 && errno == EINTR) continue;
            e->next_key = 0;
            e->n_keys = n > 0 ? (size_t)n : 0;
            return n > 0;
        }
        if (ready < 0 && errno != EINTR) return false;
        struct termios now;
        const int columns = e->columns;
        measure_screen(e);
        bool was_away = tcgetattr(STDIN_FILENO, &now) == 0 && now.c_lflag & ICANON;
        if (was_away) begin_raw(e);
        if (was_away || columns != e->columns) show_anew(e);
    }
    return false;
}

// Processes keys until the line ends.
static LineEnd edit(LineEditor *e) {
    LineEnd end;
    for (;;) {
        if (e->next_key == e->n_keys) {
            if (e->is_stale) show_rest(e);
            if (!wait_for_keys(e)) return interrupted ? LINE_STOP : LINE_END;
            // A single Ctrl-C also ends a paste whose end was lost.
            if (e->n_keys == 1 && e->keys[0] == ('C' & LETTER_BITS)) e->in_paste = false;
        }
        char key = e->keys[e->next_key++];
        if (take_signal_key(e, key)) continue;
        if (e->in_paste) take_pasted(e, key);
        else if (!take_key(e, key, &end)) return end;
    }
}

LineEditor *line_editor_new(void) {
    const char *terminal = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !terminal || !*terminal || strcmp(terminal, "dumb") == 0)
        return NULL;
    int screen = isatty(STDERR_FILENO)   ? STDERR_FILENO
                 : isatty(STDOUT_FILENO) ? STDOUT_FILENO
                                         : STDIN_FILENO;
    LineEditor *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    int own = dup(screen);
    e->screen = own < 0 ? NULL : fdopen(own, "w");
    if (e->screen) return e;
    if (own >= 0) close(own);
    free(e);
    return NULL;
}

void line_editor_free(LineEditor *e) {
    if (!e) return;
    for (int i = 0; i < e->n_past; i++) free(e->past[i]);
    free(e->draft);
    free(e->text);
    fclose(e->screen);
    free(e);
}

LineEnd line_editor_read(LineEditor *e, const char *label, char **line) {
    *line = NULL;
    e->label = label;
    e->length = e->cursor = e->n_part = 0;
    e->in_paste = e->is_stale = false;
    e->shown = e->n_past;
    catch_interrupt(0);
    catch_fatal(true);
    measure_screen(e);
    begin_raw(e);
    show_all(e);
    LineEnd end = edit(e);
    if (end == LINE_TYPED) {
        while (e->length > 0 && e->text[e->length - 1] == '\n') e->length--;
        *line = copy_text(e);
        if (e->length > 0) remember(e);
    }
    if (e->cursor < e->length) go_to(e, e->length);
    fputs(end == LINE_DROPPED || end == LINE_STOP ? "^C\n" : "\n", e->screen);
    fflush(e->screen);
    end_raw(e);
    catch_fatal(false);
    if (fatal_signal) raise(fatal_signal);
    return end;
}
