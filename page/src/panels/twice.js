// The same page twice. Whoever sees the first copy is not surprised by the second.
import { afterPause, command, count, counts, h, onceAFrame, short, stateChips, statusLine, strip } from '../dom.js';
import { runs } from '../job.js';
import { colourOf, optionsFor, titleOf } from '../methods.js';
import { perplexity } from '../numbers.js';
import { readText } from '../reading.js';
import { number, state } from '../state.js';

const NAMES = ['none', 'yarn', 'window'],
    CELLS = 28, // of a copy; each is the mean of its tokens
    SETTLED = 8; // tokens of the second copy until it is clear what comes

export function samePageTwice({ file, engine, shipped, recorded, book }) {
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

    // The means of a copy's surprises in cells, and of the cells that are read so far in part.
    const cells = (nlls, from, to) =>
        Array.from({ length: CELLS }, (_, cell) => {
            const at = (k) => Math.round(from + ((to - from) * k) / CELLS),
                part = nlls.slice(at(cell), at(cell + 1));
            return part.length ? part.reduce((a, b) => a + b, 0) / part.length : NaN;
        });
    // What there is of a method: { first, second: cells, and both: perplexities of the copies }, measured or recorded.
    function found(name, half) {
        const nlls = results[name];
        if (!nlls) return half === recorded.twice.half ? { ...recorded.twice[name], isRecorded: true } : null;
        const middle = copies.second;
        const isWhole = nlls.length > middle + 20;
        return {
            first: cells(nlls, 0, middle - 1),
            second: cells(nlls, middle - 1, copies.ids.length - 1),
            both: isWhole && [perplexity(nlls, 0, middle - 1), perplexity(nlls, middle - 1 + SETTLED)],
        };
    }
    function draw() {
        for (const name of NAMES) {
            const { canvas, head } = strips[name],
                all = found(name, state.get('half'));
            const { paint, scale, hot } = strip(canvas),
                w = canvas.width / (2 * CELLS);
            [...(all?.first ?? []), ...(all?.second ?? [])].forEach((nll, i) => {
                if (!Number.isFinite(nll)) return;
                paint.fillStyle = hot(Math.min(1, Math.max(0, nll - 1) / 5));
                paint.fillRect(i * w, 0, w - scale, canvas.height);
            });
            paint.fillStyle = getComputedStyle(canvas).color;
            paint.fillRect(canvas.width / 2 - scale, 0, 2 * scale, canvas.height);
            canvas.classList.toggle('ghost', !!all?.isRecorded);
            head.lastChild.textContent = all?.both ? saysOf(all) : '';
        }
    }
    function saysOf({ both: [first, second], isRecorded }) {
        const times = first / second;
        const less =
            times > 1.1
                ? `${times.toFixed(1)} times less`
                : times < 0.9
                  ? `${(1 / times).toFixed(1)} times more`
                  : 'alike';
        return `  first copy ${first.toFixed(1)}, second ${second.toFixed(1)}: ${less}${isRecorded ? ' (recorded)' : ''}`;
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
    new ResizeObserver(redraw).observe(rows);
    prepare();
    return {
        id: 'twice',
        title: 'The same page twice',
        body: [
            h(
                'p',
                'A page is read, then the same page again. The darker, the more it surprised. Whoever remembers the ' +
                    'first copy is not surprised by the second.',
            ),
            h('div.row.middle', lengths, reading.button(['Read it twice'], { primary: true })),
            status,
            rows,
            line,
        ],
    };
}
