"""tokenizer.json, Hugging Face's: a pipeline of many possible parts. What is asked for here is what Llama-architecture
models have; anything else in the file, known or new, is refused by its key, so that no tokenizer is a silent
approximation. One that does what sentencepiece does (Llama 2) becomes a sentencepiece tokenizer, once it is proved to
be one.
"""

from __future__ import annotations

import unicodedata
from itertools import groupby

from .bytelevel import (BY_PARTS, BYTE_FALLBACK, DIGITS_GPT2, FORMS, GPT2, HIDE_UNUSED, IGNORE_MERGES, PREFIX,
                        PREFIX_UNLESS_SPACE, SPLITS, bytes_of, check_spellings, missing_bytes)
from .common import MAX_VOCAB, Job, Problem, read_json
from .sentencepiece import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, Tokenizer, shown

MAX_MERGES = 1 << 24
SPACE = '\u2581'  # how sentencepiece writes one
RUNS = ''           # in the place of a token: all runs of spaces, which are made together
OTHER_WAYS = '; the tokenizer.model of the same model can be read instead, if it has one'

# Control tokens that end a text or a turn, for when no config.json says which.
END_TOKENS = ('</s>', '<|end_of_text|>', '<|eot_id|>', '<|eom_id|>', '<|endoftext|>', '<|im_end|>', '<eos>',
              '<end_of_turn>', '[|endofturn|]')


def inner(keys, key, null=None):
    """The object at `key`; an empty one (which has no type) for a null or none."""
    value = keys.get(key, lambda v: isinstance(v, dict), 'an object', null, null)
    return keys.within(value or {}, '%s%s.' % (keys.inside, key))


def steps(keys, key, members):
    """A pipeline's part as a list of single steps: a Sequence's members, or the part alone, or nothing."""
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
    """Nothing may stand there that nobody asked for."""
    for key in keys.values:
        if key not in keys.asked:
            keys.refuse(key, 'no such key')


def a_text(value):
    return isinstance(value, str) and value != ''


def read_tokenizer_json(job: Job, path: str) -> Tokenizer:
    """The tokenizer as read_sentencepiece gives it, with `kind` 1, `split` and `merges` if it is a byte-level one."""
    top = read_json(job, path)
    top.get('version', lambda v: v == '1.0', '"1.0"', None)
    for key in 'truncation', 'padding':
        if top.get(key, lambda v: isinstance(v, dict), 'an object', None, None):
            job.note('%s of %s is not used: a text is encoded as it is' % (key, path))
    model = inner(top, 'model')
    model.only('type', 'BPE')  # which very old files do not say
    model.only('dropout', None, 0.0, 0)
    for key in 'continuing_subword_prefix', 'end_of_word_suffix':
        model.only(key, None, '')
    vocab = model.get('vocab', lambda v: isinstance(v, dict) and 0 < len(v) <= MAX_VOCAB and all(
        type(x) is int and 0 <= x < MAX_VOCAB for x in v.values()) and len(set(v.values())) == len(v),
                      'tokens and their ids, each from 0 to %d and of one token' % (MAX_VOCAB - 1))
    merges = read_merges(model, vocab)
    unknown = model.get('unk_token', a_text, 'a token', None, None)
    model.get('fuse_unk', lambda v: type(v) is bool, 'true or false', False)  # no character is ever unknown: see below
    if any(step.values.get('type') == 'ByteLevel' for step in steps(top, 'pre_tokenizer', 'pretokenizers')):
        tokenizer = read_bytelevel(top, model, vocab, merges)
    else:
        tokenizer = read_characters(top, model, vocab, merges, unknown)
    tokenizer['takes_spaces'] = {token['id'] for token in top.values.get('added_tokens') or () if token.get('rstrip')}
    tokenizer['bos_id'] = read_post_processor(top, tokenizer['tokens'])
    ends = [text.encode() for text in END_TOKENS]
    tokenizer['eos_ids'] = [id for id, (text, _, kind) in enumerate(tokenizer['tokens'])
                            if kind == CONTROL and text in ends]
    finished(model)
    finished(top)
    return tokenizer


def read_merges(model, vocab):
    """The pairs to merge in their order, each a tuple of two tokens."""
    merges = model.get('merges', lambda v: isinstance(v, list) and len(v) <= MAX_MERGES, 'a list of pairs')
    pairs = {}
    for i, merge in enumerate(merges):
        if isinstance(merge, str) and merge.startswith('#version'):
            continue
        pair = merge.split(' ') if isinstance(merge, str) else merge
        if not (isinstance(pair, list) and len(pair) == 2 and all(a_text(half) and half in vocab for half in pair)
                and ''.join(pair) in vocab):
            raise Problem(model.path,
                          'model.merges[%d] cannot be used (found %.60r, expected two tokens that are one together)'
                          % (i, merge))
        pairs[tuple(pair)] = i  # of two places of a pair the last one counts
    return sorted(pairs, key=pairs.get)


