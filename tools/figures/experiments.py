"""The lesson's experiments that take more than one command: each makes a small table of what many runs of ./run say.

figures.py calls them, plot_lesson.py draws them. A table's first # line is one of the commands;
run(arguments, text) returns what ./run prints."""
import math

from before_rope import NAMES, accuracies, perplexities
from layer_patterns import MODELS
from layer_patterns import perplexities as layers_read

PAGE, BETWEEN, PLACES = 1200, 9000, 4  # characters, characters, places in the text
LAST = 64  # tokens that two ways of reading are compared on, as --check does
HEAD, BIN = '3.3', 16  # of model.bin: a head that looks near; distances that share a row
FAR, NEAR, JUDGED = 8192, 1024, 512  # tokens: of a whole text, of one that jumps, and how many of the last are judged
DROPPED = {'rope': ('rope', []), 'rope, yarn': ('rope', ['--rope', 'yarn']), 'none': ('none', []),
           'dropped': ('dropped', [])}
BOS = '1'  # of model.bin's tokenizer, which --ids does not ask: each of its training windows began with it


def places(text, size, count):
    """`count` stretches of `size` characters spread over the text, each from the beginning of a word."""
    text = text.decode('utf-8', 'replace')
    found = []
    for k in range(count):
        start = (len(text) - size - 100) * k // max(count - 1, 1)
        start = text.find(' ', start) + 1 if start > 0 else 0
        found.append(text[start:start + size])
    return found


def per_token(output):
    """{method: [(token, nll) by position from 1 on]} of --ppl --per-token."""
    found = {}
    for line in output.decode().splitlines():
        cells = line.split('\t')
        if len(cells) == 4 and cells[1].isdigit():
            found.setdefault(cells[0], []).append((cells[2], float(cells[3])))
    return found


def repeated(tokens):
    """(where, where again, how many): the tokens from the third on that come a second time. The first two may be cut
    otherwise where they begin a text."""
    start, best = 3, (3, 0, 0)
    for again in range(start + 20, len(tokens)):
        k = 0
        while again + k < len(tokens) and start + k < again and tokens[again + k] == tokens[start + k]:
            k += 1
        best = max(best, (start, again, k), key=lambda found: found[2])
    return best


def again(run, model, text, quick):
    """A page, 9,000 other characters, the page again, and its continuation, so that the window is full: mean nll of
    both readings of the page."""
    methods = ['none', 'ntk', 'yarn', 'rerope', 'self-extend', 'dca', 'window', 'streaming']
    methods = ['none', 'window'] if quick else methods
    between, length = (1000, 1024) if quick else (BETWEEN, 4096)
    command = [model, '--ppl', '-', '-n', str(length), '--per-token', '--rope', ','.join(methods)]
    rows = []
    for number, stretch in enumerate(places(text, PAGE + between + 5 * length, 1 if quick else PLACES)):
        page = stretch[:PAGE].rstrip()
        changed = page + stretch[PAGE:PAGE + between] + '\n' + page + stretch[PAGE + between:]
        for method, tokens in per_token(run(command, changed.encode())).items():
            first, second, k = repeated([t for t, _ in tokens])
            if k < 20:
                raise ValueError('the page does not come again in the same tokens')
            rows.append([method, number, second - first, k] + ['%.4f' % (sum(n for _, n in tokens[at:at + k]) / k)
                                                               for at in (first, second)])
    return command, 'method place distance tokens first second', rows


def stale(run, model, text, quick):
    """A text read token by token against one pass: how much -ln p of its last tokens depends on that."""
    longest = 1024 if quick else 4096
    methods = ['dynamic-yarn'] if quick else ['dynamic-yarn', 'dynamic-ntk']
    lengths = [n for n in (512, 640, 768, 1024, 1536, 2048, 3072, 4096) if n <= longest]
    step = [model, '--ppl', '-', '-n', str(longest), '--per-token', '--stepwise', '--rope', ','.join(methods)]
    sums = {}
    stretches = places(text, 6 * longest, 1 if quick else 2)
    for stretch in stretches:
        read = {'fresh': per_token(run(step, stretch.encode())),
                'stale': per_token(run(step + ['--stale-keys'], stretch.encode()))}
        for length in lengths:
            once = per_token(run([model, '--ppl', '-', '-n', str(length), '--per-token', '--rope', ','.join(methods)],
                                 stretch.encode()))
            for method in methods:
                last = once[method][-LAST:]
                for keys in read:
                    slow = read[keys][method][len(once[method]) - LAST:len(once[method])]
                    change = sum(abs(a - b) for (_, a), (_, b) in zip(last, slow)) / LAST
                    sums[method, keys, length] = sums.get((method, keys, length), 0) + change / len(stretches)
    return step + ['--stale-keys'], 'method keys length texts change', [
        [method, keys, length, len(stretches), '%.4f' % change] for (method, keys, length), change in sums.items()]


