// The scene alone, for others' articles: index.html#embed. What it shows was recorded; the program is not fetched.
import recorded from '../recorded.json';
import { h } from './element.js';

/** @param {any} scene */
export function begin(scene) {
    scene.learn(recorded.scene);
    const whole = h('a', { href: location.pathname, target: '_blank', rel: 'noopener' }, document.title);
    document.getElementById('scene').append(h('p.fine.from', whole));
}
