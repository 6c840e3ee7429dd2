"""The verdict on a run: whether anybody reported, how it died, what it loses, or what it is well with."""

import math
import re
from collections.abc import Sequence
from pathlib import PurePath

from gpudoctor.model import Crashed, Outcome, Ranked, Severity
from gpudoctor.model.reading.recordings.bounds import speedup
from gpudoctor.model.reading.recordings.crowd import crowd
from gpudoctor.model.reading.recordings.deaths import EXIT, Told
from gpudoctor.model.reading.recordings.deaths import death as cause_of_death
from gpudoctor.model.run import RunSummary
from gpudoctor.model.signs.recording import Recording, RunEnd

FEWEST_STEPS = 20
"""Steady steps below which the speed of a run is not called healthy."""
_WORTH = 1.05
"""A bound below this is not worth anybody's time."""
_UNEXPLAINED = 1.18
"""A bound above this with no finding to explain it is not health: 15 % of the time, what PERF014 notes."""
_NOTED = 0.15
"""Share of the time from which on the verdict names a note."""
_COMPUTE = ("forward", "backward", "optimizer")
_COMPUTING = ("PERF", "MEM", "GPU", "ENV", "NUM")
"""Topics whose findings can shorten the computation itself, not only what is lost beside it."""
_OTHER, _NOTHING = "other", 1e-9
_UNEXPLAINED_TIME = "PERF014"
_HANG = "DIST008"
_WRONG = ("LOOP", "NUM", "DATA", "DIST")
"""Topics whose errors make the result of a training wrong; an error of another is a fault beside it."""
_SENTENCE = 40
"""Characters below which the first sentences of a message do not stand for it."""
_FIRST = 3
"""Findings that the verdict adds up."""

_STEPS_ARE = {
    "loader": "No backward pass and no optimizer was seen: a step is a batch. ",
    "backward": "No optimizer was seen: a step is a backward pass. ",
    "gradients": "No optimizer was seen: a step is one call for gradients (torch.autograd.grad, torch.func). ",
}
"""What a step is where no optimizer makes one, by the marker."""
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
    told = cause_of_death(recording)
    if told is not None:
        return _dead(title, recording, run, told)
    if not run.steps and not any(item.finding.code == _HANG for item in errors):
        return f"{title} made no training step that could be seen, so nothing can be said about its speed."
    if errors:
        return _wrong(title, run, errors) + _crowded(recording)
    said = _slow(run, warnings) if warnings else _well(run, ranked, outcomes)
    return _steps_are(run) + said + _crowded(recording)


def _crowded(recording: Recording) -> str:
    """What other processes took: the times of a run are then theirs, too."""
    found = crowd(recording)
    if found is None:
        return ""
    return (
        f" Other processes took {found.others:.2g} of the {found.cpus} CPUs meanwhile, and none was idle: "
        "alone the run would be faster."
    )


def _steps_are(run: RunSummary) -> str:
    """What a step is where no optimizer makes one."""
    return _STEPS_ARE.get(run.marker or "", "")


def _wrong(title: str, run: RunSummary, errors: Sequence[Ranked]) -> str:
    """A run that did not die, and that has errors: what they mean for it."""
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    name = errors[0].finding.name
    if any(item.finding.code == _HANG for item in errors):
        since = f"after step {run.steps:,}" if run.steps else "from its start"
        return f"{title} stood still {since} until it was ended."
    wrong = any(item.finding.code.startswith(_WRONG) for item in errors)
    said = "its result is not to be trusted" if wrong else "something is to be mended"
    return f"{title} ran, and {said}: {name}{more}."


def in_good_health(recording: Recording, run: RunSummary, ranked: Sequence[Ranked], crashed: int) -> bool:
    """Whether a run ended well, made steps enough to judge, has no finding above a note, and loses little."""
    died = _died(recording)
    sick = any(item.finding.severity is not Severity.NOTE for item in ranked)
    slow = _bound(run) > _UNEXPLAINED
    return not (died or sick or slow or crashed or run.steady_steps < FEWEST_STEPS)


def _died(recording: Recording) -> bool:
    """Whether it ended by a fault of its own: what Ctrl-C or `--steps` raise in a process is none."""
    return cause_of_death(recording) is not None


def _dead(title: str, recording: Recording, run: RunSummary, told: Told) -> str:
    """Where it died and of what; the root of all deaths says more than an exit code."""
    after = _after(run, told)
    many = told.process is not None and len(recording.ranks) > 1
    rank = f"rank {told.process.rank}" if many and told.process is not None else ""
    lines = told.message.strip().splitlines()
    message = _short(lines[0]) if lines else ""
    if told.kind == EXIT:
        how = "with exit code " if message.lstrip("-").isdigit() else "by sys.exit: "
        return _ended(f"{title}{f' ({rank})' if rank else ''} ended itself{after} {how}{message}")
    if told.record is not None and told.record.type == "exception":
        said = f"{told.kind}: {message}" if message else told.kind
        return _ended(f"{title} died{after}{f' of {rank}' if rank else ''}: {said}")
    if rank:
        killed = f"was killed by {told.kind}" if told.kind else "was gone without a word"
        return _ended(f"{title} died{after}: {rank} {killed}{_for_memory(recording.end, told.kind)}")
    return f"{title} {death(recording.end) or 'died'}{after}."


def _after(run: RunSummary, told: Told) -> str:
    """After how many steps; the last second of a process that was killed is not written down."""
    if run.steps:
        told_it = told.record is not None and told.record.type == "exception"
        least = "" if told_it or told.process is None or told.process.clean else "at least "
        return f" after {least}{run.steps:,} {'step' if run.steps == 1 else 'steps'}"
    began = told.process is not None and told.process.first("loop") is not None
    return " in its first steps" if began else " before its first step"


