"""The optimizer of a job: torch's or transformers' own, or a stand-in that holds states of the right size."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.job import TrainingJob

RATE = 1e-4
_MOMENTS = {"paged-adamw": 2, "lion": 1}
"""Optimizers of bitsandbytes that keep moments in 32 bits: how many (bitsandbytes/optim)."""
_FEW_BITS = {
    "adamw-8bit": (2, 1.0, 256), "paged-adamw-8bit": (2, 1.0, 256), "adamw-ao-8bit": (2, 1.0, 256),
    "adamw-ao-4bit": (2, 0.5, 128), "lion-8bit": (1, 1.0, 256),
}  # fmt: skip
"""Moments, bytes of an element, elements that share an fp32 scale (bitsandbytes, torchao)."""
SMALLEST = 4096
"""Elements below which bitsandbytes and torchao keep a tensor's states in 32 bits."""
BUILT = ("adamw", "adamw-foreach", "adamw-fused", "sgd", "sgd-momentum", "adafactor", *_MOMENTS, *_FEW_BITS)
"""Optimizers that can be built here."""


def optimizer_of(job: TrainingJob, parameters: Iterable[Any]) -> Any:
    """The optimizer of a job over trained parameters. Raises `UsageError` for one that is not built here."""
    import torch

    trained, name = list(parameters), job.optimizer
    if name in {"adamw", "adamw-foreach"}:
        # torch takes the foreach implementation by itself on a GPU; on other devices it has to be asked for
        return torch.optim.AdamW(trained, lr=RATE, foreach=True)
    if name == "adamw-fused":
        return torch.optim.AdamW(trained, lr=RATE, fused=True)
    if name in {"sgd", "sgd-momentum"}:
        return torch.optim.SGD(trained, lr=RATE, momentum=0.9 if name == "sgd-momentum" else 0.0, foreach=True)
    if name == "adafactor":
        from transformers.optimization import Adafactor

        return Adafactor(trained, lr=RATE, relative_step=False, scale_parameter=False, warmup_init=False)
    if name in _MOMENTS:
        return standin_class()(trained, _MOMENTS[name], 4.0, 0)
    if name in _FEW_BITS:
        return standin_class()(trained, *_FEW_BITS[name])
    raise UsageError(f"--optimizer {name} is not built with --trace; it may be one of {', '.join(BUILT)}")


@cache
def standin_class() -> Any:
    """The class of optimizers of which only the states' sizes are known: they step in place, in one kernel a
    parameter, with nothing allocated beside the states."""
    import torch

    class Standin(torch.optim.Optimizer):
        """Stand-in for a fused optimizer of bitsandbytes or torchao."""

        def __init__(self, parameters: list[Any], moments: int, width: float, block: int) -> None:
            self.moments, self.width, self.block = moments, width, block
            super().__init__(parameters, {"lr": RATE})

        @torch.no_grad()
        def step(self, _closure: Any = None) -> None:
            """States where they are missing, then the update in place."""
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None:
                        continue
                    if not self.state[parameter]:
                        self._fill(parameter)
                    parameter.add_(parameter.grad, alpha=-group["lr"])

        def _fill(self, parameter: Any) -> None:
            count, state = parameter.numel(), self.state[parameter]
            for at in range(self.moments):
                if not self.block or count < SMALLEST:
                    state[f"moment{at}"] = torch.zeros_like(parameter, dtype=torch.float32)
                    continue
                size = int(count * self.width)
                state[f"moment{at}"] = torch.zeros(size, dtype=torch.uint8, device=parameter.device)
                state[f"scale{at}"] = torch.zeros(-(-count // self.block), device=parameter.device)

    return Standin
