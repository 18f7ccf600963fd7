#!/usr/bin/env python3
"""Converts a published checkpoint into the files of ./run, and back.

    python3 model_export.py SOURCE OUT.bin              a checkpoint -> model.bin, and its tokenizer
    python3 model_export.py --tokenizer FILE OUT.bin    only a tokenizer -> tokenizer.bin
    python3 model_export.py model.bin OUT.gguf          model.bin, any version, and its tokenizer -> for llama.cpp
    python3 model_export.py model.bin OUT_FOLDER/       the same -> for Hugging Face

SOURCE is one of these, in float32, float16 or bfloat16 unless noted:

    a folder with config.json       Hugging Face: model.safetensors or pytorch_model.bin, whole or in shards
    a file                          GGUF, quantized or not, whole or any one of its parts;
                                    or llama2.c's .bin, versions 0, 1 and 2

The tokenizer is the folder's tokenizer.model or tokenizer.json, or the GGUF file's own. It is written next to OUT as
NAME.tokenizer.bin for NAME.bin. For model.bin it is called tokenizer.bin, unless another one has that name.

The exporter replaces files that it wrote, so a command can be repeated. It does not replace a file of another origin,
or a model that --quantize made: use --force, or another name.

On the way out the tokenizer is the one next to model.bin. Floats keep their type, and in GGUF so do ggml's blocks;
./run converts the rest to float16. A setting that the other program cannot express is an error that names it.

    --force                replace OUT even if the exporter did not write it
    --tokenizer-out FILE   write the tokenizer there instead
    --no-tokenizer         write only the model
    --unpacked             leave rows of ggml's blocks one after the other; by default, eight rows are interleaved,
                           which is faster
    -h, --help             this text

Weights are copied byte for byte, except norms that are published as w and used as 1 + w, and decays. Settings have the
meaning of the newest Transformers release. A setting that the files cannot represent exactly is an error, and a line on
standard error names it. The exit status is 0, or 2 on an error (no file is left behind), or 130 after Ctrl-C.
docs/format.md describes the files. The exporter needs only Python 3.8.
"""

import io
import os
import signal
import sys

if sys.version_info < (3, 8):  # before the modules that need it
    sys.stderr.write('model_export: needs Python 3.8 or newer (found %d.%d)\n' % sys.version_info[:2])
    sys.exit(2)

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

# Each job imports the modules that it needs when it begins: most of the time of a small job is Python's start.
from export.common import ENCODINGS, EXPORTER, PROGRAM, Job, Problem, replacing, replacing_folder


def export_model(job, source, out, tokenizer_out, with_tokenizer, force, packs):
    from export.existing import MODEL, TOKENIZER, may_write
    from export.inputs import check_source
    from export.rope import METHODS
    from export.tensors import TYPE_NAMES
    from export.tokenizer_bin import beside
    from export.write import most_used, plan_model, write_model

    check_source(job, source, out, tokenizer_out or beside(out)[0])
    checkpoint, find_tokenizer = read_source(job, source)
    may_write(job, out, MODEL, force)
    model, plan = checkpoint.model, plan_model(checkpoint)
    tokenizer = find_tokenizer() if with_tokenizer else None
    data = bytes_of(tokenizer) if tokenizer else b''
    if tokenizer:
        tokenizer_out = tokenizer_out or place_of_tokenizer(job, out, data)
        may_write(job, tokenizer_out, TOKENIZER, force, data)
    with replacing(out) as file:
        write_model(file, model, plan, packs)
        if tokenizer:
            with replacing(tokenizer_out) as tokenizer_file:
                tokenizer_file.write(data)
    rope = 'rope ' + METHODS[model.rope_method]
    if model.encoding:
        rope = 'positions ' + ENCODINGS[model.encoding]
    types = ' and '.join(TYPE_NAMES[dtype] for dtype in most_used(model))
    job.note('wrote %s: %d layers of width %d, %s, %s, context %d' % (
        out, model.n_layers, model.dim, types, rope, model.seq_len))
    if tokenizer:
        job.note('wrote %s: %d tokens' % (tokenizer_out, len(tokenizer['tokens'])))
    elif os.path.exists(beside(out)[0]):
        job.note('warning: %s is there from an earlier export, and %s takes it for this model'
                 % (beside(out)[0], PROGRAM))


def bytes_of(tokenizer):
    """A tokenizer.bin."""
    from export.tokenizer import write_tokenizer

    file = io.BytesIO()
    write_tokenizer(file, tokenizer)
    return file.getvalue()


def place_of_tokenizer(job, out, data):
    """The default place of a model's tokenizer. tokenizer.bin may serve other models: it is only used for model.bin,
    and only if no other file has that name."""
    from export.existing import same_bytes
    from export.tokenizer_bin import beside

    own, shared = beside(out)
    if os.path.basename(own) != 'model.tokenizer.bin' or os.path.exists(own):
        return own
    if not os.path.exists(shared) or same_bytes(shared, data):
        return shared
    job.note('%s is another tokenizer and stays: run takes %s for this model' % (shared, own))
    return own


