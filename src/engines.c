// Eight engines: what each of them does otherwise than Hugging Face 5 with one block. docs/engines.md has the sources.
#include "engines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "reading.h"

const char engines_date[] = "2026-08-22";

// transformers 5. rope_parameters holds theta as well; rope_scaling wins where there are both.
static void hf5(Config *c) {
    if (!c->rope_type && !c->type && member(c->block, "factor")) note(c, "no rope_type: nothing is scaled");
    if (c->is_phi3 || c->partial == 1) return;
    if (c->method == PLAIN) c->partial = 1;
    else note(c, "partial_rotary_factor: the rotation fails");
}

// transformers 4. yarn's L is the block's, longrope's the top level's. 4.51 rewrote yarn for DeepSeek-V3, and took its
// factor from the lengths until 4.56.
static void hf4(Config *c) {
    const int top = c->is_phi3 && !c->top ? 4096 : c->top;
    const bool by_max = c->release < 4.51 || !c->inside;
    const char *key, *v = c->block ? json_first(c->block, &key) : NULL;
    int keys = 0;
    for (; v; v = json_next(v, &key)) keys++;
    refuse(c, c->block && !c->rope_type && !c->type, "KeyError: rope_type");
    refuse(c, c->method == UNKNOWN || (c->is_su && !c->is_phi3), "KeyError: the rope_type is not known");
    refuse(c, c->block && c->is_phi3 && (c->method != LONGROPE || keys != 3 || !c->type),
           "ValueError: Phi-3 takes type, short_factor and long_factor, and no more");
    refuse(c, c->method == LLAMA3 && !c->inside, "KeyError: original_max_position_embeddings");
    refuse(c, c->method == YARN && c->rope->factor == 0, "TypeError: factor is no number");
    if (c->method == YARN) {
        trained_on(c, by_max ? c->trained : c->inside, by_max ? "max_position_embeddings" : "the block's");
        if (!by_max && c->release < 4.56)
            scaled_by(c, (double)c->trained / c->inside, "max_position_embeddings / L, factor is not read");
        if (c->release < 4.51 && c->rope->attention_factor == 0) multiply_by(c, 0);
        if (c->release < 4.55) round_ramp(c);
    }
    if (c->method != LONGROPE) return;
    trained_on(c, top ? top : c->trained, "the top level's");
    if (top) scaled_by(c, (double)c->trained / top, "max_position_embeddings / L, factor is not read");
    if (!c->is_phi3 && c->release < 4.51) choose_list(c, c->release < 4.48, "at any length");
}

// Whether `type` and `rope_type` are both there and say two things, as vLLM sees it.
static bool types_disagree(const Config *c) {
    if (!c->type || !c->rope_type || *c->type != '"') return false;
    size_t length = strcspn(c->type + 1, "\"") + 2;
    return strncmp(c->type, c->rope_type, length) != 0 &&
           !(json_is(c->type, "su") && json_is(c->rope_type, "longrope")) &&
           !(json_is(c->type, "mrope") && json_is(c->rope_type, "default"));
}

// vLLM. longrope's list goes by the server's length, since 0.11.1; dynamic has one base, since 0.22 the unscaled one.
static void vllm(Config *c) {
    const double s = c->rope->factor, own = number_of(c, c->block, "attn_factor", 1);
    const char *apply = member(c->block, "apply_yarn_scaling");
    const int top = c->top ? c->top : c->is_phi3 ? 4096 : c->trained, wanted = c->served ? c->served : top;
    refuse(c, member(c->config, "text_config"), "ValueError: text_config is taken for the model's, and has no heads");
    refuse(c, types_disagree(c), "ValueError: type and rope_type disagree");
    refuse(c, c->method == LINEAR && c->factor_is_whole, "TypeError: factor is a whole number, without a point");
    refuse(c, c->method == YARN && s == 0, "TypeError: factor is no number");
    if (c->method <= DYNAMIC || c->method == YARN)
        limit_by_factor(c, c->method == YARN ? c->rope->train_ctx : c->trained);
    refuse(c, c->served > c->out->max_len, "ValueError: max_model_len is more than the config gives");
    if (c->method == DYNAMIC) {
        double known = fmax(number_of(c, c->block, "max_trained_positions", c->trained), 1);
        fix_base(c, c->release < 0.22 ? s * s - s + 1 : s * c->trained / known - (s - 1));
    }
    if (c->method == YARN) {
        multiply_by(c, own * (apply && *apply == 'f' ? 1 : yarn_temperature(s)));
        if (own != 1) c->why[TEMPERATURE] = "attn_factor is read";
        if (c->release < 0.12) round_ramp(c);
    }
    if (c->method != LONGROPE) return;
    temperature_of_max(c);
    bool is_long = (c->length > wanted && !c->served ? c->trained : wanted) > c->rope->train_ctx;
    if (c->release < 0.1101) is_long = c->length > c->rope->train_ctx;
    else choose_list(c, is_long, "by max_model_len");
    c->rope->attention_factor = number_of(c, c->block, is_long ? "long_mscale" : "short_mscale", 0);
    if (c->rope->attention_factor != 0) c->why[TEMPERATURE] = "short_mscale and long_mscale are read";
}

