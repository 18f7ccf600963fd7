// Records the scene into scene.json, as the page itself measures it: make page, then
// node page/record_scene.mjs, and make page again. tests/page/scene.mjs holds it against ./run.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { launch, open, ROOT, serve } from '../tests/page/browser.mjs';
import { DEPTH, KEY, packed } from './src/searched.js';

const TRAINED = 512,
    STEP = TRAINED / 8,
    METHODS = { none: 'none', yarn: 'yarn:factor=4', window: 'window' };
const path = join(ROOT, 'page/scene.json'),
    { model } = JSON.parse(readFileSync(path, 'utf8')),
    recorded = { model };
const { server, url } = await serve(),
    browser = await launch(),
    page = await open(browser, url);
const measure = (wanted) =>
    page.evaluate(async (wish) => {
        const found = await globalThis.rope.engine.ask('path', wish).promise;
        return { ...found, terms: Array.from(found.terms) };
    }, wanted);

for (const [name, method] of Object.entries(METHODS)) {
    recorded[name] = {};
    for (let length = 3 * STEP; length <= 4 * TRAINED; length += STEP) {
        const found = packed(await measure({ model: 'model', method, length, depth: DEPTH, key: KEY }));
        recorded[name][length] = found;
        console.log(`page: ${name} at ${length}: ${found.answer}, ${(100 * found.share).toFixed(0)} % on the key`);
    }
}
writeFileSync(path, `${JSON.stringify(recorded)}\n`);
await browser.close();
server.close();
