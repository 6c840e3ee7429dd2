"""Forks children that have gpudoctor loaded, each to run one command: a second a command is saved.

The command is the whole one of `python -m gpudoctor`, in a process, folder and environment of its own; only the
interpreter's start and the loading of modules are the parent's. Requests and answers are zygote.py's.
"""

import importlib
import pkgutil
import runpy
import sys

from zygote import Main, become, keep, serve
from zygote import load as load_more

_LEFT_OUT = tuple(f"gpudoctor.{name}." for name in ("probe", "ui.watch", "watch", "estimate.traced", "estimate.real"))
"""Packages that run elsewhere, or that load torch or textual, which few commands do."""


def load() -> None:
    """All of gpudoctor that most commands load a part of, the checks and rules, and what they load as they run."""
    import encodings.ascii
    import encodings.utf_8_sig  # noqa: F401

    import libcst  # noqa: F401
    import packaging.requirements
    import packaging.tags
    import packaging.utils  # noqa: F401
    import psutil  # noqa: F401

    import gpudoctor
    from gpudoctor.engine.manual import named
    from gpudoctor.engine.registry import load_registry
    from gpudoctor.probe.wire.masking import mask_text

    for check in load_registry().checks.values():
        named(check)  # the English pages, which depend on the sources alone, and so do the expressions for secrets
    mask_text("--token=none https://a.invalid password: none")
    waiting = [*pkgutil.iter_modules(gpudoctor.__path__, "gpudoctor.")]
    while waiting:
        found = waiting.pop()
        if not f"{found.name}.".startswith(_LEFT_OUT) and not found.name.endswith(".__main__"):
            module = importlib.import_module(found.name)
            waiting += pkgutil.iter_modules(module.__path__, f"{found.name}.") if found.ispkg else ()


if __name__ == "__main__":
    load()
    keep()
    asked = serve(load_more)
    if asked is not None:
        become(asked)
        sys.path[:1] = [asked["folder"], *asked["path"]]  # as `python -m` has it
        with Main():
            runpy.run_module("gpudoctor", run_name="__main__", alter_sys=True)
