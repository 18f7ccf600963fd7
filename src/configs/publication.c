// The parts of a plan that other programs can use: its settings, the family of the model, and the
// layout.
#include "publication.h"

#include <math.h>
#include <string.h>

#include "../kinds/experts.h"

// ---- settings ----

bool publishes_original(const RopeConfig *c) {
    return rope_methods[c->method].flags &
           ~(ROPE_USES_FACTOR | ROPE_CAN_BE_DYNAMIC | ROPE_USES_ROTATED_PAIRS);
}

bool publishes_chunks(const RopeConfig *c) {
    return c->map && c->map->flags & ROPE_MAP_CHUNK && c->method == ROPE_NONE;
}

int publish_reach(const RopeConfig *c) {
    return c->dynamic ? c->train_ctx : (int)fmin(ceil(c->train_ctx * fmax(c->factor, 1)), MOST);
}

// llama3's factor does not say how many times longer a text may be: Llama 3.1 has a factor of 8
// with 8,192, and 131,072 positions. So llama3 keeps the model's own.
int published_positions(const Publication *p, const RopeConfig *c) {
    const int seq_len = p->context;
    if (publishes_chunks(c)) return seq_len > c->train_ctx ? seq_len : c->train_ctx;
    const bool keeps =
        rope_methods[c->method].flags & ROPE_USES_FREQ_FACTORS && seq_len > publish_reach(c);
    return keeps ? seq_len : publish_reach(c);
}

RopePlan published_form(const RopePlan *plan) {
    RopePlan published = *plan;
    RopeConfig *c = &published.rope;
    RopeFreqs f;
    double d = c->rotary_dim;
    bool quotient = c->method == ROPE_YARN && c->mscale != 0 && c->mscale_all_dim != 0;
    rope_frequencies(c, c->train_ctx, &f);
    if (quotient || c->method == ROPE_BY_PARTS) c->attention_factor = f.attention_factor;
    if (c->method == ROPE_BY_PARTS) c->method = ROPE_YARN;
    // GGUF files store longrope's own factor in float32.
    RopeConfig own = *c;
    RopeFreqs g;
    own.attention_factor = 0;
    rope_frequencies(&own, own.train_ctx, &g);
    if (c->method == ROPE_LONGROPE && fabs(c->attention_factor / g.attention_factor - 1) < 1e-7)
        c->attention_factor = 0;
    // llama.cpp recognizes Ministral 3 by its pair of mscales, which makes the factor 1. With
    // latent attention, half of the pair also multiplies the scores, which no attention factor can
    // express.
    bool is_growing = quotient && c->temperature_beta != 0 && c->mscale == c->mscale_all_dim;
    bool keeps_pair = c->mscale_in_scores || is_growing;
    if (keeps_pair) c->attention_factor = plan->rope.attention_factor;
    else c->mscale = c->mscale_all_dim = 0;
    if (c->method != ROPE_NTK || c->dynamic) return published;
    if (d > 2) c->theta *= pow(c->factor, d / (d - 2));
    c->method = ROPE_NONE;
    return published;
}

RopePlan published_sliding(const Publication *p) {
    RopePlan other = p->plan;
    int own_head = p->rope_file->sliding_head_dim;
    other.rope = p->plan.sliding;
    if (own_head) other.head_dim = own_head;
    return published_form(&other);
}

// NULL if other programs can use this published form, else the reason why they cannot.
static const char *why_ours_alone(const RopeConfig *c) {
    const RopeMethod *m = &rope_methods[c->method];
    if (c->map && !publishes_chunks(c))
        return c->method == ROPE_NONE && !c->dynamic
                   ? "other programs have no distance maps"
                   : "other programs have no distance maps (without +MAP it can be written)";
    if (c->method > ROPE_PROPORTIONAL) return "no other program has this method";
    if (c->temperature_floor > 0 && c->temperature_beta != 0)
        return "only Inkling's class has a temperature with a floor, without RoPE";
    if (c->dynamic && c->method != ROPE_NTK) return "no other program has this dynamic method";
    if (m->flags & ROPE_USES_BETAS && c->ramp == ROPE_RAMP_TURNS)
        return "no other program has the turns ramp (--ramp dims is theirs)";
    if (c->attention_factor != 0 && !m->attention)
        return "no other program gives this method an attention factor";
    return NULL;
}

// ---- the family of the model ----

