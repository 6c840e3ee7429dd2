"""LOOP009: a long run saves nothing while it trains."""

from collections.abc import Iterator

from gpudoctor.analysis.source.checkpoints import Saved, Saving, launched, saving
from gpudoctor.analysis.source.entry_points import Program
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import Evidence, Measurement, Provenance
from gpudoctor.model.signs.job import Job
from gpudoctor.text import capitalised, duration
from gpudoctor_checks.loop.time_limits import limit_setting


class NoCheckpoint(Check):
    """A long run saves no checkpoint while it trains.

    What it finds:
        A long run (by the scheduler's time limit or preemption) that cannot resume:
        - it saves no checkpoint
        - it saves only after training

        An engine that is set not to save (`save_strategy="no"`).
    Why it hurts:
        After a time limit, a preemption, a full disk or a bad node, all hours since the start are lost.
    How it knows:
        It searches the program's modules for every way of saving: `torch.save`, `save_pretrained`,
        `save_state`, checkpoint callbacks and managers. Functions with such names count too. It reads where
        they are, and what they save. The length comes from the job script.
    False alarms:
        Runs of undeclared length are not findings. Trainer and Lightning save by themselves.
    Remedies:
        Save model, optimizer, scheduler, step and random state every few minutes; load them at the start.
    References:
        - https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html
    """

    code = "LOOP009"
    silent_on_synthetic = "its result is not worth saving"
    reads = frozenset({Reads.SOURCE, Reads.CONFIG})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            "time_limit",
            3600,
            "s",
            "the optimisation summary saves at least once an hour",
            "gpudoctor ignores jobs with a shorter time limit.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        job = optional(lambda: patient.job)
        configs = optional(lambda: patient.configs)
        if configs is not None and (configs.canonical("save_period") or configs.canonical("save_epochs")):
            return  # somebody saves by it
        length = self._length(job)
        for program in launched(patient.source, job):
            if length is not None and (saved := saving(program)).how is not Saving.WHILE_IT_TRAINS:
                yield self._found(program, saved, length, (job.time_limit if job is not None else None) or 18000.0)

    def _length(self, job: Job | None) -> tuple[str, Evidence] | None:
        """What says that the run is long, in words."""
        if job is not None and job.time_limit is not None and job.time_limit >= self.limit("time_limit"):
            words = say("the scheduler ends the job after {time_limit}", time_limit=duration(job.time_limit))
            return words, limit_setting(job)
        if job is not None and job.preemptible:
            return say("the scheduler may stop the job at any time"), limit_setting(job)
        return None

    def _found(self, program: Program, saved: Saved, length: tuple[str, Evidence], seconds: float) -> Finding:
        what = {
            Saving.NOTHING: say("the program never saves a checkpoint"),
            Saving.AT_THE_END: say("the program saves only when training ends"),
        }[saved.how]
        _, loop = next(iter(program.loops))
        places: tuple[Evidence, ...] = tuple(call.span for _, call in saved.calls[:2]) or (loop.span,)
        counted = Measurement(
            "calls_that_save",
            0 if saved.how is Saving.NOTHING else len(saved.calls),
            "{call}",
            provenance=Provenance.DECLARED,
        )
        engine = (loop.engine or "").partition(".")[0] if saved.calls else ""
        return self.finding(
            say("{length}, and {what}.", length=capitalised(length[0]), what=what),
            evidence=tuple(dict.fromkeys((*places, length[1], counted))),
            subject=program.entry.path,
            detail=Facts(
                minutes=max(5, round(min(1800.0, seconds / 10) / 60)),
                engine=engine if engine in ("", "lightning") else "transformers",
            ),
        )
