"""What `gpudoctor verify` does between its flags and its report: the baseline, the trials, the patch."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.run_common import REPORT_SECONDS, examine_recorded, recorded_patient, write_line
from gpudoctor.cli.time_limited import Expired, limited
from gpudoctor.errors import UsageError
from gpudoctor.lang import say, template
from gpudoctor.lang.message import concatenated
from gpudoctor.model.records import frozen, replace

if TYPE_CHECKING:
    from gpudoctor.engine.examination import Request
    from gpudoctor.model import Report
    from gpudoctor.model.proof import Replay, TrialSummary
    from gpudoctor.model.signs.recording import Recording
    from gpudoctor.trial.bounded_run import RunOutcome
    from gpudoctor.trial.cure import Cures
    from gpudoctor.trial.processes import CleanupWatchdog
    from gpudoctor.trial.protection import RunProtection
    from gpudoctor.trial.session import TrialSession
    from gpudoctor.trial.trial_runner import Arm

_BATCH = "DataLoader.batch_size"
_REPLAY_SHARE = 0.4
"""Share of the time that is left which a replay may take."""


@frozen
class VerifyResult:
    """What came of it."""

    report: "Report"
    finished: "RunOutcome"
    """The command's first run."""
    interrupted: bool = False
    """Whether Ctrl-C ended the trials."""


def _asked(arguments: argparse.Namespace) -> list[str]:
    """The flags of trials that try no remedy."""
    return [name for name in ("against", "vary", "find_batch") if getattr(arguments, name) not in (None, [])]


def check_trials(command: tuple[str, ...] | None, arguments: argparse.Namespace) -> None:
    """Refuse early what would fail after minutes; without a command a job is written. Raises `UsageError`."""
    asked = _asked(arguments)
    if len(asked) > 1:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in asked)
        raise UsageError("{flags} are separate trials; use one of them", flags=flags)
    if asked and (arguments.remedy or arguments.keep or arguments.diff):
        raise UsageError(
            "--{asked} tries no remedy; remove the flags that name, keep or print one", asked=asked[0].replace("_", "-")
        )
    if command is not None:
        named_arms(command, arguments)
    if arguments.find_batch:
        _batch_arm(arguments.find_batch, command or ())(1)


def examine_and_try(
    command: tuple[str, ...],
    folder: Path,
    scratch: Path,
    watchdog: "CleanupWatchdog",
    guard: "RunProtection",
    request: "Request",
    arguments: argparse.Namespace,
    *,
    arms: "Sequence[tuple[str, Arm]]",
    began: float | None = None,
) -> VerifyResult:
    """Run the baseline, diagnose it, try the named `arms` or the remedies, and give the report with the proofs in it.

    Of a synthetic job `began` is when its time began, on the monotonic clock; it prints to standard error.
    """
    from gpudoctor.trial.processes import adopt_orphans
    from gpudoctor.trial.session import TrialSession
    from gpudoctor.trial.trial_runner import TrialRunner
    from gpudoctor.trial.trial_verdict import proven_report, summarise_trials
    from gpudoctor.ui.status_line import StatusLine
    from gpudoctor.vitals.recording.reader import read_recording

    adopt_orphans()
    line = StatusLine(sys.stderr, shown=not arguments.quiet)
    replayed: Replay | None = None
    bench = TrialRunner(command, scratch, guard.protect, watchdog.watching)
    session = TrialSession(
        bench=bench,
        budget=arguments.budget,
        unsafe=arguments.unsafe,
        named=tuple(arguments.remedy),
        top=arguments.top,
        window_steps=arguments.steps,
        began=began or time.monotonic(),
    )
    if not arguments.quiet:

        def planned() -> None:
            line.release()
            write_line(plan_text(session))

        session.planned = planned
    bench.watch = lambda arm, _passed: line.show(_status(session, arm))
    try:
        finished = bench.explore(
            folder, enough=session.enough, to_stderr=arguments.diff or began is not None, seconds=session.left
        )
        report = _diagnosed(command, folder, request, arguments)
        recording = read_recording(str(folder))
        bench.deadline = session.began + session.budget
        if not _asked(arguments):
            with session.stopping():
                report, replayed = _replayed(session, command, folder, request, report, recording)
        known = {remedy.id for item in report.findings for remedy in item.remedies}
        for name in arguments.remedy:
            if name not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise UsageError(
                    "--remedy {name}: no finding of this run has it; there are: {listed}", name=name, listed=listed
                )
        session.cures = _cures(session, command, request, report, recording, finished.seconds)
        timed = not finished.failed and session.choose_window(recording, finished.stopped_by is None)
        if timed:
            _try(session, recording, report, command, arguments, arms)
        elif not _asked(arguments):
            session.try_remedies(report.findings, timed=False)
    finally:
        line.close()
    trial = replace(
        summarise_trials(session),
        protection=guard.words,
        protection_level=guard.level.value,
        kept_out=guard.kept_out,
        not_sent=guard.not_sent,
        replay=replayed,
    )
    trial = _patched(trial, session, folder, arguments)
    report = proven_report(report, session, trial)
    return VerifyResult(report=report, finished=finished, interrupted=session.interrupted)


def _diagnosed(command: tuple[str, ...], folder: Path, request: "Request", arguments: argparse.Namespace) -> "Report":
    """The report on the first run, within its time. Raises `Expired`: there is nothing to try without it."""
    try:
        return limited(lambda: examine_recorded(command, folder, request, quiet=arguments.quiet), REPORT_SECONDS)
    except Expired as error:
        raise Expired(
            "{error}, so nothing was tried; make the report with: gpudoctor report {folder}", error=error, folder=folder
        ) from None


