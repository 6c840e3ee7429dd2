"""Answers LOOP005 deprecated-api."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_places import lines_at
from gpudoctor.lang import say
from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effort,
    Finding,
    KeywordEdit,
    Patient,
    Remedy,
    Rule,
    SourceSpan,
    TextEdit,
    Unavailable,
)
from gpudoctor.model.signs.source import Call
from gpudoctor.text import capitalised
from gpudoctor_checks.loop.deprecated_api import DeprecatedApiDetail


class DeprecatedApiRule(Rule):
    """The replacement that torch names, as an edit where it is a plain renaming."""

    answers = Code("LOOP005")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(DeprecatedApiDetail)
        what = detail.what
        replacement = detail.replacement
        spans = [item for item in finding.evidence if isinstance(item, SourceSpan)]
        edits = tuple(edit for span in spans for edit in _edit(finding, span, patient))
        drop, add = detail.drop, detail.add
        if drop:
            title = say("Drop {keyword}= ({replacement})", keyword=drop, replacement=replacement)
        elif add:
            title = say("Pass {keyword}={value}", keyword=add, value=detail.value)
        else:
            title = say("replace {old} by {new}", old=what, new=replacement)
        yield Remedy(
            id="LOOP005-replace",
            title=title,
            steps=(say("{places}: {change}", places=capitalised(lines_at(spans)), change=title),),
            applicability=Applicability.UNSAFE if add or detail.keyword else Applicability.SAFE,
            effort=Effort.ONE_LINE if len(spans) == 1 else Effort.SMALL_EDIT,
            edits=edits if len(edits) == len(spans) else (),
            references=(detail.source,),
        )


def _edit(finding: Finding, span: SourceSpan, patient: Patient) -> Iterator[Edit]:
    detail = finding.detail_of(DeprecatedApiDetail)
    drop, add = detail.drop, detail.add
    if drop:
        yield KeywordEdit(path=span.path, line=span.line, column=span.column, remove=(drop,))
    elif detail.keyword:
        change = (detail.keyword, detail.keyword_value)
        yield KeywordEdit(path=span.path, line=span.line, column=span.column, set=(change,))
    elif add:
        value = detail.value
        yield KeywordEdit(path=span.path, line=span.line, column=span.column, set=((add, value),))
    elif detail.rename:
        call = _call_at(span, patient)
        if call is not None:
            yield from _rename(call, detail.rename, detail.first_argument)


def _call_at(span: SourceSpan, patient: Patient) -> Call | None:
    try:
        scripts = patient.source.scripts
    except Unavailable:
        return None
    return next(
        (call for script in scripts if script.path == span.path for call in script.calls if call.span == span), None
    )


def _rename(call: Call, name: str, argument: str) -> Iterator[TextEdit]:
    """Only where the old name is written in full: a name that was imported needs its import changed too."""
    function = call.node.func
    written = ast.unparse(function)
    if written != call.name or function.end_lineno != function.lineno or function.end_col_offset is None:
        return
    old, new = written, name
    if argument:
        old, new = old + "(", f"{name}({argument}" + (", " if call.node.args or call.node.keywords else "")
    start = function.col_offset + 1
    yield TextEdit(
        path=call.span.path,
        line=function.lineno,
        column=start,
        end_line=function.lineno,
        end_column=start + len(old),
        new_text=new,
        expected=old,
    )