def by_id(path, vocab):
    """The vocabulary as tokens in the order of their ids. Where an id has no token (tiktoken's cl100k and o200k leave
    some out in front of their special ones) stands an unused one."""
    tokens = [[b'', 0.0, UNUSED] for _ in range(max(vocab.values()) + 1)]
    for text, id in vocab.items():
        tokens[id] = [spelled(path, text), 0.0, NORMAL]
    return tokens


def put_added(token, tokens, entry):
    """Puts a token that is not of the vocabulary in its place, which may be a hole."""
    id = token.values['id']
    tokens += [[b'', 0.0, UNUSED] for _ in range(id + 1 - len(tokens))]
    if tokens[id][0]:
        token.refuse('id', 'an id that no token of the vocabulary has')
    tokens[id] = entry


def read_added_tokens(top, vocab, can=()):
    """The added tokens as Keys with content, id, special and normalized, after those of the vocabulary. What tokens
    that are not special `can` have is among their flags."""
    added, next_id = {}, len(vocab)
    listed = top.get('added_tokens', lambda v: isinstance(v, list) and all(isinstance(x, dict) for x in v),
                     'a list of objects', [], [])
    for i, values in enumerate(listed):
        token = top.within(values, 'added_tokens[%d].' % i)
        content = token.get('content', lambda v: a_text(v) and v not in added, 'a text that was not added before')
        id = vocab.get(content, next_id)  # what the library gives it, whatever the file says
        token.get('id', lambda v: v == id and type(v) is int, 'the id %d' % id)
        next_id = max(next_id, id + 1)
        special = token.flag('special', False)
        for flag in 'single_word', 'lstrip', 'rstrip':
            if token.flag(flag, False) and not special and flag not in can:  # special ones are not sought in text
                token.refuse(flag, 'false')
        token.flag('normalized', True)
        finished(token)
        added[content] = token
    return added


# What says where tokens lie in a text, and not which.
ABOUT_PLACES = 'add_prefix_space', 'trim_offsets', 'use_regex'


def read_post_processor(top, tokens):
    """The id of the token that is put before a text, or -1."""
    bos_id = -1
    for step in steps(top, 'post_processor', 'processors'):
        step.only('type', 'ByteLevel', 'TemplateProcessing')
        if step.values.get('type') != 'TemplateProcessing':
            # About places in the text, not about ids.
            step.asked.update(ABOUT_PLACES)
            finished(step)
            continue
        step.asked.update(ABOUT_PLACES)  # left over from a ByteLevel, which the library passes over
        single = step.get('single', lambda v: isinstance(v, list) and all(isinstance(x, dict) for x in v),
                          'a list of objects')
        names = [x['SpecialToken'].get('id') if isinstance(x.get('SpecialToken'), dict) else None for x in single]
        if names.count(None) != 1 or 'Sequence' not in single[names.index(None)] or names.index(None) > 1:
            step.refuse('single', 'the text, with one token before it at most')
        if single[-1] is not single[names.index(None)]:
            step.job.note('%ssingle puts a token behind the text, which is not done: a prompt is never ended'
                     % step.inside)
        step.asked.add('pair')
        step.get('special_tokens', lambda v: isinstance(v, dict), 'an object', {})
        if names[0] is not None:
            token = inner(inner(step, 'special_tokens'), str(names[0]))
            ids = token.get('ids', lambda v: isinstance(v, list) and len(v) == 1 and type(v[0]) is int and
                            0 <= v[0] < len(tokens), 'one token id')
            bos_id = ids[0]
        finished(step)
    return bos_id


def spelled(path, text):
    """A token's text in UTF-8."""
    try:
        return text.encode('utf-8')
    except UnicodeEncodeError:
        raise Problem(path, 'token %a is not text' % text[:40])


# ---- byte-level: the vocabulary is spelled in an alphabet of bytes ----

