// The page's end of the worker: wishes as promises that can be cancelled, models that are fetched when first asked for,
// and a new worker when one has died.
import { fromBase85 } from './base85.js';
import { Cancelled } from './cancelled.js';
import { loadRope, Refusal } from './rope.js';

/* global WORKER_SOURCE -- the worker's script, which build.mjs puts here */

// So many workers at most do the page's wishes side by side, one for each of three texts also where there are two cores.
// Each has the model in memory for itself.
const MOST_WORKERS = 3;

// Is this page one file with everything in it? The program and the text come first in it, the model last.
export const isOneFile = !!document.getElementById('file-rope.wasm');
const whole = new Promise((resolve) => {
    if (document.readyState !== 'loading') resolve();
    else document.addEventListener('DOMContentLoaded', resolve);
});

// An answer's bytes; `hear` gets the share of them that is there. A server that packs them does not say how many they are.
async function counted(answer, hear) {
    const all = +answer.headers.get('content-length');
    if (!all || !answer.body) return answer.arrayBuffer();
    const reader = answer.body.getReader(),
        parts = [];
    let here = 0;
    for (let part; !(part = await reader.read()).done;) {
        parts.push(part.value);
        here += part.value.length;
        hear(Math.min(1, here / all));
    }
    return new Blob(parts).arrayBuffer();
}

// The bytes of a file beside the page, or in it.
async function bytesOf(name, hear) {
    if (!isOneFile) {
        const answer = await fetch(name);
        if (!answer.ok) throw new Refusal(`${name} is not beside the page (the server says ${answer.status})`);
        return hear ? counted(answer, hear) : answer.arrayBuffer();
    }
    if (!['rope.wasm', 'book.txt'].includes(name)) await whole; // what follows this script may be there in part
    const stored = document.getElementById(`file-${name}`);
    if (!stored) throw new Refusal(`${name} is not in this file: give it in the field above (it is in the repository)`);
    const packed = fromBase85(stored.textContent);
    stored.remove();
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
}

export class Engine {
    constructor(files = {}, given = {}) {
        this.jobs = new Map(); // by number: { resolve, reject, part }
        this.number = 0;
        this.files = files; // promises of bytes, by name, and of the compiled program
        this.given = given; // files that the reader picked, { file, tokenizer } by model: the worker reads them itself
        this.opened = {}; // promises of facts, by model
        this.smallRope = null; // see small()
        this.wishes = 0; // asked for, and not yet done
        this.mates = []; // engines that take wishes while this one has some
        this.hears = null; // told what share of the model that ships has been fetched
        this.trial = null; // an engine that tries a file of the reader's
        this.start();
    }

    // An engine with the same files and a worker of its own, for a wish that takes minutes in one step. To be closed.
    apart() {
        return new Engine(this.files, this.given);
    }

    // The engine with the fewest wishes: this one, a mate, or a new mate while all have some.
    leastBusy() {
        const all = [this, ...this.mates],
            [free] = all.sort((a, b) => a.wishes - b.wishes);
        if (free.wishes === 0 || all.length >= MOST_WORKERS) return free;
        this.mates.push(this.apart());
        return this.mates.at(-1);
    }

    // Ends the worker, whatever it is doing, and its mates'.
    close() {
        for (const mate of this.mates) mate.close();
        this.mates = [];
        this.trial?.close();
        this.trial = null;
        this.isClosed = true; // until it is started again
        this.worker.terminate();
        for (const job of this.jobs.values()) job.reject(new Cancelled());
        this.jobs.clear();
    }

    // The bytes of a file, read once.
    file(name) {
        return (this.files[name] ??= bytesOf(name, name === 'model.bin' && ((share) => this.hears?.(share))));
    }

