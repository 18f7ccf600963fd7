// The story: six chapters in a reader's order, the panels that carry each, and those that stand under "more".
import { whatRopeIs } from './panels/arrows.js';
import { whereAHeadLooks } from './panels/attention.js';
import { yourModel } from './panels/config.js';
import { fixIt } from './panels/fix.js';
import { hideAKey } from './panels/key.js';
import { kindsOfLayers } from './panels/layers.js';
import { distances } from './panels/maps.js';
import { theText } from './panels/opening.js';
import { race } from './panels/race.js';
import { countTheTurns } from './panels/turns.js';
import { yourWeights } from './panels/weights.js';

/**
 * A chapter. `on` is how the text goes on to the next; `more` are panels for those who want more, and `what` is their
 * line. Leads are written as terms.js reads them; that of the first stands in index.html.
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
        panels: [theText],
        more: [],
        on:
            'Nothing was lost at 512: the [weights] are the same, and so are the words. All that changed is how far apart ' +
            '[tokens|token] are.',
    },
    {
        id: 'turning',
        title: 'What turns',
        lead:
            'The model turns a distance into the hands of 32 clocks. The gold mark on top of each is the token it looks for; the ' +
            'hand shows how far the asking token has turned away from it. Drag the sentence and watch: the first hands race, ' +
            'and the last ones hardly move.',
        panels: [whatRopeIs],
        more: [],
        on: 'In training, some hands went round many times. Others hardly moved.',
    },
    {
        id: 'why',
        title: 'Why it breaks',
        lead:
            'A [head] scores every earlier token and attends to the highest scores. Each clock adds a bar to the score of the gold ' +
            'sentence. Close by, the slow hands make that score large, and the sentence wins. Drag it past 512: the red hands are ' +
            'at angles that never came up in training, their bars shrink or fall below zero, and another token wins. The answer ' +
            'stays right to about 1.4 times the trained distance. Then it is lost.',
        panels: [countTheTurns],
        more: [whereAHeadLooks],
        what: 'where a head looks, near and far',
        on:
            'Nothing in the weights says what these new angles mean. So bring the slow hands back to angles that the model knows.',
    },
    {
        id: 'mend',
        title: 'Fix it yourself',
        lead:
            'Slow the red hands down until the model finds the number again. [YaRN|yarn] does the same: it slows the hands that ' +
            'never went round the most, those that went round a few times less, and the fastest not at all.',
        panels: [fixIt],
        more: [distances],
        what: 'changing distances instead of speeds',
        on:
            'The model finds the number, and its text reads well. But a text can read well even if its beginning has been forgotten.',
    },
    {
        id: 'proof',
        title: 'The proof',
        lead: 'A model with a [window] of 512 writes well forever, because it forgets the rest. So ask it for something far back.',
        panels: [hideAKey],
        more: [race],
        what: 'a race of all methods, by perplexity',
        on:
            'No weight was changed: only how fast the hands turn and, slightly, how large scores are. Most of today’s models have such hands.',
    },
    {
        id: 'yours',
        title: 'Your model',
        lead: 'How far does yours go, and do all programs that serve it read its settings the same way?',
        panels: [yourModel],
        more: [yourWeights, kindsOfLayers],
        what: 'your own weights, and models with two kinds of layers',
    },
];
