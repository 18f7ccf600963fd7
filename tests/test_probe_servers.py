#!/usr/bin/env python3
"""server_probe.py --tasks, --cut and two servers, against servers that behave oddly: usage that counts nothing, empty
answers, thoughts that use up the answer, and more, in OpenAI's forms and ollama's, plain and with --chat. None may bring
about a yes or a no that is false."""

import hashlib
import json
import math
import re

from common import ROOT, check, good, lacks, main, takes_long
from fake_server import MODEL, Fake, Refused
from probe_common import SMALL, probe

PLACES = [(form, more) for form in ('llama', 'ollama') for more in ((), ('--chat',))]
TASKS = '--tasks', 'passkey', '-n', 1280, '--from', 640, '--trials', 1
CUT = '--cut', '-n', 2000
THOUGHTS = 'The user asks for a number. Let me look through the text again, and'


class Says:
    """A server's answer: `text`, `thoughts` beside it, whether its tokens were used up, and its counts."""

    def __init__(self, text, counted, made=5):
        self.text, self.thoughts, self.is_full, self.counted, self.made = text, '', False, counted, made
        self.has_choices = True


class Talker(Fake):
    """Answers by its behaviour: a function of a good server's answer, the tokens of the prompt, the most tokens of the
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


# ---- behaviours: each changes a good server's answer ----

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
    """The beginning is lost, with the number hidden in it."""
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


def as_usual(said, n, most, server):
    pass


def last_turn(said, n, most, server):
    """In a chat the text is in a turn before the last one."""
    said.counted = n if 'messages' not in server.bodies[-1] else 12


def echoing(right):
    """The prompt comes back before the answer."""
    def behave(said, n, most, server):
        body = server.bodies[-1]
        asked = body.get('prompt') or ' '.join(message['content'] for message in body['messages'])
        said.text = asked + (said.text if right else ' something.')
    return behave


def refusing(status, past=700):
    def behave(said, n, most, server):
        if n > past:
            raise Refused(status, {'error': {'message': 'no'}})
    return behave


def in_place(words, past=700):
    """Words of an error in place of an answer."""
    def behave(said, n, most, server):
        said.text = words if n > past else said.text
    return behave


def uncounted(said, n, most, server):
    said.counted = n if n < 700 else None


HOLDS, NOTHING_REFUSED = (0, 'holds to 1,280: prompts arrive whole'), (0, 'holds to 1,280: nothing is refused')
WHOLE, NO_COUNTS = (0, 'whole to '), (3, 'cannot tell: the server counts no tokens')
EMPTY, EMPTY_CUT = (1, 'answers are empty from 1,280 tokens on'), (1, 'answers are empty from 7')
USED_UP, USED_UP_CUT = (3, 'thoughts used up 2,048 tokens in 5 of 5 answers'), (3, 'thoughts used up the 2,048 tokens')

# Name, behaviour, and the expected result of --tasks and --cut: status and words of the last line.
SERVERS = [
    ('good', as_usual, HOLDS, WHOLE),
    # usage that counts nothing
    ('zeros', counting(lambda n: 0), NOTHING_REFUSED, NO_COUNTS),
    ('always two', counting(lambda n: 2), NOTHING_REFUSED, NO_COUNTS),
    ('always the same', counting(lambda n: 4096), NOTHING_REFUSED, NO_COUNTS),
    ('no counts', counting(lambda n: None), NOTHING_REFUSED, NO_COUNTS),
    ('below zero', counting(lambda n: -1), NOTHING_REFUSED, NO_COUNTS),
    ('a fifth of the tokens', counting(lambda n: n // 5), HOLDS, WHOLE),
    ('letters', counting(lambda n: 4 * n), HOLDS, WHOLE),
    ('text for a count', counting(str), (2, 'the answer has another form'), (2, 'the answer has another form')),
    ('about the tokens', counting(lambda n: n + n * 7 % 11 - 5), HOLDS, WHOLE),
    ('counts that are cut', cutting(700), (1, 'cut: asked 1,280'), (1, 'it cuts: whole to 6')),
    ('all cut to less than the shortest', cutting(60), (1, 'cut: asked '), (1, 'it cuts: whole to ')),
    # nothing is said past some length
    ('empty', empty(), EMPTY, EMPTY_CUT), ('null', empty(None), EMPTY, EMPTY_CUT),
    ('line ends', empty('\n\n \n'), EMPTY, EMPTY_CUT), ('a special token', empty('<|im_end|>'), EMPTY, EMPTY_CUT),
    ('empty and full', empty(is_full=True), EMPTY, EMPTY_CUT), ('no choices', no_choices, EMPTY, EMPTY_CUT),
    ('empty and uncounted', both(empty(), counting(lambda n: 0)), EMPTY, (1, 'taken to about ')),
    ('always empty', empty(past=0), (3, 'also empty in the shortest texts'), (3, 'to the shortest texts are also empty')),
    ('a count that stops', counting(lambda n: min(n, 700)), NOTHING_REFUSED, (1, 'it cuts')),
    ('no counts of long texts', uncounted, NOTHING_REFUSED, (3, 'the server does not count texts of')),
    # refusals, failures, and servers that are busy
    *[('status %d' % status, refusing(status), (1, 'refused: asked 1,280 (status %d' % status),
       (1, 'it refuses 7')) for status in (400, 413, 422)],
    ('status 500', refusing(500), (1, 'failed: asked 1,280 (status 500'), (1, 'it fails at 7')),
    *[('status %d' % status, refusing(status), (2, 'unfinished: 10 of 15'), (2, 'unfinished: whole to '))
      for status in (429, 503, 504)],
    # answers that are none, or the prompt once more
    ('an error in place of an answer', in_place('Error: too long.'), (1, 'accuracy 0.000, and 1.000 at 512'),
     (3, 'it says the same, whatever their end')),
    ('an echo', echoing(True), HOLDS, WHOLE), ('nothing but an echo', echoing(False), (3, 'accuracy 0.000'), WHOLE),
    # thoughts
    ('short thoughts', thinking(200), HOLDS, WHOLE), ('long thoughts', thinking(1500), HOLDS, WHOLE),
    ('long thoughts of long texts', thinking(1500, past=700), HOLDS, WHOLE),
    ('endless thoughts', thinking(9999), USED_UP, USED_UP_CUT),
    ('endless thoughts of long texts', thinking(9999, past=700), USED_UP, USED_UP_CUT),
    ('an open tag', thinking(9999, '<think>', 700), USED_UP, USED_UP_CUT),
    ('another open tag', thinking(9999, '[THINK]', 700), USED_UP, USED_UP_CUT),
    ('a tag that closes', thinking(1500, '<think>', 700), HOLDS, WHOLE),
    ('thoughts that are not shown', thinking(1500, 'hidden'), HOLDS, WHOLE),
    ('endless ones that are not shown', thinking(9999, 'hidden', 700), USED_UP, USED_UP_CUT),
    ('long thoughts and zeros', both(thinking(1500), counting(lambda n: 0)), NOTHING_REFUSED, NO_COUNTS),
    ('no room for thoughts', both(without_room(1600), thinking(1500)), (3, 'thoughts used up '), None),
]
# With --chat alone: a plain prompt gets no thoughts that its own text opens, and few tokens.
CHATS = [
    ('a count of the last turn alone', last_turn, NOTHING_REFUSED, None),
    ('no room for the tokens of a chat', without_room(1400), HOLDS, None),
    ('thoughts that the template opens', thinking(1500, 'unopened', 700, 100), HOLDS, None),
    ('endless ones', thinking(9999, 'unopened', 700, 100), USED_UP, None),
]


def ask(name, behaviour, form, more, door, expected):
    with Talker(form, behaviour) as server:
        told = probe(server.url, *door, *more, '--retries', 0)
        status, words = expected
        said = told.last or told.err
        check(told.status == status and words in said, '%s: %s, %s %s' % (name, door[0], form, ' '.join(more)), told)


@takes_long
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


# ---- which reading: of a prompt of 60 tokens and more ----

class Odd(Fake):
    """Changes a good server's answer, by a function of the answer, the tokens of the prompt, and the server."""

    def __init__(self, form, change):
        super().__init__(form)
        self.change = change

    def ids_of(self, prompt):
        found = super().ids_of(prompt)
        self.n = len(found[0] or ())
        return found

    def completions(self, body):
        return self.change(super().completions(body), self.n, self)

    def ollama(self, body):
        return self.change(super().ollama(body), self.n, self)

    def top(self, ids, n):
        wrong = self.change == breaking and len(ids) > 60
        self.hidden = ('--rope', 'linear', '--factor', '3') if wrong else ()
        return super().top(ids, n)


