"""DATA008 sampler-misuse."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import Run, sites_of, source_of, spots
from gpudoctor.analysis.source.control_flow import enclosing, switched_off
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.loaders import Loader, LoaderRole, loaders
from gpudoctor.analysis.source.parallelism import DDP, SHARDED, wrappers
from gpudoctor.analysis.source.syntax import FunctionNode, keyword_value, says
from gpudoctor.lang import say
from gpudoctor.model import Cost, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.source import Call, Known, Loop, LoopRole, Script, Source
from gpudoctor_checks.run_check import RunCheck

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
_NOT_BY_DATA = re.compile(
    r"init_device_mesh|DeviceMesh|parallelize_module|pipelin|torch\.distributed\.rpc|all_gather|AllGather"
    r"|tensor_parallel|sequence_parallel|context_parallel"
)

"""Words of programs whose ranks share a batch, or a loss over the batches of all (a contrastive one)."""
_TRAINER = re.compile(r"transformers\.\w*Trainer$")
_OWN_RANK = re.compile(r"(?:\b|_)rank\b|world_size|local_rank|gpu_id|process_index")
_SETS_EPOCH = re.compile(r"set_epoch|\.epoch\s*=(?!=)")
_SAMPLER = "torch.utils.data.DistributedSampler"


@frozen
class SamplerMisuseDetail(Detail):
    """What the rule reads."""

    kind: str
    """`unsplit` or `order`."""
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


class SamplerMisuse(RunCheck):
    """A distributed job does not split or reshuffle its data as it should.

    What it finds:
        - A program that wraps its model in DistributedDataParallel or FSDP and whose training loader has no
          DistributedSampler.
        - One that has it but never calls `set_epoch`, in a loop over epochs.
        - In a recording: ranks whose losses are equal, bit for bit, in every step.
    Why it hurts:
        Without the sampler every rank reads the whole data set: N GPUs repeat the work of one, N times. Without
        `set_epoch` each epoch repeats the order of the first, batch by batch.
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

    least_steps = 1
    code = "DATA008"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    thresholds = (
        Threshold(
            "steps",
            20,
            "{steps}",
            "convention: correctness counts in events",
            "Equal losses of all ranks in fewer steps of a recording are not judged.",
        ),
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        same = of_run.same_losses(run.recording)
        if same < self.limit("steps") or not _by_data(patient, run):
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

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        for loader in loaders(source):
            if not loader.engine and loader.role is LoaderRole.TRAINING:
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

    def _unsplit(self, program: Program, loader: Loader) -> Finding | None:
        wraps = wrappers(program, DDP | SHARDED)
        if not wraps:
            return None
        if any(says(script, _SPLITS) for script in program.scripts) or _custom(loader):
            return None
        wrap = wraps[0][1]
        condition = _open_condition(wrap)
        elsewhere = wrap.span.path != loader.call.span.path
        return self.finding(
            say(
                "{loader} has no DistributedSampler while {method} runs one process a GPU{condition}: "
                "every rank trains on the whole data set.",
                loader=loader.label,
                method=wrap.method,
                condition=condition,
            ),
            evidence=(loader.call.span, wrap.span),
            # A loader of one module and an optional wrapper of another: whether they meet, only a run tells.
            severity=Severity.NOTE if condition and elsewhere else None,
            detail=replace(_place(program, loader, "unsplit"), dataset=_text(loader.dataset)),
        )

    def _same_order(self, program: Program, loader: Loader) -> Finding | None:
        sampler = keyword_value(loader.call.node, "sampler")
        made = loader.script.written(sampler) if sampler is not None else None
        call = next((call for call in loader.script.calls_to(_SAMPLER) if call.node is made), None)
        if call is None or switched_off(program.source, call):
            return None
        if any(says(script, _SETS_EPOCH) for script in program.scripts):
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


def _by_data(patient: Patient, run: Run) -> bool:
    """Whether the ranks share nothing but gradients, so that equal losses come from equal samples."""
    source = source_of(patient)
    if source is not None and any(says(script, _NOT_BY_DATA) for script in source.scripts):
        return False
    if any(site.steps > 1 and not of_run.by_parallelism(site) for site in sites_of(run, "collective")):
        return False
    return any(item.get("wrapped") == "DDP" for item in run.lead.process.of("model"))


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


def _custom(loader: Loader) -> bool:
    """Whether the loader is given a sampler or batches of somebody's own, or a data set that knows its rank."""
    samplers = [loader.argument(name) for name in ("sampler", "batch_sampler")]
    plain = all(isinstance(value, Known) and value.value is None for value in samplers)
    if loader.call.open_ended or loader.dataset is None or not plain:
        return True
    made = [loader.dataset, loader.script.written(loader.dataset)]
    scope = next((item for item in enclosing(loader.script, loader.call.node) if isinstance(item, FunctionNode)), None)
    own = scope is not None and _OWN_RANK.search(_text(scope.args)) is not None
    return own or any(_OWN_RANK.search(_text(node)) for node in (loader.call.node, *made))


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
