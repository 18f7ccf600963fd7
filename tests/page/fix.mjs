// Fix it yourself, and the search.
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PICTURES, check, close, open, run, table, tableOf } from './browser.mjs';
import {
    BOOK,
    browser,
    chip,
    commandsOf,
    dragTo,
    nllsOf,
    page,
    pplOf,
    runShown,
    shows,
    stillBox,
    text,
    until,
    url,
    wish,
} from './driver.mjs';

export default {
    // What YaRN slows, and by how much, is said as --explain has it: not only hands that never went round.
    async what_yarn_slows() {
        await chip('fix', '2,048').click();
        await page.waitForTimeout(100);
        const rows = table('--explain --head-dim 64 --theta 10000 --train-ctx 512 -n 2048 --rope yarn').map((row) => ({
            turns: +row.turns,
            slow: row.inv_freq / row.scaled_inv_freq,
        }));
        const partly = rows.filter(({ turns, slow }) => turns >= 1 && slow > 1.001),
            [first, last] = [partly[0], partly.at(-1)],
            from = rows.indexOf(first),
            said = await text('#fix');
        check(
            partly.length === 12 && from === 4,
            'pairs 4 to 15 went round, and are slowed all the same',
            partly.length,
        );
        const words =
            `Pairs 4 to 15 went round ${first.turns.toFixed(1)} to ${last.turns.toFixed(1)} times, and are slowed ` +
            `${first.slow.toFixed(2)} to ${last.slow.toFixed(2)} times.`;
        check(said.includes(words), 'and the page says so', `${words} / ${said}`);
        const whole = await page.evaluate(() => document.body.innerText);
        check(
            !/(only|slows) the (pairs|hands) that never went round/i.test(whole),
            'nowhere that it slows only the others',
        );
    },

    async fix_it_yourself() {
        await chip('fix', '1,024').click();
        await chip('fix', 'yarn').click();
        await page.waitForFunction(
            () =>
                /^\d/.test(document.querySelectorAll('#fix .numbers b')[1]?.innerText ?? '') &&
                document.querySelector('#fix > .status, #fix .status').innerText === '',
        );
        const past = tableOf(await runShown('fix', 1)).find((r) => r.from === '512');
        const shown = (await text('#fix .numbers')).split('\n');
        check(
            Math.abs(+shown[2] - +past.ppl) < 0.06 + 1e-3 * +past.ppl,
            'the handles at YaRN have its perplexity past 512',
            `${shown} ${past.ppl}`,
        );
        const gauges = async () => (await text('#fix .gauges')).match(/\d+/g).map(Number);
        check((await gauges())[0] > 90 && (await gauges())[1] > 98, 'both gauges are full with YaRN', await gauges());
        const titles = await page.locator('#fix .chart').nth(1).locator('.axis-label').allTextContents();
        check(titles.includes('perplexity of the story') && !/live/.test(titles.join()), 'one head over one chart', titles);
        await page.locator('#fix').screenshot({ path: join(PICTURES, 'fix-yarn.png') });
        await chip('fix', 'linear').click();
        await page.waitForTimeout(200);
        check((await gauges())[0] < 50, 'linear blurs neighbors', await gauges());
        await chip('fix', 'plain').click();
        await page.waitForTimeout(200);
        check((await gauges())[1] < 90, 'plain meets unseen angles', await gauges());
        await page.locator('#fix .handles').focus();
        for (let i = 0; i < 4; i++) await page.keyboard.press('ArrowRight');
        for (let i = 0; i < 3; i++) await page.keyboard.press('ArrowUp');
        await page.waitForTimeout(80);
        check(
            /1\.3/.test(await page.locator('#fix .handles').getAttribute('aria-valuetext')),
            'a handle by keyboard',
            await page.locator('#fix .handles').getAttribute('aria-valuetext'),
        );
        await dragTo(page.locator('#fix .handles'), 200, -30);
        check(
            /slow=/.test(await page.evaluate(() => new Promise((r) => setTimeout(() => r(location.hash), 300)))),
            'the address has the handles',
        );
        await page.waitForFunction(() => /Reading/.test(document.querySelector('#fix .status').innerText));
        await page.waitForFunction(() => document.querySelector('#fix .status').innerText === '');
        const own = tableOf(await runShown('fix', 1)),
            mine = (await text('#fix .numbers')).split('\n');
        shows(+mine[0], pplOf(own, 256, 512), 1, "up to 512 with handles of one's own, as the command");
        shows(+mine[2], pplOf(own, 512), 1, 'and past 512');
        // Divisors of one's own are what ./run does with a block of them.
        const { nll } = await wish(page, 'nll', {
            method: {
                divisors: Array.from({ length: 32 }, (_, i) => 1 + i / 10),
                attention: 1.1,
            },
            text: BOOK,
            context: 700,
        });
        const block = {
            rope_type: 'longrope',
            factor: 2,
            original_max_position_embeddings: 512,
            attention_factor: 1.1,
            short_factor: Array.from({ length: 32 }, (_, i) => 1 + i / 10),
            long_factor: Array.from({ length: 32 }, (_, i) => 1 + i / 10),
        };
        const file = join(tmpdir(), `rope-page-${process.pid}.json`);
        writeFileSync(file, JSON.stringify(block));
        const given = table(
            'model.bin',
            '--ppl',
            'book.txt',
            '-n',
            '700',
            '--per-token',
            '--kv',
            'f32',
            '--rope-config',
            file,
        );
        close(nll, nllsOf(given), 1e-3, "-ln p with handles of one's own");
    },

    // The search is ./run's own: the same windows, the same candidates, the same divisors.
    async search() {
        const said = (lines) =>
            lines.filter((line) => /^# (read|searched|judged)/.test(line)).map((line) => line.replace(/[\d.]+/g, '?'));
        const numbers = (lines) =>
            lines.filter((line) => / nll /.test(line)).map((line) => +line.match(/nll (\S+)/)[1]);
        const block = (lines) => JSON.parse(lines.at(-1));
        const of = (n, windows, reads, seed, method) =>
            run(
                ...['model.bin', '--search', 'book.txt', '--kv', 'f32'],
                ...['-n', n, '--search-windows', windows, '--reads', reads].map(String),
                ...['-s', String(seed), '--rope', method],
            )
                .trim()
                .split('\n');
        for (const [n, windows, reads, seed, method] of [[640, 1, 14, 5, 'llama3']]) {
            const lines = of(n, windows, reads, seed, method);
            const { parts, done } = await page.evaluate(
                async ([wish, book]) => {
                    const parts = [],
                        engine = rope.engine.apart();
                    const done = await engine.ask('search', { model: 'model', text: book, ...wish }, (part) =>
                        parts.push(part),
                    ).promise;
                    engine.close();
                    return { parts, done };
                },
                [{ method, context: n, windows, reads, seed }, BOOK],
            );
            const what = `a search at ${n} from ${method}`;
            check(
                said(done.lines).join() === said(lines).join() &&
                    done.lines.filter((l) => /^# read/.test(l)).join() ===
                        lines.filter((l) => /^# read/.test(l)).join(),
                `${what} reads the same windows`,
                done.lines,
            );
            close(numbers(done.lines), numbers(lines), 1e-4, `${what}: its scores`);
            close(block(done.lines).long_factor, block(lines).long_factor, 1e-9, `${what}: the divisors`);
            const better = parts.filter((part) => part.divisors);
            close(
                better.at(-1).divisors,
                block(done.lines).long_factor,
                1e-12,
                `${what}: the last that was heard of is the best`,
            );
            check(
                better.every((part, i) => i === 0 || part.nll < better[i - 1].nll) &&
                    Math.abs(better.at(-1).nll - numbers(lines)[1]) < 1e-4,
                `${what}: each is better than the one before`,
                better.map((part) => part.nll),
            );
            check(
                parts.every((p, i) => i === 0 || p.done >= parts[i - 1].done) && parts.at(-1).done === 1,
                `${what}: progress`,
                parts.map((p) => p.done),
            );
        }
        // By mouse: the handles move, other panels' wishes are heard meanwhile, Stop keeps the best so far.
        const handles = () => page.evaluate(() => rope.methodFor('yours').divisors);
        const button = page.locator('#fix button', { hasText: 'Search' });
        await page.evaluate(() => rope.state.set('fix-n', 1024));
        await chip('fix', 'plain').click();
        await page.waitForTimeout(200);
        await button.click();
        const stop = page.locator('#fix button', { hasText: 'Stop the search' });
        await page.waitForFunction(() => rope.methodFor('yours').divisors.some((s) => s > 1.5));
        const { nll } = await wish(page, 'nll', {
            method: 'none',
            text: BOOK,
            context: 100,
        });
        check(nll.length === 99 && (await stop.count()) === 1, 'the other worker hears while a search runs');
        await stop.click();
        await page.waitForTimeout(100);
        const kept = await handles();
        await page.waitForTimeout(600);
        check(
            (await stop.count()) === 0 && kept.some((s) => s > 1.5) && kept.join() === (await handles()).join(),
            'Stop leaves the handles where they are',
            kept,
        );
        check(/Best so far past 512: \d/.test(await text('#fix')), 'and the score of the best so far');
        await chip('fix', 'plain').click();
        await page.waitForTimeout(200);
        await button.click();
        await until('#fix', /Past 512: .*In windows that it did not search/);
        const lines = (await runShown('fix', 0)).trim().split('\n');
        close(
            await handles(),
            block(lines).long_factor,
            1e-9,
            "the handles stand where ./run's command has the divisors",
        );
        const told = (await text('#fix'))
            .match(/Past 512: .*/)[0]
            .match(/\d+\.\d+/g)
            .map(Number);
        const [began, best, yarn, judged] = numbers(lines).map(Math.exp);
        close(told, [best, began, judged, yarn], 0.01, 'what the panel says of it');
        await page.locator('#fix').screenshot({ path: join(PICTURES, 'fix-search.png') });
        await page.evaluate(() => rope.state.set('fix-n', 1024));
    },

    // An address in an open tab moves the handles, and the commands follow.
    async address_of_handles() {
        await page.evaluate(
            () => (location.hash = `slow=${Array.from({ length: 32 }, (_, i) => 1 + i / 4).join(',')}&temper=1.2`),
        );
        await page.waitForTimeout(200);
        const list = await page.evaluate(() => rope.methodFor('yours').divisors);
        check(list[4] === 2 && list[31] === 8.75, 'the handles stand as the address says', list);
        check(/^ *pair|1\.2/.test(await page.locator('#fix output').innerText()), 'and the temperature');
        check(/handles\.json/.test(await commandsOf('fix').nth(1).innerText()), 'the command is of those handles');
        const marks = await page
            .locator('#fix .handles')
            .first()
            .locator('.handle')
            .evaluateAll((all) => all.map((g) => g.getAttribute('transform')));
        check(new Set(marks.map((m) => m.split(',')[1])).size > 20, 'and are drawn there', marks.slice(0, 3));
        await page.evaluate(() => (location.hash = ''));
        await page.waitForTimeout(200);
        check(
            (await page.evaluate(() => rope.methodFor('yours').divisors)).every((s) => s === 1),
            'and back',
        );
    },

    // For fingers: a swipe over the handles scrolls the page and moves none; a strip has handles as wide as a finger.
    async by_finger() {
        const phone = await open(browser, url, {
            viewport: { width: 390, height: 800 },
            hasTouch: true,
            isMobile: true,
            ready: false,
        });
        const slow = () => phone.evaluate(() => rope.methodFor('yours').divisors);
        const board = phone.locator('#fix .handles');
        const touch = await phone.context().newCDPSession(phone);
        const swipe = async (x, y, dx, dy) => {
            const at = (type, k) =>
                touch.send('Input.dispatchTouchEvent', {
                    type,
                    touchPoints: type === 'touchEnd' ? [] : [{ x: x + dx * k, y: y + dy * k }],
                });
            await at('touchStart', 0);
            for (const k of [0.2, 0.4, 0.6, 0.8, 1]) await at('touchMove', k);
            await at('touchEnd');
            await phone.waitForTimeout(500);
        };
        let box = await stillBox(board);
        const before = await phone.evaluate(() => scrollY);
        await swipe(box.x + box.width / 2, box.y + box.height / 2, 0, -150);
        const after = await phone.evaluate(() => scrollY);
        check(after - before > 80, 'a swipe over the handles scrolls', `${before} ${after}`);
        check(
            (await slow()).every((s) => s === 1),
            'and moves none',
            await slow(),
        );
        const grips = phone.locator('#fix .knobs .grip');
        const boxes = await grips.evaluateAll((all) =>
            all.map((g) => g.getBoundingClientRect()).map(({ x, width, height }) => ({ x, width, height })),
        );
        check(
            boxes.length >= 5 &&
                boxes.every((b, i) => b.width >= 44 && b.height >= 44 && (i === 0 || b.x - boxes[i - 1].x >= 44)),
            'handles of the strip are 44 pixels wide, and apart',
            JSON.stringify(boxes),
        );
        box = await stillBox(grips.nth(2));
        await swipe(box.x + box.width / 2, box.y + box.height / 2, 0, -60);
        const moved = await slow();
        check(moved[2] > 1.2 && moved.filter((s) => s !== 1).length === 1, 'a finger moves one of them', moved);
        // The scene's bar covers the top of a telephone.
        await board.evaluate((one) => one.scrollIntoView({ block: 'center' }));
        box = await stillBox(board);
        await phone.touchscreen.tap(box.x + box.width - 30, box.y + 60);
        await phone.waitForTimeout(200);
        check(
            /to 31 of 32/.test(await phone.locator('#fix .zoom').innerText()),
            'a tap shows the pairs there',
            await phone.locator('#fix .zoom').innerText(),
        );
        check((await slow()).filter((s) => s !== 1).length === 1, 'and moves none');
        await phone.close();
    },
};
