"""What checks ask of a recording: is there one, is it long enough, what did a phase cost and where."""

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from gpudoctor.analysis.memo import once
from gpudoctor.lang import say
from gpudoctor.model.evidence import Measurement, SourceSpan
from gpudoctor.model.patient import Patient
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Script, Source
from gpudoctor.model.unavailable import Unavailable, optional

if TYPE_CHECKING:
    from gpudoctor.analysis.run.line_costs import LinePlace, Site
    from gpudoctor.analysis.run.steady_state import Steady
    from gpudoctor.model.signs.process import ProcessWindow
    from gpudoctor.model.signs.recording import Process, Recording

LEAST_STEPS = 30
"""Steady steps before a share of time is judged (with fewer, one slow step would decide)."""
_FEWEST_STEPS = 5
"""Steady steps before it is judged where one slow step more or less would not decide."""


@frozen
class Run:
    """A recording that is long enough to judge shares of time."""

    recording: "Recording"
    states: "tuple[Steady, ...]"
    """Steady states of the ranks that made steps, by rank."""

    @property
    def lead(self) -> "Steady":
        """The first rank with steps."""
        return self.states[0]

    def share(self, *phases: str) -> float:
        """Share of step time in these phases, the median over ranks."""
        return median(sum(state.share(phase) for phase in phases) for state in self.states)

    @property
    def idle(self) -> float | None:
        """Share of the time in which the device can have had nothing to do, the median over ranks; None without
        its clock."""
        known = [state.idle for state in self.states if state.idle is not None]
        return median(known) if known else None

    @property
    def room(self) -> float | None:
        """The same, or without its clock the share in which the driver saw no kernel."""
        return self.idle if self.idle is not None else unused(self.recording)

    @property
    def blind(self) -> bool:
        """Whether it uses a device, and nobody saw when that was idle: what a wait is worth is then unknown."""
        from gpudoctor.analysis.run.job_facts import uses_device

        return self.room is None and any(map(uses_device, self.recording.ranks))

    def worth(self, share: float, *phases: str) -> float:
        """What a share of the host's time can give back: no more than the device is idle, as far as that is known."""
        idle = self._idle_of_those_who_wait(*phases)
        return share if idle is None else min(share, idle)

    def _idle_of_those_who_wait(self, *phases: str) -> float | None:
        """The room, but no rank's idle device pays for another one's waits: one rank may stand idle because it
        is late, while the host of another one waits beside a device that has work.
        """
        pairs = [(sum(map(state.share, phases)), state.idle) for state in self.states if state.idle is not None]
        if not phases or len(pairs) < 2:
            return self.room
        return median(min(waits, idle) for waits, idle in pairs)

    def worth_with(self, share: float, column: str) -> float:
        """The same of work whose cure takes the device's own time of a column as well."""
        room = self.room
        return share if room is None else min(share, room + self.share(column))

    def measured(self, name: str, value: float | str, unit: str = "1") -> Measurement:
        """A number out of the run, with the command that shows it again."""
        return measured(name, value, unit, self.recording)

    def per_step(self, column: str) -> float:
        """Mean of a column a step, the median over ranks."""
        return median(state.per_step(column) for state in self.states)

    def events(self, column: str) -> int:
        """Steps in which it happened, on the rank where it happened most."""
        return max(state.events(column) for state in self.states)


@once
def unused(recording: "Recording") -> float | None:
    """Share of the steady time in which no kernel ran on the GPUs of a run, as the driver sampled it; None
    where it was not, or models stood on the CPU."""
    from gpudoctor.analysis.run.job_facts import on_gpu
    from gpudoctor.analysis.run.run_numbers import gpu_use

    if not any(on_gpu(process) for process in recording.ranks):
        return None
    used = [gpu.utilization for gpu in gpu_use(recording) if gpu.utilization]
    return max(0.0, 1.0 - max(used)) if used else None


def recorded(patient: Patient) -> "Recording | None":
    """The recording; None where nothing was run."""
    return optional(lambda: patient.recording)


def watched(patient: Patient) -> "ProcessWindow | None":
    """The window of the running process; None where none is watched."""
    return optional(lambda: patient.process)


def judged(patient: Patient, least: float = LEAST_STEPS) -> Run | None:
    """The recording, where it is long enough to judge; None where it is not, or nothing was run."""
    recording = recorded(patient)
    run = run_of(recording) if recording is not None else None
    return run if run is not None and run.lead.steps >= least else None


def judged_by_share(patient: Patient, limit: float, *phases: str) -> Run | None:
    """The same, and a shorter recording in which one step does not decide whether phases take such a share.

    Slow steps are few in a short run. The share (0..1) has to reach the limit without the step that is dearest
    in these phases, or to stay below it with one step more that is spent in them alone.
    """
    run = judged(patient)
    short = judged(patient, _FEWEST_STEPS) if run is None else None
    if short is None:
        return run
    lead = short.lead
    durations, costs = lead.values("duration"), [lead.values(phase) for phase in phases]
    spent = [sum(filter(math.isfinite, row)) for row in zip(*costs, strict=True)] if all(costs) else []
    if not sum(spent) or not lead.seconds:
        return None  # what has not happened yet may come
    dearest = max(range(len(spent)), key=spent.__getitem__)
    rest = lead.seconds - durations[dearest]
    least = (sum(spent) - spent[dearest]) / rest if rest > 0 else 0.0
    most = (sum(spent) + lead.step_seconds) / (lead.seconds + lead.step_seconds)
    return short if least >= limit or most < limit else None


