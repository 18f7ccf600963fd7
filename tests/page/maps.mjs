// Distances.
import { join } from 'node:path';
import { PICTURES, check, tableOf } from './browser.mjs';
import { BOOK, byMethod, chip, drawn, page, pplOf, runShown, shows, text, wish } from './driver.mjs';

export default {
    async distances() {
        for (const name of ['rerope', 'leaky-rerope', 'self-extend', 'dca', 'streaming', 'lm-infinite']) {
            await chip('maps', name).click();
            await drawn();
            check(
                (await text('#maps')).includes('No distance is new') || name === 'lm-infinite',
                `${name} meets no new distance`,
                await text('#maps .fine'),
            );
        }
        await page.locator('#maps canvas').focus();
        await page.keyboard.press('Shift+ArrowUp');
        await drawn();
        check(
            /^Query 1,\d{3}, key 11/.test(await text('#maps .readout >> nth=0')),
            'a pair by keyboard',
            await text('#maps .readout >> nth=0'),
        );
        await chip('maps', 'self-extend').click();
        await page.locator('#maps').screenshot({ path: join(PICTURES, 'maps.png') });
        const rows = byMethod(tableOf(await runShown('maps')));
        const { nll } = await wish(page, 'nll', { method: 'self-extend', text: BOOK, context: 2048 });
        const mean = nll.slice(511).reduce((a, b) => a + b) / (nll.length - 511);
        shows(Math.exp(mean), pplOf(rows['self-extend'], 512), 2, 'perplexity with a map is that of the command');
        check(Object.keys(rows).join() === 'none,window,self-extend', 'beside plain and window', Object.keys(rows));
    },
};
