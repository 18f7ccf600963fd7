// The rule of right answers.
#include "judge.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

static const char digits[] = "0123456789";

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
// Of a word, or of a character beyond ASCII.
static bool is_letter(char c) { return isalnum((unsigned char)c) || c == '_' || (c & 0x80); }
static bool is_number(const char *wanted) { return wanted[strspn(wanted, digits)] == '\0'; }

// The marks that begin and end thoughts. The first may be in the prompt.
static const char *const thoughts[][2] = {
    {"<think>", "</think>"},
    {"<thinking>", "</thinking>"},
    {"<thought>", "</thought>"},
    {"<reasoning>", "</reasoning>"},
    {"<seed:think>", "</seed:think>"},
    {"[THINK]", "[/THINK]"},
    {"<|channel|>analysis", "<|channel|>final<|message|>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
};
enum { N_THOUGHTS = sizeof thoughts / sizeof *thoughts };

// The answer after all thoughts. Thoughts that do not end are all there is.
static const char *after_thoughts(const char *answer) {
    for (int i = 0; i < N_THOUGHTS; i++)
        for (const char *p = answer; (p = strstr(p, thoughts[i][1])) != NULL;)
            answer = p += strlen(thoughts[i][1]);
    answer += strspn(answer, " \t\r\n");
    for (int i = 0; i < N_THOUGHTS; i++)
        if (strncmp(answer, thoughts[i][0], strlen(thoughts[i][0])) == 0)
            return answer + strlen(answer);
    return answer;
}

// Bytes between two digits of one number at p: the comma before three last ones, or (is_apart) a
// space of any width or a hyphen before another one. 0: the number ends.
static size_t within_number(const char *p, bool is_apart) {
    static const char *const between[] = {" ", "-", "\u00a0", "\u202f"};
    if (*p == ',' && strspn(p + 1, digits) == 3 && !is_letter(p[4])) return 1;
    for (size_t i = 0; is_apart && i < sizeof between / sizeof *between; i++) {
        const size_t n = strlen(between[i]);
        if (strncmp(p, between[i], n) == 0 && is_digit(p[n])) return n;
    }
    return 0;
}

// Finds the next number from *p on, of which *p becomes the end: the count of its digits, and
// whether they are those of `wanted`. 0: there is none.
static size_t next_number(const char **p, bool is_apart, const char *wanted, bool *is_it) {
    const size_t length = strlen(wanted);
    size_t n = 0;
    *p += strcspn(*p, digits);
    *is_it = true;
    while (is_digit(**p)) {
        *is_it = *is_it && n < length && **p == wanted[n];
        n++;
        *p += 1;
        *p += within_number(*p, is_apart);
    }
    *is_it = *is_it && n == length;
    return n;
}

// Whether the first number of so many digits is the one that is wanted, of digits that are written
// together or, where no number has so many, apart ("4 8 2 1 3", "48 213"). *is_whole: more text
// follows it.
static bool is_first_number(const char *wanted, const char *answer, bool *is_whole) {
    for (int is_apart = 0; is_apart < 2; is_apart++) {
        const char *p = answer;
        bool is_it;
        for (size_t n; (n = next_number(&p, is_apart, wanted, &is_it)) > 0;) {
            if (n != strlen(wanted)) continue;
            *is_whole = *p && *p != ',';
            return is_it;
        }
    }
    *is_whole = false;
    return false;
}

static bool contains_number(const char *wanted, const char *answer) {
    bool is_it = false;
    while (!is_it && next_number(&answer, false, wanted, &is_it) > 0) continue;
    return is_it;
}

static bool contains_word(const char *wanted, const char *answer) {
    const size_t n = strlen(wanted);
    for (const char *p = answer; *p; p++) {
        const bool begins = p == answer || !is_letter(p[-1]);
        if (begins && strncasecmp(p, wanted, n) == 0 && !is_letter(p[n])) return true;
    }
    return false;
}

static bool begins_with(const char *answer, const char *wanted) {
    return strncmp(answer, wanted, strlen(wanted)) == 0;
}

static bool is_right_one(const char *wanted, bool is_chat, const char *answer, bool *is_decided) {
    *is_decided = !is_chat && begins_with(answer, wanted);
    if (*is_decided) return true;
    if (is_number(wanted)) return is_first_number(wanted, answer, is_decided);
    return is_chat && contains_word(wanted, answer);
}

bool answer_is_right(const char *const *wanted, int n, bool is_chat, const char *answer) {
    bool is_decided;
    answer = after_thoughts(answer);
    if (n == 1) return is_right_one(wanted[0], is_chat, answer, &is_decided);
    for (int k = 0; k < n; k++) {
        const char *found = is_chat ? NULL : strstr(answer, wanted[k]);
        if (found && found - answer + strlen(wanted[k]) <= SEVERAL_WITHIN) continue;
        if (!is_chat) return false;
        if (!(is_number(wanted[k]) ? contains_number : contains_word)(wanted[k], answer))
            return false;
    }
    return true;
}

bool answer_is_decided(const char *wanted, const char *answer) {
    bool is_decided;
    is_right_one(wanted, false, answer, &is_decided);
    return is_decided;
}
