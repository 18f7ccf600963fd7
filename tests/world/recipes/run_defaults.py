"""What Hugging Face's transformers makes of the default config of each class: that config, and what run_transformers
reads from it. A case is {name}, a model_type; `found` has the config besides."""

import recipe
from run_transformers import read, transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING


def read_default(case):
    if case['name'] not in CONFIG_MAPPING:
        return None, None
    config = CONFIG_MAPPING[case['name']]().to_dict()
    layers, _ = read({'config': config, 'length': case['length']})
    return {'config': config, 'layers': layers}, None


if __name__ == '__main__':
    recipe.main('transformers ' + transformers.__version__, read_default)
