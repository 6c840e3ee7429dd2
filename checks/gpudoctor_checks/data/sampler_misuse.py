"""DATA008 sampler-misuse."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed, suspicions
from gpudoctor.analysis.run.steady_run import Run, judged, script_at, sites_of, source_of, spots
from gpudoctor.analysis.source.control_flow import enclosing, holds, switched_off
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.loaders import Loader, LoaderRole, loaders
from gpudoctor.analysis.source.syntax import FunctionNode, keyword_value, walk, without_comments
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Cost, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.source import Call, Known, Loop, LoopRole, Script, Source

_WRAPS = frozenset(
    {
        "torch.nn.parallel.DistributedDataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.distributed.fsdp.fully_shard",
        "torch.distributed._composable.fsdp.fully_shard",
        "apex.parallel.DistributedDataParallel",
    }
)
_ENGINES = frozenset(
    {"accelerate", "lightning", "pytorch_lightning", "trl", "deepspeed", "colossalai",
     "composer",
     "ray", "horovod", "webdataset", "fastai", "ignite", "catalyst", "mmengine", "mmcv", "nvidia", "ffcv",
     "detectron2", "fairseq", "megatron", "torchdata", "streaming", "litdata", "dgl", "torch_geometric"}
)  # fmt: skip
"""Packages with loaders or a loop that split the data between ranks."""
_SPLITS = re.compile(
    r"DistributedSampler|DistributedBatchSampler|DistributedWeighted|RASampler"
    r"|split_dataset_by_node|\.shard\(|num_shards|num_replicas"
    r"|(?:world_size|get_rank\(\)|\brank\b|local_rank|replica)\w*\s*::|::\s*\w*(?:world_size|num_replicas)"
    r"|init_device_mesh|DeviceMesh|parallelize_module|pipelin|torch\.distributed\.rpc|IterableDataset"
)
"""Words of programs that split their data themselves, or that must not split it (tensor, pipeline parallel)."""
_REDUCES = frozenset({"torch.distributed.all_reduce", "torch.distributed.all_reduce_coalesced"})
_GRADIENT = re.compile(r"\.grad\b|grad(?:ient)?s\b")
_NOT_BY_DATA = re.compile(
    r"init_device_mesh|DeviceMesh|parallelize_module|pipelin|torch\.distributed\.rpc|all_gather|AllGather"
    r"|tensor_parallel|sequence_parallel|context_parallel"
)
"""Words of programs whose ranks share a batch, or a loss over the batches of all (a contrastive one)."""
_TRAINER = re.compile(r"transformers\.\w*Trainer$")
_OWN_RANK = re.compile(r"(?:\b|_)rank\b|world_size|local_rank|gpu_id|process_index")
_SAMPLER = "torch.utils.data.DistributedSampler"
_TORCH_SAMPLERS = ("RandomSampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler",
                   "DistributedSampler")  # fmt: skip


@frozen
class SamplerMisuseDetail(Detail):
    """What the rule reads."""

    kind: str
    """`twice`, `unsplit` or `order`."""
    dataset: str = ""
    """As written."""
    sampler: str = ""
    """Its name."""
    epoch: str = ""
    """What counts the epochs."""
    loop_line: int = 0
    """Of the loop over epochs; 0 where there is none."""
    loop_path: str = ""
    loader: str = ""
    """Its name."""


class SamplerMisuse(Check):
    """A distributed job does not split or reshuffle its data as it should.

    What it finds:
        - A program that wraps its model in DistributedDataParallel or FSDP and whose training loader has no
          DistributedSampler.
        - One that has it but never calls `set_epoch`, in a loop over epochs.
        - `shuffle=True` together with a sampler.

        Gradients that the program averages itself with `all_reduce` count as well. In a recording: ranks whose
        losses are equal, bit for bit, in every step.
    Why it hurts:
        Without the sampler every rank reads the whole data set: N GPUs repeat the work of one, N times. Without
        `set_epoch` each epoch repeats the order of the first, batch by batch. With a sampler and `shuffle=True`
        the DataLoader raises ValueError.
    How it knows:
        From the source: what wraps the model, and the arguments of the training loader. Also whether the
        program splits data by rank. From a recording: the losses of the ranks. All ranks have the same weights,
        so different samples give different losses. A recording can confirm that a set is not split, but cannot
        refute it. Ranks may read the same set in different orders.
    False alarms:
        A data set that splits itself in code that gpudoctor does not read. Programs on accelerate, Lightning,
        the HF Trainer, DeepSpeed and other engines are not reported. Neither are iterable and sharded sets,
        custom samplers, and tensor and pipeline parallelism.
    Remedies:
        `sampler=DistributedSampler(dataset)` instead of `shuffle=True`; `sampler.set_epoch(epoch)` as the first
        line of each epoch.
    References:
        - https://pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
        - https://pytorch.org/tutorials/intermediate/ddp_tutorial.html
    """

    code = Code("DATA008")
    name = "sampler-misuse"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="steps",
            default=20,
            unit="{steps}",
            source="convention: correctness counts in events",
            meaning="Equal losses of all ranks in fewer steps of a recording are not judged.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient, 1)
        suspected = suspicions(lambda: self._suspected(patient.source), run)
        same = of_run.same_losses(run.recording) if run is not None else 0
        if run is None or same < self.limit("steps") or not _by_data(patient, run):
            yield from suspected
            return
        yield self._same(
            patient, run, same, [item for item in suspected if item.detail_of(SamplerMisuseDetail).kind == "unsplit"]
        )
        yield from (item for item in suspected if item.detail_of(SamplerMisuseDetail).kind != "unsplit")

    def _same(self, patient: Patient, run: Run, same: int, suspected: list[Finding]) -> Finding:
        """What the losses prove, whatever the source shows."""
        made = [item for item in run.lead.process.of("loader") if item.get("role") == "training"][:1]
        ranks = sum(len(process.steps) > 0 for process in run.recording.ranks)
        return confirmed(
            self,
            suspected,
            say(
                "All {ranks} ranks train on the same batches. Their losses are equal, bit for bit, in all "
                "{steps} steps compared.",
                ranks=ranks,
                steps=same,
            ),
            evidence=(
                *spots(patient, *map(of_run.place_of, made)),
                run.measured("equal_losses", float(same), "{steps}"),
            ),
            severity=Severity.WARNING,
            cost=Cost(breaks=say("{ranks} ranks repeat the work of one", ranks=ranks)),
            detail=None if suspected else SamplerMisuseDetail(kind="unsplit"),
        )

    def _suspected(self, source: Source) -> Iterator[Finding]:
        for loader in loaders(source):
            if not loader.engine:
                found = self._twice(loader)
                if found is None and loader.role is LoaderRole.TRAINING:
                    found = self._in_programs(source, loader)
                if found is not None:
                    yield found

    def _in_programs(self, source: Source, loader: Loader) -> Finding | None:
        """The finding that holds in every program that builds this loader."""
        programs = [item for item in training_programs(source) if loader.script in item.scripts]
        engines = (item.roots & _ENGINES or any(map(_TRAINER.match, item.called)) for item in programs)
        if not programs or any(engines) or switched_off(programs[0].source, loader.call):
            return None
        found = [self._unsplit(item, loader) or self._same_order(item, loader) for item in programs]
        return found[0] if all(found) else None

    def _twice(self, loader: Loader) -> Finding | None:
        """A sampler and a shuffle: certain where a plain call makes the sampler."""
        shuffle, sampler = loader.call.keywords.get("shuffle"), keyword_value(loader.call.node, "sampler")
        on = isinstance(shuffle, Known) and shuffle.value is True and shuffle.origin == "literal"
        if sampler is None or not on:
            return None
        made = [call for call in loader.script.calls if call.node in _values(loader, sampler)]
        if (
            len(made) != 1
            or made[0].method not in _TORCH_SAMPLERS
            or loader.call.guards
            or not all(map(holds, made[0].guards))
        ):
            return None
        return self.finding(
            say("{loader} has a sampler and shuffle=True: DataLoader raises ValueError.", loader=loader.label),
            evidence=(loader.call.span,),
            severity=Severity.ERROR,
            cost=Cost(breaks=say("DataLoader refuses sampler and shuffle together")),
            detail=SamplerMisuseDetail(kind="twice"),
        )

    def _unsplit(self, program: Program, loader: Loader) -> Finding | None:
        wraps = _parallel(program)
        if not wraps:
            return None
        if any(_SPLITS.search(without_comments(script)) for script in program.scripts) or _custom(program, loader):
            return None
        wrap = wraps[0]
        how = say("runs one process a GPU") if wrap.name in _WRAPS else say("averages the gradients of all ranks")
        condition = _open_condition(wrap)
        elsewhere = wrap.span.path != loader.call.span.path
        return self.finding(
            say(
                "{loader} has no DistributedSampler while {method} {how}{condition}: "
                "every rank trains on the whole data set.",
                loader=loader.label,
                method=wrap.method,
                how=how,
                condition=condition,
            ),
            evidence=(loader.call.span, wrap.span),
            # A loader of one module and an optional wrapper of another: whether they meet, only a run tells.
            severity=Severity.NOTE if condition and elsewhere else None,
            detail=replace(_place(program, loader, "unsplit"), dataset=_text(loader.dataset)),
        )

    def _same_order(self, program: Program, loader: Loader) -> Finding | None:
        sampler = keyword_value(loader.call.node, "sampler")
        made = [node for node in _values(loader, sampler) if isinstance(node, ast.Call)] if sampler else []
        call = next((call for call in loader.script.calls if call.node in made and call.name == _SAMPLER), None)
        if call is None or switched_off(program.source, call):
            return None
        words = ("set_epoch", ".epoch = ")
        if any(word in without_comments(script) for script in program.scripts for word in words):
            return None
        shuffle = call.argument("shuffle", 3)
        if shuffle is not None and not (isinstance(shuffle, Known) and shuffle.value is True):
            return None
        place = _epochs(program, loader)
        if place is None:
            return None
        _, loop, _ = place
        name = _text(sampler) if isinstance(sampler, ast.Name) else ""
        return self.finding(
            say(
                "{name} shuffles, and the program never calls set_epoch. Each epoch of the loop at line {loop_line} "
                "repeats the order of the first{open_condition}.",
                name=name or say("The DistributedSampler"),
                loop_line=loop.line,
                open_condition=_open_condition(call),
            ),
            evidence=(call.span, loop),
            detail=replace(_place(program, loader, "order"), sampler=name),
        )


def _open_condition(call: Call) -> str:
    """A clause with the condition that a call waits for and that the source leaves open; "" without one."""
    left = [guard.text for guard in call.guards if not isinstance(guard.value, Known) and not guard.mostly]
    return say(" (if `{left}`)", left=left[-1]) if left else ""


def _parallel(program: Program) -> list[Call]:
    """What makes the program data-parallel: wrappers of the model, else gradients that it averages itself."""
    calls = [call for _, call in program.calls if not any(guard.never for guard in call.guards)]
    wraps = [call for call in calls if call.name in _WRAPS]
    return wraps or [
        call
        for call in calls
        if call.name in _REDUCES and call.node.args and _GRADIENT.search(_text(call.node.args[0]))
    ]


def _by_data(patient: Patient, run: Run) -> bool:
    """Whether the ranks share nothing but gradients, so that equal losses come from equal samples."""
    source = source_of(patient)
    wrapped = any(item.get("wrapped") == "DDP" for item in run.lead.process.of("model"))
    if source is not None:
        if any(_NOT_BY_DATA.search(without_comments(script)) for script in source.scripts):
            return False
        wrapped = wrapped or any(_parallel(program) for program in training_programs(source))
    for site in sites_of(run, "collective"):
        if not of_run.by_parallelism(site) and site.steps > 1:
            script = script_at(patient, site.place.path)
            whole = of_run.statement_at(script, site.place.line) if script is not None else None
            if whole is None or not _GRADIENT.search(_text(whole)):
                return False
    return wrapped


def _place(program: Program, loader: Loader, kind: str) -> SamplerMisuseDetail:
    """The loop over epochs: where a `set_epoch` goes."""
    place = _epochs(program, loader)
    if place is None:
        return SamplerMisuseDetail(kind=kind)
    script, span, counts = place
    return SamplerMisuseDetail(
        kind=kind,
        epoch=counts,
        loop_line=span.line,
        loop_path=script.path,
        loader=loader.names[0] if loader.names else "",
    )


def _values(loader: Loader, node: ast.expr) -> list[ast.expr]:
    """What an expression is, or what its name is bound to in the same function (or module)."""
    if not isinstance(node, ast.Name):
        return [node]
    scope = next((item for item in enclosing(loader.script, loader.call.node)
                  if isinstance(item, FunctionNode)), loader.script.tree)  # fmt: skip
    return [
        value
        for item in walk(scope)
        if isinstance(item, ast.Assign)
        for target in item.targets
        for value in _bound_to(target, item.value, node.id)
    ]


def _bound_to(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr]:
    """What an assignment binds to a name, in a tuple too; the whole value where its parts cannot be told."""
    if isinstance(target, ast.Tuple | ast.List):
        parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        for place, part in enumerate(target.elts):
            yield from _bound_to(part, parts[place] if len(parts) == len(target.elts) else value, name)
    elif _text(target) == name:
        yield value


def _custom(program: Program, loader: Loader) -> bool:
    """Whether the loader is given a sampler or batches of somebody's own, or a data set that knows its rank."""
    if loader.call.open_ended:
        return True
    for name in ("sampler", "batch_sampler"):
        value = loader.argument(name)
        if not (isinstance(value, Known) and value.value is None):
            return True
    dataset = loader.dataset
    if dataset is None or _OWN_RANK.search(_text(loader.call.node)):
        return True
    made, seen = [dataset], set[str]()
    for node in made:  # it grows by what the names in it are made of
        if _OWN_RANK.search(_text(node)):
            return True
        names = [part for part in walk(node) if isinstance(part, ast.Name) and part.id not in seen]
        seen.update(name.id for name in names)
        made += [value for name in names for value in _values(loader, name)]
    # A loader made in a function that is told its rank may do anything with it.
    short = loader.call.function.rpartition(".")[2]
    makers = [call for _, call in program.calls if short and call.method == short]
    given = [item for call in makers for item in (*call.node.args, *(k.value for k in call.node.keywords))]
    return "data" in short.lower() and any(_OWN_RANK.search(_text(item)) for item in given)


def _epochs(program: Program, loader: Loader) -> tuple[Script, SourceSpan, str] | None:
    """The loop over epochs around the loader's training loop, and the name that counts them."""
    for script, loop in loader.loops:
        if loop.role is not LoopRole.TRAINING:
            continue
        around = [item for item in loop.parents if item.role is LoopRole.EPOCHS]
        if around:
            return _counted(script, around[-1])
        short = loop.function.rpartition(".")[2]
        for other in program.scripts:
            for epochs in other.loops:
                body = "\n".join(other.text.split("\n")[epochs.span.line : epochs.end_line])
                if short and f"{short}(" in body and epochs.role is LoopRole.EPOCHS:
                    return _counted(other, epochs)
    return None


def _counted(script: Script, loop: Loop) -> tuple[Script, SourceSpan, str] | None:
    if not loop.iterates or re.fullmatch(r"range\((?:0, ?)?1\)", loop.iterates):
        return None
    counts = len(loop.targets) == 1 and "range" in loop.iterates
    return script, loop.span, loop.targets[0] if counts else ""


def _text(node: ast.AST | None) -> str:
    return ast.unparse(node) if node is not None else ""