// SGLang. longrope's list goes by the text, one token later than elsewhere; dynamic has one base.
static void sglang(Config *c) {
    const double s = c->rope->factor, own = number_of(c, c->block, "attn_factor", 1);
    refuse(c, member(c->config, "text_config"), "ValueError: text_config is taken for the model's, and has no heads");
    refuse(c, c->method == LINEAR && c->factor_is_whole, "TypeError: factor is a whole number, without a point");
    refuse(c, c->method == YARN && s == 0, "TypeError: factor is no number");
    if (c->method <= DYNAMIC && !c->inside) limit_by_factor(c, c->trained);
    if (c->method == DYNAMIC) fix_base(c, s * s - s + 1);
    if (c->method == YARN) multiply_by(c, own * yarn_temperature(s));
    if (own != 1) c->why[TEMPERATURE] = "attn_factor is read";
    if (c->method != LONGROPE) return;
    temperature_of_max(c);
    if (c->length == c->rope->train_ctx + 1) choose_list(c, false, "the long one from L + 2 tokens on");
}

// llama.cpp by way of its converter: what is not written to the GGUF file, or not read back from it, is lost.
static void llama_cpp(Config *c) {
    const bool is_qwen2 = strcmp(c->family.model_type, "qwen2") == 0, by_top = c->release < 2026.062;
    const int said = by_top ? c->top : c->inside;
    if (!c->is_phi3) c->partial = 1;
    switch_off(c, c->method == UNKNOWN, "the rope_type is not known");
    switch_off(c, c->method == DYNAMIC, "dynamic is not converted");
    switch_off(c, c->method == LONGROPE && !c->is_phi3, "longrope's lists are converted for Phi-3 alone");
    switch_off(c, c->method == YARN && c->rope->factor == 0, "factor is no number");
    switch_off(c, c->method == YARN && c->release < 2025.12 && (!is_qwen2 || !c->type),
               "yarn was not converted before December 2025");
    if (c->method == LLAMA3) trained_on(c, said ? said : 8192, by_top ? "the top level's, or 8192" : "the block's");
    if (c->method == YARN) {
        refuse(c, !c->inside, "KeyError: original_max_position_embeddings");
        trained_on(c, c->inside, "the block's");
        bare_yarn(c);
    }
    if (c->method != LONGROPE) return;
    temperature_of_max(c);
    if (c->was_yarn) multiply_by(c, yarn_temperature(c->rope->factor));
    choose_list(c, (c->served ? c->served : c->length) > c->rope->train_ctx, "by the context, not the text");
}

// MLX-LM. yarn's L is 4096 where the block has none; longrope is always the long list.
static void mlx_lm(Config *c) {
    const double s = c->rope->factor, grows = s > 1 ? 0.1 * log(s) : 0;
    const double m = number_of(c, c->block, "mscale", 1), all = number_of(c, c->block, "mscale_all_dim", 0);
    const char *parameters = member(c->config, "rope_parameters");
    if (strcmp(c->family.model_type, "qwen2") == 0) c->rope->theta = number_of(c, c->config, "rope_theta", 1e6);
    if (c->is_phi3 && parameters && *parameters == '{') c->rope->theta = number_of(c, parameters, "rope_theta", 1e4);
    if (!c->is_phi3) c->partial = 1;
    refuse(c, c->is_phi3 && c->block && !(c->type && member(c->block, "long_factor")),
           "ValueError: Phi-3 takes type and long_factor");
    switch_off(c, c->is_phi3 && c->method != LONGROPE && c->method != LINEAR, "Phi-3 knows longrope and linear alone");
    refuse(c, c->method == UNKNOWN || (c->is_su && !c->is_phi3), "ValueError: the rope_type is not known");
    refuse(c, c->method == DYNAMIC && c->release < 0.32, "ValueError: dynamic is not known before 0.32");
    refuse(c, c->method == YARN && s == 0, "TypeError: factor is no number");
    refuse(c, c->method == LONGROPE && !c->is_phi3 && !c->inside, "KeyError: original_max_position_embeddings");
    if (c->method == LLAMA3) trained_on(c, c->inside ? c->inside : 8192, "the block's, or 8192");
    if (c->method == YARN) {
        trained_on(c, c->inside ? c->inside : 4096, "the block's, or 4096");
        multiply_by(c, (grows * m + 1) / (grows * all + 1));
        round_ramp(c);
    }
    if (c->method != LONGROPE) return;
    if (!c->is_phi3) trained_on(c, c->inside, "the block's");
    temperature_of_max(c);
    choose_list(c, true, "at any length");
}

