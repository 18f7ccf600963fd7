// The first screen, before anything else is there: the scene by what was recorded, which drags itself once. Then the rest.
import recorded from '../scene.json';
import { reducedMotion } from './dom.js';
import { makeScene } from './scene.js';

const { model, text, none } = recorded,
    measured = { recorded: { none }, parts: text },
    scene = makeScene({ shipped: model, ...measured });
document.getElementById('scene').append(scene.box);
if (!location.hash && !reducedMotion()) scene.film();

// Once it is painted.
requestAnimationFrame(() => setTimeout(() => void import('./main.js').then(({ begin }) => begin(scene, model, measured))));
