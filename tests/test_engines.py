#!/usr/bin/env python3
"""--engines and --reading: tests/conformance has how engines read configs, most of it computed by their own code. What no
case of theirs has is in tests/readings/engines.json (test_readings.py). Besides: readings in force, blocks that
most engines read alike, hostile configs."""

import collections
import glob
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import textwrap

from engine_cases import SET, differences, read_cases, read_found, refusal_of, says, says_in_c, told, write_found
from common import (ROOT, SHARED, at_terminal, case, check, close, config, export, exports, good, in_work, lacks, main,
                    one_line, perplexity, random_ids, random_weights, read, run, screen, skip, table, takes_long, tiny_model,
                    write, write_model, write_tokenizer)
from folders import folder_of, meaning_of, rows as folders
from readings import FULL, SLIDING, base, config_of, configs, meant, rows as rows_of, saved, turning

sys.path.insert(0, ROOT)
from probe.numbers.candidates import engine_readings  # noqa: E402
from probe.numbers.ours import Model  # noqa: E402


CASES = read_cases()
LAYERED = [one for one in CASES if 'layers' in one]  # whose layers or positions differ, with what is known of them
ALIKE = CASES[:CASES.index(LAYERED[0])]
ENGINES = ['hf5', 'hf4', 'vllm', 'sglang', 'llama.cpp', 'ik_llama.cpp', 'mlx-lm', 'exllamav3', 'exllamav2']
UNSEEN = 'not looked at'
KINDS = {FULL: 'full', SLIDING: 'sliding'}
COLUMNS = ['engine', 'version', 'facts', 'verdict', 'layers', 'method', 'scale', 'train_ctx', 'attention_factor',
           'max_len', 'worst_pair', 'worst_ratio', 'note']
