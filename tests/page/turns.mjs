// Count the turns.
import { join } from 'node:path';
import { PICTURES, check, open, table, tableOf } from './browser.mjs';
import { browser, drawn, page, runShown, text, url } from './driver.mjs';

export default {
    // Bars have a size, on both sides of the line, before the guess and after it.
    async bars() {
        const p = await open(browser, url, { ready: false });
        await p.locator('#turns').scrollIntoViewIfNeeded();
        const heights = () =>
            p
                .locator('#turns svg rect.part, #turns svg rect.whole')
                .evaluateAll((all) =>
                    all.map((bar) => [bar.getAttribute('class'), bar.getBoundingClientRect().height]),
                );
        for (const [when, pairs, never] of [
            ['before the guess', 32, 16],
            ['after it', 64, 29],
        ]) {
            const all = await heights(),
                below = all.filter(([name]) => name === 'part').map(([, height]) => height);
            check(all.length === pairs && below.length === never, `${when}: ${pairs} bars, ${never} of them below the line`, all);
            check(all.every(([, height]) => height > 1), `${when}: each has a height`, all);
            check(below.at(-1) > below[0] + 40, `${when}: the slower, the further down`, below);
            await p.locator('#turns .predict .chips button').nth(2).click();
            await drawn(p);
        }
        await p.close();
    },

    async count_the_turns() {
        await page.locator('#turns .predict .chips button').nth(2).focus();
        await page.keyboard.press('Enter');
        await drawn();
        const never = (headDim, theta, L) =>
            table(`--explain --rope none --head-dim ${headDim} --theta ${theta} --train-ctx ${L}`).filter(
                (r) => +r.turns < 1,
            ).length;
        const says = async (words, what) => check((await text('#turns')).includes(words), what, await text('#turns'));
        check(
            (await text('#turns .predict .reply')).includes(`Yes: ${never(128, 500000, 8192)}`),
            'the prediction is answered',
            await text('#turns .predict .reply'),
        );
        const scene = await text('#scene');
        check(!new RegExp(`\\b${never(128, 500000, 8192)}\\b`).test(scene), 'and not beside itself', scene);
        await drawn();
        await says(`${never(128, 500000, 8192)} of 64`, 'Llama 3');
        const slider = page.locator('#turns input[type=range]').first();
        await slider.focus();
        await page.keyboard.press('Home');
        await drawn();
        await says(`${never(128, 100, 8192)} of 64`, 'theta by keyboard');
        const rows = tableOf(await runShown('turns'));
        check(
            (await text('#turns')).includes(`${rows.filter((r) => +r.turns < 1).length} of ${rows.length}`),
            'the command counts as many',
            rows.length,
        );
        await page.locator('#turns button', { hasText: 'this page' }).click();
        await page.locator('#turns').screenshot({ path: join(PICTURES, 'turns.png') });
    },
};
