"""GPU006 nvlink-down."""

import re
from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Absent, Check, Finding, Patient, Reads, Severity, Unavailable
from gpudoctor.model.job_devices import demoted, left_out
from gpudoctor.model.signs.gpu import Gpu, name_gpus
from gpudoctor.model.unavailable import known
from gpudoctor_checks.hardware.card_findings import on_cards

_DONE = 3
_STATES = (1, 2)
"""Not started, in progress."""
_NO_SWITCH = re.compile(r"PCIe|\bNVL\b|GH200|GB10\b", re.IGNORECASE)


class NvlinkDown(Check):
    """An NVLink port is off while others of the GPU are on, or the NVLink fabric is not ready.

    What it finds:
        - A GPU with some ports off on a board that connects all of them.
        - On NVSwitch machines a fabric whose setup has not finished, or is unhealthy.
    Why it hurts:
        Until the fabric is ready CUDA refuses to start (error 802, "system not yet initialized"). With a port
        down, collectives lose bandwidth on every step or NCCL stops with an error.
    How it knows:
        NVML's state of each port and of the fabric.
    False alarms:
        Cards with bridges use only as many ports as they have bridges. PCIe cards, NVL cards and Grace Hopper
        are not judged. In the first minutes after a boot a fabric is "in progress".
    Remedies:
        Start the fabric manager, reset the GPU, or use another node.
    References:
        - https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html
        - https://github.com/pytorch/pytorch/issues/35710 (error 802)
    """

    code = "GPU006"
    reads = frozenset({Reads.ENVIRONMENT, Reads.PROCESS})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        gpus = patient.gpus
        if all(isinstance(gpu.nvlinks, Absent) and isinstance(gpu.fabric_state, Absent) for gpu in gpus):
            raise Unavailable(say("the cards have no NVLink"))
        wired = [gpu for gpu in gpus if gpu.server_card and not _NO_SWITCH.search(gpu.name)]
        aside = [gpu for gpu in wired if left_out(patient, [gpu])]
        yield from self._judge([gpu for gpu in wired if gpu not in aside])
        yield from demoted(self._judge(aside))

    def _judge(self, gpus: list[Gpu]) -> Iterator[Finding]:
        waiting = [gpu for gpu in gpus if gpu.fabric_state in _STATES]
        sick = [gpu for gpu in gpus if gpu.fabric_state == _DONE and gpu.fabric_unhealthy is True]
        for group, verdict in ((waiting, say("not ready")), (sick, say("unhealthy"))):
            if group:
                yield on_cards(
                    self,
                    say("The NVLink fabric is {verdict} for {subject}.", verdict=verdict, subject=name_gpus(group)),
                    [(gpu, known(gpu.fabric_state) or 0) for gpu in group],
                    "fabric_state",
                    "",
                    "nvidia-smi -q -i {} | grep -A 4 Fabric",
                    breaks=say("CUDA does not start (error 802) or collectives fail"),
                    cause="fabric",
                )
        ports = [(gpu, [link for link in known(gpu.nvlinks) or () if not link.active]) for gpu in gpus]
        # MIG turns peer access off; a card whose ports are all off has no neighbour.
        down = [
            (gpu, off) for gpu, off in ports if 0 < len(off) < len(known(gpu.nvlinks) or ()) and not gpu.mig_enabled
        ]
        if down:
            off = [(gpu, ", ".join(str(link.index) for link in links)) for gpu, links in down]
            words = [say("{gpu}: ports {ports} off", gpu=gpu.label, ports=numbers) for gpu, numbers in off]
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
                cause="port",
                action="reset",
            )
