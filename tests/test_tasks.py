#!/usr/bin/env python3
"""--tasks: its effective length, worked out here from the rows."""

import json
import math
import os
import re

from common import ROOT, check, good, in_work, main, one_line, run, table, write
import fake_server
from test_measure import write_induction


def by_length(rows, method):
    """{length: (correct, asked)} of all tasks and depths."""
    found = {}
    for row in rows:
        if row['method'] == method:
            correct, asked = found.get(int(row['length']), (0, 0))
            found[int(row['length'])] = correct + int(row['correct']), asked + int(row['trials'])
    return found


def worked_out(scores, trained, share):
    """(effective, low, high): the longest length up to which the score is `share` of that in the short texts, and the same
    one standard error lower and higher."""
    short = [n for n in scores if n <= min(trained, 1024)]
    correct, asked = (sum(scores[n][i] for n in short) for i in (0, 1))
    base = correct / asked
    if base < 0.5:
        return base, None, None, None

    def error(right, of):
        p = (right + 1) / (of + 2)
        return math.sqrt(p * (1 - p) / of)

    def longest(errors):
        kept = 0
        for n in sorted(scores):
            right, of = scores[n]
            ratio = right / of / base
            spread = math.hypot(error(right, of), share * error(correct, asked)) / base
            if ratio + errors * spread < share:
                break
            kept = n
        return kept
    length, low, high = longest(0), longest(-1), longest(1)
    return base, length, low or (min(short) if length else 0), high


def test_effective_length():
    model = write_induction('far.bin', 2048)
    asked = model, '--tasks', 'passkey', '-n', 2048, '--trials', 2, '--rope'
    methods = 'none,none:window=300,linear:factor=4'
    for more, share in ((), 0.85), (('--effective', 0.3), 0.3):
        told = json.loads(good(*asked, methods, *more, '--json').out)
        rows, said = told['rows'], {e['method']: e['words'] for e in told['effective']}
        check(list(said) == methods.split(','), 'a line for each', said)
        if not more:
            out = good(*asked, methods).out
            check(re.findall(r'^# effective_length (\S+) (.*)', out, re.M) == list(said.items()), 'the same in words', out, said)
            check([by_length(rows, m) for m in said] == [by_length(table(out)[2], m) for m in said], 'and the same rows', out)
        for e in told['effective']:
            scores = by_length(rows, e['method'])
            check(sorted(scores) == [512, 1024, 2048], 'short texts are asked, too', scores)
            base, *expected = worked_out(scores, 2048, share)
            what, words = '%s, %g' % (e['method'], share), e['words']
            if base < 0.5:
                check(e['length'] is None and words.startswith('unknown: accuracy is %.2f +- ' % base), what, words)
                continue
            check([e['length'], e['low'], e['high'], e['longest']] == expected + [2048], what, e, expected)
            check(words.startswith('%d (' % expected[0]) and '%g %% of %.2f +- ' % (100 * share, base) in words, what, words)
        lengths = [e['length'] for e in told['effective']]
        check(lengths[0] > 512 and lengths[2] is None, 'a window and wrong positions are found out', lengths)


def test_lengths_that_are_asked():
    """Texts of 512 and 1,024 tokens where the others begin later, and never past the trained length."""
    for trained, n, lengths in ((8192, 16384, [512, 1024, 4096, 8192, 16384]), (2048, 3000, [512, 1024, 2048, 3000]),
                                (1000, 2000, [500, 1000, 2000]), (512, 1024, [256, 512, 1024]),
                                (8192, 2048, [512, 1024, 2048]), (8192, 700, [512, 700])):
        lines = good('--tasks', 'passkey', '--prompts', '--trials', 1, '-n', n, '--train-ctx', trained, cwd=ROOT).out
        found = [json.loads(line)['length'] for line in lines.splitlines()]
        check(found == [length for length in lengths for _ in range(5)], 'L = %d, -n %d' % (trained, n), found)
    model = write_induction('near.bin', 256)
    out = good(model, '--passkey', '-n', 512, '--trials', 1).out
    check(re.search(r'^# effective_length none \d+ .* in texts of 256$|^# effective_length none unknown', out, re.M),
          'a short trained length', out)
    out = good(model, '--passkey', '-n', 300, '--spread', 2048, '--piece', 64, '--trials', 1).out
    check('effective' not in out, 'spread texts are not short', out)


