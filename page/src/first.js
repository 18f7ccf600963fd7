// The first screen, before anything else is there: the scene by what was recorded, which drags itself once. Then the rest.
import recorded from '../scene.json';
import { reducedMotion } from './dom.js';
import { makeScene } from './scene.js';
import { state } from './state.js';

const { model, ...methods } = recorded,
    scene = makeScene({ shipped: model, recorded: methods });
document.getElementById('scene').append(scene.box);
if (state.get('far')) {
    // an address says where it stands
} else if (reducedMotion()) state.set('far', 4 * model.trainedContext);
else if (!location.hash) scene.film();

// Once it is painted.
requestAnimationFrame(() => setTimeout(() => void import('./main.js').then(({ begin }) => begin(scene, model, methods))));
