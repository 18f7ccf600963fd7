// Your weights: a model file of the reader's, which all panels then run, and which goes nowhere.
import { copyFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT, check, open, table, tableOf } from './browser.mjs';
import { BOOK, browser, desk, runShown, pplOf, shows, until, url, wish } from './driver.mjs';

// A file of llama2.c, all zeros, whose vocabulary has so many pieces: a tokenizer of another one does not fit it.
function otherVocabulary(pieces) {
    const [dim, hidden, layers, heads, length] = [64, 64, 1, 2, 128],
        floats = pieces * dim + layers * (2 * dim + 4 * dim * dim + 3 * dim * hidden) + dim + (length * dim) / heads,
        head = Int32Array.of(dim, hidden, layers, heads, heads, pieces, length);
    return Buffer.concat([Buffer.from(head.buffer), Buffer.alloc(4 * floats)]);
}

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

        await p.evaluate(() => document.querySelectorAll('details').forEach((d) => (d.open = true)));
        await p.locator('#race button.primary').first().click();
        await until('#race .status', /tokens\/s/, p);
        const cells = await p
            .locator('#race tbody tr')
            .evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.innerText)));
        const rows = tableOf(await runShown('race', 0, p)).filter((row) => row.method === 'yarn');
        shows(+cells[1][4], pplOf(rows, 512, 1024), 1, 'the race is of this model, as its command');
        await p.evaluate(() => rope.state.set('slow', Array(rope.page.plan('none', 256).frequencies(256).plain.length).fill(4)));
        await p.locator('#toc a[href="#at=mend"]').click();
        await p.locator('.handles').press('ArrowUp');
        await until('.rewrite .fine', /^With your handles/, p);
        check(true, 'it writes');
        check(
            p.asked.slice(asked).every((u) => /^(blob|data):/.test(u)),
            'nothing was asked of anybody',
            p.asked.slice(asked),
        );

        await p.locator('#weights button', { hasText: 'Back to model.bin' }).click();
        await p.waitForFunction(() => document.querySelector('#panels[data-whole]') && /512/.test(document.querySelector('h1').textContent));
        check(true, 'and back to the model that ships');
        check(p.complaints.length === 0, 'no complaint', p.complaints);
        await p.close();
        rmSync(folder, { recursive: true });
    },

    // What stands on the page is of the model that runs, also where its layers differ: title, guesses, lengths, the scene.
    async layers_that_slide() {
        const p = await open(browser, url),
            pick = p.locator('#weights input[type=file]'),
            says = () => p.locator('#weights .status').innerText(),
            path = 'models/layers-sliding.bin';
        const odd = join(desk, 'odd.bin'),
            config = join(ROOT, 'tests/configs/phi-4-mini-instruct.json');
        writeFileSync(odd, otherVocabulary(300));
        await pick.setInputFiles(odd);
        await until('#weights .status', /Give its tokenizer too/, p).catch(() => {});
        check(/both files at once/.test(await says()), 'a model of another vocabulary: what would do is said', await says());
        await pick.setInputFiles(config);
        await p.waitForFunction(() => /Made for 131,072/.test(document.querySelector('#model .verdict').innerText));
        check((await says()) === '', 'a config that is picked takes the error before away', await says());
        await pick.setInputFiles(join(ROOT, path));
        await until('#weights', /layers-sliding\.bin, 1\.6 MB: .*trained on 256 positions/, p);
        await p.waitForFunction(() => document.querySelector('#panels[data-whole]'));
        const title = await p.locator('h1').innerText();
        check(title === 'What happens after position 256?', 'the title is of this model', title);
        const whose = await p.locator('#text').innerText();
        check(/recorded with model\.bin[^]*run layers-sliding\.bin/.test(whose), 'what is recorded says of whom it is', whose);
        const slow = table(path, ...'--explain --rope none'.split(' ')).filter((row) => +row.turns < 1),
            never = new Set(slow.map((row) => row.pair)).size, // its layers of both kinds turn alike
            told = await p.locator('#turns').innerText();
        check(told.includes(`${never} of `), 'its own hands are counted', [never, told]);
        const question = await p.locator('#key .question').innerText();
        check(/up to 2,048 tokens/.test(question), 'the question is of its length', question);
        for (const id of ['scene', 'key', 'fix', 'race'])
            check((await p.locator(`#${id}`).count()) === 1, `${id} is there for this model, too`);
        await p.locator('#toc a[href="#at=why"]').click();
        await p.waitForFunction(() => /^(Found|Lost|Diluted|This head)/.test(document.querySelector('#scene .told').textContent), undefined, { timeout: 120000 });
        const back = +(await p.locator('#scene .pull-words output').innerText()).replace(/\D/g, '');
        check(back > 768 && back < 1024, 'the scene is measured for it, at four times its length', back);
        check((await p.locator('.failed:not([hidden])').count()) === 0, 'no panel fails');
        check(p.complaints.length === 0, 'no complaint', p.complaints);
        await p.close();
    },
};
