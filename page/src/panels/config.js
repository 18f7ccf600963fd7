// A config.json or its rope block is pasted: what it makes of every pair, what is unseen at the length one wants,
// and the block and options to paste elsewhere.
import { scaleLog } from 'd3-scale';
import {
    afterPause,
    bands,
    button,
    command,
    count,
    drawing,
    fact,
    h,
    onceAFrame,
    short,
    stateChips,
    stateSlider,
    statusLine,
} from '../dom.js';
import { mb, takes } from '../given.js';
import { go } from '../links.js';
import { methodChoices, SIX, titleOf } from '../methods.js';
import { seenShare, sharpness, TURN } from '../numbers.js';
import { choice, number, state, text } from '../state.js';

const EXAMPLES = {
    'Llama 3.1': {
        model_type: 'llama',
        hidden_size: 4096,
        num_attention_heads: 32,
        max_position_embeddings: 131072,
        rope_theta: 500000,
        rope_scaling: {
            rope_type: 'llama3',
            factor: 8,
            low_freq_factor: 1,
            high_freq_factor: 4,
            original_max_position_embeddings: 8192,
        },
    },
    'Qwen2.5 + YaRN': {
        model_type: 'qwen2',
        hidden_size: 3584,
        num_attention_heads: 28,
        max_position_embeddings: 32768,
        rope_theta: 1000000,
        rope_scaling: { type: 'yarn', factor: 4, original_max_position_embeddings: 32768 },
    },
    'Llama 2, nothing said': {
        model_type: 'llama',
        hidden_size: 4096,
        num_attention_heads: 32,
        max_position_embeddings: 4096,
    },
    'a block alone': { rope_type: 'linear', factor: 4 },
};
// What --check compares, in words: value and limit.
const CHECKS = {
    reach: 'positions that the settings are made for, and those you want',
    method: 'as chosen, and as in the file: a model tuned with one is another with another',
    context: 'positions that the file promises, and those that its settings are made for',
    temperature: 'as in the file, and what its lengths give',
    'llama3-factors': 'how many of three the file says',
};
const METHODS = [...SIX, 'dynamic-yarn'];
const TUNED = ['llama3', 'longrope']; // methods that models are trained on with
// The numbers that may be missing: as the program's option, and as a config has it.
const GAPS = {
    headDim: ['--head-dim', 'head_dim'],
    theta: ['--theta', 'rope_theta'],
    trainedContext: ['--train-ctx', 'max_position_embeddings'],
};
// Engines by their names for people, where these are others.
const ENGINES = {
    hf5: 'Hugging Face 5',
    hf4: 'Hugging Face 4',
    vllm: 'vLLM',
    sglang: 'SGLang',
    'mlx-lm': 'MLX-LM',
    exllamav3: 'ExLlamaV3',
    exllamav2: 'ExLlamaV2',
    'ik_llama.cpp': 'ik_llama.cpp',
};
const MOST_LINK = 8000, // characters of a config in a link
    MOST_FILE = 8e6, // bytes
    HEIGHT = 270;

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

// What the program says, for people: large numbers with commas, and methods by their names on the page.
const inWords = (line) =>
    line
        .replace(/(?<![.\d])\d{5,}\b/g, (digits) => count(+digits))
        .replace(/\brope none\b/g, 'plain RoPE')
        .replace(/(try|or) --rope (\S+)/g, '$1 $2');

// '0-2 5' in words, with what is said of one layer or of several.
function theLayers(list, one, several) {
    const single = /^\d+$/.test(list);
    const layers = list.replaceAll('-', ' to ').replace(/(\d) (?=\d)/g, '$1, ');
    return single ? `Layer ${layers} ${one}: it` : `Layers ${layers} ${several}: they`;
}

