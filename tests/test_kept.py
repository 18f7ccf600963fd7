#!/usr/bin/env python3
"""tests/reference.py, as it is now, gives the values of tests/kept: each file that asks runs once more, and
computes."""

import os
import subprocess
import sys

from common import ROOT, case, check, main, takes_long

FOLDER = os.path.join(ROOT, 'tests')


@takes_long
def test_kept():
    for name in sorted(os.listdir(os.path.join(FOLDER, 'kept'))):
        with case(name):
            done = subprocess.run([sys.executable, os.path.join(FOLDER, name.replace('.txt', '.py'))], cwd=ROOT,
                                  env=dict(os.environ, KEPT='compute', TESTS='short', TIMES=''),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
            check(done.returncode == 0, name + ' is what the reference gives', done.stdout[-280:])


if __name__ == '__main__':
    main(globals())
