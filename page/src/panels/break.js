// The same opening and the same seed, written on by plain RoPE and by YaRN, up to position 512 and then past it.
import { chart } from '../chart.js';
import { button, command, count, h, onceAFrame, predict, quoted, stateField, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { colourOf, lookOf, methodFor, titleOf } from '../methods.js';
import { movingPerplexity } from '../numbers.js';
import { number, state, text } from '../state.js';
import { tint, tints } from '../tints.js';

const NAMES = ['none', 'yarn'];
const BEYOND = 1988, // positions past the trained context that are written
    SPAN = 64,
    TEMPERATURE = 0.8,
    TOP_P = 0.9;
const PICTURE_MS = 120, // between two pictures: laying out and painting long texts costs more than writing them
    FAR = 1e9;

// One text as it grows.
function column(name, edge) {
    const at = h('small'),
        scroll = h('div.scroll', { tabIndex: 0, ariaLabel: `text by ${titleOf(name)}` });
    const box = h('div.column', h('h3', titleOf(name), at), scroll);
    box.style.setProperty('--mine', colourOf(name));
    let position = 0, // of the next token
        nlls = [],
        fresh = [];
    let read = 0; // positions
    let follows = true; // the text's end, unless the reader has scrolled away from it
    scroll.onscroll = () => {
        follows = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
    };
    const draw = () => {
        scroll.append(...fresh);
        fresh = [];
        const last = nlls.slice(-SPAN),
            mean = last.reduce((a, b) => a + b, 0) / last.length;
        at.textContent = last.length ? `position ${count(read)} · perplexity ${Math.exp(mean).toFixed(1)}` : '';
        if (follows) scroll.scrollTop = FAR; // beyond its end
    };
    const flush = onceAFrame(draw, PICTURE_MS);
    return Object.assign(box, {
        draw, // at once: the text stops for a while
        reset() {
            position = 0;
            nlls = [];
            fresh = [];
            follows = true;
            scroll.replaceChildren();
            at.textContent = '';
        },
        push({ tokens, position: now }) {
            read = now;
            for (const token of tokens) {
                if (position === edge) fresh.push(h('div.edge', `position ${edge}: training ended here`));
                const part = h('span', token.text);
                if (token.given) part.className = 'given';
                else {
                    part.className = `t${tint(token.nll)}`;
                    part.title = `position ${position}: -ln p = ${token.nll.toFixed(2)}`;
                    nlls.push(token.nll);
                }
                fresh.push(part);
                position++;
            }
            flush();
        },
        curve: () => movingPerplexity(nlls, SPAN).map(([x, y]) => [x + position - nlls.length, y]),
        text: () =>
            [...scroll.childNodes, ...fresh]
                .filter((n) => n.tagName === 'SPAN')
                .map((n) => n.textContent)
                .join(''),
    });
}

export function watchItBreak({ engine, shipped, recorded, file }) {
    state.add('seed', number(1, 4294967295), recorded.first.seed);
    state.add('open', text(400), recorded.first.opening);
    const edge = shipped.trainedContext,
        PAST = edge + BEYOND;
    const columns = NAMES.map((name) => column(name, edge));
    const status = statusLine();
    let phase = 'idle', // idle, first, held, second, done
        goesOn = false; // past the edge at once, when it is reached

    const plot = chart({
        label: 'Perplexity of each text by position',
        height: 220,
        x: { domain: [0, PAST], label: 'position', name: 'position' },
        y: { log: true, label: `perplexity of its own last ${SPAN} tokens`, domain: [1, 100] },
        rule: { at: edge, text: 'training ended' },
        show: (v) => v.toFixed(1),
    });
    for (const name of NAMES) plot.set(`~${name}`, recorded.write[name], { ...lookOf(name), ghost: true });
    const showCurves = onceAFrame(
        () => NAMES.forEach((name, i) => plot.set(name, columns[i].curve(), lookOf(name))),
        2 * PICTURE_MS,
    );

    const go = button('Write', () => step(), { primary: true });
    const pause = button(
        'Pause',
        () => {
            const stop = pause.textContent === 'Pause';
            if (stop) writing.pause();
            else writing.resume();
            pause.textContent = stop ? 'Continue' : 'Pause';
        },
        { disabled: true },
    );
    const guess = predict(
        'The model has never seen a position 513. What will the plain text do?',
        ['go on as before', 'lose the thread, bit by bit', 'fall to pieces'],
        {
            onanswer: () => {
                goesOn = true;
                if (phase === 'held') step();
                else if (phase === 'idle') writing.begin();
            },
        },
    );
    const replies = () => {
        const all = NAMES.map((name, i) => [
            name,
            columns[i]
                .curve()
                .filter(([x]) => x > edge + 1000)
                .map(([, y]) => y),
        ]);
        const mean = (list) => Math.exp(list.reduce((a, b) => a + Math.log(b), 0) / list.length);
        const [plain, yarn] = all.map(([, list]) => (list.length ? mean(list) : NaN));
        const word =
            plain < yarn / 3
                ? 'It fell into a loop: hands at angles that no weight was trained for all point at the same few words.'
                : plain > yarn * 1.4
                  ? 'It lost the thread: at angles it never saw, every next word is a surprise even to itself.'
                  : 'This time it kept some countenance. Try another seed: how it breaks differs, that it breaks ' +
                    'does not.';
        guess.say(`${word} Past 1,500 its own perplexity is ${plain.toFixed(1)}, YaRN's ${yarn.toFixed(1)}.`);
    };

    const methodOf = (name) => (name === 'yarn' ? methodFor(name, PAST) : name);
    const writing = runs({
        engine,
        status,
        inputs: ['open', 'seed', 'factor'],
        work: write,
        stale: () => {
            goesOn = false;
            showCommands();
            writing.begin();
        },
    });
    async function write(run) {
        phase = 'first';
        plot.clear(true);
        for (const c of columns) c.reset();
        go.textContent = 'Writing …';
        go.disabled = true;
        pause.disabled = false;
        pause.textContent = 'Pause';
        status.say('');
        const began = performance.now();
        let tokens = 0,
            held = 0;
        const texts = NAMES.map((name, i) => {
            const wish = { model: 'model', method: methodOf(name), prompt: run.input.open, seed: run.input.seed };
            const how = { context: PAST, holdAt: edge, temperature: TEMPERATURE, topP: TOP_P };
            return run.ask('write', { ...wish, ...how }, (part) => {
                if (part.held) {
                    if (++held === NAMES.length) hold((tokens / (performance.now() - began)) * 1000);
                    return;
                }
                columns[i].push(part);
                tokens += part.tokens.length;
                showCurves();
            });
        });
        try {
            await Promise.all(texts);
            replies();
        } finally {
            if (run.isOn) finish();
        }
    }

    function hold(speed) {
        phase = 'held';
        for (const c of columns) c.draw();
        go.disabled = false;
        go.textContent = `Go on to ${count(PAST)}`;
        pause.disabled = true;
        status.say(`Two texts of ${edge} tokens, ${count(speed)} tokens/s. Nothing has happened yet.`);
        if (goesOn) step();
    }

    function finish() {
        phase = 'done';
        for (const c of columns) c.draw();
        goesOn = false;
        go.disabled = false;
        go.textContent = 'Write again';
        pause.disabled = true;
    }

    function step() {
        if (phase !== 'held') return void writing.begin();
        phase = 'second';
        go.disabled = true;
        go.textContent = 'Writing …';
        pause.disabled = false;
        status.say('');
        writing.resume();
    }

    const lines = command();
    function showCommands() {
        const how = `-n ${PAST} -t ${TEMPERATURE} -p ${TOP_P} -s ${state.get('seed')} --ignore-eos --kv f32`;
        const prompt = quoted(state.get('open'));
        lines.put(...NAMES.map((name) => `./run ${file} ${how} --rope ${methodOf(name)} -i ${prompt}`));
    }
    showCommands();
    const opening = stateField('opening', 'open', { type: 'text', maxLength: 400, size: 38 });
    opening.classList.add('grow');
    const seed = stateField('seed', 'seed', { type: 'number', min: 1, max: 4294967295, step: 1, size: 8 });
    return {
        id: 'break',
        title: 'Run it yourself',
        body: [
            h('p', 'Your opening, your seed. Both texts stop at 512, where training stopped.'),
            h('div.row', opening, seed, go, pause),
            status,
            guess,
            h('div.columns', columns),
            h('p.fine', 'The darker a token, the more it surprised its own model:', tints(), 'hover for the number.'),
            plot,
            h('details', h('summary', 'The commands that do this'), lines),
        ],
    };
}
