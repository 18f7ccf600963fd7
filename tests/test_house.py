#!/usr/bin/env python3
"""The house: nothing in the repository is against the style (tools/house.py), the checker finds what it should and no
more, and what the README says under "Reading the code" and docs/code.md after it is so: the files, their lines, the
length of the walk."""

import os
import re
import subprocess
import sys

from common import ROOT, check, house as c_files, main

sys.path.insert(0, os.path.join(ROOT, 'tools'))
import density  # noqa: E402
import house  # noqa: E402

WALK = 2200  # lines at most in the numbered rows

# ---- the style ----


def test_repository():
    found = [*house.findings(*house.all_files()), *density.check_density(house.c_files())]
    found = [line for line in found if not house.is_measured(line)]
    check(not found, 'tools/house.py finds nothing', '%d findings: %s' % (len(found), '; '.join(found[:5])))


GOOD = r'''// A file that is as it should be: don't count "what; is, quoted" here.
#include "good.h"

#include <stdio.h>

#define TWICE(f) f(1), f(2); f(3)

enum { ONE = 1, TWO, THREE = (1, 3) };
typedef struct { int a, b; } Pair;
typedef struct {
    int a, *b;
    struct {
        float x, y;
    } inside, *other;
} Deep, *DeepPointer;
static const int table[] = {1, 2, 3}, more = 4;
static const struct {
    const char *name;
    int value;
} rows[] = {
    {"a;b", ONE},
    {"c", TWO},
};

static inline int one_line(int x) { return x; }
static void nothing(void) {}
void declared(int a, int b, int c, int d, int e, int f, int g, int h);

int seven(int a, int b, int (*c)(int, int), int d, int e, int f,
          int g) {
    int i, j = 0, k[2] = {1, 2};
    size_t n = 0, m = sizeof(size_t);
    int (*called)(int, int) = c, *at = k;
    const Pair *p = NULL, pair = (Pair){1, 2};
    for (i = 0, j = 1; i < 3; i++, j--) printf("%d, %d;", i, j);
    for (int x = 0, y = 1; x < y; x++) {
    }
    if (a) return c(a, b);
    else b = c(ONE, 2);
    switch (d) {
    case ONE: declared(1, 2, 3, 4, 5, 6, 7, 8); break;
    case ';': i = ','; break;
    case TWO: j++; return j;
    default: return 1;
    }
    do i++; while (i < 3);
    goto done;
done:
    if (n) return (int)(n + m);
    return p ? pair.a : k[j];
}
'''
HEAD = '// A file.\n'
BODY = HEAD + 'int f(int a, int b) {\n    %s\n}\n'


def test_checker_on_c():
    check(list(house.check_c('a.c', GOOD)) == [], 'a good file has no findings', list(house.check_c('a.c', GOOD)))
    parameters = ', '.join('int %s' % letter for letter in 'abcdefghi')
    for what, text, line, words in (
            ('a wide line', HEAD + '// ' + 'x' * 118 + '\n', 2, '121 columns'),
            ('a tab', HEAD + '\tint x;\n', 2, 'white space'),
            ('trailing spaces', HEAD + 'int x; \n', 2, 'white space'),
            ('a long file', HEAD + '\n' * 496, 450, '496 lines'),
            ('no first sentence', '#include <stdio.h>\n', 1, 'what the file is'),
            ('a long function', HEAD + 'int f(void) {\n' + '    f();\n' * 54 + '}\n', 2, 'f is too long (56 lines'),
            ('a long signature', HEAD + 'int f(int a,\n      int b) {\n' + '    f();\n' * 53 + '}\n', 2, '56 lines'),
            ('nine parameters', HEAD + 'static int f(%s) { return a; }\n' % parameters, 2, 'parameters (9'),
            ('nine in two lines', HEAD + 'int f(%s) {\n}\n' % parameters.replace('d,', 'd,\n   '), 2, 'parameters (9'),
            ('a = 1, b = 2', BODY % 'a = 1, b = 2;', 3, 'comma'),
            ('a comma of calls', BODY % 'free(a), free(b);', 3, 'comma'),
            ('a comma behind if', BODY % 'if (a) a = 1, b = 2;', 3, 'comma'),
            ('a comma behind else', BODY % 'if (a) b = 1;\n    else a = 1, b = 2;', 4, 'comma'),
            ('a comma behind for', BODY % 'for (int i = 0; i < 2; i++) a++, b++;', 3, 'comma'),
            ('a comma in a case', BODY % 'switch (a) {\n    case 1: a = 1, b = 2; break;\n    }', 4, 'comma'),
            ('a comma behind return', BODY % 'return f(a, b), a;', 3, 'comma'),
            ('a comma of casts', BODY % '(void)a, (void)b;', 3, 'comma'),
            ('two statements', BODY % 'a++; b++;', 3, 'statements on one line (2'),
            ('two in a block', BODY % 'if (a) { a++; b++; }', 3, 'statements on one line (2'),
            ('three in a case', BODY % 'switch (a) {\n    case 1: a++; b++; break;\n    }', 4, 'line (2')):
        found = list(house.check_c('a.c', text))
        check(len(found) == 1 and found[0].startswith('a.c:%d: ' % line) and words in found[0], what, found)


