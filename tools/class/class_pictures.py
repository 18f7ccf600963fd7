"""The pictures of the class: one SVG for each of the nine questions, which shows the question first. The answer is of
the class `later`, and slides show it after the guess. Every number comes from docs/class.md or docs/figures, which
the program printed."""
import html
import math
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLES = os.path.join(ROOT, 'docs', 'figures')
WIDTH, HEIGHT = 800, 450
INK, SOFT, LINE = '#1d1d1f', '#62625f', '#dcd9d2'
COLOURS = {'none': INK, 'linear': '#b57700', 'yarn': '#0072b2', 'window': '#a8437c'}
SEEN, NEVER = '#0072b2', '#b5102f'
LEFT, RIGHT, TOP, BOTTOM = 62, 640, 18, 394  # of a chart's drawing area
LOWEST, HIGHEST = 20, 180  # perplexity, on a scale of logarithms
TRAINED = 512


def svg(parts, name, more='', height=HEIGHT):
    return '<svg viewBox="0 0 %d %d" role="img" aria-label="%s"%s>%s</svg>' % (
        WIDTH, height, html.escape(name), more, ''.join(parts))


def words(x, y, text, size=17, colour=INK, anchor='start', more=''):
    return '<text x="%.1f" y="%.1f" font-size="%d" fill="%s" text-anchor="%s"%s>%s</text>' % (
        x, y, size, colour, anchor, more, html.escape(text, quote=False))


def line(x1, y1, x2, y2, colour=LINE, width=1.0, more=''):
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"%s/>' % (
        x1, y1, x2, y2, colour, width, more)


def later(parts):
    return '<g class="later">%s</g>' % ''.join(parts)


# ---- the measurements ----

def rows_of(text):
    """[(name, [perplexity below 64, 128, ...])] of the tables of --ppl in a section's console blocks."""
    found = []
    for row in re.findall(r'^(\S+) +((?:\d+\.\d+!? *){5,})$', text, re.M):
        found.append((row[0], [float(word.rstrip('!')) for word in row[1].split()][:-1]))
    return found


def explained(method):
    """The rows of --explain at 16 times the length: a dictionary for each pair."""
    with open(os.path.join(TABLES, 'explain-16x.tsv'), encoding='utf-8') as file:
        part = re.search(r'^# command\t[^\n]* --rope %s\n(.*?)(?=^# command|\Z)' % method, file.read(), re.M | re.S)[1]
    lines = [row.split('\t') for row in part.splitlines() if row and not row.startswith('#')]
    head = next(row for row in lines if row[0] == 'pair')
    rows = [row for row in lines if row[0].isdigit()]
    return [{name: float(cell) for name, cell in zip(head, row)} for row in rows[:32]]


def found_keys(length):
    """{method: [share of keys found, by depth]} at a length."""
    found = {}
    with open(os.path.join(TABLES, 'passkey.tsv'), encoding='utf-8') as file:
        for row in (line.split('\t') for line in file.read().splitlines()):
            if len(row) >= 6 and row[1] == str(length):
                found.setdefault(row[0], []).append(float(row[5]))
    return found


# ---- pictures ----

def height_of(perplexity):
    share = math.log(perplexity / LOWEST) / math.log(HIGHEST / LOWEST)
    return BOTTOM - share * (BOTTOM - TOP)


def place_of(position, last, right=RIGHT):
    return LEFT + math.log(position / 32) / math.log(last / 32) * (right - LEFT)


def axes(last, trained, right=RIGHT, size=17):
    """The frame of a chart of perplexity by position, up to a position."""
    for perplexity in (20, 30, 50, 100, 180):
        y = height_of(perplexity)
        yield line(LEFT, y, right, y)
        yield words(LEFT - 10, y + 6, str(perplexity), size, SOFT, 'end')
    position = 64
    while position <= last:
        x = place_of(position, last, right)
        yield line(x, BOTTOM, x, BOTTOM + 6, SOFT)
        yield words(x, BOTTOM + 24, '{:,}'.format(position), size, SOFT, 'middle')
        position *= 2
    yield line(LEFT, BOTTOM, right, BOTTOM, SOFT, 1.4)
    yield words((LEFT + right) / 2, HEIGHT - 4, 'position in the text', size, SOFT, 'middle')
    yield words(LEFT + 8, TOP + size, 'perplexity', size, SOFT)
    x = place_of(trained, last, right)
    yield '<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#d55e00" opacity="0.06"/>' % (
        x, TOP, right - x, BOTTOM - TOP)
    yield line(x, TOP, x, BOTTOM, SOFT, 1.6, ' stroke-dasharray="3 5"')
    yield words(x + 8, TOP + size, 'trained to %d' % trained, size, SOFT)


def apart(ends):
    """Heights of labels that do not lie on each other: {name: y}."""
    found, above = {}, -99.0
    for y, name in sorted((y, name) for name, y in ends.items()):
        above = found[name] = max(y, above + 22)
    return found


