// main of ./llama: a Llama, and nothing else.
#include "tiny.h"

static bool plan_llama(Plain *p, const RopeSettings *given, RopePlan *plan, Error *err) {
    return settings_resolve(given, &p->model->rope, 0, p->context, plan, err);
}

int main(int argc, char **argv) {
    const Definition llama = {
        .name = "llama",
        .plan = plan_llama,
        .lay_out = plain_lay_out,
        .forward = plain_forward,
        .logits = plain_logits,
    };
    return tiny_program(argc, argv, &llama);
}
