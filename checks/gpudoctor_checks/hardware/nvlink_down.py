"""GPU006 nvlink-down."""

import re
from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Absent, Check, Code, Finding, Patient, Reads, Severity, Unavailable
from gpudoctor.model.job_devices import CardsDetail, demoted, left_out
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.gpu import Gpu, NvLink, name_gpus
from gpudoctor.model.unavailable import known
from gpudoctor_checks.hardware.card_findings import on_cards

_DONE = 3
_STATES = {1: say("not started"), 2: say("in progress")}
_BOARD = re.compile(r"\bSXM|\bHGX\b", re.IGNORECASE)
_NO_SWITCH = re.compile(r"PCIe|\bNVL\b|GH200|GB10\b", re.IGNORECASE)


@frozen
class NvlinkDownDetail(CardsDetail):
    """What the rule reads."""

    cause: str
    """`fabric` or `port`."""


class NvlinkDown(Check):
    """An NVLink port is off while others of the GPU are on, or the NVLink fabric is not ready.

    What it finds:
        - A GPU with some ports off on a board that connects all of them.
        - A GPU with fewer active ports than its siblings of the same model.
        - On NVSwitch machines a fabric whose setup has not finished, or is unhealthy.
    Why it hurts:
        Until the fabric is ready CUDA refuses to start (error 802, "system not yet initialized"). With a port
        down, collectives lose bandwidth on every step or NCCL stops with an error.
    How it knows:
        NVML's state of each port and of the fabric.
    False alarms:
        Cards with bridges use only as many ports as they have bridges. If all siblings are alike, that is the
        design. Cards whose ports are all off have no bridge. Fabric states of PCIe cards, NVL cards and Grace
        Hopper are not judged. In the first minutes after a boot a fabric is "in progress".
    Remedies:
        Start the fabric manager, reset the GPU, or use another node.
    References:
        - https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html
        - https://github.com/pytorch/pytorch/issues/35710 (error 802)
        - https://github.com/NVIDIA/nvidia-resiliency-ext (NVLink health check)
    """

    code = Code("GPU006")
    name = "nvlink-down"
    reads = frozenset({Reads.ENVIRONMENT, Reads.PROCESS})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        gpus = patient.gpus
        if all(isinstance(gpu.nvlinks, Absent) and isinstance(gpu.fabric_state, Absent) for gpu in gpus):
            raise Unavailable(say("the cards have no NVLink"))
        aside = [gpu for gpu in gpus if left_out(patient, [gpu])]
        used = [gpu for gpu in gpus if gpu not in aside]
        yield from self._fabric(used)
        yield from self._ports(used, gpus)
        yield from demoted([*self._fabric(aside), *self._ports(aside, gpus)])

    def _fabric(self, gpus: list[Gpu]) -> Iterator[Finding]:
        switched = [gpu for gpu in gpus if gpu.server_card and not _NO_SWITCH.search(gpu.name)]
        waiting = [gpu for gpu in switched if gpu.fabric_state in _STATES]
        sick = [gpu for gpu in switched if gpu.fabric_state == _DONE and gpu.fabric_unhealthy is True]
        for group, verdict in ((waiting, say("not ready")), (sick, "unhealthy")):
            if not group:
                continue
            states = [(gpu, _STATES.get(known(gpu.fabric_state) or 0, "unhealthy")) for gpu in group]
            detail = say(" (registration {states})", states=states[0][1]) if group is waiting else ""
            yield on_cards(
                self,
                say(
                    "The NVLink fabric is {verdict} for {subject}{detail}.",
                    verdict=verdict,
                    subject=name_gpus(group),
                    detail=detail,
                ),
                states,
                "fabric_state",
                "",
                "nvidia-smi -q -i {} | grep -A 4 Fabric",
                breaks=say("CUDA does not start (error 802) or collectives fail"),
                detail=NvlinkDownDetail,
                cause="fabric",
            )

    def _ports(self, judged: list[Gpu], gpus: tuple[Gpu, ...]) -> Iterator[Finding]:
        down = [(gpu, links) for gpu in judged if (links := _down(gpu, gpus))]
        if not down:
            return
        off = [(gpu, ", ".join(str(link.index) for link in links)) for gpu, links in down]
        words = [
            say(
                "{gpu}: {ports} of {count} off",
                gpu=gpu.label,
                ports=say("port {ports}" if "," not in ports else "ports {ports}", ports=ports),
                count=len(known(gpu.nvlinks) or ()),
            )
            for gpu, ports in off
        ]
        yield on_cards(
            self,
            say(
                "Some NVLink ports are off while others of the same GPU are on. {words}.",
                words=concatenated("; ", words),
            ),
            off,
            "nvlinks_off",
            "",
            "nvidia-smi nvlink --status -i {}",
            breaks=say("collectives between the GPUs fail or lose bandwidth"),
            detail=NvlinkDownDetail,
            cause="port",
        )


def _down(gpu: Gpu, gpus: tuple[Gpu, ...]) -> list[NvLink]:
    """Ports that are off and should be on: the board wires all of them, or a sibling has more."""
    off = [link for link in known(gpu.nvlinks) or () if not link.active]
    if not off or gpu.mig_enabled is True:  # MIG turns peer access off
        return []
    wired = _BOARD.search(gpu.name) or (
        gpu.fabric_state in {1, 2, 3} and gpu.server_card and not _NO_SWITCH.search(gpu.name)
    )
    if wired and _active(gpu) > 0:
        return off
    siblings = [
        _active(other)
        for other in gpus
        if other.index != gpu.index and other.name == gpu.name and other.mig_enabled is not True
    ]
    # Bridges join cards in pairs or fours: a lone card without one is a build, the odd one out is not.
    return off if siblings and min(siblings) > _active(gpu) else []


def _active(gpu: Gpu) -> int:
    return sum(link.active for link in known(gpu.nvlinks) or ())