def demanded(patient: Patient, least: float = LEAST_STEPS) -> Run:
    """The recording for a check that has nothing else to read; raises `Unavailable` with what is missing."""
    recording = patient.recording
    run = run_of(recording)
    if run is None:
        raise Unavailable("no training step was seen in the recording")
    if run.lead.steps < least:
        raise Unavailable(
            say("the recording has {steps} steady steps; {needed:.0f} are needed", steps=run.lead.steps, needed=least)
        )
    return run


def trained_well(patient: Patient) -> bool:
    """Whether a run was recorded that made steps and did not fail."""
    recording = recorded(patient)
    if recording is None or run_of(recording) is None:
        return False
    if recording.end is not None:
        return not recording.end.failed
    return not any(process.first("exception") for process in recording.ranks)


@once
def run_of(recording: "Recording") -> Run | None:
    """The ranks that made steps; None where none did."""
    from gpudoctor.analysis.run.steady_state import steady

    states = tuple(state for state in map(steady, recording.ranks) if state.steps)
    return Run(recording=recording, states=states) if states else None


def ran_on_cpu(patient: Patient) -> bool:
    """Whether a recorded run, of any length, had its models on the CPU: nothing that ails GPUs ails it.

    A run that came to no step may have shown no model; then a machine that has no GPU tells.
    """
    recording = recorded(patient)
    if recording is None:
        return False
    from gpudoctor.analysis.run.job_facts import on_gpu

    ranks = recording.ranks
    seen = {on_gpu(process) for process in ranks}
    if seen - {None} or not ranks or any(len(process.steps) for process in ranks):
        return False in seen and True not in seen
    return recording.machine_facts.get("gpus") == []


def processes(patient: Patient) -> "tuple[Process, ...]":
    """The ranks of the recording; empty where nothing was run."""
    recording = recorded(patient)
    return recording.ranks if recording is not None else ()


def measured(name: str, value: float | str, unit: str = "1", recording: "Recording | None" = None) -> Measurement:
    """A number (or a word on one) out of a recording, with the command that shows it again."""
    shown = f"gpudoctor report {recording.path}" if recording is not None else None
    rounded = round(value, 6 if unit in {"s", "1"} else 3) if isinstance(value, float) else value
    return Measurement(name, rounded, unit, reproduce=shown)


def spot(patient: Patient, place: "LinePlace") -> SourceSpan:
    """A place as evidence: its path as the user knows it, its text where the source was read."""
    recording, path = recorded(patient), place.path
    if recording is not None:
        from gpudoctor.analysis.run.line_costs import relative

        path = relative(recording, path)
    script = script_at(patient, path, place.path)
    if script is not None:
        path = script.path
    text = script.text_lines[place.line - 1].strip() if script and 0 < place.line <= script.lines else ""
    return SourceSpan(path=path, line=max(1, place.line), text=text)


def spots(patient: Patient, *places: "LinePlace | None") -> list[SourceSpan]:
    """Places as evidence; those that are not known are left out."""
    return [spot(patient, place) for place in places if place is not None]


def script_at(patient: Patient, *paths: str) -> Script | None:
    """The script of the source at one of these paths; None where no source was read or it is no part of it."""
    source = source_of(patient)
    for path in paths:
        for script in source.scripts if source is not None else ():
            if script.path == path or path.endswith("/" + script.path.removeprefix("./")):
                return script
    return None


def source_of(patient: Patient) -> Source | None:
    """The source; None where none was given."""
    return optional(lambda: patient.source)


def sites_of(run: Run, *phases: str) -> "list[Site]":
    """Sites of these phases on the rank that spent most in them, dearest first."""
    from gpudoctor.analysis.run.line_costs import sites

    state = max(run.states, key=lambda state: sum(state.share(phase) for phase in phases))
    return [site for site in sites(state.process) if site.phase in phases and site.place.path]


def dear(found: "Sequence[Site]", share: float = 0.1, most: int = 4, beside: float = 0.0) -> "list[Site]":
    """Those that make up at least a tenth of the cost of all of them, and of seconds beside them."""
    total = sum(site.seconds for site in found) + beside
    return [site for site in found if site.seconds >= share * total][:most]


def site_spans(patient: Patient, found: "Iterable[Site]") -> list[SourceSpan]:
    """The places of sites as evidence, each once; those that are not known are left out."""
    spans = (spot(patient, site.place) for site in found if site.place.path)
    return list({(span.path, span.line): span for span in spans}.values())


def hot_lines(patient: Patient, run: Run, *phases: str) -> list[SourceSpan]:
    """At most three lines of the user that the sampler saw most in these phases, each a tenth or more."""
    from gpudoctor.analysis.run.line_costs import by_line, lines

    state = max(run.states, key=lambda state: sum(state.share(phase) for phase in phases))
    found = by_line(item for item in lines(state.process) if item.phase in phases)
    total = sum(item.samples for item in found)
    return [spot(patient, item.place) for item in found if item.samples >= 0.1 * total][:3]


def period(steps: float) -> str:
    """Steps between two events, in words: `once in 20 steps`, `once in 2.5 steps`, `in every step`."""
    if steps < 1.05:  # two digits would say `once in 1 steps`
        return say("in every step")
    return (
        say("once in {steps:.0f} steps", steps=steps) if steps >= 10 else say("once in {steps:.2g} steps", steps=steps)
    )
