"""The Markdown that the documents here use, as HTML: headings, paragraphs, lists, tables, code, and marks in a line."""
import html
import re

BLOCKS = re.compile(r'^```(\w*)\n(.*?)^```$', re.S | re.M)


def inline(text):
    """Marks within a line. A link keeps its words alone where it leads to a file: a sheet of paper has no files."""
    text = html.escape(text.replace('\\|', '|'), quote=False)
    text = re.sub(r'!\[[^]]*\]\([^)]*\)', '', text)
    text = re.sub(r'\[([^]]*)\]\((https?:[^)]*)\)', r'<a href="\2">\1</a>', text)
    text = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', text)
    pieces = re.split(r'(`[^`]+`)', text)
    for i, piece in enumerate(pieces):
        if i % 2:
            pieces[i] = '<code>%s</code>' % piece[1:-1]
        else:
            piece = re.sub(r'\*\*([^*]+)\*\*', r'<b>\1</b>', piece)
            pieces[i] = re.sub(r'(?<![\w*])\*([^*\s][^*]*)\*(?!\w)', r'<i>\1</i>', piece)
    return ''.join(pieces)


def cells_of(line):
    return [cell.strip() for cell in re.split(r'(?<!\\)\|', line.strip()[1:-1])]


def table(lines):
    """A table whose columns are aligned as its second line says."""
    head, marks, *rows = map(cells_of, lines)
    sides = [' class="right"' if mark.endswith(':') else '' for mark in marks]

    def row(tag, cells):
        return '<tr>%s</tr>' % ''.join('<%s%s>%s</%s>' % (tag, side, inline(cell), tag)
                                       for side, cell in zip(sides, cells))
    return '<table><thead>%s</thead><tbody>%s</tbody></table>' % (row('th', head), ''.join(row('td', r) for r in rows))


def items(lines):
    """A list, whose numbers go on where the text had them begin."""
    numbered = re.match(r'(\d+)\. ', lines[0])
    found = re.split(r'\n(?=- |\d+\. )', '\n'.join(lines))
    inner = ''.join('<li>%s</li>' % inline(' '.join(item.partition(' ')[2].split())) for item in found)
    return '<ol start="%s">%s</ol>' % (numbered[1], inner) if numbered else '<ul>%s</ul>' % inner


def block(text):
    """One part between empty lines."""
    lines = text.split('\n')
    heading = re.match(r'(#+) (.*)', lines[0])
    if heading:
        rest = '\n'.join(lines[1:])
        return '<h{0}>{1}</h{0}>'.format(len(heading[1]), inline(heading[2])) + (block(rest) if rest.strip() else '')
    if lines[0].startswith('|'):
        return table(lines)
    if re.match(r'(- |\d+\. )', lines[0]):
        return items(lines)
    if lines[0].startswith('    '):
        return '<pre>%s</pre>' % html.escape('\n'.join(line[4:] for line in lines), quote=False)
    return '<hr>' if text == '---' else '<p>%s</p>' % inline(' '.join(lines))


def html_of(markdown):
    """A text, or a part of one, as HTML."""
    found, at = [], 0
    for fence in [*BLOCKS.finditer(markdown), None]:
        before = markdown[at:fence.start() if fence else None]
        found += [block(part.strip('\n')) for part in re.split(r'\n(?:[ \t]*\n)+', before) if part.strip()]
        if fence:
            found.append('<pre>%s</pre>' % html.escape(fence[2], quote=False))
            at = fence.end()
    return '\n'.join(found)
