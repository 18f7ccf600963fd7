// The story: the first picture, the chapters, what RoPE is, where a head looks, terms, cards of methods, and links.
import { readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PICTURES, ROOT, check, close, open, run, table, tableOf } from './browser.mjs';
import { BOOK, browser, page, runShown, text, url, wish } from './driver.mjs';

const recorded = JSON.parse(readFileSync(join(ROOT, 'page/recorded.json'), 'utf8'));
const CHAPTERS = ['breaks', 'turning', 'why', 'mend', 'proof', 'yours'];
const squeezed = (words) => words.replace(/\s+/g, ' ').trim();

export default {
    // What is shown at once is what ./run writes, on both sides of the line.
    async first_picture() {
        const { first } = recorded;
        const shown = await page.locator('.opening > p').allTextContents();
        check(shown.length === 2 * first.excerpts.length, 'an excerpt of each text in every row', shown.length);
        for (const [i, name] of ['none', 'yarn'].entries()) {
            const how = `-n ${first.length} -t 0.8 -p 0.9 -s ${first.seed} --ignore-eos --kv f32 --rope ${name}`;
            const said = run('model.bin', ...how.split(' '), '-i', first.opening),
                whole = squeezed(said);
            const parts = shown.filter((_, k) => k % 2 === i).map((part) => squeezed(part.replaceAll('…', '')));
            check(
                parts.every((part) => part.length > 60 && whole.includes(part)),
                `the excerpts of ${name} are ./run's`,
                parts.filter((part) => !whole.includes(part)),
            );
            const file = join(tmpdir(), `rope-first-${process.pid}.txt`);
            writeFileSync(file, said.trimEnd());
            const per = ['--per-token', '--kv', 'f32', '--rope', 'window'];
            const rows = table('model.bin', '--ppl', file, '-n', String(first.length - 50), ...per);
            const [from, to] = first.excerpts.at(-1);
            const nlls = rows.slice(from - 1, to - 1).map((row) => +row.nll);
            close(
                first[name].at(-1).map(([, nll]) => nll),
                nlls,
                0.051,
                `the surprise of ${name} is a window's`,
            );
        }
        const far = (name) => first[name].at(-1).reduce((sum, [, nll]) => sum + nll, 0) / 50;
        check(far('none') > far('yarn') + 1.5, 'plain fails unmistakably', [far('none'), far('yarn')]);
        const line = await page.locator('.opening .edge').innerText();
        check(/512: training ended/.test(line), 'the line stands between', line);
    },

    // It is there on the first screen, before the program is; and its button runs the same texts.
    async run_it() {
        const p = await open(browser, url, { more: false, viewport: { width: 1280, height: 800 } });
        const box = await p.locator('.opening .edge').boundingBox();
        check(box.y < 500, 'the line at 512 is on the first screen', box.y);
        const start = await p.locator('#run-it').boundingBox();
        check(start.y + start.height <= 800, 'and so is the button that runs it', start.y);
        check(!(await p.locator('#break').isVisible()), 'what runs it stands under more');
        await p.locator('#run-it').click();
        check(await p.locator('#break').isVisible(), 'and opens');
        await p.waitForFunction(() => /Nothing has happened/.test(document.querySelector('#break .status').innerText));
        await p.waitForFunction(() => /position 512/.test(document.querySelector('#break .column small').innerText));
        const written = await p.locator('#break .column .scroll').first().textContent();
        const before = squeezed((await p.locator('.opening > p').first().textContent()).replaceAll('…', ''));
        check(squeezed(written).endsWith(before.slice(-40)), 'and it is the recorded text', written.slice(-80));
        await p.close();
    },

    async chapters() {
        const p = await open(browser, url, { more: false, viewport: { width: 1280, height: 900 } });
        const ids = await p.locator('section.chapter').evaluateAll((all) => all.map((one) => one.id));
        check(ids.join() === CHAPTERS.join(), 'six chapters', ids);
        const { height, words } = await p.evaluate(() => ({
            height: document.documentElement.scrollHeight,
            words: document.body.innerText.split(/\s+/).length,
        }));
        console.log(`the page is ${height} pixels high and has ${words} words`);
        check(height < 13000 && words < 2400, 'shorter than it was: 15,906 pixels and 3,321 words', [height, words]);
        check(/rotary position embedding/i.test(await p.locator('#arrows').innerText()), 'RoPE is spelled out');
        const current = () => p.locator('#toc a[aria-current]').innerText();
        for (const id of ['why', 'yours']) {
            await p.locator(`#toc a[href="#at=${id}"]`).click();
            await p.waitForTimeout(150);
            const top = await p.locator(`#${id}`).evaluate((one) => one.getBoundingClientRect().top);
            check(top > 0 && top < 120, `${id}: the contents go there`, top);
            check((await current()).startsWith(String(CHAPTERS.indexOf(id) + 1)), `${id}: and say so`, await current());
        }
        const bar = await p.locator('#toc').boundingBox();
        check(bar.y === 0, 'the bar stays', bar.y);
        const scale = await p.locator('#toc .read').evaluate((one) => new DOMMatrix(getComputedStyle(one).transform).a);
        check(scale > 0.5 && scale <= 1, 'and tells how far one is', scale);
        await p.goBack();
        await p.waitForTimeout(150);
        check(/^3/.test(await current()), 'back goes back', await current());
        await p.goForward();
        await p.waitForTimeout(150);
        check(/^6/.test(await current()), 'forward goes on', await current());
        await p.close();
    },

    // A link has the panel and its state; what it stands in opens.
    async links() {
        const p = await open(browser, `${url}#at=race&race=yarn&n=1024`, { more: false });
        await p.waitForTimeout(200);
        const top = await p.locator('#race').evaluate((one) => one.getBoundingClientRect().top);
        check(top > -5 && top < 120, 'a link goes to its panel, under more', top);
        check((await p.locator('#race .chip[aria-pressed=true]').allInnerTexts()).includes('yarn'), 'with its state');
        await p.context().grantPermissions(['clipboard-read', 'clipboard-write']);
        await p.locator('#race h3 .link').click();
        const copied = await p.evaluate(() => navigator.clipboard.readText());
        check(/#at=race&/.test(copied) && /n=1024/.test(copied) && /race=yarn/.test(copied), 'and is copied', copied);
        await p.close();
        const bad = await open(browser, `${url}#at=nowhere`, { more: false });
        check(bad.complaints.length === 0, 'a link to nowhere shows the page', bad.complaints);
        await bad.close();
    },

    async terms() {
        await page.locator('#arrows button.term', { hasText: /^query$/ }).click();
        check(/with which a token asks/.test(await text('.popup')), 'a term explains itself', await text('.popup'));
        await page.keyboard.press('Escape');
        check((await page.locator('.popup').count()) === 0, 'Escape closes it');
        const back = await page.evaluate(() => document.activeElement.innerText);
        check(back === 'query', 'and the focus is back', back);
        const all = page.locator('button.term');
        for (let i = 0; i < (await all.count()); i++) {
            await all.nth(i).evaluate((one) => one.click());
            const card = await page.locator('.popup').innerText();
            check(card.length > 20, `${await all.nth(i).innerText()} has a card`, card);
        }
        await page.keyboard.press('Escape');
    },

    // Wherever a method's name is pressed its card shows, with the lines of rope.c behind it.
    async cards() {
        const source = readFileSync(join(ROOT, 'rope.c'), 'utf8');
        const names = await page.locator('#key .chip[value]').evaluateAll((all) => all.map((one) => one.value));
        const own = ['yours', 'mine'];
        for (const name of names.filter((name) => !/^\d+$/.test(name))) {
            await page.locator(`#key .chip[value="${name}"]`).evaluate((one) => one.click());
            const card = page.locator('#key .method-card');
            if (own.includes(name)) {
                check((await card.count()) === 0, `${name} is the reader's own`);
                continue;
            }
            check(/→|D =/.test(await card.innerText()), `${name} has its formula`, await card.innerText());
            if (name === 'window') continue;
            const code = await card.locator('pre').textContent();
            const made = (await card.locator('summary').textContent()).replace('() in rope.c', '');
            check(source.includes(code) && code.includes(`${made}(`), `${name} has its lines of rope.c`, code);
            check((await card.locator('a').count()) === 1, `${name} has its paper`);
        }
        await page.locator('#key .chip[value="yarn"]').evaluate((one) => one.click());
    },

    async arrows() {
        const product = async () => +(await text('#arrows figure:nth-child(2) .readout')).match(/-?[\d.]+$/)[0];
        const put = (m, k) =>
            page.evaluate(
                ([m, k]) => {
                    rope.state.set('m', m);
                    rope.state.set('k', k);
                },
                [m, k],
            );
        const sum = async () => +(await text('#arrows figure:nth-child(3) .readout')).match(/: (-?[\d.]+)/)[1];
        const speeds = table('--explain', ...'--head-dim 64 --theta 10000 --train-ctx 512 --rope none'.split(' '));
        for (const [m, k] of [
            [9, 3],
            [14, 0],
            [5, 5],
        ]) {
            await put(m, k);
            await page.waitForTimeout(60);
            check(Math.abs((await product()) - Math.cos((m - k) * 0.42)) < 0.006, `the product at ${m} and ${k}`);
            const all = speeds.reduce((sum, row) => sum + Math.cos((m - k) * row.inv_freq), 0) / speeds.length;
            check(Math.abs((await sum()) - all) < 0.006, `the sum of all pairs at ${m} and ${k}`, [await sum(), all]);
        }
        await put(9, 3);
        await page.waitForTimeout(60);
        const turned = () => page.locator('#arrows figure:nth-child(2) .arrow.query').getAttribute('transform');
        const [before, was] = [await product(), await turned()];
        await page.locator('#arrows button[aria-label="both one on"]').click();
        await page.waitForTimeout(60);
        check((await product()) === before && (await turned()) !== was, 'both turn, the product stays');
        await page.locator('#arrows .words button', { hasText: 'fine' }).click();
        await page.waitForTimeout(60);
        check(/“fine” stands at 3/.test(await text('#arrows')), 'a word is where the query stands');
        await page.locator('#arrows .part.theta').click();
        check(/10,000/.test(await text('#arrows .means')), 'a part of the formula says what it means');
        check((await page.locator('#arrows .three').getAttribute('data-lit')) === 'theta', 'and lights up');
        await page.locator('#arrows').screenshot({ path: join(PICTURES, 'arrows.png') });
    },

    // The recorded rows, and those that are measured here, are --attn's.
    async where_a_head_looks() {
        const { bin, length, positions, characters, heads } = recorded.attention;
        const words = BOOK.slice(0, characters),
            row = 38;
        const cut = words.slice(
            0,
            words.lastIndexOf(' ', Math.floor((words.length * (row + 1)) / positions.length) - 1),
        );
        const file = join(tmpdir(), `rope-looks-${process.pid}.txt`);
        writeFileSync(file, cut);
        for (const name of ['none', 'yarn']) {
            const method = name === 'none' ? name : `yarn:factor=${length / 512}`;
            const how = ['--attn', '3.0', '--rope', method, '-n', String(length), '--kv', 'f32', '-f', file];
            const far = table('model.bin', ...how).reduce((sum, r) => sum + (+r.distance >= 512 ? +r.weight : 0), 0);
            const [digits, beyond] = heads['3.0'][name][row];
            check(Math.abs(beyond - far) < 0.02, `the recorded share beyond 512, ${name}`, [beyond, far]);
            check(digits.length === Math.floor(positions[row] / bin) + 1, `as many distances as there are, ${name}`);
            const { done } = await wish(page, 'scores', { method, text: cut, context: length });
            const scores = Object.values(done.heads[3][0]),
                max = Math.max(...scores);
            const weights = scores.map((score) => Math.exp(score - max)),
                all = weights.reduce((a, b) => a + b);
            const here = weights.slice(0, -512).reduce((a, b) => a + b, 0) / all;
            check(Math.abs(here - far) < 2e-3, `the share that this page measures, ${name}`, [here, far]);
            await page.evaluate((row) => rope.state.set('row', row), row);
            await page.waitForTimeout(80);
            const shown = await page
                .locator('#attention figcaption')
                .nth(name === 'none' ? 0 : 1)
                .innerText();
            check(shown.includes(`${Math.round(100 * beyond)} %`), `it is shown, ${name}`, shown);
            const rows = tableOf(await runShown('attention', name === 'none' ? 0 : 1));
            const told = rows.reduce((sum, r) => sum + (+r.distance >= 512 ? +r.weight : 0), 0);
            check(Math.abs(told - far) < 1e-6, `the command shown does it, ${name}`, [told, far]);
        }
        await page.locator('#attention button', { hasText: 'Measure it here' }).click();
        await page.waitForFunction(() => rope.state.get('row') === 46);
        await page.locator('#attention button', { hasText: 'Stop' }).click();
        check(/\d %/.test(await text('#attention figcaption >> nth=0')), 'it can be stopped');
        await page.locator('#attention').screenshot({ path: join(PICTURES, 'attention.png') });
    },
};
