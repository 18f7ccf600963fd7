// A config.json or its rope block is pasted: how it turns every pair, what is unseen at the length one wants,
// and the block and options to paste elsewhere.
import { engineReadings } from '../config/engines.js';
import { EXAMPLES } from '../config/examples.js';
import { gapFields } from '../config/gaps.js';
import { blockToPaste, configIn, hasOriginal, lacksServed, promiseOf, scoresOf, withServed } from '../config/paste.js';
import { verdictTable } from '../config/verdicts.js';
import { wavelengths } from '../config/waves.js';
import { inWords, isNothingNew, layersInWords, reachOf, remarks, TUNED, verdictOf, wayOut } from '../config/words.js';
import { afterPause, breath, button, command, count, fact, h, short, stateChips, stateSlider, statusLine } from '../dom.js';
import { mb, takes } from '../given.js';
import { go } from '../links.js';
import { methodChoices, SIX, titleOf } from '../methods.js';
import { seenShare, sharpness } from '../numbers.js';
import { choice, number, state, text } from '../state.js';

const METHODS = [...SIX, 'dynamic-yarn'];
const MOST_LINK = 8000, // characters of a config in a link
    MOST_FILE = 3e5; // characters of a config: a few thousand are usual
const WANT = [512, 1048576], // positions
    FIRST_WANT = 131072;
const TYPING_MS = 350; // between two keys
const SEEN = 0.98; // share of a pair's angles from which on they count as seen

// A config as a link carries it: the same JSON without blanks, or as it is where it is no JSON. Numbers stay as they are
// written, since some engines take 4 and 4.0 for two things.
function squeezed(words) {
    try {
        JSON.parse(words);
    } catch {
        return words.trim();
    }
    return words.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1');
}

// The pairs that are looked at, { plain, frequencies }, and whether they are those of sliding layers because the full
// ones do not turn. Where layers differ, the full ones come first.
function pairsOf({ notes, kinds }) {
    const none = { plain: [], frequencies: [] };
    const isBare = !!notes.full;
    const pairs = isBare ? kinds.sliding : (kinds.full ?? kinds['']);
    const sliding = isBare ? [] : (kinds.sliding?.frequencies ?? []);
    return { ...(pairs ?? none), isBare, sliding };
}

// The numbers on top: method, trained positions, theta, pairs that go past their angles at a distance of `far`, contrast.
function factsOf(told, method, { scale, attention }, pairs, { far, map }, hasKinds) {
    const { trainedContext, theta } = told;
    const { plain, frequencies, isBare } = pairs;
    const unseen = frequencies.filter((f, i) => seenShare(plain[i], f, trainedContext, far) < SEEN).length;
    const layers = isBare ? ' of full, and of sliding layers' : ' of full layers';
    const hasScale = scale > 1 && !['none', 'window'].includes(method);
    const isTuned = unseen && TUNED.includes(method);
    return [
        fact(
            isBare ? `no RoPE; ${titleOf(method)}` : [titleOf(method), map].filter(Boolean).join(' + '),
            `method${hasKinds ? layers : ''}` +
                (hasScale ? `, scale ${short(scale)}` : '') +
                (attention === 1 ? '' : `, attention × ${short(attention, 4)}`),
        ),
        fact(count(trainedContext), 'trained positions, by the file'),
        fact(count(theta), 'theta'),
        fact(
            `${unseen} of ${plain.length}`,
            `pairs go past the angles of the first ${count(trainedContext)} positions` +
                (isTuned ? ': fine where a model was trained on with these settings' : ''),
        ),
        fact(`${Math.round(sharpness(plain, frequencies) * 100)} %`, 'of the contrast between neighbors left'),
    ];
}

