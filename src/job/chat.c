// Encodes the turns of a conversation, in the templates that models were published with.
#include "chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPLIT_OF_QWEN35 = 8 };  // docs/format.md

// The turns of a family of models. {...} is a special token, {} is BOS, & the system prompt, $ the
// user's message, and (...) trims the white space around its contents. Special tokens in a message
// are encoded as plain text, so no prompt can forge a turn.
typedef struct {
    // A special token of this family's tokenizers that the families below do not have. NULL:
    // `guess` names the family, and the id of the token " " identifies it (0: any).
    const char *told_by;
    // Further conditions on its tokenizers: a token, special or not, and a pattern. NULL, 0: none.
    const char *beside;
    int split;
    const char *guess;
    int space_id;
    const char *end_of_turn;  // a special token, NULL: the end of the text
    const char *closing;      // its replacement in the prompt of a later turn, NULL: itself
    bool spaced;              // a " " precedes the replacement
    bool in_text;             // its tokens may be looked up in texts: a message can then spell them
    const char *begin, *between;  // the beginning of the first turn, and of each later one, NULL:
                                  // none
    const char *system, *user;    // a turn; the system prompt only if there is one
    const char *without;          // replaces it if there is no system prompt, NULL: none
    // The text before an answer that begins with thoughts, and before an answer without thoughts.
    // NULL: the family has no such modes.
    const char *thinks, *thinks_not;
} Family;

// ChatML, the most common form of turns, and a form that two families share.
#define CHATML_TURNS_OF(system_prompt, message)                                                    \
    .told_by = "<|im_start|>", .end_of_turn = "<|im_end|>", .between = "\n",                       \
    .system = "{<|im_start|>}system\n" system_prompt "{<|im_end|>}\n",                             \
    .user = "{<|im_start|>}user\n" message "{<|im_end|>}\n{<|im_start|>}assistant\n"
#define CHATML_TURNS CHATML_TURNS_OF("&", "$")
#define DEEPSEEK_TURNS                                                                             \
    .told_by = "<\uFF5CAssistant\uFF5C>", .in_text = true,                                         \
    .end_of_turn = "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",                                      \
    .begin = "{<\uFF5Cbegin\u2581of\u2581sentence\uFF5C>}", .system = "&",                         \
    .user = "{<\uFF5CUser\uFF5C>}${<\uFF5CAssistant\uFF5C>}"
#define NO_THOUGHTS "<think>\n\n</think>\n\n"

