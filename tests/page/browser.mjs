// What the page's tests share: a server of build/page, a browser that is watched, ./run, and counting.
import { execFileSync } from 'node:child_process';
import { cpSync, createReadStream, existsSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
export const PAGE = join(ROOT, 'build/page');
export const PICTURES = join(ROOT, 'build/page-pictures');
const { chromium } = createRequire(join(ROOT, 'page/package.json'))('playwright-core');
const TYPES = {
    '.html': 'text/html',
    '.js': 'text/javascript',
    '.css': 'text/css',
    '.wasm': 'application/wasm',
};

// ---- counting ----

const counts = { passed: 0, failed: 0 };

// The line of a test that asks: the nearest caller outside this file.
function place() {
    const lines = [...new Error().stack.matchAll(/(tests\/page\/[\w-]+\.mjs:\d+)/g)].map((match) => match[1]);
    return lines.find((line) => !line.includes('browser.mjs')) ?? 'tests/page/browser.mjs';
}

export function check(good, what, detail = '') {
    counts[good ? 'passed' : 'failed']++;
    if (!good) console.log(`${place()}: FAIL ${what}: ${String(detail).replace(/\s+/g, ' ').slice(0, 300)}`);
    return good;
}

export function close(found, expected, tolerance, what) {
    if (
        !check(
            found.length === expected.length && found.length > 0,
            what,
            `${found.length} numbers, not ${expected.length}`,
        )
    )
        return;
    let worst = 0;
    const off = (i) => (Number.isFinite(found[i]) ? Math.abs(found[i] - expected[i]) : Infinity);
    for (let i = 0; i < found.length; i++) if (off(i) > off(worst)) worst = i;
    check(off(worst) <= tolerance, what, `number ${worst} is ${found[worst]}, not ${expected[worst]}`);
}

// What was counted since the last time.
export function taken() {
    const all = { ...counts };
    counts.passed = counts.failed = 0;
    return all;
}

// ---- the program ----

// The page's numbers are nearest to those of a build with vectors of 128 bits and without fused products. A few int8
// roundings of activations differ, and with them some tokens by a tenth.
const copy = join(ROOT, 'build/page-reference');
export const reference = join(copy, 'run');
export function buildReference() {
    mkdirSync(copy, { recursive: true });
    rmSync(join(copy, 'src'), { recursive: true, force: true }); // files that are no more
    for (const name of ['run.c', 'rope.c', 'rope.h', 'src', 'Makefile'])
        cpSync(join(ROOT, name), join(copy, name), {
            recursive: true,
            preserveTimestamps: true,
        });
    execFileSync('make', ['-s', '-C', copy, 'ARCH=', 'CPPFLAGS=-DATTENTION_IN_FLOATS'], {
        stdio: ['ignore', 'ignore', 'inherit'],
    });
}

// On one thread: browsers have the other processors, and threads that wait for one another there take long.
export const alone = { ...process.env, OMP_NUM_THREADS: '1' };
export const run = (...args) =>
    execFileSync(reference, args, {
        cwd: ROOT,
        env: alone,
        stdio: ['ignore', 'pipe', 'pipe'],
        maxBuffer: 1 << 28,
    }).toString();

// The rows of a table below its # lines, as objects by column.
export const table = (...args) => tableOf(run(...args.flatMap((words) => words.split(' '))));
export function tableOf(printed) {
    const lines = printed
        .split('\n')
        .filter((line) => line && !line.startsWith('#'))
        .map((line) => line.split('\t'));
    return lines.slice(1).map((cells) => Object.fromEntries(cells.map((cell, i) => [lines[0][i], cell])));
}

// ---- the browser ----

export function serve() {
    const server = createServer((request, response) => {
        const path = join(PAGE, request.url === '/' ? 'index.html' : new URL(request.url, 'http://x').pathname);
        if (!path.startsWith(PAGE) || !existsSync(path)) return void response.writeHead(404).end();
        response.writeHead(200, {
            'content-type': TYPES[extname(path)] ?? 'application/octet-stream',
            'content-length': statSync(path).size,
        });
        createReadStream(path).pipe(response);
    });
    return new Promise((resolve) =>
        server.listen(0, '127.0.0.1', () => resolve({ server, url: `http://127.0.0.1:${server.address().port}/` })),
    );
}

const found =
    process.env.CHROMIUM ||
    ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);

export async function launch() {
    mkdirSync(PICTURES, { recursive: true });
    return chromium.launch({
        executablePath: found,
        args: ['--no-sandbox', '--disable-dev-shm-usage'],
    });
}

// A page whose complaints and requests are kept in page.complaints and page.asked.
// Panels under "more", and what is folded, are open, unless `more` is false.
export async function open(browser, url, { ready = true, more = true, ...options } = {}) {
    const page = await browser.newPage({
        viewport: { width: 1100, height: 900 },
        reducedMotion: 'reduce',
        ...options,
    });
    page.setDefaultTimeout(60000);
    page.complaints = [];
    page.asked = [];
    page.on('console', (message) => {
        if (['error', 'warning'].includes(message.type())) page.complaints.push(message.text());
    });
    page.on('pageerror', (error) => page.complaints.push(error.stack));
    page.on('request', (request) => page.asked.push(request.url()));
    await page.goto(url);
    const patient = { timeout: 240000 }; // a machine may have much else to do
    await page.waitForFunction(() => document.querySelector('#panels[data-whole]'), undefined, patient);
    if (more)
        await page.evaluate(() => {
            for (const box of document.querySelectorAll('details.more, details.others, details.folded')) box.open = true;
        });
    if (ready)
        await page.waitForFunction(() => /Ready/.test(document.getElementById('boot').textContent), undefined, patient);
    return page;
}
