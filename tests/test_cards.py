#!/usr/bin/env python3
"""Released configs and what their model cards ask to paste (tests/configs/README.md): every number of the tables, and
what --explain makes of each config.json alone, against the formulas computed here a second time."""

import json
import math
import os
import re
import shutil
import sys

from common import ROOT, check, close, good, in_work, main, one_line, run, table, write

sys.path.insert(0, ROOT)
from export.common import Job  # noqa: E402
from export.config import read_config  # noqa: E402

CONFIGS = os.path.join(ROOT, 'tests', 'configs')
ORIGINAL = 'original_max_position_embeddings'


def released(name):
    with open(os.path.join(CONFIGS, name + '.json')) as file:
        return json.load(file)


# ---- the formulas ----

def shape(config):
    """head_dim, and how many of its elements turn."""
    d = config.get('head_dim') or config['hidden_size'] // config['num_attention_heads']
    return d, int(d * config.get('partial_rotary_factor', 1))


def yarn_frequencies(f, s, L, theta, r):
    """Pairs that turn more than 32 times in L stay, those below one turn are divided by s, between them it goes by
    the pair's number, from and to whole ones."""
    def pair_of(turns):
        return r * math.log(L / (2 * math.pi * turns)) / (2 * math.log(theta))
    low, high = max(math.floor(pair_of(32)), 0), min(math.ceil(pair_of(1)), r - 1)
    divided = [min(max((i - low) / (high - low), 0), 1) for i in range(r // 2)]
    return [x / s * g + x * (1 - g) for x, g in zip(f, divided)]


def llama3_frequencies(f, s, L, low, high):
    out = []
    for x in f:
        turns = L * x / (2 * math.pi)
        keep = min(max((turns - low) / (high - low), 0), 1)
        out.append(x * keep + x / s * (1 - keep))
    return out


def meaning(config, n):
    """Method, factor, L, frequencies before and after, attention factor, for a text of n positions."""
    block = config.get('rope_scaling') or {}
    method = block.get('rope_type', block.get('type', 'none'))
    theta, r, most = config.get('rope_theta', 10000.0), shape(config)[1], config['max_position_embeddings']
    L = config.get(ORIGINAL, block.get(ORIGINAL, most)) if method != 'none' else most
    s = block.get('factor', most / L)
    f = [theta ** (-2 * i / r) for i in range(r // 2)]
    if method == 'yarn':
        return method, s, L, f, yarn_frequencies(f, s, L, theta, r), 0.1 * math.log(s) + 1
    if method == 'llama3':
        lows = block['low_freq_factor'], block['high_freq_factor']
        return method, s, L, f, llama3_frequencies(f, s, L, *lows), 1.0
    if method == 'longrope':
        divisors = block['long_factor' if n > L else 'short_factor']
        return method, s, L, f, [x / e for x, e in zip(f, divisors)], math.sqrt(1 + math.log(s) / math.log(L))
    return method, 1.0, L, f, f, 1.0


def window_of(config):
    """Every layer's window, 0 for none; none of the released files has one for some layers only."""
    if config['model_type'] in ('mistral', 'phi3'):
        return config['sliding_window'] or 0
    check(not config.get('use_sliding_window'), 'no layer slides', config)
    return 0


# ---- the table ----

def rows():
    """Cells of the table of cards: those rows that begin with a link to a config."""
    for line in open(os.path.join(CONFIGS, 'README.md'), encoding='utf-8'):
        line = line.rstrip('\n')
        link = re.match(r'\| \[[^]]*\]\(([\w.-]+)\.json\)', line)
        if link:
            yield link.group(1), [cell.strip() for cell in line.strip('|').split('|')]


def numbers(cell):
    return re.findall(r'\d[\d,]*(?:\.\d+)?', cell)


def as_written(cell, values, what):
    """The numbers of a cell are these, rounded to the digits that are there."""
    found = numbers(cell)
    bad = [(text, value) for text, value in zip(found, values)
           if abs(float(text.replace(',', '')) - value) > 0.5001 * 10.0 ** -len(text.partition('.')[2])]
    check(len(found) == len(values) and not bad, what, '%s: %s, not %s' % (cell, bad, values))


def pasted(name, cell):
    """The config with the block of the row's cell, which is in backticks, and the block."""
    config, block = released(name), re.search(r'`(\{.*\})`', cell)
    block = json.loads('{%s}' % block.group(1)[1:-1]) if block else None
    return (dict(config, rope_scaling=block), block) if block else (config, None)


def explained(*arguments):
    settings, _, found = table(good('--explain', *arguments).out)
    return settings, {key: [float(row[key]) for row in found] for key in found[0]}


def check_row(name, cells):
    model, paste, at, method_cell, waves, turns, divisors, attention, window, layers = cells
    config, block = pasted(name, paste)
    n = int(numbers(at)[0].replace(',', ''))
    method, s, L, f, scaled, a = meaning(config, n)
    what = '%s at %d' % (name, n)
    path = write(in_work('config.json'), json.dumps(config))
    settings, columns = explained('--rope-config', path, '-n', n)
    head_dim, r = shape(config)
    said = {'factor': s, 'train_ctx': L, 'head_dim': head_dim, 'length': n, 'attention_factor': a,
            'theta': config.get('rope_theta', 10000.0), 'rotary_dim': r}
    close([float(settings.get(key, settings['head_dim'])) for key in said], list(said.values()), 1e-9, what)
    check(settings['method'] == method, 'method: ' + what, settings['method'])
    for key, expected in (('inv_freq', f), ('scaled_inv_freq', scaled), ('turns', [L * x / 2 / math.pi for x in f]),
                          ('wavelength', [2 * math.pi / x for x in f]),
                          ('scaled_wavelength', [2 * math.pi / x for x in scaled])):
        close([x / y for x, y in zip(columns[key], expected)], [1] * (r // 2), 1e-10, '%s: %s' % (key, what))
    if block:  # alone, beside what the rest of the config says
        alone = explained('--head-dim', head_dim, '--theta', config['rope_theta'], '-n', n, '--rope-config',
                          write(in_work('block.json'), json.dumps(block)))
        check(alone[1] == columns, 'the block alone: ' + what, alone[0])

    check(method_cell.startswith('`%s`' % method), 'the method of the table: ' + what, method_cell)
    as_written(method_cell.replace('`llama3`', ''), [L] + ([s] if method != 'none' else []), 'factor: ' + what)
    ends = [f[0], f[-1]] + ([scaled[0], scaled[-1]] if f != scaled else [])
    as_written(waves, [2 * math.pi / x for x in ends], 'wavelengths: ' + what)
    as_written(turns, [L * x / 2 / math.pi for x in (f[0], f[-1])], 'turns: ' + what)
    e = [x / y for x, y in zip(f, scaled)]
    kept, whole = sum(abs(x - 1) < 1e-9 for x in e), sum(abs(x / s - 1) < 1e-9 for x in e)
    as_written(divisors, [e[0], e[-1]] if method == 'longrope' else [kept, len(e) - kept - whole, whole]
               if method != 'none' else [kept], 'divisors: ' + what)
    as_written(attention, [a], 'attention factor: ' + what)
    as_written(window, [window_of(config)] if window_of(config) else [], 'window: ' + what)
    still = [1 - x for x in config.get('no_rope_layers', [1] * config['num_hidden_layers'])]
    as_written(layers, [len(still) - sum(still)] + ([len(still)] if any(still) else []), 'layers: ' + what)


def test_table():
    found = list(rows())
    check({name + '.json' for name, _ in found} == {name for name in os.listdir(CONFIGS) if name.endswith('.json')},
          'a row for each config, and a config for each row', [name for name, _ in found])
    for name, cells in found:
        if check(len(cells) == 10, 'ten cells: ' + name, cells):
            check_row(name, cells)


# ---- cards whose layers differ ----

def layered_rows():
    for line in open(os.path.join(CONFIGS, 'README.md'), encoding='utf-8'):
        line = line.rstrip('\n')
        link = re.match(r'\| \[[^]]*\]\(by_layer/([\w.-]+)\.json\)', line)
        if link:
            yield link.group(1), [cell.strip() for cell in line.strip('|').split('|')]


def layered_meaning(config, n):
    """By kind: method, theta, L, s and frequencies; then a and what the last query is multiplied by."""
    own = config.get('rope_parameters') or {}
    typed = 'full_attention' in own
    full = own['full_attention'] if typed else config.get('rope_scaling') or own
    theta, d = full.get('rope_theta', config.get('rope_theta')), config.get('head_dim') or (
        256 if config['model_type'] == 'gemma3_text' else config['hidden_size'] // config['num_attention_heads'])
    method, s = full.get('rope_type', 'none').replace('default', 'none'), full.get('factor', 1.0)
    L, share = full.get(ORIGINAL, 0), full.get('partial_rotary_factor', 1)
    whole = config.get('global_head_dim', d)
    r = whole if method == 'proportional' else int(whole * share)
    f = [theta ** (-2 * i / r) for i in range(r // 2)]
    if method == 'linear':
        f = [x / s for x in f]
    if method == 'proportional':
        f = f[:int(share * whole) // 2]
    if method == 'yarn':
        low, high = (r * math.log(L / (2 * math.pi * turns)) / (2 * math.log(theta)) for turns in (32, 1))
        if full.get('truncate', True):
            low, high = math.floor(low), math.ceil(high)
        ramp = [min(max((i - low) / (high - low), 0), 1) for i in range(r // 2)]
        f = [x * (1 - g) + x / s * g for x, g in zip(f, ramp)]
    a = 1 if method != 'yarn' or 'mscale' in full else 0.1 * math.log(s) + 1
    local = config.get('rope_local_base_freq', theta if config['model_type'] == 'olmo3' else 1e4)
    plain = 'none', local, 0, 1.0, [local ** (-2 * i / d) for i in range(d // 2)]
    kinds = {'full': (method, theta, L, s, f)}
    if config.get('sliding_window'):
        kinds['sliding'] = kinds['full'] if config['model_type'] == 'gpt_oss' else plain
    grows = full.get('llama_4_scaling_beta', 0)
    return kinds, a, 1 + grows * math.log(1 + (n - 1) // L) if grows else 1


def check_layered(name, cells):
    with open(os.path.join(CONFIGS, 'by_layer', name + '.json')) as file:
        config = json.load(file)
    text = config.get('text_config', config)
    text.setdefault('model_type', 'gemma4_text' if 'gemma-4' in name else 'qwen3_5_text')
    _, at, full, attention, sliding, window, layers, times = cells
    n = int(at.replace(',', ''))
    kinds, a, grown = layered_meaning(text, n)
    path = os.path.join(CONFIGS, 'by_layer', name + '.json')
    settings, _, found = table(good('--explain', '--rope-config', path, '-n', n).out)
    for kind, cell in ('full', full), ('sliding', sliding):
        if kind not in kinds:
            check(cell == 'all alike', 'one kind: ' + name, cell)
            continue
        method, theta, L, s, f = kinds[kind]
        scaled = [float(row['scaled_inv_freq']) for row in found if row.get('layers', 'full') == kind]
        turning = [x for x in scaled if x]
        close([x / y for x, y in zip(turning, f)], [1] * len(f), 1e-9, '%s of %s' % (kind, name))
        check(cell.startswith('`%s`' % method) and len(turning) == len(f), 'method: ' + name, cell)
        said = ([L] if L else []) + ([s] if s != 1 else []) + [theta] + [2 * math.pi / x for x in (f[0], f[-1])]
        as_written(cell, said + ([len(f), len(scaled)] if len(scaled) > len(f) else []), kind + ': ' + name)
    close([float(settings['attention_factor'])], [a], 1e-9, 'a of ' + name)
    as_written(attention, [a], 'a of ' + name)
    as_written(window, [text['sliding_window']] if 'sliding' in kinds else [], 'window of ' + name)
    as_written(times, [grown], 'growth of ' + name)
    period = {'gemma3_text': 6, 'olmo3': 4, 'gpt_oss': 2, 'gemma4_text': 6}.get(text['model_type'])
    expected = ' '.join(str(i) for i in range(text['num_hidden_layers']) if (i + 1) % period == 0) if period else 'all'
    check(layers == expected and settings.get('layers_full', 'all') == expected, 'layers of ' + name, settings)


def test_layered():
    found = list(layered_rows())
    check({name + '.json' for name, _ in found} == set(os.listdir(os.path.join(CONFIGS, 'by_layer'))),
          'a row for each config whose layers differ', [name for name, _ in found])
    for name, cells in found:
        if check(len(cells) == 8, 'eight cells: ' + name, cells):
            check_layered(name, cells)


# ---- the exporter, and keys of the wild ----

def test_exporter():
    """The exporter takes each file whole, and finds the same RoPE, window and layers in it."""
    job = Job()
    for name in sorted(os.listdir(CONFIGS)):
        if not name.endswith('.json'):
            continue
        config = released(name[:-5])
        os.makedirs(in_work('folder'), exist_ok=True)
        shutil.copy(os.path.join(CONFIGS, name), os.path.join(in_work('folder'), 'config.json'))
        _, s, L, _, _, _ = meaning(config, 1)
        fields = vars(read_config(job, in_work('folder')).model)
        fields['factor'] = fields['factor'] or s
        head_dim, r = shape(config)
        expected = {'train_ctx': L, 'head_dim': head_dim, 'rotary_dim': r % head_dim, 'sliding_window':
                    window_of(config), 'seq_len': config['max_position_embeddings'], 'factor': s,
                    'n_layers': config['num_hidden_layers'], 'n_kv_heads': config['num_key_value_heads'],
                    'layers': [2 * (1 - x) for x in config.get('no_rope_layers', [])]}
        wrong = {key: (fields[key], value) for key, value in expected.items() if fields[key] != value}
        check(not wrong, 'the exporter: ' + name, wrong)
    check(any('attn_factor means nothing' in note for note in job.notes), 'it says what it leaves out', job.notes)


def test_commands():
    """Those of the document that need nothing of the reader's own."""
    text = open(os.path.join(ROOT, 'docs', 'checkpoints.md'), encoding='utf-8').read()
    found = re.findall(r'^    \./run (--explain --rope-config tests/.*)$', text, re.M)
    check(len(found) == 3, 'commands of the document', found)
    for command in found:
        words = [os.path.join(ROOT, word) if '/' in word else word for word in command.split()]
        good(*words)
    path = os.path.join(CONFIGS, 'deepseek-r1-0528-qwen3-8b.json')
    settings, _ = explained('--rope-config', path, '--attn-factor', 1)
    check(settings['attention_factor'] == '1', 'what programs that read attn_factor make of it', settings)


def test_what_is_said():
    """A key that a release has and the library does not look at is named and left out; a released config by itself
    brings no warning, but that of Yarn-Llama-2, which has no theta."""
    for name, said in (('deepseek-r1-0528-qwen3-8b', 'attn_factor'), ('yarn-llama-2-7b-128k', 'finetuned')):
        result = good('--explain', '--rope-config', os.path.join(CONFIGS, name + '.json'))
        check(result.err.count('\n') == 1 + (said == 'finetuned') and result.err.endswith('rope_type: %s\n' % said), name,
              result.err)
    for name in ('llama-3.1-8b', 'phi-4-mini-instruct', 'qwen3-8b', 'smollm3-3b', 'mistral-7b-v0.1'):
        result = good('--explain', '--rope-config', os.path.join(CONFIGS, name + '.json'))
        check(result.err == '', 'nothing to say of ' + name, result.err)
    config = released('llama-3.1-8b')
    config['rope_scaling']['factro'] = 8.0
    one_line(run('--explain', '--rope-config', write(in_work('config.json'), json.dumps(config))), 2, 'a typo',
             'rope_scaling.factro cannot be used')


if __name__ == '__main__':
    main(globals())
