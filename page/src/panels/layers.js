// Two kinds of layers. Five small models that were trained alike, and differ in what their layers see: which stack breaks
// past its training, and which remembers?
import { chart } from '../chart.js';
import { chips, command, count, h, listing, stateChips, statusLine } from '../dom.js';
import { isOneFile } from '../engine.js';
import { DEPTHS, keyOf } from '../haystack.js';
import { runs } from '../job.js';
import { movingPerplexity, perplexity } from '../numbers.js';
import { readText } from '../reading.js';
import { choice, state } from '../state.js';

const N = 4096,
    TRAINED = 256,
    WINDOW = 64, // positions that a query of a sliding layer sees
    WIDE = 256, // tokens that a point is the mean of
    YARN = `yarn:factor=${N / TRAINED}`;

// The stacks that were trained, first layer first. Of the full layers are `theta`, the length L of the file, and the
// settings by which YaRN and a window are of 256 tokens, where L is not (`slower`, `still`): queries grow by it, too.
const STACKS = {
    rope: {
        kinds: ['full', 'full', 'full', 'full', 'full'],
        theta: 10000,
        title: 'all full',
        colour: 'var(--vermillion)',
    },
    'layers-sliding': {
        kinds: ['sliding', 'sliding', 'sliding', 'full', 'sliding'],
        theta: 10000,
        title: 'one full',
        colour: 'var(--blue)',
    },
    'layers-theta': {
        kinds: ['sliding', 'sliding', 'sliding', 'full', 'sliding'],
        theta: 1e6,
        title: 'one full, theta 1,000,000',
        colour: 'var(--green)',
    },
    'layers-temperature': {
        kinds: ['sliding', 'sliding', 'sliding', 'full', 'sliding'],
        theta: 10000,
        L: 64,
        slower: ':beta-fast=8:beta-slow=0.25',
        still: `:train-ctx=${TRAINED}:temperature-beta=0`,
        title: 'one full, growing queries',
        colour: 'var(--orange)',
    },
    'layers-nope': {
        kinds: ['sliding', 'sliding', 'sliding', 'nope', 'sliding'],
        theta: 0,
        title: 'one NoPE',
        colour: 'var(--purple)',
    },
};
const NAMES = Object.keys(STACKS);
const KINDS = [
    ['full', 'full', 'sees all positions before it'],
    ['sliding', 'sliding', `sees the last ${WINDOW} positions`],
    ['nope', 'NoPE', 'sees all positions, and does not turn'],
];
const METHODS = { none: 'untouched', full: 'YaRN in full layers', all: 'YaRN in all layers' };
const AS_WINDOW = `a window of ${TRAINED} in full layers`; // the mark: nothing in it is new
const DASHES = { none: '', full: '6 3', all: '2 3' };
const STRETCHES = [
    [1, TRAINED],
    [TRAINED, 1024],
    [1024, N],
];
const fileOf = (name) => `models/${name}.bin`;

const differences = (a, b) => a.filter((kind, layer) => kind !== b[layer]).length;

// The trained stack for a wish: this kind in this layer. Where no stack has that, one that has such a layer; then the one
// with the fewest other layers.
function nearest(now, layer, kind) {
    const wish = STACKS[now].kinds.with(layer, kind);
    const having = NAMES.filter((name) => STACKS[name].kinds[layer] === kind),
        among = having.length ? having : NAMES.filter((name) => STACKS[name].kinds.includes(kind));
    const away = (name) => differences(STACKS[name].kinds, wish);
    const least = Math.min(...among.map(away)),
        best = among.filter((name) => away(name) === least);
    return { name: best.includes(now) ? now : best[0], isTrained: least === 0 };
}

// Why a file is not the model of a stack; empty: it is.
function refuse(name, { sees, trainedContext }, fileName) {
    const { kinds, theta, L = TRAINED } = STACKS[name];
    const fits = kinds.every((kind, layer) => {
        const { window, theta: its } = sees[layer] ?? {};
        return kind === 'sliding' ? window === WINDOW : window === 0 && its === theta;
    });
    if (fits && sees.length === kinds.length && trainedContext === L) return '';
    return `${fileName} has other layers: ${fileOf(name)} is expected`;
}

// The methods of both kinds of layers, as --rope and --rope-sliding have them. Where all layers are full there are no others.
function methodsOf(name, slowed) {
    const { kinds, slower = '' } = STACKS[name];
    return {
        full: slowed === 'none' ? 'none' : YARN + slower,
        sliding: slowed === 'all' && kinds.includes('sliding') ? YARN : '',
    };
}
const windowOf = (name) => `window${STACKS[name].still ?? ''}`;

// How many times as perplexed as by the mark, along the text.
function against(nlls, mark) {
    const n = Math.min(nlls.length, mark.length);
    const more = nlls.slice(0, n).map((nll, i) => nll - mark[i]);
    return movingPerplexity(more, WIDE, 16);
}