// ExLlamaV3. Where a block has an original length, yarn's factor is max_position_embeddings / L.
static void exllamav3(Config *c) {
    const int served = c->served ? c->served : c->trained;
    refuse(c, c->method == UNKNOWN || c->method == DYNAMIC, "ValueError: the rope_type is not known");
    refuse(c, c->method == YARN && !c->inside && c->rope->factor == 0, "TypeError: factor is no number");
    refuse(c, c->method == LONGROPE && !c->inside && !c->top, "TypeError: original_max_position_embeddings");
    if (c->method == LLAMA3) trained_on(c, c->inside ? c->inside : 8192, "the block's, or 8192");
    if (c->method == YARN) {
        trained_on(c, c->inside ? c->inside : served, c->inside ? "the block's" : "max_position_embeddings");
        if (c->inside) scaled_by(c, (double)served / c->inside, "max_position_embeddings / L, factor is not read");
        if (c->rope->attention_factor == 0) multiply_by(c, 0);
    }
    if (c->method != LONGROPE) return;
    trained_on(c, c->inside ? c->inside : c->top, c->inside ? "the block's" : "the top level's");
    temperature_of_max(c);
    choose_list(c, served > c->rope->train_ctx, "by max_position_embeddings");
}

// ExLlamaV2. yarn and longrope go by the length that it was started with, max_position_embeddings at first.
static void exllamav2(Config *c) {
    const int served = c->served ? c->served : c->trained;
    refuse(c, c->type && c->rope_type, "AssertionError: type and rope_type are both there");
    switch_off(c, c->method == UNKNOWN || c->method == DYNAMIC, "the rope_type is not known");
    refuse(c, c->method == YARN && c->rope->factor == 0, "KeyError: factor");
    refuse(c, (c->method == YARN || c->method == LLAMA3) && !c->inside, "KeyError: original_max_position_embeddings");
    refuse(c, c->method == LONGROPE && !c->top, "KeyError: original_max_position_embeddings at the top level");
    switch_off(c, c->method == YARN && served <= c->inside, "max_seq_len does not exceed the original length");
    if (c->method == LLAMA3) trained_on(c, c->inside, "the block's");
    if (c->method == YARN) {
        trained_on(c, served, "max_seq_len");
        bare_yarn(c);
    }
    if (c->method != LONGROPE) return;
    trained_on(c, c->top, "the top level's");
    temperature_of_max(c);
    scaled_by(c, fmax((double)served / fmax(c->top, 1), 1), "max_seq_len / L");
    choose_list(c, served > c->top, "by max_seq_len");
}

// To add an engine, write above what it does otherwise than hf5 and give it a row here.
static const struct {
    const char *name, *version;
    void (*reads)(Config *config);
    unsigned where;  // of reading.h's flags
} engines[] = {
    {"hf5", "5.15.0, 2026-08-10", hf5, THROUGH_HF5 | PHI3_YARN},
    {"hf4", "4.57.0, 2025-10-03", hf4, SCALING_ONLY | TYPE_FIRST | PHI3_YARN},
    {"vllm", "0.24.0, 2026-06", vllm, THROUGH_HF5 | HAS_LIMIT | PHI3_YARN},
    {"sglang", "2026-04-16", sglang, THROUGH_HF5 | HAS_LIMIT | PHI3_YARN},
    {"llama.cpp", "d59d455, 2026-08-19", llama_cpp, PARAMETERS_FIRST | TEXT_CONFIG | HAS_LIMIT | PHI3_YARN},
    {"mlx-lm", "0.32.0, 2026-08-22", mlx_lm, SCALING_ONLY | TYPE_FIRST},
    {"exllamav3", "1.4.1, 2026-08", exllamav3, TOP_THETA},
    {"exllamav2", "0.3.2, 2025-12", exllamav2, SCALING_ONLY | TEXT_CONFIG | HAS_LIMIT},
};
enum { N_ENGINES = sizeof engines / sizeof engines[0] };

