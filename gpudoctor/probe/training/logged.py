"""What the program logs itself: names and numbers, as it hands them to its tracker."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ..wire.masking import mask_cut
from . import Look

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "logged"
_NAMES, _LONGEST, _POINTS = 64, 64, 32
"""Names that are kept, characters of one, and points of one: of more every second one goes."""
_FIRST = 16
"""Calls that are read whatever they cost."""
_LIGHTNING = "trainer.connectors.logger_connector.logger_connector"
CALLS = (
    ("transformers.trainer", "Trainer", "log", 1),
    ("accelerate.accelerator", "Accelerator", "log", 1),
    (f"lightning.pytorch.{_LIGHTNING}", "_LoggerConnector", "log_metrics", 1),
    (f"pytorch_lightning.{_LIGHTNING}", "_LoggerConnector", "log_metrics", 1),
    ("torch.utils.tensorboard.writer", "SummaryWriter", "add_scalar", 1),
    ("tensorboardX.writer", "SummaryWriter", "add_scalar", 1),
    ("wandb.sdk.wandb_run", "Run", "log", 1),
    ("mlflow", "", "log_metrics", 0),
    ("mlflow", "", "log_metric", 0),
    ("swanlab", "", "log", 0),
    ("trackio", "", "log", 0),
)
"""Module, owner, function, and which of its arguments holds the numbers by name, or the name before its number."""


class Logged(Look):
    """The numbers so far, thinned out."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self._keep = probe.guard.reading(HOOK, self._read)

    def again(self) -> None:
        """For a new recording nothing has been logged."""
        super().again()
        self._inside = False
        self._series: dict[str, list[Any]] = {}
        self._by = ""
        self._place: dict[str, Any] = {}

    def call(self, by: str, at: int, args: Any, kwargs: Any) -> Any:
        """Around a call: those inside of it say the same again."""
        if self._inside or (self._budget.count >= _FIRST and not self._budget.due()):
            return
        self._inside = True
        with self.charged():
            self._keep(by, args[at:] or tuple(kwargs.values()))
        yield
        self._inside = False

    def _read(self, by: str, given: tuple[Any, ...]) -> None:
        numbers = list(self._numbers(given))
        if numbers and not self._by:
            self._by, self._place = by, self.place()
        for name, value in numbers:
            self._add(name, value)
        count = self._budget.count + 1
        if not count & (count - 1):
            self.tell()

    def _add(self, name: str, value: float) -> None:
        one = self._series.get(name)
        if one is None:
            if len(self._series) >= _NAMES:
                return
            one = self._series[name] = [mask_cut(name, _LONGEST), 0, [], 1]
        _, count, points, stride = one
        one[1] += 1
        if count % stride == 0:
            points.append((self._probe.steps.index, value))
            if len(points) >= _POINTS:
                one[2:] = points[::2], 2 * stride

    def _numbers(self, given: tuple[Any, ...]) -> Iterator[tuple[str, float]]:
        first = given[0] if given else None
        # A mapping of the program's own class would run its code.
        items = first.items() if type(first) is dict else [given[:2]] if len(given) > 1 else []
        for name, value in list(items)[: 2 * _NAMES]:
            number = self._number(value)
            if isinstance(name, str) and number is not None:
                yield name, number

    def _number(self, value: Any) -> float | None:
        """A number of the host's; a device's is not waited for."""
        kind = type(value)
        if kind is self._probe.torch.Tensor:
            return float(value.detach()) if value.is_cpu and value.numel() == 1 and not value.is_complex() else None
        is_numpy = kind.__module__ == "numpy" and getattr(value, "ndim", 1) == 0 and value.dtype.kind in "fiu"
        return float(value) if is_numpy or kind in (int, float) else None

    def tell(self) -> None:
        """Write what is known by now."""
        if self._series:
            series = [one[:3] for one in self._series.values()]
            self.write("logged", {"by": self._by, "series": series, **self._place})


def install(probe: Probe) -> None:
    """Hear what trackers are given."""
    logged = probe.training[HOOK] = Logged(probe)

    def hear(owner: str, name: str, at: int, module: Any) -> None:
        where_it_is = getattr(module, owner, None) if owner else module
        if where_it_is is not None:
            by = f"{owner.strip('_') or module.__name__}.{name}"
            probe.guard.surround(HOOK, where_it_is, name, partial(logged.call, by, at))

    for module, owner, name, at in CALLS:
        probe.when_imported(module, partial(hear, owner, name, at))
