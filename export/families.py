"""The families of models: the rows of families.json, which have all facts about a family. docs/code.md explains how to
add one. tools/generate/family_table.py makes a table in C from the same rows."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import AbstractSet, Any, Dict, FrozenSet, List, Optional, Tuple

from .model import Feature

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'families.json')
# The values of a key of gates, and the attention_gate of each.
GATES = {True: 3, 'per-head': 3, 'per-element': 2}
# The rules for sliding layers in a config: none slide; all if there is a window; all if use_sliding_window is set;
# some, with that flag, according to lists, or without a list the later layers, or every second layer before these; the
# later layers without a flag; according to a period; according to a list, or all; none, but some see chunks; or in the
# form of tools/training/train.py.
RULES = ('alike', 'all_slide', 'all_by_flag', 'by_flag', 'odd_by_flag', 'later', 'periodic', 'listed', 'chunked',
         'small')
# The rope_types that a class knows, and the meaning of each. The three axes of mrope are the same in a text. A class
# that only knows longrope accepts two older names for it.
USUAL_TYPES = {'mrope': 'default', **{kind: kind for kind in (
    'default', 'linear', 'dynamic', 'yarn', 'llama3', 'longrope', 'proportional')}}
TYPES = {'usual': USUAL_TYPES,
         'longrope_alone': {'default': 'default', 'longrope': 'longrope', 'su': 'longrope', 'yarn': 'longrope'},
         'default_alone': {'default': 'default'}}
# The keys that most families have in common, by our names.
USUAL_KEYS = {'hidden_dim': 'intermediate_size', 'norm_eps': 'rms_norm_eps', 'shared_classifier': 'tie_word_embeddings'}
# Queries grow with the position if a key of the block gives a scale.
GROWTH = ('llama_4_scaling_beta',)


@dataclass(frozen=True)
class Layers:
    """The kind of each layer, if layer_types is missing."""
    rule: str = 'alike'
    period_key: str = ''     # key of the period; '': `period` of the defaults, always
    earlier_key: str = ''    # key of the number of earlier positions that a query sees, which takes precedence over
                             # sliding_window
    full: str = 'last'       # the layer of a period that is full: the first, the last, or (from_end) the last of
                             # periods counted from the last layer
    also_full: str = ''      # in addition, the first or the last of all layers is full, whatever a config has
    full_sinks: bool = True   # full layers have sinks if the others do
    both_ways: str = ''      # whether queries also see later positions: `read`, if use_bidirectional_attention is set;
                             # `halved`, the same, with half a window on either side; `always`
    others: str = 'sliding'  # the layers that are not full: sliding, or linear
    without_rope: str = ''   # layers that do not rotate: `listed` in no_rope_layers, `full` ones, or
                             # `full_beside_sliding`: with a window of null all layers are full, and then they rotate
    zeros: Dict[str, str] = field(default_factory=dict)  # the key of a list of numbers, and the meaning of a
                             # 0 for a layer: sliding, linear or without_rope
    full_words: Tuple[str, ...] = ()  # words of layer_types for full layers, besides full_attention
    cuts_lists: bool = False  # entries of lists after the last layer are ignored

    @property
    def thetas(self) -> str:
        """The key of a list that has a 0 for layers that do not rotate."""
        return next((key for key, meant in self.zeros.items() if meant == 'without_rope'), '')


@dataclass(frozen=True)
class Shapes:
    """The keys of heads and widths that differ from layer to layer."""
    heads: str = ''            # list of query heads
    full_head: str = ''        # elements of a head in full layers
    full_kv: str = ''          # their key heads, if their keys are also values
    keys_are_values: str = ''  # flag for that
    by_layer: str = ''         # object of layers' settings, which newer releases write instead of these keys
    shared: str = ''           # number of last layers that read the keys and values of earlier ones
    double: str = ''           # flag that makes the feed-forward layers of these twice as wide
    widths: bool = False       # the width of feed-forward layers may be a list with a number for each layer
    values: str = ''           # elements of a head's values
    sliding_kv_times: int = 1  # sliding layers have this many times the key heads


@dataclass(frozen=True)
class Rope:
    """How the family's class reads the settings of RoPE."""
    by_kind: bool = False     # a block for each kind of layers; rope_scaling is for the full ones
    theta_keys: Dict[str, str] = field(default_factory=dict)  # keys of the thetas of `full` and `sliding` layers
    local_theta: float = 1e4  # of sliding layers, if no key has it
    blocks: Dict[str, str] = field(default_factory=dict)  # names of the blocks of `full` and `sliding` layers
    one_block: str = ''       # a block for all layers in addition to these: '', rope_scaling is for the full ones, and
                              # a block in rope_parameters is not read; full: that block is also for the full ones;
                              # refused
    lists: bool = False       # thetas and shares may be lists with a number for each layer
    none: bool = False        # the class has no RoPE
    only_key: str = ''        # layers rotate if this key is `rope` or true; rope_theta: unless the block's theta is
                              # null
    counts_factor: bool = False  # max_position_embeddings is the length with linear's factor, not the length before it
    axes: bool = False        # blocks have sections of three axes, which are the same in a text
    attention_factor: str = ''  # long_mscale: key of longrope's; one: YaRN's is 1 unless the block has one
    partial: bool = False     # partial_rotary_factor may be below 1
    share_beside: bool = False  # if a scaled block and the config both have a share, the config's counts
    rotary_key: str = ''      # key of the number of elements of a head that rotate, which takes precedence
    types: str = 'usual'      # the rope_types of the class, a word of TYPES
    temperature: Tuple[str, ...] = ()  # keys of the growth of queries with their position: for all layers, in the
                                       # block; or for layers that do not rotate, beside it: a flag, its scale, its
                                       # length
                              # block; or of layers that do not turn, beside it: a flag, its scale, its length
    one_for_both: bool = False  # full and sliding layers have the same RoPE
    goes_out: str = ''        # for_engines: with further keys that some look for beside the block; with_alpha: which is
                              # then the factor of ntk at every length

    @property
    def grows(self) -> bool:
        """Whether the queries of all layers grow with their position."""
        return self.temperature == GROWTH

    @property
    def unturned(self) -> Tuple[str, ...]:
        """The keys of a temperature of layers that do not rotate: the flag, its scale, its length."""
        return () if self.grows else self.temperature


