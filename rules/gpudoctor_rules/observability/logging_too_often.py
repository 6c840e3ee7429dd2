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
from gpudoctor.model.reading.program import FUNCTIONS, enclosing, loop_node
from gpudoctor.model.reading.recordings.engines import engine_setting
from gpudoctor.model.reading.syntax import segment
from gpudoctor.model.signs.source import Loop, Script
from gpudoctor.model.workload import scripts_given

EVERY = 50
"""Steps between two writes: the upper end of the catalogue's 10 to 50, and Lightning's default."""


class LoggingTooOftenRule(Rule):
    """Write every 50 steps."""

    answers = Code("OBS002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        setting = engine_setting(finding, "log", EVERY)
        if setting is not None:
            yield Remedy(
                id="OBS002-setting",
                title=setting[0],
                steps=(setting[1],),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SETTING,
                sets=(("log_period", str(EVERY)),),
            )
            return
        places = [item for item in finding.evidence if isinstance(item, SourceSpan)]
        script, loop = _loop(finding, patient)
        counter = _counter(script, loop) if script and loop else ""
        edits = _edits(script, places, counter) if script and counter else ()
        whole = bool(edits) and finding.fact("calls") == len(places)
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
            override=(("every", str(EVERY)),),
            sets=(("log_period", str(EVERY)),),
            edits=edits if whole else (),
        )


def _loop(finding: Finding, patient: Patient) -> tuple[Script | None, Loop | None]:
    line = finding.fact("loop_line")
    for script, loop in scripts_given(patient).training_loops:
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


def _edits(script: Script, places: list[SourceSpan], counter: str) -> tuple[Edit, ...]:
    """The statements under `if counter % 50 == 0:`, neighbours under one; nothing unless all can be."""
    lines = script.text.split("\n")
    alone = {
        node.lineno: node
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Expr)
        and node.lineno == node.end_lineno
        and lines[node.lineno - 1].strip() == segment(script, node)
        and _counts_here(script, node, counter)
    }
    wanted = sorted({place.line for place in places})
    if any(line not in alone for line in wanted):
        return ()
    groups: list[list[int]] = []
    for line in wanted:
        near = groups and groups[-1][-1] == line - 1 and alone[line - 1].col_offset == alone[line].col_offset
        if near:
            groups[-1].append(line)
        else:
            groups.append([line])
    return tuple(_under(script.path, lines, group, alone[group[0]].col_offset, counter) for group in groups)


def _under(path: str, lines: list[str], group: list[int], offset: int, counter: str) -> Edit:
    """Neighbouring lines, one level further in, under the condition."""
    first, last = lines[group[0] - 1], lines[group[-1] - 1]
    indent = first[:offset]
    deeper = indent + ("\t" if "\t" in indent else "    ")
    texts = [lines[line - 1].strip() for line in group]
    return TextEdit(
        path=path,
        line=group[0],
        column=offset + 1,
        end_line=group[-1],
        end_column=len(last.rstrip()) + 1,
        new_text=f"if {counter} % {EVERY} == 0:" + "".join(f"\n{deeper}{text}" for text in texts),
        expected=f"\n{indent}".join(texts),
    )


def _counts_here(script: Script, node: ast.stmt, counter: str) -> bool:
    """Whether the counter's loop is in sight, and no period stands between: not in a function that it calls."""
    for above in enclosing(script, node):
        if isinstance(above, FUNCTIONS) or (isinstance(above, ast.If) and "%" in ast.unparse(above.test)):
            return False
        if isinstance(above, ast.For) and counter in {
            part.id for part in ast.walk(above.target) if isinstance(part, ast.Name)
        }:
            return True
    return False
