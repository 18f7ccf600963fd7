"""The pictures of the tables that tools/figures/experiments.py makes, for plot.py."""
import math

from plot_parts import (BASE, DOTS, GREY, INK, PALE, SMALL, label_ends, log_scale, new_figure, plain, style_of,
                        token_figure, word_colour)
from plot_tables import book_of, trained_length


def draw_again(tables, options):
    """Perplexity of a page when it is read first (hollow) and again (full), by method."""
    table = tables[0]
    found = {}
    for method, rows in table.methods().items():
        tokens = sum(r['tokens'] for r in rows)
        found[method] = [math.exp(sum(r[key] * r['tokens'] for r in rows) / tokens) for key in ('first', 'second')]
    places, rows = len({r['place'] for r in table.rows}), table.rows
    fig, ((ax,),) = new_figure(0.95 + 0.37 * len(found), options.title or 'A page read again', '%s, %d pages of %s; '
                               'the second reading begins %s to %s tokens after the first' % (
                                   book_of(tables), places, 'some %d tokens' % round(sum(r['tokens'] for r in rows) /
                                                                                     len(rows), -1),
                                   *(format(int(f(r['distance'] for r in rows)), ',') for f in (min, max))))
    height = fig.get_figheight()
    fig.subplots_adjust(left=0.13, right=0.97, top=1 - 0.68 / height, bottom=0.52 / height)
    for y, (method, (first, second)) in enumerate(found.items()):
        colour = style_of(method, [method])['color']
        ax.plot([first, second], [y, y], color=colour, linewidth=2.2, zorder=1)
        ax.plot(first, y, marker='o', markersize=7, color='white', markeredgecolor=colour, markeredgewidth=1.6)
        ax.plot(second, y, marker='o', markersize=7, color=colour)
        ax.annotate('%.3g' % second, (second, y), (-7 if second < first else 7, 0), textcoords='offset points',
                    va='center', ha='right' if second < first else 'left', fontsize=SMALL, color=INK)
        ax.annotate('%.3g' % first, (first, y), (7 if second < first else -7, 0), textcoords='offset points',
                    va='center', ha='left' if second < first else 'right', fontsize=SMALL, color=GREY)
    ax.set_yticks(range(len(found)), list(found))
    ax.set_ylim(len(found) - 0.5, -0.5)
    every = [x for both in found.values() for x in both]
    ax.set_xlim(min(every) / 1.35, max(every) * 1.35)
    log_scale(ax.xaxis, False)
    ax.set_xlabel('perplexity of the page: hollow, read first; full, read again')
    ax.grid(axis='x', color=PALE, linewidth=0.6)
    ax.tick_params(axis='y', length=0)
    return fig


def draw_stale(tables, options):
    """How much reading step by step changes -ln p, against one pass, by length: stale keys full, fresh ones dotted."""
    table = tables[0]
    fig, ((ax,),) = new_figure(4.0, options.title or 'One text, read two ways',
                               'model.bin, %s, %d texts; token by token against one pass, the last 64 tokens of each '
                               'length' % (book_of(tables), table.rows[0]['texts']))
    fig.subplots_adjust(left=0.095, top=0.82, bottom=0.14)
    lines = []
    for method, rows in table.methods().items():
        for keys in ('stale', 'fresh'):
            points = sorted((r['length'], r['change']) for r in rows if r['keys'] == keys)
            lines.append((method, '%s, %s' % (method, 'stale keys' if keys == 'stale' else 'turned anew'),
                          *zip(*points), 0 if keys == 'stale' else 0.4))
    for name, _, x, y, pale in lines:
        style = dict(style_of(name, [name], pale), dashes=(None, None) if not pale else (1, 1.5))
        ax.plot(x, y, **style)
    ax.set_xlim(min(lines[0][2]) * 0.97, max(lines[0][2]) * 1.03)
    ax.set_ylim(0)
    log_scale(ax.xaxis, True)
    ax.set_xlabel('length read, tokens')
    ax.set_ylabel('mean change of -ln p')
    ax.grid(axis='y', color=PALE, linewidth=0.6)
    label_ends(ax, lines)
    return fig


