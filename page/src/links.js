// Links to panels: #at=race and what the page shows. The address follows; back and forward go where the reader was.
import { button } from './dom.js';
import { state, text } from './state.js';

state.add('at', text(20), '');

const addressOf = (id) => {
    const all = new URLSearchParams(location.hash.slice(1));
    all.delete('at');
    const rest = all.toString().replaceAll('%2C', ',').replaceAll('%3A', ':').replaceAll('%3D', '=');
    return `#at=${id}${rest ? `&${rest}` : ''}`;
};

// Opens what a part of the page is folded into, and shows it.
function show(id) {
    const part = id && document.getElementById(id);
    if (!part) return;
    for (let box = part.closest('details'); box; box = box.parentElement.closest('details')) box.open = true;
    part.scrollIntoView();
    /** @type {HTMLElement} */ (part.querySelector('h2, h3'))?.focus({ preventScroll: true });
}

// Goes to a chapter or a panel, and leaves a step for the way back.
export function go(id) {
    if (state.get('at') !== id) {
        try {
            history.pushState(null, '', addressOf(id));
        } catch {
            // a browser that does not let a file change its address: the page works without
        }
        state.set('at', id);
    }
    show(id);
}

/**
 * A button that copies the link to a part of the page, as it is now.
 * @param {string} id @param {string} label @param {object} [look]
 */
export function copyLink(id, label, look) {
    const copy = button(
        label,
        async () => {
            state.writeNow();
            const address = new URL(addressOf(id), location.href).href;
            try {
                await navigator.clipboard.writeText(address);
                copy.textContent = 'copied';
            } catch {
                location.hash = addressOf(id);
                copy.textContent = 'now in the address';
            }
            setTimeout(() => {
                copy.textContent = label;
            }, 1500);
        },
        look,
    );
    return copy;
}

// A heading's own.
export function linkTo(id, title) {
    const copy = copyLink(id, '#', {
        ariaLabel: `copy a link to “${title}” as it is now`,
        title: 'copy a link to this, as it is now',
    });
    copy.classList.add('link');
    return copy;
}

// Once all parts are there: to the one that the address names, and from then on whenever it names another.
export function followAddress() {
    show(state.get('at'));
    state.on('at', show);
}
