"""Compares two servers, or one server before and after a change, without weights: did a setting have an effect?

Each server is asked twice. If a1, a2, b1, b2 are their log-probabilities of one token, the mean of (a1 - b1)(a2 -
b2) is the square of the difference, because independent rounding errors average out of the product. The mean over
the tokens of a prompt is subtracted first. The standard error assumes servers that do not differ: the product of two
normal errors of variance v has variance v^2, and ((a1 - b1) - (a2 - b2))^4 / 12 has that mean."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from argparse import Namespace
from typing import Any, Callable, Dict, List, Optional, Tuple

from export import families
from export.installed import ROOT

from ..asking.asking import Found, Interview, Prompt, Refusal, say_nothing
from ..asking.forms import Reply, Token
from ..asking.web import Server
from ..common import NO, UNDECIDED, YES, Problem, with_commas
from ..report import Report
from .asker import CHAT_ANSWER, Asker, Beginnings, counts_what_is_new

WHAT = 'rope.c server_probe answers'
USUAL, PROMPTS = 2048, 10      # -n and --prompts
SHORTEST = 32                  # tokens of the first prompt, about
LETTERS = 4                    # of a token, about: texts are cut accordingly without a tokenizer
SURE = 5                       # standard errors that prove a difference
MORE_SURE = 6                  # the same for only the long prompts: one of several questions
LITTLE = 0.0005                # nats: less is rounding, even if a server repeats itself exactly
OTHER_ARITHMETIC = 0.04        # nats, at most: the effect of other kernels, bits of a cache or 8-bit activations
MUCH_LESS = 0.25               # of the difference of all prompts, at least, in short ones, for a difference everywhere
HARDLY = 0.1                   # of the difference of long prompts, at most, in short ones that count as equal: 1 % of
                               # theta moves
#                                prompts of 60 tokens by a fifth of what it moves those of 1,000
FEWEST = 2                     # short prompts that allow a conclusion
COMMON = 0.5                   # of the tokens of both, at least, that they must share
TEXT_TOKENS = 24               # of an answer in words
HALF = 0.5                     # of the texts that differ: more than rounding causes
FEW = 3                        # tokens by which the count of a beginning may differ before another text

Logprobs = Dict[str, float]


class Stranger(Interview):
    """An interview without a vocabulary: tokens are identified by the server's names, and prompts are text."""

    def __init__(self, server: Server, options: Namespace) -> None:
        super().__init__(server, None, options)
        self.greedy, self.words = False, True

    def known(self, tokens: List[Token]) -> Dict[Any, float]:
        def name(token):
            if token.id is not None:
                return 'id %d' % token.id
            return 'text ' + (token.data.decode('latin-1') if token.data else token.text or '')
        return {name(token): token.logprob for token in tokens}

    def chosen(self, reply: Reply) -> Optional[Found]:
        return None


class Said:
    """One server's results for each prompt: `rounds` of log-probabilities or words, its count, or the reason for a
    refusal. is_begun: the server only counts tokens that are not in its cache, so it has counted the prompt after a
    beginning."""

    def __init__(self, rounds: List[Any], counted: Optional[int], refused: Optional[str],
                 is_begun: bool = False) -> None:
        self.rounds, self.counted, self.refused, self.is_begun = rounds, counted, refused, is_begun


# ---- asking ----

def texts_of(options: Namespace) -> List[str]:
    """Beginnings of the text that end at a word's end, each longer than the one before by the same factor."""
    path = options.text or os.path.join(ROOT, 'book.txt')
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            text = file.read()
    except OSError as error:
        raise Problem('%s: %s' % (path, error.strerror), 'file')
    n, count = options.n or USUAL, options.prompts or PROMPTS
    while text and len(text) < LETTERS * n:
        text += '\n' + text
    low = min(SHORTEST, n)
    found = []
    for i in range(count):
        length = LETTERS * (n if count == 1 else round(low * (n / low) ** (i / (count - 1))))
        match = re.compile(r'\w(?=\s)').search(text, max(length - 1, 0))
        found.append(text[:match.end()] if match else text)
    found = [t for i, t in enumerate(found) if t.strip() and t not in found[:i]]
    if not found:
        raise Problem('%s: no words' % path, 'file')
    return found


