// Your model.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PICTURES, ROOT, check, run, table, tableOf } from './browser.mjs';
import * as driver from './driver.mjs';

const { browser, openTool, url } = driver;

// All of this is on the tool's own page.
const page = await openTool(),
    text = (selector) => driver.text(selector, page),
    until = (selector, pattern, on = page) => driver.until(selector, pattern, on),
    judged = (on = page) => driver.judged(on),
    commandsOf = (panel) => driver.commandsOf(panel, page),
    runShown = (panel, nth) => driver.runShown(panel, nth, page),
    chip = (panel, name) => page.locator(`#${panel} button.chip`, { hasText: new RegExp(`^${name}$`) }).first();

export default {
    async your_model() {
        // The reader has said a length, which files that are pasted then do not change.
        await page.evaluate(() => [65536, 131072].forEach((n) => rope.state.set('want', n)));
        const area = page.locator('#model textarea');
        const example = async (name) => {
            await page.locator('#model button', { hasText: name }).first().click();
            await judged();
        };
        await example('Qwen2.5');
        const file = join(tmpdir(), `rope-page-config-${process.pid}.json`);
        writeFileSync(file, await area.inputValue());
        const same = (a, b) => a.replace(/\s+/g, ' ').trim() === b.replace(/\s+/g, ' ').trim();
        const said = run('--rope-json', '--rope-config', file, '-n', '131072');
        check(
            same(await text('#model pre[tabindex]'), said),
            "the block is --rope-json's",
            `${await text('#model pre[tabindex]')} / ${said}`,
        );
        await page.locator('#model').screenshot({ path: join(PICTURES, 'model.png') });
        await chip('model', 'ntk').focus();
        await page.keyboard.press('Enter');
        await judged();
        check(
            same(
                await text('#model pre[tabindex]'),
                run('--rope-json', '--rope-config', file, '-n', '131072', '--rope', 'ntk'),
            ),
            'and with another method',
            await text('#model pre[tabindex]'),
        );
        await chip('model', 'as it says').click();
        await judged();
        const shown = await page
            .locator('#model table.list tbody tr')
            .evaluateAll((all) => all.map((tr) => [...tr.cells].map((td) => td.innerText).join(' ')));
        check(
            shown.length === 3 &&
                /^context.* 32,768 131,072 ok$/s.test(shown[0]) &&
                /^reach.* 131,072 131,072 ok$/s.test(shown[1]) &&
                /^method.* yarn yarn ok$/s.test(shown[2]),
            "--check's rows about settings",
            shown,
        );
        const engines = ['--engines', '--rope-config', file, '-n', '131072'];
        let told;
        try {
            told = table(...engines);
        } catch (error) {
            told = tableOf(error.stdout.toString()); // status 1: some differ
        }
        const lines = await page.locator('#model .readings li').allInnerTexts();
        const isMeant = (row) => ['same', 'too long'].includes(row.verdict),
            others = told.filter((row) => !isMeant(row)),
            reasonOf = (row) => (row.verdict === 'same' ? '' : row.note.split(': ')[1]),
            reasons = [...new Set(told.filter(isMeant).map(reasonOf))];
        check(
            others.length === 2 &&
                lines.length === others.length + reasons.length &&
                others.every((row) =>
                    lines.some(
                        (line) =>
                            line.toLowerCase().startsWith(row.engine) &&
                            line.replaceAll(',', '').includes(row.note.replaceAll(',', '')) &&
                            line.includes(`Pair ${row.worst_pair} turns`),
                    ),
                ) &&
                told.filter(isMeant).every((row) =>
                    lines.some(
                        (line) =>
                            line.toLowerCase().includes(row.engine.replace(/^hf/, 'hugging face ')) &&
                            line.endsWith(
                                row.verdict === 'same'
                                    ? ' read it as it is meant, for all 131,072 positions.'
                                    : ` read it as it is meant, but stop at 32,768 positions (${reasonOf(row)}).`,
                            ),
                    ),
                ),
            "--engines's rows in a sentence each, and where each engine stops",
            lines,
        );
        const facts = run('--engines=hf5', ...engines.slice(1)).match(/# facts_of\t(\S+)/)[1];
        check((await text('#model')).includes(`As of ${facts}.`), 'the date of the facts', facts);
        // Its five commands: the whole check, the engines, a running server, the block, and the frequencies.
        const commands = commandsOf('model');
        const typed = await commands.locator('code').allTextContents();
        check(typed.length === 5, 'five commands', typed);
        check(
            /^python3 server_probe\.py http\S+ mymodel\.bin --rope-config config\.json$/.test(typed[2]),
            'a server',
            typed[2],
        );
        check(tableOf(await runShown('model', 0)).length === told.length, 'the command has the engines');
        check(same(await text('#model pre[tabindex]'), await runShown('model', 3)), 'the command has the block');
        const unseen = (await text('#model .numbers')).match(/(\d+) of 64/)[1];
        const pairs = tableOf(await runShown('model', 4));
        check(pairs.length === 64, 'the command has the pairs', pairs.length);
        check(+unseen >= 0, 'and the panel counts them', unseen);
        const range = page.locator('#model input[type=range]');
        await range.focus();
        await page.keyboard.press('End');
        await judged();
        check(
            /1,048,576 positions are/.test(await text('#model .warnings')),
            'a longer text than the factor reaches is warned about',
            await text('#model .warnings'),
        );
        for (const [bad, line] of [
            ['{"model_type": "gpt2", "n_embd": 768}', /model_type: this family has no RoPE/],
            ['hello', /line 1/],
            ['{"rope_type": "yarn", "factor": "four"}', /factor/],
            ['[[[[['.repeat(100), /line 1/],
            ['{"rope_theta": 1e999, "factor": -1, "rope_type": "linear"}', /rope_theta|factor/],
            ['', /line|empty|JSON/],
        ]) {
            await driver.type(area, bad);
            await judged();
            await until('#model .status', line).catch(() => {});
            check(
                line.test(await text('#model .status')),
                `refused with a line: ${bad.slice(0, 30)}`,
                await text('#model .status'),
            );
            check((await commandsOf('model').count()) === 0, 'no command of the config before is left');
            check((await page.locator('#model button', { hasText: 'save config.json' }).count()) === 0, 'nor its file');
            check(
                !(await page.locator('#model h3', { hasText: 'To paste' }).isVisible()),
                'nor the heading of its block',
            );
        }
        await driver.type(area, '{"model_type": "nobody", "rope_scaling": {"rope_type": "yarn", "factor": 32}}');
        await until('#model .status', /nobody/);
        check(/paste only the block/.test(await text('#model')), 'a family that is not read: what would do');
        await driver.type(area, 
            '{"hidden_size": 1152, "rope_local_base_freq": 10000, "rope_scaling": {"rope_type": "linear"}}',
        );
        await until('#model .status', /rope_local_base_freq/);
        check(/full-attention layers/.test(await text('#model')), 'layers that differ: what would do');
        await example('a bare block');
        check(/does not say head_dim/.test(await text('#model .gaps')) && (await text('#model .status')) === '', 'a block alone');
        await example('Llama 3.1');
    },

    // Configs whose layers differ: both kinds are told, by the program's own numbers, and what engines make of each.
    async layers_that_differ() {
        const gemma = {
            model_type: 'gemma3_text',
            hidden_size: 2560,
            num_attention_heads: 8,
            num_key_value_heads: 4,
            head_dim: 256,
            num_hidden_layers: 12,
            max_position_embeddings: 131072,
            sliding_window: 1024,
            rope_theta: 1000000,
            rope_local_base_freq: 10000,
            rope_scaling: { rope_type: 'linear', factor: 8 },
        };
        await page.evaluate(() => rope.state.set('want', 131072));
        await driver.type(page.locator('#model textarea'), JSON.stringify(gemma));
        await until('#model', /Layers 5, 11 are full: they see all positions\./);
        await judged();
        const told = await text('#model');
        check(
            told.includes('Layers 0 to 4, 6 to 10 slide: they see the last 1,024') &&
                told.includes('and turn by theta 10,000, plain.'),
            'which layers slide, how far they see, and how they turn',
            told.slice(0, 1500),
        );
        check(/method of full layers, scale 8/.test(told), 'whose method it is');
        check(/SGLang .* ignores it in full layers/.test(told), 'what an engine makes of one kind');
        const squares = await page.locator('#model svg.bars rect').count();
        check(squares === 128, 'the pairs of the sliding layers are drawn', squares);
        const tops = await page
            .locator('#model svg.bars circle title')
            .evaluateAll((all) => all.map((one) => +one.textContent.match(/wavelength ([\d.]+)/)[1]));
        check(Math.abs(tops[0] - 16 * Math.PI) < 0.1, "the full layers' pairs turn eight times slower", tops[0]);
        const ministral = {
            model_type: 'ministral3',
            hidden_size: 4096,
            num_attention_heads: 32,
            max_position_embeddings: 262144,
            rope_parameters: {
                rope_type: 'yarn',
                rope_theta: 1000000,
                factor: 16,
                original_max_position_embeddings: 16384,
                beta_fast: 32,
                beta_slow: 1,
                mscale: 1,
                mscale_all_dim: 1,
                llama_4_scaling_beta: 0.1,
            },
        };
        await driver.type(page.locator('#model textarea'), JSON.stringify(ministral));
        const growth = (1 + 0.1 * Math.log(1 + Math.floor(131071 / 16384))).toPrecision(4);
        await until('#model', /Queries grow with their position/);
        const grown = (await text('#model')).match(/at 131,072 they are ([\d.]+) times as long/)[1];
        check(Math.abs(grown - growth) < 0.002, 'a temperature by position', `${grown} ${growth}`);
        check(/ik_llama\.cpp .*\(a 1\.27726, not 1/.test(await text('#model')), 'a number in words keeps its digits');
        await page.locator('#model button', { hasText: 'Llama 3.1' }).first().click();
    },

    // Published configs: the block to paste keeps the model's own context, and the share of a head that turns.
    async published() {
        const area = page.locator('#model textarea');
        await page.evaluate(() => rope.state.set('want', 131072));
        for (const [name, what] of [
            ['llama-3.1-8b', /max_position_embeddings 131072;/],
            ['qwen2.5-7b-instruct', /"rope_type": "default"/],
        ]) {
            const path = join(ROOT, `tests/configs/${name}.json`),
                words = readFileSync(path, 'utf8');
            await driver.type(area, words);
            await judged();
            const shown = await text('#model pre[tabindex]');
            check(what.test(shown), `${name}: the block to paste`, shown.slice(0, 400));
            const said = run('--rope-json', '--rope-config', path, '-n', '131072');
            const squeezed = (t) => t.replace(/\s+/g, ' ').trim();
            check(squeezed(shown) === squeezed(said), `${name}: it is the command's`, `${shown} / ${said}`);
            const hash = await page.evaluate(() => new Promise((r) => setTimeout(() => r(location.hash), 300)));
            const carried = new URLSearchParams(hash.slice(1)).get('config');
            check(
                carried && JSON.stringify(JSON.parse(carried)) === JSON.stringify(JSON.parse(words)),
                `${name}: the link carries it`,
                carried,
            );
        }
        await driver.type(area, JSON.stringify({ rope_type: 'linear', factor: 4, more: 'x'.repeat(9000) }));
        await judged();
        check(
            /A link to this page cannot carry this config/.test(await text('#model')),
            'a config too long for a link',
        );
        await driver.type(area, '{"rope_type": "linear", "factor": 4.0}');
        await judged();
        const hash = await page.evaluate(() => new Promise((r) => setTimeout(() => r(location.hash), 300)));
        check(decodeURIComponent(hash).includes('"factor":4.0'), 'numbers stay as they are written', hash);
        check(!/cannot carry/.test(await text('#model')), 'and nothing is said any more');
    },

    // The verdicts on settings are those of ./run --check --settings, for files that are right and files that are not.
    async settings() {
        const file = join(tmpdir(), `rope-page-settings-${process.pid}.json`);
        const whole = (positions, block) => ({
            ...{ model_type: 'llama', hidden_size: 256, num_attention_heads: 4 },
            ...{ max_position_embeddings: positions, rope_theta: 10000 },
            rope_scaling: { original_max_position_embeddings: 512, ...block },
        });
        const lists = Array(32).fill(1.5);
        const longrope = { rope_type: 'longrope', factor: 4, short_factor: lists };
        const llama3 = { low_freq_factor: 1, high_freq_factor: 4, factor: 2 };
        for (const [config, other, bad] of [
            [whole(2048, { rope_type: 'yarn', factor: 4 }), '', ''],
            [whole(2048, { rope_type: 'yarn', factor: 1 }), '', 'context,reach'],
            [whole(512, { rope_type: 'yarn', factor: 4 }), 'ntk', 'method'],
            [whole(512, { rope_type: 'yarn', factor: 4 }), 'window', 'window,method'],
            [whole(512, { rope_type: 'llama3', ...llama3 }), '', ''],
            [whole(2048, { ...longrope, long_factor: lists, attention_factor: 2 }), '', 'temperature'],
            [{ rope_type: 'linear', factor: 1.1 }, '', 'reach'],
            [{ rope_type: 'dynamic', factor: 2 }, 'dca', 'method'],
        ]) {
            const words = JSON.stringify(config),
                what = `${words.slice(0, 60)} ${other}`;
            writeFileSync(file, words);
            const rows = await page.evaluate(
                ([words, other]) => {
                    const page = rope.small.configure(words, 64, 10000, 512);
                    const rows = page.plan(other, 600).judge(600);
                    page.close();
                    return rows;
                },
                [words, other],
            );
            let said;
            try {
                said = table(
                    ...['model.bin', '--check', '--settings', '-n', '600', '--tsv'],
                    ...['--rope-config', file, ...(other ? ['--rope', other] : [])],
                );
            } catch (error) {
                said = tableOf(error.stdout.toString()); // a check that fails ends with 1
            }
            // To the page the config is the model; ./run holds method, theta and context against model.bin's own.
            const of = (all) =>
                all
                    .filter((r) => !['method', 'theta', 'train_ctx'].includes(r.check))
                    .map((r) => `${r.check} ${r.value} ${r.limit} ${r.verdict}`)
                    .join();
            check(of(rows) === of(said), `--check: ${what}`, [of(rows), of(said)]);
            const failed = rows.filter((row) => row.verdict === 'fail');
            check(rows.length > 0 && failed.map((row) => row.check).join() === bad, `what fails: ${what}`, of(rows));
        }
    },

    // The numbers in the fields stand only where the config says nothing; what stands for what is said.
    async gaps() {
        await page.evaluate(() => rope.state.set('want', 131072));
        const area = page.locator('#model textarea');
        const paste = async (words) => {
            await driver.type(area, typeof words === 'string' ? words : JSON.stringify(words));
            await judged();
        };
        const block = { rope_type: 'llama3', factor: 32, low_freq_factor: 1, high_freq_factor: 4 };
        await paste({
            ...{ architectures: ['LlamaForCausalLM'], model_type: 'llama', head_dim: 64, hidden_size: 2048 },
            ...{ num_attention_heads: 32, max_position_embeddings: 131072, rope_theta: 500000 },
            rope_scaling: { ...block, original_max_position_embeddings: 8192 },
        });
        const facts = await text('#model .numbers');
        check((await text('#model .status')) === '', 'Llama 3.2 1B is read', await text('#model .status'));
        check(/500,000/.test(facts) && /8,192/.test(facts) && / of 32/.test(facts), 'with its own numbers', facts);
        check(!/is taken to be/.test(await text('#model')), 'which are all there');
        check(
            /^Made for 131,072 positions\.$/.test(await text('#model .verdict')),
            'one sentence says that the settings hold',
            await text('#model .verdict'),
        );
        const red = () =>
            page
                .locator('#model svg circle')
                .evaluateAll((all) => all.filter((c) => /never/.test(c.style.fill)).length);
        check((await red()) === 0, 'and nothing is red beside it', await red());

        const fields = page.locator('#model .gaps input:visible'),
            asks = () => text('#model .gaps p');
        await paste('"rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 4096}');
        check((await text('#model .status')) === '', 'a bare rope_scaling is read', await text('#model .status'));
        check(
            /does not say head_dim, rope_theta and max_position_embeddings\. What does your model have\?/.test(await asks()),
            'it is asked for what it leaves out',
            await asks(),
        );
        check((await fields.count()) === 3 && !(await page.locator('#model .verdict').isVisible()), 'before anything is said of it');
        await driver.type(fields.nth(0), '128');
        await judged();
        check(/does not say rope_theta and max_position_embeddings/.test(await asks()), 'one by one', await asks());
        await driver.type(fields.nth(1), '10000');
        await judged();
        check(!(await page.locator('#model .verdict').isVisible()), 'how long it is served is asked, and not taken to be 2,048');
        await driver.type(fields.nth(2), '16384');
        await judged();
        check(!/ExLlamaV3 .* otherwise/.test(await text('#model .readings')), 'what an engine makes of it goes by that');
        check(
            /^Made for 16,384 positions, not 131,072/.test(await text('#model .verdict')),
            'the verdict says how far',
            await text('#model .verdict'),
        );
        check((await red()) > 0, 'unseen angles are red where settings do not hold');
        const printed = await runShown('model', 3);
        check(
            printed.replace(/\s+/g, ' ').trim() === (await text('#model pre[tabindex]')).replace(/\s+/g, ' ').trim(),
            'the command with the same numbers has the same block',
            printed,
        );
        check(tableOf(await runShown('model', 4)).length === 64, 'and as many pairs');
        await driver.type(fields.nth(1), '500000');
        await judged();
        check(/500,000/.test(await text('#model .numbers')), 'another theta in its field', await text('#model .numbers'));
        await driver.type(fields.nth(1), '10000');
        await paste({ rope_type: 'linear', factor: 4, rope_theta: 20000 });
        check(/does not say max_position_embeddings/.test(await asks()) && (await fields.count()) === 2, 'what a block says is not asked', await asks());
        check(!(await page.locator('#model .verdict').isVisible()), 'and nothing of the block before is left');
        await driver.type(fields.nth(1), '4096');
        await judged();
        check(/20,000/.test(await text('#model .numbers')), 'its own theta counts');
    },

    // What people paste, and what is said of it: files whose factor counts or does not, windows, scores, lines of servers.
    async pasted() {
        const area = page.locator('#model textarea');
        const llama = { model_type: 'llama', hidden_size: 4096, num_attention_heads: 32, rope_theta: 10000 },
            gemma = {
                ...{ model_type: 'gemma3_text', hidden_size: 2560, num_attention_heads: 8, num_hidden_layers: 34, head_dim: 256 },
                ...{ max_position_embeddings: 131072, sliding_window: 1024, sliding_window_pattern: 6, rope_theta: 1000000 },
                ...{ rope_local_base_freq: 10000, rope_scaling: { rope_type: 'linear', factor: 8 } },
            },
            yarn = '"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32768}';
        const options = '--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768';
        for (const [what, words, verdict, more = /./, never = /^$/] of [
            [
                'linear without an original length, as Vicuna 16k has it',
                JSON.stringify({ ...llama, max_position_embeddings: 4096, rope_scaling: { type: 'linear', factor: 4 } }),
                /^Made for 16,384 positions\. The file promises 4,096, and llama\.cpp, .* stop there\.$/,
                /int:16,?384/,
            ],
            ['Gemma 3, whose positions count the factor', JSON.stringify(gemma), /^Made for 131,072 positions\.$/, /count the factor/, /1,?048,?576/],
            [
                'numbers of the file stay as written',
                `{"model_type": "qwen3", "hidden_size": 4096, "num_attention_heads": 32, "head_dim": 128, "rope_theta": 1000000, "max_position_embeddings": 65536, ${yarn}}`,
                /^Made for 65,536/,
                /"factor": 2\.0/,
            ],
            [
                "DeepSeek V3's scores",
                JSON.stringify({
                    ...{ model_type: 'deepseek_v3', hidden_size: 7168, num_attention_heads: 128, qk_nope_head_dim: 128 },
                    ...{ qk_rope_head_dim: 64, max_position_embeddings: 163840, rope_theta: 10000 },
                    rope_scaling: { type: 'yarn', factor: 40, mscale: 1, mscale_all_dim: 1, original_max_position_embeddings: 4096 },
                }),
                /^Made for 163,840/,
                /All scores are multiplied by 1\.87/,
            ],
            ["llama-server's line", `llama-server -m q.gguf -c 65536 ${options} --rope-freq-base 1000000`, null, /"?factor"?: 4|65,536/],
            [
                "vLLM's line",
                `vllm serve Qwen/Qwen3-8B --max-model-len 65536 --hf-overrides '{"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "rope_theta": 1000000}}'`,
                null,
                /65,536/,
            ],
        ]) {
            await page.evaluate((n) => rope.state.set('want', n), /Vicuna/.test(what) ? 16384 : 131072);
            await driver.type(area, words);
            await judged();
            if (!verdict)
                for (const field of await page.locator('#model .gaps input:visible').all()) {
                    const label = await field.evaluate((one) => one.closest('label').innerText);
                    await driver.type(field, /head/.test(label) ? '128' : /theta/.test(label) ? '1000000' : '131072');
                    await judged();
                }
            const said = await text('#model .verdict'),
                all = await text('#model');
            check((verdict ?? /^Made for 131,072 positions/).test(said), what, said);
            check(more.test(all) && !never.test(all), `${what}: the rest`, all.slice(-600));
        }
    },

    // The headline: how far settings reach, whatever length is wanted; who stops before; a refusal first.
    async headline() {
        const area = page.locator('#model textarea'),
            verdict = () => text('#model .verdict');
        const put = async (config, want) => {
            await page.evaluate((n) => rope.state.set('want', n), want);
            await judged();
            await driver.type(area, typeof config === 'string' ? config : JSON.stringify(config));
            await judged();
        };
        const qwen = {
            ...{ model_type: 'qwen3', hidden_size: 4096, num_attention_heads: 32, head_dim: 128, rope_theta: 1000000 },
            max_position_embeddings: 40960,
            rope_scaling: { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 32768 },
        };
        for (const want of [4096, 131072]) {
            await put(qwen, want);
            const said = await verdict();
            check(
                /^Made for 131,072 positions\. The file promises 40,960, and .*SGLang, llama\.cpp, ik_llama\.cpp.* stop there: raise max_position_embeddings\.$/.test(said),
                `Qwen 3 with its card's block, ${want} wanted`,
                said,
            );
        }
        check(/has to be raised, to 131,072|max_position_embeddings 131072/.test(await text('#model')), 'and the block says so, too');
        const llama = {
            ...{ model_type: 'llama', hidden_size: 4096, num_attention_heads: 32, rope_theta: 500000, max_position_embeddings: 131072 },
            rope_scaling: { rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 },
        };
        await put(llama, 4096);
        check((await verdict()) === 'Made for 131,072 positions.', 'the reach is not the length that is wanted', await verdict());
        check(!/need no scaling/.test(await text('#model')), 'a model that was trained with its factor is told no other');
        await put(llama, 1048576);
        check(/^Made for 131,072 positions, not 1,048,576\./.test(await verdict()), 'nor a longer one', await verdict());
        check(/do not stop you past 131,072/.test(await text('#model .readings')), 'engines that have no limit know of none');
        await put('{"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 4096,}', 4096);
        check(/^No engine opens this file: line 1: a comma/.test(await verdict()), 'a refusal comes first', await verdict());
        check((await page.locator('#model .verdict.bad').count()) === 1, 'in red');
        await put(`vllm serve Qwen/Qwen3-8B --hf-overrides '${JSON.stringify(qwen)}' --max-model-len 131072`, 131072);
        check(/^Made for 131,072/.test(await verdict()), 'a command line with a block in it is read', await verdict());
    },

    // The whole check of a model, as shown.
    async checking() {
        await page.evaluate(() => rope.state.set('want', 1024));
        await driver.type(page.locator('#model textarea'), '{"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 512}');
        await judged();
        await driver.type(page.locator('#model .gaps input:visible').last(), '1024');
        await judged();
        const shown = await page
            .locator('#model table.list tbody tr')
            .evaluateAll((all) => all.map((tr) => [tr.querySelector('b').innerText, tr.lastChild.innerText].join(' ')));
        const rows = tableOf(await runShown('model', 1));
        const settings = rows.filter((row) => shown.some((line) => line.startsWith(row.check)));
        check(
            rows.length > shown.length &&
                settings.every((row) => row.check === 'method' || shown.includes(`${row.check} ${row.verdict}`)),
            'the rows about settings are those of the command',
            `${shown} ${rows.map((row) => `${row.check} ${row.verdict}`)}`,
        );
    },

    // On a fresh page a file stands at the length that it promises, and sentence, table and advice agree with one another.
    async promises() {
        const p = await browser.newPage();
        p.setDefaultTimeout(60000);
        await p.goto(`${url}config.html`);
        await p.waitForSelector('#model .verdict');
        const said = async (words) => {
            await driver.type(p.locator('#model textarea'), words);
            await judged(p);
            return p.locator('#model').innerText();
        };
        const folder = join(ROOT, 'tests/configs');
        const files = [folder, join(folder, 'by_layer')].flatMap((one) =>
            readdirSync(one)
                .filter((name) => name.endsWith('.json'))
                .map((name) => join(one, name)),
        );
        check(files.length > 15, 'published configs are there', files.length);
        for (const path of files) {
            const name = path.split('/').at(-1),
                all = await said(readFileSync(path, 'utf8')),
                fails = await p.locator('#model tr.fail').filter({ hasNotText: /^window/ }).count(), // what its layers see is another matter
                verdict = await p.locator('#model .verdict').innerText();
            check(fails === 0 && /^Made for [\d,]+ positions\.|No angle is new/.test(verdict), `${name} holds as far as it says`, verdict);
            check(!/expect nonsense at any length/.test(all), `${name}: no sentence contradicts that`, all);
            const best = +(all.match(/so (\d+) of \d+ engines/)?.[1] ?? 99),
                lines = await p.locator('#model .readings li.same').allInnerTexts();
            check(best >= (lines.join().match(/,/g) ?? []).length - 1, `${name}: advice is no worse than the file`, [
                best,
                lines,
            ]);
        }
        const cohere = {
            ...{ model_type: 'cohere2', head_dim: 128, hidden_size: 4096, num_attention_heads: 32 },
            ...{ num_hidden_layers: 32, max_position_embeddings: 8192, rope_theta: 50000 },
            ...{ sliding_window: 4096, sliding_window_pattern: 4 },
        };
        let all = await said(JSON.stringify(cohere));
        check(/No angle is new here, at any length/.test(all) && !/try yarn/.test(all), 'Cohere 2: nothing is new', all);
        check(!(await p.locator('#model table.list').count()), 'and no empty table stands there');
        const llama = {
            ...{ model_type: 'llama', head_dim: 64, hidden_size: 2048, num_attention_heads: 32, rope_theta: 500000 },
            max_position_embeddings: 131072,
            rope_scaling: {
                ...{ rope_type: 'llama3', factor: 32, low_freq_factor: 1, high_freq_factor: 4 },
                original_max_position_embeddings: 8192,
            },
        };
        all = await said(JSON.stringify(llama));
        check(/file's own block/.test(all) && !/262144/.test(all), 'Llama 3.2 1B keeps its own block', all.slice(-900));
        all = await said(JSON.stringify({ model_type: 'bert', hidden_size: 768 }));
        check(/says nothing of RoPE/.test(all) && !/a block of your own/.test(all), 'BERT is told no block', all);
        await said('');
        check(!(await p.locator('#model .status.bad').count()), 'an empty field is no error');
        const held = await p.locator('#model textarea').evaluate((area) => {
            area.value = JSON.stringify({ rope_type: 'linear', factor: 4, more: Array(1e5).fill('a b c') });
            const began = performance.now();
            area.dispatchEvent(new Event('input'));
            return performance.now() - began;
        });
        await until('#model .status', /which is no config\.json/, p);
        check(held < 500, 'a megabyte is refused, and holds nobody up', held);
        await p.close();
    },
};
