// All clocks of a head.
import { join } from 'node:path';
import { PICTURES, check, table, tableOf } from './browser.mjs';
import { chip, dragTo, page, runShown, shows, text } from './driver.mjs';

export default {
    // What never was is one colour on all pictures, and a key another one.
    async colours() {
        const found = await page.evaluate(() => {
            document.querySelector('#turns .hidden-answer')?.classList.remove('hidden-answer');
            const style = (selector, what) => getComputedStyle(document.querySelector(selector))[what];
            return {
                never: [
                    style('rect.part', 'fill'),
                    style('.dial.new .face', 'stroke'),
                    style('.dial.new .strange', 'fill'),
                ],
                key: [style('.dial .key', 'stroke'), style('.arrow.key line', 'stroke')],
            };
        });
        check(new Set(found.never).size === 1, 'one colour of what never was', found.never);
        check(new Set(found.key).size === 1 && found.key[0] !== found.never[0], 'and another of keys', found.key);
    },

    async clocks() {
        const numbers = async () => (await text('#clocks .numbers')).split('\n').filter((_, i) => i % 2 === 0);
        await page.locator('#clocks').scrollIntoViewIfNeeded();
        const rows = table('--explain --head-dim 64 --theta 10000 --train-ctx 512 -n 2048 --rope none');
        const turn = 2 * Math.PI,
            f = rows.map((r) => +r.inv_freq);
        const strange = f.filter((x) => x * 512 < turn && (900 * x) % turn > x * 512).length;
        const product = f.reduce((a, x) => a + Math.cos(900 * x), 0) / 32;
        check((await numbers())[1] === `${strange} of 32`, 'hands that stand where they never stood', await numbers());
        check((await numbers())[2] === product.toFixed(2), 'their product', `${await numbers()} ${product}`);
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
        shows(+(await numbers())[2], a * a * score, 2, "the product is that of the command's frequencies");
        check(
            /method=yarn/.test(await page.evaluate(() => new Promise((r) => setTimeout(() => r(location.hash), 300)))),
            'the address has the method',
        );
    },

    // A key never stands behind its query, by keys or by an address; hands that came round again are told.
    async key_and_query() {
        await page.evaluate(() => {
            rope.state.set('method', 'none');
            rope.state.set('key', 0);
            rope.state.set('query', 1056);
        });
        await page.locator('#clocks .token').nth(0).focus();
        await page.keyboard.press('End');
        await page.waitForTimeout(80);
        const both = () => page.evaluate(() => [rope.state.get('key'), rope.state.get('query')]);
        check((await both()).join() === '1056,1056', 'End brings the key to its query, no further', await both());
        await page.evaluate(() => {
            rope.state.set('query', 300);
        });
        check((await both())[0] <= 300, 'an address cannot part them otherwise', await both());
        await page.evaluate(() => {
            rope.state.set('key', 0);
            rope.state.set('query', 2048);
        });
        await page.waitForTimeout(80);
        const f = table('--explain --head-dim 64 --theta 10000 --train-ctx 512 -n 2048 --rope none').map((r) => +r.inv_freq),
            left = f.filter((x) => x * 512 < 2 * Math.PI).length;
        check((await text('#clocks .numbers')).includes(`${left} of 32`), 'hands that have been past their arc', left);
        await page.evaluate(() => rope.state.set('query', 900));
    },
};
