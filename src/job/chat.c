// The turns of a conversation as token ids, by the templates that models were published with.
#include "chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { TRIMS_NOTHING, TRIMS_USER, TRIMS_ALL } Trims;

// How a family of models writes turns. {...} is a special token, {} is BOS, & the system prompt, $
// the user's message. Special tokens in a message are encoded as plain text, so no prompt can forge
// a turn.
typedef struct {
    const char *
        told_by;  // a special token of this family's tokenizers that the families below do not have
    const char *end_of_turn;      // a special token, NULL: the text's end
    const char *closing;          // what stands in its place in a later turn's prompt, NULL: itself
    Trims trims;                  // what loses the spaces around it
    const char *begin, *between;  // what opens the first turn, and each other one
    const char *system, *user;    // a turn: the system prompt only where there is one
} Family;

// docs/checkpoints.md says what is left out of the templates.
static const Family chat_families[] = {
    // ChatML: Qwen2.5-7B-Instruct, and SmolLM3-3B, which has Llama 3's tokens but does not use
    // them.
    {"<|im_start|>", "<|im_end|>", NULL, TRIMS_NOTHING, "", "\n",
     "{<|im_start|>}system\n&{<|im_end|>}\n",
     "{<|im_start|>}user\n${<|im_end|>}\n{<|im_start|>}assistant\n"},
    // Llama-3.1-8B-Instruct.
    {"<|start_header_id|>", "<|eot_id|>", NULL, TRIMS_ALL, "{}", "",
     "{<|start_header_id|>}system{<|end_header_id|>}\n\n&{<|eot_id|>}",
     "{<|start_header_id|>}user{<|end_header_id|>}\n\n${<|eot_id|>}"
     "{<|start_header_id|>}assistant{<|end_header_id|>}\n\n"},
    // gpt-oss-20b: OpenAI's harmony format. Instructions are the developer's; the system's message
    // is always the same.
    {"<|channel|>", "<|return|>", "<|end|>", TRIMS_NOTHING,
     "{<|start|>}system{<|message|>}You are ChatGPT, a large language model trained by OpenAI.\n"
     "Knowledge cutoff: 2024-06\n\nReasoning: medium\n\n"
     "# Valid channels: analysis, commentary, final. Channel must be included for every "
     "message.{<|end|>}",
     "", "{<|start|>}developer{<|message|>}# Instructions\n\n&\n\n{<|end|>}",
     "{<|start|>}user{<|message|>}${<|end|>}{<|start|>}assistant"},
    // Phi-3-mini-4k-instruct.
    {"<|assistant|>", "<|end|>", NULL, TRIMS_NOTHING, "{}", "\n", "{<|system|>}\n&{<|end|>}\n",
     "{<|user|>}\n${<|end|>}\n{<|assistant|>}\n"},
    // Gemma 3, whose system prompt opens the first message.
    {"<start_of_turn>", "<end_of_turn>", NULL, TRIMS_USER, "{}{<start_of_turn>}user\n",
     "\n{<start_of_turn>}user\n", "&\n\n", "${<end_of_turn>}\n{<start_of_turn>}model\n"},
    // Mistral-7B-Instruct-v0.3.
    {"[INST]", NULL, NULL, TRIMS_NOTHING, "{}{[INST]}", "{[INST]}", "&\n\n", "${[/INST]}"},
    // Llama-2-7b-chat.
    {NULL, NULL, NULL, TRIMS_NOTHING, "{}[INST] ", "{}[INST] ", "<<SYS>>\n&\n<</SYS>>\n\n",
     "$ [/INST]"},
};

// The ids so far, and the text behind the last special token.
typedef struct {
    const Tokenizer *tokenizer;
    Error *err;
    char *text;
    size_t n_text, n, capacity;  // of text, of ids
    int32_t *ids;
    int special;  // the special token that was added last, -1: none
} Turn;

// Encodes the text so far, without spaces that belong to the token before it, and adds `special`
// (-1: none).
static bool end_text(Turn *t, int special) {
    size_t at = tokenizer_skip_spaces(t->tokenizer, t->special, t->text, t->n_text), n;
    int32_t *ids = tokenizer_encode(t->tokenizer, t->text + at, t->n_text - at, false, &n, t->err);
    bool ok = ids && grow(&t->ids, &t->capacity, t->n + n + 1, sizeof *ids, "a turn", t->err);
    if (ok) {
        memcpy(t->ids + t->n, ids, n * sizeof *ids);
        t->n += n;
        if (special >= 0) t->ids[t->n++] = special;
    }
    free(ids);
    t->special = special;
    t->n_text = 0;
    return ok;
}

