#!/usr/bin/env python3
"""Trains the small Llama that ships with rope.c, from plain text. Needed to make it again, never to run it.

    train.py tokenizer --corpus ../shared/corpus    # sentencepiece BPE, every book encoded once; with --like
                                                    # tokenizer.bin the shipped order of tokens
    train.py retrieve --steps 600                   # short windows: the copying heads form
    train.py prose --start retrieve --minutes 69.45 # windows up to the trained length: it learns to write
    train.py reread --start prose --seed 2 --steps 5800     # more passes over the books, from a rate raised again
    train.py settle --start reread --seed 3 --steps 350     # the copying heads learn to let go
    train.py extend --start settle --name yarn --method yarn --steps 200      # the 8,192-token sibling
    train.py extend --start settle --name linear --method linear --steps 200  # as many steps, for comparison
    train.py small --encoding alibi --steps 1400    # one of models/, which differ in how positions are known
    train.py small --layers nope --steps 1400       # or in what their layers see, and how these turn
    train.py import --folder hf-rope --name rope    # weights of models/rope.bin or model.bin, to train on from
    train.py drop --start rope --name dropped --steps 175   # its RoPE taken away; --encoding rope: left in
    train.py eval --name yarn --lengths 512 2048 8192
    train.py export --name yarn --out hf-8k         # a Hugging Face folder, for model_export.py

--keep 9 44 keeps the weights of these steps, as NAME-9 and NAME-44.
Everything lies in --work: tokens, checkpoints, logs. A stage that is started again goes on from its checkpoint.
--minutes is wall-clock time: the schedule reaches its end then, however fast the machine was.

Plain books teach a model of this size no retrieval: the heads that look back for a repeated context and copy what
followed it never form. Exercises whose loss is taken on the answers alone form them within minutes, and they stay
when most of the windows are prose again. They also repeat for ever what a sampled text repeats once, until exercises
in which a stutter ends teach them to let go.

One single-threaded process for each core beats one process with threads, above all on a machine that has other work.
glibc gives every big tensor's memory back at once unless told otherwise: OMP_NUM_THREADS=1,
MALLOC_MMAP_THRESHOLD_=4000000000 and MALLOC_TRIM_THRESHOLD_=8000000000 in the environment are worth a third of the
speed. Needs PyTorch (2.1 or later; `small` 1.13), NumPy and sentencepiece. The stages are in recipe.py, the model in
llama.py, the rest in position_encodings.py, gated_delta.py, optimizer.py, exercises.py, evaluate.py and checkpoints.py.
"""
import argparse
import lzma
import math
import os
import signal
import string
import struct
import time
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import torch.multiprocessing as mp

from position_encodings import ENCODINGS, PATTERNS, SHAPE
from checkpoints import export, import_folder, save
from evaluate import evaluate
from exercises import Books, Exercises, Tokenizer
from llama import ClassifierLoss, Llama
from optimizer import Optimizer
from recipe import BOS, BYTES_END, CONFIG, EOS, STAGES, at_progress, batch, learning_rate


# ---- training ----

def train(args):
    """Trains on `--workers` processes of one thread each. Weights, gradients and optimizer state are shared: after
    its backward pass each worker sums everybody's gradients of the layers it owns, and updates those."""
    stage, work = STAGES[args.command], Path(args.work)
    torch.manual_seed(args.seed)
    config = dict(CONFIG)
    if args.command == "small":
        config = PATTERNS[args.layers] if args.layers else dict(SHAPE, encoding=args.encoding)
    if args.command == "drop":
        config = dict(SHAPE, encoding=args.encoding)
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


