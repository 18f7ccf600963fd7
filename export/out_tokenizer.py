"""A tokenizer in other programs' terms: tokenizer.json and tokenizer_config.json, and GGUF's tokenizer.ggml.*."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from .bytelevel import (ALPHABET, BY_PARTS, BYTE_FALLBACK, DIGITS_GPT2, GGUF_SPLITS, GPT2, HIDE_UNUSED, IGNORE_MERGES,
                        LLAMA3, NFC, NFKC, PREFIX, PREFIX_UNLESS_SPACE, SPLITS, WHOLE_WORDS, bytes_of)
from .common import Job, Problem
from .model import Model
from .sentencepiece import CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, Tokenizer, shown

SPACE = '\u2581'  # how sentencepiece writes one
LETTERS = {byte: letter for letter, byte in ALPHABET.items()}
STRING, I32, F32, U32, BOOL, ARRAY = 8, 5, 6, 4, 7, 9  # GGUF's types


def spellings(path, tokenizer):
    """Each token in other programs' spelling, all different: normal byte-level tokens in GPT-2's alphabet,
    sentencepiece's with U+2581 for spaces. An unused token keeps its place under an arbitrary name."""
    tokens, bytelevel = tokenizer['tokens'], tokenizer.get('kind')
    texts, seen = [None] * len(tokens), set()

    def choices(id, data, kind):
        own = data.decode('utf-8', 'ignore')
        own = own if own.encode() == data else ''
        alphabet = ''.join(LETTERS[byte] for byte in data)
        if kind == UNUSED:
            yield '' if bytelevel and bytes_of(own) is not None else own if bytelevel else own.replace(' ', SPACE)
            yield alphabet if bytelevel else ''
            yield '[PAD%d]' % id
        elif kind in (CONTROL, USER_DEFINED):
            yield own
        else:
            yield alphabet if bytelevel else own.replace(' ', SPACE)

    for id in sorted(range(len(tokens)), key=lambda id: tokens[id][2] == UNUSED):
        data, _, kind = tokens[id]
        texts[id] = next((text for text in choices(id, data, kind) if text and text not in seen), None)
        if texts[id] is None:
            raise Problem(path, 'has a token %d that cannot be exported (found %s, which is not text, or is also '
                                'another token; --no-tokenizer leaves the tokenizer out)' % (id, shown(data)))
        seen.add(texts[id])
    return texts


def demand_fallback(path, tokenizer):
    if not tokenizer.get('kind') and (not tokenizer['flags'] & BYTE_FALLBACK or tokenizer['unk_id'] < 0):
        raise Problem(path, 'has a tokenizer without byte tokens or an unknown token, which cannot be carried out '
                      '(--no-tokenizer leaves it out)')


# ---- Hugging Face ----

def tokenizer_json(job: Job, path: str, tokenizer: Tokenizer) -> Dict[str, Any]:
    demand_fallback(path, tokenizer)
    if not tokenizer.get('kind'):
        tokenizer = with_runs_merged(path, tokenizer)
    texts, tokens = spellings(path, tokenizer), tokenizer['tokens']
    used = [id for id, (data, _, kind) in enumerate(tokens) if data and kind not in (CONTROL, USER_DEFINED)]
    size = max(used, default=-1) + 1  # after the last token that is neither added nor a filler, all are added or there
                                      # are none
    takes, symbols = (tokenizer.get(key, ()) for key in ('takes_spaces', 'as_symbols'))
    added = [{'id': id, 'content': texts[id], 'single_word': False, 'lstrip': False, 'rstrip': id in takes,
              'normalized': False, 'special': kind not in (NORMAL, USER_DEFINED)}
             for id, (_, _, kind) in enumerate(tokens) if kind in (CONTROL, USER_DEFINED, UNKNOWN) or id in symbols]
    ids = [entry['id'] for entry in added if entry['id'] >= size]
    if ids != list(range(size, size + len(ids))):  # the library numbers them from the end of the vocabulary
        size = max(ids) + 1
    parts = bytelevel_parts(path, tokenizer, texts) if tokenizer.get('kind') else character_parts(job, path, tokenizer,
                                                                                                        texts)
    model = {'type': 'BPE', 'dropout': None, 'unk_token': None, 'continuing_subword_prefix': None,
             'end_of_word_suffix': None, 'fuse_unk': False, 'byte_fallback': False, 'ignore_merges': False,
             'vocab': {text: id for id, text in enumerate(texts[:size])}}
    model.update(parts.pop('model'))
    bos = texts[tokenizer['bos_id']] if tokenizer['bos_id'] >= 0 else None
    start = [{'SpecialToken': {'id': bos, 'type_id': 0}}] if bos else []
    post = {'type': 'TemplateProcessing', 'single': start + [{'Sequence': {'id': 'A', 'type_id': 0}}],
            'pair': start + [{'Sequence': {'id': 'A', 'type_id': 0}}] + [
                {kind: {**value, 'type_id': 1}} for part in start + [{'Sequence': {'id': 'B'}}]
                for kind, value in part.items()],
            'special_tokens': {bos: {'id': bos, 'ids': [tokenizer['bos_id']], 'tokens': [bos]}} if bos else {}}
    return {'version': '1.0', 'truncation': None, 'padding': None, 'added_tokens': added, **parts,
            'post_processor': post if bos else None, 'model': model}


