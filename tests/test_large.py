#!/usr/bin/env python3
"""Files of many gigabytes, matrices of 2^32 elements, positions of which there are a hundred thousand: as holes where
nobody looks, so that little of them is ever touched."""

import array
import os
import struct

import kept
from common import (add_counts, check, close, compiled, config, in_work, main, one_line, perplexity, random_ids,
                    random_weights, run, skip, takes_long, tiny_model, write, write_model, write_tokenizer)

GIGABYTE = 1 << 30


@takes_long
def test_elements():
    result = run(program=compiled('tests/test_large.c', 'same'), timeout=300)
    if result.status == 77:
        return skip('products past 2^31 elements (this system does not promise that much memory)')
    add_counts(result, 'large')


def test_large_file():
    """llama2.c's version 0 with room for 2^32 values that nobody reads any more, its tables of cosines and sines,
    before the classifier: 16 GB, of which the first and the last kilobytes are on disk."""
    vocab_size = write_tokenizer(in_work('large.tokenizer.bin'), ['a', 'b'])
    dim, hidden, seq_len, a, b = 4, 1, 1 << 30, vocab_size - 2, vocab_size - 1
    head = struct.pack('<7i', dim, hidden, 1, 1, 1, -vocab_size, seq_len)
    embedding = array.array('f', [1.0, 0.0, 0.0, 0.0] * vocab_size)
    # Adds nothing to the stream.
    layer = array.array('f', [1.0] * dim + [0.0] * 4 * dim * dim + [1.0] * dim + [0.0] * 3 * dim * hidden)
    final_norm = array.array('f', [1.0] * dim)
    front = head + (embedding + layer + final_norm).tobytes()
    path = write(in_work('large.bin'), front)
    for likeliest, letter in ((a, 'a'), (b, 'b')):
        classifier = array.array('f', [0.0] * vocab_size * dim)
        classifier[likeliest * dim] = 1.0
        try:
            with open(path, 'r+b') as file:
                file.seek(len(front) + 4 * seq_len * dim)
                file.write(classifier.tobytes())
        except OSError as no:
            return skip('a file of 16 GB (%s)' % no)
        if os.stat(path).st_blocks * 512 > GIGABYTE:
            return skip('a file of 16 GB (there are no holes on this disk)')
        check(os.path.getsize(path) > 16 * GIGABYTE, 'the large file', os.path.getsize(path))
        result = run(path, '-t', 0, '-n', 9, '--rope', 'none')
        if result.status == 2 and 'cannot map' in result.err:
            return skip('a file of 16 GB (%s)' % result.err.strip())
        check(result.out == letter * 9 + '\n', 'the last tensor of a file of 16 GB', '%r, %r' % (result.out, result))
    os.truncate(path, os.path.getsize(path) - 4)
    one_line(run(path), 2, 'a file of 16 GB that misses its last value', path, 'truncated', str(os.path.getsize(path)))


FAR = [('none', {}, 'f32', 2e-5), ('dynamic-ntk', dict(method='ntk', rope_dynamic=1), 'f32', 2e-5),
       ('none', {}, 'f16', 1e-2), ('yarn', dict(method='yarn', factor=2048.0), 'f32', 2e-5)]


@takes_long
def test_positions():
    far_positions(FAR[:1])


@takes_long
def test_more_positions():
    far_positions(FAR[1:])


def far_positions(rows):
    """131,072 positions through the program, against the naive reference in doubles: one layer, a window and two sinks,
    so that the last queries see a few keys beside them and two from 131,000 positions before."""
    n, window, sinks, tail = 131072, 6, 2, 10
    ids = random_ids(n, 50, 131)
    positions = list(range(sinks)) + list(range(n - tail - window, n))
    for name, settings, kv, tolerance in rows:
        c = config(n_layers=1, **settings)
        weights, path = random_weights(c, 17), in_work('far.bin')
        write_model(path, c, weights)
        expected = kept.nll(c, weights, [ids[p] for p in positions], window=window, sinks=sinks,
                                 positions=positions)
        found = perplexity(path, ids, '--kv', kv, '--window', window, '--sinks', sinks)
        close(found[-tail:], expected[-tail:], tolerance, '131,072 positions, %s, %s cache' % (name, kv))


def test_memory():
    """A job too large for memory is refused before any output."""
    import resource
    model = tiny_model('deep.bin', n_layers=40, n_heads=2, n_kv_heads=2, head_dim=64, dim=2, hidden_dim=1,
                       vocab_size=259)
    write_tokenizer(in_work('deep.tokenizer.bin'))
    ids = write(in_work('ids.txt'), '1 2 3 4 ' * 50000)

    def limit(megabytes):
        return lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    for kv, what in (('f32', ('-i', 'x')), ('q4', ('-m', 'chat', '-y', '')), ('f32', ('--ppl', ids, '--ids')),
                     ('q4', ('--passkey',))):
        result = run(model, *what, '-n', 200000, '--kv', kv, preexec_fn=limit(1024))
        one_line(result, 2, '%s of 200,000 positions in 1 GB, %s' % (what[0], kv), '200000', 'MB')
    model, n = tiny_model('wide.bin', n_layers=1, n_heads=1, n_kv_heads=1, head_dim=64, dim=2, hidden_dim=1), 200000
    write(ids, '1 2 3 4 ' * (n // 4))
    for megabytes, fits in ((150, True), (60, False)):
        what = '--ppl --rope none,dynamic in %d MB' % megabytes
        result = run(model, '--ppl', ids, '--ids', '-n', n, '--window', 1, '--rope', 'none,dynamic',
                     preexec_fn=limit(megabytes))
        if fits:
            check(result.status == 0, what, result)
        else:
            one_line(result, 2, what, str(n), 'MB')


if __name__ == '__main__':
    main(globals())
