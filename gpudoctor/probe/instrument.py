"""Calls before and after a Python function, written into the function's own body.

The function object stays the one that torch made: its aliases, its identity, its signature and its pickle are
as without us. Its frame is the only one that a traceback, a warning or `sys._getframe` meets. The body is
compiled again from its own source, each statement on its own line, as

    if torch.compiler.is_compiling():  # Dynamo follows this branch alone; our objects mean nothing to it
        BODY
    else:
        token = ENTER(args, kwargs)
        result = MISSING
        try:
            BODY with `return (result := value)`
        finally:
            if token is not None:
                LEAVE(token, result)

A body is only replaced when the source, unchanged, compiles to the very code that the function has.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import sys
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Callable

MISSING: Any = object()
"""The result of a call that raised."""

Enter = Callable[[Any, Any], Any]
"""`enter(args, kwargs)` gives a token; None wants no `leave`."""
Leave = Callable[[Any, Any], None]
"""`leave(token, result)`; the result is `MISSING` where the call raised."""

_PLACES = ("\0gpudoctor enter", "\0gpudoctor leave", "\0gpudoctor missing")
"""Strings in the place of our objects until the code is compiled: source can only name literals."""
_SPECIAL = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LOCALS = "<locals>"


class Unsuitable(Exception):
    """The body of this function cannot be replaced."""


_known: dict[FunctionType, tuple[CodeType, list[tuple[Enter, Leave]]]] = {}
"""Functions with calls of ours: the code with `_PLACES`, and the calls, the innermost first."""
_sources: dict[str, list[str]] = {}
"""Lines of files that were read; many functions of one file are changed at a time."""
_made: dict[tuple[str, CodeType], CodeType] = {}
"""Codes with `_PLACES` by the codes without: a decorator gives all its functions the same one."""


def instrument(function: FunctionType, enter: Enter, leave: Leave) -> None:
    """Put `enter` and `leave` into a function. Raises `Unsuitable`."""
    before = function.__code__
    code, pairs = _known.get(function, (None, []))
    if code is None:
        code = _made.get((before.co_filename, before))
    if code is None:
        code = _made[before.co_filename, before] = _with_places(function)
    pairs = [*pairs, (enter, leave)]
    _known[function] = code, pairs
    if len(pairs) > 1:
        enter, leave = _several(pairs)
    objects = dict(zip(_PLACES, (enter, leave, MISSING)))
    consts = tuple(objects.get(value, value) if type(value) is str else value for value in code.co_consts)
    function.__code__ = code.replace(co_consts=consts)


def forget_sources() -> None:
    """Let go of the files: for now no function is changed."""
    _sources.clear()


def _several(pairs: list[tuple[Enter, Leave]]) -> tuple[Enter, Leave]:
    """One `enter` and one `leave` for several; the last that came is the outermost."""
    outward = list(reversed(pairs))

    def enter(args: Any, kwargs: Any) -> Any:
        tokens: list[Any] = []
        for begin, _ in outward:
            tokens.append(begin(args, kwargs))
        return tokens

    def leave(tokens: Any, result: Any) -> None:
        for (_, end), token in zip(pairs, reversed(tokens)):
            if token is not None:
                end(token, result)

    return enter, leave


def _with_places(function: FunctionType) -> CodeType:
    """A function's code with `_PLACES` around its body."""
    code = function.__code__
    if code.co_flags & _SPECIAL or code.co_name == "<lambda>":
        raise Unsuitable("a generator, coroutine or lambda")
    plain = definition(code)
    if _compiled(plain, function) != code:
        raise Unsuitable("its source is another")
    watched = definition(code)
    _surround(plain, watched.body, function)
    made = _compiled(plain, function)
    if made.co_freevars != code.co_freevars:
        raise Unsuitable("its free variables would be others")
    return made


