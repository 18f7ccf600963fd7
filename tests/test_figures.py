#!/usr/bin/env python3
"""The lesson's tools: tables are measured without matplotlib, too, and each says which text it is of."""

import contextlib
import io
import os
import subprocess
import sys
import types

from common import ROOT, check, in_work, main, takes_long, write

sys.path.insert(0, os.path.join(ROOT, 'tools', 'figures'))
import figures as tool  # noqa: E402

STORY = os.path.join(ROOT, 'book.txt')


def figures(*arguments):
    """tools/figures/figures.py where no package is installed, so that matplotlib is not."""
    return subprocess.run([sys.executable, '-S', os.path.join(ROOT, 'tools', 'figures', 'figures.py'), *arguments], cwd=ROOT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}, universal_newlines=True)


@takes_long
def test_no_matplotlib():
    of_pairs = 'pairs-16x.png, decay-16x.png, clocks.png, llama3.png, searched-16x.png'
    for table, pictures in ('again', 'again.png'), ('stale', 'stale.png'), (
            'sweep', 'sweep.png'), ('crowd', 'crowd.png'), ('explain-16x', of_pairs):
        out = in_work('figures ' + table)
        done = figures('--only', table, '--quick', '--text', STORY, '--out', out)
        made = os.path.join(out, table + '.tsv')
        check(done.returncode == 0 and os.path.exists(made) and os.path.getsize(made) > 100, table + ' is measured',
              done.stderr)
        said = [line for line in done.stdout.splitlines() if 'matplotlib is not here' in line]
        check(len(said) == 1 and said[0].startswith('# no picture (%s): ' % pictures), table + ' has no picture', said)
        if table == 'again':
            check('# book\tthe story that ships' in open(made).read(), 'the table says which text it is of')
    done = figures('--plots-only', '--out', in_work('figures'))
    check(done.returncode == 1 and 'matplotlib' in done.stderr, 'nothing but pictures', done.stderr)


def test_kept_tables():
    """An interrupted run goes on: what is newer than ./run, its model and its text is not measured again."""
    text = types.SimpleNamespace(path=write(in_work('text.txt'), 'Once.'), name='text.txt')
    table = write(in_work('kept.tsv'), '# command\t./run model.bin --ppl text.txt\n')
    options = types.SimpleNamespace(all=False, only=None)
    of_ours = ['# command\t./run model.bin --ppl text.txt']
    with contextlib.redirect_stdout(io.StringIO()):
        for what, expected, changes, lines, newest in (
                ('newer than all', True, {}, of_ours, table), ('older than its text', False, {}, of_ours, text.path),
                ('of another command', False, {}, [of_ours[0] + ' -n 512'], table),
                ('--all', False, {'all': True}, of_ours, table), ('--only', False, {'only': 'sweep'}, of_ours, table)):
            for at, path in enumerate(sorted((table, text.path), key=newest.__eq__)):
                os.utime(path, (4e9 + at, 4e9 + at))
            vars(options).update(dict(dict(all=False, only=None), **changes))
            check(tool.kept(options, table, lines, ['model.bin'], text) == expected, 'a table ' + what)
        check(not tool.kept(options, in_work('none.tsv'), [], ['model.bin'], text), 'a table that is not there')


def test_absent_models():
    """A model that does not ship keeps its part of a table when the rest is measured again."""
    parts = ['# command\t%s./run %s --ppl -\nmethod\trows of %s\n' % (pipe, model, model)
             for pipe, model in (('', 'model.bin'), ('xz -dc a.xz | ', 'no-model.bin'), ('', 'nor-this.bin'))]
    path = write(in_work('siblings.tsv'), ''.join(parts))
    found = tool.of_absent_models(path).decode()
    check(found == parts[1] + parts[2], 'the parts of models that are not here', found)
    check(tool.of_absent_models(in_work('none.tsv')) == b'', 'no earlier table')


if __name__ == '__main__':
    main(globals())
