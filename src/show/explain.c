// --explain: the effects of a method, in numbers.
#define _POSIX_C_SOURCE 200809L
#include "show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double FULL_TURN = 6.28318530717958647693;
enum { MOST_WIDE = 40 };       // columns of a bar
enum { MOST_NOTES = 40 };      // more than any kind of layers has
enum { MOST_TOLD = 1 << 18 };  // positions; larger distances are not examined

// kept[i] = g, the share of pair i that is kept: 1 is kept, 0 is interpolated by s. At a fixed
// scale it follows from the frequency, which is plain * g + plain / s * (1 - g).
static void kept_at(RopeConfig c, double s, int length, double *kept) {
    RopeFreqs f;
    c.dynamic = false;
    c.factor = s;
    rope_frequencies(&c, length, &f);
    for (int i = 0; i < f.n_pairs; i++) {
        double share = f.inv_freq[i] / rope_plain(&c, i);
        kept[i] = share == 0 ? 0 : s == 1 ? 1 : (share - 1 / s) / (1 - 1 / s);
        if (settings_have_no_factor(&c) && share != 1) kept[i] = NAN;
    }
}

// The shares at s = 2 if they do not depend on s, which a comparison with s = 3 shows; otherwise at
// `scale`. At s = 1 they are undefined.
static void kept_shares(const RopeConfig *c, int length, double scale, double *kept) {
    double at_3[ROPE_MAX_PAIRS];
    kept_at(*c, 2, length, kept);
    kept_at(*c, 3, length, at_3);
    bool same = !(c->dynamic && scale == 1);
    for (int i = 0; i < c->rotary_dim / 2; i++) same = same && fabs(kept[i] - at_3[i]) < 1e-9;
    if (!same) kept_at(*c, scale, length, kept);
}

static bool is_unseen(const RopeConfig *c, int64_t i, int64_t j) {
    return rope_distance(c, (int)i, (int)j) >= c->train_ctx;
}

// Whether the unseen keys of the last query are its first keys: from the key where D falls below L,
// it stays below. This is so except in maps of your own.
static bool first_are_unseen(const RopeConfig *c, int length) {
    int j = 0;
    while (j < length && is_unseen(c, length - 1, j)) j++;
    while (j < length && !is_unseen(c, length - 1, j)) j++;
    return j >= length;
}

// The same share by counting, over about four million pairs of a long text.
static double counted_share(const RopeConfig *c, int length) {
    double unseen = 0;
    double all = 0;
    int step = (1 + length / 2048) | 1;
    for (int64_t i = 0; i < length; i += step) {
        for (int64_t j = i % step; j <= i; j += step) {
            unseen += rope_sees(c, (int)i, (int)j) && is_unseen(c, i, j);
            all++;
        }
    }
    return unseen / all;
}

// The share of pairs j <= i < length that see each other at a distance of L or more, which did not
// occur in training. In long texts only one query in `step` is counted.
static double unseen_share(const RopeConfig *c, int length) {
    double unseen = 0;
    double all = 0;
    if (!first_are_unseen(c, length)) return counted_share(c, length);
    for (int64_t i = 0, step = 1 + length / (1 << 20); i < length; i += step) {
        int low = -1, high = (int)i;  // the last unseen key, and the first seen one
        while (high - low > 1) {
            int middle = low + (high - low) / 2;
            if (is_unseen(c, i, middle)) low = middle;
            else high = middle;
        }
        int64_t sinks = c->window ? c->sinks : 0;
        int64_t start = c->window ? i - c->window + 1 : 0;
        if (start < sinks) start = sinks;
        unseen += (double)((high < sinks ? high : sinks) + (high > start ? high - start : 0));
        all += (double)i + 1;
    }
    return unseen / all;
}

// The largest distance up to which a key similar to the query scores higher, on average, than a
// random key: the sum of cos(m f) over all pairs is at least 0 for each m up to that distance. It
// is the bound of arXiv 2405.14591 on theta, inverted. MOST_TOLD if it is farther.
static int tells_apart(const RopeFreqs *now) {
    double cosine[ROPE_MAX_PAIRS], sine[ROPE_MAX_PAIRS], step[2][ROPE_MAX_PAIRS];
    for (int i = 0; i < now->n_pairs; i++) {
        cosine[i] = 1;
        sine[i] = 0;
        step[0][i] = cos(now->inv_freq[i]);
        step[1][i] = sin(now->inv_freq[i]);
    }
    for (int m = 1; m <= MOST_TOLD; m++) {
        double sum = 0;
        for (int i = 0; i < now->n_pairs; i++) {
            double turned = cosine[i] * step[0][i] - sine[i] * step[1][i];
            sine[i] = sine[i] * step[0][i] + cosine[i] * step[1][i];
            cosine[i] = turned;
            sum += turned;
        }
        if (sum < 0) return m - 1;
    }
    return MOST_TOLD;
}

