"""The tokens of a tokenizer.bin (docs/format.md): their spelling, and the token of a text."""

from __future__ import annotations

import os
import re
import struct
from typing import List, Optional

from export import tokenizer_bin

from ..common import Problem


class Vocabulary:
    """spelled: the bytes of each id; id_of(bytes): the only id that spells them, or None."""

    def __init__(self, path: str) -> None:
        try:
            with open(path, 'rb') as file:
                data = file.read(1 << 28)
        except OSError as error:
            raise Problem('%s: %s' % (path, error.strerror), 'file')
        try:
            pieces, at = tokenizer_bin.read_pieces(data)
            self.bos = tokenizer_bin.TRAILER.unpack_from(data, at)[3] if at < len(data) else 1
        except (ValueError, struct.error) as error:
            raise Problem('%s: %s' % (path, error if isinstance(error, ValueError) else 'is cut short'), 'file')
        self.spelled = [spelling(text) for text, _ in pieces]
        self.ids = {}
        for id, token in enumerate(self.spelled):
            self.ids.setdefault(token, []).append(id)

    def __len__(self) -> int:
        return len(self.spelled)

    def all_of(self, text: str) -> List[int]:
        return self.ids.get(text.replace('\u2581', ' ').encode('utf-8', 'surrogatepass'), [])

    def id_of(self, text: Optional[str] = None, data: Optional[bytes] = None) -> Optional[int]:
        """The id of a text or bytes. None if no token or several tokens spell it."""
        key = data if data is not None else text.replace('\u2581', ' ').encode('utf-8', 'surrogatepass')
        found = self.ids.get(key, [])
        return found[0] if len(found) == 1 else None


def spelling(token):
    """The bytes of a piece. Sentencepiece writes a byte as <0x0A> and a space as U+2581."""
    if re.match(b'<0x[0-9A-F]{2}>$', token):
        return bytes([int(token[3:5], 16)])
    return token.replace('\u2581'.encode(), b' ')


def beside(model: str) -> str:
    """The tokenizer.bin that run uses for this model."""
    for path in tokenizer_bin.beside(model):
        if os.path.exists(path):
            return path
    raise Problem('%s: no tokenizer next to it (expected NAME.tokenizer.bin or tokenizer.bin)' % model, 'file')
