"""Texts of every kind, made anew from a seed: prose, code, twenty scripts, emoji, parts apart and together, runs of
spaces and of U+2581, digits, control characters, contractions, markup, bytes that are no text, long ones."""

import glob
import os
import random
import unicodedata

from common import ROOT

SCRIPTS = [(0x41, 0x5B), (0x61, 0x7B), (0xC0, 0x250), (0x370, 0x400), (0x400, 0x530), (0x531, 0x58A), (0x591, 0x5F5),
           (0x600, 0x700), (0x904, 0x970), (0x985, 0x9FF), (0xB85, 0xBFB), (0xE01, 0xE5C), (0xF00, 0xFD5),
           (0x10A0, 0x1100), (0x1100, 0x11FF), (0x1200, 0x1380), (0x1780, 0x17FA), (0x3041, 0x3100), (0x4E00, 0x9FB0),
           (0xAC00, 0xD7A4), (0x1D400, 0x1D800), (0x20000, 0x20100), (0xFF01, 0xFF66), (0x3000, 0x3040)]
EMOJI = ['\U0001F600', '\U0001F44D\U0001F3FD', '\u2764\uFE0F', '\U0001F469\u200D\U0001F4BB', '\U0001F1E9\U0001F1EA',
         '\U0001F468\u200D\U0001F469\u200D\U0001F467', '1\uFE0F\u20E3', '\u2603', '\U0001F3F4\U000E0067\U000E007F']
SPACES = [' ', '  ', '   ', '\t', '\n', '\r\n', '\n\n', '\u00A0', '\u3000', '\u2581', '\u2003', '\u2028', '\x0b',
          '\x0c', '\x85', '\u200B', '\uFEFF']
DIGITS = '0123456789', '0123456789', '\u0660\u0661\u0662', '\u0966\u0967', '\u00B2\u00BD\u2167\u2460'
ENDINGS = ["'s", "'T", "'re", "'VE", "'m", "'ll", "'D", "'\u017F", '\u2019s', "''", "'x"]
SIGNS = ('!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~'
         '\u00AB\u00BB\u2014\u2026\u20AC\u00A7\u00B0\u221E\u2211\uFF0C\u3002\u30FB\u0964')
MARKUP = ['<div class="a b">', '```python\n', '| a | b |\n|--|--|\n', '{"key": [1, 2.5e-3, null]}', '# Title\n\n- x\n',
          'https://example.org/a?b=c&d=%20#e', '\\frac{a}{b}', 'SELECT * FROM t;', '/* x */ if (a->b) { c++; }\n',
          '0x1F 1_000 3.14e+10 12:34:56', '<unk>', '<s', '</s', '[INST', '<0x41>', '<|x|>', '\ufffd']


def paragraphs():
    """Prose and code written here."""
    found = []
    for path in [os.path.join(ROOT, 'book.txt')] + sorted(
            glob.glob(os.path.join(ROOT, 'src', '*', '*.c')) + glob.glob(os.path.join(ROOT, 'docs', '*.md'))):
        with open(path, encoding='utf-8') as file:
            found += file.read().split('\n\n')
    return [text for text in found if text]


def word(random):
    low, high = random.choice(SCRIPTS)
    return ''.join(chr(random.randrange(low, high)) for _ in range(random.choice((1, 2, 3, 5, 9))))


def anything(random):
    while True:
        code = random.randrange(0x110000) if random.random() < 0.3 else random.randrange(0x3100)
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def piece(random):
    kind = random.randrange(12)
    if kind < 3:
        return word(random)
    if kind == 3:
        return random.choice(EMOJI)
    if kind == 4:
        return random.choice(SPACES) * random.choice((1, 1, 2, 3, 7, 33))
    if kind == 5:
        digits = random.choice(DIGITS)
        return ''.join(random.choice(digits) for _ in range(random.randrange(1, 12)))
    if kind == 6:
        return word(random) + random.choice(ENDINGS)
    if kind == 7:
        return ''.join(random.choice(SIGNS) for _ in range(random.randrange(1, 5)))
    if kind == 8:
        return random.choice(MARKUP)
    if kind == 9:
        return ''.join(chr(random.randrange(0x20)) for _ in range(random.randrange(1, 4)))
    if kind == 10:
        return unicodedata.normalize(random.choice(('NFD', 'NFC', 'NFKD')), word(random) + '\u0301\u0323e\u0308')
    return ''.join(anything(random) for _ in range(random.randrange(1, 6)))


def texts(seed, count):
    """`count` texts; '\\udcXX' stands for a byte that is not UTF-8."""
    source = random.Random(seed)
    prose, made = paragraphs(), ['', ' ', '  ', '\n', 'a', '\u2581', ' \u2581 ', '?', '\u0301', '\udcff']
    made += [' ' * n for n in range(3, 40)] + ['\u2581' * n for n in range(2, 40)] + [
        'a' + '\u2581' * n + ' ' * (n % 5) + 'b' for n in range(1, 40)]
    while len(made) < count:
        kind = source.randrange(4)
        if kind == 0:
            text = source.choice(prose)[:source.choice((20, 200, 2000))]
        elif kind == 1:
            text = ' '.join(piece(source) for _ in range(source.randrange(1, 12)))
        else:
            text = ''.join(piece(source) for _ in range(source.randrange(1, 25)))
        if source.random() < 0.05:
            at = source.randrange(len(text) + 1)
            text = text[:at] + source.choice(('\udcff', '\udcc3', '\udce2\udc82', '\udcf0\udc9f\udc98')) + text[at:]
        made.append(text)
    return made[:count]


def long_texts(seed):
    """1 MB each: prose, one word, one run of spaces, letters without a space, a script without spaces, anything."""
    source = random.Random(seed + 1)
    size = 10 ** 6
    prose = '\n\n'.join(paragraphs())
    made = {'prose': (prose * (size // len(prose) + 1))[:size], 'one letter': 'a' * size, 'one space': ' ' * size,
            'letters': ''.join(source.choice('etaoinshrdlu') for _ in range(size)),
            'one script': ''.join(chr(source.randrange(0x4E00, 0x9FA6)) for _ in range(size // 3)),
            'anything': ''.join(piece(source) for _ in range(size // 12))}
    return {kind: text.replace('<', '(') for kind, text in made.items()}  # which begins special tokens
