// What each of eight engines does otherwise than Hugging Face 5. docs/engines.md has the sources.
#include "engines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/settings.h"
#include "json.h"
#include "names.h"
#include "reading.h"

// yarn's own attention factor, arXiv 2309.00071.
static double yarn_temperature(double s) { return s > 1 ? 0.1 * log(s) + 1 : 1; }

// dynamic, in the engines where it does not follow the text: ntk with one factor for every length.
static void fix_base(Config *c, double factor) {
    c->rope->dynamic = false;
    c->rope->factor = fmax(factor, 1);
}

static void limit_by_factor(Config *c, int length) {
    double most = length * c->rope->factor;
    if (most > 0) c->out->max_len = (int)fmin(most, MOST);
}

static void switch_off(Config *c, bool is_off, const char *why) {
    if (!is_off || c->method == PLAIN) return;
    c->method = PLAIN;
    c->why_plain = why;
}

static void choose_list(Config *c, bool is_long, const char *why) {
    c->one_list = is_long ? c->out->long_factors : c->out->short_factors;
    c->why_list = why;
}

// transformers 5. rope_parameters has theta, too. rope_scaling wins where there are both.
static void hf5(Config *c) {
    if (!c->rope_type && !c->type && json_member(c->block, "factor")) note(c, "no rope_type: nothing is scaled");
    if (c->is_phi3 || c->partial == 1) return;
    if (c->method == PLAIN) c->partial = 1;
    else note(c, "partial_rotary_factor: the rotation fails");
}

// transformers 4. yarn's L is the block's, longrope's the top level's. From 4.51 to 4.55 yarn's factor is by lengths.
static void hf4(Config *c) {
    double release = c->out->release;
    int keys = 0;
    for (const char *key, *v = json_first(c->block, &key); v; v = json_next(v, &key)) keys++;
    refuse(c, c->block && !c->rope_type && !c->type, "KeyError: rope_type");
    refuse(c, c->method == UNKNOWN || (c->is_su && !c->is_phi3), "KeyError: the rope_type is not known");
    refuse(c, c->block && c->is_phi3 && (c->method != LONGROPE || keys != 3 || !c->type),
           "ValueError: Phi-3 takes type, short_factor and long_factor, and no more");
    refuse(c, c->method == LLAMA3 && !c->inside, "KeyError: original_max_position_embeddings");
    if (c->method == YARN) {
        bool by_max = release < 4.51 || !c->inside;
        c->rope->train_ctx = by_max ? c->trained : c->inside;
        if (!by_max && release < 4.56) c->rope->factor = (double)c->trained / c->inside;
        if (release < 4.51 && c->rope->attention_factor == 0) multiply_by(c, 0);
        if (release < 4.55) c->rope->truncate = true;
    }
    if (c->method != LONGROPE) return;
    if (c->top || c->is_phi3) c->rope->factor = 0;
    else c->rope->train_ctx = c->trained;
    if (!c->is_phi3 && release < 4.51) choose_list(c, release < 4.48, "at any length");
}

// Whether vLLM finds two different types in `type` and `rope_type`.
static bool types_disagree(const Config *c) {
    if (!c->type || !c->rope_type || *c->type != '"') return false;
    size_t length = strcspn(c->type + 1, "\"") + 2;
    return strncmp(c->type, c->rope_type, length) != 0 &&
           !(json_is(c->type, "su") && json_is(c->rope_type, "longrope")) &&
           !(json_is(c->type, "mrope") && json_is(c->rope_type, "default"));
}

// yarn's attention factor in vLLM and SGLang: their own, times attn_factor.
static void serve_yarn(Config *c, double own_factor) {
    double more = number_of(c, c->block, "attn_factor", 1);
    multiply_by(c, more * own_factor);
    if (more != 1) c->why_attention = "attn_factor is read";
}

