// RoPE taken away: what is drawn and said is the figure's tables, and a command says the same of another text.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PICTURES, ROOT, check, run, tableOf } from './browser.mjs';
import { commandsOf, page, text } from './driver.mjs';

const LENGTHS = [64, 128, 256, 512, 1024, 2048, 4096];
const rowsOf = (figure) => tableOf(readFileSync(join(ROOT, `docs/figures/${figure}.tsv`), 'utf8'));
const perplexity = (model, length) =>
    Math.exp(rowsOf('dropped').find((row) => row.method === model && +row.length === length).nll);
const keys = (model, length) =>
    100 * rowsOf('dropped-keys').find((row) => row.method === model && +row.length === length).share;

// How far points of all lines lie from where one straight scale from values to pixels has them, at most.
function offScale(lines) {
    const all = lines.flatMap(({ points, values }) => points.map(([, y], i) => [values[i], y])),
        low = all.reduce((a, b) => (b[0] < a[0] ? b : a)),
        high = all.reduce((a, b) => (b[0] > a[0] ? b : a)),
        slope = (high[1] - low[1]) / (high[0] - low[0]);
    return Math.max(...all.map(([value, y]) => Math.abs(y - low[1] - slope * (value - low[0]))));
}

export default {
    async drawn() {
        const models = ['rope', 'rope, yarn', 'none', 'dropped'];
        for (const [nth, valueOf, lengths] of [
            [0, perplexity, LENGTHS],
            [1, keys, LENGTHS.slice(1)],
        ]) {
            const drawn = await page
                .locator('#dropped .chart')
                .nth(nth)
                .locator('path.live')
                .evaluateAll((all) => all.map((path) => [path.style.stroke, path.getAttribute('d')]));
            check(drawn.length === models.length, `picture ${nth}: a line of each model`, drawn.length);
            const lines = drawn.map(([, d], i) => ({
                points: d.slice(1).split('L').map((point) => point.split(',').map(Number)),
                values: lengths.map((length) => valueOf(models[i], length)),
            }));
            check(lines.every(({ points }) => points.length === lengths.length), `picture ${nth}: a point of each length`);
            check(offScale(lines) < 0.5, `picture ${nth}: lines go through the table's numbers`, offScale(lines));
            const steps = lines[0].points.slice(1).map(([x], i) => x - lines[0].points[i][0]);
            check(Math.max(...steps) - Math.min(...steps) < 0.5 && steps[0] > 10, `picture ${nth}: twice as long, as far on`, steps);
        }
        await page.locator('#dropped').screenshot({ path: join(PICTURES, 'dropped.png') });
    },

    // What is said, with the tables' numbers.
    async said() {
        const words = await text('#dropped'),
            short = (model, length) => perplexity(model, length).toFixed(0);
        for (const sentence of [
            `from 256 to 4,096 tokens perplexity goes from ${short('dropped', 256)} to ${short('dropped', 4096)}.`,
            `With RoPE it goes from ${short('rope', 256)} to ${short('rope', 4096)}.`,
            `it is ${Math.round(100 * (perplexity('dropped', 256) / perplexity('rope', 256) - 1))} % more perplexed`,
            `finds ${keys('dropped', 256)} % of the keys in place of ${keys('rope', 256)} %`,
            `perplexity at 4,096 is ${short('rope, yarn', 4096)}, and ${keys('rope, yarn', 4096)} % of the keys are found`,
        ])
            check(words.includes(sentence), sentence, words);
        check(perplexity('dropped', 4096) < 1.05 * perplexity('dropped', 256), 'nothing breaks, as is said');
        check(LENGTHS.every((n) => perplexity('dropped', n) > perplexity('rope, yarn', n)), 'and YaRN is better at all lengths');
    },

    // The commands shown, at lengths that take no minutes: on another text these models come in the same order.
    async commands() {
        const lines = await commandsOf('dropped').locator('code').allTextContents(),
            shorter = (line, n) => tableOf(run(...line.replace(/-n \d+/, `-n ${n}`).split(' ').slice(1)));
        const at = (rows, method) => +rows.findLast((row) => row.method === method).ppl,
            without = at(shorter(lines[0], 1024), 'none'),
            both = shorter(lines[1], 1024),
            found = [perplexity('dropped', 1024) / perplexity('rope', 1024), without / at(both, 'none')];
        check(Math.abs(found[0] / found[1] - 1) < 0.15, 'without RoPE as much worse as the table says', found);
        check(at(both, 'yarn') < at(both, 'none'), 'and YaRN is better than plain', [at(both, 'yarn'), at(both, 'none')]);
        const keys = shorter(lines[2], 256);
        check(keys.length > 0 && keys.every((row) => +row.accuracy < 0.5), 'and few keys are found', JSON.stringify(keys));
    },
};
