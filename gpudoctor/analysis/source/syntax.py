"""The nodes of a script's tree by kind, found in one walk for all who ask, and what one node says."""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, TypeGuard, TypeVar, overload

from gpudoctor.analysis.memo import once
from gpudoctor.model.signs.source import Script

A = TypeVar("A", bound=ast.AST)
B = TypeVar("B", bound=ast.AST)
C = TypeVar("C", bound=ast.AST)

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
LoopNode: TypeAlias = ast.For | ast.AsyncFor | ast.While


def words(text: str) -> frozenset[str]:
    """The words of a text: how long sets of names are written."""
    return frozenset(text.split())


def in_order(text: str) -> tuple[str, ...]:
    """The words of a text, in its order."""
    return tuple(text.split())


_LEAVES = words(
    "ctx op ops id attr arg kind type_comment name module level simple is_async conversion rest kwd_attrs tag str"
)
"""Fields that hold no node of their own: objects that Python shares, words and numbers."""


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """The fields of each kind of node that may hold others, found when the first of its kind is met."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        found = self[kind] = tuple(name for name in kind._fields if name not in _LEAVES)
        return found


_FIELDS = _Fields(dict.fromkeys((ast.Constant, ast.Name, ast.alias, ast.Global, ast.Nonlocal, ast.MatchSingleton), ()))


@overload
def nodes(script: Script) -> tuple[ast.AST, ...]: ...
@overload
def nodes(script: Script, kind: type[A], /) -> tuple[A, ...]: ...
@overload
def nodes(script: Script, kind: type[A], other: type[B], /) -> tuple[A | B, ...]: ...
@overload
def nodes(script: Script, kind: type[A], other: type[B], third: type[C], /) -> tuple[A | B | C, ...]: ...
def nodes(script: Script, *kinds: type[ast.AST]) -> tuple[ast.AST, ...]:
    """The nodes of some kinds (a base, `ast.stmt`, stands for all of its kinds), every node without one.

    They come in the order of `ast.walk`: outer ones before inner ones, in the text's order on each level. The
    `Load` of a name and the `Add` of an operation are left out: Python has one object for all of them.
    """
    return _of_kinds(script, kinds) if kinds else tuple(script.kinds[ast.AST])


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below one; as for `nodes`, without those that Python shares between places."""
    return below((node,))


def below(level: Iterable[ast.AST], parents: dict[ast.AST, ast.AST] | None = None) -> list[ast.AST]:
    """The nodes right below some, as `children` gives them; `parents` gets for each the node that holds it."""
    found: list[ast.AST] = []
    for node in level:
        before = len(found)
        for name in _FIELDS[type(node)]:
            value = getattr(node, name, None)
            if type(value) is not list:
                if value is not None:
                    found.append(value)
            elif None in value:  # the key of `**more` in a dict, the default of a keyword that has none
                found += [child for child in value if child is not None]
            else:
                found += value
        if parents is not None and len(found) > before:
            parents.update(dict.fromkeys(found[before:], node))
    return found


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and all below it, in the order of `ast.walk`; as for `nodes`, without those that Python shares."""
    found: list[ast.AST] = []
    level = [node]
    while level:
        found += level
        level = below(level)
    return found


def by_kind(found: list[ast.AST]) -> dict[type[ast.AST], list[ast.AST]]:
    """Nodes by their exact type, in their order; all of them under `ast.AST`."""
    kinds: dict[type[ast.AST], list[ast.AST]] = {ast.AST: found}
    for node in found:
        kind = type(node)
        if kind in kinds:
            kinds[kind].append(node)
        else:
            kinds[kind] = [node]
    return kinds


def root_name(node: ast.AST) -> str:
    """The name that an expression begins with: `a` of `a.data[0].mul_(0.9)`; "" where it begins with none."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def last_name(node: ast.AST | None) -> str:
    """`item` of `loss.item`, `loss` of `loss`; "" of any other expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def called_name(node: ast.AST) -> str:
    """`step` of `self.optimizer.step`, of a call the last name of what it calls; "" of any other expression."""
    while isinstance(node, ast.Call):
        node = node.func
    return last_name(node)


def is_name(node: ast.AST | None, *names: str) -> TypeGuard[ast.Name]:
    """Whether a node is one of these names."""
    return isinstance(node, ast.Name) and node.id in names


def is_attribute(node: ast.AST | None, *names: str) -> TypeGuard[ast.Attribute]:
    """Whether a node is an attribute of one of these names, `x.grad` for `grad`."""
    return isinstance(node, ast.Attribute) and node.attr in names


class MethodCall(ast.Call):
    """The type of a call `x.name(...)`."""

    func: ast.Attribute


def is_method_call(node: ast.AST | None, *methods: str) -> TypeGuard[MethodCall]:
    """Whether a node calls one of these names of some object, `losses.append(x)`; without `methods`, any."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    return not methods or node.func.attr in methods


