"""A line that keeps something from step to step, and the edits that keep less of it.

`losses.append(loss)`, `cache[key] = out`, `total += loss`, `kept = torch.cat([kept, out])`: what is kept,
where, and how the statement reads when it is left out, its graph is cut, only the number or the last ones stay.
"""

import ast
from dataclasses import dataclass
from enum import Enum

from gpudoctor.analysis.run.recorded_statements import statement_at
from gpudoctor.analysis.source.syntax import is_method_call, segment
from gpudoctor.analysis.source.syntax_edits import insert_after, replace_node
from gpudoctor.model.remedy import TextEdit
from gpudoctor.model.signs.source import Script

_PUTS = {"append": 0, "appendleft": 0, "add": 0, "extend": 0, "insert": 1, "put": 0, "setdefault": 1}
"""Methods that keep an argument, and which."""
_LISTS = {"append", "extend", "insert"}
LAST = 32
"""How many the last ones are in a trial: few enough that their growth is over before it begins to count."""


class RetentionKind(Enum):
    """How much of it is kept."""

    NOTHING = "nothing"
    DETACHED = "detached"
    """Without its graph."""
    NUMBER = "number"
    """A Python number: no memory of torch's at all."""
    LAST = "last"
    """Only the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """One statement that keeps something."""

    script: Script
    statement: ast.stmt
    target: str
    """Where: `losses`."""
    value: ast.expr
    """What."""
    how: str
    """`list`, `entry`, `sum`, `joined`."""

    @property
    def line(self) -> int:
        """Where it stands."""
        return self.statement.lineno

    def edits(self, keep: RetentionKind) -> tuple[TextEdit, ...]:
        """The statement with so much kept; empty where that cannot be written plainly."""
        if keep is RetentionKind.NOTHING:
            return (replace_node(self.script, self.statement, "pass"),) if self._alone() else ()
        if keep is RetentionKind.LAST:
            plain = self.how == "list" and self._alone() and self._is_list()
            return (insert_after(self.script, self.statement, f"del {self.target}[:-{LAST}]"),) if plain else ()
        new = self.written(keep)
        return (replace_node(self.script, self.value, new),) if new else ()

    def written(self, keep: RetentionKind) -> str:
        """The value as `DETACHED` or `NUMBER` has it: `loss.detach()`; "" where it is no plain expression."""
        node, text = self.value, segment(self.script, self.value)
        if not text or not isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.BinOp):
            return ""
        calls = _calls(node)
        if calls[:1] in (["item"], ["tolist"], ["numpy"]) or (
            "detach" in calls and keep is RetentionKind.DETACHED
        ):
            return ""
        text = f"({text})" if isinstance(node, ast.BinOp) else text.removesuffix(".detach()")
        return f"{text}.detach()" if keep is RetentionKind.DETACHED else f"{text}.item()"

    def _alone(self) -> bool:
        """Whether the statement has its lines for itself."""
        lines = self.script.text.splitlines()
        first, last = lines[self.statement.lineno - 1], lines[(self.statement.end_lineno or self.line) - 1]
        before = first.encode()[: self.statement.col_offset].decode(errors="ignore")
        after = last.encode()[self.statement.end_col_offset or 0 :].decode(errors="ignore")
        return not before.strip() and (not after.strip() or after.strip().startswith("#"))

    def _is_list(self) -> bool:
        call = getattr(self.statement, "value", None)
        return is_method_call(call, *_LISTS)


def _calls(node: ast.expr) -> list[str]:
    """Methods of a chain of calls, the last first: `y.detach().clone()` has `clone`, `detach`."""
    found = []
    while is_method_call(node):
        found.append(node.func.attr)
        node = node.func.value
    return found


def keeping_at(script: Script, line: int) -> Retention | None:
    """What the statement on a line keeps; None where it keeps nothing that is plain to see."""
    statement = statement_at(script, line)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _called(script, statement, statement.value)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        how = "list" if isinstance(statement.value, ast.List | ast.Tuple) else "sum"
        return _keeping(script, statement, ast.unparse(statement.target), statement.value, how)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return _assigned(script, statement, statement.targets[0])
    return None


def _keeping(script: Script, statement: ast.stmt, target: str, value: ast.expr, how: str) -> Retention:
    return Retention(script=script, statement=statement, target=target, value=value, how=how)


def _called(script: Script, statement: ast.stmt, call: ast.Call) -> Retention | None:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _PUTS:
        return None
    place = _PUTS[call.func.attr]
    if len(call.args) <= place:
        return None
    return _keeping(script, statement, ast.unparse(call.func.value), call.args[place], "list")


def _assigned(script: Script, statement: ast.Assign, target: ast.expr) -> Retention | None:
    value, name = statement.value, ast.unparse(target)
    if isinstance(target, ast.Subscript):
        return _keeping(script, statement, ast.unparse(target.value), value, "entry")
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        for side, other in ((value.left, value.right), (value.right, value.left)):
            if ast.unparse(side) == name:
                return _keeping(script, statement, name, other, "sum")
    if isinstance(value, ast.Call) and value.args and isinstance(value.args[0], ast.List | ast.Tuple):
        parts = value.args[0].elts
        if len(parts) > 1 and any(ast.unparse(part) == name for part in parts):
            other = next(part for part in parts if ast.unparse(part) != name)
            return _keeping(script, statement, name, other, "joined")
    return None
