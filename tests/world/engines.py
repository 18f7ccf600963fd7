"""--engines and --reading held against the engines' own packages: every inverse frequency, the attention factor,
max_len, and what is refused. tests/world.json has the releases, by the names that --engines takes.

    python3 tests/world engines=hf5,mlx-lm          of these alone; engines: of all
    WORLD=newest python3 tests/world engines        newest packages; differences are printed: how a stale row is found
    python3 tests/world engines --write             writes the readings of tests/conformance, and the day of each
                                                    run in src/engines/releases.c
    python3 tests/world engines=mlx-lm --planted    a rule of each engine is changed, which must make a difference
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time

import engine_cases
import fields
import packages
from common import ROOT, RUN, case, check, in_work, skip, write
from install import NEWEST, Missing

RECIPES = os.path.join(ROOT, 'tests', 'world', 'recipes')
SCRIPTS = {'hf5': 'run_transformers.py', 'hf4': 'run_transformers.py', 'vllm': 'run_vllm.py',
           'sglang': 'run_sglang.py', 'mlx-lm': 'run_mlx.py', 'exllamav3': 'run_exllamav3.py',
           'exllamav2': 'run_exllamav2.py',
           'llama.cpp': 'run_llamacpp.py', 'lmdeploy': 'run_lmdeploy.py turbomind',
           'lmdeploy:pytorch': 'run_lmdeploy.py', 'onnxruntime-genai': 'run_ortgenai.py'}
FIELDS = 'hf5@5.24'  # whose declared types are in src/engines/made/field_types.h
LIMIT = 1200  # seconds for one recipe, on a busy machine
# Cases that a recipe cannot make, so that its error is not the engine's.
UNMADE = {
    # The result of a division by zero in LMDeploy's C++ is not known, nor how it converts a text to a number.
    'lmdeploy': ('llama3, equal factors', 'llama yarn, attention_factor text'),
    # The recipe's model lacks parts that wrappers need, and no length is given.
    'sglang': ('qwen35', 'Qwen 3.5, YaRN', 'Qwen 3.5, YaRN two shares', 'Qwen3.5 wrapper, card YaRN 4, max raised',
               'Qwen3.5 wrapper, linear pasted beside', 'Qwen3.5 wrapper, max pasted beside',
               'Qwen3.5 wrapper, rope_scaling beside parameters inside', 'Qwen3-VL wrapper, card YaRN 3',
               'wrapper: kimi_k25 wrapper', 'qwen2.5 coder card, served by max_len',
               'wrapper: internvl, Qwen 2.5 with dynamic', 'Qwen3.5 text alone, published',
               'Qwen3.5 MoE wrapper, plain', 'Gemma 2 9B, published', 'Qwen3.5 wrapper, YaRN 2 whole',
               'Qwen3.5 wrapper, max a float inside', 'GLM-4.1V wrapper', 'GLM-4.1V wrapper, YaRN',
               'GLM-4.1V wrapper, saved by 5'),
    'vllm@0.33': ('Qwen3-VL wrapper, card YaRN 3', 'wrapper: kimi_k25 wrapper', 'Qwen2-VL, published flat',
                  'Qwen2-VL, card YaRN', 'wrapper: lfm2_vl'),
    'hf5@5.15': ('Qwen2.5-VL, card YaRN', 'Ministral 3 wrapper, rope_scaling inside',
                 'Mistral Small 4 inside, rope_scaling'),
    # The class of Gemma 3 fails after its first layer, which is of one kind; and a vision tower is taken for the
    # text.
    'vllm@0.24': ('text_config', 'gemma3_flat', 'gemma3_nofactor', 'gemma3_r4', 'gemma3_r5', 'gemma3_yarn',
                  'Gemma 3, null block', 'Gemma 3, local base', 'Gemma 3 wrapper, published',
                  'Gemma 3 wrapper, saved by transformers 5', 'Ministral 3 wrapper, published',
                  'Command A, cohere2', 'Mistral Small 3.2 wrapper', 'Mistral Small 3.2 wrapper, YaRN inside',
                  'Ministral 3 wrapper, rope_scaling inside', 'Ministral 3 wrapper, whole numbers',
                  'Gemma 3 wrapper, both layouts', 'Gemma 3 wrapper, published short keys', 'Command R7B, yarn',
                  'Gemma 3, parameters by kind without sliding', 'Gemma 3 1B, yarn in both kinds by 5',
                  'Qwen2-VL, published flat', 'Qwen2-VL, card YaRN', 'qwen3, parameters, factor text',
                  'Qwen3.5 wrapper, max a float inside'),
    # Without llama_4_scaling_beta the first token is a TypeError, and no token is run here.
    'hf5@5.24': ('Ministral 3 wrapper, rope_scaling inside', 'Mistral Small 4 inside, rope_scaling'),
    'hf4': ('StableLM 2 12B, share in parameters',),
    # A size that the config lacks is filled in beside text_config, too.
    'exllamav3': ('Gemma 2 9B, published', 'wrapper: lfm2_vl'),
    # Whether there are positions at all is a key of the file, which the recipe does not read.
    'llama.cpp': ('Granite 4, no positions', 'wrapper: lfm2_vl'),
    'onnxruntime-genai': ('Granite 4, no positions', 'Qwen2.5-VL saved by 5',
                          'Qwen2.5-VL, text_config, rope_scaling default'),
    'mlx-lm': ('Llama 4 wrapper, Maverick',)}


BOUND = {'hf4': '<5'}  # of the newest package of an engine
# A row of src/engines/releases.c, and what it is changed to.
SOURCE = 'src/engines/releases.c'
PLANTED = {
    'hf5@5.24': ('{"hf5", 5.17, NEWEST, RULE_SHARE_INSIDE}', '{"hf5", 5.17, 5.18, RULE_SHARE_INSIDE}'),
    'hf4@4.57': ('{"hf4", FIRST, 4.55, RULE_WHOLE_RAMP}', '{"hf4", FIRST, 4.58, RULE_WHOLE_RAMP}'),
    'vllm@0.33': ('{"vllm", 0.30, NEWEST, RULE_ATTENTION_FACTOR}', '{"vllm", 0.30, 0.31, RULE_ATTENTION_FACTOR}'),
    'sglang@0.5.23': ('{"sglang", 0.0516, NEWEST, RULE_PAIR}', '{"sglang", 0.0516, 0.0517, RULE_PAIR}'),
    'mlx-lm@0.32': ('{"mlx-lm", FIRST, 0.32, RULE_NO_DYNAMIC}', '{"mlx-lm", FIRST, 0.33, RULE_NO_DYNAMIC}'),
}


def engine_of(name):
    own = name.partition('@')[0]
    return own if own in SCRIPTS else own.partition(':')[0]


def computed(python, name, folders, cases, script=None):
    """{case: what the package computed}, and its own name for itself. Missing, where the recipe fails as a whole.
    `script` is another recipe than the engine's own."""
    path = write(in_work('cases.json'), json.dumps(cases))
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([RECIPES, *folders]), PYTHONDONTWRITEBYTECODE='1',
                       OMP_NUM_THREADS='1', PYTHONHASHSEED='0')  # which key of a set is missed first is an error's text
    try:
        recipe, *arguments = (script or SCRIPTS[engine_of(name)]).split(' ')
        done = subprocess.run([python, os.path.join(RECIPES, recipe), path, *arguments], env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=LIMIT)
        found = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        words = done.stderr.decode(errors='replace').strip().splitlines()[-1:] if 'done' in locals() else ['no end']
        raise Missing('the recipe of %s fails: %s' % (name, ' '.join(words)[:200]))
    unmade = UNMADE.get(name, UNMADE.get(engine_of(name), ()))
    return {key: value for key, value in found['cases'].items() if key not in unmade}, found['engine']


