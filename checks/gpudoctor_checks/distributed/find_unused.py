"""DIST007 find-unused."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.observation import confirmed, suspicions
from gpudoctor.analysis.run.job_facts import torch_fact, wrapped
from gpudoctor.analysis.run.line_costs import place_of
from gpudoctor.analysis.run.steady_run import judged, spots
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.parallelism import plain, wraps_ddp
from gpudoctor.analysis.source.syntax import is_name
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Detail, Finding, Patient, Reads, Severity, SourceSpan

_WHOLE = re.compile(
    r"torchvision\.models\.(resnet|wide_resnet|resnext|vgg|densenet|mobilenet|efficientnet|convnext|vit_|swin|alexnet|"
    r"regnet|shufflenet|mnasnet|squeezenet|maxvit)\w*$"
)
"""Networks of torchvision whose forward uses every parameter on every pass."""
_LIBRARY = re.compile(r"(torchvision\.models|timm|transformers|segmentation_models_pytorch|monai\.networks)\.")
_MAKERS = frozenset({"from_pretrained", "create_model", "from_config", "load"})
_BRANCHES = (ast.If, ast.IfExp, ast.While, ast.Try, ast.Break, ast.Continue, ast.Match, ast.BoolOp, ast.Lambda)
_DEPTH = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class FindUnusedDetail(Detail):
    """What the rule reads."""

    keyword: bool | None = None
    """The call has it by keyword."""


class FindUnused(Check):
    """DistributedDataParallel searches for unused parameters in each step, but all are used.

    What it finds:
        `DistributedDataParallel(..., find_unused_parameters=True)` around a network whose forward has no branch
        and uses every module that its constructor makes.
    Why it hurts:
        After each forward pass DDP searches the whole autograd graph for parameters without gradient. The first
        reduction waits until it is done. That costs some percent of a step, more with many small layers.
    How it knows:
        From the source: the wrapped network is followed to its class. Its forward is read with those of the
        modules inside. Networks of torchvision that use all their weights are known. The check is silent about
        what it cannot follow.
    False alarms:
        Losses that ignore an output of the network, so that its head gets no gradient.
    Remedies:
        Remove find_unused_parameters; for graphs that never change, set static_graph=True.
    References:
        - https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
        - https://pytorch.org/docs/stable/notes/ddp.html#internal-design
    """

    code = Code("DIST007")
    name = "find-unused"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.NOTE

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient)
        suspected = suspicions(lambda: self._suspected(patient), run)
        if run is None or torch_fact(run.lead.process, "find_unused") is None:
            yield from suspected
            return
        process = run.lead.process
        if torch_fact(process, "find_unused") is not True or torch_fact(process, "unused") is not False:
            return
        model = wrapped(process, "DDP")
        where = place_of(model) if model is not None else None
        yield confirmed(
            self,
            suspected,
            say(
                "find_unused_parameters is on, but all parameters were used in {steps} steps: each "
                "step searches the whole "
                "graph for nothing.",
                steps=run.lead.steps,
            ),
            evidence=(
                *spots(patient, where),
                run.measured("steps", run.lead.steps, "{steps}"),
            ),
            severity=Severity.NOTE,
            detail=FindUnusedDetail(),
        )

    def _suspected(self, patient: Patient) -> Iterator[Finding]:
        seen: set[tuple[str, int]] = set()
        for program in training_programs(patient.source):
            for script, call in wraps_ddp(program):
                if (script.path, call.span.line) in seen or plain(
                    call, "find_unused_parameters", 5
                ) is not True:
                    continue
                if any(guard.never for guard in call.guards):
                    continue
                used = _Used(program)
                name = used.whole()
                if name is None:
                    continue
                seen.add((script.path, call.span.line))
                yield self.finding(
                    say(
                        "find_unused_parameters is on (line {line}), and every forward of {name} "
                        "uses all its parameters.",
                        line=call.span.line,
                        name=name,
                    ),
                    evidence=(call.span, *used.spans),
                    confidence=Confidence.SUSPECTED,
                    subject=f"{script.path}:{call.span.line}",
                    detail=FindUnusedDetail(keyword="find_unused_parameters" in call.keywords),
                )


class _Used:
    """Whether a wrapped network uses every parameter on every pass."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._classes = {
            name: (script, info)
            for script in program.scripts
            for name, info in script.classes.items()
            if "torch.nn.Module" in info.bases
        }
        self._calls = {id(call.node): call for _, call in program.calls}
        self.spans: list[SourceSpan] = []

    def whole(self) -> str | None:
        """The name of the one network that the program builds; None when it does not, or nobody can tell."""
        made = [
            call
            for _, call in self._program.calls
            if call.function.partition(".")[0] not in self._classes
            and (call.name.rpartition(".")[2] in self._classes or _LIBRARY.match(call.name))
        ]
        names = {call.name for call in made}
        if len(names) != 1:
            return None
        name = names.pop()
        last = name.rpartition(".")[2]
        if last in self._classes:
            if not self._straight(last, _DEPTH):
                return None
            self.spans = [self._classes[last][1].span]
            return last
        return last if _WHOLE.match(name) else None

    def _straight(self, name: str, depth: int) -> bool:
        """Whether a class's forward has no branch and uses every module that its constructor makes."""
        _, info = self._classes[name]
        forward, made = info.methods.get("forward"), info.methods.get("__init__")
        if forward is None or made is None or depth == 0 or info.bases != ("torch.nn.Module",):
            return False
        if any(isinstance(node, _BRANCHES) for node in ast.walk(forward)):
            return False
        if sum(isinstance(node, ast.Return) for node in ast.walk(forward)) != 1:
            return False
        used = {
            node.attr
            for node in ast.walk(forward)
            if isinstance(node, ast.Attribute) and is_name(node.value, "self")
        }
        parts = {ast.unparse(node.value) for node in ast.walk(forward) if isinstance(node, ast.Subscript)}
        return all(
            self._used(node, used, parts, depth) for node in ast.walk(made) if isinstance(node, ast.Assign)
        )

    def _used(self, node: ast.Assign, used: set[str], parts: set[str], depth: int) -> bool:
        """Whether what a constructor assigns is no module, or one that forward uses whole."""
        calls = [part for part in ast.walk(node.value) if isinstance(part, ast.Call)]
        modules = False
        for part in calls:
            call = self._calls.get(id(part))
            last = call.name.rpartition(".")[2] if call is not None else ""
            if last in self._classes:
                if not self._straight(last, depth - 1):
                    return False
                modules = True
            elif call is not None and call.name.startswith("torch.nn."):
                modules = modules or last[:1].isupper()
                if last == "ModuleDict":
                    return False
            elif call is not None and (last[:1].isupper() or last in _MAKERS or _LIBRARY.match(call.name)):
                if not _WHOLE.match(call.name):
                    return False
                modules = True
        if not modules:
            return True
        target = node.targets[0]
        if not (isinstance(target, ast.Attribute) and is_name(target.value, "self")):
            return False  # a module in a local name goes we know not where
        return target.attr in used and f"self.{target.attr}" not in parts
