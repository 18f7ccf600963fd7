// main of ./llama, which runs a Llama and no other kind of model.
#include "hooks.h"
#include "tiny.h"

// Settings of RoPE by layer, which a header may have, are others' (src/decoder/rope_layers.c).
static bool plan_llama(Plain *p, const RopeSettings *given, RopePlan *plan, Error *err) {
    const RopeConfig *own = &p->model->rope;
    if (own->unscaled_positions || own->temperature_unturned || own->mscale_in_scores)
        return fail(err, "the model is not a plain Llama: its header has %s (./core runs it)",
                    own->unscaled_positions     ? "unscaled_positions"
                    : own->temperature_unturned ? "temperature_unturned"
                                                : "mscale_in_scores");
    return settings_resolve(given, own, 0, p->context, plan, err);
}

int main(int argc, char **argv) {
    static const Kind *const forms[] = {&old_files_kind};
    static const Kinds files = {.rows = forms, .n = 1};
    const Definition llama = {
        .name = "llama",
        .known = &files,
        .plan = plan_llama,
        .lay_out = plain_lay_out,
        .forward = plain_forward,
        .logits = plain_logits,
    };
    return tiny_program(argc, argv, &llama);
}
