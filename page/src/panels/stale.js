// 10: a text grows past 512 under a dynamic scale. Keys that were cached turned keep the scale of their time.
import { chart } from '../chart.js';
import { button, chips, command, count, h, onceAFrame, orSay, short, slider, statusLine } from '../dom.js';
import { movingPerplexity, perplexity } from '../numbers.js';
import { number, state, text } from '../state.js';

const N = 1280,
    NAMES = ['dynamic-ntk', 'dynamic-yarn', 'dynamic-linear'];
const SETTINGS = [
    ['fresh', 'turned when they are read', 'var(--blue)', ''],
    ['stale', 'cached turned', 'var(--vermillion)', '6 3'],
];

export function staleKeys({ engine, page, shipped, recorded, book }) {
    const L = shipped.trainedContext;
    state.add('growing', text(40), 'dynamic-ntk');
    state.add('grown', number(1, N), 900);
    const status = statusLine(),
        line = command('');
    const plot = chart({
        label: 'Perplexity token by token',
        height: 240,
        x: { domain: [64, N], label: 'position', name: 'position' },
        y: { log: true, label: 'perplexity of the last 128, token by token' },
        rule: { at: L, text: 'the scale begins to grow' },
        show: (v) => v.toFixed(1),
    });
    const ghosts = () => {
        plot.clear(false);
        const known = recorded.stale[state.get('growing')];
        for (const [id, title, colour, dash] of SETTINGS)
            if (known) plot.set(`~${id}`, known[id], { colour, dash, title, ghost: true });
    };
    const keys = h('canvas.strip', { role: 'img' }),
        keyText = h('p.readout', { ariaLive: 'polite' });
    let jobs = [];
    let stale = true;

    // Keys coloured by the scale they are turned with, when the text has grown so far.
    function draw() {
        const grown = state.get('grown'),
            name = state.get('growing');
        page.plan(name, N);
        const scaleAt = (n) => page.frequencies(n).scale,
            now = scaleAt(grown),
            most = scaleAt(N);
        const ratio = Math.max(1, Math.round(devicePixelRatio));
        keys.width = Math.max(1, keys.clientWidth * ratio);
        keys.height = 44 * ratio;
        const paint = keys.getContext('2d'),
            style = getComputedStyle(document.documentElement);
        const heat = style.getPropertyValue('--heat').trim().split(' ').join(','),
            step = 8;
        for (let p = 0; p < grown; p += step) {
            const s = stale ? scaleAt(p + 1) : now;
            paint.fillStyle = `rgba(${heat},${(0.12 + (0.88 * (s - 1)) / Math.max(1e-9, most - 1)).toFixed(3)})`;
            const from = Math.floor((p / N) * keys.width),
                to = Math.floor((Math.min(grown, p + step) / N) * keys.width);
            paint.fillRect(from, 0, to - from, keys.height);
        }
        paint.fillStyle = style.getPropertyValue('--blue');
        paint.fillRect((grown / N) * keys.width - 2 * ratio, 0, 3 * ratio, keys.height);
        keyText.textContent = `The query at ${count(grown)} is turned at scale ${short(now)}. ${
            stale
                ? `The first keys were turned at 1, the last at ${short(now)}: ` +
                  'the angle between is no longer a matter of distance.'
                : `All ${count(grown)} keys are turned at ${short(now)}, too.`
        }`;
        keys.ariaLabel = keyText.textContent;
        line.put(
            `./run model.bin --ppl page/book.txt -n ${N} --stepwise ${stale ? '--stale-keys ' : ''}--rope ${name}`,
        );
        for (const c of [methods, ways]) c.draw();
    }
    const redraw = onceAFrame(draw);
    const go = button(
        'Read token by token',
        async () => {
            if (jobs.length) {
                for (const job of jobs) job.cancel();
                jobs = [];
                go.textContent = 'Read token by token';
                return;
            }
            go.textContent = 'Stop';
            ghosts();
            status.say(`${count(N)} tokens, one at a time, twice …`);
            const all = {},
                mine = SETTINGS.map(([id, title, colour, dash]) => {
                    const nlls = (all[id] = []);
                    return engine.ask(
                        'steps',
                        {
                            model: 'model',
                            method: state.get('growing'),
                            text: book.slice(0, 40 * N),
                            context: N,
                            stale: id === 'stale',
                        },
                        ({ from, nll }) => {
                            nll.forEach((x, i) => {
                                nlls[from - 1 + i] = x;
                            });
                            plot.set(id, movingPerplexity(nlls, 128, 16), { colour, dash, title });
                        },
                    );
                });
            jobs = mine;
            await orSay(status, async () => {
                await Promise.all(mine.map((job) => job.promise));
                status.say(
                    `Past ${L}: ${perplexity(all.fresh, L, N).toFixed(1)} with keys turned when they are read, ` +
                        `${perplexity(all.stale, L, N).toFixed(1)} with stale ones.`,
                );
            });
            if (jobs === mine) jobs = [];
            go.textContent = 'Read token by token';
        },
        { primary: true },
    );
    const methods = chips(
        'method',
        NAMES.map((n) => [n, n]),
        { get: () => state.get('growing'), set: (v) => state.set('growing', v) },
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
    const control = slider('the text has grown to', {
        min: 1,
        max: N,
        step: 1,
        value: state.get('grown'),
        show: count,
        oninput: (v) => state.set('grown', v),
    });
    state.on('growing', ghosts);
    ghosts();
    state.on(['growing', 'grown'], () => {
        control.put(state.get('grown'));
        redraw();
    });
    new ResizeObserver(redraw).observe(keys);
    return {
        number: 10,
        id: 'stale',
        title: 'Growing texts and stale keys',
        body: [
            h(
                'p',
                'A dynamic scale follows the text: 1 up to 512, then it grows, and every hand slows a little with ' +
                    'each token. But keys were cached before. Hugging Face’s generate keeps them as they were ' +
                    'turned then.',
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