// A row for each family, as in the template of the model in its comment. docs/checkpoints.md lists
// the parts of templates that are left out.
static const Family chat_families[] = {
    // Nemotron-3-Nano, whose system turn is always there.
    {CHATML_TURNS, .beside = "<SPECIAL_30>", .in_text = true,
     .without = "{<|im_start|>}system\n{<|im_end|>}\n", .thinks = "{<think>}\n",
     .thinks_not = "{<think>}{</think>}"},
    // LFM2.5-Instruct.
    {CHATML_TURNS, .beside = "<|startoftext|>", .begin = "{}"},
    // Qwen3.5-4B.
    {CHATML_TURNS_OF("(&)", "($)"), .split = SPLIT_OF_QWEN35, .thinks = "<think>\n",
     .thinks_not = NO_THOUGHTS},
    // SmolLM3-3B, which has Llama 3's tokens but does not use them.
    {CHATML_TURNS, .beside = "<|start_header_id|>"},
    // Qwen3-0.6B.
    {CHATML_TURNS, .beside = "<think>", .thinks = "", .thinks_not = NO_THOUGHTS},
    // Qwen2.5-7B-Instruct.
    {CHATML_TURNS},
    // Llama-3.1-8B-Instruct.
    {.told_by = "<|start_header_id|>",
     .end_of_turn = "<|eot_id|>",
     .begin = "{}",
     .system = "{<|start_header_id|>}system{<|end_header_id|>}\n\n(&){<|eot_id|>}",
     .user = "{<|start_header_id|>}user{<|end_header_id|>}\n\n($){<|eot_id|>}"
             "{<|start_header_id|>}assistant{<|end_header_id|>}\n\n"},
    // gpt-oss-20b: OpenAI's harmony format. Instructions are the developer's; the system's message
    // is always the same.
    {.told_by = "<|channel|>",
     .end_of_turn = "<|return|>",
     .closing = "<|end|>",
     .begin = "{<|start|>}system{<|message|>}You are ChatGPT, a large language model trained by "
              "OpenAI.\nKnowledge cutoff: 2024-06\n\nReasoning: medium\n\n"
              "# Valid channels: analysis, commentary, final. Channel must be included for every "
              "message.{<|end|>}",
     .system = "{<|start|>}developer{<|message|>}# Instructions\n\n&\n\n{<|end|>}",
     .user = "{<|start|>}user{<|message|>}${<|end|>}{<|start|>}assistant"},
    // Phi-3-mini-4k-instruct.
    {.told_by = "<|assistant|>",
     .end_of_turn = "<|end|>",
     .begin = "{}",
     .between = "\n",
     .system = "{<|system|>}\n&{<|end|>}\n",
     .user = "{<|user|>}\n${<|end|>}\n{<|assistant|>}\n"},
    // Gemma 3, whose system prompt opens the first message.
    {.told_by = "<start_of_turn>",
     .end_of_turn = "<end_of_turn>",
     .begin = "{}{<start_of_turn>}user\n",
     .between = "\n{<start_of_turn>}user\n",
     .system = "&\n\n",
     .user = "($){<end_of_turn>}\n{<start_of_turn>}model\n"},
    // DeepSeek-V3.2, and V3.1, whose tokenizer has tokens for searches, unlike older ones.
    {DEEPSEEK_TURNS, .beside = "<\uFF5Csearch\u2581begin\uFF5C>", .thinks = "{<think>}",
     .thinks_not = "{</think>}"},
    // DeepSeek-V3, and models distilled from R1.
    {DEEPSEEK_TURNS},
    // Kimi-K2-Instruct.
    {.told_by = "<|im_user|>",
     .end_of_turn = "<|im_end|>",
     .system = "{<|im_system|>}system{<|im_middle|>}&{<|im_end|>}",
     .user = "{<|im_user|>}user{<|im_middle|>}${<|im_end|>}"
             "{<|im_assistant|>}assistant{<|im_middle|>}"},
    // granite-4.0-h-small.
    {.told_by = "<|start_of_role|>",
     .end_of_turn = "<|end_of_text|>",
     .between = "\n",
     .system = "{<|start_of_role|>}system{<|end_of_role|>}&{<|end_of_text|>}\n",
     .user = "{<|start_of_role|>}user{<|end_of_role|>}${<|end_of_text|>}\n"
             "{<|start_of_role|>}assistant{<|end_of_role|>}"},
    // NVIDIA-Nemotron-Nano-9B-v2.
    {.told_by = "<SPECIAL_11>",
     .in_text = true,
     .end_of_turn = "<SPECIAL_12>",
     .between = "\n",
     .system = "{<SPECIAL_10>}System\n(&)\n\n",
     .without = "{<SPECIAL_10>}System\n\n\n",
     .user = "{<SPECIAL_11>}User\n($)\n{<SPECIAL_11>}Assistant\n",
     .thinks = "<think>\n",
     .thinks_not = "<think></think>"},
    // Mistral-Small-3.2-24B-Instruct-2506: Mistral's version 7 and later.
    {.told_by = "[SYSTEM_PROMPT]",
     .begin = "{}",
     .system = "{[SYSTEM_PROMPT]}&{[/SYSTEM_PROMPT]}",
     .user = "{[INST]}${[/INST]}"},
    // Mistral-7B-Instruct-v0.3 and Mistral-Nemo-Instruct-2407: versions 2 and 3.
    {.told_by = "[INST]",
     .begin = "{}{[INST]}",
     .between = "{[INST]}",
     .system = "&\n\n",
     .user = "${[/INST]}"},
    // Mistral-7B-Instruct-v0.1 and v0.2.
    {.guess = "Mistral 7B's",
     .space_id = 28705,
     .begin = "{}[INST] ",
     .between = "[INST] ",
     .system = "&\n\n",
     .user = "$ [/INST]"},
    // Llama-2-7b-chat.
    {.guess = "Llama 2's",
     .spaced = true,
     .begin = "{}[INST] (",
     .between = "{}[INST] (",
     .system = "<<SYS>>\n&\n<</SYS>>\n\n",
     .user = "$) [/INST]"},
};

// A turn that is being encoded: the ids so far, and the text after the last special token.
typedef struct {
    const Tokenizer *tokenizer;
    Error *err;
    char *text;
    size_t n_text, n, capacity;  // number of bytes, number of ids, and their capacity
    int32_t *ids;
    int special;  // the special token that was added last, -1: none
} Turn;

// Encodes the text so far, without spaces that belong to the token before it, and appends the token
// `special` (-1: none).
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

static void put_text(Turn *t, const char *text) {
    size_t length = strlen(text);
    memcpy(t->text + t->n_text, text, length);
    t->n_text += length;
}

