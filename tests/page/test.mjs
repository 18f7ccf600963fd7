// The page, driven in headless Chromium: every panel by mouse and by keyboard, its numbers beside ./run's, bad input,
// and pictures of everything in build/page-pictures. `node tests/page/test.mjs [WORD ...]` runs the tests whose file or
// name holds one. Every other file of this folder is tests of a panel, or of the page as a whole, which comes last.
import { readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { main } from './browser.mjs';
import { server } from './driver.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const NOT_TESTS = ['browser.mjs', 'driver.mjs', 'test.mjs'];
const files = readdirSync(here).filter((name) => name.endsWith('.mjs') && !NOT_TESTS.includes(name));

const tests = {};
for (const file of [...files.filter((name) => name !== 'whole.mjs').sort(), 'whole.mjs'])
    for (const [name, test] of Object.entries((await import(`./${file}`)).default)) tests[`${file}: ${name}`] = test;
process.on('exit', () => server.close());
await main(tests, process.argv.slice(2));
