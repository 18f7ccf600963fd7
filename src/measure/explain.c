// --explain: what a method, or an encoding other than RoPE, does in numbers.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../fast/encodings.h"
#include "../fast/widen.h"
#include "measure.h"

static const double PI = 3.14159265358979323846;
enum { MOST_WIDE = 40 };  // columns of a bar

// kept[i] = g, the share of pair i that is kept: 1 is kept, 0 is interpolated by s. At a fixed scale it follows from
// the frequency, which is plain * g + plain / s * (1 - g).
static void kept_at(RopeConfig c, double s, int length, double *kept) {
    RopeFreqs f;
    c.dynamic = false;
    c.factor = s;
    rope_frequencies(&c, length, &f);
    for (int i = 0; i < f.n_pairs; i++)
        kept[i] = s == 1 ? 1 : (f.inv_freq[i] / rope_plain(&c, i) - 1 / s) / (1 - 1 / s);
}

// The shares at s = 2 if these do not depend on s, as s = 3 tells, else at `scale`. At s = 1 they cannot be told.
static void kept_shares(const RopeConfig *c, int length, double scale, double *kept) {
    double at_3[ROPE_MAX_PAIRS];
    kept_at(*c, 2, length, kept);
    kept_at(*c, 3, length, at_3);
    bool same = !(c->dynamic && scale == 1);
    for (int i = 0; i < c->rotary_dim / 2; i++) same = same && fabs(kept[i] - at_3[i]) < 1e-9;
    if (!same) kept_at(*c, scale, length, kept);
}

static void plot_pairs(const RopePlan *plan, int length, const RopeFreqs *now, const double *kept, int width) {
    int train_ctx = plan->rope.train_ctx;
    fprintf(stderr, "%s at %d positions: s = %.4g, trained on %d\n", plan->name, length, now->scale, train_ctx);
    fprintf(stderr, "pair  turns in %-6d  interpolated %*s kept\n", train_ctx, width - 18, "");
    for (int i = 0; i < now->n_pairs; i++) {
        double plain = rope_plain(&plan->rope, i), times = now->inv_freq[i] / plain;
        char bar[MOST_WIDE + 1] = "";
        for (int j = 0; j < width; j++) bar[j] = j < kept[i] * width ? '#' : '.';
        fprintf(stderr, "%4d  %15.4g  |%s| x %.4g\n", i, train_ctx * plain / (2 * PI), bar, times);
    }
}

// The share of pairs j <= i < length that see each other over L or more, which training never showed. For a query these
// keys are the first: where D reaches L, it does not grow toward the query. Of long texts one query in `step` counts.
static double unseen_share(const RopeConfig *c, int length) {
    double unseen = 0, all = 0;
    for (int64_t i = 0, step = 1 + length / (1 << 20); i < length; i += step) {
        int low = -1, high = (int)i;  // the last unseen key, and the first that is not
        while (high - low > 1) {
            int middle = low + (high - low) / 2;
            if (rope_distance(c, (int)i, middle) >= c->train_ctx) low = middle;
            else high = middle;
        }
        int64_t sinks = c->window ? c->sinks : 0, start = c->window ? i - c->window + 1 : 0;
        if (start < sinks) start = sinks;
        unseen += (double)((high < sinks ? high : sinks) + (high > start ? high - start : 0));
        all += (double)i + 1;
    }
    return unseen / all;
}

static void note(Table *t, const char *key, double value) { table_note(t, key, "%.12g", value); }

static void note_fields(Table *t, const RopeConfig *c, unsigned methods, unsigned maps) {
    for (const Option *f = rope_fields; f < rope_fields + rope_n_fields; f++) {
        if (!f->option || !(f->methods & methods || f->maps & maps)) continue;
        if (f->type == WORD) table_note(t, "ramp", "%s", f->words[c->ramp]);
        else note(t, f->key ? f->key : f->option + 2, field_value(c, f));
    }
}

