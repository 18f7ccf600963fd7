// One small card beside what was pressed: a term's meaning, a method's formula. Escape, a press elsewhere or a press on
// the same word closes it.
import { h } from './dom.js';

const GAP = 8,
    EDGE = 12; // pixels from the word, and from the window's edge
let card = null,
    owner = null;

export function closePopup(refocus = false) {
    if (!card) return;
    card.remove();
    owner.setAttribute('aria-expanded', 'false');
    if (refocus) owner.focus();
    card = owner = null;
}

function place() {
    const word = owner.getBoundingClientRect(),
        left = Math.max(EDGE, Math.min(word.left, innerWidth - EDGE - card.offsetWidth));
    const above = word.bottom + GAP + card.offsetHeight > innerHeight && word.top > card.offsetHeight + GAP;
    const top = above ? word.top - GAP - card.offsetHeight : word.bottom + GAP;
    card.style.left = `${left + scrollX}px`;
    card.style.top = `${top + scrollY}px`;
}

function showPopup(button, content) {
    const same = owner === button;
    closePopup();
    if (same) return;
    owner = button;
    card = h('div.popup', { role: 'note', tabIndex: -1 }, content());
    owner.setAttribute('aria-expanded', 'true');
    document.body.append(card);
    place();
    card.focus({ preventScroll: true });
}

// A word that shows a card when it is pressed. `content` makes its contents.
export function popupButton(name, label, content) {
    return h(
        `button.${name}`,
        { type: 'button', 'aria-expanded': 'false', onclick: (event) => showPopup(event.currentTarget, content) },
        label,
    );
}

addEventListener('keydown', (event) => event.key === 'Escape' && closePopup(true));
addEventListener('pointerdown', (event) => {
    if (card && !card.contains(event.target) && !owner.contains(event.target)) closePopup();
});
addEventListener('resize', () => closePopup());
