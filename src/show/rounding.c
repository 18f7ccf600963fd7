// The error of a copy of a model whose weights have been rounded to a smaller type.
#define _POSIX_C_SOURCE 200809L
#include "show.h"

#include <stdio.h>
#include <sys/stat.h>

#include "../fast/process.h"
#include "../fast/quantize.h"
#include "../job/text_io.h"
#include "../rope_settings.h"

// The copy may replace a model, or use a free name, but not replace another file: it is easy to
// name a text by mistake.
static bool may_write_over(const char *path, Error *err) {
    struct stat info;
    Model there;
    if (stat(path, &info) != 0) return true;
    bool is_file = S_ISREG(info.st_mode);
    bool is_empty = is_file && info.st_size == 0;
    if (!is_empty && !(is_file && model_open(path, &kinds, &there, err)))
        return fail(err, "--quantize: %s exists and is not a model (expected a free name)", path);
    if (!is_empty) model_close(&there);
    return true;
}

bool measure_rounding(Job *job, Error *err) {
    static const WeightType types[] = {WEIGHT_Q8, WEIGHT_Q4, WEIGHT_F16, WEIGHT_F32};
    static const char *const kinds[N_MATRIX_KINDS] = {"embedding", "attention", "feed-forward",
                                                      "classifier"};
    const Options *o = job->options;
    const WeightType type = types[o->quantize_type];
    const char *to = o->quantize_path;
    struct ModelExtra extra;
    const Model model = model_of_rope_file(job->model, job->rope_file, &extra);
    QuantizeError errors[N_MATRIX_KINDS];
    if (!*to) return fail(err, "--quantize: found an empty name (expected one for the copy)");
    if (is_same_file(to, o->model_path))
        return fail(err, "--quantize: %s is the model that is read (give the copy another name)",
                    to);
    const RopeConfig *sliding = &extra.layers.sliding;
    if (extra.layers.sliding_rope && (sliding->dynamic || sliding->short_factors))
        return fail(err,
                    "--quantize: sliding layers turn by %s, which a model file can only have for "
                    "all layers (expected a --rope-config with another rope_type in their block)",
                    settings_method_name(sliding).text);
    if (!may_write_over(to, err)) return false;
    catch_termination();
    if (!model_quantize(&model, type, to, errors, err)) return false;
    Table table = table_open(job->form);
    table_note(&table, "errors as shares of the mean absolute weight", "of the class");
    table_columns(&table, as_list, "tensors\tworst\tmean");
    bool rounded = false;
    for (int i = 0; i < N_MATRIX_KINDS; i++) {
        const QuantizeError *e = &errors[i];
        rounded = rounded || e->sum > 0;
        double worst = e->worst * (e->count / e->weights);
        double mean = e->sum / e->weights;
        if (e->sum == 0) continue;
        table_words(&table, kinds[i]);
        table_number(&table, "%.6f", worst);
        table_number(&table, "%.6f", mean);
        table_end_row(&table);
    }
    table_end(&table);
    // Prints the written file, and the reason if the table has no rows.
    const char *name = block_types[type].name;
    bool same = !model.config.has_types && model.config.weight_type == type;
    if (rounded) fprintf(stderr, "run: wrote %s: %s weights\n", to, name);
    else if (!same) fprintf(stderr, "run: wrote %s: %s weights, without rounding\n", to, name);
    else fprintf(stderr, "run: wrote %s: a copy, since the weights are %s already\n", to, name);
    return true;
}
