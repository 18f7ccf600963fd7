// Rules about combinations of options, and warnings about options without effect in the job.
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../engines/engines.h"
#include "options.h"

// ---- options without effect ----

// The option that started the job; NULL: none, and text is generated.
static const char *asked_by(const Options *o) {
    if (o->job == JOB_PROMPTS) return "--prompts";
    if (o->job == JOB_SETTINGS) return "--settings";
    for (int i = 0; i < n_option_rows; i++) {
        if (o->given[i] && option_table[i].job) return option_table[i].value.option;
    }
    return o->job == JOB_CHAT && !o->is_bare ? "-m chat" : NULL;
}

static void warn_idle(const char *option, const char *how, const char *what) {
    fprintf(stderr, "run: warning: %s has no effect %s %s\n", option, how, what);
}

// Warns that an option has no effect in this job. If no option started the job, names the jobs in
// which it has one.
static void warn_of_job(const Options *o, const char *option, unsigned jobs) {
    char names[sizeof((Error *)0)->text] = "";
    int n = 0;
    if (jobs & ON_CHAT) {
        add_name(names, sizeof names, " or ", "-m chat");
        n++;
    }
    for (int i = 0; i < n_option_rows; i++) {
        const Option *row = &option_table[i];
        if (!row->job || !(jobs >> row->job & 1)) continue;
        add_name(names, sizeof names, " or ", row->value.option);
        n++;
    }
    if (asked_by(o)) warn_idle(option, "with", asked_by(o));
    else if (n > 4) warn_idle(option, "on", "a text");
    else warn_idle(option, "without", names);
}

// Resets an option to its default.
static void unsay(Options *o, int row) {
    const Setting *option = &option_table[row].value;
    static const size_t sizes[] = {
        [FLAG] = sizeof(bool),   [WHOLE] = sizeof(int),         [NUMBER] = sizeof(double),
        [WORD] = sizeof(int),    [TEXT] = sizeof(const char *), [SEED] = sizeof(uint64_t),
        [PAIR] = sizeof(int[2]),
    };
    const char *by_default = (const char *)&options_default;
    memcpy((char *)o + option->place, by_default + option->place, sizes[option->type]);
    o->given[row] = false;
}

// Warns of each option without effect, and resets it. The reason may be the job, or another option
// that is given or missing.
static void drop_idle(Options *o) {
    for (int i = 0; i < n_option_rows; i++) {
        const Option *option = &option_table[i];
        const Partner *p = &option->idle;
        const char *nearest;
        bool has_effect = option_jobs(option) >> o->job & 1;
        for (int k = 0; k < N_ROPE_SETTINGS && option->is_rope && !has_effect; k++)
            if (o->rope.given >> k & 1)
                warn_of_job(o, rope_settings[k].option, option_jobs(option));
        if (!o->given[i]) continue;
        if (!has_effect) {
            warn_of_job(o, option->value.option, option_jobs(option));
        } else {
            if (!p->option || !(p->jobs >> o->job & 1)) continue;
            if (o->given[option_find(p->option, &nearest)] != p->is_given) continue;
            warn_idle(option->value.option, p->is_given ? "with" : "without", p->option);
        }
        unsay(o, i);
    }
}

// ---- combinations ----

// Whether a name in a row is given: an option, an option with a value, or the model file.
static bool option_given(const Options *o, const char *name) {
    const char *nearest;
    char option[32];
    if (strcmp(name, "MODEL") == 0) return o->model_path;
    snprintf(option, sizeof option, "%.*s", (int)strcspn(name, " "), name);
    int number = option_find(option, &nearest);
    if (number >= n_option_rows) return o->rope.given >> (number - n_option_rows) & 1;
    if (!o->given[number] || !strchr(name, ' ')) return o->given[number];
    return *(const char *const *)(const void *)((const char *)o + option_value(number)->place);
}

static const char *in_words(const char *name) {
    return strcmp(name, "MODEL") == 0 ? "a model file" : name;
}

