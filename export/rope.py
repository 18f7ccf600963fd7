"""RoPE's settings in a config.json. ./run reads them (src/configs), and prints them with the names of a header's
fields: its refusals are errors here, and its warnings are passed on."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Dict, List, Tuple

from .common import PROGRAM, RUN, Job, Keys, Problem
from .families import Family
from .header import FIELDS
from .model import LONGROPE, PROPORTIONAL, TURNS_AS_SLIDING, Model, of_kind

METHODS = 'default', 'linear', 'dynamic', 'ntk-by-parts', 'yarn', 'llama3', 'longrope', 'proportional'  # by rope_method


def answer_of(path: str, arguments: List[str]) -> Tuple[Any, str]:
    """./run's output as an object of JSON (None: it is not one), and the last line of its messages."""
    try:
        done = subprocess.run([RUN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise Problem(path, 'needs %s, which cannot be started (%s: %s%s)' % (
            PROGRAM, RUN, error.strerror, '; expected it to be built: make' if PROGRAM == './run' else ''))
    lines = done.stderr.decode(errors='replace').strip().splitlines()
    told = lines[-1] if lines else '%s did not answer (exit status %d)' % (PROGRAM, done.returncode)
    try:
        said = json.loads(done.stdout.decode())
    except ValueError:
        said = None
    return (said if isinstance(said, dict) else None), told[:300]


def ask(job: Job, path: str) -> Dict[str, Any]:
    """./run's reading of a config.json."""
    place = path if os.path.isabs(path) else os.path.join('.', path)  # not an option
    said, told = answer_of(path, ['--rope-config', place, '--fields'])
    if said and isinstance(said.get('refused'), str):
        raise Problem(path, said['refused'].partition(place + ': ')[2] or said['refused'])
    if not said or not {'remarks', 'rope_method', 'rotary_dim'} <= set(said):
        raise Problem(path, 'is interpreted by %s, which failed: %s' % (PROGRAM, told))
    for remark in said['remarks']:
        job.note('warning: %s: %s' % (path, remark))
    if 'unused' in said:
        job.note('%s: %s' % (path, said['unused']))
    if 'chunk' in said:
        job.note('dual_chunk_attention_config is not in a model file: run it with --rope dca --chunk %d'
                 % said['chunk'])
    return said


def read_ropes(config: Keys, said: Dict[str, Any], family: Family, model: Model) -> Dict[str, Any]:
    """The header's fields from ./run's answer. The fields of sliding layers begin with `sliding_`, if such layers have
    their own RoPE."""
    rope = {name: value for name, value in said.items() if name in ('short_factor', 'long_factor') or
            name in FIELDS and not name.startswith('sliding_')}
    (full_dim, n_full), (sliding_dim, _) = of_kind(model, False), of_kind(model, True)
    turning = said['rotary_dim'] or full_dim
    in_sliding = said.get('sliding_rotary_dim', said['rotary_dim']) or sliding_dim
    for dim, method in (full_dim, said['rope_method']), (sliding_dim, said.get('sliding_method', 0)):
        if n_full and method == PROPORTIONAL and dim != model.head_dim:
            config.refuse('rope_parameters', 'another rope_type than proportional, since other layers have wider heads')
    if not n_full:  # the header's settings are for full layers, of which there are none
        turning = min(turning, in_sliding)
    rope['rotary_dim'] = turning % model.head_dim
    if not any(flags & TURNS_AS_SLIDING for flags in model.layers):
        return rope
    if said.get('sliding_method', said['rope_method']) == LONGROPE or said.get('sliding_dynamic', said['rope_dynamic']):
        # A header has these only for all layers, which is right if both kinds rotate the same way, or full ones do not
        # (EXAONE).
        if any(said[name] != said.get(of_all(name)) for name in said if name.startswith('sliding_')):
            raise Problem(config.path, 'has sliding layers with dynamic or longrope of their own, which a model file '
                          'cannot have (expected default, linear, yarn, llama3 or proportional, or those of full '
                          'layers; --rope-config tries it on a model)')
        model.layers = [flags & ~TURNS_AS_SLIDING for flags in model.layers]
        return rope
    own = {name: said.get(name, said.get(of_all(name)))
           for name in FIELDS if name.startswith('sliding_') and name not in NOT_OF_ROPE}
    own['sliding_rotary_dim'] = in_sliding if family.rope.by_kind and in_sliding != turning else 0
    return {**rope, **own, 'sliding_rope': 1}


def of_all(name: str) -> str:
    """The name of a setting of all layers, given its name for sliding ones."""
    name = name[len('sliding_'):]
    return 'rope_' + name if name in ('method', 'dynamic') else name


NOT_OF_ROPE = 'sliding_window', 'sliding_rope'  # the other fields of this prefix are settings