// ---- notes ----

// A line above the rows.
typedef struct {
    const char *key;
    const char *format;  // of a number; NULL: words
    double number;
    char words[1024];
} Note;

// The lines above the rows, for one kind of layers.
typedef struct {
    Note of[MOST_NOTES];
    int n;
} Notes;

static void note_words(Notes *t, const char *key, const char *words) {
    Note *note = &t->of[t->n++];
    note->key = key;
    snprintf(note->words, sizeof note->words, "%s", words);
}

static void note_by(Notes *t, const char *key, const char *format, double number) {
    t->of[t->n++] = (Note){.key = key, .format = format, .number = number};
}

static void note_number(Notes *t, const char *key, double number) {
    note_by(t, key, "%.12g", number);
}

// The note with a key; NULL: there is none.
static const Note *find_note(const Notes *notes, const char *key) {
    for (const Note *note = notes->of; note < notes->of + notes->n; note++)
        if (strcmp(note->key, key) == 0) return note;
    return NULL;
}

static void note_fields(Notes *t, const RopeConfig *c, unsigned methods, unsigned maps) {
    for (const Setting *f = rope_settings; f < rope_settings + N_ROPE_SETTINGS; f++) {
        if (!f->option || !(f->methods & methods || f->maps & maps)) continue;
        const char *key = f->key ? f->key : f->option + 2;
        if (f->type == WORD) note_words(t, "ramp", f->words[c->ramp]);
        else if (!find_note(t, key)) note_number(t, key, setting_value(c, f));  // x is both's
    }
}

// Notes the map and, for the last query, the distances of the keys that are 1, 2, 4 ... before it;
// '-' if it does not see so far.
static void note_map(Notes *t, const RopeConfig *c, int length) {
    char one[40];
    char distances[1024] = "";
    note_words(t, "map", c->map->name);
    note_words(t, "map_source", c->map->source);
    note_fields(t, c, 0, c->map->flags);
    for (int64_t d = 1, i = length - 1; d < 2 * i; d *= 2) {
        int far = (int)(d < i ? d : i);
        int j = (int)i - far;
        snprintf(one, sizeof one, rope_sees(c, (int)i, j) ? "%d:%.6g" : "%d:-", far,
                 rope_distance(c, (int)i, j));
        add_name(distances, sizeof distances, " ", one);
    }
    if (distances[0]) note_words(t, "distances", distances);
}

static void note_settings(Notes *t, const RopeConfig *c, int head_dim, int length,
                          const RopeFreqs *now) {
    const RopeMethod *m = &rope_methods[c->method];
    note_words(t, "method", settings_method_name(c).text);
    note_words(t, "source", m->source);
    note_number(t, "dynamic", c->dynamic);
    const bool scales = m->flags & ROPE_USES_FACTOR;  // otherwise the length may need more
    note_number(t, "factor", scales ? c->factor : 1);
    note_number(t, "scale", scales ? now->scale : 1);
    note_number(t, "theta", c->theta);
    note_number(t, "train_ctx", c->train_ctx);
    note_number(t, "head_dim", head_dim);
    if (c->rotary_dim != head_dim) note_number(t, "rotary_dim", c->rotary_dim);
    note_number(t, "length", length);
    note_number(t, "attention_factor", now->attention_factor);
    note_fields(t, c, m->flags & ~ROPE_USES_FACTOR, 0);
    if (c->unscaled_positions > 0) note_number(t, "unscaled_positions", c->unscaled_positions);
    if (c->window > 0) note_number(t, "window", c->window);
    if (c->window > 0) note_number(t, "sinks", c->sinks);
    if (c->map) note_map(t, c, length);
    note_by(t, "unseen_share", "%.6g", unseen_share(c, length));
    note_number(t, "tells_apart", tells_apart(now));
    if (c->logn) note_by(t, "logn", "%.6g", rope_logn(c, length - 1));
    if (c->temperature_beta != 0) {
        note_number(t, "temperature_beta", c->temperature_beta);
        if (c->temperature_floor > 0) note_number(t, "temperature_floor", c->temperature_floor);
        note_by(t, "temperature", "%.6g", query_temperature(c, length - 1));
    }
}

static bool say_the_same(const Note *a, const Note *b) {
    if (!a->format || !b->format) return a->format == b->format && strcmp(a->words, b->words) == 0;
    return a->number == b->number;
}

