// Made by tools/generate/family_table.py from src/engines/classes.json, not by hand.

// TurboMind's, by lmdeploy/turbomind/supported_models.py of 0.18
const char turbomind_classes[] =
    " Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen2VLForConditionalGeneration "
    "Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM Qwen3MoeForCausalLM "
    "Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration "
    "InternVLForConditionalGeneration InternS1ForConditionalGeneration LlamaForCausalLM "
    "InternLM3ForCausalLM Glm4MoeLiteForCausalLM GptOssForCausalLM MixtralForCausalLM ";

// those of LMDeploy's PyTorch engine that were looked at, by
// lmdeploy/pytorch/models/module_map.py of 0.18
const char lmdeploy_classes[] =
    " LlamaForCausalLM MistralForCausalLM MixtralForCausalLM GemmaForCausalLM Gemma2ForCausalLM "
    "Gemma3ForCausalLM Gemma3ForConditionalGeneration DeepseekV2ForCausalLM "
    "DeepseekV3ForCausalLM KimiK25ForConditionalGeneration Glm4vForConditionalGeneration "
    "Glm4ForCausalLM Glm4MoeForCausalLM Glm4MoeLiteForCausalLM LlavaForConditionalGeneration "
    "LlavaNextForConditionalGeneration Qwen2ForCausalLM Qwen2MoeForCausalLM "
    "Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM "
    "Qwen3MoeForCausalLM Qwen3NextForCausalLM Qwen3VLForConditionalGeneration "
    "Qwen3VLMoeForConditionalGeneration Qwen3_5ForConditionalGeneration "
    "Qwen3_5MoeForConditionalGeneration Phi3ForCausalLM InternLM3ForCausalLM "
    "InternVLForConditionalGeneration InternS1ForConditionalGeneration GptOssForCausalLM ";

// its others
const char lmdeploy_unverified[] =
    " Llama4ForConditionalGeneration ChatGLMForConditionalGeneration GlmMoeDsaForCausalLM "
    "InternLM2ForCausalLM DeepseekForCausalLM DeepseekV32ForCausalLM DeepseekV4ForCausalLM "
    "DeepseekVLV2ForCausalLM HYV3ForCausalLM MetaMoeForConditionalGeneration "
    "InternS2PreviewForConditionalGeneration InternS2MobiusForConditionalGeneration "
    "Qwen3OmniMoeForConditionalGeneration CogVLMForCausalLM InternVLChatModel Phi3VForCausalLM "
    "PhiMoEForCausalLM MiniCPM3ForCausalLM MiniCPMV SDARForCausalLM SDARMoeForCausalLM ";

// those of ONNX Runtime GenAI's builder that were looked at, by
// onnxruntime_genai/models/builder.py of 0.18
const char ort_genai_classes[] =
    " LlamaForCausalLM SmolLM3ForCausalLM NemotronForCausalLM Ernie4_5ForCausalLM "
    "GemmaForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM Gemma3ForConditionalGeneration "
    "GptOssForCausalLM GraniteForCausalLM GraniteMoeHybridForCausalLM HunYuanDenseV1ForCausalLM "
    "Lfm2ForCausalLM Lfm2MoeForCausalLM MistralForCausalLM Mistral3ForConditionalGeneration "
    "OlmoForCausalLM PhiForCausalLM Phi3ForCausalLM Qwen2ForCausalLM "
    "Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM Qwen3VLForConditionalGeneration "
    "Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration ";

// its others
const char ort_genai_unverified[] =
    " ChatGLMForConditionalGeneration ChatGLMModel Gemma4ForConditionalGeneration "
    "Gemma4UnifiedForConditionalGeneration InternLM2ForCausalLM Lfm2VlForConditionalGeneration "
    "Lfm2AudioForConditionalGeneration PhiMoEForCausalLM Phi3SmallForCausalLM Phi3VForCausalLM "
    "Phi4MMForCausalLM VideoChatFlashQwenForCausalLM WhisperForConditionalGeneration ";

