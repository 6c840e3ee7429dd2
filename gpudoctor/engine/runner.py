"""Runs checks on a patient: four outcomes, one bad check never stops the rest."""

import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress

from gpudoctor.analysis.library_warnings import library_findings
from gpudoctor.lang import say
from gpudoctor.model.check import Check, Crashed, Found, Outcome, Passed, Skipped, track_record
from gpudoctor.model.finding import Code, Finding
from gpudoctor.model.patient import Patient
from gpudoctor.model.unavailable import ReaderCrashed, Unavailable


def take_signs(patient: Patient, names: Sequence[str]) -> None:
    """Take the named signs at the same time; each waits for a child or a disk, not for our CPU.

    Errors stay with the sign: whoever asks for it meets them.
    """

    def take(name: str) -> None:
        with suppress(Unavailable, ReaderCrashed):
            getattr(patient.signs, name).take()

    with ThreadPoolExecutor(max_workers=max(1, len(names))) as pool:
        list(pool.map(take, names))


def run_checks(
    patient: Patient,
    checks: Iterable[type[Check]],
    thresholds: Mapping[Code, Mapping[str, float]],
    *,
    preview: bool = False,
) -> list[Outcome]:
    """The outcome of each check, in the order given; `preview`: with what waits for `--preview`."""
    return [_run(check, patient, thresholds.get(check.code, {}), preview) for check in checks]


def _run(kind: type[Check], patient: Patient, overrides: Mapping[str, float], preview: bool) -> Outcome:
    code = kind.code
    try:
        check = kind(overrides)
        warned = list(library_findings(check, patient))
        examined: list[Finding] = []
        with suppress(Unavailable) if warned else nullcontext():
            examined += _examined(check, patient)
        alone = {row.kind for row in check.library_warnings if row.alone} if examined else set()
        findings = _distinct((*examined, *(item for item in warned if item.subject not in alone)))
    except Unavailable as reason:
        return Skipped(code=code, reason=str(reason))
    except ReaderCrashed as error:
        return Crashed(code=code, error=str(error))
    except Exception as error:  # noqa: BLE001  # the one boundary: a crashed check is a result
        return Crashed(code=code, error=f"{type(error).__name__}: {error} ({_place(error)})")
    record = track_record(kind)
    said = [item for finding in findings if (item := record.said(finding, preview=preview)) is not None]
    if findings and not said:
        return Skipped(code=code, reason=say("only --preview shows what it suspects"), deselected=True, held=True)
    judges = kind.judges
    return Found(code=code, findings=tuple(said), judges=judges) if said else Passed(code=code, judges=judges)


def _examined(check: Check, patient: Patient) -> Iterator[Finding]:
    """What the check sees, and what the job's log says of its ailment: either will do."""
    if not (check.log_messages or check.log_messages_file):
        yield from check.examine(patient)
        return
    try:
        _ = patient.job_log
    except Unavailable:
        yield from check.examine(patient)
        return
    from gpudoctor.analysis.job_log.findings import log_findings

    with suppress(Unavailable):
        yield from check.examine(patient)
    for finding in log_findings(check, patient):
        if (told := check.beside_log(finding, patient)) is not None:
            yield told


def _distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings without exact repetitions (the same place reached by two ways)."""
    seen: dict[tuple[str, str, object], Finding] = {}
    for finding in findings:
        span = finding.span
        place = (span.path, span.line, span.column) if span else finding.message
        seen.setdefault((finding.code, finding.subject, place), finding)
    return tuple(seen.values())


def _place(error: BaseException) -> str:
    """The innermost frame of an error, for a bug report: a module and a line, no path."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return say("no traceback")
    last = frames[-1]
    return say("{file}:{line} in {name}", file=last.filename.rpartition("/")[2], line=last.lineno, name=last.name)
