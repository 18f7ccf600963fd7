"""The keys of RoPE in a config.json: the rows of keys.json, by which this program's exporter and its readers in C
(src/configs, by a table that tools/generate/family_table.py makes) find, read and check a key, in the same words."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, NamedTuple, Tuple

from .common import NUMBER_LIMIT, REFUSED, Keys, Twice
from .families import Family

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'keys.json')
PLACES, TYPES = ('top', 'block', 'chunks'), ('any', 'number', 'whole', 'flag', 'text', 'list', 'object')
ALL_TYPES = 'default', 'linear', 'dynamic', 'proportional', 'llama3', 'yarn', 'longrope'
WORDS = {'at', 'is', 'above', 'most', 'from', 'to', 'types', 'needed', 'null', 'zero', 'absent', 'read_by', 'by_layer',
         'misplaced', 'misspelled', 'also', 'turns'}


class Key(NamedTuple):
    at: Tuple[str, ...]        # where it may stand: beside the blocks, in one, in dual_chunk_attention_config
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
    misspelled: Tuple[str, ...]  # what it is written like by mistake, in small letters alone
    also: Tuple[str, ...]      # what families that nobody looked at may call it
    turns: Tuple[str, ...]     # of these: the values with which layers turn; another one says that none does


def row(name: str, words: Dict[str, Any]) -> Key:
    kind = words.get('is', 'any')
    if set(words) - WORDS or kind not in TYPES or set(words['at']) - set(PLACES):
        raise ValueError('keys.json: %s: %s means nothing' % (name, sorted(set(words) - WORDS) or kind))
    null = words.get('null', ())
    (absent_in, absent), = words.get('absent', {'': ''}).items()
    low, high = ('from', 'to') if kind == 'whole' else ('above', 'most')
    return Key(tuple(words['at']), kind, words.get(low, 0), words.get(high, NUMBER_LIMIT if kind == 'number' else 0),
               tuple(words.get('types', ())), tuple(words.get('needed', ())),
               ALL_TYPES if null is True else tuple(null),
               words.get('zero', False), tuple(absent_in.split()), absent, words.get('read_by', ''),
               words.get('by_layer', False), words.get('misplaced', False), tuple(words.get('misspelled', ())),
               tuple(words.get('also', ())), tuple(words.get('turns', ())))


with open(PLACE, encoding='utf-8') as _file:
    _rows = json.load(_file)
KEYS: Dict[str, Key] = {name: row(name, words) for name, words in _rows['keys'].items()}
FILES: Dict[str, Tuple[str, ...]] = {name: tuple(keys) for name, keys in _rows['files'].items()}
BY_LAYER = [name for name, key in KEYS.items() if key.by_layer]


def other_file(values: Dict[str, Any]) -> str:
    """What a file is that is no config, by keys that it has and a config has not; '': it may be a config."""
    if {'model_type', 'architectures', 'hidden_size', 'rope_scaling', 'rope_parameters'} & set(values):
        return ''
    found = next((name for name, keys in FILES.items() if set(keys) <= set(values)), '')
    return found or ("another file, since no key of it is a config's" if values and not has_some_key(values, 3) else '')


def has_some_key(values: Dict[str, Any], depth: int) -> bool:
    """Whether an object, or one in it, has a key of a config or a name that is written like one."""
    own = {'model_type', 'architectures', 'vocab_size', 'sliding_window'}.union(*(key.also for key in KEYS.values()))
    return any(name in KEYS or name in own or meant(name, 'top') or meant(name, 'block') or
               depth > 0 and isinstance(value, dict) and has_some_key(value, depth - 1)
               for name, value in values.items())


OBJECTS = 'rope_scaling', 'rope_parameters', 'dual_chunk_attention_config'  # of settings


def refuse_repeated(whole: Keys, text: Keys) -> None:
    """Refuses a key of the table that an object has twice: a config, the text model's inside, or settings."""
    objects = [whole] + [text] * (text is not whole)
    for name in OBJECTS:
        at = text.values.get(name)
        objects += [text.within(at, name + '.')] if isinstance(at, dict) else []
        objects += [text.within(inside, '%s.%s.' % (name, key)) for key, inside in (at.items() if isinstance(
            at, dict) else ()) if isinstance(inside, dict)]
    for keys in objects:
        for key, found in keys.values.items():
            if isinstance(found, Twice):
                keys.refuse(key, 'it once, and it appears twice')


def value(keys: Keys, name: str, missing: Any = REFUSED, kind: str = 'default', low: int = 0) -> Any:
    """The value of a key by its row, for a block of a rope_type; `missing` stands for one that is not there. A whole
    number may have to be at least `low`."""
    key = KEYS[name]
    if kind in key.needed and (missing is REFUSED or name not in keys.values):
        missing = REFUSED
    null = missing if kind in key.null else REFUSED
    if key.type == 'flag':
        return keys.flag(name, missing, False)  # as in the library, null is false
    if key.type == 'whole':
        return keys.integer(name, int(key.high), missing, null, max(int(key.low), low))
    return keys.number(name, missing, null, key.low, key.zero, key.high)


# ---- keys that mean nothing where they stand ----

def edits(a: str, b: str) -> int:
    """How many letters are changed, left out, put in or swapped with their neighbor."""
    rows = [list(range(len(b) + 1))]
    for i, x in enumerate(a, 1):
        rows.append([i])
        for j, y in enumerate(b, 1):
            best = min(rows[i - 1][j - 1] + (x != y), rows[i - 1][j] + 1, rows[i][j - 1] + 1)
            if i > 1 and j > 1 and (x, a[i - 2]) == (b[j - 2], y):
                best = min(best, rows[i - 2][j - 2] + 1)
            rows[i].append(best)
    return rows[-1][-1]


def letters(name: str) -> str:
    return re.sub('[^a-z0-9]', '', name.lower())


def meant(name: str, place: str) -> str:
    """The key of such a place that is written like this one, which is none; '': there is none."""
    plain = letters(name)
    if not 4 <= len(plain) <= 32:
        return ''
    for known, key in KEYS.items():
        is_near = len(known) > 4 and edits(plain, letters(known)) <= (2 if len(plain) > 6 else 1)
        if place in key.at and (plain in key.misspelled or is_near):
            return known
    return ''


def lost_keys(config: Keys) -> None:
    """Warns of keys beside the blocks that are written like one, or belong into one."""
    for name in config.values:
        if name in KEYS and ('top' in KEYS[name].at or not KEYS[name].misplaced):
            continue
        if name in KEYS:
            warn(config, '%s beside the blocks is not used: its place is in rope_scaling', name)
        elif letters(name)[:4] == 'rope' and meant(name, 'top'):
            warn(config, '%.40s means nothing, and is not used: did you mean %s?', name, meant(name, 'top'))


def warn(config: Keys, text: str, *values: Any) -> None:
    """src/configs has the same words."""
    config.job.note('warning: %s: %s' % (config.path, text % values))


def not_used(config: Keys, family: Family, *keys: str) -> None:
    """Says of keys that stand there that the class does not read them."""
    for key in keys:
        if config.values.get(key) is not None:
            config.job.note('%s means nothing to model_type %s and is not used' % (key, family.model_type))
