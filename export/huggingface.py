"""A folder from a hub: config.json and the weights, in one file or in shards."""

from __future__ import annotations

import os
import re
from typing import Dict

from .common import Job, Problem, read_json
from .config import read_config
from .families import Family
from .inputs import adapter_alone, adapter_in, own_weights
from .kinds import altup, expert_tensors, latent, state_tensors
from .model import XIELU, Feature, Model
from .names import names_in
from .safetensors import read_safetensors
from .tensors import Checkpoint, gather_numbers, rounded, split
from .torch_files import read_torch

FILES = [('model.safetensors', read_safetensors), ('pytorch_model.bin', read_torch)]  # or NAME.index.json
# Prefixes of tensors that are not the text model's, in files where its tensors have no prefix.
BESIDE = tuple('model.' + part for part in (
    'vision_tower.', 'vision_model.', 'audio_tower.', 'multi_modal_projector.', 'embed_vision.', 'embed_audio.',
    'visual.'))


def names_of(family: Family, model: Model) -> Dict[str, str]:
    """The library's name of each of our tensors, with %d for the layer."""
    before_and_after = {Feature.NORMS_AFTER, Feature.NORMS_BOTH} & family.always
    names = names_in('hugging_face', 'plain', 'steps', 'encodings', 'per_layer',
                     *['norms_both'] * bool(before_and_after), *['gate'] * bool(model.attention_gate))
    if family.states:
        names.update(state_tensors.names_of(family))
    names.update(altup.names_of('hugging_face', model))
    names.update(names_in('hugging_face', *['latent'] * bool(model.kv_rank),
                          *['latent_queries'] * bool(model.kv_rank and model.q_rank)))
    if not family.experts:
        return {**names, **family.names.own}
    rule = family.experts
    shared = {part: 'model.layers.%%d.%s.%s.%s.weight' % (rule.place, rule.shared_place, name)
              for part, name in zip(expert_tensors.SHARED_PARTS, rule.names)}
    return {**names, **names_in('hugging_face', 'experts'), **(shared if rule.shared else {}), **family.names.own}


def rows_of(model: Model, part: str) -> int:
    """The rows of a matrix that may be fused with others."""
    rows = {'wq': model.n_heads * model.head_dim, 'wk': model.n_kv_heads * model.head_dim}
    rows['wv'] = model.n_kv_heads * (model.value_dim or model.head_dim)
    return rows.get(part, model.hidden_dim)


def read_huggingface(job: Job, folder: str) -> Checkpoint:
    model, family, wrapped, interleaved, table_rows = read_config(job, folder)
    tensors = {name: tensor for name, tensor in read_weights(job, folder).items()
               if not name.endswith('.rotary_emb.inv_freq')}  # in old checkpoints, and unused
    if wrapped:
        tensors = text_alone(job, folder, tensors)
    prefix = family.names.prefix
    tensors = {'model.' + name[len(prefix):] if prefix and name.startswith(prefix) else name: tensor
               for name, tensor in tensors.items()}
    tensors = {family.names.also.get(name, name): tensor for name, tensor in tensors.items()}
    names = names_of(family, model)
    leave_out(job, folder, tensors, family, names, model)
    altup.take_folder(tensors, model, family, names, table_rows)
    if model.kv_rank:
        latent.take_latent(folder, tensors, model, names, latent.BOTH, interleaved)
    for layer in range(model.n_layers):
        for whole, parts in expert_tensors.fused_of(family, model).items():
            split(folder, tensors, 'model.layers.%d.%s' % (layer, whole),
                  {names[part] % layer: rows_of(model, part) for part in parts})
    for layer in range(model.n_layers if model.activation == XIELU else 0):
        gather_numbers(folder, tensors, names['xielu'] % layer)
    expert_tensors.stack_experts(folder, tensors, model, family, names)
    state_tensors.take_states(folder, tensors, model, names, state_tensors.joined_of(family),
                              family.names.gate_in_queries)
    if family.scales.get('embedding') == 'sqrt_dim' and names['embedding'] in tensors:
        model.embedding_scale = rounded(model.embedding_scale, tensors[names['embedding']].dtype)
    in_pairs = bool(model.encoding or model.kv_rank or family.adjacent)  # without RoPE no rows rotate
    return Checkpoint(job, folder, model, tensors, names, in_pairs)