def compare(name, found, cases, program=RUN):
    """[(case, differences)] of one engine, and the names of unverified cases: these are neither."""
    out, unseen = [], set()
    asked = [one for one in cases if one['name'] in found]
    in_c = program == RUN and engine_cases.says_in_c([([name], one) for one in asked])
    for i, one in enumerate(asked):
        said = (in_c[i] if in_c else engine_cases.says([name], one, program))[engine_cases.told(name, one)]
        if said['verdicts'] == {'not looked at'}:
            unseen.add(one['name'])
            continue
        words = engine_cases.differences(said, found[one['name']])
        out += [(one['name'], words)] if words else []
    return out, unseen


def changed():
    """A ./run of which every row of PLANTED is changed."""
    folder = in_work('planted')
    os.makedirs(folder, exist_ok=True)
    for name in 'src', 'build', 'tools', 'export', 'tests/rare.mk', 'Makefile', 'run.c', 'rope.c', 'rope.h', 'book.txt':
        place = os.path.join(ROOT, name)
        if os.path.isdir(place):
            shutil.copytree(place, os.path.join(folder, name), ignore=shutil.ignore_patterns('world', 'work*'))
        else:
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            shutil.copy2(place, os.path.join(folder, name))
    path = os.path.join(folder, SOURCE)
    with open(path) as file:
        text = file.read()
    for before, after in PLANTED.values():
        check(text.count(before) == 1, 'the row to change is in ' + SOURCE, before)
        text = text.replace(before, after)
    write(path, text)
    subprocess.run(['make', '-s', 'run'], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return os.path.join(folder, 'run')


def write_date(name, day):
    """Writes the day into the row of releases.c that says how a release's readings were found, if they were run. As in
    reading_looked there, the first row that the release is in counts."""
    engine, release = engine_of(name), re.findall(r'\d+', name.partition('@')[2])
    number = float('%s.%s' % (release[0], ''.join(part.zfill(2) for part in release[1:]))) if release else 1e9
    path = os.path.join(ROOT, SOURCE)
    with open(path) as file:
        text = file.read()
    limits = {'FIRST': 0, 'NEWEST': 1e9}
    for row in re.finditer(r'\{"%s", (\w[\w.]*), (\w[\w.]*), "([^"]*?)(run )?([\d-]+)"\}' % re.escape(engine), text):
        first, last = [limits[x] if x in limits else float(x) for x in row.groups()[:2]]
        if first - 1e-9 < number < last + 0.01 - 1e-9 or number == last == 1e9:
            if row.group(4):
                write(path, text[:row.start(5)] + day + text[row.end(5):])
            return


def chosen(rules, only, planted):
    """The rules that are asked for: with WORLD=newest one of each engine, and with `planted` those of PLANTED."""
    out, seen = {}, set()
    for name, wanted in rules.items():
        is_older = name.partition('@')[0] in seen
        seen.add(name.partition('@')[0])
        if only and not {name, engine_of(name)} & set(only):
            continue
        if not (NEWEST and is_older or planted and name not in PLANTED):
            out[name] = wanted
    return out


def hold_fields(python, folders, is_written):
    """The types of fields that transformers' classes declare, against the header that refuses by them."""
    path = write(in_work('families.json'), json.dumps(fields.families()))
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([RECIPES, *folders]), PYTHONDONTWRITEBYTECODE='1')
    done = subprocess.run([python, os.path.join(RECIPES, 'run_fields.py'), path], env=environment, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=LIMIT)
    text = fields.header(*json.loads(done.stdout))
    place = os.path.join(ROOT, fields.HEADER)
    if is_written:
        write(place, text)
    with open(place) as file:
        check(NEWEST or file.read() == text, fields.HEADER + ' is what the package declares (engines=hf5 --write)')


