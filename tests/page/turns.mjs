// Count the turns.
import { join } from 'node:path';
import { PICTURES, check, table, tableOf } from './browser.mjs';
import { page, runShown, text } from './driver.mjs';

export default {
    async count_the_turns() {
        await page.locator('#turns .predict .chips button').nth(2).focus();
        await page.keyboard.press('Enter');
        await page.waitForTimeout(80);
        const never = (headDim, theta, L) =>
            table(`--explain --rope none --head-dim ${headDim} --theta ${theta} --train-ctx ${L}`).filter(
                (r) => +r.turns < 1,
            ).length;
        const says = async (words, what) => check((await text('#turns')).includes(words), what, await text('#turns'));
        check(
            (await text('#turns .predict .reply')).includes(`Yes: ${never(64, 10000, 512)}`),
            'the prediction is answered',
            await text('#turns .predict .reply'),
        );
        await page.locator('#turns button', { hasText: 'Llama 3' }).click();
        await page.waitForTimeout(80);
        await says(`${never(128, 500000, 8192)} of 64`, 'Llama 3');
        const slider = page.locator('#turns input[type=range]').first();
        await slider.focus();
        await page.keyboard.press('Home');
        await page.waitForTimeout(80);
        await says(`${never(128, 100, 8192)} of 64`, 'theta by keyboard');
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
