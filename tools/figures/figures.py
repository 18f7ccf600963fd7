#!/usr/bin/env python3
"""Makes every figure of the README and the lesson again from the shipped models: make figures, or
python3 tools/figures/figures.py.

Measures with ./run, writes the tables to docs/figures/*.tsv, draws docs/figures/*.png from them with plot.py, and
prints every command that it runs; each table says on its # lines which command made it, and up to which length the
model has seen texts (trained). The names say 4x and 16x: how many times the trained length.

A table that is newer than ./run, its model and its text is kept, so an interrupted run goes on where it stopped. --all
measures everything, --only LIST these tables. Without matplotlib it says which pictures are not drawn.

The text is --text FILE (or TEXT=FILE make figures; .xz is unpacked), else the book that ships, which is shorter than a
novel. The tables name it by its title, which is the file's name: great-expectations.txt is Great Expectations.
"""
import argparse
import importlib.util
import lzma
import os
import shlex
import subprocess
import sys
import time

from before_rope import NAMES, TRAINED, name_of
from experiments import DROPPED, EXPERIMENTS
from layer_patterns import MODELS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BOOK = os.path.join(ROOT, 'book.txt')
METHODS = ['none', 'linear', 'ntk', 'ntk-by-parts', 'yarn', 'dynamic-ntk', 'dynamic-yarn', 'window']
MAPS = ['rerope', 'leaky-rerope', 'self-extend', 'dca', 'streaming', 'lm-infinite']
SEARCHED = 'docs/searched-16x.json'  # found by tools/search.py for model.bin (docs/lesson.md has the command)
STATIC = METHODS[:5]
ONE_LENGTH = STATIC + ['window']  # at one length a dynamic method is its static one: the same line


def fail(what):
    sys.exit('figures.py: ' + what)


def nice_path(path):
    """As seen from the repository, where every command runs, if that is near."""
    near = os.path.relpath(os.path.abspath(path), ROOT)
    return os.path.abspath(path) if near.startswith('../..') else near


def say(text):
    print(text, flush=True)


# ---- running ----

def run_quietly(arguments, text=b'', good=(0,)):
    """Standard output of ./run, whose remarks on stderr are shown only when it fails: when its status is none of
    `good`. A pipe there also means no bars."""
    done = subprocess.run(['./run'] + arguments, cwd=ROOT, input=text, capture_output=True)
    if done.returncode not in good:
        fail('%s: %s' % (shlex.join(['./run'] + arguments), done.stderr.decode(errors='replace').strip()))
    return done.stdout