    // A file that the reader of the page has picked takes the place of a model's, and another one of its tokenizer's. `refuse`
    // gets the facts of it and says why it will not do; empty: it does. Resolves to the facts. An engine of its own tries
    // the file first: what cannot be had leaves everything as it was, and what runs goes on. A newer file ends the trial.
    /** @param {string} model @param {File} file @param {{ tokenizer?: File, refuse?: (facts: any) => string }} [more] */
    async give(model, file, { tokenizer, refuse } = {}) {
        const given = { ...this.given, [model]: { file, tokenizer } },
            trial = new Engine(this.files, given);
        this.trial?.close();
        this.trial = trial;
        try {
            const facts = await trial.open(model),
                reason = refuse?.(facts);
            if (reason) throw new Refusal(reason);
            this.given[model] = given[model];
            this.close(); // what reads the old one
            this.start();
            return facts;
        } finally {
            trial.close();
        }
    }

    // The file that ships is the model's again.
    takeBack(model) {
        delete this.given[model];
        this.close();
        this.start();
    }

    start() {
        this.isClosed = false;
        const url = URL.createObjectURL(new Blob([WORKER_SOURCE], { type: 'text/javascript' }));
        this.worker = new Worker(url);
        this.worker.onmessage = ({ data }) => this.hear(data);
        this.worker.onerror = (event) => this.restart(event.message || 'the worker stopped');
        this.opened = {};
        this.ready = this.program().then((program) => this.send('start', { program }).promise);
        this.ready.catch(() => {});
    }

    // A worker that has died takes its jobs with it; the next wish finds a new one.
    restart(reason) {
        this.worker.terminate();
        const jobs = [...this.jobs.values()];
        this.jobs.clear();
        this.start();
        for (const job of jobs) job.reject(new Refusal(`the program stopped and was started again (${reason})`));
    }

    hear({ job: number, part, done, error, cancelled, fatal }) {
        const job = this.jobs.get(number);
        if (!job) return;
        if (part) return void job.part?.(part);
        this.jobs.delete(number);
        if (done) job.resolve(done);
        else if (cancelled) job.reject(new Cancelled());
        else if (fatal) {
            job.reject(new Refusal(`the program stopped and was started again (${error})`));
            this.restart(error);
        } else job.reject(new Refusal(error));
    }

    send(wish, data, part) {
        if (this.isClosed) return { job: 0, promise: Promise.reject(new Cancelled()) };
        const job = ++this.number;
        const promise = new Promise((resolve, reject) => this.jobs.set(job, { resolve, reject, part }));
        this.worker.postMessage({ job, wish, ...data });
        return { job, promise };
    }

    // The facts of a model, once it is open in the worker.
    open(model) {
        this.opened[model] ??= (async () => {
            const { file, tokenizer: its } = this.given[model] ?? {};
            const [bytes, tokenizer] = await Promise.all([
                file ?? this.file('model.bin'),
                its ?? this.file('tokenizer.bin'),
                this.ready,
            ]);
            return this.send('open', { model, bytes, tokenizer }).promise;
        })();
        this.opened[model].catch((error) => {
            if (error instanceof Cancelled) return;
            delete this.opened[model];
            if (!this.given[model]) delete this.files['model.bin'];
        });
        return this.opened[model];
    }

    // Runs a wish on a model: { promise, cancel() }. `part` is called with what is there so far.
    ask(wish, data, part) {
        return this.leastBusy().doIt(wish, data, part);
    }

    doIt(wish, data, part) {
        let job,
            cancelled = false;
        const promise = this.open(data.model).then(() => {
            if (cancelled) throw new Cancelled();
            const sent = this.send(wish, data, part);
            job = sent.job;
            return sent.promise;
        });
        this.wishes++;
        promise.catch(() => {}).finally(() => this.wishes--);
        return {
            promise,
            cancel: () => {
                cancelled = true;
                if (job && this.jobs.has(job)) this.worker.postMessage({ job, wish: 'cancel' });
            },
        };
    }

    // The program, compiled once: browsers make code that runs often faster, and all workers then have that.
    program() {
        return (this.files.program ??= this.file('rope.wasm').then(WebAssembly.compile));
    }

    // The same on the page itself, for what takes microseconds: plans and frequencies.
    async small() {
        const apart = (program) => new Promise((goOn) => setTimeout(() => goOn(loadRope(program)))); // a task of its own
        return (this.smallRope ??= this.program().then(apart));
    }
}
