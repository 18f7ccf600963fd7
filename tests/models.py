"""Random models by name: tests/models.json. A row is [name, bases, fields, further settings]: its header has the fields
of its bases, by their names, and its own over them. A group's rows share their settings: `seed` of the weights and
`ids` of the text (a number; `number`, the row's; `letters`, of its name), `n` tokens, one length or several; a row
may have another, and a `tolerance`, `options` of the program and the `reference`'s for the same."""

import functools
import json
import os

from common import config, in_work, random_ids, random_weights, write_model

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'models.json')


@functools.lru_cache(None)
def table():
    with open(PLACE, encoding='utf-8') as file:
        return json.load(file)


class Row:
    """One model, and its settings."""

    def __init__(self, group, number, name, bases, fields, asked):
        self.name, self.fields, self.asked = name, {}, dict(group, **asked)
        for base in bases.split():
            self.fields.update(table()['bases'][base])
        self.fields.update(fields)
        seeds = {'number': number, 'letters': len(name)}
        self.seed = seeds.get(self.asked['seed'], self.asked['seed'])
        self.ids_seed = self.seed if self.asked['ids'] == 'seed' else self.asked['ids']
        n = self.asked['n']
        self.lengths = n if isinstance(n, list) else [n]

    def config(self, **changes):
        return config(**dict(self.fields, **changes))

    def made(self, **changes):
        """The path of the model, its fields, and its weights as in the file."""
        c = self.config(**changes)
        weights = random_weights(c, self.seed)
        for name in weights:
            if name.startswith('scale.'):  # of a layer: near 1, as in published models
                weights[name][0] = 1 + weights[name][0] / 4
        path = in_work(''.join(x if x.isalnum() else '_%x' % ord(x) for x in self.name) + '.bin')
        return path, c, write_model(path, c, weights)

    def ids(self, n):
        return random_ids(n, self.fields.get('vocab_size', 50), self.ids_seed)


def rows(test):
    """The rows of a group, in their order."""
    group = next(group for group in table()['groups'] if group['test'] == test)
    shared = {key: value for key, value in group.items() if key != 'rows'}
    return [Row(shared, number, *row, *[{}] * (4 - len(row))) for number, row in enumerate(group['rows'])]


def row_of(test, name):
    return next(row for row in rows(test) if row.name == name)
