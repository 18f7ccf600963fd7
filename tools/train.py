#!/usr/bin/env python3
"""Trains the small Llama that ships with rope.c, from plain text. Needed to make it again, never to run it.

    train.py tokenizer --corpus ../shared/corpus    # sentencepiece BPE, every book encoded once
    train.py retrieve --steps 600                   # short windows: the copying heads form
    train.py prose --start retrieve --minutes 69.45 # windows up to the trained context: it learns to write
    train.py reread --start prose --seed 2 --steps 5800     # more passes over the books, from a rate raised again
    train.py settle --start reread --seed 3 --steps 350     # the copying heads learn to let go
    train.py extend --start settle --name yarn --method yarn --steps 200      # the 8,192-token sibling
    train.py extend --start settle --name linear --method linear --steps 200  # as many steps, for comparison
    train.py eval --name yarn --lengths 512 2048 8192
    train.py export --name yarn --out hf-8k         # a Hugging Face folder, for model_export.py

Everything lies in --work: tokens, checkpoints, logs. A stage that is started again goes on from its checkpoint.
--minutes is wall-clock time: the schedule reaches its end then, however fast the machine was.

Plain books teach a model of this size no retrieval: the heads that look back for a repeated context and copy what
followed it never form. Exercises whose loss is taken on the answers alone form them within minutes, and they stay
when most of the windows are prose again. They also repeat for ever what a sampled text repeats once, until exercises
in which a stutter ends teach them to let go.

A processor without bfloat16 matrix units multiplies float32 fastest (OpenBLAS), or float16 when it has AVX512-FP16:
halfgemm.c, compiled on the way, is worth 1.35 times the speed. One single-threaded process for each core beats one
process with threads, above all on a machine that has other work. glibc gives every big tensor's
memory back at once unless told otherwise: OMP_NUM_THREADS=1, MALLOC_MMAP_THRESHOLD_=4000000000 and
MALLOC_TRIM_THRESHOLD_=8000000000 in the environment are worth a third of the speed.
Needs PyTorch 2.1 or later, NumPy and sentencepiece.
"""
import argparse, ctypes, json, lzma, math, os, shutil, signal, string, struct, subprocess, time
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

from exercises import FILLER, INTRO, Books, Exercises, Tokenizer

BOS, EOS = 1, 2
CONFIG = dict(vocab_size=4096, hidden_size=256, intermediate_size=704, num_hidden_layers=6,
              num_attention_heads=4, num_key_value_heads=2, head_dim=64, rms_norm_eps=1e-5,
              rope_theta=10000.0, max_position_embeddings=512)

COPYING = dict(named=0.45, single=0.40, copy=0.15)  # how often each exercise comes
LETTING_GO = dict(named=0.30, single=0.30, stutter=0.40)
STAGES = {
    # lengths: (until this share of the stage, window lengths to draw from); muon: (until, its rate in units of AdamW's)
    "retrieve": dict(tokens=4096, lengths=[(1.0, [96])], exercises=0.60, lr=1e-3, warmup=0.04, cosine=False,
                     muon=[(1.0, 8)], answer_weight=1.0, prose_in_exercises=False, mix=COPYING),
    "prose": dict(tokens=8192, lengths=[(0.3, [128]), (0.6, [256]), (1.0, [512])], exercises=0.20, lr=2e-3, warmup=0.02,
                  cosine=True, muon=[(0.34, 8), (1.0, 4)], answer_weight=0.5, prose_in_exercises=True, mix=COPYING),
    "reread": dict(tokens=8192, lengths=[(0.5, [256]), (1.0, [512])], exercises=0.12, lr=2e-3, warmup=0.02,
                   cosine=True, muon=[(1.0, 4)], answer_weight=0.5, prose_in_exercises=True, mix=COPYING),
    "settle": dict(tokens=8192, lengths=[(1.0, [512])], exercises=0.25, lr=4e-4, warmup=0.05,
                   cosine=True, muon=[(1.0, 4)], answer_weight=0.5, prose_in_exercises=True, mix=LETTING_GO),
    "extend": dict(tokens=8192, lengths=[(1.0, [2048, 2048, 4096, 8192])], exercises=0.5, lr=4e-4, warmup=0.05,
                   cosine=True, muon=[(1.0, 4)], answer_weight=0.5, prose_in_exercises=True, mix=LETTING_GO),
}


