"""The decision, which depends on a server's position between two readings, not only on the smaller distance.

If s are the server's log-probabilities and a, b those of two readings, t = sum (s - a)(b - a) / sum (b - a)^2 over
all top tokens is 0 at a and 1 at b. Rounding errors of a server have no preference for b and average out, so t
separates readings whose distances are equal because of noise. Its standard error comes from a jackknife over prompts
(Quenouille 1949, Tukey 1958).
"""

from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, Optional, Tuple

from .candidates import Candidate

EXACT = 0.01   # nats: smaller distances need no explanation
SAME = 0.003   # nats: readings closer than this count as one
NEAR = 0.07    # nats: twice the largest observed rounding (4-bit weights, int8 activations: 0.033)
FIT = 0.12     # nats: more than bfloat16, int8 activations and an 8-bit cache cause together
LOST = 0.3     # nats: more than 4-bit weights or a 4-bit cache were observed to cause (0.16 to 0.26)
ERRORS = 3     # standard errors for a decision
BETWEEN = 0.2  # of the way to another reading: more than rounding causes
LEAN = 0.4     # of the way to a value a tenth larger or smaller: an error of 4 % in that value
ALIKE = 0.9    # of a distance, at most, remains after subtracting the prompt's mean, if the mean is the
#                server's doing: 0.88 and less was seen, and 0.93 and more of servers whose probabilities add up to 1
FEW_BITS = 0.6  # of a distance, at most, remains with a cache of the server's number of bits
MOST_LEFT = 0.1  # of a distance, at most, remains with another temperature
HOLDS = 0.03   # nats for a prompt with which a reading agrees, if longer ones do not agree
BROKEN = 0.05  # nats for a longer prompt, at least, that does not agree; twice as much for a single longer prompt
BROKEN_TIMES = 8  # times the distance of the prompts that agree: rounding grows with length, but less
BROKEN_AFTER = 2  # short prompts, at least
FAINT = 0.001  # nats: a value with a smaller effect cannot be distinguished from the server's own arithmetic

Answers = Dict[int, Dict[int, float]]  # by length of prompt: log-probabilities of ids
Bounds = Tuple[str, Optional[float], Optional[float]]  # a value's name, its lowest and highest possible numbers


class Reading:
    """Candidates with the same results. ours: {length: {id: log-probability}}."""

    def __init__(self, candidates: Iterable[Candidate], ours: Answers) -> None:
        self.candidates, self.ours = list(candidates), ours
        self.distance, self.t, self.se = 0.0, 0.0, 0.0

    def engines(self) -> List[str]:
        return [c.engine for c in self.candidates if c.engine]

    def words(self) -> str:
        others = [c.words for c in self.candidates if not c.engine]
        return ', '.join(self.engines() or others[:2])


def distance(answers: Answers, ours: Answers) -> float:
    """Mean over prompts of the mean |difference| over the server's top tokens, in nats."""
    each = [sum(abs(p - ours[length][id]) for id, p in top.items()) / len(top) for length, top in answers.items()]
    return sum(each) / len(each)


def apart(one: Dict[int, float], other: Dict[int, float]) -> Optional[float]:
    """Mean |difference| of two answers to one prompt; None if fewer than half of the tokens are the same."""
    both = [id for id in one if id in other]
    return sum(abs(one[id] - other[id]) for id in both) / len(both) if 2 * len(both) > len(one) else None


def loudness(noise: Answers) -> float:
    """Mean over prompts of the mean |difference| between two askings; 0: the server repeats itself exactly."""
    each = [sum(map(abs, top.values())) / len(top) for top in noise.values()]
    return sum(each) / len(each) if each else 0.0


def noise_along(noise: Answers, a: Answers, b: Answers) -> float:
    """The part of t's standard error that comes from the server's own noise: the noise of the mean of two askings,
    whose differences are projected on the line from a to b, prompt by prompt."""
    over = [sum(x * (b[n][id] - a[n][id]) for id, x in top.items()) for n, top in noise.items()]
    under = sum((b[n][id] - a[n][id]) ** 2 for n, top in noise.items() for id in top)
    return math.sqrt(sum(x * x for x in over)) / 2 / max(under, 1e-12)


def along(answers: Answers, a: Answers, b: Answers) -> Tuple[float, float]:
    """t, and its standard error; infinite if only one prompt determines it."""
    parts = []
    for length, top in answers.items():
        ways = [(p - a[length][id], b[length][id] - a[length][id]) for id, p in top.items()]
        parts.append((sum(s * way for s, way in ways), sum(way * way for _, way in ways)))
    n, over, under = len(parts), sum(p[0] for p in parts), sum(p[1] for p in parts)
    if n < 2 or min(under - p[1] for p in parts) < 1e-12:
        return over / max(under, 1e-12), math.inf
    left_out = [(over - p[0]) / (under - p[1]) for p in parts]
    mean = sum(left_out) / n
    return over / under, math.sqrt((n - 1) / n * sum((x - mean) ** 2 for x in left_out))


