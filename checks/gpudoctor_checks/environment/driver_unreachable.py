"""ENV001 driver-unreachable."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity
from gpudoctor.model.evidence import Evidence, Measurement
from gpudoctor.model.signs.gpu import DriverState, GpuSurvey
from gpudoctor.model.unavailable import known, optional
from gpudoctor.text import count

# Drivers that keep a GPU for a virtual machine: it is not for this system to use.
_GIVEN_AWAY = frozenset({"vfio-pci", "xen-pciback", "pci-stub"})
_STATES = {
    DriverState.NO_LIBRARY: ("no-library", say("but the driver's library (libnvidia-ml.so.1) is missing")),
    DriverState.NOT_LOADED: ("not-loaded", say("and the nvidia kernel module is not loaded")),
    DriverState.MISMATCH: ("mismatch", ""),
    DriverState.NO_PERMISSION: ("no-permission", say("and this user may not open them")),
    DriverState.FAILED: ("failed", say("and NVML does not start")),
    DriverState.HUNG: ("hung", say("and the driver does not answer")),
    DriverState.CRASHED: ("crashed", say("and the driver's library crashes")),
    DriverState.READY: ("no-gpu", say("and the driver sees none of them")),
}
"""The cause as the detail has it, and the words of a message."""


class DriverUnreachable(Check):
    """The machine has an NVIDIA GPU, but its driver does not work.

    What it finds:
        - A GPU on the PCI bus (or a device node) that the driver cannot reach. Its library or kernel module is
          missing, or the two differ in version. Or access is refused, or the driver hangs or crashes.
        - A driver that starts but sees none of the GPUs.
    Why it hurts:
        `torch.cuda.is_available()` is False or CUDA fails at the first call: the job dies, or trains on the
        CPU.
    How it knows:
        gpudoctor starts NVML in a separate process with a time limit, and compares its answer with /sys/bus/pci,
        /dev/nvidia* and /proc/driver/nvidia/version.
    False alarms:
        A container started without GPUs on a machine that has some is a note. It is more if something shows
        that it should have them. GPUs that belong to a virtual machine, or whose device nodes belong to another
        job, are not reported.
    Remedies:
        By cause: install or load the driver, reboot after an update, or start the container with GPUs.
    References:
        - https://github.com/NVIDIA/nvidia-container-toolkit/issues/48 (a container that lost its GPUs)
        - https://github.com/NVIDIA/nvidia-container-toolkit/issues/251
    """

    code = "ENV001"
    reads = frozenset({Reads.ENVIRONMENT, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "log_messages.toml"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        survey = patient.gpu_survey
        here = [device for device in survey.pci_devices if device.driver not in _GIVEN_AWAY]
        host = optional(lambda: patient.host)
        container = host.container if host is not None else None
        cause, words = _STATES[survey.driver]
        if survey.driver is DriverState.READY:
            # blind: it starts and sees nothing, although GPUs are there and nobody keeps them from us
            if survey.gpus or survey.lost or not here or not survey.device_nodes or survey.denied_nodes:
                return
        elif not (here or survey.device_nodes or cause in {"mismatch", "hung", "crashed"}):
            return
        asked = _asked_for_gpus(patient)
        bare = bool(container) and not survey.device_nodes and cause in {"no-library", "not-loaded", "failed"}
        meant = bare and not asked
        yield self.finding(
            _message(survey, words, len(here), container if bare else None),
            evidence=tuple(_evidence(survey)),
            severity=Severity.NOTE if meant else Severity.ERROR,
            breaks=None if meant else say("CUDA does not start"),
            detail=Facts(
                cause="container" if bare else cause,
                container=container or "",
                gpus=max(1, len(here)),
                module=known(survey.kernel_module_version) or "",
                library=known(survey.driver_version) or "",
            ),
        )


def _asked_for_gpus(patient: Patient) -> bool:
    """Whether the scheduler, the container's settings or the shell speak of GPUs for this job."""
    job, environment = optional(lambda: patient.job), optional(lambda: patient.environment)
    if job is not None and job.gpus_granted:
        return True
    if environment is None:
        return False
    names = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    values = [(environment.get(name) or "").strip().lower() for name in names]
    return any(value not in {"", "void", "none", "-1"} for value in values)


def _message(survey: GpuSurvey, words: str, found: int, container: str | None) -> str:
    gpus = say("{gpus} on the PCI bus", gpus=count(found, "NVIDIA GPU")) if found else say("A GPU's device node exists")
    if container is not None:
        return say("{gpus}, but this container ({container}) was started without them.", gpus=gpus, container=container)
    if survey.driver is DriverState.MISMATCH:
        return say(
            "The driver's kernel module ({module}) and its library ({library}) have different versions.",
            module=known(survey.kernel_module_version) or "?",
            library=known(survey.driver_version) or "?",
        )
    error = say(": {driver_error}", driver_error=survey.driver_error) if survey.driver_error else ""
    return say("{gpus}, {word}{error}.", gpus=gpus, word=words, error=error)


def _evidence(survey: GpuSurvey) -> Iterator[Evidence]:
    yield Measurement("driver_state", survey.driver.value, "", reproduce="nvidia-smi")
    for device in survey.pci_devices[:2]:
        shown = f"{device.address} [{device.device_id}] {device.driver or 'no driver'}"
        yield Measurement("pci_device", shown, "", reproduce=f"lspci -nnk -s {device.address}")
