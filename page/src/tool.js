// The tool: a model's config and what it comes to, on a page of its own, config.html. It needs the program and no model.
import { cardsBelowChips } from './cards.js';
import { h } from './dom.js';
import { takes } from './given.js';
import { lacking } from './lacking.js';
import { followAddress } from './links.js';
import { yourModel } from './panels/config.js';
import { panelOf } from './place.js';
import { loadRope } from './rope.js';
import { state } from './state.js';

const boot = document.getElementById('boot'),
    main = document.getElementById('tool');

// What this page has no use for.
const elsewhere = (what) => () => {
    throw new Error(`This page reads configs alone. Drop ${what} on index.html, which runs models.`);
};

async function begin() {
    boot.textContent = 'Starting the program …';
    const lacks = lacking();
    if (lacks) throw new Error(lacks);
    const answer = await fetch('rope.wasm');
    if (!answer.ok) throw new Error(`rope.wasm is not beside the page (the server says ${answer.status})`);
    const small = await loadRope(await WebAssembly.compile(await answer.arrayBuffer()));
    globalThis.rope = { small, state }; // for the console, and for tests
    takes('model', elsewhere('a model'));
    takes('text', elsewhere('a text'));
    const panel = panelOf(yourModel, { small, isTool: true });
    const title = h('h2', { id: `h-${panel.id}`, tabIndex: -1 }, panel.title);
    main.append(h('section.panel', { id: panel.id, 'aria-labelledby': title.id }, title, panel.body));
    cardsBelowChips(main);
    followAddress();
    boot.textContent = state.complaints()[0] ?? '';
    boot.classList.toggle('bad', !!boot.textContent);
}

begin().catch((error) => {
    boot.textContent = error.message;
    boot.classList.add('bad');
});
