"""Whole numbers that no list has, solved for: a window, and how many pairs turn. Neither has a derivative: what a
window hides is all or nothing. So a grid is tried, and then the numbers around its best. Whatever else a server with a
window does is determined by the shorter prompts."""

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

STEP = 1.4         # from a window of the grid to the next
LEAST = 4          # positions of the smallest window
TELLING = 3        # prompts that determine values, at least
SIXTEENTHS = 16    # shares of the head that are tried at first


class OfAPart(Family):
    """The first pairs turn, by the formula of a head that has no others: theta^(-2i/r). So llama.cpp counts. As run
    computes it, by the whole head's formula, that is another theta."""

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
    """The first pairs turn, by the formula of the whole head."""

    def told(self, notes: Dict[str, str]) -> Dict[str, str]:
        return notes

    def candidate(self, given: Given) -> Candidate:
        return Family.candidate(self, given)


def of_parts(solver: Solver) -> List[OfAPart]:
    """Plain RoPE of the first pairs alone, and linear of the settings' scale."""
    own, found = Candidate('', solver.numbers.model.base), []
    values.computes(solver.numbers.model, own, solver.numbers.n)
    for scale in sorted({1.0, max(1.0, number(own.notes.get('scale'), 1))}):
        arguments = own.arguments + ['--rope', 'proportional', '--factor', '%.12g' % scale, '--attention-factor', '1']
        found += [OfAPart('the first pairs turn', arguments), OfTheWhole('proportional', arguments)]
    return [family for family in found if family.look(solver.numbers)]


def around(solver: Solver, start: Tuple[Family, Given], note: str, tried: List[int], most: int) -> Optional[Solution]:
    """The number that leaves least beside the values given: the best of those that are tried, and then those beside it,
    ever nearer."""
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
    """A window beside one of these settings, of the longest prompt at most; None where it explains nothing."""
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
    """Values determined by the shorter prompts alone, which a window does not touch."""
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
    """A window beside these values; then the values once more, by all prompts."""
    found = window_of(solver, behind)
    if found is None:
        return None
    rest = {note: value for note, value in found.given.items() if note != 'window'}
    again = solver.solution(fixed(found, 'window'), rest)
    if again is None or again.fit.squares >= found.fit.squares:
        return found
    return Solution(found.family, dict(again.given, window=found.given['window']), again.fit)


def fixed(solution: Solution, note: str) -> Family:
    """The same settings, of which the number is no value that moves."""
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
    """From the number down and up, as far as the server does not mind."""
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
