"""OBS001: a profiler or FLOPs counter stays active while the model trains."""

import math
import re
from collections.abc import Iterator, Sequence

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import suspicions
from gpudoctor.analysis.run.steady_run import Run, judged, spots, watched
from gpudoctor.analysis.source.call_frequency import calls_in_training, often
from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity, Threshold, Trait, Whose
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.configs import CanonicalValue, ConfigFile
from gpudoctor.model.signs.source import Call, Known, Source
from gpudoctor.text import percent
from gpudoctor_checks.declared import kept_on
from gpudoctor_checks.thresholds import PROFILED_STEPS

_PROFILERS = {"torch": {"profile", "_KinetoProfile"}, "cProfile": {"Profile"}, "line_profiler": {"LineProfiler"}}
"""Package and last part of the name of profilers that record every operation or call."""

_COUNTERS = {
    "fvcore": {"FlopCountAnalysis", "flop_count", "ActivationCountAnalysis", "flop_count_table"},
    "thop": {"profile"},
    "ptflops": {"get_model_complexity_info"},
    "torch": {"FlopCounterMode"},
    "calflops": {"calculate_flops", "calculate_flops_hf"},
    "deepspeed": {"FlopsProfiler", "get_model_profile"},
    "torchinfo": {"summary"},
}
"""Package and last part of the name of FLOPs counters: each runs the model once more, hooked or traced."""


_PLACES = 3
"""Lines shown of those inside which a profiler works."""


