// main of ./core: all kinds of models.
#include "../decoder/forward.h"
#include "../llama/tiny.h"
#include "all.h"

int main(int argc, char **argv) {
    const Definition all = {
        .name = "core",
        .known = &kinds,
        .plan = decoder_plan,
        .lay_out = decoder_lay_out,
        .forward = decoder_forward,
        .logits = decoder_logits,
    };
    return tiny_program(argc, argv, &all);
}
