"""Writes a folder for Hugging Face: config.json, generation_config.json, model.safetensors and the tokenizer."""

from __future__ import annotations

import json
import os
import struct
from dataclasses import replace
from math import prod
from typing import Any, Dict, Iterator, List, Set, Tuple

from .common import PROGRAM, RUN, Problem
from .families import Family, fits
from .huggingface import names_of
from .kinds import expert_tensors, latent, state_tensors
from .model import Feature, Model, features_of
from .out_config import ORIGINAL, config_of, float_type
from .out_model import Fused, family_of
from .out_tokenizer import tokenizer_config, tokenizer_json
from .tensors import ITEM_SIZES, Checkpoint, Place, Shifted, narrowed, numbers_of
from .write import NORMS, plan_model

OF_TYPES = {Feature.LONGROPE, Feature.DIVISORS, Feature.PROPORTIONAL}  # rope_types that all classes know


def stays_in_folder(checkpoint: Checkpoint, name: str) -> bool:
    """Whether a folder has the type of a tensor."""
    dtype = checkpoint.tensors[name].dtype
    return dtype in ITEM_SIZES or dtype == 'MXFP4' and name.startswith(expert_tensors.EXPERT_PARTS[:3]) and \
        expert_tensors.keeps_mxfp4(checkpoint)


def can_be(family: Family, found: Set[Feature]) -> bool:
    """Whether a folder of this family can express these features."""
    return fits(found - (OF_TYPES - family.sign), family.always, family.sign, family.may) and \
        not family.cannot & found


def write_huggingface(folder: str, checkpoint: Checkpoint, tokenizer: Any) -> None:
    """Fills an existing folder."""
    job, path, model = checkpoint.job, checkpoint.path, checkpoint.model
    family = family_of(path, features_of(model) - {Feature.TILED}, can_be, "Hugging Face's that is known here")
    # Latent attention has its own order.
    plan = plan_model(checkpoint, in_pairs=bool(model.kv_rank or family.adjacent))
    plan = state_tensors.in_order(path, plan, model, False)
    tensors, config = named_tensors(path, plan, family, model), config_of(job, path, family, model)
    prefix = family.names.prefix
    if prefix:
        tensors = ((prefix + name[len('model.'):] if name.startswith('model.') else name, tensor, is_matrix)
                   for name, tensor, is_matrix in tensors)
    ends = list(dict.fromkeys(model.eos_ids + (tokenizer['eos_ids'] if tokenizer else [])))
    files = {'config.json': config, 'generation_config.json': {
        'bos_token_id': config['bos_token_id'], 'eos_token_id': ends if ends[1:] else ends[0] if ends else None}}
    if tokenizer:
        files['tokenizer.json'] = tokenizer_json(job, path, tokenizer)
        files['tokenizer_config.json'] = tokenizer_config(tokenizer, model, ends)
    for name, values in files.items():
        with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
            json.dump(values, file, indent=None if name == 'tokenizer.json' else 2, ensure_ascii=False)
            file.write('\n')
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as file:
        write_safetensors(file, tensors, float_type(model))
    write_readme(folder, config)


