// The scene of chapters 2 to 5, which stays beside the text: one sentence, one key, one head, and one distance that moves
// clocks, score, share and next word together. Axes stay; a chapter adds a picture, and begins with what it is about.
import { chart } from '../chart.js';
import { onChapter } from '../contents.js';
import {
    afterPause,
    button,
    command,
    count,
    folded,
    h,
    onceAFrame,
    reducedMotion,
    slider,
    stateChips,
    statusLine,
} from '../dom.js';
import { needle } from '../haystack.js';
import { runs } from '../job.js';
import { handles, methodFor, optionsFor } from '../methods.js';
import { kept } from '../place.js';
import { curvesOf, DEPTH, KEY, packed } from '../searched.js';
import { choice, number, state } from '../state.js';
import { prose } from '../terms.js';
import { wordBars } from './chances.js';
import { dial, nameOfLarge } from './dial.js';

const STOP_MS = 240, // that the film rests at a stop
    BAR = 46, // pixels of the contents above it, as style.css has it
    NEEDLE = needle(KEY).trim(),
    QUESTION = 'What is the pass key? The pass key is';
const NARROW = matchMedia('(max-width: 1039px)'); // as style.css has it
const SIZES = {
    wide: { height: 176, margin: {} },
    narrow: { height: 84, margin: { top: 15, bottom: 17, left: 30, right: 6 } },
};

// What a chapter begins with, until the reader moves something: the length, in trained contexts, and the method.
const FIRST = {
    turning: [0.875, 'none'],
    why: [4, 'none'],
    mend: [4, 'yours'],
    proof: [4, 'yarn'],
};
const ADDS = ['turning', 'why', 'mend', 'proof'];