// vLLM. Since 0.11.1 longrope's list goes by the server's length. dynamic has one base, since 0.22 the unscaled one.
static void vllm(Config *c) {
    double s = c->rope->factor, release = c->out->release;
    const char *apply = json_member(c->block, "apply_yarn_scaling");
    int top = c->top ? c->top : c->is_phi3 ? 4096 : c->trained, wanted = c->out->served ? c->out->served : top;
    refuse(c, types_disagree(c), "ValueError: type and rope_type disagree");
    if (c->method <= DYNAMIC || c->method == YARN)
        limit_by_factor(c, c->method == YARN ? c->rope->train_ctx : c->trained);
    refuse(c, c->out->served > c->out->max_len, "ValueError: max_model_len is more than the config gives");
    if (c->method == DYNAMIC) {
        double known = fmax(number_of(c, c->block, "max_trained_positions", c->trained), 1);
        fix_base(c, release < 0.22 ? s * s - s + 1 : s * c->trained / known - (s - 1));
    }
    if (c->method == YARN) serve_yarn(c, apply && *apply == 'f' ? 1 : yarn_temperature(s));
    if (release < 0.12) c->rope->truncate = true;
    if (c->method != LONGROPE) return;
    bool is_long = (c->length > wanted && !c->out->served ? c->trained : wanted) > c->rope->train_ctx;
    if (release < 0.1101) is_long = c->length > c->rope->train_ctx;
    else choose_list(c, is_long, "by max_model_len");
    c->rope->attention_factor = number_of(c, c->block, is_long ? "long_mscale" : "short_mscale", 0);
    if (c->rope->attention_factor != 0) c->why_attention = "short_mscale and long_mscale are read";
}

// SGLang. longrope's list goes by the text, one token later than elsewhere. dynamic has one base.
static void sglang(Config *c) {
    double s = c->rope->factor;
    if (c->method <= DYNAMIC && !c->inside) limit_by_factor(c, c->trained);
    if (c->method == DYNAMIC) fix_base(c, s * s - s + 1);
    if (c->method == YARN) serve_yarn(c, yarn_temperature(s));
    if (c->method == LONGROPE && c->length == c->rope->train_ctx + 1)
        choose_list(c, false, "the long one from L + 2 tokens on");
}

// llama.cpp by way of its converter: what is not written to the GGUF file, or not read back from it, is lost.
static void llama_cpp(Config *c) {
    bool is_qwen2 = strcmp(c->family->model_type, "qwen2") == 0;
    if (!c->is_phi3) c->partial = 1;
    switch_off(c, c->method == UNKNOWN, "the rope_type is not known");
    switch_off(c, c->method == DYNAMIC, "dynamic is not converted");
    switch_off(c, c->method == LONGROPE && !c->is_phi3, "longrope's lists are converted for Phi-3 alone");
    switch_off(c, c->method == YARN && c->rope->factor == 0, "factor is no number");
    switch_off(c, c->method == YARN && c->out->release < 2025.12 && (!is_qwen2 || !c->type),
               "yarn was not converted before December 2025");
    refuse(c, c->method == YARN && !c->inside, "KeyError: original_max_position_embeddings");
    if (c->method == LLAMA3 && c->out->release < 2026.062) c->rope->train_ctx = c->top ? c->top : 8192;
    if (c->method != LONGROPE) return;
    if (c->was_yarn) multiply_by(c, yarn_temperature((double)c->trained / c->rope->train_ctx));
    choose_list(c, (c->out->served ? c->served : c->length) > c->rope->train_ctx, "by the context, not the text");
}

// MLX-LM. yarn's L is 4096 where the block has none. longrope always takes the long list.
static void mlx_lm(Config *c) {
    double s = c->rope->factor, grows = yarn_temperature(s) - 1;
    double m = number_of(c, c->block, "mscale", 1), all = number_of(c, c->block, "mscale_all_dim", 0);
    const char *parameters = json_member(c->config, "rope_parameters");
    if (strcmp(c->family->model_type, "qwen2") == 0) c->rope->theta = number_of(c, c->config, "rope_theta", 1e6);
    if (c->is_phi3 && parameters && *parameters == '{') c->rope->theta = number_of(c, parameters, "rope_theta", 1e4);
    if (!c->is_phi3) c->partial = 1;
    refuse(c, c->is_phi3 && c->block && !(c->type && json_member(c->block, "long_factor")),
           "ValueError: Phi-3 takes type and long_factor");
    switch_off(c, c->is_phi3 && c->method != LONGROPE && c->method != LINEAR, "Phi-3 knows longrope and linear alone");
    refuse(c, c->method == UNKNOWN || (c->is_su && !c->is_phi3), "ValueError: the rope_type is not known");
    refuse(c, c->method == DYNAMIC && c->out->release < 0.32, "ValueError: dynamic is not known before 0.32");
    refuse(c, c->method == LONGROPE && !c->is_phi3 && !c->inside, "KeyError: original_max_position_embeddings");
    if (c->method == YARN && !c->inside) c->rope->train_ctx = 4096;
    if (c->method == YARN) multiply_by(c, (grows * m + 1) / (grows * all + 1));
    if (c->method == LONGROPE) choose_list(c, true, "at any length");
}