class Journal:
    """The first worker's further tasks: the log, checkpoints, evaluations."""
    def __init__(self, args, stage, model, optimizer, state, tokenizer):
        self.args, self.stage, self.model, self.optimizer, self.state = args, stage, model, optimizer, state
        self.tokenizer, self.valid = tokenizer, np.fromfile(Path(args.work) / "valid.u16", np.uint16)
        self.log = open(Path(args.work) / f"{args.name}.log", "a", buffering=1)
        self.say(f"# {time.ctime()}: {vars(args)}, {sum(p.numel() for p in model.parameters())} parameters, "
                 f"from {state}")
        self.last_log = self.last_save = self.last_eval = time.time()
        self.meter, self.tokens_then = np.zeros(4), state["tokens"]

    def say(self, line):
        print(line, file=self.log)

    def count(self, nll, book, answer):
        """Adds a step: nll of its tokens, which of them are of a book, which an answer."""
        self.meter += [float(nll[book].sum()), int(book.sum()), int((nll[answer] < 0.693).sum()), int(answer.sum())]

    def write(self, at, lr, norm, over):
        """The tasks due after a step: a line every 10 seconds, a checkpoint every 3 minutes, all of it at the end."""
        now, args, state, meter = time.time(), self.args, self.state, self.meter
        if now - self.last_log > 10:
            self.say(f"step {state['step']} {at:.3f} lr {lr:.2e} loss {meter[0] / max(meter[1], 1):.3f} "
                     f"answers {meter[2] / max(meter[3], 1):.3f} norm {norm:.2f} tokens {state['tokens'] / 1e6:.2f}M "
                     f"{(state['tokens'] - self.tokens_then) / (now - self.last_log):.0f} tokens/s")
            meter[:] = 0
            self.last_log, self.tokens_then = now, state["tokens"]
        if now - self.last_save > 180 or over:
            save(Path(args.work) / f"{args.name}.pt", dict(model=self.model.state_dict(), state=state,
                                                           optimizer=self.optimizer.state, config=self.model.config))
            self.last_save = now
        if state["step"] in args.keep:
            save(Path(args.work) / f"{args.name}-{state['step']}.pt",
                 dict(model=self.model.state_dict(), state=state, config=self.model.config))
        if args.eval_minutes and (now - self.last_eval > 60 * args.eval_minutes or over):
            longest = self.stage["lengths"][-1][1][-1]
            evaluate(self.model, self.tokenizer, self.valid, [512, 2048, 8192] if longest > 512 else [longest],
                     self.say, windows=24 if longest <= 512 else 2, trials=2 if longest <= 512 else 1)
            self.last_eval = self.last_log = time.time()
            self.tokens_then = state["tokens"]


def work_on(worker, args, stage, model, optimizer, state, shared):
    """One worker's share of every step, until the stage is over: its gradients, then the layers that it owns."""
    torch.set_num_threads(1)
    work = Path(args.work)
    tokenizer = Tokenizer(work / "tokenizer.model")
    exercises = Exercises(tokenizer, Books(np.fromfile(work / "train.u16", np.uint16), args.seed))
    grads, wait, control = shared["grads"], shared["barrier"].wait, shared["control"]
    for name, p in model.named_parameters():
        p.grad = grads[worker][name]
    begin, before = time.time(), state["elapsed"]

    def progress():
        state["elapsed"] = before + time.time() - begin
        return state["step"] / args.steps if args.steps else state["elapsed"] / (60 * args.minutes)

    stop, journal = [], None
    if worker == 0:
        signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
        journal = Journal(args, stage, model, optimizer, state, tokenizer)
    at, stopping = progress(), False
    while at < 1 and not stopping:
        ids, target, marks, tokens = batch(stage, at, exercises, args.seed, state["step"], worker, args.workers)
        keep = marks.flatten().nonzero()[:, 0]
        target, marks = target.flatten()[keep], marks.flatten()[keep]
        book, answer = marks == 1, marks == 2
        weight = book / book.sum().clamp(min=1) + \
            at_progress(stage["answer_weight"], at) * answer / answer.sum().clamp(min=1)
        loss, nll = ClassifierLoss.apply(model(ids).flatten(0, 1)[keep], model.embed.weight, target, weight)
        loss.backward()
        state["step"] += 1
        state["tokens"] += tokens
        wait()
        mine = owned_gradients(worker, args.workers, optimizer, grads)
        shared["norms"][worker] = sum(g.square().sum() for g in mine.values())
        if worker == 0:
            control[:] = torch.tensor([progress(), float(bool(stop))])
        wait()
        norm, at, stopping = float(shared["norms"].sum().sqrt()), float(control[0]), bool(control[1])
        if not math.isfinite(norm):
            raise SystemExit(f"step {state['step']}: the gradient is not finite")
        for g in mine.values():
            g.mul_(min(1.0, 1.0 / norm))
        lr = learning_rate(stage, at)
        optimizer.step(worker, mine, lr, at_progress(stage["muon"], at), state["step"])
        wait()
        for g in grads[worker].values():
            g.zero_()
        if journal:
            journal.count(nll, book, answer)
            journal.write(at, lr, norm, at >= 1 or stopping)


def owned_gradients(worker, workers, optimizer, grads):
    """The gradients of the parameters that a worker owns, summed over all workers."""
    with torch.no_grad():
        return {name: sum(g[name] for g in grads) / workers
                for name, *_ in optimizer.matrices[worker] + optimizer.others[worker]}


