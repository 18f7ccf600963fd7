// The scene: one sentence with a number in it, one head, and one distance that moves 32 clocks and what the model answers.
// It is the first screen, where it drags itself once, and stays beside chapters 1 to 5: from chapter 3 on with what each
// pair gives to the score, in chapter 4 with a handle for each pair. It begins without the program: `attach` gives it one.
import { onChapter } from './contents.js';
import { afterPause, button, chips, command, count, folded, h, onceAFrame, reducedMotion, statusLine } from './dom.js';
import { needle } from './haystack.js';
import { runs } from './job.js';
import { termBars } from './panels/bars.js';
import { clocks } from './panels/dial.js';
import { kept } from './place.js';
import { DEPTH, KEY, packed } from './searched.js';
import { choice, number, state } from './state.js';

const FILM_MS = 6000, // there and back
    BAR = 46, // pixels of the contents above it, as style.css has it
    LOST = 0.1, // share of a head's attention below which it has lost the key
    HELPED = 3, // digits that are right all the same
    NEEDLE = needle(KEY).trim(),
    QUESTION = 'What is the pass key? The pass key is';
const NARROW = matchMedia('(max-width: 999px)'); // as style.css has it

// What a chapter begins with, until the reader moves something: the length, in trained contexts, and the method. Where
// nothing moves, the first shows at once what the film comes to.
const FIRST = {
    breaks: [reducedMotion() ? 4 : 0, 'none'],
    turning: [0.875, 'none'],
    why: [4, 'none'],
    mend: [4, 'yours'],
    proof: [4, 'none'],
};

// The five digits, each right where it stands, or wrong.
function digitsOf() {
    const cells = Array.from(KEY, () => h('b')),
        box = h('span.digits', { role: 'img' }, cells);
    return {
        box,
        put(answer, isHidden) {
            const isKnown = answer !== undefined && !isHidden;
            cells.forEach((cell, i) => {
                const one = isKnown ? (answer[i] ?? ' ') : '?';
                cell.textContent = one;
                cell.className = !isKnown ? 'unsaid' : one === KEY[i] ? 'right' : 'wrong';
            });
            box.ariaLabel = isKnown ? `the model answers ${answer}` : 'the answer is not known yet';
        },
    };
}

/**
 * { box, attach, film, unhide }. `recorded` has what is known of distances, by method and length, and nothing of a model of
 * the reader's own.
 * @param {{ shipped: { theta: number, headDim: number, trainedContext: number }, recorded: any }} model
 */
