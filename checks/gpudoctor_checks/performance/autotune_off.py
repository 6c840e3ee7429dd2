"""PERF010 autotune-off."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.memo import once
from gpudoctor.analysis.observation import suspicions
from gpudoctor.analysis.run.steady_run import judged, ran_on_cpu
from gpudoctor.analysis.source.device_tensors import Target
from gpudoctor.analysis.source.entry_points import training_programs
from gpudoctor.analysis.source.syntax import is_attribute, nodes
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Detail, Finding, Patient, Reads, Severity, SourceSpan, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Script
from gpudoctor_checks.performance.batch_shapes import stable_network

_DETERMINISTIC = frozenset(
    {"use_deterministic_algorithms", "set_deterministic", "enable_full_determinism", "set_deterministic_debug_mode"}
)


@frozen
class AutotuneOffDetail(Detail):
    """What the rule reads."""

    written: bool
    """A line switches it off."""


class AutotuneOff(Check):
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

    code = Code("PERF010")
    name = "autotune-off"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            name="weights",
            default=1e6,
            unit="{weights}",
            source="convention: below it a step is launch-bound",
            meaning="gpudoctor ignores the program's own networks with fewer weights.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient)
        suspected = suspicions(lambda: self._suspected(patient), run, refuted=ran_on_cpu(patient))
        if run is not None:
            process = run.lead.process
            if of_run.torch_fact(process, "cudnn_benchmark") is True or of_run.on_gpu(process) is False:
                return
        yield from suspected

    def _suspected(self, patient: Patient) -> Iterator[Finding]:
        seen: set[str] = set()
        for program in training_programs(patient.source):
            script, loop = next(program.loops)
            if script.path in seen or program.target not in (Target.CUDA, Target.MAYBE):
                continue
            settings = [place for script in program.scripts for place in _places(script)]
            fixed = any(map(_wants_determinism, program.scripts)) or any(not off for _, off in settings)
            if fixed or not program.starts:
                continue
            found = stable_network(program, self.limit("weights"))
            if found is None or not found[0].convolutional:
                continue
            built, shape = found
            seen.add(script.path)
            said: tuple[SourceSpan, ...] = tuple(span for span, _ in settings)
            what = (
                say("Line {line} switches cudnn.benchmark off", line=said[0].line)
                if said
                else say("cudnn.benchmark stays off")
            )
            who = built.size_text if built.certain else say("the network")
            yield self.finding(
                say("{setting}, and {network} convolves images of one size.", setting=what, network=who),
                evidence=(*said[:1], built.span, shape, loop.span),
                subject=program.entry.path,
                detail=AutotuneOffDetail(written=bool(said)),
            )


@once
def _places(script: Script) -> list[tuple[SourceSpan, bool]]:
    found: list[tuple[SourceSpan, bool]] = []
    for node in nodes(script, ast.Assign):
        for target in node.targets:
            if is_attribute(target, "benchmark"):
                off = isinstance(node.value, ast.Constant) and node.value.value is False
                found.append((script.span(node), off))
    for call in script.calls:
        if "benchmark" in call.keywords and call.name.startswith("lightning."):
            found.append((call.span, False))
        if call.name.startswith("torch.backends.cudnn."):
            found.append((call.span, False))  # cudnn.flags(...): somebody looks after it
    return found


@once
def _wants_determinism(script: Script) -> bool:
    if any(call.method in _DETERMINISTIC or "deterministic" in call.keywords for call in script.calls):
        return True
    return any(
        node.attr == "deterministic" and isinstance(node.ctx, ast.Store) for node in nodes(script, ast.Attribute)
    )
