"""The model that is trained: Llama in PyTorch, with hand-written gradients of its slow steps, and its loss."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from gated_delta import GatedDelta
from position_encodings import STATE, Added, Attention, LayerAttention


def rope_frequencies(config):
    """Returns (inv_freq, attention_factor), as transformers does, for config's rope_scaling."""
    d, theta = config["head_dim"], config["rope_theta"]
    i = torch.arange(0, d, 2, dtype=torch.float64)
    inv_freq = theta ** (-i / d)
    scaling = config.get("rope_scaling")
    if not scaling:
        return inv_freq, 1.0
    s = scaling["factor"]
    if scaling["rope_type"] == "linear":
        return inv_freq / s, 1.0
    L = scaling["original_max_position_embeddings"]

    def correction(turns):  # the pair that makes this many turns in the trained length
        return d * math.log(L / (turns * 2 * math.pi)) / (2 * math.log(theta))
    low, high = max(math.floor(correction(32)), 0), min(math.ceil(correction(1)), d - 1)
    keep = 1 - ((torch.arange(d // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    return inv_freq / s * (1 - keep) + inv_freq * keep, 0.1 * math.log(s) + 1


def turns_of(config):
    """{kind of layers: (cos, sin) of 8,192 positions, or None where nothing turns}; one kind, None, where all layers
    are alike."""
    encoding = config.get("encoding", "rope")
    blocks = {None: config if encoding == "rope" else {}}
    if "rope_parameters" in config:
        blocks = {kind: dict(config, **block) if block else {} for kind, block in config["rope_parameters"].items()}
    turns = {}
    for kind, block in blocks.items():
        turns[kind] = None
        if block:
            inv_freq, attention_factor = rope_frequencies(block)
            angle = torch.outer(torch.arange(8192, dtype=torch.float64), inv_freq)[:, None, :]
            turns[kind] = [(t * attention_factor).float() for t in (angle.cos(), angle.sin())]
    return turns


# Three functions with their gradients written out: fewer passes over memory than autograd's own.

class Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        r = torch.rsqrt(torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1]).add_(eps))
        n = x * r
        ctx.save_for_backward(n, r, weight)
        return n * weight

    @staticmethod
    def backward(ctx, g):
        n, r, weight = ctx.saved_tensors
        gn = g * n
        along = (gn @ weight / -len(weight)).unsqueeze(-1)
        return (g * weight).addcmul_(n, along).mul_(r), gn.flatten(0, -2).sum(0), None


class Rotate(torch.autograd.Function):
    """Turns the first `heads` heads of x (batch, length, heads, head_dim) in place, pairs (i, i + head_dim/2)."""
    @staticmethod
    def turn(x, cos, sin, heads):
        a, b = x[:, :, :heads].chunk(2, -1)
        old = a.clone()
        a.mul_(cos).addcmul_(b, sin, value=-1)
        b.mul_(cos).addcmul_(old, sin)
        return x

    @staticmethod
    def forward(ctx, x, cos, sin, heads):
        ctx.save_for_backward(cos, sin)
        ctx.heads = heads
        ctx.mark_dirty(x)
        return Rotate.turn(x, cos, sin, heads)

    @staticmethod
    def backward(ctx, g):
        cos, sin = ctx.saved_tensors
        return Rotate.turn(g.clone(), cos, -sin, ctx.heads), None, None, None


class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        gate, up = x.chunk(2, -1)
        act = F.silu(gate)
        ctx.save_for_backward(x, act)
        return act * up

    @staticmethod
    def backward(ctx, g):
        x, act = ctx.saved_tensors
        gate, up = x.chunk(2, -1)
        dx = torch.empty_like(x)
        dgate, dup = dx.chunk(2, -1)
        torch.mul(g, act, out=dup)
        torch.ops.aten.silu_backward.grad_input(g * up, gate, grad_input=dgate)
        return dx


class RMSNorm(nn.Module):
    def __init__(self, c, width=None):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width or c["hidden_size"])), c["rms_norm_eps"]

    def forward(self, x):
        return Normalize.apply(x, self.weight, self.eps)


