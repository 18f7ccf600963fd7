// Firefox, driven by its own protocol: Marionette, JSON behind its length over a socket. The Firefox of the system will do.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

const NAMES = ['firefox', 'firefox-esr'],
    PATIENT_MS = 240000, // a machine may have much else to do
    // A free port, which Firefox then writes into its profile; and nothing that asks or fetches at the start.
    PREFERENCES = {
        'marionette.port': 0,
        'browser.shell.checkDefaultBrowser': false,
        'browser.startup.homepage_override.mstone': 'ignore',
        'datareporting.policy.dataSubmissionEnabled': false,
        'app.update.disabledForTesting': true,
    };
const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Where Firefox is, or undefined. FIREFOX names another one. */
export const firefox = () =>
    process.env.FIREFOX ||
    (process.env.PATH ?? '')
        .split(delimiter)
        .flatMap((folder) => NAMES.map((name) => join(folder, name)))
        .find(existsSync);

// The port that Firefox has written into its profile.
async function portOf(profile, child) {
    const file = join(profile, 'MarionetteActivePort');
    for (const began = Date.now(); Date.now() - began < PATIENT_MS; await later(50)) {
        if (child.exitCode !== null) throw new Error(`Firefox ended with status ${child.exitCode}`);
        const port = existsSync(file) && +readFileSync(file, 'utf8');
        if (port) return port;
    }
    throw new Error('Firefox does not start');
}

// A socket's messages: ask(name, parameters) resolves to a command's answer.
async function speaker(port) {
    const socket = connect(port, '127.0.0.1'),
        asked = new Map(); // by number: { resolve, reject }
    let held = Buffer.alloc(0),
        number = 0;
    const hear = (message) => {
        if (!Array.isArray(message)) return; // its greeting
        const [, its, error, answer] = message,
            { resolve, reject } = asked.get(its);
        asked.delete(its);
        if (error) reject(new Error(error.message));
        else resolve(answer && 'value' in answer ? answer.value : answer);
    };
    socket.on('data', (bytes) => {
        held = Buffer.concat([held, bytes]);
        for (let colon; (colon = held.indexOf(':')) > 0;) {
            const end = colon + 1 + +held.subarray(0, colon);
            if (held.length < end) return;
            const message = JSON.parse(held.subarray(colon + 1, end));
            held = held.subarray(end);
            hear(message);
        }
    });
    socket.on('close', () => {
        for (const { reject } of asked.values()) reject(new Error('Firefox is gone'));
    });
    return (name, parameters = {}) =>
        new Promise((resolve, reject) => {
            asked.set(++number, { resolve, reject });
            const message = JSON.stringify([0, number, name, parameters]);
            socket.write(`${Buffer.byteLength(message)}:${message}`);
        });
}

/**
 * Starts Firefox without a window, with a profile of its own.
 * @param {string} program
 * @returns {Promise<{ version: string, ask: Function, go: Function, evaluate: Function, until: Function, close: Function }>}
 *     `evaluate` runs a function in the page, which may be asynchronous; `until` waits for one that gives something.
 */
export async function start(program) {
    const profile = mkdtempSync(join(tmpdir(), 'rope-firefox-')),
        lines = Object.entries(PREFERENCES).map(([key, value]) => `user_pref("${key}", ${JSON.stringify(value)});\n`);
    writeFileSync(join(profile, 'user.js'), lines.join(''));
    const child = spawn(program, ['--headless', '--marionette', '--no-remote', '--profile', profile], { stdio: 'ignore' }),
        ended = new Promise((resolve) => child.on('exit', resolve));
    const ask = await speaker(await portOf(profile, child)),
        { capabilities } = await ask('WebDriver:NewSession', { timeouts: { script: PATIENT_MS, pageLoad: PATIENT_MS } });
    const evaluate = (work, ...args) =>
        ask('WebDriver:ExecuteAsyncScript', {
            script: `const [args, done] = arguments; Promise.resolve((${work})(...args)).then(done, (e) => done({ failed: String(e) }))`,
            args: [args],
        });
    return {
        version: capabilities.browserVersion,
        ask,
        evaluate,
        go: (url) => ask('WebDriver:Navigate', { url }),
        async until(work, ...args) {
            for (const began = Date.now(); Date.now() - began < PATIENT_MS; await later(200)) {
                const found = await evaluate(work, ...args);
                if (found) return found;
            }
            throw new Error(`this does not come: ${work}`);
        },
        async close() {
            await ask('Marionette:Quit', { flags: ['eForceQuit'] }).catch(() => {}); // its answer may come too late
            await ended;
            rmSync(profile, { recursive: true, force: true });
        },
    };
}
