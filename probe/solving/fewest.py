"""The fewest differing values that explain a server, most often one. A value is fitted by itself, from a near reading,
and accepted if the derivatives with respect to all other values show that none of them would explain more (Rao's
score test, 1948). Otherwise the value that would explain most is also fitted. This needs a quarter of the readings
that fitting all values at once needs."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Tuple

from ..numbers import decide
from ..numbers.values import LEAST, STEPPED
from .families import Family, Given, Solution
from .least_squares import Fit, Vector, columns_at, dot, solved
from .solve import CONTEXTS, FIRST, MINDS, SCALES, STEPS, THETAS, Solver, mean_of

ENOUGH = 0.025       # nats, at most, that may remain without a look at other values: rounding causes about as much
SURE = 'theta', 'factor'  # are fitted regardless of their derivatives, which only hold nearby
STILL = 0.1          # of the step of a derivative: a value that moves less counts as unchanged
MOST = 3             # values that are fitted, one after another
NEARBY = 4           # times the squares that the nearest reading leaves, at most, for a start
ALIKE = 0.4          # of the best improvement by derivatives, at least
JUMPS = 0.3, 0.55, 1.8, 3.2  # times a value that has steps, as starts
# Far values, if no near one explains everything: times the default, or values of a scale.
FAR = {'theta': THETAS, 'factor': SCALES, 'train_ctx': CONTEXTS, 'theta_sliding': THETAS, 'factor_sliding': SCALES}
MAYBE = 10.0         # times the squares of the best of them, for a fit with the shorter prompts
ALSO = 2.0           # times the squares of the best of these fits, for a fit with all prompts


def moved(solver: Solver, solution: Solution, note: str) -> Optional[Vector]:
    """The server's deviation, changed by a unit of the logarithm of one more value."""
    family, given = solution.family, solution.given
    value = given.get(note) or solver.usual(solution, note)

    def measure(x):
        return solver.left(family, dict(given, **{note: math.exp(x[0])}), solver.answers)
    column = columns_at(measure, [math.log(value)], solution.fit.left, [STEPS[note]])[0] if value > 0 else []
    return column if any(column) else None


def mix_of(columns: List[Vector], left: Vector) -> Vector:
    """The multiples of these columns that minimize the squares of `left`."""
    square = [[dot(a, b) for b in columns] for a in columns]
    largest = max((square[i][i] for i in range(len(columns))), default=0)
    for i in range(len(columns)):
        square[i][i] += 1e-6 * largest
    return columns and solved(square, [dot(column, left) for column in columns]) or [0.0] * len(columns)


def gain(columns: List[Vector], left: Vector) -> float:
    """The decrease of the squares of `left` with the best mix of these columns."""
    return dot(mix_of(columns, left), [dot(column, left) for column in columns])


def is_all(solver: Solver, solution: Solution) -> bool:
    """Whether no other value, nor all others together, would explain more, and none of them has moved by more than
    bounds would show."""
    moves = [(note, moved(solver, solution, note)) for note in solution.family.settings]
    notes, columns = [note for note, c in moves if c], [c for _, c in moves if c]
    return gain(columns, solution.fit.left) <= MINDS * solver.mean_square(solution.fit) or all(
        abs(way) <= max(LEAST, STEPS[note] * STILL) for note, way in zip(notes, mix_of(columns, solution.fit.left)))


def values_to_try(solver: Solver, start: Solution, notes: List[str]) -> List[str]:
    """The values, among these, that explain most according to their derivatives."""
    columns = [(note, moved(solver, start, note)) for note in notes]
    gains = {note: gain([column], start.fit.left) for note, column in columns if column}
    most = max(gains.values(), default=0.0)
    return [note for note, explained in gains.items() if note in SURE or explained >= ALIKE * most]


def fitted(solver: Solver, family: Family, note: str, given: Given) -> Optional[Solution]:
    usual = family.usual(note)
    start = given or {note: usual}
    if note in STEPPED and not given:
        start = solver.best_of(family, start, note, [usual * jump for jump in JUMPS])
    return solver.solution(family, start)


def from_afar(solver: Solver, families: List[Family]) -> List[Optional[Solution]]:
    """One value from the best points of a wide grid, with the shorter prompts first: longer prompts have more
    valleys."""
    starts = []
    for family in families:
        for note, steps in FAR.items():
            if note in family.settings:
                usual = 1.0 if note.startswith('factor') else family.usual(note)
                given = solver.best_of(family, {}, note, [usual * step for step in steps])
                starts.append((solver.squares(family, given, solver.short), family, given))
    least = min((squares for squares, _, _ in starts), default=0.0)
    near = [solver.solution(family, given, solver.short) for squares, family, given in starts
            if given and squares <= MAYBE * least]
    least = min((s.fit.squares for s in near if s), default=0.0)
    return [solver.solution(s.family, s.given) for s in near if s and s.fit.squares <= ALSO * least]


def of_one(solver: Solver, starts: List[Tuple[Family, Given]]) -> Optional[Solution]:
    """The settings with one differing value, or none. starts: from near readings. Far values are tried if no near one
    explains everything, and then betas, which seldom differ."""
    found: List[Any] = []
    squares = [solver.squares(family, given, solver.answers) for family, given in starts]
    for is_first in (True, False):
        if not is_first:
            found += from_afar(solver, [f for i, (f, _) in enumerate(starts) if f not in [s[0] for s in starts[:i]]])
            best = best_of_all(solver, found)
            if best is None or is_enough(solver, best):
                return best
        for (family, given), start in zip(starts, squares):
            left = solver.left(family, {}, solver.answers)
            if len(given) > 1 or left is None or start > NEARBY * min(squares):
                continue
            notes = [note for note in given or family.settings if (note in FIRST) is is_first]
            plain = Solution(family, {}, Fit([], left, []))
            notes = notes if given else values_to_try(solver, plain, notes)
            found += [plain] + [fitted(solver, family, note, given) for note in notes]
        best = best_of_all(solver, found)
        if best is None or is_enough(solver, best):
            return best
    return best


def best_of_all(solver: Solver, found: List[Optional[Solution]]) -> Optional[Solution]:
    some = [s for s in found if s is not None]
    return solver.best_of_both(some) if some else None


def is_enough(solver: Solver, solution: Solution) -> bool:
    return mean_of(solution.fit.left) <= ENOUGH and is_all(solver, solution)


def with_one_more(solver: Solver, solution: Solution) -> Optional[Solution]:
    """Also fits the value that explains most of the residual, according to its derivatives and those of the others."""
    own = [moved(solver, solution, note) for note in solution.given]
    gains = []
    for note in solution.family.settings:
        column = None if note in solution.given else moved(solver, solution, note)
        if column:
            gains.append((gain([c for c in own if c] + [column], solution.fit.left), note))
    if not gains:
        return None
    note = max(gains)[1]
    more = solver.solution(solution.family, dict(solution.given, **{note: solver.usual(solution, note)}))
    return more if more and solver.minds(more.fit, solution.fit) else None


def of_few(solver: Solver, starts: List[Tuple[Family, Given]]) -> Optional[Solution]:
    """The fewest values such that no other value would explain more; None if so many values leave more than rounding
    does."""
    found = of_one(solver, starts)
    while found is not None and not is_all(solver, found):
        is_near = mean_of(found.fit.left) <= decide.LOST
        more = with_one_more(solver, found) if is_near and len(found.given) < MOST else None
        if more and any(solver.is_usual(more, note) for note in more.given if note not in found.given):
            break
        found = more
    return found if found is not None and mean_of(found.fit.left) <= ENOUGH else None
