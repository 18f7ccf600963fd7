"""Hugging Face's tokenizer.json: a pipeline of many possible parts. This module reads the parts that models of Llama's
architecture have; all other keys in the file, known or new, are refused, so that no tokenizer is a silent
approximation. Byte-level ones are read here; characters.py has those that do what sentencepiece does (Llama 2)."""

from __future__ import annotations

import json
import unicodedata

from .bytelevel import (BY_PARTS, DIGITS_GPT2, FORMS, GPT2, IGNORE_MERGES, PREFIX, SPLITS, bytes_of, check_spellings,
                        missing_bytes)
from .characters import read_characters
from .common import MAX_VOCAB, Job, Problem, read_json
from .json_parts import (a_text, by_id, check_user_defined, demand_raw, finished, inner, put_added, read_added_tokens,
                         spelled, steps)
from .sentencepiece import CONTROL, UNUSED, USER_DEFINED, Tokenizer

MAX_MERGES, MOST_HOLES = 1 << 24, 1 << 16
# Control tokens that end a text or a turn, for models without a config.json that names them.
END_TOKENS = ('</s>', '<|end_of_text|>', '<|eot_id|>', '<|eom_id|>', '<|endoftext|>', '<|im_end|>', '<eos>',
              '<end_of_turn>', '[|endofturn|]')


def read_tokenizer_json(job: Job, path: str) -> Tokenizer:
    """The tokenizer in the form of read_sentencepiece, with `kind` 1, `split` and `merges` if it is byte-level."""
    top = read_json(job, path)
    top.get('version', lambda v: v == '1.0', '"1.0"', None)
    for key in 'truncation', 'padding':
        if top.get(key, lambda v: isinstance(v, dict), 'an object', None, None):
            job.note('%s of %s is not used: a text is encoded as it is' % (key, path))
    model = inner(top, 'model')
    model.only('type', 'BPE')  # very old files do not have it
    model.only('dropout', None, 0.0, 0)
    for key in 'continuing_subword_prefix', 'end_of_word_suffix':
        model.only(key, None, '')
    vocab = read_vocab(model)
    merges = read_merges(model, vocab)
    unknown = model.get('unk_token', a_text, 'a token', None, None)
    model.get('fuse_unk', lambda v: type(v) is bool, 'true or false', False)  # without effect: see below
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


def read_vocab(model):
    """The tokens and their ids, some of which may be missing."""
    vocab = model.get('vocab', lambda v: isinstance(v, dict) and 0 < len(v) <= MAX_VOCAB, 'tokens and their ids')
    most, seen = min(MAX_VOCAB, 2 * len(vocab) + MOST_HOLES) - 1, {}
    for token, id in vocab.items():
        if type(id) is not int or not 0 <= id <= most:
            raise Problem(model.path, '%svocab: the token %.40r cannot be used (found %s for it, expected an id from 0 '
                          'to %d)' % (model.inside, token, json.dumps(id)[:40], most))
        if id in seen:
            raise Problem(model.path, '%svocab: the token %.40r cannot be used (found the id %d, which %.40r also has)'
                          % (model.inside, token, id, seen[id]))
        seen[id] = token
    return vocab


def read_merges(model, vocab):
    """The pairs to merge, in their order, each a tuple of two tokens."""
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
        pairs[tuple(pair)] = i  # if a pair appears twice, its last place counts
    return sorted(pairs, key=pairs.get)


# Keys about the places of tokens in a text, which do not affect the tokens.
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
        step.asked.update(ABOUT_PLACES)  # left over from a ByteLevel; the library ignores them
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


# ---- byte-level: the vocabulary is spelled in an alphabet of bytes ----

def read_bytelevel(top, model, vocab, merges):
    split, prefix = read_pre_tokenizer(top)
    normalizers = steps(top, 'normalizer', 'normalizers')
    for step in normalizers:
        step.get('type', lambda v: v in FORMS and len(normalizers) == 1 and not prefix,
                 'only NFC or NFKC, or no normalizer')
        finished(step)
    form = sum(FORMS[step.values['type']] for step in normalizers)
    decoder = inner(top, 'decoder')
    decoder.get('type', lambda v: v == 'ByteLevel', '"ByteLevel"')
    decoder.asked.update(('add_prefix_space', 'trim_offsets', 'use_regex'))  # without effect in a decoder
    finished(decoder)
    model.only('byte_fallback', False)
    ignore_merges = model.flag('ignore_merges', False)

    # A token that is not spelled in the alphabet can only be decoded: no merges lead to it.
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
            # It is cut out of every text, so the same text can no longer result from merges.
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
    """Whether a pattern can produce this text as a word. In no pattern does a word continue after its letters or digits
    with a sign, except an apostrophe, so [INST], <s> and <|im_end|> are not words."""
    kinds = [unicodedata.category(c)[0] for c in text]
    first = next((i for i, kind in enumerate(kinds) if kind in 'LN'), len(text))
    return all(kind in 'LMN' or c == "'" for c, kind in zip(text[first:], kinds[first:]))


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
            invert = step.flag('invert')  # the pattern covers the whole text, so the kept part is the same
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
