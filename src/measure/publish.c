// RoPE's settings as other programs read them: a block, a config, llama.cpp's options, and how engines read these.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

// A member of a JSON object behind others: n numbers, as a list when there are several. Numbers have enough digits to
// be read back the same, and a point or an exponent, so that every reader takes them for floats.
static void json_numbers(FILE *out, const char *key, const double *x, int n) {
    char text[40];
    fprintf(out, ", \"%s\": %s", key, n > 1 ? "[" : "");
    for (int i = 0; i < n; i++) {
        int digits = 12;
        do snprintf(text, sizeof text, "%.*g", digits++, x[i]);
        while (digits <= 17 && strtod(text, NULL) != x[i]);
        fprintf(out, "%s%s%s", i ? ", " : "", text, strpbrk(text, ".e") ? "" : ".0");
    }
    if (n > 1) fputc(']', out);
}

static void json_number(FILE *out, const char *key, double x) { json_numbers(out, key, &x, 1); }

// The fields of a block that its method has, and that are not 0; a switch when it is off.
static void json_fields(FILE *out, const RopeConfig *c) {
    unsigned flags = rope_methods[c->method].flags;
    for (const Option *f = rope_fields; f < rope_fields + rope_n_fields; f++) {
        double value = field_value(c, f);
        bool is_switch = f->type == FLAG;
        if (!f->key || (f->methods && !(f->methods & flags)) || (value != 0) == is_switch) continue;
        if (is_switch) fprintf(out, ", \"%s\": false", f->key);
        else if (f->type == WHOLE) fprintf(out, ", \"%s\": %.0f", f->key, value);
        else json_number(out, f->key, value);
    }
}

// The longest text that the settings are for.
static int reach(const RopeConfig *c) {
    return c->dynamic ? c->train_ctx : (int)fmin(ceil(c->train_ctx * fmax(c->factor, 1)), 1 << 30);
}

// max_position_embeddings beside the block, of a method that has an original length. llama3's factor is not how many
// times longer a text may be: Llama 3.1 has 8 of 8,192, and 131,072 positions. So llama3 keeps the model's own.
static int most_positions(const Measurement *m, const RopeConfig *c) {
    const int seq_len = m->model->config.seq_len;
    const bool keeps = rope_methods[c->method].flags & ROPE_USES_FREQ_FACTORS && seq_len > reach(c);
    return keeps ? seq_len : reach(c);
}

// Whether the method counts from a length of its own, beside max_position_embeddings.
static bool has_original(const RopeConfig *c) {
    return rope_methods[c->method].flags & ~(ROPE_USES_FACTOR | ROPE_CAN_BE_DYNAMIC);
}

// A plan as other programs know it: a larger base is plain RoPE with that base, by parts alone is yarn without its
// temperature, and a quotient of temperatures is an attention factor.
static RopePlan published_form(const RopePlan *plan) {
    RopePlan published = *plan;
    RopeConfig *c = &published.rope;
    RopeFreqs f;
    double d = c->rotary_dim;
    bool quotient = c->method == ROPE_YARN && c->mscale != 0 && c->mscale_all_dim != 0;
    rope_frequencies(c, c->train_ctx, &f);
    if (quotient || c->method == ROPE_BY_PARTS) c->attention_factor = f.attention_factor;
    if (c->method == ROPE_BY_PARTS) c->method = ROPE_YARN;
    c->mscale = c->mscale_all_dim = 0;
    if (c->method != ROPE_NTK || c->dynamic) return published;
    if (d > 2) c->theta *= pow(c->factor, d / (d - 2));
    c->method = ROPE_NONE;
    return published;
}

// The name in Hugging Face of a published form's method: ours, but for two. llama.cpp has ours for those up to yarn.
static const char *rope_type_of(const RopeConfig *c) {
    if (c->dynamic) return "dynamic";
    return c->method == ROPE_NONE ? "default" : rope_methods[c->method].name;
}

// NULL when other programs can have this published form, else why they cannot.
static const char *why_ours_alone(const RopeConfig *c) {
    const RopeMethod *m = &rope_methods[c->method];
    if (c->map) return "distance maps have no key in other programs (without +MAP the frequencies have)";
    if (c->method > ROPE_LONGROPE) return "no other program has this method";
    if (c->dynamic && c->method != ROPE_NTK) return "no other program has this dynamic method";
    if (m->flags & ROPE_USES_BETAS && c->ramp == ROPE_RAMP_TURNS)
        return "no other program has the turns ramp (--ramp dims is theirs)";
    if (c->attention_factor != 0 && !m->attention) return "no other program gives this method an attention factor";
    return NULL;
}

