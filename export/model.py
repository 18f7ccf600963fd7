"""A model with the fields of model.bin's header and further facts from its source; and the features of families."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Set, Tuple

from .header import FIELDS as HEADER_FIELDS

# A layer's byte in model.bin, and activations there.
SEES_ALL, WITHOUT_ROPE, TURNS_AS_SLIDING, DENSE, KEYS_ARE_VALUES, WITHOUT_SINKS, STATE = \
    1, 2, 4, 8, 16, 32, 64
DELTA, CONV, MAMBA = 1, 2, 3  # values of state_kind
SILU, GELU, CLAMPED, RELU2, XIELU = range(5)


class Shape(NamedTuple):
    """The numbers that may differ from layer to layer. kv_layer is the layer whose keys and values it reads."""
    n_heads: int
    n_kv_heads: int
    head_dim: int
    hidden_dim: int
    kv_layer: int


# Only in the header itself, or lists of a Model.
NOT_IN_MODEL = {'magic', 'version', 'weight_type', 'n_eos', 'eos_ids', 'n_longrope', 'layer_table', 'layer_shapes',
                'type_table'}
USUAL = {'bos_id': -1, 'truncate': 1}
if TYPE_CHECKING:
    Header: Any = object
else:
    Header = make_dataclass('Header', [
        (name, float if each.type == 'f64' else int, field(default=USUAL.get(name, 0.0 if each.type == 'f64' else 0)))
        for name, each in HEADER_FIELDS.items() if name not in NOT_IN_MODEL])


@dataclass
class Model(Header):
    """The header's fields, with the names of docs/format.md; 0 means `as in a Llama`."""
    # Lists that follow the header. No layers: all are the same.
    eos_ids: List[int] = field(default_factory=list)
    short_factor: List[float] = field(default_factory=list)
    long_factor: List[float] = field(default_factory=list)
    layers: List[int] = field(default_factory=list)
    shapes: List[Shape] = field(default_factory=list)
    # Further facts from a source.
    tied: bool = False             # the classifier should be the embedding
    norms_lack_one: bool = False   # norms multiply by 1 + w
    last_is_whole: bool = False    # except the last one, by w
    types: List[str] = field(default_factory=list)  # of the matrices, in the file's order

    def set(self, **values: object) -> None:
        for name, value in values.items():
            if name not in FIELDS:
                raise AttributeError('a model has no field %s' % name)
            setattr(self, name, value)

    @property
    def turning(self) -> int:
        """The elements of a head that rotate."""
        return self.rotary_dim or self.head_dim

    def method_in(self, layer: int) -> int:
        """The number of the RoPE method of a layer."""
        return self.sliding_method if self.layer_flags[layer] & TURNS_AS_SLIDING else self.rope_method

    def turning_in(self, layer: int) -> Tuple[int, int]:
        """The elements of a layer's head that rotate, and the distance between the two of a pair if the halves of a
        head follow one another."""
        slides = self.layer_flags[layer] & TURNS_AS_SLIDING
        head_dim = self.layer_shapes[layer].head_dim
        turning = min(slides and self.sliding_rotary_dim or self.turning, head_dim)
        return turning, (head_dim if self.method_in(layer) == PROPORTIONAL else turning) // 2

    @property
    def state_width(self) -> int:
        """The width of the output of a layer with a state."""
        return self.dim if self.state_kind == CONV else self.state_value_heads * self.state_value_dim

    @property
    def state_channels(self) -> int:
        """The channels of its convolution."""
        return 2 * self.state_key_heads * self.state_key_dim + self.state_width

    @property
    def layer_shapes(self) -> List[Shape]:
        """A shape for each layer."""
        return self.shapes or [Shape(self.n_heads, self.n_kv_heads, self.head_dim, self.hidden_dim, layer)
                               for layer in range(self.n_layers)]

    @property
    def layer_flags(self) -> List[int]:
        """A byte for each layer."""
        return self.layers or [0] * self.n_layers


FIELDS = {each.name for each in fields(Model)}


