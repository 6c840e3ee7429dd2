"""DATA007 eval-loader-misuse."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import loop_node, never_runs
from gpudoctor.analysis.source.loaders import Loader, LoaderRole, every_loader
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.source import Known, LoopRole
from gpudoctor.text import chained

_EVALUATION = re.compile(
    r"(?:^|_)(?:val|valid|validation|eval|evaluation|test|testing|dev)(?:_|$|loader|dataloader|iter|dl)"
)
_TRAINING = re.compile(r"train|fit")


class EvalLoaderMisuse(Check):
    """An evaluation loader shuffles, or drops its last batch.

    What it finds:
        `shuffle=True` or `drop_last=True` on a loader that only feeds an evaluation.
    Why it hurts:
        A shuffle makes results differ from run to run if batches matter (batch norm in training mode, padding).
        It also reads the disk in random order for nothing. `drop_last` omits up to a batch of samples from the
        metric.
    How it knows:
        From the source: gpudoctor follows the loader to the loops that read from it; its arguments are
        literals.
    False alarms:
        Not reported are loaders that read a random part on purpose (a loop with a break). Neither are loaders
        with an unclear role. Loaders that a training loop also uses are not reported either. Nor is a loader
        with `train` in its name, unless every loop that reads from it evaluates.
    Remedies:
        `shuffle=False, drop_last=False`.
    References:
        - https://lightning.ai/docs/pytorch/stable/common/evaluation.html
    """

    code = "DATA007"
    reads = frozenset({Reads.SOURCE})
    severity = Severity.NOTE

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        for loader in every_loader(source):
            if never_runs(source, loader.call):
                continue
            if loader.role is LoaderRole.EVALUATION and not loader.engine and _certain(loader):
                yield from self._from_source(loader)

    def _from_source(self, loader: Loader) -> Iterator[Finding]:
        wrong = []
        if _literally(loader, "shuffle") and not _cut_short(loader):
            wrong.append("shuffle")
        size = loader.argument("batch_size", 1)
        one_by_one = isinstance(size, Known) and size.value == 1  # then none is ever short
        if _literally(loader, "drop_last") and not one_by_one:
            wrong.append("drop_last")
        if not wrong:
            return
        says = {"shuffle": say("shuffles"), "drop_last": say("drops its last batch")}
        yield self.finding(
            say(
                "{loader} feeds an evaluation and {wrong}.",
                loader=loader.label,
                wrong=chained(says[item] for item in wrong),
            ),
            evidence=(loader.call.span, *(loop.span for _, loop in loader.loops[:2])),
            detail=Facts(shuffle="shuffle" in wrong, drop_last="drop_last" in wrong),
        )


def _certain(loader: Loader) -> bool:
    """Whether it feeds an evaluation by a loop that evaluates, or by its name where no loop is known."""
    roles = {loop.role for _, loop in loader.loops if loop.confident}
    if LoopRole.EVALUATION in roles:
        # A training that draws through a generator has no loop of its own over the loader.
        name = loader.label.rpartition(".")[2].lower()
        return roles == {LoopRole.EVALUATION} or not _TRAINING.search(name) or bool(_EVALUATION.search(name))
    words = [*loader.names, loader.call.function.rpartition(".")[2]]
    named = any(_EVALUATION.search(word.rpartition(".")[2].lower()) for word in words)
    return named and not roles and not any(_TRAINING.search(word.lower()) for word in words)


def _literally(loader: Loader, keyword: str) -> bool:
    value = loader.argument(keyword)
    return isinstance(value, Known) and value.value is True and value.origin in {"literal", "constant"}


def _cut_short(loader: Loader) -> bool:
    """Whether a loop leaves early, or only looks at the first batch: a random part of the set is wanted."""
    for script, loop in loader.loops:
        node = loop_node(script, loop)
        if node is None or any(isinstance(part, ast.Break | ast.Return) for part in ast.walk(node)):
            return True
    return any(word in loader.script.text for word in ("islice(", "iter(", "next("))
