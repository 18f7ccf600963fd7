// Growing texts and stale keys.
import { join } from 'node:path';
import { PICTURES, check, close, table } from './browser.mjs';
import { BOOK, page, text, wish } from './driver.mjs';

export default {
    async stale_keys() {
        await page.locator('#stale input[type=range]').focus();
        await page.keyboard.press('End');
        await page.waitForTimeout(80);
        check(/1,280 is turned at scale 2\.5/.test(await text('#stale .readout >> nth=0')), 'the scale at 1,280');
        const n = 700;
        for (const stale of [false, true]) {
            const { nll } = await wish(page, 'steps', {
                method: 'dynamic-ntk',
                text: BOOK,
                context: n,
                stale,
            });
            const rows = table(
                'model.bin',
                '--ppl',
                'book.txt',
                '-n',
                String(n),
                '--kv',
                'f32',
                '--per-token',
                '--stepwise',
                ...(stale ? ['--stale-keys'] : []),
                '--rope',
                'dynamic-ntk',
            );
            close(
                nll,
                rows.map((r) => +r.nll),
                1e-3,
                `token by token${stale ? ' with stale keys' : ''}`,
            );
        }
        await page.locator('#stale button.primary').click();
        await page.waitForTimeout(1000);
        await page.locator('#stale button.primary').click();
        await page.locator('#stale').screenshot({ path: join(PICTURES, 'stale.png') });
    },
};