export function scene({ engine, file, page, shipped, recorded, own }) {
    const L = shipped.trainedContext,
        MOST = 4 * L,
        STEP = L / 8,
        LEAST = Math.max(128, 3 * STEP),
        pairs = shipped.headDim / 2,
        METHODS = { none: 'none', yarn: `yarn:factor=${MOST / L}`, window: 'window' };
    state.add('far', number(0, MOST), 0);
    state.add('by', choice(['', ...Object.keys(METHODS), 'yours']), '');
    let chapter = 'turning',
        filmed = 0; // the length that the film, or the way to a chapter's beginning, is at

    // ---- what is shown: a length, a method, and what is known of both

    const isMoved = () => handles().some((slow) => slow !== 1);
    const method = () => {
        const wanted = state.get('by') || FIRST[chapter][1];
        return wanted === 'yours' && !isMoved() ? 'none' : wanted;
    };
    const limited = (n) => Math.min(MOST, Math.max(LEAST, STEP * Math.round(n / STEP)));
    const length = () => filmed || limited(state.get('far') || FIRST[chapter][0] * L);
    const asRun = () => METHODS[method()] ?? methodFor('yours', MOST);
    const known = new Map(); // by method and length
    const nameOf = () => `${JSON.stringify(asRun())} ${length()}`;
    if (!own)
        for (const name of Object.keys(METHODS))
            for (const [n, found] of Object.entries(recorded.scene?.[name] ?? {}))
                known.set(`${JSON.stringify(METHODS[name])} ${n}`, found);
    const BEFORE = 45; // tokens in front of the key, about, where nothing is known
    const now = () => known.get(nameOf());
    const distance = () => (now() ? now().n - now().from : length() - BEFORE);

    // ---- pictures

    const small = (label, y, show) =>
        chart({
            label,
            x: { domain: [0, MOST], label: 'tokens back', name: 'tokens back' },
            y,
            rule: { at: L, text: 'never in training' },
            show,
            ...SIZES.wide,
        });
    const scores = small('Score of each token by its distance', { label: 'score', domain: [-20, 30] }, (v) => v.toFixed(1)),
        shares = small(
            'Share of attention by distance',
            { label: 'share of attention, %', domain: [0, 102] },
            (v) => `${v.toFixed(1)} %`,
        ),
        words = wordBars();
    const fitCharts = () => {
        const isNarrow = NARROW.matches;
        for (const plot of [scores, shares]) {
            plot.fit(isNarrow ? SIZES.narrow : SIZES.wide);
            plot.change({ x: { label: isNarrow ? '' : 'tokens back' }, rule: { text: isNarrow ? '' : 'never in training' } });
        }
    };
    const large = Array.from({ length: pairs }, (_, i) => i).filter((i) => nameOfLarge(i, pairs)),
        dials = large.map((i) => dial(i, pairs, L));
    const middle = h('span.filler'),
        answer = h('b'),
        sentence = h('p.sentence', h('mark.key', NEEDLE), middle, h('span.asks', QUESTION), ' ', answer);
    const told = h('p.told'),
        status = statusLine(),
        line = command();

    function drawClocks() {
        const { frequencies, plain } = page.plan(asRun(), MOST).frequencies(MOST),
            to = distance();
        dials.forEach(({ put }, k) => put({ speed: frequencies[large[k]], plain: plain[large[k]], from: 0, to }));
        box.dataset.by = method();
    }
    function drawFound(found) {
        for (const plot of [scores, shares]) plot.clear(false);
        words.put(found?.words.map(([text, p]) => ({ text, p })) ?? [], KEY);
        if (!found) return;
        const curves = curvesOf(found),
            others = { colour: 'var(--grey)', title: 'other tokens' },
            key = { colour: 'var(--gold)', title: 'the key' };
        const all = [...curves.others, ...curves.key].map(([, score]) => score).filter((score) => score !== null);
        scores.widen([Math.min(...all), Math.max(...all)]);
        scores.set('others', curves.others, others);
        shares.set('others', curves.otherShares, others);
        scores.set('key', curves.key, key);
        shares.set('key', curves.keyShares, key);
    }
    function draw() {
        const found = now(),
            isRight = found?.answer === KEY,
            d = distance();
        pull.put(length());
        middle.textContent = ` ${count(d)} tokens of grass and sky … `;
        answer.textContent = found ? found.answer : '…';
        answer.className = !found || chapter === 'turning' ? 'unsaid' : isRight ? 'right' : 'wrong';
        drawClocks();
        drawFound(found);
        told.textContent = found
            ? `Head ${found.head} of layer ${found.layer} gives the key ${(100 * found.share).toFixed(0)} % of its ` +
              `attention. The model answers “${found.answer}”: ${isRight ? 'found' : 'not found'}.`
            : 'Not measured yet.';
        chips.draw();
        showCommand(found);
    }
    function showCommand(found) {
        const name = method(),
            n = length(),
            [[options, files]] = name === 'yours' ? optionsFor(['yours'], MOST) : [[`--rope ${METHODS[name]}`, []]],
            text = async () => (await engine.ask('haystack', { model: 'model', length: n, ...HIDDEN }).promise).text,
            how = `-n ${n} --kv f32 ${options} -f key.txt`,
            saved = [['key.txt', text], ...files];
        const answers = [`./run ${file} -t 0 ${how}`, saved];
        line.put(...(found ? [[`./run ${file} --attn ${found.layer}.${found.head} ${how}`, saved], answers] : [answers]));
    }
    const HIDDEN = { depth: DEPTH, key: KEY };
    const redraw = onceAFrame(draw);

    // ---- what is not recorded is measured, when it is looked at

    const reading = runs({
        engine,
        status,
        work: async (run) => {
            const mine = nameOf(),
                wish = { model: 'model', method: asRun(), length: length(), ...HIDDEN };
            status.say(`Reading ${count(length())} tokens …`);
            known.set(mine, packed(await run.ask('path', wish)));
            status.say('');
            redraw();
        },
    });
    let isSeen = false;
    const measure = afterPause(350, () => {
        if (isSeen && !filmed && !now() && ADDS.indexOf(chapter) > 0) reading.begin();
    });
    const changed = () => {
        if (!now()) reading.end();
        redraw();
        measure();
    };

    // ---- the film, and the way from one chapter's beginning to the next one's: stop by stop

    let timer = 0;
    function rest() {
        clearTimeout(timer);
        timer = filmed = 0;
        play.textContent = 'Play';
        changed();
    }
    function walk(to, ms, then) {
        clearTimeout(timer);
        const step = kept(() => {
            filmed += Math.sign(to - filmed) * STEP;
            if (filmed === to) return then();
            draw();
            timer = setTimeout(step, ms);
        });
        timer = setTimeout(step, ms);
    }
    function film() {
        if (filmed) return rest();
        filmed = LEAST;
        play.textContent = 'Stop';
        draw();
        walk(MOST, STOP_MS, () => {
            state.set('far', MOST);
            rest();
        });
    }
    const play = button('Play', film);
    const pull = slider('the key’s distance', {
        ...{ min: LEAST, max: MOST, step: STEP, value: length() },
        show: () => `${count(distance())} tokens`,
        oninput: (n) => {
            filmed = 0;
            state.set('far', limited(n));
        },
    });
    const chips = stateChips('how the hands turn', 'by', [
        ['none', 'plain'],
        ['yours', 'your handles'],
        ['yarn', 'YaRN'],
        ['window', 'window'],
    ]);
    const drawChips = chips.draw;
    chips.classList.add('no-cards');
    chips.draw = () => {
        drawChips();
        for (const chip of chips.children) {
            chip.setAttribute('aria-pressed', String(chip.value === method()));
            chip.disabled = chip.value === 'yours' && !isMoved();
        }
    };
    state.on('far', changed);
    state.on('by', changed);
    state.on(['slow', 'temper'], changed);

    function enter(id) {
        const to = ADDS.includes(id) ? id : ADDS.includes(chapter) && id === 'yours' ? 'proof' : 'turning';
        if (to === chapter) return;
        const from = length();
        chapter = to;
        box.dataset.chapter = to;
        clearTimeout(timer);
        filmed = 0;
        const aim = length();
        if (from !== aim && !reducedMotion() && isSeen) {
            filmed = from;
            walk(aim, STOP_MS / 6, rest);
        } else rest();
    }

    const figure = (name, title, ...inside) => h(`figure.${name}`, h('figcaption', prose(title)), ...inside);
    const box = h(
        'div.scene-body',
        { 'data-chapter': chapter },
        sentence,
        h('div.row.middle.pull', pull, play),
        figure(
            'its-hands',
            'Four clocks of a [head]. Gold: the [key] of the gold sentence. Blue: the [query] that asks. Shaded: where ' +
                'training had it. Red: where it never was.',
            h('div.dials', dials.map((d) => d.box)),
        ),
        figure('its-score', 'Its [score|attention] for every token.', scores),
        figure('its-share', 'Its share of [attention].', shares),
        figure('its-word', 'The next word: probability, %', words.box, told),
        h('div.by', chips),
        status,
        folded('The commands that do this', line),
    );
    NARROW.onchange = kept(fitCharts);
    fitCharts();
    // On a narrow page it stays above the text, which is scrolled to below it.
    const cover = kept(() => {
        const stays = NARROW.matches && getComputedStyle(box.parentElement).position === 'sticky';
        document.documentElement.style.setProperty('--covered', stays ? `${BAR + box.parentElement.offsetHeight}px` : '');
    });
    new ResizeObserver(cover).observe(box);
    new IntersectionObserver(
        kept(([entry]) => {
            isSeen = entry.isIntersecting;
            if (isSeen) measure();
        }),
    ).observe(box);
    draw();
    onChapter(kept(enter));
    return { id: 'scene', title: 'One key, and how far back it stands', body: box };
}
