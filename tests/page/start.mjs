// How the page starts, and how large it is.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { PAGE, check } from './browser.mjs';
import { alive, page } from './driver.mjs';

export default {
    async start() {
        check(alive < 10000, 'the first screen is there', `${alive} ms`);
        console.log(`first screen after ${alive} ms (browser start included)`);
        await page.waitForFunction(() => /Ready/.test(document.getElementById('boot').textContent));
        const sizes = ['index.html', 'page.js', 'page.css', 'rope.wasm', 'book.txt', 'model.bin', 'tokenizer.bin'].map(
            (f) => statSync(join(PAGE, f)).size,
        );
        check(sizes.reduce((a, b) => a + b) < 8e6, 'at most 8 MB with one model', sizes);
        check(statSync(join(PAGE, 'rope.html')).size < 8e6, 'rope.html is at most 8 MB');
        check(!page.asked.some((u) => u.includes('8k')), 'the second model is not fetched by itself');
    },
};
