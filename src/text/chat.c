#include "chat.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Ids that grow. `failed` once something could not be added: all that follows is without effect.
typedef struct {
    const Tokenizer *tokenizer;
    int32_t *ids;
    size_t n;
    bool failed;
    Error *err;
} Turn;

static void add(Turn *t, const int32_t *ids, size_t n) {
    if (t->failed || n == 0) return;
    int32_t *grown = t->n + n <= INT_MAX ? realloc(t->ids, (t->n + n) * sizeof *grown) : NULL;
    if (!grown) {
        t->failed = !fail(t->err, "no memory for a turn of %zu tokens", t->n + n);
        return;
    }
    memcpy(grown + t->n, ids, n * sizeof *grown);
    t->ids = grown;
    t->n += n;
}

static void add_id(Turn *t, int id) {
    if (id >= 0) add(t, &(int32_t){id}, 1);
}

static void add_text(Turn *t, const char *text, size_t length) {
    size_t n;
    int32_t *ids = t->failed ? NULL : tokenizer_encode(t->tokenizer, text, length, &n, t->err);
    if (ids) add(t, ids, n);
    else t->failed = true;
    free(ids);
}

int chat_end_of_turn(const Tokenizer *tokenizer) { return tokenizer_special(tokenizer, "<|eot_id|>"); }

// Llama 2: <s>[INST] <<SYS>>\nsystem\n<</SYS>>\n\nuser [/INST] answer </s><s>[INST] user [/INST] ...
static void add_llama2(Turn *t, const char *system_prompt, const char *user) {
    size_t room = strlen(system_prompt) + strlen(user) + 64;
    char *text = alloc_array(room, 1, "a turn", t->err);
    if (!text) {
        t->failed = true;
        return;
    }
    if (system_prompt[0]) snprintf(text, room, "[INST] <<SYS>>\n%s\n<</SYS>>\n\n%s [/INST]", system_prompt, user);
    else snprintf(text, room, "[INST] %s [/INST]", user);
    add_id(t, tokenizer_bos(t->tokenizer));
    add_text(t, text, strlen(text));
    free(text);
}

// One message of Llama 3's, without its end: <|start_header_id|>role<|end_header_id|>\n\ntext, the text trimmed as in the
// published template. The special tokens are put in as ids; in a text their spelling is text, so no prompt can forge a turn.
static void add_llama3_message(Turn *t, const char *role, const char *text) {
    static const char spaces[] = " \t\r\n\v\f";
    text += strspn(text, spaces);
    size_t length = strlen(text);
    while (length > 0 && strchr(spaces, text[length - 1])) length--;
    add_id(t, tokenizer_special(t->tokenizer, "<|start_header_id|>"));
    add_text(t, role, strlen(role));
    add_id(t, tokenizer_special(t->tokenizer, "<|end_header_id|>"));
    char *body = alloc_array(length + 2, 1, "a turn", t->err);
    if (!body) {
        t->failed = true;
        return;
    }
    memcpy(body, "\n\n", 2);
    memcpy(body + 2, text, length);
    add_text(t, body, length + 2);
    free(body);
}

int32_t *chat_turn(const Tokenizer *tokenizer, bool first, const char *system_prompt, const char *user, int before,
                   int *n, Error *err) {
    Turn t = {.tokenizer = tokenizer, .err = err};
    add_id(&t, before);
    if (tokenizer_special(tokenizer, "<|start_header_id|>") < 0) {
        add_llama2(&t, first ? system_prompt : "", user);
    } else {
        if (first) add_id(&t, tokenizer_bos(tokenizer));
        if (first && system_prompt[0]) {
            add_llama3_message(&t, "system", system_prompt);
            add_id(&t, chat_end_of_turn(tokenizer));
        }
        add_llama3_message(&t, "user", user);
        add_id(&t, chat_end_of_turn(tokenizer));
        add_llama3_message(&t, "assistant", "");
    }
    *n = (int)t.n;
    if (!t.failed && t.ids) return t.ids;
    if (!t.failed) fail(err, "the turn is empty");
    free(t.ids);
    return NULL;
}
