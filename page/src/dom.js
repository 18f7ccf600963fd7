// Small parts that all panels are made of: elements, buttons, chips, sliders, a prediction, the terminal's command.
import { select } from 'd3-selection';
import { state } from './state.js';

// h('p.note', { onclick }, 'text', child, ...): an element with classes, properties or attributes, and children.
export function h(what, ...rest) {
    const [tag, ...classes] = what.split('.');
    const element = document.createElement(tag);
    if (classes.length) element.className = classes.join(' ');
    const first = rest[0];
    if (first && typeof first === 'object' && !(first instanceof Node) && !Array.isArray(first)) {
        rest.shift();
        for (const [name, value] of Object.entries(first)) {
            if (value === undefined || value === false) continue;
            if (name in element && name !== 'list' && name !== 'form') element[name] = value;
            else element.setAttribute(name, value === true ? '' : value);
        }
    }
    element.append(...rest.flat().filter((child) => child !== undefined && child !== null && child !== false));
    return element;
}

// A picture to draw in, as d3 has it.
export const drawing = (name, height) =>
    select(document.createElementNS('http://www.w3.org/2000/svg', 'svg')).attr('class', name).attr('height', height);

// A canvas one strip high and as wide as its place: how to paint on it, its points for one of the page's, and the colour
// of surprise.
export function strip(canvas) {
    const scale = Math.max(1, Math.round(devicePixelRatio)),
        style = getComputedStyle(document.documentElement);
    canvas.width = Math.max(1, canvas.clientWidth * scale);
    canvas.height = 44 * scale;
    const heat = style.getPropertyValue('--heat').trim().replaceAll(' ', ',');
    return { paint: canvas.getContext('2d'), scale, hot: (share) => `rgba(${heat},${share.toFixed(3)})` };
}

// A number, large, and what it is.
export const fact = (value, name) => h('div', h('b', value), name);

let ids = 0;
export const unique = () => `x${++ids}`;

export const reducedMotion = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

export const count = (n) => Math.round(n).toLocaleString('en');
export const short = (x, digits = 3) =>
    x === 0 ? '0' : Math.abs(x) >= 1e4 ? count(x) : String(+x.toPrecision(digits));

// A button; `primary` for the one that a panel is about.
export function button(label, onclick, { primary, ...rest } = {}) {
    return h(primary ? 'button.primary' : 'button', { type: 'button', onclick, ...rest }, label);
}

// Choices of which one (or, with many, any number) holds: [value, label, title?]. `get` and `set` are the state's.
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
        chip.onclick = () => {
            const now = get();
            if (!many) set(typeof now === 'number' ? +chip.value : chip.value);
            else set(now.includes(chip.value) ? now.filter((x) => x !== chip.value) : [...now, chip.value]);
            draw();
        };
        list.append(chip);
    }
    draw();
    return Object.assign(list, { draw });
}

export const counts = (numbers) => numbers.map((n) => [String(n), count(n)]);

// Chips for what the state has at a key; `onset` is called when one was pressed.
export function stateChips(label, key, choices, { onset, ...look } = {}) {
    const set = (value) => {
        state.set(key, value);
        onset?.(value);
    };
    const list = chips(label, choices, { get: () => state.get(key), set, ...look });
    state.on(key, list.draw);
    return list;
}

export function labelled(text, control, note) {
    control.id ||= unique();
    return h('label.field', { htmlFor: control.id }, h('span', text), control, note);
}

// A slider whose value is shown beside it. With `log` it moves in even steps of the logarithm.
export function slider(text, { min, max, step, log, value, show = short, oninput }) {
    const STOPS = 400; // of a logarithm
    const to = (x) => (log ? (STOPS * Math.log(x / min)) / Math.log(max / min) : x);
    const from = (t) => (log ? min * (max / min) ** (t / STOPS) : +t);
    const input = h('input', { type: 'range', min: log ? 0 : min, max: log ? STOPS : max, step: log ? 1 : step });
    const output = h('output');
    const put = (x) => {
        input.value = to(x);
        output.textContent = show(x);
        input.setAttribute('aria-valuetext', show(x));
    };
    input.oninput = () => {
        const x = from(input.value),
            round = log ? Math.round(x / step) * step : x;
        oninput(Math.min(max, Math.max(min, round)));
        output.textContent = show(Math.min(max, Math.max(min, round)));
    };
    put(value);
    return Object.assign(labelled(text, input, output), {
        put: (x) => {
            if (document.activeElement !== input) put(x);
        },
    });
}

