"""How the generators write: a compiler that reads a file meanwhile sees the old one or the new one, and what has not
changed keeps its time, so that nothing is compiled again for it."""
import os


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
