"""OBS001: a profiler or FLOPs counter stays active while the model trains."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpudoctor.analysis.live.stack_shares import seen_live, watched
from gpudoctor.analysis.observation import suspicions
from gpudoctor.analysis.run.cost_attribution import at, price, seen_in_run
from gpudoctor.analysis.run.instrumentation import Coverage, coverage, instrumented
from gpudoctor.analysis.run.line_costs import Site
from gpudoctor.analysis.run.line_ownership import LineOwner
from gpudoctor.analysis.run.steady_run import Run, judged, spots
from gpudoctor.analysis.source.call_frequency import often, step_period
from gpudoctor.analysis.source.control_flow import bound, switched_off
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Detail,
    Evidence,
    Finding,
    Measurement,
    Patient,
    Provenance,
    Reads,
    Severity,
    SourceSpan,
    Threshold,
    Trait,
    Whose,
)
from gpudoctor.model.signs.configs import CanonicalValue, ConfigFile, Configs
from gpudoctor.model.signs.process import ProcessWindow
from gpudoctor.model.signs.source import Event, Known, Loop, Script, Source
from gpudoctor.text import percent
from gpudoctor_checks.observability.profilers import (
    LIGHTNING,
    LIGHTNING_PROFILERS,
    ProfilerCall,
    cycle,
    disabled,
    lightning_profiler,
    profiled_loops,
    tools,
    uses,
)

_PLACES = 3
"""Lines shown of those inside which a profiler works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilerInLoopDetail(Detail):
    """What the rule reads."""

    kind: str | None = None
    """`profiler` or `flops`; None where only a process was seen."""
    how: str | None = None
    """`step`, `around`, `engine` or `config`."""
    period: float | None = None
    """Steps between two measurements."""
    new_value: str | None = None
    """The value that the config's key is to have."""


