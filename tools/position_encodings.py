"""How the small models of models/ know positions, in PyTorch: the lesson's chapter before RoPE has the formulas. What
is learned of them are parameters here; what follows from distances is made for the length at hand."""
import math

import torch
from torch import nn

ENCODINGS = ["rope", "none", "learned", "sinusoidal", "alibi", "shaw", "transformer-xl", "disentangled"]
SHAPE = dict(vocab_size=4096, hidden_size=128, intermediate_size=320, num_hidden_layers=5, num_attention_heads=4,
             num_key_value_heads=4, head_dim=32, rms_norm_eps=1e-5, rope_theta=10000.0, max_position_embeddings=256,
             clip_distance=64)


def sinusoids(count, dim, theta):
    """R (count, dim): row p has sin and cos of p theta^(-2i/dim) at 2i and 2i + 1. arXiv 1706.03762, section 3.5."""
    angle = torch.outer(torch.arange(count, dtype=torch.float64), theta ** (-torch.arange(0, dim, 2) / dim).double())
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1).float()


class Added(nn.Module):
    """What is added to the embeddings: x_t += P[t], learned (arXiv 1705.03122) or sinusoids (arXiv 1706.03762)."""
    def __init__(self, c):
        super().__init__()
        self.encoding, self.dim, self.theta = c["encoding"], c["hidden_size"], c["rope_theta"]
        if self.encoding == "learned":
            self.table = nn.Parameter(torch.randn(c["max_position_embeddings"], self.dim) * 0.02)

    def forward(self, x):
        if self.encoding == "learned":
            return x + self.table[:x.shape[1]]
        return x + sinusoids(x.shape[1], self.dim, self.theta) if self.encoding == "sinusoidal" else x


def by_key(by_distance):
    """(..., T, T): [i, T-1-d] becomes [i, j] with j = i - d; what would be j > i is anything."""
    T = by_distance.shape[-1]
    padded = nn.functional.pad(by_distance, (1, 0))
    return padded.flatten(-2).unflatten(-1, (T + 1, T))[..., 1:, :]


def by_distance(by_key):
    """The way back, for what is 0 where j > i."""
    T = by_key.shape[-1]
    padded = nn.functional.pad(by_key, (0, 0, 1, 0))
    return padded.flatten(-2).unflatten(-1, (T, T + 1))[..., 1:]


def by_query(by_distance):
    """(..., T, T): of keys, [j, d] becomes [i, j] with i = j + d; what would be j > i is anything."""
    T = by_distance.shape[-1]
    padded = nn.functional.pad(by_distance, (0, 1)).flatten(-2)[..., :T * T]
    return padded.unflatten(-1, (T, T)).transpose(-1, -2)


class Attention(nn.Module):
    """Causal attention with an encoding's terms: q, k, v (batch, heads, T, head_dim) -> the same shape."""
    def __init__(self, c):
        super().__init__()
        self.encoding, self.theta, self.dim = c["encoding"], c["rope_theta"], c["hidden_size"]
        self.heads, self.head_dim = c["num_attention_heads"], c["head_dim"]
        width = self.heads * self.head_dim
        if self.encoding == "shaw":
            self.clip = c["clip_distance"]
            self.relative_keys = nn.Parameter(torch.randn(self.clip + 1, self.head_dim) * 0.02)
            self.relative_values = nn.Parameter(torch.randn(self.clip + 1, self.head_dim) * 0.02)
        if self.encoding == "transformer-xl":
            self.r = nn.Linear(self.dim, width, bias=False)
            self.u, self.v = (nn.Parameter(torch.zeros(width)) for _ in range(2))

    def heads_of(self, x):
        """(T, heads * head_dim) -> (heads, T, head_dim)"""
        return x.unflatten(-1, (self.heads, self.head_dim)).transpose(0, 1)

    def scores(self, q, k, wq, wk):
        """q k and what the encoding adds, times sqrt(head_dim). wq, wk: the layer's projections."""
        T = q.shape[2]
        if self.encoding == "alibi":  # - 2^(-8h/H) d, arXiv 2108.12409
            slopes = 2.0 ** (-8 * torch.arange(1, self.heads + 1) / self.heads)
            distance = torch.arange(T)[:, None] - torch.arange(T)
            return q @ k.mT - slopes[:, None, None] * distance * math.sqrt(self.head_dim)
        if self.encoding == "shaw":  # q (k + a_d), arXiv 1803.02155
            table = self.relative_keys[torch.arange(T - 1, -1, -1).clamp(max=self.clip)]
            return q @ k.mT + by_key(q @ table.t())
        if self.encoding == "transformer-xl":  # (q + u) k + (q + v) W_R R_d, arXiv 1901.02860
            r = self.heads_of(self.r(sinusoids(T, self.dim, self.theta).flip(0)))
            u, v = (b.view(self.heads, 1, self.head_dim) for b in (self.u, self.v))
            return (q + u) @ k.mT + by_key((q + v) @ r.mT)
        if self.encoding == "disentangled":  # q k + q (W_k R_d) + (W_q R_d) k, arXiv 2006.03654
            R = sinusoids(T, self.dim, self.theta)
            keys, queries = self.heads_of(R.flip(0) @ wk.t()), self.heads_of(R @ wq.t())
            return q @ k.mT + by_key(q @ keys.mT) + by_query(k @ queries.mT)
        return q @ k.mT

    def forward(self, q, k, v, wq, wk):
        T = q.shape[2]
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        scores = self.scores(q, k, wq, wk) * self.head_dim ** -0.5
        weights = scores.masked_fill(future, -torch.inf).softmax(-1)
        out = weights @ v
        if self.encoding == "shaw":  # and weights (v + b_d)
            table = self.relative_values[torch.arange(T - 1, -1, -1).clamp(max=self.clip)]
            out = out + by_distance(weights) @ table
        return out
