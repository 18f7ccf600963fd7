// Temperature.
import { join } from 'node:path';
import { PICTURES, check, table } from './browser.mjs';
import { page, text } from './driver.mjs';

export default {
    async temperature() {
        const slider = page.locator('#temper input[type=range]');
        await slider.focus();
        for (let i = 0; i < 10; i++) await page.keyboard.press('ArrowRight');
        await page.locator('#temper button', { hasText: 'Measure' }).click();
        await page.waitForFunction(
            () => /^[0-9]/.test(document.querySelector('#temper .numbers b').innerText),
            undefined,
            { timeout: 240000 },
        );
        const rows = table(
            'model.bin',
            '--ppl',
            'book.txt',
            '-n',
            '2048',
            '--kv',
            'f32',
            '--per-token',
            '--rope',
            'yarn:attn-factor=1.1',
        );
        const past = rows.filter((r) => +r.position >= 512),
            ppl = Math.exp(past.reduce((a, r) => a + +r.nll, 0) / past.length);
        check(
            Math.abs(+(await page.locator('#temper .numbers b').first().innerText()) - ppl) < 0.006 + 1e-3 * ppl,
            'perplexity at a = 1.1',
            `${await text('#temper .numbers')} ${ppl}`,
        );
        await page.locator('#temper button', { hasText: 'Try ten' }).click();
        await page.waitForTimeout(500);
        await page.locator('#temper button', { hasText: 'Stop' }).click();
        await page.locator('#temper').screenshot({ path: join(PICTURES, 'temper.png') });
    },
};