class ProfilerInLoop(Check):
    """A profiler or a FLOPs counter stays active in steady state.

    What it finds:
        `torch.profiler.profile` (or the older autograd profiler, `cProfile`) entered on each training step. Or
        it is open around the whole loop, without a schedule or with one that repeats forever. FLOPs counters
        that run more often than every 500 steps (fvcore, thop, ptflops, calflops, `FlopCounterMode`,
        DeepSpeed's `FlopsProfiler`). Lightning's `profiler="pytorch"|"advanced"`. In configs:
        `flops_profile_freq`, `profile_freq` under 500, DeepSpeed's `flops_profiler.enabled`.
    Why it hurts:
        A profiler records every operator with its shapes and stack. On a small model the step is several times
        longer. The events stay in host memory until the profiler closes, so a long run ends in out-of-memory. A
        FLOPs counter runs a second forward pass under hooks or a tracer, often on the CPU. Its number does not
        change from step to step.
    How it knows:
        It reads which calls a pass of the training loop reaches and under which conditions. For a profiler
        around the loop it reads the `schedule` (`repeat=0`, the default, never ends). In config files it reads
        the keys, and the switches next to them that turn them off.
    False alarms:
        A script that is itself a benchmark: loops of at most 50 steps count as measurements. Profiling that
        runs once or behind a switch that is off by default is not a finding.
    Remedies:
        Count FLOPs once before the loop. Give the profiler a schedule that ends (`repeat=1`), or remove it and
        profile 20 steps of a separate run.
    References:
        - https://docs.pytorch.org/docs/stable/profiler.html
        - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
        - https://github.com/Lightning-AI/pytorch-lightning/issues/10717
    """

    code = Code("OBS001")
    name = "profiler-in-loop"
    traits = frozenset({Trait.INSIDE_PASSES})
    reads = frozenset({Reads.SOURCE, Reads.CONFIG, Reads.RECORDING, Reads.PROCESS})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="profile_period",
            default=500,
            unit="{step}",
            source="the catalogue's S4 (training-step fix): profile and count FLOPs every 500 steps",
            meaning="A profiler or counter that repeats within this many steps is active in steady state.",
        ),
        Threshold(
            name="measurement_steps",
            default=50,
            unit="{step}",
            source="torch.profiler's recipe records two cycles of 5 to 10 steps; five times that",
            meaning="A loop known to end within this many steps is a measurement, not a training.",
        ),
        *Threshold.note_and_warning(
            "A profiler whose own work takes this share of a recorded run is", noted=0.02, warned=0.05
        ),
        Threshold(
            name="steps_covered",
            default=0.25,
            unit="1",
            source="convention: a schedule that ends does not affect most of a run",
            meaning="A profiler that is on in this share of a recorded run's steps is a warning.",
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
        yield from (item for item in suspected if item.detail_of(ProfilerInLoopDetail).how == "config")

    def _live(self, patient: Patient, window: ProcessWindow) -> Iterator[Finding]:
        """A profiler or a counter of FLOPs at work in the samples."""
        seen = seen_live(window, lambda place: place.kind in ("profile", "flops"), whose=Whose.DEVICE)
        severity = seen.level(self)
        if severity is not None:
            yield seen.finding(
                self,
                say("The training profiles itself, {cost}{where}.", cost=seen.words, where=seen.where),
                name="profiler_share",
                severity=severity,
                suspected=suspicions(lambda: self._declared_anywhere(patient), seen),
                detail=ProfilerInLoopDetail(),
            )

    def _measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        """By its own time, and by the steps it was on in, which it makes slower too."""
        suspected = [item for item in suspected if item.detail_of(ProfilerInLoopDetail).how != "config"]
        calls = price(patient, run, phases=("profiler",), owners=(LineOwner.PROFILING,))
        inside = instrumented(run.lead.process)
        own = min(1.0, calls.share + sum(item.share for item in inside))
        on = coverage(run.lead, "profil|flop_counter")
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
        tool = _named(calls.sites) or (say("A FLOPs counter") if counts else say("A profiler"))
        whose = Whose.STEPS if longer else Whose.HOST
        yield seen_in_run(run, min(0.99, share), spans, whose=whose, worth=min(0.99, worth)).finding(
            self,
            self._words(tool, own, on, spans),
            name="profiler_share",
            severity=severity,
            suspected=suspected,
            detail=ProfilerInLoopDetail(kind="flops" if counts else "profiler", how="step", period=1),
            numbers=(run.measured("steps_covered", covered),),
            priced=share >= self.limit("share_noted"),
        )

    def _words(self, tool: str, own: float, on: Coverage | None, spans: list[SourceSpan]) -> str:
        """What it costs: its own work, how much longer it makes the steps, or that nobody knows."""
        covered = say("was on in {on_share} of the steps", on_share=percent(on.share if on is not None else 0.0))
        slower = on.slower if on is not None else None
        longer = on is not None and on.much_slower
        if own >= self.limit("share_noted"):
            words = say("takes {own} of the time for its own work", own=percent(own)) + (
                say(", and {covered}", covered=covered) if on else ""
            )
            words += say(", which were {slower:.2g} times as long as the others", slower=slower) if longer else ""
        elif longer:
            words = say("{covered}, and made them {slower:.2g} times as long", covered=covered, slower=slower)
        elif slower is None:
            words = say("{covered}; too few steps ran without it to show what it costs", covered=covered)
        else:
            words = covered
        return say("{tool} {words}{at}.", tool=tool, words=words, at=at(spans))

    def _declared_anywhere(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        yield from self._from_source(source)
        yield from self._from_configs(configs)

    def _from_configs(self, configs: Configs) -> Iterator[Finding]:
        for file in configs.files:
            if not self._short_config(file):
                yield from self._periods(file)
                yield from self._switches(file)

    def _short_config(self, file: ConfigFile) -> bool:
        runs = [item.number for item in file.meaning("max_steps") if item.number]
        return any(item.value for item in file.meaning("smoke_run")) or bool(
            runs and min(runs) <= self.limit("measurement_steps")
        )

    def _periods(self, file: ConfigFile) -> Iterator[Finding]:
        """`flops_profile_freq`, `profile_freq` and the like in sections of somebody's own."""
        runs = [item.number for item in file.meaning("max_steps") if item.number]
        for name, what in (("flops_period", say("counts FLOPs")), ("profile_period", say("profiles"))):
            for said in file.meaning(name):
                period = int(said.number or 0)
                if not period or period >= self.limit("profile_period") or (runs and period >= runs[0]):
                    continue
                often = (
                    say("on every training step")
                    if period == 1
                    else say("every {period} training steps", period=period)
                )
                message = say(
                    "{key}={period} {what} {often}; in steady state once in {limit:.0f} is the limit.",
                    key=said.entry.key,
                    period=period,
                    what=what,
                    often=often,
                    limit=self.limit("profile_period"),
                )
                yield self._declared(
                    said, message, kind=name, period=period, value=f"{self.limit('profile_period'):.0f}"
                )

    def _switches(self, file: ConfigFile) -> Iterator[Finding]:
        """Profilers that a tool keeps on for the whole run once they are switched on."""
        for said in file.meaning("flops_profiler"):
            if said.value is True:
                message = say(
                    "DeepSpeed's flops_profiler is on: it profiles one step and turns wall_clock_breakdown on "
                    "for all steps. Its timers wait for the GPU in each forward, backward and step."
                )
                yield self._declared(said, message, kind="flops_switch", period=1, value="false", sure=False)
        for said in file.meaning("profiler"):
            inside = file.under(said.entry.key.removesuffix(".class_path"))
            ends = any("schedule" in entry.parts for entry in inside)
            name = str(said.value).rsplit(".", 1)[-1]
            if name in LIGHTNING_PROFILERS and not ends:
                message = say(
                    "Lightning's Trainer profiles the whole fit with {key}={said}.", key=said.entry.key, said=said.value
                )
                yield self._declared(said, message, kind="profiler_switch", period=1, value="null")
            cycles = file.get("profiler.num_cycles")
            if said.value is True and cycles is not None and cycles.value == 0:
                message = say("torchtune's profiler is on with num_cycles=0: its schedule starts over and never ends.")
                yield self._declared(said, message, kind="profiler_switch", period=1, value="false")

    def _declared(
        self, said: CanonicalValue, message: str, *, kind: str, period: int, value: str, sure: bool = True
    ) -> Finding:
        return self.finding(
            message,
            evidence=(said.setting,),
            confidence=Confidence.SUSPECTED,
            severity=Severity.WARNING if sure else Severity.NOTE,
            subject=f"{said.file.path}:{said.entry.line} {said.entry.key}",
            detail=ProfilerInLoopDetail(kind=kind.partition("_")[0], how="config", period=period, new_value=value),
        )

    def _from_source(self, source: Source) -> Iterator[Finding]:
        made = [tool for script in source.scripts for tool in tools(script)]
        inside: set[ast.AST] = set()
        said: set[ast.AST] = set()
        for script, loop in source.training_loops:
            inside |= {event.node for event in loop.events}
            for event, tool in uses(loop, made):
                found = None if tool.call.node in said else self._in_loop(script, loop, event, tool)
                if found is not None:
                    said.add(tool.call.node)
                    yield found
        for tool in made:
            if tool.call.node not in inside and not switched_off(source, tool.call):
                yield from self._around(source, tool)
        yield from self._engines(source)

    def _in_loop(self, script: Script, loop: Loop, event: Event, tool: ProfilerCall) -> Finding | None:
        period = step_period(event)
        if period is None or period >= self.limit("profile_period"):
            return None
        if self._short(script, loop) or disabled(tool.call):
            return None
        what = say("counts FLOPs") if tool.counts else say("profiles")
        return self._found(
            say(
                "{call} {what} {often}; the limit is once in {limit:.0f}.",
                call=tool.call.name,
                what=what,
                often=often(period),
                limit=self.limit("profile_period"),
            ),
            event.span,
            tool,
            how="step",
            period=int(period),
            via=event.via,
        )

    def _around(self, source: Source, tool: ProfilerCall) -> Iterator[Finding]:
        period = cycle(tool)
        if disabled(tool.call) or period is None or period >= self.limit("profile_period"):
            return
        for found in profiled_loops(source, tool):
            if self._short(*found):
                continue
            where = say("the training loop at {path}:{line}", path=found[1].span.path, line=found[1].span.line)
            if period == 1:
                message = say(
                    "{call} records every step of {where}: it has no schedule that ends.",
                    call=tool.call.name,
                    where=where,
                )
            else:
                message = say(
                    "{call} records steps of {where} repeatedly. Its schedule starts over "
                    "every {period} steps (the limit is {limit:.0f}) and never ends.",
                    call=tool.call.name,
                    where=where,
                    period=period,
                    limit=self.limit("profile_period"),
                )
            yield self._found(message, tool.call.span, tool, how="around", period=period, via=())
            return

    def _engines(self, source: Source) -> Iterator[Finding]:
        for script in source.scripts:
            for call in script.calls_to(*LIGHTNING):
                name = lightning_profiler(script, call)
                steps = call.argument("max_steps")
                known = steps.value if isinstance(steps, Known) and isinstance(steps.value, int) else 0
                short = 0 < known <= self.limit("measurement_steps")
                if name is None or short or switched_off(source, call) or disabled(call):
                    continue
                tool = ProfilerCall(script=script, call=call, counts=False)
                message = say("Lightning's Trainer profiles the whole fit with {name}.", name=name)
                yield self._found(message, call.span, tool, how="engine", period=1, via=())

    def _short(self, script: Script, loop: Loop) -> bool:
        passes = bound(script, loop)
        return passes is not None and passes <= self.limit("measurement_steps")

    def _found(
        self, message: str, span: SourceSpan, tool: ProfilerCall, *, how: str, period: int, via: tuple[SourceSpan, ...]
    ) -> Finding:
        evidence: tuple[Evidence, ...] = (
            span,
            *via,
            Measurement(
                name="steps_between_profiles",
                value=period,
                unit="{step}",
                provenance=Provenance.DECLARED,
                reproduce=f"grep -n '{tool.call.method}' {span.path}",
            ),
        )
        return self.finding(
            message,
            evidence=evidence,
            confidence=Confidence.SUSPECTED,
            subject=f"{span.path}:{span.line}",
            detail=ProfilerInLoopDetail(kind="flops" if tool.counts else "profiler", how=how, period=period),
        )


def _named(sites: Sequence[Site]) -> str:
    """What was called, the dearest first, without the methods that a `with` calls; "" where hooks saw none."""
    names = (re.sub(r"\.__(enter|exit)__$", "", site.what) for site in sites)
    return next((name for name in names if name), "")
