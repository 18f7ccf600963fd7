"""Effective length, as ./run --tasks has it (src/tasks/effective.c): the longest text up to which a server keeps a
share of its own score in short texts (NoLiMa, arXiv 2502.05167)."""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

USUAL = 0.85        # of the score in short texts
SHORT_TO = 1024     # tokens of a short text, at most
FEWEST_RIGHT = 0.5  # of answers in short texts, with which lengths are compared


class Score(NamedTuple):
    """All tasks' answers at a length."""
    length: int
    correct: int
    asked: int

    def share(self) -> float:
        return self.correct / self.asked

    def squared_error(self) -> float:
        """With one more answer of either kind (Laplace), so that nothing is sure after a few."""
        share = (self.correct + 1) / (self.asked + 2)
        return share * (1 - share) / self.asked


def scores_of(trials: List[Any]) -> List[Score]:
    """By length, of those at which all tasks were asked."""
    tasks = {trial.task for trial in trials}
    by_length: Dict[int, List[Any]] = {}
    for trial in trials:
        if trial.is_done:
            by_length.setdefault(trial.length, []).append(trial)
    return [Score(length, sum(t.right for t in asked), len(asked)) for length, asked in sorted(by_length.items())
            if {t.task for t in asked} == tasks]


def longest_kept(scores: List[Score], short: Score, share: float, errors: float) -> int:
    """The longest length up to which all scores, moved by so many standard errors, are enough; 0: none."""
    kept = 0
    for s in scores:
        error = math.sqrt(s.squared_error() + share ** 2 * short.squared_error())
        if s.share() + errors * error < share * short.share():
            break
        kept = s.length
    return kept


def effective_length(trials: List[Any], share: float) -> Tuple[str, Optional[Dict[str, Optional[int]]]]:
    """In words, and {'length', 'low', 'high', 'longest'}, where None stands for below the shortest; without a score in
    short texts no numbers."""
    scores = scores_of(trials)
    short = [s for s in scores if s.length <= SHORT_TO]
    if not short:
        return 'unknown: no text of %d tokens or fewer has all tasks' % SHORT_TO, None
    base = Score(0, sum(s.correct for s in short), sum(s.asked for s in short))
    texts = ' to '.join(str(n) for n in sorted({short[0].length, short[-1].length}))
    score = '%.2f +- %.2f in texts of %s' % (base.share(), math.sqrt(base.squared_error()), texts)
    if base.share() < FEWEST_RIGHT:
        return 'unknown: accuracy is %s (%g expected)' % (score, FEWEST_RIGHT), None
    length, low, high = (longest_kept(scores, base, share, errors) for errors in (0, -1, 1))
    longest = scores[-1].length
    if length and not low:
        low = short[0].length
    keeps = 'keeps %g %% of %s' % (100 * share, score)
    numbers = {'length': length or None, 'low': low or None, 'high': high or None, 'longest': longest}
    if not length:
        return 'below %d, %s' % (short[0].length, keeps), numbers
    most = '%d or more' % high if high == longest else str(high)
    return '%d (%s), %s' % (length, most if low == high else '%d to %s' % (low, most), keeps), numbers
