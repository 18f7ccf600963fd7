"""Questions about a text, which ./run --prompts prints, and their answers, which ./run --answers judges."""

from __future__ import annotations

import json
import os

from export.installed import ROOT

from ..common import Problem
from ..numbers.ours import Refused, Work, run


class Trial:
    """A line of ./run --prompts, and its results: the response, whether it is unfinished or empty, the share of right
    answers at its place, the server's count, seconds, and the answer that refuses it or fails."""

    def __init__(self, line):
        given = json.loads(line)
        self.task, self.length, self.depth, self.number = (given[k] for k in ('task', 'length', 'depth', 'trial'))
        self.tokens, self.most, self.answers = (given[k] for k in ('tokens', 'max_tokens', 'answers'))
        self.prompt = given['messages'] if 'messages' in given else given['prompt']  # of a chat: a list
        self.said, self.right, self.is_unfinished, self.is_empty, self.is_done = None, 0.0, False, False, False
        self.counted, self.seconds, self.refused = None, 0.0, None

    def cell(self):
        return self.task, self.length, self.depth

    def line(self):
        """A line for ./run --answers."""
        said = None if self.said.refused or self.is_unfinished else self.said.text
        found = dict(task=self.task, length=self.length, depth=self.depth, answers=self.answers, said=said)
        return found if isinstance(self.prompt, str) else dict(found, messages=[])


def task_names():
    """The tasks that run makes prompts for, in its order; [] without run."""
    try:
        out, _ = run(['--tasks', 'all', '--prompts', '-n', 320, '--train-ctx', 640, '--trials', 1,
                      '-z', os.path.join(ROOT, 'tokenizer.bin')])
    except (Refused, Problem):
        return []
    return list(dict.fromkeys(json.loads(line)['task'] for line in out.splitlines()))


def make_trials(tasks, n, shortest, trials, text, chat=False):
    """The trials of all lengths. In run, lengths begin at half of --train-ctx. In a chat the text comes in messages
    before the question."""
    more = (['-f', text] if text else []) + (['-m', 'chat'] if chat else [])
    try:
        out, _ = run(['--tasks', tasks, '--prompts', '-n', n, '--train-ctx', 2 * shortest, '--trials', trials,
                      '-z', os.path.join(ROOT, 'tokenizer.bin')] + more)
    except Refused as refused:
        raise Problem(str(refused), 'usage')
    return [Trial(line) for line in out.splitlines()]


def judge(trials, share):
    """Sets `right` of the answered trials, with ./run --answers: the share of right answers among those of the same
    task, length and depth. Returns the effective length in run's form: {'words', 'length', 'low', 'high',
    'longest'}. share: of the score in short texts (--effective), or None."""
    work = Work()
    try:
        path = work.write('answers.jsonl', ''.join(json.dumps(trial.line()) + '\n' for trial in trials))
        out, _ = run(['--answers', path, '--json'] + ([] if share is None else ['--effective', '%.12g' % share]))
    except Refused as refused:
        raise Problem(str(refused), 'settings')
    finally:
        work.close()
    found = json.loads(out)
    rows = {(row['task'], row['length'], round(row['depth'], 4)): row['accuracy'] for row in found['rows']}
    for trial in trials:
        trial.right = rows[trial.task, trial.length, round(trial.depth, 4)]
    return found['effective'][0]