def carry_out(job, source, out, with_tokenizer, force):
    """Exports a model.bin as a GGUF file, or as a folder, whose name ends with a slash."""
    from export.existing import GGUF, may_write, may_write_folder
    from export.inputs import check_model
    from export.model_bin import opened_model
    from export.tensors import TYPE_NAMES
    from export.tokenizer_bin import find_tokenizer
    from export.write import most_used

    check_model(job, source, out)
    folder = out.endswith('/')
    if folder:
        may_write_folder(out, force)
    else:
        may_write(job, out, GGUF, force)
    if folder:
        from export.out_huggingface import stays_in_folder as stays, write_huggingface
    else:
        from export.out_gguf import name_of, stays_in_gguf as stays, write_gguf
    with opened_model(job, source, out.rstrip('/') or '.', stays) as model:
        tokenizer = find_tokenizer(job, source, model.model.vocab_size) if with_tokenizer else None
        if folder:
            with replacing_folder(out) as place:
                write_huggingface(place, model, tokenizer)
        else:
            with replacing(out) as file:
                write_gguf(file, model, tokenizer, name_of(source))
        types = ' and '.join(TYPE_NAMES[dtype] for dtype in most_used(model.model))
        # Before the model is closed: an interrupt from here on comes after the work is done.
        job.note('wrote %s: %s, %s' % (out, types, '%d tokens' % len(tokenizer['tokens']) if tokenizer else
                                       'no tokenizer'))


def read_source(job, source):
    """The checkpoint from any source, and a function that finds its tokenizer."""
    if os.path.isdir(source):
        from export.huggingface import read_huggingface
        checkpoint = read_huggingface(job, source)
        return checkpoint, lambda: tokenizers().read_folder_tokenizer(job, source, checkpoint.model)
    from export.inputs import GGUF, kind_of
    if kind_of(job, source) == GGUF:
        from export.gguf import read_gguf
        checkpoint, settings = read_gguf(job, source)
        return checkpoint, lambda: tokenizers().read_gguf_tokenizer(job, source, settings, checkpoint.model)
    from export.llama2c import read_llama2c
    return read_llama2c(job, source), lambda: job.note('no tokenizer written: llama2.c has a file of its own for it')


def tokenizers():
    from export import tokenizer
    return tokenizer


def export_tokenizer(job, source, out, force):
    from export.existing import TOKENIZER, may_write
    from export.inputs import check_tokenizer
    from export.tokenizer import read_tokenizer

    check_tokenizer(job, source, out)
    tokenizer = read_tokenizer(job, source)
    data = bytes_of(tokenizer)
    may_write(job, out, TOKENIZER, force, data)
    with replacing(out) as file:
        file.write(data)
    job.note('wrote %s: %d tokens' % (out, len(tokenizer['tokens'])))


# ---- the command ----

TROUBLE, INTERRUPTED = 2, 130  # exit statuses, as in ./run
WITH_VALUE = '--tokenizer-out',
ALONE = '--tokenizer', '--no-tokenizer', '--force', '--unpacked'
# Messages about options that were removed.
REMOVED = {'--context': "--context was removed in version 5.0, with the folders of Meta's own form that it was for (a "
                        'config.json says its context)'}


def say(text):
    """Prints one line on standard error, whatever characters a file put into it."""
    print('model_export:', ''.join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:800]), file=sys.stderr)


def main(arguments):
    names, options, arguments = [], {}, iter(arguments)
    for word in arguments:
        if word in ('-h', '--help'):
            print(__doc__.strip().replace('python3 model_export.py', EXPORTER).replace('./run', PROGRAM))
            return 0
        if word.startswith('-') and word not in WITH_VALUE + ALONE:
            say(REMOVED.get(word, '%s: no such option (see --help)' % word))
            return TROUBLE
        if word.startswith('-'):
            options[word] = next(arguments, '') if word in WITH_VALUE else True
        else:
            names.append(word)
    force, unpacked = options.pop('--force', False), options.pop('--unpacked', False)
    goes_out = names[1:] and names[1].endswith(('.gguf', '/'))
    if unpacked and (goes_out or '--tokenizer' in options):
        say('--unpacked: is for a model.bin, whose rows it is about')
        return TROUBLE
    if len(names) != 2 or not all(options.values()) or len(options) > 1 or \
            goes_out and set(options) - {'--no-tokenizer'}:
        say('wrong usage (expected SOURCE OUT.bin, model.bin OUT.gguf or OUT_FOLDER/, or --tokenizer FILE OUT.bin; see '
            '--help)')
        return TROUBLE
    job = Job()
    for number in signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, signal.default_int_handler)
    try:
        if '--tokenizer' in options:
            export_tokenizer(job, *names, force)
        elif goes_out:
            carry_out(job, *names, '--no-tokenizer' not in options, force)
        else:
            export_model(job, *names, options.get('--tokenizer-out'), '--no-tokenizer' not in options, force,
                         not unpacked)
        for note in job.notes:
            say(note)
        return 0
    except Problem as problem:
        say(str(problem))
    except OSError as error:
        say('%s: %s' % (error.filename, error.strerror))
    except (MemoryError, RecursionError) as error:
        say('%s: is too much for this machine (%s)' % (names[0], type(error).__name__))
    except KeyboardInterrupt:
        for note in [note for note in job.notes if note.startswith('wrote ')] or ['interrupted, no file was written']:
            say(note)
        return INTERRUPTED
    return TROUBLE


if __name__ == '__main__':
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough; prevents another error at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
