// A Llama's tensors, in the order of a model file. model_file.c takes them from there.
#include "model.h"

#include <math.h>

enum { N_TENSORS = 36 };

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

// Where a tensor stands in the order of its file's version, from 0 on, when n stand before it in
// versions 3 and later.
static int place_in_file(const ModelConfig *c, const Tensor *t, int n) {
    if (c->version == 0) return t->llama2c[0] - 1;
    return c->version < 3 ? t->llama2c[1] - 1 : n;
}

// Puts the tensors that the model has in the order of its file's version. Returns their number.
static int put_in_order(const ModelConfig *c, const Tensor all[N_TENSORS], Tensor out[N_TENSORS]) {
    int n = 0;
    for (const Tensor *t = all; t < all + N_TENSORS; t++) {
        if (t->rows == 0) continue;
        out[place_in_file(c, t, n)] = *t;
        n++;
    }
    return n;
}

// The same, of the table of all tensors. It has the order of versions 3 to 5. A row says where,
// places in llama2.c's, what, rows (0: the model lacks it), and columns.
static int tensors_in_order(const ModelConfig *c, Tensor out[N_TENSORS]) {
    bool is_whole = c->qk_norm == QK_NORM_WHOLE, has_norms = c->qk_norm != QK_NORM_NONE;
    bool before = c->norm_place != NORM_AFTER, after = c->norm_place != NORM_BEFORE;
    int64_t dim = c->dim, hidden = c->hidden_dim, head = c->head_dim, vocab = c->vocab_size;
    int64_t q = c->n_heads * head, kv = c->n_kv_heads * head;
    int64_t xl = c->encoding == ENCODING_TRANSFORMER_XL;
    int64_t learned = c->encoding == ENCODING_LEARNED ? c->encoding_rows : 0;
    int64_t shaw = c->encoding == ENCODING_SHAW ? c->encoding_rows : 0;
    int64_t own = c->shared_classifier ? 0 : vocab, angles = c->version == 0 ? c->seq_len : 0;
    int64_t n = c->n_experts, narrow = c->expert_hidden_dim, wide = n * narrow;
    const Tensor all[N_TENSORS] = {
        {MODEL(embedding, 1, 4), EMBEDDING, vocab, dim},
        {MODEL(learned, 0), FLOATS, learned, dim},
        {LAYER(attention_norm, 2, 1), FLOATS, before, dim},
        {LAYER(wq, 3, 5), ATTENTION, q, dim},
        {LAYER(wk, 4, 6), ATTENTION, kv, dim},
        {LAYER(wv, 5, 7), ATTENTION, kv, dim},
        {VECTOR(bq), c->qkv_bias, q},
        {VECTOR(bk), c->qkv_bias, kv},
        {VECTOR(bv), c->qkv_bias, kv},
        {VECTOR(q_norm), has_norms, is_whole ? q : head},
        {VECTOR(k_norm), has_norms, is_whole ? kv : head},
        {VECTOR(a_keys), shaw, head},
        {VECTOR(a_values), shaw, head},
        {LAYER(wr, 0), ATTENTION, xl * kv, dim},
        {VECTOR(u), xl, q},
        {VECTOR(v), xl, q},
        {LAYER(wo, 6, 8), ATTENTION, dim, q},
        {VECTOR(bo), c->o_bias, dim},
        {VECTOR(sinks), c->attention_sinks, c->n_heads},
        {VECTOR(attention_after), after, dim},
        {LAYER(ffn_norm, 7, 2), FLOATS, before, dim},
        {DENSE(w1, 8, 9), hidden, dim},
        {DENSE(w3, 10, 11), hidden, dim},
        {DENSE(w2, 9, 10), dim, hidden},
        {ROUTING(router), n, dim},
        {ROUTING(router_bias), c->router_bias, n},
        {EXPERTS(w1), wide, dim},
        {BIASES(b1), c->expert_bias, wide},
        {EXPERTS(w3), wide, dim},
        {BIASES(b3), c->expert_bias, wide},
        {EXPERTS(w2), n * dim, narrow},
        {BIASES(b2), c->expert_bias, n * dim},
        {VECTOR(ffn_after), after, dim},
        {MODEL(final_norm, 11, 3), FLOATS, 1, dim},
        {MODEL(angles, 12), FLOATS, angles, head},
        {MODEL(classifier, 13, 12), CLASSIFIER, own, dim},
    };
    return put_in_order(c, all, out);
}

int model_window(const Model *m) {
    bool has_window = !m->config.sliding_rope;
    for (int l = 0; m->layers && l < m->config.n_layers; l++) {
        int flags = m->layers[l].flags;
        if (!(flags & (LAYER_SEES_ALL | LAYER_SLIDING))) has_window = true;
    }
    return has_window ? m->config.sliding_window : 0;
}

int64_t model_used_width(const ModelConfig *c) {
    return c->n_experts ? c->n_experts_used * c->expert_hidden_dim : c->hidden_dim;
}

float model_score_scale(const ModelConfig *c) {
    float usual = 1 / sqrtf((float)c->head_dim);
    return c->score_scale > 0 ? (float)c->score_scale : usual;
}

// How many of n tensors from the first one on take turns, layer by layer. In versions 3 and later
// all of a layer do; llama2.c's files have one tensor of all layers, then the next.
static int tensors_together(const ModelConfig *c, const Tensor *first, int n) {
    int together = 1;
    if (c->version < 3 || first->owner == OF_MODEL) return together;
    while (together < n && first[together].owner != OF_MODEL) together++;
    return together;
}

// Whether a layer is of the kind that has the tensor.
static bool layer_has(const ModelConfig *c, const Layer *layer, const Tensor *t) {
    bool has_experts = c->n_experts > 0 && !(layer->flags & LAYER_DENSE);
    return t->owner == OF_LAYER || (t->owner == OF_EXPERTS) == has_experts;
}

void model_visit(Model *m, TensorVisitor *visit, void *whose) {
    Tensor tensors[N_TENSORS] = {{0}};
    int n = tensors_in_order(&m->config, tensors);
    int together;
    for (int i = 0; i < n; i += together) {
        const Tensor *first = &tensors[i];
        together = tensors_together(&m->config, first, n - i);
        if (first->owner == OF_MODEL) {
            visit(whose, first, (uint8_t *)m + first->place);
            continue;
        }
        for (int l = 0; l < m->config.n_layers; l++) {
            Layer *layer = &m->layers[l];
            for (const Tensor *t = first; t < first + together; t++) {
                if (layer_has(&m->config, layer, t)) visit(whose, t, (uint8_t *)layer + t->place);
            }
        }
    }
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
