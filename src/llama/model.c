// A Llama's tensors, in the order of a model file. model_file.c takes them from there.
#include "model.h"

#include <math.h>

enum { N_TENSORS = 62 };

// Macros, because no function can be given a member. The numbers are a tensor's places in
// llama2.c's.
#define MODEL(member, ...)                                                                         \
    OF_MODEL, offsetof(Model, member), { __VA_ARGS__ }
#define LAYER(member, ...)                                                                         \
    OF_LAYER, offsetof(Layer, member), { __VA_ARGS__ }
#define FLOATS_OF(owner, member) owner, offsetof(Layer, member), {0}, FLOATS
#define VECTOR(member) FLOATS_OF(OF_LAYER, member)
#define ROUTING(member) FLOATS_OF(OF_EXPERTS, member)
#define DENSE(member, ...) OF_DENSE, offsetof(Layer, ffn.member), {__VA_ARGS__}, FEED_FORWARD
#define EXPERTS(member) OF_EXPERTS, offsetof(Layer, ffn.member), {0}, FEED_FORWARD
#define BIASES(member) FLOATS_OF(OF_EXPERTS, ffn.member)
#define DENSE_BIAS(member) FLOATS_OF(OF_DENSE, ffn.member)
#define SHARED(member) OF_EXPERTS, offsetof(Layer, shared.member), {0}, FEED_FORWARD

// Where a tensor stands in the order of its file's version, from 0 on, when n stand before it in
// versions 3 and later.
static int place_in_file(const ModelConfig *c, const Tensor *t, int n) {
    if (c->version == 0) return t->llama2c[0] - 1;
    return c->version < 3 ? t->llama2c[1] - 1 : n;
}

// Puts those of a table's tensors that the model has behind the n in `out`, or in versions before 3
// where these have them. Returns how many there are then.
static int put_in_order(const ModelConfig *c, const Tensor *table, int rows, Tensor *out, int n) {
    for (const Tensor *t = table; t < table + rows; t++) {
        if (t->rows == 0) continue;
        out[place_in_file(c, t, n)] = *t;
        n++;
    }
    return n;
}
#define PUT(table) put_in_order(c, table, sizeof(table) / sizeof *(table), out, n)

// How many rows and columns the matrices of a layer's attention have.
typedef struct {
    int64_t q, q_in;           // wq
    int64_t keys, values, in;  // wk, wv; 0 rows: the layer has none
    int64_t latent;            // wkv_a
    int64_t mixed;             // what wo reads
} AttentionShape;

static AttentionShape attention_shape(const Model *m, const Layer *layer) {
    const ModelConfig *c = &m->config;
    const LayerShape *of = &layer->shape;
    int64_t value_dim = c->value_dim ? c->value_dim : of->head_dim;
    bool has_keys = of->kv_layer == layer - m->layers;
    bool has_values = has_keys && !(layer->flags & LAYER_KEYS_ARE_VALUES);
    AttentionShape a = {0};
    a.q = (int64_t)of->n_heads * of->head_dim;
    a.q_in = c->q_rank ? c->q_rank : c->dim;
    a.in = c->dim;
    a.mixed = of->n_heads * value_dim;
    if (has_keys) a.keys = (int64_t)of->n_kv_heads * of->head_dim;
    if (has_values) a.values = of->n_kv_heads * value_dim;
    if (c->kv_rank == 0) return a;
    a.latent = c->kv_rank + m->rope.rotary_dim;
    a.keys = of->n_heads * (int64_t)(of->head_dim - m->rope.rotary_dim);
    a.values = a.mixed;
    a.in = c->kv_rank;
    return a;
}

// Tables of tensors have the order of versions 3 to 6. A row says where, places in llama2.c's, what,
// rows (0: the model lacks it), and columns.
static int put_front(const ModelConfig *c, Tensor *out, int n) {
    int64_t dim = c->dim, vocab = c->vocab_size;
    int64_t learned = c->encoding == ENCODING_LEARNED ? c->encoding_rows : 0;
    int64_t p = c->per_layer_dim, all_p = p * c->n_layers, has_p = p > 0;
    const Tensor table[] = {
        {MODEL(embedding, 1, 4), EMBEDDING, vocab, dim},
        {MODEL(learned, 0), FLOATS, learned, dim},
        {MODEL(per_layer_embedding, 0), EMBEDDING, has_p * vocab, all_p},
        {MODEL(per_layer_projection, 0), FEED_FORWARD, all_p, dim},
        {MODEL(per_layer_norm, 0), FLOATS, has_p, p},
    };
    return PUT(table);
}

