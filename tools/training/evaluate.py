"""The quality of a checkpoint: perplexity by position on the book that was kept apart, and passkeys."""
import numpy as np
import torch
import torch.nn.functional as F

from exercises import FILLER, INTRO, Books
from recipe import BOS


@torch.no_grad()
def nll_of(model, ids):
    """ids (batch, length) -> the nll of each except the first, and whether it was the likeliest: (batch, length -
    1)."""
    h, target, out, right = model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), [], []
    for i in range(0, len(h), 2048):
        logits, t = h[i:i + 2048] @ model.embed.weight.t(), target[i:i + 2048]
        out.append(F.cross_entropy(logits, t, reduction="none"))
        right.append(logits.argmax(-1) == t)
    return torch.cat(out).view(len(ids), -1), torch.cat(right).view(len(ids), -1)


def evaluate(model, tokenizer, valid, lengths, say, windows=24, trials=2):
    """Perplexity by position on the validation book, passkey accuracy by length and depth."""
    for length in lengths:
        n = max(1, min(windows, (len(valid) - 1) // length))
        starts = [i * (len(valid) - length) // n for i in range(n)]
        nll = torch.cat([nll_of(model, torch.tensor([[BOS] + valid[s:s + length].tolist()]))[0] for s in starts])
        nll = nll.mean(0)
        edges = [0] + [1 << i for i in range(6, 20) if 1 << i < length] + [length]
        say(f"ppl at {length}, {n} windows: "
            + " ".join(f"{a}-{b}: {nll[a:b].mean().exp():.2f}" for a, b in zip(edges, edges[1:]))
            + f" all: {nll.mean().exp():.2f}")
    book = Books(valid, 0)
    for length in lengths:
        for filler in (True, False):
            hits = [[answered(model, *passkey(tokenizer, book, np.random.default_rng([7, length, trial, depth]),
                                              length, depth / 100, filler)) for trial in range(trials)]
                    for depth in (0, 25, 50, 75, 100)]
            say(f"passkey at {length} in {'filler' if filler else 'a book'}, depth 0 to 1: "
                + " ".join(f"{np.mean(h):.2f}" for h in hits) + f" mean {np.mean(hits):.3f}")


def answered(model, ids, digits):
    """Whether greedy decoding would give the last ids: each must be the likeliest after those before it."""
    return bool(nll_of(model, torch.tensor([ids]))[1][0, -digits:].all())


def passkey(tok, books, rng, length, depth, filler):
    """The literature's test: ids of exactly length tokens whose last are the answer, and how many those are."""
    key = [tok.space] + [tok.digit[d] for d in rng.integers(0, 10, 5)]
    head = [BOS] + list(tok.inline(INTRO))
    needle = [*tok.inline("The pass key is"), *key, *tok.bare(". Remember it."), *key, *tok.inline("is the pass key.")]
    ask = list(tok.inline("What is the pass key? The pass key is"))
    room = length - len(head) - len(needle) - len(ask) - len(key)
    sentences = list(tok.inline(FILLER))
    hay = (sentences * (room // len(sentences) + 1))[:room] if filler else books.anywhere(rng, room)
    ends = [0] + [i + 1 for i, t in enumerate(hay) if t == tok.stop] + [room]
    at = min(ends, key=lambda e: abs(e - depth * room))
    return head + hay[:at] + needle + hay[at:] + ask + key, len(key)
