"""SYNC001 host-sync-in-loop."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import suspicions
from gpudoctor.analysis.run.steady_run import Run, spot
from gpudoctor.analysis.source.call_frequency import MEASUREMENT_STEPS, brief, measures, step_period
from gpudoctor.analysis.source.device_tensors import DeviceTensors, training_target
from gpudoctor.analysis.source.metrics import OFTEN, is_metric
from gpudoctor.analysis.source.steering_reads import steers
from gpudoctor.analysis.source.syntax_places import lines_at
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import OWN_CHOICE, Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.source import Event, Known, Loop, Script, Source
from gpudoctor.text import percent
from gpudoctor_checks.run_check import RunCheck
from gpudoctor_checks.sync.device_queue import launching_loops
from gpudoctor_checks.sync.device_reads import read_word

_SYNCHRONIZES = frozenset({"torch.cuda.synchronize", "torch.accelerator.synchronize"})
_MANY = re.compile(r"param|dict|modules\(|batch|sample|target|pred|output|\blen\(|\.(size\(0\)|shape\[0\])", re.I)


@frozen
class _Read:
    """One read of the device, or all those of one place."""

    span: SourceSpan
    word: str
    rate: float
    """Reads a step, all calls that lead to the place together; the least, if `repeated`."""
    repeated: bool
    """Whether a loop of unknown length runs it."""
    several: bool
    """Whether a loop over samples, parameters or the like makes a wait of each."""


class HostSyncInLoop(RunCheck):
    """The training loop waits for the GPU in each step to read a value from it.

    What it finds:
        Reads of tensors that live on the GPU, on every pass of a training loop:
        - `.item()`, `.cpu()`, `.tolist()`, `.numpy()`, `float()`, `int()`, `bool()`
        - printing a tensor or branching on one
        - giving one to `SummaryWriter.add_scalar`
    Why it hurts:
        CUDA work is queued; the host runs ahead and prepares the next step. A read must wait until the queue is
        empty. The GPU then idles until the host has queued new work. Steps made of many small kernels suffer
        most.
    How it knows:
        From the source: gpudoctor follows names from the model, the loss and `.to(device)`. It weights reads by
        the conditions around them (`if step % 50 == 0` counts a fiftieth). It also counts the passes of inner
        loops, if they are known. Else the count is "at least". Reads in a loop over samples or parameters that
        launches work between them are a warning, all others a note.
    False alarms:
        A step of hundreds of milliseconds hides one read. Reads in evaluation, under a period, or after an
        explicit synchronize are not reported. Neither are reads in a script that trains on the CPU. SYNC004
        reports those of metrics.
    Remedies:
        Sum on the device and read every N steps; read several values in one transfer. If a value decides what
        the step does, move the decision to the device.
    References:
        - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
    """

    on_gpu = True
    code = "SYNC001"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        Threshold(
            "reads_per_step",
            3,
            "{reads}",
            "PyTorch tuning guide",
            "In a recorded run, this many reads per step are a note.",
        ),
        Threshold(
            "reads_noted",
            1,
            "{reads}",
            "convention: one read a step costs something only a run can price",
            "From this many reads per step on it is a note.",
        ),
        MEASUREMENT_STEPS,
        *Threshold.note_and_warning(
            "Reads that take this share of a recorded run are",
            noted=0.05,
            warned=0.1,
            source="train-doctor warns from 5 %",
            source_warned=OWN_CHOICE,
        ),
    )

    def live(self, patient: Patient, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """Lines that read a tensor; where the device is busy all the while, they wait for its work."""
        seen = of_run.seen_live(window, lambda place: place.kind in ("read", "print-tensor"))
        severity = seen.level(self)
        if severity is None or of_run.hidden(window):
            return
        busy = of_run.device_busy(window)
        idle = say("; the GPU is busy for {busy}", busy=percent(busy)) if busy is not None else ""
        yield seen.finding(
            self,
            say(
                "The host waits at lines that read a tensor, {cost}{where}{idle}.",
                cost=seen.words,
                where=of_run.where(seen.places),
                idle=idle,
            ),
            name="sync_share",
            severity=severity,
            suspected=suspicions(lambda: self.suspected(patient), seen),
            detail=Facts(reads=1.0),
        )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        """Reads by their share of time; many a step count too where the device has to be waited for."""
        elsewhere = {
            (span.path, span.line) for span in of_run.price(patient, run, owners=(of_run.LineOwner.METRICS,)).spans
        }
        seen = of_run.price(
            patient,
            run,
            phases=("sync",),
            wanted=lambda site: (
                # what waits for a cache, garbage or the whole device waits for no value
                not of_run.collects(site.what)
                and not site.what.endswith("synchronize")
                and _place(patient, site) not in elsewhere
            ),
        )
        severity = seen.level(self)
        reads = run.per_step("reads")
        if severity is None and reads >= self.limit("reads_per_step"):
            severity = Severity.NOTE
        if severity is None or not seen.sites:
            return
        often = say("once") if f"{seen.calls:.2g}" == "1" else say("{calls:.2g} times", calls=seen.calls)
        yield seen.finding(
            self,
            say(
                "The host waits {share} of the time to read values, {often} a step ({call}){where}{meanwhile}.",
                share=percent(seen.host),
                often=often,
                call=seen.what,
                where=seen.where,
                meanwhile=of_run.meanwhile(run, seen),
            ),
            name="sync_share",
            severity=severity,
            suspected=suspected,
            detail=Facts(reads=round(max(reads, seen.calls), 2)),
            numbers=(run.measured("reads_per_step", reads, "{reads}"),),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        if not training_target(source).on_gpu:
            return
        for script, loop in source.training_loops:
            if measures(loop) or brief(script, loop, self.limit("measurement_steps")):
                continue
            yield from self._from_source(source, script, loop)

    def _from_source(self, source: Source, script: Script, loop: Loop) -> Iterator[Finding]:
        runs = _reads(loop)
        reads = _places(runs)
        if not reads or sum(read.rate for read in reads) < self.limit("reads_noted"):
            return
        often = [read for read in reads if read.rate >= self.limit("reads_noted")]
        # A value that the step goes by cannot be read less often: alone it is worth knowing, no more.
        free = [read for read in runs if not steers(source, read.span)]
        warn = any(read.several and read.rate >= self.limit("reads_noted") for read in free)
        reads = often or reads
        total = sum(read.rate for read in reads)
        yield self.finding(
            say(
                "Every training step reads a value from the GPU {least}{many} ({reads}; {places}).",
                least=say("at least ") if any(read.repeated for read in reads) else "",
                many=say("once") if round(total) <= 1 else say("{reads} times", reads=round(total)),
                reads=concatenated(", ", dict.fromkeys(read.word for read in reads)),
                places=lines_at((read.span for read in reads), script.path),
            ),
            evidence=tuple(read.span for read in reads[:8]),
            severity=Severity.WARNING if warn else Severity.NOTE,
            subject=f"{script.path}:{loop.span.line}",
            detail=Facts(reads=round(total, 2)),
        )


def _place(patient: Patient, site: "of_run.Site") -> tuple[str, int]:
    span = spot(patient, site.place)
    return span.path, span.line


def _reads(loop: Loop) -> list[_Read]:
    """Reads of one pass in order, one for each call that leads to a place."""
    tensors = DeviceTensors(loop)
    launching = launching_loops(loop, tensors)
    elsewhere = set(_elsewhere(loop))
    found: list[_Read] = []
    seen: set[tuple[object, ...]] = set()
    drained = False
    for event in loop.events:
        if event.call is not None and event.call.name in _SYNCHRONIZES and event.every_pass:
            drained = True
        rate = _rate(event, loop)
        if drained or rate == 0 or id(event.node) in elsewhere:
            continue
        word = read_word(event, loop, tensors)
        if word:
            key = (event.span.path, event.span.line, event.span.column)
            if (key, event.via) in seen:
                continue
            seen.add((key, event.via))
            found.append(
                _Read(
                    span=event.span,
                    word=word,
                    rate=rate,
                    repeated=_may_be_more(event, loop),
                    several=_over_data(event, loop) and id(event.inner[-1]) in launching,
                )
            )
    return found


def _key(read: _Read) -> tuple[str, int, int]:
    return read.span.path, read.span.line, read.span.column


def _places(runs: list[_Read]) -> list[_Read]:
    """Each place once, all calls that lead to it together."""
    found: dict[tuple[str, int, int], _Read] = {}
    for read in runs:
        before = found.get(_key(read))
        if before is not None:
            rate, repeated = read.rate + before.rate, read.repeated or before.repeated
            found[_key(read)] = replace(read, rate=rate, repeated=repeated)
        else:
            found[_key(read)] = read
    return list(found.values())


def _rate(event: Event, loop: Loop) -> float:
    """Runs a step, the least that is known: 0 when it does not run in training."""
    period = step_period(event)
    if period is None:
        return 0.0
    passes = _passes(event, loop)
    return (1 if passes is None else passes) / period


def _passes(event: Event, loop: Loop) -> int | None:
    """How often the loops inside the training loop run an event on one pass; None when that is not known."""
    passes = 1
    for inner in event.inner:
        if inner is loop:
            continue
        count = inner.count
        if not isinstance(count, Known) or not isinstance(count.value, int):
            return None
        passes *= max(0, int(count.value))
    return passes


def _may_be_more(event: Event, loop: Loop) -> bool:
    """Whether the inner loops may have more passes than are counted: not known, or one pass by a default."""
    counts = [inner.count for inner in event.inner if inner is not loop]
    return _passes(event, loop) is None or any(
        isinstance(count, Known) and count.value == 1 and count.origin.startswith("default of") for count in counts
    )


def _over_data(event: Event, loop: Loop) -> bool:
    """Whether an inner loop that runs an event goes over samples, parameters or the like: those are several."""
    return any(inner is not loop and inner.iterates and _MANY.search(inner.iterates) for inner in event.inner)


def _often(event: Event) -> bool:
    """Whether it runs so often that metrics there are an ailment of their own (SYNC004)."""
    period = step_period(event)
    return period is not None and period < OFTEN


def _elsewhere(loop: Loop) -> Iterator[int]:
    """Nodes whose reads are not this check's: of calls of metric libraries, which SYNC004 tells of, and what an
    environment on the host has to have (`env.step(...)`)."""
    for event in loop.events:
        call = event.call
        if call is not None and is_metric(call) and _often(event):
            yield from map(id, ast.walk(call.node))
        elif call is not None and call.method == "step" and "env" in call.receiver.lower():
            yield from (id(node) for argument in call.node.args for node in ast.walk(argument))
