#!/usr/bin/env python3
"""Writes the tiny program as one file that reads from top to bottom: src/llama, and the parts of src/base and
src/tokens that it needs (make dist-tiny).

    python3 tools/tiny/one_file.py > run.c

Items that main does not reach are left out: functions, types, constants, and members of structs. If a Llama of
llama2.c's kind needs less than a room of src has, a file of this folder replaces it: values of settings, three types
of weights, one header and its tensors, one tokenizer, a sampler. Steps of other kinds of models (the EACH_KIND loops
of hooks.h) go, since a Llama has none. Prototypes go, too; the header's comment on a function comes before the
function."""

import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = 'tools/tiny/'  # of the replacing files

# The sections of the file, and the sources of each, in an order in which no item needs a later one.
SECTIONS = [
    ('errors, memory, files, random numbers', ['src/base/util.h', 'src/base/util.c']),
    ('settings of RoPE', ['src/base/setting.h', HERE + 'setting.inc', 'src/rope_settings.h', 'src/rope_settings.c']),
    ('weights: float32, float16 and q8', [HERE + 'weights.inc']),
    ('a model: its header and its tensors', [
        'src/base/fields.h', 'src/llama/model.h', 'src/llama/header.c', HERE + 'model.inc']),
    ('arithmetic', ['src/llama/arithmetic.h', 'src/llama/arithmetic.c']),
    ('one forward pass', ['src/llama/forward.h', 'src/llama/forward.c']),
    ('text to tokens and back', ['src/tokens/unicode.h', 'src/tokens/unicode.c', HERE + 'tokens.inc']),
    ('logits to a token', ['src/llama/sampler.h', HERE + 'sampler.inc']),
    ('a text, its perplexity, and a hidden key', [HERE + 'plan.inc', 'src/llama/tiny_text.h', 'src/llama/tiny_text.c',
                                                  'src/llama/measures.h', 'src/llama/measures.c']),
    ('the program', ['src/llama/tiny.h', 'src/llama/tiny.c']),
]
BEGINNING = '''\
// A Llama in one file: it reads a model, goes on with a prompt, and measures how a method of RoPE
// does on long texts. rope.c, beside it, has the methods. This file is made by rope.c's `make
// dist-tiny` from the sources of its ./llama; change it as you like. It reads from top to bottom:
// nothing needs what comes later, and main is the end.
//
//     make
//     ./run model.bin -n 1024 --rope yarn -t 0.8 -i "It was a fine morning in the spring when"
//     ./run model.bin -n 2048 --rope yarn --ppl tests/text.txt
//     ./run model.bin -n 1024 --rope yarn --passkey
//
// Sections:
'''


