// A text grows past 512 under a dynamic scale. Keys that were cached turned keep the scale of their time.
import { chart } from '../chart.js';
import { chips, command, count, h, onceAFrame, short, stateChips, stateSlider, statusLine, strip } from '../dom.js';
import { runs } from '../job.js';
import { lookOf } from '../methods.js';
import { movingPerplexity, perplexity } from '../numbers.js';
import { readText } from '../reading.js';
import { choice, number, state } from '../state.js';

const NAMES = ['dynamic-linear', 'dynamic-yarn', 'dynamic-ntk'];

export function staleKeys({ file, engine, page, shipped, recorded, book }) {
    const L = shipped.trainedContext,
        N = 2.5 * L;
    state.add('growing', choice(NAMES), NAMES[0]);
    state.add('grown', number(1, N), Math.round((900 / 512) * L));
    const status = statusLine(),
        line = command();
    const plot = chart({
        label: 'Perplexity token by token',
        height: 240,
        x: { domain: [64, N], label: 'position', name: 'position' },
        y: { log: true, label: 'stale keys: times as perplexed as with fresh ones', domain: [0.8, 5] },
        rule: { at: L, text: 'the scale begins to grow' },
        level: { at: 1, text: 'as with fresh keys' },
        show: (v) => v.toFixed(2),
    });
    const ghosts = () => {
        plot.clear(false);
        for (const name of NAMES) {
            const known = recorded.stale[name];
            if (!known) continue;
            const { fresh, stale: kept } = known;
            const ratio = kept.map(([position, value], i) => [position, value / fresh[i][1]]);
            plot.set(`~${name}`, ratio, { ...lookOf(name), ghost: true });
        }
    };
    const keys = h('canvas.strip', { role: 'img' }),
        keyText = h('p.readout');
    let stale = true;

    // Keys coloured by the scale they are turned with, when the text has grown so far.
    function draw() {
        const grown = state.get('grown'),
            name = state.get('growing');
        const plan = page.plan(name, N),
            scaleAt = (n) => plan.frequencies(n).scale,
            now = scaleAt(grown),
            most = scaleAt(N);
        const { paint, scale, hot } = strip(keys),
            step = 8;
        for (let p = 0; p < grown; p += step) {
            const s = stale ? scaleAt(p + 1) : now;
            paint.fillStyle = hot(0.12 + (0.88 * (s - 1)) / Math.max(1e-9, most - 1));
            const from = Math.floor((p / N) * keys.width),
                to = Math.floor((Math.min(grown, p + step) / N) * keys.width);
            paint.fillRect(from, 0, to - from, keys.height);
        }
        paint.fillStyle = getComputedStyle(keys).getPropertyValue('--blue');
        paint.fillRect((grown / N) * keys.width - 2 * scale, 0, 3 * scale, keys.height);
        keyText.textContent = `The query at ${count(grown)} is turned at scale ${short(now)}. ${
            stale
                ? `The first keys were turned at 1, the last at ${short(now)}: ` +
                  'the angle between is no longer a matter of distance.'
                : `All ${count(grown)} keys are turned at ${short(now)}, too.`
        }`;
        keys.ariaLabel = keyText.textContent;
        line.put(
            ...['', '--stale-keys '].map(
                (option) => `./run ${file} --ppl book.txt -n ${N} --kv f32 --stepwise ${option}--rope ${name}`,
            ),
        );
    }
    const redraw = onceAFrame(draw);
    const reading = runs({
        engine,
        status,
        inputs: ['growing'],
        work: readTwice,
        stale: () => {
            status.say('');
            ghosts();
        },
    });
    async function readTwice(run) {
        ghosts();
        status.say(`${count(N)} tokens, one at a time, twice …`);
        const grown = [[], []];
        const read = (isStale, i) =>
            readText(run, { wish: 'steps', method: run.input.growing, text: book, n: N, stale: isStale }, (nlls) => {
                grown[i] = nlls;
                const both = grown[1].slice(0, grown[0].length).map((nll, at) => nll - grown[0][at]);
                plot.set(run.input.growing, movingPerplexity(both, 128, 16), lookOf(run.input.growing));
            });
        const [fresh, kept] = await Promise.all([false, true].map(read));
        status.say(
            `Past ${L}: ${perplexity(fresh, L - 1, N).toFixed(1)} with keys turned when they are read, ` +
                `${perplexity(kept, L - 1, N).toFixed(1)} with stale ones.`,
        );
    }
    const go = reading.button(['Read token by token'], { primary: true });
    const methods = stateChips(
        'method',
        'growing',
        NAMES.map((n) => [n, n]),
    );
    const ways = chips(
        'keys',
        [
            ['stale', 'keys cached turned'],
            ['fresh', 'turned when read'],
        ],
        {
            get: () => (stale ? 'stale' : 'fresh'),
            set: (v) => {
                stale = v === 'stale';
                redraw();
            },
        },
    );
    const control = stateSlider('the text has grown to', 'grown', { min: 1, max: N, step: 1, show: count });
    ghosts();
    state.on(['growing', 'grown'], redraw);
    new ResizeObserver(redraw).observe(keys);
    return {
        id: 'stale',
        title: 'Growing texts and stale keys',
        body: [
            h(
                'p',
                'A dynamic scale grows with the text, so every hand slows a little with each token. But old keys were ' +
                    'cached as they were turned then: Hugging Face’s generate keeps them so. Linear slows the fast hands, too, ' +
                    'and pays most.',
            ),
            methods,
            h('div.row', control),
            ways,
            keys,
            keyText,
            h('div.row.middle', go),
            status,
            plot,
            line,
        ],
    };
}
