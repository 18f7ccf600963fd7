#!/usr/bin/env python3
"""A family is a row of export/families.json: the table in C is of these rows, a row more is a family more to ./run, an
engine answers for a family when its row lists it, and code names no families (tools/lint/family_names.py)."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

from common import ROOT, RUNNER, WORK, check, main, run, skip

sys.path.insert(0, os.path.join(ROOT, 'tools', 'lint'))
from family_names import check_family_names, names_of  # noqa: E402

ROWS = os.path.join(ROOT, 'export', 'families.json')
NEW = {'title': 'Newest', 'architecture': 'NewestForCausalLM',
       'defaults': {'max_position_embeddings': 4096, 'head_dim': 64, 'rope_theta': 77000.0}}
CONFIG = {'model_type': 'newest', 'hidden_size': 512, 'num_attention_heads': 8, 'num_hidden_layers': 2,
          'rope_scaling': {'rope_type': 'linear', 'factor': 2.0}}


def generator(folder=ROOT, *arguments):
    command = [sys.executable, '-S', os.path.join(folder, 'tools', 'generate', 'family_table.py'), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)


def copy_with(change):
    """A copy of the files that make the table, with other rows."""
    folder = os.path.join(WORK, 'rows')
    shutil.rmtree(folder, ignore_errors=True)
    for path in ('export', 'tools'):
        shutil.copytree(os.path.join(ROOT, path), os.path.join(folder, path),
                        ignore=shutil.ignore_patterns('__pycache__'))
    for path in ('src/configs', 'src/base', 'src/engines'):
        shutil.copytree(os.path.join(ROOT, path), os.path.join(folder, path),
                        ignore=shutil.ignore_patterns('*_table.h', '*_words.h'))
    shutil.copy(os.path.join(ROOT, 'rope.h'), folder)
    with open(ROWS, encoding='utf-8') as file:
        rows = json.load(file)
    change(rows)
    with open(os.path.join(folder, 'export', 'families.json'), 'w', encoding='utf-8') as file:
        json.dump(rows, file)
    return folder


def built_with(change):
    """(./run with other rows, the compiler's messages); no program if none of its objects exist."""
    folder = copy_with(change)
    told = generator(folder)
    if told.returncode:
        return None, told.stdout
    program, own = os.path.join(folder, 'run'), os.path.join(folder, 'family.o')
    with open(os.path.join(ROOT, 'build', 'flags')) as file:
        compiling = shlex.split(file.read())
    with open(os.path.join(ROOT, 'build', 'link')) as file:
        linking = shlex.split(file.read())
    objects = [os.path.join(base, name) for base, _, names in os.walk(os.path.join(ROOT, 'build'))
               for name in names if name.endswith('.o') and name != 'family.o'
               and os.path.isfile(os.path.join(ROOT, os.path.relpath(os.path.join(base, name),
                                                                     os.path.join(ROOT, 'build'))[:-2] + '.c'))
               and not base.startswith(os.path.join(ROOT, 'build', 'tests')) and name != 'main.o']
    for command in ([*compiling, '-c', os.path.join(folder, 'src/configs/family.c'), '-o', own],
                    [*linking, own, *objects, '-o', program, '-lm']):
        told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        if told.returncode:
            return None, told.stdout
    return program, told.stdout


def verdicts(program, config):
    path = os.path.join(WORK, 'row.json')
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(config, file)
    lines = run('--engines', '--rope-config', path, program=program).out.split('\n')
    return lines


def test_table():
    told = generator(ROOT, '--check')
    check(told.returncode == 0, 'the table in C is of export/families.json', told.stdout)
    folder = copy_with(lambda rows: None)
    check(generator(folder, '--check').returncode == 1, 'a table that is missing is told')
    check(generator(folder).returncode == 0 == generator(folder, '--check').returncode, 'and made')
    with open(os.path.join(folder, 'src/configs/made/family_table.h'), 'a') as file:
        file.write('// by hand\n')
    check(generator(folder, '--check').returncode == 1, 'one that was changed is told')


def test_bits():
    """No two words of a kind are one bit, and the last one has the highest of a FamilyWords: code that keeps words in a
    narrower integer loses it. A word more than there are bits is named."""
    with open(os.path.join(ROOT, 'src', 'configs', 'made', 'family_words.h')) as file:
        text = file.read()
    for kind in 'FAMILY', 'FEATURE', 'DOES':
        bits = [int(bit) for bit in re.findall(r'^#define %s_[A-Z_0-9]+ \(\(FamilyWords\)1 << (\d+)\)' % kind, text, re.M)]
        check(len(bits) > 10 and bits == list(range(64 - len(bits), 64)), 'the bits of ' + kind, bits)
    folder = copy_with(lambda rows: None)
    path = os.path.join(folder, 'tools', 'generate', 'family_table.py')
    with open(path) as file:
        text = file.read()
    more = "DOES_WORDS.update(('word%d' % i, '') for i in range(60))\n"
    with open(path, 'w') as file:
        file.write(text.replace('\nKNOWN = ', '\n' + more + 'KNOWN = '))
    told = generator(folder)
    check(told.returncode and 'FamilyWords has 64 bits' in told.stdout, 'words without a bit', told.stdout[-300:])


def test_rows():
    if RUNNER or not os.path.exists(os.path.join(ROOT, 'build', 'link')):
        return skip('other rows (./run was not built here)')
    program, said = built_with(lambda rows: rows.update(newest=NEW))
    if not check(program, 'a row more compiles', said):
        return
    lines = verdicts(program, CONFIG)
    unseen = [line for line in lines if 'not looked at' in line]
    check(len(unseen) == 9, 'no engine answers for a family that nobody looked at', lines)
    seen = dict(NEW, seen=['hf5', 'vllm@0.24'], engines={'vllm': {'refuses': 'KeyError: it is new'}})
    program, said = built_with(lambda rows: rows.update(newest=seen))
    lines = verdicts(program, CONFIG) if check(program, 'a row with engines compiles', said) else []
    unseen = [line for line in lines if 'not looked at' in line]
    check(len(unseen) == 7, 'those answer that its row lists', lines)
    check(any('vllm' in line and 'it is new' in line for line in lines), 'with what the row says of them', lines)


def test_wrong_rows():
    for what, row, expected in (
            ('a word that nobody reads', {'engines': {'hf5': {'thetas': 1}}, 'seen': ['hf5']}, 'nobody reads thetas'),
            ('an engine that was not seen', {'engines': {'vllm': {}}, 'seen': ['hf5']}, 'vllm is not among those seen'),
            ('a feature that is none', {'always': ['wheels']}, 'there is no feature wheels'),
            ('a quirk that is none', {'engines': {'hf5': {'does': ['wheels']}}, 'seen': ['hf5']}, 'there is no wheels'),
            ('a place of full layers that is none', {'layers': {'full': 'middle'}}, 'layers.full: there is no middle'),
            ('types that are none', {'rope': {'types': 'all'}}, 'rope.types: there is no all')):
        told = generator(copy_with(lambda rows: rows.update(newest=dict(NEW, **row))))
        check(told.returncode and expected in told.stdout, what, told.stdout[-300:])


def test_names():
    found = list(check_family_names())
    check(not found, 'code names no families', found[:5])
    with open(ROWS, encoding='utf-8') as file:
        names = names_of(json.load(file))
    check({'phi3', 'gpt-oss', 'gemma4_unified', 'LlamaForCausalLM'} <= names, 'names are of all kinds', names)
    for path, text, count in (
            ('src/a.c', '// is "phi3"\nbool a = is("phi3 olmo3");', 2), ('src/a.c', 'f("llama.cpp");', 0),
            ('src/a.h', 'const char *a = "{\\"model_type\\": \\"qwen3\\"}";', 1),
            ('export/a.py', '"""For phi3."""\nx = {"a": "phi3"}  # olmo2\n', 1),
            ('page/src/a.js', "if (type === 'gpt_oss') f(); // or phi3", 1)):
        found = list(check_family_names({path: text}))
        check(len(found) == count, 'names in %s' % text, found)


if __name__ == '__main__':
    main(globals())
