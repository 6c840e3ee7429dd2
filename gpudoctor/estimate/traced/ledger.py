"""What was allocated and freed, in order: every storage with its birth, and what was alive at the worst.

Standard library only: the tracker writes it, the extrapolation reads it.
"""

from typing import NamedTuple

from gpudoctor.model.records import dataclass, field, frozen

ROUND = 512
"""Bytes to which torch's CUDA allocator rounds a request (c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize)."""


class TracedWindow(NamedTuple):
    """A stretch of the run: one block's forward or backward, the loss, the optimizer step."""

    phase: str
    """`load`, `fill` (gradients for a first, empty step), `forward`, `loss`, `loss-backward`, `backward`,
    `tail` (after the first block's backward), `step`, `idle`."""
    block: int = -1
    """Which block, counted over all halves; -1 outside blocks."""
    step: int = 0
    micro: int = 0
    """Which micro batch of it."""


@dataclass(slots=True)
class Storage:
    """One block of memory."""

    bytes: int
    window: int
    """Index of the window of its birth."""
    kind: str = ""
    """`weights`, `adapters`, `gradients`, `optimizer`, `batch`, `host` (not on the device); "": by birth."""


@frozen
class TracedPeak:
    """The worst moment of a window."""

    bytes: int
    """Everything alive, each storage rounded up to 512 B."""
    kinds: dict[str, int]
    """The same by kind."""


@dataclass(slots=True)
class Ledger:
    """All events of a run."""

    storages: list[Storage] = field(default_factory=list)
    """By number."""
    events: list[int] = field(default_factory=list)
    """`number` where a storage is born, `~number` where it is freed."""
    windows: list[TracedWindow] = field(default_factory=lambda: [TracedWindow("load")])
    """In order of time."""
    starts: list[int] = field(default_factory=lambda: [0])
    """For each window, the number of events before it."""

    def enter(self, window: TracedWindow) -> None:
        """Whatever happens next belongs to this window."""
        if window != self.windows[-1]:
            self.windows.append(window)
            self.starts.append(len(self.events))

    def born(self, size: int) -> int:
        """A storage was allocated; its number."""
        number = len(self.storages)
        self.storages.append(Storage(size, len(self.windows) - 1))
        self.events.append(number)
        return number

    def freed(self, number: int) -> None:
        """A storage was freed."""
        self.events.append(~number)

    def kind(self, storage: Storage) -> str:
        """What a storage is, by its mark or by where it was born."""
        if storage.kind:
            return storage.kind
        window = self.windows[storage.window]
        if window.phase in {"forward", "load"}:
            return "activations"
        if window.phase == "backward" or window.phase == "tail":
            return "block"
        return {"step": "step-temporaries"}.get(window.phase, "loss")

    def peaks(self) -> list[tuple[TracedWindow, TracedPeak]]:
        """The worst moment of every window, in order; a window starts with what is alive then."""
        kinds = [self.kind(storage) for storage in self.storages]
        sizes = [0 if kind == "host" else rounded(each.bytes) for kind, each in zip(kinds, self.storages, strict=True)]
        alive: dict[str, int] = {}
        total, found = 0, []
        ends = [*self.starts[1:], len(self.events)]
        for window, start, end in zip(self.windows, self.starts, ends, strict=True):
            best, best_kinds = total, dict(alive)
            for at in range(start, end):
                event = self.events[at]
                number = event if event >= 0 else ~event
                change = sizes[number] if event >= 0 else -sizes[number]
                total += change
                alive[kinds[number]] = alive.get(kinds[number], 0) + change
                if total > best:
                    best, best_kinds = total, dict(alive)
            shown = {kind: size for kind, size in best_kinds.items() if size}
            found.append((window, TracedPeak(bytes=best, kinds=shown)))
        return found

    def alive_at(self, event: int) -> list[Storage]:
        """Storages alive after this many events."""
        alive: dict[int, None] = {}
        for each in self.events[:event]:
            if each >= 0:
                alive[each] = None
            else:
                alive.pop(~each, None)
        return [self.storages[number] for number in alive]


def rounded(size: int) -> int:
    """A request as the allocator serves it: at least 512 B, in steps of 512 B; nothing for nothing."""
    return -(-size // ROUND) * ROUND
