"""Whether a server's context works: sends the texts of ./run --tasks, judges the answers as there, and counts
tokens."""

from __future__ import annotations

import math
import queue
import threading
import time
from argparse import Namespace

from .. import report
from ..asking.web import Server
from ..common import INTERRUPTED, NO, UNDECIDED, YES, Problem, tell, with_commas
from ..numbers.decide import ERRORS
from ..report import Report
from .asker import Asker
from .trials import judge, make_trials

USUAL = 4096        # -n
SHORT = 160, 200, 240, 280, 320  # tokens of the texts that calibrate the server's tokenizer
LIST = 'common'     # the task whose text consists of words: their number of tokens differs between tokenizers, so a cut
                    # cannot be detected
SHORT_CHAT = 640    # tokens of a chat that shows the cost of turns
CUT = 0.9           # of the tokens expected: a server that counts fewer has cut the prompt, in any tokenizer
FEW = 8             # tokens by which a count may differ because numbers have other tokens
LITTLE = 0.005      # of a count, by which a line through short texts may miss a long one
MUCH = 0.7          # of the tokens expected: a cut that leaves fewer removes at least one of five depths
DEPTHS = 5          # depths at which a text hides its keys
ENOUGH = 0.5        # accuracy that the shortest texts must reach, and then also longer ones
HALF = 0.5          # of the answers to texts of a length: where more are empty, the server says nothing there; and of
#                     the tokens of a chat: where fewer are counted, that is of one turn
FEWEST_LOST = 2     # first depths without any answer found: one may be chance
PATIENCE = 10       # seconds that the questions may take without an announcement


# ---- the server's counts, and the threads that ask ----

