// Options of other programs, and the option to type here instead: a row each.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../base/names.h"
#include "options.h"

// Options of llama.cpp, llama2.c's relatives, ollama, koboldcpp, text-generation-webui, exllamav2,
// Hugging Face, vLLM, SGLang and mlx-lm, in lower case with - for _, and the option here.
static const struct {
    const char *theirs, *ours;
} counterparts[] = {
    // Sampling.
    {"--temperature", "-t"},
    {"--temp", "-t"},
    {"-temp", "-t"},
    {"--top-p", "-p"},
    {"--top-k", "-k"},
    {"--minp", "--min-p"},
    {"--seed", "-s"},
    // Lengths.
    {"--steps", "-n"},
    {"--n-predict", "-n"},
    {"--predict", "-n"},
    {"--num-predict", "-n"},
    {"--ctx-size", "-n"},
    {"-c", "-n"},
    {"-l", "-n"},
    {"--length", "-n"},
    {"--ctx", "-n"},
    {"--n-ctx", "-n"},
    {"--num-ctx", "-n"},
    {"--contextsize", "-n"},
    {"--context-length", "-n"},
    {"--context-size", "-n"},
    {"--context", "-n"},
    {"--max-tokens", "-n"},
    {"--max-new-tokens", "-n"},
    {"--max-length", "-n"},
    {"--max-seq-len", "-n"},
    {"--max-kv-size", "-n"},
    {"--max-model-len", "-n"},
    {"--model-max-length", "-n"},
    {"--max-position-embeddings", "-n"},
    // Prompts and chats.
    {"--prompt", "-i"},
    {"--file", "-f"},
    {"--prompt-file", "-f"},
    {"--chat", "-m chat"},
    {"--conversation", "-m chat"},
    {"--interactive", "-m chat"},
    {"--interactive-first", "-m chat"},
    {"--instruct", "-m chat"},
    {"-ins", "-m chat"},
    {"-cnv", "-m chat"},
    {"-st", "-m chat"},
    {"--single-turn", "-m chat"},
    {"--no-conversation", "-m generate"},
    {"-no-cnv", "-m generate"},
    {"--system-prompt", "-y"},
    {"--system", "-y"},
    {"-sys", "-y"},
    {"--system-prompt-file", "-y \"$(cat FILE)\""},
    {"-sysf", "-y \"$(cat FILE)\""},
    {"--think", "--thinking"},
    {"--enable-thinking", "--thinking"},
    {"--reasoning-budget", "--thinking off"},
    {"--no-eos", "--ignore-eos"},
    {"--tokenizer", "-z"},
    {"--tokenizer-path", "-z"},
    // The model.
    // The machine.
    {"--n-threads", "--threads"},
    {"--num-thread", "--threads"},
    {"--threads-batch", "--threads"},
    {"-tb", "--threads"},
    // The cache.
    {"--cache-type-k", "--kv"},
    {"--cache-type-v", "--kv"},
    {"-ctk", "--kv"},
    {"-ctv", "--kv"},
    {"--cache-mode", "--kv"},
    {"--quantkv", "--kv"},
    {"--kv-cache-dtype", "--kv"},
    {"--cache-4bit", "--kv q4"},
    {"--cache-8bit", "--kv q8"},
    // RoPE.
    {"--rope-scaling", "--rope"},
    {"--rope-scaling-type", "--rope"},
    {"--rope-type", "--rope"},
    {"--rope-scale", "--factor"},
    {"--rope-scaling-factor", "--factor"},
    {"-rs", "--factor"},
    {"--scaling-factor", "--factor"},
    {"--compress-pos-emb", "--factor"},
    {"--rope-freq-scale", "--factor"},
    {"--alpha-value", "--rope ntk --factor"},
    {"--rope-alpha", "--rope ntk --factor"},
    {"--alpha", "--rope ntk --factor"},
    {"-ra", "--rope ntk --factor"},
    {"--rope-freq-base", "--theta"},
    {"--rope-base", "--theta"},
    {"--rope-theta", "--theta"},
    {"--yarn-orig-ctx", "--train-ctx"},
    {"--original-max-position-embeddings", "--train-ctx"},
    {"--yarn-attn-factor", "--attention-factor"},
    {"--yarn-ext-factor", "--rope yarn"},
    {"--yarn-beta-fast", "--beta-fast"},
    {"--yarn-beta-slow", "--beta-slow"},
    {"--grp-attn-n", "--group"},
    {"-gan", "--group"},
    {"--grp-attn-w", "--near"},
    {"-gaw", "--near"},
    {"--sliding-window", "--window"},
    {"--hf-overrides", "--rope-config"},
    {"--json-model-override-args", "--rope-config"},
    {"--model-config", "--rope-config"},
    // Measurements.
    {"--perplexity", "--ppl"},
    {"--ppl-stride", "--samples"},
    {"--chunks", "--samples"},
    {"--benchmark", "--bench"},
    {"--hellaswag", "--tasks"},
    {"--num-fewshot", "--tasks"},
    {"--quantize-output-tensor", "--quantize"},
};

