// Your weights: a model file of the reader's, which all panels then run, and which goes nowhere.
import { copyFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT, check, open, tableOf } from './browser.mjs';
import { BOOK, browser, desk, runShown, pplOf, shows, until, url, wish } from './driver.mjs';

export default {
    async a_model_file() {
        const folder = mkdtempSync(join(tmpdir(), 'rope-weights-')),
            small = join(ROOT, 'models/rope.bin'),
            p = await open(browser, url),
            pick = p.locator('#weights input[type=file]'),
            says = () => p.locator('#weights .status').innerText();
        copyFileSync(small, join(desk, 'rope.bin'));
        const junk = join(folder, 'junk.bin'),
            huge = join(folder, 'huge.bin');
        writeFileSync(junk, 'not a model at all. '.repeat(100));
        writeFileSync(huge, '');
        truncateSync(huge, 700e6);
        const going = wish(p, 'nll', { method: 'none', text: BOOK, context: 4000 }).catch((error) => error);
        for (const [file, line] of [
            [junk, /^junk\.bin: a text, not a model file/],
            [huge, /has 700 MB; the page has room for 500 MB/],
            [join(ROOT, 'models/alibi.bin'), /by alibi, not by RoPE/],
        ]) {
            await pick.setInputFiles(file);
            await p
                .waitForFunction(
                    (s) => new RegExp(s).test(document.querySelector('#weights .status.bad')?.innerText ?? ''),
                    line.source,
                    { timeout: 20000 },
                )
                .catch(() => {});
            check(line.test(await says()), `refused with a line: ${file.split('/').at(-1)}`, await says());
        }
        check((await going).nll?.length === 3999, 'what ran goes on beside files that are refused', await going);
        await pick.setInputFiles(junk);
        await pick.setInputFiles(huge);
        await p.waitForTimeout(500);
        check(/has 700 MB/.test(await says()), 'what is said is of the newest file', await says());
        const asked = p.asked.length;
        await pick.setInputFiles(small);
        await until('#weights', /rope\.bin, 1\.6 MB: \d+ layers of \d+ heads, trained on 256 positions/, p);
        check(
            (await p.locator('.failed:not([hidden])').count()) === 0,
            'no panel fails',
            await p.locator('.failed:not([hidden])').allInnerTexts(),
        );
        check((await p.locator('#tuned').count()) === 0, 'the sibling of the other model is not there');

        await p.evaluate(() => document.querySelectorAll('details').forEach((d) => (d.open = true)));
        await p.locator('#race button.primary').first().click();
        await until('#race .status', /tokens\/s/, p);
        const cells = await p
            .locator('#race tbody tr')
            .evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.innerText)));
        const rows = tableOf(await runShown('race', 0, p)).filter((row) => row.method === 'yarn');
        shows(+cells[1][4], pplOf(rows, 512, 1024), 1, 'the race is of this model, as its command');
        await p.locator('#key button.primary').click();
        await p.waitForFunction(() => /: (right|wrong)$/.test(document.querySelector('#key .digits').innerText));
        const shown = (await p.locator('#key .digits').innerText()).split(' ')[0];
        const said = (await runShown('key', 0, p)).trim().split('The pass key is').at(-1).trim();
        check(said.startsWith(shown.trim()), 'so is the key', `${shown} / ${said}`);
        await p.locator('#break button.primary').click();
        await until('#break .status', /Both stand at 256/, p);
        check(true, 'it writes, and stops where its training stopped');
        await p.locator('#scores button.primary').click();
        await until('#scores .numbers', /beyond 256/, p);
        check(
            p.asked.slice(asked).every((u) => /^(blob|data):/.test(u)),
            'nothing was asked of anybody',
            p.asked.slice(asked),
        );

        await p.locator('#weights button', { hasText: 'Back to model.bin' }).click();
        await p.waitForFunction(() => document.querySelector('#tuned'));
        check(/trained: 512/.test(await p.locator('#clocks').innerHTML()), 'and back to the model that ships');
        check(p.complaints.length === 0, 'no complaint', p.complaints);
        await p.close();
        rmSync(folder, { recursive: true });
    },
};
