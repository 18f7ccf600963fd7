#!/usr/bin/env python3
"""Draws four figures as SVG from data in the repository, by Python's standard library alone:

    python3 tools/figures/svg.py [NAME ...]      writes docs/figures/NAME.svg (all of them unless named)
    python3 tools/figures/svg.py --engines       asks ./run for the data of the figure of engines first

arrows      a pair of a query and one of a key, rotated by their positions, at two places of the same distance
released    perplexity by position of SmolLM2 under five methods (released-smollm2.tsv)
keys        keys found by length and depth under four methods, as a heat map (passkey.tsv)
engines     what nine engines read from the YaRN block of Qwen 3's card (engines-qwen3.json, of ./run --engines --json)

tests/test_figures.py compares the files with what this draws.
"""
import json
import math
import os
import subprocess
import sys
import tempfile
from html import escape

from plot_tables import read_tables

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIGURES = os.path.join(ROOT, 'docs', 'figures')
INK, GREY, PALE, PAPER = '#1a1a1a', '#6b6b6b', '#e3e3e3', '#ffffff'
RED, BLUE, GREEN, ORANGE, VIOLET = '#c0392b', '#1f5fa8', '#2e7d4f', '#c77700', '#7b4ea3'  # told apart in gray, too
LENGTH = 131072  # the block's length


class Picture:
    """Shapes of an SVG of a width and a height, in pixels from the upper left corner."""

    def __init__(self, width, height, title, subtitle):
        self.size, self.parts = (width, height), []
        self.title = title
        self.text(16, 28, title, size=17, weight='bold')
        self.text(16, 48, subtitle, size=12.5, color=GREY)

    def add(self, name, text=None, **attributes):
        """An element, with the text in it or None; numbers are rounded to a tenth of a pixel."""
        begin = '<' + name
        for key, value in attributes.items():
            value = '%g' % round(value, 1) if isinstance(value, float) else value
            begin += ' %s="%s"' % (key.replace('_', '-'), value)
        self.parts.append(begin + ('/>' if text is None else '>%s</%s>' % (escape(text), name)))

    def text(self, x, y, text, size=13, color=INK, anchor='start', weight='normal'):
        self.add('text', text, x=float(x), y=float(y), fill=color, font_size=size, text_anchor=anchor,
                 font_weight=weight)

    def line(self, x1, y1, x2, y2, color=PALE, width=1, dashes='none'):
        self.add('line', x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), stroke=color, stroke_width=width,
                 stroke_dasharray=dashes)

    def box(self, x, y, width, height, color):
        self.add('rect', x=float(x), y=float(y), width=float(width), height=float(height), fill=color)

    def path(self, points, color, width=2.5, dashes='none'):
        self.add('polyline', points=' '.join('%g,%g' % (round(x, 1), round(y, 1)) for x, y in points), fill='none',
                 stroke=color, stroke_width=width, stroke_dasharray=dashes, stroke_linejoin='round')

    def __str__(self):
        width, height = self.size
        opening = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" '
                   'font-family="Helvetica, Arial, sans-serif">' % (width, height, width, height))
        paper = '<rect width="%d" height="%d" fill="%s"/>' % (width, height, PAPER)
        return '\n'.join([opening, '<title>%s</title>' % escape(self.title), paper, *self.parts, '</svg>', ''])


def tables_of(name):
    return read_tables(os.path.join(FIGURES, name))


# ---- a query and a key ----

STEP, ASKS, OFFERS = 0.5, 40, 20  # the pair's frequency in radians; degrees of the two vectors before rotation
PLACES = (3, 1), (9, 7)  # positions of the query and of the key


