"""Shared by the recipes of vLLM and SGLang. Both make RoPE by a function get_rope, which is given a table of cosines
and sines for every position: here only its first rows are made, on the CPU. The model's own class is made on the
device meta, so that which block, theta and share of a head a layer gets is the engine's own doing. Attention and
mixtures of experts are empty modules."""

import re
import sys
import traceback

import recipe
import torch

ROWS = 2048  # of a table, more than a head has pairs; the frequencies are read from the second row
taken = []  # (layer or None, rope) of each call of get_rope


class Empty(torch.nn.Module):
    def __init__(self, *arguments, **named):
        super().__init__()
        self.arguments, self.named = arguments, named

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith('_'):
                raise
            return Empty()


def short_arange(*arguments, **named):
    """torch.arange, but positions from 0 on end early: the only use with one number is for them."""
    arguments = (min(arguments[0], ROWS),) if len(arguments) == 1 else arguments
    return own_arange(*arguments, **named)


own_arange = torch.arange


def layer_of(frame):
    """The layer that asks for a RoPE: its number is in a prefix, or an argument, of who calls."""
    while frame:
        prefix = frame.f_locals.get('prefix')
        found = re.search(r'layers\.(\d+)', prefix) if isinstance(prefix, str) else None
        layer = int(found.group(1)) if found else frame.f_locals.get('layer_id')
        if layer is not None:
            return layer
        frame = frame.f_back
    return None


def wrap(get_rope):
    def wrapped(*arguments, **named):
        torch.arange = short_arange
        try:
            with torch.device('cpu'):
                rope = get_rope(*arguments, **named)
        finally:
            torch.arange = own_arange
        taken.append((layer_of(sys._getframe(1)), rope))
        return rope
    return wrapped


def turned(row):
    """[inverse frequencies, a] from the row of position 1."""
    cos, sin = row.double().chunk(2)
    return [torch.atan2(sin, cos).tolist(), float(torch.hypot(cos, sin)[0])]


def of_transformers(model):
    """The tables of a model that is made by transformers' own class, which keeps its RoPE."""
    found = {}
    for _, one in model.named_modules() if model is not None else ():
        if type(one).__module__.startswith('transformers.') and 'RotaryEmbedding' in type(one).__name__:
            own = type(one)(one.config)
            for kind in [kind for kind in recipe.KINDS if hasattr(own, kind + '_inv_freq')] or ['']:
                before = kind + '_' if kind else ''
                found[recipe.KINDS.get(kind, 'all')] = [getattr(own, before + 'inv_freq').double().tolist(),
                                                        float(getattr(own, before + 'attention_scaling'))]
    return found


def found(model, error, kinds, row_of):
    """{kind: values} of the taken tables; `row_of` gives the row of position 1. An error of a class after its first
    RoPE is not about RoPE, unless it comes from there."""
    layers = {} if taken else of_transformers(model)
    numbered = [one for one in taken if one[0] is not None]  # the others are of a vision tower, where there are both
    for layer, rope in numbered or taken:
        kind = kinds[layer] if kinds and layer is not None else 'all'
        layers.setdefault(recipe.KINDS.get(kind, 'all'), turned(row_of(rope)))
    is_of_rope = error is not None and 'rotary_embedding' in ''.join(traceback.format_tb(error.__traceback__))
    if error is not None and (is_of_rope or not layers):
        raise error
    return layers
