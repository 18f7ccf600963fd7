"""What is printed: tables between tabs for tools, in columns at a terminal, and the last line in words."""

import sys

from .common import on_one_line, with_commas
from .decide import NEAR


def is_drawn(options):
    return sys.stdout.isatty() and not options.tsv


def print_rows(names, rows, options):
    """Rows of words below their names."""
    if not is_drawn(options):
        for row in [names] + rows:
            print('\t'.join(row))
        return
    widths = [max(len(row[i]) for row in [names] + rows) for i in range(len(names))]
    for row in [names] + rows:
        print('  '.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def note(key, value, options):
    print('# %s%s%s' % (key, ' ' if is_drawn(options) else '\t', on_one_line(value)))


def last_line(words, options):
    print(('# ' if options.tsv else '') + words)


# ---- readings ----

def settings_of(reading):
    """What a reading comes to: its method, scale, L and attention factor."""
    notes = reading.candidates[0].notes
    words = notes.get('method', '')
    if float(notes.get('scale', 1)) != 1:
        words += ' %g x %s' % (float(notes['scale']), notes.get('train_ctx', '?'))
    return '%s, attention factor %.4g' % (words, float(notes.get('attention_factor', 1)))


def name_of(reading):
    """As a sentence goes on: `vllm, sglang do: yarn 16 x 512, attention factor 1.277`, or what no engine does."""
    if reading.engines():
        return '%s do%s: %s' % (reading.words(), 'es' if len(reading.engines()) == 1 else '', settings_of(reading))
    return reading.words()


def margins(verdict):
    nats = '; %.4f nats from that' % verdict.best.distance
    return nats + (', %.4f from the next' % verdict.margin if verdict.margin is not None else '')


def advice(verdict, later):
    """What would tell readings apart that are tied."""
    tied = {c.words for reading in [verdict.best] + verdict.others for c in reading.candidates}
    longer = any(c.words in tied for parts in later for c in parts)
    more = 'a longer -n, past the trained context' if longer else 'more --prompts, a longer -n'
    return '%s, or the very weights that are served' % more


def sentence(verdict, later, expected):
    best, name = verdict.best, verdict.best.words()
    if verdict.kind == 'reads':
        expects = expected and expected not in best.engines()
        return 'the server reads it as %s%s%s' % (name_of(best), margins(verdict), '; expected %s' % expected
                                                 if expects else '')
    if verdict.kind == 'tied':
        return 'cannot tell apart: %s%s; what would: %s' % (
            ' | '.join([name] + [r.words() for r in verdict.others]), margins(verdict), advice(verdict, later))
    if verdict.kind == 'between':
        other = verdict.others[0]
        return 'between %s and %s (%.2f +- %.2f of the way)%s: a value of its own' % (
            name, other.words(), other.t, other.se, margins(verdict))
    if verdict.kind == 'nearest':
        return ('nearest to %s, but %.2f nats away: more than rounding does (%g); are these the very weights that the '
                'server has?' % (name, best.distance, NEAR))
    return 'no reading fits: the nearest is %s%s: another model, other weights, or a reading not in the list' % (
        name, margins(verdict))


def greedy_sentence(verdict, expected, n):
    name, agree = verdict.best.words(), 100 * (1 - verdict.best.distance)
    tail = '; %.0f %% of %d tokens are as it chooses' % (agree, n)
    if verdict.kind == 'reads':
        expects = expected and expected not in verdict.best.engines()
        return 'the server reads it as %s%s%s' % (name_of(verdict.best), tail, '; expected %s' % expected
                                                 if expects else '')
    if verdict.kind == 'tied':
        return 'cannot tell apart: %s%s; what would: more --prompts, or a server that gives log-probabilities' % (
            ' | '.join([name] + [r.words() for r in verdict.others]), tail)
    return 'no reading fits: the nearest is %s%s' % (name, tail)


def readings(interview, heard, found, verdict, remarks, later, options):
    form, _, top, as_text, sampled = interview.way
    lengths = sorted(heard.answers)
    note('server', '%s, form %s, %s, %d prompts of %s to %s tokens, %s%s' % (
        interview.server.root, form.name, 'text' if as_text else 'token ids', len(lengths), with_commas(lengths[0]),
        with_commas(lengths[-1]), 'the chosen token' if options.greedy else 'top %d' % top,
        ', sampled at temperature 1' if sampled else ''), options)
    for line in remarks:
        note('prompts', line, options)
    rows = []
    for reading in found:
        is_best = reading is verdict.best
        rows.append(['%.4f' % reading.distance, '-' if is_best else '%.2f' % reading.t,
                     '-' if is_best else '%.2f' % reading.se,
                     ', '.join(reading.engines() + [c.words for c in reading.candidates if not c.engine])])
    print_rows(['disagree' if options.greedy else 'nats', 'of_the_way', 'se', 'reading'], rows, options)
    if options.greedy:
        last_line(greedy_sentence(verdict, options.expect, len(lengths)), options)
    else:
        last_line(sentence(verdict, later, options.expect), options)
