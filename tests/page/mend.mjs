// Chapters 4 and 5: handles that bring the number back, the text that is written again, and the quiz.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PICTURES, ROOT, check, close, open, run, table, tableOf } from './browser.mjs';
import { BOOK, browser, chip, commandsOf, drawn, page, runShown, stillBox, text, until, url, wish } from './driver.mjs';

const N = 2048,
    recorded = JSON.parse(readFileSync(join(ROOT, 'page/recorded.json'), 'utf8')),
    squeezed = (words) => words.replace(/\s+/g, ' ').trim(),
    handles = (p) => p.evaluate(() => rope.methodFor('yours').divisors),
    digits = (p) => p.locator('.scene-body .digits b').evaluateAll((all) => all.map((one) => one.textContent).join(''));

// Paints handles by mouse in one stroke, from pair `from` on.
async function paint(p, places, from = 0) {
    const board = p.locator('.handles').first(),
        box = await stillBox(board),
        middles = await board.locator('circle').evaluateAll((all) => all.map((one) => +one.getAttribute('cx')));
    const [low, high] = [0.8, 2 * (N / 512)]; // of the board's axis
    const yOf = (v) => box.y + 138 - (126 * Math.log(v / low)) / Math.log(high / low);
    await p.mouse.move(box.x + middles[from], yOf(places[from]));
    await p.mouse.down();
    for (let i = from; i < places.length; i++) await p.mouse.move(box.x + middles[i], yOf(places[i]));
    await p.mouse.up();
    await drawn(p);
}
const mend = async (p) => {
    await p.locator('#toc a[href="#at=mend"]').click();
    await p.waitForFunction(() => document.querySelector('.scene-body').dataset.chapter === 'mend');
    await p.waitForTimeout(400);
};

