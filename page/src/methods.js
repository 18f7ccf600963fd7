// The methods as the page shows them: names and colours, which differ for every kind of eye (Okabe and Ito's palette),
// and how one is written for the program, with the factor that the state says.
import { state } from './state.js';

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
    mine: 'olive',
    rerope: 'purple',
    'leaky-rerope': 'sky',
    'self-extend': 'green',
    dca: 'vermillion',
    streaming: 'grey',
    'lm-infinite': 'orange',
};
const MAPS = ['rerope', 'leaky-rerope', 'self-extend', 'dca', 'streaming', 'lm-infinite'];
export const colourOf = (name) => `var(--${COLOURS[name.split(':')[0].replace('dynamic-', '')] ?? 'olive'})`;
export const dashOf = (name) =>
    name.startsWith('dynamic-') || name === 'mine'
        ? '6 3'
        : name === 'window'
          ? '2 3'
          : MAPS.includes(name)
            ? '9 3 2 3'
            : '';

const TITLES = {
    none: 'plain',
    'ntk-by-parts': 'by parts',
    'dynamic-yarn': 'dynamic yarn',
    'dynamic-ntk': 'dynamic ntk',
    window: 'window',
    yours: 'your handles',
    mine: 'your formula',
};
export const titleOf = (name) => TITLES[name] ?? name;

// How its line is drawn in a chart.
export const lookOf = (name) => ({ colour: colourOf(name), dash: dashOf(name), title: titleOf(name) });

// Methods that are no row of rope.c's table, by name: () => ({ divisors, attention }) or undefined.
export const own = {};

let takesFactor = new Set();
export const learnMethods = (methods) => {
    takesFactor = new Set(methods.filter((m) => m.takesFactor).map((m) => m.name));
    return methods;
};

// As --rope spells it, or, for one of the reader's own, its divisors.
export function methodFor(name) {
    const factor = state.get('factor');
    if (own[name]) return own[name]() ?? 'none';
    return factor > 0 && takesFactor.has(name.replace('dynamic-', '')) ? `${name}:factor=${factor}` : name;
}
// And for a command: a name that the terminal knows.
export const spelled = (name) => (own[name] ? 'longrope' : methodFor(name));

// Chips for some methods.
export const methodChoices = (names) => names.map((name) => [name, titleOf(name)]);
