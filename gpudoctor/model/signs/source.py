"""Training scripts as checks see them: resolved calls, loops with a role, guards, values.

The reader (`gpudoctor.vitals.source`) never runs or imports user code. What it cannot know is `Unknown`, and
a check that needs it says "suspected" or stays silent.
"""

import ast
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.memo import remembered
from gpudoctor.model.records import field, frozen

Literal: TypeAlias = "int | float | str | bool | None | tuple[Literal, ...]"


@frozen
class Known:
    """A value that could be told without running anything."""

    value: Literal
    origin: str = "literal"
    """`literal`, `constant`, `default of --workers`, `command line`, `field default`, `config ds.json`."""
    text: str = ""


@frozen
class Unknown:
    """A value that only a run can tell."""

    text: str = ""


Value: TypeAlias = Known | Unknown


@frozen
class Thing:
    """What an expression gives, as far as the source tells."""

    type: str | None = None
    device: str | None = None
    value: Value = Unknown()
    made: tuple[ast.Call, ...] = ()
    """The calls that may have made it, or what it goes through: names, parameters and returns followed."""
    defined: ast.AST | None = None


class LoopRole(Enum):
    """What a loop does."""

    TRAINING = "training"
    """One pass of its body is one training step (backward or an engine's step inside)."""
    EPOCHS = "epochs"
    EVALUATION = "evaluation"
    """It runs a model forward over data without backward."""
    OTHER = "other"


class GuardKind(Enum):
    """What a condition around a statement means for how often it runs."""

    PERIOD = "period"
    """Every N passes: `if step % N == 0`; `period` holds N."""
    ONCE = "once"
    """On one pass, or on a few: `if step == 10`, `if step < 5`, `if not initialised`, the last batch."""
    RANK = "rank"
    """On one rank only: `if rank == 0`, `is_main_process`."""
    SWITCH = "switch"
    """A configuration switch: `if args.profile`; `value` holds its default where it could be told."""
    FAILURE = "failure"
    """An except handler, or a test for NaN, Inf or an error."""
    OTHER = "other"


@frozen
class Guard:
    """One condition between the loop's head and a statement in its body."""

    kind: GuardKind
    text: str
    line: int
    period: Value | None = None
    value: Value | None = None
    """The default of a SWITCH guard, already negated for an else branch. Known True with the origin
    `WITH_A_GPU` for tests of `torch.cuda.is_available()` and the like."""
    mostly: bool = False
    """Whether it holds on nearly every pass (no failure, every pass but the Nth, `step > 0`): kind OTHER, and
    it does not thin passes."""

    @property
    def never(self) -> bool:
        """Whether a switch is known to be off, so the statement does not run by default."""
        return self.kind is GuardKind.SWITCH and isinstance(self.value, Known) and not self.value.value


@frozen
class Misfit:
    """What a call gives that a function of the program cannot take: Python raises a TypeError."""

    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    surplus: int
    name: str
    """The function, `build`, `Model.build`; of a constructor the class that is called."""
    definition: SourceSpan


@frozen
class Call:
    """One call in a script."""

    name: str
    """The resolved dotted name, `torch.utils.data.DataLoader`; `wandb.log` whatever the alias. A method of an
    object whose type is known is `<type>.<method>` (`torch.Tensor.item`, `torch.optim.Optimizer.step`,
    `torch.nn.Module.train`, `torch.amp.GradScaler.step`); of an unknown one, `?.<method>`."""
    method: str
    receiver: str
    positional: tuple[Value, ...]
    keywords: Mapping[str, Value]
    open_ended: bool
    """True with `*args` or `**kwargs` that could not be followed: an argument not seen may still be there."""
    span: SourceSpan
    function: str
    """Qualified name of the enclosing function, "" at module level."""
    node: ast.Call
    receiver_type: str | None = None
    """Type of the receiver, in the words of `Thing.type`; for a call of an object (`model(x)`), of that."""
    receiver_class: str | None = None
    """The program's own class that the receiver is an instance of, through wrappers such as DDP."""
    receiver_device: str | None = None
    """Where the receiver lives: `cuda`, `cpu`, `maybe-cuda`, `mps`; None when it cannot be told."""
    guessed: bool = False
    """Whether the receiver's type was told from its name alone (a parameter called `optimizer`)."""
    guards: tuple[Guard, ...] = ()
    """Conditions between the head of its function (or the module) and here, outermost first, loops or not;
    `if __name__ == "__main__"` is none."""
    runs: str = ""
    """Qualified name of the program's own function that it runs, `Net.forward`, `Net.__init__`; else ""."""
    home: str = ""
    """Path of the script that has this function."""
    builds: "ClassInfo | None" = None
    """The program's own class that it makes an instance of."""
    misfit: Misfit | None = None
    """Where the program's own function or class that is called cannot take the arguments."""

    def argument(self, keyword: str, position: int | None = None) -> Value | None:
        """The argument's value; None when it is not passed (`Unknown` when it might be, see `open_ended`)."""
        if keyword in self.keywords:
            return self.keywords[keyword]
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return Unknown(text="**") if self.open_ended else None


