#!/usr/bin/env python3
"""Tests of src/tokens/tokenizer.c: a vocabulary made up here is encoded by the program, by a naive reference written
below from the rules alone, and, where the sentencepiece package is installed, by the library itself. Then come files
damaged in every way, and texts made to be slow."""

import os
import random
import struct
import subprocess
import sys
import tempfile

import tokenizers
from common import SHARED, case, check, main, processor_seconds, skip, takes_long, write
from tokenizers import ask, decode, encode, id_lines, records

MODELS = os.path.join(SHARED, "models")
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
SPACE_SYMBOL = "\u2581".encode()
MAGIC = 0x31544B54


# ---- The rules once more, naive ----


class Vocabulary:
    """Pieces are (spelling, score, type), spelled with spaces as in tokenizer.bin."""

    def __init__(self, pieces, dummy_prefix=True, byte_fallback=True, bos=1, unk=0, eos=(2,)):
        self.pieces, self.dummy_prefix, self.byte_fallback = pieces, dummy_prefix, byte_fallback
        self.bos, self.unk, self.eos = bos, unk, list(eos)
        self.ids, self.byte_ids = {}, {}
        for i, (spelling, _, kind) in enumerate(pieces):
            if kind in (NORMAL, USER_DEFINED, UNUSED) and spelling:
                self.ids.setdefault(spelling, i)
            if kind == BYTE:
                self.byte_ids.setdefault(int(spelling[3:5], 16), i)
        user_defined = [s for s, i in self.ids.items() if pieces[i][2] == USER_DEFINED]
        self.user_defined = sorted(user_defined, key=len, reverse=True)

    def __len__(self):
        return len(self.pieces)

    def tokens(self):
        parts = [struct.pack("<fi", score, len(s)) + s for s, score, _ in self.pieces]
        return struct.pack("<i", max(len(s) for s, _, _ in self.pieces)) + b"".join(parts)

    def trailer(self):
        head = struct.pack("<IIIiiI", MAGIC, 0, self.dummy_prefix + 2 * self.byte_fallback, self.bos, self.unk,
                           len(self.eos))
        return head + struct.pack("<%di" % len(self.eos), *self.eos) + bytes(kind for _, _, kind in self.pieces)

    def normalize(self, text):
        chars, at = [], 0
        while at < len(text):
            for n in (1, 2, 3, 4):
                try:
                    chars.append(text[at : at + n].decode("utf-8"))
                    break
                except UnicodeDecodeError:
                    pass
            else:
                chars.append("\ufffd")
                n = 1
            at += len(chars[-1].encode()) if chars[-1] != "\ufffd" or text[at : at + 3] == b"\xef\xbf\xbd" else 1
        joined = "".join(chars).replace("\u2581", " ")
        return " " + joined if joined and self.dummy_prefix else joined

    def symbols(self, text):
        out = []
        while text:
            found = next((u.decode() for u in self.user_defined if text.encode().startswith(u)), None)
            out.append(((found or text[0]).encode(), found is not None))
            text = text[len(found or text[0]) :]
        return out

    def encode(self, text):
        symbols, seen = self.symbols(self.normalize(text)), {}

        def score(i):  # of the pair (i, i + 1), None when it cannot be joined
            if i < 0 or i + 1 >= len(symbols) or symbols[i][1] or symbols[i + 1][1]:
                return None
            token = self.ids.get(symbols[i][0] + symbols[i + 1][0])
            if token is not None:
                seen[symbols[i][0] + symbols[i + 1][0]] = symbols[i][0], symbols[i + 1][0]
            return None if token is None else self.pieces[token][1]

        scores = [score(i) for i in range(len(symbols))]
        while any(s is not None for s in scores):
            best = scores.index(max(s for s in scores if s is not None))
            symbols[best : best + 2] = [(symbols[best][0] + symbols[best + 1][0], False)]
            del scores[best]
            if best > 0:
                scores[best - 1] = score(best - 1)
            scores[best] = score(best)

        ids, stack = [], [s for s, _ in reversed(symbols)]
        while stack:
            spelling = stack.pop()
            token = self.ids.get(spelling)
            if token is not None and self.pieces[token][2] == UNUSED and spelling in seen:
                stack.extend(reversed(seen[spelling]))
            elif token is not None:
                ids.append(token)
            elif self.byte_fallback:
                ids.extend(self.byte_ids.get(b, self.unk) for b in (SPACE_SYMBOL if spelling == b" " else spelling))
            elif not ids or ids[-1] != self.unk:
                ids.append(self.unk)
        return ids

    def model_proto(self):
        """The same as a tokenizer.model, for the library."""

        def field(number, data):
            if isinstance(data, int):
                return varint(number << 3) + varint(data)
            return varint(number << 3 | 2) + varint(len(data)) + data

        def varint(n):
            return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

        out = b""
        for spelling, score, kind in self.pieces:
            fixed32 = varint(2 << 3 | 5) + struct.pack("<f", score)
            out += field(1, field(1, spelling.replace(b" ", SPACE_SYMBOL)) + fixed32 + field(3, kind))
        out += field(2, field(3, 2) + field(4, len(self)) + field(35, int(self.byte_fallback)))
        return out + field(3, field(1, b"identity") + field(3, int(self.dummy_prefix)) + field(4, 0) + field(5, 1))


