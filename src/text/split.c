// The split patterns: where the first word of a text ends.
//
// Each pattern is a regex whose alternatives are tried in their order at the place where the last word ended, and which
// always matches. The functions below say the same without going back.
//
//   GPT-2
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
//   Llama 3
//     (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
//     \s*[\r\n]+|\s+(?!\S)|\s+
//
//   Qwen 2
//     as Llama 3, with \p{N} in place of \p{N}{1,3}
//
//   GPT-4o (o200k; Phi-4-mini), for \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M} as U and \p{Ll}\p{Lm}\p{Lo}\p{M} as W
//     [^\r\n\p{L}\p{N}]?[U]*[W]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[U]+[W]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//     \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
//   Tekken (Mistral)
//     as GPT-4o, with \p{N} in place of \p{N}{1,3} and without 's and its like
//
//   Digits, then GPT-2
//     \p{N} first, and GPT-2's for what lies between
#include <string.h>

#include "tokenizer_private.h"
#include "unicode.h"

enum { CLASS_END = -1 };

typedef struct {
    const char *bytes;
    size_t length;
    bool ends_at_number;  // a number counts as the end of the text: numbers were split off before
    const Tokenizer *tokenizer;
} Text;

typedef struct {
    uint32_t code;
    int class;
    size_t end;  // where the next character begins
} Char;

static Char char_at(Text text, size_t at) {
    if (at >= text.length) return (Char){0, CLASS_END, at};
    Char c;
    c.code = utf8_decode(text.bytes + at, text.length - at, &c.end);
    c.end += at;
    c.class = unicode_class(c.code);
    if (c.class == CLASS_NUMBER && text.ends_at_number) c.class = CLASS_END;
    return c;
}

// Where the run of characters of this class that goes on at `at` ends.
static size_t skip_class(Text text, size_t at, int class) {
    for (Char c; (c = char_at(text, at)).class == class;) at = c.end;
    return at;
}

static bool is_newline(uint32_t code) { return code == '\r' || code == '\n'; }

// The length of 's 't 're 've 'm 'll 'd, or 0. In any case, an s may also be U+017F, the long s: that is how the regex
// libraries fold case, and the only such letter here.
static size_t contraction(Text text, bool any_case) {
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    int fold = any_case ? 'a' - 'A' : 0;  // the one bit that makes A to Z small, and nothing else a small letter
    if (text.bytes[0] != '\'') return 0;
    if (any_case && text.length >= 3 && memcmp(text.bytes, "'\xC5\xBF", 3) == 0) return 3;
    for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) {
        size_t n = 0;
        while (n + 1 < text.length && endings[e][n] && (text.bytes[n + 1] | fold) == endings[e][n]) n++;
        if (!endings[e][n]) return n + 1;
    }
    return 0;
}

// \s+(?!\S)|\s+ : a run of spaces without its last one, which goes with the word behind; the whole run when it is only
// one or ends the text. With `newlines`, \s*[\r\n]+ before that: a run that has newlines ends with the last of them.
static size_t spaces(Text text, bool newlines) {
    size_t at = 0, last = 0, after_newline = 0;
    Char c;
    for (; (c = char_at(text, at)).class == CLASS_SPACE; at = c.end) {
        last = at;
        if (is_newline(c.code)) after_newline = c.end;
    }
    if (newlines && after_newline > 0) return after_newline;
    return c.class == CLASS_END || last == 0 ? at : last;
}

static size_t gpt2_word(Text text) {
    size_t n = contraction(text, false);
    if (n > 0) return n;
    Char c = char_at(text, 0);
    if (c.code == ' ') c = char_at(text, c.end);
    return c.class == CLASS_SPACE || c.class == CLASS_END ? spaces(text, false) : skip_class(text, c.end, c.class);
}

// The end of Llama 3's pattern and of later ones: numbers, what is no letter with the newlines behind it, spaces.
static size_t word_of_others(Text text, bool threes, const char *behind) {
    Char first = char_at(text, 0), second = char_at(text, first.end);
    if (first.class == CLASS_NUMBER) {
        Char third = second.class == CLASS_NUMBER ? char_at(text, second.end) : first;
        return !threes ? first.end : third.class == CLASS_NUMBER ? third.end : second.end;
    }
    Char c = first.code == ' ' ? second : first;
    if (c.class != CLASS_OTHER) return spaces(text, true);
    size_t end = skip_class(text, c.end, CLASS_OTHER);
    while (end < text.length && text.bytes[end] && strchr(behind, text.bytes[end])) end++;
    return end;
}

// Whether a character may stand before a word's letters, as part of it.
static bool may_lead(Char c) { return c.class != CLASS_LETTER && c.class != CLASS_NUMBER && !is_newline(c.code); }

static size_t llama3_word(Text text, bool threes) {
    size_t n = contraction(text, true);
    if (n > 0) return n;
    Char first = char_at(text, 0), second = char_at(text, first.end);
    if (first.class == CLASS_LETTER) return skip_class(text, first.end, CLASS_LETTER);
    if (may_lead(first) && second.class == CLASS_LETTER) return skip_class(text, second.end, CLASS_LETTER);
    return word_of_others(text, threes, "\r\n");
}

// In which of the two classes of GPT-4o's pattern a character is: a sum of IN_U and IN_W.
static uint32_t case_of(Text text, Char c) {
    if (c.code < 0x80) return c.class != CLASS_LETTER ? 0 : c.code & 0x20 ? IN_W : IN_U;
    return unicode_rule(text.tokenizer, c.code, RULE_CASE, c.class == CLASS_LETTER ? IN_U + IN_W : 0);
}

// Where [U]*[W]+ ends that begins at `at`, or 0; *capitals is where [U]* alone does. The last character of both classes
// is what [U]* gives back when nothing else follows it.
static size_t cased_word(Text text, size_t at, size_t *capitals) {
    size_t end = 0;
    uint32_t in;
    Char c;
    while ((in = case_of(text, c = char_at(text, at))) & IN_U) {
        at = c.end;
        if (in & IN_W) end = at;
    }
    for (*capitals = at; in & IN_W; in = case_of(text, c = char_at(text, end))) end = c.end;
    return end;
}

static size_t gpt4o_word(Text text, bool tekken) {
    Char first = char_at(text, 0);
    size_t start = may_lead(first) ? first.end : 0, capitals, ignored, end = cased_word(text, start, &capitals);
    if (!end) end = cased_word(text, 0, &ignored);  // a mark, which could lead, too
    if (!end && capitals > start) end = capitals;
    if (!end) return word_of_others(text, !tekken, "\r\n/");
    const Text rest = {text.bytes + end, text.length - end, false, text.tokenizer};
    return end + (tekken || rest.length == 0 ? 0 : contraction(rest, true));
}

size_t split_word(const Tokenizer *t, const char *bytes, size_t n) {
    const Text text = {bytes, n, t->head.split == SPLIT_DIGITS_GPT2, t};
    switch (t->head.split) {
    case SPLIT_LLAMA3: return llama3_word(text, true);
    case SPLIT_QWEN2: return llama3_word(text, false);
    case SPLIT_GPT4O: return gpt4o_word(text, false);
    case SPLIT_TEKKEN: return gpt4o_word(text, true);
    }
    size_t length, code = utf8_decode(bytes, n, &length);
    return text.ends_at_number && unicode_class(code) == CLASS_NUMBER ? length : gpt2_word(text);
}
