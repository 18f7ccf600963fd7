// What goes together on a command line, and what has no effect in the job at hand.
#include <stdio.h>
#include <string.h>

#include "../engines/engines.h"
#include "contract.h"
#include "option_table.h"

static bool is_row_said(const Options *o, int row) { return o->said[row]; }

// ---- what has no effect ----

// The option that asks for the job at hand; NULL: none does, and text is generated.
static const char *asked_by(const Options *o) {
    if (o->job == JOB_PROMPTS) return "--prompts";
    if (o->job == JOB_SETTINGS) return "--settings";
    for (int i = 0; i < n_option_rows; i++) {
        if (is_row_said(o, i) && option_table[i].job) return option_table[i].value.option;
    }
    return o->job == JOB_CHAT ? "-m chat" : NULL;
}

static void warn_idle(const char *option, const char *how, const char *what) {
    fprintf(stderr, "run: warning: %s has no effect %s %s\n", option, how, what);
}

// Warns that an option with an effect in some jobs has none in the one at hand. Where nothing asked
// for that one, names the jobs that it needs.
static void warn_of_job(const Options *o, const char *option, unsigned jobs) {
    char names[200] = "";
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

// Makes an option what it is when it is not given.
static void unsay(Options *o, int row) {
    const Setting *option = &option_table[row].value;
    static const size_t sizes[] = {
        [FLAG] = sizeof(bool),   [WHOLE] = sizeof(int),         [NUMBER] = sizeof(double),
        [WORD] = sizeof(int),    [TEXT] = sizeof(const char *), [SEED] = sizeof(uint64_t),
        [PAIR] = sizeof(int[2]),
    };
    const char *unsaid = (const char *)&options_unsaid;
    memcpy((char *)o + option->place, unsaid + option->place, sizes[option->type]);
    o->said[row] = false;
}

// Warns of what has no effect of a row that has none in the job: an option, or all settings of
// RoPE.
static void drop_row(Options *o, int row) {
    const Option *option = &option_table[row];
    if (is_row_said(o, row)) {
        warn_of_job(o, option->value.option, option_jobs(option));
        unsay(o, row);
    }
    for (int k = 0; k < N_ROPE_SETTINGS && option->is_rope; k++) {
        if (o->rope.said >> k & 1) warn_of_job(o, rope_settings[k].option, option_jobs(option));
    }
}

// Whether another option that is given, or is not, takes its effect from one that has one in the job.
static bool is_idle(const Options *o, const Option *option) {
    const char *nearest;
    const Partner *p = &option->idle;
    return p->option && p->jobs >> o->job & 1 &&
           is_row_said(o, option_find(p->option, &nearest)) == p->is_given;
}

// Warns of each option that has no effect, and makes sure that it has none.
static void drop_idle(Options *o) {
    for (int i = 0; i < n_option_rows; i++) {
        const Option *option = &option_table[i];
        if (!(option_jobs(option) >> o->job & 1)) drop_row(o, i);
        if (!is_row_said(o, i) || !is_idle(o, option)) continue;
        warn_idle(option->value.option, option->idle.is_given ? "with" : "without",
                  option->idle.option);
        unsay(o, i);
    }
}

// ---- what goes together ----

// Options that exclude one another, by their rows.
static bool check_partners(const Options *o, Error *err) {
    const char *nearest;
    for (int i = 0; i < n_option_rows; i++) {
        const char *other = option_table[i].not_with;
        if (other && is_row_said(o, i) && is_row_said(o, option_find(other, &nearest)))
            return fail(err, "%s and %s exclude one another", option_table[i].value.option, other);
    }
    return true;
}

static bool check_one_job(const Options *o, Error *err) {
    const Option *first = NULL;
    for (int i = 0; i < n_option_rows; i++) {
        const Option *row = &option_table[i];
        if (!is_row_said(o, i) || !row->job) continue;
        if (first && first->job != row->job)
            return fail(err, "%s and %s exclude one another (one of them expected)",
                        first->value.option, row->value.option);
        first = row;
    }
    return true;
}

// The job that the one asked for becomes by other options.
static JobKind job_meant(const Options *o) {
    if (o->job == JOB_TEXT && o->mode == MODE_CHAT) return JOB_CHAT;
    if (o->job == JOB_CHECK && o->check.settings) return JOB_SETTINGS;
    return o->job == JOB_TASKS && o->prompts ? JOB_PROMPTS : o->job;
}

bool options_say_block(const Options *o) {
    if (o->methods || o->sliding) return true;
    bool said = false;
    for (int i = 0; i < N_ROPE_SETTINGS; i++) {
        bool is_said = o->rope.said >> i & 1;
        said = said || (is_said && rope_settings[i].key);
    }
    return said && o->model_path;
}

static bool takes_lists(const Options *o) { return job_facts[o->job].needs & LISTS; }

// A list where there may be one only.
static bool fail_list(const char *option, const char *what, const char *list, int n, Error *err) {
    char names[120] = "";
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
    return fail(err, "engines read --rope-config's file as it is (found --rope or a setting, too)");
}

// Without a model there may be prompts, if their length is said.
static bool check_prompts(const Options *o, Error *err) {
    if (o->job != JOB_PROMPTS)
        return fail(err, "no model file given (expected model.bin [options]; see --help)");
    return o->steps > 0 ||
           fail(err, "--prompts without a model needs -n (expected the longest text, in tokens)");
}

// The model's file, or what stands for it.
static bool check_model_given(const Options *o, Error *err) {
    const RopeConfig *rope = &o->rope.rope;
    bool can_lack_it = job_facts[o->job].needs & A_MODEL_OR_SETTINGS;
    bool has_other = o->head_dim || o->rope_config;
    if (!o->model_path && !(can_lack_it && has_other) && !check_prompts(o, err)) return false;
    if (!o->head_dim) return true;
    if (o->model_path)
        return fail(err, "--head-dim is for --explain, --rope-json and --engines without a model");
    if (o->head_dim % 2) return fail(err, "--head-dim: '%d' is not an even number", o->head_dim);
    if (!o->rope_config && (rope->theta == 0 || rope->train_ctx == 0))
        return fail(err, "--head-dim needs --theta and --train-ctx with it");
    return true;
}

// --json is of what has a table.
static bool check_json(const Options *o, Error *err) {
    const char *asked = asked_by(o);
    if (o->json && !(job_facts[o->job].needs & A_TABLE))
        return fail(err,
                    "--json: %s has no table (expected --check, --engines, --explain, or what else "
                    "prints one)",
                    asked ? asked : "a text");
    if (!o->check.settings || !o->check.text_path) return true;
    return fail(err, "--check --settings reads no text (found %.100s)", o->check.text_path);
}

static bool read_methods(Options *o, Error *err) {
    bool takes_a_list = takes_lists(o) && !o->reading;
    if (!sliding_method_parse(o->sliding, &o->asked_sliding, err)) return false;
    o->asked = methods_parse(o->methods, &o->rope, &o->n_asked, err);
    if (!o->asked || o->n_asked == 1 || takes_a_list) return o->asked;
    return fail_list("--rope", "method", o->methods, o->n_asked, err);
}

bool options_check(Options *o, Error *err) {
    if (!check_one_job(o, err)) return false;
    o->job = job_meant(o);
    if (!rows_are_named(err)) return false;
    if (!check_json(o, err) || !check_model_given(o, err) || !check_engines(o, err)) return false;
    drop_idle(o);
    if (!check_partners(o, err)) return false;
    o->tasks.text_path = o->prompt_file;
    o->check.says_block = options_say_block(o);
    return read_methods(o, err);
}
