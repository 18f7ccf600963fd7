#!/usr/bin/env python3
"""Tests of byte-level tokenizers (src/tokens/split.c and others, export/bytelevel.py, tokenizer_json.py), from
anywhere:

    python3 tests/test_bytelevel.py

Tokenizer files of every family are made up here, exported, and their ids compared with a reference written below
from the specification: the split patterns go through a small backtracking matcher, the merges are sought one after
the other. CC names the compiler; NODE_TOKENIZERS, if it is said, a folder where `npm install tokenizers` was run: all
ids are compared with that library's, too.
"""
import base64
import copy
import json
import os
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unicodedata
import zlib
from dataclasses import replace

import common
from common import ROOT, case, has_sanitizers, main, skip, takes_long

sys.path.insert(0, ROOT)
from export import (bytelevel, out_tokenizer, tokenizer as tokenizers, tokenizer_bin, tokenizer_json,  # noqa: E402
                    unicode_runs)
from export.common import Job, Problem  # noqa: E402
from export.model import Model  # noqa: E402
from export.tokenizer import read_folder_tokenizer  # noqa: E402

SOURCES = [os.path.join(ROOT, 'src', name + '.c')
           for name in ('tokens/tokenizer', 'tokens/encode', 'tokens/split', 'tokens/nfc', 'tokens/unicode',
                        'base/util')]
# The commands of test_tokenizer.c, and three of our own: the class of every code point, the words of texts by a
# pattern, and the ids of control tokens.
DRIVER = r'''
#define main tokenizer_main
#include "%s/tests/test_tokenizer.c"
#undef main
#include "%s/src/tokens/tokenizer_private.h"
int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "classes") == 0) {
        static uint8_t classes[N_CODE_POINTS];
        unicode_classes(classes);
        for (int code = 0; code < N_CODE_POINTS; code++) putchar('0' + classes[code]);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "words") == 0) {
        size_t length;
        static Tokenizer tokenizer;
        tokenizer.head.split = atoi(argv[2]);
        unicode_classes(tokenizer.classes);
        for (char *text; (text = read_record(&length)); free(text), putchar('\n'))
            for (size_t at = 0, n; at < length; at += n)
                printf("%%zu ", n = split_word(&tokenizer, text + at, length - at));
        return 0;
    }
    if (argc < 4 || strcmp(argv[1], "special") != 0) return tokenizer_main(argc, argv);
    Error err;
    Tokenizer *tokenizer = tokenizer_open(argv[2], atoi(argv[3]), &err);
    for (int i = 4; tokenizer && i < argc; i++) printf("%%d\n", tokenizer_special(tokenizer, argv[i]));
    tokenizer_free(tokenizer);
    return tokenizer ? 0 : 1;
}
''' % (ROOT, ROOT)

unchecked = set()  # by the library, which is not here
folder = program = None


def check(ok, what, *details):
    return common.check(ok, what, details)