def merged(readings: List[Reading], answers: Answers) -> List[Reading]:
    """Readings without duplicates: those that agree at these tokens become one."""
    found = []
    for reading in readings:
        for other in found:
            pretended = {n: {id: reading.ours[n][id] for id in top} for n, top in answers.items()}
            if distance(pretended, other.ours) < SAME:
                other.candidates += reading.candidates
                break
        else:
            found.append(reading)
    return found


class Break:
    """Prompts of up to `last` tokens agree with the reading, with a distance of at most `short` nats, and those from
    `first` on have at least `long` nats: they agree with `other`, if it is not None."""

    def __init__(self, reading: Reading, last: int, first: int, short: float, long: float) -> None:
        self.reading, self.last, self.first, self.short, self.long = reading, last, first, short, long
        self.other: Optional[Reading] = None


class Verdict:
    """kind: reads, solved, between, tied, nearest, none or breaks; best: the nearest Reading; others: the other
    readings involved; solution: for solved, see families.py; broken: for breaks, see Break."""

    def __init__(self, kind: str, best: Reading, others: List[Reading], margin: Optional[float],
                 solution: Any = None, broken: Optional[Break] = None) -> None:
        self.kind, self.best, self.others, self.margin, self.solution = kind, best, others, margin, solution
        self.broken = broken


def judge(readings: List[Reading], answers: Answers, noise: Optional[Answers] = None, rounding: float = 0.0) -> Verdict:
    """Sets distance, t and se of each reading, sorts them by distance, and decides. noise: the server's first answers
    minus its second ones; answers are then the means, whose error is half of that. rounding: nats by which 8-bit
    activations were observed to change this model."""
    own = loudness(noise or {}) / 2
    for reading in readings:
        reading.distance = distance(answers, reading.ours)
    readings.sort(key=lambda reading: reading.distance)
    best, rest = readings[0], readings[1:]
    for reading in rest:
        reading.t, reading.se = along(answers, best.ours, reading.ours)
        reading.se = math.hypot(reading.se, noise_along(noise or {}, best.ours, reading.ours))
    unsure = [r for r in rest if not 0.5 - r.t >= ERRORS * r.se]
    between = [r for r in rest if r not in unsure and r.t > BETWEEN and r.t - ERRORS * r.se > 0.05]
    told_apart = [r.distance for r in rest if r not in unsure]
    margin = min(told_apart) if told_apart else None
    if best.distance > LOST + own:
        return Verdict('none', best, unsure, margin)
    if best.distance > FIT + own:
        return Verdict('nearest', best, unsure, margin)
    if unsure:
        return Verdict('tied', best, unsure, margin)
    if between:
        return Verdict('between', best, [max(between, key=lambda r: r.t)], margin)
    if best.distance > min(NEAR + rounding, FIT) + own:
        return Verdict('nearest', best, [], margin)
    return Verdict('reads', best, [], margin)


def left(answers: Answers, a: Answers, b: Answers, t: float) -> float:
    """The residual of the server from the mix of a and b: the root of the mean square."""
    squares = [(p - a[n][id] - t * (b[n][id] - a[n][id])) ** 2 for n, top in answers.items() for id, p in top.items()]
    return math.sqrt(sum(squares) / max(len(squares) - 1, 1))


def spread(answers, a, b, t):
    """The standard error of t if each token were rounded independently."""
    under = sum((b[n][id] - a[n][id]) ** 2 for n, top in answers.items() for id in top)
    return left(answers, a, b, t) / math.sqrt(max(under, 1e-12))


def lean(answers: Answers, best: Reading, reading: Reading) -> bool:
    """Sets t and se of a reading with another value, se to the larger of its two errors. Returns whether the server
    deviates from the best reading toward this one."""
    reading.t, reading.se = along(answers, best.ours, reading.ours)
    if distance({n: {id: best.ours[n][id] for id in top} for n, top in answers.items()}, reading.ours) < FAINT:
        reading.se = math.inf
    reading.se = max(reading.se, spread(answers, best.ours, reading.ours, reading.t))
    return reading.t > max(LEAN, ERRORS * reading.se)


