#!/usr/bin/env python3
"""No setting and no field of the header means one thing to ./llama and another to ./core and ./run --plain: each is
changed, one at a time, and all three print the same text, or ./llama refuses other families' features. --attn,
likewise, on every model whose layers have shapes of their own."""

import os
import re
import shlex
import struct

from common import (FIELDS, HEADER_BYTES, METHODS, ROOT, check, compiler, config, in_work, main, random_weights, read,
                    run, table, takes_long, write, write_model)
from models import row_of, table as models
from test_core import OF_LLAMA, ROOMS, files_of, flags, tokenizer_of

LENGTH, TRAINED = 40, 12
SHAPE = dict(n_layers=2, dim=24, hidden_dim=20, n_heads=2, n_kv_heads=1, head_dim=16, vocab_size=60,
             seq_len=64, train_ctx=TRAINED, theta=5.0)
LISTS = dict.fromkeys('short_factors long_factors'.split(), [1, 1.2, 1.5, 2, 3, 5, 7, 9])
# Models in whose files a field is changed. The method's needs are there, so that it counts.
BASES = {
    'plain': {},
    'yarn': dict(method='yarn', factor=4.0, temperature_beta=0.4),
    'llama3': dict(method='llama3', factor=4.0, logn=1),
    'longrope': dict(method='longrope', factor=4.0, **LISTS),
    'dynamic': dict(method='ntk', rope_dynamic=1, factor=3.0),
}
VALUES = {'I': (1, 8, 0, 2, 3, 16, 10), 'd': (0.5, 2.0, 0.0, 30.0), 'i': (-1, 3, 5), '8i': ((3, 9, 5, 7, 0, 0, 0, 0),)}
# Methods and maps under which a setting is tried until one is found where it counts.
ROPES = ['none', 'yarn', 'llama3', 'proportional', 'cope', 'string', 'leaky-rerope', 'self-extend', 'dca', 'streaming']
WORDS = ['3', '1.5', '20', '0.5', 'turns']


def program(name, rooms, own):
    """./llama or ./core, of the objects of its rooms."""
    objects = [os.path.join(ROOT, 'build', path[:-1] + 'o') for path in files_of(rooms)
               if path not in ('src/llama/main.c', 'src/kinds/main.c')]
    out = in_work(name)
    compiler([flags(os.path.join(ROOT, own), *objects, '-o', out, '-lm')], name)
    return out


class Programs:
    """The three, side by side on one command line."""

    def __init__(self):
        self.llama = program('llama', OF_LLAMA, 'src/llama/main.c')
        self.core = program('core', ROOMS, 'src/kinds/main.c')
        self.texts = set()

    def plain(self, model, *options):
        done = run(model, '--plain', '-n', LENGTH, '-s', 3, '-i', 'abc', *options)
        self.texts.add(done.raw)
        return done

    def compare(self, what, model, *options, others=None):
        """others: (name, offsets) of a field that a Llama does not have, which ./llama may refuse. Returns --plain's
        output."""
        plain = self.plain(model, *options)
        core, llama = (run(model, '-n', LENGTH, '-s', 3, '-i', 'abc', *options, program=path)
                       for path in (self.core, self.llama))
        check(core.status == plain.status in (0, 2) and core.raw == plain.raw, what + ': ./core and ./run --plain', core,
              plain)
        same = llama.status == plain.status and llama.raw == plain.raw
        refused = llama.status == 2 and not llama.raw and llama.err.count('\n') == 1
        check(same or (others and refused and names(llama.err, *others)), what + ': ./llama and ./run --plain', llama,
              plain)
        return plain


def names(line, name, offsets):
    byte = re.search(r'reserved byte (\d+)', line)
    return name in line or (byte and int(byte[1]) in offsets)


def made(name, **changes):
    c = config(**dict(SHAPE, **changes))
    path = in_work(name + '.bin')
    weights = random_weights(c, 5)
    for key in weights:
        weights[key] = [2 * x for x in weights[key]]  # sharp enough for a text to follow small changes
    write_model(path, c, weights)
    tokenizer_of(path, c['vocab_size'])
    return path


# ---- settings ----

def settings():
    """The settings that the program says there are: {name: whether it takes a value}."""
    said = run('model.bin', '--rope', 'yarn:nope=3', '-n', 2, cwd=ROOT)
    found = re.search(r"there is no setting 'nope' \((?:expected )?(.*)\)\n", said.err)
    listed = found[1].split(', ') if check(found, 'the settings are listed', said) else []
    source = read(os.path.join(ROOT, 'src', 'rope_settings.c')).decode()
    rows = re.findall(r'\{"--([a-z-]+)",\s*("[A-Z]+"|NULL)', source)
    check(listed == [name for name, _ in rows] and len(rows) > 20, 'all of them, to the last letter', listed)
    return {name: argument != 'NULL' for name, argument in rows}


