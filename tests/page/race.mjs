// The race.
import { join } from 'node:path';
import { PICTURES, check, table, tableOf } from './browser.mjs';
import { chip, page, runShown, text, until } from './driver.mjs';

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
        await page.locator('#race summary').click();
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
};