def bare(code):
    """Code without comments and strings."""
    return re.sub(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', ' ', code)


class Item:
    """A thing at the top level of a file, with the comment before it."""

    def __init__(self, comment, code, path):
        self.comment, self.code, self.path = comment, code, path
        self.uses = set(re.findall(r'(?<![.>\w])[A-Za-z_]\w*', bare(code)))  # but for members
        self.calls = set(re.findall(r'(?<![.>\w])([A-Za-z_]\w*)\(', bare(code)))
        self.kind, self.names = kind_of(bare(code), code)

    def text(self):
        return ''.join(self.comment) + self.code


def kind_of(code, whole):
    """The kind of an item, and the names that it makes."""
    flat = ' '.join(code.split())
    if flat.startswith('#define'):
        return 'macro', [re.match(r'#define (\w+)', flat)[1]]
    if flat.startswith('#'):
        return 'directive', []
    if flat.startswith('_Static_assert'):
        return 'assertion', []
    if flat.startswith('typedef'):
        function = re.match(r'typedef [\w \*]+?(\w+)\([^)]*\);$', flat)
        names = [function[1] if function else re.search(r'(\w+);$', flat)[1]]
        names += re.findall(r'typedef (?:struct|enum) (\w+)', flat)
        return 'type', names + constants(flat)
    if re.match(r'enum \{|struct \w+ \{', flat):
        return 'type', constants(flat) + re.findall(r'^struct (\w+)', flat)
    head = re.split(r'[{=]', flat, 1)[0]
    if flat.startswith('extern') or ('(' in head and flat.endswith(';') and '{' not in flat and '=' not in flat):
        name = re.search(r'(\w+)\(', head) or re.search(r'(\w+)(?:\[[^\]]*\])*;?$', head.strip())
        return 'prototype', [name[1]]
    if '(' in head and '=' not in flat.split('{')[0]:
        return 'function', [re.search(r'(\w+)\(', head)[1]]
    return 'variable', [re.search(r'(\w+)(?:\[[^\]]*\])*\s*;?$', head.strip())[1]]


def constants(flat):
    """The names of an enum."""
    body = re.search(r'enum(?: \w+)? \{(.*?)\}', flat)
    return re.findall(r'(?:^|,)\s*(\w+)', body[1]) if body else []


def items_of(path):
    """The items of a file in their order, without includes."""
    with open(os.path.join(ROOT, path), encoding='utf-8') as file:
        lines = with_one_definition(without_guesses(without_kinds(file.read()))).splitlines(True)
    comment, at = [], 0
    while at < len(lines):
        line = lines[at]
        if line.startswith('//'):
            comment.append(line)
            at += 1
            continue
        if not line.strip() or re.match(r'#(include|pragma once|define _(POSIX|FILE))', line):
            comment, at = [], at + 1
            continue
        end = end_of(lines, at)
        yield Item(comment, ''.join(lines[at:end]), path)
        comment, at = [], end


def end_of(lines, at):
    """The line after an item that begins at line `at`."""
    if lines[at].startswith('#if'):
        while not lines[at].startswith('#endif'):
            at += 1
        return at + 1
    if lines[at].startswith('#'):
        while lines[at].rstrip().endswith('\\'):
            at += 1
        return at + 1
    depth = 0
    while True:
        code = bare(lines[at])
        depth += code.count('{') + code.count('(') - code.count('}') - code.count(')')
        at += 1
        if depth == 0 and re.search(r'[;}]\s*$', code):
            return at


def without_kinds(text):
    """C without the steps of other kinds of models: loops over them, and pointers to their parts."""
    text = re.sub(r'^ *EACH_KIND(?:_THAT)? \([^;{]*?;\n', '', text, flags=re.M)
    text = re.sub(r'^( *)EACH_KIND \([^{]*?\{\n.*?^\1\}\n', '', text, flags=re.M | re.S)
    text = re.sub(r'(?:^ +//[^\n]*\n)*^ *(?:const )?struct (?:\w+Extra|\w+Parts|Kinds) \*[^\n,]*;[^\n]*\n', '', text,
                  flags=re.M)
    text = re.sub(r', \.version_\d = \w+', '', text)  # that a field needs: of files that are written
    text = re.sub(r'^ *free\(t->plain.extra\);\n', '', text, flags=re.M)
    text = re.sub(r'\(([\w>-]+) \+ Q4_PACK\)', r'\1', text).replace(' + Q4_PACK', '')  # for types with packs of rows
    return text.replace('model_open(t.path, by->known, &t.model, &err)', 'model_open(t.path, &t.model, &err)')


# Parts of only the whole program: a sentence of a comment about one of them is left out.
OF_THE_WHOLE = re.compile(r'\b(?:src|docs|tests)/|JSON|[Ss]ession|change both|fast engine|kinds that are|util\.h')


def without_strangers(comment):
    """The lines of a comment without the sentences that are about other parts of the whole program."""
    text = ' '.join(line[3:].strip() for line in comment)
    if not OF_THE_WHOLE.search(text):
        return comment
    kept = [one for one in re.split(r'(?<=[.]) (?=[A-Z])', text) if not OF_THE_WHOLE.search(one)]
    return ['// %s\n' % line for line in textwrap.wrap(' '.join(kept), 97, break_on_hyphens=False)]


def without_guesses(text):
    """C whose errors name all settings that there are, without the one that was meant, and that has no former names."""
    text = re.sub(r'^ *nearest = nearer_name\(.*\n', '', text, flags=re.M)
    text = text.replace('const char *nearest = "", *between = "";', 'const char *between = "";')
    text = text.replace('{ NOTHING, FLAG,', '{ FLAG,').replace(', SEED, PAIR }', ', SEED }')  # of other options
    text = text.replace('is: none, bool', 'is: bool').replace(',\n// uint64_t, int[2] (3.5).', ', uint64_t.')
    text = text.replace(', *older = rope_settings[i].older', '')
    text = text.replace(' && !(older && strcmp(key, older + 2) == 0)', '')
    return text.replace('fail_unknown(err, "there is no setting", key, nearest, names)',
                        'fail(err, "there is no setting \'%.100s\' (%s)", key, names)')


def with_one_definition(text):
    """C that calls the forward pass of a Llama where ./llama and ./core each bring their own Definition."""
    text = re.sub(r'(?:t->)?by->(plan|lay_out|forward|logits)\(', r'plain_\1(', text)
    text = re.sub(r'^    const Definition \*by;\n', '', text, flags=re.M)
    text = text.replace('int tiny_program(int argc, char **argv, const Definition *by)',
                        'int main(int argc, char **argv)')
    text = text.replace('return YES;', 'return 0;').replace('ok ? YES : TROUBLE', 'ok ? 0 : 2')  # the exit status
    return text.replace('.by = by, ', '').replace('by->name', '"run"')


def system_includes(paths):
    found = set()
    for path in paths:
        with open(os.path.join(ROOT, path), encoding='utf-8') as file:
            found.update(re.findall(r'^#include <(.*?)>', file.read(), re.M))
    return sorted(found)


def reached(items):
    """The items that main needs, and those that these need."""
    makers = {}
    for item in items:
        for name in item.names:
            makers.setdefault(name, []).append(item)
    todo, found, done = ['main'], set(), set()
    while todo:
        name = todo.pop()
        if name in done:
            continue
        done.add(name)
        for item in makers.get(name, ()):
            found.add(item)
            todo += item.uses
    return [item for item in items if item in found or (item.kind == 'directive' and 'FAST_MATH' in item.code)]


def whole_file():
    """The sections with the items of each, only those that main needs, and the headers' comments on functions."""
    sections, contracts = [], {}
    for title, paths in SECTIONS:
        of_section = []
        for path in paths:
            for item in items_of(path):
                if item.kind == 'prototype':
                    contracts.setdefault(item.names[0], item.comment)
                else:
                    of_section.append(item)
        sections.append((title, of_section))
    kept = reached([item for _, items in sections for item in items])
    without_unread(kept)
    without_members(kept)
    lost = [item.names[0] for _, items in sections for item in items if item.path.startswith(HERE) and item not in kept]
    if lost:
        sys.exit('one_file.py: nothing needs %s of %s' % (', '.join(lost), HERE))
    return sections, set(kept), contracts


def written(item, contracts):
    """An item in the form of the file. Functions and tables are its own; a header's comment comes first."""
    code, comment = wrapped(item.code), list(item.comment)
    if item.kind == 'function' and not code.startswith('static') and item.names[0] != 'main':
        head, body = code[:code.index('{')], code[code.index('{'):]
        code = filled('static ' + ' '.join(head.split()), 98) + ' ' + body
    if item.kind == 'variable' and not code.startswith('static'):
        code = 'static ' + code
    comment = [line for line in comment if not line.startswith('// ----')]
    if item.kind == 'function':
        said = [line for line in contracts.get(item.names[0], ()) if not line.startswith('// ----')]
        comment = comment if item.path.startswith(HERE) and comment else said + comment
    return ''.join(without_strangers(comment)) + code


def filled(line, columns=100):
    """A line, broken after commas if it is too long: the rest is aligned after its first bracket."""
    opened = min(line.find(bracket) for bracket in '({' if bracket in line)
    whole = re.sub(r'(?<!,) ', '\0', line)  # which textwrap takes for a letter
    return textwrap.fill(whole, columns, subsequent_indent=' ' * (opened + 1),
                         break_on_hyphens=False).replace('\0', ' ')


# ---- tables without unread parts ----

def parts_of(text):
    """The texts between the commas at the top level of a list."""
    parts, depth, last = [], 0, 0
    for at, code in enumerate(re.sub(r'"(?:\\.|[^"\\])*"', lambda m: '"' * len(m[0]), text)):
        depth += (code in '({[') - (code in ')}]')
        if code == ',' and depth == 0:
            parts.append(text[last:at])
            last = at + 1
    return [' '.join(part.split()) for part in parts + [text[last:]] if part.strip()]


# Structs that have members of which a Llama's program knows nothing.
WIDE = 'Model', 'ModelConfig', 'Field', 'Plain', 'RopeSettings', 'RopePlan'


def without_members(items):
    """Those structs without the members that nothing in the file names, and without the comments of these."""
    code = ''.join(bare(item.code) for item in items)
    for struct in items:
        if struct.kind != 'type' or struct.names[0] not in WIDE:
            continue
        for line in re.findall(r'^ {4}[^/\n]*;[^\n]*\n', struct.code, re.M):
            members = re.findall(r'(\w+)(?:\[\w+\])?[,;]', bare(line))
            if not any(re.search(r'(?:->|\.)%s\b' % member, code) for member in members):
                whole = re.search(r'(?:^ +//[^\n]*\n)*' + re.escape(line), struct.code, re.M)
                struct.code = struct.code.replace(whole[0], '')
        struct.code = aligned(struct.code)


def aligned(code):
    """A struct with the comments of lines that follow one another in one column."""
    def in_one_column(run):
        lines = [re.split(r'  +(?=// )', line, 1) for line in run[0].splitlines()]
        width = max(len(line[0]) for line in lines)
        made = ['%s  %s\n' % (line[0].ljust(width), line[1]) for line in lines]
        return ''.join(made) if max(map(len, made)) <= 101 else run[0]
    return re.sub(r'(?:^    \w[^\n/]*;  +// .*\n)+', in_one_column, code, flags=re.M)


def without_unread(items):
    """Settings without the members that nothing in the file reads, such as the help of ./run, and each in a line."""
    struct = next(item for item in items if 'Setting' in item.names)
    functions = ''.join(bare(item.code) for item in items if item.kind == 'function')
    members = re.findall(r'(\w+)[,;]', re.sub(r'//[^\n]*', '', struct.code.split('}')[0]))
    read = [m for m in members if re.search(r'(?:->|(?<=[\w)\]])\.)%s\b' % m, functions)]

    def lean(row):
        values, at = {}, 0
        for part in parts_of(row[2]):
            named = re.match(r'\.(\w+) = (.*)', part) or (re.match(r'IN\w*\(', part) and ['', 'place', part])
            at = members.index(named[1]) if named else at
            values[members[at]] = named[2] if named else part
            at += 1
        out, expected = [], 0
        for i, member in enumerate(read):
            if member in values:
                in_place = i == expected or member == 'place'
                out.append(values[member] if in_place else '.%s = %s' % (member, values[member]))
                expected = i + 1
        return filled('    %s{%s},' % (row[1] or '', ', '.join(out))) + '\n'

    rows = re.compile(r'^    (\[\w+\] =\s+)?\{(.*?)\},\n(?=    [\[{]|\})', re.M | re.S)
    for item in items:
        if item.kind == 'variable' and re.search(r'const Setting \w+\[', item.code):
            item.code = rows.sub(lambda m: lean([None, m[1] and ' '.join(m[1].split()) + ' ', m[2]]), item.code)
    for member in set(members) - set(read):
        struct.code = re.sub(r'(?<![\w*])\*?%s(?:, |(?=;))' % member, '', struct.code)
    struct.code = re.sub(r', ;', ';', struct.code)
    struct.code = re.sub(r'^ +(?:const char |unsigned |double )[\s*]*;[^\n]*\n', '', struct.code, flags=re.M)
    struct.code = aligned(struct.code)


def wrapped(code):
    """An enum of many names in full lines."""
    names = re.fullmatch(r'enum \{\n((?:    \w+,?\n)+)\};\n', code)
    return 'enum {\n%s\n};\n' % textwrap.fill(' '.join(names[1].split()), 96, initial_indent=' ' * 4,
                                              subsequent_indent=' ' * 4) if names else code


def in_order(items):
    """The items of a section, each after the items that it uses, else as in their files."""
    makers = {name: item for item in items for name in item.names}
    out, under_way = [], set()

    def put(item):
        under_way.add(item)
        for name in re.findall(r'(?<![.>\w])[A-Za-z_]\w*', bare(item.code)):
            needed = makers.get(name)
            if needed and needed not in under_way:
                put(needed)
        out.append(item)
    for item in items:
        if item not in under_way:
            put(item)
    return out


def ahead_of(item, later):
    """The functions that an item uses and that come later."""
    return [other for other in later if other.kind == 'function' and other.names[0] in item.calls]


def head_of(function):
    """Its prototype."""
    head = function.code[:function.code.index('{')].strip() + ';\n'
    return head if head.startswith('static') else 'static ' + head


def main():
    sections, kept, contracts = whole_file()
    out = [BEGINNING]
    out += ['//     %d. %s\n' % (i, title) for i, (title, _) in enumerate(sections, 1)]
    out += ['#define _POSIX_C_SOURCE 200809L\n#define _FILE_OFFSET_BITS 64\n#include "rope.h"\n\n']
    out += ['#include <%s>\n' % name for name in system_includes([path for _, paths in SECTIONS for path in paths])]
    ordered = [in_order([item for item in items if item in kept]) for _, items in sections]
    later, told = [item for items in ordered for item in items], set()
    for i, ((title, _), items) in enumerate(zip(sections, ordered), 1):
        out.append('\n// ======== %d. %s ========\n' % (i, title))
        before = False
        for item in items:
            later.pop(0)
            ahead = [other for other in ahead_of(item, later) if other not in told]
            told.update(ahead)
            text = ''.join(map(head_of, ahead)) + written(item, contracts)
            is_short = item.kind in ('macro', 'variable', 'type') and item.code.count('\n') == 1
            out.append(('' if is_short and before else '\n') + text)
            before = is_short
    print(''.join(out).rstrip())


if __name__ == '__main__':
    main()