LLAMA, PHI3 = base('engines_llama'), base('engines_phi3')
SHORT, LONG = [1.0 + i / 8 for i in range(8)], [2.0 + i for i in range(8)]
YARN = {'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 2048}


def known(model_type='llama'):
    """The engines of which something is known, by the config's family."""
    return [name for name in ENGINES if name != 'ik_llama.cpp' or model_type != 'phi3']


def block(**keys):
    return dict(LLAMA, rope_scaling=keys)


def layered(model_type, **changes):
    return base('layered', model_type=model_type, **changes)


def engines(path, length, *names):
    """{engine: {kind: row}}, and the notes above the table. Status 1 when one differs; 3 when none does, but one that
    was asked for by its name is unverified."""
    result = run('--engines' + ('=' + ','.join(names) if names else ''), '--rope-config', path, '-n', length)
    notes, columns, rows = table(result.out)
    check(columns in (COLUMNS, [name for name in COLUMNS if name != 'layers']) and rows and (
        rows[0]['engine'].startswith('hf5')), 'the table of --engines, hf5 first', (columns, rows[:1]))
    verdicts = {row['verdict'] for row in rows}
    is_unsure = UNSEEN in verdicts and (names or verdicts == {UNSEEN})
    status = 1 if verdicts - {'same', UNSEEN} else 3 if is_unsure else 0
    check(result.status == status and not result.err, 'status %d' % status, result)
    found = {}
    for row in rows:
        found.setdefault(row['engine'], {})[row.get('layers', 'full')] = row
    return found, notes


def explained(engine, path, length):
    """{kind: frequencies} of a reading, and its notes; None: it is refused."""
    result = run('--explain', '--reading', engine, '--rope-config', path, '-n', length)
    if result.status:
        one_line(result, 2, engine + ' refuses', engine)
        return None, None
    notes, _, rows = table(result.out)
    found = {}
    for row in rows:
        found.setdefault(row.get('layers', 'full'), []).append(float(row['scaled_inv_freq']))
    return found, notes


def noted(notes, key, kind):
    """A note of a kind of layers: the one with its name after the key, else that of both."""
    return notes.get('%s_%s' % (key, kind), notes.get(key))


# ---- how their own code reads configs ----

def test_cases():
    """What is said of each release is what its own code computed. Every tenth case is asked of ./run itself, too."""
    recorded = read_found()
    asked = [(list(recorded[one['name']])[i:i + 12], one) for one in CASES for i in range(0, len(recorded[one['name']]), 12)]
    for (names, one), said in zip(asked, says_in_c(asked)):
        with case(one['name']):
            for name in names:
                words = differences(said[told(name, one)], recorded[one['name']][name])
                check(not words, '%s, %s' % (one['name'], name), words)
    for names, one in asked[::10]:
        for name, said in says([told(name, one) for name in names], one).items():
            true = next(recorded[one['name']][own] for own in names if told(own, one) == name)
            if said['notes'] == ['no value that was tried: it is refused here']:
                continue  # of a value that no block is read for there
            check(not differences(said, true), '%s, %s, by ./run' % (one['name'], name), differences(said, true))


def test_difference_is_noticed():
    """The comparison by itself: another frequency, factor, length, number of pairs, or refusal."""
    one, found = CASES[0], read_found()[CASES[0]['name']]['vllm@0.33']
    said = says(['vllm@0.33'], one)['vllm@0.33']
    values, a = found['layers']['all']
    for what, wrong in (('a frequency', {'layers': {'all': [[values[0] * 1.001] + values[1:], a]}}),
                        ('a factor', {'layers': {'all': [values, a * 1.001]}}), ('a length', {'max_len': 4097}),
                        ('pairs', {'layers': {'all': [values[:-1], a]}}), ('a refusal', {'error': 'KeyError: factor'}),
                        ('no RoPE', {'layers': {'all': None}})):
        check(len(differences(said, dict(found, **wrong))) > 0, what + ' that differs is noticed')
    check(not differences(said, found), 'and nothing else', differences(said, found))


def test_tables_are_written():
    """What `python3 tests/world engines --write` writes of readings that have not changed is the same."""
    write_found(read_found(), in_work('cases.json'))
    check(read(in_work('cases.json')) == read(SET), 'the same bytes')


def test_tables_are_written_again():
    """Numbers that a new run rounds otherwise, and the order of its sets, change nothing."""
    noise, found = random.Random(1), read_found()
    for one in (one for case in found.values() for one in case.values()):
        for kind, value in one.get('layers', {}).items():
            if value is not None:
                one['layers'][kind] = [[x * (1 + 2e-6 * noise.uniform(-1, 1)) for x in value[0]], value[1]]
    write_found(found, in_work('cases.json'))
    check(read(in_work('cases.json')) == read(SET), 'the same bytes')
    recipe = write(in_work('sets.py'), 'import json; print(json.dumps({"engine": "", "cases": {"set": list(set("abcdef"))}}))')
    ask = 'import sys; sys.path += %r; import engines; print(engines.computed(sys.executable, "hf5", [], [], %r))' % (
        [os.path.join(ROOT, 'tests', 'world'), os.path.join(ROOT, 'tests')], recipe)
    orders = {subprocess.run([sys.executable, '-c', ask], env=dict(os.environ, PYTHONHASHSEED=str(seed)), check=True,
                             stdout=subprocess.PIPE).stdout for seed in (1, 2)}
    check(len(orders) == 1, "a recipe's sets have one order", orders)


def test_conformance():
    """The runner of the conformance set, with readers that are right, all but right, and wrong in one way each."""
    folder = os.path.dirname(SET)
    with open(SET, encoding='utf-8') as file:
        whole = json.load(file)
    reader = """
        import json
        whole = json.load(open(%r, encoding='utf-8'))

        def found(config, length, layers, as_engine):
            case = next(one for one in whole['cases'] if (one['config'], one['length']) == (config, length))
            row = next(row for row in case['readings'] if (as_engine or case['meant'] or 'hf5@5.24') in row['engines'])
            if 'error' in row:
                raise KeyError(row['error'])
            return row[layers] and [whole['frequencies'][row[layers][0]], row[layers][1], case['max_len_of'].get(as_engine)]

        def right(config, length, layers):
            return found(config, length, layers, None)

        def as_vllm(config, length, layers):
            return found(config, length, layers, 'vllm@0.33')

        def fast(config, length, layers):
            out = right(config, length, layers)
            return out and [[1.001 * f for f in out[0]], *out[1:]]

        def warm(config, length, layers):
            out = right(config, length, layers)
            return out and [out[0], 1.001 * out[1], None]

        def short(config, length, layers):
            out = right(config, length, layers)
            return out and [out[0][:-1], out[1], None]

        def long(config, length, layers):
            out = as_vllm(config, length, layers)
            return out and [*out[:2], (out[2] or 0) + 1]

        def refuses(config):
            raise ValueError('no')

        def takes(config, length, layers):
            try:
                return right(config, length, layers)
            except KeyError:
                return [1.0], 1.0, None
        """ % SET
    path = write(in_work('reader.py'), textwrap.dedent(reader))

    def held(name, *options):
        done = subprocess.run([sys.executable, os.path.join(folder, 'run.py'), path + ':' + name, *options],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        return done.returncode, done.stdout.splitlines() or done.stderr.splitlines()
    for name, options, words in (
            ('right', (), None), ('as_vllm', ('--as', 'vllm@0.33'), None), ('fast', (), 'pair 0 turns by'),
            ('warm', (), 'attention_factor'), ('short', (), 'pairs turn, expected'), ('refuses', (), 'ValueError: no, expected'),
            ('long', ('--as', 'vllm@0.33'), 'longest text'), ('takes', (), 'taken, expected'), ('as_vllm', (), 'attention_factor')):
        status, lines = held(name, *options)
        check(status == (1 if words else 0) and (not words or any(words in line for line in lines)), 'the runner: ' + name,
              (status, lines[-3:]))
    n = sum('longrope' in one['name'] for one in whole['cases'])
    check(held('right', 'longrope')[1] == ['%d of %d readings alike' % (n, n)] and n, 'the cases of a word', n)
    status, lines = held('right', '--as', 'vllm@9')
    check(status == 1 and 'there is no vllm@9 (expected one of hf5@5.24' in lines[0], 'an engine that is not there', lines)
    named = {row['refusal'] for one in whole['cases'] for row in one['readings'] if 'error' in row}
    check(named <= set(whole['refusals']), 'kinds of refusals are explained', named)
    for error, config, kind in (('KeyError: factor', {}, 'missing_key'), ("KeyError: 'su'", {'type': 'su'}, 'unknown_rope_type'),
                                ("ValueError: 'laguna'", {'model_type': 'laguna'}, 'unknown_model'),
                                ("TypeError: 'int' object is not iterable", {}, 'wrong_type'),
                                ('AssertionError: Unknown architecture', {}, 'unknown_model')):
        check(refusal_of(error, config) == kind, 'the kind of ' + error, refusal_of(error, config))


def test_notes():
    """A note names the key and what happens, and only where it makes a difference."""
    for name, words in NOTES.items():
        one = next(one for one in CASES if one['name'] == name)
        rows, _ = engines(saved(one['config'], 'case.json'), one['length'])
        for engine, expected in words.items():
            check(all(word in rows[engine]['full']['note'] for word in expected), '%s: the note on %s' % (name, engine),
                  rows[engine])
        for engine, found in rows.items():
            row = found['full']
            check(row['verdict'] != 'same' or engine == 'hf5' or row['note'] == '-',
                  '%s: nothing to note on %s' % (name, engine), row)
            if row['worst_pair'] != '-':
                check(float(row['worst_ratio']) != 1, '%s: the worst pair of %s' % (name, engine), row)


def test_note_of_one_block():
    """A note on one block for two kinds of layers in rope_parameters names no rope_scaling, which is not there."""
    one = {'rope_type': 'linear', 'factor': 8.0, 'rope_theta': 1e6}
    rows, _ = engines(saved(layered('gemma3_text', rope_parameters=one), 'case.json'), 100)
    check('no block for a kind of layers' in rows['hf5']['full']['note'], 'what is noted', rows['hf5'])
    for engine, found in rows.items():
        notes = ' '.join(row['note'] for row in found.values())
        check('rope_scaling' not in notes, 'the note on ' + engine, notes)


NOTES = {
    'llama3_v5': {'hf4': ['rope_parameters is not read', 'rope_theta 10000, not 500000']},
    'longrope_llama': {'llama.cpp': ['plain RoPE']}, 'longrope_short': {'mlx-lm': ['long_factor, not short_factor']},
    'longrope_su': {'exllamav3': ['long_factor, not short_factor']},
    'partial_llama': {'mlx-lm': ['partial_rotary_factor']}, 'text_config': {'llama.cpp': ['text_config']},
    'unknown_type': {'exllamav2': ['plain RoPE', 'rope_type']},
    'yarn_attention1': {'sglang': ['attention_factor is not read', 'a 1.13863, not 1']},
    'yarn_betas': {'llama.cpp': ['beta_fast and beta_slow are not read']},
    'yarn_mscale': {'exllamav3': ['mscale is not read']}, 'yarn_no_original': {'mlx-lm': ['L 4096, not 8192']},
    'yarn_qwen': {'exllamav3': ['factor is not read', 's 1, not 4']},
    'yarn_truncate': {'mlx-lm': ['truncate is not read']},
    'yarn with mrope_section': {'vllm': ['L 32768, not 8192', 'the ramp is placed by 4 L']},
    'yarn, extrapolation_factor 0.5': {'sglang': ['extrapolation_factor is read']},
}
# What queries of Ministral 3 grow by, at positions, by engines' own code.
GROWTH = {0: 1, 16383: 1, 16384: 1.069315, 32767: 1.069315, 32768: 1.109861, 65536: 1.160944}
GROWS = 'hf5', 'llama.cpp', 'mlx-lm', 'exllamav3', 'sglang', 'ik_llama.cpp'


def test_growth():
    one = next(one for one in CASES if one['name'] == 'ministral3')
    path = saved(one['config'], 'case.json')
    for name in GROWS:
        for position, value in GROWTH.items():
            early = name == 'ik_llama.cpp'  # by one position
            notes = explained(name, path, position + 1 - early or 1)[1]
            close([float(notes['temperature'])], [value], 1e-5, '%s: growth at %d' % (name, position))
    check('temperature_beta' not in explained('vllm', path, one['length'])[1], 'vllm: queries do not grow')


def test_asked_for_by_name():
    """Engines that are not among the nine: Ollama's converter, which was read; Aphrodite, a vLLM; all at once; and MLX-VLM,
    which Qwen 3.5 shows unasked."""
    llama, qwen = dict(LLAMA), dict(LLAMA, model_type='qwen3', architectures=['Qwen3ForCausalLM'])
    llama3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    for config, verdict, words in (
            (dict(llama, rope_scaling=dict(YARN)), 'ignored', 'of rope_type llama3 alone'),
            (dict(llama, rope_scaling=dict(YARN, type='yarn')), 'ignored', ''),
            (dict(llama, rope_scaling={'type': 'linear', 'factor': 4.0}), 'same', '-'),
            (dict(llama, rope_scaling={'rope_type': 'linear', 'factor': 4.0}), 'ignored', ''),
            (dict(llama, rope_scaling=dict(llama3, rope_type='llama3')), 'same', '-'),
            (dict(llama, rope_scaling=dict(llama3, type='llama3')), 'ignored', 'of type linear alone'),
            (dict(qwen, rope_scaling=dict(YARN)), 'refused', 'json: cannot unmarshal number'),
            (dict(qwen, rope_scaling={'type': 'linear', 'factor': [4.0]}), 'refused', ''),
            (qwen, 'same', '-'), (dict(LLAMA, model_type='mistral'), UNSEEN, '-')):
        row = engines(saved(config), 3000, 'ollama')[0]['ollama']['full']
        check(row['verdict'] == verdict and words in row['note'], 'ollama: %s' % config.get('rope_scaling'), row)
    both = [engines(saved(block(**YARN)), 9000, name)[0][name]['full'] for name in ('aphrodite', 'vllm@0.29')]
    check({key: value for key, value in both[0].items() if key != 'engine'} ==
          {key: value for key, value in both[1].items() if key != 'engine'}, 'Aphrodite is a vLLM', both)
    every, _ = engines(saved(LLAMA), 3000, 'all')
    check(list(every) == ENGINES + ['lmdeploy', 'lmdeploy:pytorch', 'onnxruntime-genai', 'ollama'], 'all thirteen', list(every))
    row = engines(saved(dict(LLAMA, model_type='mistral', rope_scaling=YARN)), 3000, 'lmdeploy')[0]['lmdeploy']['full']
    check('TurboMind has no class for it' in row['note'] and row['verdict'] == 'same', 'the other engine of LMDeploy', row)
    path = os.path.join(ROOT, 'tests', 'configs', 'by_layer', 'qwen3.5.json')
    rows, _ = engines(path, 3000)
    check(list(rows) == ENGINES + ['mlx-vlm'], 'Qwen 3.5 shows MLX-VLM', list(rows))
    unseen = [found['full'] for found in engines(saved(dict(LLAMA, model_type='jetmoe')), 100)[0].values()
              if found['full']['verdict'] == UNSEEN]
    check(unseen and all(row['facts'] == '-' for row in unseen), 'what nobody looked at has no facts', unseen)


def test_facts():
    """How each engine's facts were found, and when."""
    rows, notes = engines(saved(CASES[0]['config']), 100)
    check(all(re.match(r'(run|read) 2026-\d\d-\d\d$', found['full']['facts']) for found in rows.values()), 'facts', rows)
    newest = max(found['full']['facts'].split()[1] for found in rows.values())
    check(notes['facts_of'] == newest, 'the newest of them is the date of the table', notes)
    read = [name for name, found in rows.items() if found['full']['facts'].startswith('read')]
    check(read == ['ik_llama.cpp'], 'one was read alone', read)


def test_raised():
    """What a card's YaRN lacks where servers end texts at max_position_embeddings."""
    card = next(one for one in CASES if one['name'] == 'Qwen 3, card')['config']
    rows, notes = engines(saved(card), 131072)
    check(notes.get('raise') == 'max_position_embeddings 131072: all but exllamav2 serve 131072 then', 'what to change',
          notes)
    verdicts = {name: found['full']['verdict'] for name, found in rows.items()}
    check(verdicts['vllm'] == verdicts['llama.cpp'] == 'too long' and verdicts['hf5'] == 'same', 'who ends the text',
          verdicts)
    check(rows['sglang']['full']['note'] == 'ends at 40960: max_position_embeddings', 'and why', rows['sglang'])
    check(rows['vllm']['full']['max_len'] == '40960', 'vLLM ends texts at max_position_embeddings', rows['vllm'])
    one_line(run('--explain', '--rope-config', saved(card), '--reading', 'vllm:max_len=131072'), 2, 'more is refused',
             'User-specified max_model_len (131072) is greater than the derived max_model_len')
    bare = dict(card, rope_scaling={'rope_type': 'yarn', 'factor': 3.0})  # L is max_position_embeddings, and must stay it
    rows, notes = engines(saved(bare), 100000, 'vllm', 'sglang:max_len=100000')
    check(notes.get('raise') == 'max_position_embeddings 122880, with original_max_position_embeddings 40960 in its block: '
          'all serve 100000 then', 'what to add, also where a server is refused', notes)
    whole = json.loads(json.dumps(bare))
    whole.update(max_position_embeddings=122880)
    whole['rope_scaling']['original_max_position_embeddings'] = 40960
    before, after = (explained('hf5', saved(config), 100000)[0]['full'] for config in (bare, whole))
    close(after, before, 1e-9, 'with both the frequencies are what they were')
    for config, n in (dict(card, max_position_embeddings=131072), 131072), (card, 131073), (card, 4096):
        rows, notes = engines(saved(config), n)
        check('raise' not in notes, 'nothing to change at %d' % n, notes)


def test_layers():
    """Which layers are of which kind, by --explain and by --engines."""
    for one in LAYERED:
        if one['name'] in ('gemma4_pasted', 'smollm3_yarn') or len(one['layers']) == 1:  # refused; of one kind
            continue
        with case(one['name']):
            for job in '--explain', '--engines':
                notes = table(run(job, '--rope-config', saved(one['config'])).out)[0]
                for kind, numbers in one['layers'].items():
                    key = 'layers_' + kind
                    check(notes.get(key) == numbers, '%s: %s by %s' % (one['name'], key, job), notes)


# ---- readings in force ----

# Dual chunk attention as Qwen2.5's models of a million positions have it, but smaller.
CHUNKS = {'chunk_size': 1024, 'local_size': 256, 'original_max_position_embeddings': 1024}
QWEN_1M = dict(LLAMA, model_type='qwen2', dual_chunk_attention_config=CHUNKS)


def small_model(**changes):
    c = dict(dict(head_dim=8, dim=16, n_heads=2, n_kv_heads=1, n_layers=1, vocab_size=64, seq_len=64, train_ctx=64,
                  theta=1e4), **changes)
    return tiny_model('model.bin', **c)


def test_not_looked_at():
    """An unverified engine has no reading, and a status of its own."""
    rows, _ = engines(saved(QWEN_1M), 5000, 'llama.cpp')
    row = rows['llama.cpp']['full']
    check(row['method'] == '-' and row['note'] == '-', 'not looked at has no reading', rows)
    one_line(run('--explain', '--rope-config', saved(QWEN_1M), '--reading', 'llama.cpp'), 2, 'nor one in force',
             'how llama.cpp reads this config is not known')
    status = run('--engines=sglang', '--rope-config', saved(block(type='mrope')), '-n', 100).status
    check(status == 1, 'one that refuses goes before one that nobody looked at', status)
    exact = saved(dict(LLAMA, model_type='smollm3', no_rope_layer_interval=4))
    for name, status in ('lightllm', 3), ('exllamav2', 1), ('hf4', 0):
        check(run('--engines=' + name, '--rope-config', exact, '-n', 100).status == status, 'status of ' + name)


def test_chunks_in_force():
    """A config with dual chunks is the map dca with its chunk and L: by the distances that the paper gives, and by the
    same numbers as with options. SGLang's reading is the map too, and Hugging Face's is not."""
    chunk, L = CHUNKS['chunk_size'] - CHUNKS['local_size'], CHUNKS['chunk_size']
    n = 5000
    settings, _, rows = table(good('--explain', '--rope-config', saved(QWEN_1M), '-n', n).out)
    check((settings['method'], settings['map'], settings['chunk'], settings['train_ctx'], settings['unseen_share']) ==
          ('none', 'dca', '768', '1024', '0'), 'the map', settings)
    i = n - 1
    for pair in settings['distances'].split():
        d, found = map(float, pair.split(':'))
        j = i - int(d)
        apart = i // chunk - j // chunk
        meant = d if not apart else min(i % chunk + chunk, L - 1) - j % chunk if apart == 1 else L - 1 - j % chunk
        check(found == meant, 'D of a key %d before' % d, (found, meant))
    shown = good('--rope-json', '--rope-config', saved(QWEN_1M)).out
    part = json.loads(shown.splitlines()[-1])
    check(part['dual_chunk_attention_config'] == CHUNKS and part['max_position_embeddings'] == 8192, 'published', shown)
    back = table(good('--explain', '-n', n, '--head-dim', 64, '--rope-config', saved(part, 'part.json')).out)
    check(back[2] == rows and back[0] == settings, 'and read again', back[0])
    model, ids = small_model(), write(in_work('ids.txt'), ' '.join(map(str, random_ids(200, 64, 5))))
    path = saved(dict(QWEN_1M, hidden_size=16, head_dim=8, num_attention_heads=2, max_position_embeddings=256,
                      rope_theta=1e4, dual_chunk_attention_config={'chunk_size': 64, 'local_size': 24}))

    def nll(*options):
        out = good(model, '--ppl', ids, '--ids', '-n', 200, '--tsv', '--kv', 'f32', *options).out
        return [float(row['nll']) for row in table(out)[2]]
    mapped, plain_ones = nll('--rope', 'dca', '--chunk', 40), nll('--rope', 'none')
    close(nll('--rope-config', path), mapped, 1e-6, 'a config is the map')
    close(nll('--rope-config', path, '--reading', 'sglang'), mapped, 1e-6, 'as SGLang has it')
    close(nll('--rope-config', path, '--reading', 'hf5'), plain_ones, 1e-6, 'as Hugging Face has it')
    check(abs(mapped[-1] - plain_ones[-1]) > 1e-4, 'which differ', (mapped, plain_ones))


def test_reading():
    """Any job runs as an engine reads the block: the same numbers as with that reading's settings by options."""
    model, ids = small_model(), write(in_work('ids.txt'), ' '.join(map(str, random_ids(200, 64, 5))))
    path = saved({'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 64, 'attention_factor': 1.5})
    ppl = ['--ppl', ids, '--ids', '-n', 200, '--tsv', '--kv', 'f32']
    _, _, rows = table(good(model, *ppl, '--rope-config', path, '--reading', 'hf5,sglang,exllamav3').out)
    found = {}
    for row in rows:
        found.setdefault(row['method'], []).append(float(row['nll']))
    check(list(found) == ['hf5:yarn', 'sglang:yarn', 'exllamav3:yarn'], 'names say the engine', list(found))
    for name, options in (('hf5:yarn', ['yarn', '--factor', 4, '--attention-factor', 1.5]), ('sglang:yarn', [
            'yarn', '--factor', 4]), ('exllamav3:yarn', ['yarn', '--factor', 1, '--attention-factor', 1.5])):
        _, _, rows = table(good(model, *ppl, '--rope', *options).out)
        close(found[name], [float(row['nll']) for row in rows], 1e-5, '--reading %s as by options' % name)
    check(found['hf5:yarn'] != found['sglang:yarn'] != found['exllamav3:yarn'], 'the readings are three', found)
    text = good(model, *ppl, '--rope-config', path, '--reading', 'hf4@4.50:max_len=9,exllamav2:max_len=256').out
    check('hf4@4.50:max_len=9:yarn' in text and 'exllamav2:max_len=256:yarn' in text, 'variants are in force', text)
    for job in (['--explain', '-n', 200], ['--rope-json']):
        out = good(model, *job, '--rope-config', path, '--reading', 'vllm').out
        check('yarn' in out, '--reading goes with %s' % job[0], out)


def test_reading_of_settings():
    """Without a file, an engine reads what the settings would be published as."""
    model = small_model()
    settings, _, rows = table(good(model, '--explain', '--rope', 'dynamic', '--factor', 2, '-n', 200,
                                   '--reading', 'sglang').out)
    close([float(row['scaled_inv_freq']) for row in rows], turning(meant('ntk factor=3 turns=8'), 1)[0],
          1e-6, 'dynamic as SGLang reads it')
    check(settings['method'] == 'ntk', 'which is one base', settings)
    plain = turning(meant('none turns=8'), 1)[0]
    for name in ENGINES:
        settings, _, rows = table(good(model, '--explain', '-n', 64, '--reading', name).out)
        close([float(row['scaled_inv_freq']) for row in rows], plain, 1e-9, 'plain RoPE by %s' % name)
    part = small_model(head_dim=16, rotary_dim=8)  # a Phi-3's head, of which half turns
    rows = table(run(part, '--engines', '-n', 64).out)[2]
    check({row['verdict'] for row in rows if row['engine'] in known('phi3')} == {'same'},
          'a part of a head turns in all', rows)


def test_pattern_that_is_none():
    """MLX-LM counts layers by sliding_window_pattern. Where that is no number, both kinds are reported all the same."""
    path = saved({'model_type': 'gemma3_text', 'head_dim': 128, 'num_hidden_layers': 4,
                  'sliding_window_pattern': 'LLLG', 'rope_scaling': {'rope_type': 'linear', 'factor': 8.0},
                  'layer_types': ['sliding_attention'] * 3 + ['full_attention']})
    rows = table(run('--engines', '--rope-config', path).out)[2]
    kinds = [row['layers'] for row in rows if row['engine'] == 'mlx-lm']
    check(kinds == ['full', 'sliding'], 'a row for each kind', rows)
    notes = table(good('--explain', '--rope-config', path, '--reading', 'mlx-lm').out)[0]
    check((notes['method'], notes['method_sliding']) == ('linear', 'none'), 'and both can be in force', notes)


def test_in_force():
    """On models whose layers differ, a reading puts both kinds in force: a wrong one costs what Hugging Face's own code
    says of that mistake."""
    folder = os.path.join(SHARED, 'golden_layers')
    if not os.path.isdir(folder):
        skip('what readings by layer cost (../shared/golden_layers is not here)')
        return
    for name, reading, mistake in (('olmo3_yarn', 'hf5', None), ('gemma3_linear8', 'hf5', None),
                                   ('ministral3', 'hf5', None),
                                   ('olmo3_yarn', 'hf5@5.12', 'scaling in sliding layers too'),
                                   ('gemma3_linear8', 'sglang', 'no scaling'),
                                   ('ministral3', 'vllm', 'temperature off')):
        golden = json.load(open(os.path.join(folder, name, 'golden.json'), encoding='utf-8'))
        model, ids = in_work(name + '.bin'), golden['ids']
        exports('--no-tokenizer', os.path.join(folder, name), model)
        for engine in ('--activations', 'f32'), ('--plain',):
            nll = perplexity(model, ids, '--kv', 'f32', '--reading', reading, *engine)
            off = max(abs(x - y) for x, y in zip(nll, golden['nll']))
            close([off], [golden['mistakes'][mistake] if mistake else 0], 1e-3, '%s as %s reads it' % (name, reading))


def test_windows_by_the_number_of_layers():
    """llama.cpp slides in an EXAONE 4 of 64 layers alone: a verdict, a note, and no model of others is run so."""
    for n, verdict in (64, 'same'), (12, 'differs'):
        rows = engines(saved(layered('exaone4', num_hidden_layers=n)), 20000, 'hf5', 'llama.cpp')[0]['llama.cpp']
        words = 'windows are known by 64 layers alone, and all layers turn: 0 of 12 layers slide, not 9'
        check(all(row['verdict'] == verdict and (verdict == 'same' or row['note'] == words) for row in rows.values()),
              'EXAONE 4 of %d layers' % n, rows)
        check(('full' in rows) == (n != 64), 'EXAONE 4 of %d layers: what turns' % n, rows)
    c = config(norm_place=1, qk_norm=1, n_layers=4, layers=[4, 4, 4, 3], sliding_window=9, sliding_rope=1,
               sliding_theta=1e4, sliding_train_ctx=64)
    write_model(in_work('exaone.bin'), c, random_weights(c, 1))
    write(in_work('ids.txt'), '1 5 6 7')
    for reading, status in ('hf5', 0), ('llama.cpp', 2):
        done = run(in_work('exaone.bin'), '--ppl', in_work('ids.txt'), '--ids', '-n', 4, '--reading', reading)
        check(done.status == status and (not status or 'to llama.cpp all layers are full' in done.err), reading, done)


def test_gpt_oss_brought_in():
    """A small gpt-oss as a model file: by --engines, --rope-json, --reading and the probe's candidates as its
    config.json is. Other settings in its full layers alone are nothing that a config of gpt-oss can say."""
    row = next(row for row in folders('mixtures') if row['name'] == 'gpt-oss')
    # A base that is small enough for the ramp's rounding to show, and the betas that vLLM demands.
    c, scaling = meaning_of(row, theta=4.0), dict(row['with']['rope_scaling'], beta_fast=32.0, beta_slow=1.0)
    row = dict(row, **{'with': dict(row['with'], rope_theta=4.0, max_position_embeddings=64, rope_scaling=scaling)})
    folder, model = folder_of(row, c, random_weights(c, 3)), in_work('gptoss.bin')
    exports('--no-tokenizer', folder, model)
    config = os.path.join(folder, 'config.json')

    def facts(*arguments):
        result = run('--engines', '-n', 100, *arguments)
        rows = table(result.out)[2]
        return result.status, [tuple(row[key] for key in COLUMNS[:9] + COLUMNS[10:12]) for row in rows]
    check(facts(model) == facts('--rope-config', config), 'gpt-oss: --engines', (facts(model), facts(
        '--rope-config', config)))
    check(len(facts(model)[1]) == 2 * len(ENGINES), 'gpt-oss: two rows each', facts(model))
    shown = good(model, '--rope-json').out
    check('so 5 of 9 engines interpret it the same way' in shown and '"truncate": false' in shown, 'gpt-oss: --rope-json', shown)
    own = table(good(model, '--explain', '-n', 100).out)[2]
    back = write(in_work('gptoss.json'), shown.splitlines()[-1])
    check(table(good(model, '--explain', '-n', 100, '--rope-config', back).out)[2] == own, 'gpt-oss: it comes back',
          shown)
    ids = [random.Random(4).randrange(40) for _ in range(60)]
    close(perplexity(model, ids, '--kv', 'f32', '--reading', 'hf5'), perplexity(model, ids, '--kv', 'f32'), 1e-6,
          'gpt-oss: --reading hf5')
    apart = perplexity(model, ids, '--kv', 'f32', '--reading', 'llama.cpp')
    check(max(abs(x - y) for x, y in zip(apart, perplexity(model, ids, '--kv', 'f32'))) > 1e-6,
          'gpt-oss: --reading llama.cpp rounds', apart[:3])
    found, refused, _ = engine_readings(Model(model, None, None, None), 100, None)
    check([candidate.engine for candidate in found] == ENGINES[:-1] and list(refused) == ENGINES[-1:],
          "gpt-oss: the probe's candidates", ([candidate.engine for candidate in found], refused))
    for candidate in found:
        candidate.signature(Model(model, None, None, None), 100)
    one_line(run(model, '--rope-json', '--rope', 'linear', '--factor', 4), 2, 'gpt-oss: full layers alone',
             'its family has one block for all layers', '--rope-sliding')
    out = good(model, '--rope-json', '--rope', 'linear', '--factor', 4, '--rope-sliding', 'linear:factor=4').out
    check('"rope_type": "linear"' in out, 'gpt-oss: all layers', out)
    rows = table(run(model, '--engines', '--rope', 'none', '--rope-sliding', 'none', '-n', 100).out)[2]
    check(rows[0]['method'] == 'none', "gpt-oss: none is not its class's own block", rows[0])


def test_one_rope_in_two_kinds():
    """An engine that knows one RoPE turns all layers by it, also those that have settings of their own in the file."""
    if lacks('models/layers-nope.bin'):
        return
    block = {'rope_type': 'yarn', 'factor': 16.0, 'original_max_position_embeddings': 256}
    path = saved({'model_type': 'smollm3', 'hidden_size': 128, 'num_attention_heads': 4, 'num_hidden_layers': 5,
                  'max_position_embeddings': 256, 'rope_theta': 10000.0, 'no_rope_layers': [1, 1, 1, 0, 1],
                  'rope_scaling': block})

    def last(*options):
        result = good('models/layers-nope.bin', '--ppl', 'book.txt', '-n', 600, *options)
        return float(result.out.split('\n')[-2].split('\t')[4])
    read = last('--rope-config', path, '--reading', 'exllamav3')
    close([read], [last('--rope', 'none', '--rope-sliding', 'none')], 1e-6, 'exllamav3 does not read the factor')
    other = last('--rope', 'none', '--rope-sliding', 'yarn:factor=16')
    check(abs(read - other) > 0.01, 'in no layer', (read, other))


MARKS = {'same': '=', 'too long': '=', 'differs': '≠', 'ignored': 'off', 'refused': '×', UNSEEN: '?'}


def test_matrix():
    """The matrix of docs/engines.md is what --engines says of the configs of tests/engines/matrix.json, its costs aside."""
    document = read(os.path.join(ROOT, 'docs', 'engines.md')).decode()
    table_of = document.split('## Which engine reads which key')[1].split('\n##')[0]
    said = [line.strip('| ').split(' | ') for line in table_of.splitlines() if line[:2] == '| '][2:]
    with open(os.path.join(ROOT, 'tests', 'engines', 'matrix.json'), encoding='utf-8') as file:
        rows = json.load(file)
    check([row[0] for row in said] == [row['key'] for row in rows], 'its rows', [row[0] for row in said])
    for row, marks in zip(rows, said):
        found, _ = engines(saved(row['config']), row['length'])
        verdicts = {name: [one['verdict'] for one in found[name].values()] for name in ENGINES}
        worst = [next((MARKS[kind] for kind in ('refused', UNSEEN, 'ignored', 'differs') if kind in verdicts[name]), '=')
                 for name in ENGINES]
        check(worst[0] == '=' and worst[1:] == marks[1:9], row['key'], worst, marks)


def test_at_a_terminal():
    """80 columns hold a row; the pair that is furthest off and the note are in words below it."""
    for one in ALIKE + CASES[len(ALIKE)::4]:
        path = saved(one['config'])
        shown = screen(at_terminal(('--engines', '--rope-config', path, '-n', 16384)))
        lines = [line for line in shown if not line.startswith('run: warning: ')]  # which no table holds
        check(all(len(line) <= 80 for line in lines), one['name'] + ' in 80 columns', lines)
        if one in ALIKE:
            check_words_below(one['name'], lines, table(run('--engines', '--rope-config', path, '-n', 16384).out)[2])


def check_words_below(what, lines, rows):
    shown = {}
    for line in lines:
        name = line.split(' ')[0]
        if name in ENGINES:
            shown[name] = ''
        elif line[:2] == '  ' and shown and line.strip():
            shown[list(shown)[-1]] += ' ' + line.strip()
    check(list(shown) == ENGINES, what + ': a row for each engine', lines)
    for row in rows:
        words = shown.get(row['engine'], '').strip()
        expected = row['note'] if row['note'] != '-' else ''
        if row['worst_pair'] != '-':
            pair = 'pair %s turns %.4g times as fast' % (row['worst_pair'], float(row['worst_ratio']))
            expected = pair + ('; ' + expected if expected else '')
        if row['facts'].startswith('read'):  # facts that were not run
            expected += ('; ' if expected else '') + row['facts']
        check(words == expected, '%s, %s: the words below' % (what, row['engine']), (words, expected))


def test_questions():
    """Questions of trackers: docs/engines.md has each with its command, and the row of that command answers it."""
    document = read(os.path.join(ROOT, 'docs', 'engines.md')).decode()
    with open(os.path.join(ROOT, 'tests', 'engines', 'questions.json'), encoding='utf-8') as file:
        questions = json.load(file)
    told = re.findall(r'^\| ([\w.]+ [\d, ]+): .*?\| `(--engines=.*?)` \| `([\w ]+)`', document, re.M)
    check(told == [(one['tracker'], one['command'], one['verdict']) for one in questions], 'the table of questions', told)
    for one in questions:
        result = run(*one['command'].split(), '--rope-config', saved(one['config']))
        notes, _, rows = table(result.out)
        row = rows[-1]
        check(result.status == 1 and row['verdict'] == one['verdict'] and one['note'] in row['note'], one['tracker'], row)
        check('raise' not in one or notes.get('raise') == one['raise'], one['tracker'] + ': what to change', notes)


def test_long_names():
    """A long name has a line of its own, and the table fits its terminal."""
    names = ('vllm@0.24:transformers=5.15.0:max_len=131072', 'onnxruntime-genai:max_len=131072',
             'llama.cpp:transformers=5:max_len=131072', 'lmdeploy:pytorch@0.18.0:max_len=131072')
    path = saved(block(**YARN))
    for columns in 80, 100:
        lines = screen(at_terminal(('--engines=' + ','.join(names), '--rope-config', path, '-n', 9000), columns))
        check(all(len(line) <= columns for line in lines), 'names in %d columns' % columns, lines)
        head = next(line for line in lines if line.startswith('engine '))
        below = [lines[lines.index(name) + 1] for name in names]
        check(all(line[head.index('verdict') - 1:head.index('verdict')] == ' ' and line[head.index('verdict')] != ' '
                  for line in below), 'columns under a long name', lines)


def test_refusals():
    model, path = small_model(), saved(block(**YARN))
    unknown = saved(block(rope_type='stretch', factor=2.0), 'unknown.json')
    for arguments, words in (
            (['--engines=hf6', '--rope-config', path], ['--engines', "'hf6'", 'did you mean hf5', 'exllamav2']),
            ([model, '--engines', 'vllm:max=3', '--rope-config', path], ["'vllm:max=3'", ':max_len=N']),
            ([model, '--engines', 'hf4@x'], ['@RELEASE']), ([model, '--engines', 'vllm:max_len=x'], ['max_len']),
            ([model, '--engines', 'hf4@9.9'], ['release 9.9 of hf4 is not known (expected 4.45 to 4.57)']),
            ([model, '--engines', 'vllm,hf4@4.5:max_len=9'], ['release 4.5 of hf4', '4.45 to 4.57']),
            ([model, '--engines=hf5@5.25'], ['release 5.25 of hf5', '5.0 to 5.24']),
            ([model, '--engines=vllm@0.8'], ['release 0.8 of vllm', '0.11 to 0.33']),
            ([model, '--engines=sglang@0.5.24'], ['release 0.5.24 of sglang', '0.5.10 to 0.5.23']),
            ([model, '--engines=vllm@0.24:transformers=4.57'], ['vllm 0.24 requires transformers 5.5']),
            ([model, '--engines=vllm@0.14:transformers=5.5.4'], ['vllm 0.14 requires transformers 4.0 to 4.57']),
            ([model, '--engines=vllm:transformers=4.58'], ['release 4.58 of hf4', '4.45 to 4.57']),
            ([model, '--engines=llama.cpp@2026-10-01'], ['2026-10-01 of llama.cpp', '2025-02 to 2026-09']),
            ([model, '--engines=llama.cpp@0.4.2'], ['0.4.2 of llama.cpp', '2025-02 to 2026-09']),
            ([model, '--reading', 'exllamav3@1.7', '--explain'],
             ['--reading: release 1.7 of exllamav3', '(expected 1.4 to 1.6)']),
            ([model, '--engines', ','.join(['hf4'] * 17)], ['more than 16 engines']),
            ([model, '--reading', 'hf9', '--explain'], ['--reading', "'hf9'"]),
            ([model, '--reading', 'hf4,vllm', '--explain'], ['one engine expected', 'is a list of 2']),
            ([model, '--reading', 'vllm', '--engines'], ['cannot be combined']),
            ([model, '--reading', 'vllm', '--explain', '--rope-config', path, '--rope', 'yarn'], ['as it is']),
            ([model, '--engines', '--rope-config', path, '--factor', 3], ['as it is']),
            (['--explain', '--rope-config', unknown, '--reading', 'hf5'], ['hf5 refuses', 'rope_type']),
            ([model, '--rope-config', saved(LLAMA, 'other.json'), '--explain', '--reading', 'vllm'],
             ['vllm turns 64 elements', 'stored for 8']),
            ([model, '--engines', '--rope', 'yarn+dca'], ['no distance maps']),
            (['--engines', '--rope-config', saved('{"rope_type": }', 'bad.json')], ['bad.json: line 1: found']),
            (['--engines', '--rope-config', saved({'model_type': 'nobody'}, 'nobody.json')], ['model_type']),
            (['--engines', '--rope-config', in_work('none.json')], ['none.json'])):
        one_line(run(*arguments), 2, ' '.join(map(str, arguments))[-60:], *words)
    check(good('--explain', '--rope-config', unknown, '--reading', 'llama.cpp').out.startswith('# method\tnone'),
          'a type that only llama.cpp takes runs as it reads it')


def test_refused_readings():
    path = saved(ALIKE[0]['config'])
    for arguments, words in (
            (['--engines=vllm:transformers=9'], ['release 9 of hf5 is not known', '5.0 to 5.24']),
            (['--engines=hf5:transformers=5.5'], ["'hf5:transformers=5.5'", 'vllm:transformers=RELEASE']),
            (['--explain', '--reading', 'lightllm', '--rope-config', saved(LAYERED[0]['config'], 'layered.json')],
             ['--reading: how lightllm reads this config is not known'])):
        one_line(run(*arguments, *([] if '--rope-config' in arguments else ['--rope-config', path])), 2,
                 ' '.join(arguments), *words)
    two = run('--engines=vllm@0.24:transformers=5.5.4:max_len=4k', '--rope-config', path)
    check(two.status == 0 and 'vllm@0.24:transformers=5.5.4:max_len=4k' in two.out, 'settings in a row', two)


def test_releases():
    """The last release that is known stands for all that begin with its numbers."""
    names = ['hf4@4.45', 'hf4@4.57.6', 'hf5@5.15.1', 'vllm@0.11.0', 'vllm@0.24.3', 'llama.cpp@2025-02-20',
             'llama.cpp@2026-08-22', 'llama.cpp@0.5.0', 'llama.cpp@0.5', 'sglang@0.5.10', 'sglang@0.5', 'mlx-lm@0.31',
             'exllamav3@1.6', 'exllamav2@0.3.2']
    rows, _ = engines(saved(LLAMA), 100, *names)
    check(list(rows)[1:] == names and all(row['full']['verdict'] == 'same' for row in rows.values()), 'releases', rows)


def test_block_alone():
    """A block, or part of a config as model cards show it, is a Llama's, of this model or of these numbers."""
    given = ['--head-dim', 64, '--theta', 50000, '--train-ctx', 8192]
    expected, _ = engines(saved(block(**YARN)), 6000)
    for text in (json.dumps(YARN), '"rope_scaling": %s,\n...' % json.dumps(YARN), '# a line\n' + json.dumps(YARN)):
        _, _, rows = table(run('--engines', *given, '--rope-config', saved(text), '-n', 6000).out)
        check({row['engine']: {'full': row} for row in rows} == expected, 'a block alone: %.30s' % text, rows)
    rows = table(run(small_model(), '--engines', '--rope-config', saved(YARN), '-n', 100).out)[2]
    check(rows[0]['train_ctx'] == '2048' and len(rows) == 9, 'a block for a model', rows[0])


def random_blocks(n):
    """Configs of blocks whose numbers are as they come."""
    rng = random.Random(3)
    for _ in range(n):
        values = {'rope_type': rng.choice(['linear', 'dynamic', 'yarn', 'llama3', 'default']), 'factor':
                  rng.uniform(1, 40), 'low_freq_factor': rng.uniform(0.5, 2), 'high_freq_factor': rng.uniform(2.5, 9)}
        for key, value in (('beta_fast', rng.uniform(8, 64)), ('beta_slow', rng.uniform(0.5, 4)), ('mscale', 0.7),
                           ('mscale_all_dim', 1.3), ('attention_factor', 1.2), ('truncate', rng.random() < 0.5),
                           ('original_max_position_embeddings', rng.randrange(256, 9000)), ('rope_theta', 2e4)):
            if rng.random() < 0.5:
                values[key] = value
        whole = dict(LLAMA, **{rng.choice(['rope_scaling', 'rope_parameters']): values})
        yield dict(whole, original_max_position_embeddings=rng.randrange(256, 9000)) if rng.random() < 0.3 else whole


def test_hf5_is_ours():
    """The reading of hf5 is what --rope-config reads in a file, wherever both take it. So is our own row."""
    rng, both = random.Random(3), collections.Counter()
    for values in [one['config'] for one in CASES[::3]] + list(random_blocks(20)) + [
            config_of(row) for row in rows_of('engines') if 'read' in row]:
        path, length = saved(values), rng.randrange(1, 30000)
        ours = run('--explain', '--rope-config', path, '-n', length)
        for engine in 'hf5', 'rope.c':
            theirs = run('--explain', '--rope-config', path, '-n', length, '--reading', engine)
            if engine == 'rope.c':
                check((ours.status == 0) == (theirs.status == 0), 'our row refuses what we do', values)
            if ours.status or theirs.status or engine == 'hf5' and 'alpha' in str(values):  # which hf5 does not read
                continue
            both[engine] += 1
            (said, _, rows), (their_said, _, their_rows) = table(ours.out), table(theirs.out)
            check(rows == their_rows, engine + ' and --rope-config: rows', values)
            facts = [key for key in said if key.startswith((
                'method', 'theta', 'attention', 'window', 'temperature', 'dynamic', 'train_ctx'))]
            facts += ['scale'] * (said['method'] != 'none')
            check(all(said.get(key) == their_said.get(key) for key in facts), engine + ' and --rope-config',
                  (said, their_said))
    check(min(both.values()) > 95 and len(both) == 2, 'most configs are taken by both', both)


# ---- a block that all read alike ----

def test_numbers_are_short():
    """A quotient of temperatures is written without its rounded digit."""
    path = os.path.join(ROOT, 'tests', 'configs', 'by_layer', 'olmo-3-7b.json')
    block_of = json.loads(good('--rope-json', '--rope-config', path).out.splitlines()[-1])
    check((block_of['mscale'], block_of['attn_factor']) == (1.0, 1.0), 'numbers of OLMo 3', block_of)


def test_rope_json():
    """The block of every method is read by Hugging Face 5 as it is meant; the # lines say who reads it otherwise, as
    --engines does with the config that they describe."""
    wide = dict(head_dim=32, seq_len=512, train_ctx=512)
    lists = dict(wide, method='longrope', factor=4.0, short_factors=SHORT * 2, long_factors=LONG * 2)
    phi_like = dict(lists, rotary_dim=16, short_factors=SHORT, long_factors=LONG)
    for what, model, options, alike in (
            ('none', wide, ['none'], 9), ('linear', wide, ['linear', '--factor', 4], 9),
            ('ntk', wide, ['ntk', '--factor', 4], 9), ('dynamic', wide, ['dynamic', '--factor', 2], 3),
            ('yarn', wide, ['yarn', '--factor', 4], 8), ('ntk-by-parts', wide, ['ntk-by-parts', '--factor', 4], 6),
            ('a temperature', wide, ['yarn', '--factor', 4, '--attention-factor', 1.3], 6),
            ('a low temperature', wide, ['yarn', '--factor', 4, '--attention-factor', 0.9], 5),
            ('llama3', wide, ['llama3', '--factor', 8], 9), ('longrope', lists, [], 3),
            ("Phi-3's longrope", phi_like, [], 2)):
        path = small_model(**model)
        shown = good(path, '--rope-json', *(['--rope'] + options if options else [])).out
        lines = [line for line in shown.splitlines() if line.startswith('#')]
        count = [line for line in lines if 'engines interpret it the same way' in line]
        check(len(count) == 1 and 'so %d of 9 engines' % alike in count[0],
              '%s is interpreted the same way by %d' % (what, alike), lines)
        others = [line for line in lines if ' differs: ' in line or ' refuses it: ' in line]
        check(len(others) == 9 - alike and all(line.split(': ', 1)[1] for line in others),
              'who reads %s otherwise, and why' % what, lines)
        ours = table(good(path, '--explain', '-n', 300, *(['--rope'] + options if options else [])).out)[2]
        back = table(good(path, '--explain', '-n', 300, '--rope-config', write(in_work('block.json'), shown)).out)[2]
        check([row['scaled_inv_freq'] for row in ours] == [row['scaled_inv_freq'] for row in back],
              '%s comes back to the last digit' % what, shown)
        hf5 = table(good(path, '--explain', '-n', 300, '--rope-config', in_work('block.json'), '--reading', 'hf5').out)
        close([float(row['scaled_inv_freq']) for row in hf5[2]], [float(row['scaled_inv_freq']) for row in ours], 1e-9,
              '%s as hf5 reads it' % what)


def test_rope_json_of_layers():
    """The portable block: the older layout where it can say what is meant, else a block for each kind, and who reads it
    otherwise. It comes back to the last digit."""
    cases = {one['name']: one['config'] for one in LAYERED}
    for name, alike, inside in (('gemma3_r5', '7 of 9', 'rope_local_base_freq 10000'), ('olmo3_r5', '7 of 9', 'factor'),
                                ('gptoss_r5', '5 of 9', 'truncate'), ('laguna', '5 of 8', 'sliding_attention'),
                                ('gemma4', '5 of 7', 'sliding_attention'), ('ministral3', '4 of 9', 'scaling_beta'),
                                ('exaone4', '7 of 9', 'high_freq_factor')):
        path = saved(cases[name], name + '.json')
        shown = good('--rope-json', '--rope-config', path).out
        check('so %s engines interpret it the same way' % alike in shown and inside in shown, 'the block of ' + name, shown)
        block = json.loads(shown.splitlines()[-1])
        text = cases[name].get('text_config', cases[name])
        values = {key: value for key, value in text.items() if key not in ('rope_parameters', 'rope_scaling')}
        typed = FULL in block or 'llama_4_scaling_beta' in block
        values.update({'rope_parameters': block} if typed else {'rope_scaling': block})
        back = saved(values, 'back.json')
        for kind, rows in explained('hf5', path, 20000)[0].items():
            check(explained('hf5', back, 20000)[0][kind] == rows, name + ' comes back: ' + kind, shown)


def test_beside_the_block():
    """What is beside the block keeps the model's own context and the share of a head that turns."""
    for name, beside in (
            ('llama-3.1-8b', 'rope_theta, original_max_position_embeddings 8192, max_position_embeddings 131072;'),
            ('phi-4-mini-instruct', 'rope_theta, partial_rotary_factor 0.75, original_max_position_embeddings 4096, '
                                    'max_position_embeddings 131072;'),
            ('deepseek-r1-0528-qwen3-8b', 'rope_theta, original_max_position_embeddings 32768, '
                                          'max_position_embeddings 131072;')):
        path = os.path.join(ROOT, 'tests', 'configs', name + '.json')
        out = good('--rope-json', '--rope-config', path).out
        check('# beside the block: ' + beside in out, 'beside the block of ' + name, out)
        with open(path) as file:
            whole = json.load(file)
        block = json.loads(out.splitlines()[-1])
        share = whole.get('partial_rotary_factor', 1)
        check(block.get('partial_rotary_factor', 1) == share, 'the share that turns, ' + name, block)
    # What an engine allows is what it allows with the published config, also in the form that a model's settings take.
    wide = dict(head_dim=32, seq_len=1024, train_ctx=64, method='llama3', factor=8.0, low_freq_factor=1.0,
                high_freq_factor=4.0)
    rows = [row for row in table(run(small_model(**wide), '--engines', '-n', 100).out)[2] if row['engine'] == 'vllm']
    check(rows[0]['max_len'] == '1024', 'vLLM takes what the model is meant for', rows)


def test_folders():
    """The exporter's config.json is read by as many engines as --rope-json's best form, and rope.README beside it names
    the others."""
    wide = dict(head_dim=32, seq_len=512, train_ctx=512)
    lists = dict(method='longrope', short_factors=SHORT * 2, long_factors=LONG * 2)
    for fields in (dict(method='yarn', factor=4.0), dict(method='ntk-by-parts', factor=4.0), dict(method='none'),
                   dict(method='yarn', factor=4.0, attention_factor=1.3), dict(method='linear', factor=4.0),
                   dict(method='llama3', factor=8.0), dict(method='ntk', rope_dynamic=1, factor=2.0),
                   dict(lists, factor=4.0), dict(lists, factor=2.0),
                   dict(lists, factor=2.0, rotary_dim=16, short_factors=SHORT, long_factors=LONG)):
        model, what = small_model(**dict(wide, **fields)), '%(method)s %(factor)g' % dict({'factor': 1}, **fields)
        folder = tempfile.mkdtemp(dir=in_work('')) + '/'
        done = export('--no-tokenizer', model, folder)
        check(done.returncode == 0, what + ' is carried out', done.stderr)
        count = [line for line in good(model, '--rope-json').out.splitlines() if 'engines interpret it the same way' in line][0]
        most = json.load(open(folder + 'config.json'))['max_position_embeddings']
        found = [engines(folder + 'config.json', length)[0] for length in (257, most + 1)]
        alike = [name for name in found[0] if all(rows[name]['full']['verdict'] in ('same', 'too long') for rows in found)]
        check(len(alike) >= int(count.split(' of ')[0].split()[-1]), what + ' is read alike', (alike, count))
        unseen = [name for name in found[0] if found[0][name]['full']['verdict'] == UNSEEN]
        others, path = [name for name in found[0] if name not in alike + unseen], folder + 'rope.README'
        told = open(path).read() if os.path.exists(path) else ''
        check(all('\n%s (' % name in told for name in others) and bool(told) == bool(others),
              what + ': rope.README names the others', (others, told))


def test_check():
    """--check says how many read the settings alike, and stays a verdict in its last line."""
    model = small_model(vocab_size=259 + 3, head_dim=32, seq_len=512, train_ctx=512)
    write_tokenizer(in_work('model.tokenizer.bin'), ['a', 'b', 'c'])
    text = write(in_work('text.txt'), 'abc ' * 400)
    for options, expected in ((['--rope', 'yarn', '--factor', 4], '8 of 9'), ([], None),
                              (['--rope-config', saved(YARN)], '7 of 9')):
        lines = run(model, '--check', text, '-n', 64, '--tsv', '--budget', 2, *options).out.splitlines()
        # What is in force is read as it would be published, a file as it is.
        words = '# interpreted the same way by' if '--rope-config' in options else '# as published, interpreted the same way by'
        found = [line for line in lines if 'interpreted the same way by ' in line]
        check(found == (['%s %s engines: --engines' % (words, expected)] if expected else []) and
              re.match(r'# (holds to|fails at|undecided at) ', lines[-1]),
              'the remark of --check %s' % options, lines[-3:])


# ---- hostile configs ----

ODD = [None, True, [], {}, '', 'yarn', -1, 0, 1e-300, 1e300, 1e12, float('nan'), float('inf'), [1], {'a': [{}]},
       '\u00e9"\\', 2 ** 31, 0.5, 3, [FULL], [SLIDING] * 12, {FULL: {}}, {SLIDING: {'rope_type': 'yarn'}}, 'LLLG']
KEYS = ['rope_type', 'type', 'factor', 'truncate', 'mscale', 'mscale_all_dim', 'attn_factor', 'head_dim',
        'global_head_dim', 'layer_types', 'sliding_window', 'sliding_window_pattern', 'num_hidden_layers',
        'rope_parameters', 'rope_scaling', 'rope_local_base_freq', 'llama_4_scaling_beta', 'partial_rotary_factor',
        'rope_theta', FULL, SLIDING, 'text_config', 'original_max_position_embeddings', 'full_attention_interval']
WHOLE = ['{"model_type": "llama", "head_dim": 8, "rope_scaling": {"rope_type": "longrope", "short_factor": [%s]}}'
         % ', '.join(['1'] * 5000), '{"model_type": "llama", "head_dim": 1e9}', '{"model_type": "phi3"}',
         '{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 0}', '[]', '"x"', '{', '']


def hostile_texts(rng):
    """Configs of which something is changed, anywhere in them."""
    yield from WHOLE
    for size in 0, -1, 1, 1e12, '4', None, [], 0.5:
        for key in CHUNKS:
            yield json.dumps(dict(QWEN_1M, dual_chunk_attention_config=dict(CHUNKS, **{key: size})))
    for source in [one['config'] for one in CASES] + configs('engines'):
        values = json.loads(json.dumps(source))
        places = [values]
        for place in places:
            places += [inner for inner in place.values() if isinstance(inner, dict)]
        for _ in range(rng.randrange(1, 4)):
            place = rng.choice(places)
            place[rng.choice(list(place) + KEYS)] = rng.choice(ODD)
        yield json.dumps(values)


def check_hostile(rng, text, *job):
    """It ends in a table of numbers or in one line."""
    result = run(*job, '--rope-config', saved(text), '-n', rng.choice([1, 100, 5000, 1 << 30]))
    if not result.raw:
        # What is read in spite of something is warned of before a reading refuses the rest.
        result.err = ''.join(line for line in result.err.splitlines(True) if not line.startswith('run: warning: '))
        one_line(result, 2, 'a reason: %.80s' % text)
        return
    numbers = [row.get(key, '-') for row in table(result.out)[2] for key in (
        'scale', 'attention_factor', 'worst_ratio', 'scaled_inv_freq')]
    check(result.status in (0, 1, 3) and all(x in '-inf' or math.isfinite(float(x)) for x in numbers),
          'a table of numbers: %.80s' % text, result)


def test_hostile():
    rng = random.Random(8)
    for text in hostile_texts(rng):
        check_hostile(rng, text, '--engines')


@takes_long
def test_hostile_readings():
    rng = random.Random(11)
    for text in hostile_texts(rng):
        for job in ['--engines'], ['--explain'], ['--explain', '--reading', rng.choice(ENGINES)]:
            check_hostile(rng, text, *job)


if __name__ == '__main__':
    main(globals())
