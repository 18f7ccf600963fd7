"""The unknowns: a family is a method with values that may vary, and a solution has their results."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ..numbers import values
from ..numbers.candidates import Candidate, number
from ..numbers.decide import Bounds, Reading
from ..numbers.values import SLIDING, VALUES, WHOLE, Numbers
from .least_squares import Fit

WIDE = 1.5          # times a value: results that stay the same do not depend on it
LOW = {'factor': 1.0, 'train_ctx': 8, 'theta': 2.0, 'attention_factor': 0.05, 'factor_sliding': 1.0,
       'theta_sliding': 2.0, 'window': 1, 'turning': 1}
HIGH = {'train_ctx': 1 << 27, 'attention_factor': 20}
SETTING = {setting[0]: setting for setting in VALUES + SLIDING + WHOLE}
COUNTS = 'train_ctx', 'window', 'turning'  # integers
Given = Dict[str, float]  # values by the names in --explain's notes


class Family:
    """A method with the values of the settings. settings: those whose value affects the results."""

    def __init__(self, words: str, arguments: List[Any]) -> None:
        self.words, self.arguments, self.settings, self.notes = words, arguments, [], {}

    def look(self, numbers: Numbers) -> bool:
        """Fills in the rest; False if run refuses it."""
        own = Candidate(self.words, self.arguments)
        if values.computes(numbers.model, own, numbers.n) is None:
            return False
        self.notes, computed = own.notes, own.signature(numbers.model, numbers.n)
        scaled = number(own.notes.get('scale'), 1) != 1
        for note, _, _ in VALUES + (SLIDING if self.has_kinds(numbers) else []):
            value = WIDE * self.usual(note)
            is_there = (note in own.notes or note.endswith('_sliding')) and (scaled or note != 'factor')
            moved = self.candidate({note: value}) if is_there and value > 0 else None
            if moved and values.computes(numbers.model, moved, numbers.n) not in (None, computed) and \
                    abs(number(moved.notes.get(note)) - value) < 0.01 * value:
                self.settings.append(note)
        return True

    def has_kinds(self, numbers: Numbers) -> bool:
        """Whether sliding layers have their own RoPE."""
        return values.computes(numbers.model, Candidate('', self.arguments + ['--rope-sliding', 'none']),
                               numbers.n) is not None

    def is_plain(self) -> bool:
        return self.notes.get('method') == 'none'

    def usual(self, note: str) -> float:
        if note == 'theta_sliding' and note not in self.notes:
            note = 'theta'
        return number(self.notes.get(note), 1)

    def candidate(self, given: Given) -> Candidate:
        arguments, sliding = list(self.arguments), {}
        for note, value in given.items():
            value = max(LOW.get(note, 1e-3), min(HIGH.get(note, 1e12), value))
            words = '%d' % round(value) if note in COUNTS else '%.6g' % value
            if note.endswith('_sliding'):
                sliding[SETTING[note][1]] = words
            else:
                arguments += [SETTING[note][1], words]
        return Candidate(self.words, arguments + (self.of_sliding(sliding) if sliding else []))

    def told(self, notes: Dict[str, str]) -> Dict[str, str]:
        """The notes of a candidate in the form for printing."""
        return notes

    def of_sliding(self, given: Dict[str, str]) -> List[str]:
        """The settings of sliding layers with some values given. Without a scale, linear becomes none."""
        method = self.notes.get('method_sliding', self.notes.get('method', 'none'))
        usual = {'theta': '%.6g' % self.usual('theta_sliding'), 'factor': '%.6g' % self.usual('factor_sliding')}
        words = ':'.join('%s=%s' % setting for setting in dict(usual, **given).items())
        return ['--rope-sliding', '%s:%s' % ('linear' if method == 'none' else method, words)]


class Fixed(Family):
    """A family with one value fixed."""

    def __init__(self, family: Family, note: str, value: float) -> None:
        self.__dict__.update(vars(family))
        self.settings = [other for other in family.settings if other != note]
        self.arguments = family.candidate({note: value}).arguments


class Solution:
    """A result: the family, the values that differ from its own, and the quality of the fit."""

    def __init__(self, family: Family, given: Given, fit: Fit) -> None:
        self.family, self.given, self.fit = family, given, fit
        self.reading: Optional[Reading] = None
        self.bounds: List[Bounds] = []
        self.notes: Dict[str, str] = {}
        self.usual: Dict[str, str] = {}
        self.others: List['Solution'] = []  # solutions that explain the server as well

    def look(self, numbers: Numbers) -> None:
        """Fills in the results of the values, and the values in the settings."""
        own, candidate = Candidate('', numbers.model.base), self.family.candidate(self.given)
        values.computes(numbers.model, own, numbers.n)
        values.computes(numbers.model, candidate, numbers.n)
        self.notes, self.usual = self.family.told(candidate.notes), own.notes

    def names(self) -> List[str]:
        return [SETTING[note][2] for note in self.given]

    def kind(self) -> Tuple[str, List[str]]:
        return self.family.words, sorted(self.given)
