"""config.json: reads the header's fields, with the names of docs/format.md. layers.py reads the keys about layers, and
rope.py asks ./run for the RoPE settings. The rows of the families (families.py) define how they read a key, or its
absence."""

from __future__ import annotations

import json
import os
from math import sqrt
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .common import (ENCODINGS, MAX_EOS, MAX_EPS, MAX_HEADS, MAX_HEAD_DIM, MAX_LAYERS, MAX_PER_LAYER, MAX_SEQ,
                     MAX_VOCAB, MAX_WIDTH, REFUSED, Job, Keys, Problem, not_used, parse_json, read_json, read_small)
from .families import FAMILIES, GATES, Family
from .kinds import altup, experts, gaussian_topk, latent, layers, shapes, states, steps
from .model import FIELDS_OF, Feature, Model
from .rope import ask, read_ropes

# Parts of other families, and the values with which these models can be computed.
NOT_COMPUTED = {'attn_logit_softcapping': 'null, since softcaps are not computed',
                'final_logit_softcapping': 'null, since softcaps are not computed',
                'hidden_size_per_layer_input': 'none, since per-layer embeddings are not computed'}


class Read(NamedTuple):
    """The contents of a config.json."""
    model: Model
    family: Family
    wrapped: bool  # the text model is inside a multimodal model
    interleaved: bool  # in latent attention: the rows of a pair are neighbors
    table_rows: int    # rows of the table of per-layer embeddings; 0: there is none


def read_config(job: Job, folder: str) -> Read:
    path = os.path.join(folder, 'config.json')
    data = read_small(job, path)
    said = ask(job, path)
    whole = Keys(job, path, parse_json(path, data))
    config, family = text_config(whole, said)
    for spelling in family.keys.also.keys() & config.values.keys():
        config.values[family.keys.also[spelling]] = config.values[spelling]
    # The class of a wrapper, whose keys may be the text model's own, has another name.
    check_keys(config, family, 'wrapper' in said and config is whole)
    dim = config.integer('hidden_size', MAX_WIDTH, family.default('hidden_size', REFUSED))
    n_heads = config.integer('num_attention_heads', MAX_HEADS, family.default('num_attention_heads', REFUSED))
    widths = latent.from_config(config, family) if family.latent else {}
    head_dim = widths.pop('head_dim', 0) or read_head_dim(config, family, dim, n_heads)
    key = 'num_key_value_heads'
    n_kv_heads = n_heads if widths else config.integer(key, MAX_HEADS, family.default(key, n_heads), n_heads)
    if n_heads % n_kv_heads:
        config.refuse(key, 'a divisor of num_attention_heads, %d' % n_heads)
    vocab_size = config.integer('vocab_size', MAX_VOCAB, family.default('vocab_size', REFUSED))
    eps_key = family.keys.of('norm_eps')
    n_layers = config.integer('num_hidden_layers', MAX_LAYERS, family.default('num_hidden_layers', REFUSED))
    widths_of = shapes.read_widths(config, family, n_layers)
    model = Model(
        dim=dim, n_heads=n_heads, n_kv_heads=n_kv_heads, head_dim=head_dim, vocab_size=vocab_size, n_layers=n_layers,
        seq_len=config.integer('max_position_embeddings', MAX_SEQ, family.default('max_position_embeddings')),
        hidden_dim=max(widths_of) if widths_of else states.read_hidden_dim(config, family),
        tied=read_tied(whole, config, family, 'wrapper' in said),
        norm_eps=config.number(eps_key, family.default(eps_key, 1e-6), high=MAX_EPS),
        norms_lack_one=bool(family.adds_one), last_is_whole=family.adds_one == 'but_last')
    model.set(**widths)
    for feature in family.always:
        model.set(**FIELDS_OF.get(feature, {}))
    if family.keys.attention_bias == 'read' and config.flag('attention_bias', family.default('attention_bias', False),
                                                            False):
        model.set(**FIELDS_OF[Feature.ALL_BIASES])
    for key, names in family.keys.says.items():
        if config.flag(key, family.default(key, False), False):
            model.set(**said_by(names))
    if model.attention_gate and model.qkv_bias and family.names.gate_in_queries:
        model.gate_bias = 1
    key = family.keys.of('after_norm_eps')
    if key:
        model.set(after_norm_eps=config.number(key, family.default(key), high=MAX_EPS))
    model.set(**(states.from_config(config, family, model) if family.states else
                 layers.from_config(config, said, family, model.n_layers)))
    table_rows = read_per_layer(config, family, model)
    model.set(**altup.from_config(config, family), **gaussian_topk.from_config(config, family, n_layers))
    shapes.from_config(config, family, model, widths_of)
    if model.shapes and not family.shapes:
        model.hidden_dim = max(shape.hidden_dim for shape in model.shapes) or model.hidden_dim
    shapes.mark_same(config, family, model)
    key = family.keys.of('attention_gate')
    if key:
        model.set(attention_gate=GATES[config.get(key, lambda v: type(v) in (bool, str) and v in GATES,
                                                  'true, per-head or per-element', True)])
    model.set(**experts.from_config(config, family, model))
    model.set(**read_special(folder, whole, config, family, vocab_size), **read_scales(config, family, model),
              **read_encoding(config, family, model.seq_len), **read_ropes(config, said, family, model))
    if model.qk_norm_late and (model.rope_dynamic or model.short_factor != model.long_factor):
        name = 'rope_scaling' if config.values.get('rope_scaling') else 'rope_parameters'
        config.refuse(name, 'a scale of all lengths, since norms of heads come after RoPE')
    is_wrapped = config is not whole or 'wrapper' in said
    return Read(model, family, is_wrapped, not family.latent or latent.is_interleaved(config, family), table_rows)


