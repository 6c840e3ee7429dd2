"""The scopes of a module, and which of its statements bind which names."""

import ast
from collections.abc import Iterator
from typing import Any

from gpudoctor.vitals.source.importing import relative_name
from gpudoctor.vitals.source.values import Binding, ClassSymbol, Function, Module, Scope

_CHANGES = frozenset(["to", "cuda", "cpu", "append", "add", "insert", "appendleft", "put", "extend", "update"])
"""Methods that change the object, or what a name for it holds."""
_LIBRARIES = ("torch", "lightning", "pytorch_lightning", "accelerate", "transformers", "deepspeed", "monai", "timm")
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_BINDS: tuple[type[Any], ...] = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Assign, ast.AnnAssign, ast.AugAssign),
    *(ast.NamedExpr, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith, ast.Delete, ast.Import, ast.ImportFrom),
    *(ast.Global, ast.Nonlocal, ast.Expr, ast.Return, ast.Yield, ast.YieldFrom, *COMPREHENSIONS),
)
"""Kinds of nodes that bind something, make a scope, or give what a function gives."""


def text_of(node: ast.AST | None) -> str:
    """`self.net.module` as written; "" for what is no chain of names."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < 20:
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def index(module: Module) -> list[ast.Import | ast.ImportFrom]:
    """Fill a module's indexes; gives its import statements, in order."""
    module.scopes[module.tree] = Scope(node=module.tree, module=module, outer=None, name="")
    imports: list[ast.Import | ast.ImportFrom] = []
    for node in sorted(module.of(*_BINDS), key=lambda node: (node.lineno, node.col_offset)):
        scope = module.home(node)
        _bind(module, scope, node)
        _scope(module, scope, node)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(node)
    module.torch = any(target.partition(".")[0] in _LIBRARIES for target in module.imports.values())
    return imports


def _scope(module: Module, outer: Scope, node: ast.AST) -> None:
    """Make the scope of a function or class."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
        return
    short = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    scope = Scope(node, module, outer, f"{outer.name}.{short}" if outer.name else short)
    module.scopes[node] = scope
    if isinstance(node, ast.ClassDef):
        scope.klass = ClassSymbol(node=node, module=module, scope=scope)
        module.klasses.append(scope.klass)
        return
    function = scope.function = Function(node=node, module=module, scope=scope, klass=outer.klass)
    module.functions.append(function)
    if outer.klass is not None and not isinstance(node, ast.Lambda):
        outer.klass.methods[node.name] = function
    spec = node.args
    for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *filter(None, (spec.vararg, spec.kwarg))):
        start = (arg.lineno, arg.col_offset)
        scope.bindings[arg.arg] = [Binding(node=node, kind="parameter", end=start, scope=scope, value=arg)]
    for decorator in getattr(node, "decorator_list", ()):
        name = text_of(decorator.func if isinstance(decorator, ast.Call) else decorator)
        function.decorators = (*function.decorators, (decorator, name))
        function.static |= name == "staticmethod"
        function.bound_class |= name == "classmethod"
        function.is_property |= name.endswith("property")
        function.no_grad |= name.rpartition(".")[2] in ("no_grad", "inference_mode")
    if isinstance(node, ast.Lambda):
        function.returns.append(node.body)


def _bind(module: Module, scope: Scope, node: ast.AST) -> None:
    """Note what a node binds in its scope."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                _target(scope, node, target, value, "value")
        case ast.AnnAssign(target=target, value=value):
            if value is not None or isinstance(target, ast.Name):
                _target(scope, node, target, value if value is not None else node, "value")
        case ast.AugAssign(target=target, value=value):
            _target(scope, node, target, value, "sum")
        case ast.NamedExpr(target=target, value=value):
            _target(scope, node, target, value, "value")
        case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
            _target(scope, node, target, value, "each")
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars is not None:
                    _target(scope, node, item.optional_vars, item.context_expr, "with")
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            _add(scope, Binding(node, "def", (node.lineno, node.col_offset), scope), name)
        case ast.Delete(targets=targets):
            for target in targets:
                _target(scope, node, target, None, "none")
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            _import(module, scope, node, names)
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            scope.shared |= set(names)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=attr)) as call) if attr in _CHANGES:
            _target(scope, node, owner, call, "change")
        case ast.Return(value=value) if scope.function is not None:
            scope.function.returns.append(value)
        case ast.Yield() | ast.YieldFrom() if scope.function is not None:
            scope.function.yields.append(node)
    if isinstance(node, COMPREHENSIONS):
        for part in node.generators:
            _target(scope, node, part.target, part.iter, "each")


def _target(
    scope: Scope, node: ast.AST, target: ast.expr, value: ast.AST | None, kind: str, part: tuple[int, ...] = ()
) -> None:
    if isinstance(target, (ast.Tuple, ast.List)):
        pieces = value.elts if isinstance(value, (ast.Tuple, ast.List)) and kind == "value" else None
        if pieces is not None and (len(pieces) != len(target.elts) or _starred(pieces) or _starred(target.elts)):
            pieces = None
        behind = False
        for place, item in enumerate(target.elts):
            if pieces is not None and not part:
                _target(scope, node, item, pieces[place], kind)
                continue
            behind = behind or isinstance(item, ast.Starred)
            inner = item.value if isinstance(item, ast.Starred) else item
            at = place - len(target.elts) if behind and inner is item else place
            _target(scope, node, inner, value, kind if inner is item else "none", (*part, at))
        return None
    if isinstance(target, ast.Starred):
        return _target(scope, node, target.value, value, "none")
    if isinstance(target, ast.Subscript):
        kind, target = "entry", target.value
    name = text_of(target)
    if not name:
        return None
    last = value if isinstance(value, ast.expr) and kind not in ("change", "sum", "entry") else node
    end = (getattr(last, "end_lineno", 0) or 0, getattr(last, "end_col_offset", 0) or 0)
    binding = Binding(node, kind, end, scope, value, part)
    _add(scope, binding, name)
    owner = scope.outer.klass if scope.outer is not None and scope.function is not None else None
    if owner is not None and name.startswith("self.") and name.count(".") == 1:
        owner.attrs.setdefault(name[5:], []).append(binding)
    return None


def _starred(parts: list[ast.expr]) -> bool:
    return any(isinstance(part, ast.Starred) for part in parts)


def _add(scope: Scope, binding: Binding, name: str) -> None:
    home = scope
    if name in scope.shared:
        while home.outer is not None and (home is scope or home.klass is not None or name not in home.bindings):
            home = home.outer
    home.bindings.setdefault(name, []).append(binding)


def _import(module: Module, scope: Scope, node: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> None:
    for alias in names:
        if alias.name == "*" and isinstance(node, ast.ImportFrom):
            module.stars.append(node)
            continue
        whole = isinstance(node, ast.ImportFrom) or alias.asname is not None
        name = alias.asname or (alias.name if whole else alias.name.partition(".")[0])
        dotted = alias.name if whole else name
        if isinstance(node, ast.ImportFrom):
            base = relative_name(module, node)
            dotted = f"{base}.{alias.name}" if base else alias.name
        module.imports[name] = dotted
        binding = Binding(node, "import", (node.lineno, node.col_offset), scope, alias)
        _add(scope, binding, name)


def holders(module: Module, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What holds a node, innermost first, up to its scope, each with the part through which it does."""
    parents, inside = module.parents, node
    while inside in parents:
        inside, part = parents[inside], inside
        yield inside, part
        if inside in module.scopes:
            return
