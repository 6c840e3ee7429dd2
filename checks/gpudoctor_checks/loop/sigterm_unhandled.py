"""LOOP010: a job that will be stopped has nothing that handles the signal."""

import re
from collections.abc import Iterator

from gpudoctor.analysis.source.checkpoints import launched
from gpudoctor.analysis.source.entry_points import Program
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import Measurement, Provenance
from gpudoctor.model.signs.job import Job, Profile
from gpudoctor.model.signs.source import Known
from gpudoctor.text import duration
from gpudoctor_checks.loop.time_limits import limit_setting

_HANDLERS = re.compile(
    r"^(signal\.(?!Signals)\w+|asyncio\..*add_signal_handler|submitit\.\w.*|faulthandler\.register)$"
)
_TRAPS = re.compile(r"(?m)^\s*trap\s|--signal|preStop|timeout\s+(-s|--signal)")
"""In a job script: it deals with a signal itself."""
_OWN = ("lightning.", "composer.", "nemo.")
"""Engines that catch the scheduler's signals."""
_NAMES = re.compile(r"sigterm|sigusr|preempt|signal_handler|requeue", re.IGNORECASE)


class SigtermUnhandled(Check):
    """A job that the scheduler will stop has nothing that handles the signal.

    What it finds:
        A Slurm, PBS or Kubernetes job with a time limit of an hour or more, or with possible preemption. Its
        program installs no signal handler, and the job asks for no warning signal and no trap.
    Why it hurts:
        At the limit the scheduler sends SIGTERM and, 30 s later, SIGKILL. Without a handler everything since
        the last checkpoint is lost, and a requeued job starts there again.
    How it knows:
        From the job script (time limit, requeue, `--signal`, `trap`). From the source (`signal.signal`,
        submitit, an engine that catches the signal).
    False alarms:
        Lightning handles the signal itself. A job that ends before its limit never gets it. Short jobs are not
        reported.
    Remedies:
        Add `#SBATCH --signal=USR1@300`, and a handler that saves a checkpoint at the next step and stops.
    References:
        - https://slurm.schedmd.com/sbatch.html#OPT_signal
    """

    code = "LOOP010"
    silent_on_synthetic = "its result is not worth saving"
    reads = frozenset({Reads.SOURCE, Reads.CONFIG, Reads.ENVIRONMENT})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            "time_limit",
            3600,
            "s",
            "the most that is lost without a handler: an hour",
            "gpudoctor ignores jobs with a shorter time limit, unless the scheduler may preempt them.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        job = patient.job
        long = job.time_limit is not None and job.time_limit >= self.limit("time_limit")
        if not (long or job.preemptible) or job.signal or _TRAPS.search(job.script_text):
            return
        for program in launched(patient.source, job):
            if not _handled(program):
                yield self._found(program, job, long)

    def _found(self, program: Program, job: Job, long: bool) -> Finding:
        ends = (
            say("The scheduler stops the job after {time_limit}", time_limit=duration(job.time_limit or 0))
            if long
            else say("The scheduler may stop the job at any time")
        )
        _, loop = next(iter(program.loops))
        files = " ".join(item.path for item in program.scripts[:8])
        return self.finding(
            say(
                "{ends}. The job does not handle its signal: the program has no handler, the job script no "
                "--signal and no trap.",
                ends=ends,
            ),
            evidence=(
                limit_setting(job),
                loop.span,
                Measurement("signal_handlers", 0, "{handler}", Provenance.DECLARED, f"grep -n signal {files}"),
            ),
            subject=program.entry.path,
            detail=Facts(slurm=job.profile is Profile.SLURM and "#PBS" not in job.script_text),
        )


def _handled(program: Program) -> bool:
    """Whether the program catches signals, or runs in an engine that does."""
    for _, call in program.calls:
        if _HANDLERS.match(call.name) or _NAMES.search(call.method):
            return True
        value = call.keywords.get("enable_jit_checkpoint")
        if isinstance(value, Known) and value.value is True:
            return True
    own = any((loop.engine or "").startswith(_OWN) for _, loop in program.loops)
    return own or "submitit" in program.roots
