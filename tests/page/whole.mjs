// The page as a whole: what it refuses, its address, and its looks.
import { join } from 'node:path';
import { PAGE, PICTURES, check, close, open, table } from './browser.mjs';
import { BOOK, browser, lookAt, page, until, url, wish } from './driver.mjs';

async function asWideAsTheScreen(p, name) {
    const wide = await p.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    check(wide[0] <= wide[1], `${name}: nothing is wider than the screen`, wide);
}

export default {
    // What cannot be had is said, and the program goes on.
    async refusals() {
        const refused = (name, data) =>
            page.evaluate(
                ([name, data]) =>
                    rope.engine.ask(name, { model: 'model', ...data }).promise.then(
                        () => 'it went well',
                        (e) => e.message,
                    ),
                [name, data],
            );
        const huge = { method: 'none', prompt: 'a', context: 5e8, temperature: 1, topP: 0.9, seed: 1 },
            answer = await refused('write', huge);
        check(/memory/.test(answer), 'memory that cannot be had', answer);
        check(
            /no method/.test(
                await refused('nll', {
                    method: 'yam',
                    text: 'a b c d e',
                    context: 100,
                }),
            ),
            'no such method',
        );
        check(/short/.test(await refused('nll', { method: 'none', text: '', context: 100 })), 'an empty text');
        check(
            /factor/.test(
                await refused('nll', {
                    method: 'yarn:factor=-3',
                    text: 'a b c',
                    context: 100,
                }),
            ),
            'a factor below 0',
        );
        check(/started again/.test(await refused('nonsense', {})), 'what stops the worker is said');
        const { nll } = await wish(page, 'nll', {
            method: 'none',
            text: BOOK,
            context: 70,
        });
        check(nll.length === 69, 'and there is a new worker', nll.length);
        // Three texts at once have a worker each, and are what they are one after the other.
        const written = await page.evaluate(async () => {
            const write = async (seed) => {
                let text = '';
                const how = {
                    model: 'model',
                    method: 'none',
                    prompt: 'It was',
                    context: 200,
                    temperature: 0.8,
                    topP: 0.9,
                    seed,
                };
                await rope.engine.ask('write', how, (part) => (text += (part.texts ?? []).join('')))
                    .promise;
                return text;
            };
            const seeds = [1, 2, 3],
                together = await Promise.all(seeds.map(write)),
                apart = [];
            for (const seed of seeds) apart.push(await write(seed));
            return { together, apart, workers: 1 + rope.engine.mates.length, wishes: rope.engine.wishes };
        });
        check(written.workers === 3 && written.wishes === 0, 'a worker for each of three texts', [
            written.workers,
            written.wishes,
        ]);
        check(
            new Set(written.together).size === 3 && written.together.join() === written.apart.join(),
            'the same texts',
            written,
        );
        const both = await page.evaluate(async () => {
            const ask = () =>
                rope.engine.ask('nll', {
                    model: 'model',
                    method: 'yarn',
                    text: 'one two three '.repeat(400),
                    context: 900,
                });
            const jobs = Array.from({ length: 12 }, ask);
            for (const job of jobs.slice(0, 11)) job.cancel();
            const ends = await Promise.allSettled(jobs.map((job) => job.promise));
            return ends.map((e) => e.status);
        });
        check(
            both.filter((s) => s === 'rejected').length === 11 && both[11] === 'fulfilled',
            'eleven changes of mind',
            both,
        );
    },

    async address() {
        const p = await open(browser, `${url}#n=abc&race=yarn,window&m=7&far=1024`, { ready: false });
        check(
            /n=abc in the address is not a whole number/.test(await p.locator('#boot').innerText()),
            'a bad address is said',
        );
        check((await p.locator('#race .chip[aria-pressed=true]').count()) >= 2, 'the race is as the address says');
        check(/is at 7/.test(await p.locator('#arrows').innerText()), 'the query is where the address says');
        check(/^954 tokens back/.test(await p.locator('.pull-words output').innerText()), 'the scene is as the address says');
        await p.close();
    },

    async background_tab() {
        const p = await open(browser, `${url}#n=1024&race=yarn`);
        const other = await browser.newPage();
        await p.evaluate(() => {
            globalThis.frames0 = requestAnimationFrame;
            globalThis.requestAnimationFrame = () => 0;
        });
        await p.locator('#race button.primary').evaluate((b) => b.click());
        await other.bringToFront();
        await p.waitForFunction(
            () => /tokens\/s/.test(document.querySelector('#race .status').textContent),
            undefined,
            { polling: 200 },
        );
        check(true, 'a race ends in the background');
        await other.close();
        await p.close();
    },

    async one_file() {
        const p = await open(browser, `file://${join(PAGE, 'rope.html')}`);
        const { nll } = await wish(p, 'nll', {
            method: 'yarn',
            text: BOOK,
            context: 200,
        });
        const rows = table(
            'model.bin',
            '--ppl',
            'book.txt',
            '-n',
            '200',
            '--per-token',
            '--kv',
            'f32',
            '--rope',
            'yarn',
        );
        close(
            nll,
            rows.map((r) => +r.nll),
            1e-3,
            'rope.html from disk reads as ./run',
        );
        check(p.complaints.length === 0, 'rope.html: no complaint', p.complaints);
        check(p.asked.filter((u) => !/^(blob|data):/.test(u)).length === 1, 'rope.html asks for nothing', p.asked);
        await p.close();
    },

    // Every value in the address is checked. What is no value is said, and all panels stand.
    async bad_addresses() {
        const all = {
            ...{ far: '-3', by: 'foo', m: '99', k: 'x', looks: '9', row: '99', head: '9', theta: '', trained: '1e99' },
            ...{ slow: '1,2', temper: '9', map: 'foo', 'length-of-map': '0', race: 'foo,yarn', n: 'NaN', view: 'foo' },
            ...{ want: '1', other: 'foo', looker: 'x'.repeat(9), own: 'x'.repeat(200) },
        };
        const standing = await page.locator('#panels section').count();
        const one = await open(browser, `${url}#${new URLSearchParams(all)}`, { ready: false });
        check((await one.locator('#panels section').count()) === standing, 'all panels stand', standing);
        check(
            (await one.locator('.failed:visible').count()) === 0,
            'none fails',
            await one.locator('.failed:visible').allInnerTexts(),
        );
        check(/in the address is not/.test(await one.locator('#boot').innerText()), 'what is wrong is said');
        const values = await one.evaluate((keys) => keys.map((key) => String(rope.state.get(key))), Object.keys(all));
        check(
            values.every((v, i) => v !== Object.values(all)[i]),
            'and nothing of it is taken',
            values,
        );
        await one.evaluate(() => (location.hash = 'by=bar&head=11&far=x&map=y'));
        await one.waitForTimeout(300);
        check(one.complaints.length === 0, 'nor in an open tab', one.complaints);
        check((await one.evaluate(() => rope.state.get('by'))) === '', 'the first value stands');
        await one.close();
    },

    // A panel that fails says so in its place, and harms no other.
    async a_panel_fails() {
        const broken = await browser.newPage();
        await broken.addInitScript(() => {
            HTMLCanvasElement.prototype.getContext = () => null;
        });
        await broken.goto(`${url}#n=1024`);
        await broken.waitForFunction(() => document.querySelectorAll('.failed:not([hidden])').length > 0);
        await broken.evaluate(() => document.querySelectorAll('details').forEach((d) => (d.open = true)));
        const where = await broken
            .locator('.failed:visible')
            .evaluateAll((all) => all.map((p) => p.closest('section').id));
        check(where.includes('maps') && !where.includes('race'), 'those that cannot draw say so', where);
        check(
            /This panel failed: .*The others go on/.test(await broken.locator('#maps .failed').innerText()),
            'in words',
        );
        // They are built one at a time.
        const panels = await page.locator('#panels section').count();
        await broken
            .waitForFunction((n) => document.querySelectorAll('#panels section').length === n, panels)
            .catch(() => {});
        check(
            (await broken.locator('#panels section').count()) === panels,
            'all stand',
        );
        await broken.waitForFunction(() => /Ready/.test(document.getElementById('boot').textContent));
        await broken.locator('#race button.primary').first().click();
        await until('#race .status', /tokens\/s/, broken);
        check(true, 'and another panel works');
        await broken.close();
    },

    // Sliders have limits and a value, titles of charts lie beside their ticks, and what is drawn is legible and printed.
    async marks() {
        const sliders = await page
            .locator('[role=slider]')
            .evaluateAll((all) =>
                all.map((s) => [
                    s.getAttribute('aria-label'),
                    ...['min', 'max', 'now'].map((k) => s.getAttribute(`aria-value${k}`)),
                ]),
            );
        check(
            sliders.length > 0 &&
                sliders.every(([, low, high, now]) => low !== null && +low < +high && +now >= +low && +now <= +high),
            'every slider has its limits and a value between',
            JSON.stringify(sliders),
        );
        for (const [name, options] of [
            ['wide', {}],
            ['phone', { viewport: { width: 390, height: 800 } }],
        ]) {
            const p = await lookAt(options),
                wrong = await p.evaluate(() => {
                const found = [];
                const meet = (a, b) =>
                    a.left < b.right && b.left < a.right && a.top < b.bottom - 1 && b.top < a.bottom - 1;
                for (const svg of document.querySelectorAll('.chart svg')) {
                    const box = (e) => e.getBoundingClientRect(),
                        ticks = [...svg.querySelectorAll('.tick text')].filter((t) => box(t).width);
                    const texts = [...ticks, ...svg.querySelectorAll('.axis-label')];
                    texts.forEach((t, i) => {
                        for (const other of texts.slice(i + 1))
                            if (meet(box(t), box(other)))
                                found.push(`${svg.closest('section').id}: ${t.textContent} and ${other.textContent}`);
                        if (box(t).right > innerWidth)
                            found.push(`${svg.closest('section').id}: ${t.textContent} is cut`);
                    });
                }
                return found;
            });
            check(wrong.length === 0, `${name}: titles and ticks lie apart`, wrong);
        }
        const dark = await lookAt({ colorScheme: 'dark' }),
            contrast = await dark.evaluate(() => {
            const probe = document.querySelector('.opening p').appendChild(document.createElement('span'));
            const rgb = (c) => c.match(/[\d.]+/g).map(Number);
            const paper = rgb(getComputedStyle(document.body).backgroundColor);
            const light = (c) =>
                c
                    .slice(0, 3)
                    .map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4))
                    .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
            return [2, 5].map((t) => {
                probe.className = `t${t}`;
                const { backgroundColor, color } = getComputedStyle(probe),
                    [r, g, b, alpha = 1] = rgb(backgroundColor);
                const [x, y] = [
                    light([r, g, b].map((v, i) => alpha * v + (1 - alpha) * paper[i])),
                    light(rgb(color)),
                ].sort((p, q) => q - p);
                return (x + 0.05) / (y + 0.05);
            });
        });
        check(
            contrast.every((c) => c >= 4.5),
            'tinted text is legible in the dark',
            contrast,
        );
        await dark.emulateMedia({ media: 'print' });
        const printed = await dark.evaluate(() =>
            ['.swatch', '.grid td', '.tints i', '.chip i', '.clocks svg'].map(
                (s) => getComputedStyle(document.querySelector(s)).printColorAdjust,
            ),
        );
        check(
            printed.every((p) => p === 'exact'),
            'marks are printed in their colours',
            printed,
        );
    },

    // Ticks of the grid, the formula and words beside the line at 512 can be read: 4.5 to 1, light and dark.
    async contrast() {
        for (const colorScheme of ['light', 'dark']) {
            const p = await lookAt({ colorScheme }),
                found = await p.evaluate(() => {
                const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
                const rgb = (colours) => {
                    canvas.clearRect(0, 0, 1, 1);
                    for (const colour of colours) {
                        canvas.fillStyle = colour;
                        canvas.fillRect(0, 0, 1, 1);
                    }
                    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
                };
                const light = (c) =>
                    c
                        .map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4))
                        .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
                const paper = getComputedStyle(document.body).backgroundColor;
                return [
                    '.grid td.yes',
                    '.grid td.no',
                    '.formula .n',
                    '.formula sub',
                    '.rule text',
                ].map((selector) => {
                    const one = document.querySelector(selector),
                        { color, fill, backgroundColor } = getComputedStyle(one),
                        ink = light(rgb([one instanceof SVGElement ? fill : color])),
                        ground = light(rgb([paper, backgroundColor]));
                    const opacity = +getComputedStyle(one).opacity;
                    return [
                        selector,
                        opacity === 1 ? (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05) : 0,
                    ];
                });
            });
            for (const [selector, ratio] of found) check(ratio >= 4.5, `${colorScheme}: ${selector} is legible`, ratio);
        }
    },

    // A legend has the colours that are drawn.
    async legends() {
        const wrong = await page.evaluate(() => {
            const found = [];
            for (const legend of document.querySelectorAll('.legend')) {
                const section = legend.closest('section'),
                    drawn = new Set(
                        [...section.querySelectorAll('.chart path.live, .chart path.ghost')].map((p) => p.style.stroke),
                    );
                const colours = [...legend.querySelectorAll('.swatch')].map(
                    (s) => s.getAttribute('style').match(/var\(--\w+\)/)[0],
                );
                for (const c of drawn) if (!colours.includes(c)) found.push(`${section.id} draws ${c}`);
            }
            return found;
        });
        check(wrong.length === 0, 'legends have the colours that are drawn', wrong);
    },

    // A phone, the dark, twice as large, and whether everything can be reached and has a name.
    async looks() {
        for (const [name, options] of [
            ['phone', { viewport: { width: 360, height: 740 } }],
            ['small-phone', { viewport: { width: 320, height: 640 } }],
            ['dark', { colorScheme: 'dark' }],
            ['zoomed', { viewport: { width: 720, height: 450 } }], // 1440 by 900 at 200 %
        ]) {
            const p = await lookAt(options);
            await asWideAsTheScreen(p, name);
            await p.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });
        }
        const p = await open(browser, url, { viewport: { width: 360, height: 740 }, colorScheme: 'dark' });
        await asWideAsTheScreen(p, 'phone-dark');
        await p.waitForTimeout(300);
        await p.screenshot({ path: join(PICTURES, 'phone-dark.png'), fullPage: true });
        check(p.complaints.length === 0, 'phone-dark: no complaint', p.complaints);
        await p.close();
        const nameless = await page.evaluate(() =>
            [...document.querySelectorAll('button, input, textarea, [tabindex="0"]')]
                .filter(
                    (e) =>
                        !(
                            e.innerText ||
                            e.ariaLabel ||
                            e.getAttribute('aria-label') ||
                            e.labels?.length ||
                            e.title ||
                            e.textContent.trim()
                        ),
                )
                .map((e) => e.outerHTML.slice(0, 80)),
        );
        check(nameless.length === 0, 'all that can be operated has a name', nameless);
    },
};
