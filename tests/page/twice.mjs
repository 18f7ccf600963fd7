// The same page twice.
import { join } from 'node:path';
import { PICTURES, check } from './browser.mjs';
import { page, text, until } from './driver.mjs';

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
        await page.locator('#twice canvas').nth(1).focus();
        await page.keyboard.press('Shift+ArrowRight');
        check(/ln p/.test(await text('#twice .readout >> nth=1')), 'a token under the cursor');
        await page.locator('#twice').screenshot({ path: join(PICTURES, 'twice.png') });
    },
};
