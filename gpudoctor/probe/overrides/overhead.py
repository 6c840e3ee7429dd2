"""Overrides of what a program does beside training: anomaly mode, collections, waits, trackers, profilers."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

from .patching import truth, wrap

if TYPE_CHECKING:
    from . import Trial

# `autograd.detect_anomaly`: off, whatever the program asks for (or on, to find where a NaN comes from).


def apply_anomaly(trial: Trial, _detail: str, value: Any) -> None:
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


# `gc.collect`, `gc.empty_cache`, `gc.synchronize`: explicit collections, flushes and waits that do nothing.


def apply_calls(trial: Trial, detail: str, value: Any) -> None:
    """Switch one of them off."""
    if truth(value):
        return
    owners = {"collect": (gc,), "empty_cache": (trial.torch.cuda,), "synchronize": (trial.torch.cuda,)}
    for owner in owners[detail]:
        wrap(owner, detail, lambda original: _nothing(trial, detail, original))


def _nothing(trial: Trial, detail: str, original: Any) -> Any:
    def nothing(*args: Any, **kwargs: Any) -> Any:
        if not trial.probe.steps.index:  # before training it is nobody's harm
            return original(*args, **kwargs)
        trial.reached(f"gc.{detail}")
        return 0 if detail == "collect" else None

    return nothing


# `trackers.period`: what goes to wandb, TensorBoard and mlflow goes there every so many steps.


def apply_trackers(trial: Trial, _detail: str, value: Any) -> None:
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
            module.SummaryWriter, *(name for name in vars(module.SummaryWriter) if name.startswith("add_")), "flush"
        ),
    )


def _seldom(trial: Trial, original: Any, period: int) -> Any:
    def seldom(*args: Any, **kwargs: Any) -> Any:
        if trial.probe.steps.index % period == 0:
            return original(*args, **kwargs)
        trial.reached("trackers.period")
        return None

    return seldom


# `profiler.enabled`: profilers that are there but record nothing, and FLOPs that are counted once.


def apply_profiler(trial: Trial, _detail: str, value: Any) -> None:
    """Switch `torch.profiler`, `torch.autograd.profiler` and `FlopCounterMode` off."""
    if truth(value):
        return
    trial.probe.when_imported("torch.profiler.profiler", lambda module: _kineto(trial, module))
    trial.probe.when_imported("torch.autograd.profiler", lambda module: _autograd(trial, module))
    trial.probe.when_imported("torch.utils.flop_counter", lambda module: _flops(trial, module))


def _kineto(trial: Trial, module: Any) -> None:
    kind = module._KinetoProfile
    for name in ("prepare_trace", "start_trace", "stop_trace", "export_chrome_trace", "export_stacks",
                 "export_memory_timeline", "add_metadata", "add_metadata_json"):  # fmt: skip
        wrap(kind, name, lambda _original: lambda *_args, **_kwargs: trial.reached("profiler.enabled"))
    for name in ("key_averages", "events"):
        wrap(kind, name, lambda _original: lambda *_args, **_kwargs: _no_events())
    profile = module.profile
    for name in ("start", "stop", "step", "_start_warmup", "_trace_ready"):
        wrap(profile, name, lambda _original: lambda *_args, **_kwargs: trial.reached("profiler.enabled"))
    wrap(profile, "__enter__", lambda _original: lambda self: self)
    wrap(profile, "__exit__", lambda _original: lambda *_args: None)


def _autograd(trial: Trial, module: Any) -> None:
    kind = module.profile

    def enter(self: Any) -> Any:
        trial.reached("profiler.enabled")
        self.function_events = _no_events()
        return self

    wrap(kind, "__enter__", lambda _original: enter)
    wrap(kind, "__exit__", lambda _original: lambda *_args: False)


def _flops(trial: Trial, module: Any) -> None:
    counted: dict[str, Any] = {}

    def enter(original: Any) -> Any:
        def __enter__(self: Any) -> Any:
            if "total" in counted:
                trial.reached("profiler.enabled")
                return self
            return original(self)

        return __enter__

    def leave(original: Any) -> Any:
        def __exit__(self: Any, *args: Any) -> Any:
            if "total" in counted:
                return False
            result = original(self, *args)
            counted["counts"] = {name: dict(flops) for name, flops in self.flop_counts.items()}
            counted["total"] = self.get_total_flops()
            return result

        return __exit__

    wrap(module.FlopCounterMode, "__enter__", enter)
    wrap(module.FlopCounterMode, "__exit__", leave)
    for name, key in (("get_total_flops", "total"), ("get_flop_counts", "counts")):
        wrap(module.FlopCounterMode, name, _remembering(counted, key))


def _remembering(counted: dict[str, Any], key: str) -> Any:
    return lambda original: lambda self: counted[key] if "total" in counted else original(self)


def _no_events() -> Any:
    util: Any = sys.modules["torch.autograd.profiler_util"]
    return util.EventList([])