def ask_server(server: Server, texts: List[str], options: Namespace) -> List[Said]:
    """Asks each text twice: for log-probabilities, or with --greedy for words."""
    found = [Said([], None, None) for _ in texts]
    ask = by_words(server, options) if options.greedy else by_numbers(server, texts, options)
    for _ in range(2):
        for said, text in zip(found, texts):
            if said.refused:
                continue
            answer, said.counted, said.refused = ask(text)
            if not said.refused:
                said.rounds.append(answer)
    if all(said.refused for said in found):
        raise Problem('the server refuses every prompt: %s' % found[0].refused, 'refused')
    count_whole(found, texts, lambda text: ask(text)[1])
    counts = [said.counted for said in found if not said.refused]
    if len(counts) > 1 and say_nothing(counts, lambda text: ask(text)[1]):
        for said in found:
            said.counted = None
    return found


def count_whole(found: List[Said], texts: List[str], count: Callable[[str], Optional[int]]) -> None:
    """Counts again if the server only counts tokens that are not in its cache."""
    begun = Beginnings()
    first = next(i for i, said in enumerate(found) if not said.refused)
    if not counts_what_is_new(count, begun, texts[first]):
        return
    for said, text in zip(found, texts):
        said.is_begun = True
        said.counted = None if said.refused else count(begun(text))


def by_words(server, options):
    asker = Asker(server, options)

    def ask(text):
        said = asker.ask(text, CHAT_ANSWER if options.chat else TEXT_TOKENS)
        if said.is_empty():
            return None, said.counted, 'the answer is empty'
        return said.whole(), said.counted, said.refused and said.refused.told()
    return ask


def by_numbers(server, texts, options):
    interview = Stranger(server, options)
    try:
        interview.begin(Prompt([], texts[0]), 0)
    except Refusal as refusal:
        raise Problem('%s refuses the first prompt %s' % (server.root, refusal), 'refused')

    def ask(text):
        try:
            top, counted = interview.ask(Prompt([], text))
        except Refusal as refusal:
            return None, None, interview.told or str(refusal)
        return top, counted, None
    return ask


# ---- a file between two runs ----

def digest(texts: List[str], options: Namespace) -> str:
    asked = json.dumps([texts, options.top, options.greedy, options.chat])
    return hashlib.sha256(asked.encode()).hexdigest()


def save(path: str, said: List[Said], asked: str) -> None:
    rows = [{'rounds': s.rounds, 'counted': s.counted, 'refused': s.refused, 'begun': s.is_begun} for s in said]
    part = '%s.%d' % (path, os.getpid())
    try:
        with open(part, 'w', encoding='utf-8') as file:
            json.dump({'what': WHAT, 'asked': asked, 'answers': rows}, file)
        os.replace(part, path)
    except OSError as error:
        raise Problem('--save %s: %s' % (path, error.strerror), 'file')


def is_round(value: Any) -> bool:
    return isinstance(value, str) or isinstance(value, dict) and bool(value) and all(
        isinstance(v, (int, float)) and not isinstance(v, bool) for v in value.values())


def load(path: str, asked: str) -> List[Said]:
    try:
        with open(path, encoding='utf-8') as file:
            found = json.load(file)
    except OSError as error:
        raise Problem('--against %s: %s' % (path, error.strerror), 'file')
    except (ValueError, RecursionError):
        found = None
    rows = found.get('answers') if isinstance(found, dict) and found.get('what') == WHAT else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and isinstance(row.get('rounds'), list) and
                                             all(map(is_round, row['rounds'])) for row in rows):
        raise Problem('--against %s: not a file that --save wrote' % path, 'file')
    if found.get('asked') != asked:
        raise Problem('--against %s: saved with other prompts (the same -n, --prompts, --top, -f and --greedy '
                      'expected)' % path, 'file')
    return [Said(row['rounds'], row.get('counted'), row.get('refused'), bool(row.get('begun'))) for row in rows]


