"""Does an edit cure? Apply it to a copy of what was examined, examine the copy, and compare.

    for failure in failures(check, patient, finding, remedy): ...

An edit cures when the copy parses, its own finding is gone, the check has no other finding in its place, every
name that the copy reads is still bound, no choice of the program is written over, and no other check warns of
what it did not warn of before. A recording stays what it was, so its findings are compared without it.
"""

import ast
import builtins
import os
import symtable
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from jobs import MEMORY, with_memory

from gpudoctor.analysis.source.declared_settings import is_literal
from gpudoctor.analysis.source.syntax import walk
from gpudoctor.analysis.workload import optional
from gpudoctor.engine.registry import load_registry
from gpudoctor.mend.plan import make_plan
from gpudoctor.model import (
    Applicability,
    Check,
    Finding,
    KeywordEdit,
    Patient,
    Ranked,
    Reads,
    Remedy,
    Severity,
    Sign,
    Signs,
    Unavailable,
)
from gpudoctor.model.signs.configs import Configs
from gpudoctor.model.signs.source import Source
from gpudoctor.vitals.configs.reading import parse
from gpudoctor.vitals.source import read_source


def failures(
    check: type[Check], patient: Patient, finding: Finding, remedy: Remedy, limits: Mapping[str, float] | None = None
) -> list[str]:
    """Why the edits of a remedy do not cure its finding; empty when they do."""
    texts = files_of(patient)
    try:
        changed = after(texts, finding, remedy)
    except ValueError as reason:
        return [str(reason)]
    problems = [problem for path in changed for problem in _unbound(path, texts[path], changed[path])]
    problems += _overwritten(patient, remedy)
    patient = _unrun(patient)
    mended = again(patient, changed)
    before, now = _said(check, patient, limits), _said(check, mended, limits, finding.severity)
    if now[_words(finding)] >= max(1, before[_words(finding)]):
        problems.append(f"still found: {finding.message}")
    if remedy.id not in _FIRST_STEPS:
        problems += [f"found in its place: {words}" for words in now - before]
    for other in _others(check):
        news = _warned(other, mended)
        if not news:  # most checks have nothing to say, before neither
            continue
        was = _warned(other, patient)
        if sum(news.values()) > sum(was.values()):
            problems += [f"new: {other.code} {words}" for words in news - was]
    return problems


def after(texts: Mapping[str, str], finding: Finding, remedy: Remedy) -> dict[str, str]:
    """The new texts of the files that the remedy edits; raises `ValueError` when an edit does not fit."""
    with TemporaryDirectory() as folder:
        copies = {}
        for index, (path, text) in enumerate(texts.items()):
            copy = Path(folder, str(index), os.path.basename(path))
            copy.parent.mkdir()
            copy.write_bytes(text.encode("utf-8", "surrogatepass"))
            copies[path] = str(copy)
        unknown = {edit.path for edit in remedy.edits} - set(copies)
        if unknown:
            raise ValueError(f"edits a file that was not examined: {', '.join(sorted(unknown))}")
        moved = replace(
            remedy,
            edits=tuple(replace(edit, path=copies[edit.path]) for edit in remedy.edits),
            applicability=Applicability.SAFE,
        )
        ranked = Ranked(rank=1, finding=finding, remedies=(moved,), set_aside=(), reason="")
        plan = make_plan([ranked], unsafe=True)
        if plan.left:
            raise ValueError("; ".join(left.reason for left in plan.left))
        if not plan.files:
            raise ValueError("the edit changes nothing")
        names = {copy: path for path, copy in copies.items()}
        return {names[file.name]: file.new for file in plan.files}


def again(patient: Patient, changed: Mapping[str, str]) -> Patient:
    """The patient with other texts in some of its files, read again."""
    signs = patient.signs
    source = optional(lambda: patient.source)
    if source is not None:
        signs = replace(signs, source=Sign.of("the source", _source(source, changed)))
    configs = optional(lambda: patient.configs)
    if configs is not None:
        files = tuple(parse(file.path, changed[file.path]) if file.path in changed else file for file in configs.files)
        signs = replace(signs, configs=Sign.of("the configs", Configs(files=files)))
    mended = Patient(patient.kind, patient.title, signs, patient.targets)
    return with_memory(mended, *MEMORY[patient]) if patient in MEMORY else mended