@dataclass(frozen=True)
class KeysOf:
    """Keys of config.json that not all families have."""
    attention_bias: str = 'refused'  # read; unread: the class ignores it; refused: only false is allowed
    by_layer: Tuple[str, ...] = ()   # keys about layers or positions that have a meaning
    must: Dict[str, List[Any]] = field(default_factory=dict)  # keys and the values they may have
    said_by: Dict[str, str] = field(default_factory=dict)  # our fields, with keys that differ from USUAL_KEYS:
    # hidden_dim of a dense feed-forward layer, norm_eps, after_norm_eps of norms of what a layer adds, attention_gate
    # (see GATES), per_layer_dim of each layer's own embedding of a token, shared_classifier before the usual one
    unread: Tuple[str, ...] = ()     # keys that the class ignores, which is worth a note
    head: str = ''                   # another name of head_dim, which takes precedence
    longer: str = ''                 # flag with which there are as many positions as long_positions
    null_head: bool = False          # a head_dim of null means the width divided by the heads, not the class's default
    quantization: str = ''           # the quant_method that is read
    also: Dict[str, str] = field(default_factory=dict)  # other spellings of keys, which take precedence
    says: Dict[str, str] = field(default_factory=dict)  # flags, and the features of each
    writes: Dict[str, Any] = field(default_factory=dict)  # further keys that are written

    def of(self, field_name: str) -> str:
        """The key of one of our fields; '': the family has none."""
        return self.said_by.get(field_name, USUAL_KEYS.get(field_name, ''))


