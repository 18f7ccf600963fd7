"""How Hugging Face's transformers reads the default config of each class: that config, and what run_transformers
reads from it. Where no model can be made of a default, the rotary class of its module is. A case is {name}, a
model_type; `found` has the config besides."""

import importlib
import inspect
import re

import recipe
from run_transformers import by_kind, read, transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING


def read_rotary(config, length):
    """{kind: values} of the one rotary class for texts that the config's module has."""
    text = config.get_text_config()
    module = importlib.import_module(type(text).__module__.replace('configuration_', 'modeling_'))
    own = [one for name, one in vars(module).items()
           if inspect.isclass(one) and one.__module__ == module.__name__ and re.search('Rotary(Positional)?Embedding$', name)
           and not re.search('Vision|Audio|Vit|DiT|Encoder', name)]
    rotary, = own
    return {kind or 'all': values for kind, values in by_kind(rotary(config=text), length).items()}


def read_default(case):
    if case['name'] not in CONFIG_MAPPING:
        return None, None
    config = CONFIG_MAPPING[case['name']]()
    values = config.to_dict()
    try:
        layers, _ = read({'config': values, 'length': case['length']})
    except Exception as error:
        try:
            layers = read_rotary(config, case['length'])
        except Exception:
            raise error
    return {'config': values, 'layers': layers}, None


if __name__ == '__main__':
    recipe.main('transformers ' + transformers.__version__, read_default)
