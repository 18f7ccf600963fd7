// The rules of the engines, a row each; and the readings of a config by a list of engines, compared
// with a reference.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/names.h"
#include "../rope_settings.h"
#include "engine_rules.h"

// ---- the rules ----

// This program: it keeps the settings that were found, and only read_block.c in src/configs decides
// about refusals.
static void rope_c(Config *c) {
    Error err;
    RopeFile *file = alloc_array(1, sizeof *file, "a reading", &err);
    bool good = file && rope_config_parse(file, c->whole->text, c->whole->length, &err);
    c->as->out->verdict = VERDICT_SAME;
    c->stopped = false;
    c->note[0] = '\0';
    config_refuse(c, !good, err.text);
    if (c->layout == BY_TYPE) c->rope->truncate = true;
    config_take_alpha(c);
    config_find_growth(c);
    if (hf_loses_share(c)) c->partial = 1;
    if (file) free(file->whole);
    free(file);
}

static const char lmdeploy_refuses[] = "RuntimeError: Can not found rewrite for architectures";

static const EngineRules engine_rules[N_ENGINES] = {
    [ENGINE_HF5] = {.prepares = engine_prepare_hf5,
                    .reads = engine_hf5,
                    .flags = THROUGH_HF5 | OLD_YARN},
    [ENGINE_HF4] = {.prepares = engine_prepare_hf4,
                    .reads = engine_hf4,
                    .flags = SCALING_ONLY | TYPE_FIRST | OLD_YARN | NEEDS_FACTOR},
    [ENGINE_VLLM] = {.prepares = engine_prepare_vllm,
                     .reads = engine_vllm,
                     .flags = THROUGH_HF5 | HAS_LIMIT | OLD_YARN | NEEDS_FACTOR | SERVES |
                              L_OF_MAX | HAS_BELOW | READS_MROPE | READS_ALPHA},
    [ENGINE_SGLANG] = {.prepares = engine_prepare_sglang,
                       .reads = engine_sglang,
                       .flags = THROUGH_HF5 | HAS_LIMIT | OLD_YARN | NEEDS_FACTOR | SERVES |
                                L_OF_MAX | READS_ALPHA | READS_CHUNKS | READS_MROPE},
    [ENGINE_LLAMA_CPP] = {.prepares = engine_prepare_llama_cpp,
                          .reads = engine_llama_cpp,
                          .flags = PARAMETERS_FIRST | TEXT_CONFIG | HAS_LIMIT | OLD_YARN |
                                   L_OF_BLOCK | L_OF_MAX | ROUNDS_RAMP | OWN_YARN | HAS_BELOW},
    [ENGINE_IK_LLAMA_CPP] = {.prepares = engine_prepare_gguf,
                             .reads = engine_ik_llama_cpp,
                             .flags = PARAMETERS_FIRST | TEXT_CONFIG | HAS_LIMIT | L_OF_BLOCK |
                                      L_OF_MAX | ROUNDS_RAMP | OWN_YARN},
    [ENGINE_MLX_LM] = {.prepares = engine_prepare_mlx_lm,
                       .reads = engine_mlx_lm,
                       .flags = SCALING_ONLY | NEW_PARAMETERS | TYPE_FIRST | NEEDS_FACTOR |
                                L_OF_BLOCK | L_OF_MAX | ROUNDS_RAMP | OWN_DEFAULTS | READS_MROPE},
    [ENGINE_EXLLAMAV3] = {.prepares = engine_prepare_exllamav3,
                          .reads = engine_exllamav3,
                          .flags = L_OF_BLOCK | L_OF_MAX | OWN_DEFAULTS | READS_MROPE},
    [ENGINE_EXLLAMAV2] = {.prepares = engine_prepare_exllamav2,
                          .reads = engine_exllamav2,
                          .flags = SCALING_ONLY | TEXT_CONFIG | HAS_LIMIT | L_OF_BLOCK | L_OF_MAX |
                                   ROUNDS_RAMP | OWN_YARN | OWN_DEFAULTS},
    [ENGINE_MLX_VLM] = {.reads = engine_mlx_vlm,
                        .flags = TEXT_CONFIG | PARAMETERS_FIRST | OWN_DEFAULTS | READS_MROPE},
    [ENGINE_LIGHTLLM] = {.reads = engine_lightllm,
                         .flags = TEXT_CONFIG | OWN_DEFAULTS | READS_MROPE},
    [ENGINE_LMDEPLOY] = {.prepares = engine_prepare_turbomind,
                         .reads = engine_turbomind,
                         .flags = LMDEPLOY_FLAGS | ROUNDS_RAMP,
                         .classes = lmdeploy_classes,
                         .unverified = lmdeploy_unverified,
                         .refuses = lmdeploy_refuses},
    [ENGINE_LMDEPLOY_PYTORCH] = {.reads = engine_lmdeploy_pytorch,
                                 .flags = LMDEPLOY_FLAGS,
                                 .classes = lmdeploy_classes,
                                 .unverified = lmdeploy_unverified,
                                 .refuses = lmdeploy_refuses},
    [ENGINE_ORT_GENAI] = {.reads = engine_ort_genai,
                          .flags = THROUGH_HF5 | HAS_LIMIT | OLD_YARN | READS_MROPE | READS_ALPHA,
                          .classes = ort_genai_classes,
                          .unverified = ort_genai_unverified,
                          .refuses = "NotImplementedError: The model is not currently supported."},
    [ENGINE_OLLAMA] = {.reads = engine_ollama,
                       .flags = SCALING_ONLY | HAS_LIMIT | OWN_DEFAULTS | L_OF_BLOCK,
                       .classes = ollama_classes},
    [ENGINE_OWN] = {.reads = rope_c, .flags = OWN_FLAGS},
};

