// Reads messages: lines of standard input, or several lines between """.
#define _POSIX_C_SOURCE 200809L
#include "messages.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "../fast/process.h"

static const char user[] = "User: ";
static const char goes_on[] = "... ";
static const char quotes[] = "\"\"\"";
enum {
    N_QUOTES = 3,
    LOOK_AT = 200,            // ms between checks of `interrupted`; also the wait if is_waited_for
                              // is false
    MOST_OF_TERMINAL = 4095,  // bytes of a line that Linux keeps for a terminal
    MOST_LEFT = 10000,        // messages that are counted
};

Messages messages_begin(void) {
    return (Messages){
        .is_typed = isatty(STDIN_FILENO), .editor = line_editor_new(), .is_waited_for = true};
}

void messages_end(Messages *m) {
    line_editor_free(m->editor);
    free(m->line);
}

const char *messages_help(const Messages *m) {
    return m->editor ? "Ctrl-C stops an answer; Ctrl-D, /bye or exit ends the chat; a paste is one "
                       "message, and so are lines between \"\"\" and \"\"\""
                     : "Ctrl-C stops an answer; Ctrl-D, /bye or exit ends the chat; lines between "
                       "\"\"\" and \"\"\" are one message";
}

// ---- lines ----

// Reads more bytes. False: there are no more, none come soon, or Ctrl-C or SIGTERM ended the wait.
static bool read_more(Messages *m) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (!interrupted) {
        int ready = poll(&input, 1, LOOK_AT);
        if (ready == 0 && !m->is_waited_for) return false;
        if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
        ssize_t n = read(STDIN_FILENO, m->bytes, sizeof m->bytes);
        if (n < 0 && errno == EINTR) continue;
        m->next = 0;
        m->n_bytes = n > 0 ? (size_t)n : 0;
        m->ended = n <= 0;
        return n > 0;
    }
    return false;
}

// Reads a line into m->line, without its end and its NULs. False: there is none.
static bool read_line(Messages *m) {
    Error err;
    bool has_bytes = false;
    char byte = 0;
    m->length = 0;
    while (byte != '\n' && (m->next < m->n_bytes || read_more(m))) {
        byte = m->bytes[m->next++];
        has_bytes = true;
        if (!grow(&m->line, &m->capacity, m->length + 2, 1, "a line", &err)) return false;
        if (byte != '\n' && byte) m->line[m->length++] = byte;
        if (!byte && !m->has_nuls)
            fprintf(stderr, "run: warning: NULs among the messages are left out (expected UTF-8, "
                            "found UTF-16, as it seems)\n");
        m->has_nuls = m->has_nuls || !byte;
    }
    if (interrupted || !has_bytes) return false;
    if (m->is_typed && m->length == MOST_OF_TERMINAL)
        fprintf(stderr,
                "run: warning: the terminal may have cut this line at %d bytes (-f FILE reads a "
                "text of any length)\n",
                MOST_OF_TERMINAL);
    if (byte == '\n' && m->length > 0 && m->line[m->length - 1] == '\r') m->length--;
    m->line[m->length] = '\0';
    static const char mark[] = "\xEF\xBB\xBF";  // some editors write it at the beginning of a file
    if (m->taken == 0 && strncmp(m->line, mark, 3) == 0) {
        m->length -= 3;
        memmove(m->line, m->line + 3, m->length + 1);
    }
    return true;
}

// The next line, which the caller frees. *drops: the message so far is discarded. NULL: there is
// none.
static char *next_line(Messages *m, const char *label, bool *drops) {
    char *line = NULL;
    fflush(stdout);
    *drops = false;
    const bool is_shown = m->is_typed && (!m->editor || !isatty(STDERR_FILENO));
    if (is_shown) fputs(label, stderr);  // even if standard error is a file
    if (m->editor) {
        LineEnd end = line_editor_read(m->editor, label, &line);
        *drops = end == LINE_DROPPED || (end == LINE_STOP && label == goes_on && !interrupted);
        if (end == LINE_STOP && !*drops && !interrupted) raise(SIGINT);
    } else {
        catch_interrupt(0);
        if (!m->ended && read_line(m)) line = strdup(m->line);
    }
    if (!line && is_shown) fputs("\n", stderr);  // so that the shell's prompt begins a line
    return line;
}

// ---- messages ----

static bool is_blank(const char *text) { return !text[strspn(text, " \t\r\n\v\f")]; }