// A slider for what the state has at a key.
export function stateSlider(text, key, { onset, ...look }) {
    const oninput = (value) => {
        state.set(key, value);
        onset?.(value);
    };
    const made = slider(text, { value: state.get(key), oninput, ...look });
    state.on(key, made.put);
    return made;
}

// A question that is asked before the answer is shown. `onanswer` gets the choice's index; `say` gives the reply.
export function predict(question, choices, { say, onanswer }) {
    const reply = h('p.reply', { ariaLive: 'polite' });
    const buttons = choices.map((choice, i) =>
        button(choice, () => {
            buttons.forEach((b, j) => b.setAttribute('aria-pressed', i === j));
            reply.replaceChildren(say ? say(i) : '');
            box.classList.add('answered');
            onanswer?.(i);
        }),
    );
    const box = h('div.predict', h('p.question', question), h('div.chips', buttons), reply);
    return Object.assign(box, { say: (...words) => reply.replaceChildren(...words) });
}

// The command that does the same at a terminal; `put` shows another one.
export function command(text) {
    const code = h('code', { tabIndex: 0 });
    const copy = button('copy', async () => {
        try {
            await navigator.clipboard.writeText(code.textContent);
            copy.textContent = 'copied';
        } catch {
            getSelection().selectAllChildren(code);
            copy.textContent = 'press Ctrl-C';
        }
        setTimeout(() => {
            copy.textContent = 'copy';
        }, 1500);
    });
    const box = h('div.command', h('span.sign', { ariaHidden: 'true' }, '$'), code, copy);
    const put = (line) => {
        code.textContent = line;
    };
    put(text);
    return Object.assign(box, { put, ariaLabel: 'the command that does this' });
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

// Runs what may be refused; the reason goes to the status line. Returns undefined then.
export async function orSay(status, work) {
    try {
        return await work();
    } catch (error) {
        if (!error.isCancelled) status.say(error.message, true);
        return undefined;
    }
}

// A button for what takes its time; pressed again, or by `end`, it ends that. `begin` gives each of its jobs to `run`,
// and `isOn` tells it whether it is still wanted. A status that ends in … says that something is going on.
export function startStop([start, stop = 'Stop'], status, begin, look) {
    let jobs = null;
    const end = () => {
        for (const job of jobs ?? []) job.cancel();
        jobs = null;
        go.textContent = start;
        if (status.textContent.endsWith('…')) status.say('');
    };
    const go = button(
        start,
        async () => {
            if (jobs) return void end();
            const mine = (jobs = []),
                isOn = () => jobs === mine,
                run = (job) => mine.push(job) && job.promise;
            go.textContent = stop;
            await orSay(status, () => begin(run, isOn));
            if (isOn()) end();
        },
        look,
    );
    return Object.assign(go, { end, isOn: () => jobs !== null });
}

// Calls `draw` once before the next picture, however often it was asked for; a hidden tab draws when it is seen again.
export function onceAFrame(draw) {
    let asked = false;
    return () => {
        if (asked) return;
        asked = true;
        requestAnimationFrame(() => {
            asked = false;
            draw();
        });
    };
}

// Calls `work` when nothing has been asked for so many milliseconds.
export function afterPause(ms, work) {
    let timer;
    return (...args) => {
        clearTimeout(timer);
        timer = setTimeout(work, ms, ...args);
    };
}

// Elements of the state's own: a number field, a text field.
export function stateField(label, key, properties) {
    const input = h('input', { value: state.get(key), ...properties });
    input.onchange = () => {
        if (state.put(key, input.value)) input.setCustomValidity('');
        else input.setCustomValidity(`${label}: ${state.expects(key)}`);
        input.reportValidity();
    };
    state.on(key, () => {
        if (document.activeElement !== input) input.value = state.get(key);
    });
    return labelled(label, input);
}
