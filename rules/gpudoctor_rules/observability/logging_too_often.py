"""Answers OBS002: write every N steps."""

import ast
from collections.abc import Iterator

from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effort,
    Finding,
    Patient,
    Remedy,
    Rule,
    SourceSpan,
    TextEdit,
)
from gpudoctor.model.signs.program import FUNCTIONS, enclosing, loop_node
from gpudoctor.model.signs.source import Loop, Script

EVERY = 50
"""Steps between two writes: the upper end of the catalogue's 10 to 50, and Lightning's default."""


class LoggingTooOftenRule(Rule):
    """Write every 50 steps."""

    answers = Code("OBS002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        places = [item for item in finding.evidence if isinstance(item, SourceSpan)]
        script, loop = _loop(finding, patient)
        counter = _counter(script, loop) if script and loop else ""
        edits = tuple(_guarded(script, place, counter) for place in places) if script and counter else ()
        whole = bool(edits) and all(edit is not None for edit in edits) and finding.fact("calls") == len(edits)
        yield Remedy(
            id="OBS002-every",
            title=f"write every {EVERY} steps",
            steps=(
                f"if {counter or 'step'} % {EVERY} == 0:",
                *(f"    {place.text}" for place in places[:3]),
                *(() if counter else ("count the steps: for step, batch in enumerate(loader):",)),
            ),
            applicability=Applicability.SAFE if whole else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE if len(places) == 1 else Effort.SMALL_EDIT,
            sets=(("log_period", str(EVERY)),),
            edits=tuple(edit for edit in edits if edit is not None) if whole else (),
        )


def _loop(finding: Finding, patient: Patient) -> tuple[Script | None, Loop | None]:
    line = finding.fact("loop_line")
    for script, loop in patient.source.training_loops:
        if finding.span is not None and script.path == finding.span.path and loop.span.line == line:
            return script, loop
    return None, None


def _counter(script: Script, loop: Loop) -> str:
    """The name that counts the passes: the first target of `enumerate`, the target of `range`."""
    node = loop_node(script, loop)
    if not isinstance(node, ast.For):
        return ""
    called = next((part.func for part in ast.walk(node.iter) if isinstance(part, ast.Call)), None)
    names = {ast.unparse(part.func) for part in ast.walk(node.iter) if isinstance(part, ast.Call)}
    if (
        "enumerate" in names
        and isinstance(node.target, ast.Tuple)
        and isinstance(node.target.elts[0], ast.Name)
    ):
        return node.target.elts[0].id
    if called is not None and ast.unparse(called) in {"range", "trange"} and isinstance(node.target, ast.Name):
        return node.target.id
    return ""


def _guarded(script: Script, place: SourceSpan, counter: str) -> Edit | None:
    """The statement under `if counter % 50 == 0:`; only a whole expression statement on one line."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Expr) and node.lineno == place.line == node.end_lineno:
            if not _counts_here(script, node, counter):
                return None
            text = ast.get_source_segment(script.text, node) or ""
            line = script.text.splitlines()[node.lineno - 1]
            if not text or line.strip() != text:
                return None
            return TextEdit(
                path=script.path,
                line=node.lineno,
                column=node.col_offset + 1,
                end_line=node.lineno,
                end_column=node.col_offset + 1 + len(text),
                new_text=f"if {counter} % {EVERY} == 0:\n{' ' * node.col_offset}    {text}",
                expected=text,
            )
    return None


def _counts_here(script: Script, node: ast.stmt, counter: str) -> bool:
    """Whether the counter's loop is in sight: the statement stands in the loop, not in a function it calls."""
    for above in enclosing(script, node):
        if isinstance(above, FUNCTIONS):
            return False
        if isinstance(above, ast.For) and counter in {
            part.id for part in ast.walk(above.target) if isinstance(part, ast.Name)
        }:
            return True
    return False
