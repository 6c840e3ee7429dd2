"""DATA001 loader-bound."""

from collections.abc import Iterator
from statistics import median

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import Observation, suspicions
from gpudoctor.analysis.run.steady_run import Run, judged_by_share, spot
from gpudoctor.analysis.source.device_tensors import Target, training_target
from gpudoctor.analysis.source.loaders import Loader, LoaderRole
from gpudoctor.analysis.source.sample_cost import ItemWork, item_work
from gpudoctor.analysis.workload import training_loaders
from gpudoctor.lang import say
from gpudoctor.model import Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Known, Source
from gpudoctor.text import count, duration, percent
from gpudoctor_checks.run_check import RunCheck

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
    handed: bool = False
    """Workers would not help: the time goes to handing batches over."""
    own: bool = False
    """The batches come from no DataLoader."""
    cpus_used: float | None = None
    """CPUs that the run used..."""
    cpus_reached: float | None = None
    """...and those that it could have used."""


class LoaderBound(RunCheck):
    """The training process prepares its data itself, so the GPU waits for every batch.

    What it finds:
        A DataLoader with `num_workers=0` (torch's default) that feeds a training loop. Its data set or collate
        function does real work for each item: decoding, tokenising, parsing, a loop.
    Why it hurts:
        With no workers the same process prepares the batch and launches the GPU work, one after the other. A
        JPEG decode with augmentation needs 5 to 15 ms on one core.
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
        work once before the training, and store the result. If the time goes to transferring batches, fetch
        whole batches by one index, or use tensors instead of objects.
    References:
        - https://pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading
        - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#enable-asynchronous-data-loading-and-augmentation
    """

    code = "DATA001"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        *Threshold.note_and_warning(
            "Waiting for data for this share of a recorded run is",
            noted=0.10,
            warned=0.20,
            source="TraceML 10 %, XProf 5 %, train-doctor 15 %",
            source_warned="TraceML and XProf 20 %",
        ),
        Threshold(
            "workers_busy",
            0.5,
            "1",
            "convention: workers that are idle for half of their time keep up",
            "If workers are busy for less of their time, a wait is a note: more workers do not help.",
        ),
        Threshold(
            "item_seconds",
            5e-5,
            "s",
            "measured: torch indexes and stacks rows of tensors at 10 to 40 µs an item",
            "If a loader without workers makes items faster than this, it is a note: workers would gain little.",
        ),
        Threshold(
            "wait_seconds",
            0.001,
            "s",
            "measured: transferring a batch from a worker process costs 0.2 to 1 ms",
            "A shorter wait per step is at most a note: workers cannot shorten it.",
        ),
    )

    def run(self, patient: Patient) -> Run | None:
        """A short one too, if it shows that the training waits."""
        return judged_by_share(patient, self.limit("share_warned"), "data_wait")

    def live(self, patient: Patient, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """The wait in the samples of a watched process: no call of it could be edited."""
        if of_run.workers_stand_still(window):
            return  # a hang, or a disk that does not answer
        seen = of_run.waiting_live(window)
        severity = seen.level(self)
        if severity is None:
            return
        covered = of_run.hidden(window)
        cause = say("the GPU has work queued meanwhile, so little is lost") if covered else _cause(window, seen)
        yield seen.finding(
            self,
            say("The training waits for its next batch, {words}; {cause}.", words=seen.words, cause=cause),
            name="data_wait_share",
            severity=Severity.NOTE if covered else severity,
            suspected=suspicions(lambda: self.suspected(patient), seen),
            detail=LoaderBoundDetail(
                engine=of_run.loader_call(patient, None).engine,
                settable=False,
                pinned=True,
                cuda=bool(of_run.job_gpus(window)),
                workers=of_run.most_workers(window),
            ),
        )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
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
        own = not suspected and all(item.get("role") == "evaluation" for item in process.of("loader"))
        used = of_run.cpu_use(run.recording)
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
                how=_how(loader, busy, _setting(call)),
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
                handed=not own and (quick or idle or (light and alone)),
                own=own,
                iterable=loader is not None and loader.iterable,
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

    def suspected(self, patient: Patient) -> Iterator[Finding]:
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
        if told.value > 0:
            return
        if not work:
            return
        heavy = sorted([item for item in work if not item.light] or work, key=lambda item: not _felt(loader, item))
        origin = "" if told.origin == "literal" else say(" ({origin})", origin=told.origin)
        first = heavy[0]
        more = say(" and does {heavy} more such operations", heavy=len(heavy) - 1) if len(heavy) > 1 else ""
        kind = loader.call.method if loader.engine else loader.label
        place = f"{first.span.path.rpartition('/')[2]}:{first.span.line}"
        felt = _felt(loader, first)
        unknown = "" if felt or first.light else say(". Only a run shows how long that takes compared with a step")
        yield self.finding(
            say(
                "{kind} has {setting}={value}{origin}: the training process itself {what} "
                "for every item ({place}){more}, and the training waits meanwhile{unknown}.",
                kind=kind,
                setting=_setting(loader),
                value=int(told.value),
                origin=origin,
                what=first.what,
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
    return item.dear and not (loader.engine and item.collated)


def _setting(made: "Loader | of_run.LoaderCall") -> str:
    """What the program calls the number of workers."""
    return "dataloader_num_workers" if made.engine else "num_workers"


def _how(loader: "of_run.LoaderFacts | None", busy: "of_run.WorkerActivity | None", setting: str) -> str:
    """Who prepares the batches, as a clause."""
    if loader is None:
        return ""
    if loader.workers == 0:
        return say("; it prepares them itself ({setting}=0)", setting=setting)
    workers = count(loader.workers, "worker")
    if busy is None:
        return say("; it has {workers}", workers=workers)
    return say("; it has {workers}, busy for {busy} of the time", workers=workers, busy=percent(busy.busy))


def _cause(window: "of_run.ProcessWindow", seen: Observation) -> str:
    """Why, as a clause: who makes the batches, and whether they are busy."""
    inline = [place for place in seen.places if place.kind in of_run.INLINE]
    if sum(place.count for place in inline) * 2 >= sum(place.count for place in seen.places) > 0:
        return say("the process makes every item itself{where}", where=of_run.where(inline))
    makers = [worker for rank in window.ranks for worker in rank.workers]
    if not makers:
        return say("it stands{where}", where=of_run.where(seen.places))
    busy = [min(1.0, worker.cpu) for worker in makers if worker.cpu == worker.cpu]
    load = say(", busy for {busy}", busy=percent(sum(busy) / len(busy))) if busy else ""
    where = of_run.where(window.worker_places)
    return say("{makers} workers make the items{load}{where}", makers=len(makers), load=load, where=where)
