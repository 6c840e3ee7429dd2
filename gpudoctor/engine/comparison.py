"""Compares two recordings: step time with an interval, where it went, memory, loss; whether it is one job."""

import math
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath

from gpudoctor.analysis.run.cpu_contention import crowd
from gpudoctor.analysis.run.job_facts import main_model, torch_fact
from gpudoctor.analysis.run.line_costs import relative
from gpudoctor.analysis.run.steady_run import run_of
from gpudoctor.analysis.run.steady_state import Steady, steady
from gpudoctor.engine.run_summary import summarise
from gpudoctor.lang import say, term
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Confidence, Passed, Report
from gpudoctor.model.comparison import Change, Comparison, Ratio, Row
from gpudoctor.model.run import RunSummary
from gpudoctor.model.signs.recording import Process, Recording
from gpudoctor.text import capitalised, count, joined

FEWEST_COMPARED = 8
"""Steady steps below which two runs are not compared."""

# Whether two recordings are of one job: what differs between them beside their speed.


def differences(before: Recording, after: Recording) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What makes them two jobs (another script, model, number of ranks), and what else differs, a clause each."""
    jobs = [("scripts", _script(before.command), _script(after.command))]
    edited = _edited(before, after)
    settings = [("machines", before.node, after.node)]
    if (first := run_of(before)) is not None and (second := run_of(after)) is not None:
        one, two = first.lead.process, second.lead.process
        jobs.append(("models", _model(one), _model(two)))
        jobs.append((say("numbers of ranks"), count(len(before.ranks), "rank"), count(len(after.ranks), "rank")))
        settings.append(("devices", _device(one), _device(two)))
        settings.append((say("versions of torch"), _text(one, "version"), _text(two, "version")))
    change = (say("{edited} was edited between them", edited=joined(edited)),) if edited else ()
    return _differing(jobs), (*change, *_differing(settings))


def _edited(before: Recording, after: Recording) -> list[str]:
    """Scripts of both runs whose text is not the same."""
    first, second = _digests(before), _digests(after)
    common = first.keys() & second.keys()
    return sorted(path for path in common if first[path] != second[path])


def _digests(recording: Recording) -> dict[str, str]:
    """The hash of each script by its path from the working folder: two checkouts of one program compare."""
    found = {}
    for path, (digest, _) in recording.scripts.items():
        found[relative(recording, path)] = digest
    return found


def _differing(pairs: Sequence[tuple[str, str, str]]) -> tuple[str, ...]:
    """A clause for each pair of known values that are not the same."""
    return tuple(
        say("the {what} differ ({before}, then {after})", what=what, before=one, after=two)
        for what, one, two in pairs
        if all((what, one, two)) and one != two
    )


def _script(command: Sequence[str]) -> str:
    """The name of the script or module; "" where the command line names none."""
    for place, word in enumerate(command):
        if word.endswith(".py"):
            return PurePath(word).name
        if word == "-m" and place + 1 < len(command) and not command[place + 1].startswith("torch.distributed"):
            return f"-m {command[place + 1]}"
    return ""


def _model(process: Process) -> str:
    found = main_model(process)
    if found is None or not found.get("parameters"):
        return ""
    return say(
        "{found} of {parameters:,} parameters",
        found=found.get("name") or say("a model"),
        parameters=found.get("parameters"),
    )


def _device(process: Process) -> str:
    """The card's name, or where the model stood."""
    model = main_model(process)
    stood = str(model.get("device") or "").partition(":")[0] if model is not None else ""
    return _text(process, "device") if stood not in ("", "cpu") and _text(process, "device") else stood


def _text(process: Process, name: str) -> str:
    value = torch_fact(process, name)
    return "" if value is None else str(value)


BLOCKS = (50, 36, 25, 18, 12, 8)
"""Numbers of blocks of neighbouring steps to try: steps near each other resemble each other."""
_DRAWS = 1000
_SMALLEST = 0.01
"""A change of the mean below this is noise of any machine, however narrow the interval."""
_SAME_BATCH = 0.02
_LEAST_SHARE = 0.01
"""A phase below it in both runs has no row."""
_SEED = 20
_LOSS = 0.02


def compare(before: Recording, after: Recording, reports: tuple[Report, Report]) -> Comparison:
    """What changed; `reports` are the examinations of both, for their findings."""
    runs = summarise(before), summarise(after)
    states = _lead(before), _lead(after)
    measure = _measure(states)
    ratio = _ratio(states, measure)
    change = _change(ratio)
    jobs, settings = differences(before, after)
    doubts = _doubts(jobs, _crowds(before, after))
    sources = all(report.scripts for report in reports)
    codes = [_titles(report, sources) for report in reports]
    return Comparison(
        before=runs[0],
        after=runs[1],
        measure=measure,
        time=ratio,
        change=change,
        speed=_speed(*runs),
        phases=_phases(*runs),
        memory=_memory(*runs),
        loss=_loss(before, after),
        # What a run was too short for, or what was not looked at, is neither gone nor new.
        gone=tuple(sorted(_judged(codes[0] - codes[1], reports[1]))) if ratio is not None else (),
        new=tuple(sorted(_judged(codes[1] - codes[0], reports[0]))),
        verdict=_verdict(ratio, change, doubts, measure, runs),
        other_job=jobs,
        other_setting=settings,
    )


