// Perplexity by position on the story or on pasted text, curves growing chunk by chunk, all against the window.
import { chart, legend } from '../chart.js';
import {
    afterPause,
    command,
    count,
    counts,
    h,
    listing,
    onceAFrame,
    short,
    stateChips,
    statusLine,
} from '../dom.js';
import { takes } from '../given.js';
import { runs } from '../job.js';
import { go as goTo } from '../links.js';
import { colourOf, lookOf, methodChoices, methodFor, optionsFor, titleOf } from '../methods.js';
import { mostRead, movingPerplexity, perplexity } from '../numbers.js';
import { readText, SPAN } from '../reading.js';
import { choice, choices, number, state, text } from '../state.js';

const RACERS = ['none', 'linear', 'ntk', 'yarn', 'llama3', 'window', 'yours'];
const MOST_TEXT = 2000; // characters that an address carries

export function race({ file, engine, shipped, recorded, book }) {
    const L = shipped.trainedContext,
        most = Math.min(8 * L, mostRead(shipped)); // positions
    state.add('race', choices(RACERS), ['none', 'yarn', 'window']);
    state.add('n', number(64, 16384), most / 2);
    state.add('view', choice(['ratio', 'perplexity']), 'ratio');
    state.add('text', text(MOST_TEXT), '');
    let passage = state.get('text') || book,
        ends = Infinity; // tokens of a pasted text, once they are counted
    const length = () => Math.min(state.get('n'), ends);
    const status = statusLine();
    const plot = chart({
        label: 'Perplexity by position',
        height: 330,
        x: { domain: [0, state.get('n')], label: 'position', name: 'position' },
        y: { log: true, label: '' },
        rule: { at: L, text: 'training ended' },
        show: (v) => v.toFixed(2),
    });
    const table = h('div.overflow');
    const line = command();
    const keys = h('div');
    const names = () => state.get('race');
    /** @type {Record<string, number[]>} */
    const results = {}; // -ln p by method

    const isRatio = () => state.get('view') === 'ratio';
    // What runs: those that are chosen, and the window, where all are held against it.
    const runners = () => [...new Set([...names(), ...(isRatio() ? ['window'] : [])])];

    function showRunners() {
        plot.clear();
        const all = recorded.race[state.get('n')],
            window = all && new Map(all.window);
        if (passage === book && all)
            for (const name of runners())
                if (all[name])
                    plot.set(`~${name}`, isRatio() ? all[name].map(([p, v]) => [p, v / window.get(p)]) : all[name], {
                        ...lookOf(name),
                        ghost: true,
                    });
        plot.change({
            x: { domain: [0, state.get('n')] },
            y: {
                label: isRatio()
                    ? `times as perplexed as the window, over the last ${SPAN} tokens`
                    : `perplexity of the last ${SPAN} tokens`,
                least: isRatio() ? 0.8 : undefined,
                most: isRatio() ? 12 : 600,
            },
        });
        const source = passage === book ? 'book.txt' : 'mytext.txt',
            pasted = passage === book ? [] : [[source, passage]];
        line.put(
            ...optionsFor(runners()).map(([options, files]) => [
                `./run ${file} --ppl ${source} -n ${length()} --kv f32 ${options}`,
                [...pasted, ...files],
            ]),
        );
        keys.replaceChildren(legend(runners().map(lookOf)));
        for (const key of Object.keys(results)) delete results[key];
        showTable();
    }

    function showTable() {
        const edges = [64, L / 2, L, 2 * L, 4 * L, 8 * L, 16 * L].filter((e) => e <= state.get('n'));
        const done = runners().filter((name) => results[name]);
        if (!done.length) return void table.replaceChildren();
        const heads = edges.slice(1).map((to, i) => `${count(edges[i])} to ${count(to)}`);
        const row = (name) => {
            const nlls = results[name],
                between = (from, to) => perplexity(nlls, from - 1, Math.min(to, nlls.length + 1) - 1).toFixed(1);
            const cells = edges.slice(1).map((to, i) => (nlls.length >= edges[i] ? between(edges[i], to) : ''));
            return [titleOf(name), ...cells];
        };
        table.replaceChildren(listing(['perplexity at', ...heads], done.map(row)));
    }

    const redraw = onceAFrame(() => {
        for (const name of Object.keys(results)) {
            const nlls = isRatio()
                ? results[name].slice(0, results.window?.length ?? 0).map((x, i) => x - results.window[i])
                : results[name];
            plot.set(name, movingPerplexity(nlls, SPAN, 16), lookOf(name));
        }
        showTable();
    });

    async function readAll(run) {
        showRunners();
        const all = runners(),
            n = length(),
            began = performance.now();
        if (!names().length) return void status.say('Choose a method or two.', true);
        status.say(`Reading ${count(n)} tokens with ${all.length} methods …`);
        const read = (name) =>
            readText(run, { method: methodFor(name), text: passage, n }, (nlls) => {
                results[name] = nlls;
                redraw();
            });
        const [nlls] = await Promise.all(all.map(read)),
            seconds = (performance.now() - began) / 1000,
            tokens = nlls.length + 1;
        status.say(
            `${tokens < state.get('n') ? `The text ends after ${count(tokens)} tokens. ` : ''}` +
                `${count((tokens * all.length) / seconds)} tokens/s. ${verdict()}`,
        );
    }

    function verdict() {
        const late = (name) => perplexity(results[name], Math.floor(results[name].length / 2));
        const all = Object.keys(results).filter((name) => name !== 'window');
        const [best] = all.sort((a, b) => late(a) - late(b));
        return best
            ? `Over the second half ${titleOf(best)} is best of those that see everything: ${short(late(best))}.`
            : '';
    }

    const reading = runs({
        engine,
        status,
        inputs: ['race', 'n'],
        work: readAll,
        stale: () => {
            status.say('');
            showRunners();
        },
    });
    const go = reading.button(['Race'], { primary: true });
    const lengths = stateChips('length', 'n', counts([most / 4, most / 2, most]));
    const methods = stateChips('methods', 'race', methodChoices(RACERS), { many: true, colour: colourOf });
    const paste = h('textarea', {
        rows: 4,
        placeholder: 'Paste a text of yours: 2,000 words or more show something.',
        ariaLabel: 'a text of yours',
        value: state.get('text'),
    });
    // Another text: how many tokens it has is known a moment later.
    function take(typed) {
        passage = typed || book;
        ends = Infinity;
        reading.renew();
        if (typed) measure();
    }
    const measure = afterPause(250, async () => {
        const mine = passage,
            part = mine.slice(0, 40 * state.get('n'));
        const { n } = await engine.ask('count', { model: 'model', text: part }).promise;
        if (mine !== passage || n >= state.get('n')) return;
        ends = Math.max(2, n);
        if (!reading.isOn()) showRunners();
    });
    paste.oninput = () => {
        const typed = paste.value.trim();
        take(typed);
        state.set('text', typed.length <= MOST_TEXT ? typed : '');
        if (typed.length > MOST_TEXT)
            status.say(
                `${count(typed.length)} characters; too many for the address of this page, which does without them. ` +
                    `The first ${count(state.get('n'))} tokens are read.`,
            );
    };
    const view = stateChips('what is drawn', 'view', [
        ['ratio', 'against the window'],
        ['perplexity', 'perplexity'],
    ]);
    state.on('view', () => {
        const kept = { ...results };
        showRunners();
        if (!isRatio() || kept.window) Object.assign(results, kept);
        redraw();
    });
    const renewFor = (name) => () => runners().includes(name) && reading.renew();
    state.on(['slow', 'temper'], renewFor('yours'));
    state.on('n', () => {
        ends = Infinity;
        if (passage === book) return;
        showRunners();
        measure();
    });
    state.on('text', (value) => {
        if (value === paste.value.trim() || (value === '' && paste.value.trim().length > MOST_TEXT)) return;
        paste.value = value;
        take(value);
    });
    const ownText = h('details', { open: !!state.get('text') }, h('summary', 'Your own text'), paste);
    takes('text', (words) => {
        paste.value = words;
        paste.dispatchEvent(new Event('input'));
        ownText.open = true;
        goTo('race');
    });
    if (passage !== book) measure();
    showRunners();
    return {
        id: 'race',
        title: 'The race',
        body: [
            h(
                'p',
                'Perplexity at every position of a story that the model never read: how many words it hesitates between. ',
                h('b', 'window'),
                ' sees only the last 512 tokens and cannot break. Which method keeps up with it and sees everything?',
            ),
            h('div.row.middle', lengths, view, go),
            methods,
            keys,
            plot,
            status,
            table,
            ownText,
            line,
        ],
    };
}
