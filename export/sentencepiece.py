"""tokenizer.model: a protobuf message of sentencepiece's, of which only the fields that determine the tokens are
read."""

from __future__ import annotations

import struct
from typing import Any, Dict, Iterable, List, Sequence, Tuple

from .common import Job, Problem, read_small

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
Token = List[Any]            # its text, score and type
Tokenizer = Dict[str, Any]  # its tokens, and the trailer's fields by name
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_PIECE = 1024  # the longest token that run accepts, in bytes


def read_message(path, data, wanted):
    """The fields of a message that are in `wanted`, {number: wire type}, as (number, value) in their order."""
    at = 0

    def varint():
        nonlocal at
        value = 0
        for shift in range(0, 70, 7):
            if at == len(data):
                break
            value |= (data[at] & 127) << shift
            at += 1
            if data[at - 1] < 128:
                return value
        raise Problem(path, 'is cut short or not a sentencepiece model (a number has no end)')

    while at < len(data):
        number, wire = divmod(varint(), 8)
        if wire not in (VARINT, FIXED64, BYTES, FIXED32) or wanted.get(number, wire) != wire:
            raise Problem(path, 'is not a sentencepiece model (field %d has wire type %d)' % (number, wire))
        if wire == VARINT:
            value = varint()
        else:
            size = 8 if wire == FIXED64 else 4 if wire == FIXED32 else varint()
            if size > len(data) - at:
                raise Problem(path, 'is cut short (found %d bytes, expected %d more)' % (len(data) - at, size))
            value, at = data[at:at + size], at + size
        if number in wanted:
            yield number, value


def read_sentencepiece(job: Job, path: str) -> Tokenizer:
    """The tokenizer: tokens as [text, score, type], and the fields of tokenizer.bin's trailer."""
    parts: Dict[int, List[bytes]] = {1: [], 2: [], 3: [], 5: []}
    for number, value in read_message(path, read_small(job, path), {1: BYTES, 2: BYTES, 3: BYTES, 5: BYTES}):
        parts[number].append(value)  # a spec in several parts is their concatenation
    trainer = dict(read_message(path, b''.join(parts[2]), {
        3: VARINT, 24: VARINT, 35: VARINT,      # model_type, treat_whitespace_as_suffix, byte_fallback
        46: BYTES, 47: BYTES}))                 # bos_piece, eos_piece
    normalizer = dict(read_message(path, b''.join(parts[3]), {
        2: BYTES, 3: VARINT,                    # precompiled_charsmap, add_dummy_prefix
        4: VARINT, 5: VARINT}))                 # remove_extra_whitespaces, escape_whitespaces
    denormalizer = dict(read_message(path, b''.join(parts[5]), {2: BYTES}))

    def demand(name, found, expected):
        if found != expected:
            raise Problem(path, '%s cannot be represented (found %s, expected %s)' % (name, found, expected))

    demand('trainer_spec.model_type', {1: 'unigram', 2: 'bpe', 3: 'word', 4: 'char'}.get(trainer.get(3, 1)), 'bpe')
    demand('trainer_spec.treat_whitespace_as_suffix', trainer.get(24, 0), 0)
    demand('normalizer_spec.precompiled_charsmap', '%d bytes' % len(normalizer.get(2, b'')), '0 bytes')
    demand('normalizer_spec.remove_extra_whitespaces', normalizer.get(4, 1), 0)
    demand('normalizer_spec.escape_whitespaces', normalizer.get(5, 1), 1)
    demand('denormalizer_spec.precompiled_charsmap', '%d bytes' % len(denormalizer.get(2, b'')), '0 bytes')

    tokens, ids = checked_tokens(path, (piece_of(path, data) for data in parts[1]), ())
    demand_bytes(path, tokens, trainer.get(35), 'trainer_spec.byte_fallback')

    def control(text):
        return ids[text] if text in ids and tokens[ids[text]][2] == CONTROL else -1

    eos_id = control(trainer.get(47, b'</s>'))
    return {'tokens': tokens, 'flags': bool(normalizer.get(3, 1)) + 2 * bool(trainer.get(35)),
            'bos_id': control(trainer.get(46, b'<s>')), 'unk_id': unknown_token(path, tokens),
            'eos_ids': [eos_id] * (eos_id >= 0)}


def piece_of(path, data):
    """A piece's text, score and type."""
    piece = dict(read_message(path, data, {1: BYTES, 2: FIXED32, 3: VARINT}))
    return (piece.get(1, b''), *struct.unpack('<f', piece.get(2, bytes(4))), piece.get(3, NORMAL))


def shown(data: bytes) -> str:
    """A token's bytes for messages: text between quotes."""
    return repr(data[:40].decode('utf-8', 'replace'))


def checked_tokens(path: str, pieces: Iterable[Tuple[bytes, float, int]],
                   may_have_spaces: Sequence[int]) -> Tuple[List[Token], Dict[bytes, int]]:
    """tokenizer.bin's [text, score, type] for each piece, and the pieces' ids."""
    tokens, ids = [], {}
    for id, (text, score, kind) in enumerate(pieces):
        is_utf8 = text.decode('utf-8', 'ignore').encode('utf-8') == text
        if not is_utf8 or not 0 < len(text) <= MAX_PIECE or text in ids or b' ' in text and kind not in may_have_spaces:
            # Spaces are escaped before pieces are looked up in a text, so a plain space in a piece would mean something
            # else.
            raise Problem(path, 'piece %d cannot be represented (found %s, expected 1 to %d bytes of UTF-8 '
                          'without spaces, not seen before)' % (id, shown(text), MAX_PIECE))
        if not NORMAL <= kind <= BYTE or not abs(score) < float('inf'):
            raise Problem(path, 'piece %d has a bad type or score (found %d, %r)' % (id, kind, score))
        ids[text] = id
        tokens.append([text.replace(b'\xe2\x96\x81', b' '), score, kind])  # U+2581 is the escaped space
    return tokens, ids


def unknown_token(path: str, tokens: List[Token]) -> int:
    unknown = [id for id, token in enumerate(tokens) if token[2] == UNKNOWN]
    if len(unknown) != 1:
        raise Problem(path, 'the number of unknown pieces cannot be represented (found %d, expected 1)' % len(unknown))
    return unknown[0]


def demand_bytes(path: str, tokens: List[Token], fallback: Any, name: str) -> None:
    """Requires a token for every byte with byte fallback, and none without. An ASCII character that is itself a token
    needs none: Gemma 1 and 2 have the tab."""
    found = sorted(text for text, _, kind in tokens if kind == BYTE)
    own = {text for text, _, kind in tokens if kind == NORMAL and len(text) == 1}
    expected = [b'<0x%02X>' % byte for byte in range(256 if fallback else 0)]
    if found != [text for i, text in enumerate(expected) if text in found or bytes([i]) not in own]:
        raise Problem(path, 'byte pieces do not fit %s (found %d, expected %s)'
                      % (name, len(found), '<0x00> to <0xFF>' if fallback else 'none'))
