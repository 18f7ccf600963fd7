"""The definitions of C at file scope, and their users: a name that two files have, and files that include or use one
another in a circle. A header, the .c of its name and its private header are one file here.
"""
import collections
import os
import re

from c_source import code_of, tokens


# ---- names at file scope ----


def declarations(code):
    """Every declaration at file scope as a list of tokens; the text in brackets or braces is a list in it. The body of
    a function ends one, as a semicolon does."""
    open_lists = [[]]
    for token in tokens(code):
        if token in '([{':
            open_lists.append([token])
        elif token in ')]}' and len(open_lists) > 1:
            closed = open_lists.pop()
            open_lists[-1].append(closed)
            if token == '}' and len(open_lists) == 1 and is_function(open_lists[0]):
                yield open_lists.pop()
                open_lists.append([])
        elif token == ';' and len(open_lists) == 1:
            yield open_lists.pop()
            open_lists.append([])
        else:
            open_lists[-1].append(token)


def is_list(item, bracket):
    return isinstance(item, list) and item[0] == bracket


def is_function(declaration):
    """Parameters, and then a body."""
    return is_list(declaration[-1], '{') and len(declaration) > 1 and is_list(declaration[-2], '(')


def parts(items, separator=','):
    """The items between separators."""
    found = [[]]
    for item in items:
        if item == separator:
            found.append([])
        else:
            found[-1].append(item)
    return found


def declared_name(items):
    """Of `type *name[2] = value`, `(*name)(int)` or `name`."""
    items = parts(items, '=')[0]
    if any(is_list(item, '(') and item[1:2] == ['*'] for item in items):
        items = next(item for item in items if is_list(item, '(') and item[1:2] == ['*'])
    names = [item for item in items if isinstance(item, str) and re.match(r'[A-Za-z_]', item)]
    return names[-1] if names and names[-1] not in ('struct', 'union', 'enum') else None


def names_in(declaration):
    """(name, kind) of the definitions in a declaration."""
    for at, item in enumerate(declaration):
        if not is_list(item, '{') or not at or is_function(declaration):
            continue
        if 'enum' in declaration[max(at - 2, 0):at]:
            yield from ((constant[0], 'constant') for constant in parts(item[1:]) if constant)
        if declaration[at - 2:at - 1] and declaration[at - 2] in ('struct', 'union', 'enum'):
            yield declaration[at - 1], 'type'
    if is_function(declaration):
        yield declaration[-3], 'static' if 'static' in declaration else 'function'
        return
    is_type = declaration[:1] == ['typedef']
    is_opaque = is_type and len(declaration) == 4 and declaration[2] == declaration[3]
    brackets = [item for item in parts(declaration, '=')[0] if is_list(item, '(')]
    is_head = brackets and brackets[0][1:2] != ['*']
    if is_opaque or (is_head and not is_type) or 'extern' in declaration or len(declaration) < 2:
        return
    for part in parts(declaration):
        if declared_name(part):
            yield declared_name(part), 'type' if is_type else 'variable'


def names_of(path, text):
    """{name: kind} of all definitions of a file at its scope. Names that are only declared (the head of a function, an
    opaque struct, names that a header has neither as static nor with a value) belong to another file."""
    found = {}
    for declaration in declarations(re.sub(r'__attribute__', '', code_of(text))):
        is_own = {'static', 'typedef', '='} & {item for item in declaration if isinstance(item, str)}
        found.update((name, kind) for name, kind in names_in(declaration)
                     if kind != 'variable' or is_own or path.endswith('.c'))
    found.update((name, 'macro') for name in re.findall(r'^[ \t]*#[ \t]*define[ \t]+([A-Za-z]\w*)', text, re.M))
    return found


def declared_names(text):
    """The functions and variables that a header declares and does not define: heads of functions, also as `Type name`
    where the type is one of functions, and what is extern."""
    for declaration in declarations(re.sub(r'__attribute__', '', code_of(text))):
        if is_function(declaration) or {'static', 'typedef'} & {x for x in declaration if isinstance(x, str)}:
            continue
        at = next((i for i, item in enumerate(declaration) if is_list(item, '(')), 0)
        if 'extern' in declaration:
            yield from (name for name in map(declared_name, parts(declaration)) if name)
        elif at > 1 and declaration[at][1:2] != ['*'] and not any(is_list(item, '{') for item in declaration):
            yield declaration[at - 1]
        elif len(declaration) == 2 and all(re.match(r'[A-Za-z_]', str(item)) for item in declaration):
            yield declaration[1]  # of a type of functions


