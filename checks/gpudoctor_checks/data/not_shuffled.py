"""DATA013 not-shuffled."""

import re
from collections.abc import Iterator

from gpudoctor.analysis.observation import confirmed, suspicions
from gpudoctor.analysis.run.curves import numerics
from gpudoctor.analysis.run.line_costs import place_of
from gpudoctor.analysis.run.steady_run import processes, recorded, run_of, spots
from gpudoctor.analysis.source.loaders import Loader, loaders, trains
from gpudoctor.analysis.source.origins import construction
from gpudoctor.analysis.source.syntax import without_comments
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Finding,
    Patient,
    Reads,
    Severity,
    Threshold,
)
from gpudoctor.model.signs.recording import Process, Record
from gpudoctor.model.signs.source import Call, Known, LoopRole

_SORTED = frozenset(
    {"ImageFolder", "DatasetFolder", "ImageNet", "EuroSAT", "Country211", "Caltech101", "Caltech256", "Food101"}
)
"""Sets of torchvision that list their samples class by class."""
_MIXED = frozenset(
    {"MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST", "USPS", "CIFAR10", "CIFAR100", "SVHN", "STL10"}
)
"""Sets of torchvision whose samples come in a mixed, fixed order."""
_SHUFFLES = re.compile(r"shuffle\(|randperm|permutation\(|random\.sample|\.choice\(|random_split\(")
_CLASSIFIES = frozenset(
    {"torch.nn.CrossEntropyLoss.__call__", "torch.nn.functional.cross_entropy", "torch.nn.NLLLoss.__call__",
     "torch.nn.functional.nll_loss"}
)  # fmt: skip


class NotShuffled(Check):
    """A classifier trains on its samples in the order of the data set.

    What it finds:
        In a recording: a loader that reads its set in order. Its batches contain one class each, for several
        classes in turn. In the source: a training loader without shuffle and sampler over a set of torchvision,
        in a loop with cross-entropy. A set that lists its samples class by class (`ImageFolder` and the like)
        is a warning. One in a mixed order (MNIST, CIFAR) is a note.
    Why it hurts:
        In class order the model learns to answer with the current class, and forgets the earlier ones. Batch
        norm sees one class at a time. In a mixed order every epoch repeats the same batches.
    How it knows:
        From a recording: the loader's sampler, and the labels of the loss, which are those of the loader's
        batch. From the source: the call that makes the set, and the arguments of the loader. A recording whose
        batches hold several classes refutes the source.
    False alarms:
        Samplers of any kind, `random_split`, permutations anywhere in the script and iterable sets are not
        findings. Neither are the program's own set classes, text, time series, and losses other than
        cross-entropy.
    Remedies:
        `shuffle=True` for the training loader.
    References:
        - https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
        - https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.ImageFolder.html
    """

    code = Code("DATA013")
    name = "not-shuffled"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="losses",
            default=24,
            unit="{steps}",
            source="convention: as many graphs of losses as LOOP006 examines",
            meaning="Fewer examined batches are not judged.",
        ),
        Threshold(
            name="one_class_share",
            default=0.8,
            unit="1",
            source="a set in class order mixes classes only where one begins, within a batch",
            meaning="If at least this share of batches has one class, the set is in class order.",
        ),
        Threshold(
            name="batches",
            default=3,
            unit="{steps}",
            source="convention: two classes with this many batches each; by chance a rare class never fills "
            "one",
            meaning="Fewest batches of one class each, for at least two classes.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = recorded(patient)
        run = run_of(recording) if recording is not None else None
        suspected = suspicions(lambda: self._from_source(patient), run)
        seen = [item for item in map(_labels, processes(patient)) if item is not None]
        seen = [item for item in seen if int(item[0].get("losses") or 0) >= self.limit("losses")]
        if run is None or not seen:
            yield from suspected
            return
        for record, loader in seen:
            by_class = [int(often) for label, often in record.get("labels") or () if label >= 0]
            full = [often for often in by_class if often >= self.limit("batches")]
            losses, single = int(record.get("losses") or 0), int(record.get("found") or 0)
            if len(full) < 2 or single < self.limit("one_class_share") * losses:
                continue
            where = [place_of(item) for item in (loader, record)]
            yield confirmed(
                self,
                suspected,
                say(
                    "Each of {single} batches held one class, of {losses} examined: the loader reads "
                    "the samples "
                    "in order, class by class.",
                    single=single,
                    losses=losses,
                ),
                evidence=(
                    *spots(patient, *where),
                    run.measured("batches_of_one_class", single, "{steps}"),
                ),
                severity=Severity.WARNING,
                cost=Cost(breaks=say("the model learns the current class and forgets the earlier ones")),
            )
            return

    def _from_source(self, patient: Patient) -> Iterator[Finding]:
        for loader in loaders(patient.source):
            made = _ordered(loader) if trains(patient.source, loader) else None
            if made is None:
                continue
            classes = made.method in _SORTED
            order = say("class by class") if classes else say("in one fixed order")
            loop = next(loop for _, loop in loader.loops if loop.role is LoopRole.TRAINING)
            yield self.finding(
                say(
                    "{loader} does not shuffle, and {method} lists its samples {order}",
                    loader=loader.label,
                    method=made.method,
                    order=order,
                )
                + (
                    say(": the training sees one class after the other.")
                    if classes
                    else say(": each epoch repeats the same batches.")
                ),
                evidence=(loader.call.span, made.span, loop.span),
                confidence=Confidence.SUSPECTED,
                severity=Severity.WARNING if classes else Severity.NOTE,
                cost=Cost(breaks=say("the model learns the current class")) if classes else None,
                subject=f"{loader.script.path}:{loader.call.span.line}",
            )


def _labels(process: Process) -> tuple[Record, Record] | None:
    """What was seen of the labels of a loader that goes through its set in order, and that loader."""
    for record in numerics(process, "labels")[-1:]:
        for loader in process.of("loader")[::-1]:
            if loader.get("id") == record.get("loader"):
                return (record, loader) if loader.get("order") == "sequential" else None
    return None


def _ordered(loader: Loader) -> Call | None:
    """The call that makes the set of a training loader that takes it in order; None for any other."""
    if loader.call.open_ended or any(guard.never for guard in loader.call.guards) or loader.dataset is None:
        return None
    if any(_shuffled(loader.argument(name, default), default) for name, default in _ARGUMENTS):
        return None
    trained = [loop for _, loop in loader.loops if loop.role is LoopRole.TRAINING and loop.confident]
    if not any(event.call is not None and event.call.name in _CLASSIFIES and not event.evaluation
               for loop in trained for event in loop.events):  # fmt: skip
        return None
    made = construction(loader.script, loader.dataset)
    if made is None or not made.name.startswith("torchvision.datasets.") or made.method not in _SORTED | _MIXED:
        return None
    if any(_held_out(made.argument(name, 1)) for name in ("train", "split")):
        return None
    return None if _SHUFFLES.search(without_comments(loader.script)) else made


def _held_out(value: object) -> bool:
    """Whether an argument of a set asks for another part than the one to train on: `train=False`."""
    return isinstance(value, Known) and (value.value is False or value.value in ("test", "val", "valid"))


_ARGUMENTS = (("shuffle", False), ("sampler", None), ("batch_sampler", None))


def _shuffled(value: object, default: bool | None) -> bool:
    """Whether an argument is given, or might be: anything but torch's default, written there or left out."""
    fixed = isinstance(value, Known) and value.origin in {"literal", "constant", "default of DataLoader"}
    return not (fixed and isinstance(value, Known) and value.value in (default, None))