def definition(code: CodeType) -> ast.FunctionDef:
    """The syntax of a function's source, on its own lines and columns."""
    lines = _sources.get(code.co_filename)
    if lines is None:
        with open(code.co_filename, encoding="utf-8") as stream:
            lines = _sources[code.co_filename] = stream.read().split("\n")
    first = code.co_firstlineno
    margin = len(lines[first - 1]) - len(lines[first - 1].lstrip())
    head = "\n" * (first - 2) + "if 1:\n" if margin else "\n" * (first - 1)
    last = _last_line(code)
    for end in range(last, min(last + 40, len(lines) + 1)):
        following = lines[end] if end < len(lines) else ""
        if following.strip() and len(following) - len(following.lstrip()) > margin:
            continue  # still inside
        try:
            tree = ast.parse(head + "\n".join(lines[first - 1 : end]) + "\n")
        except SyntaxError:
            continue  # in the middle of an expression
        body = tree.body[0].body if isinstance(tree.body[0], ast.If) else tree.body
        if len(body) == 1 and isinstance(body[0], ast.FunctionDef) and body[0].name == code.co_name:
            return body[0]
    raise Unsuitable("its source is not a function")


def _last_line(code: CodeType) -> int:
    """The last line that an instruction of a function, or of one inside it, stands on."""
    if sys.version_info >= (3, 10):
        last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    else:
        import dis

        last = max((line for _, line in dis.findlinestarts(code) if line), default=code.co_firstlineno)
    return max([last, *(_last_line(inner) for inner in code.co_consts if isinstance(inner, CodeType))])


def _compiled(node: ast.FunctionDef, function: FunctionType) -> CodeType:
    """The code of a definition where the function was defined: its classes (whose names change private names),
    and functions around it, with the variables that it takes from them.
    """
    code = function.__code__
    scopes = str(getattr(code, "co_qualname", function.__qualname__)).split(".")[:-1]
    taken = [name for name in code.co_freevars if name != "__class__"]
    if taken and _LOCALS not in scopes:
        scopes = ["outer", _LOCALS]
    text = ""
    names: list[str] = []
    for scope, following in zip(scopes, [*scopes[1:], ""]):
        if scope != _LOCALS:
            head = f"def {scope}({', '.join(taken)}):" if following == _LOCALS else f"class {scope}:"
            text += " " * len(names) + head + "\n"
            names.append(scope)
    tree: Any = ast.parse(text + " " * len(names) + "pass\n")
    inner = tree
    for _ in names:
        inner = inner.body[0]
    inner.body = [node]
    tree.body[:0] = _imports(function)
    found: Any = compile(tree, code.co_filename, "exec", code.co_flags & _FUTURES, dont_inherit=True)
    for name in (*names, node.name):
        found = next(part for part in found.co_consts if isinstance(part, CodeType) and part.co_name == name)
    made: CodeType = found
    return made


def _imports(function: FunctionType) -> list[ast.stmt]:
    """Imports of the names that the function's module has from elsewhere: calls of their attributes compile to
    other instructions.
    """
    scope = function.__globals__
    here = scope.get("__name__")
    names = [name for name in function.__code__.co_names if _imported(scope.get(name), here)]
    if not names:
        return []
    node = ast.Import([ast.alias(name, None, lineno=1, col_offset=0) for name in names], lineno=1, col_offset=0)
    return [node]


def _imported(value: Any, here: Any) -> bool:
    """Whether a global variable of the module `here` has its value from elsewhere."""
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        return bool(value.__module__ != here)
    return isinstance(value, ModuleType)


_GUARD = """
def guard():
    if TORCH.compiler.is_compiling():
        PLAIN
    else:
        ENTER = "\\0gpudoctor enter"
        LEAVE = "\\0gpudoctor leave"
        RESULT = "\\0gpudoctor missing"
        TOKEN = ENTER(ARGS, KWARGS)
        try:
            WATCHED
            RESULT = None
        finally:
            if TOKEN is not None:
                LEAVE(TOKEN, RESULT)
"""
_RESULT = ".gpudoctor_result"
"""No name of the program's: nobody can write it."""


