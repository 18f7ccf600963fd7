// The scene: one sentence with a number in it, one head, and one distance that moves 32 clocks, the light on the text and what
// the model answers. It is the first screen, where it drags itself once, and stays beside chapters 1 to 5: from chapter 3 on
// with what each pair gives to the score, in chapter 4 with a handle for each pair. It begins without the program: `attach`
// gives it one.
import { onChapter } from './contents.js';
import {
    afterPause,
    button,
    chips,
    command,
    count,
    folded,
    h,
    onceAFrame,
    reducedMotion,
    statusLine,
} from './dom.js';
import { needle, ownNeedle } from './haystack.js';
import { runs } from './job.js';
import { answerBox } from './panels/answer.js';
import { termBars } from './panels/bars.js';
import { clocks } from './panels/dial.js';
import { slowedHands } from './panels/hands.js';
import { ribbon } from './panels/ribbon.js';
import { mostRead } from './numbers.js';
import { kept } from './place.js';
import { DEPTH, KEY, textOf, unpacked } from './searched.js';
import { choice, number, state, text } from './state.js';
import { tell } from './tell.js';
import { wordAt } from './words.js';

const FILM_MS = 4500, // from close by to where it breaks
    BROKEN_MS = 1400, // and what is seen there, before the hands turn as YaRN turns them
    GLIDE_MS = 1000, // from one chapter's beginning to the next one's
    BAR = 46, // pixels of the contents above it, as in style.css
    BEFORE = 70, // tokens of a text that are not between the number and the question, where nothing is known
    TIMES = 4, // the trained length: the longest text, and the factor of methods
    OWN = 'own'; // the reader's sentence
// A head of the reader's choice, as --attn writes it; empty: the one that searches.
const HEAD = {
    read: (written) => (/^(\d{1,2}\.\d{1,2})?$/.test(written) ? written : undefined),
    write: String,
    expects: 'a head, such as 4.1',
};
const NARROW = matchMedia('(max-width: 999px)'), // as in style.css
    SHORT = matchMedia('(max-width: 999px) and (max-height: 700px)');

// What a chapter begins with, until the reader moves something: the length, in trained lengths.
const FIRST = { breaks: 4, turning: 0.875, why: 4, mend: 4, proof: 4 };

/**
 * { box, attach, film, ... }. `recorded` has what is known of distances, by method and length, `parts` the text of that in
 * tokens, and `rescue` what YaRN makes of the longest: { slow, attention, stop }; of a model of the reader's own there is
 * none of these.
 * @param {{ shipped: { theta: number, headDim: number, trainedContext: number, bytes?: number }, recorded: any, parts?: any,
 *     rescue?: any, isFilm?: boolean }} model `isFilm`: it begins as the film does
 */
