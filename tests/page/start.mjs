// How the page starts, and how large it is.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { PAGE, check } from './browser.mjs';
import { alive, browser, page, url } from './driver.mjs';

export default {
    async start() {
        console.log(`first screen after ${alive} ms (browser start included)`);
        await page.waitForFunction(() => /Ready/.test(document.getElementById('boot').textContent));
        const sizes = ['index.html', 'first.js', 'page.css', 'rope.wasm', 'book.txt', 'model.bin', 'tokenizer.bin'].map(
            (f) => statSync(join(PAGE, f)).size,
        );
        check(sizes.reduce((a, b) => a + b) < 8e6, 'at most 8 MB with one model', sizes);
        check(statSync(join(PAGE, 'rope.html')).size < 8e6, 'rope.html is at most 8 MB');
        check(!page.asked.some((u) => /models\//.test(u)), 'other models are not fetched by themselves');
    },

    // The first screen and all chapters stand while the model has yet to come. No clock is asked: the model waits for them.
    async text_at_once() {
        const p = await browser.newPage({ reducedMotion: 'reduce' });
        let send;
        const held = new Promise((resolve) => (send = resolve));
        await p.route('**/model.bin', async (route) => {
            await held;
            await route.continue();
        });
        await p.goto(url);
        await p.waitForFunction(() => document.querySelector('#panels[data-whole]'), undefined, { timeout: 240000 });
        const [digits, panels, boot] = await p.evaluate(() => [
            document.querySelectorAll('.digits b').length,
            document.querySelectorAll('#panels section.panel').length,
            document.getElementById('boot').textContent,
        ]);
        check(digits >= 1 && panels > 10, 'first screen and panels are there before the model', [digits, panels]);
        check(/Opening the model/.test(boot), 'which is said to be on its way', boot);
        send();
        await p.waitForFunction(() => /Ready/.test(document.getElementById('boot').textContent), undefined, { timeout: 240000 });
        await p.close();
    },

    // What is fetched before the first picture.
    async first_picture() {
        const p = await browser.newPage();
        const sizes = new Map();
        p.on('response', async (response) => sizes.set(response.url().replace(url, ''), (await response.body().catch(() => '')).length));
        let send;
        const held = new Promise((resolve) => (send = resolve));
        await p.route(/rope\.wasm|model\.bin|book\.txt/, async (route) => (await held, route.abort()));
        await p.goto(url);
        await p.waitForSelector('.clocks svg');
        const first = await p.evaluate(() => [...document.querySelectorAll('link[rel=modulepreload], link[rel=stylesheet]')].map((one) => one.getAttribute('href')));
        await p.waitForTimeout(500);
        const all = ['', 'first.js', ...first].map((name) => sizes.get(name) ?? NaN),
            kilobytes = all.reduce((a, b) => a + b) / 1000;
        console.log(`the first picture takes ${kilobytes.toFixed(0)} kB`);
        check(kilobytes < 150, 'at most 150 kB before the first picture', all);
        send();
        await p.close();
    },

    // Alone, for others' articles: the scene by what was recorded, without the program.
    async embedded() {
        for (const viewport of [
            { width: 760, height: 620 },
            { width: 390, height: 600 },
        ]) {
            const p = await browser.newPage({ viewport, reducedMotion: 'reduce' }),
                asked = [];
            p.on('request', (request) => asked.push(request.url()));
            await p.goto(`${url}#embed`);
            await p.waitForSelector('.from a');
            check(!(await p.locator('header, nav, footer, .steps').filter({ visible: true }).count()), 'nothing but the scene');
            check(!asked.some((one) => /wasm|model\.bin/.test(one)), 'no program', asked);
            check((await p.locator('.digits').innerText()).replace(/\s+/g, ' ') === 'is yellow', 'it is broken at first');
            await p.locator('.switch').focus();
            await p.keyboard.press('Enter');
            await p.locator('#pull').focus();
            for (let i = 0; i < 5; i++) await p.keyboard.press('ArrowRight');
            await p.waitForFunction(() => document.querySelectorAll('.digits .right').length === 5);
            const [wide, high] = await p.evaluate(() => [document.documentElement.scrollWidth - innerWidth, document.querySelector('.from').getBoundingClientRect().bottom - innerHeight]);
            check(wide <= 0 && high <= 0, `${viewport.width}: all of it is seen`, [wide, high]);
            check(/#embed/.test(p.url()), 'and its address stays', p.url());
            await p.close();
        }
    },

    // Opened from disk, where modules may not be loaded, and without JavaScript, it says so and shows its picture.
    async without() {
        const disk = await browser.newPage();
        await disk.goto(`file://${join(PAGE, 'index.html')}`);
        await disk.waitForSelector('#boot img');
        check(/^Opened from disk.*rope\.html/.test(await disk.locator('#boot').innerText()), 'from disk', await disk.locator('#boot').innerText());
        await disk.close();
        const context = await browser.newContext({ javaScriptEnabled: false }),
            still = await context.newPage();
        await still.goto(url);
        check(/needs JavaScript/.test(await still.locator('noscript').innerText().catch(() => still.locator('body').innerText())), 'without JavaScript it says so');
        check((await still.locator('img.card').count()) > 0, 'and shows its picture');
        await context.close();
    },
};
