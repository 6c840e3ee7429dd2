"""PERF010 autotune-off."""

import re
from collections.abc import Iterable, Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run
from gpudoctor.analysis.source.device_tensors import Target
from gpudoctor.analysis.source.entry_points import training_programs
from gpudoctor.analysis.source.syntax import says
from gpudoctor.lang import say
from gpudoctor.model import Finding, Patient, Reads, Severity, Threshold
from gpudoctor_checks.performance.batch_shapes import stable_network
from gpudoctor_checks.run_check import RunCheck

_SETTLED = re.compile(r"determinis|cudnn\.flags|benchmark\s*=(?!\s*False)")
"""Somebody looks after it."""


class AutotuneOff(RunCheck):
    """cuDNN picks its convolution algorithms by heuristics, although the shapes never change.

    What it finds:
        A program on CUDA that trains a convolutional network on images of one size without
        `torch.backends.cudnn.benchmark = True` (or Lightning's `benchmark=True`). Or it sets that to False
        without requiring determinism.
    Why it hurts:
        For each convolution cuDNN has several algorithms whose speed depends on the shape and the card. With
        benchmark mode on, it times them once for each shape and keeps the best.
    How it knows:
        From the source: convolutions or a convolutional network of a library, and a crop or resize that fixes
        the size. Programs that require determinism are not reported.
    False alarms:
        Compiled networks may choose their own convolutions; the gain is nothing to a tenth of a step.
    Remedies:
        Set torch.backends.cudnn.benchmark = True.
    References:
        - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#enable-cudnn-auto-tuner
    """

    on_gpu = True
    code = "PERF010"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            "weights",
            1e6,
            "{weights}",
            "convention: below it a step is launch-bound",
            "gpudoctor ignores the program's own networks with fewer weights.",
        ),
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterable[Finding]:  # noqa: ARG002
        process = run.lead.process
        settled = of_run.torch_fact(process, "cudnn_benchmark") is True or of_run.on_gpu(process) is False
        return () if settled else suspected

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        seen: set[str] = set()
        for program in training_programs(patient.source):
            script, loop = next(program.loops)
            if script.path in seen or program.target not in (Target.CUDA, Target.MAYBE):
                continue
            if not program.starts or any(says(script, _SETTLED) for script in program.scripts):
                continue
            found = stable_network(program, self.limit("weights"))
            if found is None or not found[0].convolutional:
                continue
            built, shape = found
            seen.add(script.path)
            who = built.size_text if built.certain else say("the network")
            yield self.finding(
                say("cudnn.benchmark stays off, and {network} convolves images of one size.", network=who),
                evidence=(built.span, shape, loop.span),
                subject=program.entry.path,
            )