def read_model_proto(data):
    """A Vocabulary from a sentencepiece tokenizer.model; ValueError when it normalizes text in a way of its own."""

    def fields(data):
        at, out = 0, []

        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value

        while at < len(data):
            key = varint()
            if key & 7 == 0:
                value = varint()
            else:
                size = {1: 8, 5: 4}.get(key & 7) or varint()
                value, at = data[at : at + size], at + size
            out.append((key >> 3, value))
        return out

    top = fields(data)
    trainer, normalizer = (dict(fields(dict(top)[n])) for n in (2, 3))
    if trainer.get(3) != 2 or normalizer.get(2) or normalizer.get(4, 1):
        raise ValueError("not a BPE model without normalization")
    pieces = []
    for piece in (dict(fields(value)) for number, value in top if number == 1):
        score = struct.unpack("<f", piece[2])[0]
        pieces.append((piece[1].replace(SPACE_SYMBOL, b" "), score, piece.get(3, NORMAL)))
    return Vocabulary(pieces, bool(normalizer.get(3, 1)), bool(trainer.get(35, 0)))


# ---- Vocabularies and texts made up ----

LETTERS = ["a", "b", "c", "d", " ", "\n", "\u00e9", "\u4e2d", "\U0001f600", "\u0301", "0"]


def make_vocabulary(rng, size=500, plain=False, legacy=False, **options):
    """Merges of merges, as a trained vocabulary has, and (unless plain) pieces of every type and scores that tie."""
    pieces = [(b"<unk>", 0.0, UNKNOWN), (b"<s>", 0.0, CONTROL), (b"</s>", 0.0, CONTROL)]
    if options.get("byte_fallback", True):
        pieces += [(b"<0x%02X>" % b, 0.0, BYTE) for b in range(256)]
    letters = [c.encode() for c in LETTERS if plain or c == " " and legacy or rng.random() < 0.9]
    known, spellings = {p[0] for p in pieces} | set(letters), list(letters)
    inner_spaces = not plain and rng.random() < 0.3
    while len(spellings) < size - len(pieces):
        joined = rng.choice(spellings[-60:]) + rng.choice(spellings[: 11 if rng.random() < 0.6 else None])
        if joined in known or len(joined) > 40 or (not inner_spaces and b" " in joined.lstrip(b" ")):
            if rng.random() < 0.1:
                spellings.append(rng.choice(letters) * rng.randrange(2, 9))
                if spellings[-1] in known:
                    spellings.pop()
                known.add(spellings[-1])
            continue
        known.add(joined)
        spellings.append(joined)
    ties = not plain and rng.random() < 0.5
    odd_types = not plain and not legacy and rng.random() < 0.7
    for i, spelling in enumerate(spellings):
        kind = NORMAL
        if odd_types and rng.random() < 0.15:
            kind = rng.choice([USER_DEFINED, UNUSED, UNUSED, CONTROL if len(spelling.decode()) > 1 else UNUSED])
        pieces.append((spelling, float(-rng.randrange(4)) if ties else float(-i), kind))
    return Vocabulary(pieces, **options)


