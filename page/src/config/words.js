// What is said of a config: its layers, its verdict, what to do about a refusal.
import { count, short } from '../dom.js';
import { titleOf } from '../methods.js';

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
            ? 'What you can do: paste only the block of its full-attention layers, the braces behind rope_scaling or ' +
                  'rope_parameters. Then say head_dim, rope_theta and the trained context below. It is read as if all ' +
                  'layers had that block; layers with another one are not shown.'
            : 'What you can do: say head_dim, rope_theta and the trained context in a block of your own, such as ' +
                  '{"rope_type": "default", "rope_theta": 10000}.';
    return /^line \d+:/.test(reason)
        ? 'What you can do: look at that line. A whole config.json, a block of it, or “"rope_scaling": {…}” alone will do.'
        : '';
}

// Is there no angle that training did not show, at any length? So it is where full layers do not turn, and the others see
// no further than training went. `notes` are --explain's.
export const isNothingNew = (notes, trained) => !!notes.full && +notes.window_sliding <= trained;

// One sentence on top: do the settings hold at that length? `rows` are those of --check, `alike` the engines that read them
// as they are meant.
export function verdictOf(rows, length, { notes, trained, alike }) {
    const failed = rows.filter((row) => row.verdict === 'fail');
    if (isNothingNew(notes, trained))
        return (
            'No angle is new here, at any length: full layers do not turn, and sliding ones see the last ' +
            `${count(+notes.window_sliding)} positions, no more than training showed.`
        );
    if (!rows.length) return 'These settings say nothing that could be checked without the weights.';
    if (!failed.length && notes.map && length > trained)
        return (
            `These settings reach ${count(length)} positions by their distance map, ${titleOf(notes.map)}: no distance passes ` +
            `${count(trained)}.${alike ? '' : ' No engine that was examined reads them so.'}`
        );
    if (!failed.length) return `These settings hold together, and reach ${count(length)} positions.`;
    const reach = failed.find((row) => row.check === 'reach'),
        others = failed.filter((row) => row !== reach).map((row) => row.check);
    const far = reach ? [`are made for ${count(+reach.value)} positions, not ${count(length)}`] : [];
    const wrong = others.length ? [`contradict one another (${others.join(', ')})`] : [];
    return `These settings ${[...far, ...wrong].join(', and ')}.`;
}

// What is worth a word besides, a line each: the config's own contradictions, the plan's advice, and what follows from
// the numbers. `sharp` is the share of the contrast between neighbors that is left.
export function remarks({ told, advice, method, scale, sharp, length, isOwn, isOnTop }) {
    const all = told.remarks.map(inWords);
    if (advice) all.push(inWords(advice));
    if (isOnTop)
        all.push(
            `It does not say how long it was trained without the factor. If the ${count(told.trainedContext)} positions are ` +
                'those with it, as with Gemma 3, they are the reach, and not that many times the factor.',
        );
    if (told.unused) all.push(`Not used, since they mean nothing to this rope_type: ${told.unused}.`);
    if (sharp < 0.6)
        all.push(
            isOwn
                ? 'The fastest hands are slowed, as in the file. A model that was trained this way reads well; any other ' +
                      'reads nonsense.'
                : 'The fastest hands are slowed: neighbors blur. Without tuning at this scale, expect nonsense at any length.',
        );
    if (scale > 1 && !isOnTop && length <= told.trainedContext && !method.startsWith('dynamic'))
        all.push(
            `${count(length)} positions need no scaling; a fixed factor of ${short(scale)} costs a little on short texts.`,
        );
    if (told.maxPositions && length > told.maxPositions)
        all.push(`max_position_embeddings says ${count(told.maxPositions)}: other programs may cut there.`);
    return all;
}