def with_runs_merged(path, tokenizer):
    """Replaces runs of spaces that are cut out of texts (Gemma's tokenizer.model) by merges. The library would look
    them up in the text itself, where spaces and U+2581 differ. Merges with priority over all others, in which the
    first space of a run absorbs one after the other, have the same result: the longest runs, from the left."""
    tokens, flags = tokenizer['tokens'], tokenizer['flags']
    sought = [id for id, (text, _, kind) in enumerate(tokens) if kind == USER_DEFINED and b' ' in text]
    runs = [id for id in sought if not tokens[id][0].strip(b' ')]
    if not runs or flags & BY_PARTS:
        return tokenizer
    normal = [token for token in tokens if token[2] == NORMAL]
    if (sorted(len(tokens[id][0]) for id in runs) != list(range(2, len(runs) + 2)) or len(sought) > len(runs) or
            not any(text == b' ' for text, _, _ in normal) or any(b'  ' in text for text, _, _ in normal)):
        raise Problem(path, 'has a tokenizer that tokenizer.json cannot express: runs of spaces are cut out of '
                            'texts, and '
                      'are not of 2, 3, 4 ... spaces beside tokens without two spaces (--no-tokenizer leaves it out)')
    best, tokens = max(score for _, score, _ in normal), list(tokens)
    for id in runs:
        tokens[id] = [tokens[id][0], best + len(tokens[id][0]), NORMAL]
    return {**tokenizer, 'tokens': tokens}


def bytelevel_parts(path, tokenizer, texts):
    split, flags = tokenizer['split'], tokenizer['flags']
    own_regex = split in (GPT2, DIGITS_GPT2)
    last = {'type': 'ByteLevel', 'add_prefix_space': bool(flags & PREFIX), 'trim_offsets': True,
            'use_regex': own_regex}
    if flags & PREFIX and split != GPT2:
        raise Problem(path, "has a tokenizer that puts a space before texts, which only GPT-2's pattern can have there")
    patterns = [] if own_regex else next(patterns for patterns, number in SPLITS.items() if number == split)
    before = [{'type': 'Digits', 'individual_digits': True}] * (split == DIGITS_GPT2) + [
        {'type': 'Split', 'pattern': {'Regex': regex}, 'behavior': 'Isolated', 'invert': False} for regex in patterns]
    merges = ['%s %s' % (texts[a], texts[b]) for a, b, _ in tokenizer['merges']]
    return {'normalizer': {'type': 'NFKC' if flags & NFKC else 'NFC'} if flags & NFC else None,
            'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': before + [last]} if before else last,
            'decoder': {'type': 'ByteLevel', 'add_prefix_space': True, 'trim_offsets': True, 'use_regex': True},
            'model': {'merges': merges, 'ignore_merges': bool(flags & IGNORE_MERGES)}}


