// Temperature.
import { join } from 'node:path';
import { PICTURES, tableOf } from './browser.mjs';
import { page, pplOf, runShown, shows } from './driver.mjs';

export default {
    async temperature() {
        await page.locator('#temper button', { hasText: /^4 times/ }).click();
        const slider = page.locator('#temper input[type=range]');
        await slider.focus();
        for (let i = 0; i < 10; i++) await page.keyboard.press('ArrowRight');
        await page.locator('#temper button', { hasText: 'Measure' }).click();
        await page.waitForFunction(
            () => /^[0-9]/.test(document.querySelector('#temper .numbers b').innerText),
            undefined,
            { timeout: 240000 },
        );
        const shown = +(await page.locator('#temper .numbers b').first().innerText());
        shows(shown, pplOf(tableOf(await runShown('temper')), 512), 2, 'perplexity at a = 1.1 is that of the command');
        await page.locator('#temper button', { hasText: 'Try nine' }).click();
        await page.waitForTimeout(500);
        await page.locator('#temper button', { hasText: 'Stop' }).click();
        await page.locator('#temper').screenshot({ path: join(PICTURES, 'temper.png') });
    },
};