def keyword_value(call: ast.Call, name: str) -> ast.expr | None:
    """The value that a call writes for a keyword; None if it writes none."""
    return next((item.value for item in call.keywords if item.arg == name), None)


def names_in(node: ast.AST) -> set[str]:
    """Every plain name in an expression or a statement."""
    return {part.id for part in walk(node) if isinstance(part, ast.Name)}


def mentioned(kinds: Mapping[type[ast.AST], Sequence[ast.AST]], parents: Mapping[ast.AST, ast.AST], name: str) -> bool:
    """Whether code, or a string, mentions a class, outside of the class itself and of lists of bases."""
    fields = ((ast.Name, "id"), (ast.Attribute, "attr"), (ast.Constant, "value"))
    named = (node for kind, field in fields for node in kinds.get(kind, ()) if getattr(node, field) == name)
    return any(
        not (isinstance(getattr(node, "ctx", None), ast.Store) or _of_class(parents, node, name)) for node in named
    )


def _of_class(parents: Mapping[ast.AST, ast.AST], node: ast.AST, name: str) -> bool:
    """Whether a node stands among the bases of a class, or in a class of a name as the outermost one."""
    last = ""
    while node in parents:
        node, part = parents[node], node
        if isinstance(node, ast.ClassDef):
            last = node.name
            if part in node.bases:
                return True
    return last == name


def is_main_guard(test: ast.expr) -> bool:
    """`__name__ == "__main__"`."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
        and isinstance(test.ops[0], ast.Eq)
    )


@once
def _places(script: Script) -> Mapping[ast.AST, int]:
    """The place of each node in the walk."""
    return {node: place for place, node in enumerate(script.kinds[ast.AST])}


@once
def _of_kinds(script: Script, kinds: tuple[type[ast.AST], ...]) -> tuple[ast.AST, ...]:
    lists = [listed for kind, listed in script.kinds.items() if issubclass(kind, kinds)]
    if len(lists) < 2:
        return tuple(lists[0]) if lists else ()
    return tuple(sorted((node for listed in lists for node in listed), key=_places(script).__getitem__))


@once
def without_comments(script: Script) -> str:
    """The script's code as Python writes it: a word in a comment is no evidence."""
    return ast.unparse(script.tree)


def says(script: Script, pattern: re.Pattern[str]) -> bool:
    """Whether a script's code says something: its text is searched first, for Python takes long to write the code."""
    return bool(pattern.search(script.text) and pattern.search(without_comments(script)))


def segment(script: Script, node: ast.AST) -> str:
    """The text of a node, "" of one without a place: not found by reading the whole file again."""
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    lines = script.text_lines
    if first is None or last is None or last > len(lines):
        return ""
    texts = [line.encode() for line in lines[first - 1 : last]]  # columns count bytes
    texts[-1] = texts[-1][: node.end_col_offset]  # type: ignore[attr-defined]
    texts[0] = texts[0][node.col_offset :]  # type: ignore[attr-defined]
    return b"\n".join(texts).decode(errors="replace")