# ---------------------------------------------------------------- the model

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

    def correction(turns):  # the pair that makes this many turns in the trained context
        return d * math.log(L / (turns * 2 * math.pi)) / (2 * math.log(theta))
    low, high = max(math.floor(correction(32)), 0), min(math.ceil(correction(1)), d - 1)
    keep = 1 - ((torch.arange(d // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    return inv_freq / s * (1 - keep) + inv_freq * keep, 0.1 * math.log(s) + 1


def float16_products(work):
    """halfgemm() from halfgemm.c, compiled into `work`; None where the processor or the compiler has no AVX512-FP16."""
    source, library = Path(__file__).with_name("halfgemm.c"), Path(work) / "halfgemm.so"
    info = Path("/proc/cpuinfo")
    if not info.exists() or "avx512_fp16" not in info.read_text():
        return None
    command = ["cc", "-O3", "-march=native", "-mavx512fp16", "-shared", "-fPIC", str(source), "-o", f"{library}.{os.getpid()}"]
    try:
        if subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
            return None
    except OSError:
        return None
    os.replace(f"{library}.{os.getpid()}", library)
    function = ctypes.CDLL(str(library.resolve())).halfgemm
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    function.restype, function.argtypes = None, [size, size, size, pointer, ctypes.c_int, size, pointer, size, pointer, size, ctypes.c_int]
    return function


halfgemm = None  # set by train()
GRADIENT_SCALE = 4096.0  # gradients are kept this much larger on the way back, so that float16 holds the small ones


def product(a, b, out=None, add=False):
    """out = or += a @ b. Large matrices go through halfgemm, where there is one."""
    if out is None:
        out = torch.empty(a.shape[0], b.shape[1])
    rows, b = a.stride(1) == 1, b if b.stride(1) == 1 or not halfgemm else b.contiguous()
    if not halfgemm or b.shape[1] % 64 or not (rows or a.stride(0) == 1):
        return out.addmm_(a, b) if add else torch.mm(a, b, out=out)
    halfgemm(a.shape[0], b.shape[1], a.shape[1], a.data_ptr(), rows, a.stride(0) if rows else a.stride(1),
             b.data_ptr(), b.stride(0), out.data_ptr(), out.stride(0), add)
    return out


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return product(x, weight.t())

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return product(g, weight), product(g.t(), x)


class Linear(nn.Linear):
    def forward(self, x):
        return Product.apply(x.flatten(0, 1), self.weight).view(*x.shape[:-1], -1)


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
    def __init__(self, c):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(c["hidden_size"])), c["rms_norm_eps"]

    def forward(self, x):
        return Normalize.apply(x, self.weight, self.eps)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n_q, self.n_kv, self.head_dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        dim, hidden = c["hidden_size"], c["intermediate_size"]
        self.input_norm, self.post_norm = RMSNorm(c), RMSNorm(c)
        self.qkv = Linear(dim, (self.n_q + 2 * self.n_kv) * self.head_dim, bias=False)
        self.o = Linear(self.n_q * self.head_dim, dim, bias=False)
        self.gate_up = Linear(dim, 2 * hidden, bias=False)
        self.down = Linear(hidden, dim, bias=False)

    def forward(self, x, cos, sin):
        B, T, _ = x.shape
        qkv = self.qkv(self.input_norm(x)).view(B, T, -1, self.head_dim)
        qkv = Rotate.apply(qkv, cos, sin, self.n_q + self.n_kv)
        q, k, v = qkv.transpose(1, 2).split([self.n_q, self.n_kv, self.n_kv], 1)
        k, v = (t.repeat_interleave(self.n_q // self.n_kv, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(B, T, -1))
        return x + self.down(SwiGLU.apply(self.gate_up(self.post_norm(x))))


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Block(config) for _ in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(config)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                out = name.endswith(("o.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * len(self.layers)) if out else 0.02)
        inv_freq, attention_factor = rope_frequencies(config)
        angle = torch.outer(torch.arange(8192, dtype=torch.float64), inv_freq)[:, None, :]
        self.cos, self.sin = (angle.cos() * attention_factor).float(), (angle.sin() * attention_factor).float()

    def forward(self, ids):
        """ids (batch, length) -> hidden states (batch, length, dim), normed."""
        x = self.embed(ids)
        cos, sin = self.cos[:ids.shape[1]], self.sin[:ids.shape[1]]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


class Optimizer:
    """Muon (Jordan et al. 2024) for the layers' matrices: momentum, made orthogonal by five Newton-Schulz steps, so
    that every direction learns at one rate. AdamW for the embedding and the norms. The state lies in shared memory, and
    a step updates the parameters of one worker only: the workers share them out by layer."""
    def __init__(self, model, workers):
        c = model.config
        q, kv = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
        fused = {"qkv": [q, kv, kv], "gate_up": [c["intermediate_size"]] * 2}
        self.matrices, self.others, self.state = [[] for _ in range(workers)], [[] for _ in range(workers)], {}
        for name, p in model.named_parameters():
            part = name.split(".")
            owner = (int(part[1]) if part[0] == "layers" else workers - 1) % workers
            matrix = part[0] == "layers" and p.dim() == 2
            if matrix:
                self.matrices[owner].append((name, p, fused.get(part[2], [len(p)])))
            else:
                self.others[owner].append((name, p))
            for kind in ("momentum",) if matrix else ("momentum", "square"):
                self.state[f"{name}.{kind}"] = torch.zeros_like(p, requires_grad=False).share_memory_()

    @torch.no_grad()
    def step(self, worker, grads, lr, muon, t, decay=0.1, betas=(0.9, 0.95), momentum=0.95):
        for name, p, parts in self.matrices[worker]:
            m = self.state[f"{name}.momentum"].lerp_(grads[name], 1 - momentum)
            nesterov = grads[name].lerp(m, momentum).split(parts)
            for w, u in zip(p.mul_(1 - lr * decay).split(parts), nesterov):
                w.add_(orthogonal(u), alpha=-muon * lr * max(1, u.shape[0] / u.shape[1]) ** 0.5)
        for name, p in self.others[worker]:
            if p.dim() == 2:
                p.mul_(1 - lr * decay)
            m = self.state[f"{name}.momentum"].lerp_(grads[name], 1 - betas[0])
            v = self.state[f"{name}.square"].lerp_(grads[name].square(), 1 - betas[1])
            p.addcdiv_(m, (v / (1 - betas[1] ** t)).sqrt_().add_(1e-8), value=-lr / (1 - betas[0] ** t))


def orthogonal(x):
    """The (semi-)orthogonal matrix nearest to x, roughly: singular values come out between 0.7 and 1.2."""
    tall = x.shape[0] > x.shape[1]
    x = x.t() if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = product(x, x.t())
        x = 3.4445 * x + product(2.0315 * product(a, a) - 4.7750 * a, x)
    return x.t() if tall else x


class ClassifierLoss(torch.autograd.Function):
    """sum of weight * cross entropy of (h @ table.T, target): logits exist for a chunk of rows at a time, and the
    gradients, GRADIENT_SCALE times as large, are formed on the way so that nothing of their size is kept."""
    @staticmethod
    def forward(ctx, h, table, target, weight, chunk=2048):
        columns, weight = table.t().contiguous(), weight * GRADIENT_SCALE
        dh, dtable, nll = torch.empty_like(h), torch.zeros_like(table), []
        for i in range(0, len(h), chunk):
            rows = h[i:i + chunk]
            logits = product(rows, columns)
            t, w = target[i:i + chunk, None], weight[i:i + chunk, None]
            at_target = logits.gather(1, t)
            top = logits.amax(1, keepdim=True)
            d = logits.sub_(top).exp_()
            total = d.sum(1, keepdim=True)
            nll.append((total.log() + top - at_target)[:, 0])
            d.mul_(w / total).scatter_add_(1, t, -w)
            product(d, table, dh[i:i + chunk])
            product(d.t(), rows, dtable, add=True)
        nll = torch.cat(nll)
        ctx.save_for_backward(dh, dtable)
        ctx.mark_non_differentiable(nll)
        return (nll * weight).sum() / GRADIENT_SCALE, nll

    @staticmethod
    def backward(ctx, g, _):
        dh, dtable = ctx.saved_tensors
        return dh * g, dtable * g, None, None, None


def at_progress(schedule, at):
    return next(value for until, value in schedule if at <= until)


def batch(stage, at, books, exercises, seed, step, worker, workers):
    """A worker's share of a step: (ids, targets, marks), from the seed, the step and the stage's progress alone."""
    length = int(np.random.default_rng([seed, step]).choice(at_progress(stage["lengths"], at)))
    rows = max(workers, stage["tokens"] // length)
    ids, marks = [], []
    for row in range(worker, rows, workers):
        rng = np.random.default_rng([seed, step, row])
        if rng.random() < stage["exercises"]:
            i, m = exercises.window(rng, length, stage["mix"])
            if not stage["prose_in_exercises"]:
                m = [x if x == 2 else 0 for x in m]
        else:
            i, m = books.window(step * rows + row, length), [1] * length
        ids.append([BOS] + i)
        marks.append(m)
    ids = torch.tensor(ids)
    return ids[:, :-1], ids[:, 1:], torch.tensor(marks), rows * length


# ---------------------------------------------------------------- training

def save(path, value):
    """Writes a checkpoint so that a crash in the middle leaves the old one whole."""
    torch.save(value, f"{path}.tmp")
    os.replace(f"{path}.tmp", path)


def train(args):
    """Trains on `--workers` processes of one thread each. Weights, gradients and optimizer state are shared: after
    its backward pass each worker sums everybody's gradients of the layers it owns, and updates those."""
    global halfgemm
    stage, work = STAGES[args.command], Path(args.work)
    halfgemm = float16_products(work)
    torch.manual_seed(args.seed)
    config = dict(CONFIG)
    if args.command == "extend":
        config["rope_scaling"] = dict(rope_type=args.method, factor=16.0)
        if args.method == "yarn":
            config["rope_scaling"]["original_max_position_embeddings"] = config["max_position_embeddings"]
            config["max_position_embeddings"] = 8192
    model = Llama(config).share_memory()
    optimizer = Optimizer(model, args.workers)
    state = dict(step=0, tokens=0, elapsed=0.0)
    checkpoint = work / f"{args.name}.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        for name, value in saved["optimizer"].items():
            optimizer.state[name].copy_(value)
        state = saved["state"]
    elif args.start:
        model.load_state_dict(torch.load(work / f"{args.start}.pt")["model"])
    shared = dict(barrier=mp.Barrier(args.workers, timeout=3600), norms=torch.zeros(args.workers).share_memory_(),
                  control=torch.zeros(2, dtype=torch.float64).share_memory_(),  # progress, whether to stop
                  grads=[{name: torch.zeros_like(p, requires_grad=False).share_memory_()
                          for name, p in model.named_parameters()} for _ in range(args.workers)])
    for worker in range(1, args.workers):
        mp.Process(target=work_on, args=(worker, args, stage, model, optimizer, state, shared), daemon=True).start()
    work_on(0, args, stage, model, optimizer, state, shared)


def work_on(worker, args, stage, model, optimizer, state, shared):
    torch.set_num_threads(1)
    work = Path(args.work)
    tokenizer = Tokenizer(work / "tokenizer.model")
    books = Books(np.fromfile(work / "train.u16", np.uint16), args.seed)
    valid = np.fromfile(work / "valid.u16", np.uint16)
    exercises = Exercises(tokenizer, books)
    grads, wait, control = shared["grads"], shared["barrier"].wait, shared["control"]
    for name, p in model.named_parameters():
        p.grad = grads[worker][name]
    begin, before = time.time(), state["elapsed"]

    def progress():
        state["elapsed"] = before + time.time() - begin
        return state["step"] / args.steps if args.steps else state["elapsed"] / (60 * args.minutes)

    stop = []
    if worker == 0:
        signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
        log = open(work / f"{args.name}.log", "a", buffering=1)

        def say(line):
            print(line, file=log)
        say(f"# {time.ctime()}: {vars(args)}, {sum(p.numel() for p in model.parameters())} parameters, from {state}")
    last_log, last_save, last_eval, tokens_then = begin, begin, begin, state["tokens"]
    meter, at, stopping = np.zeros(4), progress(), False
    while at < 1 and not stopping:
        ids, target, marks, tokens = batch(stage, at, books, exercises, args.seed, state["step"], worker, args.workers)
        keep = marks.flatten().nonzero()[:, 0]
        target, marks = target.flatten()[keep], marks.flatten()[keep]
        book, answer = marks == 1, marks == 2
        weight = book / book.sum().clamp(min=1) + stage["answer_weight"] * answer / answer.sum().clamp(min=1)
        loss, nll = ClassifierLoss.apply(model(ids).flatten(0, 1)[keep], model.embed.weight, target, weight)
        loss.backward()
        state["step"] += 1
        state["tokens"] += tokens
        wait()
        with torch.no_grad():
            mine = {name: sum(g[name] for g in grads) / (args.workers * GRADIENT_SCALE)
                    for name, *_ in optimizer.matrices[worker] + optimizer.others[worker]}
        shared["norms"][worker] = sum(g.square().sum() for g in mine.values())
        if worker == 0:
            control[:] = torch.tensor([progress(), float(bool(stop))])
        wait()
        norm, at, stopping = float(shared["norms"].sum().sqrt()), float(control[0]), bool(control[1])
        if not math.isfinite(norm):
            raise SystemExit(f"step {state['step']}: the gradient is not finite")
        for g in mine.values():
            g.mul_(min(1.0, 1.0 / norm))
        lr = stage["lr"] * min(1.0, (at + 1e-4) / stage["warmup"])
        if stage["cosine"]:
            lr *= 0.5 + 0.5 * math.cos(math.pi * min(at, 1.0))
        optimizer.step(worker, mine, lr, at_progress(stage["muon"], min(at, 1.0)), state["step"])
        wait()
        for g in grads[worker].values():
            g.zero_()
        if worker:
            continue
        now, over = time.time(), at >= 1 or stopping
        meter += [float(nll[book].sum()), int(book.sum()), int((nll[answer] < 0.693).sum()), int(answer.sum())]
        if now - last_log > 10:
            say(f"step {state['step']} {at:.3f} lr {lr:.2e} loss {meter[0] / max(meter[1], 1):.3f} "
                f"answers {meter[2] / max(meter[3], 1):.3f} norm {norm:.2f} tokens {state['tokens'] / 1e6:.2f}M "
                f"{(state['tokens'] - tokens_then) / (now - last_log):.0f} tokens/s")
            meter[:] = 0
            last_log, tokens_then = now, state["tokens"]
        if now - last_save > 180 or over:
            save(work / f"{args.name}.pt", dict(model=model.state_dict(), optimizer=optimizer.state, state=state,
                                           config=model.config))
            last_save = now
        if args.eval_minutes and (now - last_eval > 60 * args.eval_minutes or over):
            longest = stage["lengths"][-1][1][-1]
            evaluate(model, tokenizer, valid, [512, 2048, 8192] if longest > 512 else [longest], say,
                     windows=24 if longest <= 512 else 2, trials=2 if longest <= 512 else 1)
            last_eval = last_log = time.time()
            tokens_then = state["tokens"]


# ---------------------------------------------------------------- evaluation

@torch.no_grad()
def nll_of(model, ids):
    """ids (batch, length) -> what each but the first costs, and whether it was the likeliest: (batch, length - 1)."""
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


# ---------------------------------------------------------------- files

def read_book(path):
    return lzma.open(path, "rt", encoding="utf-8").read()


def make_tokenizer(args):
    """Trains the tokenizer on the training books and encodes every book once."""
    work, corpus = Path(args.work), Path(args.corpus)
    files = {part: sorted((corpus / part).glob("*.txt.xz")) for part in ("train", "valid")}
    ascii = string.digits + string.ascii_letters + string.punctuation  # some are rare or absent in the books
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for text in ([" ".join(ascii)], map(read_book, files["train"])) for t in text
                           for line in t.split("\n") if line),
        model_prefix=str(work / "tokenizer"), model_type="bpe", vocab_size=CONFIG["vocab_size"],
        byte_fallback=True, split_digits=True, add_dummy_prefix=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, unk_id=0, bos_id=BOS, eos_id=EOS, pad_id=-1,
        required_chars=ascii, character_coverage=0.9999, max_sentence_length=65536, num_threads=2)
    sp = sentencepiece.SentencePieceProcessor(model_file=str(work / "tokenizer.model"))
    for part in files:
        ids = np.concatenate([np.array([BOS] + sp.encode(read_book(f)), np.uint16) for f in files[part]])
        ids.tofile(work / f"{part}.u16")
        print(f"{part}: {len(files[part])} books, {len(ids)} tokens")


def export(args):
    """Writes a checkpoint as a Hugging Face folder, float32."""
    work, out = Path(args.work), Path(args.out)
    saved = torch.load(work / f"{args.name}.pt")
    config, weights = saved["config"], saved["model"]
    q, kv = config["num_attention_heads"] * config["head_dim"], config["num_key_value_heads"] * config["head_dim"]
    tensors = {"model.embed_tokens.weight": weights["embed.weight"], "model.norm.weight": weights["norm.weight"]}
    for i in range(config["num_hidden_layers"]):
        a, b = f"layers.{i}.", f"model.layers.{i}."
        tensors[b + "input_layernorm.weight"] = weights[a + "input_norm.weight"]
        tensors[b + "post_attention_layernorm.weight"] = weights[a + "post_norm.weight"]
        for name, part in zip("qkv", weights[a + "qkv.weight"].split([q, kv, kv])):
            tensors[b + f"self_attn.{name}_proj.weight"] = part
        tensors[b + "self_attn.o_proj.weight"] = weights[a + "o.weight"]
        for name, part in zip(("gate", "up"), weights[a + "gate_up.weight"].chunk(2)):
            tensors[b + f"mlp.{name}_proj.weight"] = part
        tensors[b + "mlp.down_proj.weight"] = weights[a + "down.weight"]
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, t in tensors.items():
        size = t.numel() * 4
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "model.safetensors.tmp", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(t.float().contiguous().numpy().tobytes())
    os.replace(out / "model.safetensors.tmp", out / "model.safetensors")
    full = dict(architectures=["LlamaForCausalLM"], model_type="llama", **config, hidden_act="silu",
                tie_word_embeddings=True, attention_bias=False, mlp_bias=False, attention_dropout=0.0,
                bos_token_id=BOS, eos_token_id=EOS, initializer_range=0.02, torch_dtype="float32", use_cache=True)
    full.setdefault("rope_scaling", None)
    (out / "config.json.tmp").write_text(json.dumps(full, indent=2) + "\n")
    os.replace(out / "config.json.tmp", out / "config.json")
    shutil.copyfile(work / "tokenizer.model", out / "tokenizer.model")
    print(f"{out}: step {saved['state']['step']}, {saved['state']['tokens'] / 1e6:.1f}M tokens")


def evaluate_checkpoint(args):
    work = Path(args.work)
    saved = torch.load(work / f"{args.name}.pt")
    model = Llama(saved["config"])
    model.load_state_dict(saved["model"])
    evaluate(model, Tokenizer(work / "tokenizer.model"), np.fromfile(work / "valid.u16", np.uint16),
             args.lengths, print, args.windows, args.trials)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--work", default="train", help="folder of tokens, checkpoints and logs")
    p = commands.add_parser("tokenizer", parents=[common])
    p.add_argument("--corpus", default=str(Path(__file__).resolve().parents[2] / "shared/corpus"))
    for name in STAGES:
        p = commands.add_parser(name, parents=[common])
        p.add_argument("--name", default=name, help="of the checkpoint and the log")
        p.add_argument("--start", help="name of the checkpoint whose weights to start from")
        length = p.add_mutually_exclusive_group(required=True)
        length.add_argument("--steps", type=int)
        length.add_argument("--minutes", type=float)
        p.add_argument("--seed", type=int, default=1)
        p.add_argument("--workers", type=int, default=os.cpu_count())
        p.add_argument("--eval-minutes", type=float, default=6, help="between evaluations into the log; 0: none")
        if name == "extend":
            p.add_argument("--method", choices=["yarn", "linear"], required=True)
    p = commands.add_parser("eval", parents=[common])
    p.add_argument("--name", required=True)
    p.add_argument("--lengths", type=int, nargs="+", default=[512])
    p.add_argument("--windows", type=int, default=64)
    p.add_argument("--trials", type=int, default=10, help="pass keys for each length, depth and haystack")
    p = commands.add_parser("export", parents=[common])
    p.add_argument("--name", required=True)
    p.add_argument("--out", required=True)
    args = parser.parse_args()
    torch.set_num_threads(1 if args.command in STAGES else os.cpu_count())
    if args.command in STAGES:
        train(args)
    else:
        {"tokenizer": make_tokenizer, "eval": evaluate_checkpoint, "export": export}[args.command](args)


if __name__ == "__main__":
    main()
