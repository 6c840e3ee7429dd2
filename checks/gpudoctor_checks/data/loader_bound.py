"""DATA001 loader-bound."""

from collections.abc import Iterator
from statistics import median

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import Observation, suspicions
from gpudoctor.analysis.run.steady_run import Run, judged_by_share, spot, watched
from gpudoctor.analysis.source.device_tensors import Target, training_target
from gpudoctor.analysis.source.loaders import Loader, LoaderRole
from gpudoctor.analysis.source.sample_cost import ItemWork, item_work
from gpudoctor.analysis.workload import training_loaders
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Detail, Finding, Measurement, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Known, Source
from gpudoctor.text import count, duration, percent

WHOLE, CHEAP, DEAR, OWN = "whole", "cheap", "dear", "own"
"""What setting a number of workers would not mend: items that are only indexed one by one, batches that are
cheaper to make than to hand over, batches that are dear to hand over, batches of no DataLoader's."""
_CHEAP = 0.5
"""Part of the wait that making a batch takes at most where the training had better make it itself."""
_FULL = 0.9
"""Part of several CPUs in reach that is in use where a training with no fewer workers shares them."""
_HOT = 0.1
"""Share of the samples in the making of items from which on a line is named."""


_NO_WORK = 3.0
"""Factor on the time of a quick item where the source shows no work in it."""
_IN_MEMORY = frozenset({"TensorDataset"})
"""Data sets whose items are rows of tensors in memory: a worker would copy them twice."""


@frozen
class LoaderBoundDetail(Detail):
    """What the rule reads."""

    engine: bool
    """A trainer makes the loader, from arguments of its own."""
    settable: bool
    """An edit may set the keywords."""
    pinned: bool
    cuda: bool
    """It trains on a GPU."""
    workers: int | None = None
    """None where no run was seen."""
    iterable: bool | None = None
    """Its data set is a stream."""
    option: str | None = None
    """The option that the number of workers comes from."""
    chosen: str | None = None
    """What the program calls the number of workers."""
    handed: str | None = None
    """`whole`, `cheap`, `dear` or `own`: workers would not help."""
    batch_seconds: float | None = None
    """What a batch takes to make."""
    cpus_used: float | None = None
    """CPUs that the run used..."""
    cpus_reached: float | None = None
    """...and those that it could have used."""