class Feature(Enum):
    """Features of families. families.json has the name in lower case, and messages the value."""
    QKV_BIAS = 'biases of q, k and v'
    ALL_BIASES = 'biases of q, k, v and o'
    O_BIAS = 'a bias of o'
    HEAD_NORMS = 'head norms'
    WHOLE_NORMS = 'norms of all heads together'
    NORMS_AFTER = 'norms after'
    NORMS_BOTH = 'norms before and after'
    GELU = 'GELU'
    EMBEDDING_SCALE = 'an embedding scale'
    SCORE_SCALE = 'a score scale'
    TEMPERATURE = 'a temperature by position'
    PARTIAL = 'a part that turns'
    WITHOUT_ROPE = 'layers without RoPE'
    TWO_ROPES = 'two RoPEs'
    WINDOW = 'a window'
    SOME_WINDOW = 'a window of some layers'
    EXPERTS = 'experts'
    SHARES = 'weights of experts that are not renormalized'
    DENSE_BETWEEN = 'dense layers between'
    SIGMOIDS = 'a router of sigmoids'
    RENORMALIZED = 'weights of experts that are divided by their sum'
    CHOICE_BIAS = 'a bias of the choice of experts'
    GROUPS = 'groups of experts'
    ROUTER_SCALE = 'a scale of the weights of experts'
    ROUTER_CAP = 'a cap of the logits of routers'
    SCALED_INPUT = 'weights of experts that multiply their input'
    LATENT = 'latent attention'
    Q_LATENT = 'latent queries'
    LATENT_BIAS = 'biases of latent attention'
    SCORE_MSCALE = 'a temperature of YaRN in the scores'
    SHARED_EXPERT = 'a shared expert'
    SHARED_GATE = 'a gate of the shared expert'
    DELTA_RULE = 'layers with a delta rule'
    SHORT_CONV = 'layers with a short convolution'
    MAMBA = 'layers with Mamba 2'
    STATE_BIAS = 'biases of layers with a state'
    CONV_BIAS = 'biases of convolutions'
    LATENT_EXPERTS = 'experts in a narrower space'
    ROUTER_EPS = 'a divisor of the weights of experts'
    GATE_BIAS = 'a bias of the gate of attention'
    TILED = 'value heads in tiles'
    CLAMPED = 'clamped SwiGLU'
    ROUTER_BIAS = 'biases of routers'
    EXPERT_BIAS = 'biases of experts'
    SINKS = 'attention sinks'
    VALUE_NORMS = 'norms of values'
    VALUE_DIM = 'values of another width'
    VALUE_SCALE = 'a scale of values'
    HEAD_GATES = 'a gate of each head'
    ELEMENT_GATES = 'a softplus gate of each element'
    SOME_SINKS = 'attention sinks of some layers'
    LAYER_SCALES = 'scales of layers'
    LAYER_EMBEDDINGS = 'embeddings by layer'
    ALTUP = 'alternating updates'
    SPARSE_GATES = 'gates that are mostly zero'
    OWN_SHAPES = 'layers whose shapes differ'
    SHARED_KEYS = 'layers that read the keys of others'
    KEYS_AS_VALUES = 'keys that are values'
    EXPERTS_BESIDE = 'experts beside a dense layer'
    LOGIT_CAP = 'a cap of the logits'
    SCORE_CAP = 'a cap of the scores'
    PROPORTIONAL = 'proportional RoPE'
    FFN_BIAS = 'biases of feed-forward layers'
    LAYER_NORMS = 'norms that subtract the mean'
    PARALLEL = 'one norm of attention and feed-forward layer'
    RELU2 = 'ReLU squared'
    XIELU = 'xIELU'
    BARE_NORMS = 'head norms without weights'
    LATE_NORMS = 'head norms behind RoPE'
    TURNING_NORMS = 'head norms only in layers with RoPE'
    EMBEDDING_NORM = 'a norm of the embedding'
    GATES = 'a sigmoid gate of each element'
    RESIDUAL_SCALE = 'a scale of the outputs of layers'
    LOGIT_SCALE = 'a scale of the logits'
    AFTER_EPS = 'an epsilon of norms after'
    CHUNKS = 'chunks of attention'
    UNTURNED_TEMPERATURE = 'a temperature of layers without RoPE'
    LOGN = 'logn'
    LONGROPE = 'longrope'
    DIVISORS = 'divisors'


# The fields of each feature. Reading a family sets them, and a model with these values has the feature.
FIELDS_OF: Dict[Feature, Dict[str, int]] = {
    Feature.QKV_BIAS: {'qkv_bias': 1, 'o_bias': 0}, Feature.ALL_BIASES: {'qkv_bias': 1, 'o_bias': 1},
    Feature.O_BIAS: {'qkv_bias': 0, 'o_bias': 1, 'latent_bias': 0},
    Feature.LATENT_BIAS: {'latent_bias': 1, 'o_bias': 1}, Feature.HEAD_NORMS: {'qk_norm': 1},
    Feature.WHOLE_NORMS: {'qk_norm': 2}, Feature.NORMS_AFTER: {'norm_place': 1}, Feature.NORMS_BOTH: {'norm_place': 2},
    Feature.GELU: {'activation': GELU}, Feature.CLAMPED: {'activation': CLAMPED},
    Feature.ROUTER_BIAS: {'router_bias': 1}, Feature.EXPERT_BIAS: {'expert_bias': 1},
    Feature.SIGMOIDS: {'router': 2}, Feature.RENORMALIZED: {'router_renormalizes': 1},
    Feature.CHOICE_BIAS: {'router_choice_bias': 1}, Feature.SCALED_INPUT: {'router_scales_input': 1},
    Feature.SHARED_GATE: {'shared_gate': 1}, Feature.SINKS: {'attention_sinks': 1}, Feature.SHARES: {'router': 1},
    Feature.HEAD_GATES: {'attention_gate': 3}, Feature.ELEMENT_GATES: {'attention_gate': 2},
    Feature.VALUE_NORMS: {'value_norm': 1}, Feature.LAYER_SCALES: {'layer_scale': 1},
    Feature.EXPERTS_BESIDE: {'experts_beside': 1}, Feature.LOGN: {'logn': 1}, Feature.FFN_BIAS: {'ffn_bias': 1},
    Feature.LAYER_NORMS: {'layer_norm': 1}, Feature.PARALLEL: {'norm_place': 3}, Feature.RELU2: {'activation': RELU2},
    Feature.XIELU: {'activation': XIELU}, Feature.BARE_NORMS: {'qk_norm': 3}, Feature.LATE_NORMS: {'qk_norm_late': 1},
    Feature.TURNING_NORMS: {'qk_norm_turning': 1}, Feature.EMBEDDING_NORM: {'embedding_norm': 1},
    Feature.GATES: {'attention_gate': 1}, Feature.UNTURNED_TEMPERATURE: {'temperature_unturned': 1},
    Feature.DELTA_RULE: {'state_kind': DELTA}, Feature.SHORT_CONV: {'state_kind': CONV},
    Feature.MAMBA: {'state_kind': MAMBA}, Feature.CONV_BIAS: {'conv_bias': 1},
    Feature.STATE_BIAS: {'state_bias': 1}, Feature.GATE_BIAS: {'gate_bias': 1},
    Feature.TILED: {'state_tiled': 1}}
