"""The GPUs of a recording: which they are, their readings in steady state, what they can compute at most."""

import math
from collections.abc import Mapping
from typing import Any

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.run_numbers import gpu_use, steady_window
from gpudoctor.lang import say
from gpudoctor.model.peaks import peak_flops
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import Recording


@frozen
class SampledGpu:
    """One sampled GPU."""

    column: int
    """i of its columns `gpu{i}_util`."""
    number: int
    """As the driver of its node counts it."""
    node: str
    """Its node, where several were recorded; else ""."""
    name: str
    facts: Mapping[str, Any]
    """What does not change while it runs: limits, and the most that its link can do."""
    here: bool
    """Whether it is on the first rank's node."""

    @property
    def label(self) -> str:
        """How messages name it: `GPU 5`, `GPU 5 of node-2`."""
        return say("GPU {number} of {node}", number=self.number, node=self.node) if self.node else f"GPU {self.number}"

    def fact(self, name: str) -> float | None:
        """A number above zero that the driver told once; None where it did not."""
        value = self.facts.get(name)
        return float(value) if isinstance(value, int | float) and value > 0 else None


@once
def cards(recording: Recording) -> tuple[SampledGpu, ...]:
    """The GPUs of a recording, by column; empty where none was sampled."""
    listed = recording.machine_facts.get("gpus")
    known = [item if isinstance(item, dict) else {} for item in listed] if isinstance(listed, list) else []
    nodes = {str(item.get("node") or "") for item in known}
    first = str(known[0].get("node") or "") if known else ""
    found = []
    for use in gpu_use(recording):
        facts = known[use.index] if use.index < len(known) else {}
        node = str(facts.get("node") or "")
        number = facts.get("index")
        found.append(
            SampledGpu(
                column=use.index,
                number=number if isinstance(number, int) else use.index,
                node=node if len(nodes) > 1 else "",
                name=use.name,
                facts=facts,
                here=node == first,
            )
        )
    return tuple(found)


def readings(recording: Recording, card: SampledGpu, *names: str) -> list[tuple[float, ...]]:
    """Rows (`t` first, seconds) of these columns of a card in steady state, where all of them are known."""
    begin, end = steady_window(recording)
    machine = recording.machine
    columns = [machine.column("t"), *(machine.column(f"gpu{card.column}_{name}") for name in names)]
    if not all(len(column) for column in columns):
        return []
    return [row for row in zip(*columns, strict=True) if begin <= row[0] <= end and all(map(math.isfinite, row))]


def peak_of_ranks(recording: Recording) -> float | None:
    """FLOPs a second of the devices of all ranks together; None if one of them is not in the table."""
    names = []
    for process in recording.ranks:
        torch = process.first("torch")
        names.append(str(torch.get("device") or "") if torch is not None else "")
    peaks = [peak_flops(name) for name in names]
    known = [peak for peak in peaks if peak is not None]
    return sum(known) if known and len(known) == len(peaks) else None
