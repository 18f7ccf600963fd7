// How a text shows what a reader of its last tokens did not expect, wherever the page shows one: two marks, by -ln p.
import { h } from './dom.js';

const MARKED = [4.5, 6.5]; // -ln p from which a token is marked, and marked darkly

export const markOf = (nll) => (nll >= MARKED[1] ? 't5' : nll >= MARKED[0] ? 't2' : '');

// The marks in their order, as a legend.
export const marks = () => h('span.tints', h('i.t2'), h('i.t5'));
