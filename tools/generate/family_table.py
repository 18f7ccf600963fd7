#!/usr/bin/env python3
"""Writes src/configs/made/family_table.h, the families of models and how engines read them, from the rows of
export/families.json. The lists of docs/checkpoints.md are made, too:

    python3 tools/generate/family_table.py [--check]     --check writes nothing, and fails where a file would change

Each property of a family, of a model and of an engine in C is a word with its own bit. The words are below, each
with its meaning, and become src/configs/made/family_words.h, which numbers them. The architectures by engine of
src/engines/classes.json become src/engines/made/classes.h.
"""
import functools
import json
import os
import sys
import textwrap

from key_table import KEYS, key_id
from written import COLUMNS, ROOT, bits, keep, laid_out, literal, number, quoted, read_if_there

sys.path.insert(0, ROOT)
from export.families import FAMILIES, WRAPPERS, gguf_of  # noqa: E402

HEADER = os.path.join('src', 'configs', 'made', 'family_table.h')
CLASSES, CLASS_HEADER = [os.path.join('src', 'engines', *name) for name in (('classes.json',), ('made', 'classes.h'))]
LISTS = os.path.join('docs', 'checkpoints.md')
WORD_HEADER = os.path.join('src', 'configs', 'made', 'family_words.h')
WORD_BITS = 64  # of a FamilyWords
FIRST = ('// Made by tools/generate/family_table.py from export/families.json, not by hand.\n'
         '// family.c includes it after family.h.\n')

# The peculiarities of a family: the word, whether a row has it, and its meaning in C.
FAMILY_WORDS = (
    ('runs', lambda f: f.runs, 'this program runs its models; the others are explained'),
    ('new', lambda f: f.came_with > 4, 'it came with transformers 5, so Hugging Face 4 does not know it'),
    ('seen_first', lambda f: f.seen_first, 'engines were verified with it before those whose layers differ'),
    ('any', lambda f: False, 'it takes the place of families without a row'),
    # Layers.
    ('full_first', lambda f: f.layers.full == 'first', 'the first layer of a period is the full one, not the last'),
    ('from_end', lambda f: f.layers.full == 'from_end', 'periods of layers are counted from the last layer'),
    ('full_too', lambda f: f.layers.also_full == 'first', 'the first layer of all is full, too'),
    ('full_last', lambda f: f.layers.also_full == 'last', 'so is the last one, for any config'),
    ('linear', lambda f: f.layers.others == 'linear', 'layers that are not full have linear attention'),
    ('cuts_lists', lambda f: f.layers.cuts_lists, 'elements of lists after the last layer are not used'),
    ('bare_full', lambda f: f.layers.without_rope.startswith('full'), 'full layers have no RoPE'),
    ('needs_window', lambda f: f.layers.without_rope == 'full' and not f.layers.thetas,
     'a window of null is refused, even if all layers are full'),
    ('both_ways', lambda f: f.layers.both_ways in ('read', 'halved'),
     'queries see later positions, too, if use_bidirectional_attention says so'),
    ('halves_window', lambda f: f.layers.both_ways == 'halved', 'a window then has half its width on either side'),
    ('encoder', lambda f: f.layers.both_ways == 'always', 'queries always see later positions, too'),
    # Heads.
    ('latent', lambda f: bool(f.latent), 'latent attention: only a part of each head rotates'),
    ('null_head', lambda f: f.keys.null_head, "a head_dim of null is the model's width by its heads"),
    ('width_by_heads', lambda f: 'head_dim' in f.keys.unread,
     "a head is always the model's width by its heads, for any head_dim"),
    ('partial', lambda f: f.rope.partial, 'partial_rotary_factor may be below 1'),
    ('share_beside', lambda f: f.rope.share_beside,
     "of a scaled block's share and one beside it (or the class's) that beside counts"),
    # Blocks.
    ('no_rope', lambda f: f.rope.none, 'its class has no RoPE'),
    ('by_type', lambda f: f.rope.by_kind,
     'rope_parameters has a block for each kind of layers; rope_scaling is of the full ones'),
    ('no_scaling', lambda f: f.rope.one_block == 'refused',
     'rope_scaling is not turned into rope_parameters: Hugging Face 5 fails'),
    ('flat_is_full', lambda f: f.rope.one_block == 'full', 'one block for all is the full layers\''),
    ('one_for_both', lambda f: f.rope.one_for_both, 'one RoPE of full layers and sliding ones, never two'),
    ('lists', lambda f: f.rope.lists, 'thetas and shares may be lists, of a number a layer'),
    ('axes', lambda f: f.rope.axes, 'blocks have sections of three axes, which are one in a text'),
    # Methods.
    ('counts_factor', lambda f: f.rope.counts_factor,
     "max_position_embeddings is the reach of linear's factor, which does not multiply it"),
    ('longrope_alone', lambda f: f.rope.types == 'longrope_alone',
     'its class knows only longrope of the types that scale, and su and yarn as older names of it'),
    ('alpha', lambda f: f.rope.goes_out == 'with_alpha',
     'ntk at every length is written as dynamic with an alpha'),
    ('gguf_longrope', lambda f: bool(f.gguf) and 'LONGROPE' in {each.name for each in f.gguf.ropes},
     "longrope's lists have a place in its GGUF file"),
    ('gguf_divisors', lambda f: bool(f.gguf) and 'DIVISORS' in {each.name for each in gguf_of(f).ropes},
     'so have divisors of frequencies, as which llama3 is converted'),
    ('gguf_tells_yarn', lambda f: bool(f.gguf) and f.gguf.yarn == 'told',
     "it has yarn's betas, and a multiplier that divides its attention factor"),
    ('gguf_bare_sliding', lambda f: bool(f.gguf) and gguf_of(f).sliding.startswith('plain')
     and not gguf_of(f).shares_attention,
     'its sliding layers rotate plainly, also without attn_factor'),
    ('mscales', lambda f: f.rope.attention_factor == 'long_mscale', "longrope's attention factor is long_mscale"),
    ('unmultiplied', lambda f: f.rope.attention_factor == 'one',
     "yarn's attention factor is 1 unless the block has one"),
    ('grows', lambda f: f.rope.grows, 'queries grow with their position: llama_4_scaling_beta'),
    ('may_grow', lambda f: f.own, 'they do if the block has this key'))
