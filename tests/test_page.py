"""The page: its C without a browser (test_page.c), and all of it in headless Chromium (tests/page), where `make page`
has been run and Chromium is installed."""

import os
import re
import shutil
import subprocess

from common import ROOT, add_counts, check, compiled, in_work, main, run, skip, takes_long, tiny_model, write_tokenizer


def scores(kind):
    tokenizer = in_work('tokenizer.bin')
    model = tiny_model('model.bin', vocab_size=write_tokenizer(tokenizer), seq_len=1 << 14)
    program = compiled('tests/test_page.c', kind, '-I', os.path.join(ROOT, 'tests', 'page'))
    if not program:
        return skip('the page\'s C under the sanitizers (the compiler has none)')
    return add_counts(run(model, tokenizer, program=program), 'the page\'s C, ' + kind)


def test_scores():
    scores('same')


@takes_long
def test_scores_sanitized():
    scores('sanitized')


def missing():
    """The missing tools of the tests, in words, or None."""
    if not os.path.exists(os.path.join(ROOT, 'build', 'page', 'index.html')):
        return 'the page is not built (make page)'
    if not shutil.which('node') or not os.path.isdir(os.path.join(ROOT, 'page', 'node_modules', 'playwright-core')):
        return 'node or playwright-core is not here (make page gets it)'
    if not os.environ.get('CHROMIUM') and not any(map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))):
        return 'Chromium is not here (apt-get install chromium)'
    return None


@takes_long
def test_dist_page():
    """make dist-page writes the page in one file."""
    if missing():
        return skip('make dist-page: ' + missing())
    made = subprocess.run(['make', '-C', ROOT, 'dist-page'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=600, env=dict(os.environ, MAKEFLAGS=''))
    if not check(made.returncode == 0, 'make dist-page', made.stdout.decode(errors='replace')[-300:]):
        return None
    with open(os.path.join(ROOT, 'dist', 'rope.html'), encoding='utf-8') as file:
        page = file.read()
    return check('id="file-model.bin"' in page and 'What happens after position 512?' in page,
                 'dist/rope.html is the page')


def test_page():
    """The page in a browser takes longer than all that make test may: make test-page asks for it."""
    lacks = missing() or (None if os.environ.get('PAGE_IN_BROWSER') else 'make test-page drives it')
    if lacks:
        return skip('the page in a browser: ' + lacks)
    done = subprocess.run(['node', os.path.join(ROOT, 'tests', 'page', 'test.mjs')], cwd=ROOT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2400)
    lines = done.stdout.decode(errors='replace').splitlines()
    for line in lines[:-1]:
        print(line)
    summary = re.match(r'(\d+) passed, (\d+) failed$', lines[-1] if lines else '')
    if not check(summary is not None, 'the page\'s tests end with their sum', ' '.join(lines[-5:])):
        return None
    check(summary.group(2) == '0', 'the page', lines[-1])
    return check((done.returncode == 0) == (summary.group(2) == '0'), 'their exit status fits', done.returncode)


main(globals())
