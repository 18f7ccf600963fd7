"""The text that the model is trained on: the books, and the exercises in retrieval that
tools/training/train.py mixes with them."""
import functools

import numpy as np
import sentencepiece


class Tokenizer:
    def __init__(self, path):
        self.sp = sentencepiece.SentencePieceProcessor(model_file=str(path))
        self.newline = self.sp.piece_to_id("<0x0A>")
        self.space = self.sp.piece_to_id("\u2581")
        self.digit = [self.sp.piece_to_id(str(d)) for d in range(10)]
        self.stop = self.sp.piece_to_id(".")

    @functools.cache
    def inline(self, text):
        """text as it is tokenized after a space."""
        return tuple(self.sp.encode(text))

    @functools.cache
    def bare(self, text):
        """text as it is tokenized directly after the text before it."""
        return tuple(self.sp.encode("\n" + text)[2:])


class Books:
    """Windows of the training books, each once per epoch, in an order fixed by the seed."""
    def __init__(self, tokens, seed):
        self.tokens, self.seed, self.cached = tokens, seed, None

    def window(self, index, length):
        n = len(self.tokens) // length - 1
        epoch, i = divmod(index, n)
        if self.cached != (epoch, length):
            rng = np.random.default_rng([self.seed, epoch, length])
            self.phase, self.order = int(rng.integers(length)), rng.permutation(n)
            self.cached = epoch, length
        start = self.phase + int(self.order[i]) * length
        return self.tokens[start:start + length].tolist()

    def anywhere(self, rng, length):
        start = int(rng.integers(len(self.tokens) - length))
        return self.tokens[start:start + length].tolist()


INTRO = ("There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. "
         "I will quiz you about the important information there.")
FILLER = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
KEYS = ["pass key", "pass key", "pass key", "secret number", "password", "number", "secret", "code", "lucky number",
        "watchword"]
NAMES = """
Mary John Emma Thomas Alice Henry Jane William Anne George Dora Peter Agnes Paul Sophia Oliver Lucy Arthur Rose Edward
Martha Charles Susan Walter Clara David Helen Robert Nancy Philip Ruth Samuel Fanny Daniel Laura Joseph Kitty Frank
Grace Hugh Bella Ralph Julia Simon Ellen Mark Flora Luke Amy Stephen Sarah Adam Elizabeth Harry Margaret James
""".split()
THINGS = """
London Paris Rome candle river garden silver golden winter summer thunder orange yellow lion horse castle bridge
window table letter pocket supper dinner master captain doctor soldier kitchen village island forest mountain music
picture mirror carriage station butter sugar apple cherry pepper turkey monkey rabbit tiger eagle sparrow feather
hammer needle ribbon basket bottle copper iron marble stone velvet cotton paper purple scarlet morning evening
midnight Monday Friday Sunday March April June August October Spain Russia France Egypt India Moscow Dublin Boston
Vienna""".split()
NAMED = [  # a fact, then a question with its answer; {v} is the stored value, of which the loss is taken
    ("The {k} of {n} is {v}.", "What is the {k} of {n}? The {k} of {n} is {v}."),
    ("The {k} of {n} is {v}.", "What is the {k} of {n}? The {k} of {n} is {v}."),
    ("{n}'s {k} is {v}.", "What is {n}'s {k}? {n}'s {k} is {v}."),
    ("Remember that the {k} of {n} is {v}.", "Tell me the {k} of {n}. It is {v}."),
    ("The {k} of {n} is {v}.", "The {k} of {n} is {v}."),
    ("{n} has the {k} {v}.", "Which {k} has {n}? {n} has the {k} {v}."),
    ("{n} lives at {v}.", "Where lives {n}? {n} lives at {v}."),
]
SINGLE = [
    ("The {k} is {v}. Remember it. {v} is the {k}.", "What is the {k}? The {k} is {v}."),
    ("The {k} is {v}. Remember it. {v} is the {k}.", "What is the {k}? The {k} is {v}."),
    ("The {k} is {v}. Remember it. {v} is the {k}.", "What is the {k}? The {k} is {v}."),
    ("The {k} is {v}.", "What was the {k}? The {k} was {v}."),
    ("Do not forget that the {k} is {v}.", "And what is the {k}? The {k} is {v}."),
    ("\"The {k},\" he said, \"is {v}.\"", "\"Tell me the {k},\" she said. The {k} is {v}."),
    ("Here is the {k}: {v}. Keep it in mind.", "Now the {k}: {v}."),
]


