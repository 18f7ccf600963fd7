// All methods in one chart: how many times slower each turns each pair, over the pairs. A figure for slides: it can be copied
// as SVG.
import { chart, legend } from '../chart.js';
import { button, command, count, folded, h, onceAFrame, saveFile, short, stateSlider, statusLine } from '../dom.js';
import { SIX, lookOf } from '../methods.js';
import { TURN } from '../numbers.js';
import { number, state } from '../state.js';
import { svgOf } from '../svg.js';

const EVEN = { min: 16, max: 256, step: 2 }; // elements of a head
const LONGEST = 1048576;

// Points of a method: [pair, times slower].
const curve = ({ plain, frequencies }) => Array.from(plain, (f, i) => [i, f / frequencies[i]]);

export function allInOne({ small, shipped }) {
    state.add('wanted', number(512, LONGEST), 4 * shipped.trainedContext);
    const plot = chart({
        label: 'How many times slower each method turns each pair',
        height: 300,
        x: { domain: [0, shipped.headDim / 2 - 1], label: 'pair, fast to slow →', name: 'pair' },
        y: { log: true, domain: [0.9, 8], label: 'times slower' },
        show: (v) => `${short(v, 3)}×`,
    });
    // YaRN turns the pairs as by parts does, which is seen between its dashes.
    const look = (name) => (name === 'yarn' ? { ...lookOf(name), dash: '7 6' } : lookOf(name)),
        looks = SIX.map(look),
        told = h('p.readout', { ariaLive: 'polite' }),
        status = statusLine(),
        line = command();
    function draw() {
        const [head, theta, trained] = ['head', 'theta', 'trained'].map((key) => state.get(key)),
            wanted = Math.max(trained, state.get('wanted')),
            page = small.describe(head, theta, trained);
        try {
            for (const name of SIX) plot.set(name, curve(page.plan(name, wanted).frequencies(wanted)), look(name));
            const { plain } = page.plan('none', trained).frequencies(trained),
                never = plain.findIndex((f) => f * trained < TURN);
            plot.change({
                x: { domain: [0, plain.length - 1] },
                y: { domain: [0.9, Math.max(2, (wanted / trained) * 1.3)] },
                rule: { at: never < 0 ? Infinity : never - 0.5, text: 'never went round in training' },
            });
            told.textContent =
                `${count(trained)} positions in training, ${count(wanted)} wanted: scale ${short(wanted / trained, 3)}. ` +
                (never < 0 ? 'All pairs went round.' : `Pairs ${never} to ${plain.length - 1} never went round.`);
            const how = `--head-dim ${head} --theta ${theta} --train-ctx ${trained} -n ${wanted}`;
            line.put(...SIX.slice(1).map((name) => [`./run --explain ${how} --rope ${name}`, []]));
        } finally {
            page.close();
        }
    }
    const redraw = onceAFrame(draw);
    state.on(['head', 'theta', 'trained', 'wanted'], redraw);
    redraw();
    const figure = () => svgOf(plot.querySelector('svg'), looks);
    const copy = button('Copy as SVG', async () => {
        try {
            await navigator.clipboard.writeText(figure());
            status.say('Copied.');
        } catch {
            saveFile('rope-methods.svg', figure());
            status.say('This browser does not let a page copy: it is saved as rope-methods.svg.');
        }
    });
    return {
        id: 'compare',
        title: 'All methods in one chart',
        body: [
            h('p', 'How many times slower each method turns each pair. Where it is shaded, pairs never went round in training.'),
            h(
                'div.row',
                stateSlider('trained positions', 'trained', { min: 128, max: LONGEST / 4, log: true, step: 1, show: count }),
                stateSlider('wanted', 'wanted', { min: 512, max: LONGEST, log: true, step: 1, show: count }),
                stateSlider('theta', 'theta', { min: 1000, max: 1e8, log: true, step: 1, show: count }),
                stateSlider('elements of a head', 'head', { ...EVEN, show: count }),
            ),
            plot,
            legend(looks),
            told,
            h('div.row.middle', copy, status),
            folded('The commands that print these numbers', line),
        ],
    };
}
