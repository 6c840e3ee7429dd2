"""Runs a script inside `gpudoctor.record()`: what `run_overhead.py --inside` measures beside `gpudoctor run`.

python benchmarks/recorded_inside.py SCRIPT [ARGUMENTS]
"""

import runpy
import sys

import gpudoctor

sys.argv = sys.argv[1:]
with gpudoctor.record("recording", quiet=True):
    runpy.run_path(sys.argv[0], run_name="__main__")
