"""The line of the script, named beside a log, that the first cause is about."""

from gpudoctor.model import Patient, SourceSpan
from gpudoctor.model.signs.job_log import LogEvent
from gpudoctor.model.signs.source import Script
from gpudoctor.model.unavailable import optional


def guilty_line(patient: Patient, root: LogEvent) -> SourceSpan | None:
    """The line that raised: in the named script where it is one of it, else as the log has it."""
    frame = root.frame
    if frame is None or frame.line <= 0:
        return None
    script = _script(patient, frame.path)
    if script is None:
        return SourceSpan(path=frame.path, line=frame.line, text=frame.text)
    lines = script.text.splitlines()
    text = lines[frame.line - 1].strip() if frame.line <= len(lines) else ""
    if frame.text and text != frame.text.strip():  # the script has changed since
        return SourceSpan(path=frame.path, line=frame.line, text=frame.text)
    return SourceSpan(path=script.path, line=frame.line, text=text)


def in_named_script(patient: Patient, span: SourceSpan) -> SourceSpan:
    """The same line in the script that was named, where its path ends alike; else the span."""
    script = _script(patient, span.path)
    lines = script.text.splitlines() if script is not None else []
    if script is None or not 0 < span.line <= len(lines):
        return span
    return SourceSpan(path=script.path, line=span.line, text=lines[span.line - 1].strip())


def _script(patient: Patient, path: str) -> Script | None:
    """The named script of a traceback's path: the one whose path ends alike."""
    source = optional(lambda: patient.source)
    parts = path.replace("\\", "/").split("/")
    best: tuple[int, Script] | None = None
    for script in source.scripts if source else ():
        own = script.path.replace("\\", "/").split("/")
        same = 0
        while same < min(len(own), len(parts)) and own[-1 - same] == parts[-1 - same]:
            same += 1
        if same and (best is None or same > best[0]):
            best = (same, script)
    return best[1] if best else None
