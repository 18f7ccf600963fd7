// The same page twice.
import { join } from 'node:path';
import { PICTURES, check, tableOf } from './browser.mjs';
import { byMethod, nllsOf, page, runShown, text, until } from './driver.mjs';

export default {
    async same_page_twice() {
        await page.locator('#twice button', { hasText: '700 tokens' }).click();
        await page.locator('#twice button.primary').focus();
        await page.keyboard.press('Enter');
        await until('#twice .status', /forgotten/);
        const copies = (await page.locator('#twice p:has(b) span').allInnerTexts()).map((t) =>
            t.match(/[\d.]+/g).map(Number),
        );
        check(
            copies.length === 3 && copies[1][1] < copies[1][0] * 0.7 && copies[2][1] > copies[2][0] * 0.9,
            'the window is surprised again, YaRN is not',
            JSON.stringify(copies),
        );
        const rows = byMethod(tableOf(await runShown('twice')));
        for (const [i, name] of ['none', 'yarn', 'window'].entries()) {
            const all = nllsOf(rows[name]),
                half = Math.round(all.length / 2);
            const first = Math.exp(all.slice(0, half).reduce((a, b) => a + b) / half);
            check(
                Math.abs(copies[i][0] / first - 1) < 0.02,
                `the first copy of ${name} is as in the command`,
                `${copies[i]} ${first}`,
            );
        }
        await page.locator('#twice canvas').nth(1).focus();
        await page.keyboard.press('Shift+ArrowRight');
        check(/ln p/.test(await text('#twice .readout >> nth=1')), 'a token under the cursor');
        await page.locator('#twice').screenshot({ path: join(PICTURES, 'twice.png') });
    },
};
