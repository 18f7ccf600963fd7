"""tokenizer.bin, from the file that has the tokenizer, completed with the other files of its folder."""

from __future__ import annotations

import os
import re
import struct
from functools import wraps
from typing import Any, BinaryIO, Dict, Optional

from . import bytelevel
from .chat_template import default_system_prompt, template_of_folder
from .common import PROGRAM, REFUSED, Job, Keys, Problem, read_json, read_small
from .model import Model
from .sentencepiece import (BYTE, CONTROL, MAX_PIECE, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, Tokenizer,
                            checked_tokens, demand_bytes, read_sentencepiece, shown, unknown_token)
from .tokenizer_json import read_tokenizer_json


KIMIS = 'tiktoken.model'  # in folders of Kimi, instead of tokenizer.json
TEKKEN = 'tekken.json'  # read by Mistral's own library
OF_TEKKEN = ("is a tokenizer in Mistral's own form, which is not supported (expected the tokenizer.json or "
             "tokenizer.model "
             'of the same model beside it, as it is published for Hugging Face)')
BYTE_SPELLING = re.compile(rb'<0x[0-9A-F]{2}>')


def read_tokenizer(job: Job, path: str) -> Tokenizer:
    """The tokenizer in a file, whose format its first bytes tell: tokens as [text, score, type], and the trailer's
    fields."""
    start = read_small(job, path)[:4096]
    if os.path.basename(path) == TEKKEN:
        raise Problem(path, OF_TEKKEN)
    if start.lstrip(b'\xef\xbb\xbf \t\r\n')[:1] == b'{' or path.endswith('.json'):
        return read_tokenizer_json(job, path)
    if re.match(rb'[A-Za-z0-9+/]+=* [0-9]+\r?\n', start):  # tiktoken's: a token in base64 and its rank
        return bytelevel.read_tiktoken(job, path)
    return read_sentencepiece(job, path)


def or_without(read):
    """Makes a reader of a model's tokenizer return None if the tokenizer is refused, with a note of the reason: the
    model is useful without it."""
    @wraps(read)
    def read_or_note(job, *arguments):
        try:
            return read(job, *arguments)
        except Problem as problem:
            job.note('warning: no tokenizer written: %s; without one %s reads token ids (--ppl FILE --ids), and '
                     '--explain, --engines, --rope-json, --bench and --check --settings need none' % (problem, PROGRAM))
            return None
    return read_or_note


@or_without
def read_folder_tokenizer(job: Job, folder: str, model: Model) -> Optional[Tokenizer]:
    """The tokenizer of a folder, or None and a note."""
    found = [name for name in ('tokenizer.model', 'tokenizer.json', KIMIS)
             if os.path.exists(os.path.join(folder, name))]
    if found[1:] and takes_spaces(job, folder):
        del found[0]
    if not found and os.path.exists(os.path.join(folder, TEKKEN)):
        raise Problem(os.path.join(folder, TEKKEN), OF_TEKKEN)
    if not found:
        job.note('no tokenizer written, since %s has no tokenizer.model or tokenizer.json' % folder)
        return None
    path = os.path.join(folder, found[0])
    tokenizer = kimi_tokenizer(job, folder, path) if found[0] == KIMIS else read_tokenizer(job, path)
    if found[0] == 'tokenizer.model' and not tokenizer.get('kind'):
        complete(job, folder, path, tokenizer, model)
    else:  # the others contain their added tokens
        if found[0] == 'tokenizer.json' and tokenizer['bos_id'] < 0:
            tokenizer['bos_id'] = added_bos(job, folder, tokenizer['tokens'])
        fill_up(job, path, tokenizer, model.vocab_size)
    tokenizer['eos_ids'] = model.eos_ids or tokenizer['eos_ids']
    tokenizer['system_prompt'] = default_system_prompt(template_of_folder(job, folder))
    return tokenizer