// of its classes those that read llama3 alone
const char ort_genai_llama3_alone[] =
    " LlamaForCausalLM SmolLM3ForCausalLM NemotronForCausalLM ";

// and alpha alone
const char ort_genai_alpha_alone[] =
    " HunYuanDenseV1ForCausalLM ";

// those of Ollama's converter that were looked at, of August 2026
const char ollama_classes[] =
    " LlamaForCausalLM Qwen2ForCausalLM Qwen3ForCausalLM ";

// of them the one that reads llama3 and linear
const char ollama_of_llama[] =
    " LlamaForCausalLM ";

// wrappers that ExLlamaV2 knows, by exllamav2/architecture.py of 0.3.2
const char exllamav2_wrappers[] =
    " LlavaForConditionalGeneration Mistral3ForConditionalGeneration "
    "Gemma3ForConditionalGeneration Qwen2VLForConditionalGeneration "
    "Qwen2_5_VLForConditionalGeneration ";

// of them the one whose sliding layers have a base of their own
const char exllamav2_of_two_bases[] =
    " Gemma3ForConditionalGeneration ";

// model types that transformers knows from 5.8 on, later than the text model's family, by its
// own tables
const char hf5_types_of_5_8[] =
    " exaone4_5 ";

// and from 5.10 on
const char hf5_types_of_5_10[] =
    " gemma4_unified gemma4_unified_text ";

// wrappers that transformers 4 has no class for, though it has one for the text model
const char hf4_types_unknown[] =
    " kimi_k25 ";

// wrappers that MLX-LM has no class for under this name, though it has one for the text model
const char mlx_types_unknown[] =
    " lfm2_vl ";

// wrappers that ExLlamaV3 has no class for, though it has one for the text model
const char exllamav3_types_unknown[] =
    " kimi_k25 qwen2_vl ";

// model types whose class in MLX-LM 0.32 stops without a rope_theta
const char mlx_needs_theta[] =
    " apertus bailing_hybrid dots1 ernie4_5 ernie4_5_moe exaone4 gemma3n_text glm4 glm4_moe "
    "granite granitemoe helium kimi_linear llama4_text mimo_v2_flash minimax minimax_m2 olmo3 "
    "qwen3_moe qwen3_next qwen3_vl_moe_text recurrent_gemma solar_open stablelm ";

// model types whose class in MLX-LM 0.32 stops without a max_position_embeddings
const char mlx_needs_most[] =
    " apertus bailing_hybrid dots1 ernie4_5 ernie4_5_moe exaone4 exaone_moe gemma3n_text "
    "glm4_moe glm_moe_dsa granite granitemoe granitemoehybrid helium jamba lfm2 lfm2_moe mellum "
    "mimo_v2_flash minicpm3 minimax minimax_m2 mistral4 nemotron_h olmo3 olmo_hybrid qwen3 "
    "qwen3_moe qwen3_next qwen3_vl_moe_text qwen3_vl_text solar_open ";

// model types whose class in MLX-LM 0.32 stops without a head_dim
const char mlx_needs_head[] =
    " bailing_hybrid ernie4_5 exaone4 exaone_moe gemma gemma2 gemma3n_text glm glm4 glm4_moe "
    "helium kimi_linear llama4_text mamba2 mellum mimo_v2_flash qwen3 qwen3_moe qwen3_next "
    "qwen3_vl_moe_text qwen3_vl_text seed_oss solar_open step3p5 ";

// model types whose class in MLX-LM 0.32 stops without a partial_rotary_factor
const char mlx_needs_share[] =
    " glm4 glm4_moe mimo_v2_flash qwen3_next solar_open stablelm ";

// model types whose class in MLX-LM 0.32 stops without a rope_scaling
const char mlx_needs_scaling[] =
    " exaone4 glm4_moe ";
