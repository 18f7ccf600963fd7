// Readings of a job's settings, and plans of what was read.
#define _POSIX_C_SOURCE 200809L
#include "as_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ReadByEngines read_by_engines(const Job *job, bool says_block) {
    return (ReadByEngines){
        .job = job,
        .plan = job->plans,
        .as_it_stands = job->said->whole && !says_block,
    };
}

// Every engine reads config.json by a strict parser of JSON.
static void refuse_readings(Reading *readings, int n, const char *not_json) {
    for (Reading *r = readings; r < readings + n; r++) {
        r->verdict = VERDICT_REFUSED;
        snprintf(r->note, sizeof r->note, "JSONDecodeError: %s", not_json);
    }
}

// Nothing is the same as what is refused here, though engines may read it alike.
static void mark_taken(Readings *readings) {
    for (Reading *r = readings->of; r < readings->of + readings->n; r++)
        if (r->verdict == VERDICT_SAME) r->verdict = VERDICT_TAKEN;
}

// What nobody can mean was tried on no engine, and an engine that seems to take it has the same only
// by chance.
static void doubt_readings(Reading *readings, int n) {
    for (Reading *r = readings; r < readings + n; r++) {
        if (r->verdict >= VERDICT_REFUSED) continue;
        r->verdict = VERDICT_UNSEEN;
        snprintf(r->note, sizeof r->note, "no value that was tried: it is refused here");
    }
}

Readings *readings_of(const ReadByEngines *what, const char *list, int length, Error *err) {
    const RopeFile *said = what->job->said;
    char *published = NULL;
    const char *config = said->whole;
    if (!what->as_it_stands) {
        const Publication publication = publication_of(what->job, what->plan);
        published = publish_config(&publication, true, err);
        config = published;
    }
    Readings *readings = config ? engines_read(list, config, length, NULL, err) : NULL;
    bool is_refused = what->as_it_stands && said->refused[0];
    if (!readings && is_refused) fail(err, "%s", said->refused);
    if (readings && is_refused) mark_taken(readings);
    if (readings && is_refused && said->is_malformed) {
        doubt_readings(readings->of, readings->n);
        doubt_readings(readings->reference, N_KINDS);
    }
    if (readings && what->as_it_stands && said->not_json[0]) {
        refuse_readings(readings->of, readings->n, said->not_json);
        refuse_readings(readings->reference, N_KINDS, said->not_json);
    }
    free(published);
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

// ---- plans ----

static bool check_reading(const Job *job, const Reading *r, const Reading *full, Error *err) {
    const int own = job->said->rope.rotary_dim;
    if (r->verdict == VERDICT_UNSEEN)
        return fail(err, "--reading: what %s makes of this config is not known", r->engine);
    if (r->verdict == VERDICT_REFUSED)
        return fail(err, "--reading: %s refuses this config: %s", r->engine, r->note);
    if (job->model->layers && r->by_layer && !layers_have(&r->layers, KIND_SLIDING))
        return fail(err, "--reading: to %s all layers are full, and the model's slide: %s",
                    r->engine, r->note);
    if (!own || full->rope.rotary_dim == own) return true;
    return fail(
        err, "--reading: %s turns %d elements of a head, and the model's weights are stored for %d",
        r->engine, full->rope.rotary_dim, own);
}

// The plan of an engine's reading, whose kinds of layers stand together from `r` on.
static bool plan_of_reading(const Job *job, const RopeSettings *given, const Reading *r,
                            RopePlan *plan, Error *err) {
    static const RopeSettings unsaid = {.said = 0};
    const Reading *full = r->has_rope ? r : r + 1;
    const Reading *sliding = r + reading_kinds(r) - 1;
    if (!check_reading(job, r, full, err)) return false;
    if (!plan_for_job(job, given, &full->rope, plan, err)) return false;
    const MethodName method = settings_method_name(&plan->rope);
    snprintf(plan->name, sizeof plan->name, "%s:%s", r->engine, method.text);
    // One that knows one RoPE turns the layers by it that have settings of their own.
    if (!r->by_layer && !job->kinds.own_sliding) return true;
    int window = said_window(job->model, job->said);
    if (!window) window = r->layers.window;
    return settings_resolve_sliding(given, &unsaid, &sliding->rope, window, job->length, plan, err);
}

// What of the given settings stands beside what an engine reads: what no block of JSON has.
static RopeSettings beside_blocks(const RopeSettings *given) {
    RopeSettings s = {.rope = given->rope, .said = given->said};
    for (int i = 0; i < N_ROPE_SETTINGS; i++) {
        const Setting *row = &rope_settings[i];
        bool in_block = row->key || row->methods || row->maps;
        if (in_block) s.said &= ~(1u << i);
    }
    return s;
}

bool plans_as_read(Job *job, const char *list, bool says_block, const RopeSettings *given,
                   Readings **readings, Error *err) {
    const RopeSettings beside = beside_blocks(given);
    const ReadByEngines what = read_by_engines(job, says_block);
    int length = job->sessions.spread ? job->sessions.spread : job->length;
    Readings *all = readings_of(&what, list, length, err);
    const Reading *read = all ? all->of : NULL;
    int n = all ? all->n : 0;
    free(*readings);
    free(job->plans);
    *readings = all;
    job->n_plans = 0;
    job->plans = read ? alloc_array((uint64_t)n, sizeof *job->plans, "plans", err) : NULL;
    if (!job->plans) return false;
    for (int i = 0; i < n; i += reading_kinds(&read[i])) {
        RopePlan *plan = &job->plans[job->n_plans++];
        if (!plan_of_reading(job, &beside, &read[i], plan, err)) return false;
    }
    if (job->model->layers || !read[0].by_layer) return true;
    job->kinds = (LayerKinds){
        .is_there = {read[0].kind == KIND_FULL, true},
        .turns = {read[0].has_rope, true},
        .own_sliding = true,
    };
    return true;
}