// "4.51", "0.11.1" or "2026-06-20": 4.51, 0.1101, 2026.062; NULL: none, else behind it.
static const char *read_release(const char *text, double *release) {
    double unit = 1;
    *release = 0;
    for (char *rest; *text >= '0' && *text <= '9'; unit /= 100) {
        *release += (double)strtol(text, &rest, 10) * unit;
        text = rest + (*rest == '.' || *rest == '-');
    }
    return unit < 1 ? text : NULL;
}

// "131072" or "128k", as any length on the command line.
static bool read_length(const char *text, int *length) {
    char *end;
    long x = strtol(text, &end, 10), unit = *end == 'k' ? 1 << 10 : *end == 'm' ? 1 << 20 : 1;
    bool good = *text >= '0' && *text <= '9' && x > 0 && x <= (1 << 30) / unit && !end[unit > 1];
    *length = good ? (int)(x * unit) : 0;
    return good;
}

// "hf4@4.51", "vllm:max_len=131072": the row, the release (above all when it is not said), and the length or 0.
static bool read_name(const char *text, int *row, double *release, int *served, Error *err) {
    static const char expected[] =
        "hf5, hf4, vllm, sglang, llama.cpp, mlx-lm, exllamav3 or exllamav2, with @RELEASE or "
        ":max_len=N behind it";
    const char *nearest = "", *behind = text + strcspn(text, "@:");
    size_t n = strcspn(text, "@:");
    for (*row = 0; *row < N_ENGINES; ++*row) {
        if (strlen(engines[*row].name) == n && strncmp(engines[*row].name, text, n) == 0) break;
        nearest = nearer_name(text, engines[*row].name, nearest);
    }
    if (*row == N_ENGINES) return fail_unknown(err, "there is no engine", text, nearest, expected);
    *release = 1e9;
    *served = 0;
    if (*behind == '@') behind = read_release(behind + 1, release);
    if (behind && strncmp(behind, ":max_len=", 9) == 0 && read_length(behind + 9, served)) return true;
    return (behind && !*behind) || fail(err, "there is no engine '%.40s' (expected %s)", text, expected);
}

int engines_list(const char *list, char names[MOST_READINGS][40], Error *err) {
    double release;
    int n = 0, row, served;
    for (; !list && n < N_ENGINES; n++) snprintf(names[n], sizeof *names, "%s", engines[n].name);
    for (const char *at = list, *end; at; at = *end ? end + 1 : NULL) {
        end = at + strcspn(at, ",");
        if (n == MOST_READINGS) return fail(err, "more than %d engines", MOST_READINGS);
        snprintf(names[n], sizeof *names, "%.*s", (int)(end - at), at);
        if (!read_name(names[n++], &row, &release, &served, err)) return 0;
    }
    return n;
}

static bool read_as(const char *engine, const char *config, int length, const Reading *reference, Reading *out,
                    Error *err) {
    Config c = {.length = length, .out = out};
    int row;
    *out = (Reading){.refused = false};
    if (!read_name(engine, &row, &c.release, &c.served, err)) return false;
    snprintf(out->engine, sizeof out->engine, "%s", engine);
    const char *release = strchr(engine, '@') ? strchr(engine, '@') + 1 : engines[row].version;
    snprintf(out->version, sizeof out->version, "%.*s", (int)strcspn(release, ":"), release);
    if (!reading_begin(&c, config, engines[row].where, err)) return false;
    engines[row].reads(&c);
    if (c.served && out->max_len) out->max_len = c.served;
    reading_end(&c, reference);
    return true;
}

bool engine_read(const char *engine, const char *config, int length, Reading *out, Error *err) {
    Reading reference;
    if (strcmp(engine, "hf5") == 0) return read_as(engine, config, length, NULL, out, err);
    if (!read_as("hf5", config, length, NULL, &reference, err)) return false;
    if (reference.refused && strcmp(engine, "hf4") == 0) return read_as(engine, config, length, NULL, out, err);
    if (reference.refused && !read_as("hf4", config, length, NULL, &reference, err)) return false;
    return read_as(engine, config, length, &reference, out, err);
}
