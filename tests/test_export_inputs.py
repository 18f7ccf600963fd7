#!/usr/bin/env python3
"""Wrong inputs of model_export.py: one line names the input, and the command in it imports the model: it is run here as
it is."""

import ast
import os
import shlex
import shutil
import subprocess
import sys

import common
from common import ROOT, check, in_work, main, tiny_model, write, write_tokenizer

COMMAND = 'python3 model_export.py '
POINTER = 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 4976698672\n' % ('0123456789abcdef' * 4)


def export(*arguments):
    return common.export(*arguments, folder=in_work(''))


def told(what, words, *arguments):
    """The command that the one line ends in, if there is one; the line has the words."""
    done = export(*arguments)
    lines = done.stderr.splitlines()
    good = done.returncode == 2 and len(lines) == 1 and all(word in lines[0] for word in words)
    check(good, what, (done.returncode, done.stderr))
    return lines[0].partition(COMMAND)[2] if lines else ''


def brings(what, made, words, *arguments):
    """The command in the line makes the file `made`."""
    out = in_work(made)
    if os.path.exists(out):
        os.unlink(out)
    said = told(what, words, *arguments).replace(' first', '')
    done = export(*shlex.split(said))
    check(said and done.returncode == 0 and os.path.exists(out), '%s: its command makes %s' % (what, made),
          (said, done.stderr))


def sources():
    """A model, its tokenizer, and both as a folder and a GGUF file, in names with spaces."""
    if os.path.exists(in_work('a folder')):
        return
    size = write_tokenizer(in_work('own.tokenizer.bin'), ['a', 'b', 'c', 'ab', 'abc'])
    tiny_model('own.bin', vocab_size=size)
    for out in 'a folder/', 'a file.gguf':
        done = export('own.bin', out)
        check(done.returncode == 0, 'written: ' + out, done.stderr)
    for name in 'only gguf', 'only safetensors', 'only bin', 'nothing', 'pointers':
        os.mkdir(in_work(name))
    shutil.copy(in_work('a file.gguf'), in_work('only gguf/b.gguf'))
    write(in_work('only gguf/c.gguf'), 'GGUF')
    shutil.copy(in_work('a folder/model.safetensors'), in_work('only safetensors'))
    write(in_work('only bin/pytorch_model.bin'), b'PK\3\4' + bytes(100))
    write(in_work('a folder/consolidated.00.pth'), b'\x80\2' + bytes(100))
    for name in 'config.json', 'tokenizer.json':
        shutil.copy(in_work('a folder/' + name), in_work('pointers'))
    write(in_work('pointers/model.safetensors'), POINTER)


def test_inputs():
    sources()
    for kind, words in ('a file.gguf', ('a GGUF file',)), ('a folder', ('a folder',)):
        for out in 'out/', 'out.gguf':
            brings('%s to %s' % (kind, out), 'model.bin', words, kind, out)
    for name in 'model.safetensors', 'consolidated.00.pth':
        brings(name, 'new.bin', ('weights alone',), 'a folder/' + name, 'new.bin')
        brings(name + ' to out/', 'model.bin', ('weights alone',), 'a folder/' + name, 'out/')
    for name in 'config.json', 'generation_config.json':
        brings(name, 'new.bin', ('holds settings',), 'a folder/' + name, 'new.bin')
    brings('a folder of GGUF files', 'new.bin', ('b.gguf and 1 more',), 'only gguf', 'new.bin')
    brings('tokenizer.json', 'new.tokenizer.bin', ('is a tokenizer',), 'a folder/tokenizer.json', 'new.bin')
    brings('a GGUF file as a tokenizer', 'model.bin', ('contains its tokenizer',), '--tokenizer', 'a file.gguf', 'x.bin')
    brings('a folder as a tokenizer', 'new.bin', ('is a folder',), '--tokenizer', 'a folder', 'new.bin')


def test_no_command():
    """Inputs that only somebody else can repair."""
    for folder, name in ('only safetensors', 'model.safetensors'), ('only bin', 'pytorch_model.bin'):
        told(folder, (name, 'no config.json', "'%s' new.bin" % folder), folder, 'new.bin')
        told(name + ' alone', ('weights alone', 'no config.json'), '%s/%s' % (folder, name), 'new.bin')
        told(name + ' to out/', ('is not a model.bin',), '%s/%s' % (folder, name), 'out/')
    told('an empty folder', ('is not a checkpoint',), 'nothing', 'new.bin')
    told('an empty folder as a tokenizer', ('no tokenizer.json or tokenizer.model',), '--tokenizer', 'nothing', 'x.bin')
    told('nothing', ('no such file or folder',), 'not there', 'new.bin')
    told('a device', ('neither a file nor a folder',), '/dev/null', 'new.bin')
    told('nothing to out/', ('no such file',), 'not there', 'out/')
    told('a model.bin', ('is a model.bin already', 'own.bin OUT.gguf'), 'own.bin', 'new.bin')
    told('a tokenizer.bin', ('is a tokenizer.bin already', '-z own.tokenizer.bin'), 'own.tokenizer.bin', 'new.bin')
    told('a tokenizer.bin again', ('is a tokenizer.bin already',), '--tokenizer', 'own.tokenizer.bin', 'new.bin')
    told('a model as a tokenizer', ('a model.bin, not a tokenizer',), '--tokenizer', 'own.bin', 'new.bin')
    told('weights as a tokenizer', ('weights alone, not a tokenizer',), '--tokenizer', 'a folder/model.safetensors', 'x')


