#!/usr/bin/env python3
"""The command line: its refusals, its outputs, and the text of models whose next token is known."""

import array
import os
import pickle
import re
import shlex
import shutil
import struct
import zipfile

from common import (METHODS, ROOT, check, compiler, config, good, help_all, house, in_work, lacks, main, one_line,
                    random_ids, random_weights, read, refused, run, shapes, skip, table, takes_long, tiny_model, write,
                    write_model, write_tokenizer)

LETTERS = [' '] + [chr(c) for c in range(ord('a'), ord('z') + 1)]
VOCAB = 259 + len(LETTERS)
BOS, EOS = 1, 2
GGUF = b'GGUF' + struct.pack('<IQQ', 3, 0, 0)


def token(text):
    return 259 + LETTERS.index(text) if isinstance(text, str) else 3 + text


def chain_model(name, nexts, seq_len=200, **changes):
    """A model that knows only its last token: nexts[token] is the next one, or a dictionary of logits."""
    c = config(**dict(dict(dim=VOCAB, hidden_dim=1, n_layers=1, n_heads=1, n_kv_heads=1, head_dim=2, vocab_size=VOCAB,
                           seq_len=seq_len, train_ctx=10000), **changes))
    weights = {name: array.array('f', [0.0] * max(rows, 1) * columns) for name, rows, columns in shapes(c)}
    for i in range(VOCAB):
        weights['embedding'][i * VOCAB + i] = 1
        weights['final_norm'][i] = VOCAB ** -0.5  # cancels the norm's effect on a single 1
        for following, logit in (nexts[i] if isinstance(nexts.get(i), dict) else {nexts.get(i, EOS): 50.0}).items():
            weights['classifier'][following * VOCAB + i] = logit
    write_model(in_work(name), c, weights)
    write_tokenizer(in_work(name.replace('.bin', '.tokenizer.bin')), LETTERS)
    return in_work(name)


def alphabet(more={}, **options):
    """a is followed by b, and so on to z and the end; `more` has further pairs."""
    nexts = {token(a): token(b) for a, b in zip(LETTERS[1:], LETTERS[2:])}
    nexts.update({token(' '): token('a'), BOS: token('q'), EOS: token('c'), token('z'): EOS, **more})
    return chain_model('alphabet.bin', nexts, **options)


# ---- refusals ----

# Words that are no number to any option, or too large for all of them.
NO_NUMBERS = ['', 'x', '5x', '5 ', ' 5', '\t5', '5\n', '--', '-', '+', '.', 'e', 'e5', '1e', '1e+', '1.2.3', '1,5',
              '5,', '1_000', '\u0665', '-1', '-1e5', 'nan', 'NAN', 'nan(1)', 'inf', '-inf', 'Infinity', '0x10', '0X1',
              '0x1p4', '0b1', '1f', '1e999', '-1e999', '1e19', '99999999999999999999', '9' * 400]


# How --help calls a number.
NUMBERS = 'T P K M SEED N B S L R A F W G C X D SECONDS SHARE NATS TIMES'.split()


def options_of_help():
    """{option: how --help all calls its value, or None}"""
    told = good('--help', 'all').out.partition('Methods of --rope')[0]
    return {name: value or None for name, value in re.findall(r'(?m)^  (--?[a-z][a-z-]*)(?: (\S+))?(?:  |$)', told)}


@takes_long
def test_usage_errors():
    m = tiny_model('tiny.bin')
    listed = options_of_help()
    takes_value = [option for option, value in listed.items() if value and value[0] != '[']
    check(len(takes_value) > 60 and '--min-p' in takes_value and '--explain' in listed, 'the options', listed)
    for option in takes_value:
        one_line(run(m, option), 2, '%s without a value' % option, option)
    for option in [option for option, value in listed.items() if not value and option[:2] == '--']:
        one_line(run(m, option + '=1'), 2, '%s with a value' % option, option)
    refused('cli', 'no options', m=m)
    one_line(run(m, '--' + 'x' * 500), 2, 'an option of 502 bytes', '--' + 'x' * 18)
    other = '--next', '--x'  # that of --next may be a file, and --x may be below 0
    numbers = [option for option in takes_value if listed[option] in NUMBERS and option not in other]
    check(len(numbers) > 35, 'the numbers', numbers)
    for option in numbers:
        for value in NO_NUMBERS:
            one_line(run(m, option, value), 2, '%s %r' % (option, value), option)
            if option.startswith('--'):
                one_line(run(m, option + '=' + value), 2, '%s=%r' % (option, value), option)
    for key in ('factor', 'theta', 'train-ctx', 'beta-fast', 'beta-slow', 'attention-factor', 'low-freq-factor',
                'high-freq-factor', 'window', 'sinks', 'near', 'k', 'group', 'chunk', 'logn'):
        for value in NO_NUMBERS:
            one_line(run(m, '--rope', 'none:%s=%s' % (key, value)), 2, '--rope none:%s=%r' % (key, value), '--rope')
    refused('cli', 'values that an option does not take', m=m)
    refused('cli', 'methods', m=m)
    for value in 'y' * 1000, 'yarn' + ':factor=2' * 60, ','.join(['none'] * 2000):
        one_line(run(m, '--ppl', '/dev/null', '--ids', '--rope', value), 2, '--rope %.40r' % value, '--rope')
    refused('cli', 'jobs without what they need', m=m)
    for options in (('--rope', 'yarn', '--beta-fast', 1, '--beta-slow', 2),
                    ('--rope', 'llama3', '--low-freq-factor', 4, '--high-freq-factor', 2)):
        result = run(m, '--explain', *options)
        check(result.status == 2 and result.err.count('\n') == 1 and not result.raw,
              'settings that contradict each other: %s' % (options,), result)


def test_former_names():
    """An option that was renamed is accepted by its former name, on the command line and after a method."""
    m, wanted = tiny_model('tiny.bin'), '# attention_factor\t1.5\n'
    for options in (('--attention-factor', 1.5), ('--attn-factor', 1.5), ('--Attn-Factor=1.5',)):
        check(wanted in good(m, '--explain', '--rope', 'yarn', *options).out, options)
    for name in 'attention-factor', 'attn-factor':
        check(wanted in good(m, '--explain', '--rope', 'yarn:%s=1.5' % name).out, name)
    check('attn-factor' not in help_all(), 'help names only the new one')


