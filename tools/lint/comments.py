"""Words to avoid in comments and docstrings, each with its replacement: a reader who meets one stops. words.py counts
them for make lint, which does not fail for them yet, and lists them.
"""
import ast
import io
import re
import tokenize

from c_source import c_files, files

AVOID = [
    (r'\bstands?\b(?! (?:for|alone)\b)', 'is, follows, has its place'),
    (r'(?<!left )\bbehind\b(?! (?:the|a) (?:server|proxy))', 'after'),
    (r'\bmakes? of\b', 'reads, computes from'),
    (r'\b(?:is|are|was|were) told\b', 'is given, is reported'),
    (r'\bas [^.;:]{1,40}? ha(?:s|ve) (?:it|them)\b', 'as in'),
    (r'(?<!there )\bis none\b(?! of)', 'is missing, is not a ...'),
    (r'\bnobody (?:has )?look(?:s|ed) at\b', 'unverified'),
    (r'^(?:Likewise|The same(?: (?:of|for|as)\b[^.]*)?)\.$', 'the subject again: declarations get moved'),
]
FOUND = [(re.compile(pattern), instead) for pattern, instead in AVOID]


def of_c(text):
    """(line, text) of each comment of C: lines that follow one another are one."""
    held, begun, last = [], 0, 0
    for number, line in enumerate(text.split('\n'), 1):
        found = re.match(r'(\s*|.*[^:"\'])//\s?(.*)', line)
        if not found:
            continue
        follows = not found[1].strip() and number == last + 1
        if held and not follows:
            yield begun, ' '.join(held)
            held = []
        begun = begun if held else number
        held.append(found[2])
        last = number
    if held:
        yield begun, ' '.join(held)


def of_python(text):
    """(line, text) of the docstrings and comments of Python."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            yield node.body[0].lineno, ' '.join(ast.get_docstring(node).split())
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip('# ')


def faults():
    """`path:line: ...` of each word, in all C and Python."""
    for path, text in sorted({**c_files(), **files(('.py',), ['build', 'dist', 'page/node_modules'])}.items()):
        for line, comment in of_python(text) if path.endswith('.py') else of_c(text):
            for pattern, instead in FOUND:
                for match in pattern.finditer(comment):
                    yield '%s:%d: a word to avoid (%s, %s): %s' % (
                        path, line, match.group(), instead, comment[max(match.start() - 40, 0):match.end() + 30])
