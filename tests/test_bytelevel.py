#!/usr/bin/env python3
"""Byte-level tokenizers (src/tokens/split.c and others, export/bytelevel.py, tokenizer_json.py).

Tokenizer files of every family are made up here, exported, and their ids compared with a reference written below from
the specification: the published split patterns go through Python's re, the merges are sought one after the other.
NODE_TOKENIZERS, if it is said, is a folder where `npm install tokenizers` was run: all ids are compared with that
library's, too."""

import base64
import collections
import copy
import functools
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unicodedata
import zlib
from dataclasses import replace

import tokenizers as programs
from common import ROOT, case, check, main, skip, takes_long
from tokenizers import rows

sys.path.insert(0, ROOT)
from export import (bytelevel, out_tokenizer, tokenizer as tokenizers, tokenizer_bin, tokenizer_json,  # noqa: E402
                    unicode_runs)
from export.common import Job, Problem  # noqa: E402
from export.model import Model  # noqa: E402
from export.tokenizer import read_folder_tokenizer  # noqa: E402

unchecked = set()  # by the library, which is not here
folder = program = None


def run(*arguments, inputs=()):
    return programs.ask([program, *arguments], inputs) or b''


# ---- the reference ----

SPACES = {*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def kind_of(char):
    letter_or_number = {'L': 'letter', 'N': 'number'}.get(unicodedata.category(char)[0], 'other')
    return 'space' if ord(char) in SPACES else letter_or_number


def is_han(char):
    """By its name: all ideographs are of the script, and so are radicals and a few signs."""
    return unicodedata.name(char, '').startswith(('CJK UNIFIED', 'CJK COMPATIBILITY IDEO', 'CJK RADICAL', 'KANGXI')) or (
        char in '\u3005\u3007\u3021\u3029\u3038\u303b')


# Planes 0 to 3, and the tags: all others have nothing assigned, or are for private use.
PLANES = *range(0x40000), *range(0xE0000, 0xE0200)
PRIVATE = *range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE)


@functools.lru_cache(None)
def code_points():
    """{category: its code points}, and of a class of categories (L), of spaces and of Han likewise."""
    of = collections.defaultdict(list, s=sorted(SPACES))
    for code in PLANES:
        of[unicodedata.category(chr(code))].append(code)
    for category in sorted(of):
        if len(category) == 2:
            of[category[0]] = sorted(of[category[0]] + of[category])
    of['Han'] = [code for category in ('Lo', 'So', 'Nl', 'Lm') for code in of[category] if is_han(chr(code))]
    return of


@functools.lru_cache(None)
def class_of(name, less=''):
    """The text between the brackets of a class of characters, without those of another class."""
    gone, runs = set(code_points()[less]) if less else (), []
    for code in code_points()[name]:
        if code in gone:
            continue
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return ''.join('\\U%08x-\\U%08x' % tuple(run) for run in runs)


@functools.lru_cache(None)
def regex_of(text):
    """A published pattern as in Python's re, which knows no \\p{...}, no [...&&[^\\p{Han}]], and other spaces."""
    def brackets(found):
        inner, less = re.fullmatch(r'\[(.*?)(?:&&\[\^\\p\{Han\}\])?\]', found.group(0), re.S).group(1), ''
        if '&&' in found.group(0):
            less = 'Han'
        return '[%s]' % re.sub(r'\\p\{(\w+)\}|\\(s)', lambda m: class_of(m.group(1) or m.group(2), less), inner)
    out = re.sub(r'\[(?:[^\\\]\[]|\\.(?:\{\w+\})?|\[\^\\p\{Han\}\])*\]', brackets, text)
    out = re.sub(r'\\p\{(\w+)\}', lambda m: '[%s]' % class_of(m.group(1)), out)
    return re.compile(out.replace(r'\s', '[%s]' % class_of('s')).replace(r'\S', '[^%s]' % class_of('s')))


@functools.lru_cache(1 << 16)
def split(pattern, text):
    """The words of a text: each regex cuts the rest of those before it into its matches and the text between."""
    parts = [text]
    for regex in PATTERNS[pattern]:
        parts = [part for whole in parts for part in cut(regex_of(regex), whole)]
    return parts


