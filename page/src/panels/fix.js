// 5: a handle for each pair, how much it is slowed; what that does to neighbours, to unseen angles and to perplexity.
import { pointer } from 'd3-selection';
import { scaleBand, scaleLog } from 'd3-scale';
import { chart, legend } from '../chart.js';
import {
    afterPause,
    button,
    command,
    count,
    counts,
    drawing,
    fact,
    h,
    onceAFrame,
    orSay,
    reducedMotion,
    short,
    startStop,
    stateChips,
    stateSlider,
    statusLine,
} from '../dom.js';
import { colourOf, lookOf, methodChoices, methodFor, own, titleOf } from '../methods.js';
import { expectedScore, movingPerplexity, perplexity, seenShare, sharpness } from '../numbers.js';
import { readText, SPAN } from '../reading.js';
import { number, numbers, state } from '../state.js';

const PRESETS = ['none', 'linear', 'ntk', 'ntk-by-parts', 'yarn', 'llama3'];
const HEIGHT = 230,
    READS = 60; // windows that a search reads

export function fixIt({ engine, page, shipped, recorded, book }) {
    const L = shipped.trainedContext,
        pairs = shipped.headDim / 2;
    state.add('slow', numbers(128), []);
    state.add('temper', number(0.5, 3, false), 1);
    let slow = Array(pairs).fill(1),
        chosen = 0,
        job = null,
        runs = 0,
        last = '';
    const most = () => 2 * scale();
    const scale = () => Math.max(1.0001, state.get('n') / L);
    own.yours = () => ({ divisors: slow, attention: state.get('temper') });
    page.plan('none', L);
    const plain = Array.from(page.frequencies(L).plain);
    const status = statusLine(),
        found = statusLine();

    // The handles.
    const svg = drawing('handles', HEIGHT)
        .attr('tabindex', 0)
        .attr('role', 'slider')
        .attr('aria-label', 'handles: left and right choose a pair, up and down slow it');
    const guides = svg.append('g'),
        stems = svg.append('g'),
        dots = svg.append('g'),
        labels = svg.append('g');
    const x = scaleBand()
        .domain(slow.map((_, i) => i))
        .padding(0.2);
    const y = scaleLog().clamp(true);
    const box = h('div', svg.node());
    let painted = null;
    const paint = (event) => {
        const [px, py] = pointer(event, svg.node());
        const i = Math.max(0, Math.min(pairs - 1, Math.floor((px - x.range()[0]) / x.step())));
        const from = painted ?? i,
            value = y.invert(py);
        for (let k = Math.min(from, i); k <= Math.max(from, i); k++) slow[k] = near(value);
        painted = chosen = i;
        moved();
    };
    // A handle close to a line of its own snaps to it.
    const near = (v) =>
        Math.abs(Math.log(v)) < 0.05 ? 1 : Math.abs(Math.log(v / scale())) < 0.05 ? scale() : +v.toPrecision(4);
    svg.on('pointerdown', (event) => {
        svg.node().setPointerCapture(event.pointerId);
        painted = null;
        paint(event);
    })
        .on('pointermove', (event) => {
            if (event.buttons) paint(event);
        })
        .on('keydown', (event) => {
            const { key, shiftKey } = event;
            if (key === 'ArrowLeft' || key === 'ArrowRight')
                chosen = Math.max(0, Math.min(pairs - 1, chosen + (key === 'ArrowLeft' ? -1 : 1)));
            else if (key === 'ArrowUp' || key === 'ArrowDown') {
                const times = (shiftKey ? 1.5 : 1.1) ** (key === 'ArrowUp' ? 1 : -1);
                slow[chosen] = near(Math.min(most(), Math.max(0.5, slow[chosen] * times)));
            } else return;
            event.preventDefault();
            moved();
        });

    const gauge = (name) => {
        const level = h('div.level'),
            value = h('b');
        const all = h(
            'div.gauge',
            { role: 'meter', ariaLabel: name, ariaValueMin: 0, ariaValueMax: 100 },
            value,
            name,
            h('div.track', level),
        );
        return Object.assign(all, {
            put(share) {
                level.style.width = `${Math.min(1, share) * 100}%`;
                level.classList.toggle('low', share < 0.6);
                value.textContent = `${Math.round(share * 100)} %`;
                all.ariaValueNow = Math.round(share * 100);
            },
        });
    };
    const neighbours = gauge('neighbours stay sharp'),
        angles = gauge('no unseen angle');
    const score = chart({
        label: 'Expected score by distance',
        height: 200,
        x: { domain: [0, state.get('n')], label: 'distance', name: 'distance' },
        y: { label: 'expected score of equal vectors', domain: [-0.45, 1.05] },
        rule: { at: L, text: 'trained' },
    });
    const live = chart({
        label: 'Perplexity by position',
        height: 200,
        x: { domain: [0, state.get('n')], label: 'position', name: 'position' },
        y: { log: true, label: 'perplexity, live', most: 600 },
        rule: { at: L, text: 'trained' },
        show: (v) => v.toFixed(1),
    });
    const result = h('div.numbers', { ariaLive: 'polite' });
    const line = command(''),
        searchLine = command('');

    function draw() {
        const width = box.clientWidth || 600,
            n = state.get('n');
        svg.attr('width', width);
        x.range([38, width - 6]);
        y.domain([0.8, Math.max(2.2, most())]).range([HEIGHT - 26, 12]);
        const cx = (i) => x(i) + x.bandwidth() / 2;
        const divisors = slow.map((s) => s),
            f = divisors.map((s, i) => plain[i] / s);
        const lines =
            scale() > 1.01
                ? [
                      [1, 'as trained'],
                      [scale(), `÷ ${short(scale())}`],
                  ]
                : [[1, 'as trained']];
        guides
            .selectAll('line')
            .data(lines)
            .join('line')
            .attr('class', 'guide')
            .attr('x1', 36)
            .attr('x2', width)
            .attr('y1', ([v]) => y(v))
            .attr('y2', ([v]) => y(v));
        guides
            .selectAll('text')
            .data(lines)
            .join('text')
            .attr('x', 32)
            .attr('text-anchor', 'end')
            .attr('y', ([v]) => y(v) + 4)
            .text(([v]) => (v === 1 ? '1' : short(v)));
        stems
            .selectAll('line')
            .data(slow)
            .join('line')
            .attr('class', 'stem')
            .attr('x1', (_, i) => cx(i))
            .attr('x2', (_, i) => cx(i))
            .attr('y1', y(1))
            .attr('y2', (s) => y(s));
        const shares = f.map((fi, i) => seenShare(plain[i], fi, L, n));
        dots.selectAll('g')
            .data(slow)
            .join((enter) => {
                const g = enter.append('g');
                g.append('circle');
                return g;
            })
            .attr('class', (_, i) => (i === chosen ? 'chosen' : ''))
            .attr('transform', (s, i) => `translate(${cx(i)},${y(s)})`)
            .select('circle')
            .attr('r', Math.min(8, Math.max(3.5, x.bandwidth() / 2)))
            .attr('class', (_, i) => (shares[i] < 0.98 ? 'broken' : ''));
        labels
            .selectAll('text')
            .data([
                [0, 'fast hands', 'start'],
                [pairs - 1, 'slow hands', 'end'],
            ])
            .join('text')
            .attr('x', ([i]) => (i ? width - 6 : 38))
            .attr('text-anchor', ([, , anchor]) => anchor)
            .attr('y', HEIGHT - 6)
            .text(([, t]) => t);
        svg.attr('aria-valuetext', `pair ${chosen}: ${short(slow[chosen])} times slower`).attr(
            'aria-valuenow',
            slow[chosen],
        );
        neighbours.put(sharpness(plain, f));
        angles.put(shares.reduce((a, b) => a + b, 0) / pairs);
        const steps = 240,
            at = (list, a) =>
                Array.from({ length: steps + 1 }, (_, k) => [(n * k) / steps, expectedScore(list, (n * k) / steps, a)]);
        score.change({ x: { domain: [0, n] } });
        score.set('~none', at(plain, 1), { colour: colourOf('none'), ghost: true, title: 'plain' });
        score.set('yours', at(f, state.get('temper')), { colour: colourOf('yours'), title: 'yours' });
        const named = PRESETS.find((name) => name === state.get('preset'));
        line.put(
            named
                ? `./run model.bin --ppl book.txt -n ${n} --rope ${named === 'none' ? '' : 'none,'}${named}`
                : `./run model.bin --ppl book.txt -n ${n} --rope none,longrope --rope-config yours.json`,
        );
        const { context, windows, reads } = searchSettings();
        if (!search.isOn())
            searchLine.put(
                `./run model.bin --search book.txt -n ${context} --search-windows ${windows} --reads ${reads} ` +
                    `-s ${state.get('seed')} ${named ? `--rope ${methodFor(named)}` : '--rope-config yours.json'}`,
            );
        block.textContent = named
            ? ''
            : `yours.json: {"rope_type": "longrope", "rope_theta": ${shipped.theta}.0, ` +
              `"original_max_position_embeddings": ${L}, ` +
              `"attention_factor": ${state.get('temper')}, "short_factor": ` +
              `[${slow.map((s) => +s.toPrecision(6)).join(', ')}], "long_factor": [the same]}`;
    }
    const redraw = onceAFrame(draw);

    function ghosts() {
        live.clear(false);
        live.change({ x: { domain: [0, state.get('n')] } });
        const all = recorded.race[state.get('n')] ?? {};
        for (const name of ['none', 'yarn', 'window'])
            if (all[name]) live.set(`~${name}`, all[name], { ...lookOf(name), ghost: true });
    }

    // Perplexity is measured when the hand rests.
    const measure = afterPause(280, async () => {
        const key = JSON.stringify([slow, state.get('temper'), state.get('n')]);
        if (key === last || !wanted) return;
        last = key;
        job?.cancel();
        const n = Math.min(4096, state.get('n')),
            mine = readText(engine, { method: own.yours(), text: book, n }, (nlls) => {
                if (job !== mine) return;
                live.set('yours', movingPerplexity(nlls, SPAN, 16), { colour: colourOf('yours'), title: 'yours' });
                numbersOf(nlls, n);
            });
        job = mine;
        status.say(`Reading ${count(n)} tokens …`);
        await orSay(status, async () => {
            await mine.promise;
            if (job === mine) status.say('');
        });
        runs++;
    });
    function numbersOf(nlls, n) {
        const number = (value, name) => fact(Number.isFinite(value) ? value.toFixed(1) : '…', name);
        const past = Math.min(nlls.length, n - 1);
        result.replaceChildren(
            number(perplexity(nlls, L / 2 - 1, Math.min(L, past + 1) - 1), `perplexity up to ${L}`),
            number(past > L ? perplexity(nlls, L - 1, past) : NaN, `past ${L}`),
        );
    }

    let wanted = false;
    function moved() {
        search.end();
        wanted = true;
        state.set('preset', '');
        state.set('slow', [...slow]);
        redraw();
        measure();
    }

    // The handles go where a method has them.
    let moving = 0;
    function preset(name) {
        if (!PRESETS.includes(name)) return;
        page.plan(methodFor(name), state.get('n'));
        const { frequencies, attention } = page.frequencies(state.get('n'));
        search.end();
        const from = [...slow],
            to = plain.map((f, i) => f / frequencies[i]),
            began = performance.now(),
            mine = ++moving;
        wanted = true;
        state.set('temper', +attention.toPrecision(6));
        const step = () => {
            if (mine !== moving) return;
            const t = reducedMotion() ? 1 : Math.min(1, (performance.now() - began) / 450),
                ease = t * t * (3 - 2 * t);
            slow = from.map((s, i) => (t === 1 ? to[i] : s * (to[i] / s) ** ease));
            redraw();
            if (t < 1) return void requestAnimationFrame(step);
            state.set('slow', name === 'none' ? [] : [...slow]);
            measure();
        };
        step();
    }
    state.add(
        'preset',
        {
            read: (t) => (PRESETS.includes(t) || t === '' ? t : undefined),
            write: String,
            expects: `one of ${PRESETS.join(', ')}`,
        },
        'none',
    );
    const presets = stateChips('methods', 'preset', methodChoices(PRESETS), { onset: preset });
    // --search moves the handles, too. It runs in a worker of its own: Stop ends that, and the best so far stays.
    const search = startStop(['Search', 'Stop the search'], found, async (run, isOn) => {
        const apart = engine.apart(),
            wish = { model: 'model', method: beginning(), text: book, ...searchSettings(), seed: state.get('seed') };
        state.set('preset', '');
        found.say('Opening the model once more …');
        const { promise } = apart.ask('search', wish, (part) => isOn() && hear(part));
        const { lines } = await run({ promise, cancel: () => apart.close() });
        const [[, name, began], [, , best], [, , yarn], [, , judged]] = lines
            .map((words) => words.match(/^# \w+ (\S+) nll \S+ ppl (\S+)/))
            .filter(Boolean);
        found.say(
            `Past ${L}: ${best}, begun with ${titleOf(name)} at ${began}. In windows that it did not search: ` +
                `${judged}, and YaRN ${yarn}.`,
        );
    });
    function hear({ done, nll, divisors, attention }) {
        const percent = `${Math.round(100 * done)} % of the search is done.`;
        found.say(nll ? `Best so far past ${L}: ${Math.exp(nll).toFixed(2)}. ${percent}` : percent);
        if (!divisors) return;
        slow = divisors;
        state.set('temper', attention);
        state.set('slow', [...slow]);
        wanted = true;
        redraw();
        measure();
    }
    // 2,048 tokens of windows, half of which search.
    const searchSettings = () => {
        const context = Math.min(2048, state.get('n'));
        return { context, windows: Math.floor(2048 / context), reads: READS };
    };
    const beginning = () => (state.get('preset') ? methodFor(state.get('preset')) : own.yours());
    const tempered = stateSlider('temperature a (scores grow by a²)', 'temper', {
        min: 0.5,
        max: 2,
        step: 0.005,
        show: (v) => v.toFixed(3),
        onset: moved,
    });
    const lengths = stateChips('length', 'n', counts([1024, 2048, 4096]));
    const block = h('p.fine.mono');
    state.on(['seed', 'factor'], redraw);
    state.on('n', () => {
        search.end();
        ghosts();
        last = '';
        if (state.get('preset')) preset(state.get('preset'));
        else {
            redraw();
            if (wanted) measure();
        }
    });
    if (state.get('slow').length === pairs) slow = [...state.get('slow')];
    else if (state.get('preset') !== 'none') preset(state.get('preset'));
    ghosts();
    new ResizeObserver(redraw).observe(box);
    redraw();
    return {
        number: 5,
        id: 'fix',
        title: 'Fix it yourself',
        body: [
            h(
                'p',
                `To read ${count(state.get('n'))} tokens, hands must be slowed, so that none goes where it never ` +
                    `was. But slow the fast ones, and neighbours blur. `,
                'Drag the handles; red ones still meet unseen angles. Keep both gauges full.',
            ),
            h(
                'div.row.middle',
                lengths,
                button(
                    'measure',
                    () => {
                        wanted = true;
                        last = '';
                        measure();
                    },
                    { primary: true },
                ),
            ),
            box,
            h('div.gauges', neighbours, angles),
            h('div.row', tempered),
            result,
            h('div.two', score, live),
            status,
            legend([
                { title: 'yours', colour: colourOf('yours') },
                { title: 'plain', colour: colourOf('none') },
                { title: 'yarn', colour: colourOf('yarn') },
                { title: 'window', colour: colourOf('window'), dash: true },
            ]),
            h('p', 'Now see where people put them:'),
            presets,
            h('p', 'Or let the program look for something better, as LongRoPE does, beginning with these:'),
            h('div.row.middle', search),
            found,
            searchLine,
            h('p', 'What the handles do, at a terminal:'),
            line,
            block,
        ],
    };
}
