"""Finds the length from which a server cuts, refuses or forgets prompts, and the end that it keeps, without a model or
a reference.

The server counts the tokens of a text that repeats one sentence: each sentence adds the same number of tokens, until
the prompt is cut. The end that was kept is found without any knowledge of the model, with a text that has another
beginning and one that has another end: parts that the server does not see do not change the answer."""

from __future__ import annotations

from argparse import Namespace
from typing import Dict, List, Optional, Set, Tuple

from ..asking.web import Answer, Server
from ..common import NO, UNDECIDED, YES, Problem, with_commas
from ..report import Report
from .asker import CHAT_ANSWER, Asker
from .said import Said

USUAL = 32768     # tokens, default of -n
FIRST = 8, 16, 24  # sentences in the texts that calibrate the server's count
SENTENCE = ' The grass is green, the sky is blue, and the sun is yellow.'
STARTS = 'The pass key of today is 48213.', 'The pass key of today is 90576.'
ENDS = (' What was the pass key of today? The pass key of today is',
        ' Once upon a time, in a small village by the sea, there lived')
THOUGHTS = 'thoughts'  # instead of a place
PLACES = 'the beginning', 'the middle', 'the end'
FEW = 3           # tokens by which a count may be off the line
ROUNDED = 6       # the same if the short texts are not exactly on a line, because the server rounds
ROUGH = 0.1       # of a count, if the server's counts are approximate
WORDS = 16        # tokens of an answer that are compared
LETTERS = 4       # of a token, about: if the server does not count


