// 9: the same page twice. Whoever sees the first copy is not surprised by the second.
import {
    afterPause,
    command,
    count,
    counts,
    h,
    onceAFrame,
    predict,
    short,
    stateChips,
    statusLine,
    strip,
} from '../dom.js';
import { runs } from '../job.js';
import { colourOf, optionsFor, titleOf } from '../methods.js';
import { perplexity } from '../numbers.js';
import { readText } from '../reading.js';
import { number, state } from '../state.js';

const NAMES = ['none', 'yarn', 'window'],
    SETTLED = 8; // tokens of the second copy until it is clear what comes

export function samePageTwice({ file, engine, shipped, book }) {
    const L = shipped.trainedContext;
    state.add('half', number(64, 4 * L), Math.round((700 / 512) * L));
    const status = statusLine(),
        line = command(),
        rows = h('div');
    let results = {},
        copies = null; // what is read: { text, ids, pieces, second: where the second copy begins }
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
                        : `position ${i + 1}: “${(copies?.pieces[i + 1] ?? '').trim() || '␣'}” −ln p = ${short(nlls[i])}`;
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
        const n = copies?.ids.length ?? 2 * state.get('half'),
            middle = copies?.second ?? n / 2;
        for (const name of NAMES) {
            const { canvas, head } = strips[name],
                nlls = results[name] ?? [];
            const { paint, scale, hot } = strip(canvas),
                w = canvas.width / n;
            nlls.forEach((nll, i) => {
                paint.fillStyle = hot(Math.min(1, nll / 9));
                paint.fillRect(i * w, 0, Math.max(1, w), canvas.height);
            });
            paint.fillStyle = getComputedStyle(canvas).color;
            paint.fillRect((canvas.width * middle) / n - scale, 0, 2 * scale, canvas.height);
            const first = perplexity(nlls, 0, middle - 1),
                second = perplexity(nlls, middle - 1 + SETTLED, n);
            head.lastChild.textContent =
                nlls.length > middle + 20 ? `  first copy ${first.toFixed(1)}, second ${second.toFixed(1)}` : '';
        }
    }
    const redraw = onceAFrame(draw);

    // The page twice, as one text. The second copy begins where its first token ends behind the first copy's text.
    async function twice(encode, half) {
        const { ids, pieces } = await encode(book.slice(0, 20 * half));
        if (ids.length <= half) throw new Error(`the book has ${count(ids.length - 1)} tokens only`);
        const once = pieces
                .slice(1, half + 1)
                .join('')
                .trim(),
            text = `${once}\n${once}\n`;
        const all = await encode(text);
        let second = 1;
        for (let read = 0; second < all.ids.length && read <= once.length; second++) read += all.pieces[second].length;
        return { text, ...all, second };
    }
    function showCommand() {
        const n = copies.ids.length,
            read = `./run ${file} --ppl twice.txt -n ${n} --per-token --kv f32`;
        line.put(...optionsFor(NAMES, n).map(([options]) => [`${read} ${options}`, [['twice.txt', copies.text]]]));
    }
    const encodeApart = (text) => engine.ask('encode', { model: 'model', text, bos: true }).promise;
    const reading = runs({
        engine,
        status,
        inputs: ['half'],
        work: readTwice,
        stale: () => {
            results = {};
            copies = null;
            status.say('');
            prepare();
            redraw();
        },
    });
    async function readTwice(run) {
        const { half } = run.input;
        results = {};
        status.say(`Reading ${count(half)} tokens, twice …`);
        copies = await twice((text) => run.ask('encode', { model: 'model', text, bos: true }), half);
        showCommand();
        const read = (name) =>
            readText(run, { name, text: copies.text, n: copies.ids.length }, (nlls) => {
                results[name] = nlls;
                redraw();
            });
        await Promise.all(NAMES.map(read));
        status.say(
            half > L
                ? `The window of ${L} has forgotten the first copy when the second comes.`
                : 'Short enough for the window, too.',
        );
    }
    // The text and its tokens, for the command, before anything is read.
    const prepare = afterPause(100, async () => {
        const half = state.get('half'),
            made = await twice(encodeApart, half);
        if (half !== state.get('half') || copies) return;
        copies = made;
        showCommand();
        redraw();
    });
    const halves = [200, 400, 700, 1400].map((n) => Math.round((n / 512) * L)),
        choices = counts(halves).map(([n, words]) => [n, `${words} tokens`]);
    const lengths = stateChips('tokens of the page', 'half', choices);
    const guess = predict(
        'A page is read, then the same page again. Whom does the second copy surprise?',
        ['nobody', 'the window', 'everybody'],
        { onanswer: () => reading.begin(), say: () => '' },
    );
    new ResizeObserver(redraw).observe(rows);
    prepare();
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
            h('div.row.middle', lengths, reading.button(['Read it twice'], { primary: true })),
            status,
            rows,
            line,
        ],
    };
}
