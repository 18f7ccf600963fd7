// RoPE taken away: a small model that lost its RoPE after training, beside those that kept it and that never had any. What
// is drawn is docs/figures/dropped.tsv and dropped-keys.tsv, as `make figures` measured them.
import { chart, legend } from '../chart.js';
import { command, count, h } from '../dom.js';

/* global DROPPED -- rows of both tables, [model, length, ...], which build.mjs puts here */

const TRAINED = 256,
    LENGTHS = [64, 128, 256, 512, 1024, 2048, 4096];
const LOOKS = {
    rope: { colour: 'var(--vermillion)', title: 'RoPE' },
    'rope, yarn': { colour: 'var(--blue)', title: 'RoPE, with YaRN' },
    none: { colour: 'var(--purple)', title: 'never had RoPE' },
    dropped: { colour: 'var(--green)', title: 'RoPE taken away' },
};

// The points of a model, [length, value].
const points = (rows, model, valueOf) =>
    rows.filter(([name]) => name === model).map(([, length, ...cells]) => [+length, valueOf(...cells)]);
const perplexities = (model) => points(DROPPED.perplexity, model, (_, nll) => Math.exp(nll));
const keys = (model) => points(DROPPED.keys, model, (_, share) => 100 * share);
const at = (all, length) => all.find(([n]) => n === length)[1];

function picture(label, y, valuesOf, show) {
    const plot = chart({
        label,
        height: 240,
        x: { domain: [LENGTHS[0], LENGTHS.at(-1)], log: true, label: 'tokens', name: 'tokens', ticks: LENGTHS },
        y,
        rule: { at: TRAINED, text: 'training ended' },
        show,
    });
    for (const [model, look] of Object.entries(LOOKS)) plot.set(model, valuesOf(model), look);
    return plot;
}

// What came of it, in numbers of the tables.
function outcome() {
    const longest = LENGTHS.at(-1),
        of = (model, length) => at(perplexities(model), length).toFixed(0),
        found = (model, length) => `${Math.round(at(keys(model), length))} %`,
        more = 100 * (at(perplexities('dropped'), TRAINED) / at(perplexities('rope'), TRAINED) - 1);
    return [
        `Nothing breaks without RoPE: from ${TRAINED} to ${count(longest)} tokens perplexity goes from ` +
            `${of('dropped', TRAINED)} to ${of('dropped', longest)}. With RoPE it goes from ${of('rope', TRAINED)} to ` +
            `${of('rope', longest)}.`,
        `But the model does not come back. At ${TRAINED} it is ${more.toFixed(0)} % more perplexed than with RoPE, and finds ` +
            `${found('dropped', TRAINED)} of the keys in place of ${found('rope', TRAINED)}.`,
        `YaRN needs no training. With it perplexity at ${count(longest)} is ${of('rope, yarn', longest)}, and ` +
            `${found('rope, yarn', longest)} of the keys are found.`,
    ];
}

export const ropeTakenAway = () => ({
    id: 'dropped',
    title: 'RoPE taken away',
    body: [
        h(
            'p',
            'If new angles break a model, why not take its RoPE away once it is trained? ',
            h('a', { href: 'https://arxiv.org/abs/2512.12167', target: '_blank', rel: 'noreferrer' }, 'DroPE'),
            ' does that, and trains on for a while. Its authors find that such models do as well as before, and better in long ' +
                `texts. Here is a small one: trained on ${TRAINED} tokens, then without RoPE for an eighth of its steps more.`,
        ),
        legend(Object.values(LOOKS)),
        h(
            'div.two',
            picture(
                'Perplexity by length, with RoPE and without',
                { label: 'perplexity', domain: [85, 135] },
                perplexities,
                (v) => v.toFixed(0),
            ),
            picture(
                'Keys found by length, with RoPE and without',
                { label: 'keys found, %', domain: [0, 102] },
                keys,
                (v) => `${v.toFixed(0)} %`,
            ),
        ),
        ...outcome().map((words) => h('p', words)),
        h(
            'p.fine',
            'Measured on Great Expectations, with 20 keys at each length. The authors’ models have 360 million to 7 billion ' +
                'parameters, this one 1.5 million. On the story that ships here:',
        ),
        command(
            './run models/dropped.bin --ppl book.txt -n 4096',
            './run models/rope.bin --ppl book.txt -n 4096 --rope none,yarn',
            './run models/dropped.bin --tasks passkey -n 1024',
        ),
    ],
});
