"""Answers DATA001 loader-bound."""

import math
from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import (
    Applicability,
    Code,
    Effect,
    EffectOrigin,
    Effort,
    Finding,
    KeywordEdit,
    Patient,
    Remedy,
    Resource,
    Rule,
    Unavailable,
)
from gpudoctor.model.job_devices import cpus_per_rank, ranks_here
from gpudoctor_checks.data.loader_bound import LoaderBoundDetail

_BUSY = 0.8
"""Share of the CPUs in use from which on workers may find none idle."""
_MOST = 16
"""The optimisation summary's cap: beyond it workers contend for memory bandwidth and start slowly."""
_FALLBACK = 4
"""Where the machine that will train is not known."""
PERSISTENT_ORDER = say(
    "From the second epoch on a shuffle has another order: persistent workers draw one random number less. "
    "Trials make up for it."
)


class LoaderBoundRule(Rule):
    """Workers for this machine's CPUs, or the work done once beforehand."""

    answers = Code("DATA001")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        handed = finding.detail_of(LoaderBoundDetail).handed or ""
        yield from _HANDED.get(handed, self._more)(finding, patient)

    def _more(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        """Workers, or less work for them."""
        detail = finding.detail_of(LoaderBoundDetail)
        workers, why = workers_for(patient)
        if detail.workers == 0 and finding.cost.share is not None:
            workers, why = _as_measured(patient, finding.cost.share, workers, why)
        if workers > (detail.workers or 0):
            yield self._workers(finding, workers, why, _gain(finding, patient, workers))
        yield Remedy(
            id="DATA001-precompute",
            title="Do the work for each item once, before the training",
            steps=(
                "Run the decoding or tokenising over the data set once and store the result as arrays. "
                "Use numpy.save with a memory map, safetensors, or datasets.map.",
                "Keep only random augmentation in the data set, or move it to the GPU, over the whole batch.",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.REWRITE,
            uses=frozenset({Resource.DISK}),
        )

    def _workers(self, finding: Finding, workers: int, why: str, gain: Effect | None) -> Remedy:
        """More of them than there are."""
        detail = finding.detail_of(LoaderBoundDetail)
        prefix = "dataloader_" if detail.engine else ""
        settings = [(f"{prefix}num_workers", str(workers)), (f"{prefix}persistent_workers", "True")]
        if detail.cuda and not detail.pinned and not prefix:
            settings.append(("pin_memory", "True"))
        title = ", ".join(f"{name}={value}" for name, value in settings)
        option = detail.option or ""
        span = finding.span
        edits: tuple[KeywordEdit, ...] = ()
        if span is not None and detail.settable:
            edits = (KeywordEdit(path=span.path, line=span.line, column=span.column, set=tuple(settings)),)
        steps = [say("Pass {title} ({why}).", title=title, why=why)]
        if option.startswith("default of --"):
            flag = option.removeprefix("default of ")
            steps = [
                say(
                    "Launch with {flag} {workers} ({why}), and pass persistent_workers=True to the loader.",
                    flag=flag,
                    workers=workers,
                    why=why,
                )
            ]
            edits = ()
        elif detail.chosen:
            rest = ", ".join(f"{name}={value}" for name, value in settings[1:])
            steps = [
                say(
                    "Set {chosen}, which the loader gets, to {workers} ({why}), and pass {rest}.",
                    chosen=detail.chosen,
                    workers=workers,
                    why=why,
                    rest=rest,
                )
            ]
        steps.append(PERSISTENT_ORDER)
        steps.append(say('Guard the script\'s entry with `if __name__ == "__main__":` where workers are spawned.'))
        if doubt := _doubt(finding):
            steps.append(doubt)
        iterable = bool(detail.iterable)
        if iterable:
            steps.append(
                say("Split the stream with torch.utils.data.get_worker_info(): each worker runs __iter__ in full.")
            )
        return Remedy(
            id="DATA001-workers",
            title=title,
            steps=tuple(steps),
            applicability=Applicability.UNSAFE,  # other random numbers, another order
            effort=Effort.SMALL_EDIT if iterable else Effort.ONE_LINE,
            effect=gain,
            bounded=not _doubt(finding),
            sets=(("DataLoader.num_workers", str(workers)),),
            uses=frozenset({Resource.CPU, Resource.HOST_MEMORY, Resource.SHARED_MEMORY}),
            edits=edits,
            override=(("DataLoader.num_workers", str(workers)), ("DataLoader.persistent_workers", "True")),
            references=("https://pytorch.org/docs/stable/data.html#multi-process-data-loading",),
        )


def _doubt(finding: Finding) -> str:
    """Why workers may find no idle CPU beside a training without a GPU, if its wait was measured; else ""."""
    detail = finding.detail_of(LoaderBoundDetail)
    if detail.cuda or finding.cost.step_share is None:
        return ""
    if detail.cpus_used is None or detail.cpus_reached is None:
        return say("How many CPUs are idle was not seen, so workers may give nothing. Prove the gain first.")
    if detail.cpus_used < _BUSY * detail.cpus_reached:
        return ""
    return say(
        "The run keeps {used:.2g} of {reached:.2g} CPUs busy, so workers may give nothing. Prove the gain first.",
        used=detail.cpus_used,
        reached=detail.cpus_reached,
    )


def _whole_batches(finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG001
    """Items that are indexed and stacked one by one: workers would only copy them."""
    yield Remedy(
        id="DATA001-whole",
        title="read whole batches by one index, instead of single items",
        steps=(
            "for index in torch.randperm(len(x)).split(batch_size): batch = x[index], y[index]",
            "or DataLoader(dataset, batch_size=None, sampler=BatchSampler(RandomSampler(dataset), batch_size, "
            "False)) with a data set that takes a list of indices",
            "tensors that fit there can stay on the device",
        ),
        # Other draws: the order of the samples is another one.
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
        references=("https://pytorch.org/docs/stable/data.html#disable-automatic-batching",),
    )


def _no_workers(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Batches that are cheaper to make than to hand over."""
    detail = finding.detail_of(LoaderBoundDetail)
    each = detail.batch_seconds or 0.0
    span = finding.span
    edits: tuple[KeywordEdit, ...] = ()
    if span is not None and detail.settable and not detail.engine:
        needless = ("persistent_workers", "prefetch_factor", "multiprocessing_context")
        zero = (("num_workers", "0"),)
        edits = (KeywordEdit(path=span.path, line=span.line, column=span.column, set=zero, remove=needless),)
    name = "dataloader_num_workers" if detail.engine else "num_workers"
    yield Remedy(
        id="DATA001-none",
        title=f"{name}=0",
        steps=(
            say(
                "{setting}=0, without persistent_workers and prefetch_factor: a batch takes "
                "{milliseconds:.2g} ms to make, and longer to hand over from a worker",
                setting=name,
                milliseconds=each * 1e3,
            ),
        ),
        applicability=Applicability.UNSAFE,  # workers draw their random numbers from seeds of their own
        effort=Effort.ONE_LINE,
        sets=(("DataLoader.num_workers", "0"),),
        edits=edits,
        override=(("DataLoader.num_workers", "0"),),
    )
    yield from _whole_batches(finding, patient)


def _lighter(finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG001
    """Batches that are dear to hand over."""
    yield Remedy(
        id="DATA001-tensors",
        title="hand over few tensors, not many objects",
        steps=(
            "stack the batch into a few tensors in collate_fn. Tensors go through shared memory. "
            "Every Python object is pickled, sent and unpickled",
            "leave out what the step does not use (paths, texts, masks). Send uint8 and int32 as they are, "
            "and convert on the device",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
        references=("https://pytorch.org/docs/stable/multiprocessing.html",),
    )


def _own(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Batches of the script's own generator: there is no loader whose workers could be set."""
    workers, why = workers_for(patient)
    span = finding.span
    where = (
        say("what {path}:{line} makes", path=span.path.rpartition("/")[2], line=span.line)
        if span is not None
        else say("what it makes")
    )
    yield Remedy(
        id="DATA001-precompute",
        title="do the generator's work once, before the loop",
        steps=(
            say(
                "{place} of the same input each time: make it once before the loop, as tensors or "
                "arrays. In the generator, only index it.",
                place=where,
            ),
            "random augmentation stays: over the whole batch as tensors, not item by item",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
    )
    if workers == 0:
        return
    yield Remedy(
        id="DATA001-stream",
        title=say("put the generator into a DataLoader with num_workers={workers}", workers=workers),
        steps=(
            "class Stream(torch.utils.data.IterableDataset):   # its __iter__ is the generator",
            say(
                "DataLoader(Stream(), batch_size=None, num_workers={workers}, "
                "persistent_workers=True)   # {why}; batch_size=None takes the batches as they are",
                workers=workers,
                why=why,
            ),
            "every worker runs __iter__ in full: seed it by torch.utils.data.get_worker_info().id, or "
            "give each worker its share of the input",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
        uses=frozenset({Resource.CPU, Resource.HOST_MEMORY, Resource.SHARED_MEMORY}),
        references=("https://pytorch.org/docs/stable/data.html#iterable-style-datasets",),
    )


def _fed(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Batches that processes of the program's own put into a queue, too slowly."""
    workers, why = workers_for(patient)
    where = str(finding.detail_of(LoaderBoundDetail).feeder)
    yield Remedy(
        id="DATA001-feeder",
        title="Do less work for each batch in the processes that fill the queue",
        steps=(
            say(
                "{place}: make before the loop what is the same for each batch (sets, tables, pools to draw from)",
                place=where,
            ),
            "draw whole batches with NumPy or torch instead of item by item in Python",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
    )
    if workers > 1:
        yield Remedy(
            id="DATA001-feeders",
            title=say("Start up to {workers} such processes", workers=workers),
            steps=(
                say("start {workers} processes at most ({why})", workers=workers, why=why),
                "give each its own seed",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            uses=frozenset({Resource.CPU, Resource.HOST_MEMORY}),
        )


_HANDED = {"whole": _whole_batches, "cheap": _no_workers, "dear": _lighter, "own": _own, "fed": _fed}
"""What workers would not mend, and what does."""


def workers_for(patient: Patient) -> tuple[int, str]:
    """Loader workers for one rank, and the numbers behind them in words; 0 where no CPU is left for one."""
    try:
        cpus, origin = cpus_per_rank(patient)
    except Unavailable as error:
        return _FALLBACK, say("a start where the CPUs are not known: {error}", error=error)
    workers = max(0, min(_MOST, int(cpus) - 1))
    keeps = say("one is kept for the training process") if ranks_here(patient) == 1 else say("one a process is kept")
    return workers, say("{origin}, {keeps}", origin=origin, keeps=keeps) + (
        say(", at most {most}", most=_MOST) if workers == _MOST else ""
    )


def _gain(finding: Finding, patient: Patient, workers: int) -> Effect | None:
    """What so many workers can give: their CPUs share the items' work, and the training keeps one of its own.

    With a share S of the time for items, n workers leave max(1 - S, S/n) of a step; without a GPU the training
    needs the CPUs too, and P of them leave no less than 1/P. None where nothing was measured, and where the run
    keeps the CPUs busy, or nobody saw how busy: how much of that is work, and how much threads that spin while
    they wait, nobody knows.
    """
    detail = finding.detail_of(LoaderBoundDetail)
    share = finding.cost.step_share
    if share is None or not 0 < share < 1 or detail.workers != 0 or _doubt(finding):
        return None
    left = max(1 - share, share / max(1, workers))
    try:
        left = max(left, 0.0 if detail.cuda else 1 / max(1.0, cpus_per_rank(patient)[0]))
    except Unavailable:
        return None
    most = round(max(1.0, 1 / left), 3)
    return Effect(quantity="throughput", low=1.0, high=most, unit="x", provenance=EffectOrigin.BOUND)


def _as_measured(patient: Patient, share: float, workers: int, why: str) -> tuple[int, str]:
    """One more than leaves a CPU to the training, where a run says that it waits longer than it works.

    With W seconds of items and C seconds of training a step, n workers on P CPUs make a step of
    max(C, W/n, (W+C)/P): no fewer workers than reach its least.
    """
    try:
        cpus = int(cpus_per_rank(patient)[0])
    except Unavailable:
        return workers, why
    if cpus <= 1:
        return workers, why  # it would only share the one CPU with the training
    needed = math.ceil(share / max(1 - share, 1 / max(1, cpus)) - 1e-6)
    if workers < needed <= min(cpus, _MOST):
        return needed, say(
            "{cpus_per_rank}, and the items take longer than the training", cpus_per_rank=cpus_per_rank(patient)[1]
        )
    return workers, why
