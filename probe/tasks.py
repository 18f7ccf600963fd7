"""Whether a server's context holds: the texts of ./run --tasks, sent, judged as there, and their tokens counted."""

import json
import os
import queue
import re
import threading
import time

from . import report
from .asking import REFUSED, forms_to_try, model_of
from .common import HERE, INTERRUPTED, NO, YES, Problem, Unreachable, on_one_line, tell, with_commas
from .ours import Refused, run
from .web import PASSING

USUAL = 4096        # -n
CALIBRATION = 320   # tokens of the longer of two short texts, by which the server's tokenizer is measured
CHAT_ANSWER = 256   # tokens that a chat's answer may take, where a model may think first
CUT = 0.9           # of the tokens expected: whoever counts fewer has cut the prompt


# ---- what is asked ----

class Trial:
    """A line of ./run --prompts, and what became of it: right or not, the server's count, seconds, why refused."""

    def __init__(self, line):
        given = json.loads(line)
        self.task, self.length, self.depth, self.number = (given[k] for k in ('task', 'length', 'depth', 'trial'))
        self.tokens, self.most, self.answers, self.prompt = (given[k] for k in ('tokens', 'max_tokens', 'answers',
                                                                               'prompt'))
        self.right, self.counted, self.seconds, self.refused, self.is_done = False, None, 0.0, None, False

    def cell(self):
        return self.task, self.length, self.depth


def make_trials(tasks, n, shortest, trials, text):
    """A run's lengths begin at half of --train-ctx."""
    more = ['-f', text] if text else []
    try:
        out, _ = run(['--tasks', tasks, '--prompts', '-n', n, '--train-ctx', 2 * shortest, '--trials', trials,
                      '-z', os.path.join(HERE, 'tokenizer.bin')] + more)
    except Refused as refused:
        raise Problem(str(refused))
    return [Trial(line) for line in out.splitlines()]


def is_right(trial, said, chat):
    """A prompt is continued: the answer begins with the one number, or has all of several soon. In a chat it may be a
    sentence: the first number of five digits in it counts, and what a model thought before is none of it."""
    if not chat:
        said = said.lstrip()
        return said.startswith(trial.answers[0]) if len(trial.answers) == 1 else \
            all(answer in said[:60] for answer in trial.answers)
    said = re.sub(r'(?<=[0-9]),(?=[0-9]{3}\b)', '', said.rpartition('</think>')[2])
    if len(trial.answers) == 1:
        found = re.search(r'(?<![0-9])[0-9]{5}(?![0-9])', said)
        return bool(found) and found.group() == trial.answers[0]
    return all(re.search(r'(?<!\w)%s(?!\w)' % re.escape(answer), said) for answer in trial.answers)


# ---- how it is asked ----

class Asker:
    """Asks a server for texts, in OpenAI's forms or ollama's own."""

    def __init__(self, server, options):
        self.server, self.chat, self.retries = server, options.chat, options.retries
        self.model = model_of(server, options.served)
        self.is_ollama = forms_to_try(server, options.api)[0].name == 'ollama'

    def body(self, prompt, most):
        most = max(most, CHAT_ANSWER) if self.chat and most > 1 else most
        said = {'messages': [{'role': 'user', 'content': prompt}]} if self.chat else {'prompt': prompt}
        if not self.is_ollama:
            path = '/v1/chat/completions' if self.chat else '/v1/completions'
            return path, dict(said, model=self.model, max_tokens=most, temperature=0)
        said = dict(said, model=self.model, stream=False, options={'temperature': 0, 'num_predict': most})
        return ('/api/chat', said) if self.chat else ('/api/generate', dict(said, raw=True))

    def read(self, data):
        """The text, and the count of the prompt's tokens or None."""
        try:
            if self.is_ollama:
                return (data['message']['content'] if self.chat else data['response']), data.get('prompt_eval_count')
            choice = data['choices'][0]
            text = choice['message'].get('content') if self.chat else choice['text']
            counted = (data.get('usage') or {}).get('prompt_tokens')
        except (KeyError, IndexError, TypeError, AttributeError):
            raise Problem('the answer has no text (found %s)' % on_one_line(data, 80))
        if not isinstance(text or '', str) or not isinstance(counted, (int, type(None))):
            raise Problem('the answer has another form (found %s)' % on_one_line(data, 80))
        return text or '', counted

    def ask(self, prompt, most):
        """(text, count, seconds, None), or (None, None, seconds, why the server refuses it)."""
        path, body = self.body(prompt, most)
        for tried in range(self.retries + 1):
            began = time.time()
            try:
                answer = self.server.post(path, body)
            except Unreachable:
                if tried == self.retries:
                    raise
                time.sleep(min(2 ** tried, 8))
                continue
            if answer.status in REFUSED:
                raise Problem('%s refuses the key, or wants one (%s): --key-env NAME' % (self.server.root,
                                                                                        answer.told()))
            if answer.status == 200:
                return self.read(answer.data) + (time.time() - began, None)
            if answer.status not in PASSING or tried == self.retries:
                return None, None, time.time() - began, answer.told()
            time.sleep(min(2 ** tried, 8))


