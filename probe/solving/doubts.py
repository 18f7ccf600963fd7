"""Whether the result is the end of the search: the fewest values that explain as much, with no deviation of the server
toward a point that was measured on the way. A fit may end in a valley next to the right one; its errors, which come
from derivatives there, then exclude the truth."""

from __future__ import annotations

import itertools
import math
from typing import List, Optional, Tuple

from ..numbers import decide, values
from .families import Family, Given, Solution
from .least_squares import dot, errors
from .solve import MINDS, Solver

LEANS = 5      # standard errors, for the most deviating of hundreds of measured points
NEAR = 4       # times the squares with the shorter prompts, for fewer values to be tried with all prompts


def toward(solver: Solver, solution: Solution) -> Optional[Tuple[Family, Given]]:
    """The measured point toward which the server deviates from the solution most surely; None if it deviates toward
    none, or by less than the bounds. The direction is as in decide.along, the error the larger of the errors over
    tokens and over prompts."""
    left, sizes = solution.fit.left, [len(solver.answers[n]) for n in sorted(solver.answers)]
    faint, most, found = decide.FAINT ** 2 * len(left), float(LEANS), None
    for family, given, there in solver.points:
        way = [a - b for a, b in zip(left, there)]
        length = dot(way, way)
        if length < faint:
            continue
        t = dot(left, way) / length
        rest = [a - t * b for a, b in zip(left, way)]
        error = max(errors([way], rest, sizes)[0], (faint / len(left) / length) ** 0.5)
        if t / error > most and t * apart(solver, solution, family, given) > values.LEAST:
            most, found = t / error, (family, given)
    return found


def apart(solver: Solver, solution: Solution, family: Family, given: Given) -> float:
    """The largest logarithm of a ratio of two values; 1 for another method."""
    if family is not solution.family:
        return 1.0
    own = [(solution.given.get(note) or solver.usual(solution, note),
            given.get(note) or solver.made(family, given, note)) for note in {**solution.given, **given}]
    return max((abs(math.log(there / here)) for here, there in own if here > 0 and there > 0), default=0.0)


def with_fewer(solver: Solver, solution: Solution) -> List[Solution]:
    """Each of its values by itself, and each pair of them, if they leave as small a residual of the shorter prompts:
    derivatives are not valid so far away."""
    own, found = solver.squares(solution.family, solution.given, solver.short), []
    enough = NEAR * own + MINDS * solver.mean_square(solution.fit)
    for count in range(1, min(3, len(solution.given))):
        for notes in itertools.combinations(solution.given, count):
            start = {note: solution.given[note] for note in notes}
            few = solver.solution(solution.family, start, solver.short)
            again = few and few.fit.squares <= enough and solver.solution(solution.family, few.given)
            if again and not solver.minds(solution.fit, again.fit):
                found.append(again)
        if found:
            break
    return found
