"""The position encodings of the small models of models/, in PyTorch: the lesson's chapter before RoPE has the formulas.
Learned ones are parameters here; functions of distances are computed for the length at hand."""
import math

import torch
from torch import nn

ENCODINGS = ["rope", "none", "learned", "sinusoidal", "alibi", "shaw", "transformer-xl", "disentangled"]
SHAPE = dict(vocab_size=4096, hidden_size=128, intermediate_size=320, num_hidden_layers=5, num_attention_heads=4,
             num_key_value_heads=4, head_dim=32, rms_norm_eps=1e-5, rope_theta=10000.0, max_position_embeddings=256,
             clip_distance=64)
FULL, SLIDING, STATE = "full_attention", "sliding_attention", "linear_attention"
PLAIN = dict(rope_type="default", rope_theta=10000.0)


def by_layer(full):
    """The config of a sibling in which each fourth layer is full, as in OLMo 3: `full` is the RoPE of that layer, {}
    for none. The others turn at theta 10,000, and their queries see 64 positions with their own."""
    types = [SLIDING if (i + 1) % 4 else FULL for i in range(SHAPE["num_hidden_layers"])]
    return dict(SHAPE, encoding="layers", layer_types=types, sliding_window=64,
                rope_parameters={FULL: full, SLIDING: PLAIN})


def with_state(full):
    """The config of a sibling in which each fourth layer attends, and the others keep a state: Qwen 3.5's layers, with
    norms of the attending layer's heads, and its gate. The states are as wide as the heads. All pairs of a head turn,
    where Qwen 3.5 has a quarter of them."""
    types = [STATE if (i + 1) % 4 else FULL for i in range(SHAPE["num_hidden_layers"])]
    heads, width = SHAPE["num_attention_heads"], SHAPE["head_dim"]
    return dict(SHAPE, encoding="states", layer_types=types, rope_parameters={FULL: full}, linear_conv_kernel_dim=4,
                linear_num_key_heads=heads, linear_num_value_heads=heads, linear_key_head_dim=width,
                linear_value_head_dim=width)


# The siblings of the lesson's chapter on two kinds of layers, beside `rope`, whose layers are all full. The
# temperature 1 + beta ln(1 + floor(p / L)) has the window as L, so that it is felt in training: it is 1.33 at the
# last of 256 positions. beta is 1 / ln L. So 1 + beta ln(p / L) is ln p / ln L, the growth by which the entropy of
# attention stays (kexue.fm 8823); Ministral 3 has 0.1 at an L of 16,384, where 1 / ln L is 0.103.
PATTERNS = {
    "sliding": by_layer(PLAIN),
    "nope": by_layer({}),
    "theta": by_layer(dict(PLAIN, rope_theta=1e6)),
    "state": with_state(PLAIN),
    "state-nope": with_state({}),
    "temperature": by_layer(dict(PLAIN, llama_4_scaling_beta=0.24, original_max_position_embeddings=64)),
}


def sinusoids(count, dim, theta):
    """R (count, dim): row p has sin and cos of p theta^(-2i/dim) at 2i and 2i + 1. arXiv 1706.03762, section 3.5."""
    angle = torch.outer(torch.arange(count, dtype=torch.float64), theta ** (-torch.arange(0, dim, 2) / dim).double())
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1).float()


class Added(nn.Module):
    """Added to the embeddings: x_t += P[t], learned (arXiv 1705.03122) or sinusoids (arXiv 1706.03762)."""
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
    """(..., T, T): [i, T-1-d] becomes [i, j] with j = i - d; elements with j > i are undefined."""
    T = by_distance.shape[-1]
    padded = nn.functional.pad(by_distance, (1, 0))
    return padded.flatten(-2).unflatten(-1, (T + 1, T))[..., 1:, :]


def by_distance(by_key):
    """The inverse of by_key, for elements that are 0 if j > i."""
    T = by_key.shape[-1]
    padded = nn.functional.pad(by_key, (0, 0, 1, 0))
    return padded.flatten(-2).unflatten(-1, (T, T + 1))[..., 1:]


def by_query(by_distance):
    """(..., T, T): of keys, [j, d] becomes [i, j] with i = j + d; elements with j > i are undefined."""
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
        """q k plus the encoding's scores, times sqrt(head_dim). wq, wk: the layer's projections."""
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


class LayerAttention(nn.Module):
    """Causal attention of one layer of a sibling whose layers differ. In a sliding layer a query sees `window`
    positions with its own. In a full one it may grow with its position (the `temperature` of PATTERNS)."""
    def __init__(self, c, layer):
        super().__init__()
        self.kind, self.scale = c["layer_types"][layer], c["head_dim"] ** -0.5
        self.window = c["sliding_window"] if self.kind == SLIDING else c["max_position_embeddings"]
        rope = c["rope_parameters"][self.kind]
        self.beta, self.L = rope.get("llama_4_scaling_beta", 0), rope.get("original_max_position_embeddings", 1)

    def forward(self, q, k, v):
        """q, k, v (batch, heads, T, head_dim) -> the same shape. Queries are taken `window` at a time, so that most
        keys outside a sliding layer's window are not multiplied either."""
        at = torch.arange(q.shape[2])
        q = q * (self.scale * (1 + self.beta * torch.log1p(at // self.L)))[:, None]
        rows = self.window if self.kind == SLIDING else len(at)
        parts = []
        for begin, queries in zip(at[::rows].tolist(), q.split(rows, 2)):
            end, first = begin + queries.shape[2], max(begin - rows, 0) if self.kind == SLIDING else 0
            distance = at[begin:end, None] - at[first:end]
            seen = (distance >= 0) & ((distance < self.window) | (self.kind == FULL))
            hidden = torch.zeros(distance.shape).masked_fill(~seen, -torch.inf)
            keys, values = (t[:, :, first:end].flatten(0, 1) for t in (k, v))
            weights = torch.baddbmm(hidden, queries.flatten(0, 1), keys.mT).softmax(-1)
            parts.append((weights @ values).unflatten(0, q.shape[:2]))
        return torch.cat(parts, 2)
