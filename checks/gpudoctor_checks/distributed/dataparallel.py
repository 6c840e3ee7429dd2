"""DIST005 dataparallel."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.model import Check, Code, Confidence, Finding, Patient, Reads, Severity, Threshold, Unavailable
from gpudoctor.model.amounts import capitalised
from gpudoctor.model.devices import job_gpus
from gpudoctor.model.reading.device_use import Target
from gpudoctor.model.reading.parallel import SHARDED
from gpudoctor.model.reading.places import lines_at
from gpudoctor.model.reading.programs import Program, training_programs
from gpudoctor.model.reading.recordings.costs import place_of
from gpudoctor.model.reading.recordings.facts import gpus_here, wrapped
from gpudoctor.model.reading.recordings.judged import judged, measured, ran_on_cpu, spot
from gpudoctor.model.reading.recordings.pricing import confirmed, suspicions
from gpudoctor.model.signs.source import Call, Known

_MORE_THAN_ONE = re.compile(r"(\w{0,80}gpus?) > 1\b")
_NAMES = ("torch.nn.DataParallel", "torch.nn.parallel.data_parallel")


class Dataparallel(Check):
    """The model trains on several GPUs through DataParallel: one process, one thread a GPU.

    What it finds:
        A model wrapped in `torch.nn.DataParallel` (or `data_parallel`) in a program that trains.
    Why it hurts:
        One process drives every GPU under Python's one lock. On each step it copies the model to all GPUs,
        scatters the batch from the first one and gathers the outputs there, so the first GPU fills up and the
        others wait. DistributedDataParallel keeps one process a GPU and sends gradients while backward runs.
    How it knows:
        From the source. A switch that is off by default, and a program that also has DistributedDataParallel
        or FSDP (DataParallel is its other branch), are silent; so is a recorded run on the CPU. With one GPU
        on this machine it is a note.
    False alarms:
        A machine with one GPU loses nothing; a quick experiment on two GPUs may not be worth the change.
    Remedies:
        DistributedDataParallel, started by torchrun with one process a GPU.
    References:
        - https://pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
        - https://pytorch.org/tutorials/intermediate/ddp_tutorial.html
    """

    code = Code("DIST005")
    name = "dataparallel"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="gpus",
            default=2,
            unit="{gpus}",
            source="torch: with one device DataParallel calls the module itself",
            meaning="With fewer GPUs it is a note.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient)
        suspected = suspicions(lambda: self._suspected(patient), run, refuted=ran_on_cpu(patient))
        process = run.lead.process if run is not None else None
        if run is None or process is None or not process.of("model"):
            yield from suspected
            return
        model = wrapped(process, "DataParallel")
        if model is None or gpus_here(run.recording) < self.limit("gpus"):
            return
        where = place_of(model)
        yield confirmed(
            self,
            suspected,
            f"{model.get('name')} is trained by DataParallel: one process drives "
            f"{gpus_here(run.recording)} GPUs and "
            "copies the model to all of them in every step.",
            share=None,
            spans=[spot(patient, where)] if where is not None else [],
            severity=Severity.WARNING,
            run=run,
            numbers=(measured("gpus", gpus_here(run.recording), "{gpus}", run.recording),),
        )

    def _suspected(self, patient: Patient) -> Iterator[Finding]:
        seen: set[tuple[str, int]] = set()
        for program in training_programs(patient.source):
            if not program.called & set(_NAMES) or program.target is Target.CPU or _other_ways(program):
                continue
            gpus = _gpus(patient)
            few = gpus is not None and gpus < self.limit("gpus")
            calls = [
                call
                for script, call in program.calls
                if call.name in _NAMES
                and not _one_device(program, call)
                and (script.path, call.span.line) not in seen
            ]
            if not calls:
                continue
            spans = tuple(dict.fromkeys(call.span for call in calls))
            seen |= {(span.path, span.line) for span in spans}
            here = f"; {gpus} GPU{'s are' if gpus != 1 else ' is'} here" if gpus is not None else ""
            where = lines_at(spans)
            wraps = "wraps the model" if len(spans) == 1 else "wrap the models"
            yield self.finding(
                f"{capitalised(where)} {wraps} in DataParallel: one process copies "
                f"{'it' if len(spans) == 1 else 'them'} to every GPU on every step{here}.",
                evidence=(*spans[:8], next(program.loops)[1].span),
                confidence=Confidence.SUSPECTED,
                severity=Severity.NOTE if few else Severity.WARNING,
                subject=f"{spans[0].path}:{spans[0].line}",
                facts=(("gpus", gpus or 0), ("script", program.entry.path)),
            )


def _other_ways(program: Program) -> bool:
    """Whether the program has a better way too, whatever its name is imported from."""
    return bool(program.called & SHARDED) or any(
        name.endswith("DistributedDataParallel") for name in program.called
    )


def _one_device(program: Program, call: Call) -> bool:
    """Whether the call runs only behind a switch that is off, or with more GPUs than the options ask for."""
    if call.guards and not program.starts:
        return True  # whoever starts the training sets the switch
    given = next((item.value for item in call.node.keywords if item.arg == "device_ids"), None)
    if given is None and len(call.node.args) > 1:
        given = call.node.args[1]
    if isinstance(given, ast.List | ast.Tuple) and len(given.elts) == 1:
        return not isinstance(given.elts[0], ast.Starred)  # torch then calls the module itself
    for guard in call.guards:
        if guard.never:
            return True
        count = _MORE_THAN_ONE.search(guard.text)
        for script in program.scripts if count is not None else ():
            value = script.arguments.get(count[1]) if count is not None else None
            if isinstance(value, Known) and isinstance(value.value, int) and value.value <= 1:
                return True
    return False


def _gpus(patient: Patient) -> int | None:
    try:
        return len(job_gpus(patient))
    except Unavailable:
        return None
