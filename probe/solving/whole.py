"""Solves for integers in no list: a window, and the number of pairs that rotate. Neither has a derivative, because a
window hides a key completely or not at all. So a grid is tried, and then the numbers around its best point. The
other values of a server with a window are determined by the shorter prompts."""

from __future__ import annotations

import copy
from typing import Dict, List, Optional, Tuple

from ..numbers import decide, values
from ..numbers.candidates import Candidate, number
from ..numbers.decide import Bounds, Reading
from ..numbers.ours import Refused
from ..numbers.values import Numbers
from . import fewest
from .families import SETTING, Family, Given, Solution
from .least_squares import Fit
from .solve import MINDS, Solver

STEP = 1.4         # ratio of neighboring windows in the grid
LEAST = 4          # positions of the smallest window
TELLING = 3        # prompts that determine the values, at least
SIXTEENTHS = 16    # shares of the head for the first tries


class OfAPart(Family):
    """The first pairs rotate, with the formula of a head that has no others, theta^(-2i/r), as in llama.cpp. In run,
    which uses the whole head's formula, that is another theta."""

    def look(self, numbers: Numbers) -> bool:
        own = Candidate(self.words, self.arguments)
        try:
            own.notes, rows = numbers.model.explain(numbers.n, own.arguments)
        except Refused:
            return False
        self.notes, self.pairs = own.notes, len({row['pair'] for row in rows})
        return 'turning' in own.notes and self.pairs > 1

    def told(self, notes: Dict[str, str]) -> Dict[str, str]:
        return dict(notes, method='linear', theta=self.notes['theta'])

    def candidate(self, given: Given) -> Candidate:
        share = self.pairs / max(1, round(given.get('turning', self.pairs)))
        found = super().candidate(given)
        return Candidate(self.words, found.arguments + ['--theta', '%.12g' % min(self.usual('theta') ** share, 1e18)])


class OfTheWhole(OfAPart):
    """The first pairs rotate, with the formula of the whole head."""

    def told(self, notes: Dict[str, str]) -> Dict[str, str]:
        return notes

    def candidate(self, given: Given) -> Candidate:
        return Family.candidate(self, given)


def of_parts(solver: Solver) -> List[OfAPart]:
    """Plain RoPE for only the first pairs, and linear with the settings' scale."""
    own, found = Candidate('', solver.numbers.model.base), []
    values.computes(solver.numbers.model, own, solver.numbers.n)
    for scale in sorted({1.0, max(1.0, number(own.notes.get('scale'), 1))}):
        arguments = own.arguments + ['--rope', 'proportional', '--factor', '%.12g' % scale, '--attention-factor', '1']
        found += [OfAPart('the first pairs turn', arguments), OfTheWhole('proportional', arguments)]
    return [family for family in found if family.look(solver.numbers)]


def around(solver: Solver, start: Tuple[Family, Given], note: str, tried: List[int], most: int) -> Optional[Solution]:
    """The number with the smallest residual, with the given values: the best of those that are tried, and then its
    neighbors, closer and closer."""
    tried, (family, given) = sorted(set(n for n in tried if 1 <= n <= most)), start

    def squares(n):
        return solver.squares(family, dict(given, **{note: n}), solver.answers)
    if not tried:
        return None
    best = min(tried, key=squares)
    at = tried.index(best)
    step = max(best - tried[max(at - 1, 0)], tried[min(at + 1, len(tried) - 1)] - best)
    while step > 1:
        step = (step + 1) // 2
        best = min((n for n in (best, best - step, best + step) if 1 <= n <= most), key=squares)
    found = dict(given, **{note: best})
    left = solver.left(family, found, solver.answers)
    return Solution(family, found, Fit([float(best)], left, [])) if left else None


def window_of(solver: Solver, starts: List[Tuple[Family, Given]]) -> Optional[Solution]:
    """A window with one of these settings, at most as long as the longest prompt; None if it explains nothing."""
    longest, grid, width = max(solver.answers), [], float(LEAST)
    while width < longest:
        grid.append(round(width))
        width *= STEP
    found = [around(solver, start, 'window', grid, longest - 1) for start in starts]
    best = min(filter(None, found), key=lambda s: s.fit.squares, default=None)
    if best is None:
        return None
    without = solver.squares(best.family, {n: v for n, v in best.given.items() if n != 'window'}, solver.answers)
    return best if without - best.fit.squares > MINDS * solver.mean_square(best.fit) else None


def by_shorter_prompts(solver: Solver, families: List[Family], readings: List[Reading]) -> List[Tuple[Family, Given]]:
    """Values determined only with the shorter prompts, which a window does not affect."""
    lengths = sorted(solver.answers)
    for count in sorted({(len(lengths) + 1) // 2, TELLING}, reverse=True):
        if not TELLING <= count < len(lengths):
            continue
        short = solver.on(lengths[:count])
        nearest = sorted(readings, key=lambda r: decide.distance(short.answers, r.ours))[:2]
        few = fewest.of_few(short, short.begins(families, [r.candidates[0] for r in nearest]))
        if few and few.given:
            return [(few.family, few.given)]
    return []


def window_and_values(solver: Solver, behind: List[Tuple[Family, Given]]) -> Optional[Solution]:
    """A window with these values; then the values are fitted again, with all prompts."""
    found = window_of(solver, behind)
    if found is None:
        return None
    rest = {note: value for note, value in found.given.items() if note != 'window'}
    again = solver.solution(fixed(found, 'window'), rest)
    if again is None or again.fit.squares >= found.fit.squares:
        return found
    return Solution(found.family, dict(again.given, window=found.given['window']), again.fit)


def fixed(solution: Solution, note: str) -> Family:
    """The same settings, with the number fixed."""
    family = copy.copy(solution.family)
    family.arguments = family.arguments + [SETTING[note][1], '%d' % solution.given[note]]
    return family


def turning_of(solver: Solver) -> Optional[Solution]:
    found = []
    for family in of_parts(solver):
        grid = [round(family.pairs * i / SIXTEENTHS) for i in range(1, SIXTEENTHS)]
        found.append(around(solver, (family, {}), 'turning', grid, family.pairs - 1))
    return min(filter(None, found), key=lambda s: s.fit.squares, default=None)


def bounds_of(solver: Solver, solution: Solution, note: str) -> Bounds:
    """Bounds of the number, down and up, as far as the fit is not significantly worse."""
    value = solution.given[note]
    most, ends = solution.fit.squares + MINDS * solver.mean_square(solution.fit), []
    for side in -1, 1:
        at, step = int(value), 1
        while step:
            there = at + side * step
            given = dict(solution.given, **{note: there})
            if there >= 1 and solver.squares(solution.family, given, solver.answers) <= most:
                at, step = there, 2 * step
            else:
                step //= 2
        ends.append(float(at))
    return SETTING[note][2], ends[0], ends[1]
