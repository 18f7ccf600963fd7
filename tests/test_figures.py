#!/usr/bin/env python3
"""The lesson's tools: tables are measured without matplotlib, too, and each says which text it is of."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import types

from common import ROOT, check, in_work, main, run, takes_long, write

sys.path.insert(0, os.path.join(ROOT, 'tools', 'figures'))
import causes  # noqa: E402
import figures as tool  # noqa: E402
import svg  # noqa: E402

STORY = os.path.join(ROOT, 'book.txt')


def figures(*arguments):
    """tools/figures/figures.py where no package is installed, so that matplotlib is not."""
    return subprocess.run([sys.executable, '-S', os.path.join(ROOT, 'tools', 'figures', 'figures.py'), *arguments], cwd=ROOT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}, universal_newlines=True)


def test_svg():
    """These figures are drawn of the data beside them."""
    for made_by in svg, causes:
        for name, draw in made_by.DRAWN.items():
            with open(os.path.join(svg.FIGURES, name + '.svg'), encoding='utf-8') as file:
                check(file.read() == str(draw()), 'docs/figures/%s.svg is not what its data give: %s' % (
                    name, made_by.__file__))


@takes_long
def test_engines_of_the_figure():
    with open(svg.DATA, encoding='utf-8') as file:
        drawn = json.load(file)
    check(drawn == svg.ask_engines(), '--engines says otherwise than the figure: tools/figures/svg.py --engines', drawn)


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
    """An interrupted run continues: files newer than ./run, its model and its text are not measured again."""
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


def test_tables_of_run():
    """plot.py knows the tables of --ppl, with their standard errors, of --keys, --passkey, --tasks and --explain."""
    import plot
    for kind, *asked in (('ppl', '--ppl', STORY, '-n', 200), ('keys', '--ppl', STORY, '-n', 200, '--keys', '60,20,0.1,9'),
                         ('passkey', '--passkey', '-n', 200, '--trials', 1), ('explain', '--explain', '-n', 1024),
                         ('tasks', '--tasks', 'passkey,copy', '-n', 200, '--trials', 1)):
        out = run(os.path.join(ROOT, 'model.bin'), *asked).out
        found, = plot.read_tables(write(in_work(kind + '.tsv'), out))
        check(found.kind == kind and len(found.rows) > 0 and found.model == ('?' if kind == 'explain' else 'model.bin'),
              'a table of --' + kind, found.kind, found.rows[:1])
        if kind == 'ppl':
            low, high = plot.bars([row['ppl'] for row in found.rows], [row['se'] for row in found.rows])
            check(all(a < row['ppl'] < b for a, row, b in zip(low, found.rows, high)), 'standard errors', low, high)
    older = '# perplexity\tmodel.bin\nmethod\tfrom\tto\ttokens\tnll\tppl\nnone\t1\t64\t63\t3.5\t33.1\n'
    found, = plot.read_tables(write(in_work('older.tsv'), older))
    check(found.kind == 'ppl' and 'se' not in found.rows[0], 'of an older version', found.rows)
    check(plot.joined(['copy: none', 'copy: yarn', 'hops: none']) == 'copy: none, yarn, hops: none', 'panels that are alike')


def test_absent_models():
    """A model that does not ship keeps its part of a table when the rest is measured again."""
    parts = ['# command\t%s./run %s --ppl -\nmethod\trows of %s\n' % (pipe, model, model)
             for pipe, model in (('', 'model.bin'), ('xz -dc a.xz | ', 'no-model.bin'), ('', 'nor-this.bin'))]
    path = write(in_work('siblings.tsv'), ''.join(parts))
    found = tool.of_absent_models(path).decode()
    check(found == parts[1] + parts[2], 'the parts of models that are not here', found)
    check(tool.of_absent_models(in_work('none.tsv')) == b'', 'no earlier table')


def of_table(name):
    """(commands, {(command, method, from): perplexity}) of a table of released models."""
    commands, found = [], {}
    with open(os.path.join(ROOT, 'docs', 'figures', name + '.tsv'), encoding='utf-8') as file:
        for line in file:
            cells = line.rstrip('\n').split('\t')
            if cells[0] == '# command':
                commands.append(cells[1])
            elif line[0] != '#' and cells[0] != 'method' and not (cells[1] == '1' and int(cells[2]) > 64):
                found[commands[-1], cells[0], int(cells[1])] = float(cells[5])
    return commands, found


def check_verdicts(name, chapter):
    """Of a table of verdicts the chapter has each command, and below it the last line; of a check that was ended before
    that, the ratio of perplexities at the length."""
    import released_tables
    words = ' '.join(chapter.split())
    with open(os.path.join(ROOT, 'docs', 'figures', name + '.tsv'), encoding='utf-8') as file:
        parts = file.read().split('# command\t')[1:]
    check([part.split('\n')[0] for part in parts] == list(map(released_tables.typed, released_tables.TABLES[name][2])),
          name + ': its commands')
    for part in parts:
        lines = part.rstrip('\n').split('\n')
        said = '%s %s' % (lines[0], lines[-1][2:])
        if lines[-1].startswith('# interrupted'):
            ratio = [line.split('\t')[2:4] for line in lines if line.startswith('perplexity\t16384\t')]
            check(lines[0] in words and ratio, name + ': the document has the command', lines[0])
            said = '%.3f ± %s' % (float(ratio[0][0]), ratio[0][1])
        check(said in words, name + ': the document has its verdict', (said, lines[0]))


def test_released():
    """docs/released.md prints the measurements of its printed commands: every number of its tables."""
    import released_tables
    with open(os.path.join(ROOT, 'docs', 'released.md'), encoding='utf-8') as file:
        chapter = file.read()
    n_compared = 0
    for name, (_, _, commands) in released_tables.TABLES.items():
        if name == 'released-story':
            continue
        if name.endswith('-check'):
            check_verdicts(name, chapter)
            continue
        made, found = of_table(name)
        check(made == list(map(released_tables.typed, commands)), name + ': its commands', made)
        part = chapter.split('figures/%s.tsv' % name)[0].split('\n### ')[-1]
        for command in made:
            check('    ' + command in part, name + ': the document prints ' + command)
        head = None
        for line in part.split('\n'):
            cells = [cell.strip() for cell in line.strip('|').split('|')] if line.startswith('| ') else []
            if cells and head is None:
                head = [int(cell.split(' to ')[0].replace(',', '')) for cell in cells[1:]]
            elif cells and '---' not in cells[0]:
                command = next((c for c in made if all(word in c for word in re.findall('`([^`]*)`', cells[0]))), None)
                method = re.findall('`([^`]*)`', cells[0])[0].split(' ')[0]
                wanted = [found.get((command, method, at)) for at in head]
                check(None not in wanted and cells[1:] == ['%.1f' % ppl for ppl in wanted], '%s: %s' % (name, cells[0]),
                      (cells[1:], wanted))
                n_compared += len(wanted)
    check(n_compared >= 40, 'numbers of the document', n_compared)


if __name__ == '__main__':
    main(globals())
