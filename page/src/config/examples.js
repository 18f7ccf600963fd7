// Configs to try: one click puts them where one's own would be pasted.
export const EXAMPLES = {
    'Llama 3.1': {
        model_type: 'llama',
        hidden_size: 4096,
        num_attention_heads: 32,
        max_position_embeddings: 131072,
        rope_theta: 500000,
        rope_scaling: {
            rope_type: 'llama3',
            factor: 8,
            low_freq_factor: 1,
            high_freq_factor: 4,
            original_max_position_embeddings: 8192,
        },
    },
    'Qwen2.5 + YaRN': {
        model_type: 'qwen2',
        hidden_size: 3584,
        num_attention_heads: 28,
        max_position_embeddings: 32768,
        rope_theta: 1000000,
        rope_scaling: { type: 'yarn', factor: 4, original_max_position_embeddings: 32768 },
    },
    'Llama 2, no block': {
        model_type: 'llama',
        hidden_size: 4096,
        num_attention_heads: 32,
        max_position_embeddings: 4096,
    },
    'a bare block': { rope_type: 'linear', factor: 4 },
};