def said_by(names: str) -> Dict[str, int]:
    """The fields that a flag sets, given the names of its features."""
    return {field: value for name in names.split() for field, value in FIELDS_OF[Feature[name.upper()]].items()
            if value}


def check_class(config: Keys, names: List[str]) -> None:
    """Refuses a checkpoint of another class: it has other layers, or does not predict a token. Its RoPE can be
    explained nevertheless."""
    found = config.values.get('architectures')
    first = found[0] if isinstance(found, list) and found else None
    if found in (None, []) or isinstance(first, str) and first.lower() in [name.lower() for name in names]:
        return
    expected = ' or '.join(json.dumps([name]) for name in names) + ' or null'
    if isinstance(first, str):
        raise Problem(config.path, '%sarchitectures cannot be used (found %s, expected %s; another class has other '
                      'layers or outputs, of which --explain --rope-config interprets only RoPE)'
                      % (config.inside, json.dumps([first])[:80], expected))
    config.refuse('architectures', expected)


def check_keys(config: Keys, family: Family, is_wrapper: bool) -> None:
    """Refuses keys that the family does not compute, and notes keys that its class does not read."""
    # Aliases have their own class names.
    if config.values.get('model_type') not in family.aliases and not is_wrapper:
        check_class(config, family.architectures)
    if family.activation:
        for key, value in family.activation.items():
            config.only(key, value)
    else:
        config.only('hidden_act', 'silu', 'swish')
    config.only('is_causal', True)
    if 'mlp_bias' not in family.keys.says:
        config.only('mlp_bias', False)
    for key, values in family.keys.must.items():
        config.only(key, *values)
        if key not in config.values and family.default(key, values[0]) not in values:
            config.refuse(key, ' or '.join(json.dumps(value) for value in values))
    kind = family.keys.quantization
    if kind:
        config.get('quantization_config', lambda v: isinstance(v, dict) and v.get('quant_method') == kind,
                   'null, or an object with a quant_method of ' + kind, None, None)
    else:
        config.only('quantization_config', None)
    if family.keys.attention_bias == 'refused' and 'attention_bias' not in family.keys.says:
        config.only('attention_bias', False)


