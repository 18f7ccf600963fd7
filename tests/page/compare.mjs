// All methods in one chart, and models that people use: numbers beside ./run's and docs/figures, the figure as a file.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, check, close, table } from './browser.mjs';
import { drawn, page, text, type } from './driver.mjs';

const open = (id) => page.evaluate((id) => (document.getElementById(id).closest('details').open = true), id);

export default {
    // The curves are the divisors of --explain, for the model of the page and for another one.
    async curves() {
        await open('compare');
        for (const [trained, wanted, theta, head] of [
            [512, 2048, 10000, 64],
            [8192, 32768, 500000, 128],
        ]) {
            await page.evaluate(
                (all) => Object.entries(all).forEach(([key, value]) => rope.state.set(key, value)),
                { trained, wanted, theta, head },
            );
            await drawn();
            for (const method of ['linear', 'ntk', 'yarn', 'llama3']) {
                const how = `--head-dim ${head} --theta ${theta} --train-ctx ${trained} -n ${wanted} --rope ${method}`,
                    rows = table(`--explain ${how}`),
                    shown = await page.evaluate(
                        ([method, wanted, ...numbers]) => {
                            const small = globalThis.rope.small.describe(...numbers),
                                { plain, frequencies } = small.plan(method, wanted).frequencies(wanted);
                            small.close();
                            return Array.from(plain, (f, i) => f / frequencies[i]);
                        },
                        [method, wanted, head, theta, trained],
                    );
                close(shown, rows.map((row) => +row.inv_freq / +row.scaled_inv_freq), 1e-5 * (wanted / trained), `${method}: times slower`);
            }
            const never = table(`--explain --head-dim ${head} --theta ${theta} --train-ctx ${trained} --rope none`).filter((row) => +row.turns < 1).length;
            check((await text('#compare .readout[aria-live=polite]')).includes(`Pairs ${head / 2 - never} to ${head / 2 - 1} never`), 'where it is shaded', await text('#compare'));
        }
        // As a file it needs no style sheet.
        const made = await page.evaluate(async () => {
            let copied = '';
            Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (words) => (copied = words) }, configurable: true });
            for (const one of document.querySelectorAll('#compare button')) if (one.textContent === 'Copy as SVG') one.click();
            await new Promise((next) => setTimeout(next, 200));
            const svg = new DOMParser().parseFromString(copied, 'image/svg+xml');
            return [svg.querySelectorAll('parsererror').length, svg.querySelectorAll('path').length, /var\(|class=/.test(copied), svg.documentElement.textContent];
        });
        check(made[0] === 0 && made[1] >= 6 && !made[2] && /yarn/.test(made[3]), 'the figure is an SVG by itself', made);
        await page.evaluate(() => ['trained', 'wanted', 'theta', 'head'].forEach((key, i) => rope.state.set(key, [512, 2048, 10000, 64][i])));
    },

    // Hands and counts by the models' theta; curves are the tables' numbers.
    async released() {
        await open('released');
        const { released } = JSON.parse(readFileSync(join(ROOT, 'page/recorded.json'), 'utf8'));
        for (const [id, file, never, of] of [
            ['smollm2', 'released-smollm2', 12, 32],
            ['gemma3', 'released-gemma3-48k', null, 128],
            ['qwen', 'released-qwen-jumps', null, 32],
        ]) {
            await page.locator(`#released .chip[value=${id}]`).focus();
            await page.keyboard.press('Enter');
            await drawn();
            const rows = readFileSync(join(ROOT, `docs/figures/${file}.tsv`), 'utf8')
                .split('\n')
                .filter((row) => /^(none|yarn)\t/.test(row))
                .map((row) => row.split('\t'));
            for (const [method, points] of Object.entries(released[id]))
                for (const [at, ppl] of points)
                    check(rows.some((row) => row[0] === method && +row[2] === at && Math.abs(row[5] - ppl) < 0.06), `${id}: ${method} at ${at}`, ppl);
            check(new RegExp(`${never ?? '\\d+'} of ${of} pairs never`).test(await text('#released .readout[aria-live=polite]')), `${id}: counted`, await text('#released .readout[aria-live=polite]'));
            check((await page.locator('#released .clocks svg').count()) === 32, `${id}: clocks`);
            const past = +(await text('#released .readout[aria-live=polite]')).match(/(\d+) of these hands/)[1];
            check((await page.locator('#released .clocks svg.new').count()) === past, `${id}: red as it says`, past);
        }
    },

    // A field takes what is typed into it, and Tab leaves it.
    async own_field_by_keys() {
        const field = page.locator('#own input');
        await type(field, 'My locker is 58203.');
        check((await field.inputValue()) === 'My locker is 58203.', 'keys arrive', await field.inputValue());
        await page.keyboard.press('Tab');
        check((await page.evaluate(() => document.activeElement.textContent)) === 'Hide it', 'Tab leaves the field');
        await type(field, '');
    },
};
