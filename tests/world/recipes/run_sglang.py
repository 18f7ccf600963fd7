"""How SGLang reads configs, without a GPU and without most of its dependencies. Its own ModelConfig reads config.json:
transformers' class, SGLang's patches, context_len."""

import importlib.metadata
import inspect
import logging
import os
import sys
import tempfile
import warnings

import recipe

os.environ.update(SGLANG_USE_CPU_ENGINE='1')
import torch  # noqa: E402

torch.compile = lambda f=None, *a, **k: f if callable(f) else (lambda g: g)
import transformers  # noqa: E402
import transformers.modeling_rope_utils  # noqa: E402, F401: before anything is empty

import absent  # noqa: E402
import served  # noqa: E402

absent.make('sglang', 'triton', left_out=('torchcodec', 'flashinfer', 'flash_attn', 'aiter', 'deep_gemm', 'deep_ep',
                                          'amdsmi', 'pynvml'))
import triton.runtime  # noqa: E402

triton.runtime.driver = None  # there is no device
transformers.utils.is_torchvision_available()  # no; it is remembered, for readers of pictures import it
absent.make(None, 'torchvision')
warnings.simplefilter('ignore')
logging.disable(logging.CRITICAL)
for place in sys.path:  # it asks whether the folders of its CUDA sources are there
    if os.path.isdir(os.path.join(place, 'sglang', 'kernels', 'jit')):
        for name in 'include', 'csrc':
            os.makedirs(os.path.join(place, 'sglang', 'kernels', 'jit', name), exist_ok=True)
import sglang.srt.layers.radix_attention as radix  # noqa: E402
import sglang.srt.layers.rotary_embedding as rotary  # noqa: E402
import sglang.srt.server_args as server_args  # noqa: E402
from sglang.srt.arg_groups.arg_utils import Derived  # noqa: E402
from sglang.srt.arg_groups.fields.parallel import Parallel  # noqa: E402
from sglang.srt.configs.model_config import ModelConfig  # noqa: E402
from sglang.srt.distributed import init_distributed_environment, initialize_model_parallel  # noqa: E402
from sglang.srt.runtime_context import get_parallel  # noqa: E402

radix.RadixAttention = type('RadixAttention', (served.Empty,), {})
rotary.get_rope = served.wrap(rotary.get_rope)
if hasattr(rotary, 'get_rope_wrapper'):
    rotary.get_rope_wrapper = lambda *a, device=None, **k: rotary.get_rope(*a, **k)
group = []


def start(folder):
    """One process is the whole group, of rank 0 in everything."""
    if group:
        return
    server_args.set_global_server_args_for_scheduler(server_args.ServerArgs(
        model_path=folder, device='cpu', skip_tokenizer_init=True, attention_backend='triton',
        disable_cuda_graph=True, disable_overlap_schedule=True))
    with tempfile.NamedTemporaryFile(delete=False) as meeting:
        init_distributed_environment(1, 0, 'file://' + meeting.name, 0, backend='gloo')
    takes_size = 'tensor_model_parallel_size' in inspect.signature(initialize_model_parallel).parameters
    initialize_model_parallel(**({'tensor_model_parallel_size': 1} if takes_size else {}))
    for name, declared in vars(Parallel).items():
        if isinstance(declared, Derived) and not declared.fn and 'rank' in name:
            get_parallel().override_permanently(**{name: 0})
    group.append(True)


def row_of(length):
    def row(rope):
        if hasattr(rope, 'long_short_cos_sin_cache') or hasattr(rope, 'short_factor'):
            own = rope.original_max_position_embeddings
            first = min(own, served.ROWS) if length - 1 > own else 0  # by the positions of the text
            return rope.long_short_cos_sin_cache[first + 1]
        return rope.cos_sin_cache[1]
    return row


def read(case):
    served.taken.clear()
    for one in (rotary, sys.modules.get('sglang.srt.layers.rotary_embedding.factory')):
        if hasattr(one, '_ROPE_DICT'):
            one._ROPE_DICT.clear()
    content = recipe.published(recipe.complete(case['config']))
    content.get('text_config', content)['torch_dtype'] = 'float32'
    model = error = None
    with recipe.Folder(content) as folder:
        config = ModelConfig(model_path=folder, dtype='float32')
        start(folder)
        for key in 'linear_num_key_heads', 'linear_num_value_heads':  # which its server sets, where it runs on a CPU
            if hasattr(config.hf_text_config, key):
                setattr(config.hf_text_config, key + '_cpu', getattr(config.hf_text_config, key))
        try:
            from sglang.srt.models.registry import ModelRegistry
            make, _ = ModelRegistry.resolve_model_cls(config.hf_config.architectures)
            with torch.device('meta'):
                model = make(config=config.hf_config, quant_config=None)
        except Exception as one:
            error = one
    kinds = getattr(config.hf_text_config, 'layer_types', None)
    return served.found(model, error, kinds, row_of(case['length'])), config.context_len


if __name__ == '__main__':
    recipe.main('sglang %s on transformers %s' % (importlib.metadata.version('sglang'), transformers.__version__), read)
