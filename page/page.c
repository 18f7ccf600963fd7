// The page's side of the program: the functions for a browser, over the same rooms as run.c's. A
// Page is a model, or a few numbers in its place, with its planned method; a PageReader (reader.c)
// is one text being read by it. JavaScript sees only addresses and numbers; an error is one line,
// page_error. Compiled by `make page`, see build.mjs.
#include "page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/check/check.h"
#include "../src/show/show.h"
#include "../src/tasks/trial.h"

// A page without a model. NULL: no memory.
FOR_PAGE Page *page_new(void) {
    Page *page = calloc(1, sizeof *page);
    if (page && !model_unknown(&page->model, &page->err)) {
        free(page);
        return NULL;
    }
    if (page) page->options = options_default;
    return page;
}

FOR_PAGE void page_free(Page *page) {
    tokenizer_free(page->tokenizer);
    model_close(&page->model);
    free(page->methods);
    free(page->rope_file.whole);
    free(page->ids);
    free(page);
}

FOR_PAGE const char *page_error(const Page *page) { return page->err.text; }

// ---- the page's model ----

// Opens a model with RoPE and its tokenizer, which lie in emscripten's file system; they may be
// removed there afterwards.
FOR_PAGE bool page_open(Page *page, const char *model_path, const char *tokenizer_path) {
    model_close(&page->model);
    if (!open_model(model_path, &page->model, &page->err)) return false;
    const int encoding = model_encoding(&page->model);
    if (encoding != ENCODING_ROPE)
        return fail(&page->err, "this model knows positions by %s, not by RoPE",
                    encoding_names[encoding]);
    rope_file_of_model(&page->model, &page->rope_file);
    page->tokenizer = tokenizer_open(tokenizer_path, page->model.config.vocab_size, &page->err);
    return page->tokenizer != NULL;
}

// Numbers in a model's place: those of --explain without one.
FOR_PAGE bool page_describe(Page *page, int head_dim, double theta, int train_ctx) {
    rope_file_of_numbers(head_dim, theta, train_ctx, &page->rope_file);
    return settings_check(&page->rope_file.rope, train_ctx, &page->err);
}

// A config.json or its rope block in a model's place. The numbers fill its missing settings, as few
// of them as are needed: page->rope_file.filled tells which. A whole config has no missing
// settings.
FOR_PAGE bool page_config(Page *page, char *text, int length, int head_dim, double theta,
                          int train_ctx) {
    RopeFile *file = &page->rope_file;
    free(file->whole);
    rope_file_of_numbers(0, 0, 0, file);
    file->instead = (StandIns){head_dim, theta, train_ctx};
    if (!rope_config_parse(file, text, (size_t)length, &page->err)) return false;
    if (file->no_rope)
        return fail(&page->err, "model_type: this family has no RoPE, so there is nothing to show");
    return settings_check(&file->rope, file->rope.train_ctx, &page->err);
}

// The results of page_config: the method's name, the whole head's size, the context that the model
// is meant for (0: not known), the factor (0: the one that the length needs), whether that context
// counts the factor (1), the numbers that filled gaps (1: head_dim, 2: theta, 4: trained length),
// keys without a meaning to the method, and warnings, a line each. Separated by tabs.
FOR_PAGE const char *page_told(Page *page) {
    const RopeFile *file = &page->rope_file;
    const MethodName method = settings_method_name(&file->rope);
    snprintf(page->text, sizeof page->text, "%s\t%d\t%d\t%.12g\t%d\t%d\t%s\t%s", method.text,
             file->head_dim, file->max_positions, file->rope.factor, file->counts_factor,
             file->filled, file->unused, file->remarks);
    return page->text;
}

// layers, heads, head_dim, theta, trained length, vocabulary, BOS (-1: none), bytes of the file
FOR_PAGE const double *page_facts(Page *page) {
    const ModelConfig *m = &page->model.config;
    const double facts[N_FACTS] = {m->n_layers,
                                   m->n_heads,
                                   page->rope_file.rope.rotary_dim,
                                   page->rope_file.rope.theta,
                                   page->rope_file.rope.train_ctx,
                                   m->vocab_size,
                                   tokenizer_bos(page->tokenizer),
                                   (double)page->model.file.size};
    return memcpy(page->numbers, facts, sizeof facts);
}

