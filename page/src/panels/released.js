// Models that people use: their clocks by their own theta, and where they break, as measured on a novel.
import { chart, legend } from '../chart.js';
import { count, h, short, stateChips, stateSlider } from '../dom.js';
import { lookOf } from '../methods.js';
import { TURN } from '../numbers.js';
import { choice, number, state } from '../state.js';
import { clocks } from './dial.js';

// By their config.json; of each, what docs/figures has measured, `how` in words.
const MODELS = {
    smollm2: { name: 'SmolLM2 135M', theta: 100000, head: 64, trained: 8192, how: 'whole text of 16,384 tokens' },
    gemma3: {
        ...{ name: 'Gemma 3 270M', theta: 1000000, head: 256, trained: 32768, how: 'whole text of 49,152 tokens' },
        more: ' Its full layers; the others see 512 tokens.',
    },
    qwen: {
        ...{ name: 'Qwen2.5-Coder 0.5B', theta: 1000000, head: 64, trained: 32768 },
        how: 'a text of 1,024 tokens in pieces that jump apart, which shows angles and no crowd',
    },
};
const MOST = 4; // trained lengths
const FACES = 32; // of a larger head every second, or every fourth

export function realModels({ small, recorded }) {
    state.add('released', choice(Object.keys(MODELS)), 'smollm2');
    state.add('times', number(0.1, MOST, false), 2);
    const faces = h('div'),
        told = h('p.readout', { ariaLive: 'polite' }),
        breaks = h('div'),
        plots = {};
    function plotOf(id) {
        const { trained } = MODELS[id],
            rows = recorded.released?.[id] ?? {};
        const plot = chart({
            label: `Perplexity of ${MODELS[id].name} by position, on a novel`,
            height: 220,
            x: { domain: [64, MOST * trained], log: true, label: 'position', name: 'position' },
            y: { log: true, label: 'perplexity' },
            rule: { at: trained, text: 'training ended' },
            show: (v) => v.toFixed(1),
        });
        const names = Object.keys(rows);
        for (const name of names) plot.set(name, rows[name], lookOf(name));
        return h('div', plot, legend(names.map(lookOf)));
    }
    let board = null; // { id, put }
    function draw() {
        const id = state.get('released'),
            { name, theta, head, trained, how, more = '' } = MODELS[id],
            page = small.describe(head, theta, trained),
            { plain } = page.plan('none', trained).frequencies(trained),
            every = Math.max(1, head / 2 / FACES),
            shown = Array.from(plain).filter((_, i) => i % every === 0),
            distance = Math.round(state.get('times') * trained),
            never = Array.from(plain).filter((f) => f * trained < TURN).length;
        page.close();
        if (board?.id !== id) {
            board = { id, ...clocks(shown.length, trained) };
            faces.replaceChildren(board.box);
            plots[id] ??= plotOf(id);
            breaks.replaceChildren(plots[id]);
        }
        const past = board.put(shown, shown, distance).filter(Boolean).length;
        told.textContent =
            `${name}, theta ${count(theta)}, ${count(trained)} positions in training: ${never} of ${plain.length} pairs never ` +
            `went round.${every > 1 ? ` Here is one in ${every}.` : ''} ${count(distance)} tokens back, ${past} of these hands ` +
            `are past their arc.${more} Below, its perplexity on a novel: ${how}.`;
    }
    state.on(['released', 'times'], draw);
    draw();
    return {
        id: 'released',
        title: 'Models that people use',
        body: [
            stateChips('model', 'released', Object.entries(MODELS).map(([id, { name }]) => [id, name])),
            stateSlider('distance, in trained lengths', 'times', { min: 0.1, max: MOST, step: 0.05, show: (x) => short(x, 3) }),
            faces,
            told,
            breaks,
        ],
    };
}
