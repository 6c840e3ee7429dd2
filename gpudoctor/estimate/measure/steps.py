"""Training steps on a real model with a mark at every instant that the estimate names.

The instants lie between gradients: the loss ends when the last block's output gets its gradient, that block's
backward when its input gets one, and the end of the backward begins when the first trained block's output does.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpudoctor.estimate.measure.meters import MemoryMeter, MeterWindow
from gpudoctor.estimate.measure.result import MeasuredStep

FORWARD, LOSS, LAYER, MIDDLE, BACKWARD, STEP, BETWEEN = (
    "forward", "loss", "layer", "middle", "backward", "step", "between",
)  # fmt: skip
_INSTANT = {FORWARD: "loss", LOSS: "loss", LAYER: "layer", BACKWARD: "backward", STEP: "step"}
"""Window to the instant that it belongs to; the blocks between last and first belong to none."""


class Marker:
    """Hooks on a model's blocks that leave a mark when a gradient arrives."""

    def __init__(self, blocks: Sequence[Any], meter: MemoryMeter, tell: Callable[[str], None]) -> None:
        self._meter, self._tell = meter, tell
        self._forward = True
        self._first: Any = None
        self.micro = 0
        self._hooks = [block.register_forward_hook(self._after(block is blocks[-1])) for block in blocks]
        if blocks:
            self._hooks.append(blocks[-1].register_forward_pre_hook(self._before_last, with_kwargs=True))

    def begin(self, micro: int) -> None:
        """A micro batch begins."""
        self.micro, self._forward, self._first = micro, True, None

    def backward(self) -> None:
        """The forward is over: what runs from now on is recomputed."""
        first, self._first, self._forward = self._first, None, False
        self._on_gradient(first, MIDDLE)  # last: with two blocks it is the tensor that LAYER waits for

    def mark(self, name: str) -> None:
        """Close the open window under this name."""
        self._meter.mark(f"{self.micro} {name}")
        self._tell(name)

    def remove(self) -> None:
        """Take the hooks off."""
        for hook in self._hooks:
            hook.remove()

    def _on_gradient(self, tensor: Any, name: str) -> None:
        def arrived(_: Any) -> None:
            self.mark(name)

        if tensor is not None and tensor.requires_grad:
            tensor.register_hook(arrived)

    def _after(self, last: bool) -> Callable[..., None]:
        def done(_module: Any, _inputs: Any, output: Any) -> None:
            tensor = output if hasattr(output, "requires_grad") else output[0]
            if not self._forward:
                return
            if last:
                self._on_gradient(tensor, LOSS)
            elif self._first is None and tensor.requires_grad:
                self._first = tensor

        return done

    def _before_last(self, _module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self._forward:
            self._on_gradient(inputs[0] if inputs else named.get("hidden_states"), LAYER)


def read_step(windows: Iterable[MeterWindow]) -> MeasuredStep:
    """A step's windows by instant; of later micro batches everything is accumulation."""
    instants: dict[str, int] = {}
    scratch: dict[str, int] = {}
    peak = static = 0
    for window in windows:
        micro, _, name = window.name.partition(" ")
        peak, static = max(peak, window.peak), window.end
        found = [_INSTANT[name]] if name in _INSTANT and (micro == "0" or name == STEP) else []
        if micro != "0" and name not in {STEP, BETWEEN}:
            found = ["accumulation"]
        for instant in found:
            if window.peak >= instants.get(instant, 0):
                instants[instant] = window.peak
                scratch[instant] = window.scratch
    return MeasuredStep(
        instants=instants, peak=peak, static=static, scratch={k: v for k, v in scratch.items() if v}
    )
