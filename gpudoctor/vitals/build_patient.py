"""From what the user named to a patient whose signs are read when first asked for, with a time limit each."""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from gpudoctor.lang import say
from gpudoctor.model import LogMessage, Patient, PatientKind, Sign, Signs, Unavailable
from gpudoctor.model.records import field, frozen, replace
from gpudoctor.model.signs.job import Environment, Job, Profile
from gpudoctor.text import duration
from gpudoctor.vitals.file_kinds import LEFT, FileKind
from gpudoctor.vitals.output_files import OutputFiles

if TYPE_CHECKING:
    from gpudoctor.model.signs.configs import Configs
    from gpudoctor.model.signs.gpu import GpuSurvey
    from gpudoctor.model.signs.host import Host
    from gpudoctor.model.signs.job_log import JobLog
    from gpudoctor.model.signs.kernel_log import KernelLog
    from gpudoctor.model.signs.memory import JobMemory
    from gpudoctor.model.signs.packages import Packages, ReaderAnswer, TorchBuild
    from gpudoctor.model.signs.project import ProjectVersions
    from gpudoctor.model.signs.recording import Recording
    from gpudoctor.model.signs.source import Source
    from gpudoctor.vitals.targets import Targets

# A time limit for a reader that only waits (for a disk, a mount, a child).

T = TypeVar("T")


def within(seconds: float, reader: Callable[[], T], what: str) -> T:
    """The reader's result; `Unavailable` when it takes longer.

    The reader runs in a daemon thread: a read of a hung mount cannot be interrupted, only left behind.
    """
    result: list[T] = []
    error: list[BaseException] = []

    def work() -> None:
        try:
            result.append(reader())
        except BaseException as problem:  # noqa: BLE001  # handed to the caller below
            error.append(problem)

    thread = Thread(target=work, name=say("reader of {what}", what=what), daemon=True)
    thread.start()
    thread.join(seconds)
    if error:
        raise error[0]
    if not result:
        raise Unavailable(
            "{what} could not be read within {seconds}; a mount or a device may hang",
            what=what,
            seconds=duration(seconds),
        )
    return result[0]


DRIVER_LIMIT = 30.0
"""Seconds of silence after which the driver counts as hung.

Waking an idle card takes 2 to 4 s without persistence mode, and the first call wakes all of them: 8 cards need
more than 20 s.
"""
FILES_LIMIT = 20.0
"""Seconds for readers of files, which only a hung network mount can use up."""


@frozen
class PatientRequest:
    """How a patient is to be examined."""

    targets: "Targets"
    arguments: tuple[str, ...] = ()
    profile: Profile | None = None
    """None finds it from the environment."""
    python: str | None = None
    """Interpreter or environment folder whose packages count."""
    pid: int | None = None
    ranks: int | None = None
    """Ranks a node, when the user says so."""
    gpus: int | None = None
    """GPUs that the job expects on this node, when the user says so."""
    gpu: str | None = None
    """The card that the job is meant for, by name or bytes, when the user says so."""
    driver_limit: float = DRIVER_LIMIT
    command: tuple[str, ...] = ()
    """The command that was run, word by word."""
    recording: tuple[str, ...] = ()
    log_messages: Iterable[tuple[str, LogMessage]] = ()
    """What logs say of every ailment, with the codes; asked for once a log is read."""
    output: OutputFiles = field(default_factory=OutputFiles)
    """Where the command's output went; read if the command failed and no rank reported."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Texts that stand for Python files, by real path: what a trial ran in their place."""


def admit(admission: PatientRequest) -> Patient:
    """A patient made of this machine and the targets; nothing is read yet but the job scripts' own lines."""
    targets = admission.targets
    readers = _Readers(admission)
    named = targets.items
    kind = PatientKind.SCRIPT if named else PatientKind.MACHINE
    signs = Signs(
        environment=Sign("the environment", readers.environment),
        host=_limited("the host", readers.host),
        gpu_survey=Sign("the GPUs", readers.gpu_survey),
        kernel_log=_limited("the kernel log", readers.kernel_log),
        packages=_limited("the packages", readers.packages.take),
        torch=_limited("torch", readers.torch),
        reader_answers=Sign("the libraries' answers", lambda: _answers(patient, admission)),
        project_versions=_limited("the project's versions", readers.project_versions),
        job=readers.job,
        source=readers.source,
        configs=readers.configs,
        memory=Sign("the memory", lambda: _memory(patient, admission)),
        recording=readers.recording,
        job_log=Sign("the log", readers.job_log),
    )
    if targets.of(*LEFT):
        from gpudoctor.vitals.build_log_patient import signs_of, sort_left_behind

        left = sort_left_behind([item.name for item in named if item.kind in (FileKind.LOG, *LEFT)])
        signs = replace(signs, **signs_of(left, admission.log_messages))
    patient = Patient(
        PatientKind.COMMAND if admission.command else kind,
        command_title(admission.command) if admission.command else _title(targets),
        signs,
        targets=tuple(item.name for item in named),
    )
    return patient


