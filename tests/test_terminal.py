#!/usr/bin/env python3
"""Chats at a terminal of the test's own (a pty) and in a pipe: the bounds of a message, the ends of an answer and of a
chat, the unread rest in a full context, and a bare command."""

import array
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
import unicodedata

from common import RUN, check, config, good, in_work, main, one_line, run, shapes, write, write_model
from test_chat import CHATML, chatml, ids_of, special_tokenizer

VOCAB = 256 + len(CHATML)
END_OF_TEXT, END_OF_TURN = 256, 258
USER = b'User: '
CTRL_C, CTRL_D, CTRL_Z = b'\x03', b'\x04', b'\x1a'
BEGINS, ENDS = b'\x1b[?2004h', b'\x1b[?2004l'  # the terminal brackets pasted text, and no other


def pasted(text):
    return b'\x1b[200~' + text + b'\x1b[201~'


def chat_model(name, answer='ok', end=END_OF_TURN, more=(), **changes):
    """A model that was taught ChatML and knows only the last token: after the newline of `assistant` it says the
    answer; end None: over and over. more: further pairs of tokens."""
    tokenizer, _ = special_tokenizer(name + '.tokenizer.bin', CHATML, 0)
    steps = [10, *answer.encode(), end or answer.encode()[0]]
    nexts = {**dict(zip(steps, steps[1:])), **dict(more)}
    c = config(**{**dict(dim=VOCAB, hidden_dim=1, n_layers=1, n_heads=1, n_kv_heads=1, head_dim=2, vocab_size=VOCAB,
                         seq_len=4000, train_ctx=4000, bos_id=-1, eos_ids=(END_OF_TURN,) + (0,) * 7), **changes})
    weights = {part: array.array('f', bytes(4 * max(rows, 1) * columns)) for part, rows, columns in shapes(c)}
    for i in range(VOCAB):
        weights['embedding'][i * VOCAB + i] = 1
        weights['final_norm'][i] = VOCAB ** -0.5
        weights['classifier'][nexts.get(i, END_OF_TURN) * VOCAB + i] = 50
    write_model(in_work(name + '.bin'), c, weights)
    return in_work(name + '.bin')


class Terminal:
    """./run at a terminal: text sent to it is typed there, and `seen` is its output."""

    def __init__(self, *arguments, columns=80, stderr=None, **environment):
        self.seen, self.mark = b'', 0
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            for number in signal.SIGINT, signal.SIGQUIT, signal.SIGHUP:  # which a shell's background has ignored
                signal.signal(number, signal.SIG_DFL)
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
            if stderr:
                os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            os.execve(RUN, [RUN, *map(str, arguments)], {**os.environ, 'TERM': 'xterm', 'OMP_NUM_THREADS': '1',
                                                         'OMP_WAIT_POLICY': 'passive', **environment})

    def read(self, seconds):
        """Whether the program is still there after its output within these seconds."""
        if not select.select([self.screen], [], [], seconds)[0]:
            return True
        try:
            part = os.read(self.screen, 65536)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.seen += part
        return bool(part)

    def wait(self, text, seconds=60):
        """Waits until the text is on the screen, after the last text waited for."""
        limit = time.time() + seconds
        while text not in self.seen[self.mark:] and time.time() < limit and self.read(0.1):
            pass
        if check(text in self.seen[self.mark:], 'the terminal shows %r' % text, self.seen[-300:]):
            self.mark = self.seen.index(text, self.mark) + len(text)
        return self

    def send(self, data):
        while data:
            data = data[os.write(self.screen, data[:512]):]
            self.read(0)
        return self

    def wait_for_answers(self, n, seconds=60):
        """Waits until as many answers are there."""
        limit = time.time() + seconds
        while self.seen.count(b'Assistant: ok') < n and time.time() < limit and self.read(0.1):
            pass
        self.mark = self.seen.rfind(b'Assistant: ok')
        return self

    def say(self, data):
        """Types it at the prompt."""
        return self.wait(USER).send(data)

    def end(self, seconds=60):
        """(exit status, below 0 a signal; what was seen; whether the terminal is as it was)."""
        limit = time.time() + seconds
        while time.time() < limit and self.read(0.1):
            pass
        as_new = termios.ICRNL, termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN
        flags = termios.tcgetattr(self.screen)
        same = all(flags[at] & wanted == wanted for at, wanted in zip((0, 3), as_new)) and (
            self.seen.rfind(ENDS) >= self.seen.rfind(BEGINS))
        if time.time() >= limit:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.screen)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        return code, self.seen.decode(errors='replace'), same


