#!/usr/bin/env python3
"""The lesson's tools: tables are measured without matplotlib, too, and each says which text it is of."""

import contextlib
import io
import os
import subprocess
import sys
import types

from common import ROOT, check, in_work, main, takes_long, write

sys.path.insert(0, os.path.join(ROOT, 'tools'))
import before_rope  # noqa: E402
import figures as tool  # noqa: E402
import plot  # noqa: E402
import plot_parts  # noqa: E402

STORY = os.path.join(ROOT, 'book.txt')


def figures(*arguments):
    """tools/figures.py where no package is installed, so that matplotlib is not."""
    return subprocess.run([sys.executable, '-S', os.path.join(ROOT, 'tools', 'figures.py'), *arguments], cwd=ROOT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}, universal_newlines=True)


@takes_long
def test_no_matplotlib():
    of_pairs = 'pairs-16x.png, decay-16x.png, clocks.png, llama3.png, searched-16x.png'
    for table, pictures in ('again', 'again.png'), ('shares', 'shares.png'), ('stale', 'stale.png'), (
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


def test_words_can_be_read():
    """From the back of a room: grey words at 7 to 1 with white, a method's at 5 to 1."""
    def numbers(colour):
        return tuple(int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5))
    check(abs(plot_parts.contrast((0, 0, 0)) - 21) < 1e-9 and abs(plot_parts.contrast((1, 1, 1)) - 1) < 1e-9,
          'the contrast of black and of white')
    check(abs(plot_parts.contrast(numbers('#767676')) - 4.54) < 0.01, "WCAG's example of 4.54 to 1")
    check(plot_parts.contrast(numbers(plot_parts.GREY)) >= 7, 'grey words', plot_parts.GREY)
    for name, (colour, _) in plot_parts.STYLES.items():
        found = plot_parts.contrast(plot_parts.word_colour(numbers(colour)))
        check(found >= 5, 'the words of ' + name, found)


def test_panels_of_methods_alike():
    """Methods that found the same share a panel: the maps' picture has at most four."""
    def rows(table):
        path = os.path.join(ROOT, 'docs', 'figures', table + '.tsv')
        return [(method, method, found) for t in plot.read_tables(path) for method, found in t.methods().items()]
    wanted = ['none', 'yarn', 'window'] + tool.MAPS
    panels = [p for p in rows('passkey') + rows('passkey-maps') if p[0] in wanted]
    groups = [[p[0] for p in group] for group in plot.same_cells(panels)]
    check(len(panels) == 9 and sorted(sum(groups, [])) == sorted(wanted) and len(groups) <= 4, 'panels', groups)


def title_of(*arguments):
    """The first line of before_rope.py, whose tables take minutes: here they are empty."""
    kept = before_rope.perplexities, before_rope.accuracies
    before_rope.perplexities = before_rope.accuracies = lambda *_: []
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        before_rope.main(list(arguments))
    before_rope.perplexities, before_rope.accuracies = kept
    return out.getvalue().splitlines()[0]


def test_texts():
    mine = write(in_work('book.txt'), 'Once upon a time.')
    for arguments, name in (((), 'the story that ships'), ((STORY,), 'the story that ships'), ((mine,), 'of book.txt'),
                            (('--copy',), 'the story that ships'), (('--copy', mine), 'in book.txt'),
                            (('--passkey',), 'in filler')):
        title = title_of(*arguments)
        good = name in title and (name[0] == 't') == ('story' in title)
        check(good, 'before_rope.py %s' % ' '.join(arguments), title)


if __name__ == '__main__':
    main(globals())