// What yarn adds to 1 by itself: 0.1 ln s.
static double grown_by(const RopeConfig *c) { return c->factor > 1 ? 0.1 * log(c->factor) : 0; }

// The share of a head that turns, rounded up, since readers cut its product with head_dim to a whole number.
static void json_partial(FILE *out, const RopePlan *plan) {
    int d = plan->rope.rotary_dim;
    if (d < plan->head_dim) json_number(out, "partial_rotary_factor", ceil(1e12 * d / plan->head_dim) / 1e12);
}

// The block. `is_bare`: longrope's lists and nothing else, as Phi-3's was released, which needs the rest beside it.
static void print_block(FILE *out, const RopePlan *plan, bool is_bare) {
    const RopeConfig *c = &plan->rope;
    bool is_yarn = c->method == ROPE_YARN;
    RopeConfig fields = *c;
    if (!has_original(c)) fields.train_ctx = 0;
    fields.unscaled_positions = 0;
    fprintf(out, "{\"%s\": \"%s\"", is_bare ? "type" : "rope_type", rope_type_of(c));
    if (!is_bare) json_partial(out, plan);
    if (!is_bare) json_fields(out, &fields);
    // Not all read attention_factor: vLLM and SGLang multiply 0.1 ln s + 1 by attn_factor, MLX-LM puts mscale into it.
    double grows = grown_by(c), a = c->attention_factor;
    if (is_yarn && a != 0) json_number(out, "attn_factor", a / (grows + 1));
    if (is_yarn && grows > 0 && a >= 1) json_number(out, "mscale", (a - 1) / grows);
    if (c->method == ROPE_LONGROPE) {
        json_numbers(out, "short_factor", c->short_factors, c->rotary_dim / 2);
        json_numbers(out, "long_factor", c->long_factors, c->rotary_dim / 2);
    }
    if (c->unscaled_positions) fprintf(out, ", \"unscaled_positions\": %d", c->unscaled_positions);  // our own key
    fputc('}', out);
}

// The family of a model that has these features, as the exporter writes it.
static const char *family_of(const Measurement *m) {
    const ModelConfig *c = &m->model->config;
    if (m->rope_file->model_type) return m->rope_file->model_type;
    if (m->plans->rope.rotary_dim < m->plans->head_dim) return "phi3";
    return c->qk_norm ? "qwen3" : c->qkv_bias && !c->o_bias ? "qwen2" : c->sliding_window ? "mistral" : "llama";
}

// The first plan as a whole config in the form that most engines read alike: theta and L are at the top level, too, and
// max_position_embeddings is as far as the settings go. The caller frees it. NULL with the reason where there is none.
static char *config_of(const Measurement *m, bool may_be_bare, Error *err) {
    RopePlan published = published_form(m->plans);
    const RopeConfig *c = &published.rope;
    if (m->kinds.own_sliding) {
        fail(err, "the layers differ, and no model_type says of which family they are (expected a whole config.json)");
        return NULL;
    }
    // Phi-3's class in Hugging Face 4 takes a block of lists alone, whose s all readers take from the lengths.
    bool is_bare = may_be_bare && c->method == ROPE_LONGROPE && strcmp(family_of(m), "phi3") == 0 &&
                   c->attention_factor == 0 && !c->unscaled_positions && reach(c) == c->train_ctx * c->factor;
    const char *why = why_ours_alone(c);
    char *text = NULL;
    size_t size;
    FILE *out = why ? NULL : open_memstream(&text, &size);
    if (!out) {
        fail(err, "rope %s: %s", published.name, why ? why : "no memory for a config");
        return NULL;
    }
    fprintf(out, "{\"model_type\": \"%s\", \"head_dim\": %d, \"max_position_embeddings\": %d", family_of(m),
            published.head_dim, has_original(c) ? most_positions(m, c) : c->train_ctx);
    json_number(out, "rope_theta", c->theta);
    json_partial(out, &published);
    if (has_original(c)) fprintf(out, ", \"original_max_position_embeddings\": %d", c->train_ctx);
    if (c->method != ROPE_NONE) {
        fputs(", \"rope_scaling\": ", out);
        print_block(out, &published, is_bare);
    }
    fputc('}', out);
    fclose(out);
    return text;
}

