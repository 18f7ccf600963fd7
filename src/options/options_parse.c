// Parses the command line, word by word, with the table of options.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "../base/names.h"
#include "options.h"

// Removed options, the version that removed them, and their replacement.
static const struct {
    const char *name, *version, *instead;
} removed_options[] = {
    {"--anchor", "4.0", "--check --like FILE compares with a model that is known to be healthy"},
    {"--min-updates", "4.0", "--tasks updates --min-accuracy A asks the same"},
    {"--crowd", "5.0", "--check counts many keys in one text by itself"},
    {"--min-page", "5.0", "--tasks copy --min-accuracy A judges a page that is read twice"},
    {"--search", "6.0", "python3 tools/search.py MODEL TEXT -n N searches, by --ppl"},
    {"--search-windows", "6.0", "tools/search.py --windows K"},
    {"--reads", "6.0", "tools/search.py --reads K"},
};

// Fails for a word that is not an option: a removed one, -n20, another program's option, or a
// typing error.
static bool fail_unknown_option(char **option, const char *nearest, Error *err) {
    char apart[40], name[3];
    const char *word = option[0], *other;
    snprintf(name, sizeof name, "%s", word);
    bool holds_value = word[1] != '-' && word[2] && strchr("0123456789.", word[2]);  // -n20
    if (holds_value && option_find(name, &other) >= 0) {
        snprintf(apart, sizeof apart, "%s %.30s", name, word + 2);
        nearest = apart;
    }
    for (size_t i = 0; i < sizeof removed_options / sizeof removed_options[0]; i++) {
        size_t length = strlen(removed_options[i].name);
        if (strcspn(word, "=") == length && !strncasecmp(word, removed_options[i].name, length))
            return fail(err, "%s was removed in version %s (%s)", removed_options[i].name,
                        removed_options[i].version, removed_options[i].instead);
    }
    return fail_no_option(option, nearest, err);
}

static bool takes(const Setting *option, const char *argument) {
    return option->argument && strcmp(option->argument, argument) == 0;
}

// Checks the value of an option: the word after it, unless that is an option itself. A prompt may
// be any word.
static bool check_value(const Setting *option, const char *next, Error *err) {
    const char *nearest;
    bool is_option = next && !takes(option, "TEXT") && option_find(next, &nearest) >= 0;
    if (next && !is_option) return true;
    return fail(err, "%s needs a value (%s%s%s)", option->option, option->argument,
                is_option ? ", found the option " : "", is_option ? next : "");
}

// Parses two numbers for the option `name`.
static bool read_pair(const char *name, const char *text, int *pair, Error *err) {
    int length = 0;
    bool has_digits = !text[strspn(text, "0123456789.")];
    bool good = has_digits && sscanf(text, "%7d.%7d%n", pair, pair + 1, &length) == 2;
    if (good && !text[length]) return true;
    return fail(err, "%s: expected LAYER.HEAD, such as 3.5 (found '%.60s')", name, text);
}

static int by_tokens(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

// Parses lengths between commas, for --check. The longest one is the length of the job.
static bool read_lengths(const Setting *option, const char *value, Options *o, Error *err) {
    CheckOptions *c = &o->check;
    const char *rest = value;
    char word[40];
    c->n_lengths = 0;
    while (rest) {
        const size_t n = strcspn(rest, ",");
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), rest);
        if (c->n_lengths == MOST_LENGTHS)
            return fail(err, "-n: more than %d lengths (%s)", MOST_LENGTHS, value);
        if (!setting_read(option, o, option->option, word, err)) return false;
        if (o->steps == 0) return fail(err, "-n %s: 0 is not a length in a list", value);
        c->lengths[c->n_lengths++] = o->steps;
        rest = rest[n] ? rest + n + 1 : NULL;
    }
    qsort(c->lengths, (size_t)c->n_lengths, sizeof *c->lengths, by_tokens);
    int kept = 1;
    for (int i = 1; i < c->n_lengths; i++)
        if (c->lengths[i] != c->lengths[kept - 1]) c->lengths[kept++] = c->lengths[i];
    c->n_lengths = kept;
    o->steps = c->lengths[kept - 1];
    return true;
}

static bool is_help(int number) { return strcmp(option_value(number)->option, "--help") == 0; }

// Whether the optional value of an option is omitted before the word `next`: another option, the
// model, or none. A list of engines before the model may be any word except a file's name; --cache
// has no model.
static bool is_left_out(const Options *o, int number, const char *next) {
    if (!next) return true;
    bool is_option = next[0] == '-' && next[1];
    if (number < n_option_rows && option_table[number].job == JOB_CACHE) return is_option;
    bool takes_words =
        is_help(number) || (number < n_option_rows && option_table[number].job == JOB_ENGINES);
    bool is_model = !o->model_path && (!takes_words || access(next, F_OK) == 0);
    return is_option || is_model;
}

