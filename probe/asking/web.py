"""Requests to one server only: no redirects, no proxy unless asked for, and limits of size and time."""

from __future__ import annotations

import json
import queue
import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from typing import Any, Dict, Optional, Sequence, Union

from ..common import Problem, Unreachable, on_one_line

MOST_BYTES = 4 << 20  # of an answer: a thousand times the size of one token with its neighbors
BUSY = 429, 502, 503, 504  # statuses that another try may change
PASSING = BUSY + (500,)  # 500 may also mean that the server does not offer the form
ANSWERS = 'choices', 'response', 'details', 'meta_info', 'data'  # keys in servers' answers, in the various forms
LONGEST_PAUSE = 8  # seconds between two tries


class Answer:
    """status; data: the object in the JSON of a status of 200; words: of any other status, on one line."""

    def __init__(self, status: int, data: Any = None, words: str = '') -> None:
        self.status, self.data, self.words = status, data, words

    def told(self) -> str:
        return 'status %d: %s' % (self.status, self.words or 'no words')


class Failure(Answer):
    """A useless answer with status 200: an error in its object, or one that cannot be read. status: the one it should
    have had."""

    def told(self) -> str:
        return self.words


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, request, file, code, words, headers, to):
        raise Problem('the server redirects to %s (data is sent only to the given URL)'
                      % on_one_line(to, 100))


def refuse_constant(name):
    """Accepts -Infinity, the only one of the numbers missing in JSON that servers write, for tokens that are
    impossible."""
    if name == '-Infinity':
        return -float('inf')
    raise ValueError('the number %s' % name)