// ExLlamaV3. Theta at the top level wins. Where a block has L, yarn's factor is max_position_embeddings / L.
static void exllamav3(Config *c) {
    c->rope->theta = number_of(c, c->config, "rope_theta", c->rope->theta);
    refuse(c, c->method == UNKNOWN || c->method == DYNAMIC, "ValueError: the rope_type is not known");
    refuse(c, c->method == YARN && !c->inside && c->rope->factor == 0, "TypeError: factor is no number");
    refuse(c, c->method == LONGROPE && !c->inside && !c->top, "TypeError: original_max_position_embeddings");
    if (c->method == YARN) {
        if (c->inside) c->rope->factor = (double)c->served / c->inside;
        else c->rope->train_ctx = c->served;
        if (c->rope->attention_factor == 0) multiply_by(c, 0);
    }
    if (c->method != LONGROPE) return;
    c->rope->train_ctx = c->inside ? c->inside : c->top;
    choose_list(c, c->served > c->rope->train_ctx, "by max_position_embeddings");
}

// ExLlamaV2. yarn and longrope go by the length that it was started with, max_position_embeddings at first.
static void exllamav2(Config *c) {
    refuse(c, c->type && c->rope_type, "AssertionError: type and rope_type are both there");
    switch_off(c, c->method == UNKNOWN || c->method == DYNAMIC, "the rope_type is not known");
    refuse(c, (c->method == YARN || c->method == LLAMA3) && !c->inside, "KeyError: original_max_position_embeddings");
    refuse(c, c->method == LONGROPE && !c->top, "KeyError: original_max_position_embeddings at the top level");
    switch_off(c, c->method == YARN && c->served <= c->inside, "max_seq_len does not exceed the original length");
    if (c->method == YARN) c->rope->train_ctx = c->served;
    if (c->method != LONGROPE) return;
    c->rope->train_ctx = c->top;
    c->rope->factor = fmax((double)c->served / fmax(c->top, 1), 1);
    choose_list(c, c->served > c->top, "by max_seq_len");
}

// To add an engine, write a function above for what it does otherwise than hf5, and give it a row here.
static const struct {
    const char *name, *version;
    const char *first, *last;  // the releases for which the facts hold
    void (*reads)(Config *config);
    unsigned flags;  // of reading.h
} engines[] = {
    {"hf5", "5.15.0", "5.0", "5.15", hf5, THROUGH_HF5 | PHI3_YARN},
    {"hf4", "4.57.0", "4.45", "4.57", hf4, SCALING_ONLY | TYPE_FIRST | PHI3_YARN | NEEDS_FACTOR},
    {"vllm", "0.24.0", "0.11", "0.24", vllm, THROUGH_HF5 | HAS_LIMIT | PHI3_YARN | NEEDS_FACTOR | SERVES | L_OF_MAX},
    {"sglang", "Apr 26", "2026-04", "2026-04", sglang,
     THROUGH_HF5 | HAS_LIMIT | PHI3_YARN | NEEDS_FACTOR | SERVES | L_OF_MAX},
    {"llama.cpp", "Aug 26", "2025-02", "2026-08", llama_cpp,
     PARAMETERS_FIRST | TEXT_CONFIG | HAS_LIMIT | PHI3_YARN | L_OF_BLOCK | L_OF_MAX | ROUNDS_RAMP | OWN_YARN},
    {"mlx-lm", "0.32.0", "0.31", "0.32", mlx_lm,
     SCALING_ONLY | TYPE_FIRST | NEEDS_FACTOR | L_OF_BLOCK | L_OF_MAX | ROUNDS_RAMP},
    {"exllamav3", "1.4.1", "1.4", "1.4", exllamav3, L_OF_BLOCK | L_OF_MAX},
    {"exllamav2", "0.3.2", "0.3", "0.3", exllamav2,
     SCALING_ONLY | TEXT_CONFIG | HAS_LIMIT | NEEDS_FACTOR | L_OF_BLOCK | L_OF_MAX | ROUNDS_RAMP | OWN_YARN},
};
enum { N_ENGINES = sizeof engines / sizeof engines[0] };
static const char all[] = "hf5,hf4,vllm,sglang,llama.cpp,mlx-lm,exllamav3,exllamav2";

