#!/usr/bin/env python3
"""A shell's completion of the command line of a program called NAME, on standard output. All of it comes from the
tables in C, since the program itself need not run here: options and their words, methods, tasks and engines.

    python3 tools/generate/completion.py bash|zsh|fish NAME
"""
import collections
import glob
import os
import re
import sys

import manpage

ROOT = manpage.ROOT
# An option: its name, the name of its value ('': it takes none), its line of help, the words that its value may be, and
# the other kind of value: 'file', 'list' (of the words, with commas between them) or ''.
Option = collections.namedtuple('Option', 'name argument help words kind')
STRING = r'"((?:[^"\\]|\\.)*)"'
ROW = re.compile(r'\{"(--?[a-z][a-z-]*)",\s*(?:NULL|%s),\s*((?:%s\s*)+),([^{}]*)\}' % (
    STRING, STRING.replace('(', '(?:', 1)))
MODELS = 'bin', 'gguf'


def read(path):
    """A file of the sources; '' where it is not there."""
    path = os.path.join(ROOT, path)
    if not os.path.exists(path):
        return ''
    with open(path, encoding='utf-8') as file:
        return file.read()


def first_words(path, table):
    """The first string of each row of a table."""
    body = re.search(re.escape(table) + r'\[\w*\] = \{(.*?)\n\};', read(path), re.S)
    return re.findall(r'^    (?:\[\w+\] = )?\{(?:\.name = )?"([\w.-]+)"', body.group(1), re.M) if body else []


def arrays(text):
    """{name: words} of the arrays of strings."""
    found = re.findall(r'const char \*const (\w+)\[\w*\] = \{(.*?)\};', text, re.S)
    return {name: re.findall(STRING, body) for name, body in found}


def methods():
    plain = first_words('rope.c', 'rope_methods')
    return plain + first_words('rope.c', 'rope_maps') + ['dynamic', 'dynamic-yarn', 'window', 'all'] * bool(plain)


def options():
    """By the order of --help all, settings of RoPE last."""
    table, settings = read(manpage.OPTIONS), read(manpage.ROPE_SETTINGS)
    known = {}
    for path in sorted(glob.glob(os.path.join(ROOT, 'src', '**', '*.c'), recursive=True)):
        known.update(arrays(read(path)))
    known.update({**arrays(settings), **arrays(table)})  # whose own come first
    names = methods()
    jobs = re.findall(r'\{"--([a-z-]+)"[^{}]*\}(?:(?!\.value).)*?\.job = JOB', table, re.S)
    lists = {'--tasks': first_words('src/tasks/task_rows.c', 'all_tasks') + ['all'],
             '--engines': first_words('src/engines/releases.c', 'engines'),
             '--help': ['all', 'rope', 'text', 'chat', *jobs]}
    lists['--reading'] = lists['--engines']
    for name, argument, text, rest in ROW.findall(table + settings):
        words = next((known[word] for word in re.findall(r'\w+', rest) if word in known), None)
        kind = 'file' if 'FILE' in argument or name == '--quantize' else ''
        if argument == 'NAME':
            words, kind = names, 'list'
        elif name in lists:
            words, kind = lists[name], 'list' if name != '--help' else ''
        help_text = ''.join(re.findall(STRING, text)).replace('\\"', '"')
        yield Option(name, argument, re.split(r'[;([]', help_text)[0].strip(), words or [], kind)


