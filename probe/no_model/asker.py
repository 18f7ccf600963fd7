"""Asks a server for texts, and for its count of a prompt's tokens, regardless of its cache."""

from __future__ import annotations

import itertools
import random
import time

from ..asking.asking import REFUSED, forms_to_try, model_of, say_nothing
from ..asking.web import BUSY, Failure, pause
from ..common import Problem, Unreachable
from .said import Said, read_said

CHAT_ANSWER = 256   # tokens of a chat's answer at first; more are asked for if thoughts use them up
TOO_MUCH = 400, 413, 422  # statuses of a server without room for the prompt and an answer of this length
FEW = 3             # tokens by which the count of a longer text may be smaller: numbers have other tokens
FAILING = 500,      # the status of a failure that may be temporary; busy servers are asked again anyway
HALF = 0.5          # of a prompt's count: a server that only counts new tokens counts fewer the second time
LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'


class Beginnings:
    """Puts a unique beginning before a prompt: all have the same number of tokens, in any tokenizer."""

    def __init__(self):
        self.numbers = itertools.count(random.randrange(len(LETTERS) ** 4))

    def __call__(self, prompt):
        number = next(self.numbers)
        letters = ' '.join(LETTERS[number // len(LETTERS) ** i % len(LETTERS)] for i in range(4))
        if isinstance(prompt, list):
            return [dict(prompt[0], content='%s. %s' % (letters, prompt[0]['content']))] + prompt[1:]
        return '%s. %s' % (letters, prompt)


def counts_what_is_new(count, begun, prompt):
    """Whether count(text), a server's count, leaves out tokens in its cache: the same prompt then has fewer tokens when
    it is repeated than with another beginning."""
    counts = [count(text) for text in (begun(prompt), prompt, prompt, begun(prompt))]
    return None not in counts and counts[2] < HALF * counts[3]


class Asker:
    """Asks a server for texts, in OpenAI's forms or ollama's own.

    Some servers count only the tokens that their cache did not have (ollama since June 2026). For these, each
    counted prompt gets its own beginning, so that only BOS and a template come from the cache."""

    def __init__(self, server, options):
        self.server, self.chat, self.retries = server, options.chat, options.retries
        self.longest = options.answer_tokens
        self.has_answered = False  # an unreadable answer is then a failure of its prompt
        self.babbles = False  # whether an answer did not end within its tokens, without thoughts
        self.thinks = None  # whether the model thinks before it answers; None: not known yet
        self.counts_new, self.begun = False, Beginnings()
        self.model = model_of(server, options.served)
        self.is_ollama = forms_to_try(server, options.api)[0].name == 'ollama'

    def body(self, prompt, most):
        messages = prompt if isinstance(prompt, list) else [{'role': 'user', 'content': prompt}]
        said = {'messages': messages} if self.chat else {'prompt': prompt}
        if not self.is_ollama:
            path = '/v1/chat/completions' if self.chat else '/v1/completions'
            return path, dict(said, model=self.model, max_tokens=most, temperature=0, stream=False)
        said = dict(said, model=self.model, stream=False, options={'temperature': 0, 'num_predict': most})
        return ('/api/chat', said) if self.chat else ('/api/generate', dict(said, raw=True))

    def find_counting(self, prompt):
        self.counts_new = counts_what_is_new(lambda text: self.ask(text, 1).counted, self.begun, prompt)

    def counted_form(self, prompt):
        """A form of the prompt all of whose tokens the server counts."""
        return self.begun(prompt) if self.counts_new else prompt

    def are_counts(self, counts):
        """Whether the counts of texts, shortest first, are useful: they must grow with the texts."""
        if say_nothing(counts, lambda text: self.ask(text, 1).counted):
            return False
        return all(later >= earlier - FEW for earlier, later in zip(counts, counts[1:]))

    def ask(self, prompt, most):
        """The answer to one question, of up to `most` tokens."""
        path, body = self.body(prompt, most)
        for tried in range(self.retries + 1):
            began = time.time()
            try:
                said = self.said(self.server.post_again(path, body, self.retries - tried, FAILING))
                break
            except Problem as problem:
                may_pass = isinstance(problem, Unreachable) or self.has_answered and problem.reason == 'answer'
                if tried < self.retries and may_pass:
                    pause(tried)
                elif self.has_answered and problem.reason == 'answer':
                    said = Said(refused=Failure(500, words=str(problem)))
                else:
                    raise
        said.seconds, said.most = time.time() - began, most
        return said.without_echo(prompt[-1]['content'] if isinstance(prompt, list) else prompt)

    def said(self, answer):
        if answer.status in REFUSED:
            raise Problem('%s refuses the key, or requires one (%s): --key-env NAME' % (self.server.root,
                                                                                    answer.told()), 'key')
        if answer.status in BUSY:
            raise Unreachable('the server is busy (%s)' % answer.told())
        if answer.status != 200:
            return Said(refused=answer)
        found = read_said(answer.data, self.is_ollama, self.chat)
        self.has_answered = True
        return found

    def answer(self, prompt, most):
        """The answer to a question that needs up to `most` tokens. A chat may use more, and thoughts as many as
        --answer-tokens: if they use up fewer, the question is asked again. If a server refuses so many, fewer are
        asked for, so that a refusal means that the prompt does not fit."""
        usual = max(most, min(CHAT_ANSWER, self.longest)) if self.chat else most
        longest = max(usual, self.longest)
        said = self.ask_down(prompt, [longest, usual, most] if self.thinks else [usual, most])
        may_think = self.is_unfinished(said) or self.chat and said.is_full and not said.is_blank() and not self.babbles
        if said.most == usual and usual < longest and may_think:
            more = self.ask(prompt, longest)
            self.babbles = more.is_full and not more.has_thoughts()
            more.seconds += said.seconds
            said = said if more.refused else more
        if said.has_thoughts():
            self.thinks = True
        elif self.thinks is None and not said.refused and not (said.is_full and said.most < longest):
            self.thinks = False
        return said

    def ask_down(self, prompt, sizes):
        said, seconds = None, 0.0
        for most in sorted(set(sizes), reverse=True):
            said = self.ask(prompt, most)
            seconds += said.seconds
            if not said.refused or said.refused.status not in TOO_MUCH:
                break
        said.seconds = seconds
        return said

    def is_unfinished(self, said):
        """Whether an answer is missing because thoughts, shown or hidden, used up its tokens, judging from the answer,
        or from the server's other answers."""
        if said.is_thinking():
            return True
        if said.refused or not said.is_full or self.thinks is False:
            return False
        return self.chat and not said.has_ended_thoughts() if said.text.strip() else said.hides_thoughts() is None
