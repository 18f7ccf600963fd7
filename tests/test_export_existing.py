#!/usr/bin/env python3
"""model_export.py with existing files: it replaces its own, any other file only with --force, and never a tokenizer
that other models may use. After a refusal, every file is as before."""

import ast
import json
import os
import pathlib
import shutil

import common
from common import (Q4, Q8, ROOT, check, config, good, in_work, lacks, main, one_line, random_weights, read, run,
                    tiny_model, write, write_model, write_tokenizer)
from test_legacy import write_legacy


def export(*arguments, folder=''):
    return common.export(*arguments, folder=in_work(folder))


def exported(what, *arguments, folder=''):
    done = export(*arguments, folder=folder)
    check(done.returncode == 0, what, done.stderr)
    return done.stderr


def contents(folder):
    return {os.path.relpath(os.path.join(place, name), in_work(folder)): read(os.path.join(place, name))
            for place, _, names in os.walk(in_work(folder)) for name in names}


def refused(what, words, *arguments, folder=''):
    """One line with the words and the way out, and every file as it was; with --force the same goes on."""
    before = contents(folder)
    done = export(*arguments, folder=folder)
    lines = done.stderr.splitlines()
    check(done.returncode == 2 and len(lines) == 1 and 'is there already' in lines[0] and '--force' in lines[0] and
          all(word in lines[0] for word in words), 'refused: ' + what, (done.returncode, done.stderr))
    check(contents(folder) == before, 'as it was: ' + what)
    exported('with --force: ' + what, '--force', *arguments, folder=folder)
    check(contents(folder) != before, 'replaced with --force: ' + what)


def checkpoint(name, pieces, **changes):
    """A folder from a hub: the model NAME.bin, carried out with its tokenizer."""
    size = write_tokenizer(in_work('own.tokenizer.bin'), pieces)
    tiny_model('own.bin', **dict(changes, vocab_size=size))
    exported('a checkpoint', 'own.bin', name + '/')
    return name


def room(name):
    os.makedirs(in_work(name))
    return in_work(name)


def test_models():
    """A model of the exporter's is replaced by the next one; llama2.c's, a rounded one and a text are not."""
    source = '../' + checkpoint('source', ['a', 'b', 'c'])
    place = room('models')
    for what in 'first', 'again':
        exported('the model, ' + what, source, 'm.bin', folder='models')
    other = '../' + checkpoint('other', ['a', 'b', 'c'], seed=5)
    exported("another checkpoint onto the exporter's own", other, 'm.bin', folder='models')
    c = config(vocab_size=262)
    for name, kind, group in ('q8.bin', Q8, 64), ('q4.bin', Q4, 32):
        write_model(os.path.join(place, name), dict(c, weight_type=kind, group_size=group), random_weights(c, 3))
        refused('a model of q8 or q4', ['--quantize rounded'], source, name, folder='models')
    for version in 0, 1, 2:
        write_legacy(os.path.join(place, 'stories.bin'), config(vocab_size=262), random_weights(c, 3), version)
        refused("llama2.c's version %d" % version, ['did not write'], source, 'stories.bin', folder='models')
    write(os.path.join(place, 'my.txt'), 'a text of mine\n' * 300)
    refused('a text', ['did not write'], source, 'my.txt', folder='models')
    refused('a model where a tokenizer lies', ['found a tokenizer'], source, 'm.tokenizer.bin', folder='models')
    write(os.path.join(place, 'empty.bin'), '')
    exported('an empty file has nothing to lose', source, 'empty.bin', folder='models')


def test_what_ships():
    """The models that ship, and copies of them, are safe; so is their tokenizer, with --force, too."""
    if lacks('model-8k.bin'):
        return
    if not os.path.exists(os.path.join(ROOT, 'model.bin')):
        return
    source = '../' + checkpoint('small', ['x', 'y', 'z'])
    place = room('clone')
    for name in 'model.bin', 'model-8k.bin', 'tokenizer.bin':
        shutil.copy(os.path.join(ROOT, name), place)
    tokenizer = read(os.path.join(place, 'tokenizer.bin'))
    for name in 'model.bin', 'model-8k.bin':
        refused('what ships: ' + name, ['--quantize rounded'], source, name, folder='clone')
        check(read(os.path.join(place, 'tokenizer.bin')) == tokenizer, 'the tokenizer stays beside ' + name)
    check('262 tokens' in exported('the same again', source, 'model.bin', folder='clone'), 'again')
    check(sorted(os.listdir(place)) == ['model-8k.bin', 'model-8k.tokenizer.bin', 'model.bin', 'model.tokenizer.bin',
                                        'tokenizer.bin'] and read(os.path.join(place, 'tokenizer.bin')) == tokenizer,
          'each model has a tokenizer', os.listdir(place))


def test_tokenizer_beside():
    """tokenizer.bin when it is free or the same; NAME.tokenizer.bin when another one lies there. run finds it."""
    source = '../' + checkpoint('theirs', ['p', 'q', 'r'])
    place = room('beside')
    for what in 'free', 'the same':
        exported('tokenizer.bin, ' + what, source, 'model.bin', folder='beside')
        check(sorted(os.listdir(place)) == ['model.bin', 'tokenizer.bin'], 'tokenizer.bin, ' + what, os.listdir(place))
    write_tokenizer(os.path.join(place, 'tokenizer.bin'), ['s', 't', 'u', 'v'])
    another = read(os.path.join(place, 'tokenizer.bin'))
    for what in 'another one lies there', 'again':
        said = exported('tokenizer.bin, ' + what, source, 'model.bin', folder='beside')
        check(read(os.path.join(place, 'tokenizer.bin')) == another and 'model.tokenizer.bin' in said,
              'another tokenizer stays', said)
    model, own = os.path.join(place, 'model.bin'), os.path.join(place, 'model.tokenizer.bin')
    found = good(model, '-i', 'pqr', '-n', 20, '-t', 0).raw
    check(found == good(model, '-z', own, '-i', 'pqr', '-n', 20, '-t', 0).raw, 'run takes the own tokenizer', found)
    os.unlink(own)
    one_line(run(model, '-i', 'pqr'), 2, 'which is needed: the other one is of another size', 'the model has 262')
    write_tokenizer(own, ['s', 't', 'u'])
    refused("llama2.c's file in the own one's place", ['model.tokenizer.bin', 'did not write'], source, 'model.bin',
            folder='beside')
    exported('a name without .bin', source, 'm.f32', folder='beside')
    good(os.path.join(place, 'm.f32'), '-i', 'pqr', '-n', 20)