def _titles(report: Report, sources: bool) -> set[str]:
    """The findings to compare: without `sources` of both runs, what a source alone shows is not."""
    found = set()
    for item in report.findings:
        finding = item.finding
        if sources or finding.confidence is not Confidence.SUSPECTED:
            found.add(f"{finding.code} {finding.name}")
    return found


def _judged(titles: set[str], report: Report) -> set[str]:
    """The findings whose checks have looked at this run, too."""
    looked = {item.code for item in report.outcomes if isinstance(item, Passed)}
    return {title for title in titles if title.partition(" ")[0] in looked}


def _crowds(before: Recording, after: Recording) -> tuple[str, ...]:
    """What other processes took beside either run, a clause each: its times are theirs, too."""
    return tuple(
        say(
            "{others:.2g} of the {counted} during the {which} run",
            others=found.others,
            counted=count(found.cpus, "CPU"),
            which=which,
        )
        for which, recording in (("first", before), ("second", after))
        if (found := crowd(recording)) is not None
    )


def _lead(recording: Recording) -> Steady | None:
    """The steady state of the first rank that has one."""
    return next((state for state in map(steady, recording.ranks) if state.steps), None)


def _measure(states: tuple[Steady | None, Steady | None]) -> str:
    """`sample` where both count samples and the batches differ, else `step`."""
    sizes = [state.total("samples") / state.steps if state and state.known("samples") else 0.0 for state in states]
    if min(sizes) <= 0 or abs(sizes[1] / sizes[0] - 1) < _SAME_BATCH:
        return term("step")
    return term("sample")


def _ratio(states: tuple[Steady | None, Steady | None], measure: str) -> Ratio | None:
    first, second = states
    if first is None or second is None or min(first.steps, second.steps) < FEWEST_COMPARED:
        return None
    one, two = _blocks(first, measure), _blocks(second, measure)
    if min(min(block) for block in (*one, *two)) <= 0:
        return None  # a clock that stood still says nothing
    value = _mean(two) / _mean(one)
    dice = random.Random(_SEED)
    drawn = sorted(_mean(dice.choices(two, k=len(two))) / _mean(dice.choices(one, k=len(one))) for _ in range(_DRAWS))
    low, high = drawn[int(0.025 * _DRAWS)], drawn[int(0.975 * _DRAWS)]
    # Means of few blocks that are drawn with replacement spread too little, and Student's t has longer tails.
    wider = 1 + 1.5 / (min(len(one), len(two)) - 1)
    return Ratio(value=value, low=value * (low / value) ** wider, high=value * (high / value) ** wider)