def test_words_that_miss_something():
    """A value or a quote that was forgotten, a blank for a comma, and the model in the wrong place."""
    m = tiny_model('tiny.bin')
    for option in '-f', '-z', '--ppl', '--rope-config', '--rope', '--reading', '--tasks', '-n', '-t':
        for other in '-n', '--rope', '--rope=yarn', '--explain', '-i', '--factor=3':
            one_line(run(m, option, other, 512), 2, '%s without a value before %s' % (option, other), option + ' needs',
                     'found the option ' + other)
    one_line(run(m, '--quantize', 'q4', '-n', cwd=in_work('')), 2, '--quantize without OUT', 'OUT', 'option -n')
    check(not os.path.exists(in_work('-n')), 'and nothing is written')
    refused('cli', 'words that miss something', m=m)
    check('mean' not in run(m, '-x20').err, 'where there is such an option')
    for letter in 'tpsnifzmyh':
        for word in ('--' + letter, '-' + letter.upper(), '--' + letter.upper()):
            one_line(run(m, word, 1), 2, word, "'%s'" % word, 'did you mean -%s?' % letter)
    idle = run('model.bin', '--k', 40, '-n', 2).err
    check('--k has no effect on rope none (did you mean -k?)' in idle, '--k for -k', idle)
    check('point' not in run(m, '-t', 'x').err, 'a hint about commas only where there is one')


def test_names_of_other_programs():
    """Names of options in llama.cpp, Hugging Face, vLLM and others are answered with the name here."""
    m, ours = tiny_model('tiny.bin'), good('--help', 'all').out
    refused('cli', 'names of other programs', m=m)
    source = read(os.path.join(ROOT, 'src', 'options', 'foreign_options.c')).decode()
    pairs = re.findall(r'\{"(-[\w-]+)", "(-(?:[^"\\]|\\.)*)"\}', source)
    without = source[source.index('without_counterpart[] = {'):].partition('};')[0]
    alone = ' '.join(re.findall(r'"(-.*?)"', without)).split()
    lost = [name for _, command in pairs for name in command.split() if name[0] == '-' and '\n  %s ' % name not in ours]
    names = [name for name, _ in pairs] + alone
    known = [name for name in names if '\n  %s ' % name in ours or names.count(name) > 1 or name != name.lower()]
    check(len(pairs) >= 100 and len(alone) >= 120 and not lost and not known, 'each leads to an option, is none, and has '
          'one row', lost + known)
    for name in names[::20] + alone[:1] + alone[-1:]:  # the beginnings and ends of rows among them
        err = run(m, name, 1).err
        check('see --help)' in err if name not in alone else "'%s' (" % name in err and 'mean' not in err, name, err)
    refused('cli', 'options that were removed', m=m)
    check('follows' not in run(m, '-p', 2).err + run(m, '-m', 'talk').err, 'only where that may be meant')


def test_lengths():
    """Lengths in 1,024s, wherever one is meant."""
    m = tiny_model('tiny.bin', train_ctx=4096, seq_len=4096)

    def explained(*options):
        return dict(line[2:].split('\t') for line in good(m, '--explain', *options).out.splitlines() if line[0] == '#')
    for length, n in (('8k', 8192), ('8K', 8192), ('128k', 131072), ('1m', 1 << 20), ('16M', 1 << 24), ('0k', 4096)):
        check(explained('-n', length)['length'] == str(n), '-n ' + length, explained('-n', length))
    check(explained('--train-ctx', '1024M')['train_ctx'] == str(1 << 30), '--train-ctx 1024M')
    for option, key in (('--train-ctx', 'train_ctx'), ('--window', 'window'), ('--near', 'near'), ('--chunk', 'chunk')):
        rope = {'--near': 'rerope', '--chunk': 'dca'}.get(option, 'none')
        for said in ([option, '2k', '--rope', rope], ['--rope', '%s:%s=2K' % (rope, option[2:])]):
            check(explained(*said, '-n', '4k').get(key) == '2048', ' '.join(said), explained(*said, '-n', '4k'))
    for option in ('-n', '--train-ctx', '--window', '--near', '--chunk'):
        for value in ('k', 'm', '8kk', '8km', '8k8', '8 k', '8kb', '-8k', '1.5k', '1e3k', '8g', '1025m', '1048577k',
                      '9007199254740993k', '99999999999999999999m', 'k8'):
            one_line(run(m, option, value), 2, '%s %s' % (option, value), option)
    shown = [line for line in help_all().splitlines() if '8k is 8,192' in line]
    check(len(shown) == 1 and shown[0].startswith('  -n N'), '--help says it in one place', shown)


