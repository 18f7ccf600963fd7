#!/usr/bin/env python3
"""Rows of rope.c: the shipped ones keep their promises, added ones are computed equally by both engines, and a wrong
one gets a message with its fault, in one line."""
import math
import os
import re
import shlex
import subprocess

from common import (ROOT, check, close, good, house, in_work, main, one_line, random_ids, run, table, tiny_model,
                    write)

# Rows added for the test: maps in groups, in chunks, growing slowly, unevenly, up and down, and one that is no
# difference of two parts; a method.
FORMULAS = '''
static RopeParts by_24(const RopeConfig *c, int p) {
    return (RopeParts){c->near, p / 24 + c->near - c->near / 24, p / 24};
}
static RopeParts in_100(const RopeConfig *c, int p) { (void)c; return (RopeParts){p % 100 + 1, 200, p % 100}; }
static RopeParts slow(const RopeConfig *c, int p) {
    double x = 40 * log(1 + p / 40.0);
    return (RopeParts){c->near, x + c->near - 40 * log(1 + c->near / 40.0), x};
}
static RopeParts squeezed(const RopeConfig *c, int p) {
    double x = p / (1 + c->x);
    return (RopeParts){16, x + 16 - 16 / (1 + c->x), x};
}
static RopeParts to_and_fro(const RopeConfig *c, int p) {
    (void)c;
    return (RopeParts){p < 64 ? 16 : 17, 100 + p % 7, 30 * sin(p / 9.0)};
}
static RopeParts all_far(const RopeConfig *c, int p) { (void)c; return (RopeParts){0, p / 2.0, p / 2.0}; }
static double logarithm(const RopeConfig *c, int i, int j) { (void)c; return 50 * log(1 + (i - j) / 50.0); }
static double hump(const RopeConfig *c, int i, int j) { (void)c; return (i - j) * exp(1 - (i - j) / 150.0); }
static RopeParts forgets(const RopeConfig *c, int p) { (void)c; return (RopeParts){p < 50 ? 9 : 40, p, p}; }
static RopeParts too_far(const RopeConfig *c, int p) { (void)c; return (RopeParts){1, 1e300 * p, 0}; }
static RopeParts counts(const RopeConfig *c, int p) { static int n; (void)c; return (RopeParts){1, p + n++ % 3, p}; }
static RopeParts no_number(const RopeConfig *c, int p) { (void)c; return (RopeParts){1, p, log(p - 70)}; }
static double by_share(const RopePair *p) {
    double share = 2.0 * p->index / p->config->rotary_dim;
    return p->plain * pow(p->scale, -share * share);
}
static double bent(const RopePair *p) {
    double share = 2.0 * p->index / p->config->rotary_dim;
    return p->plain * pow(p->scale, -pow(share, 1 + p->config->x));
}
static double taper(const RopePair *p) { return p->plain * (1.2 - 0.2 * exp(p->index)); }
static double too_fast(const RopePair *p) { return p->plain * 1e30; }
static double not_finite(const RopePair *p) { return p->plain * sqrt(2 - p->index); }
'''
MAPS = '''
    {"by-24", by_24, NULL, ROPE_MAP_NEAR, 0, "groups", "mine"},
    {"in-100", in_100, NULL, 0, 0, "chunks", "mine"},
    {"slow", slow, NULL, ROPE_MAP_NEAR, 0, "growing slowly", "mine"},
    {"squeezed", squeezed, NULL, ROPE_MAP_X, 0, "far distances 1 + x times nearer", "mine"},
    {"x-not-said", squeezed, NULL, 0, 0, "", "mine"},
    {"to-and-fro", to_and_fro, NULL, 0, 0, "not monotone", "mine"},
    {"all-far", all_far, NULL, 0, 0, "half", "mine"},
    {"logarithm", NULL, logarithm, 0, 0, "no two parts", "mine"},
    {"hump", NULL, hump, 0, 0, "up, and down again", "mine"},
    {"forgets", forgets, NULL, 0, 0, "", "mine"},
    {"too-far", too_far, NULL, 0, 0, "", "mine"},
    {"counts", counts, NULL, 0, 0, "", "mine"},
    {"no-number", no_number, NULL, 0, 0, "", "mine"},
    {"no-flag", rerope, NULL, 0, 0, "", "mine"},
    {"idle-flag", in_100, NULL, ROPE_MAP_CHUNK, 0, "", "mine"},
    {"no-formula", NULL, NULL, 0, 0, "", "mine"},
'''
METHODS = '''
    {"by-share", by_share, NULL, ROPE_USES_FACTOR | ROPE_CAN_BE_DYNAMIC, "by the share", "mine"},
    {"bent", bent, NULL, ROPE_USES_FACTOR | ROPE_USES_X, "by the share to a power", "mine"},
    {"idle-x", by_share, NULL, ROPE_USES_FACTOR | ROPE_USES_X, "", "mine"},
    {"taper", taper, NULL, 0, "slow pairs to a stop, without a factor", "mine"},
    {"empty", NULL, NULL, 0, "", "mine"},
    {"too-fast", too_fast, NULL, 0, "", "mine"},
    {"not-finite", not_finite, NULL, 0, "", "mine"},
    {"no-factor", by_share, NULL, 0, "", "mine"},
'''
RIGHT = ['by-24', 'in-100', 'slow', 'to-and-fro', 'all-far', 'logarithm', 'yarn+slow', 'by-share',
         'dynamic-by-share', 'bent:x=0.5', 'squeezed:x=3', 'bent+squeezed:x=1', 'dynamic-yarn+by-24', 'dynamic+slow', 'by-share+in-100']
