"""The version of a package that a script or config is written for: the installed one, or the project's own.

An import of a package's inside that later releases do not have tells it too: the program needs an older one.
"""

import ast
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing
from gpudoctor.analysis.source.entry_points import training_programs
from gpudoctor.analysis.source.syntax import called_name, is_method_call, nodes
from gpudoctor.lang import say
from gpudoctor.model.cuda import numbers
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.patient import Patient
from gpudoctor.model.remedy import Edit, ImportEdit, KeywordEdit, Remedy
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
        asked, import_ = self.asked, self.outgrown
        if asked is not None:
            place = {"path": asked.path, "line": asked.line, "name": asked.name}
            if asked.prose:
                return say("{path}:{line} names {name} {wanted}", **place, wanted=asked.wanted.strip("=.*"))
            if asked.own:
                return say("{path}:{line} is the project's own {name} {version}", **place, version=self.version)
            return say("{path}:{line} asks for {name}{wanted}", **place, wanted=asked.wanted)
        if import_ is not None:
            place = {"path": import_.span.path, "line": import_.span.line, "name": import_.name}
            return say("{path}:{line} imports {name}, last in {last}", **place, last=import_.last)
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


@cache
def _releases() -> dict[str, dict[str, str]]:
    with open(os.path.join(os.path.dirname(__file__), "api_releases.json"), encoding="utf-8") as stream:
        return dict(json.load(stream))


def outgrown(source: Source, package: str, path: str) -> Outgrown | None:
    """The import that ties the program of a file to the oldest release of a package; None without any.

    Imports in a function, a try or an if are left out: the program knows that they may fail.
    """
    last = {name: release for name, release in _releases()["last"].items() if name.startswith(f"{package}.")}
    found = []
    for script in _program_of(source, path):
        named = any(name.rpartition(".")[2] in script.text for name in last)
        for node in nodes(script, ast.Import, ast.ImportFrom) if named else ():
            names = [item.name for item in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module, *(f"{node.module}.{item.name}" for item in node.names)]
            if not any(isinstance(above, (*FUNCTIONS, ast.Try, ast.If)) for above in enclosing(script, node)):
                found += [Outgrown(name, last[name], script.span(node)) for name in names if name in last]
    return min(found, key=lambda item: numbers(item.last), default=None)


def _program_of(source: Source, path: str) -> list[Script]:
    """A script, and those of the trainings that it belongs to."""
    scripts = {script.path: script for script in source.scripts if script.path == path}
    for program in training_programs(source):
        if path in {script.path for script in program.scripts}:
            scripts |= {script.path: script for script in program.scripts}
    return list(scripts.values())


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


# What a program demands of its packages' versions when it starts: `assert torch.__version__[0] == "1"`.

_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRROR = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_PARSERS = frozenset({"parse", "Version", "LooseVersion", "StrictVersion", "parse_version", "str", "V"})
_VERSION = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class _Read:
    """A package's version as an expression reads it."""

    package: str
    places: int | None
    """How many leading numbers of it are read; None for all."""


@once
def demanded_versions(source: Source, path: str) -> tuple[Asked, ...]:
    """What the program of a file demands of its packages' versions, by an assert or an `if` that raises.

    Only what runs whenever the program starts counts: nothing in a function, a class, a loop or a try.
    """
    return tuple(asked for script in _program_of(source, path) for asked in _demands(script))


@once
def _demands(script: Script) -> tuple[Asked, ...]:
    if "__version__" not in script.text:
        return ()
    found = []
    for node in nodes(script, ast.Assert, ast.If):
        if isinstance(node, ast.If) and not _ends(node.body):
            continue
        if any(
            isinstance(above, (*FUNCTIONS, ast.ClassDef, ast.Try, ast.For, ast.If)) for above in enclosing(script, node)
        ):
            continue
        for package, wanted in _wanted(script, node.test, holds=isinstance(node, ast.Assert)):
            folder = os.path.dirname(script.path)
            found.append(Asked(name=package, wanted=wanted, path=script.path, line=node.lineno, folder=folder))
    return tuple(found)


def _ends(body: list[ast.stmt]) -> bool:
    """Whether the last statement ends the program."""
    last = body[-1]
    if isinstance(last, ast.Raise):
        return True
    return isinstance(last, ast.Expr) and called_name(last.value) in {"exit", "quit", "_exit"}


def _wanted(script: Script, test: ast.expr, *, holds: bool) -> Iterator[tuple[str, str]]:
    """Package and specifier of what a test says if it holds, or if it does not."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _wanted(script, test.operand, holds=not holds)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is holds:
        for value in test.values:
            yield from _wanted(script, value, holds=holds)
    elif is_method_call(test, "startswith") and len(test.args) == 1 and holds:
        read, beginning = _read(script, test.func.value), _text(test.args[0])
        if read is not None and read.places is None and beginning:
            yield from _specifier(_Read(read.package, len(_parts(beginning))), "==", beginning)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        sign = _SIGNS.get(type(test.ops[0]), "")
        left, right = test.left, test.comparators[0]
        read, other = _read(script, left), _text(right)
        if read is None:
            read, other, sign = _read(script, right), _text(left), _MIRROR.get(sign, sign)
        if read is not None and other and sign:
            yield from _specifier(read, sign if holds else _OPPOSITE[sign], other)


def _specifier(read: _Read, sign: str, other: str) -> Iterator[tuple[str, str]]:
    parts = _parts(other)
    if not parts:
        return
    if read.places is None or sign in {"<", ">="}:
        yield read.package, f"{sign}{'.'.join(map(str, parts))}"
    elif len(parts) == read.places and sign in {"==", "!="}:
        yield read.package, f"{sign}{'.'.join(map(str, parts))}.*"
    elif len(parts) == read.places:  # a major version of at most 1 is below 2
        above = ".".join(map(str, (*parts[:-1], parts[-1] + 1)))
        yield read.package, f"{'<' if sign == '<=' else '>='}{above}"


def _parts(text: str) -> tuple[int, ...]:
    found = _VERSION.match(text)
    return tuple(map(int, found.group().split("."))) if found else ()


def _read(script: Script, node: ast.expr) -> _Read | None:
    """What an expression reads of a package's version; None for anything else."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="__version__"):
            package = script.imports.get(name, "")
            return _Read(package, None) if package.isidentifier() else None
        case ast.Call(args=[inner]) if called_name(node) in _PARSERS:
            read = _read(script, inner)
            return read if read is not None and read.places is None else None
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return _read(script, inner)
        case ast.Subscript(value=value, slice=ast.Constant(value=0)):
            whole = value.func.value if is_method_call(value, "split") else value
            read = _read(script, whole)
            return _Read(read.package, 1) if read is not None and read.places is None else None
        case ast.Subscript(value=value, slice=ast.Slice(lower=None, upper=ast.Constant(value=int() as end), step=None)):
            read = _read(script, value)
            # Three letters are "1.7" and, of 1.10, "1.1": they tell the first number for sure.
            return _Read(read.package, (end + 1) // 2) if read is not None and read.places is None else None
        case _:
            return None


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str() | int() | float() as value) if not isinstance(value, bool):
            return str(value)
        case ast.Call(args=[inner]) if called_name(node) in _PARSERS | {"int"}:
            return _text(inner)
        case _:
            return ""
