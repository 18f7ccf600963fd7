"""Values that the prompts do not determine, and the length that would: the effect of such a value is computed at longer
lengths, and compared with the server's deviation from our numbers."""

from __future__ import annotations

import math
import time
from typing import Callable, List, Optional, Sequence, Tuple

from ..common import with_commas
from . import decide
from .ours import Model, Refused
from .values import Untold

LENGTHS = 2, 4, 8, 16  # times the longest prompt
SHARE = 3              # one prompt in so many is about as long as the longest, and has the largest influence
TOP = 20               # tokens of each
PATIENCE = 10          # seconds that this may take, about


class Further:
    """Our numbers at lengths longer than the prompts. ids_to: the first tokens of the text, as many as there are."""

    def __init__(self, model: Model, ids_to: Callable[[int], List[int]], lengths: Sequence[int],
                 patience: float = PATIENCE) -> None:
        self.model, self.ids_to, self.lengths = model, ids_to, sorted(lengths)
        self.patience, self.end = patience, time.time() + patience

    def moved(self, value: Untold, n: int) -> Optional[float]:
        """Mean square of the other value's effect after n tokens; None if the text is shorter."""
        ids = self.ids_to(n)
        if len(ids) < n:
            return None
        _, best, other = value
        asked = {n: self.model.likeliest(ids[:n], TOP, best.arguments)}
        a, b = (self.model.next_tokens(ids[:n], asked, c.arguments)[n] for c in (best, other))
        return sum((a[id][1] - b[id][1]) ** 2 for id in asked[n]) / len(asked[n])

    def told_from(self, value: Untold, off: float) -> Tuple[Optional[int], int]:
        """The smallest of these lengths whose prompts would determine the value, None if no length does; and the
        longest one tried. off: the root of the mean square of the server's deviation from our numbers."""
        prompts, tried = max(1, len(self.lengths) // SHARE), self.lengths[-1]
        for step in LENGTHS:
            n = step * self.lengths[-1]
            if time.time() > self.end:
                break
            try:
                square = self.moved(value, n)
            except Refused:
                break
            if square is None:
                break
            tried = n
            error = max(off, decide.FAINT) / math.sqrt(max(square * prompts * TOP, 1e-18))
            if decide.ERRORS * error < 1:
                return n, tried
        return None, tried


def remarks(further: Further, untold: List[Untold], off: float) -> List[str]:
    """A line for each value."""
    found, further.end = [], time.time() + further.patience
    for value in untold:
        enough, tried = further.told_from(value, off)
        if enough:
            how = 'prompts of %s tokens would (-n %d)' % (with_commas(enough), enough)
        elif tried > further.lengths[-1]:
            how = 'no prompts of up to %s tokens would, either' % with_commas(tried)
        else:
            how = 'longer ones may'
        found.append('these prompts do not determine %s: %s' % (value[0], how))
    return found
