// Distances.
import { join } from 'node:path';
import { PICTURES, check, close, table } from './browser.mjs';
import { BOOK, chip, page, text, wish } from './driver.mjs';

export default {
    async distances() {
        for (const name of ['rerope', 'leaky-rerope', 'self-extend', 'dca', 'streaming', 'lm-infinite']) {
            await chip('maps', name).click();
            await page.waitForTimeout(60);
            check(
                (await text('#maps')).includes('No distance is new') || name === 'lm-infinite',
                `${name} meets no new distance`,
                await text('#maps .fine'),
            );
        }
        await page.locator('#maps canvas').focus();
        await page.keyboard.press('Shift+ArrowUp');
        await page.waitForTimeout(60);
        check(
            /^Query 1,\d{3}, key 11/.test(await text('#maps .readout')),
            'a pair by keyboard',
            await text('#maps .readout'),
        );
        await chip('maps', 'self-extend').click();
        await page.locator('#maps').screenshot({ path: join(PICTURES, 'maps.png') });
        const rows = table(
            'model.bin',
            '--ppl',
            'book.txt',
            '-n',
            '1024',
            '--per-token',
            '--kv',
            'f32',
            '--rope',
            'dca',
        );
        const { nll } = await wish(page, 'nll', {
            method: 'dca',
            text: BOOK,
            context: 1024,
        });
        close(
            nll,
            rows.map((r) => +r.nll),
            1e-3,
            '-ln p with dca',
        );
    },
};
