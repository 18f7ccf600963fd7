// Differences from layer to layer: the tables after the header, and their checks.
#include "layers.h"

#include <string.h>

#include "rules.h"

// ---- consequences of the header ----

bool norms_cancel_factor(const ModelConfig *c) {
    const AttentionConfig *a = &c->extra->attention;
    return a->qk_norm == QK_NORM_BARE && a->qk_norm_turning && !a->qk_norm_late;
}

int model_window(const Model *m) {
    bool has_window = !m->config.extra->layers.sliding_rope;
    for (int l = 0; m->layers && l < m->config.n_layers; l++) {
        int flags = m->layers[l].extra->flags;
        if (!(flags & (LAYER_SEES_ALL | LAYER_SLIDING | LAYER_STATE))) has_window = true;
    }
    return has_window ? m->config.extra->attention.window : 0;
}

int64_t layer_value_dim(const ModelConfig *c, const Layer *layer) {
    int value_dim = c->extra->attention.value_dim;
    return value_dim ? value_dim : layer->extra->shape.head_dim;
}

// ---- the header ----

static const Field fields_of_layers[] = {
    {"layer_table", 232, U32, 0, 1, IN_DECODER(layers.has_flags)},
    {"sliding_rope", 256, U32, 0, 1, IN_DECODER(layers.sliding_rope)},
    {"sliding_method", 260, U32, 0, MOST, IN_DECODER(layers.sliding.method)},
    {"sliding_theta", 264, F64, 0, ANY, IN_DECODER(layers.sliding.theta)},
    {"sliding_factor", 272, F64, 0, ANY, IN_DECODER(layers.sliding.factor)},
    {"sliding_train_ctx", 280, U32, 0, MOST, IN_DECODER(layers.sliding.train_ctx)},
    {"sliding_ramp", 284, U32, 0, ROPE_RAMP_TURNS, IN_DECODER(layers.sliding.ramp)},
    {"sliding_truncate", 288, U32, 0, 1, IN_DECODER(layers.sliding.truncate)},
    {"sliding_rotary_dim", 292, U32, 0, ROPE_MAX_HEAD_DIM, IN_DECODER(layers.sliding_rotary_dim)},
    {"sliding_beta_fast", 296, F64, 0, ANY, IN_DECODER(layers.sliding.beta_fast)},
    {"sliding_beta_slow", 304, F64, 0, ANY, IN_DECODER(layers.sliding.beta_slow)},
    {"sliding_attention_factor", 312, F64, 0, ANY, IN_DECODER(layers.sliding.attention_factor)},
    {"sliding_mscale", 320, F64, 0, ANY, IN_DECODER(layers.sliding.mscale)},
    {"sliding_mscale_all_dim", 328, F64, 0, ANY, IN_DECODER(layers.sliding.mscale_all_dim)},
    {"sliding_low_freq_factor", 336, F64, 0, ANY, IN_DECODER(layers.sliding.low_freq_factor)},
    {"sliding_high_freq_factor", 344, F64, 0, ANY, IN_DECODER(layers.sliding.high_freq_factor)},
    {"layer_shapes", 512, U32, 0, 1, IN_DECODER(layers.has_shapes)},
};

static const Rule rules_of_layers[] = {
    {"sliding_rope", NEEDS, "layer_table"},
    {"sliding_method sliding_theta sliding_factor sliding_train_ctx sliding_ramp sliding_truncate "
     "sliding_rotary_dim sliding_beta_fast sliding_beta_slow sliding_attention_factor "
     "sliding_mscale sliding_mscale_all_dim sliding_low_freq_factor sliding_high_freq_factor",
     NEEDS, "sliding_rope"},
};

static bool check_layers(Model *m, Error *err) {
    const ModelConfig *c = &m->config;
    LayersConfig *l = &c->extra->layers;
    int rotary_dim = c->rotary_dim ? c->rotary_dim : (int)c->head_dim;
    if (!CHECK_RULES(m, rules_of_layers, err)) return false;
    if (!l->sliding_rope) return true;
    if (l->sliding.method > ROPE_PROPORTIONAL)
        return fail(err, "sliding_method is %d (expected 0 to %d)", l->sliding.method,
                    ROPE_PROPORTIONAL);
    if (rope_methods[l->sliding.method].flags & ROPE_USES_LISTS)
        return fail(err, "sliding_method is longrope, whose lists are only for rope_method");
    if (l->sliding.train_ctx < 1)
        return fail(err, "sliding_train_ctx is 0 (expected 1 to %d)", MOST);
    if (l->sliding_rotary_dim) rotary_dim = l->sliding_rotary_dim;
    return settings_set_rotary_dim(&l->sliding, "sliding_rotary_dim", rotary_dim,
                                   (int)c->head_dim, err);
}

// ---- the tables after it ----

