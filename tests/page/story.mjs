// The story: the text that breaks, the chapters, what RoPE is, where a head looks, terms, cards of methods, and links.
import { readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PICTURES, ROOT, check, close, open, table } from './browser.mjs';
import { BOOK, browser, drawn, lookAt, page, runShown, text, url, wish } from './driver.mjs';

const recorded = JSON.parse(readFileSync(join(ROOT, 'page/recorded.json'), 'utf8'));
const CHAPTERS = ['breaks', 'turning', 'why', 'mend', 'proof', 'yours'];
const squeezed = (words) => words.replace(/\s+/g, ' ').trim();

export default {
    // The text that breaks is what ./run writes, by the commands that the page shows; its perplexity is a window's.
    async the_text() {
        const { first } = recorded,
            shown = await page.locator('.opening p').allTextContents(),
            numbers = (await page.locator('.opening .at b').allInnerTexts()).map(Number),
            begun = squeezed(BOOK.slice(0, first.characters));
        check(shown.length === 2 && numbers.length === 2, 'two texts, a perplexity each', [shown.length, numbers]);
        const { done } = await wish(page, 'count', { text: BOOK.slice(0, first.characters) });
        check(done.n === 512, 'what is given is as long as training was', done.n);
        for (const [i, name] of ['none', 'yarn'].entries()) {
            const said = await runShown('text', i),
                part = squeezed(shown[i].replaceAll('…', ''));
            check(squeezed(said).startsWith(begun), `${name} goes on from there`, said.slice(0, 80));
            check(part.length > 60 && squeezed(said).includes(part), `the excerpt of ${name} is the command's`, part);
            const file = join(tmpdir(), `rope-first-${process.pid}.txt`);
            writeFileSync(file, said.trimEnd());
            const per = ['--per-token', '--kv', 'f32', '--rope', 'window'],
                nlls = table('model.bin', '--ppl', file, '-n', String(first.length - 50), ...per).map((row) => +row.nll);
            const [from, to] = first.excerpt;
            close(
                first[name].tokens.map(([, nll]) => nll),
                nlls.slice(from - 1, to - 1),
                0.051,
                `the surprise of ${name} is a window's`,
            );
            const judged = nlls.slice(first.stretch[0] - 1, first.stretch[1] - 1),
                ppl = Math.exp(judged.reduce((a, b) => a + b) / judged.length);
            check(Math.abs(first[name].ppl - ppl) < 0.051, `${name}: its perplexity`, ppl);
            check(Math.abs(numbers[i] - ppl) < (ppl < 10 ? 0.11 : 0.56), `${name}: it is shown`, numbers[i]);
        }
        check(first.none.ppl > 2 * first.yarn.ppl, 'plain is worse than YaRN', [first.none.ppl, first.yarn.ppl]);
        const words = await page.locator('#text').innerText();
        check(/rounds otherwise/.test(words), 'a terminal writes other words, it says', words);
    },

    // What it is stands in the first line; how models ship with YaRN at the end of chapter 5.
    async says_what_it_is() {
        const p = await lookAt({ more: false, viewport: { width: 1280, height: 720 } });
        const { y, words } = await p.locator('.what').evaluate((one) => ({ y: one.getBoundingClientRect().bottom, words: one.innerText }));
        check(y < 200 && ['RoPE', 'YaRN', 'context length'].every((word) => words.includes(word)), 'RoPE, YaRN, context length', words);
        const on = await p.locator('#proof .on').innerText();
        check(/usually trained on with it/.test(on) && /Many of today/.test(on) && !/Most of/.test(on), 'trained on with it', on);
    },

    async chapters() {
        const p = await open(browser, url, { more: false, viewport: { width: 1440, height: 900 } });
        const ids = await p.locator('section.chapter').evaluateAll((all) => all.map((one) => one.id));
        check(ids.join() === CHAPTERS.join(), 'six chapters', ids);
        const { height, words } = await p.evaluate(() => ({
            height: document.documentElement.scrollHeight,
            words: document.body.innerText.split(/\s+/).length,
        }));
        console.log(`the page is ${height} pixels high and has ${words} words`);
        check(height <= 9000, 'at most 9,000 pixels', [height, words]);
        check(/rotary position embedding/i.test(await p.locator('#arrows').innerText()), 'RoPE is spelled out');
        const current = () => p.locator('#toc a[aria-current]').innerText();
        for (const id of ['why', 'yours']) {
            await p.locator(`#toc a[href="#at=${id}"]`).click();
            await p.waitForTimeout(150);
            const top = await p.locator(`#${id}`).evaluate((one) => one.getBoundingClientRect().top);
            const isEnd = await p.evaluate(() => scrollY + innerHeight >= document.documentElement.scrollHeight - 2);
            check(top > 0 && (top < 120 || isEnd), `${id}: the contents go there`, top);
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
        const chips = '#race .chips[aria-label^=methods] .chip',
            names = await page.locator(chips).evaluateAll((all) => all.map((one) => one.value));
        check(names.length === 7 && names.includes('yarn') && names.includes('yours'), 'seven methods', names);
        for (const name of names) {
            await page.locator(`${chips}[value="${name}"]`).evaluate((one) => one.click());
            const card = page.locator('#race .method-card');
            if (name === 'yours') {
                check((await card.count()) === 0, `${name} is the reader's own`);
                continue;
            }
            check(!/→|D =/.test(await card.innerText()), `${name} is told in words first`, await card.innerText());
            await card.locator('summary').click();
            check(/→|D =/.test(await card.innerText()), `${name} has its formula`, await card.innerText());
            if (name === 'window') continue;
            const [first, ...lines] = (await card.locator('pre').textContent()).split('\n'),
                made = first.match(/^\/\/ (\w+)\(\) in rope\.c$/)?.[1],
                code = lines.join('\n');
            check(source.includes(code) && code.includes(`${made}(`), `${name} has its lines of rope.c`, code);
            check((await card.locator('a').count()) === 1, `${name} has its paper`);
        }
        await page.evaluate(() => rope.state.set('race', ['none', 'yarn', 'window']));
    },

    // A heading is called by its words, without those of the button that stands in it.
    async names_of_headings() {
        for (const [id, name] of [
            ['breaks', 'It breaks'],
            ['turns', 'Count the turns'],
        ]) {
            const heading = page.locator(`#h-${id}`),
                label = await heading.getAttribute('aria-label');
            const shown = (await heading.innerText()).replace(/^\d\s*|\s*#$/g, '');
            check(label === shown && (!name || label === name), `the name of ${id}`, `${label} / ${shown}`);
        }
    },

    // One button takes back all that a reader changed.
    async start_again() {
        const p = await open(browser, `${url}#at=arrows&m=7`);
        check((await p.evaluate(() => rope.state.get('m'))) === 7, 'something is changed');
        await p.locator('footer button', { hasText: 'Start again' }).click();
        await p.waitForFunction(
            () =>
                globalThis.rope?.state.get('m') !== 7 && /Ready/.test(document.getElementById('boot').textContent),
        );
        const left = await p.evaluate(() => [
            location.hash,
            document.querySelectorAll('details[open]').length,
            scrollY,
        ]);
        check(left.join() === ',0,0', 'nothing of it is left', left);
        await p.close();
    },

    async arrows() {
        const plus = (words) => words.replaceAll('−', '-');
        const product = async () =>
            +plus(await text('#arrows figure:nth-child(2) .readout')).match(/-?[\d.]+$/)[0];
        const put = (m, k) =>
            page.evaluate(
                ([m, k]) => {
                    rope.state.set('m', m);
                    rope.state.set('k', k);
                },
                [m, k],
            );
        for (const [m, k] of [
            [9, 3],
            [14, 0],
            [5, 5],
        ]) {
            await put(m, k);
            await drawn();
            check(Math.abs((await product()) - Math.cos((m - k) * 0.42)) < 0.006, `the product at ${m} and ${k}`);
        }
        await put(9, 3);
        await drawn();
        const turned = () => page.locator('#arrows figure:nth-child(2) .arrow.query').getAttribute('transform');
        const [before, was] = [await product(), await turned()];
        await page.locator('#arrows button[aria-label="both one on"]').click();
        await drawn();
        check((await product()) === before && (await turned()) !== was, 'both turn, the product stays');
        await page.locator('#arrows .words button', { hasText: 'Remember' }).click();
        await drawn();
        check(/“Remember” is at 5/.test(await text('#arrows')), 'a word is where the query is');
        await page.locator('#arrows .part.theta').click();
        check(/10,000/.test(await text('#arrows .means')), 'a part of the formula says what it means');
        check((await page.locator('#arrows .pictures').getAttribute('data-lit')) === 'theta', 'and lights up');
        await page.locator('#arrows').screenshot({ path: join(PICTURES, 'arrows.png') });
    },
};
