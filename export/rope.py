"""RoPE's settings in a config.json, and what they mean: the header's fields, by the names of docs/format.md. The
meaning is that of Transformers 5.17."""

from __future__ import annotations

from dataclasses import replace
from math import floor, log
from typing import Any, Dict, List, Optional, Tuple

from .common import MAX_SEQ, NUMBER_LIMIT, Keys, is_number
from .families import TYPES, Family
from .keys import BY_LAYER, KEYS, lost_keys, meant, not_used, value, warn
from .kinds.layers import FULL, SLIDING
from .model import TURNS_AS_SLIDING, Model, of_kind

BLOCKS = 'rope_scaling', 'rope_parameters'
ORIGINAL = 'original_max_position_embeddings'
CHUNKS = 'dual_chunk_attention_config'
ROPE_METHODS = {'default': 0, 'linear': 1, 'dynamic': 2, 'yarn': 4, 'llama3': 5, 'longrope': 6,  # dynamic: of ntk
                'proportional': 7}
WITH_LENGTH = 'yarn', 'longrope', 'llama3'  # the others count from max_position_embeddings, whatever else is said


# ---- one RoPE for all layers, or one for each kind of layers ----

def is_by_layer(value: Any) -> bool:
    """Whether a value gives layers or positions a RoPE of their own. Nothing, a list of ones and a list of one word do
    not."""
    if not isinstance(value, list):
        return bool(value)
    return not all(value[0] == x if isinstance(x, str) else type(x) in (int, float) and x == 1 for x in value)


def refuse_by_layer(config: Keys, family: Optional[Family]) -> None:
    """Refuses, by its key, what differs by layer or by position where the family does not read it."""
    expected = 'none, since what differs by layer or position is not read'
    by_kind = bool(family and family.rope.by_kind)
    for key in BY_LAYER:
        is_list = isinstance(config.values.get(key), (list, type(None)))
        if family and key in family.keys.by_layer and KEYS[key].type == 'list' and not is_list:
            config.refuse(key, 'a list')
        if not (family and key in family.keys.by_layer) and is_by_layer(config.values.get(key)):
            config.refuse(key, expected)
    for name in BLOCKS:
        block = config.values.get(name)
        if isinstance(block, dict) and is_by_layer(block.get('llama_4_scaling_beta')) and not (
                by_kind and name == 'rope_parameters' or family and family.rope.grows):
            config.within(block, name + '.').refuse('llama_4_scaling_beta', expected)
        has_kinds = isinstance(block, dict) and any(isinstance(value, dict) for value in block.values())
        if has_kinds and (not by_kind or name == 'rope_scaling'):
            config.refuse(name, 'one object of settings for all layers')


def read_ropes(config: Keys, family: Family, model: Model) -> Dict[str, Any]:
    """The RoPE fields. Those of sliding layers begin with `sliding_`, where such layers have a RoPE of their own."""
    key = family.rope.only_key
    if family.rope.none or key and config.values.get(key) != 'rope':
        for name in BLOCKS:
            block = config.values.get(name)
            kind = block.get('rope_type', block.get('type')) if isinstance(block, dict) else None
            if isinstance(kind, str) and kind != 'default':
                warn(config, '%s is not used, since no layer turns', name)
        without = {name: value for name, value in config.values.items() if name not in KEYS}
        rope = ropes_of(config.within(without), family, model)
    else:
        rope = ropes_of(config, family, model)
    lost_keys(config)
    return rope


