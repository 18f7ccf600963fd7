// What a copy of a model loses when its weights become smaller.
#include "../model/quantize.h"
#include "measure.h"

bool quantize_model(const Model *model, const Options *o, Error *err) {
    static const char *const kinds[N_MATRIX_KINDS] = {"embedding", "attention", "feed-forward", "classifier"};
    static const WeightType types[] = {WEIGHT_Q8, WEIGHT_Q4, WEIGHT_F16, WEIGHT_F32};
    WeightType type = types[o->quantize_type];
    QuantizeError errors[N_MATRIX_KINDS];
    if (is_same_file(o->quantize_path, o->model_path))
        return fail(err, "--quantize: %s is the model that is read (give the copy another name)", o->quantize_path);
    catch_termination();
    if (!model_quantize(model, type, o->quantize_path, errors, err)) return false;
    Table table = table_open(o->tsv);
    table_note(&table, "errors as shares of the mean absolute weight", "of the class");
    table_columns(&table, "tensors\tworst\tmean");
    for (int i = 0; i < N_MATRIX_KINDS; i++) {
        const QuantizeError *e = &errors[i];
        double worst = e->worst * (e->count / e->weights), mean = e->sum / e->weights;
        if (e->sum > 0) table_row(&table, "%s\t%.6f\t%.6f", kinds[i], worst, mean);
    }
    table_end(&table);
    return true;
}
