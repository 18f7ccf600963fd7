// One beginning, as long as training showed, written on by plain RoPE and by YaRN. What is said of both texts is said by
// one judge, who reads their last 512 tokens and so never goes beyond training.
import { chart } from '../chart.js';
import { button, command, count, h, onceAFrame, predict, quoted, stateField, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { lookOf, methodFor } from '../methods.js';
import { SPAN } from '../reading.js';
import { number, state, text } from '../state.js';
import { marks } from '../tints.js';
import { column, PICTURE_MS } from './column.js';
import { HOW, PAST_TRAINED } from './writing.js';

const NAMES = ['none', 'yarn'];
const MOST_OPENING = 2000; // characters

export function watchItBreak({ engine, shipped, recorded, file, own, book }) {
    state.add('seed', number(1, 4294967295), recorded.first.seed);
    state.add('open', text(MOST_OPENING), '');
    const edge = shipped.trainedContext,
        PAST = edge + PAST_TRAINED,
        // So much of the story is as long as training was; of another model's tokens it may be a little less.
        characters = own ? Math.round((0.9 * recorded.first.characters * edge) / 512) : recorded.first.characters;
    const columns = NAMES.map((name) => column(name, edge));
    const status = statusLine();
    let phase = 'idle', // idle, first, held, second, done
        goesOn = false; // past the edge at once, when it is reached

    const plot = chart({
        label: 'Perplexity of each text by position',
        height: 220,
        x: { domain: [edge / 2, PAST], label: 'position', name: 'position' },
        y: { log: true, label: `perplexity of ${SPAN} tokens, to a reader of the last ${edge}`, domain: [2, 100] },
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
            say: () => 'Watch both texts. Once they are written, a reader of their last tokens marks what it did not expect.',
            onanswer: () => {
                goesOn = true;
                if (phase === 'held') step();
                else if (phase === 'idle') writing.begin();
            },
        },
    );
    // What became of both, in stretches that double.
    const replies = () => {
        const all = [edge, 2 * edge, 4 * edge].map((from, i, froms) => [from, Math.min(froms[i + 1] ?? PAST, PAST)]),
            stretches = all.filter(([from, to]) => to > from);
        const [plain, yarn] = columns.map((one) => stretches.map(([from, to]) => one.between(from, to)));
        const numbers = stretches.map(
            ([from, to], i) => `${count(from)} to ${count(to)}: ${plain[i].toFixed(1)} and ${yarn[i].toFixed(1)}`,
        );
        const last = stretches.length - 1,
            word =
                plain[last] < yarn[last] / 2
                    ? 'It fell into a loop, which surprises nobody.'
                    : plain[last] > yarn[last] * 1.5
                      ? 'It lost the thread, bit by bit: the more tokens stand further back than 512, the worse.'
                      : 'This time it kept some countenance. Another seed shows more.';
        guess.say(`${word} Perplexity of plain and of YaRN, ${numbers.join('; ')}.`);
    };

    const methodOf = (name) => (name === 'yarn' ? methodFor(name) : name);
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
        let held = 0,
            given = 0;
        const texts = NAMES.map((name, i) => {
            const wish = { model: 'model', method: methodOf(name), prompt: beginning(), seed: run.input.seed };
            const how = { context: PAST, holdAt: edge, ...HOW, judge: 'window' };
            return run.ask('write', { ...wish, ...how }, (part) => {
                if (part.held) {
                    if (++held === NAMES.length) hold(given / NAMES.length);
                    return;
                }
                columns[i].push(part);
                given += part.tokens?.filter((token) => token.given).length ?? 0;
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

    function hold(given) {
        phase = 'held';
        for (const c of columns) c.draw();
        go.disabled = false;
        go.textContent = `Go on to ${count(PAST)}`;
        pause.disabled = true;
        status.say(
            given >= edge
                ? `Both have read the same ${count(given)} tokens. What they write now stands where training never went.`
                : `Both stand at ${edge}. They read the same ${count(given)} tokens and went on by themselves, each in its ` +
                      'own way. Past here is where training never went.',
        );
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

    const beginning = () => state.get('open') || book.slice(0, characters);
    const lines = command();
    function showCommands() {
        const how =
            `-n ${PAST} -t ${HOW.temperature} -p ${HOW.topP} -s ${state.get('seed')} --ignore-eos --kv f32`;
        const opened = state.get('open'),
            [before, prompt] = opened ? ['', `-i ${quoted(opened)}`] : [`head -c ${characters} book.txt | `, '-f -'];
        lines.put(...NAMES.map((name) => `${before}./run ${file} ${how} --rope ${methodOf(name)} ${prompt}`));
    }
    showCommands();
    const placeholder = `the first ${own ? '' : `${edge} tokens `}of the story`;
    const opening = stateField('beginning', 'open', { type: 'text', maxLength: MOST_OPENING, size: 38, placeholder });
    opening.classList.add('grow');
    const seed = stateField('seed', 'seed', { type: 'number', min: 1, max: 4294967295, step: 1, size: 8 });
    return {
        id: 'break',
        title: 'Run it yourself',
        body: [
            h(
                'p',
                `Both continue one beginning. They stop at ${edge}, where training stopped, and then go on. Paste a ` +
                    'beginning of yours, or another seed, and they are written anew.',
            ),
            h('div.row', opening, seed, go, pause),
            status,
            guess,
            h('div.columns', columns),
            h('p.fine', `Marked: what a reader of the last ${edge} tokens did not expect, and did not at all`, marks()),
            plot,
            h('details', h('summary', 'The commands that do this'), lines),
            h(
                'p.fine',
                'Every browser writes the same text. At a terminal a processor of another kind may round a number to int8 ' +
                    'otherwise, and from there on the text is another one.',
            ),
        ],
    };
}
