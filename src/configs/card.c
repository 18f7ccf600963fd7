// What people paste, made JSON. No line moves, so that errors name the right one.
#include "card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

static const char WHITE_SPACE[] = " \t\r\n";
static const char FENCE[] = "```";

// Makes a fence and lines that begin with # blank. Returns the place behind them, and in
// *first_mark that of the first line with a # (NULL: none).
static char *blank_front(char *p, const char **first_mark) {
    bool fenced = false;
    for (p += strspn(p, WHITE_SPACE); *p == '#' || strncmp(p, FENCE, 3) == 0;
         p += strspn(p, WHITE_SPACE)) {
        bool is_fence = *p == '`';
        if (!is_fence && !*first_mark) *first_mark = p;
        fenced = fenced || is_fence;
        while (*p && *p != '\n' && !(is_fence && strchr("{\"", *p))) *p++ = ' ';
    }
    char *end = p + strlen(p);
    while (end > p && strchr(WHITE_SPACE, end[-1])) end--;
    while (fenced && end > p && end[-1] == '`') *--end = ' ';
    return p;
}

static bool has_any(const char *object, const char *const *keys, size_t n) {
    size_t i = 0;
    while (i < n && !json_member(object, keys[i])) i++;
    return i < n;
}

// What kind of object it is. `mark` is the first line with a #, NULL: none.
static void look_at(Card *card, bool has_braces, const char *mark) {
    static const char *const of_models[] = {"model_type", "architectures", "hidden_size"};
    static const char *const of_configs[] = {"rope_scaling", "rope_parameters",
                                             "max_position_embeddings",
                                             "dual_chunk_attention_config"};
    const char *object = card->object;
    const char *comma = json_loose(object, ',');
    bool is_of_model = has_any(object, of_models, 3);
    card->is_config = is_of_model || has_any(object, of_configs, 4);
    card->is_whole = is_of_model && has_braces && !json_loose(object, '.');
    if (!card->is_whole || !(comma || mark)) return;
    int line = json_line(card->text, mark ? mark : comma);
    const char *what = mark ? "a line that begins with #" : "a comma with nothing behind it";
    snprintf(card->mended, sizeof card->mended, "line %d: %s", line, what);
}

bool card_read(Card *card, const char *text, size_t length, Error *err) {
    *card = (Card){.text = alloc_array(length + 3, 1, "a config", err)};
    char *copy = card->text;
    const char *mark = NULL;
    if (!copy) return false;
    memcpy(copy + 1, text, length);
    copy[0] = copy[length + 1] = ' ';
    char *p = blank_front(copy + 1, &mark);
    bool has_braces = !*p || !strchr("\".\xE2", *p);  // else a key, or dots
    if (!has_braces) {
        copy[0] = '{';
        copy[length + 1] = '}';
    }
    bool good = json_check(copy, length + 2, err);
    card->object = copy + strspn(copy, WHITE_SPACE);
    if (good && *card->object != '{') good = fail(err, "line 1: not a JSON object");
    if (good) look_at(card, has_braces, mark);
    if (!good) free(copy);
    return good;
}