def _blocks(state: Steady, measure: str) -> list[tuple[float, float]]:
    """Seconds and amount (steps or samples) of blocks of neighbouring rows.

    As many as resemble their neighbours no more than chance has it: what drifts slowly makes few independent
    blocks, and an interval from many small ones would be too narrow.
    """
    durations = state.values("duration")
    if measure == "sample":
        amounts = [value if math.isfinite(value) else 0.0 for value in state.values("samples")]
    else:
        every = state.values("count")
        amounts = [max(1.0, count) for count in every] if every else [1.0] * len(durations)
    blocks: list[tuple[float, float]] = []
    for blocked in BLOCKS:
        edges = [i * len(durations) // blocked for i in range(blocked + 1)]
        blocks = [(math.fsum(durations[a:b]), math.fsum(amounts[a:b])) for a, b in pairwise(edges) if b > a]
        if _resemblance([seconds / max(amount, 1e-12) for seconds, amount in blocks]) < 1 / math.sqrt(blocked):
            break
    return blocks


def _resemblance(values: Sequence[float]) -> float:
    """Correlation of neighbours."""
    mean = math.fsum(values) / len(values)
    square = math.fsum((value - mean) ** 2 for value in values)
    if square <= 0:
        return 0.0
    return math.fsum((a - mean) * (b - mean) for a, b in pairwise(values)) / square


def _mean(blocks: Sequence[tuple[float, float]]) -> float:
    """Seconds for one step or sample, over all blocks."""
    return math.fsum(seconds for seconds, _ in blocks) / max(math.fsum(amount for _, amount in blocks), 1e-12)


def _change(ratio: Ratio | None) -> Change:
    if ratio is None:
        return Change.UNKNOWN
    if ratio.high < 1.0 and ratio.value < 1.0 - _SMALLEST:
        return Change.FASTER
    if ratio.low > 1.0 and ratio.value > 1.0 + _SMALLEST:
        return Change.SLOWER
    return Change.UNCLEAR


def _speed(before: RunSummary, after: RunSummary) -> tuple[Row, ...]:
    steps = [run.step_seconds for run in (before, after)]
    rows = [
        Row(
            name=say("step, {name}", name=term(name)),
            unit="s",
            before=getattr(steps[0], name, None),
            after=getattr(steps[1], name, None),
        )
        for name in ("mean", "median", "p90")
    ]
    for name in ("samples_per_second", "tokens_per_second", "mfu"):
        pair = (getattr(before.throughput, name), getattr(after.throughput, name))
        if pair != (None, None):
            unit = "1" if name == "mfu" else f"{name.partition('_')[0]}/s"
            rows.append(Row(name=name.replace("_per_second", "/s"), unit=unit, before=pair[0], after=pair[1]))
    return tuple(rows)


def _phases(before: RunSummary, after: RunSummary) -> tuple[Row, ...]:
    """Seconds a step in each phase."""
    if before.step_seconds is None or after.step_seconds is None:
        return ()
    rows = []
    for name in dict.fromkeys([*before.phases, *after.phases]):
        shares = before.phases.get(name, 0.0), after.phases.get(name, 0.0)
        if max(shares) >= _LEAST_SHARE:
            one = shares[0] * before.step_seconds.mean
            two = shares[1] * after.step_seconds.mean
            rows.append(Row(name=name, unit="s", before=one, after=two))
    return tuple(sorted(rows, key=lambda row: -abs((row.after or 0.0) - (row.before or 0.0))))


def _memory(before: RunSummary, after: RunSummary) -> tuple[Row, ...]:
    words = {"allocated": say("GPU, allocated"), "reserved": say("GPU, reserved"), "tree_rss": say("all processes")}
    rows = [
        Row(name=words[name], unit="B", before=getattr(before.memory, name), after=getattr(after.memory, name))
        for name in words
    ]
    return tuple(row for row in rows if row.before is not None or row.after is not None)


def _loss(before: Recording, after: Recording) -> str:
    """Whether the loss went the same way over the steps that both made."""
    curves = [_curve(recording) for recording in (before, after)]
    common = sorted(curves[0].keys() & curves[1].keys())
    if not common:
        return ""
    if all(curves[0][step] == curves[1][step] for step in common):
        return say("identical")
    tail = common[-max(1, len(common) // 5) :]  # its last fifth: the way there may differ by chance
    one, two = (sum(curve[step] for step in tail) / len(tail) for curve in curves)
    difference = abs(two - one) / max(abs(one), 1e-12)
    return say("within {difference:.2g} %", difference=difference * 100) if difference <= _LOSS else term("different")


def _curve(recording: Recording) -> dict[int, float]:
    """The loss by step, of the first rank that has one."""
    for process in recording.ranks:
        losses, steps = process.steps.column("loss"), process.steps.column("index")
        found = {int(step): loss for step, loss in zip(steps, losses, strict=False) if math.isfinite(loss)}
        if found:
            return found
    return {}


def _doubts(jobs: Sequence[str], crowds: Sequence[str]) -> list[str]:
    """Why two runs may not say which is faster, besides chance, a clause each."""
    found = [say("they are two jobs: {jobs}", jobs=concatenated("; ", jobs))] if jobs else []
    if crowds:
        used = concatenated(" and ", crowds)
        found.append(say("other processes used {crowds}, and no CPU was idle", crowds=used))
    return found


def _verdict(
    ratio: Ratio | None, change: Change, doubts: Sequence[str], measure: str, runs: tuple[RunSummary, RunSummary]
) -> str:
    """What became of the speed; where not all is there that this takes, the ratio and what is missing."""
    if ratio is None:
        short = [
            name for name, run in zip(("first", "second"), runs, strict=True) if run.steady_steps < FEWEST_COMPARED
        ]
        which = concatenated(say(" and the "), map(term, short))
        jobs = say(" {others}.", others=capitalised(joined(doubts))) if doubts else ""
        return say(
            "No difference can be distinguished from chance: the {which} run made fewer than "
            "{fewest_compared} steady steps.{jobs}",
            which=which,
            fewest_compared=FEWEST_COMPARED,
            jobs=jobs,
        )
    span = say("{low:.3f} to {high:.3f}", low=ratio.low, high=ratio.high)
    takes = say("a {measure} takes {ratio:.3f}x the time ({span})", measure=measure, ratio=ratio.value, span=span)
    also = [say("Also, {clause}.", clause=clause) for clause in doubts[1:]]
    if change is Change.UNCLEAR:
        but = [say("But {missing}.", missing=doubts[0])] if doubts else []
        return concatenated(" ", (say("No clear difference: {takes}.", takes=takes), *but, *also))
    if doubts:
        first = say("{takes}, but {missing}.", takes=capitalised(takes), missing=doubts[0])
        return concatenated(" ", (first, *also))
    if change is Change.SLOWER:
        span = say("{low:.2f} to {high:.2f}", low=ratio.low, high=ratio.high)
        return say(
            "The second run is slower: a {measure} takes {ratio:.2f}x the time ({span}).",
            measure=measure,
            ratio=ratio.value,
            span=span,
        )
    span = say("{high:.2f} to {low:.2f}", high=1 / ratio.high, low=1 / ratio.low)
    return say(
        "The second run is faster: {ratio:.2f}x the {measure}s in the same time ({span}).",
        ratio=1 / ratio.value,
        measure=measure,
        span=span,
    )
