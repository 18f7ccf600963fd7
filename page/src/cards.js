// A card for each method: what it makes of a pair's speed, why, who found it, and the lines of rope.c that do it. It
// shows wherever a method's name is pressed.
import { h } from './dom.js';
import { colourOf, titleOf } from './methods.js';

/* global METHOD_SOURCES */

const KEPT = 'f';
// By name: the speed of pair i, or the distance that i and j turn by; why; where from.
const METHODS = {
    none: [KEPT, 'RoPE as trained. Every pair keeps its speed.', 'RoFormer', 'arxiv.org/abs/2104.09864'],
    linear: [
        'f / s',
        'All pairs slow down alike. No angle is new, but neighbors blur.',
        'Chen and others, 2023',
        'arxiv.org/abs/2306.15595',
    ],
    ntk: [
        '(θ · s^(d/(d−2)))^(−2i/d)',
        'A larger base. The first pair keeps its speed, the last is s times slower.',
        'bloc97, 2023',
        'www.reddit.com/r/LocalLLaMA/comments/14lz7j5/',
    ],
    'ntk-by-parts': [
        '(f / s) · (1 − g) + f · g',
        'A pair that went round often is kept (g = 1). One that never did is slowed s times (g = 0). Between them, less.',
        'Peng and others, 2023',
        'arxiv.org/abs/2309.00071',
    ],
    yarn: [
        '(f / s) · (1 − g) + f · g, scores × (0.1 ln s + 1)²',
        'Slows most the pairs that never went round, and less those that did a few times. It keeps the fastest. Then ' +
            'it sharpens attention a little, for there is more to see.',
        'Peng and others, 2023',
        'arxiv.org/abs/2309.00071',
    ],
    llama3: [
        '(f / s) · (1 − t) + f · t',
        'By parts again, told by the wavelength of a pair. Llama 3.1 was trained on with it.',
        'Meta, 2024',
        'arxiv.org/abs/2407.21783',
    ],
    longrope: [
        'f / e',
        'A divisor for every pair, found by search.',
        'Ding and others, 2024',
        'arxiv.org/abs/2402.13753',
    ],
    proportional: [
        'f / s, then 0',
        'The first pairs turn, a quarter of them. The slow ones stand still, as in Gemma 4.',
    ],
    cope: [
        'f · ½(1 + cos(πk / (n − 1)))',
        'The last n pairs are slowed to a stop, smoothly. They are those that never complete their turns.',
        'Li and others, 2026',
        'arxiv.org/abs/2602.05258',
    ],
    window: [KEPT, 'Nothing is slowed. The model sees its last 512 tokens and forgets the rest.'],
    rerope: ['D = min(i − j, w)', 'All that is far is equally far.', 'Su, 2023', 'kexue.fm/archives/9708'],
    'leaky-rerope': [
        'D = w + (i − j − w) / k',
        'Far distances still differ, k times less.',
        'Su, 2023',
        'kexue.fm/archives/9708',
    ],
    'self-extend': [
        'D = ⌊i/G⌋ − ⌊j/G⌋ + w − ⌊w/G⌋',
        'What is far is counted in groups of G.',
        'Jin and others, 2024',
        'arxiv.org/abs/2401.01325',
    ],
    dca: [
        'D = L − 1 − (j mod c)',
        'Positions begin anew in every chunk of c. This is the far case.',
        'An and others, 2024',
        'arxiv.org/abs/2402.17463',
    ],
    streaming: [
        'D = min(i, W + K − 1) − j',
        'A window, and the first K tokens, which models use as a resting place.',
        'Xiao and others, 2023',
        'arxiv.org/abs/2309.17453',
    ],
    'lm-infinite': [
        'D = min(i − j, W)',
        'A window, and the first K tokens at its far end.',
        'Han and others, 2023',
        'arxiv.org/abs/2308.16137',
    ],
    string: [
        'D = i − j − w + v',
        'Far distances are rare in training. From w on, they begin anew at v.',
        'An and others, 2024',
        'arxiv.org/abs/2410.18745',
    ],
};
const DYNAMIC = 'Here s grows with the text: 1 up to the trained length.';

export const isMethod = (name) => name.replace('dynamic-', '') in METHODS;

export function methodCard(name) {
    const plain = name.replace('dynamic-', ''),
        [formula, why, paper, address] = METHODS[plain],
        source = METHOD_SOURCES[plain];
    const dot = h('i.dot');
    dot.style.background = colourOf(name);
    return [
        h('p.card-title', dot, h('b', titleOf(name))),
        h('p', why, name === plain ? '' : ` ${DYNAMIC}`),
        h(
            'p.card-from',
            paper && h('a', { href: `https://${address}`, target: '_blank', rel: 'noreferrer' }, paper),
            h(
                'details',
                h('summary', 'The formula'),
                h('code', formula.startsWith('D') ? formula : `fᵢ → ${formula}`),
                source && h('pre.block', `// ${source.name}() in rope.c\n${source.code}`),
            ),
        ),
    ];
}

// Below a row of chips is the card of the method that was pressed last; a panel has one.
const shown = new WeakMap(); // cards by panel
export function cardsBelowChips(root) {
    root.addEventListener('click', (event) => {
        const chip = event.target.closest('button.chip'),
            row = chip?.closest('.chips'),
            panel = chip?.closest('section');
        if (!row || row.matches('.no-cards') || /^\d*$/.test(chip.value)) return;
        if (!isMethod(chip.value)) return void shown.get(panel)?.remove();
        if (!shown.has(panel)) shown.set(panel, h('div.method-card', { role: 'note' }));
        const card = shown.get(panel);
        card.replaceChildren(...methodCard(chip.value));
        if (row.nextElementSibling !== card) row.after(card);
    });
}
