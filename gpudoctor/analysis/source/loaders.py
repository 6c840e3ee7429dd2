"""The data loaders of a program, followed from where they are built to the loops that draw from them.

A view of the source sign, for every check that asks about loaders: how many workers, pinned or not, and
whether a training loop consumes it.
"""

import ast
import re
from collections.abc import Mapping
from enum import Enum

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import bound_to, loop_node
from gpudoctor.analysis.source.declared_settings import is_literal
from gpudoctor.analysis.source.entry_points import in_a_training
from gpudoctor.analysis.source.syntax import in_order, keyword_value, words
from gpudoctor.lang import say
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Call, Known, Literal, Loop, LoopRole, Script, Source, Unknown, Value

_CLASSES = words(
    "torch.utils.data.DataLoader torch_geometric.loader.DataLoader torch_geometric.data.DataLoader "
    "torchdata.stateful_dataloader.StatefulDataLoader monai.data.DataLoader"
)
"""Classes that take torch's loader arguments by the same names."""
_ARGUMENTS = frozenset(
    {"transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments", "trl.SFTConfig", "trl.DPOConfig"}
)
"""Classes whose `dataloader_*` fields configure a loader that an engine builds."""
_HOLDER = r"(?:loader|dataloader|dl|iter|data|set|s)?$"
_TRAINING = re.compile(r"(?:train|training|trn)" + _HOLDER)
_EVALUATION = re.compile(
    r"(?:val|valid|validation|eval|evaluation|test|testing|dev|predict|prediction|infer|inference)" + _HOLDER
)


class LoaderRole(Enum):
    """Who draws from a loader."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    UNKNOWN = "unknown"


@frozen(eq=False)
class Loader:
    """One place where a loader is built, or where an engine is told how to build it."""

    script: Script
    call: Call
    names: tuple[str, ...]
    """Names that hold it, `train_loader`, `self.loader`."""
    loops: tuple[tuple[Script, Loop], ...]
    """Loops that draw from it."""
    role: LoaderRole
    engine: bool = False
    """True for an engine's arguments (`TrainingArguments`): keywords are `dataloader_*`."""
    ran: Mapping[str, Value] | None = None
    """What a recorded run had for arguments, by torch's keyword; None where no run was recorded."""

    def argument(self, keyword: str, default: Literal = None) -> Value:
        """A loader argument by torch's keyword; the default when it is not passed, `Unknown` when untold."""
        written = self.written(keyword, default)
        if self.ran is None:
            return written
        seen = self.ran.get(keyword)
        if seen is None:
            return written if self._fixed(written) else Unknown()
        same = isinstance(written, Known) and isinstance(seen, Known) and written.value == seen.value
        return written if same else seen

    def written(self, keyword: str, default: Literal = None) -> Value:
        """The same as the source has it, whatever a run had."""
        name = f"dataloader_{keyword}" if self.engine else keyword
        value = self.call.argument(name, None if self.engine else _POSITIONS.get(keyword))
        return Known(value=default, origin=self._unwritten) if value is None else value

    @property
    def _unwritten(self) -> str:
        """Where the value of an argument that nobody writes comes from."""
        return say("default of {method}", method=self.call.method) if self.engine else _TORCHS

    def _fixed(self, value: Value) -> bool:
        """Whether a value is the same in every run: no option, no field of a configuration."""
        return isinstance(value, Known) and value.origin in {"literal", "constant", self._unwritten}

    @property
    def workers(self) -> Value:
        """num_workers; torch's default is 0."""
        return self.argument("num_workers", 0)

    @property
    def pinned(self) -> Value:
        """pin_memory; off by default in torch, on in transformers' Trainer."""
        return self.argument("pin_memory", self.engine)

    @property
    def dataset(self) -> ast.expr | None:
        """The dataset's expression."""
        if self.engine:
            return None
        for keyword in self.call.node.keywords:
            if keyword.arg == "dataset":
                return keyword.value
        first = self.call.node.args[0] if self.call.node.args else None
        return None if isinstance(first, ast.Starred) else first

    def chosen(self, keyword: str) -> str:
        """The text of a keyword's value where it is a name or an expression; "" of a literal or of none."""
        name = f"dataloader_{keyword}" if self.engine else keyword
        value = keyword_value(self.call.node, name)
        return ast.unparse(value) if value is not None and not is_literal(value) else ""

    def settable(self, *keywords: str) -> bool:
        """Whether keywords can be set in the call's text: nothing spread into it, none given by position.

        What the program chooses elsewhere (`num_workers=config.workers`) is set there, not written over.
        """
        if any(keyword.arg is None for keyword in self.call.node.keywords):
            return False
        if any(self.chosen(keyword) for keyword in keywords):
            return False
        given = len(self.call.node.args)
        return self.engine or all(_POSITIONS.get(keyword, given) >= given for keyword in keywords)

    @property
    def label(self) -> str:
        """How messages name it: the name that holds it, or the class that builds it."""
        return self.names[0] if self.names else self.call.method


