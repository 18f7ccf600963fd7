// The heads of the model beside the one that is drawn: a square for each, gold by what it gives the sentence with the number.
// One that is pressed is drawn in the scene.
import { button, h, percent } from '../dom.js';
import { state } from '../state.js';

export function otherHeads({ engine, scene, own }) {
    const board = h('div.heads', { role: 'group', ariaLabel: 'heads by layer' }),
        said = h('p.readout', { ariaLive: 'polite' });
    const search = 'its own'; // the head that the scene begins with
    let squares = [];

    function make(layers, heads) {
        squares = Array.from({ length: layers * heads }, (_, i) => {
            const [layer, head] = [Math.floor(i / heads), i % heads];
            return Object.assign(
                button('', () =>
                    state.set('looker', state.get('looker') === `${layer}.${head}` ? '' : `${layer}.${head}`),
                ),
                { layer, head },
            );
        });
        board.style.setProperty('--layers', String(layers));
        board.style.setProperty('--heads', String(heads));
        board.replaceChildren(...squares);
    }
    function draw(found) {
        if (!found?.shares || !squares.length) return;
        const gold = found.shares.filter((share) => share >= 0.1).length;
        squares.forEach((square, i) => {
            const isShown = square.layer === found.layer && square.head === found.head,
                name = `layer ${square.layer}, head ${square.head}: ${percent(found.shares[i])} on the sentence`;
            square.style.setProperty('--light', `${Math.round(100 * found.shares[i] ** 0.6)}%`);
            square.setAttribute('aria-pressed', String(isShown));
            if (square.ariaLabel !== name) square.ariaLabel = square.title = name;
        });
        const words = found.isStale
            ? ''
            : `${gold} of ${squares.length} heads give the sentence a tenth of their attention or more. ` +
              (state.get('looker')
                  ? `You see head ${found.head} of layer ${found.layer}.`
                  : `You see ${search}: head ${found.head} of layer ${found.layer}.`);
        if (said.textContent !== words) said.textContent = words;
    }
    let shown = null;
    scene.hear((found) => {
        if ((found?.of ?? found) === shown && !found?.isStale) return;
        shown = found?.of ?? found;
        draw(found);
    });
    engine.open('model').then(
        ({ layers, heads }) => {
            make(layers, heads);
            shown = null;
            scene.redraw();
        },
        () => {},
    );
    return {
        id: 'heads',
        title: 'Do all heads lose it?',
        body: [
            h(
                'p',
                'A square for each head, a column for each layer. Gold: it still looks at the sentence. Press one to see its light' +
                    (own ? '.' : ' and its bars.'),
            ),
            board,
            said,
        ],
    };
}
