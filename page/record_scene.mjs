// Records what the scene shows, as the page itself measures it: make page, then node page/record_scene.mjs, and make page
// again. What the first screen shows goes into scene.json, what the later chapters' chips choose into recorded.json, with
// the key `scene`. tests/page/scene.mjs holds them against ./run.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { launch, open, ROOT, serve } from '../tests/page/browser.mjs';
import { HILLS, QUESTION } from './src/haystack.js';
import { DEPTH, KEY, packed, textOf } from './src/searched.js';

const TRAINED = 512,
    STEP = TRAINED / 8,
    FIRST = 'none',
    CHIPS = ['yarn', 'window', 'linear', 'ntk', 'ntk-by-parts', 'llama3'],
    asRun = (name) => (['none', 'window'].includes(name) ? name : `${name}:factor=4`);
const inPage = (name) => join(ROOT, 'page', name),
    read = (name) => JSON.parse(readFileSync(inPage(name), 'utf8')),
    write = (name, all) => writeFileSync(inPage(name), `${JSON.stringify(all)}\n`);
const { server, url } = await serve(),
    browser = await launch(),
    page = await open(browser, url);
const measure = (method, length) =>
    page.evaluate(
        async (wish) => {
            const found = await globalThis.rope.engine.ask('path', wish).promise,
                listed = (list) => list && Array.from(list);
            return { ...found, terms: listed(found.terms), crosses: listed(found.crosses) };
        },
        { model: 'model', method, length, depth: DEPTH, key: KEY },
    );

// The text in parts, see textOf.
function partsOf(tokens) {
    const text = tokens.join('');
    const between = (from, to) => {
        let length = 0;
        return tokens.filter((token) => {
            const begins = length;
            length += token.length;
            return begins >= from && begins < to;
        });
    };
    let at = text.indexOf(HILLS[0]);
    const parts = { start: between(0, at), filler: [], end: between(text.length - QUESTION.length, Infinity) };
    for (const sentence of HILLS) parts.filler.push(between(at, (at += sentence.length)));
    return parts;
}

const scene = { model: read('scene.json').model },
    recorded = read('recorded.json');
recorded.scene = {};
for (const name of [FIRST, ...CHIPS]) {
    const into = ((name === FIRST ? scene : recorded.scene)[name] = {});
    for (let length = 3 * STEP; length <= 4 * TRAINED; length += STEP) {
        const found = await measure(asRun(name), length);
        into[length] = packed(found, name === 'none' || name === 'yarn');
        scene.text ??= partsOf(found.tokens);
        if (textOf(scene.text, found.n).join('|') !== found.tokens.join('|'))
            throw new Error('the text is not its parts');
        console.log(`page: ${name} at ${length}: ${found.answer}, ${(100 * found.share).toFixed(0)} % on the key`);
    }
}
// What the film ends with comes with the first screen.
const plan = await page.evaluate((as) => {
    const { frequencies, plain, attention } = globalThis.rope.page.plan(as, 2048).frequencies(2048);
    return { slow: Array.from(frequencies, (f, i) => +(plain[i] / f).toPrecision(5)), attention: +attention.toPrecision(6) };
}, asRun('yarn'));
scene.rescue = { ...plan, stop: recorded.scene.yarn[4 * TRAINED] };
write('scene.json', scene);
write('recorded.json', recorded);
await browser.close();
server.close();
