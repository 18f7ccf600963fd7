#!/usr/bin/env python3
"""--rope-json, there and back: for every family, its output is pasted as it says, and read as the same to the last
digit, for any method."""

import json
import os
import re
import sys

from common import ROOT, check, good, in_work, main, run, table, takes_long, write

sys.path.insert(0, ROOT)
from export.families import FAMILIES  # noqa: E402

ORIGINAL = 'original_max_position_embeddings'
LENGTH = {ORIGINAL: 1021}  # numbers that no short decimal stands for
BLOCKS = {
    'plain': {},
    'yarn': {'rope_type': 'yarn', 'factor': 11 / 3, 'beta_fast': 29.3, 'beta_slow': 5 / 3, **LENGTH},
    'linear': {'rope_type': 'linear', 'factor': 10 / 3},
    'dynamic': {'rope_type': 'dynamic', 'factor': 8 / 3},
    'yarn with an attention factor': {'rope_type': 'yarn', 'factor': 3.7, 'attention_factor': 10 / 9, **LENGTH},
    'yarn with a pair': {'rope_type': 'yarn', 'factor': 3.7, 'mscale': 0.707, 'mscale_all_dim': 0.9, **LENGTH},
    'llama3': {'rope_type': 'llama3', 'factor': 22 / 3, 'low_freq_factor': 1.1, 'high_freq_factor': 4.3, **LENGTH},
    'proportional': {'rope_type': 'proportional', 'factor': 3.7, 'partial_rotary_factor': 0.5},
    'longrope': {'rope_type': 'longrope', 'factor': 3.7, **LENGTH},
}
BESIDE = re.compile(r'beside the block: (.*?)(?:;|$)')


def config_of(name, family, block):
    values = {'model_type': name, 'hidden_size': 1024, 'num_attention_heads': 8, 'num_hidden_layers': 8,
              'rope_theta': 12345.678901234}
    values.update({key: theta for key, theta in ((family.rope.theta_keys.get('full'), 23456.789), (
        family.rope.theta_keys.get('sliding'), 9876.5)) if key and not family.rope.lists})
    if family.rope.lists:
        values['rope_theta'] = [12345.678901234, *[9876.5] * 7]
        values['layer_types'] = ['full_attention', *['sliding_attention'] * 7]
    if 'compress_rope_theta' in values:
        values['compress_ratios'] = [0, *[4] * 7]
    if family.rope.only_key not in ('', 'rope_theta'):
        values[family.rope.only_key] = 'rope'
    if family.rope.grows:
        block = {**(block or {'rope_type': 'yarn', 'factor': 16.0}), 'llama_4_scaling_beta': 0.1, **LENGTH}
    if family.rope.one_block == 'refused':
        names = family.rope.blocks
        return {**values, 'rope_parameters': {
            names.get('full', 'full_attention'): {'rope_type': 'default', 'rope_theta': 54321.5, **block},
            names.get('sliding', 'sliding_attention'): {'rope_type': 'default', 'rope_theta': 10000.0}}}
    return {**values, **({'rope_scaling': block} if block else {})}


def explained(values):
    done = run('--explain', '--rope-config', write(in_work('config.json'), json.dumps(values)), '-n', 5000)
    settings, _, rows = table(done.out) if done.status == 0 else ({}, [], [])
    return done, settings, [(row.get('layers'), row['pair'], row['scaled_inv_freq']) for row in rows]


def pasted(values, said):
    """The config with --rope-json's output in the place of its settings, and beside it the keys that it names."""
    lines = said.splitlines()
    block, notes = json.loads(lines[-1]), ' '.join(lines[:-1])
    back = {key: value for key, value in values.items() if key not in (
        'rope_scaling', 'rope_parameters') and 'theta' not in key}
    if 'belong into rope_parameters' in notes:
        return {**back, 'rope_parameters': block}
    for item in BESIDE.search(notes).group(1).split(', '):
        key, _, value = item.partition(' ')
        back.update({key: json.loads(value)} if value else {})
    return {'rope_theta': block['rope_theta'], **back, 'rope_scaling': block}


def hold(name, family, kind):
    block = dict(BLOCKS[kind])
    if kind == 'longrope':
        turns = explained(config_of(name, family, {}))[1]
        pairs = int(turns.get('rotary_dim', turns['head_dim'])) // 2
        block.update(short_factor=[1 + i / 7 for i in range(pairs)], long_factor=[1 + i / 3 for i in range(pairs)])
    values = config_of(name, family, block)
    done, before, rows = explained(values)
    if done.status:  # its class knows no such block
        return 0
    said = run('--rope-json', '--rope-config', in_work('config.json'))
    what = '%s, %s' % (name, kind)
    if not check(said.status == 0, 'written: ' + what, said):
        return 1
    again, after, back = explained(pasted(values, said.out))
    check(again.status == 0 and back == rows and rows, 'frequencies: ' + what, (again.err, said.out))
    # How long texts of sliding layers may be goes by max_position_embeddings, which the block's reach is.
    own = [{key: value for key, value in settings.items() if key not in (
        'train_ctx_sliding', 'unseen_share_sliding')} for settings in (before, after)]
    check(own[0] == own[1], 'settings: ' + what, (own[0].items() ^ own[1].items(), said.out))
    return 1


def hold_all(kinds):
    asked = sum(hold(name, family, kind) for name, family in FAMILIES.items()
                if not (family.own or family.rope.none) for kind in kinds)
    check(asked > 70 * len(kinds), 'families and blocks', asked)


