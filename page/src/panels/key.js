// 8: a key is hidden in filler and asked for at the end. Whoever only sees the last 512 tokens cannot know it.
import { drag } from 'd3-drag';
import { scaleLinear } from 'd3-scale';
import { pointer } from 'd3-selection';
import {
    button,
    command,
    count,
    counts,
    drawing,
    h,
    onceAFrame,
    orSay,
    predict,
    startStop,
    stateChips,
    statusLine,
} from '../dom.js';
import { colourOf, methodChoices, methodFor, spelled, titleOf } from '../methods.js';
import { build, DEPTHS, keyOf } from '../haystack.js';
import { number, state, text } from '../state.js';

const GRID = ['none', 'yarn', 'window'],
    NAMES = ['none', 'linear', 'ntk', 'ntk-by-parts', 'yarn', 'dynamic-yarn', 'window'];
const GRID_LENGTHS = [256, 512, 1024, 2048, 4096];

export function hideAKey({ engine, page, shipped, recorded }) {
    const L = shipped.trainedContext;
    state.add('depth', number(0, 1, false), 0.25);
    state.add('digits', text(5), '73914');
    state.add('asked', text(160), 'yarn');
    const status = statusLine(),
        line = command(''),
        gridLine = command('');
    const answer = h('p.digits', { ariaLive: 'polite' }),
        excerpt = h('p.excerpt');
    let job = null,
        read = 0,
        look = null,
        total = 1;

    const svg = drawing('hay', 150);
    const x = scaleLinear().domain([0, 1]).clamp(true);
    const straw = svg.append('rect').attr('class', 'straw'),
        done = svg.append('rect').attr('class', 'read');
    const reach = svg.append('rect').attr('class', 'reach'),
        reachText = svg.append('text');
    const arcs = svg.append('g'),
        arcText = svg.append('text').attr('x', 16).attr('y', 140).style('fill', 'var(--blue)');
    const pin = svg
        .append('g')
        .attr('class', 'needle')
        .attr('tabindex', 0)
        .attr('role', 'slider')
        .attr('aria-label', 'where the key is hidden')
        .attr('aria-valuemin', 0)
        .attr('aria-valuemax', 100);
    pin.append('path').attr('d', 'M0 8L9 -6A10.8 10.8 0 1 0 -9 -6Z');
    pin.append('text').attr('text-anchor', 'middle').attr('y', 44).style('fill', 'var(--ink)');
    pin.call(
        drag()
            .container(svg.node())
            .on('drag', (event) => state.set('depth', depthAt(x.invert(event.x)))),
    );
    pin.on('keydown', (event) => {
        const by = { ArrowLeft: -0.01, ArrowRight: 0.01, PageDown: -0.1, PageUp: 0.1, Home: -1, End: 1 }[event.key];
        if (!by) return;
        event.preventDefault();
        state.set('depth', +Math.min(1, Math.max(0, state.get('depth') + by)).toFixed(3));
    });
    straw.on('click', (event) => state.set('depth', depthAt(x.invert(pointer(event)[0]))));

    const n = () => Math.min(4096, state.get('n'));
    // Where the key's first token stands in the text, as a share, and back: what is not filler counts, too.
    const BEFORE = 45;
    const OTHERS = 92;
    const standsAt = (depth) => (BEFORE + depth * (n() - OTHERS)) / n();
    const depthAt = (share) => +Math.min(1, Math.max(0, (share * n() - BEFORE) / (n() - OTHERS))).toFixed(3);
    const sentences = (length) => Math.max(1, Math.round((length - 80) / 5.2)); // about, for the excerpt alone
    const ends1 = (words, most) => words.slice(-most),
        begins = (words, most) => words.slice(0, most);

    function draw() {
        const width = svg.node().clientWidth || 600,
            depth = state.get('depth');
        x.range([16, width - 16]);
        const place = (sel) => sel.attr('y', 92).attr('height', 18).attr('rx', 9);
        place(straw)
            .attr('x', 16)
            .attr('width', width - 32);
        place(done)
            .attr('x', 16)
            .attr('width', (width - 32) * read)
            .attr('pointer-events', 'none');
        const seen = Math.min(1, L / n());
        place(reach)
            .attr('x', x(1 - seen))
            .attr('width', x(1) - x(1 - seen))
            .attr('pointer-events', 'none');
        reachText.attr('x', x(1)).attr('text-anchor', 'end').attr('y', 126).text(`a window of ${L} sees this much`);
        pin.attr('transform', `translate(${x(standsAt(depth))},84)`)
            .attr('aria-valuenow', Math.round(100 * depth))
            .attr('aria-valuetext', `${Math.round(100 * depth)} % into the text`);
        pin.select('text')
            .text(state.get('digits'))
            .attr('dx', x(standsAt(depth)) < 36 ? 14 : x(standsAt(depth)) > width - 36 ? -14 : 0)
            .attr('y', -24);
        const from = x(1),
            keys = (look?.keys ?? []).filter(([, weight]) => weight > 0.01);
        arcs.selectAll('path')
            .data(keys)
            .join('path')
            .attr('class', 'arc')
            .attr('stroke-width', ([, weight]) => 1 + 7 * weight)
            .style('opacity', ([, weight]) => 0.25 + 0.75 * weight)
            .attr(
                'd',
                ([k]) =>
                    `M${from} 88Q${(from + x(k / total)) / 2} ` +
                    `${88 - Math.min(120, 16 + (from - x(k / total)) * 0.3)} ${x(k / total)} 88`,
            );
        arcText.text(
            look
                ? `layer ${look.layer}, head ${look.head}: ${Math.round(100 * look.share)} % of its attention is ` +
                      `on the key`
                : '',
        );
        const [before, needle, behind] = build(sentences(n()), depth, state.get('digits'));
        excerpt.replaceChildren(`… ${ends1(before, 90)}`, h('mark', needle), `${begins(behind, 90)} …`);
        const name = state.get('asked');
        line.put(
            `./run model.bin -n ${n()} -t 0 --rope ${name === 'window' ? `none --window ${L}` : spelled(name)} -f ` +
                `haystack.txt`,
        );
        gridLine.put(`./run model.bin --passkey -n 4096 --trials 1 -s 1 --rope ${GRID.map(spelled).join(',')}`);
    }
    const redraw = onceAFrame(draw);

    function reset() {
        job?.cancel();
        job = null;
        read = 0;
        look = null;
        answer.replaceChildren();
        ask.textContent = 'Ask for the key';
        redraw();
    }

    async function askKey() {
        if (job) {
            reset();
            return void status.say('');
        }
        const key = state.get('digits'),
            name = state.get('asked'),
            length = n();
        if (!/^[1-9]\d{4}$/.test(key)) return void status.say('The key must be five digits, the first not 0.', true);
        reset();
        ask.textContent = 'Stop';
        status.say(`${titleOf(name)} reads ${count(length)} tokens …`);
        const mine = engine.ask(
            'hide',
            {
                model: 'model',
                method: methodFor(name),
                length,
                depth: state.get('depth'),
                key,
                context: length,
                looks: true,
            },
            (part) => {
                if (job !== mine) return;
                if (part.of) {
                    read = part.read / part.of;
                    total = part.of;
                }
                if (part.look) look = part.look;
                if (part.answer !== undefined) show(part.answer, key, name);
                redraw();
            },
        );
        job = mine;
        const found = await orSay(status, () => mine.promise);
        if (job !== mine) return;
        job = null;
        ask.textContent = 'Ask for the key';
        if (!found) return;
        show(found.answer, key, name, true);
        status.say(
            found.answer === key
                ? `Found, ${count(found.n - found.needle)} tokens back.`
                : name === 'window' && found.n - found.needle > L
                  ? `It stood ${count(found.n - found.needle)} tokens back: out of the window's sight, so it ` +
                    `makes something up.`
                  : 'Not found.',
        );
        redraw();
    }

    function show(digits, key, name, final) {
        const marks = Array.from(digits.slice(0, key.length), (c, i) =>
            h(c === key[i] ? 'span.right' : 'span.wrong', c),
        );
        answer.replaceChildren(
            ...marks,
            h('small', `  ${titleOf(name)}${final ? (digits === key ? ': right' : ': wrong') : ' …'}`),
        );
    }

    const ask = button('Ask for the key', askKey, { primary: true });
    const digits = h('input', {
        value: state.get('digits'),
        inputMode: 'numeric',
        maxLength: 5,
        size: 6,
        ariaLabel: 'five digits',
    });
    digits.oninput = () => {
        if (/^\d{0,5}$/.test(digits.value)) state.set('digits', digits.value);
    };
    const length = stateChips('length', 'n', counts([512, 1024, 2048, 4096]), { get: n });
    const choices = methodChoices([...NAMES, 'yours', 'mine', ...page.maps().map((map) => map.name)]);
    const methods = stateChips('method', 'asked', choices, { colour: colourOf });
    state.on(['depth', 'digits', 'asked', 'n', 'factor'], () => {
        reset();
        if (document.activeElement !== digits) digits.value = state.get('digits');
    });
    const guess = predict(
        'Perplexity likes the window best of all. Who finds a key that stands 1,500 tokens back?',
        ['the window', 'plain', 'YaRN, without any training'],
        { say: () => 'Ask each of them.' },
    );
    const box = h('div', svg.node());
    new ResizeObserver(redraw).observe(box);
    const grid = theGrid(engine, recorded);
    return {
        number: 8,
        id: 'key',
        title: 'Hide a key',
        body: [
            h(
                'p',
                'Five digits stand somewhere in a lot of grass and sky; the last line asks for them. Drag them to ' +
                    'where you like.',
            ),
            guess,
            h('div.row.middle', h('label.field', h('span', 'the key'), digits), length),
            methods,
            box,
            excerpt,
            h('div.row.middle', ask),
            answer,
            status,
            line,
            grid.body,
            gridLine,
        ],
    };
}