// Whether a layer's heads have room for the elements that rotate, and its keys for the values.
static bool check_heads(const Model *m, int l, Error *err) {
    const ModelConfig *c = &m->config;
    const Layer *layer = &m->layers[l];
    int flags = layer->extra->flags;
    const RopeConfig *rope = layer_rope(layer, &m->rope, &c->extra->layers.sliding);
    int head_dim = layer->extra->shape.head_dim;
    bool turns = c->extra->rope_layers.encoding == ENCODING_ROPE && !(flags & LAYER_NOPE);
    bool counts_all = rope->method == ROPE_PROPORTIONAL;
    if (turns && (counts_all ? head_dim != rope->rotary_dim : head_dim < rope->rotary_dim))
        return fail(err, "impossible header: head_dim of layer %d is %d, and %d elements turn%s", l,
                    head_dim, rope->rotary_dim, counts_all ? " or rest" : "");
    if (!(flags & LAYER_KEYS_ARE_VALUES)) return true;
    if (c->extra->attention.qk_norm == QK_NORM_WHOLE)
        return fail(
            err, "impossible header: keys of layer %d are values (expected qk_norm 0, 1 or 3)", l);
    return layer_value_dim(c, layer) == head_dim ||
           fail(err, "impossible header: keys of layer %d are values (expected value_dim %d or 0)",
                l, head_dim);
}

// Whether a layer's heads go together, and those of the layer whose keys it reads are as its own:
// these rotate as its queries do.
static bool check_shape(const Model *m, int l, Error *err) {
    const LayerShape *shape = &m->layers[l].extra->shape;
    if (shape->n_heads % shape->n_kv_heads)
        return fail(err, "impossible header: %d heads of layer %d cannot share %d kv heads",
                    shape->n_heads, l, shape->n_kv_heads);
    if (shape->head_dim % 2)
        return fail(err, "impossible header: head_dim of layer %d is %d (expected an even number)",
                    l, shape->head_dim);
    if (shape->kv_layer < 0 || shape->kv_layer > l)
        return fail(err, "impossible header: kv_layer of layer %d is %d (expected 0 to %d)", l,
                    shape->kv_layer, l);
    const struct LayerExtra *source = m->layers[shape->kv_layer].extra;
    bool is_alike = source->shape.head_dim == shape->head_dim &&
                    source->shape.n_kv_heads == shape->n_kv_heads &&
                    source->shape.kv_layer == shape->kv_layer;
    bool has_keys = shape->kv_layer == l || layer_attends(&m->layers[shape->kv_layer]);
    int different = m->layers[l].extra->flags ^ source->flags;
    bool turns_alike = (different & (LAYER_SLIDING | LAYER_NOPE)) == 0;
    return (is_alike && has_keys && turns_alike) ||
           fail(err, "impossible header: layer %d takes keys of layer %d, which has others", l,
                shape->kv_layer);
}

// Numbers of a layer's shape, in the file's order: no more than the header's, which are the widest.
static bool read_shape(const Model *m, const uint8_t *numbers, int l, Error *err) {
    const ModelConfig *c = &m->config;
    static const char *const names[] = {"n_heads", "n_kv_heads", "head_dim", "hidden_dim"};
    const int least[] = {0, 1, 1, 0};
    const int most[] = {c->n_heads, c->n_kv_heads, (int)c->head_dim, (int)c->hidden_dim};
    int32_t found[SHAPE_NUMBERS];
    memcpy(found, numbers, sizeof found);
    for (int i = 0; i < 4; i++)
        if (found[i] < least[i] || found[i] > most[i])
            return fail(
                err, "impossible header: layer_shapes has %s %d for layer %d (expected %d to %d)",
                names[i], found[i], l, least[i], most[i]);
    m->layers[l].extra->shape = (LayerShape){found[0], found[1], found[2], found[3], found[4]};
    return true;
}

static bool read_shapes(Model *m, const uint8_t *shapes, Error *err) {
    const ModelConfig *c = &m->config;
    for (int l = 0; l < c->n_layers; l++) {
        LayerShape *shape = &m->layers[l].extra->shape;
        const uint8_t *numbers = shapes ? shapes + (size_t)l * SHAPE_NUMBERS * 4 : NULL;
        *shape = (LayerShape){c->n_heads, c->n_kv_heads, (int)c->head_dim, (int)c->hidden_dim, l};
        if (numbers && !read_shape(m, numbers, l, err)) return false;
        if (!check_shape(m, l, err) || !check_heads(m, l, err)) return false;
    }
    return true;
}

// The sum of a layer's flags. NOPE and SLIDING exclude one another, and STATE all but DENSE.
static bool read_flags(Model *m, const uint8_t *flags, Error *err) {
    const ModelConfig *c = &m->config;
    int most = LAYER_SEES_ALL | (c->extra->layers.sliding_rope ? LAYER_SLIDING : LAYER_NOPE);
    int more_bits = LAYER_DENSE;
    if (c->version >= 6) more_bits |= LAYER_WITHOUT_SINKS | LAYER_KEYS_ARE_VALUES;
    for (int l = 0; flags && l < c->n_layers; l++) {
        m->layers[l].extra->flags = flags[l];
        if ((flags[l] & ~LAYER_DENSE) == LAYER_STATE || (flags[l] & ~more_bits) <= most) continue;
        return fail(err, "impossible header: layer_table has %d for layer %d (expected 0 to %d%s)",
                    flags[l], l, most,
                    c->version >= 6 ? ", or 8, 16 or 32 more; or 64" : ", or 8 more");
    }
    return true;
}

