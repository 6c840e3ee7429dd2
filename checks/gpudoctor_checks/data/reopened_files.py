"""Items that open a file whose path does not depend on the index, again each time."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import enclosing
from gpudoctor.analysis.source.syntax import FunctionNode, is_name, keyword_value, walk
from gpudoctor.model.signs.source import Call, ClassInfo, Script

_OPENERS = {
    "h5py.File": "opens",
    "numpy.load": "loads",
    "numpy.loadtxt": "parses",
    "numpy.genfromtxt": "parses",
    "pandas.read_csv": "parses",
    "pandas.read_parquet": "reads",
    "pandas.read_json": "parses",
    "pandas.read_pickle": "loads",
    "pandas.read_excel": "parses",
    "pandas.read_hdf": "reads",
    "torch.load": "loads",
    "joblib.load": "loads",
    "safetensors.torch.load_file": "loads",
    "scipy.io.loadmat": "loads",
    "pyarrow.parquet.read_table": "reads",
    "lmdb.open": "opens",
    "zipfile.ZipFile": "opens",
    "tarfile.open": "opens",
    "json.load": "parses",
    "pickle.load": "unpickles",
    "yaml.safe_load": "parses",
    "yaml.load": "parses",
}
"""Calls that open or load a whole file by its path, or by a file object."""
_BY_FILE = frozenset({"json.load", "pickle.load", "yaml.safe_load", "yaml.load"})
_OPENS = frozenset({"open", "builtins.open", "io.open", "gzip.open", "bz2.open", "lzma.open"})
_JOINS = frozenset({"os.path.join", "pathlib.Path", "str", "os.fspath", "Path"})
_CACHED = ("cache", "memo")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopenedFile:
    """One file opened for every item."""

    owner: str
    """The data set's class."""
    node: ast.Call
    call: str
    """The resolved name of the call that opens it."""
    what: str
    """The verb, `opens`, `parses`."""
    path: str
    """The path's expression."""


def opened_again(script: Script) -> Iterator[ReopenedFile]:
    """Every such file of the script's data sets, methods that `__getitem__` calls on itself included."""
    if not any(name.rpartition(".")[2] in script.text for name in _OPENERS):
        return
    for info in script.classes.values():
        function = info.methods.get("__getitem__")
        if function is not None and not _cached(function):
            yield from _of_function(script, info, function)


def _of_function(script: Script, info: ClassInfo, function: FunctionNode) -> Iterator[ReopenedFile]:
    nodes = {id(node): node for node in walk(function) if isinstance(node, ast.Call)}
    called = {
        node.func.attr
        for node in nodes.values()
        if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "self"
    }
    for name in called & set(info.methods):
        method = info.methods[name]
        # With arguments the path may follow the index; a method without any cannot know it.
        if method is not function and len(method.args.args) == 1 and not _cached(method):
            nodes |= {id(node): node for node in walk(method) if isinstance(node, ast.Call)}
    seen: set[str] = set()
    for call in script.calls:
        if id(call.node) in nodes and call.name in _OPENERS:
            path = _path(script, info, call)
            if path is None or _kept(script, call.node) or _mapped(call) or path in seen:
                continue
            seen.add(path)
            yield ReopenedFile(owner=info.name, node=call.node, call=call.name, what=_OPENERS[call.name], path=path)


def _path(script: Script, info: ClassInfo, call: Call) -> str | None:
    """The path's text when it is the same for every item; None when it is not, or nobody can tell."""
    first = call.node.args[0] if call.node.args else None
    if first is None:
        return None
    if call.name in _BY_FILE:
        first = _opened(script, call.node, first)
        if first is None:
            return None
    return ast.unparse(first) if _constant(script, info, first) else None


