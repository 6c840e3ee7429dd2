"""LOOP007: a hand-written prefetch loader drops batches, hands out None, or does not wait for its copies."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.control_flow import enclosing
from gpudoctor.analysis.source.syntax_places import extent
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Code, Confidence, Cost, Detail, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.source import Script
from gpudoctor_checks.loop.prefetchers import Prefetcher, calls_of, changed, kept, prefetchers, waited_elsewhere

_MESSAGES = {
    "nothing": (
        template("{name}.{fetch}() returns None, and the loop uses it as a batch."),
        say("the training loop gets None instead of a batch"),
    ),
    "last": (
        template(
            "{name} checks for the next batch before it yields the current one: the last batch of each epoch is lost."
        ),
        say("the last batch of each epoch never reaches the model"),
    ),
    "last_loop": (
        template(
            "{name} yields the batch before the newest one, and never yields the last one. One "
            "batch of each epoch "
            "is lost."
        ),
        say("the last batch of each epoch never reaches the model"),
    ),
    "first": (
        template(
            "{name} loads a batch at its start, and loads the next one before it yields the first. "
            "The first batch "
            "of each epoch is lost."
        ),
        say("the first batch of each epoch never reaches the model"),
    ),
    "wait": (
        template(
            "{name} copies batches asynchronously on its own stream. The program does not wait for "
            "that stream "
            "before it uses the batch."
        ),
        say("the model may read a batch before its copy has finished"),
    ),
    "record": (
        template(
            "{name} yields tensors from its own stream without record_stream(). The next copy may "
            "reuse their "
            "memory while the model still reads them."
        ),
        "",
    ),
}


@dataclass(frozen=True, slots=True)
class _Fault:
    how: str
    node: ast.AST
    fetch: str = ""
    edit_at: str = ""
    text: str = ""
    return_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetcherBrokenDetail(Detail):
    """What the rule reads."""

    how: str
    """`nothing`, `last`, `last_loop`, `first`, `wait` or `record`."""
    edit_at: str = ""
    """Extent of the statement or expression to change."""
    text: str = ""
    """What is to stand there."""
    return_at: str = ""
    """Extent of what is returned."""


class PrefetcherBroken(Check):
    """A hand-written prefetch loader drops or reuses batches, or does not wait for its copies.

    What it finds:
        - Classes that copy the next batch on a CUDA stream: a `preload` that returns None while its result is
          used.
        - A check for the end that comes after preloading, so the last batch is lost.
        - A generator that yields the previous batch and never the last one.
        - A first batch that is overwritten.
        - No `wait_stream` before the batch is used.
        - No `record_stream` (a note).
    Why it hurts:
        A lost batch is silent: epochs are shorter, and with few batches the metric shifts. Without a wait the
        model reads memory that the copy has not filled yet. It sometimes gets wrong values, which no run
        repeats.
    How it knows:
        It reads the class: what `preload` keeps, and what `next`, `__next__` or `__iter__` return. It also
        reads the order in which they test, preload and return.
    False alarms:
        Blocking copies (without `non_blocking=True`) are waited for anyway. A generator that yields inside its
        stream's block makes the consumer work on that stream. A program that waits for the stream outside of
        the class is not a finding.
    Remedies:
        Keep the batch, test it, preload, return it; call `torch.cuda.current_stream().wait_stream(stream)`
        first, and `record_stream` on each tensor. Or use the DataLoader: pinned memory and workers overlap too.
    References:
        - https://docs.pytorch.org/docs/stable/generated/torch.Tensor.record_stream.html
        - https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams
    """

    code = Code("LOOP007")
    name = "prefetcher-broken"
    reads = frozenset({Reads.SOURCE})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        for one in prefetchers(source):
            faults = [*_nothing(one), *_last(one), *_last_of_loop(one), *_first(one)]
            if one.copies_aside and not one.waits and not waited_elsewhere(source, one):
                faults += _unwaited(one)
            elif one.copies_aside and one.waits and not one.keeps_memory and not faults:
                faults.append(_Fault("record", one.node))
            for fault in faults:
                yield self._found(one, fault)

    def _found(self, one: Prefetcher, fault: _Fault) -> Finding:
        message, breaks = _MESSAGES[fault.how]
        span = one.script.span(fault.node)
        evidence = (span,) if fault.node is one.node else (span, one.script.span(one.node))
        return self.finding(
            say(message, name=one.node.name, fetch=fault.fetch),
            evidence=evidence,
            confidence=Confidence.SUSPECTED,
            severity=Severity.ERROR if breaks else Severity.NOTE,
            cost=Cost(breaks=breaks) if breaks else None,
            subject=f"{span.path}:{span.line}",
            detail=PrefetcherBrokenDetail(
                how=fault.how, edit_at=fault.edit_at, text=fault.text, return_at=fault.return_at
            ),
        )


def _nothing(one: Prefetcher) -> Iterator[_Fault]:
    """A preload without a result whose result is used."""
    for fetch in one.loaders:
        gives = any(
            (isinstance(part, ast.Return) and part.value is not None) or isinstance(part, ast.Yield | ast.YieldFrom)
            for part in ast.walk(fetch)
        )
        if gives:
            continue
        for call in calls_of(one.node, fetch.name):
            above = next(enclosing(one.script, call), None)
            handed = isinstance(above, ast.Return) and any(
                part is above for method in one.consumers for part in ast.walk(method)
            )
            if handed or isinstance(
                above, ast.Assign | ast.AnnAssign | ast.Yield | ast.NamedExpr | ast.Compare | ast.Subscript
            ):
                names = kept(fetch) or changed(fetch)
                result = names[0] if len(names) == 1 else f"({', '.join(names)})"
                edit = (extent(one.script, fetch.body[-1]), say("return {result}", result=result))
                yield _Fault("nothing", call, fetch.name, *(edit if names else ()))
                break


def _last(one: Prefetcher) -> Iterator[_Fault]:
    """`batch = self.next; self.preload(); if self.next is None: stop; return batch`."""
    for fetch in one.fetchers:
        names = kept(fetch)
        for method in one.consumers:
            for body in _blocks(method):
                held: dict[str, str] = {}
                loaded = False
                for statement in body:
                    if loaded and isinstance(statement, ast.If) and _ends(statement):
                        tested = _tested(statement.test)
                        if tested in held:
                            tests = extent(one.script, _tested_node(statement.test))
                            yield _Fault("last", statement.test, fetch.name, tests, held[tested])
                            return
                    if loaded and _hands_out(statement):
                        break
                    if _captures(statement, names, held):
                        continue
                    loaded = loaded or (isinstance(statement, ast.Expr) and bool(calls_of(statement, fetch.name)))


def _captures(statement: ast.stmt, names: tuple[str, ...], held: dict[str, str]) -> bool:
    """Note what a statement saves of the batch: `batch = self.next_batch`."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target, value = statement.targets[0], statement.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    for name, item in pairs:
        if isinstance(name, ast.Name) and ast.unparse(item) in names:
            held[ast.unparse(item)] = name.id
    return bool(held)