// Checks options that exclude or require one another, according to their rows.
static bool check_pairs(const Options *o, Error *err) {
    for (int i = 0; i < n_option_rows; i++) {
        const Option *row = &option_table[i];
        const char *name = row->value.option, *first = row->with[0], *second = row->with[1];
        if (!o->given[i]) continue;
        if (row->not_with && option_given(o, row->not_with))
            return fail(err, "%s and %s cannot be combined", name, in_words(row->not_with));
        if (!first || (row->unless && option_given(o, row->unless))) continue;
        if (option_given(o, first) && (!second || option_given(o, second))) continue;
        if (!row->unless) return fail(err, "%s needs %s with it", name, first);
        return fail(err, "%s without %s needs %s%s%s with it", name, in_words(row->unless), first,
                    second ? " and " : "", second ? second : "");
    }
    return true;
}

static bool check_one_job(const Options *o, Error *err) {
    const Option *first = NULL;
    for (int i = 0; i < n_option_rows; i++) {
        const Option *row = &option_table[i];
        if (!o->given[i] || !row->job) continue;
        if (first && first->job != row->job)
            return fail(err, "%s and %s cannot be combined", first->value.option,
                        row->value.option);
        first = row;
    }
    return true;
}

// The variant of the job that other options choose.
static JobKind job_meant(const Options *o) {
    if (o->job == JOB_TEXT && (o->mode == MODE_CHAT || o->is_bare)) return JOB_CHAT;
    if (o->job == JOB_CHECK && o->check.settings) return JOB_SETTINGS;
    return o->job == JOB_TASKS && o->prompts ? JOB_PROMPTS : o->job;
}

bool options_say_block(const Options *o) {
    if (o->methods || o->sliding) return true;
    bool given = false;
    for (int i = 0; i < N_ROPE_SETTINGS; i++) {
        bool is_given = o->rope.given >> i & 1;
        given = given || (is_given && rope_settings[i].key);
    }
    return given && o->model_path;
}

static bool takes_lists(const Options *o) { return job_facts[o->job].needs & LISTS; }

// Fails because a list is given where only one is allowed.
static bool fail_list(const char *option, const char *what, const char *list, int n, Error *err) {
    char names[sizeof err->text] = "";
    for (int i = 0; i < n_option_rows; i++) {
        const Option *row = &option_table[i];
        bool takes = row->job && job_facts[row->job].needs & LISTS;
        if (takes) add_name(names, sizeof names, ", ", row->value.option);
    }
    return fail(err, "%s: '%.100s' is a list of %d (one %s expected; lists are for %s)", option,
                list, n, what, names);
}

static bool check_engines(const Options *o, Error *err) {
    Reading readings[MOST_READINGS];
    if (o->engines && !engines_list(o->engines, readings, err))
        return fail(err, "--engines: %s", err->text);
    int n = o->reading ? engines_list(o->reading, readings, err) : 1;
    if (n == 0) return fail(err, "--reading: %s", err->text);
    if (n > 1 && !takes_lists(o)) return fail_list("--reading", "engine", o->reading, n, err);
    bool is_read = o->reading || o->job == JOB_ENGINES;
    if (!is_read || !o->rope_config || !options_say_block(o)) return true;
    return fail(err, "engines interpret --rope-config's file as it is (found also --rope or a "
                     "setting)");
}

// Checks that there is a model file or its substitute: a head size, a config, the length for
// prompts, or answers.
static bool check_model_given(const Options *o, Error *err) {
    bool needs_none = job_facts[o->job].needs & A_MODEL_OR_SETTINGS;
    bool has_other = (needs_none && (o->head_dim || o->rope_config)) || o->job == JOB_PROMPTS ||
                     o->job == JOB_CACHE || o->job == JOB_ANSWERS;
    if (o->head_dim % 2) return fail(err, "--head-dim: '%d' is not an even number", o->head_dim);
    return o->model_path || has_other ||
           fail(err, "no model file given (expected model.bin%s; see --help)",
                needs_none ? ", --rope-config FILE or --head-dim D" : " [options]");
}

