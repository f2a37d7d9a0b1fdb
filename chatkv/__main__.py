"""``python -m chatkv``: the ``chatkv`` command of this interpreter, where no script of it is on the path."""

import os
import sys

# ``-m`` puts the current folder first on the path: a ``random.py`` there would be imported in place of
# Python's. Not needed where chatkv itself lies there.
if not sys.flags.safe_path and sys.path[0] == os.getcwd() != os.path.dirname(os.path.dirname(__file__)):
    del sys.path[0]

from chatkv.cli import main

if __name__ == "__main__":
    main()
