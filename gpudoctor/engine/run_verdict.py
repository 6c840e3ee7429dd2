"""The verdict on a run: whether anybody reported, how it died, what it loses, or what it is well with."""

import math
from collections.abc import Sequence
from pathlib import PurePath

from gpudoctor.analysis.known_gain import speedup
from gpudoctor.analysis.run.cpu_contention import crowd
from gpudoctor.analysis.run.deaths import EXIT, DeathMessage, first_failed
from gpudoctor.analysis.run.deaths import death as cause_of_death
from gpudoctor.analysis.run.training.card import examined
from gpudoctor.analysis.run.unmeasured import is_suspicion, without_steps
from gpudoctor.engine.claims import FEWEST_STEPS, MUCH, UNEXPLAINED, Ran, not_judged, unseen_in_run
from gpudoctor.engine.ranking import doubtful
from gpudoctor.lang import say, term
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Crashed, Outcome, PatientKind, Ranked, Severity, Trait
from gpudoctor.model.run import RunSummary
from gpudoctor.model.signs.recording import Recording, RunEnd
from gpudoctor.text import capitalised, count, cut, joined, joined_clauses, percent

_ALWAYS = 0.9
"""Share of a run from which on others that crowd its CPUs need no share of time beside."""
_WORTH = 1.05
"""A bound below this is not worth anybody's time."""
_COMPUTE = ("forward", "backward", "optimizer")
_COMPUTING = ("PERF", "MEM", "GPU", "ENV", "NUM")
"""Topics whose findings can shorten the computation itself, not only what is lost beside it."""
_INSIDE = ("SYNC", "DIST")
"""Topics beside the computation whose time may be inside the passes: waits and collectives."""
_OTHER, _NOTHING = "other", 1e-9
_WRONG = ("LOOP", "TRAIN", "NUM", "DATA", "DIST")
"""Topics whose errors make the result of a training wrong; an error of another is a fault beside it."""
_SENTENCE = 40
"""Characters below which the first sentences of a message do not stand for it."""
_MUCH_IDLE = 0.1
"""Share of a step from which on what it loses leads the verdict."""
_FIRST = 3
"""Findings that the verdict adds up."""

_STEPS_ARE = {"backward": say("gpudoctor saw no optimizer: it counts a backward pass as a step. ")}
"""What a step is where no optimizer makes one, by the marker."""
_WALLS = {
    "docker": say(
        "the probe cannot enter a container that docker starts: install gpudoctor in its image and put "
        "`gpudoctor run --` inside"
    ),
    "ssh": say("the probe cannot reach another machine: put `gpudoctor run --` after ssh"),
    "sudo": say("sudo clears the environment that carries the probe: put `gpudoctor run --` after sudo"),
}
_KIN = {"podman": "docker", "nerdctl": "docker", "kubectl": "docker", "apptainer": "docker",
        "singularity": "docker", "doas": "sudo", "su": "sudo"}  # fmt: skip
_NOT_SEEN = say("the probe saw no process of the command import torch")
_RANKS_NOT_SEEN = say("its ranks ended before they imported torch")
_KEEP_RANKS = say(
    "To find the cause, let the launcher keep what its ranks print: `torchrun --tee 3 --log-dir logs ...`; "
    "`gpudoctor run` reads it then."
)
_KEEP_OUTPUT = say(
    "To find the cause, keep the command's output: `... 2>&1 | tee job.out`, then `gpudoctor autopsy job.out`."
)


