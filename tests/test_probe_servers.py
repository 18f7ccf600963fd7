#!/usr/bin/env python3
"""server_probe.py --tasks, --cut and two servers, against servers that behave oddly: usage that counts nothing, empty
answers, thoughts that use up the answer, and more, in OpenAI's forms and ollama's, plain and with --chat. None may bring
about a yes or a no that is false."""

import hashlib
import re

from common import check, lacks, main
from fake_server import Fake, Refused
from probe_common import probe

PLACES = [(form, more) for form in ('llama', 'ollama') for more in ((), ('--chat',))]
TASKS = '--tasks', 'passkey', '-n', 1280, '--from', 320, '--trials', 1
CUT = '--cut', '-n', 2000
THOUGHTS = 'The user asks for a number. Let me look through the text again, and'


class Says:
    """What a server answers: `text`, `thoughts` beside it, whether its tokens were used up, and its counts."""

    def __init__(self, text, counted, made=5):
        self.text, self.thoughts, self.is_full, self.counted, self.made = text, '', False, counted, made
        self.has_choices = True


class Talker(Fake):
    """Answers by its behaviour: a function of what a good server says, the tokens of the prompt, the most tokens of the
    answer, and the server."""

    def __init__(self, form, behaviour):
        super().__init__(form)
        self.behaviour = behaviour

    def says(self, text, most):
        n = len(re.findall(r' ?[A-Za-z]+| ?[0-9]|[^\sA-Za-z0-9]|\s', text)) + 1
        known = self.continued(text)
        told = known if ' 1 and 2' not in known else ' ' + hashlib.md5(text.encode()).hexdigest()[:6]
        said = Says(told, n)
        self.behaviour(said, n, most, self)
        return said

    def openai(self, text, body, is_chat):
        said = self.says(text, body['max_tokens'])
        parts = {'content' if is_chat else 'text': said.text}
        if said.thoughts:
            parts['reasoning' if self.form == 'llama' else 'reasoning_content'] = said.thoughts
        choice = dict({'message': parts} if is_chat else parts, finish_reason='length' if said.is_full else 'stop')
        usage = {'prompt_tokens': said.counted, 'completion_tokens': said.made}
        return {'choices': [choice] if said.has_choices else [], 'usage': usage}

    def completions(self, body):
        return self.openai(body['prompt'], body, False)

    def chat(self, body):
        return self.openai(' '.join(message['content'] for message in body['messages']), body, True)

    def of_ollama(self, text, body):
        said = self.says(text, body['options']['num_predict'])
        found = {'prompt_eval_count': said.counted, 'eval_count': said.made,
                 'done_reason': 'length' if said.is_full else 'stop'}
        return said, {name: value for name, value in found.items() if value is not None}

    def ollama(self, body):
        said, found = self.of_ollama(body['prompt'], body)
        return dict(found, response=said.text, thinking=said.thoughts)

    def ollama_chat(self, body):
        said, found = self.of_ollama(' '.join(message['content'] for message in body['messages']), body)
        return dict(found, message={'role': 'assistant', 'content': said.text, 'thinking': said.thoughts})


# ---- behaviours: each changes what a good server says ----

def counting(count):
    """Usage that is another number."""
    def behave(said, n, most, server):
        said.counted = count(n)
    return behave


def empty(text='', past=700, made=0, is_full=False):
    """Nothing but `text` past some length, and a count of the whole prompt."""
    def behave(said, n, most, server):
        if n > past:
            said.text, said.made, said.is_full = text, made, is_full
    return behave


def no_choices(said, n, most, server):
    said.has_choices = n <= 700
    said.text = said.text if said.has_choices else None


def cutting(limit):
    """The beginning is lost, and what is hidden with it."""
    def behave(said, n, most, server):
        said.counted = min(n, limit)
        said.text = said.text if n <= limit else ' 1 and 2'
    return behave


def thinking(long, where='beside', past=0, short=0):
    """Thoughts of so many tokens before the answer, in texts past some length and in shorter ones."""
    def behave(said, n, most, server):
        need = long if n > past else short
        is_full = most < need
        if not need:
            return
        said.is_full, said.made = is_full, min(most, need + 5)
        answer = '' if is_full else said.text
        if where == 'beside':
            said.thoughts, said.text = THOUGHTS, answer
        elif where == 'hidden':
            said.text = answer
        elif where == 'unopened':  # the template opens them
            said.text = THOUGHTS + ('' if is_full else '</think>' + answer)
        else:
            said.text = where + THOUGHTS + ('' if is_full else where.replace('<', '</').replace('[', '[/') + answer)
    return behave


def without_room(limit):
    """Refuses prompt and answer that are longer together."""
    def behave(said, n, most, server):
        if n + most > limit:
            raise Refused(400, {'error': {'message': 'maximum context length is %d tokens' % limit}})
    return behave


