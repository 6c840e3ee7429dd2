"""DATA004 unpinned-transfer."""

from collections.abc import Iterator

from gpudoctor.model import Check, Code, Confidence, Finding, Patient, Reads, Severity
from gpudoctor.model.reading.device_use import Target, training_target
from gpudoctor.model.reading.loaders import Loader, LoaderRole, loaders
from gpudoctor.model.reading.moves import Move, batch_moves
from gpudoctor.model.signs.source import Known, LoopRole


class UnpinnedTransfer(Check):
    """Batches go to the GPU from pageable memory, or wait for a copy that need not block.

    What it finds:
        A training loader without `pin_memory` whose batches are copied to a CUDA device;
        `non_blocking=True` on such a copy, which then has no effect; a blocking copy of pinned batches.
    Why it hurts:
        The driver stages a copy from pageable memory through its own pinned buffer while the host waits, at a
        half to a third of the bandwidth. From pinned memory, with `non_blocking=True`, the copy runs beside
        the previous step's kernels.
    How it knows:
        From the source: the loader is followed to the training loop that draws from it, and the batch to its
        `.to(device)` or `.cuda()`. What it costs, only a run can tell, so it is a note.
    False alarms:
        Small batches and long steps have little to gain. Without workers the pinning itself takes the training
        process's time. Data that lives on the GPU, and scripts that train on the CPU, are silent.
    Remedies:
        pin_memory=True on the loader and non_blocking=True on the copy, together.
    References:
        - https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html
        - https://pytorch.org/docs/stable/data.html#memory-pinning
    """

    code = Code("DATA004")
    name = "unpinned-transfer"
    reads = frozenset({Reads.SOURCE})
    severity = Severity.NOTE

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        if training_target(source) not in (Target.CUDA, Target.MAYBE, Target.OTHER):
            return
        for loader in loaders(source):
            if loader.role is LoaderRole.TRAINING:
                yield from self._engine(loader) if loader.engine else self._from_source(loader)

    def _engine(self, loader: Loader) -> Iterator[Finding]:
        """transformers' Trainer pins by default: only switching it off is worth a word."""
        pinned = loader.pinned
        if isinstance(pinned, Known) and pinned.value is False:
            yield self.finding(
                f"{loader.call.method} switches pinned memory off: batches are copied to the GPU from pageable "
                "memory.",
                evidence=(loader.call.span,),
                confidence=Confidence.SUSPECTED,
                subject=f"{loader.script.path}:{loader.call.span.line}",
                facts=(("kind", "engine"), ("settable", loader.settable("pin_memory"))),
            )

    def _from_source(self, loader: Loader) -> Iterator[Finding]:
        pinned = loader.pinned
        if not isinstance(pinned, Known):
            return
        copies: list[Move] = []
        for script, loop in loader.loops:
            if loop.role is LoopRole.TRAINING:
                copies += [move for move in batch_moves(script, loop) if move.device != "cpu"]
        copies = list({id(move.call.node): move for move in copies}.values())
        if not copies:
            return
        if pinned.value:
            copies = [move for move in copies if move.non_blocking is False]
            if not copies:
                return
            message = (
                f"Batches of {loader.label} are pinned, but the copy to the GPU blocks ({_lines(copies)}): "
                "non_blocking is off."
            )
            kind = "blocking"
        elif any(move.non_blocking for move in copies):
            message = (
                f"{_lines(copies).capitalize()}: batches of {loader.label} are copied with non_blocking=True "
                "from pageable memory (pin_memory is off), so the copy blocks all the same."
            )
            kind = "pageable"
        else:
            message = (
                f"Batches of {loader.label} are copied to the GPU from pageable memory ({_lines(copies)}): "
                "pin_memory is off."
            )
            kind = "unpinned"
        yield self.finding(
            message,
            evidence=(loader.call.span, *(move.call.span for move in copies[:8])),
            confidence=Confidence.SUSPECTED,
            subject=f"{loader.script.path}:{loader.call.span.line}",
            facts=(("kind", kind), ("workers", _workers(loader)), ("settable", loader.settable("pin_memory"))),
        )


def _lines(copies: list[Move]) -> str:
    lines = sorted({move.call.span.line for move in copies})
    return f"line {lines[0]}" if len(lines) == 1 else "lines " + ", ".join(str(line) for line in lines[:6])


def _workers(loader: Loader) -> int:
    value = loader.workers
    return int(value.value) if isinstance(value, Known) and isinstance(value.value, int) else -1