# Features that distinguish a family from a Llama, and that src/configs/write.c finds in a model and its plan. If no
# family has all features of a model, later rows matter more.
FEATURE_WORDS = (
    'window', 'qkv_bias', 'router_bias', 'expert_bias', 'clamped', 'embedding_scale', 'gelu', 'norms_after',
    'norms_both', 'head_norms', 'whole_norms', 'experts', 'sinks', 'temperature', 'partial')
# Differences of an engine's reading of a family from its usual reading.
DOES_WORDS = {
    # The layers that slide, and the keys that they are read from.
    'layers_by_default': "the family's period decides the sliding layers, for any config",
    'layers_by_period': "the config's period decides them",
    'takes_text_config': 'a text_config does not stop it',
    'takes_chunks': 'dual_chunk_attention_config',
    'turns_all': 'layers without RoPE rotate, too',
    # Blocks.
    'full_plain': 'full layers get no block',
    'scaling_alone': 'rope_parameters is not read, and rope_scaling is of the full layers',
    'null_block_unseen': 'a rope_scaling of null is unverified',
    'tells_block': "a config without a block gets the class's, and a note says so",
    'two_keys': 'a block has only `type`, linear or dynamic, and a factor',
    'three_keys': "a block has only `type` and longrope's lists",
    'needs_long_list': "longrope's long list and `type` beside it, else it stops",
    'four_keys': "of yarn's block the factor, L and both betas are read, which must be there, and truncate",
    'needs_scaling': 'without a rope_scaling it stops',
    'needs_rope_type': 'a block with only `type` is an error',
    'takes_parameters': 'a theta and a block of rope_parameters count if there are none beside it',
    'renames_mrope': 'the rope_type mrope counts as one without scaling',
    # Methods.
    'linear_alone': 'types except linear are unverified',
    'yarn_alone': 'types except yarn are unverified',
    'llama3_alone': 'types except llama3 are unverified',
    'type_unseen': 'a block with only `type` is unverified',
    'llama3_refused': 'the file has no place for the divisors that llama3 becomes',
    'reads_alpha': "dynamic's alpha counts, at any length",
    'reads_pair': 'the quotient of mscale and mscale_all_dim counts',
    'llama3_unseen': 'llama3 is unverified',
    'proportional': 'it knows the rope_type proportional',
    'yarn_by_type': "yarn was converted before others', if the key is `type`",
    'yarn_told': "the file has yarn's betas, and mscale_all_dim, which it must have",
    'multiplies_again': "by yarn's attention factor, and queries grow one position early",
    # Theta, and the share of a head.
    'theta_fixed': 'theta is a constant',
    'sliding_base_fixed': 'the theta of sliding layers is a constant',
    'flat_by_kind': 'rope_scaling is only for full layers, whose whole heads rotate; sliding ones are plain',
    'pasted_turns_all': 'with a rope_scaling, all pairs of full layers rotate, and plainly',
    'theta_beside': 'theta is read only beside the block',
    'theta_inside': 'theta of rope_parameters takes precedence over one beside it, though the block is not read',
    'share_inside': 'of two shares of a head it takes that of the block',
    'share_outside': 'or the one beside it, which is 1 if neither is there',
    'share_beside': 'a share of a head is read only beside the block',
    # Lengths and positions.
    'keeps_length': 'max_position_embeddings is the longest text for any factor',
    'million': 'texts may be 1,048,576 positions long, for any config',
    'tells_positions': 'its class gives the reach of positions',
    'own_config': 'its own config class stops yarn in rope_parameters',
    # Wrappers.
    'reads_outside': 'its class reads the whole config, and stops if the keys are in text_config',
    'reads_inside': 'its class reads text_config, and stops without it',
    # Releases.
    'own_class': 'some releases have their own class for OLMo 3, and some transformers\'',
    'class_below': "transformers' own class is used",
    'reads_factor': "yarn's attention_factor counts",
    'no_head': 'without a head_dim yarn, dynamic and longrope are an error',
    'original_beside': 'an original length beside the block counts',
    'known_outside': 'it knows the wrapper, though not the text model inside',
    'shifted': 'a release passes its arguments one place off'}
