// Your method.
import { join } from 'node:path';
import { PICTURES, check, tableOf } from './browser.mjs';
import { BOOK, page, pplOf, runShown, shows, text, wish } from './driver.mjs';

export default {
    async your_method() {
        const field = page.locator('#formula input');
        await field.fill('plain / s');
        await page.waitForTimeout(100);
        check(/p->plain \/ p->scale;/.test(await text('#formula pre')), 'the C line', await text('#formula pre'));
        for (const [bad, line] of [
            ['plain /', /ends too early/],
            ['plain / q', /no q/],
            ['alert(1)', /no function alert/],
            ['plain * 0', /above 0 expected/],
            ['(('.repeat(500), /nested/],
            ['constructor(plain)', /no function/],
            ['plain ; 1', /cannot be read/],
            ['log(plain, s)', /takes 1/],
        ]) {
            await field.fill(bad);
            await page.waitForTimeout(80);
            check(
                line.test(await text('#formula .status')),
                `a bad formula: ${bad.slice(0, 20)}`,
                await text('#formula .status'),
            );
        }
        await field.fill('plain / s^((2*i/d)^2)');
        await page.waitForTimeout(100);
        await field.fill('turns < 1 ? plain / s : plain');
        await page.waitForTimeout(100);
        const divisors = await page.evaluate(() => rope.methodFor('mine', 2048).divisors);
        const s = await page.evaluate(() => rope.state.get('formula-n') / 512);
        check(
            divisors.filter((x) => Math.abs(x - s) < 1e-9).length === 16 &&
                divisors.filter((x) => x === 1).length === 16,
            "the formula's divisors",
            divisors,
        );
        const rows = tableOf(await runShown('formula'));
        const { nll } = await wish(page, 'nll', { method: { divisors, attention: 1 }, text: BOOK, context: 2048 });
        const mean = nll.slice(511).reduce((a, b) => a + b) / (nll.length - 511);
        shows(Math.exp(mean), pplOf(rows, 512), 2, "the formula's block reads as the page");
        await page.locator('#formula').screenshot({ path: join(PICTURES, 'formula.png') });
    },
};
