"""ggml's blocks a second time, value by value from the formats' descriptions, where src/fast/layouts.h goes by parts
of 32: a field is a little-endian number of many bits, and value i says which of them are its own. Scales of 6 bits are
read off pictures of their bytes. The grids are read from the program's own text; golden/coded.json says that they
are ggml's."""

import functools
import math
import os
import re
import struct

HALVES = {  # type: values, bytes, where its float16 lie
    'Q4_0': (32, 18, [0]), 'Q4_1': (32, 20, [0, 2]), 'Q5_0': (32, 22, [0]), 'Q5_1': (32, 24, [0, 2]),
    'Q8_0': (32, 34, [0]), 'Q2_K': (256, 84, [80, 82]), 'Q3_K': (256, 110, [108]), 'Q4_K': (256, 144, [0, 2]),
    'Q5_K': (256, 176, [0, 2]), 'Q6_K': (256, 210, [208]), 'IQ4_NL': (32, 18, [0]), 'IQ4_XS': (256, 136, [0]),
    'MXFP4': (32, 17, []), 'IQ2_XXS': (256, 66, [0]), 'IQ2_XS': (256, 74, [0]), 'IQ2_S': (256, 82, [0]),
    'IQ3_XXS': (256, 98, [0]), 'IQ3_S': (256, 110, [0]), 'NVFP4': (64, 36, []), 'IQ5_K': (256, 176, [0])}
CODED = list(HALVES)[13:]  # which the program decodes to whole numbers first
# In model.bin and in GGUF. Both have numbers of types that are not read any more.
NUMBERS = dict(zip(HALVES, (*range(5, 18), 20, 21, 22, 23, 24, 29, 33)))
NAMES = {number: name for name, number in NUMBERS.items()}
GGML_NUMBERS = dict(zip(HALVES, (2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 39, 16, 17, 22, 18, 21, 40, 140)))
REMOVED = {18: 'IQ1_S', 19: 'IQ1_M', 25: 'TQ1_0', 26: 'TQ2_0', 27: 'Q1_0', 28: 'Q2_0', 30: 'IQ2_K', 31: 'IQ3_K',
           32: 'IQ4_K', 34: 'IQ4_KS', 35: 'IQ5_KS'}
REMOVED_FROM_GGUF = dict(zip((19, 29, 34, 35, 41, 42, 137, 138, 139, 144, 152), REMOVED.values()))
IQ5 = [-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36, -30, -24, -18, -12, -6, -1, 5, 11, 17, 23, 29, 36, 43,
       51, 59, 68, 77, 87, 97, 109, 121]
IQ4 = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]

# Types whose rows may lie side by side, and (place, bytes) of the parts of a block that are no words.
PACKED = {'Q4_0': [(0, 2)], 'Q4_1': [(0, 2), (2, 2)], 'Q5_0': [(0, 2)], 'Q5_1': [(0, 2), (2, 2)], 'Q8_0': [(0, 2)],
          'Q4_K': [], 'Q5_K': [], 'Q6_K': [(208, 2)], 'IQ4_NL': [(0, 2)], 'IQ4_XS': [], 'MXFP4': [(0, 1)], 'IQ5_K': []}

# The 12 bytes of scales, each byte's highest bit first: the bits of one letter are one number's. In Q4_K and Q5_K a
# number's upper bits come first, capitals are scales and small letters minima; in Q3_K its lower four come first.
K4_SCALES = ('EEAAAAAA FFBBBBBB GGCCCCCC HHDDDDDD eeaaaaaa ffbbbbbb ggcccccc hhdddddd '
             'eeeeEEEE ffffFFFF ggggGGGG hhhhHHHH').split()
K3_SCALES = ('iiiiaaaa jjjjbbbb kkkkcccc lllldddd mmmmeeee nnnnffff oooogggg pppphhhh '
             'mmiieeaa nnjjffbb ookkggcc ppllhhdd').split()


def bits(field, at, count):
    return int.from_bytes(field, 'little') >> at & (1 << count) - 1


def half(data, at):
    return struct.unpack_from('<e', data, at)[0]


