// A handle for each pair, how much it is slowed: what that does to neighbors and to angles, and how near it is to YaRN. The
// handles themselves stand in the scene, below what each pair gives to the score.
import { chart, legend } from '../chart.js';
import { afterPause, button, chips, command, count, folded, h, listing, onceAFrame, reducedMotion, stateSlider } from '../dom.js';
import { copyLink } from '../links.js';
import { blockOfHandles, handles, lookOf, methodChoices, methodFor, plainSpeeds, SIX } from '../methods.js';
import { nearness, nudge, reached } from '../nearness.js';
import { seenShare, sharpness, TURN } from '../numbers.js';
import { state } from '../state.js';
import { handleBoard } from './handles.js';
import { measureHandles } from './measured.js';
import { rewrite } from './rewrite.js';

// Perplexity of book.txt past 512 in a text so many times as long, measured of model.bin by ./run --ppl book.txt --kv f32:
// with the step as a block of longrope, and with --rope yarn.
const STEP_AND_RAMP = {
    times: [2, 3, 4, 6, 8, 16],
    step: [40.6, 31.6, 33.9, 36.3, 36.7, 40.3],
    yarn: [40.0, 31.3, 33.8, 35.4, 35.7, 38.0],
};
const MOVING_MS = 450, // handles on their way to a method's places
    SETTLED_MS = 600; // after which the reader has let go of them

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

function stepOrRamp() {
    const { times, step, yarn } = STEP_AND_RAMP,
        row = (name, numbers) => [name, ...numbers.map((x) => x.toFixed(1))];
    return listing(
        ['perplexity past 512', ...times.map((x) => `${x}×`)],
        [row('the step', step), row('YaRN', yarn)],
    );
}

