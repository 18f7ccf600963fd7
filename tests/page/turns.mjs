// Count the turns.
import { join } from 'node:path';
import { PICTURES, check, table, tableOf } from './browser.mjs';
import { page, runShown, text } from './driver.mjs';

export default {
    async count_the_turns() {
        await page.locator('#turns .predict .chips button').nth(2).focus();
        await page.keyboard.press('Enter');
        await page.waitForTimeout(80);
        const never = (...o) => table('--explain', '--rope', 'none', ...o).filter((r) => +r.turns < 1).length;
        check(
            (await text('#turns .predict .reply')).includes(
                `Yes: ${never('--head-dim', '64', '--theta', '10000', '--train-ctx', '512')}`,
            ),
            'the prediction is answered',
            await text('#turns .predict .reply'),
        );
        await page.locator('#turns button', { hasText: 'Llama 3' }).click();
        await page.waitForTimeout(80);
        check(
            (await text('#turns')).includes(
                `${never('--head-dim', '128', '--theta', '500000', '--train-ctx', '8192')} of 64`,
            ),
            'Llama 3',
            await text('#turns'),
        );
        const slider = page.locator('#turns input[type=range]').first();
        await slider.focus();
        await page.keyboard.press('Home');
        await page.waitForTimeout(80);
        check(
            (await text('#turns')).includes(
                `${never('--head-dim', '128', '--theta', '100', '--train-ctx', '8192')} of 64`,
            ),
            'theta by keyboard',
            await text('#turns'),
        );
        const rows = tableOf(await runShown('turns'));
        check(
            (await text('#turns')).includes(`${rows.filter((r) => +r.turns < 1).length} of ${rows.length}`),
            'the command counts as many',
            rows.length,
        );
        await page.locator('#turns button', { hasText: 'this page' }).click();
        await page.locator('#turns').screenshot({ path: join(PICTURES, 'turns.png') });
    },
};