def _last_of_loop(one: Prefetcher) -> Iterator[_Fault]:
    """`for new in loader: ...; yield old; old = new` with nothing after the loop."""
    method = one.methods.get("__iter__")
    if method is None or not one.streams:
        return
    for body in _blocks(method):
        for index, loop in enumerate(body):
            if not isinstance(loop, ast.For) or _yields(body[index + 1 :]):
                continue
            yielded = _yields(loop.body)
            if len(yielded) != 1 or yielded[0].value is None:
                continue
            names = {part.id for part in ast.walk(yielded[0].value) if isinstance(part, ast.Name)}
            names -= {part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)}
            line = yielded[0].lineno
            bound = [
                (part.id, part.lineno)
                for part in ast.walk(loop)
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            ]
            later = {name for name, at in bound if at > line}
            earlier = {name for name, at in bound if at < line}
            behind = names <= later and not names & earlier
            if names and (behind or _aliases(loop, names, bound)):
                last = ast.unparse(yielded[0]) if behind else _last_yield(loop, names)
                yield _Fault("last_loop", yielded[0], "", extent(one.script, loop), last)


def _aliases(loop: ast.For, names: set[str], bound: list[tuple[str, int]]) -> bool:
    """`current = held; held = preload(new); yield current`: what is handed out was held before this pass."""
    for node in loop.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and len(names) == 1:
            target, held = ast.unparse(node.targets[0]), node.value.id
            again = [at for name, at in bound if name == held]
            if target in names and again and min(again) > node.lineno:
                return True
    return False


