// What is said of a config: its layers, its verdict, what to do about a refusal.
import { count, short } from '../dom.js';
import { titleOf } from '../methods.js';
import { nameOf } from './names.js';

// Methods that models are trained on with.
export const TUNED = ['llama3', 'longrope'];

// What the program says, for people: large numbers with commas, and methods by their names on the page.
export const inWords = (line) =>
    line
        .replace(/(?<![.\d]|--[a-z-]+ )(\d{5,}\b|\d{4}(?= positions))/g, (digits) => count(+digits)) // what follows an option is pasted
        .replace(/\brope none\b/g, 'plain RoPE')
        .replace(/(try|or) --rope (\S+)/g, '$1 $2');

// '0-2 5' in words, with what is said of one layer or of several.
function theLayers(list, one, several) {
    const single = /^\d+$/.test(list);
    const layers = list.replaceAll('-', ' to ').replace(/(\d) (?=\d)/g, '$1, ');
    return single ? `Layer ${layers} ${one}: it` : `Layers ${layers} ${several}: they`;
}

// What differs from layer to layer, or grows with the position; '' where nothing does.
export function layersInWords(notes, kinds, want) {
    const grows = notes.temperature
        ? `Queries grow with their position: at ${count(want)} they are ${short(+notes.temperature, 4)} times as long. `
        : '';
    if (!kinds.sliding && !notes.full)
        return +notes.window ? `${grows}Every layer sees the last ${count(+notes.window)} positions only.` : grows;
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
export function wayOut(reason, words) {
    if (!words.trim()) return '';
    if (/model_type|architectures/.test(reason) && !/"(rope|rotary)/.test(words))
        return (
            'This file says nothing of RoPE. Models such as BERT and GPT-2 know positions in another way: they have no ' +
            'hands that could be slowed.'
        );
    const hasBlock = /"rope_(scaling|parameters)"/.test(words);
    if (/model_type|architectures|layer|sliding|text_config/.test(reason))
        return hasBlock
            ? 'What you can do: paste only the block of its full-attention layers, the braces after rope_scaling or ' +
                  'rope_parameters. Then say head_dim, rope_theta and the trained length. It is read as if all ' +
                  'layers had that block; layers with another one are not shown.'
            : 'What you can do: say head_dim, rope_theta and the trained length in a block of your own, such as ' +
                  '{"rope_type": "default", "rope_theta": 10000}.';
    return /^line \d+:/.test(reason)
        ? 'What you can do: look at that line. A whole config.json, a block of it, or “"rope_scaling": {…}” alone will do.'
        : '';
}

// Is there no angle that training did not show, at any length? So it is where full layers do not turn, and the others see
// no further than training went. `notes` are --explain's.
export const isNothingNew = (notes, trained) => !!notes.full && +notes.window_sliding <= trained;

// The verdict on top, a sentence or two: a refusal by all engines; or how far the settings reach, and where the file and
// engines stop before that. `rows` are those of --check, `engines` those of --engines, `length` is what the reader wants.
export function verdictOf(rows, length, { notes, told, engines, isOwn, hasOriginal }) {
    const { trainedContext: trained, maxPositions: promised } = told;
    const failed = rows.filter((row) => row.verdict === 'fail');
    if (engines.length && engines.every((row) => row.verdict === 'refused'))
        return `No engine opens this file: ${engines[0].note.replace(/^\w+Error: /, '')}.`;
    if (isNothingNew(notes, trained))
        return (
            'No angle is new here, at any length: full layers do not turn, and sliding ones see the last ' +
            `${count(+notes.window_sliding)} positions, fewer than the ${count(trained)} of training.`
        );
    if (!rows.length) return 'These settings say nothing that could be checked without the weights.';
    if (!failed.length && notes.map && length > trained)
        return (
            `These settings reach ${count(length)} positions by their distance map, ${titleOf(notes.map)}: no distance passes ` +
            `${count(trained)}.${engines.some((row) => row.verdict === 'same') ? '' : ' No engine that was examined reads them so.'}`
        );
    // Where a model was trained on with its factor, the file's length is what it was made for.
    const isTuned = isOwn && TUNED.includes(told.method) && promised > 0,
        reach = Math.min(reachOf(rows) || trained, isTuned ? promised : Infinity),
        others = failed.map((row) => row.check).filter((check) => !['reach', 'window'].includes(check)),
        window = failed.find((row) => row.check === 'window');
    const wanted = length > reach ? `, not ${count(length)}` : '',
        wrong = others.length ? ` Its settings contradict one another (${others.join(', ')}).` : '';
    const sees = window ? ` Each layer sees the last ${count(+window.value)} of them.` : '';
    return `Made for ${count(reach)} positions${wanted}.${sees}${wrong}${stopsBefore(reach, promised, engines, hasOriginal)}`;
}

// How many positions the settings are made for, by the rows of --check; 0: they do not say.
export const reachOf = (rows) => +(rows.find((row) => row.check === 'reach')?.value ?? 0);

// Where a file promises less than its settings reach, and which engines stop there. Where it has no original length
// beside, a larger promise would be another trained length.
function stopsBefore(reach, promised, engines, canRaise) {
    if (!promised || promised >= reach) return '';
    const stops = [...new Set(engines.filter((row) => row.most <= promised).map(nameOf))],
        who = stops.length ? `, and ${stops.join(', ')} stop${stops.length > 1 ? '' : 's'} there` : '';
    return ` The file promises ${count(promised)}${who}${canRaise ? ': raise max_position_embeddings' : ''}.`;
}

// What is worth a word besides, a line each: the config's own contradictions, the plan's advice, and what follows from
// the numbers. `sharp` is the share of the contrast between neighbors that is left, `reach` how far the settings go.
export function remarks({ told, advice, method, scale, sharp, length, reach, isOwn, isOnTop }) {
    const all = told.remarks.map(inWords),
        // A file that promises all that its factor gives is of a model that was trained on with it.
        isTrained = isOwn && (TUNED.includes(method) || told.maxPositions >= reach);
    if (advice && !(isTrained && /--factor/.test(advice))) all.push(inWords(advice));
    if (isOnTop)
        all.push(
            `Its ${count(told.trainedContext)} positions count the factor, as Gemma 3's do: they are the reach, and not that ` +
                'many times the factor.',
        );
    if (told.unused) all.push(`Not used, since they mean nothing to this rope_type: ${told.unused}.`);
    if (sharp < 0.6)
        all.push(
            isOwn
                ? 'The fastest hands are slowed, as in the file. A model that was trained this way reads well; any other ' +
                      'reads nonsense.'
                : 'The fastest hands are slowed: neighbors blur. Without tuning at this scale, expect nonsense at any length.',
        );
    if (scale > 1 && !isOnTop && !isTrained && length <= told.trainedContext && !method.startsWith('dynamic'))
        all.push(
            `${count(length)} positions need no scaling; a fixed factor of ${short(scale)} costs a little on short texts.`,
        );
    return all;
}