// What the last of N tokens sees in a layer: stretches of positions, the last one at the end, and in words.
/** @returns {{ parts: [number, string][], words: string }} */
function seen(kind, slowed) {
    const slow = slowed === 'all';
    if (kind === 'sliding')
        return {
            parts: [[WINDOW, slow ? 'needless' : 'known']],
            words: `the last ${WINDOW}${slow ? ', slowed for nothing' : ''}`,
        };
    if (kind === 'nope') return { parts: [[N, 'nope']], words: `all ${count(N)}, and nothing turns` };
    if (slowed !== 'none') return { parts: [[N, 'slowed']], words: `all ${count(N)}, slowed` };
    const isNew = N - TRAINED;
    return {
        parts: [
            [isNew, 'new'],
            [TRAINED, 'known'],
        ],
        words: `all ${count(N)}, ${count(isNew)} of them further than ever`,
    };
}
const MARKS = {
    known: 'at distances of training',
    new: 'further than training ever went',
    slowed: 'slowed by YaRN',
    needless: 'slowed, where nothing was new',
    nope: 'not turned at all',
};

// A layer: its kinds to choose from, and what the last token sees in it.
function row(layer, choose) {
    const name = `layer ${layer + 1}`,
        bar = h('div.sees', { role: 'img' }),
        words = h('span.fine');
    const kinds = chips(name, KINDS, {
        get: () => STACKS[state.get('stack')].kinds[layer],
        set: (kind) => choose(layer, kind),
    });
    const draw = () => {
        const what = seen(STACKS[state.get('stack')].kinds[layer], state.get('slowed'));
        kinds.draw();
        bar.ariaLabel = `${name}: the last token sees ${what.words}`;
        bar.replaceChildren(
            ...what.parts.map(([positions, mark]) => {
                const part = h(`i.${mark}`);
                part.style.width = `${(100 * positions) / N}%`;
                return part;
            }),
        );
        words.textContent = what.words;
        return what.parts.map(([, mark]) => mark);
    };
    return Object.assign(h('div.layer', h('b', name), kinds, bar, words), { draw });
}

