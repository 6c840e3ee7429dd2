"""The checks of a package, known without importing them: a module is imported when its check has something to read.

What a command needs of a check before that (its page, its limits, the log messages that it knows) is kept beside the
package, in a file that is made from the classes when it is missing or when a file that they came from has changed.
"""

import functools
import importlib
import os
import pickle
import pkgutil
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from gpudoctor.lang import say
from gpudoctor.lang.message import Message
from gpudoctor.model.check import Check
from gpudoctor.model.finding import Finding
from gpudoctor.model.log_message import LogMessage
from gpudoctor.model.message_cues import KNOWN, cues_of_pattern
from gpudoctor.model.unavailable import ReaderCrashed, Unavailable, optional

if TYPE_CHECKING:
    from gpudoctor.model.patient import Patient, PatientKind

_Asked: TypeAlias = tuple[tuple[str, ...], str]
"""The signs that a check asks for in turn, and its reason to be skipped if all are missing."""
_SURVEY = "gpu_survey"
_MORE = ("recording", "process", "job_log", "configs")
_SUFFIXES = (".py", ".json", ".toml")
_MACROS = os.path.join("gpudoctor", "analysis", "job_log", "shared_macros.toml")
INDEX = "checks.pickle"
"""The file beside a package that holds the attributes of its checks."""


class IndexedCheck(Check):
    """A check by its attributes; its module is imported to examine a patient that has what it asks for first."""

    asks: ClassVar[Mapping[str, tuple["_Asked | None", "_Asked | None"]]]
    """What it asks for first, by the kind of a patient without a survey of the GPUs, and with one that has none."""
    told: ClassVar[bytes]
    """The messages of logs, pickled: few commands ask for them."""

    def examine(self, patient: "Patient") -> Iterator[Finding]:
        """What the check sees; raises `Unavailable` with its reason, and imports nothing, where it cannot look."""
        if (reason := self._missing(patient)) is not None:
            raise Unavailable(reason)
        if mentioned(self, patient):
            yield from self._loaded.examine(patient)

    @classmethod
    @functools.cache
    def all_log_messages(cls) -> tuple[LogMessage, ...]:
        """As the check itself says; what a search needs of their patterns is known then, too."""
        messages, cues = pickle.loads(cls.told)
        KNOWN.update(cues)
        return tuple(messages)

    def log_kind(self, kind: str, values: Mapping[str, str]) -> str:
        """As the check itself says."""
        return self._loaded.log_kind(kind, values)

    def beside_log(self, finding: Finding, patient: "Patient") -> Finding | None:
        """As the check itself says."""
        return self._loaded.beside_log(finding, patient)

    @functools.cached_property
    def _loaded(self) -> Check:
        kind: type[Check] = getattr(importlib.import_module(type(self).__module__), type(self).__name__)
        return kind(self._limits)

    def _missing(self, patient: "Patient") -> str | None:
        """Why the check cannot look, if a patient has nothing of what it asks for."""
        for asked, surveyed in zip(self.asks[patient.kind.value], (False, True), strict=True):
            reasons: dict[str, str] = {}
            for name in asked[0] if asked else ():
                try:
                    sign = getattr(patient.signs, name).take()
                except Unavailable as reason:
                    reasons[_mark(name)] = str(reason)
                    continue
                if name != _SURVEY or sign.gpus:
                    return None
                if not surveyed:
                    break  # what the check asks a patient for that has no GPU
                reasons[_mark(name)] = sign.absence
            else:
                return _with_reasons(asked[1], reasons) if asked else None
        return None


def mentioned(check: Check, patient: "Patient") -> bool:
    """Whether a patient may have what a check finds: its scripts or variables hold a word of it, or there is more."""
    signs = patient.signs
    try:
        if not check.mentions or any(optional(getattr(signs, name).take) for name in _MORE):
            return True
        job, texts = optional(signs.job.take), [script.text for script in patient.source.scripts]
        texts += getattr(optional(signs.environment.take), "variables", ())
    except (Unavailable, ReaderCrashed):
        return True  # the check itself says so
    return bool(job and job.launches) or any(word in text for text in texts for word in check.mentions)