def test_own_forms():
    """Mistral's own forms are named, with the expected form."""
    for name in 'tekken', 'consolidated', 'nothing but consolidated':
        os.mkdir(in_work(name))
    for name in os.listdir(in_work('a folder')):
        if name not in ('tokenizer.json', 'tokenizer.model', 'tokenizer_config.json', 'consolidated.00.pth'):
            shutil.copy(in_work('a folder/' + name), in_work('tekken'))
    write(in_work('tekken/tekken.json'), '{"config": {}, "vocab": [], "special_tokens": []}')
    done = export(in_work('tekken'), in_work('tekken.bin'))
    check(done.returncode == 0 and 'warning: no tokenizer written: ' in done.stderr and all(
        word in done.stderr for word in ('tekken/tekken.json', "Mistral's own form", 'tokenizer.json')), 'tekken.json alone', done)
    told('tekken.json', ("Mistral's own form", 'expected the tokenizer.json'), '--tokenizer', 'tekken/tekken.json', 'x.bin')
    shutil.copy(in_work('a folder/config.json'), in_work('consolidated'))
    for folder in 'consolidated', 'nothing but consolidated':
        shutil.copy(in_work('a folder/model.safetensors'), in_work(folder + '/consolidated.safetensors'))
    told('consolidated.safetensors', ("own form (consolidated.safetensors)", 'expected model.safetensors'), 'consolidated',
         'new.bin')
    told('no config.json either', ("own form (consolidated.safetensors)", 'with a config.json'), 'nothing but consolidated',
         'new.bin')
    write(in_work('words.txt'), 'It was a fine morning, and nobody was up.\n')
    told('a text', ('is a text, not a model file', 'config.json'), 'words.txt', 'new.bin')
    told('a text to out/', ('is not a model.bin',), 'words.txt', 'out/')


def test_adapters():
    """A LoRA adapter is no model: alone it is refused, with what to do; beside full weights a line says that it is left
    out."""
    sources()
    for name, files in (('lora', ['adapter_config.json', 'adapter_model.safetensors']),
                        ('lora of old', ['adapter_model.bin']), ('lora, half', ['adapter_config.json']),
                        ('lora with config', ['adapter_config.json', 'adapter_model.safetensors', 'config.json'])):
        os.makedirs(in_work(name))
        for file in files:
            shutil.copy(in_work('a folder/config.json' if file[-5:] == '.json' else 'a folder/model.safetensors'),
                        os.path.join(in_work(name), file))
        if 'adapter_config.json' in files:
            write(os.path.join(in_work(name), 'adapter_config.json'), '{"base_model_name_or_path": "hub/Llama-2\\n"}')
        words = ['LoRA adapter', 'merge it into its base model', 'merge_and_unload']
        told(name, words + ['hub/Llama-2'] * ('adapter_config.json' in files), name, 'new.bin')
        if files[-1] != 'config.json' and files[-1] != 'adapter_config.json':
            told(name + ', its file', words, '%s/%s' % (name, files[-1]), 'new.bin')
    shutil.copytree(in_work('a folder'), in_work('both'))
    shutil.copy(in_work('a folder/model.safetensors'), in_work('both/adapter_model.safetensors'))
    done = export('both', 'both.bin')
    check(done.returncode == 0 and sum('LoRA adapter next to the weights is left out' in line and 'warning: ' in line
                                       for line in done.stderr.splitlines()) == 1, 'beside full weights', done.stderr)
    check('LoRA' not in export('a folder', 'plain.bin').stderr, 'nothing is said where there is none')


def test_old_python():
    """One line where Python is too old, and no syntax that such a one cannot read before that line."""
    program = os.path.join(ROOT, 'model_export.py')
    code = 'import runpy, sys; sys.version_info = (3, 7, 16); runpy.run_path(%r, run_name="__main__")' % program
    done = subprocess.run([sys.executable, '-S', '-c', code, 'a', 'b'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True)
    check(done.returncode == 2 and done.stderr == 'model_export: needs Python 3.8 or newer (found 3.7)\n',
          'Python 3.7', done.stderr)
    with open(program, encoding='utf-8') as file:
        check(ast.parse(file.read(), feature_version=(3, 5)), 'Python 3.5 reads model_export.py')


def test_pointers():
    pointer = write(in_work('pointer'), POINTER)
    for arguments in ((pointer, 'new.bin'), (pointer, 'out/'), ('--tokenizer', pointer, 'new.bin'),
                      ('pointers', 'new.bin'), ('pointers/model.safetensors', 'new.bin')):
        folder = 'pointers' if arguments[0].startswith('pointers') else in_work('')[:-1]
        told('a Git LFS pointer, ' + ' '.join(arguments), ('is a Git LFS pointer', 'git -C %s lfs pull' % folder),
             *arguments)
    check(not os.path.exists(in_work('out')), 'nothing is left behind')


if __name__ == '__main__':
    main(globals())
