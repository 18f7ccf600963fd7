"""Questions that a text answers, and whether an answer is right: the trials of ./run --tasks, as it prints them."""

from __future__ import annotations

import json
import os
import re

from export.installed import ROOT

from ..common import Problem
from ..numbers.ours import Refused, run


ECHO = 60  # characters at the end of a prompt, by which a repetition of it is known


class Trial:
    """A line of ./run --prompts, and what became of it: what was said, whether that is right, unfinished or empty, the
    server's count, seconds, and the answer that refuses it or fails at it."""

    def __init__(self, line):
        given = json.loads(line)
        self.task, self.length, self.depth, self.number = (given[k] for k in ('task', 'length', 'depth', 'trial'))
        self.tokens, self.most, self.answers = (given[k] for k in ('tokens', 'max_tokens', 'answers'))
        self.prompt = given['messages'] if 'messages' in given else given['prompt']  # of a chat: a list
        self.said, self.right, self.is_unfinished, self.is_empty, self.is_done = None, False, False, False, False
        self.counted, self.seconds, self.refused = None, 0.0, None

    def cell(self):
        return self.task, self.length, self.depth


def task_names():
    """The tasks that run makes prompts of, in its order; [] without run."""
    try:
        out, _ = run(['--tasks', 'all', '--prompts', '-n', 320, '--train-ctx', 640, '--trials', 1,
                      '-z', os.path.join(ROOT, 'tokenizer.bin')])
    except (Refused, Problem):
        return []
    return list(dict.fromkeys(json.loads(line)['task'] for line in out.splitlines()))


def make_trials(tasks, n, shortest, trials, text, chat=False):
    """A run's lengths begin at half of --train-ctx. In a chat the text comes in messages before the one that asks."""
    more = (['-f', text] if text else []) + (['-m', 'chat'] if chat else [])
    try:
        out, _ = run(['--tasks', tasks, '--prompts', '-n', n, '--train-ctx', 2 * shortest, '--trials', trials,
                      '-z', os.path.join(ROOT, 'tokenizer.bin')] + more)
    except Refused as refused:
        raise Problem(str(refused), 'usage')
    return [Trial(line) for line in out.splitlines()]


def without_echo(trial, said):
    """What comes after the question, where a server repeats what it was asked: that holds every answer."""
    asked = trial.prompt if isinstance(trial.prompt, str) else trial.prompt[-1]['content']
    before, _, after = said.rpartition(asked[-ECHO:])
    return after if before.strip() else said


def is_right(trial, said, chat):
    """A prompt is continued: the answer begins with the one number, or has all of several soon. A chat answers in a
    sentence, and so may a continuation, at some lengths and not at others: the first number of five digits counts,
    and thoughts before it do not."""
    begun = said.lstrip()
    if not trial.answers[0].isdigit() and len(trial.answers) == 1:
        return is_right_word(trial, begun, chat)
    if not chat and len(trial.answers) > 1:
        return all(answer in begun[:60] for answer in trial.answers)
    if not chat and begun.startswith(trial.answers[0]):
        return True
    said = re.sub(r'(?<=[0-9]),(?=[0-9]{3}\b)', '', said.rpartition('</think>')[2])
    if len(trial.answers) == 1:
        return first_number(said) == trial.answers[0]
    return all(re.search(r'(?<!\w)%s(?!\w)' % re.escape(answer), said) for answer in trial.answers)


def is_right_word(trial, said, chat):
    """A name: a prompt goes on with it, and in a chat it is the first of the text's names."""
    if not chat:
        return said.startswith(trial.answers[0])
    names = set(re.findall(r' The (\w+) has a house next to', json.dumps(trial.prompt))) | set(trial.answers)
    found = re.search(r'\b(%s)\b' % '|'.join(map(re.escape, sorted(names))), said.rpartition('</think>')[2])
    return bool(found) and found.group() == trial.answers[0]


def first_number(said):
    """The first number of five digits; where there is none, of digits that are written apart (4 8 2 1 3, 48 213)."""
    for text in said, re.sub(r'(?<=[0-9])[ \u00a0\u202f-](?=[0-9])', '', said):
        found = re.search(r'(?<![0-9])[0-9]{5}(?![0-9])', text)
        if found:
            return found.group()
    return ''
