"""NODE015 cpu-slow."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from gpudoctor.analysis.preflight.named_nodes import NodesDetail, hosts, unit_name
from gpudoctor.analysis.preflight.slow_units import UnitQuantity, peer_thresholds, slow_units
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Finding, Measurement, Patient, Reads
from gpudoctor.model.signs.preflight import CPU_QUOTA, Preflight, Quantity


class CpuSlow(Check):
    """The CPUs of a node compute slower than those of equal nodes.

    What it finds:
        A node whose processors reach less in matrix products or memory copies than nodes with the same
        processor.
    Why it hurts:
        Loaders, tokenizers and the launch of kernels run there. Without cards, the training itself does.
    How it knows:
        `gpudoctor preflight` multiplies matrices and copies memory on the CPUs that the job may use. If the
        slow node's control group has another CPU quota than its peers, the finding names it.
    False alarms:
        Nodes with different processors are not compared. Other jobs on a shared node slow it for a while:
        repeat it.
    Remedies:
        Look for other work, a CPU quota of the job, and the governor; leave the node out.
    References:
        - https://docs.kernel.org/admin-guide/cgroup-v2.html (cpu.max)
    """

    code = Code("NODE015")
    name = "cpu-slow"
    reads = frozenset({Reads.PREFLIGHT})
    thresholds = peer_thresholds(slower=0.25, against_reference=None)

    def examine(self, patient: Patient) -> Iterator[Finding]:
        asked = [
            UnitQuantity(Quantity.MATMUL, say("fp32 products"), "fp32"),
            UnitQuantity(Quantity.MEMORY_BANDWIDTH, say("copies of memory")),
        ]
        found = patient.preflight
        for finding in slow_units(self, found, asked, device="cpu"):
            yield _with_quota(found, finding)


def _with_quota(preflight: Preflight, finding: Finding) -> Finding:
    """The finding with the CPU quota of its node, if most nodes have another one."""
    quotas = Counter(node.facts.get(CPU_QUOTA, "none") for node in preflight.nodes)
    unit = next(unit for unit in preflight.units if unit_name(preflight, unit) == finding.subject)
    quota = preflight.nodes[unit.node].facts.get(CPU_QUOTA, "none")
    usual, _ = quotas.most_common(1)[0]
    if quota in ("none", usual):
        return finding
    return replace(
        finding,
        message=say(
            "{message} Its control group grants {quota} CPUs of time, those of its peers {usual}.",
            message=finding.message,
            quota=quota,
            usual=say("no quota") if usual == "none" else usual,
        ),
        evidence=(
            *finding.evidence,
            Measurement("cpu_quota", float(quota), "{CPUs}", reproduce="cat /sys/fs/cgroup/cpu.max"),
        ),
        detail=NodesDetail(hosts=hosts(preflight, (unit.node,)), cause="quota"),
    )
