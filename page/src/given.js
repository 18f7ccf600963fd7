// Files that the reader drops anywhere on the page, or picks in a panel. Each is taken for what its first bytes say it is
// and goes to the panel that can use it; of any other it is said what it is, and what would do.
import { h } from './dom.js';
import { note } from './note.js';

export const MOST_BYTES = 500e6; // of a model: a page's program may have 2 GB, for weights and for caches of what it reads
const MOST_TEXT = 8e6, // bytes of a config or a text
    LOOKED_AT = 4096; // bytes that tell what a file is

export const mb = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;

// Who takes what: functions of the panels that are there. model(file, tokenizer), config(text, name), text(text, name).
/** @type {Record<string, (...given: any[]) => any>} */
const takers = {};
export const takes = (kind, taker) => {
    takers[kind] = taker;
};

const JSON_OF_OTHERS = /^(tokenizer|tokenizer_config|generation_config|special_tokens_map|vocab|added_tokens)\.json$/,
    INDEX = /\.index\.json$/;

// Is this a text of people: UTF-8 without control characters?
function isText(bytes) {
    if (bytes.some((byte) => byte < 9 || (byte > 13 && byte < 32))) return false;
    try {
        new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
        return true;
    } catch {
        return false;
    }
}

// What a file is: model, tokenizer, config, text; or a kind that the page cannot use, for `otherwise`.
async function kindOf(file) {
    const bytes = new Uint8Array(await file.slice(0, LOOKED_AT).arrayBuffer()),
        begins = String.fromCharCode(...bytes.subarray(0, 4));
    if (begins === 'GGUF' || /\.gguf$/i.test(file.name)) return 'gguf';
    if (begins === 'PK\x03\x04' || /\.(pt|pth)$/i.test(file.name)) return 'pytorch';
    if (bytes[0] === 0x80 && bytes[1] < 6 && bytes[3]) return 'pytorch';
    if (/\.safetensors$/i.test(file.name)) return 'safetensors';
    if (bytes[8] === 0x7b && bytes.subarray(4, 8).every((byte) => byte === 0)) return 'safetensors';
    if (JSON_OF_OTHERS.test(file.name) || INDEX.test(file.name)) return 'other json';
    if (/\.json$/i.test(file.name)) return 'config';
    if (/tokenizer[^/]*\.bin$/i.test(file.name)) return 'tokenizer';
    if (/\.bin$/i.test(file.name)) return 'model';
    if (file.size === 0) return 'empty';
    if (!isText(bytes)) return 'unknown';
    return /^\s*[{"]\s*["\w]/.test(new TextDecoder().decode(bytes)) ? 'config' : 'text';
}

// What to do with a file that the page cannot use itself. `folder` is where the file lies, if that is known.
function otherwise(kind, { name }, folder = 'FOLDER') {
    const source = kind === 'gguf' ? name : folder,
        made = kind === 'gguf' ? name.replace(/\.gguf$/i, '') : folder === 'FOLDER' ? 'model' : folder;
    const bring = `At a terminal, python3 model_export.py '${source}' '${made}.bin' makes one of it`;
    const needs = 'This page runs .bin files of rope.c and llama2.c.';
    return {
        gguf: `${name} is a GGUF file. ${needs} ${bring}.`,
        pytorch: `${name} has a checkpoint's weights as PyTorch saves them. ${needs} ${bring}, with its config.json beside it.`,
        safetensors: `${name} has a checkpoint's weights as safetensors. ${needs} ${bring}, with its config.json beside it.`,
        'other json': `${name} does not have the settings of RoPE. The checkpoint's config.json has them: drop that.`,
        empty: `${name} is empty.`,
        unknown: `${name} is nothing that this page knows. It takes a config.json, a .bin file of rope.c or llama2.c with its tokenizer, and texts.`,
    }[kind];
}

const listed = (files) => files.map((file) => file.name).join(' and ');

// Gives files to the panels that take them; throws what is wrong with the first that nobody can take. `folder` is the
// name of the folder in which they lie, if one was dropped: what of it is of no use is then nobody's mistake.
async function give(files, folder) {
    const of = {};
    for (const file of files) (of[await kindOf(file)] ??= []).push(file);
    const { model = [], tokenizer = [], text = [] } = of,
        named = (of.config ?? []).filter((file) => file.name === 'config.json'),
        config = named.length === 1 ? named : (of.config ?? []);
    const weights = ['gguf', 'pytorch', 'safetensors'].flatMap((kind) => (of[kind] ?? []).map((file) => [kind, file]));
    const odd = ['other json', 'empty', 'unknown'].flatMap((kind) => (of[kind] ?? []).map((file) => [kind, file]));
    for (const [what, some] of Object.entries({ models: model, tokenizers: tokenizer, configs: config, texts: text }))
        if (some.length > 1 && !(folder && what === 'texts'))
            throw new Error(`${listed(some)} are ${some.length} ${what}: one at a time.`);
    if (tokenizer.length && !model.length && !folder)
        throw new Error(`${tokenizer[0].name} is a tokenizer: drop it together with its model.`);
    for (const file of [...config, ...(folder ? [] : text)])
        if (file.size > MOST_TEXT)
            throw new Error(`${file.name} has ${mb(file.size)}; the page reads ${mb(MOST_TEXT)} of text.`);
    if (config.length) takers.config(await config[0].text(), config[0].name);
    if (model.length) await takers.model(model[0], tokenizer[0]);
    if (text.length && !folder) takers.text(await text[0].text(), text[0].name);
    if (weights.length) {
        const read = config.length ? `Its config.json is read${document.getElementById('yours') ? ', in chapter 6' : ''}. ` : '';
        throw new Error(read + otherwise(...weights[0], folder));
    }
    if (odd.length && !folder) throw new Error(otherwise(...odd[0]));
    if (folder && !config.length && !model.length)
        throw new Error(`${folder} is a folder with neither a config.json nor a model in it.`);
}

/**
 * Takes files, and says what is wrong with them where the reader looks.
 * @param {File[]} files
 * @param {{ folder?: string, say?: (words: string, bad?: boolean) => void }} [how]
 */
export async function take(files, { folder, say = note } = {}) {
    try {
        say(''); // of the files before
        await give(files, folder);
    } catch (error) {
        if (!error.isCancelled) say(error.message, true);
    }
}

// ---- what is dropped ----

const hasFiles = (event) => [...event.dataTransfer.types].includes('Files');

// The files of a folder, without those in folders of its own.
async function filesOf(entry) {
    const reader = entry.createReader(),
        files = [];
    for (let some; (some = await new Promise((yes, no) => reader.readEntries(yes, no))).length;)
        for (const one of some) if (one.isFile) files.push(await new Promise((yes, no) => one.file(yes, no)));
    return files;
}

const veil = h('div.veil', { hidden: true }, h('p', 'Drop a config.json, a model, or a text'));
document.body.append(veil);
addEventListener('dragover', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    veil.hidden = false;
});
addEventListener('dragleave', (event) => {
    if (!event.relatedTarget) veil.hidden = true;
});
addEventListener('drop', async (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    veil.hidden = true;
    const files = [...event.dataTransfer.files],
        entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()),
        folder = entries.find((entry) => entry?.isDirectory);
    if (!folder) return void take(files);
    if (entries.length > 1) return note('One folder at a time, and no files beside it.', true);
    try {
        await take(await filesOf(folder), { folder: folder.name });
    } catch (error) {
        note(`${folder.name} cannot be read: ${error.message}`, true);
    }
});