# The rules of layers that turn alike, by which some or all slide.
SLIDES = {'all_slide': 'ALL', 'all_by_flag': 'ALL_BY_FLAG', 'by_flag': 'SOME_BY_FLAG', 'odd_by_flag': 'ODD_BY_FLAG',
          'later': 'LATER', 'listed': 'LISTED'}
# The keys of these differences.
KNOWN = {'theta', 'refuses', 'known', 'before', 'one_block_before', 'block', 'does'}


# ---- families ----

def flags_of(family):
    """The words of C that a row has."""
    if family.layers.period_key and family.period == 0:
        raise ValueError('families.json: %s has no period under %s' % (family.model_type, family.layers.period_key))
    return [word for word, is_said, _ in FAMILY_WORDS if is_said(family)]


def features_of(features):
    found = {feature.name.lower() for feature in features}
    return [word for word in FEATURE_WORDS if word in found]


def known_key(family, name):
    if name not in KEYS:
        raise ValueError('families.json: %s: src/configs/keys.json has no row for its key %s' % (
            family.model_type, name))
    return key_id(name)


def engine_text(family, name, since):
    facts = family.engines.get(name, {})
    if set(facts) - KNOWN:
        raise ValueError('families.json: %s.engines.%s: nobody reads %s' % (
            family.model_type, name, ', '.join(set(facts) - KNOWN)))
    for word in facts.get('does', ()):
        if word not in DOES_WORDS:
            raise ValueError('families.json: %s.engines.%s.does: there is no %s (expected one of %s)' % (
                family.model_type, name, word, ', '.join(DOES_WORDS)))
    members = ['.since = ' + number(float(since))] if since else []
    for word in ('theta', 'known', 'one_block_before'):
        if word in facts:
            members.append('.%s = %s' % (word, number(float(facts[word]))))
    for word in ('before', 'refuses', 'block'):
        if word in facts:
            members.append('.%s = %s' % (word, quoted(facts[word])))
    if facts.get('does'):
        members.append('.does = ' + bits('DOES_', facts['does']))
    return laid_out('    {', ['.name = ' + quoted(name), *members], '},') if members else ''


