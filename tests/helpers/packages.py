"""Packages that a module's tests need, looked up without an import: their tests run them in child processes."""

import importlib.util

import pytest


def need(*names: str) -> None:
    """Skip the tests of the module that calls this where one of the packages is not installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)
