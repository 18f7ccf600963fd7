"""Reads tokenizer.bin, for exports and for the probe: llama2.c's file, and our trailer (docs/format.md)."""

from __future__ import annotations

import os
import re
import struct
from typing import List, Optional, Tuple

from .bytelevel import (AS_SYMBOLS, BY_CASE, BYTE_FALLBACK, BY_PARTS, DIGITS_GPT2, NFC, PREFIX, SPLITS, SYSTEM_PROMPT,
                        TAKES_SPACES)
from .common import MAX_EOS, TEXT_LIMIT, Job, Problem, read_small
from .sentencepiece import BYTE, CONTROL, MAX_PIECE, NORMAL, UNKNOWN, USER_DEFINED, Tokenizer

MAX_TRIPLES = 1 << 24
TRAILER = struct.Struct('<4s2I2iI')  # magic, kind, flags, bos_id, unk_id, n_eos
MAGIC = b'TKT1'


def beside(model_path: str) -> Tuple[str, str]:
    """The places where run looks for a model's tokenizer: NAME.tokenizer.bin, which is the model's own, then
    tokenizer.bin, which serves every model in its folder."""
    folder, name = os.path.split(model_path)
    return os.path.join(folder, os.path.splitext(name)[0] + '.tokenizer.bin'), os.path.join(folder, 'tokenizer.bin')


def find_tokenizer(job: Job, model_path: str, vocab_size: int) -> Optional[Tokenizer]:
    """The tokenizer that run would use for this model, or None and a note."""
    for path in beside(model_path):
        if os.path.exists(path):
            return read_tokenizer_bin(job, path, vocab_size)
    job.note('no tokenizer written, since no tokenizer.bin is next to %s' % model_path)
    return None


def read_tokenizer_bin(job: Job, path: str, vocab_size: int) -> Tokenizer:
    data = read_small(job, path)
    try:
        return parse(path, data, vocab_size)
    except struct.error:
        raise Problem(path, 'is cut short (found %d bytes, expected %d tokens, and a whole trailer if it has one)'
                      % (len(data), vocab_size))


def is_written_here(path: str) -> bool:
    """Whether a file is a tokenizer with this exporter's trailer after the tokens, and no other data."""
    with open(path, 'rb') as file:
        data = file.read(TEXT_LIMIT)
    try:
        _, at = read_pieces(data)
    except (ValueError, struct.error):
        return False
    return at < len(data)


def read_pieces(data: bytes, count: Optional[int] = None) -> Tuple[List[Tuple[bytes, float]], int]:
    """The first `count` tokens, or all up to the trailer or the end: text and score of each; and the end of the last
    one. A ValueError names one that cannot be used."""
    at, pieces = 4, []
    while len(pieces) < count if count is not None else at < len(data) and data[at:at + 4] != MAGIC:
        score, length = struct.unpack_from('<fi', data, at)
        at += 8 + length
        if not 0 <= length <= MAX_PIECE or at > len(data) or not abs(score) < float('inf'):
            raise ValueError('token %d cannot be used (found a length of %d and score %g)'
                             % (len(pieces), length, score))
        pieces.append((data[at - length:at], score))
    return pieces, at


def parse(path, data, vocab_size):
    try:
        pieces, at = read_pieces(data, vocab_size)
    except ValueError as error:
        raise Problem(path, str(error))
    tokens = [[text, score, NORMAL] for text, score in pieces]
    if at == len(data):
        return llama2(path, tokens)
    magic, kind, flags, bos_id, unk_id, n_eos = TRAILER.unpack_from(data, at)
    at += TRAILER.size
    if magic != MAGIC or kind > 1 or n_eos > MAX_EOS:
        raise Problem(path, 'holds more than the %d tokens of the model, and no trailer' % vocab_size)
    split, n_merges = struct.unpack_from('<2I', data, at) if kind else (0, 0)
    at += 8 * kind
    has_rules = bool(kind and (flags & NFC or split in BY_CASE))
    n_rules, = struct.unpack_from('<I', data, at) if has_rules else (0,)
    at += 4 * has_rules
    eos_ids = list(struct.unpack_from('<%di' % n_eos, data, at))
    at += 4 * n_eos
    types = data[at:at + vocab_size]
    at += vocab_size
    end, words = at + 12 * (n_merges + n_rules), b''
    if flags & SYSTEM_PROMPT and end + 4 <= len(data):
        length, = struct.unpack_from('<I', data, end)
        words = data[end + 4:end + 4 + length]
        end += 4 + length
    if n_merges > MAX_TRIPLES or len(data) != end or flags & SYSTEM_PROMPT and words.find(0) != len(words) - 1:
        raise Problem(path, 'has a trailer of the wrong size (found %d bytes, expected %d)' % (len(data), end))
    merges = list(struct.iter_unpack('<3i', data[at:at + 12 * n_merges]))
    ids = [id for merge in merges for id in merge] + eos_ids + [id for id in (bos_id, unk_id) if id != -1]
    if not all(0 <= id < vocab_size for id in ids) or kind and split not in (*SPLITS.values(), DIGITS_GPT2):
        raise Problem(path, 'has a trailer with impossible numbers')
    for id, (token, kind_of_token) in enumerate(zip(tokens, types)):
        token[2] = kind_of_token & ~(TAKES_SPACES | AS_SYMBOLS)
        run = token[2] == NORMAL and set(token[0]) == {32} and flags & BY_PARTS and not kind
        if not NORMAL <= token[2] <= BYTE or kind_of_token & AS_SYMBOLS and not run:
            raise Problem(path, 'token %d has an impossible type (found %d)' % (id, kind_of_token))
    for merge in merges:
        a, b, both = (tokens[id] for id in merge)
        if a[0] + b[0] != both[0] or any(token[2] not in (NORMAL, USER_DEFINED) for token in (a, b, both)):
            raise Problem(path, 'has a merge whose result its halves do not spell (found %d, %d, %d)' % merge)
    return {'kind': kind, 'tokens': tokens, 'flags': flags & ~SYSTEM_PROMPT, 'bos_id': bos_id, 'unk_id': unk_id,
            'eos_ids': eos_ids,
            'takes_spaces': {id for id, byte in enumerate(types) if byte & TAKES_SPACES},
            'as_symbols': {id for id, byte in enumerate(types) if byte & AS_SYMBOLS},
            'system_prompt': words[:-1].decode('utf-8', 'replace'),
            **({'split': split, 'merges': merges} if kind else {})}


def llama2(path, tokens):
    """A file of llama2.c's has no types of tokens, so they are Llama 2's."""
    if len(tokens) < 3:
        raise Problem(path, 'has too few tokens (found %d, expected 3 or more)' % len(tokens))
    for token in tokens:
        if re.fullmatch(b'<0x[0-9A-F]{2}>', token[0]):
            token[2] = BYTE
    tokens[0][2], tokens[1][2], tokens[2][2] = UNKNOWN, CONTROL, CONTROL
    for id, (its, own) in {1: (b'\n<s>\n', b'<s>'), 2: (b'\n</s>\n', b'</s>')}.items():  # as llama2.c prints them
        tokens[id][0] = own if tokens[id][0] == its else tokens[id][0]
    return {'tokens': tokens, 'flags': PREFIX + BYTE_FALLBACK, 'bos_id': 1, 'unk_id': 0, 'eos_ids': [2]}