def break_of(reading: Reading, answers: Answers, own: float) -> Optional[Break]:
    """The length up to which the reading agrees; None if no length separates the prompts clearly. own: nats of the
    server's noise."""
    lengths = sorted(answers)
    off = [distance({n: answers[n]}, reading.ours) for n in lengths]
    for k in range(BROKEN_AFTER, len(lengths)):
        short, long = max(off[:k]), min(off[k:])
        clear = max(BROKEN, BROKEN if len(lengths) - k > 1 else 2 * BROKEN, BROKEN_TIMES * short) + own
        if short <= HOLDS + own and long > clear:
            return Break(reading, lengths[k - 1], lengths[k], short, long)
    return None


def with_a_break(verdict: Verdict, readings: List[Reading], answers: Answers, noise: Optional[Answers]) -> Verdict:
    """The verdict, or the verdict that the server agrees with a reading up to some length and not past it."""
    own = loudness(noise or {}) / 2
    judged = verdict.solution.reading if verdict.kind == 'solved' else verdict.best
    if verdict.kind in ('reads', 'solved') and not break_of(judged, answers, own):
        return verdict
    found = [b for b in (break_of(reading, answers, own) for reading in readings) if b]
    if not found:
        return verdict
    broken = max(found, key=lambda b: (b.last, -b.short))
    past = {n: top for n, top in answers.items() if n >= broken.first}
    nearest = min(readings, key=lambda reading: distance(past, reading.ours))
    broken.other = nearest if distance(past, nearest.ours) <= HOLDS + own else None
    return Verdict('breaks', broken.reading, [], None, None, broken)


def level(answers: Answers, tops: Answers) -> Answers:
    """Log-probabilities of the same tokens, minus their mean over the tokens of each prompt."""
    means = {n: sum(tops[n][id] for id in top) / len(top) for n, top in answers.items()}
    return {n: {id: tops[n][id] - means[n] for id in top} for n, top in answers.items()}


def temperature_of(answers: Answers, ours: Answers) -> Optional[float]:
    """The temperature by which the server divides its logits before log-probabilities, if that explains almost all of
    the deviation; else None."""
    there, here = level(answers, answers), level(answers, ours)
    pairs = [(p, here[n][id]) for n, top in there.items() for id, p in top.items()]
    share = sum(p * q for p, q in pairs) / max(sum(q * q for _, q in pairs), 1e-12)
    off, left = (sum(abs(p - by * q) for p, q in pairs) / len(pairs) for by in (1, share))
    return 1 / share if share > 0 and left < MOST_LEFT * off else None


def offset(answers: Answers, ours: Answers) -> float:
    """The mean common deviation of the log-probabilities of a prompt."""
    means = [sum(p - ours[n][id] for id, p in top.items()) / len(top) for n, top in answers.items()]
    return sum(abs(mean) for mean in means) / len(means)


def judge_level(readings: List[Reading], answers: Answers,
                verdict: Verdict) -> Optional[Tuple[Verdict, List[Reading], Answers]]:
    """Judges again after subtracting each prompt's mean, for servers whose probabilities do not add up to 1
    (ik_llama.cpp, which adds the tail twice, August 2026). Returns (verdict, readings, answers) if this leaves
    little of a distance that was too large for every reading; else None."""
    levelled = [Reading(r.candidates, level(answers, r.ours)) for r in readings]
    flat = level(answers, answers)
    found = judge(levelled, flat)
    if found.best.distance > min(LOST, ALIKE * verdict.best.distance):
        return None
    return found, levelled, flat


# ---- with only the chosen token ----

AGREE = 0.75  # of the chosen tokens, at least, must be the likeliest of a reading that agrees


def agreement(answers, likeliest):
    """Share of prompts whose token is the likeliest of a reading; likeliest: {length: set of ids}."""
    return sum(bool(tokens & likeliest[n]) for n, tokens in answers.items()) / len(answers)


def judge_greedy(readings: List[Reading], answers: Dict[int, Any]) -> Verdict:
    """The same with greedy tokens: a sign test over prompts for which two readings choose differently. distance is the
    share of prompts that disagree, t the share of these prompts that agree with the other reading."""
    hits = {id(r): {n: bool(tokens & r.ours[n]) for n, tokens in answers.items()} for r in readings}
    for reading in readings:
        reading.distance = 1 - agreement(answers, reading.ours)
    readings.sort(key=lambda reading: reading.distance)
    best, unsure = readings[0], []
    for reading in readings[1:]:
        a, b = hits[id(best)], hits[id(reading)]
        won, lost = sum(a[n] and not b[n] for n in answers), sum(b[n] and not a[n] for n in answers)
        reading.t = lost / (won + lost) if won + lost else 0.5
        reading.se = 0.5 / math.sqrt(won + lost) if won + lost else math.inf
        if won - lost < ERRORS * math.sqrt(won + lost) or won == lost:
            unsure.append(reading)
    if best.distance > 1 - AGREE:
        return Verdict('none', best, unsure, None)
    return Verdict('tied' if unsure else 'reads', best, unsure, None)
