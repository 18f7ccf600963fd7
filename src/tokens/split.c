// The split patterns: where the first word of a text ends. docs/format.md has the libraries'
// regexes.
#include <string.h>

#include "tokenizer_private.h"

// Properties of a character, a bit each. A set of a regex is a sum of these.
enum {
    NEITHER = 1 << CLASS_OTHER,
    LETTER = 1 << CLASS_LETTER,   // \p{L}
    NUMBERS = 1 << CLASS_NUMBER,  // \p{N}
    SPACE = 1 << CLASS_SPACE,     // and none of the next two
    MARK = 1 << CLASS_MARK,       // \p{M}
    SIGN = 1 << CLASS_SIGN,       // [\p{P}\p{S}], and not the slash
    BLANK = 1 << 6,               // ' '
    NEWLINE = 1 << 7,             // [\r\n]
    SLASH = 1 << 8,               // a sign
    CAPITAL = 1 << 9,             // beside another bit: [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
    SMALL = 1 << 10,              // beside another bit: [\p{Ll}\p{Lm}\p{Lo}\p{M}]
    END = 1 << 11,                // the end of the text
    ENDING = 1 << 12,        // in place of a set: 's|'t|'re|'ve|'m|'ll|'d; beside SIGN: their '
    ASCII_LETTER = 1 << 13,  // beside LETTER, for DeepSeek's pattern: [A-Za-z]
    ASCII_SIGN = 1 << 14,    // beside SIGN or SLASH, the same
    CJK = 1 << 15,           // there in place of all: [\u4E00-\u9FA5\u3040-\u30FF]
    HAN = 1 << 16,           // beside another bit, for Kimi's pattern: \p{Han}, without a case
    WHITE = SPACE | BLANK | NEWLINE,           // \s
    SIGNS = SIGN | SLASH,                      // [\p{P}\p{S}]
    OTHER = NEITHER | MARK | SIGNS,            // [^\s\p{L}\p{N}]
    LEAD = OTHER | SPACE | BLANK,              // [^\r\n\p{L}\p{N}]
    LEAD_V3 = NEITHER | MARK | SPACE | BLANK,  // [^\r\n\p{L}\p{P}\p{S}], where no number is
    MANY = 1 << 30,
};

// From `least` to `most` characters of a set, as many as there are. A `most` of 0 makes it a
// lookahead.
typedef struct {
    uint32_t set, least, most;
} Part;

enum { LLAMA3 = 1 << SPLIT_LLAMA3, GPT2 = 1 << SPLIT_GPT2, DIGITS = 1 << SPLIT_DIGITS_GPT2 };
enum { QWEN2 = 1 << SPLIT_QWEN2, GPT4O = 1 << SPLIT_GPT4O, TEKKEN = 1 << SPLIT_TEKKEN };
enum { DEEPSEEK = 1 << SPLIT_DEEPSEEK, QWEN35 = 1 << SPLIT_QWEN35, KIMI = 1 << SPLIT_KIMI };

