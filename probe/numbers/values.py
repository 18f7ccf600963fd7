"""Values in no list: whether a server has another theta, s, L, attention factor or beta than the nearest reading, and
the bounds of each."""

from __future__ import annotations

import math
from typing import Callable, List, Optional, Tuple

from ..common import plainly
from . import decide
from .candidates import Candidate, number
from .decide import Answers, Bounds, Reading, Verdict
from .ours import Model, Refused

# The name of a setting's value in the notes of --explain, as an option, and in words.
VALUES = [('theta', '--theta', 'theta'), ('factor', '--factor', 's'), ('train_ctx', '--train-ctx', 'L'),
          ('attention_factor', '--attention-factor', 'attention factor'), ('beta_fast', '--beta-fast', 'beta_fast'),
          ('beta_slow', '--beta-slow', 'beta_slow'), ('low_freq_factor', '--low-freq-factor', 'low_freq_factor'),
          ('high_freq_factor', '--high-freq-factor', 'high_freq_factor')]
# Values of sliding layers with their own RoPE: a key of --rope-sliding's settings in place of an option.
SLIDING = [('theta_sliding', 'theta', 'theta of the sliding layers'),
           ('factor_sliding', 'factor', 's of the sliding layers')]
# Integers, whose effect is a jump: they are solved for one by one (whole.py).
WHOLE = [('window', '--window', 'window'), ('turning', '--turning', 'pairs that turn')]
STEPPED = 'train_ctx', 'beta_fast', 'beta_slow'  # ramps end at whole pairs: many values have the same results
# From a value to its neighbors: close enough for an almost straight line, and the later ones if the first has no effect
# (ramps begin and end at whole pairs). If the server deviates toward one, all of them are tried.
STEPS = 1.1, 1.5, 2.25
CROOKED = 1.5   # the line is not quite straight: bounds are wider than measured by this factor
LEAST = 0.01    # of a value: bounds are never closer
GRAIN = 0.02    # of a value, by which bounds grow while run has the same results
EXPLAINS = 0.7  # of the residual of the listed readings, at most, must remain with another value


Untold = Tuple[str, Candidate, Candidate]  # a value's name, the nearest candidate, and the candidate with another value


class Numbers:
    """The data for judging values: our model, the text, and the server's answers, level or unchanged."""

    def __init__(self, compute: Callable[..., Reading], model: Model, answers: Answers, is_level: bool, n: int) -> None:
        self.compute, self.model, self.answers, self.is_level, self.n = compute, model, answers, is_level, n
        self.untold: List[Untold] = []  # of the final result

    def reading(self, candidate: Candidate, some: Optional[Answers] = None) -> Reading:
        """The reading of a candidate for all answers, or for some of them."""
        answers = self.answers if some is None else some
        found = self.compute([candidate], answers)
        return decide.Reading([candidate], decide.level(answers, found.ours)) if self.is_level else found


class Neighbor:
    """A candidate with one of VALUES times `step`, which is above or below 1."""

    def __init__(self, setting, candidate, step, best):
        self.setting, self.candidate, self.step, self.best = setting, candidate, step, best
        self.reading, self.leans = None, False

    def left(self, answers):
        return decide.left(answers, self.best.ours, self.reading.ours, self.reading.t)


def name_of(setting, notes):
    """The name of a setting. The theta of ntk is the model's, from which the method computes another."""
    name, method = setting[2], notes.get('method', '')
    return '%s with %s' % (name, method) if name == 'theta' and method.endswith('ntk') else name


def with_value(candidate, setting, step):
    note, option, name = setting
    value = number(candidate.notes[note]) * step
    value = round(value) if note == 'train_ctx' else value
    words = '%s %s' % (name, plainly(value)) + name_of(setting, candidate.notes)[len(name):]
    return Candidate(words, candidate.arguments + [option, '%.12g' % value])


def computes(model, candidate, n):
    """Its signature, None if run refuses it."""
    try:
        return candidate.signature(model, n)
    except Refused:
        return None


def takes(model, group, setting, n):
    """The candidate of the group whose value the option changes; an engine may interpret the value differently."""
    for candidate in sorted(group, key=lambda c: c.engine is not None):
        candidate.signature(model, n)
        value = number(candidate.notes.get(setting[0])) * STEPS[0]
        neighbor = value > 0 and with_value(candidate, setting, STEPS[0])
        if neighbor and computes(model, neighbor, n) and \
                abs(number(neighbor.notes.get(setting[0])) - value) < 0.01 * value:
            return candidate
    return None


def neighbors(model, best, n):
    """For each value that changes the best reading's results at length n, the nearest neighbors above and below."""
    found, own = [], best.candidates[0].signature(model, n)
    for setting in VALUES:
        candidate = takes(model, best.candidates, setting, n)
        for is_below in (False, True) if candidate else ():
            for step in STEPS[:2]:
                step = 1 / step if is_below else step
                signature = computes(model, with_value(candidate, setting, step), n)
                if signature and signature != own:
                    found.append(Neighbor(setting, candidate, step, best))
                    break
    return found


def measure(neighbor, numbers):
    neighbor.reading = numbers.reading(with_value(neighbor.candidate, neighbor.setting, neighbor.step))
    neighbor.leans = decide.lean(numbers.answers, neighbor.best, neighbor.reading)


def further(neighbor, numbers):
    """The same value at the next step, measured; None at the last step."""
    steps = STEPS if neighbor.step > 1 else [1 / step for step in STEPS]
    beyond = steps[steps.index(neighbor.step) + 1:]
    if not beyond:
        return None
    found = Neighbor(neighbor.setting, neighbor.candidate, beyond[0], neighbor.best)
    if not computes(numbers.model, with_value(found.candidate, found.setting, found.step), numbers.n):
        return None
    measure(found, numbers)
    return found