def _memory(patient: Patient, admission: PatientRequest) -> "tuple[JobMemory, ...]":
    """The forecasts; the estimator is not even loaded where no card is known."""
    if not admission.targets.items and not admission.command:
        raise Unavailable("no config or script describes what is trained")
    if not admission.gpu and not _has_card(patient):
        raise Unavailable("no GPU here to compare the estimate with (name the job's: --gpu H100)")
    from gpudoctor.vitals.memory.reader import read_memory

    return read_memory(patient, admission.gpu, admission.gpus)


def _answers(patient: Patient, admission: PatientRequest) -> "tuple[ReaderAnswer, ...]":
    if admission.command:
        return ()  # it gave them to the libraries itself
    from gpudoctor.vitals.configs.ask_libraries import read_answers

    return read_answers(patient)


def _has_card(patient: Patient) -> bool:
    """Whether this machine or the scheduler's words name a GPU."""
    with suppress(Unavailable):
        if patient.gpu_survey.gpus:
            return True
    with suppress(Unavailable):
        return bool(patient.job.gpus_origin)
    return False


def _limited(name: str, reader: Callable[[], T]) -> Sign[T]:
    return Sign(name, lambda: within(FILES_LIMIT, reader, name))


def command_title(command: Sequence[str]) -> str:
    """A short name for a command: the script that it starts, or its own."""
    from gpudoctor.vitals.job.launch import find_launch

    found = find_launch(command)
    script = (found.script or found.module or found.shell_script) if found else None
    return Path(script or (command[0] if command else "command")).name


def _title(targets: "Targets") -> str:
    names = [item.path.name or item.name for item in targets.items]
    if not names:
        return say("this machine")
    return names[0] if len(names) == 1 else say("{names} and {more} more", names=names[0], more=len(names) - 1)


def command_scripts(command: Sequence[str]) -> list[Path]:
    """The scripts that a command starts here."""
    from gpudoctor.vitals.targets import Targets

    return _Readers(PatientRequest(targets=Targets(items=()), command=tuple(command))).scripts()[0]