def pronounce_run(
    title: str, recording: Recording, run: RunSummary, ranked: Sequence[Ranked], outcomes: Sequence[Outcome]
) -> str:
    """The verdict on a run of which at least one rank has reported."""
    errors = [item for item in ranked if item.finding.severity is Severity.ERROR]
    warnings = [item for item in ranked if item.finding.severity is Severity.WARNING]
    told = cause_of_death(recording)
    if told is not None:
        return _dead(title, recording, run, told) + _suspected(recording, ranked)
    if not run.steps and not _stood_still(errors):
        said = say("{title} made no training step that gpudoctor could see, so its speed is unknown.", title=title)
        return said + _interrupted(recording.end) + _suspected(recording, ranked)
    if errors:
        return _wrong(title, run, errors) + _interrupted(recording.end) + _crowded(recording)
    if warnings and doubtful(warnings[0].finding):
        name = warnings[0].finding.name
        said = say("{title} ran, and it is doubtful what it learns: {name}.", title=title, name=name)
        return said + _interrupted(recording.end) + _crowded(recording)
    case = _ran(recording, run, ranked, outcomes)
    missed = not_judged(PatientKind.RECORDING, outcomes, run.training)
    said = _slow(case, warnings) if warnings else _well(case) + examined(run.training) + missed
    return _STEPS_ARE.get(run.marker or "", "") + said + _interrupted(recording.end) + _crowded(recording)


def _stood_still(errors: Sequence[Ranked]) -> bool:
    return any(Trait.STANDSTILL in item.finding.traits for item in errors)


def _suspected(recording: Recording, ranked: Sequence[Ranked]) -> str:
    """Of a run without a step: that nothing bears out what its source suspects; else ""."""
    if not without_steps(recording) or not any(is_suspicion(item.finding) for item in ranked):
        return ""
    return say(" gpudoctor measured nothing: what it only suspects from the source is a note.")


def _interrupted(end: RunEnd | None) -> str:
    """How a run ended that somebody asked to end, and that no verdict calls dead."""
    if end is None or end.stopped_by != "interrupt":
        return ""
    code = end.exit_code
    how = say("by {signal}", signal=end.signal) if end.signal else say("with exit code {exit_code}", exit_code=code)
    return say(" It was interrupted, and ended {how}.", how=how)


def _crowded(recording: Recording) -> str:
    """What other processes took: the times of a run are then theirs, too."""
    found = crowd(recording)
    if found is None:
        return ""
    cpus = count(found.cpus, "CPU")
    when = say("meanwhile") if found.share > _ALWAYS else say("during {share} of the run", share=percent(found.share))
    return say(
        " Other processes used {others:.2g} of the {cpus} {when}, and no CPU was idle: alone the run would be faster.",
        others=found.others,
        cpus=cpus,
        when=when,
    )


def _wrong(title: str, run: RunSummary, errors: Sequence[Ranked]) -> str:
    """A run that did not die, and that has errors: what they mean for it."""
    more = say(", and {errors} more", errors=len(errors) - 1) if len(errors) > 1 else ""
    name = errors[0].finding.name
    if _stood_still(errors):
        since = say("after step {steps:,}", steps=run.steps) if run.steps else say("from its start")
        return say("{title} made no progress {since} until it was ended.", title=title, since=since)
    wrong = any(item.finding.code.startswith(_WRONG) for item in errors)
    said = say("its result is unreliable") if wrong else say("it has a fault to fix")
    return say("{title} ran, and {said}: {name}{more}.", title=title, said=said, name=name, more=more)


def in_good_health(
    recording: Recording, run: RunSummary, ranked: Sequence[Ranked], outcomes: Sequence[Outcome]
) -> bool:
    """Whether a run ended well, was seen whole, has no finding above a note, and loses little."""
    return not any(unseen_in_run(_ran(recording, run, ranked, outcomes)))


def _ran(recording: Recording, run: RunSummary, ranked: Sequence[Ranked], outcomes: Sequence[Outcome]) -> Ran:
    bound = speedup(max(_losses(run).values(), default=0.0))  # what the largest loss can give back at most
    died = cause_of_death(recording) is not None  # what Ctrl-C or `--steps` raise in a process is no fault of its own
    return Ran(recording=recording, run=run, bound=bound, died=died, ranked=ranked, outcomes=outcomes)


