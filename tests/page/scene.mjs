// The scene: what is seen is what ./run says. Red agrees with the record, bars add up to the score, digits are the answer.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { textOf, unpacked } from '../../page/src/searched.js';
import { PICTURES, ROOT, check, close, open, run, table, tableOf } from './browser.mjs';
import { browser, desk, drawn, page, runShown, text, type, until, url } from './driver.mjs';

// Percent of a head's attention: int8 roundings of activations differ between the page and ./run, and add up over layers.
const ROUNDING = 2.5;
const KEY = '73914',
    NEEDLE = 'The pass key is 73914. Remember it. 73914 is the pass key.',
    read = (name) => JSON.parse(readFileSync(join(ROOT, 'page', name), 'utf8')),
    { none, text: parts } = read('scene.json'),
    recorded = { none, ...read('recorded.json').scene },
    SPEEDS = table('--explain --head-dim 64 --theta 10000 --train-ctx 512 --rope none').map((row) => +row.inv_freq);

const put = async (p, far) => {
    await p.evaluate((far) => rope.state.set('far', far), far);
    await drawn(p);
    await p.waitForTimeout(250); // the commands follow
};
const go = async (p, id) => {
    await p.locator(`#toc a[href="#at=${id}"]`).click();
    await p.waitForFunction((id) => document.querySelector('.scene-body').dataset.chapter === id, id);
    await p.waitForTimeout(300);
};
// Methods are chosen where they are: handles in chapter 4, the others in chapter 5, once the guess is made.
async function choose(p, name) {
    if (name === 'none') return go(p, 'why');
    if (['linear', 'llama3'].includes(name)) {
        await go(p, 'mend');
        await p.locator(`#fix button.chip[value="${name}"]`).click();
        return p.waitForTimeout(800);
    }
    await go(p, 'proof');
    if (await p.locator('#key .grid').first().isHidden()) await p.locator('#key .predict button').first().click();
    return p.evaluate((by) => rope.state.set('by', by), name);
}
const number = (words) => +words.replace('−', '-').replace(/[^\d.-]/g, '');
const back = async (p) => number(await text('.pull-words output', p));
const digits = (p) => p.locator('.scene-body .digits b').evaluateAll((all) => all.map((one) => one.textContent).join(''));
const BARS = '.terms rect:not(.near)',
    squeezed = (words) => words.replace(/\s+/g, ' ').trim();