def test_foreign_files():
    """Models of other programs are called by their format's name, with the command that imports them."""
    def folder(name, *files):
        os.makedirs(in_work(name), exist_ok=True)
        for file in files:
            write(os.path.join(in_work(name), file), GGUF if file.endswith('.gguf') else b'{}')
        return in_work(name)

    def is_foreign(path, what, source=None, made=None, cwd=in_work('')):
        command = 'python3 model_export.py %s %s)\n' % (source or path, made)
        result = run(path, '--explain', '--no-import', cwd=cwd)
        one_line(result, 2, what, path + ': ', what, command if made else '')
        return result
    safetensors = struct.pack('<Q', 96) + b'{"__metadata__":{}}'
    with zipfile.ZipFile(in_work('weights.pth'), 'w') as archive:
        archive.writestr('archive/data.pkl', b'x' * 30)
    is_foreign(write(in_work('Qwen3-Q4_K_M.gguf'), GGUF), 'a GGUF file', made='Qwen3-Q4_K_M.bin')
    path = write(in_work('two words.gguf'), GGUF)
    is_foreign(path, 'a GGUF file', '\'%s\'' % path, "'two words.bin'")
    is_foreign('two words.gguf', 'a GGUF file', "'two words.gguf'", "'two words.bin'")
    is_foreign(folder('hub', 'config.json', 'model.safetensors'), "a checkpoint's folder", made='hub.bin')
    is_foreign(folder('hub') + '/', "a checkpoint's folder", made='hub.bin')
    is_foreign(folder('meta', 'params.json', 'consolidated.00.pth'), "in Meta's or Mistral's own form")
    place = folder('gguf', 'config.json', 'b-1.gguf')
    is_foreign(place, 'a folder with a GGUF file', place + '/b-1.gguf', 'b-1.bin')
    place = folder('ggufs', 'b-2.gguf', 'b-1.gguf', 'c.gguf')
    is_foreign(place, 'with 3 GGUF files in it (name one of them, such as %s/b-1.gguf)' % place)
    is_foreign(folder('nothing', 'README.md'), 'a folder without a checkpoint')
    is_foreign('.', "a checkpoint's folder", made='model.bin', cwd=folder('hub'))
    for name in 'adapter_config.json', 'adapter_model.safetensors':
        is_foreign(folder('lora ' + name, name), 'an adapter (LoRA): merge it into its base model')
    is_foreign(write(os.path.join(folder('hub'), 'model.safetensors'), safetensors), 'as safetensors', folder('hub'),
            'hub.bin')
    is_foreign('weights.pth', "PyTorch's zip", '.', 'model.bin')
    is_foreign(write(in_work('old.bin'), pickle.dumps({'weight': 1.5}, protocol=2)), "PyTorch's pickle",
            os.path.dirname(in_work('x')), os.path.basename(os.path.dirname(in_work('x'))) + '.bin')
    pointer = write(in_work('pointer.bin'), 'version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n')
    check('lfs pull)' in is_foreign(pointer, 'a Git LFS pointer').err, 'how to fetch what a pointer points to')
    config = write(in_work('a config.json'), '\n{"model_type": "llama", "hidden_size": 64}')
    one_line(run(config, '-i', 'x'), 2, 'a config.json', config + ': JSON', "--rope-config '%s'" % config,
             'model_export.py %s NAME.bin' % os.path.dirname(config))
    for text in 'Once upon a time, there was', 'Ünder änderem für uns', 'это не модель, а текст':
        path = write(in_work('story.txt'), text * 9)
        one_line(run(path), 2, 'a text: ' + text, 'story.txt: a text, not a model file', 'model.bin --ppl ' + path)
    for start in (b'GGU', b'GGUF', b'PK\3\4', b'\x80\2', safetensors[:9]):
        one_line(run(write(in_work('cut.bin'), start)), 2, 'a file of %r' % start, 'cut.bin')
    # Version 0 of llama2.c has no magic: its first number may be 640, which begins as a pickle does.
    head = struct.pack('<7i', 640, 4, 1, 1, 1, 2, 4)
    one_line(run(write(in_work('v0.bin'), head), '--explain'), 2, 'a cut file of 640 dimensions', 'truncated')


def test_files_that_cannot_be_read():
    m, folder, text = alphabet(), in_work(''), write(in_work('text.txt'),
                                                     'The quick brown fox jumps over the lazy dog. ' * 20)
    for path, word in (('/nonexistent/model.bin', '/nonexistent/model.bin'), (folder, folder),
                       (write(in_work('empty.bin'), b''), 'empty'), (text, text), (os.path.join(m, 'x'), 'x'),
                       ('/dev/null', '/dev/null')):
        one_line(run(path, '-i', 'x'), 2, 'a model file %s' % path, word)
    one_line(run(m, '-i', 'x', '-z', '/nonexistent'), 2, 'a tokenizer that is not there', '/nonexistent')
    pipe = in_work('pipe')
    os.mkfifo(pipe)
    for path, kind in ((pipe, 'a pipe'), ('/dev/null', 'a device')):
        one_line(run(path, '-i', 'x', timeout=10), 2, kind + ' as the model', path, 'found ' + kind)
        one_line(run(m, '-i', 'x', '-z', path, timeout=10), 2, kind + ' as the tokenizer', path, 'not a regular file')
    for option in (('-f', '/nonexistent'), ('-f', folder)):
        result = run(m, *option, '-t', 0)
        check(result.status == 2 and result.err.splitlines()[-1].startswith('run: ' + option[1]) and not result.raw,
              'a prompt file that cannot be read: %s' % option[1], result)
    one_line(run(m, '--ppl', '/nonexistent'), 2, 'a text that is not there', '/nonexistent')
    one_line(run(m, '--ppl', text, '--ids'), 2, 'a text that is not ids', text, 'The')
    other = in_work('other.bin')
    for count in (VOCAB - 259 - 1, VOCAB - 259 + 1, 0):
        write_tokenizer(other, (LETTERS + ['x1', 'x2'])[:count])
        one_line(run(m, '-i', 'x', '-z', other), 2, 'a tokenizer of %d tokens for a model of %d' % (259 + count, VOCAB),
                 other, str(259 + count), str(VOCAB))
    for ids, word in (('1 2 3', 'fewer'), ('1 %d 3' % VOCAB, str(VOCAB)), ('1 -2 3', '-2'), ('1 2.5', '2.5'),
                      ('1 99999999999999999999 2', '9999'), ('', ''), ('1', '')):
        path = write(in_work('ids.txt'), ids)
        result = run(m, '--ppl', path, '--ids', '-n', 4 if 'fewer' in word else 3)
        check(result.status == 2 and word in result.err.splitlines()[-1], '--ppl of the ids %r' % ids, result)


def test_memory_is_refused():
    m = tiny_model('wide.bin', n_layers=20, n_heads=16, n_kv_heads=16, head_dim=64, dim=2, hidden_dim=1,
                   vocab_size=VOCAB)
    write_tokenizer(in_work('wide.tokenizer.bin'), LETTERS)
    for what in (('-i', 'x'), ('--ppl', write(in_work('ids.txt'), '1 2 3'), '--ids'), ('--passkey',),
                 ('-m', 'chat', '-y', 'x')):
        result = run(m, '-n', 1000000000, *what, timeout=20)
        last = (result.err.splitlines() or [''])[-1]
        check(result.status == 2 and last.startswith('run: ') and '1000000000' in last
              and ('MB' in last or 'fewer' in last),
              '%s with -n 1000000000' % what[0], result)

    def little_memory():
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
    result = run(m, '-n', 10000, '-i', 'x', preexec_fn=little_memory)
    check(result.status == 2 and '10000' in result.err.splitlines()[-1] and 'MB' in result.err and not result.raw,
          'a context that the limits of the process forbid', result)
    result = run(m, '-n', 100, '-f', '/dev/zero', preexec_fn=little_memory)
    check(result.status == 2 and result.err.splitlines()[-1].startswith('run: /dev/zero: no memory for its text'),
          'a prompt without an end', result)


# ---- outputs ----

def text(model, *options, **more):
    return good(model, '-t', 0, *options, **more).raw


