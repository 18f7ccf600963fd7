// The words that a reader may not know, each explained in a sentence or two where it is first used.
import { methodCard, isMethod } from './cards.js';
import { h } from './dom.js';
import { popupButton } from './popup.js';

const TERMS = {
    token: 'A word, or a piece of one. A model reads and writes tokens. 512 of these are about 350 words.',
    position: 'The number of a token in its text: the first is at 0, the next at 1.',
    attention:
        'How a model looks back. Each token gives every token before it a score, and takes most from the highest.',
    query: 'The numbers with which a token asks: what am I looking for?',
    key: 'The numbers with which a token answers: this is what I am.',
    pair: 'Two neighboring numbers of a query or a key. In a plane they are an arrow.',
    head: 'One of several readers that look back side by side. This model has 24: 6 layers of 4. Each has 64 numbers.',
    perplexity:
        'How many next tokens the model hesitates between, on average. 1 is certain; 20 is a die with 20 sides. ' +
        'Low is good.',
    theta: 'The base of the speeds, 10,000 in this model. The larger it is, the slower the slow hands turn.',
    weights: 'The numbers that training found. All that the model knows is in them.',
    window: 'The model sees its last 512 tokens only. What is further back is forgotten.',
};

// A term as a word to press.
const term = (name, shown) => popupButton('term', shown, () => [h('b', name), ` ${TERMS[name]}`]);

// A text with marks: [token], [tokens|token] for a term or a method, *word* for what is stressed.
export function prose(text) {
    return text.split(/(\[[^\]]+\]|\*[^*]+\*)/).map((part) => {
        if (part[0] === '*') return h('em', part.slice(1, -1));
        if (part[0] !== '[') return part;
        const [shown, name = shown] = part.slice(1, -1).split('|');
        return isMethod(name) ? popupButton('term', shown, () => methodCard(name)) : term(name, shown);
    });
}
