// The program in the page beside ./run: text, -ln p of every token, frequencies.
import { check, close, run, table } from './browser.mjs';
import { BOOK, page, wish } from './driver.mjs';

export default {
    async greedy_text() {
        const prompt = 'It was a fine morning in the spring when';
        for (const [method, options] of [
            ['none', ['--rope', 'none']],
            ['yarn:factor=4', ['--rope', 'yarn', '--factor', '4']],
        ]) {
            const n = 240;
            const { texts } = await wish(page, 'write', {
                method,
                prompt,
                context: n,
                temperature: 0,
                topP: 0,
                seed: 1,
            });
            const said = run(
                'model.bin',
                '-t',
                '0',
                '-n',
                String(n),
                '--kv',
                'f32',
                '--ignore-eos',
                '-i',
                prompt,
                ...options,
            );
            check(
                texts.length >= 210 && said.trim() === texts.join('').trim(),
                `greedy text of ${n} tokens, ${method}`,
                texts.join(''),
            );
        }
    },

    // -ln p of every token, as --per-token prints it.
    async per_token() {
        for (const [n, methods] of [
            [700, ['none', 'yarn', 'window', 'dynamic-ntk', 'llama3']],
            [1400, ['ntk-by-parts']],
        ]) {
            const how = `-n ${n} --per-token --kv f32 --rope ${methods.join(',')}`,
                rows = table('model.bin --ppl book.txt', how);
            for (const method of methods) {
                const { nll } = await wish(page, 'nll', {
                    method,
                    text: BOOK,
                    context: n,
                });
                close(
                    nll,
                    rows.filter((r) => r.method === method).map((r) => +r.nll),
                    1e-3,
                    `-ln p of ${n} tokens, ${method}`,
                );
            }
        }
    },

    async frequencies() {
        for (const method of [
            'none',
            'linear',
            'ntk',
            'ntk-by-parts',
            'yarn',
            'llama3',
            'dynamic-yarn',
            'yarn:factor=8:ramp=turns',
        ]) {
            const found = await page.evaluate((m) => {
                const { frequencies, plain } = rope.page.plan(m, 3000).frequencies(3000);
                return [Array.from(frequencies), Array.from(plain)];
            }, method);
            const [name, ...settings] = method.split(':');
            const options = settings.flatMap((s) => [`--${s.split('=')[0]}`, s.split('=')[1]]);
            const rows = table(
                '--explain --head-dim 64 --theta 10000 --train-ctx 512 -n 3000 --rope',
                name,
                ...options,
            );
            const relative = (list, column) => list.map((x, i) => x / +rows[i][column]);
            close(
                relative(found[0], 'scaled_inv_freq'),
                rows.map(() => 1),
                1e-9,
                `frequencies, ${method}`,
            );
            close(
                relative(found[1], 'inv_freq'),
                rows.map(() => 1),
                1e-9,
                `plain frequencies, ${method}`,
            );
        }
    },
};
