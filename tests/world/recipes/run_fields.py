"""The types of the fields of transformers' own config classes, which it checks since 5.4. For the model_types in a file
(a list in JSON) it prints [{model_type: {field: its type, as words in order}}, the release]: `int None`, `None list[str]`.
Fields of other types are left out, and so are those whose type is a text, which is not checked."""

import dataclasses
import json
import sys
import types
import typing

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

WORDS = {int: 'int', float: 'float', bool: 'bool', str: 'str', list: 'list', dict: 'dict', type(None): 'None'}


def words_of(kind):
    """The set of words of a type; None: it has another part."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind is None or kind in WORDS:
        return {WORDS[kind if kind else type(None)]}
    if origin in (typing.Union, types.UnionType):
        found = [words_of(one) for one in parts]
        return None if None in found else set().union(*found)
    if origin is list and len(parts) == 1 and parts[0] in (int, str):
        return {'list[%s]' % WORDS[parts[0]]}
    if origin is dict or getattr(kind, '__name__', '') == 'RopeParameters':
        return {'dict'}
    return set() if origin is tuple else None  # JSON has no tuple


def main():
    with open(sys.argv[1]) as file:
        wanted = json.load(file)
    out = {}
    for name in wanted:
        if name not in CONFIG_MAPPING:
            continue
        make = CONFIG_MAPPING[name]
        found = {field.name: words_of(field.type) for field in dataclasses.fields(make)}
        out[name] = {key: ' '.join(sorted(words)) for key, words in found.items() if words}
    json.dump([out, transformers.__version__], sys.stdout)


if __name__ == '__main__':
    main()