def _last_yield(loop: ast.For, names: set[str]) -> str:
    """The yield of the batch that is still held when the loop has ended."""
    for node in loop.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names:
            return say("yield {expression}", expression=ast.unparse(node.value))
    return ""


def _first(one: Prefetcher) -> Iterator[_Fault]:
    """`self.preload()` at the start, and again before `return self.next_batch`."""
    start = [one.methods[name] for name in ("__init__", "__iter__") if name in one.methods]
    for fetch in one.fetchers:
        if not any(calls_of(method, fetch.name) for method in start):
            continue
        names = kept(fetch)
        for method in one.consumers:
            if method.name == "__iter__":
                continue
            loads = [i for i, item in enumerate(method.body) if _is_call(item, fetch.name)]
            last = method.body[-1]
            if not loads or not isinstance(last, ast.Return) or last.value is None:
                continue
            given = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
            if all(ast.unparse(item) in names for item in given):
                yield _Fault(
                    "first",
                    last,
                    fetch.name,
                    edit_at=extent(one.script, method.body[loads[0]]),
                    text=ast.unparse(last.value),
                    return_at=extent(one.script, last.value),
                )


def _unwaited(one: Prefetcher) -> list[_Fault]:
    stream = one.streams[0] if one.streams else ""
    consumer = next((item for item in one.consumers if item.name != "__iter__"), None)
    wait = f"torch.cuda.current_stream().wait_stream({stream})"
    if consumer is not None and stream:
        documented = ast.get_docstring(consumer) is not None and len(consumer.body) > 1
        first = extent(one.script, consumer.body[1 if documented else 0])
        return [_Fault("wait", consumer, "", first, wait)]
    whole = one.methods.get("__iter__")
    yielded = _yields(whole.body) if whole is not None else []
    if whole is None or not yielded or not stream:
        return [_Fault("wait", one.node)]
    return [_Fault("wait", whole, "", extent(one.script, _statement_of(one.script, yielded[0])), wait)]


def _statement_of(script: Script, node: ast.AST) -> ast.AST:
    return next(item for item in enclosing(script, node) if isinstance(item, ast.stmt))


def _blocks(method: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    for part in ast.walk(method):
        for name in ("body", "orelse", "finalbody"):
            found = getattr(part, name, None)
            if isinstance(found, list) and found and isinstance(found[0], ast.stmt):
                yield found


def _yields(body: list[ast.stmt]) -> list[ast.Yield]:
    return [part for item in body for part in ast.walk(item) if isinstance(part, ast.Yield)]


def _ends(statement: ast.If) -> bool:
    last = statement.body[-1]
    if isinstance(last, ast.Raise):
        return "StopIteration" in ast.unparse(last)
    return isinstance(last, ast.Break | ast.Return) and not (isinstance(last, ast.Return) and _gives(last))


def _gives(last: ast.Return) -> bool:
    return last.value is not None and not isinstance(last.value, ast.Constant)


def _hands_out(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Return) or bool(_yields([statement]))


def _is_call(statement: ast.stmt, method: str) -> bool:
    return isinstance(statement, ast.Expr) and ast.unparse(statement.value).startswith(f"self.{method}(")


def _tested_node(test: ast.expr) -> ast.expr:
    """`self.next` of `self.next is None`, `not self.next`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Is | ast.Eq):
        return test.left
    return test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test


def _tested(test: ast.expr) -> str:
    node = _tested_node(test)
    return "" if node is test else ast.unparse(node)