def write_readme(folder: str, config: Dict[str, Any]) -> None:
    """Writes rope.README: the engines that read the settings of RoPE differently from Hugging Face 5, from ./run if it
    is built."""
    import subprocess
    lines, most = {}, config['max_position_embeddings']
    for length in (config.get(ORIGINAL, most) // 2 + 1, most + 1):
        try:
            told = subprocess.run([RUN, '--engines', '--rope-config', os.path.join(folder, 'config.json'), '-n',
                                   str(length)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except OSError:
            return
        table = [line.split('\t') for line in told.stdout.decode().splitlines() if not line.startswith('#')]
        for cells in table[1:]:
            row = dict(zip(table[0], cells))
            if row['verdict'] not in ('same', 'too long', 'not looked at'):
                lines.setdefault(row['engine'], '%(engine)s (%(version)s), %(verdict)s: %(note)s\n' % row)
    if lines:
        with open(os.path.join(folder, 'rope.README'), 'w', encoding='utf-8') as file:
            file.write('These read the RoPE settings of config.json otherwise than Hugging Face 5 does, by\n'
                       '%s --engines --rope-config config.json -n %d\n\n%s' % (PROGRAM, most, ''.join(lines.values())))


# ---- weights ----

def named_tensors(path: str, plan: List[Place], family: Family, model: Model) -> Iterator[Tuple[str, Any, bool]]:
    """(name, tensor, whether it is a matrix) in the family's layout: some fused, and experts in its form."""
    names, stacked = names_of(family, model), {}
    fused = Fused(path, family, replace(family.names, fused=expert_tensors.fused_of(family, model)))
    keys: Any = None  # the keys of latent attention, until the values come
    of_states = state_tensors.StatesOut(path, model, state_tensors.joined_of(family), family.names.gate_in_queries)
    for place in plan:
        if model.kv_rank and place.part == 'wk':
            keys = place.tensor
            continue
        if model.kv_rank and place.part == 'wv':
            yield latent.BOTH % place.layer, latent.keys_and_values(path, model, keys, place.tensor), True
            continue
        layout = family.experts.layout if family.experts else ''
        if place.part in expert_tensors.EXPERT_PARTS and layout != 'one_by_one':
            stacked[place.part] = place
            if layout == 'in_turns' and len(stacked) == len(expert_tensors.EXPERT_PARTS):
                yield from expert_tensors.in_turns(model, stacked)
                stacked = {}
            elif layout != 'in_turns' and len(stacked) == 3:
                yield from expert_tensors.in_halves(path, family, model, stacked)
                stacked = {}
            continue
        if place.part in expert_tensors.EXPERT_PARTS:
            yield from expert_tensors.one_by_one(family, model, place)
            continue
        name = names[place.part] if place.layer is None else names[place.part] % place.layer
        tensor = place.tensor
        if model.kv_rank and place.part in latent.ORDERED:
            tensor = latent.Reordered(tensor, latent.order_back(place.part, model))
        is_whole = place.part == 'final_norm' and family.adds_one == 'but_last'
        if place.part in NORMS and family.adds_one and not is_whole:
            tensor = Shifted(tensor, -1)
        if place.part == 'xielu':
            yield from ((name + each, each_tensor, False) for each, each_tensor in numbers_of(tensor))
            continue
        tensor = state_tensors.in_shape(model, place.part, tensor) if family.states else tensor
        part, tensor = of_states.take(place.part, tensor)
        if tensor is None:
            continue
        if place.layer is not None:
            name = names.get(part, part) % place.layer
        whole = fused.take(place, tensor)
        if whole is None:
            continue
        if whole is not tensor:
            name, tensor = 'model.layers.%d.%s' % (place.layer, fused.name_of(place.part)), whole
        if place.is_matrix and tensor.dtype not in ITEM_SIZES:
            raise Problem(path, '%s is %s, which safetensors have not (expected floats: write a model.bin first, and '
                          'carry that out)' % (name, tensor.dtype))
        yield name, tensor, place.is_matrix


def write_safetensors(file: Any, tensors: Iterator[Tuple[str, Any, bool]], dtype: str) -> None:
    """Writes the tensors. One that is not a matrix gets the type of the matrices if that represents it exactly:
    model.bin has it in float32."""
    placed = [(name, tensor if is_matrix else narrowed(tensor, dtype)) for name, tensor, is_matrix in tensors]
    header: Dict[str, Any] = {'__metadata__': {'format': 'pt'}}
    at = 0
    for name, tensor in placed:
        size = prod(tensor.shape) * {**ITEM_SIZES, 'U8': 1}[tensor.dtype]
        header[name] = {'dtype': tensor.dtype, 'shape': list(tensor.shape), 'data_offsets': [at, at + size]}
        at += size
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    file.write(struct.pack('<Q', len(text)) + text)
    for _, tensor in placed:
        for chunk in tensor.read():
            file.write(chunk)