export function makeScene({ shipped, recorded, parts, rescue, isFilm = false }) {
    const L = shipped.trainedContext,
        MOST = Math.min(TIMES * L, mostRead(shipped)),
        STEP = MOST / 32,
        LEAST = Math.max(128, 3 * STEP),
        NEAR = Math.min(MOST, (7 * L) / 8), // where bars are of distances that training showed
        pairs = shipped.headDim / 2,
        plainly = Array.from({ length: pairs }, (_, i) => shipped.theta ** ((-2 * i) / shipped.headDim)),
        asRunOf = (name) => (['none', 'window'].includes(name) ? name : `${name}:factor=${TIMES}`);
    state.add('far', number(0, MOST), 0);
    state.add('by', choice(['', 'none', 'yarn', 'window', 'yours']), '');
    state.add('looker', HEAD, '');
    state.add(OWN, text(160), '');
    let chapter = 'breaks',
        shown = isFilm ? LEAST : 0, // the length while the scene moves by itself; 0: the reader's, or the chapter's
        isMended = false, // in chapter 1 the hands turn as YaRN turns them
        isAsked = true, // in chapter 5 the answer waits for a guess
        asked = () => {}, // called when it does no more
        program = null, // see attach
        handles = null; // the board of chapter 4
    const listeners = []; // of what is drawn

    // ---- what is shown: a length, a method, and what is known of both

    const isMoved = () => state.keys().includes('slow') && state.get('slow').length > 0;
    // Chapters own their method: what is chosen in the fifth holds there, and handles in the fourth.
    function method() {
        if (chapter === 'breaks') return isMended ? 'yarn' : 'none';
        const wanted = chapter === 'proof' ? state.get('by') : chapter === 'mend' ? 'yours' : '';
        return !wanted || (wanted === 'yours' && !isMoved()) ? 'none' : wanted;
    }
    const asRun = () => {
        const name = method() === 'yours' ? program?.named() : method();
        return name ? asRunOf(name) : program.yours();
    };
    const limited = (n) => Math.min(MOST, Math.max(LEAST, n)),
        stopOf = (n) => limited(STEP * Math.round(n / STEP)); // where it is measured
    const length = () => shown || limited(state.get('far') || FIRST[chapter] * L),
        stop = () => stopOf(length());
    const own = () => ownNeedle(state.get(OWN)),
        key = () => own()?.key ?? KEY,
        hidden = () => ({ depth: DEPTH, key: key(), ...(own() ? { sentence: state.get(OWN) } : {}) }),
        // Another head is drawn in chapter 3, where it is chosen.
        pressed = () => (chapter === 'why' ? state.get('looker') : ''),
        looker = () => {
            const [layer, head] = pressed().split('.').map(Number);
            return pressed() ? { layer, head } : undefined;
        };
    const known = new Map(); // by sentence, head, method and length
    const nameOf = (as, n) => JSON.stringify([own() && state.get(OWN), pressed(), as, n]);
    // What is recorded, by method and length.
    function learn(methods) {
        for (const [name, lengths] of Object.entries(methods))
            for (const [n, found] of Object.entries(lengths))
                known.set(JSON.stringify([null, '', asRunOf(name), +n]), unpacked(found));
    }
    learn(recorded);
    if (rescue) learn({ yarn: { [MOST]: rescue.stop } });
    const lights = {}; // by length: what the light is with one hand slowed
    function learnHands(hands) {
        for (const [n, { alone, all, without }] of Object.entries(hands))
            lights[n] = { alone: alone.map((x) => x / 1000), all: all / 1000, without: without / 1000 };
        redraw();
    }
    const plain = () => program?.plain() ?? plainly,
        early = (as) => // before there is a program
            rescue && as === asRunOf('yarn')
                ? { frequencies: plainly.map((f, i) => f / rescue.slow[i]), attention: rescue.attention }
                : { frequencies: plainly, attention: 1 },
        planOf = (as) => (program ? (as === 'none' ? { frequencies: plain(), attention: 1 } : program.plan(as)) : early(as));
    const isHidden = () => chapter === 'proof' && !isAsked;
    const isInSight = (d) => method() !== 'window' || d < L;

    // What is known here; or, until that is measured, what was known last, with its pairs turned by the angles of now. Its
    // query and its key stay: what the layers below make of the new angles is not known.
    let last = null; // { found, as, at }, at a stop
    function now() {
        const as = asRun(),
            found = known.get(nameOf(as, stop()));
        if (found) last = { found, as, at: stop() };
        if (!last) return { found: null, d: length() - BEFORE };
        const base = last.found,
            d = base.d + length() - last.at;
        return {
            found:
                found && d === base.d ? base : { ...base, ...turned(base, last.as, as, d), of: base, isStale: !found },
            d,
        };
    }
    function turned({ terms, crosses, d }, before, as, to) {
        if (!terms || !crosses) return {};
        const [was, is] = [planOf(before), planOf(as)],
            grown = (is.attention / was.attention) ** 2;
        const moved = terms.map((term, i) => {
            const angle = is.frequencies[i] * to - was.frequencies[i] * d;
            return grown * (term * Math.cos(angle) - crosses[i] * Math.sin(angle));
        });
        return { terms: moved, score: moved.reduce((a, b) => a + b, 0) };
    }

    // The text in tokens, and the places of the gold sentence in it.
    const texts = new Map(), // by how many they are
        golds = new WeakMap();
    function tokensOf({ n, tokens }) {
        if (tokens) return tokens;
        if (!texts.has(n)) texts.set(n, textOf(parts, n));
        return texts.get(n);
    }
    function goldIn(tokens) {
        if (!golds.has(tokens)) golds.set(tokens, findGold(tokens));
        return golds.get(tokens);
    }
    function findGold(tokens) {
        const words = own()?.needle ?? needle(KEY),
            before = tokens.join('').indexOf(words);
        let from = 0,
            letters = 0;
        while (letters < before) letters += tokens[from++].length;
        let to = from;
        while (letters < before + words.length && to < tokens.length) letters += tokens[to++].length;
        return [from, to];
    }

    // ---- pictures

    const pull = h('input', {
        type: 'range',
        id: 'pull',
        dir: 'rtl', // the text ends at the right, with the question
        min: LEAST,
        max: MOST,
        step: 1,
        ariaLabel: 'how far back the gold sentence is',
    });
    const dials = clocks(pairs, L),
        bars = termBars(pairs),
        slowed = slowedHands(pairs, TIMES),
        digits = answerBox(),
        light = ribbon({ pull, trained: L, least: LEAST - BEFORE, most: MOST - BEFORE }),
        hands = h('span.hands'),
        told = h('p.told'),
        status = statusLine(),
        line = command(),
        output = h('output'),
        charts = h('div.charts'); // what chapters 3 and 4 add; on a narrow page it is in them
    let past = [];

    const rivalOf = (found) => wordAt(tokensOf(found), found.n - 1 - found.rivalAt).word;
    function sentence(found, d) {
        if (isHidden()) return 'Guess first; then the answer appears.';
        if (!isInSight(d)) return 'The window does not reach back to the sentence, so the model makes something up.';
        if (!found || found.isStale) return '';
        return tell(found, { key: key(), word: rivalOf(found), hasHeads: !['breaks', 'turning'].includes(chapter) });
    }
    function draw() {
        const { found, d } = now(),
            seen = isInSight(d),
            { frequencies } = planOf(asRun());
        past = dials.put(frequencies, plain(), seen ? d : NaN);
        const red = past.filter(Boolean).length,
            many = seen ? `${red} of ${pairs} hands are past their arc` : 'the window does not see the sentence',
            answers = found && !found.isStale && !isHidden() ? `it answers ${found.answer}, ` : '',
            all = `${count(d)} tokens back: ${answers}${many}`;
        if (document.activeElement !== pull || shown) pull.value = String(length());
        if (pull.ariaValueText !== all) pull.ariaValueText = all;
        output.textContent = `${count(d)} tokens back`;
        digits.put(key(), isHidden() ? undefined : found?.answer, { isStale: found?.isStale, isMadeUp: !seen });
        hands.textContent = many;
        hands.classList.toggle('strange', red > 0);
        const tokens = found && tokensOf(found);
        light.put(isHidden() ? null : found, tokens, found ? goldIn(tokens) : [0, 0], d);
        const near = found?.d > L && known.get(nameOf('none', NEAR));
        bars.put(
            found && seen && !isHidden()
                ? { ...found, past, word: rivalOf(found), near: near ? near.terms : null }
                : null,
        );
        const slowly = chapter === 'why' && !own() && !pressed() && found && lights[stop()];
        slowed.put(slowly ? { light: slowly, share: found.share, speeds: plain(), d: found.d, trained: L } : null);
        told.textContent = sentence(found, d);
        if (box.isConnected) handles?.draw(); // not those of a model that another one has replaced
        drawChips();
        box.dataset.by = method();
        for (const listen of listeners) listen(isHidden() ? null : found);
        if (program) showCommand();
    }
    const showCommand = onceAFrame(() => {
        const { found } = now(),
            n = stop(),
            [[options, files]] = typeof asRun() === 'string' ? [[`--rope ${asRun()}`, []]] : program.options(MOST),
            contents = async () =>
                (await program.engine.ask('haystack', { model: 'model', length: n, ...hidden() }).promise).text,
            how = `-n ${n} --kv f32 ${options} -f key.txt`,
            saved = [['key.txt', contents], ...files],
            answers = [`./run ${program.file} -t 0 ${how}`, saved];
        line.put(
            ...(found
                ? [[`./run ${program.file} --attn ${found.layer}.${found.head} ${how}`, saved], answers]
                : [answers]),
        );
    }, 200);
    const redraw = onceAFrame(draw);

    // ---- what is not recorded is measured, when it is looked at

    let measuring = null;
    let isSeen = false;
    const measure = afterPause(250, () => {
        if (measuring && isSeen && !shown && !known.has(nameOf(asRun(), stop()))) measuring.begin();
    });
    const changed = () => {
        if (!program || !known.has(nameOf(asRun(), stop()))) measuring?.end();
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
            shown = limited(at(t));
            draw();
            requestAnimationFrame(step);
        });
        requestAnimationFrame(step);
    }
    const between = (from, to) => (t) => from + (to - from) * t;
    // From close by to where it breaks; then, after a moment, YaRN.
    function film() {
        play.textContent = 'Stop';
        isMended = false;
        state.set('far', 0);
        shown = LEAST;
        move(between(LEAST, MOST), FILM_MS, () => move(() => MOST, BROKEN_MS, () => turnTo(true)));
    }
    function turnTo(mended) {
        isMended = mended;
        rest();
    }
    const play = button('Play', () => (shown ? pullTo(shown) : film()));

    // ---- what is operated

    function pullTo(n) {
        mine++;
        shown = 0;
        play.textContent = 'Play';
        state.set('far', Math.round(limited(n)));
    }
    pull.oninput = kept(() => pullTo(+pull.value));
    // By keys from one measured place to the next, with Shift by tokens.
    pull.onkeydown = kept((event) => {
        const by = { ArrowLeft: 1, ArrowUp: 1, ArrowRight: -1, ArrowDown: -1, PageUp: 4, PageDown: -4 }[event.key];
        if (!by) return;
        event.preventDefault();
        pullTo(event.shiftKey ? length() + by : stop() + by * STEP);
        pull.value = String(length());
    });
    const switched = button('with YaRN', () => turnTo(!isMended), { className: 'switch' });
    const CHIPS = { none: 'plain', yours: 'your handles', yarn: 'YaRN', window: 'window' };
    const by = chips('how the hands turn', Object.entries(CHIPS), { get: method, set: unhide });
    by.classList.add('by', 'no-cards');
    function drawChips() {
        by.draw();
        switched.ariaPressed = String(isMended);
        /** @type {HTMLButtonElement} */ (by.querySelector('[value=yours]')).disabled = !isMoved();
    }
    function unhide(name) {
        isAsked = true;
        asked();
        state.set('by', name);
        draw();
    }
    state.on(['far', 'by', 'looker', OWN], changed);

    // ---- chapters

    const slots = () => document.querySelector(`#${chapter} .scene-slot`);
    // On a narrow page the charts, and the chips of chapter 5, are in the chapter that is read; the rest stays above the text.
    const place = kept(() => {
        const slot = NARROW.matches ? slots() : null;
        // What is moved loses the focus: not without need.
        if (slot && charts.parentElement !== slot) slot.append(charts, by);
        else if (!NARROW.matches && charts.parentElement !== box) status.before(charts, by);
        const covers = SHORT.matches ? stays : NARROW.matches && box.parentElement;
        document.documentElement.style.setProperty('--covered', covers ? `${BAR + covers.offsetHeight}px` : '');
        redraw();
    });
    function enter(id) {
        const to = id in FIRST ? id : 'proof';
        if (to === chapter) return;
        const from = length();
        chapter = to;
        box.dataset.chapter = charts.dataset.chapter = by.dataset.chapter = to;
        place();
        if (shown && to === 'breaks') return;
        const aim = limited(state.get('far') || FIRST[chapter] * L);
        if (from !== aim && !reducedMotion() && isSeen) {
            shown = from;
            move(between(from, aim), GLIDE_MS, rest);
        } else rest();
    }

    // For those who go by Tab: what is operated here, and back to the text. Each shows while it has the focus.
    const back = button('back to the chapter', () => document.getElementById(`h-${chapter}`).focus(), {
        className: 'skip-on',
    });
    function focusFirst() {
        const first = { mend: handles?.box, proof: by.querySelector('button') }[chapter] ?? pull;
        /** @type {HTMLElement} */ (first).focus({ preventScroll: !NARROW.matches });
    }

    charts.append(
        h(
            'p.fine.of-bars',
            `What each of the ${pairs} pairs adds to the number’s score. Outlines: close by. Red: past its arc.`,
        ),
        bars.box,
        slowed.box,
    );
    const stays = h(
        'div.stays',
        h('div.pull', light.track),
        h('div.answer', h('span', 'It answers'), digits.box, told),
    );
    const box = h(
        'div.scene-body',
        { 'data-chapter': chapter },
        h(
            'div.pull-words',
            output,
            h('span.trained', `trained up to ${count(L)}${MOST < TIMES * L ? `; read here up to ${count(MOST)}` : ''}`),
            play,
        ),
        stays,
        light.words,
        h('div.of-clocks', dials.box, h('div.row.clock-words', h('span.end', 'fast'), hands, switched, h('span.end', 'slow'))),
        charts,
        by,
        status,
        folded('The commands that do this', line),
        back,
    );
    charts.dataset.chapter = by.dataset.chapter = chapter;
    NARROW.onchange = SHORT.onchange = place;
    new ResizeObserver(place).observe(box);
    const sight = new IntersectionObserver(
        kept((all) => {
            isSeen = all.some((entry) => entry.isIntersecting);
            if (isSeen) measure();
        }),
    );
    sight.observe(light.track);
    draw();
    onChapter(kept(enter));
    return {
        box,
        film,
        learn,
        learnHands,
        // Gives it the program: { engine, file, page, yours, named, options }: how the reader's handles are written for the
        // program, the method whose places they have ('' for none), and how they are written for a command.
        attach({ engine, file, page, yours, named, options }) {
            const plans = new Map();
            const plan = (as) => {
                const name = JSON.stringify(as);
                if (!plans.has(name)) {
                    if (plans.size > 20) plans.clear();
                    plans.set(name, page.plan(as, MOST).frequencies(MOST));
                }
                return plans.get(name);
            };
            program = { engine, file, yours, named, options, plan, plain: () => plan('none').plain };
            measuring = runs({
                engine,
                status,
                work: async (run) => {
                    const wish = { model: 'model', ...hidden(), looker: looker() };
                    // Close by, too, where bars are compared with it.
                    const places = [[asRun(), stop()], ...(chapter === 'breaks' ? [] : [['none', NEAR]])].filter(
                        ([as, n]) => !known.has(nameOf(as, n)),
                    );
                    for (const [as, n] of places) {
                        const its = nameOf(as, n);
                        const hear = ({ read, of }) => status.say(`Reading ${count(read)} of ${count(of)} tokens …`);
                        known.set(its, await run.ask('path', { ...wish, method: as, length: n }, hear));
                        redraw();
                    }
                    status.say('');
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
        // Calls `listen` with what is drawn, whenever it is; null: it is not known, or not told.
        hear(listen) {
            listeners.push(listen);
        },
        redraw,
        focusFirst,
        pullTo,
        // Until chapter 5's question has been answered, the answer is not shown there; `then` is called when it is.
        hide(then) {
            isAsked = false;
            asked = then;
        },
        unhide,
    };
}
