// Bars of the words that are likeliest to come next; those with which the key begins are gold.
import { h } from '../dom.js';

const WORDS = 5; // that are shown

export function wordBars() {
    const rows = Array.from({ length: WORDS }, () => {
        const name = h('b'),
            bar = h('i'),
            value = h('small');
        return { row: h('div', name, h('span', bar), value), name, bar, value };
    });
    const box = h(
        'div.chances',
        { role: 'img', ariaLabel: 'the words that are likeliest to come next' },
        rows.map(({ row }) => row),
    );
    return {
        box,
        put(words, key) {
            rows.forEach(({ row, name, bar, value }, i) => {
                const { text = '', p = 0 } = words[i] ?? {};
                name.textContent = p && !text ? '␣' : text; // a blank, or the end of a line
                bar.style.width = `${100 * p}%`;
                value.textContent = p && (100 * p).toFixed(p < 0.1 ? 1 : 0);
                row.className = text && key.startsWith(text) ? 'right' : '';
            });
            box.ariaLabel = `likeliest to come next: ${words
                .slice(0, WORDS)
                .map(({ text, p }) => `${text} ${Math.round(100 * p)} %`)
                .join(', ')}`;
        },
    };
}
