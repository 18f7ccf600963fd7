// The engines, their known releases, and the differences between these: a row each. The rows are
// compared with the engines' own packages by `make test-world`.
#include "releases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 0, NEWEST = 1000000000 };  // any release from the first, or to the newest, on

// ---- the engines ----

// To add an engine, give it a row here, a function in a file beside engine_vllm.c, and a row for that
// in engine_list.c.
const Engine engines[N_ENGINES] = {
    [ENGINE_HF5] = {"hf5", "5.24.0", "5.0", "5.24"},
    [ENGINE_HF4] = {"hf4", "4.57.6", "4.45", "4.57"},
    [ENGINE_VLLM] = {"vllm", "0.33.0", "0.11", "0.33"},
    [ENGINE_SGLANG] = {"sglang", "0.5.23", "0.5.10", "0.5.23"},
    [ENGINE_LLAMA_CPP] = {"llama.cpp", "0.5.0", "2025-02", "2026-09"},
    [ENGINE_IK_LLAMA_CPP] = {"ik_llama.cpp", "Aug 26", "2026-08", "2026-08"},
    [ENGINE_MLX_LM] = {"mlx-lm", "0.32.2", "0.31", "0.32"},
    [ENGINE_EXLLAMAV3] = {"exllamav3", "1.6.5", "1.4", "1.6"},
    [ENGINE_EXLLAMAV2] = {"exllamav2", "0.3.2", "0.3", "0.3"},
    // These two are asked for only by name: one class of each was verified.
    [ENGINE_MLX_VLM] = {"mlx-vlm", "Sep 26", "2026-09", "2026-09"},
    [ENGINE_LIGHTLLM] = {"lightllm", "Aug 26", "2026-08", "2026-08"},
    [ENGINE_LMDEPLOY] = {"lmdeploy", "0.18.0", "0.14", "0.18"},
    [ENGINE_LMDEPLOY_PYTORCH] = {"lmdeploy:pytorch", "0.18.0", "0.18", "0.18"},
    [ENGINE_ORT_GENAI] = {"onnxruntime-genai", "0.18.0", "0.18", "0.18"},
    [ENGINE_OLLAMA] = {"ollama", "Aug 26", "2026-08", "2026-08"},
    [ENGINE_OWN] = {"rope.c", "own", "0", "0"},
};

// ---- rules ----