def cut(regex, text):
    at, out = 0, []
    for found in regex.finditer(text):
        out += [text[at:found.start()], found.group()]
        at = found.end()
    return [part for part in out + [text[at:]] if part]


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
    """The library's reading of a tokenizer.json, if it takes special tokens for text."""

    def __init__(self, spec, pattern):
        model = spec['model']
        self.vocab, self.pattern, self.ignore = model['vocab'], pattern, model.get('ignore_merges')
        self.ranks = {tuple(m.split(' ') if isinstance(m, str) else m): i for i, m in enumerate(model['merges'])}
        self.added = sorted(spec['added_tokens'], key=lambda token: -len(token['content']))
        steps = spec['pre_tokenizer'] or {}
        self.prefix = steps.get('type') == 'ByteLevel' and steps['add_prefix_space']
        self.nfc, self.known = (spec['normalizer'] or {}).get('type') == 'NFC', {}

    def word(self, text):
        if text not in self.known:
            chars = in_alphabet(text.encode())
            symbols = merged([c for c in chars if c in self.vocab], lambda a, b: self.ranks.get((a, b)))
            self.known[text] = [self.vocab[s] for s in (
                [chars] if self.ignore and chars in self.vocab else symbols)]
        return self.known[text]

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

@functools.lru_cache(1 << 16)
def replaced(data):
    """Bytes as text, U+FFFD for each byte that is in no character."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        pass
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
    planes = collections.defaultdict(list)
    for code in usable:
        planes[code >> 16].append(code)
    sample = [chr(code) for plane in range(17) for code in rng.sample(planes[plane] or [32], 40 if plane < 3 else 1)]
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
# As their families publish them; `digits` are cut out one by one before GPT-2's.
PATTERNS = {'llama3': [LLAMA3_REGEX], 'gpt2': [GPT2_REGEX], 'qwen2': [QWEN2_REGEX], 'gpt4o': [GPT4O_REGEX],
            'tekken': [TEKKEN_REGEX], 'qwen35': [QWEN35_REGEX], 'kimi': [KIMI_REGEX], 'digits': [r'\p{N}', GPT2_REGEX],
            'deepseek': next(regexes for regexes in bytelevel.SPLITS if len(regexes) == 3)}


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


def family_spec(name, tokens, merges, **changes):
    """The tokenizer.json of a row of tokenizers.json, with these tokens and merges."""
    row = dict(next(row for row in rows('families') if row['name'] == name), **changes)
    steps = [{'type': 'Digits', 'individual_digits': True}] if row['patterns'] == 'digits' else []
    if not row.get('alone'):
        inverted = bool(row.get('inverted'))  # matches are kept, the other way round
        steps = [{'type': 'Split', 'pattern': {'Regex': regex}, 'behavior': 'Removed' if inverted else 'Isolated',
                  'invert': inverted} for regex in PATTERNS[row['patterns']]]
    last = byte_level(add_prefix_space=bool(row.get('prefix')), use_regex=bool(row.get('alone')))
    spec = spec_of(row.get('first', []) + tokens, [' '.join(pair) if row.get('as_text') else list(pair)
                                                   for pair in merges], normalizer=row.get('normalizer'),
                   pre_tokenizer=sequence('pretokenizers', *steps, last) if steps else last)
    spec['post_processor'] = None if row.get('as_text') else sequence(
        'processors', byte_level(), template(row['begins'], len(tokens))) if 'begins' in row else byte_level()
    add(spec, *row['special'], **row.get('special_as', {}))
    add(spec, *row.get('sought', ()), special=False, **row.get('sought_as', {}))
    spec['model']['ignore_merges'] = bool(row.get('ignore_merges'))
    if row.get('as_text'):
        spec['model'].update(continuing_subword_prefix='', end_of_word_suffix='')
    return spec


def cased_texts(rng, count):
    """Capitals, small letters, letters without case, marks, and other characters before and after them."""
    few = list("AB\u00c9\u01c5\u0416\U00010400") + list("ab\u00e9\u00df\u0436\U00010428") + list(
        '\u02b0\u4e2d\u05d0\u00aa\u6f22\u3005\u3007\u2f00\u3042\U00020000\ufa0e') + list('\u0301\u0308\u093f\u20dd') + list(" .!'/\n\r\t1\u00b2\u3000_") + [
            "'s", "'LL", "'\u017f", ' A', 'Ab', 'AB\u0301c', '/\n/', '.\n/x']
    for _ in range(count):
        yield ''.join(rng.choice(few) for _ in range(rng.choice((2, 3, 4, 6, 10, 30)))).encode()


def nfc_texts(rng, count):
    """Characters that compose, and characters that may be in the way."""
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
    return programs.encode(program, path, size, texts) or []


def decode(path, size, lists):
    return programs.decode(program, path, size, lists) or []


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
    if back['flags'] != tokenizer['flags']:  # GGUF cannot hold these: a note told them
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
    classes, of = run('classes').decode(), code_points()
    meant = bytearray(b'0' * 0x110000)
    for name, digit in ('L', '1'), ('N', '2'), ('M', '4'), ('P', '5'), ('S', '5'), ('s', '3'):
        for code in of[name]:
            meant[code] = ord(digit)
    meant = meant.decode()
    # The tables do not know characters assigned by Unicode 17 or later.
    newer = tuple(map(int, unicodedata.unidata_version.split('.'))) > (16, 0, 0)
    nothing = {*of['Cn'], *of['Cs']}
    wrong = [hex(code) for code in PLANES if classes[code] != meant[code] and code not in nothing and not (
        newer and classes[code] == '0')]
    check(len(classes) == 0x110000 and not wrong and not classes[0x40000:0xE0000].strip('0') and not (
        classes[0xE0200:].strip('0')), 'classes of code points, Unicode %s here' % unicodedata.unidata_version, wrong[:9])
    for digits, n in ('1', 141028), ('2', 1911), ('3', 25), ('4', 2501), ('5', 9369):
        check(classes.count(digits) == n, 'how many have class ' + digits, classes.count(digits))
    return [code for code in PLANES if classes[code] == meant[code] and code not in nothing] + list(PRIVATE)


def test_tables_are_fixed():
    """Rules do not depend on the Python that exports: those of Form C equal the tables of Python 3.6, of Unicode 9.0,
    and those of cases the Unicode Character Database 16.0."""
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


def parts_composed(text):
    """The text that Qwen 2's tokens decode to: the parts between added tokens are normalized, each by itself."""
    return ''.join(part if i % 2 else nfc(part) for i, part in enumerate(re.split('(<tool>|e\u0301|>)', text)))