def added_bos(job, folder, tokens):
    """The BOS that tokenizer_config.json asks for with add_bos_token if post_processor adds none: the classes of Llama
    and Gemma put it in Transformers 4, and llama.cpp's converter does; Transformers 5.24 does not. -1: none."""
    path = os.path.join(folder, 'tokenizer_config.json')
    config = read_json(job, path) if os.path.exists(path) else Keys(job, path, {})
    if not config.flag('add_bos_token', False, False):
        return -1
    bos = config.values.get('bos_token')
    text = bos.get('content') if isinstance(bos, dict) else bos
    named = [id for id, (spelling, _, kind) in enumerate(tokens)
             if kind == CONTROL and isinstance(text, str) and spelling == text.encode('utf-8', 'replace')]
    if not named:
        config.refuse('bos_token', 'a special token of tokenizer.json, since add_bos_token is true')
    job.note('a BOS is put before texts: tokenizer_config.json has add_bos_token, though tokenizer.json puts none (as '
             'in Transformers 4 and llama.cpp, and not in Transformers 5)')
    return named[0]


def kimi_tokenizer(job: Job, folder: str, path: str) -> Tokenizer:
    """The tokenizer in tiktoken.model. Its pattern is in the code that is published with it, which
    tokenizer_config.json names.
    """
    config = read_json(job, os.path.join(folder, 'tokenizer_config.json'))
    code = config.get('auto_map', lambda v: isinstance(v, dict) and 'tokenization_kimi' in str(v.get('AutoTokenizer')),
                      "an AutoTokenizer of tokenization_kimi, since tiktoken.model does not say its pattern")
    return bytelevel.read_kimi(job, path, added_tokens(folder, config)) if code else {}


def takes_spaces(job, folder):
    """Whether there are added tokens that absorb the spaces around them in a text: only tokenizer.json defines the
    library's behavior there, and in the parts between."""
    path = os.path.join(folder, 'tokenizer_config.json')
    added = read_json(job, path).values.get('added_tokens_decoder') if os.path.exists(path) else None
    return isinstance(added, dict) and any(isinstance(token, dict) and not token.get('special') and
                                           (token.get('rstrip') or token.get('lstrip')) for token in added.values())


def fill_up(job, path, tokenizer, vocab_size):
    """Gives the tokenizer as many tokens as the model has: unused ones at the end, or fewer of the added ones."""
    tokens = tokenizer['tokens']
    if len(tokens) > vocab_size:
        merged = (id for merge in tokenizer.get('merges', ()) for id in merge)
        needed = {tokenizer['bos_id'], tokenizer['unk_id'], *merged}
        if max(needed) >= vocab_size or any(kind not in (CONTROL, USER_DEFINED) for _, _, kind in tokens[vocab_size:]):
            raise Problem(path, 'has more tokens than the model (found %d, expected at most %d)'
                          % (len(tokens), vocab_size))
        job.note('added tokens from %d on, %s, are left out: the model has none'
                 % (vocab_size, shown(tokens[vocab_size][0])))
        del tokens[vocab_size:]
        tokenizer['eos_ids'] = [id for id in tokenizer['eos_ids'] if id < vocab_size]
    tokens += [[b'', 0.0, UNUSED]] * (vocab_size - len(tokens))


def complete(job, folder, source, tokenizer, model):
    """Completes tokenizer.model with the other files of its folder."""
    path = os.path.join(folder, 'tokenizer_config.json')
    config = read_json(job, path) if os.path.exists(path) else Keys(job, path, {})
    tokens, n_pieces, vocab_size = tokenizer['tokens'], len(tokenizer['tokens']), model.vocab_size
    fill_up(job, source, tokenizer, vocab_size)
    for id, text, special in added_tokens(folder, config):
        kind = CONTROL if special else USER_DEFINED
        if id < n_pieces and tokens[id][0] != text:
            raise Problem(path, 'added token %d is another one in tokenizer.model (found %s, expected %s)'
                          % (id, shown(text), shown(tokens[id][0])))
        if id < vocab_size:
            own = tokens[id][2]  # Gemma's turn tokens are user-defined in tokenizer.model
            tokens[id] = [text, tokens[id][1], kind if own in (NORMAL, UNUSED, USER_DEFINED) else own]
        else:
            job.note('added token %d, %s, is left out: the model has only %d' % (id, shown(text), vocab_size))
    if not config.flag('add_bos_token', True, True):
        tokenizer['bos_id'] = -1
    if not config.flag('add_prefix_space', True, True):
        tokenizer['flags'] &= ~1
    if config.flag('add_eos_token', False, False):
        job.note('add_eos_token of tokenizer_config.json is not used: a prompt is never ended')


