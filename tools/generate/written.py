"""How the generators write: text of C, in lines; and files. A compiler that reads a file meanwhile sees the old one or
the new one, and unchanged files keep their time, so that they cause no compilation."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLUMNS = 100


def quoted(text):
    return '"%s"' % text.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n')


def number(value):
    return '%.15g' % value


def bits(prefix, words):
    return ' | '.join(prefix + word.upper() for word in words)


def laid_out(start, members, end):
    """Members with commas between them, in lines."""
    lines, line = [], start
    for i, member in enumerate(members):
        text = member + (',' if i + 1 < len(members) else end)
        if len(line) + len(text) + 1 > COLUMNS:
            lines.append(line)
            line = '        ' + text
        else:
            line += text if line.endswith('{') else ' ' + text
    return '\n'.join([*lines, line]) + '\n'


def literal(text):
    """A string that may be long, in pieces of a line."""
    pieces = re.findall(r'.{1,80}(?: |$)', text) if len(text) > 80 else [text]
    return '\n            '.join(quoted(piece) for piece in pieces)


# ---- files ----

def read_if_there(path):
    """The text of a file below ROOT; None: there is none."""
    path = os.path.join(ROOT, path)
    if not os.path.exists(path):
        return None
    with open(path, encoding='utf-8') as file:
        return file.read()


def write_changed(path, text):
    """Puts text into a file by way of another one, which then takes its name; not if the file has it already."""
    if os.path.exists(path):
        with open(path, encoding='utf-8') as file:
            if file.read() == text:
                return
    beside = '%s.%d.tmp' % (path, os.getpid())
    try:
        with open(beside, 'w', encoding='utf-8') as file:
            file.write(text)
        os.replace(beside, path)
    finally:
        if os.path.exists(beside):
            os.remove(beside)


def keep(made, source, generator, arguments):
    """Writes texts, {path below ROOT: text}; with --check among the arguments, says which files have another one.
    Returns the status."""
    status = 0
    for path, text in made.items():
        if read_if_there(path) == text:
            continue
        if '--check' in arguments:
            print('%s is not of %s: python3 %s makes it' % (path, source, generator))
            status = 1
            continue
        write_changed(os.path.join(ROOT, path), text)
    return status