// An alternative of the regexes, and the patterns that contain it. The first match counts. The
// parts end with an empty one.
static const struct {
    uint32_t patterns;
    Part parts[5];
} alternatives[] = {
    {GPT2 | DIGITS | LLAMA3 | QWEN2 | QWEN35, {{ENDING, 1, 1}}},
    {LLAMA3 | QWEN2, {{LEAD, 0, 1}, {LETTER, 1, MANY}}},
    // [LEAD]? may take a mark that the rest needs, so these are listed with it and without it.
    {QWEN35, {{LEAD, 1, 1}, {LETTER | MARK, 1, MANY}}},
    {QWEN35, {{LETTER | MARK, 1, MANY}}},
    {KIMI, {{HAN, 1, MANY}}},
    {GPT4O | TEKKEN | KIMI, {{LEAD, 1, 1}, {CAPITAL, 0, MANY}, {SMALL, 1, MANY}, {ENDING, 0, 1}}},
    {GPT4O | TEKKEN | KIMI, {{CAPITAL, 0, MANY}, {SMALL, 1, MANY}, {ENDING, 0, 1}}},
    {GPT4O | TEKKEN | KIMI, {{LEAD, 0, 1}, {CAPITAL, 1, MANY}, {SMALL, 0, MANY}, {ENDING, 0, 1}}},
    {LLAMA3 | GPT4O | DEEPSEEK | KIMI, {{NUMBERS, 1, 3}}},
    {QWEN2 | QWEN35 | TEKKEN | DIGITS, {{NUMBERS, 1, 1}}},
    {GPT2 | DIGITS, {{BLANK, 0, 1}, {LETTER, 1, MANY}}},
    {GPT2, {{BLANK, 0, 1}, {NUMBERS, 1, MANY}}},
    {GPT2 | DIGITS, {{BLANK, 0, 1}, {OTHER, 1, MANY}}},
    {LLAMA3 | QWEN2 | KIMI, {{BLANK, 0, 1}, {OTHER, 1, MANY}, {NEWLINE, 0, MANY}}},
    {QWEN35, {{BLANK, 0, 1}, {NEITHER | SIGNS, 1, MANY}, {NEWLINE, 0, MANY}}},
    {GPT4O | TEKKEN, {{BLANK, 0, 1}, {OTHER, 1, MANY}, {NEWLINE | SLASH, 0, MANY}}},
    // DeepSeek V3 cuts out numbers, then runs of CJK, and cuts the text between them by the last of
    // its three regexes. Letters are matched last: after a sign, and after any other character but
    // these.
    {DEEPSEEK, {{CJK, 1, MANY}}},
    {DEEPSEEK, {{ASCII_SIGN, 1, 1}, {ASCII_LETTER, 1, MANY}}},
    {DEEPSEEK, {{LEAD_V3, 0, 1}, {LETTER | MARK, 1, MANY}}},
    {DEEPSEEK, {{BLANK, 0, 1}, {SIGNS, 1, MANY}, {NEWLINE, 0, MANY}}},
    {LLAMA3 | QWEN2 | QWEN35 | GPT4O | TEKKEN | KIMI | DEEPSEEK,
     {{WHITE, 0, MANY}, {NEWLINE, 1, MANY}}},
    {DEEPSEEK, {{WHITE, 1, MANY}, {WHITE | NUMBERS | CJK | END, 1, 0}}},
    {DIGITS, {{WHITE, 1, MANY}, {WHITE | NUMBERS | END, 1, 0}}},  // numbers were split off before
    // \s+(?!\S)
    {GPT2 | LLAMA3 | QWEN2 | QWEN35 | GPT4O | TEKKEN | KIMI,
     {{WHITE, 1, MANY}, {WHITE | END, 1, 0}}},
    {GPT2 | DIGITS | LLAMA3 | QWEN2 | QWEN35 | GPT4O | TEKKEN | KIMI | DEEPSEEK,
     {{WHITE, 1, MANY}}},
    // Text that no regex matches stays together, up to the character that belongs to the letters
    // after it.
    {DEEPSEEK, {{NEITHER, 1, MANY}, {NEITHER | SIGNS | WHITE | NUMBERS | CJK | END, 1, 0}}},
};

typedef struct {
    const char *bytes;
    size_t length;
    const Tokenizer *tokenizer;
    uint32_t pattern;  // its bit
} Text;

// The bits beside its own by which DeepSeek's pattern knows a character, or the one in their place.
static uint32_t in_deepseek(uint32_t code, uint32_t kind) {
    if ((code >= 0x4E00 && code <= 0x9FA5) || (code >= 0x3040 && code <= 0x30FF)) return CJK;
    if (code >= 0x80) return kind;
    return kind | (kind & LETTER ? ASCII_LETTER : 0) | (kind & SIGNS ? ASCII_SIGN : 0);
}

