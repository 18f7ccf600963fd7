#!/usr/bin/env python3
"""make test-world: the program compared with the publications of others. From anywhere:

    python3 tests/world [PART ...] [--planted]      parts: tokenizers turns llama server defaults engines, or engines=NAME,...
    WORLD=newest python3 tests/world                today's versions in place of those of tests/world.json

A part that cannot be had here is skipped, with a word. With --planted each part gets errors on purpose, and passes if
it notices each.
"""

import json
import os
import re
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [FOLDER, os.path.dirname(FOLDER), os.path.dirname(os.path.dirname(FOLDER))]
sys.dont_write_bytecode = True
import common  # noqa: E402

PARTS = 'tokenizers', 'turns', 'llama', 'server', 'engines', 'defaults'


def pinned():
    """Every version is one, so that the same is installed tomorrow."""
    with open(os.path.join(common.ROOT, 'tests', 'world.json')) as file:
        rules = json.load(file)
    versions = [item for rule in rules.values() for kind in rule.values() for item in kind.items()]
    wrong = [name for name, version in versions if not re.match(r'\d+\.\d+\.\d+$', version)]
    common.check(versions and not wrong, 'tests/world.json: a version is three numbers', wrong)


def part(name, *options):
    def test():
        began = time.time()
        print('---- %s ----' % name, flush=True)
        __import__(name).run(*options)
        print('%s: %.0f s' % (name, time.time() - began), flush=True)
    return test


def main():
    words = sys.argv[1:]
    planted, is_written = '--planted' in words, '--write' in words
    asked = dict(word.partition('=')[::2] for word in words if word not in ('--planted', '--write'))
    unknown = [word for word in asked if word not in PARTS]
    if unknown:
        sys.exit('tests/world: no such part: %s (expected %s)' % (unknown[0], ', '.join(PARTS)))
    if [name for name in asked if asked[name] and name != 'engines']:
        sys.exit('tests/world: only engines=NAME,... takes names')
    if is_written and (planted or os.environ.get('WORLD') == 'newest'):
        sys.exit('tests/world: --write is for the pinned packages (without --planted and WORLD=newest)')
    only = [name for name in asked.get('engines', '').split(',') if name]
    sys.argv[1:] = []
    parts = {'test_' + name: part(name, planted, *([only, is_written] if name == 'engines' else []))
             for name in PARTS if name in asked or not asked}
    common.main({'test_pinned': pinned, **parts})


if __name__ == '__main__':
    main()
