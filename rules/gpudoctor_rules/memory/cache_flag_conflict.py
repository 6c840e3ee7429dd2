"""Answers MEM010: no cache while training."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effort,
    Finding,
    Patient,
    Remedy,
    Rule,
    Setting,
    SourceSpan,
)
from gpudoctor.model.signs.source import Script


class CacheFlagConflictRule(Rule):
    """Switch the cache off for training; logits and loss do not depend on it."""

    answers = Code("MEM010")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        place = finding.evidence[0]
        config = isinstance(place, Setting)
        key = place.key.rpartition(".")[2] if isinstance(place, Setting) else "use_cache"
        yield Remedy(
            id="MEM010-off",
            title=f"{key}: false" if config else "use_cache=False",
            steps=(f"{key}: false" if config else "use_cache=False   # generation can switch it on again",),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
            sets=(("use_cache", "False"),),
            edits=_edits(place, patient),
        )


def _edits(place: object, patient: Patient) -> tuple[Edit, ...]:
    if isinstance(place, Setting):
        for file in patient.configs.files:
            entry = file.entries.get(place.key) if file.path == place.path else None
            edit = file.edit(entry, "false") if entry is not None else None
            if edit is not None:
                return (edit,)
    elif isinstance(place, SourceSpan):
        script = next((item for item in patient.source.scripts if item.path == place.path), None)
        if script is not None:
            return _in_script(script, place)
    return ()


def _in_script(script: Script, place: SourceSpan) -> tuple[Edit, ...]:
    for call in script.calls:
        for keyword in call.node.keywords:
            if keyword.arg == "use_cache" and keyword.lineno == place.line and script.span(keyword) == place:
                return (replace_node(script, keyword.value, "False"),)
    for node in nodes(script, ast.Assign):
        if node.lineno == place.line and script.span(node) == place:
            return (replace_node(script, node.value, "False"),)
    return ()
