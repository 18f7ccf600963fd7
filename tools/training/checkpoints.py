"""Checkpoints of train.py, written as folders that model_export.py reads, and read from such."""
import json
import os
import shutil
import struct
from pathlib import Path

import numpy as np
import torch

from llama import Llama
from position_encodings import FULL, SHAPE
from recipe import BOS, CONFIG, EOS

OF_DELTA = {"qkv.weight": "in_proj_qkv.weight", "gate.weight": "in_proj_z.weight", "beta.weight": "in_proj_b.weight",
            "step.weight": "in_proj_a.weight", "conv": "conv1d.weight", "decay": "A_log", "dt": "dt_bias",
            "norm": "norm.weight", "out.weight": "out_proj.weight"}


def save(path, value):
    """Writes a checkpoint so that a crash in the middle leaves the old one whole."""
    torch.save(value, f"{path}.tmp")
    os.replace(f"{path}.tmp", path)


def check_folder(out):
    """Ends the program unless a folder is new, or holds an older export and nothing else."""
    own = {"config.json", "pytorch_model.bin", "tokenizer.model"}
    others = sorted({path.name for path in out.iterdir()} - own) if out.is_dir() else []
    if others:
        raise SystemExit(f"{out}: holds {others[0]}, which is not of an export (expected a new folder)")


def export(args):
    """Writes a checkpoint as a folder that model_export.py reads, float32: of a Llama as in Hugging Face."""
    work, out = Path(args.work), Path(args.out)
    check_folder(out)
    saved = torch.load(work / f"{args.name}.pt")
    write_folder(saved["config"], saved["model"], out)
    shutil.copyfile(work / "tokenizer.model", out / "tokenizer.model")
    print(f"{out}: step {saved['state']['step']}, {saved['state']['tokens'] / 1e6:.1f}M tokens")


def attention_tensors(config, weights, a):
    """{name in a folder: tensor} of attention in the layer whose weights begin with `a`."""
    q, kv = config["num_attention_heads"] * config["head_dim"], config["num_key_value_heads"] * config["head_dim"]
    parts = dict(zip("qkv", weights[a + "qkv.weight"].split([q, kv, kv])))
    tensors = {"self_attn.o_proj.weight": weights[a + "o.weight"]}
    if a + "gate.weight" in weights:  # whose rows follow the queries of each head
        both = [t.view(config["num_attention_heads"], -1, config["hidden_size"])
                for t in (parts["q"], weights[a + "gate.weight"])]
        parts["q"] = torch.cat(both, 1).flatten(0, 1)
        for name in "qk":
            tensors[f"self_attn.{name}_norm.weight"] = weights[f"{a}{name}_norm.weight"] - 1
    tensors.update({f"self_attn.{name}_proj.weight": part for name, part in parts.items()})
    for name in ("relative_keys", "relative_values", "r.weight", "u", "v"):
        if f"{a}attention.{name}" in weights:
            tensors["self_attn." + name.replace("r.", "r_proj.")] = weights[f"{a}attention.{name}"]
    return tensors


