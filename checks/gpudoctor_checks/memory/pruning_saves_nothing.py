"""MEM011 pruning-saves-nothing."""

from collections.abc import Iterator

from gpudoctor.analysis.source.syntax import without_comments
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.source import Script

_UNSTRUCTURED = frozenset(
    {
        "torch.nn.utils.prune.l1_unstructured",
        "torch.nn.utils.prune.random_unstructured",
        "torch.nn.utils.prune.global_unstructured",
    }
)
_REAL = ("to_sparse", "SparseSemiStructured", "semi_sparse", "torch_pruning", "sparseml", "prune.is_pruned")
"""Words of scripts that turn zeros into something smaller, or only look."""


class PruningSavesNothing(Check):
    """Unstructured pruning masks are put on a model; they save neither memory nor time.

    What it finds:
        `torch.nn.utils.prune` with unstructured masks (`l1_unstructured`, `random_unstructured`,
        `global_unstructured`) in a program that never makes them permanent and has no sparse kernels.
    Why it hurts:
        A mask keeps the whole weight as `weight_orig` and adds a mask of the same size. The layer needs twice
        the memory. Each forward multiplies the two, then runs the dense matrix product, zeros included; a
        checkpoint contains both. The model gets larger and slower, not smaller and faster.
    How it knows:
        From the source: the pruning call, and no `prune.remove`, sparse layout or 2:4 sparsity in the script.
    False alarms:
        Research on masks themselves (lottery tickets): memory and time are not the aim.
    Remedies:
        Call `prune.remove` before the export; to save memory or time, remove whole channels (structured
        pruning) or use 2:4 semi-structured sparsity.
    References:
        - https://pytorch.org/tutorials/intermediate/pruning_tutorial.html
    """

    code = "MEM011"
    reads = frozenset({Reads.SOURCE})
    severity = Severity.NOTE

    def examine(self, patient: Patient) -> Iterator[Finding]:
        for script in patient.source.scripts:
            if "prune" in script.text:
                yield from self._from_source(script)

    def _from_source(self, script: Script) -> Iterator[Finding]:
        if any(True for _ in script.calls_to("torch.nn.utils.prune.remove")):
            return
        calls = [call for call in script.calls_to(*_UNSTRUCTURED) if not any(guard.never for guard in call.guards)]
        if not calls or any(word in without_comments(script) for word in _REAL):
            return
        first = calls[0]
        more = say(" and {calls} more", calls=len(calls) - 1) if len(calls) > 1 else ""
        yield self.finding(
            say(
                "{method}{more} keeps the dense weight and adds a mask of its size. The pruned layers take "
                "twice their memory, and each forward pass multiplies the two.",
                method=first.method,
                more=more,
            ),
            evidence=tuple(call.span for call in calls[:6]),
        )