def that_leaves_least(tried, numbers):
    """The neighbor that explains the server best, None if the server deviates toward none."""
    if not any(neighbor.leans for neighbor in tried):
        return None
    toward = [n for n in tried if n.reading.t > min(decide.LEAN, decide.ERRORS * n.reading.se)]
    for neighbor in toward:  # the effect grows with the distance
        beyond = further(neighbor, numbers)
        toward += [beyond] if beyond else []
    return min(toward, key=lambda n: n.left(numbers.answers))


def measured_neighbors(best, numbers):
    found = neighbors(numbers.model, best, numbers.n)
    for neighbor in found:
        measure(neighbor, numbers)
    return found


def of_its_own(verdict: Verdict, readings: List[Reading], numbers: Numbers) -> Tuple[Verdict, List[Bounds]]:
    """The verdict, or a verdict between the reading and a neighbor of it: the server has a value that no candidate has.
    And [(name, lowest, highest)] of each value, if none is found and the reading is decided; None means no bound."""
    tried = measured_neighbors(verdict.best, numbers)
    if not verdict.best.engines() and (verdict.kind != 'reads' or any(neighbor.leans for neighbor in tried)):
        # the nearest reading may have another value by chance: tries the engines' readings with one value changed
        usual = min((r for r in readings if r.engines()), key=lambda r: r.distance, default=None)
        tried += measured_neighbors(usual, numbers) if usual else []
    least = that_leaves_least(tried, numbers)
    share = {'reads': math.inf, 'between': 1}.get(verdict.kind, EXPLAINS)
    if least and least.left(numbers.answers) < share * left_by_list(verdict, numbers):
        return decide.Verdict('between', least.best, [least.reading], verdict.margin), []
    if verdict.kind != 'reads':
        return verdict, []
    bounds = all_bounds(tried, numbers)
    numbers.untold = untold(tried, bounds)
    return verdict, bounds


def left_by_list(verdict, numbers):
    """The residual of the nearest reading, or of a mix of it and another listed one."""
    mixes = [decide.left(numbers.answers, verdict.best.ours, r.ours, min(max(r.t, 0), 1)) for r in verdict.others]
    return min(mixes + [decide.left(numbers.answers, verdict.best.ours, verdict.best.ours, 0)])


# ---- bounds ----

def all_bounds(tried, numbers):
    found = {}
    for neighbor in tried:
        name, value = name_of(neighbor.setting, neighbor.candidate.notes), number(
            neighbor.candidate.notes[neighbor.setting[0]])
        low, high = found.get(name, (None, None))
        reach = reach_of(neighbor, numbers)
        if reach is not None and neighbor.step > 1:
            high = value * reach
        elif reach is not None:
            low = value / reach
        found[name] = low, high
    return [(name, low, high) for name, (low, high) in found.items()]


def reach_of(neighbor, numbers):
    """The factor within which the value is known on the neighbor's side: as far as the error allows, and further while
    run has the same results. None if the error allows the whole distance."""
    error = decide.ERRORS * neighbor.reading.se
    if error > 1:
        return None
    way = CROOKED * max(neighbor.reading.t, 0) + error
    reach, side = max(way * abs(math.log(neighbor.step)), LEAST), math.copysign(1, math.log(neighbor.step))
    own = neighbor.candidate.signature(numbers.model, numbers.n)

    def is_alike(way):
        there = with_value(neighbor.candidate, neighbor.setting, math.exp(side * way))
        return computes(numbers.model, there, numbers.n) == own
    return math.exp(as_far_as(reach, 4 * math.log(STEPS[1]), is_alike, neighbor.setting[0] in STEPPED))


def as_far_as(reach: float, most: float, holds: Callable[[float], bool], in_steps: bool) -> float:
    """The last of reach, reach + GRAIN and so on, to about `most`, for which `holds` is true and stays true from the
    start: found with doubling steps, and then by bisection. in_steps: the first for which it is false, since the
    boundary is between the two."""
    count, low = max(0, math.ceil((most - reach) / GRAIN)), 0
    high = count + 1
    while high - low > 1:
        at = (low + high) // 2 if high <= count else min(2 * low + 1, count)
        if holds(reach + at * GRAIN):
            low = at
        else:
            high = at
    return reach + (low + (in_steps and low < count)) * GRAIN


def untold(tried: List[Neighbor], bounds: List[Bounds]) -> List[Untold]:
    """The values without a known bound: their name, the reading, and a neighbor of it."""
    unknown = {name for name, low, high in bounds if low is None and high is None}
    found = {}
    for neighbor in tried:
        name = name_of(neighbor.setting, neighbor.candidate.notes)
        if name in unknown:
            found[name] = name, neighbor.candidate, with_value(neighbor.candidate, neighbor.setting, neighbor.step)
    return list(found.values())


def said(bounds: Bounds) -> str:
    """Bounds in words: `theta 9,600 to 10,500`, with as many digits as separate the two, rounded outward."""
    name, low, high = bounds
    if low is None and high is None:
        return '%s not at all' % name
    if low is None or high is None:
        return '%s %s or %s' % (name, plainly(high if low is None else low), 'less' if low is None else 'more')
    if low == high:
        return '%s %s' % (name, plainly(low))
    unit = 10.0 ** math.floor(math.log10((high - low) / 4))
    digits = max(0, -round(math.log10(unit)))
    return '{} {:,.{d}f} to {:,.{d}f}'.format(name, math.floor(low / unit) * unit, math.ceil(high / unit) * unit,
                                              d=digits)