// ---- lists ----

static const char more[] = ",lmdeploy,lmdeploy:pytorch,onnxruntime-genai,ollama";
static const char all[] = "hf5,hf4,vllm,sglang,llama.cpp,ik_llama.cpp,mlx-lm,exllamav3,exllamav2";

// Aphrodite 0.24 is a vLLM with the rotary classes of this release.
static const char aphrodite[] = "aphrodite", aphrodite_vllm[] = "0.29";

// The kind of a word after an engine's name.
typedef enum { A_SETTING, NO_SETTING, A_WRONG_VALUE } SettingWord;

// Reads a word that may follow an engine's name, in any order: "@0.24", ":transformers=5.5.4",
// ":max_len=131072". err is set only for a wrong value.
static SettingWord read_setting(Reading *out, const char *text, Error *err) {
    static const Setting max_len = {.type = WHOLE, .low = 1, .high = MOST};
    static const char transformers[] = ":transformers=", length[] = ":max_len=";
    char value[24];
    if (strncmp(text, length, strlen(length)) == 0) {
        text += strlen(length);
        snprintf(value, sizeof value, "%.*s", (int)strcspn(text, ":"), text);
        return setting_read(&max_len, &out->served, out->engine, value, err) ? A_SETTING
                                                                             : A_WRONG_VALUE;
    }
    bool is_below = strncmp(text, transformers, strlen(transformers)) == 0;
    const char *release = text + (is_below ? strlen(transformers) : 1);
    if ((*text != '@' && !is_below) || (is_below && !(engine_rules[out->row].flags & HAS_BELOW)))
        return NO_SETTING;
    char *told = is_below ? out->below : out->version;
    snprintf(told, sizeof out->version, "%.*s", (int)strcspn(release, ":"), release);
    const char *end = release_read(release, is_below ? &out->transformers : &out->release);
    return end && (!*end || *end == ':') ? A_SETTING : NO_SETTING;
}

// Reads "hf4@4.51" or "vllm:max_len=131072", n bytes.
static bool read_name(const char *text, int n, Reading *out, Error *err) {
    const char *nearest = "";
    char expected[320];
    *out = (Reading){.release = 1e9, .transformers = 1e9};
    snprintf(out->engine, sizeof out->engine, "%.*s", n, text);
    snprintf(expected, sizeof expected,
             "expected all, or %s%s,aphrodite,mlx-vlm,lightllm,rope.c, with @RELEASE or :max_len=N "
             "after it, or vllm:transformers=RELEASE",
             all, more);
    const char *name = out->engine, *after = name;
    size_t longest = 0;
    out->row = N_ENGINES;
    for (int row = 0; row < N_ENGINES; row++) {
        const size_t own = strlen(engines[row].name);
        const bool is_it = strncmp(engines[row].name, name, own) == 0 && strchr("@:", name[own]);
        if (is_it && own > longest) {  // "lmdeploy:pytorch" goes before "lmdeploy"
            out->row = row;
            after = name + own;
            longest = own;
        }
        nearest = nearer_name(name, engines[row].name, nearest);
    }
    const size_t of_alias = strlen(aphrodite);
    const bool is_alias = strncmp(name, aphrodite, of_alias) == 0 && strchr(":", name[of_alias]);
    if (is_alias) {
        out->row = ENGINE_VLLM;
        after = name + of_alias;
    }
    if (out->row == N_ENGINES)
        return fail_unknown(err, "there is no engine", name, nearest, expected);
    snprintf(out->version, sizeof out->version, "%s",
             is_alias ? aphrodite_vllm : engines[out->row].version);
    if (is_alias) release_read(aphrodite_vllm, &out->release);
    for (; *after; after += 1 + strcspn(after + 1, ":")) {
        const SettingWord word = read_setting(out, after, err);
        if (word == A_WRONG_VALUE) return false;
        if (word == NO_SETTING) return fail_unknown(err, "there is no engine", name, "", expected);
    }
    return release_resolve(out, err);
}