export default {
    // The sixteen red handles are lifted: bars rise, digits turn green, and the text is written again, all in one view.
    async lifted() {
        const p = await open(browser, url, { more: false, viewport: { width: 1280, height: 720 } });
        await mend(p);
        check((await digits(p)) !== '73914', 'the number is lost', await digits(p));
        check((await p.locator('.handles .broken').count()) === 16, 'sixteen handles are red');
        const broken = await text('.rewrite .tail', p);
        const [from, to] = recorded.first.stretch.map((n) => n.toLocaleString('en'));
        check((await text('.rewrite', p)).includes(`over tokens ${from} to ${to}`), 'the text that broke stands there');
        const bars = () => p.locator('.totals b').allTextContents().then((all) => all.map(Number)),
            [before, rival] = await bars();
        check(before < rival, "another token's score is higher", [before, rival]);
        await paint(p, Array(32).fill(4), 16);
        check((await p.locator('.handles .broken').count()) === 0, 'no handle is red any more');
        await p.waitForFunction(() => [...document.querySelectorAll('.digits b')].every((one) => one.className === 'right'), undefined, {
            timeout: 120000,
        });
        const [after, other] = await bars();
        check(after > before + 5 && after > other, "the key's score rises above all others", [before, after, other]);
        const green = await p.locator('.digits b').first().evaluate((one) => getComputedStyle(one).color);
        check(/rgb\((\d+), (\d+), (\d+)\)/.test(green) && +green.match(/\d+/g)[1] > +green.match(/\d+/g)[0], 'digits are green', green);
        await until('.rewrite .fine', /^With your handles: perplexity \d+ over tokens 2,048 to 2,350; it was \d+/, p);
        const words = await text('.rewrite .fine', p),
            [now, was] = words.match(/perplexity (\d+) .*; it was (\d+)/).slice(1).map(Number);
        check(now < was, 'the text is better than the one that broke', words);
        check(was === Math.round(recorded.first.none.ppl), 'and that one is the recorded', words);
        const tail = await text('.rewrite .tail', p),
            said = squeezed(await runShown('fix', 0, p));
        check(tail !== broken && said.includes(squeezed(tail.replaceAll('…', ''))), "and is the command's", tail);
        const view = await p.evaluate(() =>
            ['.handles', '.terms', '.digits', '.rewrite .tail'].map((name) => {
                const { top, bottom } = document.querySelector(name).getBoundingClientRect();
                return top >= 46 && bottom <= innerHeight;
            }),
        );
        check(view.every(Boolean), 'all of it is in one view', view);
        await p.screenshot({ path: join(PICTURES, 'mend.png') });
        // A stroke is near YaRN, and says what lacks; the whole ramp is YaRN.
        check(/near YaRN.*went round a few times, pairs 4 to 15/.test(await text('#fix .found', p)), 'near, and what lacks');
        check((await p.locator('.handles .over').count()) === 1, "YaRN's curve is laid over");
        const places = await p.evaluate((n) => {
            const { frequencies, plain } = rope.page.plan('yarn', n).frequencies(n);
            return Array.from(plain, (f, i) => f / frequencies[i]);
        }, N);
        await paint(p, places);
        check(/^You built YaRN for 2,048 tokens: your handles are \d % off/.test(await text('#fix .found', p)), 'YaRN is reached');
        // A link has them; who opens it finds them, and nothing begins by itself.
        await p.context().grantPermissions(['clipboard-read', 'clipboard-write']);
        await p.locator('#fix .event button', { hasText: 'copy a link' }).click();
        await p.waitForTimeout(300);
        const link = await p.evaluate(() => navigator.clipboard.readText()),
            friend = await open(browser, link, { more: false });
        close(await handles(friend), await handles(p), 1e-3, 'a link has the handles');
        check(/The text that broke/.test(await text('.rewrite .fine', friend)), 'and begins nothing');
        await friend.close();
        check(p.complaints.length === 0, 'no complaint', p.complaints);
        await p.close();
    },

    // What YaRN slows is said as --explain has it; by keys a handle is chosen and moved, and End is the last pair.
    async yarn_and_keys() {
        await mend(page);
        const rows = table('--explain --head-dim 64 --theta 10000 --train-ctx 512 -n 2048 --rope yarn').map((row) => ({
                turns: +row.turns,
                slow: row.inv_freq / row.scaled_inv_freq,
            })),
            partly = rows.filter(({ turns, slow }) => turns >= 1 && slow > 1.001),
            [first, last] = [partly[0], partly.at(-1)];
        const words =
            `Pairs 4 to 15 went round ${first.turns.toFixed(1)} to ${last.turns.toFixed(1)} times, and are slowed ` +
            `${first.slow.toFixed(2)} to ${last.slow.toFixed(2)} times.`;
        check((await text('#fix')).includes(words), 'what YaRN slows', words);
        await chip('fix', 'yarn').click();
        await page.waitForTimeout(800);
        close(await handles(page), rows.map(({ slow }) => slow), 1e-4, 'the handles go where --explain has them');
        // Their perplexity is a race's, with them chosen.
        await page.locator('#fix button', { hasText: 'Race these handles' }).click();
        await drawn();
        check((await page.evaluate(() => rope.state.get('race').join())) === 'none,yarn,yours', 'they are chosen for the race');
        check(await page.locator('#race button.primary').isVisible(), 'which is shown');
        await mend(page);
        await chip('fix', 'plain').click();
        await page.waitForTimeout(800);
        const board = page.locator('.handles'),
            said = () => board.getAttribute('aria-valuetext');
        await board.focus();
        await page.keyboard.press('Home');
        check(/^pair 0,/.test(await said()), 'Home is the first pair', await said());
        await page.keyboard.press('End');
        for (let i = 0; i < 3; i++) await page.keyboard.press('ArrowUp');
        await drawn();
        check(/^pair 31, slowed 1\.33 times/.test(await said()), 'End is the last pair, and up slows it', await said());
        await page.evaluate(() => rope.state.set('slow', []));
        // Divisors of one's own are what ./run does with a block of them.
        const { nll } = await wish(page, 'nll', { method: { divisors: Array.from({ length: 32 }, (_, i) => 1 + i / 10), attention: 1.1 }, text: BOOK, context: 300 });
        check(nll.length === 299 && nll.every(Number.isFinite), 'divisors of one’s own are read');
    },

    // While a hand paints, nothing that is watched goes blank: bars follow the hands at once, the rest stays, pale.
    async nothing_blank() {
        const p = await open(browser, url, { more: false, viewport: { width: 1280, height: 720 } });
        await mend(p);
        await p.evaluate(() => {
            const seen = (globalThis.seen = []),
                words = (name) => document.querySelector(name).innerText.trim();
            const look = () => {
                const bars = [...document.querySelectorAll('.terms rect:not(.near)')].map((one) => one.getAttribute('y'));
                seen.push({
                    digits: words('.digits').replace(/\s/g, ''),
                    bars: bars.join(),
                    high: [...document.querySelectorAll('.terms rect:not(.near)')].filter((one) => +one.getAttribute('height') > 0.3).length,
                    gold: words('.ribbon .gold'),
                    tail: words('.rewrite .tail').length,
                    sum: words('.totals .mine b'),
                    isStale: document.querySelector('.digits').classList.contains('stale'),
                });
                requestAnimationFrame(look);
            };
            look();
        });
        await paint(p, Array(32).fill(4), 16);
        await p.waitForFunction(() => document.querySelector('.digits').innerText.replace(/\s/g, '') === '73914', undefined, { timeout: 120000 });
        const seen = await p.evaluate(() => globalThis.seen),
            painted = seen.filter((one) => one.isStale);
        check(painted.length > 5, 'it is seen while it is not measured', painted.length);
        check(new Set(painted.map(({ bars }) => bars)).size > 5, 'bars follow the hand', new Set(painted.map(({ bars }) => bars)).size);
        for (const [what, isBlank] of Object.entries({
            digits: ({ digits }) => !digits || digits.includes('?'),
            bars: ({ high }) => high < 20,
            'the sentence': ({ gold }) => gold.length < 60,
            'the text': ({ tail }) => tail < 60,
            'the sum': ({ sum }) => !/\d/.test(sum),
        }))
            check(!seen.some(isBlank), `${what}: never blank`, JSON.stringify(seen.find(isBlank)));
        check(+painted.at(-1).sum > +seen[0].sum + 3, 'the sum rises before it is measured', [seen[0].sum, painted.at(-1).sum]);
        // Chips show what is recorded at once, the film too, and do not run from the pointer.
        const row = p.locator('#fix .chips').first(),
            y = async () => (await row.boundingBox()).y - (await p.locator('#h-mend').boundingBox()).y,
            at = await y();
        for (const name of ['linear', 'ntk', 'by parts', 'yarn', 'llama3', 'plain']) {
            await p.locator('#fix button.chip', { hasText: new RegExp(`^${name}$`) }).click();
            await p.waitForTimeout(500);
            check(!(await p.locator('.digits').evaluate((one) => one.classList.contains('stale'))), `${name}: known at once`);
            check(Math.abs((await y()) - at) < 1, `${name}: the chips stay`, [at, await y()]);
        }
        check(p.complaints.length === 0, 'no complaint', p.complaints);
        await p.close();
    },

    // The guess comes before the answer; then the scene is the experiment, and the grid shows what is recorded.
    async quiz() {
        const p = await open(browser, url, { more: false });
        await p.locator('#toc a[href="#at=proof"]').click();
        await p.waitForFunction(() => document.querySelector('.scene-body').dataset.chapter === 'proof');
        await p.waitForTimeout(1200);
        check((await digits(p)) === '?????', 'no answer before the guess', await digits(p));
        check(await p.locator('#key .grid').first().isHidden(), 'nor a grid');
        const found = recorded.passkey.filter(([method, , , isRight]) => method === 'window' && isRight).length;
        await p.locator('#key .predict button', { hasText: String(found) }).click();
        await p.waitForTimeout(300);
        check(/^Yes: \d+ times/.test(await text('#key .reply', p)), 'the guess is answered', await text('#key .reply', p));
        const hits = await p.locator('#key .grid').nth(2).locator('td.yes').count();
        check(hits === found, 'as the grid has it', [hits, found]);
        check(await p.locator('#key .grid').first().isVisible(), 'which is there');
        check(/does not reach back to the sentence/.test(await text('.told', p)), 'what a window does not see');
        for (const [name, isRight] of [['window', false], ['plain', false], ['YaRN', true]]) {
            await p.locator('.by .chip', { hasText: name }).click();
            await p.waitForTimeout(300);
            check(((await digits(p)) === '73914') === isRight, `${name}: ${isRight ? 'found' : 'not found'}`, await digits(p));
        }
        // What is chosen here does not leak into other chapters.
        await p.locator('.by .chip', { hasText: 'window' }).click();
        await p.locator('#toc a[href="#at=why"]').click();
        await p.waitForFunction(() => document.querySelector('.scene-body').dataset.chapter === 'why');
        await p.waitForTimeout(200);
        check((await p.locator('.scene-body .clocks .new').count()) === 16 && (await digits(p)) === 'is yellow', 'chapter 3 is plain', await digits(p));
        await p.locator('#toc a[href="#at=proof"]').click();
        await p.waitForFunction(() => document.querySelector('.scene-body').dataset.chapter === 'proof');
        await p.waitForTimeout(200);
        await p.screenshot({ path: join(PICTURES, 'proof.png') });
        await p.locator('#key button', { hasText: 'Run the grid' }).click();
        await p.waitForFunction(() => document.querySelectorAll('#key td:not(.ghost)').length >= 16, undefined, { timeout: 240000 });
        await p.locator('#key button', { hasText: 'Stop' }).click();
        const cells = await p.locator('#key .grid tbody tr:first-child td:not(.ghost)').evaluateAll((all) => all.map((td) => td.className)),
            how = ['model.bin', '--passkey', '--trials', '1', '-s', '1', '--kv', 'f32'],
            line = await commandsOf('key', p).first().locator('code').textContent();
        check(line === './run model.bin --passkey -n 4096 --trials 1 -s 1 --kv f32 --rope none,yarn,window', 'its command', line);
        // The shortest texts alone, with the factor that YaRN has for the longest.
        const rows = tableOf(run(...how, '-n', '256', '--rope', 'none,yarn:factor=8,window')).filter((row) => row.length === '256');
        check(cells.length === 15 && cells.every((c, i) => (c === 'yes') === (rows[i].correct === '1')), 'the grid at 256 is --passkey’s', cells);
        // All 25 texts are the command's, and what is recorded is what it finds in them.
        const prompts = run('model.bin', '--tasks', 'passkey', '-n', '4096', '--trials', '1', '-s', '1', '--prompts')
            .trim()
            .split('\n')
            .map((one) => JSON.parse(one));
        let texts = 0;
        for (const { length, depth, prompt, answers } of prompts.filter((one) => one.length >= 256)) {
            const its = { model: 'model', length, depth: Math.round(4 * depth), seed: 1 },
                { text, key } = await p.evaluate((all) => rope.engine.ask('passkey', all).promise, its);
            check(text.trim() === prompt.trim() && answers.includes(key), `the text of ${length} at ${depth} is the command’s`, text.slice(-80));
            texts++;
        }
        check(texts === 25, 'all of them', texts);
        const all = tableOf(run(...how, '-n', '4096', '--rope', 'none,yarn,window'));
        for (const [method, length, depth, right] of recorded.passkey)
            check(
                all.some((row) => row.method === method && +row.length === length && +row.depth === depth && +row.correct === right),
                `recorded: ${method}, ${length} at ${depth}`,
            );
        await p.close();
    },
};
