// What a method does, in numbers.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"

static const double PI = 3.14159265358979323846;
enum { MOST_WIDE = 40 };  // columns of a bar

// The kept share g of each pair: 1 is kept, 0 interpolated by s. At a fixed scale it follows from the frequency, which
// is plain * g + plain / s * (1 - g).
static void kept_at(RopeConfig c, double s, int length, double *kept) {
    RopeFreqs f;
    c.dynamic = false;
    c.factor = s;
    rope_frequencies(&c, length, &f);
    for (int i = 0; i < f.n_pairs; i++)
        kept[i] = s == 1 ? 1 : (f.inv_freq[i] / rope_plain(&c, i) - 1 / s) / (1 - 1 / s);
}

// Shares that do not depend on s, as 2 and 3 tell, can be told at s = 1, too.
static void kept_shares(const RopeConfig *c, int length, double scale, double *kept) {
    double at_3[ROPE_MAX_PAIRS];
    kept_at(*c, 2, length, kept);
    kept_at(*c, 3, length, at_3);
    bool same = !(c->dynamic && scale == 1);
    for (int i = 0; i < c->rotary_dim / 2; i++) same = same && fabs(kept[i] - at_3[i]) < 1e-9;
    if (!same) kept_at(*c, scale, length, kept);
}

// One bar per pair.
static void plot_pairs(const RopePlan *plan, int length, const RopeFreqs *now, const double *kept, int width) {
    const int train_ctx = plan->rope.train_ctx;
    fprintf(stderr, "%s at %d positions: s = %.4g, trained on %d\n", plan->name, length, now->scale, train_ctx);
    fprintf(stderr, "pair  turns in %-6d  interpolated %*s kept\n", train_ctx, width - 18, "");
    for (int i = 0; i < now->n_pairs; i++) {
        const double plain = rope_plain(&plan->rope, i), times = now->inv_freq[i] / plain;
        char bar[MOST_WIDE + 1] = "";
        for (int j = 0; j < width; j++) bar[j] = j < kept[i] * width ? '#' : '.';
        fprintf(stderr, "%4d  %15.4g  |%s| x %.4g\n", i, train_ctx * plain / (2 * PI), bar, times);
    }
}

// The share of all pairs j <= i below `length` that see each other over a distance of L or more, which training never
// showed. For one query those keys are its first: D does not grow towards the query where it reaches L. Of a very long
// text, one query in `step` is asked.
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

// What the map makes of distances, those of 1, 2, 4 and so on of the last query; '-' where it does not see so far.
static void write_distances(const RopeConfig *c, int length, char *out, size_t capacity) {
    size_t used = 0;
    for (int64_t d = 1, i = length - 1; d < 2 * i; d *= 2) {
        int far = (int)(d < i ? d : i), j = (int)i - far;
        used += (size_t)snprintf(out + used, capacity - used, "%s%d:", d == 1 ? "" : " ", far);
        used += (size_t)snprintf(out + used, capacity - used, rope_sees(c, (int)i, j) ? "%.6g" : "-",
                                 rope_distance(c, (int)i, j));
    }
}

static void note(Table *t, bool wanted, const char *key, double value) {
    if (wanted) table_note(t, key, "%.12g", value);
}

// The fields that are a method's or a map's own, told by their flags.
static void note_fields(Table *t, const RopeConfig *c, unsigned methods, unsigned maps) {
    for (const Option *f = rope_fields; f < rope_fields + rope_n_fields; f++) {
        if (!f->option || !(f->methods & methods || f->maps & maps)) continue;
        if (f->type == WORD) table_note(t, "ramp", "%s", rope_ramps[c->ramp]);
        else note(t, true, f->key ? f->key : f->option + 2, field_value(c, f));
    }
}

// The settings in force and what follows from them.
static void note_settings(Table *t, const RopePlan *plan, int length, const RopeFreqs *now) {
    const RopeConfig *c = &plan->rope;
    const RopeMethod *m = &rope_methods[c->method];
    char name[64], distances[1024];
    settings_method_name(c->method, c->dynamic, name, sizeof name);
    table_note(t, "method", "%s", name);
    table_note(t, "source", "%s", m->source);
    note(t, true, "dynamic", c->dynamic);
    note(t, true, "factor", c->factor);
    note(t, true, "scale", now->scale);
    note(t, true, "theta", c->theta);
    note(t, true, "train_ctx", c->train_ctx);
    note(t, true, "head_dim", plan->head_dim);
    note(t, c->rotary_dim != plan->head_dim, "rotary_dim", c->rotary_dim);
    note(t, true, "length", length);
    note(t, true, "attention_factor", now->attention_factor);
    note_fields(t, c, m->flags & ~ROPE_USES_FACTOR, 0);
    note(t, c->unscaled_positions > 0, "unscaled_positions", c->unscaled_positions);
    note(t, c->window > 0, "window", c->window);
    note(t, c->window > 0, "sinks", c->sinks);
    if (c->map) {
        table_note(t, "map", "%s", c->map->name);
        table_note(t, "map_source", "%s", c->map->source);
        note_fields(t, c, 0, c->map->flags);
        write_distances(c, length, distances, sizeof distances);
        if (distances[0]) table_note(t, "distances", "%s", distances);
    }
    table_note(t, "unseen_share", "%.6g", unseen_share(c, length));
    if (c->logn) table_note(t, "logn", "%.6g", rope_logn(c, length - 1));
}

bool explain(const Measurement *m, Error *err) {
    const RopePlan *plan = m->plans;
    const RopeConfig *c = &plan->rope;
    RopeFreqs now;
    double kept[ROPE_MAX_PAIRS];
    if (m->model->config.encoding) return explain_encoding(m, err);
    Table t = table_open(SHAPE_LIST, c->train_ctx, m->options->tsv);
    rope_frequencies(c, m->length, &now);
    kept_shares(c, m->length, now.scale, kept);
    note_settings(&t, plan, m->length, &now);
    table_columns(&t, "pair\tinv_freq\twavelength\tturns\tramp\tscaled_inv_freq\tscaled_wavelength");
    for (int i = 0; i < now.n_pairs; i++) {
        double plain = rope_plain(c, i), scaled = now.inv_freq[i];
        table_row(&t, NULL, "%d\t%.12g\t%.12g\t%.12g\t%.12g\t%.12g\t%.12g", i, plain, 2 * PI / plain,
                  c->train_ctx * plain / (2 * PI), kept[i], scaled, 2 * PI / scaled);
    }
    table_end(&t);
    if (m->options->plot || isatty(STDERR_FILENO))
        plot_pairs(plan, m->length, &now, kept, t.width < 76 ? 24 : MOST_WIDE);
    return true;
}