@dataclass(frozen=True)
class Experts:
    """Experts in config.json and in folders."""
    counts: Tuple[str, ...]   # keys of their number, the newer one last
    width: str                # the key of their hidden width
    layout: str               # one_by_one; in_turns: rows of gate and up alternate; halves; columns: halves with inputs
                              # as rows; either of the last two, according to the shape; linear: halves with Granite's
                              # names
    place: str = 'mlp'        # in a layer; '': the layer itself
    used: str = 'num_experts_per_tok'  # key of the number of experts that a token uses
    flag: str = ''            # key without which there are none
    beside: bool = False      # they are added to the output of a dense layer
    names: Tuple[str, ...] = ()   # of an expert's w1, w3 and w2
    sparse: Tuple[str, ...] = ()  # the keys of a list and of a step that name layers with experts
    scales_input: bool = False    # a weight multiplies its expert's input
    dense: Tuple[str, ...] = ()   # the keys of a list and of a step that name dense layers
    renormalized: str = ''        # key of the flag; '': always or never, as follows:
    shares: bool = False          # weights are never divided by their sum
    also_used: str = ''           # another name of num_experts_per_tok, which is not read
    router: str = 'softmax'       # or sigmoid
    groups: Tuple[str, ...] = ()  # keys of the number of groups, and of the number that is chosen from
    group_best: int = 2           # the score of a group is the sum of this many of its best scores
    grouping: Dict[str, Dict[str, bool]] = field(default_factory=dict)  # a key, its values: are there groups
    scale: str = ''               # key of the scale of weights
    cap: str = ''                 # key of the cap of logits
    shared: str = ''              # key of the number of shared experts, which every token uses, or `one`
    shared_width: str = ''        # key of the width of all of them together; '': each is as wide as another expert
    shared_place: str = ''        # in a layer's place
    dense_first: str = ''         # key of the number of first layers that are dense
    dense_types: str = ''         # key of a list of dense and sparse layers, which takes precedence
    n_dense: int = 0              # number of first layers that are dense, if no key has it
    none: bool = False            # a count of 0 means a model without experts
    choice_bias: bool = False     # experts are chosen by weight plus a bias
    by_pattern: bool = False      # letters name the layers with experts (States.pattern)
    latent: str = ''              # key of the width of the experts' input and output
    eps: float = 0.0              # added to the sum that divides the weights
    shared_is_dense: bool = False  # the shared expert is the dense layer of models without experts


@dataclass(frozen=True)
class States:
    """Layers with a state in place of keys and values."""
    kind: str               # delta: the gated delta rule; conv: a short convolution; mamba: Mamba 2
    words: Tuple[str, ...]  # their names in layer_types
    listed: str = ''        # key of a list of the other layers, without layer_types
    joined: bool = False    # queries, keys, values and gates are one matrix, ordered by key head
    place: str = ''         # in Mamba 2: its name in a layer
    pattern: str = ''       # key of a letter for each layer, if layers have one step
    said_by: Dict[str, str] = field(default_factory=dict)  # in Mamba 2: our fields, and their keys
    norms_groups: bool = False  # each group is normed separately, not all heads together


@dataclass(frozen=True)
class Names:
    """A family's names for our tensors, if they differ from Llama's, and the matrices that contain several."""
    own: Dict[str, str] = field(default_factory=dict)
    prefix: str = ''         # in published files, instead of `model.`
    also: Dict[str, str] = field(default_factory=dict)  # names in the files of some releases, and the usual ones
    left_out: Tuple[str, ...] = ()  # beginnings of names that are not part of the model; %d is its number of layers
    fused: Dict[str, List[str]] = field(default_factory=dict)  # after a layer's place: the parts, one below the other
    gate_in_queries: bool = False  # q_proj also has the rows of attention's gate, head by head


