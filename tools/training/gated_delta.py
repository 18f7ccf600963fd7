"""A layer that has a state in place of keys and values, in PyTorch: the gated delta rule (arXiv 2412.06464) as in Qwen
3.5, read in chunks. src/kinds/states.c has the same token by token, and its formulas."""
import math

import torch
import torch.nn.functional as F
from torch import nn

CHUNK = 32  # of 16 to 64, the fastest here
EPS = 1e-6  # of the norms of queries and keys


def unit(x):
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + EPS)


def delta_rule(q, k, v, g, beta, chunk=CHUNK):
    """q, k (batch, heads, T, key_dim) of length 1, v (batch, heads, T, value_dim), g <= 0 and beta (batch, heads, T) ->
    the state's answer to each query, in the shape of v.

    Token i's write, d_i = beta_i (v_i - S^T k_i), depends on the writes before it in the chunk. It is solved for the
    whole chunk at once (arXiv 2412.06464, section 3.3): with G_i the sum of g up to i and A_ij = beta_i exp(G_i -
    G_j) k_i k_j below the diagonal, (1 + A) d = beta (v - exp(G) S^T k)."""
    T, key_dim = q.shape[2], q.shape[3]
    more = -T % chunk  # tokens that write nothing
    q, k, v = (F.pad(t, (0, 0, 0, more)).unflatten(2, (-1, chunk)) for t in (q * key_dim ** -0.5, k, v))
    g, beta = (F.pad(t, (0, more)).unflatten(2, (-1, chunk)) for t in (g, beta))
    G = g.cumsum(-1)
    lower = torch.ones(chunk, chunk, dtype=torch.bool).tril()
    decay = (G[..., :, None] - G[..., None, :]).masked_fill(~lower, -torch.inf).exp()
    A = (beta[..., None] * (k @ k.mT) * decay).tril(-1) + torch.eye(chunk)
    grown = torch.cat([beta[..., None] * v, (beta * G.exp())[..., None] * k], -1)
    own, of_state = torch.linalg.solve_triangular(A, grown, upper=False, unitriangular=True).split(
        [v.shape[-1], key_dim], -1)
    scores, queries = (q @ k.mT) * decay, q * G.exp()[..., None]
    keys, kept = k * (G[..., -1:] - G).exp()[..., None], G[..., -1].exp()[..., None, None]
    S, out = torch.zeros(*q.shape[:2], key_dim, v.shape[-1]), []
    parts = own, of_state, queries, scores, keys, kept
    for own, of_state, queries, scores, keys, kept in zip(*(t.unbind(2) for t in parts)):
        d = own - of_state @ S
        out.append(queries @ S + scores @ d)
        S = kept * S + keys.mT @ d
    return torch.cat(out, 2)[:, :, :T]


class GatedDelta(nn.Module):
    """x (batch, T, hidden_size) -> the same shape. As many heads for keys as for values."""
    def __init__(self, c):
        super().__init__()
        self.heads, self.width = c["linear_num_value_heads"], c["linear_value_head_dim"]
        all_heads, self.eps, self.taps = self.heads * self.width, c["rms_norm_eps"], c["linear_conv_kernel_dim"]
        self.qkv = nn.Linear(c["hidden_size"], 3 * all_heads, bias=False)
        self.gate = nn.Linear(c["hidden_size"], all_heads, bias=False)
        self.beta, self.step = (nn.Linear(c["hidden_size"], self.heads, bias=False) for _ in range(2))
        self.conv = nn.Parameter(torch.empty(3 * all_heads, 1, self.taps).uniform_(-1, 1) / math.sqrt(self.taps))
        self.decay = nn.Parameter(torch.empty(self.heads).uniform_(1, 16).log())
        self.dt = nn.Parameter(as_softplus(torch.empty(self.heads).uniform_(math.log(1e-3), math.log(0.1)).exp()))
        self.norm = nn.Parameter(torch.ones(self.width))
        self.out = nn.Linear(all_heads, c["hidden_size"], bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        u = F.conv1d(F.pad(self.qkv(x).mT, (self.taps - 1, 0)), self.conv, groups=len(self.conv))
        q, k, v = F.silu(u).view(B, 3, self.heads, self.width, T).transpose(-1, -2).unbind(1)
        g = -self.decay.exp() * F.softplus(self.step(x) + self.dt)
        o = delta_rule(unit(q), unit(k), v, g.mT, self.beta(x).sigmoid().mT).transpose(1, 2)
        o = o * torch.rsqrt(o.square().mean(-1, keepdim=True) + self.eps) * self.norm
        return self.out(o.flatten(2) * F.silu(self.gate(x)))


def as_softplus(y):
    """x with softplus(x) = y"""
    return y + torch.log(-torch.expm1(-y))
