"""What was measured on one kind of card: the records that a calibration file holds."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated

FAR = 8
"""A job this many times larger than the largest observed one takes no ratio from it."""
CPU = "cpu"
"""The name of the CPU's own record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardObservation:
    """One measured job."""

    model: str
    """Its model's name."""
    method: str
    """Its method."""
    instants: dict[str, tuple[int, int]]
    """Instant to bytes by formula and bytes measured."""
    reserved: tuple[int, int] | None
    """What the allocator was expected to hold and what it held; None on the CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What is known of one kind of card with one set of libraries."""

    gpu: str
    """The card's name as the driver says it; `cpu` where the CPU measured."""
    bytes: int
    """Its memory."""
    versions: dict[str, str]
    """Package to release."""
    date: str
    """Day of the last measurement, ISO 8601."""
    gpudoctor: str
    """Release whose formulas the ratios belong to."""
    context: int | None = None
    """Bytes of the process outside torch's allocator."""
    workspace: int | None = None
    """Bytes of cuBLAS workspaces."""
    nccl: int | None = None
    """Bytes of communicators of a process; None where there was one GPU."""
    observations: tuple[CardObservation, ...] = ()
    """Measured jobs, oldest first."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells one entry of a file from another: the card and the libraries that decide bytes."""
        return self.gpu, self.versions.get("torch", ""), self.versions.get("transformers", "")

    @property
    def spread(self) -> tuple[float, float, int] | None:
        """Least and largest of reserved over expected, and how many observations; None without any."""
        ratios = [each.reserved[1] / each.reserved[0] for each in self.observations if each.reserved]
        return (min(ratios), max(ratios), len(ratios)) if ratios else None

    def ratio(self, instant: str, method: str, size: int) -> tuple[float, int]:
        """Median of measured over predicted of an instant, for a job of this method and size, and how many
        observations it is of; 1 of none."""
        found = [
            measured / predicted
            for each in self.observations
            if each.method == method
            for predicted, measured in [each.instants.get(instant, (0, 0))]
            if predicted and measured * FAR >= size
        ]
        return (median(found), len(found)) if found else (1.0, 0)

    def title(self) -> str:
        """Which calibration it is, for a sentence."""
        named = concatenated(
            ", ",
            (
                say("{name} {versions}", name=name, versions=self.versions[name])
                for name in ("torch", "transformers")
                if name in self.versions
            ),
        )
        return say(
            "calibration of {date} ({details})",
            date=self.date,
            details=concatenated(", ", filter(None, (self.gpu, named))),
        )


def median(values: Sequence[float]) -> float:
    """The median; the import of `statistics` takes a tenth of an estimate."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2
