"""Rules on the topic: distributed."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import bound_to, enclosing, loop_node
from gpudoctor.analysis.source.parallelism import DDP
from gpudoctor.analysis.source.syntax_edits import own_lines, put_under, replace_node, without
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say, template
from gpudoctor.model import Finding, Patient, Resource, answers
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.remedy import Applicability, Edit, Effort, ImportEdit, Remedy
from gpudoctor.model.signs.source import GuardKind, Loop, Script
from gpudoctor.model.unavailable import Unavailable
from gpudoctor_checks.distributed.backend_slow import BackendSlowDetail
from gpudoctor_checks.distributed.dataparallel import DataparallelDetail
from gpudoctor_checks.distributed.no_sync_missing import NoSyncMissingDetail
from gpudoctor_checks.distributed.redundant_collectives import RedundantCollectivesDetail
from gpudoctor_checks.distributed.straggler import StragglerDetail
from gpudoctor_rules.remedies import keyword_edit, published, remedy, source_places


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
def no_sync_missing(finding: Finding, patient: Patient) -> Iterator[Remedy]:
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
        edits=_no_sync_edits(finding, patient),
        effect=published(1.0, 1.7) if number else None,
        uses=frozenset({Resource.DEVICE_MEMORY}),
        references=("https://arxiv.org/abs/2006.15704", "https://pytorch.org/docs/stable/notes/ddp.html"),
    )


def _no_sync_edits(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """The forward and the backward under `no_sync()`, where both stand in the loop's own body."""
    places = {(part.path, part.line) for part in finding.evidence if isinstance(part, SourceSpan)}
    for script, loop in scripts_given(patient).training_loops:
        models = {bound_to(script, call.node) for call in script.calls if call.name in DDP} - {""}
        body = getattr(loop_node(script, loop), "body", [])
        if (script.path, loop.span.line) not in places or len(models) != 1:
            continue
        [model], last = models, _last_of(script, loop, body)
        called = [{ast.unparse(node.func) for node in ast.walk(part) if isinstance(node, ast.Call)} for part in body]
        forward = [at for at, names in enumerate(called) if model in names]
        backward = [at for at, names in enumerate(called) if any(name.endswith(".backward") for name in names)]
        if last and len(backward) == 1 and forward and forward[-1] <= backward[0]:
            block = body[forward[0] : backward[0] + 1]
            line = say("with contextlib.nullcontext() if {last} else {model}.no_sync():", last=last, model=model)
            if all(own_lines(script, part) is not None for part in block):
                return put_under(script, block, line), ImportEdit(path=script.path, statement="import contextlib")
    return ()


def _last_of(script: Script, loop: Loop, body: list[ast.stmt]) -> str:
    """The condition around the optimizer's step, where it holds the same when the pass begins."""
    changed = {
        node.id
        for part in body
        for node in ast.walk(part)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    for event in loop.calls(".step"):
        lines = {guard.line for guard in event.guards if guard.kind is GuardKind.PERIOD}
        for node in enclosing(script, event.node):
            if isinstance(node, ast.If) and node in body and node.test.lineno in lines and not event.via:
                parts = list(ast.walk(node.test))
                read = {part.id for part in parts if isinstance(part, ast.Name)}
                if not read & changed and not any(isinstance(part, ast.Attribute) for part in parts):
                    return ast.unparse(node.test)
    return ""


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
    kinds = finding.detail_of(RedundantCollectivesDetail).kinds.split(",")
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
    detail = finding.detail_of(DataparallelDetail)
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
def backend_slow(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """NCCL for tensors on GPUs."""
    detail = finding.detail_of(BackendSlowDetail)
    keyword, span = str(detail.keyword), finding.span
    line = span.line if span is not None else 0
    edits = tuple(_backend_edits(finding, patient)) if detail.literal else ()
    steps = [
        say('Line {line}: {keyword}="nccl"', line=line, keyword=keyword)
        if edits
        else say("Launch with the backend nccl (line {line}).", line=line)
    ]
    steps.append(say("Each rank takes its own GPU first: torch.cuda.set_device(local_rank)."))
    yield remedy(
        "DIST006-nccl",
        f'{keyword}="nccl"',
        *steps,
        applicability=Applicability.UNSAFE,  # sums in another order
        effort=Effort.ONE_LINE if edits else Effort.SETTING,
        # from little on one node with few weights to several times
        sets=(("backend", "nccl"),),
        edits=edits,
        references=("https://pytorch.org/docs/stable/distributed.html#which-backend-to-use",),
    )


def _backend_edits(finding: Finding, patient: Patient) -> Iterator[Edit]:
    detail = finding.detail_of(BackendSlowDetail)
    span = finding.span
    if span is None:
        return
    if not detail.positional:
        keyword = str(detail.keyword)
        yield keyword_edit(span, set=((keyword, '"nccl"'),))
        return
    try:
        scripts = scripts_given(patient).scripts
    except Unavailable:
        return
    for script in scripts:
        for call in script.calls if script.path == span.path else ():
            if call.span == span and call.node.args and isinstance(call.node.args[0], ast.Constant):
                yield replace_node(script, call.node.args[0], '"nccl"')
                return


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
