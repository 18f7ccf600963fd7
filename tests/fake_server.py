"""A server for tests: it answers by ./run --next under a hidden reading, in the form of one server or another, with
noise, cuts and every fault that a server may have."""

import functools
import http.server
import json
import math
import os
import random
import re
import struct
import tempfile
import threading
import time

import remembered
from common import ROOT, good

os.environ['OMP_NUM_THREADS'] = '1'  # the texts are small, and test files run side by side
MODEL = os.path.join(ROOT, 'model-8k.bin')
TEXT = os.path.join(ROOT, 'book.txt')
LONGEST = 600  # tokens of TEXT that a prompt may have


def run(*arguments):
    lines = good(*arguments, '--tsv').out.splitlines()
    return [line.split('\t') for line in lines if not line.startswith('#')][1:]


@functools.lru_cache(None)
def likeliest(ids, hidden, top, model=MODEL):
    """[(id, log-probability)] after these ids."""
    key = remembered.key('likeliest', ids, hidden, top, model)
    said = remembered.recall(key)
    if said is not None:
        return [tuple(pair) for pair in said]
    with tempfile.NamedTemporaryFile('w', suffix='.ids') as file:
        file.write(' '.join(map(str, ids)))
        file.flush()
        rows = run(model, '--ids', '-f', file.name, '--next', top, '--activations', 'f32', *hidden)
    return remembered.keep(key, [(int(row[3]), float(row[4])) for row in rows])


@functools.lru_cache(None)
def tokens():
    """The bytes of each token of MODEL."""
    with open(os.path.join(ROOT, 'tokenizer.bin'), 'rb') as file:
        data = file.read()
    found, at = [], 4
    while at < len(data) and data[at:at + 4] != b'TKT1':
        length = struct.unpack_from('<i', data, at + 4)[0]
        found.append(data[at + 8:at + 8 + length].replace('\u2581'.encode(), b' '))
        at += 8 + length
    return [bytes([int(t[3:5], 16)]) if re.match(b'<0x..>$', t) else t for t in found]


@functools.lru_cache(None)
def of_text():
    """{beginning of TEXT: its ids, with BOS}"""
    ids, found, said = [1], {}, b''
    for row in run(MODEL, '--ppl', TEXT, '-n', LONGEST, '--rope', 'none', '--per-token'):
        ids.append(int(row[2]))
        said += tokens()[ids[-1]]
        found[said.decode('utf-8', 'replace').lstrip()] = tuple(ids)
    return found


CITIES = {'Eiffel Tower': 'Paris', 'Louvre': 'Paris', 'Colosseum': 'Rome', 'Kremlin': 'Moscow', 'Big Ben': 'London',
          'Brandenburg Gate': 'Berlin', 'White House': 'Washington', 'Statue of Liberty': 'New York',
          'Golden Gate Bridge': 'San Francisco', 'Acropolis': 'Athens', 'Forbidden City': 'Beijing',
          'Tower Bridge': 'London'}


class Refused(Exception):
    def __init__(self, status, words):
        super().__init__(words)
        self.status, self.words = status, words


