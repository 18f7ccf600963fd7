// Lengths, plans and sessions of jobs, their warnings, and their settings for other engines.
#define _POSIX_C_SOURCE 200809L
#include "gguf_keys.h"
#include "job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/names.h"
#include "../configs/write.h"
#include "../decoder/rope_layers.h"
#include "../fast/kv_cache.h"

// Default lengths of a text, a bench and a piece of --spread.
enum { SHORT_TEXT = 256, BENCH_DEPTH = 8192, USUAL_PIECE = 128 };

// ---- length ----

int length_of_job(const Job *job) {
    const Model *model = job->model;
    const int context = rope_file_context(job->rope_file);
    const int steps = job->options->steps;
    if (steps == 0) return context;
    if (steps > 0) return steps;
    int reach = model->config.most_positions;
    int most = reach ? reach : MOST_LENGTH;
    double far = fmin(fmax(4.0 * job->rope_file->rope.train_ctx, context), most);
    switch (job_facts[job->options->job].length) {
    case SHORT_LENGTH: return most < SHORT_TEXT ? most : SHORT_TEXT;
    case PROMPT_LENGTH: return (int)job->n_ids;
    case BENCH_LENGTH: return most / 2 < BENCH_DEPTH ? most / 2 : BENCH_DEPTH;
    case FAR_LENGTH: return (int)far;
    case TEXT_LENGTH:
        return (int)fmin(far, (double)job->n_ids + (tokenizer_bos(job->tokenizer) >= 0));
    default: return context;
    }
}

// ---- plans ----

// The number of positions that a text of the job's length spans.
static int positions_of(const Job *job) {
    int spread = job->options->sessions.spread;
    return spread ? spread : job->length;
}

// Whether the rows of rope.c that a plan uses keep their promises. The rows that ship do; for a row
// of your own, this is the first message.
static bool check_rows(const RopePlan *plan, int positions, Error *err) {
    const RopeConfig *c = &plan->rope;
    bool good = rows_name_settings(c, err) && rows_keep_promises(c, positions, err);
    return good || fail(err, "rope %s: %s", plan->name, err->text);
}

bool plan_for_job(const Job *job, const RopeSettings *settings, const RopeConfig *start,
                  RopePlan *plan, Error *err) {
    const SessionOptions *o = &job->options->sessions;
    const RopeFile *file = job->rope_file;
    int positions = positions_of(job);
    int window = rope_file_window(job->model, file);
    // Without a model the full layers' window is of interest if all layers rotate the same way.
    const int own = job->model->layers       ? model_window(job->model)
                    : job->kinds.own_sliding ? 0
                                             : window;
    if (!settings_resolve(settings, start, own, positions, plan, err)) return false;
    if (job->kinds.own_sliding &&
        !settings_resolve_sliding(settings, &job->options->asked_sliding, &file->sliding, window,
                                  positions, plan, err))
        return false;
    if (!check_rows(plan, positions, err)) return false;
    if (file->head_dim) plan->head_dim = file->head_dim;
    plan->stale_keys = o->stale_keys;
    plan->spread = o->spread;
    plan->piece = o->piece;
    if (o->spread && !o->piece) plan->piece = USUAL_PIECE;
    return true;
}

const RopeConfig *own_settings(const Job *job) {
    return job->model->layers ? &job->model->rope : &job->rope_file->rope;
}

bool reference_plan(const Job *job, bool plain, double times, RopePlan *plan, Error *err) {
    const RopeConfig *own = own_settings(job);
    const RopeConfig *sliding =
        job->model->layers ? &job->model->config.extra->layers.sliding : &job->rope_file->sliding;
    const RopeSettings none = {.given = 0};
    RopeSettings s = {.given = 0};
    int n = job->length;
    int window = rope_file_window(job->model, job->rope_file);
    if (plain) settings_read_method(&s, "none");
    if (times != 1) settings_say(&s, SET_THETA, fmax(own->theta * times, 1.5));
    if (!settings_resolve(&s, own, model_window(job->model), n, plan, err)) return false;
    if (!job->kinds.own_sliding) return true;
    return settings_resolve_sliding(&s, &none, sliding, window, n, plan, err);
}

static void warn(const char *advice) { fprintf(stderr, "run: warning: %s\n", advice); }

// Warns of settings of one method.
static void warn_of_plan(const RopeSettings *settings, const RopePlan *plan, int positions) {
    Error advice;
    int row = 0;
    if (settings->of_all) return;  // the user did not give them
    while (settings_idle(settings, plan, &row, &advice)) warn(advice.text);
    if (!settings_advice(settings, plan, positions, &advice)) warn(advice.text);
}