def counted(count):
    def change(answer, n, server):
        if 'usage' in answer:
            answer['usage'] = {'prompt_tokens': count(n)}
        else:
            answer['prompt_eval_count'] = count(n)
        return answer
    return change


def past(other):
    """Something else in place of the answer to a longer prompt."""
    return lambda answer, n, server: other if n > 60 else answer


def warm(temperature):
    """Log-probabilities after the logits were divided by a temperature."""
    def change(answer, n, server):
        found = answer['choices'][0]['logprobs']['top_logprobs']
        scaled = {name: p / temperature for name, p in found[0].items()}
        total = math.log(sum(map(math.exp, scaled.values())))
        found[0] = {name: p - max(total, 0) - 0.1 for name, p in scaled.items()}
        return answer
    return change


def one_for_all(least):
    """The same answer to all prompts past some length, and no counts."""
    def change(answer, n, server):
        server.kept = getattr(server, 'kept', None) or (answer if n > least else None)
        return dict(server.kept if n > least else answer, usage={})
    return change


def breaking(answer, n, server):
    return answer


READS, REFUSES = (0, 'the server reads it as hf5'), (1, '; but it refuses a prompt of ')
READINGS = [
    ('zeros', counted(lambda n: 0), READS), ('always two', counted(lambda n: 2), READS),
    ('no counts', counted(lambda n: None), READS), ('text', counted(str), (2, 'the count of prompt tokens')),
    ('cut and counted', counted(lambda n: min(n, 60)), (1, 'it cuts prompts')),
    ('no choices', past({'choices': [], 'usage': {}}), REFUSES), ('null', past({'choices': [{'text': None}]}), REFUSES),
    ('temperature 0.7', warm(0.7), (2, 'of temperature 0.70')), ('temperature 2', warm(2), (2, 'of temperature 1.99')),
    ('an error of FastChat', past({'object': 'error', 'message': 'too long', 'code': 40303}), REFUSES),
    ('an error of status 200', past({'error': {'message': 'too long'}}), REFUSES),
    ('HTML', past(b'<html>Gateway</html>'), (1, '; but it fails at a prompt of ')),
    ('one answer for all', one_for_all(0), (2, 'every prompt gets the same answer')),
    ('one for long prompts', one_for_all(60), (1, 'as if they were one')),
    ('right to 60 tokens', breaking, (1, 'the server reads prompts of up to 54 tokens as hf5')),
]