int engines_list(const char *list, Reading readings[MOST_READINGS], Error *err) {
    char every[200];
    int n = 0;
    snprintf(every, sizeof every, "%s%s", all, more);
    if (list && strcmp(list, "all") == 0) list = every;
    for (const char *at = list ? list : all; at;
         at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (n == MOST_READINGS) return fail(err, "more than %d engines", MOST_READINGS);
        if (!read_name(at, (int)strcspn(at, ","), &readings[n++], err)) return 0;
    }
    return n;
}

// ---- readings ----

// Types that are unverified with this family.
static void judge_type(Config *c) {
    const bool is_scaled = c->type != TYPE_PLAIN && !c->stopped;
    const bool is_old = c->type_member && !c->rope_type_member;
    reading_unseen(c, reading_does(c, DOES_YARN_ALONE) && is_scaled && c->type != TYPE_YARN);
    reading_unseen(c, reading_does(c, DOES_LLAMA3_ALONE) && is_scaled && c->type != TYPE_LLAMA3);
    reading_unseen(c, reading_does(c, DOES_LINEAR_ALONE) && is_scaled && c->type != TYPE_LINEAR);
    reading_unseen(c, reading_does(c, DOES_TYPE_UNSEEN) && is_scaled && is_old);
    config_refuse(c, reading_does(c, DOES_NEEDS_ROPE_TYPE) && is_scaled && is_old,
                  "KeyError: rope_type");
}

// A server's length has no effect in a library without a server, and in ExLlamaV3 only on the list
// of Phi-3's longrope.
static void note_unused_length(Config *c) {
    const Reading *out = c->as->out;
    const bool is_list = c->longrope_alone && c->type == TYPE_LONGROPE;
    const bool is_used = out->max_len > 0 || (out->row == ENGINE_EXLLAMAV3 && is_list);
    if (!out->served || is_used || c->stopped) return;
    config_note(c, ":max_len has no effect: %s",
                out->row == ENGINE_EXLLAMAV3 ? "Phi-3's longrope alone goes by it"
                                             : "texts of any length are taken");
}

