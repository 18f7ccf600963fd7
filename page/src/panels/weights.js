// A model file of the reader's own, which all panels then run. It is read here, and goes nowhere.
import { button, count, h, quoted, statusLine } from '../dom.js';
import { go } from '../links.js';

const MOST_BYTES = 520e6; // a page's program may have 2 GB, for weights and for the caches of what it reads
const SHORTEST = 64; // positions, of a model whose panels show something

const isTokenizer = (file) => /tokenizer[^/]*\.bin$/.test(file.name);
const mb = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;

/** @type {(files: File[]) => any} */
let taking = () => {}; // what a file that is dropped anywhere goes to: the panel that stands
const hasFiles = (event) => event.dataTransfer.types.includes('Files');
addEventListener('dragover', (event) => hasFiles(event) && event.preventDefault());
addEventListener('drop', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    taking([...event.dataTransfer.files]);
});

export function yourWeights({ engine, shipped, own, build }) {
    const status = statusLine();
    let newest = 0; // of the files that were picked: only of the newest it is said why not
    async function take(files) {
        const mine = ++newest,
            model = files.find((file) => file.name.endsWith('.bin') && !isTokenizer(file)),
            tokenizer = files.find(isTokenizer);
        try {
            if (!model) throw new Error('A .bin file of rope.c or llama2.c is expected.');
            if (model.size > MOST_BYTES)
                throw new Error(`${model.name} has ${mb(model.size)}; the page has room for ${mb(MOST_BYTES)}.`);
            status.say(`Reading ${model.name}, ${mb(model.size)} …`);
            const facts = await engine.give('model', model, {
                tokenizer,
                refuse: ({ trainedContext }) =>
                    trainedContext >= SHORTEST ? '' : `${model.name} was trained on ${trainedContext} positions only`,
            });
            const name = quoted(model.name) + (tokenizer ? ` -z ${quoted(tokenizer.name)}` : '');
            build({ name, facts });
            go('weights');
        } catch (error) {
            if (!error.isCancelled && mine === newest) status.say(error.message, true);
        }
    }
    taking = take;
    const pick = h('input', {
        type: 'file',
        accept: '.bin',
        multiple: true,
        ariaLabel: 'a model file, and its tokenizer',
    });
    pick.onchange = () => take([...pick.files]);
    const back = button('Back to model.bin', () => {
        engine.takeBack('model');
        build();
        go('weights');
    });
    const running = ({ layers, heads, trainedContext, bytes }) =>
        `${own.name}, ${mb(bytes)}: ${layers} layers of ${heads} heads, trained on ${count(trainedContext)} positions. ` +
        'All panels run it.';
    return {
        number: 15,
        id: 'weights',
        title: 'Your weights',
        body: [
            h(
                'p',
                `Drop a .bin file here: one of rope.c or llama2.c, up to ${mb(500e6)}. If it has a tokenizer of its own, ` +
                    'drop both. All panels then run it. It stays in this browser.',
            ),
            own && h('p', h('b', running(shipped))),
            h('div.row.middle', pick, own && back),
            status,
        ],
    };
}
