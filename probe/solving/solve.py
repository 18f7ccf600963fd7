"""Solves for values in no list: the settings of each method are varied until our model gives the server's numbers.
Coarse steps with the short prompts find the starts, then least squares (least_squares.py) uses all of them.

At last each value is reset to the settings' value if that does not affect the fit, so only values that differ are
named."""

from __future__ import annotations

import copy
import math
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..common import tell
from ..numbers import decide, values
from ..numbers.candidates import Candidate, number
from ..numbers.decide import Answers, Bounds
from ..numbers.ours import Refused
from ..numbers.values import STEPPED, Numbers
from .families import SETTING, Family, Fixed, Given, Solution
from .least_squares import Fit, columns_at, dot, errors, least_squares, solved

# The change of a value for its derivative: larger for ramps, which begin and end at whole pairs.
STEPS = {'theta': 0.03, 'factor': 0.1, 'attention_factor': 0.05, 'train_ctx': 0.3, 'beta_fast': 0.5, 'beta_slow': 0.5,
         'low_freq_factor': 0.2, 'high_freq_factor': 0.2, 'theta_sliding': 0.03, 'factor_sliding': 0.1}
# The betas are added if they explain more.
FIRST = 'theta', 'factor', 'train_ctx', 'attention_factor', 'theta_sliding', 'factor_sliding'
REACH = 1.0         # the longest step, in the logarithm of a value
SCALES = 1.5, 2.25, 3.5, 5, 7, 10, 14, 20, 28, 40, 60, 90
THETAS = 0.03, 0.1, 0.25, 0.5, 0.7, 1.5, 2.2, 3.5, 6, 12, 40, 120
CONTEXTS = 0.25, 0.5, 1, 2, 4, 12
FEW_SCALES = 2, 5, 12, 30
FEW_THETAS = 0.25, 0.5, 1, 2.2, 5
ENDS = 0.3, 0.55, 1, 1.8, 3.2
SLOW = 0.5            # seconds for a reading, from which the budget is announced
RESTARTS = 0.45, 2.2  # times theta
STARTS = 3          # points from which least squares starts
NEARLY = 0.04, 0.2  # nats, between which a fit continues
MINDS = 12          # times the mean square: the least that a named value explains
FAR = 30            # times more: derivatives are not used so far away
NO_SCALE = 1.2      # a smaller scale may be none
HALF = 0.6          # of a value's improvement, that another must have on a coarse grid to be tried in its place
FARTHEST = 3        # in the logarithm of a value: the end of bounds without a measured end
Point = Tuple[Any, Given, List[float]]  # a family, values, and the residual of the server


class OutOfTime(Exception):
    """The budget is used up."""


