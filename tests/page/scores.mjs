// Why scores go wrong.
import { join } from 'node:path';
import { PICTURES, check, close, tableOf } from './browser.mjs';
import { BOOK, chip, page, runShown, text, until } from './driver.mjs';

export default {
    async scores() {
        await page.locator('#scores button.primary').click();
        await until('#scores .numbers', /%/);
        const rows = tableOf(await runShown('scores'));
        const found = await page.evaluate(
            async (text) => {
                const { heads } = await rope.engine.ask('scores', {
                    model: 'model',
                    method: 'none',
                    text,
                    context: 1536,
                }).promise;
                return Array.from(heads[3][1]);
            },
            BOOK.slice(0, 5300),
        );
        // the page reads the last token alone, ./run with its chunk: other sums, and other int8 roundings
        close(
            found,
            rows.map((r) => +r.score),
            0.1,
            'scores of layer 3, head 1',
        );
        const beyond = 100 * rows.filter((r) => +r.distance >= 512).reduce((a, r) => a + +r.weight, 0);
        check(
            Math.abs(parseFloat(await text('#scores .numbers b')) - beyond) < 0.5,
            'the share of attention beyond 512',
            `${await text('#scores .numbers b')} ${beyond}`,
        );
        await chip('scores', 'yarn').focus();
        await page.keyboard.press('Enter');
        await page.waitForFunction(() => document.querySelectorAll('#scores .numbers b').length === 2);
        await chip('scores', 'layer 5').click();
        await until('#scores .legend', /plain\s*yarn/);
        await page.locator('#scores').screenshot({ path: join(PICTURES, 'scores.png') });
    },
};