class Ruler:
    """How many tokens the server should count: a straight line through two short texts, whose slope is how its
    tokenizer compares with ours, and whose start is the template of a chat."""

    def __init__(self, asker, trials):
        by_length = {}
        for trial in trials:
            by_length.setdefault(trial.length, trial)
        self.ends = []
        for trial in by_length.values():
            _, counted, _, refused = asker.ask(trial.prompt, 1)
            if refused:
                raise Problem('the server refuses a prompt of %d tokens (%s)' % (trial.tokens, refused))
            self.ends.append((trial.tokens, counted))
        self.knows = all(counted is not None for _, counted in self.ends)

    def expected(self, tokens):
        (a, x), (b, y) = self.ends[0], self.ends[-1]
        slope = (y - x) / (b - a)
        return x + slope * (tokens - a) if slope > 0.25 else tokens

    def is_cut(self, trial):
        return self.knows and trial.counted is not None and trial.counted < CUT * self.expected(trial.tokens) - 8


class Workers:
    """Threads that ask, each its next trial. Ctrl-C ends the wait, and the threads end with the program."""

    def __init__(self, asker, trials, jobs):
        self.asker, self.waiting, self.done = asker, queue.Queue(), queue.Queue()
        for trial in trials:
            self.waiting.put(trial)
        for _ in range(min(jobs, len(trials))):
            threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while True:
            try:
                trial = self.waiting.get_nowait()
            except queue.Empty:
                return
            try:
                said, trial.counted, trial.seconds, trial.refused = self.asker.ask(trial.prompt, trial.most)
                trial.right = said is not None and is_right(trial, said, self.asker.chat)
                trial.is_done = True
                self.done.put(trial)
            except Problem as problem:
                self.done.put(problem)
                return

    def next(self):
        while True:
            try:
                found = self.done.get(timeout=0.2)  # a wait with an end can be interrupted
            except queue.Empty:
                continue
            if isinstance(found, Problem):
                raise found
            return found


# ---- what came of it ----

def cells_of(trials):
    """{(task, length, depth): trials that were asked}, in their order."""
    found = {}
    for trial in trials:
        if trial.is_done:
            found.setdefault(trial.cell(), []).append(trial)
    return found


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0


def row_of(cell, asked):
    counts = [t.counted for t in asked if t.counted is not None]
    right = sum(t.right for t in asked)
    return [cell[0], '%d' % cell[1], '%.2f' % cell[2], '%d' % len(asked), '%d' % right,
            '%.3f' % (right / len(asked)), '%.0f' % mean(t.tokens for t in asked),
            '%.0f' % mean(counts) if counts else '-', '%.2f' % mean(t.seconds for t in asked)]


NAMES = ['task', 'length', 'depth', 'trials', 'correct', 'accuracy', 'tokens', 'counted', 'seconds']