def text_config(config: Keys, said: Dict[str, Any]) -> Tuple[Keys, Family]:
    """The config of the text model, which may be nested, and its family, as found by ./run."""
    text, family = config, FAMILIES.get(said.get('family', ''))
    for place in said['inside'].split('/') if said['inside'] else ():
        text = text.within(text.get(place, lambda v: isinstance(v, dict), 'the config of a text model'))
    if not any(keys.values.get(key) for keys in (config, text) for key in ('model_type', 'architectures')):
        family = None  # ./run reads it as a Llama
    for keys in (config, text) if not family or family.runs else ():
        refuse_not_computed(keys, family)
    if not family or not family.runs:
        (text if 'model_type' in text.values else config).refuse('model_type', way_out(config, family))
    if 'wrapper' in said:
        check_class(config, [said['wrapper']])
    if text is not config:
        text.values.update({key: size for key, size in family.sizes.items() if key not in text.values})
        config.only('quantization_config', None)
    return text, family


def way_out(config: Keys, family: Optional[Family]) -> str:
    """The expected values of model_type, and advice for another one."""
    known = '; this one is explained' if family else ', see docs/checkpoints.md; what its RoPE does can be seen'
    lacks = '; not computed here: ' + family.lacks if family and family.lacks else ''
    lacks += '; ' + family.gone if family and family.gone else ''
    return 'a family that is run%s: ./run --explain --rope-config %s%s' % (known, config.path, lacks)


def refuse_not_computed(config: Keys, family: Optional[Family]) -> None:
    """Refuses the keys of parts of other families (Gemma 2, Gemma 4), unless the family reads the key, or its class
    ignores it."""
    read = {*family.scales.values(), family.keys.of('per_layer_dim')} if family else set()
    for key, expected in NOT_COMPUTED.items():
        value = config.values.get(key)
        if value is None or key in read or key == 'hidden_size_per_layer_input' and value == 0:
            continue
        if not family or key not in family.keys.unread:
            config.refuse(key, expected)
        not_used(config, family, key)


def read_head_dim(config: Keys, family: Family, dim: int, n_heads: int) -> int:
    usual, null = family.default('head_dim'), REFUSED
    if family.keys.null_head and 'head_dim' in config.values and config.values['head_dim'] is None:
        usual = None
    if 'head_dim' in family.keys.unread:
        config = config.within({key: value for key, value in config.values.items() if key != 'head_dim'})
    if not usual:
        if config.values.get('head_dim') is None and dim % (2 * n_heads):
            config.refuse('hidden_size', 'an even multiple of num_attention_heads, %d' % n_heads)
        usual = null = dim // n_heads
    head_dim = config.integer('head_dim', MAX_HEAD_DIM, usual, null)
    if head_dim % 2 or not 0 < head_dim <= MAX_HEAD_DIM:
        config.refuse('head_dim', 'an even number up to %d' % MAX_HEAD_DIM)
    return head_dim


def read_tied(whole: Keys, config: Keys, family: Family, is_known: bool) -> bool:
    """Whether the classifier is the embedding: for a multimodal model its own key counts, which is true by default."""
    inside = config.flag('tie_word_embeddings', family.default('tie_word_embeddings', False))
    if config.values.get(family.keys.of('shared_classifier')) is not None:
        inside = config.flag(family.keys.of('shared_classifier'), inside)
    if config is whole:
        return inside
    has_default = family.wrapped_tied and not family.states and is_known
    tied = whole.flag('tie_word_embeddings', True if has_default else inside)
    if 'tie_word_embeddings' in config.values and inside != tied:
        config.job.note('warning: %s: tie_word_embeddings is %s beside text_config and %s in it: %s counts' % (
            config.path, *(str(value).lower() for value in (tied, inside, tied))))
    return tied


