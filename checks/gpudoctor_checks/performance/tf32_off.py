"""PERF002 tf32-off."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import Run, spots
from gpudoctor.analysis.source.device_tensors import Target
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.precision import Precision, config_precision, told_precision
from gpudoctor.analysis.source.tf32 import tf32_settings
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, Reads, Severity
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.job_devices import lowest_capability
from gpudoctor.text import percent
from gpudoctor_checks.run_check import RunCheck
from gpudoctor_checks.thresholds import COMPUTE_SHARE

_AMPERE = 8.0
"""Compute capability from which on cards have TF32."""


class Tf32Off(RunCheck):
    """TF32 is off for matrix products in float32.

    What it finds:
        TF32 that is switched off in a program on CUDA that trains in float32:
        - `allow_tf32 = False` for matrix products or cuDNN
        - `set_float32_matmul_precision("highest")`, `fp32_precision = "ieee"`
        - `tf32=False` in TrainingArguments
    Why it hurts:
        Ampere cards and newer multiply float32 on their tensor cores if TF32 is allowed. TF32 has 10 bits of
        mantissa, float32's range, and up to 8 times the rate. Switched off, the other cores do it all. For
        cuDNN it is even on by default.
    How it knows:
        From the source. With a GPU here its compute capability must be 8.0 or more. TF32 that the program does
        not mention is not a finding: it is a remedy of PERF001.
    False alarms:
        Some science and some tests need every bit of float32: TF32 is then off on purpose. With mixed precision
        on, the check is silent: few products are left in float32.
    Remedies:
        Allow TF32: set_float32_matmul_precision("high"), or remove the line that forbids it.
    References:
        - https://pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
    """

    on_gpu = True
    code = "PERF002"
    reads = frozenset({Reads.SOURCE, Reads.CONFIG, Reads.RECORDING})
    thresholds = (COMPUTE_SHARE,)

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        process = run.lead.process
        precision, card = of_run.torch_fact(process, "tf32"), of_run.capability(process)
        if precision is None or of_run.on_gpu(process) is None:
            yield from suspected
            return
        old = card is not None and card < _AMPERE
        if precision != "highest" or not of_run.on_cuda(process) or of_run.lowered(process) or old:
            return
        compute = run.share("forward", "backward")
        if compute < self.limit("compute_share"):
            return
        yield confirmed(
            self,
            suspected,
            say(
                "The matrix products run in plain float32: their precision is set to `highest`. "
                "Forward and backward take {share} of the time.",
                share=percent(compute),
            ),
            evidence=(*spots(patient, of_run.model_place(process)), run.measured("compute_share", compute)),
            severity=Severity.WARNING,
            detail=Facts(target=""),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        card = lowest_capability(patient)
        if card is not None and card < _AMPERE:
            return
        source, configs = patient.source_and_configs
        lowered = config_precision(configs).lowered
        seen: set[SourceSpan] = set()
        for program in training_programs(source):
            told = told_precision(program)
            low = lowered or told.stored or told.precision in (Precision.LOWERED, Precision.UNKNOWN)
            if not low and program.target in (Target.CUDA, Target.MAYBE):
                yield from self._from_source(program, seen)

    def _from_source(self, program: Program, seen: set[SourceSpan]) -> Iterator[Finding]:
        settings = tf32_settings(program)
        for setting in settings if all(item.off for item in settings) else ():  # else only a run can tell
            span = setting.script.span(setting.node)
            if span not in seen:
                seen.add(span)
                yield self.finding(
                    say(
                        "Line {line} forbids TF32 ({setting}), and the training computes in float32: "
                        "{operations} do not use the tensor cores.",
                        line=span.line,
                        setting=setting.target,
                        operations=say("convolutions") if "cudnn" in setting.target else say("matrix products"),
                    ),
                    evidence=(span, next(program.loops)[1].span),
                    severity=Severity.NOTE,
                    detail=Facts(target=setting.target),
                )
