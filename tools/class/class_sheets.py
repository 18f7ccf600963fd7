#!/usr/bin/env python3
"""A teacher's papers, written from docs/class.md into build/class: slides.html, one file that needs only a browser; the
plan, the handout and the solutions, each as HTML that prints on A4 and Letter, and as PDF for both where chromium or
weasyprint is there. rope.html joins them once `make page` has built it. `make class`.

    tools/class/class_sheets.py [FOLDER]    needs neither a compiler nor ./run
"""
import base64
import glob
import html
import os
import re
import shutil
import subprocess
import sys

import class_pictures
from markdown_html import html_of, inline

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHEETS = os.path.join(ROOT, 'tools', 'class', 'sheets')
BROWSERS = ('chromium', 'chromium-browser', 'google-chrome')
PAPERS = {'a4': 'A4', 'letter': 'letter'}
SECONDS = 120  # that a PDF may take


def read(*names):
    with open(os.path.join(ROOT, *names), encoding='utf-8') as file:
        return file.read()


def section(text, title, level=2):
    """The text below a heading, up to the next one of its level or above."""
    end = r'(?=^#{1,%d} [A-Z]|\Z)' % level  # a remark in a block of code begins small
    found = re.search('^%s %s$\n(.*?)%s' % ('#' * level, re.escape(title), end), text, re.M | re.S)
    if not found:
        sys.exit('class_sheets.py: docs/class.md has no heading %r' % title)
    return found[1].strip('\n')


def sections(text):
    """{number: (title, text)} of the nine commands."""
    found = re.findall(r'^### (\d)\. (.*?)\n(.*?)(?=^##)', text, re.M | re.S)
    return {int(number): (title, body) for number, title, body in found}


def paragraph(body, name):
    """The paragraph that begins with a bold word, without it."""
    found = re.search(r'^\*\*%s\*?\*?(.*?)(?=\n\n|\Z)' % name, body, re.M | re.S)
    return ' '.join(found[1].split())


def first_sentence(text):
    """(a paragraph's first sentence, the rest)."""
    parts = re.split(r'(?<=[.!?])\s+(?=[A-Z*`"(])', text, maxsplit=1)
    return parts[0], parts[1] if len(parts) > 1 else ''


def minutes(text):
    """{number of a command: its minutes}, by the plan."""
    found = {}
    for cells in re.findall(r'^\| (\d+ to \d+) \|[^|]*\|[^|]*\|([^|]*)\|', text, re.M):
        for number in re.findall(r'\d', cells[1]):
            found[int(number)] = cells[0]
    return found


# ---- slides ----

def slide(kind, inner, minute='', notes=''):
    return '<section class="slide %s" data-minute="%s">%s%s</section>' % (
        kind, minute, inner, '<aside class="notes">%s</aside>' % notes if notes else '')


def question(number, title, body, picture, minute):
    """The question and its picture. The answer comes after the guess: the first sentence of the teacher's text."""
    answer, rest = first_sentence(paragraph(body, r'Say\.'))
    command = re.search(r'^\$ (?!echo)(.*)$', body, re.M)[1]
    parts = ['<h2><b>%d</b>%s</h2>' % (number, inline(title)), '<div class="two"><div class="said">',
             '<p class="predict">%s</p>' % inline(paragraph(body, r'Predict\.')),
             '<p class="answer later">%s</p>' % inline(answer),
             '</div><figure>%s</figure></div>' % picture,
             '<p class="command later"><code>%s</code></p>' % html.escape(command)]
    wrong = paragraph(body, 'The usual wrong prediction')
    notes = '<p><b>Say.</b> %s</p><p><b>The usual wrong prediction</b> %s</p>' % (inline(rest), inline(wrong))
    return slide('ask', ''.join(parts), minute, notes)


def embedded(name):
    with open(os.path.join(ROOT, 'docs', 'figures', name), 'rb') as file:
        return 'data:image/png;base64,' + base64.b64encode(file.read()).decode()


def asked_of(figure, lesson):
    """The question of the lesson's chapter that holds a figure, or nothing."""
    for chapter in re.split(r'^## ', lesson, flags=re.M):
        if 'figures/%s)' % figure in chapter:
            return ' '.join(re.search(r'^\*\*Question\.\*\*(.*?)\n\n', chapter, re.M | re.S)[1].split())
    return ''


def figures():
    """One picture of sheets/figures.tsv a slide: the question of its chapter, then the picture and its sentence."""
    lesson, asked = read('docs', 'lesson.md'), 'What happens after position 512?'
    for number, row in enumerate(read('tools', 'class', 'sheets', 'figures.tsv').splitlines()[1:], 1):
        name, said = row.split('\t')
        asked = asked_of(name, lesson) or asked  # a further figure of the same chapter
        yield slide('figure', '<p class="predict"><b>%s</b>%s</p><img class="later" alt="%s" src="%s">'
                    '<p class="answer later">%s</p>' % (number, inline(asked), name, embedded(name),
                                                        inline(said)))


