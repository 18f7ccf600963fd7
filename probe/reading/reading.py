"""Finds a server's reading of RoPE's settings: the questions, our numbers, the decision."""

from __future__ import annotations

import os
import time
from argparse import Namespace

from export.installed import ROOT

from .. import report
from ..asking.asking import Interview, Prompt, Refusal, say_nothing
from ..asking.vocabulary import Vocabulary, beside
from ..asking.web import Server
from ..common import NO, UNDECIDED, YES, Problem, tell, with_commas
from ..numbers import candidates, decide, untold, values
from ..numbers.kept import Kept
from ..numbers.ours import Model, Refused, Work
from ..report import Report
from ..solving import search
from . import findings

SHORTEST = 32      # tokens of the first prompt, if the text is long enough
LONG_PROMPTS = 512  # tokens of the longest prompt, unless -n says otherwise
GREEDY = 64        # prompts, if only one token of each is available
REPEATS = 0.01     # nats by which the first prompt may differ when it is repeated; otherwise all are repeated, to
                   # measure the noise
NOISY = 0.12       # nats by which repeated prompts may differ: more is not rounding (decide.FIT)
WARM = 0.05        # from 1: a temperature that the server's arithmetic cannot explain
PATIENCE = 10      # seconds that our side may take without an announcement
SLOWER = 1.5       # times: float32 activations, and single prompts, compared with the run that is timed