class Exercises:
    """Retrieval exercises: ids, with a mark for every id: 0 nothing, 1 book text, 2 an answer."""
    def __init__(self, tokenizer, books):
        self.tok, self.books = tokenizer, books
        self.filler = {nl: [tokenizer.newline] * nl + list((tokenizer.bare if nl else tokenizer.inline)(FILLER))
                       for nl in (False, True)}

    def value(self, rng):
        """The stored value: mostly five digits, sometimes fewer, or a word or two."""
        kind = rng.random()
        if kind < 0.7:
            n = 5 if kind < 0.5 else int(rng.integers(2, 5))
            return [self.tok.space] + [self.tok.digit[d] for d in rng.integers(0, 10, n)]
        words = THINGS if kind < 0.9 else NAMES
        return [t for _ in range(int(rng.integers(1, 3))) for t in self.tok.inline(words[rng.integers(len(words))])]

    def fill(self, template, value, asked, line=False, **names):
        """template's (ids, marks) with value for each {v}, an answer after the first `asked`; line: on its own line."""
        ids, marks = [self.tok.newline] * line, [0] * line
        for i, text in enumerate(template.format(v="\0", **names).split("\0")):
            if i:
                ids = ids + value
                marks = marks + [2 if i > asked else 0] * len(value)
            glued = line if i == 0 else text[:1] != " "
            piece = (self.tok.bare if glued else self.tok.inline)(text.strip()) if text.strip() else ()
            ids, marks = ids + list(piece), marks + [0] * len(piece)
        return ids, marks

    def hay(self, rng, length, filler):
        if filler:
            block = self.filler[rng.random() < 0.3]
            return (block * (length // len(block) + 1))[:length], [0] * length
        return self.books.anywhere(rng, length), [1] * length

    def hide(self, rng, hay, facts):
        """Puts the facts at random places of the haystack, mostly where a sentence ends."""
        ids, marks = hay
        ends = [i + 1 for i, t in enumerate(ids) if t == self.tok.stop]
        places = sorted(int(rng.choice(ends)) if ends and rng.random() < 0.8 else int(rng.integers(len(ids) + 1))
                        for _ in facts)
        out, last = ([], []), 0
        for place, fact in zip(places, facts):
            end = [self.tok.newline] * (fact[0][0] == self.tok.newline)
            out = (out[0] + ids[last:place] + fact[0] + end, out[1] + marks[last:place] + fact[1] + [0] * len(end))
            last = place
        return out[0] + ids[last:], out[1] + marks[last:]

    def named(self, rng, length):
        """Several keys with names, then many questions."""
        count = int(rng.integers(2, 4 if length < 128 else min(5 + length // 128, 24)))
        form, key = NAMED[rng.integers(len(NAMED))], KEYS[rng.integers(len(KEYS))]
        mixed, line = rng.random() < 0.3, rng.random() < 0.3
        facts, questions = [], []
        for n in rng.permutation(len(NAMES))[:count]:
            if mixed:
                form, key = NAMED[rng.integers(len(NAMED))], KEYS[rng.integers(len(KEYS))]
            v = self.value(rng)
            facts.append(self.fill(form[0], v, 9, line, k=key, n=NAMES[n]))
            questions.append(self.fill(form[1], v, 0, k=key, n=NAMES[n]))
        room = length - sum(len(f[0]) + line for f in facts)
        tail = ([], [])
        for i in (i for _ in range(int(rng.integers(1, 4))) for i in rng.permutation(count)):
            if len(tail[0]) + len(questions[i][0]) > max(room, 24):
                break
            tail = (tail[0] + questions[i][0], tail[1] + questions[i][1])
        head = self.hide(rng, self.hay(rng, max(room - len(tail[0]), 0), rng.random() < 0.2), facts)
        return head[0] + tail[0], head[1] + tail[1]

    def single(self, rng, length):
        """The pass key of the literature, in book text or in the literature's own filler."""
        form, key = SINGLE[rng.integers(len(SINGLE))], KEYS[rng.integers(len(KEYS))]
        v, line = self.value(rng), rng.random() < 0.3
        head = list(self.tok.inline(INTRO)) if rng.random() < 0.5 and length > 90 else []
        fact, ask = self.fill(form[0], v, 1, line, k=key), self.fill(form[1], v, 0, line, k=key)
        room = length - len(head) - len(fact[0]) - len(ask[0]) - line
        body = self.hide(rng, self.hay(rng, max(room, 0), rng.random() < 0.5), [fact])
        return head + body[0] + ask[0], [0] * len(head) + body[1] + ask[1]

    def copy(self, rng, length):
        """A segment of book text or of random ids, repeated; the repetitions are answers."""
        length = min(length, 512)  # or its many answers would drown the others'
        n = int(rng.integers(8, length // 2))
        segment = self.books.anywhere(rng, n) if rng.random() < 0.5 else rng.integers(259, 4096, n).tolist()
        times = length // n + 1
        lead = min(4, n)
        return (segment * times)[:length], ([0] * n + ([0] * lead + [2] * (n - lead)) * times)[:length]

    def stutter(self, rng, length):
        """Book text in which phrases are said over, up to six times, before it goes on: the copying heads must let go
        again, or sampled text that repeats a phrase by chance repeats it for ever. The loss is not taken on the
        repetitions, and the book's continuation counts as an answer."""
        book, ids, marks = self.books.anywhere(rng, length), [], []
        at = 0
        while len(ids) < length:
            step = int(rng.integers(12, 64))
            ids, marks = ids + book[at:at + step], marks + [1] * len(book[at:at + step])
            at += step
            n = min(int(2 ** rng.uniform(1, 5.5)), len(ids))  # 2 to 45 tokens
            times = int(rng.integers(1, 7 if n < 16 else 3))
            ids, marks = ids + ids[-n:] * times, marks + [0] * (n * times)
            ids, marks = ids + book[at:at + 2], marks + [2] * len(book[at:at + 2])
            at += 2
        return ids[:length], marks[:length]

    def window(self, rng, length, mix):
        """Exercises until the window is full. mix: how often {"named": .., "single": .., "copy": .., "stutter": ..}."""
        ids, marks = [], []
        while len(ids) < length:
            room = length - len(ids)
            if room < 48:
                a, m = self.hay(rng, room, False)
            else:
                n = room if room < 128 or rng.random() < 0.6 else int(rng.integers(64, room))
                a, m = getattr(self, rng.choice(list(mix), p=list(mix.values())))(rng, n)
            ids, marks = ids + a, marks + m
        return ids[:length], marks[:length]
