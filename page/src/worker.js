// The worker: everything that needs a model runs here, in steps of some milliseconds, so that several texts grow side
// by side and a new wish is heard at once. A message is { job, wish, ... }; answers are { job, part }, { job, done } or
// { job, error }.
import { build, fit, HILLS, MAX_ANSWER, needle, ownNeedle, QUESTION } from './haystack.js';
import { mostRead } from './numbers.js';
import { loadRope, Refusal } from './rope.js';
import { isSaid, said, wordAt } from './words.js';

const STEP_MS = 12; // work between two looks at the messages
const CHUNK = 64; // positions that are read at a time
const CHUNK_OF_RUN = 512; // and by ./run: sums are rounded by chunks, and a text that is written depends on every bit
const JUDGED = 128; // the same, where they are judged
const TOLD_MS = 40; // between two messages of a text that is written
const LOOKED_AT = 0.005, // weight from which on a token is listed
    MOST_LOOKS = 40,
    SEARCHED = 512; // positions in which the head that searches is looked for

const pages = {}; // by name: 'model', 'model-8k', or a file's
const jobs = new Map(); // running, by number: { cancelled }
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
async function rest(job) {
    if (performance.now() - last > STEP_MS) await breathe();
    if (job.cancelled) throw new Cancelled();
}

function page(name) {
    if (!pages[name]) throw new Refusal(`${name} has not been opened`);
    return pages[name];
}

// The text of tokens: the pieces of a stream, whole characters at a time.
function speller(m) {
    const decoder = new TextDecoder();
    let previous = -1;
    return (id) => {
        const text = decoder.decode(m.piece(previous, id), { stream: true });
        previous = id;
        return text;
    };
}

// Reads ids after what was read, the last of them with its logits, a chunk at a time.
async function readPrompt(job, reader, ids, length, report, chunk = CHUNK) {
    for (let at = 0; at < ids.length; at += chunk) {
        reader.read(ids.subarray(at, at + chunk), length, at + chunk >= ids.length ? 1 : 0);
        report?.(Math.min(ids.length, at + chunk));
        await rest(job);
    }
}

// Where a head of the last token looks: { layer, head, scores, weights, share }, its share for positions [from, to).
function looks(reader, id, n, [from, to], { layer, head }) {
    reader.rewind(n - 1);
    const scores = reader.scores(layer, head, id, n),
        max = scores.reduce((a, b) => Math.max(a, b)),
        weights = scores.map((s) => Math.exp(s - max)),
        sum = weights.reduce((a, b) => a + b);
    weights.forEach((w, i) => (weights[i] = w / sum));
    return { layer, head, scores, weights, share: total(weights.subarray(from, to)) };
}

const total = (list) => list.reduce((a, b) => a + b, 0);
const highest = (scores) => scores.reduce((best, score, i) => (score > scores[best] ? i : best), 0);
const headsOf = ({ layers, heads }) =>
    Array.from({ length: layers * heads }, (_, i) => ({ layer: Math.floor(i / heads), head: i % heads }));

// The head of a model that searches: the one that looks at a key most where every distance is one of training and nothing
// is slowed; and `token`, which of the key's tokens it looks at most. Both are the same for all texts and methods, so that
// pictures of it can be compared.
async function searcher(job, m) {
    if (m.searcher) return m.searcher;
    const length = Math.min(m.facts().trainedContext, SEARCHED, mostRead(m.facts()) / 4),
        { ids, place } = hidden(m, { length, depth: 0.25, key: '73914' }),
        reader = m.open('none', Math.max(ids.length, length));
    try {
        await readPrompt(job, reader, ids, ids.length);
        let best = { share: -1 };
        for (const one of headsOf(m.facts())) {
            const { share, scores } = looks(reader, ids.at(-1), ids.length, place, one);
            if (share > best.share) best = { ...one, share, token: highest(scores.subarray(...place)) };
        }
        return (m.searcher = best);
    } finally {
        reader.close();
    }
}

