// The fix as an event, and links: handles that reach YaRN write chapter 1's text again; a link carries what is shown.
import { join } from 'node:path';
import { PICTURES, check, open } from './browser.mjs';
import { browser, runShown, stillBox, text, url } from './driver.mjs';

const squeezed = (words) => words.replace(/\s+/g, ' ').trim();
const N = 2048;

// Where YaRN has the handles, by the program.
const yarnPlaces = (p) =>
    p.evaluate((n) => {
        const { frequencies, plain } = rope.page.plan('yarn', n).frequencies(n);
        return Array.from(plain, (f, i) => f / frequencies[i]);
    }, N);

// Paints handles by mouse in one stroke, from pair `from` on.
async function paint(p, places, from = 0) {
    const board = p.locator('#fix .handles').first(),
        box = await stillBox(board);
    const middles = await board
        .locator('.handle')
        .evaluateAll((all) => all.map((one) => +one.getAttribute('transform').match(/[\d.]+/)[0]));
    const [low, high] = [0.8, 2 * (N / 512)]; // of the board's axis
    const yOf = (v) => box.y + 204 - (192 * Math.log(v / low)) / Math.log(high / low);
    await p.mouse.move(box.x + middles[from], yOf(places[from]));
    await p.mouse.down();
    for (let i = from; i < places.length; i++) await p.mouse.move(box.x + middles[i], yOf(places[i]));
    await p.mouse.up();
    await p.waitForTimeout(100);
}

export default {
    async near_and_built() {
        const p = await open(browser, url, { more: false });
        await p.locator('#fix').scrollIntoViewIfNeeded();
        check(await p.locator('#fix .event').isHidden(), 'nothing is said of handles that nobody moved');
        // One stroke fills both gauges, and is not YaRN.
        await paint(p, Array(32).fill(4), 16);
        const gauges = (await text('#fix .gauges', p)).match(/\d+/g).map(Number);
        check(gauges[0] > 95 && gauges[1] > 95, 'one stroke fills both gauges', gauges);
        const said = await text('#fix .found', p);
        check(/near YaRN.*went round a few times, pairs 4 to 15/.test(said), 'and is said to be near, and what lacks', said);
        check((await p.locator('#fix .over').count()) > 0, "YaRN's curve is laid over");
        check((await p.locator('#fix .event button.primary').isHidden()) === true, 'no reward yet');
        // The whole of it.
        const places = await yarnPlaces(p);
        await paint(p, places);
        const built = await text('#fix .found', p);
        check(/^You built YaRN for 2,048 tokens: your handles are \d % off/.test(built), 'YaRN is reached, by hand', built);
        check(/temperature 1\.139/.test(built), 'and what it does besides', built);
        const spans = () => p.locator('#fix .column:last-child .scroll span').count();
        for (let tries = 0; tries < 120 && (await spans()) < 580; tries++) await p.waitForTimeout(500);
        check((await spans()) >= 580, 'the text of chapter 1 writes itself again', await spans());
        await p.locator('#fix').screenshot({ path: join(PICTURES, 'fix-built.png') });
        const [broken, mine] = await p.locator('#fix .column .scroll').allTextContents();
        check(/crispenny/.test(broken), 'beside the one that broke', broken.slice(0, 80));
        await p.locator('#fix .event button.primary').click();
        const command = squeezed(await runShown('fix', 0, p)),
            written = squeezed(mine.replace(/position 512: training ended here/, '')).slice(0, -20);
        check(written.length > 1850 && command.startsWith(written), 'as the command below it writes', [
            written.slice(-80),
            command.slice(written.length - 80, written.length),
        ]);
        // A link has these handles; who opens it is told, and nothing begins by itself.
        await p.context().grantPermissions(['clipboard-read', 'clipboard-write']);
        await p.locator('#fix .event button', { hasText: 'copy a link' }).click();
        await p.waitForTimeout(300);
        const link = await p.evaluate(() => navigator.clipboard.readText());
        check(/at=fix/.test(link) && /slow=/.test(link) && link.length < 600, 'a link has the handles', link);
        const friend = await open(browser, link, { more: false });
        const theirs = await friend.evaluate(() => rope.methodFor('yours').divisors),
            ours = await p.evaluate(() => rope.methodFor('yours').divisors);
        check(
            theirs.every((x, i) => Math.abs(x / ours[i] - 1) < 1e-4),
            'which stand there for a friend',
            theirs,
        );
        check(/^You built YaRN/.test(await text('#fix .found', friend)), 'who is told what they are');
        await friend.waitForTimeout(1200);
        check(!(await friend.locator('#fix .column').first().isVisible()), 'and begins nothing that was not asked for');
        await friend.close();
        // Handles that move away take the text with them; a method that is pressed is no find.
        await paint(p, Array(32).fill(1));
        check(await p.locator('#fix .columns').isHidden(), 'a text of other handles goes');
        check(await p.locator('#fix .event').isHidden(), 'and the word on it');
        await p.locator('#fix button.chip', { hasText: /^yarn$/ }).click();
        await p.waitForTimeout(1500);
        check(/own places/.test(await text('#fix .found', p)), 'a method that is pressed is called by its name');
        check(await p.locator('#fix .columns').isHidden(), 'and no find');
        check(p.complaints.length === 0, 'no complaint', p.complaints);
        await p.close();
    },

    // The browser's back button takes back what the reader changed, a gesture at a time.
    async back() {
        const p = await open(browser, url, { more: false, ready: false });
        const length = () => p.evaluate(() => rope.state.get('fix-n'));
        const press = async (name) => {
            await p.locator('#fix button.chip', { hasText: new RegExp(`^${name}$`) }).click();
            await p.waitForTimeout(1800);
        };
        await press('1,024');
        await press('4,096');
        check((await length()) === 4096, 'a length is chosen', await length());
        await p.goBack();
        await p.waitForTimeout(300);
        check((await length()) === 1024, 'back takes the last change back', await length());
        await p.goBack();
        await p.waitForTimeout(300);
        check((await length()) === N, 'and the one before', await length());
        await p.goForward();
        await p.waitForTimeout(300);
        check((await length()) === 1024, 'forward brings it again', await length());
        await p.close();
    },

    // What a link brings is text: it is never markup, and not too long.
    async hostile_links() {
        const markup = '<img src=x onerror="document.title=1"><b>bold</b>',
            p = await open(browser, `${url}#${new URLSearchParams({ open: markup })}`, { ready: false });
        check((await p.locator('#break input[type=text]').inputValue()) === markup, 'a sentence comes as it is');
        check((await p.locator('main img').count()) === 0, 'and is no markup');
        check((await p.title()) !== '1', 'nor a program');
        const command = await p.locator('#break .command code').first().textContent();
        check(command.includes(`'${markup}'`), 'for the shell it is in quotes', command);
        await p.close();
        const long = await open(browser, `${url}#open=${'a'.repeat(2001)}`, { ready: false });
        check(/open=a+ in the address is not at most 2000 characters/.test(await text('#boot', long)), 'one that is too long');
        check((await long.locator('#break input[type=text]').inputValue()) === '', 'is not taken');
        await long.close();
    },
};