// Whether a line is this word, in any case and with white space around it.
static bool is_word(const char *line, const char *word) {
    const size_t n = strlen(word);
    const char *at = line + strspn(line, " \t");
    return strncasecmp(at, word, n) == 0 && is_blank(at + n);
}

static bool ends_chat(const Messages *m, const char *line) {
    static const char *const words[] = {"/bye", "/exit", "/quit", "exit", "quit"};
    for (int i = 0; i < 5; i++)
        if (is_word(line, words[i]) && (m->is_typed || words[i][0] == '/')) return true;
    return false;
}

// Prints the commands that exist, if a line looks like a command of other programs.
static bool is_command(const Messages *m, const char *line) {
    const char *at = line + strspn(line, " \t");
    const size_t n = strcspn(at, " \t");
    if (!m->is_typed || at[0] != '/' || n < 2 || memchr(at + 1, '/', n - 1)) return false;
    // A word by itself is a command. If more text follows, only these words are; otherwise it is a
    // message.
    static const char with_more[] = " /set /show /load /save /read /file /image /clear /system ";
    char word[16];
    snprintf(word, sizeof word, " %.*s ", (int)n, at);
    const bool is_known = n < sizeof word - 2 && strstr(with_more, word);
    const bool is_alone = isalpha((unsigned char)at[1]) && is_blank(at + n);
    if (at[1] != '?' && !is_alone && !is_known) return false;
    const bool is_help = is_word(line, "/?") || is_word(line, "/help");
    fprintf(stderr, "run: %s%.*s%s%s\n", is_help ? "" : "there is no command ",
            is_help ? 0 : (int)n, at, is_help ? "" : ": ", messages_help(m));
    return true;
}

// Joins lines from the one that begins with """ on, without these marks. The caller frees the
// result; NULL: it was discarded, or there is no memory. Frees `line`, which has no newline in it.
static char *join_lines(Messages *m, char *line) {
    Error err;
    char *text = NULL;
    size_t n = 0, capacity = 0;
    bool drops = false, is_closed = false;
    const char *at = line + strspn(line, " \t") + N_QUOTES;
    for (bool is_first = true; line && !is_closed; is_first = false) {
        size_t length = strlen(at);
        is_closed = length >= N_QUOTES && strcmp(at + length - N_QUOTES, quotes) == 0;
        if (is_closed) length -= N_QUOTES;
        const bool is_edge = length == 0 && (is_first || is_closed);
        if (!grow(&text, &capacity, n + length + 2, 1, "a message", &err)) break;
        if (n > 0 && !is_edge) text[n++] = '\n';
        memcpy(text + n, at, length);
        text[n += length] = '\0';
        free(line);
        line = is_closed ? NULL : next_line(m, goes_on, &drops);
        at = line;
    }
    free(line);
    if (!is_closed && !drops && !interrupted)
        fprintf(stderr, "run: warning: the input ended before \"\"\" ended its last message\n");
    return keep_if(!drops && !interrupted && text, text);
}

char *messages_next(Messages *m) {
    for (;;) {
        bool drops;
        char *line = next_line(m, user, &drops);
        if (!line && drops) continue;
        if (!line) return NULL;
        const bool is_one_line = !strchr(line, '\n');
        if (is_one_line && ends_chat(m, line)) {
            free(line);
            bool all;
            size_t n = m->is_waited_for ? messages_left(m, NULL, NULL, &all) : 0;
            if (n > 0)
                fprintf(stderr,
                        "run: warning: the chat ends, and %zu message%s after that %s not read\n",
                        n, n > 1 ? "s" : "", n > 1 ? "were" : "was");
            m->ended = true;
            return NULL;
        }
        const bool is_opened = strncmp(line + strspn(line, " \t"), quotes, N_QUOTES) == 0;
        if (is_one_line && is_opened) line = join_lines(m, line);
        if (line && !is_blank(line) && !(is_one_line && !is_opened && is_command(m, line))) {
            m->taken++;
            return line;
        }
        free(line);
        if (interrupted) return NULL;
    }
}

size_t messages_left(Messages *m, LeftMessage *take, void *whose, bool *all) {
    size_t n = 0;
    char *message;
    m->is_waited_for = false;
    while (!m->is_typed && n < MOST_LEFT && (message = messages_next(m))) {
        if (take) take(whose, message);
        free(message);
        n++;
    }
    *all = m->ended;
    return n;
}