def indexed(package: str, classes: Callable[[], tuple[type[Check], ...]]) -> tuple[type[Check], ...]:
    """The checks of a package, whose classes are asked for only if what the package keeps of them is out of date."""
    path = os.path.join(_home(package), package, INDEX)
    try:
        with open(path, "rb") as file:
            kept = pickle.load(file)
        fresh = kept["state"] == _state(package, kept["sources"])
    except Exception:  # noqa: BLE001  # missing, cut, or of another version: made again
        fresh = False
    if not fresh:
        rows = [_row(check) for check in classes()]
        sources = _sources("gpudoctor", package)
        kept = {"sources": sources, "state": _state(package, sources), "rows": rows}
        with suppress(OSError):  # a folder that may not be written costs time, no more
            part = f"{path}.{os.getpid()}"
            with open(part, "wb") as file:
                pickle.dump(kept, file, protocol=4)
            os.replace(part, path)
    return tuple(type(name, (IndexedCheck,), row) for name, row in kept["rows"])


def classes_of(package: str) -> tuple[type[Check], ...]:
    """Every check that a module of the package defines, in the order of the modules, which are imported.

    Names with an underscore, and classes without a code, are left out.
    """
    modules = [entry.name for entry in pkgutil.walk_packages(importlib.import_module(package).__path__, package + ".")]
    items = ((module, item) for module in modules for item in vars(importlib.import_module(module)).values())
    found = [item for module, item in items if isinstance(item, type) and item.__module__ == module]
    # `issubclass` asks each subclass of an abstract class
    checks = (item for item in found if Check in item.__mro__ and hasattr(item, "code"))
    return tuple(item for item in checks if not item.__name__.startswith("_"))


def _row(check: type[Check]) -> tuple[str, dict[str, Any]]:
    """A check's name and what its class says, each from the class itself."""
    from gpudoctor.model.patient import PatientKind

    held = {name: getattr(check, name) for name in Check.__annotations__ if hasattr(check, name)}
    messages = check.all_log_messages()
    cues = {item.pattern: cues_of_pattern(item.pattern) for item in (*messages, *check.library_warnings)}
    held["told"] = pickle.dumps((messages, cues), protocol=4)
    asks = {kind.value: (_asked(check, kind), _asked(check, kind, SimpleNamespace(gpus=(), absence=_mark(_SURVEY))))
            for kind in PatientKind}  # fmt: skip
    return check.__name__, {**held, "asks": asks, "__doc__": check.__doc__, "__module__": check.__module__}


def _asked(check: type[Check], kind: "PatientKind", survey: object = None) -> _Asked | None:
    """What a check asks a patient for that has nothing, and its answer; None where it looks all the same.

    A check reads its patient alone: whoever lacks these signs gets this answer. A `survey` knows no GPU, and a check
    that asks for more than that is no such one.
    """
    from gpudoctor.model.patient import Patient, Sign, Signs

    asked: list[str] = []

    def nothing(name: str) -> Sign[Any]:
        def read() -> Any:
            asked.append(name)
            if name == _SURVEY and survey is not None:
                return survey
            raise Unavailable(_mark(name))

        return Sign(name, read)

    patient = Patient(kind, "", Signs(**{sign.name: nothing(sign.name) for sign in fields(Signs)}))
    try:
        for _ in check().examine(patient):
            return None
    except Unavailable as reason:
        return tuple(asked), str(reason)
    except Exception:  # noqa: BLE001  # the examination itself will say so
        return None
    return None


def _mark(sign: str) -> str:
    """What stands for the reason that a sign is missing."""
    return f"<{sign}>"


def _with_reasons(text: str, reasons: Mapping[str, str]) -> str:
    """A text with the reasons of this patient in the place of their marks."""
    if not isinstance(text, Message):
        return reasons.get(text, text)
    parts = {name: _with_reasons(part, reasons) if isinstance(part, str) else part for name, part in text.parts.items()}
    return say(text.template, **parts)


def _home(name: str) -> str:
    """The folder that holds a package."""
    return os.path.dirname(next(iter(importlib.import_module(name).__path__)))


def _sources(*packages: str) -> list[str]:
    """Files of the modules of some packages that are imported now, from the folder that holds the package."""
    homes = {name: _home(name) for name in packages}
    files = ((name.partition(".")[0], getattr(item, "__file__", None)) for name, item in tuple(sys.modules.items()))
    return sorted({_MACROS, *(os.path.relpath(file, homes[top]) for top, file in files if top in homes and file)})


def _state(package: str, sources: list[str]) -> int:
    """A checksum of a package's own files, and of the others that its checks came from."""
    home = _home(package)
    names = {*sources}
    for folder, _, files in os.walk(os.path.join(home, package)):
        names |= {os.path.relpath(os.path.join(folder, file), home) for file in files if file.endswith(_SUFFIXES)}
    state = 0
    for name in sorted(names):
        with open(os.path.join(home if name.startswith(package + os.sep) else _home("gpudoctor"), name), "rb") as file:
            state = zlib.crc32(file.read(), zlib.crc32(name.encode(), state))
    return state
