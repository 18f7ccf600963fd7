#!/usr/bin/env python3
"""How the C hangs together: the hooks by which kinds of models join, the arrows between files of each room, those that
run up, and circles.

    python3 tools/lint/storey.py          the figures
    python3 tools/lint/storey.py ROOM     and each arrow of a room, such as src/decoder

An arrow leads from a file to one that it includes, or whose functions or variables it uses, such as a row of its table;
a header, the .c of its name and its private header are one file. It runs up if it leads into a room that the file's
room may not see (arrows.py). Within a room files have no order but that of their arrows, where any circle is an arrow
up. A hook is a member of Kind or FastKind that is a function.
"""
import os
import re
import sys

from arrows import ARROWS, may_use, place_of
from c_source import c_files
from scope import circles, declared_elsewhere, uses

# The structs with hooks, and where they are: the second is their place in version 4, for make report.
HOOKS = {'Kind': ('src/llama/hooks.h', 'src/llama/kind.h'), 'FastKind': ('src/fast/hooks.h', 'src/fast/kind.h')}


def hooks_of(c):
    """{struct: names of its hooks} of {path: text}."""
    found = {}
    for name, paths in HOOKS.items():
        path = next((path for path in paths if path in c), '')
        body = re.search(r'typedef struct(?: %s)? \{((?:(?!typedef struct).)*?)\n\} %s;' % (name, name),
                         c.get(path, ''), re.S)
        text = re.sub(r'//.*', '', body[1]) if body else ''
        steps = ''.join(re.findall(r'\b(?:LayerStep|Step) ([^;]*);', text))
        found[name] = re.findall(r'\(\*(\w+)\)\(', text) + re.findall(r'\w+', steps)
    return found


def arrows_up(arrows):
    """(file, file) of each arrow that runs up, of {file: files}."""
    for path, targets in sorted(arrows.items()):
        yield from ((path, target) for target in sorted(targets) if not may_use(path, target))


def check_arrows(c):
    """For {path: text}: uses that run up, by a call or a variable where no include shows it."""
    for path, target in arrows_up(uses(c)):
        yield '%s.c:1: uses what is above it (%s, none)' % (path, target)
    for path, name, target in declared_elsewhere(c):
        if place_of(path) and not may_use(path, target):
            yield '%s:1: declares what is defined above it (%s, in %s; a header of that room)' % (path, name, target)


def main(rooms):
    c = c_files()
    arrows = uses(c)
    for name, hooks in hooks_of(c).items():
        print('hooks of %s: %d (%s)' % (name, len(hooks), ' '.join(hooks)))
    print('%-20s %5s %6s %6s' % ('room', 'files', 'inside', 'down'))
    for room in ARROWS:
        files = [path for path in arrows if place_of(path) == room]
        inside = sum(place_of(target) == room for path in files for target in arrows[path])
        print('%-20s %5d %6d %6d' % (room, len(files), inside, sum(len(arrows[path]) for path in files) - inside))
    up, round_about = list(arrows_up(arrows)), circles(arrows)
    print('arrows: %d, up: %d, circles: %d' % (sum(map(len, arrows.values())), len(up), len(round_about)))
    for path, target in up:
        print('up: %s -> %s' % (path, target))
    for files in round_about:
        print('circle: %s' % ' '.join(files))
    for path in sorted(arrows):
        if place_of(path) in rooms:
            print('%s -> %s' % (path, ' '.join(os.path.relpath(target, 'src') for target in sorted(arrows[path]))))


if __name__ == '__main__':
    main([room.rstrip('/') for room in sys.argv[1:]])