bool check_no_layer_has(const Model *m, int flag, const char *field, Error *err) {
    for (int l = 0; l < m->config.n_layers; l++)
        if (m->layers[l].extra->flags & flag)
            return fail(err,
                        "impossible header: layer_table has %d for layer %d, where %d needs %s "
                        "(expected it without %d)",
                        m->layers[l].extra->flags, l, flag, field, flag);
    return true;
}

// Both halves of a layer read one norm: that of the first half.
static bool check_halves(const Model *m, Error *err) {
    if (m->config.extra->residual.norm_place != NORM_PARALLEL) return true;
    for (int l = 0; l < m->config.n_layers; l++)
        if (!layer_mixes(&m->layers[l]))
            return fail(
                err,
                "impossible header: layer_shapes has n_heads 0 for layer %d with norm_place %d "
                "(expected 1 or more)",
                l, NORM_PARALLEL);
    return true;
}

static bool read_tables(Model *m, Cursor *file, Error *err) {
    const ModelConfig *c = &m->config;
    const LayersConfig *l = &c->extra->layers;
    int64_t n_shapes = l->has_shapes ? (int64_t)c->n_layers * SHAPE_NUMBERS * 4 : 0;
    const uint8_t *flags;
    const uint8_t *shapes;
    if (!cursor_take_now(file, l->has_flags ? c->n_layers : 0, &flags, err)) return false;
    if (!read_flags(m, flags, err)) return false;
    if (!cursor_take_now(file, n_shapes, &shapes, err) || !read_shapes(m, shapes, err))
        return false;
    return !l->sliding_rope || settings_check(&l->sliding, c->seq_len, err) ||
           fail(err, "impossible header: sliding layers: %s", err->text);
}

// ---- tensors ----

static void leave_out(Tensors *t, int from, int to) {
    for (int i = 0; i < t->n; i++)
        if (t->rows[i].place >= from && t->rows[i].place < to) t->rows[i].rows = 0;
}

// Heads and widths of the layer in place of the header's.
static void set_layer_shapes(Model *m, Layer *w, Tensors *t) {
    const LayerShape *of = &w->extra->shape;
    int64_t heads = (int64_t)of->n_heads * of->head_dim;
    bool has_keys = of->kv_layer == w - m->layers;
    bool has_values = has_keys && !(w->extra->flags & LAYER_KEYS_ARE_VALUES);
    int64_t value_dim = layer_value_dim(&m->config, w);
    tensor_at(t, &w->wq)->rows = heads;
    tensor_at(t, &w->wk)->rows = has_keys ? (int64_t)of->n_kv_heads * of->head_dim : 0;
    tensor_at(t, &w->wv)->rows = has_values ? of->n_kv_heads * value_dim : 0;
    tensor_at(t, &w->wo)->cols = of->n_heads * value_dim;
    tensor_at(t, &w->w1)->rows = of->hidden_dim;
    tensor_at(t, &w->w3)->rows = of->hidden_dim;
    tensor_at(t, &w->w2)->cols = of->hidden_dim;
}

// Places of tensors in a file: those of the first half of a layer, of the second, and after these.
enum { FIRST_HALF = 100, SECOND_HALF = 300, AFTER_HALVES = 510 };

// A half that a layer lacks has no tensors.
static void leave_out_halves(Model *m, Layer *w, Tensors *t) {
    (void)m;
    if (!layer_mixes(w)) leave_out(t, FIRST_HALF, SECOND_HALF);
    if (!layer_feeds(w)) leave_out(t, SECOND_HALF, AFTER_HALVES);
}

// ---- questions about a layer ----

bool layer_mixes(const Layer *layer) {
    return layer->extra->shape.n_heads > 0 || layer->extra->flags & LAYER_STATE;
}

bool layer_feeds(const Layer *layer) { return layer->extra->shape.hidden_dim > 0; }

bool layer_attends(const Layer *layer) {
    return layer->extra->shape.n_heads > 0 && !(layer->extra->flags & LAYER_STATE);
}

const RopeConfig *layer_rope(const Layer *layer, const RopeConfig *rope,
                             const RopeConfig *sliding) {
    return layer->extra->flags & LAYER_SLIDING ? sliding : rope;
}

double layer_temperature(const Layer *layer, const RopeConfig *rope, int position) {
    bool counts = !rope->temperature_unturned || layer->extra->flags & LAYER_NOPE;
    return counts ? query_temperature(rope, position) : 1;
}

int last_own_layer(const Model *m) {
    int l = m->config.n_layers - 1;
    while (l > 0 && m->layers[l].extra->shape.kv_layer != l) l--;
    return l;
}

const Kind layers_kind = {
    .fields = fields_of_layers,
    .n_fields = sizeof fields_of_layers / sizeof fields_of_layers[0],
    .check = check_layers,
    .read_tables = read_tables,
    .check_layers = check_halves,
    .add_tensors = set_layer_shapes,
};

// After all others, whose tensors it leaves out.
const Kind halves_kind = {
    .add_tensors = leave_out_halves,
};