def on_screen(seen, columns):
    """The rows of an endless screen after all that was written to it, as terminals do it: a full row ends with the next
    character, wide characters take two columns, marks none. And where the cursor is."""
    rows, row, column = {}, 0, 0
    for part in re.findall(r'\x1b\[[?0-9;]*[A-Za-z~]|[^\x1b]|\x1b', seen):
        moved = re.fullmatch(r'\x1b\[(\d*)([ABCJ])', part)
        if moved and moved.group(2) == 'J':
            rows = {at: cell for at, cell in rows.items() if at < (row, column)}
        elif moved:
            n = int(moved.group(1) or 1)
            row += {'A': -n, 'B': n, 'C': 0}[moved.group(2)]
            column = min(column, columns - 1) + n * (moved.group(2) == 'C')
        elif part == '\r':
            column = 0
        elif part == '\n':
            row += 1
        elif len(part) == 1 and part >= ' ':
            width = 0 if unicodedata.combining(part) else 2 if unicodedata.east_asian_width(part) in 'WF' else 1
            if column + width > columns:
                row, column = row + 1, 0
            if width:
                rows[row, column] = part
                column += width
            if width == 2:
                rows[row, column - 1] = ''
    lines = ['' for _ in range(max([row] + [at[0] for at in rows]) + 1)]
    for (at, place), part in sorted(rows.items()):
        lines[at] += part
    return lines


def shown(text):
    """A message as the screen shows it after the prompt."""
    lines = []
    for i, line in enumerate(text.split('\n')):
        out = '' if i else 'User: '
        for c in line:
            out += ' ' * (8 - len(out) % 8) if c == '\t' else '^' + chr(ord(c) ^ 64) if c < ' ' else '?' if (
                0x80 <= ord(c) < 0xa0 or 0xdc80 <= ord(c) < 0xdd00) else c
        lines.append(out.rstrip())
    return lines


def read_tokens(*turns, system=''):
    """How many tokens a conversation has in which these are said and answered."""
    text = chatml(system, turns[0]) + ''.join('<|im_end|>\n' + chatml('', turn) for turn in turns[1:])
    return len(ids_of(text, CHATML, 0))


def ends_well(terminal, what, status, tokens=None, answers=None):
    """The chat's status, the terminal as it was, how many tokens of prompts were read, and how many answers came."""
    code, seen, same = terminal.end()
    found = re.findall(r'run: prefill (\d+) tokens', seen)
    check(code == status, what + ': the exit status', code, seen[-300:])
    check(same, what + ': the terminal is as it was', seen[-300:])
    check(tokens is None or found == [str(tokens)], what + ': what the model has read', found, tokens)
    check(answers is None or seen.count('Assistant: ') == answers, what + ': answers', seen[-300:])
    return seen


def test_bare():
    """With a terminal and a model that was taught to chat, the bare command chats; the first line is a message."""
    model = chat_model('bare')
    seen = ends_well(Terminal(model).say(b'Hi\n').say(CTRL_D), 'a bare command', 0, read_tokens('Hi'), 1)
    first = seen.index('Ctrl-C stops an answer')
    check('-m generate' in seen and first < seen.index('User: ') and all(
        word in seen for word in ('/bye', 'exit', 'Ctrl-D')), 'how to end it is said before the first prompt', seen)
    seen = ends_well(Terminal(model, '-y', 'Be brief.').say(b'Hi\n').say(CTRL_D), '-y with it', 0,
                     read_tokens('Hi', system='Be brief.'), 1)
    check('no effect' not in seen, 'which has its effect', seen)
    base = chat_model('base', eos_ids=(END_OF_TEXT,) + (0,) * 7)
    code, seen, _ = Terminal(base).end()
    check(code == 2 and 'there is no prompt (expected -i TEXT or -f FILE)' in seen and 'chat' not in seen,
          'a base model with such a tokenizer does not chat', seen)
    code, seen, _ = Terminal('model.bin', '-n', 5, '-t', 0, '-y', 'x').end()
    check(code == 0 and 'User' not in seen and '-y has no effect without -m chat' in seen, 'nor does model.bin', seen)
    code, seen, _ = Terminal(model, '-m', 'generate').end()
    check(code == 2 and 'there is no prompt' in seen, '-m generate does not chat', seen)


