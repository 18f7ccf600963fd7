"""The arrows: which room of the house may include which. They all point down, so that each can be read without its
users.
"""
import os
import re

# The arrows, low to high. A place is a file without its ending or a folder; it may include itself and the places listed
# here.
GROUND = ['src/base', 'src/weights', 'src/tokens']
CORE = ['rope', *GROUND, 'src/rope_settings', 'src/llama', 'src/decoder', 'src/kinds']
READING = ['src/configs', 'src/engines', 'src/options']
HIGH = CORE + ['src/fast', *READING, 'src/job']
MEASURED = HIGH + ['src/tables', 'src/measure']
JOBS = MEASURED + ['src/tasks', 'src/show', 'src/check']
ARROWS = {
    'rope': [],
    'src/base': ['rope'],
    'src/rope_settings': ['rope', 'src/base'],
    'src/weights': ['src/base'],
    'src/tokens': ['src/base'],
    'src/llama': ['rope', *GROUND, 'src/rope_settings'],
    'src/decoder': ['rope', *GROUND, 'src/rope_settings', 'src/llama'],
    'src/kinds': ['rope', *GROUND, 'src/rope_settings', 'src/llama', 'src/decoder'],
    'src/fast': CORE,
    'src/configs': CORE,
    'src/engines': CORE + ['src/configs'],
    'src/options': CORE + ['src/configs', 'src/engines'],
    'src/job': CORE + ['src/fast', *READING],
    'src/tables': HIGH,
    'src/measure': HIGH + ['src/tables'],
    'src/tasks': MEASURED,
    'src/show': MEASURED + ['src/tasks'],
    'src/check': MEASURED + ['src/tasks'],
    'run': JOBS,
    'page': JOBS,
    'tools/measure': JOBS,
}


def place_of(path):
    stem = os.path.splitext(path)[0]
    places = [place for place in ARROWS if stem == place or stem.startswith(place + '/')]
    return max(places, key=len, default=None)


def may_use(path, target):
    """Whether a file may use another one: of its own place, or of one below it."""
    stem = os.path.splitext(target)[0]
    place = place_of(path)
    return any(stem == low or stem.startswith(low + '/') for low in ARROWS[place] + [place])


def check_includes(texts):
    """texts: {path: text} of all C."""
    arrows = {path: [] for path in texts}
    for path, text in texts.items():
        place = place_of(path)
        if not place:
            yield '%s:1: the file has no place (none, one of those in tools/lint/arrows.py)' % path
            continue
        for i, line in enumerate(text.split('\n'), 1):
            for name in re.findall(r'^\s*#\s*include "(.*)"', line):
                target = os.path.normpath(os.path.join(os.path.dirname(path), name))
                arrows[path].append(target)
                if not may_use(path, target):
                    yield '%s:%d: an include against the arrows (%s, of %s)' % (
                        path, i, target, ', '.join([place] + ARROWS[place]))
    for path in arrows:
        seen, todo = set(), list(arrows[path])
        while todo:
            target = todo.pop()
            todo += [] if target in seen else arrows.get(target, [])
            seen.add(target)
        if path in seen:
            yield '%s:1: includes itself by a way round (a cycle, none)' % path