# ---- files ----

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
    if args.like:
        reorder(work / "tokenizer.model", args.like)
    sp = sentencepiece.SentencePieceProcessor(model_file=str(work / "tokenizer.model"))
    for part in files:
        ids = np.concatenate([np.array([BOS] + sp.encode(read_book(f)), np.uint16) for f in files[part]])
        ids.tofile(work / f"{part}.u16")
        print(f"{part}: {len(files[part])} books, {len(ids)} tokens")


def varint(data, at):
    """The number of protobuf's variable length that begins at `at`, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def as_varint(value):
    return bytes([value & 127 | 128]) + as_varint(value >> 7) if value > 127 else bytes([value])


def reorder(path, like):
    """Gives the pieces of a sentencepiece model the order of a tokenizer.bin that has the same ones: releases of
    sentencepiece break ties between pieces otherwise. In the model's protobuf each piece is a message of field 1, with
    the text as its own field 1, and they come before all else."""
    model, pieces, at = path.read_bytes(), [], 0
    while model[at:at + 1] == b"\x0a":
        size, begin = varint(model, at + 1)
        length, text = varint(model, begin + 1)
        pieces.append((model[text:text + length], model[text + length:begin + size]))
        at = begin + size
    rest, data, order, place = model[at:], Path(like).read_bytes(), [], 4
    for _ in pieces:
        length = struct.unpack_from("<4xi", data, place)[0]
        order.append(data[place + 8:place + 8 + length].replace(b" ", "\u2581".encode()))
        place += 8 + length
    first = BYTES_END  # unk, bos, eos and the bytes are where they are
    if set(order[first:]) != {text for text, _ in pieces[first:]}:
        raise SystemExit(f"{like}: other pieces than those that were learned")
    texts = [text for text, _ in pieces[:first]] + order[first:]
    messages = (b"\x0a" + as_varint(len(text)) + text + more for text, (_, more) in zip(texts, pieces))
    path.write_bytes(b"".join(b"\x0a" + as_varint(len(each)) + each for each in messages) + rest)


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
    p.add_argument("--like", help="a tokenizer.bin whose order of tokens to take")
    p.add_argument("--corpus", default=str(Path(__file__).resolve().parents[3] / "shared/corpus"))
    for name in STAGES:
        p = commands.add_parser(name, parents=[common])
        if name == "small":
            differs = p.add_mutually_exclusive_group(required=True)
            differs.add_argument("--encoding", choices=ENCODINGS, help="how the model knows positions")
            differs.add_argument("--layers", choices=PATTERNS, help="what its layers see, and how they turn")
        p.add_argument("--name", default=None if name == "small" else name, help="of the checkpoint and the log")
        p.add_argument("--start", help="name of the checkpoint whose weights to start from")
        length = p.add_mutually_exclusive_group(required=True)
        length.add_argument("--steps", type=int)
        length.add_argument("--minutes", type=float)
        p.add_argument("--seed", type=int, default=1)
        p.add_argument("--workers", type=int, default=os.cpu_count())
        p.add_argument("--eval-minutes", type=float, default=6, help="between evaluations into the log; 0: none")
        p.add_argument("--keep", type=int, nargs="+", default=[], help="steps whose weights are kept")
        if name == "drop":
            p.add_argument("--encoding", choices=["none", "rope"], default="none", help="what is left")
        if name == "extend":
            p.add_argument("--method", choices=["yarn", "linear"], required=True)
    p = commands.add_parser("import", parents=[common])
    p.add_argument("--folder", required=True, help="that model_export.py wrote")
    p.add_argument("--name", required=True)
    p = commands.add_parser("eval", parents=[common])
    p.add_argument("--name", required=True)
    p.add_argument("--lengths", type=int, nargs="+", default=[512])
    p.add_argument("--windows", type=int, default=64)
    p.add_argument("--trials", type=int, default=10, help="pass keys for each length, depth and haystack")
    p = commands.add_parser("export", parents=[common])
    p.add_argument("--name", required=True)
    p.add_argument("--out", required=True)
    args = parser.parse_args()
    if args.command == "small" and not args.name:
        args.name = args.encoding or f"layers-{args.layers}"
    torch.set_num_threads(1 if args.command in STAGES else os.cpu_count())
    if args.command in STAGES:
        train(args)
    else:
        {"tokenizer": make_tokenizer, "import": import_folder, "eval": evaluate_checkpoint,
         "export": export}[args.command](args)


if __name__ == "__main__":
    main()
