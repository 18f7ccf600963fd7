"""What both ways out ask of a model's layers: which slide, by what period, and their RoPE."""

from __future__ import annotations

from dataclasses import replace
from typing import List, Optional

from .common import Job, Problem
from .huggingface import rounded
from .model import DENSE, KEYS_ARE_VALUES, SEES_ALL, TURNS_AS_SLIDING, WITHOUT_ROPE, WITHOUT_SINKS, Model
from .shapes import of_kind

OTHERWISE = DENSE | KEYS_ARE_VALUES | WITHOUT_SINKS  # what layers may be besides


def sliding_model(model: Model) -> Model:
    """The model as its sliding layers have it: their settings of RoPE in the places of the others."""
    names = ('rope_method', 'theta', 'factor', 'train_ctx', 'ramp', 'truncate', 'beta_fast', 'beta_slow',
             'attention_factor', 'mscale', 'mscale_all_dim', 'low_freq_factor', 'high_freq_factor')
    head_dim, _ = of_kind(model, True)
    turning = model.sliding_rotary_dim or model.turning
    return replace(model, rope_dynamic=0, head_dim=head_dim, rotary_dim=turning % head_dim, shapes=[], **{
        name: getattr(model, 'sliding_' + name.replace('rope_', '')) for name in names})


def full_model(model: Model) -> Model:
    """The same of its full layers."""
    head_dim, _ = of_kind(model, False)
    return replace(model, head_dim=head_dim, rotary_dim=model.turning % head_dim, shapes=[])


def slides_of(path: str, model: Model) -> List[bool]:
    """Whether each layer slides. Refuses a layer that is neither full nor sliding as the others are."""
    layers = model.layer_flags
    still = WITHOUT_ROPE * any(flags & WITHOUT_ROPE for flags in layers)
    full, slide = SEES_ALL * bool(model.sliding_window) + still, TURNS_AS_SLIDING * bool(model.sliding_rope)
    for layer, flags in enumerate(layers):
        if flags & ~OTHERWISE not in (full, slide):
            raise Problem(path, 'has a layer that is neither full nor sliding as its family has them (found %d for '
                          'layer %d, expected %d or %d)' % (flags, layer, full, slide))
    return [flags & ~OTHERWISE == slide and slide != full for flags in layers]


def period_of(slides: List[bool]) -> Optional[int]:
    """The period by which the last layer of each is full, or None."""
    period = slides.index(False) + 1 if False in slides else len(slides) + 1
    return period if slides == [(i + 1) % period != 0 for i in range(len(slides))] else None


def scale_of_embedding(job: Job, path: str, model: Model, own: float) -> None:
    """Gemma's programs multiply embeddings with the root of their width, `own`, whatever a file had."""
    found = model.embedding_scale
    if abs(found / own - 1) > 0.005:
        raise Problem(path, 'has an embedding scale of %g, which no family has (expected %g, the root of dim)'
                      % (found, own))
    if rounded(found, 'F32') != own:
        job.note('embeddings will be multiplied by %g, not by %g' % (own, found))
