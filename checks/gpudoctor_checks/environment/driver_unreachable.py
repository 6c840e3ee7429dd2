"""ENV001 driver-unreachable."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.job_log.cuda_words import call_failed
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import (
    Bearing,
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Evidence,
    Finding,
    LogMessage,
    Measurement,
    Patient,
    Reads,
    Severity,
    Unavailable,
)
from gpudoctor.model.signs.gpu import DriverState, GpuSurvey
from gpudoctor.text import count

# Drivers that keep a GPU for a virtual machine: it is not for this system to use.
_GIVEN_AWAY = frozenset({"vfio-pci", "xen-pciback", "pci-stub"})
_CAUSES = {
    DriverState.NO_LIBRARY: "no-library",
    DriverState.NOT_LOADED: "not-loaded",
    DriverState.MISMATCH: "mismatch",
    DriverState.NO_PERMISSION: "no-permission",
    DriverState.FAILED: "failed",
    DriverState.HUNG: "hung",
    DriverState.CRASHED: "crashed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverUnreachableDetail(Detail):
    """What the rule reads."""

    cause: str
    """`container`, `no-library`, `not-loaded`, `mismatch`, `no-permission`, `failed` or `no-gpu`."""
    container: str
    """Its kind."""
    gpus: int
    """To ask for: the cards on the bus, at least one."""
    module: str
    """The loaded module's version."""
    library: str
    """The driver library's version."""


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
        gpudoctor starts NVML in a separate process with a time limit, and compares its answer with
        /sys/bus/pci, /dev/nvidia* and /proc/driver/nvidia/version. From a job's log: the messages that name it,
        in the exception or line that came first.
    False alarms:
        A container started without GPUs on a machine that has some is a note. It is more if something shows
        that it should have them. GPUs that belong to a virtual machine, or whose device nodes belong to another
        job, are not reported.
    Remedies:
        By cause: install or load the driver, reboot after an update, or start the container with GPUs.
    References:
        - https://github.com/NVIDIA/nvidia-container-toolkit/issues/48 (a container that lost its GPUs)
        - https://github.com/NVIDIA/nvidia-container-toolkit/issues/251
        - https://docs.nvidia.com/deploy/nvml-api/group__nvmlInitializationAndCleanup.html
    """

    code = Code("ENV001")
    name = "driver-unreachable"
    reads = frozenset({Reads.ENVIRONMENT, Reads.LOG})
    severity = Severity.ERROR
    log_messages = (
        LogMessage(
            kind="nvml-mismatch",
            cue=("driver/library version mismatch", "api mismatch"),
            pattern="Driver/library version mismatch|API mismatch: the client has the version",
            text="The NVIDIA driver's library and the kernel module have different versions: the driver "
            "was updated without a reboot.",
            everywhere=True,
            source="NVIDIA driver",
        ),
        LogMessage(
            kind="driver-init",
            cue=(
                "rminitadapter failed",
                "is not supported by the",
                "probe of ",
                "nvidia: version magic",
                "fatal error during gpu init",
                "could not load nvml library",
                "failed to start nvml with error",
                "nvrm: no nvidia gpu found",
                "rm_init_adapter failed",
                "nvidia devices were",
                "nvidia probe routine failed",
                "assigned to your nvidia device is invalid",
                "necessary power cables",
                "psp resume failed",
                "resume of ip block",
                "failed to initialize all nvswitch",
            ),
            pattern=r"RmInitAdapter failed|NVRM: installed in this system is not supported by the|"
            r"\bnvidia: probe of (?P<bus>[0-9a-f:.]{4,20}) failed with error|nvidia: version magic '|"
            r"amdgpu: Fatal error during GPU init|NVRM: No NVIDIA GPU found|could not load NVML library|"
            r"[Ff]ailed to start nvml with error|rm_init_adapter failed|"
            r"None of the NVIDIA devices were initialized|"
            r"The NVIDIA probe routine failed|assigned to your NVIDIA device is invalid|necessary power cables|"
            r"amdgpu: probe of (?P<card>[0-9a-f:.]{4,20}) failed with error|\*ERROR\* PSP resume failed|"
            r"resume of IP block <\w{1,40}> failed|failed to initialize all NVSwitch devices",
            text="The driver of the GPUs, or its library, could not start here[ (GPU {bus})][ (GPU {card})].",
            everywhere=True,
            closing=True,
            source="NVIDIA open-gpu-kernel-modules; k8s-device-plugin; Linux drivers/gpu/drm/amd/amdgpu",
        ),
        LogMessage(
            kind="fabric-manager",
            cue=("error 802", "system not yet initialized", "cudaerrorsystemnotready"),
            pattern="[Ee]rror 802|system not yet initialized|cudaErrorSystemNotReady",
            text="CUDA reports error 802 (system not yet initialized): the fabric manager of this "
            "NVSwitch machine does not run.",
            everywhere=True,
            source="https://github.com/pytorch/pytorch/issues/35710",
        ),
        LogMessage(
            kind="container-lost",
            cue=(
                "gpu access blocked by the operating system",
                "failed to initialize nvml: unknown error",
                "libcuda.so",
            ),
            pattern="Failed to initialize NVML: GPU access blocked by the operating system|"
            r"Failed to initialize NVML: Unknown Error|(?<!dlerror: )libcuda\.so(?:\.\d+)?: cannot "
            "open shared object file",
            text="The container lost, or never had, access to the driver ({said}).",
            everywhere=True,
            source="https://github.com/NVIDIA/nvidia-container-toolkit/issues/48",
        ),
        LogMessage(
            kind="container-runtime",
            cue=("nvidia-container-cli: ", "nvidia-container-cli.real: ", "could not select device driver"),
            pattern=r"nvidia-container-cli(?:\.real)?: (?P<step>initialization|detection|mount|ldcache|"
            r"container) error: (?P<why>[^\\\n\"]{1,200}?)(?:: unknown)?\s*(?:\\|\"|$)|"
            r"could not select device driver \\?\"\w{0,20}\\?\" with capabilities: \[\[gpu",
            text="The container did not start, because the NVIDIA container runtime could not give it the "
            "GPUs[: {step} error, {why}].",
            everywhere=True,
            unstarted=True,
            outside=True,
            closing=True,
            source="libnvidia-container; moby daemon/devices.go",
        ),
        LogMessage(
            kind="container-runtime",
            cue=(
                "cdi devices",
                "cdi device injection failed",
                "could not select device driver",
                "runtime name: nvidia",
                "runtime specified nvidia",
                "no runtime for ",
                "runtimehandler ",
            ),
            pattern=r"unresolvable CDI devices (?P<devices>\S{1,200})|CDI device injection failed|"
            r"failed to inject CDI devices|could not select device driver \\?\"cdi\\?\"|"
            r"(?:unknown or invalid runtime name:|Unknown runtime specified) nvidia|"
            r"no runtime for \\{0,3}\"nvidia[\w-]{0,20}\\{0,3}\" is configured|"
            r"RuntimeHandler \\{0,3}\"nvidia[\w-]{0,20}\\{0,3}\" not supported",
            text="The container did not start. Its runtime does not know the GPUs[: {devices}]: it lacks the "
            "NVIDIA container toolkit.",
            everywhere=True,
            closing=True,
            unstarted=True,
            outside=True,
            source="NVIDIA/nvidia-container-toolkit internal/modifier/cdi.go; containerd; moby daemon/runtime_unix.go",
        ),
        LogMessage(
            kind="no-device",
            cue=(
                "no hip gpus are available",
                "gpus, no gpus found",
                "unable to initialize backend '",
                "0 active drivers",
                "no cuda gpus are available",
                "no cuda-capable device",
                "no nvidia driver on your system",
                "cuda driver initialization failed",
                "nvidia-smi has failed",
                "no supported gpu",
                "no gpu found",
                "no accelerator",
                "failed to infer device type",
                "find any torch accelerator",
            ),
            pattern="Failed to infer device type|cannot find any torch accelerator|"
            "No HIP GPUs are available|only supported with GPUs, no GPUs found|"
            "Unable to initialize backend '(?:cuda|rocm|tpu)': (?:FAILED_PRECONDITION: No visible GPU|"
            "UNAVAILABLE: No TPU|"
            r"ABORTED: The TPU is already in use)|0 active drivers \(\[\]\)|"
            "No CUDA GPUs are available|no CUDA-capable device is detected|Found no NVIDIA driver on "
            r"your system|CUDA driver initialization failed|NVIDIA-SMI has failed because it "
            "couldn't communicate|No supported gpu backend found|No GPU found",
            text="The process found no usable GPU: {said}.",
        ),
        LogMessage(
            kind="no-device",
            cue=("unable to open /dev/kfd",),
            pattern=r"Unable to open /dev/kfd (?:read-write|readonly)?: (?P<why>[A-Z][\w ]{3,60})",
            text="The process could not open the AMD GPU (/dev/kfd): {why}.",
            everywhere=True,
            source="ROCm libhsakmt src/openclose.c; rocminfo",
        ),
        LogMessage(
            kind="unknown-cuda",
            cue="cuda unknown error",
            pattern="CUDA unknown error - this may be due to an incorrectly set ?up environment",
            text="CUDA could not start (unknown error): the driver, its device files or "
            "CUDA_VISIBLE_DEVICES are not in order.",
        ),
        LogMessage(
            kind="smi-failed",
            cue="nvidia-smi has failed",
            pattern="NVIDIA-SMI has failed",
            text="nvidia-smi could not reach the driver.",
            bearing=Bearing.HINT,
            everywhere=True,
            explains=".",
        ),
        LogMessage(
            kind="warned",
            cue=("cuda initialization:",),
            pattern="CUDA initialization: (?!.*too old)(?P<said_by_cuda>[^\n]{5,200}?)"
            r"(?:, e\.g\.|\.\s|\.?$|\n)",
            text="CUDA could not start in this process: {said_by_cuda}.",
            bearing=Bearing.HINT,
            everywhere=True,
            explains="No CUDA|CUDA|cuda|deserialize object on a CUDA|MPS|accelerator",
        ),
        LogMessage(
            kind="no-device",
            cue=("no cuda-capable device is detected",),
            pattern=call_failed(r"no CUDA-capable device is detected"),
            text="The process found no usable GPU: {said}.",
            confidence=Confidence.PROBABLE,
            everywhere=True,
            closing=True,
            source="CUDA driver_types.h, HIP; how C++ programs print it",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        survey = patient.gpu_survey
        here = [device for device in survey.pci_devices if device.driver not in _GIVEN_AWAY]
        container = _container(patient)
        cause = _CAUSES.get(survey.driver, "no-gpu")
        if survey.driver is DriverState.READY:
            if not _blind(survey, len(here)):
                return
        elif not (here or survey.device_nodes or cause in {"mismatch", "hung", "crashed"}):
            return
        asked = _asked_for_gpus(patient)
        bare = bool(container) and not survey.device_nodes and cause in {"no-library", "not-loaded", "failed"}
        meant = bare and not asked
        yield self.finding(
            _message(survey, len(here), container if bare else None),
            evidence=_evidence(survey),
            confidence=Confidence.CONFIRMED,
            severity=Severity.NOTE if meant else Severity.ERROR,
            cost=None if meant else Cost(breaks=say("CUDA does not start")),
            detail=DriverUnreachableDetail(
                cause="container" if bare else cause,
                container=container or "",
                gpus=max(1, len(here)),
                module=survey.kernel_module_version if isinstance(survey.kernel_module_version, str) else "",
                library=survey.driver_version if isinstance(survey.driver_version, str) else "",
            ),
        )


def _blind(survey: GpuSurvey, on_bus: int) -> bool:
    """A driver that starts and sees nothing, although GPUs are there and nobody keeps them from us."""
    return not survey.gpus and not survey.lost and on_bus > 0 and bool(survey.device_nodes) and not survey.denied_nodes


def _container(patient: Patient) -> str | None:
    try:
        return patient.host.container
    except Unavailable:
        return None


def _asked_for_gpus(patient: Patient) -> bool:
    """Whether the scheduler, the container's settings or the shell speak of GPUs for this job."""
    try:
        if patient.job.gpus_granted:
            return True
    except Unavailable:
        pass
    try:
        environment = patient.environment
    except Unavailable:
        return False
    names = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    values = [(environment.get(name) or "").strip().lower() for name in names]
    return any(value not in {"", "void", "none", "-1"} for value in values)


