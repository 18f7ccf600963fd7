"""Our side: what ./run computes, lists and explains, read from its tables."""

import json
import os
import subprocess
import tempfile

from .common import RUN, Problem, on_one_line


class Refused(Exception):
    """run refuses these settings: one line of why."""


def run(arguments, statuses=(0,)):
    """Standard output and standard error of ./run with these arguments."""
    try:
        done = subprocess.run([RUN] + [str(a) for a in arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise Problem('%s: %s (make builds it)' % (RUN, error.strerror))
    errors = done.stderr.decode('utf-8', 'replace')
    if done.returncode not in statuses:
        lines = errors.strip().splitlines() or ['status %d' % done.returncode]
        raise Refused(on_one_line(lines[-1]))
    return done.stdout.decode('utf-8', 'replace'), errors


def table(text):
    """The notes above a table, and its rows as dictionaries of words."""
    lines = text.splitlines()
    notes = dict(line[2:].split('\t', 1) for line in lines if line.startswith('# ') and '\t' in line)
    rows = [line.split('\t') for line in lines if line and not line.startswith('#')]
    return notes, [dict(zip(rows[0], row)) for row in rows[1:]] if rows else []


class Work:
    """A folder for what ./run reads, which goes away."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix='server_probe.')

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return path

    def close(self):
        self.folder.cleanup()


class Model:
    """A model of ours, its text, and the settings that --rope-config puts in place of its own."""

    def __init__(self, path, config, work, vocabulary):
        self.path, self.work, self.vocabulary = path, work, vocabulary
        self.base = ['--rope-config', config] if config else []

    def text_ids(self, text_path, n):
        """The first n ids of the text, BOS among them where there is one."""
        try:
            out, _ = run([self.path, '--ppl', text_path, '-n', n + 1, '--rope', 'none', '--per-token', '--tsv'])
        except Refused as refused:
            raise Problem(str(refused))
        ids = [int(row['token']) for row in table(out)[1]]
        if self.vocabulary.bos >= 0:
            return ([self.vocabulary.bos] + ids)[:n]
        return ([self.first_id(text_path, ids)] + ids)[:n]

    def first_id(self, text_path, ids):
        """A text without BOS: nothing predicts its first token, and the table begins with the second."""
        with open(text_path, 'rb') as file:
            text = file.read(1 << 16)
        rest = b''.join(self.vocabulary.spelled[id] for id in ids[:8])
        at = text.find(rest)
        for start in (text[:at], b' ' + text[:at]):
            found = self.vocabulary.ids.get(start, [])
            if at > 0 and found:
                return found[0]
        raise Problem('%s: its first token cannot be told' % text_path)

    def next_tokens(self, ids, asked, arguments):
        """{length: {id: (rank, log-probability)}} of the ids that `asked` lists by length, under these settings."""
        text = self.work.write('ids', ' '.join(map(str, ids)))
        lines = ['%d %s\n' % (length, ' '.join(map(str, sorted(tokens)))) for length, tokens in sorted(asked.items())
                 if tokens]
        out, _ = run([self.path, '--ids', '-f', text, '--next', self.work.write('asked', ''.join(lines)),
                      '--activations', 'f32', '--tsv'] + arguments)
        found = {}
        for row in table(out)[1]:
            found.setdefault(int(row['length']), {})[int(row['token'])] = int(row['rank']), float(row['logprob'])
        return found

    def engines(self, n):
        """Rows of --engines, in its order."""
        try:
            return table(run([self.path, '--engines', '-n', n, '--tsv'] + self.base, statuses=(0, 1))[0])[1]
        except Refused as refused:
            raise Problem(str(refused))

    def explain(self, n, arguments):
        """Notes and rows of --explain at a length: all that these settings compute there."""
        return table(run([self.path, '--explain', '-n', n, '--tsv'] + arguments)[0])

    def block(self):
        """The rope_scaling block in force as a dictionary, {} where there is none."""
        if self.base:
            with open(self.base[1], encoding='utf-8') as file:
                config = json.load(file)
            config = config.get('text_config', config)
            found = config.get('rope_scaling') or config.get('rope_parameters') or config
            return found if isinstance(found, dict) else {}
        out, _ = run([self.path, '--rope-json'])
        return json.loads(''.join(line for line in out.splitlines() if not line.startswith('#')))