bool turns_in_windows(const Job *job) {
    int window = rope_file_window(job->model, job->rope_file);
    bool is_short = window > 0 && window <= own_settings(job)->train_ctx;
    return is_short && !job->kinds.turns[LAYERS_FULL];
}

// Whether a method is given for full layers that do not rotate, and no other layer uses it.
static bool is_idle_method(const Job *job, const RopeSettings *given, const RopePlan *plan) {
    bool has_effect = plan->rope.method == ROPE_NONE || plan->rope.map;
    return given->name[0] && !has_effect && job->kinds.own_sliding &&
           !job->kinds.turns[LAYERS_FULL];
}

void print_advice(const Job *job, bool of_reach, bool of_tuning) {
    const RopeSettings *methods = job->options->asked;
    const RopeConfig *own = own_settings(job);
    char others[300] = "", idle[300] = "";
    if (model_encoding(job->model) || job->rope_file->no_rope) return;
    of_reach = of_reach && !turns_in_windows(job);
    for (int i = 0; i < job->n_plans; i++) {
        const RopePlan *plan = &job->plans[i];
        int positions = plan->spread ? plan->spread : job->length;
        warn_of_plan(&methods[i], plan, of_reach ? positions : 0);
        if (is_idle_method(job, &methods[i], plan)) add_name(idle, sizeof idle, ", ", plan->name);
        bool same = settings_same_method(own, &plan->rope);
        if (!same) add_name(others, sizeof others, ", ", plan->name);
    }
    if (idle[0])
        fprintf(stderr,
                "run: warning: rope %s: no effect, since the full layers of this model do not turn "
                "(--rope-sliding is for the others)\n",
                idle);
    if (others[0] && of_tuning && job->model->layers)
        fprintf(stderr, "run: warning: the model was tuned with rope %s, and not with %s\n",
                settings_method_name(own).text, others);
}

// ---- the engines' readings ----

Publication publication_of(const Job *job, const RopePlan *plan) {
    Publication publication = {
        .plan = *plan,
        .model = job->model,
        .rope_file = job->rope_file,
        .by_layer = job->kinds.own_sliding,
        .bare_full = job->kinds.own_sliding && job->kinds.is_there[LAYERS_FULL] &&
                     !job->kinds.turns[LAYERS_FULL],
        .context = rope_file_context(job->rope_file),
        .window = rope_file_window(job->model, job->rope_file),
    };
    if (publication.bare_full) publication.plan.rope = plan->sliding;
    return publication;
}

bool print_block(Job *job, Error *err) {
    const char *model_type = job->options->family;
    Publication publication = publication_of(job, job->plans);
    if (!model_type) return publish_print(&publication, err);
    // Prints the keys of RoPE in a config of the family that --rope-json names.
    const RopeFamily *family = family_named(model_type);
    if (!family)
        return fail_unknown(err, "--rope-json: there is no family", model_type,
                            family_near(model_type),
                            "expected a model_type of docs/checkpoints.md");
    if (!(family->flags & FAMILY_RUNS))
        return fail(err, "--rope-json: models of '%.60s' do not run here", model_type);
    RopeFile of_family = *job->rope_file;
    of_family.model_type = family->model_type;
    publication.rope_file = &of_family;
    char *keys = publish_keys(&publication, err);
    if (keys) puts(keys);
    free(keys);
    return keys;
}

ReadByEngines read_by_engines(const Job *job) {
    return (ReadByEngines){
        .job = job,
        .plan = job->plans,
        .as_it_stands = job->rope_file->whole && !options_say_block(job->options),
        .of_file = job->gguf && !job->options->rope_config && !options_say_block(job->options),
    };
}

Readings *readings_of(const ReadByEngines *what, const char *list, int length, Error *err) {
    const RopeFile *file = what->job->rope_file;
    char *published = NULL;
    const char *config = file->whole;
    if (!what->as_it_stands) {
        const Publication publication = publication_of(what->job, what->plan);
        published = publish_config(&publication, true, err);
        config = published;
    }
    const char *gguf = what->job->gguf;
    GgufFile gguf_file = {.rope = {&file->rope, &file->sliding},
                          .context = rope_file_context(file)};
    if (what->of_file) {
        gguf_file.attn_factor = gguf_number(gguf, "rope.scaling.attn_factor", 1);
        gguf_file.log_multiplier = gguf_number(gguf, "rope.scaling.yarn_log_multiplier", 0);
    }
    Readings *readings = !config         ? NULL
                         : what->of_file ? engines_read_file(list, &gguf_file, config, length, err)
                                         : engines_read(list, config, length, NULL, err);
    free(published);
    const bool is_refused = what->as_it_stands && file->refused[0];
    const bool is_json = !what->as_it_stands || !file->not_json[0];
    if (!readings && is_refused) fail(err, "%s", file->refused);
    if (!readings) return NULL;
    for (int i = 0; i < readings->n + N_KINDS; i++) {
        const bool is_reference = i >= readings->n;
        Reading *r = is_reference ? &readings->reference[i - readings->n] : &readings->of[i];
        // A reading cannot be the same as a refused one, even if engines agree among themselves.
        if (is_refused && !is_reference && r->verdict == VERDICT_SAME) r->verdict = VERDICT_AS_REFERENCE;
        // Malformed values were tried on no engine. An engine that seems to accept one gives the
        // same settings only by chance.
        const bool may_take = r->verdict < VERDICT_REFUSED && !r->is_tried;
        if (is_refused && file->is_malformed && may_take) {
            r->verdict = VERDICT_UNSEEN;
            snprintf(r->note, sizeof r->note, "no value that was tried: it is refused here");
        }
        // Every engine parses config.json with a strict parser of JSON.
        if (is_json) continue;
        r->verdict = VERDICT_REFUSED;
        snprintf(r->note, sizeof r->note, "JSONDecodeError: %s", file->not_json);
    }
    return readings;
}

