"""The families of models: the rows of families.json, which say all that is known of a family. docs/code.md explains how
to add one. tools/generate/family_table.py makes a table in C of the same rows."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import AbstractSet, Any, Dict, FrozenSet, List, Optional, Tuple

from .model import Feature

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'families.json')
# What a key of gates may be, and the attention_gate that it means.
GATES = {True: 3, 'per-head': 3, 'per-element': 2}
# Which layers slide, by a config: none; all by its window; all if use_sliding_window says so; some by that and lists,
# of which without one the later ones slide, or every other one before these; the later ones without a flag; by a
# period; by a list, or all; none, but some see chunks; or as tools/training/train.py writes it.
RULES = ('alike', 'all_slide', 'all_by_flag', 'by_flag', 'odd_by_flag', 'later', 'periodic', 'listed', 'chunked',
         'small')
# The rope_types that a class knows, and what each means. The three axes of mrope are one in a text. A class that knows
# longrope alone takes two older names for it.
USUAL_TYPES = {'mrope': 'default', **{kind: kind for kind in (
    'default', 'linear', 'dynamic', 'yarn', 'llama3', 'longrope', 'proportional')}}
TYPES = {'usual': USUAL_TYPES,
         'longrope_alone': {'default': 'default', 'longrope': 'longrope', 'su': 'longrope', 'yarn': 'longrope'},
         'default_alone': {'default': 'default'}}
# The keys of what most families call alike, by our names.
USUAL_KEYS = {'hidden_dim': 'intermediate_size', 'norm_eps': 'rms_norm_eps', 'shared_classifier': 'tie_word_embeddings'}
# What grows with the position where a key of the block says so.
GROWTH = ('llama_4_scaling_beta',)


@dataclass(frozen=True)
class Layers:
    """Which layers are of which kind, where layer_types does not say."""
    rule: str = 'alike'
    period_key: str = ''     # of the period; '': it is `period` of the defaults, always
    earlier_key: str = ''    # of how many positions before its own a query sees, which counts before sliding_window
    full: str = 'last'       # which one of a period is full: the first, the last, or (from_end) the last of periods
                             # that are counted from the last layer
    also_full: str = ''      # of all layers: the first one, or the last one whatever a config says
    full_sinks: bool = True   # full layers have sinks, if the others do
    both_ways: str = ''      # whether queries see later positions, too: `read`, if use_bidirectional_attention says
                             # so; `halved`, and then a window has half its width on either side; `always`
    others: str = 'sliding'  # what the layers are that are not full: sliding, or linear
    without_rope: str = ''   # which layers do not turn: `listed` by no_rope_layers, `full` ones, or
                             # `full_beside_sliding`: a window of null makes all layers full, and then they turn
    zeros: Dict[str, str] = field(default_factory=dict)  # the key of a list of numbers, and what a layer with a 0 is:
                             # sliding, linear or without_rope
    full_words: Tuple[str, ...] = ()  # in layer_types for full layers, besides full_attention
    cuts_lists: bool = False  # entries of lists after the last layer are not used

    @property
    def thetas(self) -> str:
        """The key of a list that has a 0 for layers that do not turn."""
        return next((key for key, meant in self.zeros.items() if meant == 'without_rope'), '')


@dataclass(frozen=True)
class Shapes:
    """The keys about heads and widths that differ from layer to layer."""
    heads: str = ''            # of a list of query heads
    full_head: str = ''        # of the elements of a head in full layers
    full_kv: str = ''          # of their key heads, where their keys are values
    keys_are_values: str = ''  # of the flag that says so
    by_layer: str = ''         # of an object of layers' settings, which newer releases write in place of these
    shared: str = ''           # of how many last layers read the keys and values of earlier ones
    double: str = ''           # of the flag by which these have feed-forward layers twice as wide
    widths: bool = False       # the width of feed-forward layers may be a list, of a number a layer
    values: str = ''           # of the elements of a head's values
    sliding_kv_times: int = 1  # how many times the key heads sliding layers have


@dataclass(frozen=True)
class Rope:
    """How its class reads the settings of RoPE."""
    by_kind: bool = False     # a block for each kind of layers; rope_scaling is of the full ones
    theta_keys: Dict[str, str] = field(default_factory=dict)  # of the thetas of `full` and `sliding` layers
    local_theta: float = 1e4  # of sliding layers, where no key says it
    blocks: Dict[str, str] = field(default_factory=dict)  # names of the blocks of `full` and `sliding` layers
    one_block: str = ''       # beside these, one for all layers: '', rope_scaling is of the full ones, and one in
                              # rope_parameters is not read; full: that, too, is of the full ones; refused
    lists: bool = False       # thetas and shares may be lists, of a number a layer
    none: bool = False        # the class has no RoPE
    only_key: str = ''        # layers turn if this key says `rope` or true; rope_theta: unless that of
                              # the block is null
    counts_factor: bool = False  # max_position_embeddings is how far linear's factor reaches, not what it multiplies
    axes: bool = False        # blocks have sections of three axes, which are one in a text
    attention_factor: str = ''  # long_mscale: longrope's is that; one: YaRN's is 1 unless the block says one
    partial: bool = False     # partial_rotary_factor may be below 1
    share_beside: bool = False  # of a scaled block's share and one beside it, that beside counts
    rotary_key: str = ''      # the key of how many elements of a head turn, which goes before it
    types: str = 'usual'      # the rope_types that it knows, a word of TYPES
    temperature: Tuple[str, ...] = ()  # the keys by which queries grow with their position: of all layers, in the
                              # block; or of layers that do not turn, beside it: a flag, its scale, its length
    one_for_both: bool = False  # one RoPE of full layers and sliding ones, never two
    goes_out: str = ''        # for_engines: with what some look for beside the block; with_alpha: which is then what
                              # ntk at every length is

    @property
    def grows(self) -> bool:
        """Whether queries of all layers grow with their position."""
        return self.temperature == GROWTH

    @property
    def unturned(self) -> Tuple[str, ...]:
        """The keys of a temperature of layers that do not turn: the flag, its scale, its length."""
        return () if self.grows else self.temperature


@dataclass(frozen=True)
class KeysOf:
    """Keys of config.json that not all families have."""
    attention_bias: str = 'refused'  # read; unread: the class does not look at it; refused: false alone
    by_layer: Tuple[str, ...] = ()   # keys about layers or positions that mean something here
    must: Dict[str, List[Any]] = field(default_factory=dict)  # keys and the values that they may have
    said_by: Dict[str, str] = field(default_factory=dict)  # our fields, and their keys where they are not USUAL_KEYS:
    # hidden_dim of a dense feed-forward layer, norm_eps, after_norm_eps of norms of what a layer adds, attention_gate
    # (see GATES), per_layer_dim of each layer's own embedding of a token, shared_classifier before the usual one
    unread: Tuple[str, ...] = ()     # keys that the class does not look at, which is worth a word
    head: str = ''                   # another name of head_dim, which counts before it
    longer: str = ''                 # of the flag by which there are as many positions as long_positions
    null_head: bool = False          # a head_dim of null is the model's width by its heads, not the class's number
    quantization: str = ''           # the quant_method that is read
    also: Dict[str, str] = field(default_factory=dict)  # other spellings of keys, which count before the usual ones
    says: Dict[str, str] = field(default_factory=dict)  # flags, and the features that each one says
    writes: Dict[str, Any] = field(default_factory=dict)  # keys that go out besides

    def of(self, field_name: str) -> str:
        """The key of one of our fields; '': the family has none."""
        return self.said_by.get(field_name, USUAL_KEYS.get(field_name, ''))


@dataclass(frozen=True)
class Experts:
    """Experts in config.json and in folders."""
    counts: Tuple[str, ...]   # the keys of how many there are, the newer one last
    width: str                # the key of their hidden width
    layout: str               # one_by_one; in_turns: gate and up in turns; halves; columns: halves, inputs first;
                              # either of these, by the shape; linear: halves by Granite's names
    place: str = 'mlp'        # of a layer; '': the layer itself
    used: str = 'num_experts_per_tok'  # the key of how many a token takes
    flag: str = ''            # the key without which there are none
    beside: bool = False      # they add to what a dense layer makes
    names: Tuple[str, ...] = ()   # of an expert's w1, w3 and w2
    sparse: Tuple[str, ...] = ()  # the keys of a list and of a step that name layers with experts
    scales_input: bool = False    # a weight multiplies what its expert reads
    dense: Tuple[str, ...] = ()   # the keys of a list and of a step that name dense layers
    renormalized: str = ''        # the key that says so; '': they always are, or never:
    shares: bool = False          # weights are never divided by their sum
    also_used: str = ''           # another name of num_experts_per_tok, which is not read
    router: str = 'softmax'       # or sigmoid
    groups: Tuple[str, ...] = ()  # the keys of how many groups there are, and of how many of these experts are chosen
    group_best: int = 2           # a group counts by the sum of so many
    grouping: Dict[str, Dict[str, bool]] = field(default_factory=dict)  # a key, its values, and whether groups count
    scale: str = ''               # the key of what weights are multiplied by
    cap: str = ''                 # the key of what logits are capped by
    shared: str = ''              # the key of how many experts each token takes, or `one`
    shared_width: str = ''        # the key of the width of these all; '': each has that of another expert
    shared_place: str = ''        # in a layer's place
    dense_first: str = ''         # the key of how many first layers are dense
    dense_types: str = ''         # the key of a list of dense and sparse ones, which goes before that
    n_dense: int = 0              # how many first layers are dense where no key says it
    none: bool = False            # a count of 0 is a model without
    choice_bias: bool = False     # experts are chosen by weight plus a bias
    by_pattern: bool = False      # which layers have experts, letters say (States.pattern)
    latent: str = ''              # the key of the width of what they read and make
    eps: float = 0.0              # is added to the sum that weights are divided by
    shared_is_dense: bool = False  # the one that each token takes is the dense layer of models without experts


@dataclass(frozen=True)
class States:
    """Layers with a state in place of keys and values."""
    kind: str               # delta: the gated delta rule; conv: a short convolution; mamba: Mamba 2
    words: Tuple[str, ...]  # what layer_types calls them
    listed: str = ''        # the key of a list of the other layers, where there are no layer_types
    joined: bool = False    # queries, keys, values and gates are one matrix, by key head
    place: str = ''         # of Mamba 2, in a layer
    pattern: str = ''       # the key of a letter for each layer, where layers are of one step
    said_by: Dict[str, str] = field(default_factory=dict)  # of Mamba 2: our fields, and their keys
    norms_groups: bool = False  # its norm is of each group by itself, and not of all heads


@dataclass(frozen=True)
class Names:
    """The names that a family has for our tensors where they are not Llama's, and the matrices that are several."""
    own: Dict[str, str] = field(default_factory=dict)
    prefix: str = ''         # in published files, where others have `model.`
    also: Dict[str, str] = field(default_factory=dict)  # names in files of some releases, and the usual ones
    left_out: Tuple[str, ...] = ()  # how names begin that are no part of the model, a %d for its number of layers
    fused: Dict[str, List[str]] = field(default_factory=dict)  # after a layer's place: the parts, one below the other
    gate_in_queries: bool = False  # the gate of attention has its rows in q_proj, head by head