// Prints the notes of a kind of layers. If another kind has been printed before, prints only the
// differences, with the name of the kind after the key, and '-' for notes that this kind lacks.
static void print_notes(Table *t, const Notes *notes, const Notes *others, const char *kind) {
    char key[80];
    for (const Note *note = notes->of; note < notes->of + notes->n; note++) {
        const Note *other = others ? find_note(others, note->key) : NULL;
        snprintf(key, sizeof key, others ? "%s_%s" : "%s", note->key, kind);
        if (other && say_the_same(note, other)) continue;
        if (note->format) table_note_number(t, key, note->format, note->number);
        else table_note(t, key, "%s", note->words);
    }
    for (int i = 0; others && i < others->n; i++) {
        snprintf(key, sizeof key, "%s_%s", others->of[i].key, kind);
        if (!find_note(notes, others->of[i].key)) table_note_unknown(t, key);
    }
}

// ---- kinds of layers ----

// One kind of a model's layers, with the numbers that explain it.
typedef struct {
    const char *name;
    bool turns;
    RopeConfig rope;
    RopeFreqs now;
    double kept[ROPE_MAX_PAIRS];
    Notes notes;
} LayerKind;

// Fills in the kinds that the model has, full layers first, and returns their number, which is 1 if
// all layers are the same.
static int fill_kinds(const Job *job, LayerKind kinds[N_LAYER_KINDS]) {
    static const char *const names[N_LAYER_KINDS] = {
        [LAYERS_FULL] = "full", [LAYERS_SLIDING] = "sliding"};
    const RopePlan *plan = job->plans;
    const LayerKinds *k = &job->kinds;
    bool both = k->is_there[LAYERS_FULL] && k->is_there[LAYERS_SLIDING];
    int n = 0;
    for (int i = 0; i < N_LAYER_KINDS; i++) {
        if (!k->is_there[i] && (both || i > 0 || k->is_there[LAYERS_SLIDING])) continue;
        LayerKind *kind = &kinds[n++];
        // If full layers do not rotate, their notes come from the sliding layers, except for the
        // window.
        bool own = k->own_sliding && (i == LAYERS_SLIDING || (both && !k->turns[LAYERS_FULL]));
        int own_head = own ? job->rope_file->sliding_head_dim : 0;
        *kind = (LayerKind){.name = names[i],
                            .turns = k->turns[i] || (!both && !job->rope_file->no_rope),
                            .rope = own ? plan->sliding : plan->rope};
        if (both && i == LAYERS_FULL && !plan->rope.all_slide)
            kind->rope.window = kind->rope.sinks = 0;
        rope_frequencies(&kind->rope, job->length, &kind->now);
        kept_shares(&kind->rope, job->length, kind->now.scale, kind->kept);
        note_settings(&kind->notes, &kind->rope, own_head ? own_head : plan->head_dim, job->length,
                      &kind->now);
    }
    return n;
}

// Prints the rows of a kind, with a column for its name if there are two kinds.
static void print_pairs(Table *t, const LayerKind *kind, bool is_named) {
    const RopeConfig *c = &kind->rope;
    for (int i = 0; i < kind->now.n_pairs; i++) {
        double plain = rope_plain(c, i);
        double scaled = kind->now.inv_freq[i];
        double kept = kind->kept[i];  // outside 0 to 1 it is not a mixture, as in a method of your
                                      // own
        double ramp = kept >= 0 && kept <= 1 ? kept : NAN;
        // theta^(-2i/d) = f, solved for theta; the first pair rotates by 1 with any theta
        double base = i > 0 && scaled > 0 ? pow(scaled, -(double)c->rotary_dim / (2 * i)) : NAN;
        double numbers[] = {plain,  FULL_TURN / plain,  rope_turns(c, i), ramp,
                            scaled, FULL_TURN / scaled, base};
        if (is_named) table_words(t, kind->name);
        table_number(t, "%.0f", i);
        for (int k = 0; k < 7; k++) table_number_if(t, !isnan(numbers[k]), "%.12g", numbers[k]);
        table_end_row(t);
    }
}

static void plot_pairs(const char *layers, const Job *job, const LayerKind *kind, int width) {
    const RopeConfig *c = &kind->rope;
    const RopeFreqs *now = &kind->now;
    int train_ctx = c->train_ctx;
    if (layers) fprintf(stderr, "%s layers, ", layers);
    fprintf(stderr, "%s at %d positions: s = %.4g, trained on %d\n",
            layers ? settings_method_name(c).text : job->plans->name, job->length, now->scale,
            train_ctx);
    fprintf(stderr, "pair  turns in %-6d  interpolated %*s kept\n", train_ctx, width - 18, "");
    for (int i = 0; i < now->n_pairs; i++) {
        double plain = rope_plain(c, i);
        double times = now->inv_freq[i] / plain;
        char bar[MOST_WIDE + 1] = "";
        for (int j = 0; j < width; j++) bar[j] = j < kind->kept[i] * width ? '#' : '.';
        fprintf(stderr, "%4d  %15.4g  |%s| x %.4g\n", i, rope_turns(c, i), bar, times);
    }
}

