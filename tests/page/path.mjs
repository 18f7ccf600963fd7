// From score to word: score, share and next word are those of ./run.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PICTURES, check, table, tableOf } from './browser.mjs';
import { chip, desk, page, runShown, text, until } from './driver.mjs';

export default {
    async score_share_word() {
        await page.locator('#path').scrollIntoViewIfNeeded();
        for (const [name, back, isFound] of [
            ['near, plain', /stands 3\d\d tokens back/, true],
            ['far back, plain', /stands 1,\d\d\d tokens back/, false],
            ['far back, YaRN', /stands 1,\d\d\d tokens back/, true],
        ]) {
            await chip('path', name).click();
            await until('#path .told', isFound ? /probability of (9\d|100) %/ : /probability of [1-6]?\d(\.\d)? %/);
            await until('#path .told', back);
            const said = await text('#path .told'),
                [share, right] = said.match(/[\d.]+(?= %)/g).map(Number);
            check(
                isFound ? share > 95 && right > 90 : share < 50 && right < 50,
                `${name}: share and word go together`,
                said,
            );
            const rows = tableOf(await runShown('path'));
            const digits = rows.filter((row) => /^[0-9]$/.test(row.token));
            const onDigits = digits.reduce((sum, row) => sum + 100 * row.weight, 0);
            check(Math.abs(onDigits - share) < 4, `${name}: the share is that of the command`, [onDigits, share]);
            // The word: -ln p of the digit behind the same text.
            const key = await page.evaluate(async (far) => {
                const wish = { model: 'model', length: far ? 2048 : 512, depth: 0.25, key: '73914' };
                return (await rope.engine.ask('haystack', wish).promise).text;
            }, !/near/.test(name));
            writeFileSync(join(desk, 'asked.txt'), `${key} 7`);
            const method = /YaRN/.test(name) ? 'yarn:factor=4' : 'none',
                how = [
                    '--ppl',
                    join(desk, 'asked.txt'),
                    '-n',
                    String(rows.length + 1),
                    '--per-token',
                    '--kv',
                    'f32',
                    '--rope',
                    method,
                ];
            const last = table('model.bin', ...how).at(-1);
            check(Math.abs(100 * Math.exp(-last.nll) - right) < 3, `${name}: so is the word`, [
                Math.exp(-last.nll),
                right,
            ]);
            const widths = await page
                .locator('#path .chances i')
                .evaluateAll((all) => all.map((bar) => bar.getBoundingClientRect().width));
            check(isFound ? widths[7] > 60 : Math.max(...widths) > 5, `${name}: bars have a size`, widths);
            const axes = await page.locator('#path .axis-label').allTextContents();
            check(
                ['tokens back', 'score', 'share of attention, %'].every((axis) => axes.includes(axis)),
                'axes are named',
                axes,
            );
            await page.locator('#path').screenshot({ path: join(PICTURES, `path-${name.replace(/\W+/g, '-')}.png`) });
        }
    },
};
