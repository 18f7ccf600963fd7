"""The README's claims about the models that ship, checked loosely: only from the shipped files, on text that the model
writes itself (its own text is easier for it than a novel, but past the trained length it breaks on it all the same)."""

import functools
import os
import subprocess

from common import ROOT, check, good, in_work, main, run, skip, table, takes_long, write

MODEL, SIBLING = (os.path.join(ROOT, name) for name in ('model.bin', 'model-8k.bin'))
L = 512  # trained length


@functools.lru_cache(None)
def page(seed):
    """The model's own text within its trained length."""
    return good(MODEL, '-n', L, '-t', '0.9', '-p', '0.9', '-s', seed, '--ignore-eos').out


def book(n):
    """A text of at least n tokens that the model reads fluently: pages written by itself."""
    # Text sampled token by token is read back as somewhat fewer tokens.
    return write(in_work('book.%d.txt' % n), ''.join(page(seed) for seed in range(1, 2 + (n + n // 4) // L)))


def perplexities(model, n, methods):
    """{method: {(from, to): ppl}} and the number over all positions under 'all'."""
    out = {}
    for row in table(good(model, '--ppl', book(n), '-n', n, '--rope', methods, timeout=600).out)[2]:
        span = int(row['from']), int(row['to'])
        out.setdefault(row['method'], {})['all' if span == (1, n) else span] = float(row['ppl'])
    return out


def test_size():
    check(os.path.getsize(MODEL) <= 8 << 20, 'model.bin is at most 8 MB', os.path.getsize(MODEL))
    settings = table(good(MODEL, '--explain').out)[0]
    check((settings['method'], settings['train_ctx'], settings['head_dim']) == ('none', '512', '64'),
          'model.bin is what the card says', settings)


def test_perplexity_past_the_trained_length():
    ppl = perplexities(MODEL, 4 * L, 'none,linear,ntk,yarn,window')
    check(all(0 < value < 1e9 for spans in ppl.values() for value in spans.values()), 'every method is finite', ppl)
    check(ppl['yarn']['all'] < ppl['linear']['all'] and ppl['yarn']['all'] < ppl['none']['all'],
          'at 4 times the length yarn is better than linear and than none', ppl)
    check(ppl['ntk']['all'] < ppl['none']['all'], 'and so is ntk', ppl)
    # All methods are held against each other on the same text: stretches of a text differ in difficulty.
    far = (1024, 2048)
    check(ppl['none'][far] > 1.25 * ppl['window'][far], 'none breaks past the trained length', ppl)
    check(ppl['yarn'][far] < 0.9 * ppl['none'][far], 'yarn holds', ppl)
    check(ppl['window'][far] < 1.3 * ppl['window']['all'], 'window is flat', ppl['window'])


def test_dynamic_is_none_up_to_the_trained_length():
    text = book(4 * L)
    rows = {m: table(good(MODEL, '--ppl', text, '-n', L, '--per-token', '--rope', m).out)[2]
            for m in ('none', 'dynamic-ntk', 'dynamic-yarn', 'dynamic-linear')}
    for method, found in rows.items():
        check([r['nll'] for r in found] == [r['nll'] for r in rows['none']],
              '%s equals none up to the trained length, exactly' % method)


@takes_long
def test_text_does_not_repeat_itself():
    def variety(text):
        """The share of its runs of four words that are in it once."""
        words = text.split()
        runs = [tuple(words[i:i + 4]) for i in range(len(words) - 3)]
        return len(set(runs)) / len(runs)
    found = sorted(variety(good(MODEL, '-n', '480', '-t', '0.8', '-p', '0.9', '-s', seed, '--ignore-eos').out)
                   for seed in range(1, 11))
    check(found[2] > 0.8, 'eight texts of ten at -t 0.8 do not fall into a loop', found)


def passkey(model, n, method, trials):
    rows = table(good(model, '--passkey', '-n', n, '--rope', method, '--trials', trials, timeout=600).out)[2]
    found = {}
    for row in rows:
        right, asked = found.get(int(row['length']), (0, 0))
        found[int(row['length'])] = right + int(row['correct']), asked + int(row['trials'])
    return {length: right / asked for length, (right, asked) in found.items()}


def test_passkey():
    inside = passkey(MODEL, L, 'none', 2)
    check(all(accuracy >= 0.9 for accuracy in inside.values()), 'the needle is found inside the trained length',
          inside)


@takes_long
def test_passkey_beyond():
    beyond = passkey(MODEL, 4 * L, 'window', 2)
    check(beyond[4 * L] <= 0.5, 'window loses the needle beyond its window', beyond)


@takes_long
def test_sibling_at_16_times_the_length():
    sibling(16 * L)
    found = passkey(SIBLING, 16 * L, 'yarn', 1)
    check(found[16 * L] >= 0.8, 'the sibling finds the needle at 16 times the length', found)


@takes_long
def test_sibling():
    sibling(4 * L)


def sibling(n):
    if not os.path.exists(SIBLING):
        return skip('model-8k.bin is not there')
    settings = table(good(SIBLING, '--explain').out)[0]
    check((settings['method'], settings['factor'], settings['train_ctx']) == ('yarn', '16', '512'),
          'model-8k.bin chooses yarn by itself', settings)
    tuned, base = (perplexities(model, n, methods)
                   for model, methods in ((SIBLING, 'yarn'), (MODEL, 'none,yarn,window')))
    near, far = (256, 512), (n // 2, n)
    check(tuned['yarn'][far] < (0.5 if n > 4 * L else 0.8) * base['none'][far], 'the sibling reads on where model.bin breaks', (tuned, base))
    # model.bin wrote these pages itself; on books the sibling is better (docs/model.md).
    check(tuned['yarn'][far] < 1.05 * base['yarn'][far], 'and is as good as model.bin with yarn', (tuned, base))
    # The text's difficulty cancels.
    flat = tuned['yarn'][far] / base['window'][far] / (tuned['yarn'][near] / base['window'][near])
    check(flat < 1.2, 'the sibling is flat to %d' % n, (flat, tuned, base))
    check(run(SIBLING, '-n', '1000', '-t', '0', '-i', 'The').status == 0, 'the sibling writes a long text')


def test_first_commands():
    """The README's first command reads as it says, and its command that writes does."""
    readme = open(os.path.join(ROOT, 'README.md'), encoding='utf-8').read()

    def output(start):
        command = next(line[2:].strip() for line in readme.splitlines() if line[:2] in ('$ ', '  ') and
                       line[2:].strip().startswith(start))
        done = subprocess.run(command, shell=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        check(done.returncode == 0, 'the README: ' + command, done.stderr[-200:])
        return done.stdout.decode()

    rows = [line.split('\t') for line in output('make && ./run').splitlines()]
    far = {row[0]: float(row[5]) for row in rows if row[1:3] == ['4096', '8192']}
    check(far['yarn'] < 50 and far['none'] > 2 * far['yarn'], 'plain RoPE breaks in the first command of the README', far)
    check(len(output('./run model.bin -n 1024 --rope yarn')) > 1000, 'and the model writes')


if not os.path.exists(MODEL):
    skip('the shipped model is not there')
    for name in [name for name in globals() if name.startswith('test_')]:
        del globals()[name]
main(globals())
