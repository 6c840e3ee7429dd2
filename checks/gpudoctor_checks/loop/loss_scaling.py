"""How a loss is scaled on its way to backward: followed through assignments, functions and parameters."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis.source.scopes import Scopes
from gpudoctor.analysis.source.syntax import is_name, receiver
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Event, Loop, Source

Scope = tuple[SourceSpan, ...]

_CHAINS = frozenset({"mean", "sum", "to", "float", "double", "half", "squeeze", "view", "cuda", "reshape"})
_LOSS = re.compile(r"criter|loss|objective|model|net$|network", re.IGNORECASE)
_SCALES = re.compile(r"div|mul|scale|normali[sz]e", re.IGNORECASE)


class LossFlow:
    """The arithmetic that leads to one loss of one pass."""

    def __init__(self, source: Source, loop: Loop) -> None:
        self._scopes = Scopes(source, loop)
        self._calls = {event.node: event.call for event in loop.events if event.call is not None}
        self._within: dict[Scope, list[Event]] = {}
        self._returns: dict[tuple[Scope, int, int], list[Event]] = {}
        for event in loop.events:
            self._within.setdefault(event.via, []).append(event)
            if isinstance(event.node, ast.Return) and event.via:
                place = event.via[:-1], event.via[-1].line, event.via[-1].column
                self._returns.setdefault(place, []).append(event)

    def scaled(self, loss: ast.expr, event: Event, count: str) -> bool:
        """Whether the loss may be scaled on its way: by anything at all, or where the reader cannot follow."""
        word = re.compile(rf"(?<![\w.]){re.escape(count)}(?!\w)") if not count.isdigit() else None
        for node, _ in self._parts(loss, event.via):
            if node is None:
                return True
            if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div | ast.Mult):
                return True
            text = ast.unparse(node)
            if "'sum'" in text or (word is not None and word.search(text)):
                return True
            if isinstance(node, ast.Call) and self._unknown(node):
                return True
        return False

    def division(self, loss: ast.expr, event: Event, by: re.Pattern[str]) -> ast.expr | ast.AugAssign | None:
        """Where the loss is divided by something of a name."""
        for node, _ in self._parts(loss, event.via):
            if not isinstance(node, ast.BinOp | ast.AugAssign) or not isinstance(node.op, ast.Div):
                continue
            divisor = node.right if isinstance(node, ast.BinOp) else node.value
            if by.search(ast.unparse(divisor)):
                return node
        return None

    def _unknown(self, node: ast.Call) -> bool:
        """Whether a call may scale its result without anybody seeing it."""
        call = self._calls.get(node)
        last = ast.unparse(node.func).rsplit(".", 1)[-1]
        if _SCALES.search(last):
            return True
        if call is None:
            return True
        if call.name.startswith(("torch.nn.", "torch.Tensor.")) or last in _CHAINS:
            return False
        return not _LOSS.search(last)

    def _parts(self, node: ast.expr, via: Scope) -> Iterator[tuple[ast.AST | None, Scope]]:
        """Expressions whose value the loss is, or is made of by sums; None where the trail is lost."""
        waiting: list[tuple[ast.expr, Scope]] = [(node, via)]
        seen: set[tuple[Scope, str]] = set()
        while waiting:
            item, scope = waiting.pop()
            key = scope, ast.unparse(item)
            if key in seen:
                continue
            seen.add(key)
            if isinstance(item, ast.Name | ast.Attribute):
                waiting += self._sources(item, scope) or [(part, scope) for part in _owner(item)]
                yield from ((part, scope) for part in self._in_place(key[1], scope))
                if not self._sources(item, scope) and not list(_owner(item)):
                    yield None, scope
            elif isinstance(item, ast.BinOp):
                yield item, scope
                waiting += [(item.left, scope), (item.right, scope)]
            elif isinstance(item, ast.UnaryOp):
                waiting.append((item.operand, scope))
            elif isinstance(item, ast.Subscript):
                waiting.append((item.value, scope))
            elif isinstance(item, ast.IfExp):
                waiting += [(item.body, scope), (item.orelse, scope)]
            elif isinstance(item, ast.Tuple):
                waiting += [(part, scope) for part in item.elts]
            elif isinstance(item, ast.Call):
                returned = list(self._returned(item, scope))
                inside = receiver(item)
                call = self._calls.get(item)
                model = call is not None and call.name.startswith("torch.nn.")
                if returned and not model:
                    waiting += returned
                else:
                    yield item, scope
                    if inside is not None and ast.unparse(item.func).rsplit(".", 1)[-1] in _CHAINS:
                        waiting.append((inside, scope))
            elif not isinstance(item, ast.Constant):
                yield None, scope

    def _returned(self, node: ast.Call, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
        for event in self._returns.get((scope, node.lineno, node.col_offset + 1), ()):
            assert isinstance(event.node, ast.Return)
            if event.node.value is not None:
                yield event.node.value, event.via

    def _sources(self, node: ast.Name | ast.Attribute, scope: Scope) -> list[tuple[ast.expr, Scope]]:
        """What is assigned to a name in the pass, or given for a parameter."""
        text = ast.unparse(node)
        found: list[tuple[ast.expr, Scope]] = []
        for event in self._within.get(scope, ()):
            part = event.node
            if isinstance(part, ast.Assign):
                for target in part.targets:
                    names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                    if any(ast.unparse(name) == text for name in names):
                        found.append((part.value, scope))
            elif (
                isinstance(part, ast.AnnAssign | ast.AugAssign)
                and part.value is not None
                and ast.unparse(part.target) == text
            ):
                found.append((part.value, scope))
        if not found and isinstance(node, ast.Name):
            given = self._scopes.argument(node.id, scope) if scope else None
            return [given] if given is not None else []
        return found

    def _in_place(self, text: str, scope: Scope) -> Iterator[ast.AST]:
        """`loss /= n` and `loss.div_(n)`."""
        for event in self._within.get(scope, ()):
            node, call = event.node, event.call
            mine = call is not None and call.receiver == text and _SCALES.search(call.method)
            if mine or (isinstance(node, ast.AugAssign) and ast.unparse(node.target) == text):
                yield node


def _owner(node: ast.Name | ast.Attribute) -> Iterator[ast.expr]:
    """`outputs` of `outputs.loss`; nothing for an attribute of self."""
    if isinstance(node, ast.Attribute) and not (is_name(node.value, "self")):
        yield node.value
