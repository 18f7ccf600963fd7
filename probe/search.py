"""The search for values that no reading has: which families and numbers are tried, and what of it is believed."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from . import decide, whole
from .candidates import Candidate
from .common import plainly
from .decide import Answers, Bounds, Reading, Verdict
from .solve import FIRST, Family, OutOfTime, Solution, Solver
from .values import WHOLE, Numbers

CLEAR = 4           # standard errors by which what is solved for explains more than a listed reading
MANY = 3            # values that differ: so many may be a valley beside the right one, and the grid is tried
WELL = 0.04         # nats, at most, that are left by values that are named: rounding makes as much
SHORTEST = 2        # prompts that tell the reading behind a window
EXPLAINS = 0.7      # of what the listed readings leave, at most


def families_of(numbers: Numbers) -> List[Family]:
    """The settings' own method, and the methods that servers put in its place."""
    base = numbers.model.base
    own = Family('the settings', base)
    found = [own] if own.look(numbers) else []
    method = own.notes.get('method')
    scaled: List[Any] = ['--factor', '4']
    for name, more in (('none', []), ('linear', scaled), ('yarn', scaled)):
        family = Family(name, base + ['--rope', name] + more + (['--attn-factor', '1'] if name != 'yarn' else []))
        if name != method and family.look(numbers):
            found.append(family)
    return found


def is_clear(solution: Solution, listed: List[Reading], answers: Answers) -> bool:
    """Whether the server is off each of these readings, toward what was found: by less than half of the way it would be
    either."""
    for reading in listed:
        t, error = decide.along(answers, reading.ours, solution.reading.ours)
        error = max(error, decide.spread(answers, reading.ours, solution.reading.ours, t))
        if not t - CLEAR * error > 0:
            return False
    return True


def own_values(verdict: Verdict, readings: List[Reading], numbers: Numbers, budget: float) -> Tuple[
        Optional[Solution], Optional[str]]:
    """What was solved for, None where nothing is found that explains the server and no listed reading does; and a
    remark on the budget."""
    solver = Solver(numbers, budget)
    try:
        found = search(solver, verdict, readings)
    except OutOfTime:
        return None, 'values: not all tried in %s s (--budget): %d readings' % (plainly(budget), solver.count)
    return found, None


def search(solver: Solver, verdict: Verdict, readings: List[Reading]) -> Optional[Solution]:
    numbers = solver.numbers
    families = families_of(numbers)
    nearest = [r.candidates[0] for r in readings[:2]] + [r.candidates[0] for r in readings if r.engines()][:1]
    found = [solver.best_fit(solver.begins(families, nearest))]
    found = [solver.settled(s, families) for s in found if is_well(s)]
    if not found or len(found[0].given) >= MANY or not set(found[0].given) <= set(FIRST):
        far = solver.best_fit(solver.far_begins(families))
        found += [solver.settled(far, families)] if is_well(far) else []
    if found:
        again = solver.restarted(solver.best_of_both(found))
        found += [solver.settled(again, families)] if again else []
    if not found or len(solver.best_of_both(found).given) > 1:
        by_number = whole.window_of(solver, [*families[:1], *on_short_prompts(solver, readings)]), \
            whole.turning_of(solver)
        found += [solution for solution in by_number if is_well(solution)]
    if not found:
        return None
    best = solver.best_of_both(found)
    if not best.given and best.family.words == 'the settings':
        return None
    return finished(solver, best, verdict, readings)


def is_well(solution: Optional[Solution]) -> bool:
    return solution is not None and mean_of(solution.fit.left) <= WELL


def on_short_prompts(solver: Solver, readings: List[Reading]) -> List[Family]:
    """The reading that fits the shortest prompts best, which a window does not touch."""
    answers = {n: solver.answers[n] for n in sorted(solver.answers)[:SHORTEST]}
    best = min(readings, key=lambda r: decide.distance(answers, r.ours)).candidates[0]
    return [Family(best.words, best.arguments)]


def finished(solver: Solver, best: Solution, verdict: Verdict, readings: List[Reading]) -> Optional[Solution]:
    """The solution with its reading and bounds, if it explains the server and no listed reading does."""
    numbers, answers = solver.numbers, solver.answers
    best.look(numbers)
    best.reading = numbers.reading(best.family.candidate(best.given))
    best.reading.distance = decide.distance(answers, best.reading.ours)
    listed = min(sum(x * x for x in leftover(answers, r.ours)) for r in readings)
    share = EXPLAINS if verdict.kind in ('none', 'nearest') else 1
    if best.reading.distance > WELL or best.fit.squares > share ** 2 * listed:
        return None
    if not is_clear(best, readings, answers):
        return None
    best.bounds = bounds_of(solver, best)
    for other in best.others:
        other.look(numbers)
        other.bounds = bounds_of(solver, other)
    return best


def bounds_of(solver: Solver, solution: Solution) -> List[Bounds]:
    is_whole = set(solution.given) <= {note for note, _, _ in WHOLE}
    return whole.bounds_of(solver, solution) if is_whole else solver.bounds(solution)


def mean_of(left: List[float]) -> float:
    """In nats, as decide.distance counts where all prompts have as many tokens."""
    return sum(abs(x) for x in left) / len(left)


def leftover(answers: Answers, ours: Answers) -> List[float]:
    return [p - ours[n][id] for n, top in answers.items() for id, p in top.items()]
