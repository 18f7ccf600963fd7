"""What the commands are called, and where the program is. The probe asks the same."""

from __future__ import annotations

import os
import sys
from typing import Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def called(ending: str, script: str) -> Tuple[str, str, str]:
    """What this command is called, what the program is, and its place. Installed, the program lies beside the command
    and is called so but for that ending."""
    folder, name = os.path.split(sys.argv[0])
    if not name.endswith(ending):
        return script, './run', os.path.join(ROOT, 'run')
    program = name[:-len(ending)]
    return name, program, os.path.join(folder, program)
