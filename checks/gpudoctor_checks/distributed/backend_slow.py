"""DIST006 backend-slow."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.memo import once
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import Run
from gpudoctor.analysis.source.control_flow import enclosing, may_run
from gpudoctor.analysis.source.device_tensors import Target
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.parallelism import DDP, SHARDED
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.source import Call, Known, Script
from gpudoctor_checks.run_check import RunCheck

_KEYWORDS = {
    "torch.distributed.init_process_group": ("backend", 0),
    "deepspeed.init_distributed": ("dist_backend", 0),
    "lightning.strategies.DDPStrategy": ("process_group_backend", None),
}
_SLOW = frozenset({"gloo", "mpi"})
_PLATFORM = re.compile(r"win|nt\b|platform|darwin|cpu|is_available|nccl", re.IGNORECASE)


class BackendSlow(RunCheck):
    """Gradients on the GPU are reduced by Gloo, through the CPU.

    What it finds:
        `init_process_group("gloo")`, `ddp_backend="gloo"` of TrainingArguments or a Lightning strategy's
        `process_group_backend`, in a program that trains on CUDA under DistributedDataParallel or FSDP.
    Why it hurts:
        Gloo copies every gradient bucket to the host, reduces it there and copies it back. NCCL reduces on the
        GPUs over NVLink, PCIe or InfiniBand and is several times faster. It also overlaps with the backward
        pass.
    How it knows:
        From the source, with defaults of the command line followed. If the platform or the presence of CUDA
        decides the backend, it is silent.
    False alarms:
        Windows has no NCCL; two ranks that share one GPU need Gloo. A second group for objects on the CPU is
        not a finding.
    Remedies:
        backend="nccl", with each rank on its own GPU.
    References:
        - https://pytorch.org/docs/stable/distributed.html#which-backend-to-use
    """

    on_gpu = True
    code = "DIST006"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:  # noqa: ARG002
        backend = str(of_run.torch_fact(run.lead.process, "backend") or "")
        if not backend or of_run.on_gpu(run.lead.process) is None:
            yield from suspected
            return
        if "gloo" not in backend or "nccl" in backend or not of_run.on_gpu(run.lead.process):
            return
        yield confirmed(
            self,
            suspected,
            say("Gradients on the GPU are reduced by {backend}: each goes through the host.", backend=backend),
            evidence=(run.measured("ranks", len(run.states), "{ranks}"),),
            severity=Severity.WARNING,
            detail=Facts(keyword=None),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        seen: set[tuple[str, int]] = set()
        for program in training_programs(patient.source):
            if program.target not in (Target.CUDA, Target.MAYBE) or not _reduces(program):
                continue
            for script, call, named in ((item, *found) for item in program.scripts for found in _backends(item)):
                if (script.path, call.span.line) in seen or _by_platform(script, call):
                    continue
                if call.name.startswith("torch.") and not may_run(program.source, call.span):
                    continue
                seen.add((script.path, call.span.line))
                keyword, value = named
                backend = str(value.value)
                origin = (
                    say(" ({origin})", origin=value.origin) if value.origin.startswith(("default", "command")) else ""
                )
                yield self.finding(
                    say(
                        "The process group uses {backend}{origin}, and the training runs on CUDA: every gradient goes "
                        "through the host's memory.",
                        backend=backend,
                        origin=origin,
                    ),
                    evidence=(call.span, *(c.span for _, c in program.calls if c.name in DDP | SHARDED)),
                    detail=Facts(keyword=keyword),
                )


@once
def _backends(script: Script) -> list[tuple[Call, tuple[str, Known]]]:
    """Calls that ask for a slow backend, with its keyword and value."""
    found = [(call, _backend(call)) for call in script.calls]
    return [(call, named) for call, named in found if named is not None]


def _backend(call: Call) -> tuple[str, Known] | None:
    """Keyword and value of a slow backend that a call asks for."""
    keyword, position = _KEYWORDS.get(call.name, ("", None))
    if not keyword and call.name.endswith("TrainingArguments"):
        keyword = "ddp_backend"
    if not keyword or any(guard.never for guard in call.guards):
        return None
    value = call.argument(keyword, position)
    if isinstance(value, Known) and str(value.value).lower() in _SLOW:
        return keyword, value
    return None


def _by_platform(script: Script, call: Call) -> bool:
    """Whether the call is one of several for different machines, or falls back from NCCL."""
    if any(_PLATFORM.search(guard.text) for guard in call.guards):
        return True
    return any(isinstance(node, ast.ExceptHandler | ast.Try) for node in enclosing(script, call.node))


def _reduces(program: Program) -> bool:
    """Whether gradients are reduced over the process group, on CUDA tensors."""
    names = program.called
    engines = any((loop.engine or "").startswith(("lightning.", "transformers.")) for _, loop in program.loops)
    return bool(names & (DDP | SHARDED)) or "deepspeed.initialize" in names or engines
