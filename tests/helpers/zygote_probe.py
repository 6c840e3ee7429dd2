"""The probe as forked trainings find it: its modules loaded, and torch's functions compiled with places for hooks.

A process that has torch prepares both once; a child that is to be recorded takes them, and begins as any training
does: it puts the hooks in, opens its recording and starts its threads. A child that is not recorded has nothing of
ours. What a training does for itself otherwise, to load the probe's files and to compile 40 bodies of torch's, takes
0.15 s of CPU (test_injection.py and test_instrument.py show it).
"""

import functools
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType, ModuleType
from typing import Any

PROBE = str(Path(__file__).resolve().parents[2] / "gpudoctor" / "probe")
PACKAGE = "_gpudoctor_probe"
_taken: dict[str, ModuleType] = {}
"""The probe's modules, kept away from children that are not recorded."""


def prepare() -> None:
    """Load the probe and compile what it will put into torch; torch itself stays what it is."""
    boot: dict[str, Any] = {"__name__": "_gpudoctor_boot"}
    path = os.path.join(PROBE, "boot.py")
    with open(path, encoding="utf-8") as stream:
        exec(compile(stream.read(), path, "exec"), boot)
    boot["load"](PROBE)
    instrument = sys.modules[f"{PACKAGE}.instrument"]
    for module, name, file, line in _instrumented(boot, instrument):
        function = _function(module, name)
        code = getattr(function, "__code__", None)
        if code is not None and (code.co_filename, code.co_firstlineno) == (file, line):
            instrument._made[file, code] = instrument._with_places(function)
    instrument.forget_sources()
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        _taken[name] = sys.modules.pop(name)


def hand_over() -> None:
    """Give this child the probe, if it is to be recorded by the one that was prepared."""
    if os.path.realpath(os.environ.get("GPUDOCTOR_PROBE", "")) == PROBE:
        sys.modules.update(_taken)


def _function(module: str, name: str) -> FunctionType | None:
    try:
        found = functools.reduce(getattr, name.split("."), sys.modules[module])
    except (AttributeError, KeyError):
        return None
    found = getattr(found, "__func__", found)
    return found if isinstance(found, FunctionType) else None


def _instrumented(boot: dict[str, Any], instrument: Any) -> list[tuple[str, str, str, int]]:
    """Module, name, file and line of the functions that the probe instruments as it begins; a child finds out."""
    with TemporaryDirectory() as folder:
        told = Path(folder, "told.json")
        pid = os.fork()
        if pid == 0:
            try:
                _begin_and_tell(boot, instrument, folder, told)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        return json.loads(told.read_text(encoding="utf-8"))


def _begin_and_tell(boot: dict[str, Any], instrument: Any, folder: str, told: Path) -> None:
    found: list[tuple[str, str, str, int]] = []
    original = instrument._with_places

    def with_places(function: FunctionType) -> Any:
        made = original(function)
        code = function.__code__
        found.append((function.__module__, function.__qualname__, code.co_filename, code.co_firstlineno))
        return made

    instrument._with_places = with_places
    os.environ.update(GPUDOCTOR_RECORDING=folder, GPUDOCTOR_PARENT=str(os.getppid()))
    boot["Waiting"](PROBE).imported("torch")
    told.write_text(json.dumps(found), encoding="utf-8")