class ProfilerInLoop(Check):
    """A profiler or a FLOPs counter stays active in steady state.

    What it finds:
        `torch.profiler.profile` (or the older autograd profiler, `cProfile`) entered on each training step. Or
        it is open around the whole loop without a schedule. FLOPs counters that run more often than every 500
        steps (fvcore, thop, ptflops, calflops, `FlopCounterMode`, DeepSpeed's `FlopsProfiler`). In configs:
        `flops_profile_freq`, `profile_freq` under 500, DeepSpeed's `flops_profiler.enabled`.
    Why it hurts:
        A profiler records every operator with its shapes and stack. On a small model the step is several times
        longer. The events stay in host memory until the profiler closes. A FLOPs counter runs a second forward
        pass, and its number does not change from step to step.
    How it knows:
        It reads which calls a pass of the training loop reaches and under which conditions. In configs it reads
        the keys. That is a note: only a run shows the cost.
    False alarms:
        A script that is itself a benchmark: loops of at most 50 steps count as measurements. Profiling that
        runs once or behind a switch that is off by default is not a finding.
    Remedies:
        Count FLOPs once before the loop. Give the profiler a schedule that ends (`repeat=1`), or remove it and
        profile 20 steps of a separate run.
    References:
        - https://docs.pytorch.org/docs/stable/profiler.html
    """

    code = "OBS001"
    traits = frozenset({Trait.INSIDE_PASSES})
    reads = frozenset({Reads.SOURCE, Reads.CONFIG, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        Threshold(
            "profile_period",
            500,
            "{step}",
            "the catalogue's S4 (training-step fix): profile and count FLOPs every 500 steps",
            "A profiler or counter that repeats within this many steps is active in steady state.",
        ),
        PROFILED_STEPS,
        *Threshold.note_and_warning(
            "A profiler whose own work takes this share of a recorded run is", noted=0.02, warned=0.05
        ),
        Threshold(
            "steps_covered",
            0.25,
            "1",
            "convention: a schedule that ends does not affect most of a run",
            "A profiler that is on in this share of a recorded run's steps is a warning.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            yield from self._live(patient, window)
            return
        run = judged(patient, self.limit("measurement_steps"))
        if run is None:
            yield from self._declared_anywhere(patient)
            return
        suspected = suspicions(lambda: self._declared_anywhere(patient), run)
        yield from self._measured(patient, run, suspected)
        yield from (item for item in suspected if item.detail_of(Facts).how == "config")

    def _live(self, patient: Patient, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """A profiler or a counter of FLOPs at work in the samples."""
        seen = of_run.seen_live(window, lambda place: place.kind in ("profile", "flops"), whose=Whose.DEVICE)
        severity = seen.level(self)
        if severity is not None:
            yield seen.finding(
                self,
                say("The training profiles itself, {cost}{where}.", cost=seen.words, where=seen.where),
                name="profiler_share",
                severity=severity,
                suspected=suspicions(lambda: self._declared_anywhere(patient), seen),
                detail=Facts(kind=None, how=None, key="", new_value=""),
            )

    def _measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        """By its own time, and by the steps it was on in, which it makes slower too."""

        suspected = [item for item in suspected if item.detail_of(Facts).how != "config"]
        calls = of_run.price(patient, run, phases=("profiler",), owners=(of_run.LineOwner.PROFILING,))
        inside = of_run.instrumented(run.lead.process)
        own = min(1.0, calls.share + sum(item.share for item in inside))
        on = of_run.coverage(run.lead, "profil|flop_counter")
        covered = on.share if on is not None else 0.0
        severity = self.level(own)
        if covered >= self.limit("steps_covered"):
            severity = Severity.WARNING
        if severity is None:
            return
        opened = on.place if on is not None else None
        places = [opened] if opened is not None else [item.place for item in inside[:_PLACES]]
        spans = list(calls.spans) or spots(patient, *places)
        counts = not calls.sites and (on is None or on.what == "flop_counter")
        # Steps with it against steps without tell what it costs beside its own time, whatever the device does.
        longer = (on.cost if on is not None else None) or 0.0
        share, worth = (part + (1 - part) * longer for part in (own, run.worth(own)))
        whose = Whose.STEPS if longer else Whose.HOST
        yield of_run.seen_in_run(run, min(0.99, share), spans, whose=whose, worth=min(0.99, worth)).finding(
            self,
            self._words(
                _named(calls.sites) or (say("A FLOPs counter") if counts else say("A profiler")), own, on, spans
            ),
            name="profiler_share",
            severity=severity,
            suspected=suspected,
            detail=Facts(kind="flops" if counts else "profiler", how="step", key="", new_value=""),
            numbers=(run.measured("steps_covered", covered),),
            priced=share >= self.limit("share_noted"),
        )

    def _words(self, tool: str, own: float, on: "of_run.Coverage | None", spans: list[SourceSpan]) -> str:
        """What it costs: its own work, or how much longer it makes the steps."""
        words = say("was on in {on_share} of the steps", on_share=percent(on.share if on is not None else 0.0))
        if own >= self.limit("share_noted"):
            words = say("takes {own} of the time for its own work", own=percent(own))
        elif on is not None and on.much_slower:
            words = say("{covered}, and made them {slower:.2g} times as long", covered=words, slower=on.slower)
        return say("{tool} {words}{at}.", tool=tool, words=words, at=of_run.at(spans))

    def _declared_anywhere(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        yield from self._from_source(source)
        for file in configs.files:
            runs = [item.number for item in file.meaning("max_steps") if item.number]
            short = any(item.value for item in file.meaning("smoke_run"))
            if not short and not (runs and min(runs) <= self.limit("measurement_steps")):
                yield from self._from_config(file, min(runs, default=math.inf))

    def _from_config(self, file: ConfigFile, run: float) -> Iterator[Finding]:
        """Periods in sections of somebody's own, and profilers that a tool keeps on for the whole run."""
        limit = self.limit("profile_period")
        for name, what in (("flops_period", say("counts FLOPs")), ("profile_period", say("profiles"))):
            for said in file.meaning(name):
                period = int(said.number or 0)
                if 0 < period < min(limit, run):
                    message = say(
                        "{key}={period} {what} {often}; in steady state once in {limit:.0f} is the limit.",
                        key=said.entry.key,
                        period=period,
                        what=what,
                        often=often(period),
                        limit=limit,
                    )
                    yield self._declared(said, message, kind=name, value=f"{limit:.0f}")
        for said in file.meaning("flops_profiler"):
            if said.value is True:
                message = say(
                    "DeepSpeed's flops_profiler is on: it profiles one step and turns wall_clock_breakdown on "
                    "for all steps. Its timers wait for the GPU in each forward, backward and step."
                )
                yield self._declared(said, message, kind="flops_switch", value="false")

    def _declared(self, said: CanonicalValue, message: str, *, kind: str, value: str) -> Finding:
        return self.finding(
            message,
            evidence=(said.setting,),
            severity=Severity.NOTE,
            subject=f"{said.file.path}:{said.entry.line} {said.entry.key}",
            detail=Facts(kind=kind.partition("_")[0], how="config", key=said.entry.key, new_value=value),
        )

    def _from_source(self, source: Source) -> Iterator[Finding]:
        """Calls in the passes of a loop; a profiler without a schedule around one; Lightning's own."""
        limit, inside = self.limit("profile_period"), set()
        for found in calls_in_training(source, lambda item: _kind(item.call), every=limit, distinct=True):
            for item in found:
                inside.add(item.call.node)
                if not item.at_most(self.limit("measurement_steps") / item.period):
                    kind = _kind(item.call)
                    message = say(
                        "{call} {what} {often}; the limit is once in {limit:.0f}.",
                        call=item.call.name,
                        what=say("counts FLOPs") if kind == "flops" else say("profiles"),
                        often=often(item.period),
                        limit=limit,
                    )
                    yield self._found(message, item.event.span, kind, how="step")
        for script in source.scripts:
            for call in script.calls:
                if call.node in inside or _kind(call) != "profiler" or switched_off(source, call):
                    continue
                if not call.open_ended and "schedule" not in call.keywords:
                    loop = kept_on(source, script, call, self.limit("measurement_steps"))
                    if loop is not None:
                        where = say("the training loop at {path}:{line}", path=loop.span.path, line=loop.span.line)
                        message = say(
                            "{call} records every step of {where}: it has no schedule that ends.",
                            call=call.name,
                            where=where,
                        )
                        yield self._found(message, call.span, "profiler", how="around")

    def _found(self, message: str, span: SourceSpan, kind: str, *, how: str) -> Finding:
        return self.finding(
            message, evidence=(span,), severity=Severity.NOTE, detail=Facts(kind=kind, how=how, key="", new_value="")
        )


def _kind(call: Call) -> str:
    """`flops` or `profiler` for a call that makes or runs one; "" for others, and where it may be switched off."""
    package = call.name.split(".", 1)[0]
    enabled = call.keywords.get("enabled")
    if enabled is not None and not (isinstance(enabled, Known) and enabled.value):
        return ""
    if call.method in _COUNTERS.get(package, ()):
        return "flops"
    return "profiler" if call.method in _PROFILERS.get(package, ()) and "cuda" not in call.name else ""


def _named(sites: "Sequence[of_run.Site]") -> str:
    """What was called, the dearest first, without the methods that a `with` calls; "" where hooks saw none."""
    names = (re.sub(r"\.__(enter|exit)__$", "", site.what) for site in sites)
    return next((name for name in names if name), "")
