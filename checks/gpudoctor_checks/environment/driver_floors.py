"""The table of driver floors, a data file with its sources."""

import json
from functools import cache
from importlib import resources

from gpudoctor.model.cuda import numbers


@cache
def _table() -> dict[str, dict[str, str]]:
    text = resources.files("gpudoctor_checks.environment").joinpath("driver_floors.json").read_text("utf-8")
    table = json.loads(text)
    return {"floors": table["floors"], "toolkits": table["toolkits"]}


def floor_of(cuda: str) -> str | None:
    """The oldest driver for a CUDA version; None for a major version that the table does not know.

    Before CUDA 11 there was no minor version compatibility: the toolkit's own driver is the floor.
    """
    version = numbers(cuda)
    if not version:
        return None
    if version[0] < 11:
        return _table()["toolkits"].get(".".join(str(part) for part in version[:2]))
    return _table()["floors"].get(str(version[0]))


def toolkit_driver(cuda: str) -> str | None:
    """The driver that came with a toolkit, `12.8`; None for one that the table does not know."""
    return _table()["toolkits"].get(".".join(str(part) for part in numbers(cuda)[:2]))
