// Loading, reading and writing, in milliseconds of the processor: of a busy machine's clock they would be more.
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PAGE, ROOT, check } from './browser.mjs';
import { browser, desk, url } from './driver.mjs';

const MOST_BYTES = 150e3, // to the first picture
    MOST_TO_PICTURE = 400,
    MOST_MS = 100, // of a task
    LEAST_WRITTEN = 250, // tokens a second: a busy machine's processors do half of what they could
    TRIES = 3,
    MARK = 'the-page', // tells the page's thread in a trace
    TRACED = { categories: ['toplevel', 'blink.user_timing'] };

const threadOf = ({ pid, tid }) => `${pid} ${tid}`;
const eventsOf = (trace) => JSON.parse(trace.toString()).traceEvents;
// The tasks of the page's thread, each with its milliseconds. The browser's own pages have such threads, too.
function tasksOf(events) {
    const its = threadOf(events.find((event) => event.name === MARK) ?? {});
    return events
        .filter((event) => /RunTask/.test(event.name) && threadOf(event) === its && event.tdur)
        .map((event) => event.tdur / 1000);
}
const sum = (list) => list.reduce((a, b) => a + b, 0);
const mark = (p) => p.evaluate((name) => void performance.mark(name), MARK);
const longest = (trace) => tasksOf(eventsOf(trace)).sort((a, b) => b - a).slice(0, 5);
const isReady = (p) =>
    p.waitForFunction(() => document.querySelector('#panels[data-whole]') && /Ready/.test(document.getElementById('boot').textContent));

// The longest tasks of loading the page, and of scrolling through it.
async function tasks() {
    const p = await browser.newPage({ viewport: { width: 1440, height: 900 } });
    await browser.startTracing(p, TRACED);
    await p.goto(url);
    await isReady(p);
    await mark(p);
    const loading = longest(await browser.stopTracing());
    await browser.startTracing(p, TRACED);
    for (let at = 0; at < 9000; at += 450) {
        await p.mouse.wheel(0, 450);
        await p.waitForTimeout(30);
    }
    await mark(p);
    const reading = longest(await browser.stopTracing());
    await p.close();
    return { loading, reading };
}

export default {
    // The first picture needs a page, a style and two scripts, and no program: it is held back here.
    async first_picture() {
        const first = readFileSync(join(PAGE, 'first.js'), 'utf8'),
            needed = [...first.matchAll(/from"\.\/(page-[^"]+)"/g)].map(([, name]) => name),
            bytes = sum(['index.html', 'page.css', 'first.js', ...needed].map((name) => statSync(join(PAGE, name)).size));
        const p = await browser.newPage({ viewport: { width: 1280, height: 720 } });
        await p.route(/rope\.wasm|model\.bin/, () => {});
        await browser.startTracing(p, TRACED);
        await p.goto(url);
        await p.waitForFunction(() => document.querySelector('.scene-body .digits b') && performance.getEntriesByName('first-contentful-paint')[0]);
        await mark(p);
        const spent = sum(tasksOf(eventsOf(await browser.stopTracing()))),
            painted = await p.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime);
        console.log(`${bytes} bytes and ${Math.round(spent)} ms to the first picture, ${Math.round(painted)} ms by the clock`);
        check(bytes < MOST_BYTES, 'at most 150 kB to the first picture', bytes);
        check(spent < MOST_TO_PICTURE, 'within 0.4 seconds', spent);
        await p.close();
    },

    // A task that has too much work has it every time. One that only met a slow processor is short when it is tried again.
    async no_long_task() {
        const least = { loading: [Infinity], reading: [Infinity] },
            isLong = () => Object.values(least).some(([ms]) => ms > MOST_MS);
        for (let tries = 0; tries < TRIES && isLong(); tries++)
            for (const [when, found] of Object.entries(await tasks())) {
                console.log(`the longest tasks of ${when}: ${found.map(Math.round).join(', ')} ms`);
                if (found.length && found[0] < least[when][0]) least[when] = found;
            }
        check(least.loading[0] <= MOST_MS, 'no task past 100 ms while it loads', least.loading);
        check(least.reading[0] <= MOST_MS, 'nor while it is read', least.reading);
    },

    // How fast the page writes: tokens for a second of the worker, once the browser has made its code fast. No other thread of
    // the page has much to do meanwhile.
    async writing() {
        const p = await browser.newPage({ viewport: { width: 1280, height: 720 } });
        await p.goto(url);
        await isReady(p);
        const write = (context) =>
            p.evaluate(async (context) => {
                const how = { method: 'none', prompt: 'It was', temperature: 0.8, topP: 0.9, seed: 1 };
                let tokens = 0;
                await rope.engine.ask('write', { model: 'model', ...how, context }, ({ texts }) => (tokens += texts?.length ?? 0)).promise;
                return tokens;
            }, context);
        await write(400);
        await browser.startTracing(p, TRACED);
        const began = Date.now(),
            tokens = await write(800);
        const wall = (Date.now() - began) / 1000;
        await mark(p);
        const events = eventsOf(await browser.stopTracing()),
            { pid, tid } = events.find((event) => event.name === MARK),
            others = events.filter((event) => /RunTask/.test(event.name) && event.pid === pid && event.tid !== tid && event.tdur),
            threads = new Map();
        for (const event of others) threads.set(event.tid, (threads.get(event.tid) ?? 0) + event.tdur / 1e6);
        const worker = Math.max(...threads.values()),
            its = sum(tasksOf(events)) / 1000;
        console.log(`it writes and judges ${Math.round(tokens / worker)} tokens a second of the worker, ${Math.round(tokens / wall)} by the clock`);
        check(tokens / worker > LEAST_WRITTEN, 'the page writes as fast as the program', [tokens, worker]);
        check(its < worker / 3, 'and its own thread has little to do', [its, worker]);
        await p.close();
    },

    // A checkpoint's folder, dropped on the tool.
    async a_folder() {
        const p = await browser.newPage(),
            folder = join(desk, 'phi'),
            config = readFileSync(join(ROOT, 'tests/configs/phi-4-mini-instruct.json'));
        mkdirSync(folder, { recursive: true });
        writeFileSync(join(folder, 'config.json'), config);
        writeFileSync(join(folder, 'tokenizer.json'), '{}');
        await p.goto(`${url}config.html`);
        await p.waitForSelector('#model .verdict');
        const client = await p.context().newCDPSession(p),
            data = { items: [], files: [folder], dragOperationsMask: 1 };
        for (const type of ['dragEnter', 'dragOver', 'drop'])
            await client.send('Input.dispatchDragEvent', { type, x: 200, y: 200, data });
        await p.waitForFunction(() => /longrope/.test(document.querySelector('#model .numbers').innerText));
        check(/^Made for 131,072/.test(await p.locator('#model .verdict').innerText()), 'a folder dropped on the tool is read');
        check(!(await p.locator('.note').isVisible()), 'without a word on what else is in it');
        await p.close();
    },
};
