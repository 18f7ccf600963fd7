// The forward pass of any decoder, by its definition, for one token: attention, feed-forward, a
// layer, and decoder_forward. It has the steps of a Llama's (src/llama/forward.c), in the same
// order, and between them the steps that other models add; comments name the families. A kind of
// model (src/kinds) may replace a step, as experts do, and is called in its place. A model that has
// zeros in its ModelExtra (decoder.h) is a Llama. src/fast/forward.c computes the same numbers
// fast. In comments d is head_dim, and i the present token.
#include "forward.h"

#include <math.h>
#include <string.h>

#include "../llama/arithmetic.h"
#include "curves.h"

// ---- attention ----

// q (n_heads * head_dim), and k and v, which are kept for the tokens to come, with biases (Qwen
// 2); or the layer reads those of an earlier one (Gemma 3n and 4). Each head of q and k is normed
// (Qwen 3, Gemma 3), or all of them together (OLMo 2).
void project_heads(Plain *p) {
    const Layer *w = p->w;
    const AttentionTensors *own = &w->extra->attention;
    matmul_biased(p->q, &w->wq, p->normed, own->bq, p->row);
    if (w->extra->shape.kv_layer == p->layer) project_keys(p);
    norm_heads(p, p->q, w->extra->shape.n_heads, own->q_norm);
}

// mixed (value_dim) of head h = the sum over j of softmax(scores)[j] * v[j]
void mix_head(Plain *p, int h) {
    const float *sinks = p->w->extra->attention.sinks;
    int64_t value_dim = layer_value_dim(&p->model->config, p->w);
    float *mixed = p->mixed + h * value_dim;
    int n = p->i + 1;

    // capped (Gemma 2), and -infinity outside of a window (Mistral, Gemma 3) or chunk (Llama 4)
    finish_scores(p, h);
    // A learned sink (gpt-oss) is one score more, without a value: weight goes to it when no key
    // is worth it.
    if (sinks) p->scores[n++] = sinks[h];
    softmax(p->scores, n);
    memset(mixed, 0, value_dim * sizeof(float));
    for (int j = 0; j <= p->i; j++) add(mixed, p->scores[j], value_head(p, j, h), value_dim);
}

// Each head mixes the values of all tokens that it sees, by how well their keys match its query.
void attend(Plain *p) {
    const RopeAngles *angles = layer_angles(p);
    // Pairs of a head that rotate: all, a part (Phi-4), or none (SmolLM 3, in some layers). Where
    // norms come after RoPE (Hunyuan), all have rotated by now.
    int n_pairs = p->model->config.extra->attention.qk_norm_late ? 0 : rotating_pairs(p);
    int64_t d = p->w->extra->shape.head_dim;
    // 1 / sqrt(d), or the model's own (Gemma 3, Granite); it grows with the position in Ministral 3
    float scale = present_score_scale(p);
    for (int h = 0; h < p->w->extra->shape.n_heads; h++) {
        bool is_watched = watches_parts(&p->extra->config->watch, p->layer, h);
        // scores (i + 1) = scale * q . k, where q (d) rotates to meet each k (d)
        for (int j = 0; j <= p->i; j++) {
            const float *k = key_head(p, p->keys, j, h);
            int64_t angle = (int64_t)j * n_pairs;
            memcpy(p->turned, p->q + h * d, d * sizeof(float));
            rope_rotate(p->turned, n_pairs, angles->cosines + angle, angles->sines + angle);
            p->scores[j] = scale * dot(p->turned, k, d);
            if (is_watched) watch_parts(p, k, j, scale);
        }
        mix_head(p, h);
    }
}

// added (dim) = wo @ mixed
void project_mixed(Plain *p) {
    gate_mixed(p);  // times the sigmoid of a gate (Qwen3-Next)
    matmul_biased(p->added, &p->w->wo, p->mixed, p->w->extra->attention.bo, p->row);
}

void attention_of(Plain *p) {
    project_heads(p);
    attend(p);
    project_mixed(p);

    const Watch *watch = &p->extra->config->watch;  // --attn, and checks, look at a head
    int64_t d = p->w->extra->shape.head_dim;
    if (watch->scores && watch->query && p->layer == watch->layer)
        memcpy(watch->query, p->q + watch->head * d, d * sizeof(float));
}

// ---- a layer ----

// The kind that replaces a step of the present layer, such as experts or a state; NULL: none does.
static const Kind *instead_of(const Plain *p, int step) {
    return p->extra->of_layers[(int64_t)p->layer * N_STEPS + step];
}

// x += scale * norm(attention(norm(x))). Most models norm before (Llama), some after (OLMo 2), or
// both (Gemma 2 and 3, whose 1 + w is in the weights); Granite has a scale. Without weights there is
// no norm.
void mix_half(Plain *p, float *x) {
    const Kind *other = instead_of(p, STEP_MIX);
    norm_input(p, x, p->w->attention_norm);
    if (other)
        other->mix(p, x);  // latent attention (DeepSeek), a state (3 of 4 layers of Qwen3-Next)
    else attention_of(p);
    add_to_residual(p, x, p->w->extra->residual.attention_after);
}

