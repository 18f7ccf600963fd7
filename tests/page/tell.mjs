// The sentence under the answer, held against the numbers that the picture beside it is drawn from: all 30 stops of every
// method that is recorded, and a table of cases. Needs no browser.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { textOf, unpacked } from '../../page/src/searched.js';
import { tell } from '../../page/src/tell.js';
import { wordAt } from '../../page/src/words.js';
import { ROOT, check } from './browser.mjs';

const KEY = '73914',
    read = (name) => JSON.parse(readFileSync(join(ROOT, 'page', name), 'utf8'));

// [answer, share of the sentence, share of the word elsewhere, that word, does the sentence's score win], and what is said
// where no head has been heard of, and of the head.
const CASES = [
    [['73914', 0.99, 0.001, 'blue', true], /^Right: it found/, /^Found: the sentence has 99 %/],
    [['73914', 0, 0.78, 'is', false], /^Right/, /^Right, but not by this head: it looks more at “is”, .* 0 %/],
    [['73914', 0.03, 0.05, 'is', false], /^Right/, /^Right, but not by this head, .* 3 %/],
    [['73912', 0.84, 0.04, 'yellow', true], /4 of 5 digits are/, /^This head looks at the sentence \(84 %\), but 4 of 5/],
    [['70000', 0.35, 0.2, 'blue', true], /1 of 5 digits is in/, /^Diluted.* 65 %/],
    [['70000', 0.35, 0.2, 'blue', false], /1 of 5 digits is in/, /^Dimmed.* 35 %/],
    [['yellow', 0.01, 0.4, 'blue', false], /looks at “blue”, and says “yellow”/, /^Lost: it looks at “blue”\. .* 1 %/],
    [['…ellow', 0.01, 0.4, 'Yellow', false], /looks at “Yellow”, and says so/, /^Lost: it looks at “Yellow”, and says so/],
    [['there', 0.13, 0.16, 'There', false], /looks at “There”, and says so/, /^It looks more at “There” than .*, and says so\. .* 13 %/],
    [['yellow', 0.02, 0.05, 'blue', false], /^Wrong: it says “yellow”/, /^Lost: it looks at nothing in particular\. .* 2 %/],
    [['73915', 0.07, 0.42, 'blue', false], /4 of 5 digits are/, /^This head gives the sentence 7 %\. Others still know 4 of 5/],
    [['10000', 0.04, 0.7, 'There', false], /0 of 5 digits are/, /^Lost: it looks at “There”/],
];

const percents = (words) => [...words.matchAll(/(\d+) %/g)].map(([, x]) => +x / 100);

// What each word of a sentence claims, by the numbers alone.
function denied(words, { answer, share, everywhere, score, rival }, word) {
    const right = Array.from(answer).filter((one, i) => one === KEY[i]).length,
        its = word.toLowerCase(),
        parts = answer.toLowerCase().split(' '),
        isSaid = parts.some((one) => one === its || (one[0] === '…' && its.endsWith(one.slice(1)))),
        said = words.match(/(\d) of 5/);
    const claims = [
        [/^(Right|Found)/, answer === KEY],
        [/^(Wrong|Lost|Diluted|Dimmed|It looks more|This head looks)/, answer !== KEY],
        [/^Found/, share >= 0.1 && share >= everywhere],
        [/not by this head/, share < everywhere || share < 0.1],
        [/says so/, isSaid && everywhere >= 0.1 && everywhere > share],
        [/looks (more )?at “/, everywhere >= 0.1 && everywhere > share && words.includes(`“${word}”`)],
        [/nothing in particular/, everywhere < 0.1 && share < 0.1],
        [/^Diluted/, score > rival && share < 0.5],
        [/^Lost/, share < 0.1],
        [/looks at the sentence \(/, share >= 0.5],
        [/ says “/, words.includes(`says “${answer}”`)],
    ];
    const found = claims.filter(([claim, holds]) => claim.test(words) && !holds).map(([claim]) => String(claim));
    if (said && +said[1] !== right) found.push('digits');
    if (percents(words).some((x) => Math.abs(x - share) > 0.006 && Math.abs(x - (1 - share)) > 0.006)) found.push('share');
    return found;
}

export default {
    cases() {
        for (const [[answer, share, everywhere, word, wins], plainly, byHead] of CASES) {
            const found = { answer, share, everywhere, score: wins ? 2 : 1, rival: wins ? 1 : 2 };
            for (const [hasHeads, expected] of [
                [false, plainly],
                [true, byHead],
            ]) {
                const words = tell(found, { key: KEY, word, hasHeads });
                check(expected.test(words), `${answer}, ${share} and ${everywhere}`, words);
            }
        }
    },

    stops() {
        const { none, text } = read('scene.json');
        let stops = 0;
        for (const [method, lengths] of Object.entries({ none, ...read('recorded.json').scene }))
            for (const [length, kept] of Object.entries(lengths)) {
                const found = unpacked(kept),
                    { word } = wordAt(textOf(text, found.n), found.n - 1 - found.rivalAt);
                for (const hasHeads of [false, true]) {
                    const words = tell(found, { key: KEY, word, hasHeads }),
                        wrong = denied(words, found, word);
                    check(wrong.length === 0, `${method} at ${length}: the picture denies “${words}”`, wrong);
                }
                stops++;
            }
        check(stops >= 7 * 30, 'all stops of all methods', stops);
    },
};
