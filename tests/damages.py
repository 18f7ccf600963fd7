"""Mistakes that converters make, and other damages, made in a copy of a model's weights."""

import array
import os

from common import ROOT, good, in_work, read_model, write_model


def floats_of_model(name, copy):
    """The fields and weights of a model that ships, and the path of the same model in float16."""
    path = in_work(copy)
    good(os.path.join(ROOT, name), '--quantize', 'f16', path)
    return (*read_model(path), path)


def layers_of(weights, names, layers=None):
    """The names of these tensors of a layer, of all layers or some."""
    return [name for name in weights if name.split('.')[0] in names and
            (layers is None or int(name.split('.')[1]) in layers)]


def moved(values, n_rows, place):
    """A matrix, or a vector, whose row number i is in row place(i)."""
    size, out = len(values) // n_rows, array.array('f', values)
    for i in range(n_rows):
        out[place(i) * size:(place(i) + 1) * size] = values[i * size:(i + 1) * size]
    return out


def as_pairs(head, turning):
    """Where a row of a head goes when its halves are taken for such, and become pairs."""
    def place(i):
        e = i % head
        if e >= turning:
            return i
        return i - e + (2 * e if e < turning // 2 else 2 * e - turning + 1)
    return place


def as_halves(head, turning):
    """The same the other way round."""
    back = {as_pairs(head, turning)(e): e for e in range(head)}
    return lambda i: i - i % head + back[i % head]


def pairs_damaged(c, weights, names, place, layers=None):
    """A copy in which rows of wq, of wk or of both are moved in each head."""
    out, counts = dict(weights), {'wq': c['n_heads'], 'wk': c['n_kv_heads']}
    for name in layers_of(weights, names, layers):
        out[name] = moved(weights[name], counts[name.split('.')[0]] * c['head_dim'], place)
    return out


def with_swapped_layers(weights, a, b):
    names = {name: name for name in weights}
    for name in layers_of(weights, {n.split('.')[0] for n in weights if '.' in n}, (a, b)):
        part, number = name.split('.')
        names[name] = '%s.%d' % (part, b if int(number) == a else a)
    return {name: weights[names[name]] for name in weights}


def with_norms(weights, change):
    return {name: array.array('f', map(change, values)) if 'norm' in name else values
            for name, values in weights.items()}


def scaled(weights, names, times, layers=None, rows=None):
    """A copy of which some rows of some matrices are multiplied; rows: (first, end, of all)."""
    out = dict(weights)
    for name in layers_of(weights, names, layers):
        first, end, of = rows or (0, 1, 1)
        size = len(weights[name]) // of
        out[name] = array.array('f', (v * (times if first <= i // size < end else 1)
                                      for i, v in enumerate(weights[name])))
    return out


def exchanged(weights, one, other):
    """A copy in which two tensors of each layer have changed places."""
    out = dict(weights)
    for name in layers_of(weights, (one,)):
        twin = name.replace(one + '.', other + '.')
        out[name], out[twin] = weights[twin], weights[name]
    return out


def write_damaged(name, c, weights):
    path = in_work(name)
    write_model(path, c, weights)
    return path