// x += scale * norm(w2 @ (act(w1 @ n) * (w3 @ n))), where n is the norm of x; or with one norm for
// both halves (Cohere 2) the input of attention. act is SiLU (Llama), GELU (Gemma), or another.
void feed_half(Plain *p, float *x) {
    const Kind *other = instead_of(p, STEP_FEED);
    FeedForward w = dense_of(p->w);
    bool is_parallel = p->model->config.extra->residual.norm_place == NORM_PARALLEL;
    if (!is_parallel) norm_input(p, x, p->w->ffn_norm);
    if (other) other->feed(p, x);                      // experts (Mixtral, gpt-oss)
    else feed_forward_of(p, &w, p->normed, p->added);  // feed_forward.c has the formula
    add_to_residual(p, x, p->w->extra->residual.ffn_after);
}

// ---- the pass ----

int decoder_forward(Plain *p, int32_t token, int i, int length, float *x) {
    const ModelConfig *m = &p->model->config;
    const ResidualConfig *r = &m->extra->residual;
    p->i = i;
    if (i == 0 && p->extra->n_kept) memset(p->extra->kept, 0, p->extra->n_kept * sizeof(float));

    // x (dim) = the token's row of the embedding (vocab_size, dim), which some norm, and some multiply
    // by a scale (Gemma, Granite); a kind may add positions to it, or make embeddings for each layer of it (Gemma 4)
    memcpy(x, weights_row(&p->model->embedding, token, p->row), m->dim * sizeof *x);
    if (r->embedding_norm) rmsnorm(x, x, NULL, m->dim, m->norm_eps);
    if (r->embedding_scale > 0) scale_all(x, (float)r->embedding_scale, m->dim);
    EACH_KIND_THAT (embed, k, p->model) (*k)->embed(p, token, x);
    int bad = all_finite(x, m->dim) ? m->n_layers : -1;  // the first bad layer; n_layers: none

    // the angles of RoPE: of full layers, and of sliding ones where these have settings of their
    // own (Gemma 3: theta 1,000,000 and 10,000)
    fill_layer_angles(p, length);

    for (int l = 0; l < m->n_layers; l++) {
        p->layer = l;
        p->w = &p->model->layers[l];
        const Kind *other = instead_of(p, STEP_LAYER);
        if (other) {
            other->layer(p, x);  // streams beside the residual stream (Gemma 3n)
        } else {
            if (layer_mixes(p->w)) mix_half(p, x);  // a half may be missing (Nemotron-H)
            if (layer_feeds(p->w)) feed_half(p, x);
            EACH_KIND_THAT (end_layer, k, p->model) (*k)->end_layer(p, x);
        }
        if (bad == m->n_layers && !all_finite(x, m->dim)) bad = l;
    }
    return bad;
}

// logits (vocab_size) = classifier @ norm(x), times a scale (Granite, Cohere), capped (Gemma 2)
void decoder_logits(Plain *p, const float *x, float *logits) {
    const ModelConfig *m = &p->model->config;
    const ResidualConfig *r = &m->extra->residual;
    norm_input(p, x, p->model->final_norm);
    matmul(logits, &p->model->classifier, p->normed, p->row);
    if (r->logit_scale > 0) scale_all(logits, (float)r->logit_scale, m->vocab_size);
    for (int i = 0; i < m->vocab_size && r->logit_cap > 0; i++)
        logits[i] = capped(logits[i], (float)r->logit_cap);
}

// ---- memory ----

// Finds the kinds whose steps replace those of each layer.
static void find_steps(Plain *p) {
    const Model *m = p->model;
    for (int l = 0; l < m->config.n_layers; l++) {
        const Kind **of = p->extra->of_layers + (int64_t)l * N_STEPS;
        for (int step = 0; step < N_STEPS; step++) of[step] = NULL;
        EACH_KIND_THAT (has, k, m) {
            if (!(*k)->has(m, &m->layers[l])) continue;
            if ((*k)->layer) of[STEP_LAYER] = *k;
            if ((*k)->mix) of[STEP_MIX] = *k;
            if ((*k)->feed) of[STEP_FEED] = *k;
        }
    }
}

bool decoder_plan(Plain *p, const RopeSettings *given, RopePlan *plan, Error *err) {
    const Kinds *known = p->model->known;
    p->extra = alloc_array(1, added_bytes(known, OF_TEXT), "the past", err);
    if (!p->extra) return false;
    p->kinds = added_divide(known, OF_TEXT, p->extra);
    p->extra->own =
        (SessionConfig){.rope = &plan->rope, .sliding = &plan->sliding, .context = p->context};
    p->extra->config = &p->extra->own;
    return plan_rope(p->model, given, p->context, plan, err);
}

uint64_t decoder_lay_out(Plain *p, Arena *arena) {
    const ModelConfig *m = &p->model->config;
    plain_set_widths(p);
    if (model_encoding(p->model) != ENCODING_ROPE) p->n_pairs = 0;
    p->value_width = m->n_kv_heads * model_value_dim(m);
    p->mixed_width = m->n_heads * model_value_dim(m);
    EACH_KIND_THAT (lay_out, k, p->model) (*k)->lay_out(p, arena);

    uint64_t kept = plain_take_arrays(p, arena);
    bool has_gate = m->extra->attention.gate;
    p->extra->attention.gates = arena_take(arena, has_gate ? p->mixed_width : 0, sizeof(float));
    int n_sorted = p->extra->config->best_keys ? p->context : 0;
    p->extra->attention.sorted = arena_take(arena, n_sorted, sizeof(float));
    lay_out_angles(p, arena);
    p->extra->of_layers = arena_take(arena, (int64_t)m->n_layers * N_STEPS, sizeof(Kind *));
    if (p->extra->of_layers) find_steps(p);
    return kept;
}