def root_of(url):
    """The URL without /v1 and the last slash, or a problem."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Problem('%s is not a URL (%s; expected http://HOST:PORT)' % (on_one_line(url), error), 'usage')
    if parts.scheme not in ('http', 'https') or not parts.hostname or port == 0:
        meant = 'did you mean http://%s? ' % url if re.fullmatch(r'[\w.-]+:[1-9]\d*', url) else ''
        raise Problem('%s is not the URL of a server (%sexpected http://HOST:PORT or https://HOST)' % (
            on_one_line(url), meant), 'usage')
    if parts.query or parts.fragment or parts.username is not None or not url.isprintable() or ' ' in url:
        raise Problem('%s: expected a URL of host, port and path (a key goes into --key-env)' % on_one_line(url),
                      'usage')
    path = parts.path.rstrip('/')
    path = path[:-len('/v1')] if path.endswith('/v1') else path
    return '%s://%s%s' % (parts.scheme, parts.netloc, path)


class Server:
    """One server. Several threads may call its methods."""

    def __init__(self, url: str, key: Optional[str] = None, proxy: Optional[str] = None, timeout: float = 600) -> None:
        self.root, self.timeout = root_of(url), timeout
        self.headers = {'Content-Type': 'application/json', 'Accept': 'application/json'}
        if key:
            self.headers['Authorization'] = 'Bearer ' + key
        proxies = {'http': root_of(proxy), 'https': root_of(proxy)} if proxy else {}
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies), NoRedirect())

    def get(self, path: str) -> Answer:
        return self.ask(path, None)

    def post(self, path: str, body: Dict[str, Any]) -> Answer:
        return self.ask(path, json.dumps(body).encode())

    def post_again(self, path: str, body: Dict[str, Any], retries: int, statuses: Sequence[int] = PASSING) -> Answer:
        """The answer, after up to `retries` further tries if its status may be temporary."""
        for tried in range(retries):
            answer = self.post(path, body)
            if answer.status not in statuses:
                return answer
            pause(tried)
        return self.post(path, body)

    def wait(self, seconds: float) -> None:
        """Waits until the server answers and is not busy; a problem if the seconds are over."""
        end, tried, patience = time.time() + seconds, 0, self.timeout
        while True:
            self.timeout = max(1, min(patience, end - time.time()))
            try:
                answer = self.get('/health')
                why = answer.told() if answer.status in BUSY else None
            except Unreachable as problem:
                why = str(problem)
            except Problem:  # an answer that is not JSON, so the server is running
                why = None
            finally:
                self.timeout = patience
            if why is None:
                return
            if time.time() >= end:
                raise Problem('the server is not ready within %g s (--wait): %s' % (seconds, why), 'unreachable')
            time.sleep(max(0, min(0.2 * 2 ** min(tried, 4), end - time.time())))
            tried += 1

    def ask(self, path: str, body: Optional[bytes]) -> Answer:
        """The complete answer to a request, within the timeout. A server may send one byte a second for ever, against
        which a socket's timeout does not help: the request has its own thread, which is abandoned."""
        done = queue.Queue()
        threading.Thread(target=lambda: done.put(self.outcome(path, body)), daemon=True).start()
        try:
            outcome = done.get(timeout=self.timeout)
        except queue.Empty:
            raise self.late(path)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def late(self, path: str) -> Unreachable:
        return Unreachable('%s%s: no whole answer within %g s (--timeout)' % (self.root, path, self.timeout))

    def outcome(self, path: str, body: Optional[bytes]) -> Union[Answer, Problem]:
        try:
            return self.exchange(path, body)
        except Problem as problem:
            return problem
        except (urllib.error.URLError, HTTPException, OSError, ValueError) as error:
            return self.trouble(path, error)

    def trouble(self, path: str, error: Exception) -> Problem:
        reason = getattr(error, 'reason', error)
        if isinstance(reason, ssl.SSLError):
            return Problem('%s: TLS: %s' % (self.root, on_one_line(reason)))
        if isinstance(reason, socket.timeout):  # a TimeoutError from Python 3.10 on
            return self.late(path)
        name = type(reason).__name__
        words = on_one_line(reason) or name
        return Unreachable('%s%s does not answer: %s%s' % (self.root, path, words,
                                                         '' if words == name else ' (%s)' % name))

    def exchange(self, path: str, body: Optional[bytes]) -> Answer:
        request = urllib.request.Request(self.root + path, body, self.headers)
        try:
            with self.opener.open(request, timeout=self.timeout) as answer:
                status, data = answer.status, self.whole(path, answer)
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, words=words_of(error.read(1 << 16)))
        if status != 200:
            return Answer(status, words=words_of(data))
        try:
            found = json.loads(data.decode(), parse_constant=refuse_constant)
        except RecursionError:
            raise Problem('%s%s: the answer is nested too deep' % (self.root, path))
        except ValueError as error:
            if data.startswith((b'data:', b'event:')):
                raise Problem('%s%s: the answer is an unrequested stream of events (found %s)' % (
                    self.root, path, on_one_line(data[:80].decode('utf-8', 'replace'))))
            raise Problem('%s%s: the answer is not JSON that can be used: %s (found %s)' % (
                self.root, path, on_one_line(error, 80), on_one_line(data[:80].decode('utf-8', 'replace'))))
        if not isinstance(found, dict):
            raise Problem('%s%s: an object expected (found %s)' % (self.root, path, on_one_line(found, 80)))
        return failure_in(found) or Answer(200, found)

    def whole(self, path: str, answer: Any) -> bytes:
        data = b''
        while len(data) <= MOST_BYTES:
            part = answer.read(MOST_BYTES + 1 - len(data))
            if not part:
                break
            data += part
        if len(data) <= MOST_BYTES and answer.length:
            raise Unreachable('%s%s does not answer: it closes in the middle (%d bytes more were to come)' % (
                self.root, path, answer.length))
        if len(data) <= MOST_BYTES:
            return data
        raise Problem('%s%s: the answer has more than %d MiB' % (self.root, path, MOST_BYTES >> 20))


def failure_in(found: Dict[str, Any]) -> Optional[Failure]:
    """The error in an object that is not an answer."""
    error = found.get('error') or found.get('object') == 'error'
    if not error or any(found.get(key) for key in ANSWERS) or isinstance(found.get('message'), dict):
        return None
    code = error.get('code') if isinstance(error, dict) else found.get('code')
    is_status = isinstance(code, int) and 400 <= code < 600
    return Failure(code if is_status else 400, words='status 200 and an error: %s' % words_in(found))


def pause(tried: int) -> None:
    time.sleep(min(2 ** tried, LONGEST_PAUSE))


def words_of(data):
    """A server's words about an error: the text in the JSON, if there is any."""
    text = data.decode('utf-8', 'replace')
    try:
        return words_in(json.loads(text))
    except (ValueError, RecursionError):
        return on_one_line(text)


def words_in(found: Any) -> str:
    for key in ('error', 'detail', 'message'):
        found = found.get(key, found) if isinstance(found, dict) else found
    return on_one_line(found if isinstance(found, str) else json.dumps(found))
