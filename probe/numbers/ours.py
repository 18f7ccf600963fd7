"""Our side: the results, lists and explanations of ./run, read from its tables."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..asking.vocabulary import Vocabulary
from ..common import RUN, Problem, on_one_line
from .kept import Kept

Ranked = Dict[int, Dict[int, Any]]  # by length: rank and log-probability of ids


class Refused(Exception):
    """run refuses these settings: the reason, in one line."""


def run(arguments: List[Any], statuses: Sequence[int] = (0,)) -> Tuple[str, str]:
    """Standard output and standard error of ./run with these arguments."""
    try:
        done = subprocess.run([RUN] + [str(a) for a in arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise Problem('%s: %s (make builds it)' % (RUN, error.strerror), 'file')
    errors = done.stderr.decode('utf-8', 'replace')
    if done.returncode not in statuses:
        lines = errors.strip().splitlines() or ['status %d' % done.returncode]
        raise Refused(on_one_line(lines[-1]))
    return done.stdout.decode('utf-8', 'replace'), errors


def table(text: str) -> Tuple[Dict[str, str], List[Dict[str, str]]]:
    """The notes above a table, and its rows as dictionaries of words."""
    lines = text.splitlines()
    notes = dict(line[2:].split('\t', 1) for line in lines if line.startswith('# ') and '\t' in line)
    rows = [line.split('\t') for line in lines if line and not line.startswith('#')]
    return notes, [dict(zip(rows[0], row)) for row in rows[1:]] if rows else []


class Work:
    """A temporary folder for ./run's inputs."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix='server_probe.')

    def write(self, name: str, text: str) -> str:
        path = os.path.join(self.folder.name, name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return path

    def close(self) -> None:
        self.folder.cleanup()


class Model:
    """A model of ours, its text, and the settings of --rope-config that replace its own. kept: results of earlier runs
    (kept.py), or None."""

    def __init__(self, path: str, config: Optional[str], work: Work, vocabulary: Vocabulary,
                 kept: Optional[Kept] = None) -> None:
        self.path, self.work, self.vocabulary, self.kept = path, work, vocabulary, kept
        self.base = ['--rope-config', config] if config else []
        self.explained: Dict[Any, Any] = {}  # by length and arguments
        self.cache = []  # options of the key-value cache; a server's may have fewer bits

    def text_ids(self, text_path: str, n: int) -> List[int]:
        """The first n ids of the text, including BOS if there is one."""
        arguments = ['--ppl', text_path, '-n', n + 1, '--rope', 'none', '--per-token', '--tsv']
        key = self.kept.key(arguments) if self.kept else ''
        if self.kept and self.kept.of(key):
            return [int(id) for id in self.kept.of(key)['ids']]
        try:
            out, _ = run([self.path] + arguments)
        except Refused as refused:
            raise Problem(str(refused), 'settings')
        ids = [int(row['token']) for row in table(out)[1]]
        first = self.vocabulary.bos if self.vocabulary.bos >= 0 else self.first_id(text_path, ids)
        found = ([first] + ids)[:n]
        if self.kept:
            self.kept.put(key, {'ids': found})
        return found

    def first_id(self, text_path: str, ids: List[int]) -> int:
        """The first id of a text without BOS: it is not predicted, so the table begins with the second."""
        with open(text_path, 'rb') as file:
            text = file.read(1 << 16)
        rest = b''.join(self.vocabulary.spelled[id] for id in ids[:8])
        at = text.find(rest)
        for start in (text[:at], b' ' + text[:at]):
            found = self.vocabulary.ids.get(start, [])
            if at > 0 and found:
                return found[0]
        raise Problem('%s: its first token cannot be told (-f FILE: a text that begins with a common word)' %
                      text_path, 'file')

    def next_tokens(self, ids: List[int], asked: Dict[int, Any], arguments: List[Any]) -> Ranked:
        """{length: {id: (rank, log-probability)}} of the ids that `asked` lists for each length, with these
        settings."""
        if not self.kept:
            return self.computed(ids, asked, arguments)
        keys = {n: self.kept.key(['--next'] + self.cache + arguments, ids[:n]) for n in asked}
        known = {n: {int(id): tuple(pair) for id, pair in self.kept.of(keys[n]).items()} for n in asked}
        missing = {n: set(asked[n]) | set(known[n]) for n in asked if not set(asked[n]) <= set(known[n])}
        if missing:
            known.update(self.computed(ids, missing, arguments))
        for n in missing:
            self.kept.put(keys[n], known[n])
        return known

    def likeliest(self, ids: List[int], count: int, arguments: List[Any]) -> List[int]:
        """The likeliest tokens after these, with these settings."""
        key = self.kept.key(['--next', count] + self.cache + arguments, ids) if self.kept else ''
        if self.kept and self.kept.of(key):
            return [int(id) for id in self.kept.of(key)['ids']]
        text = self.work.write('ids', ' '.join(map(str, ids)))
        out, _ = run([self.path, '--ids', '-f', text, '--next', count, '--activations', 'f32', '--tsv'] + self.cache +
                     arguments)
        found = [int(row['token']) for row in table(out)[1]]
        if self.kept:
            self.kept.put(key, {'ids': found})
        return found

    def computed(self, ids: List[int], asked: Dict[int, Any], arguments: List[Any]) -> Ranked:
        text = self.work.write('ids', ' '.join(map(str, ids)))
        lines = ['%d %s\n' % (length, ' '.join(map(str, sorted(tokens)))) for length, tokens in sorted(asked.items())
                 if tokens]
        out, _ = run([self.path, '--ids', '-f', text, '--next', self.work.write('asked', ''.join(lines)),
                      '--activations', 'f32', '--tsv'] + self.cache + arguments)
        found = {}
        for row in table(out)[1]:
            found.setdefault(int(row['length']), {})[int(row['token'])] = int(row['rank']), float(row['logprob'])
        return found

    def engines(self, n: int) -> List[Dict[str, str]]:
        """Rows of --engines, in its order."""
        try:
            return table(run([self.path, '--engines', '-n', n, '--tsv'] + self.base, statuses=(0, 1))[0])[1]
        except Refused as refused:
            raise Problem(self.with_a_way_out(refused), 'settings')

    def with_a_way_out(self, refused: Refused) -> str:
        """A refusal with advice: a model's file has fewer settings than a config.json."""
        return str(refused) if self.base else '%s (--rope-config FILE: the config.json that the server was given)' % \
            refused

    def explain(self, n: int, arguments: List[Any]) -> Tuple[Dict[str, str], List[Dict[str, str]]]:
        """Notes and rows of --explain at a length: all results of these settings there."""
        called = n, tuple(map(str, arguments))
        if called not in self.explained:
            self.explained[called] = table(run([self.path, '--explain', '-n', n, '--tsv'] + arguments)[0])
        return self.explained[called]

    def block(self) -> Dict[str, Any]:
        """The rope_scaling block in use as a dictionary, {} without a block."""
        if self.base:
            with open(self.base[1], encoding='utf-8') as file:
                config = json.load(file)
            config = config.get('text_config', config)
            found = config.get('rope_scaling') or config.get('rope_parameters') or config
            return found if isinstance(found, dict) else {}
        try:
            out, _ = run([self.path, '--rope-json'])
        except Refused:  # settings that a block cannot express have no lists
            return {}
        return json.loads(''.join(line for line in out.splitlines() if not line.startswith('#')))
