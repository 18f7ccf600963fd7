// The page: starts the program, then builds the panels in a learner's order.
import book from '../book.txt';
import recorded from '../recorded.json';
import { h } from './dom.js';
import { Engine } from './engine.js';
import { learnMethods, methodFor } from './methods.js';
import { panelOf } from './place.js';
import { state } from './state.js';
import { watchItBreak } from './panels/break.js';
import { clocks } from './panels/clocks.js';
import { fixIt } from './panels/fix.js';
import { hideAKey } from './panels/key.js';
import { race } from './panels/race.js';
import { yourMethod } from './panels/formula.js';
import { distances } from './panels/maps.js';
import { whyScoresGoWrong } from './panels/scores.js';
import { staleKeys } from './panels/stale.js';
import { temperature } from './panels/temper.js';
import { tuned } from './panels/tuned.js';
import { samePageTwice } from './panels/twice.js';
import { countTheTurns } from './panels/turns.js';
import { yourModel } from './panels/config.js';

const PANELS = [
    watchItBreak,
    clocks,
    countTheTurns,
    whyScoresGoWrong,
    fixIt,
    temperature,
    race,
    hideAKey,
    samePageTwice,
    staleKeys,
    distances,
    tuned,
    yourModel,
    yourMethod,
];

async function begin() {
    const boot = document.getElementById('boot');
    if (typeof WebAssembly !== 'object' || typeof Worker !== 'function')
        throw new Error('this browser has no WebAssembly or no workers, which the program needs');
    const engine = new Engine();
    const small = await engine.small();
    const shipped = recorded.model; // theta, trained context, head_dim: what the model says of itself once it is open
    const page = small.describe(shipped.headDim, shipped.theta, shipped.trainedContext);
    globalThis.rope = { engine, small, page, state, methodFor }; // for the console, and for tests
    const context = { engine, small, page, shipped, recorded, book, methods: learnMethods(page, shipped) };
    const main = document.getElementById('panels'),
        toc = document.getElementById('toc');
    for (const [index, make] of PANELS.entries()) {
        const { number: n, title, id, body } = panelOf(make, context, index);
        const heading = h('h2', h('span.number', { ariaHidden: 'true' }, String(n)), title);
        heading.id = `h-${id}`;
        main.append(h('section', { id, 'aria-labelledby': heading.id }, heading, body));
        toc.append(h('a', { href: `#${id}`, onclick: (event) => jump(event, id) }, h('b', String(n)), ` ${title}`));
    }
    const complaint = state.complaints()[0];
    boot.textContent = complaint ?? '';
    boot.classList.toggle('bad', !!complaint);
    const say = (words, bad) => {
        boot.textContent = words;
        boot.classList.toggle('bad', !!bad);
    };
    if (!complaint) say('Opening the model (5.8 MB) …');
    engine.open('model').then(
        (facts) =>
            complaint ||
            say(
                `model.bin: ${facts.layers} layers of ${facts.heads} heads, trained on ${facts.trainedContext} ` +
                    `positions. Ready.`,
            ),
        (error) => say(`The model could not be opened: ${error.message}`, true),
    );
}

// The address holds the state, so a link to a panel only scrolls.
function jump(event, id) {
    event.preventDefault();
    const section = document.getElementById(id);
    section.scrollIntoView();
    /** @type {HTMLElement} */ (section.querySelector('button, input, [tabindex]'))?.focus({ preventScroll: true });
}

begin().catch((error) => {
    const boot = document.getElementById('boot');
    boot.textContent = `The program could not be started: ${error.message}`;
    boot.classList.add('bad');
});
