"""The version of a package that a script or config is written for: the installed one, or the project's own."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpudoctor.analysis.source.removed_imports import Outgrown, outgrown
from gpudoctor.model.patient import Patient
from gpudoctor.model.signs.project import Asked
from gpudoctor.model.unavailable import ReaderCrashed, Unavailable, optional


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """Which version of a package counts for one file."""

    version: str | None
    """A version to compare with; None when neither the environment nor the project names one."""
    asked: Asked | None = None
    """The project's line that excludes the installed version; None when the installed version counts."""
    outgrown: Outgrown | None = None
    """The import that the installed version does not have, where that tells the version."""

    @property
    def installed(self) -> bool:
        """Whether it is the version that is installed here."""
        return self.version is not None and self.asked is None and self.outgrown is None

    @property
    def origin(self) -> str:
        """Why this version counts: `2.13.0 is installed`, `requirements.txt:3 asks for torch==1.7.1`."""
        if self.asked is not None and self.asked.prose:
            return (
                f"{self.asked.path}:{self.asked.line} names {self.asked.name} {self.asked.wanted.strip('=.*')}"
            )
        if self.asked is not None and self.asked.own:
            return f"{self.asked.path}:{self.asked.line} is the project's own {self.asked.name} {self.version}"
        if self.asked is not None:
            return f"{self.asked.path}:{self.asked.line} asks for {self.asked.name}{self.asked.wanted}"
        if self.outgrown is not None:
            span = self.outgrown.span
            return f"{span.path}:{span.line} imports {self.outgrown.name}, last in {self.outgrown.last}"
        return f"{self.version} is installed"


def meant_version(patient: Patient, name: str, path: str) -> Meant:
    """The version of a package that a file is written for.

    A project that excludes the installed version will be run with another one: then its newest admitted release
    counts. A job that ran, or runs, has settled it: the installed version counts.
    """
    have = installed_version(patient, name)
    asked = () if has_run(patient) else _asked(patient, name, path)
    if have is not None:
        barred = next((item for item in asked if not item.admits(have)), None)
        return Meant(version=barred.newest if barred is not None else have, asked=barred)
    bounds = [(item.newest, item) for item in asked if item.newest is not None]
    return Meant(version=bounds[0][0], asked=bounds[0][1]) if bounds else Meant(version=None)


def told_version(patient: Patient, name: str, path: str) -> Meant | None:
    """The release that a README names in a sentence, or that an import is last in, where another is installed.

    It counts where no file for a tool bounds the package. It shows what the project means, and bars nothing: a
    finding that does not hold for that release is a note.
    """
    have = installed_version(patient, name)
    if have is None or has_run(patient) or any(item.wanted for item in _asked(patient, name, path)):
        return None
    told = optional(lambda: patient.project_versions.told(path, name)) or ()
    named = next((item for item in told if not item.admits(have)), None)
    if named is not None:
        return Meant(version=named.newest, asked=named)
    found = optional(lambda: outgrown(patient.source, name, path))
    return Meant(version=found.last, outgrown=found) if found is not None else None


def a_line_admits(patient: Patient, name: str, path: str, version: str) -> bool:
    """Whether any line of the project that bounds a package, a README's too, admits a release."""
    told = optional(lambda: patient.project_versions.told(path, name))
    return told is not None and any(
        item.wanted and item.admits(version) for item in (*_asked(patient, name, path), *told)
    )


def older_admitted(patient: Patient, name: str, path: str, version: str) -> Asked | None:
    """The project's line that lets a file run with a package older than a version; None where none says so.

    A line without a bound says nothing about age. A job that ran, or runs, has settled its version.
    """
    if has_run(patient):
        return None
    return next((item for item in _asked(patient, name, path) if item.older(version)), None)


def installed_version(patient: Patient, name: str) -> str | None:
    """The installed version of a package; None when it is not installed or no environment was examined."""
    built = optional(lambda: patient.torch.version) if name == "torch" else None
    # A build that cannot be read may still have metadata.
    return built if built is not None else optional(lambda: patient.packages.version(name))


def argument_fields(patient: Patient, path: str, package: str) -> Mapping[str, frozenset[str]]:
    """The fields of a package's argument classes; empty where another version than the installed one counts."""
    found = optional(lambda: patient.argument_fields)
    if found is None or meant_version(patient, package, path).asked is not None:
        return {}
    return found.fields


def _asked(patient: Patient, name: str, path: str) -> tuple[Asked, ...]:
    return optional(lambda: patient.project_versions.of(path, name)) or ()


def has_run(patient: Patient) -> bool:
    """Whether the job ran or runs: what was installed and what was called is then settled."""
    for sign in (patient.signs.recording, patient.signs.process):
        try:
            sign.take()
        except (Unavailable, ReaderCrashed):
            continue
        return True
    return False