# ---- comparing ----

class Row:
    """One prompt: `products` (a1 - b1)(a2 - b2) of its tokens, and `chances`, the squares of their errors; `apart` is
    the mean |difference|, `own` that of each server's two rounds; `se` is the standard error of `apart`; `about` is
    the number of tokens in its text if neither server counts them."""

    def __init__(self, a: Said, b: Said, about: int = 0) -> None:
        self.a, self.b, self.about = a, b, about
        self.products: List[float] = []
        self.chances: List[float] = []
        self.apart = self.own = self.se = 0.0
        self.is_same = a.rounds == b.rounds and a.rounds[:1] == a.rounds[1:]

    def length(self) -> int:
        return self.a.counted or self.b.counted or self.about

    def compare(self) -> None:
        rounds = self.a.rounds + self.b.rounds
        if isinstance(rounds[0], str):
            self.apart = float(rounds[0] != rounds[2])
            self.own = float(rounds[0] != rounds[1] or rounds[2] != rounds[3])
            return
        every = set().union(*rounds)
        both = [token for token in every if all(token in top for top in rounds)]
        if len(both) < COMMON * min(map(len, rounds)):  # other tokens: a missing one gets the lowest value
            both = list(every)
        a1, a2, b1, b2 = ([top.get(token, min(top.values())) for token in both] for top in rounds)
        first, second = level([w - y for w, y in zip(a1, b1)]), level([x - z for x, z in zip(a2, b2)])
        self.products = [x * y for x, y in zip(first, second)]
        self.chances = [(x - y) ** 4 / 12 for x, y in zip(first, second)]
        gaps = [abs((w + x - y - z) / 2) for w, x, y, z in zip(a1, a2, b1, b2)]
        self.apart, self.se = mean_and_error(gaps)
        self.own = sum(abs(w - x) + abs(y - z) for w, x, y, z in zip(a1, a2, b1, b2)) / 2 / len(both)


def level(values: List[float]) -> List[float]:
    mean = sum(values) / len(values)
    return [value - mean for value in values]


def mean_and_error(values: List[float]) -> Tuple[float, float]:
    n = len(values)
    mean = sum(values) / n
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / max(n - 1, 1))
    return mean, spread / math.sqrt(n) if n > 1 else math.inf


def square_of(rows: List[Row]) -> Tuple[float, float]:
    """The mean square of the difference, and its standard error."""
    products = [product for row in rows for product in row.products]
    chance = sum(chance for row in rows for chance in row.chances)
    return sum(products) / len(products), math.sqrt(chance) / len(products)


def differs(rows: List[Row], errors: float) -> bool:
    if not rows:
        return False
    square, error = square_of(rows)
    return square - errors * error > LITTLE ** 2


class Finding:
    def __init__(self, kind: str, words: str, past: int = 0) -> None:
        self.kind, self.words, self.past = kind, words, past


def compared(rows: List[Row]) -> Finding:
    """The finding from log-probabilities."""
    longest = with_commas(rows[-1].length())
    if all(row.is_same for row in rows):
        return Finding('identical', 'identical to the bit to %s tokens: the setting has no effect there' % longest)
    is_different = differs(rows, SURE)
    tails = [k for k in range(1, len(rows) - 1) if differs(rows[k:], MORE_SURE)]
    square, error = square_of(rows)
    own = sum(row.own for row in rows) / len(rows)
    if not is_different and not tails:
        least = math.sqrt(max(square, 0) + SURE * error)
        return Finding('equal', 'equal within rounding to %s tokens: a server asked twice differs by %.4f nats, and '
                       'less than %.4f between the two would not show' % (longest, own, max(least, LITTLE)))
    apart = math.sqrt(max(square, 0))
    for k in reversed(range(FEWEST, len(rows))):
        if split_at(rows, k):
            there = math.sqrt(max(square_of(rows[k:])[0], 0))
            return Finding('past', 'differs only past %s tokens: by %.4f nats there' % (
                with_commas(rows[k - 1].length()), there), rows[k - 1].length())
    if is_different and differs(rows[:FEWEST], SURE) and square_of(rows[:FEWEST])[0] > (MUCH_LESS * apart) ** 2 / 2:
        tail = ': so little may be other arithmetic' if apart < OTHER_ARITHMETIC else ''
        return Finding('different', 'differs everywhere: by %.4f nats%s' % (apart, tail))
    return Finding('different', 'differs: by %.4f nats; whether short prompts do, too, cannot be told (more --prompts '
                   'would)' % apart)


