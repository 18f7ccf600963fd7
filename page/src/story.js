// The story: six chapters in a reader's order, the panels that carry each, and those that stand under "more".
import { whatRopeIs } from './panels/arrows.js';
import { whereAHeadLooks } from './panels/attention.js';
import { watchItBreak } from './panels/break.js';
import { clocks } from './panels/clocks.js';
import { yourModel } from './panels/config.js';
import { ropeTakenAway } from './panels/dropped.js';
import { fixIt } from './panels/fix.js';
import { oneHand } from './panels/hand.js';
import { yourMethod } from './panels/formula.js';
import { hideAKey } from './panels/key.js';
import { kindsOfLayers } from './panels/layers.js';
import { distances } from './panels/maps.js';
import { race } from './panels/race.js';
import { whyScoresGoWrong } from './panels/scores.js';
import { staleKeys } from './panels/stale.js';
import { temperature } from './panels/temper.js';
import { tuned } from './panels/tuned.js';
import { countTheTurns } from './panels/turns.js';
import { samePageTwice } from './panels/twice.js';
import { yourWeights } from './panels/weights.js';

/**
 * A chapter. `on` is how the text goes on to the next; `more` are panels for those who want more, and `what` is their
 * line. Leads are written as terms.js reads them.
 * @typedef {object} Chapter
 * @property {string} id
 * @property {string} title
 * @property {string} [lead]
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
        panels: [],
        more: [watchItBreak],
        what: 'run it yourself, with your own opening',
        on:
            'Nothing was lost at 512. The [weights] are the same, and so is the beginning. What changed is how far ' +
            'back [tokens|token] stand.',
    },
    {
        id: 'turning',
        title: 'What turns',
        lead:
            'Inside the model, positions are hands of clocks. The gold sentence has a number to be remembered, a pass key. ' +
            'Pull it away.',
        panels: [whatRopeIs],
        more: [clocks],
        what: 'all clocks of a head, and two tokens to drag',
        on: 'Some hands went round many times in training. Others hardly moved.',
    },
    {
        id: 'why',
        title: 'Why it breaks',
        lead:
            'Past 512 the slow hands point where they never pointed before. To about 1.5 times that distance the head still ' +
            'finds the key; then it does not, and the next word is wrong.',
        panels: [countTheTurns, oneHand],
        more: [whereAHeadLooks, whyScoresGoWrong],
        what: 'where a head looks, and the scores of all 24',
        on:
            'A new angle may lift what is far and worthless, or bury the very key. Training never said what it means. So ' +
            'bring the slow hands back.',
    },
    {
        id: 'mend',
        title: 'Fix it yourself',
        lead:
            'Slow the hands, until the key is found again. [YaRN|yarn] slows most those that never went round, less those ' +
            'that did a few times, and not the fastest.',
        panels: [fixIt],
        more: [temperature, distances, yourMethod],
        what: 'temperature, distances, a method of your own',
        on:
            'With YaRN’s hands one key is found, and the text reads well. But a text may read well when its beginning is ' +
            'forgotten.',
    },
    {
        id: 'proof',
        title: 'The proof',
        lead: 'A model with a [window] of 512 writes well for ever: it forgets the rest. So hide a key, and ask.',
        panels: [hideAKey],
        more: [samePageTwice, race, tuned],
        what: 'the same page twice, the race, and two hundred steps of tuning',
        on:
            'So it finds a key in eight times its length, without any training. Most models of today have such hands.',
    },
    {
        id: 'yours',
        title: 'Your model',
        lead: 'How far does it go? Drop its config.json anywhere, or its weights.',
        panels: [],
        more: [yourModel, yourWeights, kindsOfLayers, ropeTakenAway, staleKeys],
        what: 'its config here, its weights, two kinds of layers, RoPE taken away, growing texts and stale keys',
    },
];
