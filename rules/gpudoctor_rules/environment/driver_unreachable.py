"""Answers ENV001 driver-unreachable."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.environment.driver_unreachable import DriverUnreachableDetail

_TOOLKIT = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
_DRIVER = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/index.html"


class DriverUnreachableRule(Rule):
    """By cause: the driver installed, loaded, made to match, or let into the container."""

    answers = Code("ENV001")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        detail = finding.detail_of(DriverUnreachableDetail)
        cause = detail.cause
        inside = bool(detail.container)
        if cause == "container":
            yield self._container(detail.container, detail.gpus)
        elif cause == "no-library":
            yield self._install(finding)
        elif cause == "not-loaded":
            yield self._load()
        elif cause == "mismatch":
            yield self._match(finding)
        elif cause == "no-permission":
            yield self._permit()
        elif cause == "failed" and inside:
            yield self._restart_container()
        else:
            yield self._restart_node(cause)

    def _remedy(
        self,
        word: str,
        title: str,
        steps: tuple[str, ...],
        effort: Effort = Effort.ADMINISTRATOR,
        *references: str,
    ) -> Remedy:
        return Remedy(
            id=f"{self.answers}-{word}",
            title=title,
            steps=steps,
            applicability=Applicability.DISPLAY_ONLY,
            effort=effort,
            references=references,
        )

    def _container(self, runtime: str, gpus: int) -> Remedy:
        flags = {
            "podman": "podman run --device nvidia.com/gpu=all ...",
            "kubernetes": f"resources: {{limits: {{nvidia.com/gpu: {max(gpus, 1)}}}}}",
            "singularity": "singularity exec --nv image.sif python train.py   # apptainer: the same flag",
        }
        line = flags.get(runtime, "docker run --gpus all --shm-size=16g ...")
        return self._remedy(
            "container-flags", "start the container with its GPUs", (line,), Effort.SETTING, _TOOLKIT
        )

    def _install(self, finding: Finding) -> Remedy:
        module = finding.detail_of(DriverUnreachableDetail).module
        if module:
            steps: tuple[str, ...] = (
                f"Install the driver's libraries in the version of the loaded module, {module}.",
                "sudo ldconfig; ldconfig -p | grep libnvidia-ml   # must name libnvidia-ml.so.1",
            )
        else:
            steps = (
                "sudo ubuntu-drivers install --gpgpu   # Ubuntu; elsewhere its NVIDIA package",
                "sudo reboot, then nvidia-smi",
            )
        return self._remedy("install", "install the NVIDIA driver", steps, Effort.ADMINISTRATOR, _DRIVER)

    def _load(self) -> Remedy:
        steps = (
            "sudo modprobe nvidia && nvidia-smi",
            "When it refuses: dkms status; mokutil --sb-state   # not built for this kernel, or not signed",
            "lsmod | grep nouveau   # must be empty: nouveau blocks the card",
        )
        return self._remedy("load", "load the nvidia kernel module", steps, Effort.ADMINISTRATOR, _DRIVER)

    def _match(self, finding: Finding) -> Remedy:
        detail = finding.detail_of(DriverUnreachableDetail)
        module, library = detail.module, detail.library
        versions = f"module {module}, library {library}" if module and library else "module and library"
        if detail.container:
            steps: tuple[str, ...] = (
                "Restart the container: the host's driver was updated while it ran.",
                "Take driver libraries out of the image: the container runtime brings the host's.",
            )
            return self._remedy("restart-container", "restart the container", steps, Effort.COMMAND, _TOOLKIT)
        steps = (
            f"sudo reboot   # the new module is loaded then ({versions})",
            "Without a reboot: stop every program on the GPUs; sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset"
            " nvidia && sudo modprobe nvidia",
        )
        return self._remedy("reboot", "reboot: the driver was updated", steps, Effort.ADMINISTRATOR, _DRIVER)

    def _permit(self) -> Remedy:
        steps = (
            "ls -l /dev/nvidia*; id   # who may open them?",
            "sudo usermod -aG video $USER   # where a group owns them; log in again",
            "In a batch job ask the scheduler for GPUs (Slurm: --gres=gpu:1): it opens those that it grants.",
        )
        return self._remedy("permission", "get access to /dev/nvidia*", steps)

    def _restart_container(self) -> Remedy:
        steps = (
            "Restart the container; nvidia-smi inside works again then.",
            "To keep it from coming back (systemd reloads drop the devices): pass --device /dev/nvidia0 ..., or"
            " set the runtime's cgroup driver to cgroupfs.",
        )
        link = "https://github.com/NVIDIA/nvidia-container-toolkit/issues/48"
        return self._remedy("restart-container", "restart the container", steps, Effort.COMMAND, link)

    def _restart_node(self, cause: str) -> Remedy:
        steps: tuple[str, ...] = (
            'sudo dmesg | grep -E "NVRM|Xid" | tail -30   # messages of the driver',
            "Drain the node and reboot it.",
        )
        if cause == "no-gpu":
            steps = (*steps, "GPUs that still fail to start (RmInitAdapter failed): power, seat, or card.")
        return self._remedy("reboot", "drain and reboot the node", steps)