class Block(nn.Module):
    def __init__(self, c, layer):
        super().__init__()
        self.n_q, self.n_kv, self.head_dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        dim, hidden = c["hidden_size"], c["intermediate_size"]
        self.input_norm, self.post_norm = RMSNorm(c), RMSNorm(c)
        self.encoding = c.get("encoding", "rope")
        self.kind = c["layer_types"][layer] if "layer_types" in c else None
        if self.kind == STATE:
            self.delta = GatedDelta(c)
        else:
            self.qkv = nn.Linear(dim, (self.n_q + 2 * self.n_kv) * self.head_dim, bias=False)
            self.o = nn.Linear(self.n_q * self.head_dim, dim, bias=False)
        if self.encoding == "states" and self.kind != STATE:
            self.gate = nn.Linear(dim, self.n_q * self.head_dim, bias=False)
            self.q_norm, self.k_norm = RMSNorm(c, self.head_dim), RMSNorm(c, self.head_dim)
        self.gate_up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.attention = None
        if "encoding" in c and self.kind != STATE:
            self.attention = LayerAttention(c, layer) if self.encoding == "layers" else Attention(c)

    def forward(self, x, turns):
        """turns: {kind of layers: (cos, sin), or None where nothing turns}; kind None where all layers are alike."""
        x = x + (self.delta(self.input_norm(x)) if self.kind == STATE else self.attend(self.input_norm(x), turns))
        return x + self.down(SwiGLU.apply(self.gate_up(self.post_norm(x))))

    def attend(self, x, turns):
        B, T, _ = x.shape
        qkv = self.qkv(x).view(B, T, -1, self.head_dim)
        if self.encoding == "states":
            q, k, v = qkv.split([self.n_q, self.n_kv, self.n_kv], 2)
            qkv = torch.cat([self.q_norm(q), self.k_norm(k), v], 2)
        if turns[self.kind]:
            qkv = Rotate.apply(qkv, *turns[self.kind], self.n_q + self.n_kv)
        q, k, v = qkv.transpose(1, 2).split([self.n_q, self.n_kv, self.n_kv], 1)
        k, v = (t.repeat_interleave(self.n_q // self.n_kv, 1) for t in (k, v))
        if self.encoding == "layers":
            y = self.attention(q, k, v)
        elif self.attention:
            y = self.attention(q, k, v, *self.qkv.weight.split(self.n_q * self.head_dim)[:2])
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).reshape(B, T, -1)
        return self.o(y * self.gate(x).sigmoid() if self.encoding == "states" else y)


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Block(config, i) for i in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(config)
        self.added = Added(config) if "encoding" in config else None
        for name, p in self.named_parameters():
            if p.dim() == 2:
                out = name.endswith(("o.weight", "down.weight", "out.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * len(self.layers)) if out else 0.02)
        self.turns = turns_of(config)

    def forward(self, ids):
        """ids (batch, length) -> hidden states (batch, length, dim), normed."""
        x = self.added(self.embed(ids)) if self.added else self.embed(ids)
        turns = {kind: t and [table[:ids.shape[1]] for table in t] for kind, t in self.turns.items()}
        for layer in self.layers:
            x = layer(x, turns)
        return self.norm(x)


class ClassifierLoss(torch.autograd.Function):
    """sum of weight * cross entropy of (h @ table.T, target): logits exist for a chunk of rows at a time, and the
    gradients are formed on the way so that nothing of their size is kept."""
    @staticmethod
    def forward(ctx, h, table, target, weight, chunk=2048):
        columns = table.t().contiguous()
        dh, dtable, nll = torch.empty_like(h), torch.zeros_like(table), []
        for i in range(0, len(h), chunk):
            rows = h[i:i + chunk]
            logits = rows @ columns
            t, w = target[i:i + chunk, None], weight[i:i + chunk, None]
            at_target = logits.gather(1, t)
            top = logits.amax(1, keepdim=True)
            d = logits.sub_(top).exp_()
            total = d.sum(1, keepdim=True)
            nll.append((total.log() + top - at_target)[:, 0])
            d.mul_(w / total).scatter_add_(1, t, -w)
            torch.mm(d, table, out=dh[i:i + chunk])
            dtable.addmm_(d.t(), rows)
        nll = torch.cat(nll)
        ctx.save_for_backward(dh, dtable)
        ctx.mark_non_differentiable(nll)
        return (nll * weight).sum(), nll

    @staticmethod
    def backward(ctx, g, _):
        dh, dtable = ctx.saved_tensors
        return dh * g, dtable * g, None, None, None
