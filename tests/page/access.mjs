// For every eye, hand and ear: contrast, names, what is read out, stops of Tab, type, motion, and minus signs.
import { join } from 'node:path';
import { PICTURES, check, open } from './browser.mjs';
import { browser, drawn, lookAt, page, text, url } from './driver.mjs';

const CHAPTERS = ['breaks', 'turning', 'why', 'mend', 'proof', 'yours'];

// Texts with less contrast to what they stand on than 4.5 to 1 (3 to 1 where they are large), as [ratio, words, where].
// Colours are composed as they are painted, down to the page; disabled buttons, and what is not seen, are left out. Of the
// first element of a selector, or of all.
function pale(within) {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const painted = (colours) => {
        canvas.clearRect(0, 0, 1, 1);
        for (const colour of colours) {
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
        }
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = (c) =>
        c
            .map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4))
            .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
    const found = [],
        walker = document.createTreeWalker(within ? document.querySelector(within) : document.body, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
        const one = node.parentElement,
            words = node.textContent.trim();
        if (!words || one.closest('script, style, :disabled, .looks, noscript, option') || !one.getClientRects().length) continue;
        const style = getComputedStyle(one);
        if (style.visibility === 'hidden') continue;
        const grounds = [];
        let opacity = 1;
        for (let up = one; up; up = up.parentElement) {
            grounds.unshift(getComputedStyle(up).backgroundColor);
            opacity *= +getComputedStyle(up).opacity;
        }
        if (opacity < 1) continue; // what fades, or shows when it is pointed at
        const ink = one instanceof SVGElement ? style.fill : style.color,
            [a, b] = [light(painted(grounds)), light(painted([...grounds, ink]))],
            ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05),
            size = parseFloat(style.fontSize),
            isLarge = size >= 24 || (size >= 18.6 && +style.fontWeight >= 600);
        if (ratio < (isLarge ? 3 : 4.5)) found.push([ratio.toFixed(2), words.slice(0, 30), one.closest('[id]')?.id, one.className.baseVal ?? one.className]);
    }
    return found;
}

