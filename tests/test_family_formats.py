#!/usr/bin/env python3
"""Every family by every way in and out: for each row of export/families.json that is run, a small random checkpoint with
nothing that the family may have, with each feature alone, and with all together. It goes from Hugging Face's folder to
model.bin, to a folder and in again, and to GGUF and in again. PUBLISHED says what the published checkpoints of known
families have: the writer here goes by that. A family that is not there yet is taken at its row's word. Then rows get
errors on purpose, and the same comparisons must notice each."""

import contextlib
import copy
import json
import os
import struct
import sys

import family_shapes
import family_silent
import family_states
import family_steps
import kept
import source_writers
from common import (ENGINES, ROOT, check, close, config, good, in_work, main, perplexity, random_ids, random_weights,
                    read, read_model, run, table, takes_long, write, write_model)
from folders import (EXPERT_PARTS, FULL_FIELDS, as_float32, expert_tensors, export, hf_tensors, in_halves,
                     read_safetensors, sliding_name, with_experts, write_folder)
from test_export_out import read_gguf

sys.path.insert(0, ROOT)
from export import common as export_common, families, out_huggingface  # noqa: E402
from export.config import read_config  # noqa: E402
from export.model import Feature  # noqa: E402

FULL, SLIDING = 'full_attention', 'sliding_attention'
SEES_ALL, WITHOUT_ROPE, TURNS_AS_SLIDING, DENSE = 1, 2, 4, 8
with open(families.PLACE) as _file:
    ROWS = json.load(_file)
# Rows that say they are like another one are tried by that one, and by Hugging Face's numbers in test_golden.py.
# So are those with Mamba 2, and by test_mamba.py.
RUN = [name for name, row in ROWS.items() if row.get('runs') and not row.get('like')
       and row.get('states', {}).get('kind') != 'mamba']
ORIGINAL = 'original_max_position_embeddings'
out_huggingface.RUN = in_work('no-run')  # rope.README has tests of its own (test_export_out.py)

# ---- features of published checkpoints ----

# Features by their names in families.json; `unsaid`: features without a key in the GGUF architecture.
PUBLISHED = {
    'llama': dict(may='all_biases ffn_bias', gguf='llama', adjacent=True),
    'mistral': dict(sign='window', gguf='llama', adjacent=True),
    'qwen2': dict(always='qkv_bias', may='window some_window', gguf='qwen2', unsaid='window some_window'),
    'qwen3': dict(always='head_norms', may='all_biases window some_window', gguf='qwen3',
                  unsaid='all_biases window some_window'),
    'phi3': dict(sign='partial longrope', may='partial window', gguf='phi3', fused=True),
    'smollm3': dict(may='all_biases ffn_bias without_rope window some_window', gguf='smollm3', adjacent=True,
                    needs='without_rope', unsaid='all_biases ffn_bias window some_window'),
    'gemma': dict(always='gelu embedding_scale', adds_one=True, may='all_biases', gguf='gemma', unsaid='all_biases',
                  activation='hidden_act'),
    'gemma3_text': dict(always='norms_both head_norms gelu embedding_scale', adds_one=True,
                        may='all_biases score_scale two_ropes window some_window logit_cap', gguf='gemma3',
                        unsaid='all_biases logit_cap'),
    'olmo2': dict(always='norms_after whole_norms', may='all_biases', gguf='olmo2', unsaid='all_biases'),
    'olmo3': dict(always='norms_after whole_norms', may='all_biases two_ropes window some_window', gguf='olmo2',
                  unsaid='all_biases', one_theta=True),
    'ministral3': dict(always='temperature', may='window', gguf='mistral3', adjacent=True),
    'exaone4': dict(always='norms_after head_norms', may='two_ropes without_rope window some_window', gguf='exaone4'),
    'mixtral': dict(always='experts', may='window', gguf='llama', adjacent=True, experts='mixtral'),
    'qwen3_moe': dict(always='experts head_norms', may='all_biases window dense_between shares', gguf='qwen3moe',
                      unsaid='all_biases dense_between shares window', experts='qwen'),
    'gpt_oss': dict(always='experts clamped router_bias expert_bias sinks', gguf='gpt-oss', experts='gpt-oss',
                    may='all_biases two_ropes window some_window', needs='two_ropes all_biases'),
    'glm4_moe': dict(
        always='experts sigmoids choice_bias', gguf='glm4moe', needs='shared_expert', experts='row',
        may='partial qkv_bias head_norms renormalized router_scale groups shared_expert dense_between'),
    'minimax_m2': dict(always='experts sigmoids choice_bias renormalized whole_norms', may='partial',
                       gguf='minimax-m2', experts='row'),
    'flex_olmo': dict(always='experts norms_after whole_norms', may='all_biases shares', gguf='', experts='row'),
    'exaone_moe': dict(
        always='experts sigmoids choice_bias head_norms', sign='two_ropes without_rope', gguf='exaone-moe',
        experts='row', may='two_ropes without_rope window some_window renormalized router_scale groups shared_expert '
                           'dense_between'),
    'glm4_moe_lite': dict(
        always='latent experts sigmoids choice_bias', gguf='deepseek2', adjacent=True, experts='row',
        unsaid='latent_bias',
        may='q_latent latent_bias score_mscale renormalized router_scale groups shared_expert dense_between'),
    'deepseek_v2': dict(
        always='latent experts shares', gguf='deepseek2', adjacent=True, unsaid='groups latent_bias', experts='row',
        may='q_latent latent_bias score_mscale router_scale groups shared_expert dense_between'),
    'deepseek_v3': dict(
        always='latent experts sigmoids choice_bias', gguf='deepseek2', adjacent=True, experts='row',
        unsaid='latent_bias',
        may='q_latent latent_bias score_mscale renormalized router_scale groups shared_expert dense_between'),
    'mistral4': dict(
        always='latent experts temperature', gguf='mistral4', adjacent=True, experts='row', unsaid='latent_bias',
        may='q_latent latent_bias score_mscale shares renormalized router_scale groups shared_expert dense_between'),
    'qwen3_5_text': dict(always='head_norms gates delta_rule', adds_one=True, gguf='qwen35',
                         may='partial all_biases gate_bias', unsaid='all_biases gate_bias'),
    'qwen3_next': dict(
        always='head_norms gates delta_rule experts shared_expert shared_gate', adds_one=True, gguf='qwen3next',
        may='partial all_biases gate_bias shares dense_between', experts='row',
        unsaid='all_biases gate_bias shares dense_between'),
    'qwen3_5_moe_text': dict(
        always='head_norms gates delta_rule experts shared_expert shared_gate', adds_one=True, gguf='qwen35moe',
        may='partial all_biases gate_bias', unsaid='all_biases gate_bias', experts='row'),
    'lfm2': dict(always='head_norms short_conv', may='state_bias', gguf='lfm2', unsaid='state_bias'),
    'rope.c': dict(gguf='')}
RULES = dict(llama='alike', mistral='all_slide', qwen2='by_flag', qwen3='by_flag', phi3='all_slide', smollm3='by_flag',
             gemma='alike', gemma3_text='periodic', olmo2='alike', olmo3='periodic', ministral3='all_slide',
             exaone4='periodic', mixtral='all_slide', qwen3_moe='all_slide', gpt_oss='periodic')
ARCHITECTURES = dict(llama='Llama', mistral='Mistral', qwen2='Qwen2', qwen3='Qwen3', phi3='Phi3', smollm3='SmolLM3',
                     gemma='Gemma', gemma3_text='Gemma3', olmo2='Olmo2', olmo3='Olmo3', ministral3='Ministral3',
                     exaone4='Exaone4', mixtral='Mixtral', qwen3_moe='Qwen3Moe', gpt_oss='GptOss')
# By attention_bias.
BIASES_SAID = ('llama', 'qwen3', 'smollm3', 'gemma', 'gemma3_text', 'olmo2', 'olmo3', 'qwen3_moe', 'gpt_oss', 'flex_olmo',
               'qwen3_5_text', 'qwen3_next', 'qwen3_5_moe_text')