@dataclass(frozen=True)
class Gguf:
    """The architecture in llama.cpp."""
    architecture: str
    with_experts: str = ''   # architecture of models with experts, if it is another
    with_pictures: Tuple[str, ...] = ()  # architectures of the same model after an image model
    adjacent: bool = False   # the rows of a pair are adjacent
    needs: FrozenSet[Feature] = frozenset()   # features that it always has in addition
    cannot: FrozenSet[Feature] = frozenset()  # features of the family that it cannot express
    also: FrozenSet[Feature] = frozenset()    # features that it may have in addition
    ropes: FrozenSet[Feature] = frozenset()   # divisors of frequencies that it has as tensors
    pattern: str = 'always'  # the sliding layers are written always, or if they are unusual; or they are fixed
    windowed: bool = False   # some layers always slide
    slides_with: int = 0     # the number of layers with which llama.cpp lets layers slide; 0: any
    window: str = ''         # unread: llama.cpp sees all positions; by_layer: some layers slide; '': the file cannot
                             # have one
    sliding: str = ''        # RoPE of sliding layers: plain, plain_same_theta, or as_file; '': the same as of all
    own_theta: str = ''      # key of the sliding layers' theta
    shares_attention: bool = False  # sliding layers also have the attention factor of full ones
    unscaled: bool = False   # llama.cpp rotates sliding layers only according to their theta, whatever rope.scaling the
                             # file has
    without_rope: str = ''   # each_fourth layer, or full ones
    turns: str = ''          # key that is false if no layer rotates
    eps: str = 'attention.layer_norm_rms_epsilon'  # key of the epsilon of all norms
    scales: Dict[str, str] = field(default_factory=dict)  # words of the family's scales, and their keys here
    largest: int = 0         # the number of layers of the model whose scores are scaled by dim / n_heads
    caps: Dict[str, str] = field(default_factory=dict)  # keys of logit_cap and score_cap, which it always has
    yarn: str = ''           # told: the betas are read, and a multiplier that determines the attention factor; both:
                             # that multiplier is also mscale; unread: it is not read
    truncate: bool = True    # YaRN's ramp is rounded to whole pairs
    lists: Tuple[str, ...] = ()  # keys of heads and widths that may be a list with a number for each layer
    own_length: bool = False     # heads of sliding layers may have another width
    own_turning: bool = False    # another part of these heads may rotate
    values: bool = False         # values may have another width
    proportional: bool = False   # divisors determine the pairs of full layers that rotate
    shared: str = ''             # key of the number of last layers that read the keys of others
    loads_unused: bool = False   # it only loads files in which these layers have keys and values too
    per_layer: str = ''          # key of the width of per-layer embeddings
    dense: str = ''          # the dense layers: the first ones, by_tensors, or the name of a key with a step
    chunks: int = 0          # layers see chunks of this many positions, in a fixed pattern
    full_first: int = 0      # if no key gives the sliding layers, one in this many is full, the first
    bare: bool = False       # head norms without weights get some, which contain the factor of queries
    after_eps: float = 0.0   # epsilon of norms after a layer, which has no key
    square: bool = False     # it only loads heads that together are as wide as the model
    loads: FrozenSet[Feature] = frozenset()   # features without which llama.cpp does not load a file
    classifier: str = ''     # own: a file must have one; tied: a file must not have one; '': either
    tiled: bool = False      # value heads of a state are interleaved
    experts: str = ''        # told: keys give the rule of the weights and the dense layers; '': their sum is 1, and no
                             # layer is dense
    not_an_end: str = ''     # a token that the file wrongly calls an end of text
    names: Names = Names()


