// Hide a key.
import { join } from 'node:path';
import { PICTURES, check, tableOf } from './browser.mjs';
import { chip, dragTo, page, runShown, text, until } from './driver.mjs';

export default {
    async hide_a_key() {
        await chip('key', '1,024').click();
        await page.locator('#key .needle').focus();
        const at = async () => +(await page.locator('#key .needle').getAttribute('aria-valuenow'));
        const before = await at();
        await page.keyboard.press('PageUp');
        await page.waitForTimeout(60);
        check((await at()) === before + 10, 'the needle by keyboard', await at());
        await dragTo(page.locator('#key .needle path'), -250);
        check((await at()) < before, 'the needle by mouse', await at());
        await page.locator('#key input').fill('58213');
        for (const [name, right] of [
            ['yarn', true],
            ['window', false],
        ]) {
            await chip('key', name).click();
            await page.locator('#key button.primary').focus();
            await page.keyboard.press('Enter');
            await until('#key > .status', right ? /Found, / : /out of the window|Not found/);
            check(
                (await text('#key .digits')).startsWith('58213') === right,
                `${name} answers`,
                await text('#key .digits'),
            );
            if (right) await page.locator('#key').screenshot({ path: join(PICTURES, 'key.png') });
        }
        await page.locator('#key input').fill('12');
        await page.locator('#key button.primary').click();
        check(
            /five digits/.test(await text('#key > .status')),
            'a key of two digits is refused',
            await text('#key > .status'),
        );
        await page.locator('#key button', { hasText: 'Run the grid' }).click();
        await page.waitForFunction(() => document.querySelectorAll('#key td:not(.ghost)').length >= 16, undefined, {
            timeout: 240000,
        });
        await page.locator('#key button', { hasText: 'Stop' }).click();
        const cells = await page
            .locator('#key .grid tbody tr:first-child td:not(.ghost)')
            .evaluateAll((all) => all.map((td) => td.className));
        const rows = tableOf(await runShown('key', 1)).filter((row) => row.length === '256');
        check(
            cells.length === 15 && cells.every((c, i) => (c === 'yes') === (rows[i].correct === '1')),
            'the grid at 256 is that of --passkey',
            cells,
        );
    },

    // The haystack as a file, and the answer at a terminal.
    async haystack() {
        await chip('key', '1,024').click();
        await page.evaluate(() => rope.state.set('depth', 0.3));
        await page.locator('#key input').fill('40871');
        for (const name of ['yarn', 'window', 'your handles']) {
            await chip('key', name).click();
            await page.locator('#key button.primary').click();
            await page.waitForFunction(() => /: (right|wrong)$/.test(document.querySelector('#key .digits').innerText));
            const shown = (await text('#key .digits')).slice(0, 5);
            const said = await runShown('key', 0);
            const answer = said.trim().split('The pass key is').at(-1).trim();
            check(answer.startsWith(shown.trim()), `the answer of ${name} is the command's`, `${shown} / ${answer}`);
        }
    },

    // The head that is drawn is the same for all methods, and the one of the scene; here and there the same key is found or not.
    async one_head() {
        await page.evaluate(() => {
            rope.state.set('depth', 0);
            rope.state.set('digits', '73914');
        });
        await chip('key', '2,048').click();
        const heads = new Set();
        for (const [name, by] of [
            ['plain', 'none'],
            ['yarn', 'yarn'],
            ['window', 'window'],
        ]) {
            await chip('key', name).click();
            await page.locator('#key button.primary').click();
            await page.waitForFunction(() => /: (right|wrong)$/.test(document.querySelector('#key .digits').innerText));
            const drawn = await page.locator('#key .hay').evaluate((svg) => svg.textContent.match(/layer (\d+), head (\d+): (\d+) %/));
            await page.evaluate((by) => {
                rope.state.set('far', 2048);
                rope.state.set('by', by);
            }, by);
            await page.waitForTimeout(80);
            const told = (await page.locator('#scene .told').textContent()).match(/Head (\d+) of layer (\d+) gives the key (\d+) %.*“(.*)”/);
            heads.add(`${drawn[1]}.${drawn[2]}`).add(`${told[2]}.${told[1]}`);
            check(Math.abs(drawn[3] - told[3]) <= 1, `${name}: panel and scene see the same share on the key`, [drawn[3], told[3]]);
            const [answer, its] = [(await text('#key .digits')).slice(0, 5), told[4]].map((one) => one.replace(/\s+/g, ' ').trim());
            check(answer === its, `${name}: and the same answer`, JSON.stringify([answer, its]));
        }
        check(heads.size === 1, 'one head is drawn, whatever the method', [...heads]);
        await page.evaluate(() => {
            rope.state.set('far', 0);
            rope.state.set('by', '');
        });
    },

    // Another place while it is asked: the old answer does not come under it.
    async another_place() {
        await chip('key', 'yarn').click();
        await chip('key', '2,048').click();
        await page.locator('#key button.primary').click();
        await until('#key > .status', /reads 2,048 tokens/);
        await page.locator('#key .needle').focus();
        await page.keyboard.press('PageUp');
        await page.waitForTimeout(2500);
        check((await text('#key .digits')) === '', 'no answer for the old place', await text('#key .digits'));
        check((await text('#key > .status')) === '', 'nothing is said of it', await text('#key > .status'));
    },
};
