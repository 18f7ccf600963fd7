"""Records the curves that the page shows faintly before it has measured anything: recorded.json.

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
RACERS = ["none", "linear", "ntk", "yarn", "llama3", "window"]
LENGTHS = [1024, 2048, 4096]
# The text that breaks: so many characters of the book are 512 tokens, and what is written after them.
CHARACTERS_GIVEN, WRITTEN, SEED = 1744, 2400, 8
SPARE = 50  # tokens that a text may have fewer of when it is read again
EXCERPT, STRETCH = [2300, 2350], [2048, 2350]  # those of its tokens that are shown, and that are judged


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


def moving(nlls, span, step):
    """exp of the mean of the last `span` values at every step-th place, as page/src/numbers.js computes it."""
    out = []
    for i in range(len(nlls)):
        if i >= span / 2 and (i % step == 0 or i == len(nlls) - 1):
            part = nlls[max(0, i - span + 1):i + 1]
            out.append([i + 1, round(math.exp(sum(part) / len(part)), 2)])
    return out


def written(method, seed=SEED):
    """What a method writes after the beginning of the book, each token with its -ln p by the same judge for all
    methods, a reader of the last 512 tokens: [[token, nll]]."""
    with open(BOOK, encoding="ascii") as book, tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(book.read(CHARACTERS_GIVEN))
        file.flush()
        text = run("model.bin", "-n", str(WRITTEN), "-t", "0.8", "-p", "0.9", "-s", str(seed), "--ignore-eos", "-f",
                   file.name, "--rope", method)
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


def first():
    """One beginning, written on by two methods: an excerpt, and the perplexity of a stretch."""
    found = {"seed": SEED, "characters": CHARACTERS_GIVEN, "length": WRITTEN, "excerpt": EXCERPT, "stretch": STRETCH}
    for method in ("none", "yarn"):
        tokens = written(method)
        judged = [nll for _, nll in tokens[STRETCH[0]:STRETCH[1]]]
        found[method] = {"tokens": [[text, round(nll, 1)] for text, nll in tokens[EXCERPT[0]:EXCERPT[1]]],
                         "ppl": round(math.exp(sum(judged) / len(judged)), 1)}
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


def race():
    return {str(n): {m: moving(nlls, 128, 32) for m, nlls in per_token("model.bin", BOOK, n, RACERS).items()}
            for n in LENGTHS}


PARTS = {
    "first": first,
    "race": race,
    "passkey": lambda: passkeys(["none", "yarn", "window"], 4096),
}


def main(words):
    """Records all parts, or those that are named; record_scene.mjs records one more, which stays."""
    os.chdir(ROOT)
    path = os.path.join(HERE, "recorded.json")
    with open(path, encoding="ascii") as file:
        recorded = json.load(file)
    recorded.update({name: make() for name, make in PARTS.items() if not words or name in words})
    with open(path, "w", encoding="ascii") as file:
        json.dump(recorded, file, separators=(",", ":"))
        file.write("\n")


main(sys.argv[1:])
