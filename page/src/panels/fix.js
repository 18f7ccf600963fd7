// A handle for each pair, how much it is slowed; what that does to neighbors, to unseen angles and to perplexity.
import { chart, legend } from '../chart.js';
import {
    afterPause,
    button,
    chips,
    command,
    count,
    counts,
    folded,
    h,
    onceAFrame,
    reducedMotion,
    stateChips,
    stateSlider,
} from '../dom.js';
import { blockOf, colourOf, handles, lookOf, methodChoices, methodFor, plainSpeeds, SIX } from '../methods.js';
import { expectedScore, seenShare, sharpness, TURN } from '../numbers.js';
import { number, state } from '../state.js';
import { handleBoard } from './handles.js';
import { measureHandles, searchHandles } from './measured.js';
import { rewrite } from './rewrite.js';

const MOVING_MS = 450, // handles on their way to a method's places
    SETTLED_MS = 700; // after which the reader has let go of them

function gauge(name) {
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
}

export function fixIt({ file, engine, page, shipped, recorded, book, own }) {
    const L = shipped.trainedContext,
        pairs = shipped.headDim / 2,
        plain = plainSpeeds();
    state.add('fix-n', number(64, 8 * L), 4 * L);
    const n = () => state.get('fix-n'),
        scale = () => Math.max(1.0001, n() / L);

    // ---- what is known: where the methods have the handles, and what was seen of each pair's angles

    const placesOf = (name) => {
        const { frequencies, attention } = page.plan(methodFor(name, n()), n()).frequencies(n());
        return { slow: plain.map((f, i) => f / frequencies[i]), temper: +attention.toPrecision(6) };
    };
    const alike = (a, b) => Math.abs(a / b - 1) < 1e-4;
    // The method that has the handles where they are; '': none has.
    const named = () => {
        const now = handles();
        const has = (name) => {
            const { slow, temper } = placesOf(name);
            return alike(temper, state.get('temper')) && slow.every((s, i) => alike(s, now[i]));
        };
        return SIX.find(has) ?? '';
    };
    const speeds = () => handles().map((s, i) => plain[i] / s);
    const shares = () => speeds().map((f, i) => seenShare(plain[i], f, L, n()));

    // ---- what is seen

    let over = null; // YaRN's places, while the reader's are near
    const board = handleBoard({
        ...{ pairs, slow: handles, shares, scale, most: () => 2 * scale(), over: () => over },
        move: (to) => put(to),
    });
    const again = rewrite({
        ...{ engine, file, book, shipped, recorded, own, length: n, places: () => placesOf('yarn') },
        isPreset: () => shownAs === 'yarn',
    });
    const letGo = afterPause(SETTLED_MS, again.touched);
    const neighbors = gauge('neighbors stay sharp'),
        angles = gauge('angles that training showed');
    const score = chart({
        label: 'Expected score by distance',
        height: 180,
        x: { domain: [0, n()], label: 'distance', name: 'distance' },
        y: { label: 'expected score of equal vectors', domain: [-0.45, 1.05] },
        rule: { at: L, text: 'trained' },
    });
    const live = chart({
        label: 'Perplexity by position',
        height: 180,
        x: { domain: [0, n()], label: 'position', name: 'position' },
        y: { log: true, label: 'perplexity of the story', most: 600 },
        rule: { at: L, text: 'trained' },
        show: (v) => v.toFixed(1),
    });
    const intro = h('p'),
        result = h('div.numbers', { ariaLive: 'polite' }),
        line = command(),
        searchLine = command();
    const slowing = h('p');
    let shownAs = ''; // the method whose chip is pressed

    // How much YaRN slows which pairs, in words. Pairs that it slows by less than a thousandth are kept.
    function showSlowing() {
        const { slow } = placesOf('yarn'),
            turns = plain.map((f) => (f * L) / TURN),
            first = slow.findIndex((s) => s > 1.001),
            never = turns.findIndex((t) => t < 1);
        if (first <= 0 || never <= first) return slowing.replaceChildren();
        const between = (from, to, list, digits) =>
            `${[...new Set([from, to].map((i) => list[i].toFixed(digits)))].join(' to ')} times`;
        slowing.textContent =
            `YaRN for ${count(n())} tokens: pairs 0 to ${first - 1} went round often and keep their speed. Pairs ${first} ` +
            `to ${never - 1} went round ${between(first, never - 1, turns, 1)}, and are slowed ` +
            `${between(first, never - 1, slow, 2)}. Pairs ${never} to ${pairs - 1} never went round, and are slowed most: ` +
            `${between(never, pairs - 1, slow, 2)}.`;
    }

    function draw() {
        const f = speeds(),
            share = shares();
        shownAs = named();
        over = again.look();
        board.draw();
        neighbors.put(sharpness(plain, f));
        angles.put(share.reduce((a, b) => a + b, 0) / pairs);
        const steps = 240,
            at = (list, a) =>
                Array.from({ length: steps + 1 }, (_, k) => (n() * k) / steps).map((d) => [
                    d,
                    expectedScore(list, d, a),
                ]);
        score.change({ x: { domain: [0, n()] } });
        score.set('~none', at(plain, 1), { colour: colourOf('none'), ghost: true, computed: true, title: 'plain' });
        score.set('yours', at(f, state.get('temper')), { colour: colourOf('yours'), title: 'yours' });
        if (over) {
            const { slow, temper } = placesOf('yarn'),
                curve = at(
                    plain.map((p, i) => p / slow[i]),
                    temper,
                );
            score.set('~yarn', curve, { colour: colourOf('yarn'), ghost: true, computed: true, title: 'yarn' });
        } else score.remove('~yarn');
        presets.draw();
        showSlowing();
        showCommands();
    }
    function showCommands() {
        const at = (length) => {
            if (shownAs) return [`--rope ${methodFor(shownAs, length)}`, []];
            const block = blockOf('yours', length);
            return [`--rope-config ${block[0]}`, [block]];
        };
        const [options, files] = at(n());
        line.put([`./run ${file} --ppl book.txt -n ${n()} --kv f32 ${options}`, files]);
        if (search.isOn()) return; // it shows what it began with
        const { context, windows, reads, seed } = search.settings(),
            how = `-n ${context} --search-windows ${windows} --reads ${reads} -s ${seed} --kv f32`;
        const [from, itsFiles] = at(context);
        searchLine.put([`./run ${file} --search book.txt ${how} ${from}`, itsFiles]);
    }
    const redraw = onceAFrame(draw);

    function ghosts() {
        intro.textContent =
            `To read ${count(n())} tokens, no hand may go where it never was. But slow the fast ones, and tokens side by side ` +
            'look alike. A handle’s height is how many times slower its hand turns: drag one, or paint across many. Keep ' +
            'both gauges full.';
        live.clear(false);
        live.change({ x: { domain: [0, n()] } });
        const all = recorded.race[n()] ?? {};
        for (const name of ['none', 'yarn', 'window'])
            if (all[name]) live.set(`~${name}`, all[name], { ...lookOf(name), ghost: true });
    }

    // ---- what is measured

    const measure = measureHandles({ engine, book, trained: L, named, result, live });
    const search = searchHandles({
        engine,
        book,
        trained: L,
        named,
        better: (slow, temper) => set(slow, temper, () => measure.moved()),
    });

    // The handles move, by whatever hand: `then` is what follows when it is the panel's own.
    let ours = false;
    function set(slow, temper, then) {
        ours = true;
        state.set('temper', temper);
        state.set('slow', slow.every((s) => s === 1) ? [] : slow);
        ours = false;
        then();
        redraw();
    }
    let moving = 0; // number of the last way to a method's places
    function put(slow, temper = state.get('temper')) {
        moving++;
        search.end();
        set(slow, temper, () => measure.moved());
        letGo();
    }
    function preset(name) {
        const from = handles(),
            to = placesOf(name),
            began = performance.now(),
            mine = ++moving;
        search.end();
        const step = () => {
            if (mine !== moving) return;
            const t = reducedMotion() ? 1 : Math.min(1, (performance.now() - began) / MOVING_MS),
                ease = t * t * (3 - 2 * t);
            if (t === 1) return void set(to.slow, to.temper, () => measure.moved());
            set(
                from.map((s, i) => s * (to.slow[i] / s) ** ease),
                to.temper,
                () => {},
            );
            requestAnimationFrame(step);
        };
        step();
    }
    state.on(['slow', 'temper'], () => {
        if (ours) return;
        moving++;
        search.end();
        measure.moved(false);
        redraw();
    });
    state.on('fix-n', () => {
        ghosts();
        if (shownAs) preset(shownAs);
        measure.moved(false);
        redraw();
    });
    state.on('factor', redraw);
    const presets = chips('methods', methodChoices(SIX), { get: () => shownAs, set: preset });
    const tempered = stateSlider('temperature a (scores grow by a²)', 'temper', {
        min: 0.5,
        max: 2,
        step: 0.005,
        show: (v) => v.toFixed(3),
        onset: () => {
            measure.moved();
            letGo();
        },
    });
    ghosts();
    new ResizeObserver(redraw).observe(board.box);
    redraw();
    return {
        id: 'fix',
        title: 'A handle for each pair',
        body: [
            intro,
            h(
                'div.row.middle',
                stateChips('length', 'fix-n', counts([2 * L, 4 * L, 8 * L])),
                button('measure', measure.again, { primary: true }),
            ),
            board.body,
            h('div.gauges', neighbors, angles),
            again.box,
            h('div.row', tempered),
            result,
            h('div.two', score, live),
            measure.status,
            legend([
                { title: 'yours', colour: colourOf('yours') },
                { title: 'plain', colour: colourOf('none') },
                { title: 'yarn', colour: colourOf('yarn') },
                { title: 'window', colour: colourOf('window'), dash: true },
            ]),
            h('p', 'Where people put them:'),
            presets,
            folded('How much YaRN slows which', slowing),
            folded(
                'Let the program look for something better, as LongRoPE does',
                h('div.row.middle', search.button(['Search', 'Stop the search'])),
                search.status,
                searchLine,
            ),
            folded('The command that reads with these handles', line),
        ],
    };
}
