"""Finds the names of families in code. The facts about a family are in its row of export/families.json, so the code
asks the rows for facts and compares no model_type, architecture or GGUF architecture. house.py runs this."""
import ast
import json
import os
import re

from c_source import COMMENT, ROOT, STRING, files

# Words that mean something else there, or published models that are data: as names of splits, of kinds of tokenizers,
# of examples on the page, and of what is measured.
ELSEWHERE = {
    'export/bytelevel.py': ['glm4', 'exaone4', 'qwen2', 'qwen35', 'lfm2', 'llama4', 'minimax-m2', 'hunyuan-dense',
                            'olmo', 'mellum'],
    'export/out_tokenizer.py': ['llama'], 'export/tokenizer.py': ['llama'],
    'page/src/config/examples.js': ['llama', 'qwen2', 'qwen3', 'gpt-oss', 'gpt_oss', 'gemma3_text', 'deepseek_v3',
                                    'mistral'],
    'page/src/panels/arrows.js': ['phi'],
    'page/build.mjs': ['llama'], 'page/record.py': ['gemma3'], 'src/llama/main.c': ['llama'],
    'tools/lint/arrows.py': ['llama'], 'tools/lint/house.py': ['llama'],
    'tools/lint/kinds.py': ['llama'], 'tools/lint/report.py': ['llama'],
    'tools/measure/bench.py': ['gpt-oss'], 'tools/measure/bench_models.py': ['llama'],
    'tools/generate/header_table.py': ['llama'],
    'tools/training/checkpoints.py': ['llama', 'LlamaForCausalLM', 'qwen3_5_text', 'Qwen3_5ForCausalLM'],
    'tools/figures/released_tables.py': ['gemma3'],
    'tools/measure/random_models.py': ['gpt-oss'],
    'tools/measure/random_shapes.py': ['gpt-oss', 'qwen3moe', 'qwen2', 'gemma4', 'deepseek2', 'deepseek32',
                                       'qwen35', 'lfm2', 'lfm2moe', 'granitehybrid', 'nemotron_h',
                                       'nemotron_h_moe', 'qwen3vl'],
    'tools/tiny/model_export.py': ['llama'], 'tools/tiny/one_file.py': ['llama'],
    'tools/tiny/tests/test.py': ['llama', 'gemma'],
    'tools/figures/layer_costs.py': ['gemma3', 'gemma3_text', 'gpt-oss', 'gpt_oss', 'laguna', 'ministral3', 'olmo3',
                                     'qwen3_5_text', 'smollm3']}
MADE = [*('src/configs/made/%s.h' % name for name in ('family_words', 'family_table', 'key_ids', 'key_table')),
        'src/engines/made/field_types.h',
        'src/engines/made/classes.h',
        'tools/lint/family_names.py']
OWN_TOOLS = 'SmallForCausalLM', 'rope.c'  # no other program's names


def names_of(rows):
    """All names that a family has elsewhere."""
    found = set()
    for model_type, row in rows.items():
        if row.get('rope', {}).get('none') and not row.get('runs'):  # of which nothing else is known here
            continue
        wrappers = row.get('wrapped_in', {})
        found |= {model_type, *filter(None, [row.get('architecture')]), *row.get('aliases', {}),
                  *wrappers, *wrappers.values()}
        if row.get('gguf'):
            found.add(row['gguf']['architecture'])
    return found - set(OWN_TOOLS)


def strings_of_c(text):
    """(line, text) of the strings of C or JavaScript."""
    for match in re.finditer('(?:%s)|(?P<string>%s)' % (COMMENT, STRING), text, re.S):
        if match.group('string'):
            yield text.count('\n', 0, match.start()) + 1, match.group('string')[1:-1].replace('\\"', '"')


def strings_of_python(text):
    """(line, text) of the strings that are no docstrings."""
    tree = ast.parse(text)
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.lineno, node.value


def named_in(strings, names):
    for line, text in strings:
        for word in re.findall(r'[A-Za-z0-9_.-]+', text.replace('llama/', '')):
            if word in names:
                yield line, word


def check_family_names(sources=None):
    """Of {path: text}, without one of all that is code here but tests."""
    with open(os.path.join(ROOT, 'export', 'families.json'), encoding='utf-8') as file:
        names = names_of(json.load(file))
    found = sources if sources is not None else files(('.c', '.h', '.py', '.js', '.mjs'), [
        'build', 'dist', 'tests', 'page/node_modules'])
    for path, text in found.items():
        if path in MADE:
            continue
        strings = strings_of_python(text) if path.endswith('.py') else strings_of_c(text)
        for line, word in named_in(strings, names):
            if word not in ELSEWHERE.get(path, []):
                yield '%s:%d: a family by its name (%s, a fact of its row in export/families.json)' % (path, line, word)