class Ruler:
    """The expected count of the server: a straight line through short texts. Its slope compares the server's tokenizer
    with ours, and its intercept is the template of a chat. Other tasks have other sentences besides the same filler:
    a line of the same slope, shifted. The residuals of the line give its uncertainty: if the server counts as we do,
    a few missing tokens prove a cut."""

    def __init__(self, asker, text, tasks):
        self.asker, self.is_filler, self.seconds, self.tokens, self.moved = asker, not text, 0.0, 0, {}
        trials = [make_trials('passkey', n, n, 1, text)[0] for n in SHORT]
        asker.find_counting(trials[0].prompt)
        self.ends = [(trial.tokens, self.counted(trial)) for trial in trials]
        self.knows = tasks != LIST and asker.are_counts([counted for _, counted in self.ends])
        if self.knows:
            self.fit()
        if self.knows and asker.chat:
            self.knows = self.counts_turns(make_trials('passkey', SHORT[-1], SHORT[-1], 1, text, True)[0])
        if self.knows:
            n, shortest = (SHORT_CHAT, SHORT_CHAT) if asker.chat else (SHORT[-1], SHORT[0])
            for trial in make_trials(tasks, n, shortest, 1, text, asker.chat):
                self.move(trial)

    def counted(self, trial):
        said = self.asker.ask(self.asker.counted_form(trial.prompt), 1)
        if said.refused:
            has_failed = said.refused.status >= 500
            raise Problem('the server %s a prompt of %d tokens (%s)' % (
                'fails at' if has_failed else 'refuses', trial.tokens, said.refused.told()),
                'failed' if has_failed else 'refused')
        self.seconds, self.tokens = self.seconds + said.seconds, self.tokens + trial.tokens
        return said.counted

    def counts_turns(self, trial):
        """Whether the count of a chat is of all its turns: some servers count only the last one, which is shorter than
        any other text, cut or not."""
        counted = self.counted(trial)
        return counted is not None and counted >= min(HALF * self.expected(trial.tokens), self.ends[-1][1])

    def move(self, trial):
        """Shifts the line for another task, with one text; in a chat for each task, since it has more turns than the
        line's texts."""
        if (self.asker.chat or trial.task != 'passkey') and trial.task not in self.moved:
            counted = self.counted(trial)
            self.moved[trial.task] = 0 if counted is None else counted - self.expected(trial.tokens)

    def fit(self):
        """Fits the line, and finds the residuals of the texts."""
        n = len(self.ends)
        self.middle, mean = sum(x for x, _ in self.ends) / n, sum(y for _, y in self.ends) / n
        self.wide = sum((x - self.middle) ** 2 for x, _ in self.ends)
        slope = sum((x - self.middle) * (y - mean) for x, y in self.ends) / max(self.wide, 1e-9)
        is_cut = self.ends[-1][1] <= self.ends[-2][1]  # then our tokenizer's counts are used
        self.slope, self.mean = (1.0, self.middle) if is_cut else (slope, mean)
        self.off = math.sqrt(sum((y - self.expected(x)) ** 2 for x, y in self.ends) / max(n - 2, 1))
        self.is_same = len({y - x for x, y in self.ends}) == 1

    def expected(self, tokens, task='passkey'):
        return self.mean + self.slope * (tokens - self.middle) + self.moved.get(task, 0)

    def margin(self, tokens):
        """The number of tokens by which the server's count may be smaller: three standard errors of the line there. For
        a text other than the filler, whose words may vary, a tenth is allowed."""
        if self.is_same:
            return FEW
        most = (1 - CUT) * self.expected(tokens) + FEW
        if not self.is_filler:
            return most
        error = self.off * math.sqrt(1 + 1 / len(self.ends) + (tokens - self.middle) ** 2 / max(self.wide, 1e-9))
        return min(ERRORS * error + FEW + LITTLE * self.expected(tokens), most)

    def is_cut(self, trial):
        return self.knows and trial.task != LIST and bool(trial.counted) and \
            trial.counted < self.expected(trial.tokens, trial.task) - self.margin(trial.tokens)

    def is_refuted(self, trial, trials):
        """Whether the count of a prompt cannot be all that the server read: many tokens are missing, but the answers of
        the same task and length are right at every depth, which is impossible after a cut."""
        same = [t for t in trials if t.is_done and t.cell()[:2] == trial.cell()[:2]]
        return trial.counted < MUCH * self.expected(trial.tokens, trial.task) and all(t.right == 1 for t in same) and \
            len({t.depth for t in same}) >= DEPTHS

    def counts_all(self, trials):
        """Whether the counts of all these prompts show that they arrived complete."""
        return self.knows and all(t.counted and not self.is_cut(t) for t in trials if t.is_done and t.task != LIST)

    def time_of(self, trials, jobs):
        """Seconds that the questions take at the pace of the short texts."""
        return sum(trial.tokens for trial in trials) * self.seconds / max(self.tokens, 1) / jobs


class Workers:
    """Threads that each ask the next trial. Ctrl-C ends the wait, and the threads end with the program."""

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
                said = self.asker.answer(self.asker.counted_form(trial.prompt), trial.most)
                trial.said, trial.counted, trial.seconds, trial.refused = said, said.counted, said.seconds, said.refused
                trial.is_done = True
                self.done.put(trial)
            except Problem as problem:
                self.done.put(problem)
                return

    def next(self):
        while True:
            try:
                found = self.done.get(timeout=0.2)  # a wait with a timeout can be interrupted
            except queue.Empty:
                continue
            if isinstance(found, Problem):
                raise found
            return found


# ---- the results ----

def cells_of(trials):
    """{(task, length, depth): the trials that were asked}, in their order."""
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
    right = round(sum(t.right for t in asked))
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


def lacking(trials, asker, least):
    """[(a word for programs, words)] of accuracies that are too low, by task and length; `unknown` if the shortest
    texts fail too, or if unfinished answers could make the difference."""
    shortest, found = {}, []
    for (task, length), asked in by_line(trials).items():
        accuracy, unfinished = mean(t.right for t in asked), [t.said.most for t in asked if t.is_unfinished]
        begin = shortest.setdefault(task, (length, accuracy))
        limit = ENOUGH if least is None else least
        words = '%s, %s tokens: accuracy %.3f' % (task, with_commas(length), accuracy)
        if accuracy >= limit:
            continue
        if accuracy + len(unfinished) / len(asked) >= limit:
            found.append(('unknown', '%s, %s tokens: thoughts used up %s tokens in %d of %d answers (--answer-tokens N '
                          'gives them more)' % (task, with_commas(length), with_commas(max(unfinished)),
                                                len(unfinished), len(asked))))
        elif least is not None:
            found.append(('accuracy', '%s, below --min-accuracy %g' % (words, least)))
        elif begin[1] < ENOUGH:
            other = 'other --tasks' if asker.chat else '-m chat, other --tasks'
            found.append(('unknown', '%s, and these are the shortest texts: it may not know the task (%s, or '
                          '--min-accuracy 0 to judge only the prompts)' % (words, other)))
        else:
            found.append(('accuracy', '%s, and %.3f at %s' % (words, begin[1], with_commas(begin[0]))))
    return found


