// The scene beside chapters 2 to 5: one distance moves clocks, score, share and next word, and all are those of ./run.
import { join } from 'node:path';
import { PICTURES, check, open, table, tableOf } from './browser.mjs';
import { browser, page, runShown, text, url } from './driver.mjs';

const KEY = '73914';
const put = (p, far, by) =>
    p.evaluate(
        ([far, by]) => {
            rope.state.set('far', far);
            rope.state.set('by', by);
        },
        [far, by],
    );
const answered = (p) =>
    p.waitForFunction(() => /The model answers/.test(document.querySelector('#scene .told').textContent), undefined, {
        timeout: 120000,
    });
const told = async (p) => {
    const said = await p.locator('#scene .told').textContent();
    return { said, share: +said.match(/([\d.]+) %/)[1], answer: said.match(/“(.*)”/)[1] };
};
const back = async (p) => +(await text('#scene .pull output', p)).replace(/\D/g, '');
const boxes = (p) =>
    p.locator('#scene').evaluate((scene) => {
        const top = scene.getBoundingClientRect().top;
        return ['.sentence', '.dials', '.its-score', '.its-share', '.its-word'].map((name) => {
            const { x, y, width, height } = scene.querySelector(name).getBoundingClientRect();
            return [x, y - top, width, height].map(Math.round).join(' ');
        });
    });
const scales = (p) => p.locator('#scene .chart .tick').allTextContents().then(String);

