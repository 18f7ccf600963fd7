#!/usr/bin/env python3
"""Makes encodings/ and layers/: a tiny model of each way of knowing positions, and of each pattern of layers, that
tools/training/train.py can train, with random weights, and in nll.json PyTorch's nll of some ids. Needs PyTorch; the
tests need only the files.

    make_encodings.py
"""
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools" / "training"))

import torch  # noqa: E402

from llama import Llama  # noqa: E402
from position_encodings import ENCODINGS, PATTERNS  # noqa: E402
from train import write_folder  # noqa: E402

SHAPE = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=4, head_dim=6, rms_norm_eps=1e-5, rope_theta=10000.0, max_position_embeddings=24,
             clip_distance=9)


def make(configs, folder):
    """A tiny model of each config {name: config} under folder, and nll.json."""
    out = {}
    for number, (name, config) in enumerate(configs.items()):
        torch.manual_seed(number)
        model = Llama(config)
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.randn_like(p) * (0.5 if p.dim() == 1 else 2 / p.shape[-1] ** 0.5) + (p == 1))
        write_folder(model.config, model.state_dict(), folder / name)
        ids = torch.randint(3, 40, (24 if name == "learned" else 150,))
        ids[0] = 1
        with torch.no_grad():
            logits = model(ids[None, :-1])[0] @ model.embed.weight.t()
        nll = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
        out[name] = dict(ids=ids.tolist(), nll=[round(x, 6) for x in nll.tolist()])
    with open(folder / "nll.json", "w") as f:
        json.dump(out, f)
        f.write("\n")
    print(os.path.getsize(folder / "nll.json"), {name: max(v["nll"]) for name, v in out.items()})


def main():
    make({encoding: dict(SHAPE, encoding=encoding) for encoding in ENCODINGS[1:]}, HERE / "encodings")
    few = dict(SHAPE, num_hidden_layers=4, sliding_window=9)
    make({name: dict(config, **few, layer_types=config["layer_types"][:4]) for name, config in PATTERNS.items()},
         HERE / "layers")


if __name__ == "__main__":
    main()
