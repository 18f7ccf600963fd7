// The page: the first picture at once, then the program, then the chapters with their panels.
import recorded from '../recorded.json';
import { cardsBelowChips } from './cards.js';
import { contents } from './contents.js';
import { button, count, h } from './dom.js';
import { Engine, isOneFile } from './engine.js';
import { followAddress, go, linkTo } from './links.js';
import { lacking } from './lacking.js';
import { learnMethods, methodFor } from './methods.js';
import { whereAHeadLooks } from './panels/attention.js';
import { film } from './panels/film.js';
import { oneHand } from './panels/hand.js';
import { opening } from './panels/opening.js';
import { scene } from './panels/scene.js';
import { tuned } from './panels/tuned.js';
import { leaveAll, panelOf } from './place.js';
import { still } from './still.js';
import { state } from './state.js';
import { CHAPTERS } from './story.js';
import { prose } from './terms.js';

// Panels that show what was recorded of the model that ships, or its sibling; and no recordings, for another model.
const OF_THE_SHIPPED = [oneHand, whereAHeadLooks, tuned];
const NOTHING = {
    write: {},
    race: {},
    tuned: {},
    passkey: [],
    scores: {},
    stale: {},
    twice: {},
    temper: {},
    layers: {},
    scene: {},
};

const shipped = recorded.model; // theta, trained context, head_dim: what the model says of itself once it is open
const main = document.getElementById('panels'),
    boot = document.getElementById('boot');

function heading(tag, id, title, number) {
    const mark = number && h('span.number', { ariaHidden: 'true' }, number);
    return h(tag, { id: `h-${id}`, tabIndex: -1, ariaLabel: title }, mark, title, linkTo(id, title));
}

const LATEST_MS = 40;
// Between two pieces the browser may paint, and hear the reader.
const breath = () =>
    new Promise((goOn) => {
        requestAnimationFrame(() => setTimeout(goOn));
        setTimeout(goOn, LATEST_MS); // where nothing is painted, or slowly
    });

// For those who go by Tab: past a chapter, to the next one. It shows while it has the focus.
const skipTo = (chapter) =>
    chapter && button(`skip to “${chapter.title}”`, () => go(chapter.id), { className: 'skip-on' });

// What needs no program: the chapters' frames, and in the first of them the demonstration. A piece at a time.
async function frames() {
    const chapters = CHAPTERS.map(({ id, title, lead }, i) =>
        h(
            'section.chapter',
            { id, 'aria-labelledby': `h-${id}` },
            heading('h2', id, title, String(i + 1)),
            skipTo(CHAPTERS[i + 1]),
            lead ? h('p.lead', prose(lead)) : null,
        ),
    );
    main.append(chapters[0], h('div.story', h('div.steps', chapters.slice(1, -1))), chapters.at(-1));
    contents(document.getElementById('toc'), CHAPTERS); // whose switch says whether things may move
    await breath();
    const write = () => {
        go('break');
        /** @type {HTMLElement} */ (document.querySelector('#break button.primary'))?.click();
    };
    const runs = button('Run it yourself', write, { primary: true, id: 'run-it', disabled: true });
    const scrolling = film({ recorded, shipped });
    document.getElementById(CHAPTERS[0].id).append(
        scrolling.box,
        h('div.row.middle.under', runs, button('What happened? ↓', () => go(CHAPTERS[1].id)), scrolling.go),
    );
    await breath();
    document.getElementById(CHAPTERS[0].id).append(
        h('p.status', { id: 'whose', hidden: true }),
        opening({ recorded, shipped }),
        h(
            'p.fine',
            `Recorded, with seed ${recorded.first.seed}. Marked, and counted as perplexity: what a reader of the last 512 ` +
                'tokens did not expect.',
        ),
    );
    for (const word of document.querySelectorAll('[data-term]'))
        word.replaceWith(...prose(`[${word.textContent}|${word.getAttribute('data-term')}]`));
    document.querySelector('footer').prepend(h('p', button('Start again from the top', startAgain)));
}

// The title is of the model that runs; what was recorded stays of the one that ships.
function showWhose(trained, own) {
    document.querySelector('h1').textContent = `What happens after position ${count(trained)}?`;
    const whose = document.getElementById('whose');
    whose.hidden = !own;
    whose.textContent = own ? `These texts are recorded, of model.bin. All panels below run ${own.name}.` : '';
}

// For the next reader at the same screen: nothing of what the last one pasted, moved or opened is left.
function startAgain() {
    history.replaceState(null, '', location.pathname + location.search);
    scrollTo(0, 0);
    location.reload();
}

/**
 * Makes all panels, one at a time: those of the story, then the scene, then those under "more". `isWanted` tells whether
 * they still are: another model takes the place of one that is not through.
 * @param {object} context @param {() => boolean} isWanted
 */
async function fill(context, isWanted) {
    let all = 1;
    const fits = (make) => !context.own || !OF_THE_SHIPPED.includes(make);
    for (const old of document.querySelectorAll('.filled, #scene')) old.remove();
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
        const box = h('div.filled'),
            further = more.filter(fits);
        document.getElementById(id).append(box);
        for (const make of panels.filter(fits)) {
            box.append(section(make));
            await breath();
            if (!isWanted()) return;
        }
        if (id === 'yours' && !isOneFile) box.append(h('p', h('a.button', { href: 'config.html' }, 'Open the tool for configs')));
        if (on) box.append(h('p.lead.on', prose(on)));
        if (!further.length) continue;
        const folded = h('details.more', h('summary', `More: ${what}`));
        box.append(folded);
        rest.push(...further.map((make) => [folded, make]));
    }
    await breath();
    if (!isWanted()) return;
    const { title, body } = panelOf(scene, context, all++);
    document.querySelector('.story').prepend(h('section', { id: 'scene', ariaLabel: title }, body));
    for (const [folded, make] of rest) {
        await breath();
        if (!isWanted()) return;
        folded.append(section(make));
    }
}

async function begin() {
    boot.textContent = 'Starting the program …';
    await breath();
    await frames();
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
    const keys = state.keys();
    // All panels, for the model that ships or for one of the reader's: { name, facts }.
    let newest = 0;
    const build = async (own) => {
        const mine = ++newest;
        delete main.dataset.whole;
        leaveAll();
        state.keepOnly(keys);
        const facts = own?.facts ?? shipped,
            page = small.describe(facts.headDim, facts.theta, facts.trainedContext);
        globalThis.rope = { engine, small, page, state, methodFor }; // for the console, and for tests
        const what = {
            shipped: facts,
            recorded: own ? { first: recorded.first, ...NOTHING } : recorded,
            file: own?.name ?? 'model.bin',
            own,
        };
        const context = { engine, small, page, book, methods: learnMethods(page, facts), build, hasToolBeside: !isOneFile, ...what };
        showWhose(facts.trainedContext, own);
        await fill(context, () => mine === newest);
        if (mine === newest) main.dataset.whole = 'yes';
    };
    cardsBelowChips(main);
    await breath();
    await build();
    document.getElementById('run-it').removeAttribute('disabled');
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

begin().catch((error) => {
    const memory = /memory|allocat/i.test(error.message)
        ? 'This device has too little memory free for the program.'
        : '';
    boot.textContent = `${memory || error.message} The pictures below were recorded.`;
    boot.classList.add('bad');
    for (const { id } of CHAPTERS) document.getElementById(id).append(still(id, recorded));
});