def attention(run, model, text, quick):
    """Scores of one head past the trained length, in bins of distances: smallest, mean, largest, and sum of weights."""
    rows, command = [], []
    for method in ('none', 'yarn'):
        command = [model, '--attn', '0.0' if quick else HEAD, '-f', '-', '-n', '4096']
        command += ['--factor', '4', '--rope', method]
        bins = {}
        prompt = places(text, 6400, 1)[0].encode()
        for line in run(command, prompt).decode('utf-8', 'replace').split('\n'):
            cells = line.split('\t')
            if len(cells) >= 4 and cells[0].isdigit():
                bins.setdefault(int(cells[1]) // BIN * BIN, []).append((float(cells[2]), float(cells[3])))
        for distance, found in sorted(bins.items()):
            scores = [score for score, _ in found]
            rows.append([method, distance] + ['%.3f' % x for x in (min(scores), math.fsum(scores) / len(scores),
                                                                  max(scores))] + ['%.4f' % sum(w for _, w in found)])
    return command, 'method distance low mean high weight', rows


def last_nll(run, command, ids):
    """{method: the sum of nll over the last tokens}, of a text that is given as its tokens' ids."""
    told = ' '.join(ids).encode()
    return {method: math.fsum(nll for _, nll in tokens[-JUDGED:])
            for method, tokens in per_token(run(command, told)).items()}


def crowd(run, model, text, quick):
    """The same last 512 tokens of stretches of 8,192, read three ways. By jumps: 1,024 tokens spread over N positions,
    so that distances grow and the number of keys does not. Whole: all the last N tokens. And whole by the maps, which
    keep distances below the trained length, so that only the number of keys grows."""
    far = 2 * NEAR if quick else FAR
    methods = ['none', 'yarn'] if quick else ['none', 'ntk', 'yarn', 'rerope', 'dca']
    methods = ['window'] + [method + logn for method in methods for logn in ('', ':logn=1')]
    command = [model, '--ppl', '-', '--per-token', '--rope', ','.join(methods), '--ids', '-n']
    lengths = [NEAR * 2 ** k for k in range(20) if NEAR * 2 ** k <= far]
    runs = [('whole', n, command + [str(n)]) for n in lengths]
    runs += [('jumps', n, command + [str(NEAR), '--spread', str(n)]) for n in lengths[1:]]
    sums = {}
    stretches = places(text, 5 * far, 1 if quick else max(1, min(2 * PLACES, len(text) // (4 * far))))
    for stretch in stretches:
        cut = per_token(run([model, '--ppl', '-', '-n', str(far), '--per-token', '--rope', 'window'], stretch.encode()))
        ids = [token for token, _ in cut['window']]
        for reading, length, arguments in runs:
            count = length if reading == 'whole' else NEAR
            for method, nll in last_nll(run, arguments, [BOS] + ids[1 - count:]).items():
                sums[method, reading, length] = sums.get((method, reading, length), 0) + nll
    tokens = JUDGED * len(stretches)
    return runs[-1][2], 'method reading length tokens nll', [
        [*key, tokens, '%.5f' % (nll / tokens)] for key, nll in sums.items()]


def before_rope(run, model, text, quick):
    """The models of models/, alike but for how they know positions: perplexity in windows of each length."""
    rows = []
    for name in NAMES[:2] if quick else NAMES:
        for length, windows, nll, se in perplexities(name, text[:20000] if quick else text, run):
            rows.append([name, length, windows, '%.4f' % nll, '%.4f' % se])
    return ['models/NAME.bin', '--ppl', '-', '-n', 'LENGTH'], 'method length windows nll se', rows


def keys_before_rope(run, model, text, quick):
    """And the keys that they find in filler, by length."""
    rows = []
    for name in NAMES[:2] if quick else NAMES:
        for length, trials, share in accuracies(name, 'passkey', trials=1 if quick else 4, run=run):
            rows.append([name, length, trials, '%.4f' % share])
    return ['models/NAME.bin', '--passkey'], 'method length trials share', rows


def dropped(run, model, text, quick):
    """A model, the same with its RoPE taken away and trained on, and one that never had it: as the first table."""
    rows = []
    for name, (file, options) in list(DROPPED.items())[-2 if quick else 0:]:
        for length, windows, nll, se in perplexities(file, text[:20000] if quick else text, run, options):
            rows.append([name, length, windows, '%.4f' % nll, '%.4f' % se])
    return ['models/NAME.bin', '--ppl', '-', '-n', 'LENGTH'], 'method length windows nll se', rows


def keys_dropped(run, model, text, quick):
    """And the keys that these find."""
    rows = []
    for name, (file, options) in list(DROPPED.items())[-2 if quick else 0:]:
        for length, trials, share in accuracies(file, 'passkey', trials=1 if quick else 4, run=run, options=options):
            rows.append([name, length, trials, '%.4f' % share])
    return ['models/NAME.bin', '--passkey'], 'method length trials share', rows


def by_layer(run, model, text, quick):
    """The models whose layers differ: perplexity by position, by the method for long texts."""
    rows = []
    for name in list(MODELS)[:2] if quick else MODELS:
        for reading, found in layers_read(name, text[:40000] if quick else text, run=run).items():
            rows += [[name, reading, begin, end, tokens, '%.4f' % se, '%.4f' % nll]
                     for begin, end, tokens, nll, se in found]
    return ['models/layers-NAME.bin', '--ppl', '-', '-n', '4096'], 'method reading from to tokens se nll', rows


EXPERIMENTS = {'again': again, 'stale': stale, 'attention': attention, 'crowd': crowd,
               'encodings': before_rope, 'encodings-keys': keys_before_rope,
               'dropped': dropped, 'dropped-keys': keys_dropped,
               'layers': by_layer}