// How many rows the gate of attention has.
static int64_t gate_rows(const ModelConfig *c, const Layer *layer, int64_t mixed) {
    if (c->attention_gate == GATE_SOFTPLUS_HEAD) return layer->shape.n_heads;
    return c->attention_gate == GATE_NONE ? 0 : mixed;
}

// What a layer has in attention's place that keeps a state.
static int put_state(const ModelConfig *c, Tensor *out, int n) {
    bool is_delta = c->state_kind == STATE_DELTA, biases = c->state_bias;
    bool before = c->norm_place != NORM_AFTER;
    bool after = c->norm_place == NORM_AFTER || c->norm_place == NORM_BOTH;
    int64_t dim = c->dim, in = state_inputs(c), width = state_width(c), all = state_channels(c);
    int64_t heads = is_delta ? c->state_value_heads : 0;
    const Tensor table[] = {
        {LAYER(attention_norm, 0), FLOATS, before, dim},
        {LAYER(state_in, 0), ATTENTION, in, dim},
        {VECTOR(b_state_in), biases, in},
        {LAYER(state_gate, 0), ATTENTION, is_delta * width, dim},
        {LAYER(state_beta, 0), ATTENTION, heads, dim},
        {LAYER(state_step, 0), ATTENTION, heads, dim},
        {VECTOR(state_conv), all, c->conv_width},
        {VECTOR(b_state_conv), biases, all},
        {VECTOR(state_decay), is_delta, heads},
        {VECTOR(state_dt), is_delta, heads},
        {VECTOR(state_norm), is_delta, c->state_value_dim},
        {LAYER(state_out, 0), ATTENTION, dim, width},
        {VECTOR(b_state_out), biases, dim},
        {VECTOR(attention_after), after, dim},
    };
    return PUT(table);
}

static int put_attention(const Model *m, const Layer *layer, Tensor *out, int n) {
    const ModelConfig *c = &m->config;
    AttentionShape a = attention_shape(m, layer);
    bool is_whole = c->qk_norm == QK_NORM_WHOLE;
    bool has_norms = is_whole || c->qk_norm == QK_NORM_HEAD;
    bool before = c->norm_place != NORM_AFTER;
    bool after = c->norm_place == NORM_AFTER || c->norm_place == NORM_BOTH;
    bool has_sinks = c->attention_sinks && !(layer->flags & LAYER_WITHOUT_SINKS);
    int64_t dim = c->dim, head = layer->shape.head_dim, heads = layer->shape.n_heads;
    int64_t normed_keys = has_norms && a.keys ? 1 : 0, wg = gate_rows(c, layer, a.mixed);
    int64_t xl = c->encoding == ENCODING_TRANSFORMER_XL;
    int64_t shaw = c->encoding == ENCODING_SHAW ? c->encoding_rows : 0;
    const Tensor table[] = {
        {LAYER(attention_norm, 2, 1), FLOATS, before, dim},
        {LAYER(wq_a, 0), ATTENTION, c->q_rank, dim},
        {VECTOR(q_a_norm), c->q_rank > 0, c->q_rank},
        {LAYER(wq, 3, 5), ATTENTION, a.q, a.q_in},
        {LAYER(wkv_a, 0), ATTENTION, a.latent, dim},
        {VECTOR(kv_a_norm), c->kv_rank > 0, c->kv_rank},
        {LAYER(wk, 4, 6), ATTENTION, a.keys, a.in},
        {LAYER(wv, 5, 7), ATTENTION, a.values, a.in},
        {VECTOR(bq), c->qkv_bias, a.q},
        {VECTOR(bk), c->qkv_bias, a.keys},
        {VECTOR(bv), c->qkv_bias, a.values},
        {VECTOR(q_norm), has_norms, is_whole ? a.q : head},
        {VECTOR(k_norm), normed_keys, is_whole ? a.keys : head},
        {VECTOR(a_keys), shaw, head},
        {VECTOR(a_values), shaw, head},
        {LAYER(wr, 0), ATTENTION, xl * a.keys, dim},
        {VECTOR(u), xl, a.q},
        {VECTOR(v), xl, a.q},
        {LAYER(wg, 0), ATTENTION, wg, dim},
        {VECTOR(bg), c->gate_bias, wg},
        {LAYER(wo, 6, 8), ATTENTION, dim, a.mixed},
        {VECTOR(bo), c->o_bias, dim},
        {VECTOR(sinks), has_sinks, heads},
        {VECTOR(attention_after), after, dim},
    };
    return PUT(table);
}

