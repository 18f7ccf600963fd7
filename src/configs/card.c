// Turns pasted settings into JSON. Every line stays where it is, so that errors name the right
// line.
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

static const char WHITE_SPACE[] = " \t\r\n";
static const char FENCE[] = "```";

static bool is_fence(const char *line) {
    return strncmp(line, FENCE, 3) == 0 || strncmp(line, "~~~", 3) == 0;
}

static void blank(char *from, const char *to) {
    for (; from < to; from++)
        if (*from != '\n') *from = ' ';
}

// If a text does not begin like JSON, but has a fence between lines of backticks or tildes with
// JSON inside, everything outside the first such fence becomes blank.
static void blank_around(char *text) {
    char *inside = NULL;
    if (strchr("{\"[.#", text[strspn(text, WHITE_SPACE)])) return;
    for (char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        line += strspn(line, " \t\r");
        if (!is_fence(line)) continue;
        if (inside) {
            blank(text, inside);
            blank(line, line + strlen(line));
            return;
        }
        char *behind = line + strcspn(line, "\n");
        const char first = behind[strspn(behind, WHITE_SPACE)];
        if (first && strchr("{\".", first)) inside = behind;
    }
}

// Makes a fence and the lines that begin with # blank. Returns the place after them; *first_mark
// becomes the first line with a # (NULL: none).
static char *blank_front(char *p, const char **first_mark) {
    bool fenced = false;
    for (p += strspn(p, WHITE_SPACE); *p == '#' || is_fence(p); p += strspn(p, WHITE_SPACE)) {
        bool is_mark = *p == '#';
        if (is_mark && !*first_mark) *first_mark = p;
        fenced = fenced || !is_mark;
        while (*p && *p != '\n' && (is_mark || !strchr("{\"", *p))) *p++ = ' ';
    }
    char *end = p + strlen(p);
    while (end > p && strchr(WHITE_SPACE, end[-1])) end--;
    while (fenced && end > p && strchr("`~", end[-1])) *--end = ' ';
    return p;
}

// Fails if the text is another kind of file, which its first letters tell.
static bool fail_other(const char *text, const char *p, Error *err) {
    static const struct {
        const char *start, *what;
    } files[] = {
        {"<!", "a web page"},        {"<html", "a web page"},
        {"GGUF", "a GGUF file"},     {"version https://git-lfs", "a Git LFS pointer"},
        {"%YAML", "a file of YAML"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strncmp(p, files[i].start, strlen(files[i].start)) == 0)
            return fail(err, "line %d: this is %s (expected a config.json or its block)",
                        json_line(text, p), files[i].what);
    return true;
}

// Whether a text begins like a value of JSON, or with one stray letter, which json_check reports.
static bool begins_as_json(const char *p) {
    static const char *const words[] = {"true", "false", "null",      "NaN", "Infinity",
                                        "True", "False", "-Infinity", "None"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(p, words[i], strlen(words[i])) == 0) return true;
    bool is_number = isdigit((unsigned char)p[*p == '-']);
    return is_number || !(isalpha((unsigned char)*p) || (*p && strchr("-+@~$<>%", *p)));
}

// Fails, naming the text before an object that is not JSON: the class that print() shows, a Python
// name that the object is assigned to, or a key of YAML; otherwise the line, for example a command.
// export/common.py has the same messages.
static bool fail_named(const char *text, const char *p, Error *err) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    const char *from = strchr(p, '{') ? ", from the { on" : "";
    const size_t n = strspn(p, letters), most = n < 40 ? n : 40;
    int line = 0;
    const char *behind = p + n + strspn(p + n, WHITE_SPACE);
    const char *what = *behind == '{'   ? ", as print shows a config"
                       : *behind == '=' ? " =, as Python has it"
                       : *behind == ':' ? " without quotes, as YAML has it"
                                        : NULL;
    if (n > 0 && what)
        return fail(err, "line %d: found %.*s%s (expected JSON%s)", json_line(text, p), (int)most,
                    p, what, *behind == ':' ? "" : from);
    if (begins_as_json(p)) return true;
    while (line < 40 && p[line] >= ' ' && p[line] <= '~') line++;
    while (line > 0 && p[line - 1] == ' ') line--;
    return fail(err, "line %d: found %.*s (expected JSON%s)", json_line(text, p), line, p, from);
}

static bool has_any(const Json *object, const char *const *keys, size_t n) {
    size_t i = 0;
    while (i < n && !json_member(object, keys[i])) i++;
    return i < n;
}

// The config of the text model inside the config of a multimodal model: the first of
// family_containers that exists, otherwise the only member that has a model_type or architectures.
// NULL: none, or several.
static const Json *inner_config(const Json *object) {
    static const char *const of_models[] = {"model_type", "architectures"};
    const Json *found = NULL;
    int n = 0;
    for (int i = 0; i < N_CONTAINERS; i++) {
        const Json *inner = json_member(object, family_containers[i]);
        if (json_is_object(inner)) return inner;
    }
    for (const Json *v = json_members(object); v; v = v->next)
        if (v->kind == '{' && has_any(v, of_models, 2) && ++n) found = v;
    return n == 1 ? found : NULL;
}

