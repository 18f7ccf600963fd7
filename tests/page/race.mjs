// The race.
import { join } from 'node:path';
import { PICTURES, check, tableOf } from './browser.mjs';
import { BOOK, chip, commandsOf, drawn, page, pplOf, runShown, shows, text, type, until } from './driver.mjs';

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
        await drawn();
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
        await drawn();
        check(/yarn/.test(await text('#race .readout')), 'values under the cursor', await text('#race .readout'));
        await page.locator('#race').screenshot({ path: join(PICTURES, 'race.png') });
        await page.locator('#race summary', { hasText: 'Your own text' }).click();
        const area = page.locator('#race textarea');
        await type(area, 'x');
        await go.click();
        await until('#race .status', /tokens|short/);
        await type(area, '\u0000\uFFFD\u{1F600} ñandú \\x00 <script>alert(1)</script> '.repeat(40));
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
        await type(area, '');
        await drawn();
    },

    // The reader's own handles are a file, and a command of their own.
    async own_methods() {
        await page.evaluate(() => {
            rope.state.set(
                'slow',
                Array.from({ length: 32 }, (_, i) => 1 + i / 8),
            );
            rope.state.set('n', 1024);
            rope.state.set('race', ['yarn', 'yours']);
        });
        await drawn();
        await page.locator('#race button.primary').click();
        await until('#race .status', /tokens\/s/);
        const cells = await page
            .locator('#race tbody tr')
            .evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.innerText)));
        check((await commandsOf('race').count()) === 2, 'two commands', await commandsOf('race').allInnerTexts());
        for (const [i, name] of ['yarn', 'your handles'].entries()) {
            const rows = tableOf(await runShown('race', i)),
                first = rows.filter((r) => r.method === rows[0].method);
            shows(
                +cells.find((c) => c[0] === name)[3],
                pplOf(first, 512),
                1,
                name,
            );
        }
        await page.evaluate(() => {
            rope.state.set('slow', []);
            rope.state.set('race', ['none', 'yarn', 'window']);
        });
    },

    // A pasted text that is shorter than the length: the command reads as much of it.
    async own_text() {
        await page.locator('#race details:has(textarea)').evaluate((d) => (d.open = true));
        await type(page.locator('#race textarea'), BOOK.slice(2000, 4500));
        await page.waitForFunction(() =>
            /mytext\.txt -n [1-9]\d\d /.test(document.querySelector('#race .command').innerText),
        );
        await page.locator('#race button.primary').click();
        await until('#race .status', /The text ends after/);
        const cells = await page.locator('#race tbody tr').first().locator('td').allInnerTexts();
        const rows = tableOf(await runShown('race')).filter((r) => r.method === 'none');
        shows(+cells[2], pplOf(rows, 256, 512), 1, 'a text of the reader reads as the command does');
        await type(page.locator('#race textarea'), '');
        await drawn();
    },
};
