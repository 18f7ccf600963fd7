// The differences of each engine from Hugging Face 5: two functions. The table of engines
// (engine_list.c) has a row for each.
#pragma once

#include "reading.h"

typedef struct {
    // Called before the block is found, above all for its layout; NULL: no preparation.
    void (*prepares)(Config *config);
    void (*reads)(Config *config);
    unsigned flags;
    // For an engine with its own table of architectures, with spaces around each: those whose class
    // was verified; those whose class is unverified; and its refusal of others (NULL: they are
    // unverified, too). Without the first, facts are by family, in export/families.json.
    const char *classes, *unverified, *refuses;
} EngineRules;

// ---- engine_hf.c: transformers, and functions for the engines that use it ----

void engine_prepare_hf5(Config *c);
// rope_parameters has theta, too. rope_scaling wins if both exist.
void engine_hf5(Config *c);
void engine_prepare_hf4(Config *c);
void engine_hf4(Config *c);

// Whether transformers has one block for all layers, as it had for OLMo 3 until 5.13.
bool hf_has_one_block(const Config *c);
// Whether the family's class takes the rope_type mrope as one without scaling.
bool hf_renames_mrope(const Config *c);
// The refusals of transformers 5's classes, in all engines that use them.
void hf_refuse_by_classes(Config *c);
// Whether the config has a share of a head that the family's class does not read: it rotates the
// whole head.
bool hf_loses_share(const Config *c);
// Refuses a block that Phi-3's class in transformers 4 does not take, if that class reads it.
void hf4_refuse_three_keys(Config *c, bool is_read);

// ---- engine_servers.c: vLLM and SGLang ----

// Whether the release of vLLM uses transformers 4, as those up to 0.19.0 do.
static inline bool server_stands_on_4(const Config *c) { return c->as->transformers < 5; }
// The block for all layers, as transformers 5 leaves it: rope_scaling, also beside blocks for kinds
// of them. NULL: there is none.
const Json *server_flat_block(const Config *c);
RopeType server_block_type(const Config *c, const Json *block);
// transformers puts no theta into such a block, and checks llama3 for one.
void server_refuse_flat_llama3(Config *c);
// Whether there are chunks that the class does not take: only Qwen's classes take them.
bool server_has_no_chunks(const Config *c);
// Whether the engine makes the model through transformers' own class.
bool server_is_of_transformers(const Config *c);
// Whether a rope_scaling replaces the block into which Mistral 4's class has put its share of a
// head: the whole head rotates, and the engine's result is unverified.
bool server_loses_width(const Config *c);
// Texts end at `length` times the block's factor.
void server_limit_by_factor(Config *c, int length);

// yarn's attention factor, by the rules of the release.
void server_yarn(Config *c);
// The factor of yarn's ramp, and the length by which a block with sections places it.
void server_ramp(Config *c);
// Whether the class of a text model by itself, outside its wrapper, drops the sections of its block.
bool server_drops_sections(const Config *c);
// dynamic does not follow the text: it becomes ntk with one factor for every length.
void server_fix_base(Config *c, double factor);
// longrope's attention factor: that of the list in use, if it has one.
void server_mscale(Config *c, bool is_long);

// ---- engine_vllm.c, engine_sglang.c ----

void engine_prepare_vllm(Config *c);
void engine_vllm(Config *c);
void engine_prepare_sglang(Config *c);
// longrope's list follows the text, one token later than elsewhere. dynamic has one base.
void engine_sglang(Config *c);

// ---- engine_gguf.c: llama.cpp and ik_llama.cpp ----

// The converter reads the config through transformers, 4 or 5.
void engine_prepare_llama_cpp(Config *c);
// It writes a block of the full layers, and the base of the sliding ones.
void engine_prepare_gguf(Config *c);
void engine_llama_cpp(Config *c);
void engine_ik_llama_cpp(Config *c);
// The same two for a GGUF file, by its own keys. The exporter has read these keys as llama.cpp
// does, except for settings that there no key, or only a flag, can change.
void engine_gguf_file(Config *c, const GgufFile *file);

// ---- engine_others.c ----

void engine_prepare_mlx_lm(Config *c);
void engine_mlx_lm(Config *c);
void engine_mlx_vlm(Config *c);
void engine_lightllm(Config *c);
void engine_prepare_exllamav3(Config *c);
void engine_exllamav3(Config *c);

// ---- engine_exllamav2.c ----

void engine_prepare_exllamav2(Config *c);
// yarn and longrope go by the length that it was started with, max_position_embeddings at first.
void engine_exllamav2(Config *c);

// ---- classes.c: architectures by engine, from classes.json, with spaces around each ----

extern const char mlx_needs_theta[], mlx_needs_most[], mlx_needs_head[], mlx_needs_share[];
extern const char mlx_needs_scaling[];
extern const char turbomind_classes[], lmdeploy_classes[], lmdeploy_unverified[];
extern const char ort_genai_classes[], ort_genai_unverified[], ort_genai_llama3_alone[];
extern const char ort_genai_alpha_alone[], ollama_classes[], ollama_of_llama[];
extern const char exllamav2_wrappers[], exllamav2_of_two_bases[];

// ---- engine_lmdeploy.c ----

enum {
    LMDEPLOY_FLAGS = THROUGH_HF5 | HAS_LIMIT | OLD_YARN | NEEDS_FACTOR | L_OF_MAX | READS_MROPE
};
// Models without a class in TurboMind go to the PyTorch engine.
void engine_prepare_turbomind(Config *c);
void engine_turbomind(Config *c);
void engine_lmdeploy_pytorch(Config *c);

// ---- engine_converters.c: ONNX Runtime GenAI's builder, and Ollama's `create` ----

void engine_ort_genai(Config *c);
void engine_ollama(Config *c);
