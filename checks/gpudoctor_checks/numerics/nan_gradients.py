"""NUM001 nan-gradients."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import measured, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity, Trait
from gpudoctor.model.proof import BadStepDetail
from gpudoctor.model.unavailable import Unavailable
from gpudoctor_checks.numerics.early_divergence import grew
from gpudoctor_checks.thresholds import GROWN_TENFOLD


class NanGradients(Check):
    """Gradients became NaN or infinite.

    What it finds:
        A training step with NaN or Inf gradients that no loss scaler skipped. The finding has its number, the
        first parameters, and the class of cause if the recording shows it.
    Why it hurts:
        The optimizer writes the NaN into the weights. From that step on, every weight that the gradient reached
        is NaN, and all later training is wasted.
    How it knows:
        From a recording: the probe checks whether gradients are finite, periodically, around the first bad step
        and at the end. The class of cause comes from what came before:
        - a loss or a norm that grew (the rate)
        - fp16 (its range)
        - a finite loss (an operation such as sqrt, log or a division at the edge of its range)

        From a job's log: the messages that name it, in the exception or line that came first.
    False alarms:
        A loss scaler finds overflows and skips such steps by design: steps at which its scale fell are silent
        here.
    Remedies:
        By class: lower the rate and clip; use bf16; add an epsilon inside the square root, logarithm or
        denominator. Anomaly mode on the bad step names the operation.
    References:
        - https://pytorch.org/docs/stable/autograd.html#anomaly-detection
    """

    code = "NUM001"
    judges = "gradients"
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
            bad, loss = of_run.first_bad(process, "nan-gradients"), of_run.first_bad(process, "nan-loss")
            if bad is None or (loss is not None and of_run.step_of(loss) <= of_run.step_of(bad)):
                continue  # a loss that is NaN first is the root of it
            yield self._found(patient, recording, process, bad)
            return

    def _found(
        self, patient: Patient, recording: "of_run.Recording", process: "of_run.Process", bad: "of_run.Record"
    ) -> Finding:
        cause, words = self._cause(process, of_run.step_of(bad))
        spans = spots(patient, of_run.place_of(bad))
        who = say(" on rank {process_rank}", process_rank=process.rank) if len(recording.ranks) > 1 else ""
        what = say("infinite") if bad.get("value") == "inf" else "NaN"
        which = say("all gradients") if bad.get("all") else say("the gradients of {names}", names=of_run.names(bad))
        return self.finding(
            say(
                "At step {step}{who} {which} are {what}; {words}.",
                step=of_run.step_of(bad),
                who=who,
                which=which,
                what=what,
                words=words,
            ),
            evidence=(*spans, measured("first_bad_step", of_run.step_of(bad), "{step}", recording)),
            breaks=say("from step {step} on the weights are NaN", step=of_run.step_of(bad)),
            subject=f"step {of_run.step_of(bad)}",
            detail=BadStepDetail(step=of_run.step_of(bad), suspected=cause),
        )

    def _cause(self, process: "of_run.Process", step: int) -> tuple[str, str]:
        """The class of cause by what the recording shows before the bad step."""
        torch = process.last("torch")
        half = torch is not None and "float16" in str(torch.get("autocast") or "").replace("bfloat16", "")
        scaled = bool(of_run.numerics(process, "scaler"))
        if half and not scaled:
            return "range", say("the training runs in fp16, whose range ends at 65,504, without a loss scaler")
        if grown := grew(process, step, self.limit("grown")):
            return "rate", grown
        return "operation", say("an operation at the edge of its range made it (sqrt, log, a division)")
