// What the tests of panels share: ./run built as the page is, the page open in a browser, and what a reader does with it.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { alone, check, launch, open, reference, ROOT, serve } from './browser.mjs';

export const { server, url } = await serve();
export const browser = await launch();
const began = Date.now();
export const page = await open(browser, url, { ready: false });
export const alive = Date.now() - began;

// Another page, to look at and not to operate: every panel open, in the window and colours that a test wants. It is one for
// all tests, since each that opens costs seconds. What it shows is settled: drawn again for this window.
let looked;
export const pages = () => Promise.all([page, looked, tooled].filter(Boolean));
export async function lookAt({ viewport = { width: 1100, height: 900 }, colorScheme = 'light', more = true } = {}) {
    looked ??= open(browser, url, { ready: false });
    const p = await looked;
    await p.emulateMedia({ media: 'screen', colorScheme });
    await p.setViewportSize(viewport);
    await p.evaluate((more) => {
        for (const box of document.querySelectorAll('details.more, details.others, details.folded')) box.open = more;
        scrollTo(0, 0);
    }, more);
    await p.evaluate(async () => {
        for (let i = 0; i < 4; i++) await new Promise((next) => requestAnimationFrame(next));
    });
    return p;
}

// The tool, on its own page.
let tooled;
export async function openTool() {
    tooled ??= (async () => {
        const p = await browser.newPage({ viewport: { width: 1100, height: 900 }, reducedMotion: 'reduce' });
        p.complaints = [];
        p.asked = [];
        p.on('console', (message) => ['error', 'warning'].includes(message.type()) && p.complaints.push(message.text()));
        p.on('pageerror', (error) => p.complaints.push(error.stack));
        p.on('request', (request) => p.asked.push(request.url()));
        await p.goto(`${url}config.html`);
        await p.waitForSelector('#model .verdict');
        return p;
    })();
    return tooled;
}

export const BOOK = readFileSync(join(ROOT, 'book.txt'), 'utf8');

// A wish to the page's own engine: what it ends with, and -ln p and the tokens' texts of all its parts.
export const wish = (on, name, data) =>
    on.evaluate(
        async ([name, data]) => {
            const parts = [];
            const done = await rope.engine.ask(name, { model: 'model', ...data }, (part) => parts.push(part)).promise;
            return {
                done,
                nll: parts.flatMap((p) => (p.nll ? Array.from(p.nll) : [])),
                texts: parts.flatMap((p) => p.texts ?? []),
            };
        },
        [name, data],
    );
export const text = (selector, on = page) => on.locator(selector).innerText();
export const until = (selector, pattern, on = page) =>
    on.waitForFunction(
        ([s, p]) => new RegExp(p).test(document.querySelector(s)?.innerText ?? ''),
        [selector, pattern.source],
        { timeout: 240000 },
    );
export const chip = (panel, name) =>
    page.locator(`#${panel} button.chip`, { hasText: new RegExp(`^${name}$`) }).first();

// Types into a field, in the place of what it has, by the keys that a reader presses: a handler that takes keys away is met.
// Of a long text the rest comes at once, as pasted words do.
const BY_KEYS = 60;
export async function type(field, words) {
    const byKeys = /^[\x20-\x7e]*/.exec(words)[0].slice(0, BY_KEYS);
    await field.click();
    await field.press('ControlOrMeta+a');
    await field.press('Delete');
    await field.pressSequentially(byKeys);
    if (words.length > byKeys.length) await field.page().keyboard.insertText(words.slice(byKeys.length));
}

// When what was asked for is drawn: two pictures later, however busy the machine is.
export const drawn = (on = page) =>
    on.evaluate(() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(next)))));

// When a config is judged, which goes in steps, a moment after it was typed.
export async function judged(on = page) {
    await on.waitForFunction(() => document.querySelector('#model [aria-busy]').getAttribute('aria-busy') === 'false');
    await drawn(on);
}

// Where an element stands, once it stands still: a page that still loads, or still scrolls, moves it.
export async function stillBox(locator) {
    await locator.scrollIntoViewIfNeeded();
    for (let before = '', tries = 0; tries < 50; tries++) {
        const box = await locator.boundingBox(),
            now = JSON.stringify(box);
        if (now === before) return box;
        before = now;
        await locator.page().waitForTimeout(150);
    }
    throw new Error('it does not stand still');
}

export async function dragTo(locator, dx, dy = 0) {
    const box = await stillBox(locator);
    const x = box.x + box.width / 2,
        y = box.y + box.height / 2;
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(x + dx / 2, y + dy / 2, { steps: 4 });
    await page.mouse.move(x + dx, y + dy, { steps: 4 });
    await page.mouse.up();
    await drawn();
}
export const stopAll = () =>
    page.evaluate(() => {
        for (const b of document.querySelectorAll('button')) if (['Stop', 'Pause'].includes(b.textContent)) b.click();
    });

// ---- the commands that panels show ----

// A folder like the repository's as a reader has it, in which commands are run as they are shown.
export const desk = mkdtempSync(join(tmpdir(), 'rope-desk-'));
mkdirSync(join(desk, 'page'));
for (const name of ['model.bin', 'tokenizer.bin', 'book.txt', 'models'])
    symlinkSync(join(ROOT, name), join(desk, name));
symlinkSync(join(ROOT, 'model.bin'), join(desk, 'mymodel.bin'));
symlinkSync(reference, join(desk, 'run'));
process.on('exit', () => rmSync(desk, { recursive: true, force: true }));

export const commandsOf = (panel, on = page) => on.locator(`#${panel} .command`);

// Saves the files that a panel's command names, runs it verbatim, and gives what it printed. Statuses 1 and 3 are verdicts.
export async function runShown(panel, nth = 0, on = page) {
    const box = commandsOf(panel, on).nth(nth);
    for (const save of await box.locator('button', { hasText: /^save / }).all()) {
        const [download] = await Promise.all([on.waitForEvent('download'), save.evaluate((b) => b.click())]);
        await download.saveAs(join(desk, download.suggestedFilename()));
    }
    const line = await box.locator('code').textContent(),
        done = spawnSync('sh', ['-c', line], { cwd: desk, env: alone, encoding: 'utf8', maxBuffer: 1 << 28 });
    if (!check([0, 1, 3].includes(done.status), `it runs: ${line}`, done.stderr)) return '';
    return done.stdout;
}

// The rows of -ln p per token, or of --ppl, by method; and the perplexity of rows of --ppl in [from, to).
export function byMethod(rows) {
    const all = {};
    for (const row of rows) (all[row.method] ??= []).push(row);
    return all;
}
export function pplOf(rows, from, to = Infinity) {
    const parts = rows.filter((row, i) => +row.from >= from && +row.to <= to && !(i && +row.from < +rows[i - 1].from));
    const tokens = parts.reduce((sum, row) => sum + +row.tokens, 0);
    return Math.exp(parts.reduce((sum, row) => sum + row.nll * row.tokens, 0) / tokens);
}
export const nllsOf = (rows) => rows.map((row) => +row.nll);

// A number as the page shows it, with so many digits behind the point, is the program's.
export const shows = (shown, value, digits, what) =>
    check(Math.abs(shown - value) <= 0.51 * 10 ** -digits + 1e-3 * Math.abs(value), what, `${shown}, not ${value}`);
