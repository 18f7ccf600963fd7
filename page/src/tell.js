// What the scene says of its picture, in a sentence: it follows from the numbers that the picture is drawn from, which are
// where the light is, how much of it there is, and what the answer is. tests/page/tell.mjs holds it against what was recorded.
import { percent } from './numbers.js';

export const LOST = 0.1, // share of a head's attention below which it has lost the key
    NEARLY = 3; // digits that are right all the same

const HALF = 0.5; // of a head's attention: it looks there, and nowhere else as much

const sameWord = (one, other) => one.toLowerCase() === other.toLowerCase();

// Does an answer say this word? An answer's first word may be the end of one: …ello for yellow.
function says(answer, word) {
    return answer.split(' ').some((one) => {
        const end = one.startsWith('…') && one.slice(1);
        return sameWord(one, word) || (end && word.toLowerCase().endsWith(end.toLowerCase()));
    });
}

/**
 * What is seen: `light` is 'gold' where the head gives the sentence a tenth, and no word elsewhere more; 'word' where a word
 * elsewhere has more, and a tenth; 'spread' where nothing has. `answer` is 'right',
 * 'echo' (it says the word that it looks at), 'nearly', 'digits', or 'words'.
 * @param {{ share: number, everywhere: number, answer: string }} found @param {string} key @param {string} word
 */
export function seen({ share, everywhere, answer }, key, word) {
    const right = Array.from(answer).filter((one, i) => one === key[i]).length,
        light = share >= LOST && share >= everywhere ? 'gold' : everywhere >= LOST ? 'word' : 'spread';
    if (answer === key) return { light, right, answer: 'right' };
    if (light === 'word' && word && says(answer, word)) return { light, right, answer: 'echo' };
    if (!/^\d/.test(answer)) return { light, right, answer: 'words' };
    return { light, right, answer: right >= NEARLY ? 'nearly' : 'digits' };
}

// Of chapters in which no head has been heard of.
const PLAINLY = {
    right: () => 'Right: it found the number.',
    echo: ({ word }) => `Wrong: it looks at “${word}”, and says so.`,
    digits: ({ right, of }) => `Wrong: ${right} of ${of} digits ${right === 1 ? 'is' : 'are'} in the right place.`,
    words: ({ answer, word, light }) =>
        light === 'word' ? `Wrong: it looks at “${word}”, and says “${answer}”.` : `Wrong: it says “${answer}”.`,
};
PLAINLY.nearly = PLAINLY.digits;

// The others, by where the light is and what the answer is. `wins` tells whether the key's score is the highest.
const GIVES = ({ share }) => `The sentence has ${share}.`,
    LOOKS = ({ word, isLost }) => (isLost ? `Lost: it looks at “${word}”` : `It looks more at “${word}” than at the sentence`),
    BY_HEAD = {
        gold: {
            right: ({ share }) => `Found: the sentence has ${share} of this head’s attention.`,
            other: ({ share, right, of, half, wins, rest }) =>
                half
                    ? `This head looks at the sentence (${share}), but ${right} of ${of} digits are right.`
                    : wins
                      ? `Diluted, not beaten: no other token scores as high, but all together they have ${rest}.`
                      : `Dimmed: the sentence has only ${share}, and ${right} of ${of} digits are right.`,
        },
        word: {
            right: ({ share, word }) =>
                `Right, but not by this head: it looks more at “${word}”, and gives the sentence ${share}. Others find it.`,
            echo: (told) => `${LOOKS(told)}, and says so. ${GIVES(told)}`,
            nearly: ({ share, right, of }) =>
                `This head gives the sentence ${share}. Others still know ${right} of ${of} digits.`,
            other: (told) => `${LOOKS(told)}. ${GIVES(told)}`,
        },
        spread: {
            right: ({ share }) => `Right, but not by this head, which gives the sentence ${share}. Others find it.`,
            nearly: ({ share, right, of }) =>
                `This head gives the sentence ${share}. Others still know ${right} of ${of} digits.`,
            other: (told) => `Lost: it looks at nothing in particular. ${GIVES(told)}`,
        },
    };

/**
 * The sentence. `word` is what the head looks at most outside the gold sentence; `hasHeads` is false in chapters in which
 * nobody has heard of heads.
 * @param {any} found what is drawn @param {{ key: string, word: string, hasHeads: boolean }} of
 */
export function tell(found, { key, word, hasHeads }) {
    const { light, right, answer } = seen(found, key, word),
        told = {
            word,
            right,
            light,
            of: key.length,
            answer: found.answer,
            share: percent(found.share),
            rest: percent(1 - found.share),
            half: found.share >= HALF,
            isLost: found.share < LOST,
            wins: found.score > found.rival,
        };
    if (!hasHeads) return PLAINLY[answer](told);
    return (BY_HEAD[light][answer] ?? BY_HEAD[light].other)(told);
}
