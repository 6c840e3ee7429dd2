"""What a data loader's own collate function makes of a batch."""

import ast

from gpudoctor.vitals.source.values import BATCH, AbstractValue


def collated(function: AbstractValue) -> AbstractValue:
    """A batch, in which the lists of the dict that the collate function returns are no tensors."""
    node = getattr(function.definition, "node", None)
    lists = (
        {key: AbstractValue(type="list") for key in _lists(node)} if isinstance(node, ast.FunctionDef) else {}
    )
    return AbstractValue(type=BATCH, device="cpu", keys=lists or None, open=bool(lists))


def _lists(node: ast.FunctionDef) -> list[str]:
    """Keys of the dict that a function returns whose values are lists."""
    values = {
        target.id: part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Assign)
        for target in part.targets
        if isinstance(target, ast.Name)
    }

    def named(value: ast.expr | None) -> ast.expr | None:
        return values.get(value.id) if isinstance(value, ast.Name) else value

    returned = [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]
    whole = named(returned[0]) if len(returned) == 1 else None
    if not isinstance(whole, ast.Dict):
        return []
    return [
        str(key.value)
        for key, value in zip(whole.keys, whole.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(named(value), ast.List | ast.ListComp)
    ]
