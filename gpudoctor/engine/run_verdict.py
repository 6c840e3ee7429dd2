"""The verdict on a run: whether anybody reported, how it died, what it loses, or what it is well with."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from gpudoctor.model import Crashed, Outcome, Ranked, Severity
from gpudoctor.model.reading.recordings.bounds import speedup
from gpudoctor.model.run import RunSummary
from gpudoctor.model.signs.recording import Process, Recording, RunEnd

FEWEST_STEPS = 20
"""Steady steps below which the speed of a run is not called healthy."""
_WORTH = 1.05
"""A bound below this is not worth anybody's time."""
_UNEXPLAINED = 1.15
"""A bound above this with no finding to explain it is not health."""
_COMPUTE = ("forward", "backward", "optimizer")
_COMPUTING = ("PERF", "MEM", "GPU", "ENV", "NUM")
"""Topics whose findings can shorten the computation itself, not only what is lost beside it."""
_UNEXPLAINED_TIME = "PERF014"
_WRONG = ("LOOP", "NUM", "DATA", "DIST")
"""Topics whose errors make the result of a training wrong; an error of another is a fault beside it."""
_FIRST = 3
"""Findings that the verdict adds up."""

_WALLS = {
    "docker": "the probe does not get into a container that docker starts: install gpudoctor in its image and "
    "put `gpudoctor run --` inside",
    "ssh": "the probe does not reach another machine: put `gpudoctor run --` after ssh",
    "sudo": "sudo clears the environment that carries the probe: put `gpudoctor run --` after sudo",
    "env": "a cleared environment carries no probe: put `gpudoctor run --` after env",
    "python": "Python's flags -I, -E and -S keep the probe out: leave them away for this run",
}
_KIN = {"podman": "docker", "nerdctl": "docker", "kubectl": "docker", "apptainer": "docker",
        "singularity": "docker", "doas": "sudo", "su": "sudo"}  # fmt: skip
_NOT_SEEN = "no process of the command imported torch where the probe could see it"


def pronounce_run(
    title: str, recording: Recording, run: RunSummary, ranked: Sequence[Ranked], outcomes: Sequence[Outcome]
) -> str:
    """The verdict on a run of which at least one rank has reported."""
    errors = [item for item in ranked if item.finding.severity is Severity.ERROR]
    warnings = [item for item in ranked if item.finding.severity is Severity.WARNING]
    if _died(recording):
        return _dead(title, recording, run)
    if not run.steps:
        return f"{title} made no training step that could be seen, so nothing can be said about its speed."
    if errors:
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        wrong = any(item.finding.code.startswith(_WRONG) for item in errors)
        said = "its result is not to be trusted" if wrong else "something is to be mended"
        return f"{title} ran, and {said}: {errors[0].finding.name}{more}."
    return _steps_are(run) + (_slow(run, warnings) if warnings else _well(run, outcomes))


def _steps_are(run: RunSummary) -> str:
    """What a step is where no optimizer makes one."""
    if run.marker == "loader":
        return "Nothing was trained: no backward pass and no optimizer was seen, a step is a batch. "
    if run.marker == "backward":
        return "No optimizer was seen: a step is a backward pass. "
    return ""


def in_good_health(recording: Recording, run: RunSummary, ranked: Sequence[Ranked], crashed: int) -> bool:
    """Whether a run ended well, made steps enough to judge, has no finding above a note, and loses little."""
    died = _died(recording)
    sick = any(item.finding.severity is not Severity.NOTE for item in ranked)
    slow = _bound(run.phases) > _UNEXPLAINED
    return not (died or sick or slow or crashed or run.steady_steps < FEWEST_STEPS)


def _died(recording: Recording) -> bool:
    """Whether it ended by a fault of its own: what Ctrl-C or `--steps` raise in a process is none."""
    end = recording.end
    if end is not None:
        return end.failed
    return any(process.first("exception") for process in recording.ranks)


def _dead(title: str, recording: Recording, run: RunSummary) -> str:
    """Where it died and of what; the exception of the rank that died first says more than an exit code."""
    ended = death(recording.end) or "died"
    after = (
        f" after {run.steps:,} {'step' if run.steps == 1 else 'steps'}"
        if run.steps
        else " before its first step"
    )
    first = _first_exception(recording)
    if first is None:
        return f"{title} {ended}{after}."
    process, name, message = first
    who = f" of rank {process.rank}" if len(recording.ranks) > 1 else ""
    said = f"{name}: {message}" if message else name
    return f"{title} died{after}{who}: {said}" + ("" if said.endswith((".", "!", "?", "...")) else ".")


def _first_exception(recording: Recording) -> tuple[Process, str, str] | None:
    """The earliest exception of any rank: its type and the first line of its message."""
    found = [
        (process.wall + record.t, process, record)
        for process in recording.ranks
        if (record := process.first("exception")) is not None
    ]
    if not found:
        return None
    _, process, record = min(found, key=lambda item: item[0])
    lines = str(record.get("message") or "").strip().splitlines()
    message = lines[0] if lines else ""
    return process, str(record.get("exception") or "an exception"), _short(message)


def _short(text: str, longest: int = 160) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _slow(run: RunSummary, warnings: Sequence[Ranked]) -> str:
    """What the time goes to, and what the first findings can give back together."""
    dear = [item for item in warnings if (item.finding.cost.step_share or 0.0) > 0][:_FIRST]
    lead = _lead(run.phases)
    if not dear:
        names = ", ".join(item.finding.name for item in warnings[:_FIRST])
        return f"{lead}To look at: {names}.".strip()
    high = _together(run.phases, [(item, item.finding.cost.step_share or 0.0) for item in dear])
    low = _together(run.phases, [(item, 1 - 1 / max(1.0, _least(item))) for item in dear])
    which = ("the first finding", "the first two findings", "the first three findings")[len(dear) - 1]
    gain = f"{_factor(low)} to {_factor(high)}" if _WORTH <= low < high else f"up to {_factor(high)}"
    rest = "; nothing else is worth your time" if len(dear) == len(warnings) else ""
    return f"{lead}Curing {which} should make this run {gain} faster{rest}."