def declared_elsewhere(c):
    """(header, name, file that defines it) of {path: text}, for names that a header declares and another file
    defines."""
    places = {name: path for path, text in sorted(c.items()) if path.endswith('.c')
              for name, kind in names_of(path, text).items() if kind in ('function', 'variable')}
    for path, text in sorted(c.items()):
        if path.endswith('.h'):
            yield from ((path, name, places[name]) for name in declared_names(text)
                        if name in places and owner(places[name]) != owner(path))


def owner(path):
    """A header, the .c of its name and its private header are one."""
    return re.sub(r'(_private)?\.[ch]$', '', path)


def shared_names(c):
    """(name, [paths]) of {path: text}: the names that two files define. A separate program has its own main."""
    places = collections.defaultdict(dict)
    for path, text in sorted(c.items()):
        for name in names_of(path, text):
            places[name].setdefault(owner(path), path)
    for name, owners in sorted(places.items()):
        if len(owners) > 1 and name != 'main':
            yield name, list(owners.values())


# ---- circles ----


def mentioned(items, in_table):
    """The names of functions that are called in a body, or are in a table."""
    for at, item in enumerate(items):
        if isinstance(item, list):
            yield from mentioned(item, in_table)
        elif items[at - 1] not in ('.', '->') and (in_table or any(is_list(x, '(') for x in items[at + 1:at + 2])):
            yield item


def words_of(items):
    """All names in lists of tokens, but for members of structs."""
    for at, item in enumerate(items):
        if isinstance(item, list):
            yield from words_of(item)
        elif items[at - 1] not in ('.', '->'):
            yield item


def uses(c):
    """{file: files that it includes, or whose functions or variables it uses, such as the rows of a table}, by names
    without ending."""
    names = {path: names_of(path, text) for path, text in c.items()}
    defined = {name: owner(path) for path in names for name, kind in names[path].items() if kind == 'function'}
    declared = {name for text in c.values() for item in declarations(code_of(text)) if item[:1] == ['extern']
                for part in parts(item) for name in [declared_name(part)] if name}
    variables = {name: owner(path) for path in names for name, kind in names[path].items()
                 if kind == 'variable' and name in declared}
    arrows = {owner(path): set() for path in c}
    for path, text in c.items():
        targets = arrows[owner(path)]
        for name in re.findall(r'^\s*#\s*include "(.*)"', text, re.M):
            targets.add(owner(os.path.normpath(os.path.join(os.path.dirname(path), name))))
        for declaration in declarations(code_of(text)):
            if not is_function(declaration) and '=' not in declaration:
                continue  # members of a struct are neither functions nor variables
            inside = [item for item in declaration if is_list(item, '{')]
            called = set(mentioned(inside, not is_function(declaration))) - set(names[path])
            targets.update(defined[name] for name in called if name in defined)
            targets.update(variables[name] for name in set(words_of(inside)) - set(names[path]) if name in variables)
    return {path: {target for target in targets if target in arrows and target != path}
            for path, targets in arrows.items()}


def circles(arrows):
    """[files] of every set of files each of which leads to all the others (Tarjan's strongly connected components)."""
    number, low, stack, found = {}, {}, [], []

    def visit(path):
        number[path] = low[path] = len(number)
        stack.append(path)
        for target in sorted(arrows[path]):
            if target not in number:
                visit(target)
                low[path] = min(low[path], low[target])
            elif target in stack:
                low[path] = min(low[path], number[target])
        if low[path] == number[path]:
            at = stack.index(path)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for path in sorted(arrows):
        if path not in number:
            visit(path)
    return found


def check_scope(c):
    """Of {path: text}: a name that another file has, and circles."""
    for name, paths in shared_names(c):
        yield '%s:1: a name that another file has (%s, in %s, too)' % (paths[0], name, ' '.join(paths[1:]))
    for files in circles(uses(c)):
        yield '%s:1: files that include or use one another in a circle (%s, none)' % (files[0], ' '.join(files))