// The rule holds in releases from `from` on and before `before`. A release is a number with two
// digits for each part: 0.1101 is 0.11.1, 2026.062 the 20th of June.
static const struct {
    const char *engine;
    double from, before;
    ReleaseRule rule;
} rule_rows[] = {
    {"hf5", FIRST, 5.01, RULE_FLAT_BLOCK},
    {"hf5", 5.04, NEWEST, RULE_FIELDS},
    {"hf5", 5.0801, NEWEST, RULE_BLOCK_OUTSIDE},
    {"hf5", FIRST, NEWEST, RULE_HEAD_AS_WRITTEN},
    {"hf5", FIRST, 5.09, RULE_YARN_BY_KIND},
    {"hf5", FIRST, 5.18, RULE_ROTARY_UNREAD},
    {"hf5", 5.17, NEWEST, RULE_SHARE_INSIDE},
    {"hf5", 5.20, NEWEST, RULE_ALPHA_FAR},
    {"hf5", 5.17, 5.18, RULE_SHARED_KEYS},

    {"hf4", FIRST, 4.48, RULE_LONG_LIST},
    {"hf4", 4.48, 4.51, RULE_SHORT_LIST},
    {"hf4", FIRST, 4.51, RULE_YARN_BY_MAX},
    {"hf4", 4.51, 4.56, RULE_FACTOR_BY_LENGTHS},
    {"hf4", FIRST, 4.55, RULE_WHOLE_RAMP},
    {"hf4", 4.52, NEWEST, RULE_HEAD_AS_WRITTEN},
    {"hf4", FIRST, 4.49, RULE_SHARE_UNREAD},

    {"vllm", FIRST, 0.12, RULE_SCALING_ONLY},
    {"vllm", FIRST, 0.12, RULE_WHOLE_RAMP},
    {"vllm", 0.1101, NEWEST, RULE_LIST_BY_SERVER},
    {"vllm", FIRST, NEWEST, RULE_MSCALE_OF_LIST},
    {"vllm", FIRST, 0.18, RULE_NULL_FACTOR},
    {"vllm", FIRST, 0.22, RULE_ONE_BASE},
    {"vllm", FIRST, 0.30, RULE_ATTN_FACTOR},
    {"vllm", FIRST, 0.30, RULE_APPLY_YARN},
    {"vllm", FIRST, 0.30, RULE_EXTRAPOLATION},
    {"vllm", FIRST, 0.30, RULE_YARN_LENGTHENS},
    {"vllm", 0.30, NEWEST, RULE_ATTENTION_FACTOR},
    {"vllm", 0.30, NEWEST, RULE_PAIR},
    {"vllm", FIRST, NEWEST, RULE_SECTIONS},
    {"vllm", FIRST, 0.32, RULE_SECTIONS_AT_ALL},
    {"vllm", FIRST, 0.27, RULE_SECTIONS_IN_TEXT},
    {"vllm", 0.24, NEWEST, RULE_ROPE_DIM},
    {"vllm", FIRST, 0.28, RULE_ONE_HEAD},
    {"vllm", FIRST, 0.26, RULE_OWN_OLMO3},
    {"vllm", 0.29, NEWEST, RULE_CLASS_OF_OLMO3},

    {"sglang", FIRST, NEWEST, RULE_ATTN_FACTOR},
    {"sglang", FIRST, NEWEST, RULE_EXTRAPOLATION},
    {"sglang", FIRST, NEWEST, RULE_ONE_BASE},
    {"sglang", FIRST, NEWEST, RULE_MSCALE_OF_LIST},
    {"sglang", 0.0513, 0.0515, RULE_SHIFTED},
    {"sglang", 0.0516, NEWEST, RULE_PAIR},
    {"sglang", 0.0516, NEWEST, RULE_PAIR_OF_ZEROS},
    {"sglang", 0.0522, NEWEST, RULE_ONE_HEAD},

    {"llama.cpp", FIRST, 2025.12, RULE_YARN_BY_CLASS},
    {"llama.cpp", 2025.08, NEWEST, RULE_YARN_BY_EITHER},
    {"llama.cpp", FIRST, 2026.062, RULE_LLAMA3_BESIDE},
    {"llama.cpp", FIRST, 2026.062, RULE_PHI3_BY_SCALING},

    {"mlx-lm", FIRST, 0.32, RULE_NO_DYNAMIC},
    {"mlx-lm", 0.32, NEWEST, RULE_PARAMETERS},
};

bool release_has(const char *engine, double release, ReleaseRule rule) {
    const int n = sizeof rule_rows / sizeof *rule_rows;
    for (int i = 0; i < n; i++) {
        if (rule_rows[i].rule != rule || strcmp(rule_rows[i].engine, engine) != 0) continue;
        const bool is_old = release < rule_rows[i].from - 1e-9;
        const bool is_new = rule_rows[i].before < NEWEST && release > rule_rows[i].before - 1e-9;
        if (!is_old && !is_new) return true;
    }
    return false;
}

// ---- methods of the facts ----