@dataclass(frozen=True)
class Gguf:
    """The architecture in llama.cpp."""
    architecture: str
    with_experts: str = ''   # and that of models with experts, if it is another
    with_pictures: Tuple[str, ...] = ()  # and those of the same model after one for pictures
    adjacent: bool = False   # pairs that turn are rows side by side
    needs: FrozenSet[Feature] = frozenset()   # what it always has besides
    cannot: FrozenSet[Feature] = frozenset()  # what it cannot say of what the family may have
    also: FrozenSet[Feature] = frozenset()    # what it may have besides
    ropes: FrozenSet[Feature] = frozenset()   # divisors of frequencies that it takes as tensors
    pattern: str = 'always'  # which layers slide is written always, or if it is unusual; or it is fixed
    windowed: bool = False   # some layers slide, always
    slides_with: int = 0     # the number of layers with which llama.cpp slides; 0: any
    window: str = ''         # unread: llama.cpp sees all; by_layer: it slides; '': the file cannot have one
    sliding: str = ''        # how sliding layers turn: plain, plain_same_theta, or as_file says; or it is said of all
    own_theta: str = ''      # the key of sliding layers' theta
    shares_attention: bool = False  # sliding layers get the attention factor of full ones, too
    unscaled: bool = False   # llama.cpp turns sliding layers by their theta alone, whatever the file's rope.scaling is
    without_rope: str = ''   # each_fourth layer, or full ones
    turns: str = ''          # the key that is false where no layer turns
    eps: str = 'attention.layer_norm_rms_epsilon'  # the key of all norms' epsilon
    scales: Dict[str, str] = field(default_factory=dict)  # words of the family's scales, and their keys here
    largest: int = 0         # the number of layers of the model whose scores go by the width of a head in dim
    caps: Dict[str, str] = field(default_factory=dict)  # keys of logit_cap and score_cap, which it always has
    yarn: str = ''           # told: the betas are read, and a multiplier that the attention factor follows from; both:
                             # that multiplier is mscale, too; unread: it is not read
    truncate: bool = True    # YaRN's ramp is cut to whole pairs
    lists: Tuple[str, ...] = ()  # keys of heads and widths that may be a list, of a number a layer
    own_length: bool = False     # heads of sliding layers may have another width
    own_turning: bool = False    # of these another part may turn
    values: bool = False         # values may have a width of their own
    proportional: bool = False   # divisors say which pairs of full layers turn
    shared: str = ''             # the key of how many last layers read the keys of others
    loads_unused: bool = False   # it loads only files in which these have keys and values, too
    per_layer: str = ''          # of the width of each layer's own embedding of a token
    dense: str = ''          # which layers are dense: the first ones, by_tensors, or by a step, of the name of its key
    chunks: int = 0          # layers see chunks of so many positions, by a pattern that is fixed
    full_first: int = 0      # where no key says which layers slide, the first of so many is full
    bare: bool = False       # head norms without weights have some, which say what queries are multiplied by
    after_eps: float = 0.0   # the epsilon of norms after, which has no key
    square: bool = False     # it loads only heads that are as wide together as the model
    loads: FrozenSet[Feature] = frozenset()   # what a file must have, or llama.cpp does not load it
    classifier: str = ''     # own: a file must have one; tied: a file must have none; '': either
    tiled: bool = False      # value heads of a state are in tiles
    experts: str = ''        # told: keys say how weights are made and which layers are dense; '': a sum of 1, none is
    not_an_end: str = ''     # a token that the file wrongly calls an end of text
    names: Names = Names()