class Fake(http.server.ThreadingHTTPServer):
    """form: llama, vllm, tabby, mlx, exllamav2, webui (text-generation-webui), webui old (before it named ids), sglang,
    ollama, tgi, one, none. hidden: run's options. noise: standard deviation of each log-probability. limit: tokens,
    longer prompts are cut to the last ones. bos: a second one is put before. fault: see Handler. weights: another model
    file. vocabulary: tokens of a tokenizer that is not ours; an id past them kills the server. count: how its tokenizer
    counts the text of a task. ready: it is loading until that time. cached: it counts only the tokens that it did not
    read last."""
    daemon_threads = True

    def __init__(self, form='llama', hidden=(), noise=0.0, limit=0, bos=False, fault=None, key=None, refuse=0,
                 knows=1.0, weights=MODEL, vocabulary=0, count=None, ready=0.0, cached=False):
        super().__init__(('127.0.0.1', 0), Handler)
        self.form, self.hidden, self.noise, self.limit = form, tuple(hidden), noise, limit
        self.bos, self.fault, self.key, self.refuse, self.knows = bos, fault, key, refuse, knows
        self.weights, self.vocabulary, self.count, self.ready = weights, vocabulary, count, ready
        self.cached, self.last, self.mutex = cached, '', threading.Lock()
        self.random, self.asked, self.seen, self.bodies, self.is_dead = random.Random(3), 0, [], [], False
        self.url = 'http://127.0.0.1:%d' % self.server_port
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass  # the other end went away

    # ---- its computations ----

    def counted(self, prompt, whole):
        """The tokens of a prompt, `whole` in all, that it counts: all, or those that are new since the last prompt."""
        if not self.cached:
            return whole
        with self.mutex:
            said = prompt if isinstance(prompt, str) else tuple(prompt)
            same = os.path.commonprefix([said, self.last if type(self.last) is type(said) else said[:0]])
            self.last = said
        return max(whole - int(whole * len(same) / max(len(said), 1)), 1)

    def ids_of(self, prompt):
        """The ids that it reads, and how many it counts."""
        if isinstance(prompt, str):
            begun = re.match(r'(No\. [0-9]+|[A-Z] [A-Z] [A-Z] [A-Z])\. ', prompt)
            text = prompt[begun.end():] if begun else prompt
            if text not in of_text():
                return None, self.count(prompt) if self.count else len(prompt) // 3 + 1
            ids = (5,) * (9 if begun else 0) + of_text()[text]  # a beginning of nine tokens
            if self.vocabulary and self.fault != 'counts alike':
                return ids, len(ids) * 13 // 10
        else:
            ids = tuple(prompt)
            if self.vocabulary and max(ids) >= self.vocabulary:
                self.is_dead = True
                raise ConnectionError('killed by an id')
        if self.bos:
            ids = (1,) + ids
        if self.refuse and len(ids) > self.refuse:
            raise Refused(400, {'error': {'message': 'the request exceeds the available context size', 'code': 400}})
        if self.limit and len(ids) > self.limit:
            ids = ids[-self.limit:]
        return ids, len(ids)

    def top(self, ids, n):
        if self.fault == 'changes':
            self.hidden = ('--rope', 'none') if self.asked > 3 else ()
        found = [(id, p + self.random.gauss(0, self.noise))
                 for id, p in likeliest(ids, self.hidden, max(n, 1), self.weights)]
        if self.fault == 'tail twice':
            off = math.log(2 - sum(math.exp(p) for _, p in found))
            found = [(id, p - off) for id, p in found]
        if self.fault == 'positive':
            found[0] = found[0][0], 0.7
        if self.fault == 'nan':
            found[1] = found[1][0], float('nan')
        if self.fault == 'sum':
            found = [(id, -0.3) for id, _ in found]
        if self.fault == 'scrambled':
            found = [((id + 1) % 4096, p) for id, p in found]
        if self.fault == 'large ids':
            found = [(id + 100000, p) for id, p in found]
        return [(id, min(p, 0) if self.fault != 'positive' else p) for id, p in found]

    def text(self, id):
        return 'w%d' % id if self.fault == 'other words' else tokens()[id % 4096].decode('utf-8', 'replace')

    def continued(self, text):
        """A model's answer to a question of --tasks: the hidden number in the kept part of the text, if it knows."""
        kept = text if not self.limit else text[-3 * self.limit:]
        keys = re.findall(r'The pass key is ([0-9]{5})\. Remember', kept)[:1]
        keys = keys or re.findall(r'is now ([0-9]{5})\.', kept)[-1:]
        hop = re.search(r'Which pass key has the (\w+)\?', kept)
        link = hop and re.search(r' The %s has the pass key of the (\w+)\.' % hop.group(1), kept)
        keys = keys or (re.findall(r'pass key of the %s is ([0-9]{5})' % link.group(1), kept) if link else [])
        asked = re.search(r'are the pass keys of the (\w+) and the (\w+)\?', kept)
        both = [re.search(r'pass key of the %s is ([0-9]{5})' % who, kept) for who in asked.groups()] if asked else []
        keys = [' and '.join(found.group(1) for found in both)] if both and all(both) else keys
        nth = re.search(r'What is the (\w+) number of', kept)
        if nth:
            keys = re.findall(r'A number of the \w+ is ([0-9]{5})', kept)[['first', 'second', 'third'].index(nth.group(1)):][:1]
        city = re.search(r'Which one of them lives in ([\w ]+)\?', kept)
        if city:
            keys = [who for who, where in re.findall(r'The (\w+) has a house next to the ([\w ]+)\.', kept)
                    if CITIES[where] == city.group(1)]
        if 'Below is a list of words.' in kept:
            said = re.findall(r'\w+', kept.split(' one that is repeated.')[1])
            keys = [max(set(said), key=said.count)]
        return ' %s. And so on' % keys[0] if keys and self.random.random() < self.knows else ' 1 and 2'

    # ---- its answers, by form ----

    def completions(self, body):
        if self.form in ('sglang only', 'tgi', 'ollama only'):
            raise Refused(404, {'detail': 'Not Found'})
        if self.fault == 'no top' and body.get('logprobs'):
            raise Refused(500, {'error': {'message': 'logits processor failed'}})
        prompt, n = body['prompt'], body.get('logprobs') or 0
        if self.form in ('tabby', 'exllamav2', 'mlx', 'ollama', 'webui', 'webui old') and not isinstance(prompt, str):
            raise Refused(422, {'detail': [{'loc': ['prompt'], 'msg': 'Input should be a valid string'}]})
        if self.form == 'mlx' and not isinstance(n, bool) and n:
            raise Refused(400, {'error': 'logprobs must be of type bool'})
        n = body.get('top_logprobs', 1) if n is True else n
        if n > {'mlx': 11, 'vllm': 20}.get(self.form, 1000):
            raise Refused(400, {'error': {'message': 'too many log-probabilities'}})
        ids, counted = self.ids_of(prompt)
        usage = {'prompt_tokens': self.counted(prompt, min(counted, self.limit or counted))}
        if ids is None:
            choice = {'text': self.continued(prompt)}
            if n:  # a text that it does not know: the next token does not matter
                choice['logprobs'] = self.logprobs([(5, -1.0), (6, -2.0)], n, body)
            return {'choices': [choice], 'usage': usage}
        top = self.top(ids, n)
        choice = {'text': self.text(top[0][0]), 'index': 0, 'logprobs': self.logprobs(top, n, body)}
        return {'choices': [choice], 'usage': usage}

    def logprobs(self, top, n, body):
        if not n or self.form == 'none':
            return None
        off = 1 if self.fault == 'scrambled' else 0  # bytes of the token that it means
        first, listed = top[0], [{'id': id, 'token': self.text(id), 'bytes': list(tokens()[(id - off) % 4096]),
                                  'logprob': p} for id, p in top]
        if self.form in ('llama', 'mlx'):
            return {'content': [dict(listed[0], top_logprobs=listed)]}
        if self.form == 'one':
            top = top[:1]
        if self.form == 'exllamav2' and body.get('temperature') != 1:
            top = [(first[0], 0.0)] + [(id, -1000.0) for id, _ in top[1:]]
        if self.form == 'webui old':
            return {'top_logprobs': [{self.text(id): p for id, p in top}]}
        if self.form == 'webui':
            return {'tokens': [self.text(first[0])], 'token_logprobs': [first[1]], 'text_offset': [0],
                    'top_logprobs': [{self.text(id): p for id, p in top}], 'top_logprobs_ids': [dict(top)]}
        name = (lambda id: 'token_id:%d' % id) if body.get('return_tokens_as_token_ids') and self.form == 'vllm' \
            else self.text
        return {'tokens': [name(first[0])], 'token_logprobs': [first[1]], 'top_logprobs': [{name(id): p
                                                                                          for id, p in top[::-1]}]}

    def generate(self, body):
        if self.form == 'tgi':
            ids, counted = self.ids_of(body['inputs'])
            n = body['parameters']['top_n_tokens']
            if n > 5:
                raise Refused(422, {'error': '`top_n_tokens` must be <= 5', 'error_type': 'validation'})
            top = [{'id': id, 'text': self.text(id), 'logprob': p, 'special': False} for id, p in self.top(ids, n)]
            return {'generated_text': 'x', 'details': {'prefill': [{'id': id, 'text': ''} for id in ids],
                                                       'tokens': top[:1], 'top_tokens': [top]}}
        if not self.form.startswith('sglang'):
            raise Refused(404, {'detail': 'Not Found'})
        ids, counted = self.ids_of(body.get('input_ids') or body['text'])
        top = [[p, id, None] for id, p in self.top(ids, body['top_logprobs_num'])]
        return {'text': 'x', 'meta_info': {'prompt_tokens': counted, 'output_token_logprobs': top[:1],
                                           'output_top_logprobs': [top]}}

    def ollama(self, body):
        ids, counted = self.ids_of(body['prompt'])
        if ids is None:
            counted = self.counted(body['prompt'], min(counted, self.limit or counted))
            top = [{'token': self.text(id), 'bytes': list(tokens()[id]), 'logprob': p} for id, p in ((5, -1.0), (6, -2.0))]
            return {'response': self.continued(body['prompt']), 'prompt_eval_count': counted,
                    'logprobs': [dict(top[0], top_logprobs=top)]}
        counted = self.counted(body['prompt'], counted)
        top = [{'token': self.text(id), 'bytes': list(tokens()[id % 4096]), 'logprob': p}
               for id, p in self.top(ids, body['top_logprobs'])]
        return {'response': top[0]['token'], 'prompt_eval_count': counted,
                'logprobs': [dict(top[0], top_logprobs=top)]}

    def chat(self, body):
        text = ' '.join(message['content'] for message in body['messages'])
        counted = len(text) // 3 + 40
        return {'choices': [{'message': {'role': 'assistant', 'content': '<think>12345?</think>The key is' +
                                         self.continued(text)}}],
                'usage': {'prompt_tokens': self.counted(text, min(counted, self.limit or counted))}}


    def ollama_chat(self, body):
        said = self.chat(body)
        return {'message': said['choices'][0]['message'], 'done_reason': 'stop',
                'prompt_eval_count': said['usage']['prompt_tokens']}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.0'

    def log_message(self, *_):
        pass

    def reply(self, status, body, headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (('Content-Length', str(len(data))),) + tuple(headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        signs = {'ollama': '/api/version', 'sglang': '/get_model_info', 'tgi': '/info'}
        self.server.seen.append(self.path)
        if self.server.key and self.headers.get('Authorization') != 'Bearer ' + self.server.key:
            return self.reply(401, {'error': 'no key'})
        if self.server.is_dead:
            return None
        if time.time() < self.server.ready:
            return self.reply(503, {'error': {'message': 'Loading model', 'code': 503}})
        if self.path == signs.get(self.server.form.split()[0]):
            return self.reply(200, {'version': '1', 'model_path': 'm', 'max_total_tokens': 9})
        if self.path == '/v1/models' and self.server.form != 'tgi':
            meta = {'meta': {'n_vocab': self.server.vocabulary}} if self.server.vocabulary else {}
            return self.reply(200, {'data': [dict(meta, id='mine')]})
        return self.reply(404, b'<html>Not found</html>')

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])).decode())
        server.asked += 1
        server.seen.append(self.path)
        server.bodies.append(body)
        if server.key and self.headers.get('Authorization') != 'Bearer ' + server.key:
            return self.reply(401, {'error': {'message': 'Invalid API key'}})
        if server.is_dead or self.faulty(server.fault) or self.faulty_now(server.fault or ''):
            return None
        ways = {'/v1/completions': server.completions, '/generate': server.generate, '/api/generate': server.ollama,
                '/v1/chat/completions': server.chat, '/api/chat': server.ollama_chat}
        if self.path.startswith('/api') and not server.form.startswith('ollama'):
            return self.reply(404, {'error': 'no such path'})
        try:
            return self.reply(200, ways[self.path](body))
        except Refused as refused:
            return self.reply(refused.status, refused.words)

    def faulty_now(self, fault):
        """Faults of a moment, `fails 6`: from the sixth request on."""
        name, _, number = fault.rpartition(' ')
        number = int(number) if number.isdigit() else 1 << 30
        if name == 'fails' and self.server.asked >= number:
            self.reply(500, {'error': {'message': 'CUDA out of memory'}})
        elif name == 'busy' and self.server.asked == number:
            self.reply(503, {'error': 'overloaded'})
        elif name == 'dies' and self.server.asked >= number:
            self.server.is_dead = True
        else:
            return False
        return True

    def faulty(self, fault):
        """Acts as the fault requires, and returns whether that was all."""
        if fault == 'slow':
            time.sleep(30)
        elif fault == 'drips':
            self.send_response(200)
            self.end_headers()
            for _ in range(300):
                self.wfile.write(b' ')
                self.wfile.flush()
                time.sleep(0.1)
        elif fault == 'closes':
            self.send_response(200)
            self.send_header('Content-Length', '5000')
            self.end_headers()
            self.wfile.write(b'{"choices": [')
        elif fault == 'redirects':
            self.reply(307, b'', (('Location', 'http://elsewhere.invalid/v1'),))
        elif fault == 'html':
            self.reply(200, b'<!doctype html><html><body>Welcome</body></html>')
        elif fault == 'huge':
            self.send_response(200)
            self.send_header('Content-Length', str(400 << 20))
            self.end_headers()
            for _ in range(400):
                self.wfile.write(b' ' * (1 << 20))
        elif fault == 'list':
            self.reply(200, [1, 2])
        elif fault == 'other':
            self.reply(200, {'choices': 'none', 'usage': 3})
        elif fault == 'deep':
            self.reply(200, b'[' * 100000)
        elif fault == 'bytes':
            self.reply(200, b'\xff\xfe\x00{')
        elif fault == 'busy' and self.server.asked <= 2:
            self.reply(503, {'error': 'loading'})
        elif fault == 'error':
            self.reply(500, {'error': {'message': 'CUDA out\nof \x1b[31mmemory'}})
        else:
            return False
        return True
