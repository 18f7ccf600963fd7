// The page as a whole: what it refuses, its address, its looks, and that nothing leaves it.
import { join } from 'node:path';
import { PAGE, PICTURES, check, close, open, table } from './browser.mjs';
import { BOOK, browser, page, url, wish } from './driver.mjs';

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
        check(
            /memory/.test(
                await refused('write', {
                    method: 'none',
                    prompt: 'a',
                    context: 5e8,
                    temperature: 1,
                    topP: 0.9,
                    seed: 1,
                }),
            ),
            'memory that cannot be had',
            await refused('write', {
                method: 'none',
                prompt: 'a',
                context: 5e8,
                temperature: 1,
                topP: 0.9,
                seed: 1,
            }),
        );
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
        const p = await open(browser, `${url}#n=abc&race=yarn,window&seed=11&at=1500`, { ready: false });
        check(
            /n=abc in the address is not a whole number/.test(await p.locator('#boot').innerText()),
            'a bad address is said',
        );
        check((await p.locator('#race .chip[aria-pressed=true]').count()) >= 2, 'the race is as the address says');
        check((await p.locator('#break input[type=number]').inputValue()) === '11', 'the seed is as the address says');
        check(/1,500/.test(await p.locator('#clocks .numbers').innerText()), 'the clocks are as the address says');
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

    // A phone, the dark, and whether everything can be reached and has a name.
    async looks() {
        for (const [name, options] of [
            ['phone', { viewport: { width: 360, height: 740 } }],
            ['dark', { colorScheme: 'dark' }],
            ['phone-dark', { viewport: { width: 360, height: 740 }, colorScheme: 'dark' }],
        ]) {
            const p = await open(browser, url, options);
            const wide = await p.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
            check(wide[0] <= wide[1], `${name}: nothing is wider than the screen`, wide);
            await p.waitForTimeout(1500);
            await p.screenshot({
                path: join(PICTURES, `${name}.png`),
                fullPage: true,
            });
            check(p.complaints.length === 0, `${name}: no complaint`, p.complaints);
            await p.close();
        }
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

    async complaints() {
        check(page.complaints.length === 0, 'no error in the console', page.complaints);
        const away = page.asked.filter((u) => !u.startsWith(url) && !/^(blob|data):/.test(u));
        check(away.length === 0, 'no request leaves the page', away);
    },
};