def test_checker_on_includes():
    def found(**includes):
        texts = {path.replace('__', '/') + '.h': HEAD + ''.join('#include "%s"\n' % name for name in names)
                 for path, names in includes.items()}
        return list(house.check_includes(texts))
    good = found(run=['rope.h', 'src/settings/options.h', 'src/job/chat.h'],
                 src__job__chat=['../tokens/tokenizer.h', '../base/util.h'],
                 src__llama__model=['../../rope.h', '../base/util.h'], src__fast__team=['../base/util.h'],
                 src__fast__attention=['../llama/model.h', 'kernels.h'], src__base__settings=['../../rope.h', 'util.h'],
                 src__settings__methods=['../base/settings.h'], src__measure__table=['../settings/options.h'])
    check(good == [], 'includes down the arrows', good)
    for what, includes in (('core of rope', {'rope': ['src/base/util.h']}),
                           ('fast of llama', {'src__llama__model': ['../fast/attention.h']}),
                           ('settings of llama', {'src__llama__model': ['../settings/methods.h']}),
                           ('settings of fast', {'src__fast__session': ['../settings/methods.h']}),
                           ('fast of settings', {'src__settings__methods': ['../fast/session.h']}),
                           ('engines of configs', {'src__configs__config_reader': ['../engines/engines.h']}),
                           ('settings of engines', {'src__engines__reading': ['../settings/options.h']}),
                           ('measure of job', {'src__job__chat': ['../measure/table.h']}),
                           ('chat of llama', {'src__llama__plain': ['../job/chat.h']}),
                           ('measure of settings', {'src__settings__options': ['../measure/measure.h']}),
                           ('run of measure', {'src__measure__bench': ['../../run.h']})):
        faults = found(**includes)
        check(len(faults) == 1 and ':2: ' in faults[0] and 'arrows' in faults[0], 'against the arrows: ' + what, faults)
    check('no place' in ''.join(found(src__lost=[])), 'a file without a place', found(src__lost=[]))
    cycle = found(src__llama__a=['b.h'], src__llama__b=['a.h'], src__llama__c=['a.h'])
    check(len(cycle) == 2 and all('cycle' in fault for fault in cycle), 'a cycle, at both of its files', cycle)


def test_checker_on_all():
    casts = {'rope.c': HEAD + '// (size_t)\nlong x = sizeof(size_t);\n' + 'long y = (size_t)1;\n' * 109}
    check(list(house.findings(casts, {})) == [], '109 casts', list(house.findings(casts, {})))
    casts['rope.c'] += 'long z = (size_t)1;\n'
    check('110 of (size_t)' in ''.join(house.findings(casts, {})), '110 casts')