def of_engines(family):
    """The rows of engines with which something differs; '': there is none."""
    seen = dict(each.partition('@')[::2] for each in family.seen)
    if set(family.engines) - set(seen):
        raise ValueError('families.json: %s.engines: %s is not among those seen' % (
            family.model_type, ', '.join(set(family.engines) - set(seen))))
    rows = ''.join(engine_text(family, name, since) for name, since in seen.items())
    return 'static const FamilyEngine engines_of_%s[] = {\n%s    {0},\n};\n' % (family.model_type, rows) if rows else ''


def family_text(family):
    default, rope, layers = family.default, family.rope, family.layers
    is_periodic = layers.rule in ('periodic', 'small')
    numbers = {
        'max_positions': default('max_position_embeddings', 0),
        'original': default('original_max_position_embeddings', 0),
        'hidden': family.sizes.get('hidden_size', 0), 'heads': family.sizes.get('num_attention_heads', 0),
        'head_dim': default('head_dim', 0), 'head_times': default('head_times', 0),
        'long_positions': default('long_positions', 0), 'global_head_dim': default('global_head_dim', 0),
        'nope_dim': default('qk_nope_head_dim', 0), 'rope_dim': default('qk_rope_head_dim', 0),
        'theta': default('rope_theta', 1e4), 'local_theta': rope.local_theta if rope.by_kind else 0,
        'window': default('sliding_window', 0) if is_periodic else 0, 'period': family.period,
        'no_rope_each': default('no_rope_layer_interval', 0) if layers.without_rope == 'listed' else 0,
        'chunk': default('attention_chunk_size', 0) if layers.rule == 'chunked' else 0,
        'partial': default('partial_rotary_factor', 0), 'slides_with': family.gguf.slides_with if family.gguf else 0}
    block = default('rope_parameters')
    zeros = [key for key, meant in layers.zeros.items() if meant != 'without_rope']
    # Where full layers never turn, such a list says nothing new.
    thetas = '' if layers.without_rope else layers.thetas
    listed = family.states.listed if family.states and layers.others == 'linear' else ''
    linear = family.states.words if family.states else ('linear_attention',)
    others = ' '.join(linear) if layers.others == 'linear' else ''
    layer_keys = [*family.keys.by_layer, *(['rope_interleave'] if family.latent == 'interleave' else [])]
    texts = {'longer_key': family.keys.longer, 'thetas_key': thetas, 'only_key': rope.only_key,
             'period_key': layers.period_key, 'earlier_key': layers.earlier_key,
             'zeros_key': ' '.join(zeros), 'indexes_key': listed, 'other_words': others,
             'full_words': ' '.join(layers.full_words), 'layer_keys': ' '.join(layer_keys)}
    if family.runs and family.gguf:
        texts['gguf'] = family.gguf.architecture
    members = [quoted(family.model_type), quoted(family.architecture)]
    members += ['.%s = %s' % (name, number(value)) for name, value in numbers.items() if value]
    if layers.rule in SLIDES:
        members.append('.slides = SLIDES_' + SLIDES[layers.rule])
        members += ['.%s = %s' % (name, number(default(key))) for name, key in (
            ('alike_window', 'sliding_window'), ('max_window_layers', 'max_window_layers')) if default(key)]
    members += ['.%s = %s' % (name, quoted(text)) for name, text in texts.items() if text]
    members += ['.%s = %s' % (name, known_key(family, key)) for name, key in (
        ('head_key', family.keys.head), ('rotary_key', rope.rotary_key)) if key]
    key_of = functools.partial(known_key, family)
    for name, by_kind, none, text_of in (('theta_keys', rope.theta_keys, 'KEY_NONE', key_of),
                                         ('block_names', rope.blocks, 'NULL', quoted)):
        if by_kind:
            members.append('.%s = {%s}' % (name, ', '.join(text_of(by_kind[kind]) if kind in by_kind else none
                                                           for kind in ('full', 'sliding'))))
    if rope.unturned:
        _, scale, length = rope.unturned
        members += ['.unturned = {%s}' % ', '.join(known_key(family, key) for key in rope.unturned),
                    '.unturned_beta = ' + number(default(scale)), '.unturned_length = ' + number(default(length))]
    if family.aliases:
        members += ['.aliases = ' + quoted(' '.join(family.aliases)),
                    '.also_architectures = ' + quoted(' '.join(family.aliases.values()))]
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
        members.append('.seen = ' + quoted(' '.join(each.partition('@')[0] for each in family.seen)))
    if of_engines(family):
        members.append('.engines = engines_of_%s' % family.model_type)
    return laid_out('    {', members, '},')