export default {
    // What is recorded is what ./run says: share, answer, next word; near, far, and far with YaRN.
    async score_share_word() {
        await page.locator('#scene').scrollIntoViewIfNeeded();
        const all = new Set();
        for (const [far, by, isFound] of [
            [448, 'none', true],
            [2048, 'none', false],
            [2048, 'yarn', true],
        ]) {
            await put(page, far, by);
            await page.waitForTimeout(80);
            await answered(page);
            const { said, share, answer } = await told(page);
            check((answer === KEY) === isFound, `${by} at ${far}: ${isFound ? 'found' : 'not found'}`, said);
            check(isFound ? share > 80 : share < 10, `${by} at ${far}: share and answer go together`, said);
            const rows = tableOf(await runShown('scene', 0)),
                at = rows.length - 1 - (await back(page)),
                onKey = rows.slice(at, at + 30).reduce((sum, row) => sum + 100 * row.weight, 0);
            check(Math.abs(onKey - share) < 4, `${by} at ${far}: the share is that of the command`, [onKey, share]);
            const its = (await runShown('scene', 1)).split('The pass key is').at(-1).trim();
            check(its.startsWith(answer), `${by} at ${far}: so is the answer`, its);
            const widths = await page
                .locator('#scene .chances i')
                .evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().width));
            check(widths.length === 5 && widths[0] > 40, `${by} at ${far}: bars have a size`, widths);
            all.add(await scales(page));
        }
        check(all.size === 1, 'axes stay', [...all].join(' / '));
    },

    // What is drawn was measured by this very page: a stop of each method, measured again.
    async recorded_and_live() {
        for (const [length, method, by] of [
            [1024, 'none', 'none'],
            [1024, 'yarn:factor=4', 'yarn'],
        ]) {
            const found = await page.evaluate(
                async ([length, method]) => {
                    const wish = { model: 'model', method, length, depth: 0, key: '73914' };
                    const { n, from, share, answer, words } = await rope.engine.ask('path', wish).promise;
                    return { n, from, share, answer, first: words[0] };
                },
                [length, method],
            );
            await put(page, length, by);
            await page.waitForTimeout(80);
            const { share, answer } = await told(page);
            check(found.answer === answer, `${by}: the recorded answer is the measured one`, [found.answer, answer]);
            check(Math.abs(100 * found.share - share) < 1, `${by}: and the share`, [found.share, share]);
            check((await back(page)) === found.n - found.from, `${by}: and the distance`, [found.n, found.from]);
            const [word, p] = await page
                .locator('#scene .chances > div')
                .first()
                .evaluate((row) => [row.querySelector('b').textContent, row.querySelector('small').textContent]);
            check(word === found.first.text, `${by}: and the next word`, [word, found.first.text]);
            check(Math.abs(+p - 100 * found.first.p) < 1, `${by}: and its probability`, [p, found.first.p]);
        }
    },

    // The clocks stand where the distance has them.
    async clocks() {
        await put(page, 2048, 'none');
        await page.waitForTimeout(80);
        const d = await back(page),
            speeds = table('--explain --head-dim 64 --theta 10000 --train-ctx 512 --rope none').map((row) => +row.inv_freq);
        const turned = await page
            .locator('#scene .dial .query')
            .evaluateAll((all) => all.map((hand) => Math.atan2(+hand.getAttribute('x2'), -hand.getAttribute('y2'))));
        for (const [k, pair] of [0, 10, 18, 31].entries()) {
            const off = Math.cos(turned[k] - d * speeds[pair]);
            check(off > 0.9999, `the hand of pair ${pair}`, [turned[k], d * speeds[pair]]);
        }
        const red = await page.locator('#scene .dial.new').count();
        check(red >= 1, 'slow ones are where they never stood', red);
        check((await page.locator('#scene .dial .key').first().getAttribute('y2')) < 0, 'the gold hand is drawn');
        await put(page, 0, '');
    },

    // One scene stays beside the chapters while the reader reads on; each adds a picture, and none moves.
    async stays() {
        const p = await open(browser, url, { more: false, viewport: { width: 1440, height: 900 } }),
            seen = [];
        for (const id of ['turning', 'why', 'mend', 'proof']) {
            await p.locator(`#toc a[href="#at=${id}"]`).click();
            await p.waitForFunction((id) => document.querySelector('.scene-body').dataset.chapter === id, id);
            await p.waitForTimeout(600);
            const [box, visible] = await p.locator('#scene').evaluate((one) => {
                const { top, bottom, left } = one.getBoundingClientRect(),
                    isSeen = (name) => getComputedStyle(one.querySelector(name)).visibility === 'visible';
                return [[top, bottom, left], ['.dials', '.its-score', '.its-share', '.its-word', '.by'].filter(isSeen)];
            });
            check(box[0] > 20 && box[0] < 130 && box[1] <= 900, `${id}: the scene is on the screen, whole`, box);
            seen.push({ id, visible, boxes: (await boxes(p)).join(' / '), ticks: await scales(p) });
            await p.screenshot({ path: join(PICTURES, `scene-${id}.png`) });
        }
        const many = seen.map(({ visible }) => visible.length);
        check(many.join() === '2,4,5,5', 'a chapter adds pictures', JSON.stringify(seen.map((one) => one.visible)));
        check(new Set(seen.map((one) => one.boxes)).size === 1, 'pictures keep their place', seen.map((one) => one.boxes));
        check(new Set(seen.map((one) => one.ticks)).size === 1, 'and their axes', seen.map((one) => one.ticks));
        // Each begins with what it is about.
        check((await told(p)).answer === KEY && (await p.locator('.by [value=yarn]').getAttribute('aria-pressed')) === 'true', 'the proof begins with YaRN, which finds it');
        await p.locator('#toc a[href="#at=why"]').click();
        await p.waitForFunction(() => /not found/.test(document.querySelector('#scene .told').innerText));
        check((await text('#scene .sentence .wrong', p)).length > 0, 'why it breaks begins with a wrong word');
        // Handles that are moved are heard.
        await p.locator('#toc a[href="#at=mend"]').click();
        await p.locator('#fix button.chip', { hasText: /^yarn$/ }).click();
        await p.waitForFunction(() => /: found/.test(document.querySelector('#scene .told').innerText), undefined, { timeout: 120000 });
        check((await p.locator('.by [value=yours]').getAttribute('aria-pressed')) === 'true', 'handles find the key');
        check(p.complaints.length === 0, 'no complaint', p.complaints);
        await p.close();
    },

    // It plays, stop by stop, where motion is wanted, and on a telephone it stays, too.
    async film() {
        const p = await open(browser, url, { more: false, ready: false, viewport: { width: 390, height: 844 } });
        await p.locator('#toc a[href="#at=why"]').click();
        await p.waitForTimeout(300);
        const { top, bottom } = await p.locator('#scene').evaluate((one) => one.getBoundingClientRect().toJSON());
        check(top < 60 && bottom < 844 * 0.4, 'on a telephone it stays above the text', [top, bottom]);
        await p.screenshot({ path: join(PICTURES, 'scene-phone.png') });
        await p.locator('#scene button', { hasText: 'Play' }).click();
        const first = await back(p);
        await p.waitForFunction((n) => +document.querySelector('#scene .pull output').innerText.replace(/\D/g, '') > n + 200, first);
        await p.locator('#scene button', { hasText: 'Stop' }).click();
        check((await p.locator('#scene button', { hasText: 'Play' }).count()) === 1, 'it plays, and can be stopped');
        await p.close();
    },

    // On telephones it takes a part of the screen, shows all it has, and covers nothing that one goes to.
    async on_telephones() {
        const p = await open(browser, url, { more: false, ready: false, viewport: { width: 390, height: 844 } });
        for (const [width, height, most] of [
            [390, 844, 0.34],
            [320, 640, 0.44],
        ]) {
            await p.setViewportSize({ width, height });
            for (const id of ['turning', 'why', 'mend', 'proof']) {
                await p.locator(`#toc a[href="#at=${id}"]`).click();
                await p.waitForFunction((id) => document.querySelector('.scene-body').dataset.chapter === id, id);
                await p.waitForTimeout(150);
                const heading = (await p.locator(`#h-${id}`).boundingBox()).y,
                    { bottom, tall } = await p.locator('#scene').evaluate((one) => ({ bottom: one.getBoundingClientRect().bottom, tall: one.offsetHeight }));
                check(heading >= bottom && heading < bottom + 90, `${width}, ${id}: its heading is below the scene`, [heading, bottom]);
                check(tall < most * height, `${width}, ${id}: the scene leaves room`, tall);
            }
            const wrong = await p.evaluate(() => {
                const box = (name) => document.querySelector(`#scene ${name}`).getBoundingClientRect(),
                    rows = ['.pull', '.dials', '.its-score', '.told', '.by'].map(box),
                    found = rows.slice(1).filter((row, i) => row.top < rows[i].bottom - 1).map((row) => `a row at ${row.top} is covered`);
                for (const one of document.querySelectorAll('#scene :is(span, output, button, p, text)')) {
                    const { left, right, width } = one.getBoundingClientRect(),
                        isNarrow = one instanceof HTMLElement && one.clientWidth && one.scrollWidth > one.clientWidth + 1;
                    if (width && (left < -1 || right > innerWidth + 1 || isNarrow))
                        found.push(`${one.textContent.slice(0, 20)} is cut`);
                }
                return found;
            });
            check(wrong.length === 0, `${width}: nothing of it is covered or cut`, wrong);
            // What is reached by keys comes below it, as far as it fits there.
            for (const selector of ['#fix .handles', '#hand .chart svg', '#key .needle']) {
                await p.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
                const [top, bottom] = await p.locator(selector).first().evaluate((one) => {
                    one.focus();
                    return [one.getBoundingClientRect().top, document.getElementById('scene').getBoundingClientRect().bottom];
                });
                check(top >= bottom - 1 && top < height, `${width}: the scene does not cover ${selector}`, [top, bottom]);
            }
        }
        // At 200 % of 1440 by 900 there is no room above the text: it stands in its place, and chapters at the top.
        await p.setViewportSize({ width: 720, height: 450 });
        for (const [i, id] of ['turning', 'why', 'mend', 'proof'].entries()) {
            await p.locator(`#toc a[href="#at=${id}"]`).click();
            await p.waitForTimeout(150);
            const heading = (await p.locator(`#h-${id}`).boundingBox()).y,
                now = await p.locator('#toc a[aria-current] b').innerText();
            check(heading > 44 && heading < 180 && now === String(i + 2), `200 %, ${id}: the contents go there, and say so`, [heading, now]);
        }
        await p.close();
    },
};