static void note_settings(Table *t, const RopePlan *plan, int length, const RopeFreqs *now) {
    const RopeConfig *c = &plan->rope;
    const RopeMethod *m = &rope_methods[c->method];
    char one[40], distances[1024] = "";
    table_note(t, "method", "%s", settings_method_name(c).text);
    table_note(t, "source", "%s", m->source);
    note(t, "dynamic", c->dynamic);
    note(t, "factor", c->factor);
    note(t, "scale", now->scale);
    note(t, "theta", c->theta);
    note(t, "train_ctx", c->train_ctx);
    note(t, "head_dim", plan->head_dim);
    if (c->rotary_dim != plan->head_dim) note(t, "rotary_dim", c->rotary_dim);
    note(t, "length", length);
    note(t, "attention_factor", now->attention_factor);
    note_fields(t, c, m->flags & ~ROPE_USES_FACTOR, 0);
    if (c->unscaled_positions > 0) note(t, "unscaled_positions", c->unscaled_positions);
    if (c->window > 0) note(t, "window", c->window);
    if (c->window > 0) note(t, "sinks", c->sinks);
    if (c->map) {
        table_note(t, "map", "%s", c->map->name);
        table_note(t, "map_source", "%s", c->map->source);
        note_fields(t, c, 0, c->map->flags);
        // For the last query, keys that are 1, 2, 4 ... before it; '-' where it does not see so far.
        for (int64_t d = 1, i = length - 1; d < 2 * i; d *= 2) {
            int far = (int)(d < i ? d : i), j = (int)i - far;
            snprintf(one, sizeof one, rope_sees(c, (int)i, j) ? "%d:%.6g" : "%d:-", far, rope_distance(c, (int)i, j));
            add_name(distances, sizeof distances, " ", one);
        }
        if (distances[0]) table_note(t, "distances", "%s", distances);
    }
    table_note(t, "unseen_share", "%.6g", unseen_share(c, length));
    if (c->logn) table_note(t, "logn", "%.6g", rope_logn(c, length - 1));
}

// What an encoding other than RoPE adds, and whether layers and heads differ in that.
typedef struct {
    const char *adds, *value, *source;
    bool by_layer, by_head;
} Explanation;

static const Explanation explanations[N_ENCODINGS] = {
    [ENCODING_NONE] = {"nothing: only the past is seen, and that is all that tells positions", "0", "arXiv 2305.19466",
                       false, false},
    [ENCODING_LEARNED] = {"x_t += P[t]", "mean of P[t] . P[t + d]", "arXiv 1705.03122", false, false},
    [ENCODING_SINUSOIDAL] = {"x_t += PE(t)", "PE(t) . PE(t + d)", "arXiv 1706.03762", false, false},
    [ENCODING_ALIBI] = {"score -= 2^(-8h/H) d", "what is added to the score", "arXiv 2108.12409", false, true},
    [ENCODING_SHAW] = {"score += q . aK[d] / sqrt(head_dim), value += aV[d]", "aK[0] . aK[d]", "arXiv 1803.02155", true,
                       false},
    [ENCODING_TRANSFORMER_XL] = {"score += (q . W_R R_d + u . k + v . W_R R_d) / sqrt(head_dim)",
                                 "v . W_R R_d / sqrt(head_dim)", "arXiv 1901.02860", true, true},
    [ENCODING_DISENTANGLED] = {"score += (q . W_k R_d + W_q R_d . k) / sqrt(head_dim)", "|W_k R_d| / sqrt(head_dim)",
                               "arXiv 2006.15595, 2006.03654", true, true},
};