def added_tokens(folder, config):
    """(id, text, special) of every token that tokenizer_config.json, or added_tokens.json without it, adds."""
    path, found = os.path.join(folder, 'added_tokens.json'), []
    if config.get('added_tokens_decoder', lambda v: isinstance(v, dict), 'an object', None, None):
        for id, entry in config.values['added_tokens_decoder'].items():
            entry = config.within(entry if isinstance(entry, dict) else {}, 'added_tokens_decoder.%s.' % id)
            special = entry.flag('special', False)
            for flag in () if special else ('lstrip', 'rstrip', 'single_word'):  # not looked up in text
                entry.only(flag, False)
            found.append((id, entry.get('content', lambda v: isinstance(v, str) and v, 'a text'), special))
    elif os.path.exists(path):  # from before added_tokens_decoder
        config = read_json(config.job, path)
        found = [(str(id), text, False) for text, id in config.values.items()]
    if not all(id.isdecimal() and len(id) < 10 and 0 < len(text.encode('utf-8', 'replace')) <= MAX_PIECE
               for id, text, _ in found):
        raise Problem(config.path, 'added tokens need an id and a text each, of at most %d bytes' % MAX_PIECE)
    return sorted((int(id), text.replace('\u2581', ' ').encode('utf-8', 'replace'), special)
                  for id, text, special in found)


@or_without
def read_gguf_tokenizer(job: Job, path: str, metadata: Dict[str, Any], model: Model) -> Optional[Tokenizer]:
    """The tokenizer in a GGUF file, or None and a note."""
    keys = Keys(job, path, {key[15:]: value for key, value in metadata.items() if key.startswith('tokenizer.ggml.')},
                'tokenizer.ggml.')
    kind = keys.values.get('model')
    if kind == 'gpt2':
        tokenizer = bytelevel.read_gguf(job, path, keys.values)
    elif kind == 'llama':
        tokenizer = sentencepiece_of_gguf(path, keys)
    else:
        job.note('no tokenizer written, since %s has %s' % (
            path, 'one of kind %.40r, which is not read' % kind if kind else 'none'))
        return None
    fill_up(job, path, tokenizer, model.vocab_size)
    # Defaults: llama.cpp's for the kind and the split.
    if not keys.flag('add_bos_token', kind == 'llama' or keys.values.get('pre') in bytelevel.WHOLE_WORDS):
        tokenizer['bos_id'] = -1
    if keys.flag('add_eos_token', False):
        job.note('tokenizer.ggml.add_eos_token is not used: a prompt is never ended')
    tokenizer['eos_ids'] = model.eos_ids or tokenizer['eos_ids']
    template = metadata.get('tokenizer.chat_template')
    template = template.decode('utf-8', 'replace') if isinstance(template, bytes) else template
    tokenizer['system_prompt'] = default_system_prompt(template) if isinstance(template, str) else ''
    return tokenizer


