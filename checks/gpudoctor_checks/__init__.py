"""gpudoctor's own checks, found through the entry-point group `gpudoctor.checks` like anyone's.

A check is one module: add a file in a topic folder and it is there.
"""

import functools
import importlib
import pkgutil

from gpudoctor.model import Check


@functools.cache
def collect() -> tuple[type[Check], ...]:
    """Every Check class defined in a module of this package."""
    found: list[type[Check]] = []
    for entry in pkgutil.walk_packages(__path__, __name__ + "."):
        if entry.ispkg:
            continue
        module = importlib.import_module(entry.name)
        found += [
            item
            for item in vars(module).values()
            if isinstance(item, type)
            and issubclass(item, Check)
            and item.__module__ == module.__name__
            and not item.__name__.startswith("_")
        ]
    return tuple(found)