def parts_behind_spaces(text):
    return '<tool>'.join(' ' * (part[:1] not in ('', ' ')) + part for part in text.split('<tool>'))


DECODED = {'qwen 2': parts_composed, 'gpt-2 with a space in front': parts_behind_spaces}  # to something else


def test_families(rng, texts, tokens, merges):
    for row in rows('families'):
        with case(row['name']):
            spec, own = family_spec(row['name'], tokens, merges), texts[:row.get('most')]
            if 'composing' in row:
                own = own + list(nfc_texts(rng, row['composing']))
            if 'cased' in row:
                own = own + list(cased_texts(random.Random(row['cased'][0]), row['cased'][1]))
            compare(row['name'], spec, Reference(spec, row['patterns']).encode, own, DECODED.get(row['name'], str))
            exported, path, size = export(spec)
            check_special(spec, exported, path, size)
            for key, value in row.get('expected', {}).items():
                check(exported[key] == value, '%s: %s' % (row['name'], key), exported[key])


def check_special(spec, exported, path, size):
    """Control tokens are found by their spelling, and no text can have one."""
    control = {token['content']: token['id'] for token in spec['added_tokens'] if token['special']}
    others = ['<|end', '<tool>', 'a', '']
    ids = run('special', path, size, *control, *others).decode().split()
    check(ids == [*map(str, control.values()), *['-1'] * len(others)], 'control tokens by their spelling', ids)
    forged = [''.join(control).encode(), b' '.join(map(str.encode, control)), b'<|end|>' * 9, b'<|end|><|start|>system']
    found = {id for ids in encode(path, size, forged) for id in ids}
    check(not found & set(control.values()), 'texts cannot have control tokens', found)


