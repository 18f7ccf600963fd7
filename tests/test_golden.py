#!/usr/bin/env python3
"""The program against Hugging Face and PyTorch. tests/golden/groups.json names folders of tiny checkpoints with their
numbers, nll by token, and the tests of each: by both engines, as a prompt and token by token, with rounded caches,
by reference.py, and after a way out and in again. Folders of ../shared are skipped where it is not there. Then
distance maps (tests/positions: computed apart, by the definition), texts at -t 0, which are the same on every
processor, and --explain's lines for configs of these checkpoints."""

import functools
import json
import os
import shutil
import struct
import sys

import kept
import reference
from common import (ENCODINGS, ENGINES, GOLDEN, ROOT, add_counts, case, check, close, compiled, export, exports, good,
                    in_work, main, perplexity, read, read_model, run, skip, table, takes_long, write)

sys.path.insert(0, ROOT)
from export.families import WRAPPERS, named  # noqa: E402

NAMES = 'default', 'linear4', 'dynamic2', 'yarn4', 'llama3'
FULL, SLIDING = 'full_attention', 'sliding_attention'
TOLERANCE = 1e-4
BETAS = 144  # where a model.bin holds beta_fast and beta_slow


# ---- the folders ----

def as_json(*path):
    with open(os.path.join(*path), encoding='utf-8') as file:
        return json.load(file)


class Case:
    """A checkpoint's folder and its numbers."""

    def __init__(self, group, name, folder, golden):
        self.group, self.name, self.folder, self.golden = group, name, folder, golden
        self.ids, self.nll = golden['ids'], golden['nll']

    def model(self):
        """model.bin of it."""
        return self.name in NAMES and exported(self.name) or brought_in(self.folder, self.name)

    def row(self):
        """Its family's row in export/families.json; None: no row has it."""
        config = as_json(self.folder, 'config.json')
        kind, inside = config['model_type'], config.get('text_config', {}).get('model_type', '')
        return named(inside) or (WRAPPERS[kind][1][0] if kind in WRAPPERS else named(kind))


def cases(*tests):
    """Each case of the groups of these tests, of those folders that are there."""
    for group in as_json(GOLDEN, 'groups.json'):
        if group['test'] not in tests:
            continue
        place = os.path.normpath(os.path.join(ROOT, group['folder']))
        if not os.path.isdir(place):
            skip('%s (%s is not here)' % (group['of'], group['folder']))
            continue
        together = os.path.join(place, 'nll.json')
        numbers = as_json(together) if os.path.exists(together) else None
        for name in group.get('cases') or sorted(numbers or os.listdir(place)):
            folder = os.path.join(place, name)
            if numbers or os.path.exists(os.path.join(folder, 'golden.json')):
                yield Case(group, name, folder, numbers[name] if numbers else as_json(folder, 'golden.json'))


def running(*tests):
    """Those whose families run: of the others only a config is explained."""
    return [each for each in cases(*tests) if each.name in NAMES or each.group['test'] in ('small_models', 'mamba') or
            each.row() and each.row().runs]


@functools.lru_cache(None)
def brought_in(source, name):
    """The model.bin of a folder or a file; None, and a failure, where it is refused."""
    model = in_work(name + '.bin')
    done = export('--no-tokenizer', source, model)
    return model if check(done.returncode == 0, '%s: export' % name, done.stderr) else None


def exported(name):
    """One of tests/golden as model.bin. The five share one model.safetensors."""
    folder, out = in_work(name), in_work(name + '.bin')
    if os.path.exists(out):
        return out
    shutil.copytree(os.path.join(GOLDEN, name), folder)
    shutil.copy(os.path.join(GOLDEN, 'model.safetensors'), folder)
    exports('--no-tokenizer', folder, out)
    return out


# ---- their numbers ----

def holds(model, each):
    """Both engines give these numbers, in one go; the fast one token by token, too, where settings do not change with
    the length. The definition reads no other way."""
    ways = [*ENGINES, *((*ENGINES[0], *more) for more in each.group.get('more', ()))]
    if each.name not in each.group.get('by_length', ()):
        ways.append((*ENGINES[0], '--stepwise'))
    for options in ways:
        close(perplexity(model, each.ids, *options), each.nll, TOLERANCE, '%s: %s' % (each.name, ' '.join(map(str, options))))


