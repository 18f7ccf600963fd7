// Does a window find what is far back? A guess first; then the scene beside it shows the answers, and a grid all lengths and
// depths.
import { count, h, predict } from '../dom.js';
import { DEPTHS } from '../haystack.js';
import { keyGrid } from './grid.js';

export function hideAKey({ file, engine, shipped, recorded, own, scene }) {
    const L = shipped.trainedContext,
        grid = keyGrid({ engine, recorded, file, shipped }),
        lengths = grid.lengths.length,
        places = lengths * DEPTHS.length,
        // Those in its last L tokens: all depths of texts that are no longer, and of longer ones the end.
        found = grid.lengths.flatMap((n) => DEPTHS.filter((depth) => n * (1 - depth) <= L)).length,
        choices = [DEPTHS.length, found, places];
    if (grid.lengths.at(-1) <= L)
        return {
            id: 'key',
            title: 'Where is it found?',
            body: [h('p', 'All that is read here is within its training.'), h('div.scene-slot'), grid.box],
        };
    grid.box.hidden = true; // it has the answer
    scene.hide(() => (grid.box.hidden = false));
    const guess = predict(
        `The number is hidden in ${places} places: ${lengths} lengths up to ${count(grid.lengths.at(-1))} tokens, ${DEPTHS.length} ` +
            'depths each. By perplexity the window reads all of these about as well as YaRN. How often does it find the number?',
        choices.map(String),
        (i) => {
            scene.unhide('window');
            guess.say(
                `${choices[i] === found ? 'Yes' : 'No'}: ${found} times${own ? ', wherever it sees that far' : ''}. It does not reach ` +
                    'further back. Now choose plain and YaRN below the clocks.',
            );
        },
    );
    return {
        id: 'key',
        title: 'Where is it found?',
        body: [guess, h('div.scene-slot'), grid.box],
    };
}
