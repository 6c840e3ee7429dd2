"""A snapshot of the device's allocator, as torch.cuda.memory._dump_snapshot writes it: who holds the memory."""

from gpudoctor.model.records import frozen


@frozen
class HeldBy:
    """Memory that one line of the user's holds."""

    path: str
    """As Python had it; "" where no frame of the user's was recorded."""
    line: int
    function: str
    bytes: int
    blocks: int


@frozen
class Refused:
    """An allocation that the device had no memory for (an `oom` of the history)."""

    requested: int
    free: int | None
    """Bytes that the driver still had; None where it was not recorded."""
    reserved: int | None
    """Bytes that the allocator held then, by the history up to now; None without a history of segments."""
    allocated: int | None
    """Bytes that were in use then, likewise."""
    at: HeldBy


@frozen
class Kept:
    """What a line allocated in the steps of the history and is held at its end."""

    by: HeldBy
    """The line, with the bytes and blocks of these steps alone."""
    steps: int
    """Steps of which something is held."""
    of: int
    """Steps that were looked at: without the first ones, which make states, and the last, which is not over."""


@frozen
class DeviceMemory:
    """The allocator of one device at the moment of the snapshot. All sizes in bytes."""

    device: int
    allocated: int
    """In use, rounded up by the allocator."""
    reserved: int
    """In segments, in use or not."""
    loose: int
    """Not in use, in segments of which another part is: it cannot be given back."""
    held: tuple[HeldBy, ...]
    """By line of the user's, most first."""
    peak: int | None = None
    """The most that was asked for at a time during the history; None without one."""
    kept: tuple[Kept, ...] = ()
    """By line, most bytes first; empty where the history marks too few steps of an optimizer."""
    refused: tuple[Refused, ...] = ()


@frozen
class MemorySnapshot:
    """One file."""

    path: str
    devices: tuple[DeviceMemory, ...]
    """Those with a segment or an event, by number."""
    events: int
    """Entries of the history of allocations; 0 where none was recorded."""
