"""The verdict on a file that holds no run: a saved kernel log, a memory snapshot."""

from collections.abc import Sequence

from gpudoctor.model import Outcome, Passed, Patient, Ranked, Severity
from gpudoctor.model.amounts import count, joined, size
from gpudoctor.model.signs.kernel_log import KernelLog
from gpudoctor.model.signs.memory_snapshot import DeviceMemory, MemorySnapshot
from gpudoctor.model.workload import optional


def pronounce_saved(patient: Patient, ranked: Sequence[Ranked], outcomes: Sequence[Outcome]) -> str:
    """What such a file shows; "" for any other."""
    if (log := _saved_log(patient)) is not None:
        return _of_log(patient.title, log, ranked, outcomes)
    if (snapshot := optional(lambda: patient.memory_snapshot)) is not None:
        return _of_snapshot(patient.title, snapshot)
    return ""


def _saved_log(patient: Patient) -> KernelLog | None:
    """The kernel log that was named; this machine's own, read or not, is no concern of a verdict."""
    log = optional(lambda: patient.kernel_log)
    return log if log is not None and log.saved else None


def _of_log(title: str, log: KernelLog, ranked: Sequence[Ranked], outcomes: Sequence[Outcome]) -> str:
    """What a saved kernel log tells: of the machine that wrote it, at the time that it was written."""
    severities = [item.finding.severity for item in ranked]
    errors, warnings = severities.count(Severity.ERROR), severities.count(Severity.WARNING)
    counts = ", ".join(
        count(number, word) for number, word in ((errors, "error"), (warnings, "warning")) if number
    )
    if errors:
        return f"The machine that wrote {title} was not fit for training ({counts})."
    if warnings:
        return f"{title} holds events of the GPU driver that need a look ({counts})."
    if ranked:
        return f"{title} holds no event of the GPU driver above a note ({count(len(ranked), 'note')})."
    messages = count(log.read or 0, "kernel message")
    looked = any(isinstance(item, Passed) and not item.silenced for item in outcomes)
    return (
        f"{title} holds {messages} and no Xid event."
        if looked
        else f"{title} holds {messages}; no check passed."
    )


def _of_snapshot(title: str, snapshot: MemorySnapshot) -> str:
    """What a snapshot of the allocator shows: how much is held, and by which lines."""
    if not snapshot.devices:
        return f"{title} holds no memory of a device."
    return f"{title}: " + " ".join(_of_device(device) for device in snapshot.devices)


def _of_device(memory: DeviceMemory) -> str:
    lines = [
        f"{item.path.rpartition('/')[2]}:{item.line} ({size(item.bytes)})"
        for item in memory.held
        if item.path and item.bytes
    ][:3]
    unknown = sum(item.bytes for item in memory.held if not item.path)
    sentences = [
        f"device {memory.device} has {size(memory.allocated)} in use of {size(memory.reserved)} reserved, "
        f"and {size(memory.loose)} in fragments."
    ]
    if lines:
        sentences.append(f"Most is held by {joined(lines)}.")
    if unknown:
        sentences.append(f"For {size(unknown)} no line of the program was recorded.")
    if memory.refused:
        sentences.append(f"An allocation was refused {count(len(memory.refused), 'time')}.")
    return " ".join(sentences)
