// The worker: everything that needs a model runs here, in steps of some milliseconds, so that several texts grow side
// by side and a new wish is heard at once. A message is { job, wish, ... }; answers are { job, part }, { job, done } or
// { job, error }.
import { build, fit, MAX_ANSWER } from './haystack.js';
import { loadRope, Refusal } from './rope.js';

const STEP_MS = 12; // work between two looks at the messages
const CHUNK = 64; // positions that are read at a time
const STEPS = 8; // tokens, where each is a step

const pages = {}; // by name: 'model', 'model-8k', or a file's
const jobs = new Map(); // running, by number: { cancelled, paused }
let rope;

// Lets messages in when the last time is some milliseconds ago.
const channel = new MessageChannel();
let waiting = [],
    last = 0;
channel.port1.onmessage = () => {
    const all = waiting;
    waiting = [];
    last = performance.now();
    for (const resume of all) resume();
};
function breathe() {
    return new Promise((resume) => {
        waiting.push(resume);
        if (waiting.length === 1) channel.port2.postMessage(0);
    });
}
class Cancelled extends Error {}
// Between two steps of a job.
async function rest(job, force) {
    if (force || performance.now() - last > STEP_MS) await breathe();
    while (job.paused && !job.cancelled)
        await new Promise((resume) => {
            job.resume = resume;
        });
    if (job.cancelled) throw new Cancelled();
}

function page(name) {
    if (!pages[name]) throw new Refusal(`${name} has not been opened`);
    return pages[name];
}

// Tokens as the text they stand for: the pieces of a stream, whole characters at a time.
function speller(m) {
    const decoder = new TextDecoder();
    let previous = -1;
    return (id) => {
        const text = decoder.decode(m.piece(previous, id), { stream: true });
        previous = id;
        return text;
    };
}

// Reads ids behind what was read, the last of them with its logits, a chunk at a time.
async function readPrompt(job, reader, ids, length, report) {
    for (let at = 0; at < ids.length; at += CHUNK) {
        const chunk = ids.subarray(at, at + CHUNK);
        reader.read(chunk, length, at + CHUNK >= ids.length ? 1 : 0);
        report?.(Math.min(ids.length, at + CHUNK));
        await rest(job);
    }
}

// Where a head of the last token looks: { layer, head, scores, share, keys }, its share for positions [from, to), and the
// positions that it gives most, [position, weight].
function looks(reader, id, n, [from, to], { layer, head }) {
    reader.rewind(n - 1);
    const scores = reader.scores(layer, head, id, n),
        max = scores.reduce((a, b) => Math.max(a, b)),
        weights = scores.map((s) => Math.exp(s - max)),
        sum = weights.reduce((a, b) => a + b);
    const share = weights.subarray(from, to).reduce((a, b) => a + b, 0) / sum;
    const keys = Array.from(weights, (w, i) => [i, w / sum])
        .sort((a, b) => b[1] - a[1])
        .slice(0, 12);
    return { layer, head, scores, share, keys };
}

// The head of a model that searches: the one that looks at a key most where every distance is one of training and nothing
// is slowed. It is the same for all texts and methods, so that pictures of it can be compared.
async function searcher(job, m) {
    if (m.searcher) return m.searcher;
    const { layers, heads, trainedContext: length } = m.facts(),
        { ids, place } = hidden(m, { length, depth: 0.25, key: '73914' }),
        reader = m.open('none', Math.max(ids.length, length));
    try {
        await readPrompt(job, reader, ids, ids.length);
        let best = { share: -1 };
        for (let i = 0; i < layers * heads; i++) {
            const one = { layer: Math.floor(i / heads), head: i % heads },
                { share } = looks(reader, ids.at(-1), ids.length, place, one);
            if (share > best.share) best = { ...one, share };
        }
        return (m.searcher = best);
    } finally {
        reader.close();
    }
}

/**
 * A key that is hidden: its text, and `place`, the positions of its sentences, [from, to).
 * @returns {{ text: string, ids: Int32Array, place: [number, number] }}
 */
function hidden(m, { length, depth, key }) {
    const [before, needle, behind] = haystack(m, length, depth, key),
        text = before + needle + behind;
    const end = (part) => m.encode(part, true).length;
    return { text, ids: m.encode(text, true), place: [end(before), end(before + needle)] };
}

// What a model answers behind its prompt, the likeliest token each time, up to as many characters as the key has.
async function answerTo(job, m, reader, asking, key, hear) {
    reader.sampler(0, 0, 1);
    const spell = speller(m);
    spell(asking);
    let answer = '';
    for (let i = 0; i < MAX_ANSWER && answer.trim().length < key.length; i++) {
        const { id } = reader.next();
        if (m.isEnd(id)) break;
        answer += spell(id);
        hear?.(answer.trim());
        reader.read([id], reader.position + 1, 1);
        await rest(job);
    }
    return answer.trim().slice(0, key.length);
}