def by_letters(picture, data, lower_first):
    """{letter: number} of bytes that look like this."""
    found = {}
    for byte, letters in zip(data, picture):
        here = {}
        for place, letter in enumerate(letters):
            here[letter] = here.get(letter, '') + str(byte >> 7 - place & 1)
        for letter, digits in here.items():
            before = found.get(letter, '')
            found[letter] = digits + before if lower_first else before + digits
    return {letter: int(digits, 2) for letter, digits in found.items()}


def fifths_packed(kind, data, back):
    """Blocks whose fifth bits have the order of rows side by side, bit by bit, or `back` their own."""
    _, size, halves = HALVES[kind]
    out = bytearray(data)
    for word in range(2 * len(halves), len(data), size):
        out[word:word + 4] = bytes(4)
        for i in range(32):
            there = i % 4 * 8 + i // 4
            source, to = (there, i) if back else (i, there)
            out[word + to // 8] |= (data[word + source // 8] >> source % 8 & 1) << to % 8
    return bytes(out)


def side_by_side(kind, data, columns, back=False):
    """Rows of blocks with each whole eight of them side by side, byte by byte, or `back` apart."""
    values, size, _ = HALVES[kind]
    row_size = columns // values * size
    packed = len(data) // row_size // 8 * 8 * row_size  # bytes of whole groups
    has_fifths = kind in ('Q5_0', 'Q5_1')
    if has_fifths and not back:
        data = fifths_packed(kind, data[:packed], False) + data[packed:]
    out = bytearray(data)
    items = dict(PACKED[kind])
    first_word = sum(items.values()) if 0 in items else 0
    for word in range(first_word, size - 3, 4):
        items[word] = 4
    for at in range(packed):
        row, in_row = divmod(at, row_size)
        block, byte = divmod(in_row, size)
        item = max(start for start in items if start <= byte)
        place = row // 8 * 8 * row_size + 8 * (block * size + item) + row % 8 * items[item] + byte - item
        if back:
            out[at] = data[place]
        else:
            out[place] = data[at]
    if has_fifths and back:
        return fifths_packed(kind, bytes(out[:packed]), True) + bytes(out[packed:])
    return bytes(out)


@functools.lru_cache(None)
def grid(name):
    """The digits of each entry, as src/weights/grids.inc has them."""
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'src', 'weights', 'grids.inc')
    with open(path, encoding='ascii') as file:
        text = re.search(r'char %s_grid\[\] =(.*?);\n\n|char %s_grid\[\] =(.*);\n' % (name, name), file.read() + '\n',
                         re.S)
    characters = re.sub(r'\\(.)', r'\1', ''.join(re.findall(r'^ *"(.*)";?$', text[1] or text[2], re.M)))
    base, digits = (8, 2) if name.startswith('iq3') else (3, 4)
    numbers = [ord(c) - ord('#') for c in characters]
    return [[x // base ** k % base for x in numbers[i:i + 2] for k in range(digits)] for i in range(0, len(numbers), 2)]


def even(seven):
    """Seven signs, and an eighth that makes the number of negative ones even."""
    return seven + 128 * (bin(seven).count('1') % 2)


def of_grid(kind, b, i):
    """Value i of a block of IQ2 or IQ3: the share of d, the number, 1 or -1."""
    group, eight = i // 32, i // 8
    if kind == 'IQ2_XXS':
        signs = bits(b[2 + 8 * group:10 + 8 * group], 32, 32)
        return ((0.5 + (signs >> 28)) / 4, (8, 25, 43)[grid('iq2_xxs')[b[2 + 8 * group + eight % 4]][i % 8]],
                even(signs >> 7 * (eight % 4) & 127))
    if kind == 'IQ2_XS':
        both = bits(b[2:66], 16 * eight, 16)
        scale = (0.5 + bits(b[66:], 4 * (i // 16), 4)) / 4
        return scale, (8, 25, 43)[grid('iq2_xs')[both & 511][i % 8]], even(both >> 9)
    if kind == 'IQ2_S':
        index = b[2 + eight] + 256 * bits(b[66:74], 2 * eight, 2)
        return (0.5 + bits(b[74:], 4 * (i // 16), 4)) / 4, (8, 25, 43)[grid('iq2_s')[index][i % 8]], b[34 + eight]
    if kind == 'IQ3_XXS':
        signs, digit = bits(b[66:], 32 * group, 32), grid('iq3_xxs')[b[2 + i // 4]][i % 4]
        return (0.5 + (signs >> 28)) / 2, 4 + 8 * digit + (2 if digit == 7 else 0), even(signs >> 7 * (eight % 4) & 127)
    index = b[2 + i // 4] + 256 * bits(b[66:74], i // 4, 1)
    return 1 + 2 * bits(b[106:], 4 * group, 4), 1 + 2 * grid('iq3_s')[index][i % 4], b[74 + eight]


def of_iq5(b, i):
    """Value i of a block of IQ5_K: the scale's whole number, and the value's."""
    group, k = i // 32, i // 16
    four = 8 * (32 * (i // 64) + i % 32) + 4 * (i % 64 // 32)
    q = bits(b[16:], four, 4) + 16 * bits(b[144:], 8 * (i % 32) + group, 1)
    return bits(b[8:16], 4 * k, 4) + 16 * bits(b[4:8], 2 * k, 2) - 32, IQ5[q] + 2 * bits(b[2:4], k, 1)


def of_nvfp4(b):
    for i in range(64):
        s, q = b[i // 16], bits(b[4 + 8 * (i // 16):], 8 * (i % 8) + 4 * (i % 16 // 8), 4)
        exponent, fraction = s >> 3 & 15, s & 7
        scale = (1 + fraction / 8) * 2.0 ** (exponent - 7) if exponent else fraction * 2.0 ** -9
        number = (0, 1, 2, 3, 4, 6, 8, 12)[q & 7]
        yield 0.0 if s == 127 else scale / 2, -number if q >> 3 else number, 0.0


def coded_values(kind, b):
    if kind == 'NVFP4':
        yield from of_nvfp4(b)
        return
    for i in range(256):
        if kind == 'IQ5_K':
            scale, q = of_iq5(b, i)
            yield half(b, 0) * scale, q, 0.0
        else:
            share, q, signs = of_grid(kind, b, i)
            yield half(b, 0) * share, -q if signs >> i % 8 & 1 else q, 0.0


def values_of(kind, b):
    """Of one block, for each value: scale, whole number, offset; a value is their product and sum."""
    if kind in CODED:
        yield from coded_values(kind, b)
        return
    size = HALVES[kind][0]
    d = half(b, HALVES[kind][2][0]) if HALVES[kind][2] else None
    second = half(b, HALVES[kind][2][1]) if len(HALVES[kind][2]) > 1 else 0.0
    scales = by_letters(K4_SCALES, b[4:16], False) if kind in ('Q4_K', 'Q5_K') else {}
    thirds = by_letters(K3_SCALES, b[96:108], True) if kind == 'Q3_K' else {}
    for i in range(size):
        nibble = 8 * (i % 16) + 4 * (i // 16)  # in a block of 32
        group = i // 32
        two = 8 * (32 * (i // 128) + i % 32) + 2 * (i % 128 // 32)
        four = 8 * (32 * (i // 64) + i % 32) + 4 * (i % 64 // 32)
        if kind == 'Q4_0':
            yield d, bits(b[2:], nibble, 4) - 8, 0.0
        elif kind == 'Q4_1':
            yield d, bits(b[4:], nibble, 4), second
        elif kind == 'Q5_0':
            yield d, bits(b[6:], nibble, 4) + 16 * bits(b[2:6], i, 1) - 16, 0.0
        elif kind == 'Q5_1':
            yield d, bits(b[8:], nibble, 4) + 16 * bits(b[4:8], i, 1), second
        elif kind == 'Q8_0':
            yield d, struct.unpack_from('<b', b, 2 + i)[0], 0.0
        elif kind == 'IQ4_NL':
            yield d, IQ4[bits(b[2:], nibble, 4)], 0.0
        elif kind == 'MXFP4':
            q = bits(b[1:], nibble, 4)
            exponent, mantissa = q >> 1 & 3, q & 1
            size_of_q = (1 + mantissa / 2) * 2 ** (exponent - 1) if exponent else mantissa / 2
            yield math.nan if b[0] == 255 else 2.0 ** (b[0] - 127), -size_of_q if q >> 3 else size_of_q, 0.0
        elif kind == 'Q2_K':
            s = b[i // 16]
            yield d * (s & 15), bits(b[16:80], two, 2), -second * (s >> 4)
        elif kind == 'Q3_K':
            q = bits(b[32:96], two, 2) + 4 * bits(b[:32], 8 * (i % 32) + group, 1) - 4
            yield d * (thirds['abcdefghijklmnop'[i // 16]] - 32), q, 0.0
        elif kind in ('Q4_K', 'Q5_K'):
            q = bits(b[-128:], four, 4)
            if kind == 'Q5_K':
                q += 16 * bits(b[16:48], 8 * (i % 32) + group, 1)
            yield d * scales['ABCDEFGH'[group]], q, -second * scales['abcdefgh'[group]]
        elif kind == 'Q6_K':
            low = bits(b[:128], 8 * (64 * (i // 128) + i % 64) + 4 * (i % 128 // 64), 4)
            s, = struct.unpack_from('<b', b, 192 + i // 16)
            yield d * s, low + 16 * bits(b[128:192], two, 2) - 32, 0.0
        elif kind == 'IQ4_XS':
            scale = bits(b[4:8], 4 * group, 4) + 16 * bits(b[2:4], 2 * group, 2) - 32
            yield d * scale, IQ4[bits(b[8 + 16 * group:24 + 16 * group], 8 * (i % 16) + 4 * (i % 32 // 16), 4)], 0.0


def row_bytes(kind, columns):
    values, size, _ = HALVES[kind]
    return columns // values * size


def row_values(kind, row):
    """Of a row of blocks, for each value: scale, whole number, offset."""
    size = HALVES[kind][1]
    for first in range(0, len(row), size):
        yield from values_of(kind, row[first:first + size])


def decode(kind, data, columns=None):
    """The values of rows of blocks, in double. Without a number of columns it is one row."""
    step, out = max(columns and row_bytes(kind, columns) or len(data), 1), []
    for at in range(0, len(data), step):
        out.extend(scale * q + offset for scale, q, offset in row_values(kind, data[at:at + step]))
    return out


def random_rows(kind, rows, columns, rng, scale=None):
    """Random blocks of a matrix, row by row."""
    return random_blocks(kind, rows * (columns // HALVES[kind][0]), rng, scale)


def random_blocks(kind, count, rng, scale=None):
    """Blocks of random bytes, with scales such that values are some 0.1 or so; or with this float16 for all."""
    values, size, places = HALVES[kind]
    typical = {'Q8_0': 1e-3, 'IQ4_NL': 1e-3, 'Q4_K': 2e-4, 'Q5_K': 1e-4, 'Q2_K': 4e-3, 'Q3_K': 1e-3, 'Q6_K': 5e-5,
               'IQ4_XS': 5e-5, 'IQ2_XXS': 1e-3, 'IQ2_XS': 1e-3, 'IQ2_S': 1e-3, 'IQ3_XXS': 5e-4, 'IQ3_S': 5e-4, 'IQ5_K': 5e-5}
    out = []
    for _ in range(count):
        block = bytearray(rng.randbytes(size))
        for at in places:
            x = typical.get(kind, 1e-2) * rng.uniform(0.5, 1.5) * rng.choice((-1, 1))
            struct.pack_into('<e', block, at, x if scale is None else scale)
        if kind == 'MXFP4':
            block[0] = rng.randrange(121, 125) if scale is None else rng.getrandbits(8)
        if kind == 'NVFP4' and scale is None:
            block[:4] = bytes(rng.randrange(8, 32) for _ in range(4))
        out.append(block)
    return b''.join(out)
