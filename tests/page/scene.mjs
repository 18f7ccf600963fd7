// The scene: what is seen is what ./run says. Red agrees with the record, bars add up to the score, digits are the answer.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PICTURES, ROOT, check, close, open, table, tableOf } from './browser.mjs';
import { browser, drawn, page, runShown, text, url } from './driver.mjs';

const KEY = '73914',
    SENTENCE = 28, // tokens of the gold sentence
    recorded = JSON.parse(readFileSync(join(ROOT, 'page/scene.json'), 'utf8')),
    SPEEDS = table('--explain --head-dim 64 --theta 10000 --train-ctx 512 --rope none').map((row) => +row.inv_freq);

const put = async (p, far, by) => {
    await p.evaluate(
        ([far, by]) => {
            rope.state.set('far', far);
            rope.state.set('by', by);
        },
        [far, by],
    );
    await drawn(p);
};
const go = async (p, id) => {
    await p.locator(`#toc a[href="#at=${id}"]`).click();
    await p.waitForFunction((id) => document.querySelector('.scene-body').dataset.chapter === id, id);
    await p.waitForTimeout(300);
};
const number = (words) => +words.replace('−', '-').replace(/[^\d.-]/g, '');
const back = async (p) => number(await text('.pull-words output', p));
const digits = (p) => p.locator('.scene-body .digits b').evaluateAll((all) => all.map((one) => one.textContent).join(''));
const totals = async (p) => (await p.locator('.totals b').allTextContents()).map(number);
// Where pixels of an element are seen: inside the window and inside the scene.
const isSeen = (p, selector) =>
    p.locator(selector).first().evaluate((one) => {
        const { top, bottom, left, right, width, height } = one.getBoundingClientRect(),
            scene = document.getElementById('scene').getBoundingClientRect(),
            end = one.closest('#scene') ? Math.min(innerHeight, scene.bottom) : innerHeight;
        return width > 0 && height > 0 && top >= 0 && bottom <= end + 1 && left >= 0 && right <= innerWidth + 1;
    });

