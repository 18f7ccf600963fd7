#!/usr/bin/env python3
"""Writes src/configs/made/key_ids.h and key_table.h, the keys of RoPE in a config, from the rows of
src/configs/keys.json; their words are explained below:

    python3 tools/generate/key_table.py [--check]     --check writes nothing, and fails where the header would change
"""
import json
import os
import sys
from typing import Any, Dict, NamedTuple, Tuple

from written import ROOT, bits, keep, laid_out, literal, number, quoted

HEADER = os.path.join('src', 'configs', 'made', 'key_table.h')
ID_HEADER = os.path.join('src', 'configs', 'made', 'key_ids.h')
ROWS = os.path.join(ROOT, 'src', 'configs', 'keys.json')
LIMIT = 1e12  # of numbers
PLACES, TYPES = ('top', 'block', 'chunks'), ('any', 'number', 'whole', 'flag', 'text', 'list', 'object')
ALL_TYPES = 'default', 'linear', 'dynamic', 'proportional', 'llama3', 'yarn', 'longrope'
WORDS = {'at', 'is', 'above', 'most', 'from', 'to', 'types', 'needed', 'null', 'zero', 'absent', 'read_by', 'by_layer',
         'misplaced', 'misspelled', 'also', 'turns', 'saved', 'of_some'}


class Key(NamedTuple):
    at: Tuple[str, ...]        # where it may be: beside the blocks, in one, in dual_chunk_attention_config
    type: str
    low: float                 # numbers are above it, whole ones from it on
    high: float
    types: Tuple[str, ...]     # the rope_types that read it in a block; (): it is read by other rules
    needed: Tuple[str, ...]    # those that cannot do without it
    null: Tuple[str, ...]      # those to which a null is as good as nothing
    zero: bool                 # so is a 0
    absent_in: Tuple[str, ...]  # those where its absence is worth a warning, in the words of
    absent: str
    read_by: str               # who reads it, where the library does not
    by_layer: bool             # it gives layers or positions a RoPE of their own; families say whether they read it
    misplaced: bool            # beside the blocks it is a mistake
    misspelled: Tuple[str, ...]  # its usual misspellings, only in small letters
    also: Tuple[str, ...]      # its names in unverified families
    turns: Tuple[str, ...]     # of these: the values with which layers turn; another one says that none does
    saved: bool                # the library writes it itself, and nobody reads it
    of_some: bool              # some families alone read it


def row(name: str, words: Dict[str, Any]) -> Key:
    kind = words.get('is', 'any')
    if set(words) - WORDS or kind not in TYPES or set(words['at']) - set(PLACES):
        raise ValueError('keys.json: %s: %s means nothing' % (name, sorted(set(words) - WORDS) or kind))
    null = words.get('null', ())
    (absent_in, absent), = words.get('absent', {'': ''}).items()
    low, high = ('from', 'to') if kind == 'whole' else ('above', 'most')
    return Key(tuple(words['at']), kind, words.get(low, 0), words.get(high, LIMIT if kind == 'number' else 0),
               tuple(words.get('types', ())), tuple(words.get('needed', ())),
               ALL_TYPES if null is True else tuple(null),
               words.get('zero', False), tuple(absent_in.split()), absent, words.get('read_by', ''),
               words.get('by_layer', False), words.get('misplaced', False), tuple(words.get('misspelled', ())),
               tuple(words.get('also', ())), tuple(words.get('turns', ())),
               words.get('saved', False), words.get('of_some', False))


with open(ROWS, encoding='utf-8') as _file:
    _rows = json.load(_file)
KEYS: Dict[str, Key] = {name: row(name, words) for name, words in _rows['keys'].items()}
FILES: Dict[str, Tuple[str, ...]] = {name: tuple(keys) for name, keys in _rows['files'].items()}


def key_id(name):
    """The name of a key in C."""
    return 'KEY_' + name.strip('_').upper() + ('_SAVED' if name.startswith('_') else '')


def key_text(name, key):
    """A row of the table of keys. Numbers are above `low`, whole ones from it on."""
    members = ['.name = ' + quoted(name), '.at = ' + bits('KEY_AT_', key.at), '.type = KEY_IS_' + key.type.upper()]
    members += ['.%s = %s' % (word, number(value)) for word, value in (('low', key.low), ('high', key.high)) if value]
    members += ['.%s = %s' % (word, bits('TYPE_BIT_', types)) for word, types in (
        ('types', key.types), ('needed', key.needed), ('null', key.null), ('absent_in', key.absent_in)) if types]
    members += ['.%s = true' % word for word in ('zero', 'by_layer', 'misplaced', 'saved', 'of_some')
                if getattr(key, word)]
    members += ['.%s = %s' % (word, literal(text)) for word, text in (
        ('absent', key.absent), ('read_by', key.read_by), ('misspelled', ' '.join(key.misspelled)),
        ('also', ' '.join(key.also)), ('turns', ' '.join(key.turns))) if text]
    return laid_out('    [%s] = {' % key_id(name), members, '},')


def ids():
    return ('// Made by tools/generate/key_table.py from src/configs/keys.json, not by hand.\n#pragma once\n\n'
            '// The keys of a config: rows of config_key_rows.\ntypedef enum {\n    KEY_NONE,\n'
            + ''.join('    %s,\n' % key_id(name) for name in KEYS) + '    N_KEYS\n} KeyId;\n')


def table():
    return ('// Made by tools/generate/key_table.py from src/configs/keys.json, not by hand.\n'
            '// keys.c includes it after keys.h.\n#pragma once\n\n'
            'const ConfigKey config_key_rows[N_KEYS] = {\n'
            + ''.join(key_text(name, key) for name, key in KEYS.items()) + '};\n\n'
            '// Files that are no configs, and keys by which they are known.\n'
            'static const struct {\n    const char *name, *keys;\n} other_files[] = {\n'
            + ''.join('    {%s, %s},\n' % (quoted(name), quoted(' '.join(keys))) for name, keys in FILES.items())
            + '};\n')


if __name__ == '__main__':
    made = {HEADER: table(), ID_HEADER: ids()}
    sys.exit(keep(made, 'src/configs/keys.json', 'tools/generate/key_table.py', sys.argv[1:]))
