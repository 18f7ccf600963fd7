"""Byte-level BPE vocabularies: the alphabet that spells bytes, the patterns that split a text into words, and the two
formats that contain only tokens and merges: tiktoken's ranks as Meta ships them, and GGUF's lists.
"""

from __future__ import annotations

import struct
import unicodedata
from base64 import b64decode
from typing import Any, BinaryIO, Dict, List, Optional, Tuple

from .common import REFUSED, Job, Keys, Problem, read_small
from .sentencepiece import CONTROL, MAX_PIECE, NORMAL, UNUSED, USER_DEFINED, Token, Tokenizer, shown
from .unicode_runs import CAPITALS, COMPATIBLE, MARKS, NORMALIZED, SMALL_LETTERS, code_points

# The split patterns of src/tokens/split.c.
LLAMA3, GPT2, DIGITS_GPT2, QWEN2, GPT4O, TEKKEN, DEEPSEEK, QWEN35, KIMI = range(1, 10)
(PREFIX, BYTE_FALLBACK, PREFIX_UNLESS_SPACE, IGNORE_MERGES, HIDE_UNUSED, BY_PARTS, NFC, NFKC,
 SYSTEM_PROMPT) = (1 << i for i in range(9))
FORMS = {'NFC': NFC, 'NFKC': NFC + NFKC}  # Unicode's normalization forms, by their names in tokenizer.json
TAKES_SPACES, AS_SYMBOLS = 16, 32  # flags in the byte of a token's type

CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s"
         r"|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# Kimi's pattern, in which words with Chinese characters contain no cased letters.
