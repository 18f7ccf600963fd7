// Small parts that all panels are made of: buttons, chips, sliders, a prediction, the terminal's command.
import { scaleBand } from 'd3-scale';
import { select } from 'd3-selection';
import { h } from './element.js';
import { percent } from './numbers.js';
import { kept } from './place.js';
import { state } from './state.js';

export { h, percent };

// A picture to draw in, a selection of d3.
export const drawing = (name, height) =>
    select(document.createElementNS('http://www.w3.org/2000/svg', 'svg')).attr('class', name).attr('height', height);

// Gives a selection of d3's these attributes, values or functions of a datum and its number, and a text if there is one.
/** @param {any} selection @param {Record<string, any>} values */
export function attrs(selection, { text, ...values }) {
    for (const [name, value] of Object.entries(values)) selection.attr(name, value);
    return text === undefined ? selection : selection.text(text);
}

// As many elements of a tag in a group as there are data, with these attributes. Of tag.class: those of that class alone.
/** @param {any} group @param {string} tag @param {any} data @param {Record<string, any>} values @param {(datum: any) => any} [key] */
export const elements = (group, tag, data, values, key) =>
    attrs(group.selectAll(tag).data(data, key).join(tag.split('.')[0]), values);

// A colour of the style sheet, #rrggbb, as three numbers for a canvas.
export const rgb = (name) =>
    getComputedStyle(document.documentElement)
        .getPropertyValue(name)
        .match(/[0-9a-f]{2}/gi)
        .slice(0, 3)
        .map((x) => parseInt(x, 16));

// A scale with a band for each of some numbers.
export const bands = () => /** @type {import('d3-scale').ScaleBand<number>} */ (/** @type {any} */ (scaleBand()));

// A table: its heads, and rows of cells. `look` gives the class of row i.
/** @param {string[]} heads @param {any[][]} rows @param {(i: number) => string} [look] */
export function listing(heads, rows, look = () => '') {
    const of = (tag, cells) => cells.map((cell) => h(tag, cell));
    const line = (row, i) => h('tr', { className: look(i) }, of('td', row));
    return h('table.list', h('thead', h('tr', of('th', heads))), h('tbody', rows.map(line)));
}

// A number, large, and what it is.
export const fact = (value, name) => h('div', h('b', value), name);

let ids = 0; // of controls that have a label

// The page's own switch for motion, which the browser remembers under this name. It counts before anything is drawn.
export const MOTION_OFF = 'no motion';
try {
    document.documentElement.classList.toggle('no-motion', localStorage.getItem(MOTION_OFF) === 'yes');
} catch {
    // a browser that keeps nothing for this page
}

// Does the reader want no motion, by the system's settings or by the page's own switch?
export const reducedMotion = () =>
    matchMedia('(prefers-reduced-motion: reduce)').matches || document.documentElement.classList.contains('no-motion');

export const count = (n) => Math.round(n).toLocaleString('en');
export const short = (x, digits = 3) =>
    x === 0 ? '0' : Math.abs(x) >= 1e4 ? count(x) : String(+x.toPrecision(digits)).replace(/^-/, '−');

// With so many digits after the point, and a minus as long as a plus.
export const fixed = (x, digits) => x.toFixed(digits).replace('-', '−');

// A button; `primary` for the one that a panel is about.
/** @param {string} label @param {(...given: any[]) => any} onclick @param {{ primary?: boolean, [more: string]: any }} [look] */
export function button(label, onclick, { primary, ...rest } = {}) {
    return h(primary ? 'button.primary' : 'button', { type: 'button', onclick: kept(onclick), ...rest }, label);
}

// Choices of which one (or, with many, any number) holds: [value, label, title?]. `get` and `set` are the state's.
/**
 * @param {string} label
 * @param {any[][]} choices
 * @param {{ get: () => any, set: (value: any) => void, many?: boolean, colour?: (value: any) => string }} how
 */