def test_yarn():
    hold_all(['yarn'])


def test_proportional():
    hold_all(['proportional'])


def test_alpha():
    """Hunyuan's ntk at every length is exported as in its class, with the values that other engines take for no
    scaling."""
    block = {'type': 'dynamic', 'alpha': 1000.0, 'factor': 1.0}
    write(in_work('config.json'), json.dumps({**config_of('hunyuan_v1_dense', FAMILIES['hunyuan_v1_dense'], block)}))
    said = run('--rope-json=hunyuan_v1_dense', '--rope-config', in_work('config.json'))
    found = json.loads(said.out or '{}')
    check(found.get('rope_scaling') == block and found.get('rope_theta') == 12345.678901234, 'alpha', said)
    said = run('--rope-json=llama', '--rope-config', in_work('config.json'))
    found = json.loads(said.out or '{}')
    check(found.get('rope_scaling', 0) is None and found['rope_theta'] > 12345678, 'alpha as a theta', said)


@takes_long
def test_all():
    hold_all(list(BLOCKS))


def test_llama_cpp_options():
    """Every option has an effect, and the server's further needs are named."""
    for options, words in ((('linear', '--factor', 4), 'ARCHITECTURE.context_length=int:2048\n'),
                           (('yarn', '--factor', 4, '--attention-factor', 1), 'the attention factor 1: these give 1.1386'),
                           (('yarn', '--factor', 4), '')):
        shown = good('model.bin', '--rope-json', '--rope', *options)
        check(words in shown.out and '--yarn-attn-factor' not in shown.out, 'rope %s' % (options,), shown.out)
        check(bool(words) == ('no option' in shown.out or 'context_length' in shown.out), 'and no more', shown.out)


def test_full_layers_at_rest():
    """Where full layers do not turn, a config's one block is of the sliding ones. So a method for the full ones, which has
    no effect, is not printed, and one for the sliding ones is."""
    asked = 0
    for name, family in FAMILIES.items():
        if not family.layers.without_rope.startswith('full') or family.rope.by_kind or family.rope.none:
            continue
        asked += 1
        values = config_of(name, family, BLOCKS['linear'])
        rows = explained(values)[2]
        path = in_work('config.json')
        for options, expected in ((), 'linear'), (('--rope', 'yarn', '--factor', 4), 'linear'), (
                ('--rope-sliding', 'yarn:factor=4'), 'yarn'):
            said = run('--rope-json', *options, '--rope-config', path)
            block = json.loads(said.out.splitlines()[-1])
            check(block['rope_type'] == expected and 'of the sliding layers' in said.out, name, (options, said))
            check('rope yarn: no effect' in said.err or '--rope' not in options, 'and said: ' + name, said.err)
            back = explained(pasted(values, said.out))[2]
            check((back == rows) == (expected == 'linear') and back, 'read back: ' + name, (options, back[-1:], rows[-1:]))
            write(path, json.dumps(values))
    check(asked > 4, 'families whose full layers do not turn', asked)


def test_sections():
    """A block for a model that sees pictures keeps the sections of its axes."""
    for name, sections in ('qwen2.5-vl-7b', '[16, 24, 24]'), ('qwen3-vl-8b', '[24, 20, 20], "mrope_interleaved": true'):
        path = os.path.join(ROOT, 'tests/configs/explained', name + '.json')
        shown = good('--rope-config', path, '--rope-json', '--rope', 'yarn', '--factor', 4)
        check('"mrope_section": ' + sections + '}' in shown.out, name, shown.out)


def served_and_reach(config, *options):
    """The context_length that --rope-json tells llama-server to take, or None, and how far --check says that the settings
    reach."""
    path = write(in_work('served.json'), json.dumps(config))
    line = re.search(r'context_length=int:(\d+)', good('--rope-json', *options, '--rope-config', path).out)
    checked = run('--check', '--settings', *options, '--rope-config', path, '-n', 1000)
    return line and int(line[1]), float(next(row['value'] for row in table(checked.out)[2] if row['check'] == 'reach'))


def test_factor_that_is_counted():
    """Gemma 3's max_position_embeddings is the reach of its factor; the factor multiplies others', unless an original
    length is named."""
    linear = {'rope_type': 'linear', 'factor': 8.0}
    gemma = {'model_type': 'gemma3_text', 'max_position_embeddings': 131072, 'rope_scaling': linear}
    llama = {**gemma, 'model_type': 'llama', 'hidden_size': 512, 'num_attention_heads': 8}
    wrapped = {'model_type': 'gemma3', 'text_config': gemma}
    named = dict(llama, rope_scaling=dict(linear, **{ORIGINAL: 16384}))
    by_kind = dict(gemma, rope_scaling=None, rope_parameters={
        'full_attention': dict(linear, rope_theta=1e6), 'sliding_attention': {'rope_type': 'default', 'rope_theta': 1e4}})
    for what, config, options, expected in (
            ('Gemma 3', gemma, (), (None, 131072)), ('Gemma 3 inside', wrapped, (), (None, 131072)),
            ('Gemma 3 by kinds', by_kind, (), (None, 131072)), ('a Llama', llama, (), (1048576, 1048576)),
            ('a Llama with an original length', named, (), (None, 131072)),
            ('Gemma 3, twice as far', gemma, ('--rope', 'linear', '--factor', 16), (262144, 262144))):
        found = served_and_reach(config, *options)
        check(found == expected, what, found)


if __name__ == '__main__':
    main(globals())