def run(*arguments, inputs=()):
    """Standard output; a crash, a sanitizer's report or an error is a failed check."""
    data = b''.join(struct.pack('<I', len(x)) + x for x in inputs)
    done = subprocess.run([program, *map(str, arguments)], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        check(False, ' '.join(map(str, arguments)), done.returncode, done.stderr.decode(errors='replace')[:400])
    return done.stdout


# ---- the reference ----

def kind_of(char):
    letter_or_number = {'L': 'letter', 'N': 'number'}.get(unicodedata.category(char)[0], 'other')
    return 'space' if ord(char) in SPACES else letter_or_number


SPACES = {*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
letter, number, space, other = (lambda c, k=k: kind_of(c) == k for k in ('letter', 'number', 'space', 'other'))


def one_of(chars):
    return lambda c: c in chars


def not_a_word(c):
    return c not in '\r\n' and kind_of(c) not in ('letter', 'number')


MANY = 1 << 30
END = 'not before anything but a space'  # (?!\S)
MAYBE_ENDING = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"


def endings(fold):
    for ending in 's', 't', 're', 've', 'm', 'll', 'd':
        yield [(one_of("'"), 1, 1)] + [(one_of(c + (c.upper() + '\u017f' * (c == 's')) * fold), 1, 1) for c in ending]


SPACE_RUNS = [[(space, 1, MANY), END], [(space, 1, MANY)]]
PATTERNS = {
    'llama3': [*endings(True), [(not_a_word, 0, 1), (letter, 1, MANY)], [(number, 1, 3)],
               [(one_of(' '), 0, 1), (other, 1, MANY), (one_of('\r\n'), 0, MANY)],
               [(space, 0, MANY), (one_of('\r\n'), 1, MANY)], *SPACE_RUNS],
    'gpt2': [*endings(False), *([(one_of(' '), 0, 1), (kind, 1, MANY)] for kind in (letter, number, other)),
             *SPACE_RUNS]}
def cased(*categories):
    return lambda c: unicodedata.category(c) in (*categories, 'Lm', 'Lo', 'Mn', 'Mc', 'Me')


for name, more, digits in ('gpt4o', [MAYBE_ENDING], 3), ('tekken', [], 1):
    PATTERNS[name] = [[(not_a_word, 0, 1), (cased('Lu', 'Lt'), 0, MANY), (cased('Ll'), 1, MANY)] + more,
                      [(not_a_word, 0, 1), (cased('Lu', 'Lt'), 1, MANY), (cased('Ll'), 0, MANY)] + more,
                      [(number, 1, digits)], [(one_of(' '), 0, 1), (other, 1, MANY), (one_of('\r\n/'), 0, MANY)],
                      [(space, 0, MANY), (one_of('\r\n'), 1, MANY)], *SPACE_RUNS]
def han(char):
    """By its name: all ideographs are of the script, and so are radicals and a few signs."""
    return unicodedata.name(char, '').startswith(('CJK UNIFIED', 'CJK COMPATIBILITY IDEO', 'CJK RADICAL', 'KANGXI')) or (
        char in '\u3005\u3007\u3021\u3029\u3038\u303b')


def cased_but_han(*categories):
    return lambda c: cased(*categories)(c) and not han(c)


PATTERNS['kimi'] = [
    [(han, 1, MANY)],
    [(not_a_word, 0, 1), (cased_but_han('Lu', 'Lt'), 0, MANY), (cased_but_han('Ll'), 1, MANY), MAYBE_ENDING],
    [(not_a_word, 0, 1), (cased_but_han('Lu', 'Lt'), 1, MANY), (cased_but_han('Ll'), 0, MANY), MAYBE_ENDING],
    [(number, 1, 3)], [(one_of(' '), 0, 1), (other, 1, MANY), (one_of('\r\n'), 0, MANY)],
    [(space, 0, MANY), (one_of('\r\n'), 1, MANY)], *SPACE_RUNS]
# The last of DeepSeek V3's three, which sees what is between numbers and CJK.
PATTERNS['deepseek'] = [
    [(lambda c: '!' <= c <= '~' and not c.isalnum(), 1, 1), (lambda c: c.isascii() and c.isalpha(), 1, MANY)],
    [(lambda c: c not in '\r\n' and unicodedata.category(c)[0] not in 'LPS', 0, 1),
     (lambda c: unicodedata.category(c)[0] in 'LM', 1, MANY)],
    [(one_of(' '), 0, 1), (lambda c: unicodedata.category(c)[0] in 'PS', 1, MANY), (one_of('\r\n'), 0, MANY)],
    [(space, 0, MANY), (one_of('\r\n'), 1, MANY)], *SPACE_RUNS]
# Qwen 3.5's words have marks beside letters.
PATTERNS['qwen35'] = [
    *endings(True), [(not_a_word, 0, 1), (lambda c: unicodedata.category(c)[0] in 'LM', 1, MANY)], [(number, 1, 1)],
    [(one_of(' '), 0, 1), (lambda c: other(c) and unicodedata.category(c)[0] != 'M', 1, MANY),
     (one_of('\r\n'), 0, MANY)], [(space, 0, MANY), (one_of('\r\n'), 1, MANY)], *SPACE_RUNS]
PATTERNS['qwen2'] = [[(number, 1, 1)] if parts == [(number, 1, 3)] else parts for parts in PATTERNS['llama3']]


def match(parts, text, at):
    """Where the regex of these parts ends when it begins at `at`, or None; greedy, and going back."""
    if not parts:
        return at
    if parts[0] == MAYBE_ENDING:
        tries = (match(ending + parts[1:], text, at) for ending in [*endings(True), []])
        return next((end for end in tries if end is not None), None)
    if parts[0] == END:
        return match(parts[1:], text, at) if at == len(text) or kind_of(text[at]) == 'space' else None
    accepts, low, high = parts[0]
    stops = [at]
    while len(stops) <= high and stops[-1] < len(text) and accepts(text[stops[-1]]):
        stops.append(stops[-1] + 1)
    for stop in reversed(stops[low:]):
        end = match(parts[1:], text, stop)
        if end is not None:
            return end
    return None


def split(pattern, text):
    if pattern == 'digits':
        parts, start = [], 0
        for i, char in enumerate(text):
            if kind_of(char) == 'number':
                parts += [text[start:i], char]
                start = i + 1
        for part in parts + [text[start:]]:
            yield from [part] if part and kind_of(part[0]) == 'number' else split('gpt2', part)
        return
    if pattern == 'deepseek':
        for part in runs_of(text, number, 3):
            for part in [part] if number(part[0]) else runs_of(part, is_cjk, MANY):
                yield from [part] if number(part[0]) or is_cjk(part[0]) else found_in(part)
        return
    at = 0
    while at < len(text):
        end = next(end for end in (match(parts, text, at) for parts in PATTERNS[pattern]) if end is not None)
        yield text[at:end]
        at = end


def is_cjk(char):
    return '\u4e00' <= char <= '\u9fa5' or '\u3040' <= char <= '\u30ff'


def runs_of(text, kind, most):
    """The text cut at runs of a kind, of at most so many characters, which are parts, too."""
    parts = []
    for char in text:
        if parts and kind(char) == kind(parts[-1][0]) and (not kind(char) or len(parts[-1]) < most):
            parts[-1] += char
        else:
            parts.append(char)
    return parts


def found_in(text):
    """What DeepSeek's last regex finds, and what is between its finds."""
    at, start = 0, 0
    while at < len(text):
        end = next((end for end in (match(parts, text, at) for parts in PATTERNS['deepseek']) if end is not None), None)
        if end is None:
            at += 1
            continue
        yield from [text[start:at], text[at:end]] if start < at else [text[at:end]]
        at = start = end
    yield from [text[start:]] if start < len(text) else []


def merged(symbols, rank):
    """The symbols after all merges: rank(a, b) says when a pair's turn is, None never."""
    while True:
        turns = [(rank(a, b), i) for i, (a, b) in enumerate(zip(symbols, symbols[1:])) if rank(a, b) is not None]
        if not turns:
            return symbols
        i = min(turns)[1]
        symbols = symbols[:i] + [symbols[i] + symbols[i + 1]] + symbols[i + 2:]


INVERSE = {byte: char for char, byte in bytelevel.ALPHABET.items()}


def in_alphabet(data):
    return ''.join(INVERSE[byte] for byte in data)


KNOWN = set(unicode_runs.code_points(unicode_runs.NORMALIZED))  # test_tables_are_fixed holds them


def nfc(text):
    """Normalization Form C of Unicode 9.0, which the library has: a newer character stays, and joins nothing."""
    def is_newer(char):
        moves = unicodedata.combining(char) or unicodedata.normalize('NFD', char) != char
        return moves and ord(char) not in KNOWN and not 0xAC00 <= ord(char) < 0xD7A4

    newer = [i for i, char in enumerate(text) if is_newer(char)]
    edges = sorted({0, len(text), *newer, *(i + 1 for i in newer)})
    parts = [(text[a:b], a in newer) for a, b in zip(edges, edges[1:])]
    composed = ''.join(part if kept else unicodedata.normalize('NFC', part) for part, kept in parts)
    return ''.join(unicodedata.normalize('NFD', c) if is_newer(c) and c not in text else c for c in composed)


class Reference:
    """What the library makes of a tokenizer.json, when it takes special tokens for text."""

    def __init__(self, spec, pattern):
        model = spec['model']
        self.vocab, self.pattern, self.ignore = model['vocab'], pattern, model.get('ignore_merges')
        self.ranks = {tuple(m.split(' ') if isinstance(m, str) else m): i for i, m in enumerate(model['merges'])}
        self.added = sorted(spec['added_tokens'], key=lambda token: -len(token['content']))
        steps = spec['pre_tokenizer'] or {}
        self.prefix = steps.get('type') == 'ByteLevel' and steps['add_prefix_space']
        self.nfc = (spec['normalizer'] or {}).get('type') == 'NFC'

    def word(self, text):
        chars = in_alphabet(text.encode())
        if self.ignore and chars in self.vocab:
            return [self.vocab[chars]]
        symbols = [c for c in chars if c in self.vocab]
        return [self.vocab[s] for s in merged(symbols, lambda a, b: self.ranks.get((a, b)))]

    def encode(self, text):
        ids, start, at = [], 0, 0

        def flush(part):
            if part and self.prefix and part[0] != ' ':
                part = ' ' + part
            if self.nfc:
                part = nfc(part)
            for word in split(self.pattern, part):
                ids.extend(self.word(word))

        while at < len(text):
            token = next((token for token in self.added if text.startswith(token['content'], at)), None)
            if token and not token['special']:
                flush(text[start:at])
                ids.append(token['id'])
                start = at + len(token['content'])
            at += len(token['content']) if token else 1
        flush(text[start:])
        return ids


# ---- texts and tokenizers to try ----

def replaced(data):
    """Bytes as text, U+FFFD for each byte that is in no character."""
    out = ''
    while data:
        for n in 1, 2, 3, 4:
            try:
                out, data = out + data[:n].decode(), data[n:]
                break
            except UnicodeDecodeError:
                if n == 4 or n > len(data):
                    out, data = out + '\ufffd', data[1:]
                    break
    return out


PIECES = [
    ["'s", "'S", "'\u017f", "'t", "'T", "'re", "'rE", "'VE", "'ve", "'m", "'ll", "'Ll", "'L", "'d", "'", "'x", "''s",
     "\u2019s"],
    [' ', ' ', '  ', '   ', '\t', '\n', '\n', '\r', '\r\n', '\n\n', '\xa0', '\u3000', '\u2028', '\x85', '\x0b', '\x1c',
     '\x1f', '\u200b', '\ufeff'],
    list('0123456789') + ['12', '345', '\u0663', '\u00b2', '\u00bd', '\u2167', '\u3007', '\U0001d7d8'],
    ['a', 'b', 'ab', 'aba', 'the', ' the', 'The', 'hello', '\xe9', '\xdf', '\u0436', '\u4e2d\u6587', '\u3042', '\ud55c',
     '\u05d0', '\u0915\u093f', 'e\u0301', '\u01c5', '\xaa', '\u02b0', '\U00010400', '\U00020000'],
    list('.,;:!?-=_*/\\(){}[]<>|@#$%^&~"`+') +
    ['...', '----', '\u2014', '\u20ac', '\u2122', '\U0001f600', '\U0001f468\u200d\U0001f469', '\U0001f1e9\U0001f1ea',
     '\ufffd', '\x00', '\x7f', '\ue000', '\U0010ffff'],
    ['<|end|>', '<|end', '|>', 'pad', ' pad', '<tool>', '<tool', '<tool>>', 'xyz', 'xy', '<s>', '</s>', '<0x41>',
     '\u2581', ' \u2581']]


def make_texts(rng, usable, count):
    texts = ['', 'a', ' ', '\n', "'", 'a' * 40, ' ' * 30 + 'x', '\n \n  a', '  \r\n\r\n  b',
             "I'LL we'\u017fee they'REed 'tis", '1234567 89']
    for _ in range(count):
        weights = [rng.random() ** 2 for _ in range(7)]
        texts.append(''.join(chr(rng.choice(usable)) if k == 6 else rng.choice(PIECES[k])
                             for k in rng.choices(range(7), weights, k=rng.choice((1, 2, 4, 8, 16, 40)))))
    sample = [chr(code) for plane in range(17)
              for code in rng.sample([c for c in usable if c >> 16 == plane] or [32], 40 if plane < 3 else 1)]
    texts += [''.join('%sa %s \'%s1' % (c, c, c) for c in sample[i:i + 20]) for i in range(0, len(sample), 20)]
    return [text.encode() for text in texts]


def broken_texts(rng, texts):
    bad = [b'\xff', b'\xc0\xaf', b'\xe2\x82', b'\xed\xa0\x80', b'\xf4\x90\x80\x80', b'\xf0\x9f', b'\x80', b'a\xc3',
           b"'\xc5", b' \xe2\x96']
    for text in rng.sample(texts, 40):
        i = rng.randrange(len(text) + 1)
        yield text[:i] + rng.choice(bad) + text[i:]
    yield from bad


def train(rng, texts, count):
    """Byte-level merges as a trainer finds them, some pairs for tokens that have one, all in an order of their own."""
    # Whole texts, so that merges would cross words if they could.
    rows = [list(in_alphabet(text.replace(b'|', b'').replace(b'pad', b'')[:60])) for text in texts[::2]]
    tokens, merges = {*INVERSE.values(), '<|'}, [('<', '|')]
    for _ in range(count):
        counts = {}
        for row in rows:
            for pair in zip(row, row[1:]):
                counts[pair] = counts.get(pair, 0) + 1
        pair = rng.choice(sorted(counts, key=lambda p: (-counts[p], p))[:5])
        merges.append(pair)
        tokens.add(pair[0] + pair[1])
        for n, row in enumerate(rows):
            i = 0
            while i + 1 < len(row):
                if (row[i], row[i + 1]) == pair:
                    row[i:i + 2] = [pair[0] + pair[1]]
                i += 1
    more = [(t[:i], t[i:]) for t in sorted(tokens) for i in range(1, len(t)) if t[:i] in tokens and t[i:] in tokens]
    for pair in more:
        if pair not in merges and rng.random() < 0.7:
            merges.insert(rng.randrange(len(merges) + 1), pair)
    # For ignore_merges.
    tokens |= {in_alphabet(text.encode()) for text in (' hello', 'hello', '\u4e2d\u6587', '....', '\n \n')}
    return sorted(sorted(tokens), key=lambda _: rng.random()), merges


LLAMA3_REGEX, GPT2_REGEX, QWEN2_REGEX, GPT4O_REGEX, TEKKEN_REGEX, QWEN35_REGEX, KIMI_REGEX = sorted(
    bytelevel.REGEXES, key=bytelevel.REGEXES.get)


def byte_level(**changes):
    return {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': True, **changes}


def sequence(name, *steps):
    return {'type': 'Sequence', name: list(steps)}


def added(id, content, special=True, **changes):
    return {'id': id, 'content': content, 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False,
            'special': special, **changes}


def add(spec, *contents, special=True, **changes):
    """Adds tokens with the ids that the library gives them."""
    vocab = spec['model']['vocab']
    for content in contents:
        new = len(vocab) + sum(token['id'] >= len(vocab) for token in spec['added_tokens'])
        spec['added_tokens'].append(added(vocab.get(content, new), content, special, **changes))


def template(token, id):
    return {'type': 'TemplateProcessing',
            'single': [{'SpecialToken': {'id': token, 'type_id': 0}}, {'Sequence': {'id': 'A', 'type_id': 0}}],
            'pair': [], 'special_tokens': {token: {'id': token, 'ids': [id], 'tokens': [token]}}}


def spec_of(tokens, merges, **changes):
    """A tokenizer.json without a pre-tokenizer."""
    model = {'type': 'BPE', 'dropout': None, 'unk_token': None, 'continuing_subword_prefix': None,
             'end_of_word_suffix': None, 'fuse_unk': False, 'byte_fallback': False,
             'vocab': {token: id for id, token in enumerate(tokens)}, 'merges': merges}
    return {'version': '1.0', 'truncation': None, 'padding': None, 'added_tokens': [], 'normalizer': None,
            'pre_tokenizer': None, 'post_processor': None, 'decoder': byte_level(), 'model': model, **changes}


def llama3_spec(tokens, merges):
    n = len(tokens)
    spec = spec_of(tokens, [list(pair) for pair in merges], pre_tokenizer=sequence(
        'pretokenizers', {'type': 'Split', 'pattern': {'Regex': LLAMA3_REGEX}, 'behavior': 'Isolated', 'invert': False},
        byte_level(use_regex=False)), post_processor=sequence('processors', byte_level(), template('<|begin|>', n)))
    add(spec, '<|begin|>', '<|end|>', '<|eot_id|>', 'pad')  # the last one is spelled like a word
    add(spec, '<tool>', '<tool', 'xyz', '\u4e2d', '|', special=False)
    spec['model']['ignore_merges'] = True
    return spec


def gpt2_spec(tokens, merges, pattern=None, prefix=False):
    spec = spec_of(['<|endoftext|>'] + tokens, [' '.join(pair) for pair in merges],
                   pre_tokenizer=byte_level(add_prefix_space=prefix))
    if pattern == 'digits':
        spec['pre_tokenizer'] = sequence('pretokenizers', {'type': 'Digits', 'individual_digits': True}, byte_level())
    add(spec, '<|endoftext|>')
    if prefix:
        add(spec, '<tool>', special=False, normalized=True)
    spec['model'].update(continuing_subword_prefix='', end_of_word_suffix='')
    return spec


def qwen2_spec(tokens, merges):
    spec = spec_of(tokens, [list(pair) for pair in merges], normalizer={'type': 'NFC'}, pre_tokenizer=sequence(
        'pretokenizers', {'type': 'Split', 'pattern': {'Regex': QWEN2_REGEX}, 'behavior': 'Isolated', 'invert': False},
        byte_level(use_regex=False)), post_processor=byte_level())
    add(spec, '<|endoftext|>', '<|im_start|>', '<|im_end|>')
    add(spec, '<tool>', 'e\u0301', '>', special=False)
    return spec


def cased_spec(tokens, merges, regex):
    spec = spec_of(tokens, [list(pair) for pair in merges], pre_tokenizer=sequence(
        'pretokenizers', {'type': 'Split', 'pattern': {'Regex': regex}, 'behavior': 'Removed', 'invert': True},
        byte_level(use_regex=False)), post_processor=byte_level())
    add(spec, '<|endoftext|>', '<|end|>', rstrip=True)
    add(spec, '<tool>', special=False)
    return spec


def harmony_spec(tokens, merges):
    """gpt-oss: the words of GPT-4o, and the special tokens of its turns."""
    spec = spec_of(tokens, [list(pair) for pair in merges], pre_tokenizer=sequence(
        'pretokenizers', {'type': 'Split', 'pattern': {'Regex': GPT4O_REGEX}, 'behavior': 'Isolated', 'invert': False},
        byte_level(use_regex=False)), post_processor=byte_level())
    add(spec, '<|startoftext|>', '<|endoftext|>', '<|reserved_200000|>', '<|return|>', '<|constrain|>', '<|channel|>',
        '<|start|>', '<|end|>', '<|message|>', '<|call|>')
    return spec


def deepseek_spec(tokens, merges):
    """DeepSeek V3's three splits, and an empty list of normalizers."""
    [patterns] = (patterns for patterns in bytelevel.SPLITS if len(patterns) == 3)
    steps = [{'type': 'Split', 'pattern': {'Regex': regex}, 'behavior': 'Isolated', 'invert': False}
             for regex in patterns]
    spec = spec_of(tokens, [list(pair) for pair in merges], pre_tokenizer=sequence(
        'pretokenizers', *steps, byte_level(use_regex=False)), post_processor=byte_level(),
                   normalizer=sequence('normalizers'))
    add(spec, '<|endoftext|>', '<|end|>')
    add(spec, '<tool>', special=False)
    return spec


def cased_texts(rng, count):
    """Capitals, small letters, letters without case, marks, and what may stand before and behind them."""
    few = list("AB\u00c9\u01c5\u0416\U00010400") + list("ab\u00e9\u00df\u0436\U00010428") + list(
        '\u02b0\u4e2d\u05d0\u00aa\u6f22\u3005\u3007\u2f00\u3042\U00020000\ufa0e') + list('\u0301\u0308\u093f\u20dd') + list(" .!'/\n\r\t1\u00b2\u3000_") + [
            "'s", "'LL", "'\u017f", ' A', 'Ab', 'AB\u0301c', '/\n/', '.\n/x']
    for _ in range(count):
        yield ''.join(rng.choice(few) for _ in range(rng.choice((2, 3, 4, 6, 10, 30)))).encode()


def nfc_texts(rng, count):
    """Characters that compose, and what may stand in the way."""
    marks = list('\u0301\u0300\u0308\u0323\u0327\u0338\u0345\u0334\u3099\u094d\u05bc\u1dce\u0f71\u0f72\u0315\u0653')
    others = list('aeoAEOsd<=> \xe9\u1ec7\u0344\u03b9\u1f82\u212b\u2126\u0958\u0929\u1100\u1161\u11a8\uac00\uac01\ud7a3'
                  '\u11a7\ufb2c\u2adc\u0f73\u0f76\u304b\u30ab\uf900\ufa30\U0002f800\U0001d15e\U0001109a\U000110ba\u200d'
                  '\u4e2d\u0627\u1b05\u1b35>') + ['<tool>']
    for _ in range(count):
        few = [rng.choice(marks if rng.random() < 0.5 else others) for _ in range(rng.choice((2, 3, 5, 12, 40)))]
        yield ''.join(few).encode()
    yield from (('a' + ''.join(marks) * 300).encode(), b''.join(m.encode() for m in marks), b'a\xcc')


# ---- export and compare ----

def export(spec, name='tokenizer'):
    """The tokenizer that comes out of a spec, and the file that it was written to."""
    path = os.path.join(folder, name)
    if 'model' in spec:
        with open(path + '.json', 'w') as file:
            json.dump(spec, file)
        spec = tokenizer_json.read_tokenizer_json(Job(), path + '.json')
    with open(path + '.bin', 'wb') as file:
        tokenizers.write_tokenizer(file, spec)
    return spec, path + '.bin', len(spec['tokens'])


def encode(path, size, texts):
    return [list(map(int, line.split())) for line in run('encode', path, size, inputs=texts).decode().split('\n')[:-1]]


def decode(path, size, lists):
    data, texts, at = run('decode', path, size, inputs=[struct.pack('<%di' % len(ids), *ids) for ids in lists]), [], 0
    while at < len(data):
        length, = struct.unpack_from('<I', data, at)
        texts.append(data[at + 4:at + 4 + length])
        at += 4 + length
    return texts


LIBRARY = """
const { Tokenizer } = require(process.argv[1] + '/node_modules/tokenizers');
const [spec, texts] = JSON.parse(require('fs').readFileSync(0));
const tokenizer = Tokenizer.fromString(spec);
(async () => {
  for (const text of texts)
    console.log((await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds().join(' '));
})();
"""


def compare_with_library(name, spec, texts, ids):
    """It cannot be told here to take special tokens for text, so texts that spell one are left out."""
    place = os.environ.get('NODE_TOKENIZERS')
    if not place:
        unchecked.add(name)
    if not place or 'model' not in spec:
        return
    specials = [token['content'] for token in spec['added_tokens'] if token['special']]
    pairs = [(replaced(text), found) for text, found in zip(texts, ids)]
    pairs = [(text, found) for text, found in pairs if not any(special in text for special in specials)]
    done = subprocess.run(['node', '-e', LIBRARY, place], input=json.dumps([json.dumps(spec), [p[0] for p in pairs]]),
                          stdout=subprocess.PIPE, universal_newlines=True)
    wanted = [list(map(int, line.split())) for line in done.stdout.split('\n')[:-1]]
    wrong = [i for i in range(len(pairs)) if i >= len(wanted) or pairs[i][1] != wanted[i]]
    check(not wrong, '%s: ids of %d of %d texts are not the library\'s' % (name, len(wrong), len(pairs)),
          *[(pairs[i][0][:60], pairs[i][1][:20], wanted[i:i + 1]) for i in wrong[:2]])


def compare_out_again(name, path, size, texts, ids):
    """tokenizer.bin carried out, for Hugging Face and for llama.cpp, and brought in again, gives the same ids; so does
    the library, of the tokenizer.json that was written."""
    tokenizer = tokenizer_bin.read_tokenizer_bin(Job(), path, size)
    model = Model(vocab_size=size)
    try:
        spec = json.loads(json.dumps(out_tokenizer.tokenizer_json(Job(), path, tokenizer)))
        _, again, again_size = export(spec, 'again')
        check(encode(again, again_size, texts) == ids, name + ': carried out to tokenizer.json and in again')
        compare_with_library(name + ', carried out', spec, texts, ids)
        settings = out_tokenizer.gguf_tokenizer(Job(), tokenizer, model)
        values = {key: value[1] if kind == 9 else value for key, (kind, value) in settings.items()}
        back = tokenizers.read_gguf_tokenizer(Job(), 'x.gguf', values, replace(model))
    except Problem as problem:
        return check(False, name + ': carried out', problem)
    if back['flags'] != tokenizer['flags']:  # what GGUF cannot say: a note told it
        back.update({key: tokenizer[key] for key in ('flags', 'takes_spaces', 'as_symbols')})
    _, again, again_size = export(back, 'again')
    check(encode(again, again_size, texts) == ids, name + ': carried out to GGUF and in again')


def compare_ids(name, spec, reference, texts):
    _, path, size = export(spec)
    ids = encode(path, size, texts)
    wanted = [reference(replaced(text)) for text in texts]
    wrong = [i for i in range(len(texts)) if i >= len(ids) or ids[i] != wanted[i]]
    check(not wrong, '%s: ids of %d of %d texts' % (name, len(wrong), len(texts)),
          *[(texts[i][:60], ids[i:i + 1], wanted[i]) for i in wrong[:2]])
    compare_with_library(name, spec, texts, ids)
    compare_out_again(name, path, size, texts, ids)
    return path, size, ids


def compare(name, spec, reference, texts, same_text=lambda text: text):
    path, size, ids = compare_ids(name, spec, reference, texts)
    back, wanted = decode(path, size, ids), [same_text(replaced(text)).encode('utf-8', 'surrogateescape')
                                             for text in texts]
    wrong = [i for i in range(len(texts)) if i >= len(back) or back[i] != wanted[i]]
    check(not wrong, '%s: %d texts decoded again' % (name, len(wrong)),
          *[(texts[i][:60], back[i:i + 1]) for i in wrong[:2]])


def refused(name, spec, *words):
    """Exports that must fail with one line that has these words."""
    try:
        export(spec)
    except Problem as problem:
        text = str(problem)
        check('\n' not in text and all(word in text for word in words), 'refused: %s, but not with %s' % (name, words),
              text)
    else:
        check(False, 'refused: ' + name)


def test_classes():
    """Returns the code points that this Python and the tables agree about."""
    classes = run('classes').decode()
    names = 'other', 'letter', 'number', 'space', 'other', 'other'
    finer = {'M': '4', 'P': '5', 'S': '5'}
    newer = tuple(map(int, unicodedata.unidata_version.split('.'))) > (16, 0, 0)
    wrong, usable = [], []
    for code, digit in enumerate(classes):
        assigned = unicodedata.category(chr(code)) not in ('Cn', 'Cs')
        fine = digit in '123' or digit == finer.get(unicodedata.category(chr(code))[0], '0')
        if names[int(digit)] == kind_of(chr(code)) and fine:
            usable += [code] if assigned else []
        elif assigned and not (newer and digit == '0'):  # what Unicode 17 or later has assigned, the tables do not know
            wrong.append(hex(code))
    check(len(classes) == 0x110000 and not wrong,
          'classes of code points, Unicode %s here' % unicodedata.unidata_version, wrong[:9])
    check(classes.count('1') == 141028 and classes.count('2') == 1911 and classes.count('3') == 25,
          'numbers of letters, numbers, spaces')
    check(classes.count('4') == 2501 and classes.count('5') == 9369, 'numbers of marks, of signs')
    return usable


def test_tables_are_fixed():
    """Rules do not depend on the Python that exports: those of Form C are what Python 3.6, of Unicode 9.0, has in its
    tables, and those of cases what the Unicode Character Database 16.0 has."""
    class Newer:
        """Tables of a Python to come, in which more characters have a class."""
        decomposition, normalize = unicodedata.decomposition, unicodedata.normalize

        @staticmethod
        def combining(char):
            return unicodedata.combining(char) or 230 * (unicodedata.category(char) == 'Cn')

        @staticmethod
        def category(char):
            return 'Lu'

    for tables in unicodedata, Newer:
        bytelevel.unicodedata = tables
        for rules, n, sum in (bytelevel.normalization_rules(bytelevel.NFC), 5158, 3009839726), (bytelevel.case_rules(), 6596, 3130390393):
            data = [struct.pack('<3i', *rule) for rule in rules]
            check((len(data), zlib.crc32(b''.join(data))) == (n, sum), 'rules of every Python are the same', len(data))
    bytelevel.unicodedata = unicodedata
    runs = unicode_runs
    kinds = {'Lu': runs.CAPITALS, 'Lt': runs.CAPITALS, 'Ll': runs.SMALL_LETTERS, 'Mn': runs.MARKS, 'Mc': runs.MARKS}
    sets = {text: set(runs.code_points(text)) for text in kinds.values()}
    own = [code for code in range(0x110000) if unicodedata.category(chr(code)) in kinds]
    if tuple(map(int, unicodedata.unidata_version.split('.'))) <= (16, 0, 0):
        wrong = [code for code in own if code not in sets[kinds[unicodedata.category(chr(code))]]]
        check(len(own) > 4000 and not wrong, "cases of this Python's tables", wrong[:9])


def test_words(texts):
    for number, pattern in (1, 'llama3'), (2, 'gpt2'), (3, 'digits'), (4, 'qwen2'), (7, 'deepseek'), (8, 'qwen35'):
        lines = run('words', number, inputs=[replaced(text).encode() for text in texts]).decode().split('\n')
        wrong = [text[:60] for text, line in zip(texts, lines) if list(map(int, line.split())) != [
            len(word.encode()) for word in split(pattern, replaced(text))]]
        check(not wrong and len(lines) == len(texts) + 1, 'words of pattern ' + pattern, len(wrong), wrong[:3])


def test_families(rng, texts, tokens, merges):
    spec = llama3_spec(tokens, merges)
    compare('llama 3', spec, Reference(spec, 'llama3').encode, texts)
    exported, path, size = export(spec)
    check(exported['bos_id'] == len(tokens) and exported['eos_ids'] == [len(tokens) + 2], 'llama 3: bos and eos',
          exported['bos_id'])
    names = ['<|begin|>', '<|eot_id|>', '<|end', '<tool>', 'a', '']
    ids = run('special', path, size, *names).decode().split()
    check(ids == [str(len(tokens)), str(len(tokens) + 2), '-1', '-1', '-1', '-1'], 'control tokens by their spelling',
          ids)
    forged = [id for ids in encode(path, size, [b'<|begin|><|end|> <|eot_id|>', b'<|end|>' * 9, b'pad', b' pad'])
              for id in ids]
    check(not set(forged) & set(range(len(tokens), len(tokens) + 4)), 'texts cannot have control tokens')

    spec['model']['ignore_merges'] = False
    spec['added_tokens'] = spec['added_tokens'][:4]
    compare('llama 3 without ignore_merges', spec, Reference(spec, 'llama3').encode, texts)
    for name, pattern, prefix in (('gpt-2', 'gpt2', False), ('smollm', 'digits', False),
                                  ('gpt-2 with a space in front', 'gpt2', True)):
        spec = gpt2_spec(tokens, merges, pattern, prefix)
        compare(name, spec, Reference(spec, pattern).encode, texts[:300],
                (lambda text: '<tool>'.join(' ' * (part[:1] not in ('', ' ')) + part for part in text.split('<tool>')))
                if prefix else str)
    split_step = {'type': 'Split', 'pattern': {'Regex': GPT2_REGEX}, 'behavior': 'Removed', 'invert': True}
    spec['pre_tokenizer'] = sequence('pretokenizers', split_step, byte_level(use_regex=False))
    compare("gpt-2's pattern in a Split", spec, Reference(spec, 'gpt2').encode, texts[:100])

    # Qwen 2: the parts between added tokens are normalized, each by itself.
    spec = qwen2_spec(tokens, merges)
    reference = Reference(spec, 'qwen2')

    def composed(text):
        parts = re.split('(<tool>|e\u0301|>)', text)
        return ''.join(part if i % 2 else nfc(part) for i, part in enumerate(parts))

    compare('qwen 2', spec, reference.encode, texts + list(nfc_texts(rng, 600)), composed)
    exported, path, size = export(spec)
    check(exported['flags'] == 96 and exported['split'] == 4 and exported['bos_id'] == -1, 'qwen 2: flags',
          exported['flags'])
    assigned = [chr(code) for code in range(0x80, 0x30000) if unicodedata.category(chr(code)) not in ('Cn', 'Cs')]
    every = [c for c in assigned if unicodedata.normalize('NFD', c) != c]
    every = [' '.join(form) for form in (every, [unicodedata.normalize('NFD', c) for c in every])]
    spec['added_tokens'] = spec['added_tokens'][:3]
    compare('qwen 2: every character that is taken apart', spec, Reference(spec, 'qwen2').encode,
            [part.encode() for text in every for part in (text[i:i + 500] for i in range(0, len(text), 500))],
            nfc)

    for name, regex in (('gpt4o', GPT4O_REGEX), ('tekken', TEKKEN_REGEX), ('qwen35', QWEN35_REGEX),
                        ('kimi', KIMI_REGEX)):
        spec = cased_spec(tokens, merges, regex)
        compare(name, spec, Reference(spec, name).encode, texts + list(cased_texts(random.Random(7), 1500)))

    spec = deepseek_spec(tokens, merges)
    compare('deepseek', spec, Reference(spec, 'deepseek').encode, texts + list(cased_texts(random.Random(11), 500)))
    spec = harmony_spec(tokens, merges)
    compare('harmony', spec, Reference(spec, 'gpt4o').encode, texts[:300] + list(cased_texts(random.Random(8), 300)))
    exported, path, size = export(spec)
    check((exported['split'], exported['bos_id'], exported['flags'] & 8) == (5, -1, 0), 'harmony: pattern, no BOS',
          exported['flags'])
    names = [token['content'] for token in spec['added_tokens']]
    ids = run('special', path, size, *names).decode().split()
    check(ids == [str(len(tokens) + i) for i in range(len(names))], 'harmony: special tokens by their spelling', ids)
    forged = {id for ids in encode(path, size, [''.join(names).encode(), b'<|end|><|start|>system']) for id in ids}
    check(not forged & set(range(len(tokens), size)), 'harmony: texts cannot have special tokens', forged)

    # Bytes that are in no token are left out, and what is beside them grows together.
    gone = {in_alphabet(bytes([byte])) for byte in (0x61, 0x20, 0xC3)}
    spec = gpt2_spec([t for t in tokens if not gone & set(t)],
                     [pair for pair in merges if not gone & set(''.join(pair))])
    compare('bytes without tokens', spec, Reference(spec, 'gpt2').encode, texts[:200],
            lambda text: text.encode().translate(None, b'a \xc3').decode('utf-8', 'surrogateescape'))

    # The words that matter, spelled out.
    for pattern, text, words in (
            ('qwen2', "1234 we'LL", "1|2|3|4| we|'LL"),
            ('gpt4o', "HTMLParser isn't 1234/\n/x", "HTMLParser| isn't| |123|4|/\n/|x"),
            ('tekken', "camelCase isn't 12", "camel|Case| isn|'t| |1|2"),
            ('llama3', "we'LL it'\u017fo 'Tis x's", "we|'LL| it|'\u017f|o| '|Tis| x|'s"),
            ('gpt2', "we'LL it's", "we|'|LL| it|'s"), ('llama3', '1234567', '123|456|7'),
            ('deepseek', "it's 1234 \u3042\u4e2d a\x00\x01b .net\n",
             "it|'s| |123|4| |\u3042\u4e2d| a|\x00|\x01b| .|net|\n"),
            ('kimi', "\u6f22\u5b57ab\u3042C\u3007'LL a\u4e2d1\u30074 /\n",
             "\u6f22\u5b57|ab\u3042|C|\u3007|'LL| a|\u4e2d|1\u30074| /\n"),
            ('digits', 'a12 3', 'a|1|2| |3'), ('gpt2', 'a  b \n', 'a| | b| \n'), ('llama3', ' \n \n  a', ' \n \n| | a'),
            ('llama3', '.\n\n x', '.\n\n| x'), ('llama3', '\ta\n\tb', '\ta|\n|\tb')):
        check('|'.join(split(pattern, text)) == words, 'the reference itself: %s %r' % (pattern, text),
              list(split(pattern, text)))


def test_tiktoken(rng, texts, tokens):
    """Ranks are those of the joined token here, which is not the same as a list of pairs."""
    spelled = [bytelevel.bytes_of(token) for token in tokens]
    spelled += [b'aba', b'ab', b'ba'] * (in_alphabet(b'aba') not in tokens)
    spelled = sorted(dict.fromkeys(spelled), key=lambda t: (len(t) > 1, rng.random()))
    ranks = {token: rank for rank, token in enumerate(spelled)}
    path = os.path.join(folder, 'tiktoken.model')

    def write(*lines):
        with open(path, 'wb') as file:
            file.write(b''.join(base64.b64encode(token) + b' %d\n' % rank for token, rank in ranks.items()) +
                       b''.join(lines))

    def encode_ranks(text, pattern='llama3'):
        ids = []
        for word in split(pattern, text):
            word = word.encode()
            symbols = [word] if word in ranks else merged([bytes([byte]) for byte in word],
                                                          lambda a, b: ranks.get(a + b))
            ids += [ranks[symbol] for symbol in symbols]
        return ids

    write()
    exported = bytelevel.read_tiktoken(Job(), path, len(ranks))
    compare('tiktoken', exported, encode_ranks, texts)
    n = len(ranks)
    check(exported['bos_id'] == n and exported['eos_ids'] == [n + 1, n + 8, n + 9]
          and len(exported['tokens']) == n + 256, 'tiktoken: bos, eos')
    names = '<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>', '<|python_tag|>', '<|reserved_special_token_245|>'
    ids = run('special', export(exported)[1], n + 256, *names).decode().split()
    check(ids == [str(n + i) for i in (6, 7, 9, 10, 255)], "tiktoken: Llama 3's control tokens", ids)
    for name, line, word in (('rank', b'YWFhYWFhYQ== 7\n', 'line'), ('base64', b'Y 1\n', 'line'),
                             ('columns', b'YQ==\n', 'line'), ('count', b'YWFhYWFhYWFhYWFh %d\n' % n, 'tokens'),
                             ('repeated', b'YQ== %d\n' % n, 'line')):
        write(line)
        try:
            bytelevel.read_tiktoken(Job(), path, n)
            check(False, 'tiktoken: bad ' + name)
        except Problem as problem:
            check(word in str(problem), 'tiktoken: bad ' + name, problem)

    # Kimi's, with the tokens that its tokenizer_config.json adds.
    write()
    kimi = os.path.join(folder, 'kimi')
    os.makedirs(kimi, exist_ok=True)
    shutil.copy(path, os.path.join(kimi, 'tiktoken.model'))
    extra = {n: '[BOS]', n + 1: '[EOS]', n + 2: '<|im_end|>', n + 3: '<|im_user|>', n + 255: '[PAD]'}
    settings = {'auto_map': {'AutoTokenizer': ['tokenization_kimi.TikTokenTokenizer', None]}, 'added_tokens_decoder': {
        str(id): {'content': text, 'special': True} for id, text in extra.items()}}

    def kimis(**changes):
        with open(os.path.join(kimi, 'tokenizer_config.json'), 'w') as file:
            json.dump({**settings, **changes}, file)
        return read_folder_tokenizer(Job(), kimi, Model(vocab_size=n + 260))

    exported = kimis()
    compare('kimi', exported, lambda text: encode_ranks(text, 'kimi'), texts + list(cased_texts(random.Random(5), 300)))
    names = [exported['tokens'][n + i][0].decode() for i in (0, 2, 4, 255)]
    check(names == ['[BOS]', '<|im_end|>', '<|reserved_token_%d|>' % (n + 4), '[PAD]'], "kimi: tokens added", names)
    check((exported['bos_id'], exported['eos_ids'], exported['split'], len(exported['tokens'])) == (
        -1, [n + 1, n + 2], 9, n + 260), 'kimi: ends, pattern, size')
    for key, value in (('auto_map', {'AutoTokenizer': ['tokenization_other.X', None]}),
                       ('added_tokens_decoder', {str(n + 256): {'content': 'x', 'special': True}})):
        try:
            kimis(**{key: value})
            check(False, 'kimi: bad ' + key)
        except Problem as problem:
            check(('auto_map' if key == 'auto_map' else 'added token') in str(problem), 'kimi: bad ' + key, problem)

    # Same tokens, both rules: with (a, ba) before (ab, a), the pair on the right goes first.
    tokens = [in_alphabet(bytes([byte])) for byte in range(256)] + ['ab', 'ba', 'aba', 'xa', 'xab']
    spec = llama3_spec(tokens, [('a', 'b'), ('b', 'a'), ('a', 'ba'), ('ab', 'a')])
    spec['added_tokens'] = spec['added_tokens'][:3]
    compare('pairs have their own ranks', spec, Reference(spec, 'llama3').encode,
            [b'abaab', b'ababab', b'aababa', b'abaaba'])


def llama2_spec(rng, texts, runs=(2, 3, 4, 8)):
    """Merges of characters such as Hugging Face makes of a sentencepiece model: all pairs
    of a token, token by token."""
    chars = sorted({c for text in texts for c in replaced(text)
                    if c.isalnum() and c < '\u0500' or c in ".,!?'-"} | {'\u2581'})
    words = [('\u2581' + replaced(text).replace(' ', '\u2581')) for text in texts[:200]]
    tokens = chars[:]
    for _ in range(120):
        word = rng.choice(words)
        i = rng.randrange(len(word))
        piece = word[i:i + rng.choice((2, 2, 2, 3, 4))]
        if all(c in chars for c in piece):
            tokens += [piece[:n] for n in range(2, len(piece) + 1)]
    tokens += ['\u2581' * n for n in runs]
    order = list(dict.fromkeys(t for t in sorted(tokens, key=lambda t: (len(t), rng.random()))))
    vocab = ['<unk>', '<s>', '</s>'] + ['<0x%02X>' % byte for byte in range(256)] + order
    ids = {token: id for id, token in enumerate(vocab)}
    merges = [(t[:i], t[i:]) for t in order if len(t) > 1
              for i in sorted(range(1, len(t)), key=lambda i: (ids.get(t[:i], 0), ids.get(t[i:], 0)))
              if t[:i] in ids and t[i:] in ids]
    normalizer = sequence('normalizers', {'type': 'Prepend', 'prepend': '\u2581'},
                          {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '\u2581'})
    decoder = sequence('decoders', {'type': 'Replace', 'pattern': {'String': '\u2581'}, 'content': ' '},
                       {'type': 'ByteFallback'}, {'type': 'Fuse'},
                       {'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0})
    spec = spec_of(vocab, [' '.join(pair) for pair in merges], post_processor=template('<s>', 1),
                   normalizer=normalizer, decoder=decoder)
    spec['model'].update(unk_token='<unk>', fuse_unk=True, byte_fallback=True)
    spec['added_tokens'] = [added(id, vocab[id]) for id in range(3)]
    return spec


def by_characters(spec, always=True):
    """The ids of a text by the list of merges, with a space in front; not always, not before one that is there."""
    vocab = spec['model']['vocab']
    ranks = {tuple(m.split(' ')): i for i, m in enumerate(spec['model']['merges'])}

    def encode_characters(text):
        text = text.replace(' ', '\u2581')
        text = '\u2581' * (text != '' and (always or text[0] != '\u2581')) + text
        symbols = [s for c in text for s in ([c] if c in vocab else ['<0x%02X>' % byte for byte in c.encode()])]
        return [vocab[s] for s in merged(symbols, lambda a, b: ranks.get((a, b)))]

    return encode_characters


def runs_both_ways(spec, longest, halves, at=None):
    """Gives a tokenizer runs of spaces as published ones have them: not all merges of a token in a row, but all with
    the same left half. `halves` says in which order their lengths come, `at` where they all stand (None: last)."""
    merges, vocab = spec['model']['merges'], spec['model']['vocab']
    spelled = ['\u2581' * n for n in halves]
    runs = ['%s %s' % (a, b) for a in spelled for b in spelled if len(a + b) <= longest]
    rest = [merge for merge in merges if merge.replace(' ', '').strip('\u2581')]
    at = len(rest) if at is None else at
    check(all('\u2581' * n in vocab for n in range(2, longest + 1)), 'the reference itself: runs')
    return {**spec, 'model': {**spec['model'], 'merges': rest[:at] + runs + rest[at:]}}


def test_runs_of_spaces(rng, texts):
    """Llama 2's published merges, which make runs of spaces last, and orders that no score can say."""
    single = [text.replace(b'  ', b' ') for text in texts]
    spec = llama2_spec(rng, [b' '.join(text.split()) for text in texts], range(2, 7))
    halves = (2, 4, 6, 5, 3, 1)
    spaced = [b' ' * n + word + b' ' * (n % 9) + b'a' for n in range(33) for word in (b'', b'a', b'\n', b'the')]
    spaced += ['a\u2581 \u2581\u2581'.encode() * n for n in range(9)]
    last = runs_both_ways(spec, 6, halves)
    compare('llama 2 as published', last, by_characters(last), single[:100] + spaced,
            lambda text: text.replace('\u2581', ' '))
    first = runs_both_ways(spec, 6, (6, 5, 4, 3, 2, 1), 0)
    compare_ids('runs of spaces that are made first', first, by_characters(first), single[:50] + spaced)
    # Two spaces come before three: runs of two are made everywhere, and no scores of whole runs say the rest.
    refused('runs that do not grow', runs_both_ways(spec, 6, (1, 2, 3, 4, 5, 6)), 'merges', 'tokenizer.model')
    torn = runs_both_ways(spec, 6, halves)
    torn['model']['merges'].insert(0, torn['model']['merges'].pop())
    refused('runs apart', torn, 'merges')
    word = runs_both_ways(spec, 6, halves)
    word['model']['vocab']['\u2581\u2581a'] = len(word['model']['vocab'])
    word['model']['merges'].insert(0, '\u2581\u2581 a')
    refused('a run in a word, before runs are made', word, 'run of spaces')


def test_ids_with_holes():
    """cl100k and o200k leave ids out in front of their special tokens."""
    letters = [chr(c) for c in range(0x21, 0x7F)]
    spec = spec_of(letters, [], pre_tokenizer=byte_level(add_prefix_space=False))
    n = len(letters)
    spec['model']['vocab'].update({'<|endoftext|>': n + 1, '<|fim|>': n + 5})
    spec['added_tokens'] = [added(n + 1, '<|endoftext|>', True), added(n + 5, '<|fim|>', True)]
    add_behind = copy.deepcopy(spec)
    add_behind['added_tokens'].append(added(n + 6, 'xyz', False))  # the library counts on from the greatest id
    exported, path, size = export(add_behind)
    check(size == n + 7 and [exported['tokens'][id][2] for id in (n, n + 1, n + 2, n + 6)] == [5, 3, 5, 4],
          'holes in the ids: unused tokens', exported['tokens'][n:])
    check(encode(path, size, [b'ab', b'axyzb']) == [[64, 65], [64, n + 6, 65]], 'holes in the ids: texts')
    refused('an id twice', spec_of([], [], model={**spec['model'], 'vocab': {'a': 0, 'b': 0}}), 'model.vocab')


def test_special_tokens_of_the_vocabulary():
    """Tekken has its special tokens in the vocabulary, and words that are tokens are not merged: a special token must
    be none that a text's words can be."""
    letters = [chr(c) for c in range(0x21, 0x7F)]
    for content, is_word in (('[INST]', False), ('[/INST]', False), ('<s>', False), ('<|im_end|>', False),
                             ('<0>', False), ("[don't]", False), ('INST', True), ("don't", True), ('[INST', True),
                             ('<<', True), ('9', True)):
        spec = cased_spec(letters + [content] * (len(content) > 1), [], TEKKEN_REGEX)
        spec['model']['ignore_merges'] = True
        add(spec, content)
        if is_word:
            refused('special %s' % content, spec, 'special')
        else:
            exported, path, size = export(spec)
            check(exported['tokens'][len(letters)][2] == 3 and len(letters) not in encode(path, size, [
                content.encode()])[0], 'special %s: a text cannot spell it' % content)


def test_form_kc():
    """NFKC by the exporter's rules, beside Python's own, whose tables have more characters."""
    letters = [bytelevel_letter(byte) for byte in range(256)]
    spec = spec_of(letters, [], normalizer={'type': 'NFKC'}, pre_tokenizer=byte_level(add_prefix_space=False))
    exported, path, size = export(spec)
    texts = ['\ufb01\u00b2\u2460 x\u00a0y', '\ufdfa', '\u1e9b\u0323', '\uff76\uff9e \uffa1', '\u3392\u212b',
             'e\u0301 \u00bd', '\uac00\u11a8 \u3131', '\u00a8', '\u32ff']  # the last came after Unicode 9.0
    wanted = [unicodedata.normalize('NFKC', text) if text != '\u32ff' else text for text in texts]
    found = encode(path, size, [text.encode() for text in texts])
    check(found == [list(text.encode()) for text in wanted], 'NFKC', found)
    every = sorted({*unicode_runs.code_points(unicode_runs.COMPATIBLE)})
    found = encode(path, size, [chr(code).encode() for code in every])
    wrong = [hex(code) for code, ids in zip(every, found)
             if ids != list(unicodedata.normalize('NFKC', chr(code)).encode())]
    check(len(every) == 3662 and not wrong, 'NFKC of each character that only it takes apart', wrong[:5])
    out = out_tokenizer.bytelevel_parts('x', exported, ['?'] * size)
    check(out['normalizer'] == {'type': 'NFKC'}, 'NFKC goes out by its name', out['normalizer'])


def bytelevel_letter(byte):
    return next(letter for letter, its in bytelevel.ALPHABET.items() if its == byte)


def test_llama2(rng, texts):
    spec, reference = llama2_spec(rng, texts), by_characters
    vocab = spec['model']['vocab']
    compare('llama 2', spec, reference(spec), texts[:250], lambda text: text.replace('\u2581', ' '))
    first = copy.deepcopy(spec)
    first['normalizer'] = None
    first['pre_tokenizer'] = {'type': 'Metaspace', 'replacement': '\u2581', 'prepend_scheme': 'first', 'split': False}
    compare('llama 2 with Metaspace', first, reference(first, False), texts[:250],
            lambda text: text.replace('\u2581', ' ')[text[:1] in (' ', '\u2581'):])
    check(export(first)[0]['flags'] == 23 and export(spec)[0]['flags'] == 19, 'llama 2: flags')

    def changed(change):
        other = copy.deepcopy(spec)
        change(other['model']['merges'], other)
        return other

    refused('merges out of order',
            changed(lambda m, s: m.append(m.pop(next(i for i, x in enumerate(m) if x == '\u2581 \u2581\u2581')))),
            'merges')
    refused('a merge is missing', changed(lambda m, s: m.remove('\u2581 \u2581\u2581')), 'merges')
    hidden = changed(lambda m, s: m.remove('\u2581 \u2581'))
    compare('llama 2 with a token that nothing makes', hidden, reference(hidden),
            texts[:100] + [b'a  b   c    d', b'   '], lambda text: text.replace('\u2581', ' '))
    _, path, size = export(hidden)
    check(decode(path, size, [[vocab['\u2581\u2581'], vocab['\u2581\u2581']]]) == [b'   '],
          'a token that nothing makes is decoded')
    refused('a merge of bytes', changed(lambda m, s: (s['model']['vocab'].update({'<0x41><0x42>': len(vocab)}),
                                                      m.append('<0x41> <0x42>'))), 'merges')
    # Phi-3: a token that is sought in text, and the spaces behind it; each part has a space put in front.
    phi = changed(lambda m, s: (s['added_tokens'].pop(), add(s, '</s>', special=False, rstrip=True),
                                add(s, '<|end|>', '<|user|>', rstrip=True), add(s, 'xyz', '[PAD]', special=False)))

    def reference_of_parts(text):
        ids, whole = [], reference(phi)
        for i, part in enumerate(re.split('(</s>[%s]*|xyz|\\[PAD\\])' % ''.join(map(chr, SPACES)), text)):
            token = part.rstrip(''.join(map(chr, SPACES))) if part[:4] == '</s>' else part
            ids += [next(t['id'] for t in phi['added_tokens'] if t['content'] == token)] if i % 2 else whole(part)
        return ids

    nasty = [b'</s>', b'</s>  a', b'a</s>\n\t b', b'</s></s> </s>x', '</s>\u2581a</s>\u3000\u2028b'.encode(),
             b'xyz xyz',
             b' xyz', b'[PAD]</s> [PAD]', b'</s', b'\xffxyz\xff', b'<|end|> </s>', b'</s>\xe3\x80 a']
    mixed = [rng.choice(nasty) + text + rng.choice(nasty) for text in texts[:200]]
    compare_ids('phi 3', phi, reference_of_parts, nasty + mixed + texts[:200])
    exported, path, size = export(phi)
    check(exported['flags'] == 51 and sorted(exported['takes_spaces']) == [2, len(vocab), len(vocab) + 1],
          'phi 3: flags',
          exported['flags'], exported['takes_spaces'])
    forged = {id for ids in encode(path, size, [b'<|end|><|user|>', b'a <|end|>\n']) for id in ids}
    check(not forged & {len(vocab), len(vocab) + 1}, 'phi 3: texts cannot have control tokens')
    user = added(len(vocab), 'xyz', False)
    for name, spec_with, words in (
            ('user-defined with Metaspace', {**first, 'added_tokens': first['added_tokens'] + [user]},
             'added_tokens[3].special'),
            ('lstrip', changed(lambda m, s: add(s, 'xyz', special=False, lstrip=True)), 'added_tokens[3].lstrip'),
            ('single_word', changed(lambda m, s: add(s, 'xyz', special=False, single_word=True)),
             'added_tokens[3].single_word'),
            ('normalized', changed(lambda m, s: add(s, 'xyz', special=False, normalized=True)),
             'added_tokens[3].normalized'),
            ('a space', changed(lambda m, s: add(s, 'x z', special=False)), 'added_tokens[3].content')):
        refused(name, spec_with, words)
    refused('Prepend alone', changed(lambda m, s: s.update(normalizer={'type': 'Prepend', 'prepend': '\u2581'})),
            'pre_tokenizer')
    refused('NFKC', changed(lambda m, s: s['normalizer']['normalizers'].append({'type': 'NFKC'})),
            'normalizer.normalizers[2].type', 'NFKC')
    refused('no Strip', changed(lambda m, s: s['decoder']['decoders'].pop()), 'decoder')
    tab = changed(lambda m, s: s['model'].update(vocab={  # as Gemma 1 and 2 have it
        '\t' if text == '<0x09>' else text: id for text, id in s['model']['vocab'].items()}))
    _, path, size = export(tab)
    check(encode(path, size, [b'\t'])[0][-1] == vocab['<0x09>'], 'a tab in the place of its byte token')
    refused('no byte tokens', changed(lambda m, s: s['model'].update(byte_fallback=False)), 'model.byte_fallback')
    refused('no unknown token', changed(lambda m, s: s['model'].update(unk_token=None)), 'model.unk_token')
    refused('Metaspace that splits', {**first, 'pre_tokenizer': {**first['pre_tokenizer'], 'split': True}},
            'pre_tokenizer.split')


def gemma_spec(rng, texts):
    """Llama 2's kind without the space in front, and with what is peculiar to Gemma: a Split that finds no space any
    more, lines and placeholders that are cut out of texts, though merges make some of them, and runs of spaces that are
    added tokens and made by merges all the same: first of all, and not token by token, as in the published file."""
    spec = llama2_spec(rng, texts, range(2, 8))
    spec = runs_both_ways(spec, 7, (7, 6, 5, 4, 3, 2, 1), 0)
    vocab, merges = spec['model']['vocab'], spec['model']['merges']
    spec['normalizer'] = {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '\u2581'}
    spec['pre_tokenizer'] = {'type': 'Split', 'pattern': {'String': ' '}, 'behavior': 'MergedWithPrevious',
                             'invert': False}
    spec['decoder']['decoders'].pop()
    lines = ['\n' * n for n in (1, 2, 3, 4)]
    for token in lines + ['<unused0>', '<table>', '<start_of_turn>']:
        vocab[token] = len(vocab)
    for i in range(1, 4):  # between those of runs, as in the published file: nothing is made of lines
        merges[2 * i:2 * i] = [' '.join((line[:i], line[i:])) for line in lines if line[i:]]
    add(spec, *lines, '<unused0>', '<table>', '\u2581' * 2, '\u2581' * 4, special=False)
    add(spec, '<start_of_turn>', '<image>')
    spec['model']['merges'] = [merge.split(' ') for merge in merges]  # as newer files have them
    return spec


def test_gemma(rng, texts):
    spec = gemma_spec(rng, texts)
    vocab = spec['model']['vocab']
    ranks = {tuple(pair): i for i, pair in enumerate(spec['model']['merges'])}

    def reference(text):
        ids = []
        for i, part in enumerate(re.split('(\n{1,4}|<unused0>|<table>|\u2581{4}|\u2581{2})', text)):
            symbols = [symbol for c in part.replace(' ', '\u2581')
                       for symbol in ([c] if c in vocab else ['<0x%02X>' % byte for byte in c.encode()])]
            ids += [vocab[part]] if i % 2 else [vocab[x] for x in merged(symbols, lambda a, b: ranks.get((a, b)))]
        return ids

    nasty = [b'\n', b'\n\n\n\n\n\n\n', b'a\n \n  b', b'<table>\n<unused0>x', b' <table> ', b'        ', b'<tab', b'',
             b'user\nHi <start_of_turn>', b'\xff\n\xff', ('é\n' * 9).encode()]
    nasty += ['%s%s%s' % (a, b, c) for n in range(1, 10) for a in ('', ' ', 'a', '   ') for b in (
        '\u2581' * n, '\u2581' * n + ' ' * n) for c in ('', ' ', 'a', '\n\u2581', '  \u2581\u2581')]
    nasty = [text if isinstance(text, bytes) else text.encode() for text in nasty]
    mixed = nasty + [rng.choice(nasty) + text + rng.choice(nasty) for text in texts[:200]]
    compare('gemma', spec, reference, mixed, lambda text: text.replace('\u2581', ' '))
    exported, path, size = export(spec)
    check({exported['tokens'][id][0] for id in exported['as_symbols']} == {b'  ', b'    '},
          'gemma: runs that are also cut out as U+2581', exported['as_symbols'])
    compare_cut_runs(exported, mixed)
    check(exported['flags'] == 2 + 16 + 32 and exported['bos_id'] == 1, 'gemma: flags', exported['flags'])
    forged = {id for ids in encode(path, size, [b'<start_of_turn><image>']) for id in ids}
    check(not forged & {vocab['<start_of_turn>'], len(vocab)}, 'gemma: texts cannot have control tokens')

    def changed(**changes):
        return {**spec, **changes}

    strips = copy.deepcopy(spec)
    next(token for token in strips['added_tokens'] if token['content'] == '\u2581\u2581')['rstrip'] = True
    refused('a run that strips', strips, 'rstrip')
    refused('a Split at something else', changed(pre_tokenizer={**spec['pre_tokenizer'], 'pattern': {'String': 'a'}}),
            'pre_tokenizer.pattern')
    refused('a Split that cuts otherwise', changed(pre_tokenizer={**spec['pre_tokenizer'], 'behavior': 'Removed'}),
            'pre_tokenizer.behavior')
    refused('a Split before there is U+2581', changed(normalizer=None), 'pre_tokenizer')


def compare_cut_runs(exported, texts):
    """As Gemma's tokenizer.model has it: runs of spaces are cut out of texts, in which U+2581 is a space. That goes out
    as merges that come first."""
    runs = {id for id, (text, _, _) in enumerate(exported['tokens']) if len(text) > 1 and set(text) == {32}}
    tokens = [[b'', 0.0, 5] if b'  ' in text and id not in runs else [text, score, 4 if id in runs else kind]
              for id, (text, score, kind) in enumerate(exported['tokens'])]
    cut = {**exported, 'tokens': tokens, 'flags': 2, 'as_symbols': ()}
    _, path, size = export(cut)
    ids = encode(path, size, texts)
    longest = [n for text in texts for n in map(len, re.findall('[ \u2581]+', replaced(text)))]
    check(max(longest) > 14 and len(runs) == 6, 'the reference itself: runs of more spaces than tokens have')
    compare_out_again('gemma, runs cut out of texts', path, size, texts, ids)
    for name, changed in (('a length that is missing', [token for token in tokens if token[0] != b'   ']),
                          ('a token with two spaces', tokens + [[b'a  b', 0.0, 1]]),
                          ('a token with a space', tokens + [[b' x', 0.0, 4]])):
        try:
            out_tokenizer.tokenizer_json(Job(), 'x.bin', {**cut, 'tokens': changed})
            check(False, 'refused: runs cut out, ' + name)
        except Problem as problem:
            check('runs of spaces' in str(problem), 'refused: runs cut out, ' + name, problem)


def test_scores_out(rng, texts):
    """sentencepiece's scores as a list of merges: runs of spaces may score alike, as Llama 2's do; nothing else may,
    and every character of a token has to be one."""
    spec = llama2_spec(rng, texts)
    tokenizer, _, size = export(spec)
    runs = [id for id, (text, _, _) in enumerate(tokenizer['tokens']) if len(text) > 1 and set(text) == {32}]
    for id in runs:
        tokenizer['tokens'][id][1] = 1.0
    _, path, _ = export(tokenizer)
    spaced = texts[:100] + [b'a' + b' ' * n + b'b' * (n % 3) for n in range(40)]
    compare_out_again('runs that score alike', path, size, spaced, encode(path, size, spaced))
    made = [id for id, (text, score, kind) in enumerate(tokenizer['tokens']) if kind == 1 and len(text.decode()) > 1]
    tokens = copy.deepcopy(tokenizer['tokens'])
    twins = [id for id in made if id not in runs][:2]
    tokens[twins[0]][1] = tokens[twins[1]][1]
    lone = tokens[twins[0]][0].decode()[-1]
    for word, changed in (('scores as', tokens), ('no token', [
            [b'gone%d' % id, score, 5] if text.decode('utf-8', 'ignore') == lone else [text, score, kind]
            for id, (text, score, kind) in enumerate(tokenizer['tokens'])])):
        try:
            out_tokenizer.tokenizer_json(Job(), 'x.bin', {**tokenizer, 'tokens': changed})
            check(False, 'refused: scores, ' + word)
        except Problem as problem:
            check(word in str(problem), 'refused: scores, ' + word, problem)


def test_refusals(tokens, merges):
    base = llama3_spec(tokens, merges)

    def at(path, value):
        spec = copy.deepcopy(base)
        *steps, last = path
        part = spec
        for step in steps:
            part = part[step]
        part[last] = value
        return spec

    pre = 'pre_tokenizer', 'pretokenizers'
    for path, value, *words in (
            (('normalizer',), {'type': 'NFKD'}, 'normalizer', 'NFKD'),
            (('normalizer',), sequence('normalizers', {'type': 'NFC'}, {'type': 'NFC'}), 'normalizers[0].type'),
            (('normalizer',), {'type': 'NFC', 'more': 1}, 'normalizer.more'),
            (('normalizer',), {'type': 'Lowercase'}, 'normalizer', 'Lowercase'),
            (('model', 'type'), 'Unigram', 'model.type'),
            (('model', 'type'), 'WordPiece', 'model.type'), (('model', 'dropout'), 0.1, 'model.dropout'),
            (('model', 'continuing_subword_prefix'), '##', 'continuing_subword_prefix'),
            (('model', 'end_of_word_suffix'), '</w>', 'end_of_word_suffix'),
            (('model', 'byte_fallback'), True, 'byte_fallback'), (('model', 'new_thing'), 1, 'model.new_thing'),
            (('model', 'ignore_merges'), 'yes', 'ignore_merges'), (('model', 'vocab'), {'a': -1}, 'model.vocab'),
            (('model', 'merges'), [['a', 'nothing']], 'model.merges[0]'),
            (('model', 'merges'), ['a b c'], 'model.merges[0]'),
            (('new_thing',), {}, 'new_thing'), (('version',), '2.0', 'version'), (('decoder',), None, 'decoder.type'),
            (('decoder', 'type'), 'WordPiece', 'decoder.type'),
            ((*pre, 0, 'pattern', 'Regex'), r'\s+', 'pretokenizers[0].pattern.Regex'),
            ((*pre, 0, 'pattern'), {'String': ' '}, 'Regex'), ((*pre, 0, 'behavior'), 'MergedWithNext', 'behavior'),
            ((*pre, 0, 'behavior'), 'Removed', 'behavior'), ((*pre, 0, 'type'), 'Punctuation', 'type'),
            ((*pre, 1, 'use_regex'), True, 'type'), ((*pre, 1, 'add_prefix_space'), True, 'add_prefix_space'),
            ((*pre, 1, 'type'), 'Metaspace', 'type'), (('pre_tokenizer',), byte_level(use_regex=False), 'use_regex'),
            (('pre_tokenizer',), None, 'pre_tokenizer'),
            (('pre_tokenizer',), sequence('pretokenizers', {'type': 'Digits', 'individual_digits': False},
                                          byte_level()), 'individual_digits'),
            (('added_tokens', 4, 'lstrip'), True, 'added_tokens[4].lstrip'),
            (('added_tokens', 4, 'rstrip'), True, 'added_tokens[4].rstrip'),
            (('added_tokens', 4, 'single_word'), True, 'added_tokens[4].single_word'),
            (('added_tokens', 4, 'id'), 5, 'added_tokens[4].id'),
            (('added_tokens', 4, 'content'), '', 'added_tokens[4].content'),
            (('added_tokens', 4, 'normalized'), True, 'overlap'),
            (('added_tokens', 4, 'new_thing'), 1, 'added_tokens[4].new_thing'),
            (('added_tokens', 0, 'content'), '\u4e2d\u6587', 'another token'),
            (('added_tokens', 0, 'content'), 'x' * 1025, '1025 bytes'),
            (('added_tokens', 0, 'content'), '\ud800', 'not text'),
            (('post_processor',), {'type': 'RobertaProcessing', 'sep': ['</s>', 2], 'cls': ['<s>', 0]},
             'post_processor.type'),
            (('post_processor', 'processors', 1, 'single'), [], 'single'),
            (('post_processor', 'processors', 1, 'special_tokens', '<|begin|>', 'ids'), [1, 2], 'ids')):
        refused('.'.join(map(str, path)), at(path, value), *words)
    spec = qwen2_spec(tokens, merges)
    spec['added_tokens'][3]['normalized'] = True
    refused('normalized beside NFC', spec, 'added_tokens[3].normalized')
    spec = copy.deepcopy(base)
    spec['added_tokens'].insert(0, added(spec['model']['vocab']['a'], 'a'))
    refused('a special token that texts have', spec, 'added_tokens[0].special')
    spec = gpt2_spec([t for t in tokens if 'b' not in t], [])
    spec['model']['unk_token'] = '<|endoftext|>'
    refused('unknown bytes', spec, 'model.unk_token')


def test_gguf(texts, tokens, merges):
    spec = llama3_spec(tokens, merges)
    spec['added_tokens'] = spec['added_tokens'][:3]
    values = {'model': 'gpt2', 'pre': 'llama-bpe',
              'tokens': [t.encode() for t in tokens] + [t['content'].encode() for t in spec['added_tokens']],
              'token_type': [1] * len(tokens) + [3] * len(spec['added_tokens']),
              'merges': [' '.join(pair).encode() for pair in merges],
              'bos_token_id': len(tokens), 'eos_token_id': len(tokens) + 2}
    compare('gguf', bytelevel.read_gguf(Job(), 'x.gguf', values), Reference(spec, 'llama3').encode, texts[:150])
    spec = harmony_spec(tokens, merges)
    named = [t.encode() for t in tokens] + [t['content'].encode() for t in spec['added_tokens']]
    values = {**values, 'pre': 'gpt-4o', 'tokens': named, 'token_type': [1] * len(tokens) + [3] * 10}
    compare('gguf of gpt-oss', bytelevel.read_gguf(Job(), 'x.gguf', values), Reference(spec, 'gpt4o').encode,
            texts[:150])
    for key, value in (('pre', 'no-such-split'), ('merges', [b'a nothing']), ('token_type', [1]),
                       ('tokens', values['tokens'][1:])):
        try:
            bytelevel.read_gguf(Job(), 'x.gguf', {**values, key: value})
            check(False, 'gguf: bad ' + key)
        except Problem as problem:
            check(key in str(problem), 'gguf: bad ' + key, problem)


def test_damage(tokens, merges):
    exported, path, size = export(llama3_spec(tokens, merges))
    with open(path, 'rb') as file:
        whole = file.read()
    n_merges, eos = len(exported['merges']), len(exported['eos_ids'])
    head = len(whole) - 12 * n_merges - size - 4 * eos - 32
    types, pairs = head + 32 + 4 * eos, len(whole) - 12 * n_merges
    left, _, made = exported['merges'][0]
    control = exported['bos_id']
    cases = [('kind', head + 4, '<I', 2, 'kind'), ('kind 0', head + 4, '<I', 0, 'flags'),
             ('flags', head + 8, '<I', 2, 'flags'),
             ('flags 128', head + 8, '<I', 128, 'flags'), ('flags 64', head + 8, '<I', 64, 'size'),
             ('bos', head + 12, '<i', size, 'bos_id'),
             ('unk', head + 16, '<i', 0, 'unk_id'), ('n_eos', head + 20, '<I', 9, 'end tokens'),
             ('n_eos', head + 20, '<I', 0, 'size'), ('split 0', head + 24, '<I', 0, 'split'),
             ('split 10', head + 24, '<I', 10, 'split'), ('merges', head + 28, '<I', n_merges - 1, 'size'),
             ('merges', head + 28, '<I', 1 << 25, 'number of merges'), ('merges', head + 28, '<I', 1 << 24, 'size'),
             ('eos', head + 32, '<i', -1, 'end token'), ('type 7', types, '<B', 7, 'type'),
             ('type 6', types, '<B', 6, 'byte'), ('type 2', types, '<B', 2, 'type 2'),
             ('left', pairs, '<i', size, 'merge 0'), ('left', pairs, '<i', -1, 'merge 0'),
             ('left control', pairs, '<i', control, 'merge 0'), ('right', pairs + 4, '<i', 1 << 30, 'merge 0'),
             ('merged', pairs + 8, '<i', left, 'merge 0'), ('merged control', pairs + 8, '<i', control, 'merge 0'),
             ('merged type', types + made, '<B', 3, 'merge 0 has a bad token'),
             ('left type', types + left, '<B', 5, 'bad token'),
             ('twice', pairs + 12, '<3i', exported['merges'][0], 'same pair')]
    damaged = [(name, whole[:at] + struct.pack(kind, *value if isinstance(value, tuple) else (value,)) +
                whole[at + struct.calcsize(kind):], word)
               for name, at, kind, value, word in cases]
    damaged += [('cut', whole[:at], '') for at in range(head - 3, len(whole), max(1, (len(whole) - head) // 40))]
    damaged += [('longer', whole + b'\0', 'size'), ('longer', whole + bytes(12), 'size')]
    names = []
    for i, (_, data, _) in enumerate(damaged):
        names.append(os.path.join(folder, 'damaged%d.bin' % i))
        with open(names[-1], 'wb') as file:
            file.write(data)
    lines = run('open', size, inputs=[name.encode() for name in names]).decode().split('\n')
    for (name, _, word), line in zip(damaged, lines):
        check(line != 'ok' and word in line.split(': ', 1)[-1], 'damaged: ' + name, line)
    check(len(lines) == len(damaged) + 1, 'damaged: all were tried', len(lines))


def test_speed(tokens, merges):
    _, path, size = export(llama3_spec(tokens, merges))
    for name, text in (('one long word', b'ab' * (1 << 17)), ('spaces', b' ' * (1 << 18)),
                       ('newlines', b'\n ' * (1 << 17)), ('digits', b'1' * (1 << 18))):
        began = os.times()
        ids = encode(path, size, [text])
        spent = os.times().children_user - began.children_user
        check(ids and ids[0] and spent < 8, '%s: %.1f s' % (name, spent))


def everything(flags, count):
    """All of it, on that many texts, with a test program compiled by these flags."""
    global folder, program
    rng = random.Random(6)
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, 'driver')
        with open(program + '.c', 'w') as file:
            file.write(DRIVER)
        command = shlex.split(os.environ.get('CC', 'cc')) + ['-std=c11', '-O1', *flags, '-o', program, program + '.c',
                                                             *SOURCES, '-lm']
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if not check(done.returncode == 0, 'the test program compiles', done.stdout.decode(errors='replace')[:2000]):
            return
        usable = test_classes()
        texts = make_texts(rng, usable, count)
        tokens, merges = train(rng, texts, 150)
        texts += broken_texts(rng, texts)
        for test, *arguments in (
                (test_words, texts), (test_tables_are_fixed,), (test_families, rng, texts, tokens,
                merges), (test_tiktoken, rng, texts, tokens), (test_ids_with_holes,),
                (test_special_tokens_of_the_vocabulary,), (test_form_kc,), (test_llama2, rng, texts),
                (test_runs_of_spaces, random.Random(9), texts), (test_gemma, random.Random(4), texts),
                (test_scores_out, random.Random(3), texts), (test_refusals, tokens, merges),
                (test_gguf, texts, tokens, merges), (test_damage, tokens, merges), (test_speed,
                tokens, merges)):
            with case(test.__name__):
                test(*arguments)
    if not os.environ.get('NODE_TOKENIZERS'):
        skip('the tokenizers library on %d tokenizers (NODE_TOKENIZERS does not say where it is)' % len(unchecked))


def test_bytelevel():
    everything([], 60)


@takes_long
def test_sanitized():
    sanitizers = ['-g', '-fsanitize=address,undefined', '-fno-sanitize-recover=undefined']
    everything(sanitizers if has_sanitizers() else [], 400)


if __name__ == '__main__':
    main({'test_bytelevel': test_bytelevel, 'test_sanitized': test_sanitized})