// What a config's settings come to: { box, put, clear }. Where the tool has a page of its own, the story has the verdict alone,
// and a `link` to the rest. `put` goes in steps of some milliseconds.
function resultsOf(isShort, link) {
    const onTop = h('p.verdict', { role: 'status' }),
        dated = h('p.fine'),
        facts = h('div.numbers'),
        kindsOfLayers = h('p'),
        verdicts = h('div.overflow'),
        readings = h('ul.readings'),
        warnings = h('ul.warnings'),
        block = h('pre.block', { tabIndex: 0 }),
        blockTold = h('p'),
        rowsOnTop = h(
            'p',
            'What --check says about these settings. Only the weights can tell how well the model then reads:',
        );
    const checkLine = command(),
        enginesLine = command(),
        serverLine = command(),
        elsewhereLines = command();
    const waves = wavelengths();
    const want = stateSlider('the length you want', 'want', {
        min: WANT[0],
        max: WANT[1],
        log: true,
        step: 512,
        show: count,
    });
    const other = stateChips('method', 'other', [['', 'as it says'], ...methodChoices(METHODS)]);
    const inWhole = [
        other,
        facts,
        kindsOfLayers,
        rowsOnTop,
        verdicts,
        checkLine,
        warnings,
        h('p', 'Which of these readings does a running server use? This asks the server:'),
        serverLine,
        h(
            'p.hint',
            'The wavelength of each pair: small dots plain, large dots as scaled. Hollow and red dots go past the angles of ' +
                'training before the length you want; they are red where the settings do not hold. Squares are the pairs of ' +
                'sliding layers.',
        ),
        waves.box,
        h('h3', 'To paste elsewhere'),
        blockTold,
        block,
        elsewhereLines,
    ];
    const asked = [
        h('div.row', want),
        h('p', 'How the programs that serve models read it, the furthest off first:'),
        readings,
        dated,
        enginesLine,
    ];
    const box = h('div', onTop, isShort ? link : [asked, inWhole].flat());

    // What engines make of it: { alike, engines }, how many read it as it is meant, and their rows. A block alone does not
    // say where they stop: `hasLimit` tells whether the config does.
    function putReadings(plan, length, reach, hasLimit) {
        try {
            const { date, rows } = plan.engines(length),
                engines = rows.map((row) => (hasLimit ? row : { ...row, most: Infinity })),
                { items, alike } = engineReadings(engines, length, reach);
            dated.textContent = `As of ${date}. Where an engine has a limit, the config sets it.`;
            readings.replaceChildren(...items);
            return { alike, engines };
        } catch (error) {
            dated.textContent = '';
            readings.replaceChildren(h('li', inWords(error.message)));
            return { alike: 0, engines: [] };
        }
    }

    // The block, and whether it is the file's own.
    function putBlock(plan, pasted, told, alike) {
        try {
            const { lines, words, isOwn } = blockToPaste(plan.json(), pasted, told, alike);
            block.textContent = lines.join('\n');
            blockTold.textContent = words;
            return isOwn;
        } catch (error) {
            blockTold.textContent = '';
            block.textContent = `# ${error.message}`;
            return false;
        }
    }

    // The same at a terminal. `pasted` is the config, `filled` the options for what it does not say.
    function putCommands(pasted, filled, chosen, length, isOwn) {
        const file = [['config.json', pasted]],
            how = `--rope-config config.json${filled}`,
            method = chosen ? ` --rope ${chosen}` : '';
        checkLine.put([`./run mymodel.bin --check --rope-config config.json${method} -n ${length}`, file]);
        enginesLine.put([`./run --engines ${how} -n ${length}`, file]);
        serverLine.put([`python3 server_probe.py http://127.0.0.1:8080 mymodel.bin --rope-config config.json`, file]);
        const published = [`./run --rope-json ${how}${method} -n ${length}`, file];
        elsewhereLines.put(...(isOwn ? [] : [published]), [`./run --explain ${how}${method} -n ${length}`, file]);
    }

    return {
        box,
        *put(page, pasted, filled) {
            const length = state.get('want'),
                chosen = state.get('other'),
                told = page.facts(),
                plan = page.plan(chosen, length),
                isOnTop = !chosen && told.factor > 1 && told.countsFactor,
                rows = plan.judge(length),
                failed = rows.filter((row) => row.verdict === 'fail'),
                scaled = plan.frequencies(length);
            yield;
            const explained = plan.explain(length);
            yield;
            const { notes, kinds } = explained,
                method = chosen || told.method,
                pairs = pairsOf(explained),
                sharp = sharpness(pairs.plain, pairs.frequencies),
                trained = told.trainedContext,
                advice = isNothingNew(notes, trained) ? '' : plan.advice(length),
                far = notes.map ? plan.distance(length - 1, 0) + 1 : length, // no later key is further away
                reach = reachOf(rows) || Infinity,
                { alike, engines } = putReadings(plan, length, reach, told.maxPositions > 0);
            yield;
            box.hidden = false;
            onTop.textContent = verdictOf(rows, length, { notes, told, engines, isOwn: !chosen, hasOriginal: hasOriginal(pasted) });
            onTop.classList.toggle('bad', failed.length > 0 || /^No engine/.test(onTop.textContent));
            facts.replaceChildren(...factsOf(told, method, scaled, pairs, { far, map: notes.map }, !!kinds.sliding));
            const said = remarks({ told, advice, method, scale: scaled.scale, sharp, length, reach, isOwn: !chosen, isOnTop });
            warnings.replaceChildren(...said.map((line) => h('li', line)));
            const grown = scoresOf(pasted);
            kindsOfLayers.textContent =
                layersInWords(notes, kinds, length) +
                (grown === 1 ? '' : ` All scores are multiplied by ${short(grown, 3)}, by mscale_all_dim.`);
            rowsOnTop.hidden = !rows.length;
            verdicts.replaceChildren(verdictTable(rows));
            const isOwn = putBlock(plan, chosen ? '' : pasted, told, alike);
            putCommands(pasted, filled, chosen, length, isOwn);
            yield;
            waves.put({
                plain: pairs.plain,
                frequencies: pairs.frequencies,
                sliding: pairs.sliding.slice(0, pairs.plain.length),
                trained: told.trainedContext,
                want: length,
                far,
                holds: !failed.length,
            });
        },
        // Nothing of the config before stays: neither numbers nor commands nor a file to save.
        clear() {
            box.hidden = true;
            for (const one of [onTop, dated, kindsOfLayers, block, blockTold]) one.textContent = '';
            for (const one of [checkLine, enginesLine, serverLine, elsewhereLines]) one.put();
            for (const one of [facts, verdicts, readings, warnings]) one.replaceChildren();
            waves.put(null);
        },
    };
}