def test_checker_on_a_llama():
    """What makes a Llama alone too long, and each word of another family."""
    texts = {'rope.c': HEAD + '\n' * (house.CLOSED_LINES - 2), 'src/llama/main.c': HEAD}
    check(list(house.check_closed(texts)) == [], 'a Llama as long as it may be', list(house.check_closed(texts)))
    texts['rope.c'] += '\n'
    found = list(house.check_closed(texts))
    check(len(found) == 1 and 'too long (%d lines' % (house.CLOSED_LINES + 1) in found[0], 'a line more', found)
    for line in ('// the router chooses', 'int n_experts;', 'Matrix latent_a;', 'float *states;', 'bool sliding_rope;',
                 'int per_layer_dim;', 'ENCODING_ALIBI,', '// a jump in the text', 'x = gelu(y);'):
        found = list(house.check_closed({'src/llama/model.h': HEAD + line + '\n'}))
        check(found and found[0].startswith('src/llama/model.h:2: a word'), 'planted: ' + line, found)
        check(not list(house.check_closed({'src/kinds/model.h': HEAD + line + '\n'})), line + ' in a kind')
    check(not list(house.check_closed({'src/llama/a.c': HEAD + 'uint64_t state;\n'})), "a sampler's state")
    line = {'src/fast/kv_cache.c': 'if (m->extra->latent.kv_rank) f();\n', 'src/fast/latent.c': 'm->extra->latent.x\n'}
    check(list(house.kinds_outside(line)) == [('src/fast/kv_cache.c', 1, 'latent')], 'a kind outside its slices')


def test_ruler():
    """What is past a limit is told; what fails is a tenth over it; and no comment fails."""
    function = HEAD + 'int f(void) {\n%s}\n'
    for what, text, told, fails in (
            ('as long as it may be', function % ('    f();\n' * 48), False, False),
            ('a line over', function % ('    f();\n' * 49), True, False),
            ('a tenth over', function % ('    f();\n' * 53), True, False),
            ('more than that', function % ('    f();\n' * 54), True, True),
            ('long by its comments', function % ('    // why\n    f();\n' * 48), True, False),
            ('a long file', HEAD + '\n' * 450, True, False),
            ('a file long by its comments', HEAD + '// why\n' * 600, True, False),
            ('seven parameters and one', HEAD + 'int f(%s) {\n}\n' % ', '.join('int ' + x for x in 'abcdefgh'), True,
             False)):
        limits, walls = list(house.check_c('a.c', text, 1)), list(house.check_c('a.c', text))
        check((len(limits), len(walls)) == (told, fails), 'the ruler: ' + what, (limits, walls))
    texts = {'src/llama/main.c': HEAD + 'int f(void) {\n%s}\n' % ('    f();\n' * 54), 'rope.c': HEAD + '\n' * 460}
    found = list(house.findings(texts, {}))
    said = list(house.ruler(found, texts, {}))
    check(len(found) == 1 and 'f is too long (56' in found[0], 'one of two lengths fails', found)
    check(len(said) == 2 and 'rope.c' in said[0] and '461 lines, at most 450' in said[0] and said[1] ==
          'the core has %d lines (at most 7000), a Llama alone %d (at most 1720)' % (518, 518),
          'the ruler tells the other one, and the sums', said)
    python = '"""A file."""\n' + '# why\n' * 600
    check(list(house.check_python('tools/a.py', python)) == [], 'comments of Python fail nothing')
    check('601 lines' in ''.join(house.check_python('tools/a.py', python, 1)), 'they are told')


def test_checker_on_core():
    walls = house.CORE_LINES * 11 // 10
    lines = {'rope.c': HEAD + '\n' * walls, 'src/llama/main.c': HEAD}
    check(list(house.check_core(lines)) == [], 'a core as long as it may be', list(house.check_core(lines)))
    lines['rope.c'] += '\n'
    found = list(house.check_core(lines))
    check(len(found) == 1 and 'core is too long (%d lines' % (walls + 1) in found[0], 'a line more', found)
    for line in ('#ifdef __AVX2__', '#if defined __aarch64__ && 1', '#  elif defined(__wasm_simd128__)',
                 '#ifdef _OPENMP', '#pragma omp parallel', '#include <immintrin.h>', '#include <omp.h>'):
        found = list(house.check_core({'src/llama/forward.c': HEAD + line + '\n'}))
        check(len(found) == 1 and found[0].startswith('src/llama/forward.c:2: about processors'), line, found)
        check(not list(house.check_core({'src/fast/simd.h': HEAD + line + '\n'})), line + ' in the fast engine')
    found = list(house.check_core({'rope.h': HEAD + '#if defined __FAST_MATH__\n#pragma once\n'}))
    check(not found, 'other conditions', found)