def test_text():
    m = alphabet()
    check(text(m, '-i', 'd') == b'defghijklmnopqrstuvwxyz\n', 'text up to the end token', text(m, '-i', 'd'))
    check(text(m, '-i', 'dog') == b'doghijklmnopqrstuvwxyz\n', 'text after a prompt')
    check(text(m) == text(m, '-i', '') == b'qrstuvwxyz\n', 'text without a prompt', text(m))
    # As in llama2.c, -n counts the positions after BOS: here the dummy space and nine letters.
    check(text(m, '-i', 'a', '-n', 10) == b'abcdefghi\n', '-n 10', text(m, '-i', 'a', '-n', 10))
    check(text(m, '-i', 'x', '-n', 9, '--ignore-eos') == b'xyzcdef\n', '--ignore-eos',
          text(m, '-i', 'x', '-n', 9, '--ignore-eos'))
    short = alphabet(seq_len=7)
    check(text(short, '-i', 'a', '-n', 0) == b'abcdef\n', '-n 0 is the context of the model',
          text(short, '-i', 'a', '-n', 0))
    result = run(m, '-t', 0, '-i', 'abcdefgh', '-n', 5)
    check(result.status == 2 and not result.raw and '10' in result.err.splitlines()[-1]
          and '5' in result.err.splitlines()[-1],
          'a prompt longer than -n', result)
    result = good(m, '-t', 0, '-i', 'a')
    last = result.err.splitlines()[-1]
    check('prefill' in last and 'decode' in last and 'MB of memory' in result.err and result.out.count('\n') == 1,
          'the closing line', result)
    for kv in ('f16', 'f32', 'q8', 'q4'):
        check(text(m, '-i', 'd', '--kv', kv) == text(m, '-i', 'd'), '--kv %s' % kv)
    check(text(m, '-i', 'd', '-z', in_work('alphabet.tokenizer.bin')) == text(m, '-i', 'd'), '-z')


def test_prompt_from_files():
    m, prompt = alphabet(), 'some letters and words'
    path, expected = write(in_work('prompt.txt'), prompt), text(alphabet(), '-i', prompt)
    check(text(m, '-f', path) == expected, '-f FILE')
    check(text(m, '-f', '-', stdin=prompt.encode()) == expected, '-f -')
    mark = b'\xef\xbb\xbf'
    for bytes_, what in (mark + prompt.encode(), 'a byte order mark'), (mark, 'nothing behind it'):
        found = text(m, '-f', write(in_work('marked.txt'), bytes_))
        check(found == (expected if bytes_[3:] else text(m)), '-f with %s, which is no part of it' % what, found[:60])
        check(text(m, '-f', '-', stdin=bytes_) == found, '-f - with ' + what)
    check(text(m, '-f', write(in_work('prompt.txt'), '')) == text(m), '-f of an empty file')
    check(text(m, '-f', '-', stdin=b'a\0b\xff') == 'ab\ufffd\n'.encode(), '-f - of any bytes',
          text(m, '-f', '-', stdin=b'a\0b\xff'))
    large = ' '.join(['lorem ipsum dolor sit amet'] * 3900).encode()  # 105,299 bytes and tokens
    out = text(m, '-f', write(in_work('large.txt'), large), '-n', 105600, '--window', 64, timeout=300)
    check(out == large + b'uvwxyz\n', 'a prompt of 100 KB', out[-40:])
    result = run(m, '-t', 0, '-f', in_work('large.txt'), '-n', 1000)
    check(result.status == 2 and str(len(large) + 2) in result.err.splitlines()[-1], 'a prompt of 100 KB with -n 1000',
          result)


def test_bytes():
    """Byte tokens: characters come out whole; single bytes that cannot be shown and bytes that are not UTF-8 are left
    out."""
    def continued(*data):
        steps = [token('a')] + [token(x) for x in data] + [EOS]
        return text(chain_model('bytes.bin', dict(zip(steps, steps[1:]))), '-i', 'a', '-n', 60)
    check(continued(0xC3, 0xA9, 'b') == 'aéb\n'.encode(), 'a character of two bytes', continued(0xC3, 0xA9, 'b'))
    check(continued(0xF0, 0x9F, 0x98, 0x80) == 'a😀\n'.encode(), 'a character of four bytes')
    check(continued(7, 8, 0x0A, 0x09, 0x21) == b'a\n\t!\n', 'control characters are left out, white space is not',
          continued(7, 8, 0x0A, 0x09, 0x21))
    check(continued(0xFF, 'b', 0xC3) == b'ab\n', 'bytes that cannot become a character are left out',
          continued(0xFF, 'b', 0xC3))
    check(text(in_work('bytes.bin'), '-i', 'ü', '-n', 4)[:2] == 'ü'.encode(), 'a prompt in byte tokens')
    if hasattr(os, 'O_DIRECT') and hasattr(os, 'pipe2'):  # a pipe that keeps writes apart
        continued(*'é€😀'.encode())
        ours, theirs = os.pipe2(os.O_DIRECT)
        good(in_work('bytes.bin'), '-t', 0, '-i', 'ü€', '-n', 60, stdout=theirs)
        good(in_work('bytes.bin'), '-t', 0, '-i', 'a', '-n', 60, stdout=theirs)
        os.close(theirs)
        writes = list(iter(lambda: os.read(ours, 4096), b''))
        os.close(ours)
        whole = all(write.decode(errors='replace').encode() == write for write in writes)
        check(whole and b''.join(writes) == 'ü€😀\naé€😀\n'.encode(), 'no character is cut by a write', writes)
    else:
        skip('writes of whole characters (no pipe keeps writes apart here)')


def test_chat():
    end = token(ord(']'))
    m = chain_model('chat.bin', {end: token('o'), token('o'): token('k'), token('k'): EOS}, seq_len=600)

    def chat(stdin, *options):
        return good(m, '-t', 0, '-n', 600, '-m', 'chat', *options, stdin=stdin)
    check(chat(b'hi\nhow\nwell\n').out == 'Assistant: ok\n' * 3, 'a chat of three turns',
          chat(b'hi\nhow\nwell\n').out)
    check(chat(b'hi\nhow', '-y', 'be nice').out == 'Assistant: ok\n' * 2,
          'a chat with -y, the last line without a newline')
    check(chat(b'', '-y', 'x', '-i', 'hello').out == 'Assistant: ok\n', 'a chat with -i')
    check(chat(b'').out == '' and chat(b'', '-y', 'x').out == '', 'a chat without a turn')
    for stdin, answers in (b'hello hello\n' * 100, 18), (b'hi\n' + b'x' * 5000 + b'\nhi\n', 1):
        full = run(m, '-t', 0, '-n', 600, '-m', 'chat', stdin=stdin)  # test_terminal.py asks the rest
        check(full.status == 2 and full.out == 'Assistant: ok\n' * answers and 'is full' in full.err.splitlines()[-1],
              'a chat that fills its context', full)
    long = run(m, '-n', 600, '-m', 'chat', stdin=b'x' * 5000)
    check(long.status == 2 and 'is full' not in long.err and 'more than the 600 positions' in long.err.splitlines()[-1],
          'a first turn too long for the context', long.err)