def curves(series, shown, trained=TRAINED):
    """Perplexity by position. `series`: (label, colour, perplexities); those whose label is in `shown` are there from
    the beginning, and the others come with the answer."""
    count = max(len(values) for _, _, values in series)
    last = 32 * 2 ** count
    parts = list(axes(last, trained))
    labels = apart({label: height_of(values[-1]) for label, _, values in series})
    for label, colour, values in series:
        middles = [place_of(32 * 2 ** (k + 0.5), last) for k in range(len(values))]
        points = [(x, height_of(value)) for x, value in zip(middles, values)]
        drawn = ['<polyline points="%s" fill="none" stroke="%s" stroke-width="4" stroke-linejoin="round"/>' % (
            ' '.join('%.1f,%.1f' % point for point in points), colour)]
        drawn += ['<circle cx="%.1f" cy="%.1f" r="5.5" fill="%s"/>' % (*point, colour) for point in points]
        drawn += [line(points[-1][0] + 8, points[-1][1], RIGHT + 6, labels[label], colour, 1),
                  words(RIGHT + 12, labels[label] + 6, label, 19, colour, more=' font-weight="600"')]
        parts += drawn if label in shown else [later(drawn)]
    return svg(parts, 'perplexity by position', ' class="draw"')


def arc(x, y, radius, turn, colour, opacity):
    """A sector from the top, clockwise; a whole circle from one turn on."""
    if turn >= 1:
        return '<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s" opacity="%g"/>' % (x, y, radius, colour, opacity)
    end = 2 * math.pi * turn
    return '<path d="M%.1f %.1fV%.1fA%.1f %.1f 0 %d 1 %.2f %.2fZ" fill="%s" opacity="%g"/>' % (
        x, y, y - radius, radius, radius, turn > 0.5, x + radius * math.sin(end), y - radius * math.cos(end),
        colour, opacity)


def clocks(position=600):
    """All 32 hands at a position past the trained length, and then which angles training showed."""
    parts, radius = [words(8, 24, 'all 32 hands at position %d' % position, 18, SOFT)], 36
    for pair, row in enumerate(explained('none')):
        x, y = 50 + pair % 8 * 100, 78 + pair // 8 * 100
        angle, new = row['inv_freq'] * position, row['turns'] < 1
        parts.append('<circle cx="%d" cy="%d" r="%d" fill="#fff" stroke="%s" stroke-width="1.6"/>' % (
            x, y, radius, LINE))
        parts.append(later([arc(x, y, radius, row['turns'], SEEN, 0.2)]))
        end = x + radius * math.sin(angle), y - radius * math.cos(angle)
        parts.append(line(x, y, *end, INK, 2.6, ' stroke-linecap="round"'))
        if new:
            parts.append(later([line(x, y, *end, NEVER, 3.4, ' stroke-linecap="round"')]))
        parts.append(words(x - 44, y - 26, str(pair), 14, SOFT))
    parts.append(later([words(792, 24, 'blue: seen in training · red hand: a new angle', 18, NEVER, 'end')]))
    return svg(parts, '32 clocks')


def shares(values):
    """Two bars: how much of a head's attention goes past the trained length."""
    parts = []
    for k, ((name, colour), far) in enumerate(zip((('plain RoPE', INK), ('slow hands held back', SEEN)), values)):
        y = 70 + 180 * k
        parts += [words(20, y, name, 24, colour, more=' font-weight="600"'),
                  '<rect x="20" y="%d" width="760" height="86" rx="10" fill="#f1eee6"/>' % (y + 18)]
        width = 760 * far
        bar = ['<rect x="20" y="%d" width="760" height="86" rx="10" fill="%s" opacity="0.25"/>' % (y + 18, SEEN)]
        if width > 1:
            bar.append('<rect x="20" y="%d" width="%.0f" height="86" rx="10" fill="#d55e00"/>' % (y + 18, width))
        bar.append(words(44, y + 74, '%.0f %% past 512 tokens' % (100 * far), 34, '#fff' if far > 0.5 else INK,
                         more=' font-weight="700"'))
        parts += [words(400, y + 76, '?', 44, SOFT, 'middle', ' class="asked"'), later(bar)]
    return svg(parts, 'shares of attention')


def ramp():
    """For each hand the share of its speed's rule that YaRN keeps."""
    parts, floor = [words(8, 24, 'each hand, from fast to slow: its turns in 512 positions', 18, SOFT)], 372
    for pair, row in enumerate(explained('yarn')):
        x = 14 + 24.3 * pair
        parts.append('<rect x="%.1f" y="52" width="19" height="320" rx="3" fill="#f1eee6"/>' % x)
        high = 320 * row['ramp']
        parts.append(later(['<rect x="%.1f" y="%.1f" width="19" height="%.1f" rx="3" fill="%s"/>' % (
            x, floor - high, high, SEEN)]))
        if pair % 4 == 0 or pair == 31:
            turns = row['turns']
            parts.append(words(x + 10, floor + 24, '%.2g' % turns if turns < 10 else '%.0f' % turns, 17, INK, 'middle'))
    one = 14 + 24.3 * 16 - 2.6
    parts += [line(one, 40, one, floor, SOFT, 1.6, ' stroke-dasharray="3 5"'),
              words(one + 8, 72, 'less than one turn', 17, SOFT),
              words(8, HEIGHT - 16, 'fast', 18, SOFT), words(792, HEIGHT - 16, 'slow', 18, SOFT, 'end'),
              later([words(400, HEIGHT - 16, 'blue: how much of its speed YaRN lets a hand keep', 18, SEEN, 'middle')])]
    return svg(parts, 'what YaRN keeps')


