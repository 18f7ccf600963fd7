// 9: the same page twice. Whoever sees the first copy is not surprised by the second.
import {
    button,
    command,
    count,
    counts,
    h,
    onceAFrame,
    orSay,
    predict,
    short,
    stateChips,
    statusLine,
    strip,
} from '../dom.js';
import { colourOf, titleOf } from '../methods.js';
import { perplexity } from '../numbers.js';
import { readText } from '../reading.js';
import { number, state } from '../state.js';

const NAMES = ['none', 'yarn', 'window'];

export function samePageTwice({ engine, book }) {
    state.add('half', number(64, 2000), 700);
    const status = statusLine(),
        line = command(''),
        rows = h('div');
    let results = {},
        jobs = [],
        pieces = [];
    const legendOf = (name) => {
        const dot = h('i.dot');
        dot.style.background = colourOf(name);
        return dot;
    };
    const strips = Object.fromEntries(
        NAMES.map((name) => {
            const canvas = h('canvas.strip', {
                tabIndex: 0,
                role: 'img',
                ariaLabel: `surprise of each token by ${titleOf(name)}`,
            });
            const says = h('p.readout'),
                head = h('p', legendOf(name), h('b', titleOf(name)), h('span'));
            let at = null;
            const tell = () => {
                const nlls = results[name] ?? [],
                    i = at === null ? null : Math.min(nlls.length - 1, Math.max(0, Math.round(at)));
                says.textContent =
                    i === null || !nlls.length
                        ? ''
                        : `position ${i + 1}: “${(pieces[i + 1] ?? '').trim() || '␣'}” −ln p = ${short(nlls[i])}`;
            };
            canvas.onpointermove = (event) => {
                at = (event.offsetX / canvas.clientWidth) * (results[name]?.length ?? 0);
                tell();
            };
            canvas.onkeydown = (event) => {
                const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
                if (!by) return;
                event.preventDefault();
                at = (at ?? 0) + by * (event.shiftKey ? 50 : 1);
                tell();
            };
            return [name, { canvas, says, head, box: h('div', head, canvas, says) }];
        }),
    );
    rows.append(...NAMES.map((name) => strips[name].box));

    function draw() {
        const half = state.get('half');
        for (const name of NAMES) {
            const { canvas, head } = strips[name],
                nlls = results[name] ?? [],
                n = 2 * half;
            const { paint, scale, hot } = strip(canvas),
                w = canvas.width / n;
            nlls.forEach((nll, i) => {
                paint.fillStyle = hot(Math.min(1, nll / 9));
                paint.fillRect(i * w, 0, Math.max(1, w), canvas.height);
            });
            paint.fillStyle = getComputedStyle(canvas).color;
            paint.fillRect(canvas.width / 2 - scale, 0, 2 * scale, canvas.height);
            const first = perplexity(nlls, 1, half),
                second = perplexity(nlls, half + 8, n);
            head.lastChild.textContent =
                nlls.length > half + 20 ? `  first copy ${first.toFixed(1)}, second ${second.toFixed(1)}` : '';
        }
        line.put(`./run model.bin --tasks copy -n ${Math.max(512, 2 * half)} --rope none,yarn,window`);
    }
    const redraw = onceAFrame(draw);

    async function start() {
        for (const job of jobs) job.cancel();
        results = {};
        const half = state.get('half'),
            mine = [];
        jobs = mine;
        status.say(`Reading ${count(half)} tokens, twice …`);
        await orSay(status, async () => {
            const encoded = await engine.ask('encode', { model: 'model', text: book.slice(0, 20 * half), bos: true })
                .promise;
            const page = Array.from(encoded.ids.slice(1, half + 1));
            pieces = ['', ...encoded.pieces.slice(1, half + 1), ...encoded.pieces.slice(1, half + 1)];
            const ids = [encoded.ids[0], ...page, ...page];
            for (const name of NAMES)
                mine.push(
                    readText(engine, { name, ids, n: ids.length }, (nlls) => {
                        if (jobs !== mine) return;
                        results[name] = nlls;
                        redraw();
                    }),
                );
            await Promise.all(mine.map((job) => job.promise));
            if (jobs === mine)
                status.say(
                    half > 512
                        ? 'The window of 512 has forgotten the first copy when the second comes.'
                        : 'Short enough for the window, too.',
                );
        });
    }
    const choices = counts([200, 400, 700, 1400]).map(([n, words]) => [n, `${words} tokens`]);
    const lengths = stateChips('tokens of the page', 'half', choices);
    state.on('half', () => {
        results = {};
        redraw();
    });
    const guess = predict(
        'A page is read, then the same page again. Whom does the second copy surprise?',
        ['nobody', 'the window', 'everybody'],
        { onanswer: start, say: () => '' },
    );
    new ResizeObserver(redraw).observe(rows);
    return {
        number: 9,
        id: 'twice',
        title: 'The same page twice',
        body: [
            h(
                'p',
                'Every token is a stripe, the darker the more it surprised. The bar in the middle is where the ' +
                    'page begins anew.',
            ),
            guess,
            h('div.row.middle', lengths, button('Read it twice', start, { primary: true })),
            status,
            rows,
            line,
        ],
    };
}
