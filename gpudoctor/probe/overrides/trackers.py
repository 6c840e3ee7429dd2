"""`trackers.period`: what goes to wandb, TensorBoard and mlflow goes there every so many steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .patching import wrap

if TYPE_CHECKING:
    from . import Trial


def apply(trial: Trial, _detail: str, value: Any) -> None:
    """Drop the calls between."""
    period = max(1, int(value))

    def calls(owner: Any, *names: str) -> None:
        for name in names:
            wrap(owner, name, lambda original: _seldom(trial, original, period))

    when = trial.probe.when_imported
    when("wandb", lambda module: calls(module, "log"))
    when("wandb.sdk.wandb_run", lambda module: calls(module.Run, "log"))
    when("mlflow", lambda module: calls(module, "log_metric", "log_metrics"))
    when(
        "torch.utils.tensorboard.writer",
        lambda module: calls(
            module.SummaryWriter,
            *(name for name in vars(module.SummaryWriter) if name.startswith("add_")),
            "flush",
        ),
    )


def _seldom(trial: Trial, original: Any, period: int) -> Any:
    def seldom(*args: Any, **kwargs: Any) -> Any:
        if trial.probe.steps.index % period == 0:
            return original(*args, **kwargs)
        trial.reached("trackers.period")
        return None

    return seldom