export function makeScene({ shipped, recorded }) {
    const L = shipped.trainedContext,
        MOST = 4 * L,
        STEP = L / 8,
        LEAST = Math.max(128, 3 * STEP),
        pairs = shipped.headDim / 2,
        plainly = Array.from({ length: pairs }, (_, i) => shipped.theta ** ((-2 * i) / shipped.headDim)),
        METHODS = { none: 'none', yarn: `yarn:factor=${MOST / L}`, window: 'window' },
        HIDDEN = { depth: DEPTH, key: KEY };
    state.add('far', number(0, MOST), 0);
    state.add('by', choice(['', ...Object.keys(METHODS), 'yours']), '');
    let chapter = 'breaks',
        shown = 0, // the length while the scene moves by itself; 0: the reader's, or the chapter's
        isAsked = true, // in chapter 5 the answer waits for a guess
        asked = () => {}, // called when it does no more
        program = null, // see attach
        handles = null; // the board of chapter 4

    // ---- what is shown: a length, a method, and what is known of both

    const isMoved = () => state.keys().includes('slow') && state.get('slow').length > 0;
    const method = () => {
        const wanted = state.get('by') || FIRST[chapter][1];
        return wanted === 'yours' && !isMoved() ? 'none' : wanted;
    };
    const limited = (n) => Math.min(MOST, Math.max(LEAST, STEP * Math.round(n / STEP)));
    const length = () => shown || limited(state.get('far') || FIRST[chapter][0] * L);
    const asRun = () => METHODS[method()] ?? program.yours();
    const known = new Map(); // by method and length
    const nameOf = () => `${JSON.stringify(asRun())} ${length()}`;
    for (const [name, lengths] of Object.entries(recorded))
        for (const [n, found] of Object.entries(lengths)) known.set(`${JSON.stringify(METHODS[name])} ${n}`, found);
    const BEFORE = 50; // tokens in front of the key's, about, where nothing is known
    const now = () => known.get(nameOf());
    const distance = () => now()?.d ?? length() - BEFORE;
    const speeds = () => (program ? program.speeds(asRun()) : plainly);
    const isHidden = () => chapter === 'proof' && !isAsked;
    const isInSight = () => method() !== 'window' || distance() < L;

    // ---- pictures

    const dials = clocks(pairs, L),
        bars = termBars(pairs),
        digits = digitsOf(),
        filler = h('span.filler'),
        hands = h('span.hands'),
        told = h('p.told'),
        status = statusLine(),
        line = command(),
        charts = h('div.charts'), // what chapters 3 and 4 add; on a narrow page it stands in them
        sentence = h('p.sentence', h('mark.key', NEEDLE), filler, h('span.asks', QUESTION));
    let past = [];

    function wordsOf(found, red) {
        const many = `${red} of ${pairs} hands are past their arc`;
        return { many, red, all: `${count(distance())} tokens back: ${found ? `it answers ${found.answer}, ` : ''}${many}` };
    }
    function tell(found) {
        if (!found) return program ? 'Not measured yet.' : '';
        if (isHidden()) return 'Guess first; then the answer appears.';
        const isRight = found.answer === KEY,
            percent = `${(100 * found.share).toFixed(0)} %`,
            right = Array.from(found.answer).filter((one, i) => one === KEY[i]).length;
        if (!isInSight()) return 'The window does not reach back to the sentence, so the model makes something up.';
        if (['breaks', 'turning'].includes(chapter)) // where no head has been heard of
            return isRight ? 'Right: it found the number.' : `Wrong: ${right} of ${KEY.length} digits are in the right place.`;
        const head = `Head ${found.head} of layer ${found.layer} gives it ${percent}`,
            whole = `${head} of its attention`;
        if (isRight) return `Found. ${whole}.`;
        if (right < HELPED) return `Not found. ${whole}.`;
        const many = `${right} of ${KEY.length} digits`;
        return found.share < LOST ? `Not found. ${head}; other heads still know ${many}.` : `Only ${many} are right. ${whole}.`;
    }
    function draw() {
        const found = now();
        const d = distance();
        past = dials.put(speeds(), program ? program.plain() : plainly, isInSight() ? d : 0);
        const red = past.filter(Boolean).length,
            words = wordsOf(found, red);
        if (document.activeElement !== pull || shown) pull.value = String(length());
        pull.setAttribute('aria-valuetext', words.all);
        output.textContent = `${count(d)} tokens back`;
        filler.textContent = ` … ${count(d)} tokens of grass and sky … `;
        digits.put(found?.answer, isHidden());
        hands.textContent = words.many;
        hands.classList.toggle('strange', red > 0);
        bars.put(found && isInSight() && !isHidden() ? { ...found, past } : null);
        told.textContent = tell(found);
        if (box.isConnected) handles?.draw(); // not those of a model that another one has replaced
        drawChips();
        box.dataset.by = method();
        if (program) showCommand(found);
    }
    function showCommand(found) {
        const n = length(),
            [[options, files]] =
                method() === 'yours' ? program.options(MOST) : [[`--rope ${METHODS[method()]}`, []]],
            text = async () => (await program.engine.ask('haystack', { model: 'model', length: n, ...HIDDEN }).promise).text,
            how = `-n ${n} --kv f32 ${options} -f key.txt`,
            saved = [['key.txt', text], ...files],
            answers = [`./run ${program.file} -t 0 ${how}`, saved];
        line.put(...(found ? [[`./run ${program.file} --attn ${found.layer}.${found.head} ${how}`, saved], answers] : [answers]));
    }
    const redraw = onceAFrame(draw);

    // ---- what is not recorded is measured, when it is looked at

    let measuring = null;
    let isSeen = false;
    const measure = afterPause(250, () => {
        if (measuring && isSeen && !shown && !now()) measuring.begin();
    });
    const changed = () => {
        if (!now()) measuring?.end();
        redraw();
        measure();
    };

    // ---- it moves by itself: once at the start, and from one chapter's beginning to the next one's

    let mine = 0; // number of the last movement
    function rest() {
        mine++;
        shown = 0;
        play.textContent = 'Play';
        changed();
    }
    // Moves along `at`, a function of the share of the time that has gone, to a length.
    function move(at, ms, then) {
        const its = ++mine,
            began = performance.now();
        const step = kept((time) => {
            if (its !== mine) return;
            const t = Math.min(1, Math.max(0, (time - began) / ms));
            if (t === 1) return then();
            const to = limited(at(t));
            if (to !== shown) {
                shown = to;
                draw();
            }
            requestAnimationFrame(step);
        });
        requestAnimationFrame(step);
    }
    const between = (from, to) => (t) => from + (to - from) * t;
    // There and back, with a moment's rest where it is furthest.
    const thereAndBack = (t) => between(LEAST, MOST)(Math.min(1, 1.1 * (1 - Math.abs(2 * t - 1))));
    function film() {
        play.textContent = 'Stop';
        shown = LEAST;
        move(thereAndBack, FILM_MS, rest);
    }
    const play = button('Play', () => (shown ? rest() : film()));

    // ---- what is operated

    const output = h('output');
    const pull = h('input', {
        type: 'range',
        id: 'pull',
        min: LEAST,
        max: MOST,
        step: STEP,
        ariaLabel: 'how far back the gold sentence stands',
        oninput: kept(() => {
            mine++;
            shown = 0;
            play.textContent = 'Play';
            state.set('far', limited(+pull.value));
        }),
    });
    const CHIPS = { none: 'plain', yours: 'your handles', yarn: 'YaRN', window: 'window' };
    const by = chips('how the hands turn', Object.entries(CHIPS), { get: method, set: unhide });
    by.classList.add('by', 'no-cards');
    function drawChips() {
        by.draw();
        /** @type {HTMLButtonElement} */ (by.querySelector('[value=yours]')).disabled = !isMoved();
    }
    function unhide(name) {
        isAsked = true;
        asked();
        state.set('by', name);
        draw();
    }
    state.on(['far', 'by'], changed);

    // ---- chapters

    const slots = () => document.querySelector(`#${chapter} .scene-slot`);
    // On a narrow page the charts stand in the chapter that is read, and the rest stays above the text.
    const place = kept(() => {
        const slot = NARROW.matches && slots();
        if (slot) slot.append(charts);
        else if (!NARROW.matches && charts.parentElement !== box) by.before(charts);
        const stays = NARROW.matches && box.parentElement && getComputedStyle(box.parentElement).position === 'sticky';
        document.documentElement.style.setProperty('--covered', stays ? `${BAR + box.parentElement.offsetHeight}px` : '');
        redraw();
    });
    function enter(id) {
        const to = id in FIRST ? id : 'proof';
        if (to === chapter) return;
        const from = length();
        chapter = to;
        box.dataset.chapter = charts.dataset.chapter = to;
        place();
        if (shown && to === 'breaks') return;
        const aim = limited(state.get('far') || FIRST[chapter][0] * L);
        if (from !== aim && !reducedMotion() && isSeen) {
            shown = from;
            move(between(from, aim), FILM_MS / 6, rest);
        } else rest();
    }

    charts.append(h('p.fine.of-bars', `What each of the ${pairs} pairs adds to the key’s score. Red: the hand is past its arc.`), bars.box);
    const box = h(
        'div.scene-body',
        { 'data-chapter': chapter },
        sentence,
        h('div.pull', pull, h('div.pull-words', output, h('span.trained', `trained up to ${L}`), play)),
        h('div.answer', h('span', 'It answers'), digits.box),
        told,
        h('div.of-clocks', dials.box, h('div.row.clock-words', h('span', 'fast'), hands, h('span', 'slow'))),
        charts,
        by,
        status,
        folded('The commands that do this', line),
    );
    charts.dataset.chapter = chapter;
    box.style.setProperty('--edge', `${(100 * (L - LEAST)) / (MOST - LEAST)}%`);
    NARROW.onchange = place;
    new ResizeObserver(place).observe(box);
    new IntersectionObserver(
        kept(([entry]) => {
            isSeen = entry.isIntersecting;
            if (isSeen) measure();
        }),
    ).observe(box);
    draw();
    onChapter(kept(enter));
    return {
        box,
        film,
        // Gives it the program: { engine, file, page, yours, options }, of which `yours` and `options` are how the reader's
        // handles are written for the program and for a command.
        attach({ engine, file, page, yours, options }) {
            const plans = new Map();
            const plan = (as) => {
                const name = JSON.stringify(as);
                if (!plans.has(name)) {
                    if (plans.size > 20) plans.clear();
                    plans.set(name, page.plan(as, MOST).frequencies(MOST));
                }
                return plans.get(name);
            };
            program = { engine, file, yours, options, speeds: (as) => plan(as).frequencies, plain: () => plan('none').plain };
            measuring = runs({
                engine,
                status,
                work: async (run) => {
                    const its = nameOf(),
                        wish = { model: 'model', method: asRun(), length: length(), ...HIDDEN };
                    status.say(`Reading ${count(length())} tokens …`);
                    known.set(its, packed(await run.ask('path', wish)));
                    status.say('');
                    redraw();
                },
            });
            state.on(['slow', 'temper'], changed);
            changed();
        },
        // Chapter 4's board of handles and what it rewrites, below the bars.
        add(board, ...more) {
            handles = board;
            charts.append(h('div.of-handles', board.box), ...more);
            redraw();
        },
        past: () => past,
        most: MOST,
        isNarrow: () => NARROW.matches,
        // Until chapter 5's question has been answered, the answer is not shown there; `then` is called when it is.
        hide(then) {
            isAsked = false;
            asked = then;
        },
        unhide,
    };
}
