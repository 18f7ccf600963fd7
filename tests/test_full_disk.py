#!/usr/bin/env python3
"""A disk that is full, wherever the space ends: --quantize and the exporter say so in one line, and afterwards the disk
has only its earlier files. The disk is a small tmpfs in a mount namespace of its own, so this is skipped where those
are not allowed."""

import os
import subprocess
import sys

from common import (F32, Q4, ROOT, RUN, check, config, in_work, main, random_weights, skip, takes_long, tiny_model,
                    write_model)
from export_common import LLAMA, PIECES, Case, changed, make_tensors, sentencepiece

PAGE = os.sysconf('SC_PAGE_SIZE')
# A disk of $1 bytes at $2 that holds a file of one page, $3, then the command; the disk's files afterwards, on standard
# output.
SCRIPT = '''mount -t tmpfs -o size=$1 none "$2" || exit 77
cp "$3" "$2/before" || exit 77
D="$2"
shift 3
"$@" >/dev/null
S=$?
ls -A "$D"
exit $S'''


def on_disk(size, *command):
    """Runs a command that writes to the folder `disk`, which has `size` bytes besides one page: (status,
    standard error, names on the disk)."""
    folder, before = in_work('disk'), in_work('before.bin')  # a model, since --quantize replaces nothing else
    if not os.path.exists(before):
        os.makedirs(folder)
        tiny_model('before.bin', dim=2, hidden_dim=2, n_layers=1, n_heads=1, n_kv_heads=1, head_dim=2, vocab_size=3)
    done = subprocess.run(['unshare', '-rm', 'sh', '-c', SCRIPT, 'sh', str(size + PAGE), folder, before,
                           *map(str, command)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    return done.returncode, done.stderr, done.stdout.split()


def full(what, program, sizes, *command):
    for size in sizes:
        status, err, names = on_disk(size, *command)
        check(status == 2 and err.startswith(program + ': ') and err.count('\n') == 1 and 'No space left' in err
              and names == ['before'], '%s onto a disk of %d bytes' % (what, size), '%s %r %s' % (status, err, names))


def pages(size):
    """Disks on which a file of this size just does not fit, and far from it."""
    whole = -(-size // PAGE) * PAGE
    return sorted({0, min(PAGE, whole - PAGE), whole // 2 // PAGE * PAGE, whole - PAGE})


@takes_long
def test_full_disk():
    try:
        allowed = on_disk(PAGE, 'true')[0] == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        return skip('a full disk (no tmpfs can be mounted here)')
    disk = in_work('disk')
    c = config(dim=64, hidden_dim=200, vocab_size=300)
    write_model(in_work('model.bin'), c, random_weights(c, 1))
    for kind in 'q8', 'q4':
        check(subprocess.run([RUN, in_work('model.bin'), '--quantize', kind, in_work('copy.bin')],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE).returncode == 0, '--quantize')
        size = os.path.getsize(in_work('copy.bin'))
        full('--quantize ' + kind, 'run', pages(size), RUN, in_work('model.bin'), '--quantize', kind,
             os.path.join(disk, 'copy.bin'))
        status, err, names = on_disk(size + PAGE, RUN, in_work('model.bin'), '--quantize', kind,
                                     os.path.join(disk, 'copy.bin'))
        check(status == 0 and sorted(names) == ['before', 'copy.bin'], '--quantize onto a disk with room',
              (status, err, names))
        full('--quantize over an older file', 'run', [PAGE], RUN, in_work('model.bin'), '--quantize', kind,
             os.path.join(disk, 'before'))

    n = len(PIECES)
    wide = changed(LLAMA, vocab_size=n)
    case = Case(wide, make_tensors(wide), tokenizer__model=sentencepiece())
    exporter = [sys.executable, '-B', os.path.join(ROOT, 'model_export.py')]
    subprocess.run([*exporter, case.folder, case.out], check=True, stderr=subprocess.PIPE)
    model, tokenizer = (-(-os.path.getsize(os.path.join(case.results, name)) // PAGE) * PAGE
                        for name in ('model.bin', 'tokenizer.bin'))
    full('a model and its tokenizer', 'model_export', pages(model) + [model, model + tokenizer - PAGE], *exporter,
         case.folder, os.path.join(disk, 'model.bin'))
    full('a tokenizer', 'model_export', pages(tokenizer), *exporter, '--tokenizer',
         os.path.join(case.folder, 'tokenizer.model'), os.path.join(disk, 't.bin'))
    status, err, names = on_disk(model + tokenizer, *exporter, case.folder, os.path.join(disk, 'model.bin'))
    check(status == 0 and sorted(names) == ['before', 'model.bin', 'tokenizer.bin'], 'a model onto a disk with room',
          (status, err, names))
    case.close()
    carried_out(exporter, disk)


def carried_out(exporter, disk):
    """For llama.cpp and for Hugging Face, from floats and from weights that need a float16 copy first."""
    for kind, group_size in (F32, 0), (Q4, 32):
        c = config(dim=64, hidden_dim=200, vocab_size=300, weight_type=kind, group_size=group_size)
        write_model(in_work('model.bin'), c, random_weights(c, 1))
        command = [*exporter, '--no-tokenizer', in_work('model.bin')]
        for name in 'model.gguf', 'folder%d/' % kind:
            check(subprocess.run([*command, in_work(name)], stderr=subprocess.PIPE).returncode == 0, 'carried out')
            made = in_work(name + 'model.safetensors' if name[-1] == '/' else name)
            full('%s of type %d' % (name, kind), 'model_export', pages(os.path.getsize(made)), *command,
                 os.path.join(disk, name))


if __name__ == '__main__':
    main(globals())
