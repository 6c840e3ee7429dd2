# mypy: ignore-errors
# ruff: noqa
"""Starts the probe of `gpudoctor run`, then the sitecustomize that would have been used without us.

Any Python must be able to read this file, 2.7 too: a launcher may start one.
"""

import os
import sys


def _start():
    folder = os.environ.get("GPUDOCTOR_PROBE")
    if not folder or not os.environ.get("GPUDOCTOR_RECORDING") or os.environ.get("GPUDOCTOR_DISABLE"):
        return
    if sys.version_info < (3, 9):
        return
    try:
        boot = os.path.join(folder, "boot.py")
        with open(boot, "rb") as stream:
            code = compile(stream.read(), boot, "exec")
        names = {"__name__": "_gpudoctor_boot", "__file__": boot}
        exec(code, names)
        names["boot"](folder)
    except Exception:  # the user's program starts, come what may
        pass


def _hand_over():
    """Leave sys.path as the user's program would have it, and run its own sitecustomize if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.getcwd()) != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize
    except ImportError as error:
        if ours is not None:
            sys.modules["sitecustomize"] = ours
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise


_start()
_hand_over()
