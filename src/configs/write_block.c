// Writes the members of a block of settings, as JSON.
#include "write_block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Writes a member of a JSON object after others: n numbers, as a list if there are several. Numbers
// have enough digits to be read back exactly, and a point or an exponent, so that every reader
// takes them for floats.
static void put_json_numbers(FILE *out, const char *key, const double *x, int n) {
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

void put_json_number(FILE *out, const char *key, double x) { put_json_numbers(out, key, &x, 1); }

// Writes the fields of a block that its method has and that are not 0; a switch only if it is off.
static void put_fields(FILE *out, const RopeConfig *c) {
    unsigned flags = rope_methods[c->method].flags;
    for (const Setting *f = rope_settings; f < rope_settings + N_ROPE_SETTINGS; f++) {
        double value = setting_value(c, f);
        bool is_switch = f->type == FLAG;
        if (!f->key || (f->methods && !(f->methods & flags)) || (value != 0) == is_switch) continue;
        if (is_switch) fprintf(out, ", \"%s\": false", f->key);
        else if (f->type == WHOLE) fprintf(out, ", \"%s\": %.0f", f->key, value);
        else put_json_number(out, f->key, value);
    }
}

void block_put_chunks(FILE *out, const RopeConfig *c) {
    fprintf(out,
            "\"dual_chunk_attention_config\": {\"chunk_size\": %d, \"local_size\": %d, "
            "\"original_max_position_embeddings\": %d}",
            c->train_ctx, c->train_ctx - c->chunk, c->train_ctx);
}

// The name of a published form's method in Hugging Face: the same as ours, with two exceptions.
// llama.cpp has our names up to yarn.
static const char *rope_type_of(const RopeConfig *c) {
    if (c->dynamic) return "dynamic";
    return c->method == ROPE_NONE ? "default" : rope_methods[c->method].name;
}

// Twelve digits, rounded up if the product would fall short of `part` in floating point.
double block_share_of(int part, int whole) {
    double digits = ceil(1e12 * part / whole);
    while ((int)(whole * (digits / 1e12)) < part) digits++;
    return digits / 1e12;
}

void block_put_share(FILE *out, const RopePlan *plan) {
    int d = plan->rope.rotary_dim;
    if (d < plan->head_dim)
        put_json_number(out, "partial_rotary_factor", block_share_of(d, plan->head_dim));
}

// A quotient without its last, rounded digit.
static double rounded(double x) {
    char text[40];
    snprintf(text, sizeof text, "%.15g", x);
    return strtod(text, NULL);
}

// Not every engine reads attention_factor: SGLang, and vLLM before 0.30, multiply 0.1 ln s + 1 by
// attn_factor, MLX-LM puts mscale into it.
static void put_attention(FILE *out, const RopeConfig *c) {
    double grows = rope_yarn_growth(c->factor);
    bool is_pair = c->mscale_all_dim != 0 && !c->mscale_in_scores;
    RopeFreqs f;
    rope_frequencies(c, c->train_ctx, &f);
    double a = is_pair ? f.attention_factor : c->attention_factor;
    if (c->method != ROPE_YARN || a == 0) return;
    put_json_number(out, "attn_factor", rounded(a / (grows + 1)));
    bool has_mscale = grows > 0 && a >= 1 && c->mscale_all_dim == 0 && !c->mscale_in_scores;
    if (has_mscale) put_json_number(out, "mscale", rounded((a - 1) / grows));
}

// Writes the sections of the three axes: vLLM gives pictures positions on three axes if a block has
// the sections, and Hugging Face's Qwen2-VL fails without them.
static void put_axes(FILE *out, const RopeFile *file) {
    const int *axes = file->axes;
    if (axes[0] + axes[1] + axes[2] == 0) return;
    fprintf(out, ", \"mrope_section\": [%d, %d, %d]", axes[0], axes[1], axes[2]);
    if (file->axes_in_turns) fprintf(out, ", \"mrope_interleaved\": true");
}

// The fields of a block as they are written.
static RopeConfig written_fields(const RopeConfig *c, BlockForm form) {
    RopeConfig fields = *c;
    const bool grows = c->temperature_beta != 0 && !c->temperature_unturned;  // from that length
    if (!publishes_original(c) && !grows) fields.train_ctx = form.original;
    fields.unscaled_positions = 0;
    if (form.is_beside) fields.theta = 0;
    if (c->method == ROPE_PROPORTIONAL && c->factor == 1) fields.factor = 0;
    return fields;
}

void block_put(FILE *out, const RopePlan *plan, BlockForm form) {
    const RopeConfig *c = &plan->rope;
    const RopeConfig fields = written_fields(c, form);
    fprintf(out, "{\"%s\": \"%s\"", form.is_bare ? "type" : "rope_type", rope_type_of(c));
    const bool turns_whole = plan->rope.rotary_dim == plan->head_dim;
    if (!form.is_bare && form.has_share) block_put_share(out, plan);
    if (form.is_whole && turns_whole && c->method != ROPE_PROPORTIONAL)
        put_json_number(out, "partial_rotary_factor", 1);
    if (c->method == ROPE_PROPORTIONAL)
        put_json_number(out, "partial_rotary_factor",
                        block_share_of(2 * c->rotated_pairs, c->rotary_dim));
    if (!form.is_bare) put_fields(out, &fields);
    put_attention(out, c);
    if (c->method == ROPE_LONGROPE) {
        put_json_numbers(out, "short_factor", c->short_factors, c->rotary_dim / 2);
        put_json_numbers(out, "long_factor", c->long_factors, c->rotary_dim / 2);
    }
    if (c->unscaled_positions)
        fprintf(out, ", \"unscaled_positions\": %d", c->unscaled_positions);  // our own key
    if (c->temperature_beta != 0 && !c->temperature_unturned)
        put_json_number(out, "llama_4_scaling_beta", c->temperature_beta);
    if (form.rope_file) put_axes(out, form.rope_file);
    fputc('}', out);
}