def test_readings():
    for name, change, (status, words) in READINGS:
        for form in ('vllm', 'ollama only') if change.__qualname__.startswith('counted') else ('vllm',):
            with Odd(form, change) as server:
                told = probe(server.url, MODEL, '-n', 96, '--prompts', 5, '--retries', 0, '--budget', 0)
                said = told.err if status == 2 else told.last
                check(told.status == status and words in said, '%s, %s' % (name, form), told)


def test_two_servers():
    """Counts that say nothing are no cut, and empty answers are no equal ones."""
    zeros, nothing = counted(lambda n: 0), counted(lambda n: None)
    with Odd('vllm', zeros) as one, Odd('vllm', nothing) as other:
        for pair in (one, other), (one, one):
            told = probe(*(server.url for server in pair), '-n', 96, '--prompts', 3)
            check(told.status == 0 and told.last.startswith('identical to the bit to '), 'no cut', told)
    with Talker('llama', empty(past=100)) as one, Talker('llama', empty(past=100)) as other:
        told = probe(one.url, other.url, '-n', 300, '--prompts', 4, '--greedy')
        check('both refuse a prompt of ' in told.last and 'the answer is empty' in told.last, 'nothing said', told)


def test_order():
    """It connects before it says anything of prompts; an engine that is not is a typing error, said once."""
    with Fake('llama') as server:
        told = probe(server.url, MODEL, *SMALL, '--expect', 'vlm')
        check(told.status == 2 and told.err.count('\n') == 1 and "--expect: there is no engine 'vlm' (did you mean vllm?" in
              told.err, 'an engine that is not', told)
        nobody = server.url
    told = probe(nobody, MODEL, *SMALL)
    check(told.status == 2 and told.err.count('\n') == 1 and 'does not answer' in told.err, 'nobody there', told)


def test_help():
    """Names all tasks of ./run."""
    told = ' '.join(probe('--help').out.split())
    names = re.search(r'--tasks LIST ([a-z, ]+), or all', told).group(1).split(', ')
    rows = [json.loads(line)['task'] for line in good('--tasks', 'all', '--prompts', '-n', 320, cwd=ROOT).out.splitlines()]
    check(len(names) == 10 and set(names) == set(rows), 'tasks', names)


if __name__ == '__main__':
    main({} if lacks('model-8k.bin') else globals())
