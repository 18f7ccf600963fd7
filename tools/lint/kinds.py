"""Who names a part of a kind of model: in C, the members that src/kinds/parts.h and src/fast/parts.h give a model, a
layer and a pass, and the fields of the header that are theirs, as strings. A slice may, which is a file of the
kind's name (its definition, its fast steps, its own part of --explain), and so may the tables that tie all kinds.
"""
import json
import os
import re

from c_source import ROOT
from family_names import strings_of_c

HEADERS = 'src/kinds/parts.h', 'src/fast/parts.h'
# Parts of a kind in files of their own: one kind of state, and the router of experts. Each may name the kind that it is
# part of.
INSIDE = {'states': ['mamba'], 'experts': ['router']}


def parts_of(c):
    """The kinds, by their members of a model, a layer and a pass."""
    found = set()
    for path in HEADERS:
        for body in re.findall(r'struct \w*Parts \{(.*?)\n\};', c.get(path, ''), re.S):
            found.update(re.findall(r'\*(\w+);', body))
    return found


def fields_of(parts):
    """{field of the header: the kind whose it is}"""
    with open(os.path.join(ROOT, 'export', 'header.json'), encoding='utf-8') as file:
        rows = json.load(file)['fields']
    owners = {name: row['member'].split('.')[0] for name, row in rows.items() if row['kind'] != 'llama'}
    return {name: owner for name, owner in owners.items() if owner in parts}


def slices_of(part):
    names = [part, part + 's', 'parts', *INSIDE.get(part, [])]
    return {'src/%s/%s.%s' % (room, name, end)
            for room in ('kinds', 'fast', 'show') for name in names for end in 'ch'}


def kinds_outside(c):
    """(path, line, kind) of each place that names a kind outside its slices. Tables of the header's rules are left out:
    a rule of one kind against another is in one of the two."""
    parts = parts_of(c)
    if not parts:
        return
    member, fields = re.compile(r'\bkinds(?:->|\.)(%s)\b' % '|'.join(sorted(parts))), fields_of(parts)
    for path, text in sorted(c.items()):
        rules = [range(text.count('\n', 0, match.start()) + 1, text.count('\n', 0, match.end()) + 2)
                 for match in re.finditer(r'static const Rule \w+\[\] = \{.*?\n\};', text, re.S)]
        found = [(i, kind) for i, line in enumerate(text.split('\n'), 1) for kind in member.findall(line)]
        found += [(i, fields[word]) for i, word in strings_of_c(text)
                  if word in fields and is_asked(text, i, word) and not any(i in lines for lines in rules)]
        for i, kind in sorted(found):
            if path not in slices_of(kind):
                yield path, i, kind


def is_asked(text, line, word):
    """Whether a string is the name that a function of fields gets; elsewhere it may mean another thing."""
    before = '\n'.join(text.split('\n')[max(line - 2, 0):line])
    return re.search(r'\bfield_\w+\([^;]*"%s"' % word, before) is not None


def check_kinds(c):
    yield from ('%s:%d: a kind outside its slices (%s, none)' % place for place in kinds_outside(c))
