"""What checks ask of a recording: is there one, is it long enough, what did a phase cost and where."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from gpudoctor.model.evidence import Evidence, Measurement, SourceSpan
from gpudoctor.model.finding import Cost, Finding
from gpudoctor.model.patient import Patient
from gpudoctor.model.reading.once import once
from gpudoctor.model.reading.recordings.costs import Place, Site, by_line, lines, relative, sites
from gpudoctor.model.reading.recordings.steady import Steady, steady
from gpudoctor.model.severity import Confidence, Severity
from gpudoctor.model.signs.recording import Process, Recording
from gpudoctor.model.signs.source import Script, Source
from gpudoctor.model.unavailable import Unavailable

LEAST_STEPS = 30
"""Steady steps before a share of time is judged (CATALOGUE: abstention is counted in events)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A recording that is long enough to judge shares of time."""

    recording: Recording
    states: tuple[Steady, ...]
    """Steady states of the ranks that made steps, by rank."""

    @property
    def lead(self) -> Steady:
        """The first rank with steps."""
        return self.states[0]

    def share(self, *phases: str) -> float:
        """Share of step time in these phases, the median over ranks."""
        return median(sum(state.share(phase) for phase in phases) for state in self.states)

    def per_step(self, column: str) -> float:
        """Mean of a column a step, the median over ranks."""
        return median(state.per_step(column) for state in self.states)

    def events(self, column: str) -> int:
        """Steps in which it happened, on the rank where it happened most."""
        return max(state.events(column) for state in self.states)


def recorded(patient: Patient) -> Recording | None:
    """The recording; None where nothing was run."""
    try:
        return patient.recording
    except Unavailable:
        return None


def judged(patient: Patient, least: float = LEAST_STEPS) -> Run | None:
    """The recording, where it is long enough to judge; None where it is not, or nothing was run."""
    recording = recorded(patient)
    run = run_of(recording) if recording is not None else None
    return run if run is not None and run.lead.steps >= least else None


def demanded(patient: Patient, least: float = LEAST_STEPS) -> Run:
    """The recording for a check that has nothing else to read; raises `Unavailable` with what is missing."""
    recording = patient.recording
    run = run_of(recording)
    if run is None:
        raise Unavailable("no training step was seen in the recording")
    if run.lead.steps < least:
        raise Unavailable(f"the recording has {run.lead.steps} steady steps; {least:.0f} are needed")
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
def run_of(recording: Recording) -> Run | None:
    """The ranks that made steps; None where none did."""
    states = tuple(state for state in map(steady, recording.ranks) if state.steps)
    return Run(recording=recording, states=states) if states else None


def processes(patient: Patient) -> tuple[Process, ...]:
    """The ranks of the recording; empty where nothing was run."""
    recording = recorded(patient)
    return recording.ranks if recording is not None else ()


def measured(name: str, value: float | str, unit: str = "1", recording: Recording | None = None) -> Measurement:
    """A number (or a word on one) out of the recording, with the command that shows it again."""
    shown = f"gpudoctor report {recording.path}" if recording is not None else None
    rounded = round(value, 6 if unit in {"s", "1"} else 3) if isinstance(value, float) else value
    return Measurement(name=name, value=rounded, unit=unit, reproduce=shown)


def spot(patient: Patient, place: Place) -> SourceSpan:
    """A place as evidence: its path as the user knows it, its text where the source was read."""
    recording = recorded(patient)
    path = relative(recording, place.path) if recording is not None else place.path
    script = script_at(patient, path, place.path)
    if script is not None:
        path = script.path
    text = script.text_lines[place.line - 1].strip() if script and 0 < place.line <= script.lines else ""
    return SourceSpan(path=path, line=max(1, place.line), text=text)


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
    try:
        return patient.source
    except Unavailable:
        return None


def sites_of(run: Run, *phases: str) -> list[Site]:
    """Sites of these phases on the rank that spent most in them, dearest first."""
    state = max(run.states, key=lambda state: sum(state.share(phase) for phase in phases))
    return [site for site in sites(state.process) if site.phase in phases and site.place.path]


def dear(found: Sequence[Site], share: float = 0.1, most: int = 4, beside: float = 0.0) -> list[Site]:
    """Those that make up at least a tenth of the cost of all of them, and of seconds beside them."""
    total = sum(site.seconds for site in found) + beside
    return [site for site in found if site.seconds >= share * total][:most]


def site_spans(patient: Patient, found: Iterable[Site]) -> list[SourceSpan]:
    """The places of sites as evidence, each once."""
    spans = (spot(patient, site.place) for site in found)
    return list({(span.path, span.line): span for span in spans}.values())


def hot_lines(patient: Patient, run: Run, *phases: str, share: float = 0.1, most: int = 3) -> list[SourceSpan]:
    """The user's lines that the sampler saw most in these phases: those with a tenth of the phases' samples."""
    state = max(run.states, key=lambda state: sum(state.share(phase) for phase in phases))
    found = by_line(lines(state.process), *phases)
    total = sum(item.samples for item in found)
    return [spot(patient, item.place) for item in found if item.samples >= share * total][:most]


def line_share(run: Run, places: Iterable[tuple[str, int]], *phases: str) -> float:
    """Share of all samples that fell on these lines (path as the user knows it, line), on the lead rank."""
    wanted = set(places)
    return sum(
        item.share
        for item in by_line(lines(run.lead.process), *phases)
        if (relative(run.recording, item.place.path), item.place.line) in wanted
    )


def grown(
    finding: Finding,
    message: str,
    *,
    evidence: Iterable[Evidence],
    severity: Severity,
    cost: Cost,
) -> Finding:
    """What the source suspected, now measured: its facts and places stay, the numbers are the recording's."""
    known = {(item.path, item.line) for item in finding.evidence if isinstance(item, SourceSpan)}
    new = [item for item in evidence if not (isinstance(item, SourceSpan) and (item.path, item.line) in known)]
    return replace(
        finding,
        message=message,
        evidence=(*finding.evidence, *new),
        confidence=Confidence.CONFIRMED,
        severity=severity,
        cost=cost,
    )


def best_match(suspected: Sequence[Finding], spans: Sequence[SourceSpan]) -> Finding | None:
    """The suspicion that the recording speaks of: one of its places is a measured one; else the only one."""
    places = {(span.path, span.line) for span in spans}
    for finding in suspected:
        if any(isinstance(item, SourceSpan) and (item.path, item.line) in places for item in finding.evidence):
            return finding
    return suspected[0] if len(suspected) == 1 else None


def level(share: float, noted: float, warned: float) -> Severity | None:
    """Note or warning by two thresholds on a share; None below both."""
    if share >= warned:
        return Severity.WARNING
    return Severity.NOTE if share >= noted else None


def percent(share: float) -> str:
    """A share in words: `23 %`, `0.4 %` below one percent."""
    value = 100 * share
    return f"{value:.0f} %" if value >= 1 or value == 0 else f"{value:.1f} %"


def period(steps: float) -> str:
    """Steps between two events, in words: `once in 20 steps`, `once in 2.5 steps`, `in every step`."""
    if steps <= 1:
        return "in every step"
    return f"once in {steps:.0f} steps" if steps >= 10 else f"once in {steps:.2g} steps"


def duration(seconds: float) -> str:
    """Seconds in words with a unit that suits them."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:g} s"
