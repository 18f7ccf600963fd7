// A model file of the reader's own, which all panels then run. It is read here, and goes nowhere.
import { button, count, h, quoted, statusLine } from '../dom.js';
import { mb, MOST_BYTES, take, takes } from '../given.js';
import { go } from '../links.js';
import { mostRead } from '../numbers.js';

const SHORTEST = 64; // positions, of a model whose panels show something

export function yourWeights({ engine, shipped, own, build }) {
    const status = statusLine();
    let newest = 0, // of the models that were given, and of the times that files were picked: the others say nothing more
        picked = 0;
    async function open(file, tokenizer) {
        const mine = ++newest;
        if (file.size > MOST_BYTES)
            throw new Error(`${file.name} has ${mb(file.size)}; the page has room for ${mb(MOST_BYTES)}.`);
        status.say(`Reading ${file.name}, ${mb(file.size)} …`);
        try {
            const facts = await engine.give('model', file, {
                tokenizer,
                refuse: ({ trainedContext }) =>
                    trainedContext >= SHORTEST ? '' : `${file.name} was trained on ${trainedContext} positions only`,
            });
            const name = quoted(file.name) + (tokenizer ? ` -z ${quoted(tokenizer.name)}` : '');
            await build({ name, facts });
            go('weights');
        } catch (error) {
            if (!tokenizer && /tokenizer|vocabulary/.test(error.message))
                error.message +=
                    '. Give its tokenizer too: both files at once (model_export.py writes them side by side)';
            throw error;
        } finally {
            if (mine === newest) status.say('');
        }
    }
    takes('model', open);
    const pick = h('input', {
        type: 'file',
        accept: '.bin',
        multiple: true,
        ariaLabel: 'a model file, and its tokenizer',
    });
    pick.onchange = () => {
        const mine = ++picked;
        take([...pick.files], { say: (words, bad) => mine === picked && status.say(words, bad) });
    };
    const back = button('Back to model.bin', async () => {
        engine.takeBack('model');
        await build();
        go('weights');
    });
    const running = ({ layers, heads, trainedContext, bytes }) =>
        `${own.name}, ${mb(bytes)}: ${layers} layers of ${heads} heads, trained on ${count(trainedContext)} positions. ` +
        `All panels run it${mostRead(shipped) < shipped.trainedContext ? `, up to ${count(mostRead(shipped))} positions: a browser reads some hundred of its tokens a second. For more: ./run ${own.name} --check` : ''}.`;
    return {
        id: 'weights',
        title: 'Your weights',
        body: [
            h(
                'p',
                `Drop a .bin file anywhere: one of rope.c or llama2.c, up to ${mb(MOST_BYTES)}. If it has a tokenizer ` +
                    'of its own, drop both. All panels then run it. It stays in this browser.',
            ),
            own && h('p', h('b', running(shipped))),
            h('div.row.middle', pick, own && back),
            status,
        ],
    };
}
