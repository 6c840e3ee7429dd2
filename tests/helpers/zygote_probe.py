"""The probe's modules as forked trainings find them: loaded already. A child that is not recorded has nothing of ours."""

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

PROBE = str(Path(__file__).resolve().parents[2] / "gpudoctor" / "probe")
PACKAGE = "_gpudoctor_probe"
_taken: dict[str, ModuleType] = {}
"""The probe's modules, kept away from children that are not recorded."""


def prepare() -> None:
    """Load the probe; torch itself stays what it is."""
    boot: dict[str, Any] = {"__name__": "_gpudoctor_boot"}
    path = os.path.join(PROBE, "boot.py")
    with open(path, encoding="utf-8") as stream:
        exec(compile(stream.read(), path, "exec"), boot)
    boot["load"](PROBE)
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        _taken[name] = sys.modules.pop(name)


def hand_over() -> None:
    """Give this child the probe, if it is to be recorded by the one that was prepared."""
    if os.path.realpath(os.environ.get("GPUDOCTOR_PROBE", "")) == PROBE:
        sys.modules.update(_taken)
