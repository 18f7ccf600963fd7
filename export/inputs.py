"""Recognizes unexpected inputs by their first bytes, and gives the command that converts them."""

from __future__ import annotations

import os
import re
import shlex
from typing import Optional

from .common import EXPORTER, PROGRAM, TEXT_LIMIT, Job, Problem, read_json, size_of
from .header import version_of

SETTINGS = 'config.json'
WEIGHTS = '.safetensors', '.bin', '.pth', '.pt'
TOKENIZERS = 'tokenizer.json', 'tokenizer.model'
OWN_WEIGHTS = r'consolidated(\.\d+)?\.(safetensors|pth)'
ADAPTER = r'adapter_(config\.json|model.*\.(safetensors|bin))'  # files of the PEFT library, added to a model's weights
GGUF, TENSORS, MODEL, LLAMA2C, READY, TOKENIZER, JSON, PLAIN = (
    'a GGUF file', 'weights alone', 'a model.bin', 'a model of llama2.c', 'a tokenizer.bin', 'a tokenizer', 'settings',
    'a text')


def kind_of(job: Job, path: str) -> Optional[str]:
    """One of the above, or None for any other file: files of llama2.c's version 0 cannot be recognized."""
    total = size_of(job, path)
    with open(path, 'rb') as file:
        start = file.read(64)
        file.seek(max(0, total - 4096))
        end = file.read()
    kind = {1: LLAMA2C, 2: LLAMA2C, 3: MODEL, 4: MODEL, 5: MODEL, 6: MODEL}.get(version_of(path))
    length = int.from_bytes(start[:8], 'little')
    if start[:4] == b'GGUF':
        return GGUF
    # PyTorch's files are archives, older ones pickles.
    if start[:4] == b'PK\3\4' or start[:1] == b'\x80' and start[1:2] in b'\2\3\4\5' or \
            start[8:9] == b'{' and length <= min(total - 8, TEXT_LIMIT) or path.endswith('.safetensors'):
        return TENSORS
    if kind:
        return kind
    if os.path.basename(path) in TOKENIZERS or re.match(rb'[A-Za-z0-9+/]+=* [0-9]+\r?\n', start):
        return TOKENIZER
    if path.endswith('tokenizer.bin') or b'TKT1' in end:
        return READY
    if start.lstrip()[:1] == b'{':
        return JSON
    return PLAIN if is_text(start) else None


def is_text(start: bytes) -> bool:
    """Whether a file begins like a text: a file of llama2.c's version 0 has zeros there."""
    return len(start) >= 16 and all(byte >= 32 or byte in b'\t\n\f\r' for byte in start)


def command(*words):
    return ' '.join([EXPORTER, *(shlex.quote(word) for word in words)])


def folder_of(path):
    return os.path.dirname(path) or '.'


def has_settings(folder):
    return os.path.exists(os.path.join(folder, SETTINGS))


def adapter_in(folder: str) -> Optional[str]:
    """A file of a LoRA adapter in a folder, or None."""
    return next((name for name in sorted(os.listdir(folder)) if re.fullmatch(ADAPTER, name)), None)


def adapter_alone(job: Job, folder: str) -> str:
    """Advice for an adapter without its base model."""
    base = ''
    try:
        base = read_json(job, os.path.join(folder, 'adapter_config.json')).values.get('base_model_name_or_path')
    except Problem:
        pass
    return ('holds a LoRA adapter (%s), not a model: merge it into its base model%s, as the PEFT library does with '
            'merge_and_unload, and import the resulting folder'
            % (adapter_in(folder), ', %s' % base if base and isinstance(base, str) else ''))


def own_weights(folder: str) -> Optional[str]:
    """A file of weights in Mistral's or Meta's own form in a folder, or None."""
    return next((name for name in sorted(os.listdir(folder)) if re.fullmatch(OWN_WEIGHTS, name)), None)