def _opened(script: Script, node: ast.Call, given: ast.expr) -> ast.expr | None:
    """The path behind a file object: `open(path)` itself, or the with statement that names it."""
    if isinstance(given, ast.Call) and ast.unparse(given.func) in _OPENS and given.args:
        return given.args[0]
    for above in enclosing(script, node):
        if isinstance(above, ast.With | ast.AsyncWith):
            for item in above.items:
                named = item.optional_vars is not None and ast.unparse(item.optional_vars) == ast.unparse(given)
                if named and isinstance(item.context_expr, ast.Call) and item.context_expr.args:
                    return item.context_expr.args[0] if ast.unparse(item.context_expr.func) in _OPENS else None
    return None


def _constant(script: Script, info: ClassInfo, node: ast.expr) -> bool:
    """Whether a path is built of constants, module-level names and attributes that the constructor sets."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.Attribute):
        if is_name(node.value, "self"):
            return _setters(script, info.name).get(node.attr) == {"__init__"}
        return isinstance(node.value, ast.Attribute) and _constant(script, info, node.value)
    if isinstance(node, ast.Name):
        inside = any(isinstance(item, ast.FunctionDef) for item in enclosing(script, node))
        return inside and node.id in _module_names(script) and not _local(script, node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
        return _constant(script, info, node.left) and _constant(script, info, node.right)
    if isinstance(node, ast.JoinedStr):
        values = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        return all(_constant(script, info, value) for value in values)
    if isinstance(node, ast.Call) and ast.unparse(node.func) in _JOINS and not node.keywords:
        return all(_constant(script, info, item) for item in node.args)
    return False


@once
def _setters(script: Script, owner: str) -> Mapping[str, set[str]]:
    """The methods of a class that set an attribute, by its name."""
    found: dict[str, set[str]] = {}
    for method, node in script.classes[owner].methods.items():
        for part in walk(node):
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                found.setdefault(part.attr, set()).add(method)
    return found


def _module_names(script: Script) -> set[str]:
    return {
        target.id
        for statement in script.tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }


def _local(script: Script, node: ast.Name) -> bool:
    """Whether the function around a name binds it itself."""
    function = next((item for item in enclosing(script, node) if isinstance(item, ast.FunctionDef)), None)
    if function is None:
        return False
    bound = {item.id for item in walk(function) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
    return node.id in bound or node.id in {item.arg for item in function.args.args}


def _kept(script: Script, node: ast.Call) -> bool:
    """Whether the result stays in the object, or the call stands under a test of whether it did already."""
    for above in enclosing(script, node):
        if isinstance(above, ast.Assign | ast.AnnAssign):
            targets = above.targets if isinstance(above, ast.Assign) else [above.target]
            if any(not isinstance(target, ast.Name | ast.Tuple) for target in targets):
                return True
        if isinstance(above, ast.If | ast.IfExp | ast.NamedExpr | ast.ExceptHandler | ast.Try):
            return True
        if isinstance(above, FunctionNode):
            return _stored_later(above, node)
    return False


def _stored_later(function: FunctionNode, node: ast.Call) -> bool:
    """`data = load(path)` and then `self.data = data`."""
    names = {
        target.id
        for part in walk(function)
        if isinstance(part, ast.Assign) and any(item is node for item in walk(part.value))
        for target in part.targets
        if isinstance(target, ast.Name)
    }
    return any(
        isinstance(part, ast.Assign)
        and is_name(part.value, *names)
        and any(not isinstance(target, ast.Name) for target in part.targets)
        for part in walk(function)
    )


def _mapped(call: Call) -> bool:
    """Whether the file is memory-mapped: then opening costs little and reads what is asked for."""
    for name in ("mmap_mode", "mmap", "memory_map"):
        given = keyword_value(call.node, name)
        if given is not None and not (isinstance(given, ast.Constant) and given.value in (None, False)):
            return True
    return call.name == "numpy.load" and len(call.node.args) > 1


def _cached(function: FunctionNode) -> bool:
    return any(word in ast.unparse(item).lower() for item in function.decorator_list for word in _CACHED)
