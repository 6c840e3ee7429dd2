"""What is told of the machine and its settings, without computation."""

from collections.abc import Callable

from gpudoctor.model import Advice, Applicability, Effort, advise, where
from gpudoctor.model.rule import Condition
from gpudoctor_checks.environment.driver_unreachable import DriverUnreachableDetail
from gpudoctor_checks.environment.host_memory_tight import HostMemoryTightDetail
from gpudoctor_checks.environment.limits_too_low import LimitsTooLowDetail
from gpudoctor_checks.environment.nccl_hobbled import NcclHobbledDetail
from gpudoctor_checks.environment.nccl_variable_unknown import NcclVariableUnknownDetail
from gpudoctor_checks.environment.shm_too_small import ShmTooSmallDetail
from gpudoctor_checks.environment.tokenizer_fork import TokenizerForkDetail
from gpudoctor_checks.environment.visible_devices_wrong import VisibleDevicesWrongDetail

_OFF = "export TOKENIZERS_PARALLELISM=false"
_SETS_OFF = (("TOKENIZERS_PARALLELISM", "false"),)
_TOKENIZERS = "https://huggingface.co/docs/transformers/en/fast_tokenizers"

_TOOLKIT = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
_DRIVER = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/index.html"
_TROUBLE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"

_WITH_GPUS = "start the container with its GPUs"
_CONTAINERS = {
    "podman": "podman run --device nvidia.com/gpu=all ...",
    "kubernetes": "resources: {limits: {nvidia.com/gpu: {gpus}}}",
    "singularity": "singularity exec --nv image.sif python train.py   # apptainer: the same flag",
}
"""Kind of container to the line that gives it GPUs; else docker's."""
_UPDATED = "reboot: the driver was updated"
_WITHOUT_REBOOT = (
    "Without a reboot: stop every program on the GPUs; sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset"
    " nvidia && sudo modprobe nvidia"
)
_DRAINED = ('sudo dmesg | grep -E "NVRM|Xid" | tail -30   # messages of the driver', "Drain the node and reboot it.")
_NAMED = ("container", "no-library", "not-loaded", "mismatch", "no-permission", "no-gpu")
"""Causes whose remedies do not depend on where it runs, or that are told apart."""


def _unreachable(test: Callable[[DriverUnreachableDetail], object]) -> Condition:
    return where(DriverUnreachableDetail, test)


def _updated(driver: DriverUnreachableDetail) -> bool:
    return driver.cause == "mismatch" and not driver.container


def _dead(driver: DriverUnreachableDetail) -> bool:
    """Whether the driver fails, hangs or crashes; one that fails in a container is the container's."""
    return driver.cause not in _NAMED and not (driver.cause == "failed" and driver.container)


def _with_gpus(kind: str, line: str) -> Advice:
    return advise(
        "ENV001-container-flags",
        _WITH_GPUS,
        line,
        when=_unreachable(lambda driver: driver.cause == "container" and driver.container == kind),
        effort=Effort.SETTING,
        references=(_TOOLKIT,),
    )


_NCCL_VARIABLES = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"