// Options without a counterpart, by the reason.
static const struct {
    const char *why, *theirs;
} without_counterpart[] = {
    {"there are no penalties: sampling has -t, -p, -k, --min-p",
     "--typical --typical-p --tfs --repeat-penalty --repetition-penalty --repeat-"
     "last-n --presence-penalty --frequency-penalty --mirostat --mirostat-lr "
     "--mirostat-ent --dry-multiplier --xtc-probability --samplers --logit-bias"},
    {"one token is sampled at a time: -t 0 takes the likeliest",
     "--do-sample --num-beams --best-of --draft --draft-max --model-draft -md "
     "--speculative-model"},
    {"there are no grammars; --json prints tables",
     "--grammar --grammar-file --json-schema -j --format"},
    {"a text is never shifted; -n is its longest length",
     "--context-shift --no-context-shift --ctx-shift --smartcontext --keep"},
    {"thoughts are part of the text; --thinking off leaves them out",
     "--hidethinking --reasoning-format"},
    {"the turns of a chat follow from the tokenizer",
     "--chat-template --chat-template-file --jinja --no-jinja --in-prefix --in-suffix "
     "--reverse-prompt -r"},
    {"a text ends at its end token; --ignore-eos goes on past it", "--stop"},
    {"the shell writes newlines: -i $'one\\ntwo'", "--escape -e"},
    {"in a chat, lines between \"\"\" and \"\"\" are one message", "--multiline-input -mli"},
    {"the model file follows no option",
     "--model --model-path --model-dir --model-name-or-path --served-model-name"},
    {"downloads are not supported: give a GGUF file or a checkpoint's folder, without an option",
     "--hf-repo --hf-file -hf -hfr --model-url -mu --download-dir --revision"},
    {"code in a model's files is never executed", "--trust-remote-code"},
    {"only texts, of one model with its adapters merged",
     "--lora --lora-scaled --adapter-path --control-vector --mmproj --image "
     "--embedding --embeddings --rerank"},
    {"types come from the file; --quantize writes other ones",
     "--dtype --torch-dtype --quantization --load-in-4bit --load-in-8bit --loader "
     "--load-format --config-format"},
    {"no GPU is used: the processor does all",
     "-ngl --gpu-layers --gpulayers --n-gpu-layers --num-gpu --gpu-split -gs --gpu "
     "--gpus --device -dev --device-map --cpu --usecpu --cuda --usecublas --usecuda "
     "--usevulkan --main-gpu -mg --split-mode -sm --tensor-split -ts --tensor-"
     "parallel-size -tp --tp --tp-size --pipeline-parallel-size --gpu-memory-"
     "utilization --mem-fraction-static --override-tensor -ot --cpu-moe --n-cpu-moe "
     "--no-kv-offload -nkvo --enforce-eager"},
    {"model files are mapped, and memory is checked before it is used",
     "--swap-space --no-mmap --mmap --mlock --numa --fit"},
    {"one text at a time is processed, in chunks of 512 tokens",
     "--batch-size -b --ubatch-size -ub --blasbatchsize --parallel -np --max-num-seqs "
     "--max-num-batched-tokens --cont-batching -cb --enable-prefix-caching"},
    {"attention is computed the fastest way by itself",
     "--flash-attn -fa --flashattention --attn-implementation --attention-backend "
     "--warmup --no-warmup"},
    {"this is not a server", "--host --port --api-key --keepalive --keep-alive --launch "
                             "--insecure"},
    {"status goes to standard error, and 2> /dev/null hides it",
     "--color --verbose -v --log-disable --log-file --no-display-prompt --no-perf "
     "--simple-io --nowordwrap"},
    {"the windows are the model's; --window W gives all layers another", "--swa-full"},
};

