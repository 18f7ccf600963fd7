// A line over the foot of the window, where the reader looks whatever part of the page that is. It stays until the next
// one, or until it is closed.
import { button, h } from './dom.js';

const words = h('p'),
    box = h('div.note', { role: 'alert', hidden: true });
const close = button('×', () => (box.hidden = true), { ariaLabel: 'close this message' });
box.append(words, close);
document.body.append(box);
addEventListener('keydown', (event) => {
    if (event.key === 'Escape') box.hidden = true;
});

export function note(text, bad = false) {
    words.textContent = text;
    box.classList.toggle('bad', bad);
    box.hidden = !text;
}
