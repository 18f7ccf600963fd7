// --help: a first screen with the most common options, and topics: all options, RoPE, or a job.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "../base/names.h"
#include "options.h"

enum {
    SCREEN_COLUMNS = 100,
    TEXT_COLUMN = 25,  // the texts of all lines begin here
};

// Prints words from column `used` on, and continues on the next line at TEXT_COLUMN before a word
// would pass SCREEN_COLUMNS. Returns the column after the last word.
static int print_folded(const char *text, int used) {
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (used + 1 + length > SCREEN_COLUMNS) used = printf("\n%*s", TEXT_COLUMN - 1, "") - 1;
        used += printf(" %.*s", length, text);
        text += length;
        text += strspn(text, " ");
    }
    return used;
}

// Prints the line of an option, a method or a map, folded.
static void print_line(const char *name, const char *argument, const char *text) {
    char left[40];
    snprintf(left, sizeof left, "%s %s", name, argument ? argument : "");
    print_folded(text, printf("  %-22s", left));
    printf("\n");
}

// Prints the line of an option, or a heading.
static void print_value(const Setting *value) {
    if (value->option) print_line(value->option, value->argument, value->help);
    else if (value->help) printf("\n%s:\n", value->help);
}

static void print_settings(void) {
    for (int k = 0; k < N_ROPE_SETTINGS; k++) print_value(&rope_settings[k]);
}

static void print_known(const char *name, const char *summary, const char *source) {
    char text[200];
    snprintf(text, sizeof text, "%s (%s)", summary, source);
    print_line(name, NULL, text);
}

static void print_methods(void) {
    printf("\nMethods of --rope:\n");
    for (int i = 0; i < rope_n_methods; i++)
        print_known(rope_methods[i].name, rope_methods[i].summary, rope_methods[i].source);
    print_line("dynamic-NAME", "",
               "the method with a scale that follows the length; dynamic is dynamic-ntk");
    print_line("window", "", "none with a --window of the trained length: the baseline");
    printf("\nDistance maps, by themselves or after a method (yarn+dca):\n");
    for (int i = 0; i < rope_n_maps; i++)
        print_known(rope_maps[i].name, rope_maps[i].summary, rope_maps[i].source);
}

static void print_all(void) {
    for (int i = 0; i < n_option_rows; i++) {
        print_value(&option_table[i].value);
        if (option_table[i].is_rope) print_settings();
    }
    print_methods();
}

// Prints the part of a job's help about its output, after its options.
static void print_output(int job) {
    for (int i = 0; i < n_output_help; i++) {
        const OutputHelp *row = &output_help[i];
        if ((int)row->job != job) continue;
        if (row->title) printf("\n%s:\n", row->title);
        const int used = printf("  %-22s", row->name);
        print_folded(row->text, used > TEXT_COLUMN ? SCREEN_COLUMNS : used);
        printf("\n");
    }
}

// Prints the option that asks for a job, then all others that have an effect in it, except settings
// of RoPE, and the description of its output.
static void print_job(int job) {
    for (int i = 0; i < n_option_rows; i++)
        if (option_table[i].job == job && job != JOB_TEXT) print_value(&option_table[i].value);
    for (int i = 0; i < n_option_rows; i++) {
        const Option *row = &option_table[i];
        const bool is_of_it = option_jobs(row) >> job & 1 && !row->job;
        if (row->value.option && is_of_it) print_value(&row->value);
        if (row->is_rope && is_of_it) printf("  and the settings of RoPE: --help rope\n");
    }
    print_output(job);
}

// ---- the first screen ----

static void print_names(const char *what, const char *const *names, int n) {
    int used = printf("  %s:", what);
    for (int i = 0; i < n; i++) {
        if (used + (int)strlen(names[i]) > 92) used = printf("\n   ") - 1;
        used += printf(" %s%s", names[i], i < n - 1 ? "," : "\n");
    }
}

// Prints the line of an option up to its first semicolon or bracket. --help all has the rest.
static void print_clause(const Setting *value) {
    char clause[200];
    int length = (int)strcspn(value->help, ";[(");
    while (length > 0 && value->help[length - 1] == ' ') length--;
    snprintf(clause, sizeof clause, "%.*s", length, value->help);
    print_line(value->option, value->argument, clause);
}

static void print_common(const char *name) {
    const char *names[100];
    for (int i = 0; i < n_option_rows; i++) {
        const Option *row = &option_table[i];
        if (!row->value.option) print_value(&row->value);
        if (!row->is_common) continue;
        print_clause(&row->value);
        if (strcmp(row->value.option, "--rope") == 0) print_clause(&rope_settings[SET_FACTOR]);
    }
    printf("\n");
    for (int i = 0; i < rope_n_methods; i++) names[i] = rope_methods[i].name;
    print_names("methods", names, rope_n_methods);
    for (int i = 0; i < rope_n_maps; i++) names[i] = rope_maps[i].name;
    print_names("distance maps", names, rope_n_maps);
    printf("\n  %s model.bin -n 1024 --rope yarn -i \"It was a fine morning\"\n", name);
    printf("  %s model.bin --ppl book.txt -n 2048 --rope none,yarn,dynamic\n", name);
    printf("  %s model.bin --explain --rope yarn -n 2048\n", name);
    printf(
        "\nMore: --help all lists all options, --help rope those of RoPE, --help check (ppl, ...) "
        "a job's.\n");
}

// The job of a topic: `text`, `chat`, or its option without the dashes. -1: none.
static int job_of_topic(const char *topic, const char **nearest) {
    if (strcasecmp(topic, "text") == 0) return JOB_TEXT;
    if (strcasecmp(topic, "chat") == 0) return JOB_CHAT;
    for (int i = 0; i < n_option_rows; i++) {
        const Option *row = &option_table[i];
        if (!row->job) continue;
        if (strcasecmp(topic, row->value.option + 2) == 0) return row->job;
        *nearest = nearer_name(topic, row->value.option + 2, *nearest);
    }
    return -1;
}

bool options_help(const char *program, const char *version, const char *topic, Error *err) {
    const char *slash = strrchr(program, '/');
    const char *nearest = nearer_name(topic, "rope", nearer_name(topic, "chat", ""));
    int job = job_of_topic(topic, &nearest);
    bool is_all = strcasecmp(topic, "all") == 0;
    bool is_rope = strcasecmp(topic, "rope") == 0;
    if (*topic && !is_all && !is_rope && job < 0)
        return fail_unknown(err, "--help: there is no topic", topic, nearest,
                            "expected all, rope, text, chat, or a job such as check");
    printf("%s: Llama inference past the trained length\n\n", version);
    printf("usage: %s model.bin [options]\n\n", slash ? slash + 1 : program);
    if (is_all) print_all();
    else if (job >= 0) print_job(job);
    else if (is_rope) print_settings();
    else print_common(program);
    if (is_rope) print_methods();
    return true;
}
