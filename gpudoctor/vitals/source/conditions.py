"""What conditions mean: every N steps, once, on one rank, a switch, a failure."""

import ast
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from gpudoctor.analysis.source.syntax import called_name
from gpudoctor.model.signs.source import GuardKind, Known, Unknown
from gpudoctor.vitals.source.library import FAILED, RANK_ZERO
from gpudoctor.vitals.source.values import MISSING, WITH_A_GPU, AbstractValue, Condition, Meanings, value_of

_RANK_NAME = re.compile(
    r"(?:\w+_)?(?:global_|local_|node_|world_|ddp_|dist_|process_)?rank$|proc(?:ess)?_(?:id|index)$|process_index$"
    r"|local_process_index$|gpu$|gpu_id$|local_rank$"
)
_MAIN_NAME = re.compile(
    r"is_(?:\w{1,60}_)?(?:main|master|zero|rank_?zero|rank_?0|primary|lead|chief|root)(?:_\w{0,60})?$"
    r"|(?:main|master)_process$|is_rank0$|is_global_zero$|is_world_process_zero$|is_local_process_zero$|rank_?(?:0|zero)$"
    r"|is_root$|is_logger$|on_main_process$"
)
_COUNTER = re.compile(
    r"(?:\w+_)?(?:step|steps|iter|iters|iteration|iterations|idx|index|batch_?i|batch_idx|epoch|ep|i|j|k|n|t|it|b|count|counter"
    r"|num|update|updates|round|itr|cnt|global_step|n_iter|batch_num|step_num|episode)s?$"
)
_FAILURE_WORDS = re.compile(r"(?:^|_)(?:nan|inf|isnan|isinf|overflow|found_inf|anomal\w*|fail\w*|error\w*)(?:$|_)")
_ONCE_WORDS = re.compile(r"(?:^|_)(?:first|last|once|initiali[sz]ed|warm(?:ed)?_?up_done|done_once|is_last\w*)(?:$|_)")
_FEW = 100
"""An upper bound of a counter under which a condition counts as holding on a few passes."""


def means_and(parts: Sequence[Meanings]) -> Meanings:
    """The conjunction of some conditions."""
    return tuple(meaning for part in parts for meaning in part)


def negate(meanings: Meanings) -> Meanings:
    """The opposite of a conjunction."""
    thinning = [m for m in meanings if not _certain(m)]
    if not thinning:
        first = next((m for m in meanings if m.kind is GuardKind.SWITCH), None)
        if first is not None:
            return (first.opposite(),)
        thinning = list(meanings)
    if len(thinning) == 1:
        return (thinning[0].opposite(),)
    for meaning in thinning:
        if meaning.kind in (GuardKind.PERIOD, GuardKind.ONCE, GuardKind.FAILURE) and not meaning.negated:
            return (meaning.opposite(),)
    if all(m.kind is GuardKind.RANK for m in thinning):
        return (thinning[0].opposite(),)
    return (Condition(kind=GuardKind.OTHER),)


def means_or(parts: Sequence[Meanings]) -> Meanings:
    """The disjunction of some conditions: as often as the most frequent of them."""
    parts = [part for part in parts if not any(_off(m) for m in part)]
    if not parts:
        return (Condition(kind=GuardKind.SWITCH, value=Known(value=False)),)
    for part in parts:
        if all(_certain(m) for m in part):
            return part
    kinds = {_kind(part) for part in parts}
    if len(kinds) == 1 and None not in kinds:
        return parts[0]
    if kinds <= {GuardKind.PERIOD, GuardKind.ONCE, GuardKind.FAILURE}:
        for kind in (GuardKind.PERIOD, GuardKind.ONCE):
            for part in parts:
                if _kind(part) is kind:
                    return part
    return (Condition(kind=GuardKind.OTHER),)


def _kind(part: Meanings) -> GuardKind | None:
    thinning = [m for m in part if not _certain(m) and m.kind is not GuardKind.RANK]
    if not thinning:
        return GuardKind.RANK
    if len(thinning) == 1 and not thinning[0].negated:
        return thinning[0].kind
    return None


def _certain(meaning: Condition) -> bool:
    if meaning.mostly:
        return True
    return meaning.kind is GuardKind.SWITCH and isinstance(meaning.value, Known) and bool(meaning.value.value)


def _off(meaning: Condition) -> bool:
    return meaning.kind is GuardKind.SWITCH and isinstance(meaning.value, Known) and not meaning.value.value


