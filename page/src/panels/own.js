// A sentence and a number of the reader's own, hidden in the scene in the place of the gold one.
import { button, h, statusLine } from '../dom.js';
import { ownNeedle } from '../haystack.js';
import { runs } from '../job.js';
import { kept } from '../place.js';
import { state } from '../state.js';

const CLOSE = 256, // positions in which it is asked for first
    MOST_LETTERS = 150;

export function yourNumber({ engine, shipped }) {
    const status = statusLine(),
        length = Math.min(CLOSE, shipped.trainedContext / 2);
    const field = h('input.own-field', {
        type: 'text',
        maxLength: MOST_LETTERS,
        value: state.get('own'),
        placeholder: 'The number of my house is 40217.',
        ariaLabel: 'a sentence of yours with five digits in it',
    });
    // Close by first: a sentence that this model cannot answer there shows nothing about distance.
    const trying = runs({
        engine,
        status,
        inputs: ['own'],
        work: async (run) => {
            const sentence = state.get('own'),
                { key, question } = ownNeedle(sentence);
            status.say('Asking for it close by …');
            const { answer } = await run.ask('path', {
                model: 'model',
                method: 'none',
                length,
                depth: 0,
                key,
                sentence,
            });
            status.say(
                answer === key
                    ? `Close by it answers “${question.trim()}” with ${key}. Now drag your sentence away.`
                    : `Even close by it answers “${question.trim()}” with “${answer}”: this model is small. It does better ` +
                          'with “… is 40217.”',
            );
        },
    });
    function hide() {
        const words = field.value.trim();
        if (!words) return show();
        if (!ownNeedle(words))
            return status.say(
                'Five digits in a row are expected, once, and words before them: The number of my house is 40217.',
                true,
            );
        state.set('own', words);
        trying.begin();
    }
    function show() {
        field.value = '';
        trying.end();
        state.set('own', '');
        status.say('');
    }
    const again = button('Back to 73914', show);
    const draw = () => (again.hidden = !state.get('own'));
    state.on('own', draw);
    draw();
    field.onkeydown = kept((event) => {
        if (event.key === 'Enter') hide();
    });
    return {
        id: 'own',
        title: 'Hide a number of your own',
        body: [
            h('p', 'Five digits, in a sentence of yours. It becomes the gold one.'),
            h('div.row.middle', field, button('Hide it', hide, { primary: true }), again),
            status,
        ],
    };
}