def _replayed(
    session: "TrialSession",
    command: tuple[str, ...],
    folder: Path,
    request: "Request",
    report: "Report",
    recording: "Recording",
) -> "tuple[Report, Replay | None]":
    """A step with NaN once more, and the report with what that has shown in its finding."""
    from gpudoctor.engine.examination import prescribe_again
    from gpudoctor.trial.replay import bad_step, explained, replay

    bad = bad_step(report.findings, recording)
    if bad is None or (session.named and not any(name.startswith(bad.code) for name in session.named)):
        return report, None

    def doing(what: str) -> None:
        session.doing, session.current = what, None

    found = replay(session.bench, bad, recording, _REPLAY_SHARE * session.left, doing)
    patient = recorded_patient(command, folder)
    findings = tuple(
        prescribe_again(item, explained(item.finding, found), patient, request.registry)
        if item.finding.code == found.code
        else item
        for item in report.findings
    )
    return replace(report, findings=findings), found


def _cures(
    session: "TrialSession",
    command: tuple[str, ...],
    request: "Request",
    report: "Report",
    recording: "Recording",
    seconds: float,
) -> "Cures":
    """What looks whether a finding is gone in a re-run; `seconds` is how long the baseline took."""
    from gpudoctor.engine.examination import examine
    from gpudoctor.engine.selection import Selection
    from gpudoctor.model import Code
    from gpudoctor.trial.cure import Cures

    def diagnose(folder: Path, arm: "Arm", codes: frozenset[str]) -> "Report":
        patient = recorded_patient(arm.words(command), folder, arm.texts)
        chosen = Selection(selected=frozenset(map(Code, codes)), ignored={})
        return examine(patient, replace(request, selection=chosen, signs_first=()))

    return Cures(session.bench, diagnose, report.findings, recording, seconds)


def _try(
    session: "TrialSession", recording: "Recording", report: "Report", command: tuple[str, ...],
    arguments: argparse.Namespace, arms: "Sequence[tuple[str, Arm]]",
) -> None:  # fmt: skip
    """The trials that were asked for; the remedies of the findings, where nothing else was."""
    if arms:
        session.try_arms(arms)
    elif arguments.find_batch is not None:
        from gpudoctor.trial.batch import find_batch, memory_limit, own_batch

        batch = own_batch(recording)
        if batch is None:
            raise UsageError("--find-batch: no DataLoader of this run shows its batch size; name the sizes with --vary")
        arm_of = _batch_arm(arguments.find_batch or _BATCH, command)
        find_batch(session, batch, arm_of, memory_limit(recording))
    else:
        session.try_remedies(report.findings)


def named_arms(command: tuple[str, ...], arguments: argparse.Namespace) -> "list[tuple[str, Arm]]":
    """What `--against` or `--vary` asks for. Raises `UsageError`."""
    from gpudoctor.trial.vary import against, varied

    if arguments.against is not None:
        return [against(arguments.against)]
    return [arm for text in arguments.vary for arm in varied(text, command)]


def _batch_arm(key: str, command: tuple[str, ...]) -> "Callable[[int], Arm]":
    from gpudoctor.trial.vary import with_value

    return lambda batch: replace(with_value(key, str(batch), command), name=f"batch={batch}")


def _patched(
    trial: "TrialSummary", session: "TrialSession", folder: Path, arguments: argparse.Namespace
) -> "TrialSummary":
    """The patch in a file beside the recording; applied or printed where that was asked for."""
    from gpudoctor.mend.write import write_plan
    from gpudoctor.trial.candidates import plan_of

    if not trial.patch:
        return trial
    path = folder / "proof.diff"
    with suppress(OSError):
        path.touch(mode=0o600)
        path.write_text(trial.patch, encoding="utf-8")
        trial = replace(trial, patch_path=str(path))
    if arguments.diff:
        from gpudoctor.cli.mending import write_diff

        write_diff(trial.patch)
    if arguments.keep and not session.interrupted:
        trial = replace(trial, kept=tuple(write_plan(plan_of(session.worth_keeping).files)))
    return trial


def _status(session: "TrialSession", arm: str) -> str:
    from gpudoctor.text import duration

    left = duration(float(round(session.left)))
    if session.current is None:
        words = [say("one run") if session.doing else say("the command as it is")]
    else:
        words = [say("pair {done}", done=len(session.current.pairs) + 1)]
        if arm:
            words.append(say("with it") if arm == session.current.arm.name else say("without it"))
    number = (
        say(" ({attempts} of {changes})", attempts=len(session.attempts) + 1, changes=session.changes)
        if session.changes > 1
        else ""
    )
    doing = f"{session.doing}{number}" if session.doing and session.doing != "together" else session.doing
    return concatenated(" · ", ["gpudoctor", doing or arm, *words, say("at most {left} in all", left=left)])


def plan_text(session: "TrialSession") -> str:
    """What is to come, once the baseline has shown how long a run takes."""
    from gpudoctor.text import count, duration
    from gpudoctor.trial.decision import LOOKS

    least = session.first_looks(session.changes)
    return say(
        template(
            "gpudoctor: {changes} to try in pairs of runs of {lap}, {looks} to {most} pairs each: "
            "{least} or more, at most {left}"
        )
        if least < session.left
        else template(
            "gpudoctor: {changes} to try in pairs of runs of {lap}, the first ones alone in the {left} that are left; "
            "--budget {enough} is enough for {looks} pairs each"
        ),
        enough=session.enough_for(LOOKS[0]),
        changes=count(session.changes, "change"),
        lap=duration(round(session.lap_seconds, 1)),
        looks=LOOKS[0],
        most=LOOKS[-1],
        least=duration(float(round(least))),
        left=duration(float(round(session.left))),
    )