def empty_answers(trials):
    """[(a word for programs, words)] if answers are empty from some length on."""
    by_length = {}
    for trial in trials:
        if trial.is_done:
            by_length.setdefault(trial.length, []).append(trial)
    empty = [n for n in sorted(by_length) if mean(t.is_empty for t in by_length[n]) > HALF]
    if not empty:
        return []
    if empty[0] == min(by_length):
        return [('unknown', 'answers are also empty in the shortest texts, of %s tokens' % with_commas(empty[0]))]
    return [('empty', 'answers are empty from %s tokens on' % with_commas(empty[0]))]


def lost_depths(trials):
    """[(a word for programs, words)] of each task and length where the keys of the first depths are never found, but
    those of the others are, as all were in the shortest texts: the beginning was cut off, without a count that shows
    it, or forgotten. The same for the middle, if each depth was asked more than once. A single depth may be lost by
    chance, and if all others are right, the result is unknown."""
    shortest, found = {}, []
    for (task, length), asked in by_line(trials).items():
        by_depth = {}
        if any(trial.is_unfinished for trial in asked):
            continue
        for trial in asked:
            by_depth.setdefault(trial.depth, []).append(trial.right)
        marks = [mean(by_depth[depth]) for depth in sorted(by_depth)]
        first = shortest.setdefault(task, marks)
        lost = [i for i, mark in enumerate(marks) if not mark]
        others = [mark for mark in marks if mark]
        if not 0 < len(lost) < len(marks) == len(first) or min(first + others) < ENOUGH or \
                lost[-1] - lost[0] >= len(lost) or lost[-1] == len(marks) - 1:
            continue
        is_often, is_alone = len(asked) > len(marks), len(lost) < FEWEST_LOST
        if is_alone and min(first + others) < 1 or not is_often and (is_alone or lost[0] > 0):
            continue
        where = 'the first %d of %d depths' if lost[0] == 0 else '%d of %d depths in the middle'
        found.append(('unknown' if is_alone else 'accuracy', '%s, %s tokens: nothing is found in %s, and all in the '
                      'others: %s' % (task, with_commas(length), where % (len(lost), len(marks)),
                                      'the beginning is cut off or forgotten' if lost[0] == 0 else
                                      'it is cut out or forgotten')))
    return found


def shortfalls(trials, ruler, least):
    """[(a word for programs, words)] of prompts that were cut or refused, by length, and of accuracies that are too
    low; `unknown` if the shortest texts fail too, so that the context was not tested."""
    found, told = [], set()
    for (_, length), asked in by_line(trials).items():
        cut = [t for t in asked if ruler.is_cut(t) and not ruler.is_refuted(t, trials)]
        refused = [t for t in asked if t.refused]
        if length in told or not cut + refused:
            continue
        told.add(length)
        if cut:
            found.append(('cut', 'asked %s (%s tokens as counted here), the server counted %s' % (
                with_commas(length), with_commas(cut[0].tokens), with_commas(cut[0].counted))))
        if refused:
            answer = refused[0].refused
            found.append(('failed' if answer.status >= 500 else 'refused', 'asked %s (%s)' % (
                with_commas(length), answer.told())))
    found += empty_answers(trials) + lacking(trials, ruler.asker, least)
    if not found and least is None:
        found = lost_depths(trials)
    return found