// What differs from layer to layer, or grows with the position; '' where nothing does.
function layersInWords(notes, kinds, want) {
    const grows = notes.temperature
        ? `Queries grow with their position: at ${count(want)} they are ${short(+notes.temperature, 4)} times as long. `
        : '';
    if (!kinds.sliding && !notes.full) return grows;
    const of = (key) => notes[`${key}_sliding`] ?? notes[key],
        full = notes.layers_full ? theLayers(notes.layers_full, 'is full', 'are full') : 'Its full layers',
        slide = notes.layers_sliding ? theLayers(notes.layers_sliding, 'slides', 'slide') : 'Its sliding layers';
    const sees = (list) => (/^\d+$/.test(list ?? '') ? 'sees' : 'see'),
        turns = (list) => (/^\d+$/.test(list ?? '') ? 'turns' : 'turn');
    const still = notes.full ? ` and never ${turns(notes.layers_full)}` : '',
        how = of('method') === 'none' ? 'plain' : `with ${titleOf(of('method'))}`;
    return (
        `${grows}${full} ${sees(notes.layers_full)} all positions${still}. ${slide} ${sees(notes.layers_sliding)} the ` +
        `last ${count(+of('window'))}, so nothing there is further away, and ${turns(notes.layers_sliding)} by theta ` +
        `${count(+of('theta'))}, ${how}.`
    );
}

// What a reader can do about a refusal.
function wayOut(reason, words) {
    const hasBlock = /"rope_(scaling|parameters)"/.test(words);
    if (/model_type|architectures|layer|sliding|text_config/.test(reason))
        return hasBlock
            ? 'What you can do: paste only the block of its full-attention layers, the braces behind rope_scaling or ' +
                  'rope_parameters. Then say head_dim, rope_theta and the trained context below. It is read as if all ' +
                  'layers had that block; layers with another one are not shown.'
            : 'What you can do: say head_dim, rope_theta and the trained context in a block of your own, such as ' +
                  '{"rope_type": "default", "rope_theta": 10000}.';
    return /^line \d+:/.test(reason)
        ? 'What you can do: look at that line. A whole config.json, a block of it, or “"rope_scaling": {…}” alone will do.'
        : '';
}