export function kindsOfLayers({ engine, recorded, book }) {
    state.add('stack', choice(NAMES), NAMES[0]);
    state.add('slowed', choice(Object.keys(METHODS)), 'none');
    const status = statusLine(),
        line = command(),
        says = h('p.readout', { ariaLive: 'polite' }),
        marks = h('p.fine.marks'),
        table = h('div.overflow');
    const plot = chart({
        label: 'Perplexity of stacks of layers by position',
        height: 260,
        x: { domain: [128, N], log: true, label: 'position', name: 'position', ticks: [128, 256, 512, 1024, 2048, N] },
        y: { label: `times as perplexed as its window (over ${WIDE})` },
        rule: { at: TRAINED, text: 'training ended' },
        level: { at: 1, text: 'the window' },
        show: (v) => v.toFixed(2),
    });
    const lookOf = (name, slowed) => ({
        colour: STACKS[name].colour,
        dash: DASHES[slowed],
        title: `${STACKS[name].title}, ${METHODS[slowed] ?? AS_WINDOW}`,
    });
    for (const name of NAMES)
        plot.set(`~${name} none`, recorded.layers[name], { ...lookOf(name, 'none'), ghost: true });

    const results = new Map(); // by stack and method: { stretches: perplexities of these, keys: how many were found }
    const windows = new Map(); // -ln p of every token with the mark, by stack
    let growing = ''; // what is being read
    const choose = (layer, kind) => {
        const { name, isTrained } = nearest(state.get('stack'), layer, kind);
        state.set('stack', name);
        says.textContent = isTrained ? '' : `That stack was not trained. The nearest that was: ${STACKS[name].title}.`;
    };
    const rows = STACKS.rope.kinds.map((_, layer) => row(layer, choose));
    function draw() {
        const name = state.get('stack'),
            slowed = state.get('slowed'),
            { full, sliding } = methodsOf(name, slowed);
        const there = new Set(rows.flatMap((one) => one.draw()));
        marks.replaceChildren(...[...there].map((mark) => h('span', h(`i.${mark}`), MARKS[mark])));
        const begins = `./run ${fileOf(name)} --ppl book.txt -n ${N} --kv f32 --rope`;
        const seeks = `./run ${fileOf(name)} --passkey -n ${N} --trials 1 -s 1 --kv f32 --rope ${full}`;
        if (sliding) {
            const too = `--rope-sliding ${sliding}`;
            line.put(`${begins} ${full} ${too}`, `${begins} ${windowOf(name)}`, `${seeks} ${too}`);
        } else line.put(`${begins} ${full},${windowOf(name)}`, seeks);
    }
    function fill() {
        const heads = STRETCHES.map(([from, to]) => `${count(from)} to ${count(to)}`);
        const lines = [...results.entries()].map(([key, { stretches, keys }]) => {
            const cells = STRETCHES.map((_, i) => stretches?.[i].toFixed(1) ?? '');
            const { title } = lookOf(...key.split(' '));
            return [title, ...cells, keys === undefined ? '' : `${keys} of ${DEPTHS.length}`];
        });
        table.replaceChildren(listing(['perplexity at positions', ...heads, 'keys'], lines));
    }
    const reading = runs({
        engine,
        status,
        inputs: ['stack', 'slowed'],
        work: read,
        stale: () => {
            status.say('');
            if (!results.get(growing)?.stretches) plot.remove(growing);
        },
    });
    const seeking = runs({
        engine,
        status,
        inputs: ['stack', 'slowed'],
        work: seek,
        stale: () => status.say(''),
    });
    async function open(run) {
        const { stack } = run.input;
        status.say(`${isOneFile ? 'Opening' : 'Fetching'} ${fileOf(stack)} …`);
        await engine.open(stack);
    }
    async function read(run) {
        seeking.end();
        const { stack, slowed } = run.input,
            key = `${stack} ${slowed}`;
        growing = key;
        await open(run);
        if (!run.isOn) return;
        status.say(`Reading ${count(N)} tokens${windows.has(stack) ? '' : ', twice'} …`);
        const both = [[], windows.get(stack) ?? []];
        const follow = (which, method) =>
            readText(run, { model: stack, method, text: book, n: N }, (nlls) => {
                both[which] = nlls;
                plot.set(key, against(both[0], both[1]), lookOf(stack, slowed));
            });
        const [nlls, mark] = await Promise.all([
            follow(0, methodsOf(stack, slowed)),
            windows.get(stack) ?? follow(1, windowOf(stack)),
        ]);
        windows.set(stack, mark);
        const put = (which, all) =>
            note(which, { stretches: STRETCHES.map(([from, to]) => perplexity(all, from - 1, to - 1)) });
        put(key, nlls);
        put(`${stack} window`, mark);
        const [past, its] = [nlls, mark].map((all) => perplexity(all, TRAINED - 1, N).toFixed(1));
        status.say(`Past ${TRAINED}: ${past}, and with a window ${its}.`);
    }
    // Hides a key at each of five depths, and counts those that are found.
    async function seek(run) {
        reading.end();
        const { stack, slowed } = run.input,
            method = methodsOf(stack, slowed);
        await open(run);
        if (!run.isOn) return;
        let keys = 0;
        for (const [i, depth] of DEPTHS.entries()) {
            status.say(`Hiding key ${i + 1} of ${DEPTHS.length} in ${count(N)} tokens …`);
            const key = keyOf(1, N, i, 0);
            const { answer } = await run.ask('hide', { model: stack, method, length: N, context: N, depth, key });
            keys += +(answer === key);
        }
        note(`${stack} ${slowed}`, { keys });
        status.say(`${keys} of ${DEPTHS.length} keys found in ${count(N)} tokens.`);
    }
    const note = (key, more) => {
        results.set(key, { ...results.get(key), ...more });
        fill();
    };
    const go = reading.button([isOneFile ? `Read ${count(N)} tokens` : `Read ${count(N)} tokens (1.6 MB)`], {
        primary: true,
    });
    const hide = seeking.button(['Hide five keys']);
    // One file has none of these models: what is not given cannot be read.
    const offer = () => {
        const lacks = isOneFile && !engine.given[state.get('stack')];
        for (const one of [go, hide]) one.disabled = lacks;
    };
    const pick = h('input', { type: 'file', accept: '.bin', ariaLabel: 'the model of this stack' });
    pick.onchange = async () => {
        const [file] = pick.files,
            name = state.get('stack');
        if (!file) return;
        try {
            await engine.give(name, file, { refuse: (facts) => refuse(name, facts, file.name) });
            offer();
            reading.begin();
        } catch (error) {
            if (!error.isCancelled) status.say(error.message, true);
        }
    };
    state.on('stack', () => {
        says.textContent = '';
        offer();
    });
    offer();
    state.on(['stack', 'slowed'], draw);
    draw();
    return {
        id: 'layers',
        title: 'Two kinds of layers',
        body: [
            h(
                'p',
                'In most of today’s models, a few layers see the whole text and the others only a window. Five small models were ' +
                    `trained the same way, on ${TRAINED} tokens, and differ in their layers. Click some. Which stack breaks at ` +
                    `${count(N)}, and which remembers?`,
            ),
            stateChips(
                'stack',
                'stack',
                NAMES.map((name) => [name, STACKS[name].title, fileOf(name)]),
                { colour: (name) => STACKS[name].colour },
            ),
            h('div.stack', { role: 'group', ariaLabel: 'layers, the last on top' }, rows.toReversed()),
            says,
            marks,
            stateChips('YaRN', 'slowed', Object.entries(METHODS)),
            isOneFile
                ? h(
                      'p.fine',
                      'This page is one file, and these models are not in it. They are in the repository’s folder models, ' +
                          'under the names in the command: ',
                      pick,
                  )
                : null,
            h('div.row.middle', go, hide),
            status,
            plot,
            h(
                'p.fine',
                'Solid: untouched. Dashed: YaRN in full layers. Dotted: YaRN in all layers, a mistake that a library made ' +
                    'for half a year. Growing queries have larger scores, the later they stand. A model that reads well may still have ' +
                    'forgotten the beginning: hide keys to find out.',
            ),
            table,
            line,
        ],
    };
}