// The features that set the model apart from a Llama.
static FamilyWords features_of(const Publication *p) {
    const ModelConfig *c = &p->model->config;
    const RopeConfig *r = &p->plan.rope;
    const struct {
        bool there;
        FamilyWords feature;
    } all[] = {
        {c->extra->attention.window > 0 && !p->by_layer, FEATURE_WINDOW},
        {c->extra->attention.qkv_bias && !c->extra->attention.o_bias, FEATURE_QKV_BIAS},
        {router_has_bias(p->model), FEATURE_ROUTER_BIAS},
        {experts_have_bias(p->model), FEATURE_EXPERT_BIAS},
        {c->extra->feed_forward.activation == ACTIVATION_CLAMPED, FEATURE_CLAMPED},
        {c->extra->residual.embedding_scale != 0, FEATURE_EMBEDDING_SCALE},
        {c->extra->feed_forward.activation == ACTIVATION_GELU, FEATURE_GELU},
        {c->extra->residual.norm_place == NORM_AFTER, FEATURE_NORMS_AFTER},
        {c->extra->residual.norm_place == NORM_BOTH, FEATURE_NORMS_BOTH},
        {c->extra->attention.qk_norm == QK_NORM_HEAD, FEATURE_HEAD_NORMS},
        {c->extra->attention.qk_norm == QK_NORM_WHOLE, FEATURE_WHOLE_NORMS},
        {model_has_experts(p->model), FEATURE_EXPERTS},
        {c->extra->attention.sinks, FEATURE_SINKS},
        {r->temperature_beta != 0, FEATURE_TEMPERATURE},
        {r->rotary_dim < p->plan.head_dim, FEATURE_PARTIAL},
    };
    FamilyWords found = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].there) found |= all[i].feature;
    return found;
}

bool publication_is_latent(const Publication *p) {
    const char *model_type = p->rope_file->model_type;
    const RopeFamily *family = model_type ? family_named(model_type) : NULL;
    return p->rope_file->latent || (family && family->flags & FAMILY_LATENT);
}

const RopeFamily *published_family(const Publication *p) {
    bool grows = p->plan.rope.temperature_beta != 0;
    if (p->rope_file->model_type) return family_named(p->rope_file->model_type);
    if (publication_is_latent(p))
        return family_with(FAMILY_LATENT | FAMILY_RUNS | (grows ? FAMILY_GROWS : 0));
    return family_nearest(features_of(p), p->by_layer);
}

// ---- two kinds of layers ----

// Whether both kinds of layers rotate the same way, and differ only in the positions that they see.
static bool turn_alike(const Publication *p) {
    RopeFreqs full, sliding;
    int length = 2 * p->plan.rope.train_ctx;
    rope_frequencies(&p->plan.rope, length, &full);
    rope_frequencies(&p->plan.sliding, length, &sliding);
    size_t n = (size_t)full.n_pairs * sizeof *full.inv_freq;
    return full.n_pairs == sliding.n_pairs && full.attention_factor == sliding.attention_factor &&
           memcmp(full.inv_freq, sliding.inv_freq, n) == 0;
}

static LayerForm form_of(const Publication *p, const RopeFamily *family) {
    const RopePlan sliding = published_sliding(p);
    if (!family || p->window == 0) return FORM_NONE;
    if (family->flags & FAMILY_ONE_FOR_BOTH) return turn_alike(p) ? FORM_ONE : FORM_NONE;
    if (!(family->flags & FAMILY_BY_TYPE)) return FORM_ONE;
    if (family->flags & FAMILY_NO_SCALING) return FORM_TYPES;
    bool is_local = family->theta_keys[KIND_SLIDING] || sliding.rope.theta == family->local_theta;
    return sliding.rope.method == ROPE_NONE && is_local ? FORM_OLD : FORM_TYPES;
}

// The layout for layers of one kind: some families only accept settings under the names of kinds.
static LayerForm form_of_one(const Publication *p) {
    const char *model_type = p->rope_file->model_type;
    const RopeFamily *family = model_type ? family_named(model_type) : NULL;
    return family && family->flags & FAMILY_NO_SCALING ? FORM_FULL : FORM_ONE;
}

LayerForm published_layout(const Publication *p) {
    return p->by_layer ? form_of(p, published_family(p)) : form_of_one(p);
}

// NULL if other programs can use the settings of both kinds of layers, else the reason why they
// cannot.
static const char *why_not_layered(const Publication *p, const RopePlan *full) {
    const RopePlan sliding = published_sliding(p);
    const char *why = why_ours_alone(&full->rope);
    if (!why) why = why_ours_alone(&sliding.rope);
    if (full->rope.map) return "no other program maps the distances of layers of two kinds";
    const RopeFamily *family = published_family(p);
    if (why || form_of(p, family) != FORM_NONE) return why;
    // Blocks by themselves have no family.
    bool is_known = p->rope_file->model_type || p->model->layers;
    if (is_known && family && family->flags & FAMILY_ONE_FOR_BOTH)
        return "its family has one block for all layers, and here full and sliding ones turn "
               "otherwise (--rope-sliding is for these)";
    return "the layers differ, and no family with a model_type has such layers";
}

const char *why_unpublished(const Publication *p, const RopePlan *published) {
    return p->by_layer ? why_not_layered(p, published) : why_ours_alone(&published->rope);
}
