// Who finds a key that is far back? A guess first; then the scene beside it shows the answers, and a grid all lengths and
// depths.
import { count, h, predict } from '../dom.js';
import { keyGrid } from './grid.js';

export function hideAKey({ file, engine, shipped, recorded, own, scene }) {
    const L = shipped.trainedContext,
        READERS = [
            ['window', 'the window'],
            ['none', 'plain RoPE'],
            ['yarn', 'YaRN'],
        ];
    const grid = keyGrid({ engine, recorded, file, trained: L });
    grid.hidden = true; // it has the answer
    scene.hide(() => (grid.hidden = false));
    const guess = predict(
        `All three read ${count(scene.most)} tokens. Near the end, YaRN and the window have nearly the same perplexity, and plain RoPE a ` +
            'higher one. Which of them finds the number at the beginning?',
        READERS.map(([, title]) => title),
        (i) => {
            const [name] = READERS[i];
            scene.unhide(name);
            guess.say(
                `${own ? 'The scene shows the result.' : name === 'yarn' ? 'Yes.' : 'No: YaRN does.'} The window does ` +
                    'not reach so far back, and plain RoPE sees it at angles that never came up in training. Choose each of them ' +
                    'below the clocks, and drag the sentence closer. The grid below has every length up to eight times the ' +
                    'trained one.',
            );
        },
    );
    return {
        id: 'key',
        title: 'Hide a key',
        body: [guess, h('div.scene-slot'), grid],
    };
}