def _message(survey: GpuSurvey, found: int, container: str | None) -> str:
    gpus = say("{gpus} on the PCI bus", gpus=count(found, "NVIDIA GPU")) if found else say("A GPU's device node exists")
    words = {
        DriverState.NO_LIBRARY: say("but the driver's library (libnvidia-ml.so.1) is missing"),
        DriverState.NOT_LOADED: say("and the nvidia kernel module is not loaded"),
        DriverState.NO_PERMISSION: say("and this user may not open them"),
        DriverState.FAILED: say("and NVML does not start"),
        DriverState.HUNG: say("and the driver does not answer"),
        DriverState.CRASHED: say("and the driver's library crashes"),
        DriverState.READY: say("and the driver sees none of them"),
    }
    if container:
        return say("{gpus}, but this container ({container}) was started without them.", gpus=gpus, container=container)
    if survey.driver is DriverState.MISMATCH:
        return say(
            "The driver's kernel module and its library have different versions{versions}.", versions=_versions(survey)
        )
    bound = sorted({device.driver or say("no driver") for device in survey.pci_devices} - {"nvidia"} - _GIVEN_AWAY)
    held = (
        say(" (bound to {bound})", bound=concatenated(", ", bound))
        if bound and survey.driver is not DriverState.READY
        else ""
    )
    error = say(": {driver_error}", driver_error=survey.driver_error) if survey.driver_error else ""
    return say("{gpus}{holders}, {word}{error}.", gpus=gpus, holders=held, word=words[survey.driver], error=error)


def _versions(survey: GpuSurvey) -> str:
    module, library = survey.kernel_module_version, survey.driver_version
    known = [say("module {module}", module=module)] if isinstance(module, str) else []
    known += [say("library {library}", library=library)] if isinstance(library, str) else []
    return say(" ({known})", known=concatenated(", ", known)) if known else ""


def _evidence(survey: GpuSurvey) -> tuple[Evidence, ...]:
    items: list[Evidence] = [
        Measurement(
            name="driver_state",
            value=f"{survey.driver.value}{': ' + survey.driver_error if survey.driver_error else ''}",
            unit="",
            reproduce="nvidia-smi",
        )
    ]
    items += [
        Measurement(
            name="pci_device",
            value=f"{device.address} [{device.device_id}] {device.driver or 'no driver'}",
            unit="",
            reproduce=f"lspci -nnk -s {device.address}",
        )
        for device in survey.pci_devices[:2]
    ]
    if isinstance(survey.kernel_module_version, str):
        items.append(
            Measurement(
                name="kernel_module_version",
                value=survey.kernel_module_version,
                unit="",
                reproduce="cat /proc/driver/nvidia/version",
            )
        )
    return tuple(items)
