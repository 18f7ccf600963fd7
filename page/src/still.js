// What a chapter shows where the program cannot run: the pictures that were recorded of it.
import { chart, legend } from './chart.js';
import { h } from './dom.js';
import { lookOf } from './methods.js';
import { recordedGrid } from './panels/grid.js';
import { theText } from './panels/opening.js';

const TRAINED = 512,
    RACED = 2048; // positions

// Recorded curves by method.
function curves(all, names, { label, y, to }) {
    const plot = chart({
        label,
        height: 260,
        x: { domain: [0, to], label: 'position', name: 'position' },
        y: { log: true, label: y, most: 600 },
        rule: { at: TRAINED, text: 'training ended' },
        show: (v) => v.toFixed(1),
    });
    for (const name of names) plot.set(name, all[name], lookOf(name));
    return h('div', plot, legend(names.map(lookOf)));
}

const PICTURES = {
    breaks: (recorded) => h('div', theText({ recorded, own: null }).body),
    mend: ({ race }) =>
        curves(race[RACED], ['none', 'linear', 'ntk', 'yarn'], {
            label: 'Perplexity of a story by position',
            y: 'perplexity of a story that is read',
            to: RACED,
        }),
    proof: ({ passkey }) =>
        h(
            'div',
            h('p.fine', 'Rows: length of the text. Columns: how far into it the number is. ✓: the model found it.'),
            recordedGrid({ trainedContext: TRAINED }, passkey).box,
        ),
};

/** The recorded picture of a chapter, or a line in its place. @param {string} id @param {any} recorded */
export const still = (id, recorded) =>
    h(
        'div.still',
        PICTURES[id]?.(recorded) ?? h('p.fine', 'This chapter needs the program, which cannot run here.'),
    );
