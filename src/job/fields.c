// --fields: prints the RoPE settings of a config as one object of JSON, with the names of a model
// file's header (export/header.json). The exporter runs it, so that configs are read in only one
// place.
#include <stdio.h>
#include <string.h>

#include "../kinds/all.h"
#include "job.h"

static void put_string(const char *name, const char *text) {
    printf(", \"%s\": ", name);
    print_json_text(text, strlen(text));
}

static void put_number(const char *before, const char *name, double x) {
    printf(", \"%s%s\": %.17g", before, name, x);
}

// NULL: no list.
static void put_list(const char *before, const char *name, const double *x, int n) {
    if (!x) return;
    printf(", \"%s%s\": [", before, name);
    for (int i = 0; i < n; i++) printf("%s%.17g", i ? ", " : "", x[i]);
    putchar(']');
}

// Prints the settings that a method may have, which sliding layers may also have.
static void put_method(const char *before, const RopeConfig *c) {
    // One of the pair has no effect, unless it scales the scores.
    const bool has_pair = (c->mscale != 0 && c->mscale_all_dim != 0) || c->mscale_in_scores;
    const struct {
        const char *name;
        double value;
    } fields[] = {
        {before[0] ? "method" : "rope_method", c->method},
        {before[0] ? "dynamic" : "rope_dynamic", c->dynamic},
        {"theta", c->theta},
        {"factor", c->factor},
        {"train_ctx", c->train_ctx},
        {"ramp", c->ramp},
        {"truncate", c->truncate},
        {"beta_fast", c->beta_fast},
        {"beta_slow", c->beta_slow},
        {"attention_factor", c->attention_factor},
        {"mscale", has_pair ? c->mscale : 0},
        {"mscale_all_dim", has_pair ? c->mscale_all_dim : 0},
        {"low_freq_factor", c->low_freq_factor},
        {"high_freq_factor", c->high_freq_factor},
        {"rotary_dim", settings_rotary_dim(c)},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        put_number(before, fields[i].name, fields[i].value);
    put_list(before, "short_factor", c->short_factors, c->rotary_dim / 2);
    put_list(before, "long_factor", c->long_factors, c->rotary_dim / 2);
}

// Prints the settings that all layers share.
static void put_rest(const RopeFile *file) {
    const RopeConfig *c = &file->rope;
    put_number("", "original_unsaid", file->original_unsaid);
    put_number("", "named_original", file->named_original);
    put_number("", "unscaled_positions", c->unscaled_positions);
    put_number("", "mscale_in_scores", c->mscale_in_scores);
    const LayersWithoutRope *list = &file->without_rope;
    put_number("", "temperature_beta", list->beta != 0 ? list->beta : c->temperature_beta);
    put_number("", "temperature_length", list->beta != 0 ? list->length : 0);
    put_number("", "temperature_unturned", list->beta != 0);
    if (c->map) put_number("", "chunk", c->chunk);  // for dca, which no header has
}

// Prints a 1 for each layer that slides, a 0 for each other one, and the window. Prints neither if
// no layer slides.
static void put_slides(const RopeFile *file) {
    const ConfigLayers *layers = &file->layers;
    if (layers->window == 0) return;
    put_number("", "window", layers->window);
    fputs(", \"slides\": [", stdout);
    for (int i = 0; i < layers->n; i++)
        printf("%s%d", i ? ", " : "", layers->kinds[i] == KIND_SLIDING);
    putchar(']');
}

// Prints the warnings, one for each line, in the words of --explain.
static void put_remarks(const RopeFile *file) {
    fputs("\"remarks\": [", stdout);
    const char *line = file->remarks;
    for (int i = 0; *line; i++) {
        const size_t n = strcspn(line, "\n");
        if (i) fputs(", ", stdout);
        print_json_text(line, n);
        line += n + (line[n] == '\n');
    }
    putchar(']');
}

bool print_fields(Job *job, Error *err) {
    const RopeFile *file = job->rope_file;
    char unused[400];
    (void)err;
    putchar('{');
    put_remarks(file);
    if (file->unused[0]) {
        rope_file_unused(file, unused, sizeof unused);
        put_string("unused", unused);
    }
    RopeConfig rope = file->rope;
    if (file->no_rope) rope.rotary_dim = rope.rotated_pairs = 0;
    if (file->model_type) put_string("family", file->model_type);
    if (file->wrapper) put_string("wrapper", file->wrapper);
    put_string("inside", file->inside);
    put_method("", &rope);
    put_rest(file);
    put_slides(file);
    if (file->by_layer) put_method("sliding_", &file->sliding);
    puts("}");
    return true;
}

void print_refused(const Error *err) {
    fputs("{\"refused\": ", stdout);
    print_json_text(err->text, strlen(err->text));
    puts("}");
}
