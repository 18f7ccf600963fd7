"""The forms of questions for the likeliest next tokens, and of servers' answers.

A form is a path, bodies to try one after another, and a reader. Bodies are functions of a Question. Readers convert
the answer's object into a Reply, or raise a Problem if it does not have the form's shape. The facts about each
server come from its sources or documents; docs/served.md lists the servers that were run.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ..common import Problem, on_one_line


class Question:
    """prompt: ids or a text; top: the number of tokens; sampled: with temperature 1 and no filter, otherwise
    greedily."""

    def __init__(self, model: str, prompt: Any, top: int, sampled: bool = False) -> None:
        self.model, self.prompt, self.top, self.sampled = model, prompt, top, sampled

    def is_text(self) -> bool:
        return isinstance(self.prompt, str)


class Token:
    """A token as a server identifies it (id, bytes or text, None if absent) and its log-probability, or None."""

    def __init__(self, logprob: Any, id: Any = None, data: Optional[bytes] = None, text: Optional[str] = None) -> None:
        self.logprob, self.id, self.data, self.text = logprob, id, data, text

    def spelled(self) -> str:
        return 'token %d' % self.id if self.id is not None else on_one_line(repr(self.text), 40)


class Reply:
    """top: the likeliest tokens, [] if there are none; chosen: the chosen Token, or None; counted: the server's count
    of the prompt's tokens, or None."""

    def __init__(self, top: List[Token], chosen: Optional[Token], counted: Optional[int]) -> None:
        self.top, self.chosen, self.counted = top, chosen, counted


# ---- the values in answers ----

def kind(value, types, what):
    """The value, which must have one of the types; a bool is not a number."""
    if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
        raise Problem('%s in the answer is not as in this form (found %s)' % (what, on_one_line(value, 60)))
    return value


def first(values, what):
    return kind(values, list, what)[0] if values else None


def logprob_of(value):
    return None if value is None else float(kind(value, (int, float), 'a log-probability'))


def count_of(value):
    return None if value is None else kind(value, int, 'the count of prompt tokens')


def token_of(item):
    """The token in {'id', 'token' or 'text', 'bytes', 'logprob'}; servers give some of these."""
    kind(item, dict, 'a token')
    text = item.get('token', item.get('text'))
    id, data = item.get('id', item.get('token_id')), item.get('bytes')
    if id is not None:
        kind(id, int, 'the id of a token')
    if data is not None:
        if not all(isinstance(b, int) and 0 <= b < 256 for b in kind(data, list, 'the bytes of a token')):
            raise Problem('the bytes of a token are none (found %s)' % on_one_line(data, 60))
        data = bytes(data) or None
    if text is not None:
        kind(text, str, 'the text of a token')
    return Token(logprob_of(item.get('logprob')), id, data, text)


def named(key, logprob):
    """A token in vLLM's dictionaries, token_id:N, or in OpenAI's, its text."""
    if key.startswith('token_id:') and key[9:].isdigit():
        return Token(logprob_of(logprob), id=int(key[9:]))
    return Token(logprob_of(logprob), text=key)


# ---- OpenAI's completions: llama.cpp, vLLM, mlx_lm, TabbyAPI, text-generation-webui ----

def completions(q: Question, **asked: Any) -> Dict[str, Any]:
    sampling = {'temperature': 1, 'top_p': 1, 'top_k': 0, 'min_p': 0} if q.sampled else {'temperature': 0}
    return dict({'model': q.model, 'prompt': q.prompt, 'max_tokens': 1}, **dict(sampling, **asked))


def with_ids(q):
    return completions(q, logprobs=q.top, return_tokens_as_token_ids=True)


def with_logprobs(q):
    return completions(q, logprobs=q.top)


def with_top_logprobs(q):
    """mlx_lm refuses a number as `logprobs`."""
    return completions(q, logprobs=True, top_logprobs=q.top)


def read_completions(data):
    choice = kind(first(data.get('choices'), 'choices') or {}, dict, 'a choice')
    usage = kind(data.get('usage') or {}, dict, 'usage')
    logprobs = kind(choice.get('logprobs') or {}, dict, 'logprobs')
    text, chosen, top = choice.get('text'), None, []
    if logprobs.get('content'):  # llama.cpp's and mlx_lm's, as in the chat form
        chosen = token_of(first(logprobs['content'], 'content'))
        top = [token_of(item) for item in kind(first(logprobs['content'], 'content').get('top_logprobs') or [], list,
                                               'top_logprobs')]
    else:
        by_id = first(logprobs.get('top_logprobs_ids'), 'top_logprobs_ids')  # text-generation-webui's, since 2026
        named_top = by_id or first(logprobs.get('top_logprobs'), 'top_logprobs') or {}
        top = [named('token_id:' + key if by_id else key, value)
               for key, value in kind(named_top, dict, 'top_logprobs').items()]
        came = first(logprobs.get('tokens'), 'tokens')
        if came is not None:
            chosen = named(kind(came, str, 'a token'), first(logprobs.get('token_logprobs'), 'token_logprobs'))
    if chosen is None and text:
        chosen = Token(None, text=kind(text, str, 'the text'))
    return Reply(top, chosen, count_of(usage.get('prompt_tokens')))


