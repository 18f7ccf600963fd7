// Plain English that means nothing, from a small grammar. Its words are common, so that any
// tokenizer has them, and many, so that a model cannot learn them by heart within its window.
#include "trial.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// The rules of the grammar by their names, capital letters. A rule is choices between bars, in
// which rules are named.
static const char *const rules[256] = {
    ['Z'] = "C.|C.|C.|C, and C.|C, but C.|C because C.|C while C.|C before C.|W, C.|W, C.|if C, "
            "C.|although C, C.|"
            "\"C,\" said N.",
    ['C'] = "S V O|S V O|S V O|S R V O|S V O H T P|S V O H T P|S V O W|S V O H T P W",
    ['S'] = "N|N|N|N|he|she|I|they|we",
    ['N'] = "T M|T J M",
    ['O'] = "T M|T J M|T G|T G|T J G",
    ['T'] = "the|a|his|her|my|this|that|their|some|the",
    ['H'] = "in|near|behind|from|outside",
    ['W'] = "in the morning|at night|in the evening|before dinner|after the rain|on Sunday|long "
            "ago|that day|in the "
            "winter|in the summer|at last|some time after|at noon|the next day|in the spring|last "
            "year|many years ago|"
            "once more",
    ['R'] = "slowly|quickly|softly|again|never|always|often|at once|with care|without a word|in "
            "silence|in vain|by "
            "chance",
    ['M'] = "man|woman|doctor|sailor|child|teacher|farmer|soldier|merchant|servant|brother|sister|"
            "stranger|neighbor|"
            "captain|priest|king|queen|lady|gentleman|boy|girl|friend|master|cousin|uncle|aunt|"
            "lawyer|clerk|painter|"
            "poet|judge|father|mother|son|daughter|widow|baker|hunter|traveller|guest|nurse|cook|"
            "driver|prince|thief|"
            "bishop|major|colonel|miller",
    ['G'] = "letter|book|lamp|table|chair|door|window|horse|dog|cat|coat|hat|knife|ring|coin|"
            "picture|basket|bottle|"
            "candle|clock|cup|dress|drum|fire|flag|flower|glass|gun|hammer|key|kettle|ladder|map|"
            "mirror|needle|paper|"
            "pen|pipe|rope|sword|ticket|tree|wheel|whip|wall|bridge|boat|cart|bell|bed|box|bread|"
            "apple|cake|fish|"
            "stone|stick|star|song|story|secret|promise|dream|name|word|question|answer|plan|debt|"
            "wound",
    ['J'] = "old|young|quiet|tall|small|kind|tired|proud|gentle|strange|poor|happy|angry|clever|"
            "little|great|cold|dark|"
            "white|black|red|broken|empty|heavy|bright|long|short|thin|thick|soft|hard|sweet|"
            "bitter|rich|plain|simple|"
            "honest|foolish|wise|brave|shy|rude|pale|deep|narrow|wide|sudden|silent|famous|dead",
    ['V'] = "saw|found|followed|met|remembered|called|helped|watched|left|heard|asked|answered|"
            "knew|loved|feared|"
            "thanked|carried|broke|bought|sold|kept|lost|gave|took|held|brought|wanted|forgot|"
            "needed|liked|hated|hid|"
            "showed|touched|threw|washed|dropped|caught|painted|burned|counted|read|mended|opened",
    ['P'] = "house|garden|street|village|church|market|river|field|kitchen|forest|town|harbour|"
            "school|road|room|hall|"
            "castle|prison|station|library|cellar|stable|tower|valley|island|mountain|shop|inn|"
            "office|court",
};
enum { LONGEST_SENTENCE = 400, TOKEN_BYTES = 6, MORE_BYTES = 7680 };

// Writes one of a rule's choices at `end`, with a choice of each rule that is named in it. Returns
// the new end.
static char *write_choice(char *end, const char *rule, uint64_t *state) {
    uint32_t choices = 1;
    for (const char *c = rule; *c; c++) choices += *c == '|';
    for (uint32_t skip = (next_random(state) >> 32) % choices; skip > 0; skip--)
        rule = strchr(rule, '|') + 1;
    for (; *rule && *rule != '|'; rule++) {
        const char *inner = rules[(unsigned char)*rule];
        if (inner) end = write_choice(end, inner, state);
        else *end++ = *rule;
    }
    return end;
}

int32_t *plain_english(const Tokenizer *tokenizer, size_t least, uint64_t seed, size_t *n,
                       Error *err) {
    int32_t *ids = NULL;
    *n = 0;
    for (size_t bytes = TOKEN_BYTES * least + MORE_BYTES; *n < least; bytes *= 2) {
        char *text = alloc_array(bytes + LONGEST_SENTENCE, 1, "a text", err);
        char *end = text;
        uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
        while (text && end < text + bytes) {
            char *first = end;
            end = write_choice(end, rules['Z'], &state);
            first += !isalpha((unsigned char)*first);
            *first = (char)toupper((unsigned char)*first);
            *end++ = ' ';
        }
        free(ids);
        ids = text ? tokenizer_encode(tokenizer, text, end - text, false, n, err) : NULL;
        free(text);
        if (!ids) return NULL;
    }
    return ids;
}