WITHOUT_HAN = (r"[\p{Han}]+|" + CASED.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]").replace(r"[\r\n/]*", r"[\r\n]*"))
REGEXES = {
    WITHOUT_HAN % ("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?", '{1,3}'): KIMI,
    CASED % ("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?", '{1,3}'): GPT4O,
    CASED % ('', '', ''): TEKKEN,
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+": LLAMA3,
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+": QWEN2,
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+": QWEN35,
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": GPT2}
# Single patterns, and the three of DeepSeek V3, which are applied one after the other: numbers, CJK, the rest.
SPLITS: Dict[Tuple[str, ...], int] = {(regex,): number for regex, number in REGEXES.items()}
SPLITS[
    r"\p{N}{1,3}", '[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+',
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^CRLF\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[CRLF]*"""
    r"|\s*[CRLF]+|\s+(?!\S)|\s+".replace('CRLF', '\r\n')] = DEEPSEEK
BY_CASE = GPT4O, TEKKEN, KIMI  # patterns that distinguish capitals from small letters

# Llama 3's control tokens, in order from id 128000 (Meta's llama-models, 2025). Llama 3 and 3.1 have the same
# tokenizer.model with some of these still called reserved; the ids of those that are in use were never changed.
LLAMA3_RANKS = 128000
KIMI_CONTROL = 256  # tokens after Kimi's ranks
LLAMA3_CONTROL = [
    '<|begin_of_text|>', '<|end_of_text|>', '<|reserved_special_token_0|>', '<|reserved_special_token_1|>',
    '<|finetune_right_pad_id|>', '<|step_id|>', '<|start_header_id|>', '<|end_header_id|>', '<|eom_id|>', '<|eot_id|>',
    '<|python_tag|>', '<|image|>'] + ['<|reserved_special_token_%d|>' % i for i in range(2, 246)]


def byte_alphabet():
    """GPT-2's characters for bytes: printable characters of Latin-1 represent themselves, the other bytes are mapped to
    U+0100 and up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{chr(byte): byte for byte in printable}, **{chr(256 + i): byte for i, byte in enumerate(others)}}


ALPHABET = byte_alphabet()


def bytes_of(text: str) -> Optional[bytes]:
    """The bytes of a token in a byte-level vocabulary, or None if it is not spelled in the alphabet."""
    try:
        return bytes(ALPHABET[c] for c in text)
    except KeyError:
        return None


def check_spellings(path: str, tokens: List[Token]) -> None:
    seen = set()
    for id, (text, _, kind) in enumerate(tokens):
        if not (kind == UNUSED or text) or len(text) > MAX_PIECE:  # an id without a token is unused
            raise Problem(path, 'token %d cannot be represented (found %d bytes, expected 1 to %d)'
                          % (id, len(text), MAX_PIECE))
        if kind != UNUSED and text in seen:
            raise Problem(path, 'token %d cannot be represented (found %s, which is also another token)'
                          % (id, shown(text)))
        if kind != UNUSED:
            seen.add(text)


def missing_bytes(tokens: List[Token]) -> int:
    return 256 - len({text for text, _, kind in tokens if kind in (NORMAL, USER_DEFINED) and len(text) == 1})


# ---- tiktoken's ranks, GGUF ----

def read_ranks(job: Job, path: str) -> Dict[bytes, int]:
    """Tokens and their ranks, which are their ids: a line for each, in base64 and with its rank. The pattern and the
    control tokens are not in the file."""
    ranks: Dict[bytes, int] = {}
    for i, line in enumerate(read_small(job, path).splitlines()):
        try:
            text, rank = line.split(b' ')
            token, id = b64decode(text, validate=True), int(rank)
        except ValueError:
            raise Problem(path, 'line %d cannot be used (found %s, expected a token in base64 and its rank)'
                          % (i + 1, shown(line)))
        if token in ranks or id != len(ranks):
            raise Problem(path, 'line %d cannot be used (found rank %d, expected %d, of a new token)'
                          % (i + 1, id, len(ranks)))
        ranks[token] = id
    return ranks


def by_ranks(path: str, ranks: Dict[bytes, int], control: List[Token], split: int, bos_id: int,
             ends: List[int]) -> Tokenizer:
    """The tokenizer of ranks and of the tokens after them. A word that is a token is not merged. Any two neighbors that
    spell a token may be merged; the token's rank gives the order (see score_merges)."""
    for byte in range(256):
        if bytes([byte]) not in ranks:
            raise Problem(path, 'has no token for the byte %d' % byte)
    tokens = [[token, 0.0, NORMAL] for token in ranks] + control
    check_spellings(path, tokens)
    merges = [(ranks[token[:i]], ranks[token[i:]], id) for token, id in ranks.items() for i in range(1, len(token))
              if token[:i] in ranks and token[i:] in ranks]
    return {'kind': 1, 'tokens': tokens, 'flags': IGNORE_MERGES, 'bos_id': bos_id, 'unk_id': -1, 'eos_ids': ends,
            'split': split, 'merges': merges}


def read_tiktoken(job: Job, path: str, n_ranks: int = LLAMA3_RANKS) -> Tokenizer:
    """Llama 3's tokenizer.model. Its pattern and control tokens are Llama 3's, so the number of tokens must be the same
    too."""
    ranks = read_ranks(job, path)
    if len(ranks) != n_ranks:
        raise Problem(path, "has not Llama 3's tokens (found %d, expected %d)" % (len(ranks), n_ranks))
    ends = [n_ranks + LLAMA3_CONTROL.index(text) for text in ('<|end_of_text|>', '<|eom_id|>', '<|eot_id|>')]
    return by_ranks(path, ranks, [[text.encode(), 0.0, CONTROL] for text in LLAMA3_CONTROL], LLAMA3, n_ranks, ends)


def read_kimi(job: Job, path: str, added: List[Tuple[int, bytes, bool]]) -> Tokenizer:
    """Kimi's tiktoken.model, whose tokens are followed by 256 more: those that tokenizer_config.json adds (id, text,
    whether it is special), and reserved ones between them. No token begins a text."""
    ranks = read_ranks(job, path)
    control: List[Token] = [[b'<|reserved_token_%d|>' % (len(ranks) + i), 0.0, CONTROL] for i in range(KIMI_CONTROL)]
    for id, text, special in added:
        if not 0 <= id - len(ranks) < KIMI_CONTROL:
            raise Problem(path, 'has no place for added token %d (found %d tokens, and %d behind them)'
                          % (id, len(ranks), KIMI_CONTROL))
        control[id - len(ranks)] = [text, 0.0, CONTROL if special else USER_DEFINED]
    ends = [len(ranks) + i for i, (text, _, _) in enumerate(control) if text in (b'[EOS]', b'<|im_end|>')]
    return by_ranks(path, ranks, control, KIMI, -1, ends)


# The pattern of each name of tokenizer.ggml.pre in llama.cpp (llama-vocab.cpp, August 2026).
LLAMA3_NAMES = 'llama-bpe', 'llama3', 'llama-v3', 'lfm2', 'falcon3', 'falcon-h1', 'pixtral', 'midm-2.0'
WHOLE_WORDS = (*LLAMA3_NAMES, 'tekken')  # with these, llama.cpp ignores merges for whole words and adds a BOS
GGUF_SPLITS = {name: split for split, names in {
    LLAMA3: (*LLAMA3_NAMES, 'smaug-bpe', 'dbrx', 'glm4', 'chatglm-bpe'),
    GPT2: ('gpt-2', 'exaone4', 'olmo', 'phi-2', 'mpt', 'jais', 'gigachat', 'a.x-4.0', 'mellum', 'trillion',
           'granite-docling'),
    DIGITS_GPT2: ('smollm', 'starcoder', 'refact', 'command-r', 'codeshell', 'exaone', 'minerva-7b', 'mellum2'),
    QWEN2: ('qwen2', 'deepseek-r1-qwen', 'megrez', 'kormo', 'stablelm2', 'hunyuan', 'solar-open', 'grok-2'),
    QWEN35: ('qwen35',),
    GPT4O: ('gpt-4o', 'llama4', 'kanana2', 'minimax-m2'),
    TEKKEN: ('tekken',),
    DEEPSEEK: ('deepseek-v3', 'hunyuan-dense', 'joyai-llm'),
    KIMI: ('kimi-k2',)}.items() for name in names}
UNDEFINED, UNKNOWN_TOKEN = 0, 2  # types that some writers give to ordinary and to control tokens


def read_gguf(job: Job, path: str, values: Dict[str, Any]) -> Tokenizer:
    """The byte-level tokenizer of a GGUF file, from its settings tokenizer.ggml.*, in which texts are bytes."""
    keys = Keys(job, path, values, 'tokenizer.ggml.')
    pre = keys.get('pre', lambda v: v in GGUF_SPLITS, 'one of ' + ', '.join(GGUF_SPLITS))
    texts, kinds, pairs = (keys.get(key, lambda v: isinstance(v, list) and all(isinstance(x, kind) for x in v),
                                    'a list', default)
                           for key, kind, default in (('tokens', bytes, REFUSED), ('token_type', int, None),
                                                      ('merges', bytes, REFUSED)))
    ends = [keys.token(key, len(texts), -1) for key in ('eos_token_id', 'eot_token_id', 'eom_token_id')]
    bos_id = keys.token('bos_token_id', len(texts), -1)
    if kinds is None:
        kinds = [CONTROL if id in (bos_id, *ends) else NORMAL for id in range(len(texts))]
    kinds = [{UNDEFINED: NORMAL, UNKNOWN_TOKEN: CONTROL}.get(kind, kind) for kind in kinds]
    if len(texts) != len(kinds) or not texts:
        raise Problem(path, 'tokenizer.ggml.tokens and token_type do not fit (found %d and %d)'
                      % (len(texts), len(kinds)))
    tokens, ids, merges = [], {}, {}
    for id, (text, kind) in enumerate(zip(texts, kinds)):
        if kind not in (NORMAL, CONTROL, USER_DEFINED, UNUSED):
            raise Problem(path, 'tokenizer.ggml.token_type of token %d cannot be used (found %d)' % (id, kind))
        raw = bytes_of(text.decode('utf-8', 'replace')) if kind == NORMAL else text
        tokens.append([text, 0.0, UNUSED] if raw is None else [raw, 0.0, kind])
        ids.setdefault(text, id)
    for i, pair in enumerate(pairs):
        a, _, b = pair.partition(b' ')
        if not (a in ids and b in ids and a + b in ids):
            raise Problem(path, 'tokenizer.ggml.merges[%d] cannot be used (found %s)' % (i, shown(pair)))
        merge = ids[a], ids[b], ids[a + b]
        if any(tokens[id][2] == CONTROL for id in merge):
            raise Problem(path, 'tokenizer.ggml.merges[%d] has a control token (found %s)' % (i, shown(pair)))
        if all(tokens[id][2] != UNUSED for id in merge):
            merges.setdefault(merge, i)
    check_spellings(path, tokens)
    if missing_bytes(tokens):
        job.note('%s has no tokens for %d bytes: they are left out of texts, as by llama.cpp'
                 % (path, missing_bytes(tokens)))
    # The flags, with the meaning of llama.cpp.
    return {'kind': 1, 'tokens': tokens, 'flags': IGNORE_MERGES * (pre in WHOLE_WORDS),
            'bos_id': bos_id, 'unk_id': -1, 'split': GGUF_SPLITS[pre],
            'eos_ids': list(dict.fromkeys(id for id in ends if id >= 0)),
            'merges': list(merges)}


def normalization_rules(flags):
    """Unicode's Normalization Form C, or KC, as triples (docs/format.md): the decomposition of a character, its class,
    and the pair that it is composed from. Korean syllables are computed instead. The characters are those that the
    tokenizers library knows; every version of Python has the same data for them, since Unicode never changes it."""
    changed = {*code_points(NORMALIZED), *(code_points(COMPATIBLE) if flags & NFKC else ())}
    for code in sorted(changed):
        char = chr(code)
        parts = unicodedata.normalize('NFD', char)
        apart = unicodedata.normalize('NFKD', char) if flags & NFKC else parts
        for i, part in enumerate(apart if apart != char else ''):
            yield code, -1 - i if i < 4 else -3 - i, ord(part)
        if unicodedata.combining(char):
            yield code, -5, unicodedata.combining(char)
        pair = [int(word, 16) for word in unicodedata.decomposition(char).split() if word[0] != '<']
        if len(pair) == 2 and parts != char and unicodedata.normalize('NFC', parts) == char:
            yield (*pair, code)


def case_rules():
    """The letters and marks beyond ASCII that patterns with cases distinguish: 1 capitals, 2 small letters, 3 marks,
    which match like letters without case in both."""
    kinds = {code: kind for kind, runs in ((1, CAPITALS), (2, SMALL_LETTERS), (3, MARKS)) for code in code_points(runs)}
    return ((code, -6, kinds[code]) for code in sorted(kinds) if code >= 0x80)


def flags_of(tokenizer: Tokenizer) -> int:
    return tokenizer['flags'] | SYSTEM_PROMPT * bool(tokenizer.get('system_prompt'))


def last_words(tokenizer: Tokenizer) -> bytes:
    """The end of a trailer: the system prompt of the model's template, if it has one."""
    text = tokenizer.get('system_prompt', '').encode('utf-8', 'replace')
    return struct.pack('<I', len(text) + 1) + text + bytes(1) if text else b''


def kinds_of(tokenizer: Tokenizer) -> bytes:
    """The types of the tokens, with the flags of each."""
    takes, symbols = (tokenizer.get(key, ()) for key in ('takes_spaces', 'as_symbols'))
    return bytes(kind | TAKES_SPACES * (id in takes) | AS_SYMBOLS * (id in symbols)
                 for id, (_, _, kind) in enumerate(tokenizer['tokens']))


def write_bytelevel_tokenizer(file: BinaryIO, tokenizer: Tokenizer) -> None:
    """tokenizer.bin with a trailer of kind 1."""
    tokens, eos_ids, merges = tokenizer['tokens'], tokenizer['eos_ids'], tokenizer['merges']
    rules = (list(normalization_rules(tokenizer['flags'])) if tokenizer['flags'] & NFC else []) + (
        list(case_rules()) if tokenizer['split'] in BY_CASE else [])
    file.write(struct.pack('<i', max(len(text) for text, _, _ in tokens)))
    for text, score, _ in tokens:
        file.write(struct.pack('<fi', score, len(text)) + text)
    file.write(struct.pack('<4s2I2i3I', b'TKT1', 1, flags_of(tokenizer), tokenizer['bos_id'], tokenizer['unk_id'],
                           len(eos_ids), tokenizer['split'], len(merges)))
    file.write(struct.pack('<I', len(rules)) if rules else b'')
    file.write(struct.pack('<%di' % len(eos_ids), *eos_ids) + kinds_of(tokenizer))
    for triple in merges + rules:
        file.write(struct.pack('<3i', *triple))
    file.write(last_words(tokenizer))
    file.flush()
