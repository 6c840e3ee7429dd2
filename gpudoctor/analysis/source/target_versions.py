"""The version of a package that a script or config is written for: the installed one, or the project's own.

An import of a package's inside that later releases do not have tells it too: the program needs an older one.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing
from gpudoctor.analysis.source.demanded_versions import demanded_versions
from gpudoctor.analysis.source.entry_points import training_programs
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.lang import say
from gpudoctor.model.cuda import numbers
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.patient import Patient
from gpudoctor.model.remedy import ImportEdit, KeywordEdit, Remedy
from gpudoctor.model.signs.project import Asked
from gpudoctor.model.signs.source import Script, Source
from gpudoctor.model.unavailable import ReaderCrashed, Unavailable, optional


@dataclass(frozen=True, slots=True)
class Outgrown:
    """One such import."""

    name: str
    last: str
    """The last release of the package that has the name."""
    span: SourceSpan


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
            return say(
                "{path}:{line} names {name} {wanted}",
                path=self.asked.path,
                line=self.asked.line,
                name=self.asked.name,
                wanted=self.asked.wanted.strip("=.*"),
            )
        if self.asked is not None and self.asked.own:
            return say(
                "{path}:{line} is the project's own {name} {version}",
                path=self.asked.path,
                line=self.asked.line,
                name=self.asked.name,
                version=self.version,
            )
        if self.asked is not None:
            return say(
                "{path}:{line} asks for {name}{wanted}",
                path=self.asked.path,
                line=self.asked.line,
                name=self.asked.name,
                wanted=self.asked.wanted,
            )
        if self.outgrown is not None:
            span = self.outgrown.span
            return say(
                "{path}:{line} imports {name}, last in {last}",
                path=span.path,
                line=span.line,
                name=self.outgrown.name,
                last=self.outgrown.last,
            )
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


def is_dated(patient: Patient, path: str, name: str = "torch") -> bool:
    """Whether the project lives with older releases than the installed ones: another torch, or one of what the
    installed package needs (`tokenizers==0.13.3` of a transformers that needs 0.23)."""
    meant = meant_version(patient, "torch", path)
    if meant.asked is not None or told_version(patient, "torch", path) is not None:
        return True
    if name == "torch" or has_run(patient):
        return False
    for need in _needs_of(patient, name):
        tops = (item.newest for item in _asked(patient, need.name, path))
        if any(top is not None and not need.admits(top) for top in tops):
            return True
    return False


def _needs_of(patient: Patient, name: str) -> tuple[Asked, ...]:
    """What the installed release of a package requires of others: always, or to train with torch."""
    packages = optional(lambda: patient.packages)
    found = packages.distributions.get(name) if packages is not None else None
    needs = [_REQUIRES.match(line) for line in (found.requires if found is not None else ())]
    return tuple(
        Asked(name=need[1].lower().replace("_", "-"), wanted=need[2], path=found.metadata, line=0, folder="")
        for need in needs
        if found is not None and need is not None and ("extra" not in need[3] or _WITH_TORCH.search(need[3]))
    )


_REQUIRES = re.compile(r"([A-Za-z0-9_.-]+)\s*\(?([<>=!~][^;)]*)\)?\s*;?(.*)")
"""A line of a package's metadata: name, specifiers, marker."""
_WITH_TORCH = re.compile(r"""extra == ["']torch["']""")


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


def asks_for(patient: Patient, name: str, path: str) -> bool:
    """Whether a file of the project installs a package."""
    return not has_run(patient) and bool(_asked(patient, name, path))


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
    demanded = optional(lambda: demanded_versions(patient.source, path)) or ()
    listed = optional(lambda: patient.project_versions.of(path, name)) or ()
    return (*(item for item in demanded if item.name == name), *listed)


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
_LAST = {
    # name: the last release that has it, by the tags of the package's repository
    "torch.utils.ffi": "0.4",
    "torch.utils.data.dataloader._use_shared_memory": "1.0",
    "torch.utils.data.dataloader.ExceptionWrapper": "1.0",
    "torch.utils.data.dataloader.numpy_type_map": "1.0",
    "torch.utils.data.dataloader.pin_memory_batch": "1.0",
    "torch.utils.data.dataloader._DataLoaderIter": "1.1",
    "torch._six": "1.13",
}