# The words that one line has.
WRONG = {'forgets': ('p - near(p)',),
         'no-number': ('key', 'number'), 'no-flag': ('--near', 'ROPE_MAP_NEAR'), 'idle-flag': ('ROPE_MAP_CHUNK',),
         'no-formula': ('formula', 'distance'), 'not-finite': ('pair 3', 'number'),
         'empty': ('no formula',), 'too-fast': ('pair 0', '1e+30', 'at most'), 'too-far': ('1e+300', 'at most'),
         'counts': ('asked again',), 'x-not-said': ('--x', 'ROPE_MAP_X'), 'idle-x': ('ROPE_USES_X',),
         'no-factor': ('--factor', 'ROPE_USES_FACTOR')}


# D(i, j) of some of them anew, past near(i), which is the second.
DISTANCES = {'to-and-fro': (lambda i, j: 100 + i % 7 - 30 * math.sin(j / 9), lambda i: 16 if i < 64 else 17),
             'in-100': (lambda i, j: 200 - j % 100, lambda i: i % 100 + 1),
             'all-far': (lambda i, j: i / 2 - j / 2, lambda i: 0),
             'logarithm': (lambda i, j: 50 * math.log(1 + (i - j) / 50), lambda i: 0),
             'hump': (lambda i, j: (i - j) * math.exp(1 - (i - j) / 150), lambda i: 0)}


def reach(name, length, limit):
    """The first of the queries that sees a key at `limit` or further; `length`: none does."""
    far, near = DISTANCES[name]
    return next((i for i in range(length) if any((i - j if i - j < near(i) else far(i, j)) >= limit
                                                 for j in range(i + 1))), length)