PROPORTIONAL, LONGROPE, LLAMA3 = 7, 6, 5  # values of rope_method


def features_of(model: Model) -> Set[Feature]:
    """All features that set a model apart from a Llama."""
    layers = model.layer_flags
    some = any(flags & SEES_ALL for flags in layers)
    methods = {model.rope_method, model.sliding_method if model.sliding_rope else 0}
    found = {
        Feature.EMBEDDING_SCALE: model.embedding_scale, Feature.SCORE_SCALE: model.score_scale,
        Feature.TEMPERATURE: model.temperature_beta,
        Feature.PARTIAL: not model.kv_rank and any(
            model.method_in(layer) != PROPORTIONAL and model.turning_in(layer)[0] < shape.head_dim
            for layer, shape in enumerate(model.layer_shapes)),
        Feature.PROPORTIONAL: PROPORTIONAL in methods, Feature.LAYER_EMBEDDINGS: model.per_layer_dim,
        Feature.ALTUP: model.altup_streams, Feature.SPARSE_GATES: model.sparse_layers,
        Feature.VALUE_DIM: model.value_dim and not model.kv_rank, Feature.VALUE_SCALE: model.value_scale,
        Feature.SOME_SINKS: any(flags & WITHOUT_SINKS for flags in layers), Feature.OWN_SHAPES: model.shapes,
        Feature.LOGIT_CAP: model.logit_cap, Feature.SCORE_CAP: model.score_cap,
        Feature.RESIDUAL_SCALE: model.residual_scale, Feature.LOGIT_SCALE: model.logit_scale,
        Feature.AFTER_EPS: model.after_norm_eps, Feature.CHUNKS: model.attention_chunk,
        Feature.SHARED_KEYS: any(shape.kv_layer != layer for layer, shape in enumerate(model.shapes)),
        Feature.KEYS_AS_VALUES: any(flags & KEYS_ARE_VALUES for flags in layers),
        Feature.EXPERTS: model.n_experts, Feature.DENSE_BETWEEN: any(flags & DENSE for flags in layers),
        Feature.LATENT_EXPERTS: model.expert_latent_dim,
        Feature.ROUTER_EPS: model.router_eps,
        Feature.LATENT: model.kv_rank, Feature.Q_LATENT: model.q_rank, Feature.SCORE_MSCALE: model.mscale_in_scores,
        Feature.GROUPS: model.router_groups, Feature.ROUTER_SCALE: model.router_scale,
        Feature.ROUTER_CAP: model.router_cap, Feature.SHARED_EXPERT: model.shared_hidden_dim,
        Feature.TWO_ROPES: any(flags & TURNS_AS_SLIDING for flags in layers),
        Feature.WITHOUT_ROPE: any(flags & WITHOUT_ROPE for flags in layers),
        Feature.WINDOW: model.sliding_window and not some, Feature.SOME_WINDOW: model.sliding_window and some,
        Feature.LONGROPE: LONGROPE in methods, Feature.DIVISORS: LLAMA3 in methods}
    return {feature for feature, there in found.items() if there} | {
        feature for feature, wanted in FIELDS_OF.items()
        if all(getattr(model, name) == value for name, value in wanted.items())}


def of_kind(model: Model, slide: bool) -> Tuple[int, int]:
    """The elements of a head of full layers, or of sliding ones, and the number of these layers."""
    found = [shape.head_dim for shape, flags in zip(model.layer_shapes, model.layer_flags)
             if bool(flags & TURNS_AS_SLIDING) == slide]
    return found[0] if found else model.head_dim, len(found)


def layers_with_experts(model: Model) -> List[int]:
    return [layer for layer, (flags, shape) in enumerate(zip(model.layer_flags, model.layer_shapes))
            if model.n_experts and shape.hidden_dim and not flags & DENSE]
