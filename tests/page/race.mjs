// The race.
import { join } from 'node:path';
import { PICTURES, check, tableOf } from './browser.mjs';
import { BOOK, chip, commandsOf, page, pplOf, runShown, shows, text, until } from './driver.mjs';

export default {
    async race() {
        await page.locator('#race').scrollIntoViewIfNeeded();
        await chip('race', '1,024').click();
        await chip('race', 'linear').focus();
        await page.keyboard.press('Enter');
        const go = page.locator('#race button.primary');
        await go.click();
        await page.waitForTimeout(300);
        await chip('race', 'linear').click(); // another choice while it runs
        await page.waitForTimeout(100);
        check((await go.innerText()) === 'Race', 'another choice stops the race');
        await go.focus();
        await page.keyboard.press('Enter');
        await until('#race .status', /tokens\/s/);
        const rows = tableOf(await runShown('race'));
        const cells = await page
            .locator('#race tbody tr')
            .evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.innerText)));
        for (const [i, method] of ['none', 'yarn', 'window'].entries())
            for (const [from, column] of [
                ['256', 2],
                ['512', 3],
            ]) {
                const ppl = +rows.find((r) => r.method === method && r.from === from).ppl;
                check(
                    Math.abs(+cells[i][column] - ppl) < 0.05 + 1e-3 * ppl,
                    `the race's table, ${method} from ${from}`,
                    `${cells[i]} ${ppl}`,
                );
            }
        await page.locator('#race .chart svg').focus();
        for (let i = 0; i < 5; i++) await page.keyboard.press('ArrowRight');
        await page.waitForTimeout(80);
        check(/yarn/.test(await text('#race .readout')), 'values under the cursor', await text('#race .readout'));
        await page.locator('#race').screenshot({ path: join(PICTURES, 'race.png') });
        await page.locator('#race summary', { hasText: 'Your own text' }).click();
        const area = page.locator('#race textarea');
        await area.fill('x');
        await go.click();
        await until('#race .status', /tokens|short/);
        await area.fill('\u0000\uFFFD\u{1F600} ñandú \\x00 <script>alert(1)</script> '.repeat(40));
        await go.click();
        await until('#race .status', /tokens\/s/);
        await area.evaluate((a) => {
            a.value = 'A long, long book. '.repeat(280000);
            a.dispatchEvent(new Event('input'));
        });
        check(
            /characters/.test(await text('#race .status')),
            'a text of 5 MB is said to be cut',
            await text('#race .status'),
        );
        await go.click();
        await until('#race .status', /tokens\/s/);
        await area.fill('');
        await page.waitForTimeout(100);
    },

    // The reader's own handles and formula: each is a file, and a command of its own.
    async own_methods() {
        await page.evaluate(() => {
            rope.state.set(
                'slow',
                Array.from({ length: 32 }, (_, i) => 1 + i / 8),
            );
            rope.state.set('f', 'turns < 1 ? plain / s : plain');
            rope.state.set('n', 1024);
            rope.state.set('race', ['yarn', 'yours', 'mine']);
        });
        await page.waitForTimeout(100);
        await page.locator('#race button.primary').click();
        await until('#race .status', /tokens\/s/);
        const cells = await page
            .locator('#race tbody tr')
            .evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.innerText)));
        check((await commandsOf('race').count()) === 3, 'three commands', await commandsOf('race').allInnerTexts());
        for (const [i, row] of [0, 1, 2].entries()) {
            const rows = tableOf(await runShown('race', row)),
                first = rows.filter((r) => r.method === rows[0].method);
            shows(
                +cells.find((c) => c[0] === ['yarn', 'your handles', 'your formula'][i])[3],
                pplOf(first, 512),
                1,
                cells[i][0],
            );
        }
        await page.evaluate(() => rope.state.set('race', ['none', 'yarn', 'window']));
    },

    // A pasted text that is shorter than the length: the command reads as much of it.
    async own_text() {
        await page.locator('#race details:has(textarea)').evaluate((d) => (d.open = true));
        await page.locator('#race textarea').fill(BOOK.slice(2000, 4500));
        await page.waitForFunction(() =>
            /mytext\.txt -n [1-9]\d\d /.test(document.querySelector('#race .command').innerText),
        );
        await page.locator('#race button.primary').click();
        await until('#race .status', /The text ends after/);
        const cells = await page.locator('#race tbody tr').first().locator('td').allInnerTexts();
        const rows = tableOf(await runShown('race')).filter((r) => r.method === 'none');
        shows(+cells[2], pplOf(rows, 256, 512), 1, 'a text of the reader reads as the command does');
        await page.locator('#race textarea').fill('');
        await page.waitForTimeout(100);
    },

    // Lengths are each panel's own.
    async lengths() {
        const pressed = (panel) =>
            page.locator(`#${panel} button.chip[aria-pressed=true]`, { hasText: /^[\d,]+$/ }).allInnerTexts();
        await chip('race', '2,048').click();
        await chip('fix', '1,024').click();
        await chip('key', '512').click();
        check((await pressed('race')).join() === '2,048', 'the race keeps its length', await pressed('race'));
        check((await pressed('fix')).join() === '1,024', 'and the handles theirs', await pressed('fix'));
    },
};