// Notes that an option is given, and the consequences for the job and the model.
static void note_given(Options *o, int number) {
    const char *name = option_value(number)->option;
    if (number >= n_option_rows) {
        unsigned bit = 1u << (number - n_option_rows);
        o->rope.given |= bit;
        if (bit & ~GIVEN_WITHOUT_ROPE) o->about_rope = name;
        return;
    }
    const Option *row = &option_table[number];
    o->given[number] = true;
    if (row->job) o->job = row->job;
    if (row->about_rope) o->about_rope = name;
}

// Adds a hint to an error about -p, -m or -1, which in llama.cpp are the prompt, the model, and no
// limit or a seed from the clock. False with the reason.
static bool hint_at_letters(const char *option, const char *text, Error *err) {
    bool is_prompt = strcmp(option, "-p") == 0 && text[strspn(text, "0123456789.,eE+-")];
    bool is_model = strcmp(option, "-m") == 0 && (strchr(text, '.') || access(text, F_OK) == 0);
    if (is_prompt) return fail(err, "%s (a prompt follows -i)", err->text);
    if (is_model) return fail(err, "%s (a model file follows no option)", err->text);
    bool is_none = strcmp(text, "-1") == 0 || strcmp(text, "-2") == 0;
    if (is_none && strcmp(option, "-n") == 0)
        return fail(err, "%s (0 is the model's context)", err->text);
    if (is_none && strcmp(option, "-s") == 0)
        return fail(err, "%s (0 is from the clock)", err->text);
    return false;
}

// Parses the option at argv[*at], and moves *at to the last word of it.
static bool read_option(char **argv, int *at, Options *o, Error *err) {
    const char *nearest, *word = argv[*at], *next = argv[*at + 1];
    int number = option_find(word, &nearest);
    if (number < 0) return fail_unknown_option(argv + *at, nearest, err);

    const Setting *option = option_value(number);
    const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    if (equals && !option->argument) return fail(err, "%s takes no value", option->option);

    const char *value = equals ? equals + 1 : "1";
    bool may_be_behind = option->argument && !equals;
    bool optional = may_be_behind && option->argument[0] == '[';
    bool left_out = optional && is_left_out(o, number, next);
    if (may_be_behind && !left_out) {
        if (!check_value(option, next, err)) return false;
        value = argv[++*at];
    }
    note_given(o, number);
    bool is_rope = number >= n_option_rows;
    if (!is_rope &&
        option_table[number].job == JOB_QUANTIZE) {  // a second word: the path of the copy
        if (!check_value(option, argv[*at + 1], err)) return false;
        o->quantize_path = argv[++*at];
    }
    if (left_out && is_help(number)) o->help = "";
    if (left_out) return true;
    if (option->type == PAIR) return read_pair(option->option, value, o->attn.head, err);
    void *base = is_rope ? (void *)&o->rope.rope : o;
    const bool is_length = base == o && option->place == offsetof(Options, steps);
    if (is_length && strchr(value, ',')) return read_lengths(option, value, o, err);
    if (is_length) o->check.n_lengths = 0;
    return setting_read(option, base, option->option, value, err) ||
           hint_at_letters(option->option, value, err);
}

// Fails because of a word after the model file that no option takes. `option` and `value` are the
// two words before it, NULL if they are not an option and its value; `skipped` is the option right
// before the model, or NULL.
static bool fail_surplus(const Options *o, const char *word, const char *option, const char *value,
                         const char *skipped, Error *err) {
    static const char *const lists[] = {"NAME", "LIST", "[LIST]", "ENGINES"};
    const char *nearest;
    const Setting *before = option ? option_value(option_find(option, &nearest)) : NULL;
    if (before && takes(before, "TEXT"))
        return fail(err, "'%.60s': put a text of several words in quotes (%s \"%.60s %.60s...\")",
                    word, option, value, word);
    for (int i = 0; before && i < 4; i++) {
        if (takes(before, lists[i]))
            return fail(err, "'%.60s': a list has commas and no blanks (%s %.60s,%.60s)", word,
                        option, value, word);
    }
    if (skipped && option_value(option_find(skipped, &nearest))->argument)
        return fail(err, "'%.60s': the model file comes first (expected %.60s %s %.60s)", word,
                    word, skipped, o->model_path);
    return fail(err,
                "'%.60s': there is a model file already (%.60s; a prompt follows -i, a text --ppl "
                "or --check)",
                word, o->model_path);
}

bool options_parse(int argc, char **argv, Options *o, Error *err) {
    const char *option = NULL, *skipped = NULL;
    *o = options_default;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            int first = i;
            if (!read_option(argv, &i, o, err)) return false;
            option = i > first ? argv[first] : NULL;
        } else if (o->model_path) {
            return fail_surplus(o, argv[i], option, option ? argv[i - 1] : NULL, skipped, err);
        } else {
            o->model_path = argv[i];
            skipped = argv[i - 1][0] == '-' && !option ? argv[i - 1] : NULL;
            option = NULL;
        }
    }
    return true;
}