// Whether a character is of the script Han, by Unicode 16.0's Scripts.txt.
static bool is_han(uint32_t code) {
    static const uint32_t runs[][2] = {
        {0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
        {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
        {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
        {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739}, {0x2B740, 0x2B81D},
        {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x2F800, 0x2FA1D},
        {0x30000, 0x3134A}, {0x31350, 0x323AF},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs && code >= runs[i][0]; i++)
        if (code <= runs[i][1]) return true;
    return false;
}

// With the bits by which patterns with cases know it.
static uint32_t with_case(const Text *text, uint32_t code, uint32_t kind) {
    if (code < 0x80) {
        uint32_t of_case = code & 0x20 ? SMALL : CAPITAL;
        return kind == LETTER ? kind | of_case : kind;
    }
    uint32_t otherwise = kind == LETTER ? IN_U + IN_W : 0;
    uint32_t in = unicode_rule(text->tokenizer, code, RULE_CASE, otherwise);
    if (in & IN_U) kind |= CAPITAL;
    if (in & IN_W) kind |= SMALL;
    return kind;
}

// The bits of the character at `at`, and where the next one begins.
static uint32_t char_at(const Text *text, size_t at, size_t *next) {
    if (at >= text->length) return END;
    uint32_t code = utf8_decode(text->bytes + at, text->length - at, next);
    *next += at;
    if (code < '0') {
        if (code == ' ') return BLANK;
        if (code == '\r' || code == '\n') return NEWLINE;
        if (code == '\'') return SIGN | ENDING | ASCII_SIGN;
        if (code == '/') return SLASH | ASCII_SIGN;
    }
    uint32_t kind = 1u << text->tokenizer->classes[code];
    if (text->pattern == DEEPSEEK) return in_deepseek(code, kind);
    if (text->pattern == KIMI && is_han(code)) return kind | HAN;
    if (text->pattern & (GPT4O | TEKKEN | KIMI)) return with_case(text, code, kind);
    return kind;
}

// Where the ending at `at` ('s, 're and so on) ends; `at` if there is no ending. Tekken has none,
// and GPT-2's are in small letters. The others fold case, so that an s may be U+017F, the long s,
// too.
static size_t skip_ending(const Text *text, size_t at) {
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    const char *s = text->bytes + at;
    size_t left = text->length - at;
    // The bit that makes A to Z small, and only them.
    int fold = text->pattern & (GPT2 | DIGITS) ? 0 : 'a' - 'A';
    if (left == 0 || s[0] != '\'' || text->pattern == TEKKEN) return at;
    if (fold && left >= 3 && memcmp(s, "'\xC5\xBF", 3) == 0) return at + 3;
    for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) {
        size_t n = 0;
        const char *ending = endings[e];
        while (n + 1 < left && ending[n] && (s[n + 1] | fold) == ending[n]) n++;
        if (!ending[n]) return at + n + 1;
    }
    return at;
}

// Where the word that these parts match ends, 0: they do not match. A regex goes back until the
// rest matches. Here a part ends at the last place where the next can begin. At most one part after
// it is required, so that is enough.
static size_t match(const Part *part, const Text *text) {
    size_t at = 0;
    for (; part->most > 0; part++) {
        uint32_t next_set = part[1].least > 0 ? part[1].set : UINT32_MAX;
        size_t from = at;
        size_t next;
        if (part->set == ENDING) {
            at = skip_ending(text, from);
            if (at == from && part->least > 0) return 0;
            continue;
        }
        at = SIZE_MAX;  // no such place
        for (uint32_t n = 0;; n++, from = next) {
            uint32_t kind = char_at(text, from, &next);
            if (n >= part->least && kind & next_set) at = from;
            if (n == part->most || !(kind & part->set)) break;
        }
        if (at == SIZE_MAX) return 0;
    }
    return at;
}

size_t split_word(const Tokenizer *t, const char *bytes, size_t n) {
    Text text = {bytes, n, t, 1u << t->head.split};
    size_t length = 0;
    for (size_t i = 0; length == 0; i++)  // one of them matches whatever there is
        if (alternatives[i].patterns & text.pattern) length = match(alternatives[i].parts, &text);
    return length;
}