static void print_llama_cpp(const RopeConfig *c) {
    unsigned flags = rope_methods[c->method].flags;
    double grown = grown_by(c) + 1, a = c->attention_factor != 0 ? c->attention_factor : grown;
    bool has_option = c->method <= ROPE_YARN && !c->dynamic;
    if (c->dynamic)
        printf("# llama.cpp: no dynamic method; nearest is the fixed base of --rope ntk\n"
               "# needs max_position_embeddings %d\n",
               c->train_ctx);
    else if (!has_option)
        printf("# llama.cpp: no option; the converter writes this method's frequencies into the GGUF file\n");
    if (!has_option) return;
    printf("# llama.cpp: --rope-scaling %s", rope_methods[c->method].name);
    if (flags & ROPE_USES_FACTOR) printf(" --rope-scale %.12g", c->factor);
    if (flags & ROPE_USES_BETAS)  // llama.cpp multiplies by 0.1 ln s + 1 itself
        printf(" --yarn-orig-ctx %d --yarn-ext-factor 1 --yarn-attn-factor %.9g --yarn-beta-fast %.12g "
               "--yarn-beta-slow %.12g",
               c->train_ctx, a / grown, c->beta_fast, c->beta_slow);
    printf(" --rope-freq-base %.12g\n", c->theta);
}

// ---- engines ----

static bool is_same(const Reading *r) { return strcmp(r->verdict, "same") == 0; }

// The readings of one engine, one for each kind of layers, stand together: how many there are from `r` on.
static int kinds_of(const Reading *r) { return r->by_layer && r[0].kind == KIND_FULL ? N_KINDS : 1; }

// How many engines read all kinds of layers as the reference does. *known becomes how many are known to read them.
static int count_same(const Reading *readings, int n, int *known) {
    int same = 0;
    *known = 0;
    for (int i = 0; i < n; i += kinds_of(&readings[i])) {
        const Reading *r = &readings[i];
        bool alike = is_same(r) && is_same(&r[kinds_of(r) - 1]);
        *known += !r->unknown;
        same += !r->unknown && alike;
    }
    return same;
}

// Prints what stands beside the block, and engines that read it otherwise, at L / 2 positions or past the plan's reach.
static bool print_engines(const Measurement *m, const char *config, Error *err) {
    const RopeConfig *c = &m->plans->rope;
    int n;
    Reading *far = engines_read(NULL, config, reach(c) + 1, c, &n, err);
    Reading *near = far ? engines_read(NULL, config, c->train_ctx / 2 + 1, c, &n, err) : NULL;
    bool good = near;
    if (good) {
        for (int i = 0; i < n; i++)
            if (is_same(&far[i])) far[i] = near[i];
        printf("# beside the block: rope_theta");
        if (c->rotary_dim < m->plans->head_dim)
            printf(", partial_rotary_factor %.9g", (double)c->rotary_dim / m->plans->head_dim);
        if (has_original(c))
            printf(", original_max_position_embeddings %d, max_position_embeddings %d", c->train_ctx,
                   most_positions(m, c));
        int known, same = count_same(far, n, &known);
        printf("; so %d of %d engines read it alike\n", same, known);
        for (int i = 0; i < n; i++)
            if (!is_same(&far[i]) && !far[i].unknown)
                printf("# %s %s: %s\n", far[i].engine, far[i].refused ? "refuses it" : "differs", far[i].note);
    }
    free(far);
    free(near);
    return good;
}

bool explain_json(const Measurement *m, Error *err) {
    const RopeConfig *c = &m->plans->rope;
    RopePlan published = published_form(m->plans);
    char *config = config_of(m, false, err);
    if (!config) return false;
    print_llama_cpp(&published.rope);
    if (c->window > 0) printf("# window %d is not a rope setting: Hugging Face has sliding_window\n", c->window);
    if (c->logn) printf("# logn is not a rope setting: Qwen's own code has use_logn_attn\n");
    bool ok = print_engines(m, config, err);
    free(config);
    if (!ok) return false;
    print_block(stdout, &published, false);
    putchar('\n');
    return true;
}

// Whether engines read the file of --rope-config as it stands, and not what is in force as it would
// be published.
static bool is_read_as_it_stands(const Measurement *m) {
    bool has_file = m->rope_file->whole;
    return has_file && !options_say_block(m->options);
}

// Every engine reads config.json by a strict parser of JSON.
static void refuse_all(Reading *readings, int n, const char *not_json) {
    for (Reading *r = readings; r < readings + n; r++) {
        r->refused = true;
        r->verdict = "refused";
        snprintf(r->note, sizeof r->note, "JSONDecodeError: %s", not_json);
    }
}

