"""ggml's blocks a second time, value by value from the formats' descriptions, where src/fast/layouts.h goes by parts
of 32: a field is a little-endian number of many bits, and value i says which of them are its own. Scales of 6 bits are
read off pictures of their bytes."""

import math
import struct

HALVES = {  # type: values, bytes, where its float16 lie
    'Q4_0': (32, 18, [0]), 'Q4_1': (32, 20, [0, 2]), 'Q5_0': (32, 22, [0]), 'Q5_1': (32, 24, [0, 2]),
    'Q8_0': (32, 34, [0]), 'Q2_K': (256, 84, [80, 82]), 'Q3_K': (256, 110, [108]), 'Q4_K': (256, 144, [0, 2]),
    'Q5_K': (256, 176, [0, 2]), 'Q6_K': (256, 210, [208]), 'IQ4_NL': (32, 18, [0]), 'IQ4_XS': (256, 136, [0]),
    'MXFP4': (32, 17, [])}
NUMBERS = {name: number for number, name in enumerate(HALVES, 5)}  # in model.bin
GGML_NUMBERS = dict(zip(HALVES, (2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 39)))
IQ4 = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]

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


def values_of(kind, b):
    """Of one block, for each value: scale, whole number, offset; a value is their product and sum."""
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


def decode(kind, data):
    """The values of whole blocks, in double."""
    size, out = HALVES[kind][1], []
    for at in range(0, len(data), size):
        out.extend(scale * q + offset for scale, q, offset in values_of(kind, data[at:at + size]))
    return out


def random_blocks(kind, count, rng, scale=None):
    """Blocks of random bytes, with scales such that values are some 0.1 or so; or with this float16 for all."""
    values, size, places = HALVES[kind]
    typical = {'Q8_0': 1e-3, 'IQ4_NL': 1e-3, 'Q4_K': 2e-4, 'Q5_K': 1e-4, 'Q2_K': 4e-3, 'Q3_K': 1e-3, 'Q6_K': 5e-5,
               'IQ4_XS': 5e-5}
    out = b''
    for _ in range(count):
        block = bytearray(rng.getrandbits(8) for _ in range(size))
        for at in places:
            x = typical.get(kind, 1e-2) * rng.uniform(0.5, 1.5) * rng.choice((-1, 1))
            struct.pack_into('<e', block, at, x if scale is None else scale)
        if kind == 'MXFP4':
            block[0] = rng.randrange(121, 125) if scale is None else rng.getrandbits(8)
        out += bytes(block)
    return out