# ---- SGLang's /generate ----

def sglang(q):
    sampling = {'temperature': 1 if q.sampled else 0, 'max_new_tokens': 1}
    return {('text' if q.is_text() else 'input_ids'): q.prompt, 'sampling_params': sampling, 'return_logprob': True,
            'top_logprobs_num': q.top, 'return_text_in_logprobs': True}


def of_triple(triple):
    """[log-probability, id, text or null]"""
    triple = kind(triple, list, 'a token') + [None] * 3
    text = triple[2]
    return Token(logprob_of(triple[0]), id=kind(triple[1], int, 'the id of a token'),
                 text=None if text is None else kind(text, str, 'the text of a token'))


def read_sglang(data):
    meta = kind(data.get('meta_info'), dict, 'meta_info')
    top = first(meta.get('output_top_logprobs'), 'output_top_logprobs') or []
    chosen = first(meta.get('output_token_logprobs'), 'output_token_logprobs')
    return Reply([of_triple(t) for t in kind(top, list, 'output_top_logprobs')],
                 of_triple(chosen) if chosen else None, count_of(meta.get('prompt_tokens')))


# ---- ollama's /api/generate ----

def ollama(q):
    options = dict({'temperature': 1, 'top_p': 1, 'top_k': 0} if q.sampled else {'temperature': 0}, num_predict=1)
    return {'model': q.model, 'prompt': q.prompt, 'raw': True, 'stream': False, 'truncate': False,
            'logprobs': True, 'top_logprobs': q.top, 'options': options}


def read_ollama(data):
    item = first(data.get('logprobs'), 'logprobs')
    text = kind(data.get('response') or '', str, 'the response')
    counted = count_of(data.get('prompt_eval_count'))
    if item is None:
        return Reply([], Token(None, text=text) if text else None, counted)
    top = kind(kind(item, dict, 'a token').get('top_logprobs') or [], list, 'top_logprobs')
    return Reply([token_of(t) for t in top], token_of(item), counted)


# ---- TGI's /generate ----

def tgi(q):
    parameters = {'max_new_tokens': 1, 'do_sample': q.sampled, 'details': True, 'decoder_input_details': True,
                  'top_n_tokens': q.top}
    return {'inputs': q.prompt, 'parameters': parameters}


def read_tgi(data):
    details = kind(data.get('details'), dict, 'details')
    top = first(details.get('top_tokens'), 'top_tokens') or []
    chosen = first(details.get('tokens'), 'tokens')
    prefill = kind(details.get('prefill') or [], list, 'prefill')
    return Reply([token_of(t) for t in kind(top, list, 'top_tokens')], token_of(chosen) if chosen else None,
                 len(prefill) or None)


class Form:
    def __init__(self, name: str, path: str, bodies: Sequence[Callable[[Question], Dict[str, Any]]],
                 read: Callable[[Any], Reply], takes_ids: bool, tops: Tuple[int, ...]) -> None:
        self.name, self.path, self.bodies, self.read = name, path, bodies, read
        self.takes_ids, self.tops = takes_ids, tops


FORMS = [
    Form('completions', '/v1/completions', [with_ids, with_logprobs, with_top_logprobs, completions], read_completions,
         True, (10, 5)),
    Form('sglang', '/generate', [sglang], read_sglang, True, (10, 5)),
    Form('ollama', '/api/generate', [ollama], read_ollama, False, (10, 5)),
    Form('tgi', '/generate', [tgi], read_tgi, False, (5,)),
]
# The values of --api: a form, or a server, which has one of the forms.
APIS = {'llama.cpp': 'completions', 'ik_llama.cpp': 'completions', 'vllm': 'completions', 'mlx_lm': 'completions',
        'tabbyapi': 'completions', 'text-generation-webui': 'completions'}
APIS.update({form.name: form.name for form in FORMS})
# A path that only one kind of server has, a key in its answer, and the form to try first.
SIGNS = [('/api/version', 'version', 'ollama'), ('/get_model_info', 'model_path', 'sglang'),
         ('/info', 'max_total_tokens', 'tgi')]
