"""Finds the classes of a package of plugins: one module is one check or one rule."""

import functools
import importlib
import pkgutil
from typing import TypeVar

T = TypeVar("T")


@functools.cache
def classes_of(package: str, kind: type[T]) -> tuple[type[T], ...]:
    """Every class of a kind that a module of the package defines, in the order of the modules.

    The modules are imported; names with an underscore are left out.
    """
    found: list[type[T]] = []
    for entry in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        if entry.ispkg:
            continue  # the packages themselves are left out
        module = importlib.import_module(entry.name)
        found += [
            item
            for item in vars(module).values()
            if isinstance(item, type)
            and kind in item.__mro__  # `issubclass` asks each subclass of an abstract kind
            and item.__module__ == module.__name__
            and not item.__name__.startswith("_")
        ]
    return tuple(found)
