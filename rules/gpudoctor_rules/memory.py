"""Rules on the topic: memory."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.memory_forecasts import change_words, command
from gpudoctor.lang import say
from gpudoctor.model import Code, Effect, EffectOrigin, Effort, Finding, Patient, Remedy, Resource, answers
from gpudoctor.model.proof import LeakDetail, LeakKind
from gpudoctor.model.signs.memory import Choice, Holds, JobMemory, Projection
from gpudoctor.text import size
from gpudoctor_checks.memory.graph_retained import GraphRetainedDetail
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
    """By the kind of leak."""
    kind = finding.detail_of(LeakDetail).kind
    if kind in (LeakKind.WORKERS, LeakKind.PROFILER):
        return
    if kind is LeakKind.PREDICTIONS:
        yield remedy(
            "MEM002-predictions",
            say("keep what the metric needs, not all logits"),
            "Trainer(..., preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1))",
        )
        return
    if kind is LeakKind.FILES:
        yield remedy(
            "MEM002-files",
            say("see what each save adds: a history, a copy of the states, a list that is never emptied"),
            "print({key: len(pickle.dumps(value)) for key, value in checkpoint.items()})",
        )
        return
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


_FAQ = ("https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",)


@answers("MEM003")
def graph_retained(finding: Finding) -> Iterator[Remedy]:
    """Detach what is kept."""
    kept = finding.detail_of(GraphRetainedDetail)
    value = kept.value
    if not value:  # the recorder saw the container grow: which tensor it is, only the user knows
        yield _by_container(kept.target)
        return
    detached = _detached(value)
    yield remedy(
        "MEM003-detach",
        say("keep {value}", value=detached),
        say(
            "replace {value} with {detached} in: {statement}",
            value=value,
            detached=detached,
            statement=finding.span.text if finding.span else value,
        ),
        "Leave it as it is if a later backward pass uses it.",
        # No edit: the value may be kept for a backward pass, in this function or in another.
        effort=Effort.ONE_LINE,
        references=_FAQ,
    )


def _by_container(target: str) -> Remedy:
    """The remedy where only the container is known."""
    return remedy(
        "MEM003-detach",
        say("keep what goes into {target} without its graph", target=target),
        say(
            "put `.detach()` on each tensor that goes into {target}, `.item()` where a number is enough", target=target
        ),
        effort=Effort.ONE_LINE,
        references=_FAQ,
    )


def _detached(value: str) -> str:
    """The expression with its graph cut; a display is cut inside."""
    node = ast.parse(value, mode="eval").body
    if _contains_display(node):
        return say("{value} with .detach() on each tensor", value=value)
    simple = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return f"{value}.detach()" if simple else f"({value}).detach()"


def _contains_display(node: ast.expr) -> bool:
    """Whether the value is a container written out, or a sum with one; what is in it is to be detached."""
    if isinstance(node, ast.BinOp):
        return _contains_display(node.left) or _contains_display(node.right)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in {"dict", "list", "tuple"}
    return isinstance(node, ast.Tuple | ast.List | ast.Dict)


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
    fits = {Holds.FITS: say("fits"), Holds.TIGHT: say("is tight"), Holds.NOT: say("is not enough alone")}[cut.holds]
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
        yield from _estimated_batch(finding.code, job, patient)
    else:
        yield from _measured_batch(finding)


def _estimated_batch(code: Code, job: JobMemory, patient: Patient) -> Iterator[Remedy]:
    """Accumulation folded into the batch as far as it goes, where there is any; the largest batch that fits."""
    folded = _folded(job)
    if folded is not None:
        batch, accumulate = folded
        changes: dict[str, Choice] = {"batch": batch, "accumulate": accumulate}
        yield _batch(
            code, "accumulation", job, changes, patient, say("the same effective batch in fewer, greater steps")
        )
    greatest = job.batches[-1]
    if folded is None or folded[0] != greatest.changes["batch"]:
        yield _batch(
            code, "batch", job, {"batch": greatest.changes["batch"]}, patient,
            say("check the learning rate again: the effective batch grows by the same factor"),
        )  # fmt: skip


def _measured_batch(finding: Finding) -> Iterator[Remedy]:
    """The batch that a recording has room for; nothing where it does not tell."""
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
        f"batch_size={samples * factor:.0f}" if samples else say("{factor:.0f} times the batch size", factor=factor),
        "lower gradient accumulation by the same factor, or check the learning rate again",
        effort=Effort.ONE_LINE,
        uses=frozenset({Resource.DEVICE_MEMORY}),
    )


def _folded(job: JobMemory) -> tuple[int, int] | None:
    """Micro batch and accumulation with the same product, the batch as great as fits."""
    batch, accumulate = int(job.values["batch"]), int(job.values["accumulate"])
    if "accumulate" not in job.places:
        return None
    best: tuple[int, int] | None = None
    for projection in job.batches:
        factor = int(projection.changes["batch"]) // batch
        if accumulate % factor == 0:
            best = (batch * factor, accumulate // factor)
    return best


def _batch(code: Code, word: str, job: JobMemory, changes: dict[str, Choice], patient: Patient, why: str) -> Remedy:
    peak = next(item.peak for item in job.batches if item.changes["batch"] == changes["batch"])
    made = field_edits(job, changes, patient)
    lines = [as_written(job, name, value, patient) for name, value in changes.items()]
    return remedy(
        f"{code}-{word}",
        say("{lines} ({peak})", lines=", ".join(lines), peak=size(peak)),
        *lines,
        why,
        effort=Effort.ONE_LINE,
        sets=tuple((name, str(value)) for name, value in changes.items()),
        uses=frozenset({Resource.DEVICE_MEMORY}),
        edits=made,
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