def _ended(sentence: str) -> str:
    return sentence + ("" if sentence.endswith((".", "!", "?", "...")) else ".")


def _short(text: str, longest: int = 160) -> str:
    """A text in so many characters: whole sentences where there are any."""
    if len(text) <= longest:
        return text
    sentence = text.rfind(". ", 0, longest)
    return text[: sentence + 1] if sentence >= _SENTENCE else text[: longest - 3] + "..."


def _slow(run: RunSummary, warnings: Sequence[Ranked]) -> str:
    """What the time goes to, and what the first findings can give back together."""
    dear = [item for item in warnings if (item.finding.cost.step_share or 0.0) > 0][:_FIRST]
    lead = _lead(run)
    if not dear:
        names = ", ".join(item.finding.name for item in warnings[:_FIRST])
        return f"{lead}To look at: {names}.".strip()
    high = _together(run, [(item, item.finding.cost.step_share or 0.0) for item in dear])
    low = _together(run, [(item, 1 - 1 / max(1.0, _least(item))) for item in dear])
    which = ("the first finding", "the first two findings", "the first three findings")[len(dear) - 1]
    gain = f"{_factor(low)} to {_factor(high)}" if _WORTH <= low < high else f"up to {_factor(high)}"
    rest = "; nothing else is worth your time" if len(dear) == len(warnings) else ""
    return f"{lead}Curing {which} should make this run {gain} faster{rest}."


def _together(run: RunSummary, shares: Sequence[tuple[Ranked, float]]) -> float:
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
    lost = math.fsum(_losses(run).values())
    computed = math.fsum(share for topic, share in largest.items() if topic in _COMPUTING)
    beside = math.fsum(share for topic, share in largest.items() if topic not in _COMPUTING)
    return speedup(max(*largest.values(), 0.0, min(computed, 1.0 - lost) + min(beside, lost)))


def _factor(value: float) -> str:
    return f"{value:.2f}x" if value < 2 else f"{value:.1f}x" if value < 10 else f"{value:.0f}x"


def _least(item: Ranked) -> float:
    """The least that the first remedy promises, as a factor."""
    effects = [remedy.effect for remedy in item.remedies if remedy.effect and remedy.effect.unit == "x"]
    return effects[0].low if effects else 1.0


def _lead(run: RunSummary) -> str:
    """The largest part of a step that is no computation."""
    name, share = max(_losses(run).items(), key=lambda item: item[1], default=("", 0.0))
    if share < 0.1:
        return ""
    words = {"data_wait": "The training waits for data", "other": "Code outside every phase that we know takes"}
    if name == "data_wait":
        return f"{words[name]} {share:.0%} of every step. ".replace("%", " %")
    said = words.get(name, f"{name.replace('_', ' ').capitalize()} takes")
    return f"{said} {share:.0%} of every step. ".replace("%", " %")


def _losses(run: RunSummary) -> dict[str, float]:
    """Shares of the phases that compute nothing, without the lines that do."""
    beside = {**run.phases, _OTHER: run.phases.get(_OTHER, 0.0) - run.work}
    return {name: share for name, share in beside.items() if name not in _COMPUTE and share > _NOTHING}


def _bound(run: RunSummary) -> float:
    """What the largest loss can give back at most, as a factor."""
    return speedup(max(_losses(run).values(), default=0.0))


def crashes(outcomes: Sequence[Outcome]) -> int:
    """Checks that crashed."""
    return sum(isinstance(item, Crashed) for item in outcomes)


def _well(run: RunSummary, ranked: Sequence[Ranked], outcomes: Sequence[Outcome]) -> str:
    """Health with its margins, or why it cannot be called that."""
    crashed = crashes(outcomes)
    losses = sorted(_losses(run).items(), key=lambda item: -item[1])
    said = ", ".join(
        f"{name.replace('_', ' ')} {share * 100:.2g} %" for name, share in losses[:2] if share >= 0.001
    )
    bound = _bound(run)
    noted = _noted(ranked)
    if crashed:
        return f"Nothing wrong was found, but {crashed} {'check' if crashed == 1 else 'checks'} crashed."
    if run.steady_steps < FEWEST_STEPS:
        few = f"Nothing wrong was found in {run.steady_steps} steady steps"
        return f"{few}; for a verdict on its speed let it make more."
    if bound > _UNEXPLAINED:
        gain = f"{bound:.2f}x at most to gain"
        if noted:
            note, _ = noted
            return f"No fault was found; {said} of every step are no computation ({gain}): see note {note}."
        return f"No finding explains it, but {said} of every step are no computation ({gain})."
    margin = f"nothing above {max(bound, 1.01):.2f}x to gain"
    more = f" Note {noted[0]} is about {noted[1] * 100:.0f} % of the time." if noted else ""
    return (f"In good health: {said}, {margin}." if said else f"In good health: {margin}.") + more


def _noted(ranked: Sequence[Ranked]) -> tuple[int, float] | None:
    """Place and share of the note that takes most of the time, where it takes much; None without one."""
    shares = [(item.finding.cost.step_share or 0.0, -item.rank) for item in ranked]
    share, place = max(shares, default=(0.0, 0))
    return (-place, share) if share >= _NOTED else None


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
    return f"was killed by {end.signal}{_for_memory(end, end.signal)}"


def _for_memory(end: RunEnd | None, signal: str) -> str:
    return (
        " (its memory limit was reached)" if end is not None and end.oom_kills and signal == "SIGKILL" else ""
    )


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