def test_tasks_without_a_prompt():
    """Of all tasks, copy alone has no prompt to print, which is said; asked for alone, it is an error."""
    asked = ('--prompts', '-n', 300, '--train-ctx', 512, '--trials', 1)
    said = good('--tasks', 'all', *asked, cwd=ROOT).err
    check(said.count('copy is left out') == 1 == said.count('\n'), 'copy is left out', said)
    check(good('--tasks', 'passkey', *asked, cwd=ROOT).err == '', 'nothing was')


def prompts(task, n=1500, trials=2, *more):
    out = good('--tasks', task, '--prompts', '-n', n, '--train-ctx', 2 * n, '--trials', trials, *more, cwd=ROOT).out
    return [t for t in map(json.loads, out.splitlines()) if t['length'] == n]


def test_ordinals():
    """Three numbers of one name, side by side at the depth, of which an ordinal names one."""
    asked = set()
    for t in prompts('ordinal', 1500, 4):
        said = [(m.group(1), m.group(2), m.start() / len(t['prompt']))
                for m in re.finditer(r' A number of the (\w+) is (\d{5})\.', t['prompt'])]
        which, who = re.search(r' The (\w+) number of the (\w+) is$', t['prompt']).groups()
        i = ['first', 'second', 'third'].index(which)
        asked.add((which, t['depth']))
        check(len(said) == 3 == len({value for _, value, _ in said}) and {name for name, *_ in said} == {who} and
              t['answers'] == [said[i][1]] and abs(said[i][2] - t['depth']) < 0.07, 'an ordinal', t['depth'], which, said)
        check(t['tokens'] + t['max_tokens'] <= 1500, 'it fits', t['tokens'])
    check(len({which for which, _ in asked}) == 3 and len({depth for _, depth in asked}) == 5, 'all of them', asked)


def test_latent():
    """Somebody lives next to a landmark, and the question names its city: no word in common but function words."""
    cities = fake_server.CITIES
    seen = set()
    for t in prompts('latent', 1500, 4):
        right = re.findall(r' The (\w+) has a house next to the ([\w ]+)\.', t['prompt'])
        city = re.search(r' The one who lives in ([\w ]+) is the$', t['prompt']).group(1)
        check([(who, cities[where]) for who, where in right] == [(t['answers'][0], city)] and len(t['answers']) == 1,
              'who lives there', right, city, t['answers'])
        place = t['prompt'].index(' The %s has a house next to the %s.' % right[0]) / len(t['prompt'])
        check(abs(place - t['depth']) < 0.07, 'at the depth', place, t['depth'])
        question = set(re.findall(r'\w+', t['prompt'][t['prompt'].index(' Which one of them'):]))
        shared = question & set(re.findall(r'\w+', ' has a house next to the %s' % right[0][1]))
        check(shared <= {'the', 'of'}, 'no word in common', shared)
        check(t['tokens'] + t['max_tokens'] <= 1500, 'it fits, whatever the landmark', t)
        seen.add(right[0][1])
    check(len(seen) > 6, 'many landmarks', seen)
    result = run(os.path.join(ROOT, 'model.bin'), '--tasks', 'latent,passkey', '-n', 300, '--trials', 1)
    check(result.status == 0 and 'latent is left out: the model does not know the city of any of 12 landmarks' in result.err and
          'latent\t' not in result.out and 'passkey\t' in result.out, 'what the model does not know', result)
    alone = run(os.path.join(ROOT, 'model.bin'), '--tasks', 'latent', '-n', 300)
    check(alone.status == 2 and 'no question is left' in alone.err.splitlines()[-1] and not alone.raw, 'alone', alone)