def _surround(node: ast.FunctionDef, watched: list[ast.stmt], function: FunctionType) -> None:
    """Make the body of a definition that of the module's docstring; `watched` is its body once more."""
    document = node.body[:1] if ast.get_docstring(node, clean=False) is not None else []
    plain, watched = node.body[len(document) :] or [ast.Pass()], watched[len(document) :] or [ast.Pass()]
    own = "torch" not in function.__code__.co_varnames and "torch" not in function.__code__.co_cellvars
    reached = own and function.__globals__.get("torch") is sys.modules.get("torch")
    template: Any = ast.parse(_GUARD).body[0]
    declared: list[ast.stmt] = []
    plain = [_marked(part, declared, False) for part in plain]
    watched = [_marked(part, declared, True) for part in watched]
    body = [*declared, *_Parts(node, plain, watched, reached).visit(template).body]
    if not reached:
        body.insert(0, ast.Import([ast.alias("torch", ".gpudoctor_torch")]))
    kept = {id(part) for part in (*plain, *watched, *declared)}
    for statement in body:
        _place(statement, node, kept)
    node.body = document + body


class _Parts(ast.NodeTransformer):
    """Fills the template in."""

    def __init__(
        self, definition: ast.FunctionDef, plain: list[ast.stmt], watched: list[ast.stmt], reached: bool
    ) -> None:
        self._blocks = {"PLAIN": plain, "WATCHED": watched}
        self._torch = "torch" if reached else ".gpudoctor_torch"
        arguments = definition.args
        names: list[ast.expr] = [ast.Name(one.arg, ast.Load()) for one in (*arguments.posonlyargs, *arguments.args)]
        if arguments.vararg:
            names.append(ast.Starred(ast.Name(arguments.vararg.arg, ast.Load()), ast.Load()))
        keys: list[ast.expr | None] = [ast.Constant(one.arg) for one in arguments.kwonlyargs]
        values: list[ast.expr] = [ast.Name(one.arg, ast.Load()) for one in arguments.kwonlyargs]
        if arguments.kwarg:
            keys.append(None)
            values.append(ast.Name(arguments.kwarg.arg, ast.Load()))
        self._expressions: dict[str, ast.expr] = {
            "ARGS": ast.Tuple(names, ast.Load()),
            "KWARGS": ast.Dict(keys, values),
        }

    def visit_Expr(self, node: ast.Expr) -> Any:
        """A block of the function's own."""
        return self._blocks.get(getattr(node.value, "id", "")) or self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        """An argument, or a variable of ours."""
        if node.id in self._expressions:
            return self._expressions[node.id]
        names = {"TORCH": self._torch, "RESULT": _RESULT}
        return ast.Name(names.get(node.id, ".gpudoctor_" + node.id.lower()), node.ctx)


def _marked(node: Any, declared: list[ast.stmt], watched: bool) -> Any:
    """A statement without its declarations of global names, which go to `declared`; if `watched`, its returns
    keep their value in the result. Functions inside it are left alone.
    """
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        declared.append(node)
        return ast.copy_location(ast.Pass(), node)
    if isinstance(node, _SCOPES):
        return node
    if isinstance(node, ast.Return) and watched:
        value = node.value or ast.copy_location(ast.Constant(None), node)
        target = ast.copy_location(ast.Name(_RESULT, ast.Store()), value)
        node.value = ast.copy_location(ast.NamedExpr(target, value), value)
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            block[:] = [_marked(inner, declared, watched) for inner in block]
    return node


def _place(node: ast.AST, function: ast.FunctionDef, kept: set[int]) -> None:
    """Our own nodes stand on the line of the definition; those of the function keep their place."""
    if id(node) not in kept:
        at_definition(node, function)
        for inner in ast.iter_child_nodes(node):
            _place(inner, function, kept)


def at_definition(node: Any, function: ast.FunctionDef) -> None:
    """Put a node of ours on the line on which a function is defined."""
    if "lineno" in node._attributes:
        node.lineno = node.end_lineno = function.lineno
        node.col_offset = node.end_col_offset = function.col_offset