def keys(length=1024):
    """Which keys are found, by method and depth."""
    names, found = ('none', 'window', 'yarn'), found_keys(length)
    parts = [words(200, 34, 'the key stands at the beginning', 18, SOFT), words(780, 34, 'at the end', 18, SOFT, 'end')]
    for k, name in enumerate(names):
        y = 60 + 130 * k
        parts.append(words(170, y + 62, {'none': 'plain'}.get(name, name), 26, COLOURS[name], 'end',
                           ' font-weight="600"'))
        for depth, share in enumerate(found[name]):
            x = 200 + 118 * depth
            parts.append('<rect x="%d" y="%d" width="106" height="106" rx="12" fill="#f1eee6"/>' % (x, y))
            parts.append(words(x + 53, y + 66, '?', 34, SOFT, 'middle', ' class="asked"'))
            cell = ['<rect x="%d" y="%d" width="106" height="106" rx="12" fill="%s" opacity="%.2f"/>' % (
                x, y, COLOURS[name], share)] if share else []
            colour = '#fff' if share > 0.5 else NEVER
            cell.append(words(x + 53, y + 64, '%.0f %%' % (100 * share), 26, colour, 'middle', ' font-weight="700"'))
            parts.append(later(cell))
    return svg(parts, 'keys found')


def engines(text):
    """A card for each program, and how it reads the block."""
    rows = re.findall(r'^([\w.-]+)\t(same|differs|ignored|refused)\t(\S+)$', text, re.M)
    said = {'same': ('as Hugging Face', '#00795a'), 'differs': ('another scale', '#b34f00'),
            'ignored': ('plain RoPE', NEVER), 'refused': ('refuses', SOFT)}
    parts = []
    for k, (name, verdict, scale) in enumerate(rows):
        x, y = 10 + k % 3 * 264, 14 + k // 3 * 146
        what, colour = said[verdict]
        parts += ['<rect x="%d" y="%d" width="250" height="130" rx="12" fill="#f1eee6"/>' % (x, y),
                  later(['<rect x="%d" y="%d" width="250" height="130" rx="12" fill="%s"/>' % (x, y, colour)]),
                  words(x + 18, y + 42, name, 24, INK, more=' font-weight="600" class="asked"'),
                  words(x + 125, y + 100, '?', 36, SOFT, 'middle', ' class="asked"'),
                  later([words(x + 18, y + 42, name, 24, '#fff', more=' font-weight="600"'),
                         words(x + 18, y + 80, what, 22, '#fff'),
                         words(x + 18, y + 110, '' if scale == '-' else 'factor ' + scale, 18, '#fff')])]
    return svg(parts, 'nine programs')


def of_methods(text, shown, also=''):
    """The curves of a section's table; those of `also`, a section before, are known by now."""
    rows = dict(rows_of(also) + rows_of(text))
    return curves([('plain' if name == 'none' else name, COLOURS[name], rows[name]) for name in rows],
                  ['plain' if name == 'none' else name for name in shown])


def pictures(sections):
    """{number of a question: its picture}, by the sections of the nine commands."""
    attention = [float(value) for value in re.findall(r'^(\d\.\d\d)$', sections[3], re.M)]
    (_, every), (_, one) = rows_of(sections[9])
    layers = [('all see far', INK, every), ('one of five', SEEN, one)]
    return {1: clocks(), 2: of_methods(sections[2], ['window']), 3: shares(attention),
            4: of_methods(sections[4], ['window']), 5: ramp(),
            6: of_methods(sections[6], ['window', 'linear'], sections[4]), 7: keys(), 8: engines(sections[8]),
            9: curves(layers, [], 256)}


def blank():
    """A chart to draw in by hand, on paper."""
    return svg(axes(4096, TRAINED, 762, 22), 'a chart to draw in')


def strip():
    """Eight hands in a row, each slower than the one before, for the first slide."""
    parts = []
    for k, row in enumerate(explained('none')[::4]):
        x, y, radius = 50 + 100 * k, 60, 40
        angle = row['inv_freq'] * 600
        parts += ['<circle cx="%d" cy="%d" r="%d" fill="#fff" stroke="%s" stroke-width="2"/>' % (x, y, radius, LINE),
                  arc(x, y, radius, row['turns'], SEEN, 0.16),
                  line(x, y, x + radius * math.sin(angle), y - radius * math.cos(angle),
                       NEVER if row['turns'] < 1 else INK, 3, ' stroke-linecap="round"')]
    return svg(parts, 'eight clocks', height=120)