// The options here for the keys of a GGUF file's header, as in llama.cpp's --override-kv
// KEY=TYPE:VALUE.
static const struct {
    const char *key, *ours;
} gguf_keys[] = {
    {"rope.freq_base", "--theta"},
    {"rope.scaling.factor", "--factor"},
    {"rope.scale_linear", "--factor"},
    {"rope.scaling.original_context_length", "--train-ctx"},
    {"rope.scaling.attn_factor", "--attention-factor"},
    {"rope.scaling.type", "--rope"},
    {"sliding_window", "--window"},
    {"context_length", "-n"},
};

// Writes the option, with its value, that corresponds to --override-kv with this value; "" if there
// is none.
static void override_here(const char *value, char *ours, size_t size) {
    const char *colon = strrchr(value, ':');
    ours[0] = '\0';
    for (size_t i = 0; i < sizeof gguf_keys / sizeof gguf_keys[0] && !ours[0]; i++)
        if (strstr(value, gguf_keys[i].key))
            snprintf(ours, size, "%s %.30s", gguf_keys[i].ours, colon ? colon + 1 : "");
}

// Whether a word is a positive number, which is then stored in *x.
static bool is_positive(const char *word, double *x) {
    char *end;
    *x = word ? strtod(word, &end) : 0;
    return *x > 0 && *x < 1e9 && !*end;
}

// Whether a word is one of the names between spaces. Case matters in names of one or two letters,
// as in ours.
static bool names_word(const char *names, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = names; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
        const bool is_long = at[1] == '-';
        if (strcspn(at, " ") != n) continue;
        if ((is_long ? strncasecmp(at, word, n) : strncmp(at, word, n)) == 0) return true;
    }
    return false;
}

// Writes the option for a RoPE setting whose value has to be computed: llama.cpp's frequency scale
// is the reciprocal of ours, and koboldcpp has the scale and the base in one option. False: it is
// neither.
static bool work_out(const char *name, const char *value, const char *second, char *ours,
                     size_t size) {
    double x, theta;
    const bool is_both = names_word("--ropeconfig", name);
    if (!is_both && !names_word("--rope-freq-scale", name)) return false;
    if (!is_positive(value, &x)) return false;
    int n = snprintf(ours, size, "--factor %.6g", 1 / x);
    if (is_both && is_positive(second, &theta))
        snprintf(ours + n, size - (size_t)n, " --theta %.10g", theta);
    return true;
}

bool fail_no_option(char **option, const char *nearest, Error *err) {
    enum { N_PAIRS = sizeof counterparts / sizeof counterparts[0] };
    enum { N_REASONS = sizeof without_counterpart / sizeof without_counterpart[0] };
    const char *word = option[0];
    const char *equals = strchr(word, '=');
    const char *value = equals ? equals + 1 : option[1];
    const char *second = value && !equals ? option[2] : NULL;
    char name[40], ours[80];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    if (names_word("--override-kv", name)) {
        override_here(value ? value : "", ours, sizeof ours);
        return fail_unknown(err, "there is no option", word, ours,
                            "settings of RoPE are options, or a block of --rope-config");
    }
    for (int i = 0; i < N_REASONS; i++)
        if (names_word(without_counterpart[i].theirs, name))
            return fail(err, "there is no option '%.100s' (%s)", word, without_counterpart[i].why);
    for (int i = 0; i < N_PAIRS; i++)
        if (names_word(counterparts[i].theirs, name)) nearest = counterparts[i].ours;
    if (work_out(name, value, second, ours, sizeof ours)) nearest = ours;
    return fail_unknown(err, "there is no option", word, nearest, "see --help");
}
