"""The parts of a tokenizer.json that all kinds of tokenizers have: a pipeline of steps, whose keys are either read or
refused, the vocabulary, and the added tokens."""

from __future__ import annotations

from .common import Problem
from .sentencepiece import NORMAL, UNUSED


def inner(keys, key, null=None):
    """The object at `key`; an empty one (which has no type) if it is null or missing."""
    value = keys.get(key, lambda v: isinstance(v, dict), 'an object', null, null)
    return keys.within(value or {}, '%s%s.' % (keys.inside, key))


def steps(keys, key, members):
    """A part of the pipeline as a list of single steps: a Sequence's members, or the part itself, or an empty list."""
    part = inner(keys, key)
    if not part.values:
        return []
    if part.values.get('type') != 'Sequence':
        return [part]
    part.only('type', 'Sequence')
    listed = part.get(members, lambda v: isinstance(v, list) and all(isinstance(x, dict) for x in v),
                      'a list of objects')
    finished(part)
    return [part.within(value, '%s%s[%d].' % (part.inside, members, i)) for i, value in enumerate(listed)]


def finished(keys):
    """Refuses members that no function asked for."""
    for key in keys.values:
        if key not in keys.asked:
            keys.refuse(key, 'no such key')


def a_text(value):
    return isinstance(value, str) and value != ''


# ---- the vocabulary, and added tokens ----

def spelled(path, text):
    """A token's text in UTF-8."""
    try:
        return text.encode('utf-8')
    except UnicodeEncodeError:
        raise Problem(path, 'token %a is not text' % text[:40])


def by_id(path, vocab):
    """The vocabulary as tokens in the order of their ids. Ids without a token (tiktoken's cl100k and o200k omit some
    before their special ones) get an unused one."""
    tokens = [[b'', 0.0, UNUSED] for _ in range(max(vocab.values()) + 1)]
    for text, id in vocab.items():
        tokens[id] = [spelled(path, text), 0.0, NORMAL]
    return tokens


def put_added(token, tokens, entry):
    """Puts a token that is not in the vocabulary in its place, which may be empty."""
    id = token.values['id']
    tokens += [[b'', 0.0, UNUSED] for _ in range(id + 1 - len(tokens))]
    if tokens[id][0]:
        token.refuse('id', 'an id that no token of the vocabulary has')
    tokens[id] = entry


def read_added_tokens(top, vocab, can=()):
    """The added tokens as Keys with content, id, special and normalized, after the tokens of the vocabulary. `can`: the
    flags that tokens may have that are not special."""
    added, next_id = {}, len(vocab)
    listed = top.get('added_tokens', lambda v: isinstance(v, list) and all(isinstance(x, dict) for x in v),
                     'a list of objects', [], [])
    for i, values in enumerate(listed):
        token = top.within(values, 'added_tokens[%d].' % i)
        content = token.get('content', lambda v: a_text(v) and v not in added, 'a text that was not added before')
        id = vocab.get(content, next_id)  # the library assigns this id, whatever the file has
        token.get('id', lambda v: v == id and type(v) is int, 'the id %d' % id)
        next_id = max(next_id, id + 1)
        special = token.flag('special', False)
        for flag in 'single_word', 'lstrip', 'rstrip':
            if token.flag(flag, False) and not special and flag not in can:  # special tokens are not looked up in text
                token.refuse(flag, 'false')
        token.flag('normalized', True)
        finished(token)
        added[content] = token
    return added


def demand_raw(top):
    """Requires that tokens which are looked up in text are not normalized: they are cut out before normalization, and
    normalized ones would be looked up after it."""
    for i, token in enumerate(top.values.get('added_tokens') or []):
        if token.get('normalized', True) and not token.get('special'):
            top.within(token, 'added_tokens[%d].' % i).refuse('normalized', 'false')


def check_user_defined(top, prefix):
    """The library looks up normalized tokens in the text that the others leave; ours are all looked up at once. The
    result is the same unless a token that is looked up can overlap with a token of the other sort."""
    tokens = top.values.get('added_tokens') or []
    sought = [(token['content'], token.get('normalized', True)) for token in tokens if not token.get('special')]
    both = {token.get('normalized', True) for token in tokens}
    if prefix or len(both) > 1:
        check_overlaps(top, tokens, sought, prefix)


def check_overlaps(top, tokens, sought, prefix):
    if len(sought) * len(tokens) > 10 ** 7:
        raise Problem(top.path, 'has too many added_tokens (found %d, %d of them not special)'
                      % (len(tokens), len(sought)))
    for text, normalized in sought:
        if prefix and text[0] == ' ':
            raise Problem(top.path, 'added token %r has a space in front, where add_prefix_space may also put one'
                          % text)
        for other in tokens:
            if other.get('normalized', True) != normalized and overlap(text, other['content']):
                raise Problem(top.path, 'added tokens %r and %r may overlap, and only one of them is normalized'
                              % (text, other['content']))


def overlap(a, b):
    return a in b or b in a or any(x.endswith(y[:n]) for x, y in ((a, b), (b, a)) for n in range(1, len(y)))