def test_common_words():
    """Half of a list is one word. The rest of it is the same in all trials of a length."""
    lists = {}
    for t in prompts('common', 1500, 4):
        words = re.findall(r'\w+', t['prompt'].split(' one that is repeated.')[1].split('. The list has ended.')[0])
        answer = t['answers'][0]
        share = words.count(answer) / len(words)
        others = {word: words.count(word) for word in words if word != answer}
        check(0.4 < share < 0.6 and max(others.values()) < words.count(answer) / 5, 'the common word', share, others)
        lists.setdefault(tuple(w if w != answer else '' for w in words), set()).add(answer)
        check(t['prompt'].endswith(' The word that is repeated is "') and t['tokens'] + t['max_tokens'] <= 1500, 'it fits', t)
    check(len(lists) == 1 and len(next(iter(lists.values()))) > 3, 'one list, several words', lists.values())


def test_several_questions():
    for t in prompts('multiquery'):
        keys = dict(re.findall(r' The pass key of the (\w+) is (\d{5})\.', t['prompt']))
        asked = re.search(r' The pass keys of the (\w+) and the (\w+) are$', t['prompt']).groups()
        check(len(keys) == 4 and t['answers'] == [keys[who] for who in asked] and asked[0] != asked[1], 'two of four', t)


def test_all_tasks():
    """The tasks that the program names are those that it asks, prints and documents."""
    names = re.search(r'expected (.*), all\)$', run('model.bin', '--tasks', 'nope', cwd=ROOT).err.strip())[1].split(', ')
    out = good('--tasks', 'all', '--prompts', '-n', 1200, '--train-ctx', 1200, '--trials', 1, cwd=ROOT).out
    printed = list(dict.fromkeys(json.loads(line)['task'] for line in out.splitlines()))
    check(printed == [name for name in names if name != 'copy'], 'all have prompts but copy', printed, names)
    with open(os.path.join(ROOT, 'docs', 'manual.md'), encoding='utf-8') as file:
        told = re.search(r'\nThe tasks follow .*?\.\s', file.read(), re.S)[0]
    check(re.findall(r'`(\w+)`', told) == names, 'the manual names them', told)


def test_one_text_for_several_depths():
    """Four keys of one text: each is asked for at its own depth, and at the last one the first key is at the end."""
    for task in 'multikey', 'multiquery':
        texts = {}
        for t in prompts(task, 1200, 3):
            text, question = t['prompt'].split(' What ')
            texts.setdefault((t['length'], t['trial']), []).append((t['depth'], text, question, t['answers']))
        for place, asked in texts.items():
            depths, shared, questions, answers = zip(*asked)
            check(depths == (0, 0.25, 0.5, 0.75, 1), 'depths', depths)
            check(len(set(shared[:4])) == 1 and len(set(questions[:4])) == 4, '%s: one text' % (place,), shared)
            keys = [re.findall(r'pass key of the (\w+) is (\d+)', text) for text in (shared[0], shared[4])]
            check(keys[1] == keys[0][1:] + keys[0][:1], '%s: the first key at the end' % (place,), keys)
            check([a[0] for a in answers] == [value for _, value in keys[0] + keys[0][:1]], 'what is right', answers, keys)
        check(len({asked[0][1] for asked in texts.values()}) == len(texts) == 3, 'trials differ', list(texts))