// How many positions a query of a layer sees, itself included; 0: all.
FOR_PAGE int page_layer_window(const Page *page, int layer) {
    const Model *m = &page->model;
    return m->layers[layer].extra->flags & LAYER_SEES_ALL ? 0 : m->config.extra->attention.window;
}

// The theta by which a layer turns; 0: it does not turn.
FOR_PAGE double page_layer_theta(const Page *page, int layer) {
    const Model *m = &page->model;
    const int flags = m->layers[layer].extra->flags;
    if (flags & (LAYER_NOPE | LAYER_STATE)) return 0;
    return flags & LAYER_SLIDING ? m->config.extra->layers.sliding.theta : m->rope.theta;
}

// ---- plan ----

Job job_of_page(Page *page, int length) {
    page->options.model_path = page->model.layers ? "model.bin" : "config.json";
    return (Job){
        .options = &page->options,
        .model = &page->model,
        .rope_file = &page->rope_file,
        .kinds = kinds_of_layers(&page->model, &page->rope_file),
        .length = length,
        .plans = &page->plan,
        .n_plans = 1,
        .form = {.tsv = true},
    };
}

// Plans settings with `start`, which has the missing ones, and page->options.asked_sliding.
static bool plan_of(Page *page, const RopeSettings *s, const RopeConfig *start, int context) {
    const Job job = job_of_page(page, context);
    return plan_for_job(&job, s, start, &page->plan, &page->err);
}

// Reads a method of the sliding layers, written as for --rope-sliding; empty: they keep their own.
static bool read_sliding(Page *page, const char *method) {
    const char *given = method[0] ? method : NULL;
    if (!sliding_method_parse(given, &page->options.asked_sliding, &page->err)) return false;
    if (!given || kinds_of_layers(&page->model, &page->rope_file).own_sliding) return true;
    page->options.asked_sliding = (RopeSettings){.given = 0};
    return fail(&page->err, "'%.100s' is a method of sliding layers, and this model has none",
                given);
}

// Plans a method, written as for --rope, for `context` positions, and one of the sliding layers
// (empty: they keep their own).
FOR_PAGE bool page_plan(Page *page, const char *method, const char *sliding, int context) {
    int n;
    if (!read_sliding(page, sliding)) return false;
    RopeSettings *methods =
        methods_parse(method[0] ? method : NULL, &(RopeSettings){.given = 0}, &n, &page->err);
    if (!methods) return false;
    free(page->methods);
    page->methods = methods;
    page->options.methods = methods->name[0] ? methods->name : NULL;
    if (n != 1) return fail(&page->err, "one method expected, '%.100s' are %d", method, n);
    return plan_of(page, methods, &page->rope_file.rope, context);
}

// Plans a method that is no row of the table: pair i turns divisors[i] times slower, which
// longrope's lists can say.
FOR_PAGE bool page_plan_divisors(Page *page, const double *divisors, double attention_factor,
                                 int context) {
    page->options.asked_sliding = (RopeSettings){.given = 0};
    for (int i = 0; i < page->rope_file.rope.rotary_dim / 2; i++) page->divisors[i] = divisors[i];
    RopeConfig start = page->rope_file.rope;
    start.short_factors = start.long_factors = page->divisors;
    RopeSettings s = {.given = 0};
    settings_read_method(&s, "longrope");
    if (attention_factor != 0) settings_say(&s, SET_ATTN_FACTOR, attention_factor);
    return plan_of(page, &s, &start, context);
}

// Warnings about the method that page_plan planned; empty: none.
FOR_PAGE const char *page_advice(Page *page, int context) {
    int row = 0;
    bool is_idle = settings_idle(page->methods, &page->plan, &row, &page->err);
    if (!is_idle && settings_advice(page->methods, &page->plan, context, &page->err)) return "";
    return page->err.text;
}

