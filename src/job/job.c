// Lengths, plans and sessions of jobs, and what they are warned of.
#include "job.h"

#include <math.h>
#include <stdio.h>

#include "../fast/kv_cache.h"
#include "../settings/contract.h"

// Usual lengths of a text, a bench and a piece of --spread.
enum { SHORT_TEXT = 256, BENCH_DEPTH = 8192, USUAL_PIECE = 128 };

// ---- length ----

int length_of_job(const Job *job, int steps, UsualLength usual) {
    const Model *model = job->model;
    const int context = said_context(job->said);
    if (steps == 0) return context;
    if (steps > 0) return steps;
    int reach = model_reach(model);
    int most = reach ? reach : MOST_LENGTH;
    double far = fmin(fmax(4.0 * job->said->rope.train_ctx, context), most);
    switch (usual) {
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

// How far the tokens of a text of the job's length stand.
static int positions_of(const Job *job) {
    return job->sessions.spread ? job->sessions.spread : job->length;
}

// Whether the rows of rope.c that a plan goes by keep what they promise. Of those that stand there
// as they are this is never false; of one's own it is the first thing that they hear.
static bool check_rows(const RopePlan *plan, int positions, Error *err) {
    const RopeConfig *c = &plan->rope;
    bool good = rows_name_settings(c, err) && rows_keep_promises(c, positions, err);
    return good || fail(err, "rope %s: %s", plan->name, err->text);
}

bool plan_for_job(const Job *job, const RopeSettings *settings, const RopeConfig *start,
                  RopePlan *plan, Error *err) {
    const SessionOptions *o = &job->sessions;
    const RopeFile *said = job->said;
    int positions = positions_of(job);
    int window = said_window(job->model, said);
    if (!settings_resolve(settings, start, model_window(job->model), positions, plan, err))
        return false;
    if (job->kinds.own_sliding && !settings_resolve_sliding(settings, job->sliding, &said->sliding,
                                                            window, positions, plan, err))
        return false;
    if (!check_rows(plan, positions, err)) return false;
    if (said->head_dim) plan->head_dim = said->head_dim;
    plan->stale_keys = o->stale_keys;
    plan->spread = o->spread;
    plan->piece = o->piece;
    if (o->spread && !o->piece) plan->piece = USUAL_PIECE;
    plan->crowd = o->crowd;  // from token 1 on: nothing but one BOS is at the beginning of a text
    return true;
}

const RopeConfig *own_settings(const Job *job) {
    return job->model->layers ? &job->model->rope : &job->said->rope;
}

bool reference_plan(const Job *job, bool plain, double times, RopePlan *plan, Error *err) {
    const RopeConfig *own = own_settings(job);
    const RopeConfig *sliding =
        job->model->layers ? &job->model->config.extra->layers.sliding : &job->said->sliding;
    const RopeSettings unsaid = {.said = 0};
    RopeSettings s = {.said = 0};
    int n = job->length;
    int window = said_window(job->model, job->said);
    if (plain) settings_read_method(&s, "none");
    if (times != 1) settings_say(&s, SET_THETA, fmax(own->theta * times, 1.5));
    if (!settings_resolve(&s, own, model_window(job->model), n, plan, err)) return false;
    if (!job->kinds.own_sliding) return true;
    return settings_resolve_sliding(&s, &unsaid, sliding, window, n, plan, err);
}

static void warn(const char *advice) { fprintf(stderr, "run: warning: %s\n", advice); }

// Warns of one method's settings.
static void warn_of_plan(const RopeSettings *settings, const RopePlan *plan, int positions) {
    Error advice;
    int row = 0;
    if (settings->of_all) return;  // nobody gave them
    while (settings_idle(settings, plan, &row, &advice)) warn(advice.text);
    if (!settings_advice(settings, plan, positions, &advice)) warn(advice.text);
}

bool turns_in_windows(const Job *job) {
    int window = said_window(job->model, job->said);
    bool is_short = window > 0 && window <= own_settings(job)->train_ctx;
    return is_short && !job->kinds.turns[LAYERS_FULL];
}

// Whether a method is given for full layers that do not turn, and nothing else turns by it.
static bool is_idle_method(const Job *job, const RopeSettings *given, const RopePlan *plan) {
    bool has_effect = plan->rope.method == ROPE_NONE || plan->rope.map;
    return given->name[0] && !has_effect && job->kinds.own_sliding &&
           !job->kinds.turns[LAYERS_FULL];
}

void print_advice(const Job *job, const RopeSettings *methods, bool of_reach, bool of_tuning) {
    const RopeConfig *own = own_settings(job);
    char others[300] = "";
    if (model_encoding(job->model) || job->said->still) return;
    of_reach = of_reach && !turns_in_windows(job);
    for (int i = 0; i < job->n_plans; i++) {
        const RopePlan *plan = &job->plans[i];
        int positions = plan->spread ? plan->spread : job->length;
        warn_of_plan(&methods[i], plan, of_reach ? positions : 0);
        if (is_idle_method(job, &methods[i], plan))
            fprintf(stderr,
                    "run: warning: rope %s has no effect: the full layers of this model do not "
                    "turn (--rope-sliding is for the others)\n",
                    plan->name);
        bool same = settings_same_method(own, &plan->rope);
        if (!same) add_name(others, sizeof others, ", ", plan->name);
    }
    if (others[0] && of_tuning && job->model->layers)
        fprintf(stderr, "run: warning: the model was tuned with rope %s, and not with %s\n",
                settings_method_name(own).text, others);
}

Publication publication_of(const Job *job, const RopePlan *plan) {
    return (Publication){
        .plan = plan,
        .model = job->model,
        .said = job->said,
        .by_layer = job->kinds.own_sliding,
        .context = said_context(job->said),
        .window = said_window(job->model, job->said),
    };
}

// ---- sessions ----

SessionConfig session_config(const Job *job, const RopePlan *plan, int context) {
    const SessionOptions *o = &job->sessions;
    SessionConfig config = {
        .rope = &plan->rope,
        .sliding = &plan->sliding,
        .kv = o->kv,
        .floats = o->floats,
        .context = context,
        .threads = o->threads,
        .plain = o->plain,
        .stale_keys = plan->stale_keys,
        .spread = {.length = plan->spread, .piece = plan->piece, .crowd = plan->crowd},
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
    fprintf(stderr, "run: %d %s, %.1f MB of memory (%s key-value cache%s %.1f MB)\n", context, over,
            (double)s->arena.used / 1e6, kv_type_names[config.kv], s->n_states ? " and states" : "",
            (double)s->cache_bytes / 1e6);
    if (plan->rope.map && plan->rope.map->distance && !job->sessions.plain)
        fprintf(stderr,
                "run: warning: rope %s is computed by the definition, as --plain does (slow): its "
                "distances are no differences of two parts\n",
                plan->name);
    if (plan->spread && context <= plan->piece)
        fprintf(stderr,
                "run: warning: %d tokens make one piece of --piece %d, so there is no jump\n",
                context, plan->piece);
    return s;
}