@dataclass(frozen=True)
class Family:
    model_type: str
    title: str
    architecture: str
    runs: bool = False        # this program runs its models; other families are explained and read by engines
    own: bool = False         # made by this program's tools
    came_with: int = 4        # the release of Transformers
    aliases: Dict[str, str] = field(default_factory=dict)  # its other names: model_type and architecture
    lacks: str = ''           # steps of a family that does not run here, which this program lacks
    gone: str = ''            # for a family that earlier versions ran: the part that was removed, and when
    wrapped_in: Dict[str, str] = field(default_factory=dict)  # model_type: architecture, of multimodal models
    wrapped_tied: bool = True  # a wrapper without the key has its embedding as classifier
    wrapped_flat: bool = False  # the wrapper itself may have the text model's keys
    defaults: Dict[str, Any] = field(default_factory=dict)    # of its class, for keys that config.json lacks
    sizes: Dict[str, int] = field(default_factory=dict)  # of its class, which a nested text model may omit
    always: FrozenSet[Feature] = frozenset()
    sign: FrozenSet[Feature] = frozenset()  # a model is recognized as one of the family if it has one of these
    may: FrozenSet[Feature] = frozenset()
    cannot: FrozenSet[Feature] = frozenset()  # features that another family expresses better on the way out
    adds_one: Any = False     # norms multiply by 1 + w; but_last: the last one by w
    scales: Dict[str, str] = field(default_factory=dict)  # the scales of `embedding` and `scores`
    activation: Dict[str, str] = field(default_factory=dict)  # its key and value, if it is not hidden_act
    layers: Layers = Layers()
    rope: Rope = Rope()
    keys: KeysOf = KeysOf()
    shapes: Optional[Shapes] = None
    experts: Optional[Experts] = None
    states: Optional[States] = None
    adjacent: bool = False  # the rows of a pair are adjacent
    latent: str = ''  # latent attention: `interleave`, with pairs according to rope_interleave, or `pairs`, which are
                      # adjacent
    names: Names = Names()
    gguf: Optional[Gguf] = None
    seen: Tuple[str, ...] = ()  # the engines that were verified to know it, NAME or NAME@RELEASE
    engines: Dict[str, Dict[str, Any]] = field(default_factory=dict)  # their differences with this family

    @property
    def period(self) -> int:
        """One layer in so many is full, by default; 0: all layers are the same."""
        return self.default(self.layers.period_key or 'period', 0)

    @property
    def architectures(self) -> List[str]:
        return [self.architecture, *self.aliases.values()]

    @property
    def seen_first(self) -> bool:
        """Whether engines were verified with it before the families whose layers differ, for which releases are
        given."""
        return bool(self.seen) and not any('@' in name for name in self.seen)

    def default(self, key: str, missing: Any = None) -> Any:
        return self.defaults.get(key, missing)


# ---- reading the rows ----

INNER = {'shapes': Shapes, 'layers': Layers, 'rope': Rope, 'keys': KeysOf, 'experts': Experts, 'states': States,
         'names': Names, 'gguf': Gguf}


def record(kind: Any, values: Dict[str, Any], where: str) -> Any:
    """A record of this kind. An unknown word in families.json is a mistake, and is reported."""
    known = {each.name: each for each in kind.__dataclass_fields__.values()}
    found = {}
    for key, value in values.items():
        if key not in known:
            raise ValueError('families.json: %s.%s means nothing (expected one of %s)' % (where, key, ', '.join(known)))
        place = '%s.%s' % (where, key)
        if known[key].type == 'FrozenSet[Feature]':
            value = frozenset(feature_named(name, place) for name in value)
        elif key in INNER and isinstance(value, dict):
            value = record(INNER[key], value, place)
        elif isinstance(value, list):
            value = tuple(value)
        found[key] = value
    return kind(**found)


def feature_named(name: str, where: str) -> Feature:
    if name.upper() not in Feature.__members__:
        raise ValueError('families.json: %s: there is no feature %s' % (where, name))
    return Feature[name.upper()]


