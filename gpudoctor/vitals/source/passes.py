"""What each scope executes, in order: calls, tests and assignments, with their guards and loops."""

import ast
from collections.abc import Sequence
from dataclasses import replace

from gpudoctor.analysis.source.syntax import called_name, children, is_main_guard, names_in, walk
from gpudoctor.model.signs.source import Call, Guard, GuardKind, Known, Value
from gpudoctor.vitals.source import conditions, effects
from gpudoctor.vitals.source.calls import Resolved, arguments, misfit
from gpudoctor.vitals.source.index import COMPREHENSIONS, text_of
from gpudoctor.vitals.source.library import FAILED
from gpudoctor.vitals.source.program import SourceLookup
from gpudoctor.vitals.source.values import (
    EVAL,
    NOTHING,
    AbstractValue,
    Condition,
    Function,
    FunctionRecord,
    Item,
    LoopRecord,
    Meanings,
    Module,
    value_of,
)

_DEEPEST = 120
"""Levels of nesting that are followed."""
_EXITS = ("sys.exit", "exit", "quit", "os._exit", "os.abort")


def record(program: SourceLookup, module: Module, function: Function | None) -> FunctionRecord:
    """What a module's own level, or a function, does."""
    scope = _Recorder(program, module, function)
    if function is None:
        scope.execute(module.tree.body)
    elif isinstance(function.node, ast.Lambda):
        scope.expression(function.node.body)
    else:
        scope.execute(function.node.body)
    return scope.record