int engines_alike(const ReadByEngines *what, int *n) {
    Error unused;
    *n = 0;
    if (model_encoding(what->job->model)) return 0;
    Readings *readings = readings_of(what, NULL, what->job->length, &unused);
    if (!readings) return 0;
    int alike = readings_alike(readings, n);
    free(readings);
    return alike;
}

// The plan of an engine's reading, named ENGINE:METHOD. The readings of its kinds of layers follow
// one another, from `r` on. False with the reason, also if the engine refuses the config or it does
// not fit the weights.
static bool plan_of_reading(const Job *job, const RopeSettings *given, const Reading *r,
                            RopePlan *plan, Error *err) {
    static const RopeSettings none = {.given = 0};
    const Reading *full = r->has_rope ? r : r + 1;
    const Reading *sliding = r + reading_kinds(r) - 1;
    const bool has_weights = job->model->layers;
    const int own = job->rope_file->rope.rotary_dim;
    if (r->verdict == VERDICT_UNSEEN)
        return fail(err, "--reading: how %s reads this config is not known", r->engine);
    if (r->is_odd) return fail(err, "--reading: %s has no frequencies: %s", r->engine, r->note);
    if (r->verdict == VERDICT_REFUSED)
        return fail(err, "--reading: %s refuses this config: %s", r->engine, r->note);
    if (has_weights && r->by_layer && !layers_have(&r->layers, KIND_SLIDING))
        return fail(err, "--reading: to %s all layers are full, and the model's slide: %s",
                    r->engine, r->note[0] ? r->note : r[reading_kinds(r) - 1].note);
    if (has_weights && own && full->rope.rotary_dim != own)
        return fail(err,
                    "--reading: %s turns %d elements of a head, and the model's weights are stored "
                    "for %d",
                    r->engine, full->rope.rotary_dim, own);
    if (!plan_for_job(job, given, &full->rope, plan, err)) return false;
    const MethodName method = settings_method_name(&plan->rope);
    snprintf(plan->name, sizeof plan->name, "%s:%s", r->engine, method.text);
    // An engine that knows only one RoPE also uses it for the layers that have their own settings.
    if (!r->by_layer && !job->kinds.own_sliding) return true;
    int window = rope_file_window(job->model, job->rope_file);
    if (!window) window = r->layers.window;
    return settings_resolve_sliding(given, &none, &sliding->rope, window, job->length, plan, err);
}

// Replaces the job's plans by the reading of each engine of --reading, with the given window, sinks
// and logn; without a model, the kinds of layers are those of the first engine. False with the
// reason if an engine refuses the config.
static bool plan_as_read(Job *job, Error *err) {
    const RopeSettings *given = &job->options->rope;
    RopeSettings beside = {.rope = given->rope, .given = given->given};
    for (int i = 0; i < N_ROPE_SETTINGS; i++) {  // settings that no block of JSON has
        const Setting *row = &rope_settings[i];
        if (row->key || row->methods || row->maps) beside.given &= ~(1u << i);
    }
    const ReadByEngines what = read_by_engines(job);
    Readings *all = readings_of(&what, job->options->reading, positions_of(job), err);
    free(job->readings);
    free(job->plans);
    job->readings = all;
    job->n_plans = 0;
    job->plans = all ? alloc_array((uint64_t)all->n, sizeof *job->plans, "plans", err) : NULL;
    if (!job->plans) return false;
    for (const Reading *r = all->of; r < all->of + all->n; r += reading_kinds(r)) {
        RopePlan *plan = &job->plans[job->n_plans++];
        if (!plan_of_reading(job, &beside, r, plan, err)) return false;
    }
    const Reading *first = all->of;
    if (!job->model->layers && first->by_layer)
        job->kinds = (LayerKinds){
            .is_there = {first->kind == KIND_FULL, true},
            .turns = {first->has_rope, true},
            .own_sliding = true,
        };
    return true;
}

