"""The turns of chats against chat templates as they were published, which llama.cpp's sources have beside one another:
rendered by Hugging Face's Jinja, and cut at their special tokens. A tokenizer of bytes and of these tokens stands for
the published one."""

import json

import tokenizers
from install import Missing, get
from llama_library import source_file
from common import check, in_work, skip, write
from test_chat import driver, ids_of, special_tokenizer, turn

THOUGHTS = ['<think>', '</think>']
DEEPSEEK = ['<\uff5cbegin\u2581of\u2581sentence\uff5c>', '<\uff5cend\u2581of\u2581sentence\uff5c>', '<\uff5cUser\uff5c>',
            '<\uff5cAssistant\uff5c>', '<\uff5csearch\u2581begin\uff5c>', *THOUGHTS]
CHATML = ['<|im_start|>', '<|im_end|>']
# name: (file, special tokens, what ends a turn, BOS, the pattern of words, whether a system prompt must be given, since
# the template has one of its own)
PUBLISHED = {
    'LFM2-8B-A1B': ('LFM2-8B-A1B', ['<|startoftext|>', *CHATML], '<|im_end|>', '<|startoftext|>', 1, False),
    'Qwen3.5-4B': ('Qwen3.5-4B', [*CHATML, *THOUGHTS], '<|im_end|>', '', 8, False),
    'Nemotron 3 Nano': ('NVIDIA-Nemotron-3-Nano-30B-A3B-BF16', [*CHATML, *THOUGHTS, '<SPECIAL_30>'], '<|im_end|>', '',
                        1, False),
    'Nemotron Nano 2': ('NVIDIA-Nemotron-Nano-v2', ['<SPECIAL_10>', '<SPECIAL_11>', '<SPECIAL_12>'], '<SPECIAL_12>', '',
                        1, False),
    'Granite 4.0': ('ibm-granite-granite-4.0', ['<|start_of_role|>', '<|end_of_role|>', '<|end_of_text|>'],
                    '<|end_of_text|>', '', 1, True),
    'Kimi K2': ('Kimi-K2-Instruct', ['<|im_system|>', '<|im_user|>', '<|im_assistant|>', '<|im_middle|>', '<|im_end|>'],
                '<|im_end|>', '', 1, True),
    'DeepSeek V3.2': ('deepseek-ai-DeepSeek-V3.2', DEEPSEEK, DEEPSEEK[1], DEEPSEEK[0], 7, False)}
# Without thoughts Nemotron Nano 2's template looks for /no_think in a text, and DeepSeek's own code writes </think>
# where the template beside llama.cpp has <think></think>.
THINKING_ALONE = 'Nemotron Nano 2', 'DeepSeek V3.2'
TEXTS = ['Hi!', ' two  spaces ', '\u3000wide\u00a0', 'a\nb\n']


def hold_one(folder, program, name):
    """The number of compared turns, and the faults."""
    file, specials, end, bos, split, asks = PUBLISHED[name]
    tokenizer = special_tokenizer('turns.bin', specials, 0, split=split)
    config, wrong, count = in_work('turns.json'), [], 0
    for thinks in (True, False)[:1 if name in THINKING_ALONE else 2]:
        write(config, json.dumps({'chat_template': source_file('models/templates/%s.jinja' % file), 'bos_token': bos,
                                  'eos_token': end, 'enable_thinking': thinks}))
        chats = [(system, user) for system in ['Be brief. '] + [''] * (not asks) for user in TEXTS]
        asked = []
        for system, user in chats:
            first = [{'role': 'system', 'content': system}] * bool(system) + [{'role': 'user', 'content': user}]
            asked += [first, [*first, {'role': 'assistant', 'content': 'Yes.'}, {'role': 'user', 'content': user}]]
        said = tokenizers.node(folder, 'turns', config, tokenizers.dumped(asked)).split('\n')[:-1]
        said = [ids_of(json.loads(line), specials, 0) for line in said]
        for (system, user), first, whole in zip(chats, said[::2], said[1::2]):
            found = turn(program, tokenizer, 1, system, user, thinks=thinks)
            if found != first:
                wrong.append('a first turn, %a %a: %s, not %s' % (system, user, found[:40], first[:40]))
            found = turn(program, tokenizer, 0, system, user, 256 + specials.index(end), thinks)
            if found != whole[-len(found):]:
                wrong.append('a later turn, %a: %s, not %s' % (user, found[:40], whole[-len(found):][:40]))
        count += 2 * len(chats)
    return count, wrong


def run(is_planted):
    try:
        folder, _ = get('tokenizers')
        get('llama.cpp')
    except Missing as why:
        return skip('published templates: %s' % why)
    program = driver()
    if is_planted:
        PUBLISHED['Granite 4.0'] = PUBLISHED['Granite 4.0'][:5] + (False,)
        _, wrong = hold_one(folder, program, 'Granite 4.0')
        if check(wrong, 'planted, no system prompt of its own in Granite 4.0: nothing notices'):
            print('planted: no system prompt of its own; FAILS by name: Granite 4.0: %s' % wrong[0][:200])
        return None
    for name in PUBLISHED:
        count, wrong = hold_one(folder, program, name)
        check(not wrong, "%s: turns are not the template's" % name, wrong[:2])
        print('%-16s turns %d of %d' % (name, count - len(wrong), count), flush=True)
    return None