// "4.51", "0.11.1" and "2026-06-20" become 4.51, 0.1101 and 2026.062. Returns the place behind, NULL: no release.
static const char *read_release(const char *text, double *release) {
    double unit = 1;
    *release = 0;
    for (char *rest; *text >= '0' && *text <= '9'; unit /= 100) {
        *release += (double)strtol(text, &rest, 10) * unit;
        text = rest + (*rest == '.' || *rest == '-');
    }
    return unit < 1 ? text : NULL;
}

// Whether the facts are of this release. The last one that is known stands for all that begin with
// its numbers.
static bool is_known(int row, double release) {
    double first, last;
    read_release(engines[row].first, &first);
    read_release(engines[row].last, &last);
    return release > first - 1e-9 && release < last + 0.01 - 1e-9;
}

// Reads "hf4@4.51" or "vllm:max_len=131072", n bytes.
static bool read_name(const char *text, int n, Reading *out, Error *err) {
    static const Option max_len = {.type = WHOLE, .low = 1, .high = MOST};
    const char *nearest = "";
    char expected[160];
    *out = (Reading){.release = 1e9};
    snprintf(out->engine, sizeof out->engine, "%.*s", n, text);
    snprintf(expected, sizeof expected, "one of %s, with @RELEASE or :max_len=N behind it", all);
    const char *name = out->engine, *behind = name + strcspn(name, "@:"), *release = behind + 1;
    size_t length = (size_t)(behind - name);
    for (; out->row < N_ENGINES; out->row++) {
        if (strlen(engines[out->row].name) == length && strncmp(engines[out->row].name, name, length) == 0) break;
        nearest = nearer_name(name, engines[out->row].name, nearest);
    }
    if (out->row == N_ENGINES) return fail_unknown(err, "there is no engine", name, nearest, expected);
    if (*behind == '@') behind = read_release(release, &out->release);
    else release = engines[out->row].version;
    snprintf(out->version, sizeof out->version, "%.*s", (int)strcspn(release, ":"), release);
    if (behind && out->release < 1e9 && !is_known(out->row, out->release)) {
        const char *first = engines[out->row].first, *last = engines[out->row].last;
        bool is_one = strcmp(first, last) == 0;
        return fail(err, "release %s of %s is not known (expected %s%s%s)", out->version, engines[out->row].name, first,
                    is_one ? "" : " to ", is_one ? "" : last);
    }
    if (behind && strncmp(behind, ":max_len=", 9) == 0)
        return option_read(&max_len, &out->served, name, behind + 9, err);
    return (behind && !*behind) || fail_unknown(err, "there is no engine", name, "", expected);
}

int engines_list(const char *list, Reading readings[MOST_READINGS], Error *err) {
    int n = 0;
    for (const char *at = list ? list : all; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (n == MOST_READINGS) return fail(err, "more than %d engines", MOST_READINGS);
        if (!read_name(at, (int)strcspn(at, ","), &readings[n++], err)) return 0;
    }
    return n;
}

static bool read_as(Reading *out, const char *config, int length, const Reading *reference, Error *err) {
    Config c = {.config = config, .flags = engines[out->row].flags, .length = length, .rope = &out->rope, .out = out};
    if (!reading_begin(&c, err)) return false;
    engines[out->row].reads(&c);
    if (out->served && out->max_len) out->max_len = out->served;
    reading_end(&c, reference);
    return true;
}

Reading *engines_read(const char *list, const char *config, int length, const RopeConfig *meant, int *n, Error *err) {
    Reading *readings = alloc_array(MOST_READINGS + 1, sizeof *readings, "readings", err);
    *n = readings ? engines_list(list, readings, err) : 0;
    Reading *reference = readings + *n;
    bool ok = *n > 0;
    if (ok && meant) reference->rope = *meant;
    for (int row = 0; ok && !meant && row < 2 && (row == 0 || reference->refused); row++)
        ok = read_name(engines[row].name, 3, reference, err) && read_as(reference, config, length, NULL, err);
    for (int i = 0; ok && i < *n; i++) ok = read_as(&readings[i], config, length, reference, err);
    return keep_if(ok, readings);
}
