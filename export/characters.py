"""Sentencepiece's BPE in the form of Hugging Face's tokenizer.json, such as Llama 2's: merges of characters. It becomes
a sentencepiece tokenizer, whose tokens have scores, after a proof that the scores have the same effect as the list
of merges."""

from __future__ import annotations

from itertools import groupby

from .bytelevel import BY_PARTS, BYTE_FALLBACK, HIDE_UNUSED, PREFIX, PREFIX_UNLESS_SPACE, check_spellings
from .common import Problem
from .json_parts import (by_id, check_user_defined, demand_raw, finished, put_added, read_added_tokens, spelled, steps)
from .sentencepiece import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, shown

SPACE = '\u2581'  # how sentencepiece writes one
RUNS = ''           # stands for all runs of spaces, which are merged together
OTHER_WAYS = '; the tokenizer.model of the same model can be read instead, if it has one'


def read_characters(top, model, vocab, merges, unknown):
    """A sentencepiece tokenizer from a tokenizer.json such as Llama 2's."""
    flags = read_metaspace(top)
    model.get('byte_fallback', lambda v: v is True, 'true, or a ByteLevel pre_tokenizer')
    model.only('ignore_merges', False)
    if unknown not in vocab:
        model.refuse('unk_token', 'a token of the vocabulary')
    tokens = by_id(top.path, vocab)
    for byte in range(256):  # so no character is unknown
        name = '<0x%02X>' % byte
        if name in vocab:
            tokens[vocab[name]][2] = BYTE
        elif byte >= 128 or chr(byte) not in vocab:  # Gemma 1 and 2 have the tab itself
            model.refuse('byte_fallback', 'false without a token %s' % name)
    tokens[vocab[unknown]][2] = UNKNOWN
    as_symbols = set()
    for text, token in read_added_tokens(top, vocab, ('rstrip',)).items():
        id, special = token.values['id'], token.values.get('special')
        # The library puts the space before every part of a text between such tokens, as Prepend does.
        if not special and flags & PREFIX_UNLESS_SPACE:
            token.refuse('special', 'true with a Metaspace')
        if not special and set(text) == {SPACE} and text in vocab:  # Gemma: looked up in text as U+2581,
            token.only('rstrip', False)                             # and made by merges of spaces
            as_symbols.add(id)
            continue
        if not special and (' ' in text or SPACE in text):
            token.refuse('content', 'a text without spaces')
        if text not in vocab:
            put_added(token, tokens, [spelled(top.path, text), 0.0, NORMAL])
        if tokens[id][2] == NORMAL:
            tokens[id][2] = CONTROL if special else USER_DEFINED
    demand_raw(top)
    check_user_defined(top, False)
    if as_symbols or any(kind == USER_DEFINED for _, _, kind in tokens):
        flags += BY_PARTS
    score_merges(model, vocab, merges, tokens)
    for token in tokens:
        if b' ' in token[0] and token[2] == NORMAL:
            raise Problem(top.path, 'token %s cannot be represented (it has a space: in texts that is U+2581)'
                          % shown(token[0]))
        token[0] = token[0].replace(b'\xe2\x96\x81', b' ')
    check_spellings(top.path, tokens)
    return {'tokens': tokens, 'flags': flags + BYTE_FALLBACK + HIDE_UNUSED, 'unk_id': vocab[unknown],
            'as_symbols': as_symbols}


def read_metaspace(top):
    """The two spellings of spaces; the flags about the space at the beginning."""
    flags, replaced = 0, False
    for step in steps(top, 'normalizer', 'normalizers'):
        step.only('type', 'Prepend', 'Replace')
        if step.values.get('type') == 'Prepend':
            step.get('prepend', lambda v: v == '\u2581' and not replaced, '"\u2581", before anything else')
            flags = PREFIX
        else:
            step.get('pattern', lambda v: v == {'String': ' '}, '{"String": " "}')
            step.get('content', lambda v: v == '\u2581', '"\u2581"')
            replaced = True
        finished(step)
    for step in steps(top, 'pre_tokenizer', 'pretokenizers'):
        if step.values.get('type') == 'Split' and replaced:
            check_empty_split(step)
            continue
        step.get('type', lambda v: v == 'Metaspace' and not replaced and not flags,
                 'ByteLevel, or Metaspace and no normalizer')
        step.get('replacement', lambda v: v == '\u2581', '"\u2581"')
        step.get('split', lambda v: v is False, 'false')
        scheme = step.get('prepend_scheme', lambda v: v in ('first', 'always', 'never'), 'first, always or never',
                          'always')
        step.get('add_prefix_space', lambda v: v is (scheme != 'never'), 'what prepend_scheme says', None)
        step.asked.add('str_rep')
        flags, replaced = (PREFIX + PREFIX_UNLESS_SPACE if scheme != 'never' else 0), True
        finished(step)
    if not replaced:
        raise Problem(top.path,
                      'normalizer, pre_tokenizer cannot be used (expected a ByteLevel, or that spaces become U+2581)')
    stripped = False
    for step in steps(top, 'decoder', 'decoders'):
        step.only('type', 'Replace', 'ByteFallback', 'Fuse', 'Strip', 'Metaspace')
        kind = step.values.get('type')
        if kind == 'Strip':
            stripped = all(step.get(key, lambda v: v == x and type(v) is type(x), repr(x)) == x
                           for key, x in (('content', ' '), ('start', 1), ('stop', 0))) or stripped
        if kind == 'Replace':
            step.get('pattern', lambda v: v == {'String': '\u2581'}, '{"String": "\u2581"}')
            step.get('content', lambda v: v == ' ', '" "')
        if kind == 'Metaspace':
            step.get('replacement', lambda v: v == '\u2581', '"\u2581"')
            stripped = step.get('prepend_scheme', lambda v: v in ('first', 'always', 'never'), 'a scheme',
                                'always') != 'never'
            step.asked.update(('add_prefix_space', 'str_rep', 'split'))
        finished(step)
    if stripped != bool(flags):
        raise Problem(top.path, 'decoder cannot be represented (it %s a space, but texts %s)' % (
            ('strips', 'get none') if stripped else ('keeps', 'are given one')))
    return flags