def test_checker_on_python():
    good = '"""A file."""\nimport os\n\n\ndef f(a, b=1, *c, **d):\n    if a:\n        return b\n    return os, c, d\n'
    found = list(house.check_python('tools/a.py', good))
    check(found == [], 'a good file of Python', found)
    long = '"""A file."""\n\n\ndef f(%s):\n' + '    print()\n' * 55
    for what, text, words in (('no docstring', 'import os\n', 'says what it is'),
                              ('two statements', good + 'f(1); f(2)\n', 'one line'),
                              ('a body on the line', good + 'if f(1): f(2)\n', 'one line'),
                              ('a wide line', good + '# ' + 'x' * 119 + '\n', '121 columns'),
                              ('a long file', good + '\n' * 495, 'lines, at most 450'),
                              ('a long function', long % '', '56 lines'),
                              ('nine parameters', good + 'def g(a, b, c, d, e, *, f, **g):\n    pass\n'
                               .replace('*,', 'i, *h,'), 'parameters (9')):
        found = list(house.check_python('tools/a.py', text))
        check(len(found) == 1 and words in found[0], 'Python: ' + what, found)
    check(list(house.check_python('tests/a.py', long % '')) == [], 'tests may have long functions')


# ---- how dense it is ----

TEN = 'int a = f(1, 2);\n'  # tokens


def test_tokens():
    for text, expected in (
            ('', (0, 0)), (TEN, (10, 1)), ('// a comment\n\n' + TEN, (10, 1)), ('a /* b\n c */ d\n', (2, 2)),
            ('#include <stdio.h>\n', (7, 1)), ("'x', '\\'', \"a \\\" // b\"\n", (5, 1)),
            ('a->b++ <<= 1.5e-3f;\n', (7, 1)),
            ('x >>= ~0x1fULL && y...\n', (7, 1)), ('a // b "c\n"d // e"\n', (2, 2)), ('a-1 + -.5e+1\n', (6, 1))):
        found = density.tokens_of(text)
        check(found == expected, 'tokens and lines of %r' % text, found)
    check(density.wide_lines('x' * 100 + '\n' + 'x' * 101 + '\n') == 1, 'a line of 101 columns')
    body = 'int f(int a) {\n    %s\n}\n'
    for text, count in (('return a;', 0), ('if (a && a || a) a ? f(1) : f(2);', 3), ('"if"; /* for */ iffy();', 0),
                        ('for (;;) while (a) switch (a) { case 1: break; default: break; }', 3)):
        found = list(density.branches_of(HEAD + body % text))
        check(found == [(2, 'f', count)], 'branches of %r' % text, found)


def test_names():
    text = '''#include "x.h"
#define MACRO 1
  #  define CALLED(x) (x)
#define _GNU_SOURCE
enum { ONE = 1, TWO = (1, 2), THREE };
enum Colour { RED, GREEN };
typedef enum { X } Kind;
typedef struct Opaque Opaque;
typedef struct { int field, *other; void (*call)(int); } Record;
struct Tag { int inside; };
typedef struct Tag *TagPointer, TagAlias;
typedef float vf __attribute__((vector_size(16)));
typedef int Callback(int parameter);
typedef void (*Pointer)(int named);
extern int elsewhere;
int head(int parameter);
static int forward(int parameter);
static const struct { int row; } table[] = {{ONE}, {TWO}}, more;
static int (*called)(int) = forward;
int plain, *pointer = &plain, list[2][3] = {{1, 2}};
static int forward(int parameter) { int local = parameter; return local; }
struct Tag *function(struct Tag *t) { enum { LOCAL }; return t; }
'''
    expected = ('''CALLED Callback Colour GREEN Kind MACRO ONE Pointer RED Record THREE TWO Tag TagAlias TagPointer X
                called forward function list more plain pointer table vf''').split()
    found = density.names_of('a.c', text)
    check(sorted(found) == expected, 'names of a file', sorted(set(found) ^ set(expected)))
    check(found['forward'] == 'static' and found['function'] == 'function' and found['table'] == 'variable', 'kinds',
          found)
    header = 'extern int a;\nCallback b, c;\nstatic int d;\ntypedef int e;\nint f = 1;\n'
    found = density.names_of('a.h', header)
    check(sorted(found) == ['d', 'e', 'f'], 'names of a header', sorted(found))
    shared = list(density.shared_names({
        'a.h': 'typedef int T;\nint f(void);\n', 'a.c': 'typedef int T;\nstatic int g;\n',
        'a_private.h': 'typedef int T;',
        'b.c': 'int f(void) {}\nenum { g };\nint main() {}\n', 'c.c': 'int main() {}\n'}))
    check(shared == [('g', ['a.c', 'b.c'])], 'a name of two files', shared)


