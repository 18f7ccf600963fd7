"""Checks of files that would be replaced: files of another origin than the exporter are only replaced with --force."""

from __future__ import annotations

import json
import os
import struct
from typing import Optional

from .common import Job, Problem
from .header import BYTES, FIELDS, version_of
from .tokenizer_bin import is_written_here

WRITTEN_BY = 'model_export.py of rope.c'  # GGUF's general.description, and config.json's "written_by"
MODEL, GGUF, TOKENIZER = 'a model.bin', 'a GGUF file', 'a tokenizer'  # the exporter's outputs that are one file
FOLDER = {'config.json', 'generation_config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json',
          'rope.README'}
ROUNDED = 3, 4  # values of weight_type, q8 and q4: models made by --quantize, such as those that ship here
SHARED = 'tokenizer.bin'         # the name of a tokenizer that serves every model in its folder


def may_write(job: Job, path: str, kind: str, force: bool, data: Optional[bytes] = None) -> None:
    """Refuses to replace a file unless it is of this kind and was written by the exporter, or already contains
    `data`."""
    if os.path.realpath(path) in job.inputs:
        raise Problem(path, 'is being read, and would be lost')
    if not os.path.exists(path):
        return
    if not os.path.isfile(path):
        raise Problem(path, 'cannot be replaced (found something else than a file)')
    if force or os.path.getsize(path) == 0 or data is not None and same_bytes(path, data):
        return
    found, what = found_at(path)
    if found != kind:
        raise Problem(path, 'is there already and would be lost (found %s, expected a free name, or --force)' % what)


def found_at(path):
    """(MODEL, GGUF or TOKENIZER if the exporter wrote it, else None; the kind of file, for a message)"""
    with open(path, 'rb') as file:
        start = file.read(4096)
    if start[:4] == b'GGUF':
        ours = WRITTEN_BY.encode() in start
        return GGUF if ours else None, GGUF if ours else 'a GGUF file of another program'
    if version_of(path) in BYTES and len(start) >= BYTES[version_of(path)]:
        ours = struct.unpack_from('<I', start, FIELDS['weight_type'].at)[0] not in ROUNDED
        return MODEL if ours else None, MODEL if ours else 'a model whose weights --quantize rounded'
    if is_written_here(path):
        ours = os.path.basename(path) != SHARED
        return TOKENIZER if ours else None, TOKENIZER if ours else 'a tokenizer for all models beside it'
    return None, 'a file that the exporter did not write'


def same_bytes(path: str, data: bytes) -> bool:
    if os.path.getsize(path) != len(data):
        return False
    with open(path, 'rb') as file:
        return file.read() == data


def may_write_folder(path: str, force: bool) -> None:
    """Refuses to replace a folder unless it is empty, or a checkpoint that the exporter wrote."""
    path = path.rstrip('/') or '/'
    if not os.path.lexists(path) or os.path.isdir(path) and not os.listdir(path):
        return
    if not os.path.isdir(path):
        raise Problem(path, 'cannot be written (found a file, expected no folder, or an empty one)')
    others = sorted(set(os.listdir(path)) - FOLDER)
    if others:
        raise Problem(path, 'cannot be written (found %s in it, which the exporter does not write; expected no '
                      'folder, or an empty one)' % others[0])
    if not force and not is_folder_of_ours(path):
        raise Problem(path, 'is there already and would be lost (found a checkpoint of another program, expected no '
                      'folder, an empty one, or --force)')


def is_folder_of_ours(path):
    try:
        with open(os.path.join(path, 'config.json'), 'rb') as file:
            return json.loads(file.read()).get('written_by') == WRITTEN_BY
    except (OSError, ValueError, AttributeError, RecursionError):
        return False
