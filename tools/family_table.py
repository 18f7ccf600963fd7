#!/usr/bin/env python3
"""Writes src/configs/family_table.h, the families of models and what engines make of them, from the rows of
export/families.json, and src/configs/key_table.h, the keys of RoPE in a config, from those of export/keys.json. The
lists of docs/checkpoints.md are made, too:

    python3 tools/family_table.py [--check]     --check writes nothing and says whether the headers are as they would be

The flags, features and quirks that it names stand in src/configs/families.h: a word of a row that has none there does
not compile.
"""
import json
import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

from export.families import FAMILIES, WRAPPERS  # noqa: E402
from export.keys import FILES, KEYS  # noqa: E402

HEADER = os.path.join('src', 'configs', 'family_table.h')
LISTS = os.path.join(ROOT, 'docs', 'checkpoints.md')
KEY_HEADER = os.path.join('src', 'configs', 'key_table.h')
COLUMNS = 100
FIRST = ('// Made by tools/family_table.py from export/families.json, not by hand.\n'
         '// families.c includes it behind families.h.\n')
# The features that src/configs/publish.c sees in a model and its plan. The others set no families apart there.
TESTED = {
    'WINDOW', 'QKV_BIAS', 'ROUTER_BIAS', 'EXPERT_BIAS', 'CLAMPED', 'EMBEDDING_SCALE', 'GELU', 'NORMS_AFTER',
    'NORMS_BOTH', 'HEAD_NORMS', 'WHOLE_NORMS', 'EXPERTS', 'SINKS', 'TEMPERATURE', 'PARTIAL'}
KNOWN = {'theta', 'refuses', 'known', 'before', 'one_block_before', 'block', 'does'}  # what engines do otherwise


def quoted(text):
    return '"%s"' % text.replace('\\', '\\\\').replace('"', '\\"')


def number(value):
    return '%.15g' % value


def bits(prefix, words):
    return ' | '.join(prefix + word.upper() for word in words)


def laid_out(start, members, end):
    """Members with commas between them, in lines."""
    lines, line = [], start
    for i, member in enumerate(members):
        text = member + (',' if i + 1 < len(members) else end)
        if len(line) + len(text) + 1 > COLUMNS:
            lines.append(line)
            line = '        ' + text
        else:
            line += text if line.endswith('{') else ' ' + text
    return '\n'.join([*lines, line]) + '\n'


def literal(text):
    """A string that may be long, in pieces of a line."""
    pieces = re.findall(r'.{1,80}(?: |$)', text) if len(text) > 80 else [text]
    return '\n            '.join(quoted(piece) for piece in pieces)


def flags_of(family):
    """The words of a row that C has a flag for."""
    rope, layers, types = family.rope, family.layers, family.rope.types
    if types and not (types.get('longrope') == types.get('yarn') == 'longrope' and 'linear' not in types):
        raise ValueError('families.json: %s.rope.types: C knows all types, or longrope alone' % family.model_type)
    if layers.period_key and family.period == 0:
        raise ValueError('families.json: %s has no period under %s' % (family.model_type, layers.period_key))
    words = {
        'by_type': rope.by_kind, 'new': family.came_with > 4, 'no_scaling': rope.no_scaling,
        'bare_full': layers.without_rope == 'full', 'windowless': layers.windowless, 'full_first': layers.full_first,
        'full_too': layers.full_too, 'full_last': layers.full_last, 'from_end': layers.from_end,
        'linear': layers.others == 'linear', 'grows': rope.grows, 'partial': rope.partial, 'runs': family.runs,
        'seen_first': family.seen_first, 'proportional': rope.proportional, 'sections': rope.sections,
        'one_for_both': rope.one_for_both, 'tells_block': rope.tells_own_block, 'longrope_alone': bool(types),
        'latent': bool(family.latent), 'share_beside': rope.share_beside, 'still': rope.none,
        'from_end': layers.from_end, 'flat_is_full': rope.flat_is_full,
        'axes': rope.axes, 'mscales': rope.mscales, 'unmultiplied': rope.unmultiplied, 'lists': rope.lists,
        'cuts_lists': layers.cuts_lists, 'null_head': family.keys.null_head,
        'gguf_longrope': bool(family.gguf) and 'LONGROPE' in {each.name for each in family.gguf.ropes}}
    return [word for word, there in words.items() if there]


def features_of(features):
    return sorted({feature.name for feature in features} & TESTED)


