// What people paste, made JSON. No line moves, so that errors name the right one.
#include "card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "families.h"
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

// What print() puts before a config: its class.
static bool fail_printed(const char *text, const char *p, Error *err) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t n = strspn(p, letters);
    if (n == 0 || p[n + strspn(p + n, WHITE_SPACE)] != '{') return true;
    return fail(err, "line %d: found %.*s, as print shows a config (expected JSON, from the { on)",
                json_line(text, p), (int)n, p);
}

// The places where a model of text and something else has the config of its text model.
static const char *inner_config(const char *object) {
    for (int i = 0; i < N_CONTAINERS; i++) {
        const char *inner = json_member(object, family_containers[i]);
        if (inner && *inner == '{') return inner;
    }
    return NULL;
}

static bool has_any(const char *object, const char *const *keys, size_t n) {
    size_t i = 0;
    while (i < n && !json_member(object, keys[i])) i++;
    return i < n;
}

// What kind of object it is. `mark` is the first line with a #, NULL: none.
static void look_at(Card *card, bool has_braces, const char *mark, bool has_order_mark) {
    static const char *const of_models[] = {"model_type", "architectures", "hidden_size"};
    static const char *const of_configs[] = {"rope_scaling", "rope_parameters",
                                             "max_position_embeddings",
                                             "dual_chunk_attention_config"};
    // A part of a wrapper's config, as --hf-overrides takes it, is a part of the text model's.
    for (const char *inner = inner_config(card->object);
         inner && !has_any(card->object, of_models, 3) && !has_any(card->object, of_configs, 4);
         inner = inner_config(card->object)) {
        card->object = inner;
        *(char *)json_behind(inner) = '\0';  // of our own copy
    }
    const char *object = card->object;
    const char *comma = json_loose(object, ',');
    bool is_of_model = has_any(object, of_models, 3);
    card->is_config = is_of_model || has_any(object, of_configs, 4);
    card->is_whole = is_of_model && has_braces && !json_loose(object, '.');
    if (!card->is_whole || !(comma || mark || has_order_mark)) return;
    int line = has_order_mark ? 1 : json_line(card->text, mark ? mark : comma);
    const char *what = has_order_mark ? "a byte order mark"
                       : mark         ? "a line that begins with #"
                                      : "a comma with nothing behind it";
    snprintf(card->mended, sizeof card->mended, "line %d: %s", line, what);
}

bool card_read(Card *card, const char *text, size_t length, Error *err) {
    *card = (Card){.text = alloc_array(length + 3, 1, "a config", err)};
    char *copy = card->text;
    const char *mark = NULL;
    if (!copy) return false;
    memcpy(copy + 1, text, length);
    copy[0] = copy[length + 1] = ' ';
    bool has_order_mark = strncmp(copy + 1, "\xEF\xBB\xBF", 3) == 0;
    if (has_order_mark) memset(copy + 1, ' ', 3);
    char *p = blank_front(copy + 1, &mark);
    bool has_braces = !*p || !strchr("\".\xE2", *p);  // else a key, or dots
    if (!has_braces) {
        copy[0] = '{';
        copy[length + 1] = '}';
    }
    bool good = fail_printed(copy, p, err) && json_check(copy, length + 2, err);
    card->object = copy + strspn(copy, WHITE_SPACE);
    if (good && *card->object != '{') good = fail(err, "line 1: not a JSON object");
    if (good) look_at(card, has_braces, mark, has_order_mark);
    if (!good) free(copy);
    return good;
}
