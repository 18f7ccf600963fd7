"""How ExLlamaV2 reads configs: its ExLlamaV2Config reads config.json and looks for the tensors that the architecture
needs, and its device context makes the tables of cosines on the CPU. Its CUDA extension is an empty module. The names
of the tensors are those of transformers' own class, beside a config without RoPE; experts have a name each, as they are
published."""

import contextlib
import importlib.machinery
import importlib.metadata
import json
import os
import re
import sys
import types

import recipe
import torch
import transformers

import absent

transformers.logging.set_verbosity_error()
absent.make('exllamav2', left_out=('flash_attn', 'xformers'))
extension = absent.Empty('exllamav2_ext')
extension.__spec__ = importlib.machinery.ModuleSpec('exllamav2_ext', None)
sys.modules['exllamav2_ext'] = extension
with contextlib.redirect_stdout(sys.stderr):  # it warns that there is no CUDA
    import exllamav2.device as device
    from exllamav2.config import ExLlamaV2Config

device._torch_device = lambda index: 'cpu'
ROWS = 4096  # of the tables of cosines, which are not looked at
MORE = dict(vocab_size=64, layer_norm_eps=1e-5, layer_norm_epsilon=1e-5)
EXPERTS = 'num_local_experts', 'num_experts', 'n_routed_experts'
OF_ROPE = 'rope_scaling', 'rope_parameters', 'rope_theta', 'partial_rotary_factor', 'max_position_embeddings'
# Model types that transformers reads by another's class, and those of which it renames the experts.
ALIKE = {'kimi_k2': 'deepseek_v3'}
RENAMED = {'mixtral': ('w1', 'w3', 'w2'), 'minimax': ('w1', 'w3', 'w2'), 'minimax_m2': ('w1', 'w3', 'w2')}
own_arange, own_params = torch.arange, device.rope.get_rope_params
taken, names = [], {}


def published(name, model_type, n_experts):
    """The names of a tensor of all experts, one of each; other names as they are."""
    parts = RENAMED.get(model_type, ('gate_proj', 'up_proj', 'down_proj'))
    if model_type in RENAMED:
        name = name.replace('.mlp.', '.block_sparse_moe.')
    found = re.fullmatch(r'(.*\.experts)\.(gate_up_proj|down_proj)', name)
    of_all = () if not found else parts[:2] if found.group(2) == 'gate_up_proj' else parts[2:]
    return ['%s.%d.%s.weight' % (found.group(1), i, part) for i in range(n_experts) for part in of_all] or [name]


def tensors_of(config):
    """Names of tensors, of a text model by itself. What transformers does not take of its sizes is left out."""
    text = {key: value for key, value in config.items() if key not in OF_ROPE}
    text['model_type'] = ALIKE.get(text.get('model_type'), text.get('model_type'))
    key = json.dumps(text, sort_keys=True)
    if key not in names:
        try:
            names[key] = named_by_class(text)
        except Exception:
            names[key] = named_by_class({'model_type': text['model_type'], 'num_hidden_layers': text['num_hidden_layers']})
    return names[key]


def named_by_class(text):
    with recipe.Folder(text) as folder:
        known = transformers.AutoConfig.from_pretrained(folder)
    is_whole = type(known) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    make = (transformers.MODEL_FOR_CAUSAL_LM_MAPPING if is_whole else transformers.MODEL_MAPPING)[type(known)]
    with torch.device('meta'):
        own = [name if is_whole else 'model.' + name for name in make(known).state_dict()] + ['lm_head.weight']
    n_experts = next((getattr(known, key) for key in EXPERTS if getattr(known, key, None)), 0)
    return [one for name in own for one in published(name, known.model_type, n_experts)]


def fill(folder, tensors):
    header = json.dumps({name: {'dtype': 'F32', 'shape': [1], 'data_offsets': [0, 4]} for name in tensors}).encode()
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as file:
        file.write(len(header).to_bytes(8, 'little') + header + bytes(4))


def short_arange(*arguments, **named):
    """torch.arange, but positions from 0 on end early."""
    return own_arange(*((min(arguments[0], ROWS),) if len(arguments) == 1 else arguments), **named)


def get_rope_params(where, config, base):
    taken.append(own_params(where, config, base))
    return taken[-1]


device.rope.get_rope_params = get_rope_params


def prepared(config):
    """Its config, of a folder with config.json and the names of tensors."""
    content = recipe.complete(config, **MORE)
    name = content['architectures'][0]
    is_alone = name.endswith('ForCausalLM')
    prefix = '' if is_alone or name.startswith('Qwen2') else 'language_model.'
    text = content if is_alone else content.get('text_config', content)
    one = ExLlamaV2Config()
    with recipe.Folder(content) as folder:
        one.model_dir = folder
        fill(folder, [prefix + name for name in tensors_of(text)])
        try:
            one.prepare()
        except AssertionError as error:  # of pictures, long after RoPE was read
            if 'preprocessor_config.json' not in str(error):
                raise
    return one


def read(case):
    taken.clear()
    one = prepared(case['config'])
    if case.get('max_len'):
        one.max_seq_len = case['max_len']
    scales = [one.scale_pos_emb, one.scale_pos_emb_alt]
    context = types.SimpleNamespace(device_idx=0, archparams=one.arch.lm, model=types.SimpleNamespace(config=one))
    torch.arange = short_arange
    try:
        device.ExLlamaV2DeviceContext.prepare_sincos(context)
    finally:
        torch.arange = own_arange
    ropes = [[(frequencies.double() / (scale or 1.0)).tolist(), float(a)] for (frequencies, a), scale in zip(taken, scales)]
    return dict(zip(('full', 'sliding') if len(ropes) > 1 else ('all',), ropes)), one.max_seq_len


if __name__ == '__main__':
    recipe.main('exllamav2 ' + importlib.metadata.version('exllamav2'), read)
