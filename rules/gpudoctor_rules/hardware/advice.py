"""What is told of cards, without computation."""

from gpudoctor.model import Effort, advise, where
from gpudoctor_checks.hardware.low_utilization import LowUtilizationDetail
from gpudoctor_checks.hardware.nvlink_down import NvlinkDownDetail

ADVICE = (
    advise(
        "GPU001-cause",
        "fix the other findings first",
        "the finding of that part of the step shows how; utilisation follows",
        when=where(LowUtilizationDetail, lambda use: use.explained),
    ),
    advise(
        "GPU001-cause",
        "find what the host does meanwhile",
        "py-spy dump --pid PID; PERF011 where the host only launches, PERF014 where its own lines take the time",
        when=where(LowUtilizationDetail, lambda use: not use.explained),
    ),
    advise(
        "GPU009-look",
        "check the clocks and neighbours of rank {rank} on {node}",
        "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER   # on that node, under load",
        "gpudoctor check   # throttling, power limits, PCIe, other processes on the card",
        "the same rank on another node: if it is fast there, drain this one",
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "GPU012-daemon",
        "start nvidia-persistenced",
        "sudo systemctl enable --now nvidia-persistenced",
        "If there is no such service: sudo nvidia-smi -pm 1   # until the next reboot",
        effort=Effort.ADMINISTRATOR,
        references=("https://docs.nvidia.com/deploy/driver-persistence/index.html",),
    ),
    advise(
        "GPU006-fabric-manager",
        "start nvidia-fabricmanager in the driver's own version",
        "systemctl status nvidia-fabricmanager; journalctl -u nvidia-fabricmanager -b | tail -50",
        "cat /proc/driver/nvidia/version; nv-fabricmanager --version   # must be equal",
        "sudo systemctl enable --now nvidia-fabricmanager",
        "nvidia-smi -q | grep -A 4 Fabric   # right after a boot it takes some minutes",
        when=where(NvlinkDownDetail, lambda link: link.cause == "fabric"),
        effort=Effort.ADMINISTRATOR,
        references=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html",),
    ),
)
