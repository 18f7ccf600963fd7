"""PyTorch's .bin, .pt and .pth: a zip with one pickle, which describes the tensors, and their raw bytes.

A pickle is a program for a stack machine, and Python's own machine lets it import and call anything at all. So it
runs here on a machine that offers only dictionaries, lists, tuples, texts, numbers and tensors: imports are looked
up in a list of names, and other names are refused. pickle.Unpickler with our own find_class would also stop imports,
but not a memo index that makes it allocate gigabytes, a key whose hash takes years, or attributes set on the objects
that it may find.
"""

from __future__ import annotations

import struct
from math import prod
from typing import Dict, NamedTuple, Tuple

from .common import TEXT_LIMIT, Job, Problem, size_of
from .tensors import ITEM_SIZES, Tensor, Tensors

STORAGES = {'torch.FloatStorage': 'F32', 'torch.HalfStorage': 'F16', 'torch.BFloat16Storage': 'BF16'}
FUNCTIONS = ('collections.OrderedDict', 'torch._utils._rebuild_tensor_v2', 'torch._utils._rebuild_parameter')
PICKLE_LIMIT = 2 << 20  # bytes: several times the size in the largest release
LEGACY = b'\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.'  # the magic number that came first until PyTorch 1.6


class Name(NamedTuple):
    """Represents an imported object: its name, one of STORAGES or FUNCTIONS."""
    name: str


class Storage(NamedTuple):
    """The bytes of one or several tensors: data/KEY in the zip."""
    dtype: str
    key: str
    length: int


class View(NamedTuple):
    """A tensor in its storage."""
    storage: Storage
    first: int
    shape: tuple


def read_torch(job: Job, path: str) -> Tensors:
    """A file's tensors by name, every length and offset checked against its size."""
    entries = read_zip(job, path)
    pickles = [name for name in entries if name.endswith('/data.pkl') and name.count('/') == 1]
    if len(pickles) != 1:
        raise Problem(path, 'is not a file of torch.save (found %d entries NAME/data.pkl, expected 1)' % len(pickles))
    folder = pickles[0][:-len('data.pkl')]
    if folder + 'byteorder' in entries and read_entry(path, *entries[folder + 'byteorder'], 16) != b'little':
        raise Problem(path, 'byteorder cannot be used (expected little)')
    views = Machine(path, read_entry(path, *entries[pickles[0]], PICKLE_LIMIT)).run()
    if type(views) is not dict:
        raise Problem(path, 'does not hold tensors by name (found a %s, expected a dictionary)' % type(views).__name__)
    tensors = {}
    for name, view in views.items():
        if type(view) is not View or type(name) is not str:
            raise Problem(path, '%.80r is not a tensor (found a %s)' % (name, type(view).__name__))
        item, (start, size) = ITEM_SIZES[view.storage.dtype], entries.get(folder + 'data/' + view.storage.key, (0, -1))
        if size != view.storage.length * item:
            raise Problem(path, '%s: storage %.40r does not fit (found %d bytes, expected %d)'
                          % (name, view.storage.key, size, view.storage.length * item))
        if view.first + prod(view.shape) > view.storage.length:
            raise Problem(path, '%s reaches beyond its storage (found elements up to %d, expected at most %d)'
                          % (name, view.first + prod(view.shape), view.storage.length))
        tensors[name] = Tensor(name, path, start + view.first * item, prod(view.shape) * item, view.storage.dtype,
                               view.shape)
    return tensors


# ---- the pickle ----