def write_folder(config, weights, out):
    lacking = int(config.get("encoding") == "states")  # of norms of the family, whose files hold w - 1
    tensors = {"model.embed_tokens.weight": weights["embed.weight"],
               "model.norm.weight": weights["norm.weight"] - lacking}
    for i in range(config["num_hidden_layers"]):
        a, b = f"layers.{i}.", f"model.layers.{i}."
        tensors[b + "input_layernorm.weight"] = weights[a + "input_norm.weight"] - lacking
        tensors[b + "post_attention_layernorm.weight"] = weights[a + "post_norm.weight"] - lacking
        for name, part in zip(("gate", "up"), weights[a + "gate_up.weight"].chunk(2)):
            tensors[b + f"mlp.{name}_proj.weight"] = part
        tensors[b + "mlp.down_proj.weight"] = weights[a + "down.weight"]
        if a + "qkv.weight" in weights:
            tensors.update({b + name: t for name, t in attention_tensors(config, weights, a).items()})
        else:
            tensors.update({f"{b}linear_attn.{theirs}": weights[f"{a}delta.{ours}"]
                            for ours, theirs in OF_DELTA.items()})
    if "added.table" in weights:
        tensors["model.positions.weight"] = weights["added.table"]
    out.mkdir(parents=True, exist_ok=True)
    save(out / "pytorch_model.bin", {name: t.float().clone() for name, t in tensors.items()})
    full = dict(architectures=["LlamaForCausalLM"], model_type="llama", **config, hidden_act="silu",
                tie_word_embeddings=True, attention_bias=False, mlp_bias=False, attention_dropout=0.0,
                bos_token_id=BOS, eos_token_id=EOS, initializer_range=0.02, torch_dtype="float32", use_cache=True)
    full.setdefault("rope_scaling", None)
    if config.get("encoding", "rope") not in ("rope", "states"):
        full.update(architectures=["SmallForCausalLM"], model_type="rope.c", position_encoding=config["encoding"])
    if "sliding_window" in config:
        turns = [int(bool(config["rope_parameters"][kind])) for kind in config["layer_types"]]
        full.update(position_encoding="rope", no_rope_layers=turns)
        del full["rope_scaling"]
    if config.get("encoding") == "states":
        full.update(qwen_config(config))
    (out / "config.json.tmp").write_text(json.dumps(full, indent=2) + "\n")
    os.replace(out / "config.json.tmp", out / "config.json")


def qwen_config(config):
    """The keys of config.json of a model with states, besides those of all models: a class of Hugging Face's reads it,
    unless no layer rotates."""
    block = config["rope_parameters"][FULL]
    own = dict(rope_parameters=dict(block, partial_rotary_factor=1.0)) if block else dict(
        rope_parameters=None, position_encoding="none")
    return dict(architectures=["Qwen3_5ForCausalLM"], model_type="qwen3_5_text", partial_rotary_factor=1.0, **own)


def read_safetensors(path):
    """{name: tensor} of a file of float16 or float32 as float32."""
    data = path.read_bytes()
    begin = 8 + struct.unpack_from("<Q", data)[0]
    found = {}
    for name, entry in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            first, end = entry["data_offsets"]
            values = np.frombuffer(data[begin + first:begin + end], {"F16": "<f2", "F32": "<f4"}[entry["dtype"]])
            found[name] = torch.tensor(values.astype(np.float32)).view(entry["shape"])
    return found


def import_folder(args):
    """Makes a checkpoint of a folder that model_export.py wrote of a model whose layers are all full and turn:
    models/rope.bin, or model.bin."""
    tensors = read_safetensors(Path(args.folder) / "model.safetensors")
    wide = tensors["model.norm.weight"].shape[0] == CONFIG["hidden_size"]
    config = dict(CONFIG) if wide else dict(SHAPE, encoding="rope")
    weights = {"embed.weight": tensors["model.embed_tokens.weight"], "norm.weight": tensors["model.norm.weight"]}
    for i in range(config["num_hidden_layers"]):
        a, b = f"layers.{i}.", f"model.layers.{i}."
        weights[a + "input_norm.weight"] = tensors[b + "input_layernorm.weight"]
        weights[a + "post_norm.weight"] = tensors[b + "post_attention_layernorm.weight"]
        weights[a + "qkv.weight"] = torch.cat([tensors[b + f"self_attn.{name}_proj.weight"] for name in "qkv"])
        weights[a + "o.weight"] = tensors[b + "self_attn.o_proj.weight"]
        weights[a + "gate_up.weight"] = torch.cat([tensors[b + f"mlp.{name}_proj.weight"] for name in ("gate", "up")])
        weights[a + "down.weight"] = tensors[b + "mlp.down_proj.weight"]
    Llama(config).load_state_dict(weights)  # which refuses other names and shapes
    save(Path(args.work) / f"{args.name}.pt", dict(model=weights, state=dict(step=0, tokens=0), config=config))