def lengths_of(options):
    """Lengths of prompts: growing by a constant factor; evenly spaced with --greedy, which has many."""
    n, count = options.n or LONG_PROMPTS, options.prompts or (GREEDY if options.greedy else 8)
    low = min(SHORTEST, max(2, n // 2))
    steps = [i / max(count - 1, 1) for i in range(count)]
    if options.greedy:
        return sorted({round(low + (n - low) * step) for step in steps})
    return sorted({n if count == 1 else round(low * (n / low) ** step) for step in steps})


def ends_a_word(spelled, ids, length):
    """Whether the token after `length` ids begins a word, so that a text cut there has the same tokens as the whole
    text."""
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
    """answers: {length: {id: log-probability}}, or sets of ids with --greedy, of prompts that arrived whole; counted:
    {length: the server's count} of all others; refusal: the first Refusal. noise: for a server whose answers vary,
    {length: {id: its first log-probability minus its second}}, and the answers are the means. alike: lengths of
    prompts with the same answer to the bit. is_counted: whether its counts are useful."""

    def __init__(self):
        self.answers, self.counted, self.refusal, self.noise = {}, {}, None, {}
        self.alike, self.is_counted = [], True

    def shortfall(self):
        """(a word for programs, words) if not every prompt arrived complete, else None."""
        if self.alike:
            return 'cut', 'it reads prompts of %s tokens as if they were one: the answers are the same' % ' and '.join(
                map(with_commas, self.alike))
        if self.counted:
            length, (counted, _) = min(self.counted.items())
            cut = counted < length
            return 'cut' if cut else 'miscounted', '%s: of a prompt of %s tokens the server counted %s' % (
                'it cuts prompts' if cut else 'prompts do not arrive as sent', with_commas(length),
                with_commas(counted))
        if self.refusal:
            return 'failed' if self.refusal.has_failed else 'refused', 'it %s a prompt %s' % (self.refusal.verb(),
                                                                                              self.refusal)
        return None


def ask_all(interview, prompts):
    heard, came = Heard(), []
    for prompt in prompts:
        try:
            came.append((prompt, *interview.ask(prompt)))
        except Refusal as refusal:
            heard.refusal = heard.refusal or refusal
        except Problem as problem:
            if problem.reason != 'answer' or not came:
                raise
            heard.refusal = heard.refusal or Refusal(prompt.length, str(problem), 500)
    if not interview.greedy:
        heard.alike = [p.length for p, top, _ in came if sum(top == other for _, other, _ in came) > 1]
    heard.is_counted = not say_nothing([counted for _, _, counted in came], interview.count_of)
    for prompt, top, counted in came:
        counted = counted if heard.is_counted else None
        if prompt.length in heard.alike:
            continue
        if counted is not None and counted < prompt.length and interview.counts_what_is_new():
            anew = interview.count_anew(prompt)
            counted = anew if anew is not None and anew < prompt.length else None
        if counted is not None and counted != prompt.length:
            heard.counted[prompt.length] = counted, top
        elif top:
            heard.answers[prompt.length] = top
    heard.counted = {} if heard.alike and not heard.answers else heard.counted
    if not heard.answers:
        raise Problem(*why_nothing(heard))
    check_repeats(interview, prompts, heard)
    return heard


def why_nothing(heard):
    """(words, the word for programs)"""
    if heard.alike:
        return 'every prompt gets the same answer, whatever its length: from a cache, or without being read', 'cut'
    if heard.refusal and not heard.counted:
        return 'the server %s every prompt, the first %s' % (heard.refusal.verb(), heard.refusal), \
            'failed' if heard.refusal.has_failed else 'refused'
    if not heard.counted:
        return 'no token that the server chose is one of the model: another tokenizer', 'tokenizer'
    length, (counted, _) = min(heard.counted.items())
    more = {n - at for at, (n, _) in heard.counted.items()}
    reason = 'tokenizer'
    if more == {1}:
        why = 'a second BOS'
    elif more == {-1}:
        why = 'no BOS'
    elif len(more) == 1 and counted > length:
        why = 'a template around the prompt'
    elif counted < length and len({n for n, _ in heard.counted.values()}) == 1 and len(heard.counted) > 1:
        why, reason = 'it cuts prompts', 'cut'
    else:
        why = 'another tokenizer, BOS or template'
    return 'no prompt arrived as it was sent: the server counts %s tokens, expected %s: %s' % (
        with_commas(counted), with_commas(length), why), reason


def check_repeats(interview, prompts, heard):
    """Repeats the first prompt. If the answer differs, all prompts are repeated, and the differences count as errors; a
    server whose answers are entirely different cannot be judged."""
    first = min(heard.answers)
    again = asked_again(interview, [p for p in prompts if p.length == first][0])
    before = heard.answers[first]
    if interview.greedy:
        if not again & before:
            raise Problem('the answers do not repeat: another token came when the first prompt was asked again',
                          'not-repeated')
        return
    apart = decide.apart(before, again)
    if apart is not None and apart <= REPEATS:
        return
    pairs = {first: (before, again)}
    for prompt in prompts if apart is not None else ():
        if prompt.length in heard.answers and prompt.length != first:
            pairs[prompt.length] = heard.answers[prompt.length], asked_again(interview, prompt)
    each = [decide.apart(*pair) for pair in pairs.values()]
    worst = 'its tokens' if None in each else '%.3f nats' % max(each)
    if None in each or max(each) > NOISY:
        raise Problem('the answers do not repeat: asked again, a prompt differs by %s (at most %g nats). Longer '
                      'prompts (-n 1024), a server that answers one question at a time and keeps no prompts in a '
                      'cache, or temperature 0 in its own settings may help' % (worst, NOISY), 'not-repeated')
    for length, (one, other) in pairs.items():
        both = [id for id in one if id in other]
        heard.answers[length] = {id: (one[id] + other[id]) / 2 for id in both}
        heard.noise[length] = {id: one[id] - other[id] for id in both}


def asked_again(interview, prompt):
    try:
        return interview.ask(prompt)[0]
    except Refusal as refusal:
        if refusal.has_failed:
            raise Problem('the server begins to fail: asked for the first prompt again, it %s a prompt %s' % (
                refusal.verb(), refusal), 'failed')
        raise Problem('the answers do not repeat: the first prompt is refused the second time, %s' % refusal,
                      'not-repeated')


# ---- our side ----

def compute(model, groups, ids, answers, greedy):
    """A Reading for each group of candidates; candidates that ./run refuses now are reported and left out."""
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
        raise Problem('no candidate can be computed', 'settings')
    return readings


def one_reading(model, group, ids, answers):
    found = model.next_tokens(ids, answers, group[0].arguments)
    return decide.Reading(group, {n: {id: p for id, (_, p) in found[n].items()} for n in answers})


def what_remains_of(cut, length, ids, model, best):
    """For a prompt that was cut: the tokens that the server read, as (words, nats). cut: the server's count, its
    tokens, and whether the prompt's mean is subtracted."""
    counted, top, is_level = cut
    own = 1 if model.vocabulary.bos >= 0 else 0
    kept = counted - own
    tries = [('the last %s' % with_commas(counted), ids[length - counted:length]),
             ('the first %s' % with_commas(counted), ids[:counted])]
    if own:
        tries.append(('BOS and the last %s' % with_commas(kept), ids[:1] + ids[length - kept:length]))
    found = []
    for words, rest in tries:
        read = model.next_tokens(rest, {counted: top}, best.candidates[0].arguments)
        said, ours = {counted: top}, {counted: {id: p for id, (_, p) in read[counted].items()}}
        if is_level:
            said, ours = decide.level(said, said), decide.level(said, ours)
        found.append((decide.distance(said, ours), words))
    nats, words = min(found)
    return words, nats


def tell_cuts(heard, ids, model, best, how):
    """Lines about prompts that did not arrive complete, with the tokens that were read for the first two that were cut.
    how: greedy, level or plain."""
    lines = []
    for length, (counted, top) in sorted(heard.counted.items()):
        line = 'of a prompt of %s tokens the server counted %s: ' % (with_commas(length), with_commas(counted))
        if counted >= length or counted < 2:
            lines.append(line + 'another tokenizer, BOS or template')
            continue
        line += 'it cut the prompt'
        if len(lines) < 2 and how != 'greedy':
            words, nats = what_remains_of((counted, top, how == 'level'), length, ids, model, best)
            line += '; what it read is %s (%.4f nats)' % (words, nats) if nats < decide.FIT else ''
        lines.append(line)
    if heard.refusal:
        lines.append('the server %s a prompt %s' % (heard.refusal.verb(), heard.refusal))
    return lines


class Ours:
    """The inputs of our side: the model, and after read_text() the ids of the text, prompts, a short text to begin
    with, and the seconds for the longest prompt, 0 if unknown because the text was kept."""

    def __init__(self, options, work):
        for path in [options.model, options.rope_config, options.text]:
            if path and not os.path.isfile(path):
                raise Problem('%s: no such file' % path, 'file')
        self.vocabulary = Vocabulary(beside(options.model))
        self.kept = Kept(options.keep, [options.model, beside(options.model)]) if options.keep else None
        config = options.rope_config and os.path.abspath(options.rope_config)
        self.model = Model(options.model, config, work, self.vocabulary, self.kept)

    def read_text(self, options):
        vocabulary = self.vocabulary
        self.text_path, lengths = options.text or os.path.join(ROOT, 'book.txt'), lengths_of(options)
        began = time.time()
        self.ids = self.model.text_ids(self.text_path, lengths[-1] + 8)
        self.seconds = time.time() - began
        if max(self.ids) >= len(vocabulary):
            raise Problem('%s has fewer tokens than the model' % beside(options.model), 'file')
        with open(self.text_path, 'rb') as file:
            text = file.read(64 * len(self.ids) + 4096)
        self.prompts = make_prompts(vocabulary, self.ids, text, lengths)
        self.trial = next((prompt for prompt in self.prompts if prompt.text), None) or self.short_text()

    def further(self):
        return untold.Further(self.model, lambda n: self.model.text_ids(self.text_path, n),
                              [prompt.length for prompt in self.prompts])

    def short_text(self):
        """A short text from the book, if no prompt ends at a word's end."""
        path = os.path.join(ROOT, 'book.txt')
        ids = self.model.text_ids(path, SHORTEST + 32)
        with open(path, 'rb') as file:
            found = make_prompts(self.model.vocabulary, ids, file.read(64 * len(ids)), [SHORTEST])[0]
        if found.text is None:
            raise Problem('%s: no beginning of it ends at the end of a word (-f FILE: words between spaces)' % path,
                          'file')
        return found


def say_beforehand(groups, later, refused, options, seconds):
    """Prints the candidates that are left out, those that only longer prompts would separate, and the time that our
    side needs."""
    for engine, why in refused.items():
        tell('left out: %s refuses these settings: %s' % (engine, why))
    if options.expect in refused:
        raise Problem('--expect %s: it refuses these settings (%s)' % (options.expect, refused[options.expect]),
                      'settings')
    for parts in later:
        *most, last = (c.words for c in parts)
        tell('these prompts cannot tell %s from %s: use a longer -n' % (', '.join(most), last))
    slow = 3 if any('--stepwise' in group[0].arguments for group in groups) else 0
    about = SLOWER * seconds
    readings, whole = about * (len(groups) + slow), about * (len(groups) + slow + 2 * len(values.VALUES))
    if whole > PATIENCE:
        tell('%d readings of about %.1f s: ./run takes about %s, and up to %s where values are tried' % (
            len(groups), about, report.duration(readings), report.duration(whole)))


def with_few_bits(model, readings, verdict, ids, answers):
    """Tries a key-value cache of fewer bits as an explanation of the residual. If it is one, our side uses it from now
    on: (readings, a remark), else (readings, None)."""
    nearest = [verdict.best] + [r for r in readings if r.engines() and r is not verdict.best][:1]
    for kind, words in ('q8', '8 bits'), ('q4', '4 bits'):
        model.cache = ['--kv', kind]
        try:
            few = [one_reading(model, r.candidates, ids, answers) for r in nearest]
        except Refused:
            break
        least = min(decide.distance(answers, r.ours) for r in few)
        if least < decide.FEW_BITS * verdict.best.distance:
            return compute(model, [r.candidates for r in readings], ids, answers, False), \
                'the key-value cache of the server has %s, as it seems: %.4f nats with one like that here, %.4f with ' \
                '16 bits' % (words, least, verdict.best.distance)
    model.cache = []
    return readings, None


def as_rounded(model, verdict, ids, answers):
    """The change of our own numbers with 8-bit activations, for this model at these tokens: servers round to them, and
    small models with 4-bit weights are most sensitive (0.07 nats for SmolLM2-135M)."""
    plain = verdict.best.ours
    model.cache = model.cache + ['--activations', 'int8']
    try:
        rounded = one_reading(model, verdict.best.candidates, ids, answers)
    except Refused:
        return 0.0
    finally:
        model.cache = model.cache[:-2]
    return decide.distance({n: {id: plain[n][id] for id in top} for n, top in answers.items()}, rounded.ours)


def check_temperature(readings, answers):
    """Refuses log-probabilities that come from other logits than the model's, namely from logits divided by a
    temperature."""
    for reading in readings:
        found = decide.temperature_of(answers, reading.ours)
        if found and abs(found - 1) > WARM:
            raise Problem('the log-probabilities are those of temperature %.2f, not of 1: the server divides by its '
                          'own temperature first (set that to 1)' % found, 'answer')


def levelled_if_so(readings, answers, verdict):
    """If the probabilities of a prompt do not add up to 1: the result after subtracting each prompt's mean, as
    (verdict, readings, answers), and a remark. Otherwise None twice."""
    found = verdict.best.distance > decide.EXACT and decide.judge_level(readings, answers, verdict)
    if not found:
        return None, None
    plain = next(r for r in readings if r.candidates == found[0].best.candidates)
    return found, 'the log-probabilities of a prompt are all off alike, by %.2f nats on average: they do not add up ' \
        'to 1; compared without that' % decide.offset(answers, plain.ours)


def decided(model, readings, ids, answers, further, budget, noise):
    """The verdict from log-probabilities, the readings involved, remarks on the numbers, bounds of values, and the way
    to compare prompts that were cut: level or plain."""
    readings, remarks, heard = decide.merged(readings, answers), [], answers
    verdict = decide.judge(readings, answers, noise)
    if verdict.best.distance > decide.EXACT:  # otherwise rounding could pass for a server's own value
        readings, remark = with_few_bits(model, readings, verdict, ids, answers)
        if remark:
            readings, remarks = decide.merged(readings, answers), [remark]
            verdict = decide.judge(readings, answers, noise)
    if verdict.kind == 'nearest' and verdict.best.distance <= decide.FIT:
        rounding = as_rounded(model, verdict, ids, answers)
        verdict = decide.judge(readings, answers, noise, rounding)
        if verdict.kind != 'nearest':
            remarks.append('activations of 8 bits alone move this model by %.4f nats here' % rounding)
    if verdict.kind in ('none', 'nearest'):
        check_temperature(readings, answers)
    level, off_alike = levelled_if_so(readings, answers, verdict)
    bounds = []
    if noise:
        remarks.append('asked twice, the server says something else, by %.4f nats on average: the mean is compared, '
                       'and that counts as an error' % decide.loudness(noise))
    if level:
        verdict, readings, answers = level
    numbers = values.Numbers(lambda group, some: one_reading(model, group, ids, some), model, answers, bool(level),
                             further.lengths[-1])
    if verdict.kind != 'none':
        verdict, bounds = values.of_its_own(verdict, readings, numbers)
    if verdict.kind != 'reads' and budget:
        solution, remark = search.own_values(verdict, readings, numbers, budget)
        remarks += [remark] if remark else []
        if solution:
            whole = one_reading(model, solution.reading.candidates, ids, heard)
            if decide.distance(heard, whole.ours) <= decide.EXACT:  # the right values have none
                off_alike = None
            readings.append(solution.reading)
            verdict = decide.Verdict('solved', verdict.best, [solution.reading], verdict.margin, solution)
            bounds = solution.bounds
    elif bounds:
        remarks.append('values known within: ' + ', '.join(map(values.said, bounds)))
    verdict = decide.with_a_break(verdict, readings, answers, noise)
    best = verdict.solution.reading if verdict.kind == 'solved' else verdict.best
    remarks += untold.remarks(further, numbers.untold, decide.left(answers, best.ours, best.ours, 0))
    return verdict, readings, [off_alike] * bool(off_alike) + remarks, bounds, 'level' if level else 'plain'


def probe(server: Server, options: Namespace, out: Report) -> int:
    """Runs the whole job. Returns the status."""
    work = Work()
    ours = None
    try:
        ours = Ours(options, work)
        candidates.check_expected(ours.model, options.expect)
        interview = Interview(server, ours.vocabulary, options)  # connects
        ours.read_text(options)
        return ask_and_decide(interview, ours, options, out)
    except Refused as refused_by_run:
        raise Problem(ours.model.with_a_way_out(refused_by_run) if ours else str(refused_by_run), 'settings')
    finally:
        work.close()
        if ours and ours.kept:
            ours.kept.save()


def ask_and_decide(interview, ours, options, out):
    model, ids, lengths = ours.model, ours.ids, [prompt.length for prompt in ours.prompts]
    listed, refused = candidates.all_candidates(model, lengths[-1], options.expect)
    far = 4 * max(lengths[-1], int(candidates.number(model.explain(8, model.base)[0].get('train_ctx'), 512)))
    groups, later, not_run = candidates.distinct(model, listed, lengths, far)
    refused.update({c.words: why for c, why in not_run if c.engine})
    say_beforehand(groups, later, refused, options, ours.seconds)
    try:
        interview.begin(ours.trial, max(ids))
        heard = ask_all(interview, ours.prompts)
    except Refusal as refusal:
        raise Problem('the server %s every prompt, the first %s' % (refusal.verb(), refusal),
                      'failed' if refusal.has_failed else 'refused')
    readings = compute(model, groups, ids, heard.answers, options.greedy)
    if options.greedy:
        verdict, remarks, bounds, how = decide.judge_greedy(readings, heard.answers), [], [], 'greedy'
    else:
        verdict, readings, remarks, bounds, how = decided(model, readings, ids, heard.answers, ours.further(),
                                                            options.budget, heard.noise)
    if not heard.is_counted:
        remarks.append('the server counts no tokens, or each prompt as many: a cut prompt shows only in the numbers')
    if interview.counts_new:
        remarks.append('the server counts only the tokens that its cache did not have: each prompt was counted again '
                       'behind another beginning')
    remarks += tell_cuts(heard, ids, model, verdict.best, how)
    status, reason = status_of(verdict, options.expect, heard)
    findings.readings(out, interview, findings.Findings(heard, readings, verdict, remarks, bounds, later), options)
    return out.end(status, reason)


def status_of(verdict, expected, heard):
    """The status, and the word for programs: without --expect whether it is decided, with --expect whether it is as
    expected; and whether every prompt arrived complete."""
    if verdict.kind == 'reads':
        if expected and expected not in verdict.best.engines():
            return NO, 'another-reading'
        shortfall = heard.shortfall()
        return (NO, shortfall[0]) if shortfall else (YES, 'as-expected' if expected else 'decided')
    if verdict.kind == 'tied':
        among = [verdict.best] + verdict.others
        if expected and not any(expected in r.engines() for r in among):
            return NO, 'another-reading'
        return UNDECIDED, 'tied'
    if verdict.kind == 'nearest':
        return UNDECIDED, 'other-weights'
    if verdict.kind == 'breaks':
        return NO, 'breaks'
    return (NO, 'other-value') if verdict.kind in ('between', 'solved') else (NO, 'nothing-fits')