class Machine:
    """Runs a pickle, of any protocol that torch.save can write. `stack` and `marks` are the pickle machine's own;
    `steps` has a method for each opcode that descriptions of tensors use."""

    def __init__(self, path, data):
        self.path, self.data, self.at = path, data, 0
        self.stack, self.marks, self.memo = [], [], {}

    def run(self):
        try:
            while True:
                code = self.take(1)
                if code == b'.':
                    return self.stack.pop()
                if code not in self.steps:
                    raise Problem(self.path, 'uses the pickle opcode %r, which no tensor needs' % code)
                self.steps[code](self)
        except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
            raise Problem(self.path, 'is damaged at byte %d of its data.pkl (%s)' % (self.at, type(error).__name__))

    def take(self, count):
        if count > len(self.data) - self.at:
            raise IndexError
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self, form):
        return self.take(self.number(form)).decode('utf-8')

    def line(self):
        end = self.data.index(b'\n', self.at)
        return self.take(end - self.at + 1)[:-1].decode('utf-8')

    def push(self, value):
        self.stack.append(value)

    def pop(self, kind):
        """The top of the stack, which must be of this very type."""
        value = self.stack.pop()
        if type(value) is not kind:
            raise TypeError
        return value

    def to_mark(self):
        at = self.marks.pop()
        values = self.stack[at:]
        del self.stack[at:]
        return values

    def tuple_of(self, count):
        if count > len(self.stack):
            raise IndexError
        self.stack[len(self.stack) - count:] = [tuple(self.stack[len(self.stack) - count:])]

    def append(self, values):
        if type(self.stack[-1]) is not list:
            raise TypeError
        self.stack[-1].extend(values)

    def set_items(self, values):
        if type(self.stack[-1]) is not dict or len(values) % 2:
            raise TypeError
        for key, value in zip(values[0::2], values[1::2]):
            if type(key) is not str and type(key) is not int:  # a tuple of tuples of ... would be hashed forever
                raise TypeError
            self.stack[-1][key] = value

    def find(self, module, name):
        name = '%s.%s' % (module, name)
        if name not in STORAGES and name not in FUNCTIONS:
            raise Problem(self.path, 'wants to import %.80s, which is refused (expected only tensors of float32, '
                                     'float16 or bfloat16)' % name)
        self.push(Name(name))

    def persistent(self):
        """A storage, which is outside the pickle: ('storage', its type, its key, its former device, its length)."""
        tag, kind, key, _, count = self.pop(tuple)
        if tag != 'storage' or type(kind) is not Name or kind.name not in STORAGES or type(key) is not str:
            raise TypeError
        self.push(Storage(STORAGES[kind.name], key, *whole_numbers(count)))

    def call(self):
        values, function = self.pop(tuple), self.pop(Name).name
        if function == 'collections.OrderedDict' and not values:
            self.push({})
        elif function == 'torch._utils._rebuild_tensor_v2':
            self.push(self.rebuild(*values))
        elif function == 'torch._utils._rebuild_parameter' and type(values[0]) is View:
            self.push(values[0])
        else:
            raise Problem(self.path, 'calls %s in a way that torch.save does not' % function)

    def rebuild(self, storage, first, shape, strides, *_):  # then requires_grad and hooks, which do not matter here
        if type(storage) is not Storage or type(shape) is not tuple or type(strides) is not tuple:
            raise TypeError
        shape, strides = whole_numbers(*shape), whole_numbers(*strides)
        if len(shape) > 8 or len(shape) != len(strides):
            raise TypeError
        expected = [prod(shape[i + 1:]) for i in range(len(shape))]
        if any(a != b and count > 1 for a, b, count in zip(strides, expected, shape)):
            raise Problem(self.path, 'has a tensor that does not lie row by row (found shape %s with strides %s, '
                          'expected strides %s; .contiguous() before torch.save)'
                          % (list(shape), list(strides), expected))
        return View(storage, *whole_numbers(first), shape)

    def ignore_state(self):
        """The attributes of a dictionary: state_dict() has its _metadata there."""
        self.stack.pop()
        if type(self.stack[-1]) is not dict:
            raise TypeError

    def memoize(self, index):
        self.memo[index] = self.stack[-1]

    steps = {
        b'\x80': lambda m: m.take(1), b'\x95': lambda m: m.take(8),                             # PROTO FRAME
        b'N': lambda m: m.push(None), b'\x88': lambda m: m.push(True), b'\x89': lambda m: m.push(False),
        b'K': lambda m: m.push(m.number('<B')), b'M': lambda m: m.push(m.number('<H')),         # BININT1 BININT2
        b'J': lambda m: m.push(m.number('<i')), b'G': lambda m: m.push(m.number('>d')),         # BININT BINFLOAT
        b'\x8a': lambda m: m.push(int.from_bytes(m.take(m.number('<B')), 'little', signed=True)),  # LONG1
        b'X': lambda m: m.push(m.text('<I')), b'\x8c': lambda m: m.push(m.text('<B')),          # [SHORT_]BINUNICODE
        b'}': lambda m: m.push({}), b']': lambda m: m.push([]), b')': lambda m: m.push(()),     # EMPTY_...
        b'(': lambda m: m.marks.append(len(m.stack)), b't': lambda m: m.push(tuple(m.to_mark())),  # MARK TUPLE
        b'\x85': lambda m: m.tuple_of(1), b'\x86': lambda m: m.tuple_of(2), b'\x87': lambda m: m.tuple_of(3),
        b'a': lambda m: m.append([m.stack.pop()]), b'e': lambda m: m.append(m.to_mark()),       # APPEND[S]
        b's': lambda m: m.set_items([m.stack.pop(), m.stack.pop()][::-1]), b'u': lambda m: m.set_items(m.to_mark()),
        b'q': lambda m: m.memoize(m.number('<B')), b'r': lambda m: m.memoize(m.number('<I')),   # [LONG_]BINPUT
        b'\x94': lambda m: m.memoize(len(m.memo)),                                              # MEMOIZE
        b'h': lambda m: m.push(m.memo[m.number('<B')]), b'j': lambda m: m.push(m.memo[m.number('<I')]),
        b'c': lambda m: m.find(m.line(), m.line()),                                             # GLOBAL
        b'\x93': lambda m: m.find(*[m.pop(str), m.pop(str)][::-1]),                             # STACK_GLOBAL
        b'Q': persistent, b'R': call, b'b': ignore_state}                                       # BINPERSID REDUCE BUILD


