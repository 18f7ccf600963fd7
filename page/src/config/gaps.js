// The numbers that a block alone does not say: fields that ask for them, before anything is said of the block.
import { h } from '../dom.js';

// By the program's option, and by the key that a config has for it; and what many models have.
const GAPS = {
    headDim: { option: '--head-dim', key: 'head_dim', often: 128 },
    theta: { option: '--theta', key: 'rope_theta', often: 1000000 },
    trainedContext: { option: '--train-ctx', key: 'max_position_embeddings', often: 4096 },
    served: { key: 'max_position_embeddings', often: 131072 }, // beside a block, see lacksServed
};

const listed = (names) => names.join(', ').replace(/, ([^,]*)$/, ' and $1');

// { box, numbers, ask, forget, options }: where the fields are; the numbers typed in, or usual ones meanwhile. `onchange`
// is called when one was typed.
export function gapFields(onchange) {
    const numbers = {},
        typed = {},
        fields = {},
        inputs = {};
    for (const [gap, { key, often }] of Object.entries(GAPS)) {
        numbers[gap] = often;
        const input = h('input', {
            type: 'number',
            size: 9,
            min: 0,
            placeholder: `such as ${often}`,
            oninput() {
                typed[gap] = +input.value > 0;
                numbers[gap] = typed[gap] ? +input.value : often;
                onchange();
            },
        });
        inputs[gap] = input;
        fields[gap] = h('label.field', h('span', key), input);
    }
    const said = h('p'),
        box = h('div.gaps', { hidden: true }, said, h('div.row', Object.values(fields)));
    return {
        box,
        numbers,
        // Asks for what a config leaves out, `filled`, and tells whether something still lacks.
        ask(filled) {
            box.hidden = !filled.length;
            for (const gap of Object.keys(GAPS)) fields[gap].hidden = !filled.includes(gap);
            const lacking = filled.filter((gap) => !typed[gap]);
            said.textContent = lacking.length
                ? `This block does not say ${listed(lacking.map((gap) => GAPS[gap].key))}. What does your model have?`
                : 'With these numbers:';
            return lacking.length > 0;
        },
        // What was typed for a gap is of another model.
        forget(gap) {
            typed[gap] = false;
            inputs[gap].value = '';
        },
        // What a command needs beside the config.
        options: (told) =>
            told.filled.filter((gap) => GAPS[gap].option).map((gap) => ` ${GAPS[gap].option} ${told[gap]}`).join(''),
    };
}