/**
 * A key that is hidden: its text, and `place`, the positions of its sentences, [from, to).
 * @typedef {{ length: number, depth: number, key: string, sentence?: string }} Hidden
 * @param {any} m @param {Hidden} wish
 * @returns {{ text: string, ids: Int32Array, place: [number, number] }}
 */
function hidden(m, wish) {
    const [before, its, behind] = haystack(m, wish),
        text = before + its + behind;
    const end = (part) => m.encode(part, true).length;
    return { text, ids: m.encode(text, true), place: [end(before), end(before + its)] };
}

// What a model answers to its prompt, the likeliest token each time: as many digits as the key has, or whole words.
async function answerTo(job, m, reader, asking, key) {
    reader.sampler(0, 0, 1);
    const spell = speller(m);
    spell(asking);
    let answer = '';
    for (let i = 0; i < MAX_ANSWER && !isSaid(answer, key.length); i++) {
        const id = reader.next();
        if (m.isEnd(id)) break;
        answer += spell(id);
        reader.read([id], reader.position + 1, 1);
        await rest(job);
    }
    return said(answer, key.length);
}

// The scene's text for so many positions, in parts: before the needle, the needle, what follows it. With `sentence` the
// reader's own sentence is the needle.
/** @param {any} m @param {Hidden} wish */
function haystack(m, { length, depth, key, sentence }) {
    const own = sentence ? ownNeedle(sentence) : { needle: needle(key), question: QUESTION };
    if (!own) throw new Refusal('a sentence with a number of five digits is expected');
    const what = { ...own, filler: HILLS },
        name = `${length} ${sentence ?? ''}`;
    const sentences = ((m.fits ??= {})[name] ??= fit(length, (text) => m.encode(text, true).length, what));
    if (sentences < 0)
        throw new Refusal(`${length} positions are too few for a haystack: the task's own text does not fit`);
    return build(sentences, depth, what);
}