export default {
    // Score, best other score, distance and answer are those of the commands; and the bars add up to the score.
    async bars_and_answer() {
        await go(page, 'why');
        for (const [far, by] of [
            [448, 'none'],
            [2048, 'none'],
            [2048, 'yarn'],
        ]) {
            await put(page, far, by);
            const what = `${by} at ${far}`,
                [score, rival] = await totals(page),
                d = await back(page),
                rows = tableOf(await runShown('scene', 0)).map((row) => ({ d: +row.distance, score: +row.score })),
                at = rows.findIndex((row) => row.d === d),
                others = rows.filter((_, i) => i < at - 4 || i >= at - 4 + SENTENCE);
            check(Math.abs(rows[at].score - score) < 0.15, `${what}: the score is the command's`, [rows[at].score, score]);
            const best = Math.max(...others.map((row) => row.score));
            check(Math.abs(best - rival) < 0.15, `${what}: and the best of the others`, [best, rival]);
            const terms = await page.locator('.terms rect').evaluateAll((all) =>
                all.map((one) => +one.querySelector('title').textContent.match(/[−\d.]+$/)[0].replace('−', '-')),
            );
            const sum = terms.reduce((a, b) => a + b, 0);
            check(terms.length === 32 && Math.abs(sum - score) < 0.3, `${what}: 32 bars add up to it`, [sum, score]);
            // As they are drawn: a bar's height is its number, up or down from the line.
            const off = await page.locator('.terms').evaluate((svg) => {
                const zero = +svg.querySelector('.zero').getAttribute('y1'),
                    bars = [...svg.querySelectorAll('rect')].map((one) => ({
                        value: +one.textContent.match(/[−\d.]+$/)[0].replace('−', '-'),
                        y: +one.getAttribute('y'),
                        height: +one.getAttribute('height'),
                    })),
                    unit = Math.max(...bars.map(({ height }) => height)) / Math.max(...bars.map(({ value }) => Math.abs(value)));
                return bars.filter(
                    ({ value, y, height }) =>
                        Math.abs(height - unit * Math.abs(value)) > 0.6 || Math.abs((value > 0 ? y + height : y) - zero) > 0.6,
                );
            });
            check(off.length === 0, `${what}: as high as they are`, JSON.stringify(off));
            const answer = await digits(page),
                its = (await runShown('scene', 1)).split('The pass key is').at(-1);
            check(its.trim().replace(/\s+/g, ' ').startsWith(answer.trim().replace(/\s+/g, ' ')), `${what}: the answer is the command's`, [its, answer]);
            check((answer === KEY) === score > rival, `${what}: found where the key's score wins`, [answer, score, rival]);
        }
        await put(page, 0, '');
    },

    // The page measures what is recorded: a stop of each method, measured again.
    async recorded_and_live() {
        for (const [name, method] of Object.entries({ none: 'none', yarn: 'yarn:factor=4', window: 'window' })) {
            const found = await page.evaluate(
                async (method) => {
                    const wish = { model: 'model', method, length: 896, depth: 0, key: '73914' },
                        { terms, ...rest } = await rope.engine.ask('path', wish).promise;
                    return { ...rest, terms: Array.from(terms) };
                },
                method,
            );
            const its = recorded[name][896];
            check(found.answer === its.answer && found.d === its.d, `${name}: answer and distance`, [found.answer, its.answer]);
            close(found.terms, its.terms, 0.011, `${name}: what each pair gives`);
            if (name !== 'window') check(Math.abs(found.terms.reduce((a, b) => a + b, 0) - found.score) < 1e-3, `${name}: adds up to the score`);
        }
    },

    // A hand is red once it has passed the arc that training showed, and stays so: at every distance, by every method.
    async red() {
        await go(page, 'turning');
        const slow = SPEEDS.map((f) => f * 512 < 2 * Math.PI);
        check(slow.filter(Boolean).length === 16, 'sixteen hands never went round');
        const before = new Set();
        for (const length of Object.keys(recorded.none).map(Number)) {
            await put(page, length, 'none');
            const d = await back(page),
                seen = await page.locator('.clocks svg').evaluateAll((all) =>
                    all.map((one) => ({
                        isRed: one.classList.contains('new'),
                        hand: getComputedStyle(one.querySelector('.query')).stroke,
                        turn: Math.atan2(+one.querySelector('.query').getAttribute('x2'), -one.querySelector('.query').getAttribute('y2')),
                    })),
                );
            const wrong = seen.filter(({ isRed }, i) => isRed !== (slow[i] && d * SPEEDS[i] > 512 * SPEEDS[i]));
            check(wrong.length === 0, `${length}: red is past the arc`, wrong.length);
            const off = seen.filter(({ turn }, i) => Math.cos(turn - d * SPEEDS[i]) < 0.999);
            check(off.length === 0, `${length}: hands stand where the distance has them`, off.length);
            seen.forEach(({ isRed }, i) => {
                check(isRed || !before.has(i), `${length}: hand ${i} stays red`);
                if (isRed) before.add(i);
            });
            const colours = new Set(seen.filter(({ isRed }) => isRed).map(({ hand }) => hand));
            check(colours.size <= 1 && !colours.has(seen[0].hand), `${length}: red has one colour`, [...colours]);
        }
        await put(page, 2048, 'yarn');
        check((await page.locator('.clocks .new').count()) === 0, 'no hand of YaRN passes its arc');
        check(/^0 of 32/.test(await text('.hands')), 'and the words say so');
        await put(page, 0, '');
    },

    // It drags itself there and back, once, before the program or the model is there; then it is the reader's.
    async drags_itself() {
        const p = await browser.newPage({ viewport: { width: 1280, height: 720 } });
        let send;
        const held = new Promise((resolve) => (send = resolve));
        await p.route(/rope\.wasm|model\.bin/, async (route) => {
            await held;
            await route.continue().catch(() => {});
        });
        await p.addInitScript(() => {
            globalThis.shifts = 0;
            new PerformanceObserver((list) => {
                for (const one of list.getEntries()) if (!one.hadRecentInput) globalThis.shifts += one.value;
            }).observe({ type: 'layout-shift', buffered: true });
        });
        // Whatever it shows is noted in the page: a busy machine asks too late.
        await p.addInitScript(() => {
            const seen = (globalThis.seen = []);
            new MutationObserver(() => {
                const d = +(document.querySelector('.pull-words output')?.textContent.replace(/\D/g, '') ?? 0);
                if (!d || seen.at(-1)?.[0] === d) return;
                seen.push([d, [...document.querySelectorAll('.digits b')].map((one) => one.textContent).join('')]);
            }).observe(document, { subtree: true, childList: true, characterData: true });
        });
        await p.goto(url);
        await p.waitForFunction(() => globalThis.seen.length > 2 && document.querySelector('.pull-words button').textContent === 'Play');
        const seen = await p.evaluate(() => globalThis.seen);
        const all = seen.map(([d]) => d),
            far = all.indexOf(Math.max(...all));
        check(Math.max(...all) === 1978 && all[0] < 1000 && all.at(-1) < 200, 'there and back', all.join());
        check(all.slice(0, far).every((d, i) => i === 0 || d > all[i - 1]), 'there', all.join());
        check(all.slice(far).every((d, i, half) => i === 0 || d < half[i - 1]), 'and back', all.join());
        for (const one of ['73914', 'is  y']) check(seen.some(([, said]) => said === one), `it answers ${one}`, seen.join(' '));
        check(seen.every(([d, said]) => d > 700 || said === KEY), 'it holds to 1.35 times', seen.join(' '));
        send();
        await p.locator('#pull').focus();
        await p.keyboard.press('End');
        check((await back(p)) === 1978 && (await digits(p)) === 'is  y', "then it is the reader's");
        await p.waitForFunction(() => document.querySelector('#panels[data-whole]'), undefined, { timeout: 120000 });
        const shifts = await p.evaluate(() => globalThis.shifts);
        check(shifts < 0.05, 'nothing shifts while it loads', shifts);
        await p.close();
    },

    // Where the scene stands above the text, on a telephone or at 200 %, it has its place before it is there.
    async nothing_shifts() {
        for (const [width, height] of [
            [390, 844],
            [640, 400],
        ]) {
            const p = await browser.newPage({ viewport: { width, height } });
            await p.addInitScript(() => {
                globalThis.shifts = 0;
                new PerformanceObserver((list) => {
                    for (const one of list.getEntries()) globalThis.shifts += one.value;
                }).observe({ type: 'layout-shift', buffered: true });
            });
            // The first script comes late: what is painted before must stay.
            await p.route(/first\.js/, async (route) => {
                await new Promise((next) => setTimeout(next, 400));
                await route.continue();
            });
            await p.goto(url);
            await p.waitForFunction(() => document.querySelector('#panels[data-whole]'), undefined, { timeout: 120000 });
            const shifts = await p.evaluate(() => globalThis.shifts);
            check(shifts < 0.05, `${width}: nothing shifts while it loads`, shifts);
            const [size, wide] = await p.evaluate(() => [
                parseFloat(getComputedStyle(document.querySelector('.digits b')).fontSize),
                document.querySelector('.answer').getBoundingClientRect().right <= innerWidth,
            ]);
            check(size >= 40 && wide, `${width}: digits are 40 pixels, and in the window`, size);
            await p.close();
        }
    },

    // Whole on a laptop's screen, in every chapter; digits are 40 pixels high.
    async sizes() {
        const p = await open(browser, url, { more: false, ready: false, viewport: { width: 1280, height: 720 } });
        for (const [width, height] of [
            [1024, 768],
            [1280, 720],
            [1366, 768],
            [1440, 900],
        ]) {
            await p.setViewportSize({ width, height });
            for (const [id, parts] of Object.entries({
                breaks: [],
                turning: [],
                why: ['.terms', '.totals'],
                mend: ['.terms', '.totals', '.handles', '.rewrite .tail'],
                proof: ['.terms', '.by'],
            })) {
                await go(p, id);
                for (const part of ['.sentence', '#pull', '.digits', '.clocks', ...parts])
                    check(await isSeen(p, `.scene-body ${part}`), `${width}, ${id}: ${part} is seen whole`);
                const wide = await p.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
                check(wide[0] <= wide[1], `${width}, ${id}: nothing is wider than the screen`, wide);
                const [all, seen] = await p.locator('#scene').evaluate((one) => [one.scrollHeight, one.clientHeight]);
                check(all <= seen, `${width}, ${id}: nothing of the scene is cut off`, [all, seen]);
                await p.screenshot({ path: join(PICTURES, `scene-${id}-${width}.png`) });
            }
        }
        const size = await p.locator('.digits b').first().evaluate((one) => parseFloat(getComputedStyle(one).fontSize));
        check(size >= 40, 'digits are 40 pixels', size);
        // Columns of a pair stand one below the other.
        await go(p, 'mend');
        const middles = await p.evaluate(() => {
            const of = (one) => one.getBoundingClientRect().x + one.getBoundingClientRect().width / 2,
                last = (selector) => of([...document.querySelectorAll(selector)].at(-1));
            return [last('.clocks svg'), last('.handles circle')];
        });
        check(Math.abs(middles[0] - middles[1]) < 4, 'a clock stands above its handle', middles);
        await p.close();
    },

    // On a telephone sentence, slider and digits stay; charts follow in their chapters; a stroke of a finger paints.
    async telephone() {
        const p = await open(browser, url, {
            ...{ more: false, viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
        });
        for (const id of ['breaks', 'why', 'mend', 'proof']) {
            await p.evaluate((id) => document.getElementById(id).scrollIntoView(), id);
            await p.waitForFunction((id) => document.querySelector('.scene-body').dataset.chapter === id, id);
            await p.waitForTimeout(300);
            for (const part of ['.sentence', '#pull', '.digits']) check(await isSeen(p, `#scene ${part}`), `${id}: ${part} stays`);
            const { top, bottom } = await p.locator('#scene').evaluate((one) => one.getBoundingClientRect().toJSON());
            check(top < 60 && bottom < 844 * 0.45, `${id}: and leaves more than half of the screen`, [top, bottom]);
            const heading = (await p.locator(`#h-${id}`).boundingBox()).y;
            check(heading >= bottom - 1 && heading < bottom + 100, `${id}: its heading is below`, [heading, bottom]);
            await p.screenshot({ path: join(PICTURES, `phone-${id}.png`) });
        }
        check((await p.locator('#proof .scene-slot .terms').count()) === 1, 'charts stand in the chapter');
        await p.evaluate(() => document.getElementById('mend').scrollIntoView());
        await p.waitForTimeout(400);
        const board = p.locator('#mend .handles');
        await board.evaluate((one) => one.scrollIntoView({ block: 'end' }));
        await p.waitForTimeout(300);
        const { x, y, width } = await board.boundingBox(),
            touch = await p.context().newCDPSession(p);
        const at = (type, k) =>
            touch.send('Input.dispatchTouchEvent', {
                type,
                touchPoints: type === 'touchEnd' ? [] : [{ x: x + 40 + (width - 46) * k, y: y + 40 }],
            });
        await at('touchStart', 0);
        for (let k = 0.05; k < 1.01; k += 0.05) await at('touchMove', k);
        await at('touchEnd');
        await p.waitForTimeout(200);
        const slow = await p.evaluate(() => rope.methodFor('yours').divisors);
        check(slow.slice(0, 16).every((s) => s === 1) && slow.slice(16).every((s) => s > 2), 'a stroke paints from pair 16 on', slow);
        await p.close();
    },

    // By keys: the first slider within five stops, and it says what is red and what is answered.
    async keys() {
        const p = await open(browser, url, { more: false, ready: false });
        await p.evaluate(() => scrollTo(0, 0));
        let stops = 0;
        for (; stops < 6; stops++) {
            if (await p.evaluate(() => document.activeElement.id === 'pull')) break;
            await p.keyboard.press('Tab');
        }
        check(stops <= 5, 'the slider is within five stops', stops);
        await p.keyboard.press('End');
        await drawn(p);
        const said = await p.locator('#pull').getAttribute('aria-valuetext');
        check(/^1,978 tokens back: it answers is {2}y, 16 of 32 hands are past their arc$/.test(said), 'it says so', said);
        await p.close();
    },

    // At twice the size nothing is cut off, and in the dark it is dark.
    async zoom() {
        const p = await open(browser, url, {
            ...{ more: false, ready: false, viewport: { width: 640, height: 400 }, deviceScaleFactor: 2, colorScheme: 'dark' },
        });
        const wide = await p.evaluate(() => [document.documentElement.scrollWidth, innerWidth, getComputedStyle(document.body).backgroundColor]);
        check(wide[0] <= wide[1], 'at 200 % nothing is wider than the screen', wide);
        check(await isSeen(p, '#pull'), 'the slider is on the screen');
        check(/rgb\(2\d, 2\d, 2\d\)/.test(wide[2]), 'dark is dark', wide);
        await p.screenshot({ path: join(PICTURES, 'zoom.png') });
        await p.close();
    },
};