def arrows():
    picture = Picture(760, 330, 'Only the distance is left',
                      'one pair of a query (blue) and of a key (orange); dashed: before rotation; f = 0.5 radians')
    radius, y0 = 95, 200

    def at(x0, degrees, length=radius):
        angle = math.radians(degrees)
        return x0 + length * math.cos(angle), y0 - length * math.sin(angle)

    def arrow(x0, degrees, color, dashes='none'):
        end = at(x0, degrees)
        picture.path([(x0, y0), end], color, 2 if dashes != 'none' else 3.5, dashes)
        if dashes == 'none':
            picture.path([at(x0, degrees + 6, radius - 13), end, at(x0, degrees - 6, radius - 13)], color, 3.5)
    for x0, (m, n) in zip((200, 560), PLACES):
        query, key = ASKS + math.degrees(m * STEP), OFFERS + math.degrees(n * STEP)
        picture.add('circle', cx=x0, cy=y0, r=radius, fill='none', stroke=PALE, stroke_width=1.5)
        for degrees, color in (ASKS, BLUE), (OFFERS, ORANGE):
            arrow(x0, degrees, color, '5 4')
        arrow(x0, query, BLUE)
        arrow(x0, key, ORANGE)
        low, high = sorted((query, key))
        picture.path([at(x0, low + (high - low) * k / 20, 42) for k in range(21)], INK, 1.5)
        picture.text(*at(x0, (low + high) / 2, 58), '%.0f°' % (high - low), 14, INK, 'middle')
        picture.text(x0, 86, 'query at m = %d, key at n = %d: m - n = %d' % (m, n, m - n), 14, INK, 'middle')
    return picture


# ---- perplexity by position ----

# method: color, dashes, and how many pixels its label is moved down, so that labels do not meet
LINES = {'none': (RED, 'none', 0), 'linear': (ORANGE, '8 3', 0), 'ntk': (GREEN, '2 3', -7), 'yarn': (BLUE, 'none', 7),
         'self-extend': (VIOLET, '8 3 2 3', 22)}


def released():
    table, = tables_of('released-smollm2.tsv')
    picture = Picture(760, 430, 'SmolLM2 past its trained length, perplexity by position',
                      'Great Expectations from its first page, 16,384 tokens; both axes logarithmic; lower is better')
    left, right, top, bottom = 60, 640, 70, 380
    low, high, first, last = 20, 150, 64, 16384

    def x(position):
        return left + (right - left) * math.log(position / first) / math.log(last / first)

    def y(perplexity):
        return bottom - (bottom - top) * math.log(perplexity / low) / math.log(high / low)
    for value in 20, 30, 50, 70, 100, 150:
        picture.line(left, y(value), right, y(value))
        picture.text(left - 8, y(value) + 4, str(value), 12, GREY, 'end')
    for value in 64, 256, 1024, 4096, 16384:
        picture.text(x(value), bottom + 20, format(value, ','), 12, GREY, 'middle')
    picture.line(x(8192), top, x(8192), bottom, GREY, 1, '3 3')
    picture.text(x(8192) - 6, top + 12, 'trained to 8,192', 12, GREY, 'end')
    picture.text((left + right) / 2, bottom + 42, 'position, tokens', 13, INK, 'middle')
    for method, rows in table.methods().items():
        if method not in LINES:
            continue
        color, dashes, moved = LINES[method]
        # a bucket is drawn at its geometric mean
        points = [(x(math.sqrt(max(row['from'], row['to'] / 2) * row['to'])), y(row['ppl'])) for row in rows[:-1]
                  if row['to'] > first]
        picture.path(points, color, 3 if method in ('none', 'yarn') else 2, dashes)
        end_x, end_y = points[-1]
        picture.line(end_x + 3, end_y, right - 4, end_y + moved, color, 0.7)
        picture.text(right, end_y + moved + 4, '%s %.1f' % (method, rows[-2]['ppl']), 13, color)
    return picture


# ---- keys found ----

METHODS = 'none', 'ntk', 'yarn', 'window'


