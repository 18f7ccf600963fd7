"""The sources, and C as clang-format leaves it, read lightly for house.py: its statements and its functions. A function
begins in column 0 and its body closes there; text like `name name` is a declaration.
"""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

DECLARATION = re.compile(r'(typedef|struct|union|enum|static|extern|const|unsigned)\b|'
                         r'(void|bool|char|short|int|long|float|double|\w+_t)\b|'
                         r'[A-Za-z_]\w*(\s+|\s*\*[*\s]*)[A-Za-z_]')


STRING = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
COMMENT = r'//[^\n]*|/\*.*?\*/'
TOKEN = (STRING + r'|\.?\d(?:[eEpP][+-]|[\w.])*|[A-Za-z_]\w*|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||'
         r'[-+*/%&|^]=|##|\S')


def without_comments(text):
    """C without comments; every line where it was."""
    def blank(match):
        return match.group() if match.group()[0] in '"\'' else '\n' * match.group().count('\n') or ' '
    return re.sub(STRING + '|' + COMMENT, blank, text, flags=re.S)


def lines_of_code(text, first=1, count=None):
    """How many of `count` lines from the first one on are not comments alone; all unless they are said."""
    pairs = list(zip(text.split('\n'), without_comments(text).split('\n')))[:text.count('\n')]
    return sum(not line.strip() or bool(code.strip()) for line, code in pairs[first - 1:][:count])


def tokens(text):
    """The tokens of C without comments: names, numbers, strings and operators."""
    return re.findall(TOKEN, text)


def code_of(text):
    """C without comments, the insides of strings, and the preprocessor's lines; every line at its number."""
    def blank(match):
        return match.group()[0] * 2 * (match.group()[0] in '"\'') + '\n' * match.group().count('\n')
    text = re.sub(STRING + '|' + COMMENT, blank, text, flags=re.S)
    return re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', blank, text, flags=re.M)


def commas(text):
    """How many are outside of all brackets."""
    depths = [0]
    for c in text:
        depths.append(depths[-1] + (c in '([{') - (c in ')]}'))
    return sum(c == ',' and depth == 0 for c, depth in zip(text, depths))


def statements(code):
    """(line, text) of all that ends with a semicolon. Lists in braces are part of it, blocks are not."""
    depth, start, open_braces = 0, 0, []
    for at, c in enumerate(code):
        if c == '{':
            before = code[start:at]
            is_list = depth or re.search(r'(=|\]|return)\s*$|\)$|\benum\b[^;]*$', before)
            is_record = re.search(r'\b(struct|union)\b[^()]*$', before)
            open_braces.append('list' if is_list else start if is_record else None)
            start = start if is_list else at + 1
        closed = open_braces.pop() if c == '}' and open_braces else 'none'
        if c == '}' and closed not in ('list', 'none'):
            start = at + 1 if closed is None else closed
        depth += (c in '([' or c == '{' and open_braces[-1] == 'list') - (c in ')]' or closed == 'list')
        if c == ';' and not depth:
            yield code.count('\n', 0, at) + 1, code[start:at].strip()
            start = at + 1


def comma_operator(text):
    """The statement itself, after labels and conditions, when commas part its pieces; else ''."""
    while True:
        text = text.strip()
        opened = re.match(r'(if|for|while|switch)\s*\(', text)
        if opened:
            end, depth = opened.end(), 1
            while depth and end < len(text):
                depth += (text[end] == '(') - (text[end] == ')')
                end += 1
            text = text[end:]
            continue
        before = re.match(r'(else|do|UNROLL)\b|(case\b[^:]*|\w+)\s*:', text)
        if not before:
            break
        text = text[before.end():]
    expression = re.match(r'return\b', text) or not DECLARATION.match(text)
    return ' '.join(text.split()) if expression and commas(text) else ''


def functions(code):
    """(line, name, lines, parameters) of every definition: it begins in column 0, and its body closes there."""
    for match in re.finditer(r'^[A-Za-z_][^;{}=:]*\)\s*\{', code, re.M):
        first, head = code.count('\n', 0, match.start()) + 1, match.group()[:-1].rstrip()
        end, line_end = code.find('\n}', match.end()) + 1, code.find('\n', match.end()) % (len(code) + 1)
        body = code[match.end() - 1:line_end]
        last = first + match.group().count('\n') if body.count('{') == body.count('}') else code.count('\n', 0, end) + 1
        opening = next(i for i in range(len(head) - 1, -1, -1)
                       if head[i] == '(' and head[i:].count('(') == head[i:].count(')'))
        inside = head[opening + 1:-1]
        count = 0 if inside.strip() in ('', 'void') else commas(inside) + 1
        yield first, re.search(r'\w*\s*$', head[:opening]).group().strip(), last - first + 1, count


def files(ending, left_out):
    """{path: text} of the files with one of these endings."""
    found = {}
    for folder, folders, names in os.walk(ROOT):
        inside = os.path.relpath(folder, ROOT)
        folders[:] = [f for f in folders if f[0] != '.' and os.path.normpath(os.path.join(inside, f)) not in left_out]
        for name in sorted(names):
            if name.endswith(ending):
                with open(os.path.join(folder, name), encoding='utf-8') as file:
                    found[os.path.normpath(os.path.join(inside, name))] = file.read()
    return found


def c_files():
    """{path: text} of all C that a program here is made of, the page's too."""
    return files(('.c', '.h'), ['build', 'dist', 'tests', 'page/node_modules'])
