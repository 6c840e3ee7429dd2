"""Which names of a function feed a backward, by its assignments in order."""

import ast

from gpudoctor.analysis.source.syntax import is_method_call, names_in, walk


def feeds_backward(outer: ast.AST, inner: ast.stmt) -> bool:
    """Whether a backward in `outer`, behind a loop `inner` of it, needs values that the loop makes."""
    if inner.end_lineno is None:
        return False
    held = set().union(*(stored(part) for part in walk(inner)))
    after = [part for part in walk(outer) if getattr(part, "lineno", 0) > inner.end_lineno]
    for part in sorted(after, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))):
        if is_method_call(part, "backward"):
            if held & names_in(part):
                return True
        elif isinstance(part, ast.Assign | ast.AugAssign):
            kept = isinstance(part, ast.AugAssign) and bool(stored(part) & held)
            held = held | stored(part) if kept or held & names_in(part.value) else held - stored(part)
    return False


def stored(node: ast.AST) -> set[str]:
    """Names that get a value, or a part of one, by a statement or by `append`."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign):
        targets = [node.target]
    elif is_method_call(node):
        targets = [node.func.value] if node.func.attr in ("append", "extend", "add_", "copy_") else []
    roots = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    found = set()
    for part in roots:
        while isinstance(part, ast.Subscript):
            part = part.value
        found |= {part.id} if isinstance(part, ast.Name) else set()
    return found