export function chips(label, choices, { get, set, many, colour }) {
    const list = h('div.chips', { role: 'group', ariaLabel: label });
    const draw = () => {
        const now = get();
        for (const chip of list.children) {
            const on = many ? now.includes(chip.value) : String(now) === chip.value;
            chip.setAttribute('aria-pressed', on);
        }
    };
    for (const [value, text, title] of choices) {
        const chip = h(
            'button.chip',
            { type: 'button', value, title: title ?? '' },
            colour ? h('i') : null,
            text ?? String(value),
        );
        if (colour) chip.style.setProperty('--mine', colour(value));
        chip.onclick = kept(() => {
            const now = get();
            if (!many) set(typeof now === 'number' ? +chip.value : chip.value);
            else set(now.includes(chip.value) ? now.filter((x) => x !== chip.value) : [...now, chip.value]);
            draw();
        });
        list.append(chip);
    }
    draw();
    return Object.assign(list, { draw });
}

// What is folded away until it is asked for.
export const folded = (title, ...rest) => h('details.folded', h('summary', title), rest);

export const counts = (numbers) => numbers.map((n) => [String(n), count(n)]);

// Chips for what the state has at a key; `onset` is called when one was pressed.
/**
 * @param {string} label
 * @param {string} key
 * @param {any[][]} choices
 * @param {{ onset?: (value: any) => void, many?: boolean, colour?: (value: any) => string }} [look]
 */
export function stateChips(label, key, choices, { onset, ...look } = {}) {
    const set = (value) => {
        state.set(key, value);
        onset?.(value);
    };
    const list = chips(label, choices, { get: () => state.get(key), set, ...look });
    state.on(key, list.draw);
    return list;
}

function labelled(text, control, note) {
    control.id ||= `x${++ids}`;
    return h('label.field', { htmlFor: control.id }, h('span', text), control, note);
}

// A slider whose value is shown beside it. With `log` it moves in even steps of the logarithm.
/** @typedef {{ min: number, max: number, step: number, log?: boolean, show?: (x: number) => string }} Range */
/** @param {string} text @param {Range & { value: number, oninput: (x: number) => void }} range */
export function slider(text, { min, max, step, log, value, show = short, oninput }) {
    const STOPS = 400; // of a logarithm
    const to = (x) => (log ? (STOPS * Math.log(x / min)) / Math.log(max / min) : x);
    const from = (t) => (log ? min * (max / min) ** (t / STOPS) : +t);
    const input = h('input', { type: 'range', min: log ? 0 : min, max: log ? STOPS : max, step: log ? 1 : step });
    const output = h('output');
    const say = (x) => {
        output.textContent = show(x);
        input.setAttribute('aria-valuetext', show(x));
    };
    input.oninput = () => {
        const x = from(input.value),
            taken = Math.min(max, Math.max(min, log ? Math.round(x / step) * step : x));
        oninput(taken);
        say(taken);
    };
    const put = (x) => {
        input.value = to(x);
        say(x);
    };
    put(value);
    return Object.assign(labelled(text, input, output), {
        put: (x) => {
            if (document.activeElement !== input) put(x);
        },
    });
}

// A slider for what the state has at a key.
/** @param {string} text @param {string} key @param {Range & { onset?: (x: number) => void }} range */
export function stateSlider(text, key, { onset, ...look }) {
    const oninput = (value) => {
        state.set(key, value);
        onset?.(value);
    };
    const made = slider(text, { value: state.get(key), oninput, ...look });
    state.on(key, made.put);
    return made;
}