def draw_attention(tables, options):
    """Scores of one head by distance: the range and the mean of each bin, a panel for each method."""
    table, trained = tables[0], tables[0].number('trained', 512)
    fig, axes = new_figure(3.7, options.title or 'Scores by distance',
                           'layer 3, head 3 of model.bin (from 0), one query %s tokens into %s; band: smallest to '
                           'largest' % (format(int(max(r['distance'] for r in table.rows)), ','),
                                                   book_of(tables)),
                           ncols=len(table.methods()), sharey=True)
    fig.subplots_adjust(left=0.085, right=0.975, top=0.74, bottom=0.16, wspace=0.06)
    for ax, (method, rows) in zip(axes.flat, table.methods().items()):
        rows = sorted(rows, key=lambda r: r['distance'])
        x, colour = [r['distance'] for r in rows], style_of(method, [method])['color']
        ax.fill_between(x, [r['low'] for r in rows], [r['high'] for r in rows], color=colour, alpha=0.3, linewidth=0)
        ax.plot(x, [r['mean'] for r in rows], color=colour, linewidth=1.3)
        near = max(r['high'] for r in rows if r['distance'] < trained)
        far = sum(r['weight'] for r in rows if r['distance'] >= trained)
        ax.axhline(near, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
        ax.axvline(trained, color=GREY, linewidth=1, linestyle=DOTS, zorder=1)
        ax.set_title('%s: %s of the weight past %s' % (method, '%.0f %%' % (100 * far), plain(trained)), fontsize=BASE,
                     loc='left', color=colour)
        ax.set_xlim(0, x[-1])
        ax.set_xticks(range(0, int(x[-1]) + 1, 512), [format(t, ',') for t in range(0, int(x[-1]) + 1, 512)])
        ax.grid(axis='y', color=PALE, linewidth=0.6)
        ax.set_xlabel('distance from query to key, tokens')
    axes[0][0].set_ylabel('score')
    axes[0][-1].annotate('largest near score', (1, near), (-2, -10), xycoords=('axes fraction', 'data'), ha='right',
                         textcoords='offset points', fontsize=SMALL, color=GREY)
    return fig


def draw_encodings(tables, options):
    """Perplexity, or keys found, by the length of a window, a line for each way of knowing positions."""
    table, keys = tables[0], tables[0].kind == 'encodings-keys'
    lines = []
    for name, rows in table.methods().items():
        rows = sorted(rows, key=lambda r: r['length'])
        y = [100 * r['share'] if keys else math.exp(r['nll']) for r in rows]
        lines.append((name, 'none at all' if name == 'none' else name, [r['length'] for r in rows], y, 0))
    asked = max(r['trials'] for r in table.rows) if keys else 0
    subtitle = 'models of 1.5 million parameters, trained alike on windows of 256; ' + (
        '%d keys in filler at each length' % asked if keys else 'windows of each length side by side')
    longest, least = max(lines[0][2]), min(min(line[3]) for line in lines)
    whole = [line for line in lines if line[2][-1] == longest and (keys or line[3][-1] < 4 * least)]
    limits = (-4, 112) if keys else (0.93 * least, 2.2 * least)
    fig, ax = token_figure(tables, options, whole, ('Perplexity of ' + book_of(tables), subtitle),
                           ('length of the window, tokens', 'keys found, %' if keys else 'perplexity'),
                           (min(lines[0][2]) * 0.95, longest * 1.05, *limits), not keys)
    for name, _, x, y, _ in (line for line in lines if line not in whole):  # one that ends, one that leaves the picture
        style = style_of(name, [name])
        ax.plot(x, y, **style)
        ends = x[-1] < longest
        said = 'learned ends' if ends else '%s: %s at %s, %s at %s' % (
            name, *(say for i in (x.index(512), -1) for say in (format(round(y[i]), ','), plain(x[i]))))
        if ends:
            ax.plot(x[-1], y[-1], marker='|', markersize=16, markeredgewidth=2.5, color=style['color'])
        ax.annotate(said, (x[-1], y[-1]) if ends else (x[x.index(256)], 2.1 * least), (8, -2) if ends else (30, -4),
                    textcoords='offset points', fontsize=SMALL, va='top' if keys or not ends else 'bottom',
                    color=word_colour(style['color']))
    return fig


LAYERS = {('rope', 'untouched'): 'all full', ('rope', 'yarn in full layers'): 'all full, yarn',
          ('sliding', 'untouched'): 'one of five full', ('theta', 'untouched'): 'theta 1,000,000',
          ('nope', 'untouched'): 'no RoPE in full ones', ('temperature', 'untouched'): 'growing queries',
          ('state', 'untouched'): 'states in four of five'}


def draw_layers(tables, options):
    """Perplexity by position, untouched, a line for each pattern of layers; where all are full, with YaRN as well."""
    table, lines = tables[0], []
    for (name, reading), label in LAYERS.items():
        rows = [r for r in table.rows if r['method'] == name and r['reading'] == reading][:-1]  # the last is of all
        if rows:
            x = [math.sqrt(max(r['from'], r['to'] / 2) * r['to']) for r in rows]
            style = 'yarn' if reading != 'untouched' else 'none' if name == 'rope' else name
            lines.append((style, label, x, [math.exp(r['nll']) for r in rows], 0))
    longest = max(r['to'] for r in table.rows)
    subtitle = 'models of 1.5 million parameters, trained alike on windows of 256, untouched but for one'
    return token_figure(tables, options, lines, ('Perplexity of ' + book_of(tables), subtitle),
                        ('position, tokens', 'perplexity (log scale)'), (40, longest * 1.03))[0]


def draw_clocks(tables, options):
    """Four pairs as clocks: the angles that positions up to L showed are shaded, a later position's hand is drawn."""
    import numpy as np
    table, trained = tables[0], int(trained_length(tables, options))
    slow = [row['pair'] for row in table.rows if row['turns'] < 1]  # those that never came round
    wanted = [0, slow[0] - 1, slow[len(slow) // 4], slow[-1]]
    rows, later = [row for row in table.rows if row['pair'] in wanted], 3 * trained
    fig, axes = new_figure(3.5, options.title or 'Four pairs as clocks',
                           'theta %s, head size %s; shaded: angles of positions 0 to %s; the hand: position %s' % (
                               table.settings.get('theta', '?'), table.settings.get('head_dim', '?'), plain(trained),
                               format(later, ',')), ncols=len(rows), subplot_kw={'aspect': 'equal'})
    fig.subplots_adjust(left=0.02, right=0.98, top=0.68, bottom=0.12, wspace=0.1)
    for ax, row in zip(axes.flat, rows):
        seen = min(2 * math.pi, trained * row['inv_freq'])
        ring = np.linspace(0, 2 * math.pi, 200)
        arc = np.linspace(0, seen, 200)
        ax.fill(np.append(np.sin(arc), 0), np.append(np.cos(arc), 0), color=style_of('yarn', ['yarn'])['color'],
                alpha=0.28, linewidth=0)
        ax.plot(np.sin(ring), np.cos(ring), color=GREY, linewidth=1)
        angle = later * row['inv_freq']
        known = row['turns'] >= 1 or angle % (2 * math.pi) <= seen
        colour = INK if known else style_of('llama3', ['llama3'])['color']
        ax.annotate('', (0.92 * math.sin(angle), 0.92 * math.cos(angle)), (0, 0),
                    arrowprops={'arrowstyle': '-|>', 'color': colour, 'linewidth': 2, 'shrinkA': 0, 'shrinkB': 0})
        turn = format(round(row['wavelength'], 1 if row['wavelength'] < 10 else None), ',')
        ax.set_title('pair %d\na turn in %s positions' % (row['pair'], turn), fontsize=SMALL)
        ax.set_xlabel('seen in training' if known else 'never seen', fontsize=SMALL,
                      color=INK if known else word_colour(colour))
        ax.set_xticks([])
        ax.set_yticks([])
        ax.spines[:].set_visible(False)
    return fig


ALL = ('none', 'ntk', 'yarn', 'rerope', 'dca')
READINGS = (('jumps', ALL[:4], 'Only the angles', '%s tokens\nspread over %s positions'),
            ('whole', ALL[3:], 'Only the crowd', '%s tokens at distances\nthat a map keeps below %s'),
            ('whole', ALL[:3], 'Both', '%s tokens\nat their true distances'))


def draw_crowd(tables, options):
    """How much worse the same tokens are read in three ways: full, each method; hollow, with logn."""
    table = tables[0]
    nll = {(r['method'], r['reading'], int(r['length'])): r['nll'] for r in table.rows}
    near, far = (f(key[2] for key in nll) for f in (min, max))
    times = {key: math.exp(value - nll['window', 'whole', near]) for key, value in nll.items()}
    fig, axes = new_figure(4.2, options.title or 'Angles, crowd, and both',
                           'model.bin, %s, the same %s tokens in all panels; full: the method, hollow: with --logn' % (
                               book_of(tables), format(int(table.rows[0]['tokens']), ',')), ncols=3, sharex=True,
                           sharey=True)
    fig.subplots_adjust(left=0.085, right=0.985, top=0.66, bottom=0.135, wspace=0.08)
    said = (plain(near), plain(far)), (plain(far), plain(trained_length(tables, options))), (plain(far),)
    for ax, (reading, methods, title, below), numbers in zip(axes.flat, READINGS, said):
        for name in methods:
            found = [times.get((method, reading, far)) for method in (name, name + ':logn=1')]
            if None in found:  # a quick table has two methods only
                continue
            colour, y = style_of(name, [name])['color'], ALL.index(name)
            ax.plot(found, [y, y], color=colour, linewidth=2.2, zorder=1)
            for x, other, fill in (found[0], found[1], colour), (found[1], found[0], 'white'):
                ax.plot(x, y, marker='o', markersize=8, color=fill, markeredgecolor=colour, markeredgewidth=1.8)
                right = x > other or x == other and fill == colour
                ax.annotate('%.2f' % x, (x, y), (8 if right else -8, 0), textcoords='offset points', va='center',
                            ha='left' if right else 'right', fontsize=SMALL, color=INK if fill == colour else GREY)
        ax.axvline(1, color=GREY, linewidth=1, linestyle=DOTS, zorder=0)
        ax.set_title(title, fontsize=BASE, loc='left', fontweight='bold', pad=36)
        ax.annotate(below % numbers, (0, 1), (0, 4), xycoords='axes fraction', textcoords='offset points', va='bottom',
                    fontsize=SMALL)
        ax.set_yticks(range(len(ALL)), ALL)
        ax.set_ylim(len(ALL) - 0.5, -0.5)
        ax.set_xlim(0.58, 1.7 * max(times.values()))
        log_scale(ax.xaxis, True)
        ax.tick_params(axis='y', length=0)
        ax.grid(axis='x', color=PALE, linewidth=0.6)
    axes[0][1].set_xlabel('perplexity, times that of a window of %s' % plain(trained_length(tables, options)))
    return fig