def changed(*changes):
    """A program whose rope.c has texts replaced: {old: new}. None without a compiler."""
    with open(os.path.join(ROOT, 'rope.c'), encoding='utf-8') as file:
        text = file.read()
    for old, new in changes:
        check(text.count(old) == 1, 'stands once in rope.c: %s' % old)
        text = text.replace(old, new)
    source, program = in_work('own.c'), in_work('own_run')
    with open(source, 'w', encoding='utf-8') as file:
        file.write(text)
    with open(os.path.join(ROOT, 'build', 'flags')) as file:
        flags = shlex.split(file.read()) + ['-I', ROOT]
    objects = [os.path.join(ROOT, 'build', path[:-1] + 'o') for path in house('src') if path.endswith('.c')]
    made = subprocess.run(flags + [source, os.path.join(ROOT, 'build', 'run.o'), *objects, '-o', program, '-lm'],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    return program if check(made.returncode == 0, 'a rope.c with rows of one\'s own compiles', made.stdout) else None


def names():
    """Of all methods and maps, as --help lists them."""
    shown = good('--help', 'all').out
    lists = shown[shown.index('Methods of --rope'):]
    return [name for name in re.findall(r'(?m)^  ([a-z0-9-]+) ', lists) if name != 'window']


def nll(program, model, text, *options):
    shown = good(model, '--ppl', text, '--ids', '--per-token', '--tsv', '-n', 333, *options, program=program).out
    return [float(row['nll']) for row in table(shown)[2]]


def test_rows():
    """Each row of rope.c keeps its promises."""
    for name in names():
        done = run('--explain', '--head-dim', 64, '--theta', 10000, '--train-ctx', 512, '-n', 4096, '--rope', name)
        lacks_lists = 'needs the model\'s short and long factor lists' in done.err
        check(done.status == 0 or lacks_lists, 'the row %s' % name, done.err.strip())


def test_own_rows():
    """Added rows: both engines, a text in one pass and token by token, retrieval; and the messages for wrong ones."""
    end = '};\nconst int rope_n_'
    program = changed(('// To add a method, write its formula', FORMULAS[FORMULAS.index('static double by_share'):] + '// To add a method, write its formula'),
                      ('// To add a map, write its formula', FORMULAS[:FORMULAS.index('static double by_share')] +
                       '// To add a map, write its formula'),
                      (end + 'methods', METHODS + end + 'methods'), (end + 'maps', MAPS + end + 'maps'))
    if not program:
        return
    model = tiny_model('rows.bin', train_ctx=128, seq_len=1000, theta=200.0)
    text = in_work('ids.txt')
    write(text, ' '.join(map(str, random_ids(333, 50, 1))))
    exact = ('--kv', 'f32', '--activations', 'f32')
    read = {}
    for name in RIGHT:
        read[name] = nll(program, model, text, '--rope', name, *exact)
        close(read[name], nll(program, model, text, '--rope', name, '--plain'), 1e-4, '%s: both engines' % name)
    for name in ('by-24', 'slow', 'by-share'):
        close(nll(program, model, text, '--rope', name, '--stepwise', *exact), read[name], 1e-4, '%s: stepwise' % name)
    close(read['by-24'], nll(program, model, text, '--rope', 'self-extend:group=24', *exact), 1e-6, 'by-24 is self-extend')
    # A method without a factor: how far it reaches only reading can tell, and it is no mixture of two frequencies.
    shown = good(model, '--explain', '--rope', 'taper', '-n', 400, program=program)
    ramps = [row['ramp'] for row in table(shown.out)[2]]
    check(not shown.err and '-' in ramps and not any(ramp != '-' and not 0 <= float(ramp) <= 1 for ramp in ramps),
          'a method without a factor', (shown.err, ramps))
    held = table(good(model, '--check', '--settings', '-n', 400, '--rope', 'taper', program=program).out)[2]
    check([row['value'] for row in held if row['check'] == 'reach'] == ['any'], 'its reach', held)
    for name, words in WRONG.items():
        one_line(run(model, '--ppl', text, '--ids', '-n', 333, '--rope', name, program=program), 2, name, name, *words)
    for name in DISTANCES:
        for length in 90, 400, 700:
            wanted = reach(name, length, 128)
            shown = run(model, '--check', '--settings', '-n', length, '--rope', name, program=program)
            row, = (row for row in table(shown.out)[2] if row['check'] == 'reach')
            found = math.inf if row['value'] == 'any' else int(row['value'])
            check((found, row['verdict']) == (wanted, 'fail') if wanted < length else
                  found >= length and row['verdict'] == 'ok', 'the reach of %s at %d' % (name, length), (row, wanted))
    # A parameter of its own, swept as factors are.
    listed = good(model, '--ppl', text, '--ids', '-n', 333, '--rope', 'bent:factor=3:x=0,1,-0.5,by-share:factor=3',
                  program=program)
    ppl = {row['method']: row['ppl'] for row in table(listed.out)[2] if row['from'] == '1'}
    check(list(ppl) == ['bent:factor=3:x=0', 'bent:factor=3:x=1', 'bent:factor=3:x=-0.5', 'by-share:factor=3'] and
          ppl['bent:factor=3:x=1'] == ppl['by-share:factor=3'] and len(set(ppl.values())) == 3, 'a sweep of x', ppl)
    shown = good(model, '--explain', '--rope', 'bent:factor=4', '--x', 0.5, '-n', 400, program=program)
    notes, _, rows = table(shown.out)
    pairs = len(rows)
    close([float(row['scaled_inv_freq']) for row in rows],
          [float(row['inv_freq']) * 4 ** -((i / pairs) ** 1.5) for i, row in enumerate(rows)], 1e-9, 'by its x')
    check(notes['x'] == '0.5' and not shown.err and '--x has no effect on rope by-share' in
          run(model, '--explain', '-n', 300, '--rope', 'by-share', '--x', 2, program=program).err, 'x is said', notes)
    shown = good('model.bin', '--passkey', '-n', 200, '--trials', 1, '--rope', 'by-24,slow,by-share', program=program)
    check(all(name in shown.out for name in ('by-24', 'slow', 'by-share')), 'retrieval by rows of one\'s own')


def test_places():
    """A row in front of the others, or with a name that cannot be typed, is answered whatever is asked."""
    for row, words in (('{"mine", none, NULL, 0, "", "mine"},\n    {"linear", linear', ('row 1', 'mine', 'linear', 'end')),
                       ('{"Linear", linear', ('Linear',)), ('{"linear", none, NULL, 0, "", ""}, {"linear", linear', ('row 2',))):
        program = changed(('{"linear", linear', row))
        if program:
            one_line(run('model.bin', '-n', 2, program=program), 2, row, 'rope.c', *words)


if __name__ == '__main__':
    main(globals())
