// The page, driven in headless Chromium: every panel by mouse and by keyboard, its numbers beside ./run's, bad input,
// and pictures of everything in build/page-pictures. `node tests/page/test.mjs [WORD ...]` runs the tests whose file or
// name holds one; TIMES=1 tells how long each took. Every file of this folder that is not named here is tests of a panel, or
// of the page as a whole. Two programs with a browser each (SHARDS=1: one) take one file after the other.
import { fork } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildReference } from './browser.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const NOT_TESTS = ['browser.mjs', 'driver.mjs', 'marionette.mjs', 'shard.mjs', 'test.mjs'];
// How the page starts is seen first; then the longest, so that none runs alone at the end.
const FIRST = ['start.mjs', 'scene.mjs', 'mend.mjs', 'model.mjs', 'story.mjs', 'whole.mjs'];

const words = process.argv.slice(2),
    all = readdirSync(here).filter((name) => name.endsWith('.mjs') && !NOT_TESTS.includes(name)),
    named = all.filter((name) => words.some((word) => name.includes(word))),
    isByFile = words.length > 0 && words.every((word) => all.some((name) => name.includes(word))),
    place = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
const waiting = (isByFile ? named : all).sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
const counts = { passed: 0, failed: 0 };

// A program that asks for a file whenever it is free. One that dies takes its file with it, and another one goes on.
function shard() {
    return new Promise((resolve) => {
        const child = fork(join(here, 'shard.mjs'), words);
        let file; // that it was given; empty: there is none any more
        child.on('message', ({ passed, failed }) => {
            counts.passed += passed;
            counts.failed += failed;
            if (file === '') return;
            file = waiting.shift() ?? '';
            child.send({ file });
        });
        child.on('exit', (status) => {
            if (status !== 0) {
                counts.failed++;
                console.log(`FAIL the tests of ${file || 'no file'} ended with status ${status}`);
            }
            resolve(status !== 0 && file && waiting.length ? shard() : undefined);
        });
    });
}

buildReference();
const many = Math.min(+(process.env.SHARDS ?? 2), cpus().length, waiting.length);
await Promise.all(Array.from({ length: many }, shard));
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed ? 1 : 0);
