// Reads many configs in one process by each door of the program in C: as --explain does, as
// --rope-config beside a model, as the page does, and as the engines do.  read_configs FILE  of texts
// with a NUL behind each; the model is that of the first one. Prints for each text a line a door: a
// letter, then what is wrong or nothing, and what was read, between tabs; lines of remarks end in
// \x1f.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page/page.c"
#include "src/configs/json.h"
#include "src/job/job.h"
#include "src/job/text_io.h"

// emscripten has it from JavaScript, and nothing here searches.
static void tell_page(double done, double nll, const double *divisors, double attention_factor) {
    printf("%g %g %p %g\n", done, nll, (const void *)divisors, attention_factor);
}

static void put(const char *text) {
    putchar('\t');
    for (; *text; text++) putchar(*text == '\n' ? '\x1f' : *text);
}

static void put_rope(const RopeConfig *c) {
    RopeFreqs f;
    rope_frequencies(c, 2 * c->train_ctx, &f);
    printf("\t%s\t%d\t%d\t%.12g\t%.12g\t%.12g\t%.12g\t%.12g", settings_method_name(c).text,
           c->rotary_dim, c->train_ctx, c->theta, f.scale, f.attention_factor, f.inv_freq[0],
           f.inv_freq[f.n_pairs - 1]);
}

// A door's answer: its letter, the reason, remarks, keys without use, and the settings.
static void put_answer(char door, bool good, const Error *err, const RopeFile *file) {
    putchar(door);
    put(good ? "" : err->text);
    put(good ? file->remarks : "");
    put(good ? file->unused : "");
    if (good && file->no_rope) fputs("\tno RoPE", stdout);
    else if (good) put_rope(&file->rope);
    if (good && file->by_layer && !file->no_rope) put_rope(&file->sliding);
    putchar('\n');
}

static bool parse(RopeFile *file, const char *text, Error *err) {
    bool good = rope_config_parse(file, text, strlen(text), err);
    Error unused;
    if (good && !file->no_rope) good = settings_check(&file->rope, file->rope.train_ctx, err);
    if (!good) snprintf(file->refused, sizeof file->refused, "%s", err->text);
    return good || fail(&unused, "%s", "");
}

// As run asks the engines, with this program's own reading among them.
static void put_engines(const RopeFile *file) {
    static const Model none = {.layers = NULL};
    static const char list[] =
        "hf5,hf4,vllm,sglang,llama.cpp,ik_llama.cpp,mlx-lm,exllamav3,exllamav2,rope.c";
    const Job job = {.rope_file = file, .model = &none};
    const ReadByEngines what = {.job = &job, .as_it_stands = true};
    Error err = {.text = "no config"};
    Readings *readings = file->whole ? readings_of(&what, list, 2048, &err) : NULL;
    putchar('e');
    put(readings ? "" : err.text);
    put(file->unread);
    for (int i = 0; readings && i < readings->n; i++) {
        const Reading *r = &readings->of[i];
        printf("\t%s|%d|%s|%s", r->engine, r->kind, verdict_names[r->verdict], r->note);
        bool is_read = r->verdict < VERDICT_REFUSED && r->has_rope;
        if (is_read)
            printf("|%s|%.12g|%d", settings_method_name(&r->rope).text, r->rope.theta,
                   r->rope.train_ctx);
    }
    putchar('\n');
    free(readings);
}

static void read_one(char *text, const RopeFile *model) {
    Error err;
    RopeFile *file = calloc(1, sizeof *file), *beside = calloc(1, sizeof *beside);
    Page *page = page_new();
    if (!file || !beside || !page) exit(2);
    rope_file_of_numbers(0, 0, 0, file);
    put_answer('x', parse(file, text, &err), &err, file);
    *beside = *model;
    put_answer('m', parse(beside, text, &err), &err, beside);
    const bool good = page_config(page, text, (int)strlen(text), 128, 1e4, 4096);
    put_answer('p', good, &page->err, &page->rope_file);
    put_engines(file);
    free(file->whole);
    free(beside->whole);
    free(file);
    free(beside);
    page_free(page);
}

int main(int argc, char **argv) {
    size_t length;
    Error err;
    char *texts = argc == 2 ? read_file(argv[1], 1 << 28, &length, &err) : NULL;
    if (!texts) return 2;
    RopeFile *first = calloc(1, sizeof *first);
    if (!first) return 2;
    rope_file_of_numbers(0, 0, 0, first);
    if (!parse(first, texts, &err)) return fprintf(stderr, "%s\n", err.text), 2;
    RopeFile *model = calloc(1, sizeof *model);
    if (!model) return 2;
    *model = (RopeFile){.rope = first->rope,
                        .sliding = first->sliding,
                        .by_layer = first->by_layer && first->by_kind,
                        .head_dim = first->head_dim,
                        .sliding_head_dim = first->sliding_head_dim,
                        .max_positions = first->max_positions,
                        .latent = first->latent};
    for (char *text = texts; text < texts + length; text += strlen(text) + 1) read_one(text, model);
    free(first->whole);
    free(first);
    free(model);
    free(texts);
    return 0;
}
