"""Reads the tables of this package: presets, GPUs, library releases."""

import json
import os
from typing import Any

_FOLDER = os.path.join(os.path.dirname(__file__), "data")


def read_table(name: str) -> Any:
    """A JSON file of `data/`. By path: the import of importlib.resources takes a tenth of an estimate."""
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as stream:
        return json.load(stream)
