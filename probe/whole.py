"""Whole numbers that no list has, solved for: a window, and how many pairs turn. Neither has a derivative: what a
window hides is all or nothing. So a grid is tried, and then the numbers around its best."""

from __future__ import annotations

from typing import Dict, List, Optional

from .candidates import Candidate
from .decide import Bounds
from .least_squares import Fit
from .ours import Refused
from .solve import MINDS, SETTING, Family, Given, Solution, Solver
from .values import Numbers

STEP = 1.4         # from a window of the grid to the next
LEAST = 4          # positions of the smallest window
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
        return dict(notes, method='none', theta=self.notes['theta'])

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


def of_parts(solver: Solver) -> List[Family]:
    """Plain RoPE of the first pairs alone."""
    arguments = solver.numbers.model.base + ['--rope', 'proportional', '--factor', '1', '--attn-factor', '1']
    found: List[Family] = [OfAPart('the first pairs turn', arguments), OfTheWhole('proportional', arguments)]
    return [family for family in found if family.look(solver.numbers)]


def around(solver: Solver, family: Family, note: str, tried: List[int], most: int) -> Optional[Solution]:
    """The number that leaves least: the best of those that are tried, and then those beside it, ever nearer."""
    tried = sorted(set(n for n in tried if 1 <= n <= most))

    def squares(n):
        return solver.squares(family, {note: n}, solver.answers)
    if not tried:
        return None
    best = min(tried, key=squares)
    at = tried.index(best)
    step = max(best - tried[max(at - 1, 0)], tried[min(at + 1, len(tried) - 1)] - best)
    while step > 1:
        step = (step + 1) // 2
        best = min((n for n in (best, best - step, best + step) if 1 <= n <= most), key=squares)
    left = solver.left(family, {note: best}, solver.answers)
    return Solution(family, {note: best}, Fit([float(best)], left, [])) if left else None


def window_of(solver: Solver, families: List[Family]) -> Optional[Solution]:
    """A window behind one of these settings, of the longest prompt at most."""
    longest, grid, width = max(solver.answers), [], float(LEAST)
    while width < longest:
        grid.append(round(width))
        width *= STEP
    found = [around(solver, family, 'window', grid, longest - 1) for family in families]
    return min(filter(None, found), key=lambda s: s.fit.squares, default=None)


def turning_of(solver: Solver) -> Optional[Solution]:
    found = []
    for family in of_parts(solver):
        grid = [round(family.pairs * i / SIXTEENTHS) for i in range(1, SIXTEENTHS)]
        found.append(around(solver, family, 'turning', grid, family.pairs - 1))
    return min(filter(None, found), key=lambda s: s.fit.squares, default=None)


def bounds_of(solver: Solver, solution: Solution) -> List[Bounds]:
    """From the number down and up, as far as the server does not mind."""
    [(note, value)] = solution.given.items()
    most, ends = solution.fit.squares + MINDS * solver.mean_square(solution.fit), []
    for side in -1, 1:
        at, step = int(value), 1
        while step:
            there = at + side * step
            if there >= 1 and solver.squares(solution.family, {note: there}, solver.answers) <= most:
                at, step = there, 2 * step
            else:
                step //= 2
        ends.append(float(at))
    return [(SETTING[note][2], ends[0], ends[1])]
