"""Silencing: comments in the source, per-file ignores, ignored codes. What is silenced is still counted."""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import TypeAlias

from gpudoctor.engine.baseline import known_from
from gpudoctor.engine.selection import Selection
from gpudoctor.engine.settings import Settings
from gpudoctor.lang import say
from gpudoctor.model import Finding, Patient, ReaderCrashed, Setting, Silenced, SourceSpan, Unavailable

_Comments: TypeAlias = tuple[Mapping[int, tuple[str, ...]], Mapping[int, str]]
"""Codes and reasons of the `gpudoctor: ignore[...]` comments of one file, by line."""


def silence(
    findings: Iterable[Finding], patient: Patient, selection: Selection, settings: Settings, baseline: Counter[str]
) -> tuple[list[Finding], list[Silenced]]:
    """Split findings into those that stand and those that the user silenced; the baseline's counts go down."""
    comments = _comments(patient)
    kept: list[Finding] = []
    silenced: list[Silenced] = []
    for finding in findings:
        reason = _by_comment(finding, comments) or _by_file(finding, settings)
        if reason is None and finding.code in selection.ignored:
            reason = Silenced(finding=finding, where=say("ignored code"), reason=selection.ignored[finding.code])
        reason = reason or known_from(baseline, finding)
        if reason is None:
            kept.append(finding)
        else:
            silenced.append(reason)
    return kept, silenced


def _comments(patient: Patient) -> dict[str, _Comments]:
    """Comments by path, of scripts and configs; what could not be read has none."""
    found: dict[str, _Comments] = {}
    with suppress(Unavailable, ReaderCrashed):
        for script in patient.source.scripts:
            found[script.path] = script.ignored, script.ignore_reasons
    with suppress(Unavailable, ReaderCrashed):
        for file in patient.configs.files:
            found[file.path] = file.ignored, file.ignore_reasons
    return found


def _by_comment(finding: Finding, comments: Mapping[str, _Comments]) -> Silenced | None:
    """A `# gpudoctor: ignore[...]` on any line of the finding's first place in a script or a config."""
    settings = (item for item in finding.evidence if isinstance(item, Setting) and item.path and item.line)
    place = finding.span or next(settings, None)
    if place is None or place.line is None:
        return None
    codes, reasons = comments.get(place.path or "", ({}, {}))
    for line in range(place.line, (getattr(place, "end_line", None) or place.line) + 1):
        if {"*", finding.code, finding.name} & {*codes.get(line, ())}:
            where = say("comment in {path}:{line}", path=place.path, line=line)
            return Silenced(finding=finding, where=where, reason=reasons.get(line) or None)
    return None


def _by_file(finding: Finding, settings: Settings) -> Silenced | None:
    for path in (item.path for item in finding.evidence if isinstance(item, SourceSpan | Setting) and item.path):
        for pattern, codes in settings.per_file_ignores:
            if finding.code in codes and _matches(path, pattern, settings):
                return Silenced(finding=finding, where=f"per-file-ignores {pattern!r}", reason=None)
    return None


def _matches(path: str, pattern: str, settings: Settings) -> bool:
    """A glob against the path as given, its base name, and the path below the settings file's folder."""
    candidates = {path, PurePath(path).name}
    if settings.path is not None:
        with suppress(ValueError, OSError, RuntimeError):  # it is elsewhere
            candidates.add(Path(path).resolve().relative_to(settings.path.parent.resolve()).as_posix())
    return any(fnmatch(candidate, pattern) for candidate in candidates)
