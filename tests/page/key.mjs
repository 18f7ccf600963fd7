// Hide a key.
import { join } from 'node:path';
import { PICTURES, check, tableOf } from './browser.mjs';
import { chip, dragTo, page, runShown, text, until } from './driver.mjs';

export default {
    async hide_a_key() {
        await chip('key', '1,024').click();
        await page.locator('#key .needle').focus();
        const at = async () => +(await page.locator('#key .needle').getAttribute('aria-valuenow'));
        const before = await at();
        await page.keyboard.press('PageUp');
        await page.waitForTimeout(60);
        check((await at()) === before + 10, 'the needle by keyboard', await at());
        await dragTo(page.locator('#key .needle path'), -250);
        check((await at()) < before, 'the needle by mouse', await at());
        await page.locator('#key input').fill('58213');
        for (const [name, right] of [
            ['yarn', true],
            ['window', false],
        ]) {
            await chip('key', name).click();
            await page.locator('#key button.primary').focus();
            await page.keyboard.press('Enter');
            await until('#key > .status', right ? /Found, / : /out of the window|Not found/);
            check(
                (await text('#key .digits')).startsWith('58213') === right,
                `${name} answers`,
                await text('#key .digits'),
            );
            if (right) await page.locator('#key').screenshot({ path: join(PICTURES, 'key.png') });
        }
        await page.locator('#key input').fill('12');
        await page.locator('#key button.primary').click();
        check(
            /five digits/.test(await text('#key > .status')),
            'a key of two digits is refused',
            await text('#key > .status'),
        );
        await page.locator('#key button', { hasText: 'Run the grid' }).click();
        await page.waitForFunction(() => document.querySelectorAll('#key td:not(.ghost)').length >= 16, undefined, {
            timeout: 240000,
        });
        await page.locator('#key button', { hasText: 'Stop' }).click();
        const cells = await page
            .locator('#key .grid tbody tr:first-child td:not(.ghost)')
            .evaluateAll((all) => all.map((td) => td.className));
        const rows = tableOf(await runShown('key', 1)).filter((row) => row.length === '256');
        check(
            cells.length === 15 && cells.every((c, i) => (c === 'yes') === (rows[i].correct === '1')),
            'the grid at 256 is that of --passkey',
            cells,
        );
    },
};
