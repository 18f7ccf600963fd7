// Checks of a config by transformers before any other step, since 5.4: the types of the fields of
// its config classes, as these declare them (field_types.h).
#include <stdio.h>
#include <string.h>

#include "../configs/json.h"
#include "made/field_types.h"
#include "reading.h"

enum { N_FIELD_NAMES = sizeof field_names / sizeof *field_names };

// The values for a letter of field_types.h, by their initial below, and for the items of lists.
static const struct {
    char letter;
    const char *values;
    char items;  // 0: any item
} field_kinds[] = {
    {'i', "i", 0},   {'I', "iN", 0},    {'f', "f", 0},    {'F', "fN", 0},   {'n', "fi", 0},
    {'N', "fiN", 0}, {'b', "b", 0},     {'B', "bN", 0},   {'s', "s", 0},    {'S', "sN", 0},
    {'l', "l", 0},   {'L', "lN", 0},    {'d', "d", 0},    {'D', "dN", 0},   {'x', "il", 'i'},
    {'y', "l", 'i'}, {'X', "ilN", 'i'}, {'Y', "lN", 'i'}, {'t', "l", 's'}, {'T', "lN", 's'},
};

// The type that Python's parser of JSON gives a value; its initial is that of field_kinds.
static const char *python_type(const Json *v) {
    if (v->kind == '{') return "dict";
    if (v->kind == '[') return "list";
    if (v->kind == '"') return "str";
    if (v->kind == 't' || v->kind == 'f') return "bool";
    if (v->kind == 'n') return "NoneType";
    return json_is_whole(v) ? "int" : "float";
}

// Whether a field with this letter takes a value; the names of its types go to `expected`.
static bool field_takes(char letter, const Json *v, char *expected, size_t size) {
    size_t row = 0;
    while (field_kinds[row].letter != letter) row++;
    const char *values = field_kinds[row].values, items = field_kinds[row].items;
    *expected = '\0';
    for (const char *at = values; *at; at++)
        add_name(expected, size, " or ",
                 *at == 'i'   ? "int"
                 : *at == 'f' ? "float"
                 : *at == 'b' ? "bool"
                 : *at == 's' ? "str"
                 : *at == 'l' ? (items == 'i' ? "list of int" : items == 's' ? "list of str" : "list")
                 : *at == 'd' ? "dict"
                              : "None");
    bool good = strchr(values, python_type(v)[0]);
    for (const Json *item = v->kind == '[' && items ? json_items(v) : NULL; item; item = item->next)
        good = good && python_type(item)[0] == items;
    return good;
}

// The letters of the config's class. NULL: its class was not verified.
static const char *types_of(const Config *c) {
    const Json *own = family_model_type(c->config);
    const char *const names[] = {own && own->string ? own->string : "", c->family->model_type};
    for (int i = 0; i < 2; i++)
        for (size_t row = 0; row < sizeof field_rows / sizeof *field_rows; row++)
            if (names[i][0] && has_word(field_rows[row].model_types, names[i]))
                return field_rows[row].types;
    return NULL;
}

bool reading_has_field(const Config *c, const char *key) {
    const char *types = types_of(c);
    for (int i = 0; types && i < N_FIELD_NAMES; i++)
        if (strcmp(field_names[i], key) == 0) return types[i] != '-';
    return false;
}

// The names allowed in layer_types, since 5.4 also in classes that do not read it.
static const char layer_type_names[] =
    "full_attention sliding_attention chunked_attention window_attention indexed_attention "
    "compressed_sparse_attention heavily_compressed_attention minimax_m3_sparse conv moe hybrid "
    "hybrid_sliding reference_sliding_attention linear_attention sparse dense mamba attention "
    "deepseek_sparse_attention qwen_sparse_attention";

static void refuse_layer_names(Config *c) {
    const Json *list = json_member(c->config, "layer_types");
    for (const Json *v = json_items(list); v; v = v->next) {
        char words[160];
        if (json_is_one_of(v, layer_type_names)) continue;
        snprintf(words, sizeof words,
                 "StrictDataclassClassValidationError: layer_types cannot have %s",
                 config_word(v).text);
        config_refuse(c, v->string, words);
    }
}

void reading_refuse_fields(Config *c) {
    const char *types = reading_has_rule(c, RULE_FIELDS) ? types_of(c) : NULL;
    for (int i = 0; types && i < N_FIELD_NAMES; i++) {
        const Json *v = json_member(c->config, field_names[i]);
        char expected[60], words[200];
        if (!v || types[i] == '-' || field_takes(types[i], v, expected, sizeof expected)) continue;
        snprintf(words, sizeof words,
                 "StrictDataclassFieldValidationError: '%s' expected %s, got %s (%s)",
                 field_names[i], expected, python_type(v), config_word(v).text);
        config_refuse(c, true, words);
    }
    if (reading_has_rule(c, RULE_FIELDS)) refuse_layer_names(c);
}