def outgrown(source: Source, package: str, path: str) -> Outgrown | None:
    """The import that ties the program of a file to the oldest release of a package; None without any.

    Imports in a function, a try or an if are left out: the program knows that they may fail.
    """
    scripts = {script.path: script for script in source.scripts if script.path == path}
    for program in training_programs(source):
        if path in {script.path for script in program.scripts}:
            scripts |= {script.path: script for script in program.scripts}
    found = [
        Outgrown(name, _LAST[name], script.span(node))
        for script in scripts.values()
        for node, names in _imported(script)
        for name in names
        if name in _LAST and name.startswith(f"{package}.")
    ]
    return min(found, key=lambda item: [int(part) for part in item.last.split(".")], default=None)


def _imported(script: Script) -> list[tuple[ast.AST, list[str]]]:
    """The imports that run whenever the script does, with the names of all that they take and take it from."""
    if not any(name.rpartition(".")[2] in script.text for name in _LAST):
        return []
    found: list[tuple[ast.AST, list[str]]] = []
    for node in nodes(script, ast.Import, ast.ImportFrom):
        if any(isinstance(above, (*FUNCTIONS, ast.Try, ast.If)) for above in enclosing(script, node)):
            continue
        if isinstance(node, ast.Import):
            found.append((node, [item.name for item in node.names]))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append((node, [node.module, *(f"{node.module}.{item.name}" for item in node.names)]))
    return found


_NAMES = {
    "torch.inference_mode": "1.9",
    "torch.autocast": "1.10",
    "torch.amp.autocast": "1.10",
    "torch.set_float32_matmul_precision": "1.12",
    "torch.distributed.all_gather_into_tensor": "1.13",
    "torch.distributed.reduce_scatter_tensor": "1.13",
    "torch.compile": "2.0",
    "torch.func": "2.0",
    "torch.nn.functional.scaled_dot_product_attention": "2.0",
    "torch.nn.attention": "2.3",
    "torch.amp.GradScaler": "2.3",
    "torch.use_deterministic_algorithms": "1.8",
    "torch.linalg": "1.8",
    "torch.outer": "1.7",
    "torch.testing.assert_close": "1.9",
}
"""The torch release that first has a name; those below it too. From the release notes and the documentation."""
_KEYWORDS = {
    "persistent_workers": "1.7",
    "prefetch_factor": "1.7",
    "set_to_none": "1.7",
    "use_reentrant": "1.11",
    "fused": "2.0",
}
"""The torch release whose calls first take a keyword."""
_WORD = re.compile(r"(?<![\w.])torch(?:\.\w+)+")


def too_old(patient: Patient, remedy: Remedy) -> tuple[Asked, str] | None:
    """The project's line that admits a torch without what the edits write, and the release that they need."""
    for edit in remedy.edits:
        for need in sorted(_needs(edit), key=numbers, reverse=True):
            asked = older_admitted(patient, "torch", edit.path, need)
            if asked is not None:
                return asked, need
    return None


def _needs(edit: object) -> set[str]:
    if isinstance(edit, KeywordEdit):
        values = " ".join(value for _, value in edit.set)
        return {_KEYWORDS[name] for name, _ in edit.set if name in _KEYWORDS} | _of_names(values, "")
    if isinstance(edit, ImportEdit):
        return set()  # it imports what another edit of the remedy writes
    return _of_names(getattr(edit, "new_text", ""), getattr(edit, "expected", ""))


def _of_names(new: str, old: str) -> set[str]:
    there = set(_WORD.findall(old))
    return {
        release
        for word in _WORD.findall(new)
        if word not in there
        for name, release in _NAMES.items()
        if word == name or word.startswith(name + ".")
    }
