"""The tokens of a tokenizer.bin (docs/format.md): what they spell, and which token a text is."""

import os
import re
import struct

from .common import Problem

MAX_PIECE = 1 << 16


class Vocabulary:
    """spelled: bytes of each id; id_of(bytes): the one id that spells them, or None."""

    def __init__(self, path):
        try:
            with open(path, 'rb') as file:
                data = file.read(1 << 28)
        except OSError as error:
            raise Problem('%s: %s' % (path, error.strerror), 'file')
        self.spelled, at = [], 4
        while at < len(data) and data[at:at + 4] != b'TKT1':
            length = struct.unpack_from('<fi', data, at)[1] if at + 8 <= len(data) else -1
            if not 0 <= length <= MAX_PIECE or at + 8 + length > len(data):
                raise Problem('%s: token %d cannot be read' % (path, len(self.spelled)), 'file')
            self.spelled.append(spelling(data[at + 8:at + 8 + length]))
            at += 8 + length
        self.bos = struct.unpack_from('<i', data, at + 12)[0] if at + 20 <= len(data) else 1
        self.ids = {}
        for id, token in enumerate(self.spelled):
            self.ids.setdefault(token, []).append(id)

    def __len__(self):
        return len(self.spelled)

    def all_of(self, text):
        return self.ids.get(text.replace('\u2581', ' ').encode('utf-8', 'surrogatepass'), [])

    def id_of(self, text=None, data=None):
        """Two tokens that spell the same cannot be told apart. None for these and for what no token spells."""
        key = data if data is not None else text.replace('\u2581', ' ').encode('utf-8', 'surrogatepass')
        found = self.ids.get(key, [])
        return found[0] if len(found) == 1 else None


def spelling(token):
    """Pieces of sentencepiece write a byte as <0x0A> and a space as U+2581."""
    if re.match(b'<0x[0-9A-F]{2}>$', token):
        return bytes([int(token[3:5], 16)])
    return token.replace('\u2581'.encode(), b' ')


def beside(model):
    """The tokenizer.bin that run takes for this model."""
    folder, name = os.path.split(model)
    own = os.path.splitext(name)[0] + '.tokenizer.bin'
    for path in os.path.join(folder, own), os.path.join(folder, 'tokenizer.bin'):
        if os.path.exists(path):
            return path
    raise Problem('%s: no tokenizer beside it (expected NAME.tokenizer.bin or tokenizer.bin)' % model, 'file')
