"""The exporter in a fork of the test's process: as good as a new one, and sooner, since Python need not start."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import traceback


def load(path):
    """model_export.py as a module, with all modules that it imports where a job begins: a fork has them already."""
    spec = importlib.util.spec_from_file_location('exporter', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    root = os.path.dirname(path)
    for folder, _, names in os.walk(os.path.join(root, 'export')):
        for name in sorted(names):
            if name.endswith('.py') and not name.startswith('__'):
                importlib.import_module(os.path.relpath(os.path.join(folder, name[:-3]), root).replace(os.sep, '.'))
    return module


def run_fork(module, arguments, cwd=None):
    """What the exporter does with its arguments, as subprocess.run would tell it."""
    with tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as err:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            status = 70
            try:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                os.chdir(cwd or '.')
                status = module.main(list(arguments))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        status = os.waitpid(child, 0)[1]
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, status >> 8 if status & 255 == 0 else -(status & 127), out.read(),
                                           err.read())
