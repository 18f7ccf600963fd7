// From score to word: score, share and next word are those of ./run.
import { join } from 'node:path';
import { PICTURES, check, tableOf } from './browser.mjs';
import { chip, page, runShown, text, until } from './driver.mjs';

export default {
    async score_share_word() {
        const answers = {},
            scales = new Set();
        await page.locator('#path').scrollIntoViewIfNeeded();
        for (const [name, back, isFound] of [
            ['near, plain', /stands 3\d\d tokens back/, true],
            ['far back, plain', /stands 1,\d\d\d tokens back/, false],
            ['far back, YaRN', /stands 1,\d\d\d tokens back/, true],
        ]) {
            await chip('path', name).click();
            await until('#path .told', back);
            await until('#path .told', isFound ? /“73914”: found/ : /“.*”: not found/);
            const said = await text('#path .told'),
                share = +said.match(/([\d.]+) % of its/)[1];
            check(isFound ? share > 95 : share < 5, `${name}: share and answer go together`, said);
            const rows = tableOf(await runShown('path', 0)),
                at = rows.length - 1 - +said.match(/stands ([\d,]+) tokens/)[1].replace(',', '');
            const onKey = rows.slice(at, at + 30).reduce((sum, row) => sum + 100 * row.weight, 0);
            check(Math.abs(onKey - share) < 4, `${name}: the share is that of the command`, [onKey, share]);
            const answer = (await runShown('path', 1)).split('The pass key is').at(-1).trim();
            check(answer.startsWith(said.match(/“(.*)”/)[1]), `${name}: so is the answer`, answer);
            answers[name] = { answer: said.match(/“(.*)”/)[1], share, head: said.match(/Head \d of layer \d/)[0] };
            const widths = await page
                .locator('#path .chances i')
                .evaluateAll((all) => all.map((bar) => bar.getBoundingClientRect().width));
            check(widths.length === 5 && widths[0] > 60, `${name}: bars have a size`, widths);
            const axes = await page.locator('#path .axis-label').allTextContents();
            check(
                ['tokens back', 'score', 'share of attention, %'].every((axis) => axes.includes(axis)),
                'axes are named',
                axes,
            );
            scales.add(await page.locator('#path .chart svg').first().locator('.tick').allTextContents().then(String));
            check((await page.locator('#path .method-card').count()) === 0, 'no card pushes the pictures down');
            await page.locator('#path').screenshot({ path: join(PICTURES, `path-${name.replace(/\W+/g, '-')}.png`) });
        }
        check(scales.size === 1, 'axes stay', [...scales].join(' / '));
        // Hide a key, of the same key at the same place: the same head, share and answer.
        await page.evaluate(() => {
            rope.state.set('key-n', 2048);
            rope.state.set('depth', 0.25);
            rope.state.set('digits', '73914');
        });
        for (const [method, name] of [
            ['plain', 'far back, plain'],
            ['yarn', 'far back, YaRN'],
        ]) {
            await chip('key', method).click();
            await page.locator('#key button.primary').click();
            await page.waitForFunction(() => /: (right|wrong)$/.test(document.querySelector('#key .digits').innerText));
            const { answer, share, head } = answers[name],
                drawn = await page.locator('#key .hay').innerHTML();
            check((await text('#key .digits')).startsWith(answer), `${method}: both panels answer alike`, answer);
            const its = head.match(/\d/g);
            check(
                drawn.includes(`layer ${its[1]}, head ${its[0]}: ${share} %`),
                `${method}: both show one head, and its share`,
                `${head} ${share} / ${drawn.match(/layer[^<]*/)}`,
            );
        }
    },
};
