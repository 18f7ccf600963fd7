"""Asking a server for the likeliest next tokens: finding its form, and checking every number that it gives."""

import math

from .common import Problem, Unreachable, on_one_line, with_commas
from .forms import APIS, FORMS, SIGNS, Question

LEAST = -100   # log-probabilities below it stand for tokens that a sampler has removed
ROUNDED = 1e-3  # a log-probability may be so far above 0, and the sum of probabilities above 1
REFUSED = 401, 403


class Prompt:
    """The first `length` ids of a text, and the same as text where they end at a word's end, else None."""

    def __init__(self, ids, text=None):
        self.ids, self.length, self.text = ids, len(ids), text


class Refusal(Exception):
    """The server refuses one prompt, which others may pass."""


def model_of(server, served):
    """The name to ask for: --served, or the first that the server tells."""
    if served:
        return served
    answer = server.get('/v1/models')
    if answer.status in REFUSED:
        raise Problem('%s wants a key (%s): --key-env NAME' % (server.root, answer.told()))
    listed = (answer.data or {}).get('data')
    name = listed[0].get('id') if isinstance(listed, list) and listed and isinstance(listed[0], dict) else None
    return name if isinstance(name, str) else 'default'


def forms_to_try(server, api):
    """--api's form, or all of them, that of the server's sign first."""
    if api:
        return [form for form in FORMS if form.name == APIS[api]]
    for path, key, name in SIGNS:
        try:
            answer = server.get(path)
        except Unreachable:
            raise
        except Problem:  # a page of HTML: no sign
            continue
        if answer.status == 200 and key in answer.data:
            return sorted(FORMS, key=lambda form: form.name != name)
    return FORMS


def check_numbers(tokens):
    """Refuses what no softmax gives."""
    for token in tokens:
        if token.logprob is None or math.isnan(token.logprob) or token.logprob == math.inf:
            raise Problem('a log-probability is no number (found %s for %s)' % (token.logprob, token.spelled()))
        if token.logprob > ROUNDED:
            raise Problem('a log-probability is above 0 (found %g for %s)' % (token.logprob, token.spelled()))
    total = sum(math.exp(token.logprob) for token in tokens)
    if total > 1 + 100 * ROUNDED:
        raise Problem('the probabilities of %d tokens add up to %.3f (expected at most 1)' % (len(tokens), total))


class Interview:
    """A server that is asked by one form, the first that works."""

    def __init__(self, server, vocabulary, options):
        self.server, self.vocabulary = server, vocabulary
        self.top, self.greedy, self.words = options.top, options.greedy, options.words
        self.model = model_of(server, options.served)
        self.forms = forms_to_try(server, options.api)
        self.way = None   # (form, body, top, as text, sampled), once one has worked
        self.told = None  # why an answer was no use, of all the one that says most
        self.silent = False  # a token came, and no log-probabilities with it

    def ask(self, prompt):
        """{id: log-probability}, or with --greedy the set of ids that the token may be; and the count of tokens."""
        ways = [self.way] if self.way else self.ways(prompt)
        for way in ways:
            found = self.ask_by(way, prompt)
            if found:
                self.way = way
                return found
        if self.silent:
            raise Problem('the server gives no log-probabilities of other tokens than the one that it chose (--greedy '
                          'judges by that one alone)')
        raise Refusal('of %s tokens (%s)' % (with_commas(prompt.length), self.told))

    def ways(self, prompt):
        """All that may work: ids before text, all tokens that are wanted before fewer."""
        for form in self.forms:
            for as_text in (False, True):
                if (as_text and prompt.text is None) or not (as_text or form.takes_ids and not self.words):
                    continue
                for body in form.bodies:
                    tops = (self.top,) + tuple(t for t in form.tops if t < self.top)
                    yield from ((form, body, top, as_text, False) for top in tops)
                    yield (form, body, self.top, as_text, True)

    def ask_by(self, way, prompt):
        form, body, top, as_text, sampled = way
        if as_text and prompt.text is None:
            raise Problem('the text has no word that ends at %d tokens' % prompt.length)
        question = Question(self.model, prompt.text if as_text else prompt.ids, top, sampled)
        answer = self.server.post(form.path, body(question))
        if answer.status in REFUSED:
            raise Problem('%s refuses the key, or wants one (%s): --key-env NAME' % (self.server.root, answer.told()))
        if answer.status != 200:
            if self.told is None or answer.status not in (404, 405):
                self.told = answer.told()
            return None
        try:
            reply = form.read(answer.data)
        except Problem as problem:
            if self.way or len(self.forms) == 1:
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

    def chosen(self, reply):
        if reply.chosen is None:
            self.told = 'no token came'
            return None
        if reply.chosen.id is not None:
            return {reply.chosen.id}, reply.counted
        return set(self.vocabulary.all_of(reply.chosen.text or '')), reply.counted

    def known(self, tokens):
        """Our ids of the tokens. Those that share a text, or that we cannot tell, are left out."""
        found, lost = {}, 0
        for token in tokens:
            id = token.id
            if id is not None and not 0 <= id < len(self.vocabulary):
                raise Problem('the server has a token %d, and the model has %d tokens: another model or tokenizer'
                              % (id, len(self.vocabulary)))
            if id is None:
                id = self.vocabulary.id_of(token.text or '', token.data)
            if id is None or id in found:
                lost += 1
            else:
                found[id] = token.logprob
        if len(found) < 2 or lost > len(found):
            raise Problem('of %d tokens of the server (%s) the vocabulary has %d: another tokenizer'
                          % (len(tokens), ', '.join(on_one_line(t.spelled(), 20) for t in tokens[:3]), len(found)))
        return found