def matrix(cells):
    """A line for each task and length, a column for each depth."""
    lines = {}
    for (task, length, depth), asked in cells.items():
        lines.setdefault((task, length), {})[depth] = asked
    depths = sorted({cell[2] for cell in cells})
    rows = []
    for (task, length), by_depth in lines.items():
        asked = [trial for part in by_depth.values() for trial in part]
        marks = [mean(t.right for t in by_depth[d]) if d in by_depth else None for d in depths]
        counts = [t.counted for t in asked if t.counted is not None]
        rows.append([task, with_commas(length)] +
                    ['' if m is None else '%.2f %s' % (m, '#' if m >= 0.75 else '+' if m > 0.25 else '.')
                     for m in marks] +
                    [with_commas(round(mean(t.tokens for t in asked))),
                     with_commas(round(mean(counts))) if counts else '-', '%.2f' % mean(t.seconds for t in asked)])
    return ['task', 'length, depth'] + ['%.2f' % d for d in depths] + ['tokens', 'counted', 'seconds'], rows


def shortfalls(trials, ruler, least):
    """Lines about prompts that were cut or refused, and about accuracies below `least`, by length."""
    lines, by_length = [], {}
    for trial in (t for t in trials if t.is_done):
        by_length.setdefault((trial.task, trial.length), []).append(trial)
    told = set()
    for (task, length), asked in by_length.items():
        cut = [t for t in asked if ruler.is_cut(t)]
        if cut and length not in told:
            told.add(length)
            lines.append('cut: asked %s (%s tokens as counted here), the server counted %s' % (
                with_commas(length), with_commas(cut[0].tokens), with_commas(cut[0].counted)))
        refused = [t for t in asked if t.refused]
        if refused and length not in told:
            told.add(length)
            lines.append('refused: asked %s (%s)' % (with_commas(length), refused[0].refused))
        accuracy = mean(t.right for t in asked)
        if accuracy < least:
            lines.append('%s, %s tokens: accuracy %.3f, below --min-accuracy %g' % (task, with_commas(length),
                                                                                    accuracy, least))
    return lines


def show(trials, ruler, options):
    """Prints the table and what falls short. Returns the status."""
    cells = cells_of(trials)
    if report.is_drawn(options):
        names, rows = matrix(cells)
        report.print_rows(names, rows, options)
    else:
        report.print_rows(NAMES, [row_of(cell, asked) for cell, asked in cells.items()], options)
    lines = shortfalls(trials, ruler, options.min_accuracy)
    for line in lines:
        report.note(*line.split(': ', 1) if ': ' in line else ('short', line), options=options)
    if not ruler.knows:
        report.note('counts', 'the server tells none, so a cut prompt cannot be seen', options)
    longest = max((t.length for t in trials if t.is_done), default=0)
    if lines:
        report.last_line('does not hold to %s: %s' % (with_commas(longest), lines[0]), options)
    elif cells:
        worst = min(mean(t.right for t in asked) for asked in by_line(trials).values())
        report.last_line('holds to %s: %s, accuracy %.3f at least' % (
            with_commas(longest), 'prompts arrive whole' if ruler.knows else 'nothing is refused', worst), options)
    return NO if lines else YES


def by_line(trials):
    found = {}
    for trial in trials:
        if trial.is_done:
            found.setdefault((trial.task, trial.length), []).append(trial)
    return found


def ask_tasks(server, options):
    """The whole job. Returns the status."""
    n = options.n or USUAL
    shortest = options.from_ or max(n // 8, min(n, CALIBRATION))
    trials = make_trials(options.tasks, n, min(shortest, n), options.trials, options.text)
    asker = Asker(server, options)
    ruler = Ruler(asker, make_trials('passkey', CALIBRATION, CALIBRATION // 2, 1, None))
    report.note('server', '%s, %s, %d questions' % (server.root, 'chat' if options.chat else 'prompts', len(trials)),
                options)
    workers = Workers(asker, trials, options.jobs)
    began = shown = time.time()
    try:
        for number in range(len(trials)):
            workers.next()
            if time.time() - shown > 10:
                shown = time.time()
                tell('%d of %d answers, %.0f s' % (number + 1, len(trials), shown - began))
    except KeyboardInterrupt:
        tell('interrupted: %d of %d answers' % (sum(t.is_done for t in trials), len(trials)))
        show(trials, ruler, options)
        return INTERRUPTED
    except Problem:
        if any(t.is_done for t in trials):
            show(trials, ruler, options)
        raise
    return show(trials, ruler, options)
