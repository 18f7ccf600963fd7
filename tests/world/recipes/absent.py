"""Empty modules for an engine's imports that are not installed, and do not concern RoPE.

Only imports by files of the one package are made, and never for importlib.util.find_spec: the engine's own question
whether there is a GPU's library is answered with no. A name from such a module is a class that can be inherited
from, called, subscripted and used as a decorator."""

import importlib.abc
import importlib.machinery
import sys
import types


class AnyClass(type):
    """The class of the names of an empty module: it has every attribute."""

    def __getattr__(cls, name):
        if name.startswith('__') or name.startswith('_ipython'):
            raise AttributeError(name)
        return any_class(name)

    def __getitem__(cls, item):
        return cls

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __iter__(cls):
        return iter(())


def is_decorated(arguments, named):
    return len(arguments) == 1 and not named and callable(arguments[0])


def any_class(name):
    def new(cls, *arguments, **named):
        if cls.__module__ == 'absent' and is_decorated(arguments, named):
            return arguments[0]
        return object.__new__(cls)

    def schema(cls, source, handler):
        from pydantic_core import core_schema
        return core_schema.any_schema()

    def attribute(self, attribute_name):
        if attribute_name.startswith('__'):
            raise AttributeError(attribute_name)
        return any_class(attribute_name)()

    def call(self, *arguments, **named):
        return arguments[0] if is_decorated(arguments, named) else self

    return AnyClass(name, (), {
        '__module__': 'absent', '__new__': new, '__init__': lambda self, *a, **k: None, '__call__': call,
        '__init_subclass__': classmethod(lambda cls, **k: None), '__getattr__': attribute,
        '__class_getitem__': classmethod(lambda cls, item: cls), '__get_pydantic_core_schema__': classmethod(schema),
        '__enter__': lambda self: self, '__exit__': lambda self, *a: None, '__iter__': lambda self: iter(()),
        '__bool__': lambda self: False})


class Empty(types.ModuleType):
    def __getattr__(self, name):
        if name == '__version__':
            return '0.0.0'
        if name.startswith('__'):
            raise AttributeError(name)
        setattr(self, name, any_class(name))
        return getattr(self, name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes the modules `names` for whoever imports them, and others but for `left_out` when files of `package` (None: no
    package) import them."""

    def __init__(self, package, names, left_out):
        self.package, self.names, self.left_out = package, list(names), left_out

    def find_spec(self, name, path=None, target=None):
        top = name.split('.')[0]
        if top not in self.names:
            is_left = path is not None or top in self.left_out or self.package in (None, top)
            if is_left or not self.is_imported():
                return None
            self.names.append(top)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def is_imported(self):
        """Whether a file of the package asks, by an import."""
        frame = sys._getframe(2)
        while frame and 'importlib' in frame.f_code.co_filename:
            if frame.f_code.co_filename.endswith('util.py'):
                return False
            frame = frame.f_back
        return bool(frame) and frame.f_globals.get('__name__', '').split('.')[0] == self.package

    def create_module(self, spec):
        module = Empty(spec.name)
        module.__path__, module.__file__ = [], '<absent>'
        return module

    def exec_module(self, module):
        pass


def make(package, *names, left_out=()):
    sys.meta_path.append(Finder(package, names, left_out))
