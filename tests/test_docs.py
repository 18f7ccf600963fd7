"""The documents do not rot: their commands run (shorter, where they say how long; test_printed.py runs those with their
output as they are), links lead somewhere, the manual has every option and makes the man page, and the method that
docs/code.md adds is added to a copy and run."""

import glob
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys

from engine_cases import read_cases
from common import FIELDS, ROOT, check, good, help_all, in_work, lacks, main, read, run, skip, table, takes_long, write

sys.path.insert(0, os.path.join(ROOT, 'tools', 'generate'))
import manpage  # noqa: E402
sys.path.insert(0, os.path.join(ROOT, 'tools', 'lint'))
import documents  # noqa: E402
from test_make import MAKEFILES  # noqa: E402

# docs/class.md has a checker of its own.
FIRST = ['README.md', 'docs/manual.md', 'models/README.md']  # the manual's commands write what others read
DOCUMENTS = FIRST + sorted({'docs/' + name for name in os.listdir(os.path.join(ROOT, 'docs')) if name.endswith('.md')} -
                           {'docs/class.md', *FIRST})
SHORTER = [(r'-n (131072|32768|8192|8k|4096|2048|1024|60000)\b', '-n 600'), (r'--samples \d+', '--samples 2'),
           (r'--trials \d+', '--trials 1'), (r'--budget [1-9]\d*', '--budget 2'), (r'--windows \d+', '--windows 1'),
           (r'--reads \d+', '--reads 3')]
COMMAND = r'(?:    )?(?:make && )?((?:head -c \d+ \S+ \| )?(?:\./run|python3 model_export\.py) .*)'
OWN = {'block.json', 'config.json', 'path/to/checkpoint/config.json', 'books.txt', 'long_prompt.txt', 'mymodel.bin',
       'original.bin', 'mymodel-q8.bin', 'found.json', 'check.json', 'report.xml', 'OUT.gguf'}
RELEASED = 'smollm2.gguf', 'gemma3.gguf', 'qwen.gguf'  # the models of make test-real: commands of these are its own
OF_SERVERS = 'served.gguf', 'FOLDER mine.bin', '/path/to/blobs'
BOOK = 'It was a fine day, and they went down to the river together. ' * 200
AS_WRITTEN = os.environ.get('AS_WRITTEN')  # a document whose commands are not made shorter: it takes minutes


def document(name):
    with open(os.path.join(ROOT, name), encoding='utf-8') as file:
        return file.read()


def commands():
    """The commands of all documents: indented or fenced lines that begin so, up to a comment."""
    found = {}
    for name in DOCUMENTS:
        for line in document(name).split('\n'):
            match = re.fullmatch(COMMAND, line)
            of_ours = match and not any(name in line for name in RELEASED + OF_SERVERS)
            if of_ours and 'options]' not in line and 'alibi-f32' not in line:
                found.setdefault(re.sub(r'\s+# .*', '', match.group(1)), name)
    return found