def table():
    families = list(FAMILIES.values())
    inside = {name: (architecture, of[0].model_type if len(of) == 1 else '', of[0].wrapped_flat)
              for name, (architecture, of) in WRAPPERS.items()}
    wrappers = ''.join('    {%s, %s, %s, %s},\n' % (
        quoted(name), quoted(architecture), quoted(text) if text else 'NULL', 'true' if is_flat else 'false')
        for name, (architecture, text, is_flat) in inside.items())
    return (FIRST + '#pragma once\n\n'
            + '\n'.join(filter(None, map(of_engines, families)))
            + '\nstatic const RopeFamily families[] = {\n' + ''.join(family_text(family) for family in families)
            + '};\n\n// Models of pictures and text; inside is NULL where it may be one of several families.\n'
            + 'static const FamilyWrapper wrappers[] = {\n' + wrappers + '};\n')


# ---- words ----

def enumerated(prefix, words):
    """A bit for each word, and its meaning: constants of 64 bits, which an enum of C cannot have. C keeps them in a
    FamilyWords. The last word has the highest bit: code which keeps words in a narrower integer loses them, and a
    test fails, before there are more of them than that has bits."""
    if len(words) > WORD_BITS:
        raise ValueError('%s: %d words, and FamilyWords has %d bits for them' % (prefix, len(words), WORD_BITS))
    lines = []
    for bit, (word, meaning) in enumerate(words, WORD_BITS - len(words)):
        line = '#define %s_%s ((FamilyWords)1 << %d)' % (prefix, word.upper(), bit)
        above = bool(meaning) and len(line) + len(meaning) + 5 > COLUMNS
        lines += ['// ' + part for part in (textwrap.wrap(meaning, COLUMNS - 3) if above else ())]
        lines.append(line + ('  // ' + meaning if meaning and not above else ''))
    return ''.join(line + '\n' for line in lines)


def words():
    return ('// Made by tools/generate/family_table.py, which has the words and their meanings, not by hand.\n'
            '#pragma once\n\n#include <stdint.h>\n\n'
            '// Some of the words below: peculiarities of a family, its features, behavior of engines.\n'
            'typedef uint%d_t FamilyWords;\n\n'
            '// Peculiarities of a family.\n' % WORD_BITS
            + enumerated('FAMILY', [(word, meaning) for word, _, meaning in FAMILY_WORDS])
            + '\n// Features that distinguish a family from a Llama and can be seen in a model. If no family has all\n'
            '// features of a model, later ones matter more.\n'
            + enumerated('FEATURE', [(word, '') for word in FEATURE_WORDS])
            + '\n// Differences of a family in an engine from other families.\n'
            + enumerated('DOES', list(DOES_WORDS.items())))


# ---- docs/checkpoints.md ----

def known_of(family):
    """The facts about RoPE in a family that is explained and not run."""
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
    """docs/checkpoints.md with the lists of the rows."""
    start = '| what is known of RoPE | families (`model_type`) |\n| --- | --- |\n'
    first, found, rest = text.partition(start)
    text = first + found + explained_lines() + rest[rest.index('\n\n') + 1:] if found else text
    first, found, rest = text.partition('In GGUF the architectures are')
    return first + architecture_lines() + rest[rest.index('\n\n') + 1:] if found else text


def classes():
    """The architectures that engines have classes for, which have tables of their own."""
    with open(os.path.join(ROOT, CLASSES), encoding='utf-8') as file:
        rows = json.load(file)
    out = '// Made by tools/generate/family_table.py from src/engines/classes.json, not by hand.\n'
    for name, row in rows.items():
        lines = textwrap.wrap(' '.join(row['names']), 90, break_on_hyphens=False)
        out += '\n' + textwrap.fill(row['is'], 96, initial_indent='// ', subsequent_indent='// ') + '\n'
        out += 'const char %s[] =\n    " ' % name + ' "\n    "'.join(lines) + ' ";\n'
    return out


def main(arguments):
    made = {HEADER: table(), WORD_HEADER: words(), CLASS_HEADER: classes()}
    found = read_if_there(LISTS)
    if found is not None:
        made[LISTS] = with_lists(found)
    return keep(made, 'export/families.json and its words', 'tools/generate/family_table.py', arguments)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
