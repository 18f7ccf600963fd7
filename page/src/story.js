// The story: six chapters in a reader's order, the panels that carry each, and those under "more".
import { whatRopeIs } from './panels/arrows.js';
import { allInOne } from './panels/compare.js';
import { yourModel } from './panels/config.js';
import { fixIt } from './panels/fix.js';
import { otherHeads } from './panels/heads.js';
import { hideAKey } from './panels/key.js';
import { distances } from './panels/maps.js';
import { theText } from './panels/opening.js';
import { yourNumber } from './panels/own.js';
import { race } from './panels/race.js';
import { realModels } from './panels/released.js';
import { countTheTurns } from './panels/turns.js';
import { yourWeights } from './panels/weights.js';

/**
 * A chapter. `on` is how the text goes on to the next; `more` are panels for those who want more, and `what` is their
 * line. `goes` is the scene's part that the chapter is about, for those who go by Tab. Leads are written as terms.js reads
 * them; that of the first is in index.html.
 * @typedef {object} Chapter
 * @property {string} id
 * @property {string} title
 * @property {string[]} [lead]
 * @property {string} [goes]
 * @property {Function[]} panels
 * @property {Function[]} more
 * @property {string} [what]
 * @property {string} [on]
 */

/** @type {Chapter[]} */
export const CHAPTERS = [
    {
        id: 'breaks',
        title: 'It breaks',
        panels: [yourNumber, theText],
        more: [],
        on:
            'Nothing was lost at 512: the [weights] are the same, and so are the words. All that changed is how far apart ' +
            '[tokens|token] are.',
    },
    {
        id: 'turning',
        title: 'What turns',
        lead: [
            'RoPE turns a distance into the hands of 32 clocks. The gold mark on top of each is the token it looks for; the hand ' +
                'shows how far the asking token has turned away from it. Drag the sentence: the first hands race, and the last ' +
                'ones hardly move.',
        ],
        goes: 'the slider',
        panels: [whatRopeIs],
        more: [],
        on: 'In training, some hands went round many times. Others hardly moved.',
    },
    {
        id: 'why',
        title: 'Why it breaks',
        lead: [
            'A [head] scores every earlier token and looks where the score is highest. Each clock adds a bar to the score of the ' +
                'number. Drag the sentence past 512. The red hands are at angles that never came up in training. Not all of them ' +
                'do harm. The last row slows one hand at a time, and at most places a single one brings much of the light back: ' +
                'it has turned over, away from the mark, and its bar counts against the number. At the furthest four places it is ' +
                'pair 22 each time, and slowing all other slow hands is not enough.',
            'Now follow the light: it goes to words nearby, none of whose hands is past its arc. Earlier layers look at wrong ' +
                'places, too, so this head asks a different question. And what it looks at, the model says.',
        ],
        goes: 'the slider',
        panels: [otherHeads, countTheTurns],
        more: [realModels],
        what: 'SmolLM2, Gemma 3 and Qwen2.5, which people use',
        on: 'Nothing in the weights says what these new angles mean. So bring the slow hands back to angles that the model knows.',
    },
    {
        id: 'mend',
        title: 'Fix it yourself',
        lead: [
            'Slow the red hands down until the light returns to the gold. [YaRN|yarn] does the same: it slows the hands that ' +
                'never went round the most, those that went round a few times less, and the fastest not at all. Red alone does ' +
                'not decide: [ntk] leaves 15 hands red and finds the number, [linear] leaves none and loses it. What matters is ' +
                'the hand that turns over.',
        ],
        goes: 'the handles',
        panels: [fixIt],
        more: [allInOne, distances],
        what: 'all methods in one chart, and changing distances instead of speeds',
        on: 'The model finds the number, and its text reads well. But a text can read well even if its beginning has been forgotten.',
    },
    {
        id: 'proof',
        title: 'The proof',
        lead: ['A model with a [window] of 512 writes well forever. Is that enough?'],
        goes: 'the methods',
        panels: [hideAKey],
        more: [race],
        what: 'a race of methods, by perplexity',
        on:
            'No weight was changed here: only how fast the hands turn and, slightly, how large scores are. Models that ship with ' +
            'YaRN are usually trained on with it, which is better still. Many of today’s models have such hands.',
    },
    {
        id: 'yours',
        title: 'Your model',
        lead: ['How far does yours go, and do all programs that serve it read its settings the same way?'],
        panels: [yourModel],
        more: [yourWeights],
        what: 'your own weights',
    },
];
