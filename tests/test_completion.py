#!/usr/bin/env python3
"""Shells' completion: bash itself, zsh and fish if they are installed, with the output of tools/generate/completion.py
from the tables in C."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

from common import METHODS, ROOT, check, good, in_work, main, read, skip, write

GENERATOR = os.path.join(ROOT, 'tools', 'generate', 'completion.py')
# The words of a command line, of which the last is not finished; words that must be offered for it, and words that must
# not.
CASES = [
    ('model.bin --kv |', 'f16 f32 q8 q4', 'model.bin yarn'), ('model.bin --kv q|', 'q8 q4', 'f16'),
    ('model.bin -m |', 'generate chat', 'model.bin'), ('model.bin --ramp |', 'dims turns', 'model.bin'),
    ('model.bin --rope |', ' '.join(METHODS) + ' rerope dca dynamic-yarn window all', 'model.bin'),
    ('model.bin --rope none,ya|', 'none,yarn', 'yarn'), ('model.bin --rope-sliding ya|', 'yarn', 'none'),
    ('model.bin --tasks passkey,co|', 'passkey,common passkey,copy', 'passkey,passkey'),
    ('model.bin --engines hf5,v|', 'hf5,vllm', 'hf5,hf5'), ('model.bin --reading |', 'hf5 vllm llama.cpp sglang', 'same'),
    ('model.bin --ch|', '--check --chunk', '--kv'), ('model.bin --check --se|', '--settings', '--check'),
    ('model.bin --check st|', 'story.txt', 'model.bin'), ('model.bin --ppl st|', 'story.txt', 'model.bin'),
    ('model.bin --rope-config c|', 'config.json', 'model.bin'), ('model.bin --quantize |', 'q8 q4 f16 f32', 'model.bin'),
    ('model.bin --quantize q4 o|', 'out.bin', 'q8 q4'), ('mo|', 'model.bin', 'story.txt'),
    ('two|', 'two words.gguf', 'story.txt'), ('--help c|', 'chat check', 'rope'), ('model.bin -n |', '', 'model.bin --kv')]
OF_SHELLS = {'bash': [('model.bin --rope = ya|', 'yarn', 'none'), ('model.bin --kv = |', 'f16 q4', 'model.bin'),
                      ('model.bin --quantize q8 two|', 'two words.gguf', '')]}


def folder():
    """A folder with files that may be offered."""
    place = in_work('completed')
    os.makedirs(place, exist_ok=True)
    for name in 'model.bin', 'two words.gguf', 'story.txt', 'config.json', 'out.bin':
        write(os.path.join(place, name), '')
    return place


def written(shell, name='rope-run'):
    """The completion in a file."""
    done = subprocess.run([sys.executable, '-S', GENERATOR, shell, name], stdout=subprocess.PIPE, check=True)
    where = in_work('functions/_' + name if shell == 'zsh' else 'completion.' + shell)
    os.makedirs(os.path.dirname(where), exist_ok=True)
    return write(where, done.stdout)


def compare(shell, offered):
    """offered(words before the last, the last word): the shell's offers."""
    for line, wanted, unwanted in CASES + OF_SHELLS.get(shell, []):
        words = line[:-1].split(' ')
        found = offered(words[:-1], words[-1])
        wanted = [wanted] if wanted.startswith('two') else wanted.split()
        if shell == 'zsh':  # which offers the last of a list alone
            wanted, unwanted = [word.rpartition(',')[2] for word in wanted], ''
        lost = [word for word in wanted if word not in found]
        more = [word for word in unwanted.split() if word in found]
        check(not lost and not more, '%s: %s' % (shell, line), 'lost %s, offered %s of %s' % (lost, more, found))