// The characters that Python's str.strip() removes, with which the templates trim: the property
// White_Space, and four separators of ASCII.
static bool is_white(uint32_t code) {
    if (code <= ' ') return code == ' ' || (code >= 9 && code <= 13) || (code >= 28 && code <= 31);
    return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
           code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

// Removes the white space at both ends of the text after `from`.
static void trim(Turn *t, size_t from) {
    size_t n;
    size_t at = from;
    while (at < t->n_text && is_white(utf8_decode(t->text + at, t->n_text - at, &n))) at += n;
    t->n_text -= at - from;
    memmove(t->text + from, t->text + at, t->n_text - from);
    while (t->n_text > from) {
        at = t->n_text - 1;
        while (at > from && ((unsigned char)t->text[at] & 0xC0) == 0x80) at--;
        bool white = is_white(utf8_decode(t->text + at, t->n_text - at, &n));
        if (!white || at + n < t->n_text) return;
        t->n_text = at;
    }
}

// The id of a name that is a single token when it is encoded as text, -1: none.
static int text_token(const Tokenizer *tokenizer, const char *name) {
    size_t n;
    Error err;
    int32_t *ids = tokenizer_encode(tokenizer, name, strlen(name), false, &n, &err);
    int id = ids && n == 1 ? ids[0] : -1;
    free(ids);
    return id;
}

// The id of a token that turns are written with, -1: none.
static int turn_token(const Tokenizer *tokenizer, const Family *f, const char *name) {
    int id = tokenizer_special(tokenizer, name);
    return id < 0 && f->in_text ? text_token(tokenizer, name) : id;
}

static bool is_told(const Tokenizer *tokenizer, const Family *f) {
    const char *also = f->beside;
    if (f->split && tokenizer_split(tokenizer) != f->split) return false;
    if (also && tokenizer_special(tokenizer, also) < 0 && text_token(tokenizer, also) < 0)
        return false;
    if (f->told_by) return turn_token(tokenizer, f, f->told_by) >= 0;
    return f->space_id == 0 || tokenizer_ordinary(tokenizer, " ") == f->space_id;
}

static const Family *chat_family(const Tokenizer *tokenizer) {
    const Family *f = chat_families;
    while (!is_told(tokenizer, f)) f++;
    return f;
}

const char *chat_guess(const Tokenizer *tokenizer) { return chat_family(tokenizer)->guess; }

int chat_end_of_turn(const Tokenizer *tokenizer) {
    const Family *f = chat_family(tokenizer);
    return f->end_of_turn ? tokenizer_special(tokenizer, f->end_of_turn) : -1;
}

bool chat_is_taught(const Tokenizer *tokenizer, const int *eos_ids, int n_eos) {
    const Family *f = chat_family(tokenizer);
    const int end = chat_end_of_turn(tokenizer);
    bool ends_texts = false;
    for (int i = 0; i < n_eos; i++) {
        size_t length = 1;
        tokenizer_decode(tokenizer, -1, eos_ids[i], &length);
        ends_texts = ends_texts || length == 0;  // a special token
    }
    if (f->guess) return false;
    return end < 0 || !ends_texts || tokenizer_ends_text(tokenizer, end, eos_ids, n_eos);
}

// Adds the text after the last answer, given the token that ended it, or -1.
static bool close_answer(Turn *t, const Family *f, int before) {
    if (before < 0) return true;
    int closing = f->closing ? tokenizer_special(t->tokenizer, f->closing) : before;
    return (!f->spaced || end_text(t, tokenizer_ordinary(t->tokenizer, " "))) &&
           end_text(t, closing);
}

// Adds the special token whose name begins at *at with {, and moves *at to the end of the name.
static bool put_special(Turn *t, const Family *f, const char **at) {
    char name[32];
    int length = (int)strcspn(*at, "}") - 1;
    snprintf(name, sizeof name, "%.*s", length, *at + 1);
    *at += length + 1;
    const Tokenizer *tokenizer = t->tokenizer;
    return end_text(t, length ? turn_token(tokenizer, f, name) : tokenizer_bos(tokenizer));
}

bool chat_has_thoughts(const Tokenizer *tokenizer) { return chat_family(tokenizer)->thinks; }

int32_t *chat_turn(const Tokenizer *tokenizer, bool first, const char *system_prompt,
                   const char *user, bool thinks, int before, size_t *n, Error *err) {
    const Family *f = chat_family(tokenizer);
    const char *mode = thinks ? f->thinks : f->thinks_not;
    const char *system = system_prompt[0] ? f->system : f->without;
    char template[768];
    const char *opening = first ? f->begin : f->between;
    snprintf(template, sizeof template, "%s%s%s%s", opening ? opening : "",
             first && system ? system : "", f->user, mode ? mode : "");
    Turn t = {.tokenizer = tokenizer, .err = err, .special = -1};
    t.text = alloc_array(strlen(system_prompt) + strlen(user) + sizeof template, 1, "a turn", err);
    size_t from = 0;  // the beginning of the text that will be trimmed
    bool ok = t.text && close_answer(&t, f, before);
    for (const char *at = template; ok && *at; at++) {
        if (*at == '&') put_text(&t, system_prompt);
        else if (*at == '$') put_text(&t, user);
        else if (*at == '(') from = t.n_text;
        else if (*at == ')') trim(&t, from);
        else if (*at != '{') t.text[t.n_text++] = *at;
        else ok = put_special(&t, f, &at);
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

// Adds the text of a token to the channel's name, as far as there is room. The names that matter
// are short enough.
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
        // The first word of the name. Further words concern calls of tools.
        size_t length = strcspn(a->name, " ");
        return length == 0 || (length == 5 && memcmp(a->name, "final", 5) == 0);
    }
    return false;
}