class Facts:
    """The facts of a family, by PUBLISHED or else by its row."""

    def __init__(self, name):
        row, known = ROWS[name], PUBLISHED.get(name)
        architecture, experts = row.get('gguf', {}).get('architecture', ''), row.get('experts', {})
        rule = next((other['gguf'] for other in ROWS.values()  # the first one's says how
                     if (other.get('gguf') or {}).get('architecture') == architecture), {})
        by_row = dict(
            {kind: ' '.join(row.get(kind, ())) for kind in ('always', 'sign', 'may')}, adds_one=row.get('adds_one'),
            gguf=architecture, adjacent=rule.get('adjacent'), needs=' '.join(rule.get('needs', ())),
            unsaid=' '.join(row.get('gguf', {}).get('cannot', ())), one_theta=rule.get('sliding') == 'plain_same_theta',
            experts=None if not experts else 'gpt-oss' if experts.get('layout') == 'in_turns' else 'row')
        said = by_row if known is None else known
        self.name, self.row = name, row
        if known is None and rule.get('largest') and 'head_norms' not in row['always']:
            by_row['unsaid'] += ' score_scale'  # which nothing in a file can say
        self.always, self.sign, self.may, self.needs, self.unsaid = (
            set(said.get(kind, '').split()) for kind in ('always', 'sign', 'may', 'needs', 'unsaid'))
        self.gguf, self.adjacent, self.adds_one = said['gguf'], bool(said.get('adjacent')), bool(said.get('adds_one'))
        self.fused, self.one_theta, self.experts = said.get('fused'), said.get('one_theta'), said.get('experts')
        self.activation = said.get('activation', 'hidden_activation')
        self.rule = RULES.get(name) or row.get('layers', {}).get('rule', 'alike')
        self.architecture = ARCHITECTURES[name] + 'ForCausalLM' if name in ARCHITECTURES else row['architecture']
        self.says_biases = name in BIASES_SAID if known else row.get('keys', {}).get('attention_bias') == 'read'

    def can_be(self, found):
        """Whether a folder of the family can have these features."""
        return self.always <= found <= self.always | self.sign | self.may and (
            not self.sign or bool(self.sign & found))


FACTS = {name: Facts(name) for name in RUN}

# ---- a checkpoint with some features ----

SIZES = dict(n_layers=4, dim=16, hidden_dim=12, n_heads=4, n_kv_heads=2, head_dim=8, vocab_size=40, seq_len=64,
             train_ctx=64, norm_eps=2.0 ** -16)
