// Browsers that cannot run the program: a sentence for people, and what was recorded.
import { join } from 'node:path';
import { PICTURES, check } from './browser.mjs';
import { browser, url } from './driver.mjs';

const WITHOUT = {
    'no WebAssembly': [() => delete globalThis.WebAssembly, /This browser has no WebAssembly/],
    'no SIMD': [() => (WebAssembly.validate = () => false), /WebAssembly has no SIMD\. Chrome/],
    'no memory': [
        () => {
            WebAssembly.Memory = function () {
                throw new RangeError('could not allocate memory');
            };
            WebAssembly.instantiate = () => Promise.reject(new RangeError('Out of memory: Cannot allocate'));
        },
        /too little memory free/,
    ],
};

export default {
    async recorded_pictures() {
        for (const [what, [breaks, line]] of Object.entries(WITHOUT)) {
            const p = await browser.newPage({ viewport: { width: 1100, height: 900 } });
            await p.addInitScript(breaks);
            await p.goto(url);
            await p.waitForFunction(() => document.querySelectorAll('.still').length === 6).catch(() => {});
            const said = await p.locator('#boot').innerText();
            check(line.test(said), `${what}: a sentence for people`, said);
            check(!/Aborted|CompileError|ASSERTIONS/.test(said), `${what}: and no word of the machine`, said);
            check((await p.locator('.still .live').count()) === 4, `${what}: recorded curves`);
            check(/perplexity/.test(await p.locator('.still .opening').innerText()), `${what}: the recorded text`);
            const sizes = await p
                .locator('.still .live')
                .evaluateAll((all) => all.map((c) => c.getBoundingClientRect().height));
            check(
                sizes.every((height) => height > 20),
                `${what}: which have a size`,
                sizes,
            );
            check((await p.locator('.still td.yes').count()) > 20, `${what}: and the grid of keys`);
            check((await p.locator('.scene-body .digits b').count()) >= 1, `${what}: and the first picture`);
            if (what === 'no SIMD') await p.screenshot({ path: join(PICTURES, 'no-simd.png'), fullPage: true });
            await p.close();
        }
    },

    // Without JavaScript nothing is promised.
    async no_script() {
        const context = await browser.newContext({ javaScriptEnabled: false }),
            p = await context.newPage();
        await p.goto(url);
        const words = await p.locator('body').innerText();
        check(
            /needs JavaScript/.test(words) && !/Starting/.test(words),
            'without JavaScript it says so, and starts nothing',
            words,
        );
        await context.close();
    },

    // What is closed is open on paper, and closed again afterwards.
    async print() {
        const p = await browser.newPage();
        await p.goto(url);
        await p.waitForFunction(() => document.querySelector('#race'));
        const open = () => p.locator('details.more[open]').count();
        check((await open()) === 0, 'more is closed');
        await p.evaluate(() => dispatchEvent(new Event('beforeprint')));
        check((await open()) === (await p.locator('details.more').count()), 'more is printed');
        await p.evaluate(() => dispatchEvent(new Event('afterprint')));
        check((await open()) === 0, 'and closed again');
        await p.emulateMedia({ media: 'print' });
        check(!(await p.locator('#fix button.primary').first().isVisible()), 'buttons that do nothing on paper are not printed');
        await p.close();
    },
};
