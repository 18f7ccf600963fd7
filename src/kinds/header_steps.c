// Which steps of attention and of the feed-forward layer go together: fields of version 6 that a
// few families have.
#include "../base/settings.h"
#include "../llama/model.h"

static bool check_norms(const ModelConfig *c, Error *err) {
    bool by_head = c->qk_norm == QK_NORM_HEAD || c->qk_norm == QK_NORM_BARE;
    bool has_after = c->norm_place == NORM_AFTER || c->norm_place == NORM_BOTH;
    const char *when = c->qk_norm_late ? "qk_norm_late" : "qk_norm_turning";
    if (c->after_norm_eps > 0 && !has_after)
        return fail(err, "after_norm_eps with norm_place %d, which has no such norm (expected 0)",
                    c->norm_place);
    if (!c->qk_norm_late && !c->qk_norm_turning) return true;
    if (!by_head)
        return fail(err, "%s with qk_norm %d (expected 1 or 3, a norm of each head)", when,
                    c->qk_norm);
    return c->encoding == ENCODING_ROPE ||
           fail(err, "%s with encoding %d (expected 0, RoPE)", when, c->encoding);
}

static bool check_feed_forward(const ModelConfig *c, Error *err) {
    bool has_gate = c->activation != ACTIVATION_RELU2 && c->activation != ACTIVATION_XIELU;
    if (c->n_experts == 0) return true;
    if (!has_gate)
        return fail(err, "activation %d with experts, which have a gate (expected 0 to 2)",
                    c->activation);
    return c->norm_place != NORM_PARALLEL ||
           fail(err, "norm_place %d with experts (expected 0 to 2)", c->norm_place);
}

bool model_turns_by(const Model *model, const RopeConfig *rope, Error *err) {
    bool has_lists = rope_methods[rope->method].flags & ROPE_USES_LISTS;
    bool has_two = has_lists && !settings_has_one_list(rope);
    bool is_even = !rope->dynamic && !rope->map && !has_two && rope->unscaled_positions == 0;
    return is_even || !model->config.qk_norm_late ||
           fail(err, "norms of heads come behind RoPE in this model, so that its keys cannot turn "
                     "again (expected a method of one scale for all lengths, without a map)");
}

bool check_steps(const ModelConfig *c, const RopeConfig *r, Error *err) {
    bool has_temperature = r->temperature_unturned || r->temperature_length;
    if (!check_norms(c, err) || !check_feed_forward(c, err)) return false;
    if (has_temperature && r->temperature_beta == 0)
        return fail(err,
                    "temperature_beta is 0, and other fields of a temperature are not (expected "
                    "0 in temperature_unturned and temperature_length)");
    return !(c->attention_gate && c->kv_rank) ||
           fail(err, "attention_gate is %d with kv_rank (expected 0)", c->attention_gate);
}
