"""The patient: one training job, whose signs are taken when first asked for, once."""

from collections.abc import Callable
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gpudoctor.lang import say
from gpudoctor.model.records import field, frozen
from gpudoctor.model.signs.configs import Configs
from gpudoctor.model.signs.gpu import Gpu, GpuSurvey
from gpudoctor.model.signs.host import Host
from gpudoctor.model.signs.job import Environment, Job
from gpudoctor.model.signs.packages import Packages, ReaderAnswer, TorchBuild
from gpudoctor.model.signs.project import ProjectVersions
from gpudoctor.model.signs.source import Source
from gpudoctor.model.unavailable import ReaderCrashed, Unavailable, Unread, optional

if TYPE_CHECKING:
    from gpudoctor.model.signs.flight_recorder import FlightRecords
    from gpudoctor.model.signs.job_log import JobLog
    from gpudoctor.model.signs.kernel_log import KernelLog
    from gpudoctor.model.signs.memory import JobMemory
    from gpudoctor.model.signs.preflight import Preflight
    from gpudoctor.model.signs.process import ProcessWindow
    from gpudoctor.model.signs.recording import Recording

T = TypeVar("T")


class PatientKind(Enum):
    """What was brought to the doctor."""

    MACHINE = "machine"
    CLUSTER = "cluster"
    """Several nodes, by what they measured together."""
    SCRIPT = "script"
    COMMAND = "command"
    PROCESS = "process"
    RECORDING = "recording"
    LOG = "log"


class Sign(Generic[T]):
    """One lazily taken sign: a value, or the reason why it cannot be taken, remembered either way."""

    def __init__(self, name: str, reader: Callable[[], T]) -> None:
        self.name = name
        self._reader = reader
        self._lock = Lock()
        self._value: T | None = None
        self._error: Exception | None = None
        self._taken = False

    @classmethod
    def of(cls, name: str, value: T) -> "Sign[T]":
        """A sign that is known already."""
        return cls(name, lambda: value)

    @classmethod
    def missing(cls, name: str, reason: str) -> "Sign[T]":
        """A sign that cannot be taken on this patient."""

        def refuse() -> T:
            raise Unavailable(reason)

        return cls(name, refuse)

    @property
    def being_taken(self) -> bool:
        """Whether a reader is at work on it now; for progress lines only."""
        return self._lock.locked()

    @property
    def unread(self) -> str:
        """Why what the user named could not be read; "" where it could, or where nobody asked."""
        return str(self._error) if isinstance(self._error, Unread) else ""

    def take(self) -> T:
        """The value; raises `Unavailable` or `ReaderCrashed`, the same one each time."""
        with self._lock:
            if not self._taken:
                self._read()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # None only when T admits it

    def _read(self) -> None:
        self._taken = True
        try:
            self._value = self._reader()
        except Unavailable as error:
            self._error = error
        except Exception as error:  # noqa: BLE001  # a reader of ours failed: a result, the rest goes on
            kind = type(error).__name__
            text = say("the reader of {name} failed: {kind}: {error}", name=self.name, kind=kind, error=error)
            self._error = ReaderCrashed(text)
            self._error.__cause__ = error


def _no(name: str, reason: str) -> Any:
    return field(default_factory=lambda: Sign.missing(name, reason))


@frozen
class Signs:
    """Every sign a patient can have. A field left out is one that this patient does not have."""

    environment: Sign[Environment] = _no("the environment", "no environment was given")
    host: Sign[Host] = _no("the host", "the host was not examined")
    gpu_survey: Sign[GpuSurvey] = _no("the GPUs", "the GPUs were not examined")
    kernel_log: "Sign[KernelLog]" = _no("the kernel log", "the kernel log was not read")
    packages: Sign[Packages] = _no("the packages", "no Python environment was examined")
    torch: Sign[TorchBuild] = _no("torch", "no Python environment was examined")
    reader_answers: Sign[tuple[ReaderAnswer, ...]] = _no("the libraries' answers", "no library was asked")
    project_versions: Sign[ProjectVersions] = _no("the project's versions", "no script and no config was given")
    job: Sign[Job] = _no("the job", "no launch line or job script was given")
    source: Sign[Source] = _no("the source", "no script was given")
    configs: Sign[Configs] = _no("the configs", "no config file was given")
    recording: "Sign[Recording]" = _no("the recording", "nothing was run")
    flight_records: "Sign[FlightRecords]" = _no("the flight recorder", "no flight-recorder dump was named")
    job_log: "Sign[JobLog]" = _no("the log", "no log was named")
    process: "Sign[ProcessWindow]" = _no("the process", "no running process was named")
    memory: "Sign[tuple[JobMemory, ...]]" = _no("the memory", "no job was given")
    preflight: "Sign[Preflight]" = _no("the preflight", "nothing was measured (gpudoctor preflight does that)")


