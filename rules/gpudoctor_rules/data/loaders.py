"""Rules on data: the loader, its workers, its sampler, and the copies to the device."""

import ast
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.analysis import of_run
from gpudoctor.analysis.source.syntax_edits import insert_before, settable
from gpudoctor.analysis.workload import cpus_per_rank, read_threads, scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, Resource, Unavailable, answers
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.job_devices import ranks_here
from gpudoctor.model.remedy import Applicability, Edit, Effect, EffectOrigin, Effort, ImportEdit, KeywordEdit, Remedy
from gpudoctor.model.signs.source import Script
from gpudoctor_checks.data.loader_bound import LoaderBoundDetail
from gpudoctor_checks.data.unpinned_transfer import UnpinnedTransferDetail
from gpudoctor_checks.data.workers_misfit import WorkersMisfitDetail
from gpudoctor_rules.remedies import after_imports, keyword_edit, loop_at, remedy, script_of

if TYPE_CHECKING:
    from gpudoctor_checks.data.sampler_misuse import SamplerMisuseDetail

_BUSY = 0.8
"""Share of the CPUs in use from which on workers may find none idle."""
_MOST = 16
"""The optimisation summary's cap: beyond it workers contend for memory bandwidth and start slowly."""
_FALLBACK = 4
"""Where the machine that will train is not known."""
_PERSISTENT_ORDER = say(
    "From the second epoch on a shuffle has another order: persistent workers draw one random number less. "
    "Trials make up for it."
)