def test_texts_of_a_chat_model():
    """Elsewhere a line names the mode: a text is continued, and -m chat would answer it."""
    model, bare = chat_model('texts', more=((ord('a'), ord('b')),)), chat_model('texts-base', eos_ids=(
        END_OF_TEXT,) + (0,) * 7)
    one_line(run(model), 2, 'no prompt', 'expected -i TEXT or -f FILE; the model was taught to chat: -m chat')
    for options, stdin in ((('-i', 'What is RoPE?'), b''), ((), b'What is RoPE?\n')):
        done = good(model, '-t', 0, *options, stdin=stdin)
        check(done.out.strip() == 'What is RoPE?' and 'ended the text at once: -m chat has it answer' in done.err,
              'an end at once, %s' % (options,), done)
        check('-m chat' not in good(bare, '-t', 0, *options, stdin=stdin).err, 'of a base model')
        check('-m chat' not in good(model, '-m', 'generate', '-t', 0, *options, stdin=stdin).err, 'not where asked for')
    done = good(model, '-t', 0, '-i', 'a', '-n', 4)
    check('continued as it is' in done.err and '-m chat' in done.err and done.out == 'ab\n', 'a text that goes on', done)
    check('chat' not in good('model.bin', '-n', 5, '-t', 0, '-i', 'It was').err, 'a model that was not taught to')


PASTES = [  # the typed bytes, and the messages for the model
    ('two lines', [pasted(b'Translate:\rthe cat') + b'\n'], ['Translate:\nthe cat']),
    ('lines of Windows', [pasted(b'one\r\n\r\ntwo\r\n') + b'\r'], ['one\n\ntwo']),
    ('of Unix', [pasted(b'\n one\n\ttwo') + b'\n'], ['\n one\n\ttwo']),
    ('and a word after it', [pasted(b'one\ntwo') + b' three\n'], ['one\ntwo three']),
    ('two of them', [pasted(b'a\rb') + pasted(b'c\rd') + b'\n'], ['a\nbc\nd']),
    ('keys in it', [pasted(b'a\x1b[Db\x03\x04\x15\x1b\x1b[201c') + b'\n'], ['a\x1b[Db\x03\x04\x15\x1b\x1b[201c']),
    ('characters', [pasted('é€😀ü'.encode()) + b'\n'], ['é€😀ü']),
    ('quotes in it', [pasted(b'"""\ra\r"""\rb') + b'\n'], ['"""\na\n"""\nb']),
    ('words in it', [pasted(b'exit\rnow') + b'\n'], ['exit\nnow']),
    ('two messages at once', [b'one\ntwo\n'], ['one', 'two']),
    ('empty lines', [b'\n\r  \nHi\n'], ['Hi']),
    ('quotes', [b'"""\n', b'a\n', b'\n', b' b\n', b'"""\n'], ['a\n\n b']),
    ('quotes beside words', [b'  """a\n', b'b"""\n'], ['a\nb']),
    ('quotes of one line', [b'"""a b"""\n'], ['a b']),
    ('quotes ended by Ctrl-D', [b'"""a\n', CTRL_D], ['a']),
    ('quotes taken back', [b'"""a\n', b'b' + CTRL_C, b'c\n'], ['c']),
    ('and before a word in them', [b'"""a\n', CTRL_C, b'c\n'], ['c']),
    ('Alt-Enter', [b'a\x1b\rb\n'], ['a\nb']),
    ('a line taken back', [b'abc' + CTRL_C, b'd\n'], ['d']),
    ('Backspace', ['aé€😀\x7f\x7fb\n'.encode()], ['aéb']),
    ('Ctrl-W, Ctrl-U', [b'one two  \x17x\n', b'one\x15two\n'], ['one x', 'two']),
    ('arrows, Home, End, Delete', [b'bd\x1b[Dc\x1b[Ha\x1bOCX\x1b[3~\x1b[Fe\n'], ['abXde']),
    ('Ctrl-A, E, K, B, F', [b'cd\x01ab\x05e\x02\x0bf\n'], ['abcdf']),
    ('an earlier line', [b'one\n', b'two\n', b'\x1b[A\x1b[A!\x1b[B\x1b[A\n'], ['one', 'two', 'one']),
    ('what was typed before it', [b'one\n', b'draft\x1b[A\x1b[B!\n'], ['one', 'draft!']),
    ('other keys', [b'a\x1b[5~\x1b[15~\x1b[1;5C\x1bf\x07b\n'], ['ab']),
    ('no character', [b'a\xc3\xffb\n'], ['a\udcc3\udcffb']),
    ('a command of others', [b'/clear\n', b'/etc/passwd?\n'], ['/etc/passwd?'])]


