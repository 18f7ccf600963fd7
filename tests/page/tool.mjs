// The tool on a page of its own, cards for links, and the bar while the model is fetched.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PAGE, PICTURES, ROOT, check } from './browser.mjs';
import { browser, judged, page, text, type, url } from './driver.mjs';

const llama = { head_dim: 128, hidden_size: 4096, num_attention_heads: 32, num_hidden_layers: 32 };
const ODD = {
    mapped: {
        ...{ ...llama, model_type: 'qwen2', max_position_embeddings: 1010000, rope_theta: 1e7 },
        dual_chunk_attention_config: { chunk_size: 262144, local_size: 8192, original_max_position_embeddings: 262144 },
    },
    gemma3: {
        ...{
            model_type: 'gemma3_text',
            head_dim: 256,
            hidden_size: 2560,
            num_attention_heads: 8,
            num_hidden_layers: 34,
        },
        ...{ sliding_window: 1024, max_position_embeddings: 131072, rope_theta: 1e6, rope_local_base_freq: 1e4 },
        rope_scaling: { factor: 8.0, rope_type: 'linear' },
    },
    brandnew: { ...llama, model_type: 'brandnew', rope_theta: 500000, max_position_embeddings: 8192 },
    unseen: {
        ...{
            ...llama,
            model_type: 'glm4_moe',
            partial_rotary_factor: 0.5,
            rope_theta: 1e6,
            max_position_embeddings: 131072,
        },
        ...{ n_routed_experts: 160, num_experts_per_tok: 8, n_shared_experts: 1, first_k_dense_replace: 3 },
        ...{ moe_intermediate_size: 1536, intermediate_size: 12288, vocab_size: 151552, num_key_value_heads: 8 },
    },
    block: { rope_type: 'yarn', factor: 4.0, rope_theta: 1e4, original_max_position_embeddings: 2048 },
};
const LENGTHS = { mapped: '1,010,000', gemma3: '131,072', brandnew: '8,192', unseen: '131,072', block: '8,192' };