export default {
    async all_contrast() {
        for (const colorScheme of ['light', 'dark']) {
            const p = await lookAt({ colorScheme }),
                found = await p.evaluate(pale);
            check(found.length === 0, `${colorScheme}: all words have 4.5 to 1`, JSON.stringify(found.slice(0, 12)));
        }
    },

    // What a picture says by a line or a filled shape is seen on a projector, too: 3 to 1 to what it stands on.
    async graphics() {
        const parts = {
            '.clocks .face': ['stroke', 'rim of a clock'],
            '.clocks .seen': ['stroke', 'edge of an arc'],
            '.clocks .key': ['stroke', 'mark of the key'],
            '.clocks .query': ['stroke', 'hand'],
            '.terms rect': ['fill', 'bar'],
            '.terms .zero': ['stroke', 'line below the bars'],
            '.handles .stem': ['stroke', 'stem of a handle'],
            '.handles .guide': ['stroke', 'line at 1×'],
            '.handles circle': ['fill', 'handle'],
            '.gauge .level': ['backgroundColor', 'gauge'],
        };
        for (const colorScheme of ['light', 'dark']) {
            const p = await lookAt({ colorScheme });
            const found = await p.evaluate((parts) => {
                const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
                const light = (...colours) => {
                    canvas.clearRect(0, 0, 1, 1);
                    for (const colour of colours) {
                        canvas.fillStyle = colour;
                        canvas.fillRect(0, 0, 1, 1);
                    }
                    return [...canvas.getImageData(0, 0, 1, 1).data]
                        .slice(0, 3)
                        .map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4))
                        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
                };
                const paper = getComputedStyle(document.body).backgroundColor;
                return Object.entries(parts).map(([selector, [property, name]]) => {
                    const a = light(paper, getComputedStyle(document.querySelector(selector))[property]),
                        b = light(paper);
                    return [name, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
                });
            }, parts);
            for (const [name, ratio] of found) check(ratio >= 3, `${colorScheme}: ${name} has 3 to 1`, ratio);
        }
    },

    // A label stays legible under the pointer, pressed or not.
    async contrast_under_the_pointer() {
        const all = ['#race button.primary', '#race .chip[aria-pressed=true]', '#race .chip[aria-pressed=false]'],
            others = ['#key .predict button', '#arrows .words .query', '#arrows .words .key', 'button.term', 'nav a', 'summary'];
        for (const colorScheme of ['light', 'dark']) {
            const p = await lookAt({ colorScheme });
            for (const selector of [...all, ...others, '#arrows .part', '.pull-words button']) {
                await p.locator(selector).first().hover();
                const found = await p.evaluate(pale, selector);
                check(found.length === 0, `${colorScheme}: ${selector} under the pointer`, JSON.stringify(found));
            }
        }
    },

    // Every picture has a name, or is said to be none.
    async names() {
        const nameless = await page.evaluate(() => {
            const isNamed = (one) =>
                one.getAttribute('aria-label') || one.ariaLabel || one.querySelector('[aria-label]') || one.closest('[aria-hidden=true], [role=img][aria-label]');
            const pictures = [...document.querySelectorAll('main svg, main canvas')].filter((one) => !isNamed(one)),
                figures = [...document.querySelectorAll('figure')].filter((one) => !one.querySelector('figcaption')?.textContent.trim());
            return [...pictures, ...figures].map((one) => `${one.closest('section')?.id}: ${one.outerHTML.slice(0, 60)}`);
        });
        check(nameless.length === 0, 'every picture has a name', nameless);
    },

    // What changes is read out where the reader asked for it; a chart speaks while it has the focus.
    async live_regions() {
        const many = await page.evaluate(() => document.querySelectorAll('[aria-live=polite], [role=status], [role=alert]').length);
        check(many <= 60, 'at most 60 live regions: there were 81', many);
        const charts = await page.locator('.chart .readout[aria-live=polite]').count();
        check(charts === 0, 'charts are silent', charts);
        const svg = page.locator('#race .chart svg');
        await svg.focus();
        check((await page.locator('#race .chart .readout').getAttribute('aria-live')) === 'polite', 'but not for those who read them by keys');
        await page.keyboard.press('ArrowRight');
        await svg.blur();
    },

    // By Tab from the top, and Enter on a link of the contents, nobody needs more than 12 keys to a chapter's first control.
    async tabs() {
        const p = await open(browser, url, { more: false, ready: false });
        for (const [i, id] of CHAPTERS.entries()) {
            await p.evaluate(() => {
                document.activeElement?.blur();
                scrollTo(0, 0);
                getSelection().removeAllRanges();
                document.querySelector('.skip').focus();
            });
            await drawn(p); // the contents then are at the top, too
            let stops = 1;
            await p.keyboard.press('Tab'); // to the contents, which are one stop
            for (let right = 0; right < i; right++) await p.keyboard.press('ArrowRight');
            stops += 1 + i;
            const href = await p.evaluate(() => document.activeElement.getAttribute('href'));
            check(href === `#at=${id}`, `chapter ${i + 1}: arrows go along the contents`, href);
            await p.keyboard.press('Enter');
            await drawn(p);
            let isThere = false;
            for (stops++; stops < 13 && !isThere; stops++) {
                await p.keyboard.press('Tab');
                isThere = await p.evaluate(
                    (id) => !!document.activeElement.closest(`#${id}`) && !document.activeElement.matches('.link, .skip-on'),
                    id,
                );
            }
            check(isThere, `chapter ${i + 1}: at most 12 stops to its first control`, stops);
        }
        // And from chapter to chapter.
        await p.locator('#why .skip-on').first().focus();
        await p.keyboard.press('Enter');
        await drawn(p);
        check((await p.evaluate(() => document.activeElement.id)) === 'h-mend', 'a chapter can be skipped');
        await p.close();
    },

    // By Tab alone, at every width: from a chapter to what it is about, which keys move, and from there back to the chapter.
    async reached_by_tab() {
        for (const [width, height] of [
            [1440, 900],
            [1024, 768],
            [768, 1024],
            [390, 844],
            [720, 450],
        ]) {
            const p = await open(browser, url, { more: false, ready: false, viewport: { width, height } }),
                focused = (selector) => p.evaluate((name) => document.activeElement.matches(name), selector);
            for (const [id, target] of [
                ['turning', '#pull'],
                ['why', '#pull'],
                ['mend', '.handles'],
                ['proof', '.by .chip'],
            ]) {
                await p.evaluate((id) => document.querySelector(`#toc a[href="#at=${id}"]`).click(), id);
                await p.waitForFunction((id) => document.querySelector('.scene-body').dataset.chapter === id, id);
                if (id === 'proof' && (await p.locator('#key .grid').first().isHidden())) await p.locator('#key .predict button').first().click();
                await p.locator(`#h-${id}`).evaluate((one) => one.focus());
                let stops = 0;
                for (; stops < 5 && !/^to the/.test(await p.evaluate(() => document.activeElement.textContent)); stops++) await p.keyboard.press('Tab');
                check(stops < 5, `${width}, ${id}: a way to the scene`, stops);
                const seen = await p.evaluate(() => document.activeElement.getBoundingClientRect().toJSON());
                check(seen.width > 20 && seen.top >= 0 && seen.bottom <= height, `${width}, ${id}: which is seen`, JSON.stringify(seen));
                await p.keyboard.press('Enter');
                await drawn(p);
                check(await focused(target), `${width}, ${id}: there`, await p.evaluate(() => document.activeElement.outerHTML.slice(0, 80)));
                await p.waitForTimeout(200);
                const chapter = await p.evaluate(() => document.querySelector('.scene-body').dataset.chapter);
                check(chapter === id, `${width}, ${id}: and still in the chapter`, chapter);
                const value = () => p.evaluate(() => document.activeElement.getAttribute('aria-valuetext') ?? document.activeElement.getAttribute('aria-pressed'));
                const before = await value();
                if (id === 'proof') await p.keyboard.press('Tab');
                await p.keyboard.press(id === 'mend' ? 'ArrowUp' : id === 'proof' ? 'Enter' : 'ArrowRight');
                await drawn(p);
                check(id === 'proof' || (await value()) !== before, `${width}, ${id}: keys move it`, [before, await value()]);
                if (width < 1000) continue; // what is there stands in the text
                for (stops = 0; stops < 10 && !/^back to/.test(await p.evaluate(() => document.activeElement.textContent)); stops++) await p.keyboard.press('Tab');
                check(stops < 10, `${width}, ${id}: a way back`, stops);
                await p.keyboard.press('Enter');
                await drawn(p);
                check((await p.evaluate(() => document.activeElement.id)) === `h-${id}`, `${width}, ${id}: to the chapter`);
            }
            await p.evaluate(() => rope.state.set('slow', []));
            await p.evaluate(() => document.querySelector('#toc a[href="#at=mend"]').click());
            await p.waitForFunction(() => document.querySelector('.scene-body').dataset.chapter === 'mend');
            await drawn(p);
            // A row of handles by keys: the last is lifted, and its height taken along to the left.
            await p.locator('.handles').focus();
            await p.keyboard.press('End');
            for (const key of ['PageUp', 'PageUp']) await p.keyboard.press(key);
            for (let i = 0; i < 15; i++) await p.keyboard.press('Shift+ArrowLeft');
            const slow = await p.evaluate(() => rope.methodFor('yours').divisors);
            check(slow.every((s, i) => s === (i < 16 ? 1 : 4)), `${width}: sixteen handles by keys`, slow.join());
            await p.close();
        }
    },

    // A line of text has a measure that is made for reading, in a serif; what is operated has none.
    async type() {
        for (const width of [1440, 1100, 390]) {
            const p = await lookAt({ more: false, viewport: { width, height: 900 } });
            const long = await p.evaluate(() =>
                [...document.querySelectorAll('main .panel p, main .lead')]
                    .filter((one) => one.getClientRects().length && getComputedStyle(one).fontFamily.startsWith('Charter'))
                    .map((one) => [one.getBoundingClientRect().width / parseFloat(getComputedStyle(one).fontSize), one.textContent.slice(0, 40)])
                    .filter(([ems]) => ems > 38.5),
            );
            check(long.length === 0, `${width}: at most 38 em, some 75 letters, in a line`, long);
            const used = await p.evaluate(() => {
                const [left, right] = ['.steps', '#scene'].map((name) => document.querySelector(name).getBoundingClientRect());
                return (Math.max(left.right, right.right) - left.left) / innerWidth;
            });
            check(used > 0.88, `${width}: the width is used`, used);
            const wide = await p.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
            check(wide[0] <= wide[1], `${width}: and no more`, wide);
        }
        const font = await page.locator('#weights input[type=file]').evaluate((one) => {
            const { backgroundColor, borderRadius } = getComputedStyle(one, '::file-selector-button');
            return [backgroundColor, borderRadius, getComputedStyle(document.querySelector('#weights button, #race button.chip')).backgroundColor];
        });
        check(font[0] === font[2] && parseFloat(font[1]) > 15, 'file pickers look like the page', font);
    },

    // Motion can be turned off, and stays off.
    async motion() {
        const p = await open(browser, url, { more: false, ready: false, reducedMotion: 'no-preference', viewport: { width: 1440, height: 900 } });
        const at = async () => +(await text('.pull-words output', p)).replace(/\D/g, ''),
            first = await at();
        await p.locator('.pull-words button', { hasText: /Play|Stop/ }).click();
        if ((await p.locator('.pull-words > button', { hasText: /Play|Stop/ }).textContent()) === 'Play') await p.locator('.pull-words > button', { hasText: /Play|Stop/ }).click();
        await p.waitForFunction((n) => Math.abs(+document.querySelector('.pull-words output').innerText.replace(/\D/g, '') - n) > 200, first);
        check(true, 'the first screen moves');
        await p.locator('.pull-words button', { hasText: 'Stop' }).click();
        await drawn(p);
        const rests = await at();
        await p.waitForTimeout(250);
        check((await at()) === rests, 'and can be stopped', rests);
        await p.locator('nav .motion').click();
        await p.evaluate(() => history.replaceState(null, '', location.pathname));
        await p.reload();
        await p.waitForFunction(() => document.querySelector('nav .motion'));
        await p.waitForTimeout(400);
        check((await p.locator('nav .motion').getAttribute('aria-pressed')) === 'true', 'motion is off, and stays off');
        check((await at()) === 1978, 'what would move stands where the answer is lost', await at());
        await p.locator('nav .motion').click();
        await p.screenshot({ path: join(PICTURES, 'still.png') });
        await p.close();
    },

    // A minus is as long as a plus; a stroke across handles selects no words.
    async minus() {
        await page.locator('#race .chart svg').first().focus();
        await page.keyboard.press('ArrowRight');
        await drawn();
        const hyphens = await page.evaluate(() => {
            const found = [],
                walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
            for (let node; (node = walker.nextNode());)
                if (!node.parentElement.closest('code, pre, .scroll, .opening, textarea, details.card') && /(^|[\s(:,])-\d/.test(node.textContent))
                    found.push(node.textContent.slice(0, 40));
            return found;
        });
        check(hyphens.length === 0, 'no hyphen stands for a minus', hyphens);
        check((await page.locator('#turns svg .axis-label').count()) === 2, 'turns and pairs have titles');
        await page.evaluate(() => document.getElementById('mend').scrollIntoView());
        await page.waitForTimeout(300);
        const box = await page.locator('.handles').first().boundingBox();
        await page.locator('.handles').first().scrollIntoViewIfNeeded();
        const { x, y, width, height } = (await page.locator('.handles').first().boundingBox()) ?? box;
        await page.mouse.move(x + 60, y + height - 8);
        await page.mouse.down();
        await page.mouse.move(x + width - 20, y + height - 6, { steps: 5 });
        await page.mouse.up();
        check((await page.evaluate(() => String(getSelection()))) === '', 'a stroke selects no words');
        await page.evaluate(() => rope.state.set('slow', []));
    },
};