def desk(folder, program):
    """A folder like the reader's: the contents of a clone, the program, and the reader's own files in the commands."""
    os.makedirs(folder, exist_ok=True)
    for name in ('model.bin', 'model-8k.bin', 'tokenizer.bin', 'models', 'book.txt', 'docs', 'tests', 'export',
                 'model_export.py'):
        os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    os.symlink(program, os.path.join(folder, 'run'))
    write(os.path.join(folder, 'books.txt'), BOOK)
    write(os.path.join(folder, 'long_prompt.txt'), BOOK[:500])
    write(os.path.join(folder, 'answers.jsonl'),
          '{"task": "passkey", "length": 8192, "depth": 0.25, "answers": ["48213"], "said": " 48213. Remember"}\n')
    write(os.path.join(folder, 'block.json'),
          '{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}')
    write(os.path.join(folder, 'config.json'), '{"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4}')
    # In floats, as the exporter writes it: it would not replace a model that --quantize rounded.
    subprocess.run([os.path.join(ROOT, 'run'), os.path.join(ROOT, 'model.bin'), '--quantize', 'f16',
                    os.path.join(folder, 'mymodel.bin')], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    shutil.copy(os.path.join(ROOT, 'tokenizer.bin'), os.path.join(folder, 'mymodel.tokenizer.bin'))
    os.symlink('mymodel.bin', os.path.join(folder, 'original.bin'))
    os.symlink('mymodel.tokenizer.bin', os.path.join(folder, 'original.tokenizer.bin'))


def piped(command):
    """(the bytes that `head -c N FILE |` pipes into a command, or None; the command after it)."""
    head, _, rest = command.rpartition(' | ')
    if not head:
        return None, command
    _, _, size, name = head.split()
    return document(name).encode()[:int(size)], rest


def shorter(command):
    """The words of a command, for as short a text as will do; a prompt of one length keeps it."""
    for pattern, replacement in SHORTER if 'docs/key-far.txt' not in command else ():
        command = re.sub(pattern, replacement, command)
    words = shlex.split(command)
    if ('--passkey' in words or '--tasks' in words) and '--trials' not in words:
        words += ['--trials', '1']
    if '--check' in words and '--budget' not in words and '--save' not in words:
        words += ['--budget', '2']
    return words


def run_command(folder, command, name=''):
    given, command = piped(command)
    if '--rope-config found.json' in command:  # written by tools/search.py, not --check
        shutil.copy(os.path.join(ROOT, 'docs/searched-16x.json'), os.path.join(folder, 'found.json'))
    words = shlex.split(command) if name == AS_WRITTEN else shorter(command)
    shutil.rmtree(os.path.join(folder, 'OUT_FOLDER'), ignore_errors=True)  # a new folder each time
    at = words.index('>') if '>' in words else None
    out = words[at + 1] if at else None
    if at:
        del words[at:at + 2]
    words[:1] = [sys.executable] if words[0] == 'python3' else words[:1]
    done = subprocess.run(words, cwd=folder, input=given or b'', stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, OMP_NUM_THREADS='1'), timeout=None if name == AS_WRITTEN else 300)
    if out:
        write(os.path.join(folder, out), done.stdout)
    return done.returncode, done.stderr.decode(errors='replace')[-200:]


def held(command, status):
    """Whether a command ended as it may: with 1 where engines differ or a short check fails, with 3 where one is
    undecided, as a short text's key tokens are."""
    return status == 0 or status == 1 and '--engines' in command or status in (1, 3) and '--check' in command or \
        status == 3 and '--keys' in command


@takes_long
def test_commands():
    folder = in_work('desk')
    desk(folder, os.path.join(ROOT, 'run'))
    # A checkpoint of the reader's own: the model that ships, carried out.
    checkpoint = os.path.join(folder, 'path/to/checkpoint')
    os.makedirs(os.path.dirname(checkpoint))
    status, err = run_command(folder, 'python3 model_export.py model.bin path/to/checkpoint/')
    check(status == 0, 'a checkpoint to bring', err)
    found = commands()
    check(len(found) >= 40, 'the documents hold commands', found)
    for command, name in found.items():
        if 'quadratic' not in command:
            status, err = run_command(folder, command, name)
            check(held(command, status), '%s: %s' % (name, command), 'status %s: %s' % (status, err))


