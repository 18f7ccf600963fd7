"""From which length on a server cuts, refuses or forgets prompts, and which end it keeps. No model and no reference.

A text of one sentence, again and again, is counted by the server: each sentence more is as many tokens more, until it
is not. Which end was kept shows without any knowledge of the model: a text with another beginning, and one with another
end. What the server does not see changes nothing."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, Dict, Optional, Tuple

from ..asking.web import Answer, Server
from ..common import NO, UNDECIDED, YES, Problem, with_commas
from ..report import Report
from .asker import Asker

USUAL = 32768     # tokens, to which it is looked: -n
FIRST = 8, 16, 24  # sentences by which the server's count is measured
SENTENCE = ' The grass is green, the sky is blue, and the sun is yellow.'
STARTS = 'The pass key of today is 48213.', 'The pass key of today is 90576.'
ENDS = (' What was the pass key of today? The pass key of today is',
        ' Once upon a time, in a small village by the sea, there lived')
FEW = 3           # tokens that a count may be off the line
WORDS = 16        # tokens of an answer that are compared
LETTERS = 4       # of a token, about: where the server counts nothing


class Cutting:
    """Asks for texts of k sentences. counts: {k: the server's count}; refusals: {k: the answer}."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.counts: Dict[int, Optional[int]] = {}
        self.refusals: Dict[int, Answer] = {}
        self.each, self.begin, self.is_counted = 0.0, 0.0, True

    def text(self, k: int, start: int = 0, end: int = 0) -> str:
        return STARTS[start] + k * SENTENCE + ENDS[end]

    def count(self, k: int) -> None:
        _, self.counts[k], _, refused = self.asker.ask(self.asker.counted_form(self.text(k)), 1)
        if refused:
            self.refusals[k] = refused

    def measure(self) -> None:
        """How many tokens a sentence is, of short texts."""
        self.asker.find_counting(self.text(FIRST[0]))
        for k in FIRST:
            self.count(k)
            if k in self.refusals:
                raise Problem('the server refuses a prompt of %d words (%s)' % (
                    len(self.text(k).split()), self.refusals[k].told()), 'refused')
        counts = [self.counts[k] for k in FIRST]
        if None in counts or len(set(counts)) == 1:
            self.each, self.begin, self.is_counted = len(SENTENCE) / LETTERS, len(self.text(0)) / LETTERS, False
            return
        self.each = (counts[1] - counts[0]) / (FIRST[1] - FIRST[0])
        self.begin = counts[0] - self.each * FIRST[0]

    def expected(self, k: int) -> float:
        return self.begin + self.each * k

    def told(self, k: int) -> str:
        if not self.is_counted:
            return 'about ' + with_commas(round(self.expected(k)))
        return with_commas(self.counts[k] or round(self.expected(k)))

    def is_whole(self, k: int) -> bool:
        if k not in self.counts:
            self.count(k)
        counted = self.counts[k]
        is_short = self.is_counted and counted is not None and counted < self.expected(k) - FEW
        return k not in self.refusals and not is_short

    def borders(self, most: int) -> Tuple[int, Optional[int]]:
        """The most sentences that arrive whole, and the fewest that do not, None where all do."""
        whole, short = 0, next((k for k in FIRST if not self.is_whole(k)), None)
        k = FIRST[-1]
        while short is None and k < most:
            whole, k = k, min(2 * k, most)
            short = None if self.is_whole(k) else k
        if short is None:
            return k, None
        while short - whole > 1:
            middle = (whole + short) // 2
            whole, short = (middle, short) if self.is_whole(middle) else (whole, middle)
        return whole, short

    def answers(self, k: int) -> Dict[Tuple[int, int], Any]:
        return {place: self.asker.ask(self.text(k, *place), WORDS)[0] for place in ((0, 0), (1, 0), (0, 1))}

    def kept(self, k: int, whole: int) -> Optional[str]:
        """Which end is seen of k sentences; None where that cannot be decided. Of `whole` sentences both are there."""
        if self.asker.ask(self.text(k), WORDS)[0] != self.asker.ask(self.text(k), WORDS)[0]:
            return None  # it does not say the same twice
        said, there = self.answers(k), self.answers(whole)
        tells_start, tells_end = there[0, 0] != there[1, 0], there[0, 0] != there[0, 1]
        sees_start, sees_end = said[0, 0] != said[1, 0], said[0, 0] != said[0, 1]
        if sees_start and sees_end:
            return 'both ends, and not the middle'
        if sees_end:
            return 'the end' if tells_start else 'the end, at least'
        return 'the beginning' if tells_end else None

    def forgets(self, k: int) -> bool:
        """Whether the beginning changes the answer to a short text, and not that to k sentences."""
        there, said = self.answers(FIRST[0]), self.answers(k)
        return there[0, 0] != there[1, 0] and said[0, 0] == said[1, 0]


def ask_cut(server: Server, options: Namespace, out: Report) -> int:
    """The whole job. Returns the status."""
    cutting = Cutting(Asker(server, options))
    cutting.measure()
    most = max(FIRST[-1] + 1, int(((options.n or USUAL) - cutting.begin) / cutting.each))
    whole, short = cutting.borders(most)
    out.note('server', server.root)
    if cutting.asker.counts_new:
        out.note('counts', 'of tokens that the cache had not: each text has a beginning of its own')
    out.rows(['sentences', 'expected', 'counted'], [
        ['%d' % k, '%.0f' % cutting.expected(k), '-' if counted is None else '%d' % counted]
        for k, counted in sorted(cutting.counts.items())])
    if short is None:
        forgets = '; of these the beginning changes nothing in the answer: a window, or too far for the model ' \
            '(--tasks shows which)' if cutting.forgets(whole) else ''
        if not cutting.is_counted:
            out.last('cannot tell: the server counts no tokens, or each text as many; none is refused to %s tokens%s'
                     % (cutting.told(whole), forgets or ' (--tasks asks for what it read)'))
            return out.end(UNDECIDED, 'unknown')
        out.last('whole to %s tokens%s' % (cutting.told(whole), forgets))
        return out.end(YES, 'whole')
    to = cutting.told(whole)
    if short in cutting.refusals:
        answer = cutting.refusals[short]
        has_failed = answer.status >= 500
        out.last('%s to %s tokens; it %s %s (%s)' % (
            'whole' if cutting.is_counted else 'taken', to, 'fails at' if has_failed else 'refuses',
            cutting.told(short), answer.told()))
        return out.end(NO, 'failed' if has_failed else 'refused')
    kept = cutting.kept(2 * short, whole)
    out.last('it cuts: whole to %s tokens; of %s it counted %s; what it reads of a longer text: %s' % (
        to, with_commas(round(cutting.expected(short))), with_commas(cutting.counts[short] or 0),
        kept or 'unknown, because its answers are alike or never the same'))
    return out.end(NO, 'cut')