def _together(phases: Mapping[str, float], shares: Sequence[tuple[Ranked, float]]) -> float:
    """What findings give back together, as a factor, none of the time counted twice.

    Findings of a topic often price the same time (a loader that is slow, and the line in it that makes it so),
    so the largest of each topic counts. Together they give back no more than the phases that they are about
    hold, unless one alone does.
    """
    largest: dict[str, float] = {}
    for item, share in shares:
        code = item.finding.code
        topic = code if code == _UNEXPLAINED_TIME else code.rstrip("0123456789")
        largest[topic] = max(largest.get(topic, 0.0), share)
    lost = math.fsum(_losses(phases).values())
    computed = math.fsum(share for topic, share in largest.items() if topic in _COMPUTING)
    beside = math.fsum(share for topic, share in largest.items() if topic not in _COMPUTING)
    return speedup(max(*largest.values(), 0.0, min(computed, 1.0 - lost) + min(beside, lost)))


def _factor(value: float) -> str:
    return f"{value:.2f}x" if value < 2 else f"{value:.1f}x" if value < 10 else f"{value:.0f}x"


def _least(item: Ranked) -> float:
    """The least that the first remedy promises, as a factor."""
    effects = [remedy.effect for remedy in item.remedies if remedy.effect and remedy.effect.unit == "x"]
    return effects[0].low if effects else 1.0


def _lead(phases: Mapping[str, float]) -> str:
    """The largest part of a step that is no computation."""
    name, share = max(_losses(phases).items(), key=lambda item: item[1], default=("", 0.0))
    if share < 0.1:
        return ""
    words = {"data_wait": "The training waits for data", "other": "Code outside every phase that we know takes"}
    if name == "data_wait":
        return f"{words[name]} {share:.0%} of every step. ".replace("%", " %")
    said = words.get(name, f"{name.replace('_', ' ').capitalize()} takes")
    return f"{said} {share:.0%} of every step. ".replace("%", " %")


def _losses(phases: Mapping[str, float]) -> dict[str, float]:
    return {name: share for name, share in phases.items() if name not in _COMPUTE and share > 0}


def _bound(phases: Mapping[str, float]) -> float:
    """What the largest loss can give back at most, as a factor."""
    return speedup(max(_losses(phases).values(), default=0.0))


def crashes(outcomes: Sequence[Outcome]) -> int:
    """Checks that crashed."""
    return sum(isinstance(item, Crashed) for item in outcomes)


def _well(run: RunSummary, outcomes: Sequence[Outcome]) -> str:
    """Health with its margins, or why it cannot be called that."""
    crashed = crashes(outcomes)
    losses = sorted(_losses(run.phases).items(), key=lambda item: -item[1])
    said = ", ".join(
        f"{name.replace('_', ' ')} {share * 100:.2g} %" for name, share in losses[:2] if share >= 0.001
    )
    bound = _bound(run.phases)
    if crashed:
        return f"Nothing wrong was found, but {crashed} {'check' if crashed == 1 else 'checks'} crashed."
    if run.steady_steps < FEWEST_STEPS:
        few = f"Nothing wrong was found in {run.steady_steps} steady steps"
        return f"{few}; for a verdict on its speed let it make more."
    if bound > _UNEXPLAINED:
        gain = f"{bound:.2f}x at most to gain"
        return f"No finding explains it, but {said} of every step are no computation ({gain})."
    margin = f"nothing above {max(bound, 1.01):.2f}x to gain"
    return f"In good health: {said}, {margin}." if said else f"In good health: {margin}."


def nobody_reported(recording: Recording) -> str:
    """The verdict on a run of which no rank has reported: never healthy."""
    why = _wall(recording.command) or _NOT_SEEN
    died = death(recording.end)
    ended = f" The command {died}." if died else ""
    return f"No rank reported, so nothing can be said about the training: {why}.{ended}"


def death(end: RunEnd | None) -> str:
    """How a command that failed ended, a clause without its subject; "" for one that did not."""
    if end is None or not end.failed:
        return ""
    if end.signal is None:
        return f"ended with exit code {end.exit_code}"
    killed = f"was killed by {end.signal}"
    return f"{killed}: its memory limit was reached" if end.oom_kills and end.signal == "SIGKILL" else killed


def _wall(command: Sequence[str]) -> str:
    """What kept the probe out, where the command line shows it."""
    for place, word in enumerate(command):
        name = PurePath(word).name
        name = _KIN.get(name, name)
        if name in ("docker", "ssh", "sudo") and place == 0:
            return _WALLS[name]
        if name == "env" and _has_flag(command[place + 1 :], "i", long=("--ignore-environment", "-")):
            return _WALLS["env"]
        if re.fullmatch(r"(python|pypy)[\d.]*", name) and _has_flag(command[place + 1 :], "IES"):
            return _WALLS["python"]
    return ""


def _has_flag(words: Sequence[str], letters: str, long: Sequence[str] = ()) -> bool:
    """Whether one of the flags before the first word that is none has one of these letters."""
    for word in words:
        if word in long:
            return True
        if not word.startswith("-") or word.startswith("--"):
            return False
        flags = re.split(r"[WXcm]", word[1:])[0]  # what follows such a letter is its value
        if set(letters) & set(flags):
            return True
    return False