@answers("DATA001")
def loader_bound(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Workers for this machine's CPUs, or the work done once beforehand."""
    detail = finding.detail_of(LoaderBoundDetail)
    if detail.handed:
        return
    workers, why = workers_for(patient)
    if detail.workers == 0 and finding.cost.share is not None:
        workers, why = _as_measured(patient, finding.cost.share, workers, why, cuda=bool(detail.cuda))
    if workers > (detail.workers or 0) and not detail.own:
        threads = _threads_beside(finding, patient, workers)
        yield _more_workers(finding, patient, workers, why, _gain(finding, patient, workers), threads)
    yield remedy(
        "DATA001-precompute",
        "Do the work for each item once, before the training",
        "Run the decoding or tokenising over the data set once and store the result as arrays. "
        "Use numpy.save with a memory map, safetensors, or datasets.map.",
        "Keep only random augmentation in the data set, or move it to the GPU, over the whole batch.",
        effort=Effort.REWRITE,
        uses=frozenset({Resource.DISK}),
    )


def _threads_beside(finding: Finding, patient: Patient, workers: int) -> int | None:
    """Threads that leave the workers a CPU each, where torch took more for a run without a GPU; else None.

    A thread without its CPU holds up the others at the end of each operation: on 2 CPUs one worker made the epochs
    of `examples/train_crops.py` 1.2 times as long beside 2 threads, and 1.4 times as short beside one.
    """
    if finding.detail_of(LoaderBoundDetail).cuda or finding.cost.step_share is None:
        return None
    try:
        left, threads = max(1, int(cpus_per_rank(patient)[0]) - workers), read_threads(patient)
        return left if threads.by_default and threads.count > left else None
    except Unavailable:
        return None


def _more_workers(
    finding: Finding, patient: Patient, workers: int, why: str, gain: Effect | None, threads: int | None
) -> Remedy:
    """More of them than there are."""
    detail = finding.detail_of(LoaderBoundDetail)
    prefix = "dataloader_" if detail.engine else ""
    settings = [(f"{prefix}num_workers", str(workers)), (f"{prefix}persistent_workers", "True")]
    if detail.cuda and not detail.pinned and not prefix:
        settings.append(("pin_memory", "True"))
    title = ", ".join(f"{name}={value}" for name, value in settings)
    option = detail.option or ""
    span = finding.span
    edits: tuple[Edit, ...] = ()
    if span is not None and detail.settable:
        edits = (keyword_edit(span, set=tuple(settings)),)
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
    steps.append(_PERSISTENT_ORDER)
    steps.append(say('Guard the script\'s entry with `if __name__ == "__main__":` where workers are spawned.'))
    if doubt := _doubt(finding):
        steps.append(doubt)
    override = [("DataLoader.num_workers", str(workers)), ("DataLoader.persistent_workers", "True")]
    if threads is not None:
        line = f"torch.set_num_threads({threads})"
        title = f"{title}, {line}"
        steps.append(
            say("Call {line} once: without a GPU the training's threads and the workers share the CPUs.", line=line)
        )
        override.append(("torch.num_threads", str(threads)))
        script = script_of(patient, span)
        edits = (*edits, *after_imports(script, line)) if script is not None and edits else ()
    iterable = bool(detail.iterable)
    if iterable:
        steps.append(
            say("Split the stream with torch.utils.data.get_worker_info(): each worker runs __iter__ in full.")
        )
    return remedy(
        "DATA001-workers",
        title,
        *steps,
        applicability=Applicability.UNSAFE,  # other random numbers, another order
        effort=Effort.SMALL_EDIT if iterable else Effort.ONE_LINE,
        effect=gain,
        bounded=not _doubt(finding),
        sets=(("DataLoader.num_workers", str(workers)),),
        uses=frozenset({Resource.CPU, Resource.HOST_MEMORY, Resource.SHARED_MEMORY}),
        edits=edits,
        override=tuple(override),
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


def _as_measured(patient: Patient, share: float, workers: int, why: str, *, cuda: bool) -> tuple[int, str]:
    """One more than leaves a CPU to the training, where a run says that it waits longer than it works.

    Without a GPU no more than what hides the items' work: the training's threads need the other CPUs.

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
    if not cuda and needed < workers:
        return max(1, needed), say(
            "{cpus_per_rank}, and the training needs the others", cpus_per_rank=cpus_per_rank(patient)[1]
        )
    if workers < needed <= min(cpus, _MOST):
        return needed, say(
            "{cpus_per_rank}, and the items take longer than the training", cpus_per_rank=cpus_per_rank(patient)[1]
        )
    return workers, why


@answers("DATA003")
def workers_misfit(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The number of workers for this machine, kept alive, on a loader that is built once."""
    kind = finding.detail_of(WorkersMisfitDetail).kind
    if kind == "many":
        yield _fewer(finding, patient)
    elif kind not in ("iterated", "short"):
        yield _persistent(finding)


def _fewer(finding: Finding, patient: Patient) -> Remedy:
    cpus, origin = cpus_per_rank(patient)
    workers = max(1, min(_MOST, int(cpus) - 1))
    detail = finding.detail_of(WorkersMisfitDetail)
    keyword, option = "dataloader_num_workers" if detail.engine else "num_workers", detail.origin or ""
    flag = option.removeprefix("default of ") if option.startswith("default of --") else ""
    if flag:
        step = say("Launch with {flag} {workers}", flag=flag, workers=workers)
    elif detail.chosen:
        step = say("Set {chosen}, which the loader gets, to {value}", chosen=detail.chosen, value=workers)
    else:
        step = say("Pass {keyword}={value}", keyword=keyword, value=workers)
    passed = bool(flag) or option in ("command line", of_run.RUN)
    return remedy(
        "DATA003-fewer",
        f"{keyword}={workers}",
        say("{step} ({origin}, one of them is kept for the training process).", step=step, origin=origin),
        applicability=Applicability.UNSAFE,
        effort=Effort.SETTING if flag else Effort.ONE_LINE,
        sets=(("DataLoader.num_workers", str(workers)),),
        edits=() if passed else _loader_edits(finding, ((keyword, str(workers)),)),
        override=(("DataLoader.num_workers", str(workers)),),
    )


def _persistent(finding: Finding) -> Remedy:
    return remedy(
        "DATA003-persistent",
        "persistent_workers=True",
        "Pass persistent_workers=True: workers and their queue outlive the epoch.",
        _PERSISTENT_ORDER,
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        sets=(("DataLoader.persistent_workers", "True"),),
        uses=frozenset({Resource.HOST_MEMORY}),
        edits=_loader_edits(finding, (("persistent_workers", "True"),)),
        override=(("DataLoader.persistent_workers", "True"),),
    )


def _loader_edits(finding: Finding, settings: tuple[tuple[str, str], ...]) -> tuple[KeywordEdit, ...]:
    span = finding.span
    if span is None or not finding.detail_of(WorkersMisfitDetail).settable:
        return ()
    return (keyword_edit(span, set=settings),)


@answers("DATA004")
def unpinned_transfer(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Pinned batches and copies that do not block, together."""
    detail = finding.detail_of(UnpinnedTransferDetail)
    kind = detail.kind
    spans = [item for item in finding.evidence if isinstance(item, SourceSpan) and item.end_line]
    edits: list[KeywordEdit] = []
    if kind != "blocking" and spans:
        edits.append(keyword_edit(spans[0], set=(("pin_memory", "True"),)))
    if kind in ("blocking", "unpinned"):
        change = (("non_blocking", "True"),)
        edits += [keyword_edit(span, set=change, method=_copying_method(span, patient)) for span in spans[1:]]
    names = list(dict.fromkeys(name for edit in edits for name, _ in edit.set))
    steps = [
        say(
            "{call}, line {edit_line}: {name}=True",
            call=say("Loader") if name == "pin_memory" else say("Copy"),
            edit_line=edit.line,
            name=name,
        )
        for edit in edits
        for name, _ in edit.set
    ]
    if detail.workers == 0 and kind != "blocking":
        steps.append(say("Give the loader workers too: without them the training process itself does the pinning."))
    yield remedy(
        "DATA004-pin",
        ", ".join(f"{name}=True" for name in names) or "pin_memory=True, non_blocking=True",
        *(tuple(steps) or ("Loader: pin_memory=True; batch.to(device, non_blocking=True).",)),
        # A copy that does not block reads what is written into its source meanwhile.
        applicability=Applicability.UNSAFE if "non_blocking" in names else Applicability.SAFE,
        effort=Effort.ONE_LINE if len(edits) == 1 else Effort.SMALL_EDIT,
        sets=tuple((f"DataLoader.{name}", "True") for name in names if name == "pin_memory"),
        uses=frozenset({Resource.HOST_MEMORY}) if kind != "blocking" else frozenset(),
        edits=tuple(edits) if kind == "blocking" or detail.settable else (),
        override=(("DataLoader.pin_memory", "True"),) if kind != "blocking" else (),
        references=("https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html",),
    )


def _copying_method(span: SourceSpan, patient: Patient) -> str:
    """`to` or `cuda`, whichever of the calls at a place copies: `x.float().cuda()` has two."""
    names = {
        call.method
        for script in scripts_given(patient).scripts
        if script.path == span.path
        for call in script.calls_to(".to", ".cuda")
        if call.span == span
    }
    return names.pop() if len(names) == 1 else ""


@answers("DATA007")
def eval_loader_misuse(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """In order, whole, each sample once."""
    detail = finding.detail_of(Facts)
    settings = tuple(
        (name, "False") for name, wrong in (("shuffle", detail.shuffle), ("drop_last", detail.drop_last)) if wrong
    )
    span = finding.span
    if settings and span is not None:
        # A program may count samples as the loader's length times the batch size.
        fits = not detail.drop_last and settable(patient.source, span, *(name for name, _ in settings), free=2)
        edit = keyword_edit(span, set=settings)
        title = ", ".join(f"{name}={value}" for name, value in settings)
        yield remedy(
            "DATA007-order",
            title,
            say("Pass {settings} to the evaluation's loader.", settings=title),
            # The metric covers other samples, or the same in another order.
            effort=Effort.ONE_LINE,
            edits=(edit,) if fits else (),
        )


_SAMPLER = ("https://pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler",)


@answers("DATA008")
def sampler_misuse(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """A DistributedSampler, told the epoch."""
    from gpudoctor_checks.data.sampler_misuse import SamplerMisuseDetail

    detail = finding.detail_of(SamplerMisuseDetail)
    if detail.kind == "unsplit":
        yield _split_by_rank(finding, patient, detail)
    else:
        yield _call_set_epoch(finding, patient, detail)


def _split_by_rank(finding: Finding, patient: Patient, detail: "SamplerMisuseDetail") -> Remedy:
    """The sampler built in the call; a set that is an expression of its own must get a name first."""
    span, dataset = finding.span, detail.dataset
    edits: tuple[Edit, ...] = ()
    told = _set_epoch_edits(finding, patient, detail, "")
    fits = span is not None and settable(patient.source, span, "sampler", "shuffle", free=2)
    if span is not None and fits and dataset.replace(".", "_").isidentifier() and (told or not detail.loop_line):
        sampler = f"torch.utils.data.distributed.DistributedSampler({dataset})"
        edits = (
            keyword_edit(span, set=(("sampler", sampler),), remove=("shuffle",)),
            ImportEdit(path=span.path, statement="import torch.utils.data.distributed"),
            *told,
        )
    return remedy(
        "DATA008-split",
        "use sampler=DistributedSampler(dataset) without shuffle, and call set_epoch in each epoch",
        f"sampler = torch.utils.data.distributed.DistributedSampler({dataset})",
        "loader = DataLoader(..., sampler=sampler)   # shuffle=True goes: the sampler shuffles",
        "sampler.set_epoch(epoch)                    # first line of each epoch",
        edits=edits,
        references=_SAMPLER,
    )


def _call_set_epoch(finding: Finding, patient: Patient, detail: "SamplerMisuseDetail") -> Remedy:
    name, epoch = detail.sampler or "sampler", detail.epoch
    edits = _set_epoch_edits(finding, patient, detail, name)
    return remedy(
        "DATA008-epoch",
        say("call {name}.set_epoch({epoch}) first in each epoch", name=name, epoch=epoch or "epoch"),
        say("{name}.set_epoch({epoch})   # the first line of the loop over epochs", name=name, epoch=epoch or "epoch"),
        effort=Effort.ONE_LINE,
        edits=edits,
        references=_SAMPLER,
    )


def _set_epoch_edits(
    finding: Finding, patient: Patient, detail: "SamplerMisuseDetail", sampler: str
) -> tuple[Edit, ...]:
    """`set_epoch` as the first line of the loop over epochs; nothing where its names are not in sight."""
    path, line, epoch = detail.loop_path, detail.loop_line, detail.epoch
    script = next((item for item in patient.source.scripts if item.path == path), None)
    head = loop_at(script, line) if script is not None and isinstance(line, int) else None
    if script is None or head is None or not epoch:
        return ()
    target = _sampler_in_sight(script, head, sampler, detail.loader, finding)
    return (insert_before(script, head.body[0], f"{target}.set_epoch({epoch})"),) if target else ()


def _sampler_in_sight(script: Script, head: ast.For, sampler: str, loader: str, finding: Finding) -> str:
    """The sampler by its own name or through its loader, whichever the epoch loop's scope binds."""
    if finding.span is None or finding.span.path != script.path or head.body[0].lineno == head.lineno:
        return ""
    scope = next(
        (node for node in ast.walk(script.tree)
         if isinstance(node, ast.FunctionDef) and node.lineno <= head.lineno <= (node.end_lineno or 0)),
        script.tree,
    )  # fmt: skip
    bound = {node.id for node in ast.walk(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    if isinstance(scope, ast.FunctionDef):
        bound |= {item.arg for item in scope.args.args}
    if sampler in bound:
        return sampler
    return f"{loader}.sampler" if loader in bound else ""


@answers("DATA013")
def not_shuffled(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """shuffle=True."""
    span = finding.span
    fits = span is not None and settable(scripts_given(patient), span, "shuffle", free=2)
    yield remedy(
        "DATA013-shuffle",
        "set shuffle=True for the training loader",
        "DataLoader(dataset, shuffle=True, ...); with several ranks: sampler=DistributedSampler(...)",
        effort=Effort.ONE_LINE,
        edits=(keyword_edit(span, set=(("shuffle", "True"),)),) if span is not None and fits else (),
        references=("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader",),
    )