def test_circles():
    def found(**texts):
        return density.circles(density.uses({name.replace('_dot_', '.'): text for name, text in texts.items()}))
    check(found(a_dot_h='', a_dot_c='#include "a.h"\n#include "b.h"\n', b_dot_h='#include "a.h"\n') == [['a', 'b']],
          'a header that includes what its own file includes')
    calls = {'a_dot_c': 'void a(void) { b(1); }\n', 'b_dot_c': 'int b(int x) { return c(x); }\n'}
    check(found(**calls, c_dot_c='int c(int x) { return 0; }\n') == [], 'calls one way')
    check(found(**calls, c_dot_c='int c(int x) { a(); }\n') == [['a', 'b', 'c']], 'calls in a circle')
    check(found(**calls, c_dot_c='Call *const table[] = {a};\n int c(int x) {}\n') == [['a', 'b', 'c']], 'by a table')
    for text in ('int c(int x) { x.a(); x->a(); }', 'int c(int a) { return a; }', 'int a(void);\nint c(int x) {}',
                 'static int a(void) {}\nint c() { a(); }'):
        check(found(**calls, c_dot_c=text + '\n') == [], 'not a call: ' + text, found(**calls, c_dot_c=text))


def test_limits_of_density():
    """Each limit finds what is past it."""
    wide = '// ' + 'x' * 98 + '\n'
    for what, c, words in (
            ('dense', {'a.c': TEN.replace('2', '2, 3, 4') + TEN}, ''),
            ('too dense', {'a.c': TEN.replace('2', '2, 3, 4') * 2}, 'a.c:1: too dense (14.00 tokens'),
            ('a dense header', {'a.h': TEN.replace('2', '2, 3, 4'), 'a.c': TEN * 9}, 'a.h:1: too dense'),
            ('a dense file', {'a.c': TEN.replace('2', '2, 3, 4'), 'a.h': TEN * 9}, 'a.c:1: too dense'),
            ('a tenth over', {'a.c': 'int a = f(1, 2, 3);\n' + TEN.replace('2', '2, 3, 4')}, ''),
            ('fifteen branches', {'a.c': BODY % ('if (a)\n' * 15)}, ''),
            ('sixteen', {'a.c': BODY % ('if (a)\n' * 16)}, 'a.c:2: f has too many branches (16, at most 13)'),
            ('a name', {'a.c': 'int x;\n', 'b.c': 'int x;\n'}, 'a.c:1: a name that another file has (x, in b.c'),
            ('a circle', {'a.h': '#include "b.h"\n', 'b.h': '#include "a.h"\n'}, 'in a circle (a b, none)'),
            ('wide lines', {'a.c': wide * 10 + '\n' * 990}, ''),
            ('too many', {'a.c': wide * 10 + '\n' * 90}, 'src:1: too many lines past 100 columns (10 of 100')):
        faults = list(density.check_density(c))
        check(len(faults) == bool(words) and words in ''.join(faults), 'density: ' + what, faults)


# ---- README, Reading the code, and docs/code.md ----

def section_of(readme):
    return readme.partition('\n## Reading the code\n')[2].partition('\n## ')[0]


def rows_of(section):
    """(number or None, [what is linked or named as a folder], lines or None) of every row that names something."""
    for line in section.splitlines():
        first, *cells = [cell.strip() for cell in line.strip().strip('|').split('|')] if line[:1] == '|' else ['x']
        if not re.fullmatch(r'\d*|-', first):
            continue
        paths = re.findall(r'\[[^]]*\]\(([^):#]*)[^)]*\)', ' '.join(cells))
        paths = [path.rstrip('/') for path in paths if path.strip()]
        if not paths:  # a room, by its name
            paths = re.findall(r'(?<![\w/.])((?:src|export|tools|tests|docs)(?:/\w+)?)/?(?![\w/.])', cells[0])
        counts = [int(cell.replace(',', '')) for cell in cells if re.fullmatch(r'\d[\d,]*', cell)]
        if paths:
            yield int(first) if first.isdigit() else None, paths, counts[0] if counts else None