def sentencepiece_of_gguf(path, keys):
    """The tokenizer of kind `llama`. Missing keys have llama.cpp's defaults."""
    texts, scores, kinds = (keys.get(key, lambda v: isinstance(v, list) and v and isinstance(v[0], kind), 'a list',
                                     default)
                            for key, kind, default in (('tokens', bytes, REFUSED), ('scores', (float, int), None),
                                                       ('token_type', int, None)))
    n = len(texts)
    scores = [0.0] * n if scores is None else scores
    bos_id, eos_id = keys.token('bos_token_id', n, 1), keys.token('eos_token_id', n, 2)
    if kinds is None:
        kinds = [CONTROL if id in (bos_id, eos_id) else NORMAL for id in range(n)]
    if not n == len(scores) == len(kinds):
        raise Problem(path, 'tokenizer.ggml.tokens, scores and token_type do not fit together (found %d, %d and %d)'
                      % (n, len(scores), len(kinds)))
    if keys.flag('remove_extra_whitespaces', False):
        keys.job.note('tokenizer.ggml.remove_extra_whitespaces is not used, as in llama.cpp')
    # Empty texts get llama.cpp's name: no text contains such a token.
    pieces = [(text, score, kind) if text else (b'[EMPTY_%d]' % id, score, UNUSED)
              for id, (text, score, kind) in enumerate(zip(texts, scores, told_kinds(keys, texts, kinds)))]
    # llama.cpp's converter unescapes the spaces of user-defined tokens, which are looked up in the text itself.
    tokens, _ = checked_tokens(path, pieces, (CONTROL, USER_DEFINED, UNUSED))
    fallback = any(token[2] == BYTE for token in tokens)
    demand_bytes(path, tokens, fallback, 'tokenizer.ggml.token_type')
    phi = any(token[0] == b'<|assistant|>' and token[2] == CONTROL for token in tokens)
    takes = [id for id, (text, _, kind) in enumerate(tokens) if phi and kind in (CONTROL, USER_DEFINED) and
             text not in (b'<s>', b'<|endoftext|>')]  # missing in the file: as in llama.cpp
    flags = keys.flag('add_space_prefix', True) + 2 * fallback + bytelevel.BY_PARTS * phi
    return {'tokens': tokens, 'flags': flags, 'takes_spaces': takes, 'bos_id': bos_id,
            'unk_id': unknown_token(path, tokens), 'eos_ids': [eos_id]}


def told_kinds(keys, texts, kinds):
    """The types of the tokens, where llama.cpp uses another criterion: bytes have a certain spelling, and the unknown
    token has an id, which in Gemma's files has the type of a control token."""
    kinds = [NORMAL if kind == bytelevel.UNDEFINED else kind for kind in kinds]
    spelled = [id for id, text in enumerate(texts) if BYTE_SPELLING.fullmatch(text)]
    if BYTE not in kinds and len(spelled) == 256:
        kinds = [BYTE if BYTE_SPELLING.fullmatch(text) else kind for text, kind in zip(texts, kinds)]
    typed = [id for id, kind in enumerate(kinds) if kind == UNKNOWN]
    unk_id = keys.token('unknown_token_id', len(texts), -1)
    if unk_id < 0:
        unk_id = typed[0] if len(typed) == 1 else texts.index(b'<unk>') if b'<unk>' in texts else 0
    kinds = [CONTROL if kind == UNKNOWN else kind for kind in kinds]
    kinds[unk_id] = UNKNOWN
    return kinds


def write_tokenizer(file: BinaryIO, tokenizer: Tokenizer) -> None:
    if tokenizer.get('kind'):
        return bytelevel.write_bytelevel_tokenizer(file, tokenizer)
    tokens, eos_ids = tokenizer['tokens'], tokenizer['eos_ids']
    file.write(struct.pack('<i', max(len(text) for text, _, _ in tokens)))
    for text, score, _ in tokens:
        file.write(struct.pack('<fi', score, len(text)) + text)
    file.write(struct.pack('<4s2I2iI%di' % len(eos_ids), b'TKT1', 0, bytelevel.flags_of(tokenizer),
                           tokenizer['bos_id'], tokenizer['unk_id'], len(eos_ids), *eos_ids))
    file.write(bytelevel.kinds_of(tokenizer) + bytelevel.last_words(tokenizer))
    file.flush()
