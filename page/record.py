"""Records the curves that the page shows faintly before it has measured anything: recorded.json.

    RUN=build/page-reference/run python3 page/record.py [PART ...]

That build (make test-page leaves it) is nearest to the page's numbers; without RUN it is ./run.
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
# The text that breaks: so many characters of the book are 512 tokens, and the characters written after them.
CHARACTERS_GIVEN, WRITTEN, SEED = 1744, 2400, 8
# The scene's sentence, the trained length, and how much slower hands turn that are slowed.
NEEDLE, TRAINED, TIMES = "The pass key is 73914. Remember it. 73914 is the pass key.", 512, 4.0
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
    """The text that a method writes after the beginning of the book, each token with its -ln p by the same judge for
    all methods, a reader of the last 512 tokens: [[token, nll]]."""
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


def light_on(text, needle, head, length, divisors):
    """The share of a head's attention that falls on a sentence, each pair's speed divided by its number."""
    block = {"rope_type": "longrope", "short_factor": divisors, "long_factor": divisors, "factor": TIMES,
             "original_max_position_embeddings": TRAINED, "attention_factor": 1.0}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
        json.dump(block, config)
        config.flush()
        out = run("model.bin", "--attn", "%d.%d" % tuple(head), "-n", str(length), "--rope", "longrope",
                  "--rope-config", config.name, "-f", text)
    rows = [line.split("\t") for line in out.splitlines() if line[:1].isdigit()]
    begins = "".join(row[4] for row in rows).index(needle)
    at, share = 0, 0
    for row in rows:
        share += float(row[3]) if at + len(row[4]) > begins and at < begins + len(needle) else 0
        at += len(row[4])
    return share


def tokens_at(parts, n):
    """The scene's text, as textOf of page/src/searched.js makes it."""
    made, i = list(parts["start"]), 0
    while len(made) < n - len(parts["end"]):
        made += parts["filler"][i % len(parts["filler"])]
        i += 1
    return made + parts["end"]


def hands():
    """By length, in thousandths of the head's attention, for plain RoPE: the sentence's share if only one hand rotates
    TIMES slower, for each of the hands; and if all do that never went round in training, and all of these except the
    one with the largest effect."""
    with open(os.path.join(HERE, "scene.json"), encoding="utf-8") as file:
        scene = json.load(file)
    pairs = scene["model"]["headDim"] // 2
    slow = [scene["model"]["theta"] ** (-i / pairs) * TRAINED < 2 * math.pi for i in range(pairs)]
    found = {}
    for length, kept in scene["none"].items():
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
            text.write("".join(tokens_at(scene["text"], kept["n"])))
            text.flush()
            light = lambda which: light_on(text.name, NEEDLE, kept["f"], length,
                                           [TIMES if which(i) else 1.0 for i in range(pairs)])
            alone = [light(lambda i, one=one: i == one) for one in range(pairs)]
            worst = alone.index(max(alone))
            others = [light(lambda i: slow[i]), light(lambda i: slow[i] and i != worst)]
            found[length] = dict(zip(("alone", "all", "without"), [[round(1000 * x) for x in alone],
                                                                   *(round(1000 * x) for x in others)]))
    return found


# Of docs/figures: perplexity by position of released models on a novel.
RELEASED = {"smollm2": "released-smollm2", "gemma3": "released-gemma3-48k", "qwen": "released-qwen-jumps"}


def released():
    """{model: {method: [[position, perplexity]]}}: the position is the end of the table's bucket."""
    found = {}
    for model, name in RELEASED.items():
        with open(os.path.join(ROOT, "docs", "figures", name + ".tsv"), encoding="utf-8") as file:
            rows = [line.split("\t") for line in file if not line.startswith("#")]
        rows = [dict(zip(rows[0], row)) for row in rows[1:]]
        curves = found[model] = {}
        for row in rows:
            if row["method"] in ("none", "yarn") and row["from"] != "1":
                curves.setdefault(row["method"], []).append([int(row["to"]), round(float(row["ppl"]), 1)])
    return found


def race():
    return {str(n): {m: moving(nlls, 128, 32) for m, nlls in per_token("model.bin", BOOK, n, RACERS).items()}
            for n in LENGTHS}


PARTS = {
    "first": first,
    "race": race,
    "passkey": lambda: passkeys(["none", "yarn", "window"], 4096),
    "hands": hands,
    "released": released,
}


def main(words):
    """Records all parts, or those that are named; record_scene.mjs records one more, which stays."""
    os.chdir(ROOT)
    path = os.path.join(HERE, "recorded.json")
    with open(path, encoding="utf-8") as file:
        recorded = json.load(file)
    recorded.update({name: make() for name, make in PARTS.items() if not words or name in words})
    with open(path, "w", encoding="utf-8") as file:
        json.dump(recorded, file, separators=(",", ":"))
        file.write("\n")


main(sys.argv[1:])
