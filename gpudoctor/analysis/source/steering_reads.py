"""Reads of the device that the training goes by: the step that follows needs the value, or its wait."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import enclosing, function_of, statement
from gpudoctor.analysis.source.syntax import names_in, nodes
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Script, Source

_NEEDED = re.compile(
    r"#[^#]*\b(race|must|required|needed|on purpose|deliberate(ly)?|wait (for|until)|(do not|don't) remove)\b",
    re.IGNORECASE,
)
"""Comments that say that a wait is meant."""
_WATCHES = re.compile(r"print|log\w*|warn\w*|info|debug|write|add_scalar|set_postfix|set_description|append|update")
"""Calls by which a value is shown or kept, and no more."""


def steers(source: Source, place: SourceSpan) -> bool:
    """Whether the read at a place decides what the step does, or a comment says that its wait is needed."""
    for script in source.scripts:
        if script.path == place.path and 0 < place.line <= len(script.text_lines):
            near = script.text_lines[max(0, place.line - 2) : place.line]
            return any(map(_NEEDED.search, near)) or any(_decides(script, node) for node in _at(script, place))
    return False


def _at(script: Script, place: SourceSpan) -> Iterator[ast.AST]:
    """The expression that reads: the call at the place, or the condition that begins on its line."""
    for node in nodes(script, ast.If, ast.While, ast.IfExp):
        if node.test.lineno == place.line:
            yield node
    for call in nodes(script, ast.Call):
        if call.lineno == place.line and place.column in (0, call.col_offset + 1):
            yield call


def _decides(script: Script, node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return not all(map(_only_watches, [*node.body, *node.orelse]))
    if isinstance(node, ast.While | ast.IfExp):
        return True
    whole = statement(script, node)
    if not isinstance(whole, ast.Assign):
        return False
    bound = {name for target in whole.targets for name in names_in(target)}
    function = function_of(script, whole)
    tests: Iterator[ast.If | ast.While] = (
        test for test in nodes(script, ast.If, ast.While) if function_of(script, test) is function
    )
    around = set(enclosing(script, whole))
    return any(
        (test.lineno > whole.lineno or test in around) and bound & names_in(test.test) and _decides(script, test)
        for test in tests
    ) or any(
        part.lineno > whole.lineno and bound & names_in(part.slice) and function_of(script, part) is function
        for part in nodes(script, ast.Subscript)
    )


def _only_watches(part: ast.stmt) -> bool:
    """Whether a branch only shows the value, keeps it, or ends the run."""
    if isinstance(part, ast.Raise | ast.Pass | ast.Assert):
        return True
    call = part.value if isinstance(part, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return isinstance(part, ast.Expr)
    return _WATCHES.fullmatch(ast.unparse(call.func).rpartition(".")[2]) is not None