class LoaderBound(Check):
    """The training process prepares its data itself, so the GPU waits for every batch.

    What it finds:
        A DataLoader with `num_workers=0` (torch's default) that feeds a training loop. Its data set or collate
        function does real work for each item: decoding, tokenising, parsing, a loop.
    Why it hurts:
        With no workers the same process prepares the batch and launches the GPU work, one after the other. A
        JPEG decode with augmentation needs 5 to 15 ms on one core. A batch of 32 needs 150 to 500 ms, while its
        training step may need 50 ms.
    How it knows:
        From the source: gpudoctor follows the loader to its loop. It follows the data set to its `__getitem__`,
        transforms and collate function. That is a suspicion; only a run shows the share. Work of about a
        millisecond per item is a warning: images, audio, video, tables, tokens. From a recording: the share of
        step time that the training thread waits for its next batch (median over ranks). Waits at the start of
        epochs are DATA003's finding.
    False alarms:
        A step that is far longer than the work for one batch hides the loss. Other work is a note. So is work
        of one of several optional data sets, or of a Trainer's collator. Not reported are tensors in memory,
        items that are only indexed, stacked or padded, and classes with an ambiguous name.
    Remedies:
        Use as many workers as the CPUs that this process may use, and keep them alive between epochs. Or do the
        work once before the training, and store the result. If the time goes to transferring batches, use no
        workers. Fetch whole batches by one index, or use tensors instead of objects. A generator of your own
        has no workers. Do the work before the loop, or put the generator into a DataLoader.
    References:
        - https://pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading
        - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#enable-asynchronous-data-loading-and-augmentation
    """

    code = Code("DATA001")
    name = "loader-bound"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING, Reads.PROCESS})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="workers",
            default=0,
            unit="{workers}",
            source="torch.utils.data: 0 means that the data is loaded in the main process",
            meaning="A loader with at most this many workers loads in the training process.",
        ),
        Threshold(
            name="random_elements",
            default=100_000,
            unit="{elements}",
            source="torch.randn draws about 100 million numbers a second on one core: 1 ms",
            meaning="Drawing this many random numbers for one item counts as real work.",
        ),
        *Threshold.note_and_warning(
            "Waiting for data for this share of a recorded run is",
            noted=0.10,
            warned=0.20,
            source="TraceML 10 %, XProf 5 %, train-doctor 15 %",
            source_warned="TraceML and XProf 20 %",
        ),
        Threshold(
            name="workers_busy",
            default=0.5,
            unit="1",
            source="convention: workers that are idle for half of their time keep up",
            meaning="If workers are busy for less of their time, a wait is a note: more workers do not help.",
        ),
        Threshold(
            name="item_seconds",
            default=5e-5,
            unit="s",
            source="measured: torch indexes and stacks rows of tensors at 10 to 40 µs an item",
            meaning="If a loader without workers makes items faster than this, it is a note: workers would "
            "gain little.",
        ),
        Threshold(
            name="wait_seconds",
            default=0.001,
            unit="s",
            source="measured: transferring a batch from a worker process costs 0.2 to 1 ms",
            meaning="A shorter wait per step is at most a note: workers cannot shorten it.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            yield from self._live(patient, window)
            return
        run = judged_by_share(patient, self.limit("share_warned"), "data_wait")
        suspected = suspicions(lambda: self._in_source(patient), run)
        yield from self._measured(patient, run, suspected) if run else suspected

    def _live(self, patient: Patient, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """The wait in the samples of a watched process: no call of it could be edited."""
        if of_run.workers_stand_still(window):
            return  # a hang, or a disk that does not answer
        seen = of_run.waiting_live(window)
        severity = seen.level(self)
        if severity is None:
            return
        covered, busy = of_run.hidden(window), of_run.device_busy(window)
        cause = say("the GPU has work queued meanwhile, so little is lost") if covered else _cause(window, seen)
        how = "nvidia-smi dmon -s u"
        yield seen.finding(
            self,
            say("The training waits for its next batch, {words}; {cause}.", words=seen.words, cause=cause),
            name="data_wait_share",
            severity=Severity.NOTE if covered else severity,
            suspected=suspicions(lambda: self._in_source(patient), seen),
            detail=LoaderBoundDetail(
                engine=of_run.loader_call(patient, None).engine,
                settable=False,
                pinned=True,
                cuda=bool(of_run.job_gpus(window)),
                workers=of_run.most_workers(window),
            ),
            numbers=()
            if busy is None
            else (Measurement(name="gpu_busy_share", value=round(busy, 4), unit="1", reproduce=how),),
        )

    def _measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        waits = [of_run.waiting(state.process) for state in run.states]
        share = median(wait.always for wait in waits)
        each = median(wait.per_step for wait in waits)
        worth = run.worth(share, "data_wait")
        severity = self.level(worth)
        if severity is None:
            return
        process = run.lead.process
        loader, busy = of_run.training_loader(process), of_run.workers(run.recording, process.rank)
        idle = busy is not None and busy.busy < self.limit("workers_busy")
        light = share * run.lead.step_seconds < self.limit("wait_seconds") or idle
        quick = self._quick(loader, run, each, bool(suspected))
        alone = loader is not None and not loader.workers
        evaluating = all(item.get("role") == "evaluation" for item in process.of("loader"))
        if evaluating and not suspected:  # the steps' batches come from no DataLoader
            handed = OWN
        elif quick or (light and alone):
            handed = WHOLE
        else:
            # Where workers keep up and the training waits all the same: would it make the batch faster by itself?
            quicker = busy is not None and 0 < busy.batch_seconds < _CHEAP * each
            handed = (CHEAP if quicker else DEAR) if idle else ""
        used = of_run.cpu_use(run.recording)
        few = used is not None and loader is not None and used.reach <= loader.workers
        shared = used if few and used is not None and (used.reach < 2 or used.job >= _FULL * used.reach) else None
        if shared and handed == DEAR:
            handed = ""
        if light or quick:
            severity = Severity.NOTE
        makers = of_run.item_lines(run.recording, process, lambda place: of_run.heads_loop(patient, place))
        made_at = loader.place if loader is not None else None
        call = of_run.loader_call(patient, made_at, "num_workers", "pin_memory")
        spans = of_run.loader_spans(patient, made_at)
        spans += [spot(patient, item.place) for item in makers if item.share >= _HOT][:3]
        spans += of_run.callers(patient, spans[1:2])
        yield of_run.seen_in_run(run, worth, spans).finding(
            self,
            say(
                "The training waits for its next batch {share} of the time, {each} of a step of "
                "{step_seconds}{how}{whose}.",
                share=percent(share),
                each=duration(each),
                step_seconds=duration(run.lead.step_seconds),
                how=_how(loader, busy, shared, _setting(call), crowded=of_run.crowd(run.recording) is not None),
                whose=of_run.at(spans[1:]),
            ),
            name="data_wait_share",
            severity=severity,
            suspected=suspected,
            detail=LoaderBoundDetail(
                engine=call.engine,
                settable=call.settable,
                option=call.option,
                chosen=call.chosen,
                pinned=loader is None or loader.pinned,
                cuda=bool(run.lead.known("device_forward")),
                workers=loader.workers if loader is not None else 0,
                handed=handed,
                iterable=loader is not None and loader.iterable,
                batch_seconds=busy.batch_seconds if busy is not None else 0.0,
                cpus_used=used.job if used is not None else None,
                cpus_reached=used.reach if used is not None else None,
            ),
        )

    def _quick(self, loader: "of_run.LoaderFacts | None", run: Run, seconds: float, works: bool) -> bool:
        """Whether the items of a loader without workers cost what handing them over would.

        Where the source shows no work in them either, a busy machine is what makes them slow.
        """
        if loader is None or loader.workers or not loader.batch_size:
            return False
        items = loader.batch_size * max(1.0, run.per_step("batches"))
        least = self.limit("item_seconds") * (1.0 if works else _NO_WORK)
        return loader.dataset in _IN_MEMORY or seconds < items * least

    def _in_source(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        if not source.trains:
            return
        for loader in training_loaders(patient):
            if loader.role is LoaderRole.TRAINING:
                yield from self._from_source(loader, item_work(source, loader))

    def _from_source(self, loader: Loader, work: tuple[ItemWork, ...]) -> Iterator[Finding]:
        told = loader.workers
        if not isinstance(told, Known) or isinstance(told.value, str | tuple) or told.value is None:
            return
        if told.value > self.limit("workers"):
            return
        least = self.limit("random_elements")
        counted = [item for item in work if item.elements is None or item.elements >= least]
        if not counted:
            return
        heavy = sorted(
            [item for item in counted if not item.light] or counted, key=lambda item: not _felt(loader, item)
        )
        origin = "" if told.origin == "literal" else say(" ({origin})", origin=told.origin)
        first = heavy[0]
        more = say(" and does {heavy} more such operations", heavy=len(heavy) - 1) if len(heavy) > 1 else ""
        kind = loader.call.method if loader.engine else loader.label
        place = f"{first.span.path.rpartition('/')[2]}:{first.span.line}"
        items = say("every item")
        felt = _felt(loader, first)
        unknown = "" if felt or first.light else say(". Only a run shows how long that takes compared with a step")
        yield self.finding(
            say(
                "{kind} has {setting}={value}{origin}: the training process itself {what} "
                "for {items} ({place}){more}, and the training waits meanwhile{unknown}.",
                kind=kind,
                setting=_setting(loader),
                value=int(told.value),
                origin=origin,
                what=first.what,
                items=items,
                place=place,
                more=more,
                unknown=unknown,
            ),
            evidence=(loader.call.span, *(item.span for item in heavy[:4])),
            severity=Severity.WARNING if felt else Severity.NOTE,
            detail=LoaderBoundDetail(
                engine=loader.engine,
                settable=loader.settable("num_workers", "persistent_workers", "pin_memory"),
                chosen=loader.chosen("num_workers"),
                iterable=any(item.iterable for item in heavy),
                option=told.origin,
                pinned=not isinstance(loader.pinned, Known) or bool(loader.pinned.value),
                cuda=training_target(Source(scripts=(loader.script,))) in (Target.CUDA, Target.MAYBE),
            ),
        )


def _felt(loader: Loader, item: ItemWork) -> bool:
    """Whether work is felt beside any step: dear, of the data set that is drawn from, and not an engine's few
    rows collated beside the step of a large model."""
    return item.dear and not item.chosen and not (loader.engine and item.collated)


def _setting(made: "Loader | of_run.LoaderCall") -> str:
    """What the program calls the number of workers."""
    return "dataloader_num_workers" if made.engine else "num_workers"


def _how(
    loader: "of_run.LoaderFacts | None",
    busy: "of_run.WorkerActivity | None",
    shared: "of_run.CpuUse | None",
    setting: str,
    *,
    crowded: bool,
) -> str:
    """Who prepares the batches, as a clause. `crowded`: other processes kept the CPUs busy; `shared`: the CPUs
    that the training and its workers kept busy themselves."""
    if loader is None:
        return ""
    if loader.workers == 0:
        return say("; it prepares them itself ({setting}=0)", setting=setting)
    one = loader.workers == 1
    late = (
        say("; its worker does not keep up")
        if one
        else say("; {workers} workers do not keep up", workers=loader.workers)
    )
    if busy is None:
        return late
    if busy.busy < 0.5:
        who = say("worker is busy") if one else say("{workers} workers are busy", workers=loader.workers)
        whose = say("its") if one else say("their")
        if crowded:  # who waits for a CPU hands over late, too
            return say(
                "; its {who} {busy} of {whose} time, and other processes kept all CPUs busy",
                who=who,
                busy=percent(busy.busy),
                whose=whose,
            )
        if shared is not None:  # and so does who waits for the training's own CPU
            return say(
                "; its {who} {busy} of {whose} time, and share {cpus} with the training",
                who=who,
                busy=percent(busy.busy),
                whose=whose,
                cpus=count(round(shared.reach), "CPU"),
            )
        return say(
            "; its {who} {busy} of {whose} time: the time goes to transferring batches",
            who=who,
            busy=percent(busy.busy),
            whose=whose,
        )
    return say(
        "{late}, {busy} of {its} time busy", late=late, busy=percent(busy.busy), its=say("its") if one else say("their")
    )


def _cause(window: "of_run.ProcessWindow", seen: Observation) -> str:
    """Why, as a clause: who makes the batches, and whether they are busy."""
    inline = [place for place in seen.places if place.kind in of_run.INLINE]
    count = sum(place.count for place in seen.places)
    if sum(place.count for place in inline) * 2 >= count > 0:
        return say("the process makes every item itself{where}", where=of_run.where(inline))
    makers = [worker for rank in window.ranks for worker in rank.workers]
    if not makers:
        return say("it stands{where}", where=of_run.where(seen.places))
    busy = [worker.cpu for worker in makers if worker.cpu == worker.cpu]
    load = say(", busy for {busy}", busy=percent(min(1.0, sum(busy) / len(busy)))) if busy else ""
    return say(
        "{makers} workers make the items{load}{where}",
        makers=len(makers),
        load=load,
        where=of_run.where(window.worker_places),
    )