YARN = dict(rope_type='yarn', factor=4.0, beta_fast=32.0, beta_slow=1.0, **{ORIGINAL: 16})
IS_YARN = dict(method='yarn', factor=4.0, beta_fast=32.0, beta_slow=1.0, train_ctx=16)
LLAMA3 = dict(rope_type='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, **{ORIGINAL: 16})
IS_LLAMA3 = dict(method='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, train_ctx=16)
SHORT, LONG = [1.0, 1.25, 1.5, 2.0], [1.0, 2.5, 4.0, 9.0]
FIELDS = dict(
    qkv_bias=dict(qkv_bias=1), all_biases=dict(qkv_bias=1, o_bias=1), head_norms=dict(qk_norm=1),
    whole_norms=dict(qk_norm=2), norms_after=dict(norm_place=1), norms_both=dict(norm_place=2), gelu=dict(activation=1),
    embedding_scale=dict(embedding_scale=4.0), score_scale=dict(score_scale=24 ** -0.5), partial=dict(rotary_dim=6),
    temperature=dict(IS_YARN, temperature_beta=0.3, mscale=1.0, mscale_all_dim=1.0), clamped=dict(activation=2),
    experts=dict(n_experts=4, n_experts_used=2, expert_hidden_dim=12), router_bias=dict(router_bias=1),
    expert_bias=dict(expert_bias=1), sinks=dict(attention_sinks=1), shares=dict(router=1), sigmoids=dict(router=2),
    renormalized=dict(router_renormalizes=1), choice_bias=dict(router_choice_bias=1),
    groups=dict(router_groups=2, router_groups_used=1), router_scale=dict(router_scale=1.5),
    router_cap=dict(router_cap=0.75), scaled_input=dict(router_scales_input=1),
    shared_expert=dict(shared_hidden_dim=24),
    shared_gate=dict(shared_gate=1), q_latent=dict(q_rank=10), latent_bias=dict(latent_bias=1, o_bias=1), score_mscale=dict(
        IS_YARN, mscale_in_scores=1, mscale=0.5, mscale_all_dim=0.5),
    latent=dict(kv_rank=12, rotary_dim=4, value_dim=6, latent_norm_eps=1e-6))
FIELDS.update({**family_shapes.FIELDS, **family_steps.FIELDS, **family_states.FIELDS})
LISTED = {'longrope', 'window', 'some_window', 'two_ropes', 'without_rope', 'dense_between'} | family_shapes.LISTED


class Case:
    """A family with some of its possible features: its config.json, and the fields that this means."""

    def __init__(self, facts, features):
        self.facts = facts
        self.features = family_states.together(facts, family_steps.together(facts, family_shapes.together(facts, features)))
        self.name = '%s with %s' % (facts.name, ', '.join(sorted(features)) or 'nothing more')
        self.fields, self.theta, self.local = dict(SIZES), 5000.0, None
        for feature in sorted(facts.always | self.features):
            if feature not in FIELDS and feature not in LISTED:
                raise KeyError('%s: tests/test_family_formats.py knows no feature %s' % (facts.name, feature))
            self.fields.update(FIELDS.get(feature, {}))
        if 'latent' in facts.always:
            self.fields['n_kv_heads'] = self.fields['n_heads']
        self.settings = dict(
            model_type=facts.name, architectures=[facts.architecture], hidden_size=16, intermediate_size=12,
            num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8, vocab_size=40,
            max_position_embeddings=64, rms_norm_eps=2.0 ** -16, bos_token_id=1, eos_token_id=2,
            tie_word_embeddings=False)
        self.say_parts()
        self.say_experts()
        self.say_layers()
        if 'states' in facts.row:
            family_states.say_states(self)
        self.say_rope()
        family_shapes.say_scales(self)
        if 'shapes' in facts.row:
            family_shapes.say_shapes(self)
        if facts.row.get('rope', {}).get('one_block') == 'refused':
            family_shapes.say_blocks(self)
        family_steps.say(self)
        self.c = config(**self.fields)

    def say_parts(self):
        facts, row = self.facts, self.facts.row
        says = row.get('keys', {}).get('says', {})
        self.settings.update({key: feature in self.features for key, feature in says.items()})
        if 'latent' in facts.always:
            self.settings.update(kv_lora_rank=12, q_lora_rank=10 if 'q_latent' in self.features else None,
                                 qk_nope_head_dim=4, qk_rope_head_dim=4, v_head_dim=6)
        if facts.says_biases:
            self.settings['attention_bias'] = 'all_biases' in self.features
        if 'gelu' in facts.always:
            self.settings[facts.activation] = 'gelu_pytorch_tanh'
        if facts.name == 'gemma3_text' or row.get('scales', {}).get('scores', 'one') != 'one':
            self.settings['query_pre_attn_scalar'] = 24 if 'score_scale' in self.features else 8
        if facts.rule == 'small' or row.get('own'):
            self.settings['position_encoding'] = 'rope'
        if 'partial' in self.features or row['defaults'].get('partial_rotary_factor'):
            self.settings['partial_rotary_factor'] = 0.75 if 'partial' in self.features else 1.0

    def say_row_experts(self):
        """The keys that a row names."""
        rule, found, fields, settings = self.facts.row['experts'], self.all_features, self.fields, self.settings
        defaults = self.facts.row['defaults']
        settings.update({rule['counts'][0]: 4, 'num_experts_per_tok': 2, rule['width']: 12})
        if rule.get('renormalized'):
            settings[rule['renormalized']] = 'renormalized' in found if rule.get('router') else 'shares' not in found
        if 'groups' in found:
            fields['router_group_best'] = rule.get('group_best', 2)
            if rule.get('router') != 'sigmoid':
                fields.update(router=1, router_renormalizes=int('shares' not in found and not rule.get('shares')))
        for key, of_group in zip(rule.get('groups', ()), (2, 1)):
            settings[key] = of_group if 'groups' in found else 1
        for key, values in rule.get('grouping', {}).items():
            settings[key] = next(value for value, counts in values.items() if counts == ('groups' in found))
        for key, name in (rule.get('scale'), 'router_scale'), (rule.get('cap'), 'router_cap'):
            if key:
                settings[key] = fields.get(name) or float(name == 'router_scale')
        if rule.get('shared_width'):
            settings[rule['shared_width']] = 24
        elif rule.get('shared') == 'one':
            fields['shared_hidden_dim'] = 12
        elif rule.get('shared'):
            settings[rule['shared']] = 2 * ('shared_expert' in found)
        if rule.get('dense_first'):
            settings[rule['dense_first']] = int('dense_between' in found)
        if rule.get('dense_types'):
            settings[rule['dense_types']] = ['dense' if i == 0 and 'dense_between' in found else 'sparse'
                                             for i in range(4)]

    def say_experts(self):
        if self.facts.row.get('experts', {}).get('beside'):
            family_shapes.say_experts(self)
        elif self.facts.experts == 'row':
            self.say_row_experts()
        elif 'experts' in self.facts.always:
            self.settings.update(num_local_experts=4, num_experts_per_tok=2)
        if self.facts.experts == 'qwen':
            self.settings.update(moe_intermediate_size=12, norm_topk_prob='shares' not in self.features,
                                 mlp_only_layers=[1] if 'dense_between' in self.features else [])

    def say_layers(self):
        """Layers 0, 1 and 3 slide where some do, and each fourth one does not turn."""
        found, rule, settings, n = self.features, self.facts.rule, self.settings, SIZES['n_layers']
        window = bool(found & {'window', 'some_window', 'two_ropes'})
        slides = family_shapes.slides_of(self.facts.row, window, 'window' in found)
        still = [False] * n
        if rule == 'periodic' and 'without_rope' in self.facts.may:  # whose full layers do not turn, if it has a window
            turns = self.facts.row['layers'].get('without_rope') == 'full_beside_sliding'
            window = window or 'without_rope' in found or not turns
            still = [window and not slide for slide in slides]
        elif 'without_rope' in found:
            still = [i % 4 == 3 for i in range(n)]
        if rule in ('all_slide', 'by_flag', 'periodic'):
            no_window = rule != 'periodic' or 'without_rope' in self.facts.may
            settings['sliding_window'] = None if no_window and not window else 9
        if rule == 'by_flag' or self.facts.name == 'qwen3_moe' or self.facts.row.get('layers', {}).get('flag'):
            settings['use_sliding_window'] = window
        if rule in ('by_flag', 'periodic'):
            settings['layer_types'] = [SLIDING if slide else FULL for slide in slides]
        if rule == 'by_flag' and 'without_rope' in self.facts.may:
            settings['no_rope_layers'] = [int(not x) for x in still]
        full = SEES_ALL * any(slides)
        turning = TURNS_AS_SLIDING if rule == 'periodic' else 0
        layers = [(turning if slide else full) + WITHOUT_ROPE * no for slide, no in zip(slides, still)]
        if 'dense_between' in found:
            layers[self.facts.experts != 'row'] |= DENSE
        self.slides, self.still = slides, still
        self.fields.update(sliding_window=9 if any(slides) else 0, **({'layers': layers} if any(layers) else {}))
        # What the layers have besides.
        found.update({'two_ropes'} if turning and any(slides) else set())
        found.update({'some_window'} if any(slides) and not all(slides) else set())
        found.update({'without_rope'} if any(still) else set())

    def say_rope(self):
        """Sliding layers have a RoPE of their own in Gemma and OLMo 3, and that of the full ones in the others."""
        name, settings, fields, row = self.facts.name, self.settings, self.fields, self.facts.row['rope'] \
            if 'rope' in self.facts.row else {}
        local_key = 'rope_local_base_freq' if name == 'gemma3_text' else row.get('theta_keys', {}).get('sliding')
        by_kind = name in ('gemma3_text', 'olmo3') or name not in PUBLISHED and row.get('by_kind')
        if by_kind and local_key:
            self.local = settings[local_key] = 300.0
        elif by_kind:
            self.local = 5e5 if name == 'olmo3' else row['local_theta']
            self.theta = self.local if not self.other_theta() else 5000.0
        settings['rope_theta'] = fields['theta'] = self.theta
        if 'temperature' in self.facts.always:
            settings.pop('rope_theta')
            settings['rope_parameters'] = dict(YARN, rope_theta=self.theta, llama_4_scaling_beta=0.3, mscale=1.0,
                                               mscale_all_dim=1.0)
            if 'latent' in self.facts.always:  # where that would be in the scores
                del settings['rope_parameters']['mscale'], settings['rope_parameters']['mscale_all_dim']
                fields.update(mscale=0, mscale_all_dim=0)
        elif 'rope_parameters' in self.facts.row['defaults'] and row.get('one_block') != 'refused':
            own = self.facts.row['defaults']['rope_parameters']['rope_type']
            settings['rope_scaling'] = LLAMA3 if own == 'llama3' else dict(YARN, truncate=False)
            fields.update(IS_LLAMA3 if own == 'llama3' else dict(IS_YARN, truncate=0))
        if 'score_mscale' in self.features:
            key = 'rope_parameters' if 'rope_parameters' in settings else 'rope_scaling'
            settings[key] = dict(settings.get(key, YARN), mscale=0.5, mscale_all_dim=0.5)
            fields.update(mscale=0.5, mscale_all_dim=0.5)
        if 'longrope' in self.features:
            n = (fields.get('rotary_dim') or 8) // 2
            settings.update({ORIGINAL: 16, 'rope_scaling': dict(type='longrope', short_factor=SHORT[:n],
                                                                long_factor=LONG[:n])})
            fields.update(method='longrope', train_ctx=16, factor=4.0, short_factors=SHORT[:n], long_factors=LONG[:n])
        if any(flags & TURNS_AS_SLIDING for flags in fields.get('layers', ())):
            c = config(**fields)
            own = dict(config(**SIZES), theta=self.local) if by_kind else c
            fields.update(sliding_rope=1, **{sliding_name(field): own[field] for field in FULL_FIELDS})

    def other_theta(self):
        return 'two_ropes' in self.features and self.asked_two_ropes

    asked_two_ropes = as_published = False

    @property
    def all_features(self):
        return self.facts.always | self.features


class TwoThetas(Case):
    """Full layers have another theta than sliding ones."""
    asked_two_ropes = True


class AsPublished(Case):
    """Numbers that GGUF has no key for are those of the published models."""
    as_published = True


class Square(Case):
    """With heads that are as wide together as the model, as llama.cpp wants them of some architectures."""

    def __init__(self, facts, features):
        super().__init__(facts, features)
        self.settings['head_dim'] = self.fields['head_dim'] = self.fields['dim'] // self.fields['n_heads']
        self.name += ', square'
        self.c = config(**self.fields)


def cases_of(name):
    """With nothing, with each feature alone, with all that go together."""
    facts, made = FACTS[name], []
    every = sorted(facts.sign | facts.may)
    wholes = [[]] + [[feature] for feature in every]
    whole = [feature for feature in every if feature != 'window' or 'some_window' not in every]
    wholes += [whole, [feature for feature in whole if feature not in facts.unsaid]]  # and all that GGUF can say
    for features in wholes:
        case = (TwoThetas if features == ['two_ropes'] else Case)(facts, features)
        if not any(case.settings == other.settings for other in made):
            made.append(case)
    if facts.gguf == 'llama4':
        made.append(AsPublished(facts, wholes[-1]))
    if facts.name == 'qwen2':  # others of its features go out as Seed-OSS
        made.append(Square(facts, []))
    return made


# ---- the independent writer ----

BESIDE_EXPERTS = ['router_choice_bias', 'shared_w1', 'shared_w3', 'shared_w2', 'shared_gate']


def row_experts(facts, c, weights, layer):
    """{name: (shape, values)} of a layer's router and experts, by the words of a row."""
    rule, own, n, dim, hidden = (facts.row['experts'], facts.row['names']['own'], c['n_experts'], c['dim'],
                                 c['expert_hidden_dim'])
    place = 'model.layers.%d.%s' % (layer, rule.get('place', 'mlp') + '.' * (rule.get('place', 'mlp') != ''))
    out = {own['router'] % layer: ([n, dim], weights['router.%d' % layer])}
    if c['router_choice_bias']:
        out[own['router_choice_bias'] % layer] = [n], weights['router_choice_bias.%d' % layer]
    matrices = {part: cut(weights['%s.%d' % (part, layer)], columns)
                for part, columns in (('w1', dim), ('w3', dim), ('w2', hidden))}
    each = [[matrices['w1'][e * hidden:][:hidden], matrices['w3'][e * hidden:][:hidden], matrices['w2'][e * dim:][:dim]]
            for e in range(n)]
    for e, three in enumerate(each if rule['layout'] == 'one_by_one' else ()):
        for name, rows in zip(rule['names'], three):
            out['%sexperts.%d.%s.weight' % (place, e, name)] = [len(rows), len(rows[0])], sum(rows, [])
    if rule['layout'] == 'halves':
        out[place + 'experts.gate_up_proj'] = [n, 2 * hidden, dim], [
            x for g, u, _ in each for row in g + u for x in row]
        out[place + 'experts.down_proj'] = [n, dim, hidden], [x for *_, down in each for row in down for x in row]
    if rule['layout'] == 'columns':
        out[place + 'experts.gate_up_proj'] = [n, dim, 2 * hidden], [
            x for g, u, _ in each for column in zip(*g, *u) for x in column]
        out[place + 'experts.down_proj'] = [n, hidden, dim], [x for *_, down in each for row in zip(*down) for x in row]
    for name, part, shape in zip(rule['names'], ('w1', 'w3', 'w2'), ((0, 1), (0, 1), (1, 0))):
        if c['shared_hidden_dim'] and not c['experts_beside']:
            sizes = c['shared_hidden_dim'], dim
            out['%s%s.%s.weight' % (place, rule['shared_place'], name)] = (
                [sizes[i] for i in shape], weights['shared_%s.%d' % (part, layer)])
    return out


LATENT_PARTS = 'wq', 'wq_a', 'b_q_a', 'q_a_norm', 'wkv_a', 'b_kv_a', 'kv_a_norm', 'wk', 'wv', 'wo', 'bo'


def latent_tensors(c, weights, layer):
    """The tensors of latent attention, with pairs side by side. The rotated part of a head is at its end there."""
    n, d, turns, rank = c['n_heads'], c['head_dim'], c['rotary_dim'], c['kv_rank']
    value = c['value_dim'] or d
    own = {part: weights.get('%s.%d' % (part, layer)) for part in LATENT_PARTS}
    q, still = cut(own['wq'], c['q_rank'] or c['dim']), d - turns
    q = [row for h in range(n) for row in q[h * d + turns:h * d + d] + q[h * d:h * d + turns]]
    k, v = cut(own['wk'], rank), cut(own['wv'], rank)
    both = [row for h in range(n) for row in k[h * still:h * still + still] + v[h * value:h * value + value]]
    name = 'model.layers.%d.self_attn.' % layer
    out = {name + ('q_b_proj' if c['q_rank'] else 'q_proj') + '.weight': ([n * d, len(q[0])], sum(q, [])),
           name + 'kv_a_proj_with_mqa.weight': ([rank + turns, c['dim']], own['wkv_a']),
           name + 'kv_a_layernorm.weight': ([rank], own['kv_a_norm']),
           name + 'kv_b_proj.weight': ([len(both), rank], sum(both, [])),
           name + 'o_proj.weight': ([c['dim'], n * value], own['wo'])}
    if c['q_rank']:
        out.update({name + 'q_a_proj.weight': ([c['q_rank'], c['dim']], own['wq_a']),
                    name + 'q_a_layernorm.weight': ([c['q_rank']], own['q_a_norm'])})
    for theirs, part in ('q_a_proj', 'b_q_a'), ('kv_a_proj_with_mqa', 'b_kv_a'), ('o_proj', 'bo'):
        if own[part] is not None:
            out[name + theirs + '.bias'] = [len(own[part])], own[part]
    return out


def cut(values, columns):
    return [list(values[i:i + columns]) for i in range(0, len(values), columns)]


def folder_tensors(facts, c, weights):
    """{name: (shape, values)} as in a folder of the family."""
    layers = with_experts(c) if c['n_experts'] else []
    theirs = {'%s.%d' % (part, layer) for part in EXPERT_PARTS + BESIDE_EXPERTS for layer in layers}
    theirs.update(name for name in weights if c['kv_rank'] and name.split('.')[0] in LATENT_PARTS)
    if 'shapes' in facts.row:  # what is in a layer's own place there
        theirs -= {name for name in weights if name.startswith('sinks') or c['experts_beside'] and name.startswith(
            'shared_w')}
    theirs.update(name for name in weights if 'states' in facts.row and name.split('.')[0] in family_states.OWN)
    shaped = family_shapes.shaped_tensors(c, weights, theirs) if 'shapes' in facts.row else {}
    if shaped:
        theirs.update(name for name in weights if name.split('.')[0] in {**family_shapes.NAMES, **family_shapes.ONCE})
    stepped = facts.name in family_steps.FAMILIES
    out = family_steps.tensors(facts, c, weights, theirs) if stepped else hf_tensors(
        c, {name: values for name, values in weights.items() if name not in theirs}, facts.adds_one)
    out.update(shaped)
    for layer in range(c['n_layers'] if c['kv_rank'] else 0):
        out.update(latent_tensors(c, weights, layer))
    for layer in layers:
        out.update(row_experts(facts, c, weights, layer) if facts.experts == 'row' else
                   expert_tensors(c, weights, layer, facts.experts))
    if facts.name in family_steps.FAMILIES:
        return out
    if 'states' in facts.row:
        family_states.add_states(facts, c, weights, out)
    fused = facts.row.get('names', {}).get('fused') if facts.fused is None else facts.fused
    for layer in range(c['n_layers'] if fused else 0):
        for whole, parts in (('self_attn.qkv_proj', 'qkv'), ('mlp.gate_up_proj', ('gate', 'up'))):
            place = 'model.layers.%d.%s.' % (layer, whole.split('.')[0])
            pieces = [out.pop('%s%s_proj.weight' % (place, part)) for part in parts]
            out['model.layers.%d.%s.weight' % (layer, whole)] = (
                [sum(shape[0] for shape, _ in pieces), pieces[0][0][1]], [x for _, values in pieces for x in values])
    return out


def latent_rows(c, part, values):
    """Queries with their rotated part last, keys transposed head by head."""
    n, d, turns, rank = c['n_heads'], c['head_dim'], c['rotary_dim'], c['kv_rank']
    if part == 'wq':
        rows = cut(values, c['q_rank'] or c['dim'])
        return [x for h in range(n) for row in rows[h * d + turns:h * d + d] + rows[h * d:h * d + turns] for x in row]
    rows, still = cut(values, rank), d - turns
    return [x for h in range(n) for column in zip(*rows[h * still:h * still + still]) for x in column] \
        if part == 'wk' else values


BLOCK = {'wg': 'attn_gate', 'attention_after': 'post_attention_norm', 'ffn_after': 'post_ffw_norm',
         'q_norm': 'attn_q_norm', 'k_norm': 'attn_k_norm', 'sinks': 'attn_sinks', 'router': 'ffn_gate_inp',
         'shared_w1': 'ffn_gate_shexp', 'shared_w3': 'ffn_up_shexp', 'shared_w2': 'ffn_down_shexp', 'wq_a': 'attn_q_a',
         'q_a_norm': 'attn_q_a_norm', 'wkv_a': 'attn_kv_a_mqa', 'kv_a_norm': 'attn_kv_a_norm'}
OF_EXPERTS = {'1': 'ffn_gate_exps', '3': 'ffn_up_exps', '2': 'ffn_down_exps'}


def gguf_tensors(facts, c, weights):
    """{name: values} as llama.cpp's converter writes them."""
    shaped = family_shapes.gguf_shaped(facts.gguf, c, weights) if 'shapes' in facts.row else {}
    out, d, turning = dict(shaped), c['head_dim'], c['rotary_dim'] or c['head_dim']
    experts = set(with_experts(c)) if c['n_experts'] else set()
    for name, values in weights.items():
        part, _, layer = name.partition('.')
        rows = list(values)
        if c['state_kind'] and part in family_states.of_gguf(c):
            continue
        if shaped and (part in {**family_shapes.GGUF, **family_shapes.GGUF_OF.get(facts.gguf, {})} or
                       part in family_shapes.GGUF_ONCE):
            continue
        if c['kv_rank'] and part in ('wq', 'wk', 'wv'):
            out['blk.%s.%s.weight' % (layer, 'attn_q' if part == 'wq' and not c['q_rank'] else {
                'wq': 'attn_q_b', 'wk': 'attn_k_b', 'wv': 'attn_v_b'}[part])] = latent_rows(c, part, rows)
            continue
        if part in ('wq', 'wk', 'bq', 'bk', 'q_norm', 'k_norm') and not facts.adjacent:
            columns = c['dim'] if part[0] == 'w' else 1
            rows = [x for row in in_halves([rows[i:i + columns] for i in range(0, len(rows), columns)], d, turning)
                    for x in row]
        if part == 'q_norm' and c['score_scale'] and facts.name == 'gemma3_text':
            rows = [x * c['score_scale'] * d ** 0.5 for x in rows]
        stem, kind = BLOCK.get(part), 'weight'
        if part in ('w1', 'w2', 'w3', 'b1', 'b2', 'b3') and int(layer) in experts:
            stem, kind = OF_EXPERTS[part[1]], 'bias' if part[0] == 'b' else 'weight'
        elif part == 'router_bias':
            stem, kind = 'ffn_gate_inp', 'bias'
        elif part in ('bq', 'bk', 'bv', 'bo'):
            stem, kind = 'attn_' + {'o': 'output'}.get(part[1], part[1]), 'bias'
        elif part == 'router_choice_bias':
            stem, kind = 'exp_probs_b', 'bias'
        elif part == 'ffn_norm' and facts.name in ('gpt_oss', 'glm4_moe', 'seed_oss'):
            stem = 'post_attention_norm'
        elif part in ('b1', 'b2', 'b3'):
            stem, kind = {'1': 'ffn_gate', '2': 'ffn_down', '3': 'ffn_up'}[part[1]], 'bias'
        elif part == 'xielu':  # which keys say
            continue
        stem = stem or source_writers.GGUF[part]
        out[('blk.%s.' % layer if layer else '') + '%s.%s' % (stem, kind)] = rows
    for layer in range(c['n_layers'] if facts.gguf in ('phi3', 'glm4') else 0):
        place = 'blk.%d.' % layer
        if facts.gguf == 'phi3':
            out[place + 'attn_qkv.weight'] = sum((out.pop('%sattn_%s.weight' % (place, part)) for part in 'qkv'), [])
        out[place + 'ffn_up.weight'] = out.pop(place + 'ffn_gate.weight') + out.pop(place + 'ffn_up.weight')
    if c['state_kind']:
        out.update(family_states.gguf_states(facts, c, weights, in_halves))
    for layer in range(c['n_layers'] if facts.gguf == 'muse-glimmer' else 0):
        factor = (c['score_scale'] or d ** -0.5) * d ** 0.5
        out.update({'blk.%d.attn_q_norm.weight' % layer: [factor] * d, 'blk.%d.attn_k_norm.weight' % layer: [1.0] * d})
    if c['rope_method'] == 5:
        out['rope_freqs.weight'] = family_steps.divisors(c, turning)
    for name in ('short', 'long') if 'short_factors' in c else ():
        out['rope_factors_%s.weight' % name] = c[name + '_factors']
    return out


# ---- the comparisons, which name faults ----

class Wrong(Exception):
    """A fault found by a comparison."""


def hold(fine, what, detail=''):
    if not fine:
        raise Wrong('%s: %s' % (what, ' '.join(str(detail).split())[:300]))


def carried(what, source, out):
    done = export(source, out)
    hold(done.returncode == 0, what, done.stderr)


def fields_read(folder):
    """The exporter's fields for a folder's config.json."""
    return vars(read_config(export_common.Job(), folder).model)


def same_values(found, expected, what):
    hold(sorted(found) == sorted(expected), what + ': names of tensors', sorted(set(found) ^ set(expected)))
    wrong = [name for name in expected if found[name] != struct.pack('<%df' % len(expected[name]), *expected[name])]
    hold(not wrong, what + ': tensors', wrong[:4])


def through_folders(case, weights):
    """Folder, model.bin, folder, model.bin."""
    name, facts, c = case.name, case.facts, case.c
    tensors = folder_tensors(facts, c, weights)
    folder = write_folder(in_work('in'), case.settings, tensors)
    model, out, again = in_work('once.bin'), in_work('out'), in_work('twice.bin')
    carried('into model.bin', folder, model)
    found, own = read_model(model)
    expected = dict(c, embedding_scale=as_float32(c['embedding_scale']))
    wrong = {key: (found.get(key), value) for key, value in expected.items() if found.get(key) != value}
    hold(not wrong, 'the header, found and expected', wrong)
    for key in weights:
        same = own[key] == weights[key]
        if facts.adds_one and 'norm' in key:  # w + 1 is rounded
            same = all(abs(x - y) < 1e-6 for x, y in zip(own[key], weights[key]))
        hold(same, 'each weight in its place', key)
    carried('out to a folder', model, out + '/')
    family = next((other for other in RUN if FACTS[other].can_be(case.all_features)), None)
    said = json.loads(read(os.path.join(out, 'config.json')).decode())
    names = said['model_type'], said['architectures']
    hold(names == (family, [FACTS[family].architecture]), 'the family that goes out', (names, family))
    back = {key: data for key, (_, _, data) in read_safetensors(os.path.join(out, 'model.safetensors')).items()}
    same_values(back, {key: values for key, (_, values) in folder_tensors(FACTS[family], c, own).items()},
                'out to a folder')
    for key in ('hidden_act', 'hidden_activation'):
        wanted = {FACTS[family].activation: 'gelu_pytorch_tanh'} if c['activation'] == 1 else (
            ROWS[family].get('activation', {'hidden_act': 'silu'}))
        hold(said.get(key) == wanted.get(key), key, said.get(key))
    before, after = fields_read(folder), fields_read(out)
    hold(before == after, 'what both configs mean', {key: (before[key], after[key]) for key in before
                                                     if before[key] != after[key]})
    carried('into model.bin again', out, again)
    hold(read(again) == read(model), 'the same bytes again')
    return model, folder, out


# Architectures that llama.cpp loads only with heads that are as wide together as the model.
SQUARE = {'qwen2', 'phi3', 'olmo2', 'exaone4', 'cohere2'}


def goes_as(case):
    """The family by whose architecture GGUF says these features: the first that it can be, but for those that llama.cpp
    would not load, if there is another. None where no architecture has keys for them."""
    found, c, can_be = case.all_features, case.c, []
    for name in RUN:
        facts = FACTS[name]
        own = facts.gguf and facts.can_be(found) and not facts.unsaid & found and facts.needs <= found
        if name == 'llama' and found <= {'all_biases', 'o_bias', 'ffn_bias', 'window'} or own:
            can_be.append(facts)
    loads = [facts for facts in can_be if facts.gguf not in SQUARE or c['n_heads'] * c['head_dim'] == c['dim']]
    first = (loads or can_be or [None])[0]
    no_turns = found & {'without_rope'} and not any(case.slides) and case.facts.rule == 'periodic'
    still = all(flags & WITHOUT_ROPE for flags in c.get('layers') or [0])
    no_turns = no_turns or first and still and first.gguf != 'granite'
    no_turns = no_turns or first and first.gguf == 'llama4' and not family_steps.is_published(c)
    no_turns = no_turns or first and first.gguf == 'mimo2' and c['sliding_rotary_dim']  # of which as much turns there
    return None if no_turns or first and first.one_theta and case.other_theta() else first


def through_gguf(case, model):
    """The model that came back from GGUF; None where GGUF cannot say it, and that is said by name."""
    facts, found, c, as_what = case.facts, case.all_features, case.c, goes_as(case)
    out, again = in_work('out.gguf'), in_work('back.bin')
    for path in out, again:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    if not as_what:
        done = export(model, out)
        names = [Feature[feature.upper()].value for feature in facts.unsaid & found]
        hold(done.returncode == 2 and done.stderr.count('\n') == 1 and not os.path.exists(out), 'GGUF cannot say it',
             done.stderr)
        hold(all(name in done.stderr for name in names), 'what GGUF cannot say is named', (names, done.stderr))
        return None
    carried('out to GGUF', model, out)
    settings, tensors = read_gguf(out)
    architecture = settings['general.architecture'].decode()
    hold(architecture == as_what.gguf, "GGUF's architecture", architecture)
    expected = gguf_tensors(as_what, c, read_model(model)[1])
    hold(sorted(tensors) == sorted(expected), "GGUF's names", sorted(set(tensors) ^ set(expected)))
    for name, values in expected.items():
        there = struct.unpack_from('<%df' % len(values), tensors[name][2])
        hold(all(abs(x - y) <= 1e-6 * abs(y) for x, y in zip(there, values)), "GGUF's tensors", name)
    theta = settings.get(architecture + '.rope.freq_base_swa')
    hold(architecture != 'gemma3' or 'two_ropes' not in found or theta == case.local, "GGUF's theta of sliding layers",
         settings)
    scales = {key: (settings.get('%s.%s' % (architecture, key)), value)
              for key, value in {**family_steps.scales_of(as_what.gguf, c),
                                 **family_shapes.gguf_keys(as_what.gguf, c)}.items()}
    hold(all(alike(there or 0, value) for there, value in scales.values()), 'keys in GGUF', scales)
    carried('into model.bin from GGUF', out, again)
    as_it_was(read_model(again), read_model(model))
    return again


def as_it_was(found, expected):
    """The same model, with settings in float32. The factor of scores may be in the norm of queries instead, and a
    method's attention factor may be explicit, though it follows from the method."""
    (c, weights), (before, own) = found, expected
    weights, own = family_states.side_by_side(c, weights), family_states.side_by_side(before, own)
    scale = (before['score_scale'] or before['head_dim'] ** -0.5) * before['head_dim'] ** 0.5
    scale = 1 if alike(c['score_scale'], before['score_scale']) else scale
    usual = {'beta_fast': 32.0, 'beta_slow': 1.0, 'sliding_beta_fast': 32.0, 'sliding_beta_slow': 1.0}
    wrong = {key: (c.get(key), value) for key, value in before.items()
             if key not in ('score_scale', 'attention_factor', 'version', 'latent_norm_eps', 'state_tiled')
             and not alike(c.get(key) or usual.get(key, 0), value or usual.get(key, 0))}
    hold(not wrong, 'fields, through GGUF', wrong)
    wrong = [key for key, values in own.items() if not alike(
        list(weights.get(key, ())), [x * scale for x in values] if key.startswith('q_norm') else list(values))]
    hold(not wrong, 'weights, through GGUF', wrong[:4])


def alike(a, b):
    """Whether numbers, or all in two lists, are the same in float32."""
    if isinstance(b, (list, tuple)):
        return isinstance(a, (list, tuple)) and len(a) == len(b) and all(map(alike, a, b))
    return a == b or isinstance(a, (int, float)) and abs(a - b) <= 1e-6 * abs(b)


def logits(what, model, expected, tolerance=1e-4):
    """Both engines and reference.py."""
    ids = random_ids(20, 40, 3)
    said = kept.nll(*read_model(model), ids)
    for engine in ENGINES:
        close(perplexity(model, ids, *engine), said, 1e-4, '%s: %s' % (what, engine[0]))
    if expected:
        close(said, expected, tolerance, what + ': as before')
    return said


def shows(name, folder, out):
    """The program shows both configs alike, and tells of engines."""
    rows, kinds = [], []
    for place in folder, out:
        path = os.path.join(place, 'config.json')
        rows.append(table(good('--explain', '--tsv', '--rope-config', path, '-n', 64).out)[1:])
        kinds.append(json.loads(read(path).decode())['model_type'])
        # 1: some read it otherwise; 3: none was looked at.
        engines = run('--engines', '--tsv', '--rope-config', path, '-n', 64)
        told = len(engines.out.splitlines()) > 5 or 'no RoPE: queries and keys do not rotate' in engines.out
        check(engines.status in (0, 1, 3) and told, name + ': engines', engines)
    # A model that does not turn may go out as one of a family that shows angles, which its layers do not use.
    still = kinds[0] != kinds[1] and not rows[0][1]
    check(still or rows[0] == rows[1], name + ': both configs are shown alike', rows)


def noticed(name, cases):
    """The faults that the comparisons find with a family, or ''."""
    try:
        by_silence(name)
        for seed, case in enumerate(cases):
            model, *_ = through_folders(case, random_weights(case.c, seed))
            through_gguf(case, model)
    except Wrong as wrong:
        return str(wrong)
    except export_common.Problem as problem:
        return 'the exporter: %s' % problem
    return ''


def doors(name, chosen):
    """Takes these of a family's cases through every door."""
    for seed, case in list(enumerate(cases_of(name)))[chosen]:
        try:
            model, folder, out = through_folders(case, random_weights(case.c, seed))
            back = through_gguf(case, model)
        except Wrong as wrong:
            check(False, case.name, wrong)
            continue
        said = logits(case.name, model, None)
        if back:
            # GGUF has another epsilon for the norms of latent vectors.
            logits(case.name + ', through GGUF', back, said, 2e-3 if case.c['kv_rank'] else 1e-4)
        if not ROWS[name].get('own'):
            shows(case.name, folder, out)


def test_all_that_goes_together():
    for name in RUN:
        doors(name, slice(-1, None))


@takes_long
def test_each_feature():
    for name in RUN:
        doors(name, slice(None, -1))


def test_largest():
    """Of 46 layers llama.cpp takes the scale of scores for that of Gemma 2's largest model, by the width of the model
    and its heads; no key says another one."""
    base, root = cases_of('gemma2')[-1], (16 / 4) ** -0.5
    for n, scale, fine in (46, root, True), (46, 0.0, False), (4, root, False), (4, 0.0, True):
        c = config(**dict(base.fields, n_layers=n, layers=base.c['layers'][:2] * (n // 2), score_scale=scale,
                          shared_classifier=1))
        weights = random_weights(c, n)
        write_model(in_work('largest.bin'), c, weights)
        done = export(in_work('largest.bin'), in_work('largest.gguf'))
        what = 'Gemma 2 of %d layers with scores by %g' % (n, scale or 8 ** -0.5)
        if not fine:
            check(done.returncode == 2 and 'score scale' in done.stderr, what + ' cannot be said', done)
        elif check(done.returncode == 0, what, done.stderr):
            carried('in again', in_work('largest.gguf'), in_work('again.bin'))
            check(abs(read_model(in_work('again.bin'))[0]['score_scale'] - scale) < 1e-7, what + ', again')


# ---- defaults ----

# What a class takes where its config.json is silent, of 8 layers, a width of 64 and 32 heads: the context, key heads,
# the width of a head, theta, the norms' epsilon, BOS, EOS; then what else is not 0.
IN_FOURS, IN_SIXES, IN_TWOS = [4, 4, 4, 1] * 2, [4, 4, 4, 4, 4, 1, 4, 4], [4, 1] * 4
DELTA = dict(
    norms_lack_one=True, qk_norm=1, attention_gate=1, rotary_dim=64, state_kind=1, conv_width=4, state_key_heads=16,
    state_value_heads=32, state_key_dim=128, state_value_dim=128, layers=[64, 64, 64, 0] * 2)
BY_SIGMOIDS = dict(router=2, router_choice_bias=1, router_renormalizes=1)
SILENT = {
    'llama': (2048, 32, 2, 1e4, 1e-6, 1, [2], {}),
    'mistral': (131072, 8, 2, 1e4, 1e-6, 1, [2], dict(sliding_window=4096)),
    'qwen2': (32768, 32, 2, 1e4, 1e-6, -1, [], dict(qkv_bias=1)),
    'qwen3': (32768, 32, 128, 1e4, 1e-6, -1, [], dict(qk_norm=1)),
    'phi3': (4096, 32, 2, 1e4, 1e-5, 1, [32000], {}),
    'smollm3': (32768, 4, 2, 2e6, 1e-6, 128000, [128001], dict(layers=[0, 0, 0, 2] * 2, tied=True)),
    'gemma': (8192, 16, 256, 1e4, 1e-6, 2, [1], dict(
        activation=1, tied=True, embedding_scale=8.0, norms_lack_one=True)),
    'gemma3_text': (131072, 4, 256, 1e6, 1e-6, 2, [1], dict(
        sliding_window=4096, layers=IN_SIXES, sliding_theta=1e4, norm_place=2, qk_norm=1, activation=1, tied=True,
        embedding_scale=8.0, norms_lack_one=True)),
    'olmo2': (2048, 32, 2, 1e4, 1e-5, -1, [50279], dict(qk_norm=2, norm_place=1)),
    'olmo3': (2048, 32, 2, 5e5, 1e-5, -1, [50279], dict(
        sliding_window=4096, layers=IN_FOURS, sliding_theta=5e5, qk_norm=2, norm_place=1)),
    'ministral3': (262144, 8, 128, 1e6, 1e-5, 1, [2], dict(
        rope_method=4, factor=16.0, train_ctx=16384, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
        temperature_beta=0.1)),
    'exaone4': (2048, 32, 2, 1e4, 1e-5, 0, [2], dict(
        sliding_window=4096, layers=[4, 4, 4, 3] * 2, sliding_theta=1e4, qk_norm=1, norm_place=1)),
    'mixtral': (131072, 8, 2, 1e6, 1e-5, 1, [2], dict(n_experts=8, n_experts_used=2, expert_hidden_dim=16)),
    'qwen3_moe': (32768, 4, 2, 1e4, 1e-6, -1, [], dict(
        qk_norm=1, n_experts=128, n_experts_used=8, expert_hidden_dim=768, router=1)),
    'gpt_oss': (131072, 8, 64, 15e4, 1e-5, -1, [], dict(
        sliding_window=128, layers=IN_TWOS, sliding_theta=15e4, rope_method=4, factor=32.0, train_ctx=4096,
        beta_fast=32.0, beta_slow=1.0, truncate=0, qkv_bias=1, o_bias=1, n_experts=128, n_experts_used=4,
        expert_hidden_dim=16, activation=2, router_bias=1, expert_bias=1, attention_sinks=1)),
    'glm4_moe': (131072, 8, 16, 1e4, 1e-5, -1, [], dict(
        BY_SIGMOIDS, rotary_dim=8, layers=[DENSE] + [0] * 7, n_experts=128, n_experts_used=8, expert_hidden_dim=1408,
        shared_hidden_dim=1408)),
    'minimax_m2': (196608, 8, 128, 5e6, 1e-6, 200034, [200020], dict(
        BY_SIGMOIDS, qk_norm=2, n_experts=256, n_experts_used=8, expert_hidden_dim=16)),
    'flex_olmo': (4096, 32, 2, 5e5, 1e-6, -1, [100257], dict(
        qk_norm=2, norm_place=1, n_experts=7, n_experts_used=5, expert_hidden_dim=16, router=1)),
    'exaone_moe': (2048, 32, 2, 1e4, 1e-5, 1, [53], dict(
        BY_SIGMOIDS, sliding_window=4096, layers=[4 + DENSE, 4, 4, 3, 4, 4, 4, 3], sliding_theta=1e4, qk_norm=1,
        n_experts=64, n_experts_used=8, expert_hidden_dim=1024, shared_hidden_dim=1024, router_scale=2.5)),
    'glm4_moe_lite': (202752, 32, 192 + 64, 1e4, 1e-5, 0, [1], dict(
        BY_SIGMOIDS, rotary_dim=64, q_rank=768, kv_rank=512, latent_norm_eps=1e-6, layers=[DENSE] + [0] * 7,
        n_experts=64, n_experts_used=4, expert_hidden_dim=1536, shared_hidden_dim=1536, router_scale=1.8)),
    'deepseek_v2': (2048, 32, 128 + 64, 1e4, 1e-6, 1, [2], dict(
        rotary_dim=64, value_dim=128, q_rank=1536, kv_rank=512, latent_norm_eps=1e-6, n_experts=64, n_experts_used=6,
        expert_hidden_dim=1407, shared_hidden_dim=2 * 1407, router=1)),
    'deepseek_v3': (4096, 32, 128 + 64, 1e4, 1e-6, 0, [1], dict(
        BY_SIGMOIDS, rotary_dim=64, value_dim=128, q_rank=1536, kv_rank=512, latent_norm_eps=1e-6,
        layers=[DENSE] * 3 + [0] * 5, n_experts=256, n_experts_used=8, expert_hidden_dim=2048, shared_hidden_dim=2048,
        router_groups=8, router_groups_used=4, router_group_best=2, router_scale=2.5)),
    'mistral4': (1048576, 32, 64 + 64, 1e4, 1e-6, 1, [2], dict(
        rope_method=4, factor=128.0, train_ctx=8192, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
        mscale_in_scores=1, temperature_beta=0.1, rotary_dim=64, q_rank=1024, kv_rank=256, latent_norm_eps=1e-6,
        n_experts=128, n_experts_used=4, expert_hidden_dim=2048, shared_hidden_dim=2048)),
    'qwen3_5_text': (32768, 4, 256, 1e4, 1e-6, -1, [], DELTA),
    'qwen3_next': (32768, 2, 256, 1e4, 1e-6, -1, [], dict(
        DELTA, n_experts=512, n_experts_used=10, expert_hidden_dim=512, shared_hidden_dim=512, shared_gate=1)),
    'qwen3_5_moe_text': (32768, 2, 256, 1e4, 1e-6, -1, [], dict(
        DELTA, n_experts=256, n_experts_used=8, expert_hidden_dim=512, shared_hidden_dim=512, shared_gate=1)),
    'lfm2': (128000, 8, 2, 1e6, 1e-5, 1, [2], dict(qk_norm=1, tied=True, hidden_dim=256)),
    **family_silent.SILENT}
# Fields without a default.
ASKED = {**family_silent.ASKED, 'glm4_moe': dict(head_dim=16), 'deepseek_v2': dict(num_experts_per_tok=6)}
# And where it says that some of its 32 layers slide, and not which.
WINDOWS = {'qwen2': dict(sliding_window=4096, layers=[SEES_ALL] * 28 + [0] * 4),
           'qwen3': dict(sliding_window=4096, layers=[SEES_ALL] * 28 + [0] * 4),
           'qwen3_moe': dict(sliding_window=4096, layers=[]),
           'smollm3': dict(sliding_window=0, layers=[0, 0, 0, 2] * 8)}


YARN_OF_MISTRAL4 = dict(rope_type='yarn', rope_theta=1e4, factor=32.0, original_max_position_embeddings=64, beta_fast=32.0,
                        beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)
TWO_BLOCKS = {'full_attention': {'rope_type': 'default', 'rope_theta': 5e5, 'partial_rotary_factor': 0.5},
              'sliding_attention': {'rope_type': 'default', 'rope_theta': 1e4, 'partial_rotary_factor': 1.0}}


def silent_error(name, **more):
    """Why the exporter refuses it, after the path."""
    try:
        silent_config(name, **more)
    except export_common.Problem as problem:
        return str(problem).split(': ', 1)[1]
    return ''


def silent_config(name, num_hidden_layers=8, **more):
    folder = in_work('silent')
    os.makedirs(folder, exist_ok=True)
    write(os.path.join(folder, 'config.json'), json.dumps(dict(
        model_type=name, hidden_size=64, num_attention_heads=32, num_hidden_layers=num_hidden_layers,
        intermediate_size=16, vocab_size=300000, **{**ASKED.get(name, {}), **more})))
    return fields_read(folder)


def by_silence(name):
    if name not in SILENT:
        return
    context, n_kv_heads, head_dim, theta, eps, bos_id, eos_ids, more = SILENT[name]
    expected = dict(
        dim=64, hidden_dim=16, n_layers=8, n_heads=32, vocab_size=300000, seq_len=context, train_ctx=context,
        n_kv_heads=n_kv_heads, head_dim=head_dim, theta=theta, norm_eps=eps, bos_id=bos_id, eos_ids=eos_ids, truncate=1)
    expected.update(more)
    if 'sliding_theta' in more:
        expected.update(sliding_rope=1, sliding_train_ctx=expected['train_ctx'], sliding_truncate=expected['truncate'])
    if name == 'gpt_oss':  # whose sliding layers turn as the full ones do
        expected.update({sliding_name(field): expected.get(field, 0) for field in FULL_FIELDS})
    found = silent_config(name)
    wrong = {key: (value, expected.get(key, 0)) for key, value in found.items()
             if value != expected.get(key, 0) and (value or expected.get(key))}
    hold(not wrong, 'a silent config, found and expected', wrong)
    if name in WINDOWS:
        found = silent_config(name, use_sliding_window=True, num_hidden_layers=32)
        own = {key: found[key] for key in ('sliding_window', 'layers')}
        hold(own == WINDOWS[name], 'layers that slide by default', own)


def test_defaults():
    for name in RUN:
        try:
            by_silence(name)
            check(True, name)
        except Wrong as wrong:
            check(False, name, wrong)


# What newer releases of the library write when they save a model again, beside what it was published with: the reviewed
# ones were refused by one reader or the other.
SAVED_AGAIN = [
    ('granitemoehybrid', dict(layer_types=['attention'] * 8), dict(layer_types=['full_attention'] * 8)),
    ('minimax_m2', dict(rotary_dim=64, rope_theta=5e6, head_dim=128), dict(rotary_dim=64, head_dim=128, rope_parameters={
        'rope_type': 'default', 'rope_theta': 5e6, 'partial_rotary_factor': 0.5})),
    ('mistral4', dict(rope_parameters=YARN_OF_MISTRAL4),
     dict(rope_parameters=dict(YARN_OF_MISTRAL4, partial_rotary_factor=0.5))),
    ('gemma4_text', dict(architectures=['Gemma4ForCausalLM']), dict(architectures=['Gemma4UnifiedForCausalLM'])),
    ('qwen3_5_text', {}, dict(architectures=['Qwen3_5ForCausalLM'])),
    ('qwen3_5_moe_text', {}, dict(architectures=['Qwen3_5MoeForCausalLM'])),
    ('kimi_k2', {}, dict(architectures=['DeepseekV3ForCausalLM'])),
    ('laguna', dict(rope_parameters=TWO_BLOCKS), dict(rope_parameters=dict(TWO_BLOCKS, rope_type='default')))]


def test_saved_again():
    """Both readers take both forms for the same."""
    for name, *forms in SAVED_AGAIN:
        found = [silent_config(name, **form) for form in forms]
        check(found[0] == found[1], '%s, saved again: the exporter' % name,
              {key: (found[0][key], found[1][key]) for key in found[0] if found[0][key] != found[1][key]})
        shown = []
        for form in forms:
            silent_config(name, **form)
            shown.append(run('--explain', '--rope-config', os.path.join(in_work('silent'), 'config.json'), '-n', 1000))
        check(shown[0].status == 0 and shown[0].out == shown[1].out, '%s, saved again: --explain' % name, shown[1].err)
    for one, other in (('Gemma4ForCausalLM', 'Gemma4UnifiedForCausalLM'),):  # a config that has no other name
        texts = []
        for architecture in one, other:
            silent_config('gemma4_text', architectures=[architecture])
            path = os.path.join(in_work('silent'), 'config.json')
            values = json.loads(read(path))
            values.pop('model_type')
            write(path, json.dumps(values))
            texts.append((str(fields_read(in_work('silent'))), run('--explain', '--rope-config', path, '-n', 1000).out))
        check(texts[0] == texts[1] and texts[0][1], other + ' by its architecture alone')


# ---- rows with an error ----

@contextlib.contextmanager
def other_rows(rows):
    """The exporter goes by these rows."""
    tables = families.FAMILIES, families.WRAPPERS, families.ARCHITECTURES
    before = [dict(table) for table in tables]
    path = write(in_work('families.json'), json.dumps(rows))
    found, wrappers, architectures = families.read_families(path), {}, {}
    for family in found.values():
        for wrapper, architecture in family.wrapped_in.items():
            wrappers.setdefault(wrapper, (architecture, []))[1].append(family)
        if family.gguf:
            architectures.setdefault(family.gguf.architecture, []).append(family)
    try:
        for its, new in zip(tables, (found, wrappers, architectures)):
            its.clear()
            its.update(new)
        yield
    finally:
        for its, old in zip(tables, before):
            its.clear()
            its.update(old)


GONE = object()
Q, K, V = 'wq', 'wk', 'wv'
PLANTS = [  # family, place in its row, the value there instead
    ('qwen3_5_text', 'adds_one', False), ('qwen3_5_text', 'names.gate_in_queries', GONE),
    ('qwen3_5_text', 'always', ['head_norms', 'delta_rule']), ('qwen3_next', 'states.joined', GONE),
    ('qwen3_5_text', 'gguf.tiled', GONE), ('qwen3_5_text', 'gguf.names', GONE), ('lfm2', 'gguf.names', GONE),
    ('qwen3_next', 'gguf.architecture', 'qwen35moe'), ('qwen3_5_text', 'defaults.linear_num_value_heads', 16),
    ('qwen3_5_moe_text', 'defaults.full_attention_interval', 2),
    ('lfm2', 'keys.said_by.norm_eps', GONE), ('lfm2', 'states.words', ['short_conv']),
    ('lfm2', 'names.own.wo', 'model.layers.%d.self_attn.o_proj.weight'),
    ('qwen2', 'always', []), ('qwen3', 'always', []), ('olmo2', 'always', ['whole_norms']),
    ('olmo3', 'always', ['norms_after']), ('gemma3_text', 'always', ['norms_both', 'head_norms', 'embedding_scale']),
    ('gpt_oss', 'always', ['experts', 'clamped', 'router_bias', 'expert_bias']),
    ('gpt_oss', 'always', ['experts', 'router_bias', 'expert_bias', 'sinks']),
    ('qwen3', 'may', ['window', 'some_window']), ('mistral', 'sign', []), ('phi3', 'sign', ['longrope']),
    ('gemma3_text', 'adds_one', False), ('exaone4', 'adds_one', True),
    ('gemma3_text', 'scales.scores', GONE), ('gemma3_text', 'activation', GONE),
    ('llama', 'architecture', 'LLaMAForCausalLM'),
    ('mistral', 'defaults.num_key_value_heads', 4), ('smollm3', 'defaults.tie_word_embeddings', False),
    ('gpt_oss', 'defaults.num_experts_per_tok', 2), ('phi3', 'defaults.rms_norm_eps', 1e-6),
    ('qwen2', 'layers.rule', 'all_slide'), ('qwen3', 'layers.rule', 'alike'), ('olmo3', 'layers.rule', 'by_flag'),
    ('mixtral', 'layers.rule', 'alike'), ('exaone4', 'layers.without_rope', GONE),
    ('smollm3', 'layers.without_rope', GONE), ('qwen3_moe', 'layers.rule', 'all_slide'),
    ('phi3', 'rope.partial', GONE),
    ('smollm3', 'keys.attention_bias', 'unread'), ('olmo2', 'keys.attention_bias', GONE),
    ('mixtral', 'names.own.router', 'model.layers.%d.mlp.gate_up.weight'),
    ('gpt_oss', 'names.own.sinks', 'model.layers.%d.self_attn.sink'),
    ('mixtral', 'experts.names', ['w3', 'w1', 'w2']), ('mixtral', 'experts.place', 'mlp'),
    ('qwen3_moe', 'experts.renormalized', GONE), ('qwen3_moe', 'experts.dense', GONE),
    ('gpt_oss', 'experts.layout', 'one_by_one'),
    ('phi3', 'names.fused', {'self_attn.qkv_proj.weight': [Q, V, K], 'mlp.gate_up_proj.weight': ['w1', 'w3']}),
    ('phi3', 'names.fused', {'self_attn.qkv_proj.weight': [Q, K, V], 'mlp.gate_up_proj.weight': ['w3', 'w1']}),
    ('phi3', 'names', GONE),
    ('phi3', 'gguf.names.fused', {'attn_qkv.weight': [K, Q, V], 'ffn_up.weight': ['w1', 'w3']}),
    ('phi3', 'gguf.names', GONE), ('gpt_oss', 'gguf.names', GONE),
    ('llama', 'gguf.adjacent', False), ('qwen3', 'gguf.adjacent', True), ('ministral3', 'gguf.adjacent', False),
    ('qwen2', 'gguf.architecture', 'qwen'), ('qwen3', 'gguf.cannot', ['window', 'some_window']),
    ('qwen3_moe', 'gguf.cannot', ['all_biases', 'shares', 'window']), ('gemma3_text', 'gguf.window', ''),
    ('olmo2', 'gguf.sliding', 'as_file'), ('exaone4', 'gguf.without_rope', GONE),
    ('smollm3', 'gguf.without_rope', GONE),
    ('gemma3_text', 'gguf.largest', GONE), ('gemma3_text', 'gguf.own_theta', 'rope.freq_base_local'),
    ('gpt_oss', 'gguf.truncate', True),
    ('glm4_moe', 'always', ['experts', 'sigmoids']),
    ('glm4_moe', 'keys.says', {'attention_bias': 'qkv_bias'}), ('glm4_moe', 'experts.shared_place', 'shared_expert'),
    ('glm4_moe', 'gguf.names', GONE), ('glm4_moe', 'gguf.needs', []),
    ('minimax_m2', 'experts.names', ['w1', 'w2', 'w3']), ('minimax_m2', 'gguf.architecture', 'minimax'),
    ('flex_olmo', 'keys.attention_bias', 'refused'), ('flex_olmo', 'defaults.norm_topk_prob', True),
    ('exaone_moe', 'layers.without_rope', GONE), ('exaone_moe', 'gguf.without_rope', GONE),
    ('exaone_moe', 'experts.groups', GONE), ('glm4_moe_lite', 'experts.n_dense', 0),
    ('glm4_moe_lite', 'gguf.experts', ''), ('deepseek_v2', 'experts.group_best', 2),
    ('deepseek_v3', 'experts.router', 'softmax'), ('deepseek_v3', 'defaults.first_k_dense_replace', 1),
    ('mistral4', 'experts.layout', 'one_by_one'),
    ('mistral4', 'gguf.architecture', 'mistral3'), ('mistral4', 'gguf.experts', ''),
    ('glm4', 'gguf.names', GONE), ('seed_oss', 'gguf.names', GONE), ('cohere2', 'gguf.eps', GONE),
    ('cohere2', 'gguf.without_rope', GONE), ('arcee', 'gguf.adjacent', False),
    ('granite', 'gguf.scales', {'embedding_factor': 'embedding_scale', 'score_factor': 'attention.scale'})]


def planted(name, where, value):
    rows = copy.deepcopy(ROWS)
    *path, last = where.split('.')
    place = rows[name]
    for key in path:
        place = place[key]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    return rows


@takes_long
def test_planted():
    for name, where, value in PLANTS:
        what = '%s: %s = %s' % (name, where, 'nothing' if value is GONE else json.dumps(value))
        share = [other for other in RUN if other == name or
                 where.startswith('gguf') and FACTS[other].gguf == FACTS[name].gguf]
        with other_rows(planted(name, where, value)):
            found = next(filter(None, (noticed(other, cases_of(other)[::-1]) for other in share)), '')
        check(found, 'noticed: ' + what)
        if os.environ.get('SHOW'):
            print('%s\n    %s' % (what, found))


if __name__ == '__main__':
    main(globals())
