// The scene's text, after that of the passkey task (Mohtashami and Jaggi, arXiv 2305.16300). --passkey's own comes from C.
const INTRO =
    'There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. ' +
    'I will quiz you about the important information there.';
// The task has grass in the place of the hill. To this page's model that is two tokens, gr and ass, and what it looks at it
// writes.
export const HILLS = [
    ' The hill is green.',
    ' The sky is blue.',
    ' The sun is yellow.',
    ' Here we go.',
    ' There and back again.',
];
export const QUESTION = ' What is the pass key? The pass key is';

export const MAX_ANSWER = 12; // tokens
const KEY_SLACK = 8; // tokens by which two keys' texts may differ
export const DEPTHS = [0, 0.25, 0.5, 0.75, 1];

export const needle = (key) => ` The pass key is ${key}. Remember it. ${key} is the pass key.`;

// A reader's own sentence with a number of five digits: { key, needle, question }, or null without one. It is asked for by
// the words before the digits, or, where it begins with them (12345 is my number), by the words that follow.
export function ownNeedle(sentence) {
    const words = sentence.trim().replace(/\s+/g, ' '),
        [, before, key, behind] = words.match(/^(.*?)(?<!\d)(\d{5})(?!\d)(.*)$/) ?? [];
    if (!key || /\d{5}/.test(behind)) return null;
    const turned = behind.match(/^ (is|are|was|were) ([^.,;!?]+)/);
    const asks = before.trim() || (turned && `${turned[2][0].toUpperCase()}${turned[2].slice(1)} ${turned[1]}`);
    return asks ? { key, needle: ` ${words}${/[.!?]$/.test(words) ? '' : '.'}`, question: ` ${asks}` } : null;
}

// A text with so many sentences of filler, of which the share `before` comes before the key. In parts: what is before
// the needle, the needle, what follows it.
/** @param {number} sentences @param {number} before @param {{ needle: string, question: string, filler: string[] }} what */
export function build(sentences, before, { needle: hidden, question, filler }) {
    const at = Math.floor(sentences * before + 0.5);
    const fill = (from, to) => Array.from({ length: to - from }, (_, i) => filler[(from + i) % filler.length]).join('');
    return [INTRO + fill(0, at), hidden, fill(at, sentences) + question];
}

// The most sentences with which text and answer fit in `length` positions; -1: not even the bare task. `count` tells a
// text's tokens.
export function fit(length, count, what) {
    let low = -1,
        high = length;
    while (high - low > 1) {
        const middle = low + Math.floor((high - low) / 2);
        if (count(build(middle, 0.5, what).join('')) + MAX_ANSWER + KEY_SLACK <= length) low = middle;
        else high = middle;
    }
    return low;
}
