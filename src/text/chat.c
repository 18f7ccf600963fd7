// The turns of a conversation as token ids, by the templates that Llama 2 and Llama 3 were published with.
#include "chat.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Ids that grow, and memory for the text of a message. What adds to them is false with the reason in err.
typedef struct {
    const Tokenizer *tokenizer;
    char *text;
    size_t capacity, n;  // of text, of ids
    int32_t *ids;
    Error *err;
} Turn;

static bool add(Turn *t, const int32_t *ids, size_t n) {
    if (n == 0) return true;
    int32_t *grown = t->n + n <= INT_MAX ? realloc(t->ids, (t->n + n) * sizeof *grown) : NULL;
    if (!grown) return fail(t->err, "no memory for a turn of %zu tokens", t->n + n);
    memcpy(grown + t->n, ids, n * sizeof *grown);
    t->ids = grown;
    t->n += n;
    return true;
}

static bool add_id(Turn *t, int id) { return id < 0 || add(t, &(int32_t){id}, 1); }
static bool add_special(Turn *t, const char *spelling) { return add_id(t, tokenizer_special(t->tokenizer, spelling)); }

static bool add_text(Turn *t, const char *text, size_t length) {
    size_t n;
    int32_t *ids = tokenizer_encode(t->tokenizer, text, length, &n, t->err);
    bool ok = ids && add(t, ids, n);
    free(ids);
    return ok;
}

int chat_end_of_turn(const Tokenizer *tokenizer) { return tokenizer_special(tokenizer, "<|eot_id|>"); }

bool chat_is_taught(const Tokenizer *tokenizer) {
    static const char *const marks[] = {"<|start_header_id|>", "<|im_start|>", "<|user|>", "[INST]"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (tokenizer_special(tokenizer, marks[i]) >= 0) return true;
    return false;
}

// Llama 2: <s>[INST] <<SYS>>\nsystem\n<</SYS>>\n\nuser [/INST] answer </s><s>[INST] user [/INST] ...
static bool add_llama2(Turn *t, const char *system_prompt, const char *user) {
    if (system_prompt[0])
        snprintf(t->text, t->capacity, "[INST] <<SYS>>\n%s\n<</SYS>>\n\n%s [/INST]", system_prompt, user);
    else snprintf(t->text, t->capacity, "[INST] %s [/INST]", user);
    return add_id(t, tokenizer_bos(t->tokenizer)) && add_text(t, t->text, strlen(t->text));
}

// One message of Llama 3's, without its end: <|start_header_id|>role<|end_header_id|>\n\ntext, trimmed as in the
// published template. The special tokens are put in as ids; their spelling is text, so no prompt can forge a turn.
static bool add_llama3(Turn *t, const char *role, const char *text) {
    static const char spaces[] = " \t\r\n\v\f";
    snprintf(t->text, t->capacity, "\n\n%s", text + strspn(text, spaces));
    size_t length = strlen(t->text);
    while (length > 2 && strchr(spaces, t->text[length - 1])) length--;
    return add_special(t, "<|start_header_id|>") && add_text(t, role, strlen(role)) &&
           add_special(t, "<|end_header_id|>") && add_text(t, t->text, length);
}

static bool add_turn(Turn *t, bool first, const char *system_prompt, const char *user, int before) {
    if (!add_id(t, before)) return false;
    if (tokenizer_special(t->tokenizer, "<|start_header_id|>") < 0) return add_llama2(t, system_prompt, user);
    int end = chat_end_of_turn(t->tokenizer);
    return (!first || add_id(t, tokenizer_bos(t->tokenizer))) &&
           (!system_prompt[0] || (add_llama3(t, "system", system_prompt) && add_id(t, end))) &&
           add_llama3(t, "user", user) && add_id(t, end) && add_llama3(t, "assistant", "");
}

int32_t *chat_turn(const Tokenizer *tokenizer, bool first, const char *system_prompt, const char *user, int before,
                   int *n, Error *err) {
    if (!first) system_prompt = "";
    Turn t = {.tokenizer = tokenizer, .capacity = strlen(system_prompt) + strlen(user) + 64, .err = err};
    t.text = alloc_array(t.capacity, 1, "a turn", err);
    bool ok = t.text && add_turn(&t, first, system_prompt, user, before);
    if (ok && !t.ids) ok = fail(err, "the turn is empty");
    free(t.text);
    *n = (int)t.n;
    if (ok) return t.ids;
    free(t.ids);
    return NULL;
}
