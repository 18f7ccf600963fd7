"""How Hugging Face's transformers reads configs. The class of the model_type is read from a file, as from_pretrained
does, and its text model is made on the device meta, which has no numbers. Then each rotary class in it is made again on
the CPU from the same config, and called at all positions of the text: dynamic and longrope go by its length."""

import inspect
import re
import warnings

import recipe
import torch
import transformers

warnings.simplefilter('ignore')
transformers.logging.set_verbosity_error()
transformers.activations.ACT2CLS['xielu'] = torch.nn.Identity  # whose parameters cannot be made without numbers


def turned(rotary, length, kind=''):
    """[inverse frequencies, a] in force after a text of a length."""
    x, positions = torch.zeros(1, 1, 1), torch.arange(length)[None]
    try:
        rotary(x, positions, **({'layer_type': kind} if kind else {}))
    except TypeError:
        rotary(x, positions)
    except IndexError:  # Qwen2-VL's asks for positions on three axes
        rotary(x, positions.expand(3, 1, -1))
    before = kind + '_' if kind else ''
    return [getattr(rotary, before + 'inv_freq').double().tolist(),
            float(getattr(rotary, before + 'attention_scaling'))]


def by_kind(rotary, length):
    """{kind: a rotary class's values for it}; the empty name is of one RoPE for all."""
    kinds = [kind for kind in recipe.KINDS if hasattr(rotary, kind + '_inv_freq')]
    return {recipe.KINDS.get(kind, ''): turned(rotary, length, kind) for kind in kinds or ['']}


def read(case):
    with recipe.Folder(recipe.complete(case['config'], vocab_size=64)) as folder:
        whole = transformers.AutoConfig.from_pretrained(folder)
    text = whole.get_text_config()
    text = whole if isinstance(text, dict) else text  # a key of that name, which is no config
    models = transformers.MODEL_MAPPING
    make = models[type(text)] if type(text) in models else transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(text)]
    with torch.device('meta'):
        model = make(text)
    modules = [(name, one) for name, one in model.named_modules()
               if re.search('Rotary(Positional)?Embedding', type(one).__name__) and 'ision' not in type(one).__name__]
    found = {}
    for name, one in modules[:4]:
        takes_type = 'rope_type' in inspect.signature(type(one).__init__).parameters
        rotary = type(one)(config=one.config, **({'rope_type': one.rope_type} if takes_type else {}))
        is_local = 'local' in name or 'sliding' in name
        of_all = 'all' if len(modules) == 1 else 'sliding' if is_local else 'full'
        for kind, values in by_kind(rotary, case['length']).items():
            found[kind or of_all] = values
    return found or {'all': None}, None


if __name__ == '__main__':
    recipe.main('transformers ' + transformers.__version__, read)
