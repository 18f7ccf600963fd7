"""The findings about a server's reading, in words: the table of readings, the values that differ, the last line."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, Dict, List

from ..asking.asking import Interview
from ..common import plainly, with_commas
from ..numbers import values
from ..numbers.candidates import number
from ..numbers.decide import EXACT, NEAR, Bounds, Break, Reading, Verdict
from ..report import Report
from ..solving.families import Solution


def settings_of(reading):
    """The results of a reading: its method, scale, L and attention factor."""
    notes = reading.candidates[0].notes
    words = notes.get('method', '')
    if float(notes.get('scale', 1)) != 1:
        words += ' %g x %s' % (float(notes['scale']), notes.get('train_ctx', '?'))
    return '%s, attention factor %.4g' % (words, float(notes.get('attention_factor', 1)))


def name_of(reading):
    """The end of a sentence: `vllm, sglang do: yarn 16 x 512, attention factor 1.277`, or a reading that no engine
    has."""
    if reading.engines():
        return '%s do%s: %s' % (reading.words(), 'es' if len(reading.engines()) == 1 else '', settings_of(reading))
    return reading.words()


def settings_in_words(notes: Dict[str, str]) -> str:
    """`yarn 5.02 x 512, theta 10,000, attention factor 1.161`"""
    words = '%s, theta %s, attention factor %s' % (method_in_words(notes, ''), plainly(number(notes.get('theta'))),
                                                   plainly(number(notes.get('attention_factor'), 1)))
    if 'turning' in notes:
        words += ', the first %s pairs of a head rotate' % notes['turning']
    if number(notes.get('window')):
        words += ', window %s' % with_commas(int(number(notes['window'])))
    if 'theta_sliding' in notes or 'scale_sliding' in notes:
        words += '; its sliding layers %s, theta %s' % (
            method_in_words(notes, '_sliding'), plainly(number(notes.get('theta_sliding', notes.get('theta')))))
    return words


def method_in_words(notes: Dict[str, str], kind: str) -> str:
    """The method of the full layers, or of the sliding ones (kind `_sliding`), which are the same except for their own
    notes."""
    method, scale, length = (notes.get(key + kind, notes.get(key)) for key in ('method', 'scale', 'train_ctx'))
    if method == 'none' or method == 'linear' and number(scale, 1) == 1:
        return 'plain RoPE'
    if method == 'linear':
        return 'linear, s %s' % plainly(number(scale))
    return method if number(scale, 1) == 1 else '%s %s x %s' % (method, plainly(number(scale)),
                                                                with_commas(int(number(length))))


def described(solution: Solution) -> str:
    """`yarn 5.02 x 512, theta 10,000, attention factor 1.161 (s 4.9 to 5.1)`"""
    words = settings_in_words(solution.notes)
    known = ', '.join(map(values.said, solution.bounds))
    return '%s (%s)' % (words, known) if known else words


def solved_sentence(solution: Solution) -> str:
    """The end of the last line: the solution, and the difference from the settings."""
    either = [solution] + solution.others
    words = ' or '.join(map(described, either))
    return 'the server has values of its own: %s; %.4f nats from that; the settings say %s' % (
        words, solution.reading.distance, settings_in_words(solution.usual))


def margins(verdict):
    nats = '; %.4f nats from that' % verdict.best.distance
    return nats + (', %.4f from the next' % verdict.margin if verdict.margin is not None else '')


def advice(verdict, later):
    """Questions that would separate tied readings."""
    tied = {c.words for reading in [verdict.best] + verdict.others for c in reading.candidates}
    longer = any(c.words in tied for parts in later for c in parts)
    more = ['a longer -n, past the trained length'] if longer else ['more --prompts', 'a longer -n']
    more += ['the very weights that are served'] if verdict.best.distance > EXACT else []
    return ', '.join(more[:-1]) + ' or ' * (len(more) > 1) + more[-1]


def sentence(verdict, later, expected):
    best, name = verdict.best, verdict.best.words()
    if verdict.kind == 'reads':
        expects = expected and expected not in best.engines()
        return 'the server reads it as %s%s%s' % (name_of(best), margins(verdict), '; expected %s' % expected
                                                 if expects else '')
    if verdict.kind == 'solved':
        return solved_sentence(verdict.solution) + ('; expected %s' % expected if expected else '')
    if verdict.kind == 'tied':
        return 'cannot tell apart: %s%s; what would: %s' % (
            ' | '.join([name] + [r.words() for r in verdict.others]), margins(verdict), advice(verdict, later))
    if verdict.kind == 'between':
        other = verdict.others[0]
        where = 'between %s and %s' if other.t <= 1 else 'near %s, but past %s'
        return (where + ' (%.2f +- %.2f of the way)%s: a value of its own%s') % (
            name, other.words(), other.t, other.se, margins(verdict),
            ', of another kind it may be, as the share of the head that turns' if best.distance > NEAR else '')
    if verdict.kind == 'breaks':
        return broken_sentence(verdict.broken)
    if verdict.kind == 'nearest':
        return ('cannot tell: nearest to %s, but %.2f nats away, and rounding makes %g at most; are these the very '
                'weights that the server has, and has its cache 8 bits or more?' % (name, best.distance, NEAR))
    return 'no reading fits: the nearest is %s%s: another model, other weights, or a reading not in the list' % (
        name, margins(verdict))


def broken_sentence(broken: Break) -> str:
    words = 'the server reads prompts of up to %s tokens as %s; %.4f nats from that, and %.2f or more from %s tokens ' \
        'on: ' % (with_commas(broken.last), name_of(broken.reading), broken.short, broken.long,
                  with_commas(broken.first))
    if broken.other:
        return words + 'it reads these as %s' % name_of(broken.other)
    return words + 'no reading does that. The weights are the same: an error past a length, a window, a cache, or a ' \
        'cut that is not counted'


def greedy_sentence(verdict, expected, n):
    name, agree = verdict.best.words(), 100 * (1 - verdict.best.distance)
    tail = '; %.0f %% of %d tokens are as it chooses' % (agree, n)
    if verdict.kind == 'reads':
        expects = expected and expected not in verdict.best.engines()
        return 'the server reads it as %s%s%s' % (name_of(verdict.best), tail, '; expected %s' % expected
                                                 if expects else '')
    if verdict.kind == 'tied':
        return 'cannot tell apart: %s%s; what would: more --prompts, or a server that gives log-probabilities' % (
            ' | '.join([name] + [r.words() for r in verdict.others]), tail)
    return 'no reading fits: the nearest is %s%s' % (name, tail)


class Findings:
    """The results for a server's reading: its answers, the readings, the verdict, remarks, bounds of values, and the
    candidates that only longer prompts would separate."""

    def __init__(self, heard: Any, found: List[Reading], verdict: Verdict, remarks: List[str], bounds: List[Bounds],
                 later: List[Any]) -> None:
        self.heard, self.found, self.verdict, self.remarks = heard, found, verdict, remarks
        self.bounds, self.later = bounds, later


def readings(out: Report, interview: Interview, findings: Findings, options: Namespace) -> None:
    form, _, top, as_text, sampled = interview.way
    lengths, verdict = sorted(findings.heard.answers), findings.verdict
    out.note('server', '%s, form %s, %s, %d prompts of %s to %s tokens, %s%s' % (
        interview.server.root, form.name, 'text' if as_text else 'token ids', len(lengths), with_commas(lengths[0]),
        with_commas(lengths[-1]), 'the chosen token' if options.greedy else 'top %d' % top,
        ', sampled at temperature 1' if sampled else ''))
    for line in findings.remarks:
        out.note('prompts', line)
    rows = []
    for reading in findings.found:
        is_best = reading is verdict.best
        rows.append(['%.4f' % reading.distance, '-' if is_best else '%.2f' % reading.t,
                     '-' if is_best else '%.2f' % reading.se,
                     ', '.join(reading.engines() + [c.words for c in reading.candidates if not c.engine])])
    out.rows(['disagree' if options.greedy else 'nats', 'of_the_way', 'se', 'reading'], rows)
    out.values = [{'name': name, 'low': low, 'high': high} for name, low, high in findings.bounds]
    words = greedy_sentence(verdict, options.expect, len(lengths)) if options.greedy else \
        sentence(verdict, findings.later, options.expect)
    shortfall = findings.heard.shortfall()
    out.last(words + ('; but %s' % shortfall[1] if shortfall else ''))