def test_every_option():
    """Every option of --help all has its place in each file, and no other has."""
    ours = set(re.findall(r'\n  (--?[a-z][a-z-]*)', good('--help', 'all').out))
    for shell, pattern in (('bash', r'(?<=[" ])--?[a-z][a-z-]*(?=[" ])'), ('zsh', r"(?m)^    '(--?[a-z][a-z-]*)"),
                           ('fish', r'(?m)^complete -c rope-run (-[ls] \S+)')):
        text = read(written(shell)).decode()
        if shell == 'bash':
            text = re.search(r'compgen -W "(-t .*?)"', text).group(0)
        found = {word.replace('-l ', '--').replace('-s ', '-') for word in re.findall(pattern, text)} - {'-W'}
        check(found == ours, shell + ' has every option', found ^ ours)
    done = subprocess.run([sys.executable, '-S', GENERATOR, 'csh', 'x'], stderr=subprocess.PIPE)
    check(done.returncode == 2 and b'bash|zsh|fish NAME' in done.stderr, 'another shell', done.stderr)


def test_bash():
    """The function that is called, as bash calls it."""
    script = written('bash')

    def offered(before, word):
        line = 'source "$1"; shift; COMP_WORDS=(rope-run "$@"); COMP_CWORD=$#; _rope_run rope-run; ' \
               'printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(['bash', '--norc', '-c', line, 'bash', script, *before, word], cwd=folder(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        check(done.returncode == 0 and not done.stderr, 'bash says nothing', done.stderr)
        return done.stdout.rstrip('\n').split('\n')
    if not shutil.which('bash'):
        return skip('completion of bash, which is not installed')
    compare('bash', offered)
    told = subprocess.run(['bash', '--norc', '-c', 'source "$1"; complete -p my.run', 'bash', written('bash', 'my.run')],
                          stdout=subprocess.PIPE, universal_newlines=True).stdout
    return check('-F _my_run my.run' in told, 'of another name', told)


def test_fish():
    if not shutil.which('fish'):
        return skip('completion of fish, which is not installed')

    def offered(before, word):
        line = ' '.join(['rope-run', *before, word])
        done = subprocess.run(['fish', '--no-config', '-c', 'source $argv[1]; complete -C $argv[2]', written('fish'), line],
                              cwd=folder(), stdout=subprocess.PIPE, universal_newlines=True,
                              env=dict(os.environ, HOME=in_work('')))
        return [row.split('\t')[0].replace('\\ ', ' ') for row in done.stdout.splitlines()]
    return compare('fish', offered)


def test_zsh():
    """At a terminal of its own, since zsh completes nowhere else."""
    if not shutil.which('zsh'):
        return skip('completion of zsh, which is not installed')
    functions, told = os.path.dirname(written('zsh')), in_work('offered.txt')
    pid, screen = pty.fork()
    if pid == 0:
        os.chdir(folder())
        os.execvpe('zsh', ['zsh', '-f', '-i'], dict(os.environ, TERM='dumb', HOME=in_work(''), TOLD=told))

    def type_keys(keys, until):
        """Types them, and waits until the file ends so."""
        os.write(screen, keys)
        limit = time.time() + 60
        while not (os.path.exists(told) and read(told).endswith(until)) and time.time() < limit:
            if select.select([screen], [], [], 0.02)[0]:
                os.read(screen, 65536)

    def offered(before, word):
        write(told, ' '.join(['rope-run', *before, word]))
        type_keys(b'\t', b'end\n')
        return [row.replace('\\ ', ' ') for row in read(told).decode().split('\n')[:-2]]
    # Tab completes the line in the file, and puts there what is offered: zsh calls compadd with all that there could be,
    # and -O keeps what fits the word.
    type_keys(("fpath=('%s' $fpath); autoload -Uz compinit; compinit -D -u; setopt no_beep\n"
               'compadd() { local -a fits; builtin compadd -O fits "$@"; print -rl -- $fits >> $TOLD; builtin compadd "$@" }\n'
               'tab() { BUFFER=$(<$TOLD); CURSOR=$#BUFFER; : > $TOLD; zle complete-word; print end >> $TOLD; BUFFER= }\n'
               "zle -N tab; bindkey '^I' tab; print end >> $TOLD\n" % functions).encode(), b'end\n')
    compare('zsh', offered)
    os.close(screen)
    return os.waitpid(pid, 0)


if __name__ == '__main__':
    main(globals())