def test_messages():
    """Typed and pasted text becomes these messages, to the byte; a bracket for each prompt, and none left open."""
    model = chat_model('messages')
    for what, typed, messages in PASTES:
        terminal = Terminal(model, '-m', 'chat')
        for i, keys in enumerate(typed):
            held = i > 0 and typed[0].lstrip()[:3] == b'"""' and len(typed) > 1 and CTRL_C not in typed[i - 1]
            terminal.wait(b'... ' if held else USER).send(keys)
        terminal.wait_for_answers(len(messages)).say(b'/bye\n')
        seen = on_screen(terminal.wait(b'run: prefill').seen.decode(errors='replace'), 80)
        if '"""' not in typed[0].decode(errors='replace') or 'quotes in it' == what:
            rows = re.sub('\n+Assistant', '\nAssistant', '\n'.join(line.rstrip() for line in seen))
            lost = [m for m in messages if '\n'.join(shown(m)) + '\nAssistant: ok' not in rows]
            check(not lost, what + ': on the screen', lost, seen[3:])
        text = [message.encode(errors='surrogateescape').decode(errors='replace') for message in messages]
        ends_well(terminal, what, 0, read_tokens(*text), len(messages))


def test_the_same_as_given():
    """A message from a terminal, from -i, from -f and in a pipe is answered alike; -f goes on as -i does."""
    model, text = chat_model('given'), 'one\n two\u00e9'
    path = write(in_work('given.txt'), '\ufeff' + text + '\r\n')
    tokens = read_tokens(text)
    for options in ('-i', text), ('-f', path):
        done = good(model, '-m', 'chat', *options)
        check('prefill %d tokens' % tokens in done.err and done.out == 'Assistant: ok\n', 'a chat with ' + options[0], done)
        ends_well(Terminal(model, '-m', 'chat', *options).say(b'More\n').say(b'exit\n'), options[0] + ' at a terminal', 0,
                  read_tokens(text, 'More'), 2)
    done = good(model, '-m', 'chat', '-f', '-', stdin=text.encode())
    check('prefill %d tokens' % tokens in done.err and done.out.count('ok') == 1, '-f - is one message', done)
    piped = good(model, '-m', 'chat', stdin=b'"""one\r\n two\xc3\xa9"""\r\n\r\nMo\0re\r\n/bye\nlost\n')
    check('prefill %d tokens' % read_tokens(text, 'More') in piped.err and piped.out.count('ok') == 2,
          'lines of a pipe: Windows ends, quotes, NULs, empty lines, /bye', piped)
    check('prefill %d tokens' % read_tokens('exit') in good(model, '-m', 'chat', stdin=b'exit').err,
          'in a pipe exit is a message')
    check('the input ended before' in good(model, '-m', 'chat', stdin=b'"""a\nb').err, 'quotes that do not end')
    for name, bad in ('none.txt', None), ('empty.txt', b'\n'):
        if bad is not None:
            write(in_work(name), bad)
        done = run(model, '-m', 'chat', '-f', in_work(name))
        check(done.status == 2 and name in done.err.splitlines()[-1], '-f ' + name, done)
    check('the prompt is empty (-i)' in good(model, '-m', 'chat', '-i', '').err, 'an empty -i')


