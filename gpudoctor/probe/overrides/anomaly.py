"""`autograd.detect_anomaly`: off, whatever the program asks for (or on, to find where a NaN comes from)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .patching import truth, wrap

if TYPE_CHECKING:
    from . import Trial


def apply(trial: Trial, _detail: str, value: Any) -> None:
    """Replace the one function that both forms of anomaly mode call."""
    wanted = truth(value)

    def make(original: Any) -> Any:
        def set_anomaly_enabled(_mode: bool, check_nan: bool = True) -> Any:
            trial.reached("autograd.detect_anomaly")
            return original(wanted, check_nan)

        return set_anomaly_enabled

    wrap(trial.torch, "set_anomaly_enabled", make)
    if wanted:
        trial.torch.set_anomaly_enabled(True)