def run(planted, only=(), is_written=False):
    began, cases, truth = time.time(), engine_cases.read_cases(), engine_cases.read_found()
    with open(os.path.join(ROOT, 'tests', 'world.json')) as file:
        rules = json.load(file)['engines']
    installed = rules.pop('install')
    unknown = set(only) - set(rules) - {engine_of(name) for name in rules}
    check(not unknown, 'tests/world.json has no %s' % ', '.join(sorted(unknown)), 'expected', list(rules))
    rules = chosen(rules, only, planted)
    check(rules or unknown, 'a rule of each engine that is asked for is in PLANTED', only)
    try:
        python = packages.environment(installed)
    except Missing as reason:
        skip('engines: ' + str(reason))
        return
    other = changed() if planted else None
    for name, wanted in rules.items():
        asked = name.partition('@')[0] if NEWEST else name
        with case(name):
            try:
                if NEWEST:
                    wanted = packages.newest(wanted, installed, BOUND.get(engine_of(name), ''))
                found, own = computed(python, name, packages.places(wanted), cases)
            except Missing as reason:
                skip('engines: ' + str(reason))
                continue
            wrong, unseen = compare(asked, found, cases)
            found = {key: value for key, value in found.items() if key not in unseen}
            print('%s: %d of %d configs alike, and %d not looked at, %s' % (
                own, len(found) - len(wrong), len(found), len(unseen), time.strftime('%Y-%m-%d')), flush=True)
            for case_name, words in wrong:
                if NEWEST:
                    print('  %s, %s: %s' % (asked, case_name, '; '.join(words)))
                else:
                    check(False, '%s, %s' % (name, case_name), words)
            if planted:
                noticed = [one for one in compare(asked, found, cases, other)[0] if one not in wrong]
                print('  planted %s: %d configs differ' % (PLANTED[name][1], len(noticed)), flush=True)
                check(noticed, 'a rule that is changed is noticed', PLANTED[name])
            for key in {**truth, **found}:
                known = truth.setdefault(key, {})
                if key in found:
                    known[name] = found[key]
                else:
                    known.pop(name, None)
            if is_written and not wrong:
                write_date(name, time.strftime('%Y-%m-%d'))
            if name == FIELDS:
                with case('types of fields'):
                    hold_fields(python, packages.places(wanted), is_written)
    if is_written:
        engine_cases.write_found(truth)
    print('engines: %.0f s' % (time.time() - began))