def read_scales(config: Keys, family: Family, model: Model) -> Dict[str, float]:
    """The scales of embeddings and scores. The embedding's scale is rounded to the type of the weights when these are
    read."""
    found = {}
    if family.scales.get('embedding') == 'sqrt_dim':
        found['embedding_scale'] = sqrt(model.dim)
    for field, word in ('logit_cap', family.scales.get('logit_cap')), ('score_cap', family.scales.get('score_cap')):
        found[field] = config.number(word, family.default(word, 0), 0, zero=True, high=1e6) if word else 0
    for word, (field, make, _) in steps.FACTORS.items():
        key = family.scales.get(word)
        if key:
            factor = make(config.number(key, family.default(key, 1.0), high=1e6), model.head_dim)
            usual = model.head_dim ** -0.5 if field == 'score_scale' else 1
            found[field] = 0.0 if factor == usual else factor
    values = family.scales.get('values')
    if values:
        scale = config.number(values, family.default(values, 1.0), 1.0, high=1e6)
        found['value_scale'] = 0.0 if scale == 1 else scale
    scores = family.scales.get('scores')
    if scores == 'one':
        found['score_scale'] = 1.0
    elif scores:
        width = config.number(scores, family.default(scores))
        found['score_scale'] = 0 if width == model.head_dim else width ** -0.5
    return found


def read_per_layer(config: Keys, family: Family, model: Model) -> int:
    """Sets the width of per-layer embeddings. Returns the number of tokens in their table."""
    key, size_key = family.keys.of('per_layer_dim'), 'vocab_size_per_layer_input'
    width = config.integer(key, MAX_PER_LAYER, family.default(key), 0, low=0) if key else 0
    size = config.integer(size_key, MAX_VOCAB, family.default(size_key)) if width else 0
    model.set(per_layer_dim=width)
    return size


def read_encoding(config: Keys, family: Family, seq_len: int) -> Dict[str, int]:
    """The position encoding of a model from this program's tools, and the rows of its tables. A model with states
    belongs to a family, and has the key if its attending layers do not rotate."""
    if not family.own and not (family.states and 'position_encoding' in config.values):
        return {}
    name = config.get('position_encoding', lambda v: v in ENCODINGS, 'one of ' + ', '.join(ENCODINGS))
    rows = seq_len if name == 'learned' else 1 + config.integer('clip_distance', MAX_SEQ) if name == 'shaw' else 0
    return {'encoding': ENCODINGS.index(name), 'encoding_rows': rows}


# ---- tokens at the beginning and end of texts ----

def read_special(folder: str, whole: Keys, config: Keys, family: Family, vocab_size: int) -> Dict[str, Any]:
    bos_id = family.default('bos_token_id', -1)
    usual = family.default('eos_token_id', [])
    usual = [id for id in (usual if isinstance(usual, (list, tuple)) else [usual]) if id < vocab_size]
    bos_id = bos_id if bos_id < vocab_size else -1
    # generate() stops at the tokens of generation_config.json, if there is one: chat checkpoints name the end of a turn
    # only there (Llama 3: config.json has end_of_text, generation_config.json adds eot_id). Ours stops at both.
    beside = [] if config is whole else end_tokens(whole, None, vocab_size)
    eos_ids = beside + end_tokens(config, None if beside else usual, vocab_size)
    if os.path.exists(os.path.join(folder, 'generation_config.json')):
        eos_ids += end_tokens(read_json(config.job, os.path.join(folder, 'generation_config.json')), None, vocab_size)
    eos_ids = list(dict.fromkeys(eos_ids))
    if len(eos_ids) > MAX_EOS:
        config.refuse('eos_token_id', 'at most %d end tokens with those of generation_config.json' % MAX_EOS)
    return {'bos_id': config.integer('bos_token_id', vocab_size - 1, bos_id, -1, 0), 'eos_ids': eos_ids}


def end_tokens(config: Keys, default: Optional[List[int]], vocab_size: int) -> List[int]:
    """eos_token_id as a list: it may be an id, a list of ids, or null."""
    value = config.values.get('eos_token_id', default)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(id) is int and 0 <= id < vocab_size for id in ids):
        config.refuse('eos_token_id', 'token ids below %d' % vocab_size)
    return ids