# The allowed values of words that have only a few: '' means `none`.
VALUES: Dict[str, Dict[str, Tuple[str, ...]]] = {
    'layers': {'rule': RULES, 'full': ('last', 'first', 'from_end'), 'also_full': ('', 'first', 'last'),
               'others': ('sliding', 'linear'), 'both_ways': ('', 'read', 'halved', 'always'),
               'without_rope': ('', 'listed', 'full', 'full_beside_sliding')},
    'rope': {'one_block': ('', 'full', 'refused'), 'attention_factor': ('', 'long_mscale', 'one'),
             'types': tuple(TYPES), 'goes_out': ('', 'for_engines', 'with_alpha')},
    'keys': {'attention_bias': ('read', 'unread', 'refused')}}


def checked(family: Family) -> Family:
    for place, words in VALUES.items():
        for word, known in words.items():
            found = getattr(getattr(family, place), word)
            if found not in known:
                raise ValueError('families.json: %s.%s.%s: there is no %s (expected one of %s)' % (
                    family.model_type, place, word, found, ', '.join(filter(None, known))))
    return family


def read_families(path: str = PLACE) -> Dict[str, Family]:
    def each_once(members: List[Tuple[str, Any]]) -> Dict[str, Any]:
        found: Dict[str, Any] = {}
        for key, value in members:
            if key in found:
                raise ValueError('families.json: %s is there twice' % key)
            found[key] = value
        return found

    with open(path, encoding='utf-8') as file:
        rows = json.load(file, object_pairs_hook=each_once)
    return {name: checked(record(Family, {'model_type': name, **laid_over(rows, name)}, name)) for name in rows}


def laid_over(rows: Dict[str, Any], name: str) -> Dict[str, Any]:
    """A row that is `like` another: its own words and objects replace the other row's. The other row's results with
    engines do not apply to it."""
    def over(below: Any, above: Any) -> Any:
        if not isinstance(below, dict) or not isinstance(above, dict):
            return above
        return {**below, **{key: over(below.get(key), value) for key, value in above.items()}}

    row = {key: value for key, value in rows[name].items() if key != 'like'}
    if 'like' not in rows[name]:
        return row
    below = {key: value for key, value in laid_over(rows, rows[name]['like']).items()
             if key not in ('aliases', 'wrapped_in', 'seen', 'engines', 'sign', 'sizes')}
    return over(below, row)


FAMILIES = read_families()
# Multimodal models: the architecture, and the families that the text model inside may belong to, first the default for
# a text_config without model_type.
WRAPPERS: Dict[str, Tuple[str, List[Family]]] = {}
for _family in FAMILIES.values():
    for _wrapper, _architecture in _family.wrapped_in.items():
        WRAPPERS.setdefault(_wrapper, (_architecture, []))[1].append(_family)
# The families that share an architecture of GGUF, first the one whose row describes it.
ARCHITECTURES: Dict[str, List[Family]] = {}
for _family in FAMILIES.values():
    if _family.gguf:
        for _name in filter(None, (_family.gguf.architecture, _family.gguf.with_experts, *_family.gguf.with_pictures)):
            ARCHITECTURES.setdefault(_name, []).append(_family)


def gguf_of(family: Family) -> Gguf:
    """The facts about an architecture of llama.cpp. Families that share one have them in the row of the first."""
    assert family.gguf
    first = ARCHITECTURES[family.gguf.architecture][0].gguf
    assert first
    return first


def named(name: str) -> Optional[Family]:
    """The family of a model_type, or of an alias."""
    return FAMILIES.get(name) or next((family for family in FAMILIES.values() if name in family.aliases), None)


def fits(found: AbstractSet[Feature], needs: FrozenSet[Feature], sign: FrozenSet[Feature],
         may: FrozenSet[Feature]) -> bool:
    """Whether a model with these features can belong to a family: it has all that the family needs, one of its signs if
    there are any, and no feature that the family may not have."""
    return needs <= found <= needs | sign | may and (not sign or bool(sign & found))