def both(*behaviours):
    def behave(*what):
        for one in behaviours:
            one(*what)
    return behave


def good(said, n, most, server):
    pass


HOLDS, NOTHING_REFUSED = (0, 'holds to 1,280: prompts arrive whole'), (0, 'holds to 1,280: nothing is refused')
WHOLE, NO_COUNTS = (0, 'whole to '), (3, 'cannot tell: the server counts no tokens')
EMPTY, EMPTY_CUT = (1, 'answers are empty from 1,280 tokens on'), (1, 'answers are empty from 7')
USED_UP = 3, 'thoughts used up 2,048 tokens in 5 of 5 answers'

# Name, behaviour, and what --tasks and --cut must say of it: status and words of the last line.
SERVERS = [
    ('good', good, HOLDS, WHOLE),
    # usage that counts nothing
    ('zeros', counting(lambda n: 0), NOTHING_REFUSED, NO_COUNTS),
    ('always two', counting(lambda n: 2), NOTHING_REFUSED, NO_COUNTS),
    ('always the same', counting(lambda n: 4096), NOTHING_REFUSED, NO_COUNTS),
    ('no counts', counting(lambda n: None), NOTHING_REFUSED, NO_COUNTS),
    ('below zero', counting(lambda n: -1), NOTHING_REFUSED, NO_COUNTS),
    ('a fifth of the tokens', counting(lambda n: n // 5), HOLDS, WHOLE),
    ('letters', counting(lambda n: 4 * n), HOLDS, WHOLE),
    ('text for a count', counting(str), (2, ''), (2, '')),
    ('counts that are cut', cutting(700), (1, 'cut: asked 1,280'), (1, 'it cuts: whole to 6')),
    ('all cut to less than the shortest', cutting(60), (1, 'cut: asked '), (1, 'it cuts: whole to ')),
    # nothing is said past some length
    ('empty', empty(), EMPTY, EMPTY_CUT), ('null', empty(None), EMPTY, EMPTY_CUT),
    ('line ends', empty('\n\n \n'), EMPTY, EMPTY_CUT), ('a special token', empty('<|im_end|>'), EMPTY, EMPTY_CUT),
    ('empty and full', empty(is_full=True), EMPTY, EMPTY_CUT), ('no choices', no_choices, EMPTY, EMPTY_CUT),
    ('empty and uncounted', both(empty(), counting(lambda n: 0)), EMPTY, (1, 'taken to about ')),
    ('always empty', empty(past=0), (3, 'empty in the shortest texts, too'), (3, 'to the shortest texts are empty, too')),
    # thoughts
    ('short thoughts', thinking(200), HOLDS, WHOLE), ('long thoughts', thinking(1500), HOLDS, WHOLE),
    ('long thoughts of long texts', thinking(1500, past=700), HOLDS, WHOLE),
    ('endless thoughts', thinking(9999), USED_UP, WHOLE),
    ('endless thoughts of long texts', thinking(9999, past=700), USED_UP, WHOLE),
    ('an open tag', thinking(9999, '<think>', 700), USED_UP, WHOLE),
    ('another open tag', thinking(9999, '[THINK]', 700), USED_UP, WHOLE),
    ('a tag that closes', thinking(1500, '<think>', 700), HOLDS, WHOLE),
    ('thoughts that are not shown', thinking(1500, 'hidden'), HOLDS, WHOLE),
    ('endless ones that are not shown', thinking(9999, 'hidden', 700), USED_UP, WHOLE),
    ('long thoughts and zeros', both(thinking(1500), counting(lambda n: 0)), NOTHING_REFUSED, NO_COUNTS),
    ('no room for thoughts', both(without_room(1600), thinking(1500)), (3, 'thoughts used up '), None),
]
# With --chat alone: a plain prompt gets no thoughts that its own text opens, and few tokens.
CHATS = [
    ('no room for the tokens of a chat', without_room(1400), HOLDS, None),
    ('thoughts that the template opens', thinking(1500, 'unopened', 700, 100), HOLDS, None),
    ('endless ones', thinking(9999, 'unopened', 700, 100), USED_UP, None),
]


def ask(name, behaviour, form, more, door, expected):
    with Talker(form, behaviour) as server:
        told = probe(server.url, *door, *more, '--retries', 0)
        status, words = expected
        check(told.status == status and words in told.last, '%s: %s, %s %s' % (name, door[0], form, ' '.join(more)), told)


def test_servers():
    for name, behaviour, tasks, cut in SERVERS:
        for form, more in PLACES:
            ask(name, behaviour, form, more, TASKS, tasks)
            if cut:
                ask(name, behaviour, form, more, CUT, cut)


def test_chats():
    for name, behaviour, tasks, _ in CHATS:
        for form in 'llama', 'ollama':
            ask(name, behaviour, form, ('--chat',), TASKS, tasks)


if __name__ == '__main__':
    main({} if lacks('model-8k.bin') else globals())
