"""torch's caching allocator on paper: what it would reserve for a row of allocations and frees.

Rules of c10/cuda/CUDACachingAllocator.cpp with default settings: requests are rounded up to 512 B; up to 1 MiB
they are cut from 2 MiB segments (the small pool), below 10 MiB from 20 MiB segments, from there on they get a
segment rounded up to 2 MiB; the smallest free block that is large enough is taken, and split where at least
512 B (small) or more than 1 MiB (large) would be left; freed neighbours of one segment are joined; segments are
never given back.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpudoctor.estimate.traced.ledger import Ledger, rounded

MIB = 1 << 20
SMALL = MIB
"""Largest request of the small pool."""
SMALL_SEGMENT, LARGE_SEGMENT, OWN_SEGMENT = 2 * MIB, 20 * MIB, 10 * MIB
STEP = 2 * MIB


@dataclass(slots=True)
class _Block:
    size: int
    address: int
    small: bool
    free: bool = True
    before: "_Block | None" = None
    after: "_Block | None" = None


@dataclass(slots=True)
class Allocator:
    """The allocator of one device and stream."""

    allocated: int = 0
    """Bytes handed out: what torch.cuda.memory_allocated says (a block that is not split counts whole)."""
    reserved: int = 0
    """Bytes of segments: what torch.cuda.memory_reserved says."""
    peak_allocated: int = 0
    """The most that was handed out at a time."""
    _free: dict[bool, list[tuple[int, int]]] = field(default_factory=lambda: {True: [], False: []})
    _blocks: dict[int, _Block] = field(default_factory=dict)
    _end: int = 0

    def malloc(self, size: int) -> int:
        """An address for `size` bytes."""
        size = max(rounded(size), 512)
        small = size <= SMALL
        free = self._free[small]
        at = bisect_left(free, (size, -1))
        if at < len(free):
            block = self._blocks[free.pop(at)[1]]
        else:
            block = self._segment(size, small)
        self._split(block, size)
        block.free = False
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block.address

    def free(self, address: int) -> None:
        """Give a block back and join it with free neighbours."""
        block = self._blocks[address]
        self.allocated -= block.size
        block.free = True
        if block.before is not None and block.before.free:
            block = self._joined(block.before, block, known=block.before)
        if block.after is not None and block.after.free:
            block = self._joined(block, block.after, known=block.after)
        insort(self._free[block.small], (block.size, block.address))

    def _segment(self, size: int, small: bool) -> _Block:
        """A new segment as one block."""
        whole = SMALL_SEGMENT if small else LARGE_SEGMENT if size < OWN_SEGMENT else -(-size // STEP) * STEP
        block = _Block(whole, self._end, small)
        self._blocks[self._end] = block
        self._end += whole
        self.reserved += whole
        return block

    def _split(self, block: _Block, size: int) -> None:
        left = block.size - size
        if left < 512 or (not block.small and left <= SMALL):
            return
        rest = _Block(left, block.address + size, block.small, before=block, after=block.after)
        if rest.after is not None:
            rest.after.before = rest
        block.after, block.size = rest, size
        self._blocks[rest.address] = rest
        insort(self._free[block.small], (rest.size, rest.address))

    def _joined(self, low: _Block, high: _Block, *, known: _Block) -> _Block:
        """Two neighbours as one; `known` is the one that stands in the list of free blocks."""
        free = self._free[low.small]
        free.pop(bisect_left(free, (known.size, known.address)))
        del self._blocks[high.address]
        low.size += high.size
        low.after = high.after
        if low.after is not None:
            low.after.before = low
        return low


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the allocator's counters say at the end of a run."""

    allocated: int
    """torch.cuda.max_memory_allocated, bytes."""
    reserved: int
    """torch.cuda.max_memory_reserved, bytes."""


def replay(ledger: Ledger, extra: Iterable[int] = ()) -> Reading:
    """The run of a ledger on a fresh device: first what is alive when its first step begins, as a loaded model
    is, then everything in order. `extra` are allocations that stay (workspaces)."""
    allocator = Allocator()
    first = next((at for at, window in enumerate(ledger.windows) if window.phase != "load"), None)
    begin = len(ledger.events) if first is None else ledger.starts[first]
    alive: dict[int, int] = {}
    for number, freed in ((each, False) if each >= 0 else (~each, True) for each in ledger.events[:begin]):
        if freed:
            alive.pop(number, None)
        else:
            alive[number] = 0
    addresses = {number: allocator.malloc(ledger.storages[number].bytes) for number in alive if _counts(ledger, number)}
    for size in extra:
        allocator.malloc(size)
    for event in ledger.events[begin:]:
        if event >= 0:
            if _counts(ledger, event):
                addresses[event] = allocator.malloc(ledger.storages[event].bytes)
        elif ~event in addresses:
            allocator.free(addresses.pop(~event))
    return Reading(allocated=allocator.peak_allocated, reserved=allocator.reserved)


def _counts(ledger: Ledger, number: int) -> bool:
    storage = ledger.storages[number]
    return storage.bytes > 0 and storage.kind != "host"