def test_tokenizers():
    """A tokenizer alone, and one with a name of its own."""
    source = '../' + checkpoint('alone', ['k', 'l', 'm'])
    other = '../' + checkpoint('alone too', ['k', 'l', 'n'])
    room('tokenizers')
    for name in 'tokenizer.bin', 'x.tokenizer.bin':
        for what in 'first', 'the same again':
            exported('%s, %s' % (name, what), '--tokenizer', source + '/tokenizer.json', name, folder='tokenizers')
    exported("the exporter's own, of one model", '--tokenizer', other + '/tokenizer.json', 'x.tokenizer.bin',
             folder='tokenizers')
    refused('one for all models', ['all models beside it'], '--tokenizer', other + '/tokenizer.json', 'tokenizer.bin',
            folder='tokenizers')
    refused('one for all models, by --tokenizer-out', ['all models beside it'], '--tokenizer-out', 'tokenizer.bin',
            source, 'm.bin', folder='tokenizers')
    exported('a model', '--no-tokenizer', source, 'f.bin', folder='tokenizers')
    refused('a tokenizer onto a model', ['found a model.bin'], '--tokenizer', source + '/tokenizer.json', 'f.bin',
            folder='tokenizers')


def test_gguf():
    tiny_model('a.bin')
    tiny_model('b.bin', seed=7)
    room('gguf')
    for model in 'a', 'a', 'b':
        exported('GGUF, ' + model, '--no-tokenizer', '../%s.bin' % model, 'm.gguf', folder='gguf')
    data = read(in_work('gguf/m.gguf'))
    words = b'written by model_export.py of rope.c'
    check(data.count(words) == 1, 'GGUF says who wrote it')
    write(in_work('gguf/m.gguf'), data.replace(words, b'written by some other program of all'))
    refused("another program's GGUF", ['another program'], '--no-tokenizer', '../a.bin', 'm.gguf', folder='gguf')
    write(in_work('gguf/m.gguf'), 'notes')
    refused('no GGUF', ['did not write'], '--no-tokenizer', '../a.bin', 'm.gguf', folder='gguf')
    os.rename(in_work('gguf/m.gguf'), in_work('gguf/m.bin'))
    refused('a model onto a GGUF file', ['found a GGUF file'], '../gguf/../theirs', 'm.bin', folder='gguf')


def test_folders():
    """A checkpoint of the exporter's is replaced whole, another program's with --force; a folder with more, never."""
    size = write_tokenizer(in_work('t.tokenizer.bin'), ['a', 'b'])
    tiny_model('t.bin', vocab_size=size)
    room('folders')
    for what in 'first', 'again':
        exported('a folder, ' + what, '../t.bin', 'f/', folder='folders')
    exported('a folder, without a tokenizer', '--no-tokenizer', '../t.bin', 'f/', folder='folders')
    check(sorted(os.listdir(in_work('folders/f'))) == ['config.json', 'generation_config.json', 'model.safetensors'],
          'nothing of the older one is left', os.listdir(in_work('folders/f')))
    path = in_work('folders/f/config.json')
    settings = json.loads(read(path))
    check(settings.pop('written_by') == 'model_export.py of rope.c', 'config.json says who wrote it', settings)
    write(path, json.dumps(settings))
    refused("another program's checkpoint", ['another program'], '../t.bin', 'f/', folder='folders')
    write(in_work('folders/f/notes'), 'x')
    for arguments in [], ['--force']:
        before = contents('folders')
        done = export(*arguments, '../t.bin', 'f/', folder='folders')
        check(done.returncode == 2 and done.stderr.count('\n') == 1 and 'notes' in done.stderr
              and contents('folders') == before, 'a folder with more in it %s' % arguments, done.stderr)
    check(os.listdir(in_work('folders')) == ['f'], 'nothing is left beside it', os.listdir(in_work('folders')))


def test_trained():
    """tools/training/train.py puts its export into a new folder, or over an older export; not over a checkpoint from a hub. It
    needs PyTorch, and so one function of it is tried alone."""
    with open(os.path.join(ROOT, 'tools', 'training', 'checkpoints.py'), encoding='utf-8') as file:
        tree = ast.parse(file.read())
    function = next(node for node in tree.body if getattr(node, 'name', '') == 'check_folder')
    names = {}
    exec(compile(ast.Module([function], []), 'checkpoints.py', 'exec'), names)
    place = pathlib.Path(room('trained'))
    own = ['config.json', 'pytorch_model.bin', 'tokenizer.model']
    for files, good in ([], True), (own, True), (['README.md'], False):
        for name in files:
            write(str(place / name), 'x')
        try:
            names['check_folder'](place)
            found = ''
        except SystemExit as problem:
            found = str(problem)
        words = '%s: holds README.md, which is not of an export (expected a new folder)' % place
        check(found == ('' if good else words), 'checkpoints.py onto %s' % files, found)
    names['check_folder'](place / 'new')


if __name__ == '__main__':
    main(globals())