def read_bytelevel(top, model, vocab, merges):
    split, prefix = read_pre_tokenizer(top)
    normalizers = steps(top, 'normalizer', 'normalizers')
    for step in normalizers:
        step.get('type', lambda v: v in FORMS and len(normalizers) == 1 and not prefix,
                 'NFC or NFKC alone, or no normalizer')
        finished(step)
    form = sum(FORMS[step.values['type']] for step in normalizers)
    decoder = inner(top, 'decoder')
    decoder.get('type', lambda v: v == 'ByteLevel', '"ByteLevel"')
    decoder.asked.update(('add_prefix_space', 'trim_offsets', 'use_regex'))  # which mean nothing to a decoder
    finished(decoder)
    model.only('byte_fallback', False)
    ignore_merges = model.flag('ignore_merges', False)

    # A token that is not spelled in the alphabet can only be decoded: nothing merges to it.
    tokens = by_id(top.path, vocab)
    for text, id in vocab.items():
        tokens[id][0] = bytes_of(text)
    merges = [(vocab[a], vocab[b], vocab[a + b]) for a, b in merges if tokens[vocab[a + b]][0] is not None]
    for text, id in vocab.items():
        if tokens[id][0] is None:
            tokens[id] = [spelled(top.path, text), 0.0, UNUSED]
    missing = missing_bytes(tokens)
    if missing and model.values.get('unk_token') is not None:
        model.refuse('unk_token', 'null, since %d bytes have no token' % missing)
    if missing:
        top.job.note('%s has no tokens for %d bytes: they are left out of texts, as by the library'
                 % (top.path, missing))

    made, spelt = {merged for _, _, merged in merges}, {text: id for id, (text, _, _) in enumerate(tokens)}
    for text, token in read_added_tokens(top, vocab).items():
        raw, id, special = spelled(top.path, text), token.values['id'], token.values.get('special')
        if text not in vocab:
            put_added(token, tokens, [raw, 0.0, CONTROL if special else USER_DEFINED])
            # It is cut out of every text: what merges would make the same comes up no more.
            if raw in spelt and not special:
                tokens[spelt[raw]][2] = UNUSED
            continue
        if tokens[id][0] != raw:
            token.refuse('content', 'plain ASCII, since the vocabulary has it in its alphabet of bytes')
        if special and (id in made or len(raw) == 1 or ignore_merges and can_be_a_word(text)):
            token.refuse('special', 'false for a token that ordinary text may have')
        tokens[id][2] = CONTROL if special else USER_DEFINED
    if normalizers:
        demand_raw(top)
    check_user_defined(top, prefix)
    check_spellings(top.path, tokens)
    merges = [merge for merge in merges if all(tokens[id][2] != UNUSED for id in merge)]
    flags = PREFIX * prefix + IGNORE_MERGES * ignore_merges + (BY_PARTS * bool(form) + form)
    return {'kind': 1, 'tokens': tokens, 'flags': flags, 'unk_id': -1, 'split': split, 'merges': merges}


def can_be_a_word(text):
    """Whether a pattern may cut a text into words of which one is this. No word of any pattern goes on behind its
    letters or digits with a sign, but for an apostrophe, so that [INST], <s> and <|im_end|> are none."""
    kinds = [unicodedata.category(c)[0] for c in text]
    first = next((i for i, kind in enumerate(kinds) if kind in 'LN'), len(text))
    return all(kind in 'LMN' or c == "'" for c, kind in zip(text[first:], kinds[first:]))


def demand_raw(top):
    """Tokens that are sought in text are cut out of it before it is put in order: those that are normalized would be
    sought behind that."""
    for i, token in enumerate(top.values.get('added_tokens') or []):
        if token.get('normalized', True) and not token.get('special'):
            top.within(token, 'added_tokens[%d].' % i).refuse('normalized', 'false')


def read_pre_tokenizer(top):
    """The split pattern, and whether a space is put before the text."""
    *before, last = steps(top, 'pre_tokenizer', 'pretokenizers')
    last.only('type', 'ByteLevel')
    last.asked.add('trim_offsets')  # about places in the text, not about ids
    prefix, own_regex = last.flag('add_prefix_space', True), last.flag('use_regex', True)
    finished(last)
    if before and prefix:
        last.refuse('add_prefix_space', 'false behind another step')
    split, found = GPT2 if own_regex else None, ()
    for step in before:
        step.only('type', 'Split', 'Digits')
        if own_regex != (step.values.get('type') == 'Digits'):
            step.refuse('type', 'either Digits before a ByteLevel with use_regex, or Split before one without')
        if own_regex:
            step.get('individual_digits', lambda v: v is True, 'true')
            split = DIGITS_GPT2
        else:
            pattern, so_far = inner(step, 'pattern'), found
            found += pattern.get(
                'Regex', lambda v: any((*so_far, v) == known[:len(so_far) + 1] for known in SPLITS),
                "Llama 3's, Qwen 2's, GPT-4o's, Tekken's or GPT-2's pattern, or DeepSeek V3's three"),
            finished(pattern)
            invert = step.flag('invert')  # the pattern leaves nothing out, so what is kept is all the same
            step.get('behavior', lambda v: v == 'Isolated' or v == 'Removed' and invert and len(before) == 1,
                     '"Isolated"')
        finished(step)
    if own_regex and len(before) > 1 or found and found not in SPLITS:
        raise Problem(top.path, "pre_tokenizer cannot be used (found %d steps before the ByteLevel, expected one, a "
                      "Split or Digits, or DeepSeek V3's three)" % len(before))
    split = SPLITS.get(found, split)
    if not split:
        last.refuse('use_regex', 'true, or a Split before it')
    return split, prefix