def test_chats():
    """The text of a prompt in one message, and the question in another, after an answer."""
    for task in 'passkey', 'multikey', 'ordinal', 'latent', 'common':
        plain, chats = prompts(task, 1200), prompts(task, 1200, 2, '-m', 'chat')
        check(len(plain) == len(chats) == 10, 'as many chats as prompts', len(chats))
        for t, whole in zip(chats, plain):
            text, answered, asked = t['messages']
            check([m['role'] for m in t['messages']] == ['user', 'assistant', 'user'] and
                  answered['content'] == 'I have read it.', 'turns', t)
            question = asked['content']
            check(question[0].isupper() and text['content'][-1] == '.', 'whole sentences', t)
            check(t['max_tokens'] == 64, 'room for an answer in a sentence', t)
            check(whole['prompt'].endswith(question) and len(question) < 200, 'the question is the last message', question)
            check(t['answers'] == whole['answers'] and t['answers'][0] not in question and
                  t['answers'][0] in text['content'], 'what it asks for is in the earlier one', t)
            check(text['content'].startswith(whole['prompt'][:80]) and t['tokens'] + t['max_tokens'] <= 1200, 'the same text',
                  text['content'][:90])
        places = [t['messages'][0]['content'].index(t['answers'][0]) for t in chats]
        check(task == 'common' or places[0] < places[4] < places[9], 'at its depth', places)
    model = write_induction('chats.bin', 1024)
    rows = table(good(model, '--tasks', 'passkey', '-m', 'chat', '-n', 1024, '--trials', 1).out)[2]
    check([int(row['length']) for row in rows] == [512] * 5 + [1024] * 5, 'asked by turns', rows)


# The answer, whether in a chat, the right answers: right or not.
JUDGED = [
    (' 48213. Remember', False, ['48213'], True), ('48213', True, ['48213'], True), ('482134', False, ['48213'], True),
    ('Sure: it is 48,213.', False, ['48213'], True), ('Sure: it is 48,213.', True, ['48213'], True),
    ('4 8 2 1 3', True, ['48213'], True), ('48\u202f213', True, ['48213'], True), ('48 21 3 and 10000', True, ['48213'], False),
    ('It is 10000, not 48213', True, ['48213'], False), ('10000 or 48213', False, ['48213'], False),
    ('<think>10000?</think> 48213', True, ['48213'], True), ('<think>is it 48213', True, ['48213'], False),
    ('10000</think>48213', False, ['48213'], True), ('148213', True, ['48213'], False), ('', False, ['48213'], False),
    ('[THINK]10000[/THINK]48213', True, ['48213'], True), ('<seed:think>is it 48213', True, ['48213'], False),
    ('<|channel|>analysis<|message|>10000<|end|><|channel|>final<|message|>48213', True, ['48213'], True),
    (None, False, ['48213'], False), ('the 7th', True, ['7'], True), ('1,234,567', True, ['1234567'], True),
    ('48,2134', True, ['48213'], False), ('48,213x', True, ['48213'], False),
    (' sailor.', False, ['sailor'], True), ('the sailor', False, ['sailor'], False), ('The Sailor.', True, ['sailor'], True),
    ('sailors', True, ['sailor'], False), ('a \\"sailor\\"', True, ['sailor'], True), ('New York', True, ['new york'], True),
    (' 11111, 22222', False, ['22222', '11111'], True), (' 11111, 2222', False, ['22222', '11111'], False),
    (' ' * 3 + 'x' * 55 + '11111 22222', False, ['11111', '22222'], False),
    ('x' * 80 + ' 11,111 and 22222.', True, ['11111', '22222'], True), ('QAX VXB', True, ['QAX', 'VX'], False)]


def answer_line(said, **more):
    return json.dumps(dict({'task': 'passkey', 'length': 512, 'depth': 0.5, 'answers': ['48213'], 'said': said}, **more))


def test_one_rule_of_right_answers():
    lines = [answer_line(said, answers=wanted, depth=i / 100, **({'messages': []} if chat else {}))
             for i, (said, chat, wanted, _) in enumerate(JUDGED)]
    rows = table(good('--answers', '-', stdin='\n'.join(lines).encode()).out)[2]
    for (said, chat, wanted, right), row in zip(JUDGED, rows):
        check(int(row['correct']) == right, '%r, %s' % (said, 'a chat' if chat else 'a prompt'), wanted, row)
    check(len(rows) == len(JUDGED), 'all of them', len(rows))