// One kind of layers as one engine reads it. False with the reason if the config has no family or
// no head.
static bool read_kind(Reading *out, Config *c, const Reading *reference, Error *err) {
    const EngineRules *rules = &engine_rules[out->row];
    if (rules->classes) c->as->own = family_engine(c->family, engines[out->row].name);
    else if (!(c->flags & STRICT)) reading_find_own(c, engines[out->row].name);
    c->as->transformers = out->transformers;
    // Engines that read the file themselves first look for their class, ExLlamaV2 last for tensors.
    const bool is_first = !(c->flags & THROUGH_HF5) && out->row != ENGINE_HF4 &&
                          out->row != ENGINE_EXLLAMAV2;
    const char *refuses = c->as->own ? c->as->own->refuses : NULL;
    config_refuse(c, is_first && refuses, refuses);
    if (rules->prepares) rules->prepares(c);
    if (c->flags & THROUGH_HF5) reading_refuse_fields(c);
    reading_find_type(c);
    if (!config_is_strict(c)) reading_refuse_forms(c);
    if (!reading_begin(c, err)) return false;
    // transformers reads the config first.
    const FamilyEngine *hf5 = family_engine(c->family, engines[ENGINE_HF5].name);
    const bool is_through = rules->classes && c->flags & THROUGH_HF5 && hf5 && hf5->refuses;
    config_refuse(c, is_through, is_through ? hf5->refuses : "");
    const bool has_class = !rules->classes || reading_is_class(c, rules->classes);
    if (!has_class) reading_excuse_number(c);  // a class would have read it
    reading_unseen(c, !has_class && (!rules->refuses || reading_is_class(c, rules->unverified)));
    config_refuse(c, !has_class, rules->refuses);
    judge_type(c);
    rules->reads(c);
    config_refuse(c, refuses, refuses);
    const bool is_llama_cpp = out->row == ENGINE_LLAMA_CPP || out->row == ENGINE_IK_LLAMA_CPP;
    if (out->served && out->max_len && !is_llama_cpp)
        reading_end_at(c, out->served, "the server's length");
    note_unused_length(c);
    // Full layers do not rotate in some families, where others slide to the engine; to transformers
    // also if none slides, and that was tried in no other engine.
    const bool is_full = out->kind == KIND_FULL && layers_bare_full(c->family, &out->layers);
    const bool is_hf = out->row == ENGINE_HF5 || out->row == ENGINE_HF4 || c->flags & STRICT;
    const bool slides = layers_have(&out->layers, KIND_SLIDING);
    const bool is_alone = is_full && !slides && reference && !reference->by_layer;
    const bool turns_all = reading_does(c, DOES_TURNS_ALL);
    out->has_rope = (turns_all || !(is_full && (slides || is_hf))) && !config_has_no_rope(c);
    reading_unseen(c, is_alone && !is_hf && !turns_all);
    reading_end(c);
    reading_judge(c, out->has_rope ? reference : NULL);
    memcpy(out->note, c->note, sizeof out->note);
    if (c->stopped && out->verdict != VERDICT_UNSEEN && !out->is_odd)
        out->verdict = VERDICT_REFUSED;
    return true;
}

bool engine_reads_gguf(int row) {
    return row == ENGINE_LLAMA_CPP || row == ENGINE_IK_LLAMA_CPP || row == ENGINE_OLLAMA;
}

// A config, and the length in positions of a text; and the GGUF file with the same settings (NULL:
// there is none).
typedef struct {
    const Json *whole;
    const ConfigText *text;
    int length;
    const GgufFile *file;
} AskedText;

// One kind of layers of a GGUF file, as read by an engine that runs such files. False as in
// read_kind.
static bool read_file_kind(Reading *out, Config *c, const AskedText *q, const Reading *reference,
                           Error *err) {
    // Ollama starts llama.cpp's server for a file. llama.cpp's facts about its families were all
    // run.
    const int row = out->row == ENGINE_OLLAMA ? ENGINE_LLAMA_CPP : out->row;
    c->as->own = family_engine(c->family, engines[row].name);
    c->as->transformers = out->transformers;
    reading_unseen(c, !c->as->own && row != ENGINE_LLAMA_CPP);
    reading_find_type(c);
    if (!reading_begin(c, err)) return false;
    engine_gguf_file(c, q->file);
    // The refusals in llama.cpp's row are its converter's, and a file is past that.
    const bool refuses = c->as->own && row == ENGINE_IK_LLAMA_CPP;
    if (refuses) config_refuse(c, c->as->own->refuses, c->as->own->refuses);
    const bool is_bare = out->kind == KIND_FULL && layers_bare_full(c->family, &out->layers);
    out->has_rope = !is_bare && !config_has_no_rope(c);
    settings_fill_defaults(c->rope, c->trained);
    out->worst_pair = -1;
    out->worst_ratio = 1;
    reading_judge(c, out->has_rope ? reference : NULL);
    memcpy(out->note, c->note, sizeof out->note);
    if (c->stopped && out->verdict != VERDICT_UNSEEN) out->verdict = VERDICT_REFUSED;
    return true;
}

// If an engine refuses the config for one kind of layers, or is unverified for one, so is the whole
// config.
static void agree(Reading *out, int n) {
    const Reading *worst = out;
    for (int i = n - 1; i >= 0; i--)
        if (out[i].verdict >= worst->verdict) worst = &out[i];
    for (int i = 0; i < n && worst->verdict >= VERDICT_REFUSED; i++) {
        if (out[i].verdict == worst->verdict) continue;
        out[i].verdict = worst->verdict;
        memcpy(out[i].note, worst->note, sizeof worst->note);
    }
}

