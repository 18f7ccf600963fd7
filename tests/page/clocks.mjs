// Clocks.
import { join } from 'node:path';
import { PICTURES, check, table, tableOf } from './browser.mjs';
import { chip, dragTo, page, runShown, shows, text } from './driver.mjs';

export default {
    async clocks() {
        const numbers = async () => (await text('#clocks .numbers')).split('\n').filter((_, i) => i % 2 === 0);
        await page.locator('#clocks').scrollIntoViewIfNeeded();
        const rows = table('--explain --head-dim 64 --theta 10000 --train-ctx 512 -n 2048 --rope none');
        const turn = 2 * Math.PI,
            f = rows.map((r) => +r.inv_freq);
        const strange = f.filter((x) => x * 512 < turn && (900 * x) % turn > x * 512).length;
        const product = f.reduce((a, x) => a + Math.cos(900 * x), 0) / 32;
        check((await numbers())[1] === `${strange} of 32`, 'hands that stand where they never stood', await numbers());
        check((await numbers())[2] === product.toFixed(6), 'their product', `${await numbers()} ${product}`);
        await dragTo(page.locator('#clocks .token').nth(1), 120);
        check(+(await numbers())[0].replace(',', '') > 1000, 'the query is dragged', await numbers());
        await page.locator('#clocks .token').nth(0).focus();
        for (let i = 0; i < 3; i++) await page.keyboard.press('PageUp');
        await page.waitForTimeout(80);
        const apart = await numbers();
        const before = await page.locator('#clocks .dial .query').first().getAttribute('x2');
        await dragTo(page.locator('#clocks .band'), 60);
        check(
            (await numbers()).join() === apart.join(),
            'two tokens dragged together: difference and product stay',
            `${await numbers()} ${apart}`,
        );
        check((await page.locator('#clocks .dial .query').first().getAttribute('x2')) !== before, 'and the hands move');
        await page.locator('#clocks .band').focus();
        await page.keyboard.press('ArrowRight');
        await page.waitForTimeout(60);
        check((await numbers()).join() === apart.join(), 'and with the arrow keys');
        await page.locator('#clocks').screenshot({ path: join(PICTURES, 'clocks.png') });
        await chip('clocks', 'yarn').focus();
        await page.keyboard.press('Space');
        await page.waitForTimeout(60);
        check(/^0 of/.test((await numbers())[1]), 'with YaRN no hand is where it never stood', await numbers());
        const turned = tableOf(await runShown('clocks')),
            d = +(await numbers())[0].replace(',', '');
        const score = turned.reduce((sum, r) => sum + Math.cos(d * r.scaled_inv_freq), 0) / 32,
            a = 0.1 * Math.log(4) + 1; // YaRN's
        shows(+(await numbers())[2], a * a * score, 5, "the product is that of the command's frequencies");
        check(
            /method=yarn/.test(await page.evaluate(() => new Promise((r) => setTimeout(() => r(location.hash), 300)))),
            'the address has the method',
        );
    },
};
