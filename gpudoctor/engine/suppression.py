"""Silencing: comments in the source, per-file ignores, ignored codes. What is silenced is still counted."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePath

from gpudoctor.engine.selection import Selection
from gpudoctor.engine.settings import Settings
from gpudoctor.model import Finding, Patient, Setting, Silenced, SourceSpan
from gpudoctor.model.signs.source import Script


def silence(
    findings: Iterable[Finding], patient: Patient, selection: Selection, settings: Settings
) -> tuple[list[Finding], list[Silenced]]:
    """Split findings into those that stand and those that the user silenced."""
    scripts = _scripts(patient)
    kept: list[Finding] = []
    silenced: list[Silenced] = []
    for finding in findings:
        reason = _by_comment(finding, scripts) or _by_file(finding, settings) or _by_code(finding, selection)
        if reason is None:
            kept.append(finding)
        else:
            silenced.append(reason)
    return kept, silenced


def _scripts(patient: Patient) -> dict[str, Script]:
    try:
        return {script.path: script for script in patient.source.scripts}
    except Exception:  # noqa: BLE001  # whatever ails the source reader is the runner's to report
        return {}


def _by_comment(finding: Finding, scripts: dict[str, Script]) -> Silenced | None:
    """A `# gpudoctor: ignore[...]` on any line of the finding's first place in a script."""
    span = finding.span
    script = scripts.get(span.path) if span else None
    if span is None or script is None:
        return None
    for line in range(span.line, (span.end_line or span.line) + 1):
        codes = script.ignored.get(line, ())
        if "*" in codes or finding.code in codes or finding.name in codes:
            return Silenced(
                finding=finding,
                where=f"comment in {span.path}:{line}",
                reason=script.ignore_reasons.get(line) or None,
            )
    return None


def _by_file(finding: Finding, settings: Settings) -> Silenced | None:
    for path in _paths(finding):
        for pattern, codes in settings.per_file_ignores:
            if finding.code in codes and _matches(path, pattern, settings):
                return Silenced(finding=finding, where=f"per-file-ignores {pattern!r}", reason=None)
    return None


def _by_code(finding: Finding, selection: Selection) -> Silenced | None:
    if finding.code not in selection.ignored:
        return None
    return Silenced(finding=finding, where="ignored code", reason=selection.ignored[finding.code])


def _paths(finding: Finding) -> Iterator[str]:
    for item in finding.evidence:
        if isinstance(item, SourceSpan | Setting) and item.path:
            yield item.path


def _matches(path: str, pattern: str, settings: Settings) -> bool:
    """A glob against the path as given, its base name, and the path below the settings file's folder."""
    candidates = {path, PurePath(path).name, PurePath(path).as_posix()}
    if settings.path is not None:
        try:
            below = Path(path).resolve().relative_to(settings.path.parent.resolve())
            candidates.add(below.as_posix())
        except (ValueError, OSError, RuntimeError):
            pass  # elsewhere, or a symlink loop: the other spellings decide
    return any(fnmatch(candidate, pattern) for candidate in candidates)
