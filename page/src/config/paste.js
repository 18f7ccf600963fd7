// What a config promises, and the block to paste elsewhere: the file's own where nothing better can be had.
import { count } from '../dom.js';

// What is pasted, as JSON; null where it is none.
function parsed(pasted) {
    try {
        return JSON.parse(pasted);
    } catch {
        return null;
    }
}

// The rope block of a config, and whether it is all of what was pasted; null without one, or where this is no JSON.
function ropeBlock(pasted) {
    const all = parsed(pasted),
        text = all?.text_config ?? all;
    return text?.rope_parameters ?? text?.rope_scaling ?? (isBare(pasted) ? text : null);
}
const isBare = (pasted) => {
    const { rope_type, type } = parsed(pasted) ?? {};
    return typeof (rope_type ?? type) === 'string';
};

// The same block as it is written, laid out anew, its numbers to the letter: some engines take 4 and 4.0 for two things.
function blockAsWritten(pasted) {
    const tokens = pasted.match(/"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g) ?? [],
        at = isBare(pasted) ? 0 : 2 + tokens.findLastIndex((one, i) => /^"rope_(parameters|scaling)"$/.test(one) && tokens[i + 2] === '{');
    const lines = [];
    let line = '',
        depth = 0;
    const end = () => {
        lines.push(line);
        line = ' '.repeat(Math.max(0, depth));
    };
    for (const token of tokens.slice(at)) {
        if (token === '}') {
            depth--;
            end();
        }
        line += token === ':' ? ': ' : token;
        if (token === '}' && depth === 0) break;
        if (token === '{') {
            depth++;
            end();
        }
        const isInList = /\[[^\]]*$/.test(line);
        if (token === ',' && isInList) line += ' ';
        if (token === ',' && !isInList) end();
    }
    return [...lines, line];
}

// Does it say how long the model was trained before anything was scaled?
export function hasOriginal(pasted) {
    const block = ropeBlock(pasted);
    return !!block && 'original_max_position_embeddings' in block;
}

// A bare block, or `"rope_scaling": {...}` alone, that says how long a model was trained before it was scaled does not say how
// long it is served, which some engines go by. With that number beside it, it does.
const wholeOf = (pasted) => (/^\s*"rope_(scaling|parameters)"\s*:/.test(pasted) ? `{${pasted.trim().replace(/,$/, '')}}` : pasted);
export function lacksServed(pasted) {
    const all = parsed(wholeOf(pasted)) ?? {};
    return !['max_position_embeddings', 'model_type', 'hidden_size'].some((key) => key in all) && hasOriginal(wholeOf(pasted));
}
export function withServed(pasted, positions) {
    const number = `"max_position_embeddings": ${positions}`;
    return isBare(pasted) ? `{${number}, "rope_scaling": ${pasted.trim()}}` : wholeOf(pasted).replace('{', `{${number}, `);
}

// How many positions a config promises: its max_position_embeddings, or, where these are the ones of training, so many
// times the factor, unless they count it already.
export function promiseOf({ maxPositions, trainedContext, factor, countsFactor }) {
    if (maxPositions > trainedContext) return maxPositions;
    return maxPositions && countsFactor ? maxPositions : trainedContext * Math.max(1, factor);
}

/**
 * The block to paste: what --rope-json says, or the file's own block where that is read by more engines, or where the
 * other promises more positions than the file. `pasted` is empty where another method was chosen.
 * @param {string[]} published
 * @param {string} pasted
 * @param {{ maxPositions: number, trainedContext: number, factor: number, countsFactor: boolean }} told
 * @param {number} alike engines that read the file as it is meant
 * @returns {{ lines: string[], words: string, isOwn: boolean }}
 */
export function blockToPaste(published, pasted, told, alike) {
    const own = ropeBlock(pasted),
        said = published.join('\n'),
        [, readers] = said.match(/so (\d+) of \d+ engines/) ?? [],
        [, reach] = said.match(/max_position_embeddings (\d+);/) ?? [];
    const isFewer = +readers < alike,
        isMore = +reach > promiseOf(told);
    if (!own || !(isFewer || isMore)) return { lines: published, words: '', isOwn: false };
    const reaches = told.trainedContext * Math.max(1, told.factor),
        isShort = told.maxPositions > 0 && told.maxPositions < reaches && hasOriginal(pasted),
        change = isShort
            ? `only max_position_embeddings has to be raised, to ${count(reaches)}`
            : 'nothing needs to be changed';
    const why = isFewer
        ? `${alike} engines read it as it is meant, and another spelling would be read by ${readers}.`
        : isShort
          ? 'Its factor reaches that far.'
          : 'It says the length that the file promises.';
    return {
        lines: blockAsWritten(pasted),
        words: `This is the file's own block: ${change}. ${why}`,
        isOwn: true,
    };
}

// Where latent attention's scores are multiplied besides, as DeepSeek's are: by how much; 1 where they are not. After
// DeepseekV3Attention of Hugging Face's transformers.
export function scoresOf(pasted) {
    const all = parsed(pasted) ?? {},
        text = all.text_config ?? all,
        { factor = 1, mscale_all_dim: grows = 0 } = ropeBlock(pasted) ?? {};
    return text.qk_rope_head_dim && grows && factor > 1 ? (0.1 * grows * Math.log(factor) + 1) ** 2 : 1;
}

// ---- lines of a command ----

// What llama.cpp's programs call a key of a block.
const LLAMA_CPP = {
    '--rope-scaling': ['rope_type', (word) => `"${word}"`],
    '--rope-scale': ['factor'],
    '--rope-freq-scale': ['factor', (word) => String(1 / +word)],
    '--rope-freq-base': ['rope_theta'],
    '--yarn-orig-ctx': ['original_max_position_embeddings'],
    '--yarn-beta-fast': ['beta_fast'],
    '--yarn-beta-slow': ['beta_slow'],
    '--yarn-attn-factor': ['attention_factor'],
};
const LENGTHS = /(?:^|\s)(?:-c|--ctx-size|--max-model-len|--context-length)[ =](\d+)/;

// The block that llama-server's options come to; '' where they say nothing of RoPE.
function blockOfOptions(words) {
    const members = [];
    for (const [option, [key, write = String]] of Object.entries(LLAMA_CPP)) {
        const [, value] = words.match(new RegExp(`(?:^|\\s)${option}[ =]([\\w.+-]+)`)) ?? [];
        if (value !== undefined) members.push(`"${key}": ${write(value)}`);
    }
    return members.length ? `{${members.join(', ')}}` : '';
}

/**
 * A config in the line of a command: `vllm serve MODEL --hf-overrides '{...}'`, `llama-server --rope-scaling yarn ...`; of
 * anything else the same words. `length` is what the line asks for, 0: nothing.
 * @param {string} words
 */
export function configIn(words) {
    const length = +(words.match(LENGTHS)?.[1] ?? 0),
        [, found] = words.match(/^\s*[\w.$/-]+ [^{]*?['"]?(\{[^]*\})['"]?/) ?? [];
    if (found && parsed(found)) return { json: found, length };
    const block = /^\s*[^{]/.test(words) && !words.includes('{') ? blockOfOptions(words) : '';
    return block ? { json: block, length } : { json: words, length: 0 };
}
