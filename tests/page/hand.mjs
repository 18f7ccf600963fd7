// Why unseen means wrong: one slow hand out of its arc, and all of them; numbers are those of ./run.
import { join } from 'node:path';
import { PICTURES, check, tableOf } from './browser.mjs';
import { page, runShown, text } from './driver.mjs';

const turn = async (hand, out, hands) => {
    await page.evaluate(
        ([hand, out, hands]) => {
            rope.state.set('hand', hand);
            rope.state.set('out', out);
            rope.state.set('hands', hands);
        },
        [hand, out, hands],
    );
    await page.waitForTimeout(250);
    await page.waitForFunction(() => document.querySelector('#hand .status').innerText === '');
    await page.waitForTimeout(80);
    const [far, farBefore, last, lastBefore] = (await text('#hand .told'))
        .replace(/more than \d+ back|last \d+ tokens/g, '')
        .match(/\d+\.\d+/g)
        .map(Number);
    return { far, farBefore, last, lastBefore };
};

export default {
    async one_hand_out() {
        await turn('3.1', 1.5, 'one');
        const one = await turn('3.1', 2, 'one');
        check(one.far > 3 * one.farBefore, 'far tokens get several times the attention', JSON.stringify(one));
        check(one.last < 1.03 * one.lastBefore, 'and other heads make up for it', JSON.stringify(one));
        const rows = tableOf(await runShown('hand', 0)),
            far = rows.filter((row) => +row.distance >= 256).reduce((sum, row) => sum + 100 * row.weight, 0);
        check(Math.abs(far - one.far) < 0.3, 'the share is that of the command', [far, one.far]);
        const red = await page.locator('#hand .plane path').nth(1).evaluate((path) => path.getBBox().width);
        check(red > 20, 'the picture shows the hand past its arc', red);
        await page.locator('#hand').screenshot({ path: join(PICTURES, 'hand.png') });
        const held = await turn('4.1', 4, 'one');
        check(Math.abs(held.far - held.farBefore) < 2, 'one head is said to hold, and does', JSON.stringify(held));
        const all = await turn('3.1', 4, 'all');
        check(all.last > 1.3 * all.lastBefore, 'with all slow hands the text goes', JSON.stringify(all));
        const nlls = tableOf(await runShown('hand', 1)).map((row) => +row.nll),
            told = Math.exp(nlls.slice(-128).reduce((a, b) => a + b) / 128);
        check(Math.abs(told - all.last) < 0.2, 'its perplexity is that of the command', [told, all.last]);
        await turn('3.1', 1, 'one');
    },
};