def test_sampling():
    """Tokens come as often as their probabilities say, with temperature, top-p, top-k and min-p."""
    choice = {token('a'): 3.0, token('b'): 2.0, token('c'): 0.0}
    choice.update({i: -50.0 for i in range(VOCAB) if i not in choice})
    m = chain_model('dice.bin', {i: choice for i in range(VOCAB)})

    def shares(*options):
        out = good(m, '-n', 2500, '-s', 11, *options).out.strip()
        return [out.count(letter) / len(out) for letter in 'abc']
    for options, expected in (
            (('-t', 1, '-p', 1), (0.7054, 0.2595, 0.0351)), (('-t', 2, '-p', 1), (0.5466, 0.3315, 0.1220)),
            (('-t', 0.5, '-p', 1), (0.8789, 0.1189, 0.0022)), (('-t', 1, '-p', 0.9), (0.7311, 0.2689, 0)),
            (('-t', 1, '-p', 0.5), (1, 0, 0)), (('-t', 0), (1, 0, 0)),
            (('-k', 2, '-p', 0), (0.7311, 0.2689, 0)), (('-k', 1), (1, 0, 0)),
            (('-k', 0, '-p', 1), (0.7054, 0.2595, 0.0351)),
            (('--min-p', 0.3, '-p', 1), (0.7311, 0.2689, 0)), (('--min-p', 0.04, '-p', 0), (0.7054, 0.2595, 0.0351)),
            (('-k', 3, '--min-p', 0.5, '-p', 1), (1, 0, 0)), (('-t', 1, '-p', 0), (0.7054, 0.2595, 0.0351))):
        found = shares(*options)
        check(all(abs(a - b) < 0.03 and (b > 0 or a == 0) for a, b in zip(found, expected)),
              'shares with %s' % (options,), '%s, not %s' % (found, expected))
    random = tiny_model('random.bin', vocab_size=VOCAB)
    write_tokenizer(in_work('random.tokenizer.bin'), LETTERS)
    outs = [good(random, '-s', seed, '-n', 60, '-i', 'abc', '--ignore-eos', '--threads', threads).raw
            for seed, threads in ((5, 1), (5, 2), (5, 3), (6, 1))]
    check(outs[0] == outs[1] == outs[2] and outs[3] != outs[0],
          'the same seed gives the same text for 1, 2 and 3 threads, another seed another')


STORY = os.path.join(ROOT, 'book.txt')
COLUMNS = {  # of --help JOB, and a command that prints them
    'ppl': (('--ppl', STORY, '-n', 20), ('--ppl', STORY, '-n', 20, '--per-token'),
            ('--ppl', STORY, '-n', 200, '--keys', '60,20,0.1,9'),
            ('--ppl', STORY, '-n', 200, '--keys', '60,20,0.1,9', '--per-token')),
    'tasks': (('--tasks', 'passkey', '-n', 110, '--trials', 1),),
    'check': (('--check', '--settings'),),
    'next': (('--next', 1, '-i', 'It'),),
    'attn': (('--attn', '1.1', '-i', 'It was'), ('--attn', '1.1', '-i', 'It was', '--key')),
    'heads': (('--heads', '-n', 520, '-s', 1),),
    'why': (('--why', '-n', 520, '-s', 1),),
    'explain': (('--explain',),),
    'engines': (('--engines',),),
    'bench': (('--bench', '-n', 8),),
    'quantize': (('--quantize', 'q8'),),
}


def test_columns_of_help():
    """--help JOB begins with the option that asks for the job, and names the columns that it prints."""
    if lacks('model.bin'):
        return
    for job, asked in COLUMNS.items():
        told = good('--help', job).out
        check(re.search(r'^  (--\S+)', told, re.M)[1] in ('--' + job, '--passkey'), 'the first line of --help ' + job, told)
        columns = told.partition('\nColumns:\n')[2].partition('\n\n')[0]
        named = [row.split() for row in re.findall(r'^  (\w.*?)(?:   .*)?$', columns, re.M)]
        for more in asked:
            more += (in_work('copy.bin'),) if job == 'quantize' else ()
            done = run(os.path.join(ROOT, 'model.bin'), *more)
            head = next((line for line in done.out.split('\n') if line and line[0] != '#'), done.err).split('\t')
            check(head in named, '--help %s has the columns of %s' % (job, ' '.join(map(str, more))), head, named)


def test_standard_output():
    check(good('--help').out.startswith('rope.c') and not good('--help').err and good('--version').out.count('\n') == 1,
          '--help and --version')
    first = good('--help').out
    lists_on_a_line = re.sub(r',\n +', ', ', first)  # which methods of one's own make longer
    check(lists_on_a_line.count('\n') <= 40, '--help is one screen', first)
    check(max(map(len, (first + good('--help', 'all').out).splitlines())) <= 100, 'of 100 columns', first)
    check(good('--help', 'CHECK').out == good('--help', 'check').out and good('--help', 'All').out == good('--help', 'all').out,
          'a topic in any case')
    for topic, has in (('check', '--budget SECONDS'), ('rope', '--ramp FORM'), ('chat', '--thinking MODE'),
                       ('engines', '--head-dim D'), ('rope', 'kexue.fm 9708')):
        told = good('--help', topic).out
        check(has in told and len(told) < len(good('--help', 'all').out), '--help %s' % topic, told)
    check(good('model.bin', '--help').out == good('--help', 'model.bin').out == first, 'a model is no topic')
    one_line(run('--help', 'chekc'), 2, 'an unknown topic', "'chekc'", 'did you mean check?')
    shown = good('--help', 'all').out
    for option in 't p k s n i f z m y'.split():
        check('\n  -%s ' % option in shown, '--help shows -%s' % option)
    for word in METHODS + ['--rope', '--kv', '--ppl', '--passkey', '--explain', '--quantize', '--rope-json', 'dynamic',
                           'window']:
        check(word in shown, '--help shows %s' % word)
    m = alphabet()
    ids = write(in_work('ids.txt'), '1 2 3 4')
    for what in (('-i', 'a', '-t', 0), ('--explain',), ('--ppl', ids, '--ids', '-n', 4), ('--rope-json',), ('--help',),
                 ('--version',)):
        with open('/dev/full', 'wb') as full:
            result = run(m, *what, stdout=full)
        check(result.status == 2 and result.err.splitlines()[-1:] == ['run: cannot write to standard output'],
              '%s onto a full device' % (what[0]), result)
    result = run(m, '-i', 'a', '-t', 0, preexec_fn=lambda: os.close(1))
    check(result.status == 2, 'standard output closed', result)


