// Growing texts and stale keys.
import { join } from 'node:path';
import { PICTURES, check, close, table, tableOf } from './browser.mjs';
import { BOOK, chip, page, pplOf, runShown, shows, text, until, wish } from './driver.mjs';

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
            const how = stale ? '--stepwise --stale-keys' : '--stepwise',
                rows = table(`model.bin --ppl book.txt -n ${n} --kv f32 --per-token ${how} --rope dynamic-ntk`);
            close(
                nll,
                rows.map((r) => +r.nll),
                1e-3,
                `token by token${stale ? ' with stale keys' : ''}`,
            );
        }
        await page.locator('#stale button.primary').click();
        await until('#stale .status', /Past 512/);
        const told = (await text('#stale .status')).match(/\d+\.\d/g);
        for (const [i, keys] of ['turned when read', 'stale'].entries())
            shows(+told[i], pplOf(tableOf(await runShown('stale', i)), 512), 1, `the command with keys ${keys}`);
        await page.locator('#stale').screenshot({ path: join(PICTURES, 'stale.png') });
    },

    // Another method while it reads: its curves do not go on under it.
    async another_method() {
        const lines = () => page.locator('#stale .chart path.live').count();
        await page.locator('#stale button.primary').click();
        await page.waitForFunction(() => document.querySelectorAll('#stale .chart path.live').length === 1);
        await chip('stale', 'dynamic-yarn').click();
        await page.waitForTimeout(1200);
        check((await lines()) === 0, 'no curve of the old method', await lines());
        check((await text('#stale button.primary')) === 'Read token by token', 'the run has ended');
        check((await text('#stale .status')) === '', 'nothing is said of it', await text('#stale .status'));
    },
};
