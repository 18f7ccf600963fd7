// The same page twice.
import { join } from 'node:path';
import { PICTURES, check, close, tableOf } from './browser.mjs';
import { byMethod, nllsOf, page, runShown, text, until } from './driver.mjs';

export default {
    // Before anything is pressed a recording stands there, and says so; what is then measured is the same.
    async recorded_twice() {
        await page.evaluate(() => rope.state.set('half', 700));
        await until('#twice', /plain +first copy/);
        const told = await page.locator('#twice p:has(b) span').allInnerTexts();
        check(
            told.every((line) => /\(recorded\)/.test(line)),
            'what is recorded says so',
            told,
        );
        check((await page.locator('#twice .chart path.alone').count()) === 3, 'three recorded lines');
        await page.locator('#twice button.primary').click();
        await until('#twice .status', /forgotten/);
        const here = await page.locator('#twice p:has(b) span').allInnerTexts();
        const numbers = (lines) =>
            lines.flatMap((line) =>
                line
                    .match(/\d+\.\d/g)
                    .slice(0, 2)
                    .map(Number),
            );
        close(numbers(here), numbers(told), 0.11, 'the recording is what is measured here');
        check((await page.locator('#twice .chart path.live').count()) === 3, 'three lines of its own');
        await page.locator('#twice button', { hasText: '200 tokens' }).click();
    },

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
        await page.locator('#twice .chart svg').focus();
        for (let i = 0; i < 30; i++) await page.keyboard.press('ArrowRight');
        await page.waitForTimeout(80);
        const there = (await text('#twice .readout')).match(/plain ([\d.]+).*yarn ([\d.]+).*window ([\d.]+)/);
        check(there && +there[2] < +there[3], 'values under the cursor', await text('#twice .readout'));
        await page.locator('#twice').screenshot({ path: join(PICTURES, 'twice.png') });
    },

    // Another length while it reads: nothing of the old run stands under the new one.
    async another_length() {
        await page.locator('#twice button', { hasText: '1,400 tokens' }).click();
        await page.locator('#twice button.primary').click();
        await until('#twice .status', /1,400 tokens, twice/);
        await page.waitForTimeout(700);
        await page.locator('#twice button', { hasText: '200 tokens' }).click();
        await page.waitForTimeout(1500);
        const heads = await page.locator('#twice p:has(b) span').allInnerTexts();
        check(
            heads.every((head) => head === ''),
            'no numbers of the old run',
            heads,
        );
        check((await text('#twice .status')) === '', 'nothing is said of it', await text('#twice .status'));
        check(
            (await text('#twice button.primary')) === 'Read it twice',
            'it has ended',
            await text('#twice button.primary'),
        );
        await page.locator('#twice button.primary').click();
        await until('#twice .status', /Short enough/);
        check(/first copy/.test(await text('#twice p:has(b) span >> nth=0')), 'the new run has its numbers');
    },
};
