"""gpudoctor: a command-line doctor for deep-learning training on GPUs."""

TYPE_CHECKING = False  # no import here: with `python -m gpudoctor` the working folder is still searched first
if TYPE_CHECKING:
    from gpudoctor.estimate.api import estimate as estimate
    from gpudoctor.hooks.flat_summary import summary as summary
    from gpudoctor.hooks.in_process import record as record

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`gpudoctor.estimate`, `record` and `summary` without their import at start."""
    if name == "estimate":
        import importlib

        return importlib.import_module("gpudoctor.estimate")
    if name in ("record", "summary"):
        import importlib

        place = "gpudoctor.hooks.in_process" if name == "record" else "gpudoctor.hooks.flat_summary"
        return getattr(importlib.import_module(place), name)
    raise AttributeError(f"module 'gpudoctor' has no attribute {name!r}")