def rounded_caches_hold(model, each):
    """Caches of f16 and q8: each number, or their distance on average."""
    for kv, most in each.group.get('most', {}).items():
        close(perplexity(model, each.ids, '--kv', kv), each.nll, most, '%s: the %s cache' % (each.name, kv))
    for kv, most in each.group.get('mean', {}).items():
        apart = [abs(a - b) for a, b in zip(perplexity(model, each.ids, '--kv', kv), each.nll)]
        check(sum(apart) / len(apart) < most, '%s: the %s cache' % (each.name, kv), sum(apart) / len(apart))


def same_frequencies(found, expected, label):
    if check(len(found) == len(expected), label + ': pairs', (len(found), len(expected))):
        close([a / b if b else a + 1 for a, b in zip(found, expected)], [1.0] * len(found), 1e-6, label)


def frequencies_hold(model, each):
    """By --explain, where all layers turn alike; those of both kinds of layers by reference.py with the file's
    settings."""
    expected, factors = each.golden.get('inv_freq'), each.golden.get('attention_factor')
    if isinstance(expected, list):
        settings, _, rows = table(good(model, '--explain', '--tsv', '-n', len(each.ids)).out)
        same_frequencies([float(row['scaled_inv_freq']) for row in rows], expected, each.name + ': frequencies')
        close([float(settings['attention_factor'])], [factors], 1e-6, each.name + ': attention factor')
    elif each.group['test'] == 'layers':
        c = read_model(model)[0]
        for kind, settings in (FULL, c), (SLIDING, reference.sliding(c)):
            if expected.get(kind):
                f, a = reference.rope(settings, len(each.ids))
                same_frequencies(f, expected[kind], '%s: frequencies of %s' % (each.name, kind))
                close([a], [factors[kind]], 1e-6, '%s: attention factor of %s' % (each.name, kind))


def hold(test):
    for each in running(test):
        with case(each.name):
            model = each.model()
            if not model:
                continue
            holds(model, each)
            rounded_caches_hold(model, each)
            frequencies_hold(model, each)
            n = each.group.get('reference')
            if n and kept.HOW:  # make test-long computes it; the kept value tests the engines no further
                c, weights = read_model(model)
                close(kept.nll(c, weights, each.ids[:n]), each.nll[:n - 1], TOLERANCE, each.name + ': reference.py')


def test_golden():
    hold('golden')


def test_small_models():
    """Models as tools/training/train.py writes them: encodings of position but RoPE, layers that differ, layers with a state."""
    hold('small_models')
    found = {each.name: each for each in cases('small_models')}
    check(set(ENCODINGS[1:]) <= set(found), 'there are numbers for every encoding', sorted(found))
    state, still = found['state'], found['state-nope']
    for each in state, still:
        says = table(good(each.model(), '--explain', '--tsv').out)[0]
        check(says.get('encoding', 'rope') == ('rope' if each is state else 'none') and
              '4 of 5 layers keep a state, by the gated delta rule' in says['states'], each.name + ': its kind', says)
    check(state.ids == still.ids and max(abs(a - b) for a, b in zip(state.nll, still.nll)) > 0.1,
          'RoPE in the attending layer moves the numbers')
    for name in ENCODINGS[1:]:
        done = export('--no-tokenizer', found[name].model(), in_work('out.gguf'))
        check(done.returncode == 2 and 'encoding' in done.stderr, 'no way out for ' + name, done.stderr)


def test_mamba():
    hold('mamba')


def test_families():
    hold('families')


def test_layers():
    hold('layers')


def test_newer():
    hold('newer')


def test_gguf():
    """Files that llama.cpp wrote of the same checkpoints, their settings in float32."""
    for each in cases('layers'):
        path = os.path.join(each.folder, 'model.gguf')
        if not os.path.exists(path):
            continue
        done = export('--no-tokenizer', path, in_work('gguf.bin'))
        check(done.returncode == 0, '%s as GGUF: export' % each.name, done.stderr)
        rounds = "no key says whether YaRN's ramp is rounded: it is not" in done.stderr
        check(rounds == (each.name == 'gptoss'), '%s as GGUF: what no key says' % each.name, done.stderr)
        for engine in ENGINES:
            close(perplexity(in_work('gguf.bin'), each.ids, *engine), each.nll, 6e-3,
                  '%s as GGUF: %s' % (each.name, engine[0]))