def ropes_of(config: Keys, family: Family, model: Model) -> Dict[str, Any]:
    slide = any(flags & TURNS_AS_SLIDING for flags in model.layers)
    theta = family.default('rope_theta', 10000.0)
    if not family.rope.by_kind:
        rope = read_rope(config, rope_block(config, family), family, theta, model)
        return {**rope, **(as_sliding(rope, model) if slide else {})}
    full, sliding = blocks_by_kind(config, family)
    (full_dim, n_full), (sliding_dim, _) = of_kind(model, False), of_kind(model, True)
    rope = read_rope(config, full, family, value(config, 'rope_theta', theta),
                     replace(model, head_dim=full_dim))
    own = read_rope(config, sliding, family, local_theta(config, sliding, family), replace(model, head_dim=sliding_dim))
    if own['rope_method'] == ROPE_METHODS['longrope'] or own['rope_dynamic']:
        sliding.refuse('rope_type', 'default, linear, yarn or llama3')
    turning, in_sliding = rope['rotary_dim'] or full_dim, own.pop('rotary_dim') or sliding_dim
    widest = [dim for dim, block in ((full_dim, rope), (sliding_dim, own))
              if block['rope_method'] == ROPE_METHODS['proportional'] and dim != model.head_dim]
    if n_full and widest:
        full.refuse('rope_type', 'another one than proportional, since other layers have wider heads')
    if not n_full:  # the header's settings are those of full layers, of which there are none
        turning = min(turning, in_sliding)
    rope['rotary_dim'] = turning % model.head_dim
    own_dim = {'sliding_rotary_dim': in_sliding} if in_sliding != turning else {}
    return {**rope, **({**as_sliding(own, model), **own_dim} if slide else {})}


def as_sliding(rope: Dict[str, Any], model: Model) -> Dict[str, Any]:
    """The same settings for sliding layers, under their names. What model.bin cannot say of them by themselves stays
    what all layers have, which is right where full ones do not turn (EXAONE)."""
    if rope['rope_method'] == ROPE_METHODS['longrope'] or rope['rope_dynamic']:
        model.layers = [flags & ~TURNS_AS_SLIDING for flags in model.layers]
        return {}
    own = {name.replace('rope_', ''): value for name, value in rope.items() if name != 'rope_dynamic'}
    return {'sliding_rope': 1, **{'sliding_' + name: value for name, value in own.items()
                                  if name not in ('temperature_beta', 'rotary_dim', 'original_unsaid',
                                                  'named_original')}}


def blocks_by_kind(config: Keys, family: Family) -> Tuple[Keys, Keys]:
    """The settings of full layers, and those of sliding ones. rope_scaling is the older layout, and speaks of full
    layers alone."""
    is_refused = family.rope.one_block == 'refused'  # whatever it is
    scaling, own = (config.get(name, lambda v: not v or isinstance(v, dict) or is_refused and name == BLOCKS[0],
                               'an object of settings', None) or {} for name in BLOCKS)
    if own and not {FULL, SLIDING} & set(own):
        if scaling:
            config.refuse('rope_parameters', '%s and %s in it, since there is a rope_scaling' % (FULL, SLIDING))
        warn(config, 'rope_parameters means nothing to model_type %s without %s and %s, and is not used',
             family.model_type, FULL, SLIDING)
        own = {}
    if is_refused and scaling:
        config.refuse('rope_scaling', "none: Hugging Face 5 fails with KeyError 'sliding_attention', since it "
                                      'replaces rope_parameters')
    if not own and not scaling:  # the class has blocks of its own
        own = {kind: family.default(key) for kind, key in ((FULL, 'rope_parameters'), (SLIDING, 'sliding_parameters'))
               if family.default(key)}
    blocks = config.within(own, 'rope_parameters.')
    for key in own:
        if key == 'rope_type' and own[key] in (None, 'default'):  # as the library saves it, too
            continue
        if key not in (FULL, SLIDING):
            blocks.refuse(key, 'none beside %s and %s' % (FULL, SLIDING))
    full, sliding = (blocks.get(key, lambda v: isinstance(v, dict), 'an object of settings', {}, {})
                     for key in (FULL, SLIDING))
    if scaling and full:
        warn(config, 'rope_scaling is laid over rope_parameters.%s', FULL)
    name = 'rope_scaling.' if scaling else 'rope_parameters.%s.' % FULL
    return config.within({**full, **scaling}, name), \
        config.within(sliding, 'rope_parameters.%s.' % SLIDING)


