"""The meanings of configs, as rows: tests/readings/*.json. A row is a config, and the expected answers of each door.

    of, with, without     a config: a base of bases.json, keys over it, keys that it lacks; or config, a whole one;
                          or file, a published one; or text, as it is in a file
    given, n              options that are said beside it, and the lengths that it is asked for
    full, sliding         what full and sliding layers turn by, null: they do not turn
    layers, window, beta  which layers slide (F, S), the window, the slope of the temperature
    said                  notes of --explain, null: there is none
    refused               the key that cannot be used, or words of the refusal
    warned, remarks       all warnings, word by word; some of them
    read, verdicts,       what engines turn by, null: they refuse it, ! words: it cannot be put in force;
    notes, max_len        how that compares, words of the note, the length that they allow
    doors                 who is asked, unless it is the program and the exporter

A reading is a line, `yarn factor=4 train_ctx=64`: a method, and the fields of a header that are not a base's own
(`unless_said`); `turns` is how many elements of a head turn, and `head` its size where that is more. The numbers are
reference.rope's."""

import functools
import json
import os
import sys

import reference
from common import METHODS, ROOT, config, in_work, write

sys.path.insert(0, ROOT)
from export import common as export_common  # noqa: E402
from export.config import read_config  # noqa: E402
from export.families import FAMILIES  # noqa: E402, F401: for those who import this

PLACE = os.path.join(ROOT, 'tests', 'readings')
ORIGINAL = 'original_max_position_embeddings'
FULL, SLIDING = 'full_attention', 'sliding_attention'


def changed(values, **changes):
    """A copy with other values; ... as a value takes the key away."""
    return {key: value for key, value in {**values, **changes}.items() if value is not ...}


@functools.lru_cache(None)
def load(name):
    with open(os.path.join(PLACE, name + '.json'), encoding='utf-8') as file:
        return json.load(file)


def rows(name):
    return load(name)


def base(name, **changes):
    return changed(load('bases')[name]['config'], **changes)


def config_of(row):
    values = dict(base(row['of'])) if 'of' in row else json.loads(json.dumps(row.get('config', {})))
    if 'file' in row:
        with open(os.path.join(ROOT, row['file']), encoding='utf-8') as file:
            values = json.load(file)
    values.update(row.get('with', {}))
    return {key: value for key, value in values.items() if key not in row.get('without', ())}


def configs(*names):
    """The configs of all rows of these files that have one."""
    return [config_of(row) for name in names for row in rows(name) if 'text' not in row]


def saved(values, name='config.json'):
    """The path of a file with this config, or with this text."""
    return write(in_work(name), values if isinstance(values, (str, bytes)) else json.dumps(values, indent=1))


def meant(line, before=''):
    """The fields of a header that a reading means, which `before` has unless they are said."""
    fields = {}
    for word in (before + ' ' + line).split():
        key, is_set, value = word.partition('=')
        if not is_set:
            fields.update({'method': 'ntk', 'rope_dynamic': 1} if key == 'dynamic' else {'method': key})
        elif key.endswith('_factors'):
            fields[key] = [float(x) for x in value.split(',')]
        elif key == 'lists':  # the list of a text of this length, whichever of the two it is
            fields['short_factors'] = fields['long_factors'] = [float(x) for x in value.split(',')]
        else:
            fields[key] = float(value) if '.' in value or 'e' in value else int(value)
    turns, head = fields.pop('turns', 0), fields.pop('head', 0)
    head, turns = head or turns, turns or head
    return config(**fields, head_dim=head, rotary_dim=turns if turns != head else 0)


def reading(row, line):
    return meant(line, load('bases')[row['of']].get('unless_said', '') if 'of' in row else '')


def turning(c, length):
    """The frequencies of a head, those of pairs that do not turn as 0, and the attention factor."""
    f, a = reference.rope(c, length)
    still = METHODS[c['rope_method']] == 'proportional'
    return f + [0.0] * (c['head_dim'] // 2 - len(f)) * still, a


BESIDES = {'vocab_size': 40000, 'intermediate_size': 20, 'num_hidden_layers': 1, 'num_key_value_heads': 2}


def exporter_says(values):
    """The exporter's fields of a config, None: it refuses it; the reason why; its notes, and its warnings by
    themselves. The other keys that it needs of a config are added."""
    if isinstance(values, dict):
        inner = values.get('text_config')
        values = {**values, 'text_config': {**BESIDES, **inner}} if isinstance(inner, dict) else {**BESIDES, **values}
    os.makedirs(in_work('folder'), exist_ok=True)
    path = saved(values, os.path.join('folder', 'config.json'))
    job, before = export_common.Job(), 'warning: %s: ' % path
    try:
        found, problem = vars(read_config(job, in_work('folder')).model), ''
    except export_common.Problem as refusal:
        found, problem = None, str(refusal)
    return found, problem, job.notes, [note[len(before):] for note in job.notes if note.startswith(before)]
