"""`python -m gpudoctor`."""

import os
import sys

# `-m` puts the working folder in front of the module search path: a file `random.py` there is not ours.
try:
    if sys.path[0] in ("", os.getcwd()):
        del sys.path[0]
except (OSError, IndexError):
    pass  # the working folder is gone

from gpudoctor.cli import main

sys.exit(main())
