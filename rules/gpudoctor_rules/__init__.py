"""gpudoctor's own rules, found through the entry-point group `gpudoctor.rules` like anyone's.

A rule is one module: add a file in a topic folder and it is there.
"""

import functools
import importlib
import pkgutil

from gpudoctor.model import Rule


@functools.cache
def collect() -> tuple[type[Rule], ...]:
    """Every Rule class defined in a module of this package."""
    found: list[type[Rule]] = []
    for entry in pkgutil.walk_packages(__path__, __name__ + "."):
        if entry.ispkg:
            continue
        module = importlib.import_module(entry.name)
        found += [
            item
            for item in vars(module).values()
            if isinstance(item, type)
            and issubclass(item, Rule)
            and item.__module__ == module.__name__
            and not item.__name__.startswith("_")
        ]
    return tuple(found)