def slides(text):
    """The whole file, by its template."""
    found, when = sections(text), minutes(text)
    drawn = class_pictures.pictures({number: body for number, (_, body) in found.items()})
    items = re.findall(r'^\d\. .*(?:\n   .*)*', text.partition('## Before the class')[0], re.M)
    sentences = html_of('\n'.join(' '.join(item.split()) for item in items))
    parts = [slide('title', '<h1>What happens after position 512?</h1><p>A language model was trained on 512 tokens at '
                   'a time. Today it reads more.</p><p class="later">Write your guess down. Then the model '
                   'answers.</p>%s' % class_pictures.strip(), '0 to 8')]
    parts += [question(number, *found[number], drawn[number], when[number]) for number in sorted(found)]
    parts.insert(8, slide('pause', '<h1>Exercises</h1><p>In pairs: two by hand, one by program. They are on your '
                          'second sheet.</p>', '68 to 79'))
    parts.append(slide('pause', '<h1>Before you go</h1><p>A paper shows flat perplexity to 128k. What do you ask for?'
                       '</p><p>Write two lines.</p>', '87 to 90'))
    parts.append(slide('pause three', '<h1>Three things</h1>%s' % sentences))
    parts.append(slide('pause', '<h1>More pictures</h1><p>Each begins with its question.</p>'))
    page = read('tools', 'class', 'sheets', 'slides.html')
    return page.replace('<!-- slides -->', '\n'.join(parts + list(figures())))


# ---- paper ----

def handout(text):
    """Two sheets: predictions for the beginning, and for later the exercises and the page to keep."""
    first, second = (section(text, title, 3) for title in ('What happens after position 512?', 'What stays'))
    charts = ''.join('<figure><figcaption>%s</figcaption>%s</figure>' % (inline(words), class_pictures.blank())
                     for words in ('**2.** Draw `none` and `window`.', '**4, 6.** Draw `linear`, then `yarn`.'))
    before, table, after = first.partition('**My hands.**')
    exercises = section(text, 'Exercises')
    return ('<div class="sheet"><h1>What happens after position 512?</h1>%s<div class="charts">%s</div>%s</div>'
            '<div class="sheet"><h1>Exercises, and what stays</h1>%s%s</div>' % (
                html_of(before), charts, html_of(table + after), html_of(exercises), html_of(second)))


def plan(text):
    """The teacher's own copy: all except the students' sheets and the solutions."""
    return '<div class="text">%s</div>' % html_of(text.partition('## Solutions')[0])


def solutions(text):
    return '<div class="text"><h1>Solutions</h1>%s</div>' % html_of(section(text, 'Solutions'))


def paper(title, inner, size=''):
    """A page of HTML to print. A browser asks the printer for its paper where no size is given."""
    return read('tools', 'class', 'sheets', 'paper.html').replace('<!-- title -->', title).replace(
        '/* size */', size and 'size: %s;' % size).replace('<!-- text -->', inner)


# ---- files ----

def printer():
    """A function that makes a PDF of a file of HTML, or None where no program for it is here."""
    browser = next(filter(None, map(shutil.which, filter(None, (os.environ.get('CHROMIUM'), *BROWSERS)))), None)
    if browser:
        words = [browser, '--headless', '--disable-gpu', '--no-pdf-header-footer', '--virtual-time-budget=2000']
        words += ['--no-sandbox'] if hasattr(os, 'geteuid') and os.geteuid() == 0 else []  # a browser's, of root
        return lambda page, out: words + ['--print-to-pdf=' + out, 'file://' + os.path.abspath(page)]
    weasy = shutil.which('weasyprint')
    return (lambda page, out: [weasy, page, out]) if weasy else None


def write(path, text):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    return path


def print_pdf(words_of, name, title, inner, folder):
    """The PDFs of one text for both papers. True, or False where the printing program failed."""
    for paper_name, size in PAPERS.items():
        out = os.path.join(folder, '%s-%s.pdf' % (name, paper_name))
        page = write(os.path.join(folder, name + '.print.html'), paper(title, inner, size))
        try:
            subprocess.run(words_of(page, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            pass
        os.remove(page)
        if not os.path.exists(out):
            return False
    return True


def main(arguments):
    if len(arguments) > 1 or arguments[:1] and arguments[0].startswith('-'):
        sys.exit(__doc__)
    folder = arguments[0] if arguments else os.path.join(ROOT, 'build', 'class')
    os.makedirs(folder, exist_ok=True)
    for old in glob.glob(os.path.join(folder, '*.pdf')):
        os.remove(old)
    text = read('docs', 'class.md')
    write(os.path.join(folder, 'slides.html'), slides(text))
    words_of, printed = printer(), True
    papers = {'handout': ('What happens after position 512?', handout(text)),
              'solutions': ('Solutions', solutions(text)), 'plan': ('A class in ninety minutes', plan(text))}
    for name, (title, inner) in papers.items():
        write(os.path.join(folder, name + '.html'), paper(title, inner))
        printed = printed and words_of is not None and print_pdf(words_of, name, title, inner, folder)
    page = os.path.join(ROOT, 'build', 'page', 'rope.html')
    if os.path.exists(page):
        shutil.copy(page, folder)
    print('%s: %s' % (os.path.relpath(folder), ' '.join(sorted(os.listdir(folder)))))
    if not printed:
        print('no PDF (chromium or weasyprint makes them); the HTML prints the same', file=sys.stderr)
    if not os.path.exists(page):
        print('rope.html is not built yet (make page); copy it there, too', file=sys.stderr)


if __name__ == '__main__':
    main(sys.argv[1:])