def test_ctrl_c():
    """Ctrl-C ends an answer, which stays in the conversation as if the model had ended it; a second one ends the chat."""
    model = chat_model('endless', answer='ab', end=None, seq_len=1 << 20, train_ctx=1 << 20)
    quick = '--window', 8, '-t', 0
    terminal = Terminal(model, '-m', 'chat', *quick).say(b'Go\n').wait(b'abababab').send(CTRL_C)
    terminal.say(b'On\n').wait(b'abababab').send(CTRL_C).say(CTRL_C)
    ends_well(terminal, 'three times', 130, read_tokens('Go', 'On'), 2)
    terminal = Terminal(model, '-m', 'chat', *quick).say(b'Go\n').wait(b'abababab').send(CTRL_C)
    ends_well(terminal.say(b'/bye\n'), 'once', 0, read_tokens('Go'), 1)
    terminal = Terminal(model, '-m', 'chat', *quick).say(b'Go\n').wait(b'abababab').send(CTRL_C)
    time.sleep(0.05)
    ends_well(terminal.send(CTRL_C), 'twice at once', 130, read_tokens('Go'), 1)
    ends_well(Terminal(model, '-m', 'chat', *quick).say(CTRL_C), 'at the first prompt', 130, 0, 0)
    terminal = Terminal(model, '-m', 'chat', '-i', 'Go', *quick).wait(b'abababab').send(CTRL_C)
    ends_well(terminal.say(CTRL_D), 'in an answer to -i', 0, read_tokens('Go'), 1)
    # A message that is still being read is taken back: the next one is the first.
    slow = chat_model('slow', n_layers=200, seq_len=1 << 17, train_ctx=1 << 17)
    long = write(in_work('long.txt'), 'abcdefg ' * 12000)
    terminal = Terminal(slow, '-m', 'chat', '-f', long, '--plain').wait(b'/bye')
    time.sleep(0.5)
    terminal.send(CTRL_C).wait(b'the message was not processed').say(b'Hi\n').say(b'/bye\n')
    seen = ends_well(terminal, 'in a message', 0, None, 1)
    check('ok' in seen, 'the message after it is answered', seen[-200:])


def test_signals():
    """A signal while a line is typed leaves the terminal as it was."""
    model = chat_model('signals')
    for number, status in ((signal.SIGTERM, 130), (signal.SIGINT, 130), (signal.SIGHUP, -signal.SIGHUP),
                           (signal.SIGQUIT, -signal.SIGQUIT)):
        terminal = Terminal(model, '-m', 'chat').say(b'half a li')
        terminal.wait(b'half a li')
        os.kill(terminal.pid, number)
        ends_well(terminal, signal.Signals(number).name, status)


def test_full():
    """A chat that is full ends with status 2, counts the unread tokens, and names a -n that has room: with it all
    messages are answered."""
    model = chat_model('full', train_ctx=300, seq_len=300)
    lines = [b'Tell me about the number %d in one long sentence.\n' % i for i in range(8)]
    for what, said, left, words in (
            ('many messages', lines, 4, 'message 5 has'), ('a long one in the middle', [b'Hi\n', b'x' * 3000 + b'\n', b'2+2\n'],
                                                           2, 'message 2 has 3'),
            ('a long one first', [b'x' * 3000 + b'\n', b'2+2\n', b'\n'], 2, 'more than the 300 positions')):
        done = run(model, '-m', 'chat', '-t', 0, '-n', 300, stdin=b''.join(said))
        last = done.err.splitlines()[-1]
        check(done.status == 2 and words in last and '%d messages were not read' % left in last, what, done)
        room = re.search(r'\((-n .*) has room\)', last)
        check(room and '--rope dynamic-yarn' in room.group(1), what + ': past what was trained', last)
        again = good(model, '-m', 'chat', '-t', 0, *room.group(1).split(), stdin=b''.join(said))
        check(again.out.count('Assistant: ok\n') == sum(map(bool, map(bytes.strip, said))), what + ': it has', again)
    # Where a model was trained farther, or something is done about the length, -n is enough.
    wide = chat_model('wide')
    done = run(wide, '-m', 'chat', '-n', 300, stdin=b''.join(lines))
    check(done.status == 2 and '(-n 2k has room)' in done.err, 'within what was trained', done.err)
    done = run(model, '-m', 'chat', '-n', 300, '--rope', 'yarn', stdin=b''.join(lines))
    check(done.status == 2 and 'dynamic' not in done.err, 'with a method', done.err)
    # An answer that is cut.
    endless = chat_model('endless-full', answer='ab', end=None)
    for stdin, status, words in (b'Go\nOn\n', 2, 'the answer is cut; 1 message was not read'), (b'Go\n', 0, 'warning: '):
        done = run(endless, '-m', 'chat', '-n', 100, stdin=stdin)
        check(done.status == status and words in done.err and 'is full, and the answer is cut' in done.err and
              done.out.endswith('b\n'), 'an answer that is cut, before %r' % stdin, done)
    seen = ends_well(Terminal(endless, '-m', 'chat', '-n', 100).say(b'Go\n'), 'at a terminal', 2, None, 1)
    check('is full' in seen and 'not read' not in seen, 'where no message waits', seen[-200:])
    terminal = Terminal(wide, '-m', 'chat', '-n', 300).say(b'Hi\n').say(b'x' * 400 + b'\n').say(b'2+2\n').say(b'exit\n')
    seen = ends_well(terminal, 'too long a message at a terminal', 0, read_tokens('Hi', '2+2'), 2)
    check('message 2 has 4' in seen, 'is refused, and another one taken', seen[-300:])