def test_settings():
    three = Programs()
    model = made('settings')
    untouched = {rope: three.plain(model, '--rope', rope) for rope in ROPES}
    for name, takes_value in settings().items():
        counted = 0
        for rope in ROPES:
            for word in WORDS if takes_value else ['1']:
                given = ['--' + name, word] if takes_value else ['--' + name]
                done = three.plain(model, '--rope', rope, *given)
                if done.status or done.raw == untouched[rope].raw:
                    continue
                three.compare('%s, %s' % (rope, ' '.join(given)), model, '--rope', rope, *given)
                if name != 'theta' and name != 'train-ctx':
                    three.compare('%s:%s=%s' % (rope, name, word), model, '--rope', '%s:%s=%s' % (rope, name, word))
                counted += 1
                break
            if counted:
                break
        if name == 'x':  # of a method of one's own: no row of rope.c has one
            three.compare('x', model, '--rope', 'yarn:x=3')
        else:
            check(counted, '%s counts somewhere' % name)
    for options in (['--temperature-floor', 8, '--temperature-beta', 1], ['--logn', '--temperature-beta', 0.5],
                    ['--rope', 'yarn', '--logn', '--attention-factor', 2, '--window', 9]):
        three.compare('several', model, *options)
    check(len(three.texts) > 25, 'texts that differ from one another', len(three.texts))


def test_flags():
    """A flag is one everywhere: nothing follows it but the next option."""
    three = Programs()
    model = made('flags')
    on, off = three.compare('--logn', model, '--logn', '-t', 0.7), three.compare('none', model, '-t', 0.7)
    check(on.raw != off.raw, '--logn counts', on)
    three.compare('--logn, last', model, '-t', 0.7, '--logn')
    for path in three.llama, three.core:
        said = run(model, '--logn', 1, program=path)
        check(said.status == 2 and "--logn takes no value (found '1')" in said.err, 'a value for --logn', said)


# ---- measurements ----

def same_rows(llama, plain):
    """Words and whole numbers alike, decimals to 1e-5 of them: query and key that rotate once have other roundings than a
    query that rotates for each key."""
    rows = [[line.split('\t') for line in out.splitlines()] for out in (llama, plain)]
    return all(len(a) == len(b) and all(x == y or ('.' in x and abs(float(x) - float(y)) < 1e-5 * max(1, float(y)))
                                        for x, y in zip(a, b)) for a, b in zip(*rows)) and len(rows[0]) == len(rows[1])


def test_perplexity():
    """./llama rotates query and key once each where it can; ./run --plain rotates the query for each key. --ppl is alike
    to the last digit but one."""
    three, seen = Programs(), set()
    model = made('measured', **BASES['longrope'])
    text = write(in_work('text.txt'), ''.join(chr(97 + i * i % 23 + i % 3) for i in range(400)))
    for rope in ROPES + ['linear', 'ntk', 'longrope', 'dynamic-ntk', 'window', 'yarn:factor=7:logn=1:window=9:sinks=2']:
        for n in 30, 150:
            options = '--ppl', text, '-n', n, '--rope', rope
            plain = run(model, *options, '--plain', '--tsv')
            for program_ in three.llama, three.core:
                found = run(model, *options, program=program_)
                check(found.status == plain.status == 0 and same_rows(found.out, plain.out), '%s, %d: --ppl' % (rope, n),
                      found.out, plain.out)
            seen.add(plain.out)
    check(len(seen) == 32, 'tables that differ', len(seen))
    for options, words in ((['-n', 1], 'at least 2'), (['-n', 5000], 'fewer than the window')):
        found = run(model, '--ppl', text, *options, program=three.llama)
        check(found.status == 2 and words in found.err and not found.out, 'a text of another length', found)
    for options in ['--ppl', in_work('nowhere')], ['--ppl', text, '--passkey'], ['--passkey', '-n', 20], ['--trials', 0]:
        found = run(model, *options, program=three.llama)
        check(found.status == 2 and found.err.count('\n') == 1 and not found.out, 'refused', found)