// See show_engines. The caller frees the *n readings, and the reference behind them.
static Reading *read_by(const Measurement *m, const char *list, int length, int *n, Error *err) {
    bool as_it_stands = is_read_as_it_stands(m);
    char *config = as_it_stands ? strdup(m->rope_file->whole) : config_of(m, true, err);
    Reading *readings = config ? engines_read(list, config, length, NULL, n, err) : NULL;
    bool is_json = !as_it_stands || !m->rope_file->not_json[0];
    if (readings && !is_json) refuse_all(readings, REFERENCE + N_KINDS, m->rope_file->not_json);
    free(config);
    return readings;
}

// What one engine makes of one kind of layers: method, s, L, a and the most positions.
static void write_cells(const Reading *r, int length, char *out, size_t capacity) {
    const RopeConfig *c = &r->rope;
    RopeFreqs f;
    char most[20] = "-";
    rope_frequencies(c, length, &f);
    if (r->max_len > 0) snprintf(most, sizeof most, "%d", r->max_len);
    if (r->max_len < 0) snprintf(most, sizeof most, "?");
    snprintf(out, capacity, "%s\t%.9g\t%d\t%.9g\t%s", settings_method_name(c).text, f.scale, c->train_ctx,
             f.attention_factor, most);
}

// Prints a row. A drawn one has the last three columns in words below it, where they say something.
static void print_reading(Table *t, const Reading *r, int length) {
    char cells[300] = "-\t-\t-\t-\t-", worst[60] = "-\t-", words[sizeof r->note + 100] = "", kind[20] = "";
    if (!r->refused) {
        write_cells(r, length, cells, sizeof cells);
        snprintf(worst, sizeof worst, "-\t1");
        if (r->worst_pair >= 0) snprintf(worst, sizeof worst, "%d\t%.6g", r->worst_pair, r->worst_ratio);
    }
    if (r->by_layer) snprintf(kind, sizeof kind, "%s\t", kind_names[r->kind]);
    const char *verdict = r->refused ? "refused" : r->verdict, *note = r->note[0] ? r->note : "-";
    if (!t->eyes) {
        table_row(t, "%s\t%s\t%s\t%s%s\t%s\t%s", r->engine, r->version, verdict, kind, cells, worst, note);
        return;
    }
    table_row(t, "%s\t%s\t%s\t%s%s", r->engine, r->version, verdict, kind, cells);
    if (!r->refused && r->worst_pair >= 0)
        snprintf(words, sizeof words, "pair %d turns %.4g times as fast", r->worst_pair, r->worst_ratio);
    if (r->note[0]) add_name(words, sizeof words, "; ", r->note);
    if (words[0]) table_remark(t, words);
}

// The numbers of a kind's layers, as "0-4 6-10".
static void list_layers(const ConfigLayers *layers, int kind, char *list, size_t capacity) {
    char one[24];
    *list = '\0';
    for (int i = 0; i < layers->n; i++) {
        int last = i;
        if (layers->kinds[i] != kind) continue;
        while (last + 1 < layers->n && layers->kinds[last + 1] == kind) last++;
        snprintf(one, sizeof one, last > i ? "%d-%d" : "%d", i, last);
        add_name(list, capacity, " ", one);
        i = last;
    }
}

void note_layers(Table *t, const ConfigLayers *layers) {
    static const char *const keys[] = {"layers_full", "layers_sliding", "layers_linear"};
    char list[200];
    bool differ = layers->n_of[KIND_FULL] < layers->n;
    for (int kind = 0; differ && kind <= KIND_OTHER; kind++) {
        list_layers(layers, kind, list, sizeof list);
        bool has_room = !t->eyes || strlen(list) < 60;  // at a terminal the full layers are enough
        if (list[0] && has_room) table_note(t, keys[kind], "%s", list);
    }
}

// Which engines are left out, since nobody has seen what they make of the config.
static void note_unknown(Table *t, const Reading *readings, int n) {
    char names[200] = "";
    for (int i = 0; i < n; i += kinds_of(&readings[i]))
        if (readings[i].unknown) add_name(names, sizeof names, ", ", readings[i].engine);
    if (names[0]) table_note(t, "not_known", "%s", names);
}