def test_warnings():
    m = alphabet(train_ctx=50, seq_len=50)

    def warnings(*options):
        return [line for line in good(m, '-t', 0, '-i', 'x', *options).err.splitlines() if 'warning' in line]
    check(len(warnings('-n', 100)) == 1 and '--rope' in warnings('-n', 100)[0] and '50' in warnings('-n', 100)[0],
          'none past the trained length warns', warnings('-n', 100))
    for options in (('-n', 50), ('-n', 100, '--rope', 'yarn'), ('-n', 100, '--rope', 'dynamic'),
                    ('-n', 100, '--window', 50), ('-n', 100, '--rope', 'linear', '--factor', 2)):
        check(warnings(*options) == [], 'no warning with %s' % (options,), warnings(*options))
    check(len(warnings('-n', 200, '--rope', 'yarn', '--factor', 2)) == 1, 'a factor that is too small warns')
    check(len(warnings('-n', 20, '--rope', 'none', '--factor', 2)) == 1
          and len(warnings('-n', 20, '--rope', 'linear', '--ramp', 'turns')) == 1,
          'settings without effect warn')


def test_warnings_of_another_method():
    """Wherever a model runs with a method for which --check has a row that differs."""
    ids = write(in_work('tuned.txt'), ' '.join(map(str, random_ids(60, 40, 2))))
    for own, dynamic in (('yarn', 0), ('yarn', 1), ('linear', 0), ('none', 0)):
        m = alphabet(train_ctx=32, seq_len=32, method=own, rope_dynamic=dynamic, factor=float(own != 'none'))
        block = write(in_work('block.json'), '{"rope_type": "linear", "factor": 2.0}')
        for rope in (None, 'none', 'linear', 'yarn', 'dynamic-yarn', 'yarn+dca', 'dca', block):
            options = ('--rope-config', block) if rope == block else ('--rope', rope) if rope else ()
            rows = [r for r in table(run(m, '--check', '-n', 32, *options).out)[2] if r['check'] == 'method']
            bad = [r['verdict'] for r in rows] == ['differs']
            for job in (('-t', 0, '-i', 'x', '-n', 9), ('--ppl', ids, '--ids', '-n', 32),
                        ('--passkey', '-n', 400, '--trials', 1)):
                err = good(m, *job, *options).err
                said = 'run: warning: the model was tuned with rope %s%s, and not with %s' % (
                    'dynamic-' * dynamic, own, 'linear' if rope == block else rope)
                check((said in err.splitlines()) == bad and ('tuned' in err) == bad,
                      '%s of a model with %s%s, %s' % (job[0], 'dynamic-' * dynamic, own, rope), err)
    m = alphabet(train_ctx=32, seq_len=32, method='yarn', factor=2.0)
    err = good(m, '--ppl', ids, '--ids', '-n', 40, '--rope', 'linear,yarn,none:theta=5000').err
    check('rope yarn, and not with linear, none:theta=5000' in err and err.count('tuned') == 1,
          'one line for a list', err)


TEXT_ONLY = {'-t': 1, '-p': 0.5, '-k': 3, '--min-p': 0.1, '-m': 'generate', '-y': 'x', '--ignore-eos': None}
SESSION_RUNS = {'--activations': 'f32', '--plain': None}
SESSION = {'--kv': 'q8', **SESSION_RUNS}
NEEDS = {'--ids': None, '--per-token': None, '--samples': 2, '--stepwise': None, '--budget': 5, '--effort': 2,
         '--trials': 2, '--min-accuracy': 0.9, '--plot': None}


JOB = """
static bool show_ids(Job *job, Error *err) {
    (void)err;
    for (size_t i = 0; i < job->n_ids; i++) printf("%d ", (int)job->ids[i]);
    return true;
}

// By the rows of src/options/jobs.h."""


def test_a_job_is_a_row():
    """A row, its function and its option are enough for a new job to have its prompt, its length, and all messages
    about its options."""
    folder = in_work('a job')
    shutil.copytree(os.path.join(ROOT, 'src'), os.path.join(folder, 'src'))
    for name, old, new in (
            ('run.c', '\n// By the rows of src/options/jobs.h.', JOB),
            ('src/options/jobs.h', '    JOB(ATTN,', '    JOB(IDS, show_ids, PROMPT_LENGTH, A_TOKENIZER | A_PROMPT) \\\n'
             '    JOB(ATTN,'),
            ('src/options/option_table.c', '    {.value = {"--attn",',
             '    {.value = {"--show-ids", NULL, "ids", .type = NOTHING}, .job = JOB_IDS},\n    {.value = {"--attn",')):
        text = read(os.path.join(ROOT, name)).decode()
        check(text.count(old) == 1, 'where a job is added to ' + name, text.count(old))
        write(os.path.join(folder, name), text.replace(old, new))
    for name in 'rope.h', 'rope.c':
        shutil.copy(os.path.join(ROOT, name), folder)
    changed = ['run.c'] + ['src/options/%s.c' % name for name in ('option_table', 'options_check', 'options_parse')]
    others = [os.path.join(ROOT, 'build', name[:-1] + 'o') for name in ['rope.c'] + house('src')
              if name.endswith('.c') and name not in changed]
    flags = shlex.split(read(os.path.join(ROOT, 'build', 'flags')).decode()) + ['-O0', '-Werror']
    program = os.path.join(folder, 'run')
    compiler([flags + [os.path.join(folder, name) for name in changed] + others + ['-o', program, '-lm']], 'a new job')
    m = alphabet()

    def said(*options):
        return run(m, *options, program=program)
    check(said('--show-ids', '-i', 'ab').out == '1 %d %d %d ' % tuple(map(token, ' ab')), 'a new job has its prompt',
          said('--show-ids', '-i', 'ab').out)
    one_line(said('--show-ids', '-i', 'ab', '-n', 2), 2, 'which must fit', '4 tokens', '2 positions')
    one_line(said('--show-ids', '--next', 3), 2, 'it is one of the jobs', '--show-ids and --next cannot be combined')
    check('--kv has no effect with --show-ids' in said('--show-ids', '--kv', 'f32').err, 'it runs no model')
    check(not said('--show-ids', '-z', m.replace('.bin', '.tokenizer.bin')).err, 'it has a tokenizer')
    check('-i has no effect' in said('--explain', '-i', 'a').err, 'and other jobs are as they were')