const wishes = {
    // { program }: the compiled one, the same for all workers.
    async start(job, { program }) {
        rope = await loadRope(program);
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

    // { model, text } -> { n }: how many tokens a text has, BOS among them.
    async count(job, { model, text }) {
        return { n: page(model).encode(text, true).length };
    },

    // { model, method, prompt, context, temperature, topP, seed } -> parts of { texts }, one for each token: a prompt, and what
    // the model goes on with, until the context is full. When the text is there, parts of { from, nll }: -ln p of what was
    // written, from that position on, by another reader, of the last tokens alone. It reads many tokens together, which token
    // by token would cost as much as writing does.
    async write(job, { model, method, prompt, context, temperature, topP, seed }, part) {
        const m = page(model),
            ids = m.encode(prompt, true),
            spell = speller(m),
            all = Array.from(ids);
        if (ids.length > context)
            throw new Refusal(`the text has ${ids.length} tokens, and ${context} positions are all there are`);
        const reader = m.open(method, context);
        try {
            reader.sampler(temperature, topP, seed);
            await readPrompt(job, reader, ids, ids.length, undefined, CHUNK_OF_RUN);
            let texts = Array.from(ids, spell), // that nobody was told of
                told = -Infinity;
            for (let isFull = false; !isFull;) {
                const id = reader.next();
                isFull = reader.position >= context;
                all.push(id);
                texts.push(m.isEnd(id) ? '' : spell(id));
                if (isFull || performance.now() - told > TOLD_MS) {
                    part({ texts });
                    texts = [];
                    told = performance.now();
                }
                if (!isFull) reader.read([id], reader.position + 1, 1);
                await rest(job);
            }
        } finally {
            reader.close();
        }
        const judge = m.open('window', context);
        try {
            await readPrompt(job, judge, ids.subarray(0, -1), context);
            for (let from = ids.length; from < all.length; from += JUDGED) {
                part({ from, nll: judge.score(all.slice(from - 1, from + JUDGED), context) });
                await rest(job);
            }
        } finally {
            judge.close();
        }
        return {};
    },

    // { model, method, text, context } -> parts of { from, nll }: of a window that is read as one prompt, as --ppl does: BOS,
    // and context - 1 ids of the text. nll[0] is of position `from`.
    async nll(job, { model, method, text, context }, part) {
        const m = page(model),
            window = m.encode(text, true).subarray(0, context),
            n = window.length;
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

    // { model, length, depth, key, sentence } -> { text }: what `path` reads.
    async haystack(job, { model, ...wish }) {
        return { text: haystack(page(model), /** @type {Hidden} */ (wish)).join('') };
    },

    // { model, method, length, depth, key, sentence, looker } -> parts of { read, of }, and what a key that is hidden and asked
    // for comes to.
    // Of the head `looker`, { layer, head }, or else of the one that searches: how far back the token is that it looks for
    // (d), that token's score, what each pair gives to it and would give (see Reader.terms), the sentence's share of
    // attention, and the share of the tokens that are nearer than the trained length; the `looks`, [distance, weight] of
    // the tokens that have most; of all tokens outside the sentence the one with the best score: `rival`, its distance, and
    // the weight of its word there and wherever it occurs; of each head its share for the sentence. The text in tokens, and
    // what the model answers.
    async path(job, { model, method, looker, ...wish }, part) {
        const m = page(model),
            { token, ...best } = await searcher(job, m),
            one = looker ?? best,
            { ids, place } = hidden(m, /** @type {Hidden} */ (wish)),
            n = ids.length,
            [from, to] = place,
            asking = ids.at(-1),
            reader = m.open(method, Math.max(n, wish.length) + MAX_ANSWER);
        try {
            await readPrompt(job, reader, ids, n, (read) => part({ read, of: n }));
            const shares = headsOf(m.facts()).map((head) => looks(reader, asking, n, place, head).share);
            await rest(job);
            const { layer, head, scores, weights, share } = looks(reader, asking, n, place, one),
                isOwn = !!wish.sentence || one.layer !== best.layer || one.head !== best.head,
                at = from + (isOwn ? highest(scores.subarray(from, to)) : token),
                tokens = Array.from(ids, speller(m));
            const rivalAt = highest(scores.map((score, i) => (i < from || i >= to ? score : -Infinity))),
                word = wordAt(tokens, rivalAt),
                weightOf = ({ from: a, to: b }) => total(weights.subarray(a, b));
            let everywhere = 0;
            for (let i = 0, its; i < n; i = its.to) {
                its = wordAt(tokens, i);
                if (its.word === word.word && (i < from || i >= to)) everywhere += weightOf(its);
            }
            const far = Array.from(weights, (weight, i) => [n - 1 - i, weight]),
                result = {
                    ...{ n, d: n - 1 - at, layer, head, share, shares, score: scores[at], tokens },
                    ...{ rival: scores[rivalAt], rivalAt: n - 1 - rivalAt, itsWord: weightOf(word), everywhere },
                    near: total(weights.subarray(-m.facts().trainedContext)),
                    looks: far
                        .filter(([, weight]) => weight >= LOOKED_AT)
                        .sort(([, a], [, b]) => b - a)
                        .slice(0, MOST_LOOKS),
                    ...reader.terms(at),
                };
            return { ...result, answer: await answerTo(job, m, reader, asking, wish.key) };
        } finally {
            reader.close();
        }
    },

    // { model, method, length, depth, seed, context } -> { answer, key, text }: --passkey's first trial at a length and a depth,
    // by its number.
    async hide(job, { model, method, length, depth, seed, context }) {
        const m = page(model),
            { ids, key } = m.passkey(length, depth, 0, seed),
            reader = m.open(method, Math.max(context, length));
        try {
            await readPrompt(job, reader, ids, ids.length);
            return { answer: await answerTo(job, m, reader, ids.at(-1), key), key };
        } finally {
            reader.close();
        }
    },

    // { model, length, depth, seed } -> { text, key }: what `hide` reads.
    async passkey(job, { model, length, depth, seed }) {
        const { ids, key } = page(model).passkey(length, depth, 0, seed);
        return { text: Array.from(ids, speller(page(model))).join(''), key };
    },
};

onmessage = async ({ data }) => {
    const { job: number, wish } = data;
    const known = jobs.get(number);
    if (wish === 'cancel') {
        if (known) known.cancelled = true;
        return;
    }
    const job = { cancelled: false };
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
