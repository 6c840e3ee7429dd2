"""OBS005: a debugging facility stays on through the training."""

import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run, spots
from gpudoctor.analysis.source.call_frequency import brief, step_period
from gpudoctor.analysis.source.control_flow import switched_off, withs_of
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, Reads, Severity, Threshold, Trait, Whose
from gpudoctor.model.evidence import Measurement, Provenance
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Call, Known, Script, Source
from gpudoctor.text import percent
from gpudoctor_checks.declared import kept_on
from gpudoctor_checks.run_check import RunCheck
from gpudoctor_checks.thresholds import PROFILED_STEPS


@frozen
class _Facility:
    """One debugging facility and how a call of it is read."""

    what: str
    """What it does, for the message."""
    heavy: bool = False
    """Known to cost at least 5 % of a step in practice; else a note."""
    flag: tuple[str, int] | None = None
    """The argument that switches it, keyword and position; absent means on."""
    lasting: bool = False
    """Stays on after the call; else it acts in the block or at the call."""
    window: str = ""
    """Pattern of its windows in a recording."""


ANOMALY = say("anomaly mode records a stack trace for each operation of the forward pass and tests every gradient")

FACILITIES = {
    "torch.autograd.set_detect_anomaly": _Facility(
        what=ANOMALY, heavy=True, flag=("mode", 0), lasting=True, window="anomaly"
    ),
    "torch.autograd.detect_anomaly": _Facility(what=ANOMALY, heavy=True),
    "torch.autograd.gradcheck": _Facility(
        what=say("gradcheck runs two forward passes in double for each input element"), heavy=True
    ),
    "torch.autograd.profiler.emit_nvtx": _Facility(
        what=say("every operation is wrapped in a marker"), window="emit-nvtx|^nvtx"
    ),
    "torch.cuda._record_memory_history": _Facility(
        what=say("the allocator records a stack trace for each allocation"),
        flag=("enabled", 0),
        lasting=True,
        window="memory-history",
    ),
}
"""Resolved names. Anomaly mode and gradcheck: the PyTorch tuning guide says to switch them off; measured on a
small transformer on a CPU (torch 2.13), anomaly mode made a step 2 to 4 times as long."""

_LIGHTNING = re.compile(r"(pytorch_)?lightning\..*\bTrainer$")


class DebugModeOn(RunCheck):
    """A debugging tool stays on during the training.

    What it finds:
        A debugging tool that is on in or around the training loop:
        - `torch.autograd.set_detect_anomaly(True)`, `detect_anomaly()`, gradcheck, `emit_nvtx`
        - `_record_memory_history` that is never switched off
        - Lightning's `detect_anomaly=True`
    Why it hurts:
        Anomaly mode records a Python stack trace for each operation of the forward pass. It tests each gradient
        for NaN, which reads a value back from the GPU. Small models step 2 to 4 times slower.
    How it knows:
        It reads the call, its argument, and the conditions around it and on the way to it. It also reads
        whether a training loop runs inside its block or after it.
    False alarms:
        A short debugging session on purpose. A tool behind a switch that is off by default, or in a branch for
        failures, is not a finding. Neither is one that the program switches off again, or one in a program that
        does not train.
    Remedies:
        Remove it, or put it behind a switch that is off. When a NaN appears, replay that step under anomaly
        mode.
    References:
        - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code = "OBS005"
    traits = frozenset({Trait.INSIDE_PASSES})
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    thresholds = (
        Threshold(
            "debug_period",
            500,
            "{step}",
            "the period that the catalogue's S4 allows for profiling, the closest case",
            "A debugging call in the loop that repeats within this many steps is a finding.",
        ),
        PROFILED_STEPS,
        Threshold(
            "steps_covered",
            0.1,
            "1",
            "convention: a tool that is on in fewer steps was used for a short test",
            "What is on in this share of a recorded run's steps is a finding.",
        ),
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        yield from self._facilities(patient, run, suspected)
        if run.lead.process.of("window"):  # a recorder that knows windows would have seen these
            suspected = [item for item in suspected if not any(_speaks_of(item, one) for one in FACILITIES.values())]
        yield from suspected

    def _facilities(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        for name, facility in FACILITIES.items():
            on = of_run.coverage(run.lead, facility.window) if facility.window else None
            if on is None or on.share < self.limit("steps_covered"):
                continue
            spans = spots(patient, on.place)
            price = say("; with it a step takes {slower:.2g} times as long", slower=on.slower) if on.much_slower else ""
            # Steps with it against steps without.
            yield of_run.seen_in_run(run, on.cost or 0.0, spans, whose=Whose.STEPS).finding(
                self,
                say(
                    "{tool} is on in {share} of the steps: {effect}{slowdown}{where}.",
                    tool=on.what,
                    share=percent(on.share),
                    effect=facility.what,
                    slowdown=price,
                    where=of_run.at(spans),
                ),
                name="step_share",
                severity=Severity.WARNING if facility.heavy else Severity.NOTE,
                suspected=[item for item in suspected if _speaks_of(item, facility)],
                detail=Facts(facility=name),
                numbers=(run.measured("steps_covered", on.share),),
                priced=bool(on.cost),
            )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        if all(brief(script, loop, self.limit("measurement_steps")) for script, loop in source.training_loops):
            return
        for script in source.scripts:
            for call in script.calls:
                facility = FACILITIES.get(call.name)
                if facility is not None and _on(facility, call) and self._lasts(source, script, call, facility):
                    yield self._found(call, facility)
                anomaly = call.keywords.get("detect_anomaly")
                given = isinstance(anomaly, Known) and anomaly.value is True
                if given and _LIGHTNING.match(call.name) and not switched_off(source, call):
                    yield self._found(call, FACILITIES["torch.autograd.detect_anomaly"], keyword="detect_anomaly")

    def _lasts(self, source: Source, script: Script, call: Call, facility: _Facility) -> bool:
        """Whether what the call switches on is on in the ordinary course of a training."""
        if switched_off(source, call):
            return False
        if kept_on(source, script, call, self.limit("measurement_steps")) is not None:
            return True
        here = [event for _, loop in source.training_loops for event in loop.events if event.node is call.node]
        if here:
            seldom = self.limit("debug_period")
            return any((step_period(event) or seldom) < seldom for event in here)
        if not facility.lasting or any(withs_of(script, call)):
            return False
        return all(_on(facility, other) for item in source.scripts for other in item.calls_to(call.name))

    def _found(self, call: Call, facility: _Facility, keyword: str = "") -> Finding:
        span = call.span
        return self.finding(
            say("{shown} is on through the training: {what}.", shown=keyword or call.method, what=facility.what),
            evidence=(
                span,
                Measurement(
                    "debug_facility", call.name, "", Provenance.DECLARED, f"grep -n '{call.method}' {span.path}"
                ),
            ),
            severity=Severity.WARNING if facility.heavy else Severity.NOTE,
            detail=Facts(facility=f"{call.name}.{keyword}" if keyword else call.name),
        )


def _speaks_of(finding: Finding, facility: _Facility) -> bool:
    """Whether a suspicion is about a facility that a recording would show."""
    named = finding.detail_of(Facts).facility.replace("_", "-")
    return bool(facility.window) and re.search(facility.window, named) is not None


def _on(facility: _Facility, call: Call) -> bool:
    """Whether the call's own argument switches it on, for certain."""
    enabled = call.keywords.get("enabled") if facility.flag is None else call.argument(*facility.flag)
    if enabled is None:
        return True
    return isinstance(enabled, Known) and enabled.value not in {None, False, "none"}
