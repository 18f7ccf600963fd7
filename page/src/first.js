// The first screen, before anything else is there: the scene by what was recorded, which drags itself once. Then the rest; or,
// with #embed in the address, no more than the scene.
import recorded from '../scene.json';
import { reducedMotion } from './dom.js';
import { makeScene } from './scene.js';
import { state } from './state.js';

const { model, text, none, rescue } = recorded,
    measured = { recorded: { none }, parts: text, rescue },
    isEmbedded = /^#embed\b/.test(location.hash),
    isFilm = (isEmbedded || !location.hash) && !reducedMotion(),
    scene = makeScene({ shipped: model, ...measured, isFilm });
document.getElementById('scene').append(scene.box);
if (isEmbedded) {
    state.add('embed', { read: () => 'yes', write: String, expects: '' }, '');
    document.documentElement.classList.add('embed');
}
if (isFilm) scene.film();

// Once it is painted.
requestAnimationFrame(() =>
    setTimeout(() =>
        isEmbedded
            ? void import('./embed.js').then(({ begin }) => begin(scene))
            : void import('./main.js').then(({ begin }) => begin(scene, model, measured)),
    ),
);
