"""The version of a package that a script or config is written for: the installed one, or the project's own."""

import json
import os
import re
from functools import cache

from gpudoctor.lang import say
from gpudoctor.model.cuda import numbers
from gpudoctor.model.patient import Patient
from gpudoctor.model.records import frozen
from gpudoctor.model.remedy import Edit, ImportEdit, KeywordEdit, Remedy
from gpudoctor.model.signs.project import Asked
from gpudoctor.model.signs.source import Script
from gpudoctor.model.unavailable import ReaderCrashed, Unavailable, optional


@frozen
class Meant:
    """Which version of a package counts for one file."""

    version: str | None
    """A version to compare with; None when neither the environment nor the project names one."""
    asked: Asked | None = None
    """The project's line that excludes the installed version; None when the installed version counts."""

    @property
    def installed(self) -> bool:
        """Whether it is the version that is installed here."""
        return self.version is not None and self.asked is None

    @property
    def origin(self) -> str:
        """Why this version counts: `2.13.0 is installed`, `requirements.txt:3 asks for torch==1.7.1`."""
        asked = self.asked
        if asked is not None:
            place = {"path": asked.path, "line": asked.line, "name": asked.name}
            if asked.prose:
                return say("{path}:{line} names {name} {wanted}", **place, wanted=asked.wanted.strip("=.*"))
            return say("{path}:{line} asks for {name}{wanted}", **place, wanted=asked.wanted)
        return say("{version} is installed", version=self.version)


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
    """The release that a README names in a sentence, where another is installed.

    It counts where no file for a tool bounds the package. It shows what the project means, and bars nothing: a
    finding that does not hold for that release is a note.
    """
    have = installed_version(patient, name)
    if have is None or has_run(patient) or any(item.wanted for item in _asked(patient, name, path)):
        return None
    told = optional(lambda: patient.project_versions.told(path, name)) or ()
    named = next((item for item in told if not item.admits(have)), None)
    return Meant(version=named.newest, asked=named) if named is not None else None


def predates(patient: Patient, script: Script, release: str) -> bool:
    """Whether a script is written for a torch older than a release, which lacks what that brought.

    The project's files or README name one, an import needs one, or it reads a loss by `loss.data[0]` (to 0.4).
    """
    if has_run(patient):
        return False
    meant = meant_version(patient, "torch", script.path)
    told = meant if meant.asked is not None else told_version(patient, "torch", script.path)
    if told is not None and told.version is not None and numbers(told.version) < numbers(release):
        return True
    return bool(_OLD_LOSS.search(script.text))


def is_dated(patient: Patient, path: str) -> bool:
    """Whether the project lives with another torch than the installed one."""
    meant = meant_version(patient, "torch", path)
    return meant.asked is not None or told_version(patient, "torch", path) is not None


def older_admitted(patient: Patient, name: str, path: str, version: str) -> Asked | None:
    """The project's line that lets a file run with a package older than a version; None where none says so.

    A line without a bound says nothing about age. A job that ran, or runs, has settled its version.
    """
    if has_run(patient):
        return None
    return next((item for item in _asked(patient, name, path) if item.older(version)), None)


def asks_for(patient: Patient, name: str, path: str) -> bool:
    """Whether a file of the project installs a package."""
    return not has_run(patient) and bool(_asked(patient, name, path))


def installed_version(patient: Patient, name: str) -> str | None:
    """The installed version of a package; None when it is not installed or no environment was examined."""
    built = optional(lambda: patient.torch.version) if name == "torch" else None
    # A build that cannot be read may still have metadata.
    return built if built is not None else optional(lambda: patient.packages.version(name))


def _asked(patient: Patient, name: str, path: str) -> tuple[Asked, ...]:
    return tuple(optional(lambda: patient.project_versions.of(path, name)) or ())


def has_run(patient: Patient) -> bool:
    """Whether the job ran or runs: what was installed and what was called is then settled."""
    for sign in (patient.signs.recording, patient.signs.process):
        try:
            sign.take()
        except (Unavailable, ReaderCrashed):
            continue
        return True
    return False


_OLD_LOSS = re.compile(r"\b\w*loss\w*\.data\[0\]", re.IGNORECASE)


@cache
def _releases() -> dict[str, dict[str, str]]:
    with open(os.path.join(os.path.dirname(__file__), "api_releases.json"), encoding="utf-8") as stream:
        return dict(json.load(stream))


_WORD = re.compile(r"(?<![\w.])torch(?:\.\w+)+")


def too_old(patient: Patient, remedy: Remedy) -> tuple[Asked, str] | None:
    """The project's line that admits a torch without what the edits write, and the release that they need."""
    for edit in remedy.edits:
        for need in sorted(_needs(edit), key=numbers, reverse=True):
            asked = older_admitted(patient, "torch", edit.path, need)
            if asked is not None:
                return asked, need
    return None


def _needs(edit: Edit) -> set[str]:
    """The releases of torch that first have what an edit writes; an import's are those of what uses it."""
    if isinstance(edit, ImportEdit):
        return set()
    keywords = dict(edit.set) if isinstance(edit, KeywordEdit) else {}
    new = " ".join(keywords.values()) if isinstance(edit, KeywordEdit) else getattr(edit, "new_text", "")
    words = set(_WORD.findall(new)) - set(_WORD.findall(getattr(edit, "expected", "")))
    first, taken = _releases()["first"], _releases()["keywords"]
    found = {release for name, release in first.items() for word in words if f"{word}.".startswith(f"{name}.")}
    return found | {taken[name] for name in keywords if name in taken}
