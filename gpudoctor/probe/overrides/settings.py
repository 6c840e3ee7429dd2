"""`torch.*`: switches of torch itself, and compiling the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .patching import plain, truth

if TYPE_CHECKING:
    from . import Trial


def apply(trial: Trial, detail: str, value: Any) -> None:
    """Set it now and again after the first step: what the program sets itself is what is being tried out."""
    if detail == "compile":
        from . import compiling

        compiling.apply(trial, detail, value)
        return
    setter = _setter(trial.torch, detail, value)
    setter()

    def stepped() -> None:
        if trial.probe.steps.index == 1:
            setter()
            trial.reached(f"torch.{detail}")

    trial.probe.steps.after.append(stepped)


def _setter(torch: Any, detail: str, value: Any) -> Any:
    if detail == "float32_matmul_precision":
        return lambda: torch.set_float32_matmul_precision(str(value))
    if detail == "num_threads":
        return lambda: torch.set_num_threads(int(value))
    if detail == "use_deterministic_algorithms":
        return lambda: torch.use_deterministic_algorithms(truth(value))
    *path, last = detail.split(".")
    owner = torch
    for name in path:
        owner = getattr(owner, name)
    getattr(owner, last)  # an AttributeError says that there is no such switch
    return lambda: setattr(owner, last, plain(value))
