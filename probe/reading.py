"""Which reading of RoPE's settings a server has in force: the questions, our numbers, the decision."""

import os
import time

from . import candidates, decide, report
from .asking import Interview, Prompt, Refusal
from .common import HERE, NO, UNDECIDED, YES, Problem, tell, with_commas
from .ours import Model, Refused, Work
from .vocabulary import Vocabulary, beside

SHORTEST = 32      # tokens of the first prompt, where the text has room
LONG_PROMPTS = 512  # tokens of the longest prompt, unless -n says otherwise
GREEDY = 64        # prompts, where one token of each is all that there is
REPEATS = 0.05     # nats by which the first prompt may differ when it is asked again
PATIENCE = 60      # seconds that our side may take without saying so beforehand


def lengths_of(options):
    """Lengths of prompts: each some times the one before; evenly apart with --greedy, which takes many."""
    n, count = options.n or LONG_PROMPTS, options.prompts or (GREEDY if options.greedy else 8)
    low = min(SHORTEST, max(2, n // 2))
    steps = [i / max(count - 1, 1) for i in range(count)]
    if options.greedy:
        return sorted({round(low + (n - low) * step) for step in steps})
    return sorted({n if count == 1 else round(low * (n / low) ** step) for step in steps})


def ends_a_word(spelled, ids, length):
    """Whether the token behind `length` ids begins a word: a text cut there has the same tokens as the whole."""
    if length >= len(ids):
        return False
    behind, last = spelled[ids[length]], spelled[ids[length - 1]]
    return behind[:1] == b' ' and behind[1:2].isalpha() and last[-1:].isalnum()


def make_prompts(vocabulary, ids, text, lengths):
    """Prompts of about these lengths that end at a word's end, so that ids and text are the same."""
    found = []
    own = 1 if vocabulary.bos >= 0 else 0
    for length in lengths:
        near = [p for p in sorted(range(max(2, length - 24), min(length + 8, len(ids))), key=lambda p: abs(p - length))
                if ends_a_word(vocabulary.spelled, ids, p)]
        at = near[0] if near else length
        if found and at <= found[-1].length:
            continue
        said = b''.join(vocabulary.spelled[id] for id in ids[own:at])
        said = said[1:] if said[:1] == b' ' and text[:1] != b' ' else said
        is_text = bool(near) and text.startswith(said)
        found.append(Prompt(ids[:at], said.decode('utf-8') if is_text else None))
    return found


# ---- the server ----

class Heard:
    """answers: {length: {id: log-probability}}, or sets of ids with --greedy, of prompts that arrived whole;
    counted: {length: what the server counted} of all others; refused: why, of the first that was."""

    def __init__(self):
        self.answers, self.counted, self.refused = {}, {}, None


def ask_all(interview, prompts):
    heard = Heard()
    for prompt in prompts:
        try:
            top, counted = interview.ask(prompt)
        except Refusal as refusal:
            heard.refused = heard.refused or str(refusal)
            continue
        if counted is not None and counted != prompt.length:
            heard.counted[prompt.length] = counted, top
        elif top:
            heard.answers[prompt.length] = top
    if not heard.answers:
        raise Problem(why_nothing(heard))
    check_repeats(interview, prompts, heard)
    return heard


def why_nothing(heard):
    if heard.refused and not heard.counted:
        return 'the server refuses every prompt, the first %s' % heard.refused
    if not heard.counted:
        return 'no token that the server chose is one of the model: another tokenizer'
    length, (counted, _) = min(heard.counted.items())
    more = {n - at for at, (n, _) in heard.counted.items()}
    if more == {1}:
        why = 'a second BOS'
    elif more == {-1}:
        why = 'no BOS'
    elif len(more) == 1 and counted > length:
        why = 'a template around the prompt'
    elif counted < length and len({n for n, _ in heard.counted.values()}) == 1 and len(heard.counted) > 1:
        why = 'it cuts prompts'
    else:
        why = 'another tokenizer, BOS or template'
    return 'no prompt arrived as it was sent: the server counts %s tokens, expected %s: %s' % (
        with_commas(counted), with_commas(length), why)


def check_repeats(interview, prompts, heard):
    """The first prompt once more: a server that does not say the same again cannot be judged."""
    first = min(heard.answers)
    prompt = [p for p in prompts if p.length == first][0]
    try:
        again, _ = interview.ask(prompt)
    except Refusal as refusal:
        raise Problem('the answers do not repeat: the first prompt is refused the second time, %s' % refusal)
    before = heard.answers[first]
    if interview.greedy:
        if not again & before:
            raise Problem('the answers do not repeat: another token came when the first prompt was asked again')
        return
    both = [id for id in before if id in again]
    apart = sum(abs(before[id] - again[id]) for id in both) / len(both) if 2 * len(both) > len(before) else None
    if apart is None or apart > REPEATS:
        raise Problem('the answers do not repeat: the first prompt asked again differs by %s (at most %g nats)' % (
            'its tokens' if apart is None else '%.3f nats' % apart, REPEATS))


# ---- our side ----

def compute(model, groups, ids, answers, greedy):
    """A Reading for each group of candidates; those that run refuses after all are told and left out."""
    readings = []
    for group in groups:
        try:
            found = model.next_tokens(ids, answers, group[0].arguments)
        except Refused as refused:
            tell('left out: %s: %s' % (group[0].words, refused))
            continue
        if greedy:
            ours = {n: {id for id, (rank, _) in found[n].items() if rank == 1} for n in answers}
        else:
            ours = {n: {id: p for id, (_, p) in found[n].items()} for n in answers}
        readings.append(decide.Reading(group, ours))
    if not readings:
        raise Problem('no candidate can be computed')
    return readings


def what_remains_of(cut, length, ids, model, best):
    """Of a prompt that was cut: which of its tokens the server read, as (words, nats)."""
    counted, top = cut
    own = 1 if model.vocabulary.bos >= 0 else 0
    kept = counted - own
    tries = [('the last %s' % with_commas(counted), ids[length - counted:length]),
             ('the first %s' % with_commas(counted), ids[:counted])]
    if own:
        tries.append(('BOS and the last %s' % with_commas(kept), ids[:1] + ids[length - kept:length]))
    found = []
    for words, rest in tries:
        ours = model.next_tokens(rest, {counted: top}, best.candidates[0].arguments)
        found.append((decide.distance({counted: top}, {counted: {id: p for id, (_, p) in ours[counted].items()}}),
                      words))
    nats, words = min(found)
    return words, nats


def tell_cuts(heard, ids, model, best, greedy):
    """Lines about prompts that did not arrive whole; which tokens were read, of the first two that were cut."""
    lines = []
    for length, (counted, top) in sorted(heard.counted.items()):
        line = 'of a prompt of %s tokens the server counted %s: ' % (with_commas(length), with_commas(counted))
        if counted >= length or counted < 2:
            lines.append(line + 'another tokenizer, BOS or template')
            continue
        line += 'it cut the prompt'
        if len(lines) < 2 and not greedy:
            words, nats = what_remains_of((counted, top), length, ids, model, best)
            line += '; what it read is %s (%.4f nats)' % (words, nats) if nats < decide.FIT else ''
        lines.append(line)
    if heard.refused:
        lines.append('the server refuses a prompt ' + heard.refused)
    return lines


def prepare(options, work):
    """The model of ours, the ids of the text, and the prompts."""
    for path in [options.model, options.rope_config, options.text]:
        if path and not os.path.isfile(path):
            raise Problem('%s: no such file' % path)
    vocabulary = Vocabulary(beside(options.model))
    model = Model(options.model, options.rope_config and os.path.abspath(options.rope_config), work, vocabulary)
    text_path = options.text or os.path.join(HERE, 'book.txt')
    lengths = lengths_of(options)
    began = time.time()
    ids = model.text_ids(text_path, lengths[-1] + 8)
    seconds = time.time() - began
    if max(ids) >= len(vocabulary):
        raise Problem('%s has fewer tokens than the model' % beside(options.model))
    with open(text_path, 'rb') as file:
        text = file.read(64 * len(ids) + 4096)
    prompts = make_prompts(vocabulary, ids, text, lengths)
    return model, ids, prompts, seconds


def say_beforehand(groups, later, refused, options, seconds):
    """What is left out, what only longer prompts would part, and how long our side takes."""
    for engine, why in refused.items():
        tell('left out: %s refuses these settings: %s' % (engine, why))
    if options.expect in refused:
        raise Problem('--expect %s: it refuses these settings (%s)' % (options.expect, refused[options.expect]))
    for parts in later:
        tell('prompts of this length do not part: %s (a longer -n would)' % ' | '.join(c.words for c in parts))
    slow = 3 if any('--stepwise' in group[0].arguments for group in groups) else 0
    total = seconds * (len(groups) + len(candidates.VALUES) / 2 + slow)
    if total > PATIENCE:
        tell('%d readings of %.1f s each: our side takes about %d minutes' % (len(groups), seconds, total / 60 + 1))


def with_a_value_of_its_own(verdict, model, ids, answers, levelled, n):
    """The verdict, or between the reading and a neighbor: the server leans to a value that no candidate has. And within
    which bounds each value is known, of what changes at these prompts."""
    best, found, bounds = verdict.best, [], []
    for setting, candidate, neighbor in candidates.neighbors(model, best.candidates, n):
        reading = compute_one(model, neighbor, ids, answers, levelled)
        side = decide.leans(answers, best, reading)
        error = decide.ERRORS * reading.se
        bounds.append(candidates.bounds(model, candidate, setting, n, reading.t, error))
        if side < 0:
            neighbor = candidates.with_value(candidate, setting, 1 / candidates.STEP)
            reading = compute_one(model, neighbor, ids, answers, levelled)
            side = decide.leans(answers, best, reading)
        if side > 0:
            found.append(reading)
    if not found:
        is_told = bounds and verdict.kind == 'reads'
        return verdict, ['values known within: ' + ', '.join(bounds)] if is_told else []
    for reading in found:
        reading.distance = decide.distance(answers, reading.ours)
    return decide.Verdict('between', best, [min(found, key=lambda r: r.distance)], verdict.margin), []


def compute_one(model, candidate, ids, answers, levelled):
    reading = compute(model, [[candidate]], ids, answers, False)[0]
    return decide.Reading([candidate], decide.level(answers, reading.ours)) if levelled else reading


def decided(model, readings, ids, answers, n):
    """The verdict by log-probabilities, the readings that it is about, and remarks on the numbers."""
    readings, remarks = decide.merged(readings, answers), []
    verdict = decide.judge(readings, answers)
    level = verdict.best.distance > decide.EXACT and decide.judge_level(readings, answers, verdict)
    if level:
        remarks = ['the log-probabilities of a prompt are all off alike, by %.2f nats on average: they do not add up '
                   'to 1; compared without that' % verdict.best.distance]
        verdict, readings, answers = level
    if verdict.kind == 'reads' or verdict.kind == 'nearest' and verdict.best.distance < decide.FIT:
        verdict, known = with_a_value_of_its_own(verdict, model, ids, answers, bool(level), n)
        remarks += known
    return verdict, readings, remarks


def probe(server, options):
    """The whole job. Returns the status."""
    work = Work()
    try:
        model, ids, prompts, seconds = prepare(options, work)
        lengths = [prompt.length for prompt in prompts]
        listed, refused = candidates.all_candidates(model, lengths[-1], options.expect)
        far = 4 * max(lengths[-1], int(candidates.number(model.explain(8, model.base)[0].get('train_ctx'), 512)))
        groups, later, not_run = candidates.distinct(model, listed, lengths, far)
        refused.update({c.words: why for c, why in not_run if c.engine})
        say_beforehand(groups, later, refused, options, seconds)
        interview = Interview(server, model.vocabulary, options)
        heard = ask_all(interview, prompts)
        readings = compute(model, groups, ids, heard.answers, options.greedy)
        if options.greedy:
            verdict, remarks = decide.judge_greedy(readings, heard.answers), []
        else:
            verdict, readings, remarks = decided(model, readings, ids, heard.answers, lengths[-1])
        remarks += tell_cuts(heard, ids, model, verdict.best, options.greedy)
        report.readings(interview, heard, readings, verdict, remarks, later, options)
        return status_of(verdict, options.expect)
    except Refused as refused_by_run:
        raise Problem(str(refused_by_run))
    finally:
        work.close()


def status_of(verdict, expected):
    """Without --expect whether it is decided, with it whether it is as expected."""
    if verdict.kind == 'reads':
        return YES if not expected or expected in verdict.best.engines() else NO
    if verdict.kind == 'tied':
        among = [verdict.best] + verdict.others
        return NO if expected and not any(expected in r.engines() for r in among) else UNDECIDED
    return UNDECIDED if verdict.kind == 'nearest' else NO
