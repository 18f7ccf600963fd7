"""Values that no list has, solved for: the settings of each method are moved until our model gives the server's
numbers. Coarse steps by the short prompts find where to begin, then least squares (least_squares.py) over all of them.

At last each value goes back to what the settings say, if the server does not mind: so what is named is what differs."""

from __future__ import annotations

import math
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import decide, values
from .candidates import Candidate, number
from .common import plainly, tell, with_commas
from .decide import Answers, Bounds, Reading, Verdict
from .least_squares import Fit, columns_at, errors, least_squares
from .values import VALUES, Numbers

# How far a value is moved for its derivative: further where ramps begin and end at whole pairs.
STEPS = {'theta': 0.1, 'factor': 0.1, 'attention_factor': 0.05, 'train_ctx': 0.3, 'beta_fast': 0.5, 'beta_slow': 0.5,
         'low_freq_factor': 0.2, 'high_freq_factor': 0.2}
FIRST = 'theta', 'factor', 'train_ctx', 'attention_factor'  # the betas come in where they explain more
REACH = 1.0         # of the logarithm of a value: the longest step
SCALES = 1.5, 2.25, 3.5, 5, 7, 10, 14, 20, 28, 40, 60, 90
THETAS = 0.03, 0.1, 0.25, 0.5, 0.7, 1.5, 2.2, 3.5, 6, 12, 40, 120
CONTEXTS = 0.25, 0.5, 0.7, 1.5, 2, 4, 8, 16
STARTS = 3          # points that least squares begins at
CLEAR = 4           # standard errors by which what is solved for explains more than a listed reading
MINDS = 12          # of the mean square: what a value explains at least, that is named
EXPLAINS = 0.7      # of what the listed readings leave, at most
LOW, HIGH = {'factor': 1.0, 'train_ctx': 8, 'theta': 2.0, 'attention_factor': 0.05}, {'train_ctx': 1 << 27,
                                                                                   'attention_factor': 20}
SETTING = {setting[0]: setting for setting in VALUES}
Given = Dict[str, float]  # values by the names of --explain's notes


class OutOfTime(Exception):
    """The budget is used up."""


class Family:
    """A method with its values as the settings say them. settings: those whose value changes what is computed."""

    def __init__(self, words: str, arguments: List[Any]) -> None:
        self.words, self.arguments, self.settings, self.notes = words, arguments, [], {}

    def look(self, numbers: Numbers) -> bool:
        """Fills in the rest; False where run refuses it."""
        own = Candidate(self.words, self.arguments)
        if values.computes(numbers.model, own, numbers.n) is None:
            return False
        self.notes = own.notes
        self.settings = [note for note in SETTING if values.takes(numbers.model, [own], SETTING[note], numbers.n) and
                         not (note == 'factor' and number(own.notes.get('scale'), 1) == 1)]
        return True

    def usual(self, note: str) -> float:
        return number(self.notes.get(note), 1)

    def candidate(self, given: Given) -> Candidate:
        arguments = list(self.arguments)
        for note, value in given.items():
            value = max(LOW.get(note, 1e-3), min(HIGH.get(note, 1e12), value))
            arguments += [SETTING[note][1], '%d' % round(value) if note == 'train_ctx' else '%.6g' % value]
        return Candidate(self.words, arguments)


class Solution:
    """What was found: the family, the values that differ from its own, and how well it fits."""

    def __init__(self, family: Family, given: Given, fit: Fit) -> None:
        self.family, self.given, self.fit = family, given, fit
        self.reading: Optional[Reading] = None
        self.bounds: List[Bounds] = []
        self.notes: Dict[str, str] = {}
        self.usual: Dict[str, str] = {}
        self.others: List['Solution'] = []  # that explain the server as well

    def look(self, numbers: Numbers) -> None:
        """Fills in what the values come to, and what the settings say."""
        own, candidate = Candidate('', numbers.model.base), self.family.candidate(self.given)
        values.computes(numbers.model, own, numbers.n)
        values.computes(numbers.model, candidate, numbers.n)
        self.notes, self.usual = candidate.notes, own.notes

    def names(self) -> List[str]:
        return [SETTING[note][2] for note in self.given]