// The contrast of two colours, as rgb(...).
function contrast(...colours) {
    const light = (colour) =>
        colour
            .match(/[\d.]+/g)
            .slice(0, 3)
            .map((v) => (/color\(/.test(colour) ? +v : v / 255))
            .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const [a, b] = colours.map(light);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

export default {
    async config_page() {
        const p = await browser.newPage({ viewport: { width: 1100, height: 900 }, reducedMotion: 'reduce' }),
            complaints = [],
            asked = [];
        p.on('pageerror', (error) => complaints.push(error.message));
        p.on('request', (request) => asked.push(request.url()));
        await p.goto(`${url}config.html`);
        await p.waitForSelector('#model .verdict', { timeout: 60000 });
        check((await page.locator('#model a[href="config.html"]').count()) === 1, 'the story has a link to it');
        check((await p.locator('#model a[href="config.html"]').count()) === 0, 'and it has none to itself');
        check(!asked.some((one) => /model|tokenizer|book/.test(one)), 'it needs no model', asked);
        const words = readFileSync(join(ROOT, 'tests/configs/phi-4-mini-instruct.json'), 'utf8');
        await type(p.locator('#model textarea'), words);
        await p.waitForFunction(() => /longrope/.test(document.querySelector('#model .numbers').innerText));
        check(/^Made for 131,072 positions\./.test(await text('#model .verdict', p)), 'a verdict in one sentence');
        const first = await p.locator('#model .verdict').evaluate((one) => one.parentElement.firstElementChild === one);
        check(first, 'and it comes first');
        check((await p.locator('#model .readings li').count()) > 0, 'engines are there');
        check(/longrope/.test(await text('#model .block', p)), 'and a block to paste');
        await p.evaluate(() => {
            const dropped = new DataTransfer();
            dropped.items.add(new File(['once upon a time'], 'story.txt'));
            const how = { bubbles: true, cancelable: true, dataTransfer: dropped };
            document.querySelector('h1').dispatchEvent(new DragEvent('drop', how));
        });
        await p.locator('.note').waitFor({ state: 'visible' });
        check(/reads configs alone/.test(await text('.note p', p)), 'what it has no use for goes elsewhere');
        check(complaints.length === 0, 'no complaint', complaints);
        await p.screenshot({ path: join(PICTURES, 'config.png') });
        await p.close();
    },

    // Configs that earlier versions read wrongly: a map of distances, a factor inside the length, a family that is not known,
    // one that nobody has looked at, and a block without a length.
    async odd_configs() {
        const p = await browser.newPage({ viewport: { width: 1100, height: 900 } }),
            says = {
                mapped: [
                    /by their distance map, dca: no distance passes 262,144. No engine that was examined reads them so/,
                    /plain \+ dca/,
                    /0 of 64/,
                ],
                gemma3: [/Made for 131,072 positions\./, /reach[^]*131,072\s+131,072\s+ok/],
                brandnew: [/unknown model_type brandnew, interpreted as a Llama/, /Made for 8,192 positions\./],
                unseen: [/Nobody has looked at what Hugging Face 5/, /no engine was looked at with such a model/],
                block: [/MLX-LM.* read it as it is meant, for all 8,192 positions/],
            },
            never = /No two read it alike|of 0 engines|need no scaling|stops? at 2,048|\b\d{4} positions|\b\d{4}\s+ok/;
        await p.goto(`${url}config.html`);
        await p.waitForSelector('#model .verdict', { timeout: 60000 });
        for (const [name, config] of Object.entries(ODD)) {
            await type(p.locator('#model textarea'), JSON.stringify(config));
            await judged(p);
            if (name === 'block')
                for (const [i, number] of ['128', '8192'].entries()) await type(p.locator('#model .gaps input:visible').nth(i), number); // what it does not say
            await judged(p);
            check((await text('#model .field output', p)) === LENGTHS[name], `${name}: the length that it promises`);
            const said = await text('#model', p);
            for (const words of says[name]) check(words.test(said), `${name}: ${words}`, said.slice(0, 600));
            check(!never.test(said), `${name}: nothing that is not so`, said.match(never));
        }
        // What is pressed or pointed at can be read: the label under the pointer has 4.5 to 1.
        const chip = p.locator('#model .chip[aria-pressed=true]').first();
        await chip.hover();
        const [ink, ground] = await chip.evaluate((one) => [
            getComputedStyle(one).color,
            getComputedStyle(one).backgroundColor,
        ]);
        check(contrast(ink, ground) >= 4.5, 'a pressed chip under the pointer can be read', [ink, ground]);
        await p.close();
    },

    cards() {
        for (const name of ['index.html', 'config.html']) {
            const html = readFileSync(join(PAGE, name), 'utf8');
            for (const one of ['title', 'description', 'image'])
                check(new RegExp(`property="og:${one}" content="[^"]{8,}"`).test(html), `${name} has a card's ${one}`);
            check(!/<!-- \w+ -->/.test(html), `${name} is filled in`);
        }
        check(existsSync(join(PAGE, 'card.png')), 'the picture of the card is there');
    },

    // A slow model: the text stands meanwhile, and the bar tells how much of it is there.
    async bar() {
        const p = await browser.newPage();
        await p.addInitScript(() => {
            globalThis.shares = [];
            document.addEventListener('DOMContentLoaded', () => {
                const bar = document.getElementById('loading');
                new MutationObserver(() => globalThis.shares.push([bar.value, bar.hidden])).observe(bar, {
                    attributes: true,
                });
            });
        });
        await p.goto(url);
        await p.waitForFunction(() => /Ready/.test(document.getElementById('boot').textContent), undefined, {
            timeout: 60000,
        });
        const shares = await p.evaluate(() => globalThis.shares);
        check(
            shares.length > 1 && shares.at(-1)[1] === true,
            'the bar fills and goes',
            JSON.stringify(shares.slice(-3)),
        );
        check(
            shares.every(([x], i) => i === 0 || x >= shares[i - 1][0]),
            'and never goes back',
        );
        await p.close();
    },
};
