"""--engines and --reading held against the engines' own packages: every inverse frequency, the attention factor,
max_len, and what is refused. tests/world.json has the releases, by the names that --engines takes.

    WORLD=newest python3 tests/world engines    newest packages; differences are printed: how a stale row is found
    python3 tests/world engines --write         tests/engines/readings.tsv and frequencies.tsv anew
"""

import json
import os
import shutil
import subprocess
import sys
import time

import engine_cases
import packages
from common import ROOT, RUN, case, check, in_work, skip, write
from install import NEWEST, Missing

RECIPES = os.path.join(ROOT, 'tests', 'world', 'recipes')
SCRIPTS = {'hf5': 'run_transformers.py', 'hf4': 'run_transformers.py', 'vllm': 'run_vllm.py',
           'sglang': 'run_sglang.py', 'mlx-lm': 'run_mlx.py', 'exllamav3': 'run_exllamav3.py',
           'llama.cpp': 'run_llamacpp.py'}
LIMIT = 400  # seconds for one recipe, on a busy machine
# What a recipe cannot make, so that its error is not the engine's.
UNMADE = {'sglang': ('qwen35', 'Qwen 3.5, YaRN', 'Qwen 3.5, YaRN two shares'), # The class of Gemma 3 fails there after its first layer, which is of one kind.
          'vllm@0.24': ('text_config', 'gemma3_flat', 'gemma3_nofactor', 'gemma3_r4', 'gemma3_r5', 'gemma3_yarn',
                        'Gemma 3, null block')}


def engine_of(name):
    return name.replace('@', ':').split(':')[0]


def computed(python, name, folders, cases, script=None):
    """{case: what the package computed}, and its own name for itself. Missing, where the recipe fails as a whole.
    `script` is another recipe than the engine's own."""
    path = write(in_work('cases.json'), json.dumps(cases))
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([RECIPES, *folders]), PYTHONDONTWRITEBYTECODE='1',
                       OMP_NUM_THREADS='1')
    try:
        recipe = os.path.join(RECIPES, script or SCRIPTS[engine_of(name)])
        done = subprocess.run([python, recipe, path], env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=LIMIT)
        found = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        words = done.stderr.decode(errors='replace').strip().splitlines()[-1:] if 'done' in locals() else ['no end']
        raise Missing('the recipe of %s fails: %s' % (name, ' '.join(words)[:200]))
    unmade = UNMADE.get(name, UNMADE.get(engine_of(name), ()))
    return {key: value for key, value in found['cases'].items() if key not in unmade}, found['engine']


def compare(name, found, cases, program=RUN):
    """[(case, differences)] of one engine."""
    out = []
    for one in cases:
        if one['name'] in found:
            said = engine_cases.says([name], one, program)[engine_cases.told(name, one)]
            words = engine_cases.differences(said, found[one['name']])
            out += [(one['name'], words)] if words else []
    return out


def changed(source, before, after):
    """A ./run of which one row of a file is another."""
    folder = in_work('planted')
    os.makedirs(folder, exist_ok=True)
    for name in 'src', 'build', 'tools', 'export', 'Makefile', 'run.c', 'rope.c', 'rope.h', 'book.txt':
        place = os.path.join(ROOT, name)
        if os.path.isdir(place):
            shutil.copytree(place, os.path.join(folder, name), ignore=shutil.ignore_patterns('world', 'work*'))
        else:
            shutil.copy2(place, folder)
    path = os.path.join(folder, source)
    with open(path) as file:
        text = file.read()
    check(text.count(before) == 1, 'the row to change is there', before)
    write(path, text.replace(before, after))
    subprocess.run(['make', '-s', 'run'], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return os.path.join(folder, 'run')


PLANTED = 'src/engines/releases.c', '{"vllm", 0.30, NEWEST, RULE_ATTENTION_FACTOR}', (
    '{"vllm", 0.30, 0.31, RULE_ATTENTION_FACTOR}')


def run(planted):
    began, cases, truth = time.time(), engine_cases.read_cases(), engine_cases.read_found()
    with open(os.path.join(ROOT, 'tests', 'world.json')) as file:
        rules = json.load(file)['engines']
    try:
        python = packages.environment(rules.pop('install'))
    except Missing as reason:
        skip('engines: ' + str(reason))
        return
    for name, wanted in rules.items():
        if planted and name != 'vllm@0.33':
            continue
        asked = engine_of(name) if NEWEST else name
        with case(name):
            try:
                found, own = computed(python, name, packages.places(wanted, NEWEST), cases)
            except Missing as reason:
                skip('engines: ' + str(reason))
                continue
            if planted:
                wrong = compare(name, found, cases, changed(*PLANTED))
                check(any('a ' in ' '.join(words) for _, words in wrong), 'a rule that is changed is noticed', wrong)
                continue
            wrong = compare(asked, found, cases)
            print('%s: %d of %d configs alike, %s' % (own, len(found) - len(wrong), len(found),
                                                      time.strftime('%Y-%m-%d')), flush=True)
            for case_name, words in wrong:
                if NEWEST:
                    print('  %s, %s: %s' % (asked, case_name, '; '.join(words)))
                else:
                    check(False, '%s, %s' % (name, case_name), words)
            for key, value in found.items():
                truth.setdefault(key, {})[name] = value
    if '--write' in sys.orig_argv:
        engine_cases.write_found(truth)
    print('engines: %.0f s' % (time.time() - began))