def leave_out(job, folder, tensors, family, names, model):
    """Leaves out layers past the last one, which predict further tokens and are not part of the model, and keys that
    are never read."""
    starts = tuple(start % model.n_layers if '%d' in start else start for start in family.names.left_out
                   if '%s' not in start)
    inside = tuple(start % layer for start in family.names.left_out if '%s' in start
                   for layer in range(model.n_layers))
    for name in [name for name in tensors if inside and name.startswith(inside)]:
        del tensors[name]
    found = [name for name in tensors if starts and name.startswith(starts)]
    for name in found:
        del tensors[name]
    own = [names[part] % layer for layer, shape in enumerate(model.shapes) if shape.kv_layer != layer
           for part in ('wk', 'wv', 'bk', 'bv', 'k_norm')]
    unused = [tensors.pop(name) for name in own if name in tensors]
    if unused:
        job.note('%s: %d tensors are left out: keys and values of layers that read those of others' % (
            folder, len(unused)))
    if found:
        job.note('%s: %d tensors of layers that predict further tokens are left out' % (folder, len(found)))


def text_alone(job, folder, tensors):
    """The tensors of the text model, with the names that they have without a wrapper: all have the prefix of its
    embedding (language_model.model., model.language_model., thinker.model. ...), the classifier may be beside it or
    at the top. The others, for pictures or sound, are left out by name."""
    end = 'embed_tokens.weight'
    prefixes = sorted({name[:-len(end)] for name in tensors if name.endswith(end)}, key=lambda start: (
        not any(part in start for part in ('language_model', 'text_model', 'llm')), len(start)))
    prefix = prefixes[0] if prefixes else 'model.'
    heads = {'lm_head.', (prefix[:-len('model.')] if prefix.endswith('model.') else prefix) + 'lm_head.'}
    found, left_out = {}, {}
    for name, tensor in tensors.items():
        own = ('model.layers.', 'model.norm.', 'model.embed_tokens.')  # without the prefix
        head = next((start for start in (*heads, *own) if name.startswith(start)), '')
        short = 'model.' + name[len(prefix):] if name.startswith(prefix) else name if head in own else \
            'lm_head.' + name[len(head):]
        if prefix == 'model.' and name.startswith(BESIDE) or not (name.startswith(prefix) or head):
            place = re.match(r'(?:model\.)?[^.]*', name).group(0)
            left_out[place] = left_out.get(place, 0) + 1
        elif short in found:
            raise Problem(tensor.path, '%s is there twice (found %s as well)' % (short, name))
        else:
            found[short] = tensor
    if left_out:
        job.note('%s: only the text model is imported: %d tensors for pictures or sound are left out: %s' % (
            folder, sum(left_out.values()), ', '.join(sorted(left_out))))
    return found


def read_weights(job, folder):
    """All tensors of a folder by name, from one file or from shards."""
    adapter = adapter_in(folder)
    for name, read in FILES:
        path = os.path.join(folder, name)
        if adapter and (os.path.exists(path) or os.path.exists(path + '.index.json')):
            job.note('warning: %s: the LoRA adapter next to the weights is left out (%s): merge it first, if it is '
                     'meant to run' % (folder, adapter))
        if os.path.exists(path):
            return read(job, path)
        if os.path.exists(path + '.index.json'):
            return read_shards(folder, read_json(job, path + '.index.json'), read)
    if adapter:
        raise Problem(folder, adapter_alone(job, folder))
    shards = sorted(name for name in os.listdir(folder) if re.search(r'-\d+-of-\d+\.(safetensors|bin)$', name))
    if shards:
        kind = 'model.safetensors' if shards[0].endswith('.safetensors') else 'pytorch_model.bin'
        raise Problem(folder, 'has shards of weights and no index (found %s; expected %s.index.json beside them, which '
                              'is published with them)' % (shards[0], kind))
    own = own_weights(folder)
    if own:
        raise Problem(folder, "holds weights in Mistral's or Meta's own form (%s), which is not read (expected "
                              'model.safetensors as it is published for Hugging Face, whole or in shards with its '
                              '.index.json)' % own)
    raise Problem(folder, 'holds no weights (expected model.safetensors or pytorch_model.bin, or one of them in shards '
                          'with its .index.json)')


def read_shards(folder, index, read):
    shards = index.get('weight_map', lambda v: isinstance(v, dict) and all(
        isinstance(x, str) and x and os.path.basename(x) == x for x in v.values()), 'tensors and their files here')
    tensors = {}
    for shard in sorted(set(shards.values())):
        for name, tensor in read(index.job, os.path.join(folder, shard)).items():
            if name in tensors:
                raise Problem(tensor.path, '%s is also in %s' % (name, os.path.basename(tensors[name].path)))
            tensors[name] = tensor
    for name, shard in shards.items():
        if name not in tensors or os.path.basename(tensors[name].path) != shard:
            raise Problem(index.path, 'weight_map: %s is not in %s' % (name, shard))
    return tensors
