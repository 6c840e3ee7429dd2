"""Forks children that have gpudoctor loaded, each to run one command: a second a command is saved.

The command is the whole one of `python -m gpudoctor`, in a process, folder and environment of its own; only the
interpreter's start and the loading of modules are the parent's. Requests and answers are zygote.py's.
"""

import runpy
import sys

from zygote import Main, become, serve


def load() -> None:
    """What most commands load."""
    import libcst  # noqa: F401

    import gpudoctor.cli.check
    import gpudoctor.cli.reporting
    import gpudoctor.engine.examination
    import gpudoctor.report
    import gpudoctor.vitals.build_patient  # noqa: F401
    from gpudoctor.engine.registry import load_registry

    load_registry()


if __name__ == "__main__":
    load()
    asked = serve()
    if asked is not None:
        become(asked)
        sys.path[0] = asked["folder"]  # as `python -m` has it
        with Main():
            runpy.run_module("gpudoctor", run_name="__main__", alter_sys=True)