def test_fresh_clone():
    """Files named in commands are in the repository, except the reader's own and those written by a command."""
    listed = subprocess.run(['git', 'ls-files'], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if listed.returncode:
        return skip('this is no clone')
    tracked = set(listed.stdout.decode().split('\n'))
    for command, name in commands().items():
        named = [word for word in shlex.split(command) if re.search(r'\w\.(bin|txt|json|gguf)$', word)]
        lost = [word for word in named if word not in tracked | OWN]
        check(not lost and (name != 'README.md' or not OWN & set(named)), 'a clone holds what is in: ' + command, lost)


@takes_long
def test_make_commands():
    """Lines that begin with make name targets and variables that the Makefile has."""
    lines = {re.sub(r'\s+# .*| && .*', '', line.strip()) for name in DOCUMENTS for line in document(name).split('\n')
             if re.match(r'    make\b', line)}
    check(len(lines) >= 5, 'the documents hold lines for make', lines)
    makefile = ''.join(map(document, MAKEFILES))
    for line in sorted(lines):
        done = subprocess.run(['make', '-n', '-j1', *shlex.split(line)[1:]], cwd=ROOT, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
        unknown = [name for name in re.findall(r'\b([A-Z]+)=', line) if not re.search(r'\b%s\b' % name, makefile)]
        check(done.returncode == 0 and not unknown, line, unknown or done.stderr[-200:])


# ---- docs/check.md ----

def check_rows():
    """(error, words of the command, {field: value} of the copy it runs on, {row: (value or None, length or None)}) of the
    table "What it finds", but those of models that are not here."""
    section = document('docs/check.md').split('\n## What it finds')[1]
    for line in section.split('\n'):
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if len(cells) != 3 or 'model' not in cells[1]:
            continue
        fields = {name: float(value) for name, value in re.findall(r'`(\w+)` (\d+)', cells[1])}
        words = ['copy.bin'] if fields else shlex.split(cells[1].strip('`'))
        rows = re.findall(r'`([\w-]+)`(?: ([\d.]+))?(?: at ([\d,]+))?', cells[2])
        if fields or words[0] in ('model.bin', 'model-8k.bin'):
            yield cells[0], words, fields, {name: (float(value) if value else None, length.replace(',', ''))
                                            for name, value, length in rows}


def judged(words, fields, *more):
    """The rows of --check by a command of the table: {(row, length): row}, and the status."""
    path = os.path.join(ROOT, words[0])
    if fields:
        data = bytearray(read(os.path.join(ROOT, 'model.bin')))
        for field, offset, kind, _ in FIELDS:
            if field in fields:
                struct.pack_into('<' + kind, data, offset, fields[field] if kind in 'fd' else int(fields[field]))
        path = write(in_work('copy.bin'), bytes(data))
    result = run(path, '--check', '-z', os.path.join(ROOT, 'tokenizer.bin'), *words[1:], *more, timeout=600)
    return {(row['check'], row['length']): row for row in table(result.out)[2]}, result.status


OF_SETTINGS = {'method', 'factor', 'reach', 'theta', 'train_ctx'}


def finds(error, found, expected):
    rows, status = found
    for name, (value, length) in expected.items():
        fails = [row for (check_name, at), row in rows.items()
                 if check_name == name and row['verdict'] == 'fail' and length in ('', at)]
        check(status == 1 and fails, 'docs/check.md: %s is found by %s' % (error, name), status, rows)
        for row in fails[:1]:
            check(value is None or abs(float(row['value']) - value) <= 0.15 * value,
                  'docs/check.md: %s, the value of %s' % (error, name), row['value'], value)


def test_check_finds():
    """The rows of "What it finds" that judge settings."""
    rows = [row for row in check_rows() if '--settings' in row[1]]
    check(len(rows) >= 5, 'docs/check.md has a table of what --check finds', rows)
    for error, words, fields, expected in rows:
        finds(error, judged([w for w in words if w != '--settings'], fields, '--settings'), expected)


@takes_long
def test_check_finds_by_reading():
    rows = [row for row in check_rows() if '--settings' not in row[1]]
    check(len(rows) >= 5, 'docs/check.md has a table of what --check finds', rows)
    for error, words, fields, expected in rows:
        finds(error, judged(words, fields), expected)


def check_job():
    """[(name of a step, its lines for bash)] of the job in docs/check.md."""
    job = re.search(r'```yaml\n(.*?)```', document('docs/check.md'), re.S).group(1)
    for name, text in re.findall(r'- name: (.*)\n +run: (\|\n(?: {10}.*\n)+|.*\n)', job):
        yield name, '\n'.join(line.strip() for line in text.lstrip('|').strip().split('\n'))


@takes_long
def test_check_job():
    """The job runs as it is written, on a folder and the folder it was made from, and passes on where it is undecided."""
    place = in_work('job')
    desk(os.path.join(place, 'rope.c'), os.path.join(ROOT, 'run'))
    for name in 'model', 'original':
        subprocess.run([sys.executable, os.path.join(ROOT, 'model_export.py'), os.path.join(ROOT, 'model-8k.bin'),
                        os.path.join(place, name) + '/'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    steps = dict(check_job())
    check(list(steps) == ['build', 'judge the settings, without weights', 'import', 'check'], 'its steps', steps)
    statuses = []
    for name, text in steps.items():
        for budget in (500, 0.1) if name == 'check' else (500,):
            lines = re.sub(r'--budget \d+', '--budget %g' % budget, re.sub('^make .*', 'true', text))
            done = subprocess.run(['bash', '-e', '-c', lines], cwd=place, env=dict(os.environ, LENGTH='1k'),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            check(done.returncode == 0, 'docs/check.md, the job: %s' % name, done.stdout[-300:], done.stderr[-300:])
            if name == 'check':
                with open(os.path.join(place, 'check.json'), encoding='utf-8') as file:
                    statuses.append(json.load(file)['status'])
                check((b'::warning::' in done.stdout) == (statuses[-1] == 3), 'a warning', done.stdout)
    check(statuses == [0, 3], 'decided, and undecided', statuses)


# ---- counts ----

NUMBERS = ('zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen '
           'seventeen eighteen nineteen twenty').split()
TENS = {'thirty': 30, 'forty': 40, 'fifty': 50}


def number(word):
    """The number that a word or digits stand for; None: neither."""
    word, digits = word.lower(), word.replace(',', '')
    return NUMBERS.index(word) if word in NUMBERS else TENS.get(word) or (int(digits) if digits.isdigit() else None)


def engine_cases():
    """How many configs of engines there are in tests, and how many an engine accepts and reads otherwise."""
    cases, otherwise = read_cases(), 0
    for case in cases:
        config = write(in_work('case.json'), json.dumps(case['config']))
        rows = table(run('--engines', '--rope-config', config, '-n', case['length']).out)[2]
        otherwise += any(row['verdict'] in ('differs', 'ignored') for row in rows)
    return len(cases), otherwise


def counts():
    """(name, a pattern whose groups are numbers, the expected numbers): counts of parts of the repository."""
    code, story = document('docs/code.md'), document('page/src/story.js')
    function, row = re.findall(r'```c\n(.*?)```', code.split('## A method of your own')[1], re.S)[:2]
    added = [line for line in (function + row).splitlines() if line[:2] != '//']
    in_class = document('docs/class.md').split('\n## Exercises\n')[1].split('\n## Solutions\n')[0]
    block = '{"model_type": "llama", "head_dim": 64, "max_position_embeddings": 4096, "rope_theta": 10000.0}'
    engines = table(run('--engines', '--rope-config', write(in_work('plain.json'), block)).out)[2]
    models = [name for name in os.listdir(os.path.join(ROOT, 'models'))
              if name.endswith('.bin') and 'tokenizer' not in name]
    if not lacks('models/rope.bin'):
        yield 'small models', r'(?i)(?:\*\*|# |\| |\. |the |:)(\w+) small(?:er)? models', [len(models)]
    yield 'lines of the reference, in hundreds', r'in about (\S+) plain lines of Python', [
        round(document('tests/reference.py').count('\n'), -2)]
    for pattern in (r'(?i)(?:how|one block,|of the) \[?(\w+) engines', r'here one of (\w+) whose reading',
                    r'Most of the (\w+) readings'):
        yield 'engines', pattern, [len(engines)]
    yield from counts_of_siblings(models)
    rows = family_rows()
    runs = sum(row.get('runs', False) for row in rows)
    yield 'families, in tens', r'(?i)more than (\w+)\s+\[?families', [runs // 10 * 10]
    scaled, maps = (set(names_of(help_all().split(title)[1].split('\n\n')[0]))
                    for title in ('Methods of --rope:', 'Distance maps'))
    yield 'scaling methods', r'(\w+) scaling methods', [len(scaled - {'none', 'window'})]
    yield 'distance maps', r'and (\w+) distance maps', [len(maps)]
    yield 'engines of a check', r'`# engines (\d+)`', [len(engines)]
    yield 'engines of the class', r'(?i)(\w+) programs (?:that )?read it', [len(engines)]
    yield 'configs', r'Take (\d+) configs \(`tests/conformance`\)\. With (\d+) of\s+them', list(engine_cases())
    yield 'chapters of the page', r'in (\w+) chapters', [len(re.findall(r'^        id:', story, re.M))]
    yield 'lines of a method', r'(\w+) lines of C \|', [len(added)]
    yield 'lines of a method, in short', r'adds one in (\w+) lines', [len(added)]
    yield 'exercises of the class', r'has (\w+) exercises with solutions', [len(re.findall(r'^\d+\. ', in_class, re.M))]


def family_rows():
    """The rows of export/families.json but this program's own."""
    return [row for name, row in json.loads(document('export/families.json')).items() if name != 'rope.c']


def counts_of_siblings(models):
    """The small models by their difference: their position encodings, or the windows of their layers."""
    layers = [name for name in models if name.startswith('layers-')]
    sliding = [name for name in layers if not name.startswith('layers-state')]
    if not layers:
        return
    for pattern in (r'(?i)(\w+) (?:of them )?differ in\s+\[?how they\s+(?:know|encode)',
                    r'(\w+) ways of knowing\s+positions', r'(\w+) small models of 1\.5 million'):
        yield 'models by how they know positions', pattern, [len(models) - len(layers) - 1]  # the one is dropped.bin
    for pattern in (r'(\w+) small models of that kind', r'(\w+) differ from the one with RoPE',
                    r'and (\w+) whose layers differ'):
        yield 'models whose layers differ', pattern, [len(layers)]
    yield 'models of which layers slide', r'has (\w+) small models of this kind', [len(sliding)]


def documents_that_count():
    """{name: text, in one line} of all documents; of CHANGELOG.md the newest version: the rest is of its day."""
    names = DOCUMENTS + sorted(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, 'docs', '*.md')))
    changes = document('CHANGELOG.md').split('\n## [')[1]
    texts = {'CHANGELOG.md': changes, **{name: document(name) for name in names}}
    return {name: ' '.join(text.split()) for name, text in texts.items()}


def test_counts():
    """If a document counts parts of the repository in one of these words, it counts right."""
    documents = documents_that_count()
    for what, pattern, expected in counts():
        found = [(name, match) for name, text in documents.items() for match in re.findall(pattern, text)]
        for name, match in found:
            said = [number(word) for word in (match if isinstance(match, tuple) else (match,))]
            if None not in said:  # "how many engines" counts nothing
                check(said == expected, '%s says another number of %s: change it there' % (name, what), (said, expected))


# ---- links ----

def test_links_and_options():
    """Links lead somewhere, names of code in documents exist, and figures are those of the table linked beside them
    (tools/lint/documents.py)."""
    found = list(documents.faults())
    check(not found, 'documents', found)
    links = '[a](manual.md#options) [b](nowhere.md) [c](manual.md#no-such) [d](https://x.y)'
    dead = list(documents.dead_links('docs/x.md', links))
    check(dead == ['nowhere.md', 'manual.md#no-such'], 'dead links are found', dead)
    figures = [said for _, said in documents.strange_figures(
        'docs/x.md', 'It is 34.2, then 34.3 (`0.5`; [all](figures/perplexity-16x.tsv)).\n\nIt is 1.5.')]
    check(figures == ['34.3'], 'a figure that is not in the table is found', figures)
    known = {'./run': {'--rope'}}
    stale = [what for _, what in documents.stale_options(
        'As `--rop` or `--rope`:\n\n    ./run model.bin --rope yarn --roep x\n    python3 tools/nowhere.py\n', known, {'--rope'})]
    check(stale == ['an option that is not one of a program here (--rop)', 'an option that is not one of ./run (--roep)',
                    'a command of a program that is not here (tools/nowhere.py)'], 'stale options are found', stale)


# ---- the manual and the man page ----

def names_of(told):
    """The options, methods and maps that --help has a line for, but those whose source is given as "mine":
    docs/code.md has its reader add such rows."""
    return re.findall(r'^  (\S+)(?!.*\(mine\)$)', told, re.M)


def lacking(markdown, names):
    """Those that the manual names nowhere in code."""
    named = set(re.findall(r'[^\s`|=]+', ' '.join(re.findall(r'`([^`]+)`', markdown))))
    return [name for name in names if name not in named]


def test_manual_has_all_methods():
    """And it names no option in code that there is not, of ./run or of the programs in Python."""
    markdown, told = document('docs/manual.md'), help_all()
    names = [name for name in names_of(told) if name[0] != '-']
    check(len(names) > 12 and not lacking(markdown, names),
          'add to the tables of docs/manual.md these methods and maps of --help', lacking(markdown, names))
    check(lacking(markdown, ['yarn', 'quadratic']) == ['quadratic'], 'one that it lacks is found')
    check(names_of('  yarn  by parts (arXiv)\n  mine  (mine)\n  log  a row (mine)') == ['yarn'], 'rows of one\'s own are none')
    options = set(re.findall(r'^  (--?[a-z][a-z-]*)', told, re.M))
    said = set(re.findall(r'`(--[a-z][a-z-]*)', markdown))
    beside = '\n'.join(map(document, ('model_export.py', 'server_probe.py', 'docs/served.md', 'tools/search.py')))
    unknown = [name for name in said - options if name not in beside]
    check(len(said) > 30 and not unknown, 'and no option that there is not', unknown)


def test_man_page_has_all_options():
    """By the tables in C, it has every option as --help all tells it, in its order."""
    page, told = man_page('rope-run').replace('\\-', '-').replace('\\&', ''), help_all()
    lines = re.findall(r'^  (--?[a-z][a-z-]*) ?(\S.*?)?  +(.*)$', told.partition('Methods of --rope')[0], re.M)
    rows = ['.TP\n\\fB%s\\fR%s\n%s\n' % (name, ' ' + argument if argument else '', text)
            for name, argument, text in lines]
    places = [page.find(row) for row in rows]
    check(len(rows) > 70 and -1 not in places and places == sorted(places), 'the man page has every option of --help all',
          [row for row, place in zip(rows, places) if place < 0])


def man_page(name):
    return '\n'.join(manpage.page(document('docs/manual.md'), name, '1.2', '/data', '/documents'))


def test_man_page():
    """Every section of the manual is there but those about the sources, and man has nothing to say against it."""
    markdown, text = document('docs/manual.md'), man_page('rope-run')
    headings = [title for title in re.findall(r'^##+ (.*)', markdown, re.M)]
    there = {line.partition(' ')[2] for line in text.split('\n') if line.startswith(('.SH ', '.SS '))}
    lost = [title for title in headings if not {manpage.escaped(title), manpage.escaped(title.upper())} & there]
    check(len(headings) > 20 and lost == ['In a browser', 'Building', 'Packaging', 'Tested'],
          'the man page has every section of the manual but those about the sources', lost)
    told = good('--help', 'tasks').out.partition('\nColumns:\n')[2]
    names = re.findall(r'^  (\w.*?)(?:   .*)?$', told, re.M)
    check(len(names) > 10 and all('.TP\n\\fB%s\\fR\n' % manpage.escaped(one) in text for one in names),
          'it has what --help tasks says of the output', names)
    left = [mark for mark in ('](', '\n|', '\n#', '**', '```') if mark in text]
    check(not left, 'nothing of Markdown is left', left)
    path = write(in_work('rope-run.1'), text)
    if not shutil.which('groff'):
        return skip('groff is not here')
    done = subprocess.run(['groff', '-man', '-Kutf8', '-Tutf8', '-ww', path], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    problems = [line for line in done.stderr.decode().split('\n') if line and "can't break" not in line]
    check(done.returncode == 0 and not problems, 'groff takes it', problems[:3])


def test_man_page_names():
    """It speaks of the program by the name that is installed, and of files that are, or says that the sources have
    them."""
    text = man_page('other').replace('\\-', '-')
    lost = [part for part in ('\nother, other-export, other-probe - ', '\nother model.bin --explain ',
                              '\nother-export path/to/checkpoint mymodel.bin') if part not in text]
    check(text.startswith('.TH OTHER 1 ') and not lost, 'by its name', lost)
    source = [word for word in ('./run', 'model_export.py', 'python3', '\\fBmake', 'tools/', 'tests/', 'models/')
              if word in text]
    check(not source, 'and by no name of the sources', source)
    check('models of the sources has four' in text and '/data' in text and '/documents' in text,
          'what only the sources have is called so, and where the rest lies is said')


# ---- a method of your own ----

@takes_long
def test_method_of_your_own():
    code = document('docs/code.md')
    function, row = re.findall(r'```c\n(.*?)```', code.split('## A method of your own')[1], re.S)[:2]
    check(len(function.strip().splitlines()) <= 12, 'it is about ten lines', function)
    tree = in_work('tree')  # with the built files, so that make builds again only files that the method changes
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns('portable', 'tests', '*.bin', '.git', 'docs', 'page'))
    source = open(os.path.join(tree, 'rope.c'), encoding='utf-8').read()
    if 'double quadratic(' not in source:  # else its reader has pasted it
        table = source.index('const RopeMethod rope_methods[]')
        end = source.index('};', table)
        above = source.rindex('\n\n', 0, table)
        write(os.path.join(tree, 'rope.c'), source[:above] + '\n\n' + function + source[above:end] + row + source[end:])
    built = subprocess.run(['make', '-s', 'run'], cwd=tree, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    if not check(built.returncode == 0, 'it builds', built.stdout[-300:]):
        return
    folder = in_work('own')
    desk(folder, os.path.join(tree, 'run'))
    for command in commands():
        if 'quadratic' in command or '--help' in command:
            status, err = run_command(folder, command)
            check(status == 0, 'with a method of your own: %s' % command, 'status %s: %s' % (status, err))


if __name__ == '__main__':
    if not os.path.exists(os.path.join(ROOT, 'model.bin')):
        skip('the shipped model is not there')
        for name in [name for name in globals() if name.startswith('test_')]:
            del globals()[name]
    main(globals())