def check_empty_split(step):
    """Accepts the split at spaces in Gemma's files, which has no effect because no spaces are left by then."""
    step.get('pattern', lambda v: v == {'String': ' '}, '{"String": " "}')
    step.only('type', 'Split')
    step.only('behavior', 'MergedWithPrevious')
    step.only('invert', False)
    finished(step)


def score_merges(model, vocab, merges, tokens):
    """Gives tokens scores such that sentencepiece's rule (of all neighbors, the pair whose joined spelling has the best
    score comes first) is equivalent to the list of merges; refuses the list if that is impossible. Two conditions
    ensure it. (The order of the merges that make one token does not matter: only one of them is ever possible, which
    the merges of better tokens decide when they take the token's text.) Runs of spaces may be merged in any order
    that `grow_from_the_left` accepts."""
    def refuse(why, *what):
        raise Problem(model.path, "model.merges cannot be represented by sentencepiece's scores (%s)%s"
                      % (why % what, OTHER_WAYS))

    def cut_out(text):  # the token is cut out before there are merges, so it takes no part in them
        return text in vocab and tokens[vocab[text]][2] == USER_DEFINED

    listed, order, place, last = set(merges), {}, -1, None
    grow = grow_from_the_left([merge for merge in merges if is_run(merge[0] + merge[1])])
    for a, b in merges:
        if any(map(cut_out, (a, b, a + b))):
            continue
        # 1. The merges that make a token follow one another; the merges of runs of spaces do if the runs grow.
        group = RUNS if grow and is_run(a + b) else a + b
        place, last = place + (group != last), group
        if order.setdefault(group, place) != place or order.setdefault(a + b, place) != place:
            refuse('%.40r is made both before and after another token', a + b)
        if grow and group != RUNS and RUNS not in order and is_run(a) + is_run(b):
            refuse('%.40r is made of a run of spaces, before all runs are made', a + b)
        for text in a, b, a + b:
            if tokens[vocab[text]][2] != NORMAL:
                refuse('%.40r is made of control or byte tokens, or is one', a + b)
    for text, id in vocab.items():
        if tokens[id][2] != NORMAL:
            continue
        tokens[id][1] = -float(order.get(text, len(order)))
        if len(text) > 1 and text not in order:  # (old converters forgot the merges of the token whose score was 0)
            tokens[id][2] = UNUSED
            continue
        # 2. Every pair of symbols (tokens that can come up, characters) that spells a token is listed.
        for i in range(1, len(text)):
            a, b = text[:i], text[i:]
            if (a, b) not in listed and all((len(x) == 1 or x in order) and not cut_out(x) for x in (a, b)):
                refuse('%.40r and %.40r are not a merge, but make a token', a, b)


def is_run(text):
    return len(text) > 1 and not text.strip(SPACE)


def grow_from_the_left(merges):
    """Whether merges of runs of spaces that are not grouped by token, as in Gemma and Llama 2, have the same effect as
    one score for all runs. With one score the leftmost pair is merged first. So the first space of a run absorbs one
    space after the other, up to the longest token M, and then the next run begins. The list does the same if the
    merge of a run of n (2 <= n < M) and a space comes before the merge of two spaces: after full tokens M M ...
    there is one run that grows, followed by single spaces. No other merge is possible, since no token is longer than
    M.

    In addition, the merges of runs must be adjacent in the list, and merges of a run with other text must come after
    them. Then tokens with better scores are merged before the runs, from single spaces, tokens with worse scores are
    merged from whole runs, and two runs never meet again."""
    made, at = [a + b for a, b in merges], {(len(a), len(b)): i for i, (a, b) in enumerate(merges)}
    return len(set(made)) < len(list(groupby(made))) and all(
        at.get((n, 1), len(at)) <= at.get((1, 1), -1) for n in range(1, max(map(len, made))))
