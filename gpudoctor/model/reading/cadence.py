"""How often a call runs in a training loop, and the edits that make it run less often."""

import ast
import re
from weakref import WeakKeyDictionary

from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.reading.edits import delete_statement, replace_node
from gpudoctor.model.reading.program import FUNCTIONS, bound, enclosing, loop_node, statement
from gpudoctor.model.remedy import Edit, KeywordEdit, TextEdit
from gpudoctor.model.signs.source import Event, Guard, GuardKind, Known, Loop, LoopRole, Script, Source

_EPOCH = re.compile(r"epoch|episode|^ep$|^e$|^round$")
_MEASURES = re.compile(
    r"(?:^|[_./\\-])(?:bench(?:mark\w*|ing)?|profil\w*|timing|timeit|latency|throughput|speed_?test)"
)


_CODE: "WeakKeyDictionary[ast.Module, str]" = WeakKeyDictionary()


def without_comments(script: Script) -> str:
    """The script's code as Python writes it: a word in a comment is no evidence. Made once a script."""
    found = _CODE.get(script.tree)
    if found is None:
        found = _CODE[script.tree] = ast.unparse(script.tree)
    return found


def step_period(event: Event) -> float | None:
    """Training steps between two runs; None when it does not run step by step, or nobody can tell."""
    if any(guard.never or guard.kind in (GuardKind.ONCE, GuardKind.FAILURE) for guard in event.guards):
        return None
    if event.evaluation or any(inner.role in (LoopRole.TRAINING, LoopRole.EVALUATION) for inner in event.inner):
        return None
    period = event.period
    if isinstance(period, Known) and isinstance(period.value, int | float) and period.value >= 1:
        return float(period.value)
    return None


def often(period: float) -> str:
    """The period in words: `on every training step`, `every 5 training steps`."""
    return "on every training step" if period == 1 else f"every {period:g} training steps"


def full_batch(loop: Loop) -> bool:
    """Whether one pass is a whole epoch (`for epoch in range(200)` over one graph or one matrix)."""
    return any(_EPOCH.search(target.lower()) for target in loop.targets)


def measures(script: Script, loop: Loop) -> bool:
    """Whether the loop is there to be timed: a file or a function that says benchmark or profile."""
    name = script.path.replace("\\", "/").rpartition("/")[2]
    return bool(_MEASURES.search(name.lower()) or _MEASURES.search(loop.function.lower()))


def brief(script: Script, loop: Loop, most: float) -> bool:
    """Whether the loop, with those around it, is known to end within so many passes."""
    total = 1
    for part in (loop, *loop.parents):
        passes = bound(script, part)
        if passes is None or (total := total * passes) > most:
            return False
    return True


def option_of(event: Event) -> str:
    """The command-line option that its period comes from, `--save-every`; else ""."""
    for guard in event.guards:
        if guard.kind is GuardKind.PERIOD and isinstance(guard.period, Known):
            origin = guard.period.origin
            if origin.startswith("default of --"):
                return origin.removeprefix("default of ")
    return ""


def event_at(loop: Loop, line: int, column: int, path: str) -> Event | None:
    """The loop's event that stands at a place."""
    for event in loop.events:
        if (event.span.line, event.span.column, event.span.path) == (line, column, path):
            return event
    return None


def less_often(
    script: Script, loop: Loop, event: Event, period: int, *, block: bool = False
) -> tuple[Edit, ...]:
    """Edits that make an event run every `period` steps: its guard's number, or a guard around it.

    Nothing where the statement's value is used, where it shares its guard with other work (unless the whole
    `block` is meant), or where the passes cannot be counted. `script` is the one that holds the loop.
    """
    guards = [guard for guard in event.guards if guard.kind is GuardKind.PERIOD]
    if guards:
        return _number(script, event, guards[0], period, block=block)
    return _wrapped(script, loop, event.node, period) if event.span.path == script.path else ()


def _number(script: Script, event: Event, guard: Guard, period: int, *, block: bool) -> tuple[Edit, ...]:
    option = option_of(event)
    if option:
        return _default(script, option, period)
    for node in ast.walk(script.tree):
        if not isinstance(node, ast.If) or node.test.lineno != guard.line or ast.unparse(node.test) not in {
            guard.text, _plain(guard.text)
        }:  # fmt: skip
            continue
        if not block and (node.orelse or not all(isinstance(item, ast.Expr) for item in node.body)):
            return ()
        number = modulus(node.test)
        return (replace_node(script, number, str(period)),) if number is not None else ()
    return ()


def _plain(text: str) -> str:
    """An expression as `ast.unparse` writes it."""
    try:
        return ast.unparse(ast.parse(text.strip(), mode="eval"))
    except (SyntaxError, ValueError):
        return text


def modulus(test: ast.expr) -> ast.Constant | None:
    """The written number of `step % 20 == 0`."""
    for part in ast.walk(test):
        if (
            isinstance(part, ast.BinOp)
            and isinstance(part.op, ast.Mod)
            and isinstance(part.right, ast.Constant)
        ):
            return part.right
    return None


def _default(script: Script, option: str, period: int) -> tuple[Edit, ...]:
    for call in script.calls_to(".add_argument"):
        names = [item.value for item in call.node.args if isinstance(item, ast.Constant)]
        default = next((item.value for item in call.node.keywords if item.arg == "default"), None)
        if option in names and isinstance(default, ast.Constant):
            place = call.span
            return (KeywordEdit(path=script.path, line=place.line, column=place.column,
                                set=(("default", str(period)),)),)  # fmt: skip
    return ()


