"""Records the curves that stand faintly in the page before it has measured anything: recorded.json.

    RUN=build/page-reference/run python3 page/record.py [PART ...]

That build (make test-page leaves it) has the page's numbers to the last digit; without RUN it is ./run.
"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BOOK = os.path.join(ROOT, "book.txt")
RACERS = ["none", "linear", "ntk", "ntk-by-parts", "yarn", "llama3", "dynamic-ntk", "dynamic-yarn", "window"]
LENGTHS = [1024, 2048, 4096]
# The first picture: so many characters of the book are 512 tokens, and what is written behind them.
CHARACTERS_GIVEN, WRITTEN, SEED = 1744, 2400, 2
SPARE = 50  # tokens that a text may have fewer of when it is read again
EXCERPTS = [[512, 562], [1600, 1650], [2300, 2350]]  # those of its tokens that are shown, and stretches that are judged
STRETCHES = [[512, 1024], [1024, 2048], [2048, 2350]]
GIVEN_SHOWN = 28  # tokens of the book that are shown
FILM = 448, 24  # the film's first token, and how many it has behind the word where the text breaks
BREAKS = math.log(1e4)  # -ln p from which a word breaks it
BIN, CHARACTERS = 16, 5300  # distances, and how much of the book, in the picture of a head


def run(*args):
    command = [os.environ.get("RUN", os.path.join(ROOT, "run")), *args, "--kv", "f32"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(done.stderr.decode())
    return done.stdout.decode("utf-8", "replace")


def per_token(model, text, length, methods):
    """{method: [nll of positions 1, 2, ...]}"""
    found = {}
    for line in run(model, "--ppl", text, "-n", str(length), "--per-token", "--rope", ",".join(methods)).splitlines():
        cells = line.split("\t")
        if line.startswith("#") or cells[0] == "method":
            continue
        found.setdefault(cells[0], []).append(float(cells[3]))
    return found


def moving(nlls, span, step, first=0):
    """exp of the mean of the last `span` values at every step-th place, as page/src/numbers.js has it."""
    out = []
    for i in range(len(nlls)):
        if i >= span / 2 and (i % step == 0 or i == len(nlls) - 1):
            part = nlls[max(0, i - span + 1):i + 1]
            out.append([i + 1 + first, round(math.exp(sum(part) / len(part)), 2)])
    return out


def written(method):
    """What a method writes behind the beginning of the book, each token with its -ln p by the same judge for both
    methods, a reader of the last 512 tokens: [[token, nll]]. Nothing is rounded to int8, so that every processor writes
    this."""
    with open(BOOK, encoding="ascii") as book, tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(book.read(CHARACTERS_GIVEN))
        file.flush()
        text = run("model.bin", "-n", str(WRITTEN), "-t", "0.8", "-p", "0.9", "-s", str(SEED), "--ignore-eos",
                   "--activations", "f32", "-f", file.name, "--rope", method)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text.rstrip("\n"))
        file.flush()
        nlls = [0, *per_token("model.bin", file.name, WRITTEN - SPARE, ["window"])["window"]]
        return list(zip(tokens_of(file.name, WRITTEN + 1), nlls))


def tokens_of(name, length):
    """The tokens of a file's text, as --attn spells them."""
    rows = [line.split("\t") for line in run("model.bin", "--attn", "0.0", "--rope", "none", "-n", str(length), "-f",
                                             name).splitlines()]
    return [re.sub(r"\\x(..)", lambda code: chr(int(code[1], 16)), row[4]) for row in rows if row[0].isdigit()]


def film(tokens):
    """Of a text, from a little before 512 until it breaks: at the first token past 512 with less than one chance in ten
    thousand, which ends a word of so many tokens."""
    at = next(i for i in range(512, len(tokens)) if tokens[i][1] > BREAKS)
    begins = next(i for i in range(at, 512, -1) if tokens[i][0].startswith((" ", "\n")))
    return {"from": FILM[0], "at": at, "word": at - begins + 1,
            "tokens": [[text, round(nll, 1)] for text, nll in tokens[FILM[0]:at + 1 + FILM[1]]]}


