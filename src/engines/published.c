// A published block and the engines' readings of it, at L / 2 positions or past the plan's reach.
#include "engines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../configs/write.h"

int reading_kinds(const Reading *r) { return r->by_layer && r[0].kind == KIND_FULL ? N_KINDS : 1; }

int readings_alike(const Readings *readings, int *known) {
    int same = 0;
    *known = 0;
    for (int i = 0; i < readings->n; i += reading_kinds(&readings->of[i])) {
        const Reading *r = &readings->of[i];
        const Reading *last = &r[reading_kinds(r) - 1];
        if (r->verdict == VERDICT_UNSEEN) continue;
        *known += 1;
        if (r->verdict == VERDICT_SAME && last->verdict == VERDICT_SAME) same++;
    }
    return same;
}

// `last` is the last reading of all.
static void print_difference(const Reading *r, const Reading *last) {
    bool in_both = r < last && r->kind == KIND_FULL && r[1].kind != KIND_FULL &&
                   strcmp(r->note, r[1].note) == 0;
    bool is_refused = r->verdict == VERDICT_REFUSED;
    const char *kind = r->by_layer && !is_refused && !in_both ? kind_names[r->kind] : NULL;
    printf("# %s %s", r->engine, is_refused ? "refuses it" : "differs");
    if (kind) printf(" in %s layers", kind);
    printf(": %s\n", r->note);
}

static bool print_engines(const Publication *p, const char *config, Error *err) {
    const RopeConfig *c = &p->plan.rope, meant[N_KINDS] = {p->plan.rope, p->plan.sliding};
    int known;
    Readings *far = engines_read(NULL, config, publish_reach(c) + 1, meant, err);
    Readings *near = far ? engines_read(NULL, config, c->train_ctx / 2 + 1, meant, err) : NULL;
    int n = near ? near->n : 0;
    Reading *r = near ? far->of : NULL;
    for (int i = 0; i < n; i++)
        if (r[i].verdict == VERDICT_SAME) r[i] = near->of[i];
    int same = near ? readings_alike(far, &known) : 0;
    if (near && known && !p->rope_file->is_unknown)
        printf("; so %d of %d engines interpret it the same way\n", same, known);
    else if (near) printf("; no engine was looked at with such a model\n");
    for (int i = 0; i < n && !p->rope_file->is_unknown; i++) {
        bool is_second = i > 0 && strcmp(r[i].engine, r[i - 1].engine) == 0;
        bool is_told = is_second && strcmp(r[i].note, r[i - 1].note) == 0;
        bool is_other = r[i].verdict != VERDICT_SAME && r[i].verdict != VERDICT_UNSEEN;
        if (is_other && !is_told) print_difference(&r[i], &r[n - 1]);
    }
    free(far);
    free(near);
    return near;
}

bool publish_print(const Publication *p, Error *err) {
    char *config = publish_config(p, false, err);
    if (!config) return false;
    publish_options(p);
    bool ok = print_engines(p, config, err);
    free(config);
    if (ok) publish_block(p);
    return ok;
}