def without_settings(job, folder, out):
    """The reason why a folder is not a checkpoint, and advice."""
    if adapter_in(folder):
        return adapter_alone(job, folder)
    names = sorted(os.listdir(folder))
    models = [name for name in names if name.endswith('.gguf')]
    weights = [name for name in names if name.endswith(WEIGHTS) and not name.endswith('tokenizer.bin')]
    if models:
        return 'is not a checkpoint, but holds GGUF (%s%s): %s' % (
            models[0], ' and %d more' % len(models[1:]) if models[1:] else '',
            command(os.path.join(folder, models[0]), out))
    own = 'params.json' if 'params.json' in names else own_weights(folder)
    if own:
        return ("is a checkpoint in Meta's or Mistral's own form (%s), which is not read since version 5.0: get it as "
                'Hugging Face has it, with a config.json' % own)
    if weights:
        return ('has weights (%s), but no config.json: get it from their source, then %s'
                % (weights[0], command(folder, out)))
    return 'is not a checkpoint (expected a folder with config.json, or a file)'


def check_source(job: Job, path: str, out: str, tokenizer_out: str) -> None:
    """Refuses sources that are not checkpoints."""
    if os.path.isdir(path):
        if not has_settings(path):
            raise Problem(path, without_settings(job, path, out))
        return
    if not os.path.isfile(path):
        raise Problem(path, 'is neither a file nor a folder (expected a checkpoint)' if os.path.exists(path) else
                      'no such file or folder (expected a checkpoint)')
    kind, folder = kind_of(job, path), folder_of(path)
    if kind == MODEL:
        raise Problem(path, 'is a model.bin already, for %s as it is; it goes out with %s' % (
            PROGRAM, command(path, 'OUT.gguf')))
    if kind == READY:
        raise Problem(path, 'is a tokenizer.bin already, for %s -z %s' % (PROGRAM, shlex.quote(path)))
    if kind == PLAIN:
        raise Problem(path, 'is a text, not a model file (expected a folder with config.json, a GGUF file or a .bin of '
                      'llama2.c)')
    if kind == TOKENIZER:
        raise Problem(path, 'is a tokenizer: ' + command('--tokenizer', path, tokenizer_out))
    if kind in (TENSORS, JSON):
        what = 'holds %s: ' % kind
        raise Problem(path, what + (command(folder, out) if has_settings(folder) else
                                    'its folder is expected, and that ' + without_settings(job, folder, out)))


def check_model(job: Job, path: str, out: str) -> None:
    """Refuses files that are not a model.bin, for export to other formats."""
    if not os.path.exists(path):
        raise Problem(path, 'no such file (expected a model.bin to make %s of)' % out)
    kind = 'a folder' if os.path.isdir(path) else kind_of(job, path)
    if kind in (MODEL, LLAMA2C, None):
        return
    source = folder_of(path) if kind not in ('a folder', GGUF) else path
    if source is not path and not has_settings(source):
        raise Problem(path, 'is not a model.bin (expected one to make %s of)' % out)
    raise Problem(path, '%s %s, not a model.bin: %s first' % (
        'holds' if kind in (TENSORS, JSON) else 'is', kind, command(source, 'model.bin')))


def check_tokenizer(job: Job, path: str, out: str) -> None:
    """Refuses files that are not tokenizers."""
    if os.path.isdir(path):
        found = [name for name in TOKENIZERS if os.path.exists(os.path.join(path, name))]
        raise Problem(path, 'is a folder: ' + command('--tokenizer', os.path.join(path, found[0]), out) if found else
                      'is a folder, and holds no tokenizer.json or tokenizer.model')
    kind = kind_of(job, path)
    if kind == GGUF:
        raise Problem(path, 'is a GGUF file, which contains its tokenizer: ' + command(path, 'model.bin'))
    if kind == READY:
        raise Problem(path, 'is a tokenizer.bin already, for %s -z %s' % (PROGRAM, shlex.quote(path)))
    if kind in (TENSORS, MODEL, LLAMA2C):
        raise Problem(path, '%s %s, not a tokenizer (expected tokenizer.json, tokenizer.model or a file of '
                      'tiktoken)' % ('holds' if kind == TENSORS else 'is', kind))