// The likeliest next words, [{ text, p }]: where the likeliest token is a blank alone, what comes behind it.
function nextWords(m, reader, asking, many) {
    const spell = speller(m);
    spell(asking);
    const [first, ...others] = reader.likely(many),
        alone = spell(first.id) === ' ';
    if (alone) reader.read([first.id], reader.position + 1, 1);
    const before = alone ? first.id : asking,
        words = alone ? reader.likely(many).map(({ id, p }) => ({ id, p: p * first.p })) : [first, ...others];
    return words.map(({ id, p }) => ({ p, text: new TextDecoder().decode(m.piece(before, id)).trim() }));
}

// The text of the passkey task for so many positions, in parts: before the needle, the needle, behind it.
function haystack(m, length, depth, key) {
    const sentences = ((m.fits ??= {})[length] ??= fit(length, (text) => m.encode(text, true).length));
    if (sentences < 0)
        throw new Refusal(`${length} positions are too few for a haystack: the task's own text does not fit`);
    return build(sentences, depth, key);
}

const wishes = {
    // { wasm }: compiles the program.
    async start(job, { wasm }) {
        rope = await loadRope(wasm);
    },

    // { model, bytes, tokenizer }, each bytes or a file -> facts
    async open(job, { model, bytes, tokenizer }) {
        const read = async (file) => new Uint8Array(file instanceof Blob ? await file.arrayBuffer() : file);
        pages[model]?.close(); // two may be too many for the memory
        delete pages[model];
        // Two files may have one name; in a path a slash would be a folder.
        const named = (file, other) =>
                (file instanceof Blob && /** @type {File} */ (file).name?.replaceAll('/', '_')) || other,
            names = { model: named(bytes, 'model.bin'), tokenizer: named(tokenizer, 'tokenizer.bin') };
        if (names.model === names.tokenizer) names.tokenizer = `tokenizer of ${names.model}`;
        const opened = rope.openModel(await read(bytes), await read(tokenizer), names);
        pages[model] = opened;
        return pages[model].facts();
    },

    // { model, text, bos } -> { ids, pieces }
    async encode(job, { model, text, bos }) {
        const ids = page(model).encode(text, bos);
        const spell = speller(page(model));
        return { ids, pieces: Array.from(ids.subarray(0, 20000), spell) };
    },

    // { model, method, prompt, context, temperature, topP, seed, holdAt, judge } -> parts of { tokens: [{ id, text, nll,
    // given }], position }, of which so many are read: a prompt, and what the model goes on with, until the context is
    // full. -ln p of a token is that of another reader of the same text, by the method `judge`. At the first position
    // from holdAt on it says { held } and waits for a resume. Nothing is rounded: see Page.open.
    async write(
        job,
        { model, method, prompt, context, temperature, topP, seed, holdAt, judge: itsMethod = 'window' },
        part,
    ) {
        const m = page(model),
            ids = m.encode(prompt, true),
            spell = speller(m);
        if (ids.length > context)
            throw new Refusal(`the text has ${ids.length} tokens, and ${context} positions are all there are`);
        const reader = m.open(method, context, { floats: true }),
            judge = m.open(itsMethod, context);
        let told = ids[0], // the last token that the judge was told of
            tokens = [];
        // Tells what is new, when the judge has read it.
        const tell = () => {
            if (!tokens.length) return;
            const nlls = judge.score([told, ...tokens.map(({ id }) => id)], context);
            tokens.forEach((token, i) => (token.nll = nlls[i]));
            told = tokens.at(-1).id;
            part({ tokens, position: reader.position });
            tokens = [];
        };
        try {
            reader.sampler(temperature, topP, seed);
            await readPrompt(job, reader, ids, ids.length);
            part({ tokens: [{ id: told, text: spell(told), nll: 0, given: true }], position: 1 });
            for (let at = 1; at < ids.length; at += CHUNK) {
                tokens = Array.from(ids.subarray(at, at + CHUNK), (id) => ({
                    id,
                    text: spell(id),
                    nll: 0,
                    given: true,
                }));
                tell();
                await rest(job);
            }
            let sent = performance.now(),
                held = false;
            for (;;) {
                const { id } = reader.next(),
                    full = reader.position >= context;
                if (!held && reader.position >= holdAt) {
                    held = true;
                    tell();
                    part({ held });
                    job.paused = true;
                    await rest(job);
                }
                tokens.push({ id, text: m.isEnd(id) ? '' : spell(id), nll: 0, given: false });
                if (full || performance.now() - sent > 40) {
                    tell();
                    sent = performance.now();
                }
                if (full) return {};
                reader.read([id], reader.position + 1, 1);
                await rest(job);
            }
        } finally {
            reader.close();
            judge.close();
        }
    },

    // { model, method, ids or text, context } -> parts of { from, nll }: of a window that is read as one prompt, as
    // --ppl does: BOS, and context - 1 ids of the text. nll[0] is of position `from`.
    async nll(job, { model, method, text, ids, context }, part) {
        const m = page(model),
            all = text === undefined ? Int32Array.from(ids) : m.encode(text, true);
        const n = Math.min(all.length, context),
            window = all.subarray(0, n);
        if (n < 2) throw new Refusal('this text is too short: two tokens at least');
        const reader = m.open(method, n);
        try {
            for (let at = 0; at < n - 1; at += CHUNK) {
                part({ from: at + 1, nll: reader.score(window.subarray(at, Math.min(n, at + CHUNK + 1)), n) });
                await rest(job);
            }
        } finally {
            reader.close();
        }
        return { n };
    },

    // { model, method, ids or text, context, stale } -> parts of { from, nll }: the same token by token, as generation
    // reads, each at its own length; with stale keys as Hugging Face's generate does.
    async steps(job, { model, method, text, context, stale }, part) {
        const m = page(model),
            all = m.encode(text, true),
            n = Math.min(all.length, context),
            reader = m.open(method, n, { staleKeys: stale });
        try {
            for (let at = 0; at < n - 1; at += STEPS) {
                const end = Math.min(n - 1, at + STEPS),
                    nll = new Float64Array(end - at);
                for (let p = at; p < end; p++) nll[p - at] = reader.score(all.subarray(p, p + 2), p + 1)[0];
                part({ from: at + 1, nll });
                await rest(job);
            }
        } finally {
            reader.close();
        }
        return { n };
    },

    // { model, method, text, context } -> { n, heads: [[scores]] by layer and head }: what every head thinks of each
    // position when the text's last token asks.
    async scores(job, { model, method, text, context }, part) {
        const m = page(model),
            ids = m.encode(text, true).subarray(0, context),
            n = ids.length,
            { layers, heads } = m.facts();
        const reader = m.open(method, n);
        try {
            await readPrompt(job, reader, ids, n, (read) => part({ read, of: n }));
            const all = [];
            for (let layer = 0; layer < layers; layer++) {
                all.push([]);
                for (let head = 0; head < heads; head++) {
                    reader.rewind(n - 1);
                    all[layer].push(reader.scores(layer, head, ids[n - 1], n));
                }
                await rest(job);
            }
            return { n, heads: all };
        } finally {
            reader.close();
        }
    },

    // { model, method, text, context, windows, reads, seed } -> parts of what Page.search tells, then { lines }. Hears
    // nothing until it is over: for a worker of its own, see Engine.apart.
    async search(job, { model, ...wish }, part) {
        return { lines: page(model).search(wish, part) };
    },

    // { model, length, depth, key } -> { text }: what `hide` reads.
    async haystack(job, { model, length, depth, key }) {
        return { text: haystack(page(model), length, depth, key).join('') };
    },

    // { model, method, length, depth, key } -> { text, n, from, to, layer, head, scores, share, words, answer }: a key is
    // hidden and asked for. What the head that searches thinks of each position, where the key stands, which words are the
    // likeliest to come next, and what the model answers.
    async path(job, { model, method, length, depth, key }) {
        const m = page(model),
            head = await searcher(job, m),
            { text, ids, place } = hidden(m, { length, depth, key }),
            n = ids.length,
            asking = ids.at(-1),
            reader = m.open(method, Math.max(n, length) + MAX_ANSWER);
        try {
            await readPrompt(job, reader, ids, n);
            const words = nextWords(m, reader, asking, 6);
            const look = looks(reader, asking, n, place, head),
                answer = await answerTo(job, m, reader, asking, key);
            return { text, n, from: place[0], to: place[1], words, answer, ...look };
        } finally {
            reader.close();
        }
    },

    // { model, method, length, depth, key, context, looks } -> parts of { read, of }, { look } and { answer }, then
    // { answer, n, needle }: a key is hidden in `length` positions of filler and asked for. `needle` is where its first
    // token stands, `look` what the head that searches does: { layer, head, share, keys: [[position, weight]] }.
    async hide(job, { model, method, length, depth, key, context, looks: wanted }, part) {
        const m = page(model),
            head = wanted && (await searcher(job, m)),
            { ids, place } = hidden(m, { length, depth, key }),
            reader = m.open(method, Math.max(context, length));
        try {
            await readPrompt(job, reader, ids, ids.length, (read) => part({ read, of: ids.length }));
            if (head) part({ look: looks(reader, ids.at(-1), ids.length, place, head) });
            const answer = await answerTo(job, m, reader, ids.at(-1), key, (sofar) => part({ answer: sofar }));
            return { answer, n: ids.length, needle: place[0] };
        } finally {
            reader.close();
        }
    },
};

onmessage = async ({ data }) => {
    const { job: number, wish } = data;
    const known = jobs.get(number);
    if (wish === 'cancel' || wish === 'pause' || wish === 'resume') {
        if (!known) return;
        if (wish === 'cancel') known.cancelled = true;
        else known.paused = wish === 'pause';
        known.resume?.();
        return;
    }
    const job = { cancelled: false, paused: false };
    jobs.set(number, job);
    try {
        const done = await wishes[wish](job, data, (part) => postMessage({ job: number, part }));
        postMessage({ job: number, done: done ?? {} });
    } catch (error) {
        if (error instanceof Cancelled) postMessage({ job: number, cancelled: true });
        else postMessage({ job: number, error: String(error.message || error), fatal: !(error instanceof Refusal) });
    } finally {
        jobs.delete(number);
    }
};