def lines_of(path, elsewhere=()):
    """A file's, or those of all C and Python in a folder but of what is linked elsewhere."""
    path = os.path.join(ROOT, path)
    if os.path.isfile(path):
        with open(path, encoding='utf-8') as file:
            return sum(1 for _ in file)
    inside = [os.path.join(place, name) for place, _, names in os.walk(path) for name in names]
    return sum(lines_of(name) for name in inside
               if name.endswith(('.c', '.h', '.py')) and os.path.relpath(name, ROOT) not in elsewhere)


def reading_faults(section):
    """What is not as the section says."""
    rows, linked = list(rows_of(section)), set()
    walk = [(number, count) for number, _, count in rows if number is not None]
    if not walk:
        yield 'there is no walk: rows like | 1 | [run.c](run.c) | 312 | the program |'
    for _, paths, _ in rows:
        linked.update(paths)
    for number, paths, count in rows:
        lost = [path for path in paths if not os.path.exists(os.path.join(ROOT, path))]
        if lost:
            yield 'there is no ' + ', '.join(lost)
            continue
        if number is not None and count is None:
            yield 'row %d states no lines' % number
        sizes = {sum(map(lines_of, paths)), sum(lines_of(path, linked) for path in paths)}
        if count is not None and not any(abs(count - size) * 10 <= size for size in sizes):
            yield '%s: %d lines are stated (there are %s)' % (' '.join(paths), count, ' or '.join(map(str, sizes)))
    if [number for number, _ in walk] != list(range(1, len(walk) + 1)):
        yield 'the walk is not numbered from 1 on'
    total = sum(count or 0 for _, count in walk)
    if total > WALK:
        yield 'the walk has %d lines (at most %d)' % (total, WALK)
    prose = ' '.join(line for line in section.splitlines() if line[:1] != '|').replace(',', '')
    if str(total) not in re.findall(r'\d+', prose):
        yield "the walk's sum is not stated (%d)" % total
    for path in c_files('src') + ['rope.c', 'rope.h', 'run.c']:
        folders = {path.rsplit('/', n)[0] for n in range(1, path.count('/'))} | {os.path.dirname(path)}
        if path not in section and not (folders - {'', 'src'}) & linked:
            yield path + ' is not named'


def document(path):
    with open(os.path.join(ROOT, path), encoding='utf-8') as file:
        return file.read()


def test_reading_the_code():
    walk, rest = section_of(document('README.md')), document('docs/code.md')
    faults = list(reading_faults(walk + rest.replace('](../', '](')))
    check(not faults, 'README, Reading the code', '%d faults: %s' % (len(faults), '; '.join(faults[:6])))
    rooms = [paths for number, paths, _ in rows_of(walk) if number is None]
    check(not rooms and '(docs/code.md)' in walk, 'the README has the walk, and leads to the rest', rooms)


def ahead(section, text_of):
    """(file, header) where a step of the walk includes what no step up to it has, and what the prose does not name."""
    read = set(re.findall(r'\]\(([^)]*\.h)\)', '\n'.join(x for x in section.splitlines() if x[:1] != '|')))
    for number, paths, _ in rows_of(section):
        read.update(paths)
        for path in paths if number else ():
            for name in re.findall(r'^#include "(.*)"', text_of(path), re.M):
                header = os.path.normpath(os.path.join(os.path.dirname(path), name))
                if header not in read:
                    yield path, header


def test_order_of_the_walk():
    """A step of the walk needs no later one, and the headers that it leans on beside the walk are named."""
    walk = section_of(document('README.md'))
    check(not list(ahead(walk, document)), 'the walk needs nothing from later', list(ahead(walk, document)))
    texts = {'a.c': '#include "a.h"\n#include "b.h"\n', 'a.h': '', 'b.h': '#include "c.h"\n'}
    rows = ['| 1 | [a](a.h) [a](a.c) | 9 | |', '| 2 | [b](b.h) | 1 | |']
    for what, lines, expected in (('b too late', rows + ['', 'See [c](c.h).'], [('a.c', 'b.h')]),
                                  ('c not named', [rows[1].replace('2', '1'), rows[0].replace('1', '2')],
                                   [('b.h', 'c.h')])):
        found = list(ahead('\n'.join(lines), texts.get))
        check(found == expected, 'a walk with ' + what, found)


