"""DATA001 loader-bound."""

from collections.abc import Iterator

from gpudoctor.model import Check, Code, Confidence, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.reading.items import ItemWork, item_work
from gpudoctor.model.reading.loaders import Loader, LoaderRole, loaders
from gpudoctor.model.signs.source import Known


class LoaderBound(Check):
    """The training process prepares its data itself, so the GPU waits for every batch.

    What it finds:
        A DataLoader with `num_workers=0` (torch's default) that feeds a training loop, while its data set or
        collate function does real work for every item: reads and decodes a file, tokenises, augments, parses,
        or loops in Python.
    Why it hurts:
        With no workers the same process prepares the batch and launches the GPU work, one after the other.
        A JPEG decode with augmentation takes 5 to 15 ms on one core: 32 of them are 150 to 500 ms for a batch
        whose training step may take 50 ms.
    How it knows:
        From the source: the loader is followed to the loop that draws from it, and the data set to its
        `__getitem__`, transforms and collate function. That is a suspicion; only a run can tell the share.
    False alarms:
        A step that is far longer than the work for one batch hides the loss. Data that is in memory as
        tensors, and items that are only indexed, stacked or padded, are silent.
    Remedies:
        Workers, as many as the CPUs that this process may use, kept alive between epochs; or do the work
        once, before the training, and store the result.
    References:
        - https://pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading
        - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#enable-asynchronous-data-loading-and-augmentation
    """

    code = Code("DATA001")
    name = "loader-bound"
    reads = frozenset({Reads.SOURCE})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="workers",
            default=0,
            unit="{workers}",
            source="torch.utils.data: 0 means that the data is loaded in the main process",
            meaning="A loader with at most so many workers loads in the training process.",
        ),
        Threshold(
            name="random_elements",
            default=100_000,
            unit="{elements}",
            source="torch.randn draws about 100 million numbers a second on one core: 1 ms",
            meaning="Drawing so many random numbers for one item counts as real work.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        if not source.trains:
            return
        for loader in loaders(source):
            if loader.role is LoaderRole.TRAINING:
                yield from self._from_source(loader, item_work(source, loader))

    def _from_source(self, loader: Loader, work: tuple[ItemWork, ...]) -> Iterator[Finding]:
        workers = loader.workers
        if not isinstance(workers, Known) or isinstance(workers.value, str | tuple) or workers.value is None:
            return
        if workers.value > self.limit("workers"):
            return
        least = self.limit("random_elements")
        counted = [item for item in work if item.elements is None or item.elements >= least]
        if not counted:
            return
        heavy = [item for item in counted if not item.light] or counted
        origin = "" if workers.origin == "literal" else f" ({workers.origin})"
        first = heavy[0]
        more = f" and does {len(heavy) - 1} more such steps" if len(heavy) > 1 else ""
        kind = loader.call.method if loader.engine else loader.label
        place = f"{first.span.path.rpartition('/')[2]}:{first.span.line}"
        yield self.finding(
            f"{kind} has num_workers={int(workers.value)}{origin}: the training process itself {first.what} "
            f"for every item ({place}){more}, and the training waits meanwhile.",
            evidence=(loader.call.span, *(item.span for item in heavy[:4])),
            confidence=Confidence.SUSPECTED,
            severity=Severity.NOTE if first.light else Severity.WARNING,
            subject=f"{loader.script.path}:{loader.call.span.line}",
            facts=(
                ("engine", loader.engine),
                ("settable", loader.settable("num_workers", "pin_memory")),
                ("iterable", any(item.iterable for item in heavy)),
                ("option", workers.origin),
                ("pinned", not isinstance(loader.pinned, Known) or bool(loader.pinned.value)),
                (
                    "cuda",
                    "cuda" in loader.script.devices.values() or "maybe-cuda" in loader.script.devices.values(),
                ),
            ),
        )