def meaning(node: ast.expr, thing: AbstractValue, text: str) -> Meanings:
    """What an evaluated expression means as a condition."""
    if thing.test is not None:
        return thing.test
    name = called_name(node).lower()
    if thing.type == "rank" or _MAIN_NAME.search(name):
        return (RANK_ZERO,)
    if _FAILURE_WORDS.search(name):
        return (FAILED,)
    if thing.known:
        return (Condition(kind=GuardKind.SWITCH, value=value_of(thing, text)),)
    if thing.option:
        return (Condition(kind=GuardKind.SWITCH, value=Unknown(text=text)),)
    if _ONCE_WORDS.search(name):
        return (Condition(kind=GuardKind.ONCE),)
    if name in ("sync_gradients", "is_gradient_accumulation_boundary"):
        return (Condition(kind=GuardKind.PERIOD, period=Unknown(text=text)),)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return negate(periodic(thing, text))
    if _is_counter(node):
        return (Condition(kind=GuardKind.ONCE, negated=True),)
    return (Condition(kind=GuardKind.OTHER),)


def periodic(thing: AbstractValue, text: str) -> Meanings:
    """`step % N == 0` or another remainder."""
    return (Condition(kind=GuardKind.PERIOD, period=thing.modulus or Unknown(text=text)),)


def _is_rank(node: ast.AST) -> bool:
    name = called_name(node).lower()
    return bool(_RANK_NAME.fullmatch(name)) or name in ("get_rank", "get_local_rank", "get_global_rank")


def _is_counter(node: ast.AST) -> bool:
    while isinstance(node, ast.BinOp):
        node = node.left
    return isinstance(node, (ast.Name, ast.Attribute)) and bool(_COUNTER.fullmatch(called_name(node)))


def compared(node: ast.Compare, left: AbstractValue, right: AbstractValue, text: str) -> Meanings | None:
    """What one comparison means; None when it says nothing."""
    op, other = node.ops[0], node.comparators[0]
    if isinstance(op, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
        found = _equal(node.left, left, right, text)
        if found is None:
            found = _equal(other, right, left, text)
        if found is not None:
            return negate(found) if isinstance(op, (ast.NotEq, ast.IsNot)) else found
    if isinstance(op, (ast.In, ast.NotIn)):
        found = _member(node.left, left)
        if found is not None:
            return negate(found) if isinstance(op, ast.NotIn) else found
    if isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
        found = _ordered(node, op, left, right)
        if found is not None:
            return found
    return _switch(left, right, text)


def _switch(left: AbstractValue, right: AbstractValue, text: str) -> Meanings | None:
    if (left.option or right.option) and not (left.known and right.known):
        return (Condition(kind=GuardKind.SWITCH, value=Unknown(text=text)),)
    return None


def _equal(node: ast.expr, left: AbstractValue, right: AbstractValue, text: str) -> Meanings | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return periodic(left, text)
    if left.type == "rank" or _is_rank(node) or _MAIN_NAME.search(called_name(node).lower()):
        return (RANK_ZERO,) if right.value is not None else None
    if _of_device(left) and isinstance(right.value, str) and not left.known:
        gpu = Known(value=right.value.startswith("cuda"), origin=WITH_A_GPU, text=text)
        return (Condition(kind=GuardKind.SWITCH, value=gpu),)
    if _is_counter(node) and not isinstance(right.value, (str, bool)) and right.value is not None:
        return (Condition(kind=GuardKind.ONCE),)
    return None


def _of_device(thing: AbstractValue) -> bool:
    """Whether it is the name or kind of a device that is a GPU where there is one."""
    return thing.type in ("torch.device.type", "torch.device", "str", None) and "cuda" in (thing.device or "")


def _member(node: ast.expr, left: AbstractValue) -> Meanings | None:
    if left.type == "rank" or _is_rank(node):
        return (RANK_ZERO,)
    if _is_counter(node):
        return (Condition(kind=GuardKind.ONCE),)
    return None


def _ordered(node: ast.Compare, op: ast.cmpop, left: AbstractValue, right: AbstractValue) -> Meanings | None:
    first, bound, below = node.left, right, isinstance(op, (ast.Lt, ast.LtE))
    if not _is_counter(first) and _is_counter(node.comparators[0]):
        first, bound, below = node.comparators[0], left, not below
    if not _is_counter(first) or left.option:
        return None
    if not isinstance(bound.value, (int, float)) or bound.value > _FEW:
        return None
    few = Condition(kind=GuardKind.ONCE)
    return (few,) if below else (few.opposite(),)


def known_comparison(op: ast.cmpop, left: AbstractValue, right: AbstractValue) -> Any:
    """The comparison's value where both sides are known; MISSING otherwise."""
    a, b = left.value, right.value
    if isinstance(op, (ast.Is, ast.IsNot)) and (a is None or b is None):
        other = right if a is None else left
        if other.optional:
            return MISSING
        if other.known:
            return (a is b) is isinstance(op, ast.Is)
        if other.type or other.klass or other.definition or other.ref:
            return isinstance(op, ast.IsNot)
        return MISSING
    if a is MISSING or b is MISSING:
        return MISSING
    try:
        return _COMPARED[type(op)](a, b)
    except (KeyError, TypeError):
        return MISSING


_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: lambda a, b: a is b if isinstance(a, bool) and isinstance(b, bool) else MISSING,
    ast.IsNot: lambda a, b: a is not b if isinstance(a, bool) and isinstance(b, bool) else MISSING,
}
