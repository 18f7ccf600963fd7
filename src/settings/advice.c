// What is worth a warning about settings of RoPE.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "methods.h"

bool settings_same_method(const RopeConfig *own, const RopeConfig *asked) {
    return own->method == ROPE_NONE ||
           (asked->method == own->method && asked->dynamic == own->dynamic);
}

bool settings_idle(const RopeSettings *s, const RopePlan *plan, int *row, Error *advice) {
    const RopeConfig *r = &plan->rope;
    unsigned flags = rope_methods[r->method].flags, map = r->map ? r->map->flags : 0;
    while (*row < N_ROPE_SETTINGS) {
        int i = (*row)++;
        const Setting *f = &rope_settings[i];
        bool is_used = f->methods ? flags & f->methods : !f->maps || map & f->maps;
        if (s->said >> i & 1 && !is_used) {
            bool is_letter = strlen(f->option) == 3;  // --k, and -k is another option
            return !fail(advice, "%s has no effect on rope %s%s%s%s", f->option, plan->name,
                         is_letter ? " (did you mean " : "", is_letter ? f->option + 1 : "",
                         is_letter ? "?)" : "");
        }
    }
    return false;
}

bool settings_advice(const RopeSettings *s, const RopePlan *plan, int context, Error *advice) {
    const RopeConfig *r = &plan->rope;
    unsigned flags = rope_methods[r->method].flags, map = r->map ? r->map->flags : 0;
    int chunk = map & ROPE_MAP_CHUNK ? (int)fmin(r->chunk, r->train_ctx - r->chunk) : 0;
    int kept = map & ROPE_MAP_NEAR ? r->near : chunk;  // distances below this one do not change
    double times = (double)context / r->train_ctx;
    bool reaches =
        r->dynamic || r->map || times <= 1 || (r->window > 0 && r->window <= r->train_ctx);
    reaches =
        reaches ||
        flags & ROPE_USES_FREQ_FACTORS;  // Llama 3.1 itself reaches 16 times L with a factor of 8
    if (s->rope.window > 0 && s->rope.window <= kept)
        return fail(advice,
                    "--window %d hides all that rope %s changes: its distances below %d are plain",
                    s->rope.window, plan->name, kept);
    if (reaches || (flags & ROPE_USES_FACTOR && r->factor >= times)) return true;
    char past[100];
    snprintf(past, sizeof past,
             times < 100 ? "%d positions are %.3g times" : "%d positions are %.0f times", context,
             times);
    if (flags & ROPE_USES_FACTOR)
        return fail(
            advice,
            "%s the trained context of %d, more than the factor %.6g of rope %s: try --factor %.0f",
            past, r->train_ctx, r->factor, plan->name, ceil(times));
    return fail(advice,
                "%s the trained context of %d, and rope %s does nothing about it: try --rope yarn "
                "or --rope "
                "dynamic",
                past, r->train_ctx, plan->name);
}
