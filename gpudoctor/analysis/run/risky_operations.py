"""Lines of the source that a numeric ailment points at: operations with an edge, graphs that are cut."""

import ast
from collections.abc import Iterator, Sequence

from gpudoctor.analysis.run.line_costs import LinePlace
from gpudoctor.analysis.run.steady_run import source_of
from gpudoctor.analysis.source.syntax import is_attribute, names_in, nodes, walk
from gpudoctor.model.patient import Patient
from gpudoctor.model.signs.source import Script

_EDGES = frozenset(
    {"sqrt", "rsqrt", "log", "log2", "log10", "log1p", "acos", "asin", "atanh", "std", "var", "pow", "norm",
     "reciprocal", "div", "divide", "exp", "true_divide", "renorm"}
)  # fmt: skip
"""Operations whose value or derivative is not finite somewhere."""
_OVERFLOWS = frozenset({"exp", "pow"})
"""Those that only a far too large number takes there: they come after all others."""
_NUMBERS = ("math.", "numpy.", "random.", "statistics.")
_CUTS = frozenset(
    {"detach", "detach_", "argmax", "argmin", "no_grad", "inference_mode", "item", "numpy", "round", "sign",
     "long", "int", "one_hot"}
)  # fmt: skip
"""What cuts a graph, or lets no gradient through."""
_MOST = 3


def risky_lines(patient: Patient) -> list[LinePlace]:
    """Lines on the way to a loss that hold an operation with an edge, the likeliest first: three at most."""
    source = source_of(patient)
    if source is None:
        return []
    found: dict[tuple[str, int], bool] = {}
    for script, loop in source.training_loops:
        for event in loop.events:
            call = event.call
            if event.evaluation or call is None:
                continue
            edge = call.method in _EDGES and not call.name.startswith(_NUMBERS)
            if not edge and not _makes_nan(call.node):
                continue
            span = event.span
            if script.path == span.path or any(item.path == span.path for item in source.scripts):
                place, far = (span.path, span.line), call.method in _OVERFLOWS
                found[place] = found.get(place, True) and far
    likely = sorted(found, key=found.__getitem__)
    return [LinePlace(path=path, line=line) for path, line in likely[:_MOST]]


def _makes_nan(node: ast.AST) -> bool:
    """Whether a call makes a NaN or passes one: `float("nan")`, `x.fill_(math.nan)`."""
    return any(
        (isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.lower() == "nan")
        or (is_attribute(part, "nan", "NaN"))
        for part in walk(node)
    )


def loss_lines(patient: Patient) -> list[LinePlace]:
    """Lines of the training loops that give the loss its value: three at most."""
    source = source_of(patient)
    if source is None:
        return []
    found: dict[tuple[str, int], LinePlace] = {}
    for _, loop in source.training_loops:
        roots = {
            ast.unparse(event.call.node.func.value)
            for event in loop.events
            if event.call is not None and event.call.method == "backward"
            and isinstance(event.call.node.func, ast.Attribute)
        }  # fmt: skip
        for event in loop.events:
            node = event.node
            targets = node.targets if isinstance(node, ast.Assign) else ()
            if any(ast.unparse(target) in roots for target in targets):
                found.setdefault(
                    (event.span.path, event.span.line), LinePlace(path=event.span.path, line=event.span.line)
                )
    return list(found.values())[:_MOST]


def cutting_lines(patient: Patient, parameters: Sequence[str]) -> list[LinePlace]:
    """Lines that use the modules of these parameters and cut the graph there; else lines that use them."""
    source = source_of(patient)
    if source is None:
        return []
    parts = [part for name in parameters for part in name.split(".")[:-1] if not part.isdigit()]
    wanted = dict.fromkeys(parts or [name.split(".")[-1] for name in parameters])
    used: list[tuple[bool, LinePlace]] = []
    for script in source.scripts:
        for statement in _statements(script):
            attributes = {node.attr for node in walk(statement) if isinstance(node, ast.Attribute)}
            if attributes & wanted.keys():
                words = attributes | names_in(statement)
                used.append((bool(words & _CUTS), LinePlace(path=script.path, line=statement.lineno)))
    cut = [place for cuts, place in used if cuts]
    return (cut or [place for _, place in used])[:_MOST]


def resting_lines(patient: Patient, parameters: Sequence[str]) -> list[LinePlace]:
    """`with torch.no_grad():` blocks whose body uses the modules of these parameters: three at most."""
    source = source_of(patient)
    wanted = {part for name in parameters for part in name.split(".")[:-1] if not part.isdigit()}
    found: list[LinePlace] = []
    for script in source.scripts if source is not None else ():
        for block in nodes(script, ast.With):
            heads = " ".join(ast.unparse(item.context_expr) for item in block.items)
            used = {node.attr for whole in block.body for node in walk(whole) if isinstance(node, ast.Attribute)}
            if ("no_grad" in heads or "inference_mode" in heads) and used & wanted:
                found.append(LinePlace(path=script.path, line=block.lineno))
    return found[:_MOST]


def _statements(script: Script) -> Iterator[ast.stmt]:
    """Simple statements of methods called forward, or of any function where no class has one."""
    functions = [node for node in nodes(script, ast.FunctionDef) if node.name == "forward"]
    for function in functions or nodes(script, ast.FunctionDef):
        for node in walk(function):
            if isinstance(node, ast.stmt) and not hasattr(node, "body"):
                yield node
