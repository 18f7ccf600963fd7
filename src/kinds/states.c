// Layers that keep a state: all that was read is in a few numbers, whose count does not grow. The
// gated delta rule (arXiv 2412.06464) has a matrix S (key_dim, value_dim) for each head, which maps
// keys to values. At each token, with the head's query q and key k, both of length 1, and its value
// v:
//     S = exp(g) S                 it forgets: g = -exp(decay) softplus(step + dt) is below 0
//     d = beta (v - S^T k)         what it says of the key, and what it should say
//     S = S + k d^T                so that it says more of that, by beta
//     o = S^T q / sqrt(key_dim)    what it says of the query
// q, k and v come through a short convolution, which is all that a layer of the second kind has.
// Neither knows of positions.
#include "states.h"

#include <math.h>
#include <string.h>

#include "../llama/arithmetic.h"

// out (rows) = w @ normed, and a bias (rows) if there is one.
static void project_state(const Plain *p, float *out, const Matrix *w, const float *bias) {
    matmul(out, w, p->normed, p->row);
    if (bias) add(out, 1, bias, w->rows);
}

// y[c] = the sum over j of weights[c][j] * u[c] at the token conv_width - 1 - j back; 0 stands before
// the first. `past` (conv_width - 1, channels) has the tokens before, the last one last, and then
// this one. u and y (channels) may be one.
static void convolve(const Plain *p, const float *u, float *past, float *y) {
    const ModelConfig *m = &p->model->config;
    int64_t n = state_channels(m);
    int width = m->conv_width;
    int before = width - 1;
    for (int64_t c = 0; c < n; c++) {
        const float *weights = p->w->state_conv + c * width;
        float present = u[c];
        float sum = weights[before] * present;
        for (int j = 0; j < before; j++) {
            sum += weights[j] * past[j * n + c];
        }
        for (int j = 0; j + 1 < before; j++) {
            past[j * n + c] = past[(j + 1) * n + c];
        }
        if (before > 0) past[(before - 1) * n + c] = present;
        y[c] = p->w->b_state_conv ? sum + p->w->b_state_conv[c] : sum;
    }
}

// Makes each of n heads of x (n, width) one of length 1.
static void unit_heads(float *x, int n, int64_t width) {
    for (int h = 0; h < n; h++) {
        float *head = x + h * width;
        scale_all(head, 1 / sqrtf(dot(head, head, width) + STATE_EPS), width);
    }
}

// out (n) = S^T x, where S has a row of n for each of x (rows).
static void times_state(float *out, const float *s, const float *x, int64_t rows, int64_t n) {
    memset(out, 0, n * sizeof *out);
    for (int64_t i = 0; i < rows; i++) add(out, x[i], s + i * n, n);
}

// o (value_dim) of one head, whose state S (key_dim, value_dim) goes on. v becomes d.
static void step_head(const ModelConfig *m, float *s, const float *q, const float *k, float *v,
                      float decay, float beta, float *o) {
    int64_t rows = m->state_key_dim;
    int64_t n = m->state_value_dim;
    scale_all(s, decay, rows * n);
    times_state(o, s, k, rows, n);
    for (int64_t c = 0; c < n; c++) v[c] = beta * (v[c] - o[c]);
    for (int64_t i = 0; i < rows; i++) add(s + i * n, k[i], v, n);
    times_state(o, s, q, rows, n);
    scale_all(o, 1 / sqrtf((float)rows), n);
}

void gated_delta_rule(Plain *p) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    int n_keys = m->state_key_heads;
    int n_heads = m->state_value_heads;
    int64_t key_dim = m->state_key_dim;
    int64_t value_dim = m->state_value_dim;
    int64_t channels = state_channels(m);
    float *past = present_state(p);
    float *s = past + (m->conv_width - 1) * channels;

    // q (n_keys, key_dim), k (n_keys, key_dim) and v (n_heads, value_dim), one behind the other
    float *q = p->state_in;
    float *k = q + n_keys * key_dim;
    float *v = k + n_keys * key_dim;
    project_state(p, q, &w->state_in, NULL);
    convolve(p, q, past, q);
    for (int64_t c = 0; c < channels; c++) q[c] = silu(q[c]);
    unit_heads(q, 2 * n_keys, key_dim);

    project_state(p, p->state_gate, &w->state_gate, NULL);
    project_state(p, p->state_beta, &w->state_beta, NULL);
    project_state(p, p->state_step, &w->state_step, NULL);
    for (int h = 0; h < n_heads; h++) {
        int64_t key = state_key_head(m, h) * key_dim;  // several heads share one
        float *o = p->mixed + h * value_dim;
        const float *gate = p->state_gate + h * value_dim;
        float g = -expf(w->state_decay[h]) * softplus(p->state_step[h] + w->state_dt[h]);
        float beta = sigmoid(p->state_beta[h]);
        step_head(m, s + h * key_dim * value_dim, q + key, k + key, v + h * value_dim, expf(g),
                  beta, o);
        // The norm comes before the gate.
        rmsnorm(o, o, w->state_norm, value_dim, m->norm_eps);
        for (int64_t c = 0; c < value_dim; c++) o[c] *= silu(gate[c]);
    }
    matmul(p->added, &w->state_out, p->mixed, p->row);
}

// out = C * convolution of (B * X), each (dim). Of LFM2.
void short_convolution(Plain *p) {
    const ModelConfig *m = &p->model->config;
    const Layer *w = p->w;
    float *b = p->state_in;
    const float *c = b + m->dim;
    const float *x = c + m->dim;
    project_state(p, b, &w->state_in, w->b_state_in);
    for (int64_t i = 0; i < m->dim; i++) b[i] *= x[i];
    convolve(p, b, present_state(p), p->mixed);
    for (int64_t i = 0; i < m->dim; i++) p->mixed[i] *= c[i];
    matmul(p->added, &w->state_out, p->mixed, p->row);
    if (w->b_state_out) add(p->added, 1, w->b_state_out, m->dim);
}
