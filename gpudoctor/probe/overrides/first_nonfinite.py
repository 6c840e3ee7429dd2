"""`replay.nan`: a dispatch mode over one bad step that records the first result which is not finite.

Loaded in trials only. An infinity that the program writes down (`masked_fill(mask, -inf)`) is not one. An infinity that
an operation made is kept until NaN comes of it, or the loss is not finite. Anomaly mode keeps the stack of each forward
operation, so that a derivative leads to its line.
"""

from __future__ import annotations

import linecache
import re
import sys
from typing import TYPE_CHECKING, Any

from ..call_sites import where
from ..clock import BACKWARD, OPTIMIZER
from ..wire.masking import mask_cut
from . import wrap

if TYPE_CHECKING:
    from . import Trial

_WRITES = {
    "fill", "masked_fill", "full", "full_like", "new_full", "where", "scalar_tensor", "lift_fresh", "copy", "_to_copy",
}  # fmt: skip
"""Operators that write infinities down and compute none."""
_UNWRITTEN = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize"}
_TRACE = re.compile(r'File "([^"]{1,4096})", line (\d+), in (.+)')


def apply(trial: Trial, _detail: str, table: dict[str, Any]) -> None:
    """Watch the `step` (from 0)."""
    FirstNonfinite(trial, int(table["step"])).install()


class FirstNonfinite:
    """Watches one step."""

    def __init__(self, trial: Trial, step: int) -> None:
        self._probe = trial.probe
        self._torch = trial.torch
        self._step = step
        self._mode: Any = None
        self._anomaly: tuple[bool, bool] | None = None
        """Anomaly mode as the program had it, once it is ours."""
        self._infinity: dict[str, Any] | None = None
        self._done = False

    def install(self) -> None:
        """Hook what marks the step."""
        self._probe.pace.watch_all()
        self._probe.steps.after.insert(0, self._probe.guard.safely("replay", self._stepped))
        wrap(self._torch.autograd, "backward", self._passing)
        if not self._step:
            self._begin()

    def _stepped(self) -> None:
        """A step has ended."""
        index = self._probe.steps.index
        if index == self._step:
            self._begin()
        elif index > self._step:
            self._tell(None)

    def _begin(self) -> None:
        torch, watch = self._torch, self
        stance = getattr(getattr(torch, "compiler", None), "set_stance", None)
        if "torch._dynamo.utils" in sys.modules and stance is not None:
            stance("force_eager")  # compiled code shows no operations

        def dispatch(_mode: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if not watch._done:
                try:
                    with torch.no_grad():
                        watch._look(func, args, kwargs, result)
                except Exception as error:
                    watch._tell(None, broken=mask_cut(f"{str(func)[:60]}: {type(error).__name__}: {error}", 200))
            return result

        base = torch.utils._python_dispatch.TorchDispatchMode
        self._mode = type("Watching", (base,), {"__torch_dispatch__": dispatch})()
        self._anomaly = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
        torch.autograd.set_detect_anomaly(True, check_nan=False)
        self._mode.__enter__()

    def _passing(self, original: Any) -> Any:
        def backward(*args: Any, **kwargs: Any) -> Any:
            if self._infinity is not None and not self._done:
                roots = args[0] if args else kwargs.get("tensors")
                if any(self._bad(root.detach()) for root in self._tensors(roots)):
                    self._tell(self._infinity)
            return original(*args, **kwargs)

        return backward

    def _look(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        words = str(func).split(".")
        name = words[1] if len(words) > 1 else words[0]
        name = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        if name in _UNWRITTEN:
            return
        bad = next(filter(None, (self._bad(tensor) for tensor in self._tensors(result))), "")
        if not bad:
            return
        came = [tensor for tensor in self._tensors((args, kwargs)) if self._bad(tensor)]
        if came and self._infinity is None and any(self._bad(tensor) == "nan" for tensor in came):
            self._tell({**self._brought(came[0]), "value": "nan"})
        elif bad == "nan":
            self._tell(self._infinity if came and self._infinity is not None else self._made(func, name, bad, args))
        elif not came and name not in _WRITES and self._infinity is None:
            self._infinity = self._made(func, name, bad, args)

    def _brought(self, tensor: Any) -> dict[str, Any]:
        """NaN that no watched operation made: a weight, or data."""
        for module in self._probe.models.trained():
            for name, parameter in module.named_parameters():
                if parameter.data_ptr() == tensor.data_ptr():
                    return {"kind": "weights", "name": name, **self._place()}
        return {"kind": "data", **self._place()}

    def _made(self, func: Any, name: str, bad: str, args: Any) -> dict[str, Any]:
        torch, phase = self._torch, self._probe.clock.phase
        node = torch._C._current_autograd_node()
        first = next(iter(self._tensors(args)), None)
        place = self._place()
        if node is not None:
            name = re.sub(r"Backward\d*$", "", node.name()) or name
            place = self._traced((node.metadata or {}).get("traceback_")) or place
        named = (
            "backward" if node is not None or phase == BACKWARD else "optimizer" if phase == OPTIMIZER else "forward"
        )
        return {"kind": "operation", "operation": name.lstrip("_"), "operator": str(func), "value": bad, "phase": named,
                "dtype": str(first.dtype).replace("torch.", "") if first is not None else "", **place}  # fmt: skip

    def _place(self) -> dict[str, Any]:
        """The user's innermost line."""
        path, line, _ = where(self._probe.places.user_frame(sys._getframe(1)))
        return _spot(path, line) if path is not None and line is not None else {}

    def _traced(self, lines: Any) -> dict[str, Any]:
        """The user's innermost line in the stack that anomaly mode kept."""
        text = "\n".join(lines) if isinstance(lines, (list, tuple)) else str(lines or "")
        for path, line, _ in reversed(_TRACE.findall(text)):
            if self._probe.places.is_own(path):
                return _spot(path, int(line))
        return {}

    def _tensors(self, value: Any) -> list[Any]:
        leaves = self._torch.utils._pytree.tree_leaves(value)
        found = [leaf for leaf in leaves if isinstance(leaf, self._torch.Tensor)]
        return [getattr(leaf, "_local_tensor", leaf) for leaf in found]

    def _bad(self, tensor: Any) -> str:
        torch = self._torch
        if not tensor.is_floating_point() or tensor.layout is not torch.strided or tensor.is_meta or not tensor.numel():
            return ""
        if bool(torch.isfinite(tensor).all()):
            return ""
        return "nan" if bool(torch.isnan(tensor).any()) else "inf"

    def _tell(self, origin: dict[str, Any] | None, broken: str = "") -> None:
        """The record, once; the rest of the run goes on unwatched."""
        if self._done:
            return
        self._done = True
        if self._anomaly is not None:
            self._torch.autograd.set_detect_anomaly(*self._anomaly)
        fields = {"step": self._step, "broken": broken, **({"origin": origin} if origin else {})}
        self._probe.record("replay", fields)


def _spot(path: str, line: int) -> dict[str, Any]:
    return {"path": path, "line": line, "text": linecache.getline(path, line).strip()[:200]}
