"""NUM002 nan-loss."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import measured, spots
from gpudoctor.analysis.run.training.data import looks, unlabelled
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity, Trait
from gpudoctor.model.proof import BadStepDetail
from gpudoctor.model.unavailable import Unavailable
from gpudoctor_checks.numerics.early_divergence import grew
from gpudoctor_checks.thresholds import GROWN_TENFOLD


class NanLoss(Check):
    """The loss became NaN or infinite.

    What it finds:
        A training step whose loss is not a finite number while its gradients were finite before it.
    Why it hurts:
        Its gradients are NaN too, and so are the weights after the next update. Everything from that step on is
        lost.
    How it knows:
        From a recording: the loss that goes into the backward pass. The class of cause comes from what came
        before it, as for gradients. From a job's log: the messages that name it, in the exception or line that
        came first.
    False alarms:
        A loss that is infinite by design (a masked likelihood) and never enters a backward pass is not visible.
        A step that a loss scaler skipped is not reported. A loss that recovered, because the program skipped
        its step, is a note.
    Remedies:
        By class: lower the rate, use bf16, add an epsilon, or check the batch before use.
    References:
        - https://pytorch.org/docs/stable/autograd.html#anomaly-detection
    """

    code = "NUM002"
    judges = "loss"
    silent_on_synthetic = "its weights are random"
    traits = frozenset({Trait.FIRST_BAD_STEP})
    reads = frozenset({Reads.RECORDING, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "log_messages.toml"
    thresholds = (GROWN_TENFOLD,)

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = patient.recorded_run
        if not any(len(process.steps) for process in recording.ranks):
            raise Unavailable(say("no training step was seen in the recording"))
        for process in recording.ranks:
            loss, bad = of_run.first_bad(process, "nan-loss"), of_run.first_bad(process, "nan-gradients")
            if loss is None or (bad is not None and of_run.step_of(bad) < of_run.step_of(loss)):
                continue  # gradients that were NaN before are the root of it
            yield self._found(patient, recording, process, loss)
            return
        yield from self._survived(patient, recording)

    def _survived(self, patient: Patient, recording: "of_run.Recording") -> Iterator[Finding]:
        """Losses that were no numbers, and that nobody let into the weights."""
        for process in recording.ranks:
            bad = [item for item in of_run.numerics(process, "nan-loss") if not of_run.skipped(process, item)]
            if not bad or not all(of_run.came_back(process, item) for item in bad):
                continue
            first = min(bad, key=of_run.step_of)
            step = of_run.step_of(first)
            often = (
                say("{bad} times, first at step {step}", bad=len(bad), step=step)
                if bad[1:]
                else say("at step {step}", step=step)
            )
            yield self.finding(
                say(
                    "The loss was {value} {when}, and the training recovered: no gradient of it reached the weights.",
                    value=_named(first),
                    when=often,
                ),
                evidence=(
                    *spots(patient, of_run.place_of(first)),
                    measured("first_bad_step", step, "{step}", recording),
                ),
                severity=Severity.NOTE,
                subject=f"step {step}",
                detail=BadStepDetail(step=step, suspected="operation"),
            )
            return

    def _found(
        self, patient: Patient, recording: "of_run.Recording", process: "of_run.Process", loss: "of_run.Record"
    ) -> Finding:
        before = grew(process, of_run.step_of(loss), self.limit("grown"))
        spans = spots(patient, *of_run.loss_lines(patient), of_run.place_of(loss))
        who = say(" on rank {process_rank}", process_rank=process.rank) if len(recording.ranks) > 1 else ""
        return self.finding(
            say(
                "The loss of step {step}{who} is {named}{before}.",
                step=of_run.step_of(loss),
                who=who,
                named=_named(loss),
                before=say("; {before}", before=before) if before else "",
            ),
            evidence=(*spans, measured("first_bad_step", of_run.step_of(loss), "{step}", recording)),
            breaks=say("from step {step} on the weights are NaN", step=of_run.step_of(loss)),
            subject=f"step {of_run.step_of(loss)}",
            effect_of="TRAIN001" if any(map(unlabelled, looks(recording).values())) and not before else None,
            detail=BadStepDetail(step=of_run.step_of(loss), suspected="rate" if before else "operation"),
        )


def _named(loss: "of_run.Record") -> str:
    """The value of a loss that is not finite, as a word."""
    value = str(loss.get("value") or "nan").lower()
    return "NaN" if value == "nan" else say("infinite") if value == "inf" else say("minus infinity")