// All lengths and depths for three methods, a cell at a time.
function theGrid(engine, recorded) {
    const status = statusLine(),
        cells = {};
    const tables = GRID.map((name) =>
        h(
            'div.grid',
            h(
                'table',
                h('caption', titleOf(name)),
                h(
                    'thead',
                    h(
                        'tr',
                        h('th', ''),
                        DEPTHS.map((d) => h('th', `${100 * d} %`)),
                    ),
                ),
                h(
                    'tbody',
                    GRID_LENGTHS.map((length) =>
                        h(
                            'tr',
                            h('th', count(length)),
                            DEPTHS.map((depth, i) => {
                                const cell = h('td.ghost', '');
                                const known = recorded.passkey.find(
                                    ([m, n, d]) => m === name && n === length && d === depth,
                                );
                                if (known) {
                                    cell.classList.add(known[3] >= 0.5 ? 'yes' : 'no');
                                    cell.textContent = known[3] >= 0.5 ? '✓' : '·';
                                    cell.title = `recorded: ${100 * known[3]} % of 4 keys`;
                                }
                                cells[`${name} ${length} ${i}`] = cell;
                                return cell;
                            }),
                        ),
                    ),
                ),
            ),
        ),
    );
    const go = startStop(['Run the grid'], status, async (run) => {
        let right = 0,
            all = 0;
        for (const length of GRID_LENGTHS)
            for (const name of GRID)
                for (let i = 0; i < DEPTHS.length; i++) {
                    const cell = cells[`${name} ${length} ${i}`],
                        key = keyOf(1, length, i, 0),
                        wish = { model: 'model', method: methodFor(name), length, depth: DEPTHS[i], key };
                    cell.classList.add('now');
                    status.say(`${titleOf(name)}, ${count(length)} tokens, the key at ${100 * DEPTHS[i]} % …`);
                    try {
                        const { answer } = await run(engine.ask('hide', { ...wish, context: GRID_LENGTHS.at(-1) }));
                        cell.className = answer === key ? 'yes' : 'no';
                        cell.textContent = answer === key ? '✓' : '·';
                        cell.title = `key ${key}, answer ${answer}`;
                        right += answer === key;
                        all++;
                    } finally {
                        cell.classList.remove('now');
                    }
                }
        status.say(`${right} of ${all} keys found.`);
    });
    return {
        body: h(
            'div',
            h('h3', 'Every length, every depth'),
            h(
                'p.fine',
                'Rows: the length of the text. Columns: how deep the key stands. Pale cells were recorded with ' +
                    './run, full ones are yours.',
            ),
            h('div.grids', tables),
            go,
            status,
        ),
    };
}
