"""OBS002: metrics, lines or log files are written on every training step."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import suspicions
from gpudoctor.analysis.run.steady_run import Run
from gpudoctor.analysis.source.call_frequency import TrainingCall, calls_in_training, measures
from gpudoctor.lang import say
from gpudoctor.model import Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.signs.source import Guard, GuardKind, Known, Loop
from gpudoctor.text import duration
from gpudoctor_checks.declared import PeriodDetail, measured, shown_call
from gpudoctor_checks.run_check import RunCheck

_SCALARS = re.compile(r"(?:add_scalars?|log_metrics?|report_scalar)$")
_TRACKERS = re.compile(r"wandb|swanlab|trackio|neptune|accelerator|fabric")
"""In the name of what has a `log` for scalars."""
_PRINTS = re.compile(
    r"(?:builtins\.|rich\.)?print$|tqdm\.(?:.*\.)?write$|sys\.std(?:out|err)\.write$|click\.echo$|.+\.print$"
    r"|(?:.*\.)?(?:logging|loguru|_?log|_?logger)\.(?:.*\.)?(?:info|warn|warning|error|critical)$"
)
"""Writes a line (debug does not by default)."""
_FILES = re.compile(
    r"(?:json|yaml|pickle)\.(?:safe_)?dump$|numpy\.save(?:txt)?$|.*\.to_csv$"
    r"|(?:open\(.*|(?:.*[^a-z])?(?:f|fp|fh|file|log|logfile|csv|writer|out))\.write(?:lines|rows?)?$"
)

"""Writes records, or text into what a name says to be a file."""

_EPOCH = re.compile(r"epoch|episode|^ep$")


class LoggingTooOften(RunCheck):
    """Metrics or log lines are written on every training step.

    What it finds:
        Logging calls that run on each pass of a training loop, or more often than every ten passes.
        - trackers (`wandb.log`, TensorBoard, mlflow, comet, neptune, accelerate...)
        - `print`, loggers, `tqdm.write` and writes to files

    Why it hurts:
        Each call formats values, acquires a lock, wakes a thread or writes a line. Most of them first read a
        tensor from the GPU, so the host waits for the device. With steps of a few tens of milliseconds that is
        several percent of the run, for points without a reader.
    How it knows:
        It reads the script: which calls a pass reaches and under which conditions (`if step % 50 == 0`). The
        source does not show the cost, so this is a note. From a recording: the time of the calls and of the
        lines that prepare their values, relative to the steps.
    False alarms:
        A step that takes seconds: a line per step then costs nothing. If other processes keep the machine's
        CPUs busy, each line costs more than usual. Below a tenth of the run it is then a note. Progress bars
        and their postfix, `logger.debug`, and lines per epoch, in evaluation or in rarely used branches are not
        findings.
    Remedies:
        Write every 50 steps; for averages, sum on the device in between.
    References:
        - https://docs.wandb.ai/guides/track/limits
    """

    code = "OBS002"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING, Reads.PROCESS})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            "log_period",
            10,
            "{step}",
            "the training-step fix that the catalogue cites (S4): log every 10 to 50 steps",
            "Writing more often than once in this many steps is a finding.",
        ),
        *Threshold.note_and_warning(
            "Logging that takes this share of a recorded run is",
            noted=0.02,
            warned=0.05,
            source="train-doctor warns from 2 %",
            source_warned="XProf's DebugPrint rule: 5 % of a step",
        ),
        Threshold(
            "share_rare",
            0.10,
            "1",
            "convention: on a busy machine a line causes a context switch",
            "Below this share it is a note if the period is usual already. It is also a note if other "
            "processes keep all CPUs busy.",
        ),
    )

    def live(self, patient: Patient, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """Trackers, prints, progress bars, log files in the samples."""
        seen = of_run.seen_live(window, lambda place: place.phase == "logging", phase="logging")
        severity = seen.level(self)
        if severity is not None:
            yield seen.finding(
                self,
                say("The training logs, {cost}{where}.", cost=seen.words, where=seen.where),
                name="logging_share",
                severity=severity,
                suspected=suspicions(lambda: self.suspected(patient), seen),
                detail=PeriodDetail(),
            )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        seen = of_run.price(
            patient,
            run,
            phases=("logging",),
            owners=(of_run.LineOwner.LOGGING,),
            wanted=lambda site: not of_run.flushes(site.what),
        )
        severity = seen.level(self)
        if severity is None:
            return
        crowded = of_run.crowd(run.recording) is not None
        rare = 0 < seen.calls <= 1 / self.limit("log_period")
        if (rare or crowded) and seen.share < self.limit("share_rare"):
            severity = Severity.NOTE
        step = run.lead.step_seconds
        hooked = seen.calls * seen.seconds >= 0.5 * seen.share * step
        often = (
            say("{calls:.2g} calls a step of {what}, ", calls=seen.calls, what=seen.what)
            if seen.calls and hooked
            else ""
        )
        yield seen.also_at(of_run.callers(patient, seen.spans[:1])).finding(
            self,
            say(
                "Logging takes {cost}: {often}{took} of a step of {step}{where}{crowded}.",
                cost=seen.words,
                often=often,
                took=duration(seen.share * step),
                step=duration(step),
                where=seen.where,
                crowded=of_run.BESIDE_OTHERS if crowded else "",
            ),
            name="logging_share",
            severity=severity,
            suspected=suspected,
            detail=PeriodDetail(period=round(1 / seen.calls) if 0 < seen.calls < 1 else 1, engine_loop=seen.engine),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        for writes in calls_in_training(
            patient.source,
            _kind,
            every=self.limit("log_period"),
            # in a full-batch loop a line for each pass is a line for each epoch
            skip=lambda loop: measures(loop) or any(_EPOCH.search(target.lower()) for target in loop.targets),
            assume=_tracker_switch,
        ):
            yield self._found(writes[0].loop, writes)

    def _found(self, loop: Loop, writes: list[TrainingCall]) -> Finding:
        order = ("tracker", "file", "print")
        writes = sorted(writes, key=lambda write: (order.index(_kind(write)), write.period))
        period = int(writes[0].period)
        names = list(dict.fromkeys(shown_call(write.call) for write in writes))
        often = say("on every step") if period == 1 else say("every {period} steps", period=period)
        counted = say("{writes} calls", writes=len(writes)) if len(writes) > 1 else say("1 call")
        return self.finding(
            say(
                "{names} {often} of the training loop ({calls}); once in {limit:.0f} steps or less is the norm.",
                names=", ".join(names[:3]),
                often=often,
                calls=counted,
                limit=self.limit("log_period"),
            ),
            evidence=(
                *(write.event.span for write in writes[:5]),
                measured("steps_between_writes", period, "{step}", loop),
            ),
            severity=Severity.NOTE,
            detail=PeriodDetail(period=period, calls=len(writes), norm=self.limit("log_period")),
        )


def _tracker_switch(guard: Guard) -> bool:
    """`if writer:`, `if self.logger is not None`, `if args.use_wandb`: on, or of unknown default."""
    if guard.kind is not GuardKind.SWITCH or guard.never:
        return False
    return isinstance(guard.value, Known) or re.fullmatch(r"[\w.]+( is not None)?", guard.text) is not None


def _kind(found: TrainingCall) -> str:
    """What a call writes: `tracker`, `print` or `file`; "" if it does not."""
    call = found.call
    if call.receiver_class is not None and call.name == f"{call.receiver_class}.{call.method}":
        return ""  # a method of the program's own: what it writes, if anything, is an event by itself
    written = f"{call.receiver}.{call.method}".lower()
    # A logger of metrics gets a dictionary; logging's first argument is a level.
    metrics = "log" in call.receiver.lower() and call.node.args and isinstance(call.node.args[0], ast.Dict)
    logs = call.method == "log" and (metrics or _TRACKERS.search(f"{call.name} {written}"))
    if logs or _SCALARS.match(call.method):
        return "tracker"
    if any(_PRINTS.match(name) for name in (call.name, written)):
        return "print"
    return "file" if any(_FILES.match(name) for name in (call.name, written)) else ""
