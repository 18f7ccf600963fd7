// The numbers that a block alone does not say: fields for them. Where the config says one, its field shows that and
// cannot be changed.
import { count, h } from '../dom.js';

// By the program's option, and by the key that a config has for it; and what stands in until one says otherwise.
const GAPS = {
    headDim: { option: '--head-dim', key: 'head_dim', label: 'head_dim', first: 128 },
    theta: { option: '--theta', key: 'rope_theta', label: 'rope_theta', first: 10000 },
    trainedContext: {
        option: '--train-ctx',
        key: 'max_position_embeddings',
        label: 'trained context',
        first: 4096,
    },
};

// { fields, said, numbers, put, clear, options }: where the fields stand, and the line below them; the numbers typed in.
// `onchange` is called when one was.
export function gapFields(onchange) {
    const numbers = {};
    const inputs = {};
    for (const [gap, { first }] of Object.entries(GAPS)) {
        numbers[gap] = first;
        inputs[gap] = h('input', {
            type: 'number',
            value: first,
            size: 9,
            min: 0,
            oninput() {
                numbers[gap] = Math.max(0, +inputs[gap].value || 0);
                onchange();
            },
        });
    }
    const labels = Object.entries(GAPS).map(([gap, { label }]) => h('label.field', h('span', label), inputs[gap]));
    const fields = h('details', h('summary', 'what a bare block leaves out'), h('div.row', labels));
    const said = h('p.fine');

    // A config says a number, or (undefined) it does not.
    function show(gap, number) {
        const input = inputs[gap];
        input.disabled = number !== undefined;
        if (document.activeElement !== input) input.value = number ?? numbers[gap];
    }

    return {
        fields,
        said,
        numbers,
        // `told` are a config's facts, with the gaps that were filled.
        put(told) {
            const has = { headDim: told.wholeHead, theta: told.theta, trainedContext: told.trainedContext };
            for (const gap of Object.keys(GAPS)) show(gap, told.filled.includes(gap) ? undefined : has[gap]);
            const taken = told.filled.map((gap) => `${GAPS[gap].key} is taken to be ${count(told[gap])}`);
            if (taken.length) fields.open = true;
            said.textContent = taken.length
                ? `It does not say everything: ${taken.join(', ')}. Change it in the fields above.`
                : '';
        },
        clear() {
            said.textContent = '';
            for (const gap of Object.keys(GAPS)) show(gap, undefined);
        },
        // What a command needs beside the config.
        options: (told) => told.filled.map((gap) => ` ${GAPS[gap].option} ${told[gap]}`).join(''),
    };
}
