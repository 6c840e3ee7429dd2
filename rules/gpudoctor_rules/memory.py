"""Rules on the topic: memory."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.memory_forecasts import change_words, command
from gpudoctor.lang import say
from gpudoctor.model import Effect, EffectOrigin, Effort, Finding, Patient, Remedy, Resource, answers
from gpudoctor.model.proof import LeakDetail, LeakKind
from gpudoctor.model.signs.memory import Holds, JobMemory, Projection
from gpudoctor.text import size
from gpudoctor_rules.remedies import published, remedy
from gpudoctor_rules.settings import as_written, field_edits, job_of, known_job


@answers("MEM001")
def gpu_memory_leak(finding: Finding) -> Iterator[Remedy]:
    """Let go of what each step leaves behind."""
    yield from _let_go(
        finding,
        say(
            "torch.cuda.memory._record_memory_history(); "
            "torch.cuda.memory._dump_snapshot('mem.pickle')   # what keeps it"
        ),
    )


@answers("MEM002")
def host_memory_leak(finding: Finding) -> Iterator[Remedy]:
    """By the kind of leak; rows answer the others."""
    if finding.detail_of(LeakDetail).kind in (LeakKind.OBJECTS, LeakKind.TENSORS, LeakKind.CONTAINER, LeakKind.GRAPHS):
        yield from _let_go(
            finding, say("tracemalloc, or gc.get_objects() counted by type between two epochs, shows what keeps it")
        )


def _let_go(finding: Finding, inspection: str) -> Iterator[Remedy]:
    """Keep numbers, bound collections, and see who holds the memory.

    `inspection` is the way to see that by hand.
    """
    leak = finding.detail_of(LeakDetail)
    if leak.kind not in (LeakKind.TENSORS, LeakKind.CONTAINER):  # these have no graph
        yield remedy(
            f"{finding.code}-detach",
            "keep numbers, not tensors with their graph",
            "losses.append(loss.item()) or loss.detach(), at the period at which it is read",
            "outputs = outputs.detach().cpu() for what must be kept; del what is not",
            effort=Effort.ONE_LINE,
        )
    yield remedy(
        f"{finding.code}-bound",
        say("limit what {container} keeps", container=leak.target) if leak.target else "limit what is collected",
        "use collections.deque(maxlen=1000) instead of a list, or a cache with a maxsize instead of "
        "a dict. Write to disk what must be complete",
        inspection,
    )


_ONE_SETTING = frozenset({"checkpointing", "batch", "optimizer", "loss"})


@answers("MEM004")
def will_not_fit(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """What fits, cheapest change first: single changes that are enough, else the fewest that together are."""
    job = job_of(finding, patient)
    enough = [cut for cut in job.cuts if cut.holds is Holds.FITS]
    for cut in enough or job.cuts:
        yield _cut(job, cut, patient)
    yield remedy("MEM004-search", "search what fits", f"gpudoctor estimate {command(job)} --fit", effort=Effort.REWRITE)


def _cut(job: JobMemory, cut: Projection, patient: Patient) -> Remedy:
    changes = dict(cut.changes)
    gives = job.now.peak - cut.peak
    fits = {Holds.FITS: say("fits"), Holds.TIGHT: say("may fit"), Holds.NOT: say("is not enough alone")}[cut.holds]
    made = field_edits(job, changes, patient)
    return remedy(
        "MEM004-" + "-".join(f"{name}-{value}".replace("_", "-") for name, value in changes.items()),
        say("use {change_words}: {peak}, {fits}", change_words=change_words(changes), peak=size(cut.peak), fits=fits),
        *(as_written(job, name, value, patient) for name, value in changes.items()),
        effort=Effort.ONE_LINE if changes.keys() <= _ONE_SETTING else Effort.SMALL_EDIT,
        effect=Effect(quantity="memory", low=gives, high=gives, unit="B", provenance=EffectOrigin.ESTIMATE),
        sets=tuple((name, str(value)) for name, value in changes.items()),
        edits=made,
    )


@answers("MEM007", "PERF007")
def greater_batch(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The micro batch that fits, by the estimate of a known job, else by the recording."""
    job = known_job(finding, patient)
    if job is not None:
        greatest = job.batches[-1]
        batch = greatest.changes["batch"]
        line = as_written(job, "batch", batch, patient)
        yield remedy(
            f"{finding.code}-batch",
            say("{lines} ({peak})", lines=line, peak=size(greatest.peak)),
            line,
            say("lower accumulation by the same factor, or check the learning rate again"),
            effort=Effort.ONE_LINE,
            sets=(("batch", str(batch)),),
            uses=frozenset({Resource.DEVICE_MEMORY}),
            edits=field_edits(job, {"batch": batch}, patient),
        )
        return
    detail = finding.detail_of(of_run.HeadroomDetail)
    factor, samples = detail.factor, detail.samples
    if factor < 2:
        return
    title = (
        say("use a micro batch of {samples:,.0f}", samples=samples * factor)
        if samples
        else say("use a micro batch {factor:.0f} times as large", factor=factor)
    )
    yield remedy(
        f"{finding.code}-batch",
        title,
        "lower gradient accumulation by the same factor, or check the learning rate again",
        effort=Effort.ONE_LINE,
        uses=frozenset({Resource.DEVICE_MEMORY}),
    )


@answers("MEM008")
def checkpointing_unneeded(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Keep the activations: the same numbers without the second forward."""
    job = job_of(finding, patient)
    made = field_edits(job, {"checkpointing": "none"}, patient)
    line = as_written(job, "checkpointing", "none", patient)
    yield remedy(
        "MEM008-off",
        line,
        line,
        # the same numbers, but an estimate alone does not risk somebody's run
        effort=Effort.ONE_LINE,
        effect=published(1.2, 1.33),
        sets=(("gradient_checkpointing", "False"),),
        uses=frozenset({Resource.DEVICE_MEMORY}),
        edits=made,
        references=("https://huggingface.co/docs/transformers/perf_train_gpu_one#gradient-checkpointing",),
    )
