"""Optimizers with the models whose parameters they get, and the networks that a training computes with."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import bound_to
from gpudoctor.analysis.source.syntax import is_attribute, is_method_call, keyword_value, walk
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Call, Script, Source

_CLASSES = re.compile(
    r"^(torch\.optim\.(?!lr_scheduler|swa_utils|Optimizer$)[A-Z]\w*|bitsandbytes\.optim\.\w+|torch_optimizer\.[A-Z]\w*"
    r"|transformers\.(optimization\.)?(AdamW|Adafactor)|lion_pytorch\.Lion|apex\.optimizers\.\w+)$"
)
_GIVES = frozenset({"parameters", "named_parameters"})


@frozen(eq=False)
class BoundOptimizer:
    """One place where an optimizer is built over parameters that can be told."""

    script: Script
    call: Call
    name: str
    """What holds the optimizer."""
    owners: tuple[ast.expr, ...]
    """The expressions whose `.parameters()` it was given, `model` or `copy.deepcopy(model)`."""
    whole: bool
    """Whether it was given nothing but `owner.parameters()`."""
    given: ast.expr
    """Its first argument."""

    @property
    def roots(self) -> tuple[str, ...]:
        """The owners that are names or attributes, as written."""
        return tuple(ast.unparse(item) for item in self.owners if isinstance(item, ast.Name | ast.Attribute))


def optimizers(source: Source) -> tuple[BoundOptimizer, ...]:
    """Every optimizer of a program whose parameters the text tells."""
    return tuple(one for script in source.scripts for one in _of_script(script))


@once
def _of_script(script: Script) -> tuple[BoundOptimizer, ...]:
    found = []
    for call in script.calls:
        if not _CLASSES.match(call.name):
            continue
        given = keyword_value(call.node, "params")
        given = given or (call.node.args[0] if call.node.args else None)
        if given is None or isinstance(given, ast.Starred):
            continue
        expression = script.written(given)
        owners = tuple(_owners(expression))
        plain = is_method_call(expression, *_GIVES) and not expression.args
        whole = plain and len(owners) == 1
        name = bound_to(script, call.node)
        found.append(BoundOptimizer(script=script, call=call, name=name, owners=owners, whole=whole, given=given))
    return tuple(found)


def _owners(expression: ast.expr) -> Iterator[ast.expr]:
    for node in walk(expression):
        if is_method_call(node, *_GIVES):
            owner = node.func.value
            while is_attribute(owner, "module"):
                owner = owner.value
            yield owner