class _Readers:
    """The readers of one patient; each imports what it needs when it is called."""

    def __init__(self, admission: PatientRequest) -> None:
        self._admission = admission
        self._targets = admission.targets
        self._base = _limited("the environment", self._own_environment)
        self.job = Sign("the job", self._read_job)
        self.packages = Sign("the packages", self._read_packages)
        self.recording = Sign("the recording", self._read_recording)
        self.source = Sign("the source", self._read_source)
        self.configs = Sign("the configs", self._read_configs)

    def environment(self) -> Environment:
        base = self._base.take()
        scripts = self._targets.of(FileKind.JOB)
        if not scripts:
            return base
        from gpudoctor.vitals.job.scripts import job_environment

        for script in scripts:
            base = job_environment(script, base)
        return base

    def host(self) -> "Host":
        from gpudoctor.vitals.host import read_host
        from gpudoctor.vitals.named_files import output_folders

        return read_host(output_folders(self.configs, self.source))

    def gpu_survey(self) -> "GpuSurvey":
        from gpudoctor.vitals.nvml import survey_gpus

        own: Iterable[int] = ()
        if self._admission.pid is not None:
            from gpudoctor.vitals.process.procfs import tree

            # What the examined process and its children hold on a GPU is not a stranger's.
            own = tree(self._admission.pid)
        return survey_gpus(limit=self._admission.driver_limit, own_pids=frozenset(own))

    def kernel_log(self) -> "KernelLog":
        from gpudoctor.vitals.kernel_log import read_kernel_log

        return read_kernel_log()

    def _read_recording(self) -> "Recording":
        if not self._admission.recording:
            raise Unavailable("nothing was run")
        from gpudoctor.vitals.recording.reader import read_recording

        return read_recording(*self._admission.recording)

    def job_log(self) -> "JobLog":
        logs = self._targets.of(FileKind.LOG)
        if not logs and self._admission.command:
            return self._read_output()
        if not logs:
            raise Unavailable("no log was named")
        from gpudoctor.vitals.job_log import read_job_log

        return read_job_log([str(path) for path in logs], self._admission.log_messages)

    def _read_output(self) -> "JobLog":
        """What a command printed that died before a rank reported: a log only if it names a failure."""
        recording = self.recording.take()
        output = self._admission.output
        written = output.written()
        seen = output.keeps_errors or written.keys() - output.starts.keys()
        from gpudoctor.vitals.last_output import read_last_output

        return read_last_output(
            recording,
            self._admission.log_messages,
            written,
            early=not seen,  # a terminal keeps nothing
        )

    def torch(self) -> "TorchBuild":
        from gpudoctor.vitals.torch_build import read_torch

        return read_torch(self.packages.take())

    def project_versions(self) -> "ProjectVersions":
        from gpudoctor.vitals.project import read_project_versions

        paths: list[str] = []
        with suppress(Unavailable):
            paths += [script.path for script in self.source.take().scripts]
        with suppress(Unavailable):
            paths += [file.path for file in self.configs.take().files]
        if not paths:
            raise Unavailable("no script and no config was given")
        return read_project_versions(paths)

    def _read_source(self) -> "Source":
        paths, arguments = self.scripts()
        if not paths:
            raise Unavailable("no script was given")
        if not self._admission.recording:
            from gpudoctor.vitals.source import read_source

            return read_source(paths, arguments)
        from gpudoctor.vitals.ran_source import read_ran

        return read_ran(paths, arguments, self.recording.take(), self._admission.sources)

    def _read_configs(self) -> "Configs":
        paths = self._targets.of(FileKind.CONFIG)
        folders = self._targets.of(FileKind.FOLDER)
        named = self._named_configs()
        if not paths and not folders and not named:
            raise Unavailable("no config was given")
        from gpudoctor.vitals.configs.reading import find_configs, read_configs
        from gpudoctor.vitals.named_files import config_configs

        paths += [path for folder in folders for path in find_configs(folder)]
        given = {path.resolve() for path in paths}
        paths += [path for path in named if path.resolve() not in given]
        if not paths:
            raise Unavailable("no config in the folders that were given")
        launches = self.job.take().launches if self._launched() else ()
        words = self._admission.arguments or (launches[0].arguments if len(launches) == 1 else ())
        configs = read_configs(paths, words)
        given = {path.resolve() for path in paths}
        further = [path for path in config_configs(configs) if path.resolve() not in given]
        return read_configs([*paths, *further], words) if further else configs

    def _named_configs(self) -> list[Path]:
        """Configs that the launch lines, the script's command line or the script itself name."""
        if not self._targets.items and not self._admission.command:
            return []
        from gpudoctor.vitals.named_files import launch_configs, source_configs, word_configs

        scripts = self._targets.of(FileKind.SCRIPT)
        launches = self.job.take().launches if self._launched() else ()
        found = [*launch_configs(launches)]
        found += word_configs(self._admission.arguments, [Path(), *(script.parent for script in scripts)])
        with suppress(Unavailable):  # no script, so none that names a config
            found += source_configs(self.source.take())
        return list({path.resolve(): path for path in reversed(found)}.values())[::-1]

    def _launched(self) -> bool:
        """Whether a job script or the command itself says what is launched."""
        return bool(self._targets.of(FileKind.JOB) or self._admission.command)

    def _own_environment(self) -> Environment:
        from gpudoctor.vitals.environment import read_environment

        return read_environment(self._admission.pid)

    def _read_packages(self) -> "Packages":
        from gpudoctor.vitals.packages import read_packages

        return read_packages(self._admission.python or _interpreter(self._admission.command))

    def _read_job(self) -> Job:
        from gpudoctor.vitals.job import read_job

        return read_job(
            self._admission.profile,
            self._base.take().variables,
            self._targets.of(FileKind.JOB),
            self._admission.command,
            ranks=self._admission.ranks,
            gpus=self._admission.gpus,
            card=self._admission.gpu,
        )

    def scripts(self) -> tuple[list[Path], Mapping[str, Sequence[str]]]:
        """Scripts and folders to read, those that job scripts launch included, with their command lines."""
        paths = self._targets.of(FileKind.SCRIPT, FileKind.FOLDER)
        arguments: dict[str, Sequence[str]] = {}
        if self._admission.arguments:
            arguments |= {str(path): self._admission.arguments for path in paths if os.path.isfile(path)}
        if self._launched():
            for launch in self.job.take().launches:
                script = _launched(launch.script, launch.module, launch.path)
                if script is not None:
                    if script not in paths:
                        paths.append(script)
                    arguments.setdefault(str(script), launch.arguments)
        return paths, arguments


def _launched(script: str | None, module: str | None, job_script: str | None) -> Path | None:
    """The file that a launch line starts: beside the working folder, then beside the job script."""
    if script is None and module is None:
        return None
    relative = Path(script) if script else Path(*(module or "").split(".")).with_suffix(".py")
    folders = [Path()] + ([Path(job_script).parent] if job_script else [])
    candidates = [folder / relative for folder in folders]
    if module:
        candidates += [folder / relative.with_suffix("") / "__main__.py" for folder in folders]
    return next((path for path in candidates if os.path.isfile(path)), None)


def _interpreter(command: Sequence[str]) -> str | None:
    """The Python that a command runs, where it names one: itself, or the one beside `torchrun` and the like."""
    program = shutil.which(command[0]) if command else None
    if program is None:
        return None
    if re.fullmatch(r"python[\d.]*(\.exe)?", Path(program).name):
        return program
    beside = Path(program).with_name("python")
    return str(beside) if os.path.isfile(beside) and os.path.isfile(beside.parent.parent / "pyvenv.cfg") else None
