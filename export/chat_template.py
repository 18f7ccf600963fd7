"""The system prompt in a checkpoint's chat template for chats without a given one. Templates are programs in Jinja, and
only this part is read: src/job/chat.c writes turns."""

from __future__ import annotations

import os
import re
from typing import Any, Optional

from .common import Job, read_json, read_small

MOST_BYTES = 4096  # of a prompt; published ones have up to 300
NEWLINE = r'(?:\n|\\n)'
# A text in one piece: it contains no expression, and no end of the string that may surround it.
TEXT = r"""((?:[^{}'"<>\\]|\\.|'(?=\w)|\{(?![{%#])|(?<!%)\}(?!\}))+?)"""
FORMS = (
    r'<\|im_start\|>system' + NEWLINE + TEXT + r'<\|im_end\|>',            # Qwen 2 and 2.5, SmolLM 2
    r'<\|im_system\|>system<\|im_middle\|>' + TEXT + r'<\|im_end\|>',      # Kimi K2
    r"""set \w*default_system_(?:message|prompt) = '""" + TEXT + r"' ?-?%}",  # Granite 4
    r'''set \w*default_system_(?:message|prompt) = "''' + TEXT + r'" ?-?%}')
ESCAPES = {'n': '\n', 't': '\t', 'r': '\r'}


def default_system_prompt(template: str) -> str:
    """The system prompt of a template, or '' if it has none that is a text in one piece."""
    for form in FORMS:
        found = re.search(form, template)
        text = re.sub(r'\\(.)', lambda m: ESCAPES.get(m[1], m[1]), found[1]) if found else ''
        if text.strip() and len(text.encode('utf-8', 'replace')) <= MOST_BYTES and '\0' not in text:
            return text
    return ''


def template_of_folder(job: Job, folder: str) -> str:
    """The template of a Hugging Face checkpoint: a separate file, or in tokenizer_config.json; '': none."""
    path = os.path.join(folder, 'chat_template.jinja')
    if os.path.exists(path):
        return read_small(job, path).decode('utf-8', 'replace')
    for name in 'chat_template.json', 'tokenizer_config.json':
        path = os.path.join(folder, name)
        found = chosen(read_json(job, path).values.get('chat_template')) if os.path.exists(path) else None
        if found:
            return found
    return ''


def chosen(template: Any) -> Optional[str]:
    """The default template of a file with several named ones."""
    if isinstance(template, list):
        named = {each.get('name'): each.get('template') for each in template if isinstance(each, dict)}
        template = named.get('default')
    return template if isinstance(template, str) else None
