"""Records, with ./run, the curves that stand faintly in the page before it has measured anything: recorded.json."""
import json
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BOOK = os.path.join(HERE, "book.txt")
RACERS = ["none", "linear", "ntk", "ntk-by-parts", "yarn", "llama3", "dynamic-ntk", "dynamic-yarn", "window"]
LENGTHS = [1024, 2048, 4096]
OPENING = "It was a fine morning in the spring when"


def run(*args):
    done = subprocess.run([os.path.join(ROOT, "run"), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
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


def written(method, window):
    """The curve of a text that the model writes itself, measured afterwards."""
    options = ["--rope", method] + (["--window", "512"] if window else [])
    text = run("model.bin", "-n", "2500", "-t", "0.8", "-p", "0.9", "-s", "7", "--ignore-eos", "-i", OPENING, *options)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text.rstrip("\n"))
        file.flush()
        nlls = per_token("model.bin", file.name, 2500, ["window" if window else method])
    return moving(next(iter(nlls.values())), 64, 32)


def passkeys(methods, length):
    cells = []
    for line in run("model.bin", "--passkey", "-n", str(length), "--trials", "4", "--rope", ",".join(methods)).splitlines():
        parts = line.split("\t")
        if parts[0] in methods:
            cells.append([parts[0], int(parts[1]), float(parts[2]), float(parts[5])])
    return cells


def main():
    os.chdir(ROOT)
    race = {}
    for length in LENGTHS:
        race[str(length)] = {m: moving(n, 128, 32) for m, n in per_token("model.bin", BOOK, length, RACERS).items()}
    tuned = {"model yarn": moving(per_token("model.bin", BOOK, 4096, ["yarn"])["yarn"], 128, 32),
             "model window": moving(per_token("model.bin", BOOK, 4096, ["window"])["window"], 128, 32),
             "model-8k yarn": moving(next(iter(per_token("model-8k.bin", BOOK, 4096, ["yarn"]).values())), 128, 32)}
    recorded = {
        "model": {"theta": 10000, "trainedContext": 512, "headDim": 64},
        "write": {"none": written("none", False), "yarn": written("yarn", False), "window": written("none", True)},
        "race": race,
        "tuned": tuned,
        "passkey": passkeys(["none", "yarn", "window"], 4096),
    }
    with open(os.path.join(HERE, "recorded.json"), "w", encoding="ascii") as file:
        json.dump(recorded, file, separators=(",", ":"))
        file.write("\n")


main()
