// What the tests of panels share: ./run built as the page is, the page open in a browser, and what a reader does with it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildReference, launch, open, ROOT, serve } from './browser.mjs';

buildReference();
export const { server, url } = await serve();
export const browser = await launch();
const began = Date.now();
export const page = await open(browser, url, { ready: false });
export const alive = Date.now() - began;
export const BOOK = readFileSync(join(ROOT, 'book.txt'), 'utf8');

// A wish to the page's own engine: what it ends with, and -ln p and tokens of all its parts.
export const wish = (on, name, data) =>
    on.evaluate(
        async ([name, data]) => {
            const parts = [];
            const done = await rope.engine.ask(name, { model: 'model', ...data }, (part) => parts.push(part)).promise;
            return {
                done,
                nll: parts.flatMap((p) => (p.nll ? Array.from(p.nll) : [])),
                tokens: parts.flatMap((p) => p.tokens ?? []),
            };
        },
        [name, data],
    );
export const text = (selector) => page.locator(selector).innerText();
export const until = (selector, pattern, on = page) =>
    on.waitForFunction(
        ([s, p]) => new RegExp(p).test(document.querySelector(s)?.innerText ?? ''),
        [selector, pattern.source],
        { timeout: 240000 },
    );
export const chip = (panel, name) =>
    page.locator(`#${panel} button.chip`, { hasText: new RegExp(`^${name}$`) }).first();
export async function dragTo(locator, dx, dy = 0) {
    await locator.scrollIntoViewIfNeeded();
    const box = await locator.boundingBox();
    const x = box.x + box.width / 2,
        y = box.y + box.height / 2;
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(x + dx / 2, y + dy / 2, { steps: 4 });
    await page.mouse.move(x + dx, y + dy, { steps: 4 });
    await page.mouse.up();
    await page.waitForTimeout(60);
}
export const stopAll = () =>
    page.evaluate(() => {
        for (const b of document.querySelectorAll('button')) if (['Stop', 'Pause'].includes(b.textContent)) b.click();
    });