static double dot(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

// The product of the vectors added at two positions, averaged over all that are `distance` apart.
static double product_of_added(const Model *m, int distance, float *x, float *y) {
    int64_t dim = m->config.dim, n = m->learned ? m->config.encoding_rows - distance : 1;
    double sum = 0;
    for (int64_t t = 0; t < n; t++) {
        encoding_vector(m, t, x);
        encoding_vector(m, t + distance, y);
        sum += dot(x, y, dim) / (double)n;
    }
    return sum;
}

// v . W_R R_d, or |W_k R_d| in a layer without v, over sqrt(head_dim). x (dim), y (dim) are scratch.
static double value_of_projection(const Model *m, const Layer *l, int head, int distance, float *x, float *y) {
    const ModelConfig *c = &m->config;
    int64_t d = c->head_dim, kv_head = head / (c->n_heads / c->n_kv_heads);
    double sum = 0;
    encoding_vector(m, distance, x);
    for (int64_t i = 0; i < d; i++) {
        matrix_row(l->v ? &l->wr : &l->wk, kv_head * d + i, 0, c->dim, y);
        double r = dot(x, y, c->dim);
        sum += l->v ? (double)l->v[head * d + i] * r : r * r;
    }
    return (l->v ? sum : sqrt(sum)) / sqrt((double)d);
}

static double value_of(const Model *m, int layer, int head, int distance, float *x) {
    const ModelConfig *c = &m->config;
    const Layer *l = &m->layers[layer];
    int64_t row = distance < c->encoding_rows ? distance : c->encoding_rows - 1;
    switch (c->encoding) {
    case ENCODING_NONE: return 0;
    case ENCODING_ALIBI: return -(double)encoding_slope(head, c->n_heads) * distance;
    case ENCODING_SHAW: return dot(l->a_keys, l->a_keys + row * c->head_dim, c->head_dim);
    case ENCODING_LEARNED:
    case ENCODING_SINUSOIDAL: return product_of_added(m, distance, x, x + c->dim);
    default: return value_of_projection(m, l, head, distance, x, x + c->dim);
    }
}

static bool explain_encoding(const Measurement *measured, Error *err) {
    const Model *m = measured->model;
    const ModelConfig *c = &m->config;
    const Explanation *e = &explanations[c->encoding];
    int length = m->learned && measured->length > c->encoding_rows ? c->encoding_rows : measured->length;
    float *x = alloc_array(2 * (uint64_t)c->dim, sizeof *x, "positions", err);
    if (!x) return false;
    Table t = table_open(measured->options->tsv);
    table_note(&t, "encoding", "%s", encoding_names[c->encoding]);
    table_note(&t, "adds", "%s", e->adds);
    table_note(&t, "source", "%s", e->source);
    table_note(&t, "train_ctx", "%d", m->rope.train_ctx);
    table_note(&t, "length", "%d", length);
    if (c->encoding_rows) table_note(&t, "encoding_rows", "%d", c->encoding_rows);
    table_note(&t, "value", "%s", e->value);
    table_columns(&t, "layer\thead\tdistance\tvalue");
    for (int layer = 0; layer < (e->by_layer ? c->n_layers : 1); layer++)
        for (int head = 0; head < (e->by_head ? c->n_heads : 1); head++)
            for (int64_t d = 0; d < 2 * (int64_t)length - 2 || d == 0; d = d ? 2 * d : 1) {
                int distance = d < length ? (int)d : length - 1;  // 0, 1, 2, 4 ... length - 1
                char where[2][16] = {"-", "-"};
                if (e->by_layer) snprintf(where[0], sizeof where[0], "%d", layer);
                if (e->by_head) snprintf(where[1], sizeof where[1], "%d", head);
                table_row(&t, "%s\t%s\t%d\t%.6g", where[0], where[1], distance, value_of(m, layer, head, distance, x));
            }
    table_end(&t);
    free(x);
    return true;
}

bool explain(const Measurement *m, Error *err) {
    const RopePlan *plan = m->plans;
    const RopeConfig *c = &plan->rope;
    RopeFreqs now;
    double kept[ROPE_MAX_PAIRS];
    if (m->model->config.encoding) return explain_encoding(m, err);
    Table t = table_open(m->options->tsv);
    rope_frequencies(c, m->length, &now);
    kept_shares(c, m->length, now.scale, kept);
    note_settings(&t, plan, m->length, &now);
    table_columns(&t, "pair\tinv_freq\twavelength\tturns\tramp\tscaled_inv_freq\tscaled_wavelength");
    for (int i = 0; i < now.n_pairs; i++) {
        double plain = rope_plain(c, i), scaled = now.inv_freq[i];
        table_row(&t, "%d\t%.12g\t%.12g\t%.12g\t%.12g\t%.12g\t%.12g", i, plain, 2 * PI / plain,
                  c->train_ctx * plain / (2 * PI), kept[i], scaled, 2 * PI / scaled);
    }
    table_end(&t);
    if (m->options->plot || isatty(STDERR_FILENO))
        plot_pairs(plan, m->length, &now, kept, t.width < 76 ? 24 : MOST_WIDE);
    return true;
}