def whole_numbers(*values):
    if not all(type(value) is int and 0 <= value < 2 ** 63 for value in values):
        raise TypeError
    return values


# ---- the zip ----

def read_zip(job: Job, path: str) -> Dict[str, Tuple[int, int]]:
    """The places of a zip's entries, {name: (start, size)}, from its directory, which is at the end. No entry is
    unpacked: torch.save does not compress, so compressed entries are refused."""
    total = size_of(job, path)
    with open(path, 'rb') as file:
        start = file.read(len(LEGACY))
        if start == LEGACY:
            raise Problem(path, 'is in the format of PyTorch before 1.6 (expected a zip: torch.load and torch.save it '
                          'with a newer one)')
        if start[:4] != b'PK\3\4':
            raise Problem(path, 'is not a file of torch.save (found no zip archive)')

        def part(at, form):
            """The fields at a place in the file."""
            form = struct.Struct('<' + form)
            file.seek(max(0, at))
            data = file.read(form.size)
            if at < 0 or len(data) < form.size:
                raise Problem(path, 'is cut short or not a zip archive (found %d bytes)' % total)
            return form.unpack(data)

        file.seek(max(0, total - 22 - 65535))
        tail = file.read()
        end = total - len(tail) + tail.rfind(b'PK\5\6')
        if b'PK\5\6' not in tail:
            raise Problem(path, 'is cut short (found no directory at the end of the zip archive)')
        _, _, _, _, count, size, at, _ = part(end, '4s4H2IH')
        if count == 0xffff or size == 0xffffffff or at == 0xffffffff:  # the directory's place needs 64 bits
            mark, _, end, _ = part(end - 20, '4sIQI')
            mark64, _, _, _, _, _, _, count, size, at = part(end if mark == b'PK\6\7' else -1, '4sQ2H2I4Q')
            if mark64 != b'PK\6\6':
                raise Problem(path, 'is damaged (found no 64-bit directory in the zip archive)')
        if size > TEXT_LIMIT or at + size > end:
            raise Problem(path, 'has a bad zip directory (found %d bytes at %d)' % (size, at))
        file.seek(at)
        return {name: place(path, part, at, name, entry) for name, *entry in directory(path, file.read(size), count)}


def directory(path, data, count):
    """The directory's entries: name, flags, method, stored size, real size, where the entry is."""
    at, seen = 0, set()
    try:
        for _ in range(count):
            mark, _, _, flags, method, _, _, _, stored, size, n_name, n_extra, n_comment, _, _, _, offset = \
                struct.unpack_from('<4s6H3I5H2I', data, at)
            name = data[at + 46:at + 46 + n_name].decode('utf-8')
            extra = data[at + 46 + n_name:at + 46 + n_name + n_extra]
            if mark != b'PK\1\2' or name in seen:
                raise ValueError
            seen.add(name)
            at += 46 + n_name + n_extra + n_comment
            while len(extra) >= 4:  # a field of kind 1 has the numbers that are too large for 32 bits, in this order
                kind, length = struct.unpack_from('<2H', extra)
                if kind == 1:
                    wide = iter(struct.unpack_from('<%dQ' % (length // 8), extra, 4))
                    size, stored, offset = (next(wide) if n == 0xffffffff else n for n in (size, stored, offset))
                extra = extra[4 + length:]
            yield name, flags, method, stored, size, offset
    except (struct.error, ValueError, RuntimeError):  # RuntimeError: from a generator's StopIteration
        raise Problem(path, 'has a damaged zip directory (at byte %d of it)' % at)


def place(path, part, directory_at, name, entry):
    """The place of an entry's bytes: after its own header, whose name and extra field may have any length."""
    flags, method, stored, size, offset = entry
    mark, _, _, own_method, _, _, _, _, _, n_name, n_extra = part(offset, '4s5H3I2H')
    start = offset + 30 + n_name + n_extra
    if mark != b'PK\3\4' or start + size > directory_at:
        raise Problem(path, 'has a bad zip entry %.80r (found at %d, %d bytes)' % (name, offset, size))
    if method or own_method or flags & 1 or stored != size:
        raise Problem(path, 'has a compressed or encrypted zip entry %.80r (expected none, as from torch.save)' % name)
    return start, size


def read_entry(path, start, size, limit):
    if size > limit:
        raise Problem(path, 'has a zip entry that is too large (found %d bytes, expected at most %d)' % (size, limit))
    with open(path, 'rb') as file:
        file.seek(start)
        return file.read(size)
