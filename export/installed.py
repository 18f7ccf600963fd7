"""The names of the commands, and the place of the program. The probe uses it as well."""

from __future__ import annotations

import os
import sys
from typing import Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def called(ending: str, script: str) -> Tuple[str, str, str]:
    """The name of this command, the name of the program, and its place. If they are installed, the program is beside
    the command, and has its name without that ending."""
    folder, name = os.path.split(sys.argv[0])
    if not name.endswith(ending):
        return script, './run', os.path.join(ROOT, 'run')
    program = name[:-len(ending)]
    return name, program, os.path.join(folder, program)
