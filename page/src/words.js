// Tokens as words, and what a model answers, cut where words end.

// The word in which token `i` of a text lies: its tokens [from, to), and its letters without what surrounds them.
/** @param {string[]} tokens @param {number} i */
export function wordAt(tokens, i) {
    let from = i,
        to = i + 1;
    while (from > 0 && !/^\s/.test(tokens[from])) from--;
    while (to < tokens.length && !/^\s/.test(tokens[to])) to++;
    return {
        from,
        to,
        word: tokens
            .slice(from, to)
            .join('')
            .replace(/^\W+|\W+$/g, ''),
    };
}

const begun = (text) =>
        text.replace(/^[^\p{L}\p{N}]+/u, '').replace(/\s+/g, (blank) => (blank.includes('\n') ? '\n' : ' ')),
    isNumber = (line, letters) => new RegExp(`^\\d{${letters}}`).test(line);

// Of what a model writes, its answer: as many digits as asked for, or else its first words, whole ones, up to a stop: no
// more of them than make so many letters. Where it goes on with a word that is not there, … is in its place.
export function said(text, letters) {
    const line = begun(text);
    if (isNumber(line, letters)) return line.slice(0, letters);
    let answer = '';
    for (const word of line
        .match(/^[^\n.,;:!?"]*/)[0]
        .trim()
        .split(' ')) {
        answer = answer ? `${answer} ${word}` : word;
        if (answer.length >= letters) break;
    }
    return /^\p{L}/u.test(text) ? `…${answer}` : answer;
}

// Can what comes next no longer change the answer?
export function isSaid(text, letters) {
    const line = begun(text),
        answer = said(text, letters);
    return (
        isNumber(line, letters) || /[\n.,;:!?"]/.test(line) || (answer.length >= letters && line.length > answer.length)
    );
}