class Solver:
    """Measures points of families, each once, until the budget in seconds is used up."""

    def __init__(self, numbers: Numbers, budget: float) -> None:
        self.numbers, self.kept, self.end, self.count = numbers, {}, time.time() + budget, 0
        self.began = time.time()
        self.answers = numbers.answers
        lengths = sorted(self.answers)
        self.short = {n: self.answers[n] for n in lengths[:max(2, (len(lengths) + 1) // 2)]}

    def left(self, family: Family, given: Given, answers: Answers) -> Optional[List[float]]:
        """What the server's log-probabilities are off ours, prompt by prompt; None where run refuses the values."""
        candidate = family.candidate(given)
        signature = values.computes(self.numbers.model, candidate, self.numbers.n)
        if signature is None:
            return None
        key = signature, len(answers)
        if key not in self.kept:
            if time.time() > self.end:
                raise OutOfTime()
            self.count += 1
            ours = self.numbers.reading(candidate, answers).ours
            self.kept[key] = [p - ours[n][id] for n in sorted(answers) for id, p in answers[n].items()]
        return self.kept[key]

    def squares(self, family: Family, given: Given, answers: Answers) -> float:
        left = self.left(family, given, answers)
        return math.inf if left is None else sum(x * x for x in left)

    def fit(self, family: Family, given: Given) -> Optional[Fit]:
        """Least squares over the values given, all prompts."""
        notes = list(given)

        def measure(x):
            return self.left(family, {note: math.exp(v) for note, v in zip(notes, x)}, self.answers)
        if not notes:
            left = self.left(family, {}, self.answers)
            return left and Fit([], left, [])
        return least_squares(measure, [math.log(given[note]) for note in notes], [STEPS[note] for note in notes], REACH)

    def solution(self, family: Family, given: Given) -> Optional[Solution]:
        fit = self.fit(family, given)
        if fit is None:
            return None
        return Solution(family, {note: math.exp(v) for note, v in zip(given, fit.x)}, fit)

    # ---- where to begin ----

    def best_of(self, family: Family, given: Given, note: str, tried: List[float]) -> Given:
        """The same with the one of these values that leaves least of the short prompts."""
        found = [dict(given, **{note: value}) for value in tried] + [given]
        return min(found, key=lambda g: self.squares(family, g, self.short))

    def coarse(self, family: Family) -> Given:
        """One value after another on a wide grid; twice, because they depend on each other."""
        given: Given = {}
        for _ in range(2):
            if 'factor' in family.settings:
                given = self.best_of(family, given, 'factor', list(SCALES))
            for note, grid in ('theta', THETAS), ('train_ctx', CONTEXTS):
                if note in family.settings:
                    given = self.best_of(family, given, note, [family.usual(note) * step for step in grid])
        return given

    def starts(self, families: List[Family], nearest: List[Candidate], is_far: bool) -> List[Tuple[Family, Given]]:
        """Points to begin at: the nearest candidates, and where they are far the best of a grid for each method."""
        found = []
        for candidate in nearest:
            for family in families:
                if family.notes.get('method') == candidate.notes.get('method'):
                    given = {note: number(candidate.notes.get(note)) for note in family.settings}
                    found.append((family, {note: value for note, value in given.items() if value > 0 and
                                           abs(value - family.usual(note)) > 1e-6 * value}))
                    break
        if is_far:
            found += [(family, self.coarse(family)) for family in families]
        found.sort(key=lambda start: self.squares(*start, self.short))
        return [start for i, start in enumerate(found) if start not in found[:i]][:STARTS]

    # ---- what differs ----

    def mean_square(self, fit: Fit) -> float:
        return max(fit.squares / max(len(fit.left) - len(fit.x), 1), decide.FAINT ** 2)

    def minds(self, more: Fit, fewer: Fit) -> bool:
        """Whether the server minds that a value is not free."""
        return fewer.squares - more.squares > MINDS * self.mean_square(more)

    def simpler(self, solution: Solution) -> Solution:
        """With as few values of its own as explain as much."""
        while solution.given:
            tried = [self.solution(solution.family, {n: v for n, v in solution.given.items() if n != note})
                     for note in solution.given]
            tried = [s for s in tried if s and not self.minds(solution.fit, s.fit)]
            if not tried:
                return solution
            solution = min(tried, key=lambda s: s.fit.squares)
        return solution

    def exchanges(self, solution: Solution) -> Iterator[Solution]:
        """One of its values the usual one, and another free in its place."""
        for out in solution.given:
            kept = {note: value for note, value in solution.given.items() if note != out}
            for note in solution.family.settings:
                if note not in solution.given:
                    usual = solution.family.usual(note)
                    start = self.best_of(solution.family, kept, note, [usual * step for step in (0.4, 0.7, 1.5, 2.5)])
                    found = self.solution(solution.family, dict({note: usual}, **start))
                    if found:
                        yield found

    def settled(self, solution: Solution) -> Solution:
        """The simplest, or another that differs in one value and explains more; others that explain as much."""
        solution = self.simpler(solution)
        for _ in range(2):
            tried = list(self.exchanges(solution))
            best = min(tried, key=lambda s: s.fit.squares, default=solution)
            if best.fit.squares >= solution.fit.squares:
                break
            tried.append(solution)
            solution = self.simpler(best)
        solution.others = [s for s in tried if len(s.given) == len(solution.given) and s.names() != solution.names() and
                           not self.minds(solution.fit, s.fit)] if solution.given else []
        return solution

    # ---- what is known of it ----

    def bounds(self, solution: Solution) -> List[Bounds]:
        """Of each value that is named: three standard errors and half as much again, because the way is not quite
        straight, and further while run computes the same."""
        family, given, notes = solution.family, solution.given, list(solution.given)

        def measure(x):
            return self.left(family, {note: math.exp(v) for note, v in zip(notes, x)}, self.answers)
        x = [math.log(given[note]) for note in notes]
        columns = columns_at(measure, x, solution.fit.left, [STEPS[note] for note in notes])
        sizes = [len(self.answers[n]) for n in sorted(self.answers)]
        found = []
        for note, error in zip(notes, errors(columns, solution.fit.left, sizes)):
            name = values.name_of(SETTING[note], family.notes)
            if error > 0.5:
                found.append((name, None, None))
                continue
            reach = max(values.CROOKED * decide.ERRORS * error, values.LEAST)
            low, high = (given[note] * math.exp(self.same_until(solution, note, side, reach)) for side in (-1, 1))
            found.append((name, low, high))
        return found

    def same_until(self, solution: Solution, note: str, side: int, reach: float) -> float:
        """side x reach, further while it is computed alike."""
        def at(way):
            moved = dict(solution.given, **{note: solution.given[note] * math.exp(side * way)})
            return values.computes(self.numbers.model, solution.family.candidate(moved), self.numbers.n)
        there = at(reach)
        while reach < 3 and at(reach + values.GRAIN) == there:
            reach += values.GRAIN
        return side * reach


# ---- the whole ----

def families_of(numbers: Numbers) -> List[Family]:
    """The settings' own method, and the methods that servers put in its place."""
    base = numbers.model.base
    own = Family('the settings', base)
    found = [own] if own.look(numbers) else []
    method = own.notes.get('method')
    for name, more in (('none', []), ('linear', ['--factor', '4']), ('yarn', ['--factor', '4'])):
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
    is_far = verdict.best.distance > decide.NEAR
    fits = []
    for family, given in solver.starts(families, nearest, is_far):
        free = {note: family.usual(note) for note in FIRST if note in family.settings}
        solution = solver.solution(family, dict(free, **given))
        if solution:
            fits.append(solution)
    if not fits:
        return None
    best = solver.settled(min(fits, key=lambda s: s.fit.squares))
    if not best.given and best.family.words == 'the settings':
        return None
    return finished(solver, best, verdict, readings)


def finished(solver: Solver, best: Solution, verdict: Verdict, readings: List[Reading]) -> Optional[Solution]:
    """The solution with its reading and bounds, if it explains the server and no listed reading does."""
    numbers, answers = solver.numbers, solver.answers
    best.look(numbers)
    best.reading = numbers.reading(best.family.candidate(best.given))
    best.reading.distance = decide.distance(answers, best.reading.ours)
    listed = min(sum(x * x for x in leftover(answers, r.ours)) for r in readings)
    share = EXPLAINS if verdict.kind in ('none', 'nearest') else 1
    if best.reading.distance > decide.NEAR or best.fit.squares > share ** 2 * listed:
        return None
    if not is_clear(best, readings, answers):
        return None
    best.bounds = solver.bounds(best)
    for other in best.others:
        other.look(numbers)
        other.bounds = solver.bounds(other)
    return best


def leftover(answers: Answers, ours: Answers) -> List[float]:
    return [p - ours[n][id] for n, top in answers.items() for id, p in top.items()]


# ---- in words ----

def settings_in_words(notes: Dict[str, str]) -> str:
    """`yarn 5.02 x 512, theta 10,000, attention factor 1.161`"""
    words = notes.get('method', '')
    if number(notes.get('scale'), 1) != 1:
        words += ' %s x %s' % (plainly(number(notes['scale'])), with_commas(int(number(notes.get('train_ctx')))))
    return '%s, theta %s, attention factor %s' % (words, plainly(number(notes.get('theta'))),
                                                  plainly(number(notes.get('attention_factor'), 1)))


def described(solution: Solution) -> str:
    """`yarn 5.02 x 512, theta 10,000, attention factor 1.161 (s 4.9 to 5.1)`"""
    words = settings_in_words(solution.notes)
    known = ', '.join(map(values.said, solution.bounds))
    return '%s (%s)' % (words, known) if known else words


def sentence(solution: Solution) -> str:
    """The end of the last line: what it is, and that the settings say otherwise."""
    either = [solution] + solution.others
    words = ' or '.join(map(described, either))
    return 'the server has values of its own: %s; %.4f nats from that; the settings say %s' % (
        words, solution.reading.distance, settings_in_words(solution.usual))