class _Recorder:
    def __init__(self, program: SourceLookup, module: Module, function: Function | None) -> None:
        self.program, self.module = program, module
        self.name = function.name if function is not None else ""
        self.record = FunctionRecord(module=module, name=self.name)
        self.marks: list[Guard] = []
        self.loops: list[LoopRecord] = []
        self.no_grad = function is not None and function.no_grad
        self.evaluating = False
        self.depth = 0

    # what is recorded

    def add(self, node: ast.AST, call: Call | None = None, effect: int = 0, callee: Function | None = None) -> None:
        """Record that this scope executes a node here."""
        self.record.items.append(
            Item(node, call, tuple(self.marks), tuple(self.loops), self.no_grad, self.evaluating, effect, callee)
        )

    def open(self, meanings: Meanings, text: str, line: int) -> None:
        """What follows runs only when a condition holds."""
        self.marks += [meaning.guard(text, line) for meaning in meanings]

    def thing(self, node: ast.expr) -> AbstractValue:
        """What an expression gives."""
        return self.program.thing(self.module, node)

    def meaning(self, node: ast.expr) -> tuple[Meanings, str]:
        """What a condition says of how often what it guards runs, and its text."""
        text = self.module.segment(node)
        return conditions.meaning(node, self.thing(node), text), text

    # statements

    def execute(self, body: Sequence[ast.stmt]) -> bool:
        """Record statements in order; whether their end is never reached."""
        self.depth += 1
        ended = False
        for statement in body if self.depth < _DEEPEST else ():
            ended = self._statement(statement) or ended  # what follows is dead, yet its calls count
        self.depth -= 1
        return ended

    def _statement(self, node: ast.stmt) -> bool:
        match node:
            case ast.Expr(value=value):
                return self._bare(value)
            case ast.Assign(value=value):
                self.expression(value)
                self.add(node)
            case ast.AnnAssign(value=value):
                if value is not None:
                    self.expression(value)
                    self.add(node)
            case ast.AugAssign(value=value):
                self.expression(value)
                self.add(node)
            case ast.If():
                return self._if(node)
            case ast.For() | ast.AsyncFor() | ast.While():
                self._loop(node)
            case ast.With() | ast.AsyncWith():
                return self._with(node)
            case ast.Match(subject=subject, cases=cases):
                self.expression(subject)
                for arm in cases:
                    text = f"match {self.module.segment(subject)}"
                    self._branch(arm.body, (Condition(kind=GuardKind.OTHER),), text, arm.pattern.lineno)
            case ast.Return(value=value):
                if value is not None:
                    self.expression(value)
                self.add(node)
                return True
            case ast.Raise(exc=exc):
                if exc is not None:
                    self.expression(exc)
                self.add(node)
                return True
            case ast.Assert(test=test):
                self.expression(test, tested=True)
                self.add(test)
            case ast.Delete():
                self.add(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for part in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                    self.expression(part)
                for part in node.decorator_list:
                    self._resolve_below(part)
            case ast.ClassDef(name=name, body=body):
                outer, self.name = self.name, f"{self.name}.{name}" if self.name else name
                for item in (*node.decorator_list, *node.bases, *body):
                    if isinstance(item, ast.ClassDef):
                        self._statement(item)
                    elif isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        for inner in (*item.decorator_list, item.args):
                            self._resolve_below(inner)
                    else:
                        self._resolve_below(item)
                self.name = outer
            case ast.Break() | ast.Continue():
                return True
            case _ if hasattr(node, "handlers"):
                return self._try(node)  # type: ignore[arg-type]  # a TryStar too
        return False

    def _resolve_below(self, node: ast.AST) -> None:
        for call in [part for part in walk(node) if isinstance(part, ast.Call)]:
            self.call(call)

    def _bare(self, value: ast.expr) -> bool:
        self.expression(value)
        if isinstance(value, ast.Call):
            # As long as the block around it: `with` gives back what was before it. A bare no_grad() does nothing.
            name = called_name(value)
            entered = value.args[:1] if name == "enter_context" else [value] if name == "set_grad_enabled" else []
            for part in entered:
                mode = self.program.grad_mode(self.module, part)
                self.no_grad = self.no_grad if mode is None else mode
            return text_of(value.func) in _EXITS
        return False

    def _if(self, node: ast.If) -> bool:
        height, below = len(self.marks), node
        ends: list[bool] = []
        while True:
            if is_main_guard(below.test):
                self.execute(below.body)
                self.execute(below.orelse)
                return False
            self.expression(below.test, tested=True)
            self.add(below.test)
            told, text = self.meaning(below.test)
            ends.append(self._branch(below.body, told, text, below.lineno))
            opposite = conditions.negate(told)
            if len(below.orelse) != 1 or not isinstance(below.orelse[0], ast.If):
                break
            self.open(opposite, text, below.lineno)
            below = below.orelse[0]
        other = self._branch(below.orelse, opposite, text, below.lineno)
        del self.marks[height:]
        if below is node and ends[0] and not other and self._skips(node.body):
            self.open(opposite, f"not ({text})", node.lineno)
        elif below is node and other and not ends[0] and self._skips(node.orelse):
            self.open(told, text, node.lineno)
        return all(ends) and other

    def _branch(self, body: Sequence[ast.stmt], told: Meanings, text: str, line: int) -> bool:
        height, evaluating = len(self.marks), self.evaluating
        if body:
            self.open(told, text, line)
        ended = self.execute(body)
        if ended:
            self.evaluating = evaluating
        del self.marks[height:]
        return ended

    def _skips(self, body: Sequence[ast.stmt]) -> bool:
        """Whether a branch that ends does so by going on to the next pass (or back to the caller)."""
        last = body[-1] if body else None
        return isinstance(last, ast.Continue) or (isinstance(last, ast.Return) and not self.loops)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        source = None
        iterates = ""
        if not isinstance(node, ast.While):
            self.expression(node.iter)
            source, iterates = self.thing(node.iter), self.module.segment(node.iter)
        made = LoopRecord(
            node=node,
            scope=self.record,
            parents=tuple(self.loops),
            base=len(self.marks),
            span=self.module.span(node),
            iterates=iterates,
            source=source,
            start=len(self.record.items),
            no_grad=self.no_grad,
        )
        self.record.loops.append(made)
        self.loops.append(made)
        if isinstance(node, ast.While):
            self.expression(node.test, tested=True)
            self.add(node.test)
        else:
            made.count = self._count(node.iter)
            made.targets = tuple(sorted(names_in(node.target)))
        self.execute(node.body)
        self.loops.pop()
        del self.marks[made.base :]
        made.end = len(self.record.items)
        self.execute(node.orelse)

    def _count(self, node: ast.expr) -> Value | None:
        """Passes of `range(N)`."""
        if not (isinstance(node, ast.Call) and called_name(node) in ("range", "trange") and node.args):
            return None
        bound = node.args[0] if len(node.args) == 1 else node.args[1]
        end = value_of(self.thing(bound), self.module.segment(bound))
        start = self.thing(node.args[0]).value if len(node.args) == 2 else 0
        if isinstance(end, Known) and isinstance(end.value, int) and isinstance(start, int):
            return replace(end, value=end.value - start)
        return end

    def _with(self, node: ast.With | ast.AsyncWith) -> bool:
        before = self.no_grad
        for item in node.items:
            self.expression(item.context_expr)
            mode = self.program.grad_mode(self.module, item.context_expr)
            self.no_grad = self.no_grad if mode is None else mode
        self.add(node)
        ended = self.execute(node.body)
        self.no_grad = before
        return ended

    def _try(self, node: ast.Try) -> bool:
        ended, kept = self.execute(node.body), False
        for handler in node.handlers:
            height = len(self.marks)
            text = f"except {self.module.segment(handler.type)}" if handler.type is not None else "except"
            self.marks.append(FAILED.guard(text, handler.lineno))
            kept = not self.execute(handler.body) or kept
            del self.marks[height:]
        self.execute(node.orelse)
        self.execute(node.finalbody)
        return ended and not kept

    # expressions, in the order of their evaluation

    def expression(self, node: ast.expr, *, tested: bool = False) -> None:
        """Record the calls and tests of an expression; `tested` where its truth is what counts."""
        self.depth += 1
        if self.depth < 2 * _DEEPEST and not isinstance(node, (ast.Name, ast.Constant)):
            self._expression(node, tested)
        self.depth -= 1

    def _expression(self, node: ast.expr, tested: bool) -> None:
        height = len(self.marks)
        if isinstance(node, ast.Call):
            for part in children(node):
                self._part(part)
            self.call(node, recorded=True)
        elif isinstance(node, ast.BoolOp):
            for place, operand in enumerate(node.values):
                self.expression(operand, tested=tested)
                if place and tested and not isinstance(operand, (ast.Call, ast.BoolOp)):
                    self.add(operand)
                told, text = self.meaning(operand)
                positive = isinstance(node.op, ast.And)
                text = text if positive else f"not ({text})"
                self.open(told if positive else conditions.negate(told), text, operand.lineno)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.expression(node.operand, tested=tested)
        elif isinstance(node, ast.IfExp):
            self.expression(node.test, tested=True)
            self.add(node.test)
            told, text = self.meaning(node.test)
            self.open(told, text, node.lineno)
            self.expression(node.body)
            del self.marks[height:]
            self.open(conditions.negate(told), text, node.lineno)
            self.expression(node.orelse)
        elif isinstance(node, COMPREHENSIONS):
            self._comprehension(node)
        elif isinstance(node, ast.BinOp):
            chain = [node]
            while isinstance(chain[-1].left, ast.BinOp):
                chain.append(chain[-1].left)
            self.expression(chain[-1].left)
            for part in reversed(chain):
                self.expression(part.right)
        elif not isinstance(node, ast.Lambda):
            for part in children(node):
                self._part(part)
        del self.marks[height:]

    def _part(self, node: ast.AST) -> None:
        if isinstance(node, ast.keyword):
            node = node.value
        if isinstance(node, ast.expr):
            self.expression(node)

    def _comprehension(self, node: ast.expr) -> None:
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        self.expression(generators[0].iter)
        made = LoopRecord(
            node=node,
            scope=self.record,
            parents=tuple(self.loops),
            base=len(self.marks),
            span=self.module.span(node),
            iterates=self.module.segment(generators[0].iter),
            source=self.thing(generators[0].iter),
            start=len(self.record.items),
        )
        self.loops.append(made)
        for place, generator in enumerate(generators):
            if place:
                self.expression(generator.iter)
            for test in generator.ifs:
                self.expression(test)
                self.add(test)
        for part in (getattr(node, "key", None), getattr(node, "value", None), getattr(node, "elt", None)):
            if part is not None:
                self.expression(part)
        self.loops.pop()
        made.end = len(self.record.items)

    def call(self, node: ast.Call, *, recorded: bool = False) -> None:
        """Resolve a call, and record it where it is one that this scope executes."""
        program, module = self.program, self.module
        found = program.resolve(module, node)
        made, positional = told(program, module, node, found, self.name, tuple(self.marks))
        module.calls[node] = made
        if not recorded:
            return
        effect = effects.of_call(found, made, node, positional)
        callee = found.callee
        if callee is None and made.method == "step":  # `optimizer.step(closure)` runs the closure
            given = (*positional[:2], *(program.thing(module, item.value) for item in node.keywords))
            callee = next((t.definition for t in given if isinstance(t.definition, Function)), None)
        if effect & effects.MODES:
            self.evaluating = bool(effect & EVAL)
        self.add(node, made, effect, callee)


def told(
    program: SourceLookup, module: Module, node: ast.Call, found: Resolved, function: str, guards: tuple[Guard, ...]
) -> tuple[Call, list[AbstractValue]]:
    """A call as checks see it, and what it is given by place."""
    segment = module.segment
    positional, keywords = arguments(program, module, node)
    starred = [item.value for item in node.args if isinstance(item, ast.Starred)]
    spread = [program.thing(module, item.value) for item in node.keywords if item.arg is None]
    texts = [segment(arg) for arg in node.args] if not starred else [""] * len(positional)
    values = [value_of(thing, text) for thing, text in zip(positional, texts, strict=True)]
    written = {item.arg: item.value for item in node.keywords if item.arg is not None}
    named = {
        name: value_of(thing, segment(written[name]) if name in written else name) for name, thing in keywords.items()
    }
    open_ended = any(program.thing(module, item).items is None for item in starred) or any(
        held.open or (held.keys is None and held.attrs is None) for held in spread
    )
    base = found.base
    runs = found.callee if found.callee is not None else found.klass
    made = Call(
        name=found.name,
        method=found.name.rpartition(".")[2],
        receiver=segment(node.func.value, 200) if isinstance(node.func, ast.Attribute) else "",
        positional=tuple(values),
        keywords=named,
        open_ended=open_ended,
        span=module.span(node),
        function=function,
        node=node,
        receiver_type=program.type_name(base),
        receiver_class=base.klass.name if base.klass is not None else None,
        receiver_device=base.device,
        guessed=base.guessed,
        guards=guards,
        runs=runs.name if runs is not None else "",
        home=runs.module.path if runs is not None else "",
        builds=found.klass.info() if found.klass is not None and found.base is NOTHING else None,
        misfit=misfit(found, node),
    )
    return made, positional
