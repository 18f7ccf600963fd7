"""Whether what was found is the end of the search: the fewest values that explain as much, and nothing that was
measured on the way toward which the server still lies. A fit may end in a valley beside the right one, and its errors,
which come from derivatives there, then exclude the truth."""

from __future__ import annotations

import itertools
import math
from typing import List, Optional, Tuple

from ..numbers import decide, values
from .families import Family, Given, Solution
from .least_squares import dot, errors
from .solve import MINDS, Solver

LEANS = 5      # standard errors, of hundreds of points that were measured
NEAR = 4       # times the squares by the shorter prompts, with which fewer values are tried by all prompts


def toward(solver: Solver, solution: Solution) -> Optional[Tuple[Family, Given]]:
    """What was measured, toward which the server is off the solution most surely; None where it is not off toward any,
    or by less than any bounds give. The direction is as in decide.along, the error the larger one: by token, or by
    prompt."""
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
    """The largest logarithm of what a value is times another's; 1 for another method."""
    if family is not solution.family:
        return 1.0
    own = [(solution.given.get(note) or solver.usual(solution, note),
            given.get(note) or solver.made(family, given, note)) for note in {**solution.given, **given}]
    return max((abs(math.log(there / here)) for here, there in own if here > 0 and there > 0), default=0.0)


def with_fewer(solver: Solver, solution: Solution) -> List[Solution]:
    """Each of its values alone, and each two of them, where they leave as little of the shorter prompts: derivatives
    cannot say how much that would be, so far off."""
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