def engine_text(family, name, since):
    facts = family.engines.get(name, {})
    if set(facts) - KNOWN:
        raise ValueError('families.json: %s.engines.%s: nobody reads %s' % (
            family.model_type, name, ', '.join(set(facts) - KNOWN)))
    members = ['.name = ' + quoted(name)]
    if since:
        members.append('.since = ' + number(float(since)))
    for word in ('theta', 'known', 'one_block_before'):
        if word in facts:
            members.append('.%s = %s' % (word, number(float(facts[word]))))
    for word in ('before', 'refuses', 'block'):
        if word in facts:
            members.append('.%s = %s' % (word, quoted(facts[word])))
    if facts.get('does'):
        members.append('.does = ' + bits('DOES_', facts['does']))
    return laid_out('    {', members, '},')


def of_engines(family):
    seen = dict(each.partition('@')[::2] for each in family.seen)
    if set(family.engines) - set(seen):
        raise ValueError('families.json: %s.engines: %s is not among those seen' % (
            family.model_type, ', '.join(set(family.engines) - set(seen))))
    rows = ''.join(engine_text(family, name, since) for name, since in seen.items())
    return 'static const FamilyEngine engines_of_%s[] = {\n%s    {0},\n};\n' % (family.model_type, rows)


def family_text(family):
    default, rope, layers = family.default, family.rope, family.layers
    is_periodic = layers.rule == 'periodic'
    numbers = {
        'max_positions': default('max_position_embeddings', 0),
        'original': default('original_max_position_embeddings', 0),
        'hidden': family.sizes.get('hidden_size', 0), 'heads': family.sizes.get('num_attention_heads', 0),
        'head_dim': default('head_dim', 0), 'global_head_dim': default('global_head_dim', 0),
        'still': default('qk_nope_head_dim', 0), 'turning': default('qk_rope_head_dim', 0),
        'theta': default('rope_theta', 1e4), 'local_theta': rope.local_theta if rope.by_kind else 0,
        'window': default('sliding_window', 0) if is_periodic else 0, 'period': family.period,
        'still_each': default('no_rope_layer_interval', 0) if layers.without_rope == 'listed' else 0,
        'chunk': default('attention_chunk_size', 0) if layers.rule == 'chunked' else 0,
        'partial': default('partial_rotary_factor', 0), 'slides_with': family.gguf.slides_with if family.gguf else 0}
    block = default('rope_parameters')
    texts = {'local_key': rope.local_key, 'theta_key': rope.theta_key, 'rotary_key': rope.rotary_key,
             'only_key': rope.only_key, 'period_key': layers.period_key, 'numbers_key': layers.numbers_key,
             'indexes_key': layers.indexes_key, 'full_words': ' '.join(layers.full_words),
             'layer_keys': ' '.join(family.keys.by_layer)}
    members = [quoted(family.model_type), quoted(family.architecture)]
    members += ['.%s = %s' % (name, number(value)) for name, value in numbers.items() if value]
    members += ['.%s = %s' % (name, quoted(text)) for name, text in texts.items() if text]
    if rope.blocks:
        members.append('.block_names = {%s}' % ', '.join(quoted(rope.blocks[kind]) for kind in ('full', 'sliding')))
    if rope.unturned:
        _, scale, length = rope.unturned
        members += ['.unturned = {%s}' % ', '.join(map(quoted, rope.unturned)),
                    '.unturned_beta = ' + number(default(scale)), '.unturned_length = ' + number(default(length))]
    if family.aliases:
        members.append('.aliases = %s' % quoted(' '.join(family.aliases)))
    if family.also_architectures:
        members.append('.also_architectures = %s' % quoted(' '.join(family.also_architectures)))
    if block:
        members.append('.block = %s' % literal(json.dumps(block)))
    if default('sliding_parameters'):
        members.append('.sliding_block = %s' % literal(json.dumps(default('sliding_parameters'))))
    for name, prefix, words in (('flags', 'FAMILY_', flags_of(family)),
                                ('always', 'FEATURE_', features_of(family.always)),
                                ('sign', 'FEATURE_', features_of(family.sign)),
                                ('may', 'FEATURE_', features_of(family.may))):
        if words:
            members.append('.%s = %s' % (name, bits(prefix, words)))
    if family.seen:
        members.append('.engines = engines_of_%s' % family.model_type)
    return laid_out('    {', members, '},')


def table():
    families = [family for family in FAMILIES.values() if not family.own]
    inside = {name: (architecture, of[0].model_type if len(of) == 1 else '', of[0].wrapped_flat)
              for name, (architecture, of) in WRAPPERS.items()}
    wrappers = ''.join('    {%s, %s, %s, %s},\n' % (
        quoted(name), quoted(architecture), quoted(text) if text else 'NULL', 'true' if is_flat else 'false')
        for name, (architecture, text, is_flat) in inside.items())
    return (FIRST + '#pragma once\n\n'
            + '\n'.join(of_engines(family) for family in families if family.seen)
            + '\nstatic const RopeFamily families[] = {\n' + ''.join(family_text(family) for family in families)
            + '};\n\n// Models of pictures and text; inside is NULL where it may be one of several families.\n'
            + 'static const FamilyWrapper wrappers[] = {\n' + wrappers + '};\n')


