// What the model answers: digits, each right in its place or wrong; or words, which are none of the digits asked for.
import { h } from '../dom.js';

// { box, put }. `put` takes the key that is right, the answer (undefined: not known), and whether it is of another place, or
// made up, of which nothing is right.
export function answerBox() {
    const box = h('span.digits', { role: 'img' });
    return {
        box,
        put(key, answer, { isStale = false, isMadeUp = false } = {}) {
            const isWords = answer !== undefined && !/^\d*$/.test(answer);
            const cells = isWords
                ? [h('b.said.wrong', answer)]
                : Array.from(key, (digit, i) => {
                      const one = answer === undefined ? '?' : (answer[i] ?? ' ');
                      const look = answer === undefined ? 'unsaid' : one === digit && !isMadeUp ? 'right' : 'wrong';
                      return h(`b.${look}`, one);
                  });
            box.replaceChildren(...cells);
            box.classList.toggle('stale', isStale);
            box.ariaLabel = answer === undefined ? 'the answer is not known yet' : `the model answers ${answer}`;
        },
    };
}
