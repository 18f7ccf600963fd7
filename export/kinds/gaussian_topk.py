"""Feed-forward layers whose gates are mostly zero (Gaussian top-k, as in Gemma 3n): config.json has the share of zeros
of each layer, and GGUF the cutoff in standard deviations above the gates' mean."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any, Dict, List, Tuple

from ..common import Job, Keys, is_number
from ..families import Family, Gguf
from ..model import Feature, Model
from ..tensors import ARRAY, F32

KEY, GGUF_KEY = 'activation_sparsity_pattern', 'activation_sparsity_scale'
USUAL, SPARSE = 0.95, 10  # the class's default, and llama.cpp's constants


def refused(values: Dict[str, Any]) -> List[Tuple[str, bool, str]]:
    """Rules of a header: a field, whether it is valid, and the expected values."""
    n = values['sparse_layers']
    return [('sparsity', bool(values['sparsity']) == bool(n) and values['sparsity'] < 1,
             'above 0 and below 1 with sparse_layers, else 0'),
            ('sparse_layers', n <= values['n_layers'], 'no more than n_layers'),
            *((field, not n or not values[field], '0 with sparse_layers') for field in ('n_experts', 'ffn_bias')),
            ('activation', not n or values['activation'] == 1, '1 with sparse_layers')]


def fields_of(shares: List[float]) -> Dict[str, Any]:
    """The fields, if the first layers share one value and the others have none; otherwise an empty dict."""
    n = sum(share > 0 for share in shares)
    alike = all((share == shares[0]) == (layer < n) for layer, share in enumerate(shares)) if n else True
    return {'sparse_layers': n, 'sparsity': shares[0] if n else 0.0} if alike else {}


def from_config(config: Keys, family: Family, n_layers: int) -> Dict[str, Any]:
    if Feature.SPARSE_GATES not in family.may:
        return {}
    first = SPARSE if n_layers > SPARSE else 0
    shares = config.get(KEY, lambda v: isinstance(v, list) and len(v) == n_layers and all(
        (is_number(x) or type(x) in (int, float) and x == 0) and x < 1 for x in v) and fields_of(v),
        'for each of %d layers a share below 1: one of the first, and 0 of the others' % n_layers,
        [USUAL] * first + [0.0] * (n_layers - first), [USUAL] * first + [0.0] * (n_layers - first))
    return fields_of(shares)


def to_config(family: Family, model: Model) -> Dict[str, Any]:
    if Feature.SPARSE_GATES not in family.may:
        return {}
    return {KEY: [model.sparsity] * model.sparse_layers + [0.0] * (model.n_layers - model.sparse_layers)}


# ---- GGUF ----

def from_gguf(keys: Keys, family: Family, n_layers: int) -> Dict[str, Any]:
    """The fields. The share gets only as many digits as the deviations in float32 determine."""
    if Feature.SPARSE_GATES not in family.may:
        return {}
    deviations = keys.get(GGUF_KEY, lambda v: isinstance(v, list) and len(v) == n_layers and all(
        is_number(x, -100) or x == float('-inf') for x in v), 'a number for each of %d layers' % n_layers)
    fields = fields_of([share_of(value) for value in deviations])
    if not fields:
        keys.refuse(GGUF_KEY, 'one number of the first layers, and that of no sparsity of the others')
    return fields


def share_of(deviations: float) -> float:
    return round(NormalDist().cdf(deviations), 6) if deviations > -6 else 0.0


def to_gguf(job: Job, family: Family, rule: Gguf, model: Model) -> Dict[str, Tuple[int, Any]]:
    """The key, with a note if llama.cpp, which does not read it, uses other numbers."""
    if Feature.SPARSE_GATES not in family.may:
        return {}
    if model.sparse_layers != min(SPARSE, model.n_layers) or model.sparsity != USUAL:
        job.note('llama.cpp cuts gates in architecture %s in the first %d layers, to zeros of %g' % (
            rule.architecture, SPARSE, USUAL))
    cut = NormalDist().inv_cdf(model.sparsity) if model.sparse_layers else 0.0
    n = model.sparse_layers
    return {GGUF_KEY: (ARRAY, (F32, [cut] * n + [float('-inf')] * (model.n_layers - n)))}