@dataclass(frozen=True)
class Family:
    model_type: str
    title: str
    architecture: str
    runs: bool = False        # this program runs its models; the others are explained and read by engines
    own: bool = False         # of this program's tools
    came_with: int = 4        # the release of Transformers
    aliases: Dict[str, str] = field(default_factory=dict)  # other names of it: model_type and architecture
    lacks: str = ''           # steps of a family that is not run, which this program has not
    gone: str = ''            # of a family that earlier versions ran: what went, and when
    wrapped_in: Dict[str, str] = field(default_factory=dict)  # model_type: architecture, of models of pictures and text
    wrapped_tied: bool = True  # a wrapper that says nothing of it has its embedding for a classifier
    wrapped_flat: bool = False  # the keys of the text model may be in the wrapper itself
    defaults: Dict[str, Any] = field(default_factory=dict)    # of its class, where config.json says nothing
    sizes: Dict[str, int] = field(default_factory=dict)  # of its class, which a text model inside another may leave out
    always: FrozenSet[Feature] = frozenset()
    sign: FrozenSet[Feature] = frozenset()  # a model is taken for one of the family by one of these
    may: FrozenSet[Feature] = frozenset()
    cannot: FrozenSet[Feature] = frozenset()  # what another family says better on the way out
    adds_one: Any = False     # norms multiply with 1 + w; but_last: the last one with w
    scales: Dict[str, str] = field(default_factory=dict)  # what `embedding` and `scores` are multiplied by
    activation: Dict[str, str] = field(default_factory=dict)  # its key and value, where it is not hidden_act
    layers: Layers = Layers()
    rope: Rope = Rope()
    keys: KeysOf = KeysOf()
    shapes: Optional[Shapes] = None
    experts: Optional[Experts] = None
    states: Optional[States] = None
    adjacent: bool = False  # pairs that turn are rows side by side
    latent: str = ''  # latent attention: `interleave`, whose pairs are as rope_interleave says, or `pairs` side by side
    names: Names = Names()
    gguf: Optional[Gguf] = None
    seen: Tuple[str, ...] = ()  # the engines that were seen to know it, NAME or NAME@RELEASE
    engines: Dict[str, Dict[str, Any]] = field(default_factory=dict)  # what they do otherwise with it

    @property
    def period(self) -> int:
        """One layer in so many is full, by default; 0: all layers are alike."""
        return self.default(self.layers.period_key or 'period', 0)

    @property
    def architectures(self) -> List[str]:
        return [self.architecture, *self.aliases.values()]

    @property
    def seen_first(self) -> bool:
        """Whether engines were verified with it before those whose layers differ, for which releases are given."""
        return bool(self.seen) and not any('@' in name for name in self.seen)

    def default(self, key: str, missing: Any = None) -> Any:
        return self.defaults.get(key, missing)