@frozen
class Event:
    """One statement or expression that one pass of a loop executes, functions called from it included."""

    node: ast.AST
    """A Call, Assign, AugAssign, AnnAssign, Delete, With, Return, Raise, or the test expression of an If,
    While, Assert or conditional expression. Calls come in order of evaluation."""
    call: Call | None
    span: SourceSpan
    guards: tuple[Guard, ...]
    """Conditions from the loop's head to here, outermost first, those at call sites included."""
    inner: tuple["Loop", ...]
    """Loops inside the loop that enclose it, outermost first: nested per-sample loops, an evaluation loop."""
    via: tuple[SourceSpan, ...] = ()
    """Call sites that lead from the loop's own body to here, outermost first."""
    evaluation: bool = False
    """Inside an evaluation: an evaluation loop, a function that evaluates, or after `.eval()` under no_grad."""
    no_grad: bool = False
    """Under `torch.no_grad`/`inference_mode`, by context or decorator."""
    thing: Callable[[ast.AST], Thing] = field(default=lambda _: Thing(), repr=False, compare=False)
    """What an expression of its script gives, looked up when asked."""

    @property
    def every_pass(self) -> bool:
        """Whether it runs on every pass, as far as its guards tell (a rank guard does not thin passes)."""
        return all(guard.kind is GuardKind.RANK or _always(guard) for guard in self.guards)

    @property
    def period(self) -> Value | None:
        """Passes between two runs: Known(1) unguarded, the period of its guard, None when it cannot be told."""
        thinning = [g for g in self.guards if g.kind is not GuardKind.RANK and not _always(g)]
        if len(thinning) == 1 and thinning[0].kind is GuardKind.PERIOD:
            return thinning[0].period
        return None if thinning else Known(value=1, origin="unguarded")


def _always(guard: Guard) -> bool:
    if guard.mostly:
        return True
    if guard.kind is GuardKind.PERIOD:
        return isinstance(guard.period, Known) and guard.period.value == 1
    return guard.kind is GuardKind.SWITCH and isinstance(guard.value, Known) and bool(guard.value.value)


@frozen(eq=False)
class Loop:
    """A for or while loop, or the hidden loop of an engine (HF Trainer, Lightning)."""

    role: LoopRole
    span: SourceSpan
    end_line: int
    function: str
    """Qualified name of the enclosing function, "" at module level."""
    iterates: str
    """The iterable as written: `enumerate(train_loader)`; "" for while."""
    iterable_type: str | None
    """Its type where known, `torch.utils.data.DataLoader`."""
    targets: tuple[str, ...]
    events: Sequence[Event]
    """What one pass executes, in order, local functions and methods followed. Made when first looked at."""
    parents: tuple["Loop", ...]
    engine: str | None = None
    """`transformers.Trainer`, `lightning.Trainer`... when the loop is an engine's; its events are the user's
    hooks (`training_step`, `compute_metrics`)."""
    accumulates: Value | None = None
    """Micro-batches an optimizer step, when the body shows gradient accumulation."""
    confident: bool = True
    count: Value | None = None
    """Passes of a `range(...)`, `range(args.epochs)` by the option's default; None for other loops."""

    def calls(self, *names: str) -> Iterator[Event]:
        """Events that call one of the names; a name that starts with a dot matches any method of that name."""
        for event in self.events:
            if event.call is not None and (event.call.name in names or ("." + event.call.method) in names or not names):
                yield event


