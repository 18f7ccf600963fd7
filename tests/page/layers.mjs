// Two kinds of layers: the stacks are those of the files, what a click makes of them, and perplexities beside ./run's.
import { join } from 'node:path';
import { PAGE, PICTURES, ROOT, check, close, open, run, table, tableOf } from './browser.mjs';
import { BOOK, browser, byMethod, chip, drawn, lookAt, page, pplOf, runShown, shows, text, until, wish } from './driver.mjs';

const YARN = 'yarn:factor=16';
const READ = /^Past 256: ([\d.]+), and with a window ([\d.]+)\.$/;
const STRETCHES = [
    [1, 256],
    [256, 1024],
    [1024, 4096],
];
const KINDS = { full: 'full', sliding: 'sliding', nope: 'NoPE' };
const STACKS = {
    rope: ['full', 'full', 'full', 'full', 'full'],
    'layers-sliding': ['sliding', 'sliding', 'sliding', 'full', 'sliding'],
    'layers-theta': ['sliding', 'sliding', 'sliding', 'full', 'sliding'],
    'layers-temperature': ['sliding', 'sliding', 'sliding', 'full', 'sliding'],
    'layers-nope': ['sliding', 'sliding', 'sliding', 'nope', 'sliding'],
};
const set = (stack, slowed) =>
    page.evaluate(
        ([stack, slowed]) => {
            rope.state.set('stack', stack);
            rope.state.set('slowed', slowed);
        },
        [stack, slowed],
    );
const layerRow = (n) => page.locator('#layers .layer', { hasText: `layer ${n}` });
const click = (n, kind) => layerRow(n).locator('button', { hasText: kind }).click();
const shownStack = async () => {
    const all = [];
    for (let n = 1; n <= 5; n++) all.push(await layerRow(n).locator('[aria-pressed=true]').innerText());
    return all;
};
const stackOf = () => page.evaluate(() => rope.state.get('stack'));
const widths = (n) =>
    layerRow(n)
        .locator('.sees')
        .evaluate((bar) => [...bar.children].map((i) => [i.className, i.offsetWidth / bar.clientWidth]));