def test_passkey():
    """--passkey has the rows of ./run, with the key at each depth."""
    three, model = Programs(), os.path.join(ROOT, 'model.bin')
    options = '--passkey', '-n', 120, '--trials', 1, '--train-ctx', 230, '--rope', 'yarn'
    found, plain = run(model, *options, program=three.llama), run(model, *options, '--plain', '--tsv')
    rows = [line for line in plain.out.splitlines() if not line.startswith('# effective')]
    check(found.status == plain.status == 0 and found.out.splitlines() == rows and len(rows) > 8, '--passkey', found.out,
          plain.out)
    small = made('forgetful')
    options = '--passkey', '-n', 1100, '--trials', 1, '--train-ctx', 1300, '--rope', 'self-extend'
    found, plain = run(small, *options, program=three.llama), run(small, *options, '--kv', 'f32', '--tsv')
    rows = [line for line in plain.out.splitlines() if line[0] != '#']
    check([line for line in found.out.splitlines() if line[0] != '#'] == rows and len(rows) == 16, 'lengths: 512, 650, 1100', found.out,
          plain.out)


# ---- fields of the header ----

def of_llama():
    """The names of the fields that a Llama has."""
    source = read(os.path.join(ROOT, 'src', 'llama', 'header.c')).decode()
    return set(re.findall(r'^    \{"(\w+)", \d+,', source, re.M))


def changed(base, offset, kind, value):
    """The file with one field changed, in a header of version 6, which has all fields."""
    data = read(base)
    version = struct.unpack_from('<I', data, 4)[0]
    head = bytearray(data[:HEADER_BYTES[version]].ljust(HEADER_BYTES[6], b'\0'))
    struct.pack_into('<I', head, 4, 6)
    lists = len(LISTS['short_factors']) * 16 if struct.unpack_from('<I', data, 200)[0] else 0
    start = HEADER_BYTES[version]
    body = data[start:start + lists] + bytes(-lists % 64) + data[(start + lists + 63) // 64 * 64:]
    struct.pack_into('<' + kind, head, offset, *(value if isinstance(value, tuple) else (value,)))
    path = write(base[:-4] + '-changed.bin', bytes(head) + body)
    write(path[:-4] + '.tokenizer.bin', read(base[:-4] + '.tokenizer.bin'))
    return path


def every_field(bases):
    three, known = Programs(), of_llama()
    check(len(known) > 35 and 'temperature_beta' in known, 'fields of a Llama', sorted(known))
    for name, fields in bases.items():
        base = made(name, **fields)
        untouched = three.plain(changed(base, 0, 'I', 0x616b3432))
        check(untouched.status == 0, name + ': it runs', untouched)
        counted = 0
        for field, offset, kind, _ in FIELDS:
            if field not in known and name != 'yarn' and name != 'plain':
                continue
            for value in VALUES[kind][:None if field in known else 2]:
                others = field, range(offset, offset + struct.calcsize(kind))
                is_llamas = field in known and field not in (
                    'unscaled_positions', 'temperature_unturned', 'mscale_in_scores')
                done = three.compare('%s, %s %s' % (name, field, value), changed(base, offset, kind, value),
                                     others=None if is_llamas else others)
                counted += done.status == 0 and done.raw != untouched.raw
        check(counted >= 8, name + ': fields that count', counted)


def test_fields():
    every_field({name: BASES[name] for name in ('yarn',)})


@takes_long
def test_all_fields():
    every_field(BASES)


# ---- --attn ----

def with_shapes():
    return [row_of(group['test'], row[0]) for group in models()['groups'] for row in group['rows']
            if 'shapes' in row_of(group['test'], row[0]).fields]


def test_attn_heads():
    """The last head of each layer is shown, and the next one refused, by both engines."""
    rows = with_shapes()
    check(len(rows) > 10 and len({str(row.fields['shapes']) for row in rows}) > 3, 'models by shape', len(rows))
    for row in rows:
        model, c, _ = row.made()
        tokenizer_of(model, c['vocab_size'])
        for layer, (n_heads, *_) in enumerate(c['shapes']):
            for engine in [], ['--plain']:
                what = '%s, layer %d %s' % (row.name, layer, engine)
                asked = [model, '-i', 'abcdef', '--tsv', *engine, '--attn']
                last, next_ = run(*asked, '%d.%d' % (layer, n_heads - 1)), run(*asked, '%d.%d' % (layer, n_heads))
                cells = table(last.out)[2] if last.status == 0 else []
                weights = sum(float(cell['weight']) for cell in cells)
                scores = {cell['score'] for cell in cells}
                check(abs(weights - 1) < 1e-5 and len(scores) > 1, what + ': its last head', last)
                check(next_.status == 2 and not next_.raw and 'heads 0 to %d' % (n_heads - 1) in next_.err
                      and '--attn %d.%d' % (layer, n_heads) in next_.err, what + ': the head after it', next_)
        beyond = run(model, '-i', 'abc', '--attn', '%d.0' % c['n_layers'])
        check(beyond.status == 2 and 'layers 0 to %d' % (c['n_layers'] - 1) in beyond.err, 'a layer beyond', beyond)


if __name__ == '__main__':
    main(globals())
