// The tables between header and tensors: what may differ from layer to layer, and the types of
// matrices.
#include <string.h>

#include "../llama/model.h"

// What may differ by layer is the header's, unless there is a table.
static LayerShape usual_shape(const ModelConfig *c, int layer) {
    LayerShape shape = {c->n_heads, c->n_kv_heads, (int)c->head_dim, (int)c->hidden_dim, layer};
    return shape;
}

// Whether what turns has its place in a layer's heads, and values theirs in keys.
static bool check_heads(const Model *m, int l, Error *err) {
    const ModelConfig *c = &m->config;
    const Layer *layer = &m->layers[l];
    const RopeConfig *rope = layer_rope(layer, &m->rope, &m->sliding);
    int head_dim = layer->shape.head_dim;
    bool turns = c->encoding == ENCODING_ROPE && !(layer->flags & LAYER_NOPE);
    bool counts_all = rope->method == ROPE_PROPORTIONAL;
    if (turns && (counts_all ? head_dim != rope->rotary_dim : head_dim < rope->rotary_dim))
        return fail(err, "impossible header: head_dim of layer %d is %d, and %d elements turn%s", l,
                    head_dim, rope->rotary_dim, counts_all ? " or rest" : "");
    if (!(layer->flags & LAYER_KEYS_ARE_VALUES)) return true;
    if (c->qk_norm == QK_NORM_WHOLE)
        return fail(
            err, "impossible header: keys of layer %d are values (expected qk_norm 0, 1 or 3)", l);
    return layer_value_dim(c, layer) == head_dim ||
           fail(err, "impossible header: keys of layer %d are values (expected value_dim %d or 0)",
                l, head_dim);
}

// A layer that reads another's keys turns its queries as that one does.
static bool turns_alike(const Model *m, int a, int b) {
    return ((m->layers[a].flags ^ m->layers[b].flags) & (LAYER_SLIDING | LAYER_NOPE)) == 0;
}

// Whether a layer's heads go together, and those of the layer whose keys it reads are as its own.
static bool check_shape(const Model *m, int l, Error *err) {
    const LayerShape *shape = &m->layers[l].shape;
    if (shape->n_heads % shape->n_kv_heads)
        return fail(err, "impossible header: %d heads of layer %d cannot share %d kv heads",
                    shape->n_heads, l, shape->n_kv_heads);
    if (shape->head_dim % 2)
        return fail(err, "impossible header: head_dim of layer %d is %d (expected an even number)",
                    l, shape->head_dim);
    if (shape->kv_layer < 0 || shape->kv_layer > l)
        return fail(err, "impossible header: kv_layer of layer %d is %d (expected 0 to %d)", l,
                    shape->kv_layer, l);
    const LayerShape *source = &m->layers[shape->kv_layer].shape;
    bool is_alike = source->head_dim == shape->head_dim &&
                    source->n_kv_heads == shape->n_kv_heads && source->kv_layer == shape->kv_layer;
    bool has_keys = shape->kv_layer == l || !(m->layers[shape->kv_layer].flags & LAYER_STATE);
    return (is_alike && has_keys && turns_alike(m, l, shape->kv_layer)) ||
           fail(err, "impossible header: layer %d takes keys of layer %d, which has others", l,
                shape->kv_layer);
}

// Numbers of a layer's shape, in the file's order: no more than the header's, which are the widest.
static bool read_shape(const Model *m, const uint8_t *numbers, int l, LayerShape *shape,
                       Error *err) {
    const ModelConfig *c = &m->config;
    static const char *const names[] = {"n_heads", "n_kv_heads", "head_dim", "hidden_dim"};
    const int most[] = {c->n_heads, c->n_kv_heads, (int)c->head_dim, (int)c->hidden_dim};
    int32_t found[SHAPE_NUMBERS];
    memcpy(found, numbers, sizeof found);
    for (int i = 0; i < 4; i++)
        if (found[i] < 1 || found[i] > most[i])
            return fail(err,
                        "impossible header: layer_shapes has %s %d for layer %d (expected 1 to %d)",
                        names[i], found[i], l, most[i]);
    *shape = (LayerShape){found[0], found[1], found[2], found[3], found[4]};
    return true;
}

