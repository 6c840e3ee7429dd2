"""Every regular expression of gpudoctor against strings made from it: does matching take more than linear time?

Expressions are found in the syntax of all modules; those that are put together from parts are looked up in the
imported module. The wordings of log messages are taken from the registry. The tree of each is walked: for every repetition a string leads up to it, repeats what it takes
many times, and ends in what cannot match. Time that grows faster than the string, or runs out, is a break.
"""

from __future__ import annotations

import ast
import importlib
import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from attack.case import Attempt

from gpudoctor.analysis.job_log.consequences import consequences, harmless
from gpudoctor.engine.registry import load_registry

if sys.version_info >= (3, 11):
    from re import _constants as constants
    from re import _parser as parser
else:
    import sre_constants as constants
    import sre_parse as parser

GROUP = "expressions (ReDoS)"
ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("gpudoctor", "checks/gpudoctor_checks", "rules/gpudoctor_rules")
FUNCTIONS = {"compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
ANCHORED = {"match", "fullmatch"}
SHORT, LONG, LONGER = 1_500, 6_000, 24_000
"""Characters of the strings; a suspicious one is tried in the longer ones."""
LIMIT = 2.0
"""Seconds for one string."""
SLOW = 0.004
"""Seconds at `LONG` characters below which nothing is suspicious: 0.7 us a character."""
GROWTH = 3.0
"""Times slower that a string twice as long may be; 2 is linear, 4 quadratic."""


@dataclass(frozen=True)
class Written:
    """An expression where it is written."""

    place: str
    pattern: str
    flags: int = 0
    anchored: bool = False
    """Only ever matched at the start of a text."""


class OutOfTime(Exception):
    """A string took too long."""


_MAY_HAVE_ONE = re.compile(r"\bre\.\w|\bExpression\(")


def modules() -> Iterator[Path]:
    """Every module of ours."""
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def collect() -> list[Written]:
    """Every expression, each once."""
    found: dict[tuple[str, int, bool], Written] = {}
    for path in modules():
        for item in _of_module(path):
            found.setdefault((item.pattern, item.flags, item.anchored), item)
    for item in _of_messages():
        found.setdefault((item.pattern, item.flags, item.anchored), item)
    return list(found.values())


def _of_messages() -> Iterator[Written]:
    """The expressions of all wordings of log messages, those that no check has among them."""
    others = [("no check", message) for message in (*consequences(), *harmless())]
    for code, message in (*load_registry().log_messages(), *others):
        for pattern in filter(None, (message.pattern, message.undone, message.explains)):
            yield Written(f"{code} {message.kind}", pattern)


def _of_module(path: Path) -> Iterator[Written]:
    text = path.read_text(encoding="utf-8")
    if not _MAY_HAVE_ONE.search(text):
        return
    nodes = list(ast.walk(ast.parse(text)))
    where = str(path.relative_to(ROOT))
    names = _assigned(nodes)
    module: ModuleType | None = None
    for node in nodes:
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function = node.func
        direct = (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id == "re"
            and function.attr in FUNCTIONS
        )
        if not direct and not (isinstance(function, ast.Name) and function.id == "Expression"):
            continue
        if id(node) in names and names[id(node)].startswith("."):
            used = {names[id(node)][1:]}  # re.compile(...).match(...)
        elif isinstance(function, ast.Attribute) and function.attr != "compile":
            used = {function.attr}
        else:
            used = _uses(nodes, names.get(id(node)))
        pattern = _constant(node.args[0])
        if pattern is None:
            module = module or _imported(path)
            pattern = _value(node.args[0], module, names.get(id(node)))
        if pattern is not None:
            flags = sum(_flags(argument) for argument in [*node.args[1:], *(word.value for word in node.keywords)])
            yield Written(f"{where}:{node.lineno}", pattern, flags, bool(used) and used <= ANCHORED)


def _assigned(nodes: Sequence[ast.AST]) -> dict[int, str]:
    """The name that a call's value gets, by the call; `.match` when that is called on it at once."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[id(node.value)] = node.targets[0].id
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found[id(node.value)] = node.target.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
            found[id(node.value)] = f".{node.attr}"
    return found


def _uses(nodes: Sequence[ast.AST], name: str | None) -> set[str]:
    """Methods of an expression that its module calls by name; empty when it goes elsewhere."""
    uses: set[str] = set()
    called: set[int] = set()
    for node in nodes if name and name.startswith("_") else ():
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            uses.add(node.attr)
            called.add(id(node.value))
        elif isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load | ast.Del):
            whole = id(node) not in called  # it goes elsewhere as a whole
            if whole:
                return set()
    return uses


def _constant(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _imported(path: Path) -> ModuleType | None:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    parts = parts[1:] if parts[0] in {"checks", "rules"} else parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    try:
        return importlib.import_module(".".join(parts))
    except Exception:  # noqa: BLE001  # a module for another machine: its constant expressions are read all the same
        return None


def _value(node: ast.expr, module: ModuleType | None, name: str | None) -> str | None:
    """A pattern made of parts: what the module has under its name, or with a word for what is unknown."""
    known = getattr(module, name, None) if module is not None and name else None
    pattern = getattr(known, "pattern", None)
    if isinstance(pattern, str):
        return pattern
    if isinstance(node, ast.JoinedStr):
        parts = [_constant(part) for part in node.values]
        return "".join("word" if part is None else part for part in parts)
    if isinstance(node, ast.Name) and module is not None:
        value = getattr(module, node.id, None)
        return value if isinstance(value, str) else None
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, module, None), _value(node.right, module, None)
        left = _constant(node.left) if left is None else left
        right = _constant(node.right) if right is None else right
        return (left or "") + (right or "") if left or right else None
    return None


def _flags(node: ast.expr) -> int:
    """The flags that an argument names; an argument of another kind names none."""
    total = 0
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "re":
            total |= int(getattr(re, part.attr, 0)) if isinstance(getattr(re, part.attr, None), re.RegexFlag) else 0
    return total


# -- strings that attack


def _character(kind: Any, value: Any) -> str:
    """Characters that one item of a class or of the tree takes, a few of them."""
    if kind is constants.LITERAL:
        return chr(value)
    if kind is constants.RANGE:
        return chr(value[0]) + chr(value[1])
    if kind is constants.CATEGORY:
        return {
            constants.CATEGORY_DIGIT: "0", constants.CATEGORY_SPACE: " \t", constants.CATEGORY_WORD: "a0_",
            constants.CATEGORY_NOT_SPACE: "a-/", constants.CATEGORY_NOT_DIGIT: "a ",
            constants.CATEGORY_NOT_WORD: "- /",
        }.get(value, "a")  # fmt: skip
    return ""


_POOL = "a0 -_./:=\"'\\@A,;()[]{}<>|\t\n#%$&+*~!?x1é"


def _taken(items: Any) -> str:
    """Characters of a class that make good strings."""
    listed = list(items)
    if listed and listed[0][0] is constants.NEGATE:
        refused = set("".join(_character(*item) for item in listed[1:]))
        text = "".join(_character(*item) for item in listed[1:] if item[0] is constants.CATEGORY)
        spaces = {" ", "\t", "\n"} if any(c in text for c in " \t") else set()
        return "".join(c for c in _POOL if c not in refused | spaces)[:8] or "a"
    taken = "".join(_character(*item) for item in listed)
    return taken or "a"


def samples(tree: Any, most: int = 6) -> list[str]:
    """Short strings that a tree takes, its repetitions as few times as allowed."""
    found = [""]
    for kind, value in tree:
        pieces = _pieces(kind, value, most)
        found = [head + piece for head in found for piece in pieces][:most]
    return found


def _pieces(kind: Any, value: Any, most: int) -> list[str]:
    if kind is constants.LITERAL:
        return [chr(value)]
    if kind is constants.NOT_LITERAL:
        return ["a" if value != ord("a") else "b"]
    if kind is constants.ANY:
        return ["a", " "]
    if kind is constants.IN:
        return list(dict.fromkeys(_taken(value)))[:most]
    if kind is constants.BRANCH:
        return [text for branch in value[1] for text in samples(branch, 2)][: most * 2]
    if kind is constants.SUBPATTERN:
        return samples(value[3], most)
    if kind in _REPEATS:
        low = value[0]
        inner = samples(value[2], most)
        return [text * max(low, 1) for text in inner] if low else ["", *inner[:2]]
    if kind is getattr(constants, "ATOMIC_GROUP", None):
        return samples(value, most)
    return [""]


_REPEATS = {constants.MAX_REPEAT, constants.MIN_REPEAT, getattr(constants, "POSSESSIVE_REPEAT", None)} - {None}


def attacks(pattern: str, flags: int) -> Iterator[tuple[str, str, str]]:
    """Prefix, piece and suffix of strings whose middle repeats."""
    tree = parser.parse(pattern, flags)
    seen: set[tuple[str, str, str]] = set()
    for prefix, body in _repetitions(tree, [""]):
        pieces = samples(body, 8)
        pieces += [piece * 2 for piece in pieces[:2]] + [a + b for a in pieces[:3] for b in pieces[:3]]
        for piece in dict.fromkeys(filter(None, pieces)):
            for head in dict.fromkeys((prefix[0], prefix[-1], "", piece)):
                for tail in ("\0", "", "\n "):
                    if (head, piece, tail) not in seen:
                        seen.add((head, piece, tail))
                        yield head, piece, tail
    # What the whole takes, again and again: many starts, each with a long way to go.
    for piece in samples(tree, 6):
        for cut in range(1, min(len(piece), 12) + 1):
            if piece and ("", piece[:cut], "\0") not in seen:
                seen.add(("", piece[:cut], "\0"))
                yield "", piece[:cut], "\0"


def _repetitions(tree: Any, prefix: list[str]) -> Iterator[tuple[list[str], Any]]:
    """Every repetition of a tree that may go far, with strings that lead up to it."""
    for kind, value in tree:
        if kind in _REPEATS:
            if value[1] is constants.MAXREPEAT or value[1] >= 20:
                yield prefix, value[2]
            yield from _repetitions(value[2], prefix)
        elif kind is constants.BRANCH:
            for branch in value[1]:
                yield from _repetitions(branch, prefix)
        elif kind is constants.SUBPATTERN:
            yield from _repetitions(value[3], prefix)
        elif kind in {constants.ASSERT, constants.ASSERT_NOT}:
            yield from _repetitions(value[1], prefix)
        elif kind is getattr(constants, "ATOMIC_GROUP", None):
            yield from _repetitions(value, prefix)
        pieces = _pieces(kind, value, 3)
        prefix = [head + piece for head in prefix for piece in (pieces[0], pieces[-1])][:4]


def broken(item: Written, most: int = 10_000, budget: float = 20.0) -> str | None:
    """Why an expression is broken; None when it takes linear time for every string that was tried."""
    try:
        expression = re.compile(item.pattern, item.flags)
    except re.error as error:
        return f"it does not compile: {error}"
    end = time.perf_counter() + budget
    for head, piece, tail in islice(attacks(item.pattern, item.flags), most):
        if time.perf_counter() > end:
            break
        why = _growth(expression, item.anchored, head, piece, tail)
        if why is not None:
            return f"{head!r} + {piece!r} * n + {tail!r}: {why}"
    return None


def _growth(expression: re.Pattern[str], anchored: bool, head: str, piece: str, tail: str) -> str | None:
    times = {}
    for size in (SHORT, LONG, LONGER):
        text = head + piece * (size // len(piece)) + tail
        times[size] = min(_seconds(expression, anchored, text) for _ in range(1 if size == SHORT else 2))
        if times[size] >= LIMIT:
            return f"{size:,} characters take more than {LIMIT:g} s"
        if size == SHORT and times[size] < SLOW / 16:
            return None  # 1,500 characters within 0.25 ms
        if size == LONG and times[size] < SLOW:
            return None
    if times[LONGER] > GROWTH**2 * times[LONG]:
        return f"{LONG:,} characters take {times[LONG] * 1e3:.1f} ms, {LONGER:,} take {times[LONGER] * 1e3:.1f} ms"
    return None


def _seconds(expression: re.Pattern[str], anchored: bool, text: str) -> float:
    def ring(_number: int, _frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    start = time.process_time()
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, 2 * LIMIT)
            if anchored:
                expression.match(text)
            else:
                for _ in expression.finditer(text):
                    pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)  # it may ring right before: that is caught too
        return time.process_time() - start
    except (OutOfTime, RecursionError):
        return LIMIT
    finally:
        signal.signal(signal.SIGALRM, before)


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Attack every expression of ours; the strings are the same for every seed."""
    del seed, scratch
    sys.path[:0] = [str(ROOT), str(ROOT / "checks"), str(ROOT / "rules")]
    for item in collect():
        yield Attempt(GROUP, f"{item.place} {item.pattern[:60]}", broken(item))