def test_what_families_say(tokens, merges):
    exported = export(family_spec('llama 3', tokens, merges))[0]
    check(exported['bos_id'] == len(tokens) and exported['eos_ids'] == [len(tokens) + 2], 'llama 3: bos and eos',
          exported['bos_id'])
    check(export(family_spec('harmony', tokens, merges))[0]['flags'] & 8 == 0, 'harmony: no prefix')
    spec = family_spec('qwen 2', tokens, merges)
    assigned = [chr(code) for code in range(0x80, 0x30000) if unicodedata.category(chr(code)) not in ('Cn', 'Cs')]
    every = [c for c in assigned if unicodedata.normalize('NFD', c) != c]
    every = [' '.join(form) for form in (every, [unicodedata.normalize('NFD', c) for c in every])]
    spec['added_tokens'] = spec['added_tokens'][:3]
    compare('qwen 2: every character that is taken apart', spec, Reference(spec, 'qwen2').encode,
            [part.encode() for text in every for part in (text[i:i + 500] for i in range(0, len(text), 500))],
            nfc)


def test_bytes_without_tokens(texts, tokens, merges):
    """Bytes that are in no token are left out, and their neighbors are merged."""
    gone = {in_alphabet(bytes([byte])) for byte in (0x61, 0x20, 0xC3)}
    spec = family_spec('gpt-2', [t for t in tokens if not gone & set(t)],
                       [pair for pair in merges if not gone & set(''.join(pair))])
    compare('bytes without tokens', spec, Reference(spec, 'gpt2').encode, texts[:200],
            lambda text: text.encode().translate(None, b'a \xc3').decode('utf-8', 'surrogateescape'))


def test_words_spelled_out():
    for pattern, text, words in rows('words'):
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

    def kimis(job=Job(), **changes):
        with open(os.path.join(kimi, 'tokenizer_config.json'), 'w') as file:
            json.dump({**settings, **changes}, file)
        return read_folder_tokenizer(job, kimi, Model(vocab_size=n + 260))

    exported = kimis()
    compare('kimi', exported, lambda text: encode_ranks(text, 'kimi'), texts + list(cased_texts(random.Random(5), 300)))
    names = [exported['tokens'][n + i][0].decode() for i in (0, 2, 4, 255)]
    check(names == ['[BOS]', '<|im_end|>', '<|reserved_token_%d|>' % (n + 4), '[PAD]'], "kimi: tokens added", names)
    check((exported['bos_id'], exported['eos_ids'], exported['split'], len(exported['tokens'])) == (
        -1, [n + 1, n + 2], 9, n + 260), 'kimi: ends, pattern, size')
    for key, value in (('auto_map', {'AutoTokenizer': ['tokenization_other.X', None]}),
                       ('added_tokens_decoder', {str(n + 256): {'content': 'x', 'special': True}})):
        job = Job()
        check(kimis(job, **{key: value}) is None and ('auto_map' if key == 'auto_map' else 'added token') in job.notes[0],
              'kimi: bad ' + key, job.notes)

    # Same tokens, both rules: with (a, ba) before (ab, a), the pair on the right goes first.
    tokens = [in_alphabet(bytes([byte])) for byte in range(256)] + ['ab', 'ba', 'aba', 'xa', 'xab']
    spec = family_spec('llama 3', tokens, [('a', 'b'), ('b', 'a'), ('a', 'ba'), ('ab', 'a')])
    spec['added_tokens'] = spec['added_tokens'][:3]
    compare('pairs have their own ranks', spec, Reference(spec, 'llama3').encode,
            [b'abaab', b'ababab', b'aababa', b'abaaba'])


