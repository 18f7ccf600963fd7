"""The recipe: the model's shape, each stage's data and learning rate, and the windows of one step."""
import math

import numpy as np
import torch

BOS, EOS = 1, 2
BYTES_END = 259  # where the pieces begin that are learned
CONFIG = dict(vocab_size=4096, hidden_size=256, intermediate_size=704, num_hidden_layers=6,
              num_attention_heads=4, num_key_value_heads=2, head_dim=64, rms_norm_eps=1e-5,
              rope_theta=10000.0, max_position_embeddings=512)

COPYING = dict(named=0.45, single=0.40, copy=0.15)  # how often each exercise comes
LETTING_GO = dict(named=0.30, single=0.30, stutter=0.40)
STAGES = {
    # A list is a schedule: (until this share of the stage, value). lengths: of windows, to draw from; muon: its rate in
    # units of AdamW's; cosine: from which share of the stage on the rate falls to zero, None: never.
    "retrieve": dict(tokens=4096, lengths=[(1.0, [96])], exercises=0.60, lr=1e-3, warmup=0.04, cosine=None,
                     muon=[(1.0, 8)], answer_weight=1.0, prose_in_exercises=False, mix=COPYING),
    "prose": dict(tokens=8192, lengths=[(0.3, [128]), (0.6, [256]), (1.0, [512])], exercises=0.20, lr=2e-3, warmup=0.02,
                  cosine=0, muon=[(0.34, 8), (1.0, 4)], answer_weight=0.5, prose_in_exercises=True, mix=COPYING),
    "reread": dict(tokens=8192, lengths=[(0.5, [256]), (1.0, [512])], exercises=0.12, lr=2e-3, warmup=0.02,
                   cosine=0, muon=[(1.0, 4)], answer_weight=0.5, prose_in_exercises=True, mix=COPYING),
    "settle": dict(tokens=8192, lengths=[(1.0, [512])], exercises=0.25, lr=4e-4, warmup=0.05,
                   cosine=0, muon=[(1.0, 4)], answer_weight=0.5, prose_in_exercises=True, mix=LETTING_GO),
    "small": dict(tokens=4096, lengths=[(0.5, [96]), (1.0, [256])], exercises=[(0.5, 0.6), (1.0, 0.3)], lr=1e-3,
                  warmup=0.02, cosine=0.5, muon=[(1.0, 10)], answer_weight=[(0.5, 1.0), (1.0, 0.5)],
                  prose_in_exercises=[(0.5, False), (1.0, True)], mix=COPYING),
    "drop": dict(tokens=4096, lengths=[(1.0, [256])], exercises=0.3, lr=1e-3, warmup=0.05, cosine=0,
                 muon=[(1.0, 10)], answer_weight=0.5, prose_in_exercises=True, mix=COPYING),
    "extend": dict(tokens=8192, lengths=[(1.0, [2048, 2048, 4096, 8192])], exercises=0.5, lr=4e-4, warmup=0.05,
                   cosine=0, muon=[(1.0, 4)], answer_weight=0.5, prose_in_exercises=True, mix=LETTING_GO),
}


def at_progress(schedule, at):
    if not isinstance(schedule, list):
        return schedule
    return next(value for until, value in schedule if min(at, 1.0) <= until)


def learning_rate(stage, at):
    lr = stage["lr"] * min(1.0, (at + 1e-4) / stage["warmup"])
    if stage["cosine"] is not None and at > stage["cosine"]:
        lr *= 0.5 + 0.5 * math.cos(math.pi * (min(at, 1.0) - stage["cosine"]) / (1 - stage["cosine"]))
    return lr


def batch(stage, at, exercises, seed, step, worker, workers):
    """A worker's share of a step: (ids, targets, marks), from the seed, the step and the stage's progress alone."""
    length = int(np.random.default_rng([seed, step]).choice(at_progress(stage["lengths"], at)))
    rows = max(workers, stage["tokens"] // length)
    ids, marks = [], []
    for row in range(worker, rows, workers):
        rng = np.random.default_rng([seed, step, row])
        if rng.random() < at_progress(stage["exercises"], at):
            i, m = exercises.window(rng, length, stage["mix"])
            if not at_progress(stage["prose_in_exercises"], at):
                m = [x if x == 2 else 0 for x in m]
        else:
            i, m = exercises.books.window(step * rows + row, length), [1] * length
        ids.append([BOS] + i)
        marks.append(m)
    ids = torch.tensor(ids)
    return ids[:, :-1], ids[:, 1:], torch.tensor(marks), rows * length
