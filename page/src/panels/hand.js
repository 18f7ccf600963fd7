// Why unseen means wrong: in a text no longer than training went, one slow hand of a real head is turned further than it
// ever was. Scores of far tokens rise, the softmax follows; with all slow hands the text goes, too.
import { chart } from '../chart.js';
import { afterPause, command, count, drawing, folded, h, onceAFrame, stateChips, stateSlider, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { plainSpeeds } from '../methods.js';
import { highest, perplexity, sharesOf, TURN } from '../numbers.js';
import { kept } from '../place.js';
import { choice, number, state } from '../state.js';

// Heads and hands of model.bin: three that follow, and one that does not.
const CASES = {
    '3.1': { pair: 16, title: 'head 1 of layer 3, hand 16' },
    1.1: { pair: 17, title: 'head 1 of layer 1, hand 17' },
    4.2: { pair: 22, title: 'head 2 of layer 4, hand 22' },
    4.1: { pair: 28, title: 'head 1 of layer 4, hand 28: it holds' },
};
const FURTHEST = 4, // times; the text then is to the hand as one of 2,048 tokens
    CHARACTERS = 1700, // of the story, which are no more tokens than training had
    LAST = 128, // tokens whose perplexity is told
    R = 78;

const at = (angle, radius = R) => `${(radius * Math.sin(angle)).toFixed(2)} ${(-radius * Math.cos(angle)).toFixed(2)}`;
const arc = (from, to) => `M0 0L${at(from)}A${R} ${R} 0 ${to - from > Math.PI ? 1 : 0} 1 ${at(to)}Z`;

// The hand at the first token of the text, and the arc in which training had it.
function handPicture() {
    const svg = drawing('plane').attr('viewBox', '-100 -100 200 200').attr('role', 'img');
    const seen = svg.append('path').style('fill', 'var(--seen)'),
        strange = svg.append('path').style('fill', 'var(--unseen)'),
        hand = svg.append('line').attr('class', 'hand');
    svg.append('circle').attr('class', 'rim').style('fill', 'none').attr('r', R);
    return {
        node: svg.node(),
        put(trained, angle) {
            const shown = Math.min(angle, trained + TURN - 0.01);
            seen.attr('d', arc(0, Math.min(trained, TURN - 0.01)));
            strange.attr('d', shown > trained ? arc(trained, shown) : '');
            const [x, y] = at(angle, R - 4).split(' ');
            hand.attr('x2', x)
                .attr('y2', y)
                .style('stroke', angle > trained + 1e-9 ? 'var(--never)' : 'var(--blue)');
            const turns = (a) => (a / TURN).toFixed(2);
            svg.attr(
                'aria-label',
                `the hand stands at ${turns(angle)} turns; training had it up to ${turns(trained)} turns`,
            );
        },
    };
}

export function oneHand({ engine, file, shipped, book }) {
    const L = shipped.trainedContext,
        FAR = L / 2,
        plain = plainSpeeds(),
        text = book.slice(0, book.lastIndexOf(' ', CHARACTERS));
    state.add('hand', choice(Object.keys(CASES)), '3.1');
    state.add('out', number(1, FURTHEST, false), 1);
    state.add('hands', choice(['one', 'all']), 'one');
    const status = statusLine(),
        line = command(),
        says = h('p.told', { ariaLive: 'polite' }),
        dial = handPicture(),
        turned = h('p.readout');
    const small = (label, y) =>
        chart({
            label,
            height: 180,
            x: { domain: [0, L], label: 'tokens back', name: 'tokens back' },
            y,
            show: (v) => v.toFixed(1),
        });
    const scores = small('Scores of a head by distance', { label: 'score', domain: [-10, 10] }),
        shares = small('Share of attention by distance', { label: 'share of attention, %', domain: [0, 40] });
    const known = new Map(); // by how hands are turned: { heads, nll }

    // How far each pair is slowed: those that are turned on go faster.
    const divisors = (times = state.get('out')) => {
        const { pair } = CASES[state.get('hand')],
            isAll = state.get('hands') === 'all';
        return plain.map((f, i) => (i === pair || (isAll && f * L < TURN) ? 1 / times : 1));
    };
    const nameOf = (list) => list.map((x) => x.toFixed(4)).join();
    const now = () => nameOf(divisors()),
        asTrained = nameOf(plain.map(() => 1));
    const scoresOf = ({ heads }) => {
        const [layer, head] = state.get('hand').split('.');
        return Array.from(heads[layer][head]);
    };
    const farOf = (parts) => parts.slice(0, -FAR).reduce((a, b) => a + b, 0);
    const lastOf = ({ nll }) => perplexity(nll, -LAST);

    function draw() {
        const { pair } = CASES[state.get('hand')],
            times = state.get('out'),
            angle = plain[pair] * L;
        dial.put(angle, angle * times);
        turned.textContent =
            times === 1
                ? `Hand ${pair}, ${count(L)} tokens back: the end of its arc.`
                : `Hand ${pair} stands there as if the text had ${count(L * times)} tokens.`;
        showCommand();
        const first = known.get(asTrained),
            found = known.get(now());
        for (const plot of [scores, shares]) plot.clear(false);
        if (!first) return;
        const before = scoresOf(first),
            trainedParts = sharesOf(before),
            grey = { colour: 'var(--grey)', title: 'as trained', ghost: true, computed: true };
        scores.widen([Math.min(...before), Math.max(...before)]);
        scores.set('~before', highest(before), grey);
        shares.set('~before', highest(trainedParts), grey);
        if (!found) return;
        const values = scoresOf(found),
            parts = sharesOf(values),
            red = { colour: 'var(--never)', title: 'turned on' };
        scores.widen([Math.min(...values), Math.max(...values)]);
        shares.widen([0, Math.max(...highest(parts).map(([, v]) => v))]);
        if (times > 1) {
            scores.set('turned', highest(values), red);
            shares.set('turned', highest(parts), red);
        }
        says.textContent =
            `Tokens more than ${FAR} back get ${farOf(parts).toFixed(1)} % of this head's attention; as trained, ` +
            `${farOf(trainedParts).toFixed(1)} %. Perplexity of the last ${LAST} tokens: ${lastOf(found).toFixed(1)}; ` +
            `as trained, ${lastOf(first).toFixed(1)}.`;
    }
    function showCommand() {
        const list = divisors(),
            block = {
                rope_type: 'longrope',
                original_max_position_embeddings: L,
                attention_factor: 1,
                short_factor: list,
                long_factor: list,
            };
        const files = [
                ['beginning.txt', text],
                ['hands.json', `${JSON.stringify(block)}\n`],
            ],
            how = '--kv f32 --rope-config hands.json',
            n = 1 + (known.get(asTrained)?.nll.length ?? 0);
        const looks = [`./run ${file} --attn ${state.get('hand')} -n ${L} ${how} -f beginning.txt`, files],
            reads = [`./run ${file} --ppl beginning.txt --per-token -n ${n} ${how}`, files];
        line.put(...(n > 1 ? [looks, reads] : [looks]));
    }
    const redraw = onceAFrame(draw);
    async function read(run, name, list) {
        if (known.has(name)) return;
        const wish = { model: 'model', method: { divisors: list, attention: 1 }, text, context: L },
            nll = [];
        const [{ heads }] = await Promise.all([
            run.ask('scores', wish),
            run.ask('nll', wish, (part) => nll.push(...part.nll)),
        ]);
        known.set(name, { heads, nll });
    }
    const reading = runs({
        engine,
        status,
        work: async (run) => {
            status.say('Reading the beginning of the story …');
            const list = divisors();
            await read(
                run,
                asTrained,
                plain.map(() => 1),
            );
            await read(run, nameOf(list), list);
            draw();
        },
    });
    const later = afterPause(120, () => (known.has(asTrained) && known.has(now()) ? draw() : reading.begin()));
    state.on(['hand', 'out', 'hands'], () => {
        redraw();
        later();
    });
    redraw();
    // Pictures are not empty when the reader comes to them.
    const sight = new IntersectionObserver(
        kept(([entry]) => {
            if (!entry.isIntersecting) return;
            sight.disconnect();
            if (!known.has(asTrained)) reading.begin();
        }),
    );
    sight.observe(dial.node);
    return {
        id: 'hand',
        title: 'Take one slow hand out',
        body: [
            h(
                'p',
                `The beginning of the story, and no token further back than ${count(L)}. But turn one hand on, past its arc:`,
            ),
            stateChips(
                'whose hand',
                'hand',
                Object.entries(CASES).map(([name, { title }]) => [name, title]),
            ),
            h(
                'div.row',
                stateSlider('turned on by', 'out', {
                    min: 1,
                    max: FURTHEST,
                    step: 0.25,
                    show: (x) => `× ${x}`,
                }),
                stateChips('which hands', 'hands', [
                    ['one', 'this hand'],
                    ['all', `all ${plain.filter((f) => f * L < TURN).length} slow hands`],
                ]),
            ),
            h(
                'div.three',
                h('figure', h('figcaption', h('b', '1'), 'The hand at the furthest token.'), dial.node, turned),
                h('figure', h('figcaption', h('b', '2'), 'The last token scores all before it.'), scores),
                h('figure.whole-row', h('figcaption', h('b', '3'), 'A point more of score is 2.7 times the share.'), shares),
            ),
            says,
            status,
            h(
                'p.fine',
                'How we read it: a hand adds the cosine of its angle to the score. Inside the arc, training kept far tokens low. ' +
                    'Past it the cosine goes on, and may come back up: nothing ever held it down there. Other heads make up for ' +
                    'one hand; for all slow hands together, nobody does.',
            ),
            folded('The commands that do this', line),
        ],
    };
}
