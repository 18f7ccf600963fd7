"""The elements of the pictures of plot.py and plot_lesson.py: colours, axes, labels, files."""
import io
import math

from plot_tables import fail, trained_length

# One colour and marker per method in every picture. The colours are Okabe and Ito's, which colour-blind people can tell
# apart, darker where they are too pale on white. A dynamic method looks like its static one, dashed.
STYLES = {'none': ('#222222', 'x'), 'linear': ('#e08e00', '^'), 'ntk': ('#3aa3dc', 's'),
          'ntk-by-parts': ('#009e73', 'D'), 'yarn': ('#0060a8', 'o'), 'window': ('#b8558f', 'v'),
          'llama3': ('#d55e00', 'P'), 'longrope': ('#8a6d3b', '*'), 'rerope': ('#8c2d04', '<'),
          'leaky-rerope': ('#e6550d', '>'), 'self-extend': ('#54278f', 'p'), 'dca': ('#00796b', 'd'),
          'streaming': ('#827717', 'h'), 'lm-infinite': ('#c2a300', '8'), 'cope': ('#c0396b', 'X'),
          'string': ('#3d5afe', 'H'), 'rope': ('#0060a8', 'o'),
          'learned': ('#b8558f', 'v'), 'sinusoidal': ('#3aa3dc', 's'), 'alibi': ('#009e73', 'D'),
          'shaw': ('#e08e00', '^'), 'transformer-xl': ('#54278f', 'p'), 'disentangled': ('#d55e00', 'P'),
          'sliding': ('#009e73', 'D'), 'theta': ('#e08e00', '^'), 'nope': ('#b8558f', 'v'),
          'temperature': ('#3aa3dc', 's')}
SPARE = ['#6a3d9a', '#5f6b1f', '#a6194b', '#117777']  # for a method of your own
INK, GREY, PALE = '#222222', '#4d4d4d', '#dddddd'  # grey words have a contrast of 8.4 to 1 with white
WORDS = 5  # the least contrast of coloured words
BASE, SMALL, TITLE = 10.5, 10, 13.5  # points; a picture is shown half as large as it is
DOTS = (0, (1, 2))
WIDTH, DPI = 8.3, 200  # 1660 pixels, twice what GitHub shows


# ---- drawing ----