// Releases by the method of their facts: their own code was run, or read. The first row with a
// release counts.
static const struct {
    const char *engine;
    double first, last;
    const char *how;
} looked_at[] = {
    {"hf5", 5.15, 5.18, "run 2026-11-29"},
    {"hf5", 5.24, NEWEST, "run 2026-11-29"},
    {"hf5", 5.19, NEWEST, "read 2026-11-28"},
    {"hf5", FIRST, NEWEST, "run 2026-11-23"},
    {"hf4", 4.57, NEWEST, "run 2026-11-29"},
    {"hf4", FIRST, NEWEST, "run 2026-08-22"},
    {"vllm", 0.24, 0.24, "run 2026-11-28"},
    {"vllm", 0.33, NEWEST, "run 2026-11-29"},
    {"vllm", 0.25, NEWEST, "read 2026-11-28"},
    {"vllm", 0.15, 0.23, "read 2026-08-22"},
    {"vllm", FIRST, NEWEST, "run 2026-08-22"},
    {"sglang", 0.0523, NEWEST, "run 2026-11-29"},
    {"sglang", FIRST, NEWEST, "read 2026-11-28"},
    {"llama.cpp", 2026.09, NEWEST, "run 2026-11-29"},
    {"llama.cpp", FIRST, NEWEST, "read 2026-08-22"},
    {"ik_llama.cpp", FIRST, NEWEST, "read 2026-08-15"},
    {"mlx-lm", 0.32, NEWEST, "run 2026-11-29"},
    {"mlx-lm", FIRST, NEWEST, "read 2026-08-22"},
    {"exllamav3", 1.05, 1.05, "read 2026-11-28"},
    {"exllamav3", FIRST, NEWEST, "run 2026-11-28"},
    {"exllamav2", FIRST, NEWEST, "run 2026-11-29"},
    {"mlx-vlm", FIRST, NEWEST, "read 2026-09-01"},
    {"lightllm", FIRST, NEWEST, "read 2026-08-22"},
    {"lmdeploy", 0.18, NEWEST, "kernel read 2026-08-21, config run 2026-11-29"},
    {"lmdeploy", FIRST, NEWEST, "read 2026-11-29"},
    {"lmdeploy:pytorch", FIRST, NEWEST, "run 2026-11-29"},
    {"onnxruntime-genai", FIRST, NEWEST, "run 2026-11-29"},
    {"ollama", FIRST, NEWEST, "read 2026-08-21"},
};

const char *reading_looked(const Reading *reading) {
    const char *engine = engines[reading->row].name;
    const double release = reading->release;
    const int n = sizeof looked_at / sizeof *looked_at;
    for (int i = 0; i < n; i++) {
        bool is_in = release > looked_at[i].first - 1e-9 &&
                     (looked_at[i].last >= NEWEST || release < looked_at[i].last + 0.01 - 1e-9);
        if (is_in && strcmp(looked_at[i].engine, engine) == 0) return looked_at[i].how;
    }
    return "own";
}

// ---- releases of transformers below an engine ----

// From a release on to `last` an engine requires transformers from `low` to `high`, and is verified
// with `with` if no other is given.
static const struct {
    const char *engine;
    double from;
    const char *last;
    double low, high, with;
} required[] = {
    {"vllm", 0.33, "0.33.0", 5.1601, 5.20, 5.20},
    {"vllm", 0.32, "0.32.0", 5.1601, 5.19, 5.19},
    {"vllm", 0.31, "0.31.0", 5.1004, 5.17, 5.17},
    {"vllm", 0.29, "0.30.0", 5.1004, NEWEST, 5.15},
    {"vllm", 0.24, "0.28.0", 5.0503, NEWEST, 5.15},
    {"vllm", 0.1901, "0.23.0", 4, NEWEST, 5.15},
    {"vllm", FIRST, "0.19.0", 4, 4.57, 4.57},
    {"sglang", 0.0522, "0.5.23", 5.19, 5.19, 5.19},
    {"sglang", 0.0515, "0.5.21", 5.1201, 5.12, 5.1201},
    {"sglang", 0.0513, "0.5.14", 5.0801, 5.08, 5.0801},
    {"sglang", 0.0511, "0.5.12", 5.06, 5.06, 5.06},
    {"sglang", FIRST, "0.5.10", 5.03, 5.03, 5.03},
    {"llama.cpp", FIRST, "0.5.0", 4, NEWEST, 4.57},
    {"lmdeploy", FIRST, "0.18.0", 4.56, NEWEST, 5.24},
    {"lmdeploy:pytorch", FIRST, "0.18.0", 4.56, NEWEST, 5.24},
    {"onnxruntime-genai", FIRST, "0.18.0", 5, NEWEST, 5.24},
};
enum { N_REQUIRED = sizeof required / sizeof *required };

static bool is_of(int row, const char *engine) { return strcmp(required[row].engine, engine) == 0; }

static bool goes_with(int row, double transformers) {
    bool is_low = transformers < required[row].low - 1e-9;
    bool is_any = required[row].high >= NEWEST;
    return !is_low && (is_any || transformers < required[row].high + 0.01 - 1e-9);
}

// ---- releases by name ----

const char *release_read(const char *text, double *release) {
    double unit = 1;
    *release = 0;
    for (char *rest; *text >= '0' && *text <= '9'; unit /= 100) {
        *release += (double)strtol(text, &rest, 10) * unit;
        text = rest + (*rest == '.' || *rest == '-');
    }
    return unit < 1 ? text : NULL;
}