def test_two_jobs():
    """Two jobs are named, whichever they are; a list that a job does not take names the jobs that do."""
    m = tiny_model('tiny.bin')
    asking = {'--ppl': ['x'], '--passkey': [], '--tasks': ['copy'], '--check': [], '--attn': ['0.0'], '--next': ['3'],
              '--explain': [], '--bench': [], '--quantize': ['q8', 'x'], '--rope-json': [],
              '--engines': []}
    names = list(asking)
    for one, other in zip(names, names[1:] + names[:1]):
        result = run(m, one, *asking[one], other, *asking[other])
        if {one, other} == {'--passkey', '--tasks'}:
            check('combined' not in result.err, '--passkey and --tasks are one job', result)
            continue
        one_line(result, 2, '%s and %s' % (one, other), one, other, 'cannot be combined')
    refused('cli', 'two jobs', m=m)


def test_options_without_effect():
    """A warning for each, for any job, and the output is the same as without it."""
    m, path = alphabet(train_ctx=64, seq_len=64), write(in_work('text.txt'), 'the quick brown fox jumps ' * 9)
    ids = write(in_work('ids.txt'), ' '.join(map(str, random_ids(60, 40, 2))))

    def said(job, options):
        """{option: its warning}, and the rows of the output."""
        words = [w for option in options.items() for w in option if w is not None]
        result = run(m, *job, *words)
        found = re.findall('run: warning: (.*) has no effect (.*)', result.err)
        check(result.status == 0 and len(found) == len(options), 'a warning for each of %s' % words, result)
        return dict(found), [line for line in result.out.splitlines() if line[:2] != '# ']
    without = {'--piece': 'without --spread', '-y': 'without -m chat', '--tsv': 'on a text',
               '--stale-keys': 'without --ppl or --check or --next', '--plot': 'without --explain'}
    for names, needed in (('--per-token --samples', '--ppl'), ('--ids --stepwise', '--ppl or --next'),
                          ('--budget --effort', '--check'),
                          ('--trials', '--passkey or --tasks'), ('--min-accuracy', '--passkey or --tasks or --answers')):
        without.update({name: 'without ' + needed for name in names.split()})
    for job, idle, other in (
            (('--ppl', path, '-n', 30), {**TEXT_ONLY, '-s': 3, '-i': 'a', '--piece': 3, '--trials': 3},
             {'--piece': 'without --spread'}),
            (('--ppl', ids, '--ids', '-n', 30), {**TEXT_ONLY, '-f': 'none.txt', '-z': 'none.bin', '--stale-keys': None},
             {'-z': 'with --ids', '--stale-keys': 'without --stepwise'}),
            (('--passkey', '-n', 800, '--trials', 1),
             {**{name: value for name, value in TEXT_ONLY.items() if name != '-m'}, '-i': 'a', '--budget': 3}, {}),
            (('--explain', '-n', 30), {**TEXT_ONLY, **SESSION_RUNS, '-f': 'none.txt', '--spread': 999, '--threads': 1,
                                       '-z': 'none.bin', '--samples': 3}, {}),
            (('--attn', '0.0', '-i', 'abc'), {**TEXT_ONLY, '-s': 2, '--per-token': None}, {}),
            (('--rope-json',), {**TEXT_ONLY, **SESSION, '--piece': 3, '--effort': 2}, {}),
            (('--engines',), {**TEXT_ONLY, **SESSION, '-i': 'a'}, {}),
            (('-m', 'chat', '-y', ''), {'--samples': 3, '--trials': 3}, {}),
            (('-t', 0, '-n', 30), {**NEEDS, '-y': 'x', '--stale-keys': None, '--piece': 3, '--tsv': None}, without)):
        warned, out = said(job, idle)
        with_job = 'with -m chat' if job[0] == '-m' else 'with %s' % job[0]
        check(warned == {name: other.get(name, with_job) for name in idle}, '%s with %s' % (job[0], list(idle)), warned)
        check(out == said(job, {})[1], 'and it has none: %s with %s' % (job[0], list(idle)), out)
    copied = in_work('copied.bin')
    result = good(m, '--quantize', 'f32', copied, '-n', 5, '--rope', 'yarn', '--factor', 4, '-t', 0)
    check(re.findall('warning: (.*) has no effect with --quantize', result.err) == ['-t', '-n', '--rope', '--factor'],
          '--quantize', result)
    check(read(copied) == read(m), 'and the copy is the model')
    result = good(m, '--explain', '--rope', 'yarn', '--near', 9, '--group', 4, '-n', 128)
    check(re.findall('warning: (.*) has no effect on rope yarn', result.err) == ['--near', '--group'],
          'a warning for each setting', result)
    one_line(run(m, '-i', 'x', '-f', path), 2, '-i and -f in a text', 'cannot be combined')


def test_one_after_another():
    """A process that has run other jobs gives the same output in a new one: no state of a job remains. (make test asks
    ./run in one process, tests/runner.c.)"""
    m, path = alphabet(train_ctx=64, seq_len=64), write(in_work('text.txt'), 'the quick brown fox jumps ' * 9)
    jobs = [('-t', 0, '-s', 1, '-i', 'abc', '-n', 20), ('--passkey', '-n', 800, '--trials', 1), ('--bogus',),
            ('--ppl', path, '-n', 30, '--rope', 'none,yarn', '--threads', 2, '--json'), ('--rope-json',),
            ('--explain', '--rope', 'yarn', '--factor', 4), ('--ppl', path, '-n', 30, '--kv', 'q8'),
            ('-s', 3, '-i', 'x', '-n', 20), ('--ppl', in_work('none.txt')), ('--next', 3, '-i', 'ab')]
    times = re.compile(r'[0-9.]+ tokens/s|: [0-9.]+ s|seed \d+|"version": "[^"]*"')  # runner.c knows no commit

    def said(job, fresh):
        result = run(m, *job, fresh=fresh)
        return result.status, times.sub('', result.out), times.sub('', result.err)
    alone = {job: said(job, True) for job in jobs}
    for job in jobs + jobs[::-1]:
        check(said(job, False) == alone[job], 'behind other jobs: %s' % (job,), (said(job, False), alone[job]))


