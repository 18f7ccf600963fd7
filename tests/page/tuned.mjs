// Two hundred steps of tuning.
import { check, close, table, tableOf } from './browser.mjs';
import { BOOK, byMethod, page, pplOf, runShown, shows, text, until } from './driver.mjs';

export default {
    async tuned() {
        check(!page.asked.some((u) => u.includes('8k')), 'the second model has not been fetched yet');
        await page.locator('#tuned button.primary').click();
        await until('#tuned .status', /Reading/);
        check(
            page.asked.some((u) => u.includes('8k')),
            'now it has',
        );
        const found = await page.evaluate(async (text) => {
            const parts = [];
            await rope.engine.ask('nll', { model: 'model-8k', method: 'yarn:factor=16', text, context: 300 }, (p) =>
                parts.push(...p.nll),
            ).promise;
            return parts;
        }, BOOK);
        const rows = table(
            'model-8k.bin',
            '--ppl',
            'book.txt',
            '-n',
            '300',
            '--per-token',
            '--kv',
            'f32',
            '--rope',
            'yarn:factor=16',
        );
        close(
            found,
            rows.map((r) => +r.nll),
            1e-3,
            'the tuned model reads as ./run',
        );
        const pick = page.locator('#tuned input[type=file]');
        check((await pick.count()) === 0, 'beside the model nothing is to be picked');
        await page.evaluate(() => rope.engine.restart('for the test'));
        await until('#tuned .status', /started again/);
        await page.locator('#tuned button.primary').click();
        await until('#tuned .status', /Reading/);
        await page.locator('#tuned button', { hasText: 'Stop' }).click();
        await page.waitForTimeout(100);
        check((await text('#tuned .status')) === '', 'Stop ends it', await text('#tuned .status'));
        await page.locator('#tuned button.primary').click();
        await until('#tuned .status', /keys found\./);
        const told = (await text('#tuned .status')).match(/\d+\.\d|\d(?= of 5)/g).map(Number);
        const untuned = byMethod(tableOf(await runShown('tuned', 0))),
            after = tableOf(await runShown('tuned', 1)),
            keys = tableOf(await runShown('tuned', 2)).filter((row) => row.length === '4096');
        shows(told[0], pplOf(untuned.yarn, 2048), 1, 'yarn untuned');
        shows(told[1], pplOf(untuned.window, 2048), 1, 'the window');
        shows(told[2], pplOf(after, 2048), 1, 'tuned');
        check(told[3] === keys.filter((row) => row.correct === '1').length, 'the keys', `${told} ${keys.length}`);
    },
};
