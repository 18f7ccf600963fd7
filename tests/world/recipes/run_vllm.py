"""How vLLM reads configs, without a GPU and without most of its dependencies. Its own ModelConfig reads config.json:
transformers' class, vLLM's patches, max_model_len. Its platform is the CPU's."""

import importlib.metadata
import os
import tempfile

import recipe

os.environ.update(VLLM_LOGGING_LEVEL='ERROR', VLLM_TARGET_DEVICE='cpu', VLLM_NO_USAGE_STATS='1',
                  VLLM_DISABLE_COMPILE_CACHE='1')
import torch  # noqa: E402
import transformers  # noqa: E402
import transformers.modeling_rope_utils  # noqa: E402, F401: before anything is empty

import absent  # noqa: E402
import served  # noqa: E402

# On a processor with AMX vLLM 0.24 turns prefix caching off for linear attention, and then stops. What is asked for is
# the same everywhere.
torch.cpu._is_amx_tile_supported = lambda: False
absent.make('vllm', left_out=('triton', 'flashinfer', 'flash_attn', 'aiter', 'deep_gemm', 'deep_ep', 'amdsmi',
                              'pynvml', 'torchvision', 'torchaudio'))
transformers.utils.is_torchvision_available()  # no; it is remembered, for readers of pictures import it
absent.make(None, 'torchvision')
import vllm.platforms  # noqa: E402
from vllm.platforms.cpu import CpuPlatform  # noqa: E402

vllm.platforms._current_platform = CpuPlatform()
import vllm.model_executor.layers.attention as attention  # noqa: E402
import vllm.model_executor.layers.fused_moe as fused_moe  # noqa: E402
import vllm.model_executor.layers.rotary_embedding as rotary  # noqa: E402
import vllm.model_executor.models.registry as registry  # noqa: E402
from vllm.config import ModelConfig, VllmConfig, set_current_vllm_config  # noqa: E402
from vllm.distributed import init_distributed_environment, initialize_model_parallel  # noqa: E402

registry._run_in_subprocess = lambda function: function()  # a new process would have no empty modules
for name, one in list(vars(attention).items()):
    if name.endswith('Attention') and isinstance(one, type):
        setattr(attention, name, type(name, (served.Empty,), {}))  # separate classes: some are compared
for name in 'FusedMoE', 'SharedFusedMoE':
    if hasattr(fused_moe, name):
        setattr(fused_moe, name, served.Empty)
rotary.get_rope = served.wrap(rotary.get_rope)
group = []


MIXTURE = {'architectures': ['MixtralForCausalLM'], 'model_type': 'mixtral', 'num_attention_heads': 4, 'head_dim': 32,
           'num_local_experts': 2, 'num_experts_per_tok': 1, 'max_position_embeddings': 2048, 'torch_dtype': 'float32'}


def start():
    """One process is the whole group. A group of experts is made only for a mixture, so the first config is one."""
    if group:
        return
    with recipe.Folder(recipe.complete(MIXTURE)) as folder:
        config = ModelConfig(model=folder, tokenizer=folder, skip_tokenizer_init=True, dtype='float32')
        whole = VllmConfig(model_config=config)
    with set_current_vllm_config(whole):
        with tempfile.NamedTemporaryFile(delete=False) as meeting:
            init_distributed_environment(1, 0, 'file://' + meeting.name, 0, backend='gloo')
        initialize_model_parallel(1, 1)
    group.append(True)


def row_of(rope):
    if hasattr(rope, 'long_short_cos_sin_cache'):
        first = min(rope.original_max_position_embeddings, served.ROWS) if rope.use_long_rope else 0
        return rope.long_short_cos_sin_cache[first + 1]
    return rope.cos_sin_cache[1]


def read(case):
    served.taken.clear()
    rotary._ROPE_DICT.clear()
    content = recipe.complete(case['config'])
    if content.get('architectures', [''])[0] not in registry.ModelRegistry.get_supported_archs():
        content = recipe.published(content)
    content.get('text_config', content)['torch_dtype'] = 'float32'
    if content.get('model_type') == 'lfm2':  # as it is published
        content.setdefault('conv_dim', content['hidden_size'])
    model = error = None
    with recipe.Folder(content) as folder:
        config = ModelConfig(model=folder, tokenizer=folder, skip_tokenizer_init=True, dtype='float32',
                             max_model_len=case.get('max_len'))
        whole = VllmConfig(model_config=config)
        start()
        with set_current_vllm_config(whole):
            from vllm.model_executor.model_loader.utils import get_model_architecture
            try:
                make, _ = get_model_architecture(config)
                with torch.device('meta'):
                    model = make(vllm_config=whole, prefix='')
            except Exception as one:
                error = one
    kinds = getattr(config.hf_text_config, 'layer_types', None)
    return served.found(model, error, kinds, row_of), config.max_model_len


if __name__ == '__main__':
    recipe.main('vllm %s on transformers %s' % (importlib.metadata.version('vllm'), transformers.__version__), read)
