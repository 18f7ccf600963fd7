#!/usr/bin/env python3
"""Draws the tables that ./run prints: python3 tools/figures/plot.py TABLE... -o OUT.png

The header row of the tables says which picture it is:

    ./run --ppl        perplexity against position, one line per method, with standard errors;
                       tables of several lengths: perplexity of the whole text against its length
    ./run --ppl --keys perplexity of all tokens and of key tokens, by method, with standard errors
    ./run --passkey    the share of keys found by length and depth, one panel per method
    ./run --tasks      the same of each task
    ./run --explain    inverse frequencies before and after, by pair, with the ramp;
                       with --decay: what a distance leaves of the attention score; with --distances: what a distance
                       map turns every distance into; with --divisors: how many times slower each pair turns with
                       --clocks: the angles that four pairs came to within the trained length
    tools/figures/experiments.py   its tables: a page read again, stale keys, one head's scores

A file may hold several tables, one after the other, and several files may be given; - is standard input.
Needs matplotlib, which nothing else here does. OUT may end in .png or .svg.
"""
import argparse
import math
import os
import sys
import textwrap

from plot_lesson import (draw_again, draw_attention, draw_clocks, draw_crowd, draw_encodings, draw_layers,
                         draw_stale)
from plot_parts import (BASE, DOTS, GREY, INK, PALE, SMALL, counted, draw_lines, label_ends, log_scale, new_figure,
                        plain, save, style_of, token_figure, word_colour)
from plot_tables import book_of, fail, method_of, read_tables, trained_length

# ---- the pictures ----

def draw_perplexity(tables, options):
    """Against position, or, when the tables are of several lengths, of whole texts against their length."""
    points, models = {}, list(dict.fromkeys(t.model for t in tables))  # {(method, model): [(x, perplexity, se of nll)]}
    lengths = sorted({t.rows[-1]['to'] for t in tables})
    by_length = len(lengths) > 1
    for table in tables:
        for method, (*buckets, whole) in table.methods().items():
            if whole['from'] != 1:
                fail(table.path, 'there is no row over all positions for %s (was ./run interrupted?)' % method)
            scaled = ', sliding layers too' * ('rope_sliding' in table.settings)
            line = points.setdefault((method + scaled, table.model), [])
            if by_length:
                line.append((whole['to'], whole['ppl'], whole.get('se', 0)))
            else:  # a bucket is drawn at its geometric mean; the first, as if it were an octave too
                line += [(math.sqrt(max(b['from'], b['to'] / 2) * b['to']), b['ppl'], b.get('se', 0)) for b in buckets]
    lines = []
    for (method, model), line in points.items():
        label = method if len(models) == 1 else '%s, %s' % (method, os.path.splitext(model)[0])
        x, y, errors = zip(*sorted(line))
        lines.append((method, label, x, y, 0.55 * (model == models[0] != models[-1]), bars(y, errors)))
    headings = ('Perplexity of a whole text, by its length' if by_length else 'Perplexity by position',
                '%s; %s, %s of %s' % (', '.join(models), book_of(tables),
                                      counted(tables[0].number('samples', 1), 'window'),
                                      'each length' if by_length else extent(tables[0], int(lengths[0]))))
    labels = 'length of the text, tokens' if by_length else 'position, tokens', 'perplexity'
    xlim = lengths[0] * 0.93 if by_length else 40, lengths[-1] * 1.03
    if options.behind:
        return draw_panels(tables, options, lines, headings, labels, xlim)
    return token_figure(tables, options, lines, headings, labels, xlim)[0]


def bars(perplexities, errors):
    """The ends of bars of one standard error, which is that of ln ppl: none where it is not known."""
    ends = [[y * math.exp(sign * (e if e == e else 0)) for y, e in zip(perplexities, errors)] for sign in (-1, 1)]
    return tuple(ends)