// Prints the notes of all kinds. A kind that does not rotate has only a note about that.
static void print_all_notes(Table *t, const LayerKind *kinds, int n) {
    bool any_turns = false;
    for (int i = 0; i < n; i++) any_turns = any_turns || kinds[i].turns;
    if (!any_turns) {
        table_note(t, "layers", "no RoPE: queries and keys do not rotate");
        return;
    }
    print_notes(t, &kinds[0].notes, NULL, kinds[0].name);
    if (n > 1 && kinds[1].turns) print_notes(t, &kinds[1].notes, &kinds[0].notes, kinds[1].name);
    if (n > 1 && !kinds[1].turns && kinds[1].rope.window > 0)
        table_note_number(t, "window_sliding", "%d", kinds[1].rope.window);
    for (int i = 0; i < n; i++)
        if (!kinds[i].turns) table_note(t, kinds[i].name, "no RoPE: queries and keys do not "
                                                          "rotate");
}

// ---- layers without RoPE ----

// Notes which layers have no RoPE although others of their kind do, the chunks that the others see
// and, for a config without weights, the temperature of the former. For a model that is already in
// the notes.
static void note_layers_without_rope(Table *t, const Job *job) {
    const Model *m = job->model;
    const LayersWithoutRope *rest = &job->rope_file->without_rope;
    const bool has_model = m->layers != NULL;
    ConfigLayers layers = {.n = 0};
    char list[200];
    bool any = false;
    for (int i = 0; i < MOST_LAYERS; i++) layers.kinds[i] = KIND_OTHER;
    if (has_model) {
        layers.n = m->config.n_layers;
        for (int i = 0; i < layers.n && i < MOST_LAYERS; i++) {
            const unsigned flags = m->layers[i].extra->flags;
            const bool is_full = !(flags & LAYER_SLIDING);
            if (!(flags & LAYER_NOPE) || !is_full || !job->kinds.turns[LAYERS_FULL]) continue;
            layers.kinds[i] = KIND_FULL;
            any = true;
        }
    } else {
        for (int i = 0; i < rest->n; i++) layers.kinds[rest->layers[i]] = KIND_FULL;
        any = rest->n > 0;
        layers.n = any ? rest->layers[rest->n - 1] + 1 : 0;
    }
    if (any) {
        list_layers(&layers, KIND_FULL, list, sizeof list);
        table_note(t, "layers_still", "%s", list);
    }
    const int chunk = has_model ? m->config.extra->attention.chunk : rest->chunk;
    if (chunk > 0) table_note_number(t, "chunk", "%d", chunk);
    if (has_model || rest->beta == 0) return;
    const RopeConfig c = {.temperature_beta = rest->beta,
                          .temperature_length = rest->length,
                          .temperature_unturned = true};
    table_note_number(t, "temperature_beta", "%.6g", rest->beta);
    table_note_number(t, "temperature", "%.6g", query_temperature(&c, job->length - 1));
}

// ---- the table ----

bool explain(Job *job, Error *err) {
    if (model_encoding(job->model)) return explain_encoding(job, err);
    LayerKind *kinds = alloc_array(N_LAYER_KINDS, sizeof *kinds, "kinds of layers", err);
    if (!kinds) return false;
    Table t = table_open(job->form);
    int n = fill_kinds(job, kinds);
    char columns[120] = "";
    // If both kinds rotate with the same settings, the pairs are printed only once.
    const bool are_one = !job->kinds.own_sliding && kinds[0].turns && kinds[n - 1].turns;
    const bool are_two = n > 1 && !are_one;
    if (are_two) add_name(columns, sizeof columns, "\t", "layers");
    add_name(columns, sizeof columns, "\t",
             "pair\tinv_freq\twavelength\tturns\tramp\tscaled_inv_freq\tscaled_wavelength\tbase");
    print_all_notes(&t, kinds, n);
    note_layers(&t, &job->rope_file->layers);
    const char *directions = job->rope_file->directions;
    if (directions[0]) table_note(&t, "directions", "%s", directions);
    note_layers_without_rope(&t, job);
    note_model(&t, job);
    table_columns(&t, as_list, columns);
    const LayerKind *first = kinds, *end = kinds + n;
    while (first < end && !first->turns) first++;
    if (!are_two && first < end) end = first + 1;
    for (const LayerKind *k = first; k < end; k++)
        if (k->turns) print_pairs(&t, k, are_two);
    table_end(&t);
    for (const LayerKind *k = first; k < end; k++)
        if (k->turns && (job->options->plot || isatty(STDERR_FILENO)))
            plot_pairs(are_two ? k->name : NULL, job, k, t.width < 76 ? 24 : MOST_WIDE);
    free(kinds);
    return true;
}