// Finds the kind of the object. `mark` is the first line with a #, NULL: none.
static void look_at(Card *card, bool has_braces, const char *mark, bool has_order_mark) {
    static const char *const of_models[] = {"model_type", "architectures", "hidden_size"};
    static const char *const of_configs[] = {"rope_scaling", "rope_parameters",
                                             "max_position_embeddings",
                                             "dual_chunk_attention_config"};
    static const char *const of_either[] = {"rope_theta"};  // a config and a block
    // A part of a wrapper's config, in the form of --hf-overrides, is taken as a part of the text
    // model's config.
    for (const Json *inner = inner_config(card->object);
         inner && !has_any(card->object, of_models, 3) && !has_any(card->object, of_configs, 4) &&
         !has_any(card->object, of_either, 1);
         inner = inner_config(card->object)) {
        card->object = inner;
        add_name(card->inside, sizeof card->inside, "/", inner->key);
    }
    const Json *object = card->object;
    const size_t length = object == card->root ? strlen(object->text) : object->length;
    const char *comma = json_loose(object->text, length, ',');
    bool is_of_model = has_any(object, of_models, 3);
    card->is_config = is_of_model || has_any(object, of_configs, 4) || inner_config(object);
    card->is_whole = is_of_model && has_braces && !json_loose(object->text, length, '.');
    if (!card->is_whole || !(comma || mark || has_order_mark)) return;
    int line = has_order_mark ? 1 : json_line(card->text, mark ? mark : comma);
    const char *what = has_order_mark ? "a byte order mark"
                       : mark         ? "a line that begins with #"
                                      : "a comma after the last value";
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
    blank_around(copy + 1);
    char *p = blank_front(copy + 1, &mark);
    bool has_braces = !*p || !strchr("\".\xE2", *p);  // otherwise a key, or dots
    const char *end = p + strlen(p);
    while (end > p && strchr(WHITE_SPACE, end[-1])) end--;
    bool is_lone = *p == '"' && !strchr(p, ':') && end - p > 1 && end[-1] == '"';  // not a member
    if (!has_braces) {
        copy[0] = '{';
        copy[length + 1] = '}';
    }
    bool good = fail_other(copy, p, err) && fail_named(copy, p, err);
    if (good && is_lone) good = fail(err, "line %d: not a JSON object", json_line(copy, p));
    card->object = card->root = good ? json_parse(copy, length + 2, err) : NULL;
    good = card->root;
    if (good && card->root->kind != '{') good = fail(err, "line 1: not a JSON object");
    if (good) look_at(card, has_braces, mark, has_order_mark);
    else card_free(card);
    return good;
}

void card_free(Card *card) {
    free(card->root);
    free(card->text);
}

// ---- completing a part of a config ----

// Adds a member after others, unless the object already has the key or there is no value.
static void add_missing(char *whole, const Json *object, const char *key, double value) {
    if (value > 0 && !json_member(object, key))
        sprintf(whole + strlen(whole), ", \"%s\": %.17g", key, value);
}

// Renames all members of that name in a copy of the object's text, so that it has none of them.
static void rename_members(char *copy, const Json *object, const char *name) {
    for (const Json *v = json_members(object); v; v = v->next)
        if (strcmp(v->key, name) == 0)
            memset(copy + (v->name - object->text) + 1, '_', strcspn(v->name + 1, "\""));
}

char *config_complete(const Card *card, const Known *model, Error *err) {
    enum { MOST_MEMBERS = 480 };
    const Json *object = card->object;
    bool has_original = json_member(object, "original_max_position_embeddings");
    bool is_config = card->is_config;
    int most = has_original && model->max_positions ? model->max_positions : model->rope.train_ctx;
    char *whole = alloc_array(object->length + MOST_MEMBERS, 1, "a config", err);
    if (!whole) return NULL;
    if (config_names_family(object)) return memcpy(whole, object->text, object->length);
    const Json *beside = is_config ? object : NULL;
    // A block with sections and a share that rotates is Qwen 3.5's, for example. Other blocks are
    // read as a Llama's.
    const Json *part = json_member(object, "rope_parameters"), *block = is_config ? part : object;
    bool has_sections = !card->is_whole && json_member(block, "mrope_section") &&
                        json_member(block, "partial_rotary_factor");
    bool grows = !is_config && json_member(object, "llama_4_scaling_beta");
    FamilyWords family = model->latent ? FAMILY_LATENT : 0;
    if (grows) family |= FAMILY_GROWS | FAMILY_RUNS;
    else if (has_sections) family = FAMILY_AXES | FAMILY_PARTIAL;
    sprintf(whole, "{\"model_type\": \"%s\"", family_with(family)->model_type);
    add_missing(whole, beside, "head_dim", model->head_dim);
    if (model->latent) {
        int rotary_dim = model->rope.rotary_dim;
        add_missing(whole, beside, "qk_nope_head_dim", model->head_dim - rotary_dim);
        add_missing(whole, beside, "qk_rope_head_dim", rotary_dim);
    }
    add_missing(whole, beside, "hidden_size", model->head_dim);
    add_missing(whole, beside, "num_attention_heads", 1);
    add_missing(whole, beside, "rope_theta", model->rope.theta);
    add_missing(whole, beside, "max_position_embeddings", most);
    bool is_empty = is_config && !json_members(object);
    strcat(whole, is_empty ? "" : ", ");
    if (!is_config) strcat(whole, has_sections ? "\"rope_parameters\": " : "\"rope_scaling\": ");
    char *own = whole + strlen(whole);
    memcpy(own, object->text, object->length);
    own[object->length] = '\0';
    if (!is_config) return strcat(whole, "}");
    rename_members(own, object, "model_type");  // null or empty, so it names no family
    *own = ' ';
    return whole;
}