class _Taken(Generic[T]):
    """The sign of this name, taken when a patient is asked for it."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, patient: "Patient", _: type) -> T:
        taken: T = getattr(patient.signs, self._name).take()
        return taken


class Patient:
    """One training job: its machine, scripts, configs, process or recording.

    Each property takes its sign on first use and raises `Unavailable` when that cannot be done.
    """

    def __init__(self, kind: PatientKind, title: str, signs: Signs, targets: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.title = title
        """A short name for headings: the script's name, or "this machine"."""
        self.targets = targets
        """What the user named, in their words."""
        self.signs = signs

    environment = _Taken[Environment]()
    """Environment variables of the job (or of this shell, when the job has not started)."""
    host = _Taken[Host]()
    """CPUs, memory, limits, disks of the machine, as the job will see them."""
    gpu_survey = _Taken[GpuSurvey]()
    """What the driver, the PCI bus and the device nodes say; there even when no GPU is."""

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that answered, at least one; raises `Unavailable` with the reason when none did."""
        survey = self.gpu_survey
        if not survey.gpus:
            raise Unavailable(survey.absence)
        return survey.gpus

    kernel_log = _Taken["KernelLog"]()
    packages = _Taken[Packages]()
    """Distributions installed in the environment that the training will use."""
    torch = _Taken[TorchBuild]()
    """Facts about the installed torch; raises `Unavailable` when it is not installed."""
    reader_answers = _Taken[tuple[ReaderAnswer, ...]]()
    """What the libraries that will read the settings say of them; raises `Unavailable` when none could be asked."""
    project_versions = _Taken[ProjectVersions]()
    """Versions that the project's own files ask for; raises `Unavailable` when they name none."""
    job = _Taken[Job]()
    """The launch: ranks, nodes, script arguments, scheduler limits."""

    @property
    def source(self) -> Source:
        """The scripts, read and resolved, at least one; raises `Unavailable` when none could be read."""
        source = self.signs.source.take()
        if not source.scripts:
            raise Unavailable("no script could be read")
        return source

    configs = _Taken[Configs]()

    @property
    def source_and_configs(self) -> tuple[Source, Configs]:
        """The scripts and the config files, each empty if there are none; raises `Unavailable` without both."""
        try:
            source = self.source
        except Unavailable as no_source:
            try:
                return Source(scripts=()), self.configs
            except Unavailable as no_configs:
                both = say("{no_source}, and {no_configs}", no_source=no_source, no_configs=no_configs)
                raise type(no_source)(both) from None
        return source, optional(lambda: self.configs) or Configs(files=())

    memory = _Taken["tuple[JobMemory, ...]"]()
    """What the jobs will need on their GPU, at least one; raises `Unavailable` when none can be told."""
    recording = _Taken["Recording"]()
    """The run that was recorded; raises `Unavailable` when nothing was run."""

    @property
    def recorded_run(self) -> "Recording":
        """The recording, of a run; raises `Unavailable` where only a machine was read.

        For checks of what a run did: they have nothing to say of a kernel log.
        """
        recording = self.recording
        if not recording.holds_run:
            raise Unavailable("a log of {origin} holds no run", origin=recording.origin)
        return recording

    flight_records = _Taken["FlightRecords"]()
    """What the ranks asked of their process groups; raises `Unavailable` when no dump was named."""
    job_log = _Taken["JobLog"]()
    """What the job printed; raises `Unavailable` when no log was named."""
    process = _Taken["ProcessWindow"]()
    """The running job over a sliding window; raises `Unavailable` when none is watched."""
    preflight = _Taken["Preflight"]()
    """What nodes, cards and links reached under load; raises `Unavailable` when nothing was measured."""
