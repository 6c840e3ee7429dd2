"""PERF003 compile-off."""

import re
from collections.abc import Iterable, Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run
from gpudoctor.analysis.source.device_tensors import Target
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.precision import TRAINING_ARGUMENTS, TRL_CONFIGS
from gpudoctor.analysis.source.syntax import says
from gpudoctor.analysis.source.target_versions import meant_version
from gpudoctor.lang import say
from gpudoctor.model import Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.cuda import numbers
from gpudoctor.model.job_devices import lowest_capability
from gpudoctor.model.records import frozen
from gpudoctor_checks.performance.batch_shapes import stable_network
from gpudoctor_checks.run_check import RunCheck
from gpudoctor_checks.thresholds import COMPUTE_SHARE

_WORDS = re.compile(
    r"(?<!\bre)(?<!regex)\.compile\(|(?:\b|_)(?:torch_?compiled?|compiled|jit|dynamo|inductor|tensorrt|graphed|cuda_?graphs?)"
    r"(?:\b|_)",
    re.IGNORECASE,
)
_OTHERS = frozenset(
    {"deepspeed", "megatron", "colossalai", "torch_xla", "unsloth", "fairscale", "jax", "tensorflow", "apex",
     "horovod", "transformer_engine", "ultralytics", "mmengine", "fastai", "torch_geometric", "dgl"}
)  # fmt: skip

_VOLTA = 7.0
"""Compute capability from which on Triton has code."""
_COMPILES = 2
"""The major release of torch that brought torch.compile."""


@frozen
class CompileOffDetail(Detail):
    """What the rule reads."""

    engine: str
    """The loop's framework; \"\" for a loop of the script."""
    line: int
    """Of the loop."""
    script: str
    """Path of the loop."""


class CompileOff(RunCheck):
    """The network runs operation by operation, although its shapes are stable.

    What it finds:
        A program on CUDA that never compiles its network of convolutions or attention. Its batches have one
        shape (images cropped to a size, tokens padded to a length or packed).
    Why it hurts:
        Each small operation is launched separately and writes its result to memory, and the next one reads it
        back. A compiler fuses them: on many networks 1.1 to 1.5 times the throughput.
    How it knows:
        From the source. Small networks, cards older than Volta, torch before 2.0 and shapes that change are not
        reported. Neither are programs that mention compiling or leave it to a launcher. One finding per
        program.
    False alarms:
        Short runs: compiling takes a minute or more. Code with many graph breaks gains little.
    Remedies:
        Call `model.compile()`, or set the Trainer's `torch_compile=True`; then check for recompilations.
    References:
        - https://pytorch.org/docs/stable/torch.compiler.html
    """

    on_gpu = True
    code = "PERF003"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        COMPUTE_SHARE,
        Threshold(
            "weights",
            5e6,
            "{weights}",
            "convention: ResNet-18 has 11 million, networks for 28 x 28 digits one million",
            "gpudoctor ignores the program's own networks with fewer weights.",
        ),
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterable[Finding]:  # noqa: ARG002
        process, share = run.lead.process, run.share("forward", "backward")
        gains = of_run.on_gpu(process) and not of_run.compiled(process) and share >= self.limit("compute_share")
        return suspected if gains or of_run.on_gpu(process) is None else ()

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        programs = training_programs(patient.source)
        card = lowest_capability(patient)
        if card is not None and card < _VOLTA:
            return
        seen: set[tuple[str, int]] = set()
        for program in programs:
            script, loop = next(program.loops)
            place = (script.path, loop.span.line)
            if place in seen or program.target not in (Target.CUDA, Target.MAYBE):
                continue
            if not program.starts or _set_elsewhere(program):
                continue
            version = numbers(meant_version(patient, "torch", program.entry.path).version or "")
            if version and version[0] < _COMPILES:
                continue
            found = stable_network(program, self.limit("weights"))
            if found is None or not (found[0].convolutional or found[0].attentive) or _compiles(program):
                continue
            built, shape = found
            seen.add(place)
            yield self.finding(
                say("{network} runs on batches of one shape and is never compiled.", network=built.size_text),
                evidence=(built.span, loop.span, shape),
                subject=program.entry.path,
                detail=CompileOffDetail(engine=loop.engine or "", line=loop.span.line, script=script.path),
            )


def _set_elsewhere(program: Program) -> bool:
    """Whether a command line or a launcher has the word: Trainer arguments that are parsed (`--torch_compile`),
    Accelerate's own configuration (`--dynamo_backend`)."""
    if "accelerate" in program.roots:
        return True
    engines = [loop.engine for _, loop in program.loops if loop.engine]
    made = any(TRAINING_ARGUMENTS.search(call.name) or TRL_CONFIGS.search(call.name) for _, call in program.calls)
    return not made and any(engine.startswith(("transformers.", "trl.")) for engine in engines)


def _compiles(program: Program) -> bool:
    """Whether the program speaks of compiling anywhere, or leaves its networks to a library that does."""
    if program.roots & _OTHERS or "torch.nn.DataParallel" in program.called:
        return True
    return any(says(script, _WORDS) for script in program.scripts)