def character_parts(job, path, tokenizer, texts):
    """sentencepiece's rule (of all neighbors, the pair whose joined spelling has the best score comes first) as a list
    of merges."""
    flags, tokens = tokenizer['flags'], tokenizer['tokens']
    kinds = {kind for data, _, kind in tokens if data}
    by_parts = flags & BY_PARTS or USER_DEFINED not in kinds
    if flags & PREFIX and not by_parts:
        job.note('in tokenizer.json a text that begins with a space gets no other before it, since its tokenizer '
                 'has tokens that are sought in text')
    if UNUSED in kinds and not flags & HIDE_UNUSED:
        job.note('in tokenizer.json merges do not pass through unused tokens, as in sentencepiece they do')
    replace = {'type': 'Replace', 'pattern': {'String': ' '}, 'content': SPACE}
    if flags & PREFIX and (flags & PREFIX_UNLESS_SPACE or not by_parts):
        start = {'normalizer': None, 'pre_tokenizer': {'type': 'Metaspace', 'replacement': SPACE,
                                                       'prepend_scheme': 'first', 'split': False}}
    elif flags & PREFIX:
        start = {'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'Prepend', 'prepend': SPACE}, replace]},
                 'pre_tokenizer': None}
    else:
        start = {'normalizer': replace, 'pre_tokenizer': None}
    decoders = [{'type': 'Replace', 'pattern': {'String': SPACE}, 'content': ' '}, {'type': 'ByteFallback'},
                {'type': 'Fuse'}] + [{'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}] * bool(flags & PREFIX)
    return {**start, 'decoder': {'type': 'Sequence', 'decoders': decoders},
            'model': {'merges': merges_of(path, tokens, texts), 'unk_token': texts[tokenizer['unk_id']],
                      'fuse_unk': True, 'byte_fallback': True}}


def merges_of(path, tokens, texts):
    """All pairs of tokens that make one, those of the best token first. The pairs of one token may be in any order (see
    score_merges). A list cannot express two tokens with the same score that can both be made, or a character that is
    not a token. Runs of one character (Llama 2's spaces) are the exception: sentencepiece merges the leftmost pair,
    so the first run grows, and a list with the longest runs first does the same."""
    normal = {text: score for text, (_, score, kind) in zip(texts, tokens) if kind == NORMAL}
    merges, made_at = [], {}
    for text in sorted((text for text in normal if len(text) > 1), key=lambda text: (-normal[text], -len(text))):
        pairs = [(text[:i], text[i:]) for i in range(1, len(text))]
        found = ['%s %s' % pair for pair in pairs if pair[0] in normal and pair[1] in normal]
        lone = next((half for pair in pairs for half, other in (pair, pair[::-1])
                     if len(half) == 1 and half not in normal and (len(other) == 1 or other in normal)), None)
        twin = made_at.setdefault(normal[text], text) if found else text
        if lone or twin != text and not (len(set(text)) == 1 and set(text) == set(twin)):
            raise Problem(path, 'has a tokenizer that tokenizer.json cannot express: token %r %s (--no-tokenizer '
                                'leaves it '
                          'out)' % (text[:40], 'is made of %r, which is not a token' % lone if lone else
                                    'scores as %r does' % twin[:40]))
        merges += found
    return merges


def tokenizer_config(tokenizer: Tokenizer, model: Model, ends: List[int]) -> Dict[str, Any]:
    tokens = tokenizer['tokens']
    named = {'bos_token': tokenizer['bos_id'], 'eos_token': ends[0] if ends else -1, 'unk_token': tokenizer['unk_id']}
    return {'tokenizer_class': 'PreTrainedTokenizerFast', 'model_max_length': model.seq_len,
            'clean_up_tokenization_spaces': False,
            **{name: tokens[id][0].decode('utf-8', 'replace') if id >= 0 else None for name, id in named.items()}}


# ---- GGUF ----

def gguf_tokenizer(job: Job, tokenizer: Optional[Tokenizer], model: Model) -> Dict[str, Tuple[int, Any]]:
    """{key: (type, value)}; the value of a list is (type of its items, items)."""
    ends = list(dict.fromkeys(model.eos_ids + (tokenizer['eos_ids'] if tokenizer else [])))
    bos_id = tokenizer['bos_id'] if tokenizer and tokenizer['bos_id'] >= 0 else model.bos_id
    ids = {'bos': bos_id, **dict(zip(('eos', 'eot', 'eom'), ends))}
    if ends[3:]:
        job.note('a GGUF file has place for three end tokens: %s are left out' % ends[3:])
    settings = {'%s_token_id' % name: (U32, id) for name, id in ids.items() if id >= 0}
    if tokenizer:
        settings.update(gguf_lists(job, tokenizer, spellings('the tokenizer', tokenizer)))
        settings['add_bos_token'] = BOOL, tokenizer['bos_id'] >= 0
    else:
        settings['model'] = STRING, 'no_vocab'
    return {'tokenizer.ggml.' + key: value for key, value in settings.items()}


def gguf_lists(job, tokenizer, texts):
    demand_fallback('the tokenizer', tokenizer)
    tokens, flags = tokenizer['tokens'], tokenizer['flags']
    lists = {'tokens': (ARRAY, (STRING, [text.encode() for text in texts])),
             'token_type': (ARRAY, (I32, [kind for _, _, kind in tokens]))}
    if not tokenizer.get('kind'):
        if tokenizer.get('as_symbols'):
            job.note('llama.cpp takes U+2581 for a space everywhere, where the tokenizer tells them apart')
        if flags & PREFIX_UNLESS_SPACE:
            job.note('llama.cpp also puts a space before a text that begins with one')
        return {**lists, 'model': (STRING, 'llama'), 'pre': (STRING, 'default'),
                'scores': (ARRAY, (F32, [score for _, score, _ in tokens])),
                'unknown_token_id': (U32, tokenizer['unk_id']), 'add_space_prefix': (BOOL, bool(flags & PREFIX))}
    if flags & NFC:
        job.note('llama.cpp does not normalize texts (%s), as the tokenizer asks for' % (
            'NFKC' if flags & NFKC else 'NFC'))
    if flags & PREFIX:
        job.note('llama.cpp does not put a space before texts, as the tokenizer asks for')
    split, ignores = tokenizer['split'], bool(flags & IGNORE_MERGES)
    pre = 'smaug-bpe' if split == LLAMA3 and not ignores else next(
        name for name, number in GGUF_SPLITS.items() if number == split)
    if ignores != (pre in WHOLE_WORDS):
        job.note('llama.cpp merges words that are tokens with pattern %s, which the tokenizer does not' % pre)
    merges = ['%s %s' % (texts[a], texts[b]) for a, b, _ in tokenizer['merges']]
    return {**lists, 'model': (STRING, 'gpt2'), 'pre': (STRING, pre),
            'merges': (ARRAY, (STRING, [merge.encode() for merge in merges])), 'add_space_prefix': (BOOL, False)}