def split_at(rows: List[Row], k: int) -> bool:
    """Whether the first k prompts are the same, and the others are not: the largest possible difference of the first is
    much smaller."""
    short, long = rows[:k], rows[k:]
    if not differs(long, SURE) or differs(short, SURE) or any(differs([row], SURE) for row in short):
        return False
    square, error = square_of(short)
    return square + 2 * error < HARDLY ** 2 * square_of(long)[0] and square_of(long[:1])[0] > square + 2 * error


def compared_words(rows: List[Row]) -> Finding:
    """The finding from greedy texts: one that differs may be rounding, half of them cannot be."""
    asked = [row for row in rows if not row.own]
    other = [row for row in asked if row.apart]
    if not asked:
        return Finding('unknown', 'cannot tell: neither server says the same twice')
    if not other:
        return Finding('equal', 'the same words to %s tokens: %d texts of %d tokens' % (
            with_commas(rows[-1].length()), len(asked), TEXT_TOKENS))
    told = '%d of %d texts are other words' % (len(other), len(asked))
    first = asked.index(other[0])
    if first and len(other) == len(asked) - first > 1:
        past = asked[first - 1].length()
        return Finding('past', 'differs only past %s tokens: %s' % (with_commas(past), told), past)
    if len(other) >= HALF * len(asked):
        return Finding('different', 'differs: %s' % told)
    return Finding('unknown', 'cannot tell: %s, which rounding may do' % told)


def missing(rows: List[Row]) -> Dict[Row, int]:
    """How many tokens more A counts of a prompt than B, if both count. If one server also counts a beginning, its
    length is subtracted, which is the difference of the shortest prompt."""
    found = {row: row.a.counted - row.b.counted for row in rows if None not in (row.a.counted, row.b.counted)}
    if not any(row.a.is_begun or row.b.is_begun for row in rows):
        return found
    first = next(iter(found.values()), 0)
    return {row: more - first if abs(more - first) > FEW else 0 for row, more in found.items()}


def shortfall(rows: List[Row]) -> Optional[Finding]:
    """Prompts that one server cuts or refuses."""
    more = missing(rows)
    for row in rows:
        a, b = row.a, row.b
        if a.refused or b.refused:
            who, why = ('both refuse', a.refused) if a.refused and b.refused else \
                ('A refuses', a.refused) if a.refused else ('B refuses', b.refused)
            return Finding('refused', '%s a prompt of %s tokens (%s)' % (who, with_commas(row.length()) if row.length()
                                                                       else 'unknown', why))
        if more.get(row):
            who, n, other = ('A', a.counted, b.counted) if more[row] < 0 else ('B', b.counted, a.counted)
            return Finding('cut', '%s cuts prompts at %s tokens: the other counts %s' % (
                who, with_commas(n), with_commas(other)))
    for before, row in zip(rows, rows[1:]):
        if row.a.counted is not None and row.a.counted <= (before.a.counted or 0):
            return Finding('cut', 'both cut prompts at %s tokens' % with_commas(row.a.counted))
    return None


# ---- the whole job ----

