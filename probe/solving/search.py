"""The search for values that no reading has: the families and numbers to try, and the tests of the result."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from ..common import plainly
from ..numbers import decide
from ..numbers.decide import Answers, Bounds, Reading, Verdict
from ..numbers.values import WHOLE, Numbers
from . import doubts, fewest, whole
from .families import COUNTS, WIDE, Family, Given, Solution
from .solve import FIRST, OutOfTime, Solver, mean_of

CLEAR = 4           # standard errors by which a solution explains more than a listed reading
MANY = 3            # values that differ: so many may be a valley next to the right one, so the grid is tried
WELL = 0.04         # nats, at most, that may remain with named values: rounding causes as much
MOST_OF = 0.1       # of the squares, at most, may remain with a window that needs no other values
SHORTEST = 2        # prompts that determine the reading besides a window
EXPLAINS = 0.7      # of the residual of the listed readings, at most
FURTHER = 2         # times that a search continues toward a doubtful point


def families_of(numbers: Numbers) -> List[Family]:
    """The method of the settings, and the methods that servers use instead."""
    base = numbers.model.base
    own = Family('the settings', base)
    found = [own] if own.look(numbers) else []
    method = own.notes.get('method')
    scaled: List[Any] = ['--factor', '4']
    for name, more in (('none', []), ('linear', scaled), ('yarn', scaled)):
        family = Family(name, base + ['--rope', name] + more + (['--attention-factor', '1'] if name != 'yarn' else []))
        if name != method and family.look(numbers):
            found.append(family)
    return found


def is_clear(solution: Solution, listed: List[Reading], answers: Answers) -> bool:
    """Whether the server deviates from each of these readings toward the solution, by more than half of the distance
    with either error."""
    for reading in listed:
        t, error = decide.along(answers, reading.ours, solution.reading.ours)
        error = max(error, decide.spread(answers, reading.ours, solution.reading.ours, t))
        if not t - CLEAR * error > 0:
            return False
    return True


def own_values(verdict: Verdict, readings: List[Reading], numbers: Numbers, budget: float) -> Tuple[
        Optional[Solution], Optional[str]]:
    """The solution, None if none explains the server better than the listed readings; and a remark on the budget."""
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
    starts, behind = solver.begins(families, nearest), on_short_prompts(solver, readings)
    window = whole.window_of(solver, behind)
    if window and mean_of(window.fit.left) <= fewest.ENOUGH and \
            window.fit.squares < MOST_OF * solver.squares(*behind[0], solver.answers):
        return finished(solver, window, verdict, readings)
    few, also = fewest.of_few(solver, starts), []
    if not few and not is_well(window):
        behind = whole.by_shorter_prompts(solver, families, readings)
        also = [s for s in (solver.solution(family, given) for family, given in behind) if is_well(s)]
        few = also[0] if also and fewest.is_enough(solver, also[0]) else None
        window = window if few else whole.window_and_values(solver, behind)
    if few and len(few.given) <= 1 and not doubts.toward(solver, few):
        return named(solver, few, verdict, readings)
    if not few and is_well(window):
        return finished(solver, window, verdict, readings)
    if not few and nearest[0].notes.get('method') in ('none', 'linear'):  # the nearest methods to a share of the head
        by_number = whole.turning_of(solver)
        if by_number and fewest.is_enough(solver, by_number):
            return finished(solver, by_number, verdict, readings)
    found = [few] if few else [solver.best_fit(starts)] + also
    found = [solver.settled(s, families) for s in found if is_well(s)]
    is_far = is_mimic(few) or not few and (
        not found or len(found[0].given) >= MANY or not set(found[0].given) <= set(FIRST))
    found += from_afar(solver, families) if is_far else []
    if found and not (few and fewest.is_enough(solver, few)):
        again = solver.restarted(solver.best_of_both(found))
        found += [solver.settled(again, families)] if again else []
        found += doubts.with_fewer(solver, solver.best_of_both(found))
    found += [onward(solver, solver.best_of_both(found), families)] if found else []
    if found and not is_far and is_doubtful(solver, solver.best_of_both(found)):
        found += from_afar(solver, families)
    best = solver.best_of_both(found) if found else None
    if best is not None and len(best.given) > 1 and is_well(window):
        found += [window]
    if best is None or len(best.given) > 1 or best.family.is_plain() and 'theta' in best.given:
        by_number = whole.turning_of(solver)
        found += [by_number] if is_well(by_number) else []
    return named(solver, solver.best_of_both(found), verdict, readings) if found else None


def from_afar(solver: Solver, families: List[Family]) -> List[Solution]:
    """The best points of wide grids, until one leaves no doubt."""
    found = []
    for begins in solver.far_begins, solver.far_ramps:
        far = solver.best_fit(begins(families), far=True)
        if far is not None and is_well(far):
            found.append(solver.settled(far, families))
            if not is_doubtful(solver, found[-1]):
                break
    return found


def is_mimic(found: Optional[Solution]) -> bool:
    """Whether an attention factor may compensate for errors of another value."""
    return found is not None and 'attention_factor' in found.given and len(found.given) > 1


def is_doubtful(solver: Solver, found: Solution) -> bool:
    return is_mimic(found) or doubts.toward(solver, found) is not None


def onward(solver: Solver, best: Solution, families: List[Family]) -> Solution:
    """Repeats the search, from points toward which the server still deviates."""
    for _ in range(FURTHER):
        beyond = doubts.toward(solver, best)
        again = beyond and not set(beyond[1]) & set(COUNTS) and solver.solution(*beyond)
        if not again or again.fit.squares >= best.fit.squares:
            break
        best = solver.best_of_both([best, solver.settled(again, families)])
    return best


def named(solver: Solver, best: Solution, verdict: Verdict, readings: List[Reading]) -> Optional[Solution]:
    if not best.given and best.family.words == 'the settings':
        return None
    return finished(solver, best, verdict, readings)


def is_well(solution: Optional[Solution]) -> bool:
    return solution is not None and mean_of(solution.fit.left) <= WELL


def on_short_prompts(solver: Solver, readings: List[Reading]) -> List[Tuple[Family, Given]]:
    """The reading that agrees with the shortest prompts, which a window does not affect; [] if none does, or if all
    others do too."""
    answers = {n: solver.answers[n] for n in sorted(solver.answers)[:SHORTEST]}
    best = min(readings, key=lambda r: decide.distance(answers, r.ours))
    if decide.distance(answers, best.ours) > WELL or decide.distance(solver.answers, best.ours) <= WELL:
        return []
    return [(Family(best.candidates[0].words, best.candidates[0].arguments), {})]


def finished(solver: Solver, best: Solution, verdict: Verdict, readings: List[Reading]) -> Optional[Solution]:
    """The solution with its reading and bounds, if it explains the server, and no listed reading and no other tried
    point does."""
    numbers, answers = solver.numbers, solver.answers
    best.look(numbers)
    best.reading = numbers.reading(best.family.candidate(best.given))
    best.reading.distance = decide.distance(answers, best.reading.ours)
    listed = min(sum(x * x for x in leftover(answers, r.ours)) for r in readings)
    share = EXPLAINS if verdict.kind in ('none', 'nearest') else 1
    if best.reading.distance > WELL or best.fit.squares > share ** 2 * listed:
        return None
    if not is_clear(best, readings, answers) or doubts.toward(solver, best):
        return None
    kinds = [s.kind() for s in [best] + best.others]
    best.others += [s for s in solver.alike(best) if s.kind() not in kinds and not solver.minds(best.fit, s.fit)]
    best.bounds = bounds_of(solver, best)
    for other in best.others:
        other.look(numbers)
        other.bounds = bounds_of(solver, other)
    return best


def bounds_of(solver: Solver, solution: Solution) -> List[Bounds]:
    counts = [note for note, _, _ in WHOLE if note in solution.given]
    if counts:
        rest = {note: value for note, value in solution.given.items() if note not in counts}
        others = bounds_of(solver, Solution(whole.fixed(solution, counts[0]), rest, solution.fit)) if rest else []
        return others + [whole.bounds_of(solver, solution, counts[0])]
    bounds, family = solver.bounds(solution), solution.family
    for note, (name, low, _) in zip(solution.given, bounds):
        if low is None:
            moved = dict(solution.given, **{note: WIDE * solution.given[note]})
            solver.numbers.untold.append((name, family.candidate(solution.given), family.candidate(moved)))
    return bounds


def leftover(answers: Answers, ours: Answers) -> List[float]:
    return [p - ours[n][id] for n, top in answers.items() for id, p in top.items()]
