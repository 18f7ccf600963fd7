// Engines by their names for people.
const NAMES = {
    hf5: 'Hugging Face 5',
    hf4: 'Hugging Face 4',
    vllm: 'vLLM',
    sglang: 'SGLang',
    'mlx-lm': 'MLX-LM',
    exllamav3: 'ExLlamaV3',
    exllamav2: 'ExLlamaV2',
};

/** @param {{ engine: string }} row */
export const nameOf = ({ engine }) => NAMES[engine] ?? engine;