def plain(x):
    """A number as people say it: 0.01, 512, 1k, 8k, 300, 100k; powers of ten below 0.001 as such."""
    if 1e-10 < x < 5e-4:
        return '10⁻' + ''.join('⁰¹²³⁴⁵⁶⁷⁸⁹'[int(digit)] for digit in str(-round(math.log10(x))))
    for thousand in (1024, 1000):
        if x >= 1000 and x % thousand == 0:
            return '%dk' % (x // thousand)
    return ('%.6f' % x).rstrip('0').rstrip('.')


def counted(n, what):
    return '%d %s%s' % (n, what, '' if n == 1 else 's')


def style_of(name, names, pale=0):
    """Colour, marker and dashes. Of several settings of one method (yarn:factor=2, ...) each is a
    shade, the last the darkest."""
    from matplotlib.colors import to_rgb
    base = lambda name: name.split(':')[0]
    static = lambda name: 'ntk' if base(name) == 'dynamic' else base(name).replace('dynamic-', '')
    unknown = [other for other in dict.fromkeys(map(static, names)) if other not in STYLES]
    colour, marker = STYLES.get(static(name)) or (SPARE[unknown.index(static(name)) % len(SPARE)], 'h')
    family = [other for other in names if base(other) == base(name)]
    shade = 0.62 * (1 - family.index(name) / (len(family) - 1)) if len(family) > 1 else pale
    return {'color': tuple(c + (0.95 - c) * shade for c in to_rgb(colour)), 'marker': marker,
            'dashes': (4, 1.6) if base(name) != static(name) else (None, None)}


def contrast(colour):
    """With white, as in WCAG 2: from 1 for white to 21 for black."""
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 1.05 / (0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)


def word_colour(colour):
    """A method's colour for words, as dark as words have to be."""
    while contrast(colour) < WORDS:
        colour = tuple(0.95 * c for c in colour)
    return colour


def new_figure(height, title, subtitle, **subplots):
    """A white card, which reads on a dark page as on a light one."""
    import matplotlib
    matplotlib.use('Agg')
    matplotlib.rcParams.update({
        'font.size': BASE, 'text.color': INK, 'axes.labelcolor': INK, 'axes.edgecolor': GREY, 'axes.linewidth': 0.8,
        'xtick.color': GREY, 'ytick.color': GREY, 'xtick.labelcolor': INK, 'ytick.labelcolor': INK,
        'axes.spines.top': False, 'axes.spines.right': False, 'lines.linewidth': 2, 'lines.markersize': 5,
        'svg.fonttype': 'none', 'svg.hashsalt': 'rope.c'})
    import matplotlib.pyplot as plt
    fig, axes = plt.subplots(figsize=(WIDTH, height), squeeze=False, **subplots)
    title = fig.text(0.012, 1 - 0.11 / height, title, fontsize=TITLE, fontweight='bold', va='top')
    words = fig.text(0.012, 1 - 0.42 / height, subtitle, fontsize=SMALL, color=GREY, va='top')
    for text in title, words:  # no wider than the card
        wide = text.get_window_extent(fig.canvas.get_renderer()).width / fig.bbox.width
        text.set_fontsize(text.get_fontsize() * min(1, 0.978 / wide))
    return fig, axes


def log_scale(axis, octaves):
    """A logarithmic axis with plain numbers: powers of two, or round ones, as many as suit the range."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
    getattr(axis.axes, 'set_%sscale' % axis.axis_name)('log')
    low, high = axis.get_view_interval()
    steps = [1] if high / low > 1000 else [1, 2, 5] if high / low > 12 else [1, 1.5, 2, 3, 4, 5, 7]
    ticks = [2.0 ** k for k in range(31)] if octaves else [m * 10.0 ** e for e in range(-12, 13) for m in steps]
    axis.set_major_locator(FixedLocator([t for t in ticks if low <= t <= high]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda x, _: plain(x)))


def draw_lines(ax, lines, markers=True):
    """Draws (name, label, x, y, paleness) and, it may be, the bars (low, high) of each point: a line that lies on an
    earlier one is dashed, so that both are seen."""
    names, drawn = list(dict.fromkeys(line[0] for line in lines)), []
    for name, _, x, y, pale, *bars in lines:
        style = style_of(name, names, pale)
        if any(len(y) == len(other) and all(abs(p - q) <= 0.01 * abs(p) for p, q in zip(y, other)) for other in drawn):
            style.update(marker='', dashes=(4, 4))
        ax.plot(x, y, **(style if markers else dict(style, marker='')))
        for low, high in bars:
            ax.vlines(x, low, high, color=style['color'], linewidth=1)
        drawn.append(y)


def label_ends(ax, lines):
    """Each line's label beside the axes at the height of its last point, pushed apart where they would touch."""
    fig, names, ends = ax.figure, list(dict.fromkeys(line[0] for line in lines)), []
    fig.subplots_adjust(right=0.945 - 0.0102 * max(len(line[1]) for line in lines))
    for i, (name, label, x, y, pale, *_) in enumerate(lines):
        for point in [p for p in zip(x, y) if math.isfinite(p[1])][-1:]:  # none when perplexity overflowed everywhere
            height = ax.transAxes.inverted().transform(ax.transData.transform(point))[1]
            ends.append((round(height, 2), -i, label, style_of(name, names, pale)['color'], point))
    gap = 13 / 72 / (ax.get_position().height * fig.get_figheight())  # a line of text, as a share of the axes' height
    blocks = []  # [middle, ends]: neighbours that touch share a block around their mean
    for end in sorted(ends):
        blocks.append([end[0], [end]])
        while len(blocks) > 1 and blocks[-1][0] - blocks[-2][0] < gap * (len(blocks[-1][1]) + len(blocks[-2][1])) / 2:
            _, upper = blocks.pop()
            both = blocks.pop()[1] + upper
            half = gap * (len(both) - 1) / 2  # and stay beside the axes
            blocks.append([min(max(sum(e[0] for e in both) / len(both), half), max(1 - half, half)), both])
    for middle, members in blocks:
        for i, (_, _, label, colour, point) in enumerate(members):
            ax.annotate(label, point, (1.04, middle + gap * (i - (len(members) - 1) / 2)),
                        textcoords='axes fraction', va='center', color=word_colour(colour),
                        arrowprops={'arrowstyle': '-', 'color': colour, 'linewidth': 0.6, 'shrinkA': 1, 'shrinkB': 3,
                                    'relpos': (0, 0.5)})


def token_figure(tables, options, lines, headings, labels, limits, markers=True):
    """Lines over a number of tokens, on a logarithmic axis. Returns the figure and its axes.
    headings: title and subtitle; labels: of the x axis and the y axis; limits: of x and, it may be, of y."""
    fig, ((ax,),) = new_figure(4.6, options.title or headings[0], headings[1])
    fig.subplots_adjust(left=0.085, top=0.82, bottom=0.125)
    if markers:
        ax.set_yscale('log')  # before the lines: their margin is then one of the logarithm
    draw_lines(ax, lines, markers)
    ax.set_xlim(*limits[:2])
    log_scale(ax.xaxis, True)
    ax.set_ylim(limits[2:] or None)
    if markers:
        log_scale(ax.yaxis, False)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    ax.grid(axis='y', color=PALE, linewidth=0.6)
    trained = trained_length(tables, options)
    if limits[0] < trained < limits[1]:
        ax.axvline(trained, color=GREY, linewidth=1, linestyle=DOTS, zorder=1)
        ax.annotate('trained length %s' % plain(trained), (trained, 1), (0, 3), xycoords=('data', 'axes fraction'),
                    textcoords='offset points', ha='center', color=GREY, fontsize=SMALL)  # above all curves
    label_ends(ax, lines)
    return fig, ax


def save(fig, path):
    """A PNG gets a palette: flat colours lose nothing by it and the file is a third of the size."""
    from PIL import Image
    try:
        if not path.lower().endswith('.png'):
            return fig.savefig(path, metadata={'Date': None} if path.lower().endswith('.svg') else None)
        picture = io.BytesIO()
        fig.savefig(picture, dpi=DPI)
        Image.open(picture).convert('RGB').quantize(255, dither=Image.Dither.NONE).save(path, optimize=True)
    except (OSError, ValueError) as error:
        fail(path, getattr(error, 'strerror', None) or str(error).split('\n')[0])