def settle(trials, asker, share=None):
    """Decides which answers are unfinished, empty or right, once all have arrived. Returns the effective length."""
    for trial in trials:
        trial.is_unfinished = asker.is_unfinished(trial.said)
        trial.is_empty = not trial.is_unfinished and trial.said.is_empty()
    return judge(trials, share)


def show_table(trials, out):
    cells = cells_of(trials)
    if out.is_drawn and not out.is_json:
        out.rows(*matrix(cells))
    else:
        out.rows(NAMES, [row_of(cell, asked) for cell, asked in cells.items()])


def show_notes(trials, found, ruler, out):
    for reason, words in found:
        out.note(reason, words)
    if not ruler.counts_all(trials) and not any(reason == 'cut' for reason, _ in found):
        out.note('counts', 'the server gives none, or such as cannot be, or its tokenizer has other ones for a list of '
                 'words: a cut prompt cannot be seen')
    if ruler.asker.counts_new:
        out.note('counts', 'of tokens that the cache had not: each prompt has a beginning of its own')


def verdict(trials, ruler, found, least):
    """(last line, status, the word for programs)"""
    longest = with_commas(max(t.length for t in trials))
    worst = min(mean(t.right for t in asked) for asked in by_line(trials).values())
    wrong = [(reason, words) for reason, words in found if reason != 'unknown']
    if wrong:
        reason, words = wrong[0]
        return 'does not hold to %s: %s' % (longest, words if reason in ('accuracy', 'empty') else '%s: %s' % (
            reason, words)), NO, reason
    if found:
        return 'cannot tell: %s' % found[0][1], UNDECIDED, 'unknown'
    whole = 'prompts arrive whole' if ruler.counts_all(trials) else 'nothing is refused'
    if least == 0:
        return 'to %s %s; accuracy %.3f at least' % (longest, whole, worst), YES, 'whole'
    return 'holds to %s: %s, accuracy %.3f at least' % (longest, whole, worst), YES, 'holds'


def show(trials, ruler, options, out):
    """Prints the table and the shortfalls. Returns the status."""
    effective = settle(trials, ruler.asker, options.effective)
    found = shortfalls(trials, ruler, options.min_accuracy)
    show_table(trials, out)
    show_notes(trials, found, ruler, out)
    if any(trial.is_unfinished for trial in trials):
        out.note('effective_length', 'unknown: answers are unfinished')
    else:
        out.note('effective_length', effective.pop('words'))
        out.effective = effective
    words, status, reason = verdict(trials, ruler, found, options.min_accuracy)
    out.last(words)
    return out.end(status, reason)


def show_unfinished(trials, ruler, options, out):
    """Prints the answers so far, without a verdict."""
    done = [trial for trial in trials if trial.is_done]
    if done:
        settle(done, ruler.asker)
        show_table(trials, out)
        found = shortfalls(trials, ruler, options.min_accuracy)
        show_notes(trials, [item for item in found if item[0] != 'unknown'], ruler, out)
    out.last('unfinished: %d of %d answers' % (len(done), len(trials)))


def by_line(trials):
    found = {}
    for trial in trials:
        if trial.is_done:
            found.setdefault((trial.task, trial.length), []).append(trial)
    return found


def ask_tasks(server: Server, options: Namespace, out: Report) -> int:
    """Runs the whole job. Returns the status."""
    n = options.n or USUAL
    shortest = options.from_ or max(n // 8, min(n, SHORT[-1]))
    trials = make_trials(options.tasks, n, min(shortest, n), options.trials, options.text, options.chat)
    asker = Asker(server, options)
    ruler = Ruler(asker, options.text, options.tasks)
    out.note('server', '%s, %s, %d questions' % (server.root, 'chat' if options.chat else 'prompts', len(trials)))
    seconds = ruler.time_of(trials, options.jobs)
    if seconds > PATIENCE:
        tell('%d questions of %s tokens in all take about %s or more' % (
            len(trials), with_commas(sum(t.tokens for t in trials)), report.duration(seconds)))
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
        show_unfinished(trials, ruler, options, out)
        return out.end(INTERRUPTED, 'interrupted')
    except Problem:
        show_unfinished(trials, ruler, options, out)
        raise
    return show(trials, ruler, options, out)
