"""LOOP007: a hand-written prefetch loader drops batches, hands out None, or does not wait for its copies."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.source import Script

_FETCHES = re.compile(r"pre_?load|pre_?fetch|fetch_next|load_next|_fetch|advance", re.IGNORECASE)
_WAITS = re.compile(r"wait_stream|wait_event|synchronize\(|\.wait\(")
_MESSAGES = {
    "nothing": (
        template("{name}.{fetch}() returns None, and the loop uses it as a batch."),
        say("the training loop gets None instead of a batch"),
        say("return the batch"),
    ),
    "last": (
        template(
            "{name} checks for the next batch before it yields the current one: the last batch of each epoch is lost."
        ),
        say("the last batch of each epoch never reaches the model"),
        say("the batch that is returned"),
    ),
    "wait": (
        template(
            "{name} copies batches asynchronously on its own stream. The program does not wait for that stream before "
            "it uses the batch."
        ),
        say("the model may read a batch before its copy has finished"),
        "torch.cuda.current_stream().wait_stream(self.stream)",
    ),
}
"""Message, what breaks, and what is to stand there."""


class PrefetcherBroken(Check):
    """A hand-written prefetch loader drops or reuses batches, or does not wait for its copies.

    What it finds:
        Classes that copy the next batch on a CUDA stream:

        - a `preload` that returns None while its result is used
        - a check for the end that comes after preloading, so the last batch is lost
        - no `wait_stream` before the batch is used
    Why it hurts:
        A lost batch is silent: epochs are shorter, and with few batches the metric shifts. Without a wait the
        model reads memory that the copy has not filled yet. It sometimes gets wrong values, which no run
        repeats.
    How it knows:
        It reads the class: what `preload` keeps, and what `next`, `__next__` or `__iter__` return. It also
        reads the order in which they test, preload and return.
    False alarms:
        Blocking copies (without `non_blocking=True`) are waited for anyway. A program that waits for a stream
        anywhere is not reported for that.
    Remedies:
        Keep the batch, test it, preload, return it; call `torch.cuda.current_stream().wait_stream(stream)`
        first, and `record_stream` on each tensor. Or use the DataLoader: pinned memory and workers overlap too.
    References:
        - https://docs.pytorch.org/docs/stable/generated/torch.Tensor.record_stream.html
    """

    code = "LOOP007"
    reads = frozenset({Reads.SOURCE})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        scripts = patient.source.scripts
        waits = any(_WAITS.search(script.text) for script in scripts)
        for script in scripts:
            for node in nodes(script, ast.ClassDef) if "tream(" in script.text else ():
                methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
                for method in methods.values():
                    yield from self._nothing(script, node, method)
                for name in ("next", "__next__"):
                    late = _ends_late(methods[name]) if name in methods else None
                    if late is not None:
                        yield self._found("last", script, node, late)
                hands = next((methods[name] for name in ("next", "__next__", "__iter__") if name in methods), None)
                if hands is not None and not waits and _copies_aside(node):
                    yield self._found("wait", script, node, hands)

    def _nothing(self, script: Script, node: ast.ClassDef, method: ast.FunctionDef) -> Iterator[Finding]:
        """A method that loads and has no result, whose result is used."""
        results = (part.value for part in ast.walk(method) if isinstance(part, ast.Return | ast.Yield | ast.YieldFrom))
        if not _FETCHES.search(method.name) or any(value is not None for value in results):
            return
        for part in ast.walk(node):
            value = part.value if isinstance(part, ast.Return | ast.Assign | ast.NamedExpr) else None
            if isinstance(value, ast.Call) and ast.unparse(value.func) == f"self.{method.name}":
                yield self._found("nothing", script, node, part, fetch=method.name)
                return

    def _found(self, how: str, script: Script, owner: ast.ClassDef, node: ast.AST, *, fetch: str = "") -> Finding:
        message, breaks, text = _MESSAGES[how]
        span = script.span(node)
        return self.finding(
            say(message, name=owner.name, fetch=fetch),
            evidence=(span, script.span(owner)),
            breaks=breaks,
            detail=Facts(how=how, text=text),
        )


def _ends_late(method: ast.FunctionDef) -> ast.If | None:
    """`batch = self.next; self.preload(); if self.next is None: raise StopIteration`: the test."""
    held: set[str] = set()
    loaded = False
    for statement in method.body:
        if isinstance(statement, ast.Assign):
            held |= {ast.unparse(part) for part in ast.walk(statement.value) if isinstance(part, ast.Attribute)}
        elif isinstance(statement, ast.Expr):
            loaded = loaded or bool(_FETCHES.search(ast.unparse(statement.value)))
        elif isinstance(statement, ast.If) and loaded and "StopIteration" in ast.unparse(statement.body[-1]):
            tested = {ast.unparse(part) for part in ast.walk(statement.test) if isinstance(part, ast.Attribute)}
            return statement if tested & held else None
    return None


def _copies_aside(node: ast.ClassDef) -> bool:
    """Whether a class starts asynchronous copies on a stream of its own."""
    return any(
        isinstance(part, ast.With)
        and "stream(" in ast.unparse(part.items[0])
        and "non_blocking=True" in ast.unparse(part)
        for part in ast.walk(node)
    )