def test_empty_prompts():
    m = alphabet()
    for options in (('-i', ''), ('-f', write(in_work('none.txt'), ''))):
        result = good(m, *options, '-t', 0)
        check('warning: the prompt is empty (%s)' % (options[1] or '-i') in result.err, 'an empty prompt', result)
    check('empty' not in good(m, '-t', 0).err + good(m, '-t', 0, '-i', 'a').err, 'and no other')


def test_seeds_of_the_clock():
    m = alphabet()
    seeds = [re.search(r'seed (\d+)', good(m, '-n', 3).err)[1] for _ in range(20)]
    check(len(set(seeds)) == 20 and all(len(seed) <= 10 for seed in seeds), 'runs of one second differ', seeds)
    one = good(m, '-n', 30)
    check(good(m, '-n', 30, '-s', re.search(r'seed (\d+)', one.err)[1]).out == one.out, 'the seed that is shown', one)


def test_how_many_times():
    m = alphabet(train_ctx=512, seq_len=512)
    for n, times in (('1024k', '2048'), ('8k', '16'), (1200, '2.34'), ('64k', '128')):
        for rope, more in (('none', ()), ('yarn', ('--factor', 2))):
            err = good(m, '--explain', '-n', n, '--rope', rope, *more).err
            check('are %s times the trained length' % times in err and 'e+' not in err, '%s of 512' % n, err)


def test_warnings_of_idle_settings():
    """Every measurement names settings without effect, in a list for each method; and a window in which a map has no
    effect."""
    m, ids = alphabet(train_ctx=64, seq_len=64), write(in_work('idle.txt'), ' '.join(map(str, random_ids(60, 40, 2))))

    def warnings(*options):
        err = good(m, '--ppl', ids, '--ids', '-n', 60, *options).err
        return [line[len('run: warning: '):] for line in err.splitlines() if line.startswith('run: warning: ')]
    check(warnings('--rope', 'none,rerope,dca:near=4', '--near', 9) ==
          ['--near has no effect on rope none', '--near has no effect on rope dca:near=4'], 'of a list',
          warnings('--rope', 'none,rerope,dca:near=4', '--near', 9))
    check(warnings('--rope', 'all', '--factor', 2) == [], 'not of each of all')
    if not lacks('models/layers-nope.bin'):
        err = good('models/layers-nope.bin', '--next', 1, '-i', 'It', '--rope', 'none,linear,yarn', cwd=ROOT).err
        check(err.count('no effect') == 1 == err.count('linear, yarn: no effect'), 'methods of layers that stand still',
              err)

    def unchanged(window, distance):
        return all(distance(i, i - d) == d for i in range(200) for d in range(min(window, i + 1)))
    maps = {'self-extend:near=8:group=3': lambda i, j: i - j if i - j < 8 else i // 3 - j // 3 + 8 - 8 // 3,
            'rerope:near=8': lambda i, j: min(i - j, 8),
            'dca:chunk=40': lambda i, j: (i - j if i // 40 == j // 40 else
                                          min(i % 40 + 40, 63) - j % 40 if i // 40 == j // 40 + 1 else 63 - j % 40)}
    for rope, distance in maps.items():
        for window in range(4, 30):
            said = warnings('--rope', rope, '--window', window)
            idle = unchanged(window, distance)
            check(idle or not said, 'a window of %d with %s' % (window, rope), said)
            if not unchanged(window + 2, distance) or not idle:  # at the map's own window nothing is changed, either
                continue
            check(len(said) == 1 and '--window %d hides all that rope %s changes' % (window, rope) in said[0],
                  'a window of %d with %s is remarked' % (window, rope), said)
    check(warnings('--rope', 'streaming', '--window', 9) == warnings('--rope', 'yarn', '--window', 9) == [],
          'a window that is used')


def test_first_typos():
    """First users' typing mistakes, and the hint that they get."""
    model = os.path.join(ROOT, 'model.bin')
    refused('cli', 'first typos')
    gguf = write(in_work('a.gguf'), b'GGUF' + bytes(1 << 21))
    one_line(run('--explain', '--rope-config', gguf), 2, 'a GGUF file as a config', 'a GGUF file')
    for data, words in (('Once upon a time'.encode('utf-16'), 'UTF-16'), (bytes(range(128, 256)), 'belong to no character')):
        said = run(model, '-n', 500, '-t', 0, '-f', write(in_work('odd.txt'), data))
        check(said.status == 0 and words in said.err, 'a prompt that is no text', said.err)
    piped, given = (run(model, '-n', 16, '-t', 0, *more, stdin=text, fresh=True)
                    for more, text in (((), b'It was a\n'), (('-i', 'It was a'), b'')))
    check(piped.status == 0 and piped.out == given.out, 'a prompt on a pipe', piped)


def test_ways_out():
    """Messages that name the correct option."""
    alone = run('model.bin', '--attn', 3.3)
    check(alone.status == 0 and 'no -i, so only BOS attends' in alone.err and 'run: 1 position,' in alone.err,
          'attention without a prompt', alone.err)


def test_longrope_grows_past_its_length():
    """A text that grows past longrope's L while it is written is read anew by the long list, in a chat, too."""
    model = tiny_model('long.bin', dim=4, hidden_dim=4, n_layers=1, n_heads=1, n_kv_heads=1, head_dim=4, vocab_size=4096,
                       seq_len=64, train_ctx=16, method='longrope', factor=4.0, short_factors=[1.0, 1.0],
                       long_factors=[1.0, 4.0])
    for n, words, said in (12, 'Once', False), (40, 'Once', True), (63, ' and'.join(['Once'] * 10), False):
        found = run(model, '-z', os.path.join(ROOT, 'tokenizer.bin'), '-n', n, '-i', words, '--ignore-eos')
        check(found.status == 0 and ('grew past 16 positions' in found.err) == said, 'past its length: %d, %s' % (n, words),
              found.err)
    chat = run(model, '-z', os.path.join(ROOT, 'tokenizer.bin'), '-m', 'chat', '-n', 60, '-i', 'Once', '--ignore-eos')
    check(chat.status == 0 and 'grew past 16 positions' in chat.err, 'a chat', chat.err)


if __name__ == '__main__':
    main(globals())