class Solver:
    """Measures each point of the families once, until the budget in seconds is used up."""

    def __init__(self, numbers: Numbers, budget: float) -> None:
        self.numbers, self.kept, self.end, self.count = numbers, {}, time.time() + budget, 0
        self.signatures: Dict[Tuple[str, ...], Any] = {}
        self.answers = numbers.answers
        lengths = sorted(self.answers)
        self.short = {n: self.answers[n] for n in lengths[:max(2, (len(lengths) + 1) // 2)]}
        self.points: List[Point] = []  # all points measured with all prompts

    def on(self, lengths: List[int]) -> 'Solver':
        """A solver for some of the prompts, with the same deadline."""
        numbers = copy.copy(self.numbers)
        numbers.answers, numbers.n = {n: self.answers[n] for n in lengths}, lengths[-1]
        return Solver(numbers, self.end - time.time())

    def left(self, family: Family, given: Given, answers: Answers) -> Optional[List[float]]:
        """The deviation of the server's log-probabilities from ours, prompt by prompt; None if run refuses the
        values."""
        candidate = family.candidate(given)
        called = tuple(map(str, candidate.arguments))
        if called not in self.signatures and not any(note in STEPPED for note in given):
            self.signatures[called] = called
        if called not in self.signatures:
            self.signatures[called] = values.computes(self.numbers.model, candidate, self.numbers.n)
        signature = self.signatures[called]
        if signature is None:
            return None
        key = signature, len(answers)
        if key not in self.kept:
            if time.time() > self.end:
                raise OutOfTime()
            self.count, began = self.count + 1, time.time()
            try:
                ours = self.numbers.reading(candidate, answers).ours
            except Refused:
                return None
            if self.count == 1 and time.time() - began > SLOW:
                tell('values are solved for, by readings of about %.1f s, until %.0f s are over (--budget)' % (
                    time.time() - began, self.end - began))
            self.keep(signature, family, given, answers, ours)
        return self.kept[key]

    def keep(self, signature: Any, family: Family, given: Given, answers: Answers, ours: Answers) -> None:
        """Stores a result. The results of the short prompts are part of those of all prompts."""
        each = {n: [p - ours[n][id] for id, p in answers[n].items()] for n in sorted(answers)}
        for some in [answers] + ([self.short] if len(answers) == len(self.answers) else []):
            self.kept[signature, len(some)] = [x for n in sorted(some) for x in each[n]]
        if len(answers) == len(self.answers):
            self.points.append((family, given, self.kept[signature, len(answers)]))

    def squares(self, family: Family, given: Given, answers: Answers) -> float:
        left = self.left(family, given, answers)
        return math.inf if left is None else sum(x * x for x in left)

    def fit(self, family: Family, given: Given, answers: Optional[Answers] = None) -> Optional[Fit]:
        """Least squares over the given values, with all prompts unless `answers` is given."""
        notes, some = list(given), answers or self.answers

        def measure(x):
            return self.left(family, {note: math.exp(v) for note, v in zip(notes, x)}, some)
        if not notes:
            left = self.left(family, {}, some)
            return Fit([], left, []) if left else None
        return least_squares(measure, [math.log(given[note]) for note in notes], [STEPS[note] for note in notes], REACH)

    def solution(self, family: Family, given: Given, answers: Optional[Answers] = None) -> Optional[Solution]:
        fit = self.fit(family, given, answers)
        if fit is None:
            return None
        return Solution(family, {note: math.exp(v) for note, v in zip(given, fit.x)}, fit)

    # ---- starts ----

    def best_of(self, family: Family, given: Given, note: str, tried: List[float]) -> Given:
        """The values with the number for one of them that leaves the smallest residual of the short prompts."""
        found = [dict(given, **{note: value}) for value in tried] + [given]
        return min(found, key=lambda g: self.squares(family, g, self.short))

    def coarse(self, family: Family) -> Given:
        """Coarse values: the scale and L together, which depend on each other, then theta, then the scale again."""
        given: Given = self.coarse_sliding(family)
        if 'train_ctx' in family.settings and 'factor' in family.settings:
            usual = family.usual('train_ctx')
            grid = [dict(given, factor=s, train_ctx=usual * step) for s in FEW_SCALES for step in CONTEXTS]
            given = min(grid, key=lambda g: self.squares(family, g, self.short))
        elif 'factor' in family.settings:
            given = self.best_of(family, given, 'factor', list(SCALES))
        if 'theta' in family.settings:
            given = self.best_of(family, given, 'theta', [family.usual('theta') * step for step in THETAS])
        return self.best_of(family, given, 'factor', list(SCALES)) if 'factor' in family.settings else given

    def coarse_sliding(self, family: Family) -> Given:
        """Coarse values of sliding layers, which are the majority."""
        given: Given = {}
        for note, tried in (('factor_sliding', list(SCALES)),
                            ('theta_sliding', [family.usual('theta_sliding') * step for step in THETAS])):
            if note in family.settings:
                given = self.best_of(family, given, note, tried)
        return given

    def theta_first(self, family: Family) -> Given:
        given: Given = {}
        for note, grid in ('theta', THETAS), ('factor', SCALES), ('train_ctx', CONTEXTS):
            usual = family.usual(note) if note != 'factor' else 1
            if note in family.settings:
                given = self.best_of(family, given, note, [usual * step for step in grid])
        return given

    def begins(self, families: List[Family], nearest: List[Candidate]) -> List[Tuple[Family, Given]]:
        """Starts from the nearest candidates."""
        found = []
        for candidate in nearest:
            for family in families:
                if family.notes.get('method') == candidate.notes.get('method'):
                    found.append((family, self.own_values(family, candidate)))
                    break
        return [start for i, start in enumerate(found) if start not in found[:i]]

    def own_values(self, family: Family, candidate: Candidate) -> Given:
        """The values of a candidate that differ from the family's, except an attention factor that follows from its
        scale."""
        given = {note: number(candidate.notes.get(note)) for note in family.settings}
        given = {note: value for note, value in given.items()
                 if value > 0 and abs(value - family.usual(note)) > 1e-6 * value}
        made = self.made(family, given, 'attention_factor') if 'attention_factor' in given else math.inf
        return {note: value for note, value in given.items() if note != 'attention_factor' or
                abs(value - made) > 1e-6 * value}

    def far_begins(self, families: List[Family]) -> List[Tuple[Family, Given]]:
        """The best points of a grid for each method, for the methods that fit best."""
        found = [(family, self.coarse(family)) for family in families]
        found += [(family, self.theta_first(family)) for family in families if 'train_ctx' in family.settings]
        return sorted(found, key=lambda start: self.squares(start[0], start[1], self.short))[:STARTS]

    def far_ramps(self, families: List[Family]) -> List[Tuple[Family, Given]]:
        """The best points of a grid of thetas and of both betas, which determine the ends of a ramp."""
        grid = [(family, {'theta': family.usual('theta') * theta, 'factor': family.usual('factor'),
                          'beta_fast': family.usual('beta_fast') * fast, 'beta_slow': family.usual('beta_slow') * slow})
                for family in families if {'beta_fast', 'beta_slow', 'theta', 'factor'} <= set(family.settings)
                for theta in FEW_THETAS for fast in ENDS for slow in ENDS]
        return sorted(grid, key=lambda start: self.squares(start[0], start[1], self.short))[:STARTS]

    def patiently(self, family: Family, given: Given) -> Optional[Solution]:
        """A fit that is repeated from its end, if it is near: along a valley steps are short."""
        found = self.solution(family, given)
        if found is None or not NEARLY[0] < mean_of(found.fit.left) < NEARLY[1]:
            return found
        again = self.solution(family, found.given)
        return again if again and again.fit.squares < found.fit.squares else found

    def best_fit(self, starts: List[Tuple[Family, Given]], far: bool = False) -> Optional[Solution]:
        """The best fit from these starts. far: the shorter prompts, whose valleys are wider, come first."""
        fits = []
        for family, given in starts:
            free = {note: family.usual(note) for note in FIRST if note in family.settings and
                    (note in given or not note.endswith('_sliding')) and 'beta_fast' not in given}
            free = dict(free, **given)
            fits.append(self.patiently(family, free))
            nearer = self.solution(family, free, self.short) if far else None
            fits += [self.patiently(family, nearer.given)] if nearer else []
            if any(note.endswith('_sliding') for note in given):  # so many values may hinder one another
                fits.append(self.patiently(family, given))
        return min(filter(None, fits), key=lambda s: s.fit.squares, default=None)

    # ---- the values that differ ----

    def is_usual(self, solution: Solution, note: str) -> bool:
        """Whether a value is so close to the default that its bounds would include it, however exact the server is."""
        return abs(math.log(solution.given[note] / max(self.usual(solution, note), 1e-9))) < values.LEAST

    def mean_square(self, fit: Fit) -> float:
        return max(fit.squares / max(len(fit.left) - len(fit.x), 1), decide.FAINT ** 2)

    def minds(self, more: Fit, fewer: Fit) -> bool:
        """Whether fixing a value makes the fit significantly worse."""
        return fewer.squares - more.squares > MINDS * self.mean_square(more)

    def usual(self, solution: Solution, note: str) -> float:
        """The family's own value if none is given: for the attention factor, the one that follows from the scale."""
        return self.made(solution.family, solution.given, note)

    def made(self, family: Family, given: Given, note: str) -> float:
        rest = family.candidate({n: v for n, v in given.items() if n != note})
        values.computes(self.numbers.model, rest, self.numbers.n)
        return number(rest.notes.get(note), 1)

    def weights(self, solution: Solution) -> Dict[str, float]:
        """The increase of the squares if a value were reset to the default, according to the derivatives."""
        columns = solution.fit.columns
        square = [[dot(a, b) for b in columns] for a in columns]
        found = {}
        for i, note in enumerate(solution.given):
            row = solved(square, [float(i == j) for j in range(len(columns))])
            way = math.log(solution.given[note] / max(self.usual(solution, note), 1e-9))
            found[note] = way * way / row[i] if row and row[i] > 0 else 0.0
        return found

    def without(self, solution: Solution, out: List[str]) -> Optional[Solution]:
        return self.solution(solution.family, {n: v for n, v in solution.given.items() if n not in out})

    def simpler(self, solution: Solution) -> Solution:
        """The solution with the fewest differing values that explain as much; `others` have as few, and explain as
        much."""
        while solution.given:
            mean, weights = MINDS * self.mean_square(solution.fit), self.weights(solution)
            light = [note for note, weight in weights.items() if weight < mean]
            at_once = self.without(solution, light) if len(light) > 1 else None
            if at_once and not self.minds(solution.fit, at_once.fit):
                solution = at_once
                continue
            tried = [(self.without(solution, [note]), note) for note, weight in weights.items()
                     if note in STEPPED or weight < FAR * mean or self.is_usual(solution, note)]
            fits = sorted((s for s, note in tried if s and (
                not self.minds(solution.fit, s.fit) or self.is_usual(solution, note))), key=lambda s: s.fit.squares)
            if not fits:
                break
            solution, fits[0].others = fits[0], fits[1:]
        return solution

    def exchanges(self, solution: Solution) -> Iterator[Solution]:
        """Solutions with one of its values reset to the default, and one other value fitted in its place."""
        own, family = sum(x * x for x in self.short_left(solution.family, solution.given)), solution.family
        for note in family.settings:
            for out in solution.given if note not in FIRST and note not in solution.given else ():
                kept = {n: v for n, v in solution.given.items() if n != out}
                tried = [family.usual(note) * step for step in (0.3, 0.55, 1.8, 3.2)]
                start = self.best_of(family, kept, note, tried)
                gained = self.squares(family, kept, self.short) - self.squares(family, start, self.short)
                if note in start and gained > HALF * (self.squares(family, kept, self.short) - own):
                    found = self.solution(family, start)
                    if found:
                        yield found

    def short_left(self, family: Family, given: Given) -> List[float]:
        return self.left(family, given, self.short) or [math.inf]

    def alike(self, solution: Solution) -> List[Solution]:
        """Two of L and the betas determine the ends of a ramp, and each pair can give the same ends. [] if fewer of
        them differ."""
        def value(note):
            return solution.given.get(note) or solution.family.usual(note)
        own = [note for note in STEPPED if note in solution.given]
        if len(own) < 2 or not set(STEPPED) <= set(solution.family.settings):
            return []
        rest, found = {n: v for n, v in solution.given.items() if n not in own}, []
        for usual in STEPPED:
            times = solution.family.usual(usual) / value(usual)
            given = dict(rest, **{note: value(note) * times for note in STEPPED if note != usual})
            left = self.left(solution.family, given, self.answers)
            found += [Solution(solution.family, given, Fit([], left, []))] if left else []
        return found

    def restarted(self, solution: Solution) -> Optional[Solution]:
        """The best fit that starts at another theta than this solution's, since the other values depend on it."""
        family, found = solution.family, []
        for step in RESTARTS if 'theta' in family.settings else ():
            free = {note: self.usual(solution, note) for note in FIRST if note in family.settings}
            given = dict(free, **solution.given)
            fit = self.solution(family, dict(given, theta=given['theta'] * step))
            if fit and self.minds(fit.fit, solution.fit):
                found.append(fit)
        return min(found, key=lambda s: s.fit.squares, default=None)

    def next_step(self, solution: Solution, note: str, side: int) -> Optional[Given]:
        """The middle of the next interval of values, up or down, with other results than the present one."""
        def at(way):
            return dict(solution.given, **{note: solution.given[note] * math.exp(side * way)})

        def ends(begin):
            own = values.computes(self.numbers.model, solution.family.candidate(at(begin)), self.numbers.n)
            return own and values.as_far_as(begin, FARTHEST, lambda way: own == values.computes(
                self.numbers.model, solution.family.candidate(at(way)), self.numbers.n), True)
        first = ends(0.0)
        last = ends(first) if first and first < FARTHEST else None
        return at((first + last) / 2) if last else None

    def stepped(self, solution: Solution) -> Solution:
        """The solution with its values in steps moved further, as long as that explains more: derivatives do not see
        past a step."""
        for note in solution.given if mean_of(solution.fit.left) < NEARLY[1] else ():
            for side in -1, 1:
                while note in STEPPED:
                    given = self.next_step(solution, note, side)
                    rest = given and self.solution(Fixed(solution.family, note, given[note]),
                                                   {n: v for n, v in solution.given.items() if n != note})
                    if not rest or not self.minds(rest.fit, solution.fit):
                        break
                    found = self.solution(solution.family, dict(rest.given, **{note: given[note]}))
                    if not found or found.fit.squares >= solution.fit.squares:
                        break
                    solution = found
        return solution

    def settled(self, solution: Solution, families: List[Family]) -> Solution:
        """The simplest solution, or another that differs in one value and explains more; others that explain as
        much."""
        solution = self.stepped(solution)
        if set(STEPPED) <= set(solution.given):
            fewer = [self.solution(s.family, s.given) for s in self.alike(solution)]
            solution = min([s for s in fewer if s and not self.minds(solution.fit, s.fit)] or [solution],
                           key=lambda s: s.fit.squares)
        solution = self.simpler(solution)
        found = [solution] + [self.simpler(other) for other in self.exchanges(solution)]
        if solution.given.get('factor', 2) < NO_SCALE:
            found += [self.simpler(plain) for plain in [self.best_fit([(f, {}) for f in families if f.is_plain()])] if
                      plain]
        return self.best_of_both(found)

    def best_of_both(self, found: List[Solution]) -> Solution:
        """Of the solutions that explain as much as the best, the one with the fewest values. `others` have as few."""
        best = min(found, key=lambda s: s.fit.squares)
        as_good = [s for s in found + [o for s in found for o in s.others] if not self.minds(best.fit, s.fit)]
        fewest = min(len(s.given) for s in as_good)
        as_good = sorted((s for s in as_good if len(s.given) == fewest), key=lambda s: s.fit.squares)
        as_good[0].others = [s for i, s in enumerate(as_good) if s.kind() not in [o.kind() for o in as_good[:i]]][1:]
        return as_good[0]

    # ---- bounds ----

    def bounds(self, solution: Solution) -> List[Bounds]:
        """Bounds of each named value: three standard errors and half as much again, because the line is not quite
        straight, and further while run has the same results. If values have steps, as far as the fit is not
        significantly worse."""
        family, given, notes = solution.family, solution.given, list(solution.given)

        def measure(x):
            return self.left(family, {note: math.exp(v) for note, v in zip(notes, x)}, self.answers)
        x = [math.log(given[note]) for note in notes]
        columns = columns_at(measure, x, solution.fit.left, [STEPS[note] for note in notes])
        sizes = [len(self.answers[n]) for n in sorted(self.answers)]
        found: List[Bounds] = []
        for note, error in zip(notes, errors(columns, solution.fit.left, sizes)):
            name = values.name_of(SETTING[note], family.notes)
            if error > 0.5:
                found.append((name, None, None))
                continue
            reach = max(values.CROOKED * decide.ERRORS * error, values.LEAST)
            low, high = (given[note] * math.exp(self.same_until(solution, note, side, reach)) for side in (-1, 1))
            found.append((name, low, high))
        return self.with_contexts(solution, found)

    def with_contexts(self, solution: Solution, bounds: List[Bounds]) -> List[Bounds]:
        """The bounds of a beta are for one L; extends them with the bounds of L."""
        if 'train_ctx' not in solution.given:
            return bounds
        context, found = solution.given['train_ctx'], []
        _, low, high = bounds[list(solution.given).index('train_ctx')]
        for note, (name, least, most) in zip(solution.given, bounds):
            if note in STEPPED and note != 'train_ctx' and low and high and least and most:
                least, most = least * low / context, most * high / context
            found.append((name, least, most))
        return found

    def same_until(self, solution: Solution, note: str, side: int, reach: float) -> float:
        """side x reach, extended while results stay the same, and over steps that do not make the fit significantly
        worse."""
        together = [n for n in STEPPED if n in solution.given] if note == 'train_ctx' else [note]

        def at(way):
            return dict(solution.given, **{n: solution.given[n] * math.exp(side * way) for n in together})

        def computed(way):
            return values.computes(self.numbers.model, solution.family.candidate(at(way)), self.numbers.n)
        own = computed(reach)

        def holds(way):
            if computed(way) == own:
                return True
            gained = self.squares(solution.family, at(way), self.answers) - solution.fit.squares
            return note in STEPPED and gained <= MINDS * self.mean_square(solution.fit)
        return side * values.as_far_as(reach, FARTHEST, holds, note in STEPPED)


def mean_of(left: List[float]) -> float:
    """In nats, the same as decide.distance if all prompts have the same number of tokens."""
    return sum(abs(x) for x in left) / len(left)
