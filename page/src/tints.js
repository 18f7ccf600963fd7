// How a text shows surprise: from -ln p of a token to one of six tints.
import { h } from './dom.js';

const STEPS = [1, 2, 3.5, 5, 7]; // -ln p from which a token is tinted darker

export const tint = (nll) => STEPS.findLastIndex((from) => nll >= from) + 1;

// The tints in their order, as a legend.
export const tints = () =>
    h(
        'span.tints',
        [0, ...STEPS].map((_, i) => h(`i.t${i}`)),
    );
