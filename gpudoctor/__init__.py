"""gpudoctor: a command-line doctor for deep-learning training on GPUs."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpudoctor.estimate.api import estimate as estimate

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`gpudoctor.estimate` without its import at start."""
    if name == "estimate":
        import importlib

        return importlib.import_module("gpudoctor.estimate")
    raise AttributeError(f"module 'gpudoctor' has no attribute {name!r}")
