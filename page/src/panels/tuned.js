// Two hundred steps of tuning. The race and the key once more, with the sibling that was trained on at the
// stretched scale.
import { chart, legend } from '../chart.js';
import { command, count, fact, h, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { DEPTHS, keyOf } from '../haystack.js';
import { isOneFile } from '../engine.js';
import { colourOf } from '../methods.js';
import { movingPerplexity, perplexity } from '../numbers.js';
import { readText } from '../reading.js';

const N = 4096,
    WIDE = 512, // tokens that a point is the mean of
    TUNED = 'yarn:factor=16';
const RACERS = [
    ['model', 'yarn', 'yarn, untuned', colourOf('yarn'), ''],
    ['model', 'window', 'window', colourOf('window'), '2 3'],
    ['model-8k', TUNED, 'tuned', colourOf('ntk'), ''],
];

// How many times as perplexed as another reading of the same text, along it.
const against = (nlls, others) => {
    const n = Math.min(nlls.length, others.length);
    const more = nlls.slice(0, n).map((nll, i) => nll - others[i]);
    return movingPerplexity(more, WIDE, 16);
};
const past = (nlls) => perplexity(nlls, 2047, N).toFixed(1);

export function tuned({ engine, shipped, recorded, book }) {
    const L = shipped.trainedContext,
        status = statusLine(),
        keys = h('div.numbers', { ariaLive: 'polite' });
    const plot = chart({
        label: 'Perplexity before and after tuning',
        height: 260,
        x: {
            domain: [256, N],
            log: true,
            label: 'position',
            name: 'position',
            ticks: [256, 512, 1024, 2048, 4096],
        },
        y: { label: `times as perplexed as the window, over the last ${WIDE} tokens` },
        rule: { at: L, text: 'training ended, before' },
        level: { at: 1, text: 'the window' },
        show: (v) => v.toFixed(2),
    });
    const known = (model, method) => recorded.tuned[`${model} ${method.split(':')[0]}`];
    for (const [model, method, title, colour] of RACERS) {
        if (method === 'window') continue;
        const ratio = known(model, method).map(([at, value], i) => [at, value / known('model', 'window')[i][1]]);
        plot.set(`~${title}`, ratio, { colour, title, ghost: true });
    }
    const racing = runs({
        engine,
        status,
        work: async (run) => {
            keys.replaceChildren();
            plot.clear(true);
            status.say(`${isOneFile ? 'Opening' : 'Fetching'} model-8k.bin …`);
            await engine.open('model-8k');
            if (!run.isOn) return;
            status.say(`Reading ${count(N)} tokens, three times …`);
            const read = {};
            const follow = ([model, method, name]) =>
                readText(run, { model, method, text: book, n: N }, (nlls) => {
                    read[name] = nlls;
                    for (const [, , title, colour] of RACERS)
                        if (title !== 'window' && read[title] && read.window)
                            plot.set(title, against(read[title], read.window), { colour, title });
                });
            const all = await Promise.all(RACERS.map(follow)),
                figures = RACERS.map(([, , title], i) => `${title} ${past(all[i])}`).join(', ');
            status.say(`Past 2,048: ${figures}. Now the keys …`);
            const found = await seek(run);
            status.say(`Past 2,048: ${figures}. ${found} of ${DEPTHS.length} keys found.`);
        },
    });
    async function seek(run) {
        let found = 0;
        for (const [i, depth] of DEPTHS.entries()) {
            const key = keyOf(1, N, i, 0),
                hidden = { model: 'model-8k', method: TUNED, length: N, context: N, depth, key };
            const { answer } = await run.ask('hide', hidden);
            found += +(answer === key);
            keys.replaceChildren(fact(`${found} of ${i + 1}`, `keys found in ${count(N)} tokens`));
        }
        return found;
    }
    const go = racing.button([isOneFile ? 'Race' : 'Fetch it and race (5.8 MB)'], { primary: true });
    const pick = h('input', { type: 'file', accept: '.bin', ariaLabel: 'model-8k.bin' });
    if (isOneFile) go.disabled = true; // until it is picked
    pick.onchange = async () => {
        const [file] = pick.files;
        if (!file) return;
        try {
            await engine.give('model-8k', file, {
                refuse: (facts) => {
                    if (facts.method === 'yarn' && facts.factor === 16) return '';
                    const scale = facts.factor ? ` of factor ${facts.factor}` : '';
                    return `${file.name} is another model: ${facts.method}${scale}, where yarn of factor 16 is expected`;
                },
            });
            go.disabled = false;
            racing.begin();
        } catch (error) {
            if (!error.isCancelled) status.say(error.message, true);
        }
    };
    return {
        id: 'tuned',
        title: 'Two hundred steps of tuning',
        body: [
            h(
                'p',
                'The same model after 200 steps of training with YaRN on long texts. It reads them as well as the ' +
                    'window does, and sees everything.',
            ),
            isOneFile
                ? h(
                      'p.fine',
                      'This page is one file, and the tuned model is not in it. It is model-8k.bin in the repository: ',
                      pick,
                  )
                : null,
            h('div.row.middle', go),
            status,
            legend(
                RACERS.filter(([, , title]) => title !== 'window').map(([, , title, colour]) => ({ title, colour })),
            ),
            plot,
            keys,
            command(
                `./run model.bin --ppl book.txt -n ${N} --kv f32 --rope yarn,window`,
                `./run model-8k.bin --ppl book.txt -n ${N} --kv f32 --rope ${TUNED}`,
                `./run model-8k.bin --passkey -n ${N} --trials 1 -s 1 --kv f32 --rope ${TUNED}`,
            ),
        ],
    };
}