NASTY = [b"<s>", b"</s>", b"<unk>", b"<0x41>", b"<0x0A>", SPACE_SYMBOL, b"\0", b"\t", b"\r\n", b" " * 9, b"\n" * 5]
NASTY += [b"\x80", b"\xff", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf"]
NASTY += [b"\xf4\x90\x80\x80", b"\xc3", b"\xe2\x96", b"\xe2\x96\x81\x81", b"\xf0\x9f\x98", b"\xf5\x80\x80\x80",
          b"\xef\xbf\xbd", b"\xef\xbb\xbf"]
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
NASTY += [c.encode() for c in (FAMILY, "e\u0301\u0323", "\ud7ff\ue000", "\U0010ffff", "\u00a0")]


def make_text(rng, length=40, valid=False):
    parts = []
    for _ in range(rng.randrange(length)):
        part = rng.choice(LETTERS[:5] if rng.random() < 0.7 else LETTERS).encode()
        if rng.random() < 0.15:
            part = rng.choice(NASTY)
        if rng.random() < 0.1:
            part *= rng.randrange(1, 12)
        parts.append(part)
    text = b"".join(parts)
    return text.decode("utf-8", "ignore").encode() if valid else text


def unicode_text(rng):
    """Every plane: the first in order, the others sampled, and all of it again shuffled between words and bad bytes."""
    chars = [chr(c) for c in range(0xD800)] + [chr(c) for c in range(0xE000, 0x10000)]
    chars += [chr(c) for c in range(0x10000, 0x110000, 37)]
    shuffled = [c.encode() for c in chars]
    words = [b" the", b" of", b"ing ", b"  ", b" ", b"123456", b"\n\n", b"\t\t", b"http://www.", b"\xd0\xb8 ",
             b" " * 40]
    shuffled += [rng.choice(words) for _ in range(80000)] + [rng.choice(NASTY) for _ in range(20000)]
    rng.shuffle(shuffled)
    return ["".join(chars).encode(), b"".join(shuffled)]


# ---- The tests ----

LIBRARY = r"""
import struct, sys
import sentencepiece
model = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])
data, at = sys.stdin.buffer.read(), 0
while at < len(data):
    n = struct.unpack_from("<I", data, at)[0]
    print(*model.encode(data[at + 4 : at + 4 + n]))
    at += 4 + n
"""


def find_library():
    for python in (sys.executable, "/usr/bin/python3"):
        probe = [python, "-c", "import sentencepiece"]
        if os.path.exists(python) and subprocess.run(probe, stderr=subprocess.DEVNULL).returncode == 0:
            return [python, "-c", LIBRARY]
    return None


def compare(what, texts, expected, found):
    if expected is None or found is None:
        return
    check(len(expected) == len(found), what + ": as many answers as questions", len(expected), len(found))
    wrong = [i for i, ids in enumerate(expected) if i < len(found) and found[i] != ids]
    if not wrong:
        return check(True, what)
    e, f = expected[wrong[0]], found[wrong[0]]
    at = next((i for i, (x, y) in enumerate(zip(e, f)) if x != y), min(len(e), len(f)))
    text = texts[wrong[0]]
    check(False,
          "%s: %d of %d texts differ; in %r%s" % (what, len(wrong), len(texts), text[:60], "..." * (len(text) > 60)),
          "at id %d: expected %s, found %s" % (at, e[at : at + 6], f[at : at + 6]))


def test_against_reference(programs, folder, library):
    rng = random.Random(1)
    cases = [("plain", make_vocabulary(rng, plain=True)), ("legacy", make_vocabulary(rng, legacy=True))]
    for i in range(14 if len(programs) > 1 else 3):
        options = dict(dummy_prefix=rng.random() < 0.7, byte_fallback=rng.random() < 0.6)
        options.update(bos=rng.choice([1, -1]), eos=[2, 1][: rng.randrange(3)])
        cases.append(("random %d" % i, make_vocabulary(rng, **options)))
    for name, vocabulary in cases:
        path, size = os.path.join(folder, "vocabulary.bin"), len(vocabulary)
        write(path, vocabulary.tokens() + (b"" if name == "legacy" else vocabulary.trailer()))
        texts = [b""] + NASTY + [make_text(rng) for _ in range(150)] + [make_text(rng, 400) for _ in range(2)]
        if vocabulary.user_defined:
            texts += [b"".join(rng.choice(vocabulary.user_defined)[: rng.randrange(1, 9)] for _ in range(9))
                      for _ in range(40)]
        expected = [vocabulary.encode(text) for text in texts]
        for program in programs:
            compare(name + " vocabulary", texts, expected, encode(program, path, size, texts))
        info = [size, vocabulary.bos, *sorted(vocabulary.eos)]
        check(id_lines(ask([programs[0], "info", path, str(size)])) == [info], name + ": size, BOS and end tokens",
              info)
        if library:
            model = write(os.path.join(folder, "vocabulary.model"), vocabulary.model_proto())
            compare(name + ": the reference against the library", texts, id_lines(ask(library + [model], texts)),
                    expected)
        if vocabulary.byte_fallback and b" " in vocabulary.ids:
            test_round_trip(programs, rng, path, size, name)
        test_decode(programs[0], path, vocabulary, name)


def test_many_pairs(programs, folder):
    """A text with as many broken pairs as possible: nearly two for each byte."""
    pieces = make_vocabulary(random.Random(7), size=300, plain=True).pieces
    known = {p[0] for p in pieces}
    for n in range(2, 65):
        doubled = n & (n - 1) == 0
        spellings = {(b"ab" * 33)[:n], (b"ba" * 33)[:n]} - known
        pieces += [(s, 200.0 - n if doubled and s[:1] == b"a" else -200.0 - n, NORMAL) for s in sorted(spellings)]
    pieces = [(s, -1000.0 if s in known else score, kind) for s, score, kind in pieces]
    vocabulary = Vocabulary(pieces, dummy_prefix=False)
    path = write(os.path.join(folder, "pairs.bin"), vocabulary.tokens() + vocabulary.trailer())
    texts = [b"ab" * n for n in (1, 2, 3, 64, 512)]
    for program in programs:
        compare("many pairs", texts, [vocabulary.encode(text) for text in texts],
                encode(program, path, len(vocabulary), texts))


def test_round_trip(programs, rng, path, size, name):
    """Decoding gives the text again; U+2581 is a space by then."""
    texts = [make_text(rng, 60, valid=True) for _ in range(60)] + [b" ", b"  x", b"\0",
                                                                   "\u00e9\u4e2d\U0001f600".encode()]
    ids = encode(programs[0], path, size, texts)
    for program in programs if ids is not None else ():
        found = decode(program, path, size, ids)
        expected = [text.replace(SPACE_SYMBOL, b" ") for text in texts]
        compare(name + ": decoding what was encoded", texts, expected, found)


def test_decode(program, path, vocabulary, name):
    """Every token alone, and after another: the leading space goes only from the first,
    and only if one was put there."""
    surface = {UNKNOWN: lambda s: " \u2047 ".encode(), CONTROL: lambda s: b"", BYTE: lambda s: bytes([int(s[3:5], 16)])}
    after = next(i for i, p in enumerate(vocabulary.pieces) if p[2] == NORMAL and not p[0].startswith(b" "))
    lists, expected = [], []
    for i, (spelling, _, kind) in enumerate(vocabulary.pieces):
        plain = surface.get(kind, lambda s: s)(spelling)
        stripped = plain[1:] if kind not in surface and plain[:1] == b" " and vocabulary.dummy_prefix else plain
        lists += [[i], [after, i]]
        expected += [stripped, vocabulary.pieces[after][0] + plain]
        if vocabulary.bos >= 0:
            lists.append([vocabulary.bos, i])
            expected.append(stripped)
    found = decode(program, path, len(vocabulary), lists)
    if found is not None:
        wrong = [i for i in range(len(lists)) if found[i] != expected[i]]
        check(not wrong, name + ": decode", [(lists[i], expected[i], found[i]) for i in wrong[:2]])


def test_against_library(programs, folder, library):
    model = os.path.join(MODELS, "llama2_tokenizer.model")
    if not library:
        return skip("ids against the sentencepiece library (the Python package is not installed)")
    if not os.path.exists(model):
        return skip("ids against the sentencepiece library (no ../shared/models/llama2_tokenizer.model)")
    rng = random.Random(2)
    with open(model, "rb") as f:
        vocabulary = read_model_proto(f.read())
    path = write(os.path.join(folder, "llama2.bin"), vocabulary.tokens() + vocabulary.trailer())
    legacy = write(os.path.join(folder, "llama2_legacy.bin"), vocabulary.tokens())
    texts = unicode_text(rng) + [make_text(rng, 60) for _ in range(3000)] + [b" " * n for n in range(70)] + NASTY
    expected = id_lines(ask(library + [model], texts))
    for program in programs:
        compare("Llama 2", texts, expected, encode(program, path, len(vocabulary), texts))
    compare("Llama 2 without a trailer", texts, expected, encode(programs[0], legacy, len(vocabulary), texts))
    test_round_trip(programs, rng, path, len(vocabulary), "Llama 2")


def test_llama2c_file(programs):
    path = os.path.join(MODELS, "tok512.bin")
    if not os.path.exists(path):
        return skip("llama2.c's own file (no ../shared/models/tok512.bin)")
    check(id_lines(ask([programs[0], "info", path, "512"])) == [[512, 1, 2]], "tok512.bin: size, BOS and end tokens")
    test_round_trip(programs, random.Random(3), path, 512, "tok512.bin")


def open_all(program, size, paths):
    """The answer to opening each file; a crash is a failed check, and ends the list."""
    output = ask([program, "open", str(size)], [p.encode() for p in paths])
    lines = [] if output is None else output.decode(errors="replace").split("\n")[:-1]
    check(len(lines) == len(paths), "one line for each damaged file", len(lines), len(paths))
    return lines


def vocabulary_flags(data, mark):
    return struct.unpack_from("<I", data, mark + 8)[0]


def patched(data, at, form, *values):
    return data[:at] + struct.pack(form, *values) + data[at + struct.calcsize(form) :]


def test_damaged_files(programs, folder):
    rng = random.Random(4)
    small = [(b"<unk>", 0.0, UNKNOWN), (b"<s>", 0.0, CONTROL), (b"</s>", 0.0, CONTROL), (b"<0x41>", 0.0, BYTE)]
    small += [(s, float(-i), NORMAL) for i, s in enumerate([b" ", b"a", b"aa", b" a", b"aaaa", b"", b"\xc3\xa9"])]
    vocabulary = Vocabulary(small + [(b"the", -9.0, USER_DEFINED), (b"b", -9.0, UNUSED), (b"bb", -9.0, UNUSED)])
    tokens, trailer, size = vocabulary.tokens(), vocabulary.trailer(), len(vocabulary)
    whole, mark = tokens + trailer, len(tokens)
    path = os.path.join(folder, "damaged.bin")
    starts = [4]
    for spelling, _, _ in vocabulary.pieces:
        starts.append(starts[-1] + 8 + len(spelling))

    def message(data, vocab_size=size):
        lines = open_all(programs[0], vocab_size, [write(path, data)])
        return lines[0] if lines else ""

    def says(what, data, words, vocab_size=size):
        found = message(data, vocab_size)
        check(found.startswith(path + ": ") and words in found, what, "expected %r, found %r" % (words, found))

    check(message(whole) == "ok", "a whole file opens")
    check(message(tokens) == "ok", "a whole file without a trailer opens")
    says("too small a model", whole, "holds 14 tokens, the model has 13", 13)
    says("too large a model", whole, "holds 14 tokens, the model has 32000", 32000)
    says("too small a model, no trailer", tokens, "holds 14 tokens, the model has 3", 3)
    says("too large a model, no trailer", tokens, "holds 14 tokens, the model has 15", 15)
    for absurd in (0, -1, -(2**31), 2**31 - 2):
        says("a model of %d tokens" % absurd, whole, "holds 14 tokens, the model has %d" % absurd, absurd)
    says("no trailer and too few", tokens[: starts[2]], "too few tokens", 2)
    says("a file of one byte", b"x", "too short")
    says("kind", patched(whole, mark + 4, "<I", 2), "kind")
    says("flags", patched(whole, mark + 8, "<I", 8), "flags")
    says("bos_id", patched(whole, mark + 12, "<i", size), "bos_id")
    says("unk_id", patched(whole, mark + 16, "<i", -2), "unk_id")
    says("number of end tokens", patched(whole, mark + 20, "<I", 9), "number of end tokens")
    says("number of end tokens, one too many", patched(whole, mark + 20, "<I", 2), "trailer")
    says("end token", patched(whole, mark + 24, "<i", size), "end token")
    says("type 0", whole[:-1] + b"\0", "type")
    says("type 7", whole[:-1] + b"\7", "type")
    says("type 32 beside a tokenizer that is not cut by parts", patched(whole, mark + 28 + 4, "<B", 33), "type")
    parts = patched(whole, mark + 8, "<I", vocabulary_flags(whole, mark) | 32)
    check(message(patched(parts, mark + 28 + 4, "<B", 33)) == "ok", "type 32 of a space")
    says("type 32 of a letter", patched(parts, mark + 28 + 5, "<B", 33), "type")
    says("type 32 of no text", patched(parts, mark + 28 + 9, "<B", 33), "type")
    says("type 32 of a control token", patched(parts, mark + 28 + 1, "<B", 35), "type")
    says("a byte token that is none", whole[:-1] + bytes([BYTE]), "byte token")
    says("nothing for unknown characters", patched(whole, mark + 16, "<i", -1), "unknown characters")
    says("a byte more", whole + b"\0", "trailer")
    says("a byte more, no trailer", tokens + b"\0", "inside token 14")
    says("a score that is not a number", patched(whole, starts[5], "<f", float("nan")), "score of token 5")
    says("an infinite score", patched(whole, starts[5], "<f", float("-inf")), "score of token 5")
    says("a negative length", patched(whole, starts[5] + 4, "<i", -1), "length of token 5")
    says("an absurd length", patched(whole, starts[5] + 4, "<i", 2**31 - 1), "length of token 5")
    says("a length past the end", patched(whole, starts[13] + 4, "<i", 1000), "inside token 13")
    for name, words in ((folder, "not a regular file"), (os.path.join(folder, "missing.bin"), "cannot open")):
        found = open_all(programs[0], size, [name])
        check(len(found) == 1 and found[0].startswith(name + ": ") and words in found[0], words, found)
    says("an empty file", b"", "empty")

    # Every truncation of a file with and of one without a trailer, then bytes changed at random.
    cuts = [os.path.join(folder, "cut%d" % n) for n in range(len(whole))]
    for n, cut in enumerate(cuts):
        write(cut, whole[:n])
    changed = [os.path.join(folder, "changed%d" % n) for n in range(3000 if len(programs) > 1 else 600)]
    for name in changed:
        data = bytearray(whole if rng.random() < 0.7 else tokens)
        for _ in range(rng.choice([1, 1, 2, 5, 20])):
            data[rng.randrange(len(data))] = rng.choice([0, 1, 4, 127, 128, 255, rng.randrange(256)])
        if rng.random() < 0.2:
            at = rng.randrange(len(data))
            data[at:at] = data[: rng.randrange(30)] if rng.random() < 0.5 else b""
        write(name, bytes(data))
    for program in programs:
        lines = open_all(program, size, cuts)
        bad = [(n, line) for n, line in enumerate(lines) if not line.startswith(cuts[n] + ": ") and n != mark]
        check(not bad, "every truncation is an error", bad[:2])
        check(len(lines) > mark and lines[mark] == "ok", "cut off where the trailer began, it is llama2.c's file")
        fewer = enumerate(starts[1:-1], 1)
        held = [n for n, cut in fewer if cut < len(lines) and "holds %d tokens, the model has 14" % n in lines[cut]]
        check(len(held) == size - 1, "cut off between tokens, it holds fewer", held)
        lines = open_all(program, size, changed)
        bad = [line for name, line in zip(changed, lines) if line != "ok" and not line.startswith(name + ": ")]
        check(not bad, "a changed file opens or is one line of error", bad[:2])
        check(0 < lines.count("ok") < len(lines), "some changed files open, some do not", lines.count("ok"), len(lines))

    # User-defined tokens that end inside a character: its rest is bytes.
    half = Vocabulary(vocabulary.pieces + [(b"\xf0\x9f", 0.0, USER_DEFINED), (b"\xe4\xb8", 0.0, USER_DEFINED)])
    write(path, half.tokens() + half.trailer())
    for program in programs:
        ids = encode(program, path, len(half), ["\U0001f600\u4e2da".encode()])
        check(ids == [[4, 14, 0, 0, 15, 0, 5]], "tokens that end inside a character", ids)

    # A vocabulary of one spelling: the lowest id wins, and it takes no time.
    same = Vocabulary(vocabulary.pieces + [(b"aaaaaaaa", -1.0, NORMAL)] * 100000 + [(b"<0x41>", 0.0, BYTE)])
    write(path, same.tokens() + same.trailer())
    start = processor_seconds()
    ids = encode(programs[0], path, len(same), [b"a" * 16 + b"A"])
    check(ids == [same.encode(b"a" * 16 + b"A")], "equal spellings: the lowest id", ids)
    check(processor_seconds() - start < 10, "equal spellings: time", processor_seconds() - start)


def test_utf8_stream(programs):
    rng = random.Random(5)
    # All beginnings of characters, which may be held back. (The last byte does not matter, hence the steps of 64.)
    chars = [chr(c).encode() for c in range(0x80, 0x110000, 64) if not 0xD800 <= c < 0xE000]
    beginnings = {b""} | {char[:n] for char in chars for n in range(1, len(char))}
    texts = ["a\u00e9\u4e2d\U0001f600 \u2581e\u0301\0\n\ud7ff\ue000\U0010ffff".encode(), b"".join(NASTY),
             bytes(range(256))]
    texts += [bytes(rng.choice(b"\x41\x80\xbf\xc2\xe0\xed\xf0\xf4\xa0\x90\x9f") for _ in range(12)) for _ in range(400)]
    streams = [[text[:n], text[n:]] for text in texts[:3] for n in range(1, len(text))]
    streams += [[text[i : i + 1] for i in range(len(text))] for text in texts]
    for program in programs:
        output = ask([program, "utf8"], [part for stream in streams for part in stream + [b""]])
        answers = iter(records(output or b""))
        wrong = []
        for stream in streams:
            given = released = b""
            for part in stream:
                given += part
                released += next(answers, b"")
                tails = [given[len(given) - n :] for n in range(min(4, len(given) + 1))]
                held = max((tail for tail in tails if tail in beginnings), key=len)
                if released != given[:len(given) - len(held)].decode(errors="ignore").encode():
                    wrong.append((stream, given, released))
            if next(answers, None) != b"":
                wrong.append((stream, "a push of nothing"))
        check(not wrong, "UTF-8 stream: whole characters, at once, none lost, and nothing else", wrong[:1])


def test_speed(program, folder):
    """Not a measurement: a quadratic algorithm would take several seconds for each text."""
    rng, n = random.Random(6), 1 << 16
    pieces = make_vocabulary(rng, size=2000, plain=True).pieces
    spellings = {p[0] for p in pieces}
    runs = [(c * k, float(-k), NORMAL) for c in (b"a", b" ", b"\n") for k in range(2, 65) if c * k not in spellings]
    unused = [(b"d" * k, float(-k), UNUSED) for k in range(2, 65) if b"d" * k not in spellings]
    user_defined = [(b"c" * 63 + b"!", 0.0, USER_DEFINED), (b" a b c", 0.0, USER_DEFINED)]
    texts = {"ordinary words": bytes(rng.choice(b"aabbcd0   ") for _ in range(n))}
    for unit in (b"a", b" ", b"\n", b"ab", b"a ", b"c", b"d", b"\xff", "\U0001f600".encode()):
        texts[repr(unit)] = unit * (n // len(unit))
    texts["one word"] = bytes(rng.choice(b"abcd") for _ in range(n))
    texts["random bytes"] = bytes(rng.getrandbits(8) for _ in range(n))
    for name, extra in (("words", runs), ("no words", runs + unused + user_defined)):
        vocabulary = Vocabulary(pieces + extra)
        path = write(os.path.join(folder, "speed.bin"), vocabulary.tokens() + vocabulary.trailer())
        for what, text in texts.items():
            start = processor_seconds()
            ids = ask([program, "encode", path, len(vocabulary)], [text])
            seconds = processor_seconds() - start
            check(ids is not None and seconds < 1, "64 KB of %s (%s)" % (what, name), "%.1f s" % seconds)


def all_of_it(kinds):
    with tempfile.TemporaryDirectory() as folder:
        programs = [tokenizers.program(kind) for kind in kinds]
        library = find_library()
        for test, *arguments in ((test_against_reference, programs, folder, library),
                                 (test_against_library, programs, folder, library), (test_llama2c_file, programs),
                                 (test_many_pairs, programs, folder), (test_damaged_files, programs, folder),
                                 (test_utf8_stream, programs), (test_speed, programs[0], folder)):
            with case(test.__name__):
                test(*arguments)


def test_tokenizers():
    all_of_it(["same"])


@takes_long
def test_sanitized():
    all_of_it(["same", "sanitized"])


if __name__ == "__main__":
    main({"test_tokenizers": test_tokenizers, "test_sanitized": test_sanitized})
