"""gpudoctor: a command-line doctor for deep-learning training on GPUs."""

TYPE_CHECKING = False  # no import here: with `python -m gpudoctor` the working folder is still searched first
if TYPE_CHECKING:
    from gpudoctor.estimate.api import estimate as estimate

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`gpudoctor.estimate` without its import at start."""
    if name == "estimate":
        import importlib

        return importlib.import_module("gpudoctor.estimate")
    raise AttributeError(f"module 'gpudoctor' has no attribute {name!r}")
