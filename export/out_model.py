"""Shared by both output formats: the family of a model according to its features, and its RoPE settings in other
programs' terms."""

from __future__ import annotations

from math import log, sqrt
from typing import Any, Callable, Dict, Set

from .common import Problem
from .families import FAMILIES, Family, Names, fits
from .model import Feature, Model
from .tensors import Joined, Place

METHODS = 'none', 'linear', 'ntk', 'ntk-by-parts', 'yarn', 'llama3', 'longrope', 'proportional'  # by their numbers


def family_of(path: str, found: Set[Feature], can_be: Callable[[Family, Set[Feature]], bool], whose: str) -> Family:
    """The first family that a model with these features can belong to."""
    family = next((family for family in FAMILIES.values() if family.runs and can_be(family, found)), None)
    if not family:
        known = next((other.title for other in FAMILIES.values()
                      if other.runs and not other.own and fits(found, other.always, other.sign, other.may)), '')
        raise Problem(path, 'is %sof no family of %s (found %s together)' % (
            known and known + ', but ', whose, ', '.join(sorted(feature.value for feature in found))))
    return family


class Fused:
    """Gathers the matrices that a family fuses, each below the one before."""

    def __init__(self, path: str, family: Family, names: Names) -> None:
        self.path, self.family = path, family
        self.whole_of = {part: whole for whole, parts in names.fused.items() for part in parts}
        self.parts_of, self.waiting = names.fused, {}

    def name_of(self, part: str) -> str:
        return self.whole_of[part]

    def take(self, place: Place, tensor: Any) -> Any:
        """The tensor itself if it is not fused; the fused matrix once it is complete; None while parts are missing."""
        whole = self.whole_of.get(place.part)
        if not whole:
            return tensor
        waiting = self.waiting.setdefault(whole, {})
        waiting[place.part] = tensor
        if len(waiting) < len(self.parts_of[whole]):
            return None
        parts = [self.waiting[whole][part] for part in self.parts_of[whole]]  # in the family's order
        del self.waiting[whole]
        if len({part.dtype for part in parts}) > 1:
            raise Problem(self.path, '%s of layer %d is of several types (found %s, expected one, since %s has it in '
                          'one matrix)' % (whole, place.layer, ', '.join(part.dtype for part in parts),
                                           self.family.title))
        return Joined(parts)


def rope_of(path: str, model: Model) -> Dict[str, Any]:
    """The method's name in other programs, with all its numbers: both by-parts methods are yarn, and another base is
    plain RoPE with that base. attention_factor is 0 if it is the method's own."""
    method, dynamic = METHODS[model.rope_method], model.rope_dynamic
    s, r, length = model.factor, model.turning, model.train_ctx
    rope: Dict[str, Any] = {
        'kind': method, 'theta': model.theta, 'factor': s, 'train_ctx': length,
        'attention_factor': model.attention_factor, 'truncate': model.truncate,
        'beta_fast': model.beta_fast or 32, 'beta_slow': model.beta_slow or 1,
        'low_freq_factor': model.low_freq_factor or 1,
            'high_freq_factor': model.high_freq_factor or 4}

    def refuse(why):
        raise Problem(path, 'has rope %s%s, which %s' % ('dynamic-' * dynamic, method, why))

    if method == 'none':
        return rope
    if method == 'proportional':
        return {**rope, 'factor': s or 1.0}
    if dynamic:
        if method != 'ntk':
            refuse('no other program has')
        return {**rope, 'kind': 'dynamic', 'factor': s or 1.0}
    if not s:
        refuse('needs a factor to be exported (found none: run uses the factor that -n needs)')
    if method == 'ntk':
        return {**rope, 'kind': 'none', 'theta': model.theta * s ** (r / (r - 2)) if r > 2 else model.theta}
    if method in ('ntk-by-parts', 'yarn'):
        if model.ramp:
            refuse('with its ramp over turns no other program has')
        m, m_all = model.mscale, model.mscale_all_dim
        if method == 'ntk-by-parts':
            rope['attention_factor'] = rope['attention_factor'] or 1.0
        elif m and m_all:
            rope['attention_factor'] = rope['attention_factor'] or temperature(s, m) / temperature(s, m_all)
        rope['kind'] = 'yarn'
    if method == 'longrope':
        rope.update(short_factor=model.short_factor, long_factor=model.long_factor)
        own = sqrt(1 + log(s) / log(length)) if s > 1 else 1.0
        if abs(rope['attention_factor'] / own - 1) < 1e-7:  # as in GGUF files, in float32
            rope['attention_factor'] = 0
        rope['attention'] = rope['attention_factor'] or own
    return rope


def temperature(s: float, m: float = 1.0) -> float:
    """YaRN's factor of cos and sin."""
    return 0.1 * m * log(s) + 1 if s > 1 else 1.0