@frozen
class ClassInfo:
    """A class defined in a script."""

    name: str
    bases: tuple[str, ...]
    """Resolved names; a base defined in the same program is followed to library names too."""
    methods: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef]
    span: SourceSpan
    lineage: tuple[ast.ClassDef, ...] = ()
    """Itself and the program's classes that it extends, nearest first."""


@frozen
class Script:
    """One script, notebook or module of the user's program."""

    path: str
    text: str
    tree: ast.Module
    kinds: Mapping[type[ast.AST], Sequence[ast.AST]] = field(repr=False, compare=False)
    """The nodes of the tree by their exact type in the order of `ast.walk`; all of them under `ast.AST`."""
    lines: int
    calls: tuple[Call, ...]
    loops: tuple[Loop, ...]
    classes: Mapping[str, ClassInfo]
    imports: Mapping[str, str]
    arguments: Mapping[str, Value]
    """Command-line options and config fields with their value: given on the launch line, or default."""
    entry: bool
    """Whether it was named as a target or launched, and is not merely imported by one."""
    ignored: Mapping[int, tuple[str, ...]]
    """1-based line to the codes silenced there by `# gpudoctor: ignore[...]`; `*` for a bare ignore."""
    ignore_reasons: Mapping[int, str]
    unused: tuple[tuple[int, int], ...] = ()
    """First and last lines of functions and classes that nothing names, as far as was read."""
    links: tuple[str, ...] = ()
    starts: bool = True
    """Whether it does something when it is run, and is not a module for others."""
    parents: Mapping[ast.AST, ast.AST] = field(default_factory=dict, repr=False, compare=False)
    """Each node with the one that holds it."""
    thing: Callable[[ast.AST], Thing] = field(default=lambda _: Thing(), repr=False, compare=False)
    written: Callable[[ast.expr], ast.expr] = field(default=lambda node: node, repr=False, compare=False)
    """The one expression that gives a name its value where it is used; the name itself where there are several."""
    span: Callable[[ast.AST], SourceSpan] = field(repr=False, compare=False)
    """The place of a node in this script."""
    memory: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)
    """Answers about it that were worked out before: `gpudoctor.analysis.memo`."""

    def calls_to(self, *names: str) -> Iterator[Call]:
        """Calls of one of the resolved names; a name that starts with a dot matches any such method."""
        index = remembered(self, "calls by name", self._calls_by_name)
        found = {place: call for name in names for place, call in index.get(name, ())}
        for place in sorted(found):
            yield found[place]

    def _calls_by_name(self) -> Mapping[str, list[tuple[int, Call]]]:
        """Calls with their place among all, by resolved name and by `.method`."""
        found: dict[str, list[tuple[int, Call]]] = {}
        for place, call in enumerate(self.calls):
            for key in {call.name, "." + call.method}:
                found.setdefault(key, []).append((place, call))
        return found

    @property
    def text_lines(self) -> Sequence[str]:
        """The text line by line (`\\n` alone ends one, as for Python's line numbers), without line ends."""
        return remembered(self, "text lines", lambda: self.text.split("\n"))


@frozen
class Source:
    """The scripts of one program: those named, and the modules beside them that they import."""

    scripts: tuple[Script, ...]
    unread: tuple[tuple[str, str], ...] = ()
    """Files that could not be read, each with a sentence (syntax error with its line, encoding, size)."""
    edited: frozenset[str] = frozenset()
    """Paths of scripts that a run has had and that have another text by now: no edit fits them."""
    memory: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)
    """Answers about it that were worked out before: `gpudoctor.analysis.memo`."""

    @property
    def training_loops(self) -> Iterator[tuple[Script, Loop]]:
        """Every loop whose pass is a training step."""
        for script in self.scripts:
            for loop in script.loops:
                if loop.role is LoopRole.TRAINING:
                    yield script, loop

    @property
    def trains(self) -> bool:
        """Whether any training loop was found."""
        return next(self.training_loops, None) is not None
