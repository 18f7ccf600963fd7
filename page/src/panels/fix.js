// A handle for each pair, how much it is slowed: what that does to neighbors and to angles, and how near it is to YaRN. The
// handles themselves are in the scene, below what each pair gives to the score.
import { afterPause, button, chips, count, folded, h, onceAFrame, reducedMotion, stateSlider } from '../dom.js';
import { copyLink, go } from '../links.js';
import { handles, methodChoices, namedHandles, placesOf, plainSpeeds, SIX, TIMES } from '../methods.js';
import { nearness, nudge, reached } from '../nearness.js';
import { seenShare, sharpness, TURN } from '../numbers.js';
import { state } from '../state.js';
import { handleBoard } from './handles.js';
import { rewrite } from './rewrite.js';

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

export function fixIt({ file, engine, shipped, recorded, book, own, scene }) {
    const L = shipped.trainedContext,
        scale = TIMES,
        n = scale * L,
        pairs = shipped.headDim / 2,
        plain = plainSpeeds(),
        yarn = placesOf('yarn');

    // ---- what is seen

    let over = null, // YaRN's places, while the reader's are near
        shownAs = ''; // the method whose chip is pressed
    const board = handleBoard({ pairs, slow: handles, past: scene.past, scale, over: () => over, move: (to) => put(to) });
    const text = rewrite({ engine, file, book, shipped, recorded, own });
    scene.add(board, text.box);
    const letGo = afterPause(SETTLED_MS, text.begin);
    const neighbors = gauge('neighbors told apart'),
        angles = gauge('angles seen in training');
    const said = h('p.found', { role: 'status' }),
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
        shownAs = namedHandles();
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
    }
    const redraw = onceAFrame(draw);

    // ---- the handles move, by whatever hand

    let ours = false;
    function set(slow, temper) {
        ours = true;
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
            to = placesOf(name),
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
    function raceThem() {
        state.set('race', ['none', 'yarn', 'yours']);
        go('race');
    }
    redraw();
    return {
        id: 'fix',
        title: 'A handle for each pair',
        body: [
            h(
                'p',
                'A handle’s height is how many times slower its hand turns. Drag across several of them. Lift the red ones to ' +
                    `${scale}×. Then try the fast ones, too: neighboring tokens will look alike.`,
            ),
            h('div.scene-slot'),
            h('p', 'Where published methods put them:'),
            presets,
            h('div.gauges', neighbors, angles),
            event,
            folded('How much YaRN slows each pair', h('p', slowing())),
            h('div.row.middle', tempered, button('Race these handles', raceThem)),
            folded('The command that writes the text with these handles', text.line),
        ],
    };
}