// Reads each kind of layers as an engine does: *n readings from `out` on, the first with the
// engine's name.
static bool read_as(Reading *out, const AskedText *q, const Reading *reference, int *n,
                    Error *err) {
    const Reading asked = *out;
    EngineReader of_first = {.out = out};
    Config first = {.as = &of_first};
    if (!reading_open(&first, q->whole, q->text, err)) return false;
    const ConfigLayers layers = out->layers;
    *n = 0;
    for (int kind = 0; kind < N_KINDS; kind++) {
        if (!layers_have(&layers, kind)) continue;
        Reading *one = &out[*n];
        *one = asked;
        one->kind = kind;
        one->by_layer = layers_have(&layers, KIND_SLIDING);
        EngineReader as = {.out = one, .length = q->length};
        Config c = {
            .as = &as, .rope = &one->rope, .kind = kind, .flags = engine_rules[asked.row].flags};
        const Reading *beside = reference ? &reference[*n] : NULL;
        const bool of_file = q->file && engine_reads_gguf(asked.row);
        const bool ok = reading_open(&c, q->whole, q->text, err) &&
                        (of_file ? read_file_kind(one, &c, q, beside, err)
                                 : read_kind(one, &c, beside, err));
        if (!ok) return false;
        ++*n;
    }
    agree(out, *n);
    return true;
}

static bool read_reference_as(const char *name, Reading *out, const AskedText *q, int *n,
                              Error *err) {
    return read_name(name, (int)strlen(name), out, err) && read_as(out, q, NULL, n, err);
}

// The reference: the meant settings by kind, or Hugging Face 5's reading, or 4's if 5 refuses. If
// both refuse or are unverified, or do not read a key by which a model rotates, it is this
// program's reading.
static bool read_reference(Reading *out, const AskedText *q, const RopeConfig *meant, Error *err) {
    int n = 0;
    const char *hf5 = engines[ENGINE_HF5].name, *hf4 = engines[ENGINE_HF4].name;
    const char *own = engines[ENGINE_OWN].name;
    bool ok = read_reference_as(hf5, out, q, &n, err);
    bool is_blind = ok && out->is_blind, is_read = ok && out->verdict < VERDICT_REFUSED;
    if (is_blind) ok = read_reference_as(own, out, q, &n, err);
    else if (ok && !is_read) ok = read_reference_as(hf4, out, q, &n, err);
    if (ok && out->verdict >= VERDICT_REFUSED) ok = read_reference_as(own, out, q, &n, err);
    for (int i = 0; ok && meant && i < n; i++) {
        out[i].rope = meant[out[i].kind];
        out[i].verdict = VERDICT_SAME;
    }
    return ok;
}

// The result of engines_read, for a parsed config.
static Readings *read_engines(const char *list, const AskedText *q, const RopeConfig *meant,
                              Error *err) {
    Reading asked[MOST_READINGS];
    int n_asked = engines_list(list, asked, err), of_one = 0;
    if (!n_asked) return NULL;
    // MLX-VLM has its own class for some families, by which they are served on a Mac.
    static const char mac[] = "mlx-vlm";
    const RopeFamily *family = q->text->family;
    const bool is_shown = !list && family && family_engine(family, mac);
    if (is_shown && !read_name(mac, (int)strlen(mac), &asked[n_asked++], err)) return NULL;
    Readings *all = alloc_array(1, sizeof *all, "readings", err);
    bool ok = all && read_reference(all->reference, q, meant, err);
    if (ok) all->n = 0;
    for (int i = 0; ok && i < n_asked; i++) {
        Reading *out = &all->of[all->n];
        *out = asked[i];
        ok = read_as(out, q, all->reference, &of_one, err);
        all->n += of_one;
    }
    return keep_if(ok, all);
}

// The common part of both functions below; `meant` or `file` is NULL.
static Readings *read_any(const char *list, const char *config, int length,
                           const RopeConfig *meant, const GgufFile *file, Error *err) {
    Json *root = json_parse(config, strlen(config), err);
    ConfigText *text =
        root ? config_text_read(family_text(root), NULL, config_family(root), err) : NULL;
    const AskedText asked = {root, text, length, file};
    Readings *all = text ? read_engines(list, &asked, meant, err) : NULL;
    config_text_free(text);
    free(root);
    return all;
}

Readings *engines_read(const char *list, const char *config, int length, const RopeConfig *meant,
                       Error *err) {
    return read_any(list, config, length, meant, NULL, err);
}

Readings *engines_read_file(const char *list, const GgufFile *file, const char *config, int length,
                            Error *err) {
    return read_any(list, config, length, NULL, file, err);
}
