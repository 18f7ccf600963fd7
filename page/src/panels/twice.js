// The same page twice. Whoever sees the first copy is not surprised by the second.
import { chart } from '../chart.js';
import { afterPause, command, count, counts, h, onceAFrame, stateChips, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { colourOf, lookOf, optionsFor, titleOf } from '../methods.js';
import { movingPerplexity, perplexity } from '../numbers.js';
import { readText } from '../reading.js';
import { number, state } from '../state.js';

const NAMES = ['none', 'yarn', 'window'],
    SPAN = 64, // tokens that a point is the mean of
    SETTLED = 8; // tokens of the second copy until it is clear what comes

export function samePageTwice({ file, engine, shipped, recorded, book }) {
    const L = shipped.trainedContext;
    state.add('half', number(64, 4 * L), Math.round((700 / 512) * L));
    const status = statusLine(),
        line = command();
    let results = {},
        copies = null; // what is read: { text, ids, pieces, second: where the second copy begins }
    const heads = Object.fromEntries(
        NAMES.map((name) => {
            const dot = h('i.dot');
            dot.style.background = colourOf(name);
            return [name, h('p', dot, h('b', titleOf(name)), h('span'))];
        }),
    );
    const plot = chart({
        label: 'How much the second copy surprises',
        height: 240,
        x: { domain: [0, state.get('half')], label: 'token of the page', name: 'token' },
        y: {
            log: true,
            label: `second copy: times as perplexed (over ${SPAN})`,
            domain: [0.2, 4],
        },
        level: { at: 1, text: 'as surprised as before' },
        show: (v) => v.toFixed(2),
    });

    // What there is of a method, measured or recorded: the second copy against the first, along the page, and the
    // perplexities of both.
    function found(name) {
        const nlls = results[name];
        if (!nlls) return state.get('half') === recorded.twice.half ? { ...recorded.twice[name], ghost: true } : null;
        const behind = copies.second - 1, // where the second copy's surprises begin
            more = nlls.slice(behind).map((nll, i) => nll - nlls[i]);
        return {
            times: movingPerplexity(more, SPAN, 8),
            both: more.length > 20 && [perplexity(nlls, 0, behind), perplexity(nlls, behind + SETTLED)],
        };
    }
    function draw() {
        plot.clear(false);
        plot.change({ x: { domain: [0, state.get('half')] } });
        for (const name of NAMES) {
            const all = found(name);
            if (all) plot.set(all.ghost ? `~${name}` : name, all.times, { ...lookOf(name), ghost: all.ghost });
            heads[name].lastChild.textContent = all?.both ? saysOf(all) : '';
        }
    }
    function saysOf({ both: [first, second], ghost }) {
        const times = first / second;
        const less = times > 1.15 ? `${times.toFixed(1)} times less` : times < 0.87 ? 'more' : 'about the same';
        return `  first copy ${first.toFixed(1)}, second ${second.toFixed(1)}: ${less}${ghost ? ' (recorded)' : ''}`;
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
    redraw();
    prepare();
    return {
        id: 'twice',
        title: 'The same page twice',
        body: [
            h(
                'p',
                'A page is read, then the same page again. Whoever remembers the first copy is less surprised ' +
                    'by the second.',
            ),
            h('div.row.middle', lengths, reading.button(['Read it twice'], { primary: true })),
            status,
            ...Object.values(heads),
            plot,
            line,
        ],
    };
}