// A release with so many parts stands for all that begin with them: 0.01 for two of them.
static double spread_of(const char *text) {
    double unit = 100;
    for (const char *at = text; at; at = strpbrk(at + 1, ".-")) unit /= 100;
    return unit;
}

// Whether the facts cover this release. The last one covers all that begin with its numbers.
static bool is_known(int row, double release) {
    double first, last;
    release_read(engines[row].first, &first);
    release_read(engines[row].last, &last);
    return release > first - 1e-9 && release < last + spread_of(engines[row].last) - 1e-9;
}

// llama.cpp's releases were days, and have numbers since August 2026. The number that the table
// prints is the last day's.
static void date_release(int row, double *release) {
    double own;
    if (strcmp(engines[row].version, engines[row].last) == 0) return;
    bool is_own = release_read(engines[row].version, &own) &&
                  floor(100 * *release + 1e-6) == floor(100 * own + 1e-6);
    if (is_own && !is_known(row, *release)) release_read(engines[row].last, release);
}

static bool fail_release(const char *version, int row, Error *err) {
    const char *first = engines[row].first, *last = engines[row].last;
    bool is_one = strcmp(first, last) == 0;
    return fail(err, "release %s of %s is not known (expected %s%s%s)", version, engines[row].name,
                first, is_one ? "" : " to ", is_one ? "" : last);
}

// 5.1004 is written as 5.10.4, and 5.17 as it is.
static void write_release(double release, char *out, size_t size) {
    const int parts = (int)(release * 1e4 + 0.5);
    const int patch = parts % 100;
    int n = snprintf(out, size, "%d.%d", parts / 10000, parts / 100 % 100);
    if (patch && n > 0 && (size_t)n < size) snprintf(out + n, size - (size_t)n, ".%d", patch);
}

// If only the release of transformers is given: the newest release that goes with it.
static void choose_release(Reading *out) {
    const char *name = engines[out->row].name;
    for (int row = 0; row < N_REQUIRED; row++) {
        if (!is_of(row, name) || !goes_with(row, out->transformers)) continue;
        snprintf(out->version, sizeof out->version, "%s", required[row].last);
        release_read(out->version, &out->release);
        date_release(out->row, &out->release);
        return;
    }
}

// A release given only by its first parts, 0.5 of 0.5.23, is the newest.
static void take_newest(const char *told, int row, double *release) {
    const char *last = engines[row].last;
    const size_t n = strlen(told);
    if (n && strncmp(told, last, n) == 0 && last[n] == '.') release_read(last, release);
}

bool release_resolve(Reading *out, Error *err) {
    const Engine *engine = &engines[out->row];
    const bool has_below = out->transformers < NEWEST;
    const int below = out->transformers < 5 ? ENGINE_HF4 : ENGINE_HF5;
    if (out->release < NEWEST) {
        take_newest(out->version, out->row, &out->release);
        date_release(out->row, &out->release);
        if (!is_known(out->row, out->release)) return fail_release(out->version, out->row, err);
    }
    if (has_below) take_newest(out->below, below, &out->transformers);
    if (has_below && !is_known(below, out->transformers))
        return fail_release(out->below, below, err);
    if (has_below && out->release >= NEWEST) choose_release(out);
    if (out->release >= NEWEST) release_read(engine->last, &out->release);
    const bool is_transformers = out->row == ENGINE_HF5 || out->row == ENGINE_HF4;
    if (is_transformers) out->transformers = out->release;
    int row = 0;
    while (row < N_REQUIRED &&
           !(is_of(row, engine->name) && out->release > required[row].from - 1e-9))
        row++;
    if (row == N_REQUIRED) return true;
    if (!has_below) out->transformers = required[row].with;
    if (goes_with(row, out->transformers)) return true;
    char low[24], high[24];
    write_release(required[row].low, low, sizeof low);
    write_release(required[row].high, high, sizeof high);
    const bool is_open = required[row].high >= NEWEST;
    return fail(err, "%s: %s %s requires transformers %s%s%s", out->engine, engine->name,
                out->version, low, is_open ? "" : " to ", is_open ? "" : high);
}