def check_user_defined(top, prefix):
    """The library seeks normalized tokens where the others have left off; ours are all sought at once. It is the same
    unless one that is sought in text can overlap with one of the other sort."""
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
            raise Problem(top.path, 'added token %r has a space in front, where add_prefix_space may put one, too'
                          % text)
        for other in tokens:
            if other.get('normalized', True) != normalized and overlap(text, other['content']):
                raise Problem(top.path, 'added tokens %r and %r may overlap, and only one of them is normalized'
                              % (text, other['content']))


def overlap(a, b):
    return a in b or b in a or any(x.endswith(y[:n]) for x, y in ((a, b), (b, a)) for n in range(1, len(y)))


# ---- characters: sentencepiece's BPE as Hugging Face writes it down ----

def read_characters(top, model, vocab, merges, unknown):
    """A sentencepiece tokenizer out of a tokenizer.json such as Llama 2's."""
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
        # The library puts the space in front of every part of a text between such tokens, as Prepend says.
        if not special and flags & PREFIX_UNLESS_SPACE:
            token.refuse('special', 'true with a Metaspace')
        if not special and set(text) == {SPACE} and text in vocab:  # Gemma: sought in text as U+2581, and merges
            token.only('rstrip', False)                               # make it of spaces
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
    """How spaces are written, which has two spellings; the flags about the space in front."""
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
    """Gemma's files cut at spaces, when none is left."""
    step.get('pattern', lambda v: v == {'String': ' '}, '{"String": " "}')
    step.only('type', 'Split')
    step.only('behavior', 'MergedWithPrevious')
    step.only('invert', False)
    finished(step)


def score_merges(model, vocab, merges, tokens):
    """Gives scores such that sentencepiece's rule, the neighbours whose joined spelling has the best score come
    first, is the list of merges; refused when it is not. Two things make it so. (In which order the merges stand
    that make one token does not matter: only one of them ever comes up, which the merges of better tokens decide
    when they take the token's text.) Runs of spaces may be made in any order that `grow_from_the_left` knows."""
    def refuse(why, *what):
        raise Problem(model.path, "model.merges cannot be represented by sentencepiece's scores (%s)%s"
                      % (why % what, OTHER_WAYS))

    def cut_out(text):  # before there are merges, so nothing is made of it
        return text in vocab and tokens[vocab[text]][2] == USER_DEFINED

    listed, order, place, last = set(merges), {}, -1, None
    grow = grow_from_the_left([merge for merge in merges if is_run(merge[0] + merge[1])])
    for a, b in merges:
        if any(map(cut_out, (a, b, a + b))):
            continue
        # 1. The merges that make a token stand together; those that make runs of spaces do when these grow.
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
                refuse('%.40r and %.40r are no merge, but make a token', a, b)


def is_run(text):
    return len(text) > 1 and not text.strip(SPACE)


def grow_from_the_left(merges):
    """Whether merges of runs of spaces that do not stand together by tokens, as Gemma's and Llama 2's, do what one
    score for all runs does. With one score the leftmost pair goes first. So the first space of a run takes one space
    after the other, up to the longest token M, and then the next one does. The list does the same if a run of n
    (2 <= n < M) and a space come before two spaces. For behind full tokens M M ... there is one run that grows, and
    behind it are single spaces; nothing else can be made, as no token is longer than M.

    Beside that the runs' merges have to stand together, and what is made of a run and something else behind them.
    Then whatever is better than runs is made before them, of single spaces, whatever is worse is made of whole runs,
    and runs never meet again."""
    made, at = [a + b for a, b in merges], {(len(a), len(b)): i for i, (a, b) in enumerate(merges)}
    return len(set(made)) < len(list(groupby(made))) and all(
        at.get((n, 1), len(at)) <= at.get((1, 1), -1) for n in range(1, max(map(len, made))))
