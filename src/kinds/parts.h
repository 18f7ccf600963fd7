// The parts that kinds add to a model, a layer and a forward pass: for each kind a pointer to its
// own struct, which is declared in its header. If no kind was added (a Llama), the struct of
// pointers does not exist either.
#pragma once

#include "../decoder/decoder.h"
#include "../decoder/rules.h"

struct ModelParts {
    struct ExpertsConfig *experts;
    struct GaussianTopkConfig *gaussian_topk;
    struct LatentConfig *latent;
    struct StatesConfig *states;
    struct MambaConfig *mamba;
    struct AltupConfig *altup;
    struct PerLayerConfig *per_layer;
    struct EncodingConfig *encoding;
};

struct LayerParts {
    struct ExpertsTensors *experts;
    struct LatentTensors *latent;
    struct StatesTensors *states;
    struct MambaTensors *mamba;
    struct AltupTensors *altup;
    struct PerLayerTensors *per_layer;
    struct EncodingTensors *encoding;
};

struct PlainParts {
    struct PlainExperts *experts;
    struct PlainLatent *latent;
    struct PlainStates *states;
    struct PlainAltup *altup;
    struct PlainPerLayer *per_layer;
    struct PlainEncoding *encoding;
};
