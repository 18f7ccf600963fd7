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
};
