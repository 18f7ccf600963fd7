// Two hundred steps of tuning.
import { check, close, table } from './browser.mjs';
import { BOOK, page, text, until } from './driver.mjs';

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
        await page.evaluate(() => rope.engine.restart('for the test'));
        await until('#tuned .status', /started again/);
    },
};
