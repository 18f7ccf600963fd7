// The page after its first screen: the program, then the chapters with their panels.
import recorded from '../recorded.json';
import { cardsBelowChips } from './cards.js';
import { contents } from './contents.js';
import { breath, button, count, h } from './dom.js';
import { Engine, isOneFile } from './engine.js';
import { lacking } from './lacking.js';
import { followAddress, go, linkTo } from './links.js';
import { learnMethods, methodFor, namedHandles, optionsFor } from './methods.js';
import { leaveAll, panelOf } from './place.js';
import { makeScene } from './scene.js';
import { still } from './still.js';
import { state } from './state.js';
import { CHAPTERS } from './story.js';
import { prose } from './terms.js';

let scene = null; // that is drawn now

// The recordings of another model.
const NOTHING = { race: {}, passkey: [] };

const main = document.getElementById('panels'),
    boot = document.getElementById('boot');

function heading(tag, id, title, number) {
    const mark = number && h('span.number', { ariaHidden: 'true' }, number);
    return h(tag, { id: `h-${id}`, tabIndex: -1, ariaLabel: title }, mark, title, linkTo(id, title));
}

// For those who go by Tab: past a chapter, to the next one. It shows while it has the focus.
const skipTo = (chapter) =>
    chapter && button(`skip to “${chapter.title}”`, () => go(chapter.id), { className: 'skip-on' });

// The scene comes before all chapters in the order of Tab: a way there from each, and scene.js has one back.
const toScene = (what) => button(`to ${what}`, () => scene.focusFirst(), { className: 'skip-on' });

// What needs no program: the chapters' frames. That of the first is in index.html.
function frames() {
    const steps = document.querySelector('.steps');
    for (const [i, { id, title, lead, goes }] of CHAPTERS.entries()) {
        const head = heading('h2', id, title, String(i + 1)),
            skip = skipTo(CHAPTERS[i + 1]),
            first = document.getElementById(id);
        if (first) {
            first.querySelector('h2').replaceWith(head, skip);
            continue;
        }
        const chapter = h(
            'section.chapter',
            { id, 'aria-labelledby': head.id },
            [head, skip, goes && toScene(goes), (lead ?? []).map((words) => h('p.lead', prose(words)))].flat(),
        );
        if (id === 'why') chapter.append(h('div.scene-slot'));
        if (i < CHAPTERS.length - 1) steps.append(chapter);
        else main.append(chapter);
    }
    contents(document.getElementById('toc'), CHAPTERS); // whose switch says whether things may move
    for (const word of document.querySelectorAll('[data-term]'))
        word.replaceWith(...prose(`[${word.textContent}|${word.getAttribute('data-term')}]`));
    document.querySelector('footer').prepend(h('p', button('Start again from the top', startAgain)));
}

// For the next reader at the same screen: nothing of what the last one pasted, moved or opened is left.
function startAgain() {
    history.replaceState(null, '', location.pathname + location.search);
    scrollTo(0, 0);
    location.reload();
}

/**
 * Makes all panels, one at a time: those of the story, then those under "more". `isWanted` tells whether they still are:
 * another model takes the place of one that is not through.
 * @param {object} context @param {() => boolean} isWanted
 */
async function fill(context, isWanted) {
    let all = 1;
    for (const old of document.querySelectorAll('.filled')) old.remove();
    const section = (make) => {
        const panel = panelOf(make, context, all++);
        return h(
            'section.panel',
            { id: panel.id, 'aria-labelledby': `h-${panel.id}` },
            heading('h3', panel.id, panel.title),
            panel.body,
        );
    };
    const rest = [];
    await breath();
    for (const { id, panels, more, what, on } of CHAPTERS) {
        const box = h('div.filled');
        document.getElementById(id).append(box);
        for (const make of panels) {
            box.append(section(make));
            await breath();
            if (!isWanted()) return;
        }
        if (on) box.append(h('p.lead.on', prose(on)));
        if (!more.length) continue;
        const folded = h('details.more', h('summary', `More: ${what}`));
        box.append(folded);
        rest.push(...more.map((make) => [folded, make]));
    }
    for (const [folded, make] of rest) {
        await breath();
        if (!isWanted()) return;
        folded.append(section(make));
    }
}