def test_answers_of_others():
    """Prompts go out, answers come back: the table and the effective length are those of --tasks."""
    asked = ('--tasks', 'passkey,multikey', '-n', 1024, '--trials', 2)
    model = write_induction('answers.bin', 1024)
    told = json.loads(good(model, *asked, '--rope', 'none:window=300', '--json').out)
    right = {(r['task'], r['length'], r['depth']): r['correct'] for r in told['rows']}
    lines = []
    for line in good(model, *asked, '--prompts').out.splitlines():
        t = json.loads(line)
        place = t['task'], t['length'], t['depth']
        right[place] -= 1
        lines.append(json.dumps(dict(t, said=' %s.' % t['answers'][0] if right[place] >= 0 else ' 1')))
    path = in_work('answers.jsonl')
    write(path, '\n'.join(lines[::-1] + ['', '  ']).encode())
    for more, status in ((), 0), (('--min-accuracy', 0.9), 1):
        result = run('--answers', path, '--json', '--train-ctx', 1024, *more)
        found = json.loads(result.out)
        check(result.status == found['status'] == status, 'status', result)
        check(found['reason']['code'] == ('accuracy' if status else 'done'), 'code', found['reason'])
        for row in told['rows']:
            row.pop('method', None)
        check(sorted(map(str, found['rows'])) == sorted(map(str, told['rows'])), 'the same table', found['rows'])
        known = {k: v for k, v in told['effective'][0].items() if k != 'method'}
        check(found['effective'] == [known], 'the same effective length', found['effective'], known)
    check('run: passkey, 1024 positions: accuracy ' in result.err, 'what falls short is named', result.err)
    drawn = good('--answers', path).out
    check(re.search(r'^# answers\t.*answers.jsonl\ntask\tlength\tdepth\ttrials\tcorrect\taccuracy\n', drawn) and
          drawn.splitlines()[-1].startswith('# effective_length\t'), 'as a table', drawn)


def test_answers_that_cannot_be_used():
    for line, words in (
            ('{', ("the text ends",)), ('[1]', ('found [1]', 'an object')), ('{"task": 1}', ('task: found 1', 'a name')),
            ('{}', ('task is missing',)), (answer_line('', task='x' * 64), ('task: found "xxx', '63 bytes')),
            ('{"task": "a", "task": "b"}', ('task is there twice',)), (answer_line('', length=0), ('length: found 0',)),
            (answer_line('', length=1.5), ('length: found 1.5', 'a whole number from 1')),
            (answer_line('', depth=1.01), ('depth: found 1.01', 'from 0 to 1')),
            (answer_line('', depth='0.5'), ('depth: found "0.5"',)), (answer_line('', answers='1'), ('answers: found "1"',)),
            (answer_line('', answers=[]), ('answers: found []', '1 to 64 strings')),
            (answer_line('', answers=['1', '']), ('answers: found ""',)),
            (answer_line('', answers=['1'] * 65), ('answers: found "1"',)),
            (answer_line(5), ('said: found 5', 'a string, or null')), (answer_line('')[:-9] + '}', ("expected",)),
            (answer_line('') + ' x', ("found 'x'", 'nothing more'))):
        result = run('--answers', '-', stdin=('%s\n\n%s\n' % (answer_line(''), line)).encode())
        one_line(result, 2, line, 'standard input: line 3: ', *words)
    many = '\n'.join(answer_line('', task='task %d' % i) for i in range(65))
    one_line(run('--answers', '-', stdin=many.encode()), 2, 'too many tasks', 'line 65: task: ', 'no more than 64')
    one_line(run('--answers', '-', stdin=b' \n\n'), 2, 'nothing', 'it is empty')
    one_line(run('--answers', in_work('none.jsonl')), 2, 'no file', 'cannot open')
    one_line(run(os.path.join(ROOT, 'model.bin'), '--answers', '-'), 2, 'a model', '--answers and a model file')
    one_line(run('--answers', '-', '--passkey'), 2, 'two jobs', '--passkey and --answers')


def test_what_is_refused():
    shipped = os.path.join(ROOT, 'model.bin')
    one_line(run(shipped, '--passkey', '-n', 512, '--effective', 0), 2, 'a share', '--effective', '0.01')
    one_line(run(shipped, '--passkey', '-n', 512, '--effective', 'x'), 2, 'a word', '--effective', "'x'")


if __name__ == '__main__':
    main(globals())
