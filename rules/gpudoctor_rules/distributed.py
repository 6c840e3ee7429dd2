"""Rules on the topic: distributed."""

from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import without
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say, template
from gpudoctor.model import Facts, Finding, Patient, Resource, answers
from gpudoctor.model.remedy import Applicability, Edit, Effort, Remedy
from gpudoctor_checks.distributed.no_sync_missing import NoSyncMissingDetail
from gpudoctor_checks.distributed.straggler import StragglerDetail
from gpudoctor_rules.remedies import published, remedy, source_places


@answers("DIST001")
def straggler(finding: Finding) -> Iterator[Remedy]:
    """By the part of the step in which it is late."""
    detail = finding.detail_of(StragglerDetail)
    rank, node, part = detail.rank, detail.node, detail.part
    steps: tuple[str, ...]
    if part == "data_wait":
        steps = (
            say(
                "check rank {rank}'s shard and disk: longer items, a slower mount, fewer CPUs for its workers",
                rank=rank,
            ),
            say("the same amount of work for every rank: shuffle before sharding, group by length across ranks"),
        )
    elif part in ("forward", "transfer"):
        steps = (
            say(
                "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE on {node}: a card that is throttled or shared",
                node=node,
            ),
            say(
                "gpudoctor check   # on that node; longer sequences on one rank look the same: group by "
                "length across ranks"
            ),
        )
    else:
        steps = (
            say(
                "check what rank {rank} alone does in a step: logging, saving, evaluation under `if rank == 0`",
                rank=rank,
            ),
            say("do it every N steps, or in the background"),
        )
    yield remedy(
        "DIST001-rank", say("move work away from rank {rank}{cause}", rank=rank, cause=_of(str(part or ""))), *steps
    )


def _of(part: str) -> str:
    """What it is to be relieved of."""
    if not part:
        return ""
    return say(" of what it alone does") if part == "other" else say(" of its {part}", part=part.replace("_", " "))


@answers("DIST003")
def no_sync_missing(finding: Finding) -> Iterator[Remedy]:
    """Reduce on the last micro-batch alone."""
    detail = finding.detail_of(NoSyncMissingDetail)
    number = detail.micro_batches or 0
    text = detail.text or str(number or "N")
    yield remedy(
        "DIST003-no-sync",
        "use no_sync() on all but the last micro-batch",
        f"last = (i + 1) % {text} == 0",
        "with contextlib.nullcontext() if last else model.no_sync():",
        say("    the forward and the backward of line {line} (the forward must be inside)", line=detail.line),
        applicability=Applicability.UNSAFE,  # sums in another order
        effect=published(1.0, 1.7) if number else None,
        uses=frozenset({Resource.DEVICE_MEMORY}),
        references=("https://arxiv.org/abs/2006.15704", "https://pytorch.org/docs/stable/notes/ddp.html"),
    )


_EVERY = 50
"""Steps between two reductions for the log: the catalogue's number for logging."""

_FEWER = {
    "barrier": say("Drop the barrier: the gradients' own reduction keeps the ranks together."),
    "broadcast": say("Broadcast once before the loop, or derive the value from the step on every rank."),
    "objects": template("Send tensors instead of pickled objects, and only every {every} steps."),
    "parameters": say("Drop it: DDP starts from equal parameters and applies equal gradients."),
    "value": template("Reduce every {every} steps, several values in one tensor: if step % {every} == 0: ..."),
}


@answers("DIST004")
def redundant_collectives(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Meet less often."""
    kinds = finding.detail_of(Facts).kinds.split(",")
    edits = tuple(_barriers_removed(finding, patient)) if kinds == ["barrier"] else ()
    yield remedy(
        "DIST004-fewer",
        say("Reduce for the log every {every} steps", every=_EVERY)
        if kinds == ["value"]
        else "avoid per-step synchronisation between ranks",
        *(say(_FEWER[kind], every=_EVERY) for kind in kinds),
        applicability=Applicability.UNSAFE,
        override=(("every", str(_EVERY)),) if set(kinds) <= {"barrier", "value"} else (),
        # the wait is a run's to measure
        edits=edits,
        references=("https://pytorch.org/docs/stable/notes/ddp.html#internal-design",),
    )


def _barriers_removed(finding: Finding, patient: Patient) -> Iterator[Edit]:
    """The barriers' statements removed, when every one of them stands alone."""
    spans = source_places(finding)[:-1]
    scripts = {script.path: script for script in scripts_given(patient).scripts}
    found = [without(scripts[span.path], span) if span.path in scripts else None for span in spans]
    if None not in found:
        yield from (edit for edit in found if edit is not None)


@answers("DIST005")
def dataparallel(finding: Finding) -> Iterator[Remedy]:
    """One process a GPU."""
    detail = finding.detail_of(Facts)
    gpus = detail.gpus or 0
    count = str(gpus) if gpus > 1 else "gpu"
    yield remedy(
        "DIST005-ddp",
        "use DistributedDataParallel with one process per GPU",
        'torch.distributed.init_process_group("nccl"); rank = int(os.environ["LOCAL_RANK"]); '
        "torch.cuda.set_device(rank)",
        "model = torch.nn.parallel.DistributedDataParallel(model.to(rank), device_ids=[rank])",
        "DataLoader(..., sampler=DistributedSampler(dataset)), with the batch size of one GPU",
        f"torchrun --standalone --nproc_per_node={count} {detail.script}",
        effort=Effort.REWRITE,
        effect=published(1.1, 2.0) if gpus != 1 else None,
        references=(
            "https://pytorch.org/tutorials/intermediate/ddp_tutorial.html#comparison-between-dataparallel-and-distributeddataparallel",
            "https://arxiv.org/abs/2006.15704",
        ),
    )


@answers("DIST006")
def backend_slow(finding: Finding) -> Iterator[Remedy]:
    """NCCL for tensors on GPUs."""
    keyword, span = str(finding.detail_of(Facts).keyword), finding.span
    yield remedy(
        "DIST006-nccl",
        f'{keyword}="nccl"',
        say('Line {line}: {keyword}="nccl"', line=span.line if span is not None else 0, keyword=keyword),
        say("Each rank takes its own GPU first: torch.cuda.set_device(local_rank)."),
        applicability=Applicability.UNSAFE,  # sums in another order
        effort=Effort.ONE_LINE,
        # from little on one node with few weights to several times
        sets=(("backend", "nccl"),),
        references=("https://pytorch.org/docs/stable/distributed.html#which-backend-to-use",),
    )


@answers("DIST007")
def find_unused(finding: Finding) -> Iterator[Remedy]:
    """Stop looking."""
    span = finding.span
    yield remedy(
        "DIST007-drop",
        "find_unused_parameters=False",
        say("Line {line}: drop find_unused_parameters.", line=span.line if span else 0),
        "If a parameter gets no gradient after all, DDP stops at the next step and names it.",
        applicability=Applicability.UNSAFE,  # a run with an unused parameter would stop
        effort=Effort.ONE_LINE,
        references=("https://pytorch.org/docs/stable/notes/ddp.html#internal-design",),
    )
