"""A server's response to a text, in OpenAI's forms or ollama's: the answer, the thoughts before it, and the counts."""

from __future__ import annotations

import re
from typing import Any, Dict, Optional

from ..asking.web import Answer
from ..common import Problem, on_one_line

# Marks around the thoughts of models whose server leaves them in the text, as in src/tasks/judge.c.
THOUGHTS = (('<think>', '</think>'), ('<thinking>', '</thinking>'), ('<thought>', '</thought>'),
            ('<reasoning>', '</reasoning>'), ('<seed:think>', '</seed:think>'), ('[THINK]', '[/THINK]'),
            ('<|channel|>analysis', '<|channel|>final<|message|>'), ('<|START_THINKING|>', '<|END_THINKING|>'))
FIELDS = 'reasoning_content', 'reasoning', 'thinking'  # with thoughts, separate from the text
SPECIAL = re.compile(r'<\|[^|<>\s]*\|>|</?s>|<(?:eos|bos|pad|unk|end_of_turn)>')
ECHO = 60  # characters at the end of a question that identify a repetition of it
WORDY = 32  # tokens of an answer beyond its number of letters: more than that were hidden thoughts


class Said:
    """text: the answer; thoughts: those that the server gives separately; counted: its count of the prompt's tokens, or
    None; is_full: the answer ended because it had no more tokens; made: its count of the answer's tokens, or None;
    refused: the answer that refuses the prompt, or None. most: the tokens that the answer could have."""

    def __init__(self, text: str = '', thoughts: str = '', counted: Optional[int] = None, is_full: bool = False,
                 made: Optional[int] = None, refused: Optional[Answer] = None) -> None:
        self.text, self.thoughts, self.counted = text, thoughts, counted
        self.is_full, self.made, self.refused = is_full, made, refused
        self.seconds, self.most = 0.0, 0

    def is_blank(self) -> bool:
        """Whether the text consists only of spaces and special tokens."""
        return not SPECIAL.sub('', self.text).strip()

    def has_open_thoughts(self) -> bool:
        """Whether thoughts are not followed by an answer: they used up the tokens, or the server mistakes the answer
        for a thought."""
        if any(self.text.rfind(begin) > self.text.rfind(end) for begin, end in THOUGHTS):
            return True
        return bool(self.thoughts.strip()) and self.is_blank()

    def has_ended_thoughts(self) -> bool:
        """Whether thoughts are followed by the answer, or its beginning."""
        return bool(self.thoughts.strip()) or any(end in self.text for _, end in THOUGHTS)

    def has_thoughts(self) -> bool:
        """Whether the model thought, shown or hidden."""
        is_shown = self.thoughts.strip() or any(mark in self.text for pair in THOUGHTS for mark in pair)
        return bool(is_shown) or not self.is_blank() and (self.made or 0) > len(self.text) + WORDY

    def hides_thoughts(self) -> Optional[bool]:
        """Whether the answer is empty although all its tokens are used up: the server hides thoughts. None: it does not
        count the tokens of answers."""
        if self.text or self.thoughts or not self.is_full or self.most <= 1:
            return False
        return None if self.made is None else self.made >= self.most

    def is_thinking(self) -> bool:
        """Whether thoughts, shown or hidden, used up all tokens."""
        return not self.refused and bool(self.has_open_thoughts() or self.hides_thoughts())

    def is_empty(self) -> bool:
        return not self.refused and not self.is_thinking() and self.is_blank()

    def without_echo(self, asked: str) -> Said:
        """The same without a repetition of the question, which contains every answer."""
        before, _, after = self.text.rpartition(asked[-ECHO:])
        self.text = after if before.strip() else self.text
        return self

    def whole(self) -> str:
        """The whole response, thoughts included, to compare two answers."""
        return self.thoughts + self.text


def parts_of(content: Any) -> Dict[str, str]:
    """The text and the thoughts of a message's content: a text, null, or a list of parts."""
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        text = ''.join(part['text'] for part in content if isinstance(part.get('text'), str))
        thoughts = [part['thinking'] for part in content if part.get('thinking')]
        return {'text': text, 'thoughts': on_one_line(thoughts) if thoughts else ''}
    if not isinstance(content, (str, type(None))):
        raise TypeError('content')
    return {'text': content or '', 'thoughts': ''}


def thoughts_of(message: Dict[str, Any]) -> str:
    found = [message[name] for name in FIELDS if isinstance(message.get(name), str)]
    return found[0] if found else ''


def count_in(data: Dict[str, Any], name: str) -> Optional[int]:
    """A count, or None; a problem if it is not a number."""
    value = data.get(name)
    if not isinstance(value, (int, type(None))):
        raise TypeError(name)
    return value


def read_openai(data: Dict[str, Any], is_chat: bool) -> Said:
    """Reads an answer in OpenAI's forms. Without choices it is empty."""
    usage = data.get('usage') or {}
    counts = dict(counted=count_in(usage, 'prompt_tokens'), made=count_in(usage, 'completion_tokens'))
    if data['choices'] == []:
        return Said(**counts)
    choice = data['choices'][0]
    message = choice['message'] if is_chat else choice
    found = parts_of(message.get('content') if is_chat else message['text'])
    found['thoughts'] = found['thoughts'] or thoughts_of(message)
    return Said(is_full=choice.get('finish_reason') == 'length', **counts, **found)


def read_ollama(data: Dict[str, Any], is_chat: bool) -> Said:
    message = data['message'] if is_chat else data
    found = parts_of(message['content' if is_chat else 'response'])
    return Said(found['text'], found['thoughts'] or thoughts_of(message), count_in(data, 'prompt_eval_count'),
                data.get('done_reason') == 'length', count_in(data, 'eval_count'))


def read_said(data: Dict[str, Any], is_ollama: bool, is_chat: bool) -> Said:
    """Reads the object of an answer, or raises a problem."""
    try:
        return (read_ollama if is_ollama else read_openai)(data, is_chat)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        why = 'the answer has no text' if isinstance(error, KeyError) else 'the answer has another form'
        raise Problem('%s (found %s)' % (why, on_one_line(data, 80)))
