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
            'Nothing was lost at 512. The [weights] are the same, and so are the words. What changed is how far back ' +
            '[tokens|token] stand.',
    },
    {
        id: 'turning',
        title: 'What turns',
        lead:
            'Inside the model, distances are hands of clocks. A key stands at the top of each; the hand is how far the query ' +
            'has turned away from it. Pull the sentence away, and watch: the first hands race, the last ones hardly move.',
        panels: [whatRopeIs],
        more: [],
        on: 'Some hands went round many times in training. Others hardly moved.',
    },
    {
        id: 'why',
        title: 'Why it breaks',
        lead:
            'A [head] scores every token before it, and looks at the highest. Each clock gives its part to that score: a bar. ' +
            'Near by, the slow hands all give plus, and the gold sentence wins. Pull it past 512: the red hands are where ' +
            'training never had them, some of their bars fall below zero, and another token wins. The answer holds to about ' +
            '1.4 times the trained distance, and then goes.',
        panels: [countTheTurns],
        more: [whereAHeadLooks],
        what: 'where a head looks, near and far',
        on:
            'Nothing in the weights says what these new angles mean. So bring the slow hands back to angles that they know.',
    },
    {
        id: 'mend',
        title: 'Fix it yourself',
        lead:
            'Slow the red hands until the number is found again. That is what [YaRN|yarn] does: it slows most the hands that ' +
            'never went round, less those that did a few times, and not the fastest.',
        panels: [fixIt],
        more: [distances],
        what: 'distances that are changed in place of speeds',
        on:
            'The number is found, and the text reads well. But a text may read well when its beginning is forgotten.',
    },
    {
        id: 'proof',
        title: 'The proof',
        lead: 'A model with a [window] of 512 writes well for ever: it forgets the rest. So ask for what stands far back.',
        panels: [hideAKey],
        more: [race],
        what: 'the race: perplexity of every method',
        on:
            'No weight was changed: only how fast hands turn, and a little how large scores are. Most models of today have such hands.',
    },
    {
        id: 'yours',
        title: 'Your model',
        lead: 'How far does yours go, and do the programs that serve it read its settings alike?',
        panels: [yourModel],
        more: [yourWeights, kindsOfLayers],
        what: 'its weights, and models with two kinds of layers',
    },
];
