// Loading and reading: no task of the page holds the reader up, and a folder goes to the tool.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, check } from './browser.mjs';
import { browser, desk, url } from './driver.mjs';

const MOST_MS = 100,
    MARK = 'the-page', // tells the page's thread in a trace
    TRACED = { categories: ['toplevel', 'blink.user_timing'] };

// Milliseconds of processor time of the page's longest tasks. Of a busy machine's clock they would be more.
function longest(trace) {
    const { traceEvents } = JSON.parse(trace.toString()),
        threadOf = ({ pid, tid }) => `${pid} ${tid}`,
        // The browser's own pages have such threads, too.
        its = threadOf(traceEvents.find((event) => event.name === MARK) ?? {});
    return traceEvents
        .filter((event) => /RunTask/.test(event.name) && threadOf(event) === its && event.tdur)
        .map((event) => event.tdur / 1000)
        .sort((a, b) => b - a)
        .slice(0, 5);
}

export default {
    async no_long_task() {
        const p = await browser.newPage({ viewport: { width: 1440, height: 900 } });
        await browser.startTracing(p, TRACED);
        await p.goto(url);
        await p.waitForFunction(() => document.querySelector('#panels[data-whole]') && /Ready/.test(document.getElementById('boot').textContent));
        const mark = () => p.evaluate((name) => void performance.mark(name), MARK);
        await mark();
        const loading = longest(await browser.stopTracing());
        console.log(`the longest tasks of loading: ${loading.map(Math.round).join(', ')} ms`);
        check(loading.length > 0 && loading[0] <= MOST_MS, 'no task past 100 ms while it loads', loading);
        await browser.startTracing(p, TRACED);
        for (let at = 0; at < 9000; at += 450) {
            await p.mouse.wheel(0, 450);
            await p.waitForTimeout(30);
        }
        await mark();
        const reading = longest(await browser.stopTracing());
        console.log(`the longest tasks of reading: ${reading.map(Math.round).join(', ')} ms`);
        check(reading.length > 0 && reading[0] <= MOST_MS, 'nor while it is read', reading);
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
        check(/reach 131,072/.test(await p.locator('#model .verdict').innerText()), 'a folder dropped on the tool is read');
        check(!(await p.locator('.note').isVisible()), 'without a word on what else is in it');
        await p.close();
    },
};