// A line for each distance map: name, summary, source.
FOR_PAGE const char *page_maps(Page *page) {
    size_t used = 0;
    page->text[0] = '\0';
    for (int i = 0; i < rope_n_maps && used < sizeof page->text; i++)
        used += (size_t)snprintf(page->text + used, sizeof page->text - used, "%s\t%s\t%s\n",
                                 rope_maps[i].name, rope_maps[i].summary, rope_maps[i].source);
    return page->text;
}

// The planned map's distance of a query at i and a key at j <= i; -1: the query does not see it.
FOR_PAGE double page_distance(const Page *page, int i, int j) {
    const RopeConfig *c = &page->plan.rope;
    return rope_sees(c, i, j) ? rope_distance(c, i, j) : -1;
}

// The plan's frequencies for a text of `length` positions: the number of pairs, the scale, the
// attention factor, then the pairs' frequencies, then plain RoPE's.
FOR_PAGE const double *page_frequencies(Page *page, int length) {
    RopeFreqs freqs;
    rope_frequencies(&page->plan.rope, length, &freqs);
    double *out = page->numbers;
    out[0] = freqs.n_pairs;
    out[1] = freqs.scale;
    out[2] = freqs.attention_factor;
    memcpy(out + HEAD, freqs.inv_freq, (size_t)freqs.n_pairs * sizeof *out);
    for (int i = 0; i < freqs.n_pairs; i++)
        out[HEAD + freqs.n_pairs + i] = rope_plain(&page->plan.rope, i);
    return out;
}

// Does a job, whose table goes to standard output.
static bool do_job(Page *page, RunJob *run, int length) {
    Job job = job_of_page(page, length);
    bool ok = run(&job, &page->err);
    fflush(stdout);
    return ok;
}

// The tables of --explain and --engines, and the plan as the block that most engines read alike.
FOR_PAGE bool page_explain(Page *page, int length) { return do_job(page, explain, length); }
FOR_PAGE bool page_engines(Page *page, int length) { return do_job(page, show_engines, length); }
FOR_PAGE bool page_json(Page *page) { return do_job(page, print_block, 0); }

// The table of --check without its rows about texts.
FOR_PAGE bool page_check(Page *page, int length) {
    page->options.check.settings = true;
    return do_job(page, check_model, length);
}

// ---- text ----

// The ids of a text, after BOS if asked for: how many, -1: it cannot be. They are at page_ids
// until the next text.
FOR_PAGE int page_encode(Page *page, const char *text, int length, bool with_bos) {
    free(page->ids);
    size_t n;
    page->ids = tokenizer_encode(page->tokenizer, text, (size_t)length, with_bos, &n, &page->err);
    page->n_ids = page->ids ? (int)n : 0;
    return page->ids ? page->n_ids : -1;
}

// The text of --passkey's trial `number` at a length and one of N_DEPTHS: as page_encode does. The
// key is at page_text.
FOR_PAGE int page_passkey(Page *page, int length, int depth, int number, double seed) {
    Trial t = {.tokenizer = page->tokenizer,
               .seed = (uint64_t)seed,
               .task = &all_tasks[0],
               .length = length};
    free(page->ids);
    page->ids = NULL;
    page->n_ids = 0;
    if (haystack_make(&t.haystack, NULL, length, &page->err) && trial_fits(&t, &page->err)) {
        t.depth = depth;
        trial_choose(&t, number);
        trial_wanted(&t, 0, page->text);
        page->ids = trial_ids(&t, &page->n_ids, &page->err);
    }
    haystack_free(&t.haystack);
    return page->ids ? page->n_ids : -1;
}

FOR_PAGE const int32_t *page_ids(const Page *page) { return page->ids; }

// The bytes of a token after another one (-1: none): their number; they are at page_text.
FOR_PAGE int page_piece(Page *page, int previous, int id) {
    size_t length;
    const char *piece = tokenizer_decode(page->tokenizer, previous, id, &length);
    memcpy(page->text, piece, length);
    return (int)length;
}

FOR_PAGE const char *page_text(const Page *page) { return page->text; }

// Does this token end a text?
FOR_PAGE bool page_is_end(const Page *page, int token) {
    return tokenizer_ends_text(page->tokenizer, token, page->model.config.eos_ids,
                               page->model.config.n_eos);
}