// Checks that --json is only given for jobs with a table.
static bool check_json(const Options *o, Error *err) {
    const char *asked = asked_by(o);
    return !o->json || job_facts[o->job].needs & A_TABLE ||
           fail(err,
                "--json: %s has no table (expected --check, --engines, --explain, or another job "
                "that prints one)",
                asked ? asked : "a text");
}

static bool read_methods(Options *o, Error *err) {
    bool takes_a_list = takes_lists(o) && !o->reading;
    if (!sliding_method_parse(o->sliding, &o->asked_sliding, err)) return false;
    o->asked = methods_parse(o->methods, &o->rope, &o->n_asked, err);
    if (!o->asked || o->n_asked == 1 || takes_a_list) return o->asked;
    return fail_list("--rope", "method", o->methods, o->n_asked, err);
}

// ---- --keys ----

// Parses T,STEP,GAIN,LOSS, of which the last ones may be missing. STEP is by default a quarter of
// T, as in LongPPL.
static bool read_key_rule(KeyOptions *keys, Error *err) {
    static const Setting parts[] = {
        {.type = WHOLE, .place = offsetof(KeyOptions, trim), .low = 1, .high = MOST},
        {.type = WHOLE, .place = offsetof(KeyOptions, step), .low = 1, .high = MOST},
        {.type = NUMBER, .place = offsetof(KeyOptions, gain), .low = 0, .high = 100},
        {.type = NUMBER, .place = offsetof(KeyOptions, loss), .low = 0, .high = 100},
    };
    static const char *const names[] = {"T of --keys", "STEP of --keys", "GAIN of --keys",
                                        "LOSS of --keys"};
    enum { N_PARTS = sizeof parts / sizeof parts[0] };
    const char *rest = keys->given;
    for (int i = 0; rest; i++) {
        char part[32];
        const int length = (int)strcspn(rest, ",");
        if (i == N_PARTS)
            return fail(err, "--keys: '%.60s' has more than T,STEP,GAIN,LOSS", keys->given);
        if (length >= (int)sizeof part)
            return fail(err, "%s: '%.60s' is too long for a number (at most %d characters)",
                        names[i], rest, (int)sizeof part - 1);
        snprintf(part, sizeof part, "%.*s", length, rest);
        if (!setting_read(&parts[i], keys, names[i], part, err)) return false;
        if (i == 0) keys->step = (keys->trim + 3) / 4;
        rest = rest[length] ? rest + length + 1 : NULL;
    }
    return true;
}

static bool check_keys(Options *o, Error *err) {
    o->keys.asked = option_given(o, "--keys");
    return read_key_rule(&o->keys, err) &&
           (!o->keys.judge_name ||
            one_method_parse("--judge", o->keys.judge_name, &o->keys.judge, err));
}

// ---- --key ----

static bool check_key(Options *o, Error *err) {
    static const Setting position = {
        .type = WHOLE, .place = offsetof(AttentionOptions, position), .low = 0, .high = MOST};
    AttentionOptions *a = &o->attn;
    a->by_pairs = option_given(o, "--key");
    a->position = -1;
    if (a->key && !setting_read(&position, a, "--key", a->key, err)) return false;
    return !a->instead_name || one_method_parse("--instead", a->instead_name, &a->instead, err);
}

void options_write_text(Options *o) {
    o->job = JOB_TEXT;
    o->is_bare = false;
    drop_idle(o);
}

bool options_check(Options *o, Error *err) {
    if (!check_one_job(o, err)) return false;
    if (o->check.n_lengths > 1 && o->job != JOB_CHECK)
        return fail(err, "-n takes one length (only --check takes several)");
    o->is_bare = o->job == JOB_TEXT && o->mode == MODE_DEFAULT && !o->text.prompt &&
                 !o->prompt_file && isatty(STDIN_FILENO);
    o->job = job_meant(o);
    if (!rows_are_named(err)) return false;
    if (!check_json(o, err) || !check_model_given(o, err) || !check_engines(o, err)) return false;
    drop_idle(o);
    return check_pairs(o, err) && check_keys(o, err) && check_key(o, err) && read_methods(o, err);
}
