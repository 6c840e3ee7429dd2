"""Packages that tests need, looked up without an import, which takes seconds: child processes have them."""

import importlib.util

import pytest


def need(*names: str) -> None:
    """Skip the test, or all tests of the module, that calls this where one of the packages is not installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)
