"""OBS007: a log is flushed, synced to disk or opened anew on every training step."""

import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run
from gpudoctor.analysis.source.call_frequency import TrainingCall, calls_in_training, full_batch, often
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.signs.source import Call, Known
from gpudoctor.text import count
from gpudoctor_checks.run_check import RunCheck

_SYNCS = frozenset({"os.fsync", "os.fdatasync"})
_OPENS = frozenset({"open", "builtins.open"})
_FILE = re.compile(r"(?:^|[._])(?:f|fp|fh|file|log|logs|out|output|csv|writer|tb|tensorboard|logger|handler|sw)\w*$")


class LogFlush(RunCheck):
    """A log is flushed, synced to disk or opened again in every training step.

    What it finds:
        On each pass of a training loop, or more often than every ten:
        - `flush()` of a SummaryWriter or a file
        - `os.fsync`
        - a log file opened for appending and closed again
    Why it hurts:
        A buffer exists so that many lines cost one write. Each step waits for a system call (flush), for a
        writer thread (`SummaryWriter.flush`) or for the disk itself (`fsync`). That is a millisecond on a local
        drive, and 10 to 100 ms on a network file system.
    How it knows:
        From the source: which calls a pass reaches, functions followed, and under which conditions. It is a
        note, since only a run shows the cost; `fsync` in each step is a warning.
    False alarms:
        Flushes once an epoch, every ten steps or less often, on failure or in evaluation are not reported.
        Neither are those of standard output. A crash loses the lines that are still in the buffer: at most the
        last few.
    Remedies:
        Remove the flush and let the buffer work (`SummaryWriter(flush_secs=...)`); open the file once.
    References:
        - https://pytorch.org/docs/stable/tensorboard.html#torch.utils.tensorboard.writer.SummaryWriter
    """

    code = "OBS007"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            "flush_period",
            10,
            "{steps}",
            "the catalogue's S4 (training-step fix): log every 10 to 50 steps",
            "Flushing more often than once in this many steps is a finding.",
        ),
        *Threshold.note_and_warning(
            "Flushes that take this share of a recorded run are",
            noted=0.02,
            warned=0.05,
            source="OBS002's threshold, of which it is a part",
        ),
        Threshold(
            "share_crowded",
            0.10,
            "1",
            "OBS002's share_rare: on a busy machine a write causes a context switch",
            "Below this share it is a note if other processes keep all CPUs busy.",
        ),
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        seen = of_run.price(
            patient, run, owners=(of_run.LineOwner.FLUSHING,), wanted=lambda site: of_run.flushes(site.what)
        )
        severity = seen.level(self)
        if severity is None:
            return
        crowded = of_run.crowd(run.recording) is not None
        if crowded and seen.share < self.limit("share_crowded"):
            severity = Severity.NOTE
        yield seen.finding(
            self,
            say(
                "Flushing log files takes {cost}{of_a_step}{where}{crowded}.",
                cost=seen.words,
                of_a_step=seen.of_a_step,
                where=seen.where,
                crowded=of_run.BESIDE_OTHERS if crowded else "",
            ),
            name="flush_share",
            severity=severity,
            suspected=suspected,
            detail=Facts(kind="sync" if seen.sites else "flush"),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        flushes = calls_in_training(
            patient.source, lambda item: _kind(item.call), every=self.limit("flush_period"), skip=full_batch
        )
        return map(self._from_source, flushes)

    def _from_source(self, found: list[TrainingCall]) -> Finding:
        order = ("sync", "open", "flush")
        found = sorted(found, key=lambda item: (order.index(_kind(item.call)), item.period))
        first, loop = found[0], found[0].loop
        kind = _kind(first.call)
        words = {
            "sync": say("{call}() waits for the disk", call=first.call.name),
            "open": say("a file is opened for appending and closed again"),
            "flush": say("{receiver}.flush() empties its buffer", receiver=first.call.receiver),
        }
        more = say(", and {calls}", calls=count(len(found) - 1, "more such call")) if len(found) > 1 else ""
        return self.finding(
            say(
                "{flushing} {often} (loop at line {line}){more}.",
                flushing=words[kind],
                often=often(first.period),
                line=loop.span.line,
                more=more,
            ),
            evidence=tuple(item.event.span for item in found[:6]),
            severity=Severity.WARNING if kind == "sync" else Severity.NOTE,
            subject=f"{first.script.path}:{loop.span.line}",
            detail=Facts(kind=kind),
        )


def _kind(call: Call) -> str:
    """How a call empties a buffer: `sync`, `flush` or `open`; "" if it does not."""
    if call.name in _SYNCS:
        return "sync"
    if call.method == "flush" and not call.node.args:
        known = call.name.endswith("SummaryWriter.flush")
        return "flush" if known or _FILE.search(call.receiver.lower()) else ""
    mode = call.argument("mode", 1) if call.name in _OPENS else None
    return "open" if isinstance(mode, Known) and str(mode.value).startswith("a") else ""
