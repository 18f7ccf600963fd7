// The methods as the page shows them: names and colours, which differ for every kind of eye (Okabe and Ito's palette),
// the reader's own two, and how one is written for the program and for a command.
import { parse } from './expression.js';
import { TURN } from './numbers.js';
import { choice, number, numbers, state } from './state.js';

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
    mine: 'olive',
    rerope: 'purple',
    'leaky-rerope': 'sky',
    'self-extend': 'green',
    dca: 'vermillion',
    streaming: 'grey',
    'lm-infinite': 'orange',
};
export const colourOf = (name) => `var(--${COLOURS[name.split(':')[0].replace('dynamic-', '')] ?? 'olive'})`;
export const dashOf = (name) =>
    name.startsWith('dynamic-') || name === 'mine'
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
    mine: 'your formula',
};
export const titleOf = (name) => TITLES[name] ?? name;

// How its line is drawn in a chart.
export const lookOf = (name) => ({ colour: colourOf(name), dash: dashOf(name), title: titleOf(name) });

let known = null; // { takesFactor: names, maps: names, plain: speeds of plain RoPE, trained: positions }

// Hears of the program's methods and of the model. The state then knows what may be chosen of them.
export function learnMethods(page, { trainedContext }) {
    const methods = page.methods();
    const { plain } = page.plan('none', trainedContext).frequencies(trainedContext);
    const takesFactor = new Set(methods.filter((m) => m.takesFactor).map((m) => m.name));
    const maps = new Set(page.maps().map(({ name }) => name));
    known = { takesFactor, maps, plain: Array.from(plain), trained: trainedContext };
    state.add('method', choice(SIX), 'none');
    state.add('factor', number(0, 4096, false, { is: (x) => x === 0 || x >= 1, words: '0 or from 1' }), 0);
    state.add('slow', numbers(plain.length, 0.01, 1e6), []);
    state.add('temper', number(0.5, 3, false), 1);
    state.add('f', formulas, '');
    return methods;
}

// ---- the reader's own ----

// What a formula may use, and the one to begin with.
export const NAMES_IN_FORMULAS = ['plain', 'turns', 's', 'L', 'i', 'd'];
export const FIRST_FORMULA = 'plain / s^((2*i/d)^2)';
const formulas = {
    read: (written) => {
        try {
            if (written !== '') parse(written, NAMES_IN_FORMULAS);
            return written.length <= 300 ? written : undefined;
        } catch {
            return undefined;
        }
    },
    write: String,
    expects: `a formula of at most 300 characters with ${NAMES_IN_FORMULAS.join(', ')}`,
};

// The speeds of plain RoPE, and those that a formula makes of them at a scale. Throws why there are none.
export const plainSpeeds = () => known.plain;
export function speedsBy(source, s) {
    const formula = parse(source, NAMES_IN_FORMULAS),
        L = known.trained,
        d = 2 * known.plain.length;
    return known.plain.map((plain, i) => {
        const speed = formula({ plain, turns: (L * plain) / TURN, s, L, i, d });
        if (!(speed > 0) || !Number.isFinite(speed))
            throw new Error(`your formula gives pair ${i} the speed ${speed} (a number above 0 expected)`);
        if (speed > 100 || plain / speed > 1e9)
            throw new Error(
                `your formula gives pair ${i} the speed ${speed.toExponential(2)}, out of all proportion to ` +
                    `${plain.toExponential(2)}`,
            );
        return speed;
    });
}

// How far each pair is slowed by the handles.
export const handles = () => (state.get('slow').length ? state.get('slow') : known.plain.map(() => 1));

// The methods that are no row of rope.c's table, by name: { divisors, attention } at a length.
const OWN = {
    yours: () => ({ divisors: handles(), attention: state.get('temper') }),
    mine: (length) => {
        const s = state.get('factor') || Math.max(1, length / known.trained);
        const speeds = speedsBy(state.get('f') || FIRST_FORMULA, s);
        return { divisors: speeds.map((speed, i) => known.plain[i] / speed), attention: 1 };
    },
};

// ---- a method as it runs ----

// For the program in the page: as --rope spells it, with the factor that the state says, or divisors at a length.
export function methodFor(name, length) {
    if (OWN[name]) return OWN[name](length);
    const factor = state.get('factor');
    return factor && known.takesFactor.has(name.replace('dynamic-', '')) ? `${name}:factor=${factor}` : name;
}

// The block of JSON for one of the reader's own, which --rope-config reads: a file's name and its contents.
export function blockOf(name, length) {
    const { divisors, attention } = OWN[name](length);
    const block = {
        rope_type: 'longrope',
        original_max_position_embeddings: known.trained,
        attention_factor: attention,
        short_factor: divisors,
        long_factor: divisors,
    };
    return [name === 'mine' ? 'formula.json' : 'handles.json', `${JSON.stringify(block, null, 1)}\n`];
}

// For commands: the options that choose these methods, and the files that they read. One of the reader's own takes a
// command for itself, since it is a file in the place of the model's settings.
export function optionsFor(names, length) {
    const rows = names.filter((name) => !OWN[name]).map((name) => methodFor(name, length));
    const all = rows.length ? [[`--rope ${rows.join(',')}`, []]] : [];
    for (const name of names.filter((one) => OWN[one])) {
        try {
            const file = blockOf(name, length);
            all.push([`--rope-config ${file[0]}`, [file]]);
        } catch {
            // a formula that fails at this scale: the run says so
        }
    }
    return all;
}

// Chips for some methods.
export const methodChoices = (names) => names.map((name) => [name, titleOf(name)]);