def draw_keys(tables, options):
    """A line for each method: the perplexity of all tokens, hollow, and of key tokens."""
    rows = [(row, t.model) for t in tables for row in t.rows]
    models = list(dict.fromkeys(model for _, model in rows))
    names = [row['method'] for row, _ in rows]
    fig, ((ax,),) = new_figure(1.5 + 0.32 * len(rows), options.title or 'Perplexity of key tokens and of all',
                               '%s; %s; filled: tokens that what is far back makes likelier (--keys), hollow: all; '
                               'bars: a standard error' % (', '.join(models), book_of(tables)))
    for y, (row, model) in enumerate(rows):
        colour = style_of(row['method'], names)['color']
        for value, error, face in ((row['ppl'], row['se'], 'white'), (row['key_ppl'], row['key_se'], colour)):
            (low,), (high,) = bars([value], [error])
            ax.hlines(y, low, high, color=colour, linewidth=1.5)
            ax.plot([value], [y], marker='o', color=colour, markerfacecolor=face, markersize=7)
    ax.set_yticks(range(len(rows)), [
        '%s%s (%s keys)' % (row['method'], '' if len(models) == 1 else ', ' + os.path.splitext(model)[0], row['keys'])
        for row, model in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    log_scale(ax.xaxis, False)
    ax.set_xlabel('perplexity')
    ax.grid(axis='x', color=PALE, linewidth=0.6)
    longest = max(len(label.get_text()) for label in ax.get_yticklabels())
    fig.subplots_adjust(left=0.03 + 0.0098 * longest, right=0.97, top=1 - 0.8 / fig.get_figheight(),
                        bottom=0.55 / fig.get_figheight())
    return fig


def extent(table, length):
    """How long a text is, in words."""
    if 'spread' in table.settings:
        return '%s tokens over %s positions' % (plain(table.number('length', 0)), plain(table.number('spread', 0)))
    return '%s tokens' % format(length, ',')


def draw_panels(tables, options, lines, headings, labels, xlim):
    """A panel for each line, before the same few lines in all of them (--behind), which may leave the panel on top."""
    behind = [line for line in lines if line[0] in options.behind.split(',')]
    own, trained = [line for line in lines if line not in behind], trained_length(tables, options)
    columns = min(3, len(own))
    n_rows = -(-len(own) // columns)
    height = 1.15 + 1.9 * n_rows
    every = [y for line in own for y in line[3]]
    top = 1.05 * max(every + [line[3][0] for line in behind])
    fig, axes = new_figure(height, options.title or headings[0], headings[1], nrows=n_rows, ncols=columns, sharex=True,
                           sharey=True)
    fig.subplots_adjust(left=0.085, top=1 - 0.95 / height, bottom=0.55 / height, wspace=0.06, hspace=0.24)
    for ax, line in zip(axes.flat, own):
        ax.set_xlim(*xlim)
        ax.set_ylim(0.96 * min(every + [y for other in behind for y in other[3]]), top)
        for other in behind:
            ax.plot(*other[2:4], color=style_of(other[0], [other[0]])['color'], linewidth=1.2)
        ax.plot(*line[2:4], color=style_of(line[0], [line[0]])['color'], linewidth=3, alpha=0.85)
        ax.set_title('%s: %.1f at the end' % (line[1], line[3][-1]), fontsize=BASE, loc='left',
                     color=word_colour(style_of(line[0], [line[0]])['color']))
        log_scale(ax.xaxis, True)
        ax.set_xticks(ax.get_xticks()[::2])
        log_scale(ax.yaxis, False)
        ax.grid(axis='y', color=PALE, linewidth=0.6)
        if xlim[0] < trained < xlim[1]:
            ax.axvline(trained, color=GREY, linewidth=1, linestyle=DOTS, zorder=1)
    for ax in (ax for ax in axes[:, -1] if ax.lines):  # the last row may be short
        label_ends(ax, [below(line, top) for line in behind])
    for ax in list(axes.flat)[len(own):]:
        ax.set_axis_off()
    fig.text(0.085, 0.09 / height, '%s; dotted: the trained length, %s' % (labels[0], plain(trained)), va='bottom')
    fig.text(0.008, 0.5, labels[1], rotation=90, va='center')
    return fig


def below(line, top):
    """The line up to where it leaves a logarithmic axis on top for good."""
    name, label, x, y, pale, *_ = line
    last = max([k for k, value in enumerate(y) if value <= top], default=0)
    if last == len(y) - 1 or y[last] > top:
        return line
    share = math.log(top / y[last]) / math.log(y[last + 1] / y[last])
    return name, label, [*x[:last + 1], x[last] * (x[last + 1] / x[last]) ** share], [*y[:last + 1], top], pale


def same_cells(panels):
    """Lists of panels (title, method, rows) that show the same shares found."""
    groups = {}
    for panel in panels:
        groups.setdefault(tuple((r['length'], r['depth'], r['accuracy']) for r in panel[2]), []).append(panel)
    return groups.values()


def joined(names):
    """Names of panels, with those of one task together: `copy: none, yarn`."""
    said = []
    for task, colon, name in (name.rpartition(': ') for name in names):
        said.append(name if said and task == before else task + colon + name)
        before = task
    return ', '.join(said)


def draw_passkey(tables, options):
    """Of --passkey and --tasks: lengths across, depths down (the beginning on top), in each cell the share found."""
    from matplotlib.colors import LinearSegmentedColormap
    models = list(dict.fromkeys(t.model for t in tables))
    panels = []
    for table in tables:
        for task in dict.fromkeys(row.get('task') for row in table.rows):
            for method, rows in table.methods().items():
                label = ', '.join([method] + [os.path.splitext(table.model)[0]] * (len(models) > 1))
                label = '%s: %s' % (task, label) if task else label
                panels.append((label, method, [row for row in rows if row.get('task') == task]))
    panels = [panel for panel in panels if panel[2]]
    panels = [([p[0] for p in alike], alike[0][1], alike[0][2]) for alike in same_cells(panels)]
    columns = 3 if len(panels) in (5, 6) else min(4, len(panels))
    n_rows = -(-len(panels) // columns)
    trained = trained_length(tables, options)
    beyond = 0 < trained < max(row['length'] for _, _, rows in panels for row in rows)
    titles = [textwrap.fill(joined(names), 92 // columns) for names, _, _ in panels]
    lines = max(title.count('\n') for title in titles)  # more than one
    height = 1.2 + 0.19 * lines + (1.75 + 0.19 * lines) * n_rows
    shares = [(' and '.join(name.split(',')[0] for name in names), sum(r['correct'] for r in rows),
               sum(r['trials'] for r in rows)) for names, _, rows in panels]
    what = 'Passkeys found, %' if tables[0].kind == 'passkey' else 'Right answers, %'
    heading = (options.title or what).replace('FOUND', ', '.join('%s %d of %d' % s for s in shares))
    subtitle = '%s; %s a cell%s; depth 0%%: where the text begins%s' % (
        ', '.join(models), counted(panels[0][2][0]['trials'], 'trial'),
        ', all 5 digits right' if tables[0].kind == 'passkey' else '',
        '; dotted: trained length, %s' % plain(trained) if beyond else '')
    fig, axes = new_figure(height, heading, subtitle, nrows=n_rows, ncols=columns, sharey=True)
    top, bottom = 1 - (1 + 0.19 * lines) / height, 0.6 / height
    fig.subplots_adjust(left=0.1, right=0.99 if columns > 1 else 0.5, top=top, bottom=bottom,
                        wspace=0.07, hspace=0.5 + 0.1 * lines)
    # Ever darker: no hue to tell apart.
    shades = LinearSegmentedColormap.from_list('found', ['#f1f1ee', '#9cc3e0', '#0060a8', '#06304f'])
    for ax, title, (names, method, rows) in zip(axes.flat, titles, panels):
        lengths, depths = (sorted({r[key] for r in rows}) for key in ('length', 'depth'))
        cells = {(r['depth'], r['length']): r['accuracy'] for r in rows}
        ax.pcolormesh([[cells.get((d, n), math.nan) for n in lengths] for d in depths], cmap=shades, vmin=0, vmax=1,
                      edgecolors='white', linewidth=1.5)
        for (depth, length), share in cells.items():
            ax.text(lengths.index(length) + 0.5, depths.index(depth) + 0.5, '%.0f' % (100 * share), ha='center',
                    va='center', fontsize=9.5 if columns < 4 else 8.5, color='white' if share > 0.45 else INK)
        ax.set_title(title, fontsize=BASE, loc='left',
                     color=INK if len(names) > 1 else word_colour(style_of(method, [method])['color']))
        ax.set_xticks([x + 0.5 for x in range(len(lengths))], [plain(n) for n in lengths])
        ax.set_yticks([y + 0.5 for y in range(len(depths))], ['%.0f%%' % (100 * d) for d in depths])
        ax.set_ylim(len(depths), 0)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        seen = sum(n <= trained for n in lengths)
        if 0 < seen < len(lengths):
            ax.axvline(seen, color=INK, linewidth=1.3, linestyle=DOTS, ymin=-0.02, ymax=1.02, clip_on=False)
    for ax in list(axes.flat)[len(panels):]:
        ax.set_axis_off()
    fig.text(axes[0][0].get_position().x0, 0.09 / height, 'length of the text, tokens', va='bottom')
    asked = 'the key' if tables[0].kind == 'passkey' else 'what is asked for'
    fig.text(0.008, (top + bottom) / 2, 'depth of %s' % asked, rotation=90, va='center')
    return fig


def draw_pairs(tables, options):
    """Above, the inverse frequency of every pair before (none) and after; below, where it lies between kept and divided
    by s."""
    first, trained = tables[0], trained_length(tables, options)
    subtitle = 'head size %s, theta %s; s = %.4g' % (first.settings.get('head_dim', '?'),
                                                     first.settings.get('theta', '?'),
                                                     max(t.number('scale', 1) for t in tables))
    fig, ((top,), (bottom,)) = new_figure(5.4, options.title or 'Speed of every pair, before and after', subtitle,
                                          nrows=2, sharex=True, gridspec_kw={'height_ratios': [2, 1]})
    fig.subplots_adjust(left=0.105, top=0.88, bottom=0.095, hspace=0.12)
    column = lambda table, key: [row[key] for row in table.rows]
    lines = lambda key: [(name, name, column(t, 'pair'), column(t, key), 0) for name, t in zip(names, tables)]
    names = [method_of(t) for t in tables]
    names = [n if names.count(n) == 1 else '%s:factor=%s' % (n, t.settings.get('factor', '?'))
             for n, t in zip(names, tables)]
    after = lines('scaled_inv_freq')
    if 'none' not in names:
        after.insert(0, ('none', 'none', column(first, 'pair'), column(first, 'inv_freq'), 0))
    draw_lines(top, after)
    draw_lines(bottom, lines('ramp'))
    log_scale(top.yaxis, False)
    if trained:  # the last pair that came full circle within L
        turn = 2 * math.pi / trained
        top.axhline(turn, color=GREY, linewidth=1, linestyle=DOTS, zorder=1)
        for text, offset in (('one turn in %s positions' % plain(trained), 4),
                             ('slower pairs: new angles past %s' % plain(trained), -11)):
            top.annotate(text, (1, turn), (0, offset), xycoords=('axes fraction', 'data'), textcoords='offset points',
                         ha='right', color=GREY, fontsize=SMALL)
    top.set_ylabel('radians per position')
    bottom.set_yticks([0, 0.5, 1], ['÷ s  0', '0.5', 'kept  1'])
    bottom.set_ylabel('ramp')
    bottom.set_xlabel('pair')
    bottom.xaxis.get_major_locator().set_params(integer=True)
    for ax in (top, bottom):
        ax.grid(axis='y', color=PALE, linewidth=0.6)
    label_ends(top, after)
    return fig


def draw_decay(tables, options):
    """Long-range decay: a^2 / (d/2) * sum_i cos(distance * f_i), against distance.

    A query and an equal key whose elements are independent, of mean 0 and variance v, have the expected score 2 v a^2
    sum_i cos(distance * f_i); a query and a key that have nothing in common, 0. So this is what the rotation leaves, at
    a distance, of "that is what I look for": Men et al., Base of RoPE Bounds Context Length, arXiv 2405.14591.
    (RoFormer draws an upper bound of a score: arXiv 2104.09864, section 3.4.3.) Every pair makes it swing, so a point
    is the mean over the distances within a quarter of it.
    """
    import numpy as np
    length = int(max(t.number('length', 2) for t in tables))
    x = np.unique(np.round(np.geomspace(1, length, 300)).astype(int))
    low, high = np.ceil(x / 1.25).astype(int), np.floor(x * 1.25).astype(int)
    distance = np.arange(high[-1] + 1)
    lines = []
    for table in tables:
        cosines = sum(np.cos(distance * row['scaled_inv_freq']) for row in table.rows)
        score = table.number('attention_factor', 1) ** 2 / len(table.rows) * cosines
        total = np.concatenate([[0], np.cumsum(score)])
        name = method_of(table)
        lines.append((name, name, x, (total[high + 1] - total[low]) / (high + 1 - low), 0))
    headings = ('What distance leaves of the score of a matching key',
                'expected score: a² · mean over pairs of cos(distance · inv_freq), as in arXiv 2405.14591, smoothed; '
                's = %.4g' % max(t.number('scale', 1) for t in tables))
    labels = 'distance from query to key, tokens', 'score (1: not rotated, a = 1)'
    fig, ax = token_figure(tables, options, lines, headings, labels, (1, length * 1.03), markers=False)
    ax.axhline(0, color=GREY, linewidth=0.8, zorder=1)
    return fig


def draw_distances(tables, options):
    """D of the last query, against the distance that it stands for, by the definition in tests/reference.py."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.insert(0, os.path.join(root, 'tests'))
    import common
    import reference
    os.rmdir(common.WORK)  # which the tests would have used
    trained, length = int(trained_length(tables, options)), int(max(t.number('length', 2) for t in tables))
    columns, far = min(3, len(tables)), min(length, 6 * trained)
    height = 1.1 + 1.85 * -(-len(tables) // columns)
    fig, axes = new_figure(height, options.title or 'What a distance map makes of a distance',
                           'of the query at position %s, when %s are asked for; trained on %s; a gap is not seen' % (
                               format(far - 1, ','), format(length, ','), plain(trained)),
                           nrows=-(-len(tables) // columns), ncols=columns, sharex=True, sharey=True)
    fig.subplots_adjust(left=0.085, right=0.975, top=1 - 1 / height, bottom=0.62 / height, wspace=0.08, hspace=0.3)
    for ax, table in zip(axes.flat, tables):
        said = {key: float(value) if key == 'k' else int(value) for key, value in table.settings.items()
                if key in ('near', 'k', 'group', 'chunk', 'window', 'sinks')}
        m, i = reference.distance_map(table.settings['map'], trained, length, **said), far - 1
        window, sinks = (said['window'], said['sinks']) if 'window' in said else (0, 0)
        y = [reference.distance(m, i, i - d) if reference.sees(i, i - d, window, sinks) else math.nan
             for d in range(far)]
        name = method_of(table)
        ax.plot(range(far), y, color=style_of(name, [name])['color'])
        if window:
            ax.plot(far - 1, y[-1], color=style_of(name, [name])['color'], marker='.', markersize=8)
        ax.plot([0, trained * 1.15], [0, trained * 1.15], color=GREY, linewidth=0.8, linestyle=DOTS, zorder=1)
        ax.axhline(trained, color=GREY, linewidth=0.8, linestyle=DOTS, zorder=1)
        ax.set_title(name, fontsize=BASE, loc='left', color=word_colour(style_of(name, [name])['color']))
        ax.set_xticks(range(0, far + 1, 2 * trained), [format(x, ',') for x in range(0, far + 1, 2 * trained)])
        ax.set_ylim(0, trained * 1.15)
    for ax in list(axes.flat)[len(tables):]:
        ax.set_axis_off()
    fig.text(0.5, 0.09 / height, 'distance from query to key, tokens', va='bottom', ha='center')
    fig.text(0.008, 0.5, 'distance they turn by', rotation=90, va='center')
    return fig


def draw_divisors(tables, options):
    """How many times slower each pair turns, by method; the pairs right of the line make less than a turn in L."""
    trained = trained_length(tables, options)
    # A list in a file of its own was found by tools/search.py.
    labels = ['found by search.py' if '--rope-config' in t.settings.get('command', '') else method_of(t)
              for t in tables]
    lines = [(method_of(t), label, [row['pair'] for row in t.rows],
              [row['inv_freq'] / row['scaled_inv_freq'] for row in t.rows], 0) for label, t in zip(labels, tables)]
    scale = max(t.number('scale', 1) for t in tables)
    factors = ', '.join('%s %.3f' % (n, t.number('attention_factor', 1)) for n, t in zip(labels, tables))
    fig, ((ax,),) = new_figure(4.2, options.title or 'What each pair is divided by',
                               's = %.4g; attention factors: %s' % (scale, factors))
    fig.subplots_adjust(left=0.085, top=0.83, bottom=0.13)
    draw_lines(ax, lines)
    log_scale(ax.yaxis, True)
    if trained:
        slower = [row['pair'] for row in tables[0].rows if row['turns'] < 1]
        if slower:
            ax.axvline(slower[0] - 0.5, color=GREY, linewidth=1, linestyle=DOTS, zorder=1)
            ax.annotate('less than a turn in %s positions' % plain(trained), (slower[0] - 0.5, 1), (4, 4),
                        textcoords='offset points', color=GREY, fontsize=SMALL)
    ax.set_ylabel('divisor')
    ax.set_xlabel('pair')
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.grid(axis='y', color=PALE, linewidth=0.6)
    label_ends(ax, lines)
    return fig


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('tables', nargs='+', metavar='TABLE')
    parser.add_argument('-o', '--out', required=True, metavar='OUT')
    parser.add_argument('--decay', action='store_true',
                        help='of --explain tables: what a distance leaves of the attention score')
    parser.add_argument('--distances', action='store_true',
                        help='of --explain tables of distance maps: D against distance')
    parser.add_argument('--divisors', action='store_true',
                        help='of --explain tables: how many times slower each pair turns')
    parser.add_argument('--clocks', action='store_true',
                        help='of --explain tables: the angles that the trained length showed, of four pairs')
    parser.add_argument('--behind', metavar='LIST', default='',
                        help='of --ppl tables: a panel for each method, with these behind all of them')
    parser.add_argument('--methods', metavar='LIST', help='of these methods only, comma-separated')
    parser.add_argument('--train-ctx', type=float, default=0, metavar='L',
                        help='trained length to mark, where no table says it')
    parser.add_argument('--title', metavar='TEXT', help="BOOK in it is the text's name; FOUND, of --passkey "
                        'tables, what each method found')
    options = parser.parse_args()
    tables = [table for path in options.tables for table in read_tables(path)]
    kinds = sorted({table.kind for table in tables})
    if len(kinds) > 1:
        fail(tables[-1].path, 'one picture takes tables of one kind (found --%s)' % ' and --'.join(kinds))
    if (options.decay or options.divisors or options.clocks) and kinds != ['explain']:
        fail(tables[0].path, '--decay, --divisors and --clocks take tables of --explain (found --%s)' % kinds[0])
    if options.distances and (kinds != ['explain'] or not all('map' in table.settings for table in tables)):
        fail(tables[0].path, '--distances is drawn from tables of --explain with distance maps')
    if options.methods:
        wanted = options.methods.split(',')
        for table in tables:
            table.rows = [row for row in table.rows if row.get('method', method_of(table)) in wanted]
        tables = [table for table in tables if table.rows] or fail(options.tables[0],
                                                                   'none of the methods %s is in it' % options.methods)
    try:
        import matplotlib, numpy  # noqa: F401, E401
    except ImportError:
        sys.exit('plot.py: needs matplotlib: apt install python3-matplotlib (for /usr/bin/python3), '
                 'or pip install matplotlib')
    options.title = options.title and options.title.replace('BOOK', book_of(tables))
    picture = {'ppl': draw_perplexity, 'keys': draw_keys, 'passkey': draw_passkey, 'tasks': draw_passkey,
               'again': draw_again, 'stale': draw_stale,
               'attention': draw_attention, 'crowd': draw_crowd, 'encodings': draw_encodings,
               'encodings-keys': draw_encodings, 'layers': draw_layers,
               'explain': draw_distances if options.distances else draw_divisors if options.divisors else
               draw_clocks if options.clocks else draw_decay if options.decay else draw_pairs}
    try:
        fig = picture[kinds[0]](tables, options)
    except (ValueError, ArithmeticError, IndexError) as error:
        fail(tables[0].path, 'its numbers make no picture (%s)' % str(error).split('\n')[0])
    save(fig, options.out)


if __name__ == '__main__':
    main()
