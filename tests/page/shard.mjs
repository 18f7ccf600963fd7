// Runs files of tests, one after the other, as test.mjs asks for them: an answer is { passed, failed }, of the file before.
import { check, taken } from './browser.mjs';
import { browser, pages, server, url } from './driver.mjs';

const words = process.argv.slice(2),
    seconds = (began) => ((Date.now() - began) / 1000).toFixed(1);

// The tests of a file whose name, or the file's own, holds a word; each on its own.
async function runFile(file) {
    const began = Date.now();
    for (const [name, test] of Object.entries((await import(`./${file}`)).default)) {
        const whole = `${file}: ${name}`,
            its = Date.now();
        if (words.length && !words.some((word) => whole.includes(word))) continue;
        try {
            await test();
        } catch (error) {
            check(false, whole, error.stack);
        }
        if (process.env.TIMES) console.log(`${seconds(its)} s ${whole}`);
    }
    if (process.env.TIMES) console.log(`${seconds(began)} s ${file}, all of it`);
}

process.on('message', async ({ file }) => {
    if (file) await runFile(file);
    else {
        for (const { complaints, asked } of await pages()) {
            check(complaints.length === 0, 'no error in the console', complaints);
            const away = asked.filter((u) => !u.startsWith(url) && !/^(blob|data):/.test(u));
            check(away.length === 0, 'no request leaves the page', away);
        }
        await browser.close();
        server.close();
    }
    process.send(taken(), () => {
        if (!file) process.exit(0);
    });
});
process.on('disconnect', () => process.exit(1)); // test.mjs was stopped
process.send({ passed: 0, failed: 0 });