// The rows of --attn: tokens with their distances, scores and weights, and of those the gold sentence's.
function attended(printed) {
    const rows = tableOf(printed).map((row) => ({ d: +row.distance, score: +row.score, weight: +row.weight, token: row.token ?? '' })),
        whole = rows.map(({ token }) => token).join(''),
        begins = whole.indexOf(NEEDLE);
    let at = 0;
    for (const row of rows) {
        row.isGold = begins >= 0 && at + row.token.length > begins && at < begins + NEEDLE.length; // a window leaves it out
        row.begins = /^\s/.test(row.token);
        at += row.token.length;
    }
    return rows;
}
const sum = (rows) => rows.reduce((all, { weight }) => all + weight, 0);
// The word around a row, its rows.
function wordOf(rows, i) {
    let from = i,
        to = i + 1;
    while (from > 0 && !rows[from].begins) from--;
    while (to < rows.length && !rows[to].begins) to++;
    return rows.slice(from, to);
}
const lettersOf = (word) => word.map(({ token }) => token).join('').replace(/^\W+|\W+$/g, '');
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
        for (const [far, by] of [
            [448, 'none'],
            [2048, 'none'],
            [2048, 'yarn'],
        ]) {
            await choose(page, by);
            await put(page, far);
            const what = `${by} at ${far}`,
                [score, rival] = await totals(page),
                d = await back(page),
                rows = attended(await runShown('scene', 0)),
                its = rows.find((row) => row.d === d);
            check(its.isGold && Math.abs(its.score - score) < 0.15, `${what}: the score is the command's`, [its.score, score]);
            const best = Math.max(...rows.filter((row) => !row.isGold).map((row) => row.score));
            check(Math.abs(best - rival) < 0.15, `${what}: and the best of the others`, [best, rival]);
            const terms = await page.locator(BARS).evaluateAll((all) =>
                all.map((one) => +one.querySelector('title').textContent.match(/[−\d.]+$/)[0].replace('−', '-')),
            );
            const added = terms.reduce((a, b) => a + b, 0);
            check(terms.length === 32 && Math.abs(added - score) < 0.3, `${what}: 32 bars add up to it`, [added, score]);
            // As they are drawn: a bar's height is its number, up or down from the line.
            const off = await page.locator('.terms').evaluate((svg, selector) => {
                const zero = +svg.querySelector('.zero').getAttribute('y1'),
                    bars = [...svg.parentElement.querySelectorAll(selector)].map((one) => ({
                        value: +one.textContent.match(/[−\d.]+$/)[0].replace('−', '-'),
                        y: +one.getAttribute('y'),
                        height: +one.getAttribute('height'),
                    })),
                    unit = Math.max(...bars.map(({ height }) => height)) / Math.max(...bars.map(({ value }) => Math.abs(value)));
                return bars.filter(
                    ({ value, y, height }) =>
                        Math.abs(height - unit * Math.abs(value)) > 0.6 || Math.abs((value > 0 ? y + height : y) - zero) > 0.6,
                );
            }, BARS);
            check(off.length === 0, `${what}: as high as they are`, JSON.stringify(off));
            const outlines = await page.locator('.terms .near').evaluateAll((all) => all.filter((one) => +one.getAttribute('height') > 1).length);
            check(far < 512 ? outlines === 0 : outlines > 16, `${what}: outlines of what they were close by`, outlines);
            const answer = await digits(page),
                said = (await runShown('scene', 1)).split('The pass key is').at(-1);
            check(squeezed(said).startsWith(squeezed(answer.replace('…', ''))), `${what}: the answer is the command's`, [said, answer]);
            check((answer === KEY) === score > rival, `${what}: found where the number's score wins`, [answer, score, rival]);
        }
        await put(page, 0);
    },

    // The ribbon's words, distances and shares are --attn's, at five lengths and by five methods.
    async ribbon() {
        for (const by of ['none', 'linear', 'llama3', 'yarn', 'window'])
            for (const far of [448, 896, 1216, 1664, 2048]) {
                await choose(page, by);
                await put(page, far);
                const what = `${by} at ${far}`,
                    rows = attended(await runShown('scene', 0)),
                    gold = rows.filter((row) => row.isGold),
                    others = rows.map((row, i) => [row.isGold ? -Infinity : row.score, i]),
                    [, at] = others.reduce((a, b) => (b[0] > a[0] ? b : a)),
                    word = wordOf(rows, at),
                    letters = lettersOf(word);
                check(squeezed(await text('.ribbon .gold p')) === NEEDLE, `${what}: the gold sentence`, await text('.ribbon .gold p'));
                const [, d, share] = (await text('.ribbon .gold small')).match(/^([\d,]+) back, (\d+) %$/) ?? [];
                if (gold.length) check(gold.some((row) => row.d === number(d)), `${what}: its distance`, d);
                check(Math.abs(+share - 100 * sum(gold)) < ROUNDING, `${what}: its share`, [share, sum(gold)]);
                const shaded = await page.locator('.ribbon .rival span').evaluateAll((all) =>
                    all.map((one) => [one.textContent, parseFloat(one.style.getPropertyValue('--light'))]),
                );
                const caption = await text('.ribbon .rival small');
                if (sum(word) < 0.012) {
                    check(shaded.every(([, light]) => light === 0) || sum(word) > 0.008, `${what}: nothing else is lit`, [caption, sum(word)]);
                    continue;
                }
                check(caption.startsWith(`“${letters}”`), `${what}: the winner elsewhere`, [caption, letters]);
                const lit = shaded.reduce((a, b) => (b[1] > a[1] ? b : a));
                check(lit[0].replace(/\W/g, '') === letters, `${what}: its word is lit`, shaded);
                // A word is lit as its tokens' weights add up.
                const expected = 100 * Math.min(1, sum(word)) ** 0.6;
                check(Math.abs(lit[1] - expected) < 6, `${what}: as brightly`, [lit[1], expected]);
                const starts = rows.slice(0, at + 1).findLastIndex((_, i) => i === 0 || rows[i - 1].token.trim().endsWith('.')),
                    ends = rows.findIndex((row, i) => i >= at && (row.token.trim().endsWith('.') || i === rows.length - 1)),
                    sentence = squeezed(rows.slice(starts, ends + 1).map((row) => row.token).join(''));
                check(squeezed(shaded.map(([one]) => one).join(' ')) === sentence, `${what}: in its sentence`, [shaded, sentence]);
                const all = rows.flatMap((row, i) => (row.begins && !row.isGold && lettersOf(wordOf(rows, i)) === letters ? wordOf(rows, i) : [])),
                    told = +caption.match(/(\d+) %$/)[1];
                const isEverywhere = /everywhere/.test(caption);
                check(Math.abs(told - 100 * sum(isEverywhere ? all : word)) < ROUNDING, `${what}: its share`, [caption, sum(word), sum(all)]);
                if (!isEverywhere) check(caption.includes(` ${rows[at].d.toLocaleString('en')} back`), `${what}: its distance`, [caption, rows[at].d]);
            }
        await page.evaluate(() => rope.state.set('slow', []));
        await put(page, 0);
    },

    // The heads beside it: their shares are --attn's, and one that is pressed is drawn.
    async heads() {
        await go(page, 'why');
        await put(page, 1472);
        const shares = () => page.locator('#heads .heads button').evaluateAll((all) => all.map((one) => +one.title.match(/(\d+) %/)[1]));
        const before = await shares(),
            [line] = await page.locator('#scene .command code').allTextContents(),
            most = before.indexOf(Math.max(...before));
        check(before.length === 24, 'a square for each head', before.length);
        for (const head of [most, 17]) {
            const name = `${Math.floor(head / 4)}.${head % 4}`,
                done = await runShown('scene', 0); // saves key.txt
            check(done.length > 0, 'its text is saved');
            const rows = attended(run(...line.replace(/^\.\/run /, '').replace(/--attn \S+/, `--attn ${name}`).replace('key.txt', join(desk, 'key.txt')).split(' ')));
            check(Math.abs(before[head] - 100 * sum(rows.filter((row) => row.isGold))) < ROUNDING, `the share of head ${name}`, before[head]);
        }
        await page.locator('#heads .heads button').nth(most).click();
        await page.waitForFunction(
            (share) => document.querySelector('.ribbon .gold small').textContent.endsWith(`, ${share} %`) && !document.querySelector('.ribbon').classList.contains('stale'),
            before[most],
            { timeout: 120000 },
        );
        const [now] = await page.locator('#scene .command code').allTextContents();
        check(now.includes(`--attn ${Math.floor(most / 4)}.${most % 4} `), 'its command is shown', now);
        await go(page, 'turning');
        await page.waitForTimeout(300);
        const [elsewhere] = await page.locator('#scene .command code').allTextContents();
        check(elsewhere.includes('--attn 4.1 '), 'in its chapter alone', elsewhere);
        await go(page, 'why');
        await page.locator('#heads .heads button').nth(most).click();
        await drawn();
        check((await page.evaluate(() => rope.state.get('looker'))) === '', 'and the first one again');
        await put(page, 0);
    },

    // A sentence and a number of the reader's own: asked for close by, lost far away, found by what the page says to do.
    async own_number() {
        const p = await open(browser, url, { more: false });
        await type(p.locator('#own input'), 'nothing to hide');
        await p.locator('#own button', { hasText: 'Hide it' }).click();
        check(/Five digits in a row/.test(await text('#own .status', p)), 'a sentence without a number is refused');
        await type(p.locator('#own input'), 'The number of my house is 40217.');
        await p.locator('#own input').press('Enter');
        await until('#own .status', /^Close by it answers “The number of my house is” with 40217\./, p);
        await put(p, 2048);
        await p.waitForFunction(() => !document.querySelector('.digits').classList.contains('stale') && /1,9\d\d back/.test(document.querySelector('.ribbon .gold small').textContent), undefined, { timeout: 120000 });
        check(squeezed(await text('.ribbon .gold p', p)) === 'The number of my house is 40217.', 'it is the gold sentence');
        check((await text('.ribbon .asks p', p)) === 'The number of my house is', 'and the question is its beginning');
        const lost = await digits(p),
            said = (await runShown('scene', 1, p)).split('The number of my house is').at(-1);
        check(lost !== '40217' && squeezed(said).startsWith(squeezed(lost.replace('…', ''))), 'far away the answer is the command’s', [lost, said]);
        await p.locator('#own button', { hasText: 'Back to 73914' }).click();
        await drawn(p);
        check(squeezed(await text('.ribbon .gold p', p)) === NEEDLE, 'and back');
        check(p.complaints.length === 0, 'no complaint', p.complaints);
        await p.close();
    },

    // The page measures what is recorded: a stop of each method, measured again; and the text is what its parts make.
    async recorded_and_live() {
        for (const [name, lengths] of Object.entries(recorded)) {
            const found = await page.evaluate(
                async (method) => {
                    const wish = { model: 'model', method, length: 896, depth: 0, key: '73914' },
                        { terms, ...rest } = await rope.engine.ask('path', wish).promise;
                    return { ...rest, terms: Array.from(terms) };
                },
                ['none', 'window'].includes(name) ? name : `${name}:factor=4`,
            );
            const its = unpacked(lengths[896]);
            check(found.answer === its.answer && found.d === its.d && found.n === its.n, `${name}: answer and distance`, [found.answer, its.answer]);
            close(found.terms, its.terms, 0.011, `${name}: what each pair gives`);
            close([found.share, found.itsWord, found.everywhere, found.near], [its.share, its.itsWord, its.everywhere, its.near], 1e-3, `${name}: shares`);
            close(found.looks.slice(0, 5).flat(), its.looks.slice(0, 5).flat(), 1e-3, `${name}: where it looks`);
            check(textOf(parts, found.n).join('|') === found.tokens.join('|'), `${name}: the text`);
            if (name !== 'window') check(Math.abs(found.terms.reduce((a, b) => a + b, 0) - found.score) < 1e-3, `${name}: adds up to the score`);
        }
    },

    // A hand is red once it has passed the arc that training showed, and stays so: at every distance, by every method.
    async red() {
        await go(page, 'turning');
        const slow = SPEEDS.map((f) => f * 512 < 2 * Math.PI);
        check(slow.filter(Boolean).length === 16, 'sixteen hands never went round');
        const before = new Set();
        for (const length of [192, 300, 448, 512, 575, 577, 700, 1001, 1500, 2048]) {
            await put(page, length);
            const d = await back(page),
                seen = await page.locator('.scene-body .clocks svg').evaluateAll((all) =>
                    all.map((one) => ({
                        isRed: one.classList.contains('new'),
                        hand: getComputedStyle(one.querySelector('.query')).stroke,
                        turn: (parseFloat(one.querySelector('.query').getAttribute('transform').slice(7)) / 180) * Math.PI,
                    })),
                );
            const wrong = seen.filter(({ isRed }, i) => isRed !== (slow[i] && d * SPEEDS[i] > 512 * SPEEDS[i]));
            check(wrong.length === 0, `${length}: red is past the arc`, wrong.length);
            const off = seen.filter(({ turn }, i) => Math.cos(turn - d * SPEEDS[i]) < 0.999);
            check(off.length === 0, `${length}: hands are where the distance has them`, off.length);
            seen.forEach(({ isRed }, i) => {
                check(isRed || !before.has(i), `${length}: hand ${i} stays red`);
                if (isRed) before.add(i);
            });
            const colours = new Set(seen.filter(({ isRed }) => isRed).map(({ hand }) => hand));
            check(colours.size <= 1 && !colours.has(seen[0].hand), `${length}: red has one colour`, [...colours]);
        }
        await choose(page, 'yarn');
        await put(page, 2048);
        check((await page.locator('.scene-body .clocks .new').count()) === 0, 'no hand of YaRN passes its arc');
        check(/^0 of 32/.test(await text('.hands')), 'and the words say so');
        // What the window does not see has no hands, and nothing of what it makes up is right. It holds in its chapter alone.
        await choose(page, 'window');
        await drawn();
        check((await page.locator('.scene-body .clocks .query:not([hidden])').count()) === 0, 'clocks without hands');
        check((await page.locator('.digits .right').count()) === 0, 'nothing made up is right');
        await go(page, 'why');
        check((await page.locator('.scene-body .clocks .new').count()) === 16, 'in chapter 3 hands are plain again');
        await put(page, 0);
    },

    // Hands turn: the slider moves by tokens, and each token is another picture. A picture takes less than 4 ms of the processor.
    async hands_turn() {
        await go(page, 'why');
        const { angles, spent } = await page.evaluate(async () => {
            const pull = document.getElementById('pull'),
                hand = document.querySelectorAll('.scene-body .clocks .query')[0],
                angles = [],
                spent = [],
                ask = globalThis.requestAnimationFrame;
            globalThis.requestAnimationFrame = (draw) =>
                ask((time) => {
                    const began = performance.now();
                    draw(time);
                    spent.push(performance.now() - began);
                });
            for (let n = 700; n < 760; n++) {
                pull.value = String(n);
                pull.dispatchEvent(new Event('input'));
                await new Promise((next) => ask(() => setTimeout(next)));
                angles.push(hand.getAttribute('transform'));
            }
            globalThis.requestAnimationFrame = ask;
            return { angles, spent: spent.sort((a, b) => a - b) };
        });
        check(new Set(angles).size >= angles.length - 1, 'another hand at each token', new Set(angles).size);
        const middle = spent[Math.floor(spent.length / 2)];
        console.log(`a picture of the scene takes ${middle.toFixed(1)} ms`);
        check(middle < 4, 'a picture takes less than 4 ms', middle);
        await put(page, 0);
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
        await p.waitForFunction(() => document.querySelector('.switch')?.ariaPressed === 'true');
        const seen = await p.evaluate(() => globalThis.seen);
        const all = seen.map(([d]) => d),
            far = all.indexOf(Math.max(...all));
        check(Math.max(...all) === 1978 && all[0] < 1000 && far === all.length - 1, 'it goes to where it breaks', all.join());
        check(all.some((d) => (d + 70) % 64 > 8 && (d + 70) % 64 < 56), 'and between the places that are measured');
        check(all.every((d, i) => i === 0 || d > all[i - 1]), 'without a step back', all.join());
        for (const one of ['73914', 'is yellow']) check(seen.some(([, said]) => said === one), `it answers ${one}`, seen.join(' '));
        check(seen.every(([d, said]) => d > 700 || said === KEY), 'it holds to 1.35 times', seen.join(' '));
        // It ends with the rescue, which came with the first screen.
        const rescued = async () => [await back(p), await digits(p), await p.locator('.scene-body .clocks .new').count(), await text('.told', p)];
        check((await rescued()).join() === '1978,73914,0,Right: it found the number.', 'and with YaRN it is right there', await rescued());
        await p.locator('.switch').focus();
        await p.keyboard.press('Enter');
        await drawn(p);
        check((await digits(p)) === 'is yellow', 'the switch turns it back', await digits(p));
        send();
        await p.locator('#pull').focus();
        await p.keyboard.press('Home');
        await p.keyboard.press('End');
        check((await back(p)) === 1978 && (await digits(p)) === 'is yellow', "then it is the reader's");
        await p.waitForFunction(() => document.querySelector('#panels[data-whole]'), undefined, { timeout: 120000 });
        const shifts = await p.evaluate(() => globalThis.shifts);
        check(shifts < 0.05, 'nothing shifts while it loads', shifts);
        const plan = await p.evaluate(() => {
            const { frequencies, plain, attention } = rope.page.plan('yarn:factor=4', 2048).frequencies(2048);
            return [...Array.from(frequencies, (f, i) => plain[i] / f), attention];
        });
        close(plan, [...read('scene.json').rescue.slow, read('scene.json').rescue.attention], 1e-4, 'the rescue is YaRN’s');
        await p.close();
    },

    // Where the scene stands above the text, on a telephone or at 200 %, it has its place before it is there.
    async nothing_shifts() {
        for (const [width, height] of [
            [390, 844],
            [768, 1024],
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
                for (const part of ['.ribbon', '#pull', '.digits', '.clocks', ...parts])
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
            return [last('.scene-body .clocks svg'), last('.handles circle')];
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
            for (const part of ['.ribbon', '#pull', '.digits']) check(await isSeen(p, `#scene ${part}`), `${id}: ${part} stays`);
            const { top, bottom } = await p.locator('#scene').evaluate((one) => one.getBoundingClientRect().toJSON());
            check(top < 60 && bottom < 844 * 0.5, `${id}: and leaves half of the screen`, [top, bottom]);
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
                touchPoints: type === 'touchEnd' ? [] : [{ x: x + 34 + (width - 40) * k, y: y + 40 }],
            });
        await at('touchStart', 0);
        for (let k = 0.05; k < 1.01; k += 0.05) await at('touchMove', k);
        await at('touchEnd');
        await p.waitForTimeout(200);
        const slow = await p.evaluate(() => rope.methodFor('yours').divisors);
        check(slow.every((s) => s > 2), 'a stroke paints all pairs', slow);
        check(/^pair 31/.test(await board.getAttribute('aria-valuetext')), 'to the last');
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
        check(/^1,978 tokens back: it answers is yellow, 16 of 32 hands are past their arc$/.test(said), 'it says so', said);
        await p.close();
    },

    // At twice the size, and on a telephone's side, slider and digits stay as a strip; in the dark it is dark.
    async strip() {
        for (const [width, height] of [
            [720, 450],
            [844, 390],
            [360, 640],
        ]) {
            const p = await open(browser, url, { ...{ more: false, ready: false, viewport: { width, height } }, colorScheme: 'dark' });
            const wide = await p.evaluate(() => [document.documentElement.scrollWidth, innerWidth, getComputedStyle(document.body).backgroundColor]);
            check(wide[0] <= wide[1], `${width}: nothing is wider than the screen`, wide);
            check(/rgb\(2\d, 2\d, 2\d\)/.test(wide[2]), 'dark is dark', wide);
            for (const id of ['breaks', 'turning', 'why', 'mend', 'proof']) {
                await p.evaluate((id) => document.getElementById(`h-${id}`).scrollIntoView(), id);
                await p.waitForFunction((id) => document.querySelector('.scene-body').dataset.chapter === id, id);
                await p.evaluate(() => scrollBy(0, 250));
                await p.waitForTimeout(200);
                const [strip, pull, digits] = await p.evaluate(() =>
                    ['.stays', '#pull', '.digits'].map((name) => document.querySelector(name).getBoundingClientRect().toJSON()),
                );
                check(strip.top >= 40 && strip.bottom < 120 && strip.height <= 62, `${width}, ${id}: the strip stays`, JSON.stringify(strip));
                check(pull.top >= 40 && pull.bottom < 120 && pull.width > 110, `${width}, ${id}: with the slider`, JSON.stringify(pull));
                check(digits.top >= 40 && digits.bottom < 120 && digits.right <= width, `${width}, ${id}: and the answer`, JSON.stringify(digits));
            }
            await p.screenshot({ path: join(PICTURES, `strip-${width}.png`) });
            await p.close();
        }
    },
};