def test_story():
    """What --check reads is book.txt, as tools/prose.py writes it."""
    made = subprocess.run([sys.executable, 'tools/prose.py'], cwd=ROOT, stdout=subprocess.PIPE, universal_newlines=True)
    check(made.stdout == document('src/measure/prose.inc'), 'src/measure/prose.inc is what tools/prose.py writes')
    pieces = re.findall(r'^    "(.*)"$', made.stdout, re.M)
    text = re.sub(r'\\(.)', lambda m: '\n' if m[1] == 'n' else m[1], ''.join(pieces))
    check(text == document('book.txt'), 'the story as a string of C is book.txt', len(text))


def test_map_of_tests():
    """tests/README.md has every test file, and no other."""
    named = set(re.findall(r'\btest_[a-z_]+\.py\b', document('tests/README.md')))
    there = {name for name in os.listdir(os.path.join(ROOT, 'tests')) if re.fullmatch(r'test_\w+\.py', name)}
    check(named == there, 'tests/README.md names the test files', (sorted(named - there), sorted(there - named)))
    alone = {name for name in os.listdir(os.path.join(ROOT, 'tests')) if name.endswith('.c')
             and not name.startswith('test_')}
    check(not alone, 'a test in C is called after what drives it', alone)


def test_reading_itself():
    """The test of the section, on sections made up here."""
    rope, util = lines_of('rope.c') + lines_of('rope.h'), lines_of('src/settings/methods.c')
    text = lines_of('src/tokens')
    rest = [path for path in c_files('src') if not path.startswith(('src/tokens/', 'src/settings/methods.c'))]
    rest.append('run.c')
    good = '''Two files, %s lines.

| | file | lines | what it is |
| --- | --- | --- | --- |
| 1 | [rope.c](rope.c), [rope.h](rope.h) | %d | methods, in 7 rows |
| 2 | [methods](src/settings/methods.c) | %d | small things |

| | room | lines | |
|---|---|---|---|
| | src/tokens | %d | words |
| - | %s | | others |
''' % (format(rope + util, ','), rope, util, text, ' '.join('[x](%s)' % path for path in rest))
    check(not list(reading_faults(good)), 'a good section', list(reading_faults(good)))
    check(section_of('# a\n\n## Reading the code\n\nx\n\n## next\n') == '\nx\n', 'the section is found')
    near, far = str(int(rope * 1.08)), str(int(rope * 1.15))
    stated = good.replace(format(rope + util, ','), str(int(near) + util))
    check(not list(reading_faults(stated.replace('| %d | methods' % rope, '| %s | methods' % near))), 'nearly right')
    for what, section, words in (
            ('no rows', 'Read it.', 'no walk'),
            ('a count that is off', good.replace('| %d | methods' % rope, '| %s | methods' % far), 'rope.c rope.h'),
            ('a room that is off', good.replace('| %d | words' % text, '| %d | words' % (text * 2)), 'src/tokens'),
            ('a file that is not there', good.replace('settings/methods.c', 'opts.c'), 'there is no src/opts.c'),
            ('no count', good.replace('| %d | small' % util, '| | small'), 'row 2 states no lines'),
            ('no sum', good.replace('%s lines' % format(rope + util, ','), 'all'), 'sum is not stated'),
            ('a file left out', good.replace('[x](run.c)', ''), 'run.c is not named'),
            ('a room left out', good.replace('src/tokens |', 'words |'), 'src/tokens/encode.c is not named'),
            ('a number left out', good.replace('| 2 |', '| 3 |'), 'numbered'),
            ('a walk too long', good.replace('| %d | methods' % rope, '| %d | methods' % WALK), 'at most 2200')):
        faults = list(reading_faults(section))
        check(any(words in fault for fault in faults), 'a section with ' + what, faults)


main(globals())
