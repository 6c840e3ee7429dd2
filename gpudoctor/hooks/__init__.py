"""Recordings that a program makes itself, as `gpudoctor run` makes them: for launch lines that must stay.

    from gpudoctor.hooks import TransformersCallback     Trainer(..., callbacks=[TransformersCallback()])
    from gpudoctor.hooks import LightningCallback        Trainer(callbacks=[LightningCallback()])
    from gpudoctor.hooks import AccelerateTracker        Accelerator(log_with=[AccelerateTracker()])

For a plain loop and for notebooks there is `gpudoctor.record()`. A framework is imported when its class is.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    TransformersCallback: Any
    LightningCallback: Any
    AccelerateTracker: Any

__all__ = ["AccelerateTracker", "LightningCallback", "TransformersCallback"]


def __getattr__(name: str) -> Any:
    """A framework's class, made when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'gpudoctor.hooks' has no attribute {name!r}")
    from gpudoctor.hooks.frameworks import MAKERS

    made = MAKERS[name]()
    made.__module__, made.__qualname__ = __name__, name  # where pickle looks for it
    globals()[name] = made
    return made
