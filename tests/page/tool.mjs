// The tool on a page of its own, cards for links, and the bar while the model is fetched.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PAGE, PICTURES, ROOT, check } from './browser.mjs';
import { browser, page, text, url } from './driver.mjs';

export default {
    async config_page() {
        const p = await browser.newPage({ viewport: { width: 1100, height: 900 }, reducedMotion: 'reduce' }),
            complaints = [],
            asked = [];
        p.on('pageerror', (error) => complaints.push(error.message));
        p.on('request', (request) => asked.push(request.url()));
        await p.goto(`${url}config.html`);
        await p.waitForSelector('#model .verdict', { timeout: 60000 });
        check((await page.locator('#model a[href="config.html"]').count()) === 1, 'the story has a link to it');
        check((await p.locator('#model a[href="config.html"]').count()) === 0, 'and it has none to itself');
        check(!asked.some((one) => /model|tokenizer|book/.test(one)), 'it needs no model', asked);
        const words = readFileSync(join(ROOT, 'tests/configs/phi-4-mini-instruct.json'), 'utf8');
        await p.locator('#model textarea').fill(words);
        await p.waitForFunction(() => /longrope/.test(document.querySelector('#model .numbers').innerText));
        check(/hold together, and reach 131,072/.test(await text('#model .verdict', p)), 'a verdict in one sentence');
        const first = await p.locator('#model .verdict').evaluate((one) => one.parentElement.firstElementChild === one);
        check(first, 'and it comes first');
        check((await p.locator('#model .readings li').count()) > 0, 'engines are there');
        check(/longrope/.test(await text('#model .block', p)), 'and a block to paste');
        await p.evaluate(() => {
            const dropped = new DataTransfer();
            dropped.items.add(new File(['once upon a time'], 'story.txt'));
            const how = { bubbles: true, cancelable: true, dataTransfer: dropped };
            document.querySelector('h1').dispatchEvent(new DragEvent('drop', how));
        });
        await p.locator('.note').waitFor({ state: 'visible' });
        check(/reads configs alone/.test(await text('.note p', p)), 'what it has no use for goes elsewhere');
        check(complaints.length === 0, 'no complaint', complaints);
        await p.screenshot({ path: join(PICTURES, 'config.png') });
        await p.close();
    },

    cards() {
        for (const name of ['index.html', 'config.html']) {
            const html = readFileSync(join(PAGE, name), 'utf8');
            for (const one of ['title', 'description', 'image'])
                check(new RegExp(`property="og:${one}" content="[^"]{8,}"`).test(html), `${name} has a card's ${one}`);
            check(!/<!-- \w+ -->/.test(html), `${name} is filled in`);
        }
        check(existsSync(join(PAGE, 'card.png')), 'the picture of the card is there');
    },

    // A slow model: the text stands meanwhile, and the bar tells how much of it is there.
    async bar() {
        const p = await browser.newPage();
        await p.addInitScript(() => {
            globalThis.shares = [];
            document.addEventListener('DOMContentLoaded', () => {
                const bar = document.getElementById('loading');
                new MutationObserver(() => globalThis.shares.push([bar.value, bar.hidden])).observe(bar, {
                    attributes: true,
                });
            });
        });
        await p.goto(url);
        await p.waitForFunction(() => /Ready/.test(document.getElementById('boot').textContent), undefined, {
            timeout: 60000,
        });
        const shares = await p.evaluate(() => globalThis.shares);
        check(shares.length > 1 && shares.at(-1)[1] === true, 'the bar fills and goes', JSON.stringify(shares.slice(-3)));
        check(shares.every(([x], i) => i === 0 || x >= shares[i - 1][0]), 'and never goes back');
        await p.close();
    },
};