// Whether w1 is there.
static bool is_gated(const ModelConfig *c) {
    return c->activation != ACTIVATION_RELU2 && c->activation != ACTIVATION_XIELU;
}

static int put_dense(const ModelConfig *c, const Layer *layer, Tensor *out, int n) {
    bool two_before = c->norm_place == NORM_BEFORE || c->norm_place == NORM_BOTH,
         gated = is_gated(c);
    int64_t dim = c->dim, hidden = layer->shape.hidden_dim;
    const Tensor table[] = {
        {LAYER(ffn_norm, 7, 2), FLOATS, two_before, dim},
        {DENSE(w1, 8, 9), gated * hidden, dim},
        {DENSE_BIAS(b1), c->ffn_bias && gated, hidden},
        {DENSE(w3, 10, 11), hidden, dim},
        {DENSE_BIAS(b3), c->ffn_bias, hidden},
        {DENSE(w2, 9, 10), dim, hidden},
        {DENSE_BIAS(b2), c->ffn_bias, dim},
        {VECTOR(xielu), c->activation == ACTIVATION_XIELU, 4},
    };
    return PUT(table);
}

static int put_experts(const ModelConfig *c, Tensor *out, int n) {
    int64_t dim = c->dim, all = c->n_experts, narrow = c->expert_hidden_dim, wide = all * narrow;
    int64_t beside = c->experts_beside, shared = c->shared_hidden_dim, gated = is_gated(c);
    const Tensor table[] = {
        {ROUTING(router), all, dim},
        {ROUTING(router_bias), c->router_bias, all},
        {ROUTING(router_choice_bias), c->router_choice_bias, all},
        {ROUTING(router_norm), beside, dim},
        {ROUTING(expert_scales), beside, all},
        {EXPERTS(w1), gated * wide, dim},
        {BIASES(b1), c->expert_bias, wide},
        {EXPERTS(w3), wide, dim},
        {BIASES(b3), c->expert_bias, wide},
        {EXPERTS(w2), all * dim, narrow},
        {BIASES(b2), c->expert_bias, all * dim},
        {SHARED(w1), gated * shared, dim},
        {SHARED(w3), shared, dim},
        {SHARED(w2), shared ? dim : 0, shared},
        {ROUTING(shared_gate), c->shared_gate, dim},
        {ROUTING(shared_after), beside, dim},
        {ROUTING(experts_norm), beside, dim},
        {ROUTING(experts_after), beside, dim},
    };
    return PUT(table);
}

static int put_end_of_layer(const ModelConfig *c, Tensor *out, int n) {
    bool after = c->norm_place == NORM_AFTER || c->norm_place == NORM_BOTH;
    int64_t dim = c->dim, p = c->per_layer_dim, has_p = p > 0;
    const Tensor table[] = {
        {VECTOR(ffn_after), after, dim},
        {LAYER(per_layer_gate, 0), FEED_FORWARD, p, dim},
        {LAYER(per_layer_out, 0), FEED_FORWARD, has_p * dim, p},
        {VECTOR(per_layer_after), has_p, dim},
        {VECTOR(scale), c->layer_scale, 1},
    };
    return PUT(table);
}

static int put_back(const ModelConfig *c, Tensor *out, int n) {
    int64_t dim = c->dim, head = c->head_dim, vocab = c->vocab_size;
    int64_t own = c->shared_classifier ? 0 : vocab, angles = c->version == 0 ? c->seq_len : 0;
    const Tensor table[] = {
        {MODEL(final_norm, 11, 3), FLOATS, 1, dim},
        {MODEL(angles, 12), FLOATS, angles, head},
        {MODEL(classifier, 13, 12), CLASSIFIER, own, dim},
    };
    return PUT(table);
}

// All tensors in the order of the file's version: those of the model, and between them those of this
// layer. Returns their number.
static int tensors_in_order(const Model *m, const Layer *layer, Tensor out[N_TENSORS]) {
    const ModelConfig *c = &m->config;
    int n = put_front(c, out, 0);
    if (layer->flags & LAYER_STATE) n = put_state(c, out, n);
    else n = put_attention(m, layer, out, n);
    n = put_dense(c, layer, out, n);
    n = put_experts(c, out, n);
    n = put_end_of_layer(c, out, n);
    return put_back(c, out, n);
}

