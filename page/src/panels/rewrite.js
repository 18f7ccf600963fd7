// The fix as an event: when the reader's handles reach what YaRN does, the page says so, and the text that broke in
// chapter 1 writes itself again with these very handles. When they are near, it says what is missing.
import { command, count, h, statusLine } from '../dom.js';
import { runs } from '../job.js';
import { copyLink } from '../links.js';
import { blockOf, colourOf, handles, methodFor, plainSpeeds, titleOf } from '../methods.js';
import { nearness, nudge, reached } from '../nearness.js';
import { state } from '../state.js';
import { markOf } from '../tints.js';
import { column } from './column.js';
import { HOW, PAST_TRAINED } from './writing.js';

// What broke, as it was recorded: excerpts of the text that plain RoPE went on with.
function brokenText({ none, stretches }) {
    const parts = none.excerpts.map((tokens) =>
        h(
            'p',
            '… ',
            tokens.map(([text, nll]) => h('span', { className: markOf(nll) }, text)),
            ' …',
        ),
    );
    const all = stretches.map(([from, to], i) => `${count(from)} to ${count(to)}: ${none.ppl[i].toFixed(1)}`).join('; ');
    const box = h(
        'div.column',
        h('h3', 'as it was trained', h('small', `recorded · perplexity ${all}`)),
        h('div.scroll', { tabIndex: 0, ariaLabel: 'the text that broke, in excerpts' }, parts),
    );
    box.style.setProperty('--mine', colourOf('none'));
    return box;
}

// { box, look, touched }: where it is said; `look` is to be called when handles, temperature or length are others, and
// tells whether YaRN's curve is to be shown; `touched` when it was the reader who moved them, and lets go of them.
/**
 * @param {{ engine: import('../engine.js').Engine, file: string, book: string, shipped: any, recorded: any, own: any,
 *     places: () => { slow: number[], temper: number }, length: () => number, isPreset: () => boolean }} how
 */
export function rewrite({ engine, file, book, shipped, recorded, own, places, length, isPreset }) {
    const { first } = recorded,
        edge = shipped.trainedContext,
        past = edge + PAST_TRAINED,
        characters = own ? Math.round((0.9 * first.characters * edge) / 512) : first.characters,
        beginning = book.slice(0, characters);
    const words = h('p.found', { role: 'status' }),
        status = Object.assign(statusLine(), { className: 'fine' }),
        result = h('p.told', { role: 'status' }),
        line = command(),
        text = column('yours', edge),
        texts = h('div.columns', own ? null : brokenText(first), text);
    const writing = runs({
        engine,
        status,
        inputs: ['slow', 'temper'],
        work: write,
        stale: () => {
            text.reset();
            texts.hidden = line.hidden = true;
            result.textContent = '';
        },
    });
    const go = writing.button(['Write chapter 1’s text with these handles', 'Stop writing'], { primary: true }),
        box = h('div.event', { hidden: true }, words, h('div.row.middle', go, copyLink('fix', 'copy a link to these handles')));
    texts.hidden = line.hidden = true;

    async function write(run) {
        const wish = { model: 'model', method: methodFor('yours', past), prompt: beginning, seed: first.seed };
        text.reset();
        texts.hidden = line.hidden = false;
        const block = blockOf('yours', past);
        line.put([
            `head -c ${characters} book.txt | ./run ${file} -n ${past} -t ${HOW.temperature} -p ${HOW.topP} -s ${first.seed} ` +
                `--ignore-eos --kv f32 --activations f32 --rope-config ${block[0]} -f -`,
            [block],
        ]);
        status.say('Writing the text again …');
        await run.ask('write', { ...wish, ...HOW, context: past, holdAt: Infinity, judge: 'window' }, (part) => text.push(part));
        text.draw();
        status.say('');
        const stretches = first.stretches.map(([from, to]) => [(from * edge) / 512, (to * edge) / 512]);
        const told = stretches.map(([from, to], i) => {
            const was = own ? '' : ` (${first.none.ppl[i].toFixed(1)} as it was trained)`;
            return `${count(from)} to ${count(to)}: ${text.between(from, to).toFixed(1)}${was}`;
        });
        result.textContent = `Perplexity with ${titleOf('yours')}, ${told.join('; ')}.`;
    }

    const stageNow = () => {
        const { slow, temper } = places(),
            now = nearness(handles(), slow, plainSpeeds(), edge);
        return { ...now, slow, its: temper };
    };
    let celebrated = false; // while handles stay where YaRN has them, once is enough
    return {
        box: h('div', box, status, texts, result, line),
        look() {
            const { slow, its, ...now } = stageNow(),
                { stage } = now;
            box.hidden = !stage;
            box.classList.toggle('built', stage === 'built');
            go.hidden = stage !== 'built';
            const said = isPreset()
                ? 'These are YaRN’s own places.'
                : stage === 'built'
                  ? reached(now, { temper: state.get('temper'), its }, length())
                  : stage && nudge(now, slow);
            if (words.textContent !== said) words.textContent = said || '';
            celebrated &&= stage === 'built';
            return stage ? slow : null;
        },
        touched() {
            if (celebrated || isPreset() || stageNow().stage !== 'built') return;
            celebrated = true;
            writing.begin();
        },
    };
}