export function fixIt({ file, engine, page, shipped, recorded, book, own, scene }) {
    const L = shipped.trainedContext,
        n = scene.most,
        scale = n / L,
        pairs = shipped.headDim / 2,
        plain = plainSpeeds();

    // ---- what is known: where the methods have the handles

    const placesOf = (name) => {
        const { frequencies, attention } = page.plan(methodFor(name), n).frequencies(n);
        return { slow: plain.map((f, i) => f / frequencies[i]), temper: +attention.toPrecision(6) };
    };
    const PLACES = Object.fromEntries(SIX.map((name) => [name, placesOf(name)])),
        yarn = PLACES.yarn;
    const alike = (a, b) => Math.abs(a / b - 1) < 1e-4;
    // The method that has the handles where they are; '': none has.
    const named = () => {
        const now = handles();
        return (
            SIX.find(
                (name) =>
                    alike(PLACES[name].temper, state.get('temper')) && PLACES[name].slow.every((s, i) => alike(s, now[i])),
            ) ?? ''
        );
    };

    // ---- what is seen

    let over = null, // YaRN's places, while the reader's are near
        shownAs = ''; // the method whose chip is pressed
    const board = handleBoard({
        ...{ pairs, slow: handles, past: scene.past, scale, over: () => over, move: (to) => put(to) },
        first: () => (scene.isNarrow() ? pairs / 2 : 0), // fingers need room, and the slow half is what breaks
    });
    const text = rewrite({ engine, file, book, shipped, recorded, own });
    scene.add(board, text.box);
    const letGo = afterPause(SETTLED_MS, text.begin);
    const neighbors = gauge('neighbors told apart'),
        angles = gauge('angles seen in training');
    const live = chart({
        label: 'Perplexity by position',
        height: 180,
        x: { domain: [0, n], label: 'position', name: 'position' },
        y: { log: true, label: 'perplexity of the story', most: 600 },
        rule: { at: L, text: 'trained' },
        show: (v) => v.toFixed(1),
    });
    for (const name of ['none', 'yarn', 'window'])
        if (recorded.race[n]) live.set(`~${name}`, recorded.race[n][name], { ...lookOf(name), ghost: true });
    const result = h('div.numbers', { ariaLive: 'polite' }),
        line = command(),
        said = h('p.found', { role: 'status' }),
        event = h('div.event', { hidden: true }, said, copyLink('fix', 'copy a link to these handles'));

    // How much YaRN slows which pairs, in words. Pairs that it slows by less than a thousandth are kept.
    function slowing() {
        const turns = plain.map((f) => (f * L) / TURN),
            first = yarn.slow.findIndex((s) => s > 1.001),
            never = turns.findIndex((t) => t < 1);
        if (first <= 0 || never <= first) return '';
        const between = (from, to, list, digits) =>
            `${[...new Set([from, to].map((i) => list[i].toFixed(digits)))].join(' to ')} times`;
        return (
            `YaRN for ${count(n)} tokens: pairs 0 to ${first - 1} went round often and keep their speed. Pairs ${first} ` +
            `to ${never - 1} went round ${between(first, never - 1, turns, 1)}, and are slowed ` +
            `${between(first, never - 1, yarn.slow, 2)}. Pairs ${never} to ${pairs - 1} never went round, and are slowed most: ` +
            `${between(never, pairs - 1, yarn.slow, 2)}.`
        );
    }

    function draw() {
        const speeds = handles().map((s, i) => plain[i] / s),
            shares = speeds.map((f, i) => seenShare(plain[i], f, L, n)),
            near = nearness(handles(), yarn.slow, plain, L),
            { stage } = near;
        shownAs = named();
        over = stage ? yarn.slow : null;
        board.draw();
        neighbors.put(sharpness(plain, speeds));
        angles.put(shares.reduce((a, b) => a + b, 0) / pairs);
        event.hidden = !stage;
        event.classList.toggle('built', stage === 'built');
        const words =
            shownAs === 'yarn'
                ? 'This is where YaRN puts them.'
                : stage === 'built'
                  ? reached(near, { temper: state.get('temper'), its: yarn.temper }, n)
                  : stage && nudge(near, yarn.slow);
        if (said.textContent !== words) said.textContent = words || '';
        presets.draw();
        showCommands();
    }
    function showCommands() {
        const [options, files] = shownAs
            ? [`--rope ${methodFor(shownAs)}`, []]
            : [`--rope-config ${blockOfHandles()[0]}`, [blockOfHandles()]];
        line.put([`./run ${file} --ppl book.txt -n ${n} --kv f32 ${options}`, files]);
    }
    const redraw = onceAFrame(draw);

    // ---- what is measured

    const measure = measureHandles({ engine, book, trained: L, n, named, result, live });

    // ---- the handles move, by whatever hand

    let ours = false;
    function set(slow, temper) {
        ours = true;
        if (!['', 'yours'].includes(state.get('by'))) state.set('by', '');
        state.set('temper', temper);
        state.set('slow', slow.every((s) => s === 1) ? [] : slow);
        ours = false;
        redraw();
    }
    // What the reader did: the text is written anew, unless nothing is slowed any more.
    function follow() {
        if (handles().some((s) => s !== 1)) letGo();
        else text.end();
    }
    let moving = 0; // number of the last way to a method's places
    function put(slow, temper = state.get('temper')) {
        moving++;
        set(slow, temper);
        follow();
    }
    function preset(name) {
        const from = handles(),
            to = PLACES[name],
            began = performance.now(),
            mine = ++moving;
        const step = () => {
            if (mine !== moving) return;
            const t = reducedMotion() ? 1 : Math.min(1, (performance.now() - began) / MOVING_MS),
                ease = t * t * (3 - 2 * t);
            if (t === 1) {
                set(to.slow, to.temper);
                return follow();
            }
            set(
                from.map((s, i) => s * (to.slow[i] / s) ** ease),
                to.temper,
            );
            requestAnimationFrame(step);
        };
        step();
    }
    state.on(['slow', 'temper'], () => {
        if (ours) return;
        moving++;
        redraw();
    });
    const presets = chips('methods', methodChoices(SIX), { get: () => shownAs, set: preset });
    const tempered = stateSlider('temperature a (scores grow by a²)', 'temper', {
        ...{ min: 0.5, max: 2, step: 0.005, show: (v) => v.toFixed(3) },
        onset: letGo,
    });
    redraw();
    return {
        id: 'fix',
        title: 'A handle for each pair',
        body: [
            h(
                'p',
                'A handle’s height is how many times slower its hand turns. Drag across several of them. Lift the red ones to ' +
                    `${scale}×: their hands return to their arcs, their bars rise, and the model finds the number. But if you slow ` +
                    'the fast ones, too, neighboring tokens look alike.',
            ),
            h('div.scene-slot'),
            h('div.gauges', neighbors, angles),
            event,
            h('p', 'Where published methods put them:'),
            presets,
            h(
                'p',
                'Does it take YaRN’s gradual ramp from fast to slow? A step slows the 16 red hands alone, by the factor, and uses ' +
                    'YaRN’s temperature. It finds every hidden number up to 16 times the trained length, as YaRN does. But it ' +
                    'reads worse, and more so the further it goes: at 16 times its perplexity is 6 % higher (give or take 0.6).',
            ),
            h('div.overflow', stepOrRamp()),
            folded('How much YaRN slows each pair', h('p', slowing())),
            folded(
                'Read the story with these handles',
                h('div.row.middle', button('measure', measure.again, { primary: true }), tempered),
                result,
                live,
                measure.status,
                legend(['none', 'yarn', 'window', 'yours'].map(lookOf)),
                line,
            ),
            folded('The command that writes the text with these handles', text.line),
        ],
    };
}
