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
    from gpudoctor.probe.wire.masking import mask_text, mask_value
    from gpudoctor.vitals.job_log.reader import read_job_log

    registry = load_registry()
    for check in registry.checks.values():
        named(check)  # the English pages, which depend on the sources alone, and so does what follows
    for exit_code in (None, 1):
        read_job_log([__file__], registry.log_messages(), exit_code=exit_code)
    mask_text("--token=none https://a.invalid password: none")
    mask_value("A_TOKEN", "none")
    import gpudoctor_checks
    import gpudoctor_rules

    for rule in (rule for rules in registry.rules.values() for rule in rules):
        gpudoctor_rules._loaded(rule.home)
    ours = (gpudoctor, gpudoctor_checks, gpudoctor_rules)
    waiting = [found for package in ours for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]
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