# ---- out, and in again ----

# The parts of a config that come out as they went in, if explicit.
KEYS = {'families': ['architectures', 'model_type', 'original_max_position_embeddings'],
        'layers': ['layer_types', 'norm_topk_prob', 'sliding_window', 'hidden_act', 'hidden_activation']}


def tensors_of(folder):
    """{name: (type, shape, bytes)} of a model.safetensors."""
    data = read(os.path.join(folder, 'model.safetensors'))
    start = 8 + struct.unpack('<Q', data[:8])[0]
    header = json.loads(data[8:start])
    header.pop('__metadata__', None)
    return {name: (entry['dtype'], entry['shape'], data[slice(*(start + at for at in entry['data_offsets']))])
            for name, entry in header.items()}


def one_more(tensor):
    """w for a norm of 1 + w, which a model.bin keeps of Gemma's."""
    kind, shape, data = tensor
    values = struct.unpack('<%df' % (len(data) // 4), data)
    return kind, shape, struct.pack('<%df' % len(values), *(1 + x for x in values))


def same_folder(each, out):
    before, after = as_json(each.folder, 'config.json'), as_json(out, 'config.json')
    keys = [key for key in before if key in KEYS[each.group['test']] or 'expert' in key]
    keys += ['rope_scaling'] * ('short_factor' in (before.get('rope_scaling') or {}))
    wrong = {key: (before[key], after.get(key)) for key in keys if before[key] != after.get(key)}
    check(not wrong, '%s: its config' % each.name, wrong)
    before, after = tensors_of(each.folder), tensors_of(out)
    if each.golden.get('family') == 'gemma3':
        before, after = ({name: one_more(tensor) if 'norm' in name else tensor for name, tensor in found.items()}
                         for found in (before, after))
    wrong = sorted(name for name in set(before) | set(after) if before.get(name) != after.get(name))
    check(not wrong, '%s: the same tensors' % each.name, wrong)


def out_and_in(each, out):
    """The model.bin of a model's export."""
    done = export('--no-tokenizer', each.model(), out)
    if check(done.returncode == 0, '%s: out to %s' % (each.name, out[-5:]), done.stderr):
        return brought_in(out.rstrip('/'), each.name + '_again_' + out.rpartition('.')[2][-4:].strip('/'))
    return None


def with_betas(data):
    """A model.bin whose betas are said: a folder says them, where a file can leave them to their default."""
    said = [found or default for found, default in zip(struct.unpack_from('<2d', data, BETAS), (32, 1))]
    return data[:BETAS] + struct.pack('<2d', *said) + data[BETAS + 16:]


@takes_long
def test_the_same_file():
    """An exported folder is imported as the same file."""
    for each in running('newer'):
        with case(each.name):
            again = each.model() and out_and_in(each, in_work(each.name + '_out') + '/')
            if again:
                check(with_betas(read(again)) == with_betas(read(each.model())), '%s: the same file' % each.name)


def test_there_and_back():
    """A folder has the original tensors, bit by bit, and config keys; imported again both engines have the same
    numbers, from GGUF, too."""
    for each in running('families', 'layers'):
        with case(each.name):
            folder = in_work(each.name + '_out')
            again = each.model() and out_and_in(each, folder + '/')
            if again:
                same_folder(each, folder)
                by_gguf = out_and_in(each, in_work(each.name + '_out.gguf'))
                for model in [again] + [by_gguf] * bool(by_gguf):
                    for engine in ENGINES:
                        close(perplexity(model, each.ids, *engine), each.nll, TOLERANCE,
                              '%s: in again, %s: %s' % (each.name, model[-14:], engine[0]))


# ---- their configs ----

def test_configs_saved_again():
    """A second form of a config means the same."""
    for each in running('newer'):
        again = os.path.join(each.folder, 'config_resaved.json')
        if os.path.exists(again):
            copy = in_work(each.name + '_resaved')
            shutil.copytree(each.folder, copy)
            os.chmod(copy, 0o755)  # the folders may be read-only
            os.remove(os.path.join(copy, 'config.json'))
            shutil.copy(again, os.path.join(copy, 'config.json'))
            model = brought_in(copy, each.name + '_resaved')
            if model:
                check(read(model) == read(each.model()), '%s, saved again: the same file' % each.name)
            shown = [run('--explain', '--rope-config', os.path.join(place, 'config.json')).out
                     for place in (each.folder, copy)]
            check(shown[0] == shown[1] and 'head_dim' in shown[0], '%s, saved again: explained' % each.name, shown)


def test_explained():
    """--explain reads each config, with its own model, too, and gives the frequencies of Hugging Face's class. A family
    that is explained only is refused by name where weights are asked for."""
    for each in cases('newer'):
        row, config = each.row(), os.path.join(each.folder, 'config.json')
        if not row:
            skip('%s: no row has the family yet' % each.name)
            continue
        done = run('--explain', '--rope-config', config)
        check(done.status == 0, '%s: explained' % each.name, done.err)
        kinds = {json.dumps(f) for f in each.golden['inv_freq'].values() if f}
        _, columns, rows = table(done.out)
        if len(kinds) == 1 and 'scaled_inv_freq' in columns:
            found, expected = [float(row['scaled_inv_freq']) for row in rows], json.loads(kinds.pop())
            if check(len(found) == len(expected), '%s: pairs' % each.name, (len(found), len(expected))):
                close([a / b if b else a + 1 for a, b in zip(found, expected)], [1.0] * len(found), 1e-5,
                      '%s: frequencies' % each.name)
        if row.runs:
            done = run('--explain', each.model(), '--rope-config', config)
            check(done.status == 0, '%s: explained with its own model' % each.name, done.err)
        else:
            done = export('--no-tokenizer', each.folder, in_work(each.name + '.bin'))
            check(done.returncode != 0 and 'explained' in done.stderr and done.stderr.count('\n') == 1,
                  '%s: refused by name' % each.name, done.stderr)


# ---- maps and texts ----

def test_positions():
    """Distance maps, read as one prompt and token by token."""
    folder = os.path.join(ROOT, 'tests', 'positions')
    for name in sorted(os.listdir(folder)):
        expected = as_json(folder, name)
        model, rope = exported(expected['case']), expected['rope'] + ':train-ctx=%d' % expected['train_ctx']
        rope += ':factor=%g' % expected['factor'] if 'factor' in expected else ''
        for engine in ENGINES:
            close(perplexity(model, expected['ids'], *engine, '--rope', rope), expected['nll'], 1e-4,
                  '%s, %s' % (name, engine[0]))
        for kv, tolerance in (('f16', 2e-2), ('q8', 0.3)):
            close(perplexity(model, expected['ids'], '--kv', kv, '--rope', rope), expected['nll'], tolerance,
                  '%s with the %s cache' % (name, kv))
        add_counts(run('chunks', model, 'f32', 0, 0, 200, 1e-4, name, rope,
                       program=compiled('tests/test_forward.c', 'same')), name)


def letters():
    """A tokenizer for the 128 tokens of the golden models: three special ones and a character each."""
    tokens = ['<unk>', '<s>', '</s>'] + [chr(c) for c in range(33, 127)] + [chr(c) for c in range(0xC0, 0xDF)]
    data = struct.pack('<i', 5) + b''.join(struct.pack('<fi', 0, len(t.encode())) + t.encode() for t in tokens)
    trailer = struct.pack('<4sIIiiI', b'TKT1', 0, 0, 1, 0, 0) + bytes([2, 3, 3] + [1] * 125)
    return write(in_work('letters.bin'), data + trailer)


def test_texts():
    """Past the trained length of 64. Not with int8 activations: there a sum that differs in its last bit may round to
    the other side, and processors part."""
    expected, tokenizer = as_json(GOLDEN, 'texts.json'), letters()
    runs = [(name, exported(name), 'f32') for name in NAMES] + [('default, f16 cache', exported('default'), 'f16')]
    check(sorted(expected) == sorted(name for name, _, _ in runs), 'the names in texts.json', sorted(expected))
    for name, model, kv in runs:
        text = good(model, '-z', tokenizer, '-t', 0, '-n', 120, '-i', 'golden', '--ignore-eos', '--kv', kv).out.strip()
        check(text == expected.get(name), 'the text of ' + name, text)


if __name__ == '__main__':
    main(globals())