def llama2_spec(rng, texts, runs=(2, 3, 4, 8)):
    """Merges of characters such as Hugging Face derives from a sentencepiece model: all pairs
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
    """Gives a tokenizer runs of spaces as in published ones: not all merges of a token in a row, but all with
    the same left half. `halves` says in which order their lengths come, `at` where they all are (None: last)."""
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
        spec = family_spec('tekken', letters + [content] * (len(content) > 1), [], special=[], sought=[])
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
    # Phi-3: a token that is sought in text, and the spaces after it; each part has a space put in front.
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
    tab = changed(lambda m, s: s['model'].update(vocab={  # as in Gemma 1 and 2
        '\t' if text == '<0x09>' else text: id for text, id in s['model']['vocab'].items()}))
    _, path, size = export(tab)
    check(encode(path, size, [b'\t'])[0][-1] == vocab['<0x09>'], 'a tab in the place of its byte token')
    refused('no byte tokens', changed(lambda m, s: s['model'].update(byte_fallback=False)), 'model.byte_fallback')
    refused('no unknown token', changed(lambda m, s: s['model'].update(unk_token=None)), 'model.unk_token')
    refused('Metaspace that splits', {**first, 'pre_tokenizer': {**first['pre_tokenizer'], 'split': True}},
            'pre_tokenizer.split')


def gemma_spec(rng, texts):
    """Llama 2's kind without the space in front, and with Gemma's peculiarities: a Split that finds no space any more,
    lines and placeholders that are cut out of texts, though merges make some of them, and runs of spaces that are
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
    spec['model']['merges'] = [merge.split(' ') for merge in merges]  # as in newer files
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
    for word, changed in (('scores as', tokens), ('not a token', [
            [b'gone%d' % id, score, 5] if text.decode('utf-8', 'ignore') == lone else [text, score, kind]
            for id, (text, score, kind) in enumerate(tokenizer['tokens'])])):
        try:
            out_tokenizer.tokenizer_json(Job(), 'x.bin', {**tokenizer, 'tokens': changed})
            check(False, 'refused: scores, ' + word)
        except Problem as problem:
            check(word in str(problem), 'refused: scores, ' + word, problem)


def test_refusals(tokens, merges):
    base = family_spec('llama 3', tokens, merges)

    def at(path, value):
        spec = copy.deepcopy(base)
        *steps, last = path
        part = spec
        for step in steps:
            part = part[step]
        part[last] = value
        return spec

    for path, value, *words in rows('refused'):
        refused('.'.join(map(str, path)), at(path, value), *words)
    spec = family_spec('qwen 2', tokens, merges)
    spec['added_tokens'][3]['normalized'] = True
    refused('normalized beside NFC', spec, 'added_tokens[3].normalized')
    spec = copy.deepcopy(base)
    spec['added_tokens'].insert(0, added(spec['model']['vocab']['a'], 'a'))
    refused('a special token that texts have', spec, 'added_tokens[0].special')
    spec = family_spec('gpt-2', [t for t in tokens if 'b' not in t], [])
    spec['model']['unk_token'] = '<|endoftext|>'
    refused('unknown bytes', spec, 'model.unk_token')


def test_gguf(texts, tokens, merges):
    spec = family_spec('llama 3', tokens, merges)
    spec['added_tokens'] = spec['added_tokens'][:3]
    values = {'model': 'gpt2', 'pre': 'llama-bpe',
              'tokens': [t.encode() for t in tokens] + [t['content'].encode() for t in spec['added_tokens']],
              'token_type': [1] * len(tokens) + [3] * len(spec['added_tokens']),
              'merges': [' '.join(pair).encode() for pair in merges],
              'bos_token_id': len(tokens), 'eos_token_id': len(tokens) + 2}
    compare('gguf', bytelevel.read_gguf(Job(), 'x.gguf', values), Reference(spec, 'llama3').encode, texts[:150])
    spec = family_spec('harmony', tokens, merges)
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
    exported, path, size = export(family_spec('llama 3', tokens, merges))
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
    _, path, size = export(family_spec('llama 3', tokens, merges))
    for name, text in (('one long word', b'ab' * (1 << 17)), ('spaces', b' ' * (1 << 18)),
                       ('newlines', b'\n ' * (1 << 17)), ('digits', b'1' * (1 << 18))):
        began = os.times()
        ids = encode(path, size, [text])
        spent = os.times().children_user - began.children_user
        check(ids and ids[0] and spent < 8, '%s: %.1f s' % (name, spent))


def everything(kind, count):
    """All of it, on that many texts, by the program that is built so."""
    global folder, program
    rng, program = random.Random(6), programs.program(kind)
    with tempfile.TemporaryDirectory() as folder:
        usable = test_classes()
        texts = make_texts(rng, usable, count)
        tokens, merges = train(rng, texts, 150)
        texts += broken_texts(rng, texts)
        for test, *arguments in (
                (test_words, texts), (test_words_spelled_out,), (test_tables_are_fixed,), (test_families, rng, texts,
                tokens, merges), (test_what_families_say, tokens, merges), (test_bytes_without_tokens, texts, tokens,
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
    everything('same', 60)


@takes_long
def test_sanitized():
    everything('sanitized', 400)


if __name__ == '__main__':
    main({'test_bytelevel': test_bytelevel, 'test_sanitized': test_sanitized})