def _wrapped(script: Script, loop: Loop, node: ast.AST, period: int) -> tuple[Edit, ...]:
    whole = statement(script, node)
    head = loop_node(script, loop)
    if not isinstance(whole, ast.Expr) or not isinstance(head, ast.For) or not _inside(script, whole, head):
        return ()
    text = _alone(script, whole)
    if text is None:
        return ()
    name = counter(head)
    edits: tuple[Edit, ...] = ()
    if not name:
        name, edits = counted(script, head)
        if not name:
            return ()
    first, _, rest = text.partition("\n")
    indent, _, _ = script.text.splitlines()[whole.lineno - 1].partition(first)
    step = "\t" if "\t" in indent else "    "
    body = indent + step + first + "".join("\n" + step + line for line in rest.split("\n") if rest)
    return (*edits, replace_node(script, whole, f"if {name} % {period} == 0:\n{body}"))


def counter(head: ast.For) -> str:
    """The name that counts the passes of a loop: of `enumerate` or `range`; "" when none does."""
    names = [ast.unparse(part.func) for part in ast.walk(head.iter) if isinstance(part, ast.Call)]
    if "enumerate" in names and isinstance(head.target, ast.Tuple):
        first = head.target.elts[0]
        return first.id if isinstance(first, ast.Name) else ""
    if {"range", "trange"} & set(names) and isinstance(head.target, ast.Name):
        return head.target.id
    return ""


def counted(script: Script, head: ast.For) -> tuple[str, tuple[Edit, ...]]:
    """A counter added to a loop over a loader: `for step, batch in enumerate(loader)`."""
    used = {node.id for node in ast.walk(script.tree) if isinstance(node, ast.Name)}
    used |= {node.arg for node in ast.walk(script.tree) if isinstance(node, ast.arg)}
    name = next((word for word in ("step", "step_index", "pass_index") if word not in used), "")
    target = ast.get_source_segment(script.text, head.target) or ""
    source = ast.get_source_segment(script.text, head.iter) or ""
    if not name or not target or not source or "enumerate" in used:
        return "", ()
    if isinstance(head.target, ast.Tuple) and not target.startswith("("):
        target = f"({target})"
    return name, (
        replace_node(script, head.target, f"{name}, {target}"),
        replace_node(script, head.iter, f"enumerate({source})"),
    )


def _inside(script: Script, node: ast.stmt, head: ast.For) -> bool:
    """Whether a statement stands in the loop's own text, not in a function that it calls or an inner loop."""
    for above in enclosing(script, node):
        if above is head:
            return True
        if isinstance(above, (*FUNCTIONS, ast.For, ast.While)):
            return False
    return False


def _alone(script: Script, node: ast.stmt) -> str | None:
    """The text of a statement that has its lines for itself and can be indented; None otherwise."""
    text = ast.get_source_segment(script.text, node) or ""
    lines = script.text.splitlines()
    first, last = lines[node.lineno - 1], lines[(node.end_lineno or node.lineno) - 1]
    head, _, _ = text.partition("\n")
    before, _, _ = first.partition(head)
    _, _, after = last.rpartition(text.split("\n")[-1])
    if not text or before.strip() or (after.strip() and not after.strip().startswith("#")):
        return None
    if "\n" in text and any(
        isinstance(part, ast.Constant | ast.JoinedStr) and part.lineno != part.end_lineno
        for part in ast.walk(node)
    ):
        return None
    return text


def without(script: Script, place: SourceSpan) -> TextEdit | None:
    """The deletion of a call that is a statement of its own, with its lines; None when it is more or less."""
    for call in script.calls:
        whole = statement(script, call.node) if call.span == place else None
        if isinstance(whole, ast.Expr) and whole.value is call.node:
            block = _block(script, whole)
            try:
                return delete_statement(script, whole, block) if block else None
            except ValueError:
                return None
    return None


def _block(script: Script, whole: ast.stmt) -> list[ast.stmt]:
    """The block that holds a statement."""
    above = next(iter(enclosing(script, whole)), None)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(above, name, None)
        if isinstance(block, list) and any(item is whole for item in block):
            return block
    return []


def settable(
    source: Source, span: SourceSpan, *names: str, method: str = "", free: int = 0, remove: tuple[str, ...] = ()
) -> bool:
    """Whether keywords of the call at a place may be set or removed by an edit.

    Each is written there, or neither stars nor more than `free` positional arguments could carry it already.
    Of a chain `a.map(f).shuffle()`, whose calls all begin at one place, an edit finds the outermost: that one
    must be of the `method` meant; without a method no other call may begin there.
    """
    for script in source.scripts:
        if script.path != span.path:
            continue
        here = [call for call in script.calls if (call.span.line, call.span.column) == (span.line, span.column)]
        if not here or (not method and len(here) > 1):
            return False
        outer = max(here, key=lambda call: (call.node.end_lineno or 0, call.node.end_col_offset or 0))
        if method and outer.method != method:
            return False
        written = {item.arg for item in outer.node.keywords}
        stars = None in written or any(isinstance(item, ast.Starred) for item in outer.node.args)
        absent = [name for name in names if name not in written]
        return set(remove) <= written and (not absent or (not stars and len(outer.node.args) <= free))
    return False