def does_not_turn(config: Optional[str]) -> str:
    """The part of config.json about full layers that do not rotate: no setting determines their long reach."""
    if not config:
        return ''
    try:
        with open(config, encoding='utf-8') as file:
            found = json.load(file)
    except OSError as error:
        raise Problem('%s: %s' % (config, error.strerror), 'file')
    except (ValueError, RecursionError):
        raise Problem('%s: no JSON' % config, 'file')
    found = found.get('text_config', found) if isinstance(found, dict) else {}
    kind = found.get('model_type')
    family = families.named(kind) if isinstance(kind, str) else None
    layers = family.layers if family else None
    if not (layers and layers.without_rope):
        return ''
    return '; config.json (%s) has layers without RoPE: settings have no effect on these' % kind


def as_expected(finding: Finding, expected: str) -> bool:
    kind, _, past = expected.partition(':')
    if kind == 'same':
        return finding.kind in ('identical', 'equal')
    if kind == 'different':
        return finding.kind in ('different', 'past', 'cut')
    return finding.kind == 'past' and finding.past <= int(past)


def check_expected(expected: Optional[str]) -> None:
    if expected is not None and not re.match(r'(same|different|different-past:[0-9]{1,9})$', expected):
        raise Problem("--expect: found '%.40s', expected same, different or different-past:N" % expected, 'usage')


REASONS = {'identical': 'identical', 'equal': 'equal', 'different': 'different', 'past': 'different-past', 'cut': 'cut',
           'refused': 'refused', 'unknown': 'unknown'}


def compare(server: Server, other: Optional[Server], options: Namespace, out: Report) -> int:
    """Runs the whole job. Returns the status."""
    check_expected(options.expect)
    texts = texts_of(options)
    asked = digest(texts, options)
    before = load(options.against, asked) if options.against else None
    said = ask_server(server, texts, options)
    if options.save:
        save(options.save, said, asked)
        out.last('%d prompts asked twice, kept in %s: --against it asks again and compares' % (
            len(texts), options.save))
        return out.end(YES, 'saved')
    a, b = (before, said) if before else (said, ask_server(other, texts, options))
    rows = [Row(x, y, len(text) // LETTERS) for x, y, text in zip(a, b, texts)]
    rows.sort(key=Row.length)
    found, more = shortfall(rows), missing(rows)
    whole = [row for row in rows if len(row.a.rounds) == len(row.b.rounds) == 2 and not more.get(row)]
    for row in whole:
        row.compare()
    if whole:
        by = compared_words(whole) if options.greedy else compared(whole)
        finding = by if found is None else Finding(found.kind, '%s; shorter ones: %s' % (found.words, by.words))
    else:
        finding = found or Finding('unknown', 'cannot tell: no prompt was answered by both')
    show(out, server, other, whole, options)
    return verdict(out, finding, options)


def show(out: Report, server: Server, other: Optional[Server], rows: List[Row], options: Namespace) -> None:
    out.note('a', options.against or server.root)
    out.note('b', other.root if other else server.root)
    if any(row.a.is_begun or row.b.is_begun for row in rows):
        out.note('counts', 'of tokens that the cache had not: each prompt was counted behind a beginning of its own')
    names = ['tokens', 'differs', 'twice'] if options.greedy else ['tokens', 'nats', 'se', 'twice', 'same']
    out.rows(names, [['%d' % row.length(), '%d' % row.apart, '%d' % row.own] if options.greedy else
                     ['%d' % row.length(), '%.5f' % row.apart, '%.5f' % row.se, '%.5f' % row.own,
                      '%d' % row.is_same] for row in rows])


def verdict(out: Report, finding: Finding, options: Namespace) -> int:
    words = finding.words
    if finding.kind in ('identical', 'equal'):
        words += does_not_turn(options.rope_config)
    is_unknown = finding.kind == 'unknown'
    if options.expect and not is_unknown and not as_expected(finding, options.expect):
        out.last('%s; expected %s' % (words, options.expect))
        return out.end(NO, REASONS[finding.kind])
    out.last(words)
    return out.end(UNDECIDED if is_unknown else YES, REASONS[finding.kind])
