"""Asks a server for texts, and for its count of a prompt's tokens, whatever it has in its cache."""

from __future__ import annotations

import itertools
import random
import time

from ..asking.asking import REFUSED, forms_to_try, model_of
from ..asking.web import pause
from ..common import Problem, Unreachable, on_one_line

CHAT_ANSWER = 256   # tokens that a chat's answer may take, where a model may think first
HALF = 0.5          # of a prompt's count: asked again, a server that counts new tokens alone counts fewer
LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'


class Beginnings:
    """Puts a beginning before a prompt that no other one has: of as many tokens each, in any tokenizer."""

    def __init__(self):
        self.numbers = itertools.count(random.randrange(len(LETTERS) ** 4))

    def __call__(self, prompt):
        number = next(self.numbers)
        letters = ' '.join(LETTERS[number // len(LETTERS) ** i % len(LETTERS)] for i in range(4))
        if isinstance(prompt, list):
            return [dict(prompt[0], content='%s. %s' % (letters, prompt[0]['content']))] + prompt[1:]
        return '%s. %s' % (letters, prompt)


def counts_what_is_new(count, begun, prompt):
    """Whether count(text), by a server, leaves out what its cache has: asked again, the same prompt is fewer tokens
    than with another beginning."""
    counts = [count(text) for text in (begun(prompt), prompt, prompt, begun(prompt))]
    return None not in counts and counts[2] < HALF * counts[3]


class Asker:
    """Asks a server for texts, in OpenAI's forms or ollama's own.

    Some servers count only the tokens that their cache did not have (ollama since June 2026). To these each counted
    prompt has a beginning of its own, so that nothing but BOS and a template comes from the cache."""

    def __init__(self, server, options):
        self.server, self.chat, self.retries = server, options.chat, options.retries
        self.counts_new, self.begun = False, Beginnings()
        self.model = model_of(server, options.served)
        self.is_ollama = forms_to_try(server, options.api)[0].name == 'ollama'

    def body(self, prompt, most):
        most = max(most, CHAT_ANSWER) if self.chat and most > 1 else most
        messages = prompt if isinstance(prompt, list) else [{'role': 'user', 'content': prompt}]
        said = {'messages': messages} if self.chat else {'prompt': prompt}
        if not self.is_ollama:
            path = '/v1/chat/completions' if self.chat else '/v1/completions'
            return path, dict(said, model=self.model, max_tokens=most, temperature=0)
        said = dict(said, model=self.model, stream=False, options={'temperature': 0, 'num_predict': most})
        return ('/api/chat', said) if self.chat else ('/api/generate', dict(said, raw=True))

    def read(self, data):
        """The text, and the count of the prompt's tokens or None."""
        try:
            if self.is_ollama:
                return (data['message']['content'] if self.chat else data['response']), data.get('prompt_eval_count')
            choice = data['choices'][0]
            text = choice['message'].get('content') if self.chat else choice['text']
            counted = (data.get('usage') or {}).get('prompt_tokens')
        except (KeyError, IndexError, TypeError, AttributeError):
            raise Problem('the answer has no text (found %s)' % on_one_line(data, 80))
        if not isinstance(text or '', str) or not isinstance(counted, (int, type(None))):
            raise Problem('the answer has another form (found %s)' % on_one_line(data, 80))
        return text or '', counted

    def find_counting(self, prompt):
        self.counts_new = counts_what_is_new(lambda text: self.ask(text, 1)[1], self.begun, prompt)

    def counted_form(self, prompt):
        """A prompt whose tokens the server counts all."""
        return self.begun(prompt) if self.counts_new else prompt

    def ask(self, prompt, most):
        """(text, count, seconds, None), or (None, None, seconds, the failure)."""
        path, body = self.body(prompt, most)
        for tried in range(self.retries + 1):
            began = time.time()
            try:
                answer = self.server.post_again(path, body, self.retries - tried)
            except Unreachable:
                if tried == self.retries:
                    raise
                pause(tried)
                continue
            if answer.status in REFUSED:
                raise Problem('%s refuses the key, or requires one (%s): --key-env NAME' % (self.server.root,
                                                                                        answer.told()), 'key')
            if answer.status == 200:
                return self.read(answer.data) + (time.time() - began, None)
            return None, None, time.time() - began, answer
