"""NODE015 cpu-slow."""

from collections.abc import Iterator

from gpudoctor.analysis.preflight.slow_units import UnitQuantity, peer_thresholds, slow_units
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads
from gpudoctor.model.signs.preflight import Quantity


class CpuSlow(Check):
    """The CPUs of a node compute slower than those of equal nodes.

    What it finds:
        A node whose processors reach less in matrix products or memory copies than nodes with the same
        processor.
    Why it hurts:
        Loaders, tokenizers and the launch of kernels run there. Without cards, the training itself does.
    How it knows:
        `gpudoctor preflight` multiplies matrices and copies memory on the CPUs that the job may use. Another
        CPU quota than that of its peers is NODE010's.
    False alarms:
        Nodes with different processors are not compared. Other jobs on a shared node slow it for a while:
        repeat it.
    Remedies:
        Look for other work, a CPU quota of the job, and the governor; leave the node out.
    References:
        - https://docs.kernel.org/admin-guide/cgroup-v2.html (cpu.max)
    """

    code = "NODE015"
    reads = frozenset({Reads.PREFLIGHT})
    thresholds = peer_thresholds(slower=0.25, against_reference=None)

    def examine(self, patient: Patient) -> Iterator[Finding]:
        asked = [
            UnitQuantity(Quantity.MATMUL, say("fp32 products"), "fp32"),
            UnitQuantity(Quantity.MEMORY_BANDWIDTH, say("copies of memory")),
        ]
        yield from slow_units(self, patient.preflight, asked, device="cpu")
