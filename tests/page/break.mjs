// Run it yourself.
import { join } from 'node:path';
import { PICTURES, check } from './browser.mjs';
import { page, runShown, until } from './driver.mjs';

export default {
    // It writes up to 512, asks, and goes on.
    async run_it_yourself() {
        await page.locator('#break button', { hasText: /^Write$/ }).click();
        await until('#break .status', /have read the same 512 tokens/);
        await page.waitForFunction(() =>
            [...document.querySelectorAll('#break .column small')].every((one) => /position 512/.test(one.innerText)),
        );
        const columns = page.locator('#break .column');
        check((await columns.count()) === 2, 'two columns');
        for (let i = 0; i < 2; i++)
            check(/position 512/.test(await columns.nth(i).locator('small').innerText()), 'a column stands at 512');
        await page.locator('#break').screenshot({ path: join(PICTURES, 'break-512.png') });
        await page.locator('#break .predict .chips button').nth(1).focus();
        await page.keyboard.press('Enter');
        await page.waitForFunction(() =>
            /position (6|7|8|9)\d\d/.test(document.querySelector('#break .column small').innerText),
        );
        check((await page.locator('#break .edge').count()) === 2, 'a line at 512 in each column');
        await page.locator('#break button', { hasText: 'Pause' }).click();
        await page.waitForTimeout(400);
        const paused = await columns.first().locator('small').innerText();
        await page.waitForTimeout(400);
        check((await columns.first().locator('small').innerText()) === paused, 'Pause pauses', paused);
        await page.locator('#break button', { hasText: 'Continue' }).click();
        const field = page.locator('#break input[type=text]');
        await field.fill('My dear sister');
        await field.press('Enter');
        await until('#break .column .scroll', /^My dear sister/);
        await until('#break .status', /Both stand at 512. They read the same 4 tokens/);
        check(
            (await page.locator('#break .command code').first().textContent()).includes("'My dear sister'"),
            'the command has the opening',
        );
        check(
            (await page.evaluate(() => location.hash)).includes('open=My+dear+sister'),
            'the address has the opening',
        );
    },

    // A guess made while the first 512 are written is kept: the texts go on by themselves. And they are ./run's, to the end.
    async commands_of_texts() {
        await page.evaluate(() => rope.state.set('open', 'It\'s a "fine" day, $HOME said'));
        await page.waitForFunction(() => /position \d/.test(document.querySelector('#break .column small').innerText));
        await page.locator('#break .predict .chips button').nth(0).click();
        await page.waitForFunction(
            () =>
                [...document.querySelectorAll('#break .column small')].every((s) => /position 2,400/.test(s.innerText)),
            undefined,
            { timeout: 400000 },
        );
        await until('#break .predict .reply', /of YaRN, 512 to 1,024: /);
        for (const [i, name] of ['none', 'yarn'].entries()) {
            const tokens = page.locator('#break .column').nth(i).locator('.scroll > span');
            const shown = (await tokens.allTextContents()).join('');
            const said = await runShown('break', i);
            check(shown.trim() === said.trim(), `the text of ${name} is the command's`, `${shown} / ${said}`);
        }
    },
};