// A question that is asked before the answer is shown. `onanswer` gets the choice's index; `say` shows the reply.
/** @param {string} question @param {string[]} choices @param {(choice: number) => void} onanswer */
export function predict(question, choices, onanswer) {
    const reply = h('p.reply', { ariaLive: 'polite' });
    const buttons = choices.map((choice, i) =>
        button(choice, () => {
            buttons.forEach((b, j) => b.setAttribute('aria-pressed', i === j));
            box.classList.add('answered');
            onanswer(i);
        }),
    );
    const box = h('div.predict', h('p.question', question), h('div.chips', buttons), reply);
    return Object.assign(box, { say: (...words) => reply.replaceChildren(...words) });
}

// Saves a file that a command names. `contents` is its text, or a function that makes it.
export async function saveFile(name, contents) {
    const made = typeof contents === 'function' ? await contents() : contents;
    const address = URL.createObjectURL(new Blob([made], { type: 'application/octet-stream' }));
    h('a', { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function commandLine(line, files) {
    const code = h('code', { tabIndex: 0 }, line);
    const copy = button('copy', async () => {
        try {
            await navigator.clipboard.writeText(line);
            copy.textContent = 'copied';
        } catch {
            getSelection().selectAllChildren(code);
            copy.textContent = 'press Ctrl-C';
        }
        setTimeout(() => {
            copy.textContent = 'copy';
        }, 1500);
    });
    const saves = files.map(([name, contents]) => button(`save ${name}`, () => saveFile(name, contents)));
    return h('div.command', h('span.sign', { ariaHidden: 'true' }, '$'), code, saves, copy);
}

// Commands that do the same at a terminal, complete as they are. `put` shows others: each is a line, or [line, files]
// with the files that it reads and that are not in the repository, [name, contents] as for saveFile.
export function command(...first) {
    const box = h('div.commands', { role: 'group', ariaLabel: 'what does this at a terminal' });
    let shown = '';
    const put = (...all) => {
        const lines = all.map((one) => [one].flat(1)).map(([line, files = []]) => [line, files]);
        const now = JSON.stringify(lines.map(([line, files]) => [line, files.map(([name]) => name)]));
        contents.clear();
        for (const [, files] of lines) for (const [name, text] of files) contents.set(name, text);
        if (now === shown) return;
        shown = now;
        const latest = (name) => [name, () => made(contents.get(name))];
        box.replaceChildren(
            ...lines.map(([line, files]) =>
                commandLine(
                    line,
                    files.map(([name]) => latest(name)),
                ),
            ),
        );
    };
    const contents = new Map(); // by name, as they are now
    const made = (text) => (typeof text === 'function' ? text() : text);
    if (first.length) put(...first);
    return Object.assign(box, { put });
}

// A word for a shell: in quotes where it needs them.
export const quoted = (word) => (/^[\w./:=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

// One line of what went wrong or is going on; empty hides it.
export function statusLine() {
    const line = h('p.status', { role: 'status' });
    return Object.assign(line, {
        say(text, bad = false) {
            line.textContent = text;
            line.classList.toggle('bad', bad);
        },
    });
}

// Calls `draw` once before the next picture, however often it was asked for, and so many milliseconds after the last
// time; a hidden tab draws when it is seen again.
export function onceAFrame(paint, apart = 0) {
    const draw = kept(paint);
    let asked = false,
        last = -Infinity;
    const next = () =>
        requestAnimationFrame((now) => {
            asked = false;
            last = now;
            draw();
        });
    return () => {
        if (asked) return;
        asked = true;
        const early = last + apart - performance.now();
        if (early > 0) setTimeout(next, early);
        else next();
    };
}

const LATEST_MS = 40;
// Between two pieces of work: the browser may paint, and hear the reader.
export const breath = () =>
    new Promise((goOn) => {
        requestAnimationFrame(() => setTimeout(goOn));
        setTimeout(goOn, LATEST_MS); // where nothing is painted, or slowly
    });

// Calls `work` when nothing has been asked for so many milliseconds.
export function afterPause(ms, work) {
    const late = kept(work);
    let timer;
    return (...given) => {
        clearTimeout(timer);
        timer = setTimeout(late, ms, ...given);
    };
}