// `first` is the scene of the first screen; `shipped` are theta, trained length and head_dim of the model that ships, and
// `measured` what was recorded of it for the scene, as makeScene takes it.
async function start(first, shipped, measured) {
    scene = first;
    frames();
    first.learn(recorded.scene);
    first.learnHands(recorded.hands);
    await breath();
    const lacks = lacking();
    if (lacks) throw new Error(lacks);
    const engine = new Engine(),
        loading = /** @type {HTMLProgressElement} */ (document.getElementById('loading'));
    engine.hears = (share) => {
        loading.value = share;
        loading.hidden = share === 1;
    };
    const [small, bytes] = await Promise.all([engine.small(), engine.file('book.txt')]);
    const book = new TextDecoder().decode(bytes);
    let newest = 0;
    // All panels, for the model that ships or for one of the reader's: { name, facts }.
    const build = async (own) => {
        const mine = ++newest;
        delete main.dataset.whole;
        const facts = own?.facts ?? shipped;
        if (mine > 1) {
            leaveAll();
            state.keepOnly(['at']);
            scene = makeScene({ shipped: facts, ...(own ? { recorded: {} } : measured) });
            if (!own) {
                scene.learn(recorded.scene);
                scene.learnHands(recorded.hands);
            }
            document.getElementById('scene').replaceChildren(scene.box);
        }
        const page = small.describe(facts.headDim, facts.theta, facts.trainedContext);
        globalThis.rope = { engine, small, page, state, methodFor }; // for the console, and for tests
        const what = {
            shipped: facts,
            recorded: own ? { ...NOTHING, first: recorded.first } : recorded,
            file: own?.name ?? 'model.bin',
            own,
        };
        learnMethods(page, facts);
        scene.attach({ engine, page, ...what, yours: () => methodFor('yours'), named: namedHandles, options: () => optionsFor(['yours']) });
        for (const word of document.querySelectorAll('[data-trained]')) word.textContent = count(facts.trainedContext);
        if (own) document.querySelector('.what').textContent = `Here runs ${own.name}.`;
        document.querySelector('h1').textContent = `What happens after position ${count(facts.trainedContext)}?`;
        await fill({ engine, small, page, book, build, scene, hasToolBeside: !isOneFile, ...what }, () => mine === newest);
        if (mine === newest) main.dataset.whole = 'yes';
    };
    cardsBelowChips(main);
    await breath();
    await build();
    followAddress();
    const complaint = state.complaints()[0];
    const say = (words, bad) => {
        boot.textContent = words;
        boot.classList.toggle('bad', !!bad);
        boot.classList.toggle('quiet', /Ready/.test(words));
    };
    say(complaint ?? 'Opening the model (5.8 MB) …', !!complaint);
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

// What is closed is printed, too.
/** @type {HTMLDetailsElement[]} */
let closed = [];
addEventListener('beforeprint', () => {
    closed = [...document.querySelectorAll('details')].filter((box) => !box.open);
    for (const box of closed) box.open = true;
});
addEventListener('afterprint', () => {
    for (const box of closed) box.open = false;
});

/** @param {any} first @param {any} shipped @param {any} measured */
export function begin(first, shipped, measured) {
    start(first, shipped, measured).catch((error) => {
        const memory = /memory|allocat/i.test(error.message)
            ? 'This device has too little memory free for the program.'
            : '';
        boot.textContent = `${memory || error.message} The pictures below were recorded.`;
        boot.classList.add('bad');
        for (const { id } of CHAPTERS) document.getElementById(id).append(still(id, recorded));
    });
}
