"""Asks a server for the likeliest next tokens: finds the form that it understands, and checks every number in its
answers."""

from __future__ import annotations

import math
import random
from argparse import Namespace
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from ..common import Problem, Unreachable, on_one_line, with_commas
from .forms import APIS, FORMS, SIGNS, Form, Question, Reply, Token, completions
from .vocabulary import Vocabulary
from .web import BUSY, PASSING, Answer, Server

LEAST = -100   # log-probabilities below it mark tokens that a sampler has removed
ROUNDED = 1e-3  # rounding: a log-probability may exceed 0, and a sum of probabilities 1, by this much
REFUSED = 401, 403
LITTLE = 'Hello.'  # a text of so few tokens that every server counts fewer of it than of the prompts

Way = Tuple[Form, Callable[..., Dict[str, Any]], int, bool, bool]  # form, body, top, as text, sampled
Found = Tuple[Any, Optional[int]]  # the result of ask()


class Prompt:
    """The first `length` ids of a text, and the same as text if they end at a word's end, else None."""

    def __init__(self, ids: List[int], text: Optional[str] = None) -> None:
        self.ids, self.length, self.text = ids, len(ids), text


class Refusal(Exception):
    """The server refuses one prompt; others may pass. has_failed: it gave no reason, only a status of 500 and above,
    after all tries."""

    def __init__(self, length: int, told: Optional[str], status: Optional[int]) -> None:
        super().__init__('of %s tokens (%s)' % (with_commas(length), told))
        self.has_failed = bool(status) and status >= 500

    def verb(self) -> str:
        return 'fails at' if self.has_failed else 'refuses'


def listed_model(server: Server) -> Dict[str, Any]:
    """The first model in the server's list, or {} if it has none."""
    answer = server.get('/v1/models')
    if answer.status in REFUSED:
        raise Problem('%s requires a key (%s): --key-env NAME' % (server.root, answer.told()), 'key')
    listed = (answer.data or {}).get('data')
    return listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], dict) else {}


def model_of(server: Server, served: Optional[str]) -> str:
    """The name of the model in requests: --served, or the first in the server's list."""
    if served:
        return served
    name = listed_model(server).get('id')
    return name if isinstance(name, str) else 'default'


def tokens_of(server: Server) -> Optional[int]:
    """The number of tokens in the server's vocabulary (llama.cpp reports it), or None."""
    meta = listed_model(server).get('meta')
    count = meta.get('n_vocab') if isinstance(meta, dict) else None
    return count if isinstance(count, int) and count > 0 else None


def forms_to_try(server: Server, api: Optional[str]) -> List[Form]:
    """--api's form, or all forms, beginning with the one that the server's sign indicates."""
    if api:
        return [form for form in FORMS if form.name == APIS[api]]
    for path, key, name in SIGNS:
        try:
            answer = server.get(path)
        except Unreachable:
            raise
        except Problem:  # a page of HTML is not a sign
            continue
        if answer.status == 200 and key in answer.data:
            return sorted(FORMS, key=lambda form: form.name != name)
    return FORMS


def say_nothing(counts: Sequence[Optional[int]], count: Callable[[str], Optional[int]]) -> bool:
    """Whether a server's counts of prompts of several lengths are useless: missing, zero, or all the same. count: its
    count of a text. If it counts fewer tokens of a few letters, the prompts were all cut to the same length."""
    if not all(counted is not None and counted > 0 for counted in counts):
        return True
    return len(set(counts)) == 1 and count(LITTLE) in (None, counts[0])


def quoted(spelled):
    return on_one_line(repr(spelled.decode('utf-8', 'replace')), 40)


def check_numbers(tokens):
    """Refuses numbers that cannot come from a softmax."""
    for token in tokens:
        if token.logprob is None or math.isnan(token.logprob) or token.logprob == math.inf:
            raise Problem('a log-probability is not a number (found %s for %s)' % (token.logprob, token.spelled()))
        if token.logprob > ROUNDED:
            raise Problem('a log-probability is above 0 (found %g for %s)' % (token.logprob, token.spelled()))
    total = sum(math.exp(token.logprob) for token in tokens)
    if total > 1 + 100 * ROUNDED:
        raise Problem('the probabilities of %d tokens add up to %.3f (expected at most 1)' % (len(tokens), total))