class Text:
    """The text of the perplexities: ./run reads `argument`, which is a file, or `data` from standard input."""

    def __init__(self, options):
        self.path = options.text or BOOK
        self.argument, self.data = nice_path(self.path), None
        self.file = os.path.basename(self.path)
        self.name = name_of(self.path) + ', quick' * options.quick
        try:
            if self.path.endswith('.xz'):
                with lzma.open(self.path) as file:
                    self.data = file.read()
                self.argument, self.file = '-', self.file[:-len('.xz')]
            else:
                open(self.path, 'rb').close()
        except (OSError, lzma.LZMAError) as error:
            fail('%s: %s' % (self.path, getattr(error, 'strerror', None) or error))
        say('# text: %s' % self.name)

    def content(self):
        if self.data is None:
            with open(os.path.join(ROOT, self.argument), 'rb') as file:
                self.data = file.read()
        return self.data

    def windows(self, length):
        """How many windows of so many tokens the text has, up to 16: a token has fewer than five characters."""
        return max(1, min(16, len(self.content()) // (5 * length)))

    def typed(self, arguments):
        """A command as a reader would type it, who has the text as a file of that name."""
        words = list(arguments)
        if '--ppl' in words:
            words[words.index('--ppl') + 1] = self.file
        return shlex.join(['./run'] + words)


def kept(options, path, lines, models, text):
    """A table that has these # lines and is newer than its program, models and text is not measured again."""
    try:
        with open(path, encoding='utf-8') as file:
            there = set(file.read().splitlines())
        made_from = [os.path.join(ROOT, name) for name in ['run'] + models] + [text.path]
        new = os.path.getmtime(path) > max(map(os.path.getmtime, made_from))
    except OSError:
        return False
    if options.all or options.only or not new or not there.issuperset(lines):
        return False
    say('# %s: kept, since it is newer than ./run, model and text' % nice_path(path))
    return True


def of_absent_models(path):
    """The tables in a file that are of models which are not here: not every sibling ships."""
    try:
        with open(path, encoding='utf-8') as file:
            parts = ('\n' + file.read()).split('\n# command\t')[1:]
    except OSError:
        return b''
    models = [os.path.join(ROOT, part.split('./run ', 1)[-1].split()[0]) for part in parts]
    absent = ['# command\t%s\n' % part.strip('\n') for part, m in zip(parts, models) if not os.path.exists(m)]
    return ''.join(absent).encode()


def measure(options, name, commands, text, trained):
    """Runs the commands and keeps their output as one file of tables. An interrupted one leaves no table."""
    path = os.path.join(options.out, name + '.tsv')
    if kept(options, path, ['# command\t' + text.typed(c) for c in commands], [c[0] for c in commands], text):
        return
    start = time.time()
    try:
        with open(path + '.tmp', 'wb') as file:
            for arguments in commands:
                reads = '--ppl' in arguments
                say(text.typed(arguments))
                file.write(b'# command\t%s\n' % text.typed(arguments).encode())
                if '--explain' in arguments:
                    file.write(run_quietly(arguments))
                    continue
                file.write(b'# trained\t%d\n' % trained)
                if reads:
                    file.write(b'# book\t%s\n' % text.name.encode())
                # Its standard error stays the terminal's, for the progress bar.
                done = subprocess.run(['./run'] + arguments, cwd=ROOT, input=text.data if reads else None,
                                      stdout=subprocess.PIPE)
                if done.returncode:
                    fail('no table %s: ./run failed' % path)
                file.write(done.stdout)
            file.write(of_absent_models(path))
        os.replace(path + '.tmp', path)
    except OSError as error:
        fail('%s: %s' % (path, error.strerror))
    finally:
        if os.path.exists(path + '.tmp'):
            os.remove(path + '.tmp')
    say('# %s: %.1f s' % (nice_path(path), time.time() - start))


def experiment(options, name, text, trained):
    """The table of one of experiments.py."""
    start, path = time.time(), os.path.join(options.out, name + '.tsv')
    small = (NAMES if name.startswith('encodings') else MODELS.values() if name == 'layers' else
             {file for file, _ in DROPPED.values()} if name.startswith('dropped') else [])
    models = ['models/%s.bin' % kind for kind in small] or [options.model]
    if kept(options, path, ['# book\t' + text.name], models, text):
        return
    say('# %s: many runs of --ppl, --attn or --check' % name)
    try:
        command, columns, rows = EXPERIMENTS[name](run_quietly, options.model, text.content(), options.quick)
        with open(path, 'w', encoding='utf-8') as file:
            trained = TRAINED if small else trained
            file.write('# command\t./run %s\n# trained\t%d\n# book\t%s\n' % (shlex.join(command), trained, text.name))
            file.writelines('\t'.join(map(str, row)) + '\n' for row in [columns.split()] + rows)
    except (OSError, ValueError) as error:
        fail('%s: %s' % (path, getattr(error, 'strerror', None) or error))
    say('# %s: %.1f s' % (nice_path(path), time.time() - start))


def settings_of(model):
    """The heading of a model's own --explain: {'method': 'yarn', 'train_ctx': '512', ...}."""
    lines = run_quietly([model, '--explain']).decode().splitlines()
    return dict(line[2:].split('\t', 1) for line in lines if line.startswith('# '))


# ---- measurements and drawings ----

def tables(options, text, trained, near, far):
    """{table: the commands that make it}. near and far are the lengths: 4 and 16 times the trained one."""
    model = options.model

    def ppl(length, methods, of=model):
        samples = options.samples or text.windows(length)
        return [of, '--ppl', text.argument, '-n', str(length), '--samples', str(samples), '--rope', ','.join(methods)]

    def passkey(length, methods, of=model):
        return [of, '--passkey', '-n', str(length), '--trials', str(options.trials), '--rope', ','.join(methods)]

    lengths = [n for n in (trained // 2 * 2 ** k for k in range(20)) if n <= far]
    result = {
        'explain-16x': [[model, '--explain', '-n', str(far), '--rope', m] for m in METHODS[:-1]],
        'perplexity-4x': [ppl(near, ONE_LENGTH)],
        'perplexity-16x': [ppl(far, ONE_LENGTH)],
        'sweep': [ppl(far, ['yarn:factor=2,4,8,16,32'])],
        'lengths': [ppl(n, ['none', 'yarn:factor=%g' % (far / trained), 'dynamic-yarn']) for n in lengths],
        'passkey': [passkey(far, ['none', 'yarn'] if options.quick else METHODS)],
        'explain-llama3': [[model, '--explain', '-n', str(far), '--rope', 'llama3']],
        'explain-maps': [[model, '--explain', '-n', str(far), '--rope', m] for m in MAPS],
        'maps-16x': [ppl(far, MAPS + ['window:sinks=4', 'llama3'])],
        'passkey-maps': [passkey(far, ['dca'] if options.quick else MAPS)],
    }
    if os.path.exists(os.path.join(ROOT, SEARCHED)) and not options.quick:
        result['searched-16x'] = [[model, '--explain', '-n', str(far), '--rope-config', SEARCHED]]
    if options.siblings:  # each with its own method
        own = {sibling: [settings_of(sibling)['method']] for sibling in options.siblings}
        result['sibling'] = [ppl(far, methods, sibling) for sibling, methods in own.items()]
        result['passkey-sibling'] = [passkey(far, methods, sibling) for sibling, methods in own.items()]
    return result


SOME = ['--methods', ','.join(STATIC)]
BESIDE = ['--methods', ','.join(['none', 'yarn', 'window'] + MAPS)]
PLAIN = ['--methods', ','.join(ONE_LENGTH), '--title']
PICTURES = {  # their tables and the other arguments of plot.py
    'pairs-16x': (['explain-16x'], SOME + [
        '--title', 'Every method slows the slowest pair by s; they differ in the fast pairs']),
    'decay-16x': (['explain-16x'], SOME + ['--decay', '--title',
                                           'Every method keeps distant matching keys above plain RoPE']),
    'clocks': (['explain-16x'], ['--methods', 'none', '--clocks', '--title',
                                 'Slow pairs reach angles that training never showed']),
    'llama3': (['explain-16x', 'explain-llama3'], ['--divisors', '--methods', 'ntk-by-parts,llama3', '--title',
                                                   'Llama 3 begins to slow pairs later, and ends at the same']),
    'searched-16x': (['explain-16x', 'searched-16x'], ['--divisors', '--methods', 'linear,ntk,yarn,longrope',
                                                      '--title', 'What a search found for 8k is close to YaRN']),
    'perplexity-4x': (['perplexity-4x'], PLAIN + [
        'At 4 times the trained length plain RoPE breaks; linear, untuned, is worse yet']),
    'perplexity-16x': (['perplexity-16x'], PLAIN + [
        'Plain RoPE breaks past its trained length; YaRN and a window do not']),
    'sweep': (['sweep'], ['--title', 'Too small a factor breaks; too large a factor costs a little']),
    'lengths': (['lengths'], ['--title', 'A dynamic scale costs short texts nothing']),
    'sibling': (['perplexity-16x', 'sibling'], ['--methods', 'none,linear,yarn,window', '--title',
                                                'Two hundred steps of tuning take YaRN near the window\'s perplexity']),
    'passkey': (['passkey'], PLAIN + ['Keys found, %: a window forgets what it no longer sees; YaRN finds all']),
    'distances': (['explain-maps'], ['--distances', '--title', 'No map lets a distance grow past the trained length']),
    'maps-16x': (['perplexity-16x', 'maps-16x'], BESIDE + [
        '--behind', 'none,yarn,window', '--title',
        'Maps are better than YaRN in short texts, and as good at the end']),
    'passkey-maps': (['passkey', 'passkey-maps'], BESIDE + [
        '--title', 'Keys found, %: the four maps that see everything find all']),
    'passkey-sibling': (['passkey-sibling'], ['--title', 'Passkeys found after 200 steps of tuning: FOUND']),
    'again': (['again'], ['--title', 'A page repeated after 9,000 characters: a window has forgotten it']),
    'stale': (['stale'], ['--title', 'Stale keys change the predictions of the same text']),
    'encodings': (['encodings'], ['--title', 'Trained on 256: RoPE gets worse, ALiBi does not (text: BOOK)']),
    'encodings-keys': (['encodings-keys'], ['--title',
                                            'Keys found, %: with learned distances nearly all, 16 times further']),
    'dropped': (['dropped'], ['--title', 'RoPE taken away: flat past 256, and worse at every length than YaRN']),
    'dropped-keys': (['dropped-keys'], ['--title', 'Keys found, %: what copied does not copy without RoPE']),
    'layers': (['layers'], ['--title', 'With one full layer in five, little breaks (text: BOOK)']),
    'crowd': (['crowd'], ['--title', 'Large angles cost much, a crowd of keys little, and both together most']),
    # of tables that released_tables.py measures
    'released-smollm2': (['released-smollm2'], [
        '--title', 'SmolLM2 past its 8,192: plain RoPE breaks, maps and YaRN do not']),
    'released-gemma3': (['released-gemma3'], ['--title', 'Gemma 3: scaling the sliding layers is a mistake']),
    'released-smollm2-jumps': (['released-smollm2-jumps'], [
        '--title', 'SmolLM2 at four times its length, with jumps: all repairs work but linear and cope']),
    'released-gemma3-48k': (['released-gemma3-48k'], [
        '--title', 'Gemma 3 past its 32,768: plain RoPE breaks, YaRN in its full layers does not']),
    'released-gemma3-jumps': (['released-gemma3-jumps'], [
        '--title', 'Gemma 3 at four times its length, with jumps']),
    'released-qwen-jumps': (['released-qwen-jumps'], [
        '--title', 'Qwen 2.5 Coder at four times its length, with jumps']),
    'attention': (['attention'], ['--title', 'Past 512, plain RoPE gives keys scores that no near key has']),
}


TABLES = {table for needed, _ in PICTURES.values() for table in needed}
MATPLOTLIB = ('matplotlib is not here: apt install python3-matplotlib (then make figures PYTHON=/usr/bin/python3), '
              'or pip install matplotlib')


def measure_all(options):
    for path, advice in ((options.model, '--model names another'), (os.path.join(ROOT, 'run'), 'make builds it')):
        if not os.path.exists(path):
            fail('%s: not there (%s)' % (path, advice))
    for sibling in options.siblings:
        if not os.path.exists(sibling):
            say('# no %s: it is left out of the tables' % nice_path(sibling))
    options.model = nice_path(options.model)
    options.siblings = [nice_path(s) for s in options.siblings if os.path.exists(s)]
    trained = int(settings_of(options.model)['train_ctx'])
    near, far = [int(k * trained) for k in ((1.5, 2) if options.quick else (4, 16))]
    text = Text(options)
    jobs = tables(options, text, trained, near, far)
    wanted = options.only.split(',') if options.only else list(jobs) + list(EXPERIMENTS)
    unknown = [name for name in wanted if name not in jobs and name not in EXPERIMENTS]
    if unknown:
        fail('--only: there is no table %s (expected %s)' % (unknown[0], ', '.join(list(jobs) + list(EXPERIMENTS))))
    for name in wanted:
        if name in EXPERIMENTS:
            experiment(options, name, text, trained)
        else:
            measure(options, name, jobs[name], text, far if 'sibling' in name else trained)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--text', metavar='FILE', default=os.environ.get('TEXT') or None,
                        help='text of the perplexities')
    parser.add_argument('--out', metavar='DIR', default=os.path.join(ROOT, 'docs', 'figures'))
    parser.add_argument('--model', metavar='FILE', default=os.path.join(ROOT, 'model.bin'))
    parser.add_argument('--siblings', metavar='FILE', nargs='*', default=[os.path.join(ROOT, 'model-8k.bin')],
                        help='tuned on long texts')
    parser.add_argument('--samples', type=int, metavar='K', help='windows of the text [as many as it has, up to 16]')
    parser.add_argument('--trials', type=int, metavar='K', help='keys at each length and depth [4]')
    parser.add_argument('--only', metavar='LIST',
                        help='measure these tables only, comma-separated; draw all that are there')
    parser.add_argument('--all', action='store_true', help='measure also what is newer than ./run, models and text')
    parser.add_argument('--plots-only', action='store_true', help='measure nothing, draw the tables that are there')
    parser.add_argument('--tables-only', action='store_true', help='draw nothing')
    parser.add_argument('--quick', action='store_true', help='all of it, far too short to mean anything: seconds')
    options = parser.parse_args()
    options.samples = options.samples or (1 if options.quick else None)
    options.trials = options.trials or (1 if options.quick else 4)
    can_draw = importlib.util.find_spec('matplotlib') is not None
    if options.plots_only and not can_draw:
        fail(MATPLOTLIB)
    try:
        os.makedirs(options.out, exist_ok=True)
    except OSError as error:
        fail('%s: %s' % (options.out, error.strerror))
    start = time.time()
    if not options.plots_only:
        measure_all(options)
    if not can_draw and not options.tables_only:
        measured = options.only.split(',') if options.only else TABLES
        missing = [name + '.png' for name, (needed, _) in PICTURES.items() if set(needed) & set(measured)]
        say('# no picture (%s): %s' % (', '.join(missing), MATPLOTLIB))
    for name, (needed, arguments) in PICTURES.items() if can_draw and not options.tables_only else ():
        paths = [os.path.join(options.out, table + '.tsv') for table in needed]
        missing = [path for path in paths if not os.path.exists(path)]
        if missing:
            say('# no %s.png: %s is not there' % (name, nice_path(missing[0])))
            continue
        plot = ['tools/figures/plot.py'] + [nice_path(p) for p in paths] + [
            '-o', nice_path(os.path.join(options.out, name + '.png'))] + arguments
        say(shlex.join(['python3'] + plot))
        if subprocess.run([sys.executable] + plot, cwd=ROOT).returncode:
            fail('%s.png could not be drawn' % name)
    say('# all: %.0f s' % (time.time() - start))


if __name__ == '__main__':
    main()
