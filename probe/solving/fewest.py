"""The fewest values of its own that explain a server, most often one. A value is fitted alone, from a reading that is
near, and believed if the derivatives by all other values say that none of them would explain more (Rao's score test,
1948). Else the one that would explain most is let go, too. So a quarter of the readings is enough that it takes to
move all values at once."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Tuple

from ..numbers import decide
from ..numbers.values import LEAST, STEPPED
from .families import Family, Given, Solution
from .least_squares import Fit, Vector, columns_at, dot, solved
from .solve import CONTEXTS, FIRST, MINDS, SCALES, STEPS, THETAS, Solver, mean_of

ENOUGH = 0.025       # nats, at most, that are left where no others need be looked at: rounding makes about as much
SURE = 'theta', 'factor'  # are fitted whatever their derivatives say, which hold near by only
STILL = 0.1          # of the step of a derivative: what moves less does not move
MOST = 3             # values that are let go, one after another
NEARBY = 4           # times the squares that the nearest reading leaves: what leaves more is no start
ALIKE = 0.4          # of what the best explains that way, at least
JUMPS = 0.3, 0.55, 1.8, 3.2  # times a value that comes in steps, to begin with
# Far values, where nothing near is all: times the usual one, of a scale itself.
FAR = {'theta': THETAS, 'factor': SCALES, 'train_ctx': CONTEXTS, 'theta_sliding': THETAS, 'factor_sliding': SCALES}
MAYBE = 10.0         # times the squares of the best of them, that are fitted by the shorter prompts
ALSO = 2.0           # times the squares of the best of them by the shorter prompts, that all prompts are asked of


def moved(solver: Solver, solution: Solution, note: str) -> Optional[Vector]:
    """What the server is off by, changed by a unit of the logarithm of one more value."""
    family, given = solution.family, solution.given
    value = given.get(note) or solver.usual(solution, note)

    def measure(x):
        return solver.left(family, dict(given, **{note: math.exp(x[0])}), solver.answers)
    column = columns_at(measure, [math.log(value)], solution.fit.left, [STEPS[note]])[0] if value > 0 else []
    return column if any(column) else None


def mix_of(columns: List[Vector], left: Vector) -> Vector:
    """How far along each of these columns the squares of `left` would be least."""
    square = [[dot(a, b) for b in columns] for a in columns]
    largest = max((square[i][i] for i in range(len(columns))), default=0)
    for i in range(len(columns)):
        square[i][i] += 1e-6 * largest
    return columns and solved(square, [dot(column, left) for column in columns]) or [0.0] * len(columns)


def gain(columns: List[Vector], left: Vector) -> float:
    """By how much the squares of `left` would shrink, if these columns could be mixed at will."""
    return dot(mix_of(columns, left), [dot(column, left) for column in columns])


def is_all(solver: Solver, solution: Solution) -> bool:
    """Whether no other value, nor all others together, would explain more, or any of them by a move that bounds would
    show."""
    moves = [(note, moved(solver, solution, note)) for note in solution.family.settings]
    notes, columns = [note for note, c in moves if c], [c for _, c in moves if c]
    return gain(columns, solution.fit.left) <= MINDS * solver.mean_square(solution.fit) or all(
        abs(way) <= max(LEAST, STEPS[note] * STILL) for note, way in zip(notes, mix_of(columns, solution.fit.left)))


def values_to_try(solver: Solver, start: Solution, notes: List[str]) -> List[str]:
    """Of these values those that explain most by their derivatives."""
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
    """One value from the best of a wide grid, by the shorter prompts first: the longer the prompt, the more valleys."""
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
    """The settings with one value of its own, or with none. starts: of readings that are near. Far values are tried
    where none is all, and then betas, which seldom are what differs."""
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
    """The value that explains most of what is left goes free, too, by its derivatives beside those of the others."""
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
    """As few values as no other value would explain more of; None where so many leave more than rounding does."""
    found = of_one(solver, starts)
    while found is not None and not is_all(solver, found):
        is_near = mean_of(found.fit.left) <= decide.LOST
        more = with_one_more(solver, found) if is_near and len(found.given) < MOST else None
        if more and any(solver.is_usual(more, note) for note in more.given if note not in found.given):
            break
        found = more
    return found if found is not None and mean_of(found.fit.left) <= ENOUGH else None