export default {
    // The stacks that are drawn are those of the files, as --explain and the page's own C say.
    async stacks() {
        check(!page.asked.some((u) => /models\//.test(u)), 'no small model has been fetched yet');
        for (const [name, kinds] of Object.entries(STACKS)) {
            await set(name, 'none');
            const shown = await shownStack();
            check(shown.join() === kinds.map((kind) => KINDS[kind]).join(), `${name}: its stack`, shown);
            const { sees } = await page.evaluate((name) => rope.engine.open(name), name);
            const told = run(`models/${name}.bin`, '--explain', '-n', '4096', '--rope', 'none'),
                note = (key) => told.match(new RegExp(`^# ${key}\t(\\S+)`, 'm'))?.[1];
            check(sees.length === 5, `${name}: five layers`, JSON.stringify(sees));
            for (const [i, kind] of kinds.entries()) {
                const window = kind === 'sliding' ? note('window_sliding') : '0',
                    theta = kind === 'nope' ? '0' : kind === 'full' ? note('theta') : '10000';
                check(
                    String(sees[i].window) === window && String(sees[i].theta) === theta,
                    `${name}: layer ${i + 1} is ${kind}`,
                    JSON.stringify(sees[i]),
                );
            }
            check((note('full') !== undefined) === kinds.includes('nope'), `${name}: whether full layers turn`, told);
            check((note('temperature_beta') === '0.24') === /temper/.test(name), `${name}: whether queries grow`, told);
        }
    },

    // A click goes to the trained stack that is nearest, and says where the wish itself was not trained.
    async clicks() {
        await set('rope', 'none');
        for (const [layer, kind, to, said] of [
            [2, 'sliding', 'layers-sliding', /not trained.*one full\./],
            [4, 'NoPE', 'layers-nope', /^$/],
            [4, 'full', 'layers-sliding', /^$/],
            [1, 'full', 'rope', /not trained.*all full\./],
            [3, 'NoPE', 'layers-nope', /not trained.*one NoPE\./],
            [1, 'full', 'rope', /not trained/],
            [4, 'sliding', 'layers-sliding', /not trained.*one full\./],
            [4, 'NoPE', 'layers-nope', /^$/],
            [4, 'sliding', 'layers-nope', /not trained.*one NoPE\./],
        ]) {
            await click(layer, kind);
            const now = await stackOf(),
                words = await text('#layers > .readout');
            check(now === to, `layer ${layer} ${kind}: the nearest`, now);
            check(said.test(words), `layer ${layer} ${kind}: what is said`, words);
            const shown = await shownStack();
            check(shown.join() === STACKS[to].map((k) => KINDS[k]).join(), 'and shown in all layers', shown);
        }
        await set('layers-theta', 'none');
        await click(4, 'full');
        check((await stackOf()) === 'layers-theta', 'what is so already stays');
        await layerRow(4).locator('button', { hasText: 'NoPE' }).focus();
        await page.keyboard.press('Enter');
        check((await stackOf()) === 'layers-nope', 'the same by keyboard');
    },

    // What the last token sees: shares of the 4,096 positions.
    async drawing() {
        const near = (found, expected, what) =>
            check(
                found.length === expected.length &&
                    found.every(
                        ([mark, share], i) => mark === expected[i][0] && Math.abs(share - expected[i][1]) < 0.02,
                    ),
                what,
                JSON.stringify(found),
            );
        await set('layers-sliding', 'none');
        near(await widths(1), [['known', 64 / 4096]], 'a sliding layer sees 64');
        const full = [
            ['new', 1 - 256 / 4096],
            ['known', 256 / 4096],
        ];
        near(await widths(4), full, 'a full one all, most of them further than training went');
        await set('layers-sliding', 'full');
        near(await widths(4), [['slowed', 1]], 'YaRN slows the full one');
        near(await widths(1), [['known', 64 / 4096]], 'and leaves the sliding one');
        await set('layers-sliding', 'all');
        near(await widths(1), [['needless', 64 / 4096]], 'which by mistake is slowed, too');
        await set('layers-nope', 'all');
        near(await widths(4), [['nope', 1]], 'NoPE does not turn');
    },

    // Bars of all layers begin and end alike, whatever is said beside them, so that they can be compared.
    async ends() {
        for (const [name, viewport] of [
            ['wide', { width: 1100, height: 900 }],
            ['phone', { width: 390, height: 800 }],
        ]) {
            await page.setViewportSize(viewport);
            for (const stack of Object.keys(STACKS)) {
                await set(stack, 'all');
                await drawn();
                const ends = await page.locator('#layers .sees').evaluateAll((all) =>
                    all.map((bar) => {
                        const { left, right } = bar.getBoundingClientRect(),
                            last = bar.lastElementChild.getBoundingClientRect();
                        return [left, right, last.right].map(Math.round).join(' ');
                    }),
                );
                check(ends.length === 5 && new Set(ends).size === 1, `${name}, ${stack}: bars end alike`, ends);
            }
        }
        await page.setViewportSize({ width: 1100, height: 900 });
    },

    // Perplexities are those of the command that is shown, token by token and as shown.
    async perplexities() {
        for (const [stack, method, options] of [
            ['layers-sliding', { full: YARN, sliding: YARN }, ['--rope', YARN, '--rope-sliding', YARN]],
            ['layers-nope', { full: 'none', sliding: '' }, ['--rope', 'none']],
        ]) {
            const { nll } = await wish(page, 'nll', { model: stack, method, text: BOOK, context: 600 });
            const how = ['--ppl', 'book.txt', '-n', '600', '--per-token', '--kv', 'f32', ...options];
            const rows = table(`models/${stack}.bin`, ...how);
            close(
                nll,
                rows.map((r) => +r.nll),
                1e-3,
                `${stack} reads as ./run`,
            );
        }
        for (const [stack, slowed] of [
            ['rope', 'none'],
            ['layers-theta', 'full'],
            ['layers-sliding', 'all'],
            ['layers-temperature', 'full'],
        ]) {
            await set(stack, slowed);
            await page.locator('#layers button.primary').click();
            await until('#layers .status', READ);
            const told = (await text('#layers .status')).match(READ).slice(1).map(Number),
                all = tableOf((await runShown('layers')) + (slowed === 'all' ? await runShown('layers', 1) : '')),
                rows = byMethod(all.filter((row) => row.method !== 'method'));
            const methods = Object.keys(rows),
                wanted = slowed === 'none' ? 'none' : YARN;
            check(methods.length === 2, 'the commands read with two methods', methods);
            check(methods[0].startsWith(wanted) && methods[1].startsWith('window'), 'the chosen and its mark', methods);
            const readings = Object.values(rows);
            for (const [i, reading] of readings.entries()) {
                const what = `${stack} ${i ? 'window' : slowed}`,
                    parts = reading.slice(0, -1); // the last is of all positions
                shows(told[i], pplOf(parts, 256), 1, `${what}: past 256`);
                const cells = await page
                    .locator('#layers tbody tr')
                    .nth(i - 2)
                    .locator('td')
                    .allInnerTexts();
                for (const [k, [from, to]] of STRETCHES.entries())
                    shows(+cells[k + 1], pplOf(parts, from, to), 1, `${what}: ${from} to ${to}`);
            }
        }
        const measured = await page.locator('#layers path.live').count();
        check(measured === 4, 'four readings stand in the picture', measured);
        check((await page.locator('#layers tbody tr').count()) === 8, 'and in the table, each beside its window');
    },

    // Keys that are found are those of the command; perplexity alone does not tell.
    async keys() {
        const found = {};
        for (const [stack, slowed, nth] of [
            ['layers-sliding', 'none', 1],
            ['layers-sliding', 'full', 1],
            ['layers-sliding', 'all', 2],
        ]) {
            await set(stack, slowed);
            await page.locator('#layers button', { hasText: 'Hide five keys' }).click();
            await until('#layers .status', /keys found in 4,096 tokens\./);
            found[slowed] = +(await text('#layers .status'))[0];
            const rows = tableOf(await runShown('layers', nth)).filter((row) => row.length === '4096'),
                right = rows.filter((row) => row.correct === '1').length;
            check(rows.length === 5 && found[slowed] === right, `${slowed}: the keys`, `${found[slowed]} ${right}`);
            const cells = await page.locator('#layers tbody td:last-child').allInnerTexts();
            check(cells.includes(`${right} of 5`), `${slowed}: in the table`, cells);
        }
        check(found.full > found.none, 'YaRN finds what was lost', JSON.stringify(found));
    },

    // A change of mind takes away what was half read, and a bad address is said.
    async changes() {
        await set('layers-nope', 'none');
        const lines = await page.locator('#layers path.live').count();
        await page.locator('#layers button.primary').click();
        await until('#layers .status', /Reading/);
        await chip('layers', 'YaRN in all layers').click();
        await page.waitForTimeout(300);
        check((await text('#layers .status')) === '', 'a reading that is not wanted any more ends');
        check((await page.locator('#layers path.live').count()) === lines, 'and its line goes');
        const refused = await page.evaluate(() =>
            rope.engine
                .ask('nll', { model: 'rope', method: { full: 'none', sliding: 'yarn' }, text: 'a b c', context: 64 })
                .promise.then(
                    () => '',
                    (error) => error.message,
                ),
        );
        check(/this model has none/.test(refused), 'sliding layers that there are not', refused);
    },

    async phone_and_dark() {
        for (const [name, options] of [
            ['wide', {}],
            ['phone', { viewport: { width: 390, height: 800 } }],
            ['phone-dark', { viewport: { width: 390, height: 800 }, colorScheme: 'dark' }],
        ]) {
            const p = await lookAt(options);
            await p.evaluate(() => {
                rope.state.set('stack', 'layers-sliding');
                rope.state.set('slowed', 'all');
            });
            await drawn(p);
            const wide = await p.evaluate(() => [
                document.documentElement.scrollWidth,
                innerWidth,
                ...[...document.querySelectorAll('#layers .layer, #layers .chips')].map(
                    (e) => e.getBoundingClientRect().right,
                ),
            ]);
            check(
                wide.every((x) => x <= wide[1]),
                `${name}: nothing is wider than the screen`,
                wide,
            );
            await p.locator('#layers').screenshot({ path: join(PICTURES, `layers-${name}.png`) });
            check(p.complaints.length === 0, `${name}: no complaint`, p.complaints);
        }
    },

    // In one file the models are to be picked, and another one is not taken.
    async one_file() {
        const p = await open(browser, `file://${join(PAGE, 'rope.html')}#stack=layers-nope`, { ready: false });
        const disabled = () =>
            p.locator('#layers button', { hasText: /^(Read|Hide)/ }).evaluateAll((all) => all.map((one) => one.disabled));
        check((await disabled()).join() === 'true,true', 'there is nothing to read yet', await disabled());
        check(/these models are not in it/.test(await text('#layers', p)), 'and it is said where the models are');
        const pick = p.locator('#layers input[type=file]');
        await pick.setInputFiles(join(ROOT, 'models/layers-sliding.bin'));
        await until('#layers .status', /layers-sliding\.bin has other layers: models\/layers-nope\.bin is expected/, p);
        check(true, 'another stack is not taken for it');
        await p.evaluate(() => rope.state.set('stack', 'layers-sliding'));
        await pick.setInputFiles(join(ROOT, 'models/layers-temperature.bin'));
        await until('#layers .status', /layers-temperature\.bin has other layers/, p);
        check(true, 'nor one that has the same layers, and growing queries');
        await p.evaluate(() => rope.state.set('stack', 'layers-nope'));
        await pick.setInputFiles(join(ROOT, 'models/layers-nope.bin'));
        await until('#layers .status', READ, p);
        check((await disabled()).join() === 'false,false', 'the stack itself is read', await disabled());
        check(p.complaints.length === 0, 'no complaint', p.complaints);
        await p.close();
    },
};