def _dead(title: str, recording: Recording, run: RunSummary, told: DeathMessage) -> str:
    """Where it died and of what; the root of all deaths says more than an exit code."""
    after = _after(run, told)
    many = told.process is not None and len(recording.ranks) > 1
    rank = say("rank {rank}", rank=told.process.rank) if many and told.process is not None else ""
    lines = told.message.strip().splitlines()
    message = _short(lines[0]) if lines else ""
    if told.kind == EXIT:
        how = say("with exit code ") if message.lstrip("-").isdigit() else say("by sys.exit: ")
        return _ended(
            say(
                "{title}{rank} ended itself{after} {how}{message}",
                title=title,
                rank=say(" ({rank})", rank=rank) if rank else "",
                after=after,
                how=how,
                message=message,
            )
        )
    if told.record is not None and told.record.type == "exception":
        said = f"{told.kind}: {message}" if message else told.kind
        return _ended(
            say(
                "{title} died{after}{rank}: {said}",
                title=title,
                after=after,
                rank=say(" of {rank}", rank=rank) if rank else "",
                said=said,
            )
        )
    if rank:
        killed = say("was killed by {kind}", kind=told.kind) if told.kind else say("disappeared without a message")
        return _ended(
            say(
                "{title} died{after}: {rank} {killed}{for_memory}",
                title=title,
                after=after,
                rank=rank,
                killed=killed,
                for_memory=_for_memory(recording.end, told.kind),
            )
        )
    return say("{title} {died}{after}.", title=title, died=death(recording.end) or say("died"), after=after)


def _after(run: RunSummary, told: DeathMessage) -> str:
    """After how many steps; the last second of a process that was killed is not written down."""
    if run.steps:
        told_it = told.record is not None and told.record.type == "exception"
        least = "" if told_it or told.process is None or told.process.clean else say("at least ")
        return say(
            " after {least}{steps:,} {step}",
            least=least,
            steps=run.steps,
            step=say("step") if run.steps == 1 else say("steps"),
        )
    began = told.process is not None and told.process.first("loop") is not None
    return say(" in its first steps") if began else say(" before its first step")


def _ended(sentence: str) -> str:
    return sentence + ("" if sentence.endswith((".", "!", "?", "...")) else ".")


def _short(text: str, longest: int = 160) -> str:
    """A text in so many characters: whole sentences where there are any."""
    if len(text) <= longest:
        return text
    sentence = text.rfind(". ", 0, longest)
    return text[: sentence + 1] if sentence >= _SENTENCE else cut(text, longest)


def _slow(case: Ran, warnings: Sequence[Ranked]) -> str:
    """What the time goes to, and what the first findings can give back together."""
    lead, promised = _lead(case.run), _promise(case, warnings)
    if promised:
        return lead + promised
    names = ", ".join(item.finding.name for item in warnings[:_FIRST])
    why = case.run.gain_unknown
    unknown = say(" The possible speedup is unknown: {why}.", why=why) if why else ""
    return say("{lead}To look at: {names}.{unknown}", lead=lead, names=names, unknown=unknown)


def promise(recording: Recording, run: RunSummary, ranked: Sequence[Ranked], outcomes: Sequence[Outcome]) -> str:
    """The sentence of a run's verdict that says what its first findings can give back; "" without one."""
    warnings = [item for item in ranked if item.finding.severity is Severity.WARNING]
    return _promise(_ran(recording, run, ranked, outcomes), warnings)


def _promise(case: Ran, warnings: Sequence[Ranked]) -> str:
    run = case.run
    dear = [item for item in warnings if (item.finding.cost.step_share or 0.0) > 0][:_FIRST]
    if not dear or run.gain_unknown:
        return ""
    high = _together(run, [(item, item.finding.cost.step_share or 0.0) for item in dear])
    low = _together(run, [(item, 1 - 1 / max(1.0, _least(item))) for item in dear])
    if high < _WORTH:
        return ""
    which = (say("the first finding"), say("the first two findings"), say("the first three findings"))[len(dear) - 1]
    if [item.rank for item in dear] != list(range(1, len(dear) + 1)):
        which = joined([item.finding.name for item in dear])
    gain = (
        say("{factor} to {high}", factor=_factor(low), high=_factor(high))
        if _WORTH <= low < high
        else say("up to {factor}", factor=_factor(high))
    )
    return say("Fixing {which} should make this run {gain} faster.", which=which, gain=gain)