def key_text(name, key):
    """A row of the table of keys. Numbers are above `low`, whole ones from it on."""
    members = [quoted(name), '.at = ' + bits('KEY_AT_', key.at), '.type = KEY_' + key.type.upper()]
    members += ['.%s = %s' % (word, number(value)) for word, value in (('low', key.low), ('high', key.high)) if value]
    members += ['.%s = %s' % (word, bits('TYPE_BIT_', types)) for word, types in (
        ('types', key.types), ('needed', key.needed), ('null', key.null), ('absent_in', key.absent_in)) if types]
    members += ['.%s = true' % word for word in ('zero', 'by_layer', 'misplaced') if getattr(key, word)]
    members += ['.%s = %s' % (word, literal(text)) for word, text in (
        ('absent', key.absent), ('read_by', key.read_by), ('misspelled', ' '.join(key.misspelled)),
        ('also', ' '.join(key.also))) if text]
    return laid_out('    {', members, '},')


def key_table():
    return ('// Made by tools/family_table.py from export/keys.json, not by hand.\n'
            '// config_keys.c includes it behind config.h.\n#pragma once\n\n'
            'static const ConfigKey config_keys[] = {\n'
            + ''.join(key_text(name, key) for name, key in KEYS.items()) + '};\n\n'
            '// Files that are no configs, and keys by which they are known.\n'
            'static const struct {\n    const char *name, *keys;\n} other_files[] = {\n'
            + ''.join('    {%s, %s},\n' % (quoted(name), quoted(' '.join(keys))) for name, keys in FILES.items())
            + '};\n')


# ---- docs/checkpoints.md ----

def known_of(family):
    """What is known of RoPE in a family that is explained and not run."""
    rope, layers = family.rope, family.layers
    if rope.none:
        return 'none of the layers turns'
    if layers.others == 'linear':
        return 'only the layers with attention turn; the others have a state'
    if rope.by_kind:
        return 'full layers and sliding ones have a block or a theta each'
    if layers.rule == 'periodic':
        return 'full layers and sliding ones turn alike, or full ones do not turn'
    if rope.axes:
        return 'sections of three axes, which are one in a text'
    if family.latent:
        return 'latent attention: the part with `qk_rope_head_dim` turns'
    if rope.partial:
        return ("a part of each head turns; with a scaled block the share beside it or the class's counts, and a "
                'remark says so')
    return 'all of a head turns, and layers turn alike'


def explained_lines():
    groups = {}
    for family in FAMILIES.values():
        if not family.runs:
            names = ', '.join('`%s`' % name for name in (family.model_type, *family.aliases, *family.wrapped_in))
            groups.setdefault(known_of(family), []).append('%s (%s)' % (family.title, names))
    return ''.join('| %s | %s |\n' % (known, ', '.join(families)) for known, families in groups.items())


def architecture_lines():
    """The architectures of GGUF."""
    names = list(dict.fromkeys(name for family in FAMILIES.values() if family.runs and family.gguf
                               for name in (family.gguf.architecture, family.gguf.with_experts) if name))
    text = 'In GGUF the architectures are %s and `%s`.' % (', '.join('`%s`' % name for name in names[:-1]), names[-1])
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + '\n'


def with_lists(text):
    """docs/checkpoints.md with the lists as the rows have them."""
    start = '| what is known of RoPE | families (`model_type`) |\n| --- | --- |\n'
    first, found, rest = text.partition(start)
    text = first + found + explained_lines() + rest[rest.index('\n\n') + 1:] if found else text
    first, found, rest = text.partition('In GGUF the architectures are')
    return first + architecture_lines() + rest[rest.index('\n\n') + 1:] if found else text


def main(arguments):
    status = 0
    for header, text, rows in (HEADER, table(), 'families.json'), (KEY_HEADER, key_table(), 'keys.json'):
        path, found = os.path.join(ROOT, header), None
        if '--check' not in arguments:
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
            continue
        if os.path.exists(path):
            with open(path, encoding='utf-8') as file:
                found = file.read()
        if found != text:
            print('%s is not of export/%s: python3 tools/family_table.py makes it' % (header, rows))
            status = 1
    if not os.path.exists(LISTS):
        return status
    with open(LISTS, encoding='utf-8') as file:
        found = file.read()
    if found != with_lists(found) and '--check' in arguments:
        print('docs/checkpoints.md has other lists than export/families.json: python3 tools/family_table.py makes them')
        return 1
    if found != with_lists(found):
        with open(LISTS, 'w', encoding='utf-8') as file:
            file.write(with_lists(found))
    return status


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
