// The feed-forward network as it may differ from a Llama's: GELU in place of SiLU (Gemma 3), a
// clamped SwiGLU (gpt-oss), no gate (Arcee, Apertus), biases.
#include "feed_forward.h"

#include "../llama/arithmetic.h"
#include "curves.h"
#include "rules.h"

static const Field fields_of_feed_forward[] = {
    {"activation", 380, U32, 0, N_ACTIVATIONS - 1, IN_DECODER(feed_forward.activation),
     .version_6 = ACTIVATION_RELU2},
    {"ffn_bias", 592, U32, 0, 1, IN_DECODER(feed_forward.bias)},
};

bool is_gated(const ModelConfig *c) {
    int activation = c->extra->feed_forward.activation;
    return activation != ACTIVATION_RELU2 && activation != ACTIVATION_XIELU;
}

// Adds the biases; without a gate, drops w1.
static void add_feed_forward_tensors(Model *m, Layer *w, Tensors *t) {
    const FeedForwardConfig *f = &m->config.extra->feed_forward;
    FeedForwardTensors *to = &w->extra->feed_forward;
    int64_t dim = m->config.dim, hidden = w->extra->shape.hidden_dim;
    bool gated = is_gated(&m->config);
    const Tensor rows[] = {
        {320, &to->b1, FLOATS, .rows = f->bias && gated, .cols = hidden},
        {340, &to->b3, FLOATS, .rows = f->bias, .cols = hidden},
        {360, &to->b2, FLOATS, .rows = f->bias, .cols = dim},
        {370, &to->xielu, FLOATS, .rows = f->activation == ACTIVATION_XIELU, .cols = 4},
    };
    insert_tensors(t, rows, 4);
    if (!gated) tensor_at(t, &w->w1)->rows = 0;
}

FeedForward dense_of(const Layer *w) {
    const FeedForwardTensors *own = &w->extra->feed_forward;
    return (FeedForward){w->w1, w->w3, w->w2, own->b1, own->b3, own->b2};
}

// act(gate) * up, of one element.
static float times_gate(int activation, float gate, float up) {
    if (activation == ACTIVATION_CLAMPED) return clamped_swiglu(gate, up);
    float factor = activation == ACTIVATION_GELU ? gelu(gate) : silu(gate);
    return factor * up;
}

void feed_forward_of(const Plain *p, const FeedForward *w, const float *x, float *out) {
    int activation = p->model->config.extra->feed_forward.activation;
    const float *parameters = p->w->extra->feed_forward.xielu;
    float *up = p->up;
    bool has_gate = w->w1.rows > 0;
    if (has_gate) matmul_biased(p->gate, &w->w1, x, w->b1, p->row);
    matmul_biased(up, &w->w3, x, w->b3, p->row);
    for (int64_t e = 0; e < w->w3.rows; e++) {
        if (has_gate) up[e] = times_gate(activation, p->gate[e], up[e]);
        else up[e] = activation == ACTIVATION_XIELU ? xielu(up[e], parameters) : relu2(up[e]);
    }
    matmul_biased(out, &w->w2, up, w->b2, p->row);
}

const Kind feed_forward_kind = {
    .fields = fields_of_feed_forward,
    .n_fields = sizeof fields_of_feed_forward / sizeof fields_of_feed_forward[0],
    .add_tensors = add_feed_forward_tensors,
};
