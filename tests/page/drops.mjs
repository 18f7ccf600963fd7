// Files that are dropped: each is taken for what it is, wherever it is dropped, and what is wrong is said in sight.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, check, open } from './browser.mjs';
import { BOOK, browser, desk, url } from './driver.mjs';

// Drops files of these names and bytes on the page's title.
const drop = (p, files) =>
    p.evaluate(
        (files) => {
            const dropped = new DataTransfer();
            for (const [name, base64] of files) {
                const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
                dropped.items.add(new File([bytes], name));
            }
            const how = { bubbles: true, cancelable: true, dataTransfer: dropped };
            document.querySelector('h1').dispatchEvent(new DragEvent('drop', how));
        },
        files.map(([name, contents]) => [name, Buffer.from(contents).toString('base64')]),
    );

const safetensors = Buffer.concat([Buffer.from([80, 0, 0, 0, 0, 0, 0, 0]), Buffer.from('{"a": {}}')]);
const config = readFileSync(join(ROOT, 'tests/configs/phi-4-mini-instruct.json'));

export default {
    async what_cannot_be_used() {
        const p = await open(browser, url, { more: false });
        const note = p.locator('.note');
        for (const [files, line] of [
            [
                [['llama.gguf', 'GGUF\x03\0\0\0']],
                /llama\.gguf is a GGUF file.*model_export\.py 'llama\.gguf' 'llama\.bin'/,
            ],
            [[['pytorch_model.bin', 'PK\x03\x04 and so on']], /PyTorch.*model_export\.py 'FOLDER'/],
            [[['old.bin', Buffer.from([0x80, 2, 0x8a, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])]], /old\.bin.*PyTorch/],
            [[['model.safetensors', safetensors]], /safetensors/],
            [[['tokenizer.json', '{}']], /config\.json has them/],
            [[['tokenizer.bin', 'x']], /is a tokenizer: drop it together with its model/],
            [
                [
                    ['a.bin', 'x'],
                    ['b.bin', 'x'],
                ],
                /a\.bin and b\.bin are 2 models: one at a time/,
            ],
            [[['picture.png', '\x89PNG\r\n\x1a\n\0\0\0']], /picture\.png is nothing that this page knows/],
            [[['nothing', '']], /nothing is empty/],
            [[['a.bin', 'not a model at all, but long enough']], /^a\.bin: a text, not a model file/],
        ]) {
            await p.evaluate(() => (document.querySelector('.note').hidden = true));
            await drop(p, files);
            await note.waitFor({ state: 'visible', timeout: 20000 }).catch(() => {});
            const said = (await note.isVisible()) ? await note.locator('p').innerText() : '';
            check(line.test(said), `dropped: ${files.map(([name]) => name).join(', ')}`, said);
            if (!said) continue;
            const box = await note.boundingBox();
            check(box.y > 0 && box.y + box.height <= 900, 'it is said in sight', JSON.stringify(box));
        }
        await p.keyboard.press('Escape');
        check(!(await note.isVisible()), 'Escape closes what is said');
        await p.close();
    },

    async what_can() {
        const p = await open(browser, url, { more: false });
        await drop(p, [['config.json', config]]);
        await p.waitForFunction(() => /Made for 131,072/.test(document.querySelector('#model .verdict')?.textContent ?? '') && document.querySelector('#model textarea').value.includes('longrope'));
        check(!(await p.locator('.note').isVisible()), 'a config.json is taken without a word');
        const top = await p.locator('#model').evaluate((one) => one.getBoundingClientRect().top);
        check(top > -5 && top < 200, 'and shown', top);
        await drop(p, [['story.txt', BOOK.slice(0, 3000)]]);
        await p.waitForFunction(() => /mytext\.txt/.test(document.querySelector('#race .command')?.textContent ?? ''));
        check(await p.locator('#race textarea').isVisible(), 'a text goes to the race');
        await drop(p, [
            ['rope.bin', readFileSync(join(ROOT, 'models/rope.bin'))],
            ['config.json', config],
        ]);
        await p.waitForFunction(() => /trained on 256 positions/.test(document.querySelector('#weights')?.innerText ?? ''));
        check(true, 'a model is run');
        check(p.complaints.length === 0, 'no complaint', p.complaints);
        await p.close();
    },

    // A folder, dropped as the system drops it.
    async folders() {
        const p = await open(browser, url, { more: false }),
            client = await p.context().newCDPSession(p),
            note = p.locator('.note');
        const dropFolder = async (name, files) => {
            const folder = join(desk, name);
            mkdirSync(folder, { recursive: true });
            for (const [file, contents] of files) writeFileSync(join(folder, file), contents);
            const data = { items: [], files: [folder], dragOperationsMask: 1 };
            for (const type of ['dragEnter', 'dragOver', 'drop'])
                await client.send('Input.dispatchDragEvent', { type, x: 200, y: 200, data });
        };
        await dropFolder('checkpoint', [
            ['config.json', config],
            ['model.safetensors', safetensors],
        ]);
        await p.waitForFunction(() => document.querySelector('#model textarea').value.includes('longrope'));
        await note.waitFor({ state: 'visible' });
        const rest = await note.locator('p').innerText();
        check(/^Its config\.json is read.*model_export\.py 'checkpoint'/.test(rest), 'a checkpoint', rest);
        await p.keyboard.press('Escape');
        await dropFolder('holiday', [['picture.png', '\x89PNG\r\n\x1a\n\0\0\0']]);
        await note.waitFor({ state: 'visible' });
        const said = await note.locator('p').innerText();
        check(/^holiday is a folder with neither a config\.json nor a model in it/.test(said), 'another folder', said);
        await p.close();
    },
};