def first():
    """The page's first picture: one beginning, written on by two methods, in excerpts and in perplexities of
    stretches."""
    found = {"seed": SEED, "characters": CHARACTERS_GIVEN, "length": WRITTEN, "excerpts": EXCERPTS,
             "stretches": STRETCHES}
    for method in ("none", "yarn"):
        tokens = written(method)
        judged = [math.exp(sum(nll for _, nll in tokens[a:b]) / (b - a)) for a, b in [[256, 512], *STRETCHES]]
        given = "".join(text for text, _ in tokens[512 - GIVEN_SHOWN:512])
        found["given"] = {"text": given, "ppl": round(judged[0], 1)}
        if method == "none":
            found["film"] = film(tokens)
        found[method] = {"excerpts": [[[text, round(nll, 1)] for text, nll in tokens[a:b]] for a, b in EXCERPTS],
                         "ppl": [round(ppl, 1) for ppl in judged[1:]]}
    return found


def write():
    """The curves of both texts behind their beginning."""
    return {method: moving([nll for _, nll in written(method)[512:]], 128, 32, 512) for method in ("none", "yarn")}


DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def attention(layer_heads, length, rows):
    """Where heads look: for queries along the book, the root of the weight on every BIN distances, as a digit of 36,
    and the share that is further than training went."""
    with open(BOOK, encoding="ascii") as book:
        text = book.read()[:CHARACTERS]
    found = {"bin": BIN, "length": length, "characters": CHARACTERS, "positions": [], "heads": {}}
    for row in range(1, rows + 1):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(text[:text.rindex(" ", 0, len(text) * row // rows)])
            file.flush()
            for head in layer_heads:
                for method in ("none", "yarn:factor=%d" % (length // 512)):
                    out = run("model.bin", "--attn", head, "--rope", method, "-n", str(length), "-f", file.name)
                    weights = [line.split("\t")[1:4:2] for line in out.splitlines() if line[:1].isdigit()]
                    bins = [0.0] * ((len(weights) - 1) // BIN + 1)
                    for distance, weight in weights:
                        bins[int(distance) // BIN] += float(weight)
                    looks = found["heads"].setdefault(head, {}).setdefault(method.split(":")[0], [])
                    looks.append(["".join(DIGITS[round(35 * math.sqrt(min(1, b)))] for b in bins),
                                  round(sum(bins[512 // BIN:]), 3)])
        found["positions"].append(len(weights) - 1)
    return found


def passkeys(methods, length):
    """As the command below the page's grid does it: one key in each place."""
    cells = []
    out = run("model.bin", "--passkey", "-n", str(length), "--trials", "1", "-s", "1", "--rope", ",".join(methods))
    for line in out.splitlines():
        parts = line.split("\t")
        if parts[0] in methods:
            cells.append([parts[0], int(parts[1]), float(parts[2]), float(parts[5])])
    return cells


def stale(method):
    """The same text read token by token, with keys turned when they are read, and cached turned."""
    found = {}
    for name, options in (("fresh", []), ("stale", ["--stale-keys"])):
        out = run("model.bin", "--ppl", BOOK, "-n", "1280", "--per-token", "--stepwise", "--rope", method, *options)
        rows = [line.split("\t") for line in out.splitlines() if line.startswith(method)]
        found[name] = moving([float(row[3]) for row in rows], 128, 32)
    return found


def temper():
    """Perplexity past 512 by attention factor, at the frequencies of YaRN, on texts so many times as long."""
    values = [0.9, 0.95, 1, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5]
    found = {}
    for times in (4, 16):
        out = per_token("model.bin", BOOK, 512 * times, ["yarn:attn-factor=%g" % a for a in values])
        means = [sum(nlls[511:]) / len(nlls[511:]) for nlls in out.values()]
        found[times] = [[a, round(math.exp(m), 2)] for a, m in zip(values, means)]
    return found


def twice(half, settled=8):
    """A page of so many tokens, then the same page again: how many times as perplexed the second copy leaves along the
    page, and the perplexity of both, as page/src/panels/twice.js reads and draws it."""
    with open(BOOK, encoding="utf-8") as book, tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(book.read()[:20 * half])
        file.flush()
        once = "".join(tokens_of(file.name, 16 * half)[1:half + 1]).strip()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(once + "\n" + once + "\n")
        file.flush()
        pieces = tokens_of(file.name, 4 * half)
        second, read = 1, 0
        while second < len(pieces) and read <= len(once):
            read += len(pieces[second])
            second += 1
        nlls = per_token("model.bin", file.name, len(pieces), ["none", "yarn", "window"])
    found = {"half": half}
    for method, all_nlls in nlls.items():
        first, again = all_nlls[:second - 1], all_nlls[second - 1:]
        found[method] = {"times": moving([b - a for a, b in zip(first, again)], 64, 16),
                         "both": [round(math.exp(sum(part) / len(part)), 2) for part in (first, again[settled:])]}
    return found


def scores(layer, head, methods):
    """A head's scores for the last of the first tokens of the book, means over 16 distances."""
    found = {}
    with open(BOOK, encoding="ascii") as book, tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(book.read()[:CHARACTERS])
        file.flush()
        for method in methods:
            out = run("model.bin", "--attn", "%d.%d" % (layer, head), "--rope", method, "-n", "1536", "-f", file.name)
            rows = [line.split("\t")[1:3] for line in out.splitlines() if line[:1].isdigit()]
            by_distance = {int(d): float(s) for d, s in rows}
            found[method] = [[d + 8, round(sum(by_distance[k] for k in range(d, d + 16)) / 16, 3)]
                             for d in range(1, len(by_distance) - 16, 16)]
    return {"%d.%d" % (layer, head): found}


def race():
    return {str(n): {m: moving(nlls, 128, 32) for m, nlls in per_token("model.bin", BOOK, n, RACERS).items()}
            for n in LENGTHS}


def tuned():
    def curve(model, method):
        return moving(next(iter(per_token(model, BOOK, 4096, [method]).values())), 512, 32)

    return {"model yarn": curve("model.bin", "yarn"), "model window": curve("model.bin", "window"),
            "model-8k yarn": curve("model-8k.bin", "yarn")}


def layers():
    """The stacks of layers that were trained alike, past their 256 positions: how many times as perplexed as with a
    window in the full layers."""
    found = {}
    for name in ("rope", "layers-sliding", "layers-theta", "layers-temperature", "layers-nope"):
        window = "window:train-ctx=256:temperature-beta=0" if name == "layers-temperature" else "window"
        nlls = per_token("models/%s.bin" % name, BOOK, 4096, ["none", window])
        found[name] = moving([a - b for a, b in zip(nlls["none"], nlls[window])], 256, 64)
    return found


PARTS = {
    "model": lambda: {"theta": 10000, "trainedContext": 512, "headDim": 64},
    "first": first,
    "attention": lambda: attention(["3.0", "3.1", "4.2"], 1536, 48),
    "write": write,
    "race": race,
    "tuned": tuned,
    "stale": lambda: {m: stale(m) for m in ("dynamic-ntk", "dynamic-yarn", "dynamic-linear")},
    "temper": temper,
    "twice": lambda: twice(700),
    "layers": layers,
    "scores": lambda: scores(3, 1, ["none", "yarn"]),
    "passkey": lambda: passkeys(["none", "yarn", "window"], 4096),
}


def main(words):
    """Records all parts, or those that are named, in the others' company."""
    os.chdir(ROOT)
    path = os.path.join(HERE, "recorded.json")
    recorded = {}
    if words:
        with open(path, encoding="ascii") as file:
            recorded = json.load(file)
    recorded.update({name: make() for name, make in PARTS.items() if not words or name in words})
    with open(path, "w", encoding="ascii") as file:
        json.dump(recorded, file, separators=(",", ":"))
        file.write("\n")


main(sys.argv[1:])
