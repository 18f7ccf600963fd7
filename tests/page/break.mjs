// Watch it break.
import { join } from 'node:path';
import { PICTURES, check, run } from './browser.mjs';
import { page, stopAll, until } from './driver.mjs';

export default {
    // It writes by itself up to 512, asks, and goes on.
    async watch_it_break() {
        await until('#break .status', /Nothing has happened yet/);
        const columns = page.locator('#break .column');
        check((await columns.count()) === 3, 'three columns');
        for (let i = 0; i < 3; i++)
            check(/position 512/.test(await columns.nth(i).locator('small').innerText()), 'a column stands at 512');
        await page.locator('#break').screenshot({ path: join(PICTURES, 'break-512.png') });
        await page.locator('#break .predict button').nth(1).focus();
        await page.keyboard.press('Enter');
        await page.waitForFunction(() =>
            /position (6|7|8|9)\d\d/.test(document.querySelector('#break .column small').innerText),
        );
        check((await page.locator('#break .edge').count()) === 3, 'a line at 512 in each column');
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
        await until('#break .status', /Nothing has happened yet/);
        const shown = await page.locator('#break .column .scroll').first().textContent();
        const said = run(
            'model.bin',
            '-n',
            '512',
            '-t',
            '0.8',
            '-p',
            '0.9',
            '-s',
            '7',
            '--ignore-eos',
            '--kv',
            'f32',
            '--rope',
            'none',
            '-i',
            'My dear sister',
        );
        const plain = (t) => t.replace(/\s+/g, ' ').trim();
        check(
            plain(said).startsWith(plain(shown).slice(0, 300)),
            'the text is the one of ./run at the same seed',
            `${plain(shown).slice(0, 120)} / ${plain(said).slice(0, 120)}`,
        );
        check(
            (await page.locator('#break .command code').first().textContent()).includes("'My dear sister'"),
            'the command has the opening',
        );
        check(
            (await page.evaluate(() => location.hash)).includes('open=My+dear+sister'),
            'the address has the opening',
        );
        await stopAll();
    },
};