def local_theta(config: Keys, sliding: Keys, family: Family) -> float:
    """The theta of sliding layers, unless their block says another one."""
    inside, key = sliding.values.get('rope_theta'), family.rope.theta_keys.get('sliding')
    if key:
        local = value(config, key, family.rope.local_theta)
        if is_number(inside) and key in config.values and inside != local:
            warn(config, '%s is %.12g beside rope_parameters.%s and rope_theta %.12g in it: %.12g counts', key, local,
                 SLIDING, inside, inside)
    else:
        local, beside = family.rope.local_theta, config.values.get('rope_theta')
        if is_number(beside) and inside is None and beside != local:
            warn(config, 'rope_theta is %.12g for %s alone: %s has %.12g', beside, FULL, SLIDING, local)
    return local


def read_rotary_dim(config: Keys, block: Keys, family: Family, kind: str, model: Model) -> int:
    """How many elements of a head turn: all of them, but in families that can turn a part."""
    key, head_dim = family.rope.rotary_key, model.head_dim
    share = 'partial_rotary_factor'
    if model.kv_rank:  # as newer releases write it, too
        for keys in config, block:
            if value(keys, share, 1) not in (1, model.turning / model.head_dim):
                keys.refuse(share, '1, or what makes %d of head_dim %d' % (model.turning, model.head_dim))
        return model.turning
    if key and config.values.get(key) is not None:
        rotary_dim = value(config, key)
        if rotary_dim % 2 or rotary_dim > head_dim:
            config.refuse(key, 'an even number up to head_dim, %d' % head_dim)
        for keys in config, block:
            inside = value(keys, share, rotary_dim / head_dim)
            if int(head_dim * inside) != rotary_dim:
                warn(config, '%s%s is not used, since %s is %d', keys.inside, share, key, rotary_dim)
        return rotary_dim
    if not family.rope.partial:
        for keys in config, block:
            whole_share(keys)
        return head_dim
    key = 'partial_rotary_factor'
    usual = family.default(key, 1.0)
    outside = value(config, key, usual)
    share = value(block, key, outside)
    if outside_counts(config, family, kind):
        share = outside
    rotary_dim = int(head_dim * share)
    if kind == 'proportional':  # which counts pairs
        rotary_dim = 2 * int(head_dim * share / 2)
    if rotary_dim < 2 or rotary_dim % 2:
        (block if block.values.get(key) else config).refuse(key, 'what makes an even part of head_dim, %d' % head_dim)
    return rotary_dim


def whole_share(keys: Keys) -> None:
    """In families that turn whole heads."""
    if value(keys, 'partial_rotary_factor', 1) != 1:
        keys.refuse('partial_rotary_factor', '1')


def outside_counts(config: Keys, family: Family, kind: str) -> bool:
    """Whether a share beside the block goes before one in it."""
    key = 'partial_rotary_factor'
    return family.rope.share_beside and kind != 'default' and bool(config.values.get(key) or family.default(key))


def rope_block(config: Keys, family: Family) -> Keys:
    """The settings of RoPE, by themselves."""
    name = 'rope_scaling' if config.values.get('rope_scaling') else 'rope_parameters'
    values = config.values.get(name) or {}
    own = family.default('rope_parameters')
    if not isinstance(values, dict):
        config.refuse(name, 'one object of settings for all layers')
    if name == 'rope_scaling' and config.values.get('rope_parameters'):
        warn(config, 'rope_parameters is not used, since there is a rope_scaling')
    if own and name == 'rope_parameters' and config.values.get(name) is None:
        values = own
        if 'rope_scaling' in config.values:
            warn(config, 'rope_scaling is null, and model_type %s has %s all the same', family.model_type,
                 {'yarn': 'YaRN'}.get(own.get('rope_type'), own.get('rope_type')))
    return config.within(values, name + '.')