def keys():
    table, = tables_of('passkey.tsv')
    picture = Picture(760, 300, 'Keys found, by the length of the text and the depth of the key',
                      'model.bin, trained on 512 tokens; dark: always found, white: never; 4 keys a cell')
    found = {}  # {method: {(length, depth): share}}
    for row in table.rows:
        found.setdefault(row['method'], {})[row['length'], row['depth']] = row['accuracy']
    lengths = sorted({length for cells in found.values() for length, _ in cells})
    depths = sorted({depth for cells in found.values() for _, depth in cells})
    wide, high, left, top = 24, 26, 66, 96
    for n, method in enumerate(METHODS):
        x0 = left + n * (len(lengths) * wide + 30)
        picture.text(x0, top - 12, method, 14, INK, weight='bold')
        for i, length in enumerate(lengths):
            for k, depth in enumerate(depths):
                share = found[method][length, depth]
                shade = [round(255 + share * (part - 255)) for part in (0x1f, 0x5f, 0xa8)]
                picture.add('rect', x=x0 + i * wide, y=top + k * high, width=wide - 2, height=high - 2, stroke=PALE,
                            fill='#%02x%02x%02x' % tuple(shade))
            picture.add('text', '%gk' % (length / 1024) if length >= 1024 else str(int(length)), x=x0 + i * wide + 11,
                        y=top + len(depths) * high + 14, font_size=10.5, fill=GREY, text_anchor='middle')
        for k, depth in enumerate(depths if n == 0 else ()):
            picture.text(x0 - 8, top + k * high + 17, '%d %%' % round(100 * depth), 12, GREY, 'end')
    bottom = top + len(depths) * high + 38
    picture.text(left, bottom, 'right: length of the text, tokens; down: depth of the key, from its start', 12.5)
    picture.text(left, bottom + 20, 'The window has the lowest perplexity, and forgets what is outside it.', 12.5, GREY)
    return picture


# ---- one block, nine engines ----

DATA = os.path.join(FIGURES, 'engines-qwen3.json')


def ask_engines():
    """The rows of ./run --engines for the config of the data, without those that differ from build to build."""
    with open(DATA, encoding='utf-8') as file:
        config = json.load(file)['config']
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'config.json')
        with open(path, 'w', encoding='utf-8') as file:
            json.dump(config, file)
        command = [os.path.join(ROOT, 'run'), '--engines', '--rope-config', path, '-n', str(LENGTH), '--json']
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)  # its status is 1 where engines differ
    told = json.loads(done.stdout)
    return {'config': config, 'length': LENGTH, 'facts_of': told['facts_of'], 'rows': told['rows']}


def engines():
    with open(DATA, encoding='utf-8') as file:
        told = json.load(file)
    picture = Picture(760, 108 + 30 * len(told['rows']), 'One block, nine engines: the YaRN of Qwen 3\'s card',
                      'factor 4 over 32,768, max_position_embeddings left at 40,960; positions served, of 131,072')
    left, right, top = 170, 480, 78
    for y, row in enumerate(told['rows']):
        y = top + 30 * y
        served = min(row['max_len'] or LENGTH, LENGTH)
        reads = row['verdict'] in ('same', 'too long')
        picture.text(left - 10, y + 15, row['engine'], 13.5, INK, 'end')
        picture.box(left, y, right - left, 20, '#f1f1f1')
        picture.box(left, y, (right - left) * served / LENGTH, 20, BLUE if reads and served == LENGTH else
                    ORANGE if reads else RED)
        picture.text(left + 6, y + 14.5, format(served, ','), 12, PAPER, weight='bold')
        picture.text(right + 10, y + 15, 'as meant' if reads and served == LENGTH else 'right, but ends at max_position'
                     if reads else row['note'].split(':')[0], 12.5, INK if reads else RED)
    picture.text(left, top + 30 * len(told['rows']) + 14,
                 'by ./run --engines, facts of %s; a full bar: no limit below 131,072' % told['facts_of'], 12, GREY)
    return picture


DRAWN = {'arrows': arrows, 'released': released, 'keys': keys, 'engines': engines}


def main(arguments):
    if '--engines' in arguments:
        arguments.remove('--engines')
        told = json.dumps(ask_engines(), indent=1) + '\n'
        with open(DATA, 'w', encoding='utf-8') as file:
            file.write(told)
    unknown = [name for name in arguments if name not in DRAWN]
    if unknown:
        sys.exit('svg.py: there is no figure %s (expected %s)' % (unknown[0], ', '.join(DRAWN)))
    for name in arguments or DRAWN:
        with open(os.path.join(FIGURES, name + '.svg'), 'w', encoding='utf-8') as file:
            file.write(str(DRAWN[name]()))


if __name__ == '__main__':
    main(sys.argv[1:])
