// How often each pair went round within the trained length. Those that never did are what breaks.
import { scaleLog } from 'd3-scale';
import {
    attrs,
    bands,
    button,
    command,
    count,
    drawing,
    elements,
    folded,
    h,
    onceAFrame,
    predict,
    short,
    stateSlider,
} from '../dom.js';
import { TURN } from '../numbers.js';
import { number, state } from '../state.js';
import { prose } from '../terms.js';

const HEIGHT = 250; // pixels
const KNOWN = [
    { name: 'this page’s model', theta: 10000, trained: 512, head: 64 },
    { name: 'Llama 2', theta: 10000, trained: 4096, head: 128 },
    { name: 'Llama 3', theta: 500000, trained: 8192, head: 128 },
    { name: 'Qwen2.5', theta: 1000000, trained: 32768, head: 128 },
];
const ASKED = 'Llama 3';

// How many pairs of a model never went round in its training.
function neverOf(small, { headDim, theta, trainedContext }) {
    const page = small.describe(headDim, theta, trainedContext),
        { plain } = page.plan('none', trainedContext).frequencies(trainedContext);
    page.close();
    return plain.filter((f) => f * trainedContext < TURN).length;
}

export function countTheTurns({ small, shipped }) {
    state.add('theta', number(100, 100000000, false), shipped.theta);
    state.add('trained', number(16, 1048576), shipped.trainedContext);
    state.add('head', number(8, 256, true, { is: (x) => x % 2 === 0, words: 'even' }), shipped.headDim);
    const svg = drawing('bars', HEIGHT).attr('role', 'img');
    svg.html(
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">' +
            '<rect width="6" height="6" fill="none"/><line x1="0" x2="0" y1="0" y2="6" stroke="var(--paper)" ' +
            'stroke-width="2.4"/></pattern></defs>',
    );
    const bars = svg.append('g'),
        hatches = svg.append('g'),
        axis = svg.append('g'),
        one = svg.append('line').attr('class', 'one');
    const titles = ['turns in training', 'pair, fast to slow →'].map((title) =>
        svg.append('text').attr('class', 'axis-label').text(title),
    );
    const oneText = svg.append('text').style('fill', 'var(--ink)');
    const box = h('div', svg.node());
    const result = h('p', { ariaLive: 'polite' });
    const line = command();

    function turns() {
        const page = small.describe(state.get('head'), state.get('theta'), state.get('trained'));
        const { plain } = page.plan('none', state.get('trained')).frequencies(state.get('trained'));
        page.close();
        return Array.from(plain, (f) => (f * state.get('trained')) / TURN);
    }

    function draw() {
        const width = box.clientWidth || 600,
            height = HEIGHT,
            all = turns(),
            narrow = width < 560;
        const few = all.filter((t) => t < 1).length;
        attrs(svg, {
            viewBox: `0 0 ${width} ${height}`,
            width,
            'aria-label': `${few} of ${all.length} pairs make less than one turn`,
        });
        const x = bands()
            .domain(all.map((_, i) => i))
            .range([40, width - 8])
            .padding(all.length > 60 ? 0.15 : 0.3);
        const low = Math.min(0.05, ...all),
            high = Math.max(20, ...all);
        const y = scaleLog()
            .domain([low / 1.5, high * 1.3])
            .range([height - 46, 24]);
        const bar = {
            x: (_, i) => x(i),
            y: (t) => Math.min(y(t), y(1)),
            width: x.bandwidth(),
            height: (t) => Math.max(1.5, Math.abs(y(t) - y(1))),
        };
        const drawn = elements(bars, 'rect', all, { ...bar, class: (t) => (t < 1 ? 'part' : 'whole'), rx: 2 });
        elements(drawn, 'title', (t, i) => [`pair ${i}: ${short(t)} turns`], { text: String });
        elements(hatches, 'rect', all, {
            ...bar,
            class: 'hatch',
            display: (t) => (t < 1 ? null : 'none'),
        });
        elements(
            axis,
            'text.y',
            y.ticks(5).filter((t) => String(t).match(/^0?\.?0*1/)),
            {
                ...{ class: 'y', 'text-anchor': 'end', x: 34, y: (t) => y(t) + 4 },
                text: (t) => short(t),
            },
        );
        const every = Math.ceil(all.length / (narrow ? 8 : 16)),
            named = all.map((_, i) => i).filter((i) => i % every === 0);
        elements(axis, 'text.x', named, {
            ...{ class: 'x', 'text-anchor': 'middle', x: (i) => x(i) + x.bandwidth() / 2, y: height - 26 },
            text: String,
        });
        attrs(titles[0], { x: 4, y: 12 });
        attrs(titles[1], { x: width - 8, y: height - 6, 'text-anchor': 'end' });
        attrs(one, { x1: 40, x2: width - 8, y1: y(1), y2: y(1) });
        attrs(oneText, { x: width - 10, y: y(1) - 6, 'text-anchor': 'end', text: 'one turn' });
        result.replaceChildren(
            h('b', `${few} of ${all.length}`),
            ` pairs never went round within ${count(state.get('trained'))} positions. Past them, they reach angles that the model has ` +
                'never seen.',
        );
        line.put(
            `./run --explain --rope none --head-dim ${state.get('head')} --theta ${state.get('theta')} ` +
                `--train-ctx ${state.get('trained')}`,
        );
    }
    const redraw = onceAFrame(draw);
    const look = { log: true, show: count };
    const thetaSlider = stateSlider('theta, the base', 'theta', { min: 100, max: 1e8, step: 100, ...look });
    const trainedSlider = stateSlider('L, the trained length', 'trained', {
        min: 16,
        max: 2 ** 20,
        step: 16,
        ...look,
    });
    // The scene tells how many of its own hands never went round: the question is about another model's.
    const asked = KNOWN.find(({ name }) => name === ASKED),
        right = neverOf(small, { headDim: asked.head, theta: asked.theta, trainedContext: asked.trained }),
        all = asked.head / 2,
        choices = [0, all / 8, right, (7 * all) / 8];
    const showModel = ({ theta, trained, head }) => {
        state.set('theta', theta);
        state.set('trained', trained);
        state.set('head', head);
        redraw();
    };
    const guess = predict(
        prose(
            `${ASKED} has [theta] ${count(asked.theta)} and ${all} pairs in each head, and was trained on ${count(asked.trained)} ` +
                'positions. How many of its hands never made a full turn?',
        ),
        choices.map((x) => (x ? String(x) : 'none')),
        (i) => {
            showModel(asked);
            guess.say(
                choices[i] === right ? `Yes: ${right}.` : `It is ${right}.`,
                ' Each hand is slower than the one before by the same ratio, so on this scale the bars end on a straight line.',
            );
        },
    );
    state.on(['theta', 'trained', 'head'], redraw);
    new ResizeObserver(redraw).observe(box);
    const known = h(
        'div.chips',
        KNOWN.map((model) => button(model.name, () => showModel(model))),
    );
    return {
        id: 'turns',
        title: 'Count the turns',
        body: [
            h(
                'p',
                'A hand that went round many times has shown the model every angle. Bars below the line never went round.',
            ),
            guess,
            box,
            result,
            folded('Other models', h('div.row', thetaSlider, trainedSlider), known, line),
        ],
    };
}