# ---- reading the rows ----

INNER = {'shapes': Shapes, 'layers': Layers, 'rope': Rope, 'keys': KeysOf, 'experts': Experts, 'states': States,
         'names': Names, 'gguf': Gguf}


def record(kind: Any, values: Dict[str, Any], where: str) -> Any:
    """A record of this kind. A word in families.json that nobody reads is a mistake, and is named."""
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


# What a word may be, where it is one of a few: '' is `no such thing`.
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
    """A row with what it says `like` another: words and objects of its own are laid over that one's. What engines were
    seen to do with the other, nobody has seen of it."""
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
# Models of pictures and text: the architecture, and the families that the text model inside may be of, first the one
# that it is where text_config does not say it.
WRAPPERS: Dict[str, Tuple[str, List[Family]]] = {}
for _family in FAMILIES.values():
    for _wrapper, _architecture in _family.wrapped_in.items():
        WRAPPERS.setdefault(_wrapper, (_architecture, []))[1].append(_family)
# Of GGUF: the families that are one there, first the one whose row says how.
ARCHITECTURES: Dict[str, List[Family]] = {}
for _family in FAMILIES.values():
    if _family.gguf:
        for _name in filter(None, (_family.gguf.architecture, _family.gguf.with_experts, *_family.gguf.with_pictures)):
            ARCHITECTURES.setdefault(_name, []).append(_family)


def gguf_of(family: Family) -> Gguf:
    """What an architecture of llama.cpp is. Families that share one have it in the first one's row."""
    assert family.gguf
    first = ARCHITECTURES[family.gguf.architecture][0].gguf
    assert first
    return first


def named(name: str) -> Optional[Family]:
    """The family of a model_type, or of another name of it."""
    return FAMILIES.get(name) or next((family for family in FAMILIES.values() if name in family.aliases), None)


def fits(found: AbstractSet[Feature], needs: FrozenSet[Feature], sign: FrozenSet[Feature],
         may: FrozenSet[Feature]) -> bool:
    """Whether a model with these features can be of a family: it has what the family needs, and one of its signs if
    there are any, and nothing that it may not have."""
    return needs <= found <= needs | sign | may and (not sign or bool(sign & found))