def _source(source: Source, changed: Mapping[str, str]) -> Source:
    """The program read once more; a script that was only ever a text comes back for the time of the reading."""
    made: list[Path] = []
    try:
        for script in source.scripts:
            path = Path(script.path)
            if not path.exists():
                made += [folder for folder in (*reversed(path.parents),) if not folder.exists()]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(script.text.encode("utf-8", "surrogatepass"))
                made.append(path)
        entries = [Path(script.path) for script in source.scripts if script.entry]
        texts = {os.path.realpath(path): text for path, text in changed.items()}
        return read_source(entries, source.memory.get("launched with"), texts=texts)
    finally:
        for path in reversed(made):
            path.rmdir() if path.is_dir() else path.unlink()


def files_of(patient: Patient) -> dict[str, str]:
    source, configs = optional(lambda: patient.source), optional(lambda: patient.configs)
    found = {script.path: script.text for script in (source.scripts if source is not None else ())}
    return found | {file.path: file.text for file in (configs.files if configs is not None else ())}


_FIRST_STEPS = frozenset({"MEM007-accumulation"})
"""Remedies that keep the results and go only as far as that allows; a second one of the same finding may not."""


def _said(
    check: type[Check], patient: Patient, limits: Mapping[str, float] | None, least: Severity = Severity.NOTE
) -> Counter[str]:
    """What the check says; a smaller ailment than `least` may come to light when a worse one is cured."""
    try:
        found = list(check(limits or {}).examine(patient))
        return Counter(_words(item) for item in found if item.severity.rank >= least.rank)
    except Unavailable:
        return Counter()


def _warned(check: type[Check], patient: Patient) -> Counter[str]:
    """A note may come to light when a worse ailment is cured; a new warning is the edit's fault."""
    try:
        return Counter(_words(item) for item in check({}).examine(patient) if item.severity is not Severity.NOTE)
    except Unavailable:
        return Counter()


def _unrun(patient: Patient) -> Patient:
    """The patient before it ran: an edit changes no recording."""
    bare = Signs()
    signs = replace(patient.signs, recording=bare.recording, process=bare.process)
    before = Patient(patient.kind, patient.title, signs, patient.targets)
    return with_memory(before, *MEMORY[patient]) if patient in MEMORY else before


def _overwritten(patient: Patient, remedy: Remedy) -> Iterator[str]:
    """Arguments whose value is a name, an option or a call, and that an edit replaces by a number of its own."""
    source = optional(lambda: patient.source)
    places = {
        (script.path, call.span.line, call.span.column): call
        for script in (source.scripts if source else ())
        for call in script.calls
    }
    for edit in remedy.edits:
        call = places.get((edit.path, edit.line, edit.column)) if isinstance(edit, KeywordEdit) else None
        given = {item.arg: item.value for item in call.node.keywords} if call is not None else {}
        for name, value in edit.set if isinstance(edit, KeywordEdit) else ():
            old = given.get(name)
            if old is not None and not is_literal(old) and ast.unparse(old) not in value:
                yield f"the edit writes {name}={value} over {ast.unparse(old)}, which the program chose"


def _words(finding: Finding) -> str:
    """A finding without its numbers: a line inserted above moves the others, and an edit may change a text."""
    return " ".join("#" if any(map(str.isdigit, word)) else word for word in finding.message.split())


@cache
def _every_check() -> tuple[type[Check], ...]:
    return tuple(load_registry().checks.values())


def _others(check: type[Check]) -> Iterator[type[Check]]:
    """Checks that an edit of scripts or configs can make say something else."""
    edited = {Reads.SOURCE, Reads.CONFIG}
    yield from (other for other in _every_check() if other.code != check.code and other.reads & edited)


def _unbound(path: str, old: str, new: str) -> Iterator[str]:
    """Names that the new text reads and nothing binds, and that were bound before."""
    if path.endswith((".py", ".pyw")):
        for name in sorted(_free(new) - _free(old)):
            yield f"the edit reads {name}, which nothing binds"
        lost = _defined(old) - _defined(new)
        if lost:
            yield f"the edit removes {', '.join(sorted(lost))}"


@lru_cache(maxsize=256)
def _free(text: str) -> set[str]:
    table = symtable.symtable(text, "<copy>", "exec")
    top = {item.get_name() for item in table.get_symbols() if item.is_assigned() or item.is_imported()}
    tables, read = [table], set()
    while tables:
        scope = tables.pop()
        tables += scope.get_children()
        here = (item for item in scope.get_symbols() if item.is_referenced())
        read |= {item.get_name() for item in here if item.is_global() or scope is table}
    return read - top - set(dir(builtins))


@lru_cache(maxsize=256)
def _defined(text: str) -> set[str]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {node.name for node in walk(ast.parse(text)) if isinstance(node, kinds)}
