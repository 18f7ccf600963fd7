"""Candidates for the settings of a server: the engines' readings of a block, and other mistakes."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Tuple

from ..common import Problem
from .ours import Model, Refused

# Notes of --explain that name a setting, and add no result to the rows and the other notes.
NAMES = {'method', 'source', 'dynamic', 'factor', 'scale', 'train_ctx', 'length', 'ramp', 'beta_fast', 'beta_slow',
         'unseen_share', 'tells_apart', 'theta', 'low_freq_factor', 'high_freq_factor', 'head_dim', 'window', 'sinks'}
FLAGS = ['--stepwise', '--stale-keys']


class Candidate:
    """words: a description; arguments: run's arguments for it; engine: the engine whose reading it is, or None."""

    def __init__(self, words: str, arguments: List[Any], engine: Optional[str] = None) -> None:
        self.words, self.arguments, self.engine = words, arguments, engine
        self.notes = {}  # of --explain at the longest prompt

    def signature(self, model: Model, n: int) -> Tuple[Any, ...]:
        """Its results at length n, without weights. Raises Refused."""
        flags = [a for a in self.arguments if a in FLAGS]
        notes, rows = model.explain(n, [a for a in self.arguments if a not in FLAGS])
        self.notes = notes
        kept = {key: value for key, value in notes.items() if key.replace('_sliding', '') not in NAMES}
        for key in ('window', 'window_sliding'):
            if 0 < int(float(notes.get(key, 0))) < n:
                kept[key], kept['sinks'] = notes[key], notes.get('sinks')
        if 'logn' in notes or 'temperature_beta' in notes:
            kept['train_ctx'] = notes.get('train_ctx')
        moves = any(notes.get(key) == '1' for key in ('dynamic', 'dynamic_sliding'))
        return (tuple(sorted(kept.items())), tuple(flags) if moves else (),
                tuple((row.get('layers'), row['pair'], row['scaled_inv_freq']) for row in rows))


def number(text: Any, other: float = 0.0) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return other


def check_expected(model: Model, expected: Optional[str]) -> None:
    """A problem if there is no engine of that name: run suggests the probable one."""
    try:
        if expected:
            model.explain(8, model.base + ['--reading', expected])
    except Refused as refused:
        name, _, why = str(refused).partition('--reading: ')
        if name == 'run: ' and why:
            raise Problem('--expect: %s' % why, 'usage')


def engine_readings(model: Model, n: int, expected: Optional[str]) -> Tuple[List[Candidate], Dict[str, str], float]:
    """The engines that read the settings, and {engine: why} of those that refuse them or are unverified."""
    rows, refused = [row for row in model.engines(n) if row['verdict'] != 'not looked at'], {}
    names = list(dict.fromkeys(row['engine'] for row in rows))
    for row in rows:
        if row['verdict'] == 'refused':
            refused[row['engine']] = row['note']
    if expected and expected not in names:
        names.append(expected)
    longest = max([number(row['max_len']) for row in rows], default=0)
    return [Candidate(name, model.base + ['--reading', name], name) for name in names if name not in refused], \
        refused, longest


def other_scales(base, facts, longest):
    """The method with another s, L or attention factor."""
    s, a, l = number(facts.get('scale')), number(facts.get('attention_factor'), 1), number(facts.get('train_ctx'))
    if facts.get('dynamic') == '1':
        s = number(facts.get('factor'))
    if abs(a - 1) > 1e-9:
        yield 'attention factor 1', base + ['--attention-factor', '1']
        yield 'the attention factor squared, %.6g' % (a * a), base + ['--attention-factor', '%.12g' % (a * a)]
    if s > 1:
        yield 'half the scale, s %g' % (s / 2), base + ['--factor', '%.12g' % max(1, s / 2)]
        yield 'twice the scale, s %g' % (2 * s), base + ['--factor', '%.12g' % (2 * s)]
        if l and longest > l and abs(longest / l - s) > 1e-6 * s:
            yield 's = max / L, %g' % (longest / l), base + ['--factor', '%.12g' % (longest / l)]
    if s > 1 and l and longest > l:
        yield 'L = max_position_embeddings, %d' % longest, base + ['--train-ctx', '%d' % longest]
    if l:
        yield 'a window of L, %d' % l, base + ['--window', '%d' % l]


def other_methods(base, facts, longest):
    method, theta = facts.get('method', 'none'), number(facts.get('theta'))
    s = number(facts.get('factor' if facts.get('dynamic') == '1' else 'scale'))
    if method != 'none':
        yield 'plain RoPE: the block is not in force', base + ['--rope', 'none', '--attention-factor', '1']
    if theta and theta != 10000:
        yield 'theta 10,000', base + ['--theta', '10000']
    for factor in [s] if s > 1 else [2, 4]:
        for name in 'linear', 'ntk', 'yarn':
            own = [] if name == 'yarn' else ['--attention-factor', '1']
            if method != name:
                yield '%s, s %g' % (name, factor), base + ['--rope', name, '--factor', '%.12g' % factor] + own
    if method.startswith('dynamic'):
        yield 'keys that stay as they were rotated when cached', base + FLAGS


def other_lists(model):
    """longrope's short or long list, used at all lengths."""
    block = model.block()
    short, long = block.get('short_factor'), block.get('long_factor')
    if not (isinstance(short, list) and isinstance(long, list)) or not model.base:
        return
    with open(model.base[1], encoding='utf-8') as file:
        whole = json.load(file)
    for words, values in ('short', short), ('long', long):
        text = json.dumps(whole).replace(json.dumps(short if words == 'long' else long), json.dumps(values))
        path = model.work.write('%s.json' % words, text)
        yield 'the %s list at all lengths' % words, ['--rope-config', path]


def all_candidates(model: Model, n: int, expected: Optional[str] = None) -> Tuple[List[Candidate], Dict[str, str]]:
    """All candidates, and {engine: why it is left out}."""
    found, refused, longest = engine_readings(model, n, expected)
    facts = {}
    for arguments in [model.base] + [candidate.arguments for candidate in found]:
        try:
            facts = model.explain(n, arguments)[0]
            break
        except Refused:
            continue
    more = [*other_scales(model.base, facts, longest), *other_methods(model.base, facts, longest), *other_lists(model)]
    return found + [Candidate(words, arguments) for words, arguments in more], refused


def distinct(model: Model, listed: List[Candidate], lengths: List[int],
             far: int) -> Tuple[List[List[Candidate]], List[List[Candidate]], List[Tuple[Candidate, str]]]:
    """[[candidates with the same results at these lengths]]; and pairs of words that would differ at `far`. Candidates
    that run refuses are left out, and come last with the reason."""
    groups, refused, later = {}, [], []
    for candidate in listed:
        try:
            near = tuple(candidate.signature(model, n) for n in sorted({lengths[0], lengths[-1]}))
        except Refused as reason:
            refused.append((candidate, str(reason)))
            continue
        groups.setdefault(near, []).append(candidate)
    for same in groups.values():
        beyond = {}
        for candidate in same if len(same) > 1 else []:
            try:
                there = Candidate(candidate.words, candidate.arguments).signature(model, far)
            except Refused:
                continue
            beyond.setdefault(there, candidate)
        if len(beyond) > 1:
            later.append(list(beyond.values()))
    return list(groups.values()), later, refused