export function yourModel({ small }) {
    state.add('config', text(MOST_LINK), '');
    state.add('want', number(512, 1048576), 131072);
    state.add('other', choice(['', ...METHODS]), '');
    const first = JSON.stringify(EXAMPLES['Llama 3.1'], null, 2);
    let pasted = state.get('config') || first;
    const status = statusLine(),
        onTop = h('p.verdict', { role: 'status' }),
        gaps = h('p.fine'),
        advised = h('p.fine'),
        carried = h('p.fine'),
        dated = h('p.fine'),
        facts = h('div.numbers', { ariaLive: 'polite' }),
        kindsOfLayers = h('p', { ariaLive: 'polite' }),
        verdicts = h('div.overflow', { ariaLive: 'polite' }),
        readings = h('ul.readings', { ariaLive: 'polite' }),
        warnings = h('ul.warnings'),
        block = h('pre.block', { tabIndex: 0 });
    const checkLine = command(),
        elsewhereLines = command(),
        enginesLine = command();
    const area = h('textarea', {
        rows: 11,
        value: pasted,
        spellcheck: false,
        ariaLabel: 'a config.json or its rope_scaling block',
    });
    // The numbers that may be missing. Where the config says one, its field shows that and cannot be changed.
    const numbers = { headDim: 128, theta: 10000, trainedContext: 4096 };
    const field = (gap, label) => {
        const typed = () => {
            numbers[gap] = Math.max(0, +input.value || 0);
            read();
        };
        const input = h('input', { type: 'number', value: numbers[gap], size: 9, min: 0, oninput: typed });
        const put = (said) => {
            input.disabled = said !== undefined;
            if (document.activeElement !== input) input.value = said ?? numbers[gap];
        };
        return Object.assign(h('label.field', h('span', label), input), { put });
    };
    const fields = {
        headDim: field('headDim', 'head_dim'),
        theta: field('theta', 'rope_theta'),
        trainedContext: field('trainedContext', 'trained context'),
    };
    const missing = h('details', h('summary', 'what a block alone does not say'), h('div.row', Object.values(fields)));

    const svg = drawing('bars', HEIGHT).attr('role', 'img');
    const lines = svg.append('g'),
        plainDots = svg.append('g'),
        dots = svg.append('g'),
        slidingDots = svg.append('g'),
        axis = svg.append('g');
    const box = h('div', svg.node());
    let picture = null; // { plain, frequencies, trained, want, holds }

    // The wavelength of each pair, before and after, beside the trained context and the length that is wanted.
    function draw() {
        const width = box.clientWidth || 600;
        svg.attr('width', width).attr('viewBox', `0 0 ${width} ${HEIGHT}`);
        if (!picture) return void svg.selectAll('g').selectAll('*').remove();
        const { plain, frequencies, trained, want, holds, sliding } = picture,
            n = plain.length;
        const waves = (list) => Array.from(list, (f) => TURN / f);
        const x = bands()
            .domain(Array.from(plain, (_, i) => i))
            .range([58, width - 8])
            .padding(0.3);
        const high = Math.max(want * 2, ...waves(plain), ...waves(frequencies).filter(isFinite), ...waves(sliding));
        const y = scaleLog()
            .domain([5, high * 1.4])
            .range([HEIGHT - 30, 10]);
        const shares = Array.from(frequencies, (f, i) => seenShare(plain[i], f, trained, want));
        const unseen = shares.filter((s) => s < 0.98).length;
        svg.attr('aria-label', `wavelengths of ${n} pairs; ${unseen} meet unseen angles`);
        const at = (sel, list) =>
            sel.attr('cx', (_, i) => x(i) + x.bandwidth() / 2).attr('cy', (_, i) => y(Math.min(high, TURN / list[i]))); // what stands still has no wavelength
        at(
            plainDots
                .selectAll('circle')
                .data(Array.from(plain))
                .join('circle')
                .attr('r', 2)
                .style('fill', 'var(--soft)')
                .style('opacity', 0.6),
            plain,
        );
        at(
            dots
                .selectAll('circle')
                .data(shares)
                .join('circle')
                .attr('r', Math.min(5, Math.max(2.5, x.bandwidth() / 2.4)))
                .style('fill', (s) => (s >= 0.98 ? 'var(--blue)' : holds ? 'var(--paper)' : 'var(--never)'))
                .style('stroke', (s) => (s < 0.98 && holds ? 'var(--blue)' : null)),
            frequencies,
        );
        dots.selectAll('circle')
            .selectAll('title')
            .data((s, i) => [
                `pair ${i}: wavelength ${short(TURN / frequencies[i], 4)} (plain ${short(TURN / plain[i], 4)}), ` +
                    `${short((trained * plain[i]) / TURN)} turns in training, ${Math.round(s * 100)} % of its ` +
                    `angles seen`,
            ])
            .join('title')
            .text((t) => t);
        const side = 5;
        slidingDots
            .selectAll('rect')
            .data(sliding)
            .join('rect')
            .attr('width', side)
            .attr('height', side)
            .attr('x', (_, i) => x(i) + x.bandwidth() / 2 - side / 2)
            .attr('y', (f) => y(TURN / f) - side / 2)
            .style('fill', 'none')
            .style('stroke', 'var(--soft)');
        const rules = [
            [trained, `trained ${count(trained)}`, 'var(--blue)'],
            [want, `wanted ${count(want)}`, 'var(--vermillion)'],
        ];
        lines
            .selectAll('line')
            .data(rules)
            .join('line')
            .attr('x1', 58)
            .attr('x2', width - 8)
            .attr('y1', ([v]) => y(v))
            .attr('y2', ([v]) => y(v))
            .style('stroke', ([, , c]) => c)
            .attr('stroke-dasharray', '5 4');
        lines
            .selectAll('text')
            .data(rules)
            .join('text')
            .attr('x', 64)
            .attr('y', ([v], i) => y(v) + (i || want < trained ? -5 : want > trained * 1.6 ? -5 : 14))
            .text(([, t]) => t)
            .style('fill', ([, , c]) => c);
        const ticks = [10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8].filter((t) => t < high * 1.4);
        axis.selectAll('text.y')
            .data(ticks)
            .join('text')
            .attr('class', 'y')
            .attr('x', 50)
            .attr('text-anchor', 'end')
            .attr('y', (t) => y(t) + 4)
            .text((t) => (t >= 1e6 ? `${t / 1e6}M` : count(t)));
        const every = Math.ceil(n / (width < 560 ? 8 : 16));
        axis.selectAll('text.x')
            .data(Array.from(plain, (_, i) => i).filter((i) => i % every === 0))
            .join('text')
            .attr('class', 'x')
            .attr('text-anchor', 'middle')
            .attr('x', (i) => x(i) + x.bandwidth() / 2)
            .attr('y', HEIGHT - 8)
            .text(String);
    }
    const redraw = onceAFrame(draw);
    new ResizeObserver(redraw).observe(box);

    // Nothing of the config before stays: neither numbers nor commands nor a file to save.
    function refuse(reason) {
        status.say(inWords(reason), true);
        advised.textContent = wayOut(reason, pasted);
        missing.open ||= advised.textContent !== '';
        results.hidden = true;
        picture = null;
        onTop.textContent = '';
        gaps.textContent = '';
        dated.textContent = '';
        for (const one of Object.values(fields)) one.put();
        for (const shown of [checkLine, enginesLine, elsewhereLines]) shown.put();
        facts.replaceChildren();
        kindsOfLayers.textContent = '';
        verdicts.replaceChildren();
        readings.replaceChildren();
        warnings.replaceChildren();
        block.textContent = '';
        redraw();
    }

    function read() {
        let page;
        try {
            page = small.configure(pasted, numbers.headDim, numbers.theta, numbers.trainedContext);
            show(page);
        } catch (error) {
            refuse(error.message);
        } finally {
            page?.close();
        }
    }

    function show(page) {
        const want = state.get('want'),
            other = state.get('other'),
            told = page.facts(),
            { trainedContext, theta: base } = told,
            plan = page.plan(other, want),
            rows = plan.judge(want),
            failed = rows.filter((row) => row.verdict === 'fail');
        const advice = plan.advice(want),
            { scale, attention } = plan.frequencies(want),
            { notes, kinds } = plan.explain(want);
        // Where layers differ, the full ones come first. Where these do not turn, the sliding ones are what there is.
        const bare = !!notes.full,
            { plain, frequencies } = (bare ? kinds.sliding : (kinds.full ?? kinds[''])) ?? {
                plain: [],
                frequencies: [],
            };
        const method = other || told.method,
            shares = Array.from(frequencies, (f, i) => seenShare(plain[i], f, trainedContext, want));
        const unseen = shares.filter((s) => s < 0.98).length,
            sharp = sharpness(plain, frequencies);
        status.say('');
        advised.textContent = '';
        results.hidden = false;
        onTop.textContent = verdictOf(failed, want);
        onTop.classList.toggle('bad', failed.length > 0);
        showGaps(told);
        facts.replaceChildren(
            fact(
                bare ? `no RoPE; ${titleOf(method)}` : titleOf(method),
                `method${kinds.sliding ? (bare ? ' of full, and of sliding layers' : ' of full layers') : ''}${scale > 1 && !['none', 'window'].includes(method) ? `, scale ${short(scale)}` : ''}` +
                    (attention === 1 ? '' : `, attention × ${short(attention, 4)}`),
            ),
            fact(count(trainedContext), 'positions trained, as it says'),
            fact(count(base), 'theta'),
            fact(
                `${unseen} of ${plain.length}`,
                `pairs go past the angles of the first ${count(trainedContext)} positions` +
                    (unseen && TUNED.includes(method) ? ': fine where a model was trained on with these settings' : ''),
            ),
            fact(`${Math.round(sharp * 100)} %`, 'of the contrast between neighbors left'),
        );
        const all = told.remarks.map(inWords);
        if (advice) all.push(inWords(advice));
        if (told.unused) all.push(`Not used, since they mean nothing to this rope_type: ${told.unused}.`);
        if (sharp < 0.6)
            all.push(
                'The fastest hands are slowed: neighbors blur. Without tuning at this scale, expect nonsense at ' +
                    'any length.',
            );
        if (scale > 1 && want <= trainedContext && !method.startsWith('dynamic'))
            all.push(
                `${count(want)} positions need no scaling; a fixed factor of ${short(scale)} costs a little on ` +
                    `short texts.`,
            );
        if (told.maxPositions && want > told.maxPositions)
            all.push(`max_position_embeddings says ${count(told.maxPositions)}: other programs may cut there.`);
        warnings.replaceChildren(...all.map((line) => h('li', line)));
        kindsOfLayers.textContent = layersInWords(notes, kinds, want);
        showVerdicts(rows);
        showReadings(plan, want);
        try {
            block.textContent = plan.json().join('\n');
        } catch (error) {
            block.textContent = `# ${error.message}`;
        }
        const file = [['config.json', pasted]],
            chosen = other ? ` --rope ${other}` : '',
            filled = told.filled.map((gap) => ` ${GAPS[gap][0]} ${told[gap]}`).join(''),
            how = `--rope-config config.json${filled}`;
        checkLine.put([`./run mymodel.bin --check --rope-config config.json${chosen} -n ${want}`, file]);
        enginesLine.put([`./run --engines ${how} -n ${want}`, file]);
        elsewhereLines.put(
            [`./run --rope-json ${how}${chosen} -n ${want}`, file],
            [`./run --explain ${how}${chosen} -n ${want}`, file],
        );
        const sliding = bare ? [] : (kinds.sliding?.frequencies ?? []).slice(0, plain.length);
        picture = { plain, frequencies, trained: trainedContext, want, holds: !failed.length, sliding };
        redraw();
    }

    // One sentence on top: do the settings hold at that length? `failed` are rows of --check.
    function verdictOf(failed, length) {
        if (!failed.length) return `These settings hold together, and reach ${count(length)} positions.`;
        const reach = failed.find((row) => row.check === 'reach'),
            others = failed.filter((row) => row !== reach).map((row) => row.check);
        const far = reach ? [`are made for ${count(+reach.value)} positions, not ${count(length)}`] : [];
        const wrong = others.length ? [`contradict one another (${others.join(', ')})`] : [];
        return `These settings ${[...far, ...wrong].join(', and ')}.`;
    }

    // Which of the numbers below stood in for what the config leaves out.
    function showGaps(told) {
        const said = { headDim: told.wholeHead, theta: told.theta, trainedContext: told.trainedContext };
        for (const [gap, one] of Object.entries(fields)) one.put(told.filled.includes(gap) ? undefined : said[gap]);
        if (told.filled.length) missing.open = true;
        const taken = told.filled.map((gap) => `${GAPS[gap][1]} is taken to be ${count(told[gap])}`);
        gaps.textContent = taken.length
            ? `It does not say everything: ${taken.join(', ')}. Change it in the fields above.`
            : '';
    }

    // What other programs make of the same config: the one that is furthest off first, a sentence each; and how far each
    // of the others goes.
    function showReadings(plan, length) {
        let rows;
        try {
            let date;
            ({ date, rows } = plan.engines(length));
            dated.textContent = `Facts of ${date}. Where an engine has a limit, it is the one that the config gives it.`;
        } catch (error) {
            dated.textContent = '';
            return readings.replaceChildren(h('li', inWords(error.message)));
        }
        const reference = rows.find((row) => row.verdict === 'same') ?? rows[0];
        const far = ({ verdict, times, attention }) =>
            verdict === 'refused'
                ? 1e-9
                : Math.abs(Math.log(times)) + Math.abs(Math.log(attention / reference.attention) || 0);
        // What an engine refuses it refuses for all of its layers; and it may read all of them otherwise in one way.
        const alikeIn = (a, b) => a?.engine === b?.engine && a.verdict === b.verdict && a.note === b.note,
            again = (row, i) => alikeIn(row, rows[i - 1]);
        const others = rows
            .filter((row, i) => row.verdict !== 'same' && !again(row, i))
            .sort((a, b) => far(b) - far(a));
        const name = ({ engine }) => ENGINES[engine] ?? engine,
            stops = ({ most }) => (most < length ? ` It stops at ${count(most)} positions.` : '');
        const sentence = (row) => {
            const { version, verdict, pair, times, note } = row;
            const turns =
                pair === null
                    ? ''
                    : times > 1
                      ? ` Pair ${pair} turns ${short(times)} times as fast.`
                      : ` Pair ${pair} turns ${short(1 / times)} times as slowly.`;
            const does = { refused: 'refuses it', ignored: 'ignores it', differs: 'reads it otherwise' }[verdict];
            const why = note === '-' ? '' : ` (${inWords(note)})`;
            const inAll = rows.some((other) => other !== row && alikeIn(row, other));
            const where = row.layers && verdict !== 'refused' ? ` in ${inAll ? 'all' : row.layers} layers` : '';
            return h(`li.${verdict}`, h('b', name(row)), ` ${version} ${does}${where}${why}.${turns}${stops(row)}`);
        };
        // Engines that read it alike, by where they stop.
        const odd = new Set(others.map(({ engine }) => engine)),
            same = rows.filter((row, i) => !odd.has(row.engine) && rows[i - 1]?.engine !== row.engine),
            limits = [...new Set(same.map(({ most }) => (most < length ? most : Infinity)))].sort((a, b) => b - a);
        const alike = limits.map((limit) => {
            const names = same.filter(({ most }) => (most < length ? most : Infinity) === limit).map(name),
                all = names.length > 1,
                reads = `${names.join(', ')} read${all ? '' : 's'} it as it is meant`;
            return limit === Infinity
                ? h('li.same', `${reads}, for all ${count(length)} positions.`)
                : h('li.differs', `${reads}, but stop${all ? '' : 's'} at ${count(limit)} positions.`);
        });
        readings.replaceChildren(
            ...others.map(sentence),
            ...(same.length ? alike : [h('li.same', 'No two read it alike.')]),
        );
    }

    function showVerdicts(rows) {
        const cells = ({ check, value, limit, verdict }) => [
            h('td', h('b', check), h('br'), h('span.fine', CHECKS[check] ?? '')),
            ...[value, limit].map((x) => h('td', isNaN(x) ? x : short(+x, 6))),
            h('td', h('b', verdict)),
        ];
        verdicts.replaceChildren(
            h(
                'table.list',
                h(
                    'thead',
                    h(
                        'tr',
                        ['check', 'value', 'limit', 'verdict'].map((name) => h('th', name)),
                    ),
                ),
                h(
                    'tbody',
                    rows.map((row) => h(`tr.${row.verdict}`, cells(row))),
                ),
            ),
        );
    }

    const paste = afterPause(150, () => {
        pasted = area.value;
        const link = pasted === first ? '' : squeezed(pasted);
        state.set('config', link.length <= MOST_LINK ? link : '');
        carried.textContent =
            link.length <= MOST_LINK
                ? ''
                : `A link to this page cannot carry this config: it has ${count(link.length)} characters, and ` +
                  `${count(MOST_LINK)} are the most.`;
        read();
    });
    area.oninput = paste;
    const take = (words) => {
        area.value = words;
        paste();
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
    const want = stateSlider('the length you want', 'want', {
        min: 512,
        max: 1048576,
        log: true,
        step: 512,
        show: count,
    });
    const other = stateChips('method', 'other', [['', 'as it says'], ...methodChoices(METHODS)]);
    state.on(['want', 'other'], read);
    state.on('config', (value) => {
        if (value && value !== squeezed(area.value)) {
            area.value = pasted = value;
            read();
        }
    });
    const results = h(
        'div',
        onTop,
        h('div.row', want),
        other,
        facts,
        kindsOfLayers,
        h('p', 'What --check says of these settings; how well the model then reads, only weights can tell:'),
        verdicts,
        checkLine,
        warnings,
        h('p', 'What the programs that people serve with make of the same config, the one furthest off first:'),
        readings,
        dated,
        enginesLine,
        h(
            'p.hint',
            'The wavelength of every pair, small dots plain, large ones as scaled; empty or red: it goes past ' +
                'the angles of its first training before the length you want. Red where the settings do not hold. ' +
                'Squares are the pairs of sliding layers.',
        ),
        box,
        h('h3', 'To paste elsewhere'),
        block,
        elsewhereLines,
    );
    read();
    return {
        id: 'model',
        title: 'Its config',
        body: [
            h(
                'p',
                'Paste the config.json of a checkpoint, or only its rope_scaling; or drop the file anywhere. How far ' +
                    'will it go?',
            ),
            h('div.row.middle', examples, pick),
            area,
            status,
            advised,
            carried,
            missing,
            gaps,
            results,
        ],
    };
}