def _together(run: RunSummary, shares: Sequence[tuple[Ranked, float]]) -> float:
    """What findings give back together, as a factor, none of the time counted twice.

    Findings of a topic often price the same time (a loader that is slow, and the line in it that makes it so),
    so the largest of each topic counts. What does not work inside the passes gives back no more than the phases
    beside them contain. What speeds the computation up gives back its share of the step; where that is more
    than the passes take, it is a share of what they take.
    """
    largest: dict[str, float] = {}
    lost = math.fsum(_losses(run).values())
    for item, share in shares:
        code, traits = item.finding.code, item.finding.traits
        topic = code if Trait.UNEXPLAINED in traits else code.rstrip("0123456789")
        if Trait.IN_EVALUATION in traits:
            topic = Trait.IN_EVALUATION.value
        inside = topic in _COMPUTING or topic in _INSIDE or Trait.INSIDE_PASSES in traits
        # A price near one leaves a remainder of rounding; the passes in the bar are what truly remains.
        price = share if inside or not lost else min(share, lost)
        largest[topic] = max(largest.get(topic, 0.0), price)
    computed = math.fsum(share for topic, share in largest.items() if topic in _COMPUTING)
    beside = math.fsum(share for topic, share in largest.items() if topic not in _COMPUTING)
    passes = 1.0 - lost
    sped = computed if computed <= passes else min(1.0, computed) * passes
    return speedup(max(*largest.values(), 0.0, sped + min(beside, lost)))


def _factor(value: float) -> str:
    return f"{value:.2f}x" if value < 2 else f"{value:.1f}x" if value < 10 else f"{value:.0f}x"


def _least(item: Ranked) -> float:
    """The least that the first remedy promises, as a factor."""
    effects = [remedy.effect for remedy in item.remedies if remedy.effect and remedy.effect.unit == "x"]
    return effects[0].low if effects else 1.0


def _lead(run: RunSummary) -> str:
    """The largest part of a step that is not computation."""
    if run.device_idle is not None:
        if run.device_idle < _MUCH_IDLE:
            return ""
        return say("The device is idle for up to {device_idle} of each step. ", device_idle=percent(run.device_idle))
    name, share = max(_losses(run).items(), key=lambda item: item[1], default=("", 0.0))
    if share < _MUCH_IDLE:
        return ""
    words = {"data_wait": say("The training waits for data"), "other": say("Code outside all known phases takes")}
    if name == "data_wait":
        return say("{words} {share} of each step. ", words=words[name], share=percent(share))
    said = words.get(name, say("{name} takes", name=capitalised(term(name.replace("_", " ")))))
    return say("{said} {share} of each step. ", said=said, share=percent(share))


def _losses(run: RunSummary) -> dict[str, float]:
    """Shares of the phases that compute nothing, without the lines that do."""
    beside = {**run.phases, _OTHER: run.phases.get(_OTHER, 0.0) - run.work}
    lost = {name: share for name, share in beside.items() if name not in _COMPUTE and share > _NOTHING}
    if run.room is None:
        return lost
    # While the device works, nothing is lost, whatever the host does.
    part = min(1.0, run.room / max(math.fsum(lost.values()), _NOTHING))
    return {name: share * part for name, share in lost.items()}