def bash(name):
    """A function that looks at the word before the cursor and at the one before that."""
    function = '_' + re.sub(r'\W', '_', name)
    rows = list(options())
    yield '# Completion of %s for bash, written by tools/generate/completion.py' % name
    yield function + '_add() {'
    yield '    local line'
    yield '    while IFS= read -r line; do COMPREPLY+=("$line"); done'
    yield '}'
    yield function + '() {'
    yield '    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= list= files= given= done='
    yield '    # To bash the = of --rope=yarn is a word of its own.'
    yield '    if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi'
    yield '    case $before in'
    for option in rows:
        does = ["words='%s'" % ' '.join(option.words)] if option.words else []
        does += ['list=yes'] if option.kind == 'list' else []
        does += ['files=yes'] if option.kind == 'file' and not option.words else []
        does += ['given=yes'] if option.argument and not option.argument.startswith('[') else []
        if does:
            yield '    %s) %s ;;' % (option.name, '; '.join(does))
        if option.name == '--quantize':
            yield '    %s) if [[ ${COMP_WORDS[COMP_CWORD-2]} == --quantize ]]; then files=yes; given=yes; fi ;;' % (
                '|'.join(option.words))
    yield '    esac'
    yield '    COMPREPLY=()'
    yield '    if [[ $list && $word == *,* ]]; then done=${word%,*},; fi'
    yield '    [[ $words ]] && %s_add < <(compgen -P "$done" -W "$words" -- "${word##*,}")' % function
    yield '    if [[ ! $given && $word == -* ]]; then'
    yield '        %s_add < <(compgen -W "%s" -- "$word")' % (function, ' '.join(option.name for option in rows))
    yield '    elif [[ $files ]]; then'
    yield '        compopt -o filenames 2> /dev/null'
    yield '        %s_add < <(compgen -f -- "$word")' % function
    yield '    elif [[ ! $given && ! $words ]]; then'
    yield '        compopt -o filenames 2> /dev/null'
    yield '        %s_add < <(%s; compgen -d -- "$word")' % (function, '; '.join(
        "compgen -f -X '!*.%s' -- \"$word\"" % ending for ending in MODELS))
    yield '    fi'
    yield '    return 0'
    yield '}'
    yield 'complete -F %s %s' % (function, name)


def zsh(name):
    """The specifications of _arguments."""
    def spoken(text):
        return re.sub(r'([][:\\])', r'\\\1', text).replace("'", "'\\''")
    yield '#compdef %s' % name
    yield '# Completion of %s for zsh, written by tools/generate/completion.py' % name
    yield '_arguments \\'
    for option in options():
        takes_equals = option.name.startswith('--') and re.match(r'\w+$', option.argument)
        spec = '%s%s[%s]' % (option.name, '=' if takes_equals else '', spoken(option.help))
        if option.argument:
            action = ' '
            if option.kind == 'list':
                action = '_values -s , %s %s' % (option.argument.strip('[]'), ' '.join(option.words))
            elif option.words:
                action = '(%s)' % ' '.join(option.words)
            elif option.kind == 'file':
                action = '_files'
            mark = '::' if option.argument.startswith('[') else ':'
            spec += '%s%s:%s' % (mark, spoken(option.argument.strip('[]').split()[0]), action)
        if option.name == '--quantize':
            spec += ':OUT:_files'
        yield "    '%s' \\" % spec
    yield "    '1:model:_files -g \"*.(%s)(-.)\"'" % '|'.join(MODELS)


def fish(name):
    """A line for each option."""
    def spoken(text):
        return "'%s'" % text.replace('\\', '\\\\').replace("'", "\\'")
    yield '# Completion of %s for fish, written by tools/generate/completion.py' % name
    for option in options():
        begin = 'complete -c %s' % name
        flag = '-l' if option.name.startswith('--') else '-s'
        offers = ' '.join(option.words)
        offers = ' -a ' + spoken('(__fish_append , %s)' % offers if option.kind == 'list' else offers) if offers else ''
        may_lack = option.argument.startswith('[')  # then the next word may be another
        value = '' if may_lack or not option.argument else ' -r' if option.kind == 'file' and not offers else ' -x'
        yield '%s %s %s%s%s -d %s' % (begin, flag, option.name.lstrip('-'), value, '' if may_lack else offers,
                                      spoken(option.help))
        if may_lack and offers:
            yield '%s -n "test (commandline -opc)[-1] = %s"%s' % (begin, option.name, offers)


def main(arguments):
    shells = {'bash': bash, 'zsh': zsh, 'fish': fish}
    if len(arguments) != 2 or arguments[0] not in shells:
        print(__doc__.strip().split('\n')[-1].strip(), file=sys.stderr)
        return 2
    print('\n'.join(shells[arguments[0]](arguments[1])))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