export function yourModel({ small, hasToolBeside, isTool }) {
    state.add('config', text(MOST_LINK), '');
    state.add('want', number(...WANT), FIRST_WANT);
    state.add('other', choice(['', ...METHODS]), '');
    const first = JSON.stringify(EXAMPLES['Llama 3.1'], null, 2);
    let pasted = state.get('config') || first;
    const status = statusLine(),
        advised = h('p.fine'),
        carried = h('p.fine');
    const area = h('textarea', {
        rows: isTool ? 11 : 5,
        value: pasted,
        spellcheck: false,
        ariaLabel: 'a config.json or its rope_scaling block',
    });
    const readSoon = afterPause(TYPING_MS, () => read());
    const gaps = gapFields(() => {
        newest++; // what is being read is of another number
        results.box.ariaBusy = 'true';
        readSoon();
    });
    let askedFor = ''; // the text for which numbers are asked: their fields stay while one is typed that cannot be used
    const link = h('a', { href: 'config.html' }, 'All about it: engines, pairs, other methods, a block to paste'),
        results = resultsOf(hasToolBeside, h('p', link));
    let newest = 0; // of the readings: an older one goes no further

    function refuse(reason) {
        newest++;
        results.box.ariaBusy = 'false';
        const isEmpty = !pasted.trim();
        status.say(
            isEmpty ? 'The field is empty: paste a config.json, or take an example above.' : inWords(reason),
            !isEmpty,
        );
        advised.textContent = wayOut(reason, pasted);
        if (askedFor !== pasted) gaps.ask([]);
        results.clear();
    }

    // A file that is new is shown at the length that it promises or reaches, until the reader has said another one.
    let wished = state.get('want') !== FIRST_WANT,
        isOurs = false;
    function promise(told) {
        if (wished) return;
        isOurs = true;
        const reach = hasOriginal(pasted) && !TUNED.includes(told.method) ? told.trainedContext * told.factor : 0;
        state.set('want', Math.min(WANT[1], Math.max(WANT[0], reach, promiseOf(told))));
        isOurs = false;
    }

    async function read() {
        const mine = ++newest;
        results.box.ariaBusy = 'true';
        if (pasted.length > MOST_FILE) return refuse(`this has ${mb(pasted.length)}, which is no config.json`);
        let page;
        try {
            const { headDim, theta, trainedContext, served } = gaps.numbers,
                isBare = lacksServed(pasted),
                whole = isBare ? withServed(pasted, served) : pasted;
            page = small.configure(whole, headDim, theta, trainedContext);
            const told = page.facts();
            status.say('');
            advised.textContent = '';
            askedFor = pasted;
            if (gaps.ask([...told.filled, ...(isBare ? ['served'] : [])])) {
                results.clear();
                results.box.ariaBusy = 'false';
                return;
            }
            promise(told);
            link.href = `config.html${pasted === first ? '' : `#config=${encodeURIComponent(squeezed(pasted))}`}`;
            const steps = results.put(page, whole, gaps.options(told));
            while (!steps.next().done) {
                await breath();
                if (mine !== newest) return;
            }
            results.box.ariaBusy = 'false';
        } catch (error) {
            refuse(error.message);
        } finally {
            page?.close();
        }
    }

    const paste = afterPause(150, () => {
        const { json, length } = configIn(area.value);
        if (json !== pasted) gaps.forget('served'); // of the block before
        pasted = json;
        if (length >= WANT[0] && length <= WANT[1]) state.set('want', length);
        const written = pasted === first || pasted.length > MOST_FILE ? '' : squeezed(pasted);
        state.set('config', written.length <= MOST_LINK ? written : '');
        carried.textContent =
            written.length <= MOST_LINK
                ? ''
                : `A link to this page cannot carry this config: it has ${count(written.length)} characters, and ` +
                  `${count(MOST_LINK)} are the most.`;
        read();
    });
    area.oninput = () => {
        newest++; // what is being read is of words that are gone
        results.box.ariaBusy = 'true';
        paste();
    };
    const take = (words) => {
        area.value = words;
        area.oninput();
    };
    takes('config', (words) => {
        take(words);
        go('model');
    });
    const pick = h('input', { type: 'file', accept: '.json,.txt,application/json', ariaLabel: 'a config.json' });
    pick.onchange = async () => {
        const [file] = pick.files;
        if (file?.size > MOST_FILE) refuse(`${file.name} has ${mb(file.size)}, which is no config.json`);
        else if (file) take(await file.text());
        pick.value = '';
    };
    const examples = h(
        'div.chips',
        Object.entries(EXAMPLES).map(([name, config]) => button(name, () => take(JSON.stringify(config, null, 2)))),
    );
    state.on('want', () => {
        if (isOurs) return;
        wished = true;
        read();
    });
    state.on('other', read);
    state.on('config', (value) => {
        if (value && value !== squeezed(area.value)) {
            area.value = pasted = value;
            read();
        }
    });
    read();
    return {
        id: 'model',
        title: 'Its config',
        body: [
            h(
                'p',
                'Paste a checkpoint’s config.json, or only its rope_scaling block, or drop the file anywhere on this page.',
            ),
            h('div.row.middle', examples, pick),
            area,
            status,
            advised,
            carried,
            gaps.box,
            results.box,
        ],
    };
}