int model_window(const Model *m) {
    bool has_window = !m->config.sliding_rope;
    for (int l = 0; m->layers && l < m->config.n_layers; l++) {
        int flags = m->layers[l].flags;
        if (!(flags & (LAYER_SEES_ALL | LAYER_SLIDING | LAYER_STATE))) has_window = true;
    }
    return has_window ? m->config.sliding_window : 0;
}

int layers_with_state(const Model *m, int layers) {
    int n = 0;
    for (int l = 0; l < layers; l++) n += (m->layers[l].flags & LAYER_STATE) != 0;
    return n;
}

int64_t model_used_width(const ModelConfig *c) {
    if (c->n_experts == 0) return c->hidden_dim;
    return c->n_experts_used * c->expert_hidden_dim + c->shared_hidden_dim;
}

static float score_scale(const ModelConfig *c, int64_t head_dim) {
    return c->score_scale > 0 ? (float)c->score_scale : 1 / sqrtf((float)head_dim);
}

float model_score_scale(const ModelConfig *c) { return score_scale(c, c->head_dim); }

float layer_score_scale(const ModelConfig *c, const Layer *layer) {
    return score_scale(c, layer->shape.head_dim);
}

// Whether a layer is of the kind that has the tensor.
static bool layer_has(const ModelConfig *c, const Layer *layer, const Tensor *t) {
    bool has_experts = c->n_experts > 0 && !(layer->flags & LAYER_DENSE);
    return t->owner == OF_LAYER || (t->owner == OF_EXPERTS) == has_experts;
}

// Visits those of the tensors that are of the model.
static void visit_model(Model *m, const Tensor *t, TensorVisitor *visit, void *whose) {
    if (t->owner == OF_MODEL) visit(whose, t, (uint8_t *)m + t->place);
}

// llama2.c's files have one tensor of all layers, then the next.
static void visit_by_kind(Model *m, TensorVisitor *visit, void *whose) {
    Tensor tensors[N_TENSORS] = {{0}};
    int n = tensors_in_order(m, m->layers, tensors);
    for (const Tensor *t = tensors; t < tensors + n; t++) {
        visit_model(m, t, visit, whose);
        for (int l = 0; t->owner != OF_MODEL && l < m->config.n_layers; l++) {
            visit(whose, t, (uint8_t *)&m->layers[l] + t->place);
        }
    }
}

void model_visit(Model *m, TensorVisitor *visit, void *whose) {
    if (m->config.version < 3) {
        visit_by_kind(m, visit, whose);
        return;
    }
    // Those of the model stand before the layers and behind them.
    Tensor tensors[N_TENSORS] = {{0}};
    int n = tensors_in_order(m, m->layers, tensors);
    int i = 0;
    for (; tensors[i].owner == OF_MODEL; i++) visit_model(m, &tensors[i], visit, whose);
    for (int l = 0; l < m->config.n_layers; l++) {
        Layer *layer = &m->layers[l];
        Tensor of_layer[N_TENSORS] = {{0}};
        int n_of_layer = tensors_in_order(m, layer, of_layer);
        for (const Tensor *t = of_layer; t < of_layer + n_of_layer; t++) {
            if (t->owner == OF_MODEL || !layer_has(&m->config, layer, t)) continue;
            visit(whose, t, (uint8_t *)layer + t->place);
        }
    }
    for (; i < n; i++) visit_model(m, &tensors[i], visit, whose);
}

bool model_reaches(const Model *m, int positions, Error *err) {
    int learned = m->config.encoding_rows;
    return !m->learned || positions <= learned ||
           fail(err,
                "the model has learned %d positions, and knows nothing of more (found a context of "
                "%d)",
                learned, positions);
}

bool fail_not_finite(int layer, int n_layers, int position, Error *err) {
    if (layer < 0)
        return fail(err, "the embedding of the token at position %d holds NaN or infinity",
                    position);
    if (layer < n_layers)
        return fail(err,
                    "NaN or infinity came out of layer %d at position %d: the weights hold it, or "
                    "lead to it",
                    layer, position);
    return fail(err,
                "NaN or infinity among the logits at position %d: the final norm or the classifier "
                "holds or makes it",
                position);
}
