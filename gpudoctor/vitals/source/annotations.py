"""Types from annotations."""

import ast
from collections.abc import Mapping

from gpudoctor.analysis.source.syntax import called_name
from gpudoctor.vitals.source.program import SourceInterpreter
from gpudoctor.vitals.source.scope import ScopeState
from gpudoctor.vitals.source.values import NOTHING, NUMBER, TENSOR, TEXT, AbstractValue, ClassSymbol, tensor


def read_annotation(program: SourceInterpreter, frame: ScopeState, node: ast.expr, depth: int = 0) -> AbstractValue:
    """An instance of the class that an annotation names; NOTHING when it says nothing."""
    if depth > 8:
        return NOTHING
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value[:500], mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return NOTHING
    if isinstance(node, ast.BinOp):
        left = read_annotation(program, frame, node.left, depth + 1)
        return left if left is not NOTHING else read_annotation(program, frame, node.right, depth + 1)
    if isinstance(node, ast.Subscript):
        outer = called_name(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if outer in ("Optional", "Union", "Annotated", "Final", "ClassVar"):
            return next(
                (t for p in parts if (t := read_annotation(program, frame, p, depth + 1)) is not NOTHING), NOTHING
            )
        if outer in ("list", "List", "Iterable", "Sequence", "Iterator", "Generator"):
            return AbstractValue(elem=read_annotation(program, frame, parts[0], depth + 1))
        if outer in ("tuple", "Tuple"):
            return AbstractValue(items=tuple(read_annotation(program, frame, p, depth + 1) for p in parts))
        return read_annotation(program, frame, node.value, depth + 1)
    if not isinstance(node, ast.Name | ast.Attribute):
        return NOTHING
    return _instance(program.peek(frame, node), called_name(node))


def _handed_in(fields: Mapping[str, AbstractValue]) -> dict[str, AbstractValue]:
    """Fields without their defaults: whoever hands the object in, such as a config's library, may set them."""
    vague = {name: thing.widened() for name, thing in fields.items()}
    return {
        name: thing.replace(attrs=_handed_in(thing.attrs))
        if thing.attrs and thing.klass and thing.klass.data
        else thing
        for name, thing in vague.items()
    }


def _instance(thing: AbstractValue, name: str) -> AbstractValue:
    if isinstance(thing.definition, ClassSymbol):
        klass = thing.definition
        attrs = _handed_in(klass.all_fields()) if klass.data else None
        return AbstractValue(type=klass.kind, klass=klass, attrs=attrs, option=klass.data)
    if thing.ref is not None:
        if thing.ref == TENSOR:
            return tensor()
        if name[:1].isupper():
            return AbstractValue(type=thing.ref, option="Namespace" in name or "Config" in name)
    return {"int": NUMBER, "float": NUMBER, "str": TEXT}.get(name, NOTHING)