static void put_turn(Turn *t, const char *text, bool trims) {
    static const char spaces[] = " \t\r\n\v\f";
    if (trims) text += strspn(text, spaces);
    size_t length = strlen(text);
    while (trims && length > 0 && strchr(spaces, text[length - 1])) length--;
    memcpy(t->text + t->n_text, text, length);
    t->n_text += length;
}

static const Family *chat_family(const Tokenizer *tokenizer) {
    const Family *f = chat_families;
    while (f->told_by && tokenizer_special(tokenizer, f->told_by) < 0) f++;
    return f;
}

bool chat_is_taught(const Tokenizer *tokenizer) { return chat_family(tokenizer)->told_by != NULL; }

int chat_end_of_turn(const Tokenizer *tokenizer) {
    const Family *f = chat_family(tokenizer);
    return f->end_of_turn ? tokenizer_special(tokenizer, f->end_of_turn) : -1;
}

// The token that stands behind the last answer, given the one that ended it or -1.
static int closing_of(const Tokenizer *tokenizer, const Family *f, int before) {
    bool is_other = f->closing && before >= 0;
    return is_other ? tokenizer_special(tokenizer, f->closing) : before;
}

int32_t *chat_turn(const Tokenizer *tokenizer, bool first, const char *system_prompt,
                   const char *user, int before, size_t *n, Error *err) {
    const Family *f = chat_family(tokenizer);
    char template[768], name[32];
    snprintf(template, sizeof template, "%s%s%s", first ? f->begin : f->between,
             first && system_prompt[0] ? f->system : "", f->user);
    Turn t = {.tokenizer = tokenizer, .err = err, .special = -1};
    t.text = alloc_array(strlen(system_prompt) + strlen(user) + sizeof template, 1, "a turn", err);
    bool ok = t.text && end_text(&t, closing_of(tokenizer, f, before));
    for (const char *at = template; ok && *at; at++) {
        if (*at == '&') put_turn(&t, system_prompt, f->trims == TRIMS_ALL);
        else if (*at == '$') put_turn(&t, user, f->trims != TRIMS_NOTHING);
        else if (*at != '{') t.text[t.n_text++] = *at;
        else {
            int length = (int)strcspn(at, "}") - 1;
            snprintf(name, sizeof name, "%.*s", length, at + 1);
            at += length + 1;
            ok =
                end_text(&t, *name ? tokenizer_special(tokenizer, name) : tokenizer_bos(tokenizer));
        }
    }
    ok = ok && end_text(&t, -1) && (t.n > 0 || fail(err, "the turn is empty"));
    free(t.text);
    *n = t.n;
    return keep_if(ok, t.ids);
}

// ---- answers ----

ChatAnswer chat_answer(const Tokenizer *tokenizer) {
    ChatAnswer a = {.tokenizer = tokenizer, .opens = -1, .names = -1, .begins = -1, .ends = -1};
    const char *told_by = chat_family(tokenizer)->told_by;
    if (!told_by || strcmp(told_by, "<|channel|>") != 0) return a;
    a.opens = tokenizer_special(tokenizer, "<|start|>");
    a.names = tokenizer_special(tokenizer, "<|channel|>");
    a.begins = tokenizer_special(tokenizer, "<|message|>");
    a.ends = tokenizer_special(tokenizer, "<|end|>");
    a.in_header = true;
    return a;
}

// Adds what a token says to the channel's name, as far as there is room: longer names are not those
// that count.
static void add_to_name(ChatAnswer *a, int token) {
    size_t length;
    const char *bytes = tokenizer_decode(a->tokenizer, -1, token, &length);
    for (size_t i = 0; i < length && a->n_name + 1 < sizeof a->name; i++)
        a->name[a->n_name++] = bytes[i];
    a->name[a->n_name] = '\0';
}

bool chat_shows(ChatAnswer *a, int token) {
    if (a->names < 0) return true;
    if (token == a->opens || token == a->ends) {
        *a = (ChatAnswer){a->tokenizer, a->opens, a->names, a->begins, a->ends, .in_header = true};
    } else if (token == a->names) {
        a->in_name = true;
    } else if (token == a->begins) {
        a->in_header = a->in_name = false;
    } else if (a->in_name) {
        add_to_name(a, token);
    } else if (!a->in_header) {
        // The name's first word; what may follow it is about calls of tools.
        size_t length = strcspn(a->name, " ");
        return length == 0 || (length == 5 && memcmp(a->name, "final", 5) == 0);
    }
    return false;
}
