// The methods as the page shows them: names and colours, which differ for every kind of eye (Okabe and Ito's palette),
// the reader's own handles, and how one is written for the program and for a command.
import { number, numbers, state } from './state.js';

// Those that change frequencies, in a learner's order.
export const SIX = ['none', 'linear', 'ntk', 'ntk-by-parts', 'yarn', 'llama3'];

const COLOURS = {
    none: 'vermillion',
    linear: 'orange',
    ntk: 'green',
    'ntk-by-parts': 'sky',
    yarn: 'blue',
    llama3: 'purple',
    window: 'grey',
    longrope: 'olive',
    yours: 'olive',
    rerope: 'purple',
    'leaky-rerope': 'sky',
    'self-extend': 'green',
    dca: 'vermillion',
    streaming: 'grey',
    'lm-infinite': 'orange',
    string: 'blue',
    cope: 'grey',
};
export const colourOf = (name) => `var(--${COLOURS[name.split(':')[0].replace('dynamic-', '')] ?? 'olive'})`;
export const dashOf = (name) =>
    name.startsWith('dynamic-')
        ? '6 3'
        : name === 'window'
          ? '2 3'
          : known?.maps.has(name)
            ? '9 3 2 3'
            : '';

const TITLES = {
    none: 'plain',
    'ntk-by-parts': 'by parts',
    'dynamic-yarn': 'dynamic yarn',
    'dynamic-ntk': 'dynamic ntk',
    window: 'window',
    yours: 'your handles',
};
export const titleOf = (name) => TITLES[name] ?? name;

// How its line is drawn in a chart.
export const lookOf = (name) => ({ colour: colourOf(name), dash: dashOf(name), title: titleOf(name) });

export const TIMES = 4; // the trained length, of the text that handles are for
let known = null; // { maps: names, plain: speeds of plain RoPE, trained: positions, places: see placesOf, by method }

// Hears of the program's maps and of the model. The state then knows how its pairs may be slowed.
export function learnMethods(page, { trainedContext }) {
    const { plain } = page.plan('none', trainedContext).frequencies(trainedContext);
    const maps = new Set(page.maps().map(({ name }) => name));
    const slowed = (name) => {
        const n = TIMES * trainedContext,
            { frequencies, attention } = page.plan(name, n).frequencies(n);
        return { slow: Array.from(plain, (f, i) => f / frequencies[i]), temper: +attention.toPrecision(6) };
    };
    const places = Object.fromEntries(SIX.map((name) => [name, slowed(name)]));
    known = { maps, plain: Array.from(plain), trained: trainedContext, places };
    state.add('slow', numbers(plain.length, 0.01, 1e6), []);
    state.add('temper', number(0.5, 3, false), 1);
}

// ---- the reader's own ----

// The speeds of plain RoPE.
export const plainSpeeds = () => known.plain;
// How far each pair is slowed by the handles.
export const handles = () => (state.get('slow').length ? state.get('slow') : known.plain.map(() => 1));

// Where a method has the handles: how far it slows each pair, and its attention factor.
export const placesOf = (name) => known.places[name];
// The method that has the handles where they are; '': none has.
export function namedHandles() {
    const now = handles(),
        alike = (a, b) => Math.abs(a / b - 1) < 1e-4;
    const has = ({ slow, temper }) => alike(temper, state.get('temper')) && slow.every((s, i) => alike(s, now[i]));
    return SIX.find((name) => has(known.places[name])) ?? '';
}

// ---- a method as it runs ----

// The reader's handles as a method.
const yours = () => ({ divisors: handles(), attention: state.get('temper') });

// For the program in the page: as --rope spells it, or divisors.
export const methodFor = (name) => (name === 'yours' ? yours() : name);

// The block of JSON for the handles, which --rope-config reads: a file's name and its contents.
export function blockOfHandles() {
    const { divisors, attention } = yours();
    const block = {
        rope_type: 'longrope',
        original_max_position_embeddings: known.trained,
        attention_factor: attention,
        short_factor: divisors,
        long_factor: divisors,
    };
    return ['handles.json', `${JSON.stringify(block, null, 1)}\n`];
}

// For commands: the options that choose these methods, and the files that they read. The handles take a command for
// themselves, since they are a file in the place of the model's settings.
export function optionsFor(names) {
    const rows = names.filter((name) => name !== 'yours');
    const all = rows.length ? [[`--rope ${rows.join(',')}`, []]] : [];
    if (names.includes('yours')) all.push(['--rope-config handles.json', [blockOfHandles()]]);
    return all;
}

// Chips for some methods.
export const methodChoices = (names) => names.map((name) => [name, titleOf(name)]);