def read_rope(config: Keys, block: Keys, family: Family, theta: float, model: Model) -> Dict[str, Any]:
    """The fields of one block: rope_scaling, or rope_parameters when that is empty. In it, rope_type goes before type
    and rope_theta before one beside the block, yet an original_max_position_embeddings beside the block goes before
    one in it, unless the block is of one kind of layers."""
    by_kind, seq_len = family.rope.by_kind, model.seq_len
    kind = read_type(config, block, family)
    rotary_dim = read_rotary_dim(config, block, family, kind, model)
    if not by_kind:
        theta = value(config, 'rope_theta', theta)
    theta = value(block, 'rope_theta', theta)
    rope = {'rope_method': ROPE_METHODS[kind], 'rope_dynamic': int(kind == 'dynamic'), 'theta': theta,
            'rotary_dim': rotary_dim % model.head_dim, 'train_ctx': seq_len, 'truncate': 1}
    alpha = read_alpha(block, kind)
    if alpha:  # Hunyuan's: ntk by that factor at every length
        rope.update(rope_dynamic=0, factor=alpha)
    if kind in WITH_LENGTH:
        low = 2 if kind == 'longrope' else 1  # longrope divides by its logarithm
        inside = family.default(ORIGINAL) or value(block, ORIGINAL, seq_len, low=low)
        rope['train_ctx'] = inside if by_kind else value(config, ORIGINAL, inside, low=low)
        if rope['train_ctx'] < low:
            config.refuse('max_position_embeddings', '%d or more' % low)
    if kind != 'default' and not alpha:
        rope['factor'] = read_factor(block, kind, seq_len / rope['train_ctx'])
    if kind == 'linear':
        rope['named_original'] = named_original(config, block)
    if kind in ('yarn', 'longrope'):
        rope['attention_factor'] = value(block, 'attention_factor', 0, kind)
    if kind == 'yarn':
        rope.update(read_yarn(config, block, rope, family))
    if kind == 'llama3':
        rope['low_freq_factor'] = value(block, 'low_freq_factor')
        rope['high_freq_factor'] = value(block, 'high_freq_factor')
        if rope['high_freq_factor'] < rope['low_freq_factor']:
            block.refuse('high_freq_factor', 'a number no less than low_freq_factor')
    if kind == 'longrope':
        rope.update(read_longrope(block, rotary_dim // 2))
    if family.rope.grows or family.own and 'llama_4_scaling_beta' in block.values:
        rope.update(read_temperature(block, rope, kind, seq_len))
    read_chunks(config, family, rope, kind)
    check_keys(block, kind)
    if not by_kind or FULL in block.inside or block.inside == 'rope_scaling.':
        warn_of_two(config, block, 'rope_theta', True)
    warn_of_two(config, block, 'partial_rotary_factor', not outside_counts(config, family, kind))
    warn_of_share(config, block, family, kind)
    if kind in WITH_LENGTH:
        warn_of_two(config, block, ORIGINAL, by_kind)
    if kind == 'yarn':
        warn_of_pair(config, block, rope)
    if ORIGINAL in warn_of_absent(config, block, family, kind, rope):
        rope['original_unsaid'] = 1
    return rope


def named_original(config: Keys, block: Keys) -> int:
    """From where linear's factor counts, if the config says it: no reader looks at it, and it may be anything. 0: it
    says no length."""
    length = (block if ORIGINAL in block.values else config).values.get(ORIGINAL)
    return int(length) if is_number(length) and length == floor(length) and 1 <= length <= MAX_SEQ else 0


def read_alpha(block: Keys, kind: str) -> float:
    """Of dynamic scaling; 0: there is none."""
    alpha = value(block, 'alpha', 0, kind) if kind == 'dynamic' else 0
    if alpha:
        block.asked.add('factor')
    return alpha or 0


def read_chunks(config: Keys, family: Family, rope: Dict[str, Any], kind: str) -> None:
    """Dual chunk attention: plain frequencies, trained on positions up to chunk_size. Its map of distances is none of a
    model file's settings, but one of --rope's."""
    if config.values.get(CHUNKS) is None:
        return
    values = config.get(CHUNKS, lambda v: isinstance(v, dict), 'an object of settings')
    if family.rope.by_kind:
        config.refuse(CHUNKS, 'none beside layers of two kinds')
    if kind != 'default':
        config.refuse(CHUNKS, 'none beside a scaled block, since its frequencies are plain')
    chunks = config.within(values, CHUNKS + '.')
    size = value(chunks, 'chunk_size')
    local = value(chunks, 'local_size')
    if local >= size:
        chunks.refuse('local_size', 'a whole number from 1 to %d' % max(size - 1, 1))
    if value(chunks, ORIGINAL, size, low=2) != size:
        chunks.refuse(ORIGINAL, 'chunk_size, %d, from which far distances count' % size)
    rope['train_ctx'] = size
    config.job.note('%s is not in a model file: run it with --rope dca --chunk %d' % (CHUNKS, size - local))


def read_temperature(block: Keys, rope: Dict[str, Any], kind: str, seq_len: int) -> Dict[str, Any]:
    """Ministral 3's, which counts from the block's original length whatever the method counts from."""
    beta = value(block, 'llama_4_scaling_beta')
    block.asked.add('max_position_embeddings')  # of its class's own block
    if kind in WITH_LENGTH:
        return {'temperature_beta': beta}
    length = value(block, ORIGINAL)
    if kind == 'dynamic' and length != seq_len:
        block.refuse(ORIGINAL, 'max_position_embeddings, %d, from which dynamic scaling counts' % seq_len)
    return {'temperature_beta': beta, 'train_ctx': length}


def read_type(config: Keys, block: Keys, family: Family) -> str:
    """rope_type, or `type` where there is none, as the family takes it: some classes take older names for others."""
    values, meant = block.values, TYPES[family.rope.types]
    key = 'type' if 'type' in values and 'rope_type' not in values else 'rope_type'
    kinds = list(meant)
    kind = meant[block.get(key, lambda v: isinstance(v, str) and v in kinds, 'one of ' + ', '.join(kinds), 'default')]
    if values.get(key) == 'mrope':
        block.asked.add('mrope_section')
    if family.rope.axes and 'mrope_section' in values:
        block.asked.update(('mrope_section', 'mrope_interleaved'))
        config.job.note('mrope_section changes nothing in a text, where its three positions are one')
    older = values.get('type')
    both = isinstance(older, str) and 'rope_type' in values and (older, kind) != ('su', 'longrope')
    if both and meant.get(older, older) != kind:
        warn(config, 'type is %s and rope_type is %s in %s: %s counts', older, values[key], block.inside[:-1],
             values[key])
    return kind


def read_factor(block: Keys, kind: str, ratio: float) -> float:
    """The scale. One below 1 is a mistake, unless it is what the lengths give."""
    factor = value(block, 'factor', 1.0 if kind == 'proportional' else ratio, kind)
    if factor < 1 and factor != ratio:
        block.refuse('factor', 'a number from 1 to %g' % NUMBER_LIMIT)
    return factor


def read_yarn(config: Keys, block: Keys, rope: Dict[str, Any], family: Family) -> Dict[str, Any]:
    """0 means not said, to the library as in our header."""
    yarn = {key: value(block, key, 0, 'yarn') for key in ('beta_fast', 'beta_slow', 'mscale', 'mscale_all_dim')}
    if (yarn['beta_fast'] or 32) < (yarn['beta_slow'] or 1):
        block.refuse('beta_fast', 'no less than beta_slow')
    if family.latent and yarn['mscale_all_dim']:  # which counts by itself there
        yarn['mscale_in_scores'] = 1
    elif not (yarn['mscale'] and yarn['mscale_all_dim']):  # one without the other has no effect
        yarn['mscale'] = yarn['mscale_all_dim'] = 0
    if family.rope.by_kind and 'truncate' in block.values:
        value(block, 'truncate', True)
        warn(config, '%struncate means nothing to model_type %s and is not used', block.inside, family.model_type)
        return yarn
    return {**yarn, 'truncate': int(value(block, 'truncate', True))}


def check_keys(block: Keys, kind: str) -> None:
    """Notes the keys that the block's type does not use, and refuses those that no type has."""
    has_type = {'type', 'rope_type'} & set(block.values)
    for key in [key for key in block.values if key not in block.asked | {'type', 'rope_type'}]:
        near = '' if key in KEYS else meant(key, 'block')
        if near or key not in KEYS or 'block' not in KEYS[key].at:
            block.refuse(key, 'a key that some rope_type has' + ('; did you mean %s?' % near if near else ''))
        if KEYS[key].read_by:
            warn(block, '%s%s is not used: %s', block.inside, key, KEYS[key].read_by)
            continue
        why = 'means nothing to rope_type %s and is not used' % kind if has_type else (
            'is not used, since a block without a rope_type means no scaling, and Hugging Face 4 refuses it')
        block.job.note('%s%s %s' % (block.inside, key, why))


def warn_of_absent(config: Keys, block: Keys, family: Family, kind: str, rope: Dict[str, Any]) -> List[str]:
    """What a scaled block lacks, where that is seldom meant. A theta of the class's own is meant."""
    absent: List[str] = []
    if block.values is family.default('rope_parameters'):
        return absent
    for name, key in KEYS.items():
        is_theta, is_full = name == 'rope_theta', FULL in block.inside or block.inside == 'rope_scaling.'
        beside = not family.rope.by_kind or is_theta and is_full
        is_meant = is_theta and (rope['theta'] != 1e4 or family.rope.by_kind and not is_full
                                 or 'full' in family.rope.theta_keys)
        if kind not in key.absent_in or name in block.values or beside and name in config.values or is_meant:
            continue
        found = rope['theta'] if is_theta else rope['train_ctx']
        warn(config, '%s has no %s, nor is there one beside it: %s', block.inside[:-1], name,
             key.absent.replace('{value}', '%.12g' % found))
        absent.append(name)
    return absent


def warn_of_two(config: Keys, block: Keys, key: str, inner_counts: bool) -> None:
    """A number that stands both beside the block and in it, and not the same one."""
    beside, inside = config.values.get(key), block.values.get(key)
    if {type(beside), type(inside)} <= {int, float} and beside != inside:
        warn(config, '%s is %.12g beside %s and %.12g in it: %.12g counts', key, beside, block.inside[:-1], inside,
             inside if inner_counts else beside)


def warn_of_pair(config: Keys, block: Keys, rope: Dict[str, Any]) -> None:
    """Yarn's attention factor, as it stands and as the mscale pair makes it."""
    given, grown = rope['attention_factor'], 0.1 * log(rope['factor']) if rope['factor'] > 1 else 0
    by_pair = (grown * rope['mscale'] + 1) / (grown * rope['mscale_all_dim'] + 1)
    if given and rope['mscale'] and not abs(by_pair / given - 1) < 1e-6:
        warn(config, 'attention_factor is %.12g in %s, and mscale and mscale_all_dim make it %.12g: %.12g counts',
             given, block.inside[:-1], by_pair, given)


def warn_of_share(config: Keys, block: Keys, family: Family, kind: str) -> None:
    """A share in a scaled block, before which the class's own goes."""
    key = 'partial_rotary_factor'
    inside, usual = block.values.get(key), family.default(key, 1.0)
    if outside_counts(config, family, kind) and not config.values.get(key) and is_number(inside) and inside != usual:
        warn(config, '%s is %.12g in %s, and nothing beside it: model_type %s has %.12g there, which counts', key,
             inside, block.inside[:-1], family.model_type, usual)


def read_longrope(block: Keys, n_pairs: int) -> Dict[str, Any]:
    lists = {key: block.get(key, lambda v: isinstance(v, list) and len(v) == n_pairs and all(map(is_number, v)),
                            'a list of %d numbers above 0, half of what turns of a head' % n_pairs)
             for key in ('short_factor', 'long_factor')}
    key = 'unscaled_positions'  # our own, see docs/manual.md: Hugging Face has no such thing
    unscaled = block.integer(key, MAX_SEQ, 0, low=0)
    if unscaled and lists['short_factor'] != lists['long_factor']:
        block.refuse(key, '0, since short_factor and long_factor are not the same')
    return {**lists, key: unscaled}
