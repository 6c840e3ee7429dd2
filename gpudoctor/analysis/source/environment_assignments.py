"""Environment variables that scripts set themselves: `os.environ["NCCL_DEBUG"] = "INFO"`.

A view of the source sign, for every check that asks about a variable.
"""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing
from gpudoctor.analysis.source.syntax import is_main_guard, is_method_call, nodes
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Known, Script, Source


@frozen
class Assignment:
    """One place where a script sets a variable for itself and its children."""

    name: str
    value: str | None
    """The text; None when only a run can tell."""
    node: ast.expr
    """The value as written."""
    span: SourceSpan
    default: bool
    """True when a value from outside wins: `setdefault`, or under `if "X" not in os.environ`."""
    conditional: bool
    """Under a condition, so nobody knows whether it happens."""


@once
def assignments(source: Source) -> tuple[Assignment, ...]:
    """Every such place, in order of script and line."""
    found: list[Assignment] = []
    for script in source.scripts:
        if "environ" in script.text:
            here = [
                _made(script, node, *given)
                for node in nodes(script, ast.Assign, ast.Call)
                for given in _given(script, node)
            ]
            found += sorted(here, key=lambda item: item.span.line)
    return tuple(found)


def assigned(source: Source | None, name: str) -> Assignment | None:
    """The last unconditional place that sets a variable, or None."""
    places = assignments(source) if source is not None else ()
    sure = [item for item in places if item.name == name and not item.conditional]
    return sure[-1] if sure else None


def _given(script: Script, node: ast.AST) -> Iterator[tuple[str, ast.expr, bool]]:
    """Names and values that a node gives to the environment, and whether one from outside wins."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    default = is_method_call(node, "setdefault") and _is_environ(script, node.func.value)
    if isinstance(node, ast.Assign):
        held = [target for target in node.targets if isinstance(target, ast.Subscript)]
        pairs = [(target.slice, node.value) for target in held if _is_environ(script, target.value)]
    elif isinstance(node, ast.Call) and len(node.args) == 2 and default:
        pairs = [(node.args[0], node.args[1])]
    for key, value in pairs:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, value, default


def _made(script: Script, place: ast.AST, name: str, value: ast.expr, default: bool) -> Assignment:
    conditional, inside = False, place
    for above in enclosing(script, place):
        if isinstance(above, ast.If) and _tests_absence(script, above.test):
            default = True
        elif isinstance(above, ast.If | ast.While):
            conditional |= not is_main_guard(above.test) or inside in above.orelse
        conditional |= isinstance(above, ast.ExceptHandler | ast.match_case)
        if isinstance(above, FUNCTIONS):
            break
        inside = above
    known = script.thing(value).value
    text = known.value if isinstance(known, Known) and known.origin in ("literal", "constant") else None
    return Assignment(
        name=name,
        value=str(text) if isinstance(text, str | int | float) else None,
        node=value,
        span=script.span(place),
        default=default,
        conditional=conditional,
    )


def _is_environ(script: Script, node: ast.expr) -> bool:
    root, _, rest = ast.unparse(node).partition(".")
    return f"{script.imports.get(root, root)}.{rest}".strip(".") == "os.environ"


def _tests_absence(script: Script, test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.NotIn)
        and _is_environ(script, test.comparators[0])
    )
