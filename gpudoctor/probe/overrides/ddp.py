"""`ddp.find_unused_parameters`, `.bucket_cap_mb`, `.gradient_as_bucket_view`, `.static_graph`, and
`ddp.no_sync`.

`no_sync` is the number of backward passes a step: only the last of them exchanges gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .patching import plain, wrap

if TYPE_CHECKING:
    from . import Trial


def apply(trial: Trial, detail: str, value: Any) -> None:
    """Change what DistributedDataParallel is made with, or when it exchanges."""
    module = "torch.nn.parallel.distributed"
    if detail == "no_sync":
        trial.probe.when_imported(module, lambda found: _no_sync(trial, found, int(value)))
    else:
        trial.probe.when_imported(module, lambda found: _argument(trial, found, detail, plain(value)))


def _argument(trial: Trial, module: Any, name: str, value: Any) -> None:
    def make(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **{**kwargs, name: value})
            trial.reached(f"ddp.{name}")

        return __init__

    wrap(module.DistributedDataParallel, "__init__", make)


def _no_sync(trial: Trial, module: Any, passes: int) -> None:
    steps = trial.probe.steps
    state = {"step": -1, "calls": 0}

    def make(original: Any) -> Any:
        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            if state["step"] != steps.index:
                state.update(step=steps.index, calls=0)
            state["calls"] += 1
            self.require_backward_grad_sync = state["calls"] >= passes
            trial.reached("ddp.no_sync")
            return original(self, *args, **kwargs)

        return forward

    wrap(module.DistributedDataParallel, "forward", make)