ADVICE = (
    advise(
        "ENV014-off",
        _OFF,
        "export TOKENIZERS_PARALLELISM=false   # before the launch line",
        when=where(TokenizerForkDetail, lambda fork: fork.workers_tokenize),
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
        sets=_SETS_OFF,
        references=(_TOKENIZERS,),
    ),
    advise(
        "ENV014-off",
        _OFF,
        "export TOKENIZERS_PARALLELISM=false   # before the launch line",
        "tokenizing in the main process then runs on one thread; with dataset.map(..., num_proc=N) it "
        "runs in N processes instead",
        when=where(TokenizerForkDetail, lambda fork: not fork.workers_tokenize),
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
        sets=_SETS_OFF,
        references=(_TOKENIZERS,),
    ),
    *(_with_gpus(kind, line) for kind, line in _CONTAINERS.items()),
    advise(
        "ENV001-container-flags",
        _WITH_GPUS,
        "docker run --gpus all --shm-size=16g ...",
        when=_unreachable(lambda driver: driver.cause == "container" and driver.container not in _CONTAINERS),
        effort=Effort.SETTING,
        references=(_TOOLKIT,),
    ),
    advise(
        "ENV001-install",
        "install the NVIDIA driver",
        "Install the driver's libraries in the version of the loaded module, {module}.",
        "sudo ldconfig; ldconfig -p | grep libnvidia-ml   # must name libnvidia-ml.so.1",
        when=_unreachable(lambda driver: driver.cause == "no-library" and driver.module),
        effort=Effort.ADMINISTRATOR,
        references=(_DRIVER,),
    ),
    advise(
        "ENV001-install",
        "install the NVIDIA driver",
        "sudo ubuntu-drivers install --gpgpu   # Ubuntu; elsewhere its NVIDIA package",
        "sudo reboot, then nvidia-smi",
        when=_unreachable(lambda driver: driver.cause == "no-library" and not driver.module),
        effort=Effort.ADMINISTRATOR,
        references=(_DRIVER,),
    ),
    advise(
        "ENV001-load",
        "load the nvidia kernel module",
        "sudo modprobe nvidia && nvidia-smi",
        "When it refuses: dkms status; mokutil --sb-state   # not built for this kernel, or not signed",
        "lsmod | grep nouveau   # must be empty: nouveau blocks the card",
        when=_unreachable(lambda driver: driver.cause == "not-loaded"),
        effort=Effort.ADMINISTRATOR,
        references=(_DRIVER,),
    ),
    advise(
        "ENV001-restart-container",
        "restart the container",
        "Restart the container: the host's driver was updated while it ran.",
        "Take driver libraries out of the image: the container runtime brings the host's.",
        when=_unreachable(lambda driver: driver.cause == "mismatch" and driver.container),
        effort=Effort.COMMAND,
        references=(_TOOLKIT,),
    ),
    advise(
        "ENV001-reboot",
        _UPDATED,
        "sudo reboot   # the new module is loaded then (module {module}, library {library})",
        _WITHOUT_REBOOT,
        when=_unreachable(lambda driver: _updated(driver) and driver.module and driver.library),
        effort=Effort.ADMINISTRATOR,
        references=(_DRIVER,),
    ),
    advise(
        "ENV001-reboot",
        _UPDATED,
        "sudo reboot   # the new module is loaded then (module and library)",
        _WITHOUT_REBOOT,
        when=_unreachable(lambda driver: _updated(driver) and not (driver.module and driver.library)),
        effort=Effort.ADMINISTRATOR,
        references=(_DRIVER,),
    ),
    advise(
        "ENV001-permission",
        "get access to /dev/nvidia*",
        "ls -l /dev/nvidia*; id   # who may open them?",
        "sudo usermod -aG video $USER   # where a group owns them; log in again",
        "In a batch job ask the scheduler for GPUs (Slurm: --gres=gpu:1): it opens those that it grants.",
        when=_unreachable(lambda driver: driver.cause == "no-permission"),
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "ENV001-restart-container",
        "restart the container",
        "Restart the container; nvidia-smi inside works again then.",
        "Reloads of systemd drop the devices. To prevent that, pass --device /dev/nvidia0 ..., or set the "
        "runtime's cgroup driver to cgroupfs.",
        when=_unreachable(lambda driver: driver.cause == "failed" and driver.container),
        effort=Effort.COMMAND,
        references=("https://github.com/NVIDIA/nvidia-container-toolkit/issues/48",),
    ),
    advise(
        "ENV001-reboot",
        "drain and reboot the node",
        *_DRAINED,
        when=_unreachable(lambda driver: _dead(driver) and driver.cause != "no-gpu"),
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "ENV001-reboot",
        "drain and reboot the node",
        *_DRAINED,
        "GPUs that still fail to start (RmInitAdapter failed): power, seat, or card.",
        when=_unreachable(lambda driver: driver.cause == "no-gpu"),
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "ENV006-clear",
        "find which processes use /dev/shm and delete what dead jobs left there",
        "fuser -v /dev/shm/* 2>&1 | head",
        "ls -la /dev/shm",
        "rm /dev/shm/torch_* /dev/shm/nccl-*   # only when no training of yours is running",
        when=where(ShmTooSmallDetail, lambda shm: shm.full),
        effort=Effort.COMMAND,
    ),
    advise(
        "ENV008-sharing",
        'share tensors by file name: torch.multiprocessing.set_sharing_strategy("file_system")',
        'torch.multiprocessing.set_sharing_strategy("file_system")   # at the top of the script',
        "a killed job then leaves files in /dev/shm",
        when=where(LimitsTooLowDetail, lambda limit: limit.kind == "open files"),
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
        sets=(("sharing_strategy", "file_system"),),
        references=("https://pytorch.org/docs/stable/multiprocessing.html#sharing-strategies",),
    ),
    advise(
        "ENV009-swapping",
        "find the process whose pages are swapped, and end it or move it",
        'for f in /proc/[0-9]*/status; do awk \'/^(Name|Pid|VmSwap)/{printf "%s ", $2}END{print ""}\' '
        "$f; done | sort -k3 -nr | head",
        "vmstat 1 5   # si and so, KiB a second",
        when=where(HostMemoryTightDetail, lambda memory: memory.kind == "swap"),
        effort=Effort.COMMAND,
    ),
    advise(
        "ENV012-acs",
        "switch PCIe access control (ACS) off on the bridges above the GPUs",
        "in the BIOS: ACS off (with virtual machines keep it, and use ATS)",
        "until the next boot, for each bridge: sudo setpci -v -s ADDRESS ECAP_ACS+0x6.w=0000",
        when=where(NcclHobbledDetail, lambda nccl: nccl.kind == "acs"),
        effort=Effort.ADMINISTRATOR,
        references=(_TROUBLE,),
    ),
    advise(
        "ENV012-iommu",
        "put the IOMMU into passthrough: kernel parameter iommu=pt",
        'in /etc/default/grub: GRUB_CMDLINE_LINUX="... iommu=pt", then update-grub and reboot',
        "then: cat /sys/kernel/iommu_groups/*/type | sort | uniq -c   # identity",
        when=where(NcclHobbledDetail, lambda nccl: nccl.kind == "iommu"),
        effort=Effort.ADMINISTRATOR,
        references=(_TROUBLE,),
    ),
    advise(
        "ENV013-machine",
        "run it on a machine with the GPUs, or name their card: --gpu H100",
        "nvidia-smi -L   # on the machine of the job; in a container start it with --gpus all",
        "srun --gpus={asked} gpudoctor check ...   # inside the allocation",
        "gpudoctor check --gpu H100 ...   # examines the job for a card of another machine",
        when=where(VisibleDevicesWrongDetail, lambda value: value.kind == "missing"),
        effort=Effort.ONE_LINE,
    ),
    advise(
        "ENV016-name",
        "Use {instead} in place of {variable}",
        "export {instead}=...   # {variable} has no effect",
        when=where(NcclVariableUnknownDetail, lambda nccl: bool(nccl.instead)),
        effort=Effort.ONE_LINE,
        references=(_NCCL_VARIABLES,),
    ),
    advise(
        "ENV016-value",
        "Give {variable} a value that it can have",
        "export {variable}=1   # NCCL reads switches as numbers: 1 is on, 0 is off",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ENV prints what NCCL read",
        when=where(NcclVariableUnknownDetail, lambda nccl: nccl.kind == "value"),
        effort=Effort.ONE_LINE,
        references=(_NCCL_VARIABLES,),
    ),
    advise(
        "ENV016-delete",
        "Delete {variable}",
        "unset {variable}   # a timeout of collectives is init_process_group(timeout=timedelta(...))",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ENV prints what NCCL read",
        when=where(NcclVariableUnknownDetail, lambda nccl: not nccl.instead and nccl.kind != "value"),
        effort=Effort.ONE_LINE,
        references=(_NCCL_VARIABLES,),
    ),
)