// ---- the methods that run ----

static void say_left_out(const char *names, const char *why) {
    if (names[0]) fprintf(stderr, "run: --rope all leaves out %s: %s\n", names, why);
}

// Makes a plan for each method. `all` leaves out the methods whose lists the model lacks, or that
// it cannot run with.
static bool plan_methods(Job *job, Error *err) {
    Options *o = job->options;
    const int encoding = model_encoding(job->model);
    char without_lists[300] = "", not_run[300] = "";
    Error why = {""};
    int n = 0;
    free(job->plans);
    job->plans = alloc_array((size_t)o->n_asked, sizeof *job->plans, "methods", err);
    if (!job->plans) return false;
    for (int i = 0; i < o->n_asked; i++) {
        const RopeSettings *s = &o->asked[i];
        RopePlan *plan = &job->plans[n];
        bool needs_lists = rope_methods[s->rope.method].flags & ROPE_USES_LISTS;
        if (s->of_all && needs_lists && !job->rope_file->rope.short_factors) {
            add_name(without_lists, sizeof without_lists, ", ", s->name);
            continue;
        }
        if (!plan_for_job(job, s, &job->rope_file->rope, plan, err)) return false;
        if (s->of_all && !model_runs_by(job->model, &plan->rope, &why)) {
            add_name(not_run, sizeof not_run, ", ", s->name);
            continue;
        }
        if (encoding) snprintf(plan->name, sizeof plan->name, "%s", encoding_names[encoding]);
        o->asked[n++] = *s;
    }
    say_left_out(without_lists,
                 "no lists of divisors in the model (--rope-config reads a block with short_factor "
                 "and long_factor)");
    say_left_out(not_run, why.text);
    o->n_asked = n;
    job->n_plans = n;
    return true;
}

// Engines may read a file of --rope-config that is refused here.
bool plan_job(Job *job, Error *err) {
    const Options *o = job->options;
    bool is_read = o->reading || o->job == JOB_ENGINES;
    bool reads_file = is_read && job->rope_file->whole;
    if (!reads_file && !plan_methods(job, err)) return false;
    return !o->reading || plan_as_read(job, err);
}

// ---- sessions ----

SessionConfig session_config(const Job *job, const RopePlan *plan, int context) {
    const SessionOptions *o = &job->options->sessions;
    const unsigned take_attention_apart = ON_ATTN | ON_HEADS | ON_WHY;
    SessionConfig config = {
        .rope = &plan->rope,
        .sliding = &plan->sliding,
        .kv = o->kv,
        .floats = o->floats,
        .float_attention = take_attention_apart >> job->options->job & 1,
        .context = context,
        .threads = o->threads,
        .plain = o->plain,
        .stale_keys = plan->stale_keys,
        .short_heads = job->short_heads,
        .best_keys = o->best_keys,
        .spread = {.length = plan->spread, .piece = plan->piece},
    };
    if (session_is_plain(job->model, &config)) config.kv = KV_F32;  // the definition has no other
    return config;
}

Session *open_session(const Job *job, const RopePlan *plan, int context, bool say_memory,
                      Error *err) {
    SessionConfig config = session_config(job, plan, context);
    Session *s = session_new(job->model, &config, err);
    if (!s || !say_memory) return s;
    char over[40] = "positions";
    if (plan->spread) snprintf(over, sizeof over, "tokens over %d positions", plan->spread);
    if (context == 1 && !plan->spread) snprintf(over, sizeof over, "position");
    fprintf(stderr, "run: %d %s, %.1f MB of memory (%s key-value cache%s %.1f MB)\n", context, over,
            (double)s->arena.used / 1e6, kv_type_names[config.kv], s->n_states ? " and states" : "",
            (double)s->cache_bytes / 1e6);
    if (plan->rope.map && plan->rope.map->distance && !job->options->sessions.plain)
        fprintf(stderr,
                "run: warning: rope %s is computed by the definition, as --plain does (slow): "
                "its distances are not differences of two parts\n",
                plan->name);
    if (plan->spread && context <= plan->piece)
        fprintf(stderr,
                "run: warning: %d tokens make one piece of --piece %d, so there is no jump\n",
                context, plan->piece);
    return s;
}

void say_read_anew(const Session *s) {
    if (s->times_anew == 0) return;
    fprintf(stderr,
            "run: the text grew past %d positions, so all of it was recomputed with the long "
            "list, as Hugging Face does\n",
            s->config.rope->train_ctx);
}