class Interview:
    """A server and the first form of questions that works with it.

    Ids of a larger vocabulary than the server's have killed servers. So the first question is a short text, `trial`,
    and ids, of which `highest` is the largest, are sent only where the server counts its tokens as we do."""

    def __init__(self, server: Server, vocabulary: Optional[Vocabulary], options: Namespace) -> None:
        self.server, self.vocabulary = server, vocabulary
        self.trial, self.highest = Prompt([]), 0  # see begin()
        self.top, self.greedy, self.words, self.retries = options.top, options.greedy, options.words, options.retries
        self.model = model_of(server, options.served)
        self.forms = forms_to_try(server, options.api)
        self.way: Optional[Way] = None  # set once a form has worked
        self.told: Optional[str] = None  # the reason why an answer was useless; the most informative one
        self.status: Optional[int] = None  # the status of that answer
        self.failed: Optional[str] = None  # the message with a status of 500 and above, when log-probabilities were
                                           # asked for
        self.silent = False  # a token came, but no log-probabilities
        self.counts_new: Optional[bool] = None  # whether counts leave out tokens in the server's cache; None: not
                                                # tested

    def begin(self, trial: Prompt, highest: int) -> None:
        self.trial, self.highest = trial, highest
        self.find_way()

    def count_of(self, text: str) -> Optional[int]:
        """The server's count of a text, None if it gives none."""
        form, body, top, _, sampled = self.way
        found = self.ask_by((form, body, top, True, sampled), Prompt([], text), may_fail=True)
        return found[1] if found else None

    def counts_what_is_new(self) -> bool:
        """Whether the server counts only the tokens that its cache did not have, as ollama does since June 2026: the
        count of the short text is then too small when it is asked again, but not after another beginning."""
        if self.counts_new is None and self.way and self.trial.text is not None:
            form, body, top, _, sampled = self.way
            for _ in range(2):  # the server may have read ids last
                again = self.ask_by((form, body, top, True, sampled), self.trial, may_fail=True)
            anew = self.count_anew(self.trial)
            is_less = bool(again) and again[1] is not None and again[1] < self.trial.length - 1
            self.counts_new = is_less and anew is not None and anew >= self.trial.length
        return bool(self.counts_new)

    def count_anew(self, prompt: Prompt) -> Optional[int]:
        """The server's count of a prompt after a beginning that cannot be in its cache; None: not asked."""
        if prompt.text is None or not self.way:
            return None
        form, body, top, _, sampled = self.way
        begun = Prompt(prompt.ids, 'No. %d. %s' % (random.randrange(10 ** 6, 10 ** 7), prompt.text))
        found = self.ask_by((form, body, top, True, sampled), begun, may_fail=True)
        return found[1] if found else None

    def ask(self, prompt: Prompt) -> Found:
        """{id: log-probability}, or with --greedy the set of possible ids of the token; and the count of tokens. Call
        it after begin()."""
        self.told = self.status = None
        found = self.ask_by(self.way, prompt)
        if found:
            return found
        raise Refusal(prompt.length, self.told or 'its answer has no log-probabilities', self.status)

    def find_way(self) -> None:
        """Finds the first way in which the short text is answered; then tries the same with ids, if they are safe."""
        counted = None
        for way in self.ways():
            found = self.ask_by(way, self.trial)
            if found:
                self.way, counted = way, found[1]
                break
        if self.way is None and self.silent:
            raise Problem(self.why_silent(), 'no-logprobs')
        if self.way is None:
            raise Refusal(self.trial.length, self.told, self.status)
        form, body, top, _, sampled = self.way
        if form.takes_ids and not self.words and self.is_safe(counted):
            with_ids = form, body, top, False, sampled
            if self.ask_by(with_ids, self.trial, may_fail=True):
                self.way = with_ids

    def is_safe(self, counted: Optional[int]) -> bool:
        """Whether ids may be sent: the short text has as many tokens there as here, apart from BOS, and the server has
        as many tokens."""
        if counted is None or abs(counted - self.trial.length) > 1:
            return False
        there = tokens_of(self.server)
        return there is None or there > self.highest

    def why_silent(self) -> str:
        words = 'the server gives no log-probabilities of other tokens than the one that it chose'
        if self.failed:
            return '%s: asked for them, it answers with %s' % (words, self.failed)
        return words + ' (--greedy needs only that one)'

    def ways(self) -> Iterator[Way]:
        """All possible ways with text: first with all wanted tokens, then with fewer."""
        for form in self.forms:
            for body in form.bodies:
                tops = (self.top,) + tuple(t for t in form.tops if t < self.top)
                yield from ((form, body, top, True, False) for top in tops)
                yield (form, body, self.top, True, True)

    def ask_by(self, way: Way, prompt: Prompt, may_fail: bool = False) -> Optional[Found]:
        """The result of ask(), or None. may_fail: also None for an answer that does not fit this form."""
        form, body, top, as_text, sampled = way
        if as_text and prompt.text is None:
            raise Problem('the text has no word that ends at %d tokens (-f: a text of words between spaces)'
                          % prompt.length, 'file')
        question = Question(self.model, prompt.text if as_text else prompt.ids, top, sampled)
        answer = self.server.post_again(form.path, body(question), self.retries, PASSING if self.way else BUSY)
        if answer.status in REFUSED:
            raise Problem('%s refuses the key, or requires one (%s): --key-env NAME' % (
                self.server.root, answer.told()), 'key')
        if self.way and answer.status in BUSY:
            raise Unreachable('the server is busy (%s)' % answer.told())
        if answer.status != 200:
            self.note_failure(answer, asks_for_top=body is not completions)
            return None
        try:
            reply = form.read(answer.data)
        except Problem as problem:
            if (self.way or len(self.forms) == 1) and not may_fail:
                raise
            self.told = self.told or str(problem)
            return None
        if self.greedy:
            return self.chosen(reply)
        tokens = [t for t in reply.top if t.logprob is None or not t.logprob <= LEAST]
        if len(tokens) < 2:
            self.silent = True
            return None
        check_numbers(tokens)
        return self.known(tokens), reply.counted

    def note_failure(self, answer: Answer, asks_for_top: bool) -> None:
        if self.told is None or answer.status not in (404, 405):
            self.told, self.status = answer.told(), answer.status
        if answer.status >= 500 and asks_for_top:
            self.failed = answer.told()

    def chosen(self, reply: Reply) -> Optional[Found]:
        if reply.chosen is None:
            self.told = 'no token came'
            return None
        if reply.chosen.id is not None:
            return {reply.chosen.id}, reply.counted
        return set(self.vocabulary.all_of(reply.chosen.text or '')), reply.counted

    def check_spelling(self, tokens: List[Token]) -> None:
        """Refuses ids most of which have other bytes here: only special tokens may be spelled differently."""
        spelled = self.vocabulary.spelled
        others = [t for t in tokens if not 0 <= t.id < len(spelled) or spelled[t.id] != t.data]
        if 2 * len(others) > len(tokens) and 0 <= others[0].id < len(spelled):
            raise Problem('token %d is %s in the server, and %s in the model: another tokenizer' % (
                others[0].id, quoted(others[0].data), quoted(spelled[others[0].id])), 'tokenizer')

    def known(self, tokens: List[Token]) -> Dict[int, float]:
        """Our ids of the tokens. Tokens that share a text, or that cannot be identified, are left out."""
        found, lost = {}, 0
        self.check_spelling([token for token in tokens if token.id is not None and token.data])
        for token in tokens:
            id = token.id
            if id is not None and not 0 <= id < len(self.vocabulary):
                raise Problem('the server has a token %d, and the model has %d tokens: another model or tokenizer'
                              % (id, len(self.vocabulary)), 'tokenizer')
            if id is None:
                id = self.vocabulary.id_of(token.text or '', token.data)
            if id is None or id in found:
                lost += 1
            else:
                found[id] = token.logprob
        if len(found) < 2 or lost > len(found):
            raise Problem('of %d tokens of the server (%s) the vocabulary has %d: another tokenizer'
                          % (len(tokens), ', '.join(on_one_line(t.spelled(), 20) for t in tokens[:3]), len(found)),
                          'tokenizer')
        return found
