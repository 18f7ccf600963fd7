// The bar of contents that stays at the top: the chapter that is being read, and how far the reader is.
import { button, h, MOTION_OFF, onceAFrame } from './dom.js';
import { go } from './links.js';

const BELOW = 60; // pixels below the scene at which a chapter is begun

// A switch for all motion, which the browser remembers.
function motionSwitch() {
    const all = document.documentElement.classList,
        saved = (value) => {
            try {
                return value === undefined ? localStorage.getItem(MOTION_OFF) : localStorage.setItem(MOTION_OFF, value);
            } catch {
                return null; // a browser that keeps nothing for this page
            }
        };
    const put = (isOff) => {
        all.toggle('no-motion', isOff);
        press.setAttribute('aria-pressed', String(isOff));
    };
    const press = button(MOTION_OFF, () => {
        put(!all.contains('no-motion'));
        saved(all.contains('no-motion') ? 'yes' : '');
    });
    press.classList.add('motion');
    put(saved() === 'yes');
    return press;
}

let reading = '',
    listener = null;
// Calls `listen` with the chapter that is being read, now and whenever it is another one. There is one who listens.
export function onChapter(listen) {
    listener = listen;
    if (reading) listen(reading);
}

// The bar is one stop of Tab: arrows go from link to link.
export function contents(bar, chapters) {
    const read = h('div.read');
    const links = chapters.map(({ id, title }, i) =>
        h(
            'a',
            {
                href: `#at=${id}`,
                onclick: (event) => {
                    event.preventDefault();
                    go(id);
                },
            },
            h('b', String(i + 1)),
            h('span', title),
        ),
    );
    const roving = (to) => links.forEach((link, i) => (link.tabIndex = i === to ? 0 : -1));
    roving(0);
    bar.onkeydown = (event) => {
        const at = links.indexOf(/** @type {any} */ (document.activeElement)),
            to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: links.length - 1 }[event.key];
        if (at < 0 || !links[to]) return;
        event.preventDefault();
        roving(to);
        links[to].focus();
    };
    bar.replaceChildren(h('div.links', links, motionSwitch()), read);
    let now = -1;
    const look = onceAFrame(() => {
        const tops = chapters.map(({ id }) => document.getElementById(id).getBoundingClientRect().top),
            covered = parseFloat(document.documentElement.style.getPropertyValue('--covered')) || 0, // by the scene
            reached = Math.max(innerHeight * 0.4, covered + BELOW);
        const isEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 2,
            at = isEnd && scrollY > 0 ? tops.length - 1 : Math.max(0, tops.findLastIndex((top) => top < reached));
        read.style.transform = `scaleX(${scrollY / Math.max(1, document.documentElement.scrollHeight - innerHeight)})`;
        if (at === now) return;
        now = at;
        reading = chapters[at].id;
        listener?.(reading);
        roving(at);
        links.forEach((link, i) => {
            link.classList.toggle('done', i < at);
            if (i === at) link.setAttribute('aria-current', 'true');
            else link.removeAttribute('aria-current');
        });
        const row = links[at].parentElement;
        row.scrollLeft = links[at].offsetLeft - (row.clientWidth - links[at].offsetWidth) / 2;
    });
    addEventListener('scroll', look, { passive: true });
    new ResizeObserver(look).observe(document.body);
}