def test_no_end_of_a_pipe():
    """A sender that waits for an answer before it sends more is not waited for when the context is full."""
    endless = chat_model('endless-pipe', answer='ab', end=None)
    ours, theirs = os.pipe()
    os.write(theirs, b'Go\nOn\n')
    began = time.time()
    with os.fdopen(ours) as pipe:
        pid = os.fork()
        if pid == 0:
            os.dup2(pipe.fileno(), 0)
            os.dup2(os.open(in_work('pipe.err'), os.O_WRONLY | os.O_CREAT), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.execve(RUN, [RUN, endless, '-m', 'chat', '-n', '100'], {**os.environ, 'OMP_NUM_THREADS': '1'})
        status = os.WEXITSTATUS(os.waitpid(pid, 0)[1])
    os.close(theirs)
    with open(in_work('pipe.err')) as file:
        said = file.read()
    check(status == 2 and 'at least 1 message was not read' in said and time.time() - began < 60, 'an open pipe', said)


def test_terminals():
    """Narrow ones, one that cannot move its cursor, and one without color: the same messages, and no sequences where they
    mean nothing."""
    model = chat_model('terminals')
    text = 'a\u00e9\u65e5 ' * 40
    for columns in 2, 3, 7, 200:
        terminal = Terminal(model, '-m', 'chat', columns=columns).wait(BEGINS)
        terminal.send(text.encode() + b'\x1b[D\x7fX\x1b[Hy\n').wait(b'ok').wait(BEGINS).send(CTRL_D)
        said = 'y' + text[:-2] + 'X '
        seen = ends_well(terminal, '%d columns' % columns, 0, read_tokens(said), 1)
        rows = ''.join(on_screen(seen, columns))
        check('User: ' + said in rows, 'what is shown in %d columns' % columns, rows[-300:])
    terminal = Terminal(model, '-m', 'chat', TERM='dumb').say(b'Hi\n').say(b'"""a\n').wait(b'... ').send(b'b"""\n')
    seen = ends_well(terminal.say(b'exit\n'), 'TERM=dumb', 0, read_tokens('Hi', 'a\nb'), 2)
    check('\x1b' not in seen, 'no escape sequences', seen)
    terminal = Terminal(model, '-m', 'chat', TERM='dumb').say(b'x' * 5000 + b'\n').say(CTRL_D)
    check('may have cut this line at 4095' in ends_well(terminal, 'a line that the system cuts', 0), 'is told')
    ends_well(Terminal(model, '-m', 'chat', NO_COLOR='1').say(pasted(b'a\rb') + b'\n').say(CTRL_D), 'NO_COLOR', 0,
              read_tokens('a\nb'), 1)
    log = in_work('chat.err')
    terminal = Terminal(model, '-m', 'chat', stderr=log).say(pasted(b'a\rb') + b'\n').say(CTRL_D)
    code, seen, same = terminal.end()
    with open(log) as file:
        said = file.read()
    check(code == 0 and same and 'prefill %d tokens' % read_tokens('a\nb') in said and 'Assistant: ok' in seen,
          'standard error in a file', said)


def test_long_paste():
    """Longer than any line of a terminal, in one piece and to the byte, with characters cut anywhere."""
    model = chat_model('long-paste', seq_len=70000, train_ctx=70000)
    text = ('Zeile \u00fc\u20ac\U0001f600 ' * 12 + '\n') * 300
    began = time.time()
    terminal = Terminal(model, '-m', 'chat', '--window', 64).say(pasted(text.replace('\n', '\r').encode()) + b'\n')
    ends_well(terminal.say(CTRL_D), 'a paste of %d bytes' % len(text.encode()), 0, read_tokens(text.rstrip('\n')), 1)
    check(time.time() - began < 100, 'soon')


if __name__ == '__main__':
    main(globals())