_TORCHS = say("default of DataLoader")

_POSITIONS = {
    name: place
    for place, name in enumerate(
        in_order(
            "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory drop_last timeout "
            "worker_init_fn multiprocessing_context"
        )
    )
}
"""The places of torch.utils.data.DataLoader's parameters."""


def loaders(source: Source) -> tuple[Loader, ...]:
    """The loaders of programs that train, in order of script and line."""
    return tuple(loader for loader in every_loader(source) if made_to_train(source, loader))


def made_to_train(source: Source, loader: Loader) -> bool:
    """Whether a loader stands in a program that trains, and where the defaults let it be made."""
    return in_a_training(source, loader.script) and not any(guard.never for guard in loader.call.guards)


@once
def every_loader(source: Source) -> tuple[Loader, ...]:
    """Every loader in the source, those of evaluations by themselves and of unused modules too."""
    built: list[tuple[Script, Call]] = []
    for script in source.scripts:
        own = {name for name, info in script.classes.items() if _CLASSES & set(info.bases)}
        makers = _CLASSES | _ARGUMENTS | own
        built += [(script, call) for call in script.calls if call.name in makers]
    drawn = _drawn(source) if built else {}
    found = []
    for script, call in built:
        names = (held,) if (held := bound_to(script, call.node)) else ()
        loops = tuple(drawn.get(call.node, ()))
        alone = sum(1 for other, _ in built if other.path == script.path) == 1 and source.trains
        role = _role(call, names, loops, alone=alone)
        found.append(
            Loader(script=script, call=call, names=names, loops=loops, role=role, engine=call.name in _ARGUMENTS)
        )
    return tuple(found)


def _drawn(source: Source) -> dict[ast.Call, list[tuple[Script, Loop]]]:
    """The loops that draw from what each call makes."""
    found: dict[ast.Call, list[tuple[Script, Loop]]] = {}
    for script in source.scripts:
        for loop in script.loops:
            head = loop_node(script, loop)
            made = list(script.thing(head.iter).made) if isinstance(head, ast.For | ast.AsyncFor) else []
            made += [inner for call in made for arg in call.args[:2] for inner in script.thing(arg).made]
            for event in () if loop.role in (LoopRole.OTHER, LoopRole.EPOCHS) else loop.events:
                # A batch of another loader now and then is not what the loop trains on.
                drawn = event.call is not None and event.call.method == "next" and not event.inner
                if drawn and event.every_pass and not event.via and event.call is not None and event.call.node.args:
                    made += script.thing(event.call.node.args[0]).made
            for call in dict.fromkeys(made):
                found.setdefault(call, []).append((script, loop))
    return found


def _role(call: Call, names: tuple[str, ...], loops: tuple[tuple[Script, Loop], ...], *, alone: bool) -> LoaderRole:
    roles = {loop.role for _, loop in loops}
    held_out = any(_says(name, _EVALUATION) for name in names)
    if LoopRole.TRAINING not in roles and held_out and not any(_says(name, _TRAINING) for name in names):
        return LoaderRole.EVALUATION  # `fit(train, val)` is given both
    if LoopRole.TRAINING in roles or call.name in _ARGUMENTS:
        return LoaderRole.TRAINING
    if LoopRole.EVALUATION in roles:
        return LoaderRole.EVALUATION
    words = [call.function.rpartition(".")[2], *names]
    if any(_says(word, _TRAINING) for word in words):
        return LoaderRole.TRAINING
    if any(_says(word, _EVALUATION) for word in words) or roles == {LoopRole.OTHER}:
        return LoaderRole.EVALUATION
    return LoaderRole.TRAINING if alone else LoaderRole.UNKNOWN


def _says(text: str, words: re.Pattern[str]) -> bool:
    return any(words.match(part) for part in re.split(r"[._]", text.lower()))
