"""DATA004 unpinned-transfer."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run, dear, site_spans, sites_of
from gpudoctor.analysis.source.device_tensors import Target, training_target
from gpudoctor.analysis.source.device_transfers import Transfer, batch_moves
from gpudoctor.analysis.source.loaders import Loader, LoaderRole, loaders
from gpudoctor.analysis.source.syntax import walk
from gpudoctor.analysis.source.syntax_places import lines_at
from gpudoctor.lang import say, template
from gpudoctor.model import Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Known, LoopRole, Source
from gpudoctor.text import duration, percent
from gpudoctor_checks.run_check import RunCheck

_COPIES = 40
"""Copies that are named: a remedy is whole only with all of them."""
_WORDS = {
    "blocking": template(
        "Batches of {loader} are pinned, but the copy to the GPU blocks ({where}): non_blocking is off."
    ),
    "pageable": template(
        "Batches of {loader} are copied with non_blocking=True from pageable memory "
        "({where}; pin_memory is off), so the copy still blocks."
    ),
    "unpinned": template(
        "Batches of {loader} are copied to the GPU from pageable memory ({where}): pin_memory is off."
    ),
}
"""What a copy lacks, by `UnpinnedTransferDetail.kind`."""


@frozen
class UnpinnedTransferDetail(Detail):
    """What the rule reads."""

    kind: str
    """`blocking`, `unpinned` or `pageable`."""
    settable: bool
    """An edit may set the loader's keyword."""
    workers: int | None = None


class UnpinnedTransfer(RunCheck):
    """Batches are copied to the GPU from pageable memory, or by a needlessly blocking copy.

    What it finds:
        - A training loader without `pin_memory` whose batches are copied to a CUDA device.
        - `non_blocking=True` on such a copy, which then has no effect.
        - A blocking copy of pinned batches.
    Why it hurts:
        The driver copies pageable memory through its own pinned buffer while the host waits. The bandwidth is a
        half to a third. From pinned memory, with `non_blocking=True`, the copy overlaps with the previous
        step's kernels.
    How it knows:
        From the source: gpudoctor follows the loader to its training loop, and the batch to its `.to(device)`
        or `.cuda()`. Only a run shows the cost, so it is a note.
    False alarms:
        Long steps and small batches have little to gain. Without workers, pinning costs time of the training
        process. Data that is already on the GPU, and scripts that train on the CPU, are not reported.
    Remedies:
        Set pin_memory=True on the loader and non_blocking=True on the copy, together.
    References:
        - https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html
        - https://pytorch.org/docs/stable/data.html#memory-pinning
    """

    on_gpu = True
    code = "DATA004"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        *Threshold.note_and_warning(
            "Copies to the device that take this share of a recorded run are",
            noted=0.02,
            warned=0.10,
            source="convention: a fiftieth of a run is not worth an edit",
            source_warned="DATA005's threshold, whose copies are the same",
        ),
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        loader = of_run.training_loader(run.lead.process)
        on_device = any(state.known("device_forward") for state in run.states)
        severity = self.level(run.worth(run.share("transfer")))
        if severity is None or not on_device or loader is None or (loader.pinned and not suspected):
            return
        spans = of_run.loader_spans(patient, loader.place)
        spans += site_spans(patient, dear(sites_of(run, "transfer")))
        yield of_run.seen_in_run(run, run.share("transfer"), spans).finding(
            self,
            say(
                "Copying batches to the device takes {share} of the time, {per_step} a step.",
                share=percent(run.share("transfer")),
                per_step=duration(run.per_step("transfer")),
            ),
            name="transfer_share",
            severity=severity,
            suspected=suspected,
            detail=UnpinnedTransferDetail(
                kind="blocking" if loader.pinned else "unpinned",
                workers=loader.workers,
                settable=of_run.loader_call(patient, loader.place, "pin_memory").settable,
            ),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        if training_target(source) not in (Target.CUDA, Target.MAYBE, Target.OTHER):
            return
        for loader in loaders(source):
            if loader.role is LoaderRole.TRAINING and not loader.engine:
                yield from self._from_source(source, loader)

    def _from_source(self, source: Source, loader: Loader) -> Iterator[Finding]:
        pinned = loader.pinned
        if not isinstance(pinned, Known):
            return
        copies: list[Transfer] = []
        for _, loop in loader.loops:
            if loop.role is LoopRole.TRAINING:
                copies += [move for move in batch_moves(source, loop) if move.device != "cpu" and _as_it_is(move)]
        copies = list({id(move.call.node): move for move in copies}.values())
        if pinned.value:
            copies = [move for move in copies if move.non_blocking is False]
        if not copies:
            return
        pageable = "pageable" if any(move.non_blocking for move in copies) else "unpinned"
        kind = "blocking" if pinned.value else pageable
        where = lines_at([move.call.span for move in copies], loader.script.path)
        yield self.finding(
            say(_WORDS[kind], loader=loader.label, where=where),
            evidence=(loader.call.span, *(move.call.span for move in copies[:_COPIES])),
            detail=UnpinnedTransferDetail(kind=kind, workers=_workers(loader), settable=loader.settable("pin_memory")),
        )


def _as_it_is(move: Transfer) -> bool:
    """Whether a part of the batch is copied itself: `x.float().cuda()` copies a new tensor, in pageable memory."""
    return not any(isinstance(part, ast.Call) for part in walk(move.call.node.func))


def _workers(loader: Loader) -> int:
    value = loader.workers
    return int(value.value) if isinstance(value, Known) and isinstance(value.value, int) else -1