class Cutting:
    """Asks texts of k sentences. counts: {k: the server's count}; refusals: {k: the answer}; empty: each k with an
    empty answer."""

    def __init__(self, asker: Asker) -> None:
        self.asker, self.most = asker, CHAT_ANSWER if asker.chat else WORDS
        self.counts: Dict[int, Optional[int]] = {}
        self.refusals: Dict[int, Answer] = {}
        self.empty: Set[int] = set()
        self.whole = 0  # the most sentences so far that arrived complete
        self.each, self.begin, self.is_counted, self.is_exact = 0.0, 0.0, True, True
        self.rough = 0.0  # of a count, by which it may be too small

    def text(self, k: int, start: int = 0, end: int = 0) -> str:
        return STARTS[start] + k * SENTENCE + ENDS[end]

    def count(self, k: int) -> None:
        said = self.asker.ask(self.asker.counted_form(self.text(k)), 1)
        self.counts[k] = said.counted or None
        if said.is_empty():  # one token may be of a kind that is not shown
            said = self.asker.ask(self.text(k), self.most)
        if said.refused:
            self.refusals[k] = said.refused
        elif said.is_empty():
            self.empty.add(k)

    def measure(self) -> None:
        """Measures the tokens of a sentence with short texts."""
        self.asker.find_counting(self.text(FIRST[0]))
        for k in FIRST:
            self.count(k)
            if k in self.refusals:
                raise Problem('the server refuses a prompt of %d words (%s)' % (
                    len(self.text(k).split()), self.refusals[k].told()), 'refused')
        counts = [self.counts[k] for k in FIRST]
        self.is_counted = self.asker.are_counts(counts)
        if not self.is_counted or len(set(counts)) == 1:
            self.each, self.begin = len(SENTENCE) / LETTERS, len(self.text(0)) / LETTERS
            return
        self.is_exact = counts[1] - counts[0] == counts[2] - counts[1]  # FIRST are equally spaced
        self.draw(FIRST[1] if counts[2] <= counts[1] else FIRST[2])

    def draw(self, k: int) -> None:
        """Fits the line of counts, from the shortest text to k sentences."""
        self.each = (self.counts[k] - self.counts[FIRST[0]]) / (k - FIRST[0])
        self.begin = self.counts[k] - self.each * k

    def expected(self, k: int) -> float:
        return self.begin + self.each * k

    def told(self, k: int) -> str:
        if not self.is_counted:
            return 'about ' + with_commas(round(self.expected(k)))
        return with_commas(self.counts.get(k) or round(self.expected(k)))

    def is_whole(self, k: int) -> bool:
        if k not in self.counts:
            self.count(k)
        counted = self.counts[k]
        off = (FEW if self.is_exact else ROUNDED) + self.rough * self.expected(k)
        is_short = self.is_counted and counted is not None and counted < self.expected(k) - off
        is_whole = k not in self.refusals and not is_short and k not in self.empty
        self.whole = max(self.whole, k) if is_whole else self.whole
        return is_whole

    def borders(self, most: int) -> Tuple[int, Optional[int]]:
        """The most sentences that arrive complete, and the fewest that do not, None if all do. If a text of twice as
        many has the expected count, counts are only approximate."""
        whole, short = self.search(most)
        if short is None or short in self.refusals or short in self.empty:
            return whole, short
        if self.is_whole(2 * short) or (self.counts[2 * short] or 0) > (1 - ROUGH) * self.expected(2 * short):
            self.rough = ROUGH
            return self.search(most)
        return whole, short

    def search(self, most: int) -> Tuple[int, Optional[int]]:
        whole, short = 0, next((k for k in FIRST if not self.is_whole(k)), None)
        k = FIRST[-1]
        while short is None and k < most:
            whole, k = k, min(2 * k, most)
            short = None if self.is_whole(k) else k
            if short is None and not self.is_exact and self.counts[k]:
                self.draw(k)
        if short is None:
            return k, None
        while short - whole > 1:
            middle = (whole + short) // 2
            whole, short = (middle, short) if self.is_whole(middle) else (whole, middle)
        return whole, short

    def said(self, text: str) -> str:
        return self.asker.ask(text, self.most).whole()

    def tells(self, k: int, place: str) -> Optional[bool]:
        """Whether other words at a place of k sentences change the answer. Thoughts may have the same beginning, so
        they get more tokens then; None if they do not end."""
        for most in (self.most, self.asker.longest):
            one, other = self.texts_said(k, place, most)
            if one.whole() != other.whole():
                return True
            if not any(said.is_thinking() or self.asker.chat and said.is_full for said in (one, other)):
                return False
        return None

    def texts_said(self, k: int, place: str, most: int) -> List[Said]:
        """The answers to two texts that differ at the place."""
        return [self.asker.ask(text, most) for text in self.texts(k, place)]

    def texts(self, k: int, place: str) -> List[str]:
        if place == 'the end':
            return [self.text(k, end=0), self.text(k, end=1)]
        if place == 'the beginning':
            return [self.text(k, start=0), self.text(k, start=1)]
        return [(k // 2 * SENTENCE + ' ' + start + (k - k // 2) * SENTENCE + ENDS[0]).lstrip() for start in STARTS]

    def kept(self, k: int, whole: int) -> Optional[str]:
        """The end of k sentences that is seen; None if that cannot be decided. `whole` sentences arrive complete."""
        if self.said(self.text(k)) != self.said(self.text(k)):
            return None  # its answers vary
        sees_start, sees_end = self.tells(k, 'the beginning'), self.tells(k, 'the end')
        if sees_start and sees_end:
            return 'both ends, and not the middle'
        if sees_end:
            return 'the end' if self.tells(whole, 'the beginning') else 'the end, at least'
        return 'the beginning' if self.tells(whole, 'the end') else None

    def unseen(self, k: int) -> List[str]:
        """The places that matter in a short text, but not in a text of k sentences; [THOUGHTS] if thoughts do not
        end."""
        told = {place: self.tells(k, place) for place in PLACES}
        if None in told.values():
            return [THOUGHTS]
        return [place for place in PLACES if not told[place] and self.tells(FIRST[0], place) is not False]


def whole_in_words(cutting: Cutting, k: int) -> Tuple[str, int, str]:
    """(last line, status, the word for programs) if all texts to k sentences arrive complete."""
    to, unseen = cutting.told(k), cutting.unseen(k)
    if THOUGHTS in unseen:
        how = 'counted whole' if cutting.is_counted else 'taken'
        return 'cannot tell: %s to %s tokens, and thoughts used up the %s tokens of an answer (--answer-tokens N ' \
            'gives them more)' % (how, to, with_commas(cutting.asker.longest)), UNDECIDED, 'unknown'
    if 'the end' in unseen:
        return 'cannot tell: to texts of %s tokens it says the same, whatever their end' % to, UNDECIDED, 'unknown'
    forgets = '; of these %s change%s nothing in the answer: a cut that is not counted, a window, or too far for the ' \
        'model (--tasks shows which)' % (' and '.join(unseen), 's' * (len(unseen) == 1)) if unseen else ''
    if not cutting.is_counted:
        return 'cannot tell: the server counts no tokens, or each text as many; none is refused to %s tokens%s' % (
            to, forgets or ' (--tasks asks for what it read)'), UNDECIDED, 'unknown'
    if not cutting.counts[k]:
        return 'cannot tell: the server does not count texts of %s tokens, and shorter ones it does%s' % (
            to, forgets), UNDECIDED, 'unknown'
    if unseen:
        return 'cannot tell: counted whole to %s tokens%s' % (to, forgets), UNDECIDED, 'unknown'
    return 'whole to %s tokens' % to, YES, 'whole'


def short_in_words(cutting: Cutting, whole: int, short: int) -> Tuple[str, int, str]:
    """The same if `short` sentences do not arrive complete, and one fewer do."""
    to = '%s to %s tokens' % ('whole' if cutting.is_counted else 'taken', cutting.told(whole))
    if short in cutting.refusals:
        answer = cutting.refusals[short]
        has_failed = answer.status >= 500
        words = '%s; it %s %s (%s)' % (to, 'fails at' if has_failed else 'refuses', cutting.told(short), answer.told())
        return words, NO, 'failed' if has_failed else 'refused'
    if short in cutting.empty:
        return '%s; answers are empty from %s tokens on' % (to, cutting.told(short)), NO, 'empty'
    return 'it cuts: %s; of %s it counted %s; what it reads of a longer text: %s' % (
        to, with_commas(round(cutting.expected(short))), with_commas(cutting.counts[short] or 0),
        cutting.kept(2 * short, whole) or 'unknown, because its answers are alike or never the same'), NO, 'cut'


def ask_cut(server: Server, options: Namespace, out: Report) -> int:
    """Runs the whole job. Returns the status."""
    cutting = Cutting(Asker(server, options))
    cutting.measure()
    most = max(FIRST[-1] + 1, int(((options.n or USUAL) - cutting.begin) / cutting.each))
    if set(FIRST) <= cutting.empty:
        out.last('cannot tell: the answers to the shortest texts are also empty')
        return out.end(UNDECIDED, 'unknown')
    try:
        whole, short = cutting.borders(most)
    except Problem:
        out.last('unfinished: whole to %s tokens until then' % cutting.told(cutting.whole))
        raise
    out.note('server', server.root)
    if cutting.asker.counts_new:
        out.note('counts', 'of tokens that the cache had not: each text has a beginning of its own')
    out.rows(['sentences', 'expected', 'counted'], [
        ['%d' % k, '%.0f' % cutting.expected(k), '-' if counted is None else '%d' % counted]
        for k, counted in sorted(cutting.counts.items())])
    last, status, reason = whole_in_words(cutting, whole) if short is None else short_in_words(cutting, whole, short)
    out.last(last)
    return out.end(status, reason)
