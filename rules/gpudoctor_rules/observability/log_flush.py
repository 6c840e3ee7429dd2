"""Answers OBS007: let the buffer work."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import function_of
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.analysis.source.syntax_edits import settable, without
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, KeywordEdit, Patient, Remedy, Rule, SourceSpan
from gpudoctor_checks.observability.log_flush import LogFlushDetail

_STEPS = {
    "sync": say("Delete the fsync: the operating system writes the file within seconds, and at close."),
    "flush": say("Delete the flush: the buffer is written when it is full and when the file is closed."),
    "print": say("print(...) without flush=True; `python -u` or PYTHONUNBUFFERED=1 where lines must show at once."),
    "open": say('log = open(path, "a", buffering=1 << 16)   # once, before the loop; log.write(...) in it'),
}


_TITLES = {"open": say("open the log once, before the loop")}
_BAR = (
    say("draw the progress line every 50 steps, with its flush"),
    say("if step % 50 == 0:   # around the line that is drawn over itself and its flush: without it nothing shows"),
    say("or tqdm, which draws at most ten times a second"),
)


class LogFlushRule(Rule):
    """No flush in the step; one open file."""

    answers = Code("OBS007")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(LogFlushDetail)
        places = [item for item in finding.evidence if isinstance(item, SourceSpan)]
        drawn = any(_draws(patient, place) for place in places)
        found = [None if drawn else _edit(patient, place) for place in places]
        edits = tuple(edit for edit in found if edit is not None)
        whole = len(edits) == detail.calls
        kind = detail.kind
        yield Remedy(
            id="OBS007-buffer",
            title=_BAR[0] if drawn else _TITLES.get(kind, say("remove the flush from the step")),
            steps=_BAR[1:]
            if drawn
            else (_STEPS[kind], "log.flush() once an epoch, or every few hundred steps, if you need it."),
            applicability=Applicability.UNSAFE if whole else Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT if kind == "open" else Effort.ONE_LINE,
            override=(("every", "50"),) if kind in {"sync", "flush"} else (),
            edits=edits if whole else (),
        )


def _edit(patient: Patient, place: SourceSpan) -> Edit | None:
    script = next((item for item in scripts_given(patient).scripts if item.path == place.path), None)
    if script is None:
        return None
    if settable(scripts_given(patient), place, method="print", remove=("flush",)):
        return KeywordEdit(path=place.path, line=place.line, column=place.column, remove=("flush",))
    return without(script, place)


def _draws(patient: Patient, place: SourceSpan) -> bool:
    """Whether a flush shows a line that is drawn over itself, `print(..., end="\\r")`: that one is needed."""
    script = next((item for item in scripts_given(patient).scripts if item.path == place.path), None)
    call = next((item for item in script.calls if item.span == place), None) if script is not None else None
    if script is None or call is None:
        return False
    if call.method == "print":
        return _rewinds(call.node)
    function = function_of(script, call.node)
    near = (
        node
        for node in nodes(script, ast.Call)
        if function_of(script, node) is function and ast.unparse(node.func).endswith(_WRITES)
    )
    return call.receiver.endswith(("stdout", "stderr")) and any(map(_rewinds, near))


_WRITES = ("print", "stdout.write", "stderr.write")


def _rewinds(call: ast.Call) -> bool:
    """Whether it writes a carriage return, a backspace, or a line without its end."""
    texts = [str(part.value) for part in ast.walk(call) if isinstance(part, ast.Constant)]
    end = next((item.value for item in call.keywords if item.arg == "end"), None)
    open_line = isinstance(end, ast.Constant) and "\n" not in str(end.value)
    return open_line or any("\r" in text or "\b" in text or "\x1b[" in text for text in texts)