bool show_engines(const Measurement *m, Answer *answer, Error *err) {
    const char *list = m->options->engines;
    char with_hf5[1000];
    int n, known;
    snprintf(with_hf5, sizeof with_hf5, "hf5,%s", list ? list : "");
    if (list && strncmp(list, "hf5", 3) != 0) list = with_hf5;
    Reading *readings = read_by(m, list, m->length, &n, err);
    if (!readings) return false;
    const Reading *reference = &readings[REFERENCE];
    Table t = table_open(m->options->tsv);
    table_note(&t, "length", "%d", m->length);
    table_note(&t, "facts_of", "%s", ENGINES_DATE);
    table_note(&t, "reference", "%s", reference->refused ? "none" : reference->engine);
    note_layers(&t, &reference->layers);
    if (reference->by_layer) table_note(&t, "window_sliding", "%d", reference->layers.window);
    if (!reference->has_rope) table_note(&t, kind_names[reference->kind], "no RoPE: queries and keys do not turn");
    note_unknown(&t, readings, n);
    const char *kinds = readings[0].by_layer ? "layers\t" : "";
    char columns[200];
    snprintf(columns, sizeof columns, "engine\tversion\tverdict\t%smethod\tscale\ttrain_ctx\tattention_factor\tmax_len",
             kinds);
    if (!t.eyes) add_name(columns, sizeof columns, "\t", "worst_pair\tworst_ratio\tnote");
    table_columns(&t, columns);
    for (int i = 0; i < n; i++)
        if (readings[i].has_rope && !readings[i].unknown) print_reading(&t, &readings[i], m->length);
    table_end(&t);
    if (count_same(readings, n, &known) < known) *answer = NO;
    free(readings);
    return true;
}

int engines_alike(const Measurement *m, int *n, bool *as_published) {
    Error unused;
    *as_published = !is_read_as_it_stands(m);
    Reading *readings = m->model->config.encoding ? NULL : read_by(m, NULL, m->length, n, &unused);
    if (!readings) *n = 0;
    int alike = count_same(readings, *n, n);
    free(readings);
    return alike;
}

// The plan of an engine's reading, whose kinds of layers stand together from `r` on.
static bool plan_of_reading(const Measurement *m, const RopeSettings *s, const Reading *r, RopePlan *plan, Error *err) {
    static const RopeSettings unsaid = {.said = 0};
    const Reading *full = r->has_rope ? r : r + 1, *sliding = r + kinds_of(r) - 1;
    int own = m->model->rope.rotary_dim, window = m->model->config.sliding_window;
    if (r->unknown) return fail(err, "--reading: what %s makes of this config is not known", r->engine);
    if (r->refused) return fail(err, "--reading: %s refuses this config: %s", r->engine, r->note);
    if (own && full->rope.rotary_dim != own)
        return fail(err, "--reading: %s turns %d elements of a head, and the model's weights are stored for %d",
                    r->engine, full->rope.rotary_dim, own);
    if (!plan_for_job(m, s, &full->rope, plan, err)) return false;
    snprintf(plan->name, sizeof plan->name, "%s:%s", r->engine, settings_method_name(&plan->rope).text);
    if (!r->by_layer) return true;
    if (!window) window = r->layers.window;
    return settings_resolve_sliding(s, &unsaid, &sliding->rope, window, m->length, plan, err);
}

bool plans_as_read(Measurement *m, Reading **readings, Error *err) {
    // Only settings that no block of JSON has can stand beside what an engine reads.
    RopeSettings s = {.rope = m->options->rope.rope, .said = m->options->rope.said};
    int length = m->options->spread ? m->options->spread : m->length, n;
    for (int i = 0; i < rope_n_fields; i++)
        if (rope_fields[i].key || rope_fields[i].methods || rope_fields[i].maps) s.said &= ~(1u << i);
    Reading *read = read_by(m, m->options->reading, length, &n, err);
    free(*readings);
    free(m->plans);
    *readings = read;
    m->plans = read ? alloc_array((uint64_t)n, sizeof *m->plans, "plans", err) : NULL;
    m->n_plans = 0;
    for (int i = 0; m->plans && i < n; i += kinds_of(&read[i]))
        if (!plan_of_reading(m, &s, &read[i], &m->plans[m->n_plans++], err)) return false;
    if (m->plans && !m->options->model_path && read[0].by_layer)
        m->kinds = (LayerKinds){
            .is_there = {read[0].kind == KIND_FULL, true}, .turns = {read[0].has_rope, true}, .own_sliding = true};
    return m->plans;
}
