// A run: something that takes its time and that a panel asks the program for. What it was asked with, its jobs at the
// worker, whether it is still wanted and what becomes stale is known here, and nowhere else.
import { Cancelled } from './cancelled.js';
import { button } from './dom.js';
import { kept } from './place.js';
import { state } from './state.js';

// One run. `input` holds the values that its inputs had when it began.
export class Run {
    constructor(engine, inputs) {
        this.engine = engine;
        /** @type {Readonly<Record<string, any>>} */
        this.input = Object.freeze(Object.fromEntries(inputs.map((key) => [key, state.get(key)])));
        /** @type {{ promise: Promise<any>, cancel(): void }[]} */
        this.jobs = [];
        this.isOn = true;
    }

    // See Engine.ask. The parts and the answer of a run that has ended are not heard: it goes no further.
    ask(wish, data, part) {
        return this.take(this.engine.ask(wish, data, part && this.heard(part)));
    }

    // Makes a job of another engine the run's own.
    async take(job) {
        this.jobs.push(job);
        if (!this.isOn) job.cancel();
        const done = await job.promise;
        if (!this.isOn) throw new Cancelled();
        return done;
    }

    // The function, which hears nothing any more when the run has ended.
    heard(listen) {
        return (...given) => {
            if (this.isOn) listen(...given);
        };
    }

    end() {
        this.isOn = false;
        for (const job of this.jobs) job.cancel();
    }
}

// The runs of a panel, of which one goes on at a time:
//   inputs   keys of the state on which a result depends. When one changes the run ends, and `stale` is called, which
//            takes away what was shown for the values before.
//   work     async (run) => ...; what it throws is said by `status`, whose words that end in … go when the run ends.
//   changed  is called when a run begins and when it ends.
/**
 * @param {{ engine: import('./engine.js').Engine, status: ReturnType<import('./dom.js').statusLine>, inputs?: string[],
 *     work: (run: Run) => Promise<any>, stale?: () => void, changed?: () => void }} how
 */
export function runs({ engine, status, inputs = [], work, stale, changed }) {
    let run = null;
    const buttons = [];
    const tell = () => {
        for (const { go, start, stop } of buttons) go.textContent = run ? stop : start;
        changed?.();
    };
    const end = () => {
        if (!run) return;
        run.end();
        run = null;
        if (status.textContent.endsWith('…')) status.say('');
        tell();
    };
    const begin = kept(async () => {
        end();
        const mine = (run = new Run(engine, inputs));
        tell();
        try {
            await work(mine);
        } catch (error) {
            if (mine.isOn && !error.isCancelled) status.say(error.message, true);
        }
        if (mine.isOn) end();
    });
    const renew = () => {
        end();
        stale?.();
    };
    state.on(inputs, renew);
    return {
        begin,
        end,
        renew, // for inputs that are not the state's: the run ends, and what was shown is stale
        isOn: () => run !== null,
        // A button that begins a run, and ends it while it goes on.
        button([start, stop = 'Stop'], look) {
            const go = button(start, () => void (run ? end() : begin()), look);
            buttons.push({ go, start, stop });
            return go;
        },
    };
}
