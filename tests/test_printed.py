#!/usr/bin/env python3
"""The output below a command in documents is the command's (tools/lint/console.py). make test runs the commands that
cost little, make test-long all; docs/class.md has a checker of its own (test_class.py). Commands of released models
are run where these are at hand, and by make test-real."""

import glob
import os
import sys

from common import ROOT, RUN, check, in_work, lacks, main, read, skip, takes_long

sys.path.insert(0, os.path.join(ROOT, 'tools', 'lint'))
import console  # noqa: E402

DOCUMENTS = ['README.md', 'models/README.md'] + sorted(
    {os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, 'docs', '*.md'))} - {'docs/class.md'})
RELEASED = 'smollm2.gguf', 'gemma3.gguf', 'qwen.gguf'
# Of make test: jobs that read no text, or a short one, in half a second of CPU time at most.
QUICK = '--explain', '--engines', '--rope-json', '--attn', '--next', '--settings', 'head -c', '--answers'
OF_OTHERS = 'python3 tools/released.py', 'python3 tools/plain_text.py'  # their needs are missing in a test


def blocks_of(name):
    """[(command, lines below it)] of a document; `make &&` is left out, for it was made."""
    found = console.commands(read(os.path.join(ROOT, name)).decode())
    return [(command.replace('make && ', ''), said) for command, said in found if not command.startswith(OF_OTHERS)]


def check_document(name, is_wanted, models=()):
    """Runs a document's commands in their order; a later one may need what an earlier one wrote."""
    wanted = [pair for pair in blocks_of(name) if is_wanted(pair[0])]
    if not wanted:
        return
    folder = console.desk(in_work('%s %d' % (name.replace('/', '-'), len(wanted))), RUN, models)
    for command, said in wanted:
        needed = [word for word in command.split() if word in ('model-8k.bin', 'great-expectations.txt') or
                  word.startswith('models/') or word in RELEASED]
        lost = [word for word in needed if not os.path.exists(os.path.join(folder, word))]
        if lost:
            skip('%s: %s is not here' % (command, lost[0]))
            continue
        found, status, _, _ = console.printed(command, folder)
        good = console.first_difference(said, found) if said else None
        check(good is None, '%s: %s' % (name, command), 'not found in what it printed: %s' % good, found)
        check(status in (0, 1, 3), '%s: %s' % (name, command), 'exit status %d' % status)


def is_released(command):
    return any(model in command for model in RELEASED)


def is_quick(command):
    return any(word in command for word in QUICK) and not is_released(command)


def test_documents():
    """The quick ones."""
    if lacks('model.bin'):
        return
    check(sum(len(blocks_of(name)) for name in DOCUMENTS) >= 20, 'documents show what commands print')
    for name in DOCUMENTS:
        check_document(name, is_quick)


@takes_long
def test_long_documents():
    """All others."""
    if lacks('model.bin'):
        return
    at_hand = {name: os.path.join(ROOT, name) for name in RELEASED if os.path.exists(os.path.join(ROOT, name))}
    for name in DOCUMENTS:
        check_document(name, lambda command: not is_quick(command), at_hand)


def test_differences():
    """A number that is off, a word, a line that nothing prints and one too few are found; rounding is not."""
    said = ['none  26.58  61.82', '...', 'yarn  27.31!', 'name ...']
    for what, found, expected in (
            ('the same', ['none 26.58 61.82', 'a', 'b', 'yarn 27.31', 'name one two'], None),
            ('rounding', ['none 26.9 61.2', 'yarn 27.4', 'name'], None),
            ('a number', ['none 26.58 68.1', 'yarn 27.31', 'name'], said[0]),
            ('a word', ['nine 26.58 61.82', 'yarn 27.31', 'name'], said[0]),
            ('a line', ['none 26.58 61.82', 'name'], said[2]),
            ('one more', ['none 26.58 61.82', 'yarn 27.31', 'name', 'x'], 'nothing more, but there was: x')):
        check(console.first_difference(said, found) == expected, what + ' is found', console.first_difference(said, found))
    check(console.alike('(0.76;', '(0.77;') and console.alike('12.3:', '12.4:') and not console.alike('(0.76;', '(0.86;') and
          not console.alike('1.3.', '1.3,'), 'numbers in a sentence')


if __name__ == '__main__':
    main(globals())
