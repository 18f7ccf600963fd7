// 12: two hundred steps of tuning. The race and the key once more, with the sibling that was trained on at the
// stretched scale.
import { chart, legend } from '../chart.js';
import { button, command, count, fact, h, orSay, statusLine } from '../dom.js';
import { keyOf } from '../haystack.js';
import { isOneFile } from '../engine.js';
import { colourOf } from '../methods.js';
import { movingPerplexity, perplexity } from '../numbers.js';
import { readText, SPAN } from '../reading.js';

const N = 4096;
const RACERS = [
    ['model', 'yarn', 'yarn, untuned', colourOf('yarn'), ''],
    ['model', 'window', 'window', colourOf('window'), '2 3'],
    ['model-8k', 'yarn:factor=16', 'tuned', colourOf('ntk'), ''],
];

const past = (nlls) => perplexity(nlls, 2047, N).toFixed(1);

export function tuned({ engine, shipped, recorded, book }) {
    const L = shipped.trainedContext,
        status = statusLine(),
        keys = h('div.numbers', { ariaLive: 'polite' });
    const plot = chart({
        label: 'Perplexity before and after tuning',
        height: 260,
        x: {
            domain: [64, N],
            log: true,
            label: 'position',
            name: 'position',
            ticks: [64, 128, 256, 512, 1024, 2048, 4096],
        },
        y: { log: true, label: `perplexity of the last ${SPAN} tokens` },
        rule: { at: L, text: 'training ended, before' },
        show: (v) => v.toFixed(1),
    });
    for (const [model, method, title, colour, dash] of RACERS) {
        const known = recorded.tuned[`${model} ${method.split(':')[0]}`];
        if (known) plot.set(`~${title}`, known, { colour, dash, title, ghost: true });
    }
    let jobs = [];
    const go = button(
        'Fetch it and race (5.8 MB)',
        async () => {
            for (const job of jobs) job.cancel();
            go.disabled = true;
            await orSay(status, async () => {
                status.say('Fetching model-8k.bin …');
                await engine.open('model-8k');
                status.say(`Reading ${count(N)} tokens, three times …`);
                const all = {};
                jobs = RACERS.map(([model, method, title, colour, dash]) =>
                    readText(engine, { model, method, text: book, n: N }, (nlls) => {
                        all[title] = nlls;
                        plot.set(title, movingPerplexity(nlls, SPAN, 16), { colour, dash, title });
                    }),
                );
                await Promise.all(jobs.map((job) => job.promise));
                status.say(
                    `Past 2,048: ${RACERS.map(([, , t]) => `${t} ${past(all[t])}`).join(', ')}. ` + 'Now the keys …',
                );
                let found = 0;
                for (let depth = 0; depth < 5; depth++) {
                    const key = keyOf(1, N, depth, 0);
                    const { answer } = await engine.ask('hide', {
                        model: 'model-8k',
                        method: 'yarn:factor=16',
                        length: N,
                        depth: depth / 4,
                        key,
                        context: N,
                    }).promise;
                    found += answer === key;
                    keys.replaceChildren(fact(`${found} of ${depth + 1}`, `keys found in ${count(N)} tokens`));
                }
            });
            go.disabled = false;
            go.textContent = 'Race again';
        },
        { primary: true },
    );
    const pick = h('input', { type: 'file', accept: '.bin', ariaLabel: 'model-8k.bin' });
    pick.onchange = async () => {
        if (!pick.files[0]) return;
        engine.give('model-8k.bin', await pick.files[0].arrayBuffer());
        go.click();
    };
    return {
        number: 12,
        id: 'tuned',
        title: 'Two hundred steps of tuning',
        body: [
            h(
                'p',
                'The same model after 200 steps of training with YaRN on long windows. Perplexity on long text ' +
                    'comes down to the window’s, and it sees everything.',
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
            legend(RACERS.map(([, , title, colour, dash]) => ({ title, colour, dash }))),
            plot,
            keys,
            command(`./run model-8k.bin --ppl book.txt -n ${N} --rope yarn,window`),
        ],
    };
}
