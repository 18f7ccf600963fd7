// The story and the tool in Firefox, where it is: they start, compute what ./run does, and are operated by keys.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PICTURES, check, close, table } from './browser.mjs';
import { BOOK, url } from './driver.mjs';
import { firefox, start } from './marionette.mjs';

const KEYS = { ArrowUp: '\uE013', ArrowRight: '\uE014' };

// Presses keys in an element.
async function press(f, selector, keys) {
    const [element] = Object.values(await f.ask('WebDriver:FindElement', { using: 'css selector', value: selector }));
    await f.ask('WebDriver:ElementSendKeys', { id: element, text: keys });
}
async function picture(f, name) {
    writeFileSync(join(PICTURES, name), Buffer.from(await f.ask('WebDriver:TakeScreenshot', { full: false }), 'base64'));
}
// What is wrong on the page: errors since it was heard, and panels that failed.
const hear = () => {
    window.heard = [];
    addEventListener('error', (event) => window.heard.push(event.message));
    addEventListener('unhandledrejection', (event) => window.heard.push(String(event.reason)));
};
const complaints = () => [
    ...window.heard,
    ...[...document.querySelectorAll('.failed:not([hidden])')].map((one) => one.textContent),
];

async function story(f) {
    await f.ask('WebDriver:SetWindowRect', { width: 1440, height: 900 });
    await f.go(url);
    await f.evaluate(hear);
    await f.until(
        () => document.querySelector('#panels[data-whole]') && /Ready/.test(document.getElementById('boot').textContent),
    );
    const { nll } = await f.evaluate(async (text) => {
        const nll = [],
            wish = { model: 'model', method: 'yarn', text, context: 150 };
        await rope.engine.ask('nll', wish, (part) => nll.push(...part.nll)).promise;
        return { nll };
    }, BOOK.slice(0, 2000));
    const rows = table('model.bin --ppl book.txt -n 150 --per-token --kv f32 --rope yarn');
    close(nll, rows.map((row) => +row.nll), 1e-3, 'Firefox reads as ./run');
    await f.evaluate(() => {
        document.querySelector('#toc a[href="#at=why"]').click();
        rope.state.set('far', 448);
    });
    const told = await f.until(() => {
        const said = document.querySelector('#scene .told').textContent;
        return /^Found/.test(said) && said;
    });
    const digits = await f.evaluate(() => [...document.querySelectorAll('.digits b')].map((one) => one.textContent).join(''));
    check(digits === '73914', 'its scene finds the key', [told, digits]);
    // It stands still once the page has scrolled to the chapter.
    const bottom = await f.until(() => {
        const { top, bottom } = document.getElementById('scene').getBoundingClientRect();
        return document.getElementById('h-why').getBoundingClientRect().top < 200 && top > 20 && top < 130 && bottom;
    });
    const plots = await f.evaluate(() =>
        [...document.querySelectorAll('.terms rect:not(.near)')].map((bar) => bar.getBBox().height),
    );
    check(bottom <= 900, 'and stays beside the text', bottom);
    check(plots.length === 32 && Math.max(...plots) > 10, 'with its bars', plots);
    await f.evaluate(() => document.querySelector('#toc a[href="#at=mend"]').click());
    await f.until(() => document.querySelector('.scene-body').dataset.chapter === 'mend');
    await press(f, '.handles', KEYS.ArrowUp.repeat(3));
    const slow = await f.evaluate(() => rope.methodFor('yours').divisors);
    check(slow[31] > 1.2 && slow.filter((x) => x !== 1).length === 1, 'a handle moves by keys', slow);
    await f.until(() => /^Written again .*: [6-9]\d\d of/.test(document.querySelector('.rewrite .fine').textContent));
    check(true, 'and the text is written again');
    await picture(f, 'firefox.png');
    const wide = await f.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    check(wide[0] <= wide[1], 'nothing is wider than the screen', wide);
    const wrong = await f.evaluate(complaints);
    check(wrong.length === 0, 'no complaint', wrong);
}

async function tool(f) {
    await f.go(`${url}config.html`);
    await f.evaluate(hear);
    await f.until(() => !!document.querySelector('#model .verdict'));
    const config = { model_type: 'llama', head_dim: 64, hidden_size: 2048, num_attention_heads: 32, rope_theta: 1e4 },
        yarn = { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 4096 };
    await f.evaluate((words) => {
        const area = document.querySelector('#model textarea');
        area.value = words;
        area.dispatchEvent(new Event('input', { bubbles: true }));
    }, JSON.stringify({ ...config, max_position_embeddings: 16384, rope_scaling: yarn }));
    const verdict = await f.until(() => {
        const said = document.querySelector('#model .verdict').innerText;
        return /16,384/.test(said) && said;
    });
    check(/^Made for 16,384 positions\./.test(verdict), 'the tool has its verdict', verdict);
    const circles = await f.evaluate(() => document.querySelectorAll('#model svg circle').length);
    check(circles === 64, 'and its drawing: 32 pairs, plain and as scaled', circles);
    const wrong = await f.evaluate(complaints);
    check(wrong.length === 0, 'the tool: no complaint', wrong);
}

export default {
    async story_and_tool() {
        const program = firefox();
        if (!program) return void console.log('skipped: the page in Firefox, which is not here (apt-get install firefox-esr)');
        const f = await start(program);
        try {
            await story(f);
            await tool(f);
        } finally {
            await f.close();
        }
    },
};