bool read_shape_table(Model *m, const uint8_t *shapes, Error *err) {
    for (int l = 0; l < m->config.n_layers; l++) {
        LayerShape *shape = &m->layers[l].shape;
        const uint8_t *numbers = shapes ? shapes + (size_t)l * SHAPE_NUMBERS * 4 : NULL;
        *shape = usual_shape(&m->config, l);
        if (numbers && !read_shape(m, numbers, l, shape, err)) return false;
        if (!check_shape(m, l, err) || !check_heads(m, l, err)) return false;
    }
    return true;
}

// Of what may stand in a layer's sum, NOPE and SLIDING exclude one another, and a state all but
// DENSE.
bool read_layer_table(Model *m, const uint8_t *flags, Error *err) {
    const ModelConfig *c = &m->config;
    int most = LAYER_SEES_ALL | (c->sliding_rope ? LAYER_SLIDING : LAYER_NOPE);
    int more_bits = c->n_experts > 0 ? LAYER_DENSE : 0;
    if (c->version >= 6) more_bits |= LAYER_WITHOUT_SINKS;
    if (c->version >= 6 && c->kv_rank == 0) more_bits |= LAYER_KEYS_ARE_VALUES;
    for (int l = 0; flags && l < c->n_layers; l++) {
        int others = flags[l];
        m->layers[l].flags = flags[l];
        if (c->state_kind && (others & ~LAYER_DENSE) == LAYER_STATE) others &= LAYER_DENSE;
        if ((others & ~more_bits) <= most) continue;
        const char *more = c->version >= 6 ? ", or 8, 16 or 32 more; or 64 with state_kind"
                           : more_bits     ? ", or 8 more"
                                           : "";
        return fail(err, "impossible header: layer_table has %d for layer %d (expected 0 to %d%s)",
                    flags[l], l, most, more);
    }
    return true;
}

bool check_type_table(const ModelConfig *c, const uint8_t *types, int n, Error *err) {
    for (int i = 0; i < n; i++) {
        int type = types[i] % TYPE_PACKED;
        bool is_packed = types[i] >= TYPE_PACKED;
        bool is_known = type < N_WEIGHT_TYPES && (!is_packed || can_be_packed(type));
        bool has_groups = type != WEIGHT_Q8 || c->group_size > 0;
        if (is_known && has_groups) continue;
        return fail(err,
                    "impossible header: type_table has %d for matrix %d "
                    "(expected 0 to %d, q8 with groups; %d more only for types that are packed)",
                    types[i], i, N_WEIGHT_TYPES - 1, TYPE_PACKED);
    }
    return true;
}

// The fields of a kind of state, and what it goes with. All are 0 without one.
bool check_states(const ModelConfig *c, Error *err) {
    int keys = c->state_key_heads, values = c->state_value_heads;
    bool has_heads = keys || values || c->state_key_dim || c->state_value_dim;
    if (c->gate_bias && !c->attention_gate)
        return fail(err, "gate_bias without attention_gate (expected 0)");
    if (c->state_tiled && c->state_kind != STATE_DELTA)
        return fail(err, "state_tiled with state_kind %d (expected 0)", c->state_kind);
    if (c->state_kind == STATE_NONE)
        return !(has_heads || c->conv_width || c->state_bias) ||
               fail(err, "state_kind is 0, and other fields of states are not (expected 0 in all)");
    if (!c->has_layers)
        return fail(err, "state_kind without a layer_table, which says the layers that it is for");
    if (c->conv_width < 1) return fail(err, "conv_width is 0 with state_kind (expected 1 or more)");
    if (c->kv_rank || c->encoding > ENCODING_SINUSOIDAL)
        return fail(err,
                    "state_kind with kv_rank or an encoding in scores (expected 0 in kv_rank, "
                    "and an encoding up to %d)",
                    ENCODING_SINUSOIDAL);
    if (c->state_kind == STATE_CONV)
        return !has_heads || fail(err,
                                  "state_kind is %d with heads of a state (expected 0 in "
                                  "state_key_heads, state_value_heads, and their widths)",
                                  STATE_CONV);
    if (c->state_bias) return fail(err, "state_bias with state_kind %d (expected 0)", STATE_DELTA);
    if (keys < 1 || values < 1 || values % keys)
        return fail(err, "%d value heads of a state cannot share %d key heads", values, keys);
    return (c->state_key_dim > 0 && c->state_value_dim > 0) ||
           fail(err, "state_key_dim is %d and state_value_dim is %d (expected 1 or more)",
                c->state_key_dim, c->state_value_dim);
}