def _well(case: Ran) -> str:
    """How much of the time is lost, or why that is not known."""
    losses = sorted(_losses(case.run).items(), key=lambda item: -item[1])
    said = concatenated(
        ", ",
        (
            say("{name} {share}", name=term(name.replace("_", " ")), share=percent(share))
            for name, share in losses[:2]
            if share >= 0.001
        ),
    )
    missing = list(unseen_in_run(case))
    if any(isinstance(item, Crashed) for item in case.outcomes):
        return say("No fault was found, but {missing}.", missing=joined_clauses(missing))
    if case.run.steady_steps < FEWEST_STEPS:
        return _few(case, said)
    noted = _noted(case.ranked)
    why = case.run.gain_unknown
    unknown = say("the possible speedup is unknown: {why}", why=why) if why else ""
    if case.bound > UNEXPLAINED:
        gain = unknown or say("{bound:.2f}x is the largest possible speedup", bound=case.bound)
        if noted:
            return say(
                "No fault was found. Not computation: {said} of each step ({gain}); see note {noted}.",
                said=said,
                gain=gain,
                noted=noted[0],
            )
        return say("No finding explains what is not computation: {said} of each step ({gain}).", said=said, gain=gain)
    margin = unknown or say("the possible speedup is at most {bound:.2f}x", bound=max(case.bound, 1.01))
    more = say(" Note {noted} is about {share} of the time.", noted=noted[0], share=percent(noted[1])) if noted else ""
    begin = (
        say("No fault was found, but {missing}: ", missing=joined_clauses(missing))
        if missing
        else say("Little time is lost outside computation: ")
    )
    return (
        say("{begin}{said}, {margin}.{more}", begin=begin, said=said, margin=margin, more=more)
        if said
        else say("{begin}{margin}.{more}", begin=begin, margin=margin, more=more)
    )


def _few(case: Ran, said: str) -> str:
    """A run too short for a verdict on its speed: what has shown so far."""
    steps = count(case.run.steady_steps, "steady step")
    more = say("let the run make more")
    noted = _noted(case.ranked)
    note = say(" Note {noted} is about {share} of the time.", noted=noted[0], share=percent(noted[1])) if noted else ""
    why = case.run.gain_unknown
    note += say(" The possible speedup is unknown: {why}.", why=why) if why else ""
    if case.bound > UNEXPLAINED:
        return say(
            "Not computation: {said} of {steps}; {more} for a verdict on its speed.{note}",
            said=said,
            steps=steps,
            more=more,
            note=note,
        )
    return say(
        "No fault was found in {steps}; for a verdict on its speed {more}.{note}", steps=steps, more=more, note=note
    )


def _noted(ranked: Sequence[Ranked]) -> tuple[int, float] | None:
    """Place and share of the note that takes most of the time, where it takes much; None without one."""
    shares = [(item.finding.cost.share or 0.0, -item.rank) for item in ranked]
    share, place = max(shares, default=(0.0, 0))
    return (-place, share) if share >= MUCH else None


def nobody_reported(recording: Recording, output: str = "") -> str:
    """The verdict on a run of which no rank has reported: never healthy.

    `output` is a clause that says what was read in the command's output; "" if nothing was.
    """
    launched = bool(recording.launchers)
    first = PurePath(recording.command[0]).name if recording.command else ""
    why = _WALLS.get(_KIN.get(first, first), _RANKS_NOT_SEEN if launched else _NOT_SEEN)
    died = death(recording.end)
    failed = say(" {first}.", first=capitalised(rank)) if (rank := first_failed(recording)) else ""
    advice = say("{output}.", output=output) if output else _KEEP_RANKS if launched else _KEEP_OUTPUT
    ended = (
        say(" The command {died}.{failed} {advice}", died=died, failed=failed, advice=advice)
        if died
        else _interrupted(recording.end)
    )
    return say("No rank reported, so gpudoctor knows nothing about the training: {why}.{ended}", why=why, ended=ended)


def death(end: RunEnd | None) -> str:
    """How a command that failed ended, a clause without its subject; "" for one that did not."""
    if end is None or not end.failed:
        return ""
    if end.signal is None:
        return say("ended with exit code {exit_code}", exit_code=end.exit_code)
    return say("was killed by {signal}{for_memory}", signal=end.signal, for_memory=_for_memory(end, end.signal))


def _for_memory(end: RunEnd | None, signal: str) -> str:
    return say(" (its memory limit was reached)") if end is not None and end.oom_kills and signal == "SIGKILL" else ""
