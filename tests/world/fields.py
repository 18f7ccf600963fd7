"""src/engines/made/field_types.h: the types of the fields of transformers' config classes, by model_type, as its own classes
declare them (recipes/run_fields.py). `python3 tests/world engines --write` writes it; without --write it is compared."""

import collections
import os
import sys
import textwrap

from common import ROOT

HEADER = os.path.join('src', 'engines', 'made', 'field_types.h')
LETTERS = {  # of a type: any of these words
    'int': 'i', 'None int': 'I', 'float': 'f', 'None float': 'F', 'float int': 'n', 'None float int': 'N', 'bool': 'b',
    'None bool': 'B', 'str': 's', 'None str': 'S', 'list': 'l', 'None list': 'L', 'None dict': 'D', 'dict': 'd',
    'int list[int]': 'x', 'None int list[int]': 'X', 'None list[int]': 'Y', 'None list[str]': 'T', 'list[int]': 'y',
    'list[str]': 't'}
FEWEST = 3  # families that have a field; and these, which concern RoPE or which layers slide
ALWAYS = ('original_max_position_embeddings', 'partial_rotary_factor', 'rotary_dim', 'global_head_dim', 'rope_theta',
          'sliding_window_pattern', 'no_rope_layers', 'no_rope_layer_interval', 'rope_local_base_freq',
          'max_window_layers', 'use_sliding_window', 'qk_rope_head_dim', 'qk_nope_head_dim', 'num_global_key_value_heads',
          'attn_temperature_tuning', 'floor_scale', 'attn_scale', 'attention_chunk_size')
WIDEST = 84  # letters of a line
FIRST = '''// Made by `python3 tests/world engines=hf5 --write` from transformers %s, not by hand.
// field_types.c includes it. A letter for each field of field_names, in this order, for model_types that
// have the same; `-`: the class has no such field. field_types.c says what the letters mean.
#pragma once

'''


def families():
    """Every model_type of export/families.json."""
    sys.path.insert(0, ROOT)
    from export.families import FAMILIES
    rows = FAMILIES.values() if isinstance(FAMILIES, dict) else FAMILIES
    return [name for row in rows for name in [row.model_type, *(getattr(row, 'aliases', None) or ())]]


def header(found, release):
    """The text of the header, from what the recipe prints."""
    n_of = collections.Counter(key for fields in found.values() for key in fields)
    left_out = {key for fields in found.values() for key, words in fields.items() if words not in LETTERS}
    names = sorted(key for key, n in n_of.items() if (n >= FEWEST or key in ALWAYS) and key not in left_out)
    rows = collections.defaultdict(list)
    for model_type, fields in found.items():
        rows[''.join(LETTERS[fields[key]] if key in fields else '-' for key in names)].append(model_type)
    quoted = textwrap.wrap(' '.join('"%s",' % name for name in names), 96)
    lines = ['static const char *const field_names[] = {', *('    ' + line for line in quoted), '};', '',
             'static const struct {', '    const char *model_types, *types;', '} field_rows[] = {']
    for types, model_types in sorted(rows.items(), key=lambda row: row[1]):
        pieces = textwrap.wrap(' '.join(model_types), 84)
        lines += ['%s"%s"' % ('     ' if i else '    {', piece + ' ' * (i + 1 < len(pieces)))
                  for i, piece in enumerate(pieces)]
        lines[-1] += ','
        lines += ['     "%s"' % types[at:at + WIDEST] for at in range(0, len(types), WIDEST)]
        lines[-1] += '},'
    return FIRST % release + '\n'.join([*lines, '};', ''])
